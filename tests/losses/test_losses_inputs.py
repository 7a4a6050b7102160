"""What losses are given: converted where that is safe, one sentence otherwise, and only looked at in training."""

import copy
import inspect
import itertools
import pickle
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from cases import loop

from dmlrc import losses, studies
from dmlrc.errors import UsageError
from dmlrc.losses import inputs, ranges
from dmlrc.methods import LEARNING_RATE, LOSS_WEIGHTS_LR

CLASSES, DIM = 3, 5
LABELS = [0, 1, 0, 1, 2, 2, 0, 1]  # with a class beyond the bools


def embeddings(dtype=torch.float32):
    points = torch.randn(len(LABELS), DIM, generator=torch.Generator().manual_seed(0))
    return F.normalize(points).half().to(dtype)  # numbers that half precision holds too


def make(name):
    torch.manual_seed(0)
    return losses.create(name, num_classes=CLASSES, embedding_dim=DIM)


def value(name, points, labels):
    loss = make(name)
    torch.manual_seed(1)  # some draw their tuples
    return loss(points, labels).detach()


INTEGERS = {
    "int32": lambda labels: torch.tensor(labels, dtype=torch.int32),
    "int16": lambda labels: torch.tensor(labels, dtype=torch.int16),
    "int8": lambda labels: torch.tensor(labels, dtype=torch.int8),
    "uint8": lambda labels: torch.tensor(labels, dtype=torch.uint8),
    "bool": lambda labels: torch.tensor(labels) > 0,
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "uint8 array": lambda labels: np.array(labels, dtype=np.uint8),
    "bool array": lambda labels: np.array(labels) > 0,
    "reversed view": lambda labels: np.array(labels[::-1])[::-1],
}


SOME = ("contrastive", "arcface", "histogram", "triplet_semihard", "soft_triple")
"""Losses of every kind: what converts is the base of them all."""


@pytest.mark.parametrize("name", SOME)
def test_labels_of_any_integer_kind_are_classes(name):
    plain = torch.tensor(LABELS)
    expected, expected_of_two = value(name, embeddings(), plain), value(name, embeddings(), (plain > 0).long())
    for kind, converted in INTEGERS.items():
        got = value(name, embeddings(), converted(LABELS))
        assert torch.equal(got, expected_of_two if "bool" in kind else expected), kind


@loop("dtype, name", itertools.product([torch.float16, torch.bfloat16], SOME))
def test_half_precision_is_computed_in_single_and_its_gradient_comes_back(name, dtype):
    points = embeddings(dtype).requires_grad_()
    labels = torch.tensor(LABELS)
    got, expected = value(name, points, labels), value(name, embeddings(dtype).float(), labels)
    assert got.dtype == torch.float32
    assert torch.equal(got, expected)
    make(name)(points, labels).backward()
    assert points.grad.dtype == dtype
    assert torch.isfinite(points.grad).all()


@loop(
    "name, convert",
    itertools.product(
        ["contrastive", "arcface"], [torch.Tensor.numpy, torch.Tensor.tolist, lambda x: x.numpy().astype("f8")]
    ),
)
def test_arrays_and_lists_of_embeddings(name, convert):
    labels = torch.tensor(LABELS)
    assert torch.equal(value(name, convert(embeddings()), labels), value(name, embeddings(), labels))


def test_embeddings_and_labels_may_be_named():
    expected = value("contrastive", embeddings(), torch.tensor(LABELS))
    assert torch.equal(make("contrastive")(embeddings=embeddings(), labels=LABELS), expected)
    for name in ("contrastive", "margin_per_class"):  # whose boundaries are looked up by label
        half, bytes_ = embeddings(torch.float16), torch.tensor(LABELS, dtype=torch.uint8)
        named = make(name)(half, labels=bytes_)
        assert named.dtype is torch.float32
        assert torch.equal(named, make(name)(half, bytes_))
    nameless = {"points": embeddings(), "labels": LABELS}
    for arguments, wrong in (({"embeddings": embeddings()}, "labels"), (nameless, "points")):
        with pytest.raises(TypeError, match=f"'{wrong}'"):
            make("contrastive")(**arguments)


POINTS = embeddings()
BAD = {
    "text": ("abc", LABELS, "embeddings must be a tensor or an array of numbers, not str"),
    "nothing": (None, LABELS, "embeddings must be"),
    "ragged": ([[1.0, 2.0], [3.0]], LABELS, "embeddings must be a tensor or an array of numbers, not list"),
    "integers": (torch.ones(8, DIM, dtype=torch.int64), LABELS, "embeddings must be floating point, not torch.int64"),
    "complex": (torch.ones(8, DIM, dtype=torch.complex64), LABELS, "embeddings must be floating point"),
    "floats": (POINTS, torch.tensor(LABELS).float(), "labels must be integers, not torch.float32"),
    "names": (POINTS, ["cat"] * 8, "labels must be a tensor or an array of numbers, not list"),
    "no labels": (POINTS, None, "labels must be"),
    "too few labels": (POINTS, LABELS[1:], r"not \(8, 5\) and \(7,\)"),
    "one-hot labels": (POINTS, np.eye(3, dtype=bool)[LABELS], r"labels \(B,\), not \(8, 5\) and \(8, 3\)"),
    "no batch": ([], [], r"not \(0,\) and \(0,\)"),
}


@loop("what", BAD)
def test_what_cannot_be_converted_is_one_sentence(what):
    points, labels, message = BAD[what]
    with pytest.raises(UsageError, match=message) as error:
        make("contrastive")(points, labels)
    assert "\n" not in str(error.value)


def test_a_batch_as_in_training_is_handed_on_as_it_is():
    batch = (embeddings(), torch.tensor(LABELS))
    converted, named = inputs.convert(make("contrastive"), batch, {})
    assert converted[0] is batch[0]
    assert converted[1] is batch[1]
    assert not named


def test_a_copied_or_pickled_loss_still_converts():
    expected = value("cosface", embeddings(), torch.tensor(LABELS))
    for loss in (copy.deepcopy(make("cosface")), pickle.loads(pickle.dumps(make("cosface")))):
        assert torch.equal(loss(embeddings(), LABELS), expected)


@pytest.mark.parametrize("bad", [float("nan"), -np.inf, "0.5", None, True, 10**400])
@pytest.mark.parametrize(("name", "parameter"), [("contrastive", "neg_margin"), ("fast_ap", "num_bins")])
def test_hyperparameters_that_are_no_finite_numbers(name, parameter, bad):
    with pytest.raises(UsageError, match=rf"{parameter} of loss '{name}' is .*: give a (finite|whole) number"):
        losses.create(name, **{parameter: bad})


@pytest.mark.parametrize(
    ("name", "parameter"),
    [("fast_ap", "num_bins"), ("histogram", "n_bins"), ("recall_at_k", "max_k"), ("soft_triple", "centers_per_class")],
)
def test_counts_below_one(name, parameter):
    for count in (0, -3):
        with pytest.raises(UsageError, match=f"{parameter} of loss '{name}' is {count}: give a whole number above 0"):
            losses.create(name, num_classes=3, embedding_dim=4, **{parameter: count})


def test_hyperparameters_of_numpy_and_whole_floats():
    assert losses.create("fast_ap", num_bins=np.int64(7)).num_bins == 7
    assert isinstance(losses.create("fast_ap", num_bins=7.0).num_bins, int)
    with pytest.raises(UsageError, match="give a whole number"):
        losses.create("fast_ap", num_bins=7.5)
    assert losses.create("contrastive", neg_margin=np.float32(0.5)).neg_margin == 0.5


@loop(
    "name, parameter, value, allowed",
    [
        *((name, "temperature", 0, "above 0") for name in ("ntxent", "supcon", "smooth_ap", "normalized_softmax")),
        ("ntxent", "temperature", -0.07, "above 0"),
        ("recall_at_k", "rank_temperature", 0.0, "above 0"),
        ("soft_triple", "gamma", 0, "above 0"),
        ("proxy_nca_original", "num_classes", 1, "at least 2"),
        ("arcface", "margin", 400, "from 0 to 180"),
        ("arcface", "weight_length", 0, "above 0"),
        ("angular", "alpha", 90, "above 0 and below 90"),
        ("multi_similarity_miner", "beta", 0, "above 0"),
        ("r_triplet", "switch_probability", 3, "from 0 to 1"),
        ("ranked_list", "imbalance", -0.1, "from 0 to 1"),
    ],
)
def test_hyperparameters_outside_their_ranges(name, parameter, value, allowed):
    params = {"num_classes": 3, "embedding_dim": 4, parameter: value}
    with pytest.raises(UsageError) as error:
        losses.create(name, **params)
    assert str(error.value) == f"{parameter} of loss '{name}' is {value:g}: give a number {allowed}"


def test_a_closed_range_holds_its_ends():
    assert losses.create("r_triplet", switch_probability=1).switch_probability == 1
    assert losses.create("arcface", num_classes=3, embedding_dim=4, margin=180).margin == 180
    assert len(losses.create("proxy_nca_original", num_classes=2, embedding_dim=4).proxies) == 2


def test_every_range_is_that_of_a_hyperparameter():
    known = {name: inspect.signature(loss).parameters for name, loss in losses.REGISTRY.items()}
    every = {
        *(f"{name}.{each}" for name in known for each in known[name]),
        *(each for own in known.values() for each in own),
    }
    assert set(ranges.RANGES) <= every
    for name, parameters in known.items():
        for each, parameter in parameters.items():
            assert parameter.default in (parameter.empty, None) or ranges.allowed_range(name, each).holds(
                parameter.default
            ), (
                name,
                each,
            )


def test_every_study_stays_within_the_ranges():
    rates = (LEARNING_RATE, LOSS_WEIGHTS_LR)
    for study in studies.STUDIES.values():
        for method in study.methods:
            ends = [(name, end) for name, space in method.space.items() for end in (space.low, space.high)]
            for name, value in (*ends, *method.settings.items()):
                assert name in rates or ranges.allowed_range(method.loss, name).holds(value), (
                    study.name,
                    method.name,
                    name,
                )


@pytest.mark.parametrize("size", [0, 2.5, True])
def test_sizes_that_are_none(size):
    for sizes in ({"num_classes": size, "embedding_dim": 4}, {"num_classes": 4, "embedding_dim": size}):
        with pytest.raises(UsageError, match=r"of loss 'arcface' is .*: give a whole number above 0"):
            losses.create("arcface", **sizes)


@pytest.mark.parametrize("name", SOME)
def test_unknown_parameters_are_named(name):
    for parameter in ("marign", "args", "kwargs", "self"):
        with pytest.raises(UsageError, match=f"loss '{name}' has no parameter '{parameter}': it takes "):
            losses.create(name, **{"num_classes": 3, "embedding_dim": 4, parameter: 1.0})


@pytest.mark.parametrize("name", ["contrastiv", None, ["contrastive"]])
def test_unknown_losses(name):
    with pytest.raises(UsageError, match="unknown loss"):
        losses.create(name)


def test_a_loss_says_its_hyperparameters():
    assert repr(losses.create("contrastive", neg_margin=0.5)) == "Contrastive(pos_margin=0, neg_margin=0.5)"
    assert repr(make("arcface")) == "ArcFace(num_classes=3, embedding_dim=5, margin=28.6, scale=64)"
    for name in losses.names():
        assert repr(copy.deepcopy(make(name))) == repr(pickle.loads(pickle.dumps(make(name)))) == repr(make(name))


@pytest.mark.parametrize("name", [*SOME, "n_pairs"])
def test_embeddings_that_are_not_normalised_are_noticed_once(name):
    loss, labels = make(name), torch.tensor(LABELS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loss(3 * embeddings(), labels)
        loss(3 * embeddings(), labels)
    said = [str(each.message) for each in caught if "L2-normalised" in str(each.message)]
    assert len(said) == int(loss.normalized)
    if said:
        assert "lengths of these run from 3 to 3" in said[0]
        assert caught[0].filename == __file__


@pytest.mark.parametrize("convert", [torch.Tensor.half, torch.Tensor.numpy, torch.Tensor.float])
def test_normalised_embeddings_of_any_kind_warn_no_one(convert):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make("contrastive")(convert(embeddings()), torch.tensor(LABELS))


def test_labels_come_to_the_device_of_the_embeddings():
    loss = losses.create("contrastive", num_classes=2, embedding_dim=3)
    for kind in (torch.int64, torch.int32):
        (_, labels), _ = inputs.convert(
            loss, (torch.empty(4, 3, device="meta"), torch.tensor([0, 0, 1, 1], dtype=kind)), {}
        )
        assert labels.device.type == "meta"
