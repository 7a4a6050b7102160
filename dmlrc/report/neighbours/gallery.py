"""Small galleries of test images: those that the page on neighbours shows.

Of Grocery Store a sheet of thumbnails is in the package, since the photographs are not: `grocery.jpg`, made with
`python -m dmlrc.report.neighbours.gallery` where $DMLRC_DATA holds them. Glyphs are drawn anew.
"""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from dmlrc import data

PER_CLASS, COLUMNS, TILE = 5, 10, 96
GROCERY_CLASSES = (40, 41, 48, 53, 55, 56, 58, 68, 73, 74, 77, 78)
"""Classes of the test half that are easily taken for one another: milk, yoghurt, onions and potatoes, tomatoes."""
_SHEET = Path(__file__).parent / "grocery.jpg"


@dataclass(frozen=True)
class Gallery:
    """Images of a data set, tile by tile on one sheet of COLUMNS columns.

    rows: (n,) indices into the data set. labels: (n,). names: (n,) of their classes, for readers. sheet: an encoded
    image. kind: "jpeg" or "png".
    """

    dataset: str
    rows: np.ndarray
    labels: np.ndarray
    names: tuple[str, ...]
    sheet: bytes
    kind: str


def chosen(labels: np.ndarray, classes: tuple[int, ...]) -> np.ndarray:
    """(len(classes) * PER_CLASS,) indices: images of each class, spread evenly over it, class by class."""
    places = [np.flatnonzero(labels == cls) for cls in classes]
    return np.concatenate([rows[np.linspace(0, len(rows) - 1, PER_CLASS).round().astype(int)] for rows in places])


def grocery() -> Gallery:
    """Photographs of Grocery Store (Klasson et al. 2019, MIT licence), rows of data set "grocery-lite0"."""
    features = data.load("grocery-lite0")
    return _gallery("grocery-lite0", features.labels, features.class_names, GROCERY_CLASSES, _SHEET.read_bytes())


def glyphs() -> Gallery:
    """Letters of data set "glyphs": twelve neighbours in the alphabet, from the middle of its test half."""
    images = data.load("glyphs")
    first = 3 * len(images.class_names) // 4
    classes = tuple(range(first, first + 12))
    rows = chosen(images.labels, classes)
    tiles = [Image.fromarray(255 - np.asarray(images.images[row]).reshape(images.shape[-2:])) for row in rows]
    return _gallery("glyphs", images.labels, images.class_names, classes, sheet(tiles, "PNG"), "png")


def _gallery(
    name: str, labels: np.ndarray, names: tuple[str, ...], classes: tuple[int, ...], drawn: bytes, kind: str = "jpeg"
) -> Gallery:
    rows = chosen(labels, classes)
    words = tuple(names[label].replace("-", " ") for label in labels[rows])
    return Gallery(name, rows, labels[rows], words, drawn, kind)


def sheet(tiles: list[Image.Image], kind: str, **options) -> bytes:
    """Images, each cut to its middle square, beside one another on a sheet."""
    height = -(-len(tiles) // COLUMNS)
    joined = Image.new("RGB", (COLUMNS * TILE, height * TILE))
    for place, tile in enumerate(tiles):
        side = min(tile.size)
        left, top = (tile.width - side) // 2, (tile.height - side) // 2
        square = tile.convert("RGB").crop((left, top, left + side, top + side)).resize((TILE, TILE))
        joined.paste(square, (place % COLUMNS * TILE, place // COLUMNS * TILE))
    buffer = io.BytesIO()
    joined.save(buffer, kind, **options)
    return buffer.getvalue()


def _photographs() -> list[Image.Image]:
    images = data.load("grocery")
    order = np.argsort(images.labels, kind="stable")  # that of the features
    rows = order[chosen(images.labels[order], GROCERY_CLASSES)]
    return [Image.fromarray(np.asarray(images.images[row]).transpose(1, 2, 0)) for row in rows]


if __name__ == "__main__":
    _SHEET.write_bytes(sheet(_photographs(), "JPEG", quality=80))
