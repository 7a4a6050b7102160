"""SOP (Stanford Online Products): 120,053 photographs of 22,634 products from eBay, in 12 super-classes.

Song, Xiang, Jegelka and Savarese, Deep Metric Learning via Lifted Structured Feature Embedding, CVPR 2016.
Layout: `Ebay_train.txt` (59,551 images, classes 1..11318) and `Ebay_test.txt` (60,502 images, classes 11319..22634),
each with the columns image_id, class_id, super_class_id, path. `splits.official` keeps this division; `splits.halves`
takes the first 11,317 classes, as Musgrave et al. do, and so tests one official training class.
"""

from pathlib import Path

import numpy as np

from dmlrc.data.listing import Listing, rows

_PARTS = ("train", "test")


def read(folder: Path) -> Listing:
    """Training then test images in the order of the lists; class 1..22634 becomes label 0..22633."""
    images = [(part, *row) for part in _PARTS for row in rows(folder / f"Ebay_{part}.txt")[1:]]
    labels = np.array([int(class_id) - 1 for _, _, class_id, _, _ in images], dtype=np.int64)
    kind = {label: path.split("_final/")[0] for label, (*_, path) in zip(labels.tolist(), images, strict=True)}
    return Listing(
        files=tuple(folder / path for *_, path in images),
        labels=labels,
        class_names=tuple(f"{kind[label]} {label + 1}" for label in sorted(kind)),
        partition=np.array([part for part, *_ in images]),
    )
