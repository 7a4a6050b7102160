"""Data sets of features: what is read is what was written, and whoever wants images or another trunk is told."""

from dataclasses import replace

import numpy as np
import pytest

from dmlrc import data, inputs, studies
from dmlrc.data import ImageSet, features
from dmlrc.errors import MissingDataError, UsageError
from dmlrc.papers import musgrave2020
from dmlrc.studies import feature_sets

CONV4 = replace(musgrave2020.FROZEN, trunk="conv4", weights=None, image_size=28, crop_size=28)


@pytest.fixture(scope="module")
def grocery():
    return data.load("grocery-lite0")


def photographs():
    pixels = np.random.default_rng(0).integers(0, 256, (7, 3, 30, 30), dtype=np.uint8)
    return ImageSet("photographs", pixels, np.array([2, 0, 1, 0, 2, 1, 0]), ("a", "b, c", "ü"), flip=True)


def test_what_is_made_written_and_read_are_the_features_of_the_frozen_trunk_by_class(tmp_path):
    images, given = photographs(), CONV4.trunk_input
    made = feature_sets.make("small", images, given)
    features.write_features(made, tmp_path / "small")
    found = features.load_features("small", tmp_path / "small")
    of_all = inputs.frozen_features(images, given, inputs.device())
    assert found.labels.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert np.array_equal(found.features, of_all[[1, 3, 6, 2, 5, 0, 4]].astype(np.float16))
    assert found.features.flags.c_contiguous
    assert (found.class_names, found.photographs, found.made_by) == (images.class_names, "photographs", made.made_by)


def test_grocery_is_whole_and_trains_without_a_photograph(grocery):
    assert grocery.features.shape == (5421, 1280)
    assert len(grocery.class_names) == 81
    assert np.bincount(grocery.labels).min() == 35
    study = studies.get("grocery-quick")
    prepared = inputs.prepare(study.dataset, study.protocol, "default", 0)
    assert np.array_equal(prepared.source.evaluate(np.array([3, 5])), grocery.features[[3, 5]].astype(np.float32))
    assert len(np.unique(prepared.labels[prepared.splits.test])) == 41


def test_grocery_comes_with_its_licence_its_authors_and_the_command_that_makes_it(grocery):
    folder = features.FOLDER / "grocery-lite0"
    assert "MIT License" in (folder / "LICENSE.txt").read_text()
    readme = (folder / "README.md").read_text()
    assert "Klasson" in readme
    assert "python -m dmlrc.studies.feature_sets grocery-lite0" in readme
    assert sum(file.stat().st_size for file in folder.iterdir()) < 8e6
    _, given = feature_sets.FEATURE_SETS["grocery-lite0"]
    assert grocery.made_by == given._asdict()


def test_images_that_are_not_there(grocery):
    with pytest.raises(MissingDataError, match=r"holds features, not images: .* `dmlrc data fetch grocery`"):
        _ = grocery.images
    with pytest.raises(UsageError, match="nothing to download"):
        data.fetch("grocery-lite0")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"trunk": "conv4"}, "trunk 'timm:tf_efficientnet_lite0', not 'conv4'"),
        ({"frozen_trunk": False}, "frozen_trunk True, not False"),
        ({"crop_size": 112}, "crop_size 224, not 112"),
    ],
)
def test_another_trunk_or_input_than_they_were_made_with(changes, says):
    protocol = replace(studies.get("grocery-quick").protocol, **changes)
    with pytest.raises(UsageError, match=f"{says}: use data set 'grocery'"):
        inputs.prepare("grocery-lite0", protocol, "default", 0)


def test_a_feature_set_is_shown_in_two_lines(grocery):
    first, second = repr(grocery).splitlines()
    assert first.startswith("FeatureSet 'grocery-lite0': 5,421 images of 81 classes (")
    assert second == "  1280 features of each, by timm:tf_efficientnet_lite0, float16"
