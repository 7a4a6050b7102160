"""The verdict rule: when a claim counts as reproduced."""

import functools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files

import numpy as np
import pandas as pd

from dmlrc import records
from dmlrc.records import StudyRecords
from dmlrc.report import labels, starts, tables
from dmlrc.report.claims.claim import Claim, Region
from dmlrc.report.claims.measures import MissingRowsError
from dmlrc.report.statistics import Estimate

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_RUN = "reproduced", "not reproduced", "inconclusive", "not run"
RETRACTED, UNTESTABLE = "retracted", "not testable here"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_RUN, RETRACTED, UNTESTABLE)
FEWEST = 3
"""Reruns or points below which no interval is trusted: with two, Student's t has 1 degree of freedom."""
BELOW = "rows below the untrained start in P@1"
END_BELOW = "a row that makes the range lies below the untrained start in P@1"
UNDERESTIMATED = "below the limit, but what the sentence is about may exceed what was measured"
RULES = tomllib.loads((files(__package__) / "rules.toml").read_text(encoding="utf-8"))
"""Why a verdict may be withheld or withdrawn: name -> rule, since when, and what was known by then."""
STEP = 3.4
"""Half a decade, the step of the grids of rates, rounded up."""


@dataclass(frozen=True)
class Judgement:
    """A verdict, why it is only tentative ("" if firm), and the estimate behind it, if there is one.

    rule: what of `RULES` withholds it. below_trunk: whether most of its rows are worse than the untrained trunk.
    """

    verdict: str
    why: str = ""
    estimate: Estimate | None = None
    rule: str = ""
    below_trunk: bool = False

    @property
    def settled(self) -> bool:
        return self.verdict in (REPRODUCED, NOT_REPRODUCED)

    @property
    def from_low_rows(self) -> bool:
        """Settled, by rows of which most lie below the untrained trunk: the rule as first written left it open."""
        return self.settled and self.below_trunk


def judge(
    region: Region,
    estimate: Estimate,
    full: bool,
    below: tuple = (0, 0),
    end_below: bool = False,
    at_most: bool = False,
) -> Judgement:
    """The rule: reproduced if the whole interval lies in the region, not reproduced if all of it lies outside.

    full: all its records are finished and of the full budget. below: how many of its rows are worse than their
    untrained start, and of how many. end_below: it is a range, and a row that makes it is so. at_most: see `Claim`.
    """
    if estimate.n == 0 or math.isnan(estimate.value):
        return Judgement(NOT_RUN, "nothing to compute it from")
    if not full:
        name, why = "budget", "not the full budget, or not finished"
    elif estimate.n < FEWEST or math.isnan(estimate.low) or math.isnan(estimate.high):
        name, why = "few", f"too few {estimate.units or 'numbers'} ({estimate.n} of {FEWEST})"
    elif 2 * below[0] > below[1]:
        name, why = "start", f"{BELOW} ({below[0]} of {below[1]})"
    elif end_below:
        name, why = "ends", END_BELOW
    elif region.holds(*estimate.attainable):
        name, why = "fail", "on this data it cannot fail"
    elif region.holds(estimate.low, estimate.high):
        return Judgement(REPRODUCED, "", estimate)
    elif region.excludes(estimate.low, estimate.high) and not at_most:
        return Judgement(NOT_REPRODUCED, "", estimate)
    elif region.excludes(estimate.low, estimate.high):
        name, why = "at_most", UNDERESTIMATED
    else:
        name, why = "crosses", "the interval crosses the limit"
    return Judgement(INCONCLUSIVE, why, estimate, name)


@functools.lru_cache(maxsize=256)  # claim after claim asks for the same
def lower_than_untrained(records: StudyRecords) -> pd.DataFrame:
    """Rows with a known start, by method and setting: row, value (mean P@1), start and trunk: true if it is lower."""
    values = starts.precision_scores(records).groupby(["method", "setting", "row"])["value"].mean().reset_index("row")
    rows = values.join(starts.of_rows(records).rename("start"), how="inner").dropna()
    lower = {"start": rows["value"] < rows["start"], "trunk": rows["value"] < starts.of_trunk(records)}
    return pd.DataFrame({"row": rows["row"], "value": rows["value"], **lower})


def _evidence_key(claim: Claim, evidence: Mapping[str, StudyRecords | None]) -> tuple:
    """The claim, and the records that it asks for."""
    names = ("main", *claim.needs, *claim.more, *([claim.grid] if claim.needs else ()))
    return claim.id, *map(evidence.get, names)


@records.derived_once(_evidence_key)
def judge_claim(claim: Claim, evidence: Mapping[str, StudyRecords | None]) -> Judgement:
    """Judge one claim by these records; None, or absent: the experiment was not run."""
    if claim.retracted:
        return Judgement(RETRACTED, claim.retracted, rule="retracted")
    if claim.untestable:
        return Judgement(UNTESTABLE, claim.untestable)
    absent = [name for name in claim.needs if evidence.get(name) is None]
    if absent:
        return Judgement(NOT_RUN, f"no records of {', '.join(absent)}")
    if claim.on_batches:
        return Judgement(RETRACTED, "sizes and layouts of batches, all at one learning rate", rule="batches")
    if far := far_from_the_rate(claim, evidence):
        why = f"the shared learning rate is not known to suit: {labels.listed(map(claim.label_of, far))}"
        return Judgement(RETRACTED, why, rule="rate")
    try:
        estimate = claim.estimate(evidence)
    except MissingRowsError as error:
        return Judgement(NOT_RUN, str(error))
    used = claim.records(evidence)
    lower = map(lower_than_untrained, used)
    frames = [frame[frame["row"].isin(claim.rows)] if claim.rows else frame for frame in lower]
    start, trunk, rows = np.sum([(0, 0, 0), *([] if claim.trunk_alone else map(_counted, frames))], axis=0).tolist()
    ends = [frame.loc[[frame["value"].idxmin(), frame["value"].idxmax()], "start"] for frame in frames if len(frame)]
    end_below = claim.is_range and any(map(any, ends))  # the highest or the lowest of its rows is worse than its start
    full = all(map(is_full, used))
    verdict = judge(claim.region, estimate, full, (start, rows), end_below, claim.at_most)
    return replace(verdict, below_trunk=2 * trunk > rows)


def far_from_the_rate(claim: Claim, evidence: Mapping[str, StudyRecords | None]) -> list[str]:
    """The losses that it names whose best rate in the grid is unknown, or more than a step from the shared one."""
    if not claim.named:
        return []
    grid, rate = evidence.get(claim.grid), evidence[claim.needs[0]].meta["protocol"]["lr"]
    trials = grid.trials.dropna(subset="value") if grid else pd.DataFrame(columns=["row", "value", "level_number"])
    best = trials.sort_values("value").groupby("row")["level_number"].last()
    return [name for name in claim.named if not rate / STEP < best.get(name, np.inf) < STEP * rate]


def _counted(chosen: pd.DataFrame) -> tuple[int, int, int]:
    """The number of rows of `lower_than_untrained` below their own start, below the trunk, alone and joined; of all."""
    below = chosen[["start", "trunk"]].groupby(level="method").all()
    return int(below["start"].sum()), int(below["trunk"].sum()), len(below)


def is_full(records: StudyRecords) -> bool:
    """True if a study ran at the full budget and nothing is known to be missing, by its export or else its settings."""
    meta = records.meta
    if meta["budget"]["name"] != "full":
        return False
    if "complete" in meta:
        return meta["complete"]
    states = tables.status(records)["state"]
    return all(states.get(method) in ("complete", *tables.NO_RESULT) for method in meta.get("settings", ()))
