"""Proxy-Anchor: every proxy is an anchor, pulled and pushed by all samples of the batch at once."""

import torch
from torch import Tensor, nn

from dmlrc.losses.common import masked_logsumexp, softplus, unit_length


class ProxyAnchor(nn.Module):
    """Soft maxima over the samples of a proxy's own class and over those of all others.

      1 / |C+|  sum over the classes c of the batch of log(1 + sum over i of class c of e^(-alpha (s_ic - margin)))
    + 1 / C     sum over all classes c of             log(1 + sum over i of other classes of e^(alpha (s_ic + margin)))

    with the cosine s_ic of embedding i and proxy c, and C+ the classes of the batch.

    Parameters
    ----------
    num_classes, embedding_dim : C and D; the labels are in [0, C)
    margin, alpha : a cosine, 0.1, and 32, the paper's and pytorch-metric-learning's

    Notes
    -----
    proxies: parameter (num_classes, embedding_dim), normal with variance 2 / num_classes at the start, as in the
    authors' code; L2-normalised in each forward pass.

    References
    ----------
    Kim et al. 2020 (Proxy Anchor Loss). The paper's batches are 150 and more random images.
    """

    normalized = True

    def __init__(self, num_classes: int, embedding_dim: int, margin: float = 0.1, alpha: float = 32.0):
        super().__init__()
        self.margin, self.alpha = margin, alpha
        self.proxies = nn.Parameter(torch.empty(num_classes, embedding_dim))
        nn.init.kaiming_normal_(self.proxies, mode="fan_out")

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) in [0, num_classes) -> scalar."""
        cosines = unit_length(self.proxies.to(embeddings.dtype), dim=1) @ embeddings.T  # (C, B)
        own = labels == torch.arange(len(self.proxies), device=labels.device)[:, None]  # (C, B)
        # A row without samples counts 0, so the sums need no mask.
        pull = softplus(masked_logsumexp(-self.alpha * (cosines - self.margin), own))  # (C,)
        push = softplus(masked_logsumexp(self.alpha * (cosines + self.margin), ~own))
        return pull.sum() / own.any(1).sum() + push.mean()
