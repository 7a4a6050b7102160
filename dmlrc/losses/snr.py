"""The signal-to-noise-ratio contrastive loss."""

import torch
from torch import Tensor

from dmlrc.losses.common import distances, pair_masks
from dmlrc.losses.contrastive import Contrastive


def snr_distances(embeddings: Tensor) -> Tensor:
    """d_ij = var(x_i - x_j) / var(x_i): (B, D) -> (B, B), rows are anchors; not symmetric.

    The variances are over the D entries of a vector: the anchor is the signal, the difference the noise.
    An anchor whose entries are all equal has no signal; its variance is taken as the smallest that the
    number format resolves, so that value and gradient stay finite.
    """
    centred = embeddings - embeddings.mean(1, keepdim=True)
    signal = (centred * centred).sum(1, keepdim=True)  # (B, 1), (D - 1) times the variance
    return distances(centred).square() / signal.clamp(min=torch.finfo(signal.dtype).eps)


class SNR(Contrastive):
    """The contrastive loss on SNR distances, and a penalty on embeddings whose entries do not sum to zero.

    contrastive(d_ij; pos_margin, neg_margin) + regularizer_weight * mean_i |sum_k x_ik|

    with d_ij = var(x_i - x_j) / var(x_i).

    Parameters
    ----------
    pos_margin, neg_margin : SNR distances, 0 and 1 as in pytorch-metric-learning
    regularizer_weight : no regulariser, as in pytorch-metric-learning, where it is the separate ZeroMeanRegularizer

    References
    ----------
    Yuan et al. 2019, the SNR distance, DSML(cont) and its regulariser; the means over the non-zero terms are
    pytorch-metric-learning's. A batch without pairs still has the penalty.
    """

    def __init__(self, pos_margin: float = 0.0, neg_margin: float = 1.0, regularizer_weight: float = 0.0):
        super().__init__(pos_margin, neg_margin)
        self.regularizer_weight = regularizer_weight

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised, D >= 2; labels: (B,) -> scalar."""
        positive, negative = pair_masks(labels)
        contrastive = self.pair_loss(snr_distances(embeddings), positive, negative)
        return contrastive + self.regularizer_weight * embeddings.sum(1).abs().mean()
