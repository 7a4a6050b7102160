"""The list of findings, demonstrated now."""

from collections.abc import Iterable, Sequence

import pandas as pd

from dmlrc import records
from dmlrc.errors import MissingDataError
from dmlrc.records import StudyRecords
from dmlrc.report import editions, labels
from dmlrc.report.findings import of_claims, of_metrics, of_training
from dmlrc.report.findings.finding import Finding, Pair, percent

WITH_CURVES = "grocery-frozen"
"""A study whose committed records have long validation curves, shown beside the studies of any edition."""


def load(studies: str) -> list[StudyRecords]:
    """The records of these studies (names joined by commas), and of `WITH_CURVES` where they are present."""
    edition = editions.load(studies)
    if WITH_CURVES not in editions.names(studies):
        try:
            edition.append(records.load(WITH_CURVES))
        except MissingDataError:
            return edition
    return edition


def demonstrate(edition: Sequence[StudyRecords]) -> dict[str, Finding]:
    """Every finding by its name, in the order of the chapter; each takes a second or two at most."""
    groups = (of_metrics, of_training, of_claims)
    return {each.name: each for group in groups for each in group.findings(edition)}


def overview(findings: Iterable[Finding]) -> pd.DataFrame:
    """A row a finding, indexed by its name: title, effect, remedy, where. Those with a `Pair` first, by its size."""
    ordered = sorted(findings, key=lambda each: each.pair.size if each.pair else -1, reverse=True)
    rows = {
        each.name: {"title": each.title, "effect": each.effect, "remedy": each.remedy, "where": each.seen}
        for each in ordered
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("name")


def pairs(findings: Iterable[Finding]) -> list[Pair]:
    """The findings whose effect is two scores, the widest first."""
    return sorted((each.pair for each in findings if each.pair), key=lambda pair: pair.size, reverse=True)


def pairs_sentence(found: Sequence[Pair]) -> str:
    """How far wrong percentages lie from right ones, with the widest of `pairs`, in words."""
    points = labels.span((abs(100 * (pair.right - pair.wrong)) for pair in found), "{:.1f}".format)
    widest = found[0]
    return (
        f"{len(found)} findings turn a right percentage into a wrong one, by {points} points. Widest: {widest.what}, "
        f"{percent(widest.wrong)} % instead of {percent(widest.right)} %."
    )
