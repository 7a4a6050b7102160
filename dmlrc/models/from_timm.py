"""Trunks of timm by its own names: "timm:resnet26d", "timm:tf_efficientnet_lite0", ...

timm is imported when the first of them is made: that takes seconds, and other trunks do not need it.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor, nn

from dmlrc.errors import DmlrcError, MissingDataError, UsageError
from dmlrc.models import files, weight_files
from dmlrc.models.base import Trunk


class TimmTrunk(Trunk):
    """A network of timm without its classifier: images (B, 1 or 3, H, W) -> what it gives to the classifier.

    network: timm's module. image_size, and unless given mean and std, are those of its pretrained weights
    (`network.pretrained_cfg`). only_size: (H, W) where the network, like most transformers, takes no other images.
    """

    channels_last = True  # MobileNetV2 at 112 px, whole or from its fifth stage on: 0.7 to 0.9 of the time a step

    def __init__(
        self, name: str, network: nn.Module, mean: Sequence[float] | None = None, std: Sequence[float] | None = None
    ):
        made_for = network.pretrained_cfg
        size = tuple(made_for["input_size"][1:])
        super().__init__(name, network.head_hidden_size, size[0], mean or made_for["mean"], std or made_for["std"])
        for buffer in ("mean", "std"):  # here they belong to the weights, so that the state_dict holds them too
            self.register_buffer(buffer, getattr(self, buffer))
        self.network = network
        self.only_size = size if made_for["fixed_input_size"] else None

    def feature_maps(self, images: Tensor) -> Tensor:
        """Standardised images (B, 3, H, W) -> what the network pools: maps (B, C, h, w), or tokens."""
        if self.only_size and images.shape[2:] != self.only_size:
            raise UsageError(
                f"{self.name} takes images of {self.only_size[0]} x {self.only_size[1]} pixels only, not "
                f"{images.shape[2]} x {images.shape[3]}: crop to that size, or choose another trunk"
            )
        return self.network.forward_features(images)

    @property
    def chain(self) -> dict[str, nn.Module]:
        return dict(self.network.named_children())  # its pooling is one of them

    def pool(self, maps: Tensor) -> Tensor:
        """Pool what `feature_maps` gives -> (B, out_features), by the network's own pooling."""
        return self.network.forward_head(maps)


def create_timm_trunk(name: str, weights: str | Path | None) -> TimmTrunk:
    """Make the trunk "timm:NAME", see `dmlrc.models.create_trunk`."""
    network = _network(name, pretrained=weights == "imagenet")
    if weights is None or weights == "imagenet":
        return TimmTrunk(name, network)
    if weights == "package":
        package = files.packaged(name)
        path = files.packaged_file(package)
        weight_files.load_weights(network, _headless(packaged_state(path, package, network), network), path, name)
        return TimmTrunk(name, network, package.mean, package.std)
    path = files.find_weights(weights)
    weight_files.load_weights(network, _headless(weight_files.read_weights(path), network), path, name)
    return TimmTrunk(name, network)


def image_size(name: str) -> int:
    """Find the side, in pixels, of the images that timm's weights of a trunk were made for.

    Raises UsageError for a name that timm does not know.
    """
    import timm

    files.check_timm_name(name)
    return timm.get_pretrained_cfg(name.removeprefix(files.TIMM)).input_size[1]


def packaged_state(path: Path, weights: files.Packaged, network: nn.Module) -> dict[str, Tensor]:
    """Read a package's tensors under timm's names, with a classifier if there is one; DmlrcError for another file."""
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != weights.sha256:
        raise DmlrcError(
            f"{path} is not the file that {weights.package} {weights.version} has: get it again, {weights.how}"
        )
    tensors = [
        tensor for name, tensor in weight_files.read_weights(path).items() if not name.endswith("num_batches_tracked")
    ]
    names = [name for name in network.state_dict() if not name.endswith("num_batches_tracked")]
    heads = [f"{classifier}.{kind}" for classifier in _classifiers(network) for kind in ("weight", "bias")]
    return dict(zip(names + heads[: len(tensors) - len(names)], tensors, strict=True))


def _network(name: str, pretrained: bool) -> nn.Module:
    """timm's network without its classifier, with random weights or those that timm downloads."""
    import timm

    files.check_timm_name(name)
    try:
        bare = timm.create_model(name.removeprefix(files.TIMM), num_classes=0)
    except RuntimeError as error:  # a tag, the part after a dot, that the network does not have
        raise UsageError(f"unknown trunk {name!r}: {error}") from error
    if not pretrained:
        return bare
    repository, url = bare.pretrained_cfg.get("hf_hub_id"), bare.pretrained_cfg.get("url")
    if not repository and not url:
        raise UsageError(f"timm has no weights of {name}: leave weights out, or give the path of a state_dict")
    file = files.downloaded_file(name)
    if file and len(digest := file.resolve().name) == 64:  # in the Hub's cache a file is called by its SHA-256
        weight_files.check_digest(file, digest, "remove it and what it links to, it will be downloaded again")
    try:
        return timm.create_model(name.removeprefix(files.TIMM), pretrained=True, num_classes=0)
    except Exception as error:  # of whatever library does the download
        file = f"model.safetensors of {repository} on the Hugging Face Hub" if repository else url
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise MissingDataError(
            f"cannot download timm's weights of {name} ({reason}): get {file}, put it into the folder $DMLRC_DATA and "
            "give its name as weights"
        ) from error


def _classifiers(network: nn.Module) -> tuple[str, ...]:
    """The names of the layers that timm's files have and a trunk has not."""
    names = network.pretrained_cfg["classifier"] or ()
    return (names,) if isinstance(names, str) else tuple(names)


def _headless(state: dict[str, Tensor], network: nn.Module) -> dict[str, Tensor]:
    heads = _classifiers(network)
    return {name: tensor for name, tensor in state.items() if name.rpartition(".")[0] not in heads}
