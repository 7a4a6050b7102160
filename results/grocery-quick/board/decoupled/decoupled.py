"""Decoupled contrastive loss, with labels: Yeh et al., ECCV 2022, equation 6, averaged over all positive pairs."""

from dmlrc.methods import Float

space = {"temperature": Float(1e-3, 10.0, log=True)}


def decoupled(embeddings, labels, temperature=0.1):  # (B, D) L2-normalised, (B,) -> scalar
    similarities = embeddings @ embeddings.T / temperature  # (B, B)
    same = labels[:, None] == labels[None]
    negatives = similarities.masked_fill(same, -1e9).logsumexp(1, keepdim=True)  # (B, 1), without the positive
    positives = same.clone().fill_diagonal_(False)
    return (negatives - similarities)[positives].mean() if positives.any() else similarities.sum() * 0
