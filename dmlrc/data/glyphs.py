"""Glyphs: the embedded data set, letters drawn with the DejaVu fonts that Matplotlib ships. No download.

Classes are the letters (Unicode category L) that exist in all 12 text faces of DejaVu, in Unicode order, so that
neighbouring classes are alike and the default class order has the domain bias that Oi et al. 2021 describe. Letters
whose bitmaps are identical in most of the faces (Latin A, Greek Alpha, Cyrillic A) are one class, named after the first
of them. Samples are the 12 faces, each under one small random affine change that is the same on every run: rotation
within 10 degrees, scale within 10 %, shift within 1/28 of the side.

Strokes are light (255) on dark (0). About 1,400 classes x 12 images; the exact number of classes may differ by a few
between versions of FreeType, whose rasteriser decides which bitmaps are identical.
"""

import unicodedata
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dmlrc.data.listing import ImageSet

NAMES = ("glyphs", "glyphs-small")
SIZE = 28
_SEED = 2020
_OVERSAMPLING = 2  # drawn at twice the size, so that the affine change and the reduction are one clean resampling


def draw_glyphs(size: int = SIZE, every: int = 1) -> ImageSet:
    """The glyphs as (N, 1, size, size) uint8 images. The same bytes on every run.

    every: draw only each so-many-th letter. "glyphs-small" draws each eighth, for tests: about 180 classes.
    """
    faces = _faces()
    letters = _common_letters(faces)[::every]
    bitmaps = _draw(letters, faces, _OVERSAMPLING * size)  # (letters, faces, canvas, canvas)
    first = _merge_identical(bitmaps)
    kept = np.flatnonzero(first == np.arange(len(letters)))
    images = _jitter(bitmaps[kept].reshape(-1, *bitmaps.shape[2:]), size)
    return ImageSet(
        name="glyphs" if every == 1 else "glyphs-small",
        images=images[:, None],
        labels=np.repeat(np.arange(len(kept)), len(faces)),
        class_names=tuple(f"{letters[i]} {unicodedata.name(letters[i])}" for i in kept),
        flip=False,
    )


def _faces() -> list[Path]:
    """The 12 text faces of DejaVu (Sans, Sans Mono, Serif; regular, bold, slanted, both), without the display cuts."""
    import matplotlib

    fonts = Path(matplotlib.get_data_path(), "fonts", "ttf")
    return sorted(p for p in fonts.glob("DejaVu*.ttf") if "Display" not in p.name)


def _common_letters(faces: list[Path]) -> list[str]:
    """The letters that every face has, in Unicode order."""
    from matplotlib.ft2font import FT2Font

    common = set.intersection(*(set(FT2Font(str(face)).get_charmap()) for face in faces))
    return [c for c in map(chr, sorted(common)) if unicodedata.category(c).startswith("L")]


def _draw(letters: list[str], faces: list[Path], canvas: int) -> np.ndarray:
    """Draw every letter in every face, at one font size and on one baseline: (letters, faces, canvas, canvas) uint8.

    The tallest letters reach 1.12 font sizes above the baseline and 0.29 below it: 0.64 x (1.12 + 0.29) = 0.90 of the
    canvas, and a baseline at 0.75 leaves 0.03 above and 0.06 below.
    """
    bitmaps = np.empty((len(letters), len(faces), canvas, canvas), dtype=np.uint8)
    for j, face in enumerate(faces):
        font = ImageFont.truetype(str(face), round(0.64 * canvas), layout_engine=ImageFont.Layout.BASIC)
        for i, letter in enumerate(letters):
            image = Image.new("L", (canvas, canvas))
            ImageDraw.Draw(image).text((canvas / 2, 0.75 * canvas), letter, font=font, fill=255, anchor="ms")
            bitmaps[i, j] = image
    return bitmaps


def _merge_identical(bitmaps: np.ndarray) -> np.ndarray:
    """Find for each letter the first letter it looks like: identical bitmaps in more than half of the faces.

    One face is not enough (in an italic face a Cyrillic te is a Latin m); all faces would be too many (hinting moves
    a pixel of the Cyrillic A in four of them).
    """
    same = np.zeros((len(bitmaps), len(bitmaps)), dtype=np.int16)  # in how many faces two letters are identical
    for j in range(bitmaps.shape[1]):
        seen: dict[bytes, int] = {}
        shape = np.array([seen.setdefault(bitmap.tobytes(), len(seen)) for bitmap in bitmaps[:, j]])
        same += shape[:, None] == shape[None, :]
    return (same > bitmaps.shape[1] / 2).argmax(axis=1)


def _jitter(bitmaps: np.ndarray, size: int) -> np.ndarray:
    """Reduces (N, canvas, canvas) bitmaps to (N, size, size), each under its own small affine change."""
    rng = np.random.default_rng(_SEED)
    canvas = bitmaps.shape[-1]
    angle = np.deg2rad(rng.uniform(-10, 10, len(bitmaps)))
    zoom = canvas / size / rng.uniform(0.9, 1.1, len(bitmaps))
    shift = rng.uniform(-1, 1, (len(bitmaps), 2)) * size / SIZE  # output pixels
    # PIL maps an output pixel to the input: in = zoom R (out - centre - shift) + centre of the canvas.
    a, b = zoom * np.cos(angle), -zoom * np.sin(angle)
    x, y = (-size / 2 - shift).T
    matrices = np.stack([a, b, a * x + b * y + canvas / 2, -b, a, -b * x + a * y + canvas / 2], axis=1)
    images = np.empty((len(bitmaps), size, size), dtype=np.uint8)
    for image, bitmap, matrix in zip(images, bitmaps, matrices, strict=True):
        warped = Image.fromarray(bitmap).transform(
            (size, size), Image.Transform.AFFINE, matrix.tolist(), resample=Image.Resampling.BILINEAR
        )
        image[:] = warped
    return images
