"""The report card: what became of every table and figure of the five papers, here."""

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from dmlrc import papers
from dmlrc.records import StudyRecords
from dmlrc.report import editions, prose, publish, published, tables, titles
from dmlrc.report.claims import verdicts
from dmlrc.report.claims.claim import CLAIMS as ALL_CLAIMS
from dmlrc.report.claims.claim import EXHIBITS, PAPER, Exhibit
from dmlrc.report.claims.rule import INCONCLUSIVE, NOT_REPRODUCED, NOT_RUN, REPRODUCED, RETRACTED
from dmlrc.report.claims.verdicts import Judged, judge_all
from dmlrc.report.fehervari2019 import page as fehervari
from dmlrc.report.roth2020 import page as roth
from dmlrc.report.roth2020 import toy
from dmlrc.report.statistics import Estimate

AGREES, PARTLY, DIFFERS, OPEN = "agrees", "partly", "differs", "open"
OTHER_DATA, ABSENT, NO_RESULT = "other data only", "not run", "no result"
OUTCOMES = (AGREES, PARTLY, DIFFERS, OPEN, OTHER_DATA, ABSENT, NO_RESULT)
"""No result: the paper lists or draws something, and measures nothing."""
VERDICTS = (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_RUN)
PAPERS = {paper.id: paper for paper in papers.ALL}
CLAIMS = [claim for claim in ALL_CLAIMS if claim.paper in PAPERS]
"""Of the five papers."""
TOY, TOY_SEEDS = "roth-f6", 10
OF_FEHERVARI = {
    "CUB200 (BN-Inception)": "fehervari-t2",
    "CUB200 (ResNet50)": "fehervari-t2",
    "Cars196 (BN-Inception)": "fehervari-t3",
    "SOP (BN-Inception)": "fehervari-t4",
}
"""Their tables, as `fehervari.by_table` names them -> the exhibit."""


def outcome(given: Counter) -> str:
    """The outcome, one of `OUTCOMES`, to which these counts of verdicts add up.

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


def report_card(edition: Sequence[StudyRecords], judged: Judged | None = None, of: str | None = None) -> pd.DataFrame:
    """A row an exhibit: paper (only `of`), called, chapter, shows, outcome, counts of verdicts, order (as text)."""
    judgements = judge_all(edition, of) if judged is None else judged
    ranked, rows = _orders(edition, of), {}
    for id, exhibit in EXHIBITS.items():
        if exhibit.paper not in PAPERS or of not in (None, exhibit.paper):
            continue
        own = [claim.id for claim in CLAIMS if id in claim.decides and exhibit.has_result and not exhibit.alone]
        given = Counter(those[name].verdict for name in own for those in judgements.values() if name in those)
        given.pop(RETRACTED, None)
        rows[id] = {
            "paper": PAPERS[exhibit.paper].label,
            "called": exhibit.called,
            "chapter": exhibit.chapter,
            "shows": exhibit.shows,
            "outcome": _outcome(id, exhibit, given, edition),
            **{verdict.replace(" ", "_"): given[verdict] for verdict in VERDICTS},
            "order": ranked.get(id, ""),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("id")


def _outcome(id: str, exhibit: Exhibit, given: Counter, edition: Sequence[StudyRecords]) -> str:
    if id == TOY:  # by the sign of the change
        change = toy_change()
        return AGREES if change.low > 0 else OPEN if change.high > 0 else DIFFERS
    if not exhibit.has_result:
        return NO_RESULT
    if given:
        return outcome(given)
    run = any(all(editions.experiment_of(main.name, name) is not None for name in exhibit.needs) for main in edition)
    return OTHER_DATA if run and not exhibit.alone else ABSENT


def toy_change() -> Estimate:
    """The gain in P@1 from the paper's regularisation on the test lines of its toy."""
    return toy.gain_over_partner(toy.recorded_toys(TOY_SEEDS), "regularised")


def _orders(edition: Sequence[StudyRecords], of: str | None) -> dict[str, str]:
    """The rank correlations of our order of losses with that of each table, by the table's id: text, study by study."""
    texts: dict[str, list[str]] = {}
    for (id, study), rhos in _correlations(edition, of).dropna().groupby(["id", "study"], sort=False)["rho"]:
        ends = dict.fromkeys(f"{rho:+.2f}" for rho in (rhos.min(), rhos.max()))
        texts.setdefault(id, []).append(f"{titles.title(study)} {' to '.join(ends)}")
    return {id: ", ".join(own) for id, own in texts.items()}


def _correlations(edition: Sequence[StudyRecords], of: str | None = None) -> pd.DataFrame:
    """The id of a table, a study, and rho, the rank correlation of their methods; one for each column of a table."""
    rows = []
    for study in edition if of in (None, "musgrave") else ():
        for number, part in enumerate(published.musgrave_tables().values(), 3):
            rows.append((f"musgrave-t{number}", study.name, tables.rank_agreement(tables.accuracy(study), part)["rho"]))
    if of in (None, "roth"):
        agreement = roth.agreement(editions.records_around(edition, "roth2020"))
        agreement = agreement[agreement["metric"] == "precision_at_1"]
        rows += [("roth-t2", row.study, row.rho) for row in agreement.itertuples()]
    if of in (None, "fehervari"):
        orders = fehervari.orders(ours := editions.records_around(edition, "fehervari2019"))
        orders = orders[orders["first"].isin(list(ours)) & orders["second"].isin(list(OF_FEHERVARI))]
        rows += [(OF_FEHERVARI[row.second], row.first, row.rho) for row in orders.itertuples()]
    return pd.DataFrame(rows, columns=["id", "study", "rho"])


def publish_card(name: str, frame: pd.DataFrame, caption: str, **given) -> None:
    """Publish `report_card` under a name: the answer beside the id, which leads to the exhibit. given: of `table`."""
    heads = {"outcome": "ours", "extent": "by how much", "shows": "it shows", "called": "in the paper"}
    if frame["paper"].nunique() > 1:
        heads["paper"] = "paper"
    cells = frame.assign(extent=list(map(_measure, frame.itertuples())))[list(heads)].rename(columns=heads)
    links = {id: f"{chapter}.html#{id}" for id, chapter in frame["chapter"].items()}
    publish.table(name, cells.rename_axis("Id"), caption, data=frame, wrap=True, links=links, **given)


def _measure(row: tuple) -> str:
    counts = [(row.reproduced, REPRODUCED), (row.not_reproduced, NOT_REPRODUCED), (row.inconclusive, "open")]
    parts = [", ".join(f"{count} {word}" for count, word in counts if count)]
    if row.Index == TOY:
        change = toy_change()
        parts.append(f"test P@1 {100 * change.value:+.0f} points ({change.n} seeds)")
    if row.order:
        parts.append(f"rank correlation of the order: {row.order}")
    return "; ".join(filter(None, parts)) or "–"


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """The numbers behind the page's text; counts are of the five papers' sentences that need records."""
    judgements = judge_all(edition)
    exhibits = report_card(edition, judgements)
    frame = verdicts.numbers(judgements).drop(index=verdicts.WITHOUT_RECORDS)
    frame = frame[(frame["origin"] == PAPER) & frame["paper"].isin(PAPERS)]
    withdrawn = (frame["verdict"] == RETRACTED).groupby(frame["id"]).all()
    everywhere = (frame["verdict"] == REPRODUCED).groupby(frame["id"], sort=False).all()
    frame = frame[frame["verdict"] != RETRACTED]
    settled = frame[frame["verdict"].isin([REPRODUCED, NOT_REPRODUCED])]
    named: dict[str, float | str] = {
        "sentences": frame["id"].nunique(),
        "retracted": withdrawn.sum() + sum(bool(claim.retracted) for claim in CLAIMS if claim.origin == PAPER),
        "verdicts": len(frame),
        "settled": len(settled),
        "firm": len(settled[(settled["exploratory"] == "") & ~settled["below_trunk"]]),
        "reproduced.everywhere": ", ".join(everywhere.index[everywhere]),
        "claims": len(CLAIMS),
        "not_run": ", ".join(frame.loc[frame["verdict"] == NOT_RUN, "id"].unique()),
        "not_run.count": int((frame["verdict"] == NOT_RUN).sum()),
        **_counts(frame["verdict"]),
    }
    for paper, part in frame.groupby("paper")["verdict"]:
        named |= {f"{paper}.verdicts": len(part)} | {f"{paper}.{key}": count for key, count in _counts(part).items()}
    for study in edition:
        named |= {f"{study.meta['dataset']}.{name}": one.verdict for name, one in judgements[study.name].items()}
    for word in OUTCOMES:
        own = exhibits.index[exhibits["outcome"] == word]
        named |= {f"card.{word}": ", ".join(own), f"card.{word}.count": len(own)}
    rhos = _correlations(edition)
    rhos = rhos[rhos["id"].str.startswith("musgrave")].groupby("study")["rho"]
    for study in edition:
        named |= prose.span(f"{study.meta['dataset']}.rho", rhos.get_group(study.name))
    return named


def _counts(given: pd.Series) -> dict[str, int]:
    """Counts of the verdicts that rest on records: reproduced, not_reproduced and inconclusive."""
    return {name.replace(" ", "_"): int((given == name).sum()) for name in (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE)}
