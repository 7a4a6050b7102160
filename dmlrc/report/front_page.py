"""The book's first page: the lead over the loss of 2006, as claimed and as measured, and what else was found."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dmlrc import records
from dmlrc.records import StudyRecords
from dmlrc.report import charts, choosing, labels, prose, publish, published, statistics, style, svg, tables, titles
from dmlrc.report.after2019 import page as after2019
from dmlrc.report.hypotheses.measures import gain
from dmlrc.report.musgrave2020 import winners
from dmlrc.report.oi2021 import page as oi
from dmlrc.report.significance import measures as significance
from dmlrc.report.variance import searches

CONTRASTIVE, TRIPLET = tables.CLASSICS
PAPERS, CHECK, MEASURED = "papers", "check", "ours"
"""Who says how far the newer losses lead."""
FOUND = "Papers claim two to three times the accuracy of 2006.\nTuned alike, that lead is gone."
"""The picture's title over the published studies."""
ASKED = "The lead over the loss of 2006,\nas papers claim it and as it is measured"
"""Its title over any others."""
HEADS = {
    PAPERS: "claimed by papers of 2017 to 2019",
    CHECK: "tuned alike, by Musgrave et al. in 2020",
    MEASURED: "tuned alike, by us",
}
"""What stands over the rows of each source."""


def leads(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The mean lead of the newer losses over the contrastive loss in P@1: a row a source and data set, in percent.

    Columns: by, where (as printed), value, low, high (NaN where no interval is known), papers (how many were read).
    """
    read = tables.claimed_improvement(published.claims(), CONTRASTIVE)
    claimed = read.groupby("dataset")["gain"].agg(["mean", "size"])
    rows = [(PAPERS, name, 100 * claimed["mean"][name], np.nan, np.nan) for name in published.DATASETS]
    rows += [(CHECK, name, 100 * value, np.nan, np.nan) for name, value in published_leads(CONTRASTIVE).items()]
    ours = over_2006(edition).query("metric == 'precision_at_1' and over == @CONTRASTIVE and which == 'mean'")
    rows += [(MEASURED, titles.title(row.study), row.value, row.low, row.high) for row in ours.itertuples()]
    table = pd.DataFrame(rows, columns=["by", "where", "value", "low", "high"])
    papers = table["where"].map(claimed["size"]).where(table["by"] == PAPERS, 0).astype(int)
    return table.assign(papers=papers)


def published_leads(baseline: str) -> dict[str, float]:
    """The same lead in the tables of the Reality Check, over one of the two losses of 2006: data set -> a fraction."""
    frames = published.musgrave_tables()
    return {name: float(tables.improvement(frame, baseline)["concatenated"]) for name, frame in frames.items()}


@records.derived_once(tuple)  # for the figure, the table and the text
def over_2006(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """Leads over the losses of 2006, percent: study, dataset, metric, over, which (mean, best), value, low, high."""
    rows = []
    for study in edition:
        for metric in ("precision_at_1", "map_at_r"):
            compared = significance.compare(study, edition, metric)
            newer = [name for name in compared.methods if name not in tables.CLASSICS]
            for base in [name for name in tables.CLASSICS if newer and name in compared.methods]:
                for which, measure in (("mean", gain), ("best", best_gain)):
                    estimate = measure(compared, newer, base)
                    ends = (100 * end for end in (estimate.value, estimate.low, estimate.high))
                    rows.append((study.name, study.meta["dataset"], metric, base, which, *ends))
    return pd.DataFrame(rows, columns=["study", "dataset", "metric", "over", "which", "value", "low", "high"])


def best_gain(compared: significance.Comparison, newer: Sequence[str], base: str) -> statistics.Estimate:
    """The lead of the best of some methods, whichever it is, over another one, as a fraction of that one's score.

    From the highest lower to the highest upper end of theirs, which hold together (Bonferroni).
    """
    level = 1 - (1 - statistics.LEVEL) / len(newer)
    gains = [gain(compared, [name], base, level) for name in newer]
    value, low, high = (max(getattr(one, end) for one in gains) for end in ("value", "low", "high"))
    return statistics.Estimate(value, low, high, gains[0].n, gains[0].units, gains[0].how)


def over_2006_cells(frame: pd.DataFrame) -> pd.DataFrame:
    """The cells of `over_2006`: a row a study and measure, two columns for each of the two losses."""
    cells: dict[str, dict[str, str]] = {}
    for row in frame.itertuples():
        name = f"{titles.title(row.study)}, {labels.METRIC_LABELS[row.metric]}"
        alone = math.isnan(row.low)  # where each loss has one rerun
        interval = "" if alone else f" ({row.low:+.1f} to {row.high:+.1f})"
        cells.setdefault(name, {})[f"{row.which} over {row.over}"] = f"{row.value:+.1f}{interval}"
    return pd.DataFrame.from_dict(cells, orient="index").rename_axis("%")


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """The numbers behind the page's text, a study by its data set; leads in percent, scores in points."""
    table = leads(edition)
    values = {by: part["value"] for by, part in table.groupby("by")}
    places = choosing.distances_behind(edition)
    named: dict[str, float | str] = {
        "runs": float(sum(len(study.runs) for study in edition)),
        "never_behind_ours": ", ".join(choosing.never_behind(places, ours=True)),
    }
    for by, part in values.items():
        named |= prose.span(by, part) | {f"{by}.span": percent_span(part.min(), part.max())}
    named |= prose.span("triplet", [100 * value for value in published_leads(TRIPLET).values()])
    over = over_2006(edition)
    for row in over.itertuples():
        name = f"{row.dataset}.{row.metric}.{row.which}_over_{row.over}"
        named |= {name: row.value, f"{name}.low": row.low}
    means = over.query("metric == 'map_at_r' and over == @CONTRASTIVE and which == 'mean'")["value"]
    named |= prose.span("ours.map_at_r", means) | {"ours.map_at_r.span": percent_span(means.min(), means.max())}
    named |= prose.of_each(edition, partial(_of_study, edition=edition))
    for name in ("joined", "range", "split", "tuned_away"):
        named |= prose.span(name, [named[f"{study.meta['dataset']}.{name}"] for study in edition])
    return named


def percent_span(low: float, high: float) -> str:
    """Two signed percentages as a sentence has them.

    >>> percent_span(-1.88, 0.04)
    '−1.9 to 0.0 %'
    """
    return publish.typeset(f"{low:+.1f} to {high:+.1f} %")


def _of_study(study: StudyRecords, edition: Sequence[StudyRecords]) -> dict[str, float]:
    """The numbers on one study, of concatenated MAP@R; split: random class orders less the default one."""
    compared, frame = significance.compare(study, edition), tables.accuracy(study)
    newer = after2019.against_the_fourteen(after2019.with_later_losses([study])[study.name])
    below, of = labels.below_untrained(study, "map_at_r", "separated")
    levels, orders = searches.levelled(study), oi.every_order(study.name)
    orders = orders[(orders["metric"] == "map_at_r") & (orders["what"] == "trained")].set_index("order")["score"]
    return {
        "range": 100 * tables.spread(frame)["range"],
        "joined": winners.joining_gain(frame),
        "pairs": float(len(compared.pairs)),
        "pairs_apart": float((compared.pairs["holm"] < 1 - statistics.LEVEL).sum()),
        "visible": 100 * significance.visible(compared),
        "tuned_away": 100 * (1 - levels["search"] / levels["1"]),
        "trials": float(tables.trials_to_reach(tables.best_so_far(study)).median()),
        "split": 100 * float(orders.drop("default", errors="ignore").mean() - orders.get("default", np.nan)),
        "after2019": float(newer["n"]),
        "after2019_lead": 100 * (newer["best"] - newer["fourteen"]),
        "below_alone": float(below),
        "losses": float(of),
    }


# The picture, whose export is the README's too


def claimed_and_measured(leads: pd.DataFrame, title: str) -> Figure:
    """Draw `leads`: a bar a claim, a hollow dot a table of the Reality Check, a filled one a study of ours."""
    sources = [name for name in HEADS if (leads["by"] == name).any()]
    figure, axis = charts.panel(0.9 + 0.17 * (len(leads) + 1.3 * len(sources)))
    place, ticks = -1.0, {}
    for by in sources:
        place += 1.3
        axis.text(0, place - 0.1, f" {HEADS[by]}", va="center", fontsize=8.5, fontweight="bold")
        for row in leads[leads["by"] == by].itertuples():
            place += 1
            ticks[place] = style.escape_math(row.where)
            _draw(axis, place, row)
    axis.axvline(0, color="black", linewidth=0.8, zorder=1)
    axis.set(yticks=list(ticks), yticklabels=list(ticks.values()), ylim=(place + 0.7, -0.5))
    axis.set_xlim(min(-6, leads[["low", "value"]].min().min() - 2), 240)
    axis.set(xticks=(0, 100, 200), xticklabels=("contrastive loss\nof 2006", "twice\nits P@1", "three times\nits P@1"))
    axis.tick_params(labelsize=8.5)
    axis.grid(False)
    axis.spines[["left", "right", "top"]].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
    return figure


def _draw(axis: Axes, place: float, row: tuple) -> None:
    text = f"{row.value:+.0f} %" if row.by == PAPERS else f"{row.value:+.1f} %"
    if row.by == PAPERS:
        mark = axis.barh(place, row.value, height=0.7, color="#BBBBBB")[0]
        tip = f"{row.where}, {row.papers} papers: {text} over contrastive"
    else:
        inside = style.BLUE if row.by == MEASURED else "white"
        axis.plot([row.low, row.high], [place, place], color=style.BLUE, linewidth=1.2, zorder=2)
        (mark,) = axis.plot(row.value, place, "o", color=style.BLUE, markerfacecolor=inside, markersize=5.5, zorder=3)
        tip = f"{row.where}, {HEADS[row.by]}: {text} over contrastive"
    if row.low == row.low:
        text = f"{text}  ({row.low:+.1f} to {row.high:+.1f})"
    svg.tips(mark, tip)
    look = {"textcoords": "offset points", "va": "center", "fontsize": 8.5}
    axis.annotate(text.replace("-", "−"), (max(row.value, 0), place), (6, 0), **look)
