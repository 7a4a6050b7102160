"""Training one model: one fold, one seed, one setting of the hyperparameters.

Runs are trained one after another, each with its own random numbers, and in parallel only as processes.
Training the four folds of a trial as one stacked program (`torch.func.vmap`) was measured and left out: on a
CPU core it is no faster with cached features (0.83 against 0.85 ms an iteration and fold) and 1.4 times slower
with conv4.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from dmlrc import metrics
from dmlrc.building import build_loss, normalized
from dmlrc.data import batches
from dmlrc.errors import DivergedError, UsageError
from dmlrc.inputs import Source
from dmlrc.losses.subsampling import SubsampledClasses
from dmlrc.methods import LOSS_WEIGHTS_LR, Method
from dmlrc.protocol import Protocol

EVAL_BATCH = 128


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


def train(
    member: FoldRun,
    source: Source,
    labels: np.ndarray,
    make_model: Callable[[], nn.Module],
    method: Method,
    params: dict[str, float],
    protocol: Protocol,
) -> Run:
    """Train until the validation MAP@R has not risen for `patience` epochs, and keep the best checkpoint.

    Without validation, train for `max_epochs` and keep the last weights.
    labels: (N,) of all images; the training classes are renumbered from 0 for the loss. make_model builds the
    untrained model, under the member's seed. A run whose loss or embeddings are not finite ends as diverged.
    """
    run, started = Run(member.fold, member.seed), time.perf_counter()
    targets = labels[member.train] if member.targets is None else member.targets
    classes, targets = np.unique(targets, return_inverse=True)
    with torch.random.fork_rng():
        torch.manual_seed(member.seed)
        model = make_model().to(source.device)
        loss = build_loss(method, params, len(classes), model.embedding_dim).to(source.device)
        if protocol.class_share < 1:
            loss = SubsampledClasses(loss, protocol.class_share)
        model.normalize = normalized(method)
        try:
            trainer = _Trainer(member, source, targets, model, loss, method, params, protocol)
            trainer.warm_up(protocol.warmup_epochs)
            for epoch in range(1, protocol.max_epochs + 1):
                trainer.run(trainer.iterations)
                run.steps += trainer.iterations
                if epoch in protocol.lr_steps:
                    trainer.divide_rates_by_10()
                due = epoch % protocol.eval_every == 0 or epoch == protocol.max_epochs
                if not due:
                    continue
                run.curve.append({"step": run.steps, "loss": trainer.mean_loss()})
                if protocol.validates and not _improving(
                    run, model, source, member, labels, protocol, trainer.iterations
                ):
                    run.stopped = "plateau"
                    break
            if not protocol.validates:
                embed(model, source, member.train[:EVAL_BATCH])  # the last step may have been one too far
                _keep(run, model)
        except DivergedError as error:
            run.state, run.stopped, run.reason, run.weights = "diverged", "diverged", str(error), None
    run.seconds = time.perf_counter() - started
    return run


def _improving(
    run: Run,
    model: nn.Module,
    source: Source,
    member: FoldRun,
    labels: np.ndarray,
    protocol: Protocol,
    iterations: int,
) -> bool:
    """Score the model in the curve's last row, keep it if it is the best; False once the run is on a plateau."""
    scores = metrics.evaluate(embed(model, source, member.val), labels[member.val], names=protocol.val_metrics)
    run.curve[-1] |= scores
    if protocol.train_metrics:
        seen = metrics.evaluate(embed(model, source, member.train), labels[member.train], protocol.train_metrics)
        run.curve[-1] |= {f"train_{name}": value for name, value in seen.items()}
    if not run.val or scores["map_at_r"] > run.val["map_at_r"]:
        run.val = scores
        _keep(run, model)
    waited = (run.steps - run.best_step) / iterations
    return waited <= protocol.patience


def _keep(run: Run, model: nn.Module) -> None:
    run.best_step = run.steps
    run.weights = {name: tensor.cpu().clone() for name, tensor in model.state_dict().items()}


class _Trainer:
    """The inner loop: batch, embeddings, loss, and an optimiser each for trunk, embedder and the loss's weights."""

    def __init__(self, member, source, labels, model, loss, method, params, protocol):
        self.source, self.images, self.model, self.loss, self.method = source, member.train, model, loss, method
        rng = np.random.default_rng(member.seed)
        layout = batch_layout(method, len(np.unique(labels)))
        sampler = method.sampler or protocol.sampler
        self.batches = batches.create(sampler, labels, *layout, rng, self._embed_training_images)
        self.iterations = protocol.iterations_per_epoch or max(1, len(labels) // (layout[0] * layout[1]))
        self.labels = torch.from_numpy(labels).to(source.device)
        self.generator = torch.Generator(source.device).manual_seed(member.seed)
        self.trunk = [weight for weight in model.trunk.parameters() if weight.requires_grad]
        self.optimizers = _optimizers(self.trunk, list(model.embedder.parameters()), loss, method, params, protocol)
        self.losses: list[Tensor] = []

    def _embed_training_images(self) -> np.ndarray:
        return embed(self.model, self.source, self.images).cpu().numpy()

    def warm_up(self, epochs: int) -> None:
        """Train for some epochs all but the trunk."""
        if not epochs:
            return
        for weight in self.trunk:
            weight.requires_grad_(False)
        self.run(epochs * self.iterations)
        for weight in self.trunk:
            weight.requires_grad_(True)

    def divide_rates_by_10(self) -> None:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] /= 10

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
            if isinstance(self.batches, batches.FromMemory):
                self.batches.update(batch, embeddings.detach().cpu().numpy())
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


def _optimizers(
    trunk: list[Tensor],
    embedder: list[Tensor],
    loss: nn.Module,
    method: Method,
    params: dict[str, float],
    protocol: Protocol,
) -> list[torch.optim.Optimizer]:
    """One optimiser each, with its own rate, for those of trunk, embedder and loss that have weights."""
    decay = protocol.weight_decay if method.weight_decay is None else method.weight_decay
    loss_decay = decay if protocol.loss_weight_decay is None else protocol.loss_weight_decay
    new_lr = protocol.lr if protocol.new_lr is None else protocol.new_lr
    loss_lr = params.get(LOSS_WEIGHTS_LR, method.settings.get(LOSS_WEIGHTS_LR, new_lr))
    groups = ((trunk, protocol.lr, decay), (embedder, new_lr, decay), (list(loss.parameters()), loss_lr, loss_decay))
    name = method.optimizer or protocol.optimizer
    return [_optimizer(name, weights, lr, decay, protocol.momentum) for weights, lr, decay in groups if weights]


def _optimizer(
    name: str, weights: list[Tensor], lr: float, weight_decay: float, momentum: float
) -> torch.optim.Optimizer:
    if name == "rmsprop":
        return torch.optim.RMSprop(weights, lr=lr, weight_decay=weight_decay, momentum=momentum)
    if name == "sgd":
        return torch.optim.SGD(weights, lr=lr, weight_decay=weight_decay, momentum=momentum)
    if name == "adam":
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
