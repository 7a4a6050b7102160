"""Training one model: one fold, one seed, one setting of the hyperparameters.

Runs are trained one after another, each with its own random numbers, and in parallel only as processes.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dmlrc import metrics, optimizers
from dmlrc.building import build_loss, normalized
from dmlrc.data import batches
from dmlrc.errors import DivergedError, UsageError, unknown
from dmlrc.inputs import Source
from dmlrc.losses.subsampling import SubsampledClasses
from dmlrc.methods import LEARNING_RATE, LOSS_WEIGHTS_LR, Method
from dmlrc.models import EmbeddingModel
from dmlrc.protocol import Protocol

EVAL_BATCH = 128
LR_DECAYS = ("none", "linear")


@dataclass(frozen=True)
class FoldRun:
    """What tells the runs of a trial apart: fold, seed, and images (indices into the source).

    targets: (len(train),) int, what the loss sees in the place of the labels of the training images, if anything.
    """

    fold: int
    seed: int
    train: np.ndarray
    val: np.ndarray
    targets: np.ndarray | None = None


@dataclass
class Run:
    """What one training run gave.

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
    """What the runs of a trial share: a method with its hyperparameters, the images, and how it is trained.

    labels: (N,) of all images. make_model builds the untrained model. params: hyperparameters of this trial.
    """

    method: Method
    params: dict[str, float]
    source: Source
    labels: np.ndarray
    make_model: Callable[[], EmbeddingModel]
    protocol: Protocol


def train(fold: FoldRun, task: Task) -> Run:
    """Train until the validation MAP@R has not risen for `patience` epochs, and keep the best checkpoint.

    Without validation, train for `max_epochs` and keep the last weights. Everything random hangs on the fold's seed. A
    run whose loss or embeddings are not finite ends as diverged.
    """
    run, started = Run(fold.fold, fold.seed), time.perf_counter()
    with torch.random.fork_rng():
        torch.manual_seed(fold.seed)
        try:
            _train(run, Trainer(fold, task), fold, task)
        except DivergedError as error:
            run.state, run.stopped, run.reason, run.weights = "diverged", "diverged", str(error), None
    run.seconds = time.perf_counter() - started
    return run


def _train(run: Run, trainer: "Trainer", fold: FoldRun, task: Task) -> None:
    protocol, model = task.protocol, trainer.model
    trainer.warm_up(protocol.warmup_epochs)
    losses = []  # of the steps since the last row of the curve
    for epoch in range(1, protocol.max_epochs + 1):
        losses.append(trainer.run_epoch(epoch))
        run.steps += trainer.iterations
        if epoch % protocol.eval_every and epoch < protocol.max_epochs:
            continue
        row = {"step": run.steps, "loss": torch.cat(losses).mean().item()}
        run.curve.append(row)
        losses.clear()
        if not protocol.validates:
            continue
        scores = _scores(model, task, fold.val, protocol.val_metrics)
        row |= scores
        if protocol.train_metrics:
            seen = _scores(model, task, fold.train, protocol.train_metrics)
            row |= {f"train_{name}": value for name, value in seen.items()}
        if not run.val or scores["map_at_r"] > run.val["map_at_r"]:
            run.keep(model, scores)
        if run.steps - run.best_step > protocol.patience * trainer.iterations:
            run.stopped = "plateau"
            return
    if not protocol.validates:
        embed(model, task.source, fold.train[:EVAL_BATCH])  # the last step may have been one too far
        run.keep(model, {})


def _scores(model: nn.Module, task: Task, images: np.ndarray, names: tuple[str, ...]) -> dict[str, float]:
    return metrics.evaluate(embed(model, task.source, images), task.labels[images], names=names)


class Trainer:
    """The inner loop: batch, embeddings, loss, one step of the optimiser.

    Nothing is read back from the device in it, but for the samplers that choose each batch from a memory bank.
    """

    def __init__(self, fold: FoldRun, task: Task):
        method, protocol, device = task.method, task.protocol, task.source.device
        self.method, self.protocol, self.source, self.images = method, protocol, task.source, fold.train
        targets = task.labels[fold.train] if fold.targets is None else fold.targets
        classes, targets = np.unique(targets, return_inverse=True)  # renumbered from 0 for the loss
        self.targets = torch.from_numpy(targets).to(device)
        self.model = task.make_model().to(device)
        self.model.normalize = normalized(method)
        self.loss = build_loss(method, task.params, len(classes), self.model.embedding_dim).to(device)
        if protocol.class_share < 1:
            self.loss = SubsampledClasses(self.loss, protocol.class_share)
        self.trunk = [weight for weight in self.model.trunk.parameters() if weight.requires_grad]
        groups = param_groups(self.trunk, list(self.model.embedder.parameters()), list(self.loss.parameters()), task)
        self.weights = [weight for group in groups for weight in group["params"]]
        self.optimizer = optimizers.create(method.optimizer or protocol.optimizer, groups, protocol.momentum)

        layout = batch_layout(method, len(classes))
        sampler, rng = method.sampler or protocol.sampler, np.random.default_rng(fold.seed)
        self.sampler = batches.create(sampler, targets, *layout, rng, self._embed_training_images)
        self.iterations = protocol.iterations_per_epoch or max(1, len(targets) // (layout[0] * layout[1]))
        self.generator = torch.Generator(device).manual_seed(fold.seed)

    def _embed_training_images(self) -> np.ndarray:
        return embed(self.model, self.source, self.images).cpu().numpy()

    def warm_up(self, epochs: int) -> None:
        """Train for some epochs all but the trunk."""
        if not epochs:
            return
        for weight in self.trunk:
            weight.requires_grad_(False)
        self._run(epochs * self.iterations)
        for weight in self.trunk:
            weight.requires_grad_(True)

    def run_epoch(self, epoch: int) -> Tensor:
        """The losses (iterations,) of the steps of this epoch, counted from 1. Raises DivergedError after the last."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * rate_factor(self.protocol, epoch)
        return self._run(self.iterations)

    def _run(self, iterations: int) -> Tensor:
        self.model.train()
        losses = []
        for positions, inputs, targets in self._batches(iterations):
            embeddings = self.model(inputs)  # (B, D)
            value = self.loss(embeddings, targets)
            if not torch.is_tensor(value) or value.ndim or not value.requires_grad:
                raise UsageError(
                    f"the loss of method {self.method.name!r} must return a scalar tensor computed from the embeddings"
                )
            value.backward()
            self.optimizer.step()
            for weight in self.weights:
                weight.grad = None
            if isinstance(self.sampler, batches.FromMemory):
                self.sampler.update(positions, embeddings.detach().cpu().numpy())
            losses.append(value.detach())
        losses = torch.stack(losses)
        if not torch.isfinite(losses).all():
            raise DivergedError("the loss became NaN or infinite")
        return losses

    def _batches(self, iterations: int) -> Iterator[tuple[np.ndarray, Tensor, Tensor]]:
        """Of each batch the positions in the fold's training images (B,), the model's input (B, ...), the targets (B,).

        Many batches are drawn and looked up at once, which takes a fraction of the time.
        """
        for start in range(0, iterations, self.sampler.ahead):
            drawn = self.sampler.draw(min(self.sampler.ahead, iterations - start))  # (T, B)
            inputs = self.source.train(self.images[drawn], self.generator)
            targets = self.targets[torch.from_numpy(drawn).to(self.targets.device)]  # (T, B)
            yield from zip(drawn, inputs, targets.unbind(), strict=True)


def batch_layout(method: Method, num_classes: int) -> tuple[int, int]:
    """Classes and images a class of a batch: the method's own, where there are enough classes.

    Otherwise half the classes with twice the images, again and again, so that the batch keeps its size:
    32 x 1 becomes 16 x 2 on 30 classes. The papers' sets have classes enough.
    """
    classes, images = method.classes_per_batch, method.images_per_class
    while classes > num_classes and classes % 2 == 0:
        classes, images = classes // 2, images * 2
    return classes, images


def param_groups(trunk: list[Tensor], embedder: list[Tensor], loss: list[Tensor], task: Task) -> list[dict[str, Any]]:
    """Those of trunk, embedder and loss that have weights, each with its rate and weight decay, for the optimiser.

    A hyperparameter LEARNING_RATE stands for both rates of the protocol, of the trunk and of what is new;
    LOSS_WEIGHTS_LR is the rate of the loss's weights, which otherwise have that of the embedder.
    """
    method, protocol = task.method, task.protocol
    given = {**method.settings, **task.params}
    lr = given.get(LEARNING_RATE, protocol.lr)
    new_lr = lr if LEARNING_RATE in given or protocol.new_lr is None else protocol.new_lr
    decay = protocol.weight_decay if method.weight_decay is None else method.weight_decay
    loss_decay = decay if protocol.loss_weight_decay is None else protocol.loss_weight_decay
    groups = (
        (trunk, lr, decay),
        (embedder, new_lr, decay),
        (loss, given.get(LOSS_WEIGHTS_LR, new_lr), loss_decay),
    )
    return [
        {"params": weights, "lr": rate, "initial_lr": rate, "weight_decay": weight_decay}
        for weights, rate, weight_decay in groups
        if weights
    ]


def rate_factor(protocol: Protocol, epoch: int) -> float:
    """What all rates are multiplied by in an epoch, counted from 1.

    A tenth for each of `lr_steps` that has passed; with linear decay from 1 in the first epoch down to one
    max_epochs-th in the last, so that it would be 0 in the one after it.
    """
    if protocol.lr_decay not in LR_DECAYS:
        raise unknown("lr_decay", protocol.lr_decay, LR_DECAYS)
    factor = 10.0 ** -sum(step < epoch for step in protocol.lr_steps)
    return factor * (1 - (epoch - 1) / protocol.max_epochs) if protocol.lr_decay == "linear" else factor


@torch.no_grad()
def embed(model: nn.Module, source: Source, indices: np.ndarray) -> Tensor:
    """Embeddings (N, D) of the images at these indices, in evaluation mode, on the source's device.

    Raises DivergedError if one of them is not finite.
    """
    model.eval()
    chunks = [
        model(source.evaluate(indices[start : start + EVAL_BATCH])) for start in range(0, len(indices), EVAL_BATCH)
    ]
    embeddings = torch.cat(chunks)  # (N, D)
    if not torch.isfinite(embeddings).all():
        raise DivergedError("the embeddings hold NaN or infinite values")
    return embeddings
