"""All-pairs metrics, spectrum and density against loops, scipy and cases drawn on paper."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlrc.errors import DivergedError, UsageError
from dmlrc.metrics import density, histograms, neighbours, spectrum


def sphere(n=90, classes=5, dim=12, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    embeddings = rng.normal(size=(classes, dim))[labels] + rng.normal(size=(n, dim))
    return embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True), labels


def pair_products(embeddings, labels):
    """The inner products of positive and of negative pairs, one by one."""
    products = {True: [], False: []}
    for i, j in combinations(range(len(labels)), 2):
        products[bool(labels[i] == labels[j])].append(float(embeddings[i] @ embeddings[j]))
    return products[True], products[False]


# --- histograms ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bins", "n"), [(1, 90), (100, 91), (126, 90), (127, 91), (1000, 90)])
def test_histograms_equal_numpy(bins, n):
    embeddings, labels = sphere(n)
    edges, *counts = histograms.pair_histograms(embeddings, labels, bins)
    assert edges == pytest.approx(np.linspace(-1, 1, bins + 1))
    for ours, products in zip(counts, pair_products(embeddings, labels), strict=True):
        np.testing.assert_array_equal(ours, np.histogram(products, edges)[0])


@pytest.mark.parametrize("elements", [1, 200, 1000, 10**6])
def test_blocks_do_not_matter(elements, monkeypatch):
    """Whole blocks and the last, shorter one: every pair is counted once."""
    embeddings, labels = sphere(n=61)
    expected = histograms.pair_histograms(embeddings, labels)
    distances = density.density_scores(embeddings, labels)
    monkeypatch.setattr(neighbours, "BLOCK_ELEMENTS", elements)
    monkeypatch.setattr(histograms, "SIDE", math.isqrt(elements))
    for ours, theirs in zip(histograms.pair_histograms(embeddings, labels), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert density.density_scores(embeddings, labels) == pytest.approx(distances, rel=1e-12)


def test_every_pair_is_in_the_histogram():
    """Duplicates, whose product rounds above 1, and opposite points, at -1, lie in the outer bins."""
    rng = np.random.default_rng(0)
    x = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(30, 100)).astype(np.float32)), dim=1)
    _, positive, negative = histograms.pair_histograms(torch.cat([x, x, -x]), [*range(30), *range(30), *range(30, 60)])
    assert positive.sum() == positive[-1] == 30
    assert negative.sum() == 90 * 89 / 2 - 30
    assert negative[0] >= 60


@pytest.mark.parametrize("bins", [10, 126, 5000])
def test_few_large_classes_and_float32(bins):
    """A class over several tiles; each pair is counted once, on the right side, in its bin but for rounding."""
    embeddings, labels = sphere(n=2300, classes=2)
    edges, positive, negative = histograms.pair_histograms(embeddings.astype(np.float32), labels, bins)
    products = embeddings @ embeddings.T
    same, once = labels[:, None] == labels, np.triu(np.ones(products.shape, bool), 1)
    for ours, pairs in ((positive, same & once), (negative, ~same & once)):
        assert ours.sum() == pairs.sum()
        assert np.abs((ours - np.histogram(products[pairs], edges)[0]).cumsum()).max() < 1e-5 * bins * pairs.sum()


def test_scale_does_not_matter_to_the_histograms():
    embeddings, labels = sphere()
    embeddings = embeddings * np.linspace(0.5, 2, len(labels))[:, None]
    edges, *counts = histograms.pair_histograms(embeddings, labels)
    scaled_edges, *scaled = histograms.pair_histograms(8 * embeddings, labels)
    np.testing.assert_allclose(scaled_edges, 64 * edges)
    np.testing.assert_array_equal(scaled, counts)


counts = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6).filter(
    lambda pairs: all(np.array(pairs).sum(axis=0) > 0)
)


@given(counts)
def test_jsd_equals_scipy_squared(pairs):
    from scipy.spatial.distance import jensenshannon

    p, q = np.array(pairs).T
    ours = histograms.jensen_shannon_divergence(p, q)
    assert ours == pytest.approx(jensenshannon(p, q, base=2) ** 2, abs=1e-12)
    assert 0 <= ours <= 1
    assert ours == pytest.approx(histograms.jensen_shannon_divergence(q, 7 * p), abs=1e-12)


def test_jsd_of_disjoint_histograms_is_one_and_not_more():
    for seed in range(1_189, 1_200):  # of the first the sum is 1.0000000000000002
        p, q = np.random.default_rng(seed).integers(1, 50, (2, 6))
        assert histograms.jensen_shannon_divergence([*p, *6 * [0]], [*6 * [0], *q]) == pytest.approx(1.0)
        assert histograms.jensen_shannon_divergence([*p, *6 * [0]], [*6 * [0], *q]) <= 1


def test_jsd_on_paper():
    """P = (1, 0), Q = (1/2, 1/2), M = (3/4, 1/4): (log2 4/3 + (log2 2/3 + log2 2) / 2) / 2. In nats 0.69 of it."""
    expected = (np.log2(4 / 3) + (np.log2(2 / 3) + 1) / 2) / 2
    assert histograms.jensen_shannon_divergence([5, 0], [2, 2]) == pytest.approx(expected)


def test_jsd_of_separate_and_of_equal_pairs():
    labels = np.repeat(np.arange(4), 3)
    assert histograms.jsd(np.eye(4)[labels], labels) == 1.0
    assert histograms.jsd(np.ones((12, 1)), labels) == 0.0
    embeddings, _ = sphere(n=400)
    assert histograms.jsd(embeddings, np.random.default_rng(1).integers(4, size=400)) < 0.01


def test_a_jsd_of_1_needs_no_threshold_between_the_kinds():
    """Positive pairs at 1 and -1, the negative ones at 0, between them."""
    assert histograms.jsd([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], [0, 0, 0, 1]) == 1.0


@pytest.mark.parametrize("threads", [1, 2])
def test_inner_products_are_the_same_on_any_number_of_threads(threads):
    rng = np.random.default_rng(0)
    queries, references = rng.normal(size=(30, 20)).astype(np.float32), rng.normal(size=(40, 20)).astype(np.float32)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = neighbours.inner_products(torch.from_numpy(queries), torch.from_numpy(references))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(found, queries.astype(np.float64) @ references.T.astype(np.float64), atol=1e-5)


def test_mean_inner_products_equal_the_loop():
    embeddings, labels = sphere()
    embeddings = 3 * embeddings + 1
    positive, negative = pair_products(embeddings, labels)
    assert histograms.mean_inner_products(embeddings, labels) == pytest.approx(
        {"mean_positive": np.mean(positive), "mean_negative": np.mean(negative)}
    )


# --- spectrum --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(50, 8), (8, 50), (20, 20), (3, 1)])
def test_spectrum_equals_svd(shape):
    embeddings = np.random.default_rng(0).normal(size=shape) + 1
    expected = np.linalg.svd(embeddings, compute_uv=False)
    np.testing.assert_allclose(spectrum.spectrum(embeddings), expected, rtol=1e-7)


def test_rho_equals_scipy_and_depends_on_what_is_kept():
    """D - 1 values without the largest; all D or D - 1 with the largest are other numbers (findings of Roth's code)."""
    from scipy.stats import entropy

    embeddings, _ = sphere()
    values = np.linalg.svd(embeddings, compute_uv=False)

    def decay(kept):
        return entropy(np.full(len(kept), 1 / len(kept)), kept / kept.sum())

    assert spectrum.rho(embeddings) == pytest.approx(decay(values[1:]), rel=1e-6)
    assert spectrum.spectral_decay(values) == pytest.approx(decay(values))
    assert len({round(decay(kept), 3) for kept in (values, values[1:], values[:-1])}) == 3
    centred = np.linalg.svd(embeddings - embeddings.mean(axis=0), compute_uv=False)
    assert abs(spectrum.rho(embeddings) - decay(centred[1:])) > 1e-3


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.floats(1e-4, 1e4))
def test_rho_knows_neither_rotation_nor_scale_nor_order(seed, scale):
    rng = np.random.default_rng(seed)
    embeddings, _ = sphere(n=40, dim=6, seed=seed)
    rotation, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    assert spectrum.rho(scale * rng.permutation(embeddings) @ rotation) == pytest.approx(
        spectrum.rho(embeddings), rel=1e-6
    )


def test_rho_of_degenerate_embeddings():
    rng = np.random.default_rng(0)
    unused = rng.normal(size=(100, 5)).astype(np.float32)
    unused[:, 4] = 0
    assert 1 < spectrum.rho(unused) < 10
    assert spectrum.rho(unused) == pytest.approx(spectrum.rho(unused[::-1].copy()))
    assert spectrum.rho(np.ones((10, 3))) == np.inf
    assert np.isnan(spectrum.rho(np.ones((10, 1))))
    assert spectrum.spectral_decay([1.0, 0.0]) == np.inf


# --- density ---------------------------------------------------------------------------------------------------------


def test_density_equals_the_loop():
    embeddings, labels = sphere()
    intra = [
        np.linalg.norm(embeddings[i] - embeddings[j]) for i, j in combinations(range(90), 2) if labels[i] == labels[j]
    ]
    centres = [embeddings[labels == c].mean(axis=0) for c in np.unique(labels)]
    inter = [np.linalg.norm(a - b) for a, b in combinations(centres, 2)]
    expected = {"pi_intra": np.mean(intra), "pi_inter": np.mean(inter), "pi_ratio": np.mean(intra) / np.mean(inter)}
    assert density.density_scores(embeddings, labels) == pytest.approx(expected)


def test_a_class_counts_by_its_pairs():
    """Three pairs at distance 0 and one at 4: 1, where the mean of the classes' means would be 2."""
    assert density.density_scores([[0.0], [0.0], [0.0], [6.0], [10.0]], [0, 0, 0, 1, 1])["pi_intra"] == 1.0


@pytest.mark.parametrize("shift", [0, 1e6])
def test_density_of_many_classes(shift):
    """Centres by a matrix product, and far from the origin, where it loses too many digits, by differences."""
    from scipy.spatial.distance import pdist

    centres = np.random.default_rng(0).normal(size=(300, 5)) + shift
    scores = density.density_scores(np.repeat(centres, 2, axis=0), np.repeat(np.arange(300), 2))
    assert scores["pi_inter"] == pytest.approx(pdist(centres).mean(), rel=1e-9)
    assert scores["pi_intra"] == 0


def test_density_scales():
    embeddings, labels = sphere()
    once, thrice = density.density_scores(embeddings, labels), density.density_scores(3 * embeddings + 5, labels)
    assert thrice["pi_intra"] == pytest.approx(3 * once["pi_intra"])
    assert thrice["pi_inter"] == pytest.approx(3 * once["pi_inter"])
    assert thrice["pi_ratio"] == pytest.approx(once["pi_ratio"])


def test_density_of_a_collapsed_embedding():
    scores = density.density_scores(np.full((6, 3), 0.1, np.float32), [0, 0, 1, 1, 2, 2])
    assert scores["pi_intra"] == scores["pi_inter"] == 0
    assert np.isnan(scores["pi_ratio"])


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function", [histograms.pair_histograms, histograms.jsd, histograms.mean_inner_products, density.density_scores]
)
def test_bad_input(function):
    with pytest.raises(UsageError, match="two classes"):
        function(np.ones((3, 2)), [1, 1, 1])
    with pytest.raises(UsageError, match="two images"):
        function(np.ones((3, 2)), [1, 2, 3])
    with pytest.raises(UsageError, match="shape"):
        function(np.ones((3, 2)), [1, 2])
    with pytest.raises(DivergedError):
        function(np.full((3, 2), np.nan), [1, 1, 2])


def test_bad_bins_and_spectrum():
    with pytest.raises(UsageError, match="bins"):
        histograms.pair_histograms(np.ones((3, 2)), [1, 1, 2], bins=0)
    with pytest.raises(DivergedError):
        spectrum.rho(np.full((3, 2), np.inf))
