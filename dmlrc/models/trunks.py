"""The trunks by name, with random or pretrained weights."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from dmlrc.errors import MissingDataError, UsageError, unknown
from dmlrc.models import files, from_timm, weight_files
from dmlrc.models.base import Trunk
from dmlrc.models.bn_inception import BNInception
from dmlrc.models.conv4 import Conv4

# What torchvision's pretrained networks expect of RGB in [0, 1].
IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
# GoogLeNet and Inception-v3 come from TensorFlow and take [-1, 1]: torchvision's `transform_input` does the same.
# PyTorch's own initialisation of the layers keeps their random features in range; torchvision's does not.
TENSORFLOW = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "aux_logits": False, "init_weights": False}
# Children of a torchvision network after its last feature map, and the auxiliary classifiers.
HEAD = {"avgpool", "dropout", "fc", "classifier", "aux1", "aux2", "AuxLogits"}


class TorchvisionTrunk(Trunk):
    """A torchvision network without its classifiers: its other children in sequence, under the same names.

    network: torchvision's name of it, unless it is that of the trunk. last: the child that the trunk ends with.
    """

    def __init__(
        self,
        name: str,
        out_features: int,
        image_size: int,
        mean: list[float],
        std: list[float],
        network: str | None = None,
        last: str | None = None,
        **options,
    ):
        from torchvision import models  # takes seconds to import, and only these trunks need it

        super().__init__(name, out_features, image_size, mean, std)
        for child, layer in models.get_model(network or name, weights=None, **options).named_children():
            if child not in HEAD:
                self.add_module(child, layer)
            if child == last:
                break

    def feature_maps(self, images: Tensor) -> Tensor:
        for layer in self.children():
            images = layer(images)
        return images


TRUNKS: dict[str, Callable[[], Trunk]] = {
    "conv4": Conv4,
    "squeezenet1_0": partial(TorchvisionTrunk, "squeezenet1_0", 512, 224, **IMAGENET),
    "googlenet": partial(TorchvisionTrunk, "googlenet", 1024, 224, **TENSORFLOW),
    "resnet18": partial(TorchvisionTrunk, "resnet18", 512, 224, **IMAGENET),
    "resnet50": partial(TorchvisionTrunk, "resnet50", 2048, 224, **IMAGENET),
    "inception_v3": partial(TorchvisionTrunk, "inception_v3", 2048, 299, **TENSORFLOW),
    "inception_v3_mixed7a": partial(
        TorchvisionTrunk, "inception_v3_mixed7a", 1280, 299, network="inception_v3", last="Mixed_7a", **TENSORFLOW
    ),
    "bn_inception": BNInception,
}


def fixed_trunk(name: str, weights: str | Path | None = None) -> Trunk:
    """Make a trunk that is the same in every process: as `create_trunk`, random weights those of seed 0."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return create_trunk(name, weights)


def create_trunk(name: str, weights: str | Path | None = None) -> Trunk:
    """Make a trunk: a module that turns images (B, 1 or 3, H, W), RGB in [0, 1], into features (B, trunk.out_features).

    Parameters
    ----------
    name : one of `names()`, or "timm:NAME" with any name that timm has
    weights : None, "imagenet", "package" or a path
        None: a random initialisation by torch's global generator. "imagenet": torchvision's IMAGENET1K_V1 weights or
        those of timm, downloaded once into the cache of torch or of the Hugging Face Hub; BN-Inception's, which have no
        official download, are the file bn_inception-52deb4733.pth in the folder $DMLRC_DATA. "package": those that a
        Python package brings, of `files.PACKAGED`. A path: that of a state_dict, see `find_weights`, read with
        `weights_only=True`; it must fit exactly, but for the classifiers, which a trunk does not have. The BatchNorm of
        Inception-v3 up to Mixed_7a, whose weights are the file inception_v3_mixed7a.pth, is to be frozen in training.

    Returns
    -------
    Trunk, with `out_features`

    Raises
    ------
    UsageError
        For an unknown name or weights that the trunk does not have.
    MissingDataError
        For a file that is not there or cannot be downloaded.
    DmlrcError
        For a file that is damaged or does not fit.
    """
    if not isinstance(name, str):
        raise unknown("trunk", name, TRUNKS)
    if weights is not None and not isinstance(weights, str | os.PathLike):
        raise UsageError(f"weights are None, 'imagenet', 'package' or the path of a file, not {weights!r}")
    if weights == "package" and not files.packaged(name):
        raise UsageError(f"{name} has no weights 'package', only {' and '.join(files.PACKAGED)} have")
    if name.startswith(files.TIMM):
        return from_timm.create_timm_trunk(name, weights)
    if name not in TRUNKS:
        raise unknown("trunk", name, TRUNKS)
    trunk = TRUNKS[name]()
    if weights is not None:
        path = _imagenet_file(name) if weights == "imagenet" else files.find_weights(weights)
        _check_known(name, path)
        state = weight_files.read_weights(path)
        kept = {key: value for key, value in state.items() if key.split(".")[0] not in HEAD}
        weight_files.load_weights(trunk, kept, path, name)
    return trunk


def _imagenet_file(name: str) -> Path:
    """The file of the ImageNet weights, downloaded if need be."""
    if name == "conv4":
        raise UsageError("conv4 has no ImageNet weights: let weights be none, or the path of a state_dict")
    if name == "inception_v3_mixed7a":
        raise UsageError(
            f"the ImageNet weights of {name} come from the file {files.MIXED7A_FILE}: put it into the folder "
            "$DMLRC_DATA and give its name as weights"
        )
    if name == "bn_inception":
        try:
            return files.find_weights(files.BN_INCEPTION_FILE)
        except MissingDataError:
            raise MissingDataError(
                f"the ImageNet weights of bn_inception have no official download: put {files.BN_INCEPTION_FILE}, the "
                "file of pretrained-models.pytorch, into the folder $DMLRC_DATA, or pass its path as weights"
            ) from None
    path, url = files.torchvision_file(name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            torch.hub.download_url_to_file(url, path, hash_prefix=_checksum(path))
        except (OSError, RuntimeError) as error:  # no network, no room; a wrong checksum
            raise MissingDataError(
                f"cannot download the ImageNet weights of {name} ({error}): get {url} and put it at {path}"
            ) from error
    return path


def _check_known(name: str, path: Path) -> None:
    """Raise DmlrcError for a file that has the name of a trunk's known weights and is another."""
    if name == "inception_v3_mixed7a" and path.name == files.MIXED7A_FILE:
        weight_files.check_digest(path, files.MIXED7A_SHA256, "get it again, or give yours another name")
    if name not in files.TORCHVISION:
        return
    official, url = files.torchvision_file(name)
    if path.name == official.name:
        weight_files.check_digest(path, _checksum(path), f"remove it and get {url} again")


def _checksum(path: Path) -> str:
    """The start of their SHA-256, with which the names of torchvision's files end."""
    return path.stem.rsplit("-", 1)[1]
