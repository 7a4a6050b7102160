"""Photographs as a new user has them: `python tests/photographs.py FOLDER` draws them and names the bad ones."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image


def photographs(folder):
    """Sixty in twelve classes of a colour each, three of which are none: the files of these."""
    rng = np.random.default_rng(0)
    for label in range(12):
        (folder / f"kind-{label:02}").mkdir(parents=True)
        for place in range(5):
            pixels = np.clip(rng.normal(20 * label, 4, (40, 40, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"kind-{label:02}" / f"{place}.jpg")
    whole = (folder / "kind-00" / "0.jpg").read_bytes()
    bad = {"kind-01/1.jpg": b"no photograph", "kind-04/0.jpg": whole[: len(whole) // 2], "kind-08/4.jpg": b""}
    for name, content in bad.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in bad]


if __name__ == "__main__":
    print(*photographs(Path(sys.argv[1])), sep="\n")
