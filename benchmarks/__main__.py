"""`make bench`: each of our pieces against a named peer, side by side in the same process, as a ratio.

Both are called in turn, many times; the ratio is that of the medians. Above 1, ours is faster.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torchvision.transforms import v2
from tqdm import tqdm

from benchmarks import evaluation, losses, scaling, steps
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


def crops() -> tuple[float, float]:
    images = torch.randint(0, 256, (32, 3, 256, 256), dtype=torch.uint8, device=DEVICE)
    generator = torch.Generator(DEVICE).manual_seed(0)
    peer = v2.Compose(
        [v2.RandomResizedCrop(227, scale=(0.16, 1.0), antialias=False), v2.ToDtype(torch.float32, scale=True)]
    )
    return timed(
        lambda: augment.random_resized_crop(images, 227, (0.16, 1.0), (3 / 4, 4 / 3), generator),
        lambda: torch.stack([peer(image) for image in images]),
        repeats=10,
    )


def report(rows: dict[str, Callable[[], tuple[float, float]]]) -> None:
    """Measure and print each row: "what | peer" -> a function that gives seconds of ours and of the peer."""
    facts = provenance.environment(DEVICE)
    print(f"{facts['device']}, {facts['processor']}, torch {torch.__version__}, one thread, {provenance.commit()}\n")
    print("| what | peer | ours, ms | peer, ms | peer / ours |\n|---|---|---|---|---|")
    for title, bench in tqdm(rows.items(), leave=False):
        ours, peer = bench()
        what, against = title.split(" | ")
        tqdm.write(f"| {what} | {against} | {1000 * ours:.2f} | {1000 * peer:.2f} | {peer / ours:.2f} |")


def main() -> None:
    torch.set_num_threads(1)
    rows = dict(evaluation.rows(timed, DEVICE))
    rows["random resized crop, 32 x 256 px | torchvision v2, image by image"] = crops
    rows |= losses.rows(timed, DEVICE)
    rows |= steps.rows(timed, DEVICE)
    report(rows)
    print(f"\n{scaling.report(scaling.curves(most=8000))}")


if __name__ == "__main__":
    main()
