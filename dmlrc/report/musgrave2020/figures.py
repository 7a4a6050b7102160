"""The figures of Musgrave et al. 2020: each draws computed numbers; nothing is computed here but layout."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from dmlrc.data.splits import Splits
from dmlrc.report import labels, svg, tables, titles
from dmlrc.report.style import (
    BLUE,
    DATASETS,
    GREEN,
    GREY,
    METRICS,
    ORANGE,
    RED,
    canvas,
    jitter,
    method_rows,
    method_style,
)


def toy_spaces(spaces: Mapping[str, tuple[np.ndarray, np.ndarray]], scores: pd.DataFrame) -> Figure:
    """musgrave-f1: the spaces above, the metrics of each below. scores: `untrained.toy_scores`."""
    figure, axes = canvas(5.2, 2, len(spaces), gridspec_kw={"height_ratios": [1, 1.6]})
    grid = axes[1, 0].get_gridspec()
    for axis in axes[1]:
        axis.remove()
    for axis, (title, (points, classes)) in zip(axes[0], spaces.items(), strict=True):
        for label, colour, marker in ((0, BLUE, "o"), (1, ORANGE, "^")):
            chosen = classes == label
            axis.scatter(*points[chosen].T, s=9, color=colour, marker=marker, linewidths=0)
        axis.set(title=title, xticks=[], yticks=[], ylim=(-2.5, 5.5))
    below = figure.add_subplot(grid[1, :])
    sns.heatmap(
        100 * scores.rename(index=labels.METRIC_LABELS),
        vmin=0,
        vmax=100,
        cmap="Blues",
        annot=True,
        fmt=".0f",
        cbar=False,
        linewidths=1,
        ax=below,
    )
    below.set(xticklabels=[], xlabel="score of each space, %", ylabel="")
    below.tick_params(axis="y", rotation=0)
    return figure


def random_scores(scores: pd.DataFrame) -> Figure:
    """musgrave-f2: metrics of random embeddings against the number of classes. scores: `untrained.random_scores`."""
    figure, axes = canvas(3.6)
    axis = axes[0, 0]
    for name in scores.columns.intersection(list(METRICS)):
        look = METRICS[name]
        axis.plot(
            scores.index,
            100 * scores[name],
            color=look.colour,
            marker=look.marker,
            markersize=4,
            label=labels.METRIC_LABELS[name],
        )
    axis.plot(scores.index, 100 * scores["nmi_expected"], color="black", linestyle=":", label="1 - log S / log C")
    axis.set(xscale="log", xlabel="number of classes", ylabel="score of random embeddings, %", ylim=(-2, 102))
    axis.legend(loc="upper left", bbox_to_anchor=(0, 0.98), ncols=2)
    return figure


def splits(parts: Mapping[str, Splits]) -> Figure:
    """Which classes train, validate and test in each fold; a bar a fold, its length all classes in their order.

    parts: title -> `tables.class_splits`.
    """
    rows = [(name, number, fold) for name, each in parts.items() for number, fold in enumerate(each.folds)]
    figure, axes = canvas(0.6 + 0.24 * len(rows) + 0.2 * len(parts))
    axis = axes[0, 0]
    places = [row + 0.8 * list(parts).index(name) for row, (name, _, _) in enumerate(rows)]
    for place, (name, _, fold) in zip(places, rows, strict=True):
        count = len(parts[name].class_order)
        position = np.argsort(parts[name].class_order)
        uses = (("train", fold.train, BLUE), ("validate", fold.val, ORANGE), ("test", parts[name].test, GREY))
        for use, classes, colour in uses:
            for start, length in _stretches(np.sort(position[classes]) / count, count):
                axis.barh(place, length, left=start, height=0.8, color=colour, label=use)
    axis.set(yticks=places, yticklabels=[f"{name}, fold {number + 1}" for name, number, _ in rows], xlim=(0, 1))
    axis.set_xlabel("classes, in order")
    axis.xaxis.set_major_formatter(PercentFormatter(1))
    axis.invert_yaxis()
    axis.grid(False)
    handles, texts = axis.get_legend_handles_labels()
    unique = dict(zip(texts, handles, strict=True))
    figure.legend(unique.values(), unique.keys(), loc="outside upper center", ncols=3)
    return figure


def _stretches(where: np.ndarray, count: int) -> list[tuple[float, float]]:
    """Positions on [0, 1), each 1 / count wide -> (start, length) of each unbroken stretch."""
    cuts = np.flatnonzero(np.diff(where) > 1.5 / count) + 1
    return [(part[0], part[-1] - part[0] + 1 / count) for part in np.split(where, cuts)]


def searches(ours: Mapping[str, pd.DataFrame], published: pd.DataFrame) -> Figure:
    """musgrave-search: best value so far against the trial, as a share of the search's final best; a panel a method.

    ours: study -> `tables.best_so_far`. published: `published.search_traces()`, drawn in grey.
    """
    names = list(tables.METHODS)
    figure, axes = canvas(7.5, -(-len(names) // 3), 3, sharex=True, sharey=True)
    for axis, name in zip(axes.flat, names, strict=False):
        for (dataset, batch), trace in published[published["method"] == name].groupby(["dataset", "batch_size"]):
            (line,) = axis.plot(trace["trial"], trace["best"] / trace["best"].max(), color="#BBBBBB", linewidth=1)
            svg.tips(line, f"the paper, {dataset}, batches of {batch}")
        for dashes, frame in zip(("-", "--", ":", "-."), ours.values(), strict=False):
            trace = frame[frame["method"] == name]
            axis.plot(
                trace["trial"],
                trace["best"] / trace["best"].max(),
                color=method_style(name).colour,
                linestyle=dashes,
                linewidth=2,
            )
        axis.set_title(labels.method_label(name), fontsize=9)
        axis.set_ylim(0.4, 1.03)
        axis.xaxis.set_major_locator(MaxNLocator(3, integer=True))
        axis.yaxis.set_major_formatter(PercentFormatter(1))
    for axis in axes.flat[len(names) :]:
        axis.remove()
    figure.supxlabel("trial", fontsize=10)
    figure.supylabel("best validation MAP@R so far, share of the final best", fontsize=10)
    return figure


def trial_values(values: Mapping[str, pd.DataFrame]) -> Figure:
    """Every trial of our searches: validation MAP@R, a row a method, a panel a study. values: study -> `trials`."""
    names = [name for name in tables.METHODS if any(name in set(frame["method"]) for frame in values.values())]
    figure, axes = canvas(0.9 + 0.27 * len(names) * len(values), len(values))
    for axis, (study, frame) in zip(axes.flat, values.items(), strict=True):
        frame = frame[frame["method"].isin(names) & (frame["state"] == "complete")]
        rows = jitter(frame["method"].map(names.index))
        dots = axis.scatter(
            100 * frame["value"], rows, s=12, c=[method_style(name).colour for name in frame["method"]], alpha=0.7
        )
        svg.tips(dots, [_trial(row) for row in frame.itertuples()])
        method_rows(axis, names)
        axis.set(title=study, xlabel="validation MAP@R of a trial, %")
    return figure


def _trial(row: tuple) -> str:
    """A trial in words: its score and its settings."""
    settings = ", ".join(f"{labels.parameter(name)} {value:.3g}" for name, value in row.params.items())
    return f"{labels.method_label(row.method)}: {100 * row.value:.1f} %, {settings}"


def importance(shares: pd.DataFrame) -> Figure:
    """Share of the variance of the trials that each hyperparameter explains. shares: `tables.importance`."""
    names = [name for name in tables.METHODS if name in set(shares["method"])]
    rows = [(name, row) for name in names for row in shares[shares["method"] == name].itertuples()]
    figure, axes = canvas(0.7 + 0.22 * len(rows))
    axis = axes[0, 0]
    texts = [f"{labels.method_label(name)}: {labels.parameter(row.parameter)}" for name, row in rows]
    axis.barh(
        range(len(rows)),
        [100 * row.importance for _, row in rows],
        color=[method_style(name).colour for name, _ in rows],
    )
    axis.set(yticks=range(len(rows)), yticklabels=texts, xlabel="share of the trials' variance, %", xlim=(0, 100))
    axis.invert_yaxis()
    axis.grid(False, axis="y")
    return figure


def results(
    panels: Mapping[str, pd.DataFrame], metric: str = "map_at_r", methods: tables.Methods = tables.METHODS
) -> Figure:
    """musgrave-f3: a metric of every method, concatenated and separated, with 95 % intervals; a panel a data set.

    panels: title -> `tables.accuracy` or one data set of `published.results`.
    """
    names = tables.ordered((name for frame in panels.values() for name in frame["method"]), methods)
    rows = -(-len(panels) // 2)
    figure, axes = canvas((0.6 + 0.19 * len(names)) * rows, rows, 2, sharey=True)
    for axis, (title, frame) in zip(axes.flat, panels.items(), strict=False):
        for setting, filled, shift in (("concatenated", True, -0.14), ("separated", False, 0.14)):
            part = frame[(frame["setting"] == setting) & (frame["metric"] == metric)].set_index("method")
            for row, name in enumerate(names):
                if name in part.index:
                    look, mean, half = (
                        method_style(name),
                        100 * part["mean"][name],
                        100 * np.nan_to_num(part["ci95"][name]),
                    )
                    axis.errorbar(
                        mean,
                        row + shift,
                        xerr=half,
                        color=look.colour,
                        marker=look.marker,
                        markersize=4.5,
                        markerfacecolor=look.colour if filled else "white",
                        capsize=2,
                    )
        axis.set_title(title, fontsize=9)
        method_rows(axis, names, methods)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    figure.supxlabel(f"{labels.METRIC_LABELS[metric]}, % (filled: concatenated, hollow: separated)", fontsize=10)
    return figure


def beside_published(points: pd.DataFrame) -> Figure:
    """Our MAP@R against the published one: a row of panels a study, a column a published table, a point a method.

    points: `page.beside_published`. Where the order is the same the points rise from left to right.
    """
    studies, datasets = (list(dict.fromkeys(points[name])) for name in ("study", "dataset"))
    figure, axes = canvas(0.6 + 1.65 * len(studies), len(studies), len(datasets), sharex="col", sharey="row")
    for (study, dataset), part in points.groupby(["study", "dataset"], sort=False):
        axis = axes[studies.index(study), datasets.index(dataset)]
        for row in part.itertuples():
            look = method_style(row.method)
            (dot,) = axis.plot(
                100 * row.theirs,
                100 * row.ours,
                look.marker,
                color=look.colour,
                markerfacecolor=look.face,
                markersize=4.5,
            )
            label = labels.method_label(row.method)
            svg.tips(dot, f"{label}: {100 * row.theirs:.1f} % on {dataset}, {100 * row.ours:.1f} % here")
        axis.text(
            0.03,
            0.97,
            f"ρ = {part['ours'].corr(part['theirs'], method='spearman'):+.2f}",
            transform=axis.transAxes,
            va="top",
            fontsize=8,
        )
        axis.xaxis.set_major_locator(MaxNLocator(3))
        axis.yaxis.set_major_locator(MaxNLocator(4))
    for axis, dataset in zip(axes[-1], datasets, strict=True):
        axis.set_xlabel(dataset, fontsize=9)
    for row, study in zip(axes, studies, strict=True):
        row[0].set_ylabel(titles.title(study).replace(" (", "\n("), fontsize=8)
    figure.supxlabel("published MAP@R, fine-tuned, %", fontsize=9)
    figure.supylabel("our MAP@R, %", fontsize=9)
    return figure


def baselines(claims: pd.DataFrame, measured: Mapping[tuple[str, str], float]) -> Figure:
    """R@1 of the two classics as papers print it: a dot a paper, one above another where the number is the same.

    claims: `published.claims()`. measured: (data set, classic) -> concatenated P@1 of the Reality Check, dashed.
    """
    figure, axes = canvas(3.9, len(DATASETS), len(tables.CLASSICS), sharex="row", sharey=True)
    for row, dataset in zip(axes, DATASETS, strict=True):
        for axis, classic in zip(row, tables.CLASSICS, strict=True):
            chosen = claims["primary"] & (claims["role"] == f"{classic}_baseline") & (claims["dataset"] == dataset)
            for value, part in claims[chosen].groupby("r1"):
                for height, claim in enumerate(part.sort_values("year").itertuples(), start=1):
                    colour = RED if len(part) > 1 else GREY
                    (dot,) = axis.plot(100 * value, height, "o", color=colour, markersize=4.5)
                    svg.tips(dot, f"{claim.paper}, {claim.year}: {classic} {100 * value:.1f} %")
            axis.axvline(100 * measured[dataset, classic], color="black", linestyle="--", linewidth=1)
            axis.set(yticks=[], ylim=(0.3, 6.2))
            axis.grid(False)
            axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        row[0].set_ylabel(dataset, fontsize=9)
    for axis, classic in zip(axes[0], tables.CLASSICS, strict=True):
        axis.set_title(f"{classic} loss", fontsize=9)
    figure.supxlabel("R@1 as printed, %; dashed: measured when tuned alike", fontsize=9)
    return figure


def over_the_years(claims: pd.DataFrame, panels: Mapping[str, pd.DataFrame]) -> Figure:
    """musgrave-f4: P@1 against the year, as papers claim it (top), and as measured, a panel a table of results below.

    claims: headline rows of `published.claims()`. panels: title -> `tables.measured_by_year`. Lines are least squares.
    """
    rows = 1 + -(-len(panels) // 2)
    figure = canvas(2.8 + 2.0 * (rows - 1))[0]
    figure.clear()
    grid = figure.add_gridspec(rows, 2, height_ratios=[1.4] + [1] * (rows - 1))
    top = figure.add_subplot(grid[0, :])
    for name, look in DATASETS.items():
        part = claims[claims["dataset"] == name]
        years, claimed = part["year"], 100 * part["r1"]
        sns.regplot(x=years, y=claimed, ci=None, scatter=False, color=look.colour, line_kws={"linewidth": 1.5}, ax=top)
        dots = top.scatter(jitter(years), claimed, s=16, alpha=0.75, color=look.colour, marker=look.marker, label=name)
        svg.tips(dots, [f"{row.paper}, {row.year}: {row.method}, {100 * row.r1:.1f} %" for row in part.itertuples()])
    top.set(title="(a) as papers claim", xlabel="", ylabel="P@1, %")
    top.xaxis.set_major_locator(MaxNLocator(integer=True))
    top.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.1), frameon=False)
    for number, (title, frame) in enumerate(panels.items()):
        axis = figure.add_subplot(grid[1 + number // 2, number % 2])
        sns.regplot(
            x=frame["year"],
            y=100 * frame["value"],
            ci=None,
            scatter=False,
            color="black",
            line_kws={"linewidth": 1},
            ax=axis,
        )
        for row in frame.itertuples():
            look = method_style(row.method)
            (dot,) = axis.plot(
                row.year, 100 * row.value, look.marker, color=look.colour, markerfacecolor=look.face, markersize=5
            )
            svg.tips(dot, f"{labels.method_label(row.method)}, {row.year}: {100 * row.value:.1f} %")
        low, high = 100 * frame["value"].min(), 100 * frame["value"].max()
        middle = np.clip((low + high) / 2, 25, 75)
        axis.set(ylim=(middle - 25, middle + 25), xlabel="", ylabel="")  # the same scale in every panel
        axis.set_title(title, fontsize=9)
        last = max(2020, frame["year"].max())
        axis.set(xlim=(2004.5, last + 0.5), xticks=range(2006, int(last) + 1, 6))
    return figure


def improvements(bars: pd.DataFrame) -> Figure:
    """musgrave-f5: relative improvement over a baseline, a panel a baseline.

    bars: columns baseline, where (data set or study), who ("papers", "separated", "concatenated"), value (fraction).
    """
    baselines = list(dict.fromkeys(bars["baseline"]))
    figure, axes = canvas(1.0 + 0.55 * bars["where"].nunique() * len(baselines), len(baselines))
    colours = {"papers": "#999999", "separated": GREEN, "concatenated": RED}
    for axis, baseline in zip(axes.flat, baselines, strict=True):
        part = bars[bars["baseline"] == baseline]
        sns.barplot(
            x=100 * part["value"], y=part["where"], hue=part["who"], hue_order=list(colours), palette=colours, ax=axis
        )
        for container in axis.containers:
            axis.bar_label(container, fmt="%+.1f", padding=2, fontsize=8)
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set(title=f"over the {baseline} loss", xlabel="mean relative improvement of P@1, %", ylabel="")
        axis.margins(x=0.15)
        handles, texts = axis.get_legend_handles_labels()
        axis.get_legend().remove()
    figure.legend(handles, texts, loc="outside upper center", ncols=3)
    return figure
