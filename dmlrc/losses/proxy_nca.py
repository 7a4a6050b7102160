"""ProxyNCA: a softmax over the squared distances to one learnt proxy a class."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dmlrc.losses.common import unit_length


class ProxyNCA(nn.Module):
    """Each embedding nearest to the proxy of its own class.

    mean_i -log( e^(-s |x_i - p_y|^2) / sum over all classes c of e^(-s |x_i - p_c|^2) )

    with proxies p_c on the unit sphere, y the class of i, and s = softmax_scale.

    Parameters
    ----------
    num_classes, embedding_dim : C and D; the labels are in [0, C)
    softmax_scale : s, above 0; 1, the paper's

    Notes
    -----
    On the unit sphere |x - p|^2 = 2 - 2 x.p, so this is normalised softmax with temperature 1 / (2 s).
    pytorch-metric-learning 2.9 leaves out of the mean every sample whose probability underflows to 0, the hardest ones
    (in float32 it can happen from a softmax_scale of about 25), and is NaN if none is left; here each sample counts.
    proxies: parameter (num_classes, embedding_dim), standard normal at the start, normalised in each forward pass.

    References
    ----------
    Movshovitz-Attias et al. 2017, as in Musgrave et al. 2020 and pytorch-metric-learning: the positive proxy is in the
    denominator (the paper leaves it out) and a scale is added.
    """

    normalized = True

    def __init__(self, num_classes: int, embedding_dim: int, softmax_scale: float = 1.0):
        super().__init__()
        self.softmax_scale = softmax_scale
        self.proxies = nn.Parameter(torch.randn(num_classes, embedding_dim))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) in [0, num_classes) -> scalar."""
        return F.cross_entropy(self.logits(embeddings), labels)

    def logits(self, embeddings: Tensor) -> Tensor:
        """-s |x_i - p_c|^2 up to a number for each embedding, which no softmax sees: 2 s x_i.p_c, (B, D) -> (B, C)."""
        proxies = unit_length(self.proxies.to(embeddings.dtype), dim=1)
        return 2 * self.softmax_scale * (embeddings @ proxies.T)
