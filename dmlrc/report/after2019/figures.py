"""Figures of claimed and measured scores over the years, and of the losses after 2019 against the best older one."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dmlrc.papers import after2019
from dmlrc.report import charts, labels, published, style, svg
from dmlrc.report.after2019.page import METHODS, SINCE, has_trend
from dmlrc.report.musgrave2020.figures import axis_span
from dmlrc.report.style import GREY, LIGHT, Style

TRUNK_STYLES = {
    "GoogLeNet": Style(LIGHT, "P"),
    "BN-Inception": Style(LIGHT, "s"),
    "ResNet50": Style("black"),
    "ResNet50, 2048-d": Style("black", "v"),
    "ViT": Style(GREY, "^"),
    "other": Style(LIGHT, "X"),
}
"""Claims are grey; the trunk that most papers share stands out."""


def over_the_years(table: pd.DataFrame, panels: Mapping[str, pd.DataFrame]) -> list[Figure]:
    """after2019-trend: claimed R@1 by trunk, a figure a data set, and last what was measured, a panel a study.

    table: `claims_with_trunks`. panels: title -> `tables.measured_by_year`. Lines: of what `has_trend`.
    """
    drawings = [_over_the_years(dataset, table[table["dataset"] == dataset]) for dataset in published.DATASETS]
    return [*style.share_axes(drawings), _measured(panels)]


def _over_the_years(dataset: str, table: pd.DataFrame) -> Figure:
    figure, axis = charts.panel(3.0, f"{dataset}, as papers claim", xlabel="", ylabel="R@1, %")
    for place, (name, look) in enumerate(TRUNK_STYLES.items()):
        part = table[table["trunk"] == name]
        years = part["year"] + 0.11 * (place - (len(TRUNK_STYLES) - 1) / 2)  # side by side within a year
        dots = axis.scatter(years, 100 * part["r1"], s=20, marker=look.marker, color=look.colour, alpha=0.8, label=name)
        svg.tips(dots, [f"{row.paper}, {row.year}: {row.method}, {100 * row.r1:.1f} %" for row in part.itertuples()])
        if name != "other" and has_trend(part):
            slope, offset = np.polyfit(part["year"], 100 * part["r1"], 1)
            ends = np.array([part["year"].min(), part["year"].max()])
            dashes = "-" if look.marker == "o" else "--"
            axis.plot(ends, slope * ends + offset, color=look.colour, linewidth=1.2, linestyle=dashes)
    axis.axvline(SINCE - 0.5, color="black", linewidth=0.8, linestyle=":")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _measured(panels: Mapping[str, pd.DataFrame]) -> Figure:
    rows = -(-len(panels) // 2)
    figure, axes = style.canvas(1.1 + 1.9 * rows, rows, min(len(panels), 2))
    for axis, (title, frame) in zip(axes.flat, panels.items(), strict=False):
        charts.years(axis, frame, after2019.KNOWN)
        if frame.empty:
            axis.text(0.5, 0.5, "not run", ha="center", transform=axis.transAxes)
        ends = axis_span(100 * frame["value"].min(), 100 * frame["value"].max())
        axis.set(ylim=ends, xlabel="", ylabel="", xlim=(2004.5, 2023.5), xticks=(2006, 2014, 2022))
        axis.set_title(f"{title}, measured" if len(panels) == 1 else title, fontsize=9)
    return charts.panels_of_years(figure, axes, panels)


def leads_figure(scores: Mapping[str, pd.DataFrame]) -> Figure:
    """after2019-leads: study -> `page.leads_over_best`, a panel each; the last row has the fourteen."""
    figure, axes = style.canvas(2.9, 1, len(scores), sharey=True)
    for axis, (study, frame) in zip(axes[0], scores.items(), strict=True):
        _draw_leads(axis, 100 * frame)
        axis.set_title(style.narrow(study), fontsize=9)
    names = [method.label for method in METHODS.values()]
    axes[0, 0].set_yticks(range(len(names) + 1), [*names, "older fourteen"])
    axes[0, 0].set_ylim(len(names) + 0.5, -0.5)
    axes[0, len(scores) // 2].set_xlabel("points of MAP@R over the best older loss", fontsize=9)
    style.family_legend(figure, list(METHODS))
    return figure


def _draw_leads(axis: Axes, frame: pd.DataFrame) -> None:
    axis.axvline(0, color="black", linewidth=0.8)
    tips = [f"{labels.method_label(name)}: {lead:+.2f} points" for name, lead in frame["lead"].items()]
    rows, newer = frame.rename(columns={"lead": "value"}).assign(tip=tips), frame.index.isin(METHODS)
    charts.forest(axis, rows[newer].assign(place=rows.index[newer].map(list(METHODS).index)), size=4)
    older = rows[~newer]
    dots = axis.scatter(older["value"], np.full(len(older), len(METHODS)), s=20, color=GREY, alpha=0.5, linewidths=0)
    svg.tips(dots, list(older["tip"]))
