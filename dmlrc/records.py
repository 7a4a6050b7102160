"""Records: what trials and reruns leave on disk, and the tables read from them.

While a study runs, each finished trial or rerun is one JSON file in runs/<study>/<method>/, written
atomically by one process. A finished study is exported to results/<study>/ as a few Parquet files, which
are committed. `load` reads either, into the same data frames.
"""

import json
import math
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dmlrc import paths
from dmlrc.errors import DmlrcError, MissingDataError
from dmlrc.protocol import default_settings

PRETRAINED = "pretrained"
"""The name under which the accuracy of the untrained trunk is recorded; no method may be called so."""

FRAMES = ("trials", "runs", "scores", "curves", "arrays")
ARRAYS = "method rerun setting name values"


@dataclass(frozen=True)
class StudyRecords:
    """All records of one study as data frames, a row a fact; accuracies are fractions.

    trials: method, trial, state ("complete", "diverged"), value (mean validation MAP@R over the folds, NaN
    if diverged), params (dict), seconds, steps, reason, commit.
    runs: method, kind ("trial", "rerun"), number, fold, seed, state, stopped ("plateau", "limit",
    "diverged"), best_step, steps, seconds, val_map_at_r, val_precision_at_1.
    scores: method, rerun, setting ("separated", "concatenated", "fold0" ...), metric, value, on the test half.
    The method "pretrained" is the trunk before any training.
    curves: method, kind, number, fold, step, metric, value.
    arrays: method, rerun, setting ("test", "train", "untrained"), name, values (list): spectra and histogram counts,
    where the protocol asks for them.
    meta: study, dataset, protocol, budget, seed, class_order, data, environment, settings (of each method, those that
    are not searched), commit, created.
    """

    trials: pd.DataFrame
    runs: pd.DataFrame
    scores: pd.DataFrame
    curves: pd.DataFrame
    arrays: pd.DataFrame
    meta: dict[str, Any]

    @property
    def name(self) -> str:
        return self.meta["study"]


CONFIGURATION = ("study", "dataset", "protocol", "budget", "seed", "class_order")
"""The part of meta that a study fixes; the rest says where and when it was run."""


def load(study: str) -> StudyRecords:
    """The records of a study: those made here (runs/), and the committed ones (results/)."""
    here, committed = _run_here(study), _committed(study)
    if here and committed and _configuration(here.meta) == _configuration(committed.meta):
        return _join(here, committed)
    if here or committed:
        return here or committed
    raise MissingDataError(f"study {study!r} has no records here: make them with `dmlrc study run {study}`")


def finished_units(study: str, configuration: dict) -> list[dict]:
    """What is finished of a study: method, kind, number and, of a trial, state, value and params.

    Raises DmlrcError where the records were made under another configuration than this one.
    """
    try:
        found = load(study)
    except MissingDataError:
        return []
    differing = _differences(_configuration(found.meta), json.loads(json.dumps(configuration)))
    if differing:
        raise DmlrcError(
            f"the records of study {study!r} were made under another configuration ({'; '.join(differing)}): "
            f"move {paths.runs() / study} and {paths.results() / study} away, or give the study another name"
        )
    trials = [{"kind": "trial", "number": row["trial"], **row} for row in found.trials.to_dict("records")]
    reruns = found.runs[found.runs["kind"] == "rerun"][["method", "kind", "number"]].drop_duplicates()
    pretrained = [{"method": PRETRAINED, "kind": PRETRAINED}] if PRETRAINED in set(found.scores["method"]) else []
    return trials + reruns.to_dict("records") + pretrained


def _run_here(study: str) -> StudyRecords | None:
    folder = paths.runs() / study
    if not (folder / "meta.json").exists():
        return None
    return from_units(read_units(folder), _read_meta(folder))


def _committed(study: str) -> StudyRecords | None:
    folder = paths.results() / study
    return _read_parquet(folder) if (folder / "meta.json").exists() else None


def _join(here: StudyRecords, committed: StudyRecords) -> StudyRecords:
    """All records made here, and the committed ones of every trial and rerun that was not made here again."""
    frames = {}
    for name in FRAMES:
        own, other = getattr(here, name), getattr(committed, name)
        keys = [key for key in ("method", "kind", "trial", "number", "rerun") if key in own.columns]
        known = pd.MultiIndex.from_frame(own[keys])
        frames[name] = pd.concat([other[~pd.MultiIndex.from_frame(other[keys]).isin(known)], own], ignore_index=True)
    return StudyRecords(**frames, meta=committed.meta)


def _configuration(meta: dict) -> dict:
    return {name: meta[name] for name in CONFIGURATION}


def _differences(old: Any, new: Any, path: str = "") -> list[str]:
    """The fields in which two nested dictionaries differ, each as 'protocol.lr 0.01 -> 0.001'.

    A field that only the new one has was introduced later, with a default that does what was done before
    (those of a protocol are filled in by `_read_meta`).
    """
    if isinstance(old, dict) and isinstance(new, dict):
        return [line for key in sorted(old) for line in _differences(old[key], new.get(key), f"{path}.{key}")]
    return [] if old == new else [f"{path.lstrip('.')} {old} -> {new}"]


def published() -> list[str]:
    """The studies whose full-budget records are committed and complete."""
    metas = {path.parent.name: read_json(path) for path in sorted(paths.results().glob("*/meta.json"))}
    return [name for name, meta in metas.items() if meta["budget"]["name"] == "full" and meta["complete"]]


def export(study: str, complete: bool) -> Path:
    """Write the records of a study that was run here to results/<study>/ as Parquet, beside those already there.

    complete: whether nothing of the study is missing; only such studies are published.
    """
    if _run_here(study) is None:
        raise MissingDataError(f"study {study!r} was not run here: run it with `dmlrc study run {study}`, then export")
    records = load(study)
    target = paths.results() / study
    target.mkdir(parents=True, exist_ok=True)
    for name in FRAMES:
        frame = getattr(records, name)
        if name == "trials":
            frame = frame.assign(params=frame["params"].map(json.dumps))
        if name != "arrays" or len(frame):
            frame.to_parquet(target / f"{name}.parquet", index=False, compression="zstd")
    write_json(target / "meta.json", records.meta | {"complete": complete})
    return target


def _read_meta(folder: Path) -> dict:
    """The meta of a study; settings that are younger than its records have their defaults."""
    meta = read_json(folder / "meta.json")
    return meta | {"protocol": json.loads(json.dumps(default_settings())) | meta["protocol"]}


def _read_parquet(folder: Path) -> StudyRecords:
    frames = {name: pd.read_parquet(folder / f"{name}.parquet") for name in FRAMES if name != "arrays"}
    arrays = folder / "arrays.parquet"  # only where there are any
    frames["arrays"] = pd.read_parquet(arrays) if arrays.exists() else _frame([], ARRAYS)
    frames["trials"] = frames["trials"].assign(params=frames["trials"]["params"].map(json.loads))
    return StudyRecords(**frames, meta=_read_meta(folder))


def read_units(folder: Path) -> list[dict]:
    """Every record of a study under way, in the order of method, kind and number."""
    return [read_json(path) for path in sorted(folder.glob("*/*.json"))]


def from_units(units: Iterable[dict], meta: dict) -> StudyRecords:
    """The data frames of these records."""
    trials, runs, scores, curves, arrays = [], [], [], [], []
    for unit in units:
        key = {"method": unit["method"], "kind": unit["kind"], "number": unit["number"]}
        if unit["kind"] == "trial":
            fields = ("method", "state", "value", "params", "seconds", "steps", "reason", "commit")
            trials.append({"trial": unit["number"]} | {name: unit[name] for name in fields})
        for run in unit["runs"]:
            facts = {name: run[name] for name in ("fold", "seed", "state", "stopped", "best_step", "steps", "seconds")}
            val = {f"val_{metric}": value for metric, value in run["val"].items()}
            runs.append(key | facts | val)
            curves += [
                key | {"fold": run["fold"], "step": row["step"], "metric": metric, "value": value}
                for row in run["curve"]
                for metric, value in row.items()
                if metric != "step"
            ]
        scores += [
            {"method": unit["method"], "rerun": unit["number"], "setting": setting, "metric": metric, "value": value}
            for setting, values in unit.get("scores", {}).items()
            for metric, value in values.items()
        ]
        arrays += [
            {"method": unit["method"], "rerun": unit["number"], "setting": setting, "name": name, "values": values}
            for setting, named in unit.get("arrays", {}).items()
            for name, values in named.items()
        ]
    return StudyRecords(
        trials=_frame(trials, "method trial state value params seconds steps reason commit"),
        runs=_frame(
            runs,
            "method kind number fold seed state stopped best_step steps seconds val_map_at_r val_precision_at_1",
        ),
        scores=_frame(scores, "method rerun setting metric value"),
        curves=_frame(curves, "method kind number fold step metric value"),
        arrays=_frame(arrays, ARRAYS),
        meta=meta,
    )


def _frame(rows: list[dict], columns: str) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=columns.split())
    for column in frame.columns.intersection(["value", "val_map_at_r", "val_precision_at_1"]):
        frame[column] = frame[column].astype(float)
    return frame


def write_json(path: Path, value: dict) -> None:
    """Write a file whole or not at all; NaN is written as null."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as file:
            json.dump(_finite(value), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, path)
    except OSError as error:
        raise DmlrcError(
            f"cannot write {path} ({error.strerror}): make the folder writable or name another one in DMLRC_RUNS"
        ) from None


def read_json(path: Path) -> dict:
    """Read a record; a damaged one is named, with what to do about it."""
    try:
        return json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise DmlrcError(f"the record {path} is damaged: delete it, and it is made again") from None


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
