"""The renderer of results: what is printed of a number, and what is bold, italic or signed."""

import numpy as np
import pandas as pd

from dmlrc.report.results_table import GAP, LIFT, results_table, with_foot


def scores(**columns):
    rows = {"row": ["A", "B", "C"], "column": [("CUB", "P@1")] * 3, "mean": [0.5, 0.6, 0.55]}
    return pd.DataFrame(rows | columns)


def test_a_number_has_its_interval_ranks_and_signs():
    cells, _ = results_table(
        scores(
            half=[0.01, np.nan, 0.02],
            rank_low=[2, 1, np.nan],
            rank_high=[3, 1, np.nan],
            untrained=0.55,
            cut_off=[0, 1, 0],
        ),
        digits=1,
    )
    assert cells["CUB", "P@1"].to_dict() == {"A": "50.0 ± 1.0 (2–3) ↓", "B": "60.0 (1) »", "C": "55.0 ± 2.0"}


def test_the_interval_of_a_score_ends_where_the_scale_does():
    frame = scores(mean=[0.9881, 0.02, 0.5], half=[0.1513, 0.05, 0.1])
    cells, _ = results_table(frame)
    assert cells["CUB", "P@1"].tolist() == ["98.81 (83.68 to 100.00)", "2.00 (0.00 to 7.00)", "50.00 ± 10.00"]
    gains, _ = results_table(frame.assign(form="+.2%"))
    assert gains["CUB", "P@1"].tolist() == ["+98.81 ± 15.13", "+2.00 ± 5.00", "+50.00 ± 10.00"]


def test_the_highest_is_best_and_ties_are_those_that_compete():
    _, marks = results_table(scores(among_best=[False, True, True]))
    assert marks["CUB", "P@1"].tolist() == ["", "best", "tie"]
    _, marks = results_table(scores(among_best=[False, np.nan, True]))  # B does not compete
    assert marks["CUB", "P@1"].tolist() == ["", "", "best"]
    cells, marks = results_table(scores(among_best=[True, True, True], block=["x", "y", "y"], rank_low=1, rank_high=2))
    assert marks["CUB", "P@1"].tolist() == ["", "best", "tie"]  # A is alone, and first of none
    assert cells["CUB", "P@1"].str.contains(r"\(").tolist() == [False, True, True]
    _, marks = results_table(scores())  # a paper's column, of whose scatter nothing is known
    assert marks["CUB", "P@1"].tolist() == ["", "", ""]


def test_places_stand_in_the_order_of_the_frame_and_missing_ones_have_a_dash_or_their_text():
    frame = pd.DataFrame(
        {"row": ["B", "A", "A"], "column": ["y", "y", "x"], "mean": [0.1, np.nan, 0.2], "text": ["", "diverged", ""]}
    )
    cells, _ = results_table(frame)
    assert [*cells.index, *cells.columns] == ["B", "A", "y", "x"]
    assert cells.to_numpy().tolist() == [["10.00", "–"], ["diverged", "20.00"]]


def test_a_frame_may_give_the_form_of_its_numbers_and_the_order_of_its_rows():
    frame = scores(form=["+.1%", np.nan, ".3f"], half=[0.01, np.nan, 0.02])
    cells, _ = results_table(frame.assign(row=pd.Categorical(frame["row"], ["C", "D", "A", "B"])))
    assert cells["CUB", "P@1"].to_dict() == {"C": "0.550 ± 0.020", "D": "–", "A": "+50.0 ± 1.0", "B": "60.00"}


def test_a_ranking_says_how_far_training_lifted_the_mean_above_the_untrained_trunk():
    frame = pd.DataFrame(
        {
            "row": ["Untrained trunk", "a", "b", "c", "a"],
            "column": ["ours", "ours", "ours", "ours", "a paper's"],
            "mean": [0.20, 0.25, 0.21, np.nan, 0.9],
            "untrained": [0.20, 0.20, 0.20, 0.20, np.nan],
        }
    )
    cells, marks = results_table(with_foot(frame))
    assert cells.index[-1] == LIFT
    assert cells.loc[LIFT].tolist() == ["+3.00", "–"]
    assert (marks == "").all(axis=None)
    ordered = frame.assign(row=pd.Categorical(frame["row"], ["b", "a", "c", "Untrained trunk"]))
    assert results_table(with_foot(ordered))[0].index.tolist() == ["b", "a", "c", "Untrained trunk", LIFT]
    others = with_foot(frame, untrained=("Untrained trunk", "b"))
    assert results_table(others)[0].loc[LIFT, "ours"] == "+5.00"
    alone = frame[frame["column"] == "a paper's"]
    assert LIFT not in results_table(with_foot(alone))[0].index


def test_a_ranking_says_which_gap_its_runs_tell_column_by_column():
    frame = pd.DataFrame(
        {
            "row": ["Untrained trunk", "a", "b", "a", "b", "a"],
            "column": ["birds", "birds", "birds", "cars", "cars", "a paper's"],
            "mean": [0.20, 0.25, 0.21, 0.6, 0.7, 0.9],
            "untrained": [0.20, 0.20, 0.20, np.nan, np.nan, np.nan],
            "gap": [np.nan, 0.012, 0.012, 0.034, 0.034, np.nan],
        }
    )
    cells, marks = results_table(with_foot(frame))
    assert cells.index.tolist()[-2:] == [LIFT, GAP]
    assert cells.loc[GAP].tolist() == ["1.20", "3.40", "–"]
    assert cells.loc[LIFT].tolist() == ["+3.00", "–", "–"]
    assert (marks == "").all(axis=None)
