"""The figures of Fehervari et al. 2019, drawn from the numbers of `page`."""

from collections.abc import Mapping
from types import MappingProxyType

import pandas as pd
from matplotlib.figure import Figure

from dmlrc.records import StudyRecords
from dmlrc.report import charts, common, labels, style, svg, titles
from dmlrc.report.fehervari2019.page import fehervari_label
from dmlrc.report.style import BLUE, GREY, RED

PROXIES = ("proxy_triplet", "proxy_nca", "proxy_softmax")
GROUPS = {
    "pairs and triplets": ("triplet_semihard", "lifted_structure", "n_pairs", "margin", "angular"),
    "clusters, proxies, lists": ("structured_clustering", "prototypical", *PROXIES, "ranked_list"),
}


def orders_figure(columns: Mapping[str, pd.Series]) -> Figure:
    """The order of the methods by R@1, a column a table, as shares of its length; the two that move most in colour."""
    ranks = pd.DataFrame({name: values.rank(ascending=False) for name, values in columns.items()})
    places = (ranks - 1) / (ranks.max() - 1)
    moves = (places.max(axis=1) - places.min(axis=1)).where(places.notna().sum(axis=1) > 2)
    colours = dict(zip(moves.nlargest(2).index, (BLUE, RED), strict=False))
    figure, axis = charts.panel(4.6)
    for method, row in places.iterrows():
        known = row.dropna()
        steps = [places.columns.get_loc(name) for name in known.index]
        colour = colours.get(method, GREY)
        axis.plot(steps, known, color=colour, linewidth=2 if method in colours else 0.9, alpha=0.9)
        for step, name in zip(steps, known.index, strict=True):
            place = f"{ranks.loc[method, name]:.0f} of {len(columns[name])}"
            score = labels.one_digit(columns[name][method])
            tip = f"{fehervari_label(method)}, {titles.in_label(name)}: R@1 {score} %, place {place}"
            charts.mark(axis, step, known[name], tip, "o", color=colour, markersize=4)
        for step, side, align in ((steps[0], -0.12, "right"), (steps[-1], 0.12, "left")):
            if step in (0, len(places.columns) - 1):
                look = {"color": colours.get(method, "black"), "fontsize": 7.5, "ha": align, "va": "center"}
                axis.text(step + side, row.iloc[step], fehervari_label(method), **look)
    heads = list(map(titles.in_label, columns))
    axis.set_xticks(range(len(heads)), heads, fontsize=7.5, rotation=35, ha="left", rotation_mode="anchor")
    axis.set(xlim=(-1.35, len(heads) + 0.35), ylim=(1.06, -0.06), yticks=[])
    axis.xaxis.tick_top()
    axis.grid(False, axis="y")
    for spine in axis.spines.values():
        spine.set_visible(False)
    return figure


def draw_sweep(
    title: str, records: StudyRecords, xlabel: str, starts: Mapping[str, pd.Series] = MappingProxyType({})
) -> Figure:
    """fehervari-f1 and f2: R@1 against a number that doubles, a panel a family. starts: as `curves_by_dimension`."""
    frame = common.sweep(records)
    figure, axes = style.canvas(4.8, len(GROUPS), sharex=True, sharey=True)
    for axis, (family, members) in zip(axes[:, 0], GROUPS.items(), strict=True):
        for method in members:
            part, look, text = frame[frame["method"] == method], style.method_style(method), fehervari_label(method)
            thin = {"markersize": 4, "linewidth": 1.2, "elinewidth": 0.8, "color": look.colour, "marker": look.marker}
            bars = common.errorbars(axis, part["number"], part, label=text, **thin)
            svg.tips(bars[0], text)
        axis.set_title(family, fontsize=9)
        common.doubling_axis(axis, frame["number"], fontsize=8)
        axis.set_ylabel("R@1, %")
        if title in starts:
            style.untrained_curve(axis, starts[title])
    for axis, members in zip(axes[:, 0], GROUPS.values(), strict=True):  # the scale, which they share, is known now
        last = frame[frame["method"].isin(members)].groupby("method").last()
        style.name_ends(axis, {row.Index: (row.number, 100 * row.mean) for row in last.itertuples()}, fehervari_label)
    axes[-1, 0].set_xlabel(xlabel)
    figure.suptitle(title, fontsize=9)
    return figure
