"""Estimates with an interval, of independent units: means, differences, slopes, correlations, shares, medians."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pandas.api.typing import SeriesGroupBy
from scipy import special, stats

LEVEL = 0.95
"""Of every interval; tests are at 1 - LEVEL."""
STUDENT = "Student's t"
PREDICTION = "prediction interval, Student's t"
WELCH = "Welch's t"
FISHER = "Fisher's z"
WILSON = "Wilson's score interval"
SIGN_TEST = "order statistics, as the sign test"


@dataclass(frozen=True)
class Estimate:
    """A statistic with its 95 % interval [low, high], NaN where there is none.

    n: the units that it rests on; units: what they are, "reruns" for instance; how: how the interval is made.
    attainable: the values that the statistic can take at all on this data; an accuracy cannot rise above 1.
    seeds_only: the interval knows the noise of seeds and not that of search.
    """

    value: float
    low: float
    high: float
    n: int
    units: str = ""
    how: str = ""
    attainable: tuple[float, float] = (-math.inf, math.inf)
    seeds_only: bool = False

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


def half_width(values: Sequence[float]) -> float:
    """Half width of the Student-t interval of the mean, with n - 1 degrees of freedom; NaN for fewer than 2 values.

    >>> round(half_width([1.0, 2.0, 3.0]), 3)  # 4.303 * 1 / sqrt(3)
    2.484
    """
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return float("nan")
    return float(student_reach(len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def of_groups(groups: SeriesGroupBy) -> pd.DataFrame:
    """Each group's mean, ci95 (`half_width`, NaN where a value is missing) and n, how many values it has."""
    n = groups.size()
    reach = n.map({count: student_reach(count - 1) / np.sqrt(count) for count in n.unique() if count > 1})
    halves = (reach * groups.std()).where(groups.count() == n).astype(float)
    return pd.DataFrame({"mean": groups.mean(), "ci95": halves, "n": n})


@functools.cache  # a table asks for the same few thousands of times
def student_reach(df: int) -> float:
    """The number of standard errors that an interval reaches to each side."""
    return float(stats.t.ppf((1 + LEVEL) / 2, df))


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
    half = student_reach(len(x) - 2) * fit.stderr if len(x) > 2 else np.nan
    return Estimate.around(float(fit.slope), float(half), len(x), units, STUDENT)


def correlation(x: ArrayLike, y: ArrayLike, ranks: bool = False, units: str = "") -> Estimate:
    """Pearson's correlation, or Spearman's, with Fisher's z interval; NaN where one of the two is constant.

    The variance of z is 1 / (n - 3), for ranks 1.06 / (n - 3) (Fieller, Hartley and Pearson 1957), for which scipy has
    no interval. That of ranks is too narrow: where Pearson's is 0.8 it covers 85 % for 5 points, 93 % for 8 and more.
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

    NaN for fewer than 3 or where one of the two is constant. Of 4 or 5 points t is a poor guide: unrelated ones have a
    p above 5 % in 91 % of cases, of 8 in 95 %.
    """
    both = pd.concat([first, second], axis=1).dropna()
    ranks = to_ranks(both, axis=0).T
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
    the errors of both means, with Welch and Satterthwaite's degrees of freedom: it covers 93 % where the others are
    three, 95 % where they are ten.

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


def share(count: int, total: int) -> Estimate:
    """A share, with Wilson's interval."""
    if not total:
        return _nothing(0, "", WILSON)
    limits = stats.binomtest(count, total).proportion_ci(LEVEL, method="wilson")
    return Estimate(count / total, float(limits.low), float(limits.high), total, how=WILSON)


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


def _finite(values: ArrayLike) -> np.ndarray:
    values = np.asarray(values, float)
    return values[np.isfinite(values)]


def _nothing(n: int, units: str, how: str) -> Estimate:
    return Estimate(np.nan, np.nan, np.nan, n, units, how)


def expected_best(values: ArrayLike) -> np.ndarray:
    """The expected best of k of these n values of random trials, for k = 1 to n: (n,).

    The mean of the maximum over all choices of k, sum of v_(i) C(i - 1, k - 1) / C(n, k): the curve of Dodge et al.
    2019 in the unbiased form of Tang et al. 2020, which draws without replacement. Diverged trials (NaN) are left out.

    >>> expected_best([1.0, 3.0, 2.0])  # the pairs' best: 3, 2, 3
    array([2.        , 2.66666667, 3.        ])
    """
    rising = np.sort(_finite(values))
    n = len(rising)
    rank, k = np.arange(1, n + 1)[:, None], np.arange(1, n + 1)
    # in logarithms: C(n, k) of a thousand trials is beyond the largest number
    chances = np.exp(_log_choices(rank - 1, k - 1) - _log_choices(n, k))
    return rising @ chances


def _log_choices(n: ArrayLike, k: ArrayLike) -> np.ndarray:
    """The logarithm of C(n, k), minus infinity where k is above n."""
    return special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(np.subtract(n, k) + 1)
