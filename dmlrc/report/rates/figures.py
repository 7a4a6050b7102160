"""How the rate moves the methods, drawn."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from dmlrc.report import labels
from dmlrc.report.rates.page import best_rate
from dmlrc.report.style import GREY, canvas, method_style


def draw(grids: Mapping[str, pd.DataFrame]) -> Figure:
    """Validation MAP@R of the best trial against the rate, a line a method, a panel a data set.

    grids: title -> `page.best_trials`. Dotted: the rate whose mean over the methods is highest.
    """
    figure, axes = canvas(0.6 + 2.6 * len(grids), rows=len(grids))
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
        axis.axvline(best_rate(best), color=GREY, linestyle=":", linewidth=1)
        axis.set(xscale="log", ylabel="validation MAP@R, %", title=title)
        axis.grid(visible=False, axis="x")
    axes[-1, 0].set_xlabel("learning rate of all methods")
    handles = {
        label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, fontsize=8)
    return figure
