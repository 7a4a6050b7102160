"""A training step by the number of training classes: what weights for every class cost a loss.

conv4 from scratch on noise of 32 px in classes of five images, under the protocol and with the methods of
`icons-scratch`, four folds side by side, per fold. All points take turns in one process, on one thread; each is a
median. `python -m benchmarks.classes [--write FILE.csv]`, some minutes; on a CPU the milliseconds are CPU time.
"""

import argparse
import os
import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks import scaling, whole
from benchmarks.timing import DEVICE, circumstances, clock, synchronise
from dmlrc import studies
from dmlrc.data import ImageSet

CLASSES, IMAGES = (100, 1_000, 10_000), 5
FOLDS, STEPS, ROUNDS = 4, 10, 7


def noise(classes: int, size: int) -> ImageSet:
    """Made-up images, `IMAGES` a class: (N, 1, size, size) uint8."""
    images = np.random.default_rng(0).integers(0, 256, (classes * IMAGES, 1, size, size), dtype=np.uint8)
    return ImageSet("noise", images, np.repeat(np.arange(classes), IMAGES), tuple(map(str, range(classes))), flip=False)


def rows(classes: tuple[int, ...] = CLASSES, rounds: int = ROUNDS) -> Iterator[dict]:
    """A row a method and number of classes: method, classes, ms a step, and where it was measured."""
    study = studies.get("icons-scratch")
    points = {}
    for count in classes:
        images = noise(count, study.protocol.image_size)
        points |= {
            (method.name, count): whole.stepper(method, images, study.protocol, DEVICE, FOLDS)
            for method in study.methods
        }
    seconds: dict[tuple[str, int], list[float]] = {point: [] for point in points}
    now = clock(DEVICE)
    for turn in range(rounds + 1):
        for point, train in points.items():
            started = now()
            train(STEPS)
            synchronise()
            if turn:  # the first is a warm-up
                seconds[point].append(now() - started)
    facts = circumstances(DEVICE)
    for (method, count), taken in seconds.items():
        yield {
            "method": method,
            "classes": count,
            "ms": round(1e3 * statistics.median(taken) / (STEPS * FOLDS), 3),
            "load": round(os.getloadavg()[0], 1),  # above 1: other work slowed this down
            **facts,
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="a CSV file for the rows")
    file = parser.parse_args().write
    torch.set_num_threads(1)
    for row in scaling.written(rows(), file):
        print(f"{row['method']}, {row['classes']:,} classes: {row['ms']:.2f} ms a step")
