"""Answers from a study of one's own photographs for someone who wants to find photos: sentences with numbers."""

import numpy as np
import pandas as pd

from dmlrc.errors import DmlrcError
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import labels, tables
from dmlrc.report.answers import say

SEARCHED_ONCE = "Each loss was searched once: another search may change the order, which no interval counts."
NO_GAIN = "One model of this loss does not improve on that, so the trunk can be used as it is."


def chosen_loss(records: StudyRecords) -> str:
    """The first of `losses_by_validation`."""
    return losses_by_validation(records)[0]


def losses_by_validation(records: StudyRecords) -> list[str]:
    """The methods by their best trials on the validation classes, of those with a result on the test classes.

    These choose nothing: of 14 losses that are alike the highest would be the luckiest. Raises DmlrcError without any.
    """
    trained = _of(records, "map_at_r").drop(PRETRAINED, errors="ignore")
    if trained.empty:
        raise DmlrcError(f"no method of study {records.name!r} has a result: `dmlrc study show` says why")
    trials = records.trials[records.trials["method"].isin(trained.index)]
    of_searches = trials.groupby(["method", "repetition"])["value"].max()
    return of_searches.groupby("method").mean().sort_values(ascending=False, kind="stable").index.tolist()


def first_rerun(records: StudyRecords, method: str) -> pd.Series:
    """The first rerun of a method that came to its end, a row of `records.reruns`; its params are the best trial's."""
    reruns = records.reruns[(records.reruns["method"] == method) & (records.reruns["state"] == "complete")]
    return reruns.sort_values(["repetition", "rerun"]).iloc[0]


def sentences(records: StudyRecords) -> list[str]:
    """Sentences on which loss to use, how sure that is, and what training gains over the trunk as it is."""
    map_at_r, precision = _of(records, "map_at_r"), _of(records, "precision_at_1")
    first = chosen_loss(records)
    scores = [labels.score(*frame.loc[first, ["mean", "ci95"]]) for frame in (precision, map_at_r)]
    trained = map_at_r.drop(PRETRAINED, errors="ignore")
    fallen = {labels.method_label(name): state for name, state in tables.fallen(records).items()}
    chosen = say("chosen", loss=labels.method_label(first), count=len(trained) + len(fallen))
    nearest = say("found", folds=records.meta["protocol"]["folds"], precision=scores[0], score=scores[1])
    texts = [f"{chosen} {nearest}", _how_sure(records, trained, first)]
    if fallen:
        texts.append(f"Without a result: {labels.listed([f'{name} ({state})' for name, state in fallen.items()])}.")
    if PRETRAINED in map_at_r.index:
        texts.append(_over_the_trunk(records, first))
    return texts


def _how_sure(records: StudyRecords, trained: pd.DataFrame, first: str) -> str:
    marks = tables.marks(trained.reset_index()).set_axis(trained.index)
    highest = [labels.method_label(name) for name in trained.index if marks[name] and name != first]
    if np.isnan(trained["ci95"][first]):
        sure = "One run of a loss cannot be compared with others."
    elif not marks[first]:
        sure = say("higher", losses=labels.listed(highest))
    elif highest:
        sure = say("alike", losses=labels.listed(highest))
    else:
        sure = "No other loss may be the best instead."
    return f"{sure} {SEARCHED_ONCE}" if records.searches < 2 else sure


def _over_the_trunk(records: StudyRecords, first: str) -> str:
    """The gain from training: one model against one trunk, its features reduced to as many numbers."""
    map_at_r, precision = _of(records, "map_at_r", "separated"), _of(records, "precision_at_1", "separated")
    before, after = map_at_r["mean"][PRETRAINED], map_at_r["mean"][first]
    untrained, trained = precision["mean"][PRETRAINED], precision["mean"][first]
    scores = {"precision": labels.percent(untrained), "score": labels.percent(before)}
    reached = say("trunk", trunk=labels.trunk(records.meta["protocol"]), **scores)
    if after <= before:
        return f"{reached} {NO_GAIN}"
    sure = after - map_at_r["ci95"][first] > before  # of one run nobody knows
    chance = "" if sure else ", which may be chance,"
    return f"{reached} {say('gain', gain=100 * (after - before), chance=chance, more=100 * (trained - untrained))}"


def _of(records: StudyRecords, metric: str, setting: str = "concatenated") -> pd.DataFrame:
    """The rows of `tables.accuracy` of the joined embeddings, or of another setting, by method."""
    return tables.by_method(tables.accuracy(records), metric, setting)
