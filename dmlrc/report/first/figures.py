"""The pictures of the first page: claims beside measurements, and the verdicts."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from dmlrc.report import published, style, svg, tables, titles
from dmlrc.report.claims.rule import INCONCLUSIVE, NOT_REPRODUCED, NOT_RUN, REPRODUCED, RETRACTED, VERDICTS
from dmlrc.report.style import BLUE, GREY, RED

CLAIMED = dict(zip(published.DATASETS, ("o", "^", "s"), strict=True))
"""The marks of data sets among the claims, which are grey."""
LOOKS = {
    REPRODUCED: {"facecolor": BLUE, "edgecolor": BLUE},
    NOT_REPRODUCED: {"facecolor": RED, "edgecolor": RED},
    INCONCLUSIVE: {"facecolor": "#b5b5b5", "edgecolor": "#b5b5b5"},
    NOT_RUN: {"facecolor": "none", "edgecolor": GREY},
    RETRACTED: {"facecolor": "none", "edgecolor": GREY, "hatch": "xxxx"},
}
"""The squares of verdicts: what was not run is hollow, what is retracted crossed out."""


def claims_beside_measurements(claims: pd.DataFrame, measured: pd.DataFrame) -> Figure:
    """P@1 against the year: left as papers claim it, right as measured, on one scale.

    claims: headline rows of `published.claims()`. measured: `page.measured`. The losses of 2006 are lines, the others
    dots in the colour of their family: hollow those of the Reality Check, filled ours.
    """
    figure, axes = style.canvas(2.8, 1, 2, sharey=True)
    left, right = axes[0]
    for name, marker in CLAIMED.items():
        part = claims[claims["dataset"] == name]
        places = style.jitter(part["year"]), 100 * part["r1"]
        dots = left.scatter(*places, s=14, marker=marker, color=GREY, alpha=0.7, linewidths=0)
        svg.tips(dots, [_claim_tip(row) for row in part.itertuples()])
    _draw_measured(right, measured)
    left.set_title("claimed in papers", loc="left")
    right.set_title("measured, tuned alike", loc="left")
    left.set_ylabel("P@1, %")
    years = (claims["year"].min() - 0.7, max(claims["year"].max(), measured["year"].max()) + 0.7)
    for axis in (left, right):
        axis.set_xlim(years)
        axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    _name_levels(right, measured)
    looks = [Line2D([], [], color=style.method_style(tables.CLASSICS[0]).colour, linewidth=0.8, alpha=0.6)]
    looks[0].set_label("contrastive, triplet")
    looks += [
        Line2D([], [], color=GREY, marker=marker, alpha=0.7, linestyle="none", label=f"claimed on {name}")
        for name, marker in CLAIMED.items()
    ]
    style.family_legend(figure, [name for name in measured["method"] if name not in tables.CLASSICS], looks)
    return figure


def _claim_tip(row: tuple) -> str:
    return f"{row.paper}, {row.year}: {row.method}, {row.dataset}, {row.backbone}: {100 * row.r1:.1f} %"


def _draw_measured(axis: Axes, measured: pd.DataFrame) -> None:
    for row in measured.itertuples():
        look = style.method_style(row.method)
        tip = f"{row.label}, {row.year}, {titles.title(row.where)}: {100 * row.mean:.1f} %"
        if row.method in tables.CLASSICS:
            line = axis.axhline(100 * row.mean, color=look.colour, linewidth=0.8, alpha=0.6)
            svg.tips(line, tip)
            continue
        place = row.year + 0.22 * ((_offset(row.method) % 5) - 2) / 2
        if row.by == "ours":
            axis.errorbar(place, 100 * row.mean, yerr=100 * row.ci95, color=look.colour, linewidth=0.8)
        face = look.colour if row.by == "ours" else "w"
        (dot,) = axis.plot(place, 100 * row.mean, look.marker, color=look.colour, markersize=4, markerfacecolor=face)
        svg.tips(dot, tip)


def _offset(name: str) -> int:
    """A small number that a name always has: where its dot stands within the year."""
    return sum(map(ord, name))


def _name_levels(axis: Axes, measured: pd.DataFrame) -> None:
    """The data sets' names at the right, each led to from the middle of its two lines."""
    classics = measured[measured["method"].isin(tables.CLASSICS)]
    ends = {
        where: (axis.get_xlim()[1], 100 * level) for where, level in classics.groupby("where")["mean"].mean().items()
    }
    named = {where: titles.title(where) + " (paper)" * (where in CLAIMED) for where in ends}
    style.name_ends(axis, ends, named.get, lambda _: GREY)


PALE = 0.4
"""Of a verdict from rows of which most lie below the untrained trunk."""


def verdicts(squares: pd.DataFrame) -> Figure:
    """A strip a paper and study, a square a claim. squares: `page.squares`."""
    strips = squares.groupby(["paper", "study"], sort=False)
    papers = list(dict.fromkeys(squares["paper"]))
    figure, axes = style.canvas(0.6 + 0.2 * len(strips) + 0.24 * len(papers))
    axis = axes[0, 0]
    place, ticks = -0.6, {}
    for (paper, study), part in strips:
        if paper in papers:
            place += 1.2
            axis.text(-0.2, place - 0.15, paper, ha="left", va="center", fontsize=9, fontweight="bold")
            papers.remove(paper)
        place += 1
        ticks[place] = titles.title(study)
        for column, row in enumerate(part.itertuples()):
            square = Rectangle((column, place - 0.4), 0.8, 0.8, linewidth=0.7, **LOOKS[row.verdict])
            square.set_alpha(PALE if row.low else None)
            axis.add_patch(square)
            svg.tips(square, row.tip)
    axis.set(yticks=list(ticks), yticklabels=list(ticks.values()), xticks=[], ylim=(place + 0.6, -0.1))
    axis.set_xlim(-0.3, strips.size().max() + 0.3)
    axis.grid(False)
    for side in axis.spines.values():
        side.set_visible(False)
    handles = [Rectangle((0, 0), 1, 1, label=verdict, **LOOKS[verdict]) for verdict in VERDICTS]
    if squares["low"].any():
        pale = LOOKS[REPRODUCED] | {"alpha": PALE, "label": "faint: rows below the trunk"}
        handles.append(Rectangle((0, 0), 1, 1, **pale))
    figure.legend(handles=handles, loc="outside upper center", ncols=3, handlelength=0.8)
    return figure
