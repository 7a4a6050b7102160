"""Data sets of features: what a frozen trunk makes of photographs, kept in the package in the place of these.

A folder each, made by `python -m dmlrc.studies.feature_sets NAME`: `features.npy.xz` (float16, compressed without
loss), `classes.csv` (name, images; the images of a class stand together), `made.json` (of which data set, by which
trunk), the licence of the photographs, and a README with their authors.
"""

import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
import pandas as pd

from dmlrc.data.listing import counted
from dmlrc.errors import MissingDataError

FOLDER = Path(__file__).parent / "embedded"
# Of what LZMA can be told these suit numbers of two bytes, column by column: 51 % of the size, at its defaults 55 %.
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lp": 1, "lc": 0, "pb": 1}]


@dataclass(frozen=True, repr=False)
class FeatureSet:
    """The features of photographs that are not here, with their classes.

    features: (N, F) float16. labels, class_names: as in `ImageSet`. photographs: the data set that they were made of.
    made_by: the settings of the trunk and of its input, named as in `dmlrc.protocol.TrunkInput`.
    """

    name: str
    features: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]
    photographs: str
    made_by: dict[str, Any]
    partition: ClassVar[None] = None

    @property
    def images(self) -> NoReturn:
        """Raises MissingDataError: there are none."""
        raise MissingDataError(
            f"data set {self.name!r} holds features, not images: those are data set {self.photographs!r}, run "
            f"`dmlrc data fetch {self.photographs}`"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what stands for one image: (F,)."""
        return self.features.shape[1:]

    def __repr__(self) -> str:
        origin = f"{self.shape[0]} features of each, by {self.made_by['trunk']}, {self.features.dtype}"
        return f"FeatureSet {self.name!r}: {counted(self.labels, self.class_names)}\n  {origin}"


def load_features(name: str, folder: Path | None = None) -> FeatureSet:
    """Load a data set of features that `write_features` wrote; by default one that the package holds."""
    folder = folder or FOLDER / name
    with lzma.open(folder / "features.npy.xz") as stream:
        features = np.ascontiguousarray(np.load(stream))  # a batch is rows
    classes = pd.read_csv(folder / "classes.csv", dtype={"class": str}, na_filter=False)
    origin = json.loads((folder / "made.json").read_text())
    labels = np.repeat(np.arange(len(classes)), classes["images"])
    return FeatureSet(name, features, labels, tuple(classes["class"]), origin.pop("photographs"), origin)


def write_features(data: FeatureSet, folder: Path) -> None:
    """Write a data set of features, whose labels ascend, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with lzma.open(folder / "features.npy.xz", "wb", filters=_FILTERS) as stream:
        np.save(stream, np.asfortranarray(data.features))
    classes = pd.DataFrame({"class": data.class_names, "images": np.bincount(data.labels)})
    classes.to_csv(folder / "classes.csv", index=False, lineterminator="\n")
    origin = {"photographs": data.photographs, **data.made_by}
    (folder / "made.json").write_text(json.dumps(origin, indent=2) + "\n")
