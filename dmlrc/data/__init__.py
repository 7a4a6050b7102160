"""Images and their classes, class-disjoint splits, batches and augmentation.

>>> images = load("glyphs")
>>> images.images.shape[1:], images.images.dtype.name
((1, 28, 28), 'uint8')
"""

import os
from dataclasses import replace
from pathlib import Path

from dmlrc.data import folder as class_folders
from dmlrc.data import glyphs
from dmlrc.data.cache import Form, decoded
from dmlrc.data.download import check, fetch, locate
from dmlrc.data.listing import ImageSet, Listing, data_root
from dmlrc.data.registry import PHOTOGRAPH, SOURCES, packed, unpacked
from dmlrc.errors import MissingDataError, unknown

__all__ = ["ImageSet", "check", "fetch", "load", "names", "state"]


def names() -> tuple[str, ...]:
    """The data sets that `load` knows by name; "folder:PATH" is one more, for images of one's own."""
    return ("glyphs", "glyphs-small", *sorted(SOURCES))


def load(name: str, root: str | os.PathLike | None = None, size: int | None = None, square: str = "crop") -> ImageSet:
    """The images of a data set with their labels; image files are decoded once and then read from the cache.

    name: one of `names()`, or "folder:PATH" for a folder with one sub-folder a class.
    root: the folder that holds the data sets, each in a folder of its name; defaults to $DMLRC_DATA. A set that lies
        there as its archives is unpacked into the cache once; the folder itself may be read-only.
    size: side of the images in pixels; the default is 28 for characters, 112 for Grocery Store and the cropped cars,
        224 for CUB-200 (2010), 256 for other photographs.
    square: how a photograph becomes square, "crop" (the centre) or "squash"; see `dmlrc.data.cache`.

    Raises UsageError for an unknown name, MissingDataError with the way to get the set where it is not there, and
    DmlrcError for damaged files.
    """
    if name == "glyphs":
        return glyphs.load(size)
    if name == "glyphs-small":
        return glyphs.load(size, every=8)
    if name.startswith("folder:"):
        path = _path(name)
        return _decode(
            f"folder:{path.name}", class_folders.read(path), None, _form(PHOTOGRAPH, size, square), flip=True
        )
    if name not in SOURCES:
        raise unknown("data set", name, [*names(), "folder:PATH"])
    home, source = data_root(root), SOURCES[name]
    return _decode(name, source.listing(locate(name, home)), home, _form(source.form, size, square), source.flip)


def state(name: str, root: str | os.PathLike | None = None) -> str:
    """Whether a data set can be loaded: "embedded", "here", "packed" (as its archives) or "missing"."""
    if name.startswith("glyphs"):
        return "embedded"
    if name.startswith("folder:"):
        return "here" if _path(name).is_dir() else "missing"
    try:
        home = data_root(root)
    except MissingDataError:
        return "missing"
    if unpacked(name, home):
        return "here"
    return "packed" if packed(name, home) else "missing"


def _path(name: str) -> Path:
    return Path(name.removeprefix("folder:")).expanduser().resolve()


def _form(default: Form, size: int | None, square: str) -> Form:
    return replace(default, size=default.size if size is None else size, square=square)


def _decode(name: str, listing: Listing, home: Path | None, form: Form, flip: bool) -> ImageSet:
    images = decoded(name.replace(":", "-"), listing.files, form, home)
    return ImageSet(name, images, listing.labels, listing.class_names, flip, listing.partition)
