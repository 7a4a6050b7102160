"""The GPU path without a GPU: everything that runs on a device, on one that fails where a GPU would, see second_device.

Where a test compares, the CPU is the oracle: numbers are computed by the same operations and equal to the bit.
"""

import contextlib
import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from cases import loop
from second_device import DEVICE, MixedDevicesError, Placed, SecondDevice
from small_units import ARCFACE, CONTRASTIVE, FROZEN, IMAGES, PARTIAL, assert_alike, run

from dmlrc import inputs, losses, metrics, training, unit
from dmlrc.data import augment
from dmlrc.losses import mining
from dmlrc.losses.common import distances
from dmlrc.losses.subsampling import SubsampledClasses

# Which losses read back in a step, and why they must. What the batch gives is a list of tuples, and only the device
# knows how long it is; of a GPU, this costs a wait a step.
TUPLES = "the number of tuples that the miner finds in the batch"
ONE_A_CLASS = "the number of classes with a pair, then the place of each one's first sample"
READ_BACKS = {
    **dict.fromkeys(
        (
            *("contrastive_distance", "margin_distance", "margin_distance_pairs", "quadruplet", "snr_distance"),
            *("triplet_distance", "triplet_hard", "triplet_semihard", "triplet_semihard_pairs", "triplet_softhard"),
            *("angular", "angular_roth", "n_pairs_roth", "r_contrastive", "r_margin", "r_snr", "r_triplet"),
        ),
        ({"nonzero": 1}, TUPLES),
    ),
    "triplet_random": ({"nonzero": 2}, "the number of positive pairs, and of their triplets"),
    "n_pairs": ({"nonzero": 2}, ONE_A_CLASS),
    "angular_fehervari": ({"nonzero": 2}, ONE_A_CLASS),
    "prototypical": ({"_unique2": 1, "index": 2, "index_put": 1}, "the number of the episode's classes and of queries"),
    "structured_clustering": (None, "each medoid is chosen given those before it, until a sweep changes none"),
}

LABELS = {
    "balanced": torch.arange(8).repeat_interleave(4),
    "no pairs": torch.arange(32),
    "uneven": torch.cat([torch.zeros(20, dtype=torch.int64), torch.arange(1, 13)]),
}


def step(name, labels, mode=None):
    """The value and the gradient of a loss, and what was read back."""
    torch.manual_seed(0)
    loss = losses.create(name, num_classes=32, embedding_dim=16)
    embeddings = F.normalize(torch.randn(32, 16))
    if mode is not None:
        loss, embeddings, labels = loss.to(DEVICE), embeddings.to(DEVICE), labels.to(DEVICE)
    embeddings.requires_grad_()
    value = loss(embeddings, labels)
    value.backward()
    return [value.detach(), embeddings.grad, *(weight.grad for weight in loss.parameters())]


# A loss that reads nothing back runs the same operations on any labels.
@loop(
    "name, batch",
    [
        *((name, "balanced") for name in losses.names()),
        *itertools.product(READ_BACKS, ("no pairs", "uneven")),
    ],
)
def test_a_loss_stays_on_its_device_and_reads_back_what_its_method_demands(name, batch):
    expected = step(name, LABELS[batch])
    with SecondDevice() as mode:
        found = step(name, LABELS[batch], mode)
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, Placed)
        assert torch.equal(one.inside, other)
    allowed, _ = READ_BACKS.get(name, ({}, ""))
    assert allowed is None or not mode.read_backs - Counter(allowed)
    assert batch != "balanced" or allowed is None or mode.read_backs == Counter(allowed)


def test_every_exception_is_a_loss():
    assert set(READ_BACKS) <= set(losses.names())


@pytest.mark.parametrize("name", ["normalized_softmax", "cosface", "arcface"])
def test_a_part_of_the_classes(name):
    """The classes that are drawn beside those of the batch: how many are there is read back."""
    with SecondDevice() as mode:
        loss = SubsampledClasses(losses.create(name, num_classes=40, embedding_dim=16), 0.5).to(DEVICE)
        embeddings, labels = F.normalize(torch.randn(32, 16)).to(DEVICE).requires_grad_(), LABELS["balanced"].to(DEVICE)
        loss(embeddings, labels).backward()
    assert mode.read_backs == {"_unique2": 1, "nonzero": 1}
    assert embeddings.grad.inside.abs().sum() > 0


def test_every_miner_gives_what_it_gives_on_the_cpu():
    torch.manual_seed(0)
    embeddings, labels = F.normalize(torch.randn(32, 16)), LABELS["uneven"]

    def mined(embeddings, labels):
        torch.manual_seed(1)
        d = distances(embeddings)
        triplets = mining.semihard_triplets(d, labels, 0.2)
        yield from mining.multi_similarity_pairs(embeddings @ embeddings.T, labels, 0.1)
        yield from mining.all_triplets(labels)
        yield from mining.random_triplets(labels)
        yield from triplets
        yield from mining.nearest_semihard_triplets(d, labels)
        yield from mining.softhard_triplets(d, labels)
        yield from mining.hard_triplets(d, labels)
        yield from mining.distance_weighted_triplets(d, labels, 16)
        yield from mining.distance_weighted_pairs(d, labels, 16)
        yield from mining.switch_negatives(triplets, 0.4)
        yield from mining.first_pairs(labels)
        yield from mining.random_pairs(labels)
        yield mining.choose_other_class(labels, triplets)

    expected = list(mined(embeddings, labels))
    with SecondDevice():
        found = list(mined(embeddings.to(DEVICE), labels.to(DEVICE)))
    assert all(torch.equal(one.inside, other) for one, other in zip(found, expected, strict=True))


def test_metrics_are_those_of_the_cpu(monkeypatch):
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())  # knows no device "meta"
    rng = np.random.default_rng(0)
    labels = torch.from_numpy(np.repeat(np.arange(12), 5))
    embeddings = F.normalize(torch.from_numpy(rng.normal(size=(60, 8)).astype(np.float32)))
    query = (embeddings[:7] + 0.1, labels[:7])
    for names, separate in ((metrics.names(), None), (("map_at_r", "recall_at_3"), query)):
        expected = metrics.evaluate(embeddings, labels, names, separate)
        binary = metrics.evaluate_binary(embeddings, labels, query=separate)
        with SecondDevice():
            there = separate and tuple(each.to(DEVICE) for each in separate)
            found = metrics.evaluate(embeddings.to(DEVICE), labels.to(DEVICE), names, there)
            assert found == pytest.approx(expected, rel=1e-6)
            assert metrics.evaluate_binary(embeddings.to(DEVICE), labels.to(DEVICE), query=there) == binary
    expected = metrics.per_class(embeddings, labels)
    with SecondDevice():
        found = metrics.per_class(embeddings.to(DEVICE), labels.numpy())
    np.testing.assert_array_equal(found.classes, expected.classes)
    np.testing.assert_allclose(found.scores["map_at_r"], expected.scores["map_at_r"])


@pytest.mark.parametrize("kind", ["crop", "place", "affine", "flip", "evaluation"])
def test_images_are_augmented_where_they_are(kind):
    images = torch.randint(0, 256, (6, 3, 20, 20), dtype=torch.uint8)

    def view(images, random):
        return {
            "crop": lambda: augment.random_resized_crop(images, 12, (0.2, 1), (3 / 4, 4 / 3), random),
            "place": lambda: augment.random_place(images, 12, random),
            "affine": lambda: augment.random_affine(images, random),
            "flip": lambda: augment.random_flip(images, random),
            "evaluation": lambda: augment.centre_crop(images, 16, 12),
        }[kind]()

    expected = view(images, torch.Generator().manual_seed(0))
    with SecondDevice() as mode:
        found = view(images.to(DEVICE), Chance(DEVICE).manual_seed(0))
    assert torch.equal(found.inside, expected)
    assert not mode.read_backs


class Chance(torch.Generator):
    """A generator of the CPU that says it is one of the second device."""

    def __new__(cls, device="cpu"):
        self = super().__new__(cls)
        self.says = torch.device(device)
        return self

    def __init__(self, device="cpu"):
        """The real one would look for a device of this name."""

    @property
    def device(self):
        return self.says


# A unit from images to its record

FEW = {"arrays": (), "binary": False, "per_class": False, "train_metrics": ()}
FEW |= {"val_metrics": ("map_at_r",), "test_metrics": ("map_at_r",)}  # all scores are tried in one case and untrained


@pytest.fixture
def second(photographs, monkeypatch, tmp_path):
    """Runs a unit on the second device: its record, and what was read back in the inner loops of its epochs."""

    def run_there(*args):
        loops, mode, real = [], SecondDevice(), training._batches

        def watched(*args, **kwargs):  # from the first batch until the step on the last one has ended
            before = mode.read_backs.copy()
            yield from real(*args, **kwargs)
            loops.append(mode.read_backs - before)

        with monkeypatch.context() as patch, mode:
            for module in (inputs, unit):
                patch.setattr(module, "device", lambda: DEVICE)
            patch.setattr(torch, "Generator", Chance)
            patch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())
            patch.setattr(training, "_batches", watched)
            patch.setenv("DMLRC_CACHE", str(tmp_path / "there"))
            return run(*args), loops

    return run_there


@pytest.mark.parametrize(
    ("protocol", "method"),
    [
        (replace(FROZEN, max_epochs=1), ARCFACE),
        (replace(FROZEN, optimizer="adamw", layer_norm=True, warmup_epochs=1, **FEW), CONTRASTIVE),
        (replace(IMAGES, optimizer="sgd", max_epochs=1, **FEW), CONTRASTIVE),
        (replace(IMAGES, augmentation="affine", optimizer="adam", lr_decay="linear", **FEW), ARCFACE),
        (replace(IMAGES, augmentation="place", image_size=16, crop_size=12, max_epochs=1, **FEW), CONTRASTIVE),
        (replace(PARTIAL, **FEW), CONTRASTIVE),
    ],
    ids=["features, class weights", "adamw", "images, sgd", "affine, adam", "place", "maps"],
)
def test_a_run_is_that_of_the_cpu_and_its_inner_loop_reads_nothing_back(photographs, second, protocol, method):
    expected = run(protocol, method)
    found, loops = second(protocol, method)
    assert expected["state"] == "complete"
    assert_alike(found, expected)
    # maps are chosen in the computer's memory: which of them are mirrored is read back once for many batches
    reading = protocol.folds * protocol.max_epochs if protocol.train_from else 0
    assert [each for each in loops if each] == [{"_to_copy": 1}] * reading
    assert len(loops) > reading  # the warm-up's too


@pytest.mark.parametrize("sampler", ["greedy_coreset", "distribution_matching", "frechet"])
def test_a_sampler_with_a_memory_bank_reads_the_embeddings_back_once_a_step(photographs, second, sampler):
    protocol = replace(FROZEN, sampler=sampler, max_epochs=1, **FEW)
    found, loops = second(protocol, CONTRASTIVE)
    assert_alike(found, run(protocol, CONTRASTIVE))
    _warm_up, epoch = loops
    assert epoch == {"_to_copy": protocol.folds * protocol.iterations_per_epoch}


def test_the_untrained_trunk_is_scored(photographs, second):
    for protocol in (FROZEN, replace(IMAGES, **FEW)):
        assert_alike(second(protocol, None, "pretrained")[0], run(protocol, None, "pretrained"))


# The mode itself


def test_devices_do_not_mix():
    with SecondDevice():
        there, here = torch.ones(3).to(DEVICE), torch.ones(3)
        assert torch.equal((there + 1.0 + torch.tensor(1.0)).cpu(), 3 * here)  # numbers may
        for mixed in (lambda: there + here, lambda: torch.cat([there, here]), lambda: there.add_(here)):
            with pytest.raises(MixedDevicesError):
                mixed()
    with pytest.raises(AssertionError, match="outside"):
        there + 1


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (lambda x: x.sum().item(), "_local_scalar_dense"),
        (lambda x: bool((x > 0).any()), "_local_scalar_dense"),
        (lambda x: x.nonzero(), "nonzero"),
        (lambda x: x[x > 1], "index"),
        (lambda x: x.cpu(), "_to_copy"),
        (lambda x: x.tolist(), "_to_copy"),
        (lambda x: torch.empty(4).copy_(x), "copy_"),
        (lambda x: x.unique(), "_unique2"),
    ],
)
def test_a_read_back_is_noted(read, name):
    with SecondDevice() as mode:
        x = torch.arange(4.0, device=DEVICE)
        assert not mode.read_backs
        read(x)
    assert mode.read_backs == {name: 1}


def test_what_is_made_there_stays_there():
    with SecondDevice() as mode:
        made = [torch.zeros(2, device=DEVICE), torch.tensor([1, 2], device=DEVICE), torch.rand(2).to(DEVICE)]
        made += [torch.zeros_like(made[0]), made[0].new_zeros(3), made[0][:1], made[0].add_(1)]
    assert all(isinstance(each, Placed) for each in made)
    assert made[0] is made[-1]
    assert made[0].inside.tolist() == [1, 1]
    assert not mode.read_backs
