"""Which methods differ, as the chapter prints it: cells of tables, and the numbers of its text."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import labels, statistics, tables
from dmlrc.report.significance.measures import (
    ALPHA,
    BORROWED,
    METRIC,
    OWN,
    Comparison,
    baseline,
    between_searches,
    compare,
    cost_and_accuracy,
    critical_difference,
    datasets,
    effects,
    friedman,
    nemenyi,
    over_classes,
    visible,
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


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float]:
    """What the text of the page rests on, a study by its data set; scores in points of concatenated MAP@R."""
    blocks = datasets(edition)
    named = {"apart_over_sets": critical_difference(*blocks.shape), "friedman": friedman(blocks)["p"]}
    named["pairs_over_sets"] = float((nemenyi(blocks).to_numpy() < ALPHA).sum() / 2)
    for each in edition:
        found = _of_study(compare(each, edition)) | _of_classes(each)
        named |= {f"{each.meta['dataset']}.{name}": float(value) for name, value in found.items()}
    return named


def _of_study(compared: Comparison) -> dict[str, float]:
    pairs, ranks = compared.pairs, compared.summary
    differ, found = pairs["holm"] < ALPHA, effects(compared)
    above = found["difference"][found["holm"] < ALPHA]
    return _by_distance(compared) | {
        "losses": len(ranks),
        "pairs": len(pairs),
        "differ": differ.sum(),
        "welch": (statistics.holm(pairs["p_welch"]) < ALPHA).sum(),
        "equal": pairs["equal"].sum(),
        "differ_and_equal": (differ & pairs["equal"]).sum(),
        "range": 100 * (ranks["mean"].max() - ranks["mean"].min()),
        "between_searches": 100 * between_searches(compared.runs),
        "search_to_seed": np.sqrt(compared.known.search / compared.known.seed),
        "visible": 100 * visible(compared),
        "clearly_above_oldest": (above > 0).sum(),
        "clearly_below_oldest": (above < 0).sum(),
        "oldest_may_be_best": ranks["among_best"][baseline(compared.methods)],
        "ms_is_best": ranks["mean"].idxmax() == "multi_similarity",
        "fewest_ranks": (ranks["rank_high"] - ranks["rank_low"]).min() + 1,
        "within_first_nine": (ranks["rank_high"] <= 9).sum(),
        "behind_first_nine": (ranks["rank_low"] > 9).sum(),
    }


def _by_distance(compared: Comparison) -> dict[str, float]:
    """How many neighbours in rank there are, and how many pairs more than half the table apart; how many differ."""
    places = compared.summary["mean"].rank(ascending=False)
    apart = (compared.pairs["a"].map(places) - compared.pairs["b"].map(places)).abs()
    differ, far = compared.pairs["holm"] < ALPHA, 2 * apart > len(places)
    return {
        "neighbours": (apart <= 1).sum(),
        "neighbours_differ": differ[apart <= 1].sum(),
        "far": far.sum(),
        "far_differ": differ[far].sum(),
    }


def _of_classes(records: StudyRecords) -> dict[str, float]:
    """Half of the mean interval that other test classes give a score, and a gap to the best; NaN where not known."""
    found = over_classes(records)
    if found is None:
        return {"class_half": np.nan, "gap_half": np.nan}
    return {
        "class_half": 50 * (found["high"] - found["low"]).mean(),
        "gap_half": 50 * (found["behind_high"] - found["behind_low"]).mean(),
    }
