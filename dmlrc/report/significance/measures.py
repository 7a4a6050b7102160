"""Which methods of a study really differ: paired tests, effect sizes, ranks over blocks, and accuracy beside cost.

The unit is a rerun. Reruns of one number share their seeds, so methods are compared in pairs. The folds of a rerun are
no units of their own: they share the test classes and three quarters of their training classes, so each rerun counts
once, with the mean over its folds' models ("separated") or with their joined embeddings ("concatenated").

What these tests see is the noise of seeds alone. The data set, its split, the trunk and the one search that chose each
method's hyperparameters are the same in every rerun; a difference that is significant here may be gone after another
search, and one that is not may be real and small.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import tables
from dmlrc.report.statistics import half_width, holm
from dmlrc.report.tables import CLASSICS

ALPHA = 0.05
METRIC, SETTING = "map_at_r", "concatenated"


def scores(records: StudyRecords, metric: str = METRIC, setting: str = SETTING) -> pd.DataFrame:
    """The test scores of the trained methods: a row a rerun, a column a method in the paper's order.

    NaN where a rerun of a method diverged or is not finished; methods without any rerun are left out.
    """
    frame = records.scores
    chosen = frame[(frame["metric"] == metric) & (frame["setting"] == setting) & (frame["method"] != PRETRAINED)]
    wide = chosen.pivot(index=["repetition", "rerun"], columns="method", values="value")
    wide = wide.dropna(axis="columns", how="all")
    return wide[[name for name in tables.ordered(wide.columns) if name in wide]]


def pairwise(table: pd.DataFrame) -> pd.DataFrame:
    """Every pair of methods, compared over the reruns that both have. table: `scores`.

    Columns: a, b; difference (mean of a - b, a fraction), low, high (its 95 % interval, Student's t), n (reruns);
    p_t (paired t test), p_wilcoxon (signed ranks, exact where it can be); holm_t, holm_wilcoxon (Holm's correction over
    all pairs of the table); d (Cohen's d of paired differences: mean / standard deviation), g (Hedges' correction).
    NaN where there is nothing to test: fewer than 2 reruns, or the same difference in all.
    """
    rows = [_pair(table, a, b) for a, b in itertools.combinations(table.columns, 2)]
    columns = ["a", "b", "difference", "low", "high", "n", "p_t", "p_wilcoxon", "d", "g"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(holm_t=holm(frame["p_t"]), holm_wilcoxon=holm(frame["p_wilcoxon"]))


def _pair(table: pd.DataFrame, a: str, b: str) -> dict:
    differences = (table[a] - table[b]).dropna().to_numpy()
    row = {"a": a, "b": b, "n": len(differences)}
    if not len(differences):
        return row
    centre, half = float(differences.mean()), half_width(differences)
    row |= {"difference": centre, "low": centre - half, "high": centre + half}
    if len(differences) < 2 or np.ptp(differences) <= 1e-12:
        return row
    d = centre / differences.std(ddof=1)
    return row | {
        "p_t": float(stats.ttest_1samp(differences, 0).pvalue),
        "p_wilcoxon": float(stats.wilcoxon(differences).pvalue),
        "d": float(d),
        "g": float(d * hedges(len(differences))),
    }


def hedges(n: int) -> float:
    """Hedges' correction of the bias of d from n paired differences: 1 - 3 / (4 (n - 1) - 1); NaN for fewer than 3.

    >>> round(hedges(10), 4)
    0.9143
    """
    return 1 - 3 / (4 * (n - 1) - 1) if n > 2 else float("nan")  # of two it would make every effect 0


def smallest_wilcoxon(n: int, pairs: int) -> float:
    """The smallest p that the signed-rank test can give for n reruns, after Holm's correction over so many pairs.

    >>> smallest_wilcoxon(10, 1), round(smallest_wilcoxon(10, 91), 3)
    (0.001953125, 0.178)
    """
    return min(1.0, pairs * 2 / 2**n)


def not_told_apart(table: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """The best method by its mean, then those whose difference from it is not significant (Holm, paired t)."""
    best = table.mean().idxmax()
    with_best = pairs[(pairs["a"] == best) | (pairs["b"] == best)]
    others = with_best["a"].where(with_best["a"] != best, with_best["b"])
    return [best, *others[~(with_best["holm_t"] < ALPHA)]]


def ranks(blocks: pd.DataFrame) -> pd.Series:
    """The mean rank of each method over the blocks, 1 for the highest score; ties share their ranks.

    blocks: a row a block (a rerun, or a data set), a column a method, without NaN.
    """
    return blocks.rank(axis=1, ascending=False).mean().sort_values()


def friedman(blocks: pd.DataFrame) -> dict[str, float]:
    """Friedman's test that no method ranks higher than another: statistic, p, blocks, methods; NaN for too few.

    It needs 3 methods and 2 blocks.
    """
    count, methods = blocks.shape
    if count < 2 or methods < 3:
        return {"statistic": float("nan"), "p": float("nan"), "blocks": count, "methods": methods}
    test = stats.friedmanchisquare(*blocks.to_numpy().T)
    return {"statistic": float(test.statistic), "p": float(test.pvalue), "blocks": count, "methods": methods}


def critical_difference(blocks: int, methods: int, alpha: float = ALPHA) -> float:
    """How far apart two mean ranks must lie to differ by Nemenyi's test (Demsar 2006, section 3.2.2).

    q / sqrt(2) sqrt(k (k + 1) / (6 N)), q the quantile of the studentised range of k groups.

    >>> round(critical_difference(14, 4), 2)  # the example of the paper
    1.25
    """
    quantile = stats.studentized_range.ppf(1 - alpha, methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * blocks)))


def nemenyi(blocks: pd.DataFrame) -> pd.DataFrame:
    """Nemenyi's p-values of all pairs of methods, as a matrix. blocks: as in `ranks`."""
    from scikit_posthocs import posthoc_nemenyi_friedman

    p = posthoc_nemenyi_friedman(blocks.to_numpy())
    return pd.DataFrame(p.to_numpy(), index=blocks.columns, columns=blocks.columns)


def complete(table: pd.DataFrame) -> pd.DataFrame:
    """The reruns that every method has: ranks need whole blocks."""
    return table.dropna()


def datasets(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The mean over the reruns: a row a study, a column a method that all have."""
    return pd.DataFrame({each.name: scores(each).mean() for each in edition}).T.dropna(axis="columns")


def blocks(edition: Sequence[StudyRecords]) -> dict[str, pd.DataFrame]:
    """What the ranks are taken over: the reruns of every study, and where there are three studies, these themselves.

    Title -> blocks; studies without whole blocks, or with fewer than 3 methods, are left out.
    """
    rerun_blocks = {each.name: complete(scores(each)) for each in edition}
    if len(edition) >= 3:
        rerun_blocks["over the data sets"] = datasets(edition)
    return {name: each for name, each in rerun_blocks.items() if each.shape[0] >= 2 and each.shape[1] >= 3}


def cost_and_accuracy(records: StudyRecords) -> pd.DataFrame:
    """Concatenated MAP@R beside cost, indexed by method: mean, ci95, seconds and steps of a rerun, dominated.

    dominated: another method has a higher mean in fewer steps. Steps and seconds are summed over the folds.
    """
    frame = tables.accuracy(records)
    chosen = frame[(frame["metric"] == METRIC) & (frame["setting"] == SETTING)].set_index("method")[["mean", "ci95"]]
    table = chosen.join(tables.cost(records)[["seconds", "steps"]], how="inner")
    table = table.loc[tables.ordered(table.index)]
    cheaper = table["steps"].to_numpy() < table["steps"].to_numpy()[:, None]  # (this, other)
    better = table["mean"].to_numpy() > table["mean"].to_numpy()[:, None]
    return table.assign(dominated=(cheaper & better).any(axis=1))


def comparable(edition: Sequence[StudyRecords]) -> list[StudyRecords]:
    """The studies with at least two methods and two reruns that both have."""
    return [each for each in edition if min(complete(scores(each)).shape) >= 2]


def baseline(table: pd.DataFrame) -> str:
    """What the others are compared with: the contrastive loss, the oldest; the first method where it is missing."""
    return CLASSICS[0] if CLASSICS[0] in table else table.columns[0]


def effects(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `pairwise` with the `baseline`, turned so that they say how far a method is above it; by method.

    The corrections are those over all pairs of the table.
    """
    name = baseline(table)
    pairs = pairwise(table)
    before, after = pairs[pairs["a"] == name], pairs[pairs["b"] == name]
    signs = {"difference": -before["difference"], "low": -before["high"], "high": -before["low"]}
    turned = before.assign(a=before["b"], b=name, **signs, d=-before["d"], g=-before["g"])
    against_baseline = pd.concat([turned, after]).set_index("a").drop(columns="b").rename_axis("method")
    return against_baseline.loc[tables.ordered(against_baseline.index)]


def same_function(records: StudyRecords) -> float:
    """MAP@R of N. Softmax minus that of ProxyNCA, one function searched twice; NaN where one of them is missing."""
    table = scores(records)
    names = ("normalized_softmax", "proxy_nca")
    return float((table[names[0]] - table[names[1]]).mean()) if set(names) <= set(table) else float("nan")
