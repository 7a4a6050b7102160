"""FastAP: average precision in the batch, made differentiable with soft histograms of distances."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dmlrc.losses.common import check_batch, pair_masks


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
        # Minus the squared distances, in units of the bin width: the centres are 0, 1, ..., num_bins.
        lengths = (embeddings * embeddings).sum(1)
        lengths = lengths[:, None] + lengths  # (B, B)
        near = torch.addmm(lengths, embeddings, embeddings.T, beta=-self.num_bins / 4, alpha=self.num_bins / 2)
        ends = torch.arange(1, self.num_bins + 2, dtype=near.dtype, device=near.device)  # (L,)
        # How much of a pair's weight lies in the bins up to each: no gradient at a centre, as the two beside it cancel.
        share = F.hardtanh(near[:, None, :] + ends[:, None], 0, 1, inplace=True)  # (B, L, B)
        members = torch.stack((positive, positive | negative), dim=2).to(share.dtype)  # (B, B, 2)
        positives, others = (share @ members).unbind(2)  # (B, L): H+ and H
        histogram = positives - F.pad(positives[:, :-1], (1, 0))  # (B, L): h+
        # Where a bin and all before it are empty, 0 / 0 counts as 0.
        precision = histogram * positives / others.clamp(min=torch.finfo(share.dtype).tiny)  # (B, L)
        num_positives = positive.sum(1, keepdim=True)
        queries = torch.count_nonzero(num_positives)
        return (queries - (precision / num_positives.clamp(min=1)).sum()) / queries.clamp(min=1)
