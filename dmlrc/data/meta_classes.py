"""DREML: an ensemble over random partitions of the classes (Xuan, Souvenir and Pless, ECCV 2018).

Each member sees the same training images under coarser labels: the classes are merged at random into a few
meta-classes. What its network learns depends on the partition; the members' embeddings are joined.
"""

import numpy as np


def meta_labels(labels: np.ndarray, meta_classes: int, rng: np.random.Generator | int) -> np.ndarray:
    """Merge the classes at random into meta-classes of equal size, or sizes that differ by one.

    labels: (N,) -> (N,) int64 in 0..meta_classes-1; images of one class stay together. With fewer classes than
    meta-classes, each is its own.

    >>> meta_labels(np.array([3, 3, 5, 8, 8, 9]), 2, rng=0).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    classes, index = np.unique(labels, return_inverse=True)
    order = np.random.default_rng(rng).permutation(len(classes))
    return (order % meta_classes)[index]
