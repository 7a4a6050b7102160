"""Depths of training, drawn."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dmlrc.report import charts, style
from dmlrc.report.depth.measures import ALL, Depth


def order(title: str, depths: Sequence[Depth]) -> Figure:
    """The scores around their mean at each depth, a line a method, with 95 % intervals.

    In percent of that mean, which rises with depth. What is drawn is what a ranking is made of. Everything is trained
    on Omniglot, which has other images, so no line leads there.
    """
    figure, axis = charts.panel(3.8, title)
    found = [each.compared.summary for each in depths]
    shares = pd.DataFrame([100 * (each["mean"] / each["mean"].mean() - 1) for each in found], range(len(found)))
    halves = pd.DataFrame([50 * (each["high"] - each["low"]) / each["mean"].mean() for each in found])
    halves.index = shares.index
    apart = {"markersize": 5, "aside": 0.02 * (np.arange(len(shares.columns)) - len(shares.columns) / 2)}
    joined = [depth.label != ALL for depth in depths]
    ends = charts.curves(axis, shares[joined], halves=halves[joined], **apart)
    if not all(joined):
        alone = ~np.array(joined)
        ends = charts.curves(axis, shares[alone], halves=halves[alone], linestyle="none", **apart)
    axis.set_xticks(range(len(depths)), [depth.label.replace(" ", "\n", 1) for depth in depths])
    axis.set(xlim=(-0.3, len(depths) - 0.7), ylabel="MAP@R, % from the mean")
    axis.grid(visible=False, axis="x")
    style.name_ends(axis, ends)
    style.family_legend(figure, list(ends))
    return figure
