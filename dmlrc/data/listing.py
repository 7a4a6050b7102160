"""A data set before decoding (`Listing`) and after (`ImageSet`), and what the readers of the sets share."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dmlrc import errors, paths
from dmlrc.errors import MissingDataError

HEIC_SUFFIXES = (".heic", ".heif")
"""Photographs of iPhones, which Pillow reads with a plugin only: the extra "heic"."""
IMAGE_SUFFIXES = frozenset(
    (".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tga")
    + (".tif", ".tiff", ".webp")
    + (HEIC_SUFFIXES if errors.has("heic") else ())
)


@dataclass(frozen=True, repr=False)
class ImageSet:
    """Decoded images with their classes.

    Parameters
    ----------
    name : of the data set
    images : (N, C, H, W) uint8, C = 1 or 3 (RGB); may be a read-only memory map
    labels : (N,) int64 in 0..len(class_names)-1, in the data set's fixed class order
    class_names : one name a class, in that order
    flip : whether a mirrored image keeps its class (photographs do, characters do not)
    partition : (N,) str, the parts that the data set itself names ("train", "test", "query", "gallery"), or None
        where it names none. The class-disjoint splits do not use it; In-Shop's query and gallery do.
    """

    name: str
    images: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]
    flip: bool
    partition: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an image: (C, H, W)."""
        return self.images.shape[1:]

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.shape))
        return f"ImageSet {self.name!r}: {counted(self.labels, self.class_names)}\n  images {size}, {self.images.dtype}"


def counted(labels: np.ndarray, class_names: Sequence[str]) -> str:
    """Count images and classes: "12 images of 3 classes (a, b, c), 2 to 6 of each"."""
    sizes = np.bincount(labels, minlength=len(class_names))
    shown = [*class_names[:3], *(["..."] if len(class_names) > 3 else [])]
    size = f"{sizes.min()}" if sizes.min() == sizes.max() else f"{sizes.min()} to {sizes.max()}"
    return f"{len(labels):,} images of {len(class_names):,} classes ({', '.join(shown)}), {size} of each"


@dataclass(frozen=True)
class Listing:
    """The image files of a data set and their classes; nothing is decoded yet.

    files: N paths. labels, class_names and partition as in `ImageSet`.
    """

    files: tuple[Path, ...]
    labels: np.ndarray
    class_names: tuple[str, ...]
    partition: np.ndarray | None = None


def from_class_folders(folders: Sequence[Path], class_names: Sequence[str]) -> Listing:
    """List one class a folder, in the given order; its image files in name order. Hidden files are left out."""
    files, labels = [], []
    for label, folder in enumerate(folders):
        images = sorted(filter(is_image, folder.iterdir()))
        files += images
        labels += [label] * len(images)
    return Listing(tuple(files), np.array(labels, dtype=np.int64), tuple(class_names))


def is_image(file: Path) -> bool:
    """Tell whether a file is an image by its name, and not hidden; so is a link that leads nowhere, which is missed."""
    named = file.suffix.lower() in IMAGE_SUFFIXES and file.name[0] != "."
    return named and (file.is_file() or not file.exists())


def sub_folders(folder: Path) -> list[Path]:
    """The folders inside a folder in name order, without the hidden ones."""
    return sorted(p for p in folder.iterdir() if p.is_dir() and p.name[0] != ".")


def data_root(root: str | os.PathLike | None = None) -> Path:
    """The folder of all data sets: `root`, else the environment variable DMLRC_DATA.

    Raises MissingDataError where neither names one.
    """
    root = root or os.environ.get("DMLRC_DATA")
    if not root:
        raise MissingDataError("no data folder is named: set DMLRC_DATA to the folder of the data sets")
    return paths.expanded(root).absolute()
