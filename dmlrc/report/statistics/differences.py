"""Differences of methods with the luck of search and seed: contrasts, all pairs, and their corrected tests."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from dmlrc.report.statistics.estimates import LEVEL, STUDENT, Estimate
from dmlrc.report.statistics.searches import Noise, as_array, noise, of_methods, repetition_means


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


def contrast(
    runs: pd.DataFrame, weights: Mapping[str, float], known: Noise | None = None, level: float = LEVEL
) -> Estimate:
    """A weighted sum of methods' scores, {"a": 1, "b": -1} their difference. Raises KeyError for one without runs."""
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
    perfect = (-1.0, 1 / base - 1)  # nobody scores more than 1
    return replace(gain, attainable=perfect, seeds_only=difference.seeds_only)


def satterthwaite(parts: np.ndarray, df: np.ndarray, most: ArrayLike) -> np.ndarray:
    """The df of sums of variances (..., n) of df each (Satterthwaite 1946), at most `most`, those of a pooled one."""
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
    _, means = repetition_means(values)
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
    """Welch's p of pairs of rows of `means`, (M, R) with NaN where there is none; NaN for rows of one number."""
    facts = pd.DataFrame(means).T.agg(["mean", "std", "count"]).to_numpy()  # (3, M)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = stats.ttest_ind_from_stats(*facts[:, first], *facts[:, second], equal_var=False).pvalue
    return np.where(facts[1, first] + facts[1, second] > 0, p, np.nan)
