"""ProxyNCA with the positive proxy left out of the denominator."""

import torch
from torch import Tensor

from dmlrc.losses.common import masked_logsumexp
from dmlrc.losses.proxy_nca import ProxyNCA


class ProxyNCAOriginal(ProxyNCA):
    """Each embedding nearer to the proxy of its own class than to the others; the loss has no lower bound at 0.

    mean_i -log( e^(-s |x_i - p_y|^2) / sum over the other classes c of e^(-s |x_i - p_c|^2) )

    with proxies p_c on the unit sphere, y the class of i, and s = softmax_scale.

    Parameters
    ----------
    num_classes, embedding_dim : C and D; the labels are in [0, C)
    softmax_scale : s, above 0; 9, see References
    proxy_std : SD of the numbers of the proxies at the start: the shorter they are, the faster a step turns them
        num_classes is at least 2. proxies: else as in `ProxyNCA`.

    References
    ----------
    Movshovitz-Attias et al. 2017, Eq. 4, where the denominator is over the negatives only. Roth et al. 2020 and
    Fehervari et al. 2019 use this form with embeddings and proxies multiplied by 3, which is softmax_scale 9; Fehervari
    et al. divide the squared distances by a temperature T besides: softmax_scale 9 / T. `proxy_nca` (Musgrave et al.
    2020) has the positive in the denominator: this loss is it with -log P replaced by -log(P / (1 - P)), for the
    probability P of the own class.
    """

    def __init__(self, num_classes: int, embedding_dim: int, softmax_scale: float = 9.0, proxy_std: float = 1.0):
        super().__init__(num_classes, embedding_dim, softmax_scale)
        with torch.no_grad():
            self.proxies *= proxy_std

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) in [0, num_classes) -> scalar."""
        logits = self.logits(embeddings)  # (B, C)
        own = labels[:, None]
        others = torch.ones_like(logits, dtype=torch.bool).scatter(1, own, False)
        return torch.mean(masked_logsumexp(logits, others) - logits.gather(1, own)[:, 0])
