"""Shares of a search's variance that hyperparameters explain: Optuna's functional ANOVA, on the scale of the search.

Hutter, Hoos and Leyton-Brown 2014, sections 3.2 and 3.3. Optuna itself would lay a logarithm out on a linear scale.
"""

import numpy as np

TREES = 64
"""Of the random forest."""


def main_effects(points: np.ndarray, values: np.ndarray, seed: int) -> list[float]:
    """The share that each dimension of the unit cube explains by itself, of values (N,) at points (N, D).

    NaN where all values are equal. Raises ValueError for a point outside of the cube.
    """
    import optuna  # takes seconds, as its forest does

    names = [str(dim) for dim in range(points.shape[1])]
    ranges = dict.fromkeys(names, optuna.distributions.FloatDistribution(0, 1))
    trials = [
        optuna.create_trial(params=dict(zip(names, map(float, point), strict=True)), distributions=ranges, value=value)
        for point, value in zip(points, values.tolist(), strict=True)
    ]
    if np.ptp(values) == 0:
        return [np.nan] * len(names)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study()
    study.add_trials(trials)
    shares = optuna.importance.FanovaImportanceEvaluator(n_trees=TREES, seed=seed).evaluate(study, params=names)
    return [shares[name] for name in names]
