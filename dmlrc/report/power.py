"""Power: which differences a study of so many searches can tell, how many searches one takes, and what they cost.

Every number is of the tests in `dmlrc.report.statistics`, for two methods whose searches vary as much as those of the
others. Differences, and the standard deviations of search and seed, are in one unit, such as points of MAP@R.
"""

import functools
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import optimize, stats

from dmlrc.report.statistics import LEVEL, SEED, Noise, above_one, moderated, numbered, satterthwaite, squares_within

POWER = 0.8
"""With which the smallest effect that is told is found: in four of five studies."""
DRAWS = 4000
MOST = 1000
"""Searches of each method; who would need more is told so."""
PAIR, ALL, BEST = "one pair", "all pairs", "against the best"
TESTS = (PAIR, ALL, BEST)
"""A t test of two methods chosen before; the first, hardest step of Holm's correction over all pairs; whether a method
is told to be behind the best, see `dmlrc.report.statistics.among_best`."""


@dataclass(frozen=True)
class Design:
    """A study: so many methods and searches of each, reruns of each search, and the two lucks' standard deviations.

    pooled: its variances are those of all methods together, as of one that borrows the noise of search.
    """

    search: float
    seed: float
    methods: int = 14
    searches: int = 3
    reruns: int = 3
    pooled: bool = False

    @property
    def error(self) -> float:
        """The standard error of a difference."""
        return math.sqrt(2 * (self.search**2 + self.seed**2 / self.reruns) / self.searches)

    def power(self, difference: float, test: str = PAIR) -> float:
        """The share of studies in which a true difference is told, with its sign."""
        reach = _reach(self.methods, self.searches, self.pooled, test)
        return float(stats.norm.sf(reach - difference / self.error).mean())

    def least(self, test: str = PAIR) -> float:
        """The smallest true difference that is told with POWER; NaN where nothing is repeated, or compared.

        >>> round(Design(0.279, 0.098).least(), 2), round(Design(0.279, 0.098).least(ALL), 2)
        (0.75, 1.63)
        """
        if min(self.methods, self.searches) < 2 or not self.error > 0:
            return float("nan")
        return self.error * _least(self.methods, self.searches, self.pooled, test)

    def searches_for(self, difference: float, test: str = PAIR) -> int | None:
        """The number of searches of each method that tell a true difference with POWER; None for more than MOST."""
        counts = range(2, MOST + 1)
        place = bisect_left(counts, POWER, key=lambda count: replace(self, searches=count).power(difference, test))
        return counts[place] if place < len(counts) else None


def of_runs(values: np.ndarray, known: Noise) -> Design:
    """The study as it stands, with the luck that it shows. values: (M, R, S), as `statistics.as_array` gives them.

    Of single reruns the luck is that of a repetition, whatever is in it.
    """
    of_search, of_seed = (known.repetition, 0.0) if values.shape[-1] == 1 else (known.search, known.seed)
    return Design(float(np.sqrt(of_search)), float(np.sqrt(of_seed)), *values.shape, known.pooled)


@functools.cache
def _reach(methods: int, searches: int, pooled: bool, test: str) -> np.ndarray:
    """The least difference told, in true standard errors: (DRAWS,), which vary as the two methods' variances do."""
    own, most = searches - 1, methods * (searches - 1)
    around = np.random.default_rng(SEED).chisquare(own, (DRAWS, methods))
    used = np.zeros(2, int) if pooled else np.full(2, own)
    variance, df = moderated(around.sum(1, keepdims=True) / most, around[:, :2], used, most)
    free = satterthwaite(variance, df, most)
    if test == BEST:
        quantile = above_one(methods, free)
    else:
        comparisons = math.comb(methods, 2) if test == ALL else 1
        quantile = stats.t.isf((1 - LEVEL) / 2 / comparisons, free)
    return quantile * np.sqrt(variance.mean(1))


@functools.cache  # tables of results ask for the same few
def _least(methods: int, searches: int, pooled: bool, test: str) -> float:
    """The smallest true difference that is told with POWER, in true standard errors."""
    reach = _reach(methods, searches, pooled, test)
    return float(optimize.brentq(lambda effect: stats.norm.sf(reach - effect).mean() - POWER, 0, reach.max() + 2))


def least_of_seeds(rows: pd.DataFrame, by: Sequence[str] = ()) -> pd.Series:
    """The smallest true difference told with POWER when all rows are compared, by the noise of seeds.

    rows, by: as in `statistics.by_luck_of_seeds`. One number a group; NaN for fewer than two rows with an interval.
    """
    group, (around, df) = numbered(rows, by), squares_within(*rows[["ci95", "n"]].to_numpy(float).T)
    sums = (np.bincount(group, values) for values in (around, df, rows["mean"].notna(), df > 0))
    middle = pd.Series(df).where(df > 0).groupby(group).median()
    gaps = [
        Design(0.0, math.sqrt(squares / free), int(ran), 1 + int(reruns), 1).least(ALL)
        if with_interval > 1
        else float("nan")
        for squares, free, ran, with_interval, reruns in zip(*sums, middle, strict=True)
    ]
    return pd.Series(np.array(gaps, float)[group], rows.index)


def least_effect(error: float, df: float) -> float:
    """The smallest true effect that a two-sided t test at 5 % tells from 0 with POWER.

    error: the standard error of its estimate, with df degrees of freedom. The t statistic of a true effect d is a
    noncentral one with mean parameter d / error; its other tail is left out, as a finding of the wrong sign.

    >>> round(least_effect(1.0, 1e6), 2)  # 1.96 + 0.84
    2.8
    """
    if not error * df > 0:
        return float("nan")
    quantile = stats.t.ppf((1 + LEVEL) / 2, df)
    return float(error * optimize.brentq(lambda effect: stats.nct.sf(quantile, df, effect) - POWER, 0, 20 * quantile))


def least_ratio(over: float, under: float, spread: float) -> tuple[float, float]:
    """Limits of the true ratios of two ranges that POWER sees: up to the first number, and from the second.

    over, under: the standard errors of a method's score above and under the line, and spread: the range under it, all
    relative to the mean score of their study. A range is taken for the difference of its two ends, so the logarithm
    of a ratio q has the variance 2 (over / (q spread))^2 + 2 (under / spread)^2. NaN where luck drowns every ratio.

    >>> least_ratio(0.0145, 0.0132, 0.303)
    (0.73, 1.26)
    """

    def beyond(ratio: np.ndarray) -> np.ndarray:
        error = np.sqrt(2) * np.hypot(over / (ratio * spread), under / spread)
        return np.abs(np.log(ratio)) - (stats.norm.ppf((1 + LEVEL) / 2) + stats.norm.ppf(POWER)) * error

    below, above = np.linspace(0.01, 0.99, 99), np.linspace(1.01, 20, 1900)
    low, high = below[beyond(below) >= 0], above[beyond(above) >= 0]
    return (
        round(float(low.max()), 2) if len(low) else float("nan"),
        round(float(high.min()), 2) if len(high) else float("nan"),
    )
