"""The report card: what became of every table and figure of the five papers, here."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd
from markupsafe import Markup

from dmlrc.records import StudyRecords
from dmlrc.report import editions, published, statistics, tables, titles
from dmlrc.report.claims import verdicts
from dmlrc.report.claims.claim import CLAIMS, PAPER
from dmlrc.report.claims.exhibits import EXHIBITS, Exhibit
from dmlrc.report.claims.page import PAPERS
from dmlrc.report.claims.rule import INCONCLUSIVE, NOT_REPRODUCED, NOT_RUN, REPRODUCED, UNDERESTIMATED
from dmlrc.report.claims.verdicts import Judged, judged
from dmlrc.report.fehervari2019 import page as fehervari
from dmlrc.report.roth2020 import page as roth
from dmlrc.report.roth2020 import toy
from dmlrc.report.statistics import Estimate

AGREES, PARTLY, DIFFERS, OPEN = "agrees", "partly", "differs", "open"
OTHER_DATA, ABSENT, NO_RESULT = "other data only", "not run", "no result"
OUTCOMES = (AGREES, PARTLY, DIFFERS, OPEN, OTHER_DATA, ABSENT, NO_RESULT)
"""No result: the paper lists or draws something, and measures nothing."""
VERDICTS = (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_RUN)
TOY, TOY_SEEDS = "roth-f6", 10


def outcome(given: Counter) -> str:
    """What verdicts come to.

    >>> outcome(Counter({REPRODUCED: 3, INCONCLUSIVE: 3})), outcome(Counter({REPRODUCED: 3, NOT_REPRODUCED: 1}))
    ('agrees', 'partly')
    >>> outcome(Counter({NOT_REPRODUCED: 1, INCONCLUSIVE: 2})), outcome(Counter({INCONCLUSIVE: 2}))
    ('differs', 'open')
    >>> outcome(Counter({NOT_RUN: 3}))
    'not run'
    """
    held, failed = given[REPRODUCED], given[NOT_REPRODUCED]
    if given.total() == given[NOT_RUN]:
        return ABSENT
    if not held:
        return DIFFERS if failed else OPEN
    return AGREES if not failed and 2 * held >= given.total() - given[NOT_RUN] else PARTLY


def found(edition: Sequence[StudyRecords], judged_claims: Judged | None = None) -> pd.DataFrame:
    """A row an exhibit: paper, called, chapter, shows, outcome, a count of each verdict, order (ρ as text)."""
    judgements = judged(edition) if judged_claims is None else judged_claims
    ranked = orders(edition)
    rows = {}
    for id, each in EXHIBITS.items():
        if each.paper not in PAPERS:
            continue
        own = [claim.id for claim in CLAIMS if id in claim.decides and each.has_result and not each.alone]
        given = Counter(those[name].verdict for name in own for those in judgements.values() if name in those)
        rows[id] = {
            "paper": PAPERS[each.paper].label,
            "called": each.called,
            "chapter": each.chapter,
            "shows": each.shows,
            "outcome": of_toy(toy_change()) if id == TOY else _outcome(each, given, edition),
            **{verdict.replace(" ", "_"): given[verdict] for verdict in VERDICTS},
            "order": ranked.get(id, ""),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("id")


def _outcome(exhibit: Exhibit, given: Counter, edition: Sequence[StudyRecords]) -> str:
    if not exhibit.has_result:
        return NO_RESULT
    if given:
        return outcome(given)
    run = any(all(editions.experiment_of(main.name, name) is not None for name in exhibit.needs) for main in edition)
    return OTHER_DATA if run and not exhibit.alone else ABSENT


def toy_change() -> Estimate:
    """How much the paper's regularisation raises P@1 of the test lines of its toy."""
    return toy.change(toy.recorded(TOY_SEEDS), "regularised", "test_p1")


def of_toy(change: Estimate) -> str:
    """The outcome by the sign of `toy_change`."""
    return {(True, True): AGREES, (False, False): DIFFERS}.get((change.low > 0, change.high > 0), OPEN)


def orders(edition: Sequence[StudyRecords]) -> dict[str, str]:
    """Of each table that ranks losses: the rank correlations of our order with its own, study by study, as text."""
    names = [each.name for each in edition]
    result: dict[str, dict[str, list[float]]] = {}
    for id, study, rho in _correlations(edition):
        if not math.isnan(rho):
            result.setdefault(id, {name: [] for name in names})[study].append(rho)
    return {
        id: ", ".join(f"{titles.title(study)} {_range(values)}" for study, values in by_study.items() if values)
        for id, by_study in result.items()
    }


def _correlations(edition: Sequence[StudyRecords]) -> Iterator[tuple[str, str, float]]:
    """The id of a table, a study, and the rank correlation of their methods; a table of several columns has several."""
    results = published.results()
    results = results[(results["setting"] == "concatenated") & (results["metric"] == "map_at_r")]
    of_dataset = dict(zip(published.DATASETS, ("musgrave-t3", "musgrave-t4", "musgrave-t5"), strict=True))
    for each in edition:
        ours = tables.deciding(tables.accuracy(each)).set_index("method")["mean"].drop("pretrained", errors="ignore")
        for dataset, part in results.groupby("dataset", sort=False):
            theirs = part.set_index("method")["mean"].drop("pretrained", errors="ignore")
            yield of_dataset[dataset], each.name, statistics.rank_test(ours, theirs)["rho"]
    agreement = roth.agreement(_around(edition, "roth2020"))
    for row in agreement[agreement["metric"] == "precision_at_1"].itertuples():
        yield "roth-t2", row.study, row.rho
    for row in fehervari.orders(_around(edition, "fehervari2019")).itertuples():
        if row.first in {each.name for each in edition} and row.second in OF_FEHERVARI:
            yield OF_FEHERVARI[row.second], row.first, row.rho


PAPER_OF = {id: each.paper for id, each in EXHIBITS.items()}
OF_FEHERVARI = {
    "CUB200 (BN-Inception)": "fehervari-t2",
    "CUB200 (ResNet50)": "fehervari-t2",
    "Cars196 (BN-Inception)": "fehervari-t3",
    "SOP (BN-Inception)": "fehervari-t4",
}
"""Their tables, as `fehervari.places` names them -> the exhibit."""


def _around(edition: Sequence[StudyRecords], experiment: str) -> Mapping[str, StudyRecords | None]:
    return {each.name: editions.experiment_of(each.name, experiment) for each in edition}


def _range(values: Sequence[float]) -> str:
    """
    >>> _range([0.5]), _range([0.2, -0.1])
    ('+0.50', '-0.10 to +0.20')
    """
    low, high = f"{min(values):+.2f}", f"{max(values):+.2f}"
    return low if low == high else f"{low} to {high}"


def card(frame: pd.DataFrame) -> pd.DataFrame:
    """The cells of the report card; frame: `found`."""
    link = Markup('<a href="{}.html#{}">{}</a>')
    rows = [
        {
            "Id": row.Index,
            "paper": row.paper,
            "there": row.called,
            "it shows": row.shows,
            "ours": row.outcome,
            "by how much": _measure(row),
            "here": link.format(row.chapter, row.Index, row.Index),
        }
        for row in frame.itertuples()
    ]
    return pd.DataFrame(rows, dtype=object).set_index("Id")


def _measure(row: tuple) -> str:
    counts = [(row.reproduced, REPRODUCED), (row.not_reproduced, NOT_REPRODUCED), (row.inconclusive, "open")]
    parts = [", ".join(f"{count} {word}" for count, word in counts if count)]
    if row.Index == TOY:
        change = toy_change()
        parts.append(f"test P@1 {100 * change.value:+.0f} points ({change.n} seeds)")
    if row.order:
        parts.append(f"ρ of the order: {row.order}")
    return "; ".join(filter(None, parts)) or "–"


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """What the text of the page rests on; verdicts are those on sentences of the papers that need records."""
    judgements = judged(edition)
    exhibits = found(edition, judgements)
    frame = verdicts.numbers(judgements).drop(index=verdicts.WITHOUT_RECORDS)
    frame = frame[frame["origin"] == PAPER]
    settled = frame[frame["verdict"].isin([REPRODUCED, NOT_REPRODUCED])]
    everywhere = (frame["verdict"] == REPRODUCED).groupby(frame["id"], sort=False).all()
    named: dict[str, float | str] = {
        "sentences": frame["id"].nunique(),
        "retracted": sum(bool(claim.retracted) for claim in CLAIMS if claim.origin == PAPER),
        "verdicts": len(frame),
        "settled": len(settled),
        "firm": len(settled[(settled["exploratory"] == "") & ~settled["below_trunk"]]),
        "spared": int((frame["why"] == UNDERESTIMATED).sum()),
        "reproduced.everywhere": ", ".join(everywhere.index[everywhere]),
        "claims": len(CLAIMS),
        "not_run": ", ".join(frame.loc[frame["verdict"] == NOT_RUN, "id"].unique()),
        "not_run.count": int((frame["verdict"] == NOT_RUN).sum()),
        **_counts(frame["verdict"]),
    }
    for paper, part in frame.groupby("paper")["verdict"]:
        named |= {f"{paper}.verdicts": len(part)} | {f"{paper}.{key}": count for key, count in _counts(part).items()}
    for word in OUTCOMES:
        own = exhibits.index[exhibits["outcome"] == word]
        named |= {f"card.{word}": ", ".join(own), f"card.{word}.count": len(own)}
    rhos = pd.DataFrame(_correlations(edition), columns=["id", "study", "rho"])
    for each in edition:
        own = rhos.loc[(rhos["id"].map(PAPER_OF) == "musgrave") & (rhos["study"] == each.name), "rho"]
        named |= {f"{each.meta['dataset']}.rho.low": own.min(), f"{each.meta['dataset']}.rho.high": own.max()}
    return named


def _counts(given: pd.Series) -> dict[str, int]:
    """How often each verdict was given that has a claim's records."""
    return {each.replace(" ", "_"): int((given == each).sum()) for each in (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE)}
