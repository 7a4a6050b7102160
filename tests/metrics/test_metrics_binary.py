"""Binary embeddings: distances against counting bits, scores against the Euclidean ones."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlrc import metrics
from dmlrc.errors import UsageError
from dmlrc.metrics.binary import _distances, _signs
from dmlrc.metrics.retrieval import NAMES


def embedding(seed, n=60, dim=13):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dim)).astype(np.float32), rng.integers(6, size=n)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([1, 7, 8, 9, 64, 300]))
def test_distances_count_the_bits_that_differ(seed, dim):
    embeddings, _ = embedding(seed, n=12, dim=dim)
    embeddings[0, 0] = 0.0
    different = ((embeddings > 0)[:, None] != (embeddings > 0)).sum(axis=2)
    np.testing.assert_array_equal(hamming_distances(embeddings), different)


def hamming_distances(embeddings):
    signs = _signs(torch.from_numpy(embeddings))
    return _distances(signs, signs)


def test_distances_equal_faiss():
    faiss = pytest.importorskip("faiss")
    embeddings, _ = embedding(0, n=200, dim=256)
    codes = np.packbits(embeddings > 0, axis=1)
    index = faiss.IndexBinaryFlat(256)
    index.add(codes)
    theirs, _ = index.search(codes, 20)
    ours = hamming_distances(embeddings).sort(dim=1).values[:, :20]
    np.testing.assert_array_equal(ours, theirs)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([3, 13, 200]), st.booleans())
def test_scores_equal_the_euclidean_scores_of_the_signs(seed, dim, separate):
    """|s - t|^2 is 4 times the Hamming distance, ties included, which `evaluate` finds in another way."""
    embeddings, labels = embedding(seed, dim=dim)
    signs = np.where(embeddings > 0, 1.0, -1.0)
    query = (embeddings[:9] + 0.5, labels[:9]) if separate else None
    sign_query = (np.where(query[0] > 0, 1.0, -1.0), query[1]) if separate else None
    ours = metrics.evaluate_binary(embeddings, labels, NAMES, query)
    assert ours == pytest.approx(metrics.evaluate(signs, labels, NAMES, sign_query), abs=1e-12)


def test_row_order_does_not_matter():
    embeddings, labels = embedding(1, n=300, dim=4)
    order = np.random.default_rng(0).permutation(300)
    before = metrics.evaluate_binary(embeddings, labels)
    assert metrics.evaluate_binary(embeddings[order], labels[order]) == pytest.approx(before, abs=1e-13)


def test_a_collapsed_embedding_scores_chance():
    labels = np.repeat(np.arange(4), 5)
    scores = metrics.evaluate_binary(np.random.default_rng(0).random((20, 8)), labels)
    assert scores["precision_at_1"] == pytest.approx(4 / 19)


def test_errors_are_those_of_retrieval():
    embeddings, labels = embedding(0)
    with pytest.raises(UsageError, match="dimensional"):
        metrics.evaluate_binary(embeddings, labels, NAMES, (embeddings[:, :12], labels))
    with pytest.raises(UsageError, match="nmi"):
        metrics.evaluate_binary(embeddings, labels, ("nmi",))


@pytest.mark.gpu
def test_cuda_equals_cpu():
    embeddings, labels = embedding(0, n=500, dim=130)
    ours = metrics.evaluate_binary(torch.from_numpy(embeddings).cuda(), labels)
    assert ours == pytest.approx(metrics.evaluate_binary(embeddings, labels), abs=1e-12)
