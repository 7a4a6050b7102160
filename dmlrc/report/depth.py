"""The same methods, trained to several depths: is training worth it, does the order stay, do the losses lie closer?

Within a series the trunk, its weights, the images and the length of a run are the same. Records count as for the
hypotheses H7, H9 and H11: those that are complete, with a search luck that is borrowed, since each method is searched
once, or elsewhere.
"""

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dmlrc import records, studies
from dmlrc.records import PRETRAINED
from dmlrc.report import charts, labels, rates, statistics, style, tables, titles
from dmlrc.report.hypotheses import measures as hypotheses
from dmlrc.report.hypotheses import whole
from dmlrc.report.hypotheses.measures import CARS, CUB, EMBEDDER, EVERYTHING, KEPT, LAST_BLOCK, NOT_KEPT, OPEN
from dmlrc.report.results_table import results_table, with_foot
from dmlrc.report.significance.measures import ALPHA, METRIC, Comparison, visible
from dmlrc.report.significance.page import scored
from dmlrc.report.statistics import Estimate

ALONE, BLOCK, HALF, WHOLE = "linear embedder alone", "last block too", "half of the network", "whole network"
PRECISION = "precision_at_1"
RANGE, LUCK = "From worst to best", "The same by noise alone"
UNFINISHED = "not finished"
_DEEPEST = {"half": HALF, "whole": WHOLE}
APART = {KEPT: "closer", NOT_KEPT: "farther apart", OPEN: "inconclusive", whole.NO_VERDICT: "noise may make a range"}
"""What a ratio of two relative ranges says, by the verdict that H11 would have."""


@dataclass(frozen=True, eq=False)
class Series:
    """Depths of training of one trunk on the same images: label -> study, from the shallowest.

    data: the study of frozen features on the same data set, which lends the noise of search first.
    """

    title: str
    data: str
    studies: Mapping[str, str]


def _mobilenet(data: str, steps: str, depths: Mapping[str, str]) -> Series:
    names = {label: f"{data.removesuffix('-frozen')}-depths/mobilenetv2-{depth}" for label, depth in depths.items()}
    return Series(f"{titles.title(data)}, MobileNetV2, {steps} steps", data, names)


SQUEEZENETS = {
    data: Series(f"{titles.title(data)}, SqueezeNet", data, {ALONE: EMBEDDER[data], BLOCK: LAST_BLOCK[data]})
    for data in (CUB, CARS)
}
"""Two depths of SqueezeNet, at 2,000 steps, each method searched at each depth."""
MOBILENET = _mobilenet(CARS, "1,000", {ALONE: "embedder", BLOCK: "last-block", HALF: "half", WHOLE: "whole"})
SERIES = (
    *SQUEEZENETS.values(),
    MOBILENET,
    *(_mobilenet(data, "2,000", {ALONE: "embedder-2000", WHOLE: "whole-2000"}) for data in (CARS, CUB)),
)
OMNIGLOT = Series("Omniglot, from scratch", EVERYTHING, {"everything (Omniglot)": EVERYTHING})
"""All of a small network trains, on other images: no step from the other depths leads here."""


@dataclass(frozen=True)
class Depth:
    """A study of one depth: its methods' scores, and those of its trunk before training (or NaN); both concatenated.

    compared, precision: in MAP@R and in P@1. untrained: by metric.
    """

    label: str
    compared: Comparison
    precision: Comparison
    untrained: Mapping[str, float]

    def only(self, methods: Sequence[str]) -> "Depth":
        """The depth with these methods alone."""
        return replace(self, compared=self.compared.only(methods), precision=self.precision.only(methods))

    @property
    def scores(self) -> pd.Series:
        """The score of each method, in the paper's order."""
        return self.compared.summary["mean"]

    @property
    def lifts(self) -> dict[str, float]:
        """The lift of the mean score by training above the untrained trunk, by metric."""
        means = {METRIC: self.scores, PRECISION: self.precision.summary["mean"]}
        return {metric: float(scores.mean() - self.untrained[metric]) for metric, scores in means.items()}

    @cached_property
    def wider(self) -> float:
        """The factor by which its searches, being shorter, scatter more than those that lend their luck, see `shorter`.

        Settings that were found elsewhere have the noise of their lender, as H11 has it.
        """
        donor, trials = self.compared.donor, studies.get(self.compared.study).budget.trials
        return shorter(donor, trials) if donor and trials else 1.0

    @property
    def errors(self) -> pd.Series:
        """The standard error of each method's score, wider by what its shorter searches add to the borrowed luck."""
        return self.wider * self.compared.summary["error"]

    @property
    def luck(self) -> float:
        """The range that noise alone would give the methods, were they all equal."""
        return statistics.expected_range_under_null(self.errors)


def depths(series: Series) -> list[Depth]:
    """The depths of a series that are complete, from the shallowest."""
    complete = {label: whole.complete(name) for label, name in series.studies.items()}
    lenders = tuple(hypotheses.lenders(series.data))
    return [_depth(label, counted, lenders) for label, counted in complete.items() if counted]


@lru_cache(maxsize=64)  # a page asks for the same ones ten times
def _depth(label: str, counted: hypotheses.Counted, lenders: tuple[hypotheses.Counted, ...]) -> Depth:
    compared, precision = (hypotheses.comparison_of(counted, lenders, metric) for metric in (METRIC, PRECISION))
    frame = tables.accuracy(records.find(counted.name))
    untrained = {metric: tables.mean_of(frame, PRETRAINED, metric) for metric in (METRIC, PRECISION)}
    return Depth(label, compared, precision, untrained)


def with_common_methods(*depths: Depth) -> list[Depth]:
    """The depths with the methods that all of them have."""
    common = [name for name in depths[0].scores.index if all(name in depth.scores.index for depth in depths)]
    return [depth.only(common) for depth in depths]


def shorter(donor: str, trials: int) -> float:
    """The factor by which a study's searches would scatter more, had they ended after so many trials; at least 1.

    By the best validation score of each, with standard deviations pooled over the methods.
    """
    wide = tables.best_after(records.find(donor))
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


def lucky_turns(one: Depth, other: Depth) -> Estimate:
    """The pairs that noise alone would turn, were methods as far apart at both depths; errors go with the scores."""
    scale = one.scores.mean() / other.scores.mean()
    return statistics.expected_discordant_pairs(one.scores, one.errors, scale * other.errors)


# From one depth to another


@dataclass(frozen=True)
class Step:
    """The step from one depth of a series to a deeper one, by the methods that both have.

    rho: the rank correlation of their scores. ratio: of the ranges, each relative to its mean, deeper to shallower.
    without: the verdict on the ratio without each method in turn.
    """

    one: Depth
    other: Depth
    rho: Estimate
    ratio: Estimate
    verdict: str
    without: Mapping[str, str]

    @property
    def gain(self) -> float:
        """Points of MAP@R that the mean of the losses gains."""
        return 100 * float(self.other.scores.mean() - self.one.scores.mean())

    @property
    def holding(self) -> int:
        """The number of omissions of a method that leave the verdict as it is."""
        return sum(verdict == self.verdict for verdict in self.without.values())


def step(one: Depth, other: Depth) -> Step:
    """The change from one depth to a deeper one; the verdict on their ranges is by the rule of H11."""
    one, other = with_common_methods(one, other)
    rho = statistics.correlation(one.scores, other.scores, ranks=True, units="methods")
    both = other.compared, one.compared
    finding = whole.judged_ratio("", both, any(map(whole.by_luck, both)))
    without = {name: omission.verdict for name, omission in whole.without_each(both).items()}
    return Step(one, other, rho, finding.estimate, finding.verdict, without)


def newer(depth: Depth, base: str) -> Estimate | None:
    """The gain in P@1 of all losses but contrastive and triplet over one of these; None where that is missing."""
    methods = depth.precision.methods
    others = [name for name in methods if name not in tables.CLASSICS]
    return hypotheses.gain(depth.precision, others, base) if base in methods and others else None


# Shown


def order_figure(title: str, depths: Sequence[Depth]) -> Figure:
    """The scores around their mean at each depth, a line a method, with 95 % intervals.

    In percent of the mean of the methods that all depths have, which rises with depth.
    """
    figure, axis = charts.panel(3.8, title)
    means = [depth.scores.mean() for depth in with_common_methods(*depths)]
    summaries = [depth.compared.summary.div(mean) for depth, mean in zip(depths, means, strict=True)]
    shares = pd.DataFrame([100 * (summary["mean"] - 1) for summary in summaries], range(len(depths)))
    halves = pd.DataFrame([50 * (summary["high"] - summary["low"]) for summary in summaries]).set_axis(shares.index)
    aside = 0.02 * (np.arange(len(shares.columns)) - len(shares.columns) / 2)
    ends = charts.draw_lines(axis, shares, halves=halves, markersize=5, aside=aside)
    axis.set_xticks(range(len(depths)), [textwrap.fill(depth.label, 11) for depth in depths])
    axis.set(xlim=(-0.3, len(depths) - 0.7), ylabel="MAP@R, % from the mean")
    axis.grid(visible=False, axis="x")
    style.name_ends(axis, ends)
    style.family_legend(figure, list(ends))
    return figure


def depth_cells(depths: Sequence[Depth]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Cells and marks, percent: a row a method, a column a depth; below, the untrained trunk, lift and ranges."""
    parts = []
    for depth in depths:
        untrained, ranged = depth.untrained[METRIC], depth.compared.range
        summary, gap = depth.compared.summary.rename(index=labels.method_label), visible(depth.compared)
        parts.append(scored(summary, depth.label, untrained, gap))
        below = {
            labels.UNTRAINED: {"mean": untrained},
            RANGE: {"mean": ranged.value, "low": ranged.low, "high": ranged.high},
            LUCK: {"mean": depth.luck},
        }
        parts.append(pd.DataFrame([{"row": row, "column": depth.label, **values} for row, values in below.items()]))
    both = results_table(with_foot(pd.concat(parts, ignore_index=True)))
    return tuple(frame.rename_axis("Method") for frame in both)


def score_numbers(depths: Sequence[Depth]) -> pd.DataFrame:
    """The numbers behind `depth_cells`, fractions, a row a depth and method, for the download."""
    columns = ["study", "method", "luck", "mean", "low", "high", "rank_low", "rank_high"]
    parts = {
        depth.label: depth.compared.summary.reset_index().assign(study=depth.compared.study, luck=depth.compared.luck)
        for depth in depths
    }
    return pd.concat(parts, names=["depth", None]).droplevel(1)[columns]


def worth(by_series: Mapping[Series, Sequence[Depth]]) -> pd.DataFrame:
    """The gain from training at each depth, complete or not, as cells: means of the losses, the newer ones' lead."""
    rows = []
    for series, known in by_series.items():
        by_label = {depth.label: depth for depth in known}
        for label in series.studies:
            absent = [{"column": "lift of MAP@R", "mean": np.nan, "text": UNFINISHED}]
            cells = _worth(by_label[label]) if label in by_label else absent
            rows += [{"row": (series.title, label)} | cell for cell in cells]
    return results_table(pd.DataFrame(rows))[0].rename_axis(["Images and network", "What trains"])


def _worth(depth: Depth) -> list[dict]:
    gains = {base: newer(depth, base) for base in tables.CLASSICS}
    return [
        {"column": "lift of MAP@R", "mean": depth.lifts[METRIC], "form": "+.2%"},
        {"column": "lift of P@1", "mean": depth.lifts[PRECISION], "form": "+.2%"},
        {"column": "untrained MAP@R", "mean": depth.untrained[METRIC]},
        *(
            {"column": f"newer over {labels.method_label(base)}, %", "mean": gain.value, "half": gain.half}
            | {"form": "+.1%"}
            for base, gain in gains.items()
            if gain
        ),
        {"column": "losses", "text": str(len(depth.scores))},
    ]


def steps(by_series: Mapping[Series, Sequence[Depth]]) -> dict[tuple[str, str], Step]:
    """The steps from the shallowest depth of each series to every deeper one: (series, depth) -> step."""
    return {
        (series.title, deeper.label): step(known[0], deeper)
        for series, known in by_series.items()
        for deeper in known[1:]
        if known[0].label == ALONE
    }


def step_cells(by_place: Mapping[tuple[str, str], Step]) -> pd.DataFrame:
    """`steps` as cells: what the deeper training does to the order of the losses, and to how far they lie apart."""
    rows = {}
    for place, change in by_place.items():
        swapped, pairs = statistics.discordant_pairs(change.one.scores, change.other.scores)
        lucky = lucky_turns(change.one, change.other)
        before, here = (whole.range_over_mean(depth.scores) for depth in (change.one, change.other))
        rows[place] = {
            "pairs that swap": f"{swapped} of {pairs}",
            "by noise": f"{lucky.low:.0f} to {lucky.high:.0f}",
            "rank correlation": labels.percent(change.rho.value, form=".2f", low=change.rho.low, high=change.rho.high),
            "range / mean, embedder alone": f"{100 * before:.0f} %",
            "range / mean here": f"{100 * here:.0f} %",
            "ratio": labels.percent(change.ratio.value, form=".2f", low=change.ratio.low, high=change.ratio.high),
            "the losses lie": APART[change.verdict],
            "the same without one loss": f"{change.holding} of {len(change.without)}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["Images and network", "What trains"])


# The numbers of the text


def to_half() -> Step:
    """The step from MobileNetV2's embedder alone to half of the network."""
    by_label = {depth.label: depth for depth in depths(MOBILENET)}
    return step(by_label[ALONE], by_label[HALF])


def numbers() -> dict[str, float | str]:
    """The numbers behind the page's text, of each step; sure: pairs that two depths tell apart in opposite orders."""
    named = {studies.get(data).dataset: series for data, series in SQUEEZENETS.items()} | {"mobilenet": MOBILENET}
    every = {name: {depth.label: depth for depth in depths(series)} for name, series in named.items()}
    deeper = {name: labelled[BLOCK] for name, labelled in every.items()}
    deeper |= {name: every["mobilenet"][label] for name, label in _DEEPEST.items()}
    values: dict[str, float | str] = {}
    for name, depth in deeper.items():
        alone = every.get(name, every["mobilenet"])[ALONE]
        values |= {f"{name}.{key}": value for key, value in _of_step(alone, depth).items()}
    pairs = (pair for labelled in every.values() for pair in itertools.combinations(labelled.values(), 2))
    values["sure"] = sum(len(surely_turned(*pair)) for pair in pairs)
    values["wider"] = max(depth.wider for name in SQUEEZENETS for depth in depths(SQUEEZENETS[name]))
    values["mobilenet.lost"] = -values["mobilenet.lift_precision.alone"]
    return values | held_back()


def held_back() -> dict[str, float]:
    """The cost of one rate for all where half of a network trains, or all: validation MAP@R, %, by the grids of rates.

    whole.held_back.LOSS: how far a loss lies below its own best at the shared rate. whole.own_rate, half.own_rate: the
    mean over the losses of a grid, each at its own best.
    """
    grids = {name: records.find(f"{MOBILENET.studies[label]}/rates") for name, label in _DEEPEST.items()}
    best = {name: 100 * rates.best_trials(grid) for name, grid in grids.items() if grid}
    values = {f"{name}.own_rate": float(table.max().mean()) for name, table in best.items()}
    if "whole" in best:
        lost = best["whole"].max() - best["whole"].loc[rates.best_rate(best["whole"])]
        values |= {f"whole.held_back.{loss}": points for loss, points in lost.items()}
    return values


def _of_step(alone: Depth, deeper: Depth) -> dict[str, float | str]:
    """Points of MAP@R; shares, P@1 and gains in percent; holding: omissions of a loss that change no verdict."""
    alone, deeper = with_common_methods(alone, deeper)
    swapped, _ = statistics.discordant_pairs(alone.scores, deeper.scores)
    lucky, change = lucky_turns(alone, deeper), step(alone, deeper)
    values = {
        "swapped": swapped,
        "lucky.low": lucky.low,
        "lucky.high": lucky.high,
        "last": ", ".join(depth.scores.idxmin() for depth in (alone, deeper)),
        "ratio": change.ratio.value,
        "apart": APART[change.verdict],
        "holding": change.holding,
        "losses": len(change.without),
        "range": 100 * deeper.compared.range.value,
        "gain": change.gain,
        "contrastive_precision": 100
        * float(deeper.precision.summary["mean"]["contrastive"] - deeper.untrained[PRECISION]),
    }
    for name, depth in {"alone": alone, "deeper": deeper}.items():
        values |= {f"lift.{name}": 100 * depth.lifts[METRIC], f"lift_precision.{name}": 100 * depth.lifts[PRECISION]}
        values |= {f"precision.{name}": 100 * float(depth.precision.summary["mean"].mean())}
        gain = newer(depth, tables.CLASSICS[0])
        values |= {f"newer.{name}": 100 * gain.value}
        values |= {f"newer.{name}.low": 100 * gain.low, f"newer.{name}.high": 100 * gain.high}
    return values
