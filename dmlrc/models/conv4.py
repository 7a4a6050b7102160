"""Conv4: a network of four convolutions for characters, small enough to train on one CPU core."""

import torch
from torch import Tensor, nn

from dmlrc.models.base import Trunk

WIDTHS = (32, 48, 64, 128)
GROUPS = 8


class Conv4(Trunk):
    """Four blocks of 3 x 3 convolution, 2 x 2 max pooling, GroupNorm, ReLU; the last block does not pool.

    Images (B, 1 or 3, H, W), H and W at least 8 -> (B, 128). Colour images are averaged to grey: the network
    is for characters. GroupNorm (Wu & He 2018), not BatchNorm: an image's features do not depend on the
    other images of its batch, and models can be stacked (`torch.func.vmap`; on a CPU not with torch 2.11).
    The four-block plan is that of few-shot learning on Omniglot (Vinyals et al. 2016). The widths, and
    pooling ahead of the normalisation, are ours, chosen for the speed of a training step on one core.
    """

    def __init__(self):
        super().__init__("conv4", out_features=WIDTHS[-1], image_size=28, mean=[0.5], std=[0.5])
        layers = []
        for inputs, outputs in zip((1, *WIDTHS[:-1]), WIDTHS, strict=True):
            last = outputs == WIDTHS[-1]  # 28 -> 14 -> 7 -> 3 pixels: nothing left to pool
            pool = nn.Identity() if last else nn.MaxPool2d(2)
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), pool, nn.GroupNorm(GROUPS, outputs), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        # Convolutions with so few channels run up to twice as fast on a CPU in this memory order.
        self.to(memory_format=torch.channels_last)

    def feature_maps(self, images: Tensor) -> Tensor:
        """Standardised images (B, 1, H, W) -> (B, 128, H // 8, W // 8)."""
        return self.layers(images)
