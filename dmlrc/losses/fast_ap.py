"""FastAP: average precision in the batch, made differentiable with soft histograms of distances."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dmlrc.losses.common import check_batch, mean_over, pair_masks, squared_distances


class FastAP(nn.Module):
    """One minus the average precision of each sample as a query among the rest of the batch.

    mean over anchors with positives of 1 - AP_i,   AP_i = 1 / N+_i  sum over bins l of h+_l H+_l / H_l

    h+_l is the soft number of positives of i in bin l, H+_l and H_l those of positives and of all others in the
    bins up to l. The bins' centres divide the range [0, 4] of the squared distance of unit vectors into num_bins
    parts; a distance shares its weight linearly between the two centres beside it.

    Source: Cakir et al. 2019. Default: num_bins 10, the paper's and pytorch-metric-learning's.
    An anchor without positives is left out of the mean; one without negatives has AP 1.
    """

    normalized = True

    def __init__(self, num_bins: int = 10):
        super().__init__()
        self.num_bins = int(num_bins)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch without positives."""
        check_batch(embeddings, labels)
        positive, negative = pair_masks(labels)
        # In units of the bin width the centres are 0, 1, ..., num_bins.
        position = squared_distances(embeddings, embeddings) * (self.num_bins / 4)
        ends = torch.arange(1, self.num_bins + 2, dtype=position.dtype, device=position.device)
        share = F.hardtanh(ends[:, None] - position[:, None, :], 0, 1)  # (B, L, B): of a pair's weight up to a bin
        members = torch.stack((positive, positive | negative), dim=2).to(share.dtype)  # (B, B, 2)
        positives, others = (share @ members).unbind(2)  # (B, L): H+ and H
        histogram = positives.diff(dim=1, prepend=positives.new_zeros(len(positives), 1))  # (B, L): h+
        # Where a bin and all before it are empty, 0 / 0 counts as 0.
        precision = histogram * positives / others.clamp(min=torch.finfo(share.dtype).tiny)  # (B, L)
        num_positives = positive.sum(1)
        average_precision = precision.sum(1) / num_positives.clamp(min=1)
        return mean_over(1 - average_precision, num_positives > 0)
