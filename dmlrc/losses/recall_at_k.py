"""The recall@k surrogate: recall among the k nearest, with sigmoids in the place of both of its steps."""

import torch
from torch import Tensor, nn

from dmlrc.losses.common import mean_over, pair_masks, smooth_lead


class RecallAtK(nn.Module):
    """One minus the share of a query's positives among its k nearest, averaged over several k.

    mean over queries q with positives and over k of
        1 - min(k, sum over positives i of g(k - r_qi)) / min(k, |P_q|)
    r_qi = 1 + sum over all other samples j of G(s_qj - s_qi)

    with the cosine s_ij, g(t) = 1 / (1 + e^(-t / rank_temperature)) and G(t) = 1 / (1 + e^(-t / temperature)); k runs
    over the powers of two up to max_k, and the query itself is not ranked.

    Parameters
    ----------
    rank_temperature, temperature : of g and G, above 0; 1 and 0.01, the paper's
    max_k : the largest k; 16, the paper's k in 1, 2, 4, 8, 16

    References
    ----------
    Patel et al. 2022 (Recall@k Surrogate Loss), without its mixed samples (SiMix) and its batches of 400 to 4000. The
    authors' public code keeps the query in the sum: its ranks are higher by 1, so that its "recall at k" is at k - 1. A
    positive at rank k exactly counts half, g(0): the loss of a perfect ranking is above 0 at any temperature.
    """

    normalized = True

    def __init__(self, rank_temperature: float = 1.0, temperature: float = 0.01, max_k: int = 16):
        super().__init__()
        self.rank_temperature, self.temperature = rank_temperature, temperature
        self.ks = [2**power for power in range(int(max_k).bit_length())]

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch without positives."""
        positive, negative = pair_masks(labels)
        lead = smooth_lead(embeddings @ embeddings.T, self.temperature)  # (B, B, B)
        ranks = 1 + (lead * (positive | negative)[:, None, :]).sum(2)  # (B, B): query, ranked
        ks = torch.tensor(self.ks, dtype=ranks.dtype, device=ranks.device)  # (K,)
        near = torch.sigmoid((ks - ranks[:, :, None]) / self.rank_temperature)  # (B, B, K)
        hits = (near * positive[:, :, None]).sum(1).minimum(ks)  # (B, K)
        num_positives = positive.sum(1)
        recall = hits / num_positives[:, None].clamp(min=1).minimum(ks)
        return mean_over(1 - recall.mean(1), num_positives > 0)
