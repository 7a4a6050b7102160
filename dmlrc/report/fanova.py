"""How much of a search's variance each hyperparameter explains by itself: functional ANOVA on a random forest.

Hutter, Hoos and Leyton-Brown 2014, sections 3.2 and 3.3. Optuna has it too, but lays a hyperparameter that was searched
in logarithms out on a linear scale, where nearly all of a learning rate's range is its last decade, and walks the trees
node by node in Python. On one scale the two agree, which the tests show.
"""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sklearn.tree._tree import Tree

TREES = 64


def main_effects(points: np.ndarray, values: np.ndarray, box: np.ndarray, seed: int = 0) -> np.ndarray:
    """The share of the variance over the box that each dimension explains by itself: (D,), the mean over the trees.

    points: (N, D), each within the box; values: (N,). box: (D, 2), lower and upper ends, in the scale of the points;
    the variance is that of a uniform draw from it. What is left to 1 is explained by dimensions together. NaN where all
    values are equal. Raises ValueError for a point outside of the box.
    """
    if ((points < box[:, 0]) | (points > box[:, 1])).any():
        raise ValueError("a point lies outside of the box")
    from sklearn.ensemble import RandomForestRegressor  # takes seconds

    forest = RandomForestRegressor(TREES, random_state=seed).fit(points, values)
    shares = [_shares(each.tree_, box) for each in forest.estimators_ if each.tree_.node_count > 1]
    return np.mean(shares, axis=0) if shares else np.full(len(box), np.nan)


def _shares(tree: "Tree", box: np.ndarray) -> np.ndarray:
    """`main_effects` of one tree with at least one split: a function that is constant on each leaf."""
    low, high = _leaves(tree, box)  # (L, D)
    value = tree.value[tree.children_left < 0, 0, 0]
    sides = (high - low) / (box[:, 1] - box[:, 0])
    volume = sides.prod(axis=1)
    mean = volume @ value
    explained = np.empty(len(box))
    for dim in range(len(box)):
        edges = np.unique([low[:, dim], high[:, dim]])
        inside = (low[:, dim] < edges[1:, None]) & (high[:, dim] > edges[:-1, None])  # (intervals, L)
        marginal = inside @ (value * volume / sides[:, dim])
        width = np.diff(edges) / (box[dim, 1] - box[dim, 0])
        explained[dim] = width @ (marginal - mean) ** 2
    return explained / (volume @ (value - mean) ** 2)


def _leaves(tree: "Tree", box: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lower and upper ends of every leaf, in the order of the nodes: both (L, D)."""
    low, high = (np.tile(ends, (tree.node_count, 1)) for ends in box.T)
    parents = np.zeros(1, int)
    while len(parents := parents[tree.children_left[parents] >= 0]):
        left, right = tree.children_left[parents], tree.children_right[parents]
        for child in (left, right):
            low[child], high[child] = low[parents], high[parents]
        high[left, tree.feature[parents]] = low[right, tree.feature[parents]] = tree.threshold[parents]
        parents = np.concatenate([left, right])
    leaf = tree.children_left < 0
    return low[leaf], high[leaf]
