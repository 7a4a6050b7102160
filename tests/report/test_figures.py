"""Figures hold what they are given: the right marks at the right numbers, in the agreed colours."""

import io
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from factories import fake_records
from matplotlib.colors import to_hex

from dmlrc import data
from dmlrc.data.splits import halves
from dmlrc.papers import musgrave2020
from dmlrc.report import published, style, tables, untrained
from dmlrc.report.musgrave2020 import figures


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def drawn(figure):
    """Render the figure, and return the text in it."""
    figure.savefig(io.BytesIO(), format="svg")
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


def test_every_method_has_a_style_of_its_own():
    styles = [style.method_style(method.name) for method in musgrave2020.METHODS]
    assert len({(look.colour, look.marker, look.filled) for look in styles}) == len(musgrave2020.METHODS)
    for method, look in zip(musgrave2020.METHODS, styles, strict=True):
        assert (look.marker == "s") == (method.kind == "classification")
    assert style.method_style("a_loss_of_my_own").marker == "*"


def test_toy_spaces_differ_only_in_the_metrics_that_look_at_all_positives():
    spaces = untrained.toy_spaces()
    scores = untrained.toy_scores(spaces, names=("precision_at_1", "r_precision", "map_at_r", "nmi"))
    assert (scores.loc["precision_at_1"] == 1).all()
    assert scores.loc["r_precision"].is_monotonic_increasing
    assert scores.loc["map_at_r"].is_monotonic_increasing
    assert scores.loc["map_at_r"].iloc[2] > 2 * scores.loc["map_at_r"].iloc[0]
    assert (scores.loc["nmi"] < 0.2).all()
    text = drawn(figures.toy_spaces(spaces, scores))
    assert "MAP@R" in text
    assert "100" in text


def test_random_scores_follow_the_formula():
    scores = untrained.random_scores(2000, [20, 200, 500])
    assert scores["nmi"][500] == pytest.approx(scores["nmi_expected"][500], abs=0.05)
    assert np.isnan(scores["nmi_expected"][20])  # S = 100 > C = 20: the formula does not hold
    assert scores["map_at_r"][500] < 0.01
    line = figures.random_scores(scores).axes[0].get_lines()
    assert [curve.get_label() for curve in line][-1] == "1 - log S / log C"
    np.testing.assert_allclose(line[0].get_ydata(), 100 * scores["precision_at_1"])


def test_random_trunk_scores_more_with_more_classes():
    found = untrained.random_trunks(data.load("glyphs"), ["conv4"], [12, 100], images_per_class=10)
    assert found["classes"].tolist() == [12, 100]
    assert found["images"].tolist() == [10, 10]
    assert found["nmi"].is_monotonic_increasing
    assert found["nmi"].between(0, 1).all()


@pytest.fixture
def committed(monkeypatch):
    """The records of the repository, read; nothing is computed in their place."""
    monkeypatch.setenv("DMLRC_HOME", str(Path(__file__).parents[2]))

    def refuse(*_):
        raise AssertionError("computed, not read")

    return lambda name: monkeypatch.setattr(untrained, name, refuse)


def test_records_of_random_embeddings_are_what_is_computed_anew(committed):
    [computed] = untrained.random_scores(10_000, [10]).to_dict("records")
    committed("random_scores")
    [recorded] = untrained.recorded_scores(10_000, [10]).to_dict("records")
    assert recorded == pytest.approx(computed, abs=1e-3, nan_ok=True)
    assert untrained.recorded_scores(10_000, [300, 10]).index.tolist() == [300, 10]


def test_records_of_random_trunks_are_what_is_computed_anew(committed):
    computed = untrained.random_trunks(data.load("glyphs"), ["conv4"], [12])
    committed("random_trunks")
    recorded = untrained.recorded_trunks("glyphs", ["conv4"], [12])
    pd.testing.assert_frame_equal(recorded[computed.columns], computed, atol=1e-3)
    both = untrained.recorded_trunks("glyphs", ["resnet50", "conv4"], [100, 12])
    assert list(zip(both["trunk"], both["classes"], strict=True)) == [
        *(("resnet50", count) for count in (100, 12)),
        *(("conv4", count) for count in (100, 12)),
    ]


def test_only_what_has_no_record_is_computed(home, monkeypatch):
    (home / "results").mkdir()
    untrained.record(40, [4, 8], ["conv4"], [12], dim=2)
    recorded = untrained.recorded_scores(40, [8, 4], dim=2)
    pd.testing.assert_frame_equal(recorded, untrained.random_scores(40, [8, 4], dim=2))
    monkeypatch.setattr(untrained, "random_scores", lambda *_: "computed")
    assert len(untrained.recorded_scores(40, [8], dim=2)) == 1
    assert untrained.recorded_scores(40, [8, 5], dim=2) == "computed"
    assert untrained.recorded_scores(40, [8], dim=3) == "computed"


def test_splits_show_every_class_once_a_fold():
    classes = np.arange(40)
    figure = figures.splits({"one": halves(classes), "two": halves(classes, order="random")})
    bars = [bar for bar in figure.axes[0].patches if bar.get_width() > 0]
    widths = {}
    for bar in bars:
        widths[round(bar.get_y(), 3)] = widths.get(round(bar.get_y(), 3), 0) + bar.get_width()
    assert len(widths) == 8
    np.testing.assert_allclose(list(widths.values()), 1)


def test_searches_draw_ours_over_the_published_ones():
    records = fake_records(trials=5)
    traces = published.search_traces()
    figure = figures.searches({records.name: tables.best_so_far(records)}, traces)
    panel = figure.axes[0]
    assert panel.get_title() == "Contrastive"
    grey, ours = panel.get_lines()[:-1], panel.get_lines()[-1]
    assert len(grey) == 4  # three data sets with batches of 32, one with 256
    assert to_hex(ours.get_color()) == style.BLUE.lower()
    assert max(ours.get_ydata()) == 1
    assert len(figure.axes) == 14


def test_results_put_each_method_at_its_mean():
    theirs = published.results()
    panels = {"CUB200": theirs[theirs["dataset"] == "CUB200"], "fake-study": tables.accuracy(fake_records())}
    figure = figures.results(panels)
    first = figure.axes[0]
    points = {line.get_xdata()[0] for line in first.get_lines() if len(line.get_xdata()) == 1}
    assert 26.19 in {round(x, 2) for x in points}
    assert "Contrastive" in drawn(figure)


def test_years_and_improvements():
    claims = published.claims()
    headline = claims[claims["primary"] & (claims["role"] == "proposed")]
    records = fake_records()
    panels = {records.name: tables.measured_by_year(tables.accuracy(records))}
    figure = figures.over_the_years(headline, panels)
    marks = [line for line in figure.axes[1].get_lines() if len(line.get_xdata()) == 1]
    assert len(marks) == 14
    new = pd.DataFrame({"method": ["mine"], "year": [2026], "value": [0.5]})
    forked = {records.name: pd.concat([panels[records.name], new])}
    axis = figures.over_the_years(headline, forked).axes[1]
    (mark,) = (line for line in axis.get_lines() if line.get_xdata()[0] == 2026 and len(line.get_xdata()) == 1)
    low, high = axis.get_xlim()
    assert low < mark.get_xdata()[0] < high
    bars = tables.improvement_bars([records], claims)
    assert set(bars["who"]) == {"papers", "separated", "concatenated"}
    assert bars[(bars["who"] == "papers") & (bars["where"] == "fake-study")].empty
    text = drawn(figures.improvements(bars))
    assert "+197.9" in text


def test_importance_and_trials_are_drawn():
    records = fake_records(trials=25)
    shares = tables.importance(records)
    assert "ArcFace: margin" in drawn(figures.importance(shares))
    figure = figures.trial_values({records.name: records.trials})
    assert "fake-study" in drawn(figure)
    places = figure.axes[0].collections[0].get_offsets()
    trials = records.trials[records.trials["state"] == "complete"]
    np.testing.assert_allclose(places[:, 0], 100 * trials["value"])
    rows = trials["method"].map([name for name in tables.METHODS if name in set(trials["method"])].index)
    np.testing.assert_array_equal(np.round(places[:, 1]), rows)


def test_the_same_points_are_spread_the_same_way():
    np.random.seed(1)
    first = style.jitter([3, 3, 4])
    np.random.seed(2)
    np.testing.assert_array_equal(first, style.jitter([3, 3, 4]))
    assert first[0] != first[1]
    np.testing.assert_array_equal(np.round(first), [3, 3, 4])
