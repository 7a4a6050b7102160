"""The same methods, trained to three depths: how far apart they lie at each, and whether their order stays.

The linear embedder alone and the embedder with the last block train on the same images, from the same weights. All of a
network trains on Omniglot only, so that step changes the data set too. Records count as for the hypotheses H7 and H9:
repetitions that all methods have finished, with a search luck that is borrowed, since each method is searched once.
"""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from dmlrc import records, studies
from dmlrc.records import PRETRAINED
from dmlrc.report import statistics, tables, titles
from dmlrc.report.hypotheses.measures import (
    CARS,
    CUB,
    EMBEDDER,
    EVERYTHING,
    LAST_BLOCK,
    compare,
    counted,
    lenders,
)
from dmlrc.report.significance.measures import ALPHA, METRIC, SETTING, Comparison
from dmlrc.report.statistics import Estimate

OMNIGLOT = titles.DATASETS["omniglot"]
ALONE, BLOCK, ALL = "linear embedder alone", "last block too", f"everything ({OMNIGLOT})"
DATA = (CUB, CARS)


@dataclass(frozen=True)
class Depth:
    """A study of one depth: its methods' scores, and the concatenated MAP@R of its trunk before training (or NaN)."""

    label: str
    compared: Comparison
    untrained: float

    @property
    def scores(self) -> pd.Series:
        """The score of each method, in the paper's order."""
        return self.compared.summary["mean"]

    @cached_property
    def wider(self) -> float:
        """By how much its searches, being shorter, scatter more than those that lend their luck, see `shorter`."""
        donor = self.compared.donor
        return shorter(donor, studies.get(self.compared.study).budget.trials) if donor else 1.0


def wanted(data: str) -> dict[str, str]:
    """The study of each depth. data: the study of frozen features on the same data set, one of `DATA`."""
    return {ALONE: EMBEDDER[data], BLOCK: LAST_BLOCK[data], ALL: EVERYTHING}


def depths(data: str) -> list[Depth]:
    """The depths of which a repetition is finished, from the shallowest, with the methods that all of them have."""
    found = {label: counted(name) for label, name in wanted(data).items()}
    compared = {
        label: compare(each, lenders(each.name if label == ALL else data))
        for label, each in found.items()
        if each.records is not None
    }
    common = set.intersection(*(set(each.methods) for each in compared.values())) if compared else set()
    return [Depth(label, each.only(common), _untrained(each.study)) for label, each in compared.items()]


def _untrained(study: str) -> float:
    frame = records.find(study).scores
    chosen = (frame["method"] == PRETRAINED) & (frame["metric"] == METRIC) & (frame["setting"] == SETTING)
    return float(frame.loc[chosen, "value"].mean())


def spread(depth: Depth) -> Estimate:
    """How far the methods lie apart: the range of their scores."""
    told = depth.compared.summary
    return statistics.range_of(told["mean"], told["error"] ** 2, depth.compared.known.df)


def luck(depth: Depth) -> float:
    """The range that luck alone would give the methods, were they all equal."""
    return statistics.range_by_luck(depth.compared.summary["error"])


def shorter(donor: str, trials: int) -> float:
    """How many times as far the searches of a study would scatter, had they ended after so many trials; at least 1.

    By the best validation score of each, with standard deviations pooled over the methods.
    """
    best = tables.best_so_far(records.find(donor))
    wide = best.pivot(index=["method", "repetition"], columns="trial", values="best")
    early, late = wide.iloc[:, [min(trials, wide.shape[1]) - 1, -1]].groupby("method").var().mean()
    return max(1.0, float((early / late) ** 0.5))


def errors(depth: Depth) -> pd.Series:
    """The standard error of each method's score, wider by what its shorter searches add to the borrowed luck."""
    return depth.wider * depth.compared.summary["error"]


def _told_apart(depth: Depth) -> pd.DataFrame:
    """The pairs of methods: a, b, difference, and p by `errors` and Holm's correction."""
    variance = errors(depth).to_numpy() ** 2
    _, _, p = statistics.pairwise(depth.scores.to_numpy(), variance, depth.compared.known.df)
    return depth.compared.pairs[["a", "b", "difference"]].assign(holm=statistics.holm(p))


def surely_turned(one: Depth, other: Depth) -> list[tuple[str, str]]:
    """The pairs of methods that each depth tells apart (Holm's correction over its pairs), in opposite orders."""
    both = _told_apart(one).merge(_told_apart(other), on=["a", "b"], suffixes=("_one", "_other"))
    sure = both[["holm_one", "holm_other"]].max(axis=1) < ALPHA
    opposite = both["difference_one"] * both["difference_other"] < 0
    return list(both.loc[sure & opposite, ["a", "b"]].itertuples(index=False, name=None))


def turned_by_luck(one: Depth, other: Depth) -> Estimate:
    """How many pairs luck alone would turn, were the methods as far apart at both depths as they are at the first.

    Scores of different height, as on other data, have other errors: the other's are scaled.
    """
    scale = one.scores.mean() / other.scores.mean()
    return statistics.turned_by_luck(one.scores, errors(one), scale * errors(other))
