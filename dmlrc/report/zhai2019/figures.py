"""The figures of Zhai and Wu 2019: drawn from the numbers of `page`, and Fig. 1 from the paper's protocol."""

import itertools
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from dmlrc.papers import zhai2019
from dmlrc.records import StudyRecords
from dmlrc.report import charts, common, style, titles
from dmlrc.report.common import R1
from dmlrc.report.style import BLUE, GREEN, GREY, ORANGE, RED
from dmlrc.report.zhai2019 import page

LINE = {"markersize": 4.5, "capsize": 2, "linewidth": 1.4}


def architecture() -> Figure:
    """zhai-f1: how an image becomes an embedding, and where the loss and the bits branch off."""
    protocol, method = zhai2019.PROTOCOL, zhai2019.METHODS[0]
    batch = f"{method.classes_per_batch} classes x {method.images_per_class}"
    steps = (
        (f"batch: {batch} images", f"crops of {protocol.crop_size} px", GREY),
        (titles.TRUNKS[protocol.trunk], "pooled features, 2048", BLUE),
        ("LayerNorm", "no affine parameters", BLUE),
        ("linear layer, no bias", "2048 to d; left out for d = 2048", BLUE),
        ("L2 norm", "the embedding, length 1", BLUE),
    )
    figure, axis = charts.panel(5.6)
    axis.set(xlim=(0, 10), ylim=(0, 13.2))
    axis.axis("off")
    tops = [12.1 - 1.95 * place for place in range(len(steps))]
    for top, (text, under, colour) in zip(tops, steps, strict=True):
        charts.box(axis, (5, top), text, under, colour)
    for upper, lower in itertools.pairwise(tops):
        charts.arrow(axis, (5, upper - 0.65), (5, lower + 0.65))
    ends = (
        ((2.4, 1.3), "training", f"softmax over the classes of\ncosine / {method.settings['temperature']:g}", ORANGE),
        ((7.6, 1.3), "retrieval", "floats by cosine, or the signs:\nd bits by Hamming distance", GREEN),
    )
    for place, text, under, colour in ends:
        charts.box(axis, place, text, under, colour, width=4.6, height=1.9)
        charts.arrow(axis, (5, tops[-1] - 0.65), (place[0], place[1] + 0.95))
    return figure


def draw_sizes(title: str, records: StudyRecords, starts: Mapping[str, pd.Series] = MappingProxyType({})) -> Figure:
    """zhai-f2: R@1 of floats and bits against the size of the embedding; starts: as `starts.curves_by_dimension`."""
    frame = page.sizes(records)
    figure, axis = charts.panel(2.8, ylabel="R@1, %", xlabel="size of the embedding, numbers or bits")
    axis.set_title(title)
    for text, (colour, marker) in {"floats": (BLUE, "o"), "bits": (RED, "s")}.items():
        part = frame[frame["head"] == text]
        common.errorbars(axis, part["dim"], part, color=colour, marker=marker, label=text, **LINE)
    common.doubling_axis(axis, frame["dim"])
    if title in starts:
        style.untrained_curve(axis, starts[title])
    axis.legend()
    return figure


def draw_shares(title: str, records: StudyRecords) -> Figure:
    """zhai-f4: R@K against the share of the classes, with 95 % intervals; a figure a study."""
    looks = {R1: (BLUE, "o"), "recall_at_10": (GREEN, "s"), "recall_at_100": (ORANGE, "D")}
    figure, axis = charts.panel(2.9, ylabel="R@K, %", xlabel="share of the classes in a step")
    axis.set_title(title)
    for metric, (colour, marker) in looks.items():
        if len(part := common.sweep(records, metric)):
            text = common.metric_label(metric)
            common.errorbars(axis, part["number"], part, color=colour, marker=marker, label=text, **LINE)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(FixedLocator(common.sweep(records)["number"]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def draw_layer_norm(title: str, records: StudyRecords) -> Figure:
    """zhai-f3: training loss and validation R@1 with and without LayerNorm, with 95 % intervals; a figure a study."""
    figure, axes = style.canvas(3.0, 1, 2, sharex=True)
    curves = page.layer_norm_curves(records).sort_values("step").fillna({"ci95": 0.0})
    for axis, (metric, scale, most) in zip(axes[0], (("loss", 1, None), (R1, 100, 1)), strict=True):
        for (method, text), (colour, dashes) in zip(page.LAYER_NORM.items(), ((BLUE, "-"), (RED, "--")), strict=True):
            part = curves[(curves["method"] == method) & (curves["metric"] == metric)]
            low, high = (scale * (part["mean"] + sign * part["ci95"]).clip(0, most) for sign in (-1, 1))
            common.band(axis, part["step"], scale * part["mean"], low, high, color=colour, linestyle=dashes, label=text)
        axis.set_xlabel("step")
    nothing = np.log(page.training_classes(records, next(iter(page.LAYER_NORM))))
    axes[0, 0].axhline(nothing, color="black", linestyle=":", label="ln C")
    axes[0, 0].set_title("training loss", fontsize=9)
    axes[0, 1].set_title("R@1, validation classes, %", fontsize=9)
    figure.suptitle(title, fontsize=9)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
