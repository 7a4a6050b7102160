"""NT-Xent, the N-pairs loss on cosines with a temperature."""

from torch import Tensor, nn

from dmlrc.losses.common import masked_logsumexp, mean_over, pair_masks, softplus


class NTXent(nn.Module):
    """Tell the positive of every positive pair from the anchor's negatives.

    mean over all positive pairs (i, j) of -log( e^(s_ij/T) / (e^(s_ij/T) + sum over negatives k of e^(s_ik/T)) )

    with the cosine s_ij and the temperature T. The other positives of the anchor are not in the denominator.

    Parameters
    ----------
    temperature : T, above 0; 0.07 as in pytorch-metric-learning

    Notes
    -----
    Computed as softplus(logsumexp_k(s_ik/T) - s_ij/T), exact at any temperature. pytorch-metric-learning 2.9 adds the
    smallest positive number inside its logarithm: a pair's loss stops at 87 and its gradient at 0 once the negatives
    lead by 87 T (float32). At a temperature of 0.0002 that drops every pair that lies 0.017 behind.

    References
    ----------
    Sohn 2016 (N-pairs) and Chen et al. 2020 (SimCLR, Eq. 1), for any number of positives as in pytorch-metric-learning.
    """

    normalized = True

    def __init__(self, temperature: float = 0.07):
        super().__init__()
        self.temperature = temperature

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch without positives or negatives."""
        positive, negative = pair_masks(labels)
        logits = embeddings @ embeddings.T / self.temperature
        lead = masked_logsumexp(logits, negative)[:, None] - logits  # (B, B): how far the negatives are ahead of each
        return mean_over(softplus(lead), positive)
