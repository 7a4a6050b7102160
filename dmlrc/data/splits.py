"""Splits by class, never by image: no class of a part is seen in another part.

Classes stand in an order: the data set's own ("default") or a seeded permutation ("random"). The papers use the
default order; Oi et al. 2021 show that it makes the task harder where neighbouring classes are alike.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dmlrc.errors import DmlrcError, UsageError

ORDERS = ("default", "random")


@dataclass(frozen=True)
class Fold:
    """Division into training and validation images: sorted positions into the data set, int64."""

    train: np.ndarray
    val: np.ndarray


@dataclass(frozen=True)
class Splits:
    """Cross-validation folds and the test images; all arrays are sorted positions into the data set, int64.

    train_val: the images of all classes that are not test classes. class_order: (num_classes,) the order used.
    """

    folds: tuple[Fold, ...]
    test: np.ndarray
    train_val: np.ndarray
    class_order: np.ndarray


def halves(labels: np.ndarray, folds: int = 4, order: str = "default", seed: int = 0) -> Splits:
    """Cross-validate on the first half of the classes, in contiguous parts, and test on the second (Musgrave et al.).

    With C classes the first n = floor(C / 2) are for cross-validation. Part i of the k folds starts at class
    ceil(i n / k) and has floor(n / k) classes; it validates while the other n - floor(n / k) classes train. Where k
    does not divide n, the n mod k classes between the parts never validate, as in the authors' code.

    Classes train / val / test: CUB200 75 / 25 / 100; Cars196 74 / 24 / 98, where the classes at 24 and 73 never
    validate; SOP 8488 / 2829 / 11317 (not the official split, see `official`).

    Parameters
    ----------
    labels : (N,) int64 in 0..C-1, every class present
    folds : 0 for no validation: one fold that trains on the whole first half and validates on nothing
    order : "default" or "random"
    seed : of the permutation, for order="random"

    Returns
    -------
    Splits, of positions in `labels`

    Raises
    ------
    UsageError
        Where a part would have fewer than 2 classes.
    """
    class_order = _ordered_classes(labels, order, seed)
    return _cross_validated(labels, class_order, len(class_order) // 2, folds)


def official(labels: np.ndarray, partition: np.ndarray, folds: int = 4) -> Splits:
    """Take the data set's own division into training and testing classes, where it is by class (SOP, In-Shop).

    partition: (N,) str, `ImageSet.partition`; the classes with images in "train" are for cross-validation, in folds
    like those of `halves`, all others for testing. SOP: 11318 / 11316 classes, where `halves` gives 11317 / 11317 and
    so tests one official training class. In-Shop: 3997 / 3985; the test images are queries or gallery by the partition.
    Raises UsageError where a class is both in "train" and elsewhere (Grocery Store, whose parts share all classes),
    where none is elsewhere, and where nothing that is searched for can be found.
    """
    trains = np.isin(np.arange(labels.max() + 1), labels[partition == "train"])  # (C,)
    if np.any(trains[labels] & (partition != "train")):
        raise UsageError("this data set's own parts share classes: use halves, which separates whole classes")
    if trains.all():
        raise UsageError("all classes are in the part train: put some into test, or into query and gallery")
    queries, gallery = labels[partition == "query"], labels[(partition != "query") & (partition != "train")]
    if len(queries) and not np.isin(queries, gallery).any():
        raise UsageError("no query has an image of its class among gallery and test: put one of each class there")
    if len(queries) and len(np.unique(gallery)) == 1:
        raise UsageError("gallery and test are one class alone, in which nothing else can be found: let there be two")
    class_order = _ordered_classes(labels, "default", 0)
    order = np.concatenate([class_order[trains], class_order[~trains]])
    return _cross_validated(labels, order, int(trains.sum()), folds)


def ratio_4_1_5(labels: np.ndarray, order: str = "default", seed: int = 1) -> Splits:
    """Split the classes 4 : 1 : 5 into training, validation and test, as one fold (Oi et al. 2021, seed 1).

    The test classes are the second half as in `halves`; the last fifth of the first half, rounded, validates.
    CUB200: 80 / 20 / 100 classes, Cars196: 78 / 20 / 98 (the paper prints no counts).
    Raises UsageError where the validation part would have fewer than 2 classes.
    """
    class_order = _ordered_classes(labels, order, seed)
    n = len(class_order) // 2
    validating = round(n / 5)
    if validating < 2:
        raise UsageError(f"{len(class_order)} classes are too few for a 4:1:5 split: 2 classes must validate, take 16")
    return _splits(labels, class_order, n, [slice(n - validating, n)])


def _ordered_classes(labels: np.ndarray, order: str, seed: int) -> np.ndarray:
    if order not in ORDERS:
        raise UsageError(f"the class order is 'default' or 'random', not {order!r}")
    classes = np.unique(labels)
    if not np.array_equal(classes, np.arange(len(classes))):
        raise UsageError("labels must be 0..C-1 with at least one image of every class")
    return np.random.default_rng(seed).permutation(classes) if order == "random" else classes


def _cross_validated(labels: np.ndarray, class_order: np.ndarray, n: int, folds: int) -> Splits:
    if folds == 0:
        if n < 2:
            raise UsageError(f"{n} of {len(class_order)} classes are too few to train on: take at least 4 classes")
        return _splits(labels, class_order, n, [slice(n, n)])
    if folds < 2:
        raise UsageError(f"cross-validation needs at least 2 folds, not {folds}")
    width = n // folds
    if width < 2:
        raise UsageError(
            f"{n} of {len(class_order)} classes are too few for {folds} folds: each needs 2 classes to validate on, "
            f"so take {f'at most {n // 2} folds or ' * (n > 3)}more classes"
        )
    starts = [-(-i * n // folds) for i in range(folds)]  # ceil(i n / folds)
    return _splits(labels, class_order, n, [slice(start, start + width) for start in starts])


def _splits(labels: np.ndarray, class_order: np.ndarray, n: int, val_parts: Sequence[slice]) -> Splits:
    """The first n classes of the order for training and validation, the rest for testing."""
    rank = np.argsort(class_order)[labels]  # (N,) place of each image's class in the order
    folds = []
    for part in val_parts:
        validates = (rank >= part.start) & (rank < part.stop)
        folds.append(Fold(train=np.flatnonzero((rank < n) & ~validates), val=np.flatnonzero(validates)))
    splits = Splits(tuple(folds), np.flatnonzero(rank >= n), np.flatnonzero(rank < n), class_order)
    for fold in splits.folds:
        assert_disjoint(labels, {"train": fold.train, "val": fold.val, "test": splits.test})
    return splits


def assert_disjoint(labels: np.ndarray, parts: dict[str, np.ndarray]) -> None:
    """Raises DmlrcError if two parts (name -> positions into labels) share a class."""
    classes = {name: set(labels[indices].tolist()) for name, indices in parts.items()}
    for a, b in itertools.combinations(parts, 2):
        if shared := classes[a] & classes[b]:
            raise DmlrcError(f"class {min(shared)} is in both {a} and {b}: a split must separate whole classes")


def meta_labels(labels: np.ndarray, meta_classes: int, rng: np.random.Generator | int) -> np.ndarray:
    """Merge the classes at random into meta-classes of equal size, or sizes that differ by one.

    DREML (Xuan, Souvenir and Pless, ECCV 2018): each member of an ensemble sees the same training images under coarser
    labels, of a partition of its own, on which depends what its network learns; the members' embeddings are joined.

    labels: (N,) -> (N,) int64 in 0..meta_classes-1; images of one class stay together. With fewer classes than
    meta-classes, each is its own.

    >>> meta_labels(np.array([3, 3, 5, 8, 8, 9]), 2, rng=0).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    classes, index = np.unique(labels, return_inverse=True)
    order = np.random.default_rng(rng).permutation(len(classes))
    return (order % meta_classes)[index]
