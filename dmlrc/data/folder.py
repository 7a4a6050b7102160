"""A folder of one's own images: one sub-folder a class, classes in name order.

Beside the sub-folders may lie a file `split.csv`, which gives the split: the columns image, the path of an image in the
folder, or of a sub-folder for all of its images, and part, one of `PARTS`. Of the test classes, "query" images are
searched for among all others; where none is a query, each image is. A protocol takes it with split = "official".
"""

import csv
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from dmlrc.data.listing import Listing, from_class_folders, is_image, sub_folders
from dmlrc.errors import DmlrcError, MissingDataError

SPLIT = "split.csv"
PARTS = ("train", "test", "query", "gallery")


def read_class_folders(folder: Path) -> Listing:
    """List all images of all sub-folders; hidden files do not count.

    Raises MissingDataError where there is no folder, or nothing in it, and DmlrcError for a sub-folder without images,
    which would be no class, for an image anywhere else, which would be left out, for a `split.csv` that does not give
    each image one part, and for a folder that may not be read.
    """
    try:
        return _read(folder)
    except OSError as error:
        raise DmlrcError(f"folder {folder} cannot be read ({error}): correct its permissions or its path") from None


def _read(folder: Path) -> Listing:
    if not folder.is_dir():
        raise MissingDataError(f"there is no folder {folder}: name one that has a sub-folder for each class")
    classes = sub_folders(folder)
    if not classes:
        raise MissingDataError(f"folder {folder} has no sub-folders: put the images of each class into one")
    homes = [own.resolve() for own in classes]
    if len(set(homes)) < len(homes):
        twice = next(own for own, home in zip(classes, homes, strict=True) if homes.count(home) > 1)
        raise DmlrcError(f"folder {twice} is there twice, by a link, and would be two classes: remove one of the two")
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
    return replace(listing, partition=_partition(folder / SPLIT, listing)) if (folder / SPLIT).exists() else listing


def _partition(file: Path, listing: Listing) -> np.ndarray:
    """The part of each image, (N,) str."""
    images = [path.relative_to(file.parent).as_posix() for path in listing.files]
    members: dict[str, list[str]] = {}
    for image in images:
        members.setdefault(image.partition("/")[0], []).append(image)
    parts: dict[str, str] = {}
    for line, row in _rows(file):
        name, part = row["image"].strip(), row["part"].strip()
        if part not in PARTS:
            raise DmlrcError(f"line {line} of {file} has the part {part!r}: write one of {', '.join(PARTS)}")
        named = members.get(name, [name])
        if name not in members and name not in images:
            raise DmlrcError(f"line {line} of {file} names {name!r}, and {file.parent} has no such image or sub-folder")
        if twice := parts.keys() & set(named):
            raise DmlrcError(f"line {line} of {file} names {min(twice)!r} again: an image is in one part")
        parts |= dict.fromkeys(named, part)
    if left := [image for image in images if image not in parts]:
        raise DmlrcError(f"{file} does not say in which part {left[0]!r} is: give each image or sub-folder a line")
    return np.array([parts[image] for image in images])


def _rows(file: Path) -> list[tuple[int, dict[str, str]]]:
    """The rows of a table with the columns image and part, and on which line each ends."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream, restval="")
            columns = list(reader.fieldnames or ())
            rows = [(reader.line_num, row) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DmlrcError(f"{file} is no table ({error}): write it as CSV, in UTF-8") from None
    if [columns.count(name) for name in ("image", "part")] != [1, 1]:
        raise DmlrcError(f"{file} does not begin with the line image,part: name its two columns so, each once")
    return rows


def _misplaced(folder: Path, classes: list[Path]) -> Iterator[Path]:
    """Yield the images beside the class folders, or deeper than directly inside one."""
    yield from sorted(filter(is_image, folder.iterdir()))
    for inner in (inner for own in classes for inner in sub_folders(own)):
        for home, folders, names in os.walk(inner):
            folders[:] = sorted(name for name in folders if name[0] != ".")
            yield from filter(is_image, (Path(home, name) for name in sorted(names)))


def left_out(folder: Path) -> dict[str, int]:
    """Count the files of the class folders that are no images by their names, by the ending, the commonest first."""
    files = (file for inner in sub_folders(folder) for file in inner.iterdir() if not file.is_dir())
    others = (file.suffix.lower() for file in files if file.name[0] != "." and not is_image(file))
    return dict(Counter(others).most_common())
