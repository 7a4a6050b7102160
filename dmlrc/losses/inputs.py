"""What a loss is given, brought to what it computes with: embeddings float32 or float64, labels int64.

A batch that already is so, as in training, is only looked at: 1.3 microseconds a call.
"""

import inspect
import math
import numbers
import warnings
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from dmlrc.errors import UsageError
from dmlrc.losses import ranges

_ROUNDING = 0.01  # what half precision may leave of a length, and more


def convert(loss: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict] | None:
    """A forward pre-hook (with keywords) for any loss(embeddings, labels).

    Embeddings may be tensors of any floating dtype, lists of such, or arrays; half precision becomes float32, and so do
    arrays and lists, or what the loss's own weights are. Labels may be integers or bools of any kind: as int64 they
    are classes, while as bool or uint8 an index by them would be a mask. The gradient passes through.

    Raises UsageError for all that cannot be converted without loss: integers as embeddings, floats as labels, ragged,
    masked, sparse or text input.
    """
    if len(args) == 2 and not kwargs:
        embeddings, labels = args
    elif len(args) == 1 and kwargs.keys() == {"labels"}:
        (embeddings,), labels = args, kwargs["labels"]
    elif not args and kwargs.keys() == {"embeddings", "labels"}:
        embeddings, labels = kwargs["embeddings"], kwargs["labels"]
    else:
        return None  # Python says what is missing
    if (
        isinstance(embeddings, Tensor)
        and isinstance(labels, Tensor)
        and embeddings.dtype is torch.float32
        and labels.dtype is torch.int64
        and embeddings.layout is labels.layout is torch.strided
        and not embeddings.is_meta
    ):
        if loss.unseen:
            notice_lengths(loss, embeddings)
        _check_dim(loss, embeddings)
        return None
    embeddings = _embeddings(embeddings, next((weight.dtype for weight in loss.parameters()), None))
    _check_dim(loss, embeddings)
    if loss.unseen:
        notice_lengths(loss, embeddings)
    return (embeddings, _labels(labels, embeddings.device)), {}


def _check_dim(loss: nn.Module, embeddings: Tensor) -> None:
    """Raise UsageError for embeddings (B, D) of another size than the proxies or class weights of a loss."""
    if loss.dim is not None and embeddings.ndim == 2 and (dim := embeddings.shape[1]) != loss.dim:
        raise UsageError(
            f"{type(loss).__name__} was made for embeddings of {loss.dim} numbers, and these have {dim}: make "
            f"it with embedding_dim={dim}"
        )


def notice_lengths(loss: nn.Module, embeddings: Tensor) -> None:
    """Warn of embeddings (B, D) that are not L2-normalised, handed to a loss that is for such; of one batch only.

    On a GPU nothing is looked at, since that would wait for the device.
    """
    loss.unseen = False
    if embeddings.ndim != 2 or not embeddings.numel() or embeddings.device.type != "cpu":
        return  # what is wrong with the shape the loss says itself
    shortest, longest = embeddings.detach().float().norm(dim=1).aminmax()
    if longest > 1 + _ROUNDING or shortest < 1 - _ROUNDING:  # NaN is neither
        warnings.warn(
            f"{type(loss).__name__} is for L2-normalised embeddings, but the lengths of these run from {shortest:.3g} "
            f"to {longest:.3g}: call it with torch.nn.functional.normalize(embeddings)",
            stacklevel=6,  # of the line that calls the loss
        )


def described(parameters: Mapping, given: Mapping) -> str:
    """The arguments of a constructor, those not given at their defaults: "margin=0.2, beta=1.2". None is left out."""
    values = {name: given.get(name, each.default) for name, each in parameters.items()}
    return ", ".join(f"{name}={value:.6g}" for name, value in values.items() if value is not None)


def check_parameter(loss: str, name: str, value: object, declared: inspect.Parameter) -> float | int | None:
    """A hyperparameter as its constructor declares it, float or int; whole ones count something: bins, centres, ranks.

    Raises UsageError for no finite number, for a count below 1, and outside `ranges`. None is one where it is the
    default.
    """
    if value is None and declared.default is None:
        return None
    kind = declared.annotation
    number = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    try:
        if number and math.isfinite(value) and (kind is not int or value == int(value) > 0):
            _check_range(loss, name, value)
            return int(value) if kind is int else value
    except OverflowError:  # an integer beyond all floats
        pass
    wanted = "a whole number above 0" if kind is int else "a finite number"
    raise UsageError(f"{name} of loss {loss!r} is {value!r}: give {wanted}")


def check_size(loss: str, name: str, value: object) -> int:
    """The number of classes or of dimensions. Raises UsageError for anything but a whole number above 0, and outside
    `ranges`."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{name} of loss {loss!r} is {value!r}: give a whole number above 0")
    _check_range(loss, name, value)
    return int(value)


def _check_range(loss: str, name: str, value: float) -> None:
    allowed = ranges.of(loss, name)
    if not allowed.holds(value):
        raise UsageError(f"{name} of loss {loss!r} is {value:g}: give a number {allowed}")


def known_parameters(parameters: Mapping) -> dict:
    """Those of a constructor's parameters that have a name of their own."""
    return {name: each for name, each in parameters.items() if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}


def _embeddings(values: object, weights: torch.dtype | None) -> Tensor:
    """As float32 or float64; half precision, arrays and lists as `weights`, the dtype of the loss's own, if any."""
    is_tensor = isinstance(values, Tensor)
    embeddings = _tensor(values, "embeddings")
    if not embeddings.is_floating_point():
        raise UsageError(f"embeddings must be floating point, not {embeddings.dtype}: use embeddings.float()")
    if not is_tensor or embeddings.dtype not in (torch.float32, torch.float64):
        return embeddings.to(weights or torch.float32)
    return embeddings


def _labels(values: object, device: torch.device) -> Tensor:
    labels = _tensor(values, "labels")
    if labels.is_floating_point() or labels.is_complex():
        raise UsageError(f"labels must be integers, not {labels.dtype}: use labels.long()")
    return labels.long() if isinstance(values, Tensor) else labels.to(device, torch.int64)


def _tensor(values: object, what: str) -> Tensor:
    """A dense tensor with its gradient, of whatever dtype."""
    try:
        if isinstance(values, list | tuple) and values and all(isinstance(each, Tensor) for each in values):
            values = torch.stack(tuple(values))
        if not isinstance(values, Tensor):
            if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
                raise UsageError(f"some {what} are masked: leave those samples out")
            array = np.array(values)  # a copy, since an array may be read-only or reversed
            values = torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"{what} must be a tensor or an array of numbers, not {type(values).__name__}") from error
    if values.layout is not torch.strided or values.is_meta or values.is_quantized:
        kind = "meta" if values.is_meta else "quantized" if values.is_quantized else values.layout
        raise UsageError(f"{what} must be a dense tensor with values, not a {kind} one")
    return values
