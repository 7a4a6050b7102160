"""A method: one row of a results table. A loss, its batch layout, its search space, where it comes from."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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
    loss: str | Callable[..., Any]
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
