"""Maker of the data set "icons": `python -m dmlrc.data.icon_set iconify-json-ic-1.2.4.tgz`.

The archive is that of the npm package `@iconify-json/ic`, which holds Google's Material Icons as SVG; nothing is
downloaded here. resvg draws them (`pip install resvg-py`, as the environment has it), which takes a minute on one core;
the counts that are printed stand in the README of the data set.
"""

import io
import json
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from dmlrc.data.icons import FOLDER, SIZE, STYLES, Drawn, write_icons

ALIKE = 1
"""Of 15 greys, by which each pixel of two images may differ that count as one: what rounding alone can do."""


def bodies(archive: Path) -> dict[str, list[str]]:
    """The SVG of every icon by its name, the icons by name and each in the order of `STYLES`.

    Raises KeyError for an icon that lacks a style: none does, but for a hidden one in no style at all.
    """
    with tarfile.open(archive) as opened:
        icons = json.load(opened.extractfile("package/icons.json"))["icons"]
    names = sorted({name.partition("-")[2] for name in icons if name.partition("-")[0] in STYLES})
    return {name: [icons[f"{style}-{name}"]["body"] for style in STYLES] for name in names}


def greys(body: str) -> np.ndarray:
    """Drawing of 24 units as (32, 32) uint8, 0 (no ink) to 15."""
    import resvg_py

    image = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" width="{SIZE}" height="{SIZE}">{body}</svg>'
    png = bytes(resvg_py.svg_to_bytes(svg_string=image))
    ink = np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"))[..., 3]  # opacity; colours are not read
    return np.rint(ink / 17).astype(np.uint8)


def classes(images: np.ndarray) -> np.ndarray:
    """Find each icon's first of its class: (N, styles, 32, 32) -> (N,). Icons that share an image are of one class.

    As they are of one class, so is whatever shares an image with either.
    """
    styles = images.shape[1]
    first = np.arange(len(images))
    for one, other in alike(images.reshape(len(images) * styles, -1)):
        a, b = first[one // styles], first[other // styles]
        first[first == max(a, b)] = min(a, b)
    return first


def alike(images: np.ndarray) -> Iterator[tuple[int, int]]:
    """The pairs of images that count as one, the earlier one first: (N, ...) -> positions."""
    flat = images.reshape(len(images), -1).astype(np.float32)
    squares = (flat**2).sum(axis=1)
    most = ALIKE**2 * flat.shape[1]  # the squared distance of two images that differ by ALIKE everywhere
    for start in range(0, len(flat), 1000):
        rows = slice(start, start + 1000)
        near = squares[rows, None] + squares - 2 * flat[rows] @ flat.T <= most
        for place, other in np.argwhere(near):
            if (one := place + start) < other and np.abs(flat[one] - flat[other]).max() <= ALIKE:
                yield int(one), int(other)


def pack_icons(names: Iterable[str], images: np.ndarray) -> Drawn:
    """Icons with their images (N, styles, 32, 32), by class, each image once."""
    names, first = np.array(list(names)), classes(images)
    twice = [other for _, other in alike(images.reshape(len(images) * len(STYLES), -1))]
    order = np.argsort(first, kind="stable")
    icon, style = np.repeat(order, len(STYLES)), np.tile(np.arange(len(STYLES)), len(order))
    kept = ~np.isin(icon * len(STYLES) + style, twice)
    icon, style = icon[kept], style[kept]
    rows = pd.DataFrame({"class": names[first[icon]], "icon": names[icon], "style": np.array(STYLES)[style]})
    return Drawn(images[icon, style], rows, pd.DataFrame({"class": names[first[order]], "icon": names[order]}))


def counts(drawn: Drawn) -> str:
    """Count icons, classes and images, and the classes of how many images."""
    sizes = drawn.images["class"].value_counts()
    by_size = ", ".join(f"{many} of {size}" for size, many in sizes.value_counts().sort_index().items())
    return (
        f"{len(drawn.icons):,} icons, {len(drawn.images):,} images, {len(sizes):,} classes by their images: {by_size}"
    )


if __name__ == "__main__":
    [_, archive] = sys.argv
    icons = bodies(Path(archive))
    drawn = pack_icons(icons, np.array([[greys(body) for body in styles] for styles in icons.values()]))
    write_icons(drawn, FOLDER)
    print(counts(drawn))
