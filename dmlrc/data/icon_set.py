"""How the data set "icons" is made: `python -m dmlrc.data.icon_set iconify-json-ic-1.2.4.tgz`.

The archive is that of the npm package `@iconify-json/ic`, which holds Google's Material Icons as SVG; nothing is
downloaded here. It takes a minute on one core, and prints the counts that stand in the README of the data set.
"""

import json
import sys
import tarfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dmlrc.data import svg
from dmlrc.data.icons import FOLDER, SIZE, STYLES, Drawn, write


def bodies(archive: Path) -> dict[str, list[str]]:
    """The SVG of every icon by its name, the icons by name and each in the order of `STYLES`.

    Raises KeyError for an icon that lacks a style: none does, but for a hidden one in no style at all.
    """
    with tarfile.open(archive) as opened:
        icons = json.load(opened.extractfile("package/icons.json"))["icons"]
    names = sorted({name.partition("-")[2] for name in icons if name.partition("-")[0] in STYLES})
    return {name: [icons[f"{style}-{name}"]["body"] for style in STYLES] for name in names}


def greys(body: str) -> np.ndarray:
    """One drawing of 24 units as (32, 32) uint8, 0 (no ink) to 15."""
    return np.rint(15 * svg.draw(body, 24, SIZE)).astype(np.uint8)


def classes(images: np.ndarray) -> np.ndarray:
    """For each icon the first of its class: (N, styles, ...) -> (N,). Icons that share an image are of one class.

    As they are of one class, so is whatever shares an image with either.
    """
    first = np.arange(len(images))
    seen: dict[bytes, int] = {}
    for icon, styles in enumerate(images):
        for image in styles:
            one, other = first[icon], first[seen.setdefault(image.tobytes(), icon)]
            first[first == max(one, other)] = min(one, other)
    return first


def pack(names: Iterable[str], images: np.ndarray) -> Drawn:
    """Icons with their images (N, styles, 32, 32), by class, each image once."""
    names, first = list(names), classes(images)
    kept, rows, seen = [], [], set()
    for icon in np.argsort(first, kind="stable"):
        for style, image in zip(STYLES, images[icon], strict=True):
            if (told := image.tobytes()) not in seen:  # no two classes share an image
                seen.add(told)
                kept.append(image)
                rows.append((names[first[icon]], names[icon], style))
    return Drawn(np.array(kept), tuple(rows))


def counts(icons: int, drawn: Drawn) -> str:
    """How many icons, classes and images there are, and how many classes of how many images."""
    of_class = Counter(row[0] for row in drawn.rows)
    told = ", ".join(f"{many} of {size}" for size, many in sorted(Counter(of_class.values()).items()))
    return f"{icons:,} icons, {len(drawn.rows):,} images, {len(of_class):,} classes by their images: {told}"


if __name__ == "__main__":
    [_, archive] = sys.argv
    found = bodies(Path(archive))
    drawn = pack(found, np.array([[greys(body) for body in styles] for styles in found.values()]))
    write(drawn, FOLDER)
    print(counts(len(found), drawn))
