"""The figures of the findings; see `dmlrc.report.style` for how figures look."""

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dmlrc.report import charts, labels
from dmlrc.report.findings.page import ScorePair
from dmlrc.report.style import BLUE, GREEN, GREY, ORANGE, RED, family_legend, method_rows, method_style

LOOKS = {"precision_at_1": (BLUE, "o"), "r_precision": (GREEN, "s"), "map_at_r": (RED, "D"), "jsd": ("black", "^")}


def number_of_classes_figure(scores: pd.DataFrame) -> Figure:
    """Metrics of one embedding against how many of its classes are scored. scores: `metrics.number_of_classes`."""
    figure, axis = charts.panel(3.0, xlabel="number of classes scored", ylabel="score, %")
    for name, (colour, marker) in LOOKS.items():
        label = labels.METRIC_LABELS.get(name, name.upper())
        axis.plot(scores.index, 100 * scores[name], color=colour, marker=marker, markersize=5, label=label)
    axis.set(xscale="log", ylim=(0, None))
    axis.set_xticks(scores.index, [str(count) for count in scores.index])
    axis.minorticks_off()
    axis.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    return figure


def arcface_pull_figure(pulls: pd.DataFrame) -> Figure:
    """The pull to the own class against the cosine, with and without the clamp. pulls: `training.arcface_pull`."""
    figure, axis = charts.panel(2.8, xlabel="cosine of an image to its own class", ylabel="pull to the class")
    axis.plot(pulls.index, pulls["ours"], color=BLUE, linewidth=2, label="cosines as they are")
    axis.plot(pulls.index, pulls["clamped"], color=RED, linewidth=2, linestyle="--", label="clamped to [0, 1]")
    axis.set_ylim(-0.5, None)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    return figure


def crops_figure(sides: Mapping[str, np.ndarray], smallest: float) -> Figure:
    """Histograms of the sides of random crops. sides: `training.crop_sides`; smallest: the root of the least area."""
    figure, axis = charts.panel(2.8, xlabel="side of the crop, pixels (root of its area)", ylabel="density")
    for (name, values), colour, hatch in zip(sides.items(), (BLUE, ORANGE), ("", "//"), strict=True):
        axis.hist(values, bins=np.arange(40, 260, 9), density=True, color=colour, alpha=0.55, hatch=hatch, label=name)
    axis.axvline(smallest, color="black", linestyle=":")
    axis.set(yticks=[], xlim=(40, 256))
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1, frameon=False)
    return figure


def own_maximum_figure(frame: pd.DataFrame) -> Figure:
    """P@1 at the checkpoint that MAP@R chose, and its own maximum, a row a method. frame: one study's rows of
    `training.own_maximum`."""
    frame = frame.sort_values("at_checkpoint", ascending=False)
    figure, axis = charts.panel(1.3 + 0.21 * len(frame), xlabel="validation P@1, %; arrow: its own maximum")
    for row, run in enumerate(frame.itertuples()):
        look, (before, after) = method_style(run.method), (100 * run.at_checkpoint, 100 * run.own_maximum)
        axis.plot([before, after], [row, row], color=look.colour, linewidth=1.5)
        tip = f"{labels.method_label(run.method)}: {after - before:+.2f} points, own epoch"
        charts.mark(axis, before, row, tip, look.marker, color=look.colour, markersize=5)
        axis.plot(after, row, ">", color=look.colour, markersize=5)
    method_rows(axis, list(frame["method"]))
    family_legend(figure, list(frame["method"]))
    return figure


def wrong_right(pairs: Sequence[ScorePair]) -> Figure:
    """Draw the effect of faults on scores: one row each, from the right score (filled) to the wrong one (hollow)."""
    figure, axis = charts.panel(0.9 + 0.33 * len(pairs), xlabel="%")
    faces = {"right": (BLUE, "as it should be"), "wrong": ("white", "as the fault has it")}
    for row, pair in enumerate(pairs):
        axis.plot([pair.right, pair.wrong], [row, row], color=GREY, linewidth=1.5, zorder=1)
        for which, (face, role) in faces.items():
            tip = f"{pair.what}: {(value := getattr(pair, which)):.1f} %, {role}"
            charts.mark(axis, value, row, tip, "o", color=BLUE, markerfacecolor=face, markersize=6)
    texts = ["\n".join(textwrap.wrap(pair.what, 26)) for pair in pairs]
    axis.set(yticks=range(len(pairs)), ylim=(len(pairs) - 0.5, -0.5), xlim=(-3, 103))
    axis.set_yticklabels(texts, fontsize=8)
    look = {"color": BLUE, "marker": "o", "linestyle": "none"}
    charts.legend(figure, {text: look | {"markerfacecolor": face} for text, (face, _) in faces.items()}, "upper", 2)
    return figure
