"""What several losses share: the checked batch, pair masks, distances, and the reductions of the field."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from dmlrc.errors import DivergedError, UsageError


def check_batch(embeddings: Tensor, labels: Tensor, num_classes: int | None = None) -> None:
    """Raise one clear error if a batch cannot be scored.

    embeddings: (B, D) float; labels: (B,) int64, in [0, num_classes) where num_classes is given.
    The checks that read values (NaN, label range) run on the CPU only: on a GPU they would wait for
    the device at every step; there a NaN reaches the loss value, which the trainer checks.
    """
    if embeddings.ndim != 2 or labels.ndim != 1 or len(embeddings) != len(labels):
        raise UsageError(
            f"a loss needs embeddings (B, D) and labels (B,), not {tuple(embeddings.shape)} and {tuple(labels.shape)}"
        )
    if not len(labels):
        raise UsageError("a loss needs at least one embedding, but the batch is empty")
    if not embeddings.is_floating_point():
        raise UsageError(f"embeddings must be floating point, not {embeddings.dtype}: use embeddings.float()")
    if labels.is_floating_point():
        raise UsageError(f"labels must be integers, not {labels.dtype}: use labels.long()")
    if embeddings.device.type != "cpu":
        return
    # One NaN or infinite entry makes the sum so; the sum is cheaper than a look at every entry.
    if not math.isfinite(embeddings.detach().sum()):
        raise DivergedError("the embeddings hold NaN or infinite values: lower the learning rate or the loss's scale")
    if num_classes is not None:
        low, high = (int(label) for label in labels.aminmax())
        if low < 0 or high >= num_classes:
            raise UsageError(
                f"labels run from {low} to {high}, but the loss was made for classes 0 to {num_classes - 1}: "
                "relabel the training classes from 0"
            )


def pair_masks(labels: Tensor) -> tuple[Tensor, Tensor]:
    """The positive and the negative pairs of a batch, both (B, B) bool; a sample is not its own positive."""
    same = labels[:, None] == labels[None, :]  # (B, B)
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    return same & ~itself, ~same


def cosine_similarities(x: Tensor, y: Tensor) -> Tensor:
    """Inner products of L2-normalised rows: (A, D), (B, D) -> (A, B)."""
    return x @ y.T


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """Squared Euclidean distances: (A, D), (B, D) -> (A, B), never negative, for rows of any length.

    One matrix product, so the many proxies of a large data set stay cheap; between equal rows it leaves
    rounding errors of about 1e-7 (float32). Where an exact zero counts, use `distances`.
    """
    lengths = (x * x).sum(1)[:, None] + (y * y).sum(1)[None, :]  # (A, B)
    return torch.addmm(lengths, x, y.T, alpha=-2).clamp(min=0)


def distances(x: Tensor, y: Tensor) -> Tensor:
    """Euclidean distances: (..., A, D), (..., B, D) -> (..., A, B); the gradient of a zero distance is zero, not NaN.

    Computed from the differences: equal rows are at distance 0 exactly, which an average over the
    non-zero terms must see. The root of `squared_distances` would put them at up to 5e-4.
    """
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")


def mean_of_nonzero(terms: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean over the terms that are inside the mask (default: all) and above zero; 0 where there is none.

    terms: any shape, not negative (hinges). The reduction of the contrastive, triplet, margin and SNR losses
    ("average over the non-zero terms"). A NaN inside the mask stays a NaN.
    """
    if mask is not None:
        terms = torch.where(mask, terms, 0.0)
    return terms.sum() / torch.count_nonzero(terms.detach()).clamp(min=1)


def mean_over(terms: Tensor, mask: Tensor) -> Tensor:
    """Mean over the terms inside the mask, zeros included; 0 where the mask is empty."""
    return torch.where(mask, terms, 0.0).sum() / mask.sum().clamp(min=1)


def masked_logsumexp(x: Tensor, mask: Tensor) -> Tensor:
    """log of the sum of exp(x) over the mask, for each row: (A, B) -> (A,).

    A row with an empty mask gives about the lowest finite number: its exponential is 0, and so is its gradient
    (minus infinity would make the gradient NaN).
    """
    return torch.where(mask, x, torch.finfo(x.dtype).min).logsumexp(1)


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), exact in float64 too: torch's default switches to x itself at 20, too early for it."""
    return F.softplus(x, threshold=40)
