"""The histogram loss: the probability that a negative pair is more similar than a positive one."""

from torch import Tensor, nn

from dmlrc.losses.common import pair_masks


class Histogram(nn.Module):
    """Keep the histograms of positive and of negative similarities apart.

    sum_r h-_r sum over q <= r of h+_q

    with h+ and h- the histograms of the cosines of all positive and all negative pairs on the nodes t_r = -1 + 2 r / R,
    r = 0 .. R, R = n_bins. A similarity is split between its two nearest nodes in proportion to its distance from
    them, so the histograms are differentiable; each sums to 1.

    Parameters
    ----------
    n_bins : R, intervals; 100, as in pytorch-metric-learning
        The "65 bins" of Roth et al. 2020 are nodes, n_bins = 64 (SOP: 11, n_bins = 10).

    References
    ----------
    Ustinova and Lempitsky 2016, Eqs. 1 to 4.
    """

    normalized = True

    def __init__(self, n_bins: int = 100):
        super().__init__()
        self.n_bins = n_bins

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch without pairs of both kinds."""
        similarities = embeddings @ embeddings.T
        positive, negative = (self._histogram(similarities, mask.triu(1)) for mask in pair_masks(labels))  # (R + 1,)
        return (negative * positive.cumsum(0)).sum()

    def _histogram(self, similarities: Tensor, mask: Tensor) -> Tensor:
        """The similarities inside the mask, both (B, B), shared out to the nodes: (R + 1,); zero if there is none."""
        place = ((similarities + 1) * (self.n_bins / 2)).clamp(0, self.n_bins).flatten()  # (B B,), in units of a bin
        below = place.detach().long().clamp(max=self.n_bins - 1)
        counts = mask.flatten().to(place.dtype)
        above = (place - below) * counts
        nodes = place.new_zeros(self.n_bins + 1)
        nodes = nodes.index_add(0, below, counts - above).index_add(0, below + 1, above)
        return nodes / counts.sum().clamp(min=1)
