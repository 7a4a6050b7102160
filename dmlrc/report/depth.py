"""The same methods, trained to three depths: how far apart they lie at each, and whether their order stays.

The linear embedder alone and the embedder with the last block train on the same images, from the same weights. All of a
network trains on Omniglot only, so that step changes the data set too. Records count as for the hypotheses H7 and H9:
repetitions that all methods have finished, with a search luck that is borrowed, since each method is searched once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dmlrc import records, studies
from dmlrc.records import PRETRAINED
from dmlrc.report import charts, labels, rates, statistics, style, tables, titles
from dmlrc.report.hypotheses.measures import CARS, CUB, EMBEDDER, EVERYTHING, LAST_BLOCK, compare, counted, lenders
from dmlrc.report.results_table import results_table
from dmlrc.report.significance.measures import ALPHA, METRIC, Comparison
from dmlrc.report.significance.page import scored
from dmlrc.report.statistics import Estimate

ALONE, BLOCK, ALL = "linear embedder alone", "last block too", f"everything ({titles.DATASETS['omniglot']})"
DATA = (CUB, CARS)
RANGE, LUCK = "From worst to best", "The same by luck alone"


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

    @property
    def errors(self) -> pd.Series:
        """The standard error of each method's score, wider by what its shorter searches add to the borrowed luck."""
        return self.wider * self.compared.summary["error"]

    @property
    def luck(self) -> float:
        """The range that luck alone would give the methods, were they all equal."""
        return statistics.range_by_luck(self.compared.summary["error"])


def depths(data: str) -> list[Depth]:
    """The depths of which a repetition is finished, from the shallowest, with the methods that all of them have.

    data: the study of frozen features on the same data set, one of `DATA`.
    """
    wanted = {ALONE: EMBEDDER[data], BLOCK: LAST_BLOCK[data], ALL: EVERYTHING}
    found = {label: counted(name) for label, name in wanted.items()}
    compared = {
        label: compare(each, lenders(each.name if label == ALL else data))
        for label, each in found.items()
        if each.records is not None
    }
    common = set.intersection(*(set(each.methods) for each in compared.values())) if compared else set()
    untrained = {
        label: tables.mean_of(tables.accuracy(records.find(each.study)), PRETRAINED, METRIC)
        for label, each in compared.items()
    }
    return [Depth(label, each.only(common), untrained[label]) for label, each in compared.items()]


def shorter(donor: str, trials: int) -> float:
    """How many times as far the searches of a study would scatter, had they ended after so many trials; at least 1.

    By the best validation score of each, with standard deviations pooled over the methods.
    """
    best = tables.best_so_far(records.find(donor))
    wide = best.pivot(index=["method", "repetition"], columns="trial", values="best")
    early, late = wide.iloc[:, [min(trials, wide.shape[1]) - 1, -1]].groupby("method").var().mean()
    return max(1.0, float((early / late) ** 0.5))


def _told_apart(depth: Depth) -> pd.DataFrame:
    """The pairs of methods: a, b, difference, and p by `Depth.errors` and Holm's correction."""
    variance = depth.errors.to_numpy() ** 2
    df = depth.compared.summary["df"].to_numpy()
    *_, p = statistics.pairwise(depth.scores.to_numpy(), variance, df, depth.compared.known.df)
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
    return statistics.turned_by_luck(one.scores, one.errors, scale * other.errors)


# Shown


def order(title: str, depths: Sequence[Depth]) -> Figure:
    """The scores around their mean at each depth, a line a method, with 95 % intervals.

    In percent of that mean, which rises with depth. What is drawn is what a ranking is made of. Everything is trained
    on Omniglot, which has other images, so no line leads there.
    """
    figure, axis = charts.panel(3.8, title)
    found = [each.compared.summary for each in depths]
    shares = pd.DataFrame([100 * (each["mean"] / each["mean"].mean() - 1) for each in found], range(len(found)))
    halves = pd.DataFrame([50 * (each["high"] - each["low"]) / each["mean"].mean() for each in found])
    halves.index = shares.index
    apart = {"markersize": 5, "aside": 0.02 * (np.arange(len(shares.columns)) - len(shares.columns) / 2)}
    joined = [depth.label != ALL for depth in depths]
    ends = charts.curves(axis, shares[joined], halves=halves[joined], **apart)
    if not all(joined):
        alone = ~np.array(joined)
        ends = charts.curves(axis, shares[alone], halves=halves[alone], linestyle="none", **apart)
    axis.set_xticks(range(len(depths)), [depth.label.replace(" ", "\n", 1) for depth in depths])
    axis.set(xlim=(-0.3, len(depths) - 0.7), ylabel="MAP@R, % from the mean")
    axis.grid(visible=False, axis="x")
    style.name_ends(axis, ends)
    style.family_legend(figure, list(ends))
    return figure


def cells(found: Sequence[Depth]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Cells and marks of a row a method, a column a depth, percent; below, what they lie between.

    That is the untrained trunk, and the ranges.
    """
    parts = []
    for depth in found:
        parts.append(scored(depth.compared.summary.rename(index=labels.method_label), depth.label, depth.untrained))
        ranged = depth.compared.range
        below = {
            labels.UNTRAINED: {"mean": depth.untrained},
            RANGE: {"mean": ranged.value, "low": ranged.low, "high": ranged.high},
            LUCK: {"mean": depth.luck},
        }
        parts.append(pd.DataFrame([{"row": row, "column": depth.label, **each} for row, each in below.items()]))
    both = results_table(pd.concat(parts, ignore_index=True))
    return tuple(frame.rename_axis("Method") for frame in both)


def score_numbers(found: Sequence[Depth]) -> pd.DataFrame:
    """The numbers behind `cells`, fractions, a row a depth and method, for the download."""
    columns = ["study", "method", "luck", "mean", "low", "high", "rank_low", "rank_high"]
    parts = {
        depth.label: depth.compared.summary.reset_index().assign(study=depth.compared.study, luck=depth.compared.luck)
        for depth in found
    }
    return pd.concat(parts, names=["depth", None]).droplevel(1)[columns]


# The numbers of the text


def numbers() -> dict[str, float | str]:
    """What the text of the page rests on: the embedder alone and the last block too, a study by its data set."""
    found: dict[str, float | str] = {}
    for data in DATA:
        by_label = {depth.label: depth for depth in depths(data)}
        step = _of_step(by_label[ALONE], by_label[BLOCK])
        found |= {f"{studies.get(data).dataset}.{key}": value for key, value in step.items()}
    for study, rows in rates.of_embedders().groupby("study"):
        shared = rows.loc[rows["rate"] == rows["of_trunk"], "mean"].max()
        found[f"{studies.get(study).dataset}.own_rate"] = 100 * (rows["mean"].max() - shared)
    found["wider"] = max(depth.wider for data in DATA for depth in depths(data) if depth.label in (ALONE, BLOCK))
    return found


def _of_step(alone: Depth, block: Depth) -> dict[str, float | str]:
    """What training the last block does: to the order, in pairs, and to the range and the scores, in points.

    share: of the range in the mean score, percent; without_margin: the range with the block trained, divided by that of
    the embedder alone, of the other losses.
    """
    swapped, pairs = statistics.turned(alone.scores, block.scores)
    lucky, gained = turned_by_luck(alone, block), block.scores - alone.scores
    others = [each.scores.drop("margin", errors="ignore") for each in (alone, block)]
    return {
        "swapped": swapped,
        "pairs": pairs,
        "lucky.low": lucky.low,
        "lucky.high": lucky.high,
        "sure": len(surely_turned(alone, block)),
        "first": ", ".join(each.scores.idxmax() for each in (alone, block)),
        "last": ", ".join(each.scores.idxmin() for each in (alone, block)),
        "leads_alone": ", ".join(str(each.compared.summary["among_best"].sum()) for each in (alone, block)),
        "range.alone": 100 * alone.compared.range.value,
        "range.block": 100 * block.compared.range.value,
        "share.alone": 100 * alone.compared.range.value / alone.scores.mean(),
        "share.block": 100 * block.compared.range.value / block.scores.mean(),
        "without_margin": float(others[1].max() - others[1].min()) / float(others[0].max() - others[0].min()),
        "gain": 100 * gained.mean(),
        "gain.least": 100 * gained.min(),
        "gain.embedder": 100 * (alone.scores.mean() - alone.untrained),
    }
