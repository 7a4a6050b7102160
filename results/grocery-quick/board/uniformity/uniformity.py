"""Alignment and uniformity: Wang and Isola, ICML 2020, equations 3 and 4."""

from dmlrc.methods import Float

space = {"weight": Float(0.01, 10.0, log=True), "t": Float(0.5, 10.0, log=True)}


def uniformity(embeddings, labels, weight=1.0, t=2.0):  # (B, D) L2-normalised, (B,) -> scalar
    distances = 2 - 2 * embeddings @ embeddings.T  # (B, B), squared
    positives = (labels[:, None] == labels[None]).triu(1)
    pairs = positives.new_ones(positives.shape).triu(1)
    alignment = distances[positives].mean() if positives.any() else 0 * distances.sum()
    return alignment + weight * (-t * distances[pairs]).exp().mean().log()
