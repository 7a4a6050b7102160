"""Figures of which methods differ: noise, effect sizes, ranks and what joins them, other test classes, cost."""

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from dmlrc.report import charts, labels, style, svg, tables
from dmlrc.report.significance import measures
from dmlrc.report.significance.measures import ALPHA, Comparison

VERDICTS = {"the row is higher": style.BLUE, "equal within a point": style.GREEN, "inconclusive": "#b5b5b5"}
"""What a square of `pairs_figure` says, and its colour."""


def pairs_figure(compared: Comparison) -> Figure:
    """All pairs of a study's methods, a square each, the best mean on top: whether the two differ."""
    names = list(compared.summary["mean"].sort_values(ascending=False).index)
    figure, axis = charts.panel(1.6 + 0.2 * len(names))
    differ, equal, unclear = VERDICTS
    for pair in measures.both_ways(compared.pairs).itertuples():
        row, column = names.index(pair.a), names.index(pair.b)
        if row > column:
            continue
        verdict = differ if pair.holm < ALPHA else equal if pair.equal else unclear
        square = Rectangle((column - 0.42, row - 0.42), 0.84, 0.84, color=VERDICTS[verdict])
        difference = labels.percent(pair.difference, low=pair.low, high=pair.high, form="+.2%", unit=" points")
        svg.tips(square, f"{labels.method_label(pair.a)} − {labels.method_label(pair.b)}: {difference}, {verdict}")
        axis.add_patch(square)
    style.method_rows(axis, names)
    heads = [style.escape_math(labels.method_label(name)) for name in names]
    axis.set_xticks(range(len(names)), heads, rotation=90, fontsize=8)
    axis.set(xlim=(0.5, len(names) - 0.5), ylim=(len(names) - 1.5, -0.5))
    axis.grid(False)
    axis.set_title(compared.study, fontsize=9, loc="left")
    handles = [Rectangle((0, 0), 1, 1, color=colour) for colour in VERDICTS.values()]
    figure.legend(handles, VERDICTS.keys(), loc="outside upper center", ncols=3, handlelength=0.8, fontsize=8)
    return figure


SEARCHES = ((style.BLUE, "o"), (style.ORANGE, "^"), (style.GREEN, "s"), (style.PURPLE, "D"), (style.RED, "v"))
"""Colours and marks of the searches of one method, in their order; a sixth looks like the first."""


def noise_figure(title: str, runs: pd.DataFrame) -> Figure:
    """Every rerun of every method of a study, a dot each in the look of its search, the best mean on top.

    runs: `measures.scores`. Shaded: from the lowest mean of a method to the highest.
    """
    searches = measures.of_searches(runs)
    means = searches.groupby("method").mean().sort_values(ascending=False)
    names = list(means.index)
    figure, axis = charts.panel(1.4 + 0.22 * len(names), title)
    axis.axvspan(100 * means.min(), 100 * means.max(), color=style.GREY, alpha=0.12, linewidth=0)
    handles = []
    for repetition, part in runs.groupby("repetition"):
        colour, marker = SEARCHES[int(repetition) % len(SEARCHES)]
        rows, search = part["method"].map(names.index) + 0.22 * (repetition % 3 - 1), f"search {repetition + 1:.0f}"
        dots = axis.scatter(100 * part["value"], rows, s=14, color=colour, marker=marker, alpha=0.8, linewidths=0)
        named = zip(part["method"].map(labels.method_label), part["value"], strict=True)
        svg.tips(dots, [f"{name}, {search}: {100 * value:.2f} %" for name, value in named])
        look = {"color": colour, "marker": marker, "linestyle": "none", "markersize": 5}
        handles.append(Line2D([], [], label=search, **look))
    style.method_rows(axis, names)
    axis.set_xlabel("MAP@R of a rerun, %")
    handles.append(Patch(color=style.GREY, alpha=0.12, label="from the lowest mean to the highest"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8, columnspacing=1.2)
    return figure


def rank_intervals_figure(compared: Comparison) -> Figure:
    """The ranks that each method of a study may have: a bar from the first to the last, a marker at that of its mean.

    Shaded: it ties with the best. The best mean on top.
    """
    table = compared.summary.sort_values("mean", ascending=False)
    rows = table[["rank_low", "rank_high"]].set_axis(["low", "high"], axis=1).assign(value=range(1, len(table) + 1))
    tips = [f"{labels.method_label(row.Index)}: rank {row.low:.0f} to {row.high:.0f}" for row in rows.itertuples()]
    rows = rows.assign(tip=tips, shade=np.where(table["among_best"], style.GREEN, ""))
    may_be = [Patch(color=style.GREEN, alpha=0.15, label="may be the best")]
    figure = charts.method_dots(compared.study, rows, "rank", may_be, width=2.5, size=5, faint=0.5)
    figure.axes[0].set_xlim(0.5, len(table) + 0.5)
    figure.axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def critical_difference_figure(blocks: pd.DataFrame) -> Figure:
    """Mean ranks over data sets, best on the left; a bar joins methods that Nemenyi's test cannot tell apart.

    blocks: `measures.datasets`.
    """
    from scikit_posthocs import critical_difference_diagram

    figure, axis = charts.panel(1.1 + 0.16 * blocks.shape[1])
    named = labels.method_label
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library warns where no bar is to be drawn
        drawn = critical_difference_diagram(
            measures.mean_ranks(blocks).rename(named),
            measures.nemenyi(blocks).rename(index=named, columns=named),
            ax=axis,
            color_palette={named(name): style.method_style(name).colour for name in blocks},
            label_fmt_left="{label} {rank:.1f} ",
            label_fmt_right=" {rank:.1f} {label}",
            label_props={"fontsize": 8},
            crossbar_props={"linewidth": 2.5},
            marker_props={"s": 14},
            elbow_props={"linewidth": 0.8},
            text_h_margin=0.02 * blocks.shape[1],
        )
    for (bar,) in drawn["crossbars"]:
        bar.set_xdata(np.sort(bar.get_xdata()))  # else in the order of a set, another one in every process
        bar.set_color("black")  # the library's near-black cannot be seen on a dark page
    for text in drawn["labels"]:
        text.set_color("black")  # the paler colours cannot be read as letters
    axis.set_title("mean rank over the data sets", fontsize=9)
    axis.grid(False)
    return figure


def over_baseline_figure(compared: Sequence[Comparison]) -> Figure:
    """Draw each method's lead over the `baseline`, by mean place; a panel a study; pale: no difference is shown."""
    frames = {study.study: measures.effects(study) for study in compared}
    names = tables.pooled_order([frame["difference"] for frame in frames.values()])
    figure, axes = style.canvas(1.3 + 0.22 * len(names), 1, len(frames), sharey=True)
    for axis, (title, frame) in zip(axes.flat, frames.items(), strict=True):
        rows = 100 * frame[["difference", "low", "high"]].set_axis(["value", "low", "high"], axis=1)
        rows["tip"] = [
            f"{labels.method_label(row.Index)}: {row.value:+.2f} points [{row.low:+.2f}, {row.high:+.2f}]"
            for row in rows.itertuples()
        ]
        pale = np.where(frame["holm"] < ALPHA, 1, 0.35)
        charts.forest(axis, rows.assign(place=rows.index.map(names.index), alpha=pale), size=5)
        axis.axvline(0, color="black", linewidth=0.8)
        style.method_rows(axis, names)
        axis.set_title(style.narrow(title), fontsize=8)
        axis.xaxis.set_major_locator(MaxNLocator(3))
    bases = dict.fromkeys(labels.method_label(measures.baseline(study.methods)) for study in compared)
    axes.flat[len(frames) // 2].set_xlabel(f"points above {' or '.join(bases)}", fontsize=9)
    style.family_legend(figure, names)
    return figure


def other_classes(title: str, classes: pd.DataFrame) -> Figure:
    """Draw each method's distance behind the best on other test classes: `measures.scores_on_other_classes`."""
    table = classes.sort_values("behind")
    rows = 100 * table[["behind", "behind_low", "behind_high"]].set_axis(["value", "low", "high"], axis=1)
    rows["tip"] = [f"{labels.method_label(name)}: {value:.2f} points behind" for name, value in rows["value"].items()]
    figure = charts.method_dots(title, rows, "points of MAP@R behind the best method")
    figure.axes[0].axvline(0, color="black", linewidth=0.8)
    return figure


def cost_figure(title: str, methods: pd.DataFrame, known: tables.Methods = tables.METHODS) -> Figure:
    """MAP@R against the steps (left) and the seconds (right) of a rerun. methods: `measures.cost_and_accuracy`.

    Pale: methods clearly below the best. Named: the best and, of those that tie with it, the cheapest.
    """
    figure, axes = style.canvas(3.3, 1, 2, sharey=True)
    named = {name: labels.method_label(name, known) for name in methods.index}
    by_unit = {"steps, thousands": methods["steps"] / 1000, "seconds": methods["seconds"]}
    for axis, (unit, costs) in zip(axes[0], by_unit.items(), strict=True):
        for name, values in methods.iterrows():
            look, mean = style.method_style(name), 100 * values["mean"]
            half = 100 * np.nan_to_num((values["high"] - values["low"]) / 2)
            marks = {"color": look.colour, "marker": look.marker, "markersize": 5, "linestyle": "none"}
            marks["alpha"] = 1 if values["among_best"] else 0.35
            bars = axis.errorbar(costs[name], mean, yerr=[[min(half, mean)], [min(half, 100 - mean)]], **marks)
            place = f"{mean:.1f} %, {values['steps']:,.0f} steps, {values['seconds']:.0f} seconds"
            svg.tips(bars[0], f"{named[name]}: {place}")
        best, cheapest = methods["mean"].idxmax(), costs[methods["among_best"]].idxmin()
        top = 100 * min(1, np.nan_to_num(methods["high"][best], nan=methods["mean"][best]))
        text = {"textcoords": "offset points", "fontsize": 7.5}
        axis.annotate(style.escape_math(named[best]), (costs[best], top), (0, 3), ha="center", **text)
        if cheapest != best:
            at = costs[cheapest], 100 * methods["mean"][cheapest]
            axis.annotate(style.escape_math(named[cheapest]), at, (-5, 0), ha="right", va="center", **text)
        room = np.ptp(costs) or costs.max()
        axis.set_xlim(costs.min() - 0.6 * room, costs.max() + 0.25 * room)
        axis.margins(y=0.12)
        axis.set_xlabel(f"{unit} a rerun")
    axes[0, 0].set_ylabel("MAP@R, %")
    axes[0, 0].set_title(title, fontsize=9, loc="left")
    style.family_legend(figure, list(methods.index))
    return figure
