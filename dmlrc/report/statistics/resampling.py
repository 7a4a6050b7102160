"""Resamples, seeded: intervals of statistics that have no closed one, and the scores on other test classes."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dmlrc.report.statistics.estimates import LEVEL, Estimate

RESAMPLES = 2000
SEED = 0
PERCENTILES = "bootstrap, percentiles, seeded"
REDRAWN = "parametric bootstrap of search and seed, percentiles, seeded"


def bootstrap(rows: ArrayLike, statistic: Callable[[np.ndarray], np.ndarray]) -> Estimate:
    """A statistic of rows (n, k) that has no closed interval: percentiles of seeded resamples of the rows.

    statistic: samples of rows (..., n, k) -> numbers (...). With few rows the interval is too narrow; a statistic such
    as a range is biased upwards by the noise of its parts. Resamples for which the statistic is NaN are left out, which
    `scipy.stats.bootstrap` cannot do.
    """
    rows = np.asarray(rows, float)
    value = float(statistic(rows))
    if len(rows) < 2:
        return Estimate(value, np.nan, np.nan, len(rows), how=PERCENTILES)
    drawn = np.random.default_rng(SEED).integers(0, len(rows), (RESAMPLES, len(rows)))
    resampled = statistic(rows[drawn])
    return percentiles(value, resampled[~np.isnan(resampled)], len(rows), "")


def discordant_pairs(x: ArrayLike, y: ArrayLike) -> tuple[int, int]:
    """The number of pairs of units that x and y put in opposite orders (a tie is in none), and the number of pairs.

    Of the units that both have: NaN is none.

    >>> discordant_pairs([1, 2, 3], [1, 3, 2])
    (1, 3)
    """
    both = np.stack([np.asarray(x, float), np.asarray(y, float)])
    signs = [np.sign(np.subtract.outer(scores, scores)) for scores in both[:, ~np.isnan(both).any(axis=0)]]
    upper = np.triu_indices(len(signs[0]), 1)
    return int((signs[0] * signs[1] < 0)[upper].sum()), len(upper[0])


def expected_discordant_pairs(scores: ArrayLike, one: ArrayLike, other: ArrayLike, draws: int = 2000) -> Estimate:
    """The number of pairs that `discordant_pairs` counts where nothing turns: the same true scores, measured twice.

    scores: (M,), as measured the first time; one, other: (M,) the standard errors of the two measurements. The true
    scores are taken to be those of `shrink_to_mean`. The value is the mean over the draws, the interval that of the
    middle 95 %; n: the pairs. NaN where an error is.
    """
    upper, signs = np.triu_indices(len(np.asarray(scores)), 1), []
    if np.isnan(one).any() or np.isnan(other).any():
        return Estimate(np.nan, np.nan, np.nan, len(upper[0]), "pairs", REDRAWN)
    scores, random = shrink_to_mean(scores, one), np.random.default_rng(SEED)
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


def expected_range_under_null(errors: ArrayLike) -> float:
    """The mean range of scores that are truly equal: what noise alone makes of it. errors: (M,), standard errors."""
    return float(np.ptp(np.random.default_rng(SEED).normal(0, errors, (10_000, len(errors))), axis=1).mean())


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


def over_classes(scores: pd.DataFrame, queries: pd.Series, draws: int = RESAMPLES) -> pd.DataFrame:
    """The methods' scores on other test classes: one row per resample of the classes, one column per method.

    scores: a row a test class, a column a method, each the mean over its queries (and over reruns). queries: how many
    each class has. All methods are scored on the same classes, so that their differences are paired: subtract columns,
    then take `percentiles`. The images that a query is compared with stay those of the real test half, so what more
    or fewer classes would do to the scores is not in it. Of few classes the interval is too narrow: that of a
    difference covers 84 % for 5 classes, 88 % for 10, 91 % for 20, 93 % for 40.
    """
    random = np.random.default_rng(SEED)
    counts = random.multinomial(len(scores), np.full(len(scores), 1 / len(scores)), draws)  # (draws, C)
    weights = counts * queries.reindex(scores.index).to_numpy(float)
    return pd.DataFrame(weights @ scores.to_numpy(float) / weights.sum(1, keepdims=True), columns=scores.columns)
