"""The list of findings, demonstrated now."""

from collections.abc import Iterable, Sequence

import pandas as pd

from dmlrc import records
from dmlrc.errors import MissingDataError
from dmlrc.records import StudyRecords
from dmlrc.report import editions
from dmlrc.report.findings import of_claims, of_metrics, of_training
from dmlrc.report.findings.finding import Finding

WITH_CURVES = "grocery-frozen-full"
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
    """A row a finding, indexed by its name: title, where, effect."""
    rows = {each.name: {"title": each.title, "where": each.seen, "effect": each.effect} for each in findings}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("name")
