"""A folder of one's own images: one sub-folder a class, classes in name order."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from dmlrc.data.listing import Listing, from_class_folders, is_image, sub_folders
from dmlrc.errors import DmlrcError, MissingDataError


def read_class_folders(folder: Path) -> Listing:
    """List all images of all sub-folders; hidden files do not count.

    Raises
    ------
    MissingDataError
        Where there is no folder, or nothing in it.
    DmlrcError
        For a sub-folder without images, which would be no class, for an image anywhere else, which would be left out,
        and for a folder that may not be read.
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
    if image := next(_misplaced(folder, classes), None):
        raise DmlrcError(
            f"image {image} does not lie directly in a sub-folder of {folder}, where its class would be clear: move it "
            "and others like it into the folders of their classes, or away"
        )
    listing = from_class_folders(classes, [c.name for c in classes])
    if empty := set(range(len(classes))) - set(listing.labels.tolist()):
        raise DmlrcError(
            f"folder {classes[min(empty)]} holds no images: remove it, or put the images of its class there"
        )
    return listing


def _misplaced(folder: Path, classes: list[Path]) -> Iterator[Path]:
    """Yield the images beside the class folders, or deeper than directly inside one."""
    yield from sorted(filter(is_image, folder.iterdir()))
    for inner in (inner for own in classes for inner in sub_folders(own)):
        for home, folders, names in os.walk(inner):
            folders[:] = sorted(name for name in folders if name[0] != ".")
            yield from filter(is_image, (Path(home, name) for name in sorted(names)))


def left_out(folder: Path) -> dict[str, int]:
    """Count the files of the class folders that are no images by their names, by the ending, the commonest first."""
    files = (file for inner in sub_folders(folder) for file in inner.iterdir() if file.is_file())
    others = (file.suffix.lower() for file in files if file.name[0] != "." and not is_image(file))
    return dict(Counter(others).most_common())
