"""Units of a few steps on made-up photographs, by each way from images to a record, to run on one device or another."""

from dataclasses import replace

import numpy as np
import pytest

from dmlrc import inputs, unit
from dmlrc.data import ImageSet
from dmlrc.methods import Method
from dmlrc.papers import musgrave2020

PIXELS = np.random.default_rng(0).integers(0, 256, (96, 3, 16, 16), dtype=np.uint8)
PIXELS += np.repeat(np.arange(24, dtype=np.uint8) * 4, 4)[:, None, None, None]  # the classes differ
PHOTOGRAPHS = ImageSet("photographs", PIXELS, np.repeat(np.arange(24), 4), tuple(map(str, range(24))), flip=True)

IMAGES = replace(
    musgrave2020.CHARACTERS,
    image_size=16,
    crop_size=16,
    augmentation="crop",
    folds=2,
    iterations_per_epoch=2,
    max_epochs=2,
    eval_every=1,
    train_metrics=("map_at_r", "rho"),
)
FROZEN = replace(
    IMAGES,
    frozen_trunk=True,
    augmentation="none",
    arrays=("histograms", "spectrum"),
    binary=True,
    per_class=True,
)
PARTIAL = replace(IMAGES, train_from="layers.8", augmentation="flip")
CONTRASTIVE = Method("contrastive", "contrastive", settings={"pos_margin": 0.0, "neg_margin": 0.5})
ARCFACE = Method("arcface", "arcface", classes_per_batch=8, images_per_class=1)


def run(protocol, method, kind="rerun", number=0):
    """The record of a unit on `PHOTOGRAPHS` (fixture photographs), without what tells where and when it was run."""
    inputs._prepared.cache_clear()
    inputs._computed_once.cache_clear()
    record = unit.run_unit(unit.Unit("second", "", "photographs", protocol, "default", 0, method, 0, kind, number, {}))
    for each in (record, *record["runs"]):
        for told in ("seconds", "finished", "device"):
            each.pop(told, None)
    return record


def assert_alike(found, expected, rel=1e-5, abs=1e-6):
    """Equal but for rounding: a matrix product of the metrics takes another path on the CPU."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_alike(found[name], expected[name], rel, abs)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            assert_alike(*pair, rel, abs)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=rel, abs=abs, nan_ok=True)
    else:
        assert found == expected
