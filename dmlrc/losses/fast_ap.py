"""FastAP: average precision in the batch, made differentiable with soft histograms of distances."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dmlrc.losses.common import pair_masks


class FastAP(nn.Module):
    """One minus the average precision of each sample as a query among the rest of the batch.

    mean over anchors with positives of 1 - AP_i,   AP_i = 1 / N+_i  sum over bins l of h+_l H+_l / H_l

    h+_l is the soft number of positives of i in bin l, H+_l and H_l those of positives and of all others in the
    bins up to l. The bins' centres divide the range [0, 4] of the squared distance of unit vectors into num_bins
    parts; a distance shares its weight linearly between the two centres beside it.

    Parameters
    ----------
    num_bins : parts of the range of the squared distance; 10, the paper's and pytorch-metric-learning's

    References
    ----------
    Cakir et al. 2019. An anchor without positives is left out of the mean; one without negatives has AP 1.
    """

    normalized = True

    def __init__(self, num_bins: int = 10):
        super().__init__()
        self.num_bins = int(num_bins)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch without positives."""
        positive, negative = pair_masks(labels)
        # Squared distances in units of the bin width: the centres are 0, 1, ..., num_bins.
        lengths = (embeddings * embeddings).sum(1)
        lengths = lengths[:, None] + lengths  # (B, B)
        position = torch.addmm(lengths, embeddings, embeddings.T, beta=self.num_bins / 4, alpha=-self.num_bins / 2)
        below = position.detach().long().clamp_(0, self.num_bins - 1)
        above_share = F.hardtanh(position - below, 0, 1)  # without a gradient at a centre
        # A histogram each for negatives, positives and the query itself, side by side.
        L = self.num_bins + 1
        bins = below + L * (2 - positive.long() - 2 * negative.long())  # (B, B)
        histogram = position.new_zeros(len(position), 3 * L)
        histogram = histogram.scatter_add(1, bins, 1 - above_share).scatter_add(1, bins + 1, above_share)
        negatives, positives, _ = histogram.view(-1, 3, L).unbind(1)  # (B, L): h-_l and h+_l
        hits, retrieved = positives.cumsum(1), (positives + negatives).cumsum(1)  # H+_l and H_l
        # Where a bin and all before it are empty, 0 / 0 counts as 0.
        precision = positives * hits / retrieved.clamp(min=torch.finfo(hits.dtype).tiny)  # (B, L)
        num_positives = positive.sum(1, keepdim=True)
        queries = torch.count_nonzero(num_positives)
        return (queries - (precision / num_positives.clamp(min=1)).sum()) / queries.clamp(min=1)
