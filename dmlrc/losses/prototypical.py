"""The prototypical loss: a softmax over the squared distances to the class means of an episode."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dmlrc.losses.common import squared_distances
from dmlrc.losses.mining import mean_over_tuples, ranks_in_class


class Prototypical(nn.Module):
    """Each query nearest to the prototype of its class, the mean of the class's support samples.

    mean over the queries q of -log( e^(-|x_q - c_y|^2) / sum over the classes k of the batch of e^(-|x_q - c_k|^2) )

    with the prototypes c_k and y the class of q. A batch is an episode: of each class's samples the first half, rounded
    down, are the support and the others the queries. A class of one sample is left out.

    References
    ----------
    Snell et al. 2017, Eqs. 1 and 2. Fehervari et al. 2019: episodes of 12 classes with 5 support samples and 5 queries
    (12 x 10 images), un-normalised embeddings.
    """

    normalized = False

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), not normalised; labels: (B,) -> scalar; 0 for a batch with one class or no pairs."""
        classes, index, sizes = labels.unique(return_inverse=True, return_counts=True)  # (K,), (B,), (K,)
        in_support = ranks_in_class(labels) < (sizes // 2)[index]  # (B,)
        support = (index == torch.arange(len(classes), device=labels.device)[:, None]) & in_support  # (K, B)
        shots = support.sum(1)
        prototypes = support.to(embeddings.dtype) @ embeddings / shots.clamp(min=1)[:, None]  # (K, D)
        queries = ~in_support & (shots > 0)[index]
        logits = -squared_distances(embeddings[queries], prototypes).masked_fill(shots == 0, torch.inf)  # (Q, K)
        return mean_over_tuples(F.cross_entropy(logits, index[queries], reduction="none"))
