"""SoftTriple: a softmax over classes that each have several centres."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dmlrc.losses.common import check_batch, distances


class SoftTriple(nn.Module):
    """Normalised softmax with a margin, where a class's similarity is a soft maximum over its K centres.

    mean_i -log( e^(la (S_iy - margin)) / (e^(la (S_iy - margin)) + sum over other classes c of e^(la S_ic)) )
    + reg_weight / (C K (K - 1))  sum over classes c, pairs k < l of its centres, of |w_ck - w_cl|

    with S_ic = sum_k softmax_k(x_i . w_ck / gamma) x_i . w_ck, and the centres w_ck on the unit sphere. The second
    term draws a class's centres together, so that it uses no more of them than it needs.

    Source: Qian et al. 2019. Defaults: la 20, gamma 0.1, margin 0.01 and 10 centres a class, of the paper and
    pytorch-metric-learning; reg_weight 0 as there (the paper: 0.2; in pytorch-metric-learning the second term is the
    separate SparseCentersRegularizer, which holds all (C K)^2 similarities, here only those inside a class).
    fc: parameter (embedding_dim, num_classes * K), the centres of a class side by side, uniform in +-1/sqrt(C K) at
    the start; its columns are L2-normalised in each forward pass. Name and layout are pytorch-metric-learning's.
    """

    normalized = True

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        la: float = 20.0,
        gamma: float = 0.1,
        reg_weight: float = 0.0,
        margin: float = 0.01,
        centers_per_class: int = 10,
    ):
        super().__init__()
        self.num_classes, self.centers_per_class = num_classes, centers_per_class
        self.la, self.gamma, self.reg_weight, self.margin = la, gamma, reg_weight, margin
        self.fc = nn.Parameter(torch.empty(embedding_dim, num_classes * centers_per_class))
        nn.init.kaiming_uniform_(self.fc, a=math.sqrt(5))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) in [0, num_classes) -> scalar."""
        check_batch(embeddings, labels, self.num_classes)
        centers = F.normalize(self.fc.to(embeddings.dtype), dim=0)  # (D, C K)
        to_centers = (embeddings @ centers).unflatten(1, (self.num_classes, self.centers_per_class))  # (B, C, K)
        to_classes = (torch.softmax(to_centers / self.gamma, dim=2) * to_centers).sum(2)  # (B, C)
        own = labels[:, None]
        to_classes = to_classes.scatter(1, own, to_classes.gather(1, own) - self.margin)
        return F.cross_entropy(self.la * to_classes, labels) + self.reg_weight * self._spread(centers)

    def _spread(self, centers: Tensor) -> Tensor:
        """Half the mean distance between two centres of one class; 0 where a class has one."""
        grouped = centers.T.unflatten(0, (self.num_classes, self.centers_per_class))  # (C, K, D)
        ordered_pairs = self.num_classes * self.centers_per_class * (self.centers_per_class - 1)
        return distances(grouped, grouped).sum() / (2 * max(ordered_pairs, 1))
