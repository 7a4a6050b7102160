"""All claims, judged by the records of a main study and of the experiments around it."""

from collections.abc import Mapping, Sequence

import pandas as pd

from dmlrc import experiments, records
from dmlrc.claims import fehervari2019, musgrave2020, oi2021, roth2020, rule, zhai2019
from dmlrc.claims.rule import VERDICTS, Claim, Estimate, Judgement
from dmlrc.records import StudyRecords

CLAIMS: tuple[Claim, ...] = (
    *musgrave2020.CLAIMS,
    *roth2020.CLAIMS,
    *fehervari2019.CLAIMS,
    *zhai2019.CLAIMS,
    *oi2021.CLAIMS,
)


def evidence(main: str | StudyRecords) -> dict[str, StudyRecords | None]:
    """What the claims are judged by: "main", and every experiment that a claim needs (None: not run)."""
    found = main if isinstance(main, StudyRecords) else records.load(main)
    needed = dict.fromkeys(name for claim in CLAIMS for name in claim.needs if name != "main")
    return {"main": found} | {name: experiments.load(found.name, name) for name in needed}


def judgements(main: str | StudyRecords) -> dict[str, Judgement]:
    """Every claim's judgement, by its id. main: the name of a main study, or its records."""
    found = evidence(main)
    return {claim.id: rule.evaluate(claim, found) for claim in CLAIMS}


Judged = Mapping[str, Mapping[str, Judgement]]
"""Main study -> claim -> its judgement."""


def judged(edition: Sequence[StudyRecords] | Judged) -> Judged:
    """The judgements of every main study. What takes an edition takes these too, so that a chapter judges once."""
    return edition if isinstance(edition, Mapping) else {main.name: judgements(main) for main in edition}


def judge(main: str | StudyRecords) -> pd.DataFrame:
    """Every claim with its verdict, a row a claim.

    Columns: id, paper, claim, paper_value (the same statistic in the paper, as printed), ours, low, high (in the
    statistic's own unit: accuracies are fractions), n, verdict, why (it is no firmer), needs, link.
    """
    return _frame(judgements(main))


def numbers(edition: Sequence[StudyRecords] | Judged) -> pd.DataFrame:
    """`judge` of every main study, one below the other, told apart by the index, `study`."""
    frames = [_frame(found).assign(study=name) for name, found in judged(edition).items()]
    return pd.concat(frames, ignore_index=True).set_index("study")


def counts(edition: Sequence[StudyRecords] | Judged) -> pd.DataFrame:
    """How many claims have which verdict: a row a main study, a column a verdict."""
    rows = {
        name: pd.Series([each.verdict for each in found.values()]).value_counts()
        for name, found in judged(edition).items()
    }
    return pd.DataFrame(rows).T.reindex(columns=list(VERDICTS)).fillna(0).astype(int)


def _frame(found: Mapping[str, Judgement]) -> pd.DataFrame:
    return pd.DataFrame([_row(claim, found[claim.id]) for claim in CLAIMS])


def _row(claim: Claim, judgement: Judgement) -> dict:
    estimate = judgement.estimate or Estimate(float("nan"), float("nan"), float("nan"), 0)
    return {
        "id": claim.id,
        "paper": claim.paper,
        "claim": claim.claim,
        "paper_value": in_paper(claim),
        "ours": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "verdict": judgement.verdict,
        "why": judgement.why,
        "needs": ", ".join(claim.needs) or "nothing",
        "link": claim.link,
    }


def in_paper(claim: Claim) -> str:
    """The statistic in the paper's own numbers, as printed, and how many of these lie outside the region."""
    values = claim.published() if claim.published else {}
    if not values:
        return ""
    text = ", ".join(f"{where} {claim.unit.text(value)}" for where, value in values.items())
    outside = sum(claim.region.excludes(value, value) for value in values.values())
    return f"{text} ({outside} of {len(values)} outside)" if outside else text
