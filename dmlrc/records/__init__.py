"""Records: what trials and reruns leave on disk, and the tables read from them.

While a study runs, each finished trial or rerun is one JSON file in runs/<study>/<method>/, written
atomically by one process (`dmlrc.records.underway`). A finished study is exported to results/<study>/ as a few Parquet
files, which are committed (`dmlrc.records.committed`). `load` reads either, into the same data frames
(`dmlrc.records.frames`). In the folder of a methods table lie those of the experiments around it, which have names of
their own.
"""

# ruff: noqa: F401 (much is imported only to be called by the name of this folder)

import contextlib
import copy
import functools
import json
import stat
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from dmlrc import names, paths
from dmlrc.errors import DmlrcError, MissingDataError
from dmlrc.methods import PRETRAINED
from dmlrc.paths import recorded_in
from dmlrc.records import committed, meta, underway
from dmlrc.records.committed import sha256
from dmlrc.records.files import read_json, write_json, write_sealed, write_whole
from dmlrc.records.frames import (
    COLUMNS,
    FRAMES,
    MADE_BY,
    StudyRecords,
    died,
    from_units,
    joined,
    only,
    read_fingerprint,
)
from dmlrc.records.meta import grown, protocol, read_meta, read_raw_meta
from dmlrc.records.underway import (
    is_begun,
    is_repeated,
    model_path,
    running,
    set_aside,
    unit_path,
    write_unit,
    writing_meta,
)


def load(study: str) -> StudyRecords:
    """Read the records of a study: those made here (runs/), and the committed ones (results/).

    They are read again only where a file has changed since the last time. All of it is the caller's own: the columns of
    a frame are copied once they are written to, what is nested in them is copied here.

    Parameters
    ----------
    study : name of a study

    Returns
    -------
    StudyRecords, a frame a kind of fact

    Raises
    ------
    MissingDataError
        Where there are none.
    DmlrcError
        For records that are damaged, or do not fit together.
    """
    study = names.current(study)
    folders = paths.runs() / study, paths.committed(study)
    return _copied(_load(study, folders, tuple(map(_state, folders))))


_derived: dict | None = None
"""What was derived from records within `shared`; None outside of it."""


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """Hand out the same records to all readers in this block, who change nothing of them: pages, for instance.

    What is computed from them is then found again, since the same object is the same records; see `derived_once`.
    """
    global _derived
    before, _derived = _derived, {} if _derived is None else _derived
    try:
        yield
    finally:
        _derived = before


def derived_once(key: Callable[..., Hashable]) -> Callable[[Callable], Callable]:
    """Make a function keep, within `shared`, what it returned for arguments of this key; outside it computes anew."""

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def once(*arguments: Any) -> Any:
            if _derived is None:
                return function(*arguments)
            place = function, key(*arguments)
            if place not in _derived:
                _derived[place] = function(*arguments)
            return _derived[place]

        return once

    return decorate


@derived_once(lambda cached: cached)
def _copied(cached: StudyRecords) -> StudyRecords:
    return cached.changed(lambda _, frame: _own(frame), meta=copy.deepcopy(cached.meta))


def _own(frame: pd.DataFrame) -> pd.DataFrame:
    nested = {column: list(map(copy.copy, frame[column])) for column in _NESTED if column in frame}
    return frame.assign(**{column: pd.Series(values, frame.index, object) for column, values in nested.items()})


_NESTED = ("params", "values")
"""Columns of dictionaries and lists."""


def find(study: str) -> StudyRecords | None:
    """Load as `load` does, None for a study without records."""
    try:
        return load(study)
    except MissingDataError:
        return None


def _state(folder: Path) -> tuple:
    """State of a folder, which differs when a record in it was written again, or one came or went."""
    files = []
    for path in sorted([*folder.glob("*"), *underway.unit_files(folder)]):
        with contextlib.suppress(FileNotFoundError):  # another run has renamed it since
            is_file, *facts = _facts(path)
            if is_file:
                files.append((path, *facts))
    return tuple(files)


def _facts(path: Path) -> tuple[bool, int, int, int]:
    """Facts that tell a file from one that was written again, behind whether it is one."""
    facts = path.stat()
    return stat.S_ISREG(facts.st_mode), facts.st_ino, facts.st_mtime_ns, facts.st_size


@lru_cache(maxsize=256)  # larger than the number of studies in the book
def _load(study: str, folders: tuple[Path, Path], states: tuple) -> StudyRecords:
    """The records in these folders, which are those of `paths`, in this state."""
    here, finished = underway.run_here(study), committed.read_committed(study)
    if here and finished and meta.configuration(here.meta) == meta.configuration(finished.meta):
        return joined(here, finished)
    if here or finished:
        return here or finished
    raise MissingDataError(f"study {study!r} has no records here: make them with `dmlrc study run {study}`")


def finished_units(study: str, configuration: dict) -> list[dict]:
    """Finished units of a study: method, repetition, kind, number, state, params and, of a trial, value.

    The oldest reruns do not say their params: those of the best of all trials, None where nothing was searched.

    Raises DmlrcError where the records were made under another configuration than this one.
    """
    if not (records := find(study)):
        return []
    check_configuration(study, records.meta, configuration)
    units = [
        row | {"kind": kind, "number": row[kind], "fingerprint": read_fingerprint(row["fingerprint"])}
        for kind, frame in (("trial", records.trials), ("rerun", records.reruns))
        for row in frame.to_dict("records")
    ]
    if silent := [unit for unit in units if unit["params"] is None]:
        trials = records.trials[records.trials["state"] == "complete"].set_index(["method", "repetition"])
        best = trials.sort_values("value", ascending=False, kind="stable")["params"].groupby(level=[0, 1]).first()
        for unit in silent:
            unit["params"] = best.get((unit["method"], unit["repetition"]))
    pretrained = {"method": PRETRAINED, "kind": PRETRAINED, "repetition": 0, "number": 0}
    return units + ([pretrained] if PRETRAINED in set(records.scores["method"]) else [])


def check_configuration(study: str, before: dict, configuration: dict) -> None:
    """Raise DmlrcError where the records of a study, which have this meta, are of another configuration than this."""
    if configuration["contents"] not in (None, before["contents"]):  # None: the folder is not here
        facts = before["data"]
        raise DmlrcError(
            f"the images of {before['dataset']!r} are not those of the records of study {study!r} "
            f"({facts['images']:,} images of {facts['classes']:,} classes then): {_make_room(study)}give the study "
            "another name"
        )
    configuration = configuration | {"contents": before["contents"]}
    differing = meta.differing_fields(meta.configuration(before), json.loads(json.dumps(configuration)))
    if differing:
        raise DmlrcError(
            f"the records of study {study!r} were made under another configuration ({'; '.join(differing)}): "
            f"{_make_room(study)}give the study another name"
        )


def _make_room(study: str) -> str:
    """Say what to do about the records of a study that were made here; committed ones stay where they are."""
    return f"move what it has in {paths.runs() / study} away, or " if is_begun(study) else ""


def published() -> list[str]:
    """The studies whose full-budget records are committed and complete."""
    return [name for name in recorded_in(paths.results()) if is_published(name)]


def is_published(study: str) -> bool:
    """Tell whether the full-budget records of a study are committed and complete."""
    file = paths.committed(study) / "meta.json"
    return file.exists() and _is_published(file, _facts(file))


@lru_cache(maxsize=1024)  # a page asks dozens of times for a hundred of them
def _is_published(path: Path, state: tuple) -> bool:
    facts = read_raw_meta(path)
    return facts["budget"]["name"] == "full" and bool(facts.get("complete"))


def export_records(study: str, complete: bool) -> Path:
    """Write the records of a study that was run here to results/<study>/ as Parquet, with those already there.

    Its records there are replaced whole or not at all; those of other studies in folders below it stay. complete:
    whether nothing of the study is missing; only such studies are published.
    """
    if underway.run_here(study) is None:
        if (paths.committed(study) / "meta.json").exists():
            raise MissingDataError(
                f"study {study!r} was not run here, and what is known of it is in {paths.results() / study} already: "
                "--csv FOLDER writes it elsewhere"
            )
        raise MissingDataError(f"study {study!r} was not run here: run it with `dmlrc study run {study}`, then export")
    return committed.write(study, lambda: load(study), complete)


def problems(study: str) -> list[str]:
    """Faults of the files of a study, here and committed, a sentence each; see `dmlrc.plan.study_problems`."""
    sentences = underway.unit_problems(study)
    try:
        if finished := committed.read_committed(study):
            finished.curves  # noqa: B018 (they are read when they are asked for)
    except DmlrcError as error:
        sentences.append(str(error))
    return sentences
