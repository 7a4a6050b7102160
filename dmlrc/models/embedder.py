"""Embeddings from features: the linear embedder, the stand-in for a frozen trunk, and bulk embedding."""

import functools
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from dmlrc.errors import UsageError


class EmbeddingModel(nn.Module):
    """Trunk, one linear layer, L2 normalisation: images (B, C, H, W) -> embeddings (B, embedding_dim).

    Parameters
    ----------
    trunk : a module with `out_features`, whose output is (B, out_features)
    embedding_dim : the size D of an embedding; None leaves the linear layer out, D = out_features
    normalize : L2-normalise the embeddings; False for losses on un-normalised ones
    layer_norm : LayerNorm without affine parameters in front of the linear layer, which then has no bias
        Zhai & Wu 2019, section 3.2.
    bfloat16 : the trunk computes in it, by autocast; the linear layer in float32

    Raises
    ------
    UsageError
        For a trunk without `out_features`, and an embedding_dim that is no size.
    """

    def __init__(
        self,
        trunk: nn.Module,
        embedding_dim: int | None,
        normalize: bool = True,
        layer_norm: bool = False,
        bfloat16: bool = False,
    ):
        super().__init__()
        features = getattr(trunk, "out_features", None)
        if not isinstance(features, int):
            raise UsageError(
                f"{type(trunk).__name__} does not say how many features it gives: `dmlrc.models.create_trunk` makes "
                "networks that do, by their names, or remove its classifier and set its attribute out_features"
            )
        if embedding_dim is not None and (type(embedding_dim) is not int or embedding_dim < 1):
            raise UsageError(f"embedding_dim is {embedding_dim!r}: give a whole number above 0, or None for no layer")
        self.trunk = trunk
        self.embedding_dim = features if embedding_dim is None else embedding_dim
        self.normalize = normalize
        self.bfloat16 = bfloat16
        self.norm = nn.LayerNorm(features, elementwise_affine=False) if layer_norm else nn.Identity()
        self.embedder = nn.Identity()
        if embedding_dim is not None:
            self.embedder = nn.Linear(features, embedding_dim, bias=not layer_norm)
            # The same weight in column order: for a batch of 32 the product is twice as fast on a CPU.
            self.embedder.weight.data = self.embedder.weight.data.T.contiguous().T

    def forward(self, images: Tensor) -> Tensor:
        embeddings = self.project(images)
        return l2_normalize(embeddings) if self.normalize else embeddings

    def project(self, images: Tensor) -> Tensor:
        """The embeddings (B, D) before they are normalised."""
        features, wanted = self._features(images), self.trunk.out_features
        if features.shape[1:] != (wanted,):
            raise UsageError(
                f"{type(self.trunk).__name__} gives {tuple(features.shape)}, not (B, {wanted}), which its out_features "
                "promises: let it pool and flatten its maps, or correct that number"
            )
        return self.embedder(self.norm(features))

    def _features(self, images: Tensor) -> Tensor:
        if not self.bfloat16:
            return self.trunk(images)
        with torch.autocast(images.device.type, torch.bfloat16, cache_enabled=False):  # a graph cannot hold the cache
            return self.trunk(images).float()


class FeatureTrunk(nn.Identity):
    """Stands for a frozen trunk whose features are computed already: features (B, F) -> themselves."""

    def __init__(self, out_features: int):
        super().__init__()
        self.out_features = out_features


def l2_normalize(embeddings: Tensor) -> Tensor:
    """Rows (..., D) divided by their Euclidean length; a zero row stays zero, with a finite gradient."""
    length = embeddings.norm(dim=-1, keepdim=True)
    return embeddings / torch.where(length > 0, length, 1)


class Fixed:
    """Mixed into the class of a BatchNorm: a fixed scale and shift, in evaluation mode whatever `train()` asks for.

    PyTorch's own layer sums over each channel in its backward pass, for weights that have no gradient here.
    """

    def train(self, mode: bool = True) -> nn.Module:
        self.measure()  # other weights may have been loaded
        return super().train(False)

    @torch.no_grad()
    def measure(self) -> None:
        """Derive scale and shift (C, 1, 1) from the layer's statistics and weights, in place: a graph may hold them."""
        scale = (self.running_var + self.eps).rsqrt()
        shift = -self.running_mean * scale
        if self.affine:
            scale, shift = scale * self.weight, shift * self.weight + self.bias
        for name, values in (("scale", scale), ("shift", shift)):
            if name not in self._buffers:
                self.register_buffer(name, torch.empty_like(values).view(-1, 1, 1), persistent=False)
            getattr(self, name).copy_(values.view(-1, 1, 1))

    def forward(self, maps: Tensor) -> Tensor:
        maps = torch.addcmul(self.shift, maps, self.scale)
        for then in ("drop", "act"):  # timm's BatchNorm does these too
            if hasattr(self, then):
                maps = getattr(self, then)(maps)
        return maps


@functools.cache
def _frozen(kind: type[nn.BatchNorm2d]) -> type[nn.BatchNorm2d]:
    """The class of a frozen layer of this kind."""
    return kind if issubclass(kind, Fixed) else type(f"Frozen{kind.__name__}", (Fixed, kind), {})


def freeze_batch_norm(module: nn.Module) -> nn.Module:
    """Freeze every BatchNorm2d inside `module`, in place: fixed statistics, fixed scale and shift.

    The layers keep their names and values, and stay frozen under `module.train()`.

    Parameters
    ----------
    module : a trunk, or any other module

    Returns
    -------
    The same module

    References
    ----------
    Musgrave et al. 2020 and Roth et al. 2020 train with BatchNorm frozen.
    """
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.__class__ = _frozen(type(layer))  # the same layer, in place: optimisers and parents keep hold of it
            layer.eval().requires_grad_(False)
    return module


@torch.no_grad()
def embed(
    model: nn.Module,
    images: np.ndarray,
    preprocess: Callable[[Tensor], Tensor],
    batch_size: int = 128,
    device: str | torch.device = "cpu",
    desc: str | None = "embedding",
) -> np.ndarray:
    """Compute the outputs of a model in evaluation mode for all images, in order.

    The model is moved to `device`, and left in the mode (train or eval) that it came in.

    Parameters
    ----------
    model : a batch of the model's input -> (B, D)
    images : uint8 (N, C, H, W), or whatever `preprocess` takes, such as cached features (N, F)
        May be a read-only memory map, of which one batch at a time is read.
    preprocess : a batch of `images` on `device` -> the model's input
    batch_size : images at a time
    device : where the model computes
    desc : of the progress bar; None for none

    Returns
    -------
    (N, D) float32

    Raises
    ------
    UsageError
        Where there are no images.
    """
    if len(images) == 0:
        raise UsageError("there are no images to embed")
    training = model.training
    model.to(device).eval()
    outputs = []
    starts = range(0, len(images), batch_size)
    try:
        for start in tqdm(starts, desc=desc, unit="batch", leave=False, delay=1, disable=desc is None):
            batch = torch.from_numpy(np.array(images[start : start + batch_size])).to(device)
            outputs.append(model(preprocess(batch)).float().cpu().numpy())
    finally:
        model.train(training)
    return np.concatenate(outputs)
