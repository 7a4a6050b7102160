"""The triplet margin loss over all triplets of a batch."""

import torch
from torch import Tensor, nn

from dmlrc.losses.common import distances, pair_masks


class Triplet(nn.Module):
    """Every positive of an anchor closer than every negative, by a margin.

    mean [d_ap - d_an + margin]_+ over all triplets (a, p, n) of the batch where it is above 0

    with the Euclidean distance d_ij = |x_i - x_j|.

    Parameters
    ----------
    margin : a distance, 0.05 as in pytorch-metric-learning

    References
    ----------
    Musgrave et al. 2020, Eq. 2. Weinberger et al. 2006 and Schroff et al. 2015 (FaceNet) use squared distances; the
    plain distance and the mean over the non-zero triplets are pytorch-metric-learning's. No mining: all triplets.
    """

    normalized = True

    def __init__(self, margin: float = 0.05):
        super().__init__()
        self.margin = margin

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch without triplets."""
        positive, negative = pair_masks(labels)
        reach = distances(embeddings) + self.margin * positive.to(embeddings.dtype)  # d_an, and d_ap + margin
        triplets = active_triplets(reach.detach(), positive, negative)  # (B, B)
        # Summed in double precision: the two parts of a hinge are far larger than the hinge.
        total = (triplets * reach).sum(dtype=torch.float64)
        return (total / triplets.clamp(min=0).sum().clamp(min=1)).to(reach.dtype)


def active_triplets(reach: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """Count the triplets with a hinge above 0 that a pair stands in, all (B, B): a negative pair's number is below 0.

    reach: d_an, and d_ap + margin; a triplet's hinge is above 0 where the positive's is larger. The sum of the hinges
    is that of these numbers times reach. They are counted in the sorted rows, without the B^3 triplets.
    """
    ap, an = reach.masked_fill(~positive, -torch.inf), reach.masked_fill(~negative, torch.inf)
    of_positive = torch.searchsorted(an.sort(1).values, ap)
    of_negative = len(reach) - torch.searchsorted(ap.sort(1).values, an, right=True)
    return of_positive - of_negative
