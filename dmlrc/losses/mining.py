"""Tuple mining: which pairs and triplets of a batch a loss gets to see. No gradient.

A triplet miner returns index tensors (anchors, positives, negatives), each (T,) int64: positions in the batch.
An anchor without a positive or without a negative is in no triplet, so T is 0 for a batch without triplets.
Where chance decides, it is that of torch's global generator.
Distances are Euclidean, as in Roth et al. 2020, unless a caller passes others: the miners but the distance-weighted
ones need only their order, and the semi-hard one a margin in the same unit.
"""

import torch
from torch import Tensor

from dmlrc.losses.common import pair_masks

Triplets = tuple[Tensor, Tensor, Tensor]
"""Anchors, positives and negatives: positions in the batch, each (T,) int64."""


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


def all_triplets(labels: Tensor) -> Triplets:
    """Every triplet of a batch, in the order of anchor, positive, negative. labels: (B,)."""
    positive, negative = pair_masks(labels)
    anchors, positives = positive.nonzero(as_tuple=True)  # (P,)
    pairs, negatives = negative[anchors].nonzero(as_tuple=True)  # (T,)
    return anchors[pairs], positives[pairs], negatives


def random_triplets(labels: Tensor) -> Triplets:
    """B of the batch's triplets, each equally likely, without replacement; all of them if there are fewer.

    Source: "random" of Roth et al. 2020. labels: (B,).
    """
    anchors, positives, negatives = all_triplets(labels)
    order = torch.randperm(len(anchors), device=labels.device)[: len(labels)]
    return anchors[order], positives[order], negatives[order]


def semihard_triplets(distances: Tensor, labels: Tensor, margin: float) -> Triplets:
    """One triplet an anchor: a random positive, a random negative farther than it by less than the margin.

    d_ap < d_an < d_ap + margin; where no negative is, any negative. distances: (B, B), rows are anchors; labels: (B,).
    Source: Schroff et al. 2015 (FaceNet, Eq. 4), as drawn in Roth et al. 2020.
    """
    anchors, positive, negative = _anchored(labels)
    positives = _choose(positive)
    d = distances[anchors]  # (T, B)
    d_ap = distances[anchors, positives][:, None]
    semihard = negative & (d > d_ap) & (d < d_ap + margin)
    return anchors, positives, _choose(_or_else(semihard, negative))


def nearest_semihard_triplets(distances: Tensor, labels: Tensor) -> Triplets:
    """One triplet a positive pair: the nearest negative that is farther than the positive, else the farthest negative.

    No chance is involved. distances: (B, B), rows are anchors; labels: (B,).
    Source: Schroff et al. 2015 as in TensorFlow's semi-hard triplet loss, which Song et al. 2017 and
    Fehervari et al. 2019 use as the baseline.
    """
    positive, negative = pair_masks(labels)
    anchors, positives = (positive & negative.any(1, keepdim=True)).nonzero(as_tuple=True)  # (T,)
    d, negative = distances[anchors], negative[anchors]  # (T, B)
    outside = negative & (d > distances[anchors, positives][:, None])
    nearest = d.masked_fill(~outside, torch.inf).argmin(1)
    farthest = d.masked_fill(~negative, -torch.inf).argmax(1)
    return anchors, positives, torch.where(outside.any(1), nearest, farthest)


def softhard_triplets(distances: Tensor, labels: Tensor) -> Triplets:
    """One triplet an anchor: a random one of its hard positives and a random one of its hard negatives.

    A positive is hard if it is farther than the nearest negative, a negative if it is nearer than the farthest
    positive; where none is, any positive or negative. distances: (B, B), rows are anchors; labels: (B,).
    Source: Roth and Brattoli 2019, as in Roth et al. 2020.
    """
    anchors, positive, negative = _anchored(labels)
    d = distances[anchors]  # (T, B)
    hard_positive = positive & (d > d.masked_fill(~negative, torch.inf).amin(1, keepdim=True))
    hard_negative = negative & (d < d.masked_fill(~positive, -torch.inf).amax(1, keepdim=True))
    positives = _choose(_or_else(hard_positive, positive))
    return anchors, positives, _choose(_or_else(hard_negative, negative))


def hard_triplets(distances: Tensor, labels: Tensor) -> Triplets:
    """One triplet an anchor: its farthest positive and its nearest negative; of equal ones the first.

    distances: (B, B), rows are anchors; labels: (B,). Source: Hermans et al. 2017, "batch hard".
    """
    anchors, positive, negative = _anchored(labels)
    d = distances[anchors]  # (T, B)
    return anchors, d.masked_fill(~positive, -torch.inf).argmax(1), d.masked_fill(~negative, torch.inf).argmin(1)


def distance_weights(distances: Tensor, labels: Tensor, dim: int, upper: float = torch.inf) -> Tensor:
    """The probability of each negative under distance-weighted sampling, (B, B): each row sums to 1.

    Proportional to 1 / q(d) with q(d) = d^(dim - 2) (1 - d^2 / 4)^((dim - 3) / 2), the density of the distances
    between random points of the unit sphere in `dim` dimensions. A row without an eligible negative is all zero.

    distances: (B, B), rows are anchors; labels: (B,); dim: the embedding size.
    Clamps: distances below 0.5 count as 0.5 (Wu et al.: against the noise of very near negatives); negatives at
    `upper` or farther are not eligible (Wu et al. and Fehervari et al. 2019: 1.4, where the margin loss with beta
    1.2 and margin 0.2 ends; Roth et al. 2020: none); 1 - d^2 / 4 is at least 1e-8, since 1 / q is infinite at 2.
    Without `upper` in 128 dimensions a negative beyond distance 1.94 is likelier than one at 0.5: 1 / q has its
    minimum near sqrt(2).
    Source: Wu et al. 2017, distance weighted sampling. Each row is scaled by its own maximum: scaled by the batch's,
    as in public code, the rows of anchors without near negatives fall to zero.
    """
    _, negative = pair_masks(labels)
    d = distances.nan_to_num().clamp(min=0.5)  # a NaN would end a CUDA program here; it still reaches the loss value
    log_density = (dim - 2) * d.log() + (dim - 3) / 2 * (1 - d * d / 4).clamp(min=1e-8).log()
    eligible = negative & (d < upper)
    return torch.softmax((-log_density).masked_fill(~eligible, -torch.inf), 1).nan_to_num()


def distance_weighted_triplets(distances: Tensor, labels: Tensor, dim: int) -> Triplets:
    """One triplet an anchor: a random positive, a negative drawn by `distance_weights` without upper limit.

    distances: (B, B) Euclidean, of L2-normalised embeddings of size dim; labels: (B,).
    Source: Wu et al. 2017, as drawn in Roth et al. 2020.
    """
    anchors, positives = random_pairs(labels)
    weights = distance_weights(distances, labels, dim)[anchors]  # (T, B)
    return anchors, positives, _choose(weights)


def distance_weighted_pairs(distances: Tensor, labels: Tensor, dim: int) -> Triplets:
    """One triplet a positive pair, its negative drawn by `distance_weights` below distance 1.4.

    An anchor without a negative below 1.4 has any of its negatives, all alike; without a negative it is in no triplet.
    distances: (B, B) Euclidean, of L2-normalised embeddings of size dim; labels: (B,).
    Source: Wu et al. 2017, as drawn in Fehervari et al. 2019, whose public code takes any image of the batch where no
    negative is below 1.4.
    """
    positive, negative = pair_masks(labels)
    weights = distance_weights(distances, labels, dim, upper=1.4)
    weights = torch.where(weights.any(1, keepdim=True), weights, negative.to(weights.dtype))
    anchors, positives = (positive & negative.any(1, keepdim=True)).nonzero(as_tuple=True)  # (T,)
    return anchors, positives, _choose(weights[anchors])


def switch_negatives(triplets: Triplets, probability: float) -> Triplets:
    """Rho-regularisation: each triplet (a, p, n) becomes (a, a, p) with this probability.

    The positive then acts as the negative, and the anchor, at distance 0, as the positive.
    Source: Roth et al. 2020, section 5.1; that the anchor takes the positive's place is from their public code.
    """
    anchors, positives, negatives = triplets
    switched = torch.rand(len(anchors), device=anchors.device) < probability
    return anchors, torch.where(switched, anchors, positives), torch.where(switched, positives, negatives)


def ranks_in_class(labels: Tensor) -> Tensor:
    """Count the samples of its own class that stand before each sample of the batch: (B,) -> (B,) int64."""
    return (labels[:, None] == labels[None, :]).tril(-1).sum(1)


def first_pairs(labels: Tensor) -> tuple[Tensor, Tensor]:
    """The first two samples of each class that has two: anchors and positives, each (C,), in the order of the class.

    The batch of the N-pairs loss: one pair a class. Classes of one sample, and third samples, are in no pair.
    """
    ranks = ranks_in_class(labels)
    positives = (ranks == 1).nonzero()[:, 0]
    positives = positives[labels[positives].argsort()]
    anchors = ((labels[positives][:, None] == labels[None, :]) & (ranks == 0)).nonzero()[:, 1]
    return anchors, positives


def random_pairs(labels: Tensor) -> tuple[Tensor, Tensor]:
    """One positive pair an anchor, its positive random: anchors and positives, each (T,). labels: (B,)."""
    anchors, positive, _ = _anchored(labels)
    return anchors, _choose(positive)


def choose_other_class(labels: Tensor, triplets: Triplets) -> Tensor:
    """Draw for each triplet a sample of a third class, that of neither anchor nor negative: (T,), -1 where none is.

    The fourth member of a quadruplet. labels: (B,).
    """
    anchors, _, negatives = triplets
    other = (labels != labels[anchors][:, None]) & (labels != labels[negatives][:, None])  # (T, B)
    none = ~other.any(1)
    return _choose(_or_else(other, torch.ones_like(other))).masked_fill(none, -1)


def mean_over_tuples(terms: Tensor) -> Tensor:
    """Mean over the tuples, (T,) -> scalar; where a batch gave no tuple, 0 with a gradient of 0."""
    return terms.sum() / max(len(terms), 1)


def _anchored(labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The samples with a positive and a negative, (T,) positions, and the masks of these, both (T, B)."""
    positive, negative = pair_masks(labels)
    anchors = (positive.any(1) & negative.any(1)).nonzero()[:, 0]
    return anchors, positive[anchors], negative[anchors]


def _or_else(preferred: Tensor, fallback: Tensor) -> Tensor:
    """Each row of the first mask, or of the second where the first is empty: (T, B), (T, B) -> (T, B)."""
    return torch.where(preferred.any(1, keepdim=True), preferred, fallback)


def _choose(weights: Tensor) -> Tensor:
    """One column a row, with probabilities proportional to the weights (or uniform over a mask): (T, B) -> (T,)."""
    return torch.multinomial(weights.float(), 1)[:, 0]
