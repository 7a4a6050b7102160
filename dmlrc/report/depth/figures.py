"""Depths of training, drawn."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from dmlrc.report import labels, style
from dmlrc.report.depth.measures import Depth


def order_figure(found: Mapping[str, Sequence[Depth]]) -> Figure:
    """The scores around their mean at each depth, a line a method, with 95 % intervals. Title -> `depths`.

    The mean itself rises with depth, and Omniglot's is of other images: what is drawn is what a ranking is made of.
    """
    figure, axes = style.canvas(3.6 * len(found), len(found))
    for axis, (title, depths) in zip(axes[:, 0], found.items(), strict=True):
        told = [depth.compared.summary for depth in depths]
        for number, name in enumerate(told[0].index):
            look = style.method_style(name)
            places = pd.Series(
                {place: 100 * (each["mean"][name] - each["mean"].mean()) for place, each in enumerate(told)}
            )
            halves = [50 * (each["high"][name] - each["low"][name]) for each in told]
            # side by side, so that intervals at one place can be told apart
            axis.errorbar(
                places.index + 0.02 * (number - len(told[0]) / 2),
                places,
                halves,
                color=look.colour,
                linestyle=look.dashes,
                marker=look.marker,
                markerfacecolor=look.face,
                markersize=5,
                elinewidth=0.7,
                label=labels.method_label(name),
            )
        axis.set_xticks(range(len(depths)), [depth.label.replace(" ", "\n", 1) for depth in depths])
        axis.set(xlim=(-0.3, len(depths) - 0.7), ylabel="MAP@R, points from the mean")
        axis.set_title(title, fontsize=9)
        axis.grid(visible=False, axis="x")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure
