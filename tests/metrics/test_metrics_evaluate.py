"""`metrics.evaluate`: names, order, what a query set changes, and errors."""

import numpy as np
import pytest
import torch

from dmlrc import metrics
from dmlrc.errors import DivergedError, UsageError


def embedding(n=80, dim=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dim)).astype(np.float32), rng.integers(5, size=n)


def test_all_metrics_by_default():
    embeddings, labels = embedding()
    scores = metrics.evaluate(embeddings, labels)
    assert tuple(scores) == metrics.names()
    assert all(isinstance(value, float) and np.isfinite(value) for value in scores.values())
    assert {
        *("precision_at_1", "recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "r_precision", "map_at_r"),
        *("map_at_c", "map_at_1000", "nmi", "f1", "jsd", "rho", "pi_intra", "pi_inter", "pi_ratio"),
        *("mean_positive", "mean_negative"),
    } < set(scores)


@pytest.mark.parametrize(
    "name", ["recall_at_16", "map_at_1000", "nmi", "f1", "jsd", "rho", "pi_ratio", "mean_negative"]
)
def test_each_metric_alone_is_the_same(name):
    embeddings, labels = embedding()
    together = metrics.evaluate(embeddings, labels, (*metrics.names(), "recall_at_16"))
    assert metrics.evaluate(torch.from_numpy(embeddings), torch.from_numpy(labels), [name]) == {name: together[name]}


def test_names_keep_their_order_and_may_be_none_at_all():
    embeddings, labels = embedding()
    assert list(metrics.evaluate(embeddings, labels, ("rho", "map_at_r", "nmi"))) == ["rho", "map_at_r", "nmi"]
    assert metrics.evaluate(embeddings, labels, ()) == {}


def test_a_query_set_changes_retrieval_only():
    gallery, labels = embedding()
    alone, asked = metrics.evaluate(gallery, labels), metrics.evaluate(gallery, labels, query=(gallery, labels))
    changed = {name for name in alone if alone[name] != asked[name]}
    assert changed == set(metrics.retrieval.NAMES)


def test_excluded_queries_are_counted():
    embeddings, labels = embedding()
    labels[:3] = [100, 101, 102]
    assert metrics.evaluate(embeddings, labels, ("num_excluded_queries",)) == {"num_excluded_queries": 3.0}
    query = (embeddings[:4], [100, 0, 999, 998])
    assert metrics.evaluate(embeddings, labels, ("num_excluded_queries",), query) == {"num_excluded_queries": 2.0}


def test_unknown_metric():
    with pytest.raises(UsageError, match="unknown metric 'map_at_rr': did you mean 'map_at_r'"):
        metrics.evaluate(*embedding(), names=("map_at_rr",))
    with pytest.raises(UsageError, match=r"names=\('nmi',\)"):
        metrics.evaluate(*embedding(), names="nmi")
    for function in (metrics.per_class, metrics.evaluate_binary):
        with pytest.raises(UsageError, match="names is empty: give at least one metric"):
            function(*embedding(), names=[])


EMBEDDINGS, LABELS = embedding()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"query": (EMBEDDINGS,)}, r"a query set is a pair: write query=\(embeddings, labels\)"),
        ({"query": (EMBEDDINGS,), "names": ("num_excluded_queries",)}, "a query set is a pair"),
        ({"query": 3, "names": ("map_at_r",)}, "a query set is a pair"),
        ({"query": (EMBEDDINGS, LABELS / 2), "names": ("num_excluded_queries",)}, "query labels must be integers"),
        ({"names": (3,)}, "unknown metric 3: known are f1, jsd"),
        ({"names": 3}, r"names is a sequence of metrics: write names=\(3,\)"),
        ({"names": ("recall_at_99999999999999999999",)}, "unknown metric 'recall_at_9+': known are "),
        ({"names": ("nmi",), "seed": -1}, "the seed of k-means is -1: give a whole number from 0"),
        ({"names": ("f1",), "seed": 0.5}, "the seed of k-means is 0.5"),
    ],
)
def test_mistakes_are_one_sentence(given, says):
    with pytest.raises(UsageError, match=says):
        metrics.evaluate(EMBEDDINGS, LABELS, **given)


def test_mistakes_of_the_parts_are_too():
    for function in (metrics.retrieval.retrieval_scores, metrics.per_class, metrics.evaluate_binary):
        with pytest.raises(UsageError, match="unknown retrieval metric 3"):
            function(EMBEDDINGS, LABELS, names=(3,))
        with pytest.raises(UsageError, match=r"names is a sequence of metrics: write names=\('map_at_r',\)"):
            function(EMBEDDINGS, LABELS, names="map_at_r")
        with pytest.raises(UsageError, match="a query set is a pair"):
            function(EMBEDDINGS, LABELS, query=(EMBEDDINGS,))
    for labels in ((LABELS / 2, None), (LABELS, LABELS / 2)):
        with pytest.raises(UsageError, match="labels must be integers"):
            metrics.retrieval.count_excluded(*labels)
    assert metrics.retrieval.count_excluded(np.uint8([1, 1]), np.int64([257])) == 1
    for bins in (2.5, 0, "4", None):
        with pytest.raises(UsageError, match="the number of bins must be a whole number, 1 or more, not "):
            metrics.histograms.pair_histograms(EMBEDDINGS, LABELS, bins=bins)


@pytest.mark.parametrize("name", ["map_at_r", "nmi", "jsd", "rho"])  # a metric of every module
def test_bad_embeddings(name):
    embeddings, labels = embedding()
    with pytest.raises(UsageError, match="shape"):
        metrics.evaluate(embeddings[0], labels, (name,))
    with pytest.raises(UsageError, match="shape"):
        metrics.evaluate(embeddings, labels[1:], (name,))
    embeddings[5, 2] = np.nan
    with pytest.raises(DivergedError, match="1 of 80 embeddings"):
        metrics.evaluate(embeddings, labels, (name,))


def test_one_dimension_and_a_collapse_give_numbers():
    """What has no value is NaN or infinite, and only that."""
    labels = np.repeat([0, 1, 2], 4)
    line = metrics.evaluate(np.arange(12.0)[:, None], labels)
    assert {name for name, value in line.items() if not np.isfinite(value)} == {"rho"}
    collapsed = metrics.evaluate(np.ones((12, 4)), labels)
    assert {name for name, value in collapsed.items() if not np.isfinite(value)} == {"rho", "pi_ratio"}


@pytest.mark.gpu
def test_cuda_equals_cpu():
    embeddings, labels = embedding(n=500, dim=64)
    ours = metrics.evaluate(torch.from_numpy(embeddings).cuda(), torch.from_numpy(labels).cuda())
    assert ours == pytest.approx(metrics.evaluate(embeddings, labels), rel=1e-5)
