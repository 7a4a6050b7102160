"""The multi-similarity loss as Roth et al. 2020 average it."""

from torch import Tensor

from dmlrc.losses.multi_similarity import MultiSimilarityMiner


class MultiSimilarityRoth(MultiSimilarityMiner):
    """`MultiSimilarityMiner` with the mean over the samples that keep a pair, instead of over all of the batch.

    Parameters
    ----------
    alpha, beta, base, epsilon : 2, 40 and cosines, 0.5 and 0.1, of Roth et al.

    References
    ----------
    "Multisimilarity" of Roth et al. 2020; Wang et al. 2019 divide by the batch size. A sample keeps positives exactly
    if it keeps negatives.
    """

    def __init__(self, alpha: float = 2.0, beta: float = 40.0, base: float = 0.5, epsilon: float = 0.1):
        super().__init__(alpha, beta, base, epsilon)

    def pair_loss(self, similarities: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """The loss from the cosines of all pairs and the two masks of the pairs that count, all (B, B)."""
        mined = positive.any(1).sum().clamp(min=1)
        return super().pair_loss(similarities, positive, negative) * len(similarities) / mined
