"""Image file as a square of 8-bit pixels.

Deviation from the papers: they crop from the whole photograph after its shorter side is resized to 256. One array
needs one shape, so each image is stored as a square: `square="crop"` resizes the shorter side to `size` and keeps the
centre of the longer side, `square="squash"` resizes both sides to `size` and gives up the aspect ratio (what Zhai and
Wu 2019 and Oi et al. 2021 do at 256 and 299). Evaluation by centre crop is not affected; random training crops never
see the borders that "crop" cuts off a photograph that is not square.

Pixels are those of the file: orientation tags, which the papers' loaders pass over, are applied to photographs of
one's own alone (`Form.upright`); PIL itself applies those of TIFF files. Resizing is bilinear with anti-aliasing, which
is torchvision's `Resize` on a PIL image.

A 16-bit image, white at 65,535, is brought to 8 bits first. Integers of 32 bits and floats do not say where white is:
they are refused.
"""

import functools
import threading
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from dmlrc import errors
from dmlrc.errors import DmlrcError, MissingDataError, UsageError

if errors.has("heic"):
    import pi_heif

    pi_heif.register_heif_opener()

FORMATS = ("AVIF", "BMP", "GIF", "HEIF", "JPEG", "JPEG2000", "PNG", "PPM", "TGA", "TIFF", "WEBP")
"""What is read, whatever a file's name says: PIL knows formats that start other programs, as PostScript does."""
MOST_PIXELS = 89_478_485
"""Of a file, PIL's own limit for a warning: 268 MB in memory. A JPEG of up to twice as many is decoded smaller."""
LARGE = 16_000_000  # pixels, above which images are decoded one at a time: each may take 12 bytes a pixel
_ALONE, _OPENS = threading.Lock(), threading.Lock()
SQUARES = ("crop", "squash")
LARGEST_SIZE = 4096  # an RGB image of this side takes 50 MB in the cache
_LONGEST = 8  # times the shorter side: an image longer than that is a strip


@dataclass(frozen=True)
class Form:
    """Form in which an image is stored, see the module.

    size: side in pixels. channels: 1 (grey) or 3 (RGB). square: "crop" or "squash". ink: invert, so that dark strokes
    on light become light on dark. upright: as its orientation tag says.
    """

    size: int
    channels: int = 3
    square: str = "crop"
    ink: bool = False
    upright: bool = False

    def __post_init__(self):
        if self.square not in SQUARES:
            raise UsageError(f"square is 'crop' or 'squash', not {self.square!r}")
        is_whole = isinstance(self.size, int | np.integer) and not isinstance(self.size, bool)
        if not (is_whole and 1 <= self.size <= LARGEST_SIZE):
            raise UsageError(f"image size is a positive whole number of pixels up to {LARGEST_SIZE}, not {self.size!r}")


def decode(file: Path, form: Form) -> np.ndarray:
    """Decode one image file as a (channels, size, size) uint8 array; of an animation the first frame.

    Raises MissingDataError for a file that is not there, DmlrcError for one that cannot be decoded, UsageError where
    PIL was told to let what lacks of an image be grey.
    """
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise UsageError(
            "PIL is set to fill up what lacks of a damaged image, so that it would pass for a sound one: set "
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES = False"
        )
    try:
        with _opened(file) as image, _fit(image, form.size):
            return stored(image, form)
    except FileNotFoundError:
        raise absent(file) from None
    except Image.DecompressionBombError:  # of `_fit`, and of PIL itself from twice as many
        raise DmlrcError(f"image {file} has more than {MOST_PIXELS:,} pixels: make it smaller, or remove it") from None
    except Exception as error:  # a damaged file can raise anything
        why = "" if isinstance(error, UnidentifiedImageError) else f" ({error})"
        raise DmlrcError(f"image {file} is damaged or not an image{why}: restore it, or remove it") from error


@functools.cache
def readable() -> list[str]:
    """List those of `FORMATS` that PIL can read here."""
    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]


def _opened(file: Path) -> Image.Image:
    """Open an image, whose header alone is read, without PIL's warning of its size, which `_fit` judges."""
    with _OPENS, warnings.catch_warnings(action="ignore", category=Image.DecompressionBombWarning):
        return Image.open(file, formats=readable())  # the filters are those of all threads


def _fit(image: Image.Image, size: int) -> AbstractContextManager:
    """Have a JPEG of too many pixels decoded smaller, refuse others; return what keeps large ones out meanwhile."""
    if image.width * image.height > MOST_PIXELS:
        image.draft("RGB", (2 * size, 2 * size))  # the smallest eighth, quarter or half that is not below this
    if image.width * image.height > MOST_PIXELS:
        raise Image.DecompressionBombError
    return _ALONE if image.width * image.height > LARGE else nullcontext()


def stored(image: Image.Image, form: Form) -> np.ndarray:
    """Bring an image to the form in which it is stored: (channels, size, size) uint8."""
    image = _eight_bits(image)
    if form.upright:
        image = ImageOps.exif_transpose(image)
    square = _to_square(image.convert("RGB" if form.channels == 3 else "L"), form)
    pixels = np.asarray(square).reshape(form.size, form.size, form.channels).transpose(2, 0, 1)
    return 255 - pixels if form.ink else pixels


def absent(image: str | Path) -> MissingDataError:
    """The error for a listed file that is not there."""
    return MissingDataError(
        f"image {image} is listed but not there: unpack the data set again, or, if this is a folder of the cache, "
        "remove that"
    )


def _eight_bits(image: Image.Image) -> Image.Image:
    """An image of one 16-bit channel in 8 bits; any other as it is. Raises ValueError for one of 32 bits."""
    if image.mode != "F" and not image.mode.startswith("I"):
        return image
    if image.mode == "F" or (image.mode == "I" and image.format != "PPM"):  # PIL gives 16 bits of a PGM file as 32
        raise ValueError("its pixels have 32 bits, which do not say where white is: save it with 8 or 16")
    levels = np.rint(np.arange(65_536) * (255 / 65_535)).astype(np.uint8)  # of a large image no float copy
    converted = Image.fromarray(levels[np.asarray(image)])
    converted.getexif().update(image.getexif())  # its orientation tag
    return converted


def _to_square(image: Image.Image, form: Form) -> Image.Image:
    size = form.size
    if form.square == "squash":
        return image.resize((size, size), Image.Resampling.BILINEAR)
    before = image.size
    short = min(before)
    width, height = (size * side // short for side in before)  # one of them is `size`
    left, top = round((width - size) / 2), round((height - size) / 2)
    if max(before) <= _LONGEST * short:
        return image.resize((width, height), Image.Resampling.BILINEAR).crop((left, top, left + size, top + size))
    # Only the centre of a strip is made: all of a 1 x 20,000 image would take 4 GB. The two ways differ by a level of
    # 255 here and there, and what was published was decoded in the first.
    across, down = before[0] / width, before[1] / height
    box = (left * across, top * down, (left + size) * across, (top + size) * down)
    return image.resize((size, size), Image.Resampling.BILINEAR, box=box)
