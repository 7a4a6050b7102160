"""Smooth-AP: average precision in the batch, with sigmoids in the place of the steps of a ranking."""

from torch import Tensor, nn

from dmlrc.losses.common import mean_over, pair_masks, smooth_lead


class SmoothAP(nn.Module):
    """One minus the average precision of each sample as a query among the rest of the batch.

    mean over queries q with positives of 1 - AP_q,
    AP_q = 1 / |P_q|  sum over positives i of
        (1 + sum over the other positives j of G(s_qj - s_qi)) / (1 + sum over all other samples j of G(s_qj - s_qi))

    with the cosine s_ij and the sigmoid G(t) = 1 / (1 + e^(-t / temperature)).

    Parameters
    ----------
    temperature : of the sigmoid, above 0; 0.01, the paper's

    References
    ----------
    Brown et al. 2020 (Smooth-AP). The authors' code (and pytorch-metric-learning's) ranks the query too, at the top:
    one right answer for free, and an AP of 1 / M or more with M images a class; here it is neither a positive nor in
    the gallery, as in evaluation. Both are 1 for a perfect ranking.
    """

    normalized = True

    def __init__(self, temperature: float = 0.01):
        super().__init__()
        self.temperature = temperature

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch without positives or negatives."""
        positive, negative = pair_masks(labels)
        lead = smooth_lead(embeddings @ embeddings.T, self.temperature)  # (B, B, B)
        among_positives = 1 + (lead * positive[:, None, :]).sum(2)  # (B, B): query, ranked
        among_all = among_positives + (lead * negative[:, None, :]).sum(2)
        num_positives = positive.sum(1)
        precision = (among_positives / among_all).where(positive, 0.0).sum(1) / num_positives.clamp(min=1)  # (B,)
        return mean_over(1 - precision, num_positives > 0)
