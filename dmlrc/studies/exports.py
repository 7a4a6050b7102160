"""Records for other tools: an Optuna journal of the searches, and CSV of everything."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path

import pandas as pd

from dmlrc import paths, plan, records, search
from dmlrc.errors import MissingDataError
from dmlrc.protocol import Study
from dmlrc.studies import recorded


def to_journal(study: Study, path: Path) -> list[str]:
    """Write the searches of a study to a new Optuna journal, each as an Optuna study, and return their names.

    A search is named "study/method/repetition" and has as attributes its study, data set, method, repetition, seed and
    commit. A trial has those of its commit, processor, device, torch, steps, the seeds of its folds, and the reason
    where it gave no value. Where a record does not say when it was finished, its trial begins as the one before it
    ends, the first one as the study does; the attribute "dates" says so.

    Raises UsageError if the file exists, MissingDataError if there is no trial, DmlrcError if it cannot be written.
    """
    kept, written = records.load(study.name), []
    with paths.new_target(path) as new:
        searches = range(max(study.repetitions, kept.meta["repetitions"]))
        for repetition, method in product(searches, study.methods):
            of_search = (kept.trials["method"] == method.name) & (kept.trials["repetition"] == repetition)
            trials = kept.trials[of_search].sort_values("trial").to_dict("records")
            if not trials:
                continue
            dated = all(isinstance(trial["finished"], str) for trial in trials)
            name = f"{study.name}/{method.name}/{repetition}"
            attributes = {
                "study": study.name,
                "dataset": study.dataset,
                "method": method.name,
                "repetition": repetition,
                "seed": plan.repetition_seed(study.seed, repetition),
                "commit": kept.meta["commit"],
                "dates": "recorded" if dated else "durations are recorded, dates are not",
            }
            search.write_journal(new, name, method, list(_timed(trials, kept, dated)), attributes)
            written.append(name)
        if not written:
            raise MissingDataError(f"study {study.name!r} has no trials: it has no search to export")
    return written


def of_python(study: Study) -> Path:
    """Write the records of a study to results/ that was made in Python, of whose methods the names alone are known.

    study: as `dmlrc.studies.recorded.named` gives it.
    """
    done, total = recorded.count(study)
    kept = records.load(study.name)
    died = any(records.died(frame).any() for frame in (kept.trials, kept.reruns))
    return records.export_records(study.name, done == total and not died)


_ATTRIBUTES = (*records.MADE_BY, "steps", "reason")


def _timed(trials: Sequence[dict], kept: records.StudyRecords, dated: bool) -> Iterator[dict]:
    """The trials of one search with started, finished (local time, as Optuna's own) and attributes."""
    runs = kept.runs[kept.runs["kind"] == "trial"].set_index(["method", "repetition", "number"]).sort_index()
    ended = _local(kept.meta["created"])
    for trial in trials:
        taken = timedelta(seconds=trial["seconds"])
        ended = _local(trial["finished"]) if dated else ended + taken
        key = (trial["method"], trial["repetition"], trial["trial"])
        seeds = [int(seed) for seed in runs.loc[[key], "seed"]] if key in runs.index else []
        attributes = {name: trial[name] for name in _ATTRIBUTES if pd.notna(trial[name])}
        yield trial | {"started": ended - taken, "finished": ended, "attributes": attributes | {"seeds": seeds}}


def _local(moment: str) -> datetime:
    return datetime.fromisoformat(moment).astimezone().replace(tzinfo=None)


def to_csv(study: Study, folder: Path) -> Path:
    """Write every frame of a study's records as CSV into a folder, and its meta.json; nested values as JSON.

    Raises UsageError for a folder that is not empty, DmlrcError where it cannot be written.
    """
    kept = records.load(study.name)
    with paths.new_target(folder) as new:
        new.mkdir()
        (new / "meta.json").write_text(json.dumps(kept.meta, indent=1))
        for name in records.FRAMES:
            frame = getattr(kept, name)
            nested = {column: frame[column].map(json.dumps) for column in ("params", "values") if column in frame}
            frame.assign(**nested).to_csv(new / f"{name}.csv", index=False)
    return folder
