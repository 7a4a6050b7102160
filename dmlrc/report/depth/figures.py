"""Depths of training, drawn."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from dmlrc.report import labels, style, svg
from dmlrc.report.depth.measures import Depth


def order_figure(found: Mapping[str, Sequence[Depth]]) -> list[Figure]:
    """The scores around their mean at each depth, a line a method, with 95 % intervals. Title -> `depths`.

    In percent of that mean, which rises with depth; Omniglot's is of other images and several times as high. What is
    drawn is what a ranking is made of.
    """
    return [_order_figure(title, depths) for title, depths in found.items()]


def _order_figure(title: str, depths: Sequence[Depth]) -> Figure:
    figure, axes = style.canvas(3.8)
    axis, ends = axes[0, 0], {}
    told = [depth.compared.summary for depth in depths]
    for number, name in enumerate(told[0].index):
        look = style.method_style(name)
        places = pd.Series(
            {place: 100 * (each["mean"][name] / each["mean"].mean() - 1) for place, each in enumerate(told)}
        )
        halves = [50 * (each["high"][name] - each["low"][name]) / each["mean"].mean() for each in told]
        # side by side, so that intervals at one place can be told apart
        bars = axis.errorbar(
            places.index + 0.02 * (number - len(told[0]) / 2),
            places,
            halves,
            color=look.colour,
            linestyle=look.dashes,
            marker=look.marker,
            markersize=5,
            elinewidth=0.7,
        )
        svg.tips(bars[0], labels.method_label(name))
        ends[name] = (places.index[-1], places.iloc[-1])
    axis.set_xticks(range(len(depths)), [depth.label.replace(" ", "\n", 1) for depth in depths])
    axis.set(xlim=(-0.3, len(depths) - 0.7), ylabel="MAP@R, % from the mean")
    axis.set_title(title, fontsize=9)
    axis.grid(visible=False, axis="x")
    style.name_ends(axis, ends)
    style.family_legend(figure, list(ends))
    return figure
