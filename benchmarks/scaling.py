"""How time and memory grow: of evaluation with the images, of a search's proposal with the trials, of a study with the
workers. Measured points and fitted exponents.

`make bench` runs the short form; `python -m benchmarks.scaling --most 120000 --write FILE.csv` the whole (minutes).
Each point is measured in a fresh process, evaluation and proposals with one thread: CPU seconds, and megabytes beyond
the input; of a study the seconds on the clock.
"""

import argparse
import csv
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.evaluation import NAMES, embedded
from benchmarks.timing import circumstances
from dmlrc import metrics
from dmlrc.report.speed import exponent

CLASS_SIZE = 5  # about that of SOP
WARM_UP = 6000


def resident() -> float:
    """Megabytes of memory that this process holds now (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def evaluation(names: tuple[str, ...], images: int) -> tuple[float, float]:
    """CPU seconds of metrics, and megabytes beyond the input, in a process that did nothing else before."""
    torch.set_num_threads(1)
    space = embedded(images, images // CLASS_SIZE)
    metrics.evaluate(*embedded(min(WARM_UP, images), min(WARM_UP, images) // CLASS_SIZE), names=names)  # imports
    before, started = resident(), time.process_time()
    metrics.evaluate(*space, names=names)
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return seconds, max(0.0, peak - before)


def proposal(trials: int) -> tuple[float, float]:
    """CPU seconds in which a search proposes one more trial after so many, median of five; memory is not measured."""
    from dmlrc import search
    from dmlrc.papers import musgrave2020

    method = next(each for each in musgrave2020.METHODS if each.name == "soft_triple")  # the largest space
    rng, made = np.random.default_rng(0), []
    for number in range(trials):
        params = {name: rng.uniform(space.low, space.high) for name, space in method.space.items()}
        made.append({"trial": number, "params": params, "value": rng.uniform(0.1, 0.2), "state": "complete"})
    search.propose(method, made, seed=0)  # imports
    seconds = []
    for seed in range(1, 6):
        started = time.process_time()
        search.propose(method, made, seed)
        seconds.append(time.process_time() - started)
    return statistics.median(seconds), float("nan")


def study(workers: int) -> tuple[float, float]:
    """Seconds on the clock of a small study with so many workers, the start of these included."""
    from dmlrc import run, studies
    from dmlrc.executors import pool
    from dmlrc.protocol import Budget

    os.environ["DMLRC_HOME"] = tempfile.mkdtemp()
    quick = studies.get("grocery-quick")
    budget = Budget("bench", trials=1, reruns=1, max_epochs=4, iterations_per_epoch=25)
    short = replace(quick, name="bench", budget=budget, methods=quick.methods[:8])
    started = time.perf_counter()
    with pool(workers) as executor:
        run.run(short, executor=executor, workers=workers)
    return time.perf_counter() - started, float("nan")


@dataclass(frozen=True)
class Task:
    """Something that grows: what is measured at a size, counted in `unit`, and the sizes."""

    measure: Callable[..., tuple[float, float]]
    unit: str
    sizes: tuple[int, ...]
    settings: tuple = ()


IMAGES = (1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 120_000)
TASKS = {
    "retrieval": Task(evaluation, "images", IMAGES, (NAMES,)),
    "histogram": Task(evaluation, "images", IMAGES, (("jsd",),)),
    "everything": Task(evaluation, "images", IMAGES, (tuple(sorted(set(metrics.names()) - {"nmi", "f1"})),)),
    "proposal": Task(proposal, "trials", (1, 10, 25, 50, 100, 200)),
    "study": Task(study, "workers", (1, 2, 4, 8)),
}
"""P@1, R-precision and MAP@R; the histograms of all pairs; all metrics without k-means; a search; a study."""


def curves(most: int, tasks=tuple(TASKS)) -> Iterator[dict]:
    """One row for each task and size, of evaluation up to `most` images."""
    facts = circumstances(torch.device("cpu"))
    for name in tasks:
        task = TASKS[name]
        for size in (size for size in task.sizes if size <= most):
            fresh = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=fresh) as alone:
                seconds, megabytes = alone.submit(task.measure, *task.settings, size).result()
            yield {
                "task": name,
                "unit": task.unit,
                "size": size,
                "seconds": round(seconds, 4),
                "megabytes": round(megabytes, 1),
                "load": round(os.getloadavg()[0], 1),  # above 1: other work slowed this down
                "cores": os.cpu_count(),
                **facts,
            }


def report(points: list[dict]) -> str:
    """The points of each task as lines of Markdown, with the exponent of its time."""
    lines = ["| task | size | seconds | MB beyond the input |", "|---|---|---|---|"]
    lines += [
        f"| {p['task']} | {p['size']:,} {p['unit']} | {p['seconds']:.3f} | {p['megabytes']:.0f} |" for p in points
    ]
    for task in dict.fromkeys(p["task"] for p in points):
        own = [(p["size"], p["seconds"]) for p in points if p["task"] == task]
        if len(own) > 1:
            lines.append(f"\n{task}: time grows as {TASKS[task].unit}^{exponent(*zip(*own, strict=True)):.2f}")
    return "\n".join(lines)


def written(rows: Iterable[dict], file: Path | None) -> list[dict]:
    """The rows, each as soon as it is there a line of a CSV file too, if one is named."""
    found = []
    with file.open("w", newline="") if file else nullcontext() as opened:
        for row in rows:
            if opened:
                writer = csv.DictWriter(opened, row, lineterminator="\n")
                if not found:
                    writer.writeheader()
                writer.writerow(row)
                opened.flush()
            found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=8000, help="the largest number of images, at least 2,000")
    parser.add_argument("--task", choices=TASKS, action="append", help="only these")
    parser.add_argument("--write", type=Path, help="a CSV file for the points")
    arguments = parser.parse_args()
    print(report(written(curves(arguments.most, arguments.task or tuple(TASKS)), arguments.write)))


if __name__ == "__main__":
    main()
