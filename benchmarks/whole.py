"""Whole networks: images a second that train, by processes side by side and by precision, and what a precision scores.

`python -m benchmarks.whole --write FOLDER`: MobileNetV2 at 112 px with random weights, contrastive loss, batches of 32,
RMSprop, one model in each process. The peer is a plain loop of PyTorch, timm and pytorch-metric-learning in the same
number of processes, images on the device. Each point is measured in fresh processes that begin together. Use of the GPU
is the mean of what nvidia-smi says meanwhile.
`python -m benchmarks.whole --scores STUDY`: the first trial of a grid's methods at every precision (a GPU).
"""

import argparse
import csv
import multiprocessing
import os
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.timing import circumstances
from dmlrc import studies
from dmlrc.data import ImageSet
from dmlrc.inputs import ImageSource, PreparedData, device
from dmlrc.methods import Method
from dmlrc.models.settings import settled
from dmlrc.papers import musgrave2020
from dmlrc.plan import Chain, next_units
from dmlrc.protocol import PRECISIONS, Protocol
from dmlrc.training import FoldRun, Learner, Task, Trainer, TrainingRun
from dmlrc.unit import run_unit

SIZE, CLASSES, IMAGES, BATCH = 112, 64, 8, 32
WARM_UP = 5
STEPS = {"cuda": 150, "cpu": 6}
PROTOCOL = replace(
    musgrave2020.MOBILENETV2, weights=None, train_from=None, frozen_trunk=False, iterations_per_epoch=STEPS["cpu"]
)
CONTRASTIVE = Method("contrastive", "contrastive", settings={"pos_margin": 0.2, "neg_margin": 0.6})


def pictures() -> ImageSet:
    """Noise: (N, 3, 112, 112) uint8 in 64 classes of 8."""
    noise = np.random.default_rng(0).integers(0, 256, (CLASSES * IMAGES, 3, SIZE, SIZE), dtype=np.uint8)
    return ImageSet("noise", noise, np.repeat(np.arange(CLASSES), IMAGES), tuple(map(str, range(CLASSES))), flip=True)


def ours(protocol: Protocol, place: torch.device) -> tuple[Callable[[int], None], int]:
    """A call trains so many steps; and the models that one step trains."""
    return stepper(CONTRASTIVE, pictures(), protocol, place, folds=1), 1


def stepper(
    method: Method, images: ImageSet, protocol: Protocol, place: torch.device, folds: int
) -> Callable[[int], None]:
    """A call trains so many steps of all folds side by side, each on all images."""
    source, everything = ImageSource(images, protocol, place), np.arange(len(images.labels))
    prepared = PreparedData(images.labels, None, source, protocol)
    task = Task(method, {}, source, images.labels, prepared.make_model, protocol)
    learners = [Learner(TrainingRun(n, n), FoldRun(n, n, everything, everything[:0]), task) for n in range(folds)]
    trainer = Trainer(learners, task)

    def train(steps: int) -> None:
        for learner in learners:
            learner.iterations = steps
            learner.losses.clear()
        trainer.run_epoch(learners, epoch=1)

    return train


def plain(protocol: Protocol, place: torch.device) -> tuple[Callable[[int], None], int]:
    """As `ours`, with public packages alone: one model, told kernel by kernel."""
    import timm
    from pytorch_metric_learning.losses import ContrastiveLoss

    images = torch.from_numpy(pictures().images).to(place)
    labels = torch.from_numpy(pictures().labels).to(place)
    trunk = timm.create_model("mobilenetv2_100", num_classes=0).to(place)
    embedder, loss = torch.nn.Linear(1280, 128).to(place), ContrastiveLoss(0.2, 0.6)
    weights = [*trunk.parameters(), *embedder.parameters()]
    optimizer = torch.optim.RMSprop(weights, lr=protocol.lr, weight_decay=protocol.weight_decay, momentum=0.9)
    mean, std = (
        torch.tensor(each, device=place).view(3, 1, 1)
        for each in (trunk.pretrained_cfg["mean"], trunk.pretrained_cfg["std"])
    )
    rng = np.random.default_rng(0)

    def train(steps: int) -> None:
        trunk.eval()  # BatchNorm frozen
        for _ in range(steps):
            classes = rng.choice(CLASSES, 8, replace=False)
            batch = torch.from_numpy((classes[:, None] * IMAGES + rng.integers(IMAGES, size=(8, 4))).ravel()).to(place)
            inputs = images[batch].float() / 255
            flipped = torch.rand(BATCH, 1, 1, 1, device=place) < 0.5
            inputs = (torch.where(flipped, inputs.flip(-1), inputs) - mean) / std
            optimizer.zero_grad()
            loss(F.normalize(embedder(trunk(inputs))), labels[batch]).backward()
            optimizer.step()

    return train, 1


WAYS = {"dmlrc": ours, "plain loop": plain}


def process(way: str, precision: str, begin, results) -> None:
    """Train, warm first, then together with the other processes."""
    place = device()
    torch.set_num_threads(1)
    with settled(place, precision):
        train, models = WAYS[way](replace(PROTOCOL, precision=precision), place)
        train(WARM_UP)
        _synchronise(place)
        begin.wait(timeout=300)
        started, steps = time.monotonic(), STEPS[place.type]
        train(steps)
        _synchronise(place)
        results.put((started, time.monotonic(), steps * models * BATCH))


def _synchronise(place: torch.device) -> None:
    if place.type == "cuda":
        torch.cuda.synchronize()


def measure(way: str, processes: int, precision: str) -> dict:
    """Images a second of so many processes together, and the mean use of the GPU in percent."""
    context = multiprocessing.get_context("spawn")
    begin, results = context.Barrier(processes + 1), context.Queue()
    workers = [context.Process(target=process, args=(way, precision, begin, results)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    begin.wait(timeout=300)
    with Used() as used:
        told = [results.get(timeout=300) for _ in workers]
    for worker in workers:
        worker.join()
    starts, ends, images = zip(*told, strict=True)
    return {
        "way": way,
        "processes": processes,
        "precision": precision,
        "images_per_second": round(sum(images) / (max(ends) - min(starts)), 1),
        "gpu_percent": used.mean,
    }


class Used:
    """The mean use of the first GPU within a block, asked for every fifth of a second; None without one."""

    def __enter__(self) -> "Used":
        self.mean, self._said, self._over = None, [], threading.Event()
        self._asking = threading.Thread(target=self._ask, daemon=True)
        self._asking.start()
        return self

    def _ask(self) -> None:
        command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--id=0"]
        while device().type == "cuda" and not self._over.wait(0.2):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                self._said.append(float(done.stdout))

    def __exit__(self, *error) -> None:
        self._over.set()
        self._asking.join()
        self.mean = round(statistics.mean(self._said), 1) if self._said else None


def points(place: torch.device) -> list[tuple[str, int, str]]:
    if place.type == "cpu":
        return [("dmlrc", 1, "float32"), ("plain loop", 1, "float32")]
    side_by_side = [(way, count, "float32") for way in WAYS for count in (1, 2, 4, 8)]
    return side_by_side + [("dmlrc", count, precision) for precision in PRECISIONS[1:] for count in (1, 8)]


def scores(study: str) -> Iterator[dict]:
    """Validation MAP@R of the first trials of a grid at the rate of its last level, at every precision."""
    chosen = studies.get(study)
    for method in chosen.methods[-3:]:
        (unit,) = next_units(chosen, Chain(method))
        for precision in PRECISIONS:
            record = run_unit(replace(unit, protocol=replace(unit.protocol, precision=precision)))
            yield {
                "method": method.name,
                "precision": precision,
                "value": record["value"],
                "seconds": record["seconds"],
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="a folder for whole.csv or whole-gpu.csv, row by row")
    parser.add_argument("--scores", metavar="STUDY", help="train this grid's first trials at every precision instead")
    arguments = parser.parse_args()
    place = device()
    facts = circumstances(place)
    name = f"whole{'-scores' if arguments.scores else ''}{'' if place.type == 'cpu' else '-gpu'}.csv"
    rows = scores(arguments.scores) if arguments.scores else (measure(*point) for point in points(place))
    writer = None
    with (arguments.write / name if arguments.write else Path(os.devnull)).open("w", newline="") as stream:
        for row in rows:
            print(row, flush=True)
            writer = writer or csv.DictWriter(stream, [*row, *facts], lineterminator="\n")
            if not stream.tell():
                writer.writeheader()
            writer.writerow(row | facts)
            stream.flush()


if __name__ == "__main__":
    main()
