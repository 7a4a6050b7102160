"""The arguments of every metric: numpy arrays or torch tensors, checked once, as tensors on one device."""

import numpy as np
import torch
from torch import Tensor

from dmlrc.errors import DivergedError, UsageError

LARGEST, SMALLEST = 1e15, 1e-15


def out_of_range(embeddings: Tensor) -> str:
    """Say that numbers are so large, or all so small, that float32 does not hold their squares; "" where it does."""
    largest = embeddings.abs().max()
    if largest > LARGEST:
        return f"hold numbers above {LARGEST:g}"
    return f"hold numbers below {SMALLEST:g} alone" if 0 < largest < SMALLEST else ""


def as_embeddings(embeddings, what: str = "embeddings") -> Tensor:
    """Check embeddings (N, D), finite real numbers, N and D at least 1, and bring them to float32 or float64.

    A tensor stays on its device, anything else goes to the CPU; float64 is kept, all else becomes float32.
    Nothing is normalised. what: how an error message calls them.
    """
    embeddings = as_tensor(embeddings, what)
    if embeddings.ndim != 2 or 0 in embeddings.shape:
        raise UsageError(f"{what} must have the shape (N, D), N and D at least 1, not {tuple(embeddings.shape)}")
    if embeddings.is_complex():
        raise UsageError(f"{what} must be real numbers, not {embeddings.dtype}")
    embeddings = embeddings.to(torch.float64 if embeddings.dtype == torch.float64 else torch.float32).contiguous()
    if bad := int((~torch.isfinite(embeddings)).any(dim=1).sum()):
        raise DivergedError(f"{bad} of {len(embeddings)} {what} hold NaN or infinite values: the model diverged")
    if fault := out_of_range(embeddings):
        raise UsageError(f"{what} {fault}: divide them by a constant, which changes only pi and the mean products")
    return embeddings


def as_labels(labels, embeddings: Tensor, what: str = "labels") -> Tensor:
    """Check labels (N,), integers, one for each row of embeddings -> int64 on the device of the embeddings."""
    labels = as_classes(labels, what)
    if labels.shape != embeddings.shape[:1]:
        raise UsageError(
            f"{what} must have the shape ({len(embeddings)},), one for each embedding, not {tuple(labels.shape)}"
        )
    return labels.to(embeddings.device)


def as_classes(labels, what: str = "labels") -> Tensor:
    """Check labels, integers of any kind -> int64."""
    labels = as_tensor(labels, what)
    if labels.is_floating_point() or labels.is_complex():
        raise UsageError(f"{what} must be integers, not {labels.dtype}")
    return labels.to(torch.int64)


def as_names(names) -> list[str]:
    """The names of metrics as a list; UsageError for one name alone, which is a sequence of letters."""
    if isinstance(names, str) or not hasattr(names, "__iter__"):
        raise UsageError(f"names is a sequence of metrics: write names=({names!r},)")
    return list(names)


def as_query(query) -> tuple:
    """Take apart the embeddings and the labels of a query set, as they are."""
    try:
        embeddings, labels = query
    except (TypeError, ValueError):
        raise UsageError("a query set is a pair: write query=(embeddings, labels)") from None
    return embeddings, labels


def as_pairs(embeddings, labels) -> tuple[Tensor, Tensor]:
    """Check embeddings (N, D) and labels (N,) of a metric of pairs, of which there are both kinds."""
    embeddings = as_embeddings(embeddings)
    labels = as_labels(labels, embeddings)
    require_pairs(labels)
    return embeddings, labels


def require_pairs(labels: Tensor) -> None:
    """Raise UsageError unless there are positive and negative pairs; labels: (N,)."""
    _, sizes = labels.unique(return_counts=True)
    if len(sizes) == 1:
        raise UsageError(f"all {len(labels)} labels are {int(labels[0])}: a metric needs at least two classes")
    if sizes.max() == 1:
        raise UsageError("no class has two images: a metric needs at least one positive pair")


def as_tensor(values, what: str) -> Tensor:
    """Bring any array of numbers to a tensor: a tensor without its gradient, anything else as a copy.

    A copy, since an array may be read-only, reversed or of another byte order. what: how an error message calls them.
    """
    if isinstance(values, Tensor):
        return values.detach()
    try:
        array = np.array(values, order="C")
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
    except (TypeError, ValueError, RuntimeError):
        kind = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else type(values).__name__
        raise UsageError(f"{what} must be an array or a tensor of numbers, not {kind}") from None
