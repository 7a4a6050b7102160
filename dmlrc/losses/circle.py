"""The circle loss: similarities weighted by how far each is from its optimum."""

import torch
from torch import Tensor, nn

from dmlrc.losses.common import masked_logsumexp, mean_over, pair_masks, softplus


class Circle(nn.Module):
    """Each anchor's negatives less similar than its positives, those far from their optimum with more weight.

    mean over anchors i of log(1 + S-_i S+_i), with
    S-_i = sum over negatives n of e^(gamma a_n (s_in - m)),        a_n = [s_in + m]_+
    S+_i = sum over positives p of e^(-gamma a_p (s_ip - 1 + m)),   a_p = [1 + m - s_ip]_+

    with the cosine s_ij. The weights a_n and a_p are constants: no gradient goes through them.

    Parameters
    ----------
    m, gamma : a cosine, 0.4, and 80, the paper's for fine-grained retrieval and pytorch-metric-learning's

    References
    ----------
    Sun et al. 2020 (Circle Loss), for pairwise labels; the form with class weights is left out. The mean is over the
    anchors with positives and negatives. pytorch-metric-learning 2.9 also leaves out those whose loss underflows to 0,
    in float32 possible where 2 gamma m^2 is above 88.
    """

    normalized = True

    def __init__(self, m: float = 0.4, gamma: float = 80.0):
        super().__init__()
        self.m, self.gamma = m, gamma

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch without positives or negatives."""
        positive, negative = pair_masks(labels)
        similarities = embeddings @ embeddings.T
        fixed = similarities.detach()
        pull = -self.gamma * torch.relu(1 + self.m - fixed) * (similarities - 1 + self.m)  # (B, B)
        push = self.gamma * torch.relu(fixed + self.m) * (similarities - self.m)
        # The product of the two sums, by their logarithms: at gamma 80 the sums themselves overflow float32.
        terms = softplus(masked_logsumexp(push, negative) + masked_logsumexp(pull, positive))  # (B,)
        return mean_over(terms, positive.any(1) & negative.any(1))
