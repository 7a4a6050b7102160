"""Parts that several losses share: pair masks, distances, and the reductions of the field."""

import functools

import torch
import torch.nn.functional as F
from torch import Tensor


def pair_masks(labels: Tensor) -> tuple[Tensor, Tensor]:
    """The positive and the negative pairs of a batch, both (B, B) bool; a sample is not its own positive."""
    same = labels.unsqueeze(1) == labels  # (B, B)
    negative = ~same
    return same.fill_diagonal_(False), negative


def unordered_pair_masks(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Make `pair_masks` with every pair once, in the order of `torch.pdist`: both (B (B - 1) / 2,) bool."""
    above_diagonal, _ = _places(len(labels), labels.device)
    same = (labels.unsqueeze(1) == labels).view(-1).index_select(0, above_diagonal)
    return same, ~same


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """Squared Euclidean distances: (A, D), (B, D) -> (A, B), never negative, for rows of any length.

    One matrix product, so the many proxies of a large data set stay cheap; between equal rows it leaves
    rounding errors of about 1e-7 (float32). Where an exact zero counts, use `distances`.
    """
    lengths = (x * x).sum(1)[:, None] + (y * y).sum(1)[None, :]  # (A, B)
    return torch.addmm(lengths, x, y.T, alpha=-2).clamp(min=0)


def distances(x: Tensor) -> Tensor:
    """Euclidean distances of all pairs: (B, D) -> (B, B); the gradient of a zero distance is zero, not NaN.

    Computed from the differences: equal rows are at distance 0 exactly, which an average over the
    non-zero terms must see. The root of `squared_distances` would put them at up to 5e-4.
    Each pair is computed once and written to both of its places: several times faster than `torch.cdist`.
    """
    return _square(unordered_pair_distances(x), len(x))


def unordered_pair_distances(x: Tensor) -> Tensor:
    """Compute `distances` with every pair once, in the order of `torch.pdist`: (B, D) -> (B (B - 1) / 2,)."""
    # The gradient of torch.pdist is the faster one up to about 128 rows.
    return torch.pdist(x) if len(x) <= 128 else _LargePdist.apply(x)


class _LargePdist(torch.autograd.Function):
    """`torch.pdist` with a gradient that keeps no (B, B, D) numbers, as on a GPU its own would.

    dL/dx_i = sum_j g_ij (x_i - x_j) / d_ij, zero distances left out. On a CPU, where few pairs have a gradient, these
    alone; else one matrix product, in double precision, since the two parts of the difference, summed apart, may be
    far larger than it is.
    """

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        d = torch.pdist(x)
        ctx.save_for_backward(x, d)
        return d

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient: Tensor) -> Tensor:
        x, d = ctx.saved_tensors
        weights = (gradient / d).masked_fill_(d == 0, 0.0)
        eager_on_cpu = x.device.type == "cpu" and not torch.compiler.is_compiling()  # there a count waits for nothing
        if eager_on_cpu and 8 * weights.count_nonzero() < len(weights):
            return _sum_of_pulls(x, weights)
        weights = _square(weights, len(x)).double()  # (B, B)
        weights.diagonal().copy_(-weights.sum(1))
        return (weights @ x.double()).neg_().to(x.dtype)


def _sum_of_pulls(x: Tensor, weights: Tensor) -> Tensor:
    """Sum w_ij (x_i - x_j) over the pairs whose weight is not 0: x (B, D), weights as of `torch.pdist` -> (B, D)."""
    above_diagonal, _ = _places(len(x), x.device)
    kept = weights.nonzero().squeeze(1)
    place = above_diagonal[kept]
    i, j = place.div(len(x), rounding_mode="floor"), place % len(x)
    pulls = weights[kept, None] * (x[i] - x[j])
    return torch.zeros_like(x).index_add_(0, i, pulls).index_add_(0, j, pulls, alpha=-1)


def _square(pairs: Tensor, count: int) -> Tensor:
    """Put one number a pair, in the order of `torch.pdist`, to both its places: (P,) -> (B, B); the diagonal is 0."""
    _, pair = _places(count, pairs.device)
    return torch.cat((pairs.new_zeros(1), pairs)).index_select(0, pair).view(count, count)


@functools.lru_cache(maxsize=4)
def _places(count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Indices between the (B, B) places of a matrix of pairs and the order of `torch.pdist`, which has each pair once.

    The first, (P,): where in the flattened matrix each pair above the diagonal stands. The second, (B B,): 1
    plus the number of the pair that stands there, 0 on the diagonal. They depend on the size of the batch alone.
    """
    with torch.inference_mode(False):  # kept for later batches, which may need them in a backward pass
        rows, columns = torch.triu_indices(count, count, 1, device=device)
        above_diagonal = rows * count + columns
        pair = torch.zeros(count * count, dtype=torch.int64, device=device)
        pair[above_diagonal] = torch.arange(1, len(rows) + 1, device=device)
        pair = pair.view(count, count)
        return above_diagonal, (pair + pair.T).flatten()


def unit_length(x: Tensor, dim: int) -> Tensor:
    """The vectors along a dimension at length 1, as `F.normalize`, at half its time."""
    return _Unit.apply(x, dim)


class _Unit(torch.autograd.Function):
    """u = x / |x| with its gradient (g - u (u.g)) / |x|, which autograd would take apart into a dozen steps."""

    @staticmethod
    def forward(ctx, x: Tensor, dim: int) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=dim, keepdim=True).clamp_(min=1e-12)
        u = x / length
        ctx.save_for_backward(u, length)
        ctx.dim = dim
        return u

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        u, length = ctx.saved_tensors
        return (gradient - u * (u * gradient).sum(ctx.dim, keepdim=True)).div_(length), None


def mean_of_nonzero(terms: Tensor) -> Tensor:
    """Mean over the terms above zero, which are hinges of any shape; 0 where there is none. A NaN stays a NaN."""
    return terms.sum() / torch.count_nonzero(terms.detach()).clamp(min=1)


def mean_over(terms: Tensor, mask: Tensor) -> Tensor:
    """Mean over the terms inside the mask, zeros included; 0 where the mask is empty."""
    return torch.where(mask, terms, 0.0).sum() / mask.sum().clamp(min=1)


def masked_logsumexp(x: Tensor, mask: Tensor) -> Tensor:
    """log of the sum of exp(x) over the mask, for each row: (..., A, B) -> (..., A).

    A row with an empty mask gives minus infinity: its exponential is 0, and so is its gradient.
    """
    # exp is several times faster at minus infinity than at a large negative number, where it underflows.
    return torch.where(mask, x, -torch.inf).logsumexp(-1)


def smooth_lead(similarities: Tensor, temperature: float) -> Tensor:
    """Lead of sample j over sample i in the ranking of query q: sigmoid((s_qj - s_qi) / temperature).

    (B, B) -> (B, B, B), by q, i, j, in (0, 1); no sample is ahead of itself (0). The sum over the j of a gallery is the
    smooth number of its samples in front of i: its rank less 1.
    """
    lead = torch.sigmoid((similarities[:, None, :] - similarities[:, :, None]) / temperature)
    itself = torch.eye(len(similarities), dtype=torch.bool, device=similarities.device)
    return lead.masked_fill(itself, 0.0)


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), exact in float64 too: torch's default switches to x itself at 20, too early for it."""
    return F.softplus(x, threshold=40)
