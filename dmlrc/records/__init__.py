"""Records: what trials and reruns leave on disk, and the tables read from them.

While a study runs, each finished trial or rerun is one JSON file in runs/<study>/<method>/, written
atomically by one process. A finished study is exported to results/<study>/ as a few Parquet files, which
are committed. `load` reads either, into the same data frames. In the folder of a methods table lie those of the
experiments around it, which have names of their own.
"""

import contextlib
import copy
import hashlib
import json
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dmlrc import names, paths
from dmlrc.errors import DmlrcError, MissingDataError
from dmlrc.methods import PRETRAINED
from dmlrc.protocol import Protocol, Study, default_settings, digest
from dmlrc.records import fingerprint
from dmlrc.records.files import PART, finite, read_json, unsealed, unwritable, way_out_of, write_sealed
from dmlrc.records.files import write_json as write_json
from dmlrc.records.files import write_whole as write_whole
from dmlrc.records.schema import Meta, Unit, checked, checked_columns

T = TypeVar("T")
_METHOD = ("method", "row", "level", "level_number", "repetition")
MADE_BY = ("commit", "processor", "device", "torch")
_OUTCOME = ("state", "params", "seconds", "steps", "reason", *MADE_BY, "finished", "fingerprint")
_RUN = ("fold", "seed", "state", "stopped", "best_step", "steps", "seconds")
COLUMNS = {
    "trials": (*_METHOD, "trial", "value", "proposals", *_OUTCOME),
    "reruns": (*_METHOD, "rerun", *_OUTCOME),
    "runs": (*_METHOD, "kind", "number", *_RUN, "val_map_at_r", "val_precision_at_1"),
    "scores": (*_METHOD, "rerun", "setting", "metric", "value"),
    "curves": (*_METHOD, "kind", "number", "fold", "step", "metric", "value"),
    "arrays": (*_METHOD, "rerun", "setting", "name", "values"),
}
FRAMES = tuple(COLUMNS)
NUMBERS = ("value", "level_number", "val_map_at_r", "val_precision_at_1")


@dataclass(frozen=True, eq=False)  # frames cannot be compared or hashed: the same object is the same records
class StudyRecords:
    """All records of one study as data frames, a row a fact; accuracies are fractions.

    Every frame has the columns method; row, level, level_number (of a method in a sweep, see `dmlrc.methods.Method`);
    and repetition, from 0.
    trials: trial, state ("complete", "diverged", "failed"), value (mean validation MAP@R over the folds, NaN if not
    complete), proposals (how many ran at a time), params (dict), seconds, steps, reason, commit, processor, device,
    torch (its version), finished (when, ISO 8601), fingerprint (of the method, as JSON; older records do not say the
    last five).
    reruns: rerun, and the same without a value; params is None in records that are older than this frame.
    runs: kind ("trial", "rerun"), number, fold, seed, state, stopped ("plateau", "limit", "diverged"), best_step,
    steps, seconds, val_map_at_r, val_precision_at_1.
    scores: rerun, setting ("separated", "concatenated", "fold0" ...), metric, value, on the test half. The method
    "pretrained" is the trunk before any training.
    curves: kind, number, fold, step, metric, value.
    arrays: rerun, setting, name, values (list): of "test", "train", "untrained" spectra and histogram counts, where the
    protocol asks for them; of "separated", "concatenated" the scores of the test classes ("class_map_at_r" ...)
    and how many queries each of them has ("queries").
    meta: study, kind, parent, experiment, dataset, protocol, budget, seed, class_order, data, environment, settings (of
    each method, those that are not searched), commit, created.
    """

    trials: pd.DataFrame
    reruns: pd.DataFrame
    runs: pd.DataFrame
    scores: pd.DataFrame
    curves: pd.DataFrame
    arrays: pd.DataFrame
    meta: dict[str, Any]

    @property
    def name(self) -> str:
        return self.meta["study"]

    @property
    def searches(self) -> int:
        """How often a method was searched and rerun, at most; a search without a rerun has nothing to compare yet."""
        return int(self.scores["repetition"].max()) + 1 if len(self.scores) else 0

    @property
    def level_numbers(self) -> dict[str, float]:
        """The numbers of a sweep's levels, by the words for them: "dim128" -> 128."""
        return dict(self.scores[["level", "level_number"]].drop_duplicates().dropna().to_numpy())


CONFIGURATION = ("study", "dataset", "protocol", "seed", "class_order", "contents")
"""The part of meta that all records of a study share."""
GROWING = ("budget", "repetitions")
"""The part of meta that may grow. The rest says where and when a study was run."""


def load(study: str) -> StudyRecords:
    """The records of a study: those made here (runs/), and the committed ones (results/).

    They are read again only where a file has changed since the last time. All of it is the caller's own: the columns of
    a frame are copied once they are written to, what is nested in them is copied here.
    """
    study = names.current(study)
    folders = paths.runs() / study, paths.committed(study)
    found = _load(study, folders, tuple(map(_state, folders)))
    frames = {name: _own(getattr(found, name)) for name in FRAMES}
    return StudyRecords(**frames, meta=copy.deepcopy(found.meta))


def _own(frame: pd.DataFrame) -> pd.DataFrame:
    nested = {column: [copy.copy(each) for each in frame[column]] for column in _NESTED if column in frame}
    return frame.assign(**{column: pd.Series(values, frame.index, object) for column, values in nested.items()})


_NESTED = ("params", "values")
"""Columns of dictionaries and lists."""


def find(study: str) -> StudyRecords | None:
    """As `load`, None for a study without records."""
    try:
        return load(study)
    except MissingDataError:
        return None


def _state(folder: Path) -> tuple:
    """What differs when a record in a folder was written again, or one came or went."""
    found = []
    for path in sorted([*folder.glob("*"), *unit_files(folder)]):
        with contextlib.suppress(FileNotFoundError):  # another run has renamed it since
            told = path.stat()
            if stat.S_ISREG(told.st_mode):
                found.append((path, told.st_ino, told.st_mtime_ns, told.st_size))
    return tuple(found)


@lru_cache(maxsize=256)  # more than a book has studies
def _load(study: str, folders: tuple[Path, Path], states: tuple) -> StudyRecords:
    """The records in these folders, which are those of `paths`, in this state."""
    here, committed = _run_here(study), _committed(study)
    if here and committed and _configuration(here.meta) == _configuration(committed.meta):
        return joined(here, committed)
    if here or committed:
        return here or committed
    raise MissingDataError(f"study {study!r} has no records here: make them with `dmlrc study run {study}`")


def is_published_whole(study: Study) -> bool:
    """Whether all records of a study are committed, and none was made here: told by its meta alone."""
    folder = paths.committed(study.name)
    if (paths.runs() / study.name / "meta.json").exists() or not (folder / "meta.json").exists():
        return False
    meta, asked = read_meta(folder, study.name), json.loads(json.dumps(study.configuration()))
    return bool(meta.get("complete")) and all(meta[name] == asked[name] for name in (*CONFIGURATION, *GROWING))


def published_fingerprints(study: str) -> list[tuple[str, dict | None]]:
    """Each method of the committed trials and reruns of a study with each fingerprint that it has there.

    Empty for records that are older than fingerprints. Of the files this column alone is read.
    """
    files = [paths.committed(study) / f"{kind}.parquet" for kind in ("trials", "reruns")]
    told = [
        _parquet(file, ["method", "fingerprint"]).drop_duplicates()
        for file in files
        if file.exists() and "fingerprint" in _reading(file, pq.read_schema).names
    ]
    return [(method, _fingerprint(each)) for frame in told for method, each in frame.itertuples(index=False)]


def finished_units(study: str, configuration: dict) -> list[dict]:
    """What is finished of a study: method, repetition, kind, number, state, params and, of a trial, value.

    Raises DmlrcError where the records were made under another configuration than this one.
    """
    try:
        found = load(study)
    except MissingDataError:
        return []
    if configuration["contents"] not in (None, found.meta["contents"]):  # None: the folder is not here
        facts = found.meta["data"]
        raise DmlrcError(
            f"the images of {found.meta['dataset']!r} are not those of the records of study {study!r} "
            f"({facts['images']:,} images of {facts['classes']:,} classes then): {_make_room(study)}give the study "
            "another name"
        )
    configuration = configuration | {"contents": found.meta["contents"]}
    differing = _differences(_configuration(found.meta), json.loads(json.dumps(configuration)))
    if differing:
        raise DmlrcError(
            f"the records of study {study!r} were made under another configuration ({'; '.join(differing)}): "
            f"{_make_room(study)}give the study another name"
        )
    units = [
        row | {"kind": kind, "number": row[kind], "fingerprint": _fingerprint(row["fingerprint"])}
        for kind, frame in (("trial", found.trials), ("rerun", found.reruns))
        for row in frame.to_dict("records")
    ]
    pretrained = {"method": PRETRAINED, "kind": PRETRAINED, "repetition": 0, "number": 0}
    return units + ([pretrained] if PRETRAINED in set(found.scores["method"]) else [])


def _make_room(study: str) -> str:
    """What to do about the records of a study that were made here; committed ones stay where they are."""
    return f"move what it has in {paths.runs() / study} away, or " if is_begun(study) else ""


def _fingerprint(told: str | None) -> dict | None:
    return json.loads(told) if isinstance(told, str) else None


def set_aside(study: str, units: Iterable[Mapping]) -> Path | None:
    """Move the records of these units of one method, made here, to a folder beside them, where nothing reads them.

    Returns the folder; None where all of them are committed ones.
    """
    found = [path for unit in units if (path := paths.runs() / study / unit_path(unit)).exists()]
    if not found:
        return None
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    folder = found[0].parent / f"{_ASIDE}{now}"
    folder.mkdir()  # a folder that is there has records of the same names: a move into it would overwrite them
    for path in found:
        with contextlib.suppress(FileNotFoundError):  # another run has moved it since
            path.rename(folder / path.name)
    return folder


_ASIDE = "replaced-"
"""How the folders of records begin that are of an earlier form of their method."""


def is_begun(study: str) -> bool:
    """Whether there are records of a study here; a meta.json alone is of a run that came to nothing.

    Raises DmlrcError for records without a meta.json, which would be taken for none, and made again over them.
    """
    folder = paths.runs() / study
    begun = any(unit_files(folder))
    if begun and not (folder / "meta.json").exists():
        raise DmlrcError(
            f"the records in {folder} have no meta.json: restore it, or move the folder away and begin the study anew"
        )
    return begun


@contextlib.contextmanager
def running(study: str, methods: Iterable[str]) -> Iterator[None]:
    """Keep these methods of a study to this process, until the end of the block or of the process, even killed.

    Raises DmlrcError where another process keeps one of them.
    """
    folder = paths.runs()
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name in dict.fromkeys(methods):
                refusal = f"another process runs {name} of study {study!r}: let it end, or run other methods of it"
                stack.enter_context(paths.kept(lock_file(folder, study, name), refusal))
        except OSError as error:
            raise unwritable(folder, error) from None
        yield


@contextlib.contextmanager
def writing_meta(study: str) -> Iterator[Path]:
    """Keep the meta.json of a study, which is read and then written, to this block."""
    with paths.kept(lock_file(paths.runs(), study), f"another process writes meta.json of {study!r}", wait=60):
        yield paths.runs() / study / "meta.json"


def lock_file(folder: Path, *of: str) -> Path:
    """What a process locks in a folder of runs: of a study and a method while it runs it, of a study its meta.json."""
    return folder / f".{'.'.join(of).replace('/', '.')}.lock"


def _run_here(study: str) -> StudyRecords | None:
    folder = paths.runs() / study
    if not is_begun(study):
        return None
    meta = read_meta(folder, study)
    return _with_all_folds(from_units(read_units(folder, digest(meta)), meta), folder)


def _committed(study: str) -> StudyRecords | None:
    folder = paths.committed(study)
    return _read_parquet(folder, study) if (folder / "meta.json").exists() else None


def _with_all_folds(records: StudyRecords, folder: Path) -> StudyRecords:
    """The records as they are. Raises DmlrcError where a complete unit lacks the run of a fold."""
    meta = records.meta
    runs = records.runs.groupby(_UNIT)["fold"].nunique()
    both = ("trials", records.trials), ("reruns", records.reruns)
    units = [_units(name, frame[frame["state"] == "complete"]) for name, frame in both]
    complete = pd.MultiIndex.from_frame(pd.concat(units))
    protocols = {name: meta["protocol"] | meta.get("changes", {}).get(name, {}) for name in complete.unique("method")}
    expected = [max(protocols[unit[0]]["folds"], 1) * protocols[unit[0]]["members"] for unit in complete]
    for method, repetition, kind, number in complete[runs.reindex(complete, fill_value=0).to_numpy() < expected]:
        raise DmlrcError(
            f"{kind} {number} of {method} in {folder}, repetition {repetition}, lacks the run of a fold: move its "
            "record away"
        )
    return records


def joined(here: StudyRecords, committed: StudyRecords) -> StudyRecords:
    """All records made here, and the committed ones of every trial and rerun that was not made here again.

    Of a method that has another fingerprint here than in the committed records, these are all left out.
    """
    frames, replaced = {}, _replaced(here, committed)
    # of all frames: a rerun that came to nothing here has no scores that would push out those of its predecessor
    again = pd.MultiIndex.from_frame(pd.concat([_units(name, getattr(here, name)) for name in FRAMES]))
    for name in FRAMES:
        own, other = getattr(here, name), getattr(committed, name)
        other = other[~other["method"].isin(replaced)]
        kept = ~pd.MultiIndex.from_frame(_units(name, other)).isin(again)
        frames[name] = pd.concat([other[kept], own], ignore_index=True)
    made = {*here.trials["method"], *here.reruns["method"]}
    of_methods = {}
    for part in ("settings", "changes"):
        kept = {name: each for name, each in committed.meta.get(part, {}).items() if name not in replaced}
        of_methods[part] = kept | {name: each for name, each in here.meta.get(part, {}).items() if name in made}
    return StudyRecords(**frames, meta=committed.meta | grown(committed.meta, here.meta) | of_methods)


def grown(old: Mapping, new: Mapping) -> dict[str, Any]:
    """The part of meta that may grow, of two metas of one study: the larger numbers, of which there are records."""
    larger = {name: max(old["budget"][name], new["budget"][name]) for name in ("trials", "reruns")}
    return {"budget": new["budget"] | larger, "repetitions": max(old["repetitions"], new["repetitions"])}


def only(found: StudyRecords, units: Iterable[Mapping]) -> StudyRecords:
    """The records of these units alone, and of the untrained trunk."""
    kept = pd.MultiIndex.from_tuples(
        [(PRETRAINED, 0, PRETRAINED, 0)] + [tuple(unit[name] for name in _UNIT) for unit in units], names=_UNIT
    )
    frames = {}
    for name in FRAMES:
        frame = getattr(found, name)
        chosen = pd.MultiIndex.from_frame(_units(name, frame)).isin(kept) | (frame["method"] == PRETRAINED).to_numpy()
        frames[name] = frame[chosen].reset_index(drop=True)
    return StudyRecords(**frames, meta=found.meta)


_UNIT = ["method", "repetition", "kind", "number"]


def _units(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """To which unit each row of a frame belongs: the columns _UNIT. name: of FRAMES."""
    kind = {"trials": "trial", "reruns": "rerun", "scores": "rerun", "arrays": "rerun"}.get(name)
    return (frame.rename(columns={kind: "number"}).assign(kind=kind) if kind else frame)[_UNIT]


def _replaced(here: StudyRecords, committed: StudyRecords) -> set[str]:
    """The methods whose committed records are of another fingerprint than those made here."""
    made, theirs = _fingerprints(here), _fingerprints(committed)
    return {
        method
        for method in made.keys() & theirs.keys()
        if any(fingerprint.differences(old, new) for new in made[method] if new for old in theirs[method])
    }


def _fingerprints(records: StudyRecords) -> dict[str, list[dict | None]]:
    """The different fingerprints of every method; None is that of records without one."""
    both = pd.concat([frame[["method", "fingerprint"]] for frame in (records.trials, records.reruns)])
    told = both.drop_duplicates().groupby("method")["fingerprint"]
    return {method: [_fingerprint(each) for each in values] for method, values in told}


def _configuration(meta: dict) -> dict:
    return {name: meta[name] for name in CONFIGURATION}


def _differences(old: Any, new: Any, path: str = "") -> list[str]:
    """The fields in which two nested dictionaries differ, each as 'protocol.lr 0.01 -> 0.001'.

    A field that only the new one has was introduced later, with a default that does what was done before.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        return [line for key in sorted(old) for line in _differences(old[key], new.get(key), f"{path}.{key}")]
    return [] if old == new else [f"{path.lstrip('.')} {old} -> {new}"]


def published() -> list[str]:
    """The studies whose full-budget records are committed and complete."""
    metas = {name: read_raw_meta(paths.committed(name) / "meta.json") for name in recorded_in(paths.results())}
    return [name for name, meta in metas.items() if meta["budget"]["name"] == "full" and meta.get("complete")]


def recorded_in(root: Path) -> list[str]:
    """The studies with records in a folder, `paths.runs()` or `paths.results()`, in the order of their names.

    Those are told by their meta.json, and in runs/ also by records without one, which `is_begun` refuses.
    """
    files = [(file, file.parent) for file in root.rglob("meta.json")]
    files += [(file, file.parents[1]) for file in root.rglob("*/[0-9]*-*.json")]
    apart = (".", _ASIDE)
    found = (
        folder for file, folder in files if not any(each.startswith(apart) for each in file.relative_to(root).parts)
    )
    return sorted({folder.relative_to(root).as_posix() for folder in found})


def export(study: str, complete: bool) -> Path:
    """Write the records of a study that was run here to results/<study>/ as Parquet, with those already there.

    Its records there are replaced whole or not at all; those of other studies in folders below it stay. complete:
    whether nothing of the study is missing; only such studies are published.
    """
    if _run_here(study) is None:
        if (paths.committed(study) / "meta.json").exists():
            raise MissingDataError(
                f"study {study!r} was not run here, and what is known of it is in {paths.results() / study} already: "
                "--csv FOLDER writes it elsewhere"
            )
        raise MissingDataError(f"study {study!r} was not run here: run it with `dmlrc study run {study}`, then export")
    records = load(study)
    target = paths.results() / study
    try:
        target.mkdir(parents=True, exist_ok=True)
        _recover(target)
        with replaced_files(target) as made:
            _write_parquet(records, made, complete)
    except OSError as error:
        raise DmlrcError(f"cannot write {target} ({error.strerror}): {way_out_of(error)}, and export again") from None
    finally:
        _recover(target)
        with contextlib.suppress(OSError):
            target.rmdir()  # where nothing could be written
    return target


@contextlib.contextmanager
def replaced_files(target: Path) -> Iterator[Path]:
    """An empty folder, whose files take the place of those of `target` at the end of the block; its folders stay.

    Stopped at any moment, it leaves what was there before, see `paths.committed` and `_recover`.
    """
    with tempfile.TemporaryDirectory(dir=target, prefix=".") as temporary:
        made, old = Path(temporary, "made"), Path(temporary, "old")
        made.mkdir()
        yield made
        old.mkdir()
        for path in _files(target):
            shutil.copy2(path, old)
        old.rename(target / paths.BEFORE)  # from now on what is there before counts, until this folder is gone
        for path in _files(target):
            path.unlink()
        for path in _files(made):
            path.rename(target / path.name)
        (target / paths.BEFORE).rename(old)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


def _recover(target: Path) -> None:
    """Put committed records back that an export left aside which was stopped at a bad moment."""
    before = target / paths.BEFORE
    if not before.is_dir():
        return
    for path in _files(target):
        path.unlink()
    for path in _files(before):
        shutil.copy2(path, target)
    with tempfile.TemporaryDirectory(dir=target, prefix=".") as temporary:
        before.rename(Path(temporary, "old"))


def _write_parquet(records: StudyRecords, folder: Path, complete: bool) -> None:
    for name in FRAMES:
        frame = getattr(records, name)
        if name in ("trials", "reruns"):
            frame = frame.assign(params=frame["params"].map(json.dumps))
        if name != "arrays" or len(frame):
            frame.to_parquet(folder / f"{name}.parquet", index=False, compression="zstd")
    written = {path.name: sha256(path) for path in sorted(folder.glob("*.parquet"))}
    write_sealed(folder / "meta.json", records.meta | {"complete": complete, "sha256": written})


def sha256(path: Path) -> str:
    """The checksum of a file, as meta.json of finished records has it."""
    return hashlib.sha256(_reading(path, Path.read_bytes)).hexdigest()


_RESTORE = (
    "Restore it, for instance with `git checkout` where it is committed; one of an earlier version is moved away with "
    "its folder, and the study run again. No record of the study counts without it"
)


def read_raw_meta(path: Path) -> dict:
    """A meta.json as it is; a damaged one, or one that says neither study nor budget, is named, with what to do."""
    told = read_json(path, _RESTORE)
    if not isinstance(told, dict) or not isinstance(told.get("budget"), dict) or not {"study"} <= told.keys():
        raise DmlrcError(f"{path} does not say of which study and budget it is. {_RESTORE}")
    return unsealed(told, path, _RESTORE)


def read_meta(folder: Path, study: str) -> dict:
    """The meta of a study in its folder; a setting of the protocol that was introduced later stands at its default."""
    path = folder / "meta.json"
    meta = checked(Meta, read_raw_meta(path), path, _RESTORE)
    if meta["study"] != study:
        raise DmlrcError(f"{path} is of study {meta['study']!r}: rename the folder, or move it away")
    return meta | {"protocol": json.loads(json.dumps(default_settings())) | meta["protocol"]}


def protocol(meta: Mapping) -> Protocol:
    """The protocol of records, of their meta."""
    return Meta.model_validate(meta).protocol


def _read_parquet(folder: Path, study: str) -> StudyRecords:
    meta = read_meta(folder, study)
    files = {name: folder / f"{name}.parquet" for name in FRAMES}
    exported = meta.get("sha256")
    if exported is None:
        raise DmlrcError(f"{folder / 'meta.json'} has no checksums of the tables beside it. {_RESTORE}")
    for name, checksum in exported.items():
        if not (folder / name).exists():
            raise _missing(folder / name)
        if sha256(folder / name) != checksum:
            raise DmlrcError(f"{folder / name} is not what was exported: restore it, for instance with `git checkout`")
    frames = {}
    for name, file in files.items():
        if file.name in exported:
            frames[name] = _typed(checked_columns(_parquet(file), COLUMNS[name], file), name)
        elif file.exists():
            raise DmlrcError(f"{file} was not exported with the other records of its study: move it away")
        elif name != "arrays":  # for which only some protocols ask
            raise _missing(file)
    for name in ("trials", "reruns"):
        frames[name] = frames[name].assign(params=frames[name]["params"].map(json.loads))
    arrays = frames.get("arrays", _frame([], "arrays"))
    return StudyRecords(**frames | {"arrays": arrays.assign(values=arrays["values"].map(list))}, meta=meta)


def _missing(path: Path) -> DmlrcError:
    return DmlrcError(f"{path} is missing: restore it, for instance with `git checkout -- {path}`")


def _parquet(path: Path, columns: list[str] | None = None) -> pd.DataFrame:
    return _reading(path, lambda file: pd.read_parquet(file, columns=columns))


def _reading(path: Path, read: Callable[[Path], T]) -> T:
    """What a committed file gives. Raises DmlrcError, with the way out, where it cannot be read."""
    try:
        return read(path)
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DmlrcError(
            f"{path} is damaged ({reason}): restore it, for instance with `git checkout -- {path}`"
        ) from None


def unit_path(record: Mapping) -> Path:
    """Where the record of a unit lies, relative to the folder of its study."""
    return Path(record["method"], f"{record['repetition']}-{record['kind']}-{record['number']:03d}.json")


def unit_files(folder: Path) -> list[Path]:
    """The files with records of units in the folder of a study under way, in their order.

    Experiments around it lie in the same folder; the meta.json of one is where a method has its records.
    """
    return sorted(path for path in folder.glob("*/*.json") if path.name != "meta.json")


def read_units(folder: Path, configuration: str) -> list[dict]:
    """Every record of a study under way, in the order of method, repetition, kind and number; see `read_unit`."""
    return [read_unit(path, configuration) for path in unit_files(folder)]


def read_unit(path: Path, configuration: str) -> dict:
    """One record of a study whose configuration has this digest.

    Raises DmlrcError where it is damaged, holds what cannot be, lies where another one belongs, or is of another
    configuration.
    """
    unit = checked(Unit, unsealed(read_json(path), path), path)
    _check_place(path, unit, path.parents[1].relative_to(paths.runs()).as_posix())
    if unit.get("digest", configuration) != configuration:
        raise DmlrcError(
            f"the record {path} was made under another configuration than meta.json of its study says: move it away, "
            "and it is made again"
        )
    return unit


def model_path(record: Mapping, study: str) -> Path:
    """Where the model of a rerun lies, if it was kept: beside its record."""
    return (paths.runs() / study / unit_path(record)).with_suffix(".safetensors")


def write_unit(record: Mapping, study: str) -> None:
    """Write the record of a unit where it belongs, if it holds what a record may hold."""
    path = paths.runs() / study / unit_path(record)
    write_sealed(path, checked(Unit, finite(record), path))


SAME = 1e-4
"""Scores this near are those of the same model."""


def is_repeated(record: Mapping, study: str) -> bool:
    """Whether a record here has the same setting and scores as this one."""
    path = paths.runs() / study / unit_path(record)
    if not path.exists():
        return False
    before = checked(Unit, unsealed(read_json(path), path), path)
    if before.get("params") != record["params"] or before.get("scores", {}).keys() != record["scores"].keys():
        return False
    return all(
        abs(before["scores"][setting][name] - value) <= SAME
        for setting, values in record["scores"].items()
        for name, value in values.items()
        if value is not None
    )


def problems(study: str) -> list[str]:
    """What is wrong with the files of a study, here and committed, a sentence each; see `dmlrc.plan.problems`."""
    said = []
    folder = paths.runs() / study
    try:
        configuration = digest(read_meta(folder, study)) if is_begun(study) or (folder / "meta.json").exists() else None
    except DmlrcError as error:
        said.append(str(error))
        configuration = None
    for path in sorted(folder.glob("*/*")) if configuration else []:
        try:
            if path.suffix in (PART, ".safetensors") or path.name == "meta.json":
                continue
            if path.is_dir() and (path.name.startswith(_ASIDE) or any(path.parent.rglob("meta.json"))):
                continue  # set aside, or an experiment around this one
            if path.suffix != ".json":
                raise DmlrcError(f"{path} is no record: move it away")
            read_unit(path, configuration)
        except DmlrcError as error:
            said.append(str(error))
    try:
        _committed(study)
    except DmlrcError as error:
        said.append(str(error))
    return said


def _check_place(path: Path, unit: Mapping, study: str) -> None:
    """Raise DmlrcError for a record that lies where another one belongs: a copy must not count as a run of its own."""
    right = unit_path(unit)
    if path.relative_to(path.parents[1]) != right or unit.get("study", study) != study:
        raise DmlrcError(
            f"the record {path} says that it is {right} of study {unit.get('study', study)!r}: move it there, or away"
        )


def from_units(units: Iterable[dict], meta: dict) -> StudyRecords:
    """The data frames of these records."""
    rows = {name: [] for name in FRAMES}
    for unit in units:
        of_method = {name: unit[name] for name in _METHOD}
        run_key = of_method | {"kind": unit["kind"], "number": unit["number"]}
        test_key = of_method | {"rerun": unit["number"]}
        told = {name: unit.get(name) for name in _OUTCOME}
        told["fingerprint"] = json.dumps(unit["fingerprint"], sort_keys=True) if unit.get("fingerprint") else None
        if unit["kind"] == "trial":
            trial = {"trial": unit["number"], "value": unit["value"], "proposals": unit["proposals"]}
            rows["trials"].append(of_method | trial | told)
        if unit["kind"] == "rerun":
            rows["reruns"].append(test_key | told)
        for run in unit["runs"]:
            facts = {name: run[name] for name in _RUN}
            rows["runs"].append(run_key | facts | {f"val_{metric}": value for metric, value in run["val"].items()})
            rows["curves"] += [
                run_key | {"fold": run["fold"], "step": row["step"], "metric": metric, "value": value}
                for row in run["curve"]
                for metric, value in row.items()
                if metric != "step"
            ]
        for frame, column in (("scores", "metric"), ("arrays", "name")):
            rows[frame] += [
                test_key | {"setting": setting, column: name, "values" if frame == "arrays" else "value": value}
                for setting, named in unit.get(frame, {}).items()
                for name, value in named.items()
            ]
    return StudyRecords(**{name: _frame(each, name) for name, each in rows.items()}, meta=meta)


def _frame(rows: list[dict], name: str) -> pd.DataFrame:
    return _typed(pd.DataFrame(rows, columns=COLUMNS[name]), name)


def _typed(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The frame with its columns in order, numbers as numbers where all of them are missing."""
    columns = COLUMNS[name]
    if tuple(frame.columns) != columns:
        frame = frame.reindex(columns=list(columns))
    other = [column for column in NUMBERS if column in columns and frame[column].dtype != float]
    return frame.astype(dict.fromkeys(other, float)) if other else frame
