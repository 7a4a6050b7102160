"""Every loader on a tiny set in the real layout, the cache, and what a user with bad data reads."""

import csv
import os
import shutil
import unicodedata
import zlib
from dataclasses import replace

import numpy as np
import pytest
from factories import complete_with
from PIL import Image
from scipy.io import savemat

from dmlrc import data, paths
from dmlrc.data import cache, decoding, glyphs, registry, splits
from dmlrc.errors import DmlrcError, MissingDataError, UsageError


def write_image(file, colour, size=(20, 20), mode="RGB"):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(file, quality=95)


def write_text(file, *lines):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def grey(image):
    """The mean grey value that tells which file an image came from."""
    return round(float(image.mean()))


@pytest.fixture
def root(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("DMLRC_DATA", str(folder))
    return folder


# Glyphs


@pytest.fixture(scope="module")
def letters():
    return data.load("glyphs")


def test_glyphs_are_about_1400_classes_of_12_faces(letters):
    assert letters.images.dtype == np.uint8
    assert letters.images.shape == (len(letters.labels), 1, 28, 28)
    assert letters.labels.dtype == np.int64
    assert 1350 <= len(letters.class_names) <= 1450
    assert np.bincount(letters.labels).tolist() == [12] * len(letters.class_names)
    assert not letters.flip


def test_glyphs_are_the_same_bytes_on_every_run():
    assert np.array_equal(glyphs.draw_glyphs(every=60).images, glyphs.draw_glyphs(every=60).images)


def test_glyph_classes_are_letters_in_unicode_order_and_homoglyphs_are_one_class(letters):
    first = [name[0] for name in letters.class_names]
    assert first == sorted(first)
    assert all(unicodedata.category(c).startswith("L") for c in first)
    assert letters.class_names[0] == "A LATIN CAPITAL LETTER A"
    assert {"A", "Ц", "Ω", "g", "ж"} <= set(first)
    assert not {"Α", "А", "Ο", "О", "о", "1", "+"} & set(first)  # Greek and Cyrillic capitals, a digit, a sign


def test_glyphs_are_light_on_dark_and_not_cut_off(letters):
    assert (letters.images.reshape(len(letters.images), -1).max(axis=1) > 60).all()
    assert letters.images.mean() < 60
    border = np.concatenate([letters.images[:, 0, [0, -1]], letters.images[:, 0][:, :, [0, -1]].swapaxes(1, 2)], axis=1)
    assert (border.reshape(len(border), -1).max(axis=1) > 0).mean() < 0.1


def test_faces_of_one_letter_differ_and_look_alike(letters):
    images = letters.images.reshape(-1, 12, 28 * 28).astype(float)
    assert len(np.unique(images[0], axis=0)) == 12
    means = images[:60].mean(axis=1)
    nearest = [np.linalg.norm(means - image, axis=1).argmin() for image in images[:60, 0]]
    assert np.mean(nearest == np.arange(60)) > 0.7


def test_identical_bitmaps_in_most_faces_are_one_class():
    drawn = np.arange(5 * 3).reshape(5, 3, 1, 1).astype(np.uint8)
    drawn[2, :2] = drawn[0, :2]  # in two of three faces
    drawn[4, 0] = drawn[1, 0]  # in one of three
    assert glyphs._merge_identical(drawn).tolist() == [0, 1, 0, 3, 4]


def test_glyphs_of_another_size():
    assert data.load("glyphs-small", size=16).images.shape[2:] == (16, 16)


# Loaders


@pytest.fixture
def omniglot(root, monkeypatch):
    complete_with(monkeypatch, "omniglot", images=8, classes=4)
    for part, alphabet, character, ink in (
        ("images_evaluation", "Angelic", "character01", 200),
        ("images_background", "Greek", "character02", 150),
        ("images_background", "Greek", "character01", 100),
        ("images_background", "Braille", "character01", 50),
    ):
        for drawer in (1, 2):
            write_image(root / "omniglot" / part / alphabet / character / f"0001_{drawer:02}.png", ink, mode="L")


def test_omniglot(root, omniglot):
    images = data.load("omniglot")
    assert images.images.shape == (8, 1, 28, 28)
    assert images.class_names == (
        "Braille/character01",
        "Greek/character01",
        "Greek/character02",
        "Angelic/character01",
    )
    assert images.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [grey(image) for image in images.images[::2]] == [205, 155, 105, 55]  # dark ink becomes light
    assert not images.flip
    assert data.load("omniglot", size=105).images.shape[2:] == (105, 105)


def test_one_bit_omniglot_is_reduced_with_antialiasing(root, omniglot):
    page = np.full((105, 105), True)
    page[:, 50] = False  # a stroke of one pixel
    Image.fromarray(page).save(root / "omniglot/images_background/Greek/character01/0001_01.png")
    image = data.load("omniglot").images[2, 0]
    assert 20 < image.max() < 255
    assert (image.max(axis=0) > 0).sum() <= 3


@pytest.fixture(params=["cars196", "cars196crops"])
def cars(request, root, monkeypatch):
    complete_with(monkeypatch, request.param, images=3, classes=3)
    folder = root / request.param
    names = ["Audi A", "BMW B", "Zonda Z"]
    entries = [("car_ims/000001.jpg", 3, 10), ("car_ims/000002.jpg", 1, 60), ("car_ims/000003.jpg", 3, 110)]
    fields = ["relative_im_path", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test"]
    annotations = np.empty((1, len(entries)), dtype=[(f, "O") for f in fields])
    for i, (path, number, colour) in enumerate(entries):
        annotations[0, i] = (path, 1, 2, 3, 4, number, 0)
        write_image(folder / path, (colour,) * 3)
    savemat(folder / "cars_annos.mat", {"annotations": annotations, "class_names": np.array([names], dtype=object)})
    return request.param


def test_cars196_takes_labels_from_the_annotations(cars):
    images = data.load(cars, size=16)
    assert images.labels.tolist() == [2, 0, 2]
    assert images.class_names == ("Audi A", "BMW B", "Zonda Z")
    assert [grey(image) for image in images.images] == [10, 60, 110]
    assert images.flip
    assert data.load(cars).images.shape == (3, 3, *((256, 256) if cars == "cars196" else (112, 112)))


@pytest.fixture
def grocery(root, monkeypatch):
    complete_with(monkeypatch, "grocery", images=3, classes=2)
    dataset = root / "grocery" / "dataset"
    write_text(
        dataset / "classes.csv",
        "Class Name (str),Class ID (int),Coarse Class Name (str),Coarse Class ID (int),Iconic Image Path (str)",
        "Apple,0,Fruit,0,/a.jpg",
        "Pear,1,Fruit,0,/b.jpg",
    )
    for part, fine, colour in (("train", 1, 40), ("val", 0, 80), ("test", 1, 120)):
        write_text(dataset / f"{part}.txt", f"{part}/Fruit/x_001.jpg, {fine}, 0")
        write_image(dataset / part / "Fruit" / "x_001.jpg", (colour,) * 3)


def test_grocery_joins_its_three_lists(grocery):
    images = data.load("grocery")
    assert images.images.shape == (3, 3, 112, 112)
    assert images.labels.tolist() == [1, 0, 1]
    assert images.class_names == ("Apple", "Pear")
    assert images.partition.tolist() == ["train", "val", "test"]
    assert [grey(image) for image in images.images] == [40, 80, 120]


def test_grocery_in_the_folder_of_its_repository(root, grocery):
    (root / "grocery").rename(root / "moved")
    (root / "grocery").mkdir()
    (root / "moved").rename(root / "grocery" / "GroceryStoreDataset-master")
    assert len(data.load("grocery").labels) == 3


@pytest.fixture
def cub200(root, monkeypatch):
    complete_with(monkeypatch, "cub200", images=3, classes=2)
    folder = root / "cub200" / "CUB_200_2011"
    paths = ["001.Albatross/a.jpg", "001.Albatross/b.jpg", "002.Wren/c.jpg"]
    write_text(folder / "images.txt", *(f"{i} {path}" for i, path in enumerate(paths, 1)))
    write_text(folder / "image_class_labels.txt", "1 1", "2 1", "3 2")
    write_text(folder / "classes.txt", "1 001.Albatross", "2 002.Wren")
    for path, colour in zip(paths, (30, 60, 90), strict=True):
        write_image(folder / "images" / path, (colour,) * 3, size=(30, 20))


def test_cub200(cub200):
    images = data.load("cub200")
    assert images.images.shape == (3, 3, 256, 256)
    assert images.labels.tolist() == [0, 0, 1]
    assert images.class_names == ("001.Albatross", "002.Wren")
    assert [grey(image) for image in images.images] == [30, 60, 90]


@pytest.mark.parametrize("packed", [False, True])
def test_cub200_2010(root, monkeypatch, packed):
    complete_with(monkeypatch, "cub200_2010", images=3, classes=2)
    folder = root / ("cub200-2010-224" if packed else "cub200_2010")
    for path, colour in (("002.Wren/c.jpg", 90), ("001.Albatross/b.jpg", 60), ("001.Albatross/a.jpg", 30)):
        write_image(folder / "images" / path, (colour,) * 3, size=(224, 224))
    write_text(folder / "images" / "001.Albatross" / "._a.jpg", "what a Mac adds to an archive")
    if packed:
        shutil.make_archive(str(folder / "cub200_2010_images"), "zip", folder, "images")
        shutil.rmtree(folder / "images")
    images = data.load("cub200_2010")
    assert images.images.shape == (3, 3, 224, 224)
    assert images.labels.tolist() == [0, 0, 1]
    assert images.class_names == ("001.Albatross", "002.Wren")
    assert [grey(image) for image in images.images] == [30, 60, 90]
    assert images.flip


@pytest.fixture
def sop(root, monkeypatch):
    complete_with(monkeypatch, "sop", images=5, classes=4)
    folder = root / "Stanford_Online_Products"
    header = "image_id class_id super_class_id path"
    listed = {
        "train": ["1 1 1 bicycle_final/111_0.JPG", "2 1 1 bicycle_final/111_1.JPG", "3 2 1 bicycle_final/222_0.JPG"],
        "test": ["4 3 2 sofa_final/333_0.JPG", "5 4 2 sofa_final/444_0.JPG"],
    }
    for part, lines in listed.items():
        write_text(folder / f"Ebay_{part}.txt", header, *lines)
        for line in lines:
            write_image(folder / line.split()[-1], (10 * int(line[0]),) * 3)


def test_sop(sop):
    images = data.load("sop", size=32)
    assert images.labels.tolist() == [0, 0, 1, 2, 3]
    assert images.class_names == ("bicycle 1", "bicycle 2", "sofa 3", "sofa 4")
    assert images.partition.tolist() == ["train"] * 3 + ["test"] * 2
    assert [grey(image) for image in images.images] == [10, 20, 30, 40, 50]


@pytest.fixture(params=["img", "Img/img"])
def inshop(request, root, monkeypatch):
    complete_with(monkeypatch, "inshop", images=5, classes=4)
    folder = root / "inshop"
    listed = [
        ("img/WOMEN/Tees/id_00000004/01_1_front.jpg", "id_00000004", "gallery"),
        ("img/WOMEN/Tees/id_00000002/01_1_front.jpg", "id_00000002", "query"),
        ("img/MEN/Denim/id_00000003/01_1_front.jpg", "id_00000003", "train"),
        ("img/WOMEN/Tees/id_00000002/02_1_side.jpg", "id_00000002", "gallery"),
        ("img/MEN/Denim/id_00000001/01_1_front.jpg", "id_00000001", "train"),
    ]
    rows = [f"{path}    {item}    {part}" for path, item, part in listed]
    write_text(folder / "Eval/list_eval_partition.txt", "5", "image_name item_id evaluation_status", *rows)
    for i, (path, *_) in enumerate(listed):
        write_image(folder / path.replace("img", request.param, 1), (20 * i,) * 3)
    return folder


def test_inshop_has_its_training_items_first_and_keeps_query_and_gallery(inshop):
    images = data.load("inshop", size=32)
    assert images.class_names == ("id_00000001", "id_00000003", "id_00000002", "id_00000004")
    assert images.labels.tolist() == [3, 2, 1, 2, 0]
    assert images.partition.tolist() == ["gallery", "query", "train", "gallery", "train"]
    assert [grey(image) for image in images.images] == [0, 20, 40, 60, 80]


def test_an_item_on_both_sides_of_inshop(inshop):
    file = inshop / "Eval/list_eval_partition.txt"
    file.write_text(file.read_text().replace("query", "train"))
    with pytest.raises(DmlrcError, match="id_00000002 is both for training and for testing"):
        data.load("inshop")


@pytest.fixture
def album(tmp_path):
    folder = tmp_path / "my album"
    for name, colours in (("dogs", (10, 20)), ("cats", (200,)), (".hidden", (5,))):
        for colour in colours:
            write_image(folder / name / f"{colour}.PNG", (colour,) * 3, size=(40, 30))
    write_text(folder / "cats" / "notes.txt", "not an image")
    return folder


def test_folder(album):
    images = data.load(f"folder:{album}", size=24)
    assert images.name == "folder:my album"
    assert images.class_names == ("cats", "dogs")
    assert images.labels.tolist() == [0, 1, 1]
    assert images.images.shape == (3, 3, 24, 24)
    assert [grey(image) for image in images.images] == [200, 10, 20]
    assert images.flip


def test_folder_with_an_empty_class(album):
    (album / "birds").mkdir()
    with pytest.raises(DmlrcError, match="birds holds no images"):
        data.load(f"folder:{album}")


@pytest.mark.parametrize("place", ["cats/long haired/1.png", "dogs/a/b/1.png", "cover.jpg"])
def test_an_image_that_would_be_left_out_is_named(album, place):
    write_image(album / place, (5,) * 3)
    with pytest.raises(DmlrcError, match=rf"image .*{place} does not lie directly in a sub-folder"):
        data.load(f"folder:{album}")


def test_folders_without_images_and_hidden_ones_inside_a_class_are_no_matter(album):
    write_text(album / "cats" / "notes" / "a.txt", "not an image")
    write_image(album / "cats" / ".thumbnails" / "1.png", (5,) * 3)
    write_image(album / "cats" / "notes" / ".thumbnails" / "1.png", (5,) * 3)
    (album / "dogs" / "folder.png").mkdir()
    assert len(data.load(f"folder:{album}", size=24).labels) == 3


def test_a_class_that_a_link_makes_two_is_named(album):
    (album / "hounds").symlink_to(album / "dogs")
    with pytest.raises(DmlrcError, match=r"folder .*dogs is there twice, by a link, and would be two classes"):
        data.load(f"folder:{album}")


def test_an_image_whose_link_leads_nowhere_is_named_and_not_left_out(album):
    (album / "dogs" / "2.png").symlink_to(album / "on a disk that is not mounted.png")
    with pytest.raises(MissingDataError, match=r"image .*dogs.2\.png is listed but not there"):
        data.load(f"folder:{album}")


@pytest.mark.parametrize(("make", "message"), [(False, "there is no folder"), (True, "has no sub-folders")])
def test_folder_that_is_none(tmp_path, make, message):
    if make:
        (tmp_path / "nothing").mkdir()
    with pytest.raises(MissingDataError, match=message):
        data.load(f"folder:{tmp_path / 'nothing'}")


def test_names_states_and_unknown_sets(root, grocery):
    files = ("cars196", "cars196crops", "cub200", "cub200_2010", "grocery", "inshop", "omniglot", "sop")
    assert data.names() == ("glyphs", "glyphs-small", "icons", "grocery-lite0", *files)
    assert [data.state(name) for name in ("glyphs", "grocery", "sop")] == ["embedded", "here", "missing"]
    with pytest.raises(UsageError, match="unknown data set 'omniglott': did you mean 'omniglot'"):
        data.load("omniglott")


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("sop", "run `dmlrc data fetch sop`"),
        ("cars196", "put car_ims.tgz and cars_annos.mat into .*downloads/cars196"),
        ("inshop", "put img.zip and list_eval_partition.txt into .*downloads/inshop .*Google Drive"),
    ],
)
def test_a_missing_set_names_the_place_and_the_way_to_get_it(root, name, way):
    with pytest.raises(MissingDataError, match=f"{name!r} is not in .*{name}, where DMLRC_DATA .*{way}"):
        data.load(name)


def test_no_data_folder_named(monkeypatch):
    monkeypatch.delenv("DMLRC_DATA", raising=False)
    with pytest.raises(MissingDataError, match="set DMLRC_DATA"):
        data.load("omniglot")
    assert data.state("omniglot") == "missing"


def test_root_goes_before_the_environment(root, grocery, tmp_path):
    shutil.move(root / "grocery", tmp_path / "elsewhere" / "grocery")
    assert len(data.load("grocery", root=tmp_path / "elsewhere").labels) == 3
    with pytest.raises(MissingDataError):
        data.load("grocery")


def test_damaged_lists(root, grocery):
    write_text(root / "grocery/dataset/val.txt", "val/Fruit/x_001.jpg, many, 0")
    with pytest.raises(DmlrcError, match=r"the lists in .*grocery cannot be read"):
        data.load("grocery")


# Decoding and the cache


def test_a_photograph_becomes_its_centre_square(tmp_path):
    pixels = np.zeros((40, 80, 3), dtype=np.uint8)
    pixels[:, 20:60] = [10, 200, 90]  # the central square
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    Image.fromarray(pixels.transpose(1, 0, 2)).save(tmp_path / "tall.png")
    for name in ("wide.png", "tall.png"):
        crop = decoding.decode(tmp_path / name, decoding.Form(40))
        assert (crop == np.array([10, 200, 90])[:, None, None]).all()
        squashed = decoding.decode(tmp_path / name, decoding.Form(40, square="squash"))
        assert squashed.shape == (3, 40, 40)
        assert grey(squashed[1]) == pytest.approx(100, abs=2)


def test_an_image_of_the_stored_size_is_stored_as_it_is(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert np.array_equal(decoding.decode(tmp_path / "a.png", decoding.Form(24)), pixels.transpose(2, 0, 1))


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "CMYK"])
def test_every_mode_becomes_rgb_or_grey(tmp_path, mode):
    file = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    Image.new("RGB", (9, 9), "white").convert(mode).save(file)
    assert (decoding.decode(file, decoding.Form(9)) == 255).all()
    assert (decoding.decode(file, decoding.Form(9, channels=1, ink=True)) == 0).all()


def counted(monkeypatch):
    """The files decoded from now on."""
    files = []
    inner = cache.decode
    monkeypatch.setattr(cache, "decode", lambda file, form: files.append(file) or inner(file, form))
    return files


def test_images_are_decoded_once_and_mapped_read_only(root, grocery, monkeypatch):
    files = counted(monkeypatch)
    first, second = data.load("grocery"), data.load("grocery")
    assert len(files) == 3
    assert isinstance(second.images, np.memmap)
    assert np.array_equal(first.images, second.images)
    with pytest.raises(ValueError, match="read-only"):
        second.images[0] = 0


@pytest.mark.parametrize("change", ["size", "square", "file", "list"])
def test_what_changes_the_images_is_decoded_again(root, grocery, monkeypatch, change):
    data.load("grocery")
    files = counted(monkeypatch)
    settings = {"size": {"size": 50}, "square": {"square": "squash"}}.get(change, {})
    image = root / "grocery/dataset/val/Fruit/x_001.jpg"
    if change == "file":
        write_image(image, (81,) * 3)
        os.utime(image, ns=(1, 1))
    if change == "list":
        write_text(root / "grocery/dataset/val.txt", "test/Fruit/x_001.jpg, 0, 0")
    assert grey(data.load("grocery", **settings).images[1]) == {"file": 81, "list": 120}.get(change, 80)
    assert files


def test_the_cache_lies_where_the_environment_says_or_in_the_users_and_never_in_the_data(
    root, grocery, tmp_path, monkeypatch
):
    before = sorted(root.rglob("*"))
    data.load("grocery")
    assert len(list((tmp_path / "cache").glob("grocery-112-crop-*.npy"))) == 1
    monkeypatch.delenv("DMLRC_CACHE")
    monkeypatch.setattr(paths.platformdirs, "user_cache_path", lambda name, appauthor: tmp_path / "user" / name)
    data.load("grocery")
    assert len(list((tmp_path / "user" / "dmlrc").glob("grocery-112-crop-*.npy"))) == 1
    assert sorted(root.rglob("*")) == before


def test_a_cache_that_cannot_be_written(root, grocery, tmp_path, monkeypatch):
    (tmp_path / "occupied").write_text("")
    monkeypatch.setenv("DMLRC_CACHE", str(tmp_path / "occupied"))
    with pytest.raises(DmlrcError, match=r"the cache .*occupied.* cannot be written .*set DMLRC_CACHE"):
        data.load("grocery")


def test_a_damaged_image_is_named_and_leaves_no_half_written_cache(root, grocery, tmp_path):
    image = root / "grocery/dataset/test/Fruit/x_001.jpg"
    image.write_bytes(image.read_bytes()[:300])
    with pytest.raises(DmlrcError, match=r"test/Fruit/x_001.jpg is damaged or not an image \(.*\): restore"):
        data.load("grocery")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"not an image at all"])
def test_a_file_that_is_no_image(tmp_path, content):
    (tmp_path / "a.jpg").write_bytes(content)
    with pytest.raises(DmlrcError, match=r"a\.jpg is damaged or not an image"):
        decoding.decode(tmp_path / "a.jpg", decoding.Form(8))


def test_a_listed_image_that_is_not_there(root, grocery):
    (root / "grocery/dataset/test/Fruit/x_001.jpg").unlink()
    with pytest.raises(MissingDataError, match=r"x_001\.jpg is listed but not there"):
        data.load("grocery")


def test_computed_arrays_are_made_once(tmp_path):
    calls = []

    def make():
        calls.append(1)
        return np.arange(6.0).reshape(2, 3)

    arrays = [cache.cached_array("features-x.npy", make) for _ in range(2)]
    assert len(calls) == 1
    assert all(np.array_equal(array, np.arange(6.0).reshape(2, 3)) for array in arrays)


def test_streamed_arrays_are_written_some_rows_at_a_time_and_once(tmp_path):
    rows, calls = np.arange(30.0).reshape(5, 3, 2), []

    def make():
        for start in range(0, 5, 2):
            calls.append(start)
            yield rows[start : start + 2]

    arrays = [cache.cached_rows("maps-x.npy", rows.shape, "<f2", make) for _ in range(2)]
    assert calls == [0, 2, 4]
    for array in arrays:
        assert isinstance(array, np.memmap)
        assert array.dtype == np.float16
        assert np.array_equal(array, rows)


@pytest.mark.parametrize(("settings", "message"), [({"size": 0}, "positive"), ({"square": "round"}, "'crop' or")])
def test_bad_forms(root, grocery, settings, message):
    with pytest.raises(UsageError, match=message):
        data.load("grocery", **settings)


# Counts


@pytest.mark.parametrize("ask", [data.load, data.check])
@pytest.mark.parametrize("counts", [(4, 2), (2, 2), (3, 3)])
def test_a_set_that_is_not_whole_is_neither_loaded_nor_sound(root, grocery, monkeypatch, ask, counts):
    complete_with(monkeypatch, "grocery", *counts)
    with pytest.raises(DmlrcError, match="has 3 images of 2 classes instead of {} of {}: remove ".format(*counts)):
        ask("grocery")


def test_check_finds_every_image(root, grocery):
    assert len(data.check("grocery").files) == 3
    (root / "grocery/dataset/val/Fruit/x_001.jpg").unlink()
    with pytest.raises(MissingDataError, match=r"val/Fruit/x_001.jpg of data set 'grocery' is not there"):
        data.check("grocery")


def test_a_loaded_set_splits(letters):
    made = splits.halves(letters.labels)
    assert len(np.unique(letters.labels[made.test])) == len(letters.class_names) - len(letters.class_names) // 2


def test_an_image_set_is_shown_in_two_lines():
    images = data.load("glyphs-small")
    first, second = repr(images).splitlines()
    assert first.startswith("ImageSet 'glyphs-small': 2,232 images of 186 classes (A LATIN CAPITAL LETTER A, ")
    assert first.endswith(", ...), 12 of each")
    assert second == "  images 1 x 28 x 28, uint8"
    uneven = replace(images, labels=np.array([0, 0, 1]), class_names=("a", "b"), images=images.images[:3])
    assert repr(uneven).startswith("ImageSet 'glyphs-small': 3 images of 2 classes (a, b), 1 to 2 of each")


def test_the_extent_of_a_set_that_is_drawn_or_brought_is_its_own(letters):
    for found in (letters, data.load("glyphs-small"), data.load("icons"), data.load("grocery-lite0")):
        images, classes, shape = data.extent(found.name)
        assert found.shape == shape
        assert len(found.labels) == pytest.approx(images, rel=0.02)  # letters may differ with FreeType
        assert len(found.class_names) == pytest.approx(classes, rel=0.02)


@pytest.mark.parametrize("name", [None, 5])
def test_a_name_that_is_none_is_refused_in_a_sentence(name):
    for ask in (data.load, data.state):
        with pytest.raises(UsageError, match=f"unknown data set {name}: known are "):
            ask(name)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"size": 0}, "image size"),
        ({"size": -4}, "image size"),
        ({"square": "x"}, "square is .crop. or .squash., not .x"),
    ],
)
def test_glyphs_of_no_size_are_refused(given, says):
    with pytest.raises(UsageError, match=says):
        data.load("glyphs-small", **given)


@pytest.mark.parametrize("error", [zlib.error, NotImplementedError, csv.Error])
def test_lists_that_a_reader_stumbles_over_are_named(tmp_path, error):
    def read(folder):
        raise error("damaged")

    with pytest.raises(DmlrcError, match=r"cannot be read .*damaged.*: unpack the original files again"):
        replace(registry.SOURCES["cars196"], read=read).listing(tmp_path)
