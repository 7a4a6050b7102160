"""The figures of Roth et al. 2020 (1 to 5 and 7), drawn from the numbers of `page`."""

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from dmlrc.records import StudyRecords
from dmlrc.report import charts, common, style, svg, titles
from dmlrc.report.common import R1, ByStudy
from dmlrc.report.roth2020 import page
from dmlrc.report.roth2020.page import FACTORS, REGULARISED, SAMPLERS, roth_label, value_label
from dmlrc.report.style import BLUE, GREEN, GREY, ORANGE, RED

MARKERS = dict.fromkeys(("margin_12", "triplet_random", "proxy_nca"), "o")
MARKERS |= {"multi_similarity": "^", "histogram": "v", "softmax": "s"}
"""The losses of the sweeps; those of one family are of one colour."""
CENTRE = {"loc": "center", "frameon": False}
SYMBOLS = {"pi_intra": "$\\pi_{intra}$", "pi_inter": "$\\pi_{inter}$", "pi_ratio": "$\\pi_{ratio}$", "rho": "$\\rho$"}


def draw_regularisation(panels: Mapping[str, pd.DataFrame]) -> Figure:
    """roth-f1: mean R@1 and standard deviation of each pair, without (hollow) and with (filled) regularisation."""
    rows = -(-len(panels) // 2)
    figure, axes = style.canvas(0.6 + 1.8 * rows, rows, 2, sharey=True)
    places = np.arange(len(REGULARISED))
    without = {"color": ORANGE, "marker": "o", "markerfacecolor": "white", "linestyle": ""}
    regularised = {"color": GREEN, "marker": "s", "linestyle": ""}
    for axis, (title, frame) in zip(axes.flat, panels.items(), strict=False):
        for prefix, look, shift in (("", without, -0.13), ("r_", regularised, 0.13)):
            means, stds = 100 * frame[f"{prefix}mean"], 100 * frame[f"{prefix}std"].fillna(0.0)
            axis.errorbar(means, places + shift, xerr=stds, markersize=5, capsize=2, **look)
        axis.set_title(title, fontsize=9)
        axis.set(yticks=places, yticklabels=map(roth_label, REGULARISED.values()), ylim=(len(places) - 0.5, -0.5))
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    charts.legend(figure, {"without": without, "with ρ-regularisation": regularised}, "upper", 2)
    figure.supxlabel("R@1, %", fontsize=10)
    return figure


def draw_influence(title: str, sweeps: Mapping[str, ByStudy]) -> Figure:
    """roth-f2: share of the best value against the value; a figure a study, a panel a factor, a line a loss."""
    own = {factor: by_study[title] for factor, by_study in sweeps.items() if title in by_study}
    figure, axes = style.canvas(5.6, -(-len(sweeps) // 2), 2, sharey=True)
    for axis, factor in zip(axes.flat, sweeps, strict=False):
        if factor in own:
            _lines(axis, page.influence(own[factor]), factor)
        else:
            _blank(axis, "not run")
        axis.set_xlabel(FACTORS[factor][1], fontsize=9)
    for axis in axes.flat[len(sweeps) :]:
        axis.axis("off")
        looks = _looks(own.values())
        axis.legend(handles=[Line2D([], [], label=text, **look) for text, look in looks.items()], **CENTRE)
    figure.suptitle(title, fontsize=9)
    figure.supylabel("share of the loss's best value, mean over the metrics, %", fontsize=10)
    return figure


def _lines(axis: Axes, shares: pd.DataFrame, factor: str) -> None:
    def number(value: str) -> float:  # values without one come last
        digits = value.removeprefix(FACTORS[factor][0]).removesuffix("px")
        return float(digits) if re.fullmatch(r"[\d.e-]*\d", digits) else np.inf

    order = sorted(shares.index, key=lambda value: (number(value), value))
    for row in (name for name in MARKERS if name in shares):
        look, values = style.method_style(row), 100 * shares[row].reindex(order)
        thin = {"markersize": 4, "linewidth": 1.2, "linestyle": look.dashes}
        charts.mark(axis, range(len(order)), values, roth_label(row), color=look.colour, marker=MARKERS[row], **thin)
    axis.set_xticks(range(len(order)), [_tick(value, factor) for value in order], fontsize=8)
    axis.set_xlim(-0.3, len(order) - 0.7)


def _tick(value: str, factor: str) -> str:
    """A value under its tick: a trunk in short lines, others as `value_label`, a size with its unit."""
    if factor != "trunks":
        return value_label(value, factor)
    trunk, kind = titles.trunk_level(value)
    return "\n".join([*titles.TRUNKS.get(trunk, trunk).replace("-", "- ").split(), kind]).strip()


def _looks(sweeps: Iterable[StudyRecords]) -> dict[str, dict[str, object]]:
    """The colours and markers of the losses of these sweeps, by their labels."""
    known = {row for records in sweeps for row in page.influence(records)}
    dots = {name: {"marker": marker, "markersize": 5} for name, marker in MARKERS.items() if name in known}
    return {roth_label(name): {**dot, "color": style.method_style(name).colour} for name, dot in dots.items()}


def _blank(axis: Axes, text: str) -> None:
    axis.text(0.5, 0.5, text, transform=axis.transAxes, ha="center", va="center", color=GREY)
    axis.set_xticks([])


def draw_effects(sweeps: Mapping[str, ByStudy]) -> list[Figure]:
    """Draw the lead of each factor's best value over the worst, a dot per loss; diamonds: best loss over worst."""
    drawings, factors = [], list(FACTORS)
    for name, part in page.factor_effects(sweeps).groupby("study", sort=False):
        own = {factor: by_study[name] for factor, by_study in sweeps.items() if name in by_study}
        figure, axis = charts.panel(3.4, xlabel="worst below best, share of the best score, %")
        _dots(axis, part, own)
        axis.set_yticks(range(len(factors)), [FACTORS[factor][1].replace(", ", ",\n") for factor in factors])
        axis.set(ylim=(len(factors) - 0.45, -0.5), xlim=(0, None))
        axis.set_title(name, fontsize=9, loc="left")
        looks = _looks(own.values()) | {"between the losses": {"color": RED, "marker": "D", "markersize": 5}}
        without_lines = {label: {**look, "linestyle": "none"} for label, look in looks.items()}
        charts.legend(figure, without_lines, "upper", fontsize=8)
        drawings.append(figure)
    return style.share_axes(drawings)


def _dots(axis: Axes, frame: pd.DataFrame, sweeps: Mapping[str, StudyRecords]) -> None:
    """The dots and diamonds of a study. frame: its rows of `factor_effects`."""
    factors = list(FACTORS)
    below = dict(zip(MARKERS, np.linspace(0, 0.4, len(MARKERS)), strict=True))  # each loss its own, or it hides others
    for row in frame.itertuples():
        y, colour = factors.index(row.factor) + below.get(row.row, 0.2), style.method_style(row.row).colour
        tip = f"{roth_label(row.row)}: {100 * row.effect:.1f} %, best at {value_label(row.best, row.factor)}"
        charts.mark(axis, 100 * row.effect, y, tip, MARKERS.get(row.row, "o"), color=colour, markersize=4.5)
    for factor, records in sweeps.items():
        for value, spread in page.loss_spread(records).items():
            tip = f"the losses at {value_label(value, factor)}: {100 * spread:.1f} %"
            charts.mark(axis, 100 * spread, factors.index(factor) - 0.22, tip, "D", color=RED, markersize=4.5)


def draw_samplers(title: str, records: StudyRecords) -> Figure:
    """roth-f3: the shares of all pairs of loss and metric for each batch sampler, a figure a study; bars: quartiles."""
    names, frame, (figure, axis) = list(SAMPLERS), page.normalised(records), charts.panel(2.8, title)
    frame = frame[frame["value"].isin(names)]
    shares, rows = 100 * frame["score"], frame["value"]
    look = {"color": GREY, "fill": False, "fliersize": 0, "linewidth": 1}
    sns.boxplot(x=shares, y=rows, order=names, ax=axis, **look)
    axis.scatter(shares, style.jitter(rows.map(names.index)), s=6, color=BLUE, alpha=0.6, zorder=3)
    axis.set_yticks(range(len(names)), SAMPLERS.values())
    axis.set(xlabel="share of the best sampler, %", ylabel="")
    return figure


def draw_correlations(title: str, experiments: Sequence[StudyRecords]) -> Figure:
    """roth-f4: Pearson's correlations between the metrics over all runs, a heatmap a study."""
    matrix, runs = page.correlations(experiments)
    figure, axis = charts.panel(3.9, f"{title}: {runs:,} runs")
    texts = list(map(common.metric_label, matrix))
    look = {"vmin": -1, "vmax": 1, "cmap": "RdBu_r", "cbar": False, "annot_kws": {"fontsize": 7}}
    sns.heatmap(matrix.to_numpy(), annot=True, fmt=".2f", xticklabels=texts, yticklabels=texts, ax=axis, **look)
    axis.tick_params(axis="x", rotation=90, labelsize=8)
    axis.tick_params(axis="y", rotation=0, labelsize=8)
    return figure


def draw_structure(title: str, records: StudyRecords) -> Figure:
    """roth-f5: R@1 against the four properties of the training embeddings, a figure a study, a point a method."""
    frame, (figure, axes) = page.structure(records), style.canvas(4.5, 2, 2)
    for axis, (prop, text) in zip(axes.flat, SYMBOLS.items(), strict=True):
        inside, regularised = page.counted_rows(frame, prop), frame[frame["group"] == "regularised"]
        aside = frame.drop(index=[*inside.index, *regularised.index])
        for part, colour, marker in ((inside, BLUE, "o"), (regularised, GREEN, "s"), (aside, GREY, "x")):
            scores = 100 * part[R1]
            dots = axis.scatter(part[prop], scores, s=16, color=colour, marker=marker)
            svg.tips(dots, [f"{roth_label(name)}: R@1 {score:.1f} %" for name, score in scores.items()])
        if prop in page.SCALED and len(unit := frame[frame["unit"]][prop].dropna()):
            pad = 0.1 * (unit.max() - unit.min()) or 0.1
            axis.set_xlim(unit.min() - pad, unit.max() + pad)  # else those of another scale press all others together
        test = page.correlate(frame, prop)
        axis.set_title("too few" if np.isnan(test.low) else f"r = {page.interval(test)}, n = {test.n}", fontsize=8)
        axis.set_xlabel(text)
    for axis in axes[:, 0]:
        axis.set_ylabel("R@1, %")
    figure.suptitle(title, fontsize=9)
    looks = {"counted": (BLUE, "o"), "with ρ-regularisation": (GREEN, "s")}
    dots = {text: {"color": colour, "marker": marker} for text, (colour, marker) in looks.items()}
    charts.legend(figure, {text: {**dot, "markersize": 4, "linestyle": ""} for text, dot in dots.items()}, fontsize=8)
    return figure


def draw_spectra(title: str, records: StudyRecords) -> Figure:
    """roth-f7: singular values of the training embeddings, a figure a study, a panel a pair; bands: all seeds."""
    frame = page.spectra(records)
    figure, axes = style.canvas(5.4, -(-len(REGULARISED) // 2), 2, sharex=True)
    for axis, (regularised, plain) in zip(axes.flat, REGULARISED.items(), strict=False):
        for method, colour, dashes, text in ((plain, BLUE, "-", "without"), (regularised, RED, "--", "with")):
            part = frame[frame["method"] == method]
            look = {"color": colour, "linestyle": dashes, "label": text}
            common.band(axis, part["place"], part["mean"], part["low"], part["high"], **look)
        axis.set_title(roth_label(plain), fontsize=9)
        if frame["method"].isin([plain, regularised]).any():
            axis.set_yscale("log")
            axis.yaxis.set_minor_formatter(NullFormatter())
        else:
            _blank(axis, "not run")
    handles, texts = axes[0, 0].get_legend_handles_labels()
    for axis in axes.flat[len(REGULARISED) :]:
        axis.axis("off")
        axis.legend(handles, texts, **CENTRE)
    figure.suptitle(title, fontsize=9)
    figure.supxlabel("place of the singular value", fontsize=10)
    figure.supylabel("share of the sum", fontsize=10)
    return figure
