"""The margin loss of Wu et al. with a learnt boundary, for all classes or one a class."""

import torch
from torch import Tensor, nn

from dmlrc.losses.common import distances, pair_masks


class Margin(nn.Module):
    """Positive pairs inside a learnt boundary beta, negative pairs outside it, both by a margin.

    sum over all triplets (a, p, n) of [d_ap - beta + margin]_+ + [beta - d_an + margin]_+,
    divided by the number of these hinges that are above 0

    with the Euclidean distance d_ij = |x_i - x_j|. A hinge counts once for every triplet it stands in: a positive
    pair as often as its anchor has negatives and the reverse, so an anchor without either has no terms.

    Parameters
    ----------
    margin, beta : distances, 0.2 and at the start 1.2, as in the paper and pytorch-metric-learning
        beta is a parameter (1,).

    References
    ----------
    Wu et al. 2017, the margin-based loss; all triplets instead of distance-weighted samples, and no regulariser on beta
    (nu = 0), as in Musgrave et al. 2020 and pytorch-metric-learning.
    """

    normalized = True

    def __init__(self, margin: float = 0.2, beta: float = 1.2):
        super().__init__()
        self.margin = margin
        self.beta = nn.Parameter(torch.full((1,), float(beta)))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch without triplets."""
        return self.triplet_loss(embeddings, labels, self.beta)

    def triplet_loss(self, embeddings: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
        """The loss with a boundary for each anchor: beta (B,), or (1,) for all."""
        positive, negative = pair_masks(labels)
        d = distances(embeddings)
        margins = torch.full_like(d, self.margin).masked_fill_(positive, -self.margin)
        beyond = d - beta.to(d.dtype)[:, None] - margins  # (B, B)
        # In how many triplets a pair stands: a positive one with every negative of its anchor, and the reverse.
        pulled = (positive & (beyond > 0)) * negative.sum(1, keepdim=True)  # (B, B)
        pushed = (negative & (beyond < 0)) * positive.sum(1, keepdim=True)
        return ((pulled - pushed) * beyond).sum() / (pulled + pushed).sum().clamp(min=1)


class MarginPerClass(Margin):
    """The margin loss with one learnt boundary for each class, that of the anchor's class.

    Parameters
    ----------
    num_classes : C, the labels are in [0, C)
    margin, beta : as in `Margin`; beta is a parameter (num_classes,), all equal at the start

    References
    ----------
    Wu et al. 2017 (class-specific beta); "Margin / class" in the later version of Musgrave et al. 2020.
    """

    def __init__(self, num_classes: int, margin: float = 0.2, beta: float = 1.2):
        super().__init__(margin, beta)
        self.beta = nn.Parameter(torch.full((num_classes,), float(beta)))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch without triplets."""
        return self.triplet_loss(embeddings, labels, self.beta[labels])
