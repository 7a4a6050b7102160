"""The look of figures: the canvas, the colours, and the style of a method in every figure.

Drawn narrow (4.5 inches) so that the letters can be read on a phone, on white so that they can be read in print
and on a dark page. Colours are those of Okabe and Ito, which the colour-blind tell apart. The colour of a method is its
family's: the two losses of 2006 black, losses of pairs and tuples blue, losses of proxies and class vectors orange.
Losses after 2019 are diamonds. Ours are filled, published numbers hollow; what papers claim is grey. Data sets and
trunks in one panel have marks and greys of their own: `GROUPS`.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from dmlrc import papers
from dmlrc.methods import Method
from dmlrc.papers import after2019
from dmlrc.records import PRETRAINED
from dmlrc.report import labels, svg, titles
from dmlrc.report.tables import CLASSICS, METHODS, Methods

WIDTH = 4.5
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, GREY, LIGHT = "#CC79A7", "#56B4E9", "#666666", "#999999"
LAST_YEAR = 2019
"""Of the losses that the five papers compare."""
_ALL = [*after2019.METHODS, *(method for paper in reversed(papers.ALL) for method in paper.methods)]
UNTRAINED = {"color": GREY, "linestyle": "--", "linewidth": 1}
"""The line at which the trunk stands before any training."""


@dataclass(frozen=True)
class Style:
    """The look of a method in every figure."""

    colour: str
    marker: str = "o"

    @property
    def dashes(self) -> str:
        return "--" if self.colour == ORANGE else "-"


def _of_family(method: Method) -> Style:
    """Black: the classics, also in the forms that other papers give them."""
    classic = method.name.removeprefix("r_").startswith(CLASSICS)
    colour = "black" if classic else ORANGE if method.kind == "classification" else BLUE
    return Style(colour, "D" if (method.year or 0) > LAST_YEAR else "o")


STYLES = {method.row: _of_family(method) for method in _ALL}
FAMILIES = {
    "contrastive, triplet": Style("black"),
    "pairs and tuples": Style(BLUE),
    "proxies and classes": Style(ORANGE),
    "your own": Style(GREEN, "*"),
}
GROUPS = (Style("black"), Style(GREY, "^"), Style(LIGHT, "s"), Style(GREY, "v"), Style("black", "P"), Style(LIGHT, "X"))
"""Of data sets, studies or trunks in one panel, in this order; a mark tells neighbours apart where greys do not."""
METRICS = {
    "precision_at_1": Style(BLUE),
    "recall_at_4": Style(SKY),
    "r_precision": Style(GREEN),
    "map_at_r": Style(RED),
    "map_at_c": Style(ORANGE, "s"),
    "nmi": Style("black", "D"),
    "f1": Style(PURPLE, "s"),
}


def method_style(method: str) -> Style:
    """A method's style; a method that is none of the papers' is a green star, and looks like `FAMILIES` of its own."""
    return STYLES.get(method, FAMILIES["your own"])


def family_legend(figure: Figure, names: Sequence[str], handles: Sequence[Line2D] = ()) -> None:
    """Below the figure, what the colours and marks of these methods mean, and these handles behind them."""
    styles = {method_style(name) for name in names if name != PRETRAINED}
    colours = {look.colour for look in styles}
    families = [_handle(look, text) for text, look in FAMILIES.items() if look.colour in colours]
    if any(look.marker == "D" for look in styles):
        families.append(_handle(Style(GREY, "D"), f"after {LAST_YEAR}"))
    figure.legend(handles=[*families, *handles], loc="outside lower center", ncols=3, fontsize=8, columnspacing=1.2)


def _handle(look: Style, text: str) -> Line2D:
    return Line2D([], [], color=look.colour, marker=look.marker, markersize=5, linestyle="none", label=text)


def untrained_line(axis: Axes, value: float, across: bool = False, start: float = 0.2) -> None:
    """The labelled line of the trunk before any training, in percent; across: on the vertical axis. NaN: none.

    start: where the label of a line across begins, a share of the width; else it stands at the foot of the line.
    """
    if np.isnan(value):
        return
    look = {"color": GREY, "fontsize": 7.5}
    if across:
        axis.axhline(value, **UNTRAINED)
        ground = {"facecolor": "white", "linewidth": 0, "pad": 0.5}  # or lines and dots strike the word through
        place = (start, value), (0, 3), axis.get_yaxis_transform(), "offset points"
        axis.annotate("untrained", *place, bbox=ground, zorder=4, **look)
    else:
        axis.axvline(value, **UNTRAINED)
        axis.annotate("untrained", (value, 0), (2, 2), axis.get_xaxis_transform(), "offset points", **look)


def trend(axis: Axes, years: pd.Series, values: pd.Series, colour: str, width: float = 1.2) -> None:
    """Draw the least-squares line of values over the years."""
    line = {"color": colour, "linewidth": width, "zorder": 3}  # above the dots, which would hide it
    sns.regplot(x=years, y=values, ci=None, scatter=False, line_kws=line, color=colour, ax=axis)
    axis.set(xlabel="", ylabel="")


def untrained_curve(axis: Axes, curve: pd.Series) -> None:
    """Draw the line of an untrained linear layer (`starts.by_dimension`), percent, as far as the axis reaches."""
    low, high = axis.get_xlim()
    shown = 100 * curve[(curve.index >= low) & (curve.index <= high)]
    (line,) = axis.plot(shown.index, shown, color=GREY, linestyle="--", linewidth=1.2, label="untrained")
    svg.tips(line, "untrained: a random linear layer")


def name_ends(
    axis: Axes, ends: Mapping[str, tuple[float, float]], label: Callable[[str], str] = labels.method_label
) -> None:
    """Name lines at their right ends, moved apart where their names would overlap. ends: method -> where it ends."""
    names = sorted(ends, key=lambda name: ends[name][1])
    low, high = axis.get_ylim()
    inches = axis.get_position().height * axis.figure.get_size_inches()[1]
    step = np.arange(len(names)) * 0.14 * (high - low) / inches
    # the least moved places within the frame, in the lines' own order, at which neighbours are a step apart
    places = isotonic_regression([ends[name][1] for name in names] - step).x if names else np.empty(0)
    places = places.clip(low, max(low, high - step[-1:].sum())) + step
    look = {"textcoords": axis.get_yaxis_transform(), "fontsize": 8, "va": "center", "annotation_clip": False}
    # to the left edge of the name; dashed, since some cross what is drawn beyond the end of their line
    line = {"arrowstyle": "-", "linewidth": 0.6, "linestyle": (0, (3, 5)), "shrinkA": 0, "relpos": (0, 0.5)}
    for name, place in zip(names, places, strict=True):
        arrow = line | {"color": method_style(name).colour}
        axis.annotate(escape_math(label(name)), ends[name], (1.03, place), arrowprops=arrow, **look)


def share_axes(drawings: Sequence[Figure]) -> list[Figure]:
    """The figures, with one scale of the horizontal axes for all of them."""
    axes = [axis for drawing in drawings for axis in drawing.axes]
    limits = [axis.get_xlim() for axis in axes]
    for axis in axes:
        axis.set_xlim(min(map(min, limits)), max(map(max, limits)))
    return list(drawings)


def canvas(height: float, rows: int = 1, columns: int = 1, **settings) -> tuple[Figure, np.ndarray]:
    """A figure of the book's width and this height (inches), and its axes (rows, columns), one where there is none."""
    sizes = dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize"), 10)
    sizes |= dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 9)
    # titles at a fixed height, and spines, which lie on the edges, need no layout: the same drawing, sooner
    sns.set_theme(context="paper", style="whitegrid", rc=sizes | {"axes.titley": 1.0})
    settings |= {"figsize": (WIDTH, height), "layout": "constrained", "squeeze": False}
    figure, axes = plt.subplots(max(rows, 1), max(columns, 1), **settings)
    for axis in figure.axes:
        axis.spines[:].set_in_layout(False)
    return figure, axes


def jitter(positions: ArrayLike) -> np.ndarray:
    """Positions (n,) moved a little, each time alike, to lie apart; seaborn's jitter takes the global random state."""
    places = np.asarray(positions, dtype=float)
    return places + np.random.default_rng(0).uniform(-0.12, 0.12, len(places))


def narrow(title: str) -> str:
    """The title of a panel of which three stand side by side, on two lines where it is long.

    >>> narrow("SOP"), narrow("first-runs/cars196crops-frozen")
    ('SOP', 'Cars crops\\n(first run)')
    """
    return "\n".join(textwrap.wrap(titles.in_label(title), 16))


def escape_math(name: str) -> str:
    """A name that a user gave, as Matplotlib shows it as it is: dollar signs would make it a formula.

    >>> print(escape_math("$a$"))
    \\$a\\$
    """
    return " ".join(name.split()).replace("$", r"\$")


def method_rows(axis: Axes, names: Sequence[str], methods: Methods = METHODS) -> None:
    """Methods down the vertical axis, the first on top."""
    texts = [escape_math(labels.method_label(name, methods)) for name in names]
    axis.set(yticks=range(len(names)), yticklabels=texts, ylabel="")
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.xaxis.set_major_locator(MaxNLocator(5))
