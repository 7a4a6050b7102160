"""The hyperparameter search: the next trial of a method, as a pure function of the trials before it.

The search's whole state is the list of finished trials, which are records on disk. Each proposal asks a
fresh Optuna study, filled with these trials, under a seed of its own. So a search that is killed and
started again proposes exactly what it would have proposed, and there is no second place that could
disagree with the records.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from zlib import crc32

import lazy_loader

from dmlrc import errors
from dmlrc.methods import Choice, Int, Method, Space

optuna = lazy_loader.load("optuna")  # only a search that goes on needs it

TPE = {"n_startup_trials": 10, "n_ei_candidates": 24, "multivariate": True, "group": False, "constant_liar": True}
"""The sampler's settings, written down since Optuna's defaults change (these are those of 5.0). The liar takes trials
that run at the same time for bad ones, so that the next is not proposed where they are."""


def propose(
    method: Method, trials: Sequence[Mapping], seed: int, running: Sequence[Mapping[str, float]] = ()
) -> dict[str, float]:
    """The hyperparameters of trial number `len(trials) + len(running)`.

    trials: the finished ones in order, each with params, value (mean validation MAP@R) and state. running: the
    hyperparameters of those that run at the same time, whose value is not known.
    A diverged trial counts as failed: the sampler does not learn from it. Sampler: Optuna's TPE
    (Bergstra et al. 2011) with the settings of `TPE`; until 10 trials are complete they are uniform in the space, but
    for those of the first trial that a range names.
    """
    errors.require("search", "a search for hyperparameters")
    # the rows of a sweep draw the same random settings
    number = len(trials) + len(running)
    sampler = optuna.samplers.TPESampler(seed=crc32(f"{seed}/{method.row}/{number}".encode()), **TPE)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study, distributions = optuna.create_study(direction="maximize", sampler=sampler), _distributions(method)
    open_trials = ({"params": params, "state": "running"} for params in running)
    study.add_trials([_frozen(trial, distributions) for trial in (*trials, *open_trials)])
    asked = study.ask(distributions).params
    if number:
        return asked
    firsts = {name: getattr(space, "first", None) for name, space in method.space.items()}
    return asked | {name: value for name, value in firsts.items() if value is not None}


def write_journal(path: Path, name: str, method: Method, trials: Sequence[Mapping], attributes: Mapping) -> None:
    """Add a search to an Optuna journal, which optuna-dashboard opens, under this name.

    trials: as for `propose`, each with started and finished (datetime) and attributes (of the trial) besides.
    attributes: of the search.
    """
    errors.require("search", "a journal of Optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    journal = optuna.storages.journal
    lock = journal.JournalFileOpenLock(str(path))
    storage = optuna.storages.JournalStorage(journal.JournalFileBackend(str(path), lock_obj=lock))
    study = optuna.create_study(storage=storage, study_name=name, direction="maximize")
    for key, value in attributes.items():
        study.set_user_attr(key, value)
    distributions, frozen = _distributions(method), []
    for trial in trials:
        frozen_trial = _frozen(trial, distributions)
        frozen_trial.datetime_start, frozen_trial.datetime_complete = trial["started"], trial["finished"]
        frozen_trial.user_attrs = trial["attributes"]
        frozen.append(frozen_trial)
    study.add_trials(frozen)


def best(trials: Sequence[Mapping]) -> Mapping | None:
    """The trial with the highest value, the earliest of equals; None if all diverged."""
    complete = [trial for trial in trials if trial["state"] == "complete"]
    return max(complete, key=lambda trial: trial["value"], default=None)


def _distributions(method: Method) -> dict[str, "optuna.distributions.BaseDistribution"]:
    return {name: _distribution(space) for name, space in method.space.items()}


def _distribution(space: Space) -> "optuna.distributions.BaseDistribution":
    if isinstance(space, Choice):
        return optuna.distributions.CategoricalDistribution(space.values)
    if isinstance(space, Int):
        return optuna.distributions.IntDistribution(space.low, space.high)
    return optuna.distributions.FloatDistribution(space.low, space.high, log=space.log)


def _frozen(
    trial: Mapping, distributions: dict[str, "optuna.distributions.BaseDistribution"]
) -> "optuna.trial.FrozenTrial":
    states, state = optuna.trial.TrialState, trial["state"]
    complete = state == "complete" and not math.isnan(trial["value"])
    return optuna.trial.create_trial(
        params=dict(trial["params"]),
        distributions=distributions,
        value=trial["value"] if complete else None,
        state=states.COMPLETE if complete else states.RUNNING if state == "running" else states.FAIL,
    )
