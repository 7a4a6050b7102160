"""The answer in a few sentences, and the numbers behind the first page's pictures."""

from collections.abc import Mapping, Sequence

import pandas as pd

from dmlrc.papers import after2019
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import editions, labels, published, tables
from dmlrc.report.claims.page import SECTIONS, signed
from dmlrc.report.claims.rule import VERDICTS, Judgement, below_untrained, lower_than_untrained
from dmlrc.report.claims.verdicts import Judged, of_section
from dmlrc.report.decides import measures as parts
from dmlrc.report.decides import page as decides
from dmlrc.report.hypotheses.measures import LITTLE, gain
from dmlrc.report.labels import listed
from dmlrc.report.rates import page as rates
from dmlrc.report.significance import measures as significance
from dmlrc.report.statistics import Estimate

P1 = ("concatenated", "precision_at_1")
CONTRASTIVE = tables.CLASSICS[0]
NEWER = {method.name: method for method in after2019.METHODS}


# The answer


def answer(edition: Sequence[StudyRecords]) -> str:
    """What the book finds: a few words, then what was claimed, what is measured, and what decides.

    From the studies of full budget, where there are any; without one the few words are that it cannot be told yet.
    """
    full = _full(edition)
    edition = full or edition
    theirs = published.results()
    on_each = [theirs[theirs["dataset"] == name] for name in published.DATASETS]
    paper = [
        labels.apart(tables.improvement(frame, classic)["concatenated"] for frame in on_each)
        for classic in tables.CLASSICS
    ]
    gains = {each.name: found for each in edition if (found := _gains(each, edition))}
    claimed = tables.claimed_improvement(published.claims(), CONTRASTIVE).groupby("dataset")["gain"].mean()
    frozen = all(each.meta["protocol"]["frozen_trunk"] for each in edition)
    return " ".join(
        [
            _in_a_word([max(each, key=lambda gain: gain.value) for each in gains.values()] if full else []),
            "From 2017 to 2019, papers reported a P@1 (how often the nearest neighbour is of the right class) on "
            f"average {labels.apart(claimed)} that of the contrastive loss of 2006, on {listed(published.DATASETS)}.",
            "When Musgrave and colleagues tuned all alike there in 2020 (the *Reality Check*), the newer losses came "
            f"out on average {paper[0]} it and {paper[1]} the triplet loss, also of 2006{_in_our_runs(gains, frozen)}.",
            mostly_below(edition),
            leads(edition),
        ]
    )


def _in_our_runs(gains: Mapping[str, Sequence[Estimate]], frozen: bool) -> str:
    """How the newer losses came out in ours, as the end of a sentence; "" where nothing is known. gains: `_gains`."""
    if not gains:
        return ""
    contrastive, triplet = (labels.apart([each[place].value for each in gains.values()], 1) for place in (0, 1))
    return (
        f"; in our runs{', which train only a linear layer on fixed features,' * frozen} {contrastive} the contrastive "
        f"loss and {triplet} the triplet loss on {labels.listed(f'`{name}`' for name in gains)}"
    )


def mostly_below(edition: Sequence[StudyRecords]) -> str:
    """Where most methods end below the untrained trunk, in a sentence; "" where nowhere."""
    counts = {each.name: below_untrained(each) for each in edition}
    told = {name: f"{under} of {rows} losses" for name, (_, under, rows) in counts.items() if 2 * under > rows}
    return f"Training leaves {labels.by_study(told)} below the untrained trunk." if told else ""


def _full(edition: Sequence[StudyRecords]) -> list[StudyRecords]:
    return [each for each in edition if each.meta["budget"]["name"] == "full"]


def _gains(study: StudyRecords, edition: Sequence[StudyRecords]) -> list[Estimate]:
    """What the newer losses gain on average in P@1 over each of the two of 2006; none where one of these lacks."""
    compared = significance.compare(study, edition, "precision_at_1")
    newer = [name for name in compared.methods if name not in tables.CLASSICS]
    if not newer or not set(tables.CLASSICS) <= set(compared.methods):
        return []
    return [gain(compared, newer, classic) for classic in tables.CLASSICS]


def _in_a_word(gains: Sequence[Estimate]) -> str:
    """The answer to the title. gains: of the newer losses in P@1 over the weaker of the two of 2006, a study each.

    >>> small, wide, large = map(Estimate.around, (0.01, 0.04, 0.2), (0.02, 0.02, 0.1), (3, 3, 3))
    >>> _in_a_word([small, small]), _in_a_word([small, wide])
    ('**Hardly, once all are tuned alike.**', '**A little at most, once all are tuned alike.**')
    >>> _in_a_word([small, large])
    '**On some data, once all are tuned alike.**'
    """
    if not gains:
        return "**That cannot be told yet.**"
    if all(gain.low > LITTLE for gain in gains):
        return "**Yes, even when all are tuned alike.**"
    if any(gain.value > LITTLE for gain in gains):
        return "**On some data, once all are tuned alike.**"
    surely = all(gain.high < LITTLE for gain in gains)
    return f"**{'Hardly' if surely else 'A little at most'}, once all are tuned alike.**"


def leads(edition: Sequence[StudyRecords]) -> str:
    """Why no loss can be called the best, in a sentence or two: what a rate changes, or who ties with the first.

    By test scores where a table was made at another rate too, else by validation scores where there is a grid.
    """
    at_rates = {each.name: found for each in edition if (found := parts.at_rates(each)) is not None}
    if any(each.moved(parts.TOO_HIGH)[0] for each in at_rates.values() if parts.TOO_HIGH in each.made):
        return decides.too_high_in_short(at_rates)
    changes = rates.between(edition)
    turned = {title: change for title, change in changes.items() if change.pairs > change.lucky.high}
    if turned:
        others = labels.listed(title for title in changes if title not in turned)
        return (
            "The learning rate alone reorders losses (on validation classes, each trained once at each rate): "
            f"{rates.turned_sentence(turned)}." + f" On {others} another seed alone may swap as many." * bool(others)
        )
    sets = {each.name: best_set(each) for each in edition}
    alone = [
        f"{labels.prose(labels.method_label(best[0]))} leads alone on `{name}`"
        for name, (best, of) in sets.items()
        if of > len(best) == 1
    ]
    groups = [
        f"{len(best)} of {of} methods share the first place on `{name}`"
        for name, (best, of) in sets.items()
        if len(best) > 1
    ]
    if groups:
        rest = f"; {listed(alone)}" * bool(alone)
        return f"There is a leading group rather than a best loss: {listed(groups)}{rest}."
    return f"{listed(alone)}." if alone else "Nothing can be ranked yet."


def best_set(study: StudyRecords) -> tuple[list[str], int]:
    """The methods that cannot be told from the best in concatenated MAP@R, the best first; and how many compete."""
    frame = tables.deciding(tables.accuracy(study))
    frame = frame[frame["method"] != PRETRAINED].assign(mark=tables.marks(frame)).sort_values("mean", ascending=False)
    return list(frame["method"][frame["mark"] != ""]), len(frame)


# The pictures


def measured(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """Concatenated P@1 of every method, in the paper's tables and in ours.

    Columns: where (a data set of the paper, or a study), by ("paper" or "ours"), method, label, year, mean, ci95. The
    losses after 2019 are among ours where they were run.
    """
    theirs = published.results()
    parts = [_points(theirs[theirs["dataset"] == name], name, "paper") for name in published.DATASETS]
    for each in edition:
        parts.append(_points(tables.accuracy(each), each.name, "ours"))
        if (after := editions.experiment_of(each.name, "after2019")) is not None:
            newer = tables.accuracy(after)
            parts.append(_points(newer[newer["method"].isin(NEWER)], each.name, "ours", NEWER))
    return pd.concat(parts, ignore_index=True)


def _points(frame: pd.DataFrame, where: str, by: str, methods: tables.Methods = tables.METHODS) -> pd.DataFrame:
    setting, metric = P1
    rows = frame[(frame["setting"] == setting) & (frame["metric"] == metric) & frame["method"].isin(methods)]
    known = [methods[name] for name in rows["method"]]
    return pd.DataFrame(
        {
            "where": where,
            "by": by,
            "method": [method.name for method in known],
            "label": [method.label for method in known],
            "year": [method.year for method in known],
            "mean": rows["mean"].to_numpy(),
            "ci95": rows["ci95"].to_numpy(),
        }
    )


def squares(judged: Judged) -> pd.DataFrame:
    """A square a claim: paper, study, claim, verdict, low (`Judgement.from_low_rows`), tip. Verdicts stand together."""
    rows = []
    for section, title in SECTIONS.items():
        for study, judgements in judged.items():
            claims = [claim for claim in of_section(section) if claim.id in judgements]
            for claim in sorted(claims, key=lambda claim: _place(judgements[claim.id])):
                verdict = judgements[claim.id]
                tip = f"{claim.claim} – {signed(verdict)}{f' ({verdict.why})' if verdict.why else ''}"
                rows.append((title, study, claim.id, verdict.verdict, verdict.from_low_rows, tip))
    return pd.DataFrame(rows, columns=["paper", "study", "claim", "verdict", "low", "tip"])


def _place(judgement: Judgement) -> tuple[int, bool]:
    return VERDICTS.index(judgement.verdict), judgement.from_low_rows


# What it does not say


def limits(edition: Sequence[StudyRecords]) -> str:
    """What the book cannot say yet, as Markdown bullets."""
    frozen = [each.name for each in edition if each.meta["protocol"]["frozen_trunk"]]
    data = {labels.dataset(each) for each in edition}
    bullets = [
        f"**Frozen trunk.** On {listed([f'`{name}`' for name in frozen])} only a linear embedder was trained, on fixed "
        "ImageNet features. Losses may rank otherwise when the whole network is fine-tuned, as it was in the papers; "
        "{doc}`18_how_much_of_the_network_trains` has what deeper training changes here." * bool(frozen),
        _below(edition),
        f"**Few data sets.** There {'are' if len(data) > 1 else 'is'} {labels.counted(len(data), 'data set')} here. A "
        "ranking on one is no ranking on the next.",
    ]
    return "\n".join(f"- {bullet}" for bullet in bullets if bullet)


def _below(edition: Sequence[StudyRecords]) -> str:
    """How many methods lie below the trunk in P@1, and how many below their start; "" where none is below the trunk."""
    counts = {each.name: below_untrained(each) for each in edition}
    trunk = {name: f"{under} of {rows} methods" for name, (_, under, rows) in counts.items() if under}
    if not trunk:
        return ""
    return (
        f"**Below the untrained trunk.** After training {labels.by_study(trunk)} have a lower P@1 than the features "
        f"of the trunk, reduced to as many dimensions by a PCA of the test images. {_below_start(edition)}"
    )


def _below_start(edition: Sequence[StudyRecords]) -> str:
    """How many methods end below where their training began, models alone and joined ones apart."""
    lower = {each.name: lower_than_untrained(each)["start"] for each in edition}
    told = {}
    for setting, which in (("separated", "as single models"), ("concatenated", "joined")):
        starts = {name: found[found.index.isin([setting], level="setting")] for name, found in lower.items()}
        low = {name: f"{found.sum()} of {len(found)}" for name, found in starts.items() if found.any()}
        if low:
            told[which] = f"{labels.by_study(low)} {which}"
    if not told:
        return "None of them is below an untrained linear layer of its own size, where training begins."
    none = ", and none joined" * ("joined" not in told)
    return (
        f"Below an untrained linear layer of their own size, where training begins, are {labels.listed(told.values())}"
        f"{none}: a ranking of these says which loss did the least harm."
    )
