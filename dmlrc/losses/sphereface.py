"""SphereFace: a softmax in which the angle to the own class counts several times."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dmlrc.losses.common import unit_length


class SphereFace(nn.Module):
    """Cross-entropy over the inner products with the class directions, the own class's angle multiplied by the margin.

    mean_i -log( e^(s |x_i| psi(theta_iy)) / (e^(s |x_i| psi(theta_iy)) + sum over c != y of e^(s |x_i| cos theta_ic)) )
    psi(theta) = (-1)^k cos(margin theta) - 2 k,  k = floor(margin theta / pi)

    with theta_ic the angle between x_i and w_c, y the class of i, and s = scale; psi falls from 1 to 1 - 2 margin.

    Parameters
    ----------
    num_classes, embedding_dim : C and D; the labels are in [0, C)
    margin : a whole number; 4, of the paper
    scale : s, 1 as in pytorch-metric-learning

    Notes
    -----
    W: parameter (embedding_dim, num_classes), standard normal at the start; its columns are L2-normalised in each
    forward pass.

    References
    ----------
    Liu et al. 2017 (SphereFace), Eq. 7, on un-normalised embeddings; without the annealing between cos and psi of the
    authors' code.
    """

    normalized = False

    def __init__(self, num_classes: int, embedding_dim: int, margin: int = 4, scale: float = 1.0):
        super().__init__()
        self.margin, self.scale = margin, scale
        self.W = nn.Parameter(torch.randn(embedding_dim, num_classes))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), not normalised; labels: (B,) in [0, num_classes) -> scalar."""
        cosines = unit_length(embeddings, dim=1) @ unit_length(self.W.to(embeddings.dtype), dim=0)  # (B, C)
        own = labels[:, None]
        cosines = cosines.scatter(1, own, _psi(cosines.gather(1, own), self.margin))
        return F.cross_entropy(self.scale * embeddings.norm(dim=1, keepdim=True) * cosines, labels)


def _psi(cosine: Tensor, margin: int) -> Tensor:
    """psi(theta) from cos(theta): the Chebyshev polynomial cos(margin theta), mirrored and lowered to fall."""
    previous, multiple = torch.ones_like(cosine), cosine  # cos(0 theta), cos(1 theta)
    for _ in range(margin - 1):
        previous, multiple = multiple, 2 * cosine * multiple - previous
    k = (margin / math.pi * cosine.detach().clamp(-1, 1).acos()).floor()
    return (1 - 2 * (k % 2)) * multiple - 2 * k
