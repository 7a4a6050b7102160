"""What claims read from records, and the shapes that many of them share.

A shape returns a `measure`: a function from the records of a claim to its statistic. Rows are methods; a sweep's rows
have a value. Everything reads the test classes unless it says otherwise.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pandas as pd

from dmlrc.methods import row_name
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import statistics
from dmlrc.report.claims.rule import Evidence, MissingRowsError
from dmlrc.report.statistics import Estimate

R1 = "precision_at_1"
SEEDS_ONLY = "seeds only"
SEARCH_OR_SEEDS = (
    "Student's t with the variance of search and seed where searches were repeated; else Welch's t over the reruns, "
    "which counts the luck of seeds only"
)
BY_THE_BEST = (
    f"{SEARCH_OR_SEEDS}; the best other row is chosen by the same scores, so that the number errs against the claim"
)
HELD_OUT = "{} are chosen by the other {}, which finds less than the largest effect"
RANGE = (
    f"{statistics.TUKEY}, with the variance of search and seed where searches were repeated; else with that of seeds "
    "only; pooled over the rows. It covers the range of the true scores at least as often as it says"
)
SAME_MODELS = "Student's t over the reruns; both numbers of a pair are of the same trained model; seeds only"
STUDENT_RERUNS = "Student's t over the reruns; seeds only"
STUDENT_ROWS = "Student's t over the rows, each the mean of its reruns"
FISHER = "Fisher's z over the rows, each the mean of its reruns"
FISHER_RANKS = f"{FISHER}, with the factor 1.06 for ranks"
BOOTSTRAP_ROWS = "bootstrap of the rows, percentiles, seeded"
Measure = Callable[[Evidence], Estimate]


@lru_cache(maxsize=256)  # many claims rest on the same scores
def wide(records: StudyRecords, metric: str = R1, setting: str = "separated") -> pd.DataFrame:
    """The scores of every trained row: a row a repetition and rerun, a column a method.

    NaN where a rerun of a method diverged or is not finished. Raises MissingRowsError where there is no score.
    """
    scores = records.scores
    chosen = scores[(scores["setting"] == setting) & (scores["metric"] == metric) & (scores["method"] != PRETRAINED)]
    if chosen["value"].notna().sum() == 0:
        raise MissingRowsError(f"no finished rerun with {metric} ({setting}) in {records.name}")
    return chosen.pivot(index=["repetition", "rerun"], columns="method", values="value")


def column(records: StudyRecords, method: str, metric: str = R1, setting: str = "separated") -> pd.Series:
    """The scores of one row over its finished reruns."""
    table = wide(records, metric, setting)
    if method not in table or table[method].isna().all():
        raise MissingRowsError(f"no finished rerun of {method} in {records.name}")
    return table[method].dropna()


def means(records: StudyRecords, metric: str = R1, setting: str = "separated") -> pd.Series:
    """The mean over the reruns of every row that has one, indexed by method."""
    return wide(records, metric, setting).mean().dropna()


def present(table: pd.DataFrame, least: int = 1) -> pd.DataFrame:
    """The rows of `wide` that have a finished rerun. Raises MissingRowsError for fewer than `least`."""
    table = table.dropna(axis="columns", how="all")
    if table.shape[1] < least:
        raise MissingRowsError(f"fewer than {least} rows have a finished rerun")
    return table


def contrast(table: pd.DataFrame, weights: Mapping[str, float]) -> Estimate:
    """A weighted sum of the rows' means; {"a": 1, "b": -1} is the difference of two. table: `wide`.

    No pairs: rows that share a seed count as independent, which is on the safe side where they rise together. Where
    searches were repeated, the interval holds search and seed, whose variances are those of all rows of the table;
    otherwise it knows seeds only.
    """
    missing = [row for row in weights if row not in table or table[row].isna().all()]
    if missing:
        raise MissingRowsError(f"no finished rerun of {', '.join(missing)}")
    if repeated(table):
        return statistics.contrast(long(table), weights)
    found = statistics.welch_sum([(weight, table[row]) for row, weight in weights.items()], "reruns")
    return replace(found, how=f"{found.how}, {SEEDS_ONLY}")


def repeated(table: pd.DataFrame) -> bool:
    """Whether any row of `wide` was searched more than once."""
    return table.index.get_level_values("repetition").nunique() > 1


def long(table: pd.DataFrame) -> pd.DataFrame:
    """`wide` as `statistics` takes runs: method, repetition, rerun, value."""
    return table.rename_axis(columns="method").stack().rename("value").reset_index()


def spread(table: pd.DataFrame, of: np.ndarray | None = None, level: float = statistics.LEVEL) -> Estimate:
    """How far the highest of the rows' means lies above the lowest; n counts repetitions or reruns.

    of: (groups, rows of a group) places of columns; the range is then that of the groups' means. Where nothing was
    searched again, each rerun counts alone.
    """
    again, table = repeated(table), table.set_axis(range(table.shape[1]), axis=1)
    runs = long(table) if again else statistics.each_alone(long(table))
    rows, values = statistics.as_array(runs)
    known = statistics.noise(values)
    centre, variance = (
        pd.Series(each, rows)[table.columns].to_numpy() for each in statistics.of_methods(values, known)
    )
    if of is not None:
        centre, variance = centre[of].mean(axis=1), variance[of].mean(axis=1) / of.shape[1]
    found = statistics.range_of(centre, variance, known.df, level=level)
    unit = "repetition" if again else "rerun"
    least = table.notna().groupby(level=unit).any().sum().min()
    return replace(found, n=int(least), units=f"{unit}s", how=found.how if again else f"{found.how}, {SEEDS_ONLY}")


def range_in_blocks(table: pd.DataFrame, units: str) -> Estimate:
    """How far the highest of the columns' means lies above the lowest. table: blocks (the index) x columns, no NaN.

    The noise is what remains of the scores when every block and every column has its own mean.
    """
    blocks, columns = table.shape
    means = table.mean()
    rest = table.sub(table.mean(axis=1), axis=0).sub(means - means.mean(), axis=1).to_numpy()
    df = (blocks - 1) * (columns - 1)
    variance = float((rest**2).sum() / df / blocks)
    return replace(statistics.range_of(means.to_numpy(), np.full(columns, variance), df), n=blocks, units=units)


def relative_spread(table: pd.DataFrame) -> Estimate:
    """`spread` as a share of the mean of all rows, whose own error is much smaller and not counted."""
    return spread(table).divided_by(float(table.mean().mean()))


def relative(table: pd.DataFrame, over: Collection[str], under: Collection[str]) -> Estimate:
    """The mean of the rows `over` as a multiple of that of the rows `under`, less 1; interval as `contrast`'s.

    By the delta method: the error of a / b is that of a / b0 - b a0 / b0^2.
    """
    top, base = (float(table[list(rows)].mean().mean()) for rows in (over, under))
    weights = {row: 1 / base / len(over) for row in over} | {row: -top / base**2 / len(under) for row in under}
    found = contrast(table, weights)
    return Estimate.around(top / base - 1, found.half, found.n, found.units, found.how)


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


def at(records: StudyRecords, value: str) -> pd.Series:
    """R@1 of a sweep's rows at one value, means over the reruns, indexed by row."""
    table = sweep(records).mean().unstack("value")
    if value not in table:
        raise MissingRowsError(f"no rows at {value} in {records.name}")
    return table[value].dropna()


def difference(need: str, first: str, second: str, metric: str = R1, setting: str = "separated") -> Measure:
    """The difference of two rows of one study, first minus second."""

    def measure(evidence: Evidence) -> Estimate:
        return contrast(wide(evidence[need], metric, setting), {first: 1, second: -1})

    return measure


def same_models(need: str, row: str, setting: str, other: str) -> Measure:
    """R@1 of one row's models in one setting minus those of the same models in another: true pairs."""

    def measure(evidence: Evidence) -> Estimate:
        one, two = (column(evidence[need], row, R1, each) for each in (setting, other))
        return seeds_only((one - two).dropna())

    return measure


def seeds_only(values: Iterable[float]) -> Estimate:
    """The mean over reruns, with an interval that knows their seeds only."""
    found = statistics.mean(list(values), "reruns")
    return replace(found, how=f"{found.how}, {SEEDS_ONLY}")


def against_best(need: str, row: str, others: Collection[str]) -> Measure:
    """R@1 of a row minus that of the best of others, chosen by its mean.

    Choosing the other by the same scores makes it look a little better than it is, so the difference errs against the
    claim that the row is best.
    """
    return lambda evidence: over_best(wide(evidence[need]).filter([row, *others]), row)


def over_best(table: pd.DataFrame, row: str) -> Estimate:
    """A row minus the best of the others, chosen by its mean. table: of `wide`, with any metric."""
    rivals = table.mean().dropna().drop(row, errors="ignore")
    if rivals.empty:
        raise MissingRowsError(f"no other row than {row}")
    return contrast(table, {row: 1, rivals.idxmax(): -1})


def over_pairs(need: str, pairs: Iterable[tuple[str, str]], metric: str = R1, setting: str = "separated") -> Measure:
    """The mean difference of pairs of rows, first minus second; each pair is a unit, the mean of its reruns."""
    pairs = list(pairs)

    def measure(evidence: Evidence) -> Estimate:
        return statistics.mean(
            [difference(need, first, second, metric, setting)(evidence).value for first, second in pairs]
        )

    return measure


def between_values(need: str, choices: Sequence[tuple[str, str]]) -> Measure:
    """In a sweep: R@1 at the value `first` minus the value `second`; each method is a unit, the mean of its reruns.

    choices: the first pair (first, second) of which the records have both counts.
    """

    def measure(evidence: Evidence) -> Estimate:
        table = sweep(evidence[need]).mean().unstack("value")
        for first, second in choices:
            if {first, second} <= set(table.columns):
                return statistics.mean((table[first] - table[second]).dropna())
        raise MissingRowsError("no method was run with both of the settings that it compares")

    return measure


def level_difference(need: str, row: str, first: str, second: str) -> Measure:
    """In a sweep: R@1 of one method at the value `first` minus at `second`."""
    names = row_name(row, first), row_name(row, second)

    def measure(evidence: Evidence) -> Estimate:
        columns = [column(evidence[need], name) for name in names]
        return contrast(pd.concat(columns, axis=1, keys=names), {names[0]: 1, names[1]: -1})

    return measure


def doubling(need: str) -> Measure:
    """In a sweep: the rise of R@1 for each doubling of its number, least squares; each method is a unit."""

    def measure(evidence: Evidence) -> Estimate:
        means = sweep(evidence[need]).mean().to_frame().T
        return statistics.mean(_some(doublings(means, evidence[need].level_numbers).T[0].dropna(), need))

    return measure


def smallest_doubling(need: str, without: Collection[str] = ()) -> Measure:
    """In a sweep: the rise of the method that rises least for each doubling, over the values that all methods have."""

    def measure(evidence: Evidence) -> Estimate:
        table = sweep(evidence[need]).drop(columns=[*without], level="row", errors="ignore")
        known = table.notna().any().unstack("value", fill_value=False)  # (methods, values)
        shared = known.columns[known.all()]
        if len(shared) < 2:
            raise MissingRowsError(f"fewer than two values that all methods of the sweep {need} have")
        table = table.loc[:, table.columns.get_level_values("value").isin(shared)]
        return smallest(doublings(table, evidence[need].level_numbers))

    return measure


def smallest(table: pd.DataFrame) -> Estimate:
    """The smallest mean of the columns; each row is a rerun. It is surely above a limit where each column is.

    The interval begins at the lowest lower end of the columns' own, which needs no correction since all must pass; it
    ends at the lowest of their upper ends, which are corrected for the number of columns (Bonferroni).
    """
    columns = [table[name].dropna() for name in table]
    level = 1 - (1 - statistics.LEVEL) / len(columns)
    low = min(each.mean() - statistics.half_width(each) for each in columns)
    high = min(each.mean() + statistics.half_width(each, level) for each in columns)
    value, n = float(table.mean().min()), min(map(len, columns))
    return Estimate(value, float(low), float(high), n, "reruns", f"{statistics.STUDENT} of each row, {SEEDS_ONLY}")


def doubling_of(need: str, row: str) -> Measure:
    """In a sweep: the rise of one method's R@1 for each doubling of its number; each rerun is a unit."""

    def measure(evidence: Evidence) -> Estimate:
        table = sweep(evidence[need])
        if row not in table.columns.get_level_values("row"):
            raise MissingRowsError(f"no finished rerun of {row} in {evidence[need].name}")
        return seeds_only(_some(doublings(table[[row]], evidence[need].level_numbers)[row].dropna(), need))

    return measure


def held_out(table: pd.DataFrame, effect: Callable[[float, float], float]) -> pd.Series:
    """How much the best column is above the worst: both are chosen without the unit on which they are compared.

    table: units (the index) x columns. effect: (score of the best, score of the worst) -> how far apart they are. Were
    they chosen and compared on the same units, noise alone would set them apart.
    """
    result = {}
    for unit in table.index:
        others = table.drop(index=unit).mean()
        result[unit] = effect(table.loc[unit, others.idxmax()], table.loc[unit, others.idxmin()])
    return pd.Series(result, dtype=float)


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


def curve_end(records: StudyRecords, metric: str, method: str) -> pd.Series:
    """A metric at the last point of the training curve of every rerun (mean over its folds)."""
    curves = records.curves
    chosen = curves[(curves["method"] == method) & (curves["kind"] == "rerun") & (curves["metric"] == metric)]
    if chosen["value"].notna().sum() == 0:
        raise MissingRowsError(f"no curve of {metric} of {method} in {records.name}")
    runs = chosen.dropna(subset="value").sort_values("step").groupby(["number", "fold"])["value"]
    return runs.last().groupby("number").mean()
