"""What claims read from records, and the shapes that many of them share.

A shape returns a `measure`: a function from the records of a claim to its statistic. Rows are methods; a sweep's rows
have a value. Everything reads the test classes unless it says otherwise.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from dmlrc.methods import row_name
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import statistics
from dmlrc.report.claims.rule import Evidence, MissingRowsError
from dmlrc.report.statistics import Estimate

R1 = "precision_at_1"
STUDENT_RERUNS = "Student's t over the reruns; those of one number share their seeds, so differences are paired"
STUDENT_ROWS = "Student's t over the rows, each the mean of its reruns"
FISHER = "Fisher's z over the rows, each the mean of its reruns"
BOOTSTRAP_RERUNS = "bootstrap of the reruns, percentiles, seeded"
BOOTSTRAP_ROWS = "bootstrap of the rows, percentiles, seeded"
Measure = Callable[[Evidence], Estimate]


def wide(records: StudyRecords, metric: str = R1, setting: str = "separated") -> pd.DataFrame:
    """The scores of every trained row: a row a rerun, a column a method. Raises MissingRowsError where there are none.

    NaN where a rerun of a method diverged or is not finished.
    """
    scores = records.scores
    chosen = scores[(scores["setting"] == setting) & (scores["metric"] == metric) & (scores["method"] != PRETRAINED)]
    if chosen["value"].notna().sum() == 0:
        raise MissingRowsError(f"no finished rerun with {metric} ({setting}) in {records.name}")
    return chosen.pivot(index="rerun", columns="method", values="value")


def column(records: StudyRecords, method: str, metric: str = R1, setting: str = "separated") -> pd.Series:
    """The scores of one row over its finished reruns."""
    table = wide(records, metric, setting)
    if method not in table or table[method].isna().all():
        raise MissingRowsError(f"no finished rerun of {method} in {records.name}")
    return table[method].dropna()


def means(records: StudyRecords, metric: str = R1, setting: str = "separated") -> pd.Series:
    """The mean over the reruns of every row that has one, indexed by method."""
    return wide(records, metric, setting).mean().dropna()


def complete_reruns(table: pd.DataFrame, least: int = 1) -> pd.DataFrame:
    """The reruns that all rows have; rows without any rerun do not count. Raises for fewer than `least` rows."""
    table = table.dropna(axis="columns", how="all").dropna()
    if table.empty or table.shape[1] < least:
        raise MissingRowsError(f"no rerun that all of at least {least} rows have finished")
    return table


def sweep(records: StudyRecords, metric: str = R1, setting: str = "separated") -> pd.DataFrame:
    """As `wide`, with the columns row and value, of a sweep's rows alone."""
    table = wide(records, metric, setting).dropna(axis="columns", how="all")
    places = records.scores.drop_duplicates("method").set_index("method")[["row", "level"]]
    places = places.reindex(table.columns).dropna(subset=["level"])
    if places.empty:
        raise MissingRowsError(f"no rows of a sweep in {records.name}")
    table = table[places.index]
    table.columns = pd.MultiIndex.from_frame(places, names=["row", "value"])
    return table


def values_of(records: StudyRecords, metric: str = R1, setting: str = "separated") -> pd.DataFrame:
    """Means over the reruns of a sweep: an index row a method, a column a value; only methods with every value."""
    table = sweep(records, metric, setting).mean().unstack("value").dropna()
    if table.empty:
        raise MissingRowsError(f"no method with every value of {records.name}")
    return table


def at(records: StudyRecords, value: str) -> pd.Series:
    """R@1 of a sweep's rows at one value, means over the reruns, indexed by row."""
    table = sweep(records).mean().unstack("value")
    if value not in table:
        raise MissingRowsError(f"no rows at {value} in {records.name}")
    return table[value].dropna()


def paired(
    need: str,
    first: str,
    second: str,
    metric: str = R1,
    setting: str = "separated",
    setting_of_second: str | None = None,
) -> Measure:
    """The difference of two rows of one study, first minus second, over the reruns that both have."""

    def measure(evidence: Evidence) -> Estimate:
        one = column(evidence[need], first, metric, setting)
        other = column(evidence[need], second, metric, setting_of_second or setting)
        return statistics.mean((one - other).dropna())

    return measure


def against_best(
    need: str,
    row: str,
    metric: str = R1,
    setting: str = "separated",
    others: Collection[str] | None = None,
    without: Collection[str] = (),
    own_setting: str | None = None,
    worst: bool = False,
) -> Measure:
    """A row minus the best of the others (worst: the worst), chosen by its mean, over the reruns that both have.

    others: default all but `without`. own_setting: of the row itself. Choosing the other by the same scores makes it
    look a little better than it is (worst: worse), so the difference errs against the claim that the row is best.
    """

    def measure(evidence: Evidence) -> Estimate:
        own = column(evidence[need], row, metric, own_setting or setting)
        rivals = means(evidence[need], metric, setting).drop([row, *without], errors="ignore")
        rivals = rivals if others is None else rivals.reindex([name for name in others if name in rivals.index])
        if rivals.empty:
            raise MissingRowsError(f"no other row than {row} in {evidence[need].name}")
        rival = rivals.idxmin() if worst else rivals.idxmax()
        return statistics.mean((own - column(evidence[need], rival, metric, setting)).dropna())

    return measure


def against_mean(
    need: str,
    rows: Sequence[str],
    metric: str = R1,
    setting: str = "separated",
    others: Collection[str] | None = None,
    without: Collection[str] = (),
) -> Measure:
    """The mean of some rows minus that of the others (default all but `without`), over the reruns that all have."""

    def measure(evidence: Evidence) -> Estimate:
        table = complete_reruns(wide(evidence[need], metric, setting))
        rest = table.columns.difference([*rows, *without]) if others is None else table.columns.intersection([*others])
        missing = [row for row in rows if row not in table]
        if missing or rest.empty:
            raise MissingRowsError(
                f"no finished rerun of {', '.join(missing) or 'other rows'} in {evidence[need].name}"
            )
        return statistics.mean(table[list(rows)].mean(axis=1) - table[rest].mean(axis=1))

    return measure


def over_pairs(need: str, pairs: Iterable[tuple[str, str]], metric: str = R1, setting: str = "separated") -> Measure:
    """The mean difference of pairs of rows, first minus second; each pair is a unit, the mean of its reruns."""
    pairs = list(pairs)

    def measure(evidence: Evidence) -> Estimate:
        return statistics.mean(
            [paired(need, first, second, metric, setting)(evidence).value for first, second in pairs]
        )

    return measure


def between_values(
    need: str, choices: Sequence[tuple[str, str]], metric: str = R1, setting: str = "separated"
) -> Measure:
    """In a sweep: the value `first` minus the value `second`; each method is a unit, the mean of its reruns.

    choices: the first pair (first, second) of which the records have both counts.
    """

    def measure(evidence: Evidence) -> Estimate:
        table = sweep(evidence[need], metric, setting).mean().unstack("value")
        for first, second in choices:
            if {first, second} <= set(table.columns):
                return statistics.mean((table[first] - table[second]).dropna())
        raise MissingRowsError(f"{evidence[need].name} has no rows at {' and '.join(choices[0])}")

    return measure


def paired_values(
    need: str, row: str, first: str, second: str, metric: str = R1, settings: tuple[str, str] = ("separated",) * 2
) -> Measure:
    """In a sweep: one method at the value `first` minus at `second`, over the reruns that both have."""
    return paired(need, row_name(row, first), row_name(row, second), metric, *settings)


def doubling(
    need: str, rows: Collection[str] | None = None, without: Collection[str] = (), metric: str = R1
) -> Measure:
    """In a sweep: the rise for each doubling of its number, least squares; each method is a unit.

    rows: default all but `without`.
    """

    def measure(evidence: Evidence) -> Estimate:
        means = sweep(evidence[need], metric).mean().to_frame().T
        slopes = doublings(means, evidence[need].level_numbers).T[0]
        chosen = slopes.drop([*without], errors="ignore") if rows is None else slopes.reindex([*rows])
        return statistics.mean(_some(chosen.dropna(), need))

    return measure


def doubling_of(need: str, row: str, metric: str = R1, setting: str = "separated", minus: str | None = None) -> Measure:
    """In a sweep: the rise of one method for each doubling of its number; each rerun is a unit.

    minus: another setting, whose scores are subtracted first.
    """

    def measure(evidence: Evidence) -> Estimate:
        table = sweep(evidence[need], metric, setting)
        if minus:
            table = table - sweep(evidence[need], metric, minus)
        if row not in table.columns.get_level_values("row"):
            raise MissingRowsError(f"no finished rerun of {row} in {evidence[need].name}")
        return statistics.mean(_some(doublings(table[[row]], evidence[need].level_numbers)[row].dropna(), need))

    return measure


def doublings(table: pd.DataFrame, numbers: Mapping[str, float]) -> pd.DataFrame:
    """Slopes over log2 of the number of `value`: index as the table's, a column a method; NaN below two numbers.

    table: columns row and value, as `sweep`. numbers: `StudyRecords.level_numbers`.
    """
    result = {}
    for row, part in table.T.groupby(level="row"):
        x = np.log2(part.index.get_level_values("value").map(numbers).to_numpy(float))
        result[row] = part.apply(lambda y, x=x: statistics.slope(x[y.notna()], y.dropna()).value)
    return pd.DataFrame(result)


def _some(values: pd.Series, need: str) -> pd.Series:
    if values.empty:
        raise MissingRowsError(f"no method with two values in the sweep {need}")
    return values


def curve_ends(records: StudyRecords, metric: str, method: str) -> tuple[pd.Series, pd.Series]:
    """A metric at the first and at the last point of the training curve of every rerun (mean over its folds)."""
    curves = records.curves
    chosen = curves[(curves["method"] == method) & (curves["kind"] == "rerun") & (curves["metric"] == metric)]
    if chosen["value"].notna().sum() == 0:
        raise MissingRowsError(f"no curve of {metric} of {method} in {records.name}")
    runs = chosen.dropna(subset="value").sort_values("step").groupby(["number", "fold"])["value"]
    return runs.first().groupby("number").mean(), runs.last().groupby("number").mean()
