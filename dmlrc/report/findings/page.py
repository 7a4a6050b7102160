"""Ways to get a wrong number: the tables and figures of the chapter, and the numbers that its text names."""

import math
import tomllib
from collections.abc import Collection, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import NamedTuple

import pandas as pd

from dmlrc import records
from dmlrc.records import StudyRecords
from dmlrc.report import editions, labels, publish, published, titles
from dmlrc.report.fehervari2019.page import fehervari_label
from dmlrc.report.findings import literature, metrics, training
from dmlrc.report.statistics import discordant_pairs

WITH_CURVES = "grocery-frozen"
"""A study whose committed records have long validation curves, shown beside the studies of any edition."""

_FILE = tomllib.loads((files(__package__) / "findings.toml").read_text(encoding="utf-8"))

Numbers = Mapping[str, float]
MODULES = {"literature": literature, "metrics": metrics, "training": training}
NAMED = {"method": fehervari_label, "trunk": titles.TRUNKS.get, "metric": labels.METRIC_LABELS.get}
FORMATS = {
    "random-nmi": {"classes": "{:,}".format},
    "gains": dict.fromkeys(("claimed", "lowest", "highest"), labels.whole) | {"fair": labels.signed},
    "table-against-plot": NAMED,
}
"""How columns are printed that are neither numbers nor texts as they are."""


def load_with_curves(studies: str, train: bool = False) -> list[StudyRecords]:
    """The records of these studies (names joined by commas), and of `WITH_CURVES` where they are present."""
    edition = editions.load_edition(studies, train)
    beside = None if WITH_CURVES in editions.study_names(studies) else records.find(WITH_CURVES)
    return [*edition, beside] if beside else edition


# The tables


class Shape(NamedTuple):
    """Function that computes a finding's numbers, and their form in print; the keys are explained in findings.toml."""

    module: str
    function: str
    columns: Mapping[str, str]
    percent: Collection[str] = ()
    rows: Sequence[str] = ()
    index: str = ""
    digits: int = 1
    of_studies: bool = False

    def make(self, *edition: Sequence[StudyRecords]) -> pd.DataFrame:
        return getattr(MODULES[self.module], self.function)(*edition)


SHAPES = {name: Shape(**row) for name, row in _FILE["tables"].items()}


@cache
def frame(name: str) -> pd.DataFrame:
    """The numbers of a finding that needs no study."""
    return SHAPES[name].make()


def publish_finding(name: str, caption: str, edition: Sequence[StudyRecords] = (), wrap: bool = False) -> None:
    """Publish the table of a finding under `finding-<name>`."""
    shape = SHAPES[name]
    data = shape.make(edition) if shape.of_studies else frame(name)
    publish.table(f"finding-{name}", _cells(data, shape, FORMATS.get(name, {})), caption, data=data, wrap=wrap)


def _cells(data: pd.DataFrame, shape: Shape, formats: Mapping) -> pd.DataFrame:
    """The columns of a shape under their printed names, as text.

    >>> data = pd.DataFrame({"a": [0.5, float("nan")], "b": [1.0, 2e-9]})
    >>> _cells(data, Shape("", "", {"a": "A, %", "b": "B"}, ["a"]), {}).to_numpy().tolist()
    [['50.0', '1'], ['–', '2·10⁻⁹']]
    """
    data = data.assign(**{name: data[name].map(text) for name, text in formats.items()})
    if shape.rows:
        data = data.reset_index()
        data = data.set_index(data[list(shape.rows)].astype(str).agg(" x ".join, axis=1))
    kinds = {"f": labels.number, "i": "{:,}".format, "b": {True: "yes", False: "no"}.get}
    text = {}
    for column, head in shape.columns.items():
        percent = partial(labels.number, form=f".{shape.digits}%")
        as_text = percent if column in shape.percent else kinds.get(data[column].dtype.kind, str)
        texts = data[column].map(as_text)
        text[head] = texts if as_text is str else texts.replace("", "–")
    printed = pd.DataFrame(text)
    name = shape.index or " x ".join(shape.rows)
    return printed.rename_axis(name) if name else printed


# The overview


class Fault(NamedTuple):
    """A way to get a wrong number; the keys are explained in findings.toml."""

    name: str
    title: str
    do: str
    seen: str
    wrong: str
    right: str = ""
    what: str = ""


FINDINGS = tuple(Fault(**row) for row in _FILE["findings"])


class ScorePair(NamedTuple):
    """A score as the fault makes it and as it should be, percent. what: of what it is the score."""

    what: str
    wrong: float
    right: float


def score_pairs(n: Numbers) -> dict[str, ScorePair]:
    """The findings whose effect is two scores, the widest first; that of `own-maximum` only where a study shows it."""
    scored = {
        finding.name: ScorePair(finding.what, n[finding.wrong], n[finding.right] if finding.right else 100.0)
        for finding in FINDINGS
        if finding.what and finding.wrong in n
    }
    return dict(sorted(scored.items(), key=lambda item: abs(item[1].wrong - item[1].right), reverse=True))


def findings_overview(n: Numbers) -> pd.DataFrame:
    """The cells of findings-all: a row a finding, with what is right and what the fault makes of it."""
    scored = score_pairs(n)
    rows = {}
    for finding in FINDINGS:
        if pair := scored.get(finding.name):
            effect = {"right": f"{pair.what}: {pair.right:.1f} %", "wrong": f"{pair.wrong:.1f} %"}
        elif finding.what:
            effect = {"right": "not run", "wrong": "not run"}
        else:
            effect = {"right": finding.right.format(n=n), "wrong": finding.wrong.format(n=n)}
        rows[finding.title] = effect | {"what to do": finding.do, "seen in": finding.seen}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("what goes wrong")


@cache
def crop_shares() -> pd.DataFrame:
    return training.crops(training.crop_sides())


# The numbers of the text


@records.derived_once(tuple)  # the page asks for them at its head and at its foot
def numbers(edition: Sequence[StudyRecords]) -> dict[str, float]:
    """The numbers behind the page's text; percents and points as printed. Those of our runs begin with own and ours."""
    cells = {}
    for name, where in _FILE["numbers"].items():
        column = frame(where["table"])[where["column"]]
        value = column.iloc[where["row"]] if isinstance(where["row"], int) else column.loc[where["row"]]
        cells[name] = float(value) * where.get("scale", 1)
    return cells | _computed() | _of_runs(edition)


def _computed() -> dict[str, float]:
    """The numbers that are no cells of the tables."""
    classes, plots = 100 * metrics.number_of_classes()["map_at_r"], frame("table-against-plot")
    snr, smooth, twins = frame("snr-regulariser")["loss"], frame("smooth-ap")["blocks"], literature.twin_rows([])
    lost, later = training.arcface_without_gradient(), frame("recycled").groupby("baseline")["later"].max()
    return {
        "classes.fewest": classes.iloc[0],
        "classes.most": classes.iloc[-1],
        "wasserstein.same": 100 * training.histogram_choice(),
        "clamp.own": 100 * lost,
        "clamp.pulled": 100 * (1 - lost),
        "snr.lost": 100 * (1 - snr["weight 0"] / snr["as in the paper"]),
        "soft.guess": math.log(100),
        "crops.below": 100 * crop_shares()["below_102"].iloc[1],
        "crops.area": 100 * crop_shares()["area"].iloc[0],
        "crops.area.literal": 100 * crop_shares()["area"].iloc[1],
        "smooth": smooth[smooth > 1e-6].iloc[0],
        "twins.gap": 100 * twins["gap"].max(),
        "twins.share": 100 * twins["share"].max(),
        "twins.ratio": frame("twin-temperatures")["ratio"].max(),
        "recycled.contrastive": later["contrastive"],
        "recycled.triplet": later["triplet"],
        "plot.cells": len(plots),
        "plot.most": 100 * (plots["value"] - plots["plotted"]).abs().max(),
        "plot.reported": plots["plot_is_reported"].sum(),
        "same.reports": 100 * frame("proxy-nca-pp")["difference"].max(),
        "ratio.high": metrics.validation_and_test([])["ratio"].max(),
    }


def _of_runs(edition: Sequence[StudyRecords]) -> dict[str, float]:
    part = training.longest_own_maximum(edition)
    twins = literature.twin_rows(edition).drop(index=list(published.DATASETS))
    named = {}
    if len(twins):
        named |= {"ours.twins": 100 * twins["gap"].max(), "ours.twins.within": (twins["gap"] < twins["noise"]).all()}
    if len(part):
        means = 100 * part[["own_maximum", "at_checkpoint", "inflation"]].mean()
        named |= {"own.maximum": means["own_maximum"], "own.checkpoint": means["at_checkpoint"]}
        named |= {"own.gain": means["inflation"], "own.least": 100 * part["inflation"].min()}
        named["own.swapped"], named["own.pairs"] = discordant_pairs(part["at_checkpoint"], part["own_maximum"])
    return named
