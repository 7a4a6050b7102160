"""Training one model: one fold, one seed, one setting of the hyperparameters.

Runs are trained one after another, each with its own random numbers, and in parallel only as processes.
Training the four folds of a trial as one stacked program (`torch.func.vmap`) was measured and left out: on a
CPU core it is no faster with cached features (0.83 against 0.85 ms an iteration and fold) and 1.4 times slower
with conv4.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol as Interface

import numpy as np
import torch
from torch import Tensor, nn

from dmlrc import metrics
from dmlrc.data.batches import ClassBalanced
from dmlrc.errors import DivergedError, UsageError
from dmlrc.methods import LOSS_WEIGHTS_LR, Method, build_loss, normalized
from dmlrc.protocol import Protocol

VAL_METRICS = ("map_at_r", "precision_at_1")
EVAL_BATCH = 128


class Source(Interface):
    """Where a model's input comes from: images, or the cached features of a frozen trunk."""

    device: torch.device

    def train(self, indices: np.ndarray, generator: torch.Generator) -> Tensor:
        """indices (B,) -> augmented input (B, ...)."""

    def evaluate(self, indices: np.ndarray) -> Tensor:
        """indices (N,) -> input (N, ...), without augmentation."""


@dataclass(frozen=True)
class Member:
    """What tells the runs of a trial apart: fold, seed, and images (indices into the source)."""

    fold: int
    seed: int
    train: np.ndarray
    val: np.ndarray


@dataclass
class Run:
    """What one training run gave.

    curve: one row an evaluation (step, mean training loss since the last row, metrics on the validation fold).
    stopped: "plateau", "limit" or "diverged"; reason: one sentence where it diverged.
    weights: the best checkpoint, by validation MAP@R; None where the run diverged.
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


def train(
    member: Member,
    source: Source,
    labels: np.ndarray,
    make_model: Callable[[], nn.Module],
    method: Method,
    params: dict[str, float],
    protocol: Protocol,
) -> Run:
    """Train until the validation MAP@R has not risen for `patience` epochs, and keep the best checkpoint.

    labels: (N,) of all images; the training classes are renumbered from 0 for the loss. make_model builds the
    untrained model, under the member's seed. A run whose loss or embeddings are not finite ends as diverged.
    """
    run, started = Run(member.fold, member.seed), time.perf_counter()
    classes, own_labels = np.unique(labels[member.train], return_inverse=True)
    with torch.random.fork_rng():
        torch.manual_seed(member.seed)
        model = make_model().to(source.device)
        loss = build_loss(method, params, len(classes), model.embedding_dim).to(source.device)
        model.normalize = normalized(method)
        step = _Step(member, source, own_labels, model, loss, method, params, protocol)
        try:
            for epoch in range(1, protocol.max_epochs + 1):
                step.run(protocol.iterations_per_epoch)
                run.steps += protocol.iterations_per_epoch
                due = epoch % protocol.eval_every == 0 or epoch == protocol.max_epochs
                if due and not _improving(run, model, step.mean_loss(), source, member, labels, protocol):
                    run.stopped = "plateau"
                    break
        except DivergedError as error:
            run.state, run.stopped, run.reason, run.weights = "diverged", "diverged", str(error), None
    run.seconds = time.perf_counter() - started
    return run


def _improving(
    run: Run,
    model: nn.Module,
    mean_loss: float,
    source: Source,
    member: Member,
    labels: np.ndarray,
    protocol: Protocol,
) -> bool:
    """Add a row to the run's curve, keep the checkpoint if it is the best; False once it has reached a plateau."""
    scores = metrics.evaluate(embed(model, source, member.val), labels[member.val], names=VAL_METRICS)
    run.curve.append({"step": run.steps, "loss": mean_loss, **scores})
    if not run.val or scores["map_at_r"] > run.val["map_at_r"]:
        run.val, run.best_step = scores, run.steps
        run.weights = {name: tensor.cpu().clone() for name, tensor in model.state_dict().items()}
    waited = (run.steps - run.best_step) / protocol.iterations_per_epoch
    return waited <= protocol.patience


class _Step:
    """The inner loop: batch, embeddings, loss, two optimisers."""

    def __init__(self, member, source, labels, model, loss, method, params, protocol):
        self.source, self.images, self.model, self.loss, self.method = source, member.train, model, loss, method
        rng = np.random.default_rng(member.seed)
        self.batches = ClassBalanced(labels, *batch_layout(method, len(np.unique(labels))), rng)
        self.labels = torch.from_numpy(labels).to(source.device)
        self.generator = torch.Generator(source.device).manual_seed(member.seed)
        decay = protocol.weight_decay if method.weight_decay is None else method.weight_decay
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        self.optimizers = [_optimizer(protocol, trained, protocol.lr, decay)]
        if weights := list(loss.parameters()):
            rate = params.get(LOSS_WEIGHTS_LR, method.settings.get(LOSS_WEIGHTS_LR, protocol.lr))
            self.optimizers.append(_optimizer(protocol, weights, rate, decay))
        self.losses: list[Tensor] = []

    def run(self, iterations: int) -> None:
        """Train on this many batches. Raises DivergedError, at the latest at the end."""
        self.model.train()
        for _ in range(iterations):
            batch = next(self.batches)  # (B,) positions in the fold's training images
            embeddings = self.model(self.source.train(self.images[batch], self.generator))  # (B, D)
            value = self.loss(embeddings, self.labels[batch])
            if not torch.is_tensor(value) or value.ndim or not value.requires_grad:
                raise UsageError(
                    f"the loss of method {self.method.name!r} must return a scalar tensor computed from the embeddings"
                )
            for optimizer in self.optimizers:
                optimizer.zero_grad()
            value.backward()
            for optimizer in self.optimizers:
                optimizer.step()
            self.losses.append(value.detach())
        if not torch.isfinite(torch.stack(self.losses[-iterations:])).all():
            raise DivergedError("the loss became NaN or infinite")

    def mean_loss(self) -> float:
        """The mean loss since the last call."""
        mean = torch.stack(self.losses).mean().item()
        self.losses.clear()
        return mean


def batch_layout(method: Method, num_classes: int) -> tuple[int, int]:
    """Classes and images a class of a batch: the method's own, where there are enough classes.

    Otherwise half the classes with twice the images, again and again, so that the batch keeps its size:
    32 x 1 becomes 16 x 2 on 30 classes. The papers' sets have classes enough.
    """
    classes, images = method.classes_per_batch, method.images_per_class
    while classes > num_classes and classes % 2 == 0:
        classes, images = classes // 2, images * 2
    return classes, images


def _optimizer(protocol: Protocol, weights: list[Tensor], lr: float, weight_decay: float) -> torch.optim.Optimizer:
    if protocol.optimizer == "rmsprop":
        return torch.optim.RMSprop(weights, lr=lr, weight_decay=weight_decay, momentum=protocol.momentum)
    if protocol.optimizer == "sgd":
        return torch.optim.SGD(weights, lr=lr, weight_decay=weight_decay, momentum=protocol.momentum)
    if protocol.optimizer == "adam":
        return torch.optim.Adam(weights, lr=lr, weight_decay=weight_decay)
    return torch.optim.AdamW(weights, lr=lr, weight_decay=weight_decay)


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
