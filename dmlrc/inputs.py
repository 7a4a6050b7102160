"""What a model is fed, images or the cached features of a frozen trunk, and a data set made ready for training."""

import functools
import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol as Interface

import numpy as np
import torch
from torch import Tensor

from dmlrc import data, models
from dmlrc.data import ImageSet, augment, cache
from dmlrc.data.splits import Splits, halves, official, ratio_4_1_5
from dmlrc.errors import UsageError
from dmlrc.protocol import Protocol, TrunkInput


class Source(Interface):
    """Where a model's input comes from: images, or the cached features of a frozen trunk."""

    device: torch.device

    def train(self, batches: np.ndarray, generator: torch.Generator) -> Iterable[Tensor]:
        """(T, B) indices -> of T batches the augmented input (B, ...)."""

    def evaluate(self, indices: np.ndarray) -> Tensor:
        """indices (N,) -> input (N, ...), without augmentation."""


class ImageSource:
    """Batches of images, augmented on the device as the protocol says."""

    def __init__(self, images: ImageSet, protocol: Protocol, device: torch.device):
        self.images, self.protocol, self.device = images, protocol, device

    def train(self, batches: np.ndarray, generator: torch.Generator) -> Iterator[Tensor]:
        """(T, B) indices -> T x (B, C, crop, crop) in [0, 1], each made when its turn comes."""
        return (self._augmented(indices, generator) for indices in batches)

    def _augmented(self, indices: np.ndarray, generator: torch.Generator) -> Tensor:
        images, protocol = self._load(indices), self.protocol
        if protocol.augmentation == "none":
            return augment.centre_crop(images, protocol.image_size, protocol.crop_size)
        if protocol.augmentation == "affine":
            return augment.random_affine(images, generator)
        if protocol.augmentation == "place":
            crops = augment.random_place(images, protocol.crop_size, generator)
        else:
            crops = augment.random_resized_crop(
                images, protocol.crop_size, protocol.crop_scale, protocol.crop_ratio, generator
            )
        return augment.random_flip(crops, generator) if self.images.flip else crops

    def evaluate(self, indices: np.ndarray) -> Tensor:
        """indices (N,) -> (N, C, crop, crop) in [0, 1]: resized, centre crop."""
        return augment.centre_crop(self._load(indices), self.protocol.image_size, self.protocol.crop_size)

    def _load(self, indices: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(self.images.images[indices])).to(self.device)  # (B, C, H, W)


class FeatureSource:
    """Batches of fixed features (N, F): the frozen-trunk protocol. Nothing is augmented."""

    def __init__(self, features: np.ndarray, device: torch.device):
        self.features, self.device = torch.from_numpy(np.array(features)).to(device), device

    def train(self, batches: np.ndarray, generator: torch.Generator) -> tuple[Tensor, ...]:
        """(T, B) indices -> T x (B, F)."""
        return self.evaluate(batches).unbind()

    def evaluate(self, indices: np.ndarray) -> Tensor:
        """indices (N,) -> (N, F)."""
        return self.features[torch.from_numpy(indices).to(self.device)]


def frozen_features(images: ImageSet, given: TrunkInput, device: torch.device) -> np.ndarray:
    """The trunk's features (N, F) float32 of every image, on the evaluation crop; cached on disk.

    The name of the cached file holds everything that the features depend on; images and weights by their content.
    Random weights are those of seed 0, so that every process has the same.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        trunk = models.create_trunk(given.trunk, given.weights)
    digest = hashlib.sha256(images.images)
    for name, tensor in trunk.state_dict().items():
        digest.update(name.encode() + tensor.numpy().tobytes())
    trunk_name = given.trunk.replace(":", "-")  # a file name with ":" is not one everywhere
    key = f"{images.name}-{trunk_name}-{given.image_size}-{given.crop_size}-{digest.hexdigest()[:16]}"

    # channels last and small batches: three times as fast on a CPU (SqueezeNet, 227 px: 17 against 49 ms an image)
    layout = {"memory_format": torch.channels_last}

    def preprocess(batch: Tensor) -> Tensor:
        return augment.centre_crop(batch, given.image_size, given.crop_size).contiguous(**layout)

    def make() -> np.ndarray:
        return models.embed(trunk.to(**layout), images.images, preprocess, batch_size=16, device=device)

    return cache.computed(f"features-{key}.npy", make)


def device() -> torch.device:
    """Where training runs: $DMLRC_DEVICE, else a GPU if there is one, else the CPU.

    Raises UsageError for a device that there is not.
    """
    named = os.environ.get("DMLRC_DEVICE")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not named:
        return torch.device("cuda" if gpus else "cpu")
    here = ["cpu", *["cuda"][:gpus], *(f"cuda:{number}" for number in range(gpus))]
    if torch.backends.mps.is_available():
        here.append("mps")
    if named not in here:
        raise UsageError(
            f"DMLRC_DEVICE is {named!r}, but this machine has only {', '.join(here)}: name one of these, or unset it"
        )
    return torch.device(named)


@dataclass(frozen=True)
class PreparedData:
    """A data set made ready for a protocol: labels (N,), splits, input, and a way to build untrained models.

    queries: the test images that are searched for among the other ones; None where every test image is both.
    """

    labels: np.ndarray
    splits: Splits
    source: Source
    protocol: Protocol
    queries: np.ndarray | None = None

    def make_model(self) -> models.EmbeddingModel:
        trunk = (
            models.FeatureTrunk(self.source.features.shape[1])
            if self.protocol.frozen_trunk
            else make_trunk(self.protocol)
        )
        return models.EmbeddingModel(trunk, self.protocol.embedding_dim, layer_norm=self.protocol.layer_norm)


def make_trunk(protocol: Protocol) -> torch.nn.Module:
    trunk = models.create_trunk(protocol.trunk, protocol.weights)
    return models.freeze_batch_norm(trunk) if protocol.freeze_batch_norm else trunk


@functools.lru_cache(maxsize=4)
def prepare(dataset: str, protocol: Protocol, class_order: str, seed: int) -> PreparedData:
    """Load the images, split the classes, and compute the features of a frozen trunk (cached on disk)."""
    images = _images(dataset, protocol)
    splits = _split(images, protocol, class_order, seed)
    if protocol.frozen_trunk:
        source = FeatureSource(_features(dataset, protocol.trunk_input), device())
    else:
        source = ImageSource(images, protocol, device())
    return PreparedData(images.labels, splits, source, protocol, _queries(images, splits.test))


def _images(dataset: str, given: Protocol | TrunkInput) -> ImageSet:
    # characters are augmented at the size that the trunk sees; photographs are cropped from what is stored
    stored_as_seen = given.augmentation == "affine" or given.square == "squash"
    return data.load(dataset, size=given.image_size if stored_as_seen else None, square=given.square)


@functools.lru_cache(maxsize=2)
def _features(dataset: str, given: TrunkInput) -> np.ndarray:
    """The features of a frozen trunk; kept, since the rows of a sweep share them."""
    return frozen_features(_images(dataset, given), given, device())


def _split(images: ImageSet, protocol: Protocol, class_order: str, seed: int) -> Splits:
    if protocol.split == "ratio_4_1_5":
        return ratio_4_1_5(images.labels, order=class_order, seed=seed)
    if protocol.split == "official":
        if images.partition is None:
            raise UsageError(f"data set {images.name} has no official split: use 'halves'")
        return official(images.labels, images.partition, folds=protocol.folds)
    return halves(images.labels, folds=protocol.folds, order=class_order, seed=seed)


def _queries(images: ImageSet, test: np.ndarray) -> np.ndarray | None:
    """Of the test images those that the data set names queries, if it does (In-Shop)."""
    if images.partition is None or not np.any(images.partition[test] == "query"):
        return None
    return test[images.partition[test] == "query"]
