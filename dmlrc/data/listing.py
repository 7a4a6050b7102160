"""What a data set is, before decoding (`Listing`) and after (`ImageSet`), and where its files are looked for."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dmlrc.errors import MissingDataError


@dataclass(frozen=True)
class ImageSet:
    """Decoded images with their classes.

    images: (N, C, H, W) uint8, C = 1 or 3 (RGB); may be a read-only memory map.
    labels: (N,) int64 in 0..len(class_names)-1, in the data set's fixed class order.
    class_names: one name a class, in that order.
    flip: whether a mirrored image keeps its class (photographs do, characters do not).
    partition: (N,) str, the parts that the data set itself names ("train", "test", "query", "gallery"), or None
        where it names none. The class-disjoint splits do not use it; In-Shop's query and gallery do.
    """

    name: str
    images: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]
    flip: bool
    partition: np.ndarray | None = None


@dataclass(frozen=True)
class Listing:
    """Which image files a data set consists of and what their classes are; nothing is decoded yet.

    files: N paths. labels, class_names and partition as in `ImageSet`.
    """

    files: tuple[Path, ...]
    labels: np.ndarray
    class_names: tuple[str, ...]
    partition: np.ndarray | None = None


def from_class_folders(folders: Sequence[Path], class_names: Sequence[str], suffixes: frozenset[str]) -> Listing:
    """One class a folder, in the given order; images in name order. Hidden files are left out.

    suffixes: lower-case file name endings that count as images, such as ".png".
    """
    files, labels = [], []
    for label, folder in enumerate(folders):
        images = sorted(p for p in folder.iterdir() if p.suffix.lower() in suffixes and not p.name.startswith("."))
        files += images
        labels += [label] * len(images)
    return Listing(tuple(files), np.array(labels, dtype=np.int64), tuple(class_names))


def data_root(root: str | os.PathLike | None = None) -> Path:
    """The folder of all data sets: `root`, else the environment variable DMLRC_DATA."""
    root = root or os.environ.get("DMLRC_DATA")
    if not root:
        raise MissingDataError("no data folder is named: set DMLRC_DATA to the folder of the data sets, or pass root")
    return Path(root).expanduser()


def locate(name: str, root: Path, folders: Sequence[str], marker: str, how: str) -> Path:
    """The folder that holds `marker`: root/<one of folders>, or a folder directly inside it.

    Archives unpack into a folder of their own as often as not, so both places count.
    marker: a relative path that only the complete set has. how: the way to get the set, for the error.
    """
    for folder in (root / f for f in folders):
        if (folder / marker).exists():
            return folder
        for inner in sorted(p for p in folder.glob("*") if p.is_dir()):
            if (inner / marker).exists():
                return inner
    raise MissingDataError(
        f"data set {name!r} is not in {root / folders[0]} (no {marker} there; DMLRC_DATA or root names {root}): {how}"
    )
