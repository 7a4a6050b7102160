"""The lifted structure loss and its generalised form: smooth maxima over the pairs of a batch."""

import torch
from torch import Tensor, nn

from dmlrc.losses.common import distances, masked_logsumexp, mean_over, pair_masks


class LiftedStructure(nn.Module):
    """Each positive pair closer than the nearest negative of either of its ends, by a margin.

    1/(2 |P|) sum over the positive pairs {i, j} of [J_ij]_+^2, with
    J_ij = log( sum over negatives k of i of e^(m - d_ik) + sum over negatives l of j of e^(m - d_jl) ) + d_ij

    with the Euclidean distance d_ij = |x_i - x_j| and m = neg_margin.

    Parameters
    ----------
    neg_margin : a distance, 1 of both papers and of pytorch-metric-learning

    References
    ----------
    Song et al. 2016, Eq. 4; Fehervari et al. 2019 train it so, on un-normalised embeddings.
    """

    normalized = False

    def __init__(self, neg_margin: float = 1.0):
        super().__init__()
        self.neg_margin = neg_margin

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), not normalised; labels: (B,) -> scalar; 0 for a batch without pairs of both kinds."""
        positive, negative = pair_masks(labels)
        d = distances(embeddings)
        nearest = masked_logsumexp(self.neg_margin - d, negative)  # (B,)
        excess = torch.relu(torch.logaddexp(nearest[:, None], nearest[None, :]) + d)  # (B, B)
        return mean_over(excess * excess / 2, positive)


class GeneralizedLifted(nn.Module):
    """Each anchor's farthest positive closer than its nearest negative, by a margin, with smooth maxima for both.

    mean_i [ log sum over positives j of e^(d_ij) + log sum over negatives k of e^(m - d_ik) ]_+
    + l2_weight * mean_i |x_i|

    with the Euclidean distance d_ij = |x_i - x_j| and m = neg_margin. The first mean is over the samples that have
    positives and negatives.

    Parameters
    ----------
    neg_margin : a distance, 1 of Roth et al. and pytorch-metric-learning
    l2_weight : no penalty, as in pytorch-metric-learning (Roth et al. 2020: 0.005)

    References
    ----------
    Hermans et al. 2017, the generalised lifted structure loss; the penalty on the lengths is that of Roth et al. 2020
    (GenLifted), for un-normalised embeddings. A batch without pairs of both kinds still has the penalty.
    """

    normalized = False

    def __init__(self, neg_margin: float = 1.0, l2_weight: float = 0.0):
        super().__init__()
        self.neg_margin, self.l2_weight = neg_margin, l2_weight

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), not normalised; labels: (B,) -> scalar."""
        positive, negative = pair_masks(labels)
        d = distances(embeddings)
        farthest, nearest = masked_logsumexp(d, positive), masked_logsumexp(self.neg_margin - d, negative)  # (B,)
        lifted = mean_over(torch.relu(farthest + nearest), positive.any(1) & negative.any(1))
        return lifted + self.l2_weight * embeddings.norm(dim=1).mean()
