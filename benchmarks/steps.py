"""A training step on cached features, 32 x 512 -> 128: four folds side by side, per fold, against a plain loop.

The plain loop is what one writes with public packages: `MPerClassSampler` of pytorch-metric-learning, `nn.Linear`,
`F.normalize`, `torch.optim.RMSprop`, with its loss or with ours, which leaves the loop alone to differ. Both draw
their batches, look the features up, and train the loss's own weights. Part of `make bench`; alone, with the same losses
only, `python -m benchmarks.steps [--write FILE] [NAME ...]`. On a CPU the seconds are CPU time.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from pytorch_metric_learning.samplers import MPerClassSampler
from torch import Tensor, nn

from benchmarks import scaling
from benchmarks.losses import CLASSES, DIM, PEERS
from benchmarks.timing import DEVICE, clock, on_one_thread, report
from dmlrc import losses
from dmlrc.inputs import FeatureSource
from dmlrc.methods import Method
from dmlrc.models import EmbeddingModel, FeatureTrunk
from dmlrc.papers import musgrave2020
from dmlrc.training import FoldRun, Learner, Task, Trainer, TrainingRun

FOLDS, STEPS, FEATURES, IMAGES = 4, 100, 512, 40
"""Folds side by side, steps an epoch, features an image, images a class."""
PROTOCOL = musgrave2020.FROZEN
PACKAGE, SAME = "pytorch-metric-learning", "the same loss"
"""The losses of the plain loop."""


def made_features() -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes: features (N, F) float32 and labels (N,)."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), IMAGES)
    features = rng.normal(size=(len(labels), FEATURES)) + rng.normal(size=(CLASSES, FEATURES))[labels]
    return features.astype(np.float32), labels


def our_epoch(method: Method, features: np.ndarray, labels: np.ndarray, device: torch.device) -> Callable[[], None]:
    """A call trains all folds for an epoch."""
    source, images = FeatureSource(features, device), np.arange(len(labels))
    task = Task(method, {}, source, labels, lambda: EmbeddingModel(FeatureTrunk(FEATURES), DIM), PROTOCOL)
    learners = [Learner(TrainingRun(n, n), FoldRun(n, n, images, images[:0]), task) for n in range(FOLDS)]
    trainer = Trainer(learners, task)

    def epoch() -> None:
        trainer.run_epoch(learners, epoch=1)
        for learner in learners:
            learner.losses.clear()

    return epoch


def plain_epoch(
    method: Method, loss: nn.Module, features: np.ndarray, labels: np.ndarray, device: torch.device
) -> Callable[[], None]:
    """A call trains one model for an epoch."""
    size = method.classes_per_batch * method.images_per_class
    sampler = MPerClassSampler(labels, method.images_per_class, size, length_before_new_iter=STEPS * size)
    inputs, targets = torch.from_numpy(features).to(device), torch.from_numpy(labels).to(device)
    embedder, loss = nn.Linear(FEATURES, DIM).to(device), loss.to(device)
    decay = PROTOCOL.weight_decay if method.weight_decay is None else method.weight_decay
    weights = [*embedder.parameters(), *loss.parameters()]
    optimizer = torch.optim.RMSprop(weights, lr=PROTOCOL.lr, weight_decay=decay, momentum=PROTOCOL.momentum)

    def step(batch: Tensor) -> None:
        optimizer.zero_grad()
        loss(F.normalize(embedder(inputs[batch])), targets[batch]).backward()
        optimizer.step()

    def epoch() -> None:
        for batch in torch.tensor(list(sampler)).view(STEPS, size):
            step(batch)

    return epoch


def rows(
    timed: Callable,
    device: torch.device,
    repeats: int = 11,
    names: Iterable[str] | None = None,
    against: Iterable[str] = (PACKAGE, SAME),
) -> Iterator:
    """title -> (seconds of ours, of the peer) a step; timed(ours, peer, repeats, clock) measures."""
    for whose in against:
        for method in musgrave2020.METHODS:
            if names is None or method.name in names:
                title = f"step {method.name}, 32 x {FEATURES} -> {DIM} | plain loop, {whose}"
                yield title, partial(_measure, timed, method, device, repeats, whose)


def _measure(timed: Callable, method: Method, device: torch.device, repeats: int, whose: str) -> tuple[float, float]:
    if whose == PACKAGE:
        loss = PEERS[method.name]()
    else:
        loss = losses.create(method.name, num_classes=CLASSES, embedding_dim=DIM, **method.settings)
    images = made_features()
    plain = plain_epoch(method, loss, *images, device)
    ours, peer = timed(our_epoch(method, *images, device), plain, repeats, clock(device))
    return ours / (FOLDS * PROTOCOL.iterations_per_epoch), peer / STEPS


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of methods of the Reality Check; all where none is given")
    parser.add_argument("--write", type=Path, help="a CSV file for the rows")
    arguments = parser.parse_args()
    measured = rows(on_one_thread, DEVICE, names=arguments.names or None, against=[SAME])
    scaling.written(report(dict(measured)), arguments.write)
