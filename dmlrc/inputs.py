"""Inputs of a model, and a data set made ready for training.

A model is fed images, the cached features of a frozen trunk, or, where a trunk trains from some layer on, the cached
maps in front of that layer.
"""

import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from dmlrc import data, models
from dmlrc.data import FeatureSet, ImageSet, augment, cache
from dmlrc.data.splits import Splits, halves, official, ratio_4_1_5
from dmlrc.errors import DmlrcError, UsageError
from dmlrc.models.devices import check_device
from dmlrc.models.settings import defaults
from dmlrc.protocol import Protocol, SplitSettings, TrunkInput, TrunkSettings


class Store:
    """An array whose batches are wanted on a device: a GPU holds it whole where it has room, else each is sent."""

    def __init__(self, array: np.ndarray, device: torch.device):
        self.array, self.device = array, device
        room = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
        self.held = torch.from_numpy(np.array(array)).to(device) if array.nbytes < room / 4 else None

    def __getitem__(self, indices: tuple[np.ndarray, ...]) -> Tensor:
        """Look up `array[indices]`, on the device; indices: arrays of whole numbers."""
        if self.held is None:
            return torch.from_numpy(np.ascontiguousarray(self.array[indices])).to(self.device)
        return self.held[tuple(torch.from_numpy(index).to(self.device, non_blocking=True) for index in indices)]


class ImageSource:
    """Batches of images, augmented on the device as the protocol says."""

    def __init__(self, images: ImageSet, protocol: Protocol, device: torch.device):
        self.images, self.protocol, self.device = images, protocol, device
        self._store = Store(images.images, device)

    def train(self, batches: np.ndarray, generator: torch.Generator) -> Iterator[Tensor]:
        """(T, B) indices -> T x (B, C, crop, crop) in [0, 1], each made when its turn comes."""
        return (self._augmented(indices, generator) for indices in batches)

    def _augmented(self, indices: np.ndarray, generator: torch.Generator) -> Tensor:
        images, protocol = self._store[indices,], self.protocol  # (B, C, H, W)
        if protocol.augmentation == "affine":
            images = augment.random_affine(images, generator)
        if protocol.augmentation in ("none", "flip", "affine"):
            crops = augment.centre_crop(images, protocol.image_size, protocol.crop_size)
        elif protocol.augmentation == "place":
            crops = augment.random_place(images, protocol.crop_size, generator)
        else:
            crops = augment.random_resized_crop(
                images, protocol.crop_size, protocol.crop_scale, protocol.crop_ratio, generator
            )
        mirrors = self.images.flip and protocol.augmentation not in ("none", "affine")
        return augment.random_flip(crops, generator) if mirrors else crops

    def evaluate(self, indices: np.ndarray) -> Tensor:
        """indices (N,) -> (N, C, crop, crop) in [0, 1]: resized, centre crop."""
        return augment.centre_crop(self._store[indices,], self.protocol.image_size, self.protocol.crop_size)


class FeatureSource:
    """Batches of what is computed once: features (N, V, F), or the maps (N, V, C, h, w) in front of a trunk's head.

    Of every image there are V: its own, and where V is 2 those of the image mirrored left to right.

    Parameters
    ----------
    values : (N, V, F), (N, V, C, h, w), or (N, F) of the images alone
    device : where the batches are wanted
    """

    def __init__(self, values: np.ndarray, device: torch.device):
        self.values, self.device = Store(values[:, None] if values.ndim == 2 else values, device), device

    def train(self, batches: np.ndarray, generator: torch.Generator) -> Iterable[Tensor]:
        """(T, B) indices -> T x (B, ...) float32, each image mirrored or not as `augment.random_flip` does it."""
        mirrored = np.zeros(batches.shape, dtype=int)
        if self.values.array.shape[1] == 2:  # drawn once for all T: a GPU is waited for
            draws = torch.rand(batches.shape, generator=generator, device=generator.device)
            mirrored = (draws < 0.5).long().cpu().numpy()
        if self.values.array.ndim == 3:  # of features T batches have room
            return self._load(batches, mirrored).unbind()
        return map(self._load, batches, mirrored)

    def evaluate(self, indices: np.ndarray) -> Tensor:
        """indices (N,) -> (N, ...) float32, none of them mirrored."""
        return self._load(indices, np.zeros(len(indices), dtype=int))

    def _load(self, indices: np.ndarray, mirrored: np.ndarray) -> Tensor:
        # not channels last: on maps of 6 x 6 SqueezeNet's last block trains 1.14 times as fast without (CPU, 32 images)
        return self.values[indices, mirrored].float()


Source = ImageSource | FeatureSource


def _flips(images: ImageSet, given: Protocol | TrunkInput) -> bool:
    """Tell whether the augmentation is the evaluation crop and its mirror image."""
    return given.augmentation == "flip" and images.flip


# Small batches, channels last: three times as fast on a CPU (SqueezeNet, 227 px: 17 against 49 ms an image)
_BATCH, _LAYOUT = 16, {"memory_format": torch.channels_last}
_PART = 16 * _BATCH  # images, some seconds: whole batches, so that parts change no number


@defaults()
def frozen_features(images: ImageSet, given: TrunkInput, device: torch.device, mirrored: bool = False) -> np.ndarray:
    """The trunk's features (N, F) float32 of every image, on the evaluation crop or its mirror image; cached on disk.

    The name of the cached file holds what the features depend on, images and weights by their content, and the device
    where it is not a CPU, since others round otherwise. Random weights are those of seed 0, so that every process has
    the same. Parts are kept while the rest is computed: what was stopped goes on where it was.

    Raises DmlrcError for features that are no numbers, as damaged weights give them.
    """
    trunk = models.fixed_trunk(given.trunk, given.weights).to(device, **_LAYOUT).eval()
    name = f"features-{'mirrored-' if mirrored else ''}{_key(images, given, trunk, device)}"

    def features_of(batch: np.ndarray) -> np.ndarray:
        features = _outputs(trunk, batch, given, device, [mirrored])[:, 0].float().cpu().numpy()
        if not np.isfinite(features).all():
            raise DmlrcError(
                f"the features of {images.name} by {given.trunk} are NaN or infinite: get its weights again"
            )
        return features

    def make() -> np.ndarray:
        bar = tqdm(total=len(images.images), desc=f"features of {images.name} by {given.trunk}", unit="image", delay=1)
        parts = []
        with bar:
            for start in range(0, len(images.images), _PART):
                compute = functools.partial(_part, features_of, images, start, device)
                parts.append(cache.cached_array(f"{name}-part{start}.npy", compute))
                bar.update(len(parts[-1]))
        return np.concatenate(parts)

    features = cache.cached_array(f"{name}.npy", make)
    for start in range(0, len(images.images), _PART):
        cache.clear(f"{name}-part{start}.npy")
    return features


@defaults()
def frozen_maps(images: ImageSet, given: TrunkInput, device: torch.device) -> np.ndarray:
    """The maps (N, V, C, h, w) float16 in front of the layer that the trunk trains from; cached on disk, mapped.

    V is 2 where training flips: the evaluation crop and its mirror image; else 1. The file's name and random weights
    are as in `frozen_features`. Raises DmlrcError for maps with values beyond what float16 holds, 65504.
    """
    trunk = models.fixed_trunk(given.trunk, given.weights)
    stem, _ = models.split_trunk(trunk, given.train_from)
    stem.to(device, **_LAYOUT).eval()
    views = [False, True] if _flips(images, given) else [False]

    def maps_of(batch: np.ndarray) -> np.ndarray:
        maps = _outputs(stem, batch, given, device, views).half()
        if not torch.isfinite(maps).all():
            raise DmlrcError(f"the maps of {given.trunk} in front of {given.train_from} are beyond float16's 65504")
        return maps.cpu().numpy()

    def make() -> Iterator[np.ndarray]:
        starts = range(0, len(images.images), _PART)
        for start in tqdm(starts, desc=f"maps before {given.train_from}", unit="part", leave=False, delay=1):
            yield _part(maps_of, images, start, device)

    one = maps_of(images.images[:1])
    filename = f"maps-{given.train_from}-{one.shape[1]}-{_key(images, given, trunk, device)}.npy"
    return cache.cached_rows(filename, (len(images.images), *one.shape[1:]), "<f2", make)


def _part(
    compute: Callable[[np.ndarray], np.ndarray], images: ImageSet, start: int, device: torch.device
) -> np.ndarray:
    """Compute a part of what is cached, on a CPU a batch a thread: no number depends on how many threads torch has."""
    batches = [images.images[i : i + _BATCH] for i in range(start, min(start + _PART, len(images.images)), _BATCH)]
    if device.type != "cpu":
        return np.concatenate([*map(compute, batches)])
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=_settle_thread) as pool:
            return np.concatenate([*pool.map(compute, batches)])
    finally:
        torch.set_num_threads(threads)  # for threads to come


def _settle_thread() -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(False)  # a unit, which may compute features too, has it switched on


def _key(images: ImageSet, given: TrunkInput, trunk: models.Trunk, device: torch.device) -> str:
    """Key that tells the cached values of these images and this trunk from all others."""
    digest = hashlib.sha256(images.images)
    # with the mean and deviation of its input, which torchvision's networks keep out of their state
    for name, tensor in (trunk.state_dict(keep_vars=True) | dict(trunk.named_buffers())).items():
        digest.update(name.encode() + tensor.detach().cpu().numpy().tobytes())
    computed = "" if device.type == "cpu" else f"-{device.type}"
    return f"{images.name}-{given.trunk}-{given.image_size}-{given.crop_size}-{digest.hexdigest()[:16]}{computed}"


@torch.no_grad()
def _outputs(
    part: torch.nn.Module, batch: np.ndarray, given: TrunkInput, device: torch.device, views: list[bool]
) -> Tensor:
    """The outputs (B, V, ...) of a trunk or its stem for images (B, C, H, W). views: which of the V are mirrored."""
    images = torch.from_numpy(np.array(batch)).to(device)
    crops = augment.centre_crop(images, given.image_size, given.crop_size).contiguous(**_LAYOUT)
    return torch.stack([part(crops.flip(-1) if mirrored else crops) for mirrored in views], dim=1)


def device() -> torch.device:
    """Device that training runs on: $DMLRC_DEVICE, else a GPU if there is one, else the CPU. May raise UsageError."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return torch.device(check_device(os.environ.get("DMLRC_DEVICE") or ("cuda" if gpus else "cpu"), gpus))


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
        given, frozen = self.protocol, self.protocol.frozen_trunk
        trunk = models.FeatureTrunk(self.source.values.array.shape[-1]) if frozen else make_trunk(given)
        bfloat16 = given.precision == "bfloat16" and not frozen
        model = models.EmbeddingModel(trunk, given.embedding_dim, layer_norm=given.layer_norm, bfloat16=bfloat16)
        if not frozen and (trunk.channels_last or self.source.device.type == "cuda"):
            model.to(memory_format=torch.channels_last)
        return model


def make_trunk(protocol: TrunkSettings) -> torch.nn.Module:
    """Make the part that trains of a trunk that is not frozen: all of it, or its head."""
    trunk = models.create_trunk(protocol.trunk, protocol.weights)
    if protocol.freeze_batch_norm:
        trunk = models.freeze_batch_norm(trunk)
    return models.split_trunk(trunk, protocol.train_from)[1] if protocol.train_from else trunk


def prepare(dataset: str, protocol: Protocol, class_order: str, seed: int, contents: str | None = None) -> PreparedData:
    """Load the images, split the classes, and compute what is computed once of the trunk (cached on disk).

    contents: `data.contents` of the data set; a folder whose images have changed is loaded again.

    Raises UsageError for a data set of features with another trunk or input than it was made with.
    """
    return _prepared(dataset, protocol, class_order, seed, contents, device())


@functools.lru_cache(maxsize=4)
def _prepared(
    dataset: str, protocol: Protocol, class_order: str, seed: int, contents: str | None, place: torch.device
) -> PreparedData:
    images = load_images(dataset, protocol)
    splits = split(images, protocol, class_order, seed)
    if protocol.computes_once:
        source = FeatureSource(_computed_once(dataset, protocol.trunk_input, contents, place), place)
    else:
        source = ImageSource(images, protocol, place)
    queries = _queries(images, splits.test) if protocol.split == "official" else None  # others have their own classes
    return PreparedData(images.labels, splits, source, protocol, queries)


def load_images(dataset: str, given: Protocol | TrunkInput) -> ImageSet | FeatureSet:
    """The images of a data set, as a protocol wants them, or its features; UsageError for those of another trunk."""
    # these are augmented at the size from which evaluation crops; other photographs are cropped from what is stored
    stored_as_seen = given.augmentation in ("affine", "place") or given.square == "squash"
    images = data.load(dataset, size=given.image_size if stored_as_seen else None, square=given.square)
    if isinstance(images, FeatureSet):
        for name, asked in getattr(given, "trunk_input", given)._asdict().items():
            if asked != (setting := images.made_by[name]):
                raise UsageError(
                    f"data set {images.name!r} holds features that were made with {name} {setting!r}, not {asked!r}: "
                    f"use data set {images.photographs!r}, the photographs, for another trunk or input"
                )
    return images


@functools.lru_cache(maxsize=2)
def _computed_once(dataset: str, given: TrunkInput, contents: str | None, place: torch.device) -> np.ndarray:
    """A partly frozen trunk's maps, or a frozen one's features (N, F), of mirror images too (N, 2, F) where training
    flips; kept, since the rows of a sweep share them. contents: see `prepare`."""
    images = load_images(dataset, given)
    if isinstance(images, FeatureSet):
        return images.features.astype(np.float32)
    if given.train_from:
        return frozen_maps(images, given, place)
    if _flips(images, given):
        return np.stack([frozen_features(images, given, place, mirrored) for mirrored in (False, True)], axis=1)
    return frozen_features(images, given, place)


_FILES: dict[str, str] = {}
"""Digests of the files that `prepare` and `_computed_once` have read, by what they are called."""


def renew(digests: Mapping[str, str]) -> None:
    """Forget what was made ready of files that have been replaced since. digests: of those of today."""
    if any(_FILES.get(name) != digest for name, digest in digests.items()):
        _prepared.cache_clear()
        _computed_once.cache_clear()
    _FILES.update(digests)


def check_same(study: str, begun: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise DmlrcError for files that are others than those with which a study was begun. Both: digests by name."""
    for name, digest in begun.items():
        if now.get(name, digest) != digest:
            raise DmlrcError(
                f"the {name} are others than those with which study {study!r} was begun: put them back, or give the "
                "study another name"
            )


def split(images: ImageSet | FeatureSet, protocol: SplitSettings, class_order: str, seed: int) -> Splits:
    """The splits of a protocol. Raises UsageError where the data set has no such ones, or too few classes for them."""
    if protocol.split == "ratio_4_1_5":
        return ratio_4_1_5(images.labels, order=class_order, seed=seed)
    if protocol.split == "official":
        if images.partition is None:
            raise UsageError(f"data set {images.name} has no official split: use 'halves'")
        if class_order != "default":
            raise UsageError(f"the official split of {images.name} has its own classes: use class_order 'default'")
        return official(images.labels, images.partition, folds=protocol.folds)
    return halves(images.labels, folds=protocol.folds, order=class_order, seed=seed)


def _queries(images: ImageSet | FeatureSet, test: np.ndarray) -> np.ndarray | None:
    """Test images that the official split names queries, if it does (In-Shop)."""
    asked = images.partition[test] == "query"
    return test[asked] if asked.any() else None
