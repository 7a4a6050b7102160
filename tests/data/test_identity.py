"""The identity of a folder of one's own images: what changes it, and what does not."""

import os

import pytest
from PIL import Image

from dmlrc import data


@pytest.fixture
def photos(tmp_path):
    for label in "ab":
        (tmp_path / "photos" / label).mkdir(parents=True)
        for place in range(3):
            Image.new("RGB", (8, 8), (10 * place, 0, 0)).save(tmp_path / "photos" / label / f"{place}.png")
    return tmp_path / "photos"


def replace(photos):
    Image.new("RGB", (8, 8), (0, 99, 0)).save(photos / "a" / "1.png")


def swap(photos):
    (photos / "a" / "0.png").rename(photos / "spare")
    (photos / "a" / "1.png").rename(photos / "a" / "0.png")
    (photos / "spare").rename(photos / "a" / "1.png")


CHANGES = {
    "replaced": replace,
    "swapped": swap,
    "added": lambda photos: Image.new("RGB", (8, 8)).save(photos / "b" / "9.png"),
    "removed": lambda photos: (photos / "a" / "2.png").unlink(),
    "class renamed": lambda photos: (photos / "a").rename(photos / "c"),
    "split": lambda photos: (photos / "split.csv").write_text("image,part\na,train\nb,test\n"),
    "moved to another class": lambda photos: (photos / "a" / "2.png").rename(photos / "b" / "5.png"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_photographs_changes_it(photos, change):
    before = data.contents(f"folder:{photos}")
    CHANGES[change](photos)
    assert data.contents(f"folder:{photos}") not in (None, before)


def test_it_stays_where_only_the_place_or_the_time_changes(photos, tmp_path):
    before = data.contents(f"folder:{photos}")
    os.utime(photos / "a" / "0.png", (0, 0))
    (photos / "notes.txt").write_text("no image")
    assert data.contents(f"folder:{photos}") == before
    photos.rename(tmp_path / "elsewhere")
    assert data.contents(f"folder:{tmp_path / 'elsewhere'}") == before


def test_sets_with_a_name_and_folders_that_are_not_there_have_none(photos):
    assert data.contents("glyphs") is None
    assert data.contents("cub200") is None
    assert data.contents(f"folder:{photos / 'nowhere'}") is None
    Image.new("RGB", (8, 8)).save(photos / "misplaced.png")  # `load` says what is wrong
    assert data.contents(f"folder:{photos}") is None
