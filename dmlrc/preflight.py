"""Checks before anything trains: of names, of data that is too small, of a loss on random batches."""

import functools
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from dmlrc import data, models, papers, paths
from dmlrc.building import build_loss, checked_value, failing, normalized
from dmlrc.data import ImageSet
from dmlrc.data.batches import create_sampler
from dmlrc.data.splits import Splits
from dmlrc.errors import LossError, MissingDataError, UsageError, unknown
from dmlrc.inputs import device, load_images, make_trunk, split
from dmlrc.losses.subsampling import SubsampledClasses
from dmlrc.methods import LEARNING_RATE, LOSS_WEIGHTS_LR, PRETRAINED, Choice, Int, Method, Space
from dmlrc.models import l2_normalize
from dmlrc.models.files import TIMM
from dmlrc.models.settings import defaults
from dmlrc.protocol import Protocol, Study
from dmlrc.records import fingerprint
from dmlrc.training import batch_layout, chance_of_its_own, check_batches, check_choices, check_pairs, seed_all

BATCHES = 3


def check_names(study: Study, methods: Sequence[Method]) -> None:
    """Raise UsageError for a method with the name of another one of the study, of the papers, or of these methods."""
    known = {}
    for method in (*(method for paper in papers.ALL for method in paper.methods), *study.methods):
        known.setdefault(method.name, []).append(fingerprint.fingerprint_of(method))
    for name, count in Counter(method.name for method in methods).items():
        if count > 1:
            raise UsageError(f"{count} methods are called {name!r}: give each a name of its own")
    for method in methods:
        if method.name == PRETRAINED:
            raise UsageError(f"a method cannot be called {PRETRAINED!r}: that is the row of the untrained trunk")
        check_choices(method, study.protocol_of(method))
        if not callable(method.loss):  # a name, and those of its hyperparameters: told before anything is computed
            build_loss(method, next(_points(method))[1], 2, 2)
        if method.name in known and fingerprint.fingerprint_of(method) not in known[method.name]:
            raise UsageError(
                f"there is another method {method.name!r}, whose records yours would mix with: give yours another name"
            )


def too_small(study: Study, methods: Sequence[Method], named: bool = False) -> dict[str, str]:
    """Sentences on the methods that the data has no room for, in splits and batches, or whose loss the protocol cannot
    train, by their names.

    Raises UsageError where none fits, or, of methods that were named by the user, not all.
    """
    images, reasons = load_images(study.dataset, study.effective_protocol), {}
    for method in methods:
        protocol = study.protocol_of(method)
        try:
            _check_trunk(method, protocol)
            splits = split(images, protocol, study.class_order, study.seed)
            check_batches(method, protocol, images.labels, splits, study.methods)
            check_pairs(images.labels, splits, protocol.validates)
            _check_sampler(method, images.labels, splits)
            if protocol.class_share < 1:
                SubsampledClasses(build_loss(method, next(_points(method))[1], 2, 2), protocol.class_share)
        except (UsageError, MissingDataError) as error:
            reasons[method.name] = str(error)
    if reasons and (named or len(reasons) == len(methods)):
        name, reason = next(iter(reasons.items()))
        raise UsageError(f"{name} does not fit study {study.name!r} on data set {study.dataset!r}: {reason}")
    return {name: f"{study.name}: {name} is left out, {reason}" for name, reason in reasons.items()}


def check_trunk(study: Study) -> None:
    """Raise DmlrcError for a trunk that cannot be made, or cut. Of a data set of features nobody makes it."""
    if isinstance(load_images(study.dataset, study.effective_protocol), ImageSet):
        with chance_of_its_own():
            make_trunk(study.effective_protocol)


def _check_trunk(method: Method, protocol: Protocol) -> None:
    """Raise UsageError for a trunk that there is not, MissingDataError for its file, where the method changes it."""
    if not {"trunk", "weights"} & method.changes.keys():
        return
    if protocol.trunk.startswith(TIMM):
        models.from_timm.image_size(protocol.trunk)
    elif protocol.trunk not in models.names():
        raise unknown("trunk", protocol.trunk, [*models.names(), f"{TIMM}NAME"])
    if protocol.weights not in (None, "imagenet", "package"):
        models.find_weights(protocol.weights)


def _check_sampler(method: Method, labels: np.ndarray, splits: Splits) -> None:
    """Raise UsageError for a sampler of one's own that gives other batches from the same seeds. labels: (N,)."""
    if not callable(method.sampler):
        return
    classes, targets = np.unique(labels[splits.folds[0].train], return_inverse=True)
    drawn = []
    for _ in range(2):
        with chance_of_its_own(), failing(method, "sampler"):
            seed_all(0)
            sampler = create_sampler(method.sampler, targets, *batch_layout(method, len(classes)), 0, targets.copy)
            drawn.append([sampler.draw(1) for _ in range(BATCHES)])
    if not np.array_equal(*drawn):
        raise UsageError(
            f"the sampler of method {method.name!r} gives other batches from the same seeds: draw from the generator "
            "that it is given"
        )


@defaults()
def check_method(method: Method, study: Study) -> list[str]:
    """Build the loss of a method and call it, as a study would, and return what its author should know, in sentences.

    It is built at both ends and in the middle of its space, and called on random embeddings in batches of the method's
    layout, on the CPU and on the device that will train it.

    Raises UsageError, with the line where it is known, for a loss that cannot be made, fails, returns no scalar that
    can be trained, gives no finite number anywhere, or changes what it reads of its own file.
    """
    remarks, broken = [], []
    points, protocol = dict(_points(method)), study.protocol_of(method)
    classes = _training_classes(study, protocol) or 2 * method.classes_per_batch
    check_trains(method, protocol, classes)
    for where, params in points.items():
        for place in dict.fromkeys((torch.device("cpu"), device())):
            loss, values, gradients = _called(method, params, protocol, classes, place)
            if not all(map(torch.isfinite, [*values, *gradients])):
                broken.append(where)
    if set(broken) == set(points):
        raise UsageError(
            f"the loss of method {method.name!r}, or its gradient, is NaN or infinite on every batch of random "
            "embeddings"
        )
    if broken:
        where = " and ".join(dict.fromkeys(broken))
        remarks.append(f"it, or its gradient, is NaN or infinite at {where}: trials there will count as diverged")
    if not method.space and study.budget.trials > 1:
        remarks.append(
            f"its space is empty, so that all {study.budget.trials} trials of a search are one setting, and "
            "noise alone picks the best: name what is to be searched"
        )
    return [f"{method.label}: {remark}." for remark in [*remarks, *_rate(method, loss, study)]]


def check_trains(method: Method, protocol: Protocol, classes: int) -> None:
    """Raise LossError for a loss whose gradient is 0 on every random batch, in the middle and at the ends of its space,
    that changes what it reads of its own file, that gives other numbers from the same seeds, or that reads other files.

    classes: that train. A loss that fails is not looked at: training says so itself.
    """
    before, place = fingerprint.description(method.loss), torch.device("cpu")
    known, noted = fingerprint.files(method.loss), _reading().set(opened := [])
    try:
        for _, params in _points(method):
            (_, *first), (_, *second) = (_called(method, params, protocol, classes, place) for _ in range(2))
            if torch.stack(first[1]).any():  # NaN too, which is another fault
                break
    except UsageError:
        return
    finally:
        _reading().reset(noted)
    _check_read(method, opened, known)
    if changed := fingerprint.first_change(before, fingerprint.description(method.loss)):
        raise LossError(
            f"the loss of method {method.name!r} changes {changed} of its own file when it is called, and so becomes "
            "another loss than the one that is recorded: keep such state inside a class, which every run makes anew"
        )
    if not torch.equal(*(torch.stack([*numbers[0], *numbers[1]]).nan_to_num() for numbers in (first, second))):
        raise LossError(
            f"the loss of method {method.name!r} gives other numbers from the same seeds: take its chance from torch, "
            "numpy.random or random themselves, which every run seeds, and keep its state inside a class"
        )
    if not torch.stack(first[1]).any():
        raise LossError(
            f"the loss of method {method.name!r} trains nothing: its gradient is 0 on every batch of random "
            "embeddings, in the middle and at both ends of its space"
        )


@functools.cache
def _reading() -> ContextVar[list[str] | None]:
    """Make the variable whose list a thread's opened files are added to; once, for an audit hook cannot be removed."""
    variable: ContextVar[list[str] | None] = ContextVar("reading", default=None)

    def note(event: str, arguments: tuple, writing: int = os.O_WRONLY) -> None:
        if event == "open" and (names := variable.get()) is not None and isinstance(arguments[0], str):
            names += [] if arguments[2] & writing else [arguments[0]]

    sys.addaudithook(note)
    return variable


def _check_read(method: Method, opened: Sequence[str], known: Mapping[str, Mapping]) -> None:
    """Raise LossError for a file of the reader's that a loss reads or imports, but for those known to its records."""
    of_code = (names.get("__file__") or "" for names in (*known.values(), vars(sys.modules["__main__"])))
    listed = {os.path.realpath(file) for file in of_code}
    files = [re.sub(r"__pycache__.(\w+)\.[^/]*pyc$", r"\1.py", name) for name in opened]
    if not (unseen := [file for file in files if _is_readers(file) and os.path.realpath(file) not in listed]):
        return
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) in unseen:
            del sys.modules[name]  # that the next look sees its import too
    raise LossError(
        f"the loss of method {method.name!r} reads {unseen[0]} when it is made or called, and its records could not "
        "tell when that file changes: read or import it outside the loss, into a variable that the loss uses"
    )


def _is_readers(file: str) -> bool:
    """Tell whether a file is the reader's, and not of Python, a package, the system, or a cache."""
    path = Path(file).resolve()
    others = (sys.prefix, sys.base_prefix, "/dev", "/etc", "/proc", "/sys", "/usr")
    hidden = any(part.startswith((".", "__pycache__", "torchinductor_")) for part in path.parts)
    return path.is_file() and paths.is_own(file) and not hidden and not any(map(path.is_relative_to, others))


def _called(
    method: Method, params: Mapping[str, float], protocol: Protocol, number: int, place: torch.device
) -> tuple[nn.Module, list[Tensor], list[Tensor]]:
    """The loss for so many classes, its values, and for each the sum of its gradients' sizes, of a few batches."""
    classes, images = batch_layout(method, number)
    if images == 1 and (method.sampler or protocol.sampler) != "class_balanced":
        classes, images = (classes + 1) // 2, 2  # batches of any images, which now and then have two of one class
    classes = min(classes, number)  # where these are too few for the method's batches, `dmlrc.run.run` says so
    dim = protocol.embedding_dim or 64  # where the features are the embedding, any size will do
    generator = torch.Generator().manual_seed(0)
    batch = f" on a batch of {classes} x {images} embeddings of {dim} numbers"
    with chance_of_its_own(), failing(method, "loss", batch):
        seed_all(0)
        loss = build_loss(method, params, number, dim).to(place)
        values, gradients = [], []
        for _ in range(BATCHES):
            embeddings = torch.randn(classes * images, dim, generator=generator)
            embeddings = (l2_normalize(embeddings) if normalized(method) else embeddings).to(place).requires_grad_()
            others = torch.randperm(number - 1, generator=generator)[: classes - 1]
            chosen = torch.cat([torch.tensor([number - 1]), others])  # the last class, for a table that is too small
            labels = chosen.repeat_interleave(images).to(place)
            value = checked_value(method.name, embeddings._version, loss(embeddings, labels), embeddings)
            (gradient,) = torch.autograd.grad(value, embeddings, allow_unused=True)
            values.append(value.detach().cpu())
            gradients.append(torch.zeros(()) if gradient is None else gradient.abs().sum().cpu())
    return loss, values, gradients


def _training_classes(study: Study, protocol: Protocol) -> int | None:
    """Number of classes a run trains on, the most of all folds; None where only the images would tell."""
    if protocol.meta_classes:
        return protocol.meta_classes
    if study.dataset.startswith("folder:") or protocol.split == "official":
        return None
    labels = np.arange(data.extent(study.dataset)[1])
    unread = ImageSet(study.dataset, np.empty((len(labels), 0)), labels, (), flip=True)
    return max(len(fold.train) for fold in split(unread, protocol, study.class_order, study.seed).folds)


def _points(method: Method) -> Iterator[tuple[str, dict[str, float]]]:
    """The middle and both ends of a space, each with its words, and every choice in it."""
    ends = {"the lower ends of its space": 0.0, "the middle of its space": 0.5, "the upper ends of its space": 1.0}
    for words, share in ends.items() if method.space else {"its settings": 0.0}.items():
        yield words, {name: _between(space, share) for name, space in method.space.items()}
    middle = {name: _between(space, 0.5) for name, space in method.space.items()}
    for name, space in method.space.items():
        for value in space.values if isinstance(space, Choice) else ():
            yield f"{name} = {value!r}", {**middle, name: value}


def _between(space: Space, share: float) -> float | str:
    if isinstance(space, Choice):
        return space.values[round(share * (len(space.values) - 1))]
    if space.log:
        return space.low ** (1 - share) * space.high**share
    value = space.low + share * (space.high - space.low)
    return round(value) if isinstance(space, Int) else value


def _rate(method: Method, loss: nn.Module, study: Study) -> list[str]:
    """Remark that the rate of a loss's own weights is not searched, with the range in which the papers' methods do."""
    if not list(loss.parameters()) or {LOSS_WEIGHTS_LR, LEARNING_RATE} & {*method.space, *method.settings}:
        return []
    spaces = [method.space for paper in papers.ALL for method in paper.methods]
    searched = [space[LOSS_WEIGHTS_LR] for space in spaces if LOSS_WEIGHTS_LR in space]
    protocol = study.protocol_of(method)
    rate = protocol.lr if protocol.new_lr is None else protocol.new_lr
    low, high = min(limits.low for limits in searched), max(limits.high for limits in searched)
    return [
        f"it has weights of its own, whose rate is not searched and stays that of the embedder, {rate:g}; "
        f"the methods of the book search it, as dmlrc.methods.LOSS_WEIGHTS_LR, from {low:g} to {high:g} in logarithms"
    ]
