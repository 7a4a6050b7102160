"""A protocol holds fixed what a fair comparison holds fixed; a budget says how much of it is run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Protocol:
    """Every setting that all methods share. Sizes in pixels, rates per step, patience in epochs.

    weights: None (random), "imagenet", or a file (relative to the data folder). frozen_trunk: the trunk's
    features are computed once, on the evaluation crop, and only the embedder trains.
    augmentation: "crop" is the random resized crop (flipped where the data set allows it), "affine" the
    small affine changes for characters, "none" the evaluation crop.
    eval_every, patience, max_epochs are counted in epochs of iterations_per_epoch batches.
    """

    name: str
    paper: str
    trunk: str
    weights: str | None
    frozen_trunk: bool
    embedding_dim: int
    image_size: int
    crop_size: int
    augmentation: str
    crop_scale: tuple[float, float]
    crop_ratio: tuple[float, float]
    optimizer: str
    lr: float
    weight_decay: float
    momentum: float
    folds: int
    iterations_per_epoch: int
    eval_every: int
    patience: int
    max_epochs: int


@dataclass(frozen=True)
class Budget:
    """How much of a protocol is run: trials a search, reruns of the best trial, and a cap on the epochs."""

    name: str
    trials: int
    reruns: int
    max_epochs: int | None = None
    iterations_per_epoch: int | None = None


FULL = Budget("full", trials=50, reruns=10)
QUICK = Budget("quick", trials=3, reruns=3, max_epochs=4, iterations_per_epoch=40)
SMOKE = Budget("smoke", trials=2, reruns=2, max_epochs=1, iterations_per_epoch=3)
