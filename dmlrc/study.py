"""How a study is run: search (validation folds only), reruns of the best trial with new seeds, then the test half.

A finished unit is a record on disk, and what to do next follows from the records alone.
"""

import contextlib
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dmlrc import data, extras, fingerprint, models, papers, provenance, records, schedule
from dmlrc.cluster import Dask
from dmlrc.errors import DmlrcError, UsageError
from dmlrc.executors import pool
from dmlrc.inputs import device, load_images, prepare, split
from dmlrc.methods import Method
from dmlrc.protocol import COMPARISON, Study
from dmlrc.training import check_batches, check_choices, check_pairs
from dmlrc.unit import defaults, failed, run_unit


def run(
    study: Study,
    methods: Sequence[Method] | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    searched_only: bool = False,
    proposals: int = 1,
    seconds: float | None = None,
    save_models: bool = False,
) -> None:
    """Run what is missing of a study; a record is written as each trial or rerun ends.

    methods: only these, which need not be the study's own; default all of the study. executor: any
    `concurrent.futures.Executor` of processes, for a Dask cluster `dmlrc.cluster.Dask`; default a `pool` of `workers`.
    workers: how many units are handed out at most at once; default as many as can run with an executor, else one. A
    cluster never gets more than its workers can run at once. searched_only: the reruns of searches that are whole, and
    nothing else.
    proposals: how many trials of a search run at a time; more finish earlier and search less well, see
    `schedule.next_units`. The reruns after it run at a time as `workers` allow.
    seconds: after which this returns, whatever is left. No unit is begun of which the slowest so far would not end in
    time; what is still under way at the end is given up. This process alone cannot be stopped in a unit.
    save_models: also keep the model of every rerun, beside its record (`dmlrc.records.model_path`), for
    `dmlrc.models.load`; a rerun without one is made again, and gives the same numbers.
    Stopped at any moment, the next call goes on where this one was. A unit that failed is tried again. Records of a
    method that has changed since are not used: they are set aside, and what changed is said on standard error. (Of a
    loss of this library its name alone is known, see `dmlrc.fingerprint`.)

    Several processes may run a study at once, each other methods of it, as the jobs of an array do.

    A method for whose batches or splits the data is too small is left out, which is said too; all others are run.

    Raises UsageError for a name in the place of a study or a method, for a method that has the name of another one, for
    an executor of threads, and where the data is too small for all methods, or for one of those that were asked for;
    DmlrcError where another process runs one of them.
    """
    if isinstance(executor, ThreadPoolExecutor):
        raise UsageError("units cannot run in threads, whose random numbers would mix: use an executor of processes")
    if not isinstance(study, Study) or not all(isinstance(each, Method) for each in methods or ()):
        raise UsageError(
            "a study and its methods are wanted themselves, not their names: `dmlrc.studies.get` finds a study by its "
            "name, and the study's `method` one of its methods"
        )
    chosen = study.methods if methods is None else methods
    check_names(study, chosen)
    chains = schedule.chains(study, chosen)
    if searched_only:
        whole = schedule.searched(study)
        chains = [chain for chain in chains if chain[0] is None or chain in whole]
    for sentence in schedule.stale(study, chains) if study.kind != COMPARISON else []:  # there they are as expected
        print(sentence, file=sys.stderr)
    done, outdated = _finished(study, chains, save_models)
    if not outdated and not _lacking(study, chains, done):
        return
    if any(schedule.lacks_trials(study, chain, done) for chain in chains):
        extras.require("search", "a search for hyperparameters")
    limit = Limit(seconds)
    with records.running(study.name, [method.name for method, _ in chains if method]):
        _run(study, chosen, chains, executor, workers, proposals, limit, save_models, named=methods is not None)


def _finished(
    study: Study, chains: list[schedule.Chain], save_models: bool
) -> tuple[list[dict], list[schedule.Outdated]]:
    """As `schedule.finished`; where models are to be saved, a rerun that can have one and has none is not finished."""
    done, outdated = schedule.finished(study, chains)
    if save_models:
        done = [
            unit
            for unit in done
            if (unit["kind"], unit.get("state")) != ("rerun", "complete")
            or records.model_path(unit, study.name).exists()
        ]
    return done, outdated


def _lacking(study: Study, chains: list[schedule.Chain], done: list[dict]) -> bool:
    return any(schedule.next_units(study, *chain, done) for chain in chains)


def _run(
    study: Study,
    chosen: Sequence[Method],
    chains: list[schedule.Chain],
    executor: Executor | None,
    workers: int | None,
    proposals: int,
    limit: "Limit",
    save_models: bool,
    named: bool,
) -> None:
    """Run what is missing of these chains, whose methods no other process runs. named: whether they were asked for."""
    done, outdated = _finished(study, chains, save_models)
    if not outdated and not _lacking(study, chains, done):
        return
    fitting = _fitting(study, chosen, named)
    chains = [chain for chain in chains if chain[0] is None or chain[0] in fitting]
    if study.protocol.computes_once:  # here, with all threads, and not in each worker again
        with defaults():
            prepare(study.dataset, study.effective_protocol, study.class_order, study.seed, study.contents)
    for each in outdated:
        if each.method in {method.name for method in fitting}:  # else nothing would take the place of its records
            _set_aside(study, each)
    most = workers or (len(chains) * max(proposals, study.budget.reruns) if executor else 1)
    begun = False
    bar = tqdm(total=schedule.total(study, chains), initial=len(done), desc=study.name)
    # what is given up at the limit of time leaves by an error, on which a pool does not wait for it
    in_time = contextlib.suppress(_TimeUpError)
    with in_time, contextlib.nullcontext(executor) if executor else pool(most) as used, bar:
        for record in _work(study, chains, done, used, most, proposals, limit, save_models, bar):
            if not begun:  # a run that fails before its first unit leaves nothing behind
                _begin(study, fitting)
                begun = True
            _write(study.name, record)
            done.append(record)
            if record["state"] == "failed":
                what = f"{record['method']} {record['kind']} {record['number']}"
                bar.write(f"{study.name}: {what} failed: {record['reason']}", file=sys.stderr)
            bar.update()
    for method, repetition in chains:
        own = [unit for unit in done if method and (unit["method"], unit["repetition"]) == (method.name, repetition)]
        if own and not any(unit["state"] == "complete" for unit in own):
            print(
                f"{study.name}: {method.name} comes to no result, since every trial {own[-1]['state']}: "
                f"{own[-1]['reason']}",
                file=sys.stderr,
            )


def check_names(study: Study, methods: Sequence[Method]) -> None:
    """Raise UsageError for a method with the name of another one of the study, of the papers, or of these methods."""
    known = {}
    for each in (*(method for paper in papers.ALL for method in paper.methods), *study.methods):
        known.setdefault(each.name, []).append(fingerprint.of(each))
    for name, count in Counter(each.name for each in methods).items():
        if count > 1:
            raise UsageError(f"{count} methods are called {name!r}: give each a name of its own")
    for each in methods:
        check_choices(each, study.protocol_of(each))
        if each.name in known and fingerprint.of(each) not in known[each.name]:
            raise UsageError(
                f"there is another method {each.name!r}, whose records yours would mix with: give yours another name"
            )


def check(study: Study) -> None:
    """Raise UsageError where the data of a study is too small to train and score any of its methods."""
    _fitting(study, study.methods, named=False)


def _fitting(study: Study, methods: Sequence[Method], named: bool) -> list[Method]:
    """The methods whose splits and batches the data has room for; the others are named, and refused if `named`."""
    images, fitting, reasons = load_images(study.dataset, study.effective_protocol), [], {}
    for method in methods:
        protocol = study.protocol_of(method)
        try:
            splits = split(images, protocol, study.class_order, study.seed)
            check_batches(method, protocol, images.labels, splits, study.methods)
            check_pairs(images.labels, splits, protocol.validates)
            fitting.append(method)
        except UsageError as error:
            reasons[method.name] = str(error)
    if reasons and (named or not fitting):
        name, reason = next(iter(reasons.items()))
        raise UsageError(f"{name} does not fit data set {study.dataset!r}: {reason}")
    for name, reason in reasons.items():
        print(f"{study.name}: {name} is left out, {reason}", file=sys.stderr)
    return fitting


def _write(study: str, record: dict) -> None:
    """Write a record, and before it the model that came with it; in the place of one that failed, or is stale.

    A rerun that was made again for its model alone, and came to the same scores, keeps its record.
    """
    if model := record.pop("model", None):
        records.write_whole(records.model_path(record, study), model)
        if records.is_repeated(record, study):
            return
    records.set_aside(study, [record])
    records.write_unit(record, study)


def _set_aside(study: Study, outdated: schedule.Outdated) -> None:
    """Set the records of a method aside that has changed since, and say so."""
    folder = records.set_aside(study.name, outdated.units)
    kinds = Counter(unit["kind"] for unit in outdated.units)
    count = " and ".join(f"{number} {kind}{'s' if number > 1 else ''}" for kind, number in kinds.items())
    where = f"are kept in {folder}" if folder else "stay where they are, unused"
    print(
        f"{study.name}: method {outdated.method!r} has changed since it was run ({'; '.join(outdated.changed)}): "
        f"{count} will be made again; the earlier records {where}",
        file=sys.stderr,
    )


class _TimeUpError(Exception):
    """Some units are under way when the time is over."""


class Limit:
    """How long a call may work, in seconds from now; None: as long as it takes."""

    def __init__(self, seconds: float | None):
        self._end = math.inf if seconds is None else time.monotonic() + seconds
        self._slowest = 0.0

    @property
    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    @property
    def is_near(self) -> bool:
        """Whether a unit that takes as long as the slowest so far would not end in time."""
        return self.left <= self._slowest

    def took(self, seconds: float) -> None:
        """A unit has ended, from being handed out to its record."""
        self._slowest = max(self._slowest, seconds)


MOST_DEATHS = 3
"""How many workers a unit may kill before it is recorded as failed."""
_GLANCE = 10  # seconds after which a cluster is looked at again: workers may have come


def export(study: Study) -> Path:
    """Write the records made here to results/, to be committed; a study is published once it is complete."""
    if records.is_begun(study.name):  # with --repetitions it may have more than are its own
        begun = records.load(study.name).meta.get("repetitions", 1)
        study = replace(study, repetitions=max(study.repetitions, begun))
    made, total = schedule.progress(study)
    return records.export(study.name, made == total)


def _work(
    study: Study,
    chains: list[schedule.Chain],
    done: list[dict],
    pool: Executor,
    most: int,
    proposals: int,
    limit: Limit,
    save_models: bool,
    bar: tqdm,
) -> Iterator[dict]:
    """Yield each record as its unit ends; the caller adds it to `done` before the chain's next units are chosen.

    A method's trials follow one another, since each is proposed from those before it, alone or `proposals` at a time,
    and its reruns run side by side; `most` units run at once, or as many as a cluster's workers, which may come and go.
    """
    # the last methods first: SoftTriple's steps are the dearest, and a long chain at the end leaves workers idle
    waiting, ready, pending = chains[::-1], [], {}
    waiting.sort(key=lambda chain: chain[1])

    def hand_out(chain: schedule.Chain, unit: schedule.Unit, batch: list[schedule.Unit], deaths: int) -> None:
        bar.set_postfix_str(f"{schedule.method_name(chain[0])} {unit.kind} {unit.number}")
        try:
            begun = time.monotonic()
            pending[pool.submit(run_unit, unit)] = chain, unit, batch, deaths, begun
        except BrokenProcessPool:  # of an executor that starts no new process, unlike `Workers` and `Dask`
            raise DmlrcError(
                f"the executor's processes are gone, perhaps for want of memory, and {study.name} has work left: run "
                "it again, finished records are kept"
            ) from None

    try:
        while waiting or ready or pending:
            width = min(most, pool.slots()) if isinstance(pool, Dask) else most
            while (waiting or ready) and len(pending) < width and not limit.is_near:
                if ready:
                    hand_out(*ready.pop(0), deaths=0)
                else:
                    chain = waiting.pop(0)
                    batch = schedule.next_units(study, *chain, done, proposals)
                    batch = [replace(unit, keeps_model=save_models and unit.kind == "rerun") for unit in batch]
                    ready = [(chain, unit, batch) for unit in batch]
            if not pending:  # what is left would not end in time
                return
            finished, _ = wait(pending, timeout=min(_GLANCE, limit.left), return_when=FIRST_COMPLETED)
            if not finished and not limit.left:
                raise _TimeUpError
            for future in finished:
                chain, unit, batch, deaths, begun = pending.pop(future)
                limit.took(time.monotonic() - begun)
                if isinstance(future.exception(), BrokenProcessPool):
                    deaths += 1
                    name = f"{schedule.method_name(chain[0])} {unit.kind} {unit.number}"
                    bar.write(f"the worker that ran {name} died ({deaths} of {MOST_DEATHS} times)", file=sys.stderr)
                    if deaths < MOST_DEATHS:
                        hand_out(chain, unit, batch, deaths)
                        continue
                    yield failed(
                        unit,
                        f"each of {deaths} workers that ran it died, perhaps for want of memory; the next "
                        "`dmlrc study run` tries it again",
                    )
                else:
                    yield future.result()
                batch.remove(unit)
                if not batch:
                    waiting.insert(0, chain)
    except Exception:  # what ended well beside it is recorded all the same
        yield from [future.result() for future in pending if future.done() and not future.exception()]
        raise


def _begin(study: Study, methods: Sequence[Method]) -> None:
    """Write the study's meta.json, with the facts of its data set and of this machine; beside records it may grow.

    methods: those that are run, which need not be the study's own.
    """
    with records.writing_meta(study.name) as path:
        records.write_json(path, _meta(study, methods, path))


def _meta(study: Study, methods: Sequence[Method], path: Path) -> dict[str, Any]:
    if records.is_begun(study.name):
        begun = records.read_raw_meta(path)
        settings = {each.name: dict(each.settings) for each in methods if each in study.methods}
        of_methods = {
            "settings": begun.get("settings", {}) | settings,
            "changes": _changes(methods, begun.get("changes", {})),
        }
        before, inputs = begun.get("inputs", {}), _inputs(study)
        for what, told in inputs.items():
            if before.get(what, told) != told:
                raise DmlrcError(
                    f"the {what} are others than those with which study {study.name!r} was begun: put them back, or "
                    "give the study another name"
                )
        return begun | records.grown(begun, study.configuration()) | of_methods | {"inputs": before | inputs}
    images = load_images(study.dataset, study.effective_protocol)
    facts = {
        "name": study.dataset,
        "images": len(images.labels),
        "classes": len(images.class_names),
        "shape": list(images.shape),
    }
    return study.configuration() | {
        "data": facts,
        "environment": provenance.environment(device()),
        "settings": {method.name: dict(method.settings) for method in study.methods},
        "changes": _changes([*study.methods, *methods]),
        "inputs": _inputs(study),
        "commit": provenance.commit(),
        "created": provenance.now(),
    }


def _inputs(study: Study) -> dict[str, str]:
    """What is read from files of a known name, by its contents: the images of a data set, the weights of a trunk."""
    protocol = study.protocol
    told = {
        f"images of {study.dataset!r}": data.digest(study.dataset),
        f"weights {protocol.weights!r}": models.weights_digest(protocol.weights),
    }
    return {what: each for what, each in told.items() if each}


def _changes(methods: Sequence[Method], before: Mapping[str, Mapping] | None = None) -> dict[str, dict]:
    """What each method changes of the protocol, where it changes something. before: of those that may have run then."""
    told = {**(before or {}), **{method.name: dict(method.changes) for method in methods}}
    return {name: changes for name, changes in told.items() if changes}
