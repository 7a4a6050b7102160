"""The chapter on which methods differ, as printed: cells of tables, and the numbers of its text."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import labels, planning, power, statistics, tables
from dmlrc.report.results_table import LIFT, results_table, with_foot
from dmlrc.report.significance import measures
from dmlrc.report.significance.measures import ALPHA, BORROWED, METRIC, OWN, Comparison


def luck(compared: Comparison) -> str:
    """The luck that the tests of a study count, for the page of a reader's own loss."""
    if compared.luck == OWN:
        often = labels.listed(map(str, sorted(compared.runs.groupby("method")["repetition"].nunique().unique())))
        return f"The tests count the noise of search and of seed. Searches of a method: {often}."
    if compared.luck == BORROWED:
        return (
            "Every method was searched once, so the noise of its search cannot be seen. It is taken from a study that "
            f"searched again, in proportion to the mean score: `{compared.donor}`. The noise of seeds is measured here."
        )
    return (
        "Every method was searched once, and no study here searched twice. The tests see the noise of seeds alone; "
        "another search may turn what they call different around."
    )


def scored(summary: pd.DataFrame, column: str, untrained: float, gap: float) -> pd.DataFrame:
    """The summary of a `Comparison` as a column of `results_table`, with ranks. gap: `measures.visible`."""
    rows = {"row": summary.index, "column": column, "untrained": untrained, "gap": gap}
    return summary.assign(half=(summary["high"] - summary["low"]) / 2, **rows).drop(columns=["low", "high"])


def difference_cells(compared: Comparison) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and marks of all pairs: row minus column in points; bold where they differ, italic where equal."""
    names = compared.summary["mean"].sort_values(ascending=False).index.map(labels.method_label)
    pairs = measures.both_ways(compared.pairs)
    marks = np.select([pairs["holm"] < ALPHA, pairs["equal"].astype(bool)], ["best", "tie"], "")
    rows = {"row": pairs["a"].map(labels.method_label), "column": pairs["b"].map(labels.method_label), "text": ""}
    alone = pd.DataFrame({"row": names, "column": names, "mean": np.nan, "mark": "", "text": ""})
    shown = pairs.rename(columns={"difference": "mean"}).drop(columns=["low", "high"]).assign(mark=marks, **rows)
    cells, marks = results_table(pd.concat([alone, shown], ignore_index=True).assign(form="+.2%"))
    return cells.rename_axis("Row minus column"), marks


def effect_cells(compared: Sequence[Comparison]) -> pd.DataFrame:
    """`effects` of every study as cells: a row a method; points with their interval, Holm's p, whether equal."""
    parts = []
    for comparison in compared:
        frame = measures.effects(comparison).rename_axis("row").reset_index().rename(columns={"difference": "mean"})
        parts.append(frame.assign(form="+.2%", column=[(comparison.study, "points")] * len(frame)))
        for name, texts in (("p", frame["holm"].map(p_value)), ("equal", frame["equal"].map({True: "yes"}))):
            column = [(comparison.study, name)] * len(frame)
            parts.append(pd.DataFrame({"row": frame["row"], "column": column, "text": texts}))
    cells, _ = results_table(pd.concat(parts, ignore_index=True))
    return cells.loc[tables.ordered(cells.index)].rename(index=labels.method_label).rename_axis("Method")


def p_value(value: float) -> str:
    """The p of a test with three digits.

    >>> p_value(0.0324), p_value(1e-7), p_value(float("nan"))
    ('0.032', '< 0.001', '–')
    """
    return "–" if np.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"


def pairs_overview(edition: Sequence[StudyRecords], lenders: Sequence[StudyRecords]) -> pd.DataFrame:
    """The numbers of pairs that differ and that are equal, as cells: a row a study, setting and metric."""
    rows = {}
    for study, setting, metric in itertools.product(edition, tables.SETTINGS, ("precision_at_1", METRIC)):
        compared = measures.compare(study, lenders, metric, setting)
        pairs, summary = compared.pairs, compared.summary.sort_values("mean", ascending=False)
        lift = tables.lift(tables.by_method(tables.accuracy(study), metric, setting)["mean"])
        welch = (statistics.holm(pairs["p_welch"]) < ALPHA).sum() if pairs["p_welch"].notna().any() else "–"
        rows[study.name, f"{labels.METRIC_LABELS[metric]}, {setting}"] = {
            "noise counted": compared.luck,
            "pairs": str(len(pairs)),
            "differ": str((pairs["holm"] < ALPHA).sum()),
            "uncorrected": str((pairs["p"] < ALPHA).sum()),
            "Welch": str(welch),
            "equal": str(pairs["equal"].sum()),
            "tied with the best": ", ".join(map(labels.method_label, summary.index[summary["among_best"]])),
            LIFT.lower(): labels.signed(lift, 2, ""),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["Study", "accuracy"])


def class_cells(records: StudyRecords) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`scores_on_other_classes` as cells and marks, the best first; italic: it may be the best on other classes."""
    classes = measures.scores_on_other_classes(records).sort_values("mean", ascending=False, kind="stable")
    untrained = tables.mean_of(tables.accuracy(records), PRETRAINED, METRIC)
    means = pd.concat([classes["mean"], pd.Series({PRETRAINED: untrained}).dropna()])
    scores = pd.DataFrame({"row": means.index, "column": "MAP@R", "mean": means, "untrained": untrained})
    scores["cut_off"] = tables.cut_off(records).reindex(means.index)
    scores["among_best"] = (classes["behind_low"].round(4) <= 0).reindex(means.index).astype(object)
    texts = {
        "other classes": _interval(classes["low"], classes["high"]),
        "behind the best": classes["behind"].map(labels.percent),
        "behind, other classes": _interval(classes["behind_low"], classes["behind_high"]),
        "leads": classes["first"].map(lambda share: f"{100 * share:.0f} %"),
    }
    more = [pd.DataFrame({"row": classes.index, "column": name, "text": text}) for name, text in texts.items()]
    both = results_table(with_foot(pd.concat([scores, *more], ignore_index=True)))
    return tuple(frame.rename(index=labels.method_label).rename_axis("Method") for frame in both)


def _interval(low: pd.Series, high: pd.Series) -> list[str]:
    return [f"{100 * a:.2f} to {100 * b:.2f}" for a, b in zip(low, high, strict=True)]


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float]:
    """The numbers behind the page's text, a study by its data set; scores in points of concatenated MAP@R.

    class_half, gap_half: half of the mean interval that other test classes give a score, and a gap to the best; ten:
    the gap that ten searches show in all pairs.
    """
    blocks = measures.datasets(edition)
    named = {"apart_over_sets": measures.critical_difference(*blocks.shape), "friedman": measures.friedman(blocks)}
    named["pairs_over_sets"] = float((measures.nemenyi(blocks).to_numpy() < ALPHA).sum() / 2)
    for study in edition:
        compared = measures.compare(study, edition)
        values = _of_study(compared)
        if compared.luck == OWN:
            values["ten"] = replace(planning.in_points(compared), searches=10).least(power.ALL)
        if (drawn := measures.scores_on_other_classes(study)) is not None:
            values["class_half"] = 50 * (drawn["high"] - drawn["low"]).mean()
            values["gap_half"] = 50 * (drawn["behind_high"] - drawn["behind_low"]).mean()
        named |= {f"{study.meta['dataset']}.{name}": float(value) for name, value in values.items()}
    return named


def _of_study(compared: Comparison) -> dict[str, float]:
    """neighbours and far: pairs next to one another in rank, and more than half the table apart."""
    pairs, ranks = compared.pairs, compared.summary
    differ, gaps = pairs["holm"] < ALPHA, measures.effects(compared)
    above = gaps["difference"][gaps["holm"] < ALPHA]
    places = ranks["mean"].rank(ascending=False)
    apart = (pairs["a"].map(places) - pairs["b"].map(places)).abs()
    far = 2 * apart > len(places)
    return {
        "losses": len(ranks),
        "pairs": len(pairs),
        "differ": differ.sum(),
        "welch": (statistics.holm(pairs["p_welch"]) < ALPHA).sum(),
        "range": 100 * (ranks["mean"].max() - ranks["mean"].min()),
        "between_searches": 100 * measures.between_searches(compared.runs),
        "search_to_seed": np.sqrt(compared.known.search / compared.known.seed),
        "visible": 100 * measures.visible(compared),
        "clearly_above_oldest": (above > 0).sum(),
        "clearly_below_oldest": (above < 0).sum(),
        "oldest_may_be_best": ranks["among_best"][measures.baseline(compared.methods)],
        "ms_is_best": ranks["mean"].idxmax() == "multi_similarity",
        "fewest_ranks": (ranks["rank_high"] - ranks["rank_low"]).min() + 1,
        "within_first_nine": (ranks["rank_high"] <= 9).sum(),
        "behind_first_nine": (ranks["rank_low"] > 9).sum(),
        "neighbours_differ": differ[apart <= 1].sum(),
        "far": far.sum(),
        "far_differ": differ[far].sum(),
    }
