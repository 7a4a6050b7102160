"""Which methods differ, as the chapter prints it: cells of tables, and sentences with their numbers."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import labels, statistics, tables
from dmlrc.report.significance.measures import (
    ALPHA,
    BORROWED,
    MARGIN,
    METRIC,
    OWN,
    Comparison,
    baseline,
    class_scores,
    compare,
    cost_and_accuracy,
    critical_difference,
    effects,
    friedman,
    over_classes,
    same_function,
)


def luck(several: Iterable[Comparison]) -> str:
    """Which luck the tests of each study count, a sentence for all studies of which the same holds."""
    told: dict[str, list[str]] = {}
    for compared in several:
        told.setdefault(_luck(compared), []).append(f"`{compared.study}`")
    return labels.bullets(f"{labels.listed(names)}: {sentence}" for sentence, names in told.items())


def _luck(compared: Comparison) -> str:
    searches = compared.runs.groupby("method")["repetition"].nunique()
    if compared.luck == OWN:
        often = f"{searches.min()} to {searches.max()} times" if searches.nunique() > 1 else f"{searches.max()} times"
        return f"every method was searched {often}; the tests count the luck of search and of seed."
    if compared.luck == BORROWED:
        return (
            "every method was searched once, so the luck of its search cannot be seen; it is taken from "
            f"`{compared.donor}`, in proportion to the mean score. The luck of seeds is measured here."
        )
    return (
        "every method was searched once, and no study here searched twice. The tests see the luck of seeds alone; "
        "another search may turn what they call different around."
    )


def ranked_cells(summary: pd.DataFrame, untrained: float) -> tuple[pd.Series, pd.Series]:
    """A column of scores as cells, "12.3 ± 0.4 (1 to 3)" with the ranks they may have, and marks as of `tables.marks`.

    summary: of a `Comparison`. BELOW behind what is lower than the untrained trunk.
    """
    halves = (summary["high"] - summary["low"]) / 2
    ranks = map(labels.places, summary["rank_low"], summary["rank_high"])
    texts = pd.Series(map(labels.percent, summary["mean"], halves), summary.index, dtype=object)
    texts = labels.against_untrained(texts + [f" ({rank})" for rank in ranks], summary["mean"], untrained)
    marks = summary["among_best"].astype(bool).map({True: "tie", False: ""})
    marks[summary["mean"].idxmax()] = "best"
    return texts, marks


RANKED = (
    "In brackets: the ranks that a method may have. Bold: the highest mean; italic: not to be told from the best, "
    "counting the luck of search and seed."
)
"""What `ranked_cells` show, for captions."""


def differences(compared: Comparison) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and marks of all pairs: row minus column in points, the best method first.

    Bold where they differ (Holm's correction over all pairs), italic where they are equal within MARGIN.
    """
    names = list(compared.summary["mean"].sort_values(ascending=False).index)
    cells = pd.DataFrame("", index=names, columns=names)
    marks = cells.copy()
    for pair in compared.pairs.itertuples():
        cells.loc[pair.a, pair.b] = labels.signed(pair.difference, 2, "")
        cells.loc[pair.b, pair.a] = labels.signed(-pair.difference, 2, "")
        mark = "best" if pair.holm < ALPHA else "tie" if pair.equal else ""
        marks.loc[pair.a, pair.b] = marks.loc[pair.b, pair.a] = mark
    heads = list(map(labels.method_label, names))
    return (
        cells.set_axis(heads).set_axis(heads, axis=1).rename_axis("Row minus column"),
        marks.set_axis(heads).set_axis(heads, axis=1),
    )


def effect_cells(compared: Sequence[Comparison]) -> pd.DataFrame:
    """`effects` of every study as cells: a row a method; points with their interval, Holm's p, whether equal."""
    parts = {}
    for each in compared:
        found = effects(each)
        parts[each.study] = pd.DataFrame(
            {
                "points": [_points(row) for row in found.itertuples()],
                "p": found["holm"].map(p_value).to_numpy(),
                "equal": found["equal"].map({True: "yes", False: "–"}).to_numpy(),
            },
            index=found.index,
        )
    cells = pd.concat(parts, axis=1)
    cells = cells.loc[tables.ordered(cells.index)].fillna("–")
    return cells.rename(index=labels.method_label).rename_axis("Method")


def _points(row) -> str:
    return f"{100 * row.difference:+.2f} [{100 * row.low:+.2f}, {100 * row.high:+.2f}]"


def p_value(value: float) -> str:
    """The p of a test with three digits.

    >>> p_value(0.0324), p_value(1e-7), p_value(float("nan"))
    ('0.032', '< 0.001', '–')
    """
    return "–" if np.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"


def overview(edition: Sequence[StudyRecords], lenders: Sequence[StudyRecords]) -> pd.DataFrame:
    """How many pairs differ and how many are equal, as cells: a row a study, setting and metric.

    lenders: studies that may lend the luck of search, see `compare`.
    """
    rows = []
    for each, setting, metric in itertools.product(edition, tables.SETTINGS, ("precision_at_1", METRIC)):
        compared = compare(each, lenders, metric, setting)
        pairs, told = compared.pairs, compared.summary
        best = told[told["among_best"]].sort_values("mean", ascending=False).index
        rows.append(
            {
                "Study": each.name,
                "accuracy": f"{labels.METRIC_LABELS[metric]}, {setting}",
                "luck counted": compared.luck,
                "pairs": str(len(pairs)),
                "differ": str((pairs["holm"] < ALPHA).sum()),
                "uncorrected": str((pairs["p"] < ALPHA).sum()),
                "Welch": str((statistics.holm(pairs["p_welch"]) < ALPHA).sum())
                if pairs["p_welch"].notna().any()
                else "–",
                "equal": str(pairs["equal"].sum()),
                "cannot be told from the best": ", ".join(map(labels.method_label, best)),
            }
        )
    return pd.DataFrame(rows).set_index(["Study", "accuracy"])


def best_with_search(compared: Comparison) -> str:
    """How many methods of a study that was searched once may be the best with search counted; "" of other studies."""
    if compared.luck != BORROWED:
        return ""
    told = compared.summary
    return (
        f"With the luck of search borrowed from `{compared.donor}`, {told['among_best'].sum()} of {len(told)} methods "
        "may be the best ({doc}`09_which_methods_differ`)."
    )


def differences_sentence(compared: Comparison) -> str:
    """How many pairs of a study differ, how many are equal, and which methods may be the best, in a few sentences."""
    if len(compared.methods) < 2 or np.isnan(compared.known.repetition):
        return f"`{compared.study}`: fewer than two methods, or no run repeated, so nothing can be tested."
    pairs, told = compared.pairs, compared.summary.sort_values("mean", ascending=False)
    best, *rest = map(labels.method_label, told[told["among_best"]].index)
    among = f"cannot be told from {labels.listed(rest)}" if rest else "can be told from every other method"
    half = ((pairs["high"] - pairs["low"]) / 2).mean()
    return (
        f"`{compared.study}`: {(pairs['holm'] < ALPHA).sum()} of {len(pairs)} pairs of methods differ in MAP@R, and "
        f"{pairs['equal'].sum()} are equal within {labels.percent(MARGIN, digits=0)} point ({compared.luck}). {best} "
        f"has the highest mean and {among}. A difference is known to ± {labels.percent(half)} points on average."
    )


def differences_in_short(compared: Sequence[Comparison]) -> str:
    """How many pairs differ in each study, in one sentence; "" where nothing can be tested."""
    told = {
        each.study: f"{(each.pairs['holm'] < ALPHA).sum() or 'none'} of {len(each.pairs)}"
        f"{'' if each.luck == OWN else f' ({each.luck})'}"
        for each in compared
        if _is_tested(each)
    }
    return f"Pairs of methods that differ in MAP@R: {labels.by_study(told)}." if told else ""


def equal_in_short(compared: Sequence[Comparison]) -> str:
    """How many pairs are equal in each study, in one sentence; "" where nothing can be tested."""
    told = {}
    for each in compared:
        if _is_tested(each):
            equal, differ = each.pairs["equal"], each.pairs["holm"] < ALPHA
            both = int((equal & differ).sum())
            told[each.study] = f"{equal.sum() or 'none'}{f' ({both} of them differ all the same)' if both else ''}"
    margin = labels.percent(MARGIN, digits=0)
    return f"Pairs that are equal within {margin} point: {labels.by_study(told)}." if told else ""


def _is_tested(compared: Comparison) -> bool:
    return len(compared.methods) > 1 and not np.isnan(compared.known.repetition)


def by_distance(compared: Sequence[Comparison]) -> str:
    """How many neighbours in rank differ in each study, and how many pairs that stand far apart."""
    neighbours, far = {}, {}
    for each in compared:
        places = each.summary["mean"].rank(ascending=False)
        apart = (each.pairs["a"].map(places) - each.pairs["b"].map(places)).abs()
        differ = each.pairs["holm"] < ALPHA
        for told, chosen in ((neighbours, apart <= 1), (far, 2 * apart > len(places))):
            told[each.study] = f"{differ[chosen].sum() or 'none'} of {labels.counted(int(chosen.sum()), 'pair')}"
    return (
        f"Neighbours in rank differ in {labels.by_study(neighbours)}; methods more than half the table apart differ in "
        f"{labels.by_study(far)}."
    )


def best_in_short(compared: Sequence[Comparison]) -> str:
    """How many methods may be the best of each study, in one sentence; "" where there is none."""
    told = {
        each.study: f"{each.summary['among_best'].sum()} of {len(each.summary)}"
        for each in compared
        if len(each.summary) > 1
    }
    return f"Methods that may be the best: {labels.by_study(told)}." if told else ""


def without_classes(edition: Sequence[StudyRecords]) -> str:
    """Which studies the resampling of test classes leaves out, and why; "" where it leaves out none."""
    lacking = [f"`{each.name}`" for each in edition if class_scores(each) is None]
    return f"On {labels.listed(lacking)} the scores of each test class were not recorded." if lacking else ""


def effects_sentence(compared: Comparison) -> str:
    """The methods farthest above and below the oldest loss, in a sentence."""
    found = effects(compared)["difference"]
    high, low = found.idxmax(), found.idxmin()
    first, most, least = map(labels.method_label, (baseline(compared.methods), high, low))
    gain, loss = (labels.signed(found[name], 2, "") for name in (high, low))
    above = f"{most} lies farthest above {first}, by {gain} points"
    if found[high] <= 0:
        above = f"no method lies above {first}; {most} comes nearest ({gain} points)"
    return f"On `{compared.study}` {above}, and {least} lies lowest, at {loss}."


def ranks_sentence(compared: Comparison) -> str:
    """How many methods may be the best, and the widest range of ranks, in a sentence."""
    told = compared.summary
    width = told["rank_high"] - told["rank_low"]
    widest = width.idxmax()
    low, high = told.loc[widest, ["rank_low", "rank_high"]]
    return (
        f"On `{compared.study}` {told['among_best'].sum()} of {len(told)} methods may be the best; the rank of "
        f"{labels.method_label(widest)} may be any from {low:.0f} to {high:.0f}."
    )


def caution(compared: Comparison) -> str:
    """What the tests make of one function that was searched under two names; "" where it was not."""
    found = same_function(compared)
    if found is None:
        return ""
    misses = not found.low <= 0 <= found.high
    return (
        f"On `{compared.study}` N. Softmax and ProxyNCA, which are one function searched under two names, differ by "
        f"{labels.signed(found.value, 2, '')} points, with an interval from {labels.signed(found.low, 2, '')} to "
        f"{labels.signed(found.high, 2, '')} ({compared.luck})"
        + ": it misses zero, so two searches of one function may lie further apart than it allows for" * misses
        + "."
    )


def friedman_sentence(blocks: pd.DataFrame) -> str:
    """Friedman's test over the data sets, and the critical difference, in words. blocks: `measures.datasets`."""
    count, methods = blocks.shape
    if count < 3 or methods < 3:
        return (
            f"There {'is one study' if count == 1 else f'are {count} studies'} here; a test over data sets takes three."
        )
    test = friedman(blocks)
    p = "p < 0.001" if test["p"] < 0.001 else f"p = {test['p']:.3f}"
    return (
        f"Over {count} data sets and {methods} methods Friedman's χ² is {test['statistic']:.1f}, {p}; mean ranks must "
        f"lie {critical_difference(count, methods):.1f} apart to differ by Nemenyi's test."
    )


def classes_sentence(records: StudyRecords) -> str:
    """What other test classes would have changed, in two sentences; "" where no class scores were recorded."""
    found = over_classes(records)
    if found is None:
        return ""
    half = ((found["high"] - found["low"]) / 2).mean()
    leader, others = found["first"].idxmax(), len(found) - 1
    apart = (found["behind_low"].round(4) > 0).sum()  # as printed
    behind = f"all {others}" if apart == others else f"{apart or 'none'} of the {others}"
    return (
        f"On `{records.name}` other test classes of the same kind would move every method by ± {labels.percent(half)} "
        f"points, but nearly all in step. {labels.method_label(leader)} leads in "
        f"{100 * found['first'][leader]:.0f} % of the resamples, and {behind} other methods lie clearly behind the "
        "best (their interval excludes 0), as far as these models go: the luck of search and seed is not counted."
    )


def class_cells(records: StudyRecords) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`over_classes` as cells, in percent and points, the best first, and marks; last the untrained trunk.

    Italic: it may be the best on other classes, see `over_classes`.
    """
    found = over_classes(records).sort_values("mean", ascending=False, kind="stable")
    untrained = tables.mean_of(tables.accuracy(records), PRETRAINED, "map_at_r")
    means = labels.against_untrained(found["mean"].map(labels.percent), found["mean"], untrained)
    cells = pd.DataFrame(
        {
            "MAP@R": labels.against_limit(means, pd.Series(found.index.map(tables.cut_off(records)), found.index)),
            "other classes": _interval(found["low"], found["high"]),
            "behind the best": found["behind"].map(labels.percent),
            "behind, other classes": _interval(found["behind_low"], found["behind_high"]),
            "leads": found["first"].map(lambda share: f"{100 * share:.0f} %"),
        }
    )
    if untrained == untrained:
        cells.loc[PRETRAINED] = {"MAP@R": labels.percent(untrained)}
    cells = cells.fillna("–").rename(index=labels.method_label).rename_axis("Method")
    marks = pd.DataFrame("", cells.index, cells.columns)
    marks["MAP@R"] = [*np.where(found["behind_low"].round(4) > 0, "", "tie"), *[""] * (len(cells) - len(found))]
    marks.iloc[0, 0] = "best"
    return cells, marks


def _interval(low: pd.Series, high: pd.Series) -> list[str]:
    return [f"{100 * a:.2f} to {100 * b:.2f}" for a, b in zip(low, high, strict=True)]


def cheapest_sentence(compared: Comparison, records: StudyRecords) -> str:
    """Which method needs the fewest steps among those that cannot be told from the best, in one sentence."""
    table = cost_and_accuracy(compared, records) if len(compared.runs) else pd.DataFrame()
    if table.empty:
        return f"`{records.name}`: no finished rerun."
    if len(table) > 1 and table["steps"].nunique() == 1:
        return (
            f"On `{records.name}` all methods take {table['steps'].iloc[0]:,.0f} steps, so their number tells nothing."
        )
    tied = table[table["among_best"]]
    best, cheapest = tied["mean"].idxmax(), tied["steps"].idxmin()
    first, second = map(labels.method_label, (best, cheapest))
    begin = f"On `{records.name}` {first} has the highest mean, in {tied['steps'][best]:,.0f} steps a rerun"
    others = f"the {len(tied) - 1} that cannot be told from it"
    if len(tied) == 1:
        return f"{begin}, and every other method can be told from it."
    if best == cheapest:
        return f"{begin}, and none of {others} takes fewer."
    return f"{begin}; of {others} {second} takes the fewest, {tied['steps'][cheapest]:,.0f}."
