"""The triplet margin loss over all triplets of a batch."""

import torch
from torch import Tensor, nn

from dmlrc.losses.common import check_batch, distances, mean_of_nonzero, pair_masks


class Triplet(nn.Module):
    """Every positive of an anchor closer than every negative, by a margin.

    mean [d_ap - d_an + margin]_+ over all triplets (a, p, n) of the batch where it is above 0

    with the Euclidean distance d_ij = |x_i - x_j|.

    Source: Musgrave et al. 2020, Eq. 2. Weinberger et al. 2006 and Schroff et al. 2015 (FaceNet) use squared
    distances; the plain distance and the mean over the non-zero triplets are pytorch-metric-learning's.
    Default: margin 0.05, as in pytorch-metric-learning. No mining: all triplets.
    """

    normalized = True

    def __init__(self, margin: float = 0.05):
        super().__init__()
        self.margin = margin

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch without triplets."""
        check_batch(embeddings, labels)
        positive, negative = pair_masks(labels)
        d = distances(embeddings, embeddings)
        # Infinities at the pairs that do not count: their triplets fall below zero and out of the hinge.
        ap = torch.where(positive, d + self.margin, -torch.inf)
        an = torch.where(negative, d, torch.inf)
        return mean_of_nonzero(torch.relu(ap[:, :, None] - an[:, None, :]))  # (B, B, B): anchor, positive, negative
