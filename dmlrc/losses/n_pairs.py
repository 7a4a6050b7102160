"""The N-pairs loss: each anchor distinguished from many negatives at once, by inner products."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dmlrc.losses import mining
from dmlrc.losses.common import masked_logsumexp, pair_masks, softplus
from dmlrc.losses.mining import mean_over_tuples


class NPairs(nn.Module):
    """Take one pair (a_i, p_i) a class: the anchor more like its own positive than like those of the other classes.

    mean_i log(1 + sum over j != i of e^(a_i.p_j - a_i.p_i)) + l2_weight * (mean_i |a_i|^2 + mean_i |p_i|^2)

    The pairs are the first two samples of each class in the batch; further ones are not used, so two images a class
    are the layout.

    Parameters
    ----------
    l2_weight : no penalty, as in pytorch-metric-learning

    References
    ----------
    Sohn 2016, Eq. 7 (multi-class N-pair loss), on un-normalised embeddings; Fehervari et al. 2019 train it so, with
    l2_weight 0.0005 (a quarter of 0.002).
    """

    normalized = False

    def __init__(self, l2_weight: float = 0.0):
        super().__init__()
        self.l2_weight = l2_weight

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), not normalised; labels: (B,) -> scalar; 0 for a batch without positive pairs."""
        anchors, positives = mining.first_pairs(labels)
        logits = embeddings[anchors] @ embeddings[positives].T  # (C, C)
        own = torch.arange(len(anchors), device=labels.device)
        value = mean_over_tuples(F.cross_entropy(logits, own, reduction="none"))
        if not self.l2_weight:
            return value
        return value + self.l2_weight * mean_over_tuples(squared_lengths(embeddings, anchors, positives))


class NPairsRoth(nn.Module):
    """Every sample an anchor, with one random positive and all negatives of the batch.

    mean_i log(1 + sum over negatives k of i of e^(x_i.x_k - x_i.x_p(i))) + l2_weight * mean_i |x_i|

    with one random positive p(i). The first mean is over the samples that have positives and negatives.

    Parameters
    ----------
    l2_weight : 0.005, of Roth et al.

    References
    ----------
    "Npair" of Roth et al. 2020, on un-normalised embeddings. Unlike Sohn 2016 (`NPairs`), the roles of anchor and
    positive are not split, the negatives are all samples of the other classes and the penalty is on the length, not its
    square. A batch without pairs of both kinds still has the penalty.
    """

    normalized = False

    def __init__(self, l2_weight: float = 0.005):
        super().__init__()
        self.l2_weight = l2_weight

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), not normalised; labels: (B,) -> scalar."""
        anchors, positives = mining.random_pairs(labels)
        return n_pairs_terms(embeddings, labels, anchors, positives) + self.l2_weight * embeddings.norm(dim=1).mean()


def n_pairs_terms(embeddings: Tensor, labels: Tensor, anchors: Tensor, positives: Tensor) -> Tensor:
    """The first mean of `NPairsRoth` for these pairs, anchors and positives (T,): a scalar."""
    _, negative = pair_masks(labels)
    products = embeddings @ embeddings.T  # (B, B)
    against = masked_logsumexp(products[anchors], negative[anchors])  # (T,)
    return mean_over_tuples(softplus(against - products[anchors, positives]))


def squared_lengths(embeddings: Tensor, anchors: Tensor, positives: Tensor) -> Tensor:
    """The squared length of each pair's two ends together: (T,)."""
    squares = (embeddings * embeddings).sum(1)  # (B,)
    return squares[anchors] + squares[positives]
