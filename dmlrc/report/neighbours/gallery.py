"""Small galleries of test images: those that the page on neighbours shows.

The thumbnails are in the package, a sheet a data set, with what is on them in `tiles.csv`: the photographs are not, and
all letters take seconds to draw. `python -m dmlrc.report.neighbours.gallery` makes both again where $DMLRC_DATA holds
the photographs.
"""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from dmlrc import data

PER_CLASS, COLUMNS, TILE = 5, 10, 96
GROCERY_CLASSES = (40, 41, 48, 53, 55, 56, 58, 68, 73, 74, 77, 78)
"""Classes of the test half that are easily taken for one another: milk, yoghurt, onions and potatoes, tomatoes."""
_FOLDER = Path(__file__).parent
_TILES = _FOLDER / "tiles.csv"


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
    return _packed("grocery-lite0", "grocery.jpg", "jpeg")


def glyphs() -> Gallery:
    """Letters of data set "glyphs": twelve neighbours in the alphabet, from the middle of its test half."""
    return _packed("glyphs", "glyphs.png", "png")


def _packed(dataset: str, sheet: str, kind: str) -> Gallery:
    tiles = pd.read_csv(_TILES, keep_default_na=False).groupby("dataset").get_group(dataset)
    rows, labels = tiles["row"].to_numpy(), tiles["label"].to_numpy()
    return Gallery(dataset, rows, labels, tuple(tiles["name"]), (_FOLDER / sheet).read_bytes(), kind)


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


def photographs() -> tuple[pd.DataFrame, list[Image.Image]]:
    """Return what `grocery` shows: its part of `tiles.csv`, and the images."""
    features, images = data.load("grocery-lite0"), data.load("grocery")
    tiles = _tiles("grocery-lite0", features.labels, features.class_names, GROCERY_CLASSES)
    order = np.argsort(images.labels, kind="stable")  # that of the features
    return tiles, [Image.fromarray(np.asarray(images.images[row]).transpose(1, 2, 0)) for row in order[tiles["row"]]]


def letters() -> tuple[pd.DataFrame, list[Image.Image]]:
    """Return what `glyphs` shows: its part of `tiles.csv`, and the images, dark on light."""
    images = data.load("glyphs")
    first = 3 * len(images.class_names) // 4
    tiles = _tiles("glyphs", images.labels, images.class_names, tuple(range(first, first + 12)))
    shape = images.shape[-2:]
    return tiles, [Image.fromarray(255 - np.asarray(images.images[row]).reshape(shape)) for row in tiles["row"]]


def _tiles(dataset: str, labels: np.ndarray, names: tuple[str, ...], classes: tuple[int, ...]) -> pd.DataFrame:
    rows = chosen(labels, classes)
    words = [names[label].replace("-", " ") for label in labels[rows]]
    return pd.DataFrame({"dataset": dataset, "row": rows, "label": labels[rows], "name": words})


if __name__ == "__main__":
    shown, of_letters = photographs(), letters()
    (_FOLDER / "grocery.jpg").write_bytes(sheet(shown[1], "JPEG", quality=80))
    (_FOLDER / "glyphs.png").write_bytes(sheet(of_letters[1], "PNG"))
    pd.concat([shown[0], of_letters[0]]).to_csv(_TILES, index=False)
