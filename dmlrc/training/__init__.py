"""Training the models of a trial: one a fold, each with its own images, seed and random numbers."""

import itertools
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dmlrc import metrics
from dmlrc.building import build_loss, checked_value, failing, normalized
from dmlrc.data import batches
from dmlrc.data.batches import FromMemory
from dmlrc.data.splits import Splits, meta_labels
from dmlrc.errors import DivergedError, LossError, UsageError, unknown
from dmlrc.inputs import Source
from dmlrc.losses.subsampling import SubsampledClasses
from dmlrc.methods import LEARNING_RATE, LOSS_WEIGHTS_LR, Method
from dmlrc.models import EmbeddingModel, l2_normalize
from dmlrc.protocol import OptimisationSettings, OwnMetric, Protocol
from dmlrc.training import optimizers

EVAL_BATCH = 128


@dataclass(frozen=True)
class FoldRun:
    """Settings that tell the runs of a trial apart: fold, seed, and images (indices into the source)."""

    fold: int
    seed: int
    train: np.ndarray
    val: np.ndarray
    targets: np.ndarray | None = None  # (len(train),) int, what the loss sees in the place of their labels


@dataclass
class TrainingRun:
    """Outcome of one training run.

    curve: one row an evaluation (step, mean training loss since the last row, metrics on the validation fold, and as
    "train_..." on the training images).
    stopped: "plateau", "limit" or "diverged"; reason: one sentence where it diverged.
    weights: the best checkpoint by validation MAP@R, without validation the last; None where the run diverged.
    """

    fold: int
    seed: int
    state: str = "complete"
    stopped: str = "limit"
    reason: str = ""
    best_step: int = 0
    steps: int = 0
    seconds: float = 0.0
    val: dict[str, float] = field(default_factory=dict)
    curve: list[dict[str, float]] = field(default_factory=list)
    weights: dict[str, Tensor] | None = field(default=None, repr=False)

    def keep(self, model: nn.Module, val: dict[str, float]) -> None:
        """Make this model, with these validation scores, the checkpoint."""
        self.best_step, self.val = self.steps, val
        self.weights = {name: tensor.cpu().clone() for name, tensor in model.state_dict().items()}


@dataclass(frozen=True)
class Task:
    """Settings that the runs of a trial share: a method with its hyperparameters, the images, and how it is trained."""

    method: Method
    params: dict[str, float]
    source: Source
    labels: np.ndarray  # (N,) of all images
    make_model: Callable[[], EmbeddingModel]
    protocol: Protocol


def train(folds: Sequence[FoldRun], task: Task) -> list[TrainingRun]:
    """Train a model on each fold until its validation MAP@R has not risen for over `patience` epochs; keep the best.

    Without validation, train for `max_epochs` and keep the last weights. A run whose loss or embeddings are not finite
    ends as diverged, and is the last: it fails the whole trial.

    Models on cached features are trained side by side, with one backward pass and one step of the optimiser for all of
    them, which takes a quarter less time than one after another. Their numbers stay what they are alone, but for losses
    that draw random numbers, of which all have one stream.

    Parameters
    ----------
    folds : sequence of FoldRun
    task : Task

    Returns
    -------
    TrainingRun of each fold, up to the first that diverged

    Raises
    ------
    UsageError
        For a loss, a sampler or a metric that cannot be made or called; LossError for a loss that fails on a batch.
    """
    runs: list[TrainingRun] = []
    for together in [folds] if task.protocol.frozen_trunk else [[fold] for fold in folds]:
        own = [TrainingRun(fold.fold, fold.seed) for fold in together]
        try:
            with chance_of_its_own():
                _train(own, together, task)
        except DivergedError:
            finished = [run for run in own if run.stopped == "plateau"]
            return runs + finished + [run for run in own if run.state == "diverged"]
        runs += own
    return runs


def seed_all(seed: int) -> None:
    """Seed every global generator that a loss can reach: torch's, NumPy's and Python's."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


@contextmanager
def chance_of_its_own() -> Iterator[None]:
    """Give the caller torch's, NumPy's and Python's generators back as they were."""
    states = np.random.get_state(), random.getstate()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        np.random.set_state(states[0])
        random.setstate(states[1])


def _train(runs: Sequence[TrainingRun], folds: Sequence[FoldRun], task: Task) -> None:
    protocol, clock = task.protocol, time.perf_counter()
    learners = [Learner(run, fold, task) for run, fold in zip(runs, folds, strict=True)]
    trainer = Trainer(learners, task)
    trainer.warm_up(protocol.warmup_epochs)
    for epoch in range(1, protocol.max_epochs + 1):
        trainer.run_epoch(learners, epoch)
        if epoch % protocol.eval_every == 0 or epoch == protocol.max_epochs:
            for learner in learners:
                learner.evaluate()
        now = time.perf_counter()
        for learner in learners:
            learner.run.seconds += (now - clock) / len(learners)
        clock = now
        learners = [learner for learner in learners if learner.run.stopped != "plateau"]
        if not learners:
            return
    if not protocol.validates:
        for learner in learners:
            learner.keep_last()


class Learner:
    """A model in training on a fold, with what is its own: loss, batches, random numbers."""

    def __init__(self, run: TrainingRun, fold: FoldRun, task: Task):
        self.run, self.fold, self.task = run, fold, task
        method, protocol, device = task.method, task.protocol, task.source.device
        targets = task.labels[fold.train] if fold.targets is None else fold.targets
        classes, targets = np.unique(targets, return_inverse=True)  # renumbered from 0 for the loss
        self.targets = torch.from_numpy(targets).to(device)
        seed_all(fold.seed)
        self.model = task.make_model().to(device)
        self.model.normalize = normalized(method)
        with failing(method, "loss"):
            self.loss = build_loss(method, task.params, len(classes), self.model.embedding_dim).to(device)
        if protocol.class_share < 1:
            self.loss = SubsampledClasses(self.loss, protocol.class_share)
        self.trunk = [weight for weight in self.model.trunk.parameters() if weight.requires_grad]
        self.losses: list[Tensor] = []  # of the steps since the last row of the curve

        layout = batch_layout(method, len(classes))
        sampler, rng = method.sampler or protocol.sampler, np.random.default_rng(fold.seed)
        with self.watched(), failing(method, "sampler"):
            self.sampler = batches.create_sampler(
                sampler, targets, *layout, rng, lambda: self.embed(fold.train).cpu().numpy()
            )
        self.iterations = protocol.iterations_per_epoch or max(1, len(targets) // (layout[0] * layout[1]))
        self.generator = torch.Generator(device).manual_seed(fold.seed)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """A DivergedError in this block is that of this run."""
        try:
            yield
        except DivergedError as error:
            run = self.run
            run.state, run.stopped, run.reason, run.weights = "diverged", "diverged", str(error), None
            raise

    def batches(self, iterations: int) -> Iterator[tuple[np.ndarray, Tensor, Tensor]]:
        """Yield of each batch positions in the fold's training images (B,), the model's input (B, ...), targets (B,).

        Many batches are drawn and looked up at once, which takes a fraction of the time.
        """
        for start in range(0, iterations, self.sampler.ahead):
            with failing(self.task.method, "sampler"):
                drawn = self.sampler.draw(min(self.sampler.ahead, iterations - start))  # (T, B)
            inputs = self.task.source.train(self.fold.train[drawn], self.generator)
            targets = self.targets[torch.from_numpy(drawn).to(self.targets.device)]  # (T, B)
            yield from zip(drawn, inputs, targets.unbind(), strict=True)

    def value(self, embeddings: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch: (B, D), (B,) -> scalar. Raises UsageError where a loss of one's own fails."""
        method = self.task.method
        with self.watched():
            try:
                with failing(method, "loss", " on a batch of {} embeddings of {} numbers".format(*embeddings.shape)):
                    value = checked_value(method.name, embeddings._version, self.loss(embeddings, targets), embeddings)
            except LossError as error:
                if torch.isfinite(embeddings.data).all():
                    raise
                raise DivergedError("the embeddings hold NaN or infinite values") from error
        self.losses.append(value.detach())
        return value

    def embed(self, images: np.ndarray) -> Tensor:
        return embed_images(self.model, self.task.source, images)

    def check_losses(self) -> None:
        with self.watched():
            if not torch.isfinite(torch.stack(self.losses)).all():
                raise DivergedError("the loss became NaN or infinite")

    def evaluate(self) -> None:
        """Add a row to the curve, keep the model if it is the best so far, and see whether the run is on a plateau."""
        run, protocol = self.run, self.task.protocol
        row = {"step": run.steps, "loss": torch.stack(self.losses).mean().item()}
        run.curve.append(row)
        self.losses.clear()
        if not protocol.validates:
            return
        scores = self._scores(self.fold.val, protocol.val_metrics)
        row |= scores
        if protocol.train_metrics:
            seen = self._scores(self.fold.train, protocol.train_metrics)
            row |= {f"train_{name}": value for name, value in seen.items()}
        if not run.val or scores["map_at_r"] > run.val["map_at_r"]:
            run.keep(self.model, scores)
        if run.steps - run.best_step > protocol.patience * self.iterations:
            run.stopped = "plateau"

    def _scores(self, images: np.ndarray, names: tuple[str, ...]) -> dict[str, float]:
        with self.watched():
            embeddings = self.embed(images)
        return metrics.evaluate(embeddings, self.task.labels[images], names=names)

    def keep_last(self) -> None:
        with self.watched():
            self.embed(self.fold.train[:EVAL_BATCH])  # the last step may have diverged
        self.run.keep(self.model, {})


Batch = Sequence[tuple[Learner, np.ndarray, Tensor, Tensor]]  # of each learner, what its `batches` yields


def _batches(learners: Sequence[Learner], epochs: int) -> Iterator[Batch]:
    for learner in learners:
        learner.model.train()
    drawn = [learner.batches(epochs * learner.iterations) for learner in learners]
    for step in itertools.zip_longest(*drawn):  # folds of different sizes have epochs of different lengths
        yield [(learner, *batch) for learner, batch in zip(learners, step, strict=True) if batch]


class Trainer:
    """The inner loop: a batch of each learner, embeddings, losses, one step of the optimiser for all.

    Nothing is read back from the device in it, but for the samplers that choose each batch from a memory bank.
    """

    def __init__(self, learners: Sequence[Learner], task: Task):
        self.learners, self.protocol = learners, task.protocol
        groups = _merged([group for learner in learners for group in param_groups(learner)])
        self.weights = [weight for group in groups for weight in group["params"]]
        name = task.method.optimizer or task.protocol.optimizer
        self.optimizer = optimizers.create_optimizer(name, groups, task.protocol.momentum)

    def warm_up(self, epochs: int) -> None:
        """Train for some epochs all but the trunks."""
        trunks = [weight for learner in self.learners for weight in learner.trunk]
        for weight in trunks:
            weight.requires_grad_(False)
        for batch in _batches(self.learners, epochs):
            self._step(batch)
        for weight in trunks:
            weight.requires_grad_(True)
        for learner in self.learners:
            learner.losses.clear()

    def run_epoch(self, learners: Sequence[Learner], epoch: int) -> None:
        """Train these for an epoch, counted from 1. Raises DivergedError, at the latest at its end."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * rate_factor(self.protocol, epoch)
        for batch in _batches(learners, epochs=1):
            self._step(batch)
        for learner in learners:
            learner.run.steps += learner.iterations
            learner.check_losses()

    def _step(self, batch: Batch) -> None:
        projected = torch.stack([learner.model.project(inputs) for learner, _, inputs, _ in batch])  # (K, B, D)
        embeddings = l2_normalize(projected) if batch[0][0].model.normalize else projected
        values = [learner.value(own, targets) for own, (learner, _, _, targets) in zip(embeddings, batch, strict=True)]
        torch.autograd.backward(values)
        self.optimizer.step()
        for weight in self.weights:
            weight.grad = None
        for own, (learner, positions, _, _) in zip(embeddings, batch, strict=True):
            if isinstance(learner.sampler, FromMemory):
                with learner.watched():
                    learner.sampler.update(positions, own.detach().cpu().numpy())


def _merged(groups: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Groups for an optimiser, those joined that differ in nothing but their weights: a step has fewer calls."""
    merged: dict[tuple, list[Tensor]] = {}
    for group in groups:
        rest = tuple((name, value) for name, value in group.items() if name != "params")
        merged.setdefault(rest, []).extend(group["params"])
    return [{"params": weights, **dict(rest)} for rest, weights in merged.items()]


def batch_layout(method: Method, num_classes: int) -> tuple[int, int]:
    """Classes and images a class of a batch: the method's own, where there are enough classes.

    Otherwise half the classes with twice the images, again and again, so that the batch keeps its size:
    32 x 1 becomes 16 x 2 on 30 classes. The papers' sets have classes enough.
    """
    classes, images = method.classes_per_batch, method.images_per_class
    while classes > num_classes and classes % 2 == 0:
        classes, images = classes // 2, images * 2
    return classes, images


def check_choices(method: Method | None, protocol: Protocol) -> None:
    """Raise UsageError where there is no such sampler, optimiser or metric as a method, or its protocol, names."""
    for what, known in (("sampler", batches.SAMPLERS), ("optimizer", optimizers.NAMES)):
        name = getattr(method, what, None) or getattr(protocol, what)
        if name not in known and not (what == "sampler" and callable(name)):
            raise unknown(f"{what} of method {method.name!r}" if method else what, name, known)
    for key in ("test_metrics", "val_metrics", "train_metrics"):
        for name in getattr(protocol, key):
            own = isinstance(name, OwnMetric) and key == "test_metrics"
            if not (own or name in metrics.names() or metrics.retrieval.is_retrieval(name)):
                raise unknown(f"metric in {key}", name, metrics.names())


def check_batches(
    method: Method, protocol: Protocol, labels: np.ndarray, splits: Splits, beside: Sequence[Method] = ()
) -> None:
    """Raise UsageError where a fold has too few classes or images for the batches of a method. labels: (N,).

    beside: the methods of its study. Where the levels of a sweep differ in the images of a class, each has to fit in
    its own layout: in fewer classes with more images it would be another level under its name.
    """
    own = (method.classes_per_batch, method.images_per_class)
    is_varied = len({other.images_per_class for other in beside if other.row == method.row}) > 1
    for fold in splits.folds:
        targets = labels[fold.train]
        if protocol.meta_classes:
            targets = meta_labels(targets, protocol.meta_classes, rng=0)
        classes, targets = np.unique(targets, return_inverse=True)
        layout = own if is_varied else batch_layout(method, len(classes))
        nowhere = np.zeros((len(targets), 2), np.float32)
        with failing(method, "sampler"):
            sampler = method.sampler or protocol.sampler
            batches.create_sampler(sampler, targets, *layout, 0, lambda nowhere=nowhere: nowhere)


def check_pairs(labels: np.ndarray, splits: Splits, validates: bool) -> None:
    """Raise UsageError for a part that is to be scored and is one class, or has none of two images. labels: (N,)."""
    parts = {
        f"the validation classes of fold {place}": fold.val for place, fold in enumerate(splits.folds) if validates
    }
    for what, images in (parts | {"the test classes": splits.test}).items():
        if len(np.unique(labels[images])) == 1:
            raise UsageError(f"{what} are one class alone, in which nothing else can be found: let there be two")
        if np.bincount(labels[images]).max() < 2:
            raise UsageError(f"{what} have a single image each, so that nothing can be found: add images to some")


def param_groups(learner: Learner) -> list[dict[str, Any]]:
    """Group the weights of trunk, embedder and loss, each with its rate and weight decay, for the optimiser.

    A hyperparameter LEARNING_RATE stands for both rates of the protocol, of the trunk and of what is new;
    LOSS_WEIGHTS_LR is the rate of the loss's weights, which otherwise have that of the embedder.
    """
    method, protocol = learner.task.method, learner.task.protocol
    given = {**method.settings, **learner.task.params}
    lr = given.get(LEARNING_RATE, protocol.lr)
    new_lr = lr if LEARNING_RATE in given or protocol.new_lr is None else protocol.new_lr
    decay = protocol.weight_decay if method.weight_decay is None else method.weight_decay
    loss_decay = decay if protocol.loss_weight_decay is None else protocol.loss_weight_decay
    groups = (
        (learner.trunk, lr, decay),
        (list(learner.model.embedder.parameters()), new_lr, decay),
        (list(learner.loss.parameters()), given.get(LOSS_WEIGHTS_LR, new_lr), loss_decay),
    )
    return [
        {"params": weights, "lr": rate, "initial_lr": rate, "weight_decay": weight_decay}
        for weights, rate, weight_decay in groups
        if weights
    ]


def rate_factor(protocol: OptimisationSettings, epoch: int) -> float:
    """Factor of all rates in an epoch, counted from 1.

    A tenth for each of `lr_steps` that has passed; with linear decay from 1 in the first epoch down to one
    max_epochs-th in the last, so that it would be 0 in the one after it.
    """
    factor = 10.0 ** -sum(step < epoch for step in protocol.lr_steps)
    return factor * (1 - (epoch - 1) / protocol.max_epochs) if protocol.lr_decay == "linear" else factor


@torch.no_grad()
def embed_images(model: nn.Module, source: Source, indices: np.ndarray) -> Tensor:
    """Embeddings (N, D) of the images at these indices, in evaluation mode, on the source's device.

    Raises DivergedError if one of them is not finite, or larger or smaller than the metrics take.
    """
    model.eval()
    chunks = [
        model(source.evaluate(indices[start : start + EVAL_BATCH])) for start in range(0, len(indices), EVAL_BATCH)
    ]
    embeddings = torch.cat(chunks)  # (N, D)
    if not torch.isfinite(embeddings).all():
        raise DivergedError("the embeddings hold NaN or infinite values")
    if fault := metrics.out_of_range(embeddings):
        raise DivergedError(f"the embeddings {fault}")
    return embeddings
