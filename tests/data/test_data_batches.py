"""Batch samplers: by their laws, by frequencies, and by brute force on small pools."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, stats

from dmlrc.data import batches
from dmlrc.errors import UsageError

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(12), np.arange(1, 13)))  # class c has c + 1 images


def embeddings(count, dim=6, seed=0):
    points = np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def test_an_unknown_sampler_is_named_with_the_nearest_one():
    with pytest.raises(UsageError, match="unknown sampler 'spc-r': did you mean 'spc_r'"):
        batches.create_sampler("spc-r", np.arange(8) // 2, 4, 2, 0, lambda: None)


@pytest.mark.parametrize(
    ("drawn", "says"),
    [
        ([[0, 1]] * 3, "has no more batches: let it go on for ever"),
        ([[0, 1], [2, 3], [4]], "batches of 2 and of 1 images: let all be alike"),
        ([[0, 1], [2, 99]], "gives batches of positions from 0 to 77"),
        ([[0, 1], None], "has no more batches"),
    ],
)
def test_a_sampler_of_ones_own_that_gives_no_batch_is_told_so(drawn, says):
    sampler = batches.create_sampler(lambda *_: iter(drawn), LABELS, 2, 1, 0, lambda: None)
    assert sampler.draw(1).tolist() == [[0, 1]]
    with pytest.raises(UsageError, match=says):
        sampler.draw(3)


def from_pool(size, kind, *args, **kwargs):
    """Make a sampler that chooses from a pool of this size."""
    sampler = kind(*args, **kwargs)
    sampler.pool_size = size
    return sampler


def samplers(labels, rng):
    bank = embeddings(len(labels))
    yield batches.ClassBalanced(labels, 4, 2, rng)
    yield batches.RandomBatches(labels, 8, rng)
    yield batches.SpcR(labels, 8, rng)
    yield batches.Episodes(labels, 2, 2, 2, rng)
    for kind in (batches.GreedyCoreset, batches.DistributionMatching, batches.Frechet):
        yield from_pool(40, kind, labels, bank, 8, rng)


def test_every_sampler_is_seeded_and_endless():
    for first, again, other in zip(samplers(LABELS, 3), samplers(LABELS, 3), samplers(LABELS, 4), strict=True):
        drawn = [list(itertools.islice(s, 10)) for s in (first, again, other)]
        assert [len(each) for each in drawn] == [10, 10, 10]
        assert all(b.shape == (8,) and b.dtype == np.int64 for b in drawn[0])
        assert np.array_equal(drawn[0], drawn[1])
        assert not np.array_equal(drawn[0], drawn[2])
        assert len({tuple(b) for b in drawn[0]}) > 1


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=3, max_size=12),
    c=st.integers(1, 3),
    m=st.integers(1, 6),
    seed=st.integers(0),
)
def test_class_balanced(sizes, c, m, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    for batch in itertools.islice(batches.ClassBalanced(labels, c, m, seed), 5):
        rows = batch.reshape(c, m)
        assert (labels[rows] == labels[rows[:, :1]]).all()
        assert len(set(labels[rows[:, 0]].tolist())) == c
        for row in rows:
            if sizes[labels[row[0]]] >= m:
                assert len(set(row.tolist())) == m


@pytest.mark.parametrize("m", [1, 2, 4])
def test_distinct_numbers_are_any_arrangement_equally_often(m):
    sizes = np.tile([4, 5], 6000)
    drawn = batches.distinct(sizes, m, np.random.default_rng(0))
    for size in (4, 5):
        arrangements = list(itertools.permutations(range(size), m))
        place = {arrangement: index for index, arrangement in enumerate(arrangements)}
        found = [place[tuple(row)] for row in drawn[sizes == size].tolist()]  # no other row, or a KeyError
        assert stats.chisquare(np.bincount(found, minlength=len(arrangements))).pvalue > 1e-3


def test_many_batches_drawn_at_once_are_batches():
    for sampler in samplers(LABELS, 3):
        drawn = sampler.draw(7)
        assert drawn.shape == (7, 8)
        assert len({tuple(batch) for batch in drawn.tolist()}) > 1
    drawn = batches.ClassBalanced(LABELS, 4, 3, 0).draw(200).reshape(200, 4, 3)
    assert (LABELS[drawn] == LABELS[drawn[..., :1]]).all()
    assert all(len(set(LABELS[batch[:, 0]].tolist())) == 4 for batch in drawn)
    assert all(len(set(row.tolist())) == 3 for batch in drawn for row in batch if LABELS[row[0]] >= 2)


def test_class_balanced_draws_classes_and_images_uniformly():
    labels = np.repeat(np.arange(5), [2, 3, 4, 5, 6])
    draws = np.concatenate(list(itertools.islice(batches.ClassBalanced(labels, 2, 3, 0), 2000)))
    per_class = np.bincount(labels[draws], minlength=5)
    assert stats.chisquare(per_class / 3).pvalue > 1e-3
    for c in range(5):  # each image of a class equally often, also where 3 are drawn of 2 with replacement
        assert stats.chisquare([np.sum(draws == i) for i in np.flatnonzero(labels == c)]).pvalue > 1e-3


def test_a_small_class_is_sampled_with_replacement():
    labels = np.array([0, 0, 1, 1, 1, 1])
    batch = next(batches.ClassBalanced(labels, 2, 4, 0)).reshape(2, 4)
    small, large = sorted(batch.tolist(), key=lambda row: labels[row[0]])
    assert set(small) <= {0, 1}
    assert sorted(large) == [2, 3, 4, 5]


def test_labels_may_have_gaps():
    labels = np.array([3, 3, 70, 70, 9, 9])
    batch = next(batches.ClassBalanced(labels, 3, 2, 0)).reshape(3, 2)
    assert sorted(labels[batch[:, 0]]) == [3, 9, 70]


def test_random_batches_are_different_images():
    draws = list(itertools.islice(batches.RandomBatches(LABELS, 30, 0), 2000))
    assert all(len(set(b.tolist())) == 30 for b in draws)
    assert stats.chisquare(np.bincount(np.concatenate(draws))).pvalue > 1e-3


def test_spc_r_always_has_a_positive_pair_and_no_image_twice():
    labels = np.concatenate([np.arange(200), np.repeat(np.arange(200, 203), 2)])  # hardly any class has two images
    for batch in itertools.islice(batches.SpcR(labels, 6, 0), 100):
        assert len(set(batch.tolist())) == 6
        assert labels[batch[-1]] in labels[batch[:-1]]


def test_spc_r_takes_a_list_of_labels():
    labels = np.repeat(np.arange(4), 5)
    assert next(batches.SpcR(labels.tolist(), 6, 0)).tolist() == next(batches.SpcR(labels, 6, 0)).tolist()


def test_spc_r_varies_the_number_of_classes():
    labels = np.repeat(np.arange(10), 6)
    assert len({len(set(labels[b].tolist())) for b in itertools.islice(batches.SpcR(labels, 8, 0), 100)}) > 2


def test_episodes_leave_small_classes_out_and_keep_support_and_query_apart():
    sampler = batches.Episodes(LABELS, 3, support=2, query=4, rng=0)
    first = []
    for batch in itertools.islice(sampler, 600):
        rows = batch.reshape(3, 6)
        assert (labels := LABELS[rows]).tolist() == labels[:, :1].repeat(6, axis=1).tolist()
        assert labels.min() >= 5  # class c has c + 1 images
        assert len(set(batch.tolist())) == 18
        first += rows[:, 0].tolist()
    largest = [np.sum(np.array(first) == i) for i in np.flatnonzero(LABELS == 11)]
    assert stats.chisquare(largest).pvalue > 1e-3  # each image is support equally often


# Embedded samplers


def covering_radius(points, chosen):
    return max(min(np.linalg.norm(p - points[c]) for c in chosen) for p in points)


def test_greedy_coreset_on_a_line():
    points = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [4.9]])
    assert batches.greedy_coreset(points, 4, first=0).tolist() == [0, 4, 5, 2]


@pytest.mark.parametrize("seed", range(3))
def test_greedy_coreset_covers_within_twice_the_optimum(seed):
    points = embeddings(11, 2, seed)
    chosen = batches.greedy_coreset(points, 4, first=seed)
    best = min(covering_radius(points, subset) for subset in itertools.combinations(range(11), 4))
    assert len(set(chosen.tolist())) == 4
    assert covering_radius(points, chosen) <= 2 * best + 1e-6


def test_greedy_coreset_by_loops():
    points = embeddings(40, 3)
    chosen = [7]
    while len(chosen) < 10:
        gaps = [min(np.linalg.norm(p - points[c]) for c in chosen) for p in points]
        chosen.append(int(np.argmax(gaps)))
    assert batches.greedy_coreset(points, 10, 7).tolist() == chosen


def test_greedy_coreset_of_coinciding_points_takes_each_once():
    assert sorted(batches.greedy_coreset(np.ones((5, 2)), 5, 2).tolist()) == [0, 1, 2, 3, 4]


def test_the_coreset_covers_its_own_pool_and_a_misaligned_one_does_not():
    """Finding 11: anchors measured on one pool and read from another cover no better than random ones."""
    points = embeddings(400, 3)
    rng = np.random.default_rng(0)
    radii = {"coreset": [], "misaligned": [], "random": []}
    for _ in range(20):
        pool, other = (rng.choice(400, 100, replace=False) for _ in range(2))
        chosen = batches.greedy_coreset(points[pool], 10, 0)
        radii["coreset"].append(covering_radius(points[pool], chosen))
        radii["misaligned"].append(covering_radius(points[other], chosen))
        radii["random"].append(covering_radius(points[pool], rng.choice(100, 10, replace=False)))
    assert np.mean(radii["coreset"]) < 0.8 * np.mean(radii["random"])
    assert abs(np.mean(radii["misaligned"]) / np.mean(radii["random"]) - 1) < 0.1


def test_coreset_batches_are_the_coreset_of_the_bank_with_class_mates():
    labels = np.repeat(np.arange(20), 5)
    bank = embeddings(100, 2)
    sampler = batches.GreedyCoreset(labels, bank, 12, 0, images_per_class=3)  # the pool is everything
    for batch in itertools.islice(sampler, 10):
        rows = batch.reshape(4, 3)
        assert (labels[rows] == labels[rows[:, :1]]).all()
        assert all(len(set(row.tolist())) == 3 for row in rows)
        assert rows[:, 0].tolist() == batches.greedy_coreset(bank, 4, rows[0, 0]).tolist()


def test_the_memory_bank_is_updated_where_the_trainer_says():
    labels = np.repeat(np.arange(20), 2)
    sampler = batches.GreedyCoreset(labels, np.zeros((40, 2)), 4, 0)  # the pool is everything
    sampler.update(np.array([8, 30]), np.array([[5.0, 0.0], [0.0, 5.0]]))
    anchors = next(sampler).reshape(2, 2)[:, 0]
    assert anchors[1] in {8, 30}  # whatever the first one is, one of the two lies farthest from it


def histogram_distance(points, batch, bins=50):
    """By loops and scipy's Wasserstein distance of weighted values."""

    def distances(subset):
        return [np.linalg.norm(points[i] - points[j]) for i, j in itertools.combinations(subset, 2)]

    pool = distances(range(len(points)))
    edges = np.linspace(min(pool), max(pool), bins + 1)
    centres = (edges[:-1] + edges[1:]) / 2
    heights = [np.histogram(np.clip(d, edges[0], edges[-1]), edges)[0] for d in (pool, distances(batch))]
    return stats.wasserstein_distance(centres, centres, *heights)


def test_histogram_distances_are_wasserstein_distances():
    points = embeddings(30, 4).astype(np.float64)
    chosen = [np.random.default_rng(seed).choice(30, 8, replace=False) for seed in range(5)]
    expected = [histogram_distance(points, batch) for batch in chosen]
    np.testing.assert_allclose(batches.histogram_distances(points, chosen), expected, rtol=1e-6)


def test_a_histogram_and_its_reverse_are_far_apart():
    """Finding 12: bin heights taken as samples give 0 for reversed histograms."""
    near, far = np.array([[0.0], [0.1], [0.2]]), np.array([[100.0], [101.0], [102.0]])
    points = np.concatenate([near, far])
    to_near, to_all = batches.histogram_distances(points, [np.arange(3), np.arange(6)], bins=4)
    assert to_all == 0
    assert to_near > 10
    heights = np.array([0.7, 0.2, 0.1])
    assert stats.wasserstein_distance(heights, heights[::-1]) == 0
    assert stats.wasserstein_distance(np.arange(3), np.arange(3), heights, heights[::-1]) == pytest.approx(1.2)


def frechet_distance(a, b):
    """From the formula, with scipy's matrix root."""
    root = linalg.sqrtm(np.cov(a.T) @ np.cov(b.T))
    return np.sum((a.mean(0) - b.mean(0)) ** 2) + np.trace(np.cov(a.T) + np.cov(b.T) - 2 * np.real(root))


@pytest.mark.parametrize("size", [20, 60])
def test_frechet_distances_are_the_formula(size):
    points = np.random.default_rng(1).normal(size=(80, 5)) @ np.random.default_rng(2).normal(size=(5, 5))
    batch = np.random.default_rng(3).choice(80, size, replace=False)
    (ours,) = batches.frechet_distances(points, [batch])
    assert ours == pytest.approx(frechet_distance(points[batch], points), rel=1e-6)
    assert batches.frechet_distances(points, [np.arange(80)])[0] == pytest.approx(0, abs=1e-9)


def test_frechet_distance_of_gaussians_on_axes():
    """Diagonal covariances: the sum of squared differences of the standard deviations, fewer points than dimensions."""
    axes = np.array([[1.0, 0, 0, 0], [-1, 0, 0, 0]])  # variance 2 on the first axis only
    points = np.concatenate([axes, 3 * axes])  # variance (1 + 1 + 9 + 9) / 3
    (ours,) = batches.frechet_distances(points, [np.array([0, 1])])
    assert ours == pytest.approx((np.sqrt(20 / 3) - np.sqrt(2)) ** 2)


@pytest.mark.parametrize(
    ("kind", "distance"),
    [
        (batches.DistributionMatching, histogram_distance),
        (batches.Frechet, lambda points, batch: frechet_distance(points[batch], points)),
    ],
)
def test_the_best_of_all_candidates_is_taken(kind, distance, monkeypatch):
    labels = np.repeat(np.arange(10), 8)
    bank = embeddings(80, 3).astype(np.float64)
    sampler = from_pool(40, kind, labels, bank, 10, 0)
    sampler.memory = bank
    seen = {}
    inner = kind._distances

    def spy(points, candidates):
        seen.update(points=points, candidates=candidates)
        return inner(points, candidates)

    monkeypatch.setattr(kind, "_distances", staticmethod(spy))
    for batch in itertools.islice(sampler, 5):
        assert seen["points"].shape == (40, 3)
        assert len(seen["candidates"]) == 10
        best = min(seen["candidates"], key=lambda c: distance(seen["points"], c))
        np.testing.assert_array_equal(bank[batch], seen["points"][best])
        rows = batch.reshape(5, 2)
        assert (labels[rows[:, 0]] == labels[rows[:, 1]]).all()
        assert (rows[:, 0] != rows[:, 1]).all()
        assert len(set(labels[rows[:, 0]].tolist())) == 5


def test_matched_batches_are_nearer_to_the_pool_than_random_ones():
    labels = np.repeat(np.arange(30), 10)
    bank = embeddings(300, 4)
    for kind, distances in (
        (batches.DistributionMatching, batches.histogram_distances),
        (batches.Frechet, batches.frechet_distances),
    ):
        matched = list(itertools.islice(from_pool(300, kind, labels, bank, 20, 0), 20))
        random = list(itertools.islice(batches.ClassBalanced(labels, 10, 2, 0), 40))
        assert np.mean(distances(bank, matched)) < 0.9 * np.mean(distances(bank, random))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: batches.ClassBalanced(LABELS, 13, 2, 0), "13 different classes cannot be drawn from 12"),
        (lambda: batches.ClassBalanced(LABELS, 0, 2, 0), "0 different classes"),
        (lambda: batches.ClassBalanced(LABELS, 3, 0, 0), "images_per_class is at least 1"),
        (lambda: batches.RandomBatches(LABELS, 79, 0), "79 different images cannot be drawn from 78"),
        (lambda: batches.SpcR(np.arange(9), 4, 0), "a class of at least 2"),
        (
            lambda: batches.Episodes(LABELS, 8, 2, 4, 0),
            r"only 7 classes have 2 \+ 4 images: lower support \+ query",
        ),
        (lambda: batches.Episodes(LABELS, 4, 20, 20, 0), "only 0 classes have"),
        (lambda: batches.Frechet(LABELS, embeddings(78), 9, 0), "9 images cannot consist of groups of 2"),
        (lambda: batches.Frechet(LABELS, embeddings(78), 26, 0), "13 different classes cannot be drawn from 12"),
        (lambda: batches.GreedyCoreset(LABELS, embeddings(78), 1026, 0), "pool of 1024 images is smaller"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(UsageError, match=message):
        make()


def test_episodes_take_labels_as_a_list():
    labels = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    drawn = batches.create_sampler("episodes", labels, 2, 4, 0, lambda: None).draw(3)
    assert drawn.shape == (3, 8)


def test_a_sampler_of_ones_own_is_a_function():
    labels = np.repeat(np.arange(4), 3)

    def first_images(labels, classes, images, rng):
        while True:
            yield [int(np.flatnonzero(labels == each)[0]) for each in rng.permutation(classes)]

    drawn = batches.create_sampler(first_images, labels, 4, 1, 0, lambda: None)
    assert (drawn.ahead, drawn.draw(2).shape) == (1, (2, 4))
    assert sorted(next(drawn)) == [0, 3, 6, 9]
    for wrong in ([0, 12], [-1], [0.5], [[0, 1]], ["a"]):
        with pytest.raises(UsageError, match="positions from 0 to 11"):
            next(batches.create_sampler(lambda *_, wrong=wrong: iter([wrong]), labels, 2, 2, 0, lambda: None))
