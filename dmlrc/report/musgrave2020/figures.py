"""The figures of Musgrave et al. 2020: each draws computed numbers; nothing is computed here but layout."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter

from dmlrc.data.splits import Splits
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import charts, labels, statistics, style, svg, tables, titles
from dmlrc.report.published import DATASETS
from dmlrc.report.style import BLUE, GREY, METRICS, ORANGE, RED

MOST_PANELS = 3
"""Side by side in one figure."""
SPAN = 50
"""Points of P@1 in every panel over the years, so that slopes can be compared."""
STRONGEST = 0.78
"""How strong the colour of the largest part of a bar is, see `_tint`."""
SYMBOLS = {
    "margin": "m",
    "margin of positives": "m₊",
    "margin of negatives": "m₋",
    "rate of the loss's weights": "η",
    "scale": "s",
    "temperature": "T",
    "weight of the regulariser": "w",
}
"""What names a part of a bar that is too narrow for its name: the losses' own symbols, and η."""


def toy_spaces_figure(spaces: Mapping[str, tuple[np.ndarray, np.ndarray]], scores: pd.DataFrame) -> Figure:
    """musgrave-f1: the spaces above, the metrics of each below. scores: `untrained.toy_scores`."""
    figure, axes = style.canvas(5.2, 2, len(spaces), gridspec_kw={"height_ratios": [1, 1.6]})
    grid = axes[1, 0].get_gridspec()
    for axis in axes[1]:
        axis.remove()
    for axis, (title, (points, classes)) in zip(axes[0], spaces.items(), strict=True):
        for label, colour, marker in ((0, BLUE, "o"), (1, ORANGE, "^")):
            chosen = classes == label
            axis.scatter(*points[chosen].T, s=9, color=colour, marker=marker, linewidths=0)
        axis.set(title=title, xticks=[], yticks=[], ylim=(-2.5, 5.5))
    below = figure.add_subplot(grid[1, :])
    look = {"vmin": 0, "vmax": 100, "cmap": "Blues", "cbar": False, "linewidths": 1}
    sns.heatmap(100 * scores.rename(index=labels.METRIC_LABELS), annot=True, fmt=".0f", ax=below, **look)
    below.set(xticklabels=[], xlabel="score of each space, %", ylabel="")
    below.tick_params(axis="y", rotation=0)
    return figure


def random_scores_figure(scores: pd.DataFrame) -> Figure:
    """musgrave-f2: metrics of random embeddings against the number of classes. scores: `untrained.random_scores`."""
    figure, axis = charts.panel(3.6, xlabel="number of classes", ylabel="score of random embeddings, %")
    shown = scores.columns.intersection(list(METRICS))
    for more, name in zip(reversed(range(len(shown))), shown, strict=True):
        look, text = METRICS[name], labels.METRIC_LABELS[name]
        wide = {"linewidth": 1.2 + 0.5 * more, "markersize": 3.5 + 0.5 * more}  # those covered show at their edges
        axis.plot(scores.index, 100 * scores[name], color=look.colour, marker=look.marker, label=text, **wide)
    axis.plot(scores.index, 100 * scores["nmi_expected"], color="black", linestyle=":", label="1 − log S / log C")
    axis.set(xscale="log", ylim=(-2, 102))
    axis.legend(loc="upper left", bbox_to_anchor=(0, 0.98), ncols=2)
    return figure


def protocol_drawing(study: StudyRecords) -> Figure:
    """The way of a loss through a study, by its protocol: the classes, search, reruns and test."""
    protocol, budget, parts = study.meta["protocol"], study.meta["budget"], tables.class_splits(study)
    folds, size, trained = len(parts.folds), protocol["embedding_dim"], {*study.reruns["method"]} - {PRETRAINED}
    figure, axis = charts.panel(5.6, ylim=(0, 13), xlim=(0, 10))
    axis.axis("off")
    _draw_folds(axis, parts)
    for x, half, classes in ((2.45, "first", parts.train_val), (7.55, "second", parts.test)):
        axis.text(x, 10.75, f"the {half} half: {len(classes)} classes", ha="center", fontsize=9)
    frame = {"fill": False, "edgecolor": GREY, "linestyle": "--"}
    axis.add_patch(Rectangle((0.05, 4), 7.3, 6.1, **frame))
    axis.text(3.7, 4.3, f"Losses: {len(trained)}. Searches of each: {study.searches}.", ha="center", fontsize=9)
    search = f"hyperparameters, one model per fold ({folds});\nthe best has the highest mean MAP@R"
    charts.box(axis, (3.7, 8.7), f"Trials of a search: {budget['trials']}", search, BLUE, width=6.9, height=2.1)
    again = "with new seeds; nothing is chosen any more"
    charts.box(axis, (3.7, 5.85), f"Reruns of the best trial: {budget['reruns']}", again, BLUE, width=6.9, height=1.6)
    tested = f"separated: each alone ({folds}), {size} numbers\nconcatenated: all joined, {folds * size} numbers"
    charts.box(axis, (5, 1.5), "MAP@R and P@1 on test classes", tested, GREY, width=9.6, height=2.1)
    for x, start, end in ((3.7, 10.6, 9.8), (3.7, 7.6, 6.7), (3.7, 3.95, 2.6), (8.6, 10.6, 2.6)):
        charts.arrow(axis, (x, start), (x, end))
    axis.text(8.75, 6.6, "read\nonce,\nat the\nend", va="center", fontsize=9)
    return figure


def _draw_folds(axis: Axes, parts: Splits) -> None:
    """Draw the classes above the boxes: a line a fold, the test half beside them."""
    half, height = len(parts.train_val), 1.5 / len(parts.folds)
    for row, fold in enumerate(parts.folds):
        line = {"y": 12.6 - row * height, "height": 0.8 * height, "linewidth": 0}
        axis.barh(width=4.9, color=BLUE, label="train", **line)
        places = np.argsort(parts.class_order)[fold.val]
        axis.barh(width=4.9 / half, left=places * 4.9 / half, color=ORANGE, label="validate", **line)
    axis.barh(11.85 + height / 2, 4.9, height=1.5 - 0.2 * height, left=5.1, color=GREY, linewidth=0, label="test")
    _legend_of_uses(axis)


def splits(parts: Mapping[str, Splits]) -> Figure:
    """Draw the use of all classes, in their order: a bar a fold. parts: title -> `tables.class_splits`."""
    rows = [(name, number, fold) for name, part in parts.items() for number, fold in enumerate(part.folds)]
    figure, axis = charts.panel(0.6 + 0.24 * len(rows) + 0.2 * len(parts), xlabel="classes, in order")
    places = [row + 0.8 * list(parts).index(name) for row, (name, _, _) in enumerate(rows)]
    for place, (name, _, fold) in zip(places, rows, strict=True):
        count = len(parts[name].class_order)
        position = np.argsort(parts[name].class_order)
        uses = (("train", fold.train, BLUE), ("validate", fold.val, ORANGE), ("test", parts[name].test, GREY))
        for use, classes, colour in uses:
            where = np.sort(position[classes]) / count
            for part in np.split(where, np.flatnonzero(np.diff(where) > 1.5 / count) + 1):  # unbroken stretches
                length = part[-1] - part[0] + 1 / count
                axis.barh(place, length, left=part[0], height=0.8, color=colour, label=use)
    axis.set(yticks=places, yticklabels=[f"{name}, fold {number + 1}" for name, number, _ in rows], xlim=(0, 1))
    axis.xaxis.set_major_formatter(PercentFormatter(1))
    axis.invert_yaxis()
    axis.grid(False)
    _legend_of_uses(axis)
    return figure


def _legend_of_uses(axis: Axes) -> None:
    handles, texts = axis.get_legend_handles_labels()
    unique = dict(zip(texts, handles, strict=True))
    axis.figure.legend(unique.values(), unique.keys(), loc="outside upper center", ncols=3)


def searches(ours: Mapping[str, pd.DataFrame], published: pd.DataFrame) -> Figure:
    """musgrave-search: `tables.best_so_far` as a share of the final best, a panel a method; grey: published traces."""
    names, dashes = list(tables.METHODS), dict(zip(ours, cycle(("-", "--", ":", "-.")), strict=False))
    figure, axes = style.canvas(6, -(-len(names) // 3), 3, sharex=True, sharey=True)
    for axis, name in zip(axes.flat, names, strict=False):
        for (dataset, batch), trace in published[published["method"] == name].groupby(["dataset", "batch_size"]):
            share, tip = trace["best"] / trace["best"].max(), f"the paper, {dataset}; batches of {batch}"
            charts.mark(axis, trace["trial"], share, tip, color="#BBBBBB", linewidth=1)
        for study, frame in ours.items():
            for repetition, trace in frame[frame["method"] == name].groupby("repetition"):
                share, tip = trace["best"] / trace["best"].max(), f"{titles.title(study)}, search {repetition + 1}"
                look = {"color": style.method_style(name).colour, "linestyle": dashes[study], "linewidth": 1.2}
                charts.mark(axis, trace["trial"], share, tip, **look)
        axis.set_title(labels.method_label(name), fontsize=9)
        axis.set_ylim(0.8, 1.01)
        axis.xaxis.set_major_locator(MaxNLocator(3, integer=True))
        axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    for axis in axes.flat[len(names) :]:
        axis.remove()
    for axis in axes.flat[len(names) - 3 : len(names)]:
        axis.set_xlabel("trial", fontsize=9)
        axis.tick_params(labelbottom=True)
    figure.supylabel("best validation MAP@R so far, share of the final best", fontsize=10)
    looks = {"the paper": {"color": "#BBBBBB", "linewidth": 1}}
    looks |= {study: {"color": GREY, "linestyle": dashes[study]} for study in ours}
    charts.legend(figure, looks, "upper", 4, fontsize=8)
    style.family_legend(figure, names)
    return figure


def trial_values(values: Mapping[str, pd.DataFrame]) -> list[Figure]:
    """Every trial of our searches: validation MAP@R, a row a method, a figure a study. values: study -> its trials."""
    done = {study: frame[frame["state"] == "complete"] for study, frame in values.items()}
    names = tables.pooled_order([frame.groupby("method")["value"].max() for frame in done.values()])
    return [_trial_values(study, frame[frame["method"].isin(names)], names) for study, frame in done.items()]


def _trial_values(study: str, frame: pd.DataFrame, names: Sequence[str]) -> Figure:
    figure, axis = charts.panel(1.2 + 0.22 * len(names), xlabel="validation MAP@R of a trial, %")
    rows = style.jitter(frame["method"].map(names.index))
    colours = [style.method_style(name).colour for name in frame["method"]]
    tips = []
    for row in frame.itertuples():
        settings = ", ".join(f"{labels.parameter(name)} {value:.3g}" for name, value in row.params.items())
        tips.append(f"{labels.method_label(row.method)}: {100 * row.value:.1f} %, {settings}")
    svg.tips(axis.scatter(100 * frame["value"], rows, s=12, c=colours, alpha=0.6), tips)
    style.method_rows(axis, names)
    axis.set_title(study)
    style.family_legend(figure, names)
    return figure


def importance_figure(shares: pd.DataFrame) -> Figure:
    """Draw `tables.importance`: a bar a method, its largest part first; each has its name, or its symbol (`SYMBOLS`).

    What is too narrow for that as well has it behind the bar.
    """
    shares = shares.sort_values("importance", ascending=False)
    largest = shares.groupby("method")["importance"].max().sort_values(ascending=False)
    figure, axis = charts.panel(0.8 + 0.3 * len(largest), xlabel="share of the trials' variance, %")
    for place, name in enumerate(largest.index):
        left, narrow = 0.0, []
        for step, row in enumerate(shares[shares["method"] == name].itertuples()):
            width, label = 100 * row.importance, labels.parameter(row.parameter)
            colour = style.method_style(name).colour
            tint = _tint(colour, max(STRONGEST - 0.3 * step, 0.24))
            [bar] = axis.barh(place, width, left=left, color=tint, height=0.75)
            svg.tips(bar, f"{labels.method_label(name)}: {label} {width:.0f} %")
            names = label, SYMBOLS.get(label, label)
            if fitting := [text for text in names if width > 1.7 * len(text)]:
                ink = "#fefefe" if step == 0 and colour != ORANGE else "#252525"  # the same on a dark page
                axis.text(left + width / 2, place, fitting[0], ha="center", va="center", fontsize=7.5, color=ink)
            else:
                narrow.append(names[1])
            left += width
        axis.text(left + 0.8, place, ", ".join(narrow), va="center", fontsize=7.5, color="black")
    style.method_rows(axis, list(largest.index))
    axis.set_xlim(0, 100)
    axis.grid(False)
    style.family_legend(figure, list(largest.index))
    for mark in figure.legends[0].legend_handles:
        mark.set_color(_tint(mark.get_color(), STRONGEST))
    return figure


def _tint(colour: str, strength: float) -> tuple[float, ...]:
    """A colour on white, opaque, and no ink, paper or line of `svg`: it stays what it is on a dark page."""
    return tuple(1 - strength * (1 - part) for part in to_rgb(colour))


def result_figures(
    panels: Mapping[str, pd.DataFrame],
    order: Sequence[str] | None = None,
    published: bool = False,
    methods: tables.Methods = tables.METHODS,
) -> list[Figure]:
    """musgrave-f3: MAP@R of every method, concatenated (dots) and separated (ticks), with 95 % intervals.

    panels: title -> `tables.accuracy` or one data set of `published.musgrave_results`. order: of the rows, default
    `tables.order_of_results`. Intervals: seed alone light, search and seed dark. Dashed: the untrained trunk.
    """
    order = list(order or tables.order_of_results(panels.values()))
    parts = [dict(list(panels.items())[first : first + MOST_PANELS]) for first in range(0, len(panels), MOST_PANELS)]
    return [_results(part, order, published, methods) for part in parts]


def _results(
    panels: Mapping[str, pd.DataFrame], order: Sequence[str], published: bool, methods: tables.Methods
) -> Figure:
    figure, axes = style.canvas(1.25 + 0.19 * len(order), 1, len(panels), sharey=True)
    for axis, (title, frame) in zip(axes.flat, panels.items(), strict=True):
        values = frame[frame["metric"] == "map_at_r"].set_index(["method", "setting"])
        for name, setting in values.index:
            if name not in order:
                continue
            mean, look, row = 100 * values["mean"][name, setting], style.method_style(name), order.index(name)
            if setting == "separated":
                axis.plot(mean, row, "|", color=look.colour, markersize=6)
                continue
            both = "seed_ci95" in values  # else the interval is that of the seeds alone
            for column, width, shade in (("seed_ci95", 3, 0.35), ("ci95", 1.2, 1)) if both else (("ci95", 3, 0.35),):
                half = 100 * np.nan_to_num(values[column][name, setting])
                ends = np.clip([mean - half, mean + half], 0, 100)
                axis.plot(ends, [row, row], color=look.colour, linewidth=width, alpha=shade)
            marks = {"color": look.colour, "markersize": 4.5, "markerfacecolor": "white" if published else look.colour}
            tip = f"{labels.method_label(name, methods)}, {titles.in_label(title)}: {mean:.1f} % MAP@R"
            charts.mark(axis, mean, row, tip, look.marker, **marks)
        if (PRETRAINED, "concatenated") in values.index:
            style.untrained_line(axis, 100 * values["mean"][PRETRAINED, "concatenated"])
        axis.set_title(style.narrow(title), fontsize=7.5)
        style.method_rows(axis, order, methods)
        axis.set_ylim(len(order) + 0.3, -0.5)  # room for the label of the line
        axis.set_xlabel("MAP@R, %")
        axis.xaxis.set_major_locator(MaxNLocator(3))
    handles = [
        Line2D([], [], color=GREY, marker=marker, linestyle="none", markersize=5, markerfacecolor=face, label=text)
        for marker, face, text in (("o", "white" if published else GREY, "joined"), ("|", GREY, "one model"))
    ]
    style.family_legend(figure, order, handles)
    return figure


def beside_published_figure(points: pd.DataFrame) -> Figure:
    """Our MAP@R against the published: panels, a study a row, a table a column. points: `page.beside_published`."""
    studies, datasets = (list(dict.fromkeys(points[name])) for name in ("study", "dataset"))
    figure, axes = style.canvas(0.6 + 1.65 * len(studies), len(studies), len(datasets), sharex="col", sharey="row")
    for (study, dataset), part in points.groupby(["study", "dataset"], sort=False):
        axis = axes[studies.index(study), datasets.index(dataset)]
        for row in part.assign(**100 * part[["theirs", "ours"]]).itertuples():
            look, label = style.method_style(row.method), labels.method_label(row.method)
            tip = f"{label}: {row.theirs:.1f} % on {dataset}, {row.ours:.1f} % here"
            charts.mark(axis, row.theirs, row.ours, tip, look.marker, color=look.colour, markersize=4.5)
        rho = statistics.rank_test(part["ours"], part["theirs"])["rho"]
        axis.set_title("" if np.isnan(rho) else f"$r_s = {rho:+.2f}$", fontsize=8, loc="left", pad=2)
        axis.xaxis.set_major_locator(MaxNLocator(3))
        axis.yaxis.set_major_locator(MaxNLocator(4))
    for axis, dataset in zip(axes[-1], datasets, strict=False):
        axis.set_xlabel(f"{dataset},\npublished, %", fontsize=8)
    for row, study in zip(axes, studies, strict=False):
        row[0].set_ylabel(titles.title(study).replace(" (", "\n("), fontsize=8)
    figure.supylabel("our MAP@R, %", fontsize=9)
    style.family_legend(figure, points["method"].unique())
    return figure


def baselines_figure(claims: pd.DataFrame, measured: Mapping[tuple[str, str], float]) -> Figure:
    """R@1 of the two classics as papers print it: a dot a paper, one above another where the number is the same.

    claims: `published.claims()`. measured: (data set, classic) -> concatenated P@1 of the Reality Check, dashed.
    """
    figure, axes = style.canvas(4.1, len(DATASETS), len(tables.CLASSICS), sharex=True, sharey=True)
    for row, dataset in zip(axes, DATASETS, strict=True):
        for axis, classic in zip(row, tables.CLASSICS, strict=True):
            chosen = claims["primary"] & (claims["role"] == f"{classic}_baseline") & (claims["dataset"] == dataset)
            place = -np.inf
            for value, part in claims[chosen].groupby("r1"):
                place = max(100 * value, place + 1.5)  # side by side where they would hide one another
                for height, claim in enumerate(part.sort_values("year").itertuples(), start=1):
                    colour, tip = RED if len(part) > 1 else GREY, f"{claim.paper}, {claim.year}: {classic}"
                    tip += f" {100 * value:.1f} %"
                    charts.mark(axis, place, height, tip, "o", color=colour, markersize=4.5)
            axis.axvline(100 * measured[dataset, classic], color="black", linestyle="--", linewidth=1)
            axis.set(yticks=[], ylim=(0.3, 6.2))
            axis.grid(False)
            axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        row[0].set_ylabel(dataset, fontsize=9)
    for axis, classic in zip(axes[0], tables.CLASSICS, strict=True):
        axis.set_title(f"{classic} loss", fontsize=9)
    for axis in axes[-1]:
        axis.set_xlabel("R@1, %", fontsize=9)
    dot = {"marker": "o", "markersize": 4, "linestyle": ""}
    looks = {"printed by several papers": {"color": RED, **dot}, "by one": {"color": GREY, **dot}}
    looks["measured, tuned alike"] = {"color": "black", "linestyle": "--", "linewidth": 1}
    charts.legend(figure, looks, fontsize=8)
    return figure


def claimed_over_the_years(claims: pd.DataFrame, paper: Mapping[str, pd.DataFrame]) -> Figure:
    """musgrave-f4, first part: P@1 against the year, a column a data set: as claimed, and as the paper measured it.

    claims: headline rows of `published.claims()`. paper: data set -> `tables.measured_by_year`. Lines: `charts.years`.
    """
    figure, axes = style.canvas(4.0, 2, len(DATASETS), sharex=True, sharey="col")
    for (above, below), name in zip(axes.T, DATASETS, strict=True):
        part = claims[claims["dataset"] == name]
        style.trend(above, part["year"], 100 * part["r1"], GREY)
        dots = above.scatter(style.jitter(part["year"]), 100 * part["r1"], s=14, alpha=0.7, color=GREY, linewidths=0)
        svg.tips(dots, [f"{row.paper}, {row.year}: {row.method}, {100 * row.r1:.1f} %" for row in part.itertuples()])
        charts.years(below, paper[name], hollow=True)
        above.set_title(name, fontsize=9)
        values = 100 * np.array([part["r1"].min(), part["r1"].max(), *paper[name]["value"]])
        above.set_ylim(axis_span(values.min(), values.max()))
        below.set(xlim=(2004.5, 2020.5), xticks=(2006, 2013, 2020))
    for axis, text in zip(axes[:, 0], ("claimed: P@1, %", "tuned alike: P@1, %"), strict=True):
        axis.set_ylabel(text)
    style.family_legend(figure, list(tables.METHODS))
    return figure


def measured_over_the_years(
    panels: Mapping[str, pd.DataFrame], untrained: Mapping[str, float], methods: tables.Methods = tables.METHODS
) -> Figure:
    """musgrave-f4, second part: P@1 of our studies against the year of each method, a panel a study.

    panels: title -> `tables.measured_by_year`. untrained: title -> P@1 of the trunk alone.
    """
    rows = -(-len(panels) // MOST_PANELS)
    figure, axes = style.canvas(0.7 + 1.9 * rows, rows, min(len(panels), MOST_PANELS))
    for axis, (title, frame) in zip(axes.flat, panels.items(), strict=False):
        charts.years(axis, frame, methods)
        axis.set_ylim(axis_span(100 * frame["value"].min(), 100 * frame["value"].max()))
        style.untrained_line(axis, 100 * untrained.get(title, np.nan), across=True)
        axis.set_title(style.narrow(title), fontsize=8)
        last = max(2020, frame["year"].max())
        axis.set(xlim=(2004.5, last + 0.5), xticks=range(2006, int(last) + 1, 7))
    return charts.panels_of_years(figure, axes, panels)


def axis_span(low: float, high: float) -> tuple[float, float]:
    """The limits of an axis in percent that spans so many points, or all that there is to show."""
    half = max(SPAN, high - low + 4) / 2
    middle = np.clip(np.nan_to_num((low + high) / 2, nan=50), half, max(100 - half, half))
    return middle - half, middle + half


def improvements(bars: pd.DataFrame) -> list[Figure]:
    """musgrave-f5: relative improvement over a baseline, a figure a baseline; claims grey, measured hollow or filled.

    bars: columns baseline, where (data set or study), who ("papers", "separated", "concatenated"), value (fraction).
    """
    drawings = [_improvements(baseline, bars[bars["baseline"] == baseline]) for baseline in bars["baseline"].unique()]
    return style.share_axes(drawings)


def _improvements(baseline: str, bars: pd.DataFrame) -> Figure:
    places = list(dict.fromkeys(bars["where"]))
    figure, axis = charts.panel(1.3 + 0.34 * len(places), xlabel=f"P@1, % above the {baseline} loss")
    for row in bars.itertuples():
        place, value = places.index(row.where), 100 * row.value
        if row.who == "papers":
            axis.barh(place, value, height=0.5, color="#BBBBBB", zorder=1)
            axis.text(value, place, f" {value:+.0f}", va="center", fontsize=8)
            continue
        look = {"color": BLUE, "markerfacecolor": "white" if row.where in DATASETS else BLUE, "markersize": 6}
        tip = f"{titles.in_label(row.where)}, {row.who}: {value:+.1f} % over the {baseline} loss"
        charts.mark(axis, value, place, tip, "o" if row.who == "concatenated" else "|", **look)
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set(yticks=range(len(places)), yticklabels=places, ylim=(len(places) - 0.5, -0.5))
    axis.grid(False, axis="y")
    axis.margins(x=0.18)
    handles = [Patch(color="#BBBBBB", label="papers' own tables")]
    looks = (
        ("tuned alike, Reality Check", "o", "white"),
        ("tuned alike, ours", "o", BLUE),
        ("one model of four", "|", BLUE),
    )
    for text, marker, face in looks:
        look = {"color": BLUE, "marker": marker, "markerfacecolor": face, "markersize": 6, "linestyle": "none"}
        handles.append(Line2D([], [], label=text, **look))
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8)
    return figure
