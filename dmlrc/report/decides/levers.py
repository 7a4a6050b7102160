"""Levers: what each choice of an experiment, or chance, moves a score by, in points of MAP@R on test classes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import editions, labels, statistics, tables
from dmlrc.report.decides import measures
from dmlrc.report.decides.measures import CHOSEN, METRIC, TOO_HIGH, AtRates
from dmlrc.report.results_table import number, results_table
from dmlrc.report.significance import measures as significance
from dmlrc.report.statistics import Estimate
from dmlrc.studies import experiments

TWO_DRAWS = 2 / np.sqrt(np.pi)
"""How far two values of a normal distribution lie apart on average, in its standard deviations."""
SIZES = ("dim64", "dim512")
"""The levels of Roth et al.'s sweep over embedding sizes that are compared."""
LOSS = "loss: best less worst"
JOINED, SIZE, SPLIT = "four models joined instead of one", "512 dimensions instead of 64", "a random class split"
TRAINED, RATE = "trained instead of untrained", "best learning rate, not one too high"
SEARCH, SEED = "another search", "another seed"


@dataclass(frozen=True)
class Lever:
    """What a choice moves a score by: a fraction of MAP@R, on average over so many losses."""

    moves: Estimate
    losses: int


def levers(records: StudyRecords, at: AtRates | None) -> dict[str, Lever]:
    """The levers that are known of a study, by their names. at: `measures.at_rates` of the study.

    Four models are joined, but where single ones are compared: of embedding sizes and class splits.
    """
    found = {
        LOSS: _loss(records),
        JOINED: _joined(records),
        SIZE: _size(records),
        SPLIT: _split(records),
        TRAINED: _trained(records),
        RATE: _rate(at),
        SEARCH: _two_draws(measures.search(records)),
        SEED: _two_draws(measures.seed(records)),
    }
    return {name: lever for name, lever in found.items() if lever is not None and np.isfinite(lever.moves.value)}


def _loss(records: StudyRecords) -> Lever | None:
    compared = significance.compare(records)
    if len(compared.methods) < 2:
        return None
    told = compared.summary
    return Lever(statistics.range_of(told["mean"], told["error"] ** 2, compared.known.df), len(told))


def _two_draws(part: measures.Part | None) -> Lever | None:
    """How far two of its levels lie apart on average, for one loss."""
    return part and Lever(part.against.divided_by(1 / (part.mean * TWO_DRAWS)), part.methods)


def _joined(records: StudyRecords) -> Lever | None:
    keys = ["method", "repetition", "rerun"]
    both = [significance.scores(records, METRIC, each).set_index(keys)["value"] for each in tables.SETTINGS]
    gains = (both[0] - both[1]).dropna().reset_index()
    if gains.empty:
        return None
    again = records.searches > 1
    return _mean(gains if again else statistics.each_alone(gains))


def _mean(runs: pd.DataFrame, known: statistics.Noise | None = None) -> Lever:
    """The mean over the methods of what `statistics.as_array` takes."""
    methods = list(dict.fromkeys(runs["method"]))
    return Lever(statistics.contrast(runs, dict.fromkeys(methods, 1 / len(methods)), known), len(methods))


def _size(records: StudyRecords) -> Lever | None:
    sweep = editions.experiment_of(records.name, "roth2020-dims")
    if sweep is None:
        return None
    scores = sweep.scores[(sweep.scores["metric"] == METRIC) & (sweep.scores["setting"] == "separated")]
    means = scores.pivot_table(index="row", columns="level", values="value").reindex(columns=list(SIZES)).dropna()
    return Lever(statistics.mean(means[SIZES[1]] - means[SIZES[0]], "losses"), len(means))


def _split(records: StudyRecords) -> Lever | None:
    """Random orders of the classes less the data set's own one; the interval is that of the orders' mean."""
    random, own = [], []
    for found in experiments.class_orders(records.name).values():
        kind = random if found.meta["class_order"] == "random" else own
        kind.append(significance.scores(found, METRIC, "separated")["value"].mean())
    if not own or len(random) < 2:
        return None
    return Lever(statistics.mean(np.array(random) - own[0], "class orders"), 1)


def _trained(records: StudyRecords) -> Lever | None:
    untrained = tables.mean_of(tables.accuracy(records), PRETRAINED, METRIC)
    compared = significance.compare(records)
    if not compared.methods:
        return None
    mean = _mean(compared.runs, compared.known)
    return Lever(Estimate.around(mean.moves.value - untrained, mean.moves.half, mean.moves.n), mean.losses)


def _rate(at: AtRates | None) -> Lever | None:
    """What the chosen rate gives the losses over one too high, each with searches of its own."""
    if at is None or TOO_HIGH not in at.made:
        return None
    methods = at.beside(TOO_HIGH).index
    here, there = (
        _mean(each.only(methods).runs, each.known).moves for each in (at.compared[CHOSEN], at.compared[TOO_HIGH])
    )
    half = float(np.hypot(here.half, there.half))
    return Lever(Estimate.around(here.value - there.value, half, here.n), len(methods))


def order(found: Mapping[str, Mapping[str, Lever]]) -> list[str]:
    """The levers of all data sets, the strongest on average first."""
    own = {title: {name: lever.moves.value for name, lever in each.items()} for title, each in found.items()}
    return list(pd.DataFrame(own).mean(axis=1).sort_values(ascending=False, kind="stable").index)


def cells(found: Mapping[str, Mapping[str, Lever]]) -> pd.DataFrame:
    """Title -> `levers` as cells: a row a lever, a column a data set; points with their 95 % intervals, and losses."""
    every = [(name, title, lever) for title, each in found.items() for name, lever in each.items()]
    scores = [
        {"row": name, "column": title, "mean": lever.moves.value, "low": lever.moves.low, "high": lever.moves.high}
        for name, title, lever in every
    ]
    losses = pd.Series([lever.losses for *_, lever in every]).groupby([name for name, *_ in every]).agg(["min", "max"])
    counts = losses.agg(lambda each: labels.places(*each), axis=1).rename("text").rename_axis("row").reset_index()
    table, _ = results_table(pd.concat([pd.DataFrame(scores), counts.assign(column="losses")], ignore_index=True))
    return table.loc[order(found)].rename_axis("Points of MAP@R")


def text(lever: Lever) -> str:
    return number(lever.moves.value, low=lever.moves.low, high=lever.moves.high)
