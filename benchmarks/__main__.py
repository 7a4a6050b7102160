"""`make bench`: each of our pieces against a named peer, side by side in the same process, as a ratio.

Both are called in turn, many times; the ratio is that of the medians. Above 1, ours is faster.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits
from torchvision.transforms import v2
from tqdm import tqdm

from benchmarks import evaluation, losses, networks, scaling, steps
from dmlrc import provenance
from dmlrc.data import augment
from dmlrc.inputs import device

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


def crops() -> tuple[float, float]:
    images = torch.randint(0, 256, (32, 3, 256, 256), dtype=torch.uint8, device=DEVICE)
    generator = torch.Generator(DEVICE).manual_seed(0)
    peer = v2.Compose(
        [v2.RandomResizedCrop(227, scale=(0.16, 1.0), antialias=False), v2.ToDtype(torch.float32, scale=True)]
    )
    return on_one_thread(
        lambda: augment.random_resized_crop(images, 227, (0.16, 1.0), (3 / 4, 4 / 3), generator),
        lambda: torch.stack([peer(image) for image in images]),
        repeats=10,
    )


def report(rows: dict[str, Callable[[], tuple[float, float]]]) -> Iterator[dict]:
    """Measure and print each row, "what | peer" -> a function that gives seconds of ours and of the peer; give it."""
    facts = provenance.environment(DEVICE)
    print(f"{facts['device']}, {facts['processor']}, torch {torch.__version__}, {provenance.commit()}\n")
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
            "machine": facts["processor"],
            "device": facts["device"],
            "torch": torch.__version__,
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "commit": provenance.commit(),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="a folder for the rows as CSV files, row by row")
    arguments = parser.parse_args()
    rows = dict(evaluation.rows(timed, DEVICE, [evaluation.SOP_TEST], note=", all cores"))
    rows |= evaluation.rows(on_one_thread, DEVICE)
    rows["random resized crop, 32 x 256 px | torchvision v2, image by image"] = crops
    rows |= losses.rows(on_one_thread, DEVICE)
    rows |= steps.rows(on_one_thread, DEVICE)
    rows |= networks.rows(on_one_thread, DEVICE)
    folder = arguments.write
    scaling.written(report(rows), folder and folder / "peers.csv")
    points = scaling.written(scaling.curves(most=8000), folder and folder / "growth.csv")
    print(f"\n{scaling.report(points)}")


if __name__ == "__main__":
    main()
