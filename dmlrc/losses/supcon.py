"""SupCon: cross-entropy against all other samples of the batch, averaged over the positives."""

from torch import Tensor, nn

from dmlrc.losses.common import masked_logsumexp, mean_over, pair_masks


class SupCon(nn.Module):
    """Tell the positive of every positive pair from all other samples of the batch.

    mean over anchors i with positives of  1 / |P_i|  sum over positives p of
        -log( e^(s_ip/T) / sum over a != i of e^(s_ia/T) )

    with the cosine s_ij and the temperature T.

    Parameters
    ----------
    temperature : T, above 0; 0.1, the paper's and pytorch-metric-learning's

    Notes
    -----
    With two images a class it is `NTXent`; with more, the other positives stay in the denominator, so that the loss has
    a floor of log |P_i|. A batch of one class still pulls its samples to equal similarities, where
    pytorch-metric-learning has 0.

    References
    ----------
    Khosla et al. 2020 (Supervised Contrastive Learning), Eq. 2 ("out"), on the embeddings of the batch: no two views of
    an image, no projection head.
    """

    normalized = True

    def __init__(self, temperature: float = 0.1):
        super().__init__()
        self.temperature = temperature

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch without positives."""
        positive, negative = pair_masks(labels)
        logits = embeddings @ embeddings.T / self.temperature
        surprise = masked_logsumexp(logits, positive | negative)[:, None] - logits  # (B, B): -log of each one's share
        num_positives = positive.sum(1)
        terms = surprise.where(positive, 0.0).sum(1) / num_positives.clamp(min=1)  # (B,)
        return mean_over(terms, num_positives > 0)
