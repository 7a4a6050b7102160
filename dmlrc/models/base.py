"""Base of every trunk: the check of its images, their standardisation, and the mean over positions."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dmlrc.errors import UsageError, lacks_memory


class Trunk(nn.Module, ABC):
    """A convolutional network without its classifier: images (B, 1 or 3, H, W) -> features (B, out_features).

    name: the name in the registry. out_features: the length of a feature vector.
    image_size: the side in pixels of the images that the network was designed for; others work too.
    channels_last: whether its layers train faster on a CPU with that layout of their weights and maps.
    mean, std: subtracted and divided by, one number per channel of the network's input, for RGB in [0, 1].
    A network with three channels gets a grey image three times, one with a single channel gets the
    mean over the channels of a colour image.
    """

    channels_last = False

    def __init__(self, name: str, out_features: int, image_size: int, mean: Sequence[float], std: Sequence[float]):
        super().__init__()
        self.name = name
        self.out_features = out_features
        self.image_size = image_size
        # Not persistent: the state_dict keeps exactly the names of the public checkpoints.
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    @abstractmethod
    def feature_maps(self, images: Tensor) -> Tensor:
        """Standardised images (B, C, H, W) -> the network's last maps (B, out_features, h, w)."""

    @property
    def chain(self) -> dict[str, nn.Module]:
        """The layers by name, pooling at the end; for networks whose layers follow one another, see `split_trunk`."""
        return {**dict(self.named_children()), "pool": MeanOverPositions()}

    def pool(self, maps: Tensor) -> Tensor:
        """The last maps (B, out_features, h, w) -> features (B, out_features), the mean over positions."""
        return MeanOverPositions()(maps)

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, 1 or 3, H, W), float RGB in [0, 1] -> features (B, out_features)."""
        standard = standardise(images, self.mean, self.std)
        try:
            return self.pool(self.feature_maps(standard))
        except RuntimeError as error:
            if min(images.shape[2:]) >= self.image_size or lacks_memory(error):
                raise
            raise UsageError(
                f"{self.name} cannot take images of {images.shape[2]} x {images.shape[3]} pixels ({error}): give "
                f"larger ones (crop_size), such as its own {self.image_size}"
            ) from error


def standardise(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Images (B, 1 or 3, H, W), float RGB in [0, 1] -> a network's input (B, C, H, W), of mean and std (C, 1, 1).

    Raises UsageError for images of another shape, or that are not floating point.
    """
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise UsageError(f"a trunk needs images (B, 1 or 3, H, W), not {tuple(images.shape)}")
    if not images.is_floating_point():
        raise UsageError(f"a trunk needs float images in [0, 1], not {images.dtype}: divide uint8 images by 255")
    channels = len(mean)
    if images.shape[1] > channels:
        images = images.mean(dim=1, keepdim=True)
    return (images.expand(-1, channels, -1, -1) - mean) / std


class MeanOverPositions(nn.Module):
    """Maps (B, C, h, w) -> (B, C)."""

    def forward(self, maps: Tensor) -> Tensor:
        return maps.mean(dim=(2, 3))
