"""How a study is run: search (validation folds only), reruns of the best trial with new seeds, then the test half.

A finished unit is a record on disk, and what to do next follows from the records alone.
"""

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from tqdm import tqdm

from dmlrc import data, models, paths, provenance, records, search
from dmlrc.errors import UsageError
from dmlrc.executors import pool
from dmlrc.inputs import device, prepare
from dmlrc.methods import Method
from dmlrc.protocol import Study
from dmlrc.records import PRETRAINED
from dmlrc.unit import Unit, failed, repetition_seed, run_unit


def missing(study: Study) -> tuple[str, ...]:
    """What a study lacks on this machine: of "data", "weights" and "GPU". Weights of torchvision are downloaded."""
    protocol, lacks = study.protocol, []
    if data.state(study.dataset) == "missing":
        lacks.append("data")
    if not models.has_weights(protocol.trunk, protocol.weights):
        lacks.append("weights")
    if protocol.trunk != "conv4" and not protocol.computes_once and device().type == "cpu":
        lacks.append("GPU")
    return tuple(lacks)


def next_unit(study: Study, method: Method | None, repetition: int, done: Sequence[Mapping]) -> Unit | None:
    """What a method needs next in a repetition, from the records alone: a trial, a rerun of the best, then nothing.

    done: finished units, of any method and repetition, see `records.finished_units`. The first trial that is missing is
    proposed from those before it; a rerun of another setting than the best trial's is stale and made again. Without
    trials in the budget, the reruns take the method's fixed settings.

    Raises UsageError if a method without trials has hyperparameters to search.
    """
    own = [unit for unit in done if (unit["method"], unit["repetition"]) == (_name(method), repetition)]
    if method is None:
        return None if own else _unit(study, None, 0, PRETRAINED, 0, {})
    if not study.budget.trials and method.space:
        raise UsageError(f"study {study.name} has no trials, but method {method.name!r} has parameters to search")
    trials = {unit["number"]: unit for unit in own if unit["kind"] == "trial"}
    for number in range(study.budget.trials):
        if number not in trials:
            before = [trials[each] for each in range(number)]
            params = search.propose(method, before, repetition_seed(study.seed, repetition))
            return _unit(study, method, repetition, "trial", number, params)
    best = search.best(list(trials.values())) if study.budget.trials else {"params": method.settings}
    if best is None:
        return None
    reruns = {unit["number"] for unit in own if unit["kind"] == "rerun" and not is_stale(unit, best)}
    missing = [number for number in range(study.budget.reruns) if number not in reruns]
    return _unit(study, method, repetition, "rerun", missing[0], best["params"]) if missing else None


def _unit(
    study: Study, method: Method | None, repetition: int, kind: str, number: int, params: Mapping[str, float]
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
    )


def is_stale(rerun: Mapping, best: Mapping) -> bool:
    """Whether a rerun took another setting than the best trial's; in the oldest records that was not written down."""
    return rerun["params"] is not None and dict(rerun["params"]) != dict(best["params"])


def run(
    study: Study,
    methods: Sequence[Method] | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
) -> None:
    """Run what is missing of a study; a record is written as each trial or rerun ends.

    methods: only these, which need not be the study's own; default all of the study. executor: any
    `concurrent.futures.Executor`, a Dask cluster's included; default a `pool` of `workers`. workers: how many units are
    handed out at once; default one a method with an executor, else one.
    Stopped at any moment, the next call goes on where this one was.
    """
    chains = _chains(study, study.methods if methods is None else methods)
    done = _done(study, chains)
    if not any(next_unit(study, *chain, done) for chain in chains):
        return
    _begin(study)
    if study.protocol.computes_once:  # here, with all threads, and not in each worker again
        prepare(study.dataset, study.effective_protocol, study.class_order, study.seed)
    width = workers or (len(chains) if executor else 1)
    bar = tqdm(total=_total(study, chains), initial=len(done), desc=study.name)
    with contextlib.nullcontext(executor) if executor else pool(width) as used, bar:
        for record in _work(study, chains, done, used, width, bar):
            records.write_unit(record, study.name)
            done.append(record)
            bar.update()


MOST_DEATHS = 3
"""How many workers a unit may kill before it is recorded as failed."""

Chain = tuple[Method | None, int]
"""What runs one after the other: the units of a method in one repetition. No method: the pretrained trunk."""


def _chains(study: Study, methods: Sequence[Method]) -> list[Chain]:
    return [(None, 0), *((method, repetition) for repetition in range(study.repetitions) for method in methods)]


def export(study: Study) -> Path:
    """Write the records made here to results/, to be committed; a study is published once it is complete."""
    finished, total = progress(study)
    return records.export(study.name, finished == total)


def progress(study: Study) -> tuple[int, int]:
    """How many units of a study are finished, here or committed, and how many it has."""
    chains = _chains(study, study.methods)
    return len(_done(study, chains)), _total(study, chains)


def _total(study: Study, chains: Sequence[Chain]) -> int:
    """The units of these chains, of which the pretrained trunk's has a single one."""
    return sum(1 if method is None else study.budget.trials + study.budget.reruns for method, _ in chains)


def _done(study: Study, chains: Sequence[Chain]) -> list[dict]:
    """The finished units of these chains, here and committed, without those that are to be made again."""
    kept, finished = [], records.finished_units(study.name, study.configuration())
    for method, repetition in chains:
        own = [unit for unit in finished if (unit["method"], unit["repetition"]) == (_name(method), repetition)]
        trials = [unit for unit in own if unit["kind"] == "trial" and unit["number"] < study.budget.trials]
        best = search.best(trials) if study.budget.trials else {"params": method.settings if method else {}}
        for unit in own:
            if unit["kind"] == "rerun" and (unit["number"] >= study.budget.reruns or not best or is_stale(unit, best)):
                continue
            if unit["kind"] != "trial" or unit["number"] < study.budget.trials:
                kept.append(unit)
    return kept


def _work(study: Study, chains: list[Chain], done: list[dict], pool: Executor, width: int, bar: tqdm) -> Iterator[dict]:
    """Yield each record as its unit ends; the caller adds it to `done` before the chain's next unit is chosen.

    A method's trials follow one another, since each is proposed from those before it; `width` chains run at once.
    """
    # the last methods first: SoftTriple's steps are the dearest, and a long chain at the end leaves workers idle
    waiting, pending = chains[::-1], {}
    waiting.sort(key=lambda chain: chain[1])

    def submit(chain: Chain) -> None:
        unit = next_unit(study, *chain, done)
        if unit:
            hand_out(chain, unit, 0)

    def hand_out(chain: Chain, unit: Unit, deaths: int) -> None:
        bar.set_postfix_str(f"{_name(chain[0])} {unit.kind} {unit.number}")
        pending[pool.submit(run_unit, unit)] = chain, unit, deaths

    while waiting or pending:
        while waiting and len(pending) < width:
            submit(waiting.pop(0))
        finished, _ = wait(pending, return_when=FIRST_COMPLETED)
        for future in finished:
            chain, unit, deaths = pending.pop(future)
            if isinstance(future.exception(), BrokenProcessPool):
                deaths += 1
                name = f"{_name(chain[0])} {unit.kind} {unit.number}"
                bar.write(f"the worker that ran {name} died ({deaths} of {MOST_DEATHS} times)", file=sys.stderr)
                if deaths < MOST_DEATHS:
                    hand_out(chain, unit, deaths)
                    continue
                yield failed(unit, f"each of {deaths} workers that ran it died, perhaps for want of memory")
            else:
                yield future.result()
            submit(chain)


def _name(method: Method | None) -> str:
    if method is None:
        return PRETRAINED
    if method.name == PRETRAINED:
        raise UsageError(f"a method cannot be called {PRETRAINED!r}: that is the row of the untrained trunk")
    return method.name


def _begin(study: Study) -> None:
    """Write the study's meta.json, with the facts of its data set and of this machine; one that is there may grow."""
    path = paths.runs() / study.name / "meta.json"
    if path.exists():
        begun = records.read_json(path)
        if begun["budget"] != study.configuration()["budget"]:
            records.write_json(path, begun | {"budget": study.configuration()["budget"]})
        return
    images = data.load(study.dataset)
    facts = {
        "name": study.dataset,
        "images": len(images.labels),
        "classes": len(images.class_names),
        "shape": list(images.images.shape[1:]),
    }
    meta = study.configuration() | {
        "data": facts,
        "environment": provenance.environment(device()),
        "settings": {method.name: dict(method.settings) for method in study.methods},
        "changes": {method.name: dict(method.changes) for method in study.methods if method.changes},
        "commit": provenance.commit(),
        "created": provenance.now(),
    }
    records.write_json(path, meta)
