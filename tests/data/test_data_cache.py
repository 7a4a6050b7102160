"""The cache on disk: nothing but the true array ever comes out of it, whatever happened to its files."""

import os
import re
import shutil
import time
import warnings

import numpy as np
import pytest
from PIL import Image

from dmlrc import data, paths
from dmlrc.data import cache, decoding
from dmlrc.errors import DmlrcError

ARRAY = np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2)


def album(folder, greys):
    """A folder of one class with a uniform image for each grey, all of one size and one time of modification."""
    for i, grey in enumerate(greys):
        file = folder / "class" / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), grey).save(file)
        os.utime(file, ns=(10**18, 10**18))
    return folder


def greys(folder):
    return data.load(f"folder:{folder}", size=8).images[:, 0, 0, 0].tolist()


# What an array is found by


def test_two_folders_of_one_name_with_equal_sizes_and_times_keep_their_own_images(tmp_path):
    first, second = album(tmp_path / "a" / "photos", [10, 20]), album(tmp_path / "b" / "photos", [30, 40])
    files = [sorted(folder.rglob("*.png")) for folder in (first, second)]
    assert len({(f.stat().st_size, f.stat().st_mtime_ns) for pair in files for f in pair}) == 1
    assert greys(first) == [10, 20]
    assert greys(second) == [30, 40]
    assert greys(first) == [10, 20]


def test_two_folders_that_change_places(tmp_path):
    first, second = album(tmp_path / "photos", [10, 20]), album(tmp_path / "other" / "photos", [30, 40])
    assert greys(first) == [10, 20]
    first.rename(tmp_path / "aside")
    second.rename(first)
    assert greys(first) == [30, 40]


def test_an_image_that_is_replaced_by_one_of_its_size_and_time(tmp_path):
    folder = album(tmp_path / "photos", [10, 20])
    assert greys(folder) == [10, 20]
    album(folder, [30, 20])
    assert greys(folder) == [30, 20]


@pytest.mark.parametrize("name", ["a:b*?\n|", "long " * 49, "ü" * 120, "-"])
def test_folder_names_that_make_no_file_names(tmp_path, name):
    assert greys(album(tmp_path / name, [50])) == [50]
    assert greys(album(tmp_path / "elsewhere" / name, [60])) == [60]


def test_long_names_that_begin_or_end_alike_are_files_of_their_own():
    folder = "写真" * 40
    names = [f"{kind}-{folder}-{end}" for kind in ("features", "features-mirrored") for end in ("a", "b")]
    files = {cache._portable(name) for name in names}
    assert len(files) == 4
    assert max(len(file.encode()) for file in files) <= 200
    assert cache._portable("features-cars.npy") == "features-cars.npy"


def test_the_users_cache_folder_is_that_of_the_platform(monkeypatch):
    monkeypatch.delenv("DMLRC_CACHE")
    assert paths.cache().parts[-1] == "dmlrc"
    monkeypatch.setenv("DMLRC_CACHE", "~/somewhere")
    assert paths.cache().is_absolute()
    assert "~" not in str(paths.cache())


# Damage


DAMAGES = {
    "empty": lambda content: b"",
    "header only": lambda content: content[:128],
    "one byte less": lambda content: content[:-1],
    "zeros": lambda content: bytes(len(content)),
    "text": lambda content: b"not an array",
    "one bit": lambda content: content[:140] + bytes([content[140] ^ 1]) + content[141:],
    "another shape": lambda content: content.replace(b"(2, 3, 2, 2)", b"(3, 2, 2, 2)"),
    "another kind": lambda content: content.replace(b"|u1", b"|i1"),
    "another checksum": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "something behind it": lambda content: content + b"0",
}


def cached():
    return cache.cached_array("array.npy", ARRAY.copy)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_file_is_noticed_and_made_again(how):
    cached()
    file = paths.cache() / "array.npy"
    file.write_bytes(DAMAGES[how](file.read_bytes()))
    with pytest.warns(UserWarning, match=r"array\.npy is damaged, it is made again"):
        assert np.array_equal(cached(), ARRAY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(cached(), ARRAY)


def test_decoded_images_are_decoded_again(tmp_path):
    folder = album(tmp_path / "photos", [10, 20])
    greys(folder)
    (file,) = paths.cache().glob("*.npy")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="damaged"):
        assert greys(folder) == [10, 20]


@pytest.mark.parametrize("behind", [b"", b"dmlrc\x00\x00\x01" + bytes(24)])
def test_an_array_that_was_cached_without_a_checksum_or_with_another_seal_is_read(behind):
    """As those of earlier versions of the cache are."""
    paths.cache().mkdir(parents=True)
    file = paths.cache() / "array.npy"
    np.save(file, ARRAY)
    file.write_bytes(file.read_bytes() + behind)
    assert np.array_equal(cache.cached_array("array.npy", lambda: 1 / 0), ARRAY)


def test_a_file_that_got_the_name_of_another_is_made_again():
    cache.cached_array("other.npy", lambda: 1 - ARRAY)
    (paths.cache() / "other.npy").rename(paths.cache() / "array.npy")
    with pytest.warns(UserWarning, match=r"array\.npy is damaged, it is made again"):
        assert np.array_equal(cached(), ARRAY)


def test_rows_have_a_checksum_too_which_a_process_compares_once(monkeypatch):
    compared, inner = [], cache._checksum
    monkeypatch.setattr(cache, "_checksum", lambda *about: compared.append(about) or inner(*about))
    for _ in range(3):
        cache.cached_rows("rows.npy", ARRAY.shape, "|u1", lambda: iter([ARRAY[:1], ARRAY[1:]]))
    assert len(compared) == 2  # as it was written, and as it was read first
    file = paths.cache() / "rows.npy"
    file.write_bytes(DAMAGES["one bit"](file.read_bytes()))
    with pytest.warns(UserWarning, match="damaged"):
        assert np.array_equal(cache.cached_rows("rows.npy", ARRAY.shape, "|u1", lambda: [ARRAY]), ARRAY)


def test_an_array_is_on_disk_before_it_gets_its_name(monkeypatch):
    happened = []
    for name in ("fsync", "replace"):
        inner = getattr(os, name)
        monkeypatch.setattr(
            cache.os, name, lambda *about, inner=inner, name=name: happened.append(name) or inner(*about)
        )
    cached()
    assert happened == ["fsync", "replace"]


def test_what_is_broken_off_leaves_nothing():
    def broken():
        yield ARRAY[:1]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.cached_rows("array.npy", ARRAY.shape, "|u1", broken)
    assert list(paths.cache().iterdir()) == []


def test_a_part_that_another_process_forgets_meanwhile_is_made_again(monkeypatch):
    load, made = np.load, []

    def forgotten_first(file, **how):
        if len(made) == 1:
            cache.clear("part0.npy")
        return load(file, **how)

    monkeypatch.setattr(np, "load", forgotten_first)
    found = cache.cached_array("part0.npy", lambda: made.append(1) or np.arange(3))
    assert found.tolist() == [0, 1, 2]
    assert len(made) == 2


def test_a_folder_in_the_place_of_an_array_is_named(tmp_path):
    (paths.cache() / "array.npy").mkdir(parents=True)
    with pytest.raises(DmlrcError, match=r"array\.npy cannot be written"):
        cached()


def most_at_once(monkeypatch, files, form):
    """How many images of these files are in memory at a time, at most."""
    now, counts, inner = [], [], decoding.stored

    def stored(image, form):
        now.append(image)
        counts.append(len(now))
        time.sleep(0.02)  # for others to begin
        now.pop()
        return inner(image, form)

    monkeypatch.setattr(decoding, "stored", stored)
    assert sum(map(len, cache.decode_all("some", files, form))) == len(files)
    return max(counts)


@pytest.mark.parametrize(("side", "most"), [(9, 1), (8, 3)])
def test_large_images_are_decoded_one_at_a_time_and_others_by_a_few_threads(tmp_path, monkeypatch, side, most):
    monkeypatch.setattr(decoding, "LARGE", 64)
    monkeypatch.setattr(cache.os, "cpu_count", lambda: 3)
    for number in range(8):
        Image.new("RGBA", (side, side)).save(tmp_path / f"{number}.png")
    assert most_at_once(monkeypatch, sorted(tmp_path.glob("*.png")), decoding.Form(8)) == most


def test_a_large_image_that_is_damaged_keeps_none_of_the_others_out(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "LARGE", 64)
    files = [tmp_path / f"{number}.png" for number in range(3)]
    for file in files:
        Image.new("RGB", (9, 9)).save(file)
    files[0].write_bytes(files[0].read_bytes()[:44])
    with pytest.raises(DmlrcError, match=r"0\.png is damaged"):
        cache.cached_images("some", files, decoding.Form(8))
    assert len(cache.cached_images("some", files[1:], decoding.Form(8))) == 2


def test_a_set_without_images(tmp_path):
    with pytest.raises(DmlrcError, match="lists no images"):
        cache.cached_images("nothing", [], decoding.Form(8))


def test_every_dtype_comes_back(tmp_path):
    for dtype in ("f4", "f8", "i8", "u1", "?", ">f4", "c16"):
        array = np.arange(6).reshape(2, 3).astype(dtype)
        for _ in range(2):
            again = cache.cached_array(f"{re.sub('[^a-z0-9]', 'x', dtype)}.npy", array.copy)
            assert again.dtype == array.dtype
            assert np.array_equal(again, array)
    shutil.rmtree(paths.cache())
