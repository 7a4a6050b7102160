"""k-means metrics against scikit-learn, loops over pairs, and the chance level of Musgrave et al., Eq. 7."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dmlrc.errors import DivergedError, UsageError
from dmlrc.metrics.clustering import clustering_scores, find_clusters, pairwise_f1

assignments = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=12)


def blobs(n=120, classes=6, spread=0.1, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    return (rng.normal(size=(classes, 8))[labels] + spread * rng.normal(size=(n, 8))).astype(np.float32), labels


@settings(max_examples=40)
@given(assignments)
def test_f1_equals_the_loop_over_pairs(assignments):
    labels, found = np.array(assignments).T
    together = [(labels[i] == labels[j], found[i] == found[j]) for i, j in combinations(range(len(labels)), 2)]
    right = sum(a and b for a, b in together)
    class_pairs, cluster_pairs = sum(a for a, _ in together), sum(b for _, b in together)
    assume(class_pairs + cluster_pairs)
    assert pairwise_f1(labels, found) == pytest.approx(2 * right / (class_pairs + cluster_pairs))


def test_f1_of_no_pairs_at_all_is_no_number():
    assert np.isnan(pairwise_f1(np.arange(3), np.arange(3)))


def test_scores_of_separate_blobs_and_of_their_mixture():
    """Whatever clusters are found, nmi and f1 are those of scikit-learn's other functions for them."""
    from sklearn.metrics import homogeneity_completeness_v_measure
    from sklearn.metrics.cluster import pair_confusion_matrix

    for spread in (0.1, 2.0):
        embeddings, labels = blobs(spread=spread)
        found = find_clusters(embeddings, k=6, seed=3)
        scores = clustering_scores(embeddings, labels, seed=3)
        assert scores["nmi"] == pytest.approx(homogeneity_completeness_v_measure(labels, found)[2])
        (_, wrong), (missed, right) = pair_confusion_matrix(labels, found)
        assert scores["f1"] == pytest.approx(2 * right / (2 * right + wrong + missed))


def test_perfect_clusters_score_one():
    labels = np.repeat([0, 1], [3, 7])
    scores = clustering_scores(100.0 * np.eye(2)[labels], labels)
    assert scores == pytest.approx({"nmi": 1.0, "f1": 1.0})


def test_no_nmi_is_above_one():
    """scikit-learn's is, by a rounding, for these eight classes, each a cluster."""
    from sklearn.metrics import normalized_mutual_info_score

    labels = np.random.default_rng(4).integers(0, 8, 40)
    assert normalized_mutual_info_score(labels, labels) > 1
    found = [clustering_scores(100.0 * np.eye(8)[labels], labels, seed=seed)["nmi"] for seed in range(60)]
    assert max(found) == 1.0


@pytest.mark.parametrize(("classes", "images"), [(1000, 4), (500, 8), (200, 20)])
def test_nmi_of_random_embeddings_is_the_chance_level(classes, images):
    """1 - log S / log C (Eq. 7) supposes clusters of S images each. Those of k-means vary in size, which moves the
    score by 0.01 (seen with 200 to 5,000 classes). An adjusted score would be 0."""
    rng = np.random.default_rng(0)
    embeddings = rng.normal(size=(classes * images, 64))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    labels = rng.permutation(np.arange(classes * images) % classes)
    scores = clustering_scores(embeddings, labels)
    assert scores["nmi"] == pytest.approx(1 - np.log(images) / np.log(classes), abs=0.02)
    assert scores["f1"] < 0.02


def test_the_seed_decides():
    embeddings, labels = blobs(spread=1.5)
    assert clustering_scores(embeddings, labels, seed=1) == clustering_scores(
        torch.from_numpy(embeddings), labels, seed=1
    )
    assert len({clustering_scores(embeddings, labels, seed=seed)["nmi"] for seed in range(5)}) > 1


@pytest.mark.filterwarnings("error")
def test_a_collapsed_embedding_is_one_cluster():
    """All found together: f1 is that of a single cluster, nmi 0."""
    scores = clustering_scores(np.ones((8, 3)), np.repeat([0, 1], 4))
    assert scores == pytest.approx({"nmi": 0.0, "f1": 2 * 12 / (12 + 28)})


def test_bad_input():
    with pytest.raises(UsageError, match="two classes"):
        clustering_scores(np.ones((3, 2)), [1, 1, 1])
    with pytest.raises(UsageError, match="two images"):
        clustering_scores(np.ones((3, 2)), [1, 2, 3])
    with pytest.raises(DivergedError):
        clustering_scores(np.full((3, 2), np.nan), [1, 1, 2])
