"""A trunk cut in two at a layer: the stem, which stays as it is, and the head, which trains on the stem's maps."""

import torch
from torch import Tensor, nn

from dmlrc.errors import UsageError
from dmlrc.models.base import Trunk, standardise


class Stem(nn.Module):
    """The layers of a trunk before the cut: images (B, 1 or 3, H, W), float RGB in [0, 1] -> maps (B, C, h, w)."""

    def __init__(self, trunk: Trunk, layers: list[nn.Module]):
        super().__init__()
        self.register_buffer("mean", trunk.mean)
        self.register_buffer("std", trunk.std)
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(standardise(images, self.mean, self.std))


class Head(nn.Module):
    """The layers of a trunk from the cut on, pooling included: maps (B, C, h, w) -> features (B, out_features)."""

    def __init__(self, trunk: Trunk, layers: list[nn.Module]):
        super().__init__()
        self.name = trunk.name
        self.out_features = trunk.out_features
        self.channels_last = trunk.channels_last
        self.layers = nn.Sequential(*layers)

    def forward(self, maps: Tensor) -> Tensor:
        return self.layers(maps)


def split_trunk(trunk: Trunk, layer: str) -> tuple[Stem, Head]:
    """Cut a trunk in front of a layer: `head(stem(images))` is `trunk(images)`, with the trunk's own layers.

    layer: a name in `trunk.chain`, with those of the nested layers after dots: "features.12" is the last fire module
    of SqueezeNet 1.0, "blocks.6" the last stage of EfficientNet-Lite0.

    Raises UsageError for a layer that is not there, and for a trunk that is not a chain around it: the layers of each
    module on the way to it must run one after the other, in the order of their names, and nothing beside them.
    """
    before, after, modules = [], [], trunk.chain
    for part in layer.split("."):
        names = list(modules)
        if part not in names:
            raise UsageError(
                f"{trunk.name} has no layer {layer!r}: where it says {part!r} there are {', '.join(names)}"
            )
        layers, at = list(modules.values()), names.index(part)
        before, after = before + layers[:at], layers[at + 1 :] + after
        modules = dict(layers[at].named_children())
    stem, head = Stem(trunk, before), Head(trunk, [layers[at], *after])
    if not _is_whole(trunk, stem, head):
        raise UsageError(
            f"{trunk.name} cannot be cut at {layer!r}, its layers there are no plain chain: choose a layer further "
            "outside, or train all of it"
        )
    return stem, head


@torch.no_grad()
def _is_whole(trunk: Trunk, stem: Stem, head: Head) -> bool:
    """Tell whether the halves do to an image what the trunk does to it."""
    training = trunk.training
    trunk.eval()
    image = torch.rand(1, 3, trunk.image_size, trunk.image_size, generator=torch.Generator().manual_seed(0))
    try:
        joined, expected = head(stem(image)), trunk(image)
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):  # shapes that do not fit
        return False
    finally:
        trunk.train(training)
    return joined.shape == expected.shape and bool((joined - expected).abs().max() <= 1e-4 * expected.abs().max())
