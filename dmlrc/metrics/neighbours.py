"""Exact search: squared Euclidean distances in blocks, and the smallest of each row.

|q - x|^2 = |q|^2 + |x|^2 - 2 q.x costs one matrix product. Its rounding error depends on how the product was cut into
blocks, so equal vectors need not get equal distances, and in float32 it exceeds the gap between many neighbours.
`rounding_error` bounds it; whoever ranks by these distances asks for float64 where a gap is smaller (see retrieval.py).

faiss's flat index, as exact, was measured beside this on one core of an AMD EPYC. Here 2,000 x 2,000 distances in 128
dimensions take 0.6 of its time, 8,131 x 8,131 the same, 1,024 x 60,502 in 512 dimensions 1.35 times as long. It does
not say which distances are tied at the last place, so it is not used.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

BLOCK_ELEMENTS = 2**23
"""Distances held at once: 32 MB in float32."""


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Cut the rows so that one block of a (rows, columns) matrix has about BLOCK_ELEMENTS elements."""
    step = max(1, BLOCK_ELEMENTS // columns)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def squared_norms(vectors: Tensor) -> Tensor:
    """(N, D) -> (N,)"""
    return (vectors * vectors).sum(dim=1)


def inner_products(queries: Tensor, references: Tensor) -> Tensor:
    """(B, D), (N, D) -> (B, N), in full precision where TF32 or autocast is switched on too.

    float32 on the CPU goes through numpy: its OpenBLAS takes 0.6 of the time of torch's MKL on an AMD EPYC.
    """
    if queries.device.type == "cpu" and queries.dtype == torch.float32:
        return torch.from_numpy(queries.numpy() @ references.numpy().T)
    settings = torch.backends.cuda.matmul
    before = settings.fp32_precision
    settings.fp32_precision = "ieee"
    try:
        with torch.autocast(queries.device.type, enabled=False):
            return queries @ references.T
    finally:
        settings.fp32_precision = before


def squared_distances(queries: Tensor, references: Tensor, reference_norms: Tensor) -> Tensor:
    """(B, D), (N, D), squared norms (N,) -> (B, N); rounding may leave a distance a little below zero."""
    distances = inner_products(-2 * queries, references)
    return distances.add_(reference_norms).add_(squared_norms(queries)[:, None])


def rounding_error(distances: Tensor, query_norms: Tensor, dim: int) -> Tensor:
    """By how much rounding may change the differences of these squared distances (B, K); query_norms: (B,), squared.

    The terms are of the size |q|^2 + |x|^2 <= 3 |q|^2 + 2 d^2, the errors of `dim` summands add up like a random walk.
    Twice the largest error of one distance seen, with 2 to 2,048 dimensions, normalised and not, clustered and not.
    """
    limits = torch.finfo(distances.dtype)
    scale = 2 * query_norms[:, None] + distances.clamp(min=0)
    return 2 * limits.eps * (dim + 16) ** 0.5 * scale + limits.tiny


def smallest(distances: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(B, N) -> the k smallest of each row in ascending order and their columns, both (B, k).

    On the CPU through numpy, whose partial sort takes a quarter of the time of torch.topk.
    """
    if distances.device.type != "cpu":
        return distances.topk(k, largest=False)
    values = distances.numpy()
    columns = np.argpartition(values, k - 1, axis=1)[:, :k]
    values = np.take_along_axis(values, columns, axis=1)
    order = np.argsort(values, axis=1)
    return (
        torch.from_numpy(np.take_along_axis(values, order, axis=1)),
        torch.from_numpy(np.take_along_axis(columns, order, axis=1)),
    )
