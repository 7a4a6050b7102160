"""The report card: what became of every table and figure of the five papers, here."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pandas as pd
from markupsafe import Markup

from dmlrc import papers
from dmlrc.records import StudyRecords
from dmlrc.report import editions, published, statistics, tables, titles
from dmlrc.report.claims.rule import INCONCLUSIVE, NOT_REPRODUCED, NOT_RUN, PAPER, REPRODUCED, UNDERESTIMATED, Claim
from dmlrc.report.claims.verdicts import CLAIMS, Judged, judged
from dmlrc.report.fehervari2019 import page as fehervari
from dmlrc.report.roth2020 import page as roth
from dmlrc.report.roth2020 import toy
from dmlrc.report.statistics import Estimate

AGREES, PARTLY, DIFFERS, OPEN = "agrees", "partly", "differs", "open"
OTHER_DATA, ABSENT, NO_RESULT = "other data only", "not run", "no result"
OUTCOMES = (AGREES, PARTLY, DIFFERS, OPEN, OTHER_DATA, ABSENT, NO_RESULT)
"""No result: the paper lists or draws something, and measures nothing."""
TOY_SEEDS = 10


class Exhibit(NamedTuple):
    """A table or figure of a paper.

    id: as in the book, "musgrave-t4"; anchor: where it stands if no exhibit has that id. needs: the experiments without
    which nothing of it is ours; None: it has no result. alone: the paper's numbers stand there alone.
    """

    id: str
    chapter: str
    shows: str
    needs: tuple[str, ...] | None = ()
    anchor: str = ""
    alone: bool = False

    @property
    def paper(self) -> str:
        return self.id.partition("-")[0]

    @property
    def called(self) -> str:
        """What its paper calls it.

        >>> Exhibit("roth-f3", "", "").called, Exhibit("musgrave-search", "", "").called
        ('Fig. 3', 'searches')
        """
        kind, number = re.fullmatch(r"\w+-([a-z]+)(\d*)", self.id).groups()
        return f"{ {'t': 'Table', 'f': 'Fig.'}[kind] } {number}" if number else "searches"


_METRICS, _SEARCH, _RESULTS = "02_which_score_to_trust", "03_a_fair_race", "04_which_loss_wins"
_YEARS, _STRATEGIES, _UNBIASED = "06_claimed_gains", "11_roth2020", "12_fehervari2019"
_CLASSIFIER, _PAIRS = "13_zhai2019", "14_oi2021"

EXHIBITS = (
    Exhibit("musgrave-t1", _RESULTS, "R@1 of untrained trunks", ("trunks",)),
    Exhibit("musgrave-t2", _METRICS, "NMI of trunks with random weights"),
    Exhibit("musgrave-t3", _RESULTS, "the losses on CUB200"),
    Exhibit("musgrave-t4", _RESULTS, "the losses on Cars196"),
    Exhibit("musgrave-t5", _RESULTS, "the losses on SOP"),
    Exhibit("musgrave-t6", _RESULTS, "the losses, their years and kinds", None),
    Exhibit("musgrave-f1", _METRICS, "three toy spaces, scored by every metric"),
    Exhibit("musgrave-f2", _METRICS, "metrics of random embeddings"),
    Exhibit("musgrave-f3", _RESULTS, "MAP@R, joined and one model"),
    Exhibit("musgrave-f4", _YEARS, "accuracy over the years, claimed and measured"),
    Exhibit("musgrave-f5", _YEARS, "gains over the classics, claimed and measured"),
    Exhibit("musgrave-search", _SEARCH, "how fast searches rise"),
    Exhibit("roth-t1", _STRATEGIES, "R@1 of untrained trunks", ("projections",)),
    Exhibit("roth-t2", _STRATEGIES, "R@1 and NMI of every objective", ("roth2020",)),
    Exhibit("roth-f1", _STRATEGIES, "R@1 with and without ρ-regularisation", ("roth2020",)),
    Exhibit("roth-f2", _STRATEGIES, "the influence of the recipe"),
    Exhibit("roth-f3", _STRATEGIES, "ways to draw batches", ("roth2020-samplers",)),
    Exhibit("roth-f4", _STRATEGIES, "how metrics correlate", ("roth2020",)),
    Exhibit("roth-f5", _STRATEGIES, "R@1 against measures of the embedding space", ("roth2020",)),
    Exhibit("roth-f6", _STRATEGIES, "a toy: lines in two dimensions"),
    Exhibit("roth-f7", _STRATEGIES, "singular values with and without ρ-regularisation", ("roth2020",)),
    Exhibit("fehervari-t1", _UNBIASED, "settings of the original papers", None),
    Exhibit("fehervari-t2", _UNBIASED, "the losses on CUB200", ("fehervari2019",)),
    Exhibit("fehervari-t3", _UNBIASED, "the losses on Cars196", ("fehervari2019",)),
    Exhibit("fehervari-t4", _UNBIASED, "the losses on SOP", ("fehervari2019",)),
    Exhibit("fehervari-f1", _UNBIASED, "R@1 against embedding size", ("fehervari2019-dims",)),
    Exhibit("fehervari-f2", _UNBIASED, "R@1 against batch size", ("fehervari2019-batches",)),
    Exhibit("zhai-t1", _CLASSIFIER, "losses on GoogLeNet", ("zhai2019-losses",)),
    Exhibit("zhai-t2", _CLASSIFIER, "losses on BN-Inception", alone=True),
    Exhibit("zhai-t3", _CLASSIFIER, "losses on ResNet50", alone=True),
    Exhibit("zhai-t4", _CLASSIFIER, "images of a class in a batch", ("zhai2019-samples",)),
    Exhibit("zhai-t5", _CLASSIFIER, "floats and bits, clothes and products", ("zhai2019",)),
    Exhibit("zhai-t6", _CLASSIFIER, "floats and bits, cars and birds", ("zhai2019",)),
    Exhibit("zhai-f1", _CLASSIFIER, "the architecture", None),
    Exhibit("zhai-f2", _CLASSIFIER, "R@1 against embedding size, floats and bits", ("zhai2019-dims",)),
    Exhibit("zhai-f3", _CLASSIFIER, "training with and without LayerNorm", ("zhai2019-layer_norm",)),
    Exhibit("zhai-f4", _CLASSIFIER, "a share of the classes in each step", ("zhai2019-shares",)),
    Exhibit("oi-t1", _PAIRS, "two divisions of the classes", ("oi2021", "oi2021-random")),
    Exhibit("oi-f1", _PAIRS, "inner products, two ways to normalise", ("oi2021",)),
    Exhibit("oi-f2", _PAIRS, "mean inner products over training", ("oi2021",)),
    Exhibit("oi-f3", _PAIRS, "inner products before and after training", ("oi2021",)),
    Exhibit("oi-f4", _PAIRS, "R@1, MAP@R and JSD over training", ("oi2021",)),
)
"""Every table and figure of the five papers, and the searches that one of them published."""


def named(source: str) -> set[str]:
    """The tables and figures that a text names, as the ends of ids.

    >>> sorted(named("section 2.1, Tables 1 and 3-5")), sorted(named("abstract; section 4.2, Table 1, Fig. 2"))
    (['t1', 't3', 't4', 't5'], ['f2', 't1'])
    """
    found = set()
    for kind, numbers in re.findall(r"(Tables?|Figs?\.) ([\d, and-]+)", source):
        for low, high in re.findall(r"(\d+)(?:-(\d+))?", numbers):
            found |= {f"{kind[0].lower()}{number}" for number in range(int(low), int(high or low) + 1)}
    return found


def claims_of(exhibit: Exhibit) -> list[Claim]:
    """The paper's claims that can be tested and name this table or figure as their source, or lead to it."""
    end = exhibit.id.removeprefix(f"{exhibit.paper}-")
    return [
        claim
        for claim in CLAIMS
        if claim.paper == exhibit.paper
        and claim.origin == PAPER
        and not claim.retracted
        and (end in named(claim.source) or claim.link == exhibit.id or claim.link.startswith(f"{exhibit.id}-"))
    ]


def outcome(verdicts: Counter) -> str:
    """What verdicts come to.

    >>> outcome(Counter({REPRODUCED: 3, INCONCLUSIVE: 3})), outcome(Counter({REPRODUCED: 3, NOT_REPRODUCED: 1}))
    ('agrees', 'partly')
    >>> outcome(Counter({NOT_REPRODUCED: 1, INCONCLUSIVE: 2})), outcome(Counter({INCONCLUSIVE: 2}))
    ('differs', 'open')
    >>> outcome(Counter({NOT_RUN: 3}))
    'not run'
    """
    held, failed = verdicts[REPRODUCED], verdicts[NOT_REPRODUCED]
    if verdicts.total() == verdicts[NOT_RUN]:
        return ABSENT
    if not held:
        return DIFFERS if failed else OPEN
    return AGREES if not failed and 2 * held >= verdicts.total() - verdicts[NOT_RUN] else PARTLY


def found(edition: Sequence[StudyRecords], judged_claims: Judged | None = None) -> pd.DataFrame:
    """A row an exhibit: id, paper, called, chapter, outcome, a count of each verdict, order (ρ as text)."""
    judgements = judged(edition) if judged_claims is None else judged_claims
    ranked = orders(edition)
    rows = []
    for each in EXHIBITS:
        ids = [claim.id for claim in claims_of(each)] if each.needs is not None and not each.alone else []
        verdicts = Counter(those[id].verdict for id in ids for those in judgements.values() if id in those)
        rows.append(
            {
                "id": each.id,
                "paper": PAPERS[each.paper],
                "called": each.called,
                "chapter": each.chapter,
                "shows": each.shows,
                "outcome": _outcome(each, verdicts, edition),
                **{verdict.replace(" ", "_"): verdicts[verdict] for verdict in VERDICTS},
                "order": ranked.get(each.id, ""),
            }
        )
    return pd.DataFrame(rows).set_index("id")


PAPERS = {paper.id: paper.label for paper in papers.ALL}
VERDICTS = (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_RUN)


def _outcome(exhibit: Exhibit, verdicts: Counter, edition: Sequence[StudyRecords]) -> str:
    if exhibit.needs is None:
        return NO_RESULT
    if exhibit.id == "roth-f6":
        change = toy_change()
        return {(True, True): AGREES, (False, False): DIFFERS}.get((change.low > 0, change.high > 0), OPEN)
    if verdicts:
        return outcome(verdicts)
    run = any(all(editions.experiment_of(main.name, name) is not None for name in exhibit.needs) for main in edition)
    return OTHER_DATA if run and not exhibit.alone else ABSENT


def toy_change() -> Estimate:
    """How much the paper's regularisation raises P@1 of the test lines of its toy."""
    return toy.change(toy.recorded(TOY_SEEDS), "regularised", "test_p1")


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
    of_dataset = dict(zip(published.DATASETS, (3, 4, 5), strict=True))
    for each in edition:
        ours = tables.deciding(tables.accuracy(each)).set_index("method")["mean"].drop("pretrained", errors="ignore")
        for dataset, part in results.groupby("dataset", sort=False):
            theirs = part.set_index("method")["mean"].drop("pretrained", errors="ignore")
            yield f"musgrave-t{of_dataset[dataset]}", each.name, statistics.rank_test(ours, theirs)["rho"]
    agreement = roth.agreement(_around(edition, "roth2020"))
    for row in agreement[agreement["metric"] == "precision_at_1"].itertuples():
        yield "roth-t2", row.study, row.rho
    of_fehervari = {"CUB200": 2, "Cars196": 3, "SOP": 4}
    for row in fehervari.orders(_around(edition, "fehervari2019")).itertuples():
        dataset = row.second.partition(" (")[0]
        if row.first in {each.name for each in edition} and dataset in of_fehervari:
            yield f"fehervari-t{of_fehervari[dataset]}", row.first, row.rho


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
    cells = pd.DataFrame(
        {
            "paper": frame["paper"],
            "there": frame["called"],
            "it shows": frame["shows"],
            "ours": frame["outcome"],
            "by how much": [_measure(row) for row in frame.itertuples()],
            "here": [
                Markup('<a href="{}.html#{}">{}</a>').format(row.chapter, row.Index, row.Index)
                for row in frame.itertuples()
            ],
        },
        dtype=object,
    )
    return cells.rename_axis("Id")


def _measure(row: NamedTuple) -> str:
    counts = [(row.reproduced, REPRODUCED), (row.not_reproduced, NOT_REPRODUCED), (row.inconclusive, "open")]
    parts = [", ".join(f"{count} {word}" for count, word in counts if count)]
    if row.Index == "roth-f6":
        change = toy_change()
        parts.append(f"test P@1 {100 * change.value:+.0f} points ({change.n} seeds)")
    if row.order:
        parts.append(f"ρ of the order: {row.order}")
    return "; ".join(filter(None, parts)) or "–"


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """What the text of the page rests on; verdicts are those on sentences of the papers that need records."""
    judgements = judged(edition)
    exhibits, ours = found(edition, judgements), [each.name for each in edition]
    theirs = [claim for claim in CLAIMS if claim.origin == PAPER and claim.needs]
    verdicts = [(claim, judgements[study][claim.id]) for claim in theirs for study in ours]
    settled = [(claim, each) for claim, each in verdicts if each.settled]
    firm = [each for claim, each in settled if not claim.exploratory and not each.below_trunk]
    tally = {
        verdict.replace(" ", "_"): sum(each.verdict == verdict for _, each in verdicts)
        for verdict in (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE)
    }
    named: dict[str, float | str] = {"sentences": len(theirs), "verdicts": len(verdicts), **tally}
    named |= {"settled": len(settled), "firm": len(firm), "claims": len(CLAIMS)}
    named |= {"retracted": sum(bool(claim.retracted) for claim in CLAIMS)}
    named["spared"] = sum(each.why == UNDERESTIMATED for _, each in verdicts)
    for paper in PAPERS:
        of_paper = [each.verdict for claim, each in verdicts if claim.paper == paper]
        named |= {f"{paper}.verdicts": len(of_paper), f"{paper}.reproduced": of_paper.count(REPRODUCED)}
        named[f"{paper}.not_reproduced"] = of_paper.count(NOT_REPRODUCED)
    for verdict in (REPRODUCED, NOT_REPRODUCED):
        same = [claim.id for claim in theirs if all(judgements[study][claim.id].verdict == verdict for study in ours)]
        named[f"{verdict.replace(' ', '_')}.everywhere"] = ", ".join(same)
    for word in OUTCOMES:
        named[f"card.{word}"] = ", ".join(exhibits.index[exhibits["outcome"] == word])
        named[f"card.{word}.count"] = int((exhibits["outcome"] == word).sum())
    rhos = pd.DataFrame(_correlations(edition), columns=["id", "study", "rho"])
    for each in edition:
        own = rhos.loc[rhos["id"].str.startswith("musgrave") & (rhos["study"] == each.name), "rho"]
        named |= {f"{each.meta['dataset']}.rho.low": own.min(), f"{each.meta['dataset']}.rho.high": own.max()}
    return named
