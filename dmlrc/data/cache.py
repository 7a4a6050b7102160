"""What is made once and found again on disk: decoded images, computed features, unpacked archives.

All of it lies in $DMLRC_CACHE, else in the user's cache folder of the platform, and can be deleted at any time. All
images of a set are decoded into one uint8 array that is opened as a memory map. An RGB image takes 3 size^2 bytes: at
256 pixels CUB200 takes 2.3 GB of disk, Cars196 3.2, In-Shop 10.4, SOP 23.6.

A cached array is a .npy file with a seal behind it, which NumPy does not read: the length and the CRC-32 checksum of
all before it, the file's name, and the time of its writing. The checksum is compared once in each process, at about
2 GB a second; of a file above 4 GB only where its time of change is not the one in the seal. A file that does not fit
its seal is made again.
"""

import errno
import glob
import hashlib
import json
import os
import re
import struct
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from typing import BinaryIO

import numpy as np
from tqdm import tqdm

from dmlrc import paths
from dmlrc.data.decoding import Form, absent, decode
from dmlrc.errors import DmlrcError

_FORMAT = 2  # raised when the same files would decode to other bytes, so that older arrays are no longer found
_CHUNK = 256  # images decoded ahead of the writer
_LARGE = 4 << 30  # bytes, 2 seconds of checksums
_BLOCK = 1 << 22  # bytes read at a time
_SEAL = struct.Struct("<8sQQII")  # magic, bytes before the seal, second of writing, their CRC-32, that of the rest
_MAGIC = b"dmlrc\x00\x00\x01"
_intact: set[tuple] = set()  # files that were compared with their seals in this process, with their stats


def decoded(name: str, files: Sequence[Path], form: Form) -> np.ndarray:
    """The images as one read-only array: (N, channels, size, size) uint8, a memory map over the cache file.

    It is found again as long as no file has changed or moved; arrays of earlier files stay.
    Raises DmlrcError for an image that cannot be decoded or a cache that cannot be written, MissingDataError for a
    file that is not there.
    """
    if not files:
        raise DmlrcError(f"data set {name!r} lists no images: get it again")
    filename = f"{name}-{form.size}-{form.square}-{fingerprint(files, astuple(form))}.npy"
    return _cached(filename, lambda stream: _write_images(stream, name, files, form))


def computed(filename: str, make: Callable[[], np.ndarray]) -> np.ndarray:
    """The array in this file of the cache, made by `make` and saved if it is not there yet; a memory map.

    filename must say everything that the array depends on.
    """
    return _cached(filename, lambda stream: np.save(stream, make(), allow_pickle=False))


def streamed(filename: str, shape: tuple[int, ...], dtype: str, make: Callable[[], Iterable[np.ndarray]]) -> np.ndarray:
    """As `computed`, for an array too large for the memory: `make` yields its rows in order, some at a time."""

    def write(stream: BinaryIO) -> None:
        _write_header(stream, shape, dtype)
        for rows in make():
            stream.write(np.ascontiguousarray(rows, dtype=dtype).tobytes())

    return _cached(filename, write)


def forget(start: str) -> None:
    """Remove the cached arrays whose names begin so."""
    for file in paths.cache().glob(f"{glob.escape(_portable(start))}*.npy"):
        file.unlink(missing_ok=True)


def folder(name: str, fill: Callable[[Path], None]) -> Path:
    """The folder of this name in the cache, filled by `fill` if it is not there yet; complete or not there at all.

    name must say everything that the content depends on.
    """
    target = paths.cache() / name
    if not target.is_dir():
        _make_writable(target.parent)
        with _explained(target):
            build_folder(target, fill)
    return target


def build_folder(target: Path, fill: Callable[[Path], None]) -> None:
    """Fills a folder beside the target and renames it at the end, so that a half-filled one is never found."""
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
    _sync_entries(target.parent)


def fingerprint(files: Sequence[Path], use: object) -> str:
    """Changes with the list of files, any file's path, length or time of change, and with their use (JSON values).

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
        raise DmlrcError(
            f"image {file} cannot be read ({error.strerror}): correct its permissions or the list"
        ) from None


def _cached(filename: str, write: Callable[[BinaryIO], None]) -> np.ndarray:
    target = paths.cache() / _portable(filename)
    if not _is_intact(target):
        if target.exists():
            warnings.warn(f"the cache file {target} is damaged, it is made again", stacklevel=4)
        _make_writable(target.parent)
        _write(target, write)
    try:
        return np.load(target, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:  # a part, which another process has forgotten since, for it has the whole
        return _cached(filename, write)


def _portable(filename: str) -> str:
    """The name as every file system takes it: letters, digits, _ . and -, the last 200 bytes, which tell all apart."""
    return re.sub(r"[^\w.-]", "-", filename).encode()[-200:].decode(errors="ignore")


def _is_intact(file: Path) -> bool:
    """Whether the file is there and fits its seal."""
    try:
        with file.open("rb") as stream:
            stats = os.fstat(stream.fileno())
            key = (file, stats.st_ino, stats.st_size, stats.st_mtime_ns, stats.st_ctime_ns)
            if key not in _intact and _fits_seal(stream, file.name, stats):
                _intact.add(key)
            return key in _intact
    except OSError:
        return False


def _fits_seal(stream: BinaryIO, name: str, stats: os.stat_result) -> bool:
    length = stats.st_size - _SEAL.size
    if length < 0:
        return False
    stream.seek(length)
    seal = stream.read()
    written, checksum = _SEAL.unpack(seal)[2:4]
    if seal != _seal(name, length, written, checksum):
        return False
    if length > _LARGE and stats.st_mtime_ns == written * 10**9:
        return True
    stream.seek(0)
    found = 0
    for start in range(0, length, _BLOCK):
        found = zlib.crc32(stream.read(min(_BLOCK, length - start)), found)
    return found == checksum


def _seal(name: str, length: int, written: int, checksum: int) -> bytes:
    rest = zlib.crc32(f"{name} {length} {written} {checksum}".encode(errors="surrogateescape"))
    return _SEAL.pack(_MAGIC, length, written, checksum, rest)


class _Summed:
    """A stream to write to that keeps the length and the checksum of what it was given."""

    def __init__(self, stream: BinaryIO):
        self.stream, self.length, self.checksum = stream, 0, 0

    def write(self, content: bytes) -> int:
        self.length, self.checksum = self.length + len(content), zlib.crc32(content, self.checksum)
        return self.stream.write(content)


def _make_writable(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            pass
    except OSError as error:
        raise DmlrcError(
            f"the cache cannot be written to {home} ({error.strerror}): set DMLRC_CACHE to a folder that can be written"
        ) from None


def _write(target: Path, write: Callable[[BinaryIO], None]) -> None:
    """Writes beside the target and renames at the end, so that a half-written array is never found."""
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f"{target.stem}-", suffix=".part")
    try:
        with _explained(target):
            with os.fdopen(handle, "wb") as stream:
                write(summed := _Summed(stream))
                now = int(time.time()) // 2 * 2  # some file systems count in steps of two seconds
                stream.write(_seal(target.name, summed.length, now, summed.checksum))
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, 0o644)  # mkstemp gives 0600, which a shared cache does not want
            os.utime(temporary, (now, now))
            os.replace(temporary, target)
            _sync_entries(target.parent)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _sync_entries(home: Path) -> None:
    """Makes a rename inside the folder outlast a loss of power, where the platform can."""
    with suppress(OSError):  # Windows cannot open a folder
        handle = os.open(home, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DmlrcError(
            f"the cache {target} cannot be written ({error}): make room, or set DMLRC_CACHE elsewhere"
        ) from error


def _write_header(stream: BinaryIO, shape: tuple[int, ...], dtype: str) -> None:
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})


def _write_images(stream: BinaryIO, name: str, files: Sequence[Path], form: Form) -> None:
    shape = (len(files), form.channels, form.size, form.size)
    _write_header(stream, shape, "|u1")
    bad = []
    # Threads, because PIL decodes and resizes outside the interpreter's lock.
    with (
        ThreadPoolExecutor() as pool,
        tqdm(total=len(files), desc=f"decoding {name}", unit="image", disable=None) as progress,
    ):
        for start in range(0, len(files), _CHUNK):
            chunk = files[start : start + _CHUNK]
            for pixels in pool.map(lambda file: _decoded(file, form), chunk):
                if isinstance(pixels, DmlrcError):
                    bad.append(pixels)
                else:
                    stream.write(pixels.tobytes())
            progress.update(len(chunk))
    if len(bad) > 1:
        raise DmlrcError(f"{len(bad)} images cannot be read: {'; '.join(map(str, bad))}")
    if bad:
        raise bad[0]


def _decoded(file: Path, form: Form) -> np.ndarray | DmlrcError:
    try:
        return decode(file, form)
    except DmlrcError as error:  # with all others of its set, so that they can be mended at once
        return error
