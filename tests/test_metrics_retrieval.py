"""Retrieval metrics against loops, hand-drawn cases, pytorch-metric-learning and the laws they must obey."""

import itertools

import numpy as np
import pytest

from hypothesis import given, settings
from hypothesis import strategies as st

from dmlrc.metrics.retrieval import count_excluded, evaluate

NAMES = ("precision_at_1", "recall_at_2", "recall_at_3", "r_precision", "map_at_r", "map_at_c", "map_at_1000")


def ranked_score(name, relevant, positives, size):
    """One query's metric from its ranking without ties (a list of 0 and 1), straight from the definition."""
    precision = [sum(relevant[: k + 1]) / (k + 1) for k in range(len(relevant))]
    average = lambda cutoff: sum(p * r for p, r in zip(precision[:cutoff], relevant[:cutoff]))
    if name.startswith("recall"):
        return float(any(relevant[: int(name.split("_")[-1])]))
    return {
        "precision_at_1": relevant[0],
        "r_precision": sum(relevant[:positives]) / positives,
        "map_at_r": average(positives) / positives,
        "map_at_c": average(size) / positives,
        "map_at_1000": average(1000) / min(positives, 1000),
    }[name]


def oracle(name, references, labels, queries=None, query_labels=None):
    """Loops over queries and over every order of the tied references (small integer coordinates: exact distances)."""
    own = queries is None
    queries, query_labels = (references, labels) if own else (queries, query_labels)
    scores = []
    for i, (query, label) in enumerate(zip(queries, query_labels)):
        others = [j for j in range(len(references)) if not (own and i == j)]
        positives = sum(labels[j] == label for j in others)
        if positives == 0:
            continue
        groups = {}
        for j in others:
            groups.setdefault(sum((a - b) ** 2 for a, b in zip(query, references[j])), []).append(j)
        orders = itertools.product(*(itertools.permutations(groups[d]) for d in sorted(groups)))
        rankings = [[int(labels[j] == label) for group in order for j in group] for order in orders]
        scores.append(np.mean([ranked_score(name, r, positives, positives + own) for r in rankings]))
    return float(np.mean(scores))


points = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 2)), min_size=2, max_size=7)


def split(points):
    return [point[:2] for point in points], [point[2] for point in points]


def rankable(labels, query_labels=None):
    if query_labels is None:
        return 1 < len(set(labels)) < len(labels)
    return len(set(labels)) > 1 and set(labels) & set(query_labels)


@settings(deadline=None, max_examples=150)
@given(points)
def test_equals_the_mean_over_all_orders_of_ties(points):
    embeddings, labels = split(points)
    if not rankable(labels):
        return
    ours = evaluate(np.array(embeddings, np.float32), np.array(labels), NAMES)
    for name in NAMES:
        assert ours[name] == pytest.approx(oracle(name, embeddings, labels), abs=1e-12), name


@settings(deadline=None, max_examples=100)
@given(points, points)
def test_separate_queries_equal_the_mean_over_all_orders_of_ties(gallery, queries):
    (embeddings, labels), (query, query_labels) = split(gallery), split(queries)
    if not rankable(labels, query_labels):
        return
    ours = evaluate(np.array(embeddings, np.float32), labels, NAMES, (np.array(query, np.float32), query_labels))
    for name in NAMES:
        assert ours[name] == pytest.approx(oracle(name, embeddings, labels, query, query_labels), abs=1e-12), name
