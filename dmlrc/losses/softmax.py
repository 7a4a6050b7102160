"""Classification losses on the cosines to one learnt direction a class: normalised softmax, CosFace, ArcFace.

Their `W`: parameter (embedding_dim, num_classes), standard normal at the start, as in pytorch-metric-learning; with
`weight_length` its columns begin with that length. They are L2-normalised in each forward pass, so the length changes
no value, but the longer a column is, the less a step turns it.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dmlrc.losses.common import unit_length


class _ClassDirections(nn.Module):
    """A loss that owns `W`, see the module."""

    normalized = True

    def __init__(self, num_classes: int, embedding_dim: int, weight_length: float | None):
        super().__init__()
        weights = torch.randn(embedding_dim, num_classes)
        self.W = nn.Parameter(weights if weight_length is None else weight_length * unit_length(weights, dim=0))

    def cosines(self, embeddings: Tensor) -> Tensor:
        """The cosines of a batch to every class: (B, D) -> (B, C)."""
        return embeddings @ unit_length(self.W.to(embeddings.dtype), dim=0)


class NormalizedSoftmax(_ClassDirections):
    """Cross-entropy over the cosines to the class weights, divided by a temperature.

    mean_i -log( e^(cos_iy / T) / sum over classes c of e^(cos_ic / T) )

    with cos_ic = x_i . w_c, y the class of i.

    Parameters
    ----------
    num_classes, embedding_dim : C and D; the labels are in [0, C)
    temperature : T, above 0; 0.05, of Zhai and Wu and of pytorch-metric-learning
    weight_length : the length of the class weights at the start, see the module

    References
    ----------
    Wang et al. 2017 (NormFace); Zhai and Wu 2019, Eq. 1, for metric learning.
    """

    def __init__(
        self, num_classes: int, embedding_dim: int, temperature: float = 0.05, weight_length: float | None = None
    ):
        super().__init__(num_classes, embedding_dim, weight_length)
        self.temperature = temperature

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) in [0, num_classes) -> scalar."""
        return F.cross_entropy(self.cosines(embeddings) / self.temperature, labels)


class CosFace(_ClassDirections):
    """Normalised softmax with a margin taken off the cosine to the own class.

    mean_i -log( e^(s (cos_iy - m)) / (e^(s (cos_iy - m)) + sum over other classes c of e^(s cos_ic)) )

    Parameters
    ----------
    num_classes, embedding_dim : C and D; the labels are in [0, C)
    margin, scale : m, a cosine, and s; 0.35 and 64, as in pytorch-metric-learning
    weight_length : the length of the class weights at the start, see the module

    References
    ----------
    Wang et al. 2018 (CosFace), Eq. 4.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        margin: float = 0.35,
        scale: float = 64.0,
        weight_length: float | None = None,
    ):
        super().__init__(num_classes, embedding_dim, weight_length)
        self.margin, self.scale = margin, scale

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) in [0, num_classes) -> scalar."""
        cosines = self.cosines(embeddings)
        margins = torch.zeros_like(cosines).scatter_(1, labels[:, None], self.margin)
        return F.cross_entropy(self.scale * (cosines - margins), labels)


class ArcFace(_ClassDirections):
    """Normalised softmax with a margin added to the angle to the own class.

    mean_i -log( e^(s cos(theta_iy + m)) / (e^(s cos(theta_iy + m)) + sum over other classes c of e^(s cos theta_ic)) )

    Where theta + m would pass 180 degrees, cos(theta + m) is replaced by cos(theta) - m sin(m) (m in radians), so that
    the loss keeps growing with the angle (for margins below 133 degrees; above, it falls at the change).

    Parameters
    ----------
    num_classes, embedding_dim : C and D; the labels are in [0, C)
    margin : m in degrees, in [0, 180]; 28.6 (0.5 rad), as in both
    scale : s, 64 as in both
    weight_length : the length of the class weights at the start, see the module

    References
    ----------
    Deng et al. 2019 (ArcFace), Eq. 3; the replacement is in the authors' code and pytorch-metric-learning.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        margin: float = 28.6,
        scale: float = 64.0,
        weight_length: float | None = None,
    ):
        super().__init__(num_classes, embedding_dim, weight_length)
        self.margin, self.scale = margin, scale

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) in [0, num_classes) -> scalar."""
        cosines = self.cosines(embeddings)
        own = labels[:, None]
        cosines = cosines.scatter(1, own, _add_angle(cosines.gather(1, own), math.radians(self.margin)))
        return F.cross_entropy(self.scale * cosines, labels)


def _add_angle(cosine: Tensor, margin: float) -> Tensor:
    """cos(theta + margin) from cos(theta), continued below its minimum by cos(theta) - margin sin(margin).

    By the addition theorem, without the arc cosine: a cosine that rounding put beyond 1 needs no clamp, and
    the sine's infinite slope at 0 and 180 degrees is replaced by 0.
    """
    sine = ((1 - cosine) * (1 + cosine)).clamp(min=torch.finfo(cosine.dtype).tiny).sqrt()
    added = cosine * math.cos(margin) - sine * math.sin(margin)
    return torch.where(cosine < -math.cos(margin), cosine - margin * math.sin(margin), added)
