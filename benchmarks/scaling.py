"""How time and memory of evaluation grow with the number of images: measured points and fitted exponents.

`make bench` runs the short form; `python -m benchmarks.scaling --most 120000 --write FILE.csv` the whole (minutes).
Each point is measured in a fresh process with one thread: CPU seconds, and megabytes beyond the input.
"""

import argparse
import csv
import multiprocessing
import os
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from benchmarks.evaluation import NAMES, embedded
from dmlrc import metrics, provenance

SIZES = (1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 120_000)
CLASS_SIZE = 5  # about that of SOP
WARM_UP = 6000
TASKS = {
    "retrieval": lambda *space: metrics.evaluate(*space, names=NAMES),
    "histogram": lambda *space: metrics.evaluate(*space, names=("jsd",)),
    "everything": lambda *space: metrics.evaluate(*space, names=set(metrics.names()) - {"nmi", "f1"}),
}
"""What is measured: P@1, R-precision and MAP@R; the histograms of all pairs; all metrics without k-means."""


def resident() -> float:
    """Megabytes of memory that this process holds now (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def measure(task: str, images: int) -> tuple[float, float]:
    """CPU seconds and megabytes beyond the input, in a process that did nothing else before."""
    torch.set_num_threads(1)
    space = embedded(images, images // CLASS_SIZE)
    TASKS[task](*embedded(min(WARM_UP, images), min(WARM_UP, images) // CLASS_SIZE))  # imports
    before, started = resident(), time.process_time()
    TASKS[task](*space)
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return seconds, max(0.0, peak - before)


def exponent(images, values) -> float:
    """b of values ~ images^b, by least squares in the logarithms, over the larger half of the sizes.

    >>> round(exponent([10, 20, 40, 80], [7, 7, 12, 48]), 6)
    2.0
    """
    first = min(len(images) // 2, len(images) - 2)
    return float(np.polyfit(np.log(images[first:]), np.log(values[first:]), 1)[0])


def curves(most: int, tasks=tuple(TASKS)) -> list[dict]:
    """One row for each task and size up to `most` images."""
    facts = provenance.environment(torch.device("cpu"))
    points = []
    for task in tasks:
        for images in (size for size in SIZES if size <= most):
            fresh = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=fresh) as pool:
                seconds, megabytes = pool.submit(measure, task, images).result()
            points.append(
                {
                    "task": task,
                    "images": images,
                    "cpu_seconds": round(seconds, 4),
                    "megabytes": round(megabytes, 1),
                    "threads": 1,
                    "load": round(os.getloadavg()[0], 1),  # above 1: other work slowed this down
                    "machine": facts["processor"],
                    "date": f"{datetime.now(UTC):%Y-%m-%d}",
                    "commit": provenance.commit(),
                }
            )
    return points


def report(points: list[dict]) -> str:
    """The points of each task as lines of Markdown, with the exponent of its time."""
    lines = ["| task | images | CPU seconds | MB beyond the input |", "|---|---|---|---|"]
    lines += [f"| {p['task']} | {p['images']:,} | {p['cpu_seconds']:.2f} | {p['megabytes']:.0f} |" for p in points]
    for task in dict.fromkeys(p["task"] for p in points):
        images, seconds = zip(*((p["images"], p["cpu_seconds"]) for p in points if p["task"] == task), strict=True)
        lines.append(f"\n{task}: time grows as images^{exponent(images, seconds):.2f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=8000, help="the largest number of images, at least 2,000")
    parser.add_argument("--task", choices=TASKS, action="append", help="only these")
    parser.add_argument("--write", type=Path, help="a CSV file for the points")
    arguments = parser.parse_args()
    points = curves(arguments.most, arguments.task or tuple(TASKS))
    if arguments.write:
        with arguments.write.open("w", newline="") as file:
            writer = csv.DictWriter(file, points[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(points)
    print(report(points))


if __name__ == "__main__":
    main()
