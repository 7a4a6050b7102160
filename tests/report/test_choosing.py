"""How many trials pay, on made-up searches whose best is known."""

from dataclasses import replace

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from factories import searched_study

from dmlrc.report import choosing

NAME = "grocery-frozen"
BEST = {"contrastive": (0.20, 0.30, 0.40), "fast_ap": (0.36, 0.38, 0.40)}  # after 10, 25 and 50 trials
SEARCHED = {"contrastive": ("pos_margin", "neg_margin"), "fast_ap": ("num_bins",)}


def searches(values=BEST, scale=(1.0, 0.9)):
    """A study of two methods and two searches, the second as far below the first as `scale` says."""
    rows = [
        {"method": method, "repetition": repetition, "trial": trial, "value": factor * value, "state": "complete"}
        | {"params": dict.fromkeys(SEARCHED[method], 0.5)}
        for method, bests in values.items()
        for repetition, factor in enumerate(scale)
        for trial, value in zip((9, 24, 49), bests, strict=True)
    ]
    every = [row | {"trial": trial, "value": 0.1} for row in rows for trial in range(50) if trial not in (9, 24, 49)]
    trials = pd.DataFrame([*rows, *every]).drop_duplicates(["method", "repetition", "trial"])
    made = searched_study(NAME, dict.fromkeys(values, 0.3), search=0, seed=0, repetitions=2)
    scores = made.scores.assign(value=made.scores["value"] * made.scores["repetition"].map({0: 1.1, 1: 0.9}))
    return replace(made, trials=trials, scores=scores)


@pytest.fixture
def paid(monkeypatch):
    monkeypatch.setattr(choosing.editions, "experiment_of", lambda *_: None)
    return choosing.trials_paid([searches()])


def test_trials_are_held_against_the_best_of_all_searches(paid):
    found = paid.set_index("method")
    # a mean over the searches: 1 - 0.20 / 0.40 and 1 - 0.18 / 0.40
    assert found.loc["contrastive", 10] == pytest.approx((0.5 + 0.55) / 2)
    assert found.loc["contrastive", 25] == pytest.approx((0.25 + 0.325) / 2)
    assert found.loc["fast_ap", 50] == pytest.approx((0 + 0.1) / 2)
    assert found["hyperparameters"].to_dict() == {"contrastive": 2, "fast_ap": 1}
    assert found["test"].tolist() == pytest.approx([0.2 / 2**0.5] * 2)  # 1.1 and 0.9, over their mean
    assert 100 not in found


def test_the_figure_has_a_line_a_number_of_hyperparameters_and_the_table_its_numbers(paid):
    (figure,) = choosing.trials_figure(paid)
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 3]
    drawn = {tuple(round(value, 6) for value in line.get_ydata()) for line in lines}
    counted = paid.sort_values("hyperparameters")[[10, 25, 50]].to_numpy() * 100
    assert drawn == {tuple(round(value, 6) for value in row) for row in counted}
    plt.close(figure)
    cells = choosing.trials_paid_cells(paid)
    assert cells.loc[(choosing.AT_SHARED_RATE, "2")].tolist() == ["1", "52.5", "28.8", "5.0", "14.1"]


def test_longer_searches_stand_apart_and_short_ones_are_left_out(monkeypatch):
    longer = searches()
    longer = replace(longer, meta=longer.meta | {"study": f"{NAME}/{choosing.LONGER}"})
    monkeypatch.setattr(choosing.editions, "experiment_of", lambda *_: longer)
    found = choosing.trials_paid([searches()])
    figures = choosing.trials_figure(found)
    assert [each.axes[0].get_title() for each in figures] == [choosing.AT_SHARED_RATE, choosing.WITH_RATE]
    list(map(plt.close, figures))
    short = searches()
    short = replace(short, trials=short.trials[short.trials["trial"] < 9])
    monkeypatch.setattr(choosing.editions, "experiment_of", lambda *_: None)
    assert choosing.trials_paid([short]).empty


def test_the_numbers_of_the_text(paid):
    told = choosing._of_trials(paid)
    means = 100 * paid.set_index("hyperparameters")
    assert told["ten.one"] == pytest.approx(means.loc[1, 10])
    assert told["ten.low"] == told["ten.high"] == pytest.approx(means.loc[2, 10])
    assert told["later.high"] == pytest.approx(means.loc[2, 25] - means.loc[2, 50])
    assert told["later_less_test"] == pytest.approx(told["later.high"] - means.loc[2, "test"])
