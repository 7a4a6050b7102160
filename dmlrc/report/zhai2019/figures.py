"""The figures of Zhai and Wu 2019: drawn from the numbers of `zhai2019`, and Fig. 1 from the paper's protocol."""

import itertools
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from dmlrc.papers import zhai2019
from dmlrc.records import StudyRecords
from dmlrc.report import common, labels, style
from dmlrc.report.style import BLUE, GREEN, GREY, ORANGE, RED
from dmlrc.report.zhai2019.numbers import LAYER_NORM, layer_norm_curves, shares, sizes, training_classes


def architecture() -> Figure:
    """zhai-f1: how an image becomes an embedding, and where the loss and the bits branch off."""
    protocol, method = zhai2019.PROTOCOL, zhai2019.METHODS[0]
    batch = f"{method.classes_per_batch} classes x {method.images_per_class}"
    steps = (
        (f"batch: {batch} images", f"crops of {protocol.crop_size} px", GREY),
        (labels.TRUNK_LABELS[protocol.trunk], "pooled features, 2048", BLUE),
        ("LayerNorm", "no affine parameters", BLUE),
        ("linear layer, no bias", "2048 to d; left out for d = 2048", BLUE),
        ("L2 norm", "the embedding, length 1", BLUE),
    )
    figure, axes = style.canvas(5.6)
    axis = axes[0, 0]
    axis.set(xlim=(0, 10), ylim=(0, 13.2))
    axis.axis("off")
    tops = [12.1 - 1.95 * place for place in range(len(steps))]
    for top, (text, under, colour) in zip(tops, steps, strict=True):
        _box(axis, (5, top), text, under, colour)
    for upper, lower in itertools.pairwise(tops):
        _arrow(axis, (5, upper - 0.65), (5, lower + 0.65))
    ends = (
        ((2.4, 1.3), "training", f"softmax over the classes of\ncosine / {method.settings['temperature']:g}", ORANGE),
        ((7.6, 1.3), "retrieval", "floats by cosine, or the signs:\nd bits by Hamming distance", GREEN),
    )
    for place, text, under, colour in ends:
        _box(axis, place, text, under, colour, width=4.6, height=1.9)
        _arrow(axis, (5, tops[-1] - 0.65), (place[0], place[1] + 0.95))
    return figure


def draw_sizes(
    by_study: Mapping[str, StudyRecords], starts: Mapping[str, pd.Series] = MappingProxyType({})
) -> list[Figure]:
    """zhai-f2: R@1 of floats and bits against the size of the embedding, with 95 % intervals; a figure a study.

    starts: study -> the dashed curve of untrained floats, of `starts.by_dimension`.
    """
    return [_draw_sizes(name, sizes(records), starts.get(name)) for name, records in by_study.items()]


def _draw_sizes(title: str, frame: pd.DataFrame, start: pd.Series | None) -> Figure:
    figure, axes = style.canvas(2.8)
    axis = axes[0, 0]
    for binary, (text, colour, marker) in {False: ("floats", BLUE, "o"), True: ("bits", RED, "s")}.items():
        part = frame[frame["binary"] == binary]
        _line(axis, part["dim"], part, text, colour, marker)
    common.doubling_axis(axis, frame["dim"])
    axis.set(title=title, ylabel="R@1, %", xlabel="size of the embedding, numbers or bits")
    if start is not None:
        style.untrained_curve(axis, start)
    axis.legend()
    return figure


def draw_layer_norm(by_study: Mapping[str, StudyRecords]) -> list[Figure]:
    """zhai-f3: training loss and validation R@1 with and without LayerNorm; a figure a study.

    Bands: 95 % intervals over the seeds. Dotted: ln C, the loss of a classifier of C classes that knows nothing.
    """
    return [_draw_layer_norm(name, records) for name, records in by_study.items()]


def _draw_layer_norm(title: str, records: StudyRecords) -> Figure:
    figure, axes = style.canvas(3.0, 1, 2, sharex=True)
    looks = dict(zip(LAYER_NORM, ((BLUE, "-"), (RED, "--")), strict=True))
    curves = layer_norm_curves(records)
    for axis, (metric, scale) in zip(axes[0], {"loss": 1, "precision_at_1": 100}.items(), strict=True):
        for method, (colour, dashes) in looks.items():
            part = curves[(curves["method"] == method) & (curves["metric"] == metric)].sort_values("step")
            half = part["ci95"].fillna(0.0)
            axis.plot(part["step"], scale * part["mean"], dashes, color=colour, label=LAYER_NORM[method])
            axis.fill_between(
                part["step"], scale * (part["mean"] - half), scale * (part["mean"] + half), color=colour, alpha=0.2
            )
        axis.set_xlabel("step")
    nothing = np.log(training_classes(records, next(iter(LAYER_NORM))))
    axes[0, 0].axhline(nothing, color="black", linestyle=":", label="ln C")
    axes[0, 0].set_title("training loss", fontsize=9)
    axes[0, 1].set_title("R@1, validation classes, %", fontsize=9)
    figure.suptitle(title, fontsize=9)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def draw_shares(by_study: Mapping[str, StudyRecords]) -> list[Figure]:
    """zhai-f4: R@K against the share of the classes, with 95 % intervals; a figure a study."""
    return [_draw_shares(name, shares(records)) for name, records in by_study.items()]


def _draw_shares(title: str, frame: pd.DataFrame) -> Figure:
    figure, axes = style.canvas(2.9)
    looks = {
        "precision_at_1": (BLUE, "o"),
        "recall_at_10": (GREEN, "s"),
        "recall_at_100": (ORANGE, "D"),
    }
    axis = axes[0, 0]
    for metric, (colour, marker) in looks.items():
        part = frame[frame["metric"] == metric]
        if len(part):
            _line(axis, part["share"], part, common.metric_label(metric), colour, marker)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(FixedLocator(sorted(frame["share"].unique())))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    axis.set(title=title, ylabel="R@K, %", xlabel="share of the classes in a step")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _line(axis: Axes, x: pd.Series, part: pd.DataFrame, text: str, colour: str, marker: str) -> None:
    """A line of means in percent with 95 % intervals."""
    axis.errorbar(
        x,
        100 * part["mean"],
        yerr=100 * part["ci95"].fillna(0.0),
        color=colour,
        marker=marker,
        markersize=4.5,
        capsize=2,
        linewidth=1.4,
        label=text,
    )


def _box(
    axis: Axes, centre: tuple[float, float], text: str, under: str, colour: str, width: float = 6.4, height: float = 1.3
) -> None:
    x, y = centre
    corner = (x - width / 2, y - height / 2)
    axis.add_patch(
        FancyBboxPatch(
            corner, width, height, boxstyle="round,pad=0,rounding_size=0.2", facecolor="white", edgecolor=colour
        )
    )
    axis.text(x, y + height / 2 - 0.42, text, ha="center", va="center", fontsize=10, fontweight="bold")
    axis.text(x, y - 0.3, under, ha="center", va="center", fontsize=9)


def _arrow(axis: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axis.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=10, color="black", linewidth=1))
