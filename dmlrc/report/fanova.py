"""Functional analysis of variance (Hutter et al. 2014): which hyperparameters a score depends on.

A random forest predicts the score from the hyperparameters; each tree cuts the search space into boxes, in each of
which it predicts one value, so that the variance over the whole space, and the part of it that one hyperparameter
explains alone, are sums over boxes. `optuna.importance.FanovaImportanceEvaluator` has the same numbers and walks through
the trees node by node, which took a third of the time of all chapters.
"""

import numpy as np
from sklearn.ensemble import RandomForestRegressor


def main_effects(points: np.ndarray, values: np.ndarray, bounds: np.ndarray, seed: int = 0) -> np.ndarray:
    """The share of the variance of the score over the space that each hyperparameter explains alone: (D,).

    points: (N, D); values: their scores, (N,), not all the same; bounds: lowest and highest of each hyperparameter,
    (D, 2). Means over the 64 trees of the forest; what is missing to 1 is explained by several together.
    """
    forest = RandomForestRegressor(n_estimators=64, max_depth=64, random_state=seed).fit(points, values)
    variances = np.array([_variances(*_leaves(each.tree_, bounds)) for each in forest.estimators_])  # (64, 1 + D)
    varying = variances[variances[:, 0] > 0]
    return (varying[:, 1:] / varying[:, :1]).mean(0)


def _leaves(tree, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The boxes (L, D, 2) into which a tree cuts the space, and what it predicts in each of them (L,)."""
    boxes = np.empty((tree.node_count, *bounds.shape))
    boxes[0] = bounds
    left, right = tree.children_left.tolist(), tree.children_right.tolist()
    for node, (feature, threshold) in enumerate(zip(tree.feature.tolist(), tree.threshold.tolist(), strict=True)):
        if left[node] >= 0:  # no leaf; its children stand behind it
            boxes[left[node]] = boxes[right[node]] = boxes[node]
            boxes[left[node], feature, 1] = boxes[right[node], feature, 0] = threshold
    leaves = tree.children_left < 0
    return boxes[leaves], tree.value[leaves, 0, 0]


def _variances(boxes: np.ndarray, values: np.ndarray) -> list[float]:
    """The variance of a tree's prediction over the whole space, then of its mean given each hyperparameter alone."""
    widths = boxes[:, :, 1] - boxes[:, :, 0]  # (L, D)
    found = [_variance(values, widths.prod(1))]
    for place in range(widths.shape[1]):
        others, ends = np.delete(widths, place, axis=1).prod(1), boxes[:, place]
        edges = np.unique(ends)
        middles = (edges[1:, None] + edges[:-1, None]) / 2  # between two cuts the mean is constant
        weights = ((ends[:, 0] < middles) & (middles <= ends[:, 1])) * others  # (pieces, L)
        total = weights.sum(1)
        found.append(_variance(weights @ values / total, np.diff(edges) * total))
    return found


def _variance(values: np.ndarray, weights: np.ndarray) -> float:
    mean = np.average(values, weights=weights)
    return float(np.average((values - mean) ** 2, weights=weights))
