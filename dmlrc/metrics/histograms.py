"""Inner products of all positive and all negative pairs: their histograms, the distance of these, their means.

Oi et al. 2021, sections 2 and 3. A pair is unordered, of two different images; positive if they share their class.
"""

import numbers
from collections.abc import Iterator

import numpy as np
import torch

from dmlrc.errors import UsageError
from dmlrc.metrics.inputs import as_pairs
from dmlrc.metrics.neighbours import inner_products, squared_norms

BINS = 100
"""Width 0.02 on [-1, 1]. The paper does not state its number of bins."""
SIDE = 1024
"""Rows and columns of a tile of the matrix of products: few enough places to stay in the processor's cache."""
GPU_SIDE = 2048
"""As many as stay in the second cache of a GPU: larger and smaller ones take longer on an NVIDIA H200."""
BYTE_BINS = 126
"""Up to so many bins, a place among them, and the number after the last that stands for none, are below 128."""


def pair_histograms(embeddings, labels, bins: int = BINS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count the inner products of the positive and of the negative pairs, in blocks of bounded memory.

    The bins are of equal width, on [-1, 1] for L2-normalised embeddings. Otherwise on [-m, m], m the largest squared
    norm, which holds every inner product, so that scaling the embeddings does not change the counts.

    embeddings: (N, D), labels: (N,) integers -> edges (bins + 1,) float64, positive and negative counts (bins,) int64.

    >>> edges, positive, negative = pair_histograms([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], [0, 0, 1], bins=4)
    >>> edges.tolist(), positive.tolist(), negative.tolist()
    ([-1.0, -0.5, 0.0, 0.5, 1.0], [0, 0, 0, 1], [2, 0, 0, 0])
    """
    if not isinstance(bins, numbers.Integral) or bins < 1:
        raise UsageError(f"the number of bins must be a whole number, 1 or more, not {bins!r}")
    embeddings, labels = as_pairs(embeddings, labels)
    bound = _bound(embeddings)
    order = labels.argsort()  # classes in one piece: most tiles hold negative pairs only
    embeddings, labels = embeddings[order], labels[order]
    ends = torch.searchsorted(labels, labels, right=True).tolist()  # (N,), where the class of each row ends
    # the product with one more coordinate is the place of x.y among the bins, from 0 to `bins`
    left = torch.nn.functional.pad(embeddings * (bins / (2 * bound)), (0, 1), value=bins / 2)  # (N, D + 1)
    right = torch.nn.functional.pad(embeddings, (0, 1), value=1.0)
    everything, positive = torch.zeros(2, bins + 1, dtype=torch.int64, device=labels.device)
    for rows, columns in tiles(len(labels), labels.device):
        place = inner_products(left[rows], right[columns]).clamp_(0, bins)
        place = place.to(torch.uint8 if bins <= BYTE_BINS else torch.int32)
        if rows == columns:  # each pair once
            place.masked_fill_(torch.ones_like(place, dtype=torch.bool).tril_(), bins + 1)
        everything += _count(place, bins)
        if columns.start < ends[rows.stop - 1]:
            positive += _count(place.masked_fill_(labels[rows, None] != labels[columns], bins + 1), bins)
    everything, positive = (torch.cat([c[:-2], c[-2:].sum(0, keepdim=True)]) for c in (everything, positive))
    return np.linspace(-bound, bound, bins + 1), positive.cpu().numpy(), (everything - positive).cpu().numpy()


def tiles(count: int, device: torch.device) -> Iterator[tuple[slice, slice]]:
    """Squares of rows and columns that cover each unordered pair of `count` rows, those on the diagonal twice."""
    side = SIDE if device.type == "cpu" else GPU_SIDE
    parts = [slice(start, min(start + side, count)) for start in range(0, count, side)]
    return ((rows, columns) for i, rows in enumerate(parts) for columns in parts[i:])


def _count(place: torch.Tensor, bins: int) -> torch.Tensor:
    """Whole numbers from 0 to bins + 1, of any shape -> (bins + 1,) how often 0, ..., bins occur.

    Bytes are counted two at a time on a CPU, as numbers below 2^15: a tenth of the time of counting 64-bit integers. On
    a GPU, where few bins stay near its cores, that takes twice as long as one at a time.
    """
    place = place.flatten()
    if place.dtype != torch.uint8 or place.device.type != "cpu":
        return torch.bincount(place, minlength=bins + 2)[: bins + 1]
    place = torch.nn.functional.pad(place, (0, len(place) % 2), value=bins + 1)
    twos = torch.bincount(place.view(torch.int16), minlength=2**15).view(128, 256)[:, :128]
    return (twos.sum(dim=0) + twos.sum(dim=1))[: bins + 1]


def jensen_shannon_divergence(positive_counts, negative_counts) -> float:
    """Compute the divergence of two histograms over the same bins, each divided by its area; in bits, from 0 to 1.

    JSD(P || Q) = (KL(P || M) + KL(Q || M)) / 2 with M = (P + Q) / 2 and the logarithm to base 2. Not its square root,
    which scipy calls the Jensen-Shannon distance.

    >>> jensen_shannon_divergence([0, 4], [9, 0]), jensen_shannon_divergence([1, 3], [10, 30])
    (1.0, 0.0)
    """
    p, q = (np.asarray(counts, np.float64) for counts in (positive_counts, negative_counts))
    p, q = p / p.sum(), q / q.sum()
    middle = (p + q) / 2
    divergence = sum(np.sum(x[x > 0] * np.log2(x[x > 0] / middle[x > 0])) for x in (p, q)) / 2
    return float(np.clip(divergence, 0.0, 1.0))  # rounding can take it a little further


def jsd(embeddings, labels, bins: int = BINS) -> float:
    """Compute the Jensen-Shannon divergence between the inner products of positive and of negative pairs.

    0: alike; 1: no bin holds pairs of both kinds, which need not lie on two sides of one threshold. It looks at all
    pairs, not at neighbours. It grows with the number of bins where a bin holds few pairs.

    >>> jsd([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0, 0, 1])
    1.0
    """
    _, positive, negative = pair_histograms(embeddings, labels, bins)
    return jensen_shannon_divergence(positive, negative)


def mean_inner_products(embeddings, labels) -> dict[str, float]:
    """Compute mean_positive and mean_negative: the means of x.y over all positive and over all negative pairs.

    embeddings: (N, D), labels: (N,). Exact and without looking at pairs: over the ordered pairs of a set,
    sum x.y = |sum x|^2 - sum |x|^2.

    >>> mean_inner_products([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0, 0, 1])
    {'mean_positive': 1.0, 'mean_negative': 0.0}
    """
    embeddings, labels = as_pairs(embeddings, labels)
    embeddings = embeddings.double()
    _, classes, sizes = labels.unique(return_inverse=True, return_counts=True)
    sums = embeddings.new_zeros(len(sizes), embeddings.shape[1]).index_add_(0, classes, embeddings)  # (C, D)
    itself, within, everywhere = squared_norms(embeddings).sum(), squared_norms(sums).sum(), sums.sum(0).square().sum()
    positive_pairs = (sizes * (sizes - 1)).sum()
    negative_pairs = len(labels) * (len(labels) - 1) - positive_pairs
    return {
        "mean_positive": float((within - itself) / positive_pairs),
        "mean_negative": float((everywhere - within) / negative_pairs),
    }


def _bound(embeddings: torch.Tensor) -> float:
    largest = float(squared_norms(embeddings).max())
    if abs(largest - 1) < 1e-4:  # normalised, but for rounding
        return 1.0
    return largest or 1.0
