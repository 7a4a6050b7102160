"""Bring records of earlier versions to today's form and names: `dmlrc study rewrite`. Nothing else reads those.

It stays until no clone at an earlier commit has a run under way whose records are still to come: seen from 2026-11-27,
the depths of MobileNetV2 and the searched rates on CUB-200 (2010), begun at 62c0a9a. Values, seeds, dates and commits
stay; what changes is how they are written down. A next change of form is one more of `STEPS`, which all leave today's
form as it is, so that the command can be given again.

What changed, the latest first:
- a study around another one is named `TABLE/EXPERIMENT` and lies in a folder of that name (before: `TABLE-EXPERIMENT`);
- a trial says how many were proposed at a time (before: one);
- repetitions of a search, and the reruns as a frame of their own (before: one repetition, numbered 0, and in the names
  of files not told);
- a sweep's rows have the columns row, level and level_number (before: all in the name, as "margin_12@dim128");
- a study has a kind, a parent and an experiment (before: all in its name);
- a folder of one's own images has a digest of its contents (before: none);
- settings of a protocol that were introduced later (before: what is now their default).
"""

import contextlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from dmlrc import names, paths, records
from dmlrc.errors import DmlrcError, UsageError
from dmlrc.protocol import default_settings, digest

Meta = dict[str, Any]


def rewrite(root: Path) -> Iterator[str]:
    """Rewrite the records of every study in a folder, runs/ or results/ of a clone; say of each that changes what does.

    A study that a process runs there is left as it is. Raises UsageError for no such folder, DmlrcError for records
    that are damaged, or have records under the new name beside them: those before them are rewritten.
    """
    if not root.is_dir():
        raise UsageError(f"there is no folder {root}: name one with records, such as runs or results")
    for name in records.recorded_in(root):
        with contextlib.ExitStack() as stack:
            try:
                for file in (held := _locks(root, name)):
                    stack.enter_context(paths.kept(file, "in use"))
            except DmlrcError:
                yield f"{name} is left as it is: a process runs it"
                continue
            said = _rewrite(root, name)
        if not (root / name / "meta.json").exists():
            for file in held:
                file.unlink(missing_ok=True)
        if said:
            yield said


def _locks(root: Path, study: str) -> list[Path]:
    """What a process locks that runs a study, as far as it is there."""
    own = records.lock_file(root, study).stem
    return [file for file in root.glob("*.lock") if file.stem == own or file.stem.startswith(f"{own}.")]


def _rewrite(root: Path, name: str) -> str | None:
    """What changed of a study's records, None where nothing had to."""
    folder = root / name
    told = records.read_raw_meta(folder / "meta.json")
    meta = today(told)
    target = root / meta["study"]
    moves = target != folder
    if moves and (target / "meta.json").exists():
        raise DmlrcError(f"{folder} and {target} both hold records of {meta['study']}: move one of them away")
    changed = _write_finished(folder, meta) if _is_finished(folder) else _write_units(folder, told, meta)
    if meta != told:
        records.write_sealed(folder / "meta.json", meta)
    if moves:
        _move(folder, target, root)
    named = f", and is now called {meta['study']}" if moves else ""
    return f"{name} has {changed + (meta != told)} files in today's form{named}" if changed or meta != told else None


def _is_finished(folder: Path) -> bool:
    return (folder / "runs.parquet").exists()


def _move(folder: Path, target: Path, root: Path) -> None:
    """Move a study's own files and those of its methods; experiments in folders below it have moves of their own."""
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.iterdir(), key=lambda path: path.name == "meta.json"):  # last: it says that all are there
        if path.is_file() or not records.recorded_in(path):
            shutil.move(path, target / path.name)
    for emptied in (folder, *folder.parents):
        if emptied == root or any(emptied.iterdir()):
            break
        emptied.rmdir()


# What a study says of itself


def today(told: Mapping[str, Any]) -> Meta:
    """The meta.json of a study in today's form and with today's names."""
    meta = dict(told)
    for step in STEPS:
        meta = step(meta)
    return meta


def _kinship(meta: Meta) -> Meta:
    if "kind" in meta:
        return meta
    name = meta["study"]
    table = next((each for each in _TABLES if name.startswith(f"{each}-")), None)
    if table is None:
        return meta | {"kind": "table", "parent": None, "experiment": None}
    kind = "rates" if meta["budget"]["name"] == "rate" else "experiment"
    return meta | {"kind": kind, "parent": table, "experiment": name.removeprefix(f"{table}-")}


_TABLES = (
    "glyphs-smoke",
    "glyphs-quick",
    "glyphs-full",
    "omniglot-full",
    "grocery-frozen-rate1e-4",
    "cars196crops-frozen-rate1e-4",
)
"""The tables there were while a study's kinship stood in its name alone."""


def _repetitions(meta: Meta) -> Meta:
    return {"repetitions": 1, "contents": None} | meta


def _settings(meta: Meta) -> Meta:
    return meta | {"protocol": json.loads(json.dumps(default_settings())) | meta["protocol"]}


def _names(meta: Meta) -> Meta:
    study, parent, experiment = names.renamed(meta["study"], meta["parent"], meta["experiment"])
    return meta | {"study": study, "parent": parent, "experiment": experiment}


STEPS = (_kinship, _repetitions, _settings, _names)
"""From the oldest form of a meta.json to today's, in this order."""


# Studies under way: a JSON file a unit


def _write_units(folder: Path, told: Meta, meta: Meta) -> int:
    """Rewrite the units of a study that its meta.json counts in, and return how many changed."""
    before, now = digest(_settings(told)), digest(meta)
    changed = 0
    for path in records.unit_files(folder):
        old = records.unsealed(records.read_json(path), path)
        new = unit(old)
        if "study" in new:
            new["study"] = meta["study"]
        if new.get("digest") == before:  # one of another configuration stays one
            new["digest"] = now
        right = folder / records.unit_path(new)
        if path.name == right.name.removeprefix("0-"):
            path = path.rename(right)  # as they were called before repetitions
        if new != old:
            records.write_sealed(path, new)
            changed += 1
    return changed


def unit(record: Mapping) -> dict:
    """The record of a trial or a rerun in today's form."""
    return {"repetition": 0, "proposals": 1, **place(record["method"]), **record}


def place(method: str) -> dict[str, str | float | None]:
    """The row, level and level_number of a method that was named `row@level`.

    >>> place("margin_12@decay4e-05")
    {'row': 'margin_12', 'level': 'decay4e-05', 'level_number': 4e-05}
    """
    row, _, level = method.partition("@")
    number = _NUMBER.fullmatch(level)
    return {"row": row, "level": level or None, "level_number": float(number[1] or number[2]) if number else None}


_NUMBER = re.compile(r"(?:dim|batch|decay|share|rate)(\d[\d.]*(?:e[+-]?\d+)?)|(\d+)px")


# Finished studies: a Parquet file a frame


def _write_finished(folder: Path, meta: Meta) -> int:
    """Rewrite those frames of a finished study that want it, with their checksums in `meta`; return how many."""
    files = {path.stem: path for path in sorted(folder.glob("*.parquet"))}
    for path in files.values():
        if meta.get("sha256", {}).get(path.name, records.sha256(path)) != records.sha256(path):
            raise DmlrcError(f"{path} is not what was exported: restore it, for instance with `git checkout`")
    told = {name: pd.read_parquet(path) for name, path in files.items()}
    new = frames(told, meta)
    rewritten = [name for name in new if name not in told or {*new[name]} != {*told[name]}]
    for name in rewritten:
        columns = [each for each in records.COLUMNS[name] if each in new[name]]
        new[name][columns].to_parquet(folder / f"{name}.parquet", index=False, compression="zstd")
    if "sha256" in meta:
        meta["sha256"] = {path.name: records.sha256(path) for path in sorted(folder.glob("*.parquet"))}
    return len(rewritten)


def frames(told: Mapping[str, pd.DataFrame], meta: Mapping) -> dict[str, pd.DataFrame]:
    """The frames of a finished study, as they were read, in today's form."""
    if "proposals" not in told["trials"]:
        told = {**told, "trials": told["trials"].assign(proposals=1)}
    if "reruns" in told:
        return dict(told)
    reruns = _reruns(told["runs"]).assign(commit=meta["commit"])
    return {name: _placed(frame.assign(repetition=0)) for name, frame in {**told, "reruns": reruns}.items()}


def _placed(frame: pd.DataFrame) -> pd.DataFrame:
    methods = frame["method"].unique()
    places = pd.DataFrame([place(name) for name in methods], methods, ["row", "level", "level_number"])
    return frame.assign(**{name: places.loc[frame["method"], name].to_numpy() for name in places})


def _reruns(runs: pd.DataFrame) -> pd.DataFrame:
    """The reruns of records that have them as runs only; which setting they took was not written down."""
    folds = runs[runs["kind"] == "rerun"].groupby(["method", "number"], sort=False)
    reruns = folds.agg(state=("state", "last"), seconds=("seconds", "sum"), steps=("steps", "sum")).reset_index()
    return reruns.rename(columns={"number": "rerun"}).assign(params="null", reason="")
