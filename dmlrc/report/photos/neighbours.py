"""Search results for a photo: the nearest other photos of the test classes, and the nearest ones that are wrong."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch

from dmlrc.metrics import neighbours as exact

SHOWN = 6
"""Neighbours of a query."""
QUERIES = 8
"""Queries of a kind."""


@dataclass(frozen=True)
class Found:
    """The neighbours of all test photos.

    images: (N,) positions in the data set. labels: (N,) classes. nearest: (N, K) places among the N, the nearest first,
    the photo itself left out. similarities: (N, K) their cosines.
    """

    images: np.ndarray
    labels: np.ndarray
    nearest: np.ndarray
    similarities: np.ndarray


def nearest_photos(images: np.ndarray, labels: np.ndarray, embeddings: torch.Tensor, k: int = SHOWN) -> Found:
    """The k nearest of every test photo. images, labels: (N,). embeddings: (N, D) float32, L2-normalised."""
    k = min(k, len(labels) - 1)
    own = torch.arange(len(labels), device=embeddings.device)
    blocks = list(exact.nearest(embeddings, embeddings, k, own))
    rows, distances, columns = (torch.cat(column).cpu().numpy() for column in zip(*blocks, strict=True))
    order = np.argsort(rows)
    return Found(images, labels, columns[order], 1 - distances[order] / 2)  # |x - y|^2 = 2 - 2 cos


def examples(results: Found, seed: int = 0) -> np.ndarray:
    """Queries drawn at random, of different classes as long as there are some: places among the N."""
    order = np.random.default_rng(seed).permutation(len(results.labels))
    _, first = np.unique(results.labels[order], return_index=True)
    return order[np.sort(first)][:QUERIES]


def wrong(results: Found) -> np.ndarray:
    """The queries whose nearest photo is of another class, the most similar first, one for each pair of classes."""
    first, wrong, pairs = results.nearest[:, 0], _mistaken(results), {}
    for query in wrong[np.argsort(-results.similarities[wrong, 0], kind="stable")]:
        pairs.setdefault(tuple(sorted((results.labels[query], results.labels[first[query]]))), query)
    return np.array(list(pairs.values())[:QUERIES], dtype=int)


def _mistaken(results: Found) -> np.ndarray:
    """The queries whose nearest photo is of another class, where their own class has another photo."""
    another = np.bincount(results.labels)[results.labels] > 1
    return np.flatnonzero((results.labels[results.nearest[:, 0]] != results.labels) & another)


def confused(results: Found) -> list[tuple[int, int, int]]:
    """The five most frequent confusions: the class of a photo, that of its nearest photo, and the number of photos."""
    mistaken = _mistaken(results)
    pairs = np.stack([results.labels, results.labels[results.nearest[:, 0]]], axis=1)[mistaken]
    counts = Counter(map(tuple, pairs.tolist()))
    return [(own, other, count) for (own, other), count in counts.most_common(5)]
