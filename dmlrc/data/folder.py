"""A folder of one's own images: one sub-folder a class, classes in name order."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from dmlrc.data.listing import Listing, from_class_folders, is_image, sub_folders
from dmlrc.errors import DmlrcError, MissingDataError


def read(folder: Path) -> Listing:
    """All images of all sub-folders.

    Raises DmlrcError for a sub-folder without images, which would be no class, and for an image anywhere else, which
    would be left out; MissingDataError where there is no folder, or nothing in it; hidden files do not count.
    """
    try:
        return _read(folder)
    except OSError as error:
        raise DmlrcError(f"folder {folder} cannot be read ({error}): correct its permissions or its path") from None


def _read(folder: Path) -> Listing:
    if not folder.is_dir():
        raise MissingDataError(f"there is no folder {folder}: folder:PATH names a folder with one sub-folder a class")
    classes = sub_folders(folder)
    if not classes:
        raise MissingDataError(f"folder {folder} has no sub-folders: put the images of each class into one")
    _refuse_misplaced(folder, classes)
    listing = from_class_folders(classes, [c.name for c in classes])
    if empty := set(range(len(classes))) - set(listing.labels.tolist()):
        raise DmlrcError(
            f"folder {classes[min(empty)]} holds no images: remove it, or put the images of its class there"
        )
    return listing


def left_out(folder: Path) -> dict[str, int]:
    """How many files of the class folders are no images by their names, by the ending, the commonest first."""
    files = (file for inner in sub_folders(folder) for file in inner.iterdir() if file.is_file())
    others = (file.suffix.lower() for file in files if file.name[0] != "." and not is_image(file))
    return dict(Counter(others).most_common())


def _refuse_misplaced(folder: Path, classes: list[Path]) -> None:
    """Raise DmlrcError for an image beside the class folders, or deeper than directly inside one."""
    if image := next(_misplaced(folder, classes), None):
        raise DmlrcError(
            f"image {image} does not lie directly in a sub-folder of {folder}, where its class would be clear: move it "
            "and others like it into the folders of their classes, or away"
        )


def _misplaced(folder: Path, classes: list[Path]) -> Iterator[Path]:
    yield from sorted(filter(is_image, folder.iterdir()))
    for inner in (inner for each in classes for inner in sub_folders(each)):
        for home, folders, names in os.walk(inner):
            folders[:] = sorted(name for name in folders if name[0] != ".")
            yield from filter(is_image, (Path(home, name) for name in sorted(names)))
