"""Binary embeddings: one bit a dimension, searched by Hamming distance (Zhai and Wu 2019)."""

from collections.abc import Iterator

import torch
from torch import Tensor

from dmlrc.metrics import retrieval
from dmlrc.metrics.inputs import as_embeddings
from dmlrc.metrics.neighbours import blocks, exclude, inner_products


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
    return retrieval.mean_scores(_rankings, as_embeddings(embeddings), labels, names, query)


def _rankings(
    queries: Tensor, query_labels: Tensor, references: Tensor, labels: Tensor, own: Tensor | None, needed: Tensor
) -> Iterator[tuple[Tensor, retrieval.Ranking]]:
    """Rank as `retrieval.euclidean_rankings`; whole numbers need no second look."""
    signs, reference_signs = _signs(queries), _signs(references)
    for block in blocks(len(queries), len(references), queries.device):
        rows = torch.arange(block.start, block.stop, device=labels.device)
        distances = exclude(_distances(signs[rows], reference_signs), own, rows)
        no_width = torch.zeros(len(rows), device=labels.device)
        yield rows, retrieval.tied_ranking(distances, labels == query_labels[rows, None], int(needed.max()), no_width)


def _signs(embeddings: Tensor) -> Tensor:
    """Bits of embeddings (N, D) as float32: +1 where a coordinate is above 0, else -1."""
    return (embeddings > 0).float().mul_(2).sub_(1)


def _distances(signs: Tensor, reference_signs: Tensor) -> Tensor:
    """Signs (B, D), (N, D) -> (B, N). A matrix product, which is as fast as counting bits: products of signs are
    whole numbers up to D, exact in float32."""
    return inner_products(signs, reference_signs).neg_().add_(signs.shape[1]).div_(2)
