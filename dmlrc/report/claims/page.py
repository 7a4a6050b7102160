"""How the claims are printed: cells of text, with links to the chapters that show the numbers."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from dmlrc import papers
from dmlrc.records import StudyRecords
from dmlrc.report import labels
from dmlrc.report.claims.rule import INCONCLUSIVE, NOT_REPRODUCED, NOT_RUN, REPRODUCED, VERDICTS, Claim, Judgement
from dmlrc.report.claims.verdicts import CLAIMS, Judged, in_paper, judged, of_paper

PAPERS = {paper.id: paper for paper in papers.ALL}
CHAPTERS = {
    **dict.fromkeys(("musgrave-t2", "musgrave-f1", "musgrave-f2"), "01_metrics"),
    "musgrave-search": "02_protocol_and_search",
    **dict.fromkeys(("musgrave-f4", "musgrave-f5", "recycled-contrastive"), "04_papers_versus_reality"),
}
"""The tables and figures that stand in another chapter than that of their paper."""


def chapter(label: str) -> str:
    """The chapter in which a table or figure stands."""
    return CHAPTERS.get(label) or PAPERS[label.partition("-")[0]].chapter


def link(label: str) -> str:
    """A link to a table or figure, from one chapter to another."""
    return f'<a href="{chapter(label)}.html#{label}">{label}</a>'


def overview(edition: Sequence[StudyRecords] | Judged) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and marks of the book's first table: a row a claim; a verdict a main study, where to look, the source.

    Firm verdicts are marked: "best", that is bold, where a claim was reproduced, "tie", italic, where it was not.
    """
    studies = judged(edition)
    rows = [
        {
            "Claim": claim.claim,
            **{name: judgements[claim.id].verdict for name, judgements in studies.items()},
            "see": link(claim.link),
            "said in": f"{PAPERS[claim.paper].label}, {claim.source}",
        }
        for claim in CLAIMS
    ]
    return _with_marks(rows, studies, [claim.id for claim in CLAIMS])


def table(edition: Sequence[StudyRecords] | Judged, paper: str | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and marks of the claims in full, of one paper or of all: a row a claim, a column a main study.

    paper: its id in `papers.ALL`. Marks as in `overview`.
    """
    studies = judged(edition, paper)
    claims = of_paper(paper)
    rows = [
        {
            "Claim": f"{claim.claim} ({claim.source})",
            **{name: _cell(claim, judgements[claim.id]) for name, judgements in studies.items()},
            "the paper's numbers": in_paper(claim) or "–",
            "see": link(claim.link),
            "id": claim.id,
            "decided by": _decided_by(claim),
        }
        for claim in claims
    ]
    return _with_marks(rows, studies, [claim.id for claim in claims])


def _with_marks(rows: list[dict], studies: Judged, ids: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    cells = pd.DataFrame(rows).set_index("Claim")
    marks = pd.DataFrame("", index=cells.index, columns=cells.columns)
    looks = {REPRODUCED: "best", NOT_REPRODUCED: "tie"}
    for name, judgements in studies.items():
        marks[name] = [looks.get(judgements[each].verdict, "") for each in ids]
    return cells, marks


def _decided_by(claim: Claim) -> str:
    rationale = f" ({claim.rationale})" if claim.rationale else ""
    return f"{claim.statistic}: {claim.region.text(claim.unit)}{rationale}. {_sentence(claim.interval)}."


def _cell(claim: Claim, judgement: Judgement) -> str:
    estimate = judgement.estimate
    if estimate is None:
        return judgement.verdict
    low, high = (claim.unit.text(limit) for limit in (estimate.low, estimate.high))
    return f"{judgement.verdict}: {claim.unit.text(estimate.value)}{claim.unit.name} [{low}, {high}], n = {estimate.n}"


def unsettled(edition: Sequence[StudyRecords] | Judged) -> pd.DataFrame:
    """What stands behind the verdicts that are not firm: a row a study, verdict and reason; how many, and which."""
    rows = [
        {"Study": study, "verdict": judgement.verdict, "why": judgement.why, "claim": name}
        for study, judgements in judged(edition).items()
        for name, judgement in judgements.items()
        if judgement.why
    ]
    columns = ["Study", "verdict", "why", "claim"]
    groups = pd.DataFrame(rows, columns=columns).groupby(columns[:-1], sort=False)["claim"]
    return groups.agg(claims="size", which=", ".join)


def caption(edition: Sequence[StudyRecords]) -> str:
    """What stands under the tables of claims."""
    return (
        "Verdicts by the rule of {doc}`11_claims`, one for all claims. Bold: the whole 95 % interval lies where the "
        "claim says. Italic: it lies wholly elsewhere. " + " ".join(map(labels.caption, edition))
    )


def by_paper(edition: Sequence[StudyRecords] | Judged) -> pd.DataFrame:
    """How many claims of each paper have which verdict: a row a paper, a column a main study."""
    studies = judged(edition)
    rows = [
        {
            "Paper": paper.label,
            "claims": str(len(of_paper(paper.id))),
            **{study: _counted(judgements, paper.id) for study, judgements in studies.items()},
        }
        for paper in papers.ALL
    ]
    return pd.DataFrame(rows).set_index("Paper")


def _counted(judgements: Mapping[str, Judgement], paper: str | None = None) -> str:
    verdicts = [judgements[claim.id].verdict for claim in of_paper(paper)]
    return ", ".join(f"{verdicts.count(each)} {each}" for each in VERDICTS if each in verdicts)


def takeaways(edition: Sequence[StudyRecords] | Judged) -> list[str]:
    """What the claims come to: a sentence or two a main study, then what was reproduced in none of them."""
    studies = judged(edition)
    return [*(" ".join(_sentences(name, judgements)) for name, judgements in studies.items()), _failed(studies)]


def _sentences(name: str, judgements: Mapping[str, Judgement]) -> Iterator[str]:
    yield f"`{name}`: of {len(judgements)} claims {_counted(judgements)}."
    verdicts = [judgement.verdict for judgement in judgements.values()]
    if sum(map(verdicts.count, (REPRODUCED, NOT_REPRODUCED))) < sum(map(verdicts.count, (INCONCLUSIVE, NOT_RUN))):
        yield "Most are not settled by these records."


def _failed(studies: Judged) -> str:
    """The claims that no main study reproduces, as they stand in the papers; "" if there is none."""
    claims = [
        each for each in CLAIMS if {judgements[each.id].verdict for judgements in studies.values()} == {NOT_REPRODUCED}
    ]
    said = "; ".join(f"*{claim.claim.removesuffix('.')}* ({PAPERS[claim.paper].label})" for claim in claims)
    return f"Not reproduced{' in any of these studies' if len(studies) > 1 else ''}: {said}." if said else ""


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
