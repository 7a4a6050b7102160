"""SoftTriple: a softmax over classes that each have several centres."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dmlrc.losses.common import check_batch


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
        fc = nn.init.kaiming_uniform_(torch.empty(embedding_dim, num_classes * centers_per_class), a=math.sqrt(5))
        self.fc = nn.Parameter(fc.T.contiguous().T)  # each centre in one piece of memory: twice as fast as a column

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) in [0, num_classes) -> scalar."""
        check_batch(embeddings, labels, self.num_classes)
        fc = self.fc.to(embeddings.dtype)
        length = (fc * fc).sum(0).clamp(min=1e-24).sqrt()  # (C K,)
        to_centers = (fc.T @ embeddings.T) / length[:, None]
        to_centers = to_centers.unflatten(0, (self.num_classes, self.centers_per_class))  # (C, K, B)
        to_classes = (torch.softmax(to_centers / self.gamma, dim=1) * to_centers).sum(1).T  # (B, C)
        margins = torch.zeros_like(to_classes).scatter_(1, labels[:, None], self.margin)
        classification = F.cross_entropy(self.la * (to_classes - margins), labels)
        return classification + self.reg_weight * self._spread(fc) if self.reg_weight else classification

    def _spread(self, fc: Tensor) -> Tensor:
        """Half the mean distance between two centres of one class; 0 where a class has one."""
        # In double precision, where 2 - 2 cos is exact enough for centres that lie almost on each other.
        grouped = fc.double().T.unflatten(0, (self.num_classes, self.centers_per_class))  # (C, K, D)
        products = grouped @ grouped.mT  # (C, K, K)
        lengths = products.diagonal(dim1=1, dim2=2).sqrt()  # (C, K)
        cosines = products / (lengths[:, :, None] * lengths[:, None, :])
        apart = (2 - 2 * cosines).clamp(min=1e-14).sqrt().triu(1)  # each pair once; equal centres have no gradient
        pairs = self.num_classes * self.centers_per_class * (self.centers_per_class - 1) // 2
        return (apart.sum() / (2 * max(pairs, 1))).to(fc.dtype)
