"""Functional ANOVA: Optuna's is the judge, on the scale that both share, and functions whose parts are known."""

import numpy as np
import optuna
import pytest
from optuna.importance import FanovaImportanceEvaluator

from dmlrc.report import fanova

BOX = np.array([[0.0, 2.0], [-1.0, 1.0], [-6.0, 0.0]])


def by_optuna(points, values, box, seed):
    names = [f"x{dim}" for dim in range(len(box))]
    ranges = {name: optuna.distributions.FloatDistribution(*ends) for name, ends in zip(names, box, strict=True)}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    for point, value in zip(points, values, strict=True):
        params = dict(zip(names, map(float, point), strict=True))
        study.add_trial(optuna.create_trial(params=params, distributions=ranges, value=float(value)))
    shares = FanovaImportanceEvaluator(seed=seed).evaluate(study)
    return [shares[name] for name in names]


@pytest.mark.parametrize("seed", [0, 3])
def test_shares_are_those_of_optuna(seed):
    random = np.random.default_rng(seed)
    points = random.uniform(*BOX.T, (50, 3))
    values = points[:, 0] ** 2 + points[:, 0] * points[:, 1] + 0.1 * random.standard_normal(50)
    found = fanova.main_effects(points, values, BOX, seed)
    assert found == pytest.approx(by_optuna(points, values, BOX, seed), abs=1e-10)
    assert 0.5 < found[0] < 1
    assert found.sum() < 1


def test_a_step_explains_all_by_itself_and_a_chequerboard_nothing():
    grid = np.stack(np.meshgrid(*[np.linspace(0.05, 0.95, 10)] * 2), -1).reshape(-1, 2)
    box = np.array([[0.0, 1.0], [0.0, 1.0]])
    high = grid > 0.5
    step = fanova.main_effects(grid, high[:, 0].astype(float), box)
    assert step == pytest.approx([1, 0], abs=0.01)
    board = fanova.main_effects(grid, (high[:, 0] ^ high[:, 1]).astype(float), box)
    assert board.max() < 0.05


def test_equal_values_have_nothing_to_explain():
    with pytest.raises(ValueError, match="outside"):
        fanova.main_effects(BOX[:, 1] + np.ones((5, 3)), np.ones(5), BOX)
    assert np.isnan(fanova.main_effects(BOX.mean(1) + np.zeros((5, 3)), np.ones(5), BOX)).all()
