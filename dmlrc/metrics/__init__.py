"""Metrics: pure functions of embeddings and labels."""

from dmlrc.metrics.retrieval import NAMES as RETRIEVAL
from dmlrc.metrics.retrieval import count_excluded, retrieval

RECALLS = tuple(f"recall_at_{k}" for k in (1, 2, 4, 8))


def evaluate(embeddings, labels, names=None, query=None, seed=0):
    names = RETRIEVAL + RECALLS if names is None else names
    return retrieval(embeddings, labels, names, query)
