"""Charts that chapters share."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from dmlrc.report import labels, style, svg
from dmlrc.report.tables import METHODS, NEWER, Methods


def panel(height: float, title: str = "", **settings: object) -> tuple[Figure, Axes]:
    """A figure of one panel of this height (inches) under a title. settings: of the axes, as xlabel."""
    figure, axes = style.canvas(height)
    axes[0, 0].set_title(title, fontsize=9)
    axes[0, 0].set(**settings)
    return figure, axes[0, 0]


def mark(axis: Axes, x: object, y: object, tip: str, *form: str, **look: object) -> None:
    """Draw a mark or a line (`Axes.plot`) that says what it is when a reader points at it."""
    [drawn] = axis.plot(x, y, *form, **look)
    svg.tips(drawn, tip)


def legend(
    figure: Figure, looks: Mapping[str, Mapping[str, object]], loc: str = "lower", ncols: int = 3, **settings: object
) -> None:
    """Say outside of the panels, below them or above ("upper"), what looks mean. looks: text -> that of a `Line2D`."""
    handles = [Line2D([], [], label=text, **look) for text, look in looks.items()]
    figure.legend(handles=handles, loc=f"outside {loc} center", ncols=ncols, **settings)


def box(axis: Axes, centre: tuple[float, float], text: str, under: str, colour: str, **size: float) -> None:
    """Draw a box with a heading and what stands under it. size: width and height."""
    (x, y), width, height = centre, size.get("width", 6.4), size.get("height", 1.3)
    look = {"boxstyle": "round,pad=0,rounding_size=0.2", "facecolor": "white", "edgecolor": colour}
    axis.add_patch(FancyBboxPatch((x - width / 2, y - height / 2), width, height, **look))
    axis.text(x, y + height / 2 - 0.42, text, ha="center", va="center", fontsize=10, fontweight="bold")
    lines = under.split("\n")  # one by one, for a browser's letters are not as wide as Matplotlib's
    for place, line in enumerate(lines):
        axis.text(x, y - 0.3 + 0.36 * ((len(lines) - 1) / 2 - place), line, ha="center", va="center", fontsize=9)


def arrow(axis: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw an arrow from one place to another."""
    axis.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=10, color="black", linewidth=1))


def forest(axis: Axes, rows: pd.DataFrame, width: float = 1.5, size: float = 6, faint: float = 1) -> None:
    """Draw a dot and its 95 % interval in each row, the first on top.

    rows: value, low, high (NaN: no interval) and tip (what is shown when a reader points at the dot). May have: place
    (default: one below the other), colour and marker (default: of the method that the index names), alpha, and shade
    (of the ground of the row, or ""). width: of the intervals. size: of the dots. faint: intervals' alpha over dots'.
    """
    looks = [style.method_style(str(name)) for name in rows.index]
    defaults = {"place": range(len(rows)), "colour": [look.colour for look in looks], "alpha": 1.0, "shade": ""}
    defaults["marker"] = [look.marker for look in looks]
    for row in rows.assign(**{name: values for name, values in defaults.items() if name not in rows}).itertuples():
        if row.shade:
            axis.axhspan(row.place - 0.5, row.place + 0.5, color=row.shade, alpha=0.15, linewidth=0)
        interval = {"color": row.colour, "alpha": faint * row.alpha, "linewidth": width}
        axis.plot([row.low, row.high], [row.place, row.place], **interval)
        look = {"color": row.colour, "alpha": row.alpha, "marker": row.marker, "markersize": size}
        mark(axis, row.value, row.place, row.tip, **look)


def method_dots(title: str, rows: pd.DataFrame, xlabel: str, handles: Sequence[Artist] = (), **look: float) -> Figure:
    """A `forest` of methods, the first on top. handles: for the legend, behind the families. look: of `forest`."""
    names = list(rows.index)
    figure, axis = panel(1.2 + 0.2 * len(rows), title)
    forest(axis, rows, **look)
    style.method_rows(axis, names)
    axis.set_xlabel(xlabel)
    style.family_legend(figure, names, handles)
    return figure


def years(axis: Axes, frame: pd.DataFrame, methods: Methods = METHODS, hollow: bool = False) -> None:
    """Draw `tables.measured_by_year`, in percent, and its trend: red without the two losses of 2006."""
    for part, colour, width in ((frame, "black", 1.2), (frame[frame["year"] >= NEWER], style.RED, 2.6)):
        if part["year"].nunique() > 1:
            style.trend(axis, part["year"], 100 * part["value"], colour, width)  # the red one is short
    for row in frame.itertuples():
        look, tip = style.method_style(row.method), f"{labels.method_label(row.method, methods)}, {row.year}"
        marks = {"color": look.colour, "markerfacecolor": "white" if hollow else look.colour, "markersize": 5}
        mark(axis, row.year, 100 * row.value, f"{tip}: {100 * row.value:.1f} %", look.marker, **marks)


def panels_of_years(figure: Figure, axes: np.ndarray, panels: Mapping[str, pd.DataFrame]) -> Figure:
    """Hide the axes that have no panel of `years`, and name what all have in common. axes: (rows, columns)."""
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel("P@1, %")
    style.family_legend(figure, [name for frame in panels.values() for name in frame["method"]])
    return figure


def draw_lines(
    axis: Axes,
    lines: pd.DataFrame,
    tips: Mapping[str, str] = MappingProxyType({}),
    halves: pd.DataFrame | None = None,
    aside: Sequence[float] | None = None,
    **look: object,
) -> dict[str, tuple[float, float]]:
    """Draw a line a method, and return where each ends, for `style.name_ends`.

    lines: a column a method, over the index. tips: what is shown when a reader points at a line, default its method.
    halves: of the intervals. aside: how far each line is moved along the axis, so that intervals do not overlap.
    """
    ends = {}
    for place, name in enumerate(lines):
        known = slice(lines[name].first_valid_index(), lines[name].last_valid_index())
        line, own = lines[name].loc[known], style.method_style(name)
        marks = {"color": own.colour, "linestyle": own.dashes, "marker": own.marker, "markersize": 4, "elinewidth": 0.7}
        half = None if halves is None else halves[name].loc[known]
        at = line.index + (0 if aside is None else aside[place])
        drawn, *_ = axis.errorbar(at, line, half, **marks | look)
        svg.tips(drawn, tips.get(name, labels.method_label(name)))
        if line.notna().any():
            ends[name] = at[-1], line.iloc[-1]
    return ends
