"""Tests against the libraries and by hand, and on made-up data where it is known which methods differ."""

import io
import itertools
from dataclasses import replace

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from factories import fake_records
from matplotlib.colors import to_hex
from scikit_posthocs import posthoc_nemenyi_friedman
from scipy import stats

from dmlrc.report import style
from dmlrc.report.significance import figures, measures, page


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def made(reruns=10, seed=1):
    """Scores of four methods: a and b are alike, c lies 2 points above them, d 4 points; seeds move all alike."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(0.5, 0.05, (reruns, 1))
    noise = rng.normal(0, 0.003, (reruns, 4))
    return pd.DataFrame(shared + noise + [0, 0, 0.02, 0.04], columns=list("abcd"))


def study(scores, name="made-study"):
    """StudyRecords with these concatenated MAP@R, a column a method."""
    found = fake_records(study=name, reruns=len(scores))
    long = scores.rename_axis("rerun").reset_index().melt("rerun", var_name="method", value_name="value")
    frames = [
        long.assign(setting=setting, metric=metric)
        for setting in ("concatenated", "separated")
        for metric in ("map_at_r", "precision_at_1")
    ]
    runs = pd.concat([found.runs[found.runs["method"] == "triplet"].assign(method=method) for method in scores])
    return replace(found, runs=runs, scores=pd.concat(frames).assign(repetition=0))


def test_pairs_that_differ_are_found_and_the_others_are_not():
    found = measures.pairwise(made()).set_index(["a", "b"])
    assert len(found) == 6
    assert found.loc[("a", "b"), "holm_t"] > 0.05
    different = [pair for pair in found.index if pair != ("a", "b")]
    assert (found.loc[different, "holm_t"] < 0.001).all()
    assert found.loc[("a", "d"), "difference"] == pytest.approx(-0.04, abs=0.004)
    # pairing matters: the seeds' common spread is larger than the difference
    table = made()
    assert stats.ttest_ind(table["a"], table["c"]).pvalue > 0.05


def test_equal_methods_are_rarely_found_to_differ():
    found = [measures.pairwise(made(seed=seed)[["a", "b"]])["holm_t"][0] < 0.05 for seed in range(200)]
    assert 0 < np.mean(found) < 0.1  # 0.05, up to two standard errors of 200 draws and more


def test_p_values_intervals_and_sizes_are_those_of_the_libraries():
    table = made()
    found = measures.pairwise(table).set_index(["a", "b"])
    for a, b in itertools.combinations(table, 2):
        row, test = found.loc[(a, b)], stats.ttest_rel(table[a], table[b])
        assert row["p_t"] == pytest.approx(test.pvalue)
        assert (row["low"], row["high"]) == pytest.approx(tuple(test.confidence_interval()))
        assert row["p_wilcoxon"] == pytest.approx(stats.wilcoxon(table[a], table[b]).pvalue)
        differences = table[a] - table[b]
        assert row["d"] == pytest.approx(differences.mean() / differences.std())
        assert row["g"] == pytest.approx(row["d"] * (1 - 3 / 35))  # 10 reruns: 4 * 9 - 1
        assert row["n"] == 10


def test_two_reruns_have_no_corrected_effect_size():
    found = measures.pairwise(made().head(2))
    assert found["d"].notna().all()
    assert found["g"].isna().all()


def test_correction_is_over_all_pairs():
    found = measures.pairwise(made(seed=3))
    assert (found["holm_t"] >= found["p_t"]).all()
    smallest = found["p_t"].idxmin()
    assert found["holm_t"][smallest] == pytest.approx(min(1, 6 * found["p_t"][smallest]))


def test_nothing_to_test_is_nan_and_no_error():
    same = pd.DataFrame({"a": [0.5, 0.6, 0.7], "b": [0.4, 0.5, 0.6], "c": [0.5, 0.6, 0.7]})
    found = measures.pairwise(same)
    assert found[["p_t", "p_wilcoxon", "d", "holm_t"]].isna().all().all()
    assert found["difference"].tolist() == pytest.approx([0.1, 0.0, -0.1])
    single = measures.pairwise(same.iloc[:1])
    assert single[["low", "p_t"]].isna().all().all()
    apart = pd.DataFrame({"a": [0.5, np.nan], "b": [np.nan, 0.5]})
    assert measures.pairwise(apart)["n"].tolist() == [0]
    assert measures.pairwise(pd.DataFrame({"a": [0.5, 0.6]})).empty


def test_a_missing_rerun_leaves_its_pairs_only():
    table = made()
    table.loc[0, "d"] = np.nan
    found = measures.pairwise(table).set_index(["a", "b"])["n"]
    assert found["a", "b"] == 10
    assert found["a", "d"] == 9
    assert len(measures.complete(table)) == 9


def test_smallest_wilcoxon_is_reached_where_all_signs_agree():
    table = pd.DataFrame({"a": np.arange(8.0), "b": np.arange(8.0) - np.arange(1, 9) / 10})
    assert measures.pairwise(table)["p_wilcoxon"][0] == pytest.approx(measures.smallest_wilcoxon(8, 1))


def test_friedman_by_hand():
    # three blocks that all rank a > b > c: mean ranks 1, 2, 3; chi2 = 12 N / (k (k + 1)) sum (R - (k + 1) / 2)^2 = 6
    blocks = pd.DataFrame({"a": [3.0, 6.0, 9.0], "b": [2.0, 5.0, 8.0], "c": [1.0, 4.0, 7.0]})
    assert measures.ranks(blocks).to_dict() == {"a": 1, "b": 2, "c": 3}
    found = measures.friedman(blocks)
    assert found["statistic"] == pytest.approx(6)
    assert found["p"] == pytest.approx(np.exp(-3))  # the chi2 distribution with 2 degrees of freedom
    assert np.isnan(measures.friedman(blocks[["a", "b"]])["p"])
    assert np.isnan(measures.friedman(blocks.iloc[:1])["p"])


def test_ties_share_their_ranks():
    assert measures.ranks(pd.DataFrame({"a": [0.5], "b": [0.5], "c": [0.1]})).to_dict() == {
        "a": 1.5,
        "b": 1.5,
        "c": 3,
    }


@pytest.mark.parametrize(("methods", "quantile"), [(2, 1.960), (4, 2.569), (10, 3.164)])
def test_critical_difference_uses_the_table_of_demsar(methods, quantile):
    expected = quantile * np.sqrt(methods * (methods + 1) / (6 * 7))
    assert measures.critical_difference(7, methods) == pytest.approx(expected, abs=0.002)


def test_nemenyi_agrees_with_the_critical_difference():
    blocks = made(reruns=6)
    p = measures.nemenyi(blocks)
    np.testing.assert_allclose(p, posthoc_nemenyi_friedman(blocks))
    mean_ranks = measures.ranks(blocks)
    limit = measures.critical_difference(*blocks.shape)
    for a, b in itertools.combinations(blocks, 2):
        assert (p.loc[a, b] < 0.05) == (abs(mean_ranks[a] - mean_ranks[b]) > limit)


def test_the_best_and_what_cannot_be_told_from_it():
    table = made()
    assert measures.not_told_apart(table, measures.pairwise(table)) == ["d"]
    table["e"] = table["d"] + np.random.default_rng(1).normal(-0.0005, 0.003, len(table))
    assert set(measures.not_told_apart(table, measures.pairwise(table))) == {"d", "e"}


def test_effects_are_turned_towards_the_baseline():
    table = made().rename(columns={"a": "contrastive", "c": "triplet"})[["triplet", "contrastive", "d"]]
    found = measures.effects(table)
    assert found.loc["triplet", "difference"] == pytest.approx((table["triplet"] - table["contrastive"]).mean())
    assert found.loc["d", "difference"] > found.loc["triplet", "difference"] > 0
    assert (found["low"] < found["difference"]).all()
    assert (found["difference"] < found["high"]).all()
    assert (found["d"] > 0).all()
    assert measures.baseline(made()) == "a"


def test_tables_print_what_was_computed():
    table = made().rename(columns={"a": "contrastive", "b": "triplet", "c": "margin", "d": "snr"})
    cells, marks = page.differences(table)
    assert list(cells.index) == list(cells.columns)
    assert cells.index[0] == "SNR"
    assert cells.loc["SNR", "Margin"] == f"{100 * (table['snr'] - table['margin']).mean():+.2f}"
    assert cells.loc["Margin", "SNR"] == f"{100 * (table['margin'] - table['snr']).mean():+.2f}"
    assert marks.loc["SNR", "Margin"] == "best"
    assert marks.loc["Contrastive", "Triplet"] == ""
    one = study(table)
    other = study(table[["contrastive", "triplet"]].iloc[:3], "another-study")
    printed = page.effect_cells([one, other])
    assert printed.loc["SNR", ("another-study", "points")] == "–"
    assert printed.loc["SNR", ("made-study", "p (Holm)")] == "< 0.001"
    whole = page.overview([one, other])
    assert whole.loc["made-study", "pairs"].tolist() == ["6"] * 4
    assert whole.loc["made-study", "differ (t, Holm)"].tolist() == ["5"] * 4


def test_sentences_say_how_much_can_be_seen():
    table = made().rename(columns={"a": "proxy_nca", "b": "normalized_softmax", "c": "margin", "d": "snr"})
    text = page.differences_sentence(study(table))
    assert "5 of 6 pairs" in text
    assert "SNR has the highest mean and can be told from every other method" in text
    caution = page.caution(study(table))
    assert f"{100 * (table['normalized_softmax'] - table['proxy_nca']).mean():+.2f} points" in caution
    assert "cannot fall below" not in caution  # 6 pairs, 10 reruns: it can
    assert "cannot fall below" in page.caution(study(table.iloc[:4]))
    assert "nothing can be tested" in page.differences_sentence(study(table.iloc[:1]))
    assert measures.comparable([study(table), study(table.iloc[:1], "short")])[0].name == "made-study"
    assert len(measures.comparable([study(table), study(table.iloc[:1], "short")])) == 1


def test_blocks_are_the_reruns_and_from_three_studies_on_the_studies():
    studies = [study(made(seed=seed), f"study-{seed}") for seed in range(3)]
    assert list(measures.blocks(studies[:2])) == ["study-0", "study-1"]
    found = measures.blocks(studies)
    assert found["over the data sets"].shape == (3, 4)
    assert "10 blocks, 4 methods" in page.friedman_sentence(found)
    assert "no ranks" in page.friedman_sentence({})
    assert measures.blocks([study(made(reruns=1))]) == {}


def test_cost_beside_accuracy():
    one = study(made())
    steps = {"a": 100, "b": 300, "c": 200, "d": 400}
    one.runs["steps"] = one.runs["method"].map(steps)
    found = measures.cost_and_accuracy(one)
    assert found["steps"].to_dict() == {name: 4.0 * count for name, count in steps.items()}  # four folds
    assert found["dominated"].to_dict() == {"a": False, "b": True, "c": False, "d": False}
    assert "than a, c, d" in page.pareto_front(one)


def drawn(figure):
    figure.savefig(io.BytesIO(), format="svg")
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


def test_figures_show_every_method_in_its_colour():
    names = {"a": "contrastive", "b": "triplet", "c": "proxy_nca", "d": "snr"}
    studies = [study(made().rename(columns=names)), study(made(4, seed=1).rename(columns=names), "second")]
    figure = figures.critical_difference_figure(measures.blocks(studies))
    text = " ".join(drawn(figure))
    assert len(figure.axes) == 2
    assert all(label in text for label in ("Contrastive", "Triplet", "ProxyNCA", "SNR", "made-study", "second"))
    bars = [line.get_xdata() for axis in figure.axes for line in axis.get_lines() if line.get_linewidth() == 2.5]
    assert bars
    assert all((np.diff(bar) >= 0).all() for bar in bars)  # in no process in another order
    figure = figures.effects_figure(studies)
    first = [line for line in figure.axes[0].get_lines() if len(line.get_xdata()) == 1 and line.get_marker() in "os"]
    expected = {100 * (made()[name] - made()["a"]).mean() for name in "bcd"}
    assert {round(line.get_xdata()[0], 4) for line in first} == {round(value, 4) for value in expected}
    hollow = [to_hex(line.get_color()).upper() for line in first if line.get_markerfacecolor() == "white"]
    assert hollow == [style.ORANGE]  # the triplet loss is like the contrastive one
    figure = figures.cost_figure(studies)
    assert len(figure.axes) == 4
    assert "ProxyNCA" in drawn(figure)


def test_one_method_and_no_method():
    alone = study(made()[["a"]])
    assert measures.comparable([alone]) == []
    assert "nothing can be tested" in page.differences_sentence(alone)
    assert page.caution(alone) == ""
