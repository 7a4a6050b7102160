"""A split of one's own photographs, given as a CSV file: training and test classes, queries and gallery."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from dmlrc import data, inputs, records, run, studies
from dmlrc.errors import DmlrcError

GIVEN = """\
image,part
c0,test
c1/0.png,query
c1/1.png,gallery
c1/2.png,gallery
c1/3.png,query
c2,train
c3,train
c4,train
c5,train
c6,test
c7,gallery
"""


def in_turn(labels, classes, images, rng):
    """A sampler of one's own: the classes in turn."""
    for first in itertools.count():
        chosen = (first + np.arange(classes)) % (labels.max() + 1)
        yield np.concatenate([rng.choice(np.flatnonzero(labels == each), images) for each in chosen])


SMOKE = studies.STUDIES["glyphs-smoke"]
GIVEN_SPLIT = replace(SMOKE.protocol, split="official", folds=2, augmentation="none")


@pytest.fixture
def photos(tmp_path):
    random = np.random.default_rng(0)
    for label in range(8):
        (tmp_path / "photos" / f"c{label}").mkdir(parents=True)
        for place in range(4):
            pixels = random.integers(0, 256, (8, 8, 3), dtype=np.uint8) // 4 + 20 * label
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "photos" / f"c{label}" / f"{place}.png")
    (tmp_path / "photos" / "split.csv").write_text(GIVEN)
    return tmp_path / "photos"


def test_a_given_split_says_which_classes_train_and_which_images_are_queries(photos):
    images = data.load(f"folder:{photos}", size=28)
    splits = inputs.split(images, GIVEN_SPLIT, "default", 0)
    assert sorted(set(images.labels[splits.train_val])) == [2, 3, 4, 5]
    assert sorted(set(images.labels[splits.test])) == [0, 1, 6, 7]
    assert [sorted(set(images.labels[fold.val])) for fold in splits.folds] == [[2, 3], [4, 5]]
    assert inputs._queries(images, splits.test).tolist() == [4, 7]


@pytest.mark.parametrize("split", ["halves", "official"])
def test_only_the_given_split_has_queries(photos, split):
    """Other splits test other classes, of which the file may name the images of one alone."""
    (photos / "split.csv").write_text(GIVEN.replace("c6,", "c1,").replace("c1/", "c6/"))
    protocol = replace(GIVEN_SPLIT, split=split, trunk="conv4", image_size=28, crop_size=28)
    prepared = inputs.prepare(f"folder:{photos}", protocol, "default", 0, str(photos))
    assert (prepared.queries is None) == (split == "halves")


def test_without_the_file_there_is_no_such_split(photos):
    (photos / "split.csv").unlink()
    with pytest.raises(DmlrcError, match="has no official split"):
        inputs.split(data.load(f"folder:{photos}", size=28), GIVEN_SPLIT, "default", 0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (GIVEN.replace("query", "probe", 1), r"line 3 of .*split\.csv has the part 'probe': write one of train, test"),
        (GIVEN.replace("c2,train\n", ""), r"split\.csv does not say in which part 'c2/0\.png' is"),
        (GIVEN + "c9,test\n", r"line 13 of .*split\.csv names 'c9', and .*photos has no such image or sub-folder"),
        (GIVEN + "c1,test\n", r"line 13 of .*split\.csv names 'c1/0\.png' again: an image is in one part"),
        (GIVEN.replace("image,part", "file,part"), "does not begin with the line image,part"),
        ("", "does not begin with the line image,part"),
        (GIVEN.replace("\n", ",train\n").replace(",train", ",part", 1), "does not begin with .* each once"),
        (GIVEN + "c3", "line 13 of .* has the part ''"),
        (GIVEN.replace("c1/0.png,query", "c1/0.png,train"), "own parts share classes"),
        ("image,part\n" + "".join(f"c{label},train\n" for label in range(8)), "all classes are in the part train"),
        (GIVEN.replace("gallery", "query").replace("test", "query"), "no query has an image of its class among"),
        (
            "image,part\n"
            + "".join(f"c{n},train\n" for n in range(7))
            + "c7/0.png,query\n"
            + "".join(f"c7/{n}.png,gallery\n" for n in (1, 2, 3)),
            "gallery and test are one class alone",
        ),
        (GIVEN.replace("train", "gallery"), "0 of 8 classes are too few for 2 folds: .* on, so take more classes"),
    ],
)
def test_a_split_that_is_none_is_refused_in_one_sentence(photos, text, says):
    (photos / "split.csv").write_text(text)
    with pytest.raises(DmlrcError, match=says) as refused:
        inputs.split(data.load(f"folder:{photos}", size=28), GIVEN_SPLIT, "default", 0)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_no_text_is_refused(photos):
    (photos / "split.csv").write_bytes(b"image,part\n\xff\xfe,test\n")
    with pytest.raises(DmlrcError, match=r"split\.csv is no table"):
        data.load(f"folder:{photos}", size=28)


def test_a_study_of_toml_trains_and_tests_by_it(photos, home, monkeypatch):
    (home / "studies.toml").write_text(
        f'[given]\nlike = "glyphs-smoke"\ndataset = "folder:{photos}"\nsplit = "official"\n'
        'folds = 2\ntrials = 1\nreruns = 1\naugmentation = "none"\n'
    )
    found = studies.get("given")
    asked = []
    evaluate = inputs.PreparedData.__init__

    def prepared(self, labels, splits, source, protocol, queries=None):
        asked.append((splits.test.tolist(), None if queries is None else queries.tolist()))
        evaluate(self, labels, splits, source, protocol, queries)

    monkeypatch.setattr(inputs.PreparedData, "__init__", prepared)
    small = replace(found.method("triplet"), classes_per_batch=2, images_per_class=2, name="small", sampler=in_turn)
    run.run(found, [small])
    assert asked[0] == ([*range(8), *range(24, 32)], [4, 7])
    scores = records.load("given").scores.query("method == 'small' and metric == 'precision_at_1'")
    assert len(scores)
    assert set(scores["value"]) <= {0.0, 0.5, 1.0}  # of two queries
    assert re.fullmatch("[0-9a-f]{16}", records.load("given").meta["contents"])
