"""The figures of Roth et al. 2020 (1 to 5 and 7), drawn from the numbers of `roth2020`."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from dmlrc.records import StudyRecords
from dmlrc.report import common, labels, style, svg, titles
from dmlrc.report.common import ByStudy
from dmlrc.report.roth2020.numbers import (
    FACTORS,
    REGULARISED,
    SAMPLERS,
    SCALED,
    STRUCTURE,
    correlation,
    correlations,
    counted,
    effects,
    in_order,
    influence,
    loss_spread,
    normalised,
    roth_label,
    sampler_gap,
    spectra,
    structure,
    value_label,
)
from dmlrc.report.style import BLUE, GREEN, GREY, ORANGE, RED

MARKERS = {
    "margin_12": "o",
    "triplet_random": "o",
    "proxy_nca": "o",
    "multi_similarity": "^",
    "histogram": "v",
    "softmax": "s",
}
"""The losses of the sweeps; those of one family are of one colour."""


def draw_regularisation(panels: Mapping[str, pd.DataFrame]) -> Figure:
    """roth-f1: mean R@1 and standard deviation of each pair, without (hollow) and with (filled) regularisation."""
    rows = -(-len(panels) // 2)
    figure, axes = style.canvas(0.6 + 1.8 * rows, rows, 2, sharey=True)
    names = list(REGULARISED.values())
    for axis, (title, frame) in zip(axes.flat, panels.items(), strict=False):
        for mean, std, colour, marker, face, shift in (
            ("mean", "std", ORANGE, "o", "white", -0.13),
            ("r_mean", "r_std", GREEN, "s", GREEN, 0.13),
        ):
            axis.errorbar(
                100 * frame[mean],
                np.arange(len(names)) + shift,
                xerr=100 * frame[std].fillna(0.0),
                linestyle="",
                color=colour,
                marker=marker,
                markerfacecolor=face,
                markersize=5,
                capsize=2,
            )
        axis.set_title(title, fontsize=9)
        axis.set(
            yticks=range(len(names)), yticklabels=[roth_label(name) for name in names], ylim=(len(names) - 0.5, -0.5)
        )
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    handles = [
        Line2D([], [], color=ORANGE, marker="o", markerfacecolor="white", linestyle="", label="without"),
        Line2D([], [], color=GREEN, marker="s", linestyle="", label="with ρ-regularisation"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    figure.supxlabel("R@1, %", fontsize=10)
    return figure


def draw_influence(sweeps: Mapping[str, ByStudy]) -> list[Figure]:
    """roth-f2: share of the best value against the value; a figure a study, a panel a factor, a line a loss."""
    names = [name for name in next(iter(sweeps.values())) if any(by_study[name] for by_study in sweeps.values())]
    return [_draw_influence(name, {factor: by_study[name] for factor, by_study in sweeps.items()}) for name in names]


def _draw_influence(title: str, sweeps: Mapping[str, StudyRecords | None]) -> Figure:
    figure, axes = style.canvas(5.6, -(-len(sweeps) // 2), 2, sharey=True)
    for axis, (factor, records) in zip(axes.flat, sweeps.items(), strict=False):
        if records is None or (shares := influence(records)).empty:
            _blank(axis, "not run")
        else:
            _lines(axis, shares, factor)
        axis.set_xlabel(FACTORS[factor][1], fontsize=9)
    handles = _loss_handles([records for records in sweeps.values() if records])
    for axis in axes.flat[len(sweeps) :]:
        axis.axis("off")
        axis.legend(handles=handles, loc="center", frameon=False)
    figure.suptitle(title, fontsize=9)
    figure.supylabel("share of the loss's best value, mean over the metrics, %", fontsize=10)
    return figure


def _lines(axis: Axes, shares: pd.DataFrame, factor: str) -> None:
    order = in_order(shares.index, factor)
    for row in (name for name in MARKERS if name in shares):
        look = style.method_style(row)
        (line,) = axis.plot(
            range(len(order)),
            100 * shares[row].reindex(order),
            color=look.colour,
            marker=MARKERS[row],
            linestyle=look.dashes,
            markersize=4,
            linewidth=1.2,
        )
        svg.tips(line, roth_label(row))
    short = [_short(value, factor) for value in order]
    axis.set_xticks(range(len(order)), short, fontsize=8)
    axis.set_xlim(-0.3, len(order) - 0.7)


def _short(value: str, factor: str) -> str:
    """A value under its tick: without what it is a value of, and a trunk in short lines."""
    if factor != "trunks":
        bare = value.removeprefix(FACTORS[factor][0])
        return labels.number(float(bare)) if factor == "decays" else bare
    trunk, kind = titles.trunk_level(value)
    return "\n".join([*labels.TRUNK_LABELS.get(trunk, trunk).replace("-", "- ").split(), kind]).strip()


def _loss_handles(sweeps: Sequence[StudyRecords]) -> list[Line2D]:
    shown = {row for records in sweeps for row in normalised(records)["row"].unique()}
    return [
        Line2D([], [], color=style.method_style(name).colour, marker=marker, markersize=5, label=roth_label(name))
        for name, marker in MARKERS.items()
        if name in shown
    ]


def _blank(axis: Axes, text: str) -> None:
    axis.text(0.5, 0.5, text, transform=axis.transAxes, ha="center", va="center", color=GREY)
    axis.set_xticks([])


def draw_effects(sweeps: Mapping[str, ByStudy]) -> list[Figure]:
    """How far the best value of each factor is above the worst, a dot a loss; diamonds: the best loss above the worst.

    A row a factor, a figure a study; a diamond stands for one value of the factor.
    """
    frame = effects(sweeps)
    drawings = []
    for name, part in frame.groupby("study", sort=False):
        own = {factor: by_study[name] for factor, by_study in sweeps.items() if by_study.get(name)}
        drawings.append(_draw_effects(name, part, own))
    return style.share(drawings, "x")


def _draw_effects(title: str, frame: pd.DataFrame, sweeps: Mapping[str, StudyRecords]) -> Figure:
    figure, axes = style.canvas(3.0)
    axis, factors = axes[0, 0], list(FACTORS)
    for row in frame.itertuples():
        look = style.method_style(row.row)
        (dot,) = axis.plot(
            100 * row.effect,
            factors.index(row.factor) + 0.12,
            MARKERS.get(row.row, "o"),
            color=look.colour,
            markersize=4.5,
        )
        best = value_label(row.best, row.factor)
        svg.tips(dot, f"{roth_label(row.row)}: {100 * row.effect:.1f} %, best at {best}")
    for factor, records in sweeps.items():
        for value, spread in loss_spread(records).items():
            (mark,) = axis.plot(100 * spread, factors.index(factor) - 0.22, "D", color=RED, markersize=4.5)
            svg.tips(mark, f"the losses at {value_label(value, factor)}: {100 * spread:.1f} %")
    axis.set_yticks(range(len(factors)), [FACTORS[factor][1].replace(", ", ",\n") for factor in factors])
    axis.set(ylim=(len(factors) - 0.5, -0.6), xlim=(0, None))
    axis.set_title(title, fontsize=9, loc="left")
    axis.set_xlabel("best above worst, share of the best score, %")
    handles = _loss_handles(list(sweeps.values()))
    handles.append(Line2D([], [], color=RED, marker="D", linestyle="none", markersize=5, label="between the losses"))
    figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=8)
    return figure


def draw_sampler_gaps(by_study: Mapping[str, StudyRecords]) -> list[Figure]:
    """How far each way to fill a batch is above SPC-4, with 95 % intervals over the losses; a figure a study."""
    return style.share([_draw_sampler_gaps(name, records) for name, records in by_study.items()], "x")


def _draw_sampler_gaps(title: str, records: StudyRecords) -> Figure:
    figure, axes = style.canvas(2.3)
    axis, others = axes[0, 0], [key for key in SAMPLERS if key != "spc4"]
    for place, key in enumerate(others):
        gap = sampler_gap(records, key, "spc4")
        if np.isnan(gap.value):
            continue
        half = np.nan_to_num(gap.half)
        bars = axis.errorbar(100 * gap.value, place, xerr=100 * half, fmt="o", color=BLUE, markersize=5, capsize=2)
        told = common.points(gap.value, gap.half)
        svg.tips(bars[0], f"{SAMPLERS[key]} above SPC-4: {told} points, over {gap.n} losses")
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_yticks(range(len(others)), [SAMPLERS[key] for key in others])
    axis.set_ylim(len(others) - 0.5, -0.5)
    axis.set_title(title, fontsize=9, loc="left")
    axis.set_xlabel("mean share above that of SPC-4, points")
    return figure


def draw_samplers(by_study: Mapping[str, StudyRecords]) -> list[Figure]:
    """roth-f3: the shares of all pairs of loss and metric for each batch sampler, a figure a study; bars: quartiles."""
    return style.share([_draw_samplers(name, records) for name, records in by_study.items()], "x")


def _draw_samplers(title: str, records: StudyRecords) -> Figure:
    figure, axes = style.canvas(2.8)
    axis, frame = axes[0, 0], normalised(records)
    frame = frame[frame["value"].isin(SAMPLERS)]
    if frame.empty:
        _blank(axis, "not run")
        return figure
    scores, names = 100 * frame["score"], list(SAMPLERS)
    sns.boxplot(x=scores, y=frame["value"], order=names, color=GREY, fill=False, fliersize=0, linewidth=1, ax=axis)
    axis.scatter(scores, style.jitter(frame["value"].map(names.index)), s=6, color=BLUE, alpha=0.6, zorder=3)
    axis.set_yticks(range(len(names)), SAMPLERS.values())
    axis.set_title(title, fontsize=9)
    axis.set(xlabel="share of the best sampler, %", ylabel="")
    return figure


def draw_correlations(runs_by_study: Mapping[str, Sequence[StudyRecords]]) -> list[Figure]:
    """roth-f4: Pearson's correlations between the metrics over all runs, a heatmap a study."""
    return [_draw_correlations(name, *correlations(experiments)) for name, experiments in runs_by_study.items()]


def _draw_correlations(title: str, matrix: pd.DataFrame, runs: int) -> Figure:
    figure, axes = style.canvas(3.9)
    axis = axes[0, 0]
    if matrix.isna().all(axis=None):
        _blank(axis, "too few runs")
        return figure
    texts = [common.metric_label(metric) for metric in matrix]
    sns.heatmap(
        matrix.to_numpy(),
        vmin=-1,
        vmax=1,
        cmap="RdBu_r",
        annot=True,
        fmt=".2f",
        annot_kws={"fontsize": 7},
        xticklabels=texts,
        yticklabels=texts,
        cbar=False,
        ax=axis,
    )
    axis.tick_params(axis="x", rotation=90, labelsize=8)
    axis.tick_params(axis="y", rotation=0, labelsize=8)
    axis.set_title(f"{title}: {runs:,} runs", fontsize=9)
    return figure


def draw_structure(by_study: Mapping[str, StudyRecords]) -> list[Figure]:
    """roth-f5: R@1 against the four properties of the training embeddings, a figure a study, a point a method.

    Blue circles count in the correlation above the panel; green squares are regularised, grey crosses have embeddings
    of another scale.
    """
    return [_draw_structure(name, structure(records)) for name, records in by_study.items()]


def _draw_structure(title: str, frame: pd.DataFrame) -> Figure:
    figure, axes = style.canvas(4.5, 2, 2)
    for axis, (prop, text) in zip(axes.flat, STRUCTURE.items(), strict=True):
        inside = counted(frame, prop)
        regularised = frame[frame["group"] == "regularised"]
        aside = frame.drop(index=[*inside.index, *regularised.index])
        for part, colour, marker in ((inside, BLUE, "o"), (regularised, GREEN, "s"), (aside, GREY, "x")):
            dots = axis.scatter(part[prop], 100 * part["precision_at_1"], s=16, color=colour, marker=marker)
            scores = zip(part.index, 100 * part["precision_at_1"], strict=True)
            svg.tips(dots, [f"{roth_label(name)}: R@1 {score:.1f} %" for name, score in scores])
        if prop in SCALED and len(unit := frame[frame["unit"]][prop].dropna()):
            axis.set_xlim(_around(unit))  # embeddings of another scale would press all others together
        test = correlation(frame, prop)
        told = f"r = {test.value:+.2f} [{test.low:+.2f}, {test.high:+.2f}], n = {test.n}"
        r = "too few" if np.isnan(test.low) else told
        axis.set_title(r, fontsize=8)
        axis.set_xlabel(text)
    for axis in axes[:, 0]:
        axis.set_ylabel("R@1, %")
    figure.suptitle(title, fontsize=9)
    handles = [
        Line2D([], [], color=colour, marker=marker, markersize=4, linestyle="", label=text)
        for colour, marker, text in ((BLUE, "o", "counted"), (GREEN, "s", "with ρ-regularisation"))
    ]
    if not frame["unit"].all():
        handles.append(Line2D([], [], color=GREY, marker="x", markersize=4, linestyle="", label="not normalised"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _around(values: pd.Series) -> tuple[float, float]:
    pad = 0.1 * (values.max() - values.min()) or 0.1
    return values.min() - pad, values.max() + pad


def draw_spectra(by_study: Mapping[str, StudyRecords]) -> list[Figure]:
    """roth-f7: singular values of the training embeddings, with and without regularisation; a panel a pair.

    A figure a study. Bands: lowest to highest seed.
    """
    return [_draw_spectra(name, spectra(records)) for name, records in by_study.items()]


def _draw_spectra(title: str, frame: pd.DataFrame) -> Figure:
    figure, axes = style.canvas(5.4, -(-len(REGULARISED) // 2), 2, sharex=True)
    for axis, (regularised, plain) in zip(axes.flat, REGULARISED.items(), strict=False):
        for method, colour, dashes, text in ((plain, BLUE, "-", "without"), (regularised, RED, "--", "with")):
            part = frame[frame["method"] == method]
            axis.fill_between(part["place"], part["low"], part["high"], color=colour, alpha=0.2, linewidth=0)
            axis.plot(part["place"], part["mean"], color=colour, linestyle=dashes, linewidth=1.3, label=text)
        axis.set_title(roth_label(plain), fontsize=9)
        if frame["method"].isin([plain, regularised]).any():
            axis.set_yscale("log")
            axis.yaxis.set_minor_formatter(NullFormatter())
        else:
            _blank(axis, "not run")
    handles, texts = axes[0, 0].get_legend_handles_labels()
    for axis in axes.flat[len(REGULARISED) :]:
        axis.axis("off")
        axis.legend(handles, texts, loc="center", frameon=False)
    figure.suptitle(title, fontsize=9)
    figure.supxlabel("place of the singular value", fontsize=10)
    figure.supylabel("share of the sum", fontsize=10)
    return figure
