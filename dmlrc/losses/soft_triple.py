"""SoftTriple: a softmax over classes that each have several centres."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SoftTriple(nn.Module):
    """Normalised softmax with a margin, where a class's similarity is a soft maximum over its K centres.

    mean_i -log( e^(la (S_iy - margin)) / (e^(la (S_iy - margin)) + sum over other classes c of e^(la S_ic)) )
    + reg_weight / (C K (K - 1))  sum over classes c, pairs k < l of its centres, of |w_ck - w_cl|

    with S_ic = sum_k softmax_k(x_i . w_ck / gamma) x_i . w_ck, and the centres w_ck on the unit sphere. The second
    term draws a class's centres together, so that it uses no more of them than it needs.

    Parameters
    ----------
    num_classes, embedding_dim : C and D; the labels are in [0, C)
    la, gamma, margin, centers_per_class : 20, 0.1, a cosine, 0.01, and K, 10; of the paper and pytorch-metric-learning
    reg_weight : 0, as in pytorch-metric-learning (the paper: 0.2)
        There the second term is the separate SparseCentersRegularizer, which holds all (C K)^2 similarities, here only
        those inside a class.

    Notes
    -----
    fc: parameter (embedding_dim, num_classes * K), the centres of a class side by side, uniform in +-1/sqrt(C K) at the
    start; its columns are L2-normalised in each forward pass. Name and layout are pytorch-metric-learning's.

    References
    ----------
    Qian et al. 2019.
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
        centres = self.fc.to(embeddings.dtype).T.unflatten(0, (self.num_classes, -1))  # (C, K, D)
        to_classes = _Similarities.apply(centres, embeddings, self.gamma).T  # (B, C)
        margins = torch.zeros_like(to_classes).scatter_(1, labels[:, None], self.margin)
        classification = F.cross_entropy(self.la * (to_classes - margins), labels)
        if not self.reg_weight or self.centers_per_class == 1:
            return classification
        return classification + self.reg_weight * _Spread.apply(centres) / 2


class _Similarities(torch.autograd.Function):
    """S_cb of a class and an embedding, with its gradients: (C, K, D), (B, D), gamma -> (C, B).

    With the cosine s_k = w_k . x / |w_k| to a centre and its share p_k = softmax_k(s_k / gamma), S = sum_k p_k s_k,
    dS/ds_k = p_k (1 + (s_k - S) / gamma) and ds_k/dw_k = (x - s_k w_k / |w_k|) / |w_k|. So the backward pass goes
    twice over the many centres; autograd's goes over them once for every operation.
    """

    @staticmethod
    def forward(ctx, centres: Tensor, x: Tensor, gamma: float) -> Tensor:
        w = centres.flatten(0, 1)  # (C K, D)
        lengths = torch.linalg.vector_norm(w, dim=1, keepdim=True).clamp_(min=1e-12)
        cosines = ((w @ x.T) / lengths).unflatten(0, centres.shape[:2])  # (C, K, B)
        shares = torch.softmax(cosines / gamma, dim=1)
        similarities = (shares * cosines).sum(1)
        ctx.save_for_backward(w, x, lengths, cosines, shares, similarities)
        ctx.gamma = gamma
        return similarities

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        w, x, lengths, cosines, shares, similarities = ctx.saved_tensors
        slopes = ((cosines - similarities[:, None]) / ctx.gamma).add_(1).mul_(shares).mul_(gradient[:, None])
        slopes = slopes.flatten(0, 1) / lengths  # (C K, B)
        along = (slopes * cosines.flatten(0, 1)).sum(1, keepdim=True) / lengths
        return torch.addmm(w * -along, slopes, x).unflatten(0, cosines.shape[:2]), slopes.T @ w, None


class _Spread(torch.autograd.Function):
    """The mean distance of two centres of one class, both at length 1, with its gradient: (C, K, D) -> scalar, K >= 2.

    The gradient of a class's centres is a matrix (K, K) times these centres. In double precision, where 2 - 2 cos is
    exact enough for centres that lie almost on each other; equal ones have no gradient.
    """

    @staticmethod
    def forward(ctx, centres: Tensor) -> Tensor:
        w = centres.double()
        products = w @ w.mT  # (C, K, K)
        lengths = products.diagonal(dim1=1, dim2=2).sqrt()  # (C, K)
        scale = 1 / (lengths[:, :, None] * lengths[:, None, :])
        cosines = products * scale
        squares = 2 - 2 * cosines
        distances = squares.clamp(min=1e-14).sqrt_()
        for matrices in (squares, distances):
            matrices.diagonal(dim1=1, dim2=2).zero_()
        pulls = torch.where(squares > 1e-14, -1 / distances, 0.0)  # of each distance, by the cosine
        ctx.save_for_backward(w, lengths, scale, cosines, pulls)
        return (distances.sum() / _pairs(centres)).to(centres.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient: Tensor) -> Tensor:
        w, lengths, scale, cosines, pulls = ctx.saved_tensors
        matrices = pulls * scale
        matrices.diagonal(dim1=1, dim2=2).copy_(-(pulls * cosines).sum(2) / lengths.square())
        return ((matrices * (2 * gradient / _pairs(w))) @ w).to(gradient.dtype)


def _pairs(centres: Tensor) -> int:
    """Number of ordered pairs that the classes have between their centres (C, K, D)."""
    classes, count, _ = centres.shape
    return classes * count * (count - 1)
