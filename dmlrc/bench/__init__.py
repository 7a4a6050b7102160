"""Recorded searches as a benchmark for optimisers of hyperparameters: an answer takes no training.

A problem is a method of a study, and its table are the trials of all its recorded searches. To be maximised is
validation MAP@R, a fraction. Most trials were proposed by TPE, so a table is denser where scores are high.
"""

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.spatial import KDTree
from scipy.stats import qmc
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import KFold

from dmlrc import records
from dmlrc import studies as catalogue
from dmlrc.errors import MissingDataError, UsageError, unknown
from dmlrc.methods import Float, Int

if TYPE_CHECKING:
    import optuna

FEWEST = 10
"""Trials of a search that make it a part of the benchmark."""
KINDS = ("nearest", "forest")
TREES = 50
_TRIAL = ["repetition", "trial"]
SearchSpace = dict[str, Float | Int]


def studies() -> list[str]:
    """The studies whose searches are published, of `FEWEST` trials or more each.

    Returns
    -------
    Names
    """
    known = catalogue.known()
    return [name for name in records.published() if name in known and known[name].budget.trials >= FEWEST]


def methods(study: str) -> list[str]:
    """List the methods of a study that have something to search, and a trial that came to its end if it is recorded.

    Parameters
    ----------
    study : one of `studies()`

    Returns
    -------
    Names
    """
    recorded = records.find(study)
    ended = recorded and set(recorded.trials["method"][recorded.trials["state"] == "complete"])
    searched = [method.name for method in catalogue.get(study).methods if method.space]
    return [name for name in searched if ended is None or name in ended]


def search_space(study: str, method: str) -> SearchSpace:
    """The hyperparameters of a method with their ranges, and whether they are searched in logarithms.

    Parameters
    ----------
    study : one of `studies()`
    method : one of `methods(study)`

    Returns
    -------
    name -> Float or Int

    Raises
    ------
    UsageError
        For an unknown study or method.
    """
    return dict(catalogue.get(study).method(method).space)


def trials(study: str, method: str) -> pd.DataFrame:
    """The complete trials of all searches of a method.

    Parameters
    ----------
    study : one of `studies()`
    method : one of `methods(study)`

    Returns
    -------
    A row a trial: repetition (of the search), trial, params, value (validation MAP@R, a fraction), steps

    Raises
    ------
    UsageError
        For an unknown study or method.
    MissingDataError
        Without a trial.
    """
    search_space(study, method)
    complete = records.load(study).trials
    complete = complete[(complete["method"] == method) & (complete["state"] == "complete")]
    if complete.empty:
        raise MissingDataError(f"no trial of {method} in {study!r} is recorded: `dmlrc study run {study}` makes them")
    return complete.sort_values(_TRIAL, ignore_index=True)[[*_TRIAL, "params", "value", "steps"]]


def curves(study: str, method: str) -> pd.DataFrame:
    """Course of each complete trial.

    Parameters
    ----------
    study : one of `studies()`
    method : one of `methods(study)`

    Returns
    -------
    repetition, trial, step, value, cost
        value: the best validation MAP@R up to this step, the mean over the folds; a fold that has stopped keeps its
        own. cost: the training steps of all folds up to there.
    """
    complete = pd.MultiIndex.from_frame(trials(study, method)[_TRIAL])
    rows = records.load(study).curves
    chosen = (rows["method"] == method) & (rows["kind"] == "trial") & (rows["metric"] == "map_at_r")
    rows = rows[chosen].rename(columns={"number": "trial"})
    by_fold = rows.pivot_table(index=[*_TRIAL, "step"], columns="fold", values="value")
    by_fold = by_fold[by_fold.index.droplevel("step").isin(complete)]
    steps = by_fold.index.get_level_values("step").to_series(index=by_fold.index)
    taken = steps.groupby(_TRIAL).diff().fillna(steps) * by_fold.notna().sum(axis=1)
    value = by_fold.groupby(_TRIAL).cummax().groupby(_TRIAL).ffill().mean(axis=1)
    return pd.DataFrame({"value": value, "cost": taken.groupby(_TRIAL).cumsum().astype(int)}).reset_index()


def test_scores(study: str, method: str) -> pd.DataFrame:
    """The winners of the recorded searches on unseen classes: a row a rerun, with its accuracies as fractions.

    Parameters
    ----------
    study : one of `studies()`
    method : one of `methods(study)`

    Returns
    -------
    repetition, trial, validation, rerun, and a column a metric
        repetition and trial: the search and its best trial; validation: the value of that trial; rerun: a training
        with its hyperparameters from another seed; a metric: the mean over the models of the folds.
    """
    scores, tried = records.load(study).scores, trials(study, method)
    best = tried.loc[tried.groupby("repetition")["value"].idxmax()].rename(columns={"value": "validation"})
    scores = scores[(scores["method"] == method) & (scores["setting"] == "separated")]
    wide = scores.pivot(index=["repetition", "rerun"], columns="metric", values="value").reset_index()
    return best[[*_TRIAL, "validation"]].merge(wide.rename_axis(columns=None), on="repetition")


def unit_cube(space: Mapping[str, Float | Int], params: Iterable[Mapping[str, float]]) -> np.ndarray:
    """Hyperparameters (n, d) from 0 to 1, of logarithms where these are searched.

    >>> unit_cube({"rate": Float(0.01, 1, log=True), "count": Int(1, 5)}, [{"rate": 0.1, "count": 4}]).round(3)
    array([[0.5 , 0.75]])
    """
    columns, params = [], list(params)
    for name, of in space.items():
        values, low, high = np.array([trial[name] for trial in params], float), of.low, of.high
        if of.log:
            values, low, high = np.log(values), np.log(low), np.log(high)
        columns.append((values - low) / (high - low))
    return np.stack(columns, axis=1)


def objective(study: str, method: str, kind: str = "nearest", fraction: float = 1.0) -> "Objective":
    """An Optuna objective to be maximised: validation MAP@R of a method's hyperparameters, from recorded trials.

    Parameters
    ----------
    study : one of `studies()`
    method : one of `methods(study)`
    kind : "nearest", the value of the nearest trial in the unit cube of the space, or "forest", a random forest fitted
        to all trials
    fraction : of the training, whose value is then answered: of the longest trial of the method, in steps; at least
        one validation

    Returns
    -------
    Objective

    Raises
    ------
    UsageError
        For an unknown study, method or kind, and for a fraction that is none.
    MissingDataError
        Without a trial.
    """
    if kind not in KINDS:
        raise unknown("kind of objective", kind, KINDS)
    if not 0 < fraction <= 1:
        raise UsageError(f"the fraction of a training is {fraction}: give a number above 0, at most 1")
    table = trials(study, method)
    values = table["value"] if fraction == 1 else _after(curves(study, method), fraction)
    space = search_space(study, method)
    return Objective(space, unit_cube(space, table["params"]), values.to_numpy(), kind)


def _after(curves: pd.DataFrame, fraction: float) -> pd.Series:
    """The value of each trial after this fraction of the longest training; curves: of the function of that name."""
    first = curves.groupby(_TRIAL)["step"].transform("min")
    reached = curves[curves["step"] <= np.maximum(fraction * curves["step"].max(), first)]
    return reached.groupby(_TRIAL)["value"].last()


class Objective:
    """Objective of a search, to be maximised: `study.optimize(objective, 50)`.

    Its `error` is the root mean squared error of its answers for trials left out, in five parts, as a fraction of MAP@R
    as the values are; its `spread` their standard deviation, what the mean would be wrong by.

    Parameters
    ----------
    space : as `search_space`
    cube : (n, d) points of the unit cube
    values : (n,) their validation MAP@R
    kind : as in `objective`
    """

    def __init__(self, space: SearchSpace, cube: np.ndarray, values: np.ndarray, kind: str):
        self.space, self._cube, self._values = space, cube, values
        self.spread, self.error, wrong = float(values.std()), float("nan"), []
        self._answer = _fitted(cube, values, kind)
        if len(values) >= FEWEST:
            for rest, part in KFold(5, shuffle=True, random_state=0).split(cube):
                wrong.append(_fitted(cube[rest], values[rest], kind)(cube[part]) - values[part])
            self.error = float(np.sqrt(np.mean(np.concatenate(wrong) ** 2)))

    def __call__(self, trial: "optuna.Trial") -> float:
        """The value of what an Optuna trial suggests."""
        return self.value({name: _suggest(trial, name, of) for name, of in self.space.items()})

    def value(self, params: Mapping[str, float]) -> float:
        """Validation MAP@R of these hyperparameters."""
        return float(self._answer(unit_cube(self.space, [params]))[0])

    @functools.cached_property
    def best(self) -> float:
        """The highest answer for a recorded trial or any of 4,096 points that fill the space evenly."""
        even = qmc.Sobol(len(self.space), seed=0).random(4096)
        return float(max(self._answer(self._cube).max(), self._answer(even).max()))


def _suggest(trial: "optuna.Trial", name: str, space: Float | Int) -> float:
    if isinstance(space, Int):
        return trial.suggest_int(name, space.low, space.high)
    return trial.suggest_float(name, space.low, space.high, log=space.log)


def _fitted(cube: np.ndarray, values: np.ndarray, kind: str):
    """Fit a function from points of the cube (n, d) to values (n,)."""
    if kind == "nearest":
        tree = KDTree(cube)
        return lambda points: values[tree.query(points)[1]]
    forest = RandomForestRegressor(TREES, min_samples_leaf=2, random_state=0).fit(cube, values)
    trees = [one.tree_ for one in forest.estimators_]  # a tenth of the time of the forest for a single point
    return lambda points: np.mean([tree.predict(points.astype(np.float32)) for tree in trees], axis=0)[:, 0]
