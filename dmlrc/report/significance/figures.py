"""Which methods differ, drawn: ranks and what joins them, effect sizes, accuracy beside cost."""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dmlrc.records import StudyRecords
from dmlrc.report import labels, style, tables
from dmlrc.report.significance.measures import ALPHA, baseline, cost_and_accuracy, effects, nemenyi, ranks, scores


def critical_difference_figure(titled: Mapping[str, pd.DataFrame]) -> Figure:
    """Mean ranks, best on the left; a bar joins methods that Nemenyi's test cannot tell apart. titled: `blocks`."""
    heights = [0.9 + 0.16 * each.shape[1] for each in titled.values()]
    figure, axes = style.canvas(sum(heights) + 0.2, len(titled), gridspec_kw={"height_ratios": heights})
    for axis, (name, each) in zip(axes.flat, titled.items(), strict=True):
        _draw_ranks(axis, each)
        axis.set_title(name, fontsize=9, pad=14)
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


def effects_figure(edition: Sequence[StudyRecords]) -> Figure:
    """How far every method is above the `baseline`, with 95 % intervals; filled: significant. A panel a study."""
    effects_by_study = {each.name: effects(scores(each)) for each in edition}
    names = tables.ordered(name for frame in effects_by_study.values() for name in frame.index)
    figure, axes = style.canvas(0.9 + 0.24 * len(names), 1, len(effects_by_study), sharey=True)
    for axis, each in zip(axes.flat, edition, strict=True):
        for place, name in enumerate(names):
            if name not in effects_by_study[each.name].index:
                continue
            row, look = effects_by_study[each.name].loc[name], style.method_style(name)
            centre, half = 100 * row["difference"], 100 * np.nan_to_num(row["high"] - row["difference"])
            face = look.colour if row["holm_t"] < ALPHA else "white"
            axis.errorbar(
                centre,
                place,
                xerr=half,
                color=look.colour,
                marker=look.marker,
                markerfacecolor=face,
                markersize=5,
                capsize=2,
            )
        axis.axvline(0, color="black", linewidth=0.8)
        style.method_rows(axis, names)
        axis.set_title(each.name, fontsize=9)
    bases = dict.fromkeys(labels.method_label(baseline(scores(each))) for each in edition)
    figure.supxlabel(f"points of MAP@R above {' and '.join(bases)}", fontsize=10)
    return figure


def cost_figure(edition: Sequence[StudyRecords]) -> Figure:
    """MAP@R against the steps (left) and the seconds (right) of a rerun; a row of panels a study."""
    figure, axes = style.canvas(1.4 + 2.1 * len(edition), len(edition), 2, sharey="row")
    for row, each in zip(axes, edition, strict=True):
        methods_of_study = cost_and_accuracy(each)
        for axis, cost, unit in zip(row, ("steps", "seconds"), ("steps, thousands", "seconds"), strict=True):
            scale = 1000 if cost == "steps" else 1
            for name, values in methods_of_study.iterrows():
                look = style.method_style(name)
                axis.errorbar(
                    values[cost] / scale,
                    100 * values["mean"],
                    yerr=100 * np.nan_to_num(values["ci95"]),
                    color=look.colour,
                    marker=look.marker,
                    markerfacecolor=look.face,
                    markersize=5,
                    linestyle="none",
                    label=labels.method_label(name),
                )
            axis.set_xlabel(f"{unit} a rerun")
        row[0].set_ylabel("MAP@R, %")
        row[0].set_title(each.name, fontsize=9, loc="left")
    handles = {
        label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, fontsize=8)
    return figure
