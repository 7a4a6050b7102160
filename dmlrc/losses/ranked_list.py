"""The ranked list loss."""

import torch
from torch import Tensor, nn

from dmlrc.losses.common import distances, pair_masks


class RankedList(nn.Module):
    """Each query's positives inside a ball, its negatives outside a larger one; near negatives weigh more.

    mean_i (1 - imbalance) L_P(i) + imbalance L_N(i), with
    L_P(i) = mean over positives j with d_ij > alpha - margin of (d_ij - (alpha - margin))
    L_N(i) = sum over negatives j with d_ij < alpha of w_ij (alpha - d_ij),  w_ij proportional to e^(Tn (alpha - d_ij))

    with the Euclidean distance d_ij = |x_i - x_j|; the weights w_ij of a query sum to 1, and have a gradient. A query
    without such positives (negatives) has no L_P (L_N), and still counts in the mean.

    Parameters
    ----------
    margin, alpha : distances, 0.4 and 1.2, of the paper and of Fehervari et al. 2019
    Tn : 10, of both
    imbalance : 0.5, as in pytorch-metric-learning

    References
    ----------
    Wang et al. 2019, RLL-Simpler. pytorch-metric-learning adds 1e-5 for each of the B samples to the sums that it
    divides by. Fehervari et al.'s public code has L_P + L_N, over the queries where it is above 0.
    """

    normalized = True

    def __init__(self, margin: float = 0.4, Tn: float = 10.0, imbalance: float = 0.5, alpha: float = 1.2):
        super().__init__()
        self.margin, self.Tn, self.imbalance, self.alpha = margin, Tn, imbalance, alpha

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch without pairs."""
        positive, negative = pair_masks(labels)
        d = distances(embeddings)
        beyond, within = d - (self.alpha - self.margin), self.alpha - d  # (B, B)
        far, near = positive & (beyond > 0), negative & (within > 0)  # the pairs that violate their boundary
        pull = torch.where(far, beyond, 0.0).sum(1) / far.sum(1).clamp(min=1)  # (B,)
        # Over a row without near negatives the softmax is uniform, and multiplied by zeros.
        weights = torch.softmax(torch.where(near, self.Tn * within, torch.finfo(d.dtype).min), 1)
        push = (weights * torch.where(near, within, 0.0)).sum(1)
        return torch.mean((1 - self.imbalance) * pull + self.imbalance * push)
