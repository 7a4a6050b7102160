"""The one way in which numbers with intervals become cells: a tidy frame in, ranks, bold, italic and signs out."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dmlrc.records import PRETRAINED
from dmlrc.report import labels
from dmlrc.report.tables import MOST_CUT_OFF

BEST, TIE = "best", "tie"
"""Marks: the highest mean of its column, printed bold; one that ties with it, italic."""
ABSENT = "–"
LIFT = "Lift by training"
"""The row of a ranking that says how far training lifted the mean of its rows above the untrained trunk."""
GAP = "Detectable gap (80 % power)"
"""The row that says which true difference of two of its rows such runs tell in four of five studies."""
FOOT_LINKS = {GAP: "../glossary.html#term-Detectable-gap"}
"""Where what a row of the foot means is explained."""


def results_table(scores: pd.DataFrame, digits: int = 2) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Lay numbers out as cells and their marks.

    Parameters
    ----------
    scores
        A row a number. Columns: row and column (its place; a tuple is a heading of two lines; both in the order in
        which they first appear, or of their categories) and mean (a fraction, NaN for none). May have: half (of its
        95 % interval, or its deviation; else it is ci95), or low and high (the ends of that interval), form (of
        `labels.number`; NaN: a share in percent), note (what else stands behind it), rank_low and rank_high (the ranks
        that it may have, behind it in brackets), among_best (whether it ties with the best of its column; NaN where it
        does not compete), block (rows of a column that compete among themselves), mark (in place of what follows from
        among_best), untrained (what a lower mean has a sign for), gap (of its column: `with_foot`), cut_off
        (the share of its runs that ended at the limit of epochs), text (what stands there in place of a number, where
        it has none).
    digits
        Behind the point, of percent.

    Returns
    -------
    tuple
        The cells, text, and for each of them `BEST`, `TIE` or "".
    """
    scores = scores.reset_index(drop=True)
    rows, columns = (
        list(places.cat.categories if isinstance(places.dtype, pd.CategoricalDtype) else dict.fromkeys(places))
        for places in (scores["row"], scores["column"])
    )
    places = list(zip(scores["row"], scores["column"], strict=True))
    tables = []
    for values, absent in ((_cells(scores, digits), ABSENT), (_marks(scores), "")):
        known = dict(zip(places, values, strict=True))
        texts = {column: [known.get((row, column), absent) for row in rows] for column in columns}
        tables.append(pd.DataFrame(texts, index=pd.Index(rows)))
    return tuple(tables)


def with_foot(scores: pd.DataFrame, untrained: Sequence[str] = (PRETRAINED, labels.UNTRAINED)) -> pd.DataFrame:
    """Rows of `results_table` with the last ones of a ranking, `LIFT` and `GAP`.

    The lift is the mean of the trained rows over the untrained trunk, of the columns that have one. Where it is not
    above 0, a table cannot rank losses. The gap is the column's highest `gap`, see `dmlrc.report.power`, all pairs.
    untrained: the rows that nothing trained.
    """
    trained = scores[scores["mean"].notna() & ~scores["row"].isin(untrained)]
    columns, over = trained["column"], trained["mean"] - trained["untrained"]
    gaps = _optional(trained, "gap").groupby(columns).transform("max")
    foot = [
        {"row": row, "column": column, "mean": values[columns == column].mean(), "form": form, "mark": ""}
        for row, values, form in ((LIFT, over, "+.2%"), (GAP, gaps, ".2%"))
        for column in dict.fromkeys(columns[values.notna()])
    ]
    if not foot:
        return scores
    whole = pd.concat([scores, pd.DataFrame(foot)], ignore_index=True)
    if "mark" not in scores:
        whole = whole.drop(columns="mark")
    if isinstance(scores["row"].dtype, pd.CategoricalDtype):
        added = dict.fromkeys(number["row"] for number in foot)
        whole["row"] = pd.Categorical(whole["row"], [*scores["row"].cat.categories, *added])
    return whole


def _cells(scores: pd.DataFrame, digits: int) -> pd.Series:
    """The printed form of each number; its text where there is none."""
    forms = (scores["form"] if "form" in scores else pd.Series(dtype=object)).reindex(scores.index)
    half = "half" if "half" in scores else "ci95"
    halves, low, high = (_optional(scores, name) for name in (half, "low", "high"))
    ends = forms.isna() & low.isna()  # of scores, whose scale has some
    numbers = zip(scores["mean"], halves, low, high, forms.fillna(f".{digits}%"), ends, strict=True)
    printed = [
        labels.score(mean, half, form) if ending else labels.number(mean, half, *interval, form)
        for mean, half, *interval, form, ending in numbers
    ]
    texts = pd.Series(printed, scores.index, dtype=object)
    if "note" in scores:
        texts += scores["note"].fillna("")
    ranked = _has_rivals(scores) if "among_best" in scores else scores["mean"].notna()
    ranks = zip(_optional(scores, "rank_low").where(ranked), _optional(scores, "rank_high"), strict=True)
    texts += ["" if math.isnan(low + high) else f" ({labels.rank_range(low, high, '–')})" for low, high in ranks]
    texts += np.where(scores["mean"] < _optional(scores, "untrained"), f" {labels.BELOW}", "")
    texts += np.where(_optional(scores, "cut_off") > MOST_CUT_OFF, f" {labels.CUT_OFF}", "")
    instead = scores["text"].astype(object).fillna(ABSENT) if "text" in scores else ABSENT
    return texts.where(scores["mean"].notna(), instead)


def _marks(scores: pd.DataFrame) -> pd.Series:
    """The mark of each competing number that is the best of its column, or ties with that."""
    marks = pd.Series("", scores.index)
    if "mark" in scores:
        return scores["mark"]
    if "among_best" not in scores:
        return marks
    competing = scores[_has_rivals(scores)]
    marks[competing.index[competing["among_best"].astype(bool)]] = TIE
    marks[competing.groupby(_groups(scores), sort=False)["mean"].idxmax()] = BEST
    return marks


def _has_rivals(scores: pd.DataFrame) -> pd.Series:
    """Tell which numbers compete with others of their column: one that is alone is first of none."""
    competing = _optional(scores, "among_best").notna() & scores["mean"].notna()
    return competing & (competing.groupby([scores[name] for name in _groups(scores)]).transform("sum") > 1)


def _groups(scores: pd.DataFrame) -> list[str]:
    return ["column", *({"block"} & set(scores))]


def _optional(scores: pd.DataFrame, name: str) -> pd.Series:
    return scores[name] if name in scores else pd.Series(float("nan"), scores.index)
