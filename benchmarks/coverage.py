"""How often the pages' intervals, ranks and tests are right: `python -m benchmarks.coverage`, minutes of one core.

Made-up studies, thousands at once: methods with equal scores and with scores apart, searches that scatter alike and
unequally, few and many of both. A row says in what share of studies no statement is false, which should be 95 %; with
`--pooled` those of the preregistered model, one variance for all methods. It ends with an error where a share is lower
than promised.
"""

import argparse
import itertools
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats

from dmlrc.report import statistics

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
    if len(low) and not given.pooled:
        sys.exit(f"{len(low)} of {len(table)} rows lie below what is promised:\n{low.round(3).to_string()}")


if __name__ == "__main__":
    main()
