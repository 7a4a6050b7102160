"""Which methods differ, drawn: effect sizes, ranks and what joins them, other test classes, accuracy beside cost."""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from dmlrc.report import labels, style, svg, tables
from dmlrc.report.significance.measures import ALPHA, Comparison, baseline, effects, nemenyi, ranks

VERDICTS = {"the row is higher": style.BLUE, "equal within a point": style.GREEN, "cannot be told": "#b5b5b5"}
"""What a cell of `pairs_figure` says, and its colour."""


def pairs_figure(compared: Sequence[Comparison]) -> Figure:
    """All pairs of methods, a square each, the best mean on top: whether the two differ. A panel a study."""
    told = {each.study: list(each.summary["mean"].sort_values(ascending=False).index) for each in compared}
    figure, axes = style.canvas(0.5 + sum(1.1 + 0.2 * len(names) for names in told.values()), len(told))
    for axis, each in zip(axes[:, 0], compared, strict=True):
        names = told[each.study]
        for pair in each.pairs.itertuples():
            swapped = names.index(pair.a) > names.index(pair.b)
            row, column = (names.index(name) for name in ((pair.b, pair.a) if swapped else (pair.a, pair.b)))
            verdict = "the row is higher" if pair.holm < ALPHA else "equal within a point" if pair.equal else None
            square = Rectangle((column - 0.42, row - 0.42), 0.84, 0.84, color=VERDICTS[verdict or "cannot be told"])
            svg.tips(square, _pair_tip(pair, verdict or "cannot be told", swapped))
            axis.add_patch(square)
        style.method_rows(axis, names)
        heads = [style.drawn(labels.method_label(name)) for name in names]
        axis.set_xticks(range(len(names)), heads, rotation=90, fontsize=8)
        axis.set(xlim=(0.5, len(names) - 0.5), ylim=(len(names) - 1.5, -0.5))
        axis.grid(False)
        axis.set_title(each.study, fontsize=9, loc="left")
    handles = [Rectangle((0, 0), 1, 1, color=colour) for colour in VERDICTS.values()]
    figure.legend(handles, VERDICTS.keys(), loc="outside upper center", ncols=3, handlelength=0.8, fontsize=8)
    return figure


def _pair_tip(pair: tuple, verdict: str, swapped: bool) -> str:
    """A pair in words, the higher mean first."""
    first, second = map(labels.method_label, (pair.b, pair.a) if swapped else (pair.a, pair.b))
    found = (-pair.difference, -pair.high, -pair.low) if swapped else (pair.difference, pair.low, pair.high)
    difference, low, high = (f"{100 * value:+.2f}" for value in found)
    words = "they differ" if verdict == "the row is higher" else verdict
    return f"{first} minus {second}: {difference} points [{low}, {high}], {words}"


def ranks_figure(compared: Sequence[Comparison]) -> Figure:
    """The ranks that each method may have: a bar from the first to the last, a marker at that of its mean.

    Filled: it cannot be told from the best. The best mean on top; a panel a study.
    """
    told = {each.study: each.summary.sort_values("mean", ascending=False) for each in compared}
    figure, axes = style.canvas(0.5 + sum(0.5 + 0.2 * len(each) for each in told.values()), len(told))
    for axis, (title, table) in zip(axes[:, 0], told.items(), strict=True):
        for place, row in enumerate(table.itertuples()):
            look = style.method_style(row.Index)
            axis.plot([row.rank_low, row.rank_high], [place, place], color=look.colour, linewidth=2.5, alpha=0.5)
            face = look.colour if row.among_best else "white"
            axis.plot(place + 1, place, color=look.colour, marker=look.marker, markerfacecolor=face, markersize=5)
        style.method_rows(axis, list(table.index))
        axis.set(xlim=(0.5, len(table) + 0.5))
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_title(title, fontsize=9)
    axes[-1, 0].set_xlabel("rank")
    return figure


def critical_difference_figure(blocks: pd.DataFrame) -> Figure:
    """Mean ranks over data sets, best on the left; a bar joins methods that Nemenyi's test cannot tell apart.

    blocks: `measures.datasets`.
    """
    figure, axes = style.canvas(1.1 + 0.16 * blocks.shape[1])
    _draw_ranks(axes[0, 0], blocks)
    return figure


def _draw_ranks(axis: Axes, each: pd.DataFrame) -> None:
    from scikit_posthocs import critical_difference_diagram

    positions = ranks(each).rename(labels.method_label)
    p = nemenyi(each).rename(index=labels.method_label, columns=labels.method_label)
    colours = {labels.method_label(name): style.method_style(name).colour for name in each.columns}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library warns where no bar is to be drawn
        drawn = critical_difference_diagram(
            positions,
            p,
            ax=axis,
            color_palette=colours,
            label_fmt_left="{label} {rank:.1f} ",
            label_fmt_right=" {rank:.1f} {label}",
            label_props={"fontsize": 8},
            crossbar_props={"linewidth": 2.5},
            marker_props={"s": 14},
            elbow_props={"linewidth": 0.8},
            text_h_margin=0.02 * each.shape[1],
        )
    for (bar,) in drawn["crossbars"]:
        bar.set_xdata(np.sort(bar.get_xdata()))  # else in the order of a set, another one in every process
    for text in drawn["labels"]:
        text.set_color("black")  # the paler colours cannot be read as letters
    axis.grid(False)


def effects_figure(compared: Sequence[Comparison]) -> Figure:
    """How far every method is above the `baseline`, with 95 % intervals; filled: it differs. A panel a study."""
    found = {each.study: effects(each) for each in compared}
    names = tables.ordered(name for frame in found.values() for name in frame.index)
    figure, axes = style.canvas(0.9 + 0.24 * len(names), 1, len(found), sharey=True)
    for axis, (title, frame) in zip(axes.flat, found.items(), strict=True):
        for row in frame.itertuples():
            look = style.method_style(row.Index)
            axis.errorbar(
                100 * row.difference,
                names.index(row.Index),
                xerr=100 * np.nan_to_num(row.high - row.difference),
                color=look.colour,
                marker=look.marker,
                markerfacecolor=look.colour if row.holm < ALPHA else "white",
                markersize=5,
                capsize=2,
            )
        axis.axvline(0, color="black", linewidth=0.8)
        style.method_rows(axis, names)
        axis.set_title(title, fontsize=9)
    bases = dict.fromkeys(labels.method_label(baseline(each.methods)) for each in compared)
    figure.supxlabel(f"points of MAP@R above {' and '.join(bases)}", fontsize=10)
    return figure


def classes_figure(resampled: Mapping[str, pd.DataFrame]) -> Figure:
    """How far every method is behind the best on other test classes, with 95 % intervals: title -> `over_classes`."""
    height = 0.5 + sum(0.5 + 0.2 * len(each) for each in resampled.values())
    figure, axes = style.canvas(height, len(resampled))
    for axis, (title, found) in zip(axes[:, 0], resampled.items(), strict=True):
        table = found.sort_values("behind")
        for place, row in enumerate(table.itertuples()):
            look = style.method_style(row.Index)
            axis.plot([100 * row.behind_low, 100 * row.behind_high], [place, place], color=look.colour, linewidth=1.5)
            axis.plot(100 * row.behind, place, color=look.colour, marker=look.marker, markerfacecolor=look.face)
        axis.axvline(0, color="black", linewidth=0.8)
        style.method_rows(axis, list(table.index))
        axis.set_title(title, fontsize=9)
    axes[-1, 0].set_xlabel("points of MAP@R behind the best method")
    return figure


def _cost_tip(label: str, values: pd.Series) -> str:
    return f"{label}: {100 * values['mean']:.1f} %, {values['steps']:,.0f} steps, {values['seconds']:.0f} seconds"


def cost_figure(costs: Mapping[str, pd.DataFrame], known: tables.Methods = tables.METHODS) -> Figure:
    """MAP@R against the steps (left) and the seconds (right) of a rerun; a row of panels a study.

    costs: title -> `measures.cost_and_accuracy`.
    """
    figure, axes = style.canvas(1.4 + 2.1 * len(costs), len(costs), 2, sharey="row")
    for row, (title, methods) in zip(axes, costs.items(), strict=True):
        for axis, cost, unit in zip(row, ("steps", "seconds"), ("steps, thousands", "seconds"), strict=True):
            scale = 1000 if cost == "steps" else 1
            for name, values in methods.iterrows():
                look = style.method_style(name)
                bars = axis.errorbar(
                    values[cost] / scale,
                    100 * values["mean"],
                    yerr=100 * np.nan_to_num((values["high"] - values["low"]) / 2),
                    color=look.colour,
                    marker=look.marker,
                    markerfacecolor=look.face,
                    markersize=5,
                    linestyle="none",
                    label=labels.method_label(name, known),
                )
                svg.tips(bars[0], _cost_tip(labels.method_label(name, known), values))
            axis.set_xlabel(f"{unit} a rerun")
        row[0].set_ylabel("MAP@R, %")
        row[0].set_title(title, fontsize=9, loc="left")
    handles = {
        label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, fontsize=8)
    return figure
