"""Structured clustering: no other clustering of the batch may score better than the true one, by facility location."""

import math

import torch
from torch import Tensor, nn

from dmlrc.losses.common import distances


class StructuredClustering(nn.Module):
    """The true clustering ahead of every other, by a margin that grows with how wrong the other is.

    [ max over sets S of medoids (F(S) + gamma (1 - NMI(g(S), y))) - F_true ]_+, with
    F(S) = -sum_i min over j in S of d_ij
    F_true = sum over the classes k of max over j in k of ( -sum over i in k of d_ij )

    with the Euclidean distance d_ij = |x_i - x_j|, as many medoids in S as the batch has classes, and g(S) the clusters
    of the samples nearest to each medoid. The maximum is approximated by `greedy_medoids` and `refine_medoids`; the
    gradient is that of F at the medoids found, and of F_true.

    Parameters
    ----------
    gamma, refinements : 1 and at most 5, of the public code and of Fehervari et al. 2019 ("Struct Clust")

    References
    ----------
    Song et al. 2017 (Deep Metric Learning via Facility Location), Eqs. 1 to 6, Algorithms 1 and 2. The value is a sum
    over the batch, not a mean.
    """

    normalized = True

    def __init__(self, gamma: float = 1.0, refinements: int = 5):
        super().__init__()
        self.gamma, self.refinements = gamma, refinements

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D), L2-normalised; labels: (B,) -> scalar; 0 for a batch with one class."""
        d = distances(embeddings)
        _, classes = labels.unique(return_inverse=True)  # (B,), numbered from 0
        fixed = d.detach()
        medoids = greedy_medoids(fixed, classes, self.gamma)
        medoids = refine_medoids(fixed, classes, medoids, self.gamma, self.refinements)
        wrongness = 1 - normalized_mutual_information(assign(fixed, medoids), classes, d.dtype)
        return torch.relu(facility_score(d, medoids) + self.gamma * wrongness - true_score(d, classes))


def facility_score(d: Tensor, medoids: Tensor) -> Tensor:
    """F(S): minus the distances of all samples to their nearest medoid. d: (B, B); medoids: (K,) -> scalar."""
    return -d[:, medoids].min(1).values.sum()


def true_score(d: Tensor, classes: Tensor) -> Tensor:
    """F_true: the facility score of each class around its best medoid, summed. d: (B, B); classes: (B,) -> scalar."""
    member = classes == torch.arange(int(classes.max()) + 1, device=d.device)[:, None]  # (K, B)
    around = torch.where(member[classes], d, 0.0).sum(1)  # (B,): of each sample as the medoid of its class
    return -torch.where(member, around, torch.inf).min(1).values.sum()


def greedy_medoids(d: Tensor, classes: Tensor, gamma: float) -> Tensor:
    """Choose one medoid after the other, the sample that raises F(S) + gamma (1 - NMI) most: (K,) positions.

    Algorithm 1 of Song et al. d: (B, B) without gradient; classes: (B,), numbered from 0, K of them. Of equally good
    samples the first is taken.
    """
    own = _own_nearest(d)
    nearest = torch.full_like(d[0], torch.inf)  # (B,): distance to the nearest medoid so far
    clusters = torch.zeros_like(classes)
    taken = torch.zeros_like(classes, dtype=torch.bool)
    medoids: list[int] = []
    for k in range(int(classes.max()) + 1):
        # Row j of what follows is the clustering with sample j as the next medoid.
        joined = torch.where(own < nearest, k, clusters)  # (B, B)
        nmi = normalized_mutual_information(joined, classes, d.dtype)
        scores = -torch.minimum(nearest, d).sum(1) + gamma * (1 - nmi)  # (B,)
        medoids.append(int(scores.masked_fill(taken, -torch.inf).argmax()))
        taken[medoids[-1]] = True
        clusters, nearest = joined[medoids[-1]], torch.minimum(nearest, d[medoids[-1]])
    return torch.tensor(medoids, device=d.device)


def refine_medoids(d: Tensor, classes: Tensor, medoids: Tensor, gamma: float, sweeps: int) -> Tensor:
    """Replace each medoid by the best member of its cluster, cluster after cluster: (K,) -> (K,) positions.

    Algorithm 2 of Song et al.: the best member has the highest facility score inside the cluster plus
    gamma (1 - NMI) of all clusters. At most `sweeps` times over all clusters; ends when a sweep changes nothing.
    d: (B, B) without gradient; classes: (B,), numbered from 0.
    """
    for _ in range(sweeps):
        clusters, before = assign(d, medoids), medoids
        for k in range(len(medoids)):
            members = (clusters == k).nonzero()[:, 0]  # (M,)
            proposals = medoids.repeat(len(members), 1)  # (M, K): the medoids, with each member as the k-th
            proposals[:, k] = members
            nmi = normalized_mutual_information(assign(d, proposals), classes, d.dtype)
            scores = -d[members][:, members].sum(1) + gamma * (1 - nmi)  # (M,)
            medoids = proposals[scores.argmax()]
        if torch.equal(medoids, before):
            break
    return medoids


def assign(d: Tensor, medoids: Tensor) -> Tensor:
    """The number of each sample's nearest medoid: d (B, B), medoids (..., K) -> (..., B); a medoid's is its own."""
    return _own_nearest(d)[medoids].argmin(-2)


def normalized_mutual_information(clusters: Tensor, classes: Tensor, dtype: torch.dtype) -> Tensor:
    """I / sqrt(H(clusters) H(classes)) of one or many clusterings: (..., B), (B,) -> (...), of this dtype.

    Both are numbered from 0. Where one of the two is a single cluster: 1 if both are, else 0.
    """
    rows = clusters.reshape(-1, len(classes))  # (A, B)
    shape = (len(rows), int(rows.max()) + 1, int(classes.max()) + 1)
    cells = (torch.arange(shape[0], device=rows.device)[:, None] * shape[1] + rows) * shape[2] + classes
    shares = torch.bincount(cells.flatten(), minlength=math.prod(shape)).view(shape).to(dtype) / len(classes)
    h_clusters, h_classes = _entropy(shares.sum(2)), _entropy(shares.sum(1))  # (A,)
    information = h_clusters + h_classes - _entropy(shares.flatten(1))
    product = h_clusters * h_classes
    nmi = information / product.clamp(min=torch.finfo(dtype).tiny).sqrt()
    return torch.where(product > 0, nmi, (h_clusters == h_classes).to(dtype)).view(clusters.shape[:-1])


def _entropy(shares: Tensor) -> Tensor:
    """Entropy in nats: (A, n) -> (A,)."""
    return -torch.special.xlogy(shares, shares).sum(1)


def _own_nearest(d: Tensor) -> Tensor:
    """The distances with each sample nearest to itself, also where another one equals it."""
    return d.clone().fill_diagonal_(-1.0)
