"""What decides a ranking, drawn."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from dmlrc.report import labels, style, svg
from dmlrc.report.decides import page
from dmlrc.report.decides.measures import AtRates, Part


def parts_figure(found: Mapping[str, Sequence[Part]]) -> list[Figure]:
    """How far each part moves the methods against one another (dots, 95 %) and together (rings). Title -> `parts`.

    A figure a study, on one logarithmic scale, since one part may be fifty times another; what is below its left end
    stands at it, as an arrow. A part that was varied with one method has a ring alone. The loss itself is in another
    colour; a star: of validation classes. The parts have one order in all figures, by their means over the studies.
    """
    values = pd.DataFrame({title: {part.name: part.against.value for part in parts} for title, parts in found.items()})
    order = list(values.mean(axis=1).sort_values(ascending=False).index)
    drawings = [
        _parts_figure(title, sorted(parts, key=lambda part: order.index(part.name))) for title, parts in found.items()
    ]
    return style.share(drawings, "x")


LEAST = 0.1
"""Percent; the left end of the scale of `parts_figure`."""


def _parts_figure(title: str, parts: Sequence[Part]) -> Figure:
    figure, axes = style.canvas(1.3 + 0.26 * len(parts))
    axis = axes[0, 0]
    for place, part in enumerate(parts):
        colour = style.RED if part.name == "loss" else style.BLUE
        spread = part.against
        low, value, high = (max(100 * each, LEAST) for each in (spread.low, spread.value, spread.high))
        if spread.value == spread.value:
            axis.plot([low, high], [place, place], color=colour, linewidth=1.5)
            [dot] = axis.plot(value, place, marker="<" if value == LEAST else "o", color=colour, markersize=6)
            svg.tips(
                dot,
                f"{part.name}: {100 * spread.value:.1f} % [{100 * spread.low:.1f}, {100 * spread.high:.1f}] of a mean "
                f"of {100 * part.mean:.1f} % on {part.on} classes, {part.methods} losses",
            )
        together = max(100 * part.together, LEAST)
        look = "<" if together == LEAST else "o"
        axis.plot(together, place, marker=look, markersize=8, markerfacecolor="none", markeredgecolor="black")
    names = [part.name + " *" * (part.on == "validation") for part in parts]
    axis.set(yticks=range(len(parts)), yticklabels=names, ylim=(len(parts) - 0.4, -0.6))
    axis.set_xscale("log")
    axis.set_xlim(left=0.9 * LEAST)
    axis.xaxis.set_major_locator(FixedLocator([LEAST, 0.3, 1, 3, 10, 30, 100]))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_title(title, fontsize=9)
    axis.set_xlabel("SD, % of the mean MAP@R")
    handles = [
        Line2D([], [], color=style.BLUE, marker="o", linewidth=1.5, label="relative to one another"),
        Line2D(
            [], [], color="black", marker="o", markersize=8, markerfacecolor="none", linestyle="none", label="together"
        ),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def rates_figure(found: Mapping[str, AtRates]) -> list[Figure]:
    """Test MAP@R at each of the learning rates that a table was made at, a line a method, with 95 % intervals.

    found: title -> `measures.at_rates`. Only the methods that were run at every rate. Dashed across: the untrained
    trunk.
    """
    return [_rates_figure(title, rates) for title, rates in found.items()]


def _rates_figure(title: str, found: AtRates) -> Figure:
    figure, axes = style.canvas(3.9)
    axis, ends = axes[0, 0], {}
    heads = [page.rate_head(found, which) for which in found.made]
    beside = np.linspace(-0.05, 0.05, len(found.everywhere))  # so that intervals do not cover one another
    for name, aside in zip(found.everywhere, beside, strict=True):
        numbers = found.scores.loc[name].unstack().loc[list(found.made), ["mean", "low", "high"]]
        look, row = style.method_style(name), 100 * numbers.astype(float)  # beside them stand other types
        at, means = np.arange(len(heads)) + aside, row["mean"]
        errors = [means - row["low"], row["high"] - means]
        axis.errorbar(at, means, errors, fmt="none", ecolor=look.colour, elinewidth=0.7)
        (line,) = axis.plot(at, means, look.marker, color=look.colour, linestyle=look.dashes, markersize=4)
        told = ", ".join(f"{value:.1f} % at {head}" for value, head in zip(means, heads, strict=True))
        svg.tips(line, f"{labels.method_label(name)}: {told}")
        ends[name] = (at[-1], means.iloc[-1])
    style.untrained_line(axis, 100 * found.untrained, across=True, start=0.01)
    axis.set(xticks=range(len(heads)), xticklabels=heads, xlim=(-0.35, len(heads) - 0.9))
    axis.set(xlabel="learning rate", ylabel="test MAP@R, %")
    axis.set_title(title, fontsize=9)
    axis.grid(visible=False, axis="x")
    style.name_ends(axis, ends)
    style.family_legend(figure, list(ends))
    return figure


def tuning_figure(searched: Mapping[str, pd.DataFrame], random: Mapping[str, pd.DataFrame]) -> list[Figure]:
    """Validation MAP@R against the number of trials: the search (lines) and random trials (dots). Title -> tables."""
    return [_tuning_figure(title, lines, random[title]) for title, lines in searched.items()]


def _tuning_figure(title: str, searched: pd.DataFrame, random: pd.DataFrame) -> Figure:
    figure, axes = style.canvas(3.9)
    axis, ends = axes[0, 0], {}
    for name in searched:
        look = style.method_style(name)
        line = 100 * searched[name].dropna()
        (drawn,) = axis.plot(line.index, line, color=look.colour, linestyle=look.dashes, linewidth=1.2)
        svg.tips(drawn, labels.method_label(name))
        if len(line):
            ends[name] = (line.index[-1], line.iloc[-1])
        dots = random[name].dropna() if name in random else pd.Series(dtype=float)
        axis.plot(dots.index, 100 * dots, look.marker, color=look.colour, markersize=2, alpha=0.5)
    axis.set(xscale="log", xlabel="trials", ylabel="validation MAP@R, %")
    axis.set_title(title, fontsize=9)
    ticks = [count for count in (1, 2, 5, 10, 20, 50) if count <= len(searched)]
    axis.set_xticks(ticks, ticks)
    axis.minorticks_off()
    style.name_ends(axis, ends)
    style.family_legend(figure, list(ends))
    return figure


def validation_figure(found: Mapping[str, pd.DataFrame]) -> list[Figure]:
    """Test MAP@R of each repetition against the validation MAP@R of its best trial. Title -> `validation_and_test`.

    Named: what validation would choose, and what tests best.
    """
    return [_validation_figure(title, both) for title, both in found.items()]


def _validation_figure(title: str, both: pd.DataFrame) -> Figure:
    figure, axes = style.canvas(3.2)
    axis = axes[0, 0]
    for row in both.reset_index().itertuples():
        look = style.method_style(row.method)
        (dot,) = axis.plot(100 * row.validation, 100 * row.test, look.marker, color=look.colour, markersize=5)
        scores = f"{100 * row.validation:.1f} % in validation, {100 * row.test:.1f} % in the test"
        svg.tips(dot, f"{labels.method_label(row.method)}: {scores}")
    for which in dict.fromkeys(both[column].idxmax() for column in ("validation", "test")):
        text = style.drawn(labels.method_label(which[both.index.names.index("method")]))
        at = tuple(100 * both.loc[which, ["validation", "test"]])
        axis.annotate(text, at, (-5, 4), textcoords="offset points", fontsize=8, ha="right")
    axis.margins(0.15)
    axis.set(xlabel="validation MAP@R of the best trial, %", ylabel="test MAP@R, %")
    axis.set_title(title, fontsize=9)
    style.family_legend(figure, list(both.index.get_level_values("method")))
    return figure
