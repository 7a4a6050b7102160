"""How a study is run: search (validation folds only), reruns of the best trial with new seeds, then the test half.

A finished unit is a record on disk, and what to do next follows from the records alone.
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from tqdm import tqdm

from dmlrc import data, models, paths, provenance, records, search
from dmlrc.errors import DmlrcError, UsageError
from dmlrc.executors import pool
from dmlrc.inputs import device, prepare
from dmlrc.methods import Method
from dmlrc.protocol import Study
from dmlrc.records import PRETRAINED
from dmlrc.unit import Unit, run_unit


def missing(study: Study) -> tuple[str, ...]:
    """What a study lacks on this machine: of "data", "weights" and "GPU". Weights of torchvision are downloaded."""
    protocol, lacks = study.protocol, []
    if data.state(study.dataset) == "missing":
        lacks.append("data")
    if not models.has_weights(protocol.trunk, protocol.weights):
        lacks.append("weights")
    if protocol.trunk != "conv4" and not protocol.frozen_trunk and device().type == "cpu":
        lacks.append("GPU")
    return tuple(lacks)


def next_unit(study: Study, method: Method | None, done: Sequence[dict]) -> Unit | None:
    """What a method needs next, from its records alone: a trial, then a rerun of the best, then nothing.

    Without trials in the budget, the reruns take the method's fixed settings. Raises UsageError if it has a space.
    """
    make = functools.partial(Unit, study.dataset, study.protocol_of(method), study.class_order, study.seed, method)
    if method is None:
        return None if done else make("pretrained", 0, {})
    trials = sorted((unit for unit in done if unit["kind"] == "trial"), key=lambda unit: unit["number"])
    reruns = {unit["number"] for unit in done if unit["kind"] == "rerun"}
    if len(trials) < study.budget.trials:
        return make("trial", len(trials), search.propose(method, trials, study.seed))
    if not study.budget.trials and method.space:
        raise UsageError(f"study {study.name} has no trials, but method {method.name!r} has parameters to search")
    best = search.best(trials) if study.budget.trials else {"params": method.settings}
    missing = [number for number in range(study.budget.reruns) if number not in reruns]
    if best is None or not missing:
        return None
    return make("rerun", missing[0], dict(best["params"]))


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
    methods = [None, *(study.methods if methods is None else methods)]  # None stands for the pretrained trunk
    done = _done(study, methods)
    if not any(next_unit(study, method, done[_name(method)]) for method in methods):
        return
    _begin(study)
    if study.protocol.frozen_trunk:  # here, with all threads, and not in each worker again
        prepare(study.dataset, study.effective_protocol, study.class_order, study.seed)
    width = workers or (len(methods) if executor else 1)
    bar = tqdm(total=_total(study, methods), initial=sum(map(len, done.values())), desc=study.name)
    with contextlib.nullcontext(executor) if executor else pool(width) as used, bar:
        for record in _work(study, methods, done, used, width, bar):
            name = f"{record['kind']}-{record['number']:03d}.json"
            records.write_json(paths.runs() / study.name / record["method"] / name, record)
            done[record["method"]].append(record)
            bar.update()


def export(study: Study) -> Path:
    """Write the records made here to results/, to be committed; a study is published once it is complete."""
    methods = [None, *study.methods]
    done = _done(study, methods)
    complete = not any(next_unit(study, method, done[_name(method)]) for method in methods)
    return records.export(study.name, complete)


def progress(study: Study) -> tuple[int, int]:
    """How many units of a study are finished, here or committed, and how many it has."""
    methods = [None, *study.methods]
    return sum(map(len, _done(study, methods).values())), _total(study, methods)


def _total(study: Study, methods: Sequence[Method | None]) -> int:
    """The units of these methods, of which None, the pretrained trunk, is one with a single unit."""
    return 1 + (len(methods) - 1) * (study.budget.trials + study.budget.reruns)


def _done(study: Study, methods: Sequence[Method | None]) -> dict[str, list[dict]]:
    """The finished units of each of these methods, here and committed."""
    done = {_name(method): [] for method in methods}
    for unit in records.finished_units(study.name, study.configuration()):
        if unit["method"] in done:
            done[unit["method"]].append(unit)
    return done


def _work(
    study: Study, methods: list[Method | None], done: dict[str, list[dict]], pool: Executor, width: int, bar: tqdm
) -> Iterator[dict]:
    """Yield each record as its unit ends; the caller adds it to `done` before the method's next unit is chosen.

    A method's trials follow one another, since each is proposed from those before it; `width` methods run at once.
    """
    # the last methods first: SoftTriple's steps are the dearest, and a long chain at the end leaves workers idle
    waiting, pending = list(reversed(methods)), {}

    def submit(method: Method | None) -> None:
        unit = next_unit(study, method, done[_name(method)])
        if unit:
            bar.set_postfix_str(f"{_name(method)} {unit.kind} {unit.number}")
            pending[pool.submit(run_unit, unit)] = method

    while waiting or pending:
        while waiting and len(pending) < width:
            submit(waiting.pop(0))
        finished, _ = wait(pending, return_when=FIRST_COMPLETED)
        for future in finished:
            method = pending.pop(future)
            try:
                yield future.result()
            except BrokenProcessPool:
                raise DmlrcError(
                    f"a worker of study {study.name} died: start again with fewer workers if memory was short; a "
                    "script that runs a study in several workers needs `if __name__ == '__main__':`. Finished "
                    "records are kept"
                ) from None
            submit(method)


def _name(method: Method | None) -> str:
    if method is None:
        return PRETRAINED
    if method.name == PRETRAINED:
        raise UsageError(f"a method cannot be called {PRETRAINED!r}: that is the row of the untrained trunk")
    return method.name


def _begin(study: Study) -> None:
    """Write the study's meta.json, with the facts of its data set and of this machine, if it is not there."""
    path = paths.runs() / study.name / "meta.json"
    if path.exists():
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
