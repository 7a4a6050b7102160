"""The cache on disk: nothing but the true array ever comes out of it, whatever happened to its files."""

import os
import re
import shutil
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


def test_the_users_cache_folder_is_that_of_the_platform(monkeypatch):
    monkeypatch.delenv("DMLRC_CACHE")
    assert paths.cache().parts[-1] == "dmlrc"
    monkeypatch.setenv("DMLRC_CACHE", "~/somewhere")
    assert paths.cache().is_absolute()
    assert "~" not in str(paths.cache())


# Damage


def other_array(array):
    """A whole cache file with another array, as if it had been renamed."""

    def damage(file):
        cache.computed("other.npy", lambda: array)
        os.replace(paths.cache() / "other.npy", file)

    return damage


def bytes_changed(change):
    return lambda file: file.write_bytes(change(file.read_bytes()))


def flipped(place):
    """One bit flipped at a share of the file's length."""

    def change(content):
        changed = bytearray(content)
        changed[int(place * (len(content) - 1))] ^= 16
        return bytes(changed)

    return bytes_changed(change)


def saved(array, **options):
    return lambda file: np.save(file, array, **options)


DAMAGES = {
    "empty": bytes_changed(lambda content: b""),
    "header only": bytes_changed(lambda content: content[:128]),
    "one byte less": bytes_changed(lambda content: content[:-1]),
    "one byte more": bytes_changed(lambda content: content + b"\0"),
    "without its seal": bytes_changed(lambda content: content[: -cache._SEAL.size]),
    "zeros": bytes_changed(lambda content: bytes(len(content))),
    "text": bytes_changed(lambda content: b"not an array"),
    "a bit of the header": flipped(0.3),
    "a bit of the pixels": flipped(0.8),
    "a bit of the seal": flipped(1.0),
    "other dtype": saved(ARRAY.astype(np.int64)),
    "pickled objects": saved(np.array([{"a": 1}, None], dtype=object)),
    "another cache file": other_array(ARRAY[::-1]),
}


def cached():
    return cache.computed("array.npy", ARRAY.copy)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_file_is_noticed_and_made_again(how):
    cached()
    file = paths.cache() / "array.npy"
    DAMAGES[how](file)
    with pytest.warns(UserWarning, match=r"array\.npy is damaged, it is made again"):
        assert np.array_equal(cached(), ARRAY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(cached(), ARRAY)


def test_damage_that_keeps_the_time_of_change_is_noticed():
    cached()
    file = paths.cache() / "array.npy"
    stats = file.stat()
    DAMAGES["a bit of the pixels"](file)
    os.utime(file, ns=(stats.st_atime_ns, stats.st_mtime_ns))
    cache._intact.clear()
    with pytest.warns(UserWarning, match="damaged"):
        assert np.array_equal(cached(), ARRAY)


def test_decoded_images_are_decoded_again(tmp_path):
    folder = album(tmp_path / "photos", [10, 20])
    greys(folder)
    (file,) = paths.cache().glob("*.npy")
    DAMAGES["a bit of the pixels"](file)
    with pytest.warns(UserWarning, match="damaged"):
        assert greys(folder) == [10, 20]


def test_a_file_is_compared_once_in_a_process_and_again_when_it_changed(monkeypatch):
    compared = []
    fits = cache._fits_seal
    monkeypatch.setattr(cache, "_fits_seal", lambda *about: compared.append(about) or fits(*about))
    for _ in range(3):
        cached()
    assert len(compared) == 1
    (paths.cache() / "array.npy").touch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a touched file is not a damaged one
        cached()
    assert len(compared) == 2


def test_a_large_file_is_read_only_where_its_time_of_change_is_not_that_of_its_writing(monkeypatch):
    monkeypatch.setattr(cache, "_LARGE", 0)
    cached()
    file = paths.cache() / "array.npy"
    assert file.stat().st_mtime % 2 == 0
    summed = []
    crc32 = cache.zlib.crc32
    monkeypatch.setattr(
        cache.zlib, "crc32", lambda content, *start: summed.append(len(content)) or crc32(content, *start)
    )
    assert np.array_equal(cached(), ARRAY)
    assert max(summed) < 100  # the seal only
    DAMAGES["a bit of the pixels"](file)
    with pytest.warns(UserWarning, match="damaged"):
        assert np.array_equal(cached(), ARRAY)


def test_an_array_is_on_disk_before_it_gets_its_name(monkeypatch):
    happened = []
    for name in ("fsync", "replace"):
        inner = getattr(os, name)
        monkeypatch.setattr(
            cache.os, name, lambda *about, inner=inner, name=name: happened.append(name) or inner(*about)
        )
    cached()
    assert happened == ["fsync", "replace", "fsync"]  # the array, its name, the folder's list of names


def test_a_part_that_another_process_forgets_meanwhile_is_made_again(monkeypatch):
    load, made = np.load, []

    def forgotten_first(file, **how):
        if len(made) == 1:
            cache.forget("part")
        return load(file, **how)

    monkeypatch.setattr(np, "load", forgotten_first)
    found = cache.computed("part0.npy", lambda: made.append(1) or np.arange(3))
    assert found.tolist() == [0, 1, 2]
    assert len(made) == 2


def test_a_folder_in_the_place_of_an_array_is_named(tmp_path):
    (paths.cache() / "array.npy").mkdir(parents=True)
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(DmlrcError, match=r"array\.npy cannot be written"):
        cached()


def test_a_set_without_images(tmp_path):
    with pytest.raises(DmlrcError, match="lists no images"):
        cache.decoded("nothing", [], decoding.Form(8))


def test_every_dtype_comes_back(tmp_path):
    for dtype in ("f4", "f8", "i8", "u1", "?", ">f4", "c16"):
        array = np.arange(6).reshape(2, 3).astype(dtype)
        for _ in range(2):
            again = cache.computed(f"{re.sub('[^a-z0-9]', 'x', dtype)}.npy", array.copy)
            assert again.dtype == array.dtype
            assert np.array_equal(again, array)
    shutil.rmtree(paths.cache())
