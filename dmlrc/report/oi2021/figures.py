"""The figures of Oi et al. 2021, drawn from the numbers of `page`."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from dmlrc.records import StudyRecords
from dmlrc.report import style, svg, titles
from dmlrc.report.oi2021.page import MEANS, METRICS, curves, histogram_statistics, histograms, means
from dmlrc.report.style import BLUE, GREY, ORANGE, RED


def _rows(count: int, height: float, columns: int = 2, **settings) -> tuple[Figure, np.ndarray]:
    return style.canvas(0.7 + height * count, count, columns, **settings)


def _bars(axis: Axes, frame: pd.DataFrame, share: bool) -> None:
    for kind, colour in (("negative", BLUE), ("positive", RED)):
        heights = frame[kind] / frame[kind].sum() if share else frame[kind]
        axis.stairs(heights, [*frame["low"], frame["high"].iloc[-1]], color=colour, fill=True, alpha=0.45)
        axis.stairs(heights, [*frame["low"], frame["high"].iloc[-1]], color=colour, linewidth=1)


def _pair_legend(figure: Figure) -> None:
    handles = [Line2D([], [], color=colour, linewidth=5, alpha=0.6) for colour in (RED, BLUE)]
    figure.legend(handles, list(MEANS.values()), loc="outside upper center", ncols=2)


def _absent(axis: Axes) -> None:
    axis.text(0.5, 0.5, "not recorded", transform=axis.transAxes, ha="center", va="center")


def draw_orders(found: pd.DataFrame) -> Figure:
    """The metrics with both class orders, a panel a metric: filled the data set's own order, hollow a random one.

    found: `page.orders_scores`. Grey: the paper's. Bars: 95 % intervals over the seeds.
    """
    places = list(dict.fromkeys(zip(found["where"], found["by"], strict=True)))
    figure, axes = style.canvas(1.1 + 0.3 * len(places), 1, len(METRICS), sharey=True)
    for axis, (metric, text) in zip(axes[0], METRICS.items(), strict=True):
        for line, (where, by) in enumerate(places):
            part = found[(found["metric"] == metric) & (found["where"] == where) & (found["by"] == by)]
            colour = BLUE if by == "ours" else GREY
            axis.plot(part["mean"], [line] * len(part), color=colour, linewidth=0.8)
            for row in part.itertuples():
                face = colour if row.order == "default" else "white"
                half = np.nan_to_num(row.ci95)
                look = {"color": colour, "markerfacecolor": face, "markersize": 5, "capsize": 2}
                bars = axis.errorbar(row.mean, line, xerr=half or None, fmt="o", **look)
                svg.tips(bars[0], f"{titles.in_label(where)}, {row.order} order: {text} {row.mean:.3f}")
        axis.set_title(text, fontsize=9)
        axis.xaxis.set_major_locator(MaxNLocator(3))
    heads = [f"{titles.in_label(where)}{' (paper)' if by == 'the paper' else ''}" for where, by in places]
    axes[0, 0].set_yticks(range(len(places)), heads, fontsize=8)
    axes[0, 0].set_ylim(len(places) - 0.5, -0.5)
    handles = [
        Line2D([], [], color=BLUE, marker="o", linestyle="none", markerfacecolor=face) for face in (BLUE, "white")
    ]
    figure.legend(handles, ["default order", "random order"], loc="outside upper center", ncols=2)
    return figure


def draw_normalisation(by_study: Mapping[str, StudyRecords]) -> Figure:
    """oi-f1: histograms of the inner products after training, as counts and with areas made equal; a row a study."""
    figure, axes = _rows(len(by_study), 2.0, sharex="row")
    for row, (name, records) in zip(axes, by_study.items(), strict=True):
        frame = histograms(records, "test")
        for axis, share, text in zip(row, (False, True), ("pairs", "share of the pairs"), strict=True):
            axis.set_title(f"{name}\n{text}", fontsize=9)
            if frame.empty:
                _absent(axis)
            else:
                _bars(axis, frame, share)
    figure.supxlabel("inner product", fontsize=10)
    _pair_legend(figure)
    return figure


def draw_before_and_after(by_study: Mapping[str, StudyRecords]) -> Figure:
    """oi-f3: histograms of the test images before and after training, areas made equal; a row a study."""
    figure, axes = _rows(len(by_study), 2.0, sharex="row", sharey="row")
    for row, (name, records) in zip(axes, by_study.items(), strict=True):
        for axis, setting, text in zip(row, ("untrained", "test"), ("before", "after"), strict=True):
            frame = histograms(records, setting)
            if frame.empty:
                axis.set_title(f"{name}, {text}", fontsize=9)
                _absent(axis)
                continue
            _bars(axis, frame, share=True)
            for key, colour in (("mean_positive", RED), ("mean_negative", BLUE)):
                axis.axvline(histogram_statistics(frame)[key], color=colour, linestyle="--", linewidth=1)
            axis.set_title(f"{name}\n{text}, JSD {histogram_statistics(frame)['jsd']:.3f}", fontsize=9)
    figure.supxlabel("inner product (dashed: the means)", fontsize=10)
    figure.supylabel("share of the pairs", fontsize=10)
    _pair_legend(figure)
    return figure


LOOKS = {"training": (ORANGE, "-", "o"), "validation": (BLUE, "--", "s")}


def _curve(axis: Axes, frame: pd.DataFrame, metric: str) -> None:
    for images, (colour, dashes, marker) in LOOKS.items():
        part = frame[(frame["images"] == images) & (frame["metric"] == metric)]
        axis.fill_between(part["epoch"], part["low"], part["high"], color=colour, alpha=0.2, linewidth=0)
        axis.plot(
            part["epoch"], part["mean"], color=colour, linestyle=dashes, marker=marker, markersize=3, linewidth=1.3
        )
    if not frame["metric"].eq(metric).any():
        _absent(axis)


def _image_legend(figure: Figure) -> None:
    handles = [
        Line2D([], [], color=colour, linestyle=dashes, marker=marker, markersize=4, label=f"{images} images")
        for images, (colour, dashes, marker) in LOOKS.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)


def _draw_curves(by_study: Mapping[str, StudyRecords], names: Mapping[str, str]) -> Figure:
    """A row of panels a study, a column a metric; bands: lowest to highest seed."""
    figure, axes = _rows(len(by_study), 1.9, len(names))
    for row, (name, records) in zip(axes, by_study.items(), strict=True):
        frame = means(curves(records, list(names)))
        for axis, (metric, text) in zip(row, names.items(), strict=True):
            _curve(axis, frame, metric)
            axis.set_title(f"{name}\n{text}" if axis is row[0] else f"\n{text}", fontsize=9)
            axis.tick_params(labelsize=8)
            axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    figure.supxlabel("epoch", fontsize=10)
    _image_legend(figure)
    return figure


def draw_means(by_study: Mapping[str, StudyRecords]) -> Figure:
    """oi-f2: mean inner product of positive and of negative pairs over the epochs, training and validation images."""
    return _draw_curves(by_study, MEANS)


def draw_metrics(by_study: Mapping[str, StudyRecords]) -> Figure:
    """oi-f4: R@1, MAP@R and JSD over the epochs, on training and validation images."""
    return _draw_curves(by_study, METRICS)
