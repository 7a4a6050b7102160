"""How often the pages' intervals, ranks and tests are right: `python -m benchmarks.coverage`, minutes of one core.

Made-up studies, thousands at once: methods with equal scores and with scores apart, searches that scatter alike and
unequally, few and many of both. A row says in what share of studies no statement is false, which should be 95 %; with
`--pooled` those of the preregistered model, one variance for all methods. `STATEMENTS` has what is said of other data:
of classes, of points, of rows with the noise of seeds alone. It ends with an error where a share is too low.
"""

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

from dmlrc.report import power, statistics

LUCKS = {
    "equal": lambda methods: np.ones(methods),
    "from half to one and a half": lambda methods: np.linspace(0.5, 1.5, methods),
    "half of them a third": lambda methods: np.where(np.arange(methods) < methods // 2, 1 / 3, 1.0),
    "one of them three times": lambda methods: np.where(np.arange(methods) == methods - 1, 3.0, 1.0),
    "one of them twenty times": lambda methods: np.where(np.arange(methods) == methods - 1, 20.0, 1.0),
}
"""The standard deviation of each method's search; the last method, which is among the best, varies most."""
SCORES = {
    "equal": lambda methods: np.zeros(methods),
    "three tie as best": lambda methods: np.where(np.arange(methods) >= methods - 3, 4.0, 0.0),
    "apart": lambda methods: np.linspace(0.0, 6.0, methods),
}
METHODS, SEARCHES = (5, 8, 14, 20), (2, 3, 5)
PROMISED, LEAST = ["ranks", "best", "holm", "interval"], dict.fromkeys(LUCKS, 0.93) | {"one of them twenty times": 0.88}
"""What chapter 5 promises of 95 % of studies, but for a point or two with the fewest searches and losses; of 90 % where
one loss is far noisier than the others."""


def rates(
    methods: int, searches: int, luck: str, scores: str, studies: int = 600, pooled: bool = False
) -> dict[str, float]:
    """The share of studies in which no statement is false.

    ranks: all true ranks lie in their intervals; best: the best method ties with the best, the lowest share where
    several are best; holm: no two methods differ that do not; interval: a score lies in its own, the mean over the
    methods, and noisiest, of the method whose searches vary most.
    """
    random, truth = np.random.default_rng(0), SCORES[scores](methods)
    search = LUCKS[luck](methods)[:, None] * random.normal(size=(studies, methods, searches))
    values = (truth[:, None] + search)[..., None]
    known = replace(statistics.noise(values), pooled=pooled)
    scored = *statistics.of_methods(values, known), known.df
    centre, variance, df, _ = scored
    first, last = statistics.rank_intervals(*scored)
    above = (truth[:, None] < truth).sum(1), (truth[:, None] > truth).sum(1)  # surely better, and surely worse
    difference, _, _, p = statistics.pairwise(*scored)
    upper, lower = np.triu_indices(methods, 1)
    wrong = (statistics.holm(p) < 1 - statistics.LEVEL) & (difference * (truth[upper] - truth[lower]) <= 0)
    half = (1 + statistics.LEVEL) / 2
    inside = np.abs(centre - truth) <= stats.t.ppf(half, df) * np.sqrt(variance)
    return {
        "ranks": ((first <= 1 + above[0]) & (last >= methods - above[1])).all(1).mean(),
        "best": statistics.among_best(*scored)[:, truth == truth.max()].mean(0).min(),
        "holm": 1 - wrong.any(1).mean(),
        "interval": inside.mean(),
        "noisiest": inside[:, -1].mean(),
    }


Drawn = tuple[statistics.Estimate, float]
"""An estimate of made-up data, and what is true."""


def covered(draw: Callable[..., Drawn], random: np.random.Generator, studies: int, n: int, **given) -> np.ndarray:
    """Tell of each of so many studies whether the truth lies in its interval, or it has none: (studies,)."""
    drawn = (draw(random, n, **given) for _ in range(studies))
    return np.array([not (truth < estimate.low or truth > estimate.high) for estimate, truth in drawn])


def line(random: np.random.Generator, n: int) -> Drawn:
    return statistics.slope(np.arange(n), 2.0 * np.arange(n) + random.normal(size=n)), 2.0


def middle(random: np.random.Generator, n: int) -> Drawn:
    return statistics.median(random.exponential(size=n)), np.log(2)


def pair(random: np.random.Generator, n: int, ranks: bool = False, rho: float = 0.8) -> Drawn:
    x, y = random.multivariate_normal([0, 0], [[1, rho], [rho, 1]], n).T
    return statistics.correlation(x, y, ranks), 6 / np.pi * np.arcsin(rho / 2) if ranks else rho


def one_more(random: np.random.Generator, n: int) -> Drawn:
    """The mean of four values less one more of n others that scatter twice as much."""
    values, others = random.normal(3.0, 0.5, 4), random.normal(size=n + 1)
    return statistics.prediction_difference(values, others[1:]), 3.0 - others[0]


def other_classes(random: np.random.Generator, n: int) -> Drawn:
    """The difference of two methods on other test classes, each of as many queries."""
    scores = pd.DataFrame(random.normal([0.5, 0.4], 0.1, (n, 2)))
    drawn = statistics.over_classes(scores, pd.Series(10, scores.index))
    return statistics.percentiles(np.subtract(*scores.mean()), drawn[0] - drawn[1], n), 0.1


def multiple(random: np.random.Generator, n: int) -> Drawn:
    """The mean of three rows over that of two others, less 1, of n searches each."""
    truth = pd.Series([0.5, 0.6, 0.55, 0.4, 0.5], list("abcde"))
    rows = pd.MultiIndex.from_product([truth.index, range(n), [0]], names=["method", "repetition", "rerun"])
    runs = rows.to_frame(index=False)
    runs["value"] = truth[runs["method"]].to_numpy() + 0.03 * random.normal(size=len(runs))
    means = runs.groupby("method")["value"].mean()
    return statistics.relative(means, list("abc"), list("de"), partial(statistics.contrast, runs)), 0.55 / 0.45 - 1


def unrelated(random: np.random.Generator, studies: int, n: int) -> np.ndarray:
    """Tell whether the test keeps that two unrelated series are unrelated: (studies,)."""
    tests = (statistics.rank_test(*map(pd.Series, random.normal(size=(2, n)))) for _ in range(studies))
    return np.array([test["p"] >= 1 - statistics.LEVEL for test in tests])


def standing(random: np.random.Generator, studies: int, n: int, truth: np.ndarray, luck: np.ndarray) -> pd.DataFrame:
    """The rows of studies by the noise of n seeds, as `statistics.by_luck_of_seeds` places them."""
    values = truth[:, None] + luck[:, None] * random.normal(size=(studies, len(truth), n))  # (studies, rows, n)
    half = statistics.estimates.student_reach(n - 1) * values.std(-1, ddof=1) / np.sqrt(n)
    rows = pd.DataFrame({"mean": values.mean(-1).ravel(), "ci95": half.ravel(), "n": n})
    return statistics.by_luck_of_seeds(rows.assign(study=np.arange(len(rows)) // len(truth)), ["study"])


def ranked(random: np.random.Generator, studies: int, n: int, scores: str, luck: str = "equal") -> np.ndarray:
    """Tell whether all eight true ranks lie in their intervals: (studies,)."""
    truth = SCORES[scores](8)
    placed = standing(random, studies, n, truth, LUCKS[luck](8))
    first, last = (placed[name].to_numpy().reshape(studies, -1) for name in ("rank_low", "rank_high"))
    return ((first <= 1 + (truth[:, None] < truth).sum(1)) & (last >= 8 - (truth[:, None] > truth).sum(1))).all(1)


def told(random: np.random.Generator, studies: int, n: int) -> np.ndarray:
    """Tell whether the least gap of eight rows is told between two of them, far above all others: (studies,)."""
    half = statistics.estimates.student_reach(n - 1) / np.sqrt(n)  # of a standard deviation of 1
    gap = power.least_of_seeds(pd.DataFrame({"mean": 0.0, "ci95": half, "n": n}, range(8)))[0]
    placed = standing(random, studies, n, np.array([gap, 0.0, *[-1000.0] * 6]), np.ones(8))
    return placed["rank_low"].to_numpy().reshape(studies, -1)[:, 1] == 2


STATEMENTS = {
    "slope, points": (statistics.slope, partial(covered, line), {3: 0.95, 20: 0.95}),
    "median, values": (statistics.median, partial(covered, middle), {6: 0.95, 14: 0.95}),
    "correlation, points": (statistics.correlation, partial(covered, pair), {5: 0.95, 14: 0.95}),
    "rank correlation, points": (
        statistics.correlation,
        partial(covered, pair, ranks=True),
        {5: 0.85, 8: 0.93, 14: 0.93, 30: 0.93},
    ),
    "rank test, points": (statistics.rank_test, unrelated, {4: 0.91, 5: 0.91, 8: 0.95, 14: 0.95}),
    "one more value, others": (statistics.prediction_difference, partial(covered, one_more), {3: 0.93, 10: 0.95}),
    "over classes, classes": (
        statistics.over_classes,
        partial(covered, other_classes),
        {5: 0.84, 10: 0.88, 20: 0.91, 40: 0.93},
    ),
    "multiple, searches": (statistics.relative, partial(covered, multiple), {2: 0.95, 5: 0.95}),
    "ranks of equal rows, reruns": (statistics.by_luck_of_seeds, partial(ranked, scores="equal"), {2: 0.95, 10: 0.95}),
    "ranks of rows apart, reruns": (statistics.by_luck_of_seeds, partial(ranked, scores="apart"), {2: 0.95, 10: 0.95}),
    "ranks with a noisy row, reruns": (
        statistics.by_luck_of_seeds,
        partial(ranked, scores="equal", luck="one of them three times"),
        {2: 0.95, 10: 0.95},
    ),
    "least gap, reruns": (power.least_of_seeds, told, {2: power.POWER, 10: power.POWER}),
}
"""What is said of other data than a study's searches: the function that says it, whether it is right in made-up
studies of so many points, and the least share of these in which it is: 95 %, or what its docstring owns up to."""


def shares(name: str, studies: int) -> Iterator[tuple[int, float, float]]:
    """Yield of each size the share of studies in which a statement is right, and the least that it should be."""
    _, right, promised = STATEMENTS[name]
    for n, least in promised.items():
        yield n, float(right(np.random.default_rng(0), studies, n).mean()), least


def below(share: float, least: float, studies: int) -> bool:
    """Tell whether a share lies further below what it should be than chance takes it."""
    return share < least - 3 * np.sqrt(least * (1 - least) / studies)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pooled", action="store_true", help="one variance for all methods, as preregistered")
    parser.add_argument("--studies", type=int, default=2000)
    given = parser.parse_args()
    rows = {
        case: rates(*case, studies=given.studies, pooled=given.pooled)
        for case in itertools.product(METHODS, SEARCHES, LUCKS, SCORES)
    }
    names = ["methods", "searches", "luck", "scores"]
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis(names)
    print(table.round(3).to_string())
    print(table.groupby(["luck", "scores"]).min().round(3).to_string())
    low = table[table[PROMISED].min(axis=1) < table.index.get_level_values("luck").map(LEAST)]
    for name in STATEMENTS:
        for n, share, least in shares(name, given.studies):
            print(f"{name:32}{n:4}{share:7.3f} of {least:.2f}")
            if below(share, least, given.studies):
                sys.exit(f"{name}: {n}: right in {share:.3f} of studies instead of {least:.2f}")
    if len(low) and not given.pooled:
        sys.exit(f"{len(low)} of {len(table)} rows lie below what is promised:\n{low.round(3).to_string()}")


if __name__ == "__main__":
    main()
