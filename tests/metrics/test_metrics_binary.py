"""Binary embeddings: scores against loops over the bits that differ, and against faiss."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_metrics_retrieval import oracle

from dmlrc import metrics
from dmlrc.errors import UsageError
from dmlrc.metrics.retrieval import NAMES


def embedding(seed, n=60, dim=13):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dim)).astype(np.float32), rng.integers(6, size=n)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3]), st.booleans())
def test_scores_equal_loops_over_the_bits_that_differ(seed, dim, separate):
    embeddings, labels = embedding(seed, n=9, dim=dim)
    labels[:4] = [0, 0, 1, 1]
    embeddings[0, 0] = 0.0
    queries, query_labels = embedding(seed + 1, n=5, dim=dim)
    query_labels[0] = 0
    expected = [(queries > 0).tolist(), query_labels] if separate else []
    ours = metrics.evaluate_binary(embeddings, labels, NAMES, (queries, query_labels) if separate else None)
    assert ours == pytest.approx(oracle(NAMES, (embeddings > 0).tolist(), labels, *expected), abs=1e-12)


def test_neighbours_equal_faiss():
    faiss = pytest.importorskip("faiss")
    embeddings, labels = embedding(0, n=200, dim=256)
    codes = np.packbits(embeddings > 0, axis=1)
    index = faiss.IndexBinaryFlat(256)
    index.add(codes)
    theirs, columns = index.search(codes, 200)
    scores = []
    for i, (distances, found) in enumerate(zip(theirs, columns, strict=True)):
        right = labels[found] == labels[i]
        tied = (distances == distances[found != i].min()) & (found != i)
        scores.append(right[tied].mean())
    assert metrics.evaluate_binary(embeddings, labels, ["precision_at_1"])["precision_at_1"] == pytest.approx(
        np.mean(scores), abs=1e-12
    )


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
