"""Plan of a study: what is finished and what is to be run next, from the records alone.

Nothing here trains, and nothing imports torch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dmlrc import records, search
from dmlrc.errors import DmlrcError, UsageError
from dmlrc.methods import PRETRAINED, Method
from dmlrc.protocol import RATES, Protocol, Study
from dmlrc.records import fingerprint


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
    inputs: Mapping[str, str] = field(default_factory=dict)  # digests of files with a name, see `dmlrc.run`
    proposals: int = 1  # of its search at a time
    fingerprint: dict[str, Any] | None = None  # of the method, made where its source is: a worker may not have it
    keeps_model: bool = False  # the record of a rerun comes with the model, see `dmlrc.models.saved`

    @property
    def seed(self) -> int:
        """The seed of the repetition; of the first one, that of the study."""
        return repetition_seed(self.study_seed, self.repetition)

    def __str__(self) -> str:
        return f"{self.method.name} {self.kind} {self.number}" if self.method else PRETRAINED


def repetition_seed(study_seed: int, repetition: int) -> int:
    """The seed of a whole search and its reruns. The splits keep that of the study."""
    if not repetition:
        return study_seed
    return int(np.random.SeedSequence([study_seed, repetition]).generate_state(1)[0])


@dataclass(frozen=True, eq=False)
class Chain:
    """A method's trials in one repetition, one after the other, then its reruns; of no method the untrained trunk."""

    method: Method | None
    repetition: int = 0

    @property
    def name(self) -> str:
        """The name under which its units are recorded."""
        return self.method.name if self.method else PRETRAINED

    @property
    def key(self) -> tuple[str, int]:
        """Key that tells it apart in a study."""
        return self.name, self.repetition


@dataclass(frozen=True)
class Outdated:
    """The recorded units of a method of another fingerprint, and what changed of the method, a few words each."""

    method: str
    units: tuple[Mapping, ...]
    changed: tuple[str, ...]


class Plan:
    """Units of a study that are finished, that count no longer and why, and how many are missing.

    It is made once, from the records; whoever runs a unit adds its record. `ended` are the recorded units that the
    budget asks for, those that failed among them; `stale` the reruns of another setting than the best trial's, and
    `outdated` the units of methods that have changed since: both are made again. `too_small`: a sentence for each
    method that was left out, by its name.

    Parameters
    ----------
    study : Study
    methods : sequence of Method, optional
        Only these, which need not be the study's own; default all of the study.
    beside : sequence of mappings
        Finished units of another study that count as this one's where it has none of its own, as
        `records.finished_units` gives them.
    models : bool
        Whether a rerun is finished only with its model beside its record.
    any_python : bool
        Whether units of one's own code count that another version of Python compiled, so that the code cannot be
        compared: for those who run them again.

    Raises
    ------
    DmlrcError
        For a unit whose parameters are no point of its method's space, and for records of another configuration.
    """

    def __init__(
        self,
        study: Study,
        methods: Sequence[Method] | None = None,
        beside: Iterable[Mapping] = (),
        models: bool = False,
        any_python: bool = False,
    ):
        self.study, self.models = study, models
        self.too_small: Mapping[str, str] = {}
        asked = study.methods if methods is None else methods
        self.chains = [] if study.kind == RATES else [Chain(None)]  # what chooses a rate reads no test class
        self.chains += [Chain(method, repetition) for repetition in range(study.repetitions) for method in asked]
        self.ended: list[Mapping] = []
        self.stale: list[Mapping] = []
        recorded, changed = _of_today(_recorded(study, beside), self.chains, any_python)
        self.outdated = changed
        self._done: dict[tuple, dict[tuple, Mapping]] = {}
        for chain in self.chains:
            counting, stale = _counting(study, chain, recorded.get(chain.key, []))
            right = {_key(unit) for unit in counting}  # beside the study, where it has one of another setting itself
            self.ended += counting
            self.stale += [unit for unit in stale if _key(unit) not in right]
            finished = [unit for unit in counting if not records.died(unit) and not self._lacks_model(unit)]
            self._done[chain.key] = {(unit["kind"], unit["number"]): unit for unit in finished}

    def _lacks_model(self, unit: Mapping) -> bool:
        is_rerun = (unit["kind"], unit.get("state")) == ("rerun", "complete")
        return self.models and is_rerun and not records.model_path(unit, self.study.name).exists()

    @property
    def methods(self) -> list[Method]:
        """The methods of these chains."""
        return list({chain.name: chain.method for chain in self.chains if chain.method}.values())

    def keep(self, chains: Iterable[Chain]) -> None:
        """Leave all other chains out, with what is outdated of them, since nothing would replace it."""
        kept = {chain.key for chain in chains}
        self.chains = [chain for chain in self.chains if chain.key in kept]
        names = {chain.name for chain in self.chains}
        self.outdated = [outdated for outdated in self.outdated if outdated.method in names]

    def leave_out(self, too_small: Mapping[str, str]) -> None:
        """Leave these methods out; see `dmlrc.preflight.too_small`."""
        self.too_small = too_small
        self.keep([chain for chain in self.chains if chain.name not in too_small])

    def add(self, record: Mapping) -> None:
        """Take up the record of a unit that has ended."""
        self._done[record["method"], record["repetition"]][record["kind"], record["number"]] = record

    def has_result_of(self, record: Mapping) -> bool:
        """Tell whether a record is of a unit that is on record with a result, and was made again for its model."""
        return any(
            _key(unit) == _key(record) and unit["state"] == "complete" and unit["params"] == record["params"]
            for unit in self.ended
            if unit["kind"] == "rerun"
        )

    def done(self, chain: Chain) -> list[Mapping]:
        """The finished units of a chain."""
        return list(self._done[chain.key].values())

    def lacks_trials(self, chain: Chain) -> bool:
        """Tell whether the search of a chain is not whole yet."""
        trials = sum(unit["kind"] == "trial" for unit in self.done(chain))
        return chain.method is not None and trials < self.study.budget.trials

    @property
    def searched(self) -> list[Chain]:
        """The chains of methods whose search is whole."""
        return [chain for chain in self.chains if chain.method and not self.lacks_trials(chain)]

    @property
    def fruitless(self) -> list[Chain]:
        """The chains of methods that are searched, or have no search, and none of whose units has a result."""
        ended = {chain: {unit["state"] for unit in self.done(chain)} for chain in self.searched}
        return [chain for chain, states in ended.items() if states and "complete" not in states]

    @property
    def missing(self) -> int:
        """Number of units that are still to be made; no rerun is, of a whole search without a result."""
        return sum(map(self._missing, self.chains))

    def _missing(self, chain: Chain) -> int:
        done, budget = self.done(chain), self.study.budget
        if not chain.method:
            return 1 - len(done)
        if self.lacks_trials(chain):
            return budget.trials + budget.reruns - len(done)
        best = _best(self.study, chain, done)
        reruns = [unit for unit in done if unit["kind"] == "rerun" and best and _is_of(unit, best)]
        return budget.reruns - len(reruns) if best else 0

    @property
    def is_done(self) -> bool:
        """Tell whether nothing is to be run."""
        return not self.outdated and not self.missing

    @property
    def total(self) -> int:
        """Number of units of these chains."""
        of_method = self.study.budget.trials + self.study.budget.reruns
        return sum(of_method if chain.method else 1 for chain in self.chains)

    @property
    def finished(self) -> int:
        """Number of units that are finished, or never made: reruns of a whole search without a result."""
        return self.total - self.missing

    def warnings(self) -> list[str]:
        """The methods that were left out and the stale reruns, as said to a user."""
        return [*self.too_small.values()] + [
            f"rerun {unit['number']} of {unit['method']} in the records of study {self.study.name!r}, repetition "
            f"{unit['repetition']}, took another setting than the best trial's: `dmlrc study run` makes it again"
            for unit in self.stale
        ]


def _recorded(study: Study, beside: Iterable[Mapping]) -> list[Mapping]:
    """Recorded units of a study, and of those beside it what it has not, or has as a rerun of another setting: which is
    that of the best trial depends on how many trials count."""
    own = records.finished_units(study.name, study.configuration())
    known = {_key(unit): unit.get("params") for unit in own}
    return own + [
        unit
        for unit in beside
        if _key(unit) not in known or (unit["kind"] == "rerun" and unit["params"] != known[_key(unit)])
    ]


def _key(unit: Mapping) -> tuple:
    return unit["method"], unit["repetition"], unit["kind"], unit["number"]


def _of_today(
    units: Iterable[Mapping], chains: Sequence[Chain], any_python: bool
) -> tuple[dict[tuple, list[Mapping]], list[Outdated]]:
    """The units of these chains, by chain, and those of methods that have changed since, by method.

    Of these all, of repetitions too that are not asked for: they are read with those that will be made again.
    """
    prints = {chain.name: fingerprint.fingerprint_of(chain.method) for chain in chains if chain.method}
    asked = {chain.key for chain in chains} | {Chain(None).key}
    of_today: dict[tuple, list[Mapping]] = {}
    others: dict[str, list[tuple[Mapping, Sequence[str]]]] = {}
    for unit in units:
        name, key = unit["method"], (unit["method"], unit["repetition"])
        if name in prints and (changed := fingerprint.differences(unit["fingerprint"], prints[name], any_python)):
            others.setdefault(name, []).append((unit, changed))
        elif key in asked:
            of_today.setdefault(key, []).append(unit)
    return of_today, [
        Outdated(name, tuple(unit for unit, _ in pairs), tuple({word: None for _, words in pairs for word in words}))
        for name, pairs in others.items()
    ]


def _counting(study: Study, chain: Chain, own: Sequence[Mapping]) -> tuple[list[Mapping], list[Mapping]]:
    """Units of a chain that the budget asks for, and the reruns of another setting than the best trial's: none while a
    trial is missing, and nobody knows which is the best."""
    if chain.method is None:
        return list(own), []
    asked = {"trial": study.budget.trials, "rerun": study.budget.reruns}
    within = [unit for unit in own if unit["number"] < asked[unit["kind"]]]
    trials = [unit for unit in within if unit["kind"] == "trial"]
    if study.budget.trials:
        for unit in within:
            _check_params(study, chain.method, unit)
    if len(trials) < study.budget.trials:
        return within, []
    best = _best(study, chain, within)
    reruns = [unit for unit in within if unit["kind"] == "rerun"]
    counting = [unit for unit in reruns if best and _is_of(unit, best)]
    return trials + counting, [unit for unit in reruns if not (best and _is_of(unit, best))]


def _best(study: Study, chain: Chain, units: Iterable[Mapping]) -> Mapping | None:
    """The best trial of a chain, or its fixed settings where it has no search; None where no trial has a result."""
    if not study.budget.trials:
        return {"params": chain.method.settings}
    trials = [unit for unit in units if unit["kind"] == "trial"]
    return search.best(sorted(trials, key=lambda unit: unit["number"]))  # not in the order in which they ended


def _is_of(rerun: Mapping, best: Mapping) -> bool:
    """Tell whether a rerun took the setting of the best trial; the oldest, of fixed settings, do not say."""
    return rerun["params"] is None or dict(rerun["params"]) == dict(best["params"])


def _check_params(study: Study, method: Method, unit: Mapping) -> None:
    misfit = method.misfit(unit["params"]) if unit["params"] is not None else None  # the oldest reruns do not say
    if misfit:
        raise DmlrcError(
            f"{unit['kind']} {unit['number']} of {method.name} in the records of study {study.name!r}, repetition "
            f"{unit['repetition']}, {misfit}: move its record away, and it is made again; if the space was changed on "
            "purpose, give the method another name"
        )


def next_units(study: Study, chain: Chain, done: Sequence[Mapping] = (), proposals: int = 1) -> list[Unit]:
    """Units that a chain can run now: trials, then reruns of the best, then nothing.

    The trials of a search come in batches: each is proposed from the values of those before its batch and the
    hyperparameters of those before it in the batch. So what a trial is does not depend on which of its batch ended
    first, and one that is missing is made again as it was. Reruns depend on no other, and all that are missing come
    together. A rerun of another setting than the best trial's is stale and made again. Without trials in the budget,
    the reruns take the method's fixed settings.

    done: the chain's finished units. proposals: how many trials are proposed at a time.

    Raises UsageError if a method without trials has hyperparameters to search.
    """
    method, budget = chain.method, study.budget
    if method is None:
        return [] if done else [_unit(study, chain, PRETRAINED, 0, {})]
    if not budget.trials and method.space:
        raise UsageError(f"study {study.name} has no trials, but method {method.name!r} has parameters to search")
    trials = {unit["number"]: unit for unit in done if unit["kind"] == "trial"}
    for first in range(0, budget.trials, proposals):
        batch = range(first, min(first + proposals, budget.trials))
        if missing := [number for number in batch if number not in trials]:
            params, before = {}, [trials[number] for number in range(first)]
            seed = repetition_seed(study.seed, chain.repetition)
            for number in batch:
                trial = trials.get(number)
                params[number] = (
                    trial["params"] if trial else search.propose(method, before, seed, list(params.values()))
                )
            return [_unit(study, chain, "trial", number, params[number], proposals) for number in missing]
    best = _best(study, chain, done)
    if best is None:
        return []
    reruns = {unit["number"] for unit in done if unit["kind"] == "rerun" and _is_of(unit, best)}
    missing = [number for number in range(budget.reruns) if number not in reruns]
    return [_unit(study, chain, "rerun", number, best["params"]) for number in missing]


def rerun(study: Study, method: Method, recorded: Mapping) -> Unit:
    """A recorded rerun, with its repetition, rerun and params, to be run once more: it gives the same model again."""
    unit = _unit(study, Chain(method, recorded["repetition"]), "rerun", recorded["rerun"], recorded["params"])
    begun = records.find(study.name)
    return replace(unit, inputs=begun.meta.get("inputs", {})) if begun else unit


def _unit(study: Study, chain: Chain, kind: str, number: int, params: Mapping[str, float], proposals: int = 1) -> Unit:
    method = chain.method
    return Unit(
        study=study.name,
        digest=study.digest,
        dataset=study.dataset,
        protocol=study.protocol_of(method),
        class_order=study.class_order,
        study_seed=study.seed,
        method=method,
        repetition=chain.repetition,
        kind=kind,
        number=number,
        params=dict(params),
        contents=study.contents,
        proposals=proposals,
        fingerprint=fingerprint.fingerprint_of(method) if method else None,
    )


def progress(study: Study) -> tuple[int, int]:
    """Count the units of a study that are finished, here or committed, and those that it has."""
    plan = Plan(study)
    return plan.finished, plan.total


def study_problems(study: Study) -> list[str]:
    """Faults of the records of a study, here and committed, a sentence each; see `dmlrc study check`."""
    try:
        return records.problems(study.name) or Plan(study).warnings()
    except DmlrcError as error:
        return [str(error)]
