"""Claims: sentences of the papers, or ours about them, and the number that decides each; one TOML file a paper. And
exhibits: the papers' tables and figures, and those of ours that claims lead to, of `exhibits.toml`.
"""

import math
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Annotated, Any, Literal, NamedTuple

from markupsafe import Markup
from pydantic import BeforeValidator, ConfigDict
from pydantic.dataclasses import dataclass

from dmlrc import papers
from dmlrc.records import StudyRecords
from dmlrc.report import labels
from dmlrc.report.claims import named
from dmlrc.report.statistics import Estimate

PAPER, OURS = "paper", "ours"
BATCHES = ("batches", "batches-equal", "samples", "samplers")
"""The sweeps over what a batch is, all sizes and layouts at one rate: no claim is judged by them."""
GROUPED = ("rows", "others", "without", "merged")
"""The keys that may name a group of rows of the file."""


@dataclass(frozen=True)
class PrintedUnit:
    """The unit in which a statistic is printed: points of accuracy are 100 times the fraction, with 2 digits.

    digits: None for numbers without a sign, in powers of ten where they are small.
    """

    scale: float
    digits: int | None
    suffix: str = ""
    name: str = ""

    def text(self, value: float) -> str:
        """The value with its sign, a dash for NaN.

        >>> UNITS["points"].text(0.0123), UNITS["percent"].text(-0.05), UNITS["tiny"].text(2e-8)
        ('+1.23', '-5.0 %', '2·10⁻⁸')
        """
        if self.digits is None:
            return labels.number(value) or "–"
        return "–" if math.isnan(value) else f"{self.scale * value:+.{self.digits}f}{self.suffix}"


UNITS = {
    "points": PrintedUnit(100, 2, name=" points"),
    "percent": PrintedUnit(100, 1, " %"),
    "number": PrintedUnit(1, 2),
    "loss": PrintedUnit(1, 3),
    "tiny": PrintedUnit(1, None),
}


@dataclass(frozen=True)
class Region:
    """The values of a statistic for which a claim is true: the open interval from low to high."""

    low: float = -math.inf
    high: float = math.inf

    def holds(self, low: float, high: float) -> bool:
        """True if all of [low, high] lies in the region, and none of it at its edge."""
        return self.low < low and high < self.high

    def excludes(self, low: float, high: float) -> bool:
        """True if none of [low, high] lies in the region or at its edge."""
        return high < self.low or low > self.high

    def text(self, unit: PrintedUnit) -> str:
        """The region in words.

        >>> Region(low=0).text(UNITS["points"]), Region(-0.005, 0.005).text(UNITS["points"])
        ('above 0', 'within 0.50 points of 0')
        """
        if self.low == -self.high:
            return f"within {unit.text(self.high).lstrip('+')}{unit.name} of 0"
        word, limit = ("below", self.high) if math.isinf(self.low) else ("above", self.low)
        return f"{word} {unit.text(limit) + unit.name if limit else 0}"


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Claim:
    """One sentence of a paper, or one of ours about it, and the number that decides it.

    claim: the sentence, in our words; quote: a few of the paper's own. source: where the paper says it. origin: "ours"
    for what no sentence of the paper says. exploratory: why it is no test: it was chosen after a look at the results.
    retracted: why our records cannot test it, so that it is listed without a verdict; for_size: since the number may be
    one of the size of embeddings; untestable: why, of one that was never judged. named: the losses that it names, for
    `rule.far_from_the_rate`. decides: the paper's tables and figures that the verdict counts for on the report card;
    link: what shows the numbers here, see `exhibits`.
    statistic: the number, in words, and what its units are. interval: how its interval is made. region: where the
    number lies if the sentence is true; rationale: why there, unless the sentence itself says so.
    needs: the records that it takes, "main" or ids of experiments, none without training; more: those too, if there.
    measure: the function of the statistic, `name` in `named`, and its keywords. published: the same statistic in the
    paper: data set or place -> number; printed: as text. rows: those that it compares, default all, as in
    `rule.lower_than_untrained`; trunk_alone: it is about the untrained trunk, and asks nothing of any start. is_range:
    the statistic is a range of the rows' P@1, made by its two ends.
    at_most: the statistic is at most what the sentence is about, and may lie below the region where that does not.
    """

    id: str
    paper: str
    claim: str
    source: str
    link: str
    quote: str = ""
    origin: Literal["paper", "ours"] = PAPER
    exploratory: str = ""
    retracted: str = ""
    for_size: bool = False
    untestable: str = ""
    named: tuple[str, ...] = ()
    decides: tuple[str, ...] = ()
    statistic: str = ""
    interval: str = ""
    region: Region = Region()
    rationale: str = ""
    unit: Annotated[PrintedUnit, BeforeValidator(lambda unit: UNITS.get(unit, unit))] = UNITS["points"]
    needs: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    measure: Mapping[str, Any] | None = None
    published: Mapping[str, float] | None = None
    printed: str = ""
    rows: tuple[str, ...] = ()
    trunk_alone: bool = False
    is_range: bool = False
    at_most: bool = False

    def __post_init__(self):
        if self.measure is None and not (self.retracted or self.untestable or self.on_batches):
            raise ValueError(f"claim {self.id} has neither a measure nor a reason why it is not judged")

    @property
    def on_batches(self) -> bool:
        return any(name.rpartition("/")[2] in BATCHES for name in self.needs)

    @property
    def grid(self) -> str:
        """The experiment that chose the rate that the losses which it names share: their paper's, else the table's."""
        around = self.needs[0].partition("/")[0]
        return f"{around}/rates" if around in {paper.key for paper in papers.ALL} else "rates"

    def records(self, evidence: Mapping[str, StudyRecords | None]) -> list[StudyRecords]:
        """Evidence of this claim, in the order of `needs` and `more`."""
        return [evidence[name] for name in (*self.needs, *self.more) if evidence.get(name) is not None]

    def label_of(self, name: str) -> str:
        """A method as its paper prints it."""
        of_paper = {method.name: method.label for method in getattr(SOURCES[self.paper], "methods", ())}
        return of_paper.get(name) or labels.method_label(name)

    def estimate(self, evidence: Mapping[str, StudyRecords | None]) -> Estimate:
        """The statistic by these records; raises `MissingRowsError` where rows are missing."""
        keywords = dict(self.measure)
        return getattr(named, keywords.pop("name"))(*self.records(evidence), **keywords)


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((files(__package__) / f"{name}.toml").read_text(encoding="utf-8"))


INTERVALS = _toml("intervals")
"""How intervals are made, by the name that claims give: what is printed."""


class Later(NamedTuple):
    """A paper of which no experiment is run and some sentences are judged; see `papers.Paper`."""

    key: str
    id: str
    label: str
    url: str


LATER = [Later(key, **_toml(key)["paper"]) for key in ("zeng2026", "berton2025")]
SOURCES = {paper.id: paper for paper in (*papers.ALL, *LATER)}
"""Whose sentences are judged, by what the names of their claims begin with."""


def _read(paper: papers.Paper | Later) -> Iterator[Claim]:
    """The claims of a paper's file."""
    file = _toml(paper.key)
    for row in file["claims"]:
        for part in (row, row.get("measure", {})):
            part.update({key: file["groups"][part[key]] for key in GROUPED if isinstance(part.get(key), str)})
        interval = INTERVALS[row.pop("interval")] if "interval" in row else ""
        yield Claim(paper=paper.id, interval=interval, **row)


CLAIMS: tuple[Claim, ...] = tuple(claim for paper in SOURCES.values() for claim in _read(paper))


class Exhibit(NamedTuple):
    """A table or figure of a chapter. Where a paper has it, it is called as there.

    paper: whose it is, or "ours". shows, of a paper's: what it shows. needs: the experiments without which nothing of
    it is ours. has_result: whether it measures anything. alone: the paper's numbers stand there alone.
    """

    paper: str
    chapter: str
    called: str
    shows: str = ""
    needs: tuple[str, ...] = ()
    has_result: bool = True
    alone: bool = False


EXHIBITS = {id: Exhibit(paper, **row) for paper, rows in _toml("exhibits").items() for id, row in rows.items()}
"""By their ids in the book, "musgrave-t4" for instance."""


def link(label: str) -> Markup:
    """A link to a table or figure, from one chapter to another.

    >>> print(link("musgrave-f1"))
    <a href="02_which_score_to_trust.html#musgrave-f1">Fig. 1</a>
    """
    exhibit = EXHIBITS[label]
    return Markup('<a href="{}.html#{}">{}</a>').format(exhibit.chapter, label, exhibit.called)
