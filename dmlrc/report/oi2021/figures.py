"""The figures of Oi et al. 2021, drawn from the numbers of `page`."""

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from dmlrc.records import StudyRecords
from dmlrc.report import charts, common, labels, style, svg, titles
from dmlrc.report.oi2021 import page
from dmlrc.report.oi2021.page import ACCURACIES, MEANS, METRICS, form, histogram_statistics, histograms
from dmlrc.report.style import BLUE, GREY, ORANGE, RED

PAIRS = {"positive": RED, "negative": BLUE}
LOOKS = {
    "training": {"color": ORANGE, "linestyle": "-", "marker": "o"},
    "validation": {"color": BLUE, "linestyle": "--", "marker": "s"},
}


def random_orders_figure(scores: pd.DataFrame) -> Figure:
    """`page.orders_scores`, a panel a metric: filled the data set's own order, hollow a random; grey: the paper's."""
    figure, axes, places = _rows_of_orders(scores, ["where", "by"], METRICS)
    for axis, (metric, text) in zip(axes, METRICS.items(), strict=True):
        for line, (where, by) in enumerate(places):
            part = scores[(scores["metric"] == metric) & (scores["where"] == where) & (scores["by"] == by)]
            colour = BLUE if by == "ours" else GREY
            axis.plot(part["mean"], [line] * len(part), color=colour, linewidth=0.8)
            for row in part.itertuples():
                face, half = colour if row.order == "default" else "white", np.nan_to_num(row.ci95)
                look = {"color": colour, "markerfacecolor": face, "markersize": 5, "capsize": 2}
                bars = axis.errorbar(row.mean, line, xerr=half or None, fmt="o", **look)
                score = labels.number(row.mean, form=form(metric))
                svg.tips(bars[0], f"{titles.in_label(where)}, {row.order} order: {text} {score}")
        _in_percent(axis, axis.xaxis, metric, text)
        axis.xaxis.set_major_locator(MaxNLocator(3))
    heads = [f"{titles.in_label(where)}{' (paper)' if by == 'the paper' else ''}" for where, by in places]
    axes[0].set_yticks(range(len(places)), heads, fontsize=8)
    return figure


def draw_every_order(scores: pd.DataFrame) -> Figure:
    """Accuracy of `page.every_order`: filled the data set's own order, hollow the random ones; grey: untrained."""
    figure, axes, places = _rows_of_orders(scores, ["study", "what"], ACCURACIES)
    for axis, metric in zip(axes, ACCURACIES, strict=True):
        for line, (study, what) in enumerate(places):
            part = scores[(scores["metric"] == metric) & (scores["study"] == study) & (scores["what"] == what)]
            colour = BLUE if what == "trained" else GREY
            for row in part.sort_values("order", ascending=False).itertuples():  # the default one on top
                face = colour if row.order == "default" else "none"
                tip = f"{titles.in_label(study)}, {what}, {row.order}: {100 * row.score:.1f} %"
                charts.mark(axis, 100 * row.score, line, tip, "o", color=colour, markerfacecolor=face, markersize=5)
        axis.set_title(f"{METRICS[metric]}, %", fontsize=9)
    heads = [f"{titles.in_label(study)}, {what}" for study, what in places]
    axes[0].set_yticks(range(len(places)), heads, fontsize=8)
    return figure


def _rows_of_orders(
    scores: pd.DataFrame, keys: list[str], metrics: Collection[str]
) -> tuple[Figure, np.ndarray, list[tuple[str, str]]]:
    """A figure with a panel a metric, its legend, and its rows, the first on top."""
    places = list(dict.fromkeys(scores[keys].itertuples(index=False, name=None)))
    figure, axes = style.canvas(1.15 + 0.3 * len(places), 1, len(metrics), sharey=True)
    axes[0, 0].set_ylim(len(places) - 0.5, -0.5)
    faces, dot = {"default order": BLUE, "random order": "none"}, {"color": BLUE, "marker": "o", "linestyle": "none"}
    charts.legend(figure, {text: {**dot, "markerfacecolor": face} for text, face in faces.items()}, ncols=2)
    return figure, axes[0], places


def _in_percent(axis: Axes, of: Axis, metric: str, text: str) -> None:
    """Title a panel by its metric, and count accuracies in percent along one of its axes."""
    if metric in ACCURACIES:
        of.set_major_formatter(PercentFormatter(1, symbol=""))
        text += ", %"
    axis.set_title(text, fontsize=9)


def draw_normalisation(title: str, records: StudyRecords) -> Figure:
    """oi-f1: histograms of the inner products after training, as counts and with areas made equal; a figure a study."""
    figure, axes = _pair_canvas(title)
    for axis, share, text in zip(axes, (False, True), ("pairs", "share of the pairs"), strict=True):
        axis.set_title(text, fontsize=9)
        _bars(axis, histograms(records, "test"), share)
    return figure


def draw_before_and_after(title: str, records: StudyRecords) -> Figure:
    """oi-f3: histograms of the test images before and after training, areas made equal; a figure a study."""
    figure, axes = _pair_canvas(title, sharey=True)
    for axis, setting, text in zip(axes, ("untrained", "test"), ("before", "after"), strict=True):
        frame = histograms(records, setting)
        _bars(axis, frame, share=True)
        if len(frame):
            statistics = histogram_statistics(frame)
            for kind, colour in PAIRS.items():
                axis.axvline(statistics[f"mean_{kind}"], color=colour, linestyle="--", linewidth=1)
            text += f", JSD {statistics['jsd']:.3f}"
        axis.set_title(text, fontsize=9)
    axes[0].set_ylabel("share of the pairs")
    return figure


def _pair_canvas(title: str, **settings) -> tuple[Figure, np.ndarray]:
    figure, axes = style.canvas(2.7, 1, 2, sharex=True, **settings)
    for axis in axes[0]:
        axis.set_xlabel("inner product")
    figure.suptitle(title, fontsize=9)
    colours = zip(MEANS.values(), PAIRS.values(), strict=True)
    charts.legend(figure, {text: {"color": colour, "linewidth": 5, "alpha": 0.6} for text, colour in colours}, ncols=2)
    return figure, axes[0]


def _bars(axis: Axes, frame: pd.DataFrame, share: bool) -> None:
    """Both histograms of `page.histograms`; share: with areas made equal."""
    if frame.empty:
        return _absent(axis)
    edges = [*frame["low"], frame["high"].iloc[-1]]
    for kind, colour in reversed(PAIRS.items()):
        heights = frame[kind] / frame[kind].sum() if share else frame[kind]
        axis.stairs(heights, edges, color=colour, fill=True, alpha=0.45)
        axis.stairs(heights, edges, color=colour, linewidth=1)


def _absent(axis: Axes) -> None:
    axis.text(0.5, 0.5, "not recorded", transform=axis.transAxes, ha="center", va="center")


def draw_curves(title: str, records: StudyRecords, names: Mapping[str, str]) -> Figure:
    """oi-f2 and f4: metrics (names: metric -> title) over the epochs, a panel each; bands: lowest to highest seed."""
    frame = page.seed_means(page.metric_curves(records, list(names)))
    figure, axes = style.canvas(2.6, 1, len(names))
    for axis, (metric, text) in zip(axes[0], names.items(), strict=True):
        for images, look in LOOKS.items():
            part = frame[(frame["images"] == images) & (frame["metric"] == metric)]
            common.band(axis, part["epoch"], part["mean"], part["low"], part["high"], **look, markersize=3)
        if not frame["metric"].eq(metric).any():
            _absent(axis)
        _in_percent(axis, axis.yaxis, metric, text)
        axis.set_xlabel("epoch")
        axis.tick_params(labelsize=8)
        axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    figure.suptitle(title, fontsize=9)
    looks = {f"{images} images": {**look, "markersize": 4} for images, look in LOOKS.items()}
    charts.legend(figure, looks, ncols=2)
    return figure
