"""Tuple mining: which pairs and triplets of a batch a loss gets to see. Masks of fixed shape, no gradient."""

import torch
from torch import Tensor

from dmlrc.losses.common import pair_masks


def multi_similarity_pairs(similarities: Tensor, labels: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """The informative positive and negative pairs of Wang et al. 2019, both (B, B) bool; rows are anchors.

    similarities: (B, B) cosines of all pairs; labels: (B,). A negative is kept if it is more similar than the
    anchor's least similar positive minus epsilon, a positive if it is less similar than the most similar negative
    plus epsilon (Multi-Similarity Loss, section 4.1). An anchor without positives or without negatives keeps no pair.
    A pair whose similarity is NaN is kept, so that the loss shows it.
    """
    similarities = similarities.detach()
    positive, negative = pair_masks(labels)
    hardest_positive = similarities.masked_fill(~positive, torch.inf).amin(1, keepdim=True)  # (B, 1)
    hardest_negative = similarities.masked_fill(~negative, -torch.inf).amax(1, keepdim=True)
    kept_positive = positive & ~(similarities - epsilon >= hardest_negative)
    kept_negative = negative & ~(similarities + epsilon <= hardest_positive)
    return kept_positive, kept_negative
