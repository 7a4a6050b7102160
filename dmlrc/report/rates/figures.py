"""How the rate moves the methods, drawn."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from dmlrc.report import labels
from dmlrc.report.style import canvas, method_style


def draw(grids: Mapping[str, pd.DataFrame]) -> Figure:
    """Validation MAP@R of the best trial against the rate, a line a method, a panel a data set.

    grids: title -> `page.best_trials`.
    """
    figure, axes = canvas(3.6 * len(grids), rows=len(grids))
    for axis, (title, best) in zip(axes[:, 0], grids.items(), strict=True):
        best = best.sort_index()
        for name in best:
            look = method_style(name)
            axis.plot(
                best.index,
                100 * best[name],
                color=look.colour,
                linestyle=look.dashes,
                marker=look.marker,
                markerfacecolor=look.face,
                markersize=5,
                label=labels.method_label(name),
            )
        axis.set(xscale="log", xlabel="learning rate of all methods", ylabel="validation MAP@R, %", title=title)
        axis.legend(ncols=2)
    return figure
