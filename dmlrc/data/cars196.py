"""Cars196 (Stanford Cars): 16,185 photographs of 196 car models, 98 for training and 98 for testing.

Krause, Stark, Deng and Fei-Fei, 3D Object Representations for Fine-Grained Categorization, 3dRR 2013.
Layout: `cars_annos.mat` beside `car_ims/NNNNNN.jpg`. `cars196` is the original set; `cars196crops` is read from the
same layout, with each car cropped to its box and squashed to 112 x 112, and its numbers are not comparable with those
of the original photographs. The official train and test flags share all classes and are of no use here.
"""

from pathlib import Path

import numpy as np

from dmlrc.data.listing import Listing


def read(folder: Path) -> Listing:
    """All images in the order of the annotation file; class 1..196 of the file becomes label 0..195."""
    from scipy.io import loadmat  # it takes long to import, and the names of data sets are listed without it

    contents = loadmat(folder / "cars_annos.mat", squeeze_me=True)
    annotations = np.atleast_1d(contents["annotations"])
    return Listing(
        files=tuple(folder / str(path) for path in annotations["relative_im_path"]),
        labels=annotations["class"].astype(np.int64) - 1,
        class_names=tuple(str(name) for name in np.atleast_1d(contents["class_names"])),
    )
