"""How the rate moves the methods, drawn."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from dmlrc.report import labels, svg
from dmlrc.report.rates.page import best_rate
from dmlrc.report.style import GREY, canvas, family_legend, method_style, name_ends


def draw(grids: Mapping[str, pd.DataFrame]) -> list[Figure]:
    """Validation MAP@R of the best trial against the rate, a line a method, a figure a data set.

    grids: title -> `page.best_trials`. Dotted: the rate whose mean over the methods is highest.
    """
    return [_draw(title, best.sort_index()) for title, best in grids.items()]


def _draw(title: str, best: pd.DataFrame) -> Figure:
    figure, axes = canvas(3.4)
    axis = axes[0, 0]
    for name in best:
        look = method_style(name)
        (line,) = axis.plot(
            best.index, 100 * best[name], look.marker, color=look.colour, linestyle=look.dashes, markersize=4
        )
        svg.tips(line, labels.method_label(name))
    axis.axvline(best_rate(best), color=GREY, linestyle=":", linewidth=1)
    axis.set(xscale="log", ylabel="validation MAP@R, %", title=title, xlabel="learning rate of all methods")
    axis.grid(visible=False, axis="x")
    name_ends(axis, {name: (best.index[-1], 100 * best[name].iloc[-1]) for name in best if best[name].notna().iloc[-1]})
    family_legend(figure, list(best))
    return figure
