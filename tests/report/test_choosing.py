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


def long_searches():
    """The same with the rate searched too, and a better trial among the last fifty of each search."""
    made = searches()
    late = made.trials.assign(trial=made.trials["trial"] + 50, value=0.1)
    late["value"] = late["value"].mask(late["trial"] == 99, 0.5)
    trials = pd.concat([made.trials, late], ignore_index=True)
    trials["params"] = [params | {"lr": 1e-5} for params in trials["params"]]
    return replace(made, trials=trials, meta=made.meta | {"study": f"{NAME}/rates-searched"})


@pytest.fixture
def paid(monkeypatch):
    monkeypatch.setattr(choosing.editions, "with_searched_rates", lambda main: None)
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
    monkeypatch.setattr(choosing.editions, "with_searched_rates", lambda main: long_searches())
    found = choosing.trials_paid([searches()])
    figures = choosing.trials_figure(found)
    assert [each.axes[0].get_title() for each in figures] == [choosing.AT_SHARED_RATE, choosing.WITH_RATE]
    list(map(plt.close, figures))
    short = searches()
    short = replace(short, trials=short.trials[short.trials["trial"] < 9])
    monkeypatch.setattr(choosing.editions, "with_searched_rates", lambda main: searches())  # of 50 trials
    assert choosing.trials_paid([short]).empty


def test_the_numbers_of_the_text(paid):
    told = choosing._of_trials(paid)
    means = 100 * paid.set_index("hyperparameters")
    assert told["ten.one"] == pytest.approx(means.loc[1, 10])
    assert told["ten.low"] == told["ten.high"] == pytest.approx(means.loc[2, 10])
    assert told["later.high"] == pytest.approx(means.loc[2, 25] - means.loc[2, 50])
    assert told["later_less_test"] == pytest.approx(told["later.high"] - means.loc[2, "test"])
    assert not [name for name in told if name.startswith(("longest", "next"))]


def test_where_searches_were_longer_the_text_counts_trials_51_to_100(monkeypatch):
    monkeypatch.setattr(choosing.editions, "with_searched_rates", lambda main: long_searches())
    found = choosing.trials_paid([searches()])
    told = choosing._of_trials(found)
    # 0.40 and 0.36 of 0.5 after 50 trials, then 0.5 in every search
    assert told["longest.low"] == told["longest.high"] == pytest.approx(100 * ((0.2 + 0.28) / 2))
    assert told["next"] == pytest.approx(100 * ((0.40 + 0.46) / 2 - (0.2 + 0.28) / 2))
    of_fixed = found[found["searched"] == choosing.AT_SHARED_RATE].drop(columns=choosing.TRIALS[-1])
    fixed = choosing._of_trials(of_fixed)
    assert told["later_less_test"] == fixed["later_less_test"]
    cells = choosing.trials_paid_cells(found)
    assert cells.loc[(choosing.WITH_RATE, "2"), "100 trials"] == "0.0"
    assert cells.loc[(choosing.AT_SHARED_RATE, "2"), "100 trials"] == "–"
