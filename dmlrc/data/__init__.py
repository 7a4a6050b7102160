"""Images and their classes, class-disjoint splits, batches and augmentation.

>>> images = load("glyphs")
>>> images.images.shape[1:], images.images.dtype.name
((1, 28, 28), 'uint8')
"""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from dmlrc.data import folder as class_folders
from dmlrc.data import glyphs
from dmlrc.data.cache import decoded
from dmlrc.data.decoding import Form
from dmlrc.data.download import check, fetch, locate
from dmlrc.data.listing import ImageSet, Listing, data_root
from dmlrc.data.registry import PHOTOGRAPH, SOURCES, packed, unpacked
from dmlrc.errors import MissingDataError, UsageError, unknown

__all__ = ["ImageSet", "check", "fetch", "load", "names", "state"]

EMBEDDED = ("glyphs", "glyphs-small")  # drawn, not read


def names() -> tuple[str, ...]:
    """The data sets that `load` knows by name; "folder:PATH" is one more, for images of one's own."""
    return (*EMBEDDED, *sorted(SOURCES))


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
        return _decode(f"folder:{path.name}", class_folders.read(path), _form(PHOTOGRAPH, size, square), flip=True)
    if name not in SOURCES:
        raise unknown("data set", name, [*names(), "folder:PATH"])
    home, source = data_root(root), SOURCES[name]
    return _decode(name, source.listing(locate(name, home)), _form(source.form, size, square), source.flip)


def state(name: str, root: str | os.PathLike | None = None) -> str:
    """Whether a data set can be loaded: "embedded", "here", "packed" (as its archives) or "missing".

    Raises UsageError for an unknown name.
    """
    if name in EMBEDDED:
        return "embedded"
    if name.startswith("folder:"):
        with suppress(UsageError, OSError):
            return "here" if _path(name).is_dir() else "missing"
        return "missing"
    if name not in SOURCES:
        raise unknown("data set", name, [*names(), "folder:PATH"])
    with suppress(MissingDataError, OSError):  # no data folder is named, or it may not be read
        home = data_root(root)
        if unpacked(name, home):
            return "here"
        if packed(name, home):
            return "packed"
    return "missing"


def _path(name: str) -> Path:
    """The folder that "folder:PATH" names. Raises UsageError for what cannot be one on this machine."""
    try:
        if not (path := name.removeprefix("folder:")):
            raise ValueError("it is empty")
        return Path(path).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:  # no such user, a loop of links, a null character
        raise UsageError(f"{name!r} names no folder ({error}): write folder: and the path of a folder") from None


def _form(default: Form, size: int | None, square: str) -> Form:
    return replace(default, size=default.size if size is None else size, square=square)


def _decode(name: str, listing: Listing, form: Form, flip: bool) -> ImageSet:
    images = decoded(name, listing.files, form)
    return ImageSet(name, images, listing.labels, listing.class_names, flip, listing.partition)
