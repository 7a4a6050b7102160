"""Levers: what each choice of an experiment, or chance, moves a score by, in MAP@R on test classes."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import editions, labels, statistics, tables
from dmlrc.report.results_table import results_table
from dmlrc.report.significance import measures as significance
from dmlrc.report.statistics import Estimate
from dmlrc.report.variance import measures
from dmlrc.report.variance.measures import CHOSEN, METRIC, TOO_HIGH, AtRates
from dmlrc.studies import experiments

TWO_DRAWS = 2 / np.sqrt(np.pi)
"""How far two values of a normal distribution lie apart on average, in its standard deviations."""
SIZES = ("dim64", "dim512")
"""The levels of Roth et al.'s sweep over embedding sizes that are compared."""
LEVERS = measures.WORDS["levers"]
Lever = tuple[Estimate, int] | None
"""What a choice moves a score by, on average over so many losses."""


def levers(records: StudyRecords, at: AtRates | None) -> pd.DataFrame:
    """The levers that are known of a study, a row each: value, low, high (fractions), and over how many losses."""
    compared = significance.compare(records)
    several = len(compared.methods) > 1
    known = {
        "loss": (compared.range, len(compared.methods)) if several else None,
        "joined": _joined(records),
        "size": _size(records),
        "split": _split(records),
        "trained": _trained(records, compared),
        "rate": _rate(at),
        "search": _two_draws(measures.search(records)),
        "seed": _two_draws(measures.seed(records)),
    }
    rows = {name: (lever[0].value, lever[0].low, lever[0].high, lever[1]) for name, lever in known.items() if lever}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["value", "low", "high", "losses"])
    return table.dropna(subset="value").rename_axis("lever")


def _two_draws(part: measures.Part | None) -> Lever:
    """The mean distance between two levels of a part, for one loss."""
    return part and (part.against.divided_by(1 / (part.mean * TWO_DRAWS)), part.methods)


def _joined(records: StudyRecords) -> Lever:
    keys = ["method", "repetition", "rerun"]
    both = [significance.scores(records, METRIC, setting).set_index(keys)["value"] for setting in tables.SETTINGS]
    gains = (both[0] - both[1]).dropna().reset_index()
    return None if gains.empty else _mean(gains if records.searches > 1 else statistics.reruns_as_repetitions(gains))


def _mean(runs: pd.DataFrame, known: statistics.Noise | None = None) -> tuple[Estimate, int]:
    """The mean over the methods of what `statistics.as_array` takes."""
    methods = list(dict.fromkeys(runs["method"]))
    return statistics.contrast(runs, dict.fromkeys(methods, 1 / len(methods)), known), len(methods)


def _size(records: StudyRecords) -> Lever:
    sweep = editions.experiment_of(records.name, "roth2020/dims")
    if sweep is None:
        return None
    scores = sweep.scores[(sweep.scores["metric"] == METRIC) & (sweep.scores["setting"] == "separated")]
    means = scores.pivot_table(index="row", columns="level", values="value").reindex(columns=list(SIZES)).dropna()
    return statistics.mean(means[SIZES[1]] - means[SIZES[0]]), len(means)


def _split(records: StudyRecords) -> Lever:
    """Random orders of the classes less the data set's own one; the interval is that of the orders' mean."""
    random, own = [], []
    for study in experiments.class_orders(records.name).values():
        kind = random if study.meta["class_order"] == "random" else own
        kind.append(significance.scores(study, METRIC, "separated")["value"].mean())
    return (statistics.mean(np.array(random) - own[0]), 1) if own and len(random) > 1 else None


def _trained(records: StudyRecords, compared: significance.Comparison) -> Lever:
    if not compared.methods:
        return None
    mean, losses = _mean(compared.runs, compared.known)
    gain = mean.value - tables.mean_of(tables.accuracy(records), PRETRAINED, METRIC)
    return Estimate.around(gain, mean.half, mean.n), losses


def _rate(at: AtRates | None) -> Lever:
    """The mean gain of the losses at the chosen rate over one too high, each rate with searches of its own."""
    if at is None or TOO_HIGH not in at.by_rate:
        return None
    parts = (at.compared[which].only(at.beside(TOO_HIGH).index) for which in (CHOSEN, TOO_HIGH))
    (here, losses), (there, _) = (_mean(part.runs, part.known) for part in parts)
    return Estimate.around(here.value - there.value, float(np.hypot(here.half, there.half)), here.n), losses


def lever_order(by_title: Mapping[str, pd.DataFrame]) -> list[str]:
    """The levers of all data sets, the strongest on average first. Title -> `levers`."""
    means = pd.concat(by_title.values()).groupby("lever", sort=False)["value"].mean()
    return list(means.sort_values(ascending=False, kind="stable").index)


def lever_cells(by_title: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Title -> `levers` as cells: a row a lever, a column a data set; points with their 95 % intervals, and losses."""
    every = pd.concat(by_title, names=["column", "row"]).rename(columns={"value": "mean"}).reset_index()
    counts = every.groupby("row")["losses"].agg(["min", "max"]).apply(lambda ends: labels.rank_range(*ends), axis=1)
    losses = counts.rename("text").reset_index().assign(column="losses")
    table, _ = results_table(pd.concat([every, losses], ignore_index=True))
    return table.loc[lever_order(by_title)].rename(index=LEVERS).rename_axis("Points of MAP@R")
