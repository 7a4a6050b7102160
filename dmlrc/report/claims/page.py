"""How the claims are printed: cells of text, with links to the chapters that show the numbers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan

import pandas as pd
from markupsafe import Markup

from dmlrc import papers
from dmlrc.records import StudyRecords
from dmlrc.report import labels
from dmlrc.report.claims.exhibits import link
from dmlrc.report.claims.measures import SEEDS_ONLY
from dmlrc.report.claims.rule import (
    BELOW,
    INCONCLUSIVE,
    NOT_REPRODUCED,
    OURS,
    REPRODUCED,
    RETRACTED,
    VERDICTS,
    Claim,
    Judgement,
    Low,
    Unit,
)
from dmlrc.report.claims.verdicts import CLAIMS, WITHOUT_RECORDS, Judged, in_paper, judged, of_section
from dmlrc.report.method import notes

PAPERS = {paper.id: paper for paper in papers.ALL}


def _see(claim: Claim) -> Markup:
    """Where the numbers of a claim stand, and the losses that it is about."""
    losses = [Markup('<a href="{}">{}</a>').format(address, label) for label, address in notes.claimed(claim.id)]
    return Markup(", ").join([link(claim.link), *losses])


def overview(
    edition: Sequence[StudyRecords] | Judged, claims: Sequence[Claim] = CLAIMS
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and marks of claims in short: a row a claim; a verdict a main study, and where to look.

    Firm verdicts are marked: "best", that is bold, where a claim was reproduced, "tie", italic, where it was not.
    """
    studies = judged(edition)
    rows = [
        {
            "Claim": _said(claim),
            **{name: _verdict(judgements.get(claim.id)) for name, judgements in studies.items()},
            "paper": f"ours, on {PAPERS[claim.paper].label}" if claim.origin == OURS else PAPERS[claim.paper].label,
            "see": _see(claim),
        }
        for claim in claims
    ]
    return _with_marks(rows, studies, claims)


def table(edition: Sequence[StudyRecords] | Judged, section: str | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and marks of the claims in full, of one section or of all: a row a claim, a column a main study.

    section: see `verdicts.of_section`. Marks as in `overview`.
    """
    claims = of_section(section)
    ids = {claim.id for claim in claims}
    studies = {name: judgements for name, judgements in judged(edition, section).items() if ids & set(judgements)}
    rows = [
        {
            "Claim": _said(claim),
            **{name: _cell(claim, judgements.get(claim.id)) for name, judgements in studies.items()},
            "the paper's numbers": in_paper(claim) or "–",
            "said in": said_in(claim),
            "see": _see(claim),
            "decided by": f"{_decided_by(claim)} ({claim.id})",
        }
        for claim in claims
    ]
    return _with_marks(rows, studies, claims)


def said_in(claim: Claim) -> Markup:
    """Where the paper says it, with a link, and some of its words; "ours" where it does not."""
    paper = PAPERS[claim.paper]
    label = Markup('<a href="{}">{}</a>').format(paper.url, paper.label) if paper.url else paper.label
    where = Markup("{}, {}").format(label, claim.source)
    if claim.origin == OURS:
        return "ours, on " + where
    return Markup('{}: "{}"').format(where, claim.quote) if claim.quote else where


def _said(claim: Claim) -> str:
    return f"{claim.claim} (exploratory)" if claim.exploratory else claim.claim


def _with_marks(rows: list[dict], studies: Judged, claims: Sequence[Claim]) -> tuple[pd.DataFrame, pd.DataFrame]:
    cells = pd.DataFrame(rows, dtype=object).set_index("Claim")  # a column of plain strings would forget its `Markup`
    marks = pd.DataFrame("", index=cells.index, columns=cells.columns)
    looks = {REPRODUCED: "best", NOT_REPRODUCED: "tie"}
    for name, judgements in studies.items():
        verdicts = [judgements[each.id].verdict if each.id in judgements else "" for each in claims]
        marks[name] = [looks.get(verdict, "") for verdict in verdicts]
    return cells, marks


def _decided_by(claim: Claim) -> str:
    if claim.retracted:
        return "–"
    rationale = f" ({claim.rationale})" if claim.rationale else ""
    exploratory = f" Exploratory: {claim.exploratory}." if claim.exploratory else ""
    return f"{claim.statistic}: {claim.region.text(claim.unit)}{rationale}. {_sentence(claim.interval)}.{exploratory}"


def _verdict(judgement: Judgement | None) -> str:
    """The verdict and, where it is inconclusive, why; a dash where the claim needs no records of this study."""
    if judgement is None:
        return "–"
    return f"{judgement.verdict}: {judgement.why}" if judgement.verdict == INCONCLUSIVE else signed(judgement)


def signed(judgement: Judgement) -> str:
    """The verdict, with the sign of `labels.BELOW` where it is settled by rows of which most lie below the trunk."""
    return f"{judgement.verdict} {labels.BELOW}" if judgement.from_low_rows else judgement.verdict


def _cell(claim: Claim, judgement: Judgement | None) -> str:
    if judgement is None:
        return "–"
    why = f"; {judgement.why}" if judgement.why else ""
    estimate = judgement.estimate
    if estimate is None:
        return f"{judgement.verdict}{why}"
    value, low, high = (_value(claim.unit, each) for each in (estimate.value, estimate.low, estimate.high))
    knows = f", {SEEDS_ONLY}" if SEEDS_ONLY in estimate.how else ""
    interval = ", no interval" if isnan(estimate.low) else f" [{low}, {high}]"
    units = estimate.units.removesuffix("s") if estimate.n == 1 else estimate.units
    return (
        f"{signed(judgement)}: {value}{claim.unit.name}{interval}, {f'n = {estimate.n} {units}'.rstrip()}{knows}{why}"
    )


def _value(unit: Unit, value: float) -> str:
    """A statistic as printed; one that is told in powers of ten as `labels.number` tells it.

    >>> from dmlrc.report.claims.rule import POINTS, TINY
    >>> _value(POINTS, 0.0123), _value(TINY, 2e-8), _value(TINY, 0.0)
    ('+1.23', '2·10⁻⁸', '0')
    """
    return labels.number(value) if unit.form == "e" else unit.text(value)


def unsettled(edition: Sequence[StudyRecords] | Judged) -> pd.DataFrame:
    """What stands behind the verdicts that are not firm: a row a study, verdict and reason; how many, and which."""
    rows = [
        {"Study": study, "verdict": judgement.verdict, "why": _reason(judgement), "claim": _SENTENCES[name]}
        for study, judgements in judged(edition).items()
        for name, judgement in judgements.items()
        if judgement.why
    ]
    columns = ["Study", "verdict", "why", "claim"]
    groups = pd.DataFrame(rows, columns=columns).groupby(columns[:-1], sort=False)["claim"]
    return groups.agg(claims="size", which=" ".join)


def _reason(judgement: Judgement) -> str:
    """Why a claim is open, without counts, so that claims stand together that share it."""
    return MOST_LOW if judgement.low is Low.MOST else judgement.why


MOST_LOW = f"most of its rows lie {BELOW}"

MARKED = (
    "Bold: the whole 95 % interval lies where the claim says. Italic: it lies wholly elsewhere. "
    f"{labels.BELOW}: most of the rows behind it lie below the untrained trunk (its features, reduced by PCA), "
    "though not below their own start."
)
CAPTION = "Verdicts by the rule of {doc}`11_claims`, one for all claims. " + MARKED
"""What stands under the tables of claims; n stands with each number."""


SECTIONS = {paper.id: paper.label for paper in papers.ALL} | {OURS: "Ours, not sentences of the papers"}
"""What the claims are shown by: their papers, and those that no sentence of a paper says; key -> title."""


_SENTENCES = {claim.id: claim.claim for claim in CLAIMS}
_OWN = {claim.id for claim in of_section(OURS)}
_EXPLORATORY = {claim.id for claim in CLAIMS if claim.exploratory}


def by_paper(edition: Sequence[StudyRecords] | Judged) -> pd.DataFrame:
    """How many claims of each section have which verdict: a row a section, a column a main study."""
    studies = judged(edition)
    rows = [
        {
            "Paper": title,
            "claims": str(len(of_section(section))),
            **{study: _counted(judgements, section) for study, judgements in studies.items()},
        }
        for section, title in SECTIONS.items()
    ]
    return pd.DataFrame(rows).set_index("Paper")


def _counted(judgements: Mapping[str, Judgement], section: str) -> str:
    verdicts = [judgements[claim.id].verdict for claim in of_section(section) if claim.id in judgements]
    return ", ".join(f"{verdicts.count(each)} {each}" for each in VERDICTS if each in verdicts) or "–"


def takeaways(edition: Sequence[StudyRecords] | Judged) -> list[str]:
    """What the claims come to: which of the papers' stand everywhere, which fall, how many are open and why."""
    studies = judged(edition)
    theirs = {name: _apart(judgements)[0] for name, judgements in studies.items() if name != WITHOUT_RECORDS}
    return [
        *(f"{word} {where}: {_listed(claims)}." for word, where, claims in _agreed(studies)),
        _open(theirs),
        _stood("claims of the papers", theirs),
    ]


def small_print(edition: Sequence[StudyRecords] | Judged) -> str:
    """What the counts rest on, a list: our own claims, those without records, what was changed, what rows are worth.

    Every study counts on its own; claims that need no records stand apart from them.
    """
    studies = judged(edition)
    parts = {name: _apart(judgements) for name, judgements in studies.items()}
    once = parts.pop(WITHOUT_RECORDS, ({}, {}, 0))
    told = [
        _stood("claims of our own", {name: own for name, (_, own, _) in parts.items()}),
        _judged_once(*once),
        _changed(studies),
        *_low_rows(studies),
    ]
    return labels.bullets(filter(None, told))


def _open(theirs: Judged) -> str:
    """How many claims are inconclusive in each study that settles some, and the reason that most of them have."""
    deciding = {name: those for name, those in theirs.items() if settled(each.verdict for each in those.values())[0]}
    left = {name: [each for each in those.values() if each.verdict == INCONCLUSIVE] for name, those in deciding.items()}
    low = f"most rows behind them lie {BELOW}"
    reasons = Counter(low if each.low is Low.MOST else each.why for those in left.values() for each in those)
    if not reasons:
        return ""
    counts = {name: str(len(those)) for name, those in left.items() if those}
    return (
        f"Claims of the papers left open: {labels.by_study(counts)}, most often because {reasons.most_common(1)[0][0]}."
    )


def _stood(of_what: str, parts: Judged) -> str:
    """How many of some claims each study reproduces, and how many it contradicts, in words; "" without any."""
    verdicts = {name: [each.verdict for each in those.values()] for name, those in parts.items() if those}
    if not verdicts:
        return ""
    total = labels.span(map(len, verdicts.values()), str)
    mute = {name for name, found in verdicts.items() if not settled(found)[0]}
    on = labels.listed(f"`{name}`" for name in verdicts if name in mute)
    if len(mute) == len(verdicts):
        return f"None of {total} {of_what} is settled on {on}."
    held, failed = (
        {name: str(found.count(verdict) or "none") for name, found in verdicts.items() if name not in mute}
        for verdict in (REPRODUCED, NOT_REPRODUCED)
    )
    contradicted = labels.by_study(failed) if {*failed.values()} != {"none"} else "none"
    left = any(settled(found)[0] < len(found) for found in verdicts.values())
    return (
        f"Of {total} {of_what}, our runs reproduce {labels.by_study(held)}; they contradict {contradicted}"
        f"{', and leave the others open' * left}.{f' None is settled on {on}.' if mute else ''}"
    )


def _judged_once(theirs: Mapping[str, Judgement], own: Mapping[str, Judgement], withdrawn: int) -> str:
    """How many claims stand that need no records of ours, and how many no records of ours can decide; or ""."""
    verdicts = [each.verdict for each in (*theirs.values(), *own.values())]
    told = [f"{_sentence(_firm(verdicts, 'claims on published numbers or the metrics alone'))}."] if verdicts else []
    if withdrawn:
        told.append(f"Retracted, since our records cannot decide what they say: {labels.counted(withdrawn, 'claim')}.")
    return " ".join(told)


def _where(study: str) -> str:
    return "On published numbers or the metrics alone" if study == WITHOUT_RECORDS else f"On `{study}`"


def _changed(studies: Judged) -> str:
    """How many settled claims, or the rule that settles them, were chosen or changed after a look at results."""
    told = {}
    for name, judgements in studies.items():
        firm = {claim: each for claim, each in judgements.items() if each.settled}
        if count := sum(claim in _EXPLORATORY or each.below_trunk for claim, each in firm.items()):
            told[name] = f"{count} of {len(firm)} settled claims"
    return f"Exploratory (claim or rule changed after a look at the results): {labels.by_study(told)}." if told else ""


def _apart(judgements: Mapping[str, Judgement]) -> tuple[dict[str, Judgement], dict[str, Judgement], int]:
    """The papers' claims that are judged at all, those of our own, and how many are retracted."""
    kept = {name: each for name, each in judgements.items() if each.verdict != RETRACTED}
    own = {name: each for name, each in kept.items() if name in _OWN}
    theirs = {name: each for name, each in kept.items() if name not in _OWN}
    return theirs, own, len(judgements) - len(kept)


def _low_rows(studies: Judged) -> Iterator[str]:
    """In which studies claims are inconclusive, or settled, by rows that training left low; a sentence each."""
    harmed, under = {}, {}
    for name, judgements in studies.items():
        settled = [each for each in judgements.values() if each.settled]
        harmed[name] = sum(each.low is not None for each in judgements.values())
        under[name] = sum(each.below_trunk for each in settled), len(settled)
    if told := {name: labels.counted(count, "claim") for name, count in harmed.items() if count}:
        yield f"Left open because rows behind them lie {BELOW}: {labels.by_study(told)}."
    if told := {name: f"{count} of {settled} settled claims" for name, (count, settled) in under.items() if count}:
        yield (
            f"Behind {labels.by_study(told)}, most rows lie below the untrained trunk, though not below their own "
            "start. The rule as first written would have left these claims open."
        )


def _agreed(judged: Judged) -> Iterator[tuple[str, str, list[Claim]]]:
    """What all main studies agree on: "Reproduced" or "Contradicted", where, and the claims."""
    for word, verdict in {"Reproduced": REPRODUCED, "Contradicted": NOT_REPRODUCED}.items():
        claims, where = _everywhere(judged, verdict)
        if claims:
            yield word, where, claims


def _everywhere(studies: Judged, verdict: str) -> tuple[list[Claim], str]:
    """The claims of the papers about runs to which every main study gives this verdict, and where that is, in words.

    A study that settles nothing, for want of budget, has no say.
    """
    deciding = {name: those for name, those in studies.items() if settled(each.verdict for each in those.values())[0]}
    verdicts = {
        claim: {judgements[claim.id].verdict for judgements in deciding.values() if claim.id in judgements}
        for claim in CLAIMS
        if claim.origin != OURS and claim.needs
    }
    claims = [claim for claim, found in verdicts.items() if found == {verdict}]
    names = [name for name in deciding if name != WITHOUT_RECORDS]
    where = f"on {labels.listed(f'`{name}`' for name in names)}"
    return claims, where


def _listed(claims: Sequence[Claim]) -> str:
    """Claims as they stand in the papers, paper by paper."""
    papers = {claim.paper: [_italic(each) for each in claims if each.paper == claim.paper] for claim in claims}
    return "; ".join(f"{'; '.join(those)} ({PAPERS[paper].label})" for paper, those in papers.items())


def _italic(claim: Claim) -> str:
    return f"*{claim.claim.removesuffix('.')}*"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def verdicts_sentence(judged: Judged) -> str:
    """What became of the claims, in a sentence a study: those of the papers, and apart from them those of our own."""
    sentences = []
    for study, judgements in judged.items():
        *parts, withdrawn = _apart(judgements)
        theirs, own = ([each.verdict for each in part.values()] for part in parts)
        low = from_low_rows(each.below_trunk for each in parts[0].values() if each.settled)
        told = [_firm(theirs, "claims of the papers", low)] if theirs else []
        if own:
            told.append(_of_our_own(own) if theirs else _firm(own, "claims of our own"))
        many = "claim, of any kind, is" if withdrawn == 1 else "claims, of any kind, are"
        also = f"; {withdrawn} more {many} retracted, since our records cannot decide them" if withdrawn else ""
        sentences.append(f"{_where(study)}, {labels.listed(told) or 'no claim is judged'}{also}.")
    return labels.bullets(sentences)


def from_low_rows(settled_low: Iterable[bool]) -> str:
    """An aside, how many settled claims rest on rows of which most lie below the untrained trunk; "" for none.

    >>> from_low_rows([True, True, False]), from_low_rows([False])
    ('; 2 of these 3 from rows below the untrained trunk', '')
    >>> from_low_rows([True, True])
    '; all from rows below the untrained trunk'
    """
    low = list(settled_low)
    count = "all" if all(low) else f"{sum(low)} of these {len(low)}"
    return f"; {count} from rows below the untrained trunk" if any(low) else ""


def _firm(verdicts: Sequence[str], what: str, aside: str = "") -> str:
    """How many of these verdicts are firm, with the counts of each kind in brackets, and an aside behind these.

    >>> _firm(["reproduced", "inconclusive"], "claims of ours"), _firm(["not run"] * 2, "claims of ours")
    ('1 of 2 claims of ours is settled (reproduced)', 'none of the 2 claims of ours is settled')
    """
    number, counts = settled(verdicts)
    if not number:
        return f"none of the {len(verdicts)} {what} is settled"
    return f"{number} of {len(verdicts)} {what} {'is' if number == 1 else 'are'} settled ({counts}{aside})"


def _of_our_own(verdicts: Sequence[str]) -> str:
    """The same of claims of our own, behind those of the papers.

    >>> _of_our_own(["reproduced"]), _of_our_own(["reproduced", "not run"]), _of_our_own(["not run"] * 2)
    ('our own one (reproduced)', '1 of 2 of our own (reproduced)', 'none of our own 2')
    """
    number, counts = settled(verdicts)
    if not number:
        return f"none of our own {len(verdicts)}"
    return f"{'our own one' if len(verdicts) == 1 else f'{number} of {len(verdicts)} of our own'} ({counts})"


def settled(verdicts: Iterable[str]) -> tuple[int, str]:
    """How many of these verdicts are firm, and how many of each kind in words.

    >>> settled(["reproduced", "inconclusive", "not reproduced", "reproduced"]), settled(["not run"])
    ((3, '2 reproduced and 1 not reproduced'), (0, ''))
    >>> settled(["reproduced"] * 4), settled(["not reproduced"])
    ((4, 'all reproduced'), (1, 'not reproduced'))
    """
    found = list(verdicts)
    counts = {verdict: count for verdict in (REPRODUCED, NOT_REPRODUCED) if (count := found.count(verdict))}
    if len(counts) == 1:
        [(verdict, count)] = counts.items()
        return count, verdict if count == 1 else {REPRODUCED: "all reproduced", NOT_REPRODUCED: "none reproduced"}[
            verdict
        ]
    return sum(counts.values()), labels.listed(f"{count} {verdict}" for verdict, count in counts.items())
