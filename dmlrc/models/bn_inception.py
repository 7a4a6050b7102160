"""BN-Inception, the trunk of Musgrave et al. 2020 and Fehervari et al. 2019 (there "Inception-BN").

Ioffe & Szegedy 2015, "Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate
Shift", arXiv:1502.03167, figure 5, in the Caffe version whose ImageNet weights the field uses.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dmlrc.models.base import Trunk

# Output channels of the convolutions of each inception block:
#        1x1  3x3 reduce  3x3  double 3x3 reduce  double 3x3 (both)  pool projection
BLOCKS = {
    "3a": (64, 64, 64, 64, 96, 32),
    "3b": (64, 64, 96, 64, 96, 64),
    "3c": (0, 128, 160, 64, 96, 0),
    "4a": (224, 64, 96, 96, 128, 128),
    "4b": (192, 96, 128, 96, 128, 128),
    "4c": (160, 128, 160, 128, 160, 128),
    "4d": (96, 128, 192, 160, 192, 128),
    "4e": (0, 128, 192, 192, 256, 0),
    "5a": (352, 192, 320, 160, 224, 128),
    "5b": (352, 192, 320, 192, 224, 128),
}
HALVING = ("3c", "4e")  # stride 2; no 1x1 branch, and the pooled input joins the output without a projection
MAX_POOLED = ("5b",)  # the pool branch takes the maximum; in the other blocks of stride 1 the mean


class BNInception(Trunk):
    """BN-Inception: images (B, 1 or 3, H, W) RGB in [0, 1] -> (B, 1024); 224 and 227 pixels give 7 x 7 maps.

    The state_dict has the names and shapes of the public ImageNet checkpoint of this network
    (pretrained-models.pytorch, bn_inception-52deb4733.pth), so that file loads strictly. It includes the
    classifier `last_linear`, which is kept, frozen, for that reason only: no forward pass uses it.
    Old files of the network store BatchNorm vectors as (1, C) and lack `num_batches_tracked`: both are
    accepted. The network's own input, BGR in 0..255 minus (104, 117, 128), is made inside.
    """

    def __init__(self):
        rgb_mean = [128 / 255, 117 / 255, 104 / 255]
        super().__init__("bn_inception", out_features=1024, image_size=224, mean=rgb_mean, std=[1 / 255] * 3)
        self._add("conv1_7x7_s2", 3, 64, kernel=7, stride=2)
        self._add("conv2_3x3_reduce", 64, 64)
        self._add("conv2_3x3", 64, 192, kernel=3)
        channels = 192
        for block, widths in BLOCKS.items():
            channels = self._add_block(f"inception_{block}", channels, *widths, stride=2 if block in HALVING else 1)
        self.last_linear = nn.Linear(channels, 1000).requires_grad_(False)
        self.register_load_state_dict_pre_hook(_flatten_vectors)

    def _add(self, name: str, inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> None:
        self.add_module(name, nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2))
        self.add_module(f"{name}_bn", nn.BatchNorm2d(outputs))

    def _add_block(self, name, inputs, single, reduce, triple, double_reduce, double, projection, stride) -> int:
        """Add the convolutions of one inception block; returns its number of output channels."""
        if single:
            self._add(f"{name}_1x1", inputs, single)
        self._add(f"{name}_3x3_reduce", inputs, reduce)
        self._add(f"{name}_3x3", reduce, triple, kernel=3, stride=stride)
        self._add(f"{name}_double_3x3_reduce", inputs, double_reduce)
        self._add(f"{name}_double_3x3_1", double_reduce, double, kernel=3)
        self._add(f"{name}_double_3x3_2", double, double, kernel=3, stride=stride)
        if projection:
            self._add(f"{name}_pool_proj", inputs, projection)
        return single + triple + double + (projection or inputs)

    def _conv(self, x: Tensor, *names: str) -> Tensor:
        """Convolution, BatchNorm, ReLU for each name in turn."""
        for name in names:
            x = F.relu(self.get_submodule(f"{name}_bn")(self.get_submodule(name)(x)), inplace=True)
        return x

    def _block(self, x: Tensor, block: str) -> Tensor:
        name = f"inception_{block}"
        triple = self._conv(x, f"{name}_3x3_reduce", f"{name}_3x3")
        double = self._conv(x, f"{name}_double_3x3_reduce", f"{name}_double_3x3_1", f"{name}_double_3x3_2")
        if block in HALVING:
            # The pooled input must have the size of the convolutions, ceil(H / 2). Where H is odd (images of 112
            # pixels, say) the original network fails; a row of zeros, which no activation is below, makes it even.
            odd_rows, odd_columns = x.shape[2] % 2, x.shape[3] % 2
            return torch.cat([triple, double, _halve(F.pad(x, (0, odd_columns, 0, odd_rows)))], dim=1)
        single = self._conv(x, f"{name}_1x1")
        pool = F.max_pool2d if block in MAX_POOLED else F.avg_pool2d
        projection = self._conv(pool(x, 3, stride=1, padding=1), f"{name}_pool_proj")
        return torch.cat([single, triple, double, projection], dim=1)

    def feature_maps(self, images: Tensor) -> Tensor:
        """Standardised images (B, 3, H, W) -> (B, 1024, h, w), about H / 32; 7 x 7 for 224 and 227 pixels."""
        x = images.flip(1)  # RGB -> BGR
        x = _halve(self._conv(x, "conv1_7x7_s2"))
        x = _halve(self._conv(x, "conv2_3x3_reduce", "conv2_3x3"))
        for block in BLOCKS:
            x = self._block(x, block)
        return x


def _halve(x: Tensor) -> Tensor:
    """Max pooling as Caffe does it, the last 3 x 3 window partly outside: (B, C, H, W) -> (B, C, H // 2, W // 2)."""
    return F.max_pool2d(x, 3, stride=2, ceil_mode=True)


def _flatten_vectors(module: nn.Module, state_dict: dict[str, Tensor], *_) -> None:
    """BatchNorm vectors stored as (1, C), as PyTorch had them before version 0.2, become (C,)."""
    for name, value in state_dict.items():
        if value.ndim == 2 and len(value) == 1:
            state_dict[name] = value[0]
