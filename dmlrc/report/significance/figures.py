"""Which methods differ, drawn: noise, effect sizes, ranks and what joins them, other test classes, cost."""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from dmlrc.report import labels, style, svg, tables
from dmlrc.report.significance.measures import ALPHA, Comparison, baseline, effects, nemenyi, ranks

OPEN = "inconclusive"
VERDICTS = {"the row is higher": style.BLUE, "equal within a point": style.GREEN, OPEN: "#b5b5b5"}
"""What a cell of `pairs_figure` says, and its colour."""


def pairs_figure(compared: Sequence[Comparison]) -> list[Figure]:
    """All pairs of methods, a square each, the best mean on top: whether the two differ. A figure a study."""
    return [_pairs_figure(each) for each in compared]


def _pairs_figure(each: Comparison) -> Figure:
    names = list(each.summary["mean"].sort_values(ascending=False).index)
    figure, axes = style.canvas(1.6 + 0.2 * len(names))
    axis = axes[0, 0]
    for pair in each.pairs.itertuples():
        swapped = names.index(pair.a) > names.index(pair.b)
        row, column = (names.index(name) for name in ((pair.b, pair.a) if swapped else (pair.a, pair.b)))
        verdict = "the row is higher" if pair.holm < ALPHA else "equal within a point" if pair.equal else OPEN
        square = Rectangle((column - 0.42, row - 0.42), 0.84, 0.84, color=VERDICTS[verdict])
        svg.tips(square, _pair_tip(pair, verdict, swapped))
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


SEARCHES = ((style.BLUE, "o"), (style.ORANGE, "^"), (style.GREEN, "s"), (style.PURPLE, "D"), (style.RED, "v"))
"""Colours and marks of the searches of one method, in their order; a sixth looks like the first."""


def noise_figure(runs: Mapping[str, pd.DataFrame]) -> list[Figure]:
    """Every rerun of every method, a dot each in the look of its search; a figure a study, the best mean on top.

    runs: title -> `measures.scores`. Shaded: from the lowest mean of a method to the highest.
    """
    return [_noise_figure(title, frame) for title, frame in runs.items()]


def _noise_figure(title: str, runs: pd.DataFrame) -> Figure:
    searches = runs.groupby(["method", "repetition"])["value"].mean()
    means = searches.groupby("method").mean().sort_values(ascending=False)
    names = list(means.index)
    figure, axes = style.canvas(1.4 + 0.22 * len(names))
    axis = axes[0, 0]
    axis.axvspan(100 * means.min(), 100 * means.max(), color=style.GREY, alpha=0.12, linewidth=0)
    handles = []
    for number, part in runs.groupby("repetition"):
        colour, marker = SEARCHES[int(number) % len(SEARCHES)]
        rows = part["method"].map(names.index) + 0.22 * (number % 3 - 1)
        dots = axis.scatter(100 * part["value"], rows, s=14, color=colour, marker=marker, alpha=0.8, linewidths=0)
        svg.tips(dots, [_rerun_tip(row) for row in part.itertuples()])
        handles.append(
            Line2D(
                [], [], color=colour, marker=marker, linestyle="none", markersize=5, label=f"search {number + 1:.0f}"
            )
        )
    style.method_rows(axis, names)
    axis.set_title(title, fontsize=9)
    axis.set_xlabel("MAP@R of a rerun, %")
    handles.append(Patch(color=style.GREY, alpha=0.12, label="from the last mean to the first"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8, columnspacing=1.2)
    return figure


def _rerun_tip(row: tuple) -> str:
    return f"{labels.method_label(row.method)}, search {row.repetition + 1:.0f}: {100 * row.value:.2f} %"


def ranks_figure(compared: Sequence[Comparison]) -> list[Figure]:
    """The ranks that each method may have: a bar from the first to the last, a marker at that of its mean.

    Shaded: it ties with the best. The best mean on top; a figure a study.
    """
    return [_ranks_figure(each) for each in compared]


def _ranks_figure(each: Comparison) -> Figure:
    table = each.summary.sort_values("mean", ascending=False)
    figure, axes = style.canvas(1.2 + 0.2 * len(table))
    axis = axes[0, 0]
    for place, row in enumerate(table.itertuples()):
        look = style.method_style(row.Index)
        if row.among_best:
            axis.axhspan(place - 0.5, place + 0.5, color=style.GREEN, alpha=0.15, linewidth=0)
        axis.plot([row.rank_low, row.rank_high], [place, place], color=look.colour, linewidth=2.5, alpha=0.5)
        (dot,) = axis.plot(place + 1, place, color=look.colour, marker=look.marker, markersize=5)
        svg.tips(dot, f"{labels.method_label(row.Index)}: rank {row.rank_low:.0f} to {row.rank_high:.0f}")
    style.method_rows(axis, list(table.index))
    axis.set(xlim=(0.5, len(table) + 0.5), xlabel="rank")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_title(each.study, fontsize=9)
    style.family_legend(figure, list(table.index), [Patch(color=style.GREEN, alpha=0.15, label="may be the best")])
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
        bar.set_color("black")  # the library's near-black cannot be seen on a dark page
    for text in drawn["labels"]:
        text.set_color("black")  # the paler colours cannot be read as letters
    axis.grid(False)


def effects_figure(compared: Sequence[Comparison]) -> Figure:
    """How far every method is above the `baseline`, with 95 % intervals; pale: no difference is shown. A panel a study.

    The rows stand in one order in all panels, by the mean place of a method.
    """
    found = {each.study: effects(each) for each in compared}
    names = tables.pooled_order([frame["difference"] for frame in found.values()])
    figure, axes = style.canvas(1.3 + 0.22 * len(names), 1, len(found), sharey=True)
    for axis, (title, frame) in zip(axes.flat, found.items(), strict=True):
        for row in frame.itertuples():
            look = style.method_style(row.Index)
            bars = axis.errorbar(
                100 * row.difference,
                names.index(row.Index),
                xerr=100 * np.nan_to_num(row.high - row.difference),
                color=look.colour,
                marker=look.marker,
                markersize=5,
                alpha=1 if row.holm < ALPHA else 0.35,
            )
            told = f"{100 * row.difference:+.2f} points [{100 * row.low:+.2f}, {100 * row.high:+.2f}]"
            svg.tips(bars[0], f"{labels.method_label(row.Index)}: {told}")
        axis.axvline(0, color="black", linewidth=0.8)
        style.method_rows(axis, names)
        axis.set_title(style.narrow(title), fontsize=8)
        axis.xaxis.set_major_locator(MaxNLocator(3))
    bases = dict.fromkeys(labels.method_label(baseline(each.methods)) for each in compared)
    axes.flat[len(found) // 2].set_xlabel(f"points above {' or '.join(bases)}", fontsize=9)
    style.family_legend(figure, names)
    return figure


def classes_figure(resampled: Mapping[str, pd.DataFrame]) -> list[Figure]:
    """How far every method is behind the best on other test classes, with 95 % intervals; a figure a study.

    resampled: title -> `over_classes`.
    """
    return style.share([_classes_figure(title, found) for title, found in resampled.items()], "x")


def _classes_figure(title: str, found: pd.DataFrame) -> Figure:
    table = found.sort_values("behind")
    figure, axes = style.canvas(1.1 + 0.2 * len(table))
    axis = axes[0, 0]
    for place, row in enumerate(table.itertuples()):
        look = style.method_style(row.Index)
        axis.plot([100 * row.behind_low, 100 * row.behind_high], [place, place], color=look.colour, linewidth=1.5)
        (dot,) = axis.plot(100 * row.behind, place, color=look.colour, marker=look.marker)
        svg.tips(dot, f"{labels.method_label(row.Index)}: {100 * row.behind:.2f} points behind")
    axis.axvline(0, color="black", linewidth=0.8)
    style.method_rows(axis, list(table.index))
    axis.set_title(title, fontsize=9)
    axis.set_xlabel("points of MAP@R behind the best method")
    style.family_legend(figure, list(table.index))
    return figure


def _cost_tip(label: str, values: pd.Series) -> str:
    return f"{label}: {100 * values['mean']:.1f} %, {values['steps']:,.0f} steps, {values['seconds']:.0f} seconds"


def cost_figure(costs: Mapping[str, pd.DataFrame], known: tables.Methods = tables.METHODS) -> list[Figure]:
    """MAP@R against the steps (left) and the seconds (right) of a rerun; a figure a study.

    costs: title -> `measures.cost_and_accuracy`. Pale: methods that can be told from the best. Named: the best and, of
        those that cannot be told from it, the cheapest.
    """
    return [_cost_figure(title, methods, known) for title, methods in costs.items()]


def _cost_figure(title: str, methods: pd.DataFrame, known: tables.Methods) -> Figure:
    figure, axes = style.canvas(3.3, 1, 2, sharey=True)
    for axis, cost, unit in zip(axes[0], ("steps", "seconds"), ("steps, thousands", "seconds"), strict=True):
        scale = 1000 if cost == "steps" else 1
        for name, values in methods.iterrows():
            look = style.method_style(name)
            bars = axis.errorbar(
                values[cost] / scale,
                100 * values["mean"],
                yerr=100 * np.nan_to_num((values["high"] - values["low"]) / 2),
                color=look.colour,
                marker=look.marker,
                markersize=5,
                linestyle="none",
                alpha=1 if values["among_best"] else 0.35,
            )
            svg.tips(bars[0], _cost_tip(labels.method_label(name, known), values))
        best, cheapest = methods["mean"].idxmax(), methods.loc[methods["among_best"], cost].idxmin()
        top = np.nan_to_num(methods["high"][best], nan=methods["mean"][best])
        named = {best: {"xy": (methods[cost][best] / scale, 100 * top), "xytext": (0, 3), "ha": "center"}}
        if cheapest != best:
            at = methods[cost][cheapest] / scale, 100 * methods["mean"][cheapest]
            named[cheapest] = {"xy": at, "xytext": (-5, 0), "ha": "right", "va": "center"}
        for name, place in named.items():
            text = style.drawn(labels.method_label(name, known))
            axis.annotate(text, textcoords="offset points", fontsize=7.5, **place)
        low, high = methods[cost].min() / scale, methods[cost].max() / scale
        room = (high - low) or high
        axis.set_xlim(low - 0.6 * room, high + 0.25 * room)
        axis.margins(y=0.12)
        axis.set_xlabel(f"{unit} a rerun")
    axes[0, 0].set_ylabel("MAP@R, %")
    axes[0, 0].set_title(title, fontsize=9, loc="left")
    style.family_legend(figure, list(methods.index))
    return figure
