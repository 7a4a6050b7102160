"""Digests of the images of data sets: of one's own, whose folder may change, and of those that have a name."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from dmlrc.data import cache, folder, glyphs
from dmlrc.data.available import folder_path
from dmlrc.data.download import locate
from dmlrc.data.listing import Listing, data_root
from dmlrc.data.loading import load
from dmlrc.data.registry import SOURCES
from dmlrc.errors import DmlrcError


def contents(name: str) -> str | None:
    """A digest of the images of "folder:PATH": of their classes, names, bytes and split. None for a set with a name.

    Where the folder lies does not matter. The images are read once, and again where a file's length or time of change
    says that it is another one. None too for a folder that cannot be read; `load` says why.
    """
    if not name.startswith("folder:"):
        return None
    try:
        home = folder_path(name)
        return _digest_of(home, folder.read_class_folders(home))
    except DmlrcError:
        return None


def set_digests(name: str) -> dict[str, str]:
    """Compute digests of a data set of image files that has a name, by what they are of: its images, and their classes
    and parts. Of glyphs by their pixels, which depend on the libraries that draw them. Nothing of another set that is
    part of the package, or not here."""
    if name in glyphs.NAMES:
        drawn = load(name)
        pixels = hashlib.sha256(drawn.images.tobytes() + drawn.labels.tobytes())
        return {f"images of {name!r}": pixels.hexdigest()[:16]}
    if name not in SOURCES:
        return {}
    try:
        home = locate(name, data_root())
        listing = SOURCES[name].listing(home)
        parts = None if listing.partition is None else listing.partition.tolist()
        facts = json.dumps([listing.labels.tolist(), parts])
        return {
            f"images of {name!r}": _digest_of(home, listing),
            f"classes of {name!r}": hashlib.sha256(facts.encode()).hexdigest()[:16],
        }
    except DmlrcError:
        return {}


def _digest_of(home: Path, listing: Listing) -> str:
    def make() -> np.ndarray:
        with ThreadPoolExecutor() as pool:
            return np.array(list(pool.map(_digest, listing.files)), dtype=np.uint8)  # (N, 16)

    digests = cache.cached_array(f"contents-{cache.fingerprint(listing.files, 'contents')}.npy", make)
    names = [file.relative_to(home).as_posix() for file in listing.files]  # begins with that of the class
    facts = [listing.class_names, names, digests.tobytes().hex()]
    if listing.partition is not None and (home / folder.SPLIT).exists():  # of a set that has a name it is the set's own
        facts.append(listing.partition.tolist())
    return hashlib.sha256(json.dumps(facts).encode(errors="surrogateescape")).hexdigest()[:16]


def _digest(file: Path) -> list[int]:
    try:
        with file.open("rb") as stream:
            return list(hashlib.file_digest(stream, "sha256").digest()[:16])
    except OSError as error:
        raise DmlrcError(f"image {file} cannot be read ({error.strerror}): correct its permissions") from None
