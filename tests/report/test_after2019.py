"""The chapter on the losses after 2019: its numbers on made-up records and claims, and that it runs without any."""

from dataclasses import replace

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from factories import fake_records, fake_runs, unit

from dmlrc import records
from dmlrc.papers import after2019, musgrave2020
from dmlrc.records import PRETRAINED
from dmlrc.report import labels as labels_of
from dmlrc.report import published, style, tables
from dmlrc.report.after2019 import figures, page
from dmlrc.report.results_table import GAP, LIFT

NAMES = list(page.METHODS)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def main_study(**settings):
    return fake_records(study="fake-main", **settings)


def after_study(levels, reruns=2, trials=3):
    """Records of losses after 2019 whose concatenated scores are these levels, 0.1 points apart between reruns."""
    rng = np.random.default_rng(0)
    units = [unit(PRETRAINED, PRETRAINED, 0, [], scores=scores(0.1))]
    for name, level in levels.items():
        units += [unit(name, "trial", number, fake_runs(rng)) for number in range(trials)]
        units += [
            unit(name, "rerun", number, fake_runs(rng), scores=scores(level + 0.001 * number))
            for number in range(reruns)
        ]
    return records.from_units(units, main_study().meta | {"study": "fake-main-after2019"})


def scores(level):
    metrics = ("precision_at_1", "r_precision", "map_at_r")
    return {"concatenated": dict.fromkeys(metrics, level), "separated": dict.fromkeys(metrics, level - 0.05)}


# The losses


def test_every_loss_is_described_and_drawn_in_its_own_way():
    table = page.later_methods()
    assert list(table.index) == NAMES == list(page.DESCRIPTIONS)
    for name in NAMES:
        look = style.method_style(name)
        assert look.marker == "D"
        assert (look.colour == style.ORANGE) == (table.loc[name, "kind"] == "classification")


def test_identities_hold_and_could_fail():
    table = page.identities()
    same = table["gradient"] < page.SAME
    assert same.tolist() == [True, True, True, False, False]
    assert (table["value"] - table["value_other"]).abs()[same].max() < 1e-9
    assert (table["value"] - table["value_other"]).abs()[~same].min() > 0.01
    assert page.identities(seed=1)["value"].iloc[0] != table["value"].iloc[0]
    cells = page.identity_cells(table)
    assert cells["gradients apart"].tolist()[:3] == ["0", "0", "0"]


# Claims


def test_claims_reach_from_2016_to_2025_and_keep_trunks_apart():
    table = page.claims_with_trunks()
    assert (table["year"].min(), table["year"].max()) == (2016, 2025)
    assert set(table["trunk"]) == set(page.TRUNKS)
    assert set(table[table["trunk"] == "other"]["backbone"]) == {"Inception", "ResNet18"}
    assert (table[table["trunk"] == "ResNet50"]["dim"] <= 512).all()
    assert table["primary"].all()
    assert (table["role"] == "proposed").all()
    proxy_anchor = table[table["method"] == "Proxy Anchor"]
    assert not proxy_anchor.duplicated("dataset").any()  # its headline rows stand in one of the two files


def made_claims():
    rows = [("CUB200", "GoogLeNet", year, 0.5 + 0.01 * (year - 2016)) for year in range(2016, 2020)]
    rows += [("CUB200", "ResNet50", year, 0.7 + 0.002 * (year - 2020)) for year in range(2020, 2025)]
    rows += [("SOP", "ViT", 2022, 0.8), ("SOP", "ViT", 2023, 0.9), ("SOP", "other", 2017, 0.6)]
    return pd.DataFrame(rows, columns=["dataset", "trunk", "year", "r1"])


def test_trends_within_a_trunk():
    table = page.claimed_trends(made_claims()).set_index(["dataset", "trunk", "years"])
    assert table.loc[("CUB200", "GoogLeNet", "all"), "slope"] == pytest.approx(0.01)
    assert table.loc[("CUB200", "ResNet50", "since 2020"), "slope"] == pytest.approx(0.002)
    assert table.loc[("CUB200", "all trunks", "all"), "slope"] > 0.02  # the change of trunk
    assert table.loc[("CUB200", "all trunks", "since 2020"), "n"] == 5
    assert set(table.index.get_level_values("dataset")) == {"CUB200"}  # three claims are no trend
    cells = page.trend_cells(table.reset_index())
    assert list(cells.columns) == ["points a year, all years", "points a year, since 2020"]
    assert cells.loc[("CUB200", "ResNet50")].tolist() == ["+0.20 ± 0.00 (5)"] * 2
    assert cells.loc[("CUB200", "GoogLeNet"), "points a year, since 2020"] == "–"


def test_reruns_stand_beside_the_claim_of_the_same_trunk():
    table = page.reruns_by_others()
    mine = table[(table["dataset"] == "CUB200") & table["by"].str.startswith("Liao")].set_index("method")
    assert mine.loc["Proxy Anchor", ["r1", "claimed"]].tolist() == pytest.approx([0.675, 0.697])
    assert np.isnan(mine.loc["Contrastive", "claimed"])
    assert "Hyp" not in set(table["method"])  # nobody knows who ran it
    cells = page.rerun_cells(table)
    assert list(cells.columns) == ["trained by others", "claimed", "in the pipeline of", "note"]
    assert not cells.drop(columns="note").isin(["", "nan"]).any(axis=None)
    assert {"Proxy-Anchor", "MS+Miner", "ProxyNCA", "HIST"} <= set(cells.index.get_level_values("method"))


# Our results


def test_the_table_holds_the_classics_the_best_of_the_fourteen_and_the_new_losses():
    main, after = main_study(), after_study(dict.fromkeys(NAMES, 0.5))
    best = tables.spread(tables.accuracy(main))["best_method"]
    assert best not in tables.CLASSICS
    assert page.methods_shown(main) == [PRETRAINED, "contrastive", "triplet", best, *NAMES]
    cells, marks = page.later_results_cells(page.join_later_losses(main, after))
    labels = [labels_of.method_label(name, after2019.KNOWN) for name in page.methods_shown(main)]
    assert cells.index.tolist() == marks.index.tolist() == [*labels, LIFT, GAP]
    concatenated = cells["Concatenated (512-d)", "MAP@R"]
    assert concatenated["Circle"].startswith("50.05 ± ")
    again = tables.accuracy(main).set_index(["method", "setting", "metric"])["mean"]
    assert concatenated["Contrastive"].startswith(f"{100 * again['contrastive', 'concatenated', 'map_at_r']:.2f} ±")
    assert "±" not in concatenated["Untrained trunk"]  # the row of both studies is one
    assert set(marks.loc["Untrained trunk"]) == {""}


def test_a_row_of_the_fourteen_has_the_interval_of_its_own_table():
    main, after = (
        replace(each, scores=each.scores.assign(repetition=each.scores["rerun"], rerun=0))
        for each in (main_study(reruns=3), after_study(dict.fromkeys(NAMES, 0.5), reruns=3))
    )
    both = page.join_later_losses(main, after)
    own, joined, shown = (
        frame.set_index(["method", "setting", "metric"])["ci95"]
        for frame in (tables.accuracy(main), tables.accuracy(both), page.accuracy_shown(both))
    )
    row = ("contrastive", "concatenated", "map_at_r")
    assert shown[row] == own[row] != joined[row]
    assert shown["circle", *row[1:]] == joined["circle", *row[1:]]


def test_a_best_method_that_is_a_classic_stands_there_once():
    main = main_study(missing=[method.name for method in musgrave2020.METHODS if method.name != "triplet"])
    assert page.methods_shown(main) == [PRETRAINED, "contrastive", "triplet", *NAMES]


def test_what_is_not_run_says_so():
    main = main_study()
    cells, _ = page.later_results_cells(main)
    assert cells.loc["Smooth-AP"].tolist() == [*["–"] * 6, "not run"]
    assert page.against_the_fourteen(main) == {}
    partly = after_study({"circle": 0.5}, reruns=1)
    cells, _ = page.later_results_cells(page.join_later_losses(main, partly))
    assert cells.loc["Circle", ("", "reruns")] == "unfinished: 1"
    assert cells.loc["Smooth-AP", ("", "reruns")] == "not run"
    empty = main_study(missing=[method.name for method in musgrave2020.METHODS])
    assert page.best_of_the_fourteen(empty) is None
    assert page.against_the_fourteen(page.join_later_losses(empty, partly)) == {}
    assert page.later_results_cells(empty)[0].loc["Triplet", ("", "reruns")] == "not run"


def test_new_losses_against_the_best_of_the_fourteen():
    main = main_study(reruns=3)
    top = tables.spread(tables.accuracy(main))
    levels = {"circle": 0.9, "supcon": top["best"], "proxy_nca_pp": 0.1}
    found = page.against_the_fourteen(page.join_later_losses(main, after_study(levels, reruns=3)))
    assert found["best_method"] == "circle"
    assert found["fourteen_method"] == top["best_method"]
    assert (found["above"], found["below"], found["n"]) == (1, 1, 3)
    leads = page.leads_over_best(page.join_later_losses(main, after_study(levels, reruns=3)))
    assert leads["lead"]["circle"] == pytest.approx(found["best"] - found["fourteen"])
    assert leads["lead"][top["best_method"]] == 0


def test_one_function_under_three_names(monkeypatch):
    main, after = main_study(), after_study({"proxy_nca_pp": 0.9})
    means = tables.deciding(tables.accuracy(main)).set_index("method")["mean"]
    lowest = means[["proxy_nca", "normalized_softmax"]].min()
    monkeypatch.setattr(page.editions, "experiment_of", lambda name, experiment: after)
    assert page.numbers([main])[f"{main.meta['dataset']}.one_function"] == pytest.approx(100 * (0.9005 - lowest))


def test_the_numbers_of_the_text(monkeypatch):
    main, after = main_study(reruns=3), after_study({"circle": 0.9, "proxy_nca_pp": 0.1}, reruns=3)
    monkeypatch.setattr(page.editions, "experiment_of", lambda name, experiment: after)
    found, name = page.numbers([main]), main.meta["dataset"]
    both = page.join_later_losses(main, after)
    against = page.against_the_fourteen(both)
    assert found[f"{name}.gap"] == pytest.approx(100 * (against["fourteen"] - against["best"]))
    assert (found[f"{name}.above"], found[f"{name}.below"], found[f"{name}.n"]) == (1, 1, 2)
    assert found[f"{name}.tied"] == "circle"
    assert found["one_function.low"] == found["one_function.high"] == found[f"{name}.one_function"]
    assert found["claims.low"] < found["claims.high"]
    assert found["resnet50.low"] < found["resnet50.high"]
    assert (found["reruns.below"], found["reruns.n"]) == (4, 5)


def test_joined_records_keep_both_studies():
    main, after = main_study(), after_study({"circle": 0.5})
    both = page.join_later_losses(main, after)
    assert both.name == "fake-main"
    assert len(both.trials) == len(main.trials) + len(after.trials)
    pretrained = both.scores[both.scores["method"] == PRETRAINED]
    expected = main.scores[main.scores["method"] == PRETRAINED]
    pd.testing.assert_frame_equal(
        pretrained.reset_index(drop=True).iloc[: len(expected)], expected.reset_index(drop=True)
    )
    assert not pretrained.duplicated(["setting", "metric"]).any()


# The figure


def measured(both):
    return tables.measured_by_year(tables.accuracy(both), methods=after2019.KNOWN)


def test_the_figure_holds_claims_and_measurements():
    main, after = main_study(), after_study(dict.fromkeys(NAMES, 0.5))
    panels = {"with": measured(page.join_later_losses(main, after)), "without": measured(main)}
    assert panels["with"].set_index("method").loc["recall_at_k", "year"] == 2022
    table = page.claims_with_trunks()
    axes = [axis for figure in figures.over_the_years(table, panels) for axis in figure.axes]
    titles = [axis.get_title() for axis in axes]
    assert titles == [*(f"{name}, as papers claim" for name in published.DATASETS), "with", "without"]
    for axis, name in zip(axes, published.DATASETS, strict=False):
        drawn = {dots.get_label(): dots for dots in axis.collections if dots.get_label() in page.TRUNKS}
        assert set(drawn) == set(page.TRUNKS)
        for trunk, dots in drawn.items():
            part = table[(table["dataset"] == name) & (table["trunk"] == trunk)]
            years, claimed = dots.get_offsets().T
            np.testing.assert_allclose(claimed, 100 * part["r1"])
            assert (np.abs(years - part["year"]) < 0.5).all()
            assert all(paper in tip for paper, tip in zip(part["paper"], dots.get_urls(), strict=False))
    counts = [sum(len(line.get_xdata()) == 1 for line in axis.get_lines()) for axis in axes[-2:]]
    assert counts == [14 + len(after2019.METHODS), 14]


def test_a_loss_is_drawn_at_its_distance_from_the_best_older_one():
    main, after = main_study(reruns=3), after_study({"circle": 0.9}, reruns=3)
    leads = page.leads_over_best(page.join_later_losses(main, after))
    [axis] = figures.leads_figure({main.name: leads}).axes
    [older] = [dots for dots in axis.collections if len(dots.get_offsets()) == 14]
    assert older.get_offsets()[:, 0].max() == 0
    [drawn] = [line for line in axis.lines if line.get_marker() == "D"]
    assert drawn.get_xydata().tolist() == [[pytest.approx(100 * leads["lead"]["circle"]), 1]]


def test_the_figure_of_high_scores_and_of_none():
    main = main_study()
    high = pd.DataFrame({"method": ["triplet", "circle"], "year": [2006, 2020], "value": [0.99, 0.98]})
    empty = measured(replace(main, scores=main.scores[main.scores["method"] == PRETRAINED]))
    axes = figures.over_the_years(page.claims_with_trunks(), {"high": high, "empty": empty})[-1].axes
    assert axes[-2].get_ylim() == (50, 100)
    assert [text.get_text() for text in axes[-1].texts] == ["not run"]
