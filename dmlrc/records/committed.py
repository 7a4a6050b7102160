"""Finished records, in results/: a Parquet file a frame and a meta.json with their checksums, written whole or not."""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from pyarrow import ArrowException, BufferReader, parquet

from dmlrc import paths
from dmlrc.errors import DmlrcError
from dmlrc.records.files import way_out_of, write_sealed
from dmlrc.records.frames import COLUMNS, FRAMES, StudyRecords, typed
from dmlrc.records.meta import RESTORE, read_meta
from dmlrc.records.schema import checked_columns
from dmlrc.records.underway import lock_file


def read_committed(study: str) -> StudyRecords | None:
    """The finished records of a study, None where there are none."""
    folder = paths.committed(study)
    return read_parquet(folder, study) if (folder / "meta.json").exists() else None


def read_parquet(folder: Path, study: str) -> StudyRecords:
    """The finished records in a folder. Raises DmlrcError for a table that is missing, damaged or of another form."""
    meta = read_meta(folder, study)
    files = {name: folder / f"{name}.parquet" for name in FRAMES}
    exported = meta.get("sha256")
    if exported is None:
        raise DmlrcError(f"{folder / 'meta.json'} has no checksums of the tables beside it. {RESTORE}")
    contents = {name: _reading(folder / name, Path.read_bytes) for name in exported}
    for name, checksum in exported.items():
        if hashlib.sha256(contents[name]).hexdigest() != checksum:
            raise DmlrcError(f"{folder / name} is not what was exported: restore it, for instance with `git checkout`")
    frames = {}
    for name, file in files.items():
        if file.name in exported:
            read = partial(_frame, contents[file.name], name, file)
            frames[name] = read if name == "curves" else read()
        elif file.exists():
            raise DmlrcError(f"{file} was not exported with the other records of its study: move it away")
        elif name != "arrays":  # for which only some protocols ask
            raise _missing(file)
    for name in ("trials", "reruns"):
        frames[name] = frames[name].assign(params=frames[name]["params"].map(json.loads))
    arrays = frames.get("arrays", typed(pd.DataFrame(columns=COLUMNS["arrays"]), "arrays"))
    return StudyRecords(**frames | {"arrays": arrays.assign(values=arrays["values"].map(list))}, meta=meta)


def _frame(contents: bytes, name: str, file: Path) -> pd.DataFrame:
    """A Parquet file as a frame. Without threads, and without opening it, which costs Arrow as much as all the rest."""
    table = _reading(file, lambda _: parquet.ParquetFile(BufferReader(contents)).read(use_threads=False))
    return typed(checked_columns(table.to_pandas(use_threads=False), COLUMNS[name], file), name)


def _missing(path: Path) -> DmlrcError:
    return DmlrcError(f"{path} is missing: restore it, for instance with `git checkout -- {path}`")


def _reading(path: Path, read: Callable[[Path], Any]) -> Any:
    """Guard the reading of a committed file. Raises DmlrcError, with the way out, where it cannot be read."""
    try:
        return read(path)
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, ValueError, ArrowException) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DmlrcError(
            f"{path} is damaged ({reason}): restore it, for instance with `git checkout -- {path}`"
        ) from None


def sha256(path: Path) -> str:
    """The checksum of a file, as meta.json of finished records has it."""
    return hashlib.sha256(_reading(path, Path.read_bytes)).hexdigest()


def write(study: str, load: Callable[[], StudyRecords], complete: bool) -> Path:
    """Write the records of a study to results/, in the place of those there, whole or not at all; return their folder.

    load: reads them while no other process writes there, since those that it replaces may be among them.
    """
    target, root = paths.results() / study, paths.results()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with paths.kept(lock_file(root, study), f"another process exports {study!r}: let it end", wait=60):
            try:
                target.mkdir(parents=True, exist_ok=True)
                _recover(target)
                with _replaced_files(target) as folder:
                    _write_parquet(load(), folder, complete)
            finally:
                _recover(target)
                with contextlib.suppress(OSError):
                    target.rmdir()  # where nothing could be written
    except OSError as error:
        raise DmlrcError(f"cannot write {target} ({error.strerror}): {way_out_of(error)}, and export again") from None
    return target


@contextlib.contextmanager
def _replaced_files(target: Path) -> Iterator[Path]:
    """An empty folder, whose files take the place of those of `target` at the end of the block; its folders stay.

    Stopped at any moment, it leaves what was there before, see `paths.committed` and `_recover`.
    """
    with tempfile.TemporaryDirectory(dir=target, prefix=".") as temporary:
        new, old = Path(temporary, "new"), Path(temporary, "old")
        new.mkdir()
        yield new
        old.mkdir()
        for path in _files(target):
            shutil.copy2(path, old)
        _sync(new)
        _sync(old)
        old.rename(target / paths.BEFORE)  # from now on what is there before counts, until this folder is gone
        _sync(target)
        for path in _files(target):
            path.unlink()
        for path in _files(new):
            path.rename(target / path.name)
        _sync(target)
        (target / paths.BEFORE).rename(old)


_FILES = (*(f"{name}.parquet" for name in FRAMES), "meta.json")


def _files(folder: Path) -> list[Path]:
    """The files of an export that are in a folder; what else lies there is not of the records."""
    return [folder / name for name in _FILES if (folder / name).is_file()]


def _sync(folder: Path) -> None:
    """Have the records in a folder on the disk, with their names, before what is done next."""
    for path in (*_files(folder), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError:
            if path != folder:  # which some disks cannot do
                raise
        finally:
            os.close(handle)


def _recover(target: Path) -> None:
    """Put committed records back that an export left aside which was stopped at a bad moment."""
    before = target / paths.BEFORE
    if not before.is_dir():
        return
    for path in _files(target):
        path.unlink()
    for path in _files(before):
        shutil.copy2(path, target)
    _sync(target)
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
