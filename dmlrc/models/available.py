"""Which trunks there are, and whether their weights are on this machine: answered without importing torch."""

import os
from pathlib import Path

from dmlrc.errors import MissingDataError
from dmlrc.models.files import BN_INCEPTION_FILE, TIMM, find_weights, in_package, lite0_file

TORCHVISION = ("squeezenet1_0", "googlenet", "resnet18", "resnet50", "inception_v3")
OWN = ("conv4", "bn_inception")


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
