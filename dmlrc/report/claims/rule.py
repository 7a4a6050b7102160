"""The verdict rule: when a claim counts as reproduced. It knows no claim and no record, so it can be tested alone."""

import math
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from importlib.resources import files

import pandas as pd

from dmlrc.records import StudyRecords
from dmlrc.report import starts, tables
from dmlrc.report.statistics import Estimate

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_RUN = "reproduced", "not reproduced", "inconclusive", "not run"
RETRACTED = "retracted"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_RUN, RETRACTED)
PAPER, OURS = "paper", "ours"
FEWEST = 3
"""Reruns or points below which no interval is trusted: with two, Student's t has 1 degree of freedom."""


class MissingRowsError(LookupError):
    """A claim needs rows of a study that are not in its records; the message names them."""


@dataclass(frozen=True)
class Region:
    """The values of a statistic for which a claim is true: the open interval from low to high."""

    low: float = -math.inf
    high: float = math.inf

    def holds(self, low: float, high: float) -> bool:
        """Whether all of [low, high] lies in the region."""
        return self.low < low and high < self.high

    def text(self, unit: "Unit") -> str:
        """The region in words.

        >>> above(0).text(POINTS), below(0.1).text(PERCENT), within(0.005).text(POINTS), above(-0.01).text(POINTS)
        ('above 0', 'below +10.0 %', 'within 0.50 points of 0', 'above -1.00 points')
        """
        if self.low == -self.high:
            return f"within {unit.text(self.high).lstrip('+')}{unit.name} of 0"
        word, limit = ("below", self.high) if math.isinf(self.low) else ("above", self.low)
        return f"{word} {unit.text(limit) + unit.name if limit else 0}"

    def excludes(self, low: float, high: float) -> bool:
        """Whether none of [low, high] lies in the region or at its edge."""
        return high < self.low or low > self.high


def above(limit: float) -> Region:
    """The statistic is greater than the limit."""
    return Region(low=limit)


def below(limit: float) -> Region:
    """The statistic is less than the limit."""
    return Region(high=limit)


def within(limit: float) -> Region:
    """The statistic lies nearer to 0 than the limit."""
    return Region(-limit, limit)


@dataclass(frozen=True)
class Unit:
    """How a statistic is printed: points of accuracy are 100 times the fraction, with 2 digits."""

    scale: float
    digits: int
    suffix: str = ""
    name: str = ""
    form: str = "f"

    def text(self, value: float) -> str:
        """The value with its sign, a dash for NaN.

        >>> POINTS.text(0.0123), PERCENT.text(-0.05), NUMBER.text(0.777), LOSS.text(-0.0422), TINY.text(2e-8)
        ('+1.23', '-5.0 %', '+0.78', '-0.042', '+2.0e-08')
        >>> NUMBER.text(float("nan"))
        '–'
        """
        return "–" if math.isnan(value) else f"{self.scale * value:+.{self.digits}{self.form}}{self.suffix}"


POINTS = Unit(100, 2, name=" points")
PERCENT = Unit(100, 1, " %")
NUMBER = Unit(1, 2)
LOSS = Unit(1, 3)
TINY = Unit(1, 1, form="e")

Evidence = Mapping[str, StudyRecords]
"""What a claim is judged by: "main" or the id of an experiment -> its records."""


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper, or one of ours about it, and the number that decides it.

    id: `<paper>-...`. claim: the sentence, in our words; quote: a few of the paper's own. source: where the paper says
    it. origin: "paper", or "ours" for what no sentence of the paper says. exploratory: why it is no test, "" where it
    is one: it was chosen after a look at the results. retracted: why our records cannot test the sentence, "" where
    they can; a retracted claim stays listed and gets no verdict.
    statistic: the number, in words, and what its units are. interval: how its interval is made. region: where the
    number lies if the sentence is true; rationale: why there, unless the sentence itself says so.
    needs: the records that it takes, "main" or ids of `experiments.of`; none: computed on the spot, without training.
    more: records that it takes too, where they are there. link: the id of the table or figure that shows the numbers.
    measure: records -> the statistic; raises MissingRowsError where rows are missing; None only for a retracted claim.
    published: the same statistic in the paper: data set or place -> number, from its tables where they allow it.
    printed: as text, of a retracted claim.
    rows: the rows that it compares, default all, as in `below_untrained`; trunk_alone: it is about the untrained trunk
    itself, and asks nothing of any start. is_range: the statistic is a range of the rows' P@1, which its two ends make.
    at_most: the statistic is at most what the sentence is about, and lies below the region even where that does not.
    """

    id: str
    claim: str
    source: str
    statistic: str
    interval: str
    region: Region
    unit: Unit
    needs: tuple[str, ...]
    link: str
    measure: Callable[[Evidence], Estimate] | None
    published: Callable[[], Mapping[str, float]] | None = None
    printed: str = ""
    rationale: str = ""
    quote: str = ""
    origin: str = PAPER
    exploratory: str = ""
    retracted: str = ""
    more: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    trunk_alone: bool = False
    is_range: bool = False
    at_most: bool = False
    paper: str = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "paper", self.id.partition("-")[0])
        if self.measure is None and not self.retracted:
            raise ValueError(f"claim {self.id} has neither a measure nor a reason why it is retracted")


def retracted(id: str) -> Claim:
    """A claim that stays listed without a statistic of ours, from `retracted.toml`."""
    of = _RETRACTED[id]
    return Claim(
        id=id,
        claim=of["claim"],
        source=of["source"],
        statistic="",
        interval="",
        region=Region(),
        unit=POINTS,
        needs=(),
        link=of["link"],
        measure=None,
        printed=of.get("printed", ""),
        quote=of.get("quote", ""),
        origin=of.get("origin", PAPER),
        retracted=of["why"],
    )


_RETRACTED = tomllib.loads((files(__package__) / "retracted.toml").read_text(encoding="utf-8"))


class Low(Enum):
    """Rows below their untrained start that leave a claim open."""

    MOST = "most"
    END = "one at an end of the range"


@dataclass(frozen=True)
class Judgement:
    """A verdict, why it is no firmer than it is ("" where it is firm), and the estimate behind it, if there is one.

    low: which rows below their untrained start left it open, if these did. below_trunk: whether most of the rows behind
    it are worse than the untrained trunk.
    """

    verdict: str
    why: str = ""
    estimate: Estimate | None = None
    low: Low | None = None
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
    """The rule. full: whether all records behind the estimate are finished and of the full budget.

    below: how many of the rows behind it are worse than their untrained start, and how many rows there are. end_below:
    whether it is a range, and a row that makes it is so. at_most: see `Claim`.
    """
    if estimate.n == 0 or math.isnan(estimate.value):
        return Judgement(NOT_RUN, "nothing to compute it from")
    low = None
    if not full:
        why = "not the full budget, or not finished"
    elif estimate.n < FEWEST or math.isnan(estimate.low) or math.isnan(estimate.high):
        why = f"too few {estimate.units or 'numbers'} ({estimate.n}, and {FEWEST} are needed)"
    elif 2 * below[0] > below[1]:
        why, low = f"{_rows(*below)} {BELOW}", Low.MOST
    elif end_below:
        why, low = f"a row that makes the range lies {BELOW}", Low.END
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
    return Judgement(INCONCLUSIVE, why, estimate, low)


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
    used = {name: evidence[name] for name in (*claim.needs, *claim.more) if evidence.get(name) is not None}
    try:
        estimate = claim.measure(used)
    except MissingRowsError as error:
        return Judgement(NOT_RUN, str(error))
    compared = [] if claim.trunk_alone else [_counted(lower(records), claim.rows) for records in used.values()]
    start, trunk, rows = (sum(count) for count in zip((0, 0, 0), *compared, strict=True))
    end_below = claim.is_range and any(_end_is_below(lower(records), claim.rows) for records in used.values())
    full = all(map(is_full, used.values()))
    verdict = judge(claim.region, estimate, full, (start, rows), end_below, claim.at_most)
    return replace(verdict, below_trunk=2 * trunk > rows)


def below_untrained(records: StudyRecords, rows: Collection[str] = ()) -> tuple[int, int, int]:
    """How many rows have a lower mean P@1 on the test half than their own start, than the trunk; how many there are.

    The start: see `starts.of_rows`; the trunk: see `dmlrc.report.starts`. A row is below if it is so
    alone and, where there are folds, joined. rows: default all; of a sweep, the rows at every level. (0, 0, 0) where no
    start is known. Differences between rows below their start say which training did the least harm.
    """
    return _counted(lower_than_untrained(records), rows)


def _counted(lower: pd.DataFrame, rows: Collection[str]) -> tuple[int, int, int]:
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
