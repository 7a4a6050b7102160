"""What decides a ranking, drawn."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dmlrc.report import labels, style
from dmlrc.report.decides.measures import Part


def parts_figure(found: Mapping[str, Sequence[Part]]) -> Figure:
    """How far each part moves the methods against one another (bars, 95 %) and together (rings). Title -> `parts`.

    A panel a study; the loss itself is in another colour.
    """
    heights = [0.6 + 0.26 * len(parts) for parts in found.values()]
    figure, axes = style.canvas(0.9 + sum(heights), len(found), gridspec_kw={"height_ratios": heights})
    for axis, (title, parts) in zip(axes[:, 0], found.items(), strict=True):
        for place, part in enumerate(parts):
            colour = style.RED if part.name == "loss" else style.BLUE
            spread = part.against
            axis.barh(place, 100 * spread.value, height=0.6, color=colour, alpha=0.75)
            axis.plot([100 * spread.low, 100 * spread.high], [place, place], color="black", linewidth=1)
            axis.plot(100 * part.together, place, marker="o", markerfacecolor="none", markeredgecolor="black")
        axis.set(yticks=range(len(parts)), yticklabels=[part.name for part in parts], ylim=(len(parts) - 0.4, -0.6))
        axis.set_xlim(left=0)
        axis.set_title(title, fontsize=9)
    axes[-1, 0].set_xlabel("points of MAP@R, standard deviation")
    handles = [
        Line2D([], [], color=style.BLUE, linewidth=6, alpha=0.75, label="against one another"),
        Line2D([], [], color="black", marker="o", markerfacecolor="none", linestyle="none", label="together"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def tuning_figure(searched: Mapping[str, pd.DataFrame], random: Mapping[str, pd.DataFrame]) -> Figure:
    """Validation MAP@R against the number of trials: the search (lines) and random trials (dots). Title -> tables."""
    figure, axes = style.canvas(3.4 * len(searched), len(searched))
    for axis, title in zip(axes[:, 0], searched, strict=True):
        for name in searched[title]:
            look = style.method_style(name)
            line = searched[title][name].dropna()
            axis.plot(line.index, 100 * line, color=look.colour, linestyle=look.dashes, label=labels.method_label(name))
            dots = random[title][name].dropna() if name in random[title] else pd.Series(dtype=float)
            axis.plot(
                dots.index,
                100 * dots,
                color=look.colour,
                marker=look.marker,
                markerfacecolor=look.face,
                markersize=2.5,
                linestyle="none",
                alpha=0.6,
            )
        axis.set(xscale="log", xlabel="trials", ylabel="validation MAP@R, %")
        axis.set_title(title, fontsize=9)
        ticks = [count for count in (1, 2, 5, 10, 20, 50) if count <= len(searched[title])]
        axis.set_xticks(ticks, ticks)
        axis.minorticks_off()
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, fontsize=8)
    return figure


def validation_figure(found: Mapping[str, pd.DataFrame]) -> Figure:
    """Test MAP@R of each repetition against the validation MAP@R of its best trial. Title -> `validation_and_test`."""
    figure, axes = style.canvas(3.2 * len(found), len(found))
    for axis, (title, both) in zip(axes[:, 0], found.items(), strict=True):
        for name, part in both.groupby(level="method", sort=False):
            look = style.method_style(name)
            axis.plot(
                100 * part["validation"],
                100 * part["test"],
                color=look.colour,
                marker=look.marker,
                markerfacecolor=look.face,
                markersize=5,
                linestyle="none",
                label=labels.method_label(name),
            )
        low, high = (np.floor(100 * both.min().to_numpy()), np.ceil(100 * both.max().to_numpy()))
        axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        axis.set(xlabel="validation MAP@R of the best trial, %", ylabel="test MAP@R, %")
        axis.set_title(title, fontsize=9)
    handles = {
        label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, fontsize=8)
    return figure
