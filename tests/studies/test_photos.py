"""From a folder of photographs to a study: what is counted, how many folds there are, what is written and refused."""

import os
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from dmlrc import cli, studies
from dmlrc.errors import DmlrcError, MissingDataError, UsageError
from dmlrc.studies import own, photos
from dmlrc.studies.photos import Photos


@pytest.fixture
def folder(tmp_path):
    """Makes a folder of so many classes of so many small pictures; the first class may have another number."""

    def make(classes, images=2, first=None, name="My fruit!"):
        random = np.random.default_rng(0)
        for label in range(classes):
            (tmp_path / name / f"{label:02}").mkdir(parents=True)
            for place in range(first if first is not None and not label else images):
                pixels = random.integers(0, 255, (10, 12, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / name / f"{label:02}" / f"{place}.png")
        return tmp_path / name

    return make


@pytest.mark.parametrize(("classes", "folds"), [(8, 2), (11, 2), (12, 3), (16, 4), (100, 4)])
def test_folds_are_as_many_as_the_classes_suffice_for(classes, folds):
    assert Photos("", dict.fromkeys(range(classes), 2), {}).folds == folds


def test_what_is_in_a_folder(folder):
    found = photos.look(str(folder(12, images=3, first=1)))
    assert (found.images, len(found.sizes), found.sizes["00"], found.folds) == (34, 12, 1, 3)
    study, _ = photos.study_of(found, None, {})
    said = "\n".join(photos.plan(found, study))
    assert "34 in 12 classes, 1 to 3 of each" in said
    assert "a single photo: 00; it cannot be found" in said
    assert "6 to train and choose on, in 3 folds, 6 others to test on" in said
    assert "want 16 classes" in said
    assert "minute" in said


def test_more_workers_than_cores_are_no_faster(folder, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    found = photos.look(str(folder(12)))
    study, _ = photos.study_of(found, None, {})
    one, two, many = (photos.plan(found, study, workers) for workers in (1, 2, 16))
    assert two == many != one


def test_a_name_that_is_no_text_is_spelt_out(folder, call):
    home = folder(8, images=3)
    (home / "07").rename(home / "07\x1b[31m\n")
    for photo in sorted((home / "07\x1b[31m\n").iterdir())[1:]:
        photo.unlink()
    code, told, _ = call("photos", str(home), "--check")
    assert code == 0
    assert r"a single photo: 07\x1b[31m\n; it cannot be found" in told


def test_files_that_are_no_images_are_counted(folder):
    home = folder(8)
    for name in ("00/a.MOV", "00/b.mov", "03/note", "03/.hidden"):
        (home / name).write_text("")
    (home / "04" / "album.jpg").mkdir()
    found = photos.look(str(home))
    assert found.left_out == {".mov": 2, "": 1}
    said = "\n".join(photos.plan(found, photos.study_of(found, None, {})[0]))
    assert "left out, since they cannot be read as images: 2 .mov, 1 without an ending" in said
    assert "heic" not in said


def test_who_has_photographs_of_an_iphone_is_told_what_reads_them(folder):
    found = photos.look(str(folder(8)))
    said = photos.plan(replace(found, left_out={".heic": 2}), photos.study_of(found, None, {})[0])
    assert "          .heic is read where dmlrc is installed with its extra 'heic'" in said


def test_a_list_of_studies_that_cannot_be_written_is_named(home):
    (home / "studies.toml").mkdir()
    with pytest.raises(DmlrcError, match=r"studies.toml cannot be read \("):
        own.enter("[a]")


def test_a_command_given_twice_at_once_enters_its_study_once(home):
    entry = '\n[mine]\nlike = "glyphs-quick"\n'
    own.enter(entry)
    own.enter(entry)  # the second command saw no entry either when it began
    assert (home / "studies.toml").read_text() == entry
    with pytest.raises(DmlrcError, match=r"studies.toml has changed since \(.*mine.*\): give the command again"):
        own.enter('\n[mine]\nlike = "grocery-quick"\n')
    assert (home / "studies.toml").read_text() == entry


@pytest.mark.parametrize(
    ("classes", "images", "says"),
    [
        (7, 2, "has 7 classes, and 8 are needed: 4 to train and choose on"),
        (1, 2, "has 1 class, and 8 are needed"),
        (8, 1, "has a single photo"),
    ],
)
def test_folders_that_do_not_suffice(folder, classes, images, says):
    with pytest.raises(UsageError, match=says):
        photos.look(str(folder(classes, images)))
    with pytest.raises(MissingDataError, match="there is no folder"):
        photos.look("nowhere")


def test_a_study_is_written_once_and_found_again(folder, home):
    found = photos.look(str(folder(8)))
    study, entry = photos.study_of(found, None, {"trials": 3})
    assert not (home / "studies.toml").exists()
    (home / "studies.toml").write_text('[other]\nlike = "glyphs-quick"\n')
    own.enter(entry)
    assert studies.own_studies().keys() == {"other", "My-fruit"}
    assert studies.get("My-fruit") == study
    assert (study.protocol.folds, study.budget.trials, study.class_order) == (2, 3, "random")
    assert (study.protocol.trunk, study.protocol.weights) == ("timm:tf_efficientnet_lite0", "package")
    assert photos.study_of(found, None, {}) == (study, "")
    with pytest.raises(UsageError, match="has 3 trials: change it there, or give this one another name"):
        photos.study_of(found, None, {"trials": 4})
    with pytest.raises(UsageError, match="is of other images"):
        photos.study_of(found, "other", {})


@pytest.mark.parametrize("name", ["Blüten", "水果"])
def test_a_folder_may_have_a_name_of_any_letters(folder, home, name):
    study, entry = photos.study_of(photos.look(str(folder(8, name=name))), None, {})
    own.enter(entry)
    assert study.name == name
    assert studies.get(name) == study


def test_a_name_that_is_no_text_is_named(folder, tmp_path):
    made = folder(8)
    made.rename(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    with pytest.raises(UsageError, match="is no valid text"):
        photos.look(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))


@pytest.mark.parametrize("arguments", [["--folds", "3"], []])
def test_what_cannot_be_divided_or_scored_is_refused_before_anything_is_written(
    folder, home, arguments, monkeypatch, capsys
):
    made = folder(8, images=2 if arguments else 1, first=2)
    for check in ([], ["--check"]):
        monkeypatch.setattr("sys.argv", ["dmlrc", "photos", str(made), *arguments, *check])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert "too few for 3 folds" in said if arguments else "have a single image each" in said
        assert not (home / "studies.toml").exists()


def test_a_name_that_is_taken_is_refused_and_nothing_written(folder, home):
    found = photos.look(str(folder(8, name="grocery")))
    for name, says in ((None, "^the name 'grocery' would mix with '"), ("a b", "^study 'a b' names a folder too")):
        with pytest.raises(UsageError, match=f"{says}.*, with --name$"):
            photos.study_of(found, name, {})
    assert not (home / "studies.toml").exists()


def test_a_check_trains_nothing_and_writes_nothing(folder, home, monkeypatch, capsys):
    path = folder(8)
    monkeypatch.setattr("sys.argv", ["dmlrc", "photos", str(path), "--check"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert "16 in 8 classes, 2 of each" in capsys.readouterr().out
    assert not (home / "studies.toml").exists()
    (path / "00" / "0.png").write_bytes(b"no image")
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert "0.png is damaged" in capsys.readouterr().err
