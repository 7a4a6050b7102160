"""Findings about metrics: what evaluation code does in the cases that its authors did not think of.

The faulty behaviours are restated here as short functions, so that right and wrong stand side by side. Everything is
computed on made embeddings whose truth is known; accuracies are fractions.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from sklearn.metrics import normalized_mutual_info_score

from dmlrc import metrics
from dmlrc.records import StudyRecords
from dmlrc.report import published, tables, untrained


def clustered(
    classes: int, images: int, dim: int = 32, spread: float = 0.2, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """An embedding of Gaussian classes on the unit sphere, rows sorted by class: (classes * images, dim), labels.

    spread: standard deviation of every coordinate around the class's centre, a random direction of length 1.
    """
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), images)
    centres = rng.standard_normal((classes, dim)) / np.sqrt(dim)
    return _normalized(centres[labels] + spread * rng.standard_normal((len(labels), dim))), labels


def _normalized(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _score(embeddings: np.ndarray, labels: np.ndarray, name: str) -> float:
    return metrics.evaluate(embeddings, labels, names=(name,))[name]


def hits_by_row_order(embeddings: np.ndarray, labels: np.ndarray, drop_first: bool = False) -> Iterator[np.ndarray]:
    """Yield for each query which neighbours are of its class, (N - 1,) bool, as naive evaluation code ranks them.

    Equal distances stay in the order of the rows. drop_first: the first neighbour is dropped, not the query.
    """
    squared = ((embeddings[:, None] - embeddings[None]) ** 2).sum(axis=2)  # exact: equal rows are at distance 0
    if not drop_first:
        np.fill_diagonal(squared, np.inf)
    order = np.argsort(squared, axis=1, kind="stable")
    for query, neighbours in enumerate(order[:, 1:] if drop_first else order[:, :-1]):
        yield labels[neighbours] == labels[query]


def summed_precision(hits: np.ndarray, depth: int) -> float:
    """Sum of Precision@k over the hits among the first `depth` places; not yet divided by anything."""
    hits = hits[:depth]
    return float(np.sum(hits * np.cumsum(hits) / np.arange(1, len(hits) + 1)))


def map_at_r_by_row_order(embeddings: np.ndarray, labels: np.ndarray, drop_first: bool = False) -> float:
    """MAP@R over the rankings of `hits_by_row_order`; every class needs two images."""
    positives = np.bincount(labels)[labels] - 1
    rankings = hits_by_row_order(embeddings, labels, drop_first)
    return float(np.mean([summed_precision(hits, r) / r for hits, r in zip(rankings, positives, strict=True)]))


def map_at_c_per_query(embeddings: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """mAP@C of each query as one public code counts it, (N,): the sum of precisions is divided by C, not by C - 1."""
    sizes = np.bincount(labels)[labels]
    rankings = hits_by_row_order(embeddings, labels)
    return np.array([summed_precision(hits, c) / c for hits, c in zip(rankings, sizes, strict=True)])


def ties(classes: int = 10, images: int = 10, orders: int = 10) -> pd.DataFrame:
    """MAP@R of embeddings with ties, as the signs of a good one have, under many orders of the rows, naive and ours."""
    rng = np.random.default_rng(0)
    good, labels = clustered(classes, images, dim=8)
    rows = {}
    for name, embeddings in {"collapsed": np.ones((len(labels), 1)), "8 bits": np.sign(good)}.items():
        permutations = [np.arange(len(labels)), *(rng.permutation(len(labels)) for _ in range(orders))]
        first, *naive = (map_at_r_by_row_order(embeddings[order], labels[order]) for order in permutations)
        ours = [_score(embeddings[order], labels[order], "map_at_r") for order in permutations]
        rows[name] = {"sorted": first, "lowest": min(naive), "highest": max(naive)}
        rows[name] |= {"ours_lowest": min(ours), "ours_highest": max(ours)}
    return pd.DataFrame.from_dict(rows, orient="index")


def duplicates(shares: Sequence[float] = (0.0, 0.1, 0.25, 0.5)) -> pd.DataFrame:
    """P@1 of an embedding in which a share of the images has an exact copy, of the same class or (right: 0) of another.

    naive: the first neighbour dropped; ours: the query left out by its index.
    """
    rng = np.random.default_rng(0)
    embeddings, labels = clustered(classes=10, images=20, spread=0.05)
    rows = []
    for copies in ("same class", "another class"):
        for share in shares:
            chosen = rng.permutation(len(labels))[: round(share * len(labels))]
            relabelled = labels[chosen] if copies == "same class" else (labels[chosen] + 1) % 10
            points, classes = np.concatenate([embeddings, embeddings[chosen]]), np.concatenate([labels, relabelled])
            naive = np.mean([hits[0] for hits in hits_by_row_order(points, classes, drop_first=True)])
            ours = _score(points, classes, "precision_at_1")
            rows.append({"copies": copies, "share": share, "naive": naive, "ours": ours})
    return pd.DataFrame(rows)


def singletons(counts: Sequence[int] = (0, 10, 50, 100)) -> pd.DataFrame:
    """P@1 of perfect embeddings with 100 images in classes of 5 and `counts` images alone in their class."""
    rows = []
    for count in counts:
        labels = np.concatenate([np.repeat(np.arange(20), 5), 20 + np.arange(count)])
        points = np.eye(20 + count)[labels]
        ours = metrics.evaluate(points, labels, names=("precision_at_1", "num_excluded_queries"))
        as_zero = np.mean([hits[0] for hits in hits_by_row_order(points, labels)])
        rows.append((count, count / len(labels), ours["precision_at_1"], int(ours["num_excluded_queries"]), as_zero))
    return pd.DataFrame(rows, columns=["alone", "share", "ours", "excluded", "as_zero"])


def perfect_map_at_c(sizes: Sequence[int] = (2, 3, 5, 10, 50)) -> pd.DataFrame:
    """mAP@C of a perfect embedding of 4 classes, by class size (the index)."""
    rows = {}
    for size in sizes:
        labels = np.repeat(np.arange(4), size)
        points = np.eye(4)[labels]
        coded = map_at_c_per_query(points, labels).mean()
        rows[size] = {"ours": _score(points, labels, "map_at_c"), "as_coded": coded, "formula": (size - 1) / size}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("images a class")


def number_of_classes(counts: Sequence[int] = (25, 50, 100, 200), draws: int = 3) -> pd.DataFrame:
    """An embedding of equally good classes scored on random parts of them: means over `draws`, by number of classes."""
    rng = np.random.default_rng(0)
    embeddings, labels = clustered(max(counts), images=10, spread=0.24)
    rows = {}
    for count in counts:
        scores = []
        for _ in range(draws if count < max(counts) else 1):
            part = np.isin(labels, rng.permutation(max(counts))[:count])
            names = ("precision_at_1", "r_precision", "map_at_r", "jsd")
            scores.append(metrics.evaluate(embeddings[part], labels[part], names=names))
        rows[count] = pd.DataFrame(scores).mean()
    return pd.DataFrame(rows).T.rename_axis("classes")


def validation_and_test(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """MAP@R in cross-validation and on the test half, means over the methods, and how many classes either has.

    Validation: of the Reality Check the best trial of its published searches (batch 32), of these studies the reruns.
    """
    traces = published.search_traces()
    best = traces[traces["batch_size"] == 32].groupby(["dataset", "method"])["best"].max()
    pairs = {name: _side_by_side(best[name], part) for name, part in published.musgrave_tables().items()}
    for records in edition:
        reruns = records.runs[records.runs["kind"] == "rerun"].groupby("method")["val_map_at_r"].mean()
        pairs[records.name] = _side_by_side(reruns, tables.accuracy(records))
    counts = tables.class_counts(edition)
    pairs = {name: pair for name, pair in pairs.items() if len(pair)}  # something has been retrained
    table = pd.DataFrame({name: pair.mean() for name, pair in pairs.items()}).T
    ratios = {name: (pair["validation"] / pair["test"]).mean() for name, pair in pairs.items()}
    return table.assign(ratio=pd.Series(ratios), validation_classes=counts["validate"], test_classes=counts["test"])


def _side_by_side(validation: pd.Series, results: pd.DataFrame) -> pd.DataFrame:
    """MAP@R by method, validation and test; results: `tables.accuracy` or a table of `published.musgrave_results`."""
    test = tables.by_method(results, setting="separated")["mean"]
    return pd.concat([validation, test], axis=1, join="inner", keys=["validation", "test"])


def random_nmi(layouts: Sequence[tuple[int, int]] = ((10, 100), (100, 10), (250, 4), (10_000, 4))) -> pd.DataFrame:
    """NMI where the clusters know nothing of the classes: rows classes x images a class.

    worst: `worst_clusters`, NaN for fewer classes than images; shuffled: clusters of equal size; kmeans: of random 64-d
    directions, NaN above 1,000 classes, which would take minutes; formula: 1 - log S / log C.
    """
    rng = np.random.default_rng(0)
    rows = []
    for classes, images in layouts:
        labels = np.repeat(np.arange(classes), images)
        worst = _nmi(labels, worst_clusters(classes, images)) if images <= classes else np.nan
        shuffled, few = _nmi(labels, rng.permutation(labels)), classes <= 1000
        kmeans = _score(_normalized(rng.standard_normal((len(labels), 64))), labels, "nmi") if few else np.nan
        rows.append((classes, images, worst, shuffled, kmeans, untrained.nmi_of_random(classes, images)))
    return pd.DataFrame(rows, columns=["classes", "images", "worst", "shuffled", "kmeans", "formula"])


def worst_clusters(classes: int, images: int) -> np.ndarray:
    """Clusters of images sorted by class, (classes * images,): each has `images` images, of as many classes."""
    which, image = np.divmod(np.arange(classes * images), images)
    return (which + image) % classes


def _nmi(labels: np.ndarray, clusters: np.ndarray) -> float:
    return float(normalized_mutual_info_score(labels, clusters, average_method="arithmetic"))


def kept_singular_values(dim: int = 32) -> pd.DataFrame:
    """rho of two made spectra, both with a largest value that stands out, by the singular values that are kept."""
    decaying, idle = 0.93 ** np.arange(dim), np.ones(dim)
    idle[-1] = 1e-5
    kept = {"all": slice(None), "paper": slice(1, None), "without_smallest": slice(-1), "without_both": slice(1, -1)}
    rows = {}
    for name, values in {"decaying": decaying, "one idle direction": idle}.items():
        values = np.concatenate([[3.0], values[1:]])
        rows[name] = {which: metrics.spectrum.spectral_decay(values[part]) for which, part in kept.items()}
    return pd.DataFrame.from_dict(rows, orient="index")


def ap_from_zero(positives: int = 3) -> pd.DataFrame:
    """AP@R of single rankings, the sum begun at k = 1 and, read in three ways, at k = 0.

    literal: with Precision@0 = 0/0; shifted: R + 1 neighbours, counted from 0; query: itself the 0th, a hit.
    """
    rankings = {"perfect": [1, 1, 1, 0, 0, 0], "second place wrong": [1, 0, 1, 1, 0, 0]}
    rankings["last hit at place R + 1"] = [1, 1, 0, 1, 0, 0]
    rows = {}
    for name, hits in rankings.items():
        hits = np.array(hits)
        gallery = np.arange(1.0, len(hits) + 1)[:, None]  # the query lies at 0, so these are the places
        ours = metrics.evaluate(gallery, hits, names=("map_at_r",), query=([[0.0]], [1]))
        shifted, query = summed_precision(hits, positives + 1), 1 + summed_precision(hits, positives)
        rows[name] = {"from_one": ours["map_at_r"], "literal": np.nan}
        rows[name] |= {"shifted": shifted / positives, "query": query / positives}
    return pd.DataFrame.from_dict(rows, orient="index")
