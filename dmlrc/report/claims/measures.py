"""Tables that the statistics of claims read from records, and the estimates that they make from a table.

Rows are methods; the rows of a sweep have a level. Everything reads the test classes unless it says otherwise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import statistics
from dmlrc.report.statistics import Estimate

R1 = "precision_at_1"
AGGREGATED = (R1, "recall_at_2", "nmi", "f1", "map_at_c", "map_at_1000")
"""The metrics of section 4.1 of Roth et al., which their Figs. 2 and 3 aggregate."""


class MissingRowsError(LookupError):
    """A claim needs rows of a study that are not in its records; the message names them."""


def need(there: bool, missing: str) -> None:
    """Raise MissingRowsError, which says what is missing, where it is not there."""
    if not there:
        raise MissingRowsError(missing)


def if_recorded(statistic: Callable[..., Estimate], records: StudyRecords, **keywords: Any) -> Estimate:
    """A statistic of `named` as a page shows it: NaN where rows are missing, which leaves a claim without a verdict."""
    try:
        return statistic(records, **keywords)
    except MissingRowsError:
        return statistics.mean([])


# What the statistics read


@lru_cache(maxsize=256)  # many claims rest on the same scores
def wide(records: StudyRecords, metric: str = R1, setting: str = "separated") -> pd.DataFrame:
    """The scores of every trained row: a row a repetition and rerun, a column a method; NaN for a rerun without one."""
    scores = records.scores
    chosen = scores[(scores["setting"] == setting) & (scores["metric"] == metric) & (scores["method"] != PRETRAINED)]
    need(chosen["value"].notna().any(), f"no finished rerun with {metric} ({setting}) in {records.name}")
    return chosen.pivot(index=["repetition", "rerun"], columns="method", values="value")


def column(records: StudyRecords, method: str, metric: str = R1, setting: str = "separated") -> pd.Series:
    """The scores of one row over its finished reruns."""
    table = wide(records, metric, setting)
    need(method in table and table[method].notna().any(), f"no finished rerun of {method} in {records.name}")
    return table[method].dropna()


def row_means(records: StudyRecords, metric: str = R1, setting: str = "separated") -> pd.Series:
    """The mean over the reruns of every row that has one, indexed by method."""
    return wide(records, metric, setting).mean().dropna()


def finished_rows(table: pd.DataFrame, least: int = 1) -> pd.DataFrame:
    """The rows of `wide` that have a finished rerun. Raises MissingRowsError for fewer than `least`."""
    table = table.dropna(axis="columns", how="all")
    need(table.shape[1] >= least, f"fewer than {least} rows have a finished rerun")
    return table


def sweep_scores(records: StudyRecords, metric: str = R1) -> pd.DataFrame:
    """The table of `wide` for the rows of a sweep alone; columns: row and level."""
    table = wide(records, metric).dropna(axis="columns", how="all")
    places = records.scores.drop_duplicates("method").set_index("method")[["row", "level"]]
    places = places.reindex(table.columns).dropna(subset=["level"])
    need(len(places), f"no rows of a sweep in {records.name}")
    table = table[places.index]
    table.columns = pd.MultiIndex.from_frame(places)
    return table


def at_level(records: StudyRecords, level: str, metric: str = R1) -> pd.DataFrame:
    """The table of `wide` for the rows of a sweep at one level; columns: row."""
    table = sweep_scores(records, metric)
    need(level in table.columns.get_level_values("level"), f"no rows at {level} in {records.name}")
    return table.xs(level, axis=1, level="level")


def relative_sweep(records: StudyRecords) -> pd.DataFrame:
    """`sweep_scores`, each metric over its largest mean of a row's levels, then averaged: Figs. 2, 3 of Roth et al."""
    parts = [sweep_scores(records, metric) for metric in AGGREGATED]
    highest = [part.mean().groupby(level="row").max()[part.columns.get_level_values("row")] for part in parts]
    return sum(part / best.to_numpy() for part, best in zip(parts, highest, strict=True)) / len(parts)


def properties(
    records: StudyRecords,
    keys: Iterable[tuple[str, str]],
    rows: Sequence[str] = (),
    merged: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Means over the reruns of these (metric, setting), a row a method. rows: default all that have a number.

    merged: method -> loss, of methods that are one loss and no independent points; their mean counts.
    """
    table = pd.concat([row_means(records, *key) for key in keys], axis=1)
    losses, table = merged or {}, table.reindex(rows or table.index).dropna()
    return table.groupby(lambda method: losses.get(method, method), sort=False).mean()


def curve_at(records: StudyRecords, metric: str, method: str, share: float = 1.0, point: str = "last") -> pd.Series:
    """A metric at the "first" or "last" point of every rerun's training curve, up to a share of it; mean over folds."""
    curves = records.curves
    chosen = curves[(curves["method"] == method) & (curves["kind"] == "rerun") & (curves["metric"] == metric)]
    need(chosen["value"].notna().any(), f"no curve of {metric} of {method} in {records.name}")
    chosen = chosen[chosen["step"] <= share * chosen["step"].max()].dropna(subset="value").sort_values("step")
    return chosen.groupby(["number", "fold"])["value"].agg(point).groupby("number").mean()


# Estimates of a table `wide`


def contrast_of_rows(table: pd.DataFrame, weights: Mapping[str, float]) -> Estimate:
    """A weighted sum of the rows' means; {"a": 1, "b": -1} is the difference of two. table: `wide`.

    No pairs: rows that share a seed count as independent, which is on the safe side where they rise together. The
    interval holds the search and seed of all rows where searches were repeated, else the seeds of these.
    """
    missing = [row for row in weights if row not in table or table[row].isna().all()]
    need(not missing, f"no finished rerun of {', '.join(missing)}")
    if repeated(table):
        return statistics.contrast(long(table), weights)
    return seeds_only(statistics.welch_sum([(weight, table[row]) for row, weight in weights.items()], "reruns"))


def repeated(table: pd.DataFrame) -> bool:
    """True if any row of `wide` was searched more than once."""
    return table.index.get_level_values("repetition").nunique() > 1


def long(table: pd.DataFrame) -> pd.DataFrame:
    """`wide` as `statistics` takes runs: method, repetition, rerun, value."""
    return table.rename_axis(columns="method").stack().rename("value").reset_index()


def range_of_means(table: pd.DataFrame, of: np.ndarray | None = None, level: float = statistics.LEVEL) -> Estimate:
    """The range of the rows' means, highest minus lowest; n counts repetitions, or reruns where nothing was repeated.

    of: (groups, rows of a group) places of columns; the range is then that of the groups' means.
    """
    again, table = repeated(table), table.set_axis(range(table.shape[1]), axis=1)
    runs = long(table) if again else statistics.reruns_as_repetitions(long(table))
    rows, values = statistics.as_array(runs)
    known = statistics.noise(values)
    both = pd.DataFrame(dict(enumerate(statistics.of_methods(values, known))), rows)
    centre, variance, df = both.loc[table.columns].to_numpy().T
    if of is not None:
        df = statistics.satterthwaite(variance[of], df[of], known.df)
        centre, variance = centre[of].mean(axis=1), variance[of].mean(axis=1) / of.shape[1]
    unit = "repetition" if again else "rerun"
    least = table.notna().groupby(level=unit).any().sum().min()
    estimate = replace(statistics.range_of(centre, variance, df, known.df, level), n=int(least), units=f"{unit}s")
    return estimate if again else seeds_only(estimate)


def seeds_only(estimate: Estimate) -> Estimate:
    """An estimate over reruns, whose interval knows their seeds only."""
    return replace(estimate, how=f"{estimate.how}, seeds only", seeds_only=True)


def over_reruns(values: Iterable[float]) -> Estimate:
    """The mean over reruns."""
    return seeds_only(statistics.mean(list(values), "reruns"))


def held_out(table: pd.DataFrame) -> list[float]:
    """The lead of the best column over the worst on each unit (row), for which both are chosen by the other units."""
    others = {unit: table.drop(index=unit).mean() for unit in table.index}
    return [table.loc[unit, means.idxmax()] - table.loc[unit, means.idxmin()] for unit, means in others.items()]
