"""The quadruplet loss on distance-weighted triplets."""

import torch
from torch import Tensor

from dmlrc.losses.common import mean_over
from dmlrc.losses.mined import DistanceWeighted
from dmlrc.losses.mining import Triplets, choose_other_class, mean_over_tuples


class Quadruplet(DistanceWeighted):
    """A positive pair closer than the anchor's negative, and than two samples of two other classes.

    mean over the triplets of [d_ap - d_an + margin]_+
    + mean over the quadruplets of [d_ap - d_nm + second_margin]_+

    with the Euclidean distance d_ij = |x_i - x_j|; m is a random sample whose class is neither a's nor n's. A batch of
    two classes has no quadruplet. The means count the zeros too.

    Parameters
    ----------
    margin, second_margin : distances, 0.2 and 0.2 of Roth et al.

    References
    ----------
    Chen et al. 2017, Eq. 5, as Quadruplet (D) of Roth et al. 2020, with plain instead of squared distances. Their
    public code takes as m any sample of the batch, also of n's or a's class.
    """

    def __init__(self, margin: float = 0.2, second_margin: float = 0.2):
        super().__init__()
        self.margin, self.second_margin = margin, second_margin

    def triplet_loss(self, embeddings: Tensor, labels: Tensor, d: Tensor, triplets: Triplets) -> Tensor:
        """The two mean hinges of the triplets and of their quadruplets."""
        anchors, positives, negatives = triplets
        fourths = choose_other_class(labels, triplets)
        complete = fourths >= 0
        d_ap = d[anchors, positives]  # (T,)
        triplet = torch.relu(d_ap - d[anchors, negatives] + self.margin)
        quadruplet = torch.relu(d_ap - d[negatives, fourths] + self.second_margin)
        return mean_over_tuples(triplet) + mean_over(quadruplet, complete)
