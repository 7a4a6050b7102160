"""The losses of Roth et al. and Fehervari et al. as plain loops over the terms of their equations.

Independent of the library. embeddings x: (B, D) float64; labels: list of int. Scalars stay tensors, so the loops have
gradients too. Losses on mined tuples take the tuples as a list of positions.
"""

import math
from collections import Counter

import torch
from loss_oracles import _mean, _negatives, _positives, _zero


def _anchors(labels):
    return [i for i in range(len(labels)) if _positives(labels, i) and _negatives(labels, i)]


def _hinge(value):
    return value if value > 0 else value * 0


def _distance(a, b):
    square = ((a - b) ** 2).sum()
    return torch.sqrt(square) if square > 0 else square * 0


def _number(value):
    return float(value.detach()) if torch.is_tensor(value) else value


def _length(a):
    return torch.sqrt((a**2).sum())


def _pairs(labels):
    """The first two positions of each class."""
    where = {c: [i for i, label in enumerate(labels) if label == c] for c in sorted(set(labels))}
    return [(rows[0], rows[1]) for rows in where.values() if len(rows) > 1]


def mined_triplet(x, labels, triplets, margin):
    return _mean([_hinge(_distance(x[a], x[p]) ** 2 - _distance(x[a], x[n]) ** 2 + margin) for a, p, n in triplets], x)


def mined_contrastive(x, labels, triplets, pos_margin, neg_margin):
    pull = [_hinge(_distance(x[a], x[p]) - pos_margin) for a, p, n in triplets]
    push = [_hinge(neg_margin - _distance(x[a], x[n])) for a, p, n in triplets]
    return _mean(pull, x) + _mean(push, x)


def mined_margin(x, labels, triplets, beta, margin):
    hinges = []
    for a, p, n in triplets:
        hinges.append(_distance(x[a], x[p]) - beta[labels[a]] + margin)
        hinges.append(beta[labels[a]] - _distance(x[a], x[n]) + margin)
    return _mean([h for h in hinges if h > 0], x)


def mined_snr(x, labels, triplets, margin, regularizer_weight):
    def snr(anchor, other):
        return torch.var(anchor - other) / torch.var(anchor)

    hinges = [snr(x[a], x[p]) - snr(x[a], x[n]) + margin for a, p, n in triplets]
    penalty = _mean([x[a].sum().abs() for a, p, n in triplets], x)
    return _mean([h for h in hinges if h > 0], x) + regularizer_weight * penalty


def quadruplet(x, labels, quadruplets, margin, second_margin):
    """quadruplets: (a, p, n, m), m = -1 where there is none."""
    first = [_hinge(_distance(x[a], x[p]) - _distance(x[a], x[n]) + margin) for a, p, n, m in quadruplets]
    second = [
        _hinge(_distance(x[a], x[p]) - _distance(x[n], x[m]) + second_margin) for a, p, n, m in quadruplets if m >= 0
    ]
    return _mean(first, x) + _mean(second, x)


def lifted_structure(x, labels, neg_margin):
    terms = []
    for i in range(len(labels)):
        for j in _positives(labels, i):
            if j < i or not _negatives(labels, i):
                continue
            total = sum(torch.exp(neg_margin - _distance(x[i], x[k])) for k in _negatives(labels, i))
            total = total + sum(torch.exp(neg_margin - _distance(x[j], x[k])) for k in _negatives(labels, j))
            terms.append(_hinge(torch.log(total) + _distance(x[i], x[j])) ** 2)
    return _mean(terms, x) / 2


def generalized_lifted(x, labels, neg_margin, l2_weight):
    terms = []
    for i in _anchors(labels):
        pull = torch.log(sum(torch.exp(_distance(x[i], x[j])) for j in _positives(labels, i)))
        push = torch.log(sum(torch.exp(neg_margin - _distance(x[i], x[j])) for j in _negatives(labels, i)))
        terms.append(_hinge(pull + push))
    return _mean(terms, x) + l2_weight * _mean([_length(row) for row in x], x)


def n_pairs(x, labels, l2_weight):
    pairs = _pairs(labels)
    terms = [
        torch.log(1 + sum((torch.exp(x[a] @ x[q] - x[a] @ x[p]) for b, q in pairs if b != a), _zero(x)))
        for a, p in pairs
    ]
    return _mean(terms, x) + l2_weight * _mean([(x[a] ** 2).sum() + (x[p] ** 2).sum() for a, p in pairs], x)


def n_pairs_roth(x, labels, pairs, l2_weight):
    terms = [torch.log(1 + sum(torch.exp(x[a] @ x[n] - x[a] @ x[p]) for n in _negatives(labels, a))) for a, p in pairs]
    return _mean(terms, x) + l2_weight * _mean([_length(row) for row in x], x)


def _angle(a, p, n, alpha):
    tan2 = math.tan(math.radians(alpha)) ** 2
    return 4 * tan2 * (a + p) @ n - 2 * (1 + tan2) * a @ p


def angular(x, labels, alpha):
    terms = [
        torch.log(1 + sum(torch.exp(_angle(x[a], x[p], x[n], alpha)) for n in _negatives(labels, a)))
        for a in _anchors(labels)
        for p in _positives(labels, a)
    ]
    return _mean(terms, x)


def angular_fehervari(x, labels, alpha, l2_weight):
    pairs = _pairs(labels)
    terms = [
        torch.log(1 + sum((torch.exp(_angle(x[a], x[p], x[q], alpha)) for b, q in pairs if b != a), _zero(x)))
        for a, p in pairs
    ]
    return _mean(terms, x) + l2_weight * _mean([(x[a] ** 2).sum() + (x[p] ** 2).sum() for a, p in pairs], x)


def angular_roth(x, labels, pairs, alpha, angular_weight, l2_weight):
    unit = [row / _length(row) for row in x]
    terms = [
        torch.log(1 + sum(torch.exp(_angle(unit[a], unit[p], unit[n], alpha)) for n in _negatives(labels, a)))
        for a, p in pairs
    ]
    return n_pairs_roth(x, labels, pairs, l2_weight) + angular_weight * _mean(terms, x)


def histogram(x, labels, n_bins):
    width = 2 / n_bins

    def shares(pairs):
        nodes = []
        for r in range(n_bins + 1):
            node = -1 + r * width
            nodes.append(sum((_hinge(1 - abs(x[i] @ x[j] - node) / width) for i, j in pairs), _zero(x)) / len(pairs))
        return nodes

    pairs = [(i, j) for i in range(len(labels)) for j in range(i)]
    positive = [(i, j) for i, j in pairs if labels[i] == labels[j]]
    negative = [(i, j) for i, j in pairs if labels[i] != labels[j]]
    if not positive or not negative:
        return _zero(x)
    h_positive, h_negative = shares(positive), shares(negative)
    return sum(h_negative[r] * h_positive[q] for r in range(n_bins + 1) for q in range(r + 1))


def ranked_list(x, labels, margin, Tn, imbalance, alpha):
    total = _zero(x)
    for i in range(len(labels)):
        far = [_distance(x[i], x[j]) for j in _positives(labels, i)]
        far = [d - (alpha - margin) for d in far if d > alpha - margin]
        near = [_distance(x[i], x[j]) for j in _negatives(labels, i)]
        near = [alpha - d for d in near if d < alpha]
        weights = [torch.exp(Tn * gap) for gap in near]
        pull = _mean(far, x)
        push = sum(w * gap for w, gap in zip(weights, near, strict=True)) / sum(weights) if near else _zero(x)
        total = total + (1 - imbalance) * pull + imbalance * push
    return total / len(labels)


def prototypical(x, labels):
    support, queries = {}, []
    for c in set(labels):
        rows = [i for i, label in enumerate(labels) if label == c]
        half = len(rows) // 2
        if half:
            support[c] = sum(x[i] for i in rows[:half]) / half
            queries += rows[half:]
    terms = []
    for q in queries:
        likelihood = {c: torch.exp(-((x[q] - centre) ** 2).sum()) for c, centre in support.items()}
        terms.append(-torch.log(likelihood[labels[q]] / sum(likelihood.values())))
    return _mean(terms, x)


def proxy_triplet(x, labels, proxies, margin):
    terms = []
    for i, label in enumerate(labels):
        own = ((x[i] - proxies[label]) ** 2).sum()
        others = [((x[i] - proxy) ** 2).sum() for c, proxy in enumerate(proxies) if c != label]
        terms += [_hinge(own - other + margin) for other in others]
    return _mean(terms, x)


def proxy_nca_original(x, labels, proxies, softmax_scale):
    """Embeddings and proxies multiplied by the root of the scale, as the two papers write it."""
    multiplier = math.sqrt(softmax_scale)
    terms = []
    for i, label in enumerate(labels):
        d = [((multiplier * x[i] - multiplier * proxy) ** 2).sum() for proxy in proxies]
        others = sum(torch.exp(-d[c]) for c in range(len(proxies)) if c != label)
        terms.append(-torch.log(torch.exp(-d[label]) / others))
    return _mean(terms, x)


def sphereface(x, labels, weights, margin, scale):
    terms = []
    for i, label in enumerate(labels):
        cosines = [x[i] @ w / _length(x[i]) for w in weights]
        theta = torch.acos(cosines[label])
        k = math.floor(margin * _number(theta) / math.pi)
        cosines[label] = (-1) ** k * torch.cos(margin * theta) - 2 * k
        logits = torch.stack([scale * _length(x[i]) * c for c in cosines])
        terms.append(torch.log(torch.exp(logits).sum()) - logits[label])
    return _mean(terms, x)


def tuplet_margin(x, labels, margin, scale):
    terms = []
    for a in _anchors(labels):
        for p in _positives(labels, a):
            slack = torch.cos(torch.acos(x[a] @ x[p]) - math.radians(margin))
            terms.append(torch.log(1 + sum(torch.exp(scale * (x[a] @ x[n] - slack)) for n in _negatives(labels, a))))
    return _mean(terms, x)


def multi_similarity_roth(x, labels, alpha, beta, base, epsilon):
    terms = []
    for a in _anchors(labels):
        positive, negative = [x[a] @ x[p] for p in _positives(labels, a)], [x[a] @ x[n] for n in _negatives(labels, a)]
        hard_negative = [s for s in negative if s + epsilon > min(positive)]
        hard_positive = [s for s in positive if s - epsilon < max(negative)]
        if hard_positive and hard_negative:
            pull = torch.log(1 + sum(torch.exp(-alpha * (s - base)) for s in hard_positive)) / alpha
            push = torch.log(1 + sum(torch.exp(beta * (s - base)) for s in hard_negative)) / beta
            terms.append(pull + push)
    return _mean(terms, x)


# Structured clustering: d is a list of lists of numbers (or tensors), clusters and classes are lists of labels.


def mutual_information_distance(clusters, classes):
    """1 - I / sqrt(H H)."""

    def entropy(items):
        return -sum(n / len(items) * math.log(n / len(items)) for n in Counter(items).values())

    own, true = entropy(clusters), entropy(classes)
    if own == 0 or true == 0:
        return 0.0 if own == true else 1.0
    return 1 - (own + true - entropy(list(zip(clusters, classes, strict=True)))) / math.sqrt(own * true)


def clustering(d, medoids):
    """Each sample's nearest medoid, its own for a medoid; of equal ones the first chosen."""
    return [i if i in medoids else min(medoids, key=lambda j: _number(d[i][j])) for i in range(len(d))]


def facility_score(d, medoids):
    return -sum(min((d[i][j] for j in medoids), key=_number) for i in range(len(d)))


def augmented_score(d, classes, medoids, gamma):
    return facility_score(d, medoids) + gamma * mutual_information_distance(clustering(d, medoids), classes)


def true_score(d, classes):
    total = 0
    for c in set(classes):
        rows = [i for i in range(len(classes)) if classes[i] == c]
        total = total + max((-sum(d[i][j] for i in rows) for j in rows), key=_number)
    return total


def greedy_regrets(d, classes, medoids, gamma):
    """For each medoid in the order of choice: how much better the best candidate would have scored."""
    regrets = []
    for k in range(len(medoids)):
        chosen = medoids[:k]
        scores = {i: augmented_score(d, classes, [*chosen, i], gamma) for i in range(len(d)) if i not in chosen}
        regrets.append(max(scores.values()) - scores[medoids[k]])
    return regrets


def refinement_regrets(d, classes, before, after, gamma):
    """The same for one sweep over the clusters, from the medoids `before` to the medoids `after`."""
    clusters = [before.index(j) for j in clustering(d, before)]
    regrets = []
    for k in range(len(before)):
        members = [i for i in range(len(d)) if clusters[i] == k]
        scores = {}
        for i in members:
            proposal = [*after[:k], i, *before[k + 1 :]]
            local = -sum(d[j][i] for j in members)
            scores[i] = local + gamma * mutual_information_distance(clustering(d, proposal), classes)
        regrets.append(max(scores.values()) - scores[after[k]])
    return regrets


def structured_clustering(x, labels, medoids, gamma):
    d = [[_distance(a, b) for b in x] for a in x]
    return _hinge(augmented_score(d, labels, medoids, gamma) - true_score(d, labels))
