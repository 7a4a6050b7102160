"""The Reality Check's losses as plain loops over the terms of their equations: slow, and independent of the library.

embeddings x: (B, D) unit rows, float64; labels: list of int. Scalars stay tensors, so the loops have gradients too.
Class weights are given as a list of unit vectors: one a class, for soft_triple a list of them a class.
"""

import math

import torch

# Labels of batches: usual ones, and every degenerate one.
LAYOUTS = {
    "6x4": [c for c in range(6) for _ in range(4)],
    "4x3": [c for c in range(4) for _ in range(3)],
    "uneven": [3, 0, 5, 0, 0, 1, 5, 0],
    "one class": [2, 2, 2, 2],
    "classes of one image": [4, 0, 3, 1],
    "one sample": [3],
}
LOOPED = [name for name in LAYOUTS if name != "6x4"]  # loops over its 1,440 triplets take most of the time


def _zero(x):
    return (x * 0).sum()


def _positives(labels, i):
    return [j for j in range(len(labels)) if j != i and labels[j] == labels[i]]


def _negatives(labels, i):
    return [j for j in range(len(labels)) if labels[j] != labels[i]]


def _mean(terms, x):
    return sum(terms) / len(terms) if terms else _zero(x)


def _euclidean(a, b):
    square = ((a - b) ** 2).sum()
    return torch.sqrt(square) if square > 0 else square * 0


def _distances(x):
    return [[_euclidean(a, b) for b in x] for a in x]


def _contrastive(x, labels, distance, pos_margin, neg_margin):
    pull, push = [], []
    for i in range(len(labels)):
        pull += [distance(x[i], x[j]) - pos_margin for j in _positives(labels, i)]
        push += [neg_margin - distance(x[i], x[j]) for j in _negatives(labels, i)]
    return _mean([t for t in pull if t > 0], x) + _mean([t for t in push if t > 0], x)


def contrastive(x, labels, pos_margin=0.0, neg_margin=1.0):
    return _contrastive(x, labels, _euclidean, pos_margin, neg_margin)


def snr(x, labels, pos_margin=0.0, neg_margin=1.0, regularizer_weight=0.0):
    def variance(v):
        return ((v - v.mean()) ** 2).mean()

    def noise_to_signal(anchor, other):
        return variance(anchor - other) / variance(anchor)

    penalty = sum(abs(sum(row)) for row in x) / len(x)
    return _contrastive(x, labels, noise_to_signal, pos_margin, neg_margin) + regularizer_weight * penalty


def _triplets(labels):
    return [(a, p, n) for a in range(len(labels)) for p in _positives(labels, a) for n in _negatives(labels, a)]


def triplet(x, labels, margin=0.05):
    d = _distances(x)
    terms = [d[a][p] - d[a][n] + margin for a, p, n in _triplets(labels)]
    return _mean([t for t in terms if t > 0], x)


def margin(x, labels, beta, margin=0.2):
    """beta: one boundary for each class, as a list of scalar tensors."""
    terms, d = [], _distances(x)
    for a, p, n in _triplets(labels):
        terms.append(d[a][p] - beta[labels[a]] + margin)
        terms.append(beta[labels[a]] - d[a][n] + margin)
    return _mean([t for t in terms if t > 0], x)


def ntxent(x, labels, temperature=0.07):
    terms = []
    for i in range(len(labels)):
        others = sum(torch.exp(x[i] @ x[k] / temperature) for k in _negatives(labels, i))
        for j in _positives(labels, i):
            own = torch.exp(x[i] @ x[j] / temperature)
            terms.append(-torch.log(own / (own + others)))
    return _mean(terms, x)


def _cross_entropy(logits, label):
    return -torch.log(torch.exp(logits[label]) / sum(torch.exp(logit) for logit in logits))


def proxy_nca(x, labels, proxies, softmax_scale=1.0):
    return _mean(
        [
            _cross_entropy([-softmax_scale * ((x[i] - p) ** 2).sum() for p in proxies], labels[i])
            for i in range(len(labels))
        ],
        x,
    )


def normalized_softmax(x, labels, weights, temperature=0.05):
    return _mean([_cross_entropy([x[i] @ w / temperature for w in weights], labels[i]) for i in range(len(labels))], x)


def cosface(x, labels, weights, margin=0.35, scale=64.0):
    terms = []
    for i in range(len(labels)):
        logits = [scale * (x[i] @ w) for w in weights]
        logits[labels[i]] = scale * (x[i] @ weights[labels[i]] - margin)
        terms.append(_cross_entropy(logits, labels[i]))
    return _mean(terms, x)


def arcface(x, labels, weights, margin=28.6, scale=64.0):
    m = margin / 180 * math.pi
    terms = []
    for i in range(len(labels)):
        logits = [scale * (x[i] @ w) for w in weights]
        angle = torch.acos(x[i] @ weights[labels[i]])
        own = torch.cos(angle + m) if angle + m <= math.pi else torch.cos(angle) - m * math.sin(m)
        logits[labels[i]] = scale * own
        terms.append(_cross_entropy(logits, labels[i]))
    return _mean(terms, x)


def fast_ap(x, labels, num_bins=10):
    width = 4 / num_bins
    terms = []
    for i in range(len(labels)):
        positives = _positives(labels, i)
        if not positives:
            continue
        average_precision, positives_so_far, all_so_far = 0, 0, 0
        for centre in (width * b for b in range(num_bins + 1)):
            in_bin = 0
            for j in positives + _negatives(labels, i):
                share = 1 - abs(((x[i] - x[j]) ** 2).sum() - centre) / width
                if share > 0:
                    all_so_far = all_so_far + share
                    in_bin = in_bin + share if j in positives else in_bin
            positives_so_far = positives_so_far + in_bin
            if all_so_far > 0:
                average_precision = average_precision + in_bin * positives_so_far / all_so_far
        terms.append(1 - average_precision / len(positives))
    return _mean(terms, x)


def multi_similarity(x, labels, alpha=2.0, beta=50.0, base=0.5, epsilon=None):
    """With epsilon, over the pairs of the miner; without, over all pairs."""
    total = _zero(x)
    for i in range(len(labels)):
        positives = {j: x[i] @ x[j] for j in _positives(labels, i)}
        negatives = {j: x[i] @ x[j] for j in _negatives(labels, i)}
        if epsilon is not None:
            least, most = min(positives.values(), default=math.inf), max(negatives.values(), default=-math.inf)
            positives = {j: s for j, s in positives.items() if s - epsilon < most}
            negatives = {j: s for j, s in negatives.items() if s + epsilon > least}
        if positives:
            total = total + torch.log(1 + sum(torch.exp(-alpha * (s - base)) for s in positives.values())) / alpha
        if negatives:
            total = total + torch.log(1 + sum(torch.exp(beta * (s - base)) for s in negatives.values())) / beta
    return total / len(labels)


def soft_triple(x, labels, centers, la=20.0, gamma=0.1, reg_weight=0.0, margin=0.01):
    terms = []
    for i in range(len(labels)):
        logits = []
        for c, of_class in enumerate(centers):
            similarities = [x[i] @ w for w in of_class]
            weights = [torch.exp(s / gamma) for s in similarities]
            similarity = sum(w * s for w, s in zip(weights, similarities, strict=True)) / sum(weights)
            logits.append(la * (similarity - margin if c == labels[i] else similarity))
        terms.append(_cross_entropy(logits, labels[i]))
    K = len(centers[0])
    spread = sum(
        torch.sqrt(2 - 2 * of_class[k] @ of_class[m]) for of_class in centers for k in range(K) for m in range(k + 1, K)
    )
    if K > 1:
        return _mean(terms, x) + reg_weight * spread / (len(centers) * K * (K - 1))
    return _mean(terms, x)
