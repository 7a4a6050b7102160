"""Splits against the published class counts, and by a plain loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlrc.data import splits
from dmlrc.errors import DmlrcError, UsageError


def shuffled_labels(classes, images=2):
    return np.random.default_rng(0).permutation(np.repeat(np.arange(classes), images))


def classes_of(labels, indices):
    return sorted(set(labels[indices].tolist()))


@pytest.mark.parametrize(
    ("classes", "train", "val", "test"),
    [(200, 75, 25, 100), (196, 74, 24, 98), (22634, 8488, 2829, 11317)],
    ids=["CUB200", "Cars196", "SOP"],
)
def test_halves_have_the_published_class_counts(classes, train, val, test):
    labels = shuffled_labels(classes)
    made = splits.halves(labels)
    assert len(made.folds) == 4
    for fold in made.folds:
        assert len(classes_of(labels, fold.train)) == train
        assert len(classes_of(labels, fold.val)) == val
    assert classes_of(labels, made.test) == list(range(classes - test, classes))
    assert classes_of(labels, made.train_val) == list(range(classes - test))


def test_cars196_parts_and_the_two_classes_that_never_validate():
    labels = shuffled_labels(196)
    validate = [classes_of(labels, fold.val) for fold in splits.halves(labels).folds]
    assert validate == [list(range(0, 24)), list(range(25, 49)), list(range(49, 73)), list(range(74, 98))]
    assert set(range(98)) - set().union(*map(set, validate)) == {24, 73}


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=20, max_size=60),
    folds=st.integers(2, 5),
    order=st.sampled_from(splits.ORDERS),
    seed=st.integers(0, 5),
)
def test_halves_are_whole_contiguous_disjoint_classes(sizes, folds, order, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    made = splits.halves(labels, folds, order, seed)
    place = {c: i for i, c in enumerate(made.class_order.tolist())}
    half = len(sizes) // 2
    assert sorted(place) == list(range(len(sizes)))
    assert made.test.tolist() == [i for i, label in enumerate(labels) if place[label] >= half]
    assert made.train_val.tolist() == [i for i, label in enumerate(labels) if place[label] < half]
    validated = []
    for fold in made.folds:
        places = sorted({place[label] for label in labels[fold.val].tolist()})
        assert places == list(range(places[0], places[0] + half // folds))
        assert sorted([*fold.train, *fold.val]) == made.train_val.tolist()
        assert not set(labels[fold.train].tolist()) & set(labels[fold.val].tolist())
        validated += places
    assert len(set(validated)) == len(validated) == folds * (half // folds)


def test_the_random_order_is_a_seeded_permutation():
    labels = shuffled_labels(40)
    first, again, other = (splits.halves(labels, order="random", seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.class_order, again.class_order)
    assert np.array_equal(first.test, again.test)
    assert not np.array_equal(first.class_order, other.class_order)
    assert classes_of(labels, first.test) == sorted(first.class_order[20:].tolist())
    assert np.array_equal(splits.halves(labels, seed=7).class_order, np.arange(40))


@pytest.mark.parametrize(("classes", "counts"), [(200, (80, 20, 100)), (196, (78, 20, 98)), (20, (8, 2, 10))])
def test_ratio_4_1_5(classes, counts):
    labels = shuffled_labels(classes)
    made = splits.ratio_4_1_5(labels)
    (fold,) = made.folds
    train, val, test = (classes_of(labels, part) for part in (fold.train, fold.val, made.test))
    assert (len(train), len(val), len(test)) == counts
    assert [*train, *val, *test] == list(range(classes))


def test_ratio_4_1_5_in_random_order_is_seeded():
    labels = shuffled_labels(40)
    assert np.array_equal(
        splits.ratio_4_1_5(labels, "random").test, splits.ratio_4_1_5(labels, order="random", seed=1).test
    )
    assert not np.array_equal(splits.ratio_4_1_5(labels, "random").test, splits.ratio_4_1_5(labels).test)


def test_the_official_split_of_sop_is_not_the_half_split():
    labels = shuffled_labels(22634)
    made = splits.official(labels, np.where(labels < 11318, "train", "test"))
    assert len(classes_of(labels, made.train_val)) == 11318
    assert len(classes_of(labels, made.test)) == 11316
    assert all(len(classes_of(labels, fold.val)) == 2829 for fold in made.folds)
    tested_training_class = set(labels[splits.halves(labels).test].tolist()) - set(labels[made.test].tolist())
    assert tested_training_class == {11317}


def test_the_official_split_of_inshop_keeps_queries_and_gallery_together():
    labels = np.repeat(np.arange(20), 4)
    partition = np.where(labels < 12, "train", np.tile(["query", "gallery"], 40))
    made = splits.official(labels, partition, folds=2)
    assert classes_of(labels, made.test) == list(range(12, 20))
    assert set(partition[made.test]) == {"query", "gallery"}


def test_parts_that_share_classes_are_no_official_split():
    labels = np.repeat(np.arange(20), 2)
    with pytest.raises(UsageError, match="parts share classes: use halves"):
        splits.official(labels, np.tile(["train", "test"], 20))


def test_a_class_in_two_parts_is_told():
    labels = np.array([0, 0, 1, 1, 2])
    splits.assert_disjoint(labels, {"train": np.array([0, 1]), "test": np.array([2, 3])})
    with pytest.raises(DmlrcError, match="class 1 is in both train and test"):
        splits.assert_disjoint(labels, {"train": np.array([0, 2]), "val": np.array([4]), "test": np.array([3])})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: splits.halves(shuffled_labels(15)), "7 of 15 classes are too few for 4 folds"),
        (lambda: splits.halves(np.array([0, 0, 1, 1]), folds=0), "1 of 2 classes are too few to train on"),
        (lambda: splits.halves(np.array([0, 0, 0]), folds=0), "0 of 1 classes are too few to train on"),
        (lambda: splits.halves(shuffled_labels(40), folds=1), "at least 2 folds"),
        (lambda: splits.halves(shuffled_labels(40), order="alphabetical"), "'default' or 'random'"),
        (lambda: splits.halves(shuffled_labels(40) + 1), "labels must be 0..C-1"),
        (lambda: splits.ratio_4_1_5(shuffled_labels(12)), "too few for a 4:1:5 split"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(UsageError, match=message):
        make()


def test_no_folds_train_on_the_whole_first_half():
    labels = shuffled_labels(20)
    made = splits.halves(labels, folds=0)
    (fold,) = made.folds
    assert np.array_equal(fold.train, made.train_val)
    assert np.array_equal(made.test, splits.halves(labels).test)
    assert len(fold.val) == 0
