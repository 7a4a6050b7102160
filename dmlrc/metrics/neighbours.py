"""Exact search: squared Euclidean distances in blocks, and the smallest of each row.

|q - x|^2 = |q|^2 + |x|^2 - 2 q.x costs one matrix product. Its rounding error depends on how the product was cut into
blocks, so equal vectors need not get equal distances, and in float32 it exceeds the gap between many neighbours.
`rounding_error` bounds it; whoever ranks by these distances asks for float64 where a gap is smaller (see retrieval.py).

Two exact searches give the same neighbours but for rounding: the product and the smallest of each row, here, and
faiss's, which never holds a row of distances, where it is installed. Measured on one core of an Intel Xeon (AVX-512)
with 128 dimensions, faiss takes 0.8 of the time for 4,000 images and 9 neighbours, 0.5 for 60,000, but 1.5 times as
long for 4,000 and 64, and twice as long for 8,000 and 1,000. They cross where there are about 150 references for each
neighbour. Which is faster on a GPU was not measured: faiss serves there too, by the same rule. (On an NVIDIA H200 the
product alone ranks the test half of SOP, 60,502 images, in 0.2 s; there was no faiss for a GPU beside it.)
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

BLOCK_ELEMENTS = 2**23
"""Distances held at once on a CPU: 32 MB in float32."""
GPU_BLOCK_ELEMENTS = 2**26
"""And on a GPU, where a block costs a hundred launches: 256 MB. On an NVIDIA H200 the test half of SOP takes a quarter
of the time that the CPU's blocks take, and 0.6 GB. Twice as large blocks halve the time once more and double that."""
FEWEST_HEAPS = 128
FAISS_FROM = 150
"""faiss searches where there are so many references for each neighbour that is looked for,"""
FEWEST_NEIGHBOURS = 32
"""counted as at least so many: importing faiss for a few thousand images takes longer than it saves."""
MANY = 50_000
"""From so many references on faiss is never slower."""
FAISS_COORDINATES = 2**17
"""With fewer coordinates of queries in a call (128,000) faiss 1.15 does without matrix products: ten times slower."""
FAISS_MOST = 2048
"""faiss finds no more neighbours than this on a GPU."""


def blocks(rows: int, columns: int, device: torch.device) -> Iterator[slice]:
    """Cut the rows so that a block of a (rows, columns) matrix has about as many elements as the device works on."""
    step = max(1, (BLOCK_ELEMENTS if device.type == "cpu" else GPU_BLOCK_ELEMENTS) // columns)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def squared_norms(vectors: Tensor) -> Tensor:
    """Squared lengths: (N, D) -> (N,)"""
    return (vectors * vectors).sum(dim=1)


def inner_products(queries: Tensor, references: Tensor) -> Tensor:
    """Inner products of (B, D) and (N, D) -> (B, N), in full precision where TF32 or autocast is switched on too.

    float32 on one thread of the CPU goes through numpy: its OpenBLAS takes 0.6 of the time of torch's MKL on an AMD
    EPYC. On several its threads and those of torch's other operations are in each other's way: five times slower.
    """
    if queries.device.type == "cpu" and queries.dtype == torch.float32 and torch.get_num_threads() == 1:
        return torch.from_numpy(queries.numpy() @ references.numpy().T)
    settings = torch.backends.cuda.matmul
    before = settings.fp32_precision
    settings.fp32_precision = "ieee"
    try:
        with torch.autocast(queries.device.type, enabled=False):
            return queries @ references.T
    finally:
        settings.fp32_precision = before


def squared_euclidean(queries: Tensor, references: Tensor, reference_norms: Tensor) -> Tensor:
    """Distances of (B, D) and (N, D), squared norms (N,) -> (B, N); rounding may leave one a little below zero."""
    distances = inner_products(-2 * queries, references)
    return distances.add_(reference_norms).add_(squared_norms(queries)[:, None])


def rounding_error(distances: Tensor, query_norms: Tensor, dim: int) -> Tensor:
    """Bound what rounding may change of differences of squared distances (B, K); query_norms: (B,), squared.

    The terms are of the size |q|^2 + |x|^2 <= 3 |q|^2 + 2 d^2, the errors of `dim` summands add up like a random walk.
    Twice the largest error of one distance seen, with 2 to 2,048 dimensions, normalised and not, clustered and not.
    """
    limits = torch.finfo(distances.dtype)
    scale = 2 * query_norms[:, None] + distances.clamp(min=0)
    return 2 * limits.eps * (dim + 16) ** 0.5 * scale + limits.tiny


Nearest = Iterator[tuple[Tensor, Tensor, Tensor]]


def nearest(queries: Tensor, references: Tensor, k: int, own: Tensor | None) -> Nearest:
    """Yield (rows (B,), squared distances (B, k), columns (B, k)), ascending, until every query had its turn.

    queries: (Q, D), references: (N, D), float32; own: (Q,) the column of each query among the references, which is
    left out (or infinitely far), or None. Exact but for rounding, see `rounding_error`.
    """
    least = min(FAISS_FROM * max(k, FEWEST_NEIGHBOURS), MANY)
    batch = FAISS_COORDINATES // queries.shape[1] + 1
    if len(references) >= least and len(queries) >= batch and k < FAISS_MOST and k * batch <= BLOCK_ELEMENTS:
        knn = _faiss_knn(queries.device)
        if knn is not None:
            return _nearest_by_faiss(knn, queries, references, k, own, batch)
    return _nearest_by_product(queries, references, k, own)


def _nearest_by_product(queries: Tensor, references: Tensor, k: int, own: Tensor | None) -> Nearest:
    # |q|^2 is the same for a whole row, and |x|^2 comes with the product, as one more coordinate
    points = torch.cat([references, squared_norms(references)[:, None]], dim=1)  # (N, D + 1)
    for block in blocks(len(queries), len(references), queries.device):
        rows = torch.arange(block.start, block.stop, device=queries.device)
        batch = queries[block]
        above = inner_products(torch.cat([-2 * batch, batch.new_ones(len(batch), 1)], dim=1), points)  # (B, N)
        near, columns = smallest(exclude(above, own, rows), k)
        yield rows, near + squared_norms(batch)[:, None], columns


def _nearest_by_faiss(
    knn: Callable, queries: Tensor, references: Tensor, k: int, own: Tensor | None, batch: int
) -> Nearest:
    """batch: the fewest queries of one call."""
    points = references.cpu().numpy()
    for rows in torch.arange(len(queries), device=queries.device).tensor_split(len(queries) // batch):
        nearest = knn(queries[rows].cpu().numpy(), points, k if own is None else k + 1)
        near, columns = (torch.from_numpy(array).to(queries.device) for array in nearest)
        if own is not None:
            itself = columns == own[rows, None]
            itself[:, -1] |= ~itself.any(dim=1)  # more than k duplicates may hide it
            near, columns = near[~itself].view(-1, k), columns[~itself].view(-1, k)
        yield rows, near, columns


def _faiss_knn(device: torch.device) -> Callable | None:
    """faiss's exact search on this device: arrays (Q, D), (N, D), k -> (Q, k) twice. None where there is no faiss."""
    try:
        import faiss
    except ImportError:
        return None
    if device.type == "cpu":
        return faiss.knn
    if device.type == "cuda" and hasattr(faiss, "knn_gpu"):
        return partial(faiss.knn_gpu, faiss.StandardGpuResources(), device=device.index)
    return None


def exclude(distances: Tensor, own: Tensor | None, rows: Tensor) -> Tensor:
    """Put each query infinitely far from itself. distances: (B, N), rows: (B,) the queries of this block."""
    if own is not None:
        distances[torch.arange(len(rows), device=rows.device), own[rows]] = torch.inf
    return distances


def smallest(distances: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Find the k smallest of each row of (B, N) in ascending order and their columns, both (B, k).

    On the CPU a row is dealt into 3 k heaps: k of their minima, and so k distances of the row, are no larger than the
    k-th smallest minimum. Of N random distances 1.2 k are, and only these are sorted: a fifth to a third of the time of
    numpy's partial sort on an AMD EPYC. Rows shorter than 12 k and many equal distances are left to the partial sort.
    """
    if distances.device.type != "cpu":
        return distances.topk(k, largest=False)
    values = distances.numpy()
    heaps, (count, width) = max(3 * k, FEWEST_HEAPS), values.shape
    if width < 4 * heaps:
        return _partial_sort(values, k)
    minima = distances[:, : width - width % heaps].view(count, -1, heaps).amin(dim=1).numpy()
    limits = np.partition(minima, k - 1, axis=1)[:, k - 1 : k]  # (B, 1)
    places = np.flatnonzero(values <= limits)
    rows = places // width
    counts = np.bincount(rows, minlength=count)
    if counts.max() > heaps:
        return _partial_sort(values, k)
    filled = np.arange(counts.max()) < counts[:, None]
    columns, near = np.zeros(filled.shape, np.int64), np.full(filled.shape, np.inf, values.dtype)
    columns[filled], near[filled] = places - rows * width, values.ravel()[places]
    return _sorted(near, columns, k)


def _partial_sort(values: np.ndarray, k: int) -> tuple[Tensor, Tensor]:
    columns = np.argpartition(values, k - 1, axis=1)[:, :k]
    return _sorted(np.take_along_axis(values, columns, axis=1), columns, k)


def _sorted(values: np.ndarray, columns: np.ndarray, k: int) -> tuple[Tensor, Tensor]:
    """The k smallest values of each row, ascending, and their columns; all (B, at least k) -> (B, k)"""
    order = np.argsort(values, axis=1)[:, :k]
    return (
        torch.from_numpy(np.take_along_axis(values, order, axis=1)),
        torch.from_numpy(np.take_along_axis(columns, order, axis=1)),
    )
