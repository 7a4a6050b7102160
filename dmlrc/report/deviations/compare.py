"""The comparison of studies with the protocol of their paper, field by field, and with the rows of its file."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import pandas as pd

from dmlrc import papers
from dmlrc.papers import musgrave2020, zhai2019
from dmlrc.protocol import Protocol
from dmlrc.records import StudyRecords
from dmlrc.report import common, labels, publish, titles
from dmlrc.report.common import ByStudy
from dmlrc.report.deviations import ours as computed

COLUMNS = ("setting", "ours", "the paper's", "the paper's section", "why")
NOT_GIVEN = "not given"

THEIRS = {"cub200_2010": "CUB200", "cars196crops": "Cars196"}
"""Data set -> the one of the papers that has the same classes; ours are other images of them."""


class Field(NamedTuple):
    """A field of the protocol: where the paper has it (or `NOT_GIVEN`: then it is ours to choose), why ours is so."""

    where: str
    why: str


class Row(NamedTuple):
    """Deviation that no field shows. ours: typed; computed: a function of `ours` in its place. only: a condition there.

    ours_if_given: in the place of `ours` where a study's settings name the length at which class weights begin.
    listed: true if the studies' texts stand without the studies' names.
    """

    setting: str
    paper: str
    where: str
    why: str
    ours: str = ""
    computed: str = ""
    only: str = ""
    ours_if_given: str = ""
    listed: bool = False

    def text(self, records: StudyRecords) -> str:
        """The row's text on a study, "" where it has none."""
        if self.only and not getattr(computed, self.only)(records):
            return ""
        if self.ours_if_given and computed.names_starts(records):
            return self.ours_if_given
        return getattr(computed, self.computed)(records) if self.computed else self.ours


@cache
def read_deviations(paper: str) -> tuple[Mapping[str, Field], tuple[Row, ...]]:
    """The fields and the rows of a paper's file; what it does not say of one stands in `usual.toml`."""
    own, usual = (
        tomllib.loads((files(__package__) / f"{name}.toml").read_text(encoding="utf-8")) for name in (paper, "usual")
    )
    fields = {name: Field(**{**usual.get(name, {}), **row}) for name, row in own["fields"].items()}
    return fields, tuple(Row(**{**usual.get(row["setting"], {}), **row}) for row in own["rows"])


def _protocol(paper: str, records: StudyRecords) -> Protocol:
    """The paper's protocol on the data set of these records, or on one of its own where it has none."""
    dataset = records.meta["dataset"]
    if paper == "musgrave2020":
        return replace(musgrave2020.PROTOCOL, **musgrave2020.VALIDATION.get(dataset.removesuffix("crops"), {}))
    if paper == "zhai2019" and dataset.startswith("cub200"):
        return zhai2019.CUB200_PROTOCOL
    return next(known.protocol for known in papers.ALL if known.key == paper)


def ledger(paper: str, by_study: ByStudy) -> pd.DataFrame:
    """The numbered deviations of studies from a paper, and what it leaves open; studies are named where they differ."""
    fields, own = read_deviations(paper)
    theirs = {name: _protocol(paper, records) for name, records in by_study.items()}
    rows = [_field(by_study, theirs, name, field) for name, field in fields.items()]
    rows = [row for row in (*rows, *(_row(by_study, row) for row in own)) if row]
    return pd.DataFrame(rows, columns=list(COLUMNS), index=pd.RangeIndex(1, len(rows) + 1, name="no."))


def _field(
    ran: Mapping[str, StudyRecords], protocols: Mapping[str, Protocol], name: str, field: Field
) -> tuple[str, ...]:
    theirs = {study: _text(name, vars(protocols[study])) for study in ran}
    ours = {study: _text(name, records.meta["protocol"]) for study, records in ran.items()}
    if name == "square":
        ours |= {study: "as stored" for study, records in ran.items() if records.meta["dataset"] in computed.SQUARES}
    if ours == theirs and field.where != NOT_GIVEN:
        return ()
    paper = _of_paper(ran, theirs)
    if field.where == NOT_GIVEN:
        paper = f"{NOT_GIVEN}; our version: {paper}"
    return name, _joined(ours), paper, field.where, field.why


def _of_paper(ran: Mapping[str, StudyRecords], texts: Mapping[str, str]) -> str:
    """The one text of a paper, or each with the data set of its own that it is of."""
    datasets = {study: records.meta["dataset"] for study, records in ran.items()}
    named = {THEIRS[dataset]: texts[study] for study, dataset in datasets.items() if dataset in THEIRS}
    if len(set(texts.values())) == 1 or set(named.values()) != set(texts.values()):
        return _joined(texts)
    return "; ".join(f"{dataset}: {text}" for dataset, text in named.items())


def _text(name: str, protocol: Mapping) -> str:
    """A setting of a protocol as printed; no first layer that trains means all of the trunk, or none of it."""
    if name == "train_from" and protocol[name] is None:
        return "none of the trunk" if protocol["frozen_trunk"] else "all of the trunk"
    return labels.setting(name, protocol[name])


def _row(ran: Mapping[str, StudyRecords], row: Row) -> tuple[str, ...]:
    texts = {study: text for study, records in ran.items() if (text := row.text(records))}
    if set(texts.values()) <= {row.paper}:
        return ()
    if row.listed:
        return row.setting, labels.listed(dict.fromkeys(texts.values())), row.paper, row.where, row.why
    return row.setting, _joined(texts, len(ran)), row.paper, row.where, row.why


def _joined(texts: Mapping[str, str], studies: int = 0) -> str:
    """The one text of all studies, or each with its study. studies: how many there are, where some may have no text."""
    if len(set(texts.values())) == 1 and len(texts) >= studies:
        return next(iter(texts.values()))
    return "; ".join(f"{titles.in_label(name)}: {text}" for name, text in texts.items())


def show(name: str, paper: str, by_study: ByStudy, caption: str) -> None:
    """Publish the deviations of the studies from a paper."""
    rows = labels.in_words(ledger(paper, by_study)) if by_study else common.NOT_RUN
    publish.table(name, rows, caption, wrap=True, folded="Every difference, with its reason")
