"""One image file to pixels: every depth at its true range, strips, and files that are none."""

import base64
import struct
import subprocess
import sys
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image, ImageFile

from dmlrc.data import decoding, listing
from dmlrc.data.decoding import Form, decode
from dmlrc.errors import DmlrcError, UsageError

RAMP = np.linspace(0, 1, 256)


def saved(tmp_path, pixels, suffix, **options):
    file = tmp_path / f"a{suffix}"
    Image.fromarray(np.tile(pixels, (256, 1))).save(file, **options)
    return file


@pytest.mark.parametrize(
    ("white", "dtype", "suffix"),
    [
        (255, np.uint8, ".png"),
        (65_535, np.uint16, ".png"),
        (65_535, np.uint16, ".tif"),
        (65_535, np.uint16, ".pgm"),
    ],
)
def test_a_gradient_is_the_same_gradient_at_every_depth(tmp_path, white, dtype, suffix):
    file = saved(tmp_path, (RAMP * white).astype(dtype), suffix)
    for channels in (1, 3):
        got = decode(file, Form(256, channels))
        assert got.shape == (channels, 256, 256)
        assert (abs(got.astype(int) - np.arange(256)) <= 1).all()
    inverted = decode(file, Form(256, channels=1, ink=True))
    assert inverted[0, 0, 0] == 255
    assert inverted[0, 0, -1] == 0


@pytest.mark.parametrize(("white", "dtype"), [(255, np.uint8), (65_535, np.uint16)])
def test_a_photograph_that_lies_on_its_side_is_stood_up_where_that_is_wanted(tmp_path, white, dtype):
    tags = Image.Exif()
    tags[0x0112] = 6  # the orientation: to be turned to the right by a quarter
    file = saved(tmp_path, (RAMP * white).astype(dtype), ".png", exif=tags)
    lying, upright = (decode(file, Form(256, channels=1, upright=wanted))[0] for wanted in (False, True))
    np.testing.assert_array_equal(upright, np.rot90(lying, k=-1))


HEIC = (  # 32 x 32, the left half red, the right half white; as pillow-heif 1.8.1 writes it
    "AAAAHGZ0eXBoZWljAAAAAG1pZjFoZWljbWlhZgAAAX1tZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAAACJpbG9jAAAA"
    "AERAAAEAAQAAAAABoQABAAAAAAAAAHsAAAAjaWluZgAAAAAAAQAAABVpbmZlAgAAAAABAABodmMxAAAAAA5waXRtAAAAAAABAAAA/WlwcnAAAADd"
    "aXBjbwAAAHZodmNDAQNwAAAAkAAAAAAAHvAA/P34+AAADwNgAAEAGEABDAH//wNwAAADAJAAAAMAAAMAHroCQGEAAQAqQgEBA3AAAAMAkAAAAwAA"
    "AwAeoCCBBZbq5Ka5uAhoMCAAAAMDIAAAAwAhYgABAAZEAcFzwIkAAAATY29scm5jbHgAAQANAAaAAAAAFGlzcGUAAAAAAAAAQAAAAEAAAAAoY2xh"
    "cAAAACAAAAABAAAAIAAAAAH////gAAAAAv///+AAAAACAAAAEHBpeGkAAAAAAwgICAAAABhpcG1hAAAAAAAAAAEAAQWBAgMFhAAAAINtZGF0AAAA"
    "dygBr1j5E5Jf/8qV//TiSHk2NRW/NsTF258/zxSuM0CMUoFVV8oB6ox7X9F0MMPLzmmPf576Lr9GnSYLCnOska9DNVXQcZ//8RqFNBi7AyDKiQBm"
    "MhJbHF6CNNC5xUFrjRydCMJ80j7uX5pSts2WhqF/QWAQebkY"
)


@pytest.mark.parametrize("name", ["a.HEIC", "a.heif"])
def test_a_photograph_of_an_iphone(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(base64.b64decode(HEIC))
    assert listing.is_image(file)
    red, _, blue = decode(file, Form(32)).astype(int)
    assert (abs(red[:, :14] - 200) < 10).all()
    assert (blue[:, :14] < 40).all()
    assert (blue[:, 18:] > 245).all()


@pytest.mark.parametrize("order", ["<u2", ">u2"])
def test_both_byte_orders(tmp_path, order):
    file = saved(tmp_path, (RAMP * 65_535).astype(order), ".tif")
    assert (abs(decode(file, Form(256))[0, 0].astype(int) - np.arange(256)) <= 1).all()


def test_a_16_bit_image_that_is_dark_stays_dark(tmp_path):
    file = saved(tmp_path, (RAMP * 255).astype(np.uint16), ".png")
    assert decode(file, Form(256)).max() == 1


def test_16_bit_colours(tmp_path):
    """A PNG of 16 bits a channel, written by hand: PIL writes none."""
    colours = np.tile((RAMP * 65_535).astype(">u2")[None, :, None], (256, 1, 3))
    colours[..., 1] = 65_535 - colours[..., 0]
    lines = b"".join(b"\0" + row.tobytes() for row in colours)

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 256, 256, 16, 2, 0, 0, 0)
    file = tmp_path / "a.png"
    file.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    )
    got = decode(file, Form(256)).astype(int)
    assert (abs(got[0] - np.arange(256)) <= 1).all()
    assert (abs(got[1] - np.arange(256)[::-1]) <= 1).all()


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_pixels_of_32_bits_are_refused(tmp_path, dtype):
    with pytest.raises(DmlrcError, match=r"\(its pixels have 32 bits, .*: save it with 8 or 16\)"):
        decode(saved(tmp_path, np.ones(8, dtype), ".tif"), Form(8))


def test_a_strip_is_cut_before_it_is_enlarged(tmp_path):
    for name, width, height in (("a", 20_000, 1), ("b", 1, 20_000), ("c", 30_000, 3)):
        pixels = np.tile(np.linspace(0, 255, max(width, height)), (min(width, height), 1)).astype(np.uint8)
        Image.fromarray(pixels if width > height else pixels.T).save(tmp_path / f"{name}.png")
    script = (
        "import sys; from pathlib import Path; from resource import RUSAGE_SELF, getrusage\n"
        "from dmlrc.data.decoding import Form, decode; before = getrusage(RUSAGE_SELF).ru_maxrss\n"
        "[decode(Path(file), Form(256)) for file in sys.argv[1:]]; print(getrusage(RUSAGE_SELF).ru_maxrss - before)"
    )  # in a process of its own, which was never larger before
    files = sorted(tmp_path.glob("*.png"))
    grown = subprocess.run([sys.executable, "-c", script, *files], capture_output=True, check=True)
    assert int(grown.stdout) < 100_000  # kB; it was 4 GB
    for file in files:
        assert (abs(decode(file, Form(256)).astype(int) - 127) <= 1).all()


@pytest.mark.parametrize("size", [28, 112])
def test_a_strip_is_the_centre_of_the_whole_resized_strip(tmp_path, size):
    rng = np.random.default_rng(size)
    for _ in range(30):
        short = int(rng.integers(1, 40))
        long = 8 * short + int(rng.integers(1, 500))
        image = Image.fromarray(rng.integers(0, 256, (short, long, 3), dtype=np.uint8))
        image.save(tmp_path / "a.png")
        whole = image.resize((size * long // short, size), Image.Resampling.BILINEAR)
        left = round((whole.width - size) / 2)
        expected = np.asarray(whole.crop((left, 0, left + size, size))).transpose(2, 0, 1)
        assert abs(decode(tmp_path / "a.png", Form(size)).astype(int) - expected).max() <= 1


@pytest.mark.parametrize("size", [0, 2.5, True, 10**6, None])
def test_sizes_that_are_none(size):
    with pytest.raises(UsageError, match="positive whole number of pixels"):
        Form(size)


@pytest.mark.parametrize("name", ["photo.jpg", "photo.eps"])
def test_what_starts_another_program_is_no_image_whatever_its_name(tmp_path, monkeypatch, name):
    mark = tmp_path / "started"
    (tmp_path / "gs").write_text(f"#!/bin/sh\n[ $1 = --version ] && echo 10.05.0 || echo > {mark}\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / name).write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 64 64\n%%EndComments\nshowpage\n%%EOF\n"
    )
    with pytest.raises(DmlrcError, match="is damaged or not an image"):
        decode(tmp_path / name, Form(16))
    assert not mark.exists()


def test_an_image_of_too_many_pixels_is_refused_and_a_jpeg_decoded_smaller(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "MOST_PIXELS", 500_000)
    pixels = np.tile(RAMP * 255, (1000, 4)).astype(np.uint8)  # 1000 x 1024
    for suffix in (".png", ".jpg"):
        Image.fromarray(pixels).save(tmp_path / f"a{suffix}")
    with pytest.raises(
        DmlrcError, match=r"^image .*a\.png has more than 500,000 pixels: make it smaller, or remove it$"
    ):
        decode(tmp_path / "a.png", Form(64))
    with monkeypatch.context() as patch:
        patch.setattr(Image, "MAX_IMAGE_PIXELS", 500_000)  # and PIL refuses from twice as many
        with pytest.raises(DmlrcError, match=r"^image .*a\.jpg has more than 500,000 pixels: make it smaller"):
            decode(tmp_path / "a.jpg", Form(64))
    small = decode(tmp_path / "a.jpg", Form(64))
    monkeypatch.setattr(decoding, "MOST_PIXELS", 2_000_000)
    assert np.abs(small.astype(int) - decode(tmp_path / "a.jpg", Form(64))).mean() < 3


def test_what_lacks_of_an_image_is_not_made_up_whatever_the_caller_has_set(tmp_path, monkeypatch):
    file = saved(tmp_path, np.random.default_rng(0).integers(0, 256, 256, dtype=np.uint8), ".jpg")
    file.write_bytes(file.read_bytes()[:-900])
    with pytest.raises(DmlrcError, match="is damaged or not an image"):
        decode(file, Form(8))
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(UsageError, match=r"set PIL\.ImageFile\.LOAD_TRUNCATED_IMAGES = False$"):
        decode(file, Form(8))


def test_pil_warns_of_no_size_that_is_checked_here(tmp_path):
    Image.new("L", (1000, 1000)).save(tmp_path / "a.jpg")
    script = (
        "import sys; from pathlib import Path; from PIL import Image; from dmlrc.data.decoding import Form, decode\n"
        "Image.MAX_IMAGE_PIXELS = 900_000; decode(Path(sys.argv[1]), Form(64))"
    )  # in a process of its own, since pytest has filters of its own
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "a.jpg"], capture_output=True, check=True)
    assert done.stderr == b""


def test_pil_warns_whoever_else_opens_an_image(tmp_path, monkeypatch):
    Image.new("L", (1000, 1000)).save(tmp_path / "a.jpg")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 900_000)
    filters = warnings.filters[:]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: decode(tmp_path / "a.jpg", Form(8)), range(64)))
    assert warnings.filters == filters
    assert not any(kind is Image.DecompressionBombWarning for _, _, kind, *_ in filters)
    with pytest.warns(Image.DecompressionBombWarning):
        Image.open(tmp_path / "a.jpg")
