"""Clustering metrics: how well k-means finds the classes again, with k = the number of classes.

scikit-learn is imported where it is used: that takes seconds, which a run without these metrics need not spend.
"""

import numbers
import warnings

import numpy as np

from dmlrc.errors import UsageError
from dmlrc.metrics.inputs import as_embeddings, as_pairs

NAMES = ("nmi", "f1")
ITERATIONS = 20
"""faiss's k-means, behind the numbers of the Reality Check and of Roth et al., also starts once, from random points,
and stops after about as many."""


def find_clusters(embeddings, k: int, seed: int = 0) -> np.ndarray:
    """Run k-means: embeddings (N, D) -> the cluster of each row (N,), in 0..k-1.

    scikit-learn's Lloyd iterations from k random rows, one start, on the CPU wherever the embeddings are. The outcome
    depends on the seed and, through it, on the order of the rows. Raises UsageError for a seed that is none.
    """
    if not isinstance(seed, numbers.Integral) or not 0 <= seed < 2**32:
        raise UsageError(f"the seed of k-means is {seed!r}: give a whole number from 0 to 2**32 - 1")
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    kmeans = KMeans(k, init="random", n_init=1, max_iter=ITERATIONS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters: a collapse
        return kmeans.fit_predict(as_embeddings(embeddings).cpu().numpy())


def pairwise_f1(labels: np.ndarray, clusters: np.ndarray) -> float:
    """Compute the F1 score of "these two images are in one cluster" as a prediction of "they are of one class".

    labels: (N,) classes, clusters: (N,). Over all N (N - 1) / 2 pairs, counted from the contingency table. NaN
    where no two images share a class or a cluster.

    >>> round(pairwise_f1(np.array([0, 0, 0, 1]), np.array([5, 5, 6, 6])), 4)  # 1 pair right of 2, of 3 to find
    0.4
    """
    from sklearn.metrics.cluster import pair_confusion_matrix

    (_, clustered), (missed, right) = pair_confusion_matrix(labels, clusters).tolist()  # of ordered pairs
    together = 2 * right + clustered + missed
    return 2 * right / together if together else float("nan")


def clustering_scores(embeddings, labels, seed: int = 0) -> dict[str, float]:
    """Score one k-means clustering, k = the number of classes, by nmi and f1. embeddings: (N, D), labels: (N,).

    - nmi: 2 I(X; Y) / (H(X) + H(Y)), X the classes, Y the clusters (Musgrave et al. 2020, Eq. 7). It is not adjusted
      for chance: random embeddings of C classes with S images each score about 1 - log S / log C, 0.849 for 10,000
      classes of 4, so it says little where classes are small.
    - f1: `pairwise_f1`.

    >>> scores = clustering_scores([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1])
    >>> [round(scores[name], 6) for name in ("nmi", "f1")]
    [1.0, 1.0]
    """
    from sklearn.metrics import normalized_mutual_info_score

    embeddings, labels = as_pairs(embeddings, labels)
    labels = labels.cpu().numpy()
    clusters = find_clusters(embeddings, k=len(np.unique(labels)), seed=seed)
    nmi = normalized_mutual_info_score(labels, clusters, average_method="arithmetic")
    return {"nmi": min(1.0, float(nmi)), "f1": pairwise_f1(labels, clusters)}  # rounding can take a perfect one above 1
