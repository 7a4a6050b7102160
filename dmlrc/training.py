"""Training: the models of one trial (or rerun), a fold each, trained side by side as one stacked program.

The members of a stack share the protocol and the hyperparameters and differ in fold and seed. Trunk and
embedder run once for all members (`torch.func.vmap` over stacked weights); the loss is a loop over the
members, so that any loss works. A member's random numbers are its own: its result does not depend on
which other members stand beside it, up to the rounding of stacked matrix products.
"""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol as Interface

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from dmlrc import metrics
from dmlrc.data.batches import ClassBalanced
from dmlrc.errors import DivergedError, UsageError
from dmlrc.methods import LOSS_WEIGHTS_LR, Method, build_loss
from dmlrc.protocol import Protocol

EVAL_BATCH = 512


class Source(Interface):
    """Where a model's input comes from: images, or the cached features of a frozen trunk."""

    device: torch.device

    def train(self, indices: np.ndarray, generators: Sequence[torch.Generator]) -> Tensor:
        """indices (K, B) -> augmented input (K, B, ...); member k draws from generators[k]."""

    def evaluate(self, indices: np.ndarray) -> Tensor:
        """indices (N,) -> input (N, ...), without augmentation."""


@dataclass(frozen=True)
class Member:
    """One training run of a stack: its fold, its seed, its images (indices into the source)."""

    fold: int
    seed: int
    train: np.ndarray
    val: np.ndarray


@dataclass
class Run:
    """What training one member gave.

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


VAL_METRICS = ("map_at_r", "precision_at_1")


def train(
    members: Sequence[Member],
    source: Source,
    labels: np.ndarray,
    make_model: Callable[[], nn.Module],
    method: Method,
    params: dict[str, float],
    protocol: Protocol,
) -> list[Run]:
    """Train every member until its validation MAP@R has not risen for `patience` epochs.

    labels: (N,) of all images; each member's training classes are renumbered from 0 for its loss.
    make_model: builds the untrained model; called once a member, under the member's seed.
    Returns one Run a member, in their order.
    """
    stack = _Stack(members, source, labels, make_model, method, params, protocol)
    runs = [Run(member.fold, member.seed) for member in members]
    started = time.perf_counter()
    for epoch in range(protocol.max_epochs):
        stack.train_epoch()
        evaluate = (epoch + 1) % protocol.eval_every == 0 or epoch + 1 == protocol.max_epochs
        keep = []
        for position, index in enumerate(stack.active):
            run = runs[index]
            run.steps = (epoch + 1) * protocol.iterations_per_epoch
            run.seconds = time.perf_counter() - started
            try:
                stack.check(position)
                if not evaluate or _improving(run, stack, position, protocol):
                    keep.append(position)
            except DivergedError as error:
                run.state, run.stopped, run.reason, run.weights = "diverged", "diverged", str(error), None
        stack.keep(keep)
        if not stack.active:
            break
    return runs


def _improving(run: Run, stack: "_Stack", position: int, protocol: Protocol) -> bool:
    """Add a row to the run's curve, keep the checkpoint if it is the best; False once it has reached a plateau."""
    scores = stack.validate(position)
    run.curve.append({"step": run.steps, "loss": stack.mean_loss(position), **scores})
    if not run.val or scores["map_at_r"] > run.val["map_at_r"]:
        run.val, run.best_step, run.weights = scores, run.steps, stack.checkpoint(position)
    waited = (run.steps - run.best_step) / protocol.iterations_per_epoch
    if waited > protocol.patience:
        run.stopped = "plateau"
        return False
    return True


class _Stack:
    """The weights, losses, batches and optimisers of the members that still train."""

    def __init__(self, members, source, labels, make_model, method, params, protocol):
        self.source, self.protocol, self.method = source, protocol, method
        self.members = list(members)
        self.active = list(range(len(members)))  # which member stands at each position of the stack
        models, self.losses, self.samplers, self.generators, self.labels = [], [], [], [], []
        for member in members:
            classes, own_labels = np.unique(labels[member.train], return_inverse=True)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(member.seed)
                model = make_model()
                loss = build_loss(method, params, len(classes), model.embedding_dim)
            models.append(model.to(source.device))
            self.losses.append(loss.to(source.device) if isinstance(loss, nn.Module) else loss)
            self.samplers.append(
                ClassBalanced(
                    own_labels, method.classes_per_batch, method.images_per_class, np.random.default_rng(member.seed)
                )
            )
            self.generators.append(torch.Generator(source.device).manual_seed(member.seed))
            self.labels.append(torch.from_numpy(own_labels).to(source.device))
        self.all_labels = torch.from_numpy(labels).to(source.device)
        self.weights, self.buffers = stack_module_state(models)
        self.template = copy.deepcopy(models[0]).to("meta")
        self.forward = vmap(lambda w, b, x: functional_call(self.template, (w, b), (x,)), randomness="different")
        self.optimizer = _optimizer(self._trained(), protocol.lr, method, protocol)
        weights = [weight for loss in self.losses if isinstance(loss, nn.Module) for weight in loss.parameters()]
        rate = params.get(LOSS_WEIGHTS_LR, method.settings.get(LOSS_WEIGHTS_LR, protocol.lr))
        self.loss_optimizer = _optimizer(weights, rate, method, protocol) if weights else None
        self.template.train()
        self._reset_statistics()

    def _trained(self) -> list[Tensor]:
        return [weight for weight in self.weights.values() if weight.requires_grad]

    def _reset_statistics(self) -> None:
        self.loss_sum = torch.zeros(len(self.active), device=self.source.device)
        self.loss_steps = 0
        self.errors: list[str] = [""] * len(self.active)

    def train_epoch(self) -> None:
        """One epoch of iterations; the losses are summed per member, and read only after it."""
        self._reset_statistics()
        for _ in range(self.protocol.iterations_per_epoch):
            positions = np.stack([next(sampler) for sampler in self.samplers])  # (K, B), within each fold
            indices = np.stack([self.members[m].train[p] for m, p in zip(self.active, positions, strict=True)])
            inputs = self.source.train(indices, self.generators)  # (K, B, ...)
            embeddings = self.forward(self.weights, self.buffers, inputs)  # (K, B, D)
            values = torch.stack([self._loss(k, embeddings[k], positions[k]) for k in range(len(positions))])  # (K,)
            if all(self.errors):
                return
            self.optimizer.zero_grad()
            if self.loss_optimizer:
                self.loss_optimizer.zero_grad()
            values.sum().backward()
            self.optimizer.step()
            if self.loss_optimizer:
                self.loss_optimizer.step()
            self.loss_sum += values.detach()
            self.loss_steps += 1

    def _loss(self, k: int, embeddings: Tensor, positions: np.ndarray) -> Tensor:
        """The loss of one member; a member that diverged contributes nothing and stops at the end of the epoch."""
        if not self.errors[k]:
            try:
                value = self.losses[k](embeddings, self.labels[k][positions])
            except DivergedError as error:
                self.errors[k] = str(error)
            else:
                if not torch.is_tensor(value) or value.ndim or not value.requires_grad:
                    raise UsageError(
                        f"the loss of method {self.method.name!r} must return a scalar tensor computed from the embeddings"
                    )
                return value
        return embeddings.detach().new_zeros(())

    def check(self, k: int) -> None:
        """Raise DivergedError if the member at this position diverged in the last epoch."""
        if self.errors[k]:
            raise DivergedError(self.errors[k])
        if not torch.isfinite(self.loss_sum[k]):
            raise DivergedError(f"the loss became {self.loss_sum[k].item()}")

    def mean_loss(self, k: int) -> float:
        return self.loss_sum[k].item() / self.loss_steps

    def checkpoint(self, k: int) -> dict[str, Tensor]:
        """A copy of one member's weights and buffers, on the CPU, under the names of the model's state_dict."""
        stacked = {**self.weights, **self.buffers}
        return {name: tensor[k].detach().cpu().clone() for name, tensor in stacked.items()}

    def validate(self, k: int) -> dict[str, float]:
        member = self.members[self.active[k]]
        state = {name: tensor[k].detach() for name, tensor in {**self.weights, **self.buffers}.items()}
        embeddings = embed(self.template, state, self.source, member.val)
        return metrics.evaluate(embeddings, self.all_labels[member.val], names=VAL_METRICS)

    def keep(self, positions: list[int]) -> None:
        """Drop the members that have stopped, with their slices of weights and optimiser state."""
        if len(positions) == len(self.active):
            return
        for name in ("active", "losses", "samplers", "generators", "labels"):
            setattr(self, name, [getattr(self, name)[k] for k in positions])
        self.buffers = {name: tensor[positions] for name, tensor in self.buffers.items()}
        for name, weight in self.weights.items():
            kept = weight.detach()[positions].requires_grad_(weight.requires_grad)
            _replace(self.optimizer, weight, kept, positions)
            self.weights[name] = kept
        if self.loss_optimizer:
            weights = {id(w) for loss in self.losses if isinstance(loss, nn.Module) for w in loss.parameters()}
            group = self.loss_optimizer.param_groups[0]
            group["params"] = [weight for weight in group["params"] if id(weight) in weights]


def _replace(optimizer: torch.optim.Optimizer, old: Tensor, new: Tensor, positions: list[int]) -> None:
    """Put a weight's kept slices in its place in the optimiser, with the same slices of its state."""
    for group in optimizer.param_groups:
        group["params"] = [new if weight is old else weight for weight in group["params"]]
    state = optimizer.state.pop(old, {})
    optimizer.state[new] = {
        name: value[positions] if torch.is_tensor(value) and value.shape == old.shape else value
        for name, value in state.items()
    }


def _optimizer(weights: list[Tensor], lr: float, method: Method, protocol: Protocol) -> torch.optim.Optimizer:
    decay = protocol.weight_decay if method.weight_decay is None else method.weight_decay
    if protocol.optimizer == "rmsprop":
        return torch.optim.RMSprop(weights, lr=lr, weight_decay=decay, momentum=protocol.momentum)
    if protocol.optimizer == "sgd":
        return torch.optim.SGD(weights, lr=lr, weight_decay=decay, momentum=protocol.momentum)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[protocol.optimizer](
        weights, lr=lr, weight_decay=decay
    )


@torch.no_grad()
def embed(model: nn.Module, state: dict[str, Tensor], source: Source, indices: np.ndarray) -> Tensor:
    """Embeddings (N, D) of the images at these indices, by the model with this state, in evaluation mode.

    Stays on the source's device. Raises DivergedError if an embedding is not finite.
    """
    training = model.training
    model.eval()
    state = {name: tensor.to(source.device) for name, tensor in state.items()}
    chunks = [
        functional_call(model, state, (source.evaluate(indices[start : start + EVAL_BATCH]),))
        for start in range(0, len(indices), EVAL_BATCH)
    ]
    model.train(training)
    embeddings = torch.cat(chunks)
    if not torch.isfinite(embeddings).all():
        raise DivergedError("the embeddings hold NaN or infinite values")
    return embeddings
