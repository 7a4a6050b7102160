"""Metrics: pure functions of embeddings and labels.

One module a kind: retrieval (what the neighbours hold), clustering (k-means), histograms (all pairs), spectrum and
density (the shape of the embedding space), binary (Hamming search). `evaluate` computes any of them by name.
"""

from collections.abc import Iterable

from dmlrc.errors import unknown
from dmlrc.metrics import clustering, density, histograms, retrieval, spectrum
from dmlrc.metrics.binary import evaluate_binary as evaluate_binary
from dmlrc.metrics.inputs import as_embeddings, as_labels, as_names, as_query
from dmlrc.metrics.inputs import out_of_range as out_of_range
from dmlrc.metrics.retrieval import per_class as per_class

_WHOLE_SET = {
    clustering.NAMES: clustering.clustering_scores,
    ("jsd",): lambda embeddings, labels, seed: {"jsd": histograms.jsd(embeddings, labels)},
    ("rho",): lambda embeddings, labels, seed: {"rho": spectrum.rho(embeddings)},
    ("pi_intra", "pi_inter", "pi_ratio"): lambda embeddings, labels, seed: density.density_scores(embeddings, labels),
    ("mean_positive", "mean_negative"): lambda embeddings, labels, seed: histograms.mean_inner_products(
        embeddings, labels
    ),
}
_NAMES = (*retrieval.NAMES, *(name for names in _WHOLE_SET for name in names), "num_excluded_queries")


def names() -> tuple[str, ...]:
    """List the metrics that `evaluate` computes if none are named; it knows recall_at_{k} for every other k too.

    Returns
    -------
    Names, in the order of the groups that `evaluate` explains
    """
    return _NAMES


def evaluate(embeddings, labels, names: Iterable[str] | None = None, query=None, seed: int = 0) -> dict[str, float]:
    """Score an embedding: metric name -> value, in the order of names.

    Retrieval (`retrieval_scores`): precision_at_1, recall_at_{k}, r_precision, map_at_r, map_at_c, map_at_1000. A query
    is excluded from its own neighbours by index; ties get their expected value; images alone in their class are no
    queries, and num_excluded_queries says how many they are. Clustering (`clustering_scores`): nmi, f1. All pairs (see
    `histograms`): jsd, mean_positive, mean_negative. Shape: rho (`spectrum`); pi_intra, pi_inter, pi_ratio (`density`).

    Parameters
    ----------
    embeddings : (N, D), numpy or torch, CPU or CUDA, normalised or not: nothing is normalised here
    labels : (N,) integers of any value
    names : the metrics; default `names()`, that is all
    query : (embeddings (Q, D), labels (Q,)) of a separate query set
        embeddings and labels are then the gallery, and the metrics that know no queries describe the gallery alone.
    seed : of k-means; nothing else is random

    Returns
    -------
    metric name -> value: fractions of 1, but for counts, rho (nats), mean products (the square of the embeddings' unit)
        and distances (their unit)

    Raises
    ------
    UsageError
        For an unknown name, wrong shapes, a seed that is none, only one class or no class with two images.
    DivergedError
        For NaN or infinite values.

    References
    ----------
    Musgrave et al. 2020, section 3.3 (r_precision, map_at_r) and Eq. 7 (nmi); Roth et al. 2020 (f1, map_at_c,
    map_at_1000; section 5: rho and pi_...); Oi et al. 2021, sections 2 and 3 (jsd and mean_...).

    >>> evaluate([[0.0, 1.0], [0.0, 0.5], [1.0, 0.0], [0.5, 0.0]], [7, 7, 3, 3], names=("map_at_r", "pi_intra"))
    {'map_at_r': 1.0, 'pi_intra': 0.5}
    """
    wanted = _NAMES if names is None else as_names(names)
    for name in wanted:
        if name not in _NAMES and not retrieval.is_retrieval(name):
            raise unknown("metric", name, _NAMES)
    embeddings = as_embeddings(embeddings)
    labels = as_labels(labels, embeddings)
    scores = {}
    if ranked := [name for name in wanted if retrieval.is_retrieval(name)]:
        scores |= retrieval.retrieval_scores(embeddings, labels, ranked, query)
    if "num_excluded_queries" in wanted:
        asked = None if query is None else as_query(query)[1]
        scores["num_excluded_queries"] = float(retrieval.count_excluded(labels, asked))
    for group, compute in _WHOLE_SET.items():
        if set(group) & set(wanted):
            scores |= compute(embeddings, labels, seed)
    return {name: scores[name] for name in wanted}
