"""The singular values of an embedding, and how unevenly they decay (Roth et al. 2020, section 5)."""

import numpy as np
import torch

from dmlrc.metrics.inputs import as_embeddings

RESOLUTION = float(np.finfo(np.float32).eps)
"""Directions whose singular value is below this share of the largest are noise in float32."""


def spectrum(embeddings) -> np.ndarray:
    """Compute of (N, D) the min(N, D) singular values, descending, float64. The embeddings are not centred.

    As square roots of the eigenvalues of the smaller Gram matrix, in float64: exact to 1e-8 of the largest.

    >>> spectrum([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]).tolist()
    [4.0, 3.0]
    """
    embeddings = as_embeddings(embeddings).double()
    gram = embeddings.T @ embeddings if len(embeddings) > embeddings.shape[1] else embeddings @ embeddings.T
    return torch.linalg.eigvalsh(gram).clamp(min=0).sqrt().flip(0).cpu().numpy()


def spectral_decay(singular_values) -> float:
    """Compute KL(U || S) in nats: S the singular values divided by their sum, U uniform over as many.

    0: all alike; the larger, the fewer directions are used. One zero makes it infinite. (K,) -> number.

    >>> spectral_decay([2.0, 2.0, 2.0])
    0.0
    >>> round(spectral_decay([3.0, 1.0]), 4)  # (log(1/2 / (3/4)) + log(1/2 / (1/4))) / 2
    0.1438
    """
    values = np.asarray(singular_values, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.log(values.mean() / values).mean())


def rho(embeddings) -> float:
    """Compute the spectral decay of embeddings (N, D) without their largest singular value, which hides the others.

    Roth et al. compute it on the training set; lower means more directions of variance. It needs no labels and says
    nothing about their separation. The number of values kept changes it: here min(N, D) - 1, all but the largest;
    for other choices pass a part of `spectrum` to `spectral_decay`. A value below RESOLUTION times the largest counts
    as that much, so that an unused dimension gives a large but finite and repeatable rho; where all are (a collapsed
    embedding) rho is infinite, and with one dimension it is NaN.

    >>> rho([[3.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
    0.0
    """
    values = spectrum(embeddings)
    floor, kept = RESOLUTION * values[0], values[1:]
    if not len(kept):
        return float("nan")
    if kept[0] <= floor:
        return float("inf")
    return spectral_decay(np.maximum(kept, floor))
