"""The claims as printed: cells of text, with links to the chapters that show the numbers."""

from collections.abc import Callable, Mapping, Sequence
from math import isnan

import pandas as pd
from markupsafe import Markup

from dmlrc.records import StudyRecords
from dmlrc.report import labels
from dmlrc.report.claims.claim import CLAIMS, OURS, SOURCES, Claim, link
from dmlrc.report.claims.rule import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED, RULES, VERDICTS, Judgement
from dmlrc.report.claims.verdicts import Judged, in_paper, judge_all, of_section
from dmlrc.report.method import notes

SECTIONS = {id: paper.label for id, paper in SOURCES.items()} | {OURS: "Ours, not sentences of the papers"}
"""What the claims are shown by: their papers, and those that no sentence of a paper says; key -> title."""
MARKED = f"Bold: reproduced. Italic: contradicted. {labels.BELOW}: decided by rows below the untrained trunk in P@1."
CAPTION = "Verdicts by the rule of {doc}`17_report_card`. " + MARKED
"""What stands under the tables of claims; n stands with each number."""


def claims_overview(
    edition: Sequence[StudyRecords] | Judged, claims: Sequence[Claim] = CLAIMS
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and marks of claims in short: a row a claim, a verdict a main study; marked as `MARKED` says."""

    def paper(claim: Claim) -> dict[str, str]:
        return {"paper": "ours, on " * (claim.origin == OURS) + SOURCES[claim.paper].label}

    return _table(judge_all(edition), claims, _verdict, paper)


def details(edition: Sequence[StudyRecords] | Judged, section: str | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and marks of the claims in full: a row a claim, a column a main study. section: see `of_section`."""
    claims = of_section(section)
    ids = {claim.id for claim in claims}
    studies = {name: judgements for name, judgements in judge_all(edition, section).items() if ids & set(judgements)}

    def paper(claim: Claim) -> dict[str, str]:
        return {"the paper's numbers": in_paper(claim) or "–", "said in": said_in(claim)}

    cells, marks = _table(studies, claims, _cell, paper)
    decided = [f"{_decided_by(claim)} ({claim.id})" for claim in claims]
    return cells.assign(**{"decided by": decided}), marks.assign(**{"decided by": ""})


def _table(
    studies: Judged,
    claims: Sequence[Claim],
    cell: Callable[[Claim, Judgement | None], str],
    more: Callable[[Claim], Mapping[str, str]],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A row a claim: a cell a study, more of the claim, and where its numbers and the losses that it is about stand."""
    rows, link_to = [], Markup('<a href="{}">{}</a>')
    for claim in claims:
        row = {"Claim": f"{claim.claim} (exploratory)" if claim.exploratory else claim.claim}
        row |= {name: cell(claim, judgements.get(claim.id)) for name, judgements in studies.items()}
        losses = [link_to.format(address, label) for label, address in notes.losses_of_claim(claim.id)]
        rows.append(row | more(claim) | {"see": Markup(", ").join([link(claim.link), *losses])})
    cells = pd.DataFrame(rows, dtype=object).set_index("Claim")  # a column of plain strings would forget its `Markup`
    marks = pd.DataFrame("", index=cells.index, columns=cells.columns)
    looks = {REPRODUCED: "best", NOT_REPRODUCED: "tie"}
    for name, own in studies.items():
        marks[name] = [looks.get(own[claim.id].verdict, "") if claim.id in own else "" for claim in claims]
    return cells, marks


def said_in(claim: Claim) -> Markup:
    """The place in the paper, linked, and some of its words; "ours, on" and the place where the claim is ours."""
    paper = SOURCES[claim.paper]
    label = Markup('<a href="{}">{}</a>').format(paper.url, paper.label) if paper.url else paper.label
    where = Markup("{}, {}").format(label, claim.source)
    if claim.origin == OURS:
        return "ours, on " + where
    return Markup('{}: "{}"').format(where, claim.quote) if claim.quote else where


def _decided_by(claim: Claim) -> str:
    if not claim.statistic:
        return "–"
    rationale = f" ({claim.rationale})" if claim.rationale else ""
    exploratory = f" Exploratory: {claim.exploratory}." if claim.exploratory else ""
    interval = claim.interval[0].upper() + claim.interval[1:]
    return f"{claim.statistic}: {claim.region.text(claim.unit)}{rationale}. {interval}.{exploratory}"


def _verdict(claim: Claim, judgement: Judgement | None) -> str:
    """The verdict and, where it is inconclusive, why; a dash where the claim needs no records of this study."""
    if judgement is None:
        return "–"
    return f"{judgement.verdict}: {judgement.why}" if judgement.verdict == INCONCLUSIVE else _signed(judgement)


def _signed(judgement: Judgement) -> str:
    """The verdict, with the sign of `labels.BELOW` where it is settled by rows of which most lie below the trunk."""
    return f"{judgement.verdict} {labels.BELOW}" if judgement.from_low_rows else judgement.verdict


def _cell(claim: Claim, judgement: Judgement | None) -> str:
    if judgement is None:
        return "–"
    why = f"; {judgement.why}" if judgement.why else ""
    estimate = judgement.estimate
    if estimate is None:
        return f"{judgement.verdict}{why}"
    value, low, high = map(claim.unit.text, (estimate.value, estimate.low, estimate.high))
    knows = ", seeds only" * estimate.seeds_only
    interval = ", no interval" if isnan(estimate.low) else f" [{low}, {high}]"
    units = estimate.units.removesuffix("s") if estimate.n == 1 else estimate.units
    return (
        f"{_signed(judgement)}: {value}{claim.unit.name}{interval}, {f'n = {estimate.n} {units}'.rstrip()}{knows}{why}"
    )


def rules(edition: Sequence[StudyRecords] | Judged) -> pd.DataFrame:
    """The rules that hold verdicts back: what each asks, since when, what was known, and how many it holds back now."""
    rows = {}
    for name, rule in RULES.items():
        rows[rule["rule"]] = {"since": str(rule["since"]), "results known then": rule["known"]}
        held = {study: sum(one.rule == name for one in own.values()) for study, own in judge_all(edition).items()}
        rows[rule["rule"]] |= {study: f"{count or '–'}" for study, count in held.items()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("A verdict asks that")


def by_paper(edition: Sequence[StudyRecords] | Judged) -> pd.DataFrame:
    """Counts of the verdicts on each section's claims, as cells: one row per section, one column per main study."""
    rows, studies = {}, judge_all(edition)
    for section, title in SECTIONS.items():
        ids = [claim.id for claim in of_section(section)]
        rows[title] = {"claims": str(len(ids))}
        for study, own in studies.items():
            given = [own[id].verdict for id in ids if id in own]
            texts = [f"{given.count(verdict)} {verdict}" for verdict in VERDICTS if verdict in given]
            rows[title][study] = ", ".join(texts) or "–"
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Paper")
