"""A method: one row of a results table. A loss, its batch layout, its search space, where it comes from."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar

from dmlrc.errors import UsageError
from dmlrc.paths import ASIDE

PRETRAINED = "pretrained"
"""The name under which the accuracy of the untrained trunk is recorded; no method may be called so."""

LOSS_WEIGHTS_LR = "loss_weights_lr"
"""A hyperparameter that is no argument of the loss: the learning rate of the loss's own weights."""

LEARNING_RATE = "lr"
"""Reserved hyperparameter, not passed to the loss: overrides the learning rate of trunk and embedder.

No loss can therefore have a hyperparameter of this name.
"""


@dataclass(frozen=True)
class Float:
    """A real hyperparameter, searched uniformly in [low, high], or uniformly in its logarithm.

    Parameters
    ----------
    low, high : the ends of the range
    log : whether it is searched in logarithms
    first : the value that the first trial of a search takes; None: drawn as the others

    Raises
    ------
    UsageError
        For a range that holds nothing or has no logarithm, and a first value outside of it.
    """

    low: float
    high: float
    log: bool = False
    first: float | None = None

    def __post_init__(self):
        _check_range(self)
        if self.first is not None and not (_is_finite(self.first) and self.low <= self.first <= self.high):
            raise UsageError(
                f"a search from {self.low:g} to {self.high:g} cannot begin at {self.first!r}: choose between"
            )
        if self.log and self.low <= 0:
            raise UsageError(f"a range in logarithms begins above 0, not at {self.low:g}: raise low, or leave log out")


@dataclass(frozen=True)
class Int:
    """A whole-number hyperparameter, searched uniformly.

    Parameters
    ----------
    low, high : the ends of the range, both included

    Raises
    ------
    UsageError
        For a range that holds nothing, or whose ends are no whole numbers.
    """

    low: int
    high: int
    log: ClassVar[bool] = False

    def __post_init__(self):
        _check_range(self)
        if (self.low, self.high) != (int(self.low), int(self.high)):
            raise UsageError(f"a range of whole numbers cannot go from {self.low} to {self.high}: take Float")


@dataclass(frozen=True)
class Choice:
    """A categorical hyperparameter.

    Parameters
    ----------
    values : words or numbers, which have no order

    Raises
    ------
    UsageError
        For values that are no words or numbers, fewer than two, or one of them twice.
    """

    values: tuple[str | float, ...]
    log: ClassVar[bool] = False

    def __post_init__(self):
        given = self.values
        if not isinstance(given, list | tuple) or not all(isinstance(one, str) or _is_finite(one) for one in given):
            raise UsageError(f"a choice is among words and numbers, ('cosine', 'euclidean'), not {given!r}")
        if len(given) < 2 or len(set(given)) < len(given):
            raise UsageError(f"a choice is between two different values or more, not {given!r}")
        object.__setattr__(self, "values", tuple(map(_of_python, given)))


Space = Float | Int | Choice
"""What a search varies of a hyperparameter."""


def _check_range(searched: Float | Int) -> None:
    """Raise UsageError for a range that holds nothing, or whose ends are no finite numbers."""
    ends = searched.low, searched.high
    if not (all(map(_is_finite, ends)) and ends[0] <= ends[1] and float(ends[1]) - float(ends[0]) < math.inf):
        raise UsageError(f"a range from {searched.low!r} to {searched.high!r} holds no number: low is at most high")
    for name, value in vars(searched).items():
        object.__setattr__(searched, name, _of_python(value))


def _of_python(value: Any) -> Any:
    """A number of NumPy as one of Python, which records can hold; anything else as it is."""
    return value.item() if isinstance(value, Real) and hasattr(value, "item") else value


def _is_finite(value: object) -> bool:
    """Tell whether a value is a number that a float can be."""
    try:
        return isinstance(value, Real) and math.isfinite(value)
    except OverflowError:  # of a whole number of 400 digits
        return False


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


KINDS = ("embedding", "classification")
_COUNT = (lambda value: _is_whole(value) and value > 0, "a whole number above 0")
_FIELDS = (
    ("classes_per_batch", *_COUNT),
    ("images_per_class", *_COUNT),
    ("kind", KINDS.__contains__, f"{KINDS[0]!r} or {KINDS[1]!r}"),
    ("label", lambda value: isinstance(value, str) and value.isprintable(), "a line of text"),
    ("year", lambda value: value is None or _is_whole(value), "a whole number, or None"),
    ("weight_decay", lambda value: value is None or (_is_finite(value) and value >= 0), "a number from 0 on, or None"),
)
"""Fields of a method: what fits in them, and what that is called."""


@dataclass(frozen=True)
class Method:
    """Row of a results table.

    Parameters
    ----------
    name : unique, also the name of its records' folder: letters, digits and _ - . : + @
    loss : a name of `losses.names()`, or a function `f(embeddings, labels, **hyperparameters)`, or a class whose
        constructor takes the hyperparameters (a loss of pytorch-metric-learning is one), or a ready module
    space : hyperparameter -> Float, Int or Choice
    settings : hyperparameters held fixed: numbers, words, true and false, None
    label : as printed
    classes_per_batch, images_per_class : their product is the number of images of a batch
    kind : "embedding" or "classification"
    year, reference : of its paper; the reference is a key of book/references.bib
    weight_decay, sampler, optimizer : override the protocol's where the paper says so
        A sampler may be a function, see `dmlrc.data.batches.create_sampler`.
    changes : fields of the protocol that are other for this row, where a system has settings of its own or a sweep
        varies one
    row, level, level_number : of a method that stands in a sweep, the method that is varied, the value of what varies
        as a word ("dim128"), and as a number (128.0) where it is one. Outside sweeps the row is the name.

    Raises
    ------
    UsageError
        For a name that no folder can have, a space or settings that are none, and what is both searched and set.
    """

    name: str
    loss: str | Callable[..., Any]
    space: Mapping[str, Space] = field(default_factory=dict)
    settings: Mapping[str, float] = field(default_factory=dict)
    label: str = ""
    classes_per_batch: int = 8
    images_per_class: int = 4
    kind: str = "embedding"
    year: int | None = None
    reference: str = ""
    weight_decay: float | None = None
    sampler: str | Callable[..., Any] | None = None
    optimizer: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    row: str = ""
    level: str | None = None
    level_number: float | None = None

    def __post_init__(self):
        name = rf"(?![.-]|{ASIDE})[\w.:+@-]{{1,100}}(?<!\.)"
        if not isinstance(self.name, str) or not re.fullmatch(name, self.name):
            raise UsageError(
                f"a method cannot be called {self.name!r}, since its name is that of a folder too: use letters, "
                "digits, - and _, and give what you want printed as its label"
            )
        for part in ("space", "settings", "changes"):
            given = getattr(self, part)
            if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
                raise UsageError(f"the {part} of method {self.name!r} is {given!r}: give a dictionary, name -> value")
        object.__setattr__(self, "settings", {name: _of_python(value) for name, value in self.settings.items()})
        for key, value in self.settings.items():
            if not isinstance(value, str | int | float | None):  # which no record holds
                raise UsageError(f"{key} of {self.name!r} is no number or word: use functools.partial(Loss, {key}=...)")
        for name, searched in self.space.items():
            if not isinstance(searched, Space):
                raise UsageError(
                    f"the space of method {self.name!r} has {searched!r} for {name}: give Float, Int or Choice"
                )
            if name in self.settings:
                raise UsageError(
                    f"{name} of method {self.name!r} is both searched and set: leave it out of one of them"
                )
        for part, fits, wanted in _FIELDS:
            if not fits(getattr(self, part)):
                raise UsageError(f"the {part} of method {self.name!r} is {getattr(self, part)!r}: give {wanted}")
        for field_, default in (("label", self.name), ("row", self.name)):
            if not getattr(self, field_):
                object.__setattr__(self, field_, default)

    def misfit(self, params: Mapping[str, float | str]) -> str | None:
        """Reason that these hyperparameters are no point of the space, part of a sentence; None where they are one."""
        if set(params) != set(self.space):
            return f"has the parameters {sorted(params)}, but {self.name} is searched over {sorted(self.space)}"
        for name, space in self.space.items():
            value, kind = params[name], "whole number" if isinstance(space, Int) else "number"
            if isinstance(space, Choice):
                if value not in space.values:
                    return f"has {name} = {value!r}, which is none of {', '.join(map(repr, space.values))}"
                continue
            if not space.low <= value <= space.high or (isinstance(space, Int) and value != int(value)):
                return f"has {name} = {value}, which is no {kind} from {space.low} to {space.high}"
        return None


_CLASSIFICATION = ("arcface", "cosface", "normalized_softmax", "proxy_nca_original", "proxy_triplet", "soft_triple")


def fixed_method(
    name: str,
    label: str,
    loss: str,
    reference: str,
    year: int,
    *,
    layout: tuple[int, int],
    kind: str | None = None,
    sampler: str | None = None,
    optimizer: str | None = None,
    changes: Mapping[str, Any] | None = None,
    **settings: float,
) -> Method:
    """A method of a paper that fixes all hyperparameters. layout: classes of a batch, and images of each."""
    return Method(
        name,
        loss,
        settings=settings,
        label=label,
        classes_per_batch=layout[0],
        images_per_class=layout[1],
        kind=kind or ("classification" if loss in _CLASSIFICATION else "embedding"),
        year=year,
        reference=reference,
        sampler=sampler,
        optimizer=optimizer,
        changes=changes or {},
    )


@dataclass(frozen=True)
class Level:
    """Value of what a sweep varies: its word, who has it, what it changes of the protocol, and its number if any."""

    name: str
    methods: tuple[Method, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)
    number: float | None = None


def levels(name: str, numbers: Iterable[float], methods: tuple[Method, ...], changed: str) -> tuple[Level, ...]:
    """The levels of a sweep that gives one setting of the protocol, `changed`, one number after another."""
    return tuple(Level(f"{name}{number:g}", methods, {changed: number}, float(number)) for number in numbers)


def batch_levels(sizes: Iterable[int], methods: tuple[Method, ...]) -> tuple[Level, ...]:
    """The levels of a sweep over the images of a batch; see `in_batches_of`."""
    return tuple(Level(f"batch{size}", in_batches_of(size, methods), number=float(size)) for size in sizes)


def row_name(row: str, level: str) -> str:
    """The name of a method at one level of a sweep, unique in its study."""
    return f"{row}@{level}"


def rows(sweep: Iterable[Level]) -> tuple[Method, ...]:
    """The rows of a sweep, as methods: every one at every value."""
    return tuple(
        replace(
            method,
            name=row_name(method.name, level.name),
            label=f"{method.label}, {level.name}",
            changes={**method.changes, **level.changes},
            row=method.name,
            level=level.name,
            level_number=level.number,
        )
        for level in sweep
        for method in level.methods
    )


def in_batches_of(size: int, methods: Iterable[Method]) -> tuple[Method, ...]:
    """The methods with as many classes as fill a batch of this size, where it holds what they learn from.

    That is two classes and, unless proxies stand for the other images, a positive and a negative of some image.
    """
    sized = ((method, size // method.images_per_class) for method in methods)
    return tuple(
        replace(method, classes_per_batch=classes)
        for method, classes in sized
        if classes >= 2 and (method.kind == "classification" or classes * method.images_per_class >= 3)
    )
