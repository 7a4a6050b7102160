"""The repetitions of a study that count: those that all of its methods have finished, as preregistered."""

from collections.abc import Sequence
from functools import lru_cache

import pandas as pd

from dmlrc import studies
from dmlrc.records import PRETRAINED, StudyRecords, died


def lost_searches(study: StudyRecords) -> pd.DataFrame:
    """The searches that were made whole and of which no trial ended with a number: method, repetition."""
    trials = study.trials.assign(ended=~died(study.trials), complete=study.trials["state"] == "complete")
    searches = trials.groupby(["method", "repetition"])[["ended", "complete"]].sum()
    whole = searches["ended"] >= max(study.meta["budget"]["trials"], 1)
    return searches[whole & (searches["complete"] == 0)].index.to_frame(index=False)


def finished(study: StudyRecords, methods: Sequence[str], reruns: int) -> pd.Index:
    """The numbers of the repetitions of which each of these methods has so many reruns, with a result or without.

    A method whose search is among `lost_searches`, which has nothing to rerun, is finished too.
    """
    nothing = lost_searches(study)
    ended = pd.concat([study.reruns[["method", "repetition"]], nothing.loc[nothing.index.repeat(reruns)]])
    counts = ended[ended["method"].isin(methods)].groupby(["repetition", "method"]).size().unstack()
    counts = counts.reindex(columns=methods).fillna(0)
    return counts.index[(counts >= reruns).all(axis=1)]


@lru_cache(maxsize=256)  # the same part of the same records is the same object, as these are
def whole(recorded: StudyRecords) -> StudyRecords:
    """The records of the finished repetitions alone; all of them where none, or every one, is finished.

    Extra searches of one method are dropped: they would dominate the estimate of search variance.
    """
    planned = recorded.meta.get("repetitions", 1)
    if planned < 2:
        return recorded
    study = studies.known().get(recorded.name)
    methods = [method.name for method in study.methods] if study else list(recorded.trials["method"].unique())
    done = finished(recorded, methods, recorded.meta["budget"]["reruns"])
    if not 0 < len(done) < planned:
        return recorded
    return recorded.changed(
        lambda _, frame: frame[frame["repetition"].isin(done) | (frame["method"] == PRETRAINED)],
        meta=recorded.meta | {"repetitions": len(done)},
    )


@lru_cache(maxsize=256)
def of_finished_methods(recorded: StudyRecords) -> StudyRecords:
    """The records of the methods that have finished every planned repetition, and of the untrained trunk."""
    planned, reruns = recorded.meta.get("repetitions", 1), recorded.meta["budget"]["reruns"]
    methods = recorded.trials["method"].unique()
    done = [method for method in methods if len(finished(recorded, [method], reruns)) >= planned]
    if len(done) == len(methods):
        return recorded
    return recorded.changed(lambda _, frame: frame[frame["method"].isin([*done, PRETRAINED])])
