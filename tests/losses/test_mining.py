"""Tuple mining: which triplets are drawn, how often, and that chance follows its seed."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from cases import loop
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning import distances as pml_distances
from pytorch_metric_learning import miners
from scipy import stats

from dmlrc.losses import mining

MARGIN, DIM = 0.5, 16

# Every miner as a function of distances (B, B) and labels (B,).
PER_ANCHOR = {
    "semihard": lambda d, y: mining.semihard_triplets(d, y, MARGIN),
    "softhard": mining.softhard_triplets,
    "hard": lambda d, y: mining.hard_triplets(d, y),
    "distance": lambda d, y: mining.distance_weighted_triplets(d, y, DIM),
}
PER_PAIR = {
    "nearest semihard": lambda d, y: mining.nearest_semihard_triplets(d, y),
    "distance pairs": lambda d, y: mining.distance_weighted_pairs(d, y, DIM),
}
RANDOM = {"random": lambda d, y: mining.random_triplets(y)}
MINERS = {**PER_ANCHOR, **PER_PAIR, **RANDOM}
BY_CHANCE = ["semihard", "softhard", "distance", "distance pairs", "random"]


def line(*points):
    """Points on a line, and their distances."""
    x = torch.tensor(points, dtype=torch.float64)
    return (x[:, None] - x[None, :]).abs()


def sphere(size, dim=DIM, seed=0, spread=1.0):
    """Distances of points on the unit sphere, the nearer the smaller the spread."""
    generator = torch.Generator().manual_seed(seed)
    x = F.normalize(torch.ones(dim, dtype=torch.float64) + spread * math.sqrt(dim) * _normal(size, dim, generator))
    return (x[:, None] - x[None, :]).norm(dim=2)


def _normal(size, dim, generator):
    return torch.randn(size, dim, dtype=torch.float64, generator=generator)


def listed(tuples):
    return [tuple(row) for row in torch.stack(tuples, 1).tolist()]


def loop_triplets(labels):
    size = range(len(labels))
    return [
        (a, p, n)
        for a in size
        for p in size
        for n in size
        if a != p and labels[a] == labels[p] and labels[a] != labels[n]
    ]


batches = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@settings(max_examples=40)
@given(batches, st.integers(0, 99))
def test_every_miner_gives_triplets(labels, seed):
    """Positives of the anchor's class, negatives of another; each anchor or pair that has both once."""
    every = set(loop_triplets(labels))
    d, y = sphere(len(labels), seed=seed), torch.tensor(labels)
    for name, miner in MINERS.items():
        torch.manual_seed(seed)
        anchors, positives, negatives = miner(d, y)
        assert anchors.dtype == positives.dtype == negatives.dtype == torch.int64
        triplets = listed((anchors, positives, negatives))
        assert set(triplets) <= every
        if name in PER_ANCHOR:
            assert [a for a, p, n in triplets] == sorted({a for a, p, n in every})
        if name == "nearest semihard":
            assert [(a, p) for a, p, n in triplets] == sorted({(a, p) for a, p, n in every})
        if name == "random":
            assert len(set(triplets)) == len(triplets) == min(len(labels), len(every))


@loop("name, labels", itertools.product(MINERS, [[0], [0, 1, 2], [3, 3, 3]]))
def test_batches_without_triplets(name, labels):
    for indices in MINERS[name](sphere(len(labels)), torch.tensor(labels)):
        assert indices.shape == (0,)
        assert indices.dtype == torch.int64


@pytest.mark.parametrize("name", BY_CHANCE)
def test_chance_follows_the_seed(name):
    y = torch.arange(6).repeat_interleave(4)
    d = sphere(24)

    def seeded(seed):
        torch.manual_seed(seed)
        return listed(MINERS[name](d, y))

    assert seeded(1) == seeded(1) != seeded(2)


@pytest.mark.parametrize("name", ["hard", "nearest semihard"])
def test_no_chance_involved(name):
    y, d = torch.arange(6).repeat_interleave(4), sphere(24)
    state = torch.random.get_rng_state()
    assert listed(MINERS[name](d, y)) == listed(MINERS[name](d, y))
    assert torch.equal(state, torch.random.get_rng_state())


def test_all_triplets():
    labels = [2, 0, 1, 1, 0, 2, 2]
    assert listed(mining.all_triplets(torch.tensor(labels))) == loop_triplets(labels)


def test_random_triplets_are_equally_likely():
    labels = [0, 0, 1, 1, 1]
    every = loop_triplets(labels)
    torch.manual_seed(0)
    draws = Counter()
    for _ in range(1000):
        draws.update(listed(mining.random_triplets(torch.tensor(labels))))
    counts = [draws[t] for t in every]
    assert sum(counts) == 1000 * len(labels)
    assert stats.chisquare(counts).pvalue > 1e-3


# Drawn on a line: anchor 0 at 0, its positives 1 and 2 at 1.0 and 2.0, negatives 3, 4, 5 at 1.2, 1.4 and 5.
DRAWN = line(0.0, 1.0, 2.0, 1.2, 1.4, 5.0)
DRAWN_LABELS = torch.tensor([0, 0, 0, 1, 2, 3])


def draws_of_anchor_0(miner, times=400):
    torch.manual_seed(0)
    drawn = Counter()
    for _ in range(times):
        drawn.update((p, n) for a, p, n in listed(miner(DRAWN, DRAWN_LABELS)) if a == 0)
    return drawn


def test_semihard_on_a_line():
    """Beyond positive 1 at 1.0 and within 0.5: negatives 3 and 4. Beyond positive 2 there is none: any negative."""
    drawn = draws_of_anchor_0(PER_ANCHOR["semihard"])
    assert set(drawn) == {(1, 3), (1, 4), (2, 3), (2, 4), (2, 5)}
    assert stats.chisquare([drawn[1, 3], drawn[1, 4]]).pvalue > 1e-3
    assert stats.chisquare([drawn[2, 3], drawn[2, 4], drawn[2, 5]]).pvalue > 1e-3
    narrow = draws_of_anchor_0(lambda d, y: mining.semihard_triplets(d, y, 0.3))
    assert (1, 3) in narrow
    assert (1, 4) not in narrow


def test_nearest_semihard_on_a_line():
    """For positive 1 the nearest negative beyond it, 3; for positive 2 negative 5 is the only one beyond."""
    triplets = listed(mining.nearest_semihard_triplets(DRAWN, DRAWN_LABELS))
    assert (0, 1, 3) in triplets
    assert (0, 2, 5) in triplets
    nearer = line(0.0, 1.0, 2.0, 1.2, 1.4, 1.6)
    assert (0, 2, 5) in listed(mining.nearest_semihard_triplets(nearer, DRAWN_LABELS))  # none beyond: the farthest


def test_nearest_semihard_against_loops():
    """TensorFlow's rule: the smallest d_an above d_ap, or else the largest d_an."""
    labels = [2, 0, 1, 1, 0, 2, 2, 1, 0]
    for seed in range(5):
        d = sphere(len(labels), seed=seed)
        expected = []
        for a in range(len(labels)):
            for p in range(len(labels)):
                if a == p or labels[a] != labels[p]:
                    continue
                negatives = [n for n in range(len(labels)) if labels[n] != labels[a]]
                beyond = [n for n in negatives if d[a, n] > d[a, p]]
                chosen = min(beyond, key=lambda n: d[a, n]) if beyond else max(negatives, key=lambda n: d[a, n])
                expected.append((a, p, chosen))
        assert listed(mining.nearest_semihard_triplets(d, torch.tensor(labels))) == expected


def test_softhard_on_a_line():
    """Hard positive: 2, beyond the nearest negative at 1.2. Hard negatives: 3 and 4, before the farthest positive."""
    drawn = draws_of_anchor_0(PER_ANCHOR["softhard"])
    assert set(drawn) == {(2, 3), (2, 4)}
    assert stats.chisquare(list(drawn.values())).pvalue > 1e-3


def test_softhard_without_hard_samples_takes_any():
    d, y = line(0.0, 0.1, 0.2, 5.0, 6.0), torch.tensor([0, 0, 0, 1, 2])
    torch.manual_seed(0)
    drawn = {(p, n) for _ in range(200) for a, p, n in listed(mining.softhard_triplets(d, y)) if a == 0}
    assert drawn == {(1, 3), (1, 4), (2, 3), (2, 4)}


def test_hard_on_a_line_and_against_pytorch_metric_learning():
    assert (0, 2, 3) in listed(mining.hard_triplets(DRAWN, DRAWN_LABELS))
    x = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    y = torch.arange(30) % 7
    theirs = miners.BatchHardMiner(distance=pml_distances.LpDistance(normalize_embeddings=False))(x, y)
    assert listed(mining.hard_triplets(torch.cdist(x, x), y)) == listed(theirs)


# Distance-weighted sampling


def loop_weights(row, labels, anchor, dim, upper=math.inf):
    """1 / q(d) of every negative of one anchor, in exact logarithms, normalised."""
    logs = {}
    for n, d in enumerate(row):
        if labels[n] != labels[anchor] and max(d, 0.5) < upper:
            d = max(d, 0.5)
            logs[n] = -(dim - 2) * math.log(d) - (dim - 3) / 2 * math.log(max(1 - d**2 / 4, 1e-8))
    top = max(logs.values(), default=0.0)
    total = sum(math.exp(value - top) for value in logs.values())
    return [math.exp(logs[n] - top) / total if n in logs else 0.0 for n in range(len(row))]


@pytest.mark.parametrize(("dim", "upper"), [(2, 1.4), (3, math.inf), (128, 1.4)])
def test_distance_weights_against_loops(dim, upper):
    labels = [0, 0, 1, 1, 2, 2, 2]
    for spread in (0.2, 1.0, 5.0):
        d = sphere(7, dim, spread=spread)
        d[0, 3], d[1, 2], d[2, 0] = 0.0, 2.0, 1.39  # a duplicate, an antipode, one just inside the limit
        weights = mining.distance_weights(d, torch.tensor(labels), dim, upper)
        expected = [loop_weights(row, labels, a, dim, upper) for a, row in enumerate(d.tolist())]
        np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-6, atol=1e-12)
        assert torch.isfinite(mining.distance_weights(d.float(), torch.tensor(labels), dim, upper)).all()


def test_distance_weights_level_the_density():
    """Random points on a sphere: sampling by 1 / q makes their distances uniform, all of them near sqrt(2) does not."""
    dim, size = 4, 300
    d = sphere(size, dim, spread=1e6)
    weights = mining.distance_weights(d, torch.arange(size), dim)
    inside = (d > 0.5) & (d < 1.9)
    d, weights = d[inside].numpy(), weights[inside].numpy()
    heights, _ = np.histogram(d, bins=7, range=(0.5, 1.9), weights=weights / weights.sum())
    plain, _ = np.histogram(d, bins=7, range=(0.5, 1.9))
    assert np.abs(heights * 7 - 1).max() < 0.3
    assert np.abs(plain / plain.sum() * 7 - 1).max() > 0.5


def test_near_negatives_count_as_half():
    """The clamp: negatives at 0, 0.3 and 0.5 are equally likely."""
    d = line(0.0, 0.0, 0.3, 0.5, 1.0)
    weights = mining.distance_weights(d, torch.arange(5), 16)[0]
    torch.testing.assert_close(weights[1:4], weights[1].expand(3))
    assert 0 < weights[4] < weights[1] / 1000


def test_negatives_beyond_the_limit_are_not_eligible():
    """An anchor whose negatives are all farther than 1.4 has any of them."""
    d, y = line(0.0, 0.1, 1.6, 1.7), torch.tensor([0, 0, 1, 1])
    drawn = [n for _ in range(300) for a, p, n in listed(mining.distance_weighted_pairs(d, y, 16)) if a == 0]
    assert len(drawn) == 300
    assert 110 < drawn.count(2) < 190
    assert drawn.count(3) == 300 - drawn.count(2)
    assert [a for a, p, n in listed(mining.distance_weighted_triplets(d, y, 16))] == [0, 1, 2, 3]
    d, y = line(0.0, 0.1, 1.0, 1.45), torch.tensor([0, 0, 1, 1])
    drawn = {(a, n) for _ in range(300) for a, p, n in listed(mining.distance_weighted_pairs(d, y, 16))}
    assert drawn == {(0, 2), (1, 2), (1, 3), (2, 0), (2, 1), (3, 1)}  # only 0 and 3 are farther apart than 1.4


def test_a_far_anchor_keeps_its_weights():
    """Each row is scaled by its own maximum: in 512 dimensions one near pair does not flush the other rows to zero."""
    d = line(0.0, 0.5, 1.5, 3.0).clamp(max=1.5).float()
    weights = mining.distance_weights(d, torch.arange(4), 512)
    torch.testing.assert_close(weights.sum(1), torch.ones(4))


@pytest.mark.parametrize(("miner", "upper"), [("distance", math.inf), ("distance pairs", 1.4)])
def test_distance_weighted_draws_have_these_weights(miner, upper):
    """Chi-square of 4000 draws against the stated weights; against equal weights the same draws fail.

    Each point lies there twenty times, so that a batch has many draws: which copy is taken does not matter.
    """
    y = torch.tensor([0, 0, 1, 1, 2, 2])
    d = line(0.0, 0.2, 0.6, 0.65, 0.7, 1.3)
    torch.manual_seed(0)
    counts = np.zeros((6, 6))
    while counts[0].sum() < 4000:
        anchors, _, negatives = MINERS[miner](d.repeat(20, 20), y.repeat(20))
        np.add.at(counts, (anchors % 6, negatives % 6), 1)
    for a in range(6):
        expected = np.array(loop_weights(d[a].tolist(), y.tolist(), a, DIM, upper))
        seen = expected * counts[a].sum() >= 5
        assert counts[a][expected == 0].sum() == 0
        observed = np.append(counts[a][seen], counts[a][~seen].sum())
        wanted = np.append(expected[seen], expected[~seen].sum()) * counts[a].sum()
        observed, wanted = observed[wanted > 0], wanted[wanted > 0]
        if wanted[-1] < 5:  # too rare for a cell of its own
            observed, wanted = np.append(observed[:-2], observed[-2:].sum()), np.append(wanted[:-2], wanted[-2:].sum())
        assert len(wanted) == 1 or stats.chisquare(observed, wanted).pvalue > 1e-3
    equal = counts[0][2:]
    assert stats.chisquare(equal).pvalue < 1e-12


def test_positives_are_equally_likely():
    y, d = torch.tensor([0, 0, 0, 0, 1]), sphere(5)
    torch.manual_seed(0)
    for miner in (PER_ANCHOR["distance"], PER_ANCHOR["semihard"]):
        drawn = Counter(p for _ in range(300) for a, p, n in listed(miner(d, y)) if a == 1)
        assert set(drawn) == {0, 2, 3}
        assert stats.chisquare(list(drawn.values())).pvalue > 1e-3


def test_a_nan_does_not_stop_the_miners():
    """On a GPU a NaN must reach the loss value, not an assertion of the sampler."""
    y, d = torch.arange(6).repeat_interleave(2), sphere(12)
    d[3], d[:, 3] = math.nan, math.nan
    for miner in MINERS.values():
        assert 3 in {a for a, p, n in listed(miner(d, y))} or miner is MINERS["random"]


# Switching, pairs and quadruplets


def test_switch_negatives_at_its_ends():
    triplets = (torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([4, 5]))
    assert listed(mining.switch_negatives(triplets, 0.0)) == [(0, 2, 4), (1, 3, 5)]
    assert listed(mining.switch_negatives(triplets, 1.0)) == [(0, 0, 2), (1, 1, 3)]


def test_switch_negatives_with_its_probability():
    size = 20000
    triplets = tuple(torch.full((size,), k) for k in (0, 1, 2))
    torch.manual_seed(0)
    anchors, positives, negatives = mining.switch_negatives(triplets, 0.35)
    switched = negatives == 1
    assert torch.equal(positives == 0, switched)
    assert (anchors == 0).all()
    assert stats.binomtest(int(switched.sum()), size, 0.35).pvalue > 1e-3
    assert stats.binomtest(int(switched.sum()), size, 0.37).pvalue < 1e-3


def test_ranks_and_first_pairs():
    y = torch.tensor([2, 0, 1, 1, 0, 2, 2, 4])
    assert mining.ranks_in_class(y).tolist() == [0, 0, 0, 1, 1, 1, 2, 0]
    assert listed(mining.first_pairs(y)) == [(1, 4), (2, 3), (0, 5)]
    assert listed(mining.first_pairs(torch.tensor([0, 1]))) == []


@settings(max_examples=40)
@given(batches, st.integers(0, 99))
def test_random_pairs_and_third_classes(labels, seed):
    y = torch.tensor(labels)
    torch.manual_seed(seed)
    anchors = sorted({a for a, p, n in loop_triplets(labels)})
    pairs = listed(mining.random_pairs(y))
    assert [a for a, p in pairs] == anchors
    assert all(labels[a] == labels[p] and a != p for a, p in pairs)
    triplets = mining.all_triplets(y)
    fourths = mining.choose_other_class(y, triplets).tolist()
    for (a, _p, n), m in zip(listed(triplets), fourths, strict=True):
        third = set(labels) - {labels[a], labels[n]}
        assert (labels[m] in third) if third else m == -1


def test_mean_over_tuples():
    assert mining.mean_over_tuples(torch.tensor([1.0, 3.0])) == 2
    nothing = torch.ones(4, requires_grad=True)
    value = mining.mean_over_tuples(nothing[:0])
    value.backward()
    assert value == 0
    assert (nothing.grad == 0).all()
