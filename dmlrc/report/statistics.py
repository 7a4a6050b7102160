"""Every interval and test of the pages: simple estimates first, then what repeated searches allow.

Runs. The second half of this module takes `runs`, one metric of one study: a data frame with a row a rerun and the
columns method, repetition (a whole search with a seed of its own), rerun (a training of its best setting with another
seed) and value. Its model is y = method + search + seed: a rerun's value is the method's, plus the noise of its search,
which all reruns of a repetition share, plus the noise of its seed. Reruns of one number in two methods are no pairs:
they begin alike, and in some records rise and fall together a little, but count as independent, which makes the
interval of a difference too wide if anything. Values that are not finite are runs that diverged, and are left out.

The arithmetic is done on arrays (..., M, R, S) of methods, repetitions and reruns, NaN where there is no run
(`as_array`); leading axes are studies, so that a simulation can try thousands at once.
"""

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pandas.api.typing import SeriesGroupBy
from scipy import optimize, special, stats

LEVEL = 0.95
"""Of every interval; tests are at 1 - LEVEL."""
PRIOR = 2
"""Degrees of freedom with which the mean of all methods counts in the variance of one, see `of_methods`."""
RESAMPLES = 2000
SEED = 0

STUDENT = "Student's t"
PREDICTION = "prediction interval, Student's t"
WELCH = "Welch's t"
FISHER = "Fisher's z"
WILSON = "Wilson's score interval"
PERCENTILES = "bootstrap, percentiles, seeded"
REDRAWN = "parametric bootstrap of search and seed, percentiles, seeded"
TUKEY = "Tukey and Kramer's simultaneous intervals of all differences"
SIGN_TEST = "order statistics, as the sign test"


@dataclass(frozen=True)
class Estimate:
    """A statistic with its 95 % interval [low, high], NaN where there is none.

    n: the units that it rests on; units: what they are, "reruns" for instance; how: how the interval is made.
    attainable: the values that the statistic can take at all on this data; an accuracy cannot rise above 1.
    """

    value: float
    low: float
    high: float
    n: int
    units: str = ""
    how: str = ""
    attainable: tuple[float, float] = (-math.inf, math.inf)

    @classmethod
    def around(cls, value: float, half: float, n: int, units: str = "", how: str = "") -> "Estimate":
        """An estimate with an interval of this half width on both sides."""
        return cls(value, value - half, value + half, n, units, how)

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def divided_by(self, number: float) -> "Estimate":
        """The estimate and its interval as multiples of a number above 0 that has no error of its own."""
        return replace(self, value=self.value / number, low=self.low / number, high=self.high / number)


# Simple estimates


def half_width(values: Sequence[float], level: float = LEVEL) -> float:
    """Half width of the Student-t interval of the mean, with n - 1 degrees of freedom; NaN for fewer than 2 values.

    >>> round(half_width([1.0, 2.0, 3.0]), 3)  # 4.303 * 1 / sqrt(3)
    2.484
    """
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return float("nan")
    return float(_student(level, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def of_groups(groups: SeriesGroupBy) -> pd.DataFrame:
    """Each group's mean, ci95 (`half_width`, NaN where a value is missing) and n, how many values it has."""
    n = groups.size()
    reach = n.map({count: _student(LEVEL, count - 1) / np.sqrt(count) for count in n.unique() if count > 1})
    halves = (reach * groups.std()).where(groups.count() == n).astype(float)
    return pd.DataFrame({"mean": groups.mean(), "ci95": halves, "n": n})


@functools.cache  # a table asks for the same few thousands of times
def _student(level: float, df: int) -> float:
    """The number of standard errors that the interval of this level reaches to each side."""
    return float(stats.t.ppf((1 + level) / 2, df))


def mean(values: ArrayLike, units: str = "") -> Estimate:
    """The mean of independent units, with Student's t interval; values that are not finite are left out.

    >>> found = mean([1.0, 2.0, 3.0])
    >>> found.value, round(found.low, 3), round(found.high, 3), found.n
    (2.0, -0.484, 4.484, 3)
    """
    values = _finite(values)
    if not len(values):
        return _nothing(0, units, STUDENT)
    return Estimate.around(float(values.mean()), half_width(values), len(values), units, STUDENT)


def slope(x: ArrayLike, y: ArrayLike, units: str = "") -> Estimate:
    """The least-squares slope of y over x, with Student's t interval (n - 2); NaN where x takes one value only."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    if len(np.unique(x)) < 2:
        return _nothing(len(x), units, STUDENT)
    fit = stats.linregress(x, y)
    half = stats.t.ppf((1 + LEVEL) / 2, len(x) - 2) * fit.stderr if len(x) > 2 else np.nan
    return Estimate.around(float(fit.slope), float(half), len(x), units, STUDENT)


def correlation(x: ArrayLike, y: ArrayLike, ranks: bool = False, units: str = "") -> Estimate:
    """Pearson's correlation, or Spearman's, with Fisher's z interval; NaN where one of the two is constant.

    The variance of z is 1 / (n - 3), for ranks 1.06 / (n - 3) (Fieller, Hartley and Pearson 1957), for which scipy has
    no interval.
    """
    x, y = (to_ranks(values) if ranks else np.asarray(values, float) for values in (x, y))
    value, free = pearson(x, y), len(x) - 3
    if np.isnan(value) or free < 1:
        return Estimate(value, np.nan, np.nan, len(x), units, FISHER)
    half = stats.norm.ppf((1 + LEVEL) / 2) * np.sqrt((1.06 if ranks else 1.0) / free)
    centre = np.arctanh(np.clip(value, -1 + 1e-12, 1 - 1e-12))
    return Estimate(value, float(np.tanh(centre - half)), float(np.tanh(centre + half)), len(x), units, FISHER)


def to_ranks(values: ArrayLike, axis: int | None = None) -> np.ndarray:
    """Ranks, the mean one for ties. Means that are equal up to the order of their sum are tied.

    >>> to_ranks([0.3, 0.1 + 0.2, 0.5])
    array([1.5, 1.5, 3. ])
    """
    return stats.rankdata(np.round(np.asarray(values, float), 12), axis=axis)


def rank_test(first: pd.Series, second: pd.Series) -> dict[str, float]:
    """Spearman's correlation over the index that both have: rho, p (of no correlation, Student's t), n.

    NaN for fewer than 3 or where one of the two is constant.
    """
    both = pd.concat([first, second], axis=1, keys=["first", "second"]).dropna()
    ranks = [to_ranks(both[name]) for name in both]
    if len(both) < 3 or any(np.ptp(values) == 0 for values in ranks):
        return {"rho": np.nan, "p": np.nan, "n": len(both)}
    test = stats.spearmanr(*ranks)
    return {"rho": float(test.statistic), "p": float(test.pvalue), "n": len(both)}


def pearson(x: ArrayLike, y: ArrayLike) -> float:
    """Pearson's correlation; NaN where one of the two is constant, or for a single point."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    if len(x) < 2 or any(np.ptp(np.round(values, 12)) == 0 for values in (x, y)):  # but for the order of a sum
        return float("nan")
    return float(stats.pearsonr(x, y).statistic)


def welch(first: ArrayLike, second: ArrayLike, units: str = "") -> Estimate:
    """The difference of the means of two independent groups, with Welch's interval; n is that of the smaller group."""
    return welch_sum([(1, first), (-1, second)], units)


def welch_sum(groups: Sequence[tuple[float, ArrayLike]], units: str = "") -> Estimate:
    """A weighted sum of the means of independent groups, each a (weight, values) pair, with Welch's interval.

    n is that of the smallest group.

    >>> found = welch_sum([(1, [1.0, 2.0, 3.0]), (-0.5, [2.0, 4.0]), (-0.5, [1.0, 3.0])])
    >>> found.value, found.n
    (-0.5, 2)
    """
    weights = np.array([weight for weight, _ in groups], float)
    values = [_finite(group) for _, group in groups]
    counts = np.array([len(group) for group in values])
    n = int(counts.min())
    value = float(weights @ [group.mean() for group in values]) if n else np.nan
    if n < 2 or not any(map(np.ptp, values)):
        return Estimate(value, np.nan, np.nan, n, units, WELCH)
    parts = weights**2 * [group.var(ddof=1) / len(group) for group in values]
    return Estimate.around(value, welch_half(parts, counts), n, units, WELCH)


def welch_half(parts: ArrayLike, counts: ArrayLike) -> float:
    """Half width of Welch's interval of a sum of independent means, with Welch and Satterthwaite's degrees of freedom.

    parts: the variances of the means, each estimated from so many values (counts).

    >>> round(welch_half([0.01**2 / 5, 0.01**2 / 5], 5), 4)  # 2.306 * 0.01 * sqrt(2 / 5)
    0.0146
    """
    parts, counts = np.asarray(parts, float), np.asarray(counts)
    df = parts.sum() ** 2 / (parts**2 / (counts - 1)).sum()
    return float(stats.t.ppf((1 + LEVEL) / 2, df) * np.sqrt(parts.sum()))


def prediction_difference(values: ArrayLike, others: ArrayLike, units: str = "") -> Estimate:
    """The difference between the mean of some values and one more value like the others; n counts these.

    The interval is a prediction interval, by Student's t: it holds the scatter of a single value of the others, and
    the errors of both means, with Welch and Satterthwaite's degrees of freedom.

    >>> found = prediction_difference([0.0, 0.0], [1.0, 2.0, 3.0])  # 4.303 * 1 * sqrt(1 + 1 / 3)
    >>> round(found.value, 3), round(found.half, 3)
    (-2.0, 4.968)
    """
    values, others = _finite(values), _finite(others)
    n = len(others)
    value = float(values.mean() - others.mean()) if n and len(values) else np.nan
    if n < 2 or len(values) < 2 or not np.ptp(others):
        return Estimate(value, np.nan, np.nan, n, units, PREDICTION)
    parts = [values.var(ddof=1) / len(values), others.var(ddof=1) * (1 + 1 / n)]
    return Estimate.around(value, welch_half(parts, [len(values), n]), n, units, PREDICTION)


def share(count: int, total: int, units: str = "") -> Estimate:
    """A share, with Wilson's interval."""
    if not total:
        return _nothing(0, units, WILSON)
    limits = stats.binomtest(count, total).proportion_ci(LEVEL, method="wilson")
    return Estimate(count / total, float(limits.low), float(limits.high), total, units, WILSON)


def median(values: ArrayLike, units: str = "") -> Estimate:
    """The median, between the order statistics that the sign test does not reject.

    >>> found = median(range(1, 15))  # the 3rd and the 12th of 14
    >>> found.value, found.low, found.high
    (7.5, 3.0, 12.0)
    """
    values = _finite(values)
    if not len(values):
        return _nothing(0, units, SIGN_TEST)
    limits = stats.quantile_test(values).confidence_interval(LEVEL)
    return Estimate(float(np.median(values)), float(limits.low), float(limits.high), len(values), units, SIGN_TEST)


def bootstrap(rows: ArrayLike, statistic: Callable[[np.ndarray], np.ndarray], units: str = "") -> Estimate:
    """A statistic of rows (n, k) that has no closed interval: percentiles of seeded resamples of the rows.

    statistic: samples of rows (..., n, k) -> numbers (...). With few rows the interval is too narrow; a statistic such
    as a range is biased upwards by the noise of its parts. Resamples for which the statistic is NaN are left out, which
    `scipy.stats.bootstrap` cannot do.
    """
    rows = np.asarray(rows, float)
    value = float(statistic(rows))
    if len(rows) < 2:
        return Estimate(value, np.nan, np.nan, len(rows), units, PERCENTILES)
    drawn = np.random.default_rng(SEED).integers(0, len(rows), (RESAMPLES, len(rows)))
    resampled = statistic(rows[drawn])
    return percentiles(value, resampled[~np.isnan(resampled)], len(rows), units)


def discordant_pairs(x: ArrayLike, y: ArrayLike) -> tuple[int, int]:
    """The number of pairs of units that x and y put in opposite orders (a tie is in none), and the number of pairs.

    >>> discordant_pairs([1, 2, 3], [1, 3, 2])
    (1, 3)
    """
    signs = [np.sign(np.subtract.outer(scores, scores)) for scores in (np.asarray(x, float), np.asarray(y, float))]
    upper = np.triu_indices(len(signs[0]), 1)
    return int((signs[0] * signs[1] < 0)[upper].sum()), len(upper[0])


def expected_discordant_pairs(scores: ArrayLike, one: ArrayLike, other: ArrayLike, draws: int = 2000) -> Estimate:
    """The number of pairs that `discordant_pairs` counts where nothing turns: the same true scores, measured twice.

    scores: (M,), as measured the first time; one, other: (M,) the standard errors of the two measurements. The true
    scores are taken to be those of `shrink_to_mean`. The value is the mean over the draws, the interval that of the
    middle 95 %; n: the pairs.
    """
    scores, random = shrink_to_mean(scores, one), np.random.default_rng(SEED)
    upper, signs = np.triu_indices(len(scores), 1), []
    for error in (one, other):
        drawn = random.normal(scores, error, (draws, len(scores)))
        signs.append(np.sign(drawn[:, upper[0]] - drawn[:, upper[1]]))
    counts = (signs[0] * signs[1] < 0).sum(axis=1)
    return percentiles(counts.mean(), counts, len(upper[0]), "pairs", REDRAWN)


def shrink_to_mean(scores: ArrayLike, errors: ArrayLike) -> np.ndarray:
    """The scores (M,), moved towards their mean until they spread as the true ones do; errors: (M,), standard errors.

    The variance of measured scores is that of the true ones plus the mean squared error.

    >>> shrink_to_mean([0.0, 2.0, 4.0], [1.0, 1.0, 1.0]).round(2)
    array([0.27, 2.  , 3.73])
    """
    scores = np.asarray(scores, float)
    variance = scores.var(ddof=1)
    true = max(0.0, 1 - float(np.mean(np.square(errors))) / variance) if variance else 0.0
    return scores.mean() + np.sqrt(true) * (scores - scores.mean())


def expected_range_under_null(errors: ArrayLike, draws: int = 10_000) -> float:
    """The mean range of scores that are truly equal: what noise alone makes of it. errors: (M,), standard errors."""
    errors = np.asarray(errors, float)
    return float(np.ptp(np.random.default_rng(SEED).normal(0, errors, (draws, len(errors))), axis=1).mean())


def parametric_bootstrap(
    groups: Sequence[tuple[ArrayLike, ArrayLike]], statistic: Callable[..., np.ndarray], draws: int = 10_000
) -> Estimate:
    """A statistic of several methods' scores, as a range or the ratio of two: a parametric bootstrap.

    groups: scores (M,) and their standard errors (M,), one pair a study. statistic: takes one array (..., M) a group
    and reduces the last axis. The scores are redrawn from normal distributions; the interval is that of the percentiles
    (Efron and Tibshirani 1993, chapter 13). Noise widens a range. In made-up studies the interval of a ratio of two
    ranges covers 94 to 98 % while the standard errors stay below half the standard deviation of the true scores, since
    both are widened alike. That of a single range would lie too high even there, and cover 58 to 92 %: it has
    `range_of`. Where the errors of one of two groups come near the standard deviation, luck makes most of its range
    (`expected_range_under_null`), and the interval of a ratio lies too low if that range is under the line, too high if
    it is above it: it covers less and less, down to never.
    """
    random = np.random.default_rng(SEED)
    value = float(statistic(*(np.asarray(centre, float) for centre, _ in groups)))
    drawn = statistic(*(random.normal(centre, error, (draws, len(centre))) for centre, error in groups))
    return percentiles(value, drawn, min(len(centre) for centre, _ in groups), "methods", REDRAWN)


def percentiles(
    value: float, drawn: ArrayLike, n: int, units: str = "test classes", how: str = PERCENTILES
) -> Estimate:
    """A statistic, with the 95 % interval of its resamples, if any. n: the units that were resampled."""
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if len(drawn) else (np.nan, np.nan)
    return Estimate(float(value), float(low), float(high), n, units, how)


def holm(p: ArrayLike) -> np.ndarray:
    """Holm's correction of p-values (..., m) for their number; NaN stays NaN and does not count.

    The m p-values in rising order, the i-th times m - i + 1, and never below the one before (Holm 1979). Not taken from
    statsmodels, which collects garbage on every call: a second in a process that has loaded torch.
    """
    p = np.asarray(p, float)
    order = np.argsort(p, axis=-1)  # NaN last
    counts = (~np.isnan(p)).sum(axis=-1, keepdims=True)
    rising = np.take_along_axis(p, order, axis=-1) * (counts - np.arange(p.shape[-1]))
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.minimum(np.maximum.accumulate(rising, axis=-1), 1.0), axis=-1)
    return adjusted


def equivalence(difference: ArrayLike, error: ArrayLike, df: ArrayLike, margin: float) -> np.ndarray:
    """The p-value of two one-sided t tests that a difference lies outside (-margin, margin) (Schuirmann 1987).

    error: the difference's standard error, with df degrees of freedom. Below 0.05, the two are equal within the margin.
    """
    return stats.t.sf((margin - np.abs(difference)) / error, df)


def _finite(values: ArrayLike) -> np.ndarray:
    values = np.asarray(values, float)
    return values[np.isfinite(values)]


def _nothing(n: int, units: str, how: str) -> Estimate:
    return Estimate(np.nan, np.nan, np.nan, n, units, how)


# Repeated searches


def as_array(runs: pd.DataFrame) -> tuple[list[str], np.ndarray]:
    """The methods of `runs` in their order, and the values, shape (M, R, S); NaN where there is no run.

    Repetitions and reruns stand in the order of their numbers; that of a rerun means nothing.
    """
    method, methods = pd.factorize(runs["method"])
    places = method, *(np.unique(runs[name], return_inverse=True)[1] for name in ("repetition", "rerun"))
    values = np.full([1 + max(place, default=-1) for place in places], np.nan)
    values[places] = runs["value"].to_numpy(float)
    return list(methods), np.where(np.isfinite(values), values, np.nan)


def reruns_as_repetitions(runs: pd.DataFrame) -> pd.DataFrame:
    """Each rerun as a repetition of its own: the luck is that of seeds, as far as methods were searched once."""
    return runs.assign(repetition=runs.groupby("method").cumcount(), rerun=0)


@dataclass(frozen=True)
class Noise:
    """The luck in a study's numbers, pooled over its methods: variances, each an array over the studies, (...).

    search, seed: the two components; search is not below 0. seed_df: the degrees of freedom of seed. repetition: the
    variance of a repetition's mean, which has both, with df degrees of freedom. share: how much of seed is in it, the
    mean of 1 / reruns. pooled: every method is taken to vary as much as they all do on average, as preregistered;
    otherwise `of_methods` moves this variance towards what the method's own searches show.
    """

    search: np.ndarray
    seed: np.ndarray
    seed_df: np.ndarray
    repetition: np.ndarray
    df: np.ndarray
    share: np.ndarray
    pooled: bool = False


def noise(values: np.ndarray) -> Noise:
    """Estimate the variance of search and seed from values (..., M, R, S); NaN where nothing is repeated.

    The analysis of variance of a nested design, from unweighted means: the variance of the repetitions' means around
    their method's is search + seed x mean of 1 / reruns, that of the reruns around their repetition's mean is seed
    (Searle, Casella and McCulloch 1992, chapters 3 and 5.6). With as many reruns everywhere it is the usual one.
    """
    counts, means = _repetitions(values)  # (..., M, R)
    ran = counts > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        seed_df = (counts - ran).sum((-2, -1))
        seed = np.nansum((values - means[..., None]) ** 2, axis=(-3, -2, -1)) / seed_df
        repetitions = ran.sum(-1)  # (..., M)
        df = np.where(repetitions > 0, repetitions - 1, 0).sum(-1)
        around = np.nansum((means - _mean(means)[..., None]) ** 2, axis=(-2, -1))
        shares = np.where(ran, 1 / counts, 0).sum(-1)  # (..., M)
        share = np.where(repetitions > 0, (1 - 1 / repetitions) * shares, 0).sum(-1) / df
        repetition = around / df
    return Noise(np.maximum(repetition - seed * share, 0), seed, seed_df, repetition, df, share)


def with_search_variance_from(values: np.ndarray, other: Noise, scale: float) -> Noise:
    """The noise of a study with one repetition a method: seed is its own, search that of another study.

    scale: the other's standard deviation of search is multiplied by it, with the ratio of the mean scores for instance.
    The degrees of freedom are the other's; search is taken to dominate. How much one method's searches vary cannot be
    seen here, so all have the pooled variance: right on average over the methods, too little for those that vary most.
    """
    counts, _ = _repetitions(values)
    own = noise(values)
    search = other.search * scale**2
    share = float(np.mean(1 / counts[counts > 0]))
    return Noise(search, own.seed, own.seed_df, search + own.seed * share, other.df, np.asarray(share), pooled=True)


def of_methods(values: np.ndarray, known: Noise) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each method's score, the mean of its repetitions' means, its variance by search and seed, and its df: (..., M).

    The variance is that of a repetition's mean over the number of repetitions. It lies between the method's own, from
    its R repetitions, and the pooled one, as in Smyth 2004, but towards their mean and with a weight that is fixed:
    14 variances of 2 degrees of freedom cannot tell how much variances differ. The own one has R - 1 degrees of
    freedom, the pooled one as many, at most PRIOR, and the mean of both, so weighted, has their sum (at most known.df).
    A method with one repetition has the pooled variance with known.df, as all have where known is pooled: right on
    average over the methods, too wide for the steady and too narrow for the others. Fewer reruns than usual add their
    share of seed.
    """
    counts, means = _repetitions(values)
    repetitions = (counts > 0).sum(-1)
    centre, own_df = _mean(means), np.maximum(repetitions - 1, 0) * (not known.pooled)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(counts > 0, 1 / counts, 0).sum(-1) / repetitions
        extra = known.seed[..., None] * np.maximum(share - known.share[..., None], 0)
        pooled = known.repetition[..., None] + np.nan_to_num(extra)
        around = np.nansum((means - centre[..., None]) ** 2, axis=-1)
        variance, df = moderated(pooled, around, own_df, known.df[..., None])
        return centre, variance / repetitions, df


def moderated(pooled: ArrayLike, around: ArrayLike, own_df: ArrayLike, most: ArrayLike) -> tuple[np.ndarray, ...]:
    """A variance between the pooled one, which has most df, and around / own_df; and its df: see `of_methods`."""
    prior = np.minimum(own_df, PRIOR)
    variance = np.where(prior, (prior * pooled + around) / np.maximum(prior + own_df, 1), pooled)
    return variance, np.where(prior, np.minimum(prior + own_df, most), most)


def by_seed(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The variance of each method's score by seed alone, as if no other search were possible, and its df: (..., M).

    From the method's own reruns. With one repetition the interval is Student's t over its reruns.
    """
    counts, own = np.isfinite(values).sum(-1), noise(values[..., None, :, :])
    ran = counts > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        return own.seed * np.where(ran, 1 / counts, 0).sum(-1) / ran.sum(-1) ** 2, own.seed_df


def _repetitions(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The count of each repetition's reruns that ended with a number, and their mean (NaN for none): (..., M, R)."""
    counts = np.isfinite(values).sum(-1)
    with np.errstate(invalid="ignore"):
        return counts, np.nansum(values, axis=-1) / counts


def _mean(means: np.ndarray) -> np.ndarray:
    """The mean over the last axis of what is not NaN; NaN for nothing."""
    with np.errstate(invalid="ignore"):
        return np.nansum(means, axis=-1) / np.isfinite(means).sum(-1)


def summary(runs: pd.DataFrame, known: Noise | None = None) -> pd.DataFrame:
    """Every method of `runs`, indexed by method, in their order.

    Columns: mean, error (standard, by search and seed), df (of it), low, high (95 %, search and seed), seed_low,
    seed_high (95 %, seed alone), repetitions, reruns, search, seed (the method's own standard deviations; search NaN
    for one repetition), search_to_seed, rank_low, rank_high (`rank_intervals`), among_best. known: default estimated
    from the runs. Where neither gives a variance, intervals are NaN, ranks go from 1 to M and all methods are among the
    best.
    """
    methods, values = as_array(runs)
    known = known or noise(values)
    centre, variance, df = of_methods(values, known)
    seed_variance, seed_df = by_seed(values)
    half = stats.t.ppf((1 + LEVEL) / 2, df) * np.sqrt(variance)
    seed_half = stats.t.ppf((1 + LEVEL) / 2, seed_df) * np.sqrt(seed_variance)
    own = noise(values[:, None])  # each method a study of its own
    first, last = rank_intervals(centre, variance, df, known.df)
    columns = {
        "mean": centre,
        "error": np.sqrt(variance),
        "df": df,
        "low": centre - half,
        "high": centre + half,
        "seed_low": centre - seed_half,
        "seed_high": centre + seed_half,
        "repetitions": np.isfinite(values).any(-1).sum(-1),
        "reruns": np.isfinite(values).sum((-2, -1)),
        "search": np.sqrt(own.search),
        "seed": np.sqrt(own.seed),
        "search_to_seed": search_to_seed(values),
        "rank_low": first,
        "rank_high": last,
        "among_best": among_best(centre, variance, df, known.df),
    }
    return pd.DataFrame(columns, index=pd.Index(methods, name="method"))


def contrast(
    runs: pd.DataFrame, weights: Mapping[str, float], known: Noise | None = None, level: float = LEVEL
) -> Estimate:
    """A weighted sum of methods' scores with search and seed; {"a": 1, "b": -1} is the difference of two.

    Raises KeyError for a method without runs.
    """
    methods, values = as_array(runs)
    known = known or noise(values)
    centre, variance, df = of_methods(values, known)
    if missing := [name for name in weights if name not in methods]:
        raise KeyError(f"no finished run of method {missing[0]!r}")
    chosen = [methods.index(name) for name in weights]
    factors = np.array(list(weights.values()), float)
    value = float(factors @ centre[chosen])
    parts = factors**2 * variance[chosen]
    half = float(stats.t.ppf((1 + level) / 2, satterthwaite(parts, df[chosen], known.df)) * np.sqrt(parts.sum()))
    n = int(np.isfinite(values[chosen]).any(-1).sum(-1).min())
    return Estimate.around(value, half, n, "repetitions", f"{STUDENT}, search and seed")


def relative(
    means: pd.Series, over: Collection[str], under: Collection[str], contrast: Callable[[Mapping[str, float]], Estimate]
) -> Estimate:
    """The mean score of the rows `over` as a multiple of that of the rows `under`, less 1, up to what is perfect.

    By the delta method: the error of a / b is that of a / b0 - b a0 / b0^2. contrast: of a weighted sum of rows.
    """
    top, base = (float(means[list(rows)].mean()) for rows in (over, under))
    weights = {row: 1 / base / len(over) for row in over} | {row: -top / base**2 / len(under) for row in under}
    difference = contrast(weights)
    gain = Estimate.around(top / base - 1, difference.half, difference.n, difference.units, difference.how)
    return replace(gain, attainable=(-1.0, 1 / base - 1))  # nobody scores more than 1


def satterthwaite(parts: np.ndarray, df: np.ndarray, most: ArrayLike) -> np.ndarray:
    """The degrees of freedom of the sum of variances (..., n) that have df each (Satterthwaite 1946): (...).

    most: there are no more, since all may share one pooled variance.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.fmin(parts.sum(-1) ** 2 / (parts**2 / df).sum(-1), most)


def pairwise(centre: np.ndarray, variance: np.ndarray, df: np.ndarray, most: ArrayLike) -> tuple[np.ndarray, ...]:
    """Differences a - b of all M (M - 1) / 2 pairs, a before b, their standard errors, df and p-values: (..., pairs).

    centre, variance, df: (..., M), as `of_methods`; most: (...), the df of the pooled variance. The p-values are those
    of two-sided t tests, uncorrected. By Holm's correction some pair of equal methods differs in at most 5 % of studies
    in the simulations of `benchmarks/coverage.py`, also where search varies three times as much in one method as in
    another; with two searches of five methods in up to 7 %.
    """
    first, second = np.triu_indices(centre.shape[-1], 1)
    difference = centre[..., first] - centre[..., second]
    parts = np.stack([variance[..., first], variance[..., second]], axis=-1)
    own = np.stack([df[..., first], df[..., second]], axis=-1)
    error, free = np.sqrt(parts.sum(-1)), satterthwaite(parts, own, np.asarray(most)[..., None])
    return difference, error, free, 2 * stats.t.sf(np.abs(difference) / error, free)


def pairs(runs: pd.DataFrame, margin: float, known: Noise | None = None) -> pd.DataFrame:
    """Every pair of methods: a, b, difference (mean of a minus that of b), low, high (95 %, not simultaneous), p, holm
    (corrected over all pairs), p_welch (from the repetitions' means alone, each method with its own variance: a check),
    p_equal (`equivalence` within the margin) and equal (p_equal below 5 %).
    """
    methods, values = as_array(runs)
    known = known or noise(values)
    difference, error, df, p = pairwise(*of_methods(values, known), known.df)
    half = stats.t.ppf((1 + LEVEL) / 2, df) * error
    _, means = _repetitions(values)
    first, second = np.triu_indices(len(methods), 1)
    equal = equivalence(difference, error, df, margin)
    columns = {
        "a": np.array(methods, object)[first],
        "b": np.array(methods, object)[second],
        "difference": difference,
        "low": difference - half,
        "high": difference + half,
        "p": p,
        "holm": holm(p),
        "p_welch": _welch_p(means, first, second),
        "p_equal": equal,
        "equal": equal < 1 - LEVEL,
    }
    return pd.DataFrame(columns)


def _welch_p(means: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Welch's p of pairs of rows of `means`, (M, R) with NaN where there is none; NaN for rows of one number.

    first, second: the rows of each pair.
    """
    counts = np.isfinite(means).sum(1)
    centre = np.nansum(means, axis=1) / np.maximum(counts, 1)
    deviation = np.sqrt(np.nansum((means - centre[:, None]) ** 2, axis=1) / np.maximum(counts - 1, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        sides = [(centre[rows], deviation[rows], counts[rows]) for rows in (first, second)]
        p = stats.ttest_ind_from_stats(*sides[0], *sides[1], equal_var=False).pvalue
    testable = (np.minimum(counts[first], counts[second]) > 1) & (deviation[first] + deviation[second] > 0)
    return np.where(testable, p, np.nan)


def range_of(centre: ArrayLike, variance: ArrayLike, df: ArrayLike, most: ArrayLike, level: float = LEVEL) -> Estimate:
    """The range of the true scores, highest minus lowest. centre, variance, df, most: as in `pairwise`, (M,).

    All differences lie in their simultaneous intervals in 95 % of studies (Tukey and Kramer), and where they do, the
    range lies between the greatest lower and the greatest upper end of these: an interval that covers at least as
    often. The value is the range of the scores as measured, which luck widens.
    """
    centre, variance, df = (np.asarray(values, float) for values in (centre, variance, df))
    if len(centre) == 1:
        return Estimate(0.0, 0.0, 0.0, 1, "methods", TUKEY)
    difference, half = _every_pair(centre, variance, df, most, lambda free: all_pairs(len(centre), free, level))
    low, high = np.maximum(0, (difference - half).max()), (difference + half).max()
    return Estimate(float(np.ptp(centre)), float(low), float(high), len(centre), "methods", TUKEY)


def rank_intervals(
    centre: np.ndarray, variance: np.ndarray, df: np.ndarray, most: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """The ranks that each method may have, the first and the last of them, 1 for the highest score: both (..., M).

    One more than the methods surely better, and M less those surely worse, by simultaneous tests of all pairs, Tukey
    and Kramer's in the form of Games and Howell 1976, each pair with its own variance and df: all true ranks lie in
    their intervals in 95 % of studies (Al Mohamad, Goeman and van Zwet 2022), also where methods are equal and search
    varies three times as much in one as in another (`benchmarks/coverage.py`: 93 % or more). Where methods are equal
    each of them may have any of their ranks.
    """
    difference, half = _every_pair(centre, variance, df, most, functools.partial(all_pairs, centre.shape[-1]))
    sure = difference > half
    return 1 + sure.sum(-2), centre.shape[-1] - sure.sum(-1)


def among_best(centre: np.ndarray, variance: np.ndarray, df: np.ndarray, most: ArrayLike) -> np.ndarray:
    """True for each method that ties with the best, (..., M).

    Multiple comparisons with the best (Hsu 1984): a method is left out if another one is above it by more than the
    one-sided quantile of t, corrected for M - 1 comparisons (Bonferroni), times the standard error of the difference;
    or by that of `rank_intervals` where it is lower. The truly best method is among those left in 95 % of studies.
    Its tests are fewer than those of `rank_intervals`, so a method that may rank first there can be left out here.
    """
    difference, half = _every_pair(centre, variance, df, most, functools.partial(above_one, centre.shape[-1]))
    return ~(difference > half).any(-2)


def squares_within(half: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row's squares around its mean, and their degrees of freedom, from ci95 and n; 0 without an interval."""
    df = np.where(np.isfinite(half) & (n > 1), n - 1, 0)
    reach = np.array([_student(LEVEL, count) if count else np.nan for count in df])
    return np.nan_to_num(df * half**2 * n / reach**2), df


def numbered(rows: pd.DataFrame, by: Sequence[str] = ()) -> np.ndarray:
    """The number of each row's group, from 0: (rows,). by: columns; default one group."""
    if not by:
        return np.zeros(len(rows), int)
    return rows.groupby(list(by), sort=False, dropna=False).ngroup().to_numpy()


def by_luck_of_seeds(rows: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """The standing of rows by the noise of seeds alone: rank_low, rank_high (`rank_intervals`) and `among_best`.

    rows: mean, ci95 and n as `of_groups` gives them. by: columns; the rows of each of their groups are compared with
    one another, default all. The variance of a run is that of `of_methods`: the row's own, moved towards the one
    pooled over the rows of a group that have an interval; this one where the row has none. Where no row has one nothing
    can be compared. A row without a mean has no ranks and is not among the best.
    """
    group, (centre, half, n) = numbered(rows, by), rows[["mean", "ci95", "n"]].to_numpy(float).T
    ran, (around, df) = np.isfinite(centre), squares_within(half, n)
    most, counts = np.bincount(group, df)[group], np.bincount(group, ran)[group]
    with np.errstate(invalid="ignore", divide="ignore"):
        variance, free = moderated(np.bincount(group, around)[group] / most, around, df, most)
        variance = variance / n
    (low, high), best = np.full((2, len(rows)), np.nan), np.zeros(len(rows), bool)
    for count in np.unique(counts[ran]).astype(int):  # groups of one size at once
        alike = np.flatnonzero(ran & (counts == count))
        places = alike[np.argsort(group[alike], kind="stable")].reshape(-1, count)
        placed = centre[places], variance[places], free[places], most[places[:, 0]]
        low[places], high[places] = rank_intervals(*placed)
        best[places] = among_best(*placed)
    return pd.DataFrame({"rank_low": low, "rank_high": high, "among_best": best}, rows.index)


def _every_pair(
    centre: np.ndarray,
    variance: np.ndarray,
    df: np.ndarray,
    most: ArrayLike,
    quantile: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """The lead of the row's method over the column's, and the lead from which it is surely above: (..., M, M) each.

    quantile: so many standard errors, of degrees of freedom.
    """
    parts = np.stack(np.broadcast_arrays(variance[..., :, None], variance[..., None, :]), axis=-1)
    own = np.stack(np.broadcast_arrays(df[..., :, None], df[..., None, :]), axis=-1)
    free = satterthwaite(parts, own, np.asarray(most)[..., None, None])
    return centre[..., :, None] - centre[..., None, :], quantile(free) * np.sqrt(parts.sum(-1))


def all_pairs(methods: int, df: np.ndarray, level: float = LEVEL) -> np.ndarray:
    """The quantile for the t statistics of all pairs, at each of these df, rounded down; NaN where there are none."""
    distinct, places = np.unique(np.floor(df + 1e-9), return_inverse=True)
    return np.array([_tukey(methods, int(free), level) for free in distinct])[places].reshape(df.shape)


@functools.cache
def _tukey(methods: int, df: int, level: float = LEVEL) -> float:
    """The quantile for the t statistics of all pairs; NaN where there is nothing to test.

    That of `scipy.stats.studentized_range` over root 2, in a tenth of its time.
    """
    if methods < 2 or df < 1:
        return float("nan")

    spread = stats.chi(df, scale=1 / math.sqrt(df))  # of the estimated standard deviation, over the true one
    ratio = np.geomspace(*spread.ppf([1e-12, 1 - 1e-12]), 150)
    share = ratio * spread.pdf(ratio)  # of each step of the trapezoidal rule, which are equal in logarithms

    def missing(limit: float) -> float:
        within = special.ndtr(_NORMAL) - special.ndtr(_NORMAL - limit * ratio[:, None])
        # given the highest, all others lie within the limit of it
        return share @ (methods * within ** (methods - 1) @ _WEIGHTS) / share.sum() - level

    # it lies between the quantile of one pair and that of all pairs by Bonferroni
    ends = stats.t.isf((1 - level) / 2 / np.array([1, math.comb(methods, 2)]), df) * math.sqrt(2)
    return optimize.brentq(missing, 0.9 * ends[0], 1.1 * ends[1], xtol=1e-8) / math.sqrt(2)


def above_one(methods: int, df: np.ndarray) -> np.ndarray:
    """The quantile for the t statistics of all other methods against one; NaN where there is nothing to test."""
    behind = stats.t.isf((1 - LEVEL) / (methods - 1), df) if methods > 1 else np.nan
    return np.fmin(all_pairs(methods, df), behind)


_NORMAL = np.linspace(-8, 8, 65)
_WEIGHTS = stats.norm.pdf(_NORMAL) / stats.norm.pdf(_NORMAL).sum()
"""An expectation over a standard normal variable, by the trapezoidal rule."""


def search_to_seed(values: np.ndarray) -> np.ndarray:
    """Each method's ratio of the standard deviation of search to that of seed, (..., M), from its own runs.

    As often too large as too small: with the mean squares between and within its R repetitions of n reruns (n the
    harmonic mean), F = between / within, and f the median of the F distribution with as many degrees of freedom, it is
    sqrt(max(0, F / f - 1) / n). NaN for one repetition, or where nothing is rerun.
    """
    own = noise(values[..., :, None, :, :])
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = own.repetition / (own.seed * own.share)
        return np.sqrt(np.maximum(ratio / stats.f.median(own.df, own.seed_df) - 1, 0) * own.share)


# Test classes


def over_classes(scores: pd.DataFrame, queries: pd.Series, draws: int = RESAMPLES) -> pd.DataFrame:
    """The methods' scores on other test classes: one row per resample of the classes, one column per method.

    scores: a row a test class, a column a method, each the mean over its queries (and over reruns). queries: how many
    each class has. All methods are scored on the same classes, so that their differences are paired: subtract columns,
    then take `percentiles`. The images that a query is compared with stay those of the real test half, so what more
    or fewer classes would do to the scores is not in it.
    """
    random = np.random.default_rng(SEED)
    counts = random.multinomial(len(scores), np.full(len(scores), 1 / len(scores)), draws)  # (draws, C)
    weights = counts * queries.reindex(scores.index).to_numpy(float)
    return pd.DataFrame(weights @ scores.to_numpy(float) / weights.sum(1, keepdims=True), columns=scores.columns)


# Searches


def expected_best(values: ArrayLike) -> np.ndarray:
    """The expected best of k of these n values of random trials, for k = 1 to n: (n,).

    The mean of the maximum over all choices of k, sum of v_(i) C(i - 1, k - 1) / C(n, k): the curve of Dodge et al.
    2019 in the unbiased form of Tang et al. 2020, which draws without replacement. Diverged trials (NaN) are left out.

    >>> expected_best([1.0, 3.0, 2.0])  # the pairs' best: 3, 2, 3
    array([2.        , 2.66666667, 3.        ])
    """
    rising = np.sort(_finite(values))
    n = len(rising)
    result, weights = np.empty(n), np.full(n, 1 / n) if n else np.empty(0)
    for k in range(1, n + 1):
        result[k - 1] = weights @ rising
        # C(i - 1, k) / C(n, k + 1) from C(i - 1, k - 1) / C(n, k), for i = 1 to n
        weights = weights * np.maximum(np.arange(n) - (k - 1), 0) / k * (k + 1) / max(n - k, 1)
    return result
