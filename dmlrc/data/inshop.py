"""In-Shop Clothes Retrieval (DeepFashion): 52,712 photographs of 7,982 items, with separate queries and gallery.

Liu, Luo, Qiu, Wang and Tang, DeepFashion: Powering Robust Clothes Recognition and Retrieval with Rich Annotations,
CVPR 2016. Layout: `Eval/list_eval_partition.txt` (path, item, "train", "query" or "gallery") and the images below
`img/` or `Img/img/`. Training has 25,882 images of 3,997 items; the other 3,985 items have 14,218 query and 12,612
gallery images, and a query is searched among the gallery only.
"""

from pathlib import Path

import numpy as np

from dmlrc.data.listing import Listing, rows


def read(folder: Path) -> Listing:
    """All images in the order of the list; the training items are the first classes, each part in the items' order.

    Raises ValueError if an item is both for training and for testing.
    """
    paths, items, parts = zip(*rows(folder / "Eval" / "list_eval_partition.txt")[2:], strict=True)
    training = {item for item, part in zip(items, parts, strict=True) if part == "train"}
    testing = {item for item, part in zip(items, parts, strict=True) if part != "train"}
    if both := training & testing:
        raise ValueError(f"item {min(both)} is both for training and for testing")
    classes = [*sorted(training), *sorted(testing)]
    label = {item: i for i, item in enumerate(classes)}
    home = folder / "Img" if (folder / "Img" / "img").is_dir() else folder
    return Listing(
        files=tuple(home / path for path in paths),
        labels=np.array([label[item] for item in items], dtype=np.int64),
        class_names=tuple(classes),
        partition=np.array(parts),
    )
