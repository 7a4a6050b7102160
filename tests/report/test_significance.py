"""Tests against the libraries and by hand, and on made-up data where it is known which methods differ."""

import itertools
from dataclasses import replace

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from drawings import drawn
from factories import fake_records
from matplotlib.colors import to_hex
from scikit_posthocs import posthoc_nemenyi_friedman
from scipy import stats

from dmlrc.report import labels, power, statistics, style
from dmlrc.report.results_table import LIFT
from dmlrc.report.significance import figures, measures, page

NAMES = {"a": "contrastive", "b": "triplet", "c": "proxy_nca", "d": "snr"}


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def made(repetitions=3, reruns=3, seed=1, search=0.003, noise=0.001):
    """Runs of four methods: the first two are alike, the third lies 2 points above them, the fourth 4 points."""
    rng = np.random.default_rng(seed)
    rows = []
    for name, centre in zip(NAMES.values(), (0.5, 0.5, 0.52, 0.54), strict=True):
        for repetition in range(repetitions):
            luck = centre + rng.normal(0, search)
            for rerun in range(reruns):
                rows.append((name, repetition, rerun, luck + rng.normal(0, noise)))
    return pd.DataFrame(rows, columns=["method", "repetition", "rerun", "value"])


def study(runs, name="made-study"):
    """StudyRecords with these scores in both settings and metrics."""
    found = fake_records(study=name)
    frames = [
        runs.assign(setting=setting, metric=metric)
        for setting in ("concatenated", "separated")
        for metric in ("map_at_r", "precision_at_1")
    ]
    one = found.runs[found.runs["method"] == "triplet"]
    return replace(
        found, runs=pd.concat([one.assign(method=method) for method in NAMES.values()]), scores=pd.concat(frames)
    )


class TestWhichLuckIsCounted:
    def test_a_study_with_repeated_searches_counts_its_own(self):
        compared = measures.compare(study(made()))
        assert compared.luck == measures.OWN
        assert list(compared.summary.index) == list(NAMES.values())
        expected = statistics.pairs(made(), measures.MARGIN)
        pd.testing.assert_frame_equal(compared.pairs, expected)
        assert page.luck(compared) == "The tests count the noise of search and of seed. Searches of a method: 3."

    def test_one_search_borrows_that_of_the_study_whose_searches_scatter_most(self):
        calm, wild = (study(made(search=search), name) for name, search in (("calm", 0.001), ("wild", 0.01)))
        single = study(made(repetitions=1), "single")
        compared = measures.compare(single, [calm, single, wild])
        assert (compared.luck, compared.donor) == (measures.BORROWED, "wild")
        alone = measures.compare(single, [single])
        assert alone.luck == measures.SEEDS
        widths = [(each.pairs["high"] - each.pairs["low"]).mean() for each in (compared, alone)]
        assert widths[0] > 3 * widths[1]  # a search SD of ten seed SDs
        assert "mean score: `wild`" in page.luck(compared)
        assert "seeds alone" in page.luck(alone)

    def test_seeds_alone_are_unpaired_t_tests_with_one_variance_as_preregistered(self):
        runs = made(repetitions=1, reruns=10)
        found = measures.compare(study(runs)).as_preregistered().pairs
        groups = [part["value"].to_numpy() for _, part in runs.groupby("method", sort=False)]
        error = np.sqrt(np.mean([group.var(ddof=1) for group in groups]) * 2 / 10)
        for row, (one, other) in zip(found.itertuples(), itertools.combinations(groups, 2), strict=True):
            assert row.difference == pytest.approx(one.mean() - other.mean())
            assert row.p == pytest.approx(2 * stats.t.sf(abs(row.difference) / error, 36))
            assert row.p_welch == pytest.approx(stats.ttest_ind(one, other, equal_var=False).pvalue)

    def test_a_shared_seed_does_not_make_a_pair(self):
        """What moves all methods alike in a rerun is noise of each: the interval holds it."""
        runs = made(repetitions=1, reruns=10)
        shaken = runs.assign(value=runs["value"] + 0.05 * np.sin(runs["rerun"]))
        calm, wide = (measures.compare(study(each)).pairs for each in (runs, shaken))
        assert (wide["high"] - wide["low"]).min() > 10 * (calm["high"] - calm["low"]).max()

    def test_reruns_that_diverged_are_left_out(self):
        runs = made()
        runs.loc[0, "value"] = np.nan
        compared = measures.compare(study(runs))
        assert compared.summary.loc["contrastive", "reruns"] == 8


def test_pairs_that_differ_are_found_and_the_others_are_not():
    found = measures.compare(study(made(repetitions=5))).pairs.set_index(["a", "b"])
    assert found.loc[("contrastive", "triplet"), "holm"] > 0.05
    assert (found["holm"].drop(("contrastive", "triplet")) < 0.05).all()
    assert found.loc[("contrastive", "triplet"), "equal"]
    assert not found.loc[("contrastive", "snr"), "equal"]


def test_effects_are_turned_towards_the_baseline():
    runs = made().replace({"method": {"contrastive": "triplet", "triplet": "contrastive"}})
    compared = measures.compare(study(runs))
    found = measures.effects(compared)
    means = runs.groupby("method")["value"].mean()
    assert list(found.index) == ["triplet", "proxy_nca", "snr"]
    for name, row in found.iterrows():
        assert row["difference"] == pytest.approx(means[name] - means["contrastive"])
        assert row["low"] < row["difference"] < row["high"]
    assert measures.baseline(["snr", "margin"]) == "snr"


def test_one_function_under_two_names():
    runs = made().replace({"method": {"snr": "normalized_softmax"}})
    compared = measures.compare(study(runs))
    found = measures.same_function(compared)
    means = runs.groupby("method")["value"].mean()
    assert found.value == pytest.approx(means["normalized_softmax"] - means["proxy_nca"])
    assert measures.same_function(measures.compare(study(made()))) is None


def test_friedman_by_hand():
    # three blocks that all rank a > b > c: mean ranks 1, 2, 3; chi2 = 12 N / (k (k + 1)) sum (R - (k + 1) / 2)^2 = 6
    blocks = pd.DataFrame({"a": [3.0, 6.0, 9.0], "b": [2.0, 5.0, 8.0], "c": [1.0, 4.0, 7.0]})
    assert measures.mean_ranks(blocks).to_dict() == {"a": 1, "b": 2, "c": 3}
    assert measures.friedman(blocks) == pytest.approx(np.exp(-3))  # of chi2 = 6 with 2 degrees of freedom
    assert np.isnan(measures.friedman(blocks[["a", "b"]]))
    assert np.isnan(measures.friedman(blocks.iloc[:1]))


def test_ties_share_their_ranks():
    assert measures.mean_ranks(pd.DataFrame({"a": [0.5], "b": [0.5], "c": [0.1]})).to_dict() == {
        "a": 1.5,
        "b": 1.5,
        "c": 3,
    }


@pytest.mark.parametrize(("methods", "quantile"), [(2, 1.960), (4, 2.569), (10, 3.164)])
def test_critical_difference_uses_the_table_of_demsar(methods, quantile):
    expected = quantile * np.sqrt(methods * (methods + 1) / (6 * 7))
    assert measures.critical_difference(7, methods) == pytest.approx(expected, abs=0.002)


def test_nemenyi_agrees_with_the_critical_difference():
    rng = np.random.default_rng(1)
    blocks = pd.DataFrame(rng.normal([0, 0, 0.02, 0.04], 0.01, (6, 4)), columns=list("abcd"))
    p = measures.nemenyi(blocks)
    np.testing.assert_allclose(p, posthoc_nemenyi_friedman(blocks))
    mean_ranks = measures.mean_ranks(blocks)
    limit = measures.critical_difference(*blocks.shape)
    for a, b in itertools.combinations(blocks, 2):
        assert (p.loc[a, b] < 0.05) == (abs(mean_ranks[a] - mean_ranks[b]) > limit)


def test_tables_print_what_was_computed():
    one, other = (
        study(made(repetitions=5)),
        study(made().query("method in ['contrastive', 'triplet']"), "another-study"),
    )
    compared = [measures.compare(each) for each in (one, other)]
    cells, marks = page.difference_cells(compared[0])
    assert list(cells.index) == list(cells.columns)
    assert cells.index[0] == "SNR"
    means = made(repetitions=5).groupby("method")["value"].mean()
    assert cells.loc["SNR", "ProxyNCA"] == f"{100 * (means['snr'] - means['proxy_nca']):+.2f}"
    assert cells.loc["ProxyNCA", "SNR"] == f"{100 * (means['proxy_nca'] - means['snr']):+.2f}"
    assert marks.loc["SNR", "ProxyNCA"] == "best"
    assert marks.loc["Contrastive", "Triplet"] == "tie"
    printed = page.effect_cells(compared)
    assert printed.loc["SNR", ("another-study", "points")] == "–"
    assert printed.loc["SNR", ("made-study", "p")] == "< 0.001"
    assert printed.loc["Triplet", ("made-study", "equal")] == "yes"
    whole = page.pairs_overview([one, other], [one, other])
    assert whole.loc["made-study", "pairs"].tolist() == ["6"] * 4
    assert whole.loc["made-study", "differ"].tolist() == ["5"] * 4
    assert whole.loc["made-study", "equal"].tolist() == ["1"] * 4
    assert whole.loc["made-study", "tied with the best"].tolist() == ["SNR"] * 4
    assert (whole["lift by training"] == "–").all()  # nothing untrained is recorded


def test_a_study_whose_methods_ran_once_cannot_be_compared():
    single = study(made(repetitions=1, reruns=1), "short")
    assert [each.name for each in measures.comparable([study(made()), single])] == ["made-study"]


def test_how_far_searches_end_apart_and_what_a_study_of_this_size_finds():
    rows = [
        (method, search, rerun, value)
        for method, ends in (("triplet", (0.5, 0.51)), ("margin", (0.5, 0.53)))
        for search, end in enumerate(ends)
        for rerun, value in enumerate((end - 0.001, end + 0.001))
    ]
    runs = pd.DataFrame(rows, columns=["method", "repetition", "rerun", "value"])
    assert measures.between_searches(runs) == pytest.approx(0.02)
    compared = measures.compare(study(runs))
    luck = np.sqrt([compared.known.search, compared.known.seed])
    assert measures.visible(compared) == pytest.approx(power.Design(*luck, 2, 2, 2).least(power.ALL))


def test_the_numbers_of_the_page():
    edition = [on(f"data-{seed}", study(made(seed=seed, repetitions=5), f"study-{seed}")) for seed in range(3)]
    found = page.numbers(edition)
    pairs = measures.compare(edition[1], edition).pairs
    assert (found["data-1.pairs"], found["data-1.losses"]) == (6, 4)
    assert found["data-1.differ"] == (pairs["holm"] < 0.05).sum() == 5
    assert found["data-1.neighbours_differ"] == 2
    assert (found["data-1.far"], found["data-1.far_differ"]) == (1, 1)
    assert (found["data-1.clearly_above_oldest"], found["data-1.clearly_below_oldest"]) == (2, 0)
    assert (found["data-1.oldest_may_be_best"], found["data-1.fewest_ranks"]) == (0, 1)
    assert found["data-1.range"] == pytest.approx(4, abs=0.5)
    assert "data-1.class_half" not in found
    assert found["apart_over_sets"] == measures.critical_difference(3, 4)
    assert found["friedman"] == measures.friedman(measures.datasets(edition))


def on(dataset, records):
    records.meta["dataset"] = dataset
    return records


def test_over_data_sets_from_three_studies_on():
    studies = [on(f"data-{seed}", study(made(seed=seed), f"study-{seed}")) for seed in range(3)]
    studies[1].meta["budget"] = {"name": "full"}
    again = on("data-1", study(made(seed=9), "study-9"))
    blocks = measures.datasets([again, *studies])
    assert blocks.shape == (3, 4)
    assert blocks.loc["data-1"].equals(measures.datasets(studies[1:2]).loc["data-1"])  # not that of a quick one
    assert blocks.loc["data-0", "snr"] == pytest.approx(made(seed=0).query("method == 'snr'")["value"].mean())


def with_classes(records, classes=40, seed=0):
    """The same with scores of test classes: all methods find the same classes hard, `snr` 1 point less so."""
    rng = np.random.default_rng(seed)
    hard, queries = rng.uniform(0.2, 0.8, classes), [0, *rng.integers(5, 60, classes - 1)]
    rows = []
    for name in NAMES.values():
        for rerun in range(2):
            values = hard + 0.01 * (name == "snr") + rng.normal(0, 0.002, classes)
            values[0] = np.nan  # a class without a query
            each = {"classes": list(range(100, 100 + classes)), "queries": queries, "class_map_at_r": values.tolist()}
            place = {"method": name, "repetition": 0, "rerun": rerun, "setting": "concatenated"}
            rows += [place | {"name": key, "values": value} for key, value in each.items()]
    return replace(records, arrays=pd.DataFrame(rows))


class TestOtherClasses:
    records = with_classes(study(made()))

    def test_scores_are_means_over_reruns_of_the_classes_with_queries(self):
        frame, queries = measures.scores_by_class(self.records)
        assert list(frame.columns) == list(NAMES.values())
        assert list(frame.index) == list(range(101, 140)) == list(queries.index)
        first = self.records.arrays.query("method == 'snr' and name == 'class_map_at_r'")["values"]
        assert frame.loc[101, "snr"] == pytest.approx(np.mean([each[1] for each in first]))

    def test_the_same_classes_are_drawn_for_all_so_that_gaps_are_sharper_than_scores(self):
        found = measures.scores_on_other_classes(self.records)
        assert found["first"]["snr"] > 0.99
        assert found.loc["triplet", "behind"] == pytest.approx(0.01, abs=0.002)
        assert (found["behind_high"] - found["behind_low"]).max() < (found["high"] - found["low"]).min() / 10
        assert (found.loc["snr", ["behind", "behind_low", "behind_high"]] == 0).all()
        cells, marks = page.class_cells(self.records)
        assert marks["MAP@R"].tolist() == ["best", "", "", ""]
        assert cells.index[0] == "SNR"
        assert cells.loc["SNR", "leads"] == "100 %"
        trunk = {
            "method": "pretrained",
            "setting": "concatenated",
            "metric": "map_at_r",
            "value": found["mean"].min() + 1e-9,
        }
        scores = pd.concat([self.records.scores, pd.DataFrame([trunk])], ignore_index=True)
        cells, marks = page.class_cells(replace(self.records, scores=scores.fillna({"repetition": 0, "rerun": 0})))
        assert list(cells.index[-2:]) == ["Untrained trunk", LIFT]
        assert cells["MAP@R"].str.contains(labels.BELOW).sum() == 1

    def test_the_choice_of_the_best_is_in_the_intervals(self):
        random, clear = np.random.default_rng(0), 0
        for _ in range(200):
            classes = pd.DataFrame(random.normal(0.5, 0.1, (60, 8)))  # eight methods that are truly equal
            drawn = statistics.over_classes(classes, pd.Series(1, index=classes.index), draws=300).to_numpy()
            least, most = measures.behind_best(classes.mean().to_numpy(), drawn)
            assert (least >= 0).all()
            assert (most >= classes.mean().max() - classes.mean()).all()
            clear += (least > 0).sum()
        assert clear / (200 * 8) < 0.08  # of each method, were it the best; the intervals of pairs excluded 0 in 12 %

    def test_no_method_is_behind_itself(self):
        alone = measures.behind_best(np.array([0.5]), np.full((50, 1), 0.5))
        equal = measures.behind_best(np.array([0.5, 0.5]), np.repeat(np.linspace(0.4, 0.6, 50)[:, None], 2, axis=1))
        assert all((each == 0).all() for each in (*alone, *equal))

    def test_records_without_class_scores_have_none(self):
        assert measures.scores_on_other_classes(study(made())) is None

    def test_the_figure_has_a_line_a_method(self):
        figure = figures.other_classes("made", measures.scores_on_other_classes(self.records))
        assert {"Contrastive", "Triplet", "ProxyNCA", "SNR"} <= set(drawn(figure))


def test_cost_beside_accuracy():
    one = study(made(search=0.016))
    steps = dict(zip(NAMES.values(), (100, 300, 200, 400), strict=True))
    one.runs["steps"] = one.runs["method"].map(steps)
    found = measures.cost_and_accuracy(measures.compare(one), one)
    assert found["steps"].to_dict() == {name: 4.0 * count for name, count in steps.items()}  # four folds
    assert found["among_best"].to_dict() == measures.compare(one).summary["among_best"].to_dict()


def test_figures_show_every_method_in_its_colour():
    compared = [measures.compare(study(made(repetitions=5))), measures.compare(study(made(seed=2), "second"))]
    figure = figures.over_baseline_figure(compared)
    first = [line for line in figure.axes[0].get_lines() if len(line.get_xdata()) == 1 and line.get_marker() == "o"]
    expected = measures.effects(compared[0])["difference"]
    assert {round(line.get_xdata()[0], 4) for line in first} == {round(100 * value, 4) for value in expected}
    pale = [to_hex(line.get_color()) for line in first if line.get_alpha() < 1]
    assert pale == [to_hex(style.method_style("triplet").colour)]  # it is like the contrastive loss
    for each in compared:
        names = {"Contrastive", "Triplet", "ProxyNCA", "SNR", each.study}
        assert names <= set(drawn(figures.rank_intervals_figure(each)))
        found = measures.cost_and_accuracy(each, study(made()))
        figure = figures.cost_figure(each.study, found)
        assert len(figure.axes) == 2
        assert labels.method_label(found["mean"].idxmax()) in drawn(figure)


def test_every_rerun_is_drawn_in_the_look_of_its_search():
    runs = measures.scores(study(made()))
    figure = figures.noise_figure("made", runs)
    drawn = figure.axes[0].collections
    assert len(drawn) == 3  # searches
    for number, dots in enumerate(drawn):
        expected = 100 * runs.loc[runs["repetition"] == number, "value"]
        assert sorted(dots.get_offsets()[:, 0]) == pytest.approx(sorted(expected))
    means = runs.groupby("method")["value"].mean()
    [shaded] = figure.axes[0].patches
    assert (shaded.get_x(), shaded.get_width()) == pytest.approx((100 * means.min(), 100 * np.ptp(means)))


def test_ranks_are_drawn_from_the_first_to_the_last_that_a_method_may_have():
    compared = measures.compare(study(made(repetitions=5)))
    told = compared.summary.sort_values("mean", ascending=False)
    figure = figures.rank_intervals_figure(compared)
    bars = [line for line in figure.axes[0].get_lines() if len(line.get_xdata()) == 2]
    assert [tuple(bar.get_xdata()) for bar in bars] == list(zip(told["rank_low"], told["rank_high"], strict=True))
    shaded = [patch.get_y() + 0.5 for patch in figure.axes[0].patches]
    assert shaded == list(np.flatnonzero(told["among_best"]))


def test_the_critical_difference_joins_methods_in_the_same_order_in_every_process():
    blocks = measures.datasets([on(f"data-{seed}", study(made(seed=seed), f"study-{seed}")) for seed in range(4)])
    figure = figures.critical_difference_figure(blocks)
    assert {"Contrastive", "SNR"} <= {word for text in drawn(figure) for word in text.split()}
    bars = [line.get_xdata() for axis in figure.axes for line in axis.get_lines() if line.get_linewidth() == 2.5]
    assert bars
    assert all((np.diff(bar) >= 0).all() for bar in bars)


def test_one_method_and_no_method():
    alone = study(made().query("method == 'triplet'"))
    assert measures.comparable([alone]) == []
