"""Icons: Google's Material Icons in their five styles, drawings that the package holds. No download.

A class is an icon, an image one of its styles (baseline, outline, round, sharp, two-tone): many classes of few images,
the shape of Stanford Online Products. Icons that share an image in any style are one class, named after the first of
them, and an image that a class has twice is kept once, so classes have 1 to 13 images; one with a single image is never
retrieved. Strokes are light (255) on dark (0), in 16 greys. `python -m dmlrc.data.icon_set` makes the files:
`images.npy.xz`, `images.csv` (the class, the icon and the style of each image), `icons.csv` (the class of each icon, of
those too whose images are all another's), the licence and a README.
"""

import lzma
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from dmlrc.data.listing import ImageSet

SIZE = 32
STYLES = ("baseline", "outline", "round", "sharp", "twotone")
FOLDER = Path(__file__).parent / "embedded" / "icons"
_GREYS = 15  # an image has 4 bits a pixel, of which 15 is white


@dataclass(frozen=True, eq=False)
class Drawn:
    """Icons as they are stored. greys: (N, 32, 32) uint8 in 0..15. images: the class, the icon and the style of each;
    those of a class stand together, the classes by name. icons: the class and the name of each icon."""

    greys: np.ndarray
    images: pd.DataFrame
    icons: pd.DataFrame


def load_icons(size: int = SIZE) -> ImageSet:
    """The icons as (N, 1, size, size) uint8 images; at another size than 32 pixels the bitmaps are resized."""
    drawn = read_icons(FOLDER)
    pixels = drawn.greys * np.uint8(255 // _GREYS)
    if size != SIZE:
        pixels = np.stack([Image.fromarray(icon).resize((size, size), Image.Resampling.BILINEAR) for icon in pixels])
    names, labels = np.unique(drawn.images["class"].tolist(), return_inverse=True)
    return ImageSet("icons", pixels[:, None], labels.astype(np.int64), tuple(names.tolist()), flip=False)


def read_icons(folder: Path) -> Drawn:
    """Read what `write_icons` wrote."""
    with lzma.open(folder / "images.npy.xz") as stream:
        pairs = np.load(stream)  # (N, 32, 16)
    greys = np.stack([pairs >> 4, pairs & 15], axis=-1).reshape(len(pairs), SIZE, SIZE)
    tables = (pd.read_csv(folder / f"{name}.csv", dtype=str, na_filter=False) for name in ("images", "icons"))
    return Drawn(greys, *tables)


def write_icons(drawn: Drawn, folder: Path) -> None:
    """Write icons into a folder: two pixels a byte, compressed without loss."""
    folder.mkdir(parents=True, exist_ok=True)
    with lzma.open(folder / "images.npy.xz", "wb", preset=9) as stream:
        np.save(stream, drawn.greys[..., ::2] << 4 | drawn.greys[..., 1::2])
    drawn.images.to_csv(folder / "images.csv", index=False, lineterminator="\n")
    drawn.icons.to_csv(folder / "icons.csv", index=False, lineterminator="\n")
