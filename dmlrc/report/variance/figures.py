"""Figures of what decides a ranking."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from dmlrc.report import charts, labels, rates, style
from dmlrc.report.variance import levers, page
from dmlrc.report.variance.measures import AtRates, Part

LEAST = 0.1
"""Percent; the left end of the scale of `part_figures`."""
OWN = {"color": style.RED, "marker": "|", "markersize": 11, "markeredgewidth": 2.5, "linestyle": "none"}
"""The yardstick of a part."""


def moves(by_title: Mapping[str, pd.DataFrame]) -> Figure:
    """A row a lever, a mark a data set, with 95 % intervals; the row of the loss is shaded. Title -> `levers`."""
    names = levers.lever_order(by_title)
    drawing, axis = charts.panel(1.2 + 0.4 * len(names), xlabel="points of MAP@R")
    looks = {title: {"marker": "osD^v"[column % 5], "color": f"C{column}"} for column, title in enumerate(by_title)}
    for column, (title, own) in enumerate(by_title.items()):
        look, aside = looks[title], 0.2 * (column - (len(by_title) - 1) / 2)
        rows = 100 * own[["value", "low", "high"]]
        texts = [labels.percent(row.value, low=row.low, high=row.high) for row in own.itertuples()]
        heads = own.index.map(levers.LEVERS.get)
        rows["tip"] = [f"{title}, {head}: {text} points" for head, text in zip(heads, texts, strict=True)]
        rows["place"] = [names.index(name) + aside for name in own.index]
        charts.forest(axis, rows.assign(colour=look["color"], marker=look["marker"]), width=1.2)
    if "loss" in names:
        axis.axhspan(names.index("loss") - 0.5, names.index("loss") + 0.5, color="0.88", zorder=0)
    axis.axvline(0, color=style.GREY, linewidth=1)
    axis.set(yticks=range(len(names)), yticklabels=map(levers.LEVERS.get, names), ylim=(len(names) - 0.5, -0.5))
    axis.grid(visible=False, axis="y")
    dots = {title: {"linestyle": "none", **look} for title, look in looks.items()}
    charts.legend(drawing, dots, ncols=len(dots))
    return drawing


def part_figures(panels: Mapping[str, Sequence[Part]]) -> list[Figure]:
    """Draw how far each part moves the methods against one another (dots, 95 %) and together (rings).

    panels: title -> `parts`. One figure per study, all on one logarithmic scale, since one part may be fifty times
    another; what lies below its left end is an arrow there. A part that was varied with one method has a ring alone. A
    bar: the yardstick, how far the methods of that part lie apart. The loss itself is in the bar's colour; a star: on
    validation classes. The parts have one order in all figures, by their means over the studies.
    """
    values = pd.DataFrame({title: {part.name: part.against.value for part in parts} for title, parts in panels.items()})
    order = list(values.mean(axis=1).sort_values(ascending=False).index)
    drawings = [_parts(name, sorted(parts, key=lambda part: order.index(part.name))) for name, parts in panels.items()]
    return style.share_axes(drawings)


def _parts(title: str, parts: Sequence[Part]) -> Figure:
    figure, axis = charts.panel(1.3 + 0.26 * len(parts), title, xlabel="SD, % of the mean MAP@R")
    table = page.part_numbers(parts).reset_index()
    rows = table.assign(
        **{end: (100 * table[of]).clip(LEAST) for end, of in (("value", "against"), ("low", "low"), ("high", "high"))},
        place=table.index,
        colour=np.where(table["part"] == "loss", style.RED, style.BLUE),
        tip=[
            f"{row.part}: {labels.one_digit(row.against, low=row.low, high=row.high, unit=' %')}; mean "
            f"{100 * row.mean:.1f} %, {row.classes} classes, {row.methods} losses; spread of these: "
            f"{labels.one_digit(row.own, unit=' %')}"
            for row in table.itertuples()
        ],
    )
    rows["marker"] = np.where(rows["value"] == LEAST, "<", "o")
    charts.forest(axis, rows.dropna(subset="against"))
    others = 100 * table["own"].where(table["part"] != "loss").clip(LEAST / 100).dropna()
    axis.plot(others, others.index, **OWN)
    for place, together in (100 * table["together"]).clip(LEAST).items():
        ring = {"markersize": 8, "markerfacecolor": "none", "markeredgecolor": "black"}
        axis.plot(together, place, marker="<" if together == LEAST else "o", **ring)
    names = [part.name + " *" * (part.on == "validation") for part in parts]
    axis.set(yticks=range(len(parts)), yticklabels=names, ylim=(len(parts) - 0.4, -0.6))
    axis.set_xscale("log")
    axis.set_xlim(left=0.9 * LEAST)
    axis.xaxis.set_major_locator(FixedLocator([LEAST, 0.3, 1, 3, 10, 30, 100]))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_locator(NullLocator())
    ring = {"color": "black", "markersize": 8, "markerfacecolor": "none", "linestyle": "none"}
    against = {"color": style.BLUE, "marker": "o", "linewidth": 1.5}
    looks = {"reordered": against, "its losses apart": OWN, "together": {"marker": "o", **ring}}
    charts.legend(figure, looks, handlelength=1)
    return figure


def grid(title: str, best: pd.DataFrame) -> Figure:
    """Validation MAP@R against the rate (`rates.best_trials`), a line a method; dotted: the best rate of all."""
    figure, axis = charts.panel(3.4, xlabel="learning rate of all methods", ylabel="validation MAP@R, %")
    ends = charts.draw_lines(axis, 100 * best.sort_index())
    axis.axvline(rates.best_rate(best), color=style.GREY, linestyle=":", linewidth=1)
    axis.set(xscale="log", title=title)
    axis.grid(visible=False, axis="x")
    style.name_ends(axis, ends)
    style.family_legend(figure, list(best))
    return figure


def at_rates_figure(title: str, at: AtRates) -> Figure:
    """Test MAP@R at each rate that a table was made at, of the methods run at all; dashed: the untrained trunk."""
    figure, axis = charts.panel(3.9, title, xlabel="learning rate", ylabel="test MAP@R, %")
    heads = [page.rate_head(at, which) for which in at.by_rate]
    scores = at.scores.loc[at.everywhere].astype(float)
    means, low = (100 * scores.xs(end, axis=1, level=1)[list(at.by_rate)].T for end in ("mean", "low"))
    tips = {
        name: f"{labels.method_label(name)}: "
        + ", ".join(f"{value:.1f} % at {head}" for value, head in zip(means[name], heads, strict=True))
        for name in means
    }
    means, low = (frame.reset_index(drop=True) for frame in (means, low))
    aside = np.linspace(-0.05, 0.05, means.shape[1])
    ends = charts.draw_lines(axis, means, tips, halves=means - low, aside=aside)
    style.untrained_line(axis, 100 * at.untrained, across=True, start=0.01)
    axis.set(xticks=range(len(heads)), xticklabels=heads, xlim=(-0.35, len(heads) - 0.9))
    axis.grid(visible=False, axis="x")
    style.name_ends(axis, ends)
    style.family_legend(figure, list(ends))
    return figure


def tuning_figure(title: str, searched: pd.DataFrame, random: pd.DataFrame) -> Figure:
    """Validation MAP@R against the number of trials: the search (lines) and random trials (dots)."""
    figure, axis = charts.panel(3.9, title)
    ends = {}
    for name in searched:
        ends |= charts.draw_lines(axis, 100 * searched[[name]], marker="", linewidth=1.2)
        look, dots = style.method_style(name), random[name].dropna() if name in random else pd.Series(dtype=float)
        axis.plot(dots.index, 100 * dots, look.marker, color=look.colour, markersize=2, alpha=0.5)
    axis.set(xscale="log", xlabel="trials", ylabel="validation MAP@R, %")
    ticks = [count for count in (1, 2, 5, 10, 20, 50) if count <= len(searched)]
    axis.set_xticks(ticks, ticks)
    axis.minorticks_off()
    style.name_ends(axis, ends)
    style.family_legend(figure, list(ends))
    return figure


def validation(title: str, both: pd.DataFrame) -> Figure:
    """Test MAP@R of each repetition against its validation (`scores_of_searches`); named: what each would choose."""
    figure, axis = charts.panel(3.2, title, xlabel="validation MAP@R of the best trial, %", ylabel="test MAP@R, %")
    both = 100 * both.reset_index("method").set_index("method", append=True)
    for (_, name), row in both.iterrows():
        look = style.method_style(name)
        scores = f"{row['validation']:.1f} % in validation; {row['test']:.1f} % in the test"
        tip = f"{labels.method_label(name)}: {scores}"
        charts.mark(axis, row["validation"], row["test"], tip, look.marker, color=look.colour, markersize=5)
    places = {both["test"].idxmax(): (-5, 4, "right"), both["validation"].idxmax(): (5, -3, "left")}
    for which, (*aside, side) in places.items():  # nothing is to the right of what validation chooses
        text, at = style.escape_math(labels.method_label(which[1])), tuple(both.loc[which])
        axis.annotate(text, at, aside, textcoords="offset points", fontsize=8, ha=side)
    axis.margins(0.25, 0.15)
    style.family_legend(figure, list(both.index.get_level_values("method")))
    return figure
