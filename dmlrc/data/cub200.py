"""CUB200 (Caltech-UCSD Birds-200-2011): 11,788 photographs of 200 bird species, 100 for training and 100 for testing.

Wah, Branson, Welinder, Perona and Belongie, The Caltech-UCSD Birds-200-2011 Dataset, Caltech 2011.
Layout: `images.txt` (id, path below `images/`), `image_class_labels.txt` (id, class 1..200), `classes.txt` (class,
name).
The official train and test flags share all classes and are of no use here.
"""

from pathlib import Path

import numpy as np

from dmlrc.data.listing import Listing, rows


def read(folder: Path) -> Listing:
    """All images by image id; class 1..200 of the files becomes label 0..199."""
    classes = dict(rows(folder / "image_class_labels.txt"))
    images = rows(folder / "images.txt")
    names = {int(number): name for number, name in rows(folder / "classes.txt")}
    return Listing(
        files=tuple(folder / "images" / path for _, path in images),
        labels=np.array([int(classes[image]) - 1 for image, _ in images], dtype=np.int64),
        class_names=tuple(names[number] for number in sorted(names)),
    )
