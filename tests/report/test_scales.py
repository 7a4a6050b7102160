"""Scales searched in logarithms beside linear ones, on made-up studies whose scores and scales are known."""

from dataclasses import replace

import pandas as pd
import pytest
from factories import searched_study

from dmlrc.report import labels, scales

NAME, BESIDE = "grocery-frozen", "grocery-frozen/log-scales"
METHODS = ("cosface", "proxy_nca")


def study(name, mean, scale, scatter=0.01):
    """Three searches of both losses: their test scores scatter around a mean, and their scales around one."""
    made = searched_study(name, dict.fromkeys(METHODS, mean), search=0, seed=0)
    away = {0: -scatter, 1: 0.0, 2: scatter}
    scores = made.scores.assign(value=made.scores["value"] + made.scores["repetition"].map(away))
    params = [
        {scales.SCALES[row.method]: scale * (1 + row.repetition), "margin": 0.3} for row in made.trials.itertuples()
    ]
    return replace(made, scores=scores, trials=made.trials.assign(params=params))


@pytest.fixture
def found(recorded):
    recorded[NAME], recorded[BESIDE] = study(NAME, 0.30, 5.0), study(BESIDE, 0.34, 0.5, scatter=0.005)
    return scales.compare_scales([recorded[NAME]])


def test_each_loss_has_both_ways_and_the_gain_of_the_logarithmic_one(found):
    assert found["way"].tolist() == [scales.LINEAR, scales.LOGARITHMIC] * 2
    linear, logarithmic = found.iloc[0], found.iloc[1]
    assert pd.isna(linear["difference"])
    assert logarithmic["difference"] == pytest.approx(0.04)
    assert 0 < logarithmic["low"] < 0.04 < logarithmic["high"]
    assert found["luck"].tolist() == pytest.approx([0.01, 0.005] * 2)
    assert (linear["lowest"], linear["highest"]) == (5.0, 15.0)
    assert (logarithmic["lowest"], logarithmic["highest"]) == (0.5, 1.5)
    cells = labels.cells(found.set_index(["study", "method", "way"]), scales.SCALE_CELLS)
    assert cells.loc[("Grocery Store", "CosFace", "linear")].drop("validation").tolist() == [
        "–",
        "30.00",
        "1.00",
        "5 to 15",
    ]
    assert cells.loc[("Grocery Store", "ProxyNCA", "logarithmic"), "gain"].startswith("+4.00 [+")
    gains = scales.gains(found)
    assert gains.index.tolist() == [(NAME, method) for method in METHODS]
    assert gains["test"].tolist() == pytest.approx([0.04, 0.04])
    assert gains["validation"].tolist() == pytest.approx((logarithmic["validation"] - linear["validation"],) * 2)


def test_a_study_counts_when_it_is_complete(recorded, found):
    whole = recorded[BESIDE]
    recorded[BESIDE] = replace(whole, reruns=whole.reruns[whole.reruns["repetition"] < 2])
    assert scales.compare_scales([recorded[NAME]]).empty


def test_where_in_a_linear_range_the_scales_lie(found, recorded):
    # CosFace searches 0 to 200, ProxyNCA 0 to 100
    spaces = [scales.tables.METHODS[name].space[scale] for name, scale in scales.SCALES.items()]
    expected = [(value - each.low) / (each.high - each.low) for each in spaces for value in (5.0, 15.0)]
    assert scales.winning_places(recorded[NAME]) == pytest.approx(expected)
