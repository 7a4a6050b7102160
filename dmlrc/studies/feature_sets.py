"""Maker of the package's data sets of features: `python -m dmlrc.studies.feature_sets grocery-lite0`.

It wants the photographs in $DMLRC_DATA, and takes about three minutes on one core.
"""

import sys
from dataclasses import replace

import numpy as np

from dmlrc import data
from dmlrc.data import ImageSet, features
from dmlrc.errors import unknown
from dmlrc.inputs import device, frozen_features
from dmlrc.papers import musgrave2020
from dmlrc.protocol import TrunkInput

FEATURE_SETS = {"grocery-lite0": ("grocery", replace(musgrave2020.FROZEN, **musgrave2020.ON_LITE0).trunk_input)}
"""The data set of photographs, and the trunk with its input."""


def make(name: str, images: ImageSet, given: TrunkInput) -> features.FeatureSet:
    """Compute the features of every image by a frozen trunk, as float16 (N, F), in the order of the classes."""
    order = np.argsort(images.labels, kind="stable")
    values = frozen_features(images, given, device())[order].astype("<f2")
    return features.FeatureSet(name, values, images.labels[order], images.class_names, images.name, given._asdict())


if __name__ == "__main__":
    [_, name] = sys.argv
    if name not in FEATURE_SETS:
        raise SystemExit(str(unknown("data set of features", name, FEATURE_SETS)))
    photographs, given = FEATURE_SETS[name]
    features.write_features(make(name, data.load(photographs), given), features.FOLDER / name)
