"""The luck of search and of seed in a study's numbers, and what a method's variance is.

`runs` is one metric of one study: a data frame with a row a rerun and the columns method, repetition (a whole search
with a seed of its own), rerun (a training of its best setting with another seed) and value. The model is y = method +
search + seed: a rerun's value is the method's, plus the noise of its search, which all reruns of a repetition share,
plus the noise of its seed. Reruns of one number in two methods are no pairs: they begin alike, and in some records rise
and fall together, but count as independent, which makes the interval of a difference too wide if anything.
Values that are not finite are runs that diverged, and are left out.

The arithmetic is done on arrays (..., M, R, S) of methods, repetitions and reruns, NaN where there is no run
(`as_array`); leading axes are studies, so that a simulation can try thousands at once.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

PRIOR = 2
"""Degrees of freedom with which the mean of all methods counts in the variance of one, see `of_methods`."""


def as_array(runs: pd.DataFrame) -> tuple[list[str], np.ndarray]:
    """The methods of `runs` in order, and the values (M, R, S), by repetition and rerun; NaN where there is no run."""
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
    counts, means = repetition_means(values)  # (..., M, R)
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
    counts, _ = repetition_means(values)
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
    counts, means = repetition_means(values)
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
    """The variance of each method's score by its own reruns alone, without search, and its df: (..., M)."""
    counts, own = np.isfinite(values).sum(-1), noise(values[..., None, :, :])
    ran = counts > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        return own.seed * np.where(ran, 1 / counts, 0).sum(-1) / ran.sum(-1) ** 2, own.seed_df


def repetition_means(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The count of each repetition's reruns that ended with a number, and their mean (NaN for none): (..., M, R)."""
    counts = np.isfinite(values).sum(-1)
    with np.errstate(invalid="ignore"):
        return counts, np.nansum(values, axis=-1) / counts


def _mean(means: np.ndarray) -> np.ndarray:
    """The mean over the last axis of what is not NaN; NaN for nothing."""
    with np.errstate(invalid="ignore"):
        return np.nansum(means, axis=-1) / np.isfinite(means).sum(-1)


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
