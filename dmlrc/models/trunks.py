"""The trunks by name, with random or pretrained weights."""

import glob
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import shorten

import torch
from torch import Tensor

from dmlrc.errors import DmlrcError, MissingDataError, UsageError, unknown
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
    """A torchvision network without its classifiers: its other children in sequence, under the same names."""

    def __init__(self, name: str, out_features: int, image_size: int, mean: list[float], std: list[float], **options):
        from torchvision import models  # takes seconds to import, and only these trunks need it

        super().__init__(name, out_features, image_size, mean, std)
        for child, layer in models.get_model(name, weights=None, **options).named_children():
            if child not in HEAD:
                self.add_module(child, layer)

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
    "bn_inception": BNInception,
}
# The ImageNet weights of the Reality Check: https://github.com/Cadene/pretrained-models.pytorch
BN_INCEPTION_FILE = "bn_inception-52deb4733.pth"


def names() -> list[str]:
    """The names of all trunks."""
    return list(TRUNKS)


def create_trunk(name: str, weights: str | Path | None = None) -> Trunk:
    """Make a trunk: a module that turns images (B, 1 or 3, H, W), RGB in [0, 1], into features (B, trunk.out_features).

    name: one of `names()`.
    weights: None for a random initialisation (torch's global generator), "imagenet" for torchvision's
    IMAGENET1K_V1 weights, downloaded once into torch's cache, or the path of a state_dict file, see
    `find_weights`. The file is read with `weights_only=True` and must fit exactly; only the classifiers,
    which a trunk does not have, are left out. BN-Inception's ImageNet weights have no official download: "imagenet"
    takes the file bn_inception-52deb4733.pth from the folder $DMLRC_DATA.

    Raises UsageError for an unknown name or weights that the trunk does not have, MissingDataError for a file
    that is not there or cannot be downloaded, DmlrcError for one that is damaged or does not fit.
    """
    if name not in TRUNKS:
        raise unknown("trunk", name, TRUNKS)
    trunk = TRUNKS[name]()
    if weights is not None:
        path = _imagenet_file(name) if weights == "imagenet" else find_weights(weights)
        _load(trunk, path)
    return trunk


def find_weights(path: str | Path) -> Path:
    """The weight file at `path`, or at `path` inside the folder $DMLRC_DATA; a bare file name also one folder below."""
    path = Path(path)
    candidates = [path.expanduser()]
    if root := os.environ.get("DMLRC_DATA"):
        home = Path(root).expanduser()
        candidates.append(home / path)
        if path.parent == Path():
            candidates += sorted(home.glob(f"*/{glob.escape(path.name)}"))
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise MissingDataError(
        f"no weight file at {' or '.join(map(str, candidates))}: "
        "give 'imagenet', or the path of a state_dict, absolute or relative to the folder $DMLRC_DATA (a bare file "
        "name: or to one of its folders)"
    )


def has_weights(name: str, weights: str | Path | None) -> bool:
    """Whether `create_trunk` with these arguments would find its weights here, without a download."""
    try:
        if weights == "imagenet" and name != "bn_inception":
            return _torchvision_file(name)[0].exists()
        return weights is None or find_weights(BN_INCEPTION_FILE if weights == "imagenet" else weights).exists()
    except MissingDataError:
        return False


def _imagenet_file(name: str) -> Path:
    """The file of the ImageNet weights, downloaded if need be."""
    if name == "conv4":
        raise UsageError("conv4 has no ImageNet weights: leave weights out, or give the path of a state_dict")
    if name == "bn_inception":
        try:
            return find_weights(BN_INCEPTION_FILE)
        except MissingDataError:
            raise MissingDataError(
                f"the ImageNet weights of bn_inception have no official download: put {BN_INCEPTION_FILE}, the file of "
                "pretrained-models.pytorch, into the folder $DMLRC_DATA, or pass its path as weights"
            ) from None
    path, url = _torchvision_file(name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        checksum = path.stem.rsplit("-", 1)[1]  # torchvision's file names end with the start of their SHA-256
        try:
            torch.hub.download_url_to_file(url, path, hash_prefix=checksum)
        except (OSError, RuntimeError) as error:  # no network, no room; a wrong checksum
            raise MissingDataError(
                f"cannot download the ImageNet weights of {name} ({error}): get {url} and put it at {path}"
            ) from error
    return path


def _torchvision_file(name: str) -> tuple[Path, str]:
    """Where torchvision's ImageNet weights of a network lie once they are downloaded, and their address."""
    from torchvision import models

    url = models.get_model_weights(name)["IMAGENET1K_V1"].url
    return Path(torch.hub.get_dir()) / "checkpoints" / url.rsplit("/", 1)[1], url


def _read_state_dict(path: Path) -> dict[str, Tensor]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise anything
        raise DmlrcError(
            f"cannot read {path} as a state_dict of tensors: it is damaged (get it again), or holds code or other "
            "objects, which are never loaded"
        ) from error
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in state.items()
    ):
        raise DmlrcError(f"{path} is not a state_dict: save one with torch.save(model.state_dict(), path)")
    return state


def _load(trunk: Trunk, path: Path) -> None:
    """Load a state_dict strictly, but for the classifiers of torchvision's networks."""
    # A plain dict does not name the version of its layers, so that an old file may lack `num_batches_tracked`.
    state = {name: value for name, value in _read_state_dict(path).items() if name.split(".")[0] not in HEAD}
    try:
        trunk.load_state_dict(state)
    except RuntimeError as error:
        reason = str(error).split(":", 1)[1]  # without "Error(s) in loading state_dict for X:"
        raise DmlrcError(f"{path} does not fit {trunk.name}: {shorten(reason, 300, placeholder=' ...')}") from error
