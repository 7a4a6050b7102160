"""What is made once and found again on disk: decoded images, computed features, unpacked archives.

All images of a set are decoded into one uint8 array that is opened as a memory map.

Deviation from the papers: they crop from the whole photograph after its shorter side is resized to 256. One array
needs one shape, so each image is stored as a square: `square="crop"` resizes the shorter side to `size` and keeps the
centre of the longer side, `square="squash"` resizes both sides to `size` and gives up the aspect ratio (what Zhai and
Wu 2019 and Oi et al. 2021 do at 256 and 299). Evaluation by centre crop is not affected; random training crops never
see the borders that "crop" cuts off a photograph that is not square.

An RGB image takes 3 size^2 bytes: at 256 pixels CUB200 takes 2.3 GB of disk, Cars196 3.2, In-Shop 10.4, SOP 23.6.

Pixels are those of the file: orientation tags are not applied, as in the papers' loaders. Resizing is bilinear with
anti-aliasing, which is torchvision's `Resize` on a PIL image.
"""

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pooch
from PIL import Image
from tqdm import tqdm

from dmlrc.errors import DmlrcError, MissingDataError, UsageError

SQUARES = ("crop", "squash")
_FORMAT = 1  # raised when the same files would decode to other bytes, so that older arrays are no longer found
_CHUNK = 256  # images decoded ahead of the writer


@dataclass(frozen=True)
class Form:
    """How an image is stored. size: side in pixels. channels: 1 (grey) or 3 (RGB). square: "crop" or "squash", see the
    module. ink: invert, so that dark strokes on light become light on dark."""

    size: int
    channels: int = 3
    square: str = "crop"
    ink: bool = False

    def __post_init__(self):
        if self.square not in SQUARES:
            raise UsageError(f"square is 'crop' or 'squash', not {self.square!r}")
        if self.size < 1:
            raise UsageError(f"the image size is a positive number of pixels, not {self.size}")


def decoded(name: str, files: Sequence[Path], form: Form, root: Path | None) -> np.ndarray:
    """The images as one read-only array: (N, channels, size, size) uint8, a memory map over the cache file.

    root: the data folder. The array lies in $DMLRC_CACHE, else in root/.cache, else (not writable, or root is None) in
        the user's cache folder of the platform. It is found again as long as no file has changed; arrays of earlier
        files stay, and the cache can be deleted at any time.
    Raises DmlrcError for an image that cannot be decoded or a cache that cannot be written, MissingDataError for a
    file that is not there.
    """
    filename = f"{name}-{form.size}-{form.square}-{fingerprint(files, astuple(form))}.npy"
    return _cached(filename, root, lambda stream: _write_images(stream, name, files, form))


def computed(filename: str, root: Path | None, make: Callable[[], np.ndarray]) -> np.ndarray:
    """The array in this file of the cache, made by `make` and saved if it is not there yet; a memory map.

    filename must say everything that the array depends on; it lies where `decoded` puts its arrays.
    """
    return _cached(filename, root, lambda stream: np.save(stream, make()))


def folder(name: str, root: Path | None, fill: Callable[[Path], None]) -> Path:
    """The folder of this name in the cache, filled by `fill` if it is not there yet; complete or not there at all.

    name must say everything that the content depends on; it lies where `decoded` puts its arrays.
    """
    folders = _cache_folders(root)
    found = next((place / name for place in folders if (place / name).is_dir()), None)
    if found is None:
        found = _writable(folders) / name
        with _explained(found):
            build_folder(found, fill)
    return found


def build_folder(target: Path, fill: Callable[[Path], None]) -> None:
    """Fills a folder beside the target and renames it at the end, so that a half-filled one is never found."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as temporary:
        filled = Path(temporary) / target.name
        filled.mkdir()  # with the usual permissions, which the temporary folder does not have
        fill(filled)
        try:
            os.replace(filled, target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # else another process was quicker
                raise


def decode(file: Path, form: Form) -> np.ndarray:
    """One image file as a (channels, size, size) uint8 array."""
    try:
        with Image.open(file) as image:
            square = _to_square(image.convert("RGB" if form.channels == 3 else "L"), form)
    except FileNotFoundError:
        raise _absent(file) from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DmlrcError(
            f"image {file} is damaged or not an image ({error}): restore it from the original data set, or remove it"
        ) from error
    pixels = np.asarray(square).reshape(form.size, form.size, form.channels).transpose(2, 0, 1)
    return 255 - pixels if form.ink else pixels


def _to_square(image: Image.Image, form: Form) -> Image.Image:
    size = form.size
    width, height = image.size
    if form.square == "squash":
        return image.resize((size, size), Image.Resampling.BILINEAR)
    short = min(width, height)
    width, height = size * width // short, size * height // short  # one of them is `size`
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.resize((width, height), Image.Resampling.BILINEAR).crop((left, top, left + size, top + size))


def fingerprint(files: Sequence[Path], use: object) -> str:
    """Changes with the list of files, with any file's length or time of change, and with their use (JSON values)."""
    common = os.path.commonpath([f.parent for f in files])
    try:
        stats = [(os.path.relpath(f, common), (s := f.stat()).st_size, s.st_mtime_ns) for f in files]
    except FileNotFoundError as error:
        raise _absent(error.filename) from None
    key = json.dumps([_FORMAT, use, stats])
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def _absent(image: str | Path) -> MissingDataError:
    return MissingDataError(
        f"image {image} is listed but not there: unpack the data set again, or, if this is a folder of the cache, "
        "remove that"
    )


def _cached(filename: str, root: Path | None, write: Callable[[BinaryIO], None]) -> np.ndarray:
    folders = _cache_folders(root)
    found = next((folder / filename for folder in folders if (folder / filename).exists()), None)
    if found is None:
        found = _writable(folders) / filename
        _write(found, write)
    return np.load(found, mmap_mode="r")


def _cache_folders(root: Path | None) -> list[Path]:
    """Where a cached array or folder may lie, best place first."""
    if os.environ.get("DMLRC_CACHE"):
        return [Path(os.environ["DMLRC_CACHE"]).expanduser()]
    return ([root / ".cache"] if root else []) + [Path(pooch.os_cache("dmlrc"))]


def _writable(folders: Sequence[Path]) -> Path:
    refused = []
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError as error:
            refused.append(f"{folder} ({error.strerror})")
    raise DmlrcError(
        f"the cache cannot be written to {' or '.join(refused)}: set DMLRC_CACHE to a folder that can be written"
    )


def _write(target: Path, write: Callable[[BinaryIO], None]) -> None:
    """Writes beside the target and renames at the end, so that a half-written array is never found."""
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f"{target.stem}-", suffix=".part")
    try:
        with _explained(target):
            with os.fdopen(handle, "wb") as stream:
                write(stream)
            os.chmod(temporary, 0o644)  # mkstemp gives 0600, which a shared data folder does not want
            os.replace(temporary, target)
    finally:
        Path(temporary).unlink(missing_ok=True)


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DmlrcError(
            f"the cache {target} cannot be written ({error}): make room, or set DMLRC_CACHE elsewhere"
        ) from error


def _write_images(stream: BinaryIO, name: str, files: Sequence[Path], form: Form) -> None:
    shape = (len(files), form.channels, form.size, form.size)
    np.lib.format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})
    # Threads, because PIL decodes and resizes outside the interpreter's lock.
    with (
        ThreadPoolExecutor() as pool,
        tqdm(total=len(files), desc=f"decoding {name}", unit="image", disable=None) as progress,
    ):
        for start in range(0, len(files), _CHUNK):
            chunk = files[start : start + _CHUNK]
            for pixels in pool.map(lambda file: decode(file, form), chunk):
                stream.write(pixels.tobytes())
            progress.update(len(chunk))
