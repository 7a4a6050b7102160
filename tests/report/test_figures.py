"""Figures hold what they are given: the right marks at the right numbers, in the agreed colours."""

import io
import itertools
from dataclasses import replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from drawings import drawn
from factories import fake_records
from matplotlib.colors import to_hex

from dmlrc import data, records
from dmlrc.data.splits import halves
from dmlrc.errors import MissingDataError
from dmlrc.papers import after2019, musgrave2020
from dmlrc.records import PRETRAINED
from dmlrc.report import importances, labels, published, style, tables, untrained
from dmlrc.report.after2019 import figures as trunk_figures
from dmlrc.report.musgrave2020 import figures


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_data_sets_and_trunks_have_none_of_the_families_colours():
    families = {style.BLUE, style.ORANGE, style.GREEN}
    for looks in (style.GROUPS, tuple(trunk_figures.TRUNK_STYLES.values())):
        assert not families & {look.colour for look in looks}
        assert len({look.marker for look in looks}) == len(looks)


def test_a_method_has_the_colour_of_its_family_and_the_mark_of_its_time():
    for method in (*musgrave2020.METHODS, *after2019.METHODS):
        look = style.method_style(method.name)
        assert (look.colour == "black") == (method.name in tables.CLASSICS)
        assert (look.colour == style.ORANGE) == (method.kind == "classification")
        assert (look.marker == "D") == (method.year > 2019)
    assert style.method_style("a_loss_of_my_own").marker == "*"
    # one name is one family, whichever paper's form of the loss it is
    assert {style.method_style(name).colour for name in ("margin", "snr", "n_pairs")} == {style.BLUE}


def legend_of(names):
    figure, _ = style.canvas(2)
    style.family_legend(figure, names)
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_legend_names_the_families_that_are_there():
    assert legend_of(["contrastive", "arcface"]) == ["contrastive, triplet", "proxies and classes"]
    assert legend_of(["recall_at_k", "mine"]) == ["pairs and tuples", "your own", "after 2019"]


def test_names_at_the_ends_of_lines_keep_their_order_and_do_not_overlap():
    figure, axes = style.canvas(3)
    axis = axes[0, 0]
    ends = {"triplet": (1.0, 0.500), "contrastive": (1.0, 0.501), "snr": (1.0, 0.502), "margin": (1.0, 0.9)}
    axis.set(xlim=(0, 1), ylim=(0, 1))
    style.name_ends(axis, ends)
    figure.savefig(io.BytesIO(), format="svg")
    boxes = {text.get_text(): text.get_window_extent() for text in axis.texts}
    order = ["Triplet", "Contrastive", "SNR", "Margin"]
    for lower, upper in itertools.pairwise(order):
        # letters reach from the foot of the box to its top, ascenders and all
        assert boxes[upper].y0 + boxes[upper].y1 > boxes[lower].y0 + boxes[lower].y1 + 0.8 * boxes[lower].height
    middle = (boxes["Margin"].y0 + boxes["Margin"].y1) / 2
    assert axis.transData.inverted().transform((0, middle))[1] == pytest.approx(0.9, abs=0.02)  # it had room


def test_figures_side_by_side_share_a_scale():
    drawings = []
    for top in (1, 5):
        figure, axes = style.canvas(2)
        axes[0, 0].set(xlim=(-top, top), ylim=(0, top))
        drawings.append(figure)
    style.share_axes(drawings)
    assert [figure.axes[0].get_xlim() for figure in drawings] == [(-5, 5)] * 2
    assert [figure.axes[0].get_ylim() for figure in drawings] == [(0, 1), (0, 5)]


def test_toy_spaces_differ_only_in_the_metrics_that_look_at_all_positives():
    spaces = untrained.toy_spaces()
    scores = untrained.toy_scores(spaces, names=("precision_at_1", "r_precision", "map_at_r", "nmi"))
    assert (scores.loc["precision_at_1"] == 1).all()
    assert scores.loc["r_precision"].is_monotonic_increasing
    assert scores.loc["map_at_r"].is_monotonic_increasing
    assert scores.loc["map_at_r"].iloc[2] > 2 * scores.loc["map_at_r"].iloc[0]
    assert (scores.loc["nmi"] < 0.2).all()
    text = drawn(figures.toy_spaces_figure(spaces, scores))
    assert "MAP@R" in text
    assert "100" in text


def test_random_scores_follow_the_formula():
    scores = untrained.random_scores(2000, [20, 200, 500])
    assert scores["nmi"][500] == pytest.approx(scores["nmi_expected"][500], abs=0.05)
    assert np.isnan(scores["nmi_expected"][20])  # S = 100 > C = 20: the formula does not hold
    assert scores["map_at_r"][500] < 0.01
    line = figures.random_scores_figure(scores).axes[0].get_lines()
    assert [curve.get_label() for curve in line][-1] == "1 − log S / log C"
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
    few = {10: ("precision_at_1", "nmi", "f1"), 1000: ("map_at_r", "r_precision")}  # what of each is computed soon
    computed = {count: untrained.random_scores(10_000, [count], names=names) for count, names in few.items()}
    committed("random_scores")
    recorded = untrained.recorded_scores(10_000, list(few))
    for count, expected in computed.items():
        found = recorded.loc[count, list(expected)].to_dict()
        assert found == pytest.approx(expected.loc[count].to_dict(), abs=min(1e-3, 0.05 / count), nan_ok=True)
    assert untrained.recorded_scores(10_000, [1000, 10]).index.tolist() == [1000, 10]


def test_random_trunks_of_a_study_are_read_where_they_are_recorded(committed, monkeypatch):
    study = records.load("first-runs/grocery-frozen")
    committed("random_trunks")
    found = untrained.trunks_of(study, ["conv4"])
    assert sorted(found["trunk"]) == ["conv4", "resnet18", "squeezenet1_0"]  # those recorded, not those asked for
    assert found["nmi"].between(0, 1).all()
    monkeypatch.setattr(untrained.experiments, "load_experiment", lambda *_: None)
    monkeypatch.setattr(untrained.data, "load", lambda name: None)
    with pytest.raises(AssertionError, match="computed"):
        untrained.trunks_of(study, ["conv4"])

    def missing(name):
        raise MissingDataError(name)

    monkeypatch.setattr(untrained.data, "load", missing)
    assert untrained.trunks_of(study, ["conv4"]) is None


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
    (home / "results" / "measured").mkdir(parents=True)
    untrained.record_random(40, [4, 8], ["conv4"], [12], dim=2)
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


def test_the_protocol_is_drawn_with_the_numbers_of_its_study():
    two = replace(musgrave2020.CHARACTERS, folds=2, embedding_dim=64)
    for study in (fake_records(trials=7, reruns=5, protocol=two), fake_records(trials=4, missing=["triplet"])):
        study = replace(study, meta=study.meta | {"data": study.meta["data"] | {"classes": 61}})  # each drawn as a bar
        figure, folds = figures.protocol_drawing(study), study.meta["protocol"]["folds"]
        classes, size = study.meta["data"]["classes"], study.meta["protocol"]["embedding_dim"]
        budget, losses = study.meta["budget"], len({*study.reruns["method"]} - {PRETRAINED})
        said = " ".join(drawn(figure))
        for text in (
            f"the first half: {classes // 2} classes",
            f"the second half: {classes - classes // 2} classes",
            f"Trials of a search: {budget['trials']}",
            f"Reruns of the best trial: {budget['reruns']}",
            f"Losses: {losses}. Searches of each: {study.searches}.",
            f"one model per fold ({folds})",
            f"alone ({folds}), {size} numbers",
            f"all joined, {folds * size} numbers",
        ):
            assert text in said, (text, said)
        colours = [to_hex(bar.get_facecolor()).upper() for bar in figure.axes[0].patches]
        assert (colours.count(style.BLUE), colours.count(style.GREY)) == (folds, 1)
        validated = sum(len(fold.val) for fold in tables.class_splits(study).folds)
        assert colours.count(style.ORANGE) == validated


def test_searches_draw_ours_over_the_published_ones():
    records = fake_records(trials=5)
    traces = published.search_traces()
    figure = figures.searches({records.name: tables.best_so_far(records)}, traces)
    panel = figure.axes[0]
    assert panel.get_title() == "Contrastive"
    grey, ours = panel.get_lines()[:-1], panel.get_lines()[-1]
    assert len(grey) == 4  # three data sets with batches of 32, one with 256
    assert to_hex(ours.get_color()) == to_hex("black")
    assert max(ours.get_ydata()) == 1
    assert ours.get_url().endswith("fake-study, search 1")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["the paper", "fake-study"]
    assert len(figure.axes) == 14


def test_results_put_each_method_at_its_mean():
    theirs = published.musgrave_results()
    panels = {"CUB200": theirs[theirs["dataset"] == "CUB200"], "fake-study": tables.accuracy(fake_records())}
    [figure] = figures.result_figures(panels)
    for axis, frame in zip(figure.axes, panels.values(), strict=True):
        order = [text.get_text() for text in figure.axes[0].get_yticklabels()]
        marks = [line for line in axis.get_lines() if len(line.get_xdata()) == 1]
        dots = {order[int(line.get_ydata()[0])]: line.get_xdata()[0] for line in marks if line.get_marker() == "o"}
        rows = frame[(frame["setting"] == "concatenated") & (frame["metric"] == "map_at_r")]
        expected = rows.set_index("method")["mean"].drop(PRETRAINED)
        assert dots == pytest.approx({labels.method_label(name): 100 * value for name, value in expected.items()})
        assert sum(line.get_marker() == "|" for line in marks) == len(expected)
        untrained = [line for line in axis.get_lines() if line.get_linestyle() == "--"]
        mean = rows.set_index("method")["mean"][PRETRAINED]
        assert [line.get_xdata()[0] for line in untrained] == [pytest.approx(100 * mean)]
    assert "untrained" in drawn(figure)


def test_panels_of_results_have_one_order_and_three_stand_in_a_figure():
    theirs = published.musgrave_results()
    panels = dict(list(theirs.groupby("dataset"))) | {"fourth": tables.accuracy(fake_records())}
    drawings = figures.result_figures(panels, published=True)
    assert [len(figure.axes) for figure in drawings] == [3, 1]
    orders = [[text.get_text() for text in axis.get_yticklabels()] for each in drawings for axis in each.axes]
    expected = [labels.method_label(name) for name in tables.order_of_results(panels.values())]
    assert [order for order in orders if order] == [expected] * len(drawings)  # the first panel of each names them
    hollow = {line.get_markerfacecolor() for line in drawings[0].axes[0].get_lines() if line.get_marker() == "o"}
    assert hollow == {"white"}
    assert "NTXent" in expected  # which the paper's tables lack


def test_an_interval_of_search_and_seed_has_that_of_the_seed_within():
    frame = tables.accuracy(fake_records()).assign(seed_ci95=lambda told: told["ci95"] / 2)
    [figure] = figures.result_figures({"one": frame})
    bars = [line for line in figure.axes[0].get_lines() if len(line.get_xdata()) == 2 and line.get_linestyle() == "-"]
    assert len(bars) == 2 * (frame["method"].nunique() - 1)
    for inner, outer in zip(bars[::2], bars[1::2], strict=True):
        assert np.ptp(outer.get_xdata()) >= np.ptp(inner.get_xdata())
        assert outer.get_linewidth() < inner.get_linewidth()
        assert inner.get_alpha() < outer.get_alpha() == 1  # what leaves the luck of search out is the lighter one


def test_years_and_improvements():
    claims = published.claims()
    headline = claims[claims["primary"] & (claims["role"] == "proposed")]
    records = fake_records()
    panels = {records.name: tables.measured_by_year(tables.accuracy(records))}
    paper = {name: tables.measured_by_year(part) for name, part in published.musgrave_results().groupby("dataset")}
    figure = figures.claimed_over_the_years(headline, paper)
    above, below = figure.axes[:3], figure.axes[3:6]
    for axis, under, name in zip(above, below, published.DATASETS, strict=True):
        claimed = headline[headline["dataset"] == name]["r1"]
        np.testing.assert_allclose(axis.collections[0].get_offsets()[:, 1], 100 * claimed)
        dots = [line for line in under.get_lines() if len(line.get_xdata()) == 1]
        assert {dot.get_markerfacecolor() for dot in dots} == {"white"}
        assert sorted(dot.get_ydata()[0] for dot in dots) == pytest.approx(sorted(100 * paper[name]["value"]))
        assert axis.get_ylim() == under.get_ylim()
    figure = figures.measured_over_the_years(panels, {records.name: 0.5})
    marks = [line for line in figure.axes[0].get_lines() if len(line.get_xdata()) == 1]
    assert len(marks) == 14
    whole, newer = (line for line in figure.axes[0].get_lines()[:2])
    assert (whole.get_color(), newer.get_color()) == ("black", style.RED)
    later = panels[records.name][panels[records.name]["year"] > 2006]
    for line, part in ((whole, panels[records.name]), (newer, later)):
        slope = np.ptp(line.get_ydata()) / np.ptp(line.get_xdata())
        assert slope == pytest.approx(abs(np.polyfit(part["year"], 100 * part["value"], 1)[0]))
    assert "untrained" in drawn(figure)
    new = pd.DataFrame({"method": ["mine"], "year": [2026], "value": [0.5]})
    forked = {records.name: pd.concat([panels[records.name], new])}
    axis = figures.measured_over_the_years(forked, {}).axes[0]
    (mark,) = (line for line in axis.get_lines() if line.get_xdata()[0] == 2026 and len(line.get_xdata()) == 1)
    low, high = axis.get_xlim()
    assert low < mark.get_xdata()[0] < high
    bars = tables.improvement_bars([records], claims)
    assert set(bars["who"]) == {"papers", "separated", "concatenated"}
    assert bars[(bars["who"] == "papers") & (bars["where"] == "fake-study")].empty
    drawings = figures.improvements(bars)
    assert "+198" in " ".join(drawn(drawings[0]))
    dots = [line for line in drawings[0].axes[0].get_lines() if line.get_marker() == "o"]
    faces = {line.get_markerfacecolor() for line in dots}
    assert faces == {"white", style.BLUE}  # the paper's tables, and ours
    expected = bars[(bars["baseline"] == "contrastive") & (bars["who"] == "concatenated")]["value"]
    assert sorted(line.get_xdata()[0] for line in dots) == pytest.approx(sorted(100 * expected))


def test_importance_and_trials_are_drawn(monkeypatch):
    monkeypatch.setattr(importances, "TREES", 2)
    records = fake_records(trials=25)
    shares = tables.importance(records)
    figure = figures.importance_figure(shares)
    assert "rate of the loss's weights" in drawn(figure)
    said = sorted(", ".join(text.get_text() for text in figure.axes[0].texts if text.get_text()).split(", "))
    names = shares["parameter"].map(labels.parameter)
    of_symbols = {symbol: name for name, symbol in figures.SYMBOLS.items()}
    assert sorted(of_symbols.get(name, name) for name in said) == sorted(names)  # none is without
    assert {*said} & {*of_symbols}
    for place, label in enumerate(figure.axes[0].get_yticklabels()):
        bars = [bar for bar in figure.axes[0].patches if abs(bar.get_y() + bar.get_height() / 2 - place) < 0.1]
        method = next(name for name in tables.METHODS if labels.method_label(name) == label.get_text())
        expected = shares[shares["method"] == method]["importance"].sort_values(ascending=False)
        assert [bar.get_width() for bar in bars] == pytest.approx(list(100 * expected))
    [figure] = figures.trial_values({records.name: records.trials})
    assert "fake-study" in drawn(figure)
    places = figure.axes[0].collections[0].get_offsets()
    trials = records.trials[records.trials["state"] == "complete"]
    np.testing.assert_allclose(places[:, 0], 100 * trials["value"])
    best = trials.groupby("method")["value"].max().sort_values(ascending=False)
    rows = trials["method"].map(list(best.index).index)
    np.testing.assert_array_equal(np.round(places[:, 1]), rows)


def test_the_same_points_are_spread_the_same_way():
    np.random.seed(1)
    first = style.jitter([3, 3, 4])
    np.random.seed(2)
    np.testing.assert_array_equal(first, style.jitter([3, 3, 4]))
    assert first[0] != first[1]
    np.testing.assert_array_equal(np.round(first), [3, 3, 4])
