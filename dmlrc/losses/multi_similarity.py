"""The multi-similarity loss, over all pairs of a batch or over the pairs that its miner keeps."""

import torch
from torch import Tensor, nn

from dmlrc.losses.common import masked_logsumexp, pair_masks, softplus
from dmlrc.losses.mining import multi_similarity_pairs


class MultiSimilarity(nn.Module):
    """Soft maxima over an anchor's positives and over its negatives.

    mean_i 1/alpha log(1 + sum over positives j of e^(-alpha (s_ij - base)))
         + 1/beta  log(1 + sum over negatives j of e^(beta (s_ij - base)))

    with the cosine s_ij. The mean is over all B samples; one without positives (negatives) has no first (second) term.

    Parameters
    ----------
    alpha, beta, base : 2, 50 and a cosine, 0.5, as in pytorch-metric-learning (the paper: base 1)

    References
    ----------
    Wang et al. 2019, the MS loss (base is the paper's lambda), over all pairs of the batch.
    """

    normalized = True

    def __init__(self, alpha: float = 2.0, beta: float = 50.0, base: float = 0.5):
        super().__init__()
        self.alpha, self.beta, self.base = alpha, beta, base

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch without pairs."""
        similarities = embeddings @ embeddings.T
        return self.pair_loss(similarities, *self.pairs(similarities, labels))

    def pairs(self, similarities: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The positive and the negative pairs that count, both (B, B) bool: all of them."""
        return pair_masks(labels)

    def pair_loss(self, similarities: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """The loss from the cosines of all pairs and the two masks of the pairs that count, all (B, B)."""
        beyond = similarities - self.base
        exponents = torch.stack((-self.alpha * beyond, self.beta * beyond))  # (2, B, B)
        pull, push = softplus(masked_logsumexp(exponents, torch.stack((positive, negative))))  # (B,) each
        return torch.mean(pull / self.alpha + push / self.beta)


class MultiSimilarityMiner(MultiSimilarity):
    """The multi-similarity loss over the pairs that are hard by the measure of their anchor, within epsilon.

    The pairs are those of `mining.multi_similarity_pairs`; the mean stays over all B samples.

    Parameters
    ----------
    alpha, beta, base : as in `MultiSimilarity`
    epsilon : a cosine; 0.1, the paper's and pytorch-metric-learning's

    References
    ----------
    Wang et al. 2019, mining and weighting together: the paper's method.
    """

    def __init__(self, alpha: float = 2.0, beta: float = 50.0, base: float = 0.5, epsilon: float = 0.1):
        super().__init__(alpha, beta, base)
        self.epsilon = epsilon

    def pairs(self, similarities: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The positive and the negative pairs that count, both (B, B) bool: the mined ones."""
        return multi_similarity_pairs(similarities, labels, self.epsilon)
