"""The contrastive loss."""

import torch
from torch import Tensor, nn

from dmlrc.losses.common import unordered_pair_distances, unordered_pair_masks


class Contrastive(nn.Module):
    """Pull positive pairs below one distance, push negative pairs above another.

    mean [d_ij - pos_margin]_+ over the positive pairs where it is above 0
    + mean [neg_margin - d_ij]_+ over the negative pairs where it is above 0

    with the Euclidean distance d_ij = |x_i - x_j|.

    Parameters
    ----------
    pos_margin, neg_margin : distances, 0 and 1 as in pytorch-metric-learning
        A negative pos_margin acts like 0 but for a constant in the value, unless two positives coincide: they count in
        the mean then, and weaken the pull on others.

    References
    ----------
    Musgrave et al. 2020, Eq. 1. Hadsell et al. 2006 (Eq. 4) square both terms, halve them and have no positive margin;
    the hinge on the plain distance and the two separate means are pytorch-metric-learning's.
    """

    normalized = True

    def __init__(self, pos_margin: float = 0.0, neg_margin: float = 1.0):
        super().__init__()
        self.pos_margin, self.neg_margin = pos_margin, neg_margin

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch without pairs."""
        return self.pair_loss(unordered_pair_distances(embeddings), *unordered_pair_masks(labels))

    def pair_loss(self, d: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """The loss from the distances of the pairs and the two masks of those that count, all of one shape."""
        margins = torch.full_like(d, self.neg_margin).masked_fill_(positive, self.pos_margin)
        beyond = d - margins
        pulled, pushed = positive & (beyond > 0), negative & (beyond < 0)  # the pairs whose hinge is above 0
        num_pulled, num_pushed = (mask.count_nonzero().clamp(min=1).to(d.dtype) for mask in (pulled, pushed))
        return ((pulled / num_pulled - pushed / num_pushed) * beyond).sum()
