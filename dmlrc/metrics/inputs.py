"""What every metric accepts: numpy arrays or torch tensors, checked once, as tensors on one device."""

import numpy as np
import torch
from torch import Tensor

from dmlrc.errors import DivergedError, UsageError

LARGEST = 1e15
"""A larger coordinate's square would not fit into float32."""


def as_embeddings(embeddings, what: str = "embeddings") -> Tensor:
    """embeddings: (N, D) finite real numbers, N and D at least 1 -> the same as a float32 or float64 tensor.

    A tensor stays on its device, anything else goes to the CPU; float64 is kept, all else becomes float32.
    Nothing is normalised. what: how an error message calls them.
    """
    embeddings = as_tensor(embeddings, what)
    if embeddings.ndim != 2 or 0 in embeddings.shape:
        raise UsageError(f"{what} must have the shape (N, D), N and D at least 1, not {tuple(embeddings.shape)}")
    if embeddings.is_complex():
        raise UsageError(f"{what} must be real numbers, not {embeddings.dtype}")
    embeddings = embeddings.to(torch.float64 if embeddings.dtype == torch.float64 else torch.float32).contiguous()
    if not embeddings.abs().max() <= LARGEST:  # NaN is not
        bad = int((~torch.isfinite(embeddings)).any(dim=1).sum())
        if bad:
            raise DivergedError(f"{bad} of {len(embeddings)} {what} hold NaN or infinite values: the model diverged")
        raise UsageError(f"{what} hold numbers above {LARGEST:g}: divide them by a constant, no metric but pi changes")
    return embeddings


def as_labels(labels, embeddings: Tensor, what: str = "labels") -> Tensor:
    """labels: (N,) integers, one for each row of embeddings -> int64 on the device of the embeddings."""
    labels = as_classes(labels, what)
    if labels.shape != embeddings.shape[:1]:
        raise UsageError(
            f"{what} must have the shape ({len(embeddings)},), one for each embedding, not {tuple(labels.shape)}"
        )
    return labels.to(embeddings.device)


def as_classes(labels, what: str = "labels") -> Tensor:
    """labels: integers of any kind -> int64."""
    labels = as_tensor(labels, what)
    if labels.is_floating_point() or labels.is_complex():
        raise UsageError(f"{what} must be integers, not {labels.dtype}")
    return labels.to(torch.int64)


def as_query(query) -> tuple:
    """The embeddings and the labels of a query set, as they are."""
    try:
        embeddings, labels = query
    except (TypeError, ValueError):
        raise UsageError("a query set is a pair: write query=(embeddings, labels)") from None
    return embeddings, labels


def require_pairs(labels: Tensor) -> None:
    """Raise UsageError unless there are positive and negative pairs; labels: (N,)."""
    _, sizes = labels.unique(return_counts=True)
    if len(sizes) == 1:
        raise UsageError(f"all {len(labels)} labels are {int(labels[0])}: a metric needs at least two classes")
    if sizes.max() == 1:
        raise UsageError("no class has two images: a metric needs at least one positive pair")


def as_tensor(values, what: str) -> Tensor:
    """Any array of numbers as a dense tensor: a tensor as it is, without its gradient; anything else as a copy.

    A copy, since an array may be read-only, reversed or of another byte order. Numbers that are not there (a mask, a
    meta tensor) are refused: whoever left them out must say what takes their place.
    """
    if isinstance(values, Tensor):
        return _dense(values, what).detach()
    if np.ma.is_masked(values):
        raise UsageError(f"{what} hold masked values: leave these rows out, or pass .filled(value)")
    try:
        array = np.array(values)
        if array.dtype.kind == "f" and array.dtype.itemsize > 8:
            array = array.astype(np.float64)
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
    except (TypeError, ValueError, RuntimeError):
        kind = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else type(values).__name__
        raise UsageError(f"{what} must be an array or a tensor of numbers, not {kind}") from None


def _dense(tensor: Tensor, what: str) -> Tensor:
    if isinstance(tensor, torch.masked.MaskedTensor):
        raise UsageError(f"{what} are a masked tensor: leave the masked rows out, or pass .to_tensor(value)")
    if tensor.is_nested:
        raise UsageError(f"{what} are a nested tensor: pass torch.cat(list(tensor.unbind()))")
    if tensor.is_quantized:
        raise UsageError(f"{what} are a quantised tensor: pass .dequantize()")
    if type(tensor) is Tensor and tensor.is_meta:  # a subclass may well hold numbers
        raise UsageError(f"{what} are on the device 'meta', which holds no numbers: compute them on a real device")
    return tensor.to_dense() if tensor.layout != torch.strided else tensor
