"""Which methods differ, as the chapter prints it: cells of tables, and sentences with their numbers."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dmlrc.records import StudyRecords
from dmlrc.report import labels, tables
from dmlrc.report.significance.measures import (
    ALPHA,
    METRIC,
    complete,
    cost_and_accuracy,
    critical_difference,
    effects,
    friedman,
    not_told_apart,
    pairwise,
    same_function,
    scores,
    smallest_wilcoxon,
)


def differences(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and marks of all pairs: row minus column in points, the best method first; bold if significant.

    Significant: Holm's correction of the paired t tests over all pairs.
    """
    pairs = pairwise(table)
    names = list(table.mean().sort_values(ascending=False).index)
    cells = pd.DataFrame("", index=names, columns=names)
    marks = cells.copy()
    for pair in pairs.itertuples():
        cells.loc[pair.a, pair.b] = labels.signed(pair.difference, 2, "")
        cells.loc[pair.b, pair.a] = labels.signed(-pair.difference, 2, "")
        if pair.holm_t < ALPHA:
            marks.loc[pair.a, pair.b] = marks.loc[pair.b, pair.a] = "best"
    heads = list(map(labels.method_label, names))
    return (
        cells.set_axis(heads).set_axis(heads, axis=1).rename_axis("Row minus column"),
        marks.set_axis(heads).set_axis(heads, axis=1),
    )


def effect_cells(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """`effects` of every study as cells: a row a method; points with the interval, g, Holm's p, Wilcoxon's p."""
    parts = {}
    for each in edition:
        effects_of_study = effects(scores(each))
        parts[each.name] = pd.DataFrame(
            {
                "points": [_points(row) for row in effects_of_study.itertuples()],
                "g": effects_of_study["g"].map("{:+.1f}".format).to_numpy(),
                "p (Holm)": effects_of_study["holm_t"].map(_p).to_numpy(),
                "p (Wilcoxon)": effects_of_study["p_wilcoxon"].map(_p).to_numpy(),
            },
            index=effects_of_study.index,
        )
    cells = pd.concat(parts, axis=1)
    cells = cells.loc[tables.ordered(cells.index)].fillna("–").replace("+nan", "–")
    return cells.rename(index=labels.method_label).rename_axis("Method")


def _points(row) -> str:
    return f"{100 * row.difference:+.2f} [{100 * row.low:+.2f}, {100 * row.high:+.2f}]" if row.n else "–"


def _p(value: float) -> str:
    """
    >>> _p(0.0324), _p(1e-7), _p(float("nan"))
    ('0.032', '< 0.001', '–')
    """
    return "–" if np.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"


def overview(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """How many pairs differ, as cells: a row a study, setting and metric; a column a test, corrected and not."""
    rows = []
    for each in edition:
        for setting, metric in itertools.product(tables.SETTINGS, ("precision_at_1", METRIC)):
            table = scores(each, metric, setting)
            pairs = pairwise(table)
            below = {test: str((pairs[test] < ALPHA).sum()) for test in ("holm_t", "p_t", "p_wilcoxon")}
            rows.append(
                {
                    "Study": each.name,
                    "accuracy": f"{labels.METRIC_LABELS[metric]}, {setting}",
                    "pairs": str(len(pairs)),
                    "differ (t, Holm)": below["holm_t"],
                    "uncorrected t": below["p_t"],
                    "uncorrected Wilcoxon": below["p_wilcoxon"],
                    "best, and not told from it": ", ".join(map(labels.method_label, not_told_apart(table, pairs))),
                }
            )
    return pd.DataFrame(rows).set_index(["Study", "accuracy"])


def differences_sentence(records: StudyRecords) -> str:
    """How many pairs of a study differ, and which methods the best cannot be told from, in a few sentences."""
    table = scores(records)
    reruns = int(table.notna().all(axis=1).sum())
    if table.shape[1] < 2 or reruns < 2:
        return f"`{records.name}`: fewer than two methods with two reruns in common, so nothing can be tested."
    pairs = pairwise(table)
    significant = pairs["holm_t"] < ALPHA
    best, *rest = map(labels.method_label, not_told_apart(table, pairs))
    among = f"cannot be told from {', '.join(rest)}" if rest else "can be told from every other method"
    half = ((pairs["high"] - pairs["low"]) / 2).mean()
    return (
        f"`{records.name}`: {significant.sum()} of {len(pairs)} pairs of methods differ in MAP@R (paired t tests over "
        f"{reruns} reruns, Holm's correction, 5 %). {best} has the highest mean and {among}. The interval of a "
        f"difference is ± {labels.percent(half)} points on average: much smaller ones go unseen."
    )


def caution(records: StudyRecords) -> str:
    """What the tests of a study cannot tell, with its numbers."""
    table = scores(records)
    pairs, reruns = table.shape[1] * (table.shape[1] - 1) // 2, len(complete(table))
    sentences = []
    searched = same_function(records)
    if not np.isnan(searched):
        sentences.append(
            f"In `{records.name}` N. Softmax and ProxyNCA, which are one function searched twice, differ by "
            f"{labels.signed(searched, 2, '')} points: a difference of that size says nothing about losses, "
            "significant or not."
        )
    if reruns >= 2 and smallest_wilcoxon(reruns, pairs) > ALPHA:
        sentences.append(
            f"With {reruns} reruns the signed-rank test cannot fall below p = {smallest_wilcoxon(reruns, pairs):.2f} "
            f"after the correction for {pairs} pairs, so it is shown uncorrected, as a check on the t test."
        )
    return " ".join(sentences)


def friedman_sentence(titled: Mapping[str, pd.DataFrame]) -> str:
    """Friedman's tests of all blocks, and the critical differences, in words. titled: `blocks`."""
    if not titled:
        return "No study has two reruns of three methods: there are no ranks to compare."
    sentences = []
    for name, each in titled.items():
        test = friedman(each)
        p = "p < 0.001" if test["p"] < 0.001 else f"p = {test['p']:.3f}"
        sentences.append(
            f"{name}: Friedman's χ² = {test['statistic']:.1f}, {p}, {each.shape[0]} blocks, {each.shape[1]} methods, "
            f"critical difference {critical_difference(*each.shape):.1f} ranks"
        )
    return "; ".join(sentences) + "."


def pareto_front(records: StudyRecords) -> str:
    """Which methods no other beats with fewer steps and a higher mean, in one sentence."""
    table = cost_and_accuracy(records)
    if table.empty:
        return f"`{records.name}`: no finished rerun."
    names = ", ".join(map(labels.method_label, table.index[~table["dominated"]]))
    return f"`{records.name}`: no other method has a higher mean in fewer steps than {names}."
