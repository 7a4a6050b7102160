"""The picture of the first page: the lead over the loss of 2006, as papers claim it and as it is measured."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dmlrc.report import charts, style, svg
from dmlrc.report.front_page.page import CHECK, MEASURED, PAPERS

FOUND = "Papers claim two to three times the accuracy of 2006.\nTuned alike, that lead is gone."
"""The picture's title over the published studies."""
ASKED = "The lead over the loss of 2006,\nas papers claim it and as it is measured"
"""Its title over any others."""
HEADS = {
    PAPERS: "claimed by papers of 2017 to 2019",
    CHECK: "tuned alike, by Musgrave et al. in 2020",
    MEASURED: "tuned alike, by us",
}
"""What stands over the rows of each source."""


def claimed_and_measured(leads: pd.DataFrame, title: str) -> Figure:
    """Draw `page.leads`: a bar a claim, a hollow dot a table of the Reality Check, a filled one a study of ours."""
    sources = [name for name in HEADS if (leads["by"] == name).any()]
    figure, axis = charts.panel(0.9 + 0.17 * (len(leads) + 1.3 * len(sources)))
    place, ticks = -1.0, {}
    for by in sources:
        place += 1.3
        axis.text(0, place - 0.1, f" {HEADS[by]}", va="center", fontsize=8.5, fontweight="bold")
        for row in leads[leads["by"] == by].itertuples():
            place += 1
            ticks[place] = style.escape_math(row.where)
            _draw(axis, place, row)
    axis.axvline(0, color="black", linewidth=0.8, zorder=1)
    axis.set(yticks=list(ticks), yticklabels=list(ticks.values()), ylim=(place + 0.7, -0.5))
    axis.set_xlim(min(-6, leads[["low", "value"]].min().min() - 2), 240)
    axis.set(xticks=(0, 100, 200), xticklabels=("contrastive loss\nof 2006", "twice\nits P@1", "three times\nits P@1"))
    axis.tick_params(labelsize=8.5)
    axis.grid(False)
    axis.spines[["left", "right", "top"]].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
    return figure


def _draw(axis: Axes, place: float, row: tuple) -> None:
    text = f"{row.value:+.0f} %" if row.by == PAPERS else f"{row.value:+.1f} %"
    if row.by == PAPERS:
        mark = axis.barh(place, row.value, height=0.7, color="#BBBBBB")[0]
        tip = f"{row.where}, {row.papers} papers: {text} over contrastive"
    else:
        inside = style.BLUE if row.by == MEASURED else "white"
        axis.plot([row.low, row.high], [place, place], color=style.BLUE, linewidth=1.2, zorder=2)
        (mark,) = axis.plot(row.value, place, "o", color=style.BLUE, markerfacecolor=inside, markersize=5.5, zorder=3)
        tip = f"{row.where}, {HEADS[row.by]}: {text} over contrastive"
    if row.low == row.low:
        text = f"{text}  ({row.low:+.1f} to {row.high:+.1f})"
    svg.tips(mark, tip)
    look = {"textcoords": "offset points", "va": "center", "fontsize": 8.5}
    axis.annotate(text.replace("-", "−"), (max(row.value, 0), place), (6, 0), **look)
