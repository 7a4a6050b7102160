"""The losses that other papers train with fixed settings: their rows in the tables around every study, as cells, and
the ways to fill a batch."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from markupsafe import Markup

from dmlrc import losses, papers, studies
from dmlrc.data import batches
from dmlrc.methods import Method
from dmlrc.papers import fehervari2019, roth2020
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import common, editions, labels, statistics, tables, titles
from dmlrc.report.common import ByStudy
from dmlrc.report.fehervari2019 import page as fehervari
from dmlrc.report.method.notes import ADDRESSES, OTHERS, SHOWN, read_notes
from dmlrc.report.results_table import LIFT, results_table
from dmlrc.report.roth2020 import page as roth
from dmlrc.report.zhai2019 import page as zhai
from dmlrc.studies import adapted

Found = Mapping[str, ByStudy]
"""The records of `TABLES`: experiment -> study -> its records."""
DEGREES = {"arcface": "margin", **dict.fromkeys(("angular", "angular_roth", "angular_fehervari"), "alpha")}
"""The hyperparameters that are angles."""


@dataclass(frozen=True)
class Table:
    """A table of another paper's losses. experiment: around a study. methods: its rows. label: a row as printed.

    means: its R@1 from records, indexed by method: mean, ci95, n. The untrained trunk may be among them.
    """

    experiment: str
    paper: str
    methods: tuple[Method, ...]
    label: Callable[[str], str]
    means: Callable[[StudyRecords], pd.DataFrame]

    def links(self) -> dict[str, str]:
        """The link of each row of the table, by its label; for the `links` of `publish.table`."""
        return {self.label(method.name): ADDRESSES[method.loss] for method in self.methods}


def _means(rows: Callable[[StudyRecords], pd.DataFrame]) -> Callable[[StudyRecords], pd.DataFrame]:
    return lambda records: fehervari.of_metric(rows(records), "precision_at_1")


ROTH = Table("roth2020", "roth2020", roth2020.METHODS, roth.roth_label, _means(roth.moments))
FEHERVARI = Table(
    "fehervari2019", "fehervari2019", fehervari2019.METHODS, fehervari.fehervari_label, _means(fehervari.headline)
)
ZHAI = Table("zhai2019/losses", "zhai2019", adapted.ONE_PIPELINE, zhai.zhai_label, _means(zhai.losses))
TABLES = (ROTH, FEHERVARI, ZHAI)


@dataclass(frozen=True)
class SamplerNote:
    """Markdown; draws: what a batch holds, source: who draws so. code: names in `dmlrc.data.batches` that are shown."""

    label: str
    idea: str
    source: str
    draws: str
    ours: str
    code: tuple[str, ...]


SAMPLERS = read_notes("samplers.toml", SamplerNote)
"""By their names in `dmlrc.data.batches.SAMPLERS`, in that order."""


def load_tables(edition: Sequence[StudyRecords]) -> dict[str, ByStudy]:
    """The records of `TABLES` around the studies of an edition."""
    return {table.experiment: editions.records_around(edition, table.experiment) for table in TABLES}


def section_rows(section: str) -> list[tuple[Table, Method]]:
    """The rows of all tables that are of a section's losses, with their tables."""
    return [(table, method) for table in TABLES for method in table.methods if method.loss in OTHERS[section].losses]


def searched_too() -> list[tuple[Table, Method]]:
    """The rows whose losses have pages of their own, since they are searched too."""
    own = {method.loss for method in SHOWN.values()}
    return [(table, method) for table in TABLES for method in table.methods if method.loss in own]


def searched_links() -> dict[str, str]:
    """The links of the rows of `searched_too`, by their labels."""
    return {row_label(table, method): ADDRESSES[method.loss] for table, method in searched_too()}


def sized_links(names: Iterable[str]) -> dict[str, str]:
    """The links of the rows of Zhai and Wu's tables, whose names may end in the size of an embedding.

    >>> sized_links(["NormSoftmax, 512 d", "Npairs, 64 d", "LMCL*, 2048 d", "HTL, 512 d"])["Npairs, 64 d"]
    '18_losses_of_the_other_papers.html#loss-n-pairs'
    """
    known = ZHAI.links() | {zhai.zhai_label("lmcl"): ADDRESSES["cosface"]}
    return {name: known[loss] for name in names if (loss := name.partition(", ")[0]) in known}


def row_label(table: Table, method: Method) -> str:
    """A row with its paper."""
    return f"{table.label(method.name)} ({titles.paper(table.paper)})"


def loss_source(section: str) -> str:
    """The code of its losses, each class behind those that it is made from."""
    own = [losses.REGISTRY[name] for name in OTHERS[section].losses]
    classes = [cls for cls in own for cls in reversed(cls.__mro__) if cls.__module__.startswith("dmlrc.losses")]
    return "\n\n".join(inspect.getsource(part).rstrip() for part in dict.fromkeys(classes))


def sampler_description(name: str) -> str:
    """A sampler in MyST: what it draws, who draws so, and how ours differs."""
    sampler = SAMPLERS[name]
    return f"{sampler.draws}\n\nSource: {sampler.source}.\n\n**How ours differs from it.** {sampler.ours}"


def sampler_source(name: str) -> str:
    """The code of a sampler, what it is made from first."""
    return "\n\n".join(inspect.getsource(getattr(batches, part)).rstrip() for part in SAMPLERS[name].code)


def _settings(method: Method) -> str:
    """The fixed settings of a row, in words.

    >>> _settings(Method("a", "triplet", settings={"margin": 0.2, "loss_weights_lr": 5e-4}))
    "margin 0.2, rate of the loss's weights 5·10⁻⁴"
    >>> _settings(Method("a", "arcface", settings={"margin": 28.65}))
    'margin 28.65°'
    """
    angle = DEGREES.get(method.loss)
    texts = {name: f"{labels.parameter(name)} {labels.number(value)}" for name, value in method.settings.items()}
    return ", ".join(text + "°" * (name == angle) for name, text in texts.items()) or "none"


def system_cells() -> pd.DataFrame:
    """`tables.systems` as cells: a row a paper and method, whose loss leads to where it is explained."""
    named = {method.loss: method.label for method in SHOWN.values()}
    named |= {loss: note.label for note in OTHERS.values() for loss in note.losses}
    table = tables.systems()
    links = [Markup('<a href="{}">{}</a>').format(ADDRESSES[loss], named[loss]) for loss in table["loss"]]
    own = [_settings(method) for paper in papers.ALL[1:] for method in paper.methods]  # in the order of the table
    texts = {"paper": titles.paper, "sampler": lambda name: SAMPLERS[name].label, "year": str}
    cells = table.astype(object).assign(**{name: table[name].map(text) for name, text in texts.items()})
    cells = cells.assign(loss=pd.Series(links, dtype=object), settings=own)
    return cells.rename(columns={"sampler": "filled"}).set_index(["paper", "method"])


def row_cells(those: Sequence[tuple[Table, Method]], recorded: Found) -> pd.DataFrame:
    """Rows of tables as cells: our R@1 with its ranks around each study that was run, settings and batch of the paper.

    Last, what the untrained trunk has in each paper's pipeline, and how far training lifts all rows of its table.
    """
    rows = []
    tables_of = {table.paper: table for table, _ in those}
    means = {
        (paper, study): table.means(records)
        for paper, table in tables_of.items()
        for study, records in recorded[table.experiment].items()
    }
    placed = {key: _standing(frame, roth.REGULARISED) for key, frame in means.items()}
    for table, method in those:
        row, ours = {"row": row_label(table, method)}, recorded[table.experiment]
        for study, records in ours.items():
            state = common.absence(records, method.name)
            score = {"text": state} if state else placed[table.paper, study].loc[method.name].to_dict()
            rows.append(row | {"column": study} | score)
        rows.append(row | {"column": "batch", "text": _batches(method, table.paper, ours)})
        rows.append(row | {"column": "fixed settings", "text": _settings(method)})
    for table in tables_of.values():
        row = {"row": f"{labels.UNTRAINED} ({titles.paper(table.paper)})"}
        for study in recorded[table.experiment]:
            rows.append(row | {"column": study, "mean": means[table.paper, study]["mean"].get(PRETRAINED, np.nan)})
        row = {"row": f"{LIFT} ({titles.paper(table.paper)})", "form": "+.2%"}
        for study in recorded[table.experiment]:
            scores = means[table.paper, study]["mean"].drop(fehervari.FLOATS, errors="ignore")
            rows.append(row | {"column": study, "mean": tables.lift(scores)})
    frame = pd.DataFrame(rows)
    cells, _ = results_table(frame.assign(mean=frame.get("mean", np.nan)), digits=1)  # none where no study was run
    return cells.loc[:, ~cells.isin(["not run", "–"]).all()].rename_axis("Row")


def _batches(method: Method, paper: str, around: Mapping[str, StudyRecords]) -> str:
    """A batch as it was run around these studies, in brackets the paper's where that is another."""
    known = studies.known()
    run = [known[study.name] for study in around.values() if study.name in known]
    ours = dict.fromkeys(tables.batch(study.method(method.name), study.protocol.sampler) for study in run)
    theirs = tables.batch(method, next(other.protocol.sampler for other in papers.ALL if other.key == paper))
    return f"{' or '.join(ours)} ({theirs})" if ours and [*ours] != [theirs] else theirs


def _standing(means: pd.DataFrame, apart: Collection[str] = ()) -> pd.DataFrame:
    """R@1 of the trained rows of a table as `results_table` has it, with ranks. apart: ranked among themselves."""
    trained = means.drop(index=[PRETRAINED, fehervari.FLOATS], errors="ignore")
    trained = trained.assign(block=trained.index.isin(list(apart)))
    ranks, untrained = statistics.by_luck_of_seeds(trained, ["block"]), means["mean"].get(PRETRAINED, np.nan)
    counts = trained.groupby("block")["mean"].transform("size")
    places = map(partial(labels.rank_range, between="–"), ranks["rank_low"], ranks["rank_high"])
    notes = [f" ({place} of {count})" for place, count in zip(places, counts, strict=True)]
    given = {"half": trained["ci95"], "untrained": untrained, "among_best": ranks["among_best"]}
    return trained[["mean"]].assign(note=notes, **given)


def best_row(table: Table, records: StudyRecords) -> dict[str, float | str]:
    """The row with the highest mean R@1: first, mean, tied (how many; NaN of single runs), lift of all; or {}."""
    names = {method.name: table.label(method.name) for method in table.methods}
    means = table.means(records)
    means = means[means.index.isin([*names, PRETRAINED])]
    trained = _standing(means)
    if trained.empty:
        return {}
    first = trained["mean"].idxmax()
    lead, once = trained.loc[first], trained["half"].isna().all()
    tied = np.nan if once else float(trained["among_best"].drop(first).sum())
    return {"first": names[first], "mean": float(lead["mean"]), "tied": tied, "lift": tables.lift(means["mean"])}


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """The numbers behind the page's text: the first row of each table, a study by its data set; R@1 in percent."""
    around, named = load_tables(edition), {}
    for main in edition:
        for table in TABLES:
            records = around[table.experiment].get(main.name)
            if lead := records and best_row(table, records):
                key = f"{main.meta['dataset']}.{table.paper}"
                named |= {f"{key}.first": lead["first"], f"{key}.tied": lead["tied"]}
                named[f"{key}.lift"] = 100 * lead["lift"]
    for records in [*around.get(FEHERVARI.experiment, {}).values()][:1]:
        named["bits"] = float(common.protocol_of(records, "proxy_softmax")["embedding_dim"])
        named["floats"] = float(common.protocol_of(records, "triplet_semihard")["embedding_dim"])
    return named
