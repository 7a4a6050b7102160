"""The tuplet margin loss."""

import math

import torch
from torch import Tensor, nn

from dmlrc.losses.common import masked_logsumexp, mean_over, pair_masks, softplus


class TupletMargin(nn.Module):
    """Each positive pair more similar than all negatives of its anchor, with a slack on the positive's angle.

    mean over the positive pairs (a, p) of log(1 + sum over negatives n of e^(s (cos theta_an - cos(theta_ap - beta))))

    with the negatives of a, beta = margin and s = scale.

    Parameters
    ----------
    margin : beta in degrees; 5.73 (0.1 rad), of both
    scale : s, 64 of both

    References
    ----------
    Yu and Tao 2019, Eq. 7, over all positive pairs of the batch, as in pytorch-metric-learning.
    """

    normalized = True

    def __init__(self, margin: float = 5.73, scale: float = 64.0):
        super().__init__()
        self.margin, self.scale = margin, scale

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch without pairs of both kinds."""
        positive, negative = pair_masks(labels)
        cosines = embeddings @ embeddings.T
        against = masked_logsumexp(self.scale * cosines, negative)  # (B,)
        slack = _subtract_angle(cosines, math.radians(self.margin))
        return mean_over(softplus(against[:, None] - self.scale * slack), positive)


def _subtract_angle(cosine: Tensor, angle: float) -> Tensor:
    """cos(theta - angle) from cos(theta); the sine's infinite slope at theta = 0 and 180 degrees is replaced by 0."""
    squared_sine = (1 - cosine) * (1 + cosine)
    flat = squared_sine <= 0
    sine = torch.where(flat, 0.0, torch.where(flat, 1.0, squared_sine).sqrt())
    return cosine * math.cos(angle) + sine * math.sin(angle)
