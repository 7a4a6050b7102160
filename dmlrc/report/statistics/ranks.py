"""Ranks that methods may have and who ties with the best, by simultaneous tests; the summary of a study's methods."""

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import optimize, special, stats

from dmlrc.report.statistics.differences import satterthwaite
from dmlrc.report.statistics.estimates import LEVEL, Estimate, student_reach
from dmlrc.report.statistics.searches import Noise, as_array, by_seed, moderated, noise, of_methods, search_to_seed

TUKEY = "Tukey and Kramer's simultaneous intervals of all differences"


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
    pairs = ~np.eye(len(centre), dtype=bool)  # a noisy method is not to be compared with itself
    low, high = np.maximum(0, (difference - half)[pairs].max()), (difference + half)[pairs].max()
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
    reach = np.array([student_reach(count) if count else np.nan for count in df])
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
    """The quantile of all pairs, `scipy.stats.studentized_range` over root 2 in a tenth of its time; NaN for none."""
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
