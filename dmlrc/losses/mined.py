"""Ranking losses over mined triplets: one tuple set, several losses.

The methods of Roth et al. 2020, Table 2, with a letter for their miner: (R) random, (S) semi-hard, (H) soft-hard,
(D) distance-weighted; and two that Fehervari et al. 2019 mine by positive pairs. Reductions are Roth et al.'s.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from dmlrc.losses import mining
from dmlrc.losses.common import distances, mean_of_nonzero
from dmlrc.losses.mining import Triplets, mean_over_tuples
from dmlrc.losses.snr import snr_distances


class MinedLoss(nn.Module, ABC):
    """A loss over triplets (a, p, n) that a miner picks anew in each batch.

    A subclass has two methods: `mine` picks the triplets, `triplet_loss` is their loss.
    """

    normalized = True

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), labels: (B,) -> scalar; 0 for a batch without triplets."""
        d = distances(embeddings)
        return self.triplet_loss(embeddings, labels, d, self.mine(d.detach(), labels, embeddings.shape[1]))

    @abstractmethod
    def mine(self, d: Tensor, labels: Tensor, dim: int) -> Triplets:
        """The triplets, from the distances (B, B), the labels (B,) and the embedding size."""

    @abstractmethod
    def triplet_loss(self, embeddings: Tensor, labels: Tensor, d: Tensor, triplets: Triplets) -> Tensor:
        """The loss of these triplets of the batch; d: (B, B), the distances of the embeddings."""


class DistanceWeighted(MinedLoss):
    """The (D) losses: one triplet an anchor, a random positive, the negative drawn by its distance."""

    def mine(self, d: Tensor, labels: Tensor, dim: int) -> Triplets:
        return mining.distance_weighted_triplets(d, labels, dim)


class MinedTriplet(MinedLoss):
    """mean over the mined triplets of [d_ap^2 - d_an^2 + margin]_+

    with the Euclidean distance d_ij = |x_i - x_j|; the mean counts the zeros too.

    Parameters
    ----------
    margin : a squared distance, 0.2 of both papers

    References
    ----------
    Schroff et al. 2015 (FaceNet, Eq. 3), as in Roth et al. 2020. Unlike `triplet` (Musgrave et al. 2020): distances are
    squared, and the mean is over all mined triplets. The miners see d, not squared.
    """

    def __init__(self, margin: float = 0.2):
        super().__init__()
        self.margin = margin

    def triplet_loss(self, embeddings: Tensor, labels: Tensor, d: Tensor, triplets: Triplets) -> Tensor:
        """The mean hinge on the squared distances of the triplets."""
        anchors, positives, negatives = triplets
        d_ap, d_an = d[anchors, positives], d[anchors, negatives]  # (T,)
        return mean_over_tuples(torch.relu(d_ap * d_ap - d_an * d_an + self.margin))


class TripletRandom(MinedTriplet):
    """`MinedTriplet` on random triplets: Triplet (R) of Roth et al. 2020."""

    def mine(self, d: Tensor, labels: Tensor, dim: int) -> Triplets:
        return mining.random_triplets(labels)


class TripletSemihard(MinedTriplet):
    """`MinedTriplet` on random semi-hard triplets: Triplet (S) of Roth et al. 2020. The miner shares the margin."""

    def mine(self, d: Tensor, labels: Tensor, dim: int) -> Triplets:
        return mining.semihard_triplets(d, labels, self.margin)


class TripletSoftHard(MinedTriplet):
    """`MinedTriplet` on soft-hard triplets: Triplet (H) of Roth et al. 2020."""

    def mine(self, d: Tensor, labels: Tensor, dim: int) -> Triplets:
        return mining.softhard_triplets(d, labels)


class TripletHard(MinedTriplet):
    """`MinedTriplet` on each anchor's hardest triplet (Hermans et al. 2017, whose distance is not squared)."""

    def mine(self, d: Tensor, labels: Tensor, dim: int) -> Triplets:
        return mining.hard_triplets(d, labels)


class TripletDistance(DistanceWeighted, MinedTriplet):
    """`MinedTriplet` on distance-weighted triplets: Triplet (D) of Roth et al. 2020."""


class TripletSemihardPairs(MinedTriplet):
    """`MinedTriplet` on one triplet for each positive pair, its negative the nearest semi-hard one.

    Parameters
    ----------
    margin : a squared distance, 1 of both

    References
    ----------
    "Triplet Semihard" of Fehervari et al. 2019, after TensorFlow's semi-hard triplet loss: un-normalised embeddings, no
    chance, a mean over all positive pairs.
    """

    normalized = False

    def __init__(self, margin: float = 1.0):
        super().__init__(margin)

    def mine(self, d: Tensor, labels: Tensor, dim: int) -> Triplets:
        return mining.nearest_semihard_triplets(d, labels)


class ContrastiveDistance(DistanceWeighted):
    """The contrastive loss on distance-weighted triplets: Contrastive (D) of Roth et al. 2020.

    mean [d_ap - pos_margin]_+ + mean [neg_margin - d_an]_+ over the mined triplets

    with the Euclidean distance d_ij = |x_i - x_j|.

    Parameters
    ----------
    pos_margin, neg_margin : distances, 0 and 1 of Roth et al.

    References
    ----------
    Roth et al. 2020. Unlike `contrastive`, whose means are over the non-zero terms of all pairs, the means count the
    zeros too.
    """

    def __init__(self, pos_margin: float = 0.0, neg_margin: float = 1.0):
        super().__init__()
        self.pos_margin, self.neg_margin = pos_margin, neg_margin

    def triplet_loss(self, embeddings: Tensor, labels: Tensor, d: Tensor, triplets: Triplets) -> Tensor:
        """The mean hinges on the positive and on the negative pairs of the triplets."""
        anchors, positives, negatives = triplets
        pull = torch.relu(d[anchors, positives] - self.pos_margin)  # (T,)
        push = torch.relu(self.neg_margin - d[anchors, negatives])
        return mean_over_tuples(pull + push)


class MarginDistance(DistanceWeighted):
    """The margin loss on distance-weighted triplets: Margin (D) of Roth et al. 2020.

    sum over the mined triplets of [d_ap - beta_y + margin]_+ + [beta_y - d_an + margin]_+,
    divided by the number of these hinges that are above 0

    with the Euclidean distance d_ij = |x_i - x_j| and one learnt boundary beta_y for each class, the anchor's.

    Parameters
    ----------
    num_classes : C, the labels are in [0, C)
    margin, beta : distances, 0.2 and at the start 1.2, of all three; Roth et al. also train beta 0.6
        beta is a parameter (num_classes,), all equal at the start.

    References
    ----------
    Wu et al. 2017, the margin-based loss, without the regulariser on beta (nu = 0 in Roth et al. 2020 and Fehervari et
    al. 2019). Roth et al.'s public code divides by the number of triplets with a hinge above 0 instead.
    """

    def __init__(self, num_classes: int, margin: float = 0.2, beta: float = 1.2):
        super().__init__()
        self.margin = margin
        self.beta = nn.Parameter(torch.full((num_classes,), float(beta)))

    def triplet_loss(self, embeddings: Tensor, labels: Tensor, d: Tensor, triplets: Triplets) -> Tensor:
        """The mean over the non-zero hinges of the triplets."""
        anchors, positives, negatives = triplets
        beta = self.beta.to(d.dtype)[labels[anchors]]  # (T,)
        hinges = torch.stack([d[anchors, positives] - beta, beta - d[anchors, negatives]]) + self.margin  # (2, T)
        return mean_of_nonzero(torch.relu(hinges))


class MarginDistancePairs(MarginDistance):
    """`MarginDistance` on one triplet for each positive pair, its negative drawn below distance 1.4 where there is one.

    References
    ----------
    Wu et al. 2017, as "Margin Loss" of Fehervari et al. 2019. Roth et al. (`MarginDistance`) draw one positive an
    anchor and have no upper limit.
    """

    def mine(self, d: Tensor, labels: Tensor, dim: int) -> Triplets:
        return mining.distance_weighted_pairs(d, labels, dim)


class SNRDistance(DistanceWeighted):
    """The SNR triplet loss on distance-weighted triplets: SNR (D) of Roth et al. 2020.

    mean [s_ap - s_an + margin]_+ over the mined triplets where it is above 0
    + regularizer_weight * mean over the anchors of |sum_k x_ak|

    with the SNR distance s_ij = var(x_i - x_j) / var(x_i). The miner sees the Euclidean distance.

    Parameters
    ----------
    margin : an SNR distance, 0.2 of Roth et al.
    regularizer_weight : 0.005, of Roth et al.

    References
    ----------
    Yuan et al. 2019, DSML(tri); `snr` is DSML(cont). Roth et al.'s public code sets the weight to 0 for the
    distance-weighted miner, but not for its rho-regularised form: SNR (D) was trained without the regulariser, R-SNR
    (D) with it.
    """

    def __init__(self, margin: float = 0.2, regularizer_weight: float = 0.005):
        super().__init__()
        self.margin, self.regularizer_weight = margin, regularizer_weight

    def triplet_loss(self, embeddings: Tensor, labels: Tensor, d: Tensor, triplets: Triplets) -> Tensor:
        """The mean over the non-zero hinges on the SNR distances of the triplets, and the penalty on their anchors."""
        anchors, positives, negatives = triplets
        snr = snr_distances(embeddings)
        hinges = torch.relu(snr[anchors, positives] - snr[anchors, negatives] + self.margin)  # (T,)
        penalty = mean_over_tuples(embeddings[anchors].sum(1).abs())
        return mean_of_nonzero(hinges) + self.regularizer_weight * penalty
