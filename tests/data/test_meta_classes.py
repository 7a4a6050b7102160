"""DREML's partitions, and softmax losses on a part of the classes."""

import math

import numpy as np
import pytest
import torch

from dmlrc import losses
from dmlrc.data.splits import meta_labels
from dmlrc.errors import UsageError
from dmlrc.losses.subsampling import SubsampledClasses


@pytest.mark.parametrize(("classes", "meta"), [(100, 12), (96, 12), (12, 12), (13, 2)])
def test_meta_classes_keep_classes_whole_and_are_of_equal_size(classes, meta):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(classes) * 3 + 5, 4))
    made = meta_labels(labels, meta, rng=1)
    owners = {label: set(made[labels == label].tolist()) for label in np.unique(labels)}
    assert all(len(owner) == 1 for owner in owners.values())
    sizes = np.bincount([owner.pop() for owner in owners.values()])
    assert len(sizes) == meta
    assert sizes.max() - sizes.min() <= 1


def test_with_fewer_classes_than_meta_classes_each_is_its_own():
    assert sorted(set(meta_labels(np.array([3, 3, 8]), 5, rng=0).tolist())) == [0, 1]


def test_partitions_differ_between_members_and_repeat_with_the_seed():
    labels = np.repeat(np.arange(40), 2)
    assert np.array_equal(meta_labels(labels, 4, rng=1), meta_labels(labels, 4, rng=1))
    assert not np.array_equal(meta_labels(labels, 4, rng=1), meta_labels(labels, 4, rng=2))


def test_two_classes_share_a_meta_class_as_often_as_chance_says():
    labels = np.arange(12)
    together = np.mean([(made := meta_labels(labels, 3, rng))[0] == made[11] for rng in range(2000)])
    expected = 3 / 11  # three others of eleven
    assert together == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / 2000))


def batch(classes=20, size=12):
    torch.manual_seed(0)
    embeddings = torch.nn.functional.normalize(torch.randn(size, 6))
    return embeddings.requires_grad_(), torch.randint(0, classes, (size,))


@pytest.mark.parametrize("name", ["normalized_softmax", "cosface", "arcface"])
def test_all_classes_give_the_loss_itself(name):
    embeddings, labels = batch()
    whole = losses.create(name, num_classes=20, embedding_dim=6)
    part = SubsampledClasses(whole, 1.0)
    assert part(embeddings, labels).item() == pytest.approx(whole(embeddings, labels).item(), rel=1e-5)


def test_a_part_of_the_classes_is_the_softmax_over_it(monkeypatch):
    embeddings, labels = batch()
    whole = losses.create("normalized_softmax", num_classes=20, embedding_dim=6, temperature=0.1)
    value = SubsampledClasses(whole, 0.7)(embeddings, labels)
    value.backward()
    used = set((whole.W.grad.abs().sum(0) > 0).nonzero()[:, 0].tolist())
    assert set(labels.tolist()) <= used
    assert len(used) == 14
    directions = (whole.W / whole.W.norm(dim=0)).detach()
    terms = []
    for x, y in zip(embeddings.detach(), labels.tolist(), strict=True):
        exponentials = {c: math.exp(float(x @ directions[:, c]) / 0.1) for c in used}
        terms.append(-math.log(exponentials[y] / sum(exponentials.values())))
    assert value.item() == pytest.approx(np.mean(terms), rel=1e-4)


def test_other_classes_are_drawn_anew_each_time_and_evenly():
    embeddings, labels = batch(classes=3)
    whole = losses.create("normalized_softmax", num_classes=20, embedding_dim=6)
    part, counts = SubsampledClasses(whole, 0.5), torch.zeros(20)
    for _ in range(300):
        whole.W.grad = None
        part(embeddings, labels).backward()
        counts += whole.W.grad.abs().sum(0) > 0
    present = labels.unique()
    assert (counts[present] == 300).all()
    others = np.delete(counts.numpy(), present.numpy()) / 300
    expected = (10 - len(present)) / (20 - len(present))
    assert np.abs(others - expected).max() < 4.5 * math.sqrt(expected * (1 - expected) / 300)


def test_the_batchs_classes_stay_where_the_share_is_smaller():
    embeddings, labels = batch()
    whole = losses.create("normalized_softmax", num_classes=20, embedding_dim=6)
    SubsampledClasses(whole, 0.01)(embeddings, labels).backward()
    assert int((whole.W.grad.abs().sum(0) > 0).sum()) == len(labels.unique())


def test_a_loss_without_class_weights_is_refused():
    with pytest.raises(UsageError, match="Triplet has no class weights"):
        SubsampledClasses(losses.create("triplet"), 0.5)
    with pytest.raises(UsageError, match="share of the classes"):
        SubsampledClasses(losses.create("cosface", num_classes=3, embedding_dim=2), 0.0)
