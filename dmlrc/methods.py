"""A method: one row of a results table. A loss, its batch layout, its search space, where it comes from."""

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from dmlrc import losses
from dmlrc.errors import UsageError

LOSS_WEIGHTS_LR = "loss_weights_lr"
"""The hyperparameter that is no argument of the loss: the learning rate of the loss's own weights."""


@dataclass(frozen=True)
class Float:
    """A real hyperparameter, searched uniformly in [low, high], or uniformly in its logarithm."""

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class Int:
    """A whole-number hyperparameter, searched uniformly in [low, high], both included."""

    low: int
    high: int


@dataclass(frozen=True)
class Method:
    """One row of a results table.

    name: unique, also the name of its records' folder. label: as printed. loss: a name of `losses.names()`,
    or a function `f(embeddings, labels, **hyperparameters)`, or a class whose constructor takes the
    hyperparameters (a loss of pytorch-metric-learning is one), or a ready module.
    space: hyperparameter -> Float or Int. settings: hyperparameters held fixed.
    A batch has classes_per_batch x images_per_class images. kind: "embedding" or "classification".
    weight_decay, sampler, optimizer: override the protocol's where the paper says so. changes: fields of the protocol
    that are other for this row, where a system has settings of its own or a sweep varies one.
    """

    name: str
    loss: str | Callable[..., Any] | nn.Module
    space: Mapping[str, Float | Int] = field(default_factory=dict)
    settings: Mapping[str, float] = field(default_factory=dict)
    label: str = ""
    classes_per_batch: int = 8
    images_per_class: int = 4
    kind: str = "embedding"
    year: int | None = None
    reference: str = ""
    weight_decay: float | None = None
    sampler: str | None = None
    optimizer: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        if not self.label:
            object.__setattr__(self, "label", self.name)


def in_batches_of(size: int, methods: Iterable[Method]) -> tuple[Method, ...]:
    """The methods with as many classes as fill a batch of this size, without those of which two classes do not fit."""
    sized = (replace(each, classes_per_batch=size // each.images_per_class) for each in methods)
    return tuple(each for each in sized if each.classes_per_batch >= 2)


class FunctionLoss(nn.Module):
    """A plain function `f(embeddings, labels, **hyperparameters)` as a loss."""

    def __init__(self, function: Callable[..., Tensor], params: Mapping[str, float]):
        super().__init__()
        self.function, self.params = function, dict(params)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return self.function(embeddings, labels, **self.params)


def build_loss(method: Method, params: Mapping[str, float], num_classes: int, embedding_dim: int) -> nn.Module:
    """The loss of one run: the method's fixed settings and these hyperparameters, for these classes.

    A class is constructed with those of num_classes, embedding_dim and embedding_size (the name in
    pytorch-metric-learning) that its constructor knows. A ready module is copied, so that runs share no weights.
    What is not a module afterwards is wrapped in one.
    """
    params = {**method.settings, **params}
    params.pop(LOSS_WEIGHTS_LR, None)
    loss = method.loss
    if isinstance(loss, str):
        return losses.create(loss, num_classes=num_classes, embedding_dim=embedding_dim, **params)
    if isinstance(loss, nn.Module):
        if params:
            raise UsageError(
                f"method {method.name!r} has hyperparameters ({', '.join(params)}) but its loss is a ready module: "
                "give the class instead, so that each trial can construct it"
            )
        return copy.deepcopy(loss)
    if inspect.isclass(loss):
        sizes = {"num_classes": num_classes, "embedding_dim": embedding_dim, "embedding_size": embedding_dim}
        known = inspect.signature(loss).parameters
        made = loss(**{name: size for name, size in sizes.items() if name in known}, **params)
        return made if isinstance(made, nn.Module) else FunctionLoss(made, {})
    if callable(loss):
        _check_function(method.name, loss, params)
        return FunctionLoss(loss, params)
    raise UsageError(f"the loss of method {method.name!r} must be a name, a function, a class or a module")


def normalized(method: Method) -> bool:
    """Whether the embeddings of a method are L2-normalised, in training and in evaluation; unless it says so, yes."""
    loss = (
        losses.REGISTRY[method.loss] if isinstance(method.loss, str) and method.loss in losses.REGISTRY else method.loss
    )
    return getattr(loss, "normalized", True)


def _check_function(name: str, function: Callable[..., Tensor], params: Mapping[str, float]) -> None:
    try:
        inspect.signature(function).bind(None, None, **params)
    except TypeError as error:
        raise UsageError(f"the loss function of method {name!r} cannot be called: {error}") from None
