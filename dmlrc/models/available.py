"""Which trunks there are, and whether their weights are on this machine: answered without importing torch."""

import os
from pathlib import Path

from dmlrc.errors import MissingDataError
from dmlrc.models.files import BN_INCEPTION_FILE, BROUGHT, PACKAGED, TIMM, find_weights, packaged, packaged_file

# Those of torchvision, and the files of their weights IMAGENET1K_V1.
TORCHVISION = {
    "squeezenet1_0": "squeezenet1_0-b66bff10.pth",
    "googlenet": "googlenet-1378be20.pth",
    "resnet18": "resnet18-f37072fd.pth",
    "resnet50": "resnet50-0676ba61.pth",
    "inception_v3": "inception_v3_google-0cc3c7bd.pth",
}
OWN = ("conv4", "bn_inception", "inception_v3_mixed7a")


def names() -> list[str]:
    """The names of our own trunks and of torchvision's; "timm:NAME" is one more for every model of timm."""
    return [*OWN, *TORCHVISION]


def has_weights(name: str, weights: str | Path | None) -> bool:
    """Whether `dmlrc.models.create_trunk` with these arguments would find its weights here, without a download."""
    try:
        if weights == "package":
            found = packaged(name)
            return found is not None and packaged_file(found).is_file()
        if weights == "imagenet" and name.startswith(TIMM):
            from dmlrc.models import from_timm  # it imports torch, for names that no study of ours has

            return from_timm.is_downloaded(name)
        if weights == "imagenet" and name != "bn_inception":
            return name in TORCHVISION and (_checkpoints() / TORCHVISION[name]).is_file()
        return weights is None or find_weights(BN_INCEPTION_FILE if weights == "imagenet" else weights).exists()
    except MissingDataError:
        return False


def to_bring() -> list[tuple[str, bool, str]]:
    """The files of weights that do not download themselves: their names, whether they are here, how to get them."""
    packages = [(Path(each.file).name, has_weights(name, "package"), each.how) for name, each in PACKAGED.items()]
    files = [(file, has_weights(name, file), how) for name, (file, how) in BROUGHT.items()]
    return [(file, here, how.strip("`")) for file, here, how in packages + files]


def _checkpoints() -> Path:
    """Where torch.hub keeps what it downloads."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return Path(os.environ.get("TORCH_HOME", f"{cache}/torch")).expanduser() / "hub" / "checkpoints"
