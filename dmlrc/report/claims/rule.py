"""The verdict rule: when a claim counts as reproduced."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from dmlrc.records import StudyRecords
from dmlrc.report import starts, tables
from dmlrc.report.claims.claim import Claim, Region
from dmlrc.report.claims.measures import MissingRowsError
from dmlrc.report.statistics import Estimate

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_RUN = "reproduced", "not reproduced", "inconclusive", "not run"
RETRACTED = "retracted"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_RUN, RETRACTED)
FEWEST = 3
"""Reruns or points below which no interval is trusted: with two, Student's t has 1 degree of freedom."""


@dataclass(frozen=True)
class Judgement:
    """A verdict, why it is no firmer than it is ("" where it is firm), and the estimate behind it, if there is one.

    most_low: whether it is open because most rows lie below their untrained start. below_trunk: whether most of the
    rows behind it are worse than the untrained trunk.
    """

    verdict: str
    why: str = ""
    estimate: Estimate | None = None
    most_low: bool = False
    below_trunk: bool = False

    @property
    def settled(self) -> bool:
        return self.verdict in (REPRODUCED, NOT_REPRODUCED)

    @property
    def from_low_rows(self) -> bool:
        """Settled, by rows of which most lie below the untrained trunk: the rule as first written left it open."""
        return self.settled and self.below_trunk


BELOW = "below the untrained start in P@1"
UNDERESTIMATED = "below the limit, but what the sentence is about may exceed what was measured"


def _rows(some: int, of: int) -> str:
    """
    >>> _rows(12, 14), _rows(14, 14), _rows(2, 2), _rows(1, 1)
    ('12 of 14 rows lie', 'all 14 rows lie', 'both rows lie', 'its row lies')
    """
    if some < of:
        return f"{some} of {of} rows lie"
    return {1: "its row lies", 2: "both rows lie"}.get(of, f"all {of} rows lie")


def judge(
    region: Region,
    estimate: Estimate,
    full: bool,
    below: tuple[int, int] = (0, 0),
    end_below: bool = False,
    at_most: bool = False,
) -> Judgement:
    """The rule: reproduced if the whole interval lies in the region, not reproduced if all of it lies outside.

    full: whether all records behind the estimate are finished and of the full budget.
    below: how many of the rows behind it are worse than their untrained start, and how many rows there are. end_below:
    whether it is a range, and a row that makes it is so. at_most: see `Claim`.
    """
    if estimate.n == 0 or math.isnan(estimate.value):
        return Judgement(NOT_RUN, "nothing to compute it from")
    most_low = 2 * below[0] > below[1]
    if not full:
        why = "not the full budget, or not finished"
    elif estimate.n < FEWEST or math.isnan(estimate.low) or math.isnan(estimate.high):
        why = f"too few {estimate.units or 'numbers'} ({estimate.n}, and {FEWEST} are needed)"
    elif most_low:
        return Judgement(INCONCLUSIVE, f"{_rows(*below)} {BELOW}", estimate, most_low)
    elif end_below:
        why = f"a row that makes the range lies {BELOW}"
    elif region.holds(*estimate.attainable):
        why = "on this data it cannot fail"
    elif region.holds(estimate.low, estimate.high):
        return Judgement(REPRODUCED, "", estimate)
    elif region.excludes(estimate.low, estimate.high) and not at_most:
        return Judgement(NOT_REPRODUCED, "", estimate)
    elif region.excludes(estimate.low, estimate.high):
        why = UNDERESTIMATED
    else:
        why = "the interval crosses the limit"
    return Judgement(INCONCLUSIVE, why, estimate)


def lower_than_untrained(records: StudyRecords) -> pd.DataFrame:
    """For each method and setting of a row with a known start: row, value (mean P@1), is it below start, trunk."""
    values = starts.scores(records).groupby(["method", "setting", "row"])["value"].mean().reset_index("row")
    found = values.join(starts.of_rows(records).rename("start"), how="inner").dropna()
    lower = {"start": found["value"] < found["start"], "trunk": found["value"] < starts.of_trunk(records)}
    return pd.DataFrame({"row": found["row"], "value": found["value"], **lower})


def evaluate(
    claim: Claim,
    evidence: Mapping[str, StudyRecords | None],
    lower: Callable[[StudyRecords], pd.DataFrame] = lower_than_untrained,
) -> Judgement:
    """Judge one claim by these records; None, or absent: the experiment was not run.

    lower: `lower_than_untrained`, cached where many claims are judged by the same records.
    """
    if claim.retracted:
        return Judgement(RETRACTED, claim.retracted)
    absent = [name for name in claim.needs if evidence.get(name) is None]
    if absent:
        return Judgement(NOT_RUN, f"no records of {', '.join(absent)}")
    try:
        estimate = claim.estimate(evidence)
    except MissingRowsError as error:
        return Judgement(NOT_RUN, str(error))
    used = claim.records(evidence)
    compared = [] if claim.trunk_alone else [_counted(lower(records), claim.rows) for records in used]
    start, trunk, rows = (sum(count) for count in zip((0, 0, 0), *compared, strict=True))
    end_below = claim.is_range and any(_end_is_below(lower(records), claim.rows) for records in used)
    full = all(map(is_full, used))
    verdict = judge(claim.region, estimate, full, (start, rows), end_below, claim.at_most)
    return replace(verdict, below_trunk=2 * trunk > rows)


def _counted(lower: pd.DataFrame, rows: Collection[str]) -> tuple[int, int, int]:
    """How many rows have a lower mean P@1 than their own start, than the trunk; how many there are.

    A row is below if it is so alone and, where there are folds, joined. rows: default all; of a sweep, the rows at
    every level. Differences between rows below their start say which training did the least harm.
    """
    chosen = lower[lower["row"].isin(rows)] if rows else lower
    below = chosen[["start", "trunk"]].groupby(level="method").all()
    return int(below["start"].sum()), int(below["trunk"].sum()), len(below)


def _end_is_below(lower: pd.DataFrame, rows: Collection[str]) -> bool:
    """Whether the highest or the lowest of these rows is worse than its start."""
    chosen = lower[lower["row"].isin(rows)] if rows else lower
    ends = chosen.loc[[chosen["value"].idxmin(), chosen["value"].idxmax()]] if len(chosen) else chosen
    return bool(ends["start"].any())


def is_full(records: StudyRecords) -> bool:
    """Whether a study ran at the full budget, and nothing of it is known to be missing.

    Known to be missing: it was exported before it was complete, or it was not exported and a method of its settings
    lacks a trial or rerun.
    """
    meta = records.meta
    if meta["budget"]["name"] != "full":
        return False
    if "complete" in meta:
        return meta["complete"]
    asked = {name: meta.get("repetitions", 1) * meta["budget"][name] for name in ("trials", "reruns")}
    made = {name: getattr(records, name)["method"].value_counts() for name in asked}
    return all(
        made["trials"].get(method, 0) >= asked["trials"]
        and (made["reruns"].get(method, 0) >= asked["reruns"] or _came_to_nothing(records, method))
        for method in meta.get("settings", ())
    )


def _came_to_nothing(records: StudyRecords, method: str) -> bool:
    """Whether a search has no trial with a number, so that nothing is there to be rerun."""
    states = records.trials["state"][records.trials["method"] == method]
    return len(states) > 0 and bool(states.isin(tables.NO_RESULT).all())
