"""The losses after 2019 as plain loops over the terms of their equations: slow, and independent of the library.

x: (B, D) unit rows, float64; labels: list of int; proxies: list of unit vectors, one a class. As in `loss_oracles`.
"""

import math

import torch
from loss_oracles import _mean, _negatives, _positives, _zero, proxy_nca

proxy_nca_pp = proxy_nca


def proxy_anchor(x, labels, proxies, margin=0.1, alpha=32.0):
    present = sorted(set(labels))
    pull, push = _zero(x), _zero(x)
    for c, proxy in enumerate(proxies):
        own, others = 1, 1
        for i, label in enumerate(labels):
            if label == c:
                own = own + torch.exp(-alpha * (x[i] @ proxy - margin))
            else:
                others = others + torch.exp(alpha * (x[i] @ proxy + margin))
        if c in present:
            pull = pull + torch.log(own)
        if set(labels) - {c}:
            push = push + torch.log(others)
    return pull / len(present) + push / len(proxies)


def circle(x, labels, m=0.4, gamma=80.0):
    terms = []
    for i in range(len(labels)):
        if not (_positives(labels, i) and _negatives(labels, i)):
            continue
        positives, negatives = 0, 0
        for p in _positives(labels, i):
            s = x[i] @ x[p]
            positives = positives + torch.exp(-gamma * max(1 + m - s.item(), 0) * (s - (1 - m)))
        for n in _negatives(labels, i):
            s = x[i] @ x[n]
            negatives = negatives + torch.exp(gamma * max(s.item() + m, 0) * (s - m))
        terms.append(torch.log(1 + negatives * positives))
    return _mean(terms, x)


def supcon(x, labels, temperature=0.1):
    terms = []
    for i in range(len(labels)):
        others = sum((torch.exp(x[i] @ x[a] / temperature) for a in range(len(labels)) if a != i), _zero(x))
        own = [-torch.log(torch.exp(x[i] @ x[p] / temperature) / others) for p in _positives(labels, i)]
        if own:
            terms.append(sum(own) / len(own))
    return _mean(terms, x)


def _sigmoid(t, temperature):
    return 1 / (1 + torch.exp(-t / temperature))


def _smooth_rank(x, q, i, among, temperature):
    """1 + the smooth number of those among which are in front of i, i itself left out."""
    own = x[q] @ x[i]
    return 1 + sum((_sigmoid(x[q] @ x[j] - own, temperature) for j in among if j != i), _zero(x))


def smooth_ap(x, labels, temperature=0.01, rank_query=False):
    """rank_query: the query is a positive and in the gallery, as in the authors' code."""
    terms = []
    for q in range(len(labels)):
        positives = _positives(labels, q) + [q] * rank_query
        gallery = positives + _negatives(labels, q)
        if positives:
            shares = [
                _smooth_rank(x, q, i, positives, temperature) / _smooth_rank(x, q, i, gallery, temperature)
                for i in positives
            ]
            terms.append(1 - sum(shares) / len(positives))
    return _mean(terms, x)


def recall_at_k(x, labels, rank_temperature=1.0, temperature=0.01, max_k=16, ks=None, rank_query=False):
    """ks: any k, in the place of the powers of two. rank_query: the query is in front, as in the authors' code."""
    ks = ks or [2**power for power in range(int(math.log2(max_k)) + 1)]
    terms = []
    for q in range(len(labels)):
        positives, found = _positives(labels, q), []
        gallery = positives + _negatives(labels, q) + [q] * rank_query
        ranks = [_smooth_rank(x, q, i, gallery, temperature) for i in positives]
        for k in ks:
            near = sum((_sigmoid(k - rank, rank_temperature) for rank in ranks), _zero(x))
            found.append(min(near, _zero(x) + k) / max(min(k, len(positives)), 1))
        if positives:
            terms.append(1 - sum(found) / len(found))
    return _mean(terms, x)
