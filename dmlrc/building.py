"""Building the loss of a method: its name, function, class or module, with the hyperparameters of one run."""

import copy
import functools
import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from dmlrc import losses, paths
from dmlrc.errors import DmlrcError, LossError, UsageError
from dmlrc.methods import LEARNING_RATE, LOSS_WEIGHTS_LR, Method


class FunctionLoss(nn.Module):
    """A plain function `f(embeddings, labels, **hyperparameters)` as a loss."""

    def __init__(self, function: Callable[..., Tensor], params: Mapping[str, float]):
        super().__init__()
        self.function, self.params = function, dict(params)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return self.function(embeddings, labels, **self.params)


def build_loss(method: Method, params: Mapping[str, float], num_classes: int, embedding_dim: int) -> nn.Module:
    """The loss of one run: the method's fixed settings and these hyperparameters, for these classes.

    A class, or a `functools.partial` of one, is constructed with those of the sizes in SIZES that its constructor
    knows, or that of a base to which it hands its other arguments. A ready module is copied, so that runs share no
    weights. What is not a module afterwards is wrapped in one.

    Parameters
    ----------
    method : Method
    params : hyperparameters of this run
    num_classes : of the training half, which the labels 0..num_classes-1 tell apart
    embedding_dim : D

    Returns
    -------
    A module: embeddings (B, D), labels (B,) -> scalar

    Raises
    ------
    UsageError
        For a loss that is no name, function, class or module, or that cannot be made or called with these.
    """
    params = {**method.settings, **params}
    for rate in (LEARNING_RATE, LOSS_WEIGHTS_LR):
        params.pop(rate, None)
    loss = method.loss
    if isinstance(loss, str):
        return losses.create(loss, num_classes=num_classes, embedding_dim=embedding_dim, **params)
    if isinstance(loss, nn.Module):
        if params:
            raise UsageError(
                f"method {method.name!r} has hyperparameters ({', '.join(params)}) but its loss is a ready module: "
                "give the class instead, so that each trial can construct it"
            )
        return _guarded(copy.deepcopy(loss), {})
    if inspect.isclass(getattr(loss, "func", loss)):
        return _constructed(method.name, copy.deepcopy(loss), num_classes, embedding_dim, params)
    if callable(loss):
        try:
            inspect.signature(loss).bind(None, None, **params)
        except TypeError as error:
            raise UsageError(f"the loss function of method {method.name!r} cannot be called: {error}") from None
        return FunctionLoss(loss, params)
    raise UsageError(f"the loss of method {method.name!r} must be a name, a function, a class or a module")


SIZES = {
    "num_classes": "num_classes",
    "embedding_dim": "embedding_dim",
    "embedding_size": "embedding_dim",
    "descriptors_dim": "embedding_dim",
}
"""What the constructors of losses call their sizes; all but embedding_dim are names of pytorch-metric-learning."""


def _constructed(
    name: str, loss: type | functools.partial, num_classes: int, embedding_dim: int, params: Mapping[str, float]
) -> nn.Module:
    known = constructor_parameters(getattr(loss, "func", loss))
    given = {"num_classes": num_classes, "embedding_dim": embedding_dim}
    sizes = {parameter: given[size] for parameter, size in SIZES.items() if parameter in known}
    arguments = {**sizes, **getattr(loss, "keywords", {}), **params}
    try:
        result = loss(**arguments)
    except TypeError as error:
        raise LossError(
            f"the loss of method {name!r} cannot be made: {error}. What its constructor needs and does not get are "
            "hyperparameters: give them in the method's space or settings"
        ) from error
    return _guarded(result, arguments) if isinstance(result, nn.Module) else FunctionLoss(result, {})


def _guarded(loss: nn.Module, arguments: Mapping[str, object]) -> nn.Module:
    """A loss of this library with the look at its batches that `losses.create` gives it; any other as it is."""
    is_bare = isinstance(loss, tuple(losses.REGISTRY.values())) and not hasattr(loss, "unseen")
    return losses.inputs.guard(loss, arguments) if is_bare else loss


def checked_value(name: str, version: int, value: object, embeddings: Tensor) -> Tensor:
    """Return what the loss of a method gave, if it can be trained. Raises LossError where it cannot.

    version: of the embeddings before it was called, which it must not change, nor those of other folds with them.
    """
    if embeddings._version != version:
        raise LossError(f"the loss of method {name!r} changes the embeddings that it is given: let it clone them first")
    if torch.is_tensor(value) and not value.ndim and value.requires_grad:
        return value
    if not torch.is_tensor(value):
        what = "nothing" if value is None else f"a {type(value).__name__}"
    else:
        what = f"a tensor of shape {tuple(value.shape)}" if value.ndim else "a number that no gradient goes through"
    raise LossError(
        f"the loss of method {name!r} returned {what}: it must return a scalar tensor computed from the embeddings"
    )


@contextmanager
def failing(method: Method, part: str, batch: str = "") -> Iterator[None]:
    """Turn what a "loss" or "sampler" of one's own raises into one sentence, with the line of its file."""
    try:
        yield
    except (Exception, SystemExit) as error:  # a loss that ends the process would end it as if all were well
        if isinstance(error, DmlrcError) or not callable(getattr(method, part)):
            raise
        kind = LossError if part == "loss" else UsageError
        raise kind(f"the {part} of method {method.name!r} fails{batch}{cause(error)}") from error


def cause(error: BaseException) -> str:
    """The last line of one's own files in which an error came up, and what it says, as the end of a sentence."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if paths.is_own(frame.filename)]
    where = f", line {frames[-1].lineno} of {_named(Path(frames[-1].filename))}" if frames else ""
    return f"{where}: {type(error).__name__}: {' '.join(str(error).split())}"


def _named(file: Path) -> str:
    """File name for messages; "its cell" for what a Jupyter kernel or IPython calls a cell."""
    of_cell = file.parent.name.startswith("ipykernel_") or file.name.startswith("<ipython-input-")
    return "its cell" if of_cell else file.name


def constructor_parameters(loss: type) -> dict[str, inspect.Parameter]:
    """Parameters by name of a class's constructor: where it takes **kwargs, also those of its bases."""
    by_name: dict[str, inspect.Parameter] = {}
    for base in loss.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = list(inspect.signature(base.__init__).parameters.values())[1:]
        for parameter in parameters:
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                by_name.setdefault(parameter.name, parameter)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return by_name


def normalized(method: Method) -> bool:
    """Tell whether a method's embeddings are L2-normalised, in training and in evaluation: unless it says no."""
    loss = losses.REGISTRY.get(method.loss, method.loss) if isinstance(method.loss, str) else method.loss
    return getattr(loss.func if isinstance(loss, functools.partial) else loss, "normalized", True)
