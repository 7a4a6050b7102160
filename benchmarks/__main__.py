"""`make bench`: each of our pieces against a named peer, then, on a CPU, how time and memory grow."""

import argparse
from pathlib import Path

import torch
from torchvision.transforms import v2

from benchmarks import evaluation, losses, networks, scaling, steps
from benchmarks.timing import DEVICE, on_one_thread, report, timed
from dmlrc.data import augment


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="a folder for the rows as CSV files, row by row")
    arguments = parser.parse_args()
    on_cpu = DEVICE.type == "cpu"
    rows = dict(evaluation.rows(timed, DEVICE, [evaluation.SOP_TEST], note=", all cores" if on_cpu else ""))
    rows |= evaluation.rows(on_one_thread, DEVICE)
    rows["random resized crop, 32 x 256 px | torchvision v2, image by image"] = crops
    rows |= losses.rows(on_one_thread, DEVICE)
    rows |= steps.rows(on_one_thread, DEVICE)
    rows |= networks.rows(on_one_thread, DEVICE)
    folder = arguments.write
    scaling.written(report(rows), folder and folder / ("peers.csv" if on_cpu else "peers-gpu.csv"))
    if not on_cpu:
        return
    points = scaling.written(scaling.curves(most=8000), folder and folder / "growth.csv")
    print(f"\n{scaling.report(points)}")


if __name__ == "__main__":
    main()
