"""The chapter on Roth et al.: numbers against cases made by hand, the paper's numbers against its text, live toys."""

import functools
import re
from dataclasses import replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from drawings import drawn
from factories import made_records, run_chapter
from matplotlib.colors import to_hex

from dmlrc import metrics, studies
from dmlrc.papers import roth2020 as paper
from dmlrc.report import common, deviations, publish, published, style
from dmlrc.report.results_table import GAP, LIFT, results_table
from dmlrc.report.roth2020 import figures, page, toy

MAIN = "glyphs-full"


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def table(seeds=3, methods=tuple(page.METHODS), diverged=(), rho=None, arrays=()):
    """Records of Table 2. R@1 of method i and seed s: 0.5 + 0.01 i + 0.001 s; rho falls with it, or is rho(i, s)."""
    rho = rho or (lambda i, s: 2 - 0.05 * i + 0.001 * s)
    rows = []
    for i, method in enumerate(page.METHODS):
        if method not in methods:
            continue
        for s in range(seeds):
            r1 = 0.5 + 0.01 * i + 0.001 * s
            rows += [(method, s, "separated", name, r1) for name in page.ALL_METRICS]
            shape = {"rho": rho(i, s), "pi_intra": 1 + r1, "pi_inter": 2 - r1, "pi_ratio": (-1) ** i}
            rows += [(method, s, "train", name, value) for name, value in shape.items()]
    rows += [("pretrained", 0, "separated", name, 0.9) for name in page.ALL_METRICS]
    return made_records(f"{MAIN}/roth2020", rows, arrays=arrays, diverged=diverged)


def sweep(experiment, score, seeds=1, metrics=page.AGGREGATED):
    """Records of a sweep: score(row, value, metric, seed) -> a number, or None for no record."""
    study = studies.STUDIES[f"{MAIN}/roth2020/{experiment}"]
    rows = []
    for method in study.methods:
        row, _, value = method.name.partition("@")
        found = [(metric, seed, score(row, value, metric, seed)) for metric in metrics for seed in range(seeds)]
        rows += [(method.name, seed, "separated", metric, each) for metric, seed, each in found if each is not None]
    return made_records(study.name, rows)


def table2(by_study, metric="precision_at_1"):
    """Cells and marks of one half of Table 2."""
    return results_table(page.compare_table2(page.table2_beside(by_study), metric, by_study))


def ours(records, rows):
    """The cells of a table of ours alone."""
    return results_table(common.ours({MAIN: records}, rows))[0]


# The paper's numbers


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (("CUB200", "margin_06", "precision_at_1"), (0.6250, 0.0024)),
        (("Cars196", "multi_similarity", "nmi"), (0.6943, 0.0038)),
        (("SOP", "r_margin_12", "precision_at_1"), (0.7852, 0.0010)),
        (("SOP", "pretrained", "nmi"), (0.5864, np.nan)),
        (("CUB200", "triplet_semihard", "nmi"), (0.6559, 0.0029)),
    ],
)
def test_published_table_2(where, expected):
    frame = published.roth_results().set_index(["dataset", "method", "metric"])
    np.testing.assert_allclose(frame.loc[where, ["mean", "std"]].to_numpy(float), expected, rtol=1e-12)


def test_published_table_2_is_complete():
    frame = published.roth_results()
    assert len(frame) == 140
    assert not frame.duplicated(["dataset", "method", "metric"]).any()
    assert set(frame["method"]) == {"pretrained", *page.METHODS}
    missing = set(page.METHODS) - set(frame[frame["dataset"] == "SOP"]["method"])
    assert missing == {"proxy_nca", "soft_triple"}


def test_published_interval_is_students_for_five_seeds():
    frame = page.printed_table2("CUB200").set_index(["method", "metric"])
    row = frame.loc[("angular", "precision_at_1")]
    assert row["ci95"] == pytest.approx(2.776445 * 0.0027 / np.sqrt(5), rel=1e-5)


def test_published_trunks():
    frame = published.roth_trunks().set_index(["network", "dataset"])["value"]
    assert frame["Inception-BN", "Cars196"] == pytest.approx(0.4336)
    assert len(frame) == 9


# Table 2


def test_table_2_is_mean_and_standard_deviation_over_seeds():
    frame = page.moments(table()).set_index(["method", "metric"])
    row = frame.loc[("contrastive", "precision_at_1")]  # method 2: 0.520, 0.521, 0.522
    assert row["mean"] == pytest.approx(0.521)
    assert row["std"] == pytest.approx(0.001)
    assert row["ci95"] == pytest.approx(4.302653 * 0.001 / np.sqrt(3), rel=1e-5)


def test_table_2_beside_the_papers():
    cells, marks = table2({MAIN: table()})
    assert cells.loc["Multisimilarity", "the paper, Cars196"] == "81.68 ± 0.19"
    assert cells.loc["Contrastive (D)", MAIN] == "52.10 ± 0.10 (16) ↓"  # the trunk has 90
    assert table2({MAIN: table()}, "nmi")[0].loc["Contrastive (D)", MAIN] == "52.10 ± 0.10 (16) ↓"
    assert cells.loc["Pnca", "the paper, SOP"] == "–"
    assert cells.loc["Untrained trunk", MAIN] == "90.00"
    assert list(cells.index) == ["Untrained trunk", *(method.label for method in paper.METHODS), LIFT, GAP]
    # the paper's bold of CUB200: Margin 1.2; MS, Pnca, ... overlap; R-Margin 0.6 leads the regularised rows
    column = marks["the paper, CUB200"]
    assert column["Margin (D, β = 1.2)"] == column["R-Margin (D, β = 0.6)"] == "best"
    assert column["Multisimilarity"] == "tie"
    assert column["GenLifted"] == column["Untrained trunk"] == ""
    assert (column == "best").sum() == 2
    # ours: the last of each group, although the trunk before training has 0.9
    assert marks[MAIN][marks[MAIN] == "best"].index.to_list() == ["Triplet (S)", "R-Triplet (D)"]


def test_table_2_says_what_is_missing():
    records = table(methods=("margin_12", "snr"), seeds=1, diverged=[("histogram", 0)])
    cells, _ = table2({MAIN: records})
    column = cells[MAIN]
    assert column["Margin (D, β = 1.2)"] == "56.00 (1–2) ↓"  # one seed: no standard deviation
    assert (column["Hist."], column["Angular"]) == ("diverged", "–")
    assert "first-runs/grocery-frozen" not in cells


def test_agreement_is_spearmans_with_each_column():
    frame = page.agreement({MAIN: table()}).set_index(["study", "metric", "dataset"])
    names = list(page.METHODS)
    theirs = published.roth_results()
    theirs = theirs[(theirs["dataset"] == "CUB200") & (theirs["metric"] == "nmi")].set_index("method")["mean"]
    order = pd.Series(range(len(names)), names).loc[list(page.PLAIN)]
    expected = theirs[order.index].corr(order, method="spearman")
    row = frame.loc[(MAIN, "nmi", "CUB200")]
    assert row["rho"] == pytest.approx(expected)
    assert row["n"] == 18
    assert frame.loc[(MAIN, "nmi", "SOP"), "n"] == 16


# Table 1


def test_trunks_beside_the_papers():
    rows = [("squeezenet1_0@projection", seed, "separated", "precision_at_1", 0.2 + 0.1 * seed) for seed in (0, 1)]
    rows += [("squeezenet1_0@imagenet", 0, "separated", "precision_at_1", 0.4)]
    rows += [("conv4@random", 0, "separated", "precision_at_1", 0.1)]
    rows += [("conv4@random", 0, "separated", "nmi", 0.9), ("pretrained", 0, "separated", "precision_at_1", 0.8)]
    found = {"first-runs/grocery-frozen": made_records("first-runs/grocery-frozen/trunks", rows)}
    cells = results_table(page.compare_trunks(found))[0]
    assert cells.loc["ResNet50, random linear layer", "the paper, CUB200"] == "43.77"
    assert cells.loc["SqueezeNet 1.0, random linear layer", "first-runs/grocery-frozen"] == "25.00 ± 7.07"
    assert cells.loc["conv4, random weights, its features", "first-runs/grocery-frozen"] == "10.00"
    assert cells.loc["ResNet50, random linear layer", "first-runs/grocery-frozen"] == "–"
    assert "other" not in cells
    assert len(results_table(page.compare_trunks({}))[0]) == 3


# Figure 1


def test_regularisation_is_a_difference_of_two_groups_of_seeds():
    frame = page.regularisation(page.moments(table(), ["precision_at_1"]))
    row = frame.loc["contrastive"]  # r_contrastive is method 18, contrastive method 2
    assert row["gain"] == pytest.approx(0.16)
    # each three seeds with a standard deviation of 0.001: 4 degrees of freedom, though seeds of one number agree
    assert row["ci95"] == pytest.approx(2.776 * 0.001 * np.sqrt(2 / 3), rel=1e-3)
    assert (row["mean"], row["r_mean"]) == (pytest.approx(0.521), pytest.approx(0.681))
    rho = page.regularisation(page.moments(table(), ["rho"], "train")).loc["contrastive"]
    assert rho["gain"] == pytest.approx(-0.8)


def test_regularisation_with_one_seed_or_one_side():
    one = page.regularisation(page.moments(table(seeds=1), ["precision_at_1"]))
    assert np.isnan(one["ci95"]).all()
    assert not results_table(page.compare_gains({MAIN: table(seeds=1)}))[0][MAIN].str.contains("±").any()
    few = table(methods=("contrastive", "snr", "r_snr"))
    half = page.regularisation(page.moments(few, ["precision_at_1"]))
    assert np.isnan(half["gain"]["contrastive"])
    assert half["gain"]["snr"] == pytest.approx(0.10)
    cells = results_table(page.compare_gains({}))[0]
    assert MAIN not in cells
    assert cells.loc["Triplet (D)", "SOP (the paper)"] == "-0.06 ± 0.21"


def test_regularisation_is_drawn_at_its_numbers():
    panels = page.regularisation_panels({MAIN: table()})
    figure = figures.draw_regularisation(panels)
    text = drawn(figure)
    assert MAIN in text
    assert "SOP (the paper)" in text
    line = figure.axes[0].containers[1].lines[0]
    np.testing.assert_allclose(line.get_xdata(orig=False), 100 * panels[MAIN]["r_mean"])
    assert to_hex(line.get_color()).upper() == style.GREEN


# Figures 2 and 3


def dims(row, value, metric, seed):
    """All metrics in proportion: 0.1 at 32 dimensions, 0.2 from 64 on; ProxyNCA diverges at 1024."""
    if (row, value) == ("proxy_nca", "dim1024"):
        return None
    scale = 10 if metric == "nmi" else 1
    return scale * (0.01 if value == "dim32" else 0.02) * (1 + (row == "softmax"))


def test_influence_is_a_share_of_the_best_value():
    shares = page.influence(sweep("dims", dims))
    assert shares.loc["dim32"].to_numpy() == pytest.approx(0.5)  # whatever the scale of a metric or a loss
    assert shares.loc["dim64"].to_numpy() == pytest.approx(1.0)
    assert np.isnan(shares.loc["dim1024", "proxy_nca"])
    effects = page.factor_effects({"dims": {MAIN: sweep("dims", dims)}})
    assert effects["effect"].to_numpy() == pytest.approx(0.5)
    assert len(effects) == 6


def test_normalising_is_per_metric():
    """Two metrics with opposite trends: their mean share is the same at both values."""

    def opposed(row, value, metric, seed):
        return {"dim32": 0.1, "dim64": 0.2}.get(value) if metric == "f1" else {"dim32": 0.2, "dim64": 0.1}.get(value)

    shares = page.influence(sweep("dims", opposed, metrics=("f1", "nmi")))
    assert shares.to_numpy() == pytest.approx(0.75)


def test_influence_is_drawn_and_missing_sweeps_say_so():
    sweeps = {factor: {} for factor in page.FACTORS}
    sweeps["dims"][MAIN] = sweep("dims", dims)
    assert [*page.pooled(*sweeps.values())] == [MAIN]  # the study around which anything was run
    text = drawn(figures.draw_influence(MAIN, sweeps))
    assert text.count("not run") == 4
    assert {"32", "1024", "Hist.", "weight decay"} <= set(text)
    cells = results_table(page.compare_effects(page.factor_effects(sweeps)))[0]
    assert cells.loc["embedding size", MAIN].startswith("50.0 % (50.0 to 50.0); best: ")
    assert "weight decay" not in cells.index
    assert page.pooled(*({} for _ in page.FACTORS)) == {}


def test_what_moves_a_score_more_than_the_losses_do():
    def by_value(row, value, *_):
        return (0.5 if value in ("batch64", "dim64") else 0.1) + 0.001 * len(row)

    def by_loss(row, value, *_):
        return (0.5 if row == "softmax" else 0.1) + 0.0001 * len(row) * len(value)

    def unclear(row, value, *_):
        return 0.5 if (row == "softmax") == (value == "dim64") else 0.25 if row == "proxy_nca" else 0.4

    found = page.against_losses({"batches": sweep("batches", by_value), "dims": sweep("dims", by_loss)})
    assert found == {"batches": "more", "dims": "less"}
    assert page.against_losses({"dims": sweep("dims", unclear)}) == {"dims": ""}
    effects = page.compare_effects(page.factor_effects({"batches": {MAIN: sweep("batches", by_value)}}))
    assert effects["row"].tolist() == ["images in a batch, equal steps"]


def sampled(row, value, metric, seed):
    """SPC-2 is best, SPC-4 is 2 % below it for every loss, the others by 1 %; seeds average out."""
    share = {"spc2": 1.0, "spc4": 0.98}.get(value, 0.99)
    return 0.5 * share + (0.01 if seed else -0.01)


def test_samplers():
    records = sweep("samplers", sampled, seeds=2)
    found = page.sampler_gap(records, "spc2")
    assert (found.value, found.half, found.n) == (pytest.approx(0.02), pytest.approx(0, abs=1e-12), 6)
    cells = ours(records, page.sampler_shares)
    assert cells.loc["SPC-2", (MAIN, "mean share, %")] == "100.0"
    assert cells.loc["FRD", (MAIN, "above SPC-4, points")] == "+1.0 ± 0.0"
    figure = figures.draw_samplers(MAIN, records)
    assert "DDM" in drawn(figure)
    points = np.concatenate([each.get_offsets() for each in figure.axes[0].collections])
    assert len(points) == 7 * 6 * 6


def test_a_sampler_that_was_not_run_has_no_gap():
    records = sweep("samplers", lambda row, value, *_: 0.5 if value == "gc" else None)
    assert page.sampler_gap(records, "spc2").n == 0
    assert ours(records, page.sampler_shares).loc["SPC-2", (MAIN, "mean share, %")] == "–"
    drawn(figures.draw_samplers(MAIN, records))


# Figure 4


def test_correlations_over_all_runs_of_all_experiments():
    made = {}

    def score(row, value, metric, seed):
        level = 0.1 + 0.001 * made.setdefault((row, value, seed), len(made))  # no two trainings score the same
        return 1 - level if metric == "nmi" else level

    both = [table(), sweep("dims", score, seeds=3, metrics=page.ALL_METRICS)]
    matrix, runs = page.correlations(both)
    assert runs == 23 * 3 + 36 * 3
    frames = pd.concat([common.seed_scores(each, setting="separated").assign(study=each.name) for each in both])
    frames = frames[frames["method"] != "pretrained"]
    wide = frames.pivot(index=["study", "method", "rerun"], columns="metric", values="score")
    expected = np.corrcoef(wide["nmi"], wide["f1"])[0, 1]
    assert matrix.loc["nmi", "f1"] == pytest.approx(expected)
    again = replace(both[1], meta=both[1].meta | {"study": "another"})
    shared, once = page.correlations([*both, again])
    assert once == runs  # the trainings of `again` are those of a sweep before it
    np.testing.assert_allclose(shared, matrix)
    alone, _ = page.correlations([both[1]])
    assert alone.loc["nmi", "precision_at_1"] == pytest.approx(-1)
    assert alone.loc["f1", "precision_at_1"] == pytest.approx(1)
    assert "-1.00" in drawn(figures.draw_correlations(MAIN, [both[1]]))


def test_correlations_of_two_runs_are_none():
    one = table(seeds=1, methods=("snr", "margin_12"))
    matrix, runs = page.correlations([one])
    assert runs == 2
    assert matrix.isna().all(axis=None)


# Figures 5 and 7


def test_correlation_with_rho_is_pearsons_with_fishers_interval():
    noise = np.random.default_rng(0).normal(size=23)
    records = table(rho=lambda i, s: noise[i])
    frame = page.structure(records)
    test = page.correlate(frame, "rho")
    r = np.corrcoef(noise[:18], np.arange(18))[0, 1]  # regularised methods, 18 to 22, do not count
    half = 1.959964 / np.sqrt(18 - 3)
    assert test.n == 18
    assert test.value == pytest.approx(r)
    assert (test.low, test.high) == pytest.approx((np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half)))


def test_distances_count_only_where_embeddings_share_a_scale():
    frame = page.structure(table())
    free = {"angular", "genlifted", "n_pairs"}
    assert set(frame.index[~frame["unit"]]) == free
    assert page.correlate(frame, "pi_intra").n == 15
    assert page.correlate(frame, "pi_ratio").n == 18
    assert page.correlate(frame, "pi_inter").value == pytest.approx(-1)


def test_collapsed_and_few_methods_have_no_correlation():
    collapsed = page.structure(table(rho=lambda i, s: np.inf if i < 16 else 1.0))
    assert page.correlate(collapsed, "rho").n == 2
    assert np.isnan(page.correlate(collapsed, "rho").value)
    constant = page.structure(table(rho=lambda i, s: 1.0))
    assert np.isnan(page.correlate(constant, "rho").value)


@pytest.mark.parametrize("sign", [-1, 1])
def test_correlations_are_printed_with_their_ranks(sign):
    records = table(rho=lambda i, s: 5 + sign * i + 0.1 * (-1) ** i)
    cells = page.correlation_cells({MAIN: records})
    assert cells.loc["ρ", MAIN].startswith("-" if sign < 0 else "+")
    ranked = page.correlate(page.structure(records), "rho", ranks=True)
    assert f"; by ranks {ranked.value:+.2f} [" in cells.loc["ρ", MAIN]


def test_a_method_that_carries_the_correlation_is_named():
    even = page.structure(table(rho=lambda i, s: 5 + i))
    assert page.carried(even, "rho")[0] == ""
    frame = even.copy()
    frame["precision_at_1"] = 0.5 + 0.01 * np.arange(len(frame)) % 2
    frame["rho"] = 1.0 + np.arange(len(frame)) // 2 % 2
    frame.loc["snr", ["precision_at_1", "rho"]] = 0.1, 9.0
    name, without = page.carried(frame, "rho")
    assert name == "snr"
    assert without.value == page.correlate(frame.drop(index="snr"), "rho").value
    assert without.value - page.correlate(frame, "rho").value > page.CARRIES


def test_structure_is_drawn():
    whole, one = (figures.draw_structure(MAIN, each) for each in (table(), table(seeds=1, methods=("snr",))))
    assert any("r = -1.00" in each for each in drawn(whole))
    assert any("too few" in each for each in drawn(one))


def spectra(seeds=2):
    return [
        (method, seed, "train", "spectrum", [9.0, 3.0 - seed, 1.0 + seed])
        for method in ("contrastive", "r_contrastive")
        for seed in range(seeds)
    ]


def test_spectra_lose_the_largest_value_and_sum_to_one():
    frame = page.spectra(table(arrays=spectra())).set_index(["method", "place"])
    assert frame.loc[("contrastive", 2), "mean"] == pytest.approx((3 / 4 + 2 / 4) / 2)
    assert frame.loc[("contrastive", 3), "low"] == pytest.approx(1 / 4)
    assert frame.groupby("method")["mean"].sum().to_numpy() == pytest.approx(1)
    assert page.spectra(table()).empty
    collapsed = [("contrastive", 0, "train", "spectrum", [1.0, 0.0, 0.0])]
    assert page.spectra(table(arrays=collapsed)).empty


def test_spectra_are_drawn():
    figure, other = (figures.draw_spectra(MAIN, each) for each in (table(arrays=spectra()), table()))
    assert drawn(figure).count("not run") == 4  # of five panels one has spectra
    assert drawn(other).count("not run") == 5
    np.testing.assert_allclose(figure.axes[0].get_lines()[0].get_ydata(), [0.625, 0.375])


def test_decay_falls_or_not():
    cells = ours(table(), page.decay)
    assert cells.loc["Contrastive (D)", (MAIN, "difference")].startswith("-0.800 ± ")
    rising = ours(table(rho=lambda i, s: float(i)), page.decay)
    assert rising.loc["Contrastive (D)", (MAIN, "difference")].startswith("+16")
    one = ours(table(seeds=1), page.decay)
    assert "±" not in one.loc["SNR (D)", (MAIN, "difference")]


# The toy


def test_the_toy_follows_its_seed_and_learns():
    first = toy.train_toy(toy.VARIANTS["plain"], seed=1, steps=60)
    again = toy.train_toy(toy.VARIANTS["plain"], seed=1, steps=60)
    np.testing.assert_array_equal(first.train[2], again.train[2])
    np.testing.assert_allclose(np.linalg.norm(first.test[2], axis=1), 1, rtol=1e-5)
    before = toy.measures(toy.train_toy(toy.VARIANTS["plain"], seed=1, steps=0))
    assert toy.measures(first)["train_p1"] > before["train_p1"]


def test_without_a_pull_the_spectrum_opens():
    """Of the variants only the script's, in which nothing pulls, uses the second direction."""
    toys = {name: toy.train_toy(toy.VARIANTS[name], seed=0, steps=100) for name in toy.DRAWN}
    shares = {name: toy.second_share(each.train[2]) for name, each in toys.items()}
    assert shares["script"] > 0.3
    assert shares["plain"] < 0.2
    assert abs(shares["regularised"] - shares["plain"]) < 0.05
    text = drawn(toy.toy_figure(toys))
    assert "only pushing,\nas the script" in text


def test_second_share():
    ring = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    assert toy.second_share(ring) == pytest.approx(0.5)
    assert toy.second_share(np.ones((4, 2))) == pytest.approx(0, abs=1e-6)
    assert metrics.evaluate(ring, [0, 0, 1, 1], ("rho",))["rho"] == 0  # with two dimensions always


def test_lines_lie_where_they_should():
    points, labels = toy.points_on_lines(toy.TRAIN_LINES, np.random.default_rng(0))
    assert points.shape == (60, 2)
    np.testing.assert_allclose(points[:, 0], points[:, 1])
    assert points[labels == 1].min() >= 0.35
    assert points[labels == 1].max() <= 0.55
    points, labels = toy.points_on_lines(toy.TEST_LINES, np.random.default_rng(0))
    np.testing.assert_allclose(points[labels < 2, 0], 0.2)
    np.testing.assert_allclose(points[labels >= 2, 1], 0.2)


def test_toy_differences_are_paired_over_seeds():
    lifts = {"untrained": 0, "pairs": 0, "plain": 0, "regularised": 0.05, "regularised_cub200": 0, "script": -0.2}
    rest = {"train_p1": 1.0, "test_gap": 0.1, "spectrum": 0.2}
    rows = [
        {"variant": name, "seed": seed, **rest, "test_p1": 0.1 * seed + lift}
        for name, lift in lifts.items()
        for seed in range(3)
    ]
    frame = pd.DataFrame(rows)
    found = toy.gain_over_partner(frame, "regularised")
    assert (found.value, found.half, found.n) == (pytest.approx(0.05), pytest.approx(0, abs=1e-12), 3)
    cells = results_table(toy.variant_scores(frame))[0]
    assert cells.loc["R-Contrastive (D), p = 0.001", "difference in test P@1, points"].startswith("+5.0")
    assert cells.loc["only pushing, as the script", "difference in test P@1, points"].startswith("-20.0")


def test_toy_with_one_seed_and_few_steps():
    frame = toy.repeat(seeds=1, steps=2)
    assert set(frame["variant"]) == {"untrained", *toy.VARIANTS}
    assert "±" not in results_table(toy.variant_scores(frame))[0].to_string()


def test_the_records_of_the_toy_are_what_its_training_gives(home, monkeypatch):
    (home / "results" / "measured").mkdir(parents=True)
    monkeypatch.setattr(toy, "repeat", lambda seeds: pd.DataFrame({"seed": range(seeds)}))
    assert toy.recorded_toys(2)["seed"].tolist() == [0, 1]  # nothing is recorded: trained
    toy.record_toys(3)
    monkeypatch.undo()
    monkeypatch.setenv("DMLRC_HOME", str(Path(__file__).parents[2]))
    frame = toy.recorded_toys(10)
    assert frame.groupby("variant")["seed"].apply(list).map(len).eq(10).all()
    for name in ("plain", "script"):
        found = frame[(frame["variant"] == name) & (frame["seed"] == 1)].iloc[0]
        again = toy.measures(toy.train_toy(toy.VARIANTS[name], seed=1))
        # another processor rounds otherwise, and 200 steps carry that far: a point or two of 60 may change sides
        assert dict(found[list(again)]) == pytest.approx(again, abs=0.05)


# The ledger


def test_ledger_names_what_differs():
    rows = deviations.ledger("roth2020", {MAIN: table()})
    assert list(rows.columns) == ["setting", "ours", "the paper's", "the paper's section", "why"]
    assert rows.index[0] == 1
    found = rows.set_index("setting")
    assert found.loc["trunk", "the paper's"] == "ResNet50"
    assert found.loc["images in a batch", "ours"] == "64"
    assert found.loc["images in a batch", "the paper's"] == "112"
    assert "embedding_dim" not in found.index  # 128 both
    assert "last" in found.loc["which epoch counts", "ours"]
    assert "cosine" in found.loc["π_intra, π_inter, π_ratio", "the paper's"]
    assert found.loc["switch probability of the R- rows", "ours"] == "0.3, 0.35, 0.4"


def test_numbers_of_the_table_and_of_the_paper():
    found = page._of_table(table())  # every method leads the one before it by a point; the trunk has 90 %
    assert (found["among_best"], found["below"], found["rows"]) == ("triplet_semihard", 23, 23)
    assert (found["raised"], found["pairs"], found["lowered"], found["flatter"]) == (5, 5, "", 5)
    assert found["mined_low"] < 0
    assert found["rho"] == pytest.approx(-1)
    assert found["agreement_low"] < found["agreement_high"]
    reversed_ = page._of_table(table(rho=lambda i, s: 2 + 0.05 * i + 0.001 * s))
    assert (reversed_["flatter"], reversed_["rho"]) == (0, pytest.approx(1))
    assert page._of_paper() == {"paper.pairs": 15, "paper.raised": 9, "paper.best": "margin_12, multi_similarity"}


# The chapter

FIGURES = tuple(f"roth-f{number}" for number in range(1, 8))
LIVE = ("roth-f1", "roth-f6")  # the paper's own numbers, and what is trained on the spot
TABLES = (
    *("roth-t1", "roth-t2", "roth-f1-gains", "roth-f2-effects", "roth-f3-gaps", "roth-f5-correlations"),
    *("roth-f6-seeds", "roth-f7-decay", "deviations-roth"),
)


@pytest.fixture(scope="module")
def few_toys():
    return toy.repeat(seeds=2, steps=2)


@pytest.mark.parametrize("present", [True, False])
def test_the_chapter_shows_everything(present, few_toys, tmp_path, monkeypatch, without_pictures):
    shown = []
    monkeypatch.setattr(publish, "_display", lambda html, markdown: shown.append(html + markdown))
    monkeypatch.setattr(publish, "text", shown.append)
    monkeypatch.setattr(toy, "repeat", lambda seeds: few_toys)
    train = toy.train_toy
    monkeypatch.setattr(toy, "train_toy", lambda variant: train(variant, steps=2))

    @functools.cache
    def load(main, experiment):
        if not present or main != MAIN or experiment == "roth2020/trunks" or not experiment.startswith("roth2020"):
            return None
        if experiment == "roth2020":
            return table(arrays=spectra(), diverged=[("snr", 3)])
        return sweep(experiment.removeprefix("roth2020/"), sampled, metrics=page.ALL_METRICS)

    exports = run_chapter("11_roth2020", f"{MAIN},first-runs/grocery-frozen", load, tmp_path, monkeypatch)
    for name in (*FIGURES, *TABLES):
        drawing = name in FIGURES and (present or name in LIVE)
        assert (exports / f"{name}.{'svg' if drawing else 'csv'}").stat().st_size > 60, name
    pages = " ".join(shown)
    assert "Not run here yet" in pages or present
    assert not re.search(r"\bnan\b", pages)


def test_the_spread_of_the_losses_is_that_of_their_best_and_worst():
    def score(row, value, metric, seed):
        return 0.5 if row == "softmax" else 0.4

    records = sweep("dims", score)
    spread = page.loss_spread(records)
    assert spread.tolist() == pytest.approx([0.2] * len(spread))
    assert len(spread) > 1
