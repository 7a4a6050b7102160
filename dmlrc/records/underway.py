"""Records of a study under way, in runs/: a JSON file a unit, written by one process."""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from dmlrc import paths
from dmlrc.errors import DmlrcError
from dmlrc.protocol import digest
from dmlrc.records.files import finite, read_json, unsealed, unwritable, write_sealed
from dmlrc.records.frames import StudyRecords, from_units, with_all_folds
from dmlrc.records.meta import read_meta
from dmlrc.records.schema import UnitRecord, checked


def unit_path(record: Mapping) -> Path:
    """Path of the record of a unit, relative to the folder of its study."""
    return Path(record["method"], f"{record['repetition']}-{record['kind']}-{record['number']:03d}.json")


def unit_files(folder: Path) -> list[Path]:
    """The files with records of units in the folder of a study under way, in their order.

    Experiments around it lie in the same folder; the meta.json of one is where a method has its records.
    """
    files = (path for path in folder.glob("*/*.json") if path.name != "meta.json")
    return sorted(path for path in files if not path.parent.name.startswith(paths.ASIDE))


def model_path(record: Mapping, study: str) -> Path:
    """Path of the model of a rerun, if it was kept: beside its record."""
    return (paths.runs() / study / unit_path(record)).with_suffix(".safetensors")


def is_begun(study: str) -> bool:
    """Tell whether there are records of a study here; a meta.json alone is of a run that came to nothing.

    Raises DmlrcError for records without a meta.json, which would be taken for none, and made again over them.
    """
    folder = paths.runs() / study
    begun = any(unit_files(folder))
    if begun and not (folder / "meta.json").exists():
        raise DmlrcError(
            f"the records in {folder} have no meta.json: restore it, or move the folder away and begin the study anew"
        )
    return begun


def run_here(study: str) -> StudyRecords | None:
    """Records of what was run of a study here, None where nothing was."""
    folder = paths.runs() / study
    if not is_begun(study):
        return None
    meta = read_meta(folder, study)
    configuration, is_sealed = digest(meta), meta.get("sealed", False)
    units = [read_unit(path, configuration, is_sealed) for path in unit_files(folder)]
    return with_all_folds(from_units(units, meta), folder)


def read_unit(path: Path, configuration: str, is_sealed: bool) -> dict:
    """Read a record of a study whose configuration has this digest. is_sealed: whether it must have a checksum.

    Raises DmlrcError where it is damaged, holds what cannot be, lies where another one belongs, or is of another
    configuration.
    """
    unit = checked(UnitRecord, unsealed(read_json(path), path, is_older=not is_sealed), path)
    study = path.parents[1].relative_to(paths.runs()).as_posix()
    right, named = unit_path(unit), unit.get("study", study)
    if path.relative_to(path.parents[1]) != right or named != study:  # a copy must not count as a run of its own
        raise DmlrcError(f"the record {path} says that it is {right} of study {named!r}: move it there, or away")
    if unit.get("digest", configuration) != configuration:
        raise DmlrcError(
            f"the record {path} was made under another configuration than meta.json of its study says: move it away, "
            "and it is made again"
        )
    return unit


def write_unit(record: Mapping, study: str) -> None:
    """Write the record of a unit where it belongs, if it holds what a record may hold."""
    path = paths.runs() / study / unit_path(record)
    write_sealed(path, checked(UnitRecord, finite(record), path))


SAME = 1e-4
"""Scores this near are those of the same model."""


def is_repeated(record: Mapping, study: str) -> bool:
    """Tell whether a record here has the same setting and scores as this one."""
    path = paths.runs() / study / unit_path(record)
    if not path.exists():
        return False
    before, scores = checked(UnitRecord, unsealed(read_json(path), path), path), finite(record["scores"])
    if before.get("params") != record["params"] or before.get("scores", {}).keys() != scores.keys():
        return False
    return all(_are_same(before["scores"][setting], values) for setting, values in scores.items())


def _are_same(one: Mapping[str, float | None], other: Mapping[str, float | None]) -> bool:
    pairs = [(one[name], other[name]) for name in one.keys() & other.keys()]
    known = [pair for pair in pairs if pair != (None, None)]
    return one.keys() == other.keys() and all(None not in pair and abs(pair[0] - pair[1]) <= SAME for pair in known)


def set_aside(study: str, units: Iterable[Mapping]) -> Path | None:
    """Move the records of these units of one method, made here, to a folder beside them, where nothing reads them.

    Their models go with them. Returns the folder; None where all of them are committed ones.
    """
    records = [paths.runs() / study / unit_path(unit) for unit in units]
    files = [path for path in (*records, *(path.with_suffix(".safetensors") for path in records)) if path.exists()]
    if not files:
        return None
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    folder = files[0].parent / f"{paths.ASIDE}{now}"
    folder.mkdir()  # a folder that is there has records of the same names: a move into it would overwrite them
    for path in files:
        with contextlib.suppress(FileNotFoundError):  # another run has moved it since
            path.rename(folder / path.name)
    return folder


@contextlib.contextmanager
def running(study: str, methods: Iterable[str]) -> Iterator[DmlrcError | None]:
    """Keep these methods of a study to this process, to the end of the block or its own; yield why it cannot, if so,
    which is not raised: who finds nothing to run in the block needs no right to write, and waits for nobody.
    """
    folder, refused = paths.runs(), None
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name in dict.fromkeys(methods):
                refusal = f"another process runs {name} of study {study!r}: let it end, or run other methods of it"
                stack.enter_context(paths.kept(lock_file(folder, study, name), refusal))
        except OSError as error:
            refused = unwritable(folder, error)
        except DmlrcError as error:
            refused = error
        yield refused


@contextlib.contextmanager
def writing_meta(study: str) -> Iterator[Path]:
    """Keep the meta.json of a study, which is read and then written, to this block."""
    with paths.kept(lock_file(paths.runs(), study), f"another process writes meta.json of {study!r}", wait=60):
        yield paths.runs() / study / "meta.json"


def lock_file(folder: Path, *of: str) -> Path:
    """File that a process locks in a folder of runs: of a study and a method that it runs, of a study its meta.json.

    Its digest tells names apart that would be one with their dots and slashes replaced, and has room on every disk.
    """
    words, digest = "-".join(of).replace("/", "-").encode()[:80], hashlib.sha256("\0".join(of).encode()).hexdigest()
    return folder / f".{words.decode(errors='ignore')}-{digest[:16]}.lock"


def unit_problems(study: str) -> list[str]:
    """Faults of the files of a study under way, a sentence each."""
    sentences, folder = [], paths.runs() / study
    try:
        if not is_begun(study) and not (folder / "meta.json").exists():
            return []
        meta = read_meta(folder, study)
    except DmlrcError as error:
        return [str(error)]
    for path in sorted(folder.glob("*/*")):
        try:
            if path.suffix in (paths.PART, ".safetensors") or path.name == "meta.json":
                continue
            if path.is_dir() and (path.name.startswith(paths.ASIDE) or any(path.parent.rglob("meta.json"))):
                continue  # set aside, or an experiment around this one
            if path.suffix != ".json":
                raise DmlrcError(f"{path} is no record: move it away")
            read_unit(path, digest(meta), meta.get("sealed", False))
        except DmlrcError as error:
            sentences.append(str(error))
    return sentences
