"""A method's page, drawn: its place in every study, and all its trials."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dmlrc.methods import Method
from dmlrc.report import charts, labels, svg
from dmlrc.report.method.notes import SHOWN
from dmlrc.report.style import GREY, GROUPS, RED, canvas, escape_math, method_style, untrained_line


def gains_figure(gains: pd.DataFrame, method: Method) -> Figure:
    """Draw each method's gain over the untrained trunk (`page.gains_over_untrained`), this one's with intervals."""
    gains = gains.assign(tip=gains["method"].map(lambda name: f"{labels.method_label(name, SHOWN)}: "))
    gains["tip"] += gains["mean"].map(lambda gain: f"{100 * gain:+.2f} points")
    studies = list(dict.fromkeys(gains["study"]))
    figure, axis = charts.panel(0.7 + 0.45 * len(studies), xlabel="MAP@R over the untrained trunk, points")
    for row, study in enumerate(studies):
        part = gains[gains["study"] == study].set_index("method")
        others, own, look = part.drop(index=method.name), part.loc[method.name], method_style(method.name)
        dots = {"color": GREY, "alpha": 0.45, "linewidths": 0}
        points = axis.scatter(100 * others["mean"], np.full(len(others), row), s=22, **dots)
        svg.tips(points, list(others["tip"]))
        for half, width, alpha in ((own["seed_ci95"], 5, 0.35), (own["ci95"], 2, 1.0)):
            if half == half:
                reach = [100 * (own["mean"] - half), 100 * (own["mean"] + half)]
                axis.plot(reach, [row, row], color=look.colour, linewidth=width, alpha=alpha, solid_capstyle="butt")
        point = axis.scatter(100 * own["mean"], row, s=46, color=look.colour, marker=look.marker, zorder=3)
        svg.tips(point, [own["tip"]])
    untrained_line(axis, 0.0)
    axis.set(yticks=range(len(studies)), yticklabels=studies, ylim=(len(studies) - 0.5, -0.5))
    return figure


def hyperparameters_figure(tried: pd.DataFrame, method: Method) -> Figure:
    """Draw each trial's share of its study's best value against each hyperparameter, the winners of searches ringed."""
    tried = tried.assign(share=100 * tried["value"] / tried.groupby("study")["value"].transform("max"))
    names, own = list(method.space), method_style(method.name).colour
    ring = RED if own == "black" else own
    columns = min(len(names), 2)
    rows = -(-len(names) // columns)
    figure, axes = canvas(0.6 + 1.7 * rows, rows, columns, sharey=True)
    for axis, name in zip(axes.flat, names, strict=False):
        for look, (study, part) in zip(GROUPS, tried.groupby("study", sort=False), strict=False):
            marks = {"marker": look.marker, "color": look.colour}
            axis.scatter(part[name], part["share"], s=9, alpha=0.6, linewidths=0, label=study, **marks)
            best = part[part["best"]]
            axis.scatter(best[name], best["share"], s=45, facecolors="none", edgecolors=ring, linewidths=1.5, zorder=3)
        if method.space[name].log:
            axis.set_xscale("log")
        axis.set_xlabel(escape_math(labels.parameter(name)))
    for axis in axes.flat[len(names) :]:
        axis.remove()
    for axis in axes[:, 0]:
        axis.set_ylabel("validation MAP@R,\n% of the best trial")
    handles, texts = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside upper center", ncols=len(texts), markerscale=2)
    return figure
