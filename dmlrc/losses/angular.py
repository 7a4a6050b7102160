"""The angular loss: the angle at the negative of a triplet below alpha."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dmlrc.losses import mining
from dmlrc.losses.common import masked_logsumexp, pair_masks, softplus
from dmlrc.losses.mining import mean_over_tuples
from dmlrc.losses.n_pairs import n_pairs_terms, squared_lengths


class Angular(nn.Module):
    """The angle at every negative of every positive pair below alpha.

    mean over the positive pairs (a, p) of log(1 + sum over negatives n of e^(f_apn)), with
    f_apn = 4 tan^2(alpha) (x_a + x_p).x_n - 2 (1 + tan^2(alpha)) x_a.x_p

    Parameters
    ----------
    alpha : degrees, 40 as in pytorch-metric-learning

    References
    ----------
    Wang et al. 2017 (Angular Loss), L_ang: all positive pairs and all negatives of the batch, as in
    pytorch-metric-learning (which normalises anchor and positive, but not the negative; on normalised embeddings both
    agree). Embeddings are not normalised, as in Fehervari et al. 2019, whose tuples are those of `AngularFehervari`.
    """

    normalized = False

    def __init__(self, alpha: float = 40.0):
        super().__init__()
        self.alpha = alpha

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), not normalised; labels: (B,) -> scalar; 0 for a batch without triplets."""
        positive, _ = pair_masks(labels)
        return angular_terms(embeddings, labels, *positive.nonzero(as_tuple=True), self.alpha)


class AngularFehervari(nn.Module):
    """The angular loss on one pair (a_i, p_i) a class, against the positives of the other classes.

    mean_i log(1 + sum over j != i of e^(f_ij)) + l2_weight * (mean_i |a_i|^2 + mean_i |p_i|^2), with
    f_ij = 4 tan^2(alpha) (a_i + p_i).p_j - 2 (1 + tan^2(alpha)) a_i.p_i

    The pairs are the first two samples of each class in the batch, as in `NPairs`.

    Parameters
    ----------
    alpha : degrees, 45 of the public code
    l2_weight : 0.0005, of the public code

    References
    ----------
    "Angular Loss" of Fehervari et al. 2019, on un-normalised embeddings, without the N-pairs loss beside it.
    """

    normalized = False

    def __init__(self, alpha: float = 45.0, l2_weight: float = 0.0005):
        super().__init__()
        self.alpha, self.l2_weight = alpha, l2_weight

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), not normalised; labels: (B,) -> scalar; 0 for a batch without positive pairs."""
        anchors, positives = mining.first_pairs(labels)
        own, others = _factors(self.alpha)
        products = embeddings @ embeddings[positives].T  # (B, C)
        f = others * (products[anchors] + products[positives])  # (C, C)
        f = f - own * products[anchors].diagonal()[:, None]
        apart = ~torch.eye(len(anchors), dtype=torch.bool, device=labels.device)
        return mean_over_tuples(softplus(masked_logsumexp(f, apart))) + self.l2_weight * mean_over_tuples(
            squared_lengths(embeddings, anchors, positives)
        )


class AngularRoth(nn.Module):
    """The N-pairs loss on the embeddings, plus the angular loss on their directions.

    n_pairs(x) + angular_weight * angular(x / |x|) + l2_weight * mean_i |x_i|

    both over every sample as an anchor, one random positive for each and all negatives of the batch (`NPairsRoth`).

    Parameters
    ----------
    alpha : degrees, 45 of Roth et al.
    angular_weight, l2_weight : 2 and 0.005, of Roth et al.

    References
    ----------
    Wang et al. 2017 (NL & AL), as "Angular" of Roth et al. 2020, on un-normalised embeddings. A batch without pairs of
    both kinds still has the penalty.
    """

    normalized = False

    def __init__(self, alpha: float = 45.0, angular_weight: float = 2.0, l2_weight: float = 0.005):
        super().__init__()
        self.alpha, self.angular_weight, self.l2_weight = alpha, angular_weight, l2_weight

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), not normalised; labels: (B,) -> scalar."""
        anchors, positives = mining.random_pairs(labels)
        return (
            n_pairs_terms(embeddings, labels, anchors, positives)
            + self.angular_weight * angular_terms(F.normalize(embeddings), labels, anchors, positives, self.alpha)
            + self.l2_weight * embeddings.norm(dim=1).mean()
        )


def angular_terms(embeddings: Tensor, labels: Tensor, anchors: Tensor, positives: Tensor, alpha: float) -> Tensor:
    """The mean of `Angular` over these positive pairs, anchors and positives (T,), against all negatives: a scalar."""
    _, negative = pair_masks(labels)
    own, others = _factors(alpha)
    products = embeddings @ embeddings.T  # (B, B)
    f = others * (products[anchors] + products[positives]) - own * products[anchors, positives][:, None]  # (T, B)
    return mean_over_tuples(softplus(masked_logsumexp(f, negative[anchors])))


def _factors(alpha: float) -> tuple[float, float]:
    """2 (1 + tan^2(alpha)) for the pair's own product, 4 tan^2(alpha) for those with the negatives; alpha: degrees."""
    tan2 = math.tan(math.radians(alpha)) ** 2
    return 2 * (1 + tan2), 4 * tan2
