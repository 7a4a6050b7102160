"""The repetitions of a study that count: those that all of its methods have finished, as preregistered."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from dmlrc import studies
from dmlrc.records import FRAMES, PRETRAINED, StudyRecords


def finished(found: StudyRecords, methods: Sequence[str], reruns: int) -> pd.Index:
    """The numbers of the repetitions of which each of these methods has so many reruns, with a result or without."""
    made = found.reruns[found.reruns["method"].isin(methods)]
    counts = made.groupby(["repetition", "method"]).size().unstack()
    counts = counts.reindex(columns=methods).fillna(0)
    return counts.index[(counts >= reruns).all(axis=1)]


def whole(found: StudyRecords) -> StudyRecords:
    """The records of the finished repetitions alone; all of them where none, or every one, is finished.

    A method that is ahead of the others says little of their luck of search, and would stand for it.
    """
    planned = found.meta.get("repetitions", 1)
    if planned < 2:
        return found
    study = studies.known().get(found.name)
    methods = [each.name for each in study.methods] if study else list(found.trials["method"].unique())
    done = finished(found, methods, found.meta["budget"]["reruns"])
    if not 0 < len(done) < planned:
        return found
    frames = {name: getattr(found, name) for name in FRAMES}
    kept = {
        name: frame[frame["repetition"].isin(done) | (frame["method"] == PRETRAINED)] for name, frame in frames.items()
    }
    return replace(found, **kept, meta=found.meta | {"repetitions": len(done)})
