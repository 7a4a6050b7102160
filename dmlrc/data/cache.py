"""Disk cache of decoded images, computed features and unpacked archives.

All of it lies in $DMLRC_CACHE, else in the user's cache folder of the platform, and can be deleted at any time. What is
cached is written under another name and renamed at the end, so that a part of it is never read. Behind an array stands
its checksum, which each process compares once: what was changed is made again.

All images of a set are decoded into one uint8 array that is opened as a memory map. An RGB image takes 3 size^2 bytes:
at 256 pixels CUB200 takes 2.3 GB of disk, Cars196 3.2, In-Shop 10.4, SOP 23.6.
"""

import errno
import functools
import hashlib
import json
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from pathlib import Path
from typing import BinaryIO

import numpy as np
from tqdm import tqdm

from dmlrc import paths
from dmlrc.data.decoding import Form, absent, decode
from dmlrc.errors import DmlrcError

_FORMAT = 2  # raised when the same files would decode to other bytes, so that older arrays are no longer found
_ELSEWHERE = "set DMLRC_CACHE to a folder that can be"
_CHUNK = 256  # images decoded ahead of the writer


def cached_images(name: str, files: Sequence[Path], form: Form) -> np.ndarray:
    """Decode image files into one read-only memory map over a file of the cache: (N, channels, size, size) uint8.

    It is found again as long as no file has changed or moved; arrays of earlier files stay.

    name: of the data set, with which the cache file's name begins. files: N absolute paths.
    Raises DmlrcError for an image that cannot be decoded, or a cache that cannot be written, MissingDataError for a
    file that is not there.
    """
    if not files:
        raise DmlrcError(f"data set {name!r} lists no images: get it again")
    filename = f"{name}-{form.size}-{form.square}-{fingerprint(files, astuple(form))}.npy"
    shape = (len(files), form.channels, form.size, form.size)
    return cached_rows(filename, shape, "|u1", lambda: decode_all(name, files, form))


def cached_array(filename: str, make: Callable[[], np.ndarray]) -> np.ndarray:
    """Open the array in this file of the cache as a memory map, made by `make` and saved if it is not there yet.

    filename must say everything that the array depends on.
    """
    return _cached(filename, lambda stream: np.save(stream, make(), allow_pickle=False))


def cached_rows(filename: str, shape: tuple[int, ...], dtype: str, make: Callable[[], Iterable]) -> np.ndarray:
    """Open an array too large for the memory as `cached_array`: `make` yields its rows in order, some at a time."""

    def write(stream: BinaryIO) -> None:
        np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
        for rows in make():
            stream.write(np.ascontiguousarray(rows, dtype=dtype).tobytes())

    return _cached(filename, write)


def clear(filename: str) -> None:
    """Remove a cached array, if it is there."""
    (paths.cache() / _portable(filename)).unlink(missing_ok=True)


def cached_folder(name: str, fill: Callable[[Path], None]) -> Path:
    """Find the folder of this name in the cache, filled by `fill` if it is not there yet; complete or not there at all.

    name must say everything that the content depends on.
    """
    target = paths.cache() / name
    if not target.is_dir():
        with paths.explained(f"the cache {target} cannot be written", _ELSEWHERE):
            build_folder(target, fill)
    return target


def build_folder(target: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder beside the target and rename it at the end, so that a half-filled one is never found."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as temporary:
        filled = Path(temporary) / target.name
        filled.mkdir()  # with the usual permissions, which the temporary folder does not have
        fill(filled)
        if hasattr(os, "sync"):  # once for all: to wait for each of 100,000 images would take minutes
            os.sync()
        try:
            os.replace(filled, target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # else another process was quicker
                raise


def fingerprint(files: Sequence[Path], use: object) -> str:
    """Change with the list of files, any file's path, length or time of change, and with their use (JSON values).

    files: absolute paths. A copy that keeps the time of modification still has its own time of status change.
    """
    stats = [(str(file), (s := _stat(file)).st_size, s.st_mtime_ns, s.st_ctime_ns) for file in files]
    return hashlib.sha256(json.dumps([_FORMAT, use, stats]).encode()).hexdigest()[:16]


def _stat(file: Path) -> os.stat_result:
    try:
        return file.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last: no name that a file can have
        raise absent(file) from None
    except OSError as error:
        raise DmlrcError(f"image {file} cannot be read ({error.strerror}): correct its permissions") from None


def _cached(filename: str, write: Callable[[BinaryIO], None]) -> np.ndarray:
    target = paths.cache() / _portable(filename)
    with paths.explained(f"the cache {target} cannot be written", _ELSEWHERE):
        if not target.exists():
            with paths.whole_file(target) as stream:
                write(stream)
                stream.flush()
                stream.write(_SEAL + _checksum(stream, stream.tell(), target.name))
        try:
            array, facts = np.load(target, mmap_mode="r", allow_pickle=False), target.stat()
            _check(target, array.offset + array.nbytes, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
            return array
        except FileNotFoundError:  # a part, which another process has cleared since, for it has the whole
            pass
        except (ValueError, EOFError):
            warnings.warn(f"the cache file {target} is damaged, it is made again", stacklevel=4)
            target.unlink(missing_ok=True)
    return _cached(filename, write)


_SEAL = b"sha256: "
"""What stands between an array and its checksum."""


def _checksum(stream: BinaryIO, end: int, name: str) -> bytes:
    """The checksum of the file's name and of what stands in it up to there."""
    digest = hashlib.sha256(name.encode())
    digest.update(np.memmap(stream, mode="r", shape=end))
    return digest.digest()


@functools.cache
def _check(file: Path, end: int, *state: int) -> None:
    """Raise ValueError where an array, which ends there, does not fit the checksum behind it; older ones have none.

    state: of the file, of which each is read once.
    """
    with file.open("rb") as stream:
        stream.seek(end)
        seal = stream.read()
        if seal.startswith(_SEAL) and seal != _SEAL + _checksum(stream, end, file.name):
            raise ValueError("another checksum")


def _portable(filename: str) -> str:
    """The name as every file system takes it: letters, digits, _ . and -; a long one is its digest and its end."""
    name = re.sub(r"[^\w.-]", "-", filename).encode()
    if len(name) > 200:
        name = hashlib.sha256(name).hexdigest()[:16].encode() + name[-180:]
    return name.decode(errors="ignore")


def decode_all(name: str, files: Sequence[Path], form: Form) -> Iterator[np.ndarray]:
    """Yield the images in order, some at a time; raise one error for all that cannot be decoded."""
    bad = []
    # Threads, because PIL decodes and resizes outside the interpreter's lock.
    with (
        ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool,  # each may hold an image of `decoding.LARGE` pixels
        tqdm(total=len(files), desc=f"decoding {name}", unit="image", disable=None) as progress,
    ):
        for start in range(0, len(files), _CHUNK):
            decoded = list(pool.map(lambda file: _decode(file, form), files[start : start + _CHUNK]))
            bad += [pixels for pixels in decoded if isinstance(pixels, DmlrcError)]
            if not bad:
                yield np.stack(decoded)
            progress.update(len(decoded))
    if len(bad) > 1:
        error = DmlrcError(f"{len(bad)} images cannot be read, which are named below: restore or remove them")
        for image in bad:
            error.add_note(str(image))
        raise error
    if bad:
        raise bad[0]


def _decode(file: Path, form: Form) -> np.ndarray | DmlrcError:
    try:
        return decode(file, form)
    except DmlrcError as error:  # with all others of its set, so that they can be mended at once
        return error
