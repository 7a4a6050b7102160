"""Studies, protocols and budgets as plain data.

A protocol holds fixed what a fair comparison holds fixed, a budget says how much of it is run, and a study is both on a
data set, with its methods.
"""

import functools
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from dmlrc import data
from dmlrc.errors import UsageError, unknown
from dmlrc.methods import Method
from dmlrc.paths import ASIDE

TABLE, EXPERIMENT, RATES, COMPARISON = KINDS = ("table", "experiment", "rates", "comparison")
"""Kinds of study: methods compared; something varied around such a table; a grid of learning rates, on validation
classes alone; and methods of one's own beside a table, see `dmlrc.comparison`."""

TEST_METRICS = ("precision_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "r_precision", "map_at_r")
PRECISIONS = ("float32", "tf32", "bfloat16")
ONE_FOLD = "ratio_4_1_5"
"""The split whose validation classes are a part of their own, and no fold of a cross-validation."""
SPLITS = ("halves", ONE_FOLD, "official")
ARRAYS = ("histograms", "spectrum")
CLASS_ORDERS = ("default", "random")
_CHOICES = {
    "precision": PRECISIONS,
    "split": SPLITS,
    "lr_decay": ("none", "linear"),
    "augmentation": ("crop", "place", "affine", "none", "flip"),
}
_LEAST = {
    **dict.fromkeys(("embedding_dim", "image_size", "crop_size", "iterations_per_epoch", "eval_every", "members"), 1),
    **dict.fromkeys(("folds", "max_epochs", "patience", "warmup_epochs", "lr", "new_lr", "momentum"), 0),
    **dict.fromkeys(("weight_decay", "loss_weight_decay"), 0),
    "meta_classes": 2,
}
"""The settings that are one of some words, and the least that numbers may be."""
_MOST = {"embedding_dim": 65_536, "image_size": 4_096, "crop_size": 2_048}
"""The most that the memory of a machine bears."""
_MOST_SINGLE = 3e38
"""The most that single precision holds, in which an optimiser computes."""
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a word", NoneType: "None"}
_kinds, _args, _origin = map(functools.cache, (get_type_hints, get_args, get_origin))


def _check(owner: Any, called: str, least: Mapping[str, float]) -> None:
    """Raise UsageError for a field of another kind than it is declared, and for a number below its least."""
    for name, kind in _kinds(type(owner)).items():
        value = getattr(owner, name)
        if not _fits(value, kind):
            several = "a tuple, each " if _origin(kind) is tuple else ""
            words = " or ".join(_WORDS[part] for part in dict.fromkeys(_args(kind) or (kind,)) if part in _WORDS)
            raise UsageError(f"{name} of {called} is {value!r}: it is {several}{words}")
        most = _MOST.get(name, _MOST_SINGLE)
        if name in least and value is not None and not least[name] <= value <= most:
            upper = f"at most {most:,}" if name in _MOST else "finite in single precision"
            raise UsageError(f"{name} of {called} is {str(value)[:20]}: it is {least[name]} or more, and {upper}")


def _fits(value: object, kind: Any) -> bool:
    """Tell whether a value is of a kind, as a field declares it; true and false are no numbers."""
    kinds = _args(kind) or (kind,)
    if _origin(kind) is tuple:
        is_whole = isinstance(value, tuple) and (kinds[-1] is ... or len(value) == len(kinds))
        return is_whole and all(_fits(item, kinds[0]) for item in value)
    if isinstance(value, bool):
        return bool in kinds
    return isinstance(value, (*kinds, int) if float in kinds else kinds)


class OwnMetric(str):
    """A metric of the reader's own, as a protocol holds it: the word that records keep, NAME@CODE, and the function.

    Two of one word are one metric, in another process too. Made by `dmlrc.studies.with_metrics`.
    """

    def __new__(cls, word: str, function: Callable[..., float]):
        metric = super().__new__(cls, word)
        metric.function = function
        return metric

    def __getnewargs__(self):
        return str(self), self.function

    @property
    def name(self) -> str:
        """Name of its scores."""
        return own_metric(self)


def own_metric(word: str) -> str:
    """Name of a metric of the reader's own, by the word that records keep of it; "" for any other metric."""
    name, at, _ = word.partition("@")
    return name if at else ""


class TrunkInput(NamedTuple):
    """The settings of a protocol on which the cached features of a trunk depend, or its maps."""

    trunk: str
    weights: str | None
    frozen_trunk: bool
    image_size: int
    crop_size: int
    augmentation: str
    square: str
    train_from: str | None = None


@dataclass(frozen=True, kw_only=True)
class TrunkSettings:
    """Settings of what turns an image into an embedding. Sizes in pixels.

    weights: None (random), "imagenet", or a file (relative to the data folder).
    frozen_trunk: its features are computed once, on the evaluation crop (and its mirror image, if the augmentation is
    "flip"), and only the embedder trains.
    train_from: the layer from which on the trunk trains, see `dmlrc.models.split_trunk`; what comes before it is
    computed once for every image, so that the augmentation is "flip" or "none". None: all of it, or nothing if
    frozen_trunk.
    embedding_dim: None leaves the linear layer out: the trunk's features are the embedding.
    layer_norm: see `EmbeddingModel`.
    square: how a photograph becomes square when it is stored, "crop" or "squash".
    precision: of what trains of a trunk on a GPU: "float32"; "tf32", in which the factors of convolutions have ten
    bits; or "bfloat16". A CPU knows float32 alone.
    """

    trunk: str
    weights: str | None
    frozen_trunk: bool
    train_from: str | None = None
    freeze_batch_norm: bool = True
    embedding_dim: int | None
    layer_norm: bool = False
    image_size: int
    crop_size: int
    square: str = "crop"
    precision: str = "float32"


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """Settings of the images that a step sees, and of how they are changed.

    augmentation: "crop" is the random resized crop, "place" a random place for a crop that keeps its size (both
    flipped where the data set allows it), "affine" the small affine changes for characters, "none" the evaluation
    crop, "flip" that crop, flipped where the data set allows it.
    crop_scale, crop_ratio: of the random resized crop, its share of the area and width over height, from and to.
    sampler: one of `dmlrc.data.batches.SAMPLERS`; a method may have its own.
    class_share: of all classes, how many a step's softmax sees.
    """

    augmentation: str
    crop_scale: tuple[float, float]
    crop_ratio: tuple[float, float]
    sampler: str = "class_balanced"
    class_share: float = 1.0


@dataclass(frozen=True, kw_only=True)
class OptimisationSettings:
    """Settings of how weights change, and for how long. Rates and decays are those of a step.

    new_lr: the rate of the embedder and of the loss's weights, where it differs from lr; a method may have its own for
    the loss's weights. loss_weight_decay: of the loss's weights, where it differs from weight_decay.
    iterations_per_epoch: batches; None: as many as the training images fill.
    eval_every, patience, max_epochs, warmup_epochs, lr_steps: in epochs.
    warmup_epochs: before all others, in which the trunk's weights stay.
    lr_steps: after each of these epochs all rates are divided by 10. lr_decay: "none", or "linear" for rates that fall
    by the same amount after every epoch and would be 0 after max_epochs.
    """

    optimizer: str
    lr: float
    new_lr: float | None = None
    weight_decay: float
    loss_weight_decay: float | None = None
    momentum: float
    iterations_per_epoch: int | None
    eval_every: int
    patience: int
    max_epochs: int
    warmup_epochs: int = 0
    lr_steps: tuple[int, ...] = ()
    lr_decay: str = "none"


@dataclass(frozen=True, kw_only=True)
class SplitSettings:
    """Settings of the classes that train, validate and test, and of the number of models.

    split: "halves", "official" (the data set's own classes), "ratio_4_1_5"; see `dmlrc.data.splits`.
    folds: of the cross-validation; 0: no validation, one model trains on all training classes for max_epochs and its
    last weights count.
    members, meta_classes: DREML, see `dmlrc.data.splits.meta_labels`.
    """

    split: str = "halves"
    folds: int
    members: int = 1
    meta_classes: int | None = None

    @property
    def validates(self) -> bool:
        """Tell whether classes are held out, on which checkpoints and trials are chosen."""
        return self.folds > 0


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """Settings of what is recorded.

    test_metrics: on the test classes, one's own as `OwnMetric`. val_metrics (map_at_r among them): on the validation
    classes, after every eval_every epochs. train_metrics: on the training images, then and at the end.
    binary: retrieval by Hamming distance of the signs too.
    arrays: of ("histograms", "spectrum"), see `dmlrc.evaluation.arrays_of`.
    per_class: MAP@R and P@1 of every test class.
    """

    test_metrics: tuple[str, ...] = TEST_METRICS
    val_metrics: tuple[str, ...] = ("map_at_r", "precision_at_1")
    train_metrics: tuple[str, ...] = ()
    binary: bool = False
    arrays: tuple[str, ...] = ()
    per_class: bool = False


@dataclass(frozen=True, kw_only=True)
class Protocol(EvaluationSettings, SplitSettings, OptimisationSettings, BatchSettings, TrunkSettings):
    """Every setting that all methods share: each stands, under one name, in the group that it belongs to.

    The settings with defaults are those of the other papers; the defaults are what the Reality Check does.
    """

    name: str
    paper: str

    def __post_init__(self):
        called = f"protocol {self.name}"
        if callable(self.sampler):
            raise UsageError(f"sampler of {called} is no word: give one of your own as `Method(..., sampler=SAMPLER)`")
        if isinstance(self.test_metrics, tuple) and (functions := list(filter(callable, self.test_metrics))):
            raise UsageError(
                f"{functions[0]!r} among the metrics of {called} is no name: for a metric of your own, "
                "take `dmlrc.studies.with_metrics(study, NAME, metric)`"
            )
        _check(self, called, _LEAST)
        _check_choices(self)
        if not self.test_metrics:
            raise UsageError(f"test_metrics of {called} are none, so that no score is recorded: name some")
        for name, most in (("crop_scale", 1), ("crop_ratio", math.inf)):
            low, high = getattr(self, name)
            if not 0 < low <= high <= most or math.isinf(high):
                limit = f", at most {most}" if most == 1 else ""
                raise UsageError(f"{name} of {called} is from {low} to {high}: it rises, above 0{limit}")
        if any(epoch < 1 for epoch in self.lr_steps):
            raise UsageError(f"lr_steps of {called} are {self.lr_steps}: they are epochs, from 1")
        if not 0 < self.class_share <= 1:
            raise UsageError(f"class_share of {called} is {self.class_share}: it is above 0 and at most 1")
        if self.validates and "map_at_r" not in self.val_metrics:
            raise UsageError(f"val_metrics of {called} lack map_at_r, by which trials are chosen: add it")
        if self.split == ONE_FOLD and self.folds > 1:
            raise UsageError(f"split {ONE_FOLD!r} of {called} has one fold, not {self.folds}: set folds = 1")
        if self.validates and not self.max_epochs:
            raise UsageError(f"max_epochs of {called} is 0, and nothing to validate is trained: take 1 or more")
        if self.frozen_trunk and self.embedding_dim is None and self.max_epochs:
            raise UsageError(f"{called} trains neither trunk nor embedder: set embedding_dim, or max_epochs = 0")
        if self.train_from and self.frozen_trunk:
            raise UsageError(f"{called} freezes the trunk and trains it from {self.train_from}: choose one")
        if self.train_from and self.augmentation not in ("flip", "none"):
            raise UsageError(
                f"{called} trains from {self.train_from} on, on maps that are computed once: its "
                f"augmentation is 'flip' or 'none', not {self.augmentation!r}"
            )

    @property
    def computes_once(self) -> bool:
        """Tell whether something of the trunk, or all of it, is computed once for each image."""
        return self.frozen_trunk or self.train_from is not None

    @property
    def trunk_input(self) -> TrunkInput:
        return TrunkInput(*(getattr(self, name) for name in TrunkInput._fields))


def default_settings() -> dict[str, Any]:
    """The protocol's settings that have a default, with it: what a record that is older than a setting means by it."""
    return {setting.name: setting.default for setting in fields(Protocol) if setting.default is not MISSING}


def _check_choices(protocol: Protocol) -> None:
    """Raise UsageError for a word that a setting does not know."""
    for name, known in _CHOICES.items():
        if getattr(protocol, name) not in known:
            raise unknown(name, getattr(protocol, name), known)
    if strange := [name for name in protocol.arrays if name not in ARRAYS]:
        raise unknown("array", strange[0], ARRAYS)


@dataclass(frozen=True)
class Budget:
    """Amount of a protocol that is run: trials a search, reruns of the best trial, and a cap on the epochs.

    No trials: the methods' fixed settings are the parameters, and the reruns are all that is run.
    """

    name: str
    trials: int
    reruns: int
    max_epochs: int | None = None
    iterations_per_epoch: int | None = None

    def __post_init__(self):
        least = {"trials": 0, "reruns": 0, "max_epochs": 0, "iterations_per_epoch": 1}
        _check(self, f"budget {self.name}", least)

    @property
    def base(self) -> str:
        """The name of the budget that it is, or below which it is."""
        return self.name.removeprefix(BELOW)


BELOW = "below "
"""Begins the name of a budget that has fewer trials or reruns than the one named after it: no claim rests on it."""
FULL = Budget("full", trials=50, reruns=10)
FIXED = Budget("full", trials=0, reruns=5)  # of the papers that fix all settings
QUICK = Budget("quick", trials=3, reruns=2, max_epochs=2, iterations_per_epoch=15)
SMOKE = Budget("smoke", trials=2, reruns=2, max_epochs=1, iterations_per_epoch=3)


_PART = r"\w[\w.:+@-]*"
RESERVED = ("published", "quick", "index", "search", "genindex", "measured")
"""Names of editions, of pages that every book has, and of the folder of `dmlrc.paths.measured`."""


def check_study_name(name: str, pattern: str, longest: int = 200) -> None:
    """Raise UsageError for what no study can be called. longest: bytes, of which a disk knows 255 in a row."""
    if not isinstance(name, str) or not re.fullmatch(pattern, name):
        raise UsageError(f"study {name!r} names a folder too: take a name of letters, digits, - and _, the first no -")
    if len(name.encode()) > longest:
        raise UsageError(f"study {name!r} names a folder too, and is longer than {longest} bytes: take a shorter name")
    if any(part.startswith(ASIDE) for part in name.split("/")):
        raise UsageError(f"study {name!r} names a folder too, and {ASIDE}… are those of records set aside: rename it")
    if name in RESERVED:
        raise UsageError(f"a study cannot be called {name!r}, an edition, page or folder of all books: choose another")


@dataclass(frozen=True)
class Study:
    """Protocol on a data set, with methods and a budget. Its name is all that a reader needs to rerun it.

    class_order: "default" (the data set's own) or "random" (seeded by seed).
    repetitions: how often the whole search and its reruns are done, each time with another seed, on the same splits.
    kind: one of `KINDS`. parent: the table around which it stands, or whose rates were tried; experiment: its id there,
    such as "roth2020/samplers".
    expected: the time that the whole study takes, and on what; shown by `dmlrc study list`.
    """

    name: str
    dataset: str
    protocol: Protocol
    budget: Budget
    methods: tuple[Method, ...] = field(repr=False)
    seed: int = 0
    class_order: str = "default"
    repetitions: int = 1
    kind: str = TABLE
    parent: str | None = None
    experiment: str | None = None
    expected: str = ""

    def __post_init__(self):
        check_study_name(self.name, rf"{_PART}(/{_PART})*")
        for name, least in (("seed", 0), ("repetitions", 1)):
            value = getattr(self, name)
            if not _fits(value, int) or value < least:
                raise UsageError(f"{name} of study {self.name} is {value!r}: it is a whole number, {least} or more")
        if self.kind not in KINDS:
            raise unknown("kind", self.kind, KINDS)
        if self.class_order not in CLASS_ORDERS:
            raise unknown("class_order", self.class_order, CLASS_ORDERS)
        if self.budget.trials > 1 and not self.protocol.validates:
            raise UsageError(f"study {self.name} searches without validation: give it no trials, or folds")

    @functools.cached_property
    def effective_protocol(self) -> Protocol:
        """The protocol with the budget's caps applied: what is really run."""
        caps = {
            name: cap if (value := getattr(self.protocol, name)) is None else min(cap, value)
            for name in ("max_epochs", "iterations_per_epoch")
            if (cap := getattr(self.budget, name)) is not None
        }
        return replace(self.protocol, **caps)

    def around(self, experiment: str, methods: Iterable[Method], kind: str = EXPERIMENT, **changes: Any) -> "Study":
        """The study `NAME/experiment` around this one: with other methods, and these fields changed."""
        own = {"name": f"{self.name}/{experiment}", "kind": kind, "parent": self.name, "experiment": experiment}
        return replace(self, methods=tuple(methods), **own | changes)

    def rates(self, experiment: str, methods: Iterable[Method], trials: int = 1, **changes: Any) -> "Study":
        """The study around this one that judges learning rates: each method's trials, once, on validation classes."""
        budget = replace(self.budget, name="rate", trials=trials, reruns=0)
        return self.around(experiment, methods, kind=RATES, budget=budget, repetitions=1, **changes)

    @property
    def is_cut(self) -> bool:
        """Tell whether it may ask for fewer trials than are recorded, which are cut to these where they are read."""
        return self.kind in (COMPARISON, RATES)

    @property
    def units(self) -> int:
        """Number of trials and reruns, and the pretrained trunk, except in what chooses a learning rate."""
        of_methods = self.repetitions * len(self.methods) * (self.budget.trials + self.budget.reruns)
        return of_methods + (self.kind != RATES)

    def method(self, name: str) -> Method:
        """The method of this name."""
        for method in self.methods:
            if method.name == name:
                return method
        raise unknown(f"method of study {self.name}", name, [method.name for method in self.methods])

    def protocol_of(self, method: Method | None) -> Protocol:
        """Protocol that is really run of a method; None: of the pretrained trunk.

        Raises UsageError for a method that changes what no protocol has, or is searched without validation.
        """
        changes, settings = method.changes if method else {}, [setting.name for setting in fields(Protocol)]
        if strange := [name for name in changes if name not in settings]:
            raise unknown("setting of a protocol", strange[0], settings)
        # a list as a tuple: a protocol has to be hashable
        own = {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()}
        protocol = replace(self.effective_protocol, **own) if own else self.effective_protocol
        if self.budget.trials > 1 and not protocol.validates:
            raise UsageError(f"method {method.name} is searched without validation: change its folds to 1 or more")
        return protocol

    def configuration(self) -> dict:
        """Everything that a record depends on, but its method, as plain data."""
        return {
            "study": self.name,
            "kind": self.kind,
            "parent": self.parent,
            "experiment": self.experiment,
            "dataset": self.dataset,
            "protocol": asdict(self.effective_protocol),
            "budget": asdict(self.budget),
            "repetitions": self.repetitions,
            "seed": self.seed,
            "class_order": self.class_order,
            "contents": self.contents,
        }

    @functools.cached_property
    def contents(self) -> str | None:
        """Digest of the images, where they are one's own: see `dmlrc.data.contents`."""
        return data.contents(self.dataset)

    @functools.cached_property
    def digest(self) -> str:
        """See `digest`."""
        return digest(self.configuration())


def digest(configuration: Mapping[str, Any]) -> str:
    """A short hash of what all units of a study depend on.

    configuration: `Study.configuration`, or the meta of records. How many trials and reruns there are is no part of it.
    A setting of the protocol at its default is left out, so that one that is introduced later changes no digest.
    """
    settings, defaults = (json.loads(json.dumps(part)) for part in (configuration, default_settings()))
    parts = {name: settings[name] for name in ("study", "dataset", "seed", "class_order")}
    if settings.get("contents"):  # of one's own images
        parts["contents"] = settings["contents"]
    parts["protocol"] = {
        name: value for name, value in settings["protocol"].items() if name not in defaults or value != defaults[name]
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
