"""Statistics with a 95 % interval. Each says what its units are taken for; none knows where the numbers come from."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from dmlrc.report.claims.rule import Estimate
from dmlrc.report.tables import interval

RESAMPLES = 2000
SEED = 0

STUDENT_RERUNS = "Student's t over the reruns; those of one number share their seeds, so differences are paired"
STUDENT_ROWS = "Student's t over the rows, each the mean of its reruns"
FISHER = "Fisher's z over the rows, each the mean of its reruns"
BOOTSTRAP_RERUNS = "bootstrap of the reruns, percentiles, seeded"
BOOTSTRAP_ROWS = "bootstrap of the rows, percentiles, seeded"


def mean(values: ArrayLike) -> Estimate:
    """The mean of independent units, with Student's t interval.

    >>> found = mean([1.0, 2.0, 3.0])
    >>> found.value, round(found.low, 3), round(found.high, 3), found.n
    (2.0, -0.484, 4.484, 3)
    """
    values = _finite(values)
    if not len(values):
        return Estimate(np.nan, np.nan, np.nan, 0)
    centre, half = float(values.mean()), interval(values)
    return Estimate(centre, centre - half, centre + half, len(values))


def slope(x: ArrayLike, y: ArrayLike) -> Estimate:
    """The least-squares slope of y over x, with Student's t interval (n - 2); NaN where x takes one value only."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    if len(np.unique(x)) < 2:
        return Estimate(np.nan, np.nan, np.nan, len(x))
    fit = stats.linregress(x, y)
    half = stats.t.ppf(0.975, len(x) - 2) * fit.stderr if len(x) > 2 else np.nan
    return Estimate(float(fit.slope), float(fit.slope - half), float(fit.slope + half), len(x))


def correlation(x: ArrayLike, y: ArrayLike, ranks: bool = False) -> Estimate:
    """Pearson's correlation, or Spearman's, with Fisher's z interval; NaN where one of the two is constant.

    The variance of z is 1 / (n - 3), for ranks 1.06 / (n - 3) (Fieller, Hartley and Pearson 1957).
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    if ranks:
        x, y = stats.rankdata(x), stats.rankdata(y)
    value = pearson(x, y)
    if np.isnan(value) or len(x) < 4:
        return Estimate(value, np.nan, np.nan, len(x))
    half = stats.norm.ppf(0.975) * np.sqrt((1.06 if ranks else 1.0) / (len(x) - 3))
    centre = np.arctanh(np.clip(value, -1 + 1e-12, 1 - 1e-12))
    return Estimate(value, float(np.tanh(centre - half)), float(np.tanh(centre + half)), len(x))


def pearson(x: ArrayLike, y: ArrayLike) -> float:
    """Pearson's correlation; NaN where one of the two is constant, or for a single point."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(stats.pearsonr(x, y).statistic)


def difference(first: ArrayLike, second: ArrayLike) -> Estimate:
    """The difference of the means of two independent groups, with Welch's interval; n is that of the smaller group."""
    first, second = _finite(first), _finite(second)
    n = min(len(first), len(second))
    value = float(first.mean() - second.mean()) if n else np.nan
    if n < 2 or np.ptp(first) == np.ptp(second) == 0:
        return Estimate(value, np.nan, np.nan, n)
    low, high = stats.ttest_ind(first, second, equal_var=False).confidence_interval()
    return Estimate(value, float(low), float(high), n)


def share(count: int, total: int) -> Estimate:
    """A share, with Wilson's interval."""
    if not total:
        return Estimate(np.nan, np.nan, np.nan, 0)
    limits = stats.binomtest(count, total).proportion_ci(method="wilson")
    return Estimate(count / total, float(limits.low), float(limits.high), total)


def bootstrap(units: ArrayLike, statistic: Callable[[np.ndarray], float]) -> Estimate:
    """A statistic of units (n, ...) that has no closed interval: percentiles of seeded resamples of the units.

    With few units the interval is too narrow; a statistic such as a range is biased upwards by the noise of its parts.
    """
    units = np.asarray(units, float)
    value = float(statistic(units))
    if len(units) < 2:
        return Estimate(value, np.nan, np.nan, len(units))
    drawn = np.random.default_rng(SEED).integers(0, len(units), (RESAMPLES, len(units)))
    low, high = np.nanpercentile([statistic(units[chosen]) for chosen in drawn], [2.5, 97.5])
    return Estimate(value, float(low), float(high), len(units))


def _finite(values: ArrayLike | Sequence[float]) -> np.ndarray:
    values = np.asarray(values, float)
    return values[np.isfinite(values)]
