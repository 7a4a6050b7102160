"""Images and their classes, class-disjoint splits, batches and augmentation.

>>> images = load("glyphs")
>>> images.images.shape[1:], images.images.dtype.name
((1, 28, 28), 'uint8')
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from dmlrc.data import cars196, glyphs, grocery
from dmlrc.data.cache import Form, decoded
from dmlrc.data.listing import ImageSet, Listing, data_root, locate
from dmlrc.errors import DmlrcError, unknown

__all__ = ["ImageSet", "load", "names"]


PHOTOGRAPH = Form(size=256)


@dataclass(frozen=True)
class _Source:
    """A data set of image files: how it is found and read, and the form its images are stored in."""

    read: Callable[[Path], Listing]
    folders: tuple[str, ...]  # below the data root; the first is the one that messages name
    marker: str  # a file that only the unpacked set has
    how: str  # the way to get the set
    form: Form = PHOTOGRAPH  # how its images are stored by default
    flip: bool = True


_SOURCES = {
    "cars196": _Source(
        cars196.read,
        folders=("cars196",),
        marker="cars_annos.mat",
        how="put cars_annos.mat and the folder car_ims there",
    ),
    "cars196crops": _Source(
        cars196.read,
        folders=("cars196crops", "cars196-cropped112"),
        marker="cars_annos.mat",
        how="unpack the cropped images into car_ims there, beside cars_annos.mat",
        form=Form(size=112),
    ),
    "grocery": _Source(
        grocery.read,
        folders=("grocery", "grocery-store-112", "GroceryStoreDataset"),
        marker="dataset/classes.csv",
        how="clone github.com/marcusklasson/GroceryStoreDataset to that folder",
        form=Form(size=112),
    ),
}


def names() -> tuple[str, ...]:
    """The data sets that `load` knows by name; "folder:PATH" is one more, for images of your own."""
    return ("glyphs", *sorted(_SOURCES))


def load(name: str, root: str | os.PathLike | None = None, size: int | None = None, square: str = "crop") -> ImageSet:
    """The images of a data set with their labels; image files are decoded once and then read from the cache.

    name: one of `names()`, or "folder:PATH" for a folder with one sub-folder a class.
    root: the folder that holds the data sets, each in a folder of its name; defaults to $DMLRC_DATA.
    size: side of the images in pixels; the default is 28 for characters, 112 for Grocery Store and the cropped cars,
        256 for other photographs.
    square: how a photograph becomes square, "crop" (the centre) or "squash"; see `dmlrc.data.cache`.

    Raises UsageError for an unknown name, MissingDataError with the way to get the set where it is not there, and
    DmlrcError for damaged files.
    """
    if name == "glyphs":
        return glyphs.load(size)
    if name not in _SOURCES:
        raise unknown("data set", name, [*names(), "folder:PATH"])
    source, home = _SOURCES[name], data_root(root)
    folder = locate(name, home, source.folders, source.marker, source.how)
    return _decode(name, source, folder, home, size, square)


def _decode(name: str, source: _Source, folder: Path, home: Path | None, size: int | None, square: str) -> ImageSet:
    form = replace(source.form, size=size or source.form.size, square=square)
    try:
        listing = source.read(folder)
    except (KeyError, ValueError, IndexError, OSError) as error:
        raise DmlrcError(
            f"the lists of data set {name!r} in {folder} cannot be read ({error!r}): unpack the original files again"
        ) from error
    images = decoded(name, listing.files, form, home)
    return ImageSet(name, images, listing.labels, listing.class_names, source.flip, listing.partition)
