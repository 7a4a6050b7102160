"""Ways to get a wrong number: the tables and figures of the chapter, and the numbers that its text names."""

import math
import tomllib
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import pandas as pd

from dmlrc import records
from dmlrc.errors import MissingDataError
from dmlrc.records import StudyRecords
from dmlrc.report import editions, labels, publish, published
from dmlrc.report.fehervari2019.page import fehervari_label
from dmlrc.report.findings import literature, metrics, training

WITH_CURVES = "grocery-frozen"
"""A study whose committed records have long validation curves, shown beside the studies of any edition."""

_FILE = tomllib.loads((files(__package__) / "findings.toml").read_text(encoding="utf-8"))

Numbers = Mapping[str, float]


def load(studies: str, train: bool = False) -> list[StudyRecords]:
    """The records of these studies (names joined by commas), and of `WITH_CURVES` where they are present."""
    edition = editions.load(studies, train)
    if WITH_CURVES not in editions.names(studies):
        try:
            edition.append(records.load(WITH_CURVES))
        except MissingDataError:
            return edition
    return edition


# The tables


class Shape(NamedTuple):
    """What makes the numbers of a finding, and how they are printed; the keys are explained in findings.toml."""

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


MODULES = {"literature": literature, "metrics": metrics, "training": training}
SHAPES = {name: Shape(**row) for name, row in _FILE["tables"].items()}
FORMATS = {
    "random-nmi": {"classes": "{:,}".format},
    "gains": dict.fromkeys(("claimed", "lowest", "highest"), labels.whole) | {"fair": labels.signed},
    "table-against-plot": {
        "method": fehervari_label,
        "trunk": labels.TRUNK_LABELS.get,
        "metric": labels.METRIC_LABELS.get,
    },
}
"""How columns are printed that are neither numbers nor texts as they are."""


@cache
def frame(name: str) -> pd.DataFrame:
    """The numbers of a finding that needs no study."""
    return SHAPES[name].make()


def table(name: str, caption: str, edition: Sequence[StudyRecords] = (), wrap: bool = False) -> None:
    """Publish the table of a finding under `finding-<name>`."""
    shape = SHAPES[name]
    made = shape.make(edition) if shape.of_studies else frame(name)
    publish.table(f"finding-{name}", cells(made, shape, FORMATS.get(name, {})), caption, data=made, wrap=wrap)


def cells(made: pd.DataFrame, shape: Shape, formats: Mapping) -> pd.DataFrame:
    """The columns of a shape under their printed names, as text.

    Fractions in percent, other real numbers as `labels.number` prints them, truth values yes and no.

    >>> made = pd.DataFrame({"a": [0.5, float("nan")], "b": [1.0, 2e-9]})
    >>> cells(made, Shape("", "", {"a": "A, %", "b": "B"}, ["a"]), {}).to_numpy().tolist()
    [['50.0', '1'], ['–', '2·10⁻⁹']]
    """
    made = made.assign(**{name: made[name].map(text) for name, text in formats.items()})
    if shape.rows:
        made = made.reset_index()
        made = made.set_index(made[list(shape.rows)].astype(str).agg(" x ".join, axis=1))
    text = {}
    for column, head in shape.columns.items():
        values = made[column]
        if column in shape.percent:
            text[head] = values.map(lambda value: labels.percent(value, digits=shape.digits)).replace("", "–")
        elif pd.api.types.is_bool_dtype(values):
            text[head] = values.map({True: "yes", False: "no"})
        elif pd.api.types.is_float_dtype(values):
            text[head] = values.map(labels.number).replace("nan", "–")
        elif pd.api.types.is_integer_dtype(values):
            text[head] = values.map("{:,}".format)
        else:
            text[head] = values.map(str)
    printed = pd.DataFrame(text)
    name = shape.index or " x ".join(shape.rows)
    return printed.rename_axis(name) if name else printed


# The overview


class Finding(NamedTuple):
    """A way to get a wrong number; the keys are explained in findings.toml."""

    name: str
    title: str
    do: str
    seen: str
    wrong: str
    right: str = ""
    what: str = ""


FINDINGS = tuple(Finding(**row) for row in _FILE["findings"])


class Pair(NamedTuple):
    """A score as the fault makes it and as it should be, percent. what: of what it is the score."""

    what: str
    wrong: float
    right: float


def pairs(n: Numbers) -> dict[str, Pair]:
    """The findings whose effect is two scores, the widest first; that of `own-maximum` only where a study shows it."""
    found = {
        each.name: Pair(each.what, n[each.wrong], n[each.right] if each.right else 100.0)
        for each in FINDINGS
        if each.what and each.wrong in n
    }
    return dict(sorted(found.items(), key=lambda item: abs(item[1].wrong - item[1].right), reverse=True))


def overview(n: Numbers) -> pd.DataFrame:
    """The cells of findings-all: a row a finding, with what is right and what the fault makes of it."""
    scored = pairs(n)
    rows = {}
    for each in FINDINGS:
        if pair := scored.get(each.name):
            effect = {"right": f"{pair.what}: {pair.right:.1f} %", "wrong": f"{pair.wrong:.1f} %"}
        elif each.what:
            effect = {"right": "not run", "wrong": "not run"}
        else:
            effect = {"right": each.right.format(n=n), "wrong": each.wrong.format(n=n)}
        rows[each.title] = effect | {"what to do": each.do, "seen in": each.seen}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("what goes wrong")


def own_maximum(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The rows of `training.own_maximum` of the study that validated its reruns most often; empty without one."""
    return training.longest_curves(training.own_maximum(edition))


@cache
def crops() -> pd.DataFrame:
    return training.crops(training.crop_sides())


# The numbers of the text


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float]:
    """What the text of the page rests on; percents and points as printed. Those of our runs begin with own and ours."""
    return _of_metrics() | _of_training() | _of_papers() | _of_runs(edition)


def _of_metrics() -> dict[str, float]:
    ties, copies = 100 * frame("ties").loc["collapsed"], frame("duplicates").iloc[-1]
    ranking, spectra = 100 * frame("ap-from-zero").loc["second place wrong"], frame("singular-values")
    classes = 100 * metrics.number_of_classes()["map_at_r"]
    return {
        "ties.sorted": ties["sorted"],
        "ties.ours": ties["ours_lowest"],
        "copies.naive": 100 * copies["naive"],
        "copies.ours": 100 * copies["ours"],
        "alone": 100 * frame("singletons")["as_zero"].iloc[-1],
        "map-at-c": 100 * frame("map-at-c")["as_coded"].iloc[0],
        "ap.right": ranking["from_one"],
        "ap.shifted": ranking["shifted"],
        "ap.query": ranking["query"],
        "classes.fewest": classes.iloc[0],
        "classes.most": classes.iloc[-1],
        "nmi": 100 * frame("random-nmi")["worst"].iloc[-1],
        "rho.idle": spectra["paper"]["one idle direction"],
        "rho.idle.without": spectra["without_both"]["one idle direction"],
        "rho.decaying": spectra["paper"]["decaying"],
        "rho.decaying.without": spectra["without_both"]["decaying"],
    }


def _of_training() -> dict[str, float]:
    arcface, soft, radius = frame("arcface-margin"), frame("soft-triple")["perfect"], frame("coreset")["mean"]
    snr, lost = frame("snr-regulariser")["loss"], training.arcface_without_gradient()
    area, smooth = 100 * crops()["area"], frame("smooth-ap")["blocks"]
    return {
        "arcface.zero": arcface["zero"]["every logit"],
        "arcface.half": arcface["half"]["every logit"],
        "arcface.ours": arcface["half"]["ours"],
        "coreset.greedy": radius["greedy"],
        "coreset.another": radius["another pool"],
        "coreset.uniform": radius["uniform"],
        "wasserstein.same": 100 * training.histogram_choice(),
        "clamp.own": 100 * lost,
        "clamp.pulled": 100 * (1 - lost),
        "snr.lost": 100 * (1 - snr["weight 0"] / snr["as in the paper"]),
        "soft.paper": soft["as in the paper"],
        "soft.code": soft["all three"],
        "soft.guess": math.log(100),
        "crops.below": 100 * crops()["below_102"].iloc[1],
        "crops.area": area.iloc[0],
        "crops.area.literal": area.iloc[1],
        "sop.tested": frame("sop-split")["tested_training_classes"]["first half"],
        "smooth": smooth[smooth > 1e-6].iloc[0],
    }


def _of_papers() -> dict[str, float]:
    twins, gains = literature.twin_rows([]), frame("gains").set_index(["baseline", "dataset"]).loc["contrastive"]
    later, plots = frame("recycled").groupby("baseline")["later"].max(), frame("table-against-plot")
    ratios = metrics.validation_and_test([])["ratio"]
    return {
        "twins.gap": 100 * twins["gap"].max(),
        "twins.share": 100 * twins["share"].max(),
        "twins.ratio": frame("twin-temperatures")["ratio"].max(),
        "recycled.contrastive": later["contrastive"],
        "recycled.triplet": later["triplet"],
        "gains.claimed": 100 * gains["claimed"]["CUB200"],
        "gains.fair": 100 * gains["fair"]["CUB200"],
        "plot.cells": len(plots),
        "plot.most": 100 * (plots["value"] - plots["plotted"]).abs().max(),
        "plot.reported": plots["plot_is_reported"].sum(),
        "same.reports": 100 * frame("proxy-nca-pp")["difference"].max(),
        "ratio.high": ratios.max(),
    }


def _of_runs(edition: Sequence[StudyRecords]) -> dict[str, float]:
    part, twins = own_maximum(edition), literature.twin_rows(edition).drop(index=list(published.DATASETS))
    found = {}
    if len(twins):
        found |= {"ours.twins": 100 * twins["gap"].max(), "ours.twins.within": (twins["gap"] < twins["noise"]).all()}
    if len(part):
        means = 100 * part[["own_maximum", "at_checkpoint", "inflation"]].mean()
        found |= {"own.maximum": means["own_maximum"], "own.checkpoint": means["at_checkpoint"]}
        found |= {"own.gain": means["inflation"], "own.least": 100 * part["inflation"].min()}
        found |= {"own.swapped": training.swapped_pairs(part), "own.pairs": len(part) * (len(part) - 1) // 2}
    return found
