"""The triplet loss against one learnt proxy a class."""

import torch
from torch import Tensor, nn

from dmlrc.losses.common import squared_distances, unit_length


class ProxyTriplet(nn.Module):
    """Each embedding nearer to the proxy of its own class than to every other proxy, by a margin.

    mean over the samples i and the other classes c of [ |x_i - p_y|^2 - |x_i - p_c|^2 + margin ]_+

    with proxies p_c on the unit sphere, y the class of i; the mean counts the zeros too.

    Parameters
    ----------
    num_classes, embedding_dim : C and D; the labels are in [0, C)
    margin : a squared distance, 1 of Fehervari et al.
    proxy_std : SD of the numbers of the proxies at the start, see Notes

    Notes
    -----
    proxies: parameter (num_classes, embedding_dim), normal with SD `proxy_std` at the start, normalised in each forward
    pass; the shorter they are, the faster a step turns them.

    References
    ----------
    Movshovitz-Attias et al. 2017 (the proxy version of the triplet loss), as "ProxyTriplet" of Fehervari et al. 2019.
    """

    normalized = True

    def __init__(self, num_classes: int, embedding_dim: int, margin: float = 1.0, proxy_std: float = 1.0):
        super().__init__()
        self.margin = margin
        self.proxies = nn.Parameter(proxy_std * torch.randn(num_classes, embedding_dim))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) in [0, num_classes) -> scalar; 0 for a single class."""
        d = squared_distances(embeddings, unit_length(self.proxies.to(embeddings.dtype), dim=1))  # (B, C)
        own = labels[:, None]
        hinges = torch.relu(d.gather(1, own) - d + self.margin).scatter(1, own, 0.0)
        return hinges.sum() / max(len(d) * (d.shape[1] - 1), 1)
