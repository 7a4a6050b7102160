"""Binary embeddings: one bit a dimension, searched by Hamming distance (Zhai and Wu 2019)."""

import torch
from torch import Tensor

from dmlrc.metrics import retrieval
from dmlrc.metrics.inputs import as_embeddings, as_query


def evaluate_binary(embeddings, labels, names=retrieval.NAMES, query=None) -> dict[str, float]:
    """Score as `retrieval_scores` with the signs of the embeddings, ranked by Hamming distance.

    It is not the accuracy of a network trained for binary codes, only of its thresholded output. Ties, of which there
    are many (D + 1 distances for all images), are treated as there.

    Parameters
    ----------
    embeddings, labels, names, query : as in `retrieval_scores`, errors too

    Returns
    -------
    metric name -> value

    References
    ----------
    Zhai & Wu 2019, who report recall of thresholded embeddings too; the metrics as in `retrieval_scores`.

    >>> from dmlrc.metrics import evaluate_binary
    >>> evaluate_binary([[3.0, 1.0], [0.1, 9.0], [-1.0, 1.0], [-1.0, 2.0]], [0, 0, 1, 1], ["map_at_r"])
    {'map_at_r': 1.0}
    """
    if query is not None:
        queries, query_labels = as_query(query)
        query = _signs(as_embeddings(queries, "query embeddings")), query_labels
    return retrieval.retrieval_scores(_signs(as_embeddings(embeddings)), labels, names, query)


def _signs(embeddings: Tensor) -> Tensor:
    """+1 where a coordinate is above 0, else -1: a squared distance is 4 times the number of bits that differ."""
    return torch.where(embeddings > 0, 1.0, -1.0)
