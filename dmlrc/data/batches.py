"""Batch samplers: endless, seeded iterators over index arrays, (B,) int64 positions into `labels`.

A sampler for a fold is made from `labels[fold.train]`; its positions then index `fold.train`.
"""

from collections.abc import Iterator

import numpy as np

from dmlrc.errors import UsageError


class ClassBalanced(Iterator[np.ndarray]):
    """C different classes, uniformly at random, and M different images of each: B = C M, class by class.

    Also known as C x M, S x C (Zhai and Wu: 25 images of each of 3 classes) and SPC-M (Roth et al.: C = B / M).
    A class with fewer than M images is sampled with replacement (Musgrave et al.).

    labels: (N,) int. rng: a Generator, or its seed. Raises UsageError if there are fewer than C classes.
    """

    def __init__(
        self, labels: np.ndarray, classes_per_batch: int, images_per_class: int, rng: np.random.Generator | int
    ):
        if images_per_class < 1:
            raise UsageError(f"images_per_class is at least 1, not {images_per_class}")
        self._by_class = np.argsort(labels, kind="stable")  # the images of class i stand from _starts[i] on
        _, self._starts, self._sizes = np.unique(labels[self._by_class], return_index=True, return_counts=True)
        if not 1 <= classes_per_batch <= len(self._sizes):
            raise UsageError(
                f"a batch of {classes_per_batch} classes cannot be drawn from {len(self._sizes)} training classes: "
                "choose a smaller classes_per_batch"
            )
        self.classes_per_batch = classes_per_batch
        self.images_per_class = images_per_class
        self._rng = np.random.default_rng(rng)

    def __next__(self) -> np.ndarray:
        classes = self._rng.permutation(len(self._sizes))[: self.classes_per_batch]
        starts, sizes, m = self._starts[classes, None], self._sizes[classes, None], self.images_per_class
        keys = self._rng.random((len(classes), max(sizes.max(), m)))  # one uniform key an image
        with_replacement = (keys[:, :m] * sizes).astype(np.int64)
        keys[np.arange(keys.shape[1]) >= sizes] = 2.0  # behind the keys of real images
        without_replacement = np.argpartition(keys, m - 1, axis=1)[:, :m]  # the m smallest keys are a fair draw
        picks = np.where(sizes < m, with_replacement, without_replacement)  # (C, M)
        return self._by_class[starts + picks].reshape(-1)
