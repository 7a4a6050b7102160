"""Real differences between methods of a study: tests of all pairs, ranks, other test classes, and accuracy beside cost.

The unit is a repetition: a whole search with its reruns. Tests count the noise of search and of seeds
(`dmlrc.report.statistics`). Where a study searched its methods once, the noise of search is borrowed from another study
of the edition that repeated its searches; where there is none, the unit is a rerun and the tests see seeds alone.

Nothing is paired, as preregistered: reruns of one number in two methods begin with the same weights of the embedder,
but count as independent, so that intervals of differences are rather too wide. Folds, which share test classes and most
training classes, are no units: a rerun counts once, by the mean of its models ("separated") or joined ("concatenated").
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import stats

from dmlrc.records import PRETRAINED, StudyRecords, derived_once
from dmlrc.report import power, statistics, tables
from dmlrc.report.statistics import LEVEL, Estimate, Noise
from dmlrc.report.tables import CLASSICS

ALPHA = 1 - LEVEL
METRIC, SETTING = "map_at_r", "concatenated"
MARGIN = 0.01
"""Two methods whose scores are surely less than this apart count as equal: one point, as preregistered."""

OWN, BORROWED, SEEDS = "search and seed", "search noise borrowed, seed noise measured", "seed alone"
"""The luck that a comparison counts."""


@dataclass(frozen=True)
class Comparison:
    """The scores of a study's methods in one setting and metric, and the luck that tests of them count.

    runs: of `scores`; with SEEDS each rerun is a repetition of its own. luck: OWN, BORROWED or SEEDS. donor: the study
    that lent the noise of search, or "".
    """

    study: str
    runs: pd.DataFrame
    known: Noise
    luck: str
    donor: str = ""

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(self.runs["method"]))

    def only(self, methods: Collection[str]) -> "Comparison":
        """The comparison of these methods alone, with the luck that all of them were found to have."""
        return replace(self, runs=self.runs[self.runs["method"].isin(list(methods))])

    def as_preregistered(self) -> "Comparison":
        """The comparison where every method has the pooled variance, as the preregistration says."""
        return replace(self, known=replace(self.known, pooled=True))

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Every method: mean, intervals, ranks, and whether it is among the best, see `statistics.summary`."""
        return statistics.summary(self.runs, self.known)

    @cached_property
    def range(self) -> Estimate:
        """The lead of the best mean over the worst, see `statistics.range_of`."""
        summary = self.summary
        return statistics.range_of(summary["mean"], summary["error"] ** 2, summary["df"], self.known.df)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """Every pair of methods, see `statistics.pairs`; equal: within MARGIN."""
        return statistics.pairs(self.runs, MARGIN, self.known)


def compare(
    records: StudyRecords, edition: Sequence[StudyRecords] = (), metric: str = METRIC, setting: str = SETTING
) -> Comparison:
    """The methods of a study, with the luck that is known of them. edition: studies that may lend that of search.

    Of several lenders the one whose searches scatter most, relative to its mean score: the luck is rather over- than
    underestimated.
    """
    runs = scores(records, metric, setting)
    if _searched_again(runs):
        return Comparison(records.name, runs, statistics.noise(_array(runs)), OWN)
    lent = {lender.name: other for lender in edition if _searched_again(other := scores(lender, metric, setting))}
    if lent and len(runs):
        name = max(lent, key=lambda lender: relative_search(lent[lender]))
        other, scale = lent[name], runs["value"].mean() / lent[name]["value"].mean()
        known = statistics.with_search_variance_from(_array(runs), statistics.noise(_array(other)), scale)
        return Comparison(records.name, runs, known, BORROWED, name)
    alone = statistics.reruns_as_repetitions(runs)
    return Comparison(records.name, alone, statistics.noise(_array(alone)), SEEDS)


@derived_once(lambda study, metric=METRIC, setting=SETTING: (study, metric, setting))
def scores(records: StudyRecords, metric: str = METRIC, setting: str = SETTING) -> pd.DataFrame:
    """The test scores of the trained methods in the paper's order: method, repetition, rerun, value; finite ones."""
    frame = records.scores
    chosen = frame[(frame["metric"] == metric) & (frame["setting"] == setting) & (frame["method"] != PRETRAINED)]
    chosen = chosen[np.isfinite(chosen["value"])][["method", "repetition", "rerun", "value"]]
    order = {name: place for place, name in enumerate(tables.ordered(chosen["method"]))}
    return chosen.sort_values("method", key=lambda names: names.map(order), kind="stable").reset_index(drop=True)


def of_searches(runs: pd.DataFrame) -> pd.Series:
    """The mean score of each search, by method and repetition. runs: `scores`."""
    return runs.groupby(["method", "repetition"])["value"].mean()


def _array(runs: pd.DataFrame) -> np.ndarray:
    return statistics.as_array(runs)[1]


def _searched_again(runs: pd.DataFrame) -> bool:
    """True if some method was searched, and rerun, more than once."""
    return bool((runs.groupby("method")["repetition"].nunique() > 1).any())


def relative_search(runs: pd.DataFrame) -> float:
    """The standard deviation of search, relative to the mean score."""
    return float(np.sqrt(statistics.noise(_array(runs)).search) / runs["value"].mean())


def comparable(edition: Sequence[StudyRecords]) -> list[StudyRecords]:
    """The studies with at least two methods, and two reruns of some of them."""
    return [study for study in edition if len(means(study)) > 1 and _array(scores(study)).size > len(means(study))]


def means(records: StudyRecords) -> pd.Series:
    """The mean of every method's repetitions' means, in the paper's order."""
    runs = scores(records)
    return of_searches(runs).groupby("method").mean()[runs["method"].unique()]


def baseline(methods: Sequence[str]) -> str:
    """The method that others are compared with: the contrastive loss, the oldest; where it is missing, the first."""
    return CLASSICS[0] if CLASSICS[0] in methods else methods[0]


def both_ways(pairs: pd.DataFrame) -> pd.DataFrame:
    """Every pair of `Comparison.pairs`, and then each of them with a and b exchanged."""
    turned = {"difference": -pairs["difference"], "low": -pairs["high"], "high": -pairs["low"]}
    return pd.concat([pairs, pairs.assign(a=pairs["b"], b=pairs["a"], **turned)], ignore_index=True)


def effects(compared: Comparison) -> pd.DataFrame:
    """The lead of each method over the `baseline`: the pairs with it, indexed by method, corrected over all pairs."""
    name, pairs = baseline(compared.methods), both_ways(compared.pairs)
    gaps = pairs[pairs["b"] == name].set_index("a").drop(columns="b").rename_axis("method")
    return gaps.loc[[method for method in compared.methods if method != name]]


def between_searches(runs: pd.DataFrame) -> float:
    """The range of the means of one method's searches, highest minus lowest; the mean over the methods."""
    ends = of_searches(runs).groupby("method")
    return float((ends.max() - ends.min()).mean())


def design(compared: Comparison) -> power.Design:
    """The study as it stands, see `power.of_runs`."""
    return power.of_runs(_array(compared.runs), compared.known)


def visible(compared: Comparison) -> float:
    """The smallest true difference of two methods that a study of this size finds four times of five, all pairs."""
    return design(compared).least(power.ALL)


def same_function(compared: Comparison) -> Estimate | None:
    """N. Softmax minus ProxyNCA, one function searched under two names; None where one of them is missing."""
    names = ("normalized_softmax", "proxy_nca")
    if not set(names) <= set(compared.methods):
        return None
    return statistics.contrast(compared.runs, dict(zip(names, (1, -1), strict=True)), compared.known)


# Over data sets


def datasets(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The methods' scores: a row a data set, a column a method that all have.

    Several studies of one data set are no independent blocks: the first of full budget stands for it, or the first.
    """
    rows = {}
    for study in sorted(edition, key=lambda records: records.meta["budget"]["name"] != "full"):
        rows.setdefault(study.meta["dataset"], means(study))
    return pd.DataFrame(rows).T.dropna(axis="columns")


def mean_ranks(blocks: pd.DataFrame) -> pd.Series:
    """The mean rank of each method over the blocks, 1 for the highest score; ties share their ranks.

    blocks: a row a data set, a column a method, without NaN.
    """
    return blocks.rank(axis=1, ascending=False).mean().sort_values()


def friedman(blocks: pd.DataFrame) -> float:
    """The p of Friedman's test that no method ranks higher than another; NaN below 3 methods and 2 blocks."""
    count, methods = blocks.shape
    return float(stats.friedmanchisquare(*blocks.to_numpy().T).pvalue) if count > 1 and methods > 2 else float("nan")


def critical_difference(blocks: int, methods: int, alpha: float = ALPHA) -> float:
    """The distance from which two mean ranks differ by Nemenyi's test (Demsar 2006, section 3.2.2).

    q / sqrt(2) sqrt(k (k + 1) / (6 N)), q the quantile of the studentised range of k groups.

    >>> round(critical_difference(14, 4), 2)  # the example of the paper
    1.25
    """
    quantile = stats.studentized_range.ppf(1 - alpha, methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * blocks)))


def nemenyi(blocks: pd.DataFrame) -> pd.DataFrame:
    """Nemenyi's p-values of all pairs of methods, as a matrix. blocks: as in `mean_ranks`."""
    from scikit_posthocs import posthoc_nemenyi_friedman

    p = posthoc_nemenyi_friedman(blocks.to_numpy())
    return pd.DataFrame(p.to_numpy(), index=blocks.columns, columns=blocks.columns)


# Other test classes


def scores_by_class(records: StudyRecords) -> tuple[pd.DataFrame, pd.Series] | None:
    """The MAP@R of every test class (a row per class, a column per method, mean over repetitions and reruns), and its
    number of queries; None where the protocol did not record them. Concatenated where there are folds."""
    arrays = records.arrays
    arrays = arrays[(arrays["setting"] == SETTING) & arrays["name"].isin(["classes", "queries", f"class_{METRIC}"])]
    if arrays.empty or "queries" not in set(arrays["name"]):
        return None
    wide = arrays.pivot(index=["method", "repetition", "rerun"], columns="name", values="values")
    classes, queries = (np.asarray(wide[name].iloc[0], int) for name in ("classes", "queries"))
    scores = {
        method: np.mean(np.stack(part[f"class_{METRIC}"].to_list()), axis=0)
        for method, part in wide.groupby(level="method")
    }
    asked = queries > 0
    frame = pd.DataFrame(scores, index=classes)[asked]
    return frame[tables.ordered(frame.columns)], pd.Series(queries, index=classes)[asked]


def scores_on_other_classes(records: StudyRecords) -> pd.DataFrame | None:
    """Scores on other test classes, by method: mean, low, high, behind, behind_low, behind_high, first.

    behind: how far below the highest score here; its interval is that of `behind_best`, from the same resamples of the
    classes; first: the share of resamples in which the method is the highest. None without class scores.
    """
    if (by_class := scores_by_class(records)) is None:
        return None
    frame, queries = by_class
    drawn = statistics.over_classes(frame, queries)
    score = pd.Series(np.average(frame, axis=0, weights=queries), index=frame.columns)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    least, most = behind_best(score.to_numpy(), drawn.to_numpy())
    behind = {"behind": score.max() - score, "behind_low": least, "behind_high": most}
    first = drawn.idxmax(axis=1).value_counts(normalize=True).reindex(score.index, fill_value=0.0)
    return pd.DataFrame({"mean": score, "low": low, "high": high, **behind, "first": first})


def behind_best(scores: np.ndarray, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the most that each method may truly lie behind the best one, whichever that is: both (M,).

    scores: (M,); drawn: (draws, M), the same resamples for all. Comparisons with the best (Hsu 1984) by the bootstrap:
    distances are held against the 95 % quantile of the largest of their standardised errors. The best method here is
    not taken for the best one: the truly best one has a least distance of 0 with 95 %.
    """
    above = scores - scores[:, None]  # (M, M): how far the column's method is above the row's
    errors = drawn[:, None, :] - drawn[:, :, None] - above  # (draws, M, M)
    scale = errors.std(axis=0, ddof=1)
    standardised = np.divide(errors, scale, out=np.zeros_like(errors), where=scale > 0)
    half = np.quantile(standardised.max(axis=2), LEVEL, axis=0)[:, None] * scale  # (M, M), of each row's method
    least = (above - half).max(axis=1)
    candidates = least <= 0  # what the best may be
    return least, (above + half.T)[:, candidates].max(axis=1)


# Cost


def cost_and_accuracy(compared: Comparison, records: StudyRecords) -> pd.DataFrame:
    """Concatenated MAP@R beside cost, by method: mean, low, high, among_best, seconds and steps of a rerun's folds."""
    summary = compared.summary[["mean", "low", "high", "among_best"]]
    return summary.join(tables.cost(records)[["seconds", "steps"]], how="inner")
