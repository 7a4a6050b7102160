"""Two pieces of code side by side in the same process.

Both are called in turn, many times; the ratio is that of the medians. Above 1, ours is faster.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version

import torch
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from dmlrc.inputs import device
from dmlrc.records import provenance

DEVICE = device()


def synchronise() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def timed(
    ours: Callable[[], object],
    peer: Callable[[], object],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """Median seconds of the two by the clock, called in turn after one warm-up each."""
    seconds = ([], [])
    for repeat in range(repeats + 1):
        for call, kept in zip((ours, peer), seconds, strict=True):
            synchronise()
            started = clock()
            call()
            synchronise()
            if repeat:
                kept.append(clock() - started)
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def on_one_thread(*arguments, **settings) -> tuple[float, float]:
    """`timed`, with one thread, of BLAS too: all that a worker has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            return timed(*arguments, **settings)
    finally:
        torch.set_num_threads(threads)


def clock(device: torch.device) -> Callable[[], float]:
    """What short work is timed by: on a CPU the time of the process, which a busy machine disturbs less."""
    return time.process_time if device.type == "cpu" else time.perf_counter


def circumstances(device: torch.device) -> dict[str, str]:
    """Where and when something is measured: machine, device, torch, date, commit."""
    return {
        "machine": provenance.processor(),
        "device": provenance.device_name(device),
        "torch": torch.__version__,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": provenance.commit(),
    }


def report(rows: dict[str, Callable[[], tuple[float, float]]]) -> Iterator[dict]:
    """Measure and print each row, "what | peer" -> a function that gives seconds of ours and of the peer; give it."""
    facts = circumstances(DEVICE)
    print(f"{facts['device']}, {facts['machine']}, torch {facts['torch']}, {facts['commit']}\n")
    print("| what | peer | ours, ms | peer, ms | peer / ours |\n|---|---|---|---|---|")
    for title, bench in tqdm(rows.items(), leave=False):
        ours, peer = bench()
        what, against = title.split(" | ")
        tqdm.write(f"| {what} | {against} | {1000 * ours:.2f} | {1000 * peer:.2f} | {peer / ours:.2f} |")
        yield {
            "what": what,
            "peer": against,
            "ours_ms": round(1000 * ours, 4),
            "peer_ms": round(1000 * peer, 4),
            "ratio": round(peer / ours, 3),
            "load": round(os.getloadavg()[0], 1),  # above 1: other work slowed both down
            "pytorch_metric_learning": version("pytorch-metric-learning"),
            **facts,
        }
