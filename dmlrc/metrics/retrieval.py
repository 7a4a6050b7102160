"""Retrieval metrics: what the nearest neighbours of a query hold.

Neighbours are ranked by the Euclidean distance of the embeddings as given. Nothing is normalised here.
A query never retrieves itself: it is left out by its index, not by dropping the first neighbour, which would drop
another image when duplicates exist. R is the number of its positives: the other images of its class. A query without
positives (the only image of its class) has no score: it is left out of the mean and counted (`count_excluded`), and
stays in the reference set.

Ties. Items at the same distance have no order, so each score is its expected value over all orders of the tied items,
in closed form (McSherry and Najork 2008, Computing information retrieval performance measures efficiently in the
presence of tied scores). A collapsed embedding scores what a random ranking scores, whatever the order of its rows.
Two squared distances d^2 of a query q tie if they differ by at most TIE (2 |q - m|^2 + d^2) in float64, m the mean of
the references: those of equal vectors do. That float32 rounds two distances alike does not make them tied.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dmlrc.errors import UsageError, unknown
from dmlrc.metrics.inputs import as_classes, as_embeddings, as_labels, as_names, as_query, require_pairs
from dmlrc.metrics.neighbours import (
    blocks,
    exclude,
    nearest,
    rounding_error,
    smallest,
    squared_euclidean,
    squared_norms,
)

TIE = 1e-12
"""A hundred times the rounding error of float64 and a ten-thousandth of the resolution of float32."""
RESERVE = 4
"""So many neighbours, and one more for every 8, are found beyond those that count, to see where ties end."""

NAMES = (
    "precision_at_1",
    *(f"recall_at_{k}" for k in (1, 2, 4, 8)),
    *("r_precision", "map_at_r", "map_at_c", "map_at_1000"),
)
"""The default; recall_at_{k} exists for every k >= 1 that 64 bits hold."""
RECALL = re.compile(r"recall_at_([1-9]\d{0,17})")


class Ranking(NamedTuple):
    """The first K places of the rankings of B queries, in expectation over the order of tied items; all (B, K)."""

    hit: Tensor  # P(the item at place k is a positive)
    precision: Tensor  # E[Precision@k if the item at place k is a positive, else 0], the k-th summand of AP
    miss: Tensor  # P(no positive among the first k places)


def retrieval_scores(embeddings, labels, names: Iterable[str] = NAMES, query=None) -> dict[str, float]:
    """Average retrieval metrics over the queries.

    For a query with R positives, rel(k) is 1 if its k-th neighbour is one, else 0, and
    Precision@k = 1/k sum_{i=1..k} rel(i):

    - precision_at_1: rel(1), in many papers called recall at 1.
    - recall_at_{k}: 1 if there is a positive among the first k neighbours, else 0. Not the share of positives found.
    - r_precision: Precision@R.
    - map_at_r: 1/R sum_{k=1..R} Precision@k rel(k) (Musgrave et al. 2020, section 3.3). Oi et al. 2021, Eq. 1, write
      the sum from k = 0, but there is no 0th neighbour.
    - map_at_c: the sum up to k = C, the size of the class, over R (Roth et al. 2020, mAP@C). Within one set C = R + 1.
      Roth's code divides by C, so that a perfect embedding scores R / C; here it scores 1, and R / C times a query's
      score is Roth's. With a separate gallery C = R, and this is map_at_r.
    - map_at_1000: the sum up to k = 1000, over min(R, 1000) (Roth et al. 2020, mAP@1000, again over C in their code).

    They fall with the number of classes, so they do not compare between sets with different classes. See the head of
    this file for what ties get.

    Parameters
    ----------
    embeddings : (N, D), the images searched, and the queries too where there are no others
    labels : (N,) integers
    names : of metrics
    query : (embeddings (Q, D), labels (Q,)), a separate query set: nothing is excluded, R counts the gallery's images

    Returns
    -------
    name -> mean over the queries that have a positive

    Raises
    ------
    UsageError
        For wrong shapes, an unknown name, no class with two images, only one class.
    DivergedError
        For NaN or infinite values.

    >>> embeddings, labels = [[0.0], [1.0], [3.0], [4.5]], [0, 0, 1, 1]
    >>> retrieval_scores(embeddings, labels, ["precision_at_1", "map_at_r"])
    {'precision_at_1': 1.0, 'map_at_r': 1.0}
    >>> retrieval_scores([[0.0], [0.0], [0.0], [0.0]], labels, ["precision_at_1", "recall_at_2"])
    {'precision_at_1': 0.3333333333333333, 'recall_at_2': 0.6666666666666666}
    """
    return mean_scores(euclidean_rankings, as_embeddings(embeddings), labels, names, query)


def is_retrieval(name: str) -> bool:
    """Tell whether it is the name of a retrieval metric; recall_at_{k} is one for every k >= 1."""
    return name in NAMES or RECALL.fullmatch(str(name)) is not None


def count_excluded(labels, query_labels=None) -> int:
    """Count the queries without a positive, which have no score: images alone in their class.

    With a separate query set, the queries whose class is not in the gallery (labels). Raises UsageError for labels that
    are no integers.

    >>> count_excluded([0, 0, 1, 2, 2])
    1
    """
    labels = as_classes(labels)
    if query_labels is None:
        return int((_class_sizes(labels, labels) == 1).sum())
    return int((_class_sizes(as_classes(query_labels, "query labels").to(labels), labels) == 0).sum())


class ClassScores(NamedTuple):
    """Retrieval metrics of each class of the queries; see `per_class`."""

    classes: np.ndarray  # (C,) int64, the labels, ascending
    queries: np.ndarray  # (C,) int64, how many queries of the class have a score
    scores: dict[str, np.ndarray]  # name -> (C,) float64, the mean over these queries; NaN where there are none


def per_class(embeddings, labels, names: Iterable[str] = ("map_at_r", "precision_at_1"), query=None) -> ClassScores:
    """Score as `retrieval_scores`, class by class: one search, and the mean over the queries of each class.

    A class has queries if it has two images (with a separate query set: if the gallery holds one), else its scores are
    NaN. The mean of the others, weighted by `queries`, is what `retrieval_scores` gives, so nobody needs a second
    search for it.

    Parameters
    ----------
    embeddings, labels, names, query : as in `retrieval_scores`, errors too

    Returns
    -------
    ClassScores, with a row a class

    References
    ----------
    Musgrave et al. 2020, section 3.3, for map_at_r and r_precision; the mean within a class is ours.

    >>> result = per_class([[0.0], [1.0], [3.0], [7.0], [8.0], [50.0]], [4, 4, 4, 2, 2, 3], ["precision_at_1"])
    >>> result.classes.tolist(), result.queries.tolist(), result.scores["precision_at_1"].tolist()
    ([2, 3, 4], [2, 0, 3], [1.0, nan, 1.0])
    """
    embeddings = as_embeddings(embeddings)
    scores, asked = query_scores(euclidean_rankings, embeddings, labels, names, query)
    every = as_classes(labels if query is None else as_query(query)[1]).to(asked)
    classes, place = torch.cat([every, asked]).unique(return_inverse=True)
    place = place[len(every) :]  # (Q,)
    queries = torch.bincount(place, minlength=len(classes))
    # sums in one order on a GPU too, which bincount's are not
    means = {
        name: values.new_zeros(len(classes)).index_add(0, place, values) / queries for name, values in scores.items()
    }
    return ClassScores(
        classes.cpu().numpy(), queries.cpu().numpy(), {name: mean.cpu().numpy() for name, mean in means.items()}
    )


def mean_scores(rankings: Callable, references: Tensor, labels, names: Iterable[str], query=None) -> dict[str, float]:
    """Score as `retrieval_scores` by any distance: rankings as `euclidean_rankings`; references: (N, D), checked."""
    scores, _ = query_scores(rankings, references, labels, names, query)
    return {name: float(values.mean()) for name, values in scores.items()}


def query_scores(
    rankings: Callable, references: Tensor, labels, names: Iterable[str], query=None
) -> tuple[dict[str, Tensor], Tensor]:
    """Score each query that has a positive: name -> (Q,) float64, and these queries' labels (Q,)."""
    names = as_names(names)
    if not names:
        raise UsageError(f"names is empty: give at least one metric, such as {NAMES[0]!r}")
    labels = as_labels(labels, references)
    if query is None:
        queries, query_labels, own = references, labels, torch.arange(len(labels), device=labels.device)
    else:
        queries, query_labels = as_query(query)
        queries = as_embeddings(queries, "query embeddings").to(references)
        query_labels, own = as_labels(query_labels, queries, "query labels"), None
    if queries.shape[1] != references.shape[1]:
        raise UsageError(f"query embeddings are {queries.shape[1]}-dimensional, the gallery's {references.shape[1]}")
    sizes = _class_sizes(query_labels, labels)  # (Q,)
    positives = sizes if own is None else sizes - 1  # (Q,), R of each query
    asked = positives > 0
    if query is None:
        require_pairs(labels)
    elif not asked.any() or (labels == labels[0]).all():
        raise UsageError("the gallery must hold at least two classes, and at least one class of the queries")
    queries, query_labels, sizes, positives = queries[asked], query_labels[asked], sizes[asked], positives[asked]
    own = None if own is None else own[asked]
    cutoffs = [_cutoff(name, positives, sizes) for name in names]  # each (Q,)
    most = len(labels) - (own is not None)
    needed = torch.stack(cutoffs).amax(dim=0).clamp(max=most)  # (Q,)
    scores = torch.empty(len(names), len(queries), dtype=torch.float64, device=labels.device)
    for rows, ranking in rankings(queries, query_labels, references, labels, own, needed):
        for name, cutoff, score in zip(names, cutoffs, scores, strict=True):
            score[rows] = _score(name, ranking, cutoff[rows].clamp(max=most), positives[rows])
    return dict(zip(names, scores, strict=True)), query_labels


def euclidean_rankings(
    queries: Tensor, query_labels: Tensor, references: Tensor, labels: Tensor, own: Tensor | None, needed: Tensor
) -> Iterator[tuple[Tensor, Ranking]]:
    """Yield (rows, their Ranking of K >= max(needed) places) until every query had its turn.

    queries: (Q, D), query_labels: (Q,), references: (N, D), labels: (N,), own: (Q,) the column of each query among the
    references, or None if they are separate. needed: (Q,) how many places of each query count; the others may be wrong.

    float32 ranks first. Neighbours of different relevance that lie closer together than float32 can tell are ranked
    again by their distances in float64, and with all references where such a run goes on behind the last neighbour
    found. So the ranking is that of float64, at the price of float32, and depends neither on the blocks, nor on the
    device, nor on the order of the rows.
    """
    depth = int(needed.max())
    count = min(depth + depth // 8 + RESERVE, len(labels))
    origin = references.double().mean(dim=0)  # distances do not depend on it, their rounding errors do
    points, batches = ((vectors.double() - origin).float() for vectors in (references, queries))
    norms, unknown = squared_norms(batches), []
    for rows, near, columns in nearest(batches, points, count, own):
        positive = labels[columns] == query_labels[rows, None]
        close = near.diff(dim=1) <= rounding_error(near[:, :-1], norms[rows], points.shape[1])
        unsure = (close & (positive[:, 1:] != positive[:, :-1])).any(dim=1)
        if count < len(labels):
            unsure |= close[:, -1]
        yield rows[~unsure], _untied_ranking(positive[~unsure, :depth])
        rows, near, columns, positive = (every[unsure] for every in (rows, near, columns, positive))
        group = _groups(close[unsure])  # (B, K), runs of places that float32 cannot tell apart
        counts = group <= group.gather(1, needed[rows, None] - 1)  # runs that begin within the places that count
        beyond = counts[:, -1] & (count < len(labels))
        unknown.append(rows[beyond])
        sizes, hits = _tally(group, positive)
        again = counts & (hits > 0) & (hits < sizes) & ~beyond[:, None]
        row, place = again.nonzero(as_tuple=True)
        exact = near.double()
        exact[row, place] = _exact_distances(queries, references, rows[row], columns[row, place])
        exact, order = exact[~beyond].sort(dim=1)
        rows, positive = rows[~beyond], positive[~beyond].gather(1, order)
        tied = exact.diff(dim=1) <= _tie_width(exact[:, :-1], norms[rows])
        split = (tied & (positive[:, 1:] != positive[:, :-1])).any(dim=1)
        yield rows[~split], _untied_ranking(positive[~split, :depth])
        group, positive = _groups(tied[split]), positive[split]
        yield rows[split], Ranking(*(part[:, :depth] for part in _expected(group, *_tally(group, positive))))
    unknown = torch.cat(unknown)
    if not len(unknown):
        return
    points = references.double() - origin
    norms = squared_norms(points)
    for block in blocks(len(unknown), len(references), unknown.device):
        rows = unknown[block]
        batch = queries[rows].double() - origin
        distances = exclude(squared_euclidean(batch, points, norms), own, rows)
        yield rows, tied_ranking(distances, labels == query_labels[rows, None], depth, squared_norms(batch))


def tied_ranking(distances: Tensor, positive: Tensor, depth: int, query_norms: Tensor) -> Ranking:
    """The expected first `depth` places, over all orders of the tied references.

    distances: (B, N), inf for what is excluded; positive: (B, N) bool; query_norms: (B,) squared, for the tie's width.
    """
    near, columns = smallest(distances, depth)  # (B, K)
    width = _tie_width(near, query_norms)
    group = _groups(near.diff(dim=1) <= width[:, 1:])
    sizes, hits = _tally(group, positive.gather(1, columns))
    reached = distances <= (near + width)[:, -1:]  # (B, N): the last group may go on behind the last place
    last = group == group[:, -1:]
    before = (~last).sum(dim=1, keepdim=True), (positive.gather(1, columns) & ~last).sum(dim=1, keepdim=True)
    sizes = torch.where(last, reached.sum(1, keepdim=True) - before[0], sizes)
    hits = torch.where(last, (reached & positive).sum(1, keepdim=True) - before[1], hits)
    return _expected(group, sizes, hits)


def _expected(group: Tensor, sizes: Tensor, hits: Tensor) -> Ranking:
    """The Ranking of groups of tied items; all (B, K): the group of a place, its items and its positives.

    A group of n tied items with p positives fills n places; at each of them stands a positive with chance p / n, and
    then each other place of the group holds one with chance (p - 1) / (n - 1).
    """
    n, p = sizes.double(), hits.double()
    places = torch.arange(group.shape[1], device=group.device).expand_as(group)
    first = torch.ones_like(group, dtype=torch.bool)
    first[:, 1:] = group.diff(dim=1) > 0
    start = torch.where(first, places, 0).cummax(dim=1).values
    drawn = (places - start).double()  # places of the group before this one
    before = torch.where(first, p, 0).cumsum(dim=1) - p  # positives before the group
    also = drawn * (p - 1) / (n - 1).clamp(min=1)  # positives on the group's earlier places, if this is one
    miss = (1 - p / (n - drawn)).clamp(min=0).cumprod(dim=1)  # a miss at each place, given misses so far
    return Ranking(hit=p / n, precision=p / n * (before + also + 1) / (places + 1), miss=miss)


def _untied_ranking(positive: Tensor) -> Ranking:
    """positive: (B, K) bool, the relevance of the first K neighbours."""
    hit = positive.double()
    hits = hit.cumsum(dim=1)
    place = torch.arange(1, positive.shape[1] + 1, dtype=torch.float64, device=positive.device)
    return Ranking(hit=hit, precision=hit * hits / place, miss=(hits == 0).double())


def _groups(joined: Tensor) -> Tensor:
    """Number the places, joined ones alike: (B, K - 1) joined to the one before -> (B, K) 0, 0, 1, 2, 2, ..."""
    return torch.nn.functional.pad((~joined).long(), (1, 0)).cumsum(dim=1)


def _tally(group: Tensor, positive: Tensor) -> tuple[Tensor, Tensor]:
    """Count items and positives of the group of each place: (B, K) group, (B, K) relevance -> (B, K) both"""
    sizes = torch.zeros_like(group).scatter_add_(1, group, torch.ones_like(group))
    hits = torch.zeros_like(group).scatter_add_(1, group, positive.long())
    return sizes.gather(1, group), hits.gather(1, group)


def _tie_width(distances: Tensor, query_norms: Tensor) -> Tensor:
    """Width within which the next squared distance ties: distances (B, K), query_norms (B,) -> (B, K)"""
    return TIE * (2 * query_norms[:, None].double() + distances.clamp(min=0))


def _exact_distances(queries: Tensor, references: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Squared distances of single pairs, in float64, from differences: rows, columns (M,) -> (M,)"""
    distances = [
        (queries[rows[part]].double() - references[columns[part]].double()).square_().sum(dim=1)
        for part in blocks(len(rows), references.shape[1], rows.device)
    ]
    return torch.cat(distances) if distances else queries.new_empty(0, dtype=torch.float64)


def _class_sizes(query_labels: Tensor, labels: Tensor) -> Tensor:
    """Count how many of `labels` (N,) are the query's label: (Q,) -> (Q,)."""
    values, counts = labels.unique(return_counts=True)
    place = torch.searchsorted(values, query_labels).clamp(max=len(values) - 1)
    return torch.where(values[place] == query_labels, counts[place], 0)


def _cutoff(name: str, positives: Tensor, sizes: Tensor) -> Tensor:
    """Number of neighbours of each query that this metric looks at; positives, sizes: (Q,) -> (Q,)"""
    if name in ("r_precision", "map_at_r"):
        return positives
    if name == "map_at_c":
        return sizes
    if name == "map_at_1000":
        return torch.full_like(positives, 1000)
    if name == "precision_at_1":
        return torch.ones_like(positives)
    if match := RECALL.fullmatch(str(name)):
        return torch.full_like(positives, int(match[1]))
    raise unknown("retrieval metric", name, NAMES)


def _score(name: str, ranking: Ranking, cutoff: Tensor, positives: Tensor) -> Tensor:
    """Score each query of a block by a metric: ranking (B, K), cutoff (B,) in 1..K, positives (B,) -> (B,)"""
    last = cutoff[:, None] - 1
    if name == "precision_at_1":
        return ranking.hit[:, 0]
    if name == "r_precision":
        return ranking.hit.cumsum(1).gather(1, last)[:, 0] / positives
    if name == "map_at_1000":
        positives = positives.clamp(max=1000)
    if name.startswith("map"):
        return ranking.precision.cumsum(1).gather(1, last)[:, 0] / positives
    return 1 - ranking.miss.gather(1, last)[:, 0]
