"""Checks of a loss's hyperparameters, and of its batches, which become float32 or float64 and int64."""

import inspect
import math
import numbers
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dmlrc.errors import DivergedError, UsageError
from dmlrc.losses.ranges import allowed_range

_ROUNDING = 0.01  # what half precision may leave of a length, and more
_LARGEST = 1e38  # float32 holds it


def guard(loss: nn.Module, arguments: Mapping[str, Any]) -> nn.Module:
    """Have `convert` see every batch of a loss, which was constructed with these arguments. Returns the loss."""
    loss.register_forward_pre_hook(convert, with_kwargs=True)
    loss.unseen, loss.dim, loss.classes = loss.normalized, arguments.get("embedding_dim"), arguments.get("num_classes")
    return loss


def convert(loss: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Bring what any loss(embeddings, labels) is called with to what it computes with: a forward pre-hook.

    Embeddings of half precision, arrays and lists become float32. Labels may be integers or bools of any kind:
    as int64 they are classes, while as bool or uint8 an index by them would be a mask. The gradient passes through.
    Within `torch.autocast` products still are of half precision: call a loss outside of it.

    Raises UsageError for what is no tensor or array of numbers, for embeddings (B, D) of another size than the loss's
    weights, and as `check_batch` does.
    """
    embeddings, labels = _batch(*args, **kwargs)
    if not (
        isinstance(embeddings, Tensor)
        and isinstance(labels, Tensor)
        and embeddings.dtype is torch.float32
        and labels.dtype is torch.int64
        and labels.device == embeddings.device
    ):
        embeddings, labels = _tensor(embeddings, "embeddings"), _tensor(labels, "labels")
        if not labels.is_floating_point():  # else `check_batch` refuses them
            labels = labels.to(embeddings.device, torch.int64)
    if loss.dim is not None and embeddings.ndim == 2 and (dim := embeddings.shape[1]) != loss.dim:
        raise UsageError(
            f"{type(loss).__name__} was made for embeddings of {loss.dim} numbers, and these have {dim}: make "
            f"it with embedding_dim={dim}"
        )
    if loss.unseen:
        loss.unseen = False
        notice_lengths(type(loss).__name__, embeddings)
    check_batch(embeddings, labels, loss.classes)
    return (embeddings, labels), {}


def check_batch(embeddings: Tensor, labels: Tensor, classes: int | None = None) -> None:
    """Raise one clear error if a batch cannot be scored.

    embeddings: (B, D) float; labels: (B,) int64, in [0, classes) where that is given.
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
    if classes is not None:
        low, high = (int(label) for label in labels.aminmax())
        if low < 0 or high >= classes:
            raise UsageError(
                f"labels run from {low} to {high}, but the loss was made for classes 0 to {classes - 1}: "
                "relabel the training classes from 0"
            )


def _batch(embeddings: object, labels: object) -> tuple:
    return embeddings, labels  # Python says what is missing


def _tensor(values: object, what: str) -> Tensor:
    """The values as a tensor; floating-point numbers as float32, unless they are a tensor of float64."""
    try:
        is_tensor = isinstance(values, Tensor)
        tensor = values if is_tensor else torch.from_numpy(np.array(values, order="C"))
        keep = not tensor.is_floating_point() or (is_tensor and tensor.dtype is torch.float64)
        return tensor if keep else tensor.float()
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"{what} must be a tensor or an array of numbers, not {type(values).__name__}") from error


def notice_lengths(loss: str, embeddings: Tensor) -> None:
    """Warn of embeddings (B, D) that are not L2-normalised, handed to a loss that is for such.

    On a GPU nothing is looked at, since that would wait for the device.
    """
    if embeddings.ndim != 2 or not embeddings.numel() or embeddings.device.type != "cpu":
        return  # what is wrong with the shape the loss says itself
    shortest, longest = embeddings.detach().float().norm(dim=1).aminmax()
    if longest > 1 + _ROUNDING or shortest < 1 - _ROUNDING:  # NaN is neither
        warnings.warn(
            f"{loss} is for L2-normalised embeddings, but the lengths of these run from {shortest:.3g} to "
            f"{longest:.3g}: call it with torch.nn.functional.normalize(embeddings)",
            stacklevel=6,  # of the line that calls the loss
        )


def parameters_of(loss: type[nn.Module]) -> dict[str, inspect.Parameter]:
    """List those of a constructor's parameters that have a name of their own."""
    parameters = inspect.signature(loss).parameters.items()
    return {name: own for name, own in parameters if own.kind not in (own.VAR_POSITIONAL, own.VAR_KEYWORD)}


def describe(parameters: Mapping[str, inspect.Parameter], given: Mapping) -> str:
    """Write out the arguments of a constructor, those not given at their defaults: "margin=0.2, beta=1.2", no None."""
    values = {name: given.get(name, own.default) for name, own in parameters.items()}
    return ", ".join(f"{name}={value:.6g}" for name, value in values.items() if value is not None)


def check_parameter(loss: str, name: str, value: object, declared: inspect.Parameter) -> float | int | None:
    """Return a hyperparameter as its constructor declares it, float or int; whole ones count something, so are above 0.

    Raises UsageError for no finite number, and outside `ranges`. None is one where it is the default.
    """
    if value is None and declared.default is None:
        return None
    is_count = declared.annotation is int
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    is_finite = is_number and abs(value) < _LARGEST
    if not is_finite or (is_count and not value == int(value) > 0):
        wanted = "a whole number above 0" if is_count else "a finite number"
        raise UsageError(f"{name} of loss {loss!r} is {value!r}: give {wanted}")
    allowed = allowed_range(loss, name)
    if not allowed.holds(value):
        raise UsageError(f"{name} of loss {loss!r} is {value:g}: give a number {allowed}")
    return int(value) if is_count else value
