"""Batch samplers: endless, seeded iterators over index arrays, (B,) int64 positions into `labels`.

A sampler for a fold is made from `labels[fold.train]`; its positions then index `fold.train`. `rng` is a numpy
Generator or a seed. The samplers of Roth et al. 2020, section 3.2: SPC-n is `ClassBalanced` with B / n classes of n
images; SPC-R is `SpcR`; GC, DDM and FRD are `GreedyCoreset`, `DistributionMatching` and `Frechet`.
"""

from collections.abc import Callable, Iterator

import numpy as np

from dmlrc.errors import DivergedError, UsageError, unknown

Rng = np.random.Generator | int


class Sampler(Iterator[np.ndarray]):
    """Base of all samplers: one draws its batches one by one or, by `draw`, many at once.

    ahead: how many batches can be drawn at once; 1 where a batch depends on the last.
    """

    ahead = 100

    def __next__(self) -> np.ndarray:
        return self.draw(1)[0]

    def draw(self, count: int) -> np.ndarray:
        """Draw the next batches: (count, B). Drawn at once they are others than drawn one by one, of one seed."""
        return np.stack([next(self) for _ in range(count)])


def distinct(sizes: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """Draw for each of (R,) sizes m different whole numbers below it, uniformly, in random order: (R, m).

    Floyd's algorithm (Bentley and Floyd 1987) for all rows at once. sizes: at least m.
    """
    drawn = np.empty((len(sizes), m), dtype=np.int64)
    for column in range(m):
        last = sizes - m + column  # (R,) the largest number that may come in so far
        number = rng.integers(last + 1)
        taken = (drawn[:, :column] == number[:, None]).any(axis=1)
        drawn[:, column] = np.where(taken, last, number)
    return rng.permuted(drawn, axis=1)


class _Classes:
    """Draws images of given classes."""

    def __init__(self, labels: np.ndarray):
        labels = np.asarray(labels)  # torchvision has them as a list
        self._images = np.argsort(labels, kind="stable")  # those of class i stand from starts[i] on
        _, self._starts, self.sizes = np.unique(labels[self._images], return_index=True, return_counts=True)

    def __len__(self) -> int:
        return len(self.sizes)

    def draw(self, classes: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
        """Draw (K, m) images of (K,) classes: different ones, or with replacement where a class has fewer than m."""
        sizes = self.sizes[classes]
        drawn = distinct(np.maximum(sizes, m), m, rng)
        if (small := sizes < m).any():
            drawn[small] = rng.integers(sizes[small, None], size=(small.sum(), m))
        return self._images[self._starts[classes, None] + drawn]


class ClassBalanced(Sampler):
    """C different classes, uniformly at random, and M different images of each: B = C M, class by class.

    Also known as C x M, S x C (Zhai and Wu: 25 images of each of 3 classes) and SPC-M (Roth et al.: C = B / M).
    A class with fewer than M images is sampled with replacement (Musgrave et al.).

    Parameters
    ----------
    labels : (N,) int
    classes_per_batch, images_per_class : C and M
    rng : numpy Generator, or a seed

    Raises
    ------
    UsageError
        If there are fewer than C classes.
    """

    def __init__(self, labels: np.ndarray, classes_per_batch: int, images_per_class: int, rng: Rng):
        if images_per_class < 1:
            raise UsageError(f"images_per_class is at least 1, not {images_per_class}")
        self._classes = _Classes(labels)
        _check_room(classes_per_batch, len(self._classes), "classes")
        self.classes_per_batch = classes_per_batch
        self.images_per_class = images_per_class
        self._rng = np.random.default_rng(rng)

    def draw(self, count: int) -> np.ndarray:
        classes = distinct(np.full(count, len(self._classes)), self.classes_per_batch, self._rng)  # (count, C)
        images = self._classes.draw(classes.reshape(-1), self.images_per_class, self._rng)  # (count * C, M)
        return images.reshape(count, -1)  # (count, B)


class RandomBatches(Sampler):
    """B different images, uniformly at random, whatever their classes (Zhai and Wu, Table 4: no balancing)."""

    def __init__(self, labels: np.ndarray, batch_size: int, rng: Rng):
        _check_room(batch_size, len(labels), "images")
        self._count, self.batch_size = len(labels), batch_size
        self._rng = np.random.default_rng(rng)

    def __next__(self) -> np.ndarray:
        return self._rng.choice(self._count, self.batch_size, replace=False)


class SpcR(Sampler):
    """B - 1 different images at random and a last one of the same class as one of them (Roth et al., SPC-R).

    So at least one positive pair is there, and the number of classes varies. The last image is another one of the
    class of a random image of the batch. Raises UsageError if no class has two images.
    """

    def __init__(self, labels: np.ndarray, batch_size: int, rng: Rng):
        _check_room(batch_size, len(labels), "images")
        if batch_size < 2 or np.unique(labels).size == len(labels):
            raise UsageError("SPC-R needs batches of at least 2 images and a class of at least 2")
        self._labels, self.batch_size = np.asarray(labels), batch_size  # compared with a list, nothing is a mate
        self._rng = np.random.default_rng(rng)

    def __next__(self) -> np.ndarray:
        while True:  # a batch whose classes hold nothing else is drawn again
            images = self._rng.choice(len(self._labels), self.batch_size - 1, replace=False)
            for anchor in self._rng.permutation(images):
                mates = np.setdiff1d(np.flatnonzero(self._labels == self._labels[anchor]), images)
                if len(mates):
                    return np.append(images, self._rng.choice(mates))


class Episodes(Sampler):
    """C classes with `support` and then `query` images of each, all different, class by class (prototypical networks).

    A batch reshaped to (C, support + query) has the support images in its first columns, in random order. Classes with
    fewer than support + query images are left out, since a query must not be its own support. Raises UsageError if
    fewer than C classes are left.
    """

    def __init__(self, labels: np.ndarray, classes_per_batch: int, support: int, query: int, rng: Rng):
        labels = np.asarray(labels)
        _, inverse, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        self._kept = np.flatnonzero(sizes[inverse] >= support + query)
        if (left := np.count_nonzero(sizes >= support + query)) < min(classes_per_batch, len(sizes)):
            raise UsageError(f"only {left} classes have {support} + {query} images: lower support + query")
        self._rng = np.random.default_rng(rng)
        self._balanced = ClassBalanced(labels[self._kept], classes_per_batch, support + query, self._rng)

    def draw(self, count: int) -> np.ndarray:
        return self._kept[self._balanced.draw(count)]  # the images of a class are in random order already


class FromMemory(Sampler):
    """Base of the embedded samplers: a memory bank of the embeddings of all training images.

    Batches are chosen from a random pool B* of it.

    Batches consist of B / n groups of n images of one class, as in the authors' code: the paper's samplers choose by
    embedding alone, which on SOP would leave hardly any positive pairs.

    labels: (N,). embeddings: (N, D), the first content of the bank. images_per_class: n (the paper: 2).
    Raises UsageError where n does not divide the batch size, the data has fewer than B / n classes, or the pool is
    smaller than a batch.
    """

    ahead = 1
    pool_size = 1024  # B* of the paper

    def __init__(
        self, labels: np.ndarray, embeddings: np.ndarray, batch_size: int, rng: Rng, images_per_class: int = 2
    ):
        if images_per_class < 1 or batch_size % images_per_class:
            raise UsageError(f"a batch of {batch_size} images cannot consist of groups of {images_per_class}")
        if self.pool_size < batch_size:
            raise UsageError(f"a pool of {self.pool_size} images is smaller than a batch of {batch_size}")
        self._classes = _Classes(labels)
        self._groups = batch_size // images_per_class
        _check_room(self._groups, len(self._classes), "classes")
        self._labels = np.unique(labels, return_inverse=True)[1]  # 0..C-1, as in _classes
        self.memory = np.array(embeddings, dtype=np.float32)  # (N, D)
        self.images_per_class = images_per_class
        self._rng = np.random.default_rng(rng)

    def update(self, indices: np.ndarray, embeddings: np.ndarray) -> None:
        """Puts the embeddings (B, D) of a training batch into the bank, at its positions (B,).

        Raises DivergedError where they are not finite, since no batch could be chosen by them.
        """
        if not np.isfinite(embeddings).all():
            raise DivergedError("the embeddings hold NaN or infinite values")
        self.memory[indices] = embeddings


class GreedyCoreset(FromMemory):
    """B / n anchors that cover the pool greedily (`greedy_coreset`), each with n - 1 other images of its class.

    The pool is B* different images. The distances measured and the images chosen are those of one and the same pool;
    measured on another one, the anchors would cover the pool no better than random ones do.
    """

    def __next__(self) -> np.ndarray:
        count = len(self._labels)
        pool = self._rng.choice(count, min(self.pool_size, count), replace=False)
        first = int(self._rng.integers(len(pool)))
        anchors = pool[greedy_coreset(self.memory[pool], self._groups, first)]  # (B / n,)
        return np.column_stack([anchors, self._mates(anchors)]).reshape(-1)

    def _mates(self, anchors: np.ndarray) -> np.ndarray:
        """Draw (K, n - 1) images of the classes of (K,): of n drawn ones the anchor, else the last, falls out."""
        drawn = self._classes.draw(self._labels[anchors], self.images_per_class, self._rng)
        hits = drawn == anchors[:, None]
        out = np.where(hits.any(axis=1), hits.argmax(axis=1), drawn.shape[1] - 1)
        return drawn[np.arange(drawn.shape[1]) != out[:, None]].reshape(len(anchors), -1)


def greedy_coreset(points: np.ndarray, size: int, first: int) -> np.ndarray:
    """Greedy solution of min over B of max over x* in B* of min over x in B of d(x, x*) (Agarwal et al. 2005).

    points: (P, D). From `first` on, each step adds the point that is farthest from all chosen ones; the covering radius
    is at most twice the smallest possible. Returns (size,) positions, in the order chosen; all different as long as
    `size` points are.
    """
    chosen = [first]
    distance = np.linalg.norm(points - points[first], axis=1)  # (P,) from each point to its nearest chosen one
    for _ in range(size - 1):
        distance[chosen[-1]] = -1.0  # never again, also where all other points coincide with chosen ones
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.linalg.norm(points - points[chosen[-1]], axis=1))
    return np.array(chosen)


class _Matching(FromMemory):
    """The one of m random candidate batches whose embeddings are distributed most like those of the pool.

    The pool is B* / n groups; classes come in turn, in random order. A candidate is B / n groups of different classes.
    """

    candidates = 10  # m of the paper, which the authors' code has
    # From a pool (P, D) to each of several batches, which are positions into it.
    _distances: Callable[[np.ndarray, list[np.ndarray]], list[float]]

    def __next__(self) -> np.ndarray:
        groups, classes = self._pool()
        points = self.memory[groups.reshape(-1)]
        batches = [self._candidate(classes) for _ in range(self.candidates)]  # positions of groups
        n = self.images_per_class
        within = [(n * batch[:, None] + np.arange(n)).reshape(-1) for batch in batches]  # positions of points
        return groups[batches[int(np.argmin(self._distances(points, within)))]].reshape(-1)

    def _pool(self) -> tuple[np.ndarray, np.ndarray]:
        """Draw (G, n) images in groups of one class, and (G,) the class of each."""
        count = self.pool_size // self.images_per_class
        turns = [self._rng.permutation(len(self._classes)) for _ in range(-(-count // len(self._classes)))]
        classes = np.concatenate(turns)[:count]
        return self._classes.draw(classes, self.images_per_class, self._rng), classes

    def _candidate(self, classes: np.ndarray) -> np.ndarray:
        shuffled = self._rng.permutation(len(classes))
        _, first = np.unique(classes[shuffled], return_index=True)  # one random group of each class
        return shuffled[self._rng.permutation(first)[: self._groups]]


def histogram_distances(points: np.ndarray, batches: list[np.ndarray], bins: int = 50) -> list[float]:
    """Wasserstein distances between the histogram of pairwise distances of a pool and those of batches of it.

    points: (P, D). batches: positions into points. All histograms have the same bins, `bins` of equal width over the
    range of the pool, and sum 1; W = bin width * sum |cumulative difference|. The heights of the bins are weights at
    their places: taken as samples, a histogram and its reverse would have distance 0.
    """
    square = (points**2).sum(axis=1)
    distances = np.sqrt(np.maximum(square[:, None] + square[None, :] - 2 * (points @ points.T), 0))  # (P, P)
    sets = (np.arange(len(points)), *batches)
    pairs = [distances[np.ix_(some, some)][np.triu_indices(len(some), k=1)] for some in sets]  # (pairs,) of each
    edges = np.histogram_bin_edges(pairs[0], bins)
    pool, *others = (np.histogram(values, edges)[0] / len(values) for values in pairs)
    return [float((edges[1] - edges[0]) * np.abs(np.cumsum(other - pool)).sum()) for other in others]


def frechet_distances(points: np.ndarray, batches: list[np.ndarray]) -> list[float]:
    """Frechet distances between a pool and batches of it, |mu_B - mu|^2 + Tr(S_B + S - 2 (S_B S)^(1/2)).

    points: (P, D). batches: positions into points, at least two each. mu and S are mean and unbiased covariance. With
    S = R^T R the trace of the root is the sum of the singular values of R_B R^T, so that no matrix root is needed and
    singular covariances (fewer points than dimensions) are exact.
    """
    mean, root = _moments(points)
    distances = []
    for batch_mean, batch_root in (_moments(points[batch]) for batch in batches):
        cross = np.linalg.svd(batch_root @ root.T, compute_uv=False).sum()
        moments = np.sum((batch_mean - mean) ** 2) + np.sum(batch_root**2) + np.sum(root**2)
        distances.append(float(moments - 2 * cross))
    return distances


def _moments(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean (D,) and a root R of the covariance R^T R, with at most D rows."""
    points = points.astype(np.float64)
    mean = points.mean(axis=0)
    return mean, np.linalg.qr((points - mean) / np.sqrt(len(points) - 1), mode="r")


class DistributionMatching(_Matching):
    """DDM: the candidate whose histogram of pairwise distances is nearest to the pool's (`histogram_distances`)."""

    _distances = staticmethod(histogram_distances)


class Frechet(_Matching):
    """FRD: the candidate with the smallest Frechet distance to the pool (`frechet_distances`)."""

    _distances = staticmethod(frechet_distances)


SAMPLERS = ("class_balanced", "random", "spc_r", "episodes", "greedy_coreset", "distribution_matching", "frechet")
_FROM_MEMORY = {"greedy_coreset": GreedyCoreset, "distribution_matching": DistributionMatching, "frechet": Frechet}


class _Own(Sampler):
    """A sampler of the reader's own: batch after batch from an iterator, which need be no `Sampler`."""

    ahead = 1

    def __init__(self, batches: Iterator, images: int):
        self._batches, self._images, self._size = iter(batches), images, None

    def __next__(self) -> np.ndarray:
        if (drawn := next(self._batches, None)) is None:
            raise UsageError("a sampler of one's own has no more batches: let it go on for ever")
        batch = np.asarray(drawn)
        if batch.ndim != 1 or batch.dtype.kind not in "iu" or not np.all((batch >= 0) & (batch < self._images)):
            raise UsageError(
                f"a sampler of one's own gives batches of positions from 0 to {self._images - 1}, not {batch}: mend it"
            )
        if len(batch) != (self._size or len(batch)):
            raise UsageError(
                f"a sampler of one's own gives batches of {self._size} and of {len(batch)} images: let all be alike"
            )
        self._size = len(batch)
        return batch.astype(np.int64)


def create_sampler(
    name: str | Callable[..., Iterator],
    labels: np.ndarray,
    classes_per_batch: int,
    images_per_class: int,
    rng: Rng,
    embed: Callable[[], np.ndarray],
) -> Sampler:
    """Make the sampler of this name, for batches of classes_per_batch x images_per_class images.

    One of the reader's own is a function of labels (N,), classes_per_batch, images_per_class and a Generator, which
    returns an endless iterator over batches (B,) of positions into the labels, all of one size.

    "random" and "spc_r" keep the size of the batch only. Episodes have half of a class's images, rounded down, as
    support. embed: gives the embeddings (N, D) that a memory bank begins with; called by the samplers that have one.
    """
    size = classes_per_batch * images_per_class
    if callable(name):
        return _Own(name(labels, classes_per_batch, images_per_class, np.random.default_rng(rng)), len(labels))
    if name == "class_balanced":
        return ClassBalanced(labels, classes_per_batch, images_per_class, rng)
    if name == "random":
        return RandomBatches(labels, size, rng)
    if name == "spc_r":
        return SpcR(labels, size, rng)
    if name == "episodes":
        support = images_per_class // 2
        return Episodes(labels, classes_per_batch, support, images_per_class - support, rng)
    if name in _FROM_MEMORY:
        return _FROM_MEMORY[name](labels, embed(), size, rng, images_per_class)
    raise unknown("sampler", name, SAMPLERS)


def _check_room(wanted: int, present: int, what: str) -> None:
    if not 1 <= wanted <= present:
        way_out = ": choose fewer classes per batch" if what == "classes" else ""
        raise UsageError(f"a batch of {wanted} different {what} cannot be drawn from {present}{way_out}")
