"""What is to be run next, from the records alone. Nothing here trains, and nothing imports torch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmlrc import fingerprint, records, search
from dmlrc.errors import DmlrcError, UsageError
from dmlrc.methods import Method
from dmlrc.protocol import COMPARISON, Protocol, Study
from dmlrc.records import PRETRAINED


@dataclass(frozen=True)
class Unit:
    """A trial or a rerun of one method, everything that it needs: it can be sent to another process."""

    study: str
    digest: str  # of the study's configuration, see `dmlrc.protocol.digest`
    dataset: str
    protocol: Protocol
    class_order: str
    study_seed: int
    method: Method | None  # None: the pretrained trunk
    repetition: int
    kind: str  # "trial", "rerun" or "pretrained"
    number: int
    params: dict[str, float]
    contents: str | None = None  # of one's own images, see `dmlrc.data.contents`
    proposals: int = 1  # of its search at a time
    fingerprint: dict[str, Any] | None = None  # of the method, made where its source is: a worker may not have it
    keeps_model: bool = False  # of a rerun: its record comes with the model, see `dmlrc.models.saved`

    @property
    def seed(self) -> int:
        """The seed of the repetition; of the first one, that of the study."""
        return repetition_seed(self.study_seed, self.repetition)


def repetition_seed(study_seed: int, repetition: int) -> int:
    """The seed of a whole search and its reruns. The splits keep that of the study."""
    if not repetition:
        return study_seed
    return int(np.random.SeedSequence([study_seed, repetition]).generate_state(1)[0])


Chain = tuple[Method | None, int]
"""What runs one after the other: the units of a method in one repetition. No method: the pretrained trunk."""


def chains(study: Study, methods: Sequence[Method]) -> list[Chain]:
    """All chains of these methods in a study, and that of the pretrained trunk.

    What chooses a learning rate reads no test class, and so has none of the trunk.
    """
    pretrained = [] if study.kind == "rates" else [(None, 0)]
    return [*pretrained, *((method, repetition) for repetition in range(study.repetitions) for method in methods)]


def next_units(
    study: Study, method: Method | None, repetition: int, done: Sequence[Mapping], proposals: int = 1
) -> list[Unit]:
    """What a method can run now in a repetition, from the records alone: trials, then reruns of the best, then nothing.

    done: finished units, of any method and repetition, see `records.finished_units`. proposals: how many trials are
    proposed at a time. The trials of a search come in batches of so many: each is proposed from the values of those
    before its batch and the hyperparameters of those before it in the batch. So what a trial is does not depend on
    which of its batch ended first, and one that is missing is made again as it was. Reruns depend on no other, and all
    that are missing come together. A rerun of another setting than the best trial's is stale and made again. Without
    trials in the budget, the reruns take the method's fixed settings.

    Raises UsageError if a method without trials has hyperparameters to search.
    """
    own = _of_chain(done, method, repetition)
    if method is None:
        return [] if own else [_unit(study, None, 0, PRETRAINED, 0, {})]
    if not study.budget.trials and method.space:
        raise UsageError(f"study {study.name} has no trials, but method {method.name!r} has parameters to search")
    trials = {unit["number"]: unit for unit in own if unit["kind"] == "trial"}
    for first in range(0, study.budget.trials, proposals):
        batch = range(first, min(first + proposals, study.budget.trials))
        if any(number not in trials for number in batch):
            params = _batch(method, trials, batch, repetition_seed(study.seed, repetition))
            return [
                _unit(study, method, repetition, "trial", number, params[number], proposals)
                for number in batch
                if number not in trials
            ]
    best = search.best(list(trials.values())) if study.budget.trials else {"params": method.settings}
    if best is None:
        return []
    reruns = {unit["number"] for unit in own if unit["kind"] == "rerun" and not is_stale(unit, best)}
    missing = [number for number in range(study.budget.reruns) if number not in reruns]
    return [_unit(study, method, repetition, "rerun", number, best["params"]) for number in missing]


def _batch(method: Method, trials: Mapping[int, Mapping], batch: range, seed: int) -> dict[int, Mapping[str, float]]:
    """The hyperparameters of the trials of a batch, of which some may be finished. trials: the finished ones."""
    before, params = [trials[number] for number in range(batch.start)], {}
    for number in batch:
        found = trials.get(number)
        params[number] = found["params"] if found else search.propose(method, before, seed, list(params.values()))
    return params


def rerun(study: Study, method: Method, recorded: Mapping) -> Unit:
    """A recorded rerun, with its repetition, rerun and params, to be run once more: it gives the same model again."""
    return _unit(study, method, recorded["repetition"], "rerun", recorded["rerun"], recorded["params"])


def _unit(
    study: Study,
    method: Method | None,
    repetition: int,
    kind: str,
    number: int,
    params: Mapping[str, float],
    proposals: int = 1,
) -> Unit:
    return Unit(
        study=study.name,
        digest=study.digest,
        dataset=study.dataset,
        protocol=study.protocol_of(method),
        class_order=study.class_order,
        study_seed=study.seed,
        method=method,
        repetition=repetition,
        kind=kind,
        number=number,
        params=dict(params),
        contents=study.contents,
        proposals=proposals,
        fingerprint=fingerprint.of(method) if method else None,
    )


def _of_chain(units: Sequence[Mapping], method: Method | None, repetition: int) -> list[Mapping]:
    return [unit for unit in units if (unit["method"], unit["repetition"]) == (method_name(method), repetition)]


def is_stale(rerun: Mapping, best: Mapping) -> bool:
    """Whether a rerun took another setting than the best trial's; in the oldest records that was not written down."""
    return rerun["params"] is not None and dict(rerun["params"]) != dict(best["params"])


def progress(study: Study) -> tuple[int, int]:
    """How many units of a study are finished, here or committed, and how many it has."""
    every = chains(study, study.methods)
    if records.is_published_whole(study) and not _changed_since(study):  # its frames need not be read
        return total(study, every), total(study, every)
    units = done(study, every)
    return len(units) + sum(_without_reruns(study, *chain, units) for chain in every), total(study, every)


def _changed_since(study: Study) -> bool:
    """Whether a method of a study has another fingerprint than in its committed records."""
    told = {method.name: fingerprint.of(method) for method in study.methods}
    return any(
        method in told and fingerprint.differences(each, told[method])
        for method, each in records.published_fingerprints(study.name)
    )


def _without_reruns(study: Study, method: Method | None, repetition: int, units: Sequence[Mapping]) -> int:
    """How many reruns are never made: all, of a search that is whole and has no trial with a result."""
    trials = [unit for unit in _of_chain(units, method, repetition) if unit["kind"] == "trial"]
    came_to_nothing = method and trials and len(trials) == study.budget.trials and search.best(trials) is None
    return study.budget.reruns if came_to_nothing else 0


def total(study: Study, chains: Sequence[Chain]) -> int:
    """The units of these chains, of which the pretrained trunk's has a single one."""
    return sum(1 if method is None else study.budget.trials + study.budget.reruns for method, _ in chains)


def done(study: Study, chains: Sequence[Chain]) -> list[Mapping]:
    """The finished units of these chains, here and committed, without those that are to be made again.

    Raises DmlrcError for one whose parameters are no point of its method's space.
    """
    return finished(study, chains)[0]


@dataclass(frozen=True)
class Outdated:
    """The finished units of a method of another fingerprint, and what changed of the method, a few words each."""

    method: str
    units: tuple[Mapping, ...]
    changed: tuple[str, ...]


def finished(study: Study, chains: Sequence[Chain]) -> tuple[list[Mapping], list[Outdated]]:
    """The finished units of these chains as `done`, and those that are of another fingerprint than their method's.

    Units that failed are not among the former: what killed their workers may be over.
    """
    ended, outdated = _ended(study, chains)
    return [unit for unit in ended if unit.get("state") != "failed"], outdated


def ended(study: Study, chains: Sequence[Chain]) -> list[Mapping]:
    """The units of these chains that have ended: the finished ones as `done`, and those that failed."""
    return _ended(study, chains)[0]


def _ended(study: Study, chains: Sequence[Chain]) -> tuple[list[Mapping], list[Outdated]]:
    of_today, outdated = _divided(study, chains)
    return [unit for chain, own in of_today for unit in _counting(study, chain[0], own)], outdated


def _divided(study: Study, chains: Sequence[Chain]) -> tuple[list[tuple[Chain, list[Mapping]]], list[Outdated]]:
    """The finished units of every chain, those whose method has changed since apart."""
    made = _units(study)
    told = {method.name: fingerprint.of(method) for method, _ in chains if method}
    of_today, others = [], {}
    for chain in chains:
        method, own = chain[0], []
        for unit in _of_chain(made, *chain):
            if method and (changed := fingerprint.differences(unit["fingerprint"], told[method.name])):
                others.setdefault(method.name, []).append((unit, changed))
            else:
                own.append(unit)
        of_today.append((chain, own))
    return of_today, [
        Outdated(name, tuple(unit for unit, _ in found), tuple({each: None for _, said in found for each in said}))
        for name, found in others.items()
    ]


def _units(study: Study) -> list[Mapping]:
    """What is finished of a study; of a comparison also what is finished of its parent and was not made again."""
    made = records.finished_units(study.name, study.configuration())
    if study.kind != COMPARISON:
        return made
    known = {_key(unit) for unit in made}
    theirs = records.finished_units(study.parent, study.configuration() | {"study": study.parent})
    return made + [unit for unit in _with_params(theirs) if _key(unit) not in known]


def _key(unit: Mapping) -> tuple:
    return unit["method"], unit["repetition"], unit["kind"], unit["number"]


def _with_params(units: Sequence[Mapping]) -> Iterator[Mapping]:
    """The units, with the parameters of reruns that do not say theirs: of the best trial of their whole search."""
    searches: dict[tuple, list[Mapping]] = {}
    for unit in units:
        if unit["kind"] == "trial":
            searches.setdefault(_key(unit)[:2], []).append(unit)
    for unit in units:
        best = search.best(searches.get(_key(unit)[:2], [])) if unit.get("params") is None else None
        yield {**unit, "params": best["params"]} if best else unit


def searched(study: Study) -> list[Chain]:
    """The chains of a study's methods whose search is whole."""
    every = chains(study, study.methods)
    units = done(study, every)
    return [each for each in every if each[0] and not lacks_trials(study, each, units)]


def lacks_trials(study: Study, chain: Chain, units: Sequence[Mapping]) -> bool:
    """Whether a search is not whole yet. units: finished ones, of any chain."""
    trials = sum(unit["kind"] == "trial" for unit in _of_chain(units, *chain))
    return chain[0] is not None and trials < study.budget.trials


def stale(study: Study, chains: Sequence[Chain]) -> list[str]:
    """The reruns that are to be made again since they took another setting than the best trial's, as said to a user."""
    said = []
    for chain, own in _divided(study, chains)[0]:
        counting = [id(unit) for unit in _counting(study, chain[0], own)]
        said += [
            f"rerun {unit['number']} of {unit['method']} in the records of study {study.name!r}, repetition "
            f"{unit['repetition']}, took another setting than the best trial's: `dmlrc study run` makes it again"
            for unit in own
            if unit["kind"] == "rerun" and unit["number"] < study.budget.reruns and id(unit) not in counting
        ]
    return said


def problems(study: Study) -> list[str]:
    """What is wrong with the records of a study, here and committed, a sentence each; see `dmlrc study check`."""
    try:
        return records.problems(study.name) or stale(study, chains(study, study.methods))
    except DmlrcError as error:
        return [str(error)]


def _counting(study: Study, method: Method | None, own: Sequence[Mapping]) -> list[Mapping]:
    """Those of a chain's units that the budget asks for, without reruns of another setting than the best trial's.

    While a trial is missing nobody knows which is the best, and all reruns count.
    """
    if method is None:
        return list(own)
    asked = {"trial": study.budget.trials, "rerun": study.budget.reruns}
    within = [unit for unit in own if unit["number"] < asked[unit["kind"]]]
    trials = [unit for unit in within if unit["kind"] == "trial"]
    if study.budget.trials:
        for unit in within:
            _check_params(study, method, unit)
    if len(trials) < study.budget.trials:
        return within
    best = search.best(trials) if trials else {"params": method.settings}
    return [unit for unit in within if unit["kind"] == "trial" or (best and not is_stale(unit, best))]


def _check_params(study: Study, method: Method, unit: Mapping) -> None:
    misfit = method.misfit(unit["params"]) if unit["params"] is not None else None  # the oldest reruns do not say
    if misfit:
        raise DmlrcError(
            f"{unit['kind']} {unit['number']} of {method.name} in the records of study {study.name!r}, repetition "
            f"{unit['repetition']}, {misfit}: move its record away, and it is made again; if the space was changed on "
            "purpose, give the method another name"
        )


def method_name(method: Method | None) -> str:
    """The name under which a method's units are recorded. Raises UsageError for that of the untrained trunk."""
    if method is None:
        return PRETRAINED
    if method.name == PRETRAINED:
        raise UsageError(f"a method cannot be called {PRETRAINED!r}: that is the row of the untrained trunk")
    return method.name
