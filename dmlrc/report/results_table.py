"""The one way in which numbers with intervals become cells: mean and interval, ranks, bold and italic, signs.

A page makes a tidy frame, a row a number; `results_table` makes of it what is printed, for HTML, LaTeX and CSV alike.
"""

import numpy as np
import pandas as pd

from dmlrc.report import labels

BEST, TIE = "best", "tie"
"""Marks: the highest mean of its column, printed bold; one that ties with it, italic."""
ABSENT = "–"


def results_table(scores: pd.DataFrame, digits: int = 2) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Lay numbers out as cells and their marks.

    Parameters
    ----------
    scores
        A row a number. Columns: row and column (its place; a tuple is a heading of two lines; both in the order in
        which they first appear) and mean (a fraction, NaN for none). May have: half (of its 95 % interval, or its
        deviation), or low and high (the ends of that interval), signed (whether it is a difference, with its sign),
        rank_low and rank_high (the ranks that it may have, behind it in brackets), rank_of (of how many), among_best
        (whether it ties with the best of its column; NaN where it does not compete), block (rows of a column that
        compete among themselves), mark (in place of what follows from among_best), untrained (what a lower mean has a
        sign for), cut_off (the share of its runs that ended at the limit of epochs), text (what stands there in place
        of a number, where it has none).
    digits
        Behind the point, of percent.

    Returns
    -------
    tuple
        The cells, text, and for each of them `BEST`, `TIE` or "".
    """
    scores = scores.reset_index(drop=True)
    printed = scores.assign(cell=_cells(scores, digits), mark=_marks(scores))
    rows, columns = (list(dict.fromkeys(scores[name])) for name in ("row", "column"))
    keys = printed.set_index(["row", "column"])
    cells, marks = (
        pd.DataFrame({column: keys[name].xs(column, level="column").reindex(rows) for column in columns}, index=rows)
        for name in ("cell", "mark")
    )
    return cells.fillna(ABSENT), marks.fillna("")


def _cells(scores: pd.DataFrame, digits: int) -> pd.Series:
    """What is printed of each number; its text where there is none."""
    intervals = (_optional(scores, name) for name in ("half", "low", "high"))
    signed = scores["signed"] if "signed" in scores else [False] * len(scores)
    numbers = zip(scores["mean"], *intervals, signed, strict=True)
    texts = pd.Series([number(*each, digits=digits) for each in numbers], scores.index, dtype=object)
    ranks = zip(*(_optional(scores, name) for name in ("rank_low", "rank_high", "rank_of")), strict=True)
    texts += [labels.brackets(*each) for each in ranks]
    texts = labels.against_untrained(texts, scores["mean"], _optional(scores, "untrained"))
    texts = labels.against_limit(texts, _optional(scores, "cut_off"))
    instead = scores["text"] if "text" in scores else pd.Series(ABSENT, scores.index)
    return texts.where(scores["mean"].notna(), instead)


def number(
    mean: float,
    half: float = np.nan,
    low: float = np.nan,
    high: float = np.nan,
    signed: bool = False,
    digits: int = 2,
    unit: str = "",
) -> str:
    """A fraction in percent, or a difference in points, with its interval.

    >>> number(0.6721, 0.0049), number(0.016, low=0.01, high=0.02, signed=True, unit=" %"), number(float("nan"))
    ('67.21 ± 0.49', '+1.60 % [+1.00, +2.00]', '')
    """
    if np.isnan(mean):
        return ""
    text, *ends = (f"{100 * value:{'+' if signed is True else ''}.{digits}f}" for value in (mean, low, high))
    if not np.isnan(low):
        return f"{text}{unit} [{', '.join(ends)}]"
    return text if np.isnan(half) else f"{text} ± {100 * half:.{digits}f}"


def _marks(scores: pd.DataFrame) -> pd.Series:
    """Whether each competing number is the best of its column, or ties with that."""
    marks = pd.Series("", scores.index)
    if "mark" in scores:
        return scores["mark"]
    if "among_best" not in scores:
        return marks
    competing = scores[scores["among_best"].notna() & scores["mean"].notna()]
    marks[competing.index[competing["among_best"].astype(bool)]] = TIE
    groups = ["column", *({"block"} & set(scores))]
    marks[competing.groupby(groups, sort=False)["mean"].idxmax()] = BEST
    return marks


def _optional(scores: pd.DataFrame, name: str) -> pd.Series:
    return scores[name] if name in scores else pd.Series(float("nan"), scores.index)
