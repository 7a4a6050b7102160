"""All claims, judged by the records of a main study and of the experiments around it."""

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from dmlrc import records
from dmlrc.errors import unknown
from dmlrc.records import StudyRecords
from dmlrc.report import editions
from dmlrc.report.claims import rule
from dmlrc.report.claims.claim import CLAIMS, OURS, PAPER, Claim
from dmlrc.report.claims.rule import VERDICTS, Judgement
from dmlrc.report.statistics import Estimate

WITHOUT_RECORDS = "judged once"
"""The column of the claims that need no records of a study: on published numbers and metrics, and the retracted."""
Judged = Mapping[str, Mapping[str, Judgement]]
"""Main study, or `WITHOUT_RECORDS` -> claim -> its judgement."""


def of_section(section: str | None) -> list[Claim]:
    """The claims of a paper, "roth" for instance, that are its own sentences; `OURS`: those of ours; None: all."""
    sections = {claim.paper for claim in CLAIMS} | {OURS}
    if section not in {None, *sections}:
        raise unknown("section of claims", section, sections)
    return [claim for claim in CLAIMS if section in (None, claim.paper if claim.origin == PAPER else OURS)]


def judgements(main: StudyRecords, claims: Iterable[Claim]) -> dict[str, Judgement]:
    """The judgement of every one of these claims that needs records, by its id."""
    claims = [claim for claim in claims if claim.needs]
    needed = dict.fromkeys(name for claim in claims for name in (*claim.needs, *claim.more) if name != "main")
    evidence = {name: editions.experiment_of(main.name, name) for name in needed} | {"main": main}
    evidence |= {claim.grid: records.find(f"{main.name}/{claim.grid}") for claim in claims if claim.named}
    return {claim.id: rule.judge_claim(claim, evidence) for claim in claims}


def judge_all(edition: Sequence[StudyRecords] | Judged, section: str | None = None) -> Judged:
    """The judgements of every main study. What takes an edition takes these too, so that a chapter judges once."""
    return edition if isinstance(edition, Mapping) else judged_claims(edition, of_section(section))


def judged_claims(edition: Sequence[StudyRecords], claims: Sequence[Claim]) -> Judged:
    """The judgements of these claims alone by every main study."""
    once = {claim.id: rule.judge_claim(claim, {}) for claim in claims if not claim.needs}
    return {main.name: judgements(main, claims) for main in edition} | ({WITHOUT_RECORDS: once} if once else {})


def numbers(edition: Sequence[StudyRecords] | Judged, section: str | None = None) -> pd.DataFrame:
    """Every claim of a section (default of all) with its verdict: a row a claim and main study, or `WITHOUT_RECORDS`.

    Index: study. Columns: those of `Claim`, `Estimate` and `Judgement`, and paper_value (the same statistic in the
    paper, as printed), ours (with low and high in the statistic's own unit: accuracies are fractions) and interval.
    """
    rows = []
    for name, own in judge_all(edition, section).items():
        for claim in (claim for claim in of_section(section) if claim.id in own):
            verdict = own[claim.id]
            estimate = verdict.estimate or Estimate(float("nan"), float("nan"), float("nan"), 0)
            row = {**vars(claim), **vars(estimate), **vars(verdict), "study": name, "paper_value": in_paper(claim)}
            needs = ", ".join(claim.needs) or "nothing"
            rows.append(row | {"ours": estimate.value, "interval": estimate.how, "needs": needs})
    columns = ["id", "paper", "origin", "exploratory", "claim", "paper_value", "ours", "low", "high", "n", "units"]
    columns += ["interval", "verdict", "why", "below_trunk", "needs", "link"]
    return pd.DataFrame(rows).set_index("study")[columns]


def tally(edition: Sequence[StudyRecords] | Judged) -> pd.DataFrame:
    """The number of claims by verdict: one row per main study or `WITHOUT_RECORDS`, one column per verdict."""
    given = {name: [judgement.verdict for judgement in own.values()] for name, own in judge_all(edition).items()}
    return pd.DataFrame({verdict: {name: own.count(verdict) for name, own in given.items()} for verdict in VERDICTS})


def in_paper(claim: Claim) -> str:
    """The statistic in the paper's own numbers, as printed, and how many of these lie outside the region."""
    values = claim.published
    if not values:
        return claim.printed
    text = ", ".join(f"{where} {claim.unit.text(value)}" for where, value in values.items())
    outside = sum(claim.region.excludes(value, value) for value in values.values())
    return f"{text} ({outside} of {len(values)} outside)" if outside else text
