"""Statistics: made-up studies with known search and seed variance, other packages as judges, plain loops as oracles."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.formula.api import mixedlm
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW, ttost_ind

from dmlrc.report import statistics

STUDIES, METHODS, REPETITIONS, RERUNS = 2000, 14, 3, 3
RATIOS = (0.0, 1.0, 5.0)  # SD of search to SD of seed
SEED_SD = 0.1
COVERS = (0.93, 0.985)  # where all methods vary alike, a variance that allows for the opposite covers too often
MONTE_CARLO = 3 * np.sqrt(0.05 * 0.95 / STUDIES)  # how far a share of 5 % strays by chance
FEW = 500  # studies, where the share lies so far from 5 % that it stays on its side of it


def made(ratio, means=None, studies=STUDIES, methods=METHODS, repetitions=REPETITIONS, reruns=RERUNS, seed=0):
    """Values (studies, M, R, S) of the model, and their methods' true means (studies, M)."""
    random = np.random.default_rng(seed)
    means = random.normal(0, 1, (studies, methods)) if means is None else np.broadcast_to(means, (studies, methods))
    search = random.normal(0, 1, (studies, methods, repetitions))
    luck = random.normal(0, 1, (studies, methods, repetitions, reruns))
    return means[..., None, None] + SEED_SD * (ratio * search[..., None] + luck), means


def frame(values):
    """One study's values (M, R, S) as `runs`."""
    index = pd.MultiIndex.from_product(map(range, values.shape), names=["method", "repetition", "rerun"])
    runs = pd.Series(values.ravel(), index, name="value").reset_index()
    return runs.assign(method="m" + runs["method"].astype(str))


def inside(truth, centre, variance, df):
    """For each interval, whether the truth lies in it."""
    return np.abs(truth - centre) <= stats.t.ppf(0.975, df) * np.sqrt(variance)


def covered(values, means):
    known = statistics.noise(values)
    return inside(means, *statistics.of_methods(values, known))


@pytest.mark.parametrize("ratio", RATIOS)
class TestSimulation:
    def test_intervals_cover(self, ratio):
        found = covered(*made(ratio))
        assert COVERS[0] <= found.mean() <= COVERS[1]
        assert COVERS[0] <= found[:, 0].mean() <= COVERS[1]

    def test_seed_intervals_cover_the_mean_of_these_searches(self, ratio):
        values, means = made(0.0)
        found = ratio * np.random.default_rng(1).normal(size=(STUDIES, METHODS, REPETITIONS))
        centre, *_ = statistics.of_methods(values + found[..., None], statistics.noise(values))
        variance, df = statistics.by_seed(values + found[..., None])
        assert COVERS[0] <= inside(means + found.mean(-1), centre, variance, df).mean() <= COVERS[1]

    def test_a_method_searched_once_borrows_the_search_of_the_others(self, ratio):
        values, means = made(ratio)
        values[:, 0, 1:] = np.nan
        found = covered(values, means)
        assert COVERS[0] <= found[:, 0].mean() <= COVERS[1]
        assert COVERS[0] <= found[:, 1:].mean() <= COVERS[1]

    def test_failed_reruns(self, ratio):
        values, means = made(ratio)
        failed = np.random.default_rng(2).random(values.shape) < 0.1
        failed[..., 0] = False  # one rerun of each repetition is left
        found = covered(np.where(failed, np.nan, values), means)
        assert COVERS[0] <= found.mean() <= COVERS[1]

    def test_a_study_searched_once_borrows_from_another(self, ratio):
        other, _ = made(ratio, seed=3)
        values, means = made(ratio, repetitions=1)
        known = statistics.noise(other)
        found = [
            inside(
                means[i], *statistics.of_methods(values[i], statistics.with_search_variance_from(values[i], one, 1.0))
            )
            for i in range(300)
            for one in [statistics.Noise(*(each[i] for each in list(vars(known).values())[:-1]))]
        ]
        assert COVERS[0] <= np.mean(found) <= COVERS[1]

    def test_differences_cover_and_holm_keeps_its_level_where_all_methods_are_equal(self, ratio):
        values, _ = made(ratio, means=0.0, studies=FEW)
        known = statistics.noise(values)
        difference, error, df, p = statistics.pairwise(*statistics.of_methods(values, known), known.df)
        assert COVERS[0] <= inside(0, difference, error**2, df).mean() <= COVERS[1]
        assert (statistics.holm(p).min(-1) < 0.05).mean() <= 0.05 + MONTE_CARLO

    def test_equivalence_keeps_its_level_at_the_margin(self, ratio):
        margin = 3 * SEED_SD * max(ratio, 0.5)
        values, _ = made(ratio, means=np.where(np.arange(METHODS) == 1, margin, 0.0), studies=FEW)
        known = statistics.noise(values)
        difference, error, df, _ = statistics.pairwise(*statistics.of_methods(values, known), known.df)
        equal = statistics.equivalence(difference, error, df, margin) < 0.05
        first, second = np.triu_indices(METHODS, 1)
        apart = (first == 1) | (second == 1)
        assert equal[:, apart].mean() <= 0.05 + MONTE_CARLO
        assert equal[:, ~apart].mean() > 0.5  # two equal methods pass

    def test_all_true_ranks_lie_in_their_intervals_and_the_best_method_is_kept(self, ratio):
        spread = SEED_SD * (0.5 + ratio) * np.random.default_rng(4).normal(0, 2, METHODS)
        values, _ = made(ratio, means=spread, studies=FEW)
        known = statistics.noise(values)
        scored = *statistics.of_methods(values, known), known.df
        first, last = statistics.rank_intervals(*scored)
        ranks = stats.rankdata(-spread)
        assert ((first <= ranks) & (ranks <= last)).all(-1).mean() >= 0.95 - MONTE_CARLO
        assert (last - first).mean() < METHODS - 2  # and they say something
        kept = statistics.among_best(*scored)
        assert kept[:, spread.argmax()].mean() >= 0.95 - MONTE_CARLO
        assert kept.mean() < 0.6

    @pytest.mark.parametrize("apart", [0.0, 0.5, 2.0])
    def test_the_range_of_the_true_scores_is_covered(self, ratio, apart):
        truth = apart * SEED_SD * np.random.default_rng(9).normal(size=METHODS)
        values, _ = made(ratio, means=truth, studies=FEW)
        scored = statistics.of_methods(values, known := statistics.noise(values))
        found = [statistics.range_of(*each) for each in zip(*scored, known.df, strict=True)]
        assert np.mean([each.low <= np.ptp(truth) <= each.high for each in found]) >= 0.95 - MONTE_CARLO

    def test_the_ratio_of_search_to_seed_is_as_often_too_large_as_too_small(self, ratio):
        values, _ = made(ratio)
        found = statistics.search_to_seed(values)
        assert (found > ratio).mean() == pytest.approx(0.5, abs=0.02)


def test_intervals_that_leave_search_out_do_not_cover():
    values, means = made(2.0)
    centre, *_ = statistics.of_methods(values, statistics.noise(values))
    assert inside(means, centre, *statistics.by_seed(values)).mean() < 0.75


def test_a_methods_own_variance_is_moved_towards_the_mean():
    values = made(1.0, studies=1, methods=4)[0][0]
    values[3, 1:] = np.nan
    known = statistics.noise(values)
    _, variance, df = statistics.of_methods(values, known)
    own = values[:3].mean(-1).var(-1, ddof=1)
    assert variance == pytest.approx([*(known.repetition + own) / 2 / 3, known.repetition], rel=1e-6)
    assert df.tolist() == [4, 4, 4, 6]
    _, variance, df = statistics.of_methods(values, replace(known, pooled=True))
    assert variance == pytest.approx(known.repetition / np.array([3, 3, 3, 1]))
    assert df.tolist() == [6] * 4


def test_more_searches_count_for_more_than_the_mean_of_the_methods():
    values = made(1.0, studies=1, methods=4, repetitions=6)[0][0]
    known = statistics.noise(values)
    own = values.mean(-1).var(-1, ddof=1)
    assert statistics.of_methods(values, known)[1] == pytest.approx((2 * known.repetition + 5 * own) / 7 / 6)


def test_the_best_is_kept_where_all_methods_are_equal():
    values, _ = made(1.0, means=0.0, studies=FEW)
    known = statistics.noise(values)
    kept = statistics.among_best(*statistics.of_methods(values, known), known.df)
    assert kept.mean(0).min() >= 0.95 - MONTE_CARLO


def components_of(runs):
    """Search and seed variance by restricted maximum likelihood."""
    cells = runs["method"] + "/" + runs["repetition"].astype(str)
    fit = mixedlm("value ~ 0 + C(method)", runs, groups=cells).fit(reml=True)
    return float(fit.cov_re.iloc[0, 0]), float(fit.scale)


def test_components_are_those_of_the_mixed_model():
    values, _ = made(1.5, studies=1)
    runs = frame(values[0])
    found = statistics.noise(statistics.as_array(runs)[1])
    search, seed = components_of(runs)
    assert found.search == pytest.approx(search, rel=1e-3)
    assert found.seed == pytest.approx(seed, rel=1e-3)


def test_components_of_unbalanced_runs_are_near_those_of_the_mixed_model():
    values, _ = made(1.5, studies=1, reruns=6)
    runs = frame(values[0]).sample(frac=0.6, random_state=0)
    search, seed = components_of(runs)
    found = statistics.noise(statistics.as_array(runs)[1])
    assert found.search == pytest.approx(search, rel=0.1)
    assert found.seed == pytest.approx(seed, rel=0.1)


def test_components_of_unbalanced_runs_are_unbiased():
    values, _ = made(1.5, studies=20_000, methods=4)
    values[:, 0, 1:] = np.nan
    values[:, 1, 0, 1:] = np.nan
    values[:, 2, :, 2] = np.nan
    found = statistics.noise(values)
    assert (found.repetition - found.seed * found.share).mean() == pytest.approx((1.5 * SEED_SD) ** 2, rel=0.03)
    assert found.seed.mean() == pytest.approx(SEED_SD**2, rel=0.03)


def test_noise_by_plain_loops():
    values = made(1.0, studies=1, methods=2)[0][0]
    means = [[sum(rerun) / 3 for rerun in method] for method in values]
    seed = sum((y - m) ** 2 for a, b in zip(values, means, strict=True) for r, m in zip(a, b, strict=True) for y in r)
    around = sum((m - sum(method) / 3) ** 2 for method in means for m in method)
    found = statistics.noise(values)
    assert found.seed == pytest.approx(seed / 12)
    assert found.seed_df == 12
    assert found.repetition == pytest.approx(around / 4)
    assert found.df == 4
    assert found.search == pytest.approx(max(0, around / 4 - seed / 12 / 3))


class TestSummary:
    values = made(1.0, studies=1, methods=5)[0][0]
    runs = frame(values)

    def test_intervals_are_students_t_with_the_moderated_variance_of_the_repetitions(self):
        found = statistics.summary(self.runs).loc["m1"]
        variances = self.values.mean(-1).var(-1, ddof=1)
        half = stats.t.ppf(0.975, 4) * np.sqrt((variances.mean() + variances[1]) / 2 / 3)
        assert found["mean"] == pytest.approx(self.values[1].mean())
        assert found["high"] - found["mean"] == pytest.approx(half)
        assert found["error"] * stats.t.ppf(0.975, found["df"]) == pytest.approx(half)

    def test_preregistered_intervals_have_the_pooled_variance(self):
        known = replace(statistics.noise(self.values), pooled=True)
        found = statistics.summary(self.runs, known).loc["m1"]
        half = stats.t.ppf(0.975, 10) * np.sqrt(self.values.mean(-1).var(-1, ddof=1).mean() / 3)
        assert found["high"] - found["mean"] == pytest.approx(half)
        row = statistics.pairs(self.runs, 0.3, known).iloc[0]
        assert row["high"] - row["difference"] == pytest.approx(half * np.sqrt(2))

    def test_order_of_the_rows_and_diverged_runs_do_not_matter(self):
        lost = self.runs.assign(value=self.runs["value"].where(self.runs.index != 7, np.inf))
        left_out = self.runs.drop(index=7).sample(frac=1, random_state=0)
        found, other = statistics.summary(lost), statistics.summary(left_out)
        pd.testing.assert_frame_equal(found, other.loc[found.index])
        assert found.loc["m0", "reruns"] == 8

    def test_one_repetition_has_the_interval_of_its_reruns_and_no_other(self):
        runs = self.runs[self.runs["repetition"] == 0]
        found = statistics.summary(runs).loc["m2"]
        assert found["seed_high"] - found["mean"] == pytest.approx(statistics.half_width(self.values[2, 0]))
        assert np.isnan(found[["low", "high", "search", "search_to_seed"]].astype(float)).all()
        assert (found["rank_low"], found["rank_high"], found["among_best"]) == (1, 5, True)

    def test_a_method_without_a_finished_run_has_no_number(self):
        runs = self.runs.assign(value=self.runs["value"].where(self.runs["method"] != "m3"))
        found = statistics.summary(runs)
        assert np.isnan(found.loc["m3", "mean"])
        assert found.loc["m3", "reruns"] == 0
        assert found.drop(index="m3")["low"].notna().all()

    def test_ranks_of_points_that_can_be_drawn(self):
        scored = np.array([3.0, 2.99, 1.0, 0.0]), np.full(4, 0.001), np.full(4, 8), np.array(8)
        first, last = statistics.rank_intervals(*scored)
        assert first.tolist() == [1, 1, 3, 4]
        assert last.tolist() == [2, 2, 3, 4]
        assert statistics.among_best(*scored).tolist() == [True, True, False, False]

    def test_pairs(self):
        found = statistics.pairs(self.runs, margin=0.3)
        table = statistics.summary(self.runs)
        assert len(found) == 10
        row = found[(found["a"] == "m1") & (found["b"] == "m4")].iloc[0]
        assert row["difference"] == pytest.approx(table.loc["m1", "mean"] - table.loc["m4", "mean"])
        errors = table.loc[["m1", "m4"], "error"].to_numpy()
        df = 4 * (errors**2).sum() ** 2 / (errors**4).sum()  # by hand, as Welch's, from twice 4
        assert 4 < df < 8
        assert row["high"] - row["difference"] == pytest.approx(stats.t.ppf(0.975, df) * np.hypot(*errors))
        means = self.values.mean(-1)
        assert row["p_welch"] == pytest.approx(stats.ttest_ind(means[1], means[4], equal_var=False).pvalue)
        same = statistics.contrast(self.runs, {"m1": 1, "m4": -1})
        assert (same.value, same.low, same.high) == pytest.approx((row["difference"], row["low"], row["high"]))

    def test_a_contrast_of_an_unknown_method(self):
        with pytest.raises(KeyError, match="no finished run of method 'm9'"):
            statistics.contrast(self.runs, {"m9": 1})


def test_a_range_of_points_that_can_be_drawn():
    quantile = 3.57793  # studentized range of 3, 20 df; times the error of one score: that of a difference by root 2
    found = statistics.range_of([0.1, 0.5, 0.9], [0.01**2] * 3, [20] * 3, 20)
    assert (found.value, found.low, found.high) == pytest.approx((0.8, 0.8 - 0.01 * quantile, 0.8 + 0.01 * quantile))
    equal = statistics.range_of([0.5, 0.5], [0.01**2] * 2, [20] * 2, 20)
    assert (equal.value, equal.low) == (0, 0)
    assert equal.high > 0
    uneven = statistics.range_of([0.0, 0.5, 0.6], [0.0, 0.0, 0.3**2], [20] * 3, 20)  # the highest may be anywhere
    assert uneven.low == pytest.approx(0.5)
    alone = statistics.range_of([0.5], [0.01], [20], 20)
    assert (alone.value, alone.low, alone.high) == (0, 0, 0)
    assert np.isnan(statistics.range_of([0.1, 0.2], [np.nan] * 2, [0] * 2, 0).low)


def test_holm_is_that_of_statsmodels(monkeypatch):
    monkeypatch.setattr("gc.collect", int)  # statsmodels searches for garbage in every call, half a second each
    p = np.random.default_rng(0).random((3, 20)) ** 4
    for row, found in zip(p, statistics.holm(p), strict=True):
        np.testing.assert_allclose(found, multipletests(row, method="holm")[1])
    # sorted: 0.01 * 3, 0.03 * 2, 0.04 * 1, and never falling
    by_hand = statistics.holm([0.01, 0.04, np.nan, 0.03])
    assert by_hand == pytest.approx([0.03, 0.06, np.nan, 0.06], nan_ok=True)
    with_nan = np.insert(p[0], 3, np.nan)
    np.testing.assert_array_equal(np.delete(statistics.holm(with_nan), 3), statistics.holm(p[0]))
    assert np.isnan(statistics.holm(with_nan)[3])


def test_equivalence_is_that_of_statsmodels():
    first, second = np.random.default_rng(0).normal(0, 1, (2, 10))
    error = np.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 10)
    found = statistics.equivalence(first.mean() - second.mean(), error, 18, 1.5)
    assert found == pytest.approx(ttost_ind(first, second, -1.5, 1.5)[0])


@pytest.mark.parametrize(("methods", "df", "level"), [(2, 1, 0.95), (14, 28, 0.9), (14, 28, 0.95), (60, 2, 0.95)])
def test_tukeys_quantile_is_that_of_scipy(methods, df, level):
    found = statistics.ranks._tukey(methods, df, level) * np.sqrt(2)
    assert stats.studentized_range.cdf(found, methods, df) == pytest.approx(level, abs=1e-8)


def test_the_quantile_for_all_others_is_the_lower_of_two():
    found = statistics.above_one(14, np.array([28.0, 2.0, 0.0]))
    assert found[0] == pytest.approx(stats.t.isf(0.05 / 13, 28))
    assert found[1] == statistics.ranks._tukey(14, 2) < stats.t.isf(0.05 / 13, 2)
    assert np.isnan(found[2])
    assert np.isnan(statistics.above_one(1, np.array([8.0]))).all()


def test_redrawn_mean_has_the_normal_interval():
    found = statistics.parametric_bootstrap([([5.0], [0.5])], lambda scores: scores[..., 0])
    assert found.value == 5
    assert (found.low, found.high) == pytest.approx((5 - 1.96 * 0.5, 5 + 1.96 * 0.5), abs=0.03)


@pytest.mark.parametrize("error", [0.05, 0.2])
def test_redrawn_ratios_of_ranges_cover(error):
    random, truth, hits = np.random.default_rng(0), np.linspace(0, 3, 8), []
    for _ in range(1000):
        groups = [(random.normal(scale * truth, error), np.full(8, error)) for scale in (0.5, 1.0)]
        found = statistics.parametric_bootstrap(groups, lambda a, b: np.ptp(a, axis=-1) / np.ptp(b, axis=-1), draws=400)
        hits.append(found.low <= 0.5 <= found.high)
    assert 0.92 <= np.mean(hits) <= 0.98


@pytest.mark.parametrize(("scales", "low"), [((4, 1.0), True), ((1.0, 4), False)], ids=["under the line", "above it"])
def test_redrawn_ratios_do_not_cover_where_luck_makes_one_range(scales, low):
    """The range of which luck makes most looks wider than it is."""
    random, truth, misses = np.random.default_rng(0), np.linspace(0, 0.1, 8), []
    ratio = scales[0] / scales[1]
    for _ in range(60):
        groups = [(random.normal(scale * truth, 0.2), np.full(8, 0.2)) for scale in scales]
        found = statistics.parametric_bootstrap(groups, lambda a, b: np.ptp(a, axis=-1) / np.ptp(b, axis=-1), draws=200)
        misses.append(found.high < ratio if low else found.low > ratio)
    assert np.mean(misses) > 0.5
    assert statistics.expected_range_under_null(np.full(8, 0.2)) > 5 * np.ptp(truth)  # which the page shows beside it


def test_the_range_of_luck_is_that_of_normal_draws():
    assert statistics.expected_range_under_null(np.full(8, 0.5)) == pytest.approx(
        2.847 * 0.5, rel=0.01
    )  # tabulated for 8
    assert statistics.expected_range_under_null([0.0, 0.0]) == 0


def test_luck_turns_pairs_that_lie_close():
    apart = statistics.expected_discordant_pairs([0.0, 1.0, 2.0], np.full(3, 0.01), np.full(3, 0.01))
    assert (apart.value, apart.n) == (0, 3)
    equal = statistics.expected_discordant_pairs(np.zeros(8), np.full(8, 0.3), np.full(8, 0.1))
    assert equal.value == pytest.approx(14, abs=0.5)  # half of 28
    two = statistics.expected_discordant_pairs([0.0, 2.0], np.ones(2), np.ones(2))
    wrong = stats.norm.cdf(-1)  # one measurement has them in the wrong order; the true ones lie sqrt(2) apart
    assert two.value == pytest.approx(2 * wrong * (1 - wrong), abs=0.03)


@pytest.mark.parametrize("error", [0.3, 0.8])
def test_luck_is_not_understated_by_the_noise_of_the_scores_themselves(error):
    random, errors, counted, said = np.random.default_rng(0), np.full(8, error), [], []
    for _ in range(300):
        true = random.normal(0, 1, 8)
        first, second = (true + random.normal(0, errors) for _ in range(2))
        counted.append(statistics.discordant_pairs(first, second)[0])
        said.append(statistics.expected_discordant_pairs(first, errors, errors, draws=200).value)
    assert 1 <= np.mean(said) / np.mean(counted) < 1.15  # a tenth too many; without shrinking 0.86 at 0.8


class TestClasses:
    random = np.random.default_rng(0)
    difficulty = random.normal(0.5, 0.2, 100)
    scores = pd.DataFrame({"a": difficulty + random.normal(0.02, 0.02, 100), "b": difficulty}, index=range(100))
    queries = pd.Series(random.integers(20, 60, 100), index=range(100))

    def test_the_difference_is_paired(self):
        drawn = statistics.over_classes(self.scores, self.queries)
        own = statistics.percentiles(0.5, drawn["a"], 100)
        gap = statistics.percentiles(0.02, drawn["a"] - drawn["b"], 100)
        assert gap.high - gap.low < (own.high - own.low) / 5
        assert gap.high - gap.low == pytest.approx(2 * 1.96 * 0.02 / 10, rel=0.2)

    def test_it_centres_on_the_mean_over_all_queries(self):
        drawn = statistics.over_classes(self.scores, self.queries)
        for name in self.scores:
            mean = np.average(self.scores[name], weights=self.queries)
            assert drawn[name].mean() == pytest.approx(mean, abs=0.002)

    def test_one_class_has_one_value(self):
        drawn = statistics.over_classes(self.scores.iloc[[3]], self.queries)
        np.testing.assert_allclose(drawn, np.tile(self.scores.iloc[3], (len(drawn), 1)))


def test_expected_best_is_the_mean_over_all_choices():
    values = np.random.default_rng(0).normal(size=7)
    for k, found in enumerate(statistics.expected_best(values), 1):
        assert found == pytest.approx(np.mean([max(chosen) for chosen in itertools.combinations(values, k)]))


def test_expected_best_of_thousands_of_trials_is_known_for_evenly_spaced_values():
    k = np.arange(1, 1_201)  # more than 1,029, of which the choices are more than a float holds
    found = statistics.expected_best(k)
    np.testing.assert_allclose(found, k * 1_201 / (k + 1), rtol=1e-9)  # the highest of k places among n


def test_expected_best_leaves_diverged_trials_out_and_of_none_there_is_none():
    np.testing.assert_allclose(statistics.expected_best([1.0, np.nan, 2.0]), [1.5, 2.0])
    assert len(statistics.expected_best([np.nan])) == 0


def test_intervals_are_those_of_the_libraries():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=12), rng.normal(size=12)
    found = statistics.mean(x)
    assert (found.low, found.high) == pytest.approx(DescrStatsW(x).tconfint_mean())
    found = statistics.correlation(x, y)
    assert (found.low, found.high) == pytest.approx(tuple(stats.pearsonr(x, y).confidence_interval()))
    found = statistics.correlation(x, y, ranks=True)
    assert found.value == pytest.approx(stats.spearmanr(x, y).statistic)
    assert found.low < found.value < found.high
    found = statistics.welch(x, y[:5])
    both = CompareMeans(DescrStatsW(x), DescrStatsW(y[:5]))
    assert (found.low, found.high) == pytest.approx(both.tconfint_diff(usevar="unequal"))
    assert found.n == 5
    found = statistics.share(8, 11)
    assert (found.low, found.high) == pytest.approx(proportion_confint(8, 11, method="wilson"))
    found = statistics.slope(x, 2 * x + y)
    fit = stats.linregress(x, 2 * x + y)
    assert found.value == pytest.approx(fit.slope)
    assert found.high - found.value == pytest.approx(stats.t.ppf(0.975, 10) * fit.stderr)


def test_bootstrap_is_seeded_and_near_the_closed_interval():
    x = np.random.default_rng(0).normal(size=(200, 1))
    found = statistics.bootstrap(x, lambda rows: rows.mean(axis=(-2, -1)))
    assert found == statistics.bootstrap(x, lambda rows: rows.mean(axis=(-2, -1)))
    theirs = stats.bootstrap((x[:, 0],), np.mean, method="percentile", n_resamples=2000, rng=np.random.default_rng(0))
    assert (found.low, found.high) == pytest.approx(tuple(theirs.confidence_interval))
    closed = statistics.mean(x[:, 0])
    assert (found.low, found.high) == pytest.approx((closed.low, closed.high), abs=0.02)


def test_too_little_gives_no_interval():
    assert statistics.mean([]).n == 0
    assert math.isnan(statistics.mean([1.0]).low)
    assert statistics.mean([1.0, np.nan, 3.0]).n == 2
    assert math.isnan(statistics.slope([2019, 2019], [1, 2]).value)
    assert math.isnan(statistics.slope([2018, 2019], [1, 2]).half)
    assert math.isnan(statistics.correlation([1, 2, 3, 4], [5, 5, 5, 5]).value)
    assert math.isnan(statistics.correlation([1, 2, 3], [1, 2, 4]).low)
    assert math.isnan(statistics.bootstrap([[1.0]], lambda rows: rows.mean(axis=(-2, -1))).low)
    assert math.isnan(statistics.welch([1.0, 1.0], [2.0, 2.0]).low)
    assert statistics.correlation([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]).low == pytest.approx(1, abs=1e-5)


def test_ranks_by_the_luck_of_seeds_are_those_of_all_pairs_at_once():
    random = np.random.default_rng(5)
    runs = {name: random.normal(mean, 0.02, n) for name, mean, n in (("a", 0.5, 3), ("b", 0.51, 5), ("c", 0.6, 4))}
    frame = pd.DataFrame(
        [(name, value) for name, values in runs.items() for value in values], columns=["name", "value"]
    )
    told = statistics.by_luck_of_seeds(statistics.of_groups(frame.groupby("name")["value"]))
    p = stats.tukey_hsd(*runs.values()).pvalue
    assert p[0, 1] > 0.05 > p[1, 2] > 0
    assert told["rank_low"].to_dict() == {"a": 2, "b": 2, "c": 1}
    assert told["rank_high"].to_dict() == {"a": 3, "b": 3, "c": 1}
    assert told["among_best"].to_dict() == {"a": False, "b": False, "c": True}


def test_rows_without_a_mean_have_no_rank_and_without_intervals_nothing_is_told_apart():
    rows = pd.DataFrame({"mean": [0.5, np.nan, 0.6], "ci95": [0.01, np.nan, np.nan], "n": [3, 0, 1]})
    told = statistics.by_luck_of_seeds(rows)
    assert told["rank_low"].tolist()[::2] == [2, 1]  # the pooled deviation of a run is 0.004, and 0.008 is sure
    assert np.isnan(told.loc[1, ["rank_low", "rank_high"]].astype(float)).all()
    assert told["among_best"].tolist() == [False, False, True]
    unknown = statistics.by_luck_of_seeds(rows.assign(ci95=np.nan))
    assert unknown["rank_high"].tolist()[::2] == [2, 2]
    assert unknown["among_best"].tolist() == [True, False, True]
    assert statistics.by_luck_of_seeds(rows[:0]).empty
