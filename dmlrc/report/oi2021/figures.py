"""The figures of Oi et al. 2021, drawn from the numbers of `page`."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from dmlrc.records import StudyRecords
from dmlrc.report import style, svg, titles
from dmlrc.report.oi2021.page import (
    ACCURACIES,
    MEANS,
    METRICS,
    curves,
    histogram_statistics,
    histograms,
    means,
    number,
)
from dmlrc.report.style import BLUE, GREY, ORANGE, RED


def _bars(axis: Axes, frame: pd.DataFrame, share: bool) -> None:
    for kind, colour in (("negative", BLUE), ("positive", RED)):
        heights = frame[kind] / frame[kind].sum() if share else frame[kind]
        axis.stairs(heights, [*frame["low"], frame["high"].iloc[-1]], color=colour, fill=True, alpha=0.45)
        axis.stairs(heights, [*frame["low"], frame["high"].iloc[-1]], color=colour, linewidth=1)


def _pair_legend(figure: Figure) -> None:
    handles = [Line2D([], [], color=colour, linewidth=5, alpha=0.6) for colour in (RED, BLUE)]
    figure.legend(handles, list(MEANS.values()), loc="outside lower center", ncols=2)


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
                svg.tips(
                    bars[0], f"{titles.in_label(where)}, {row.order} order: {text} {number(row.mean, np.nan, metric)}"
                )
        _in_percent(axis, axis.xaxis, metric, text)
        axis.xaxis.set_major_locator(MaxNLocator(3))
    heads = [f"{titles.in_label(where)}{' (paper)' if by == 'the paper' else ''}" for where, by in places]
    axes[0, 0].set_yticks(range(len(places)), heads, fontsize=8)
    axes[0, 0].set_ylim(len(places) - 0.5, -0.5)
    _order_legend(figure)
    return figure


def _in_percent(axis: Axes, of: Axis, metric: str, text: str) -> None:
    """Title a panel by its metric, and count accuracies in percent along one of its axes."""
    if metric in ACCURACIES:
        of.set_major_formatter(PercentFormatter(1, symbol=""))
        text += ", %"
    axis.set_title(text, fontsize=9)


def _order_legend(figure: Figure) -> None:
    handles = [
        Line2D([], [], color=BLUE, marker="o", linestyle="none", markerfacecolor=face) for face in (BLUE, "none")
    ]
    figure.legend(handles, ["default order", "random order"], loc="outside lower center", ncols=2)


def draw_every_order(found: pd.DataFrame) -> Figure:
    """Accuracy with each class order, a panel a metric: filled the data set's own order, hollow the random ones.

    found: `page.every_order`. Blue: after training, mean over the seeds. Grey: the untrained trunk.
    """
    places = list(dict.fromkeys(zip(found["study"], found["what"], strict=True)))
    figure, axes = style.canvas(1.2 + 0.3 * len(places), 1, len(ACCURACIES), sharey=True)
    for axis, metric in zip(axes[0], ACCURACIES, strict=True):
        for line, (study, what) in enumerate(places):
            part = found[(found["metric"] == metric) & (found["study"] == study) & (found["what"] == what)]
            for row in part.sort_values("order", ascending=False).itertuples():  # the default one on top
                colour = BLUE if what == "trained" else GREY
                face = colour if row.order == "default" else "none"
                (mark,) = axis.plot(100 * row.score, line, "o", color=colour, markerfacecolor=face, markersize=5)
                svg.tips(mark, f"{titles.in_label(study)}, {what}, {row.order}: {100 * row.score:.1f} %")
        axis.set_title(f"{METRICS[metric]}, %", fontsize=9)
    axes[0, 0].set_yticks(
        range(len(places)), [f"{titles.in_label(study)}, {what}" for study, what in places], fontsize=8
    )
    axes[0, 0].set_ylim(len(places) - 0.5, -0.5)
    _order_legend(figure)
    return figure


def draw_normalisation(by_study: Mapping[str, StudyRecords]) -> list[Figure]:
    """oi-f1: histograms of the inner products after training, as counts and with areas made equal; a figure a study."""
    return [_draw_normalisation(name, histograms(records, "test")) for name, records in by_study.items()]


def _draw_normalisation(title: str, frame: pd.DataFrame) -> Figure:
    figure, axes = style.canvas(2.7, 1, 2, sharex=True)
    for axis, share, text in zip(axes[0], (False, True), ("pairs", "share of the pairs"), strict=True):
        axis.set_title(text, fontsize=9)
        axis.set_xlabel("inner product")
        if frame.empty:
            _absent(axis)
        else:
            _bars(axis, frame, share)
    figure.suptitle(title, fontsize=9)
    _pair_legend(figure)
    return figure


def draw_before_and_after(by_study: Mapping[str, StudyRecords]) -> list[Figure]:
    """oi-f3: histograms of the test images before and after training, areas made equal; a figure a study."""
    return [_draw_before_and_after(name, records) for name, records in by_study.items()]


def _draw_before_and_after(title: str, records: StudyRecords) -> Figure:
    figure, axes = style.canvas(2.7, 1, 2, sharex=True, sharey=True)
    for axis, setting, text in zip(axes[0], ("untrained", "test"), ("before", "after"), strict=True):
        axis.set_xlabel("inner product")
        frame = histograms(records, setting)
        if frame.empty:
            axis.set_title(text, fontsize=9)
            _absent(axis)
            continue
        _bars(axis, frame, share=True)
        for key, colour in (("mean_positive", RED), ("mean_negative", BLUE)):
            axis.axvline(histogram_statistics(frame)[key], color=colour, linestyle="--", linewidth=1)
        axis.set_title(f"{text}, JSD {histogram_statistics(frame)['jsd']:.3f}", fontsize=9)
    axes[0, 0].set_ylabel("share of the pairs")
    figure.suptitle(title, fontsize=9)
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
    figure.legend(handles=handles, loc="outside lower center", ncols=2)


def _draw_curves(title: str, frame: pd.DataFrame, names: Mapping[str, str]) -> Figure:
    """A panel a metric; bands: lowest to highest seed. frame: `means`."""
    figure, axes = style.canvas(2.6, 1, len(names))
    for axis, (metric, text) in zip(axes[0], names.items(), strict=True):
        _curve(axis, frame, metric)
        _in_percent(axis, axis.yaxis, metric, text)
        axis.set_xlabel("epoch")
        axis.tick_params(labelsize=8)
        axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    figure.suptitle(title, fontsize=9)
    _image_legend(figure)
    return figure


def draw_means(by_study: Mapping[str, StudyRecords]) -> list[Figure]:
    """oi-f2: mean inner product of positive and of negative pairs over the epochs, training and validation images."""
    return [_draw_curves(name, means(curves(records, list(MEANS))), MEANS) for name, records in by_study.items()]


def draw_metrics(by_study: Mapping[str, StudyRecords]) -> list[Figure]:
    """oi-f4: R@1, MAP@R and JSD over the epochs, on training and validation images."""
    return [_draw_curves(name, means(curves(records, list(METRICS))), METRICS) for name, records in by_study.items()]
