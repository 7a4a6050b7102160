"""Levers: what each choice of an experiment, or chance, moves a score by, in points of MAP@R on test classes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import editions, labels, statistics, style, svg, tables
from dmlrc.report.decides import measures
from dmlrc.report.decides.measures import CHOSEN, METRIC, TOO_HIGH, AtRates
from dmlrc.report.significance import measures as significance
from dmlrc.report.statistics import Estimate
from dmlrc.studies import experiments

TWO_DRAWS = 2 / np.sqrt(np.pi)
"""How far two values of a normal distribution lie apart on average, in its standard deviations."""
SIZES = ("dim64", "dim512")
"""The levels of Roth et al.'s sweep over embedding sizes that are compared."""
LOSS = "loss: best less worst"
JOINED, SIZE, SPLIT = "four models joined, not one", "512 dimensions, not 64", "random class split, not its own"
TRAINED, RATE = "trained, not untrained", "best learning rate, not one too high"
SEARCH, SEED = "another search, either way", "another seed, either way"


@dataclass(frozen=True)
class Lever:
    """What a choice moves a score by: points, an `Estimate` in points of MAP@R, on average over so many losses."""

    points: Estimate
    losses: int


def levers(records: StudyRecords, at: AtRates | None) -> dict[str, Lever]:
    """The levers that are known of a study, by their names. at: `measures.at_rates` of the study.

    Four models are joined, but where single ones are compared: of embedding sizes and class splits.
    """
    makers: Mapping[str, Callable[[], Lever | None]] = {
        LOSS: lambda: _loss(records),
        JOINED: lambda: _joined(records),
        SIZE: lambda: _size(records),
        SPLIT: lambda: _split(records),
        TRAINED: lambda: _trained(records),
        RATE: lambda: _rate(at),
        SEARCH: lambda: _two_draws(measures.search(records)),
        SEED: lambda: _two_draws(measures.seed(records)),
    }
    found = {name: make() for name, make in makers.items()}
    return {name: lever for name, lever in found.items() if lever is not None and np.isfinite(lever.points.value)}


def _in_points(found: Estimate, losses: int) -> Lever:
    return Lever(found.divided_by(0.01), losses)


def _loss(records: StudyRecords) -> Lever | None:
    compared = significance.compare(records)
    if len(compared.methods) < 2:
        return None
    told = compared.summary
    return _in_points(statistics.range_of(told["mean"], told["error"] ** 2, compared.known.df), len(told))


def _two_draws(part: measures.Part | None) -> Lever | None:
    """How far two of its levels lie apart on average, for one loss."""
    return part and _in_points(part.against.divided_by(1 / (part.mean * TWO_DRAWS)), part.methods)


def _joined(records: StudyRecords) -> Lever | None:
    keys = ["method", "repetition", "rerun"]
    both = [significance.scores(records, METRIC, each).set_index(keys)["value"] for each in tables.SETTINGS]
    gains = (both[0] - both[1]).dropna().reset_index()
    if gains.empty:
        return None
    again = records.searches > 1
    return _mean(gains if again else statistics.each_alone(gains))


def _mean(runs: pd.DataFrame, known: statistics.Noise | None = None) -> Lever:
    """The mean over the methods of what `statistics.as_array` takes."""
    methods = list(dict.fromkeys(runs["method"]))
    return _in_points(statistics.contrast(runs, dict.fromkeys(methods, 1 / len(methods)), known), len(methods))


def _size(records: StudyRecords) -> Lever | None:
    sweep = editions.experiment_of(records.name, "roth2020-dims")
    if sweep is None:
        return None
    scores = sweep.scores[(sweep.scores["metric"] == METRIC) & (sweep.scores["setting"] == "separated")]
    means = scores.pivot_table(index="row", columns="level", values="value").reindex(columns=list(SIZES)).dropna()
    return _in_points(statistics.mean(means[SIZES[1]] - means[SIZES[0]], "losses"), len(means))


def _split(records: StudyRecords) -> Lever | None:
    """Random orders of the classes less the data set's own one; the interval is that of the orders' mean."""
    random, own = [], []
    for found in experiments.class_orders(records.name).values():
        kind = random if found.meta["class_order"] == "random" else own
        kind.append(significance.scores(found, METRIC, "separated")["value"].mean())
    if not own or len(random) < 2:
        return None
    return _in_points(statistics.mean(np.array(random) - own[0], "class orders"), 1)


def _trained(records: StudyRecords) -> Lever | None:
    untrained = tables.mean_of(tables.accuracy(records), PRETRAINED, METRIC)
    compared = significance.compare(records)
    if not compared.methods:
        return None
    mean = _mean(compared.runs, compared.known)
    points = mean.points
    return Lever(Estimate.around(points.value - 100 * untrained, points.half, points.n, points.units), mean.losses)


def _rate(at: AtRates | None) -> Lever | None:
    """What the chosen rate gives the losses over one too high, each with searches of its own."""
    if at is None or TOO_HIGH not in at.made:
        return None
    methods = at.beside(TOO_HIGH).index
    here, there = (
        _mean(each.only(methods).runs, each.known).points for each in (at.compared[CHOSEN], at.compared[TOO_HIGH])
    )
    half = float(np.hypot(here.half, there.half))
    return Lever(Estimate.around(here.value - there.value, half, here.n, here.units), len(methods))


def cells(found: Mapping[str, Mapping[str, Lever]]) -> pd.DataFrame:
    """Title -> `levers` as cells: a row a lever, a column a data set; points with their 95 % intervals, and losses."""
    rows = {}
    for name in order(found):
        own = {title: each[name] for title, each in found.items() if name in each}
        texts = {title: _text(lever.points) for title, lever in own.items()}
        rows[name] = texts | {"losses": labels.span((lever.losses for lever in own.values()), str)}
    columns = [*found, "losses"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).fillna("–").rename_axis("Points of MAP@R")


def _text(points: Estimate) -> str:
    interval = "" if np.isnan(points.low) else f" [{points.low:.2f}, {points.high:.2f}]"
    return f"{points.value:.2f}{interval}"


def order(found: Mapping[str, Mapping[str, Lever]]) -> list[str]:
    """The levers of all data sets, the strongest on average first."""
    own = {title: {name: lever.points.value for name, lever in each.items()} for title, each in found.items()}
    values = pd.DataFrame(own)
    return list(values.mean(axis=1).sort_values(ascending=False, kind="stable").index)


def figure(found: Mapping[str, Mapping[str, Lever]]) -> Figure:
    """A row a lever, a mark a data set, with 95 % intervals; the row of the loss is shaded. Title -> `levers`."""
    names = order(found)
    drawing, axes = style.canvas(1.2 + 0.4 * len(names))
    axis, handles = axes[0, 0], []
    for number, (title, own) in enumerate(found.items()):
        look = {"marker": "osD^v"[number % 5], "color": f"C{number}"}
        for name, lever in own.items():
            place, points = names.index(name) + 0.2 * (number - (len(found) - 1) / 2), lever.points
            axis.plot([points.low, points.high], [place, place], color=look["color"], linewidth=1.2)
            [dot] = axis.plot(points.value, place, markersize=6, linestyle="none", **look)
            svg.tips(dot, f"{title}, {name}: {_text(points)} points")
        handles.append(Line2D([], [], linestyle="none", label=title, **look))
    if LOSS in names:
        axis.axhspan(names.index(LOSS) - 0.5, names.index(LOSS) + 0.5, color="0.88", zorder=0)
    axis.axvline(0, color=style.GREY, linewidth=1)
    axis.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5), xlabel="points of MAP@R")
    axis.grid(visible=False, axis="y")
    drawing.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return drawing
