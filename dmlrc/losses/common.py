"""What several losses share: the checked batch, pair masks, and the two reductions of the field."""

import torch
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
    if labels.is_floating_point():
        raise UsageError(f"labels must be integers, not {labels.dtype}: use labels.long()")
    if embeddings.device.type != "cpu":
        return
    if not torch.isfinite(embeddings).all():
        raise DivergedError("the embeddings hold NaN or infinite values: lower the learning rate or the loss's scale")
    if num_classes is not None and len(labels) and (labels.min() < 0 or labels.max() >= num_classes):
        raise UsageError(
            f"labels run from {labels.min()} to {labels.max()}, but the loss was made for classes 0 to {num_classes - 1}: "
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
    """Squared Euclidean distances: (A, D), (B, D) -> (A, B), never negative, for rows of any length."""
    square = (x * x).sum(1)[:, None] + (y * y).sum(1)[None, :] - 2 * x @ y.T
    return square.clamp(min=0)


def distances(x: Tensor, y: Tensor) -> Tensor:
    """Euclidean distances (A, B); the gradient of a zero distance is zero, not NaN."""
    square = squared_distances(x, y)
    zero = square == 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, square).sqrt())


def mean_of_nonzero(terms: Tensor, mask: Tensor) -> Tensor:
    """Mean over the terms that are inside the mask and above zero; 0 where there is none.

    The reduction of the contrastive, triplet, margin and SNR losses ("average over the non-zero terms").
    A NaN inside the mask stays a NaN.
    """
    terms = torch.where(mask, terms, 0.0)
    return terms.sum() / (terms > 0).sum().clamp(min=1)


def mean_over(terms: Tensor, mask: Tensor) -> Tensor:
    """Mean over the terms inside the mask, zeros included; 0 where the mask is empty."""
    return torch.where(mask, terms, 0.0).sum() / mask.sum().clamp(min=1)
