"""All claims, judged by the records of a main study and of the experiments around it."""

from collections.abc import Mapping, Sequence

import pandas as pd

from dmlrc import experiments, records
from dmlrc.claims import fehervari2019, musgrave2020, oi2021, roth2020, rule, zhai2019
from dmlrc.claims.rule import VERDICTS, Claim, Judgement
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


def judge(main: str | StudyRecords) -> pd.DataFrame:
    """Every claim with its verdict, a row a claim.

    Columns: id, paper, claim, paper_value (the same statistic in the paper, as printed), ours, low, high (in the
    statistic's own unit: accuracies are fractions), n, verdict, why (it is no firmer), needs, link.
    """
    return pd.DataFrame([_row(claim, judgement) for claim, judgement in _both(judgements(main))])


def _both(found: Mapping[str, Judgement]) -> list[tuple[Claim, Judgement]]:
    return [(claim, found[claim.id]) for claim in CLAIMS]


def _row(claim: Claim, judgement: Judgement) -> dict:
    estimate = judgement.estimate
    return {
        "id": claim.id,
        "paper": claim.paper,
        "claim": claim.claim,
        "paper_value": in_paper(claim),
        "ours": estimate.value if estimate else float("nan"),
        "low": estimate.low if estimate else float("nan"),
        "high": estimate.high if estimate else float("nan"),
        "n": estimate.n if estimate else 0,
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


def numbers(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """`judge` of every main study, one below the other, told apart by `study`."""
    return pd.concat([judge(main).assign(study=main.name) for main in edition], ignore_index=True).set_index("study")


def counts(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """How many claims have which verdict: a row a main study, a column a verdict."""
    found = {main.name: pd.Series([each.verdict for each in judgements(main).values()]) for main in edition}
    table = pd.DataFrame({name: verdicts.value_counts() for name, verdicts in found.items()}).T
    return table.reindex(columns=list(VERDICTS)).fillna(0).astype(int)
