"""Run of a study: search (validation folds only), reruns of the best trial with new seeds, then the test half.

A finished unit is a record on disk, and what to do next follows from the records alone: a `Plan` is made of them once,
then units are proposed, handed out, and their records written, until nothing is left.
"""

import contextlib
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dmlrc import data, errors, inputs, models, plan, preflight, records
from dmlrc.errors import DmlrcError, UsageError
from dmlrc.executors import Foreign, Serial, Workers, pool
from dmlrc.executors.cluster import Dask
from dmlrc.inputs import device, load_images, prepare
from dmlrc.methods import PRETRAINED, Method
from dmlrc.plan import Chain, Outdated, Plan, Unit, next_units
from dmlrc.protocol import Study
from dmlrc.records import provenance
from dmlrc.unit import failed, run_unit


def run(
    study: Study,
    methods: Sequence[Method] | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    proposals: int = 1,
    seconds: float | None = None,
    save_models: bool = False,
) -> None:
    """Run what is missing of a study; a record is written as each trial or rerun ends.

    Stopped at any moment, the next call goes on where this one was. What killed its workers is tried again. Records of
    a method that has changed since are not used: they are set aside, and what changed is said on standard error. (Of
    a loss of this library its name alone is known, see `dmlrc.records.fingerprint`.) Several processes may run a study
    at once, each other methods of it, as the jobs of an array do. Methods that need more data than there is are skipped
    with a message; the others run.

    Parameters
    ----------
    study : Study
    methods : sequence of Method, optional
        Only these, which need not be the study's own; default all of the study.
    executor : concurrent.futures.Executor, optional
        Of processes; for a Dask cluster `dmlrc.executors.cluster.Dask`. Default a `pool` of `workers`.
    workers : int, optional
        How many units are handed out at most at once; default as many as can run with an executor, else one. A cluster
        never gets more than its workers can run at once.
    proposals : int
        How many trials of a search run at a time; more finish earlier and search less well, see
        `dmlrc.plan.next_units`. The reruns after it run at a time as `workers` allow.
    seconds : float, optional
        After which this returns, whatever is left. No unit is begun of which the slowest so far would not end in time;
        what is still under way at the end is given up. This process alone cannot be stopped in a unit.
    save_models : bool
        Also keep the model of every rerun, beside its record (`dmlrc.records.model_path`), for `dmlrc.models.load`; a
        rerun without one is made again, and gives the same numbers.

    Raises
    ------
    UsageError
        For a name in the place of a study or a method, for a method that has the name of another one, for an executor
        of threads, for fewer trials than it was begun with, and where the data is too small for all methods,
        or for one of those that were asked for.
    DmlrcError
        Where another process runs one of them.
    """
    if isinstance(executor, ThreadPoolExecutor):
        raise UsageError("units cannot run in threads, whose random numbers would mix: use an executor of processes")
    if not isinstance(study, Study) or not all(isinstance(method, Method) for method in methods or ()):
        raise UsageError(
            "a study and its methods are wanted themselves, not their names: `dmlrc.studies.get` finds a study by its "
            "name, and the study's `method` one of its methods"
        )
    for name, count in (("proposals", proposals), ("workers", 1 if workers is None else workers)):
        if not isinstance(count, int) or count < 1:
            raise UsageError(f"{name} is {count}, and at least one at a time is wanted: give 1, or more")
    chosen = study.methods if methods is None else methods
    preflight.check_names(study, chosen)
    end = math.inf if seconds is None else time.monotonic() + seconds
    most = workers or (sys.maxsize if executor else 1)
    if executor and not isinstance(executor, Serial | Workers | Dask):  # which send by value themselves what they send
        executor = Foreign(executor)
    how, named = Dispatch(most, proposals, end), methods is not None
    with records.running(study.name, [method.name for method in chosen]) as refusal:
        todo = Plan(study, methods, models=save_models)
        carry_out(todo, how, refusal, executor, named)


def carry_out(
    todo: Plan, how: "Dispatch", refusal: DmlrcError | None, executor: Executor | None = None, named: bool = False
) -> None:
    """Run what a plan misses, and write each record as its unit ends; see `run`. named: whether every method must fit.

    refusal: what `records.running` yields, in whose block the plan was made; where nothing is missing it is no matter.
    """
    _check_trials(todo.study)
    if todo.is_done:
        _inputs(todo.study, todo.methods)
        return
    if any(map(todo.lacks_trials, todo.chains)):
        errors.require("search", "a search for hyperparameters")
    if refusal:
        raise refusal
    todo.leave_out(preflight.too_small(todo.study, todo.methods, named))
    for sentence in todo.warnings():
        print(sentence, file=sys.stderr)
    _run(todo, how, executor)
    for chain in todo.fruitless:
        last = todo.done(chain)[-1]
        print(
            f"{todo.study.name}: {chain.name} comes to no result, since every {last['kind']} {last['state']}: "
            f"{last['reason']}",
            file=sys.stderr,
        )


def _check_trials(study: Study) -> None:
    """Raise UsageError for a study that was begun with longer searches."""
    begun = None if study.is_cut else records.find(study.name)
    if begun and (trials := begun.meta["budget"]["trials"]) > study.budget.trials:
        raise UsageError(
            f"study {study.name!r} was begun with searches of {trials} trials, as its records say, and would now have "
            f"{study.budget.trials}: give it as many again, or another name"
        )


def _run(todo: Plan, how: "Dispatch", executor: Executor | None) -> None:
    """Run what is left of a plan, whose methods no other process runs."""
    study, methods = todo.study, todo.methods
    digests = _inputs(study, methods)
    inputs.renew(digests)
    if study.protocol.computes_once:  # here, with all threads, and not in each worker again
        prepare(study.dataset, study.effective_protocol, study.class_order, study.seed, study.contents)
    for outdated in todo.outdated:
        _set_aside(study, outdated)
    is_begun = False
    bar = tqdm(total=todo.total, initial=todo.finished, desc=study.name)
    # what is given up at the limit of time leaves by an error, on which a pool does not wait for it
    in_time = contextlib.suppress(_TimeUpError)
    with in_time, contextlib.nullcontext(executor) if executor else pool(how.most) as used, bar:
        for record in how.records(todo, digests, used, bar):
            unit = f"{record['method']} {record['kind']} {record['number']}"
            is_again = todo.has_result_of(record)
            if record["state"] == "complete" or not is_again:
                if is_begun:
                    is_new = _write(study.name, record)
                else:  # a run that fails before its first unit leaves nothing behind
                    is_new = _begin(study, methods, digests, record)
                    is_begun = True
                if is_again and is_new:
                    bar.write(f"{study.name}: {unit} was trained again for its model, and counts now", sys.stderr)
            todo.add(record)
            if record["state"] == "failed":
                bar.write(f"{study.name}: {unit} failed: {record['reason']}", file=sys.stderr)
            bar.update(todo.finished - bar.n)


def _begin(study: Study, methods: Sequence[Method], digests: Mapping[str, str], record: dict) -> bool:
    """Write the study's meta.json, of these methods, and the first record, as `_write`. digests: see `_inputs`."""
    with records.writing_meta(study.name) as path:  # the record too, for which another process looks then
        given = study, methods, digests
        records.write_sealed(path, _grown(*given, path) if records.is_begun(study.name) else _new(*given))
        return _write(study.name, record)


def _new(study: Study, methods: Sequence[Method], digests: Mapping[str, str]) -> dict[str, Any]:
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
        "changes": _changes({}, [*study.methods, *methods]),
        "inputs": digests,
        "sealed": True,
        "commit": provenance.commit(),
        "created": provenance.now(),
    }


def _grown(study: Study, methods: Sequence[Method], digests: Mapping[str, str], path: Path) -> dict[str, Any]:
    before = records.read_raw_meta(path)
    inputs.check_same(study.name, before.get("inputs", {}), digests)
    records.check_configuration(study.name, before, study.configuration())  # another process may have begun it
    settings = {method.name: dict(method.settings) for method in methods if method in study.methods}
    of_methods = {
        "settings": before.get("settings", {}) | settings,
        "changes": _changes(before.get("changes", {}), methods),
        "inputs": before.get("inputs", {}) | digests,
    }
    return before | records.grown(before, study.configuration()) | of_methods


def _inputs(study: Study, methods: Sequence[Method]) -> dict[str, str]:
    """Digests of what is read from files of a known name: the images of a data set, the weights of trunks.

    Raises DmlrcError where the study was begun with others.
    """
    digests = data.set_digests(study.dataset)
    for protocol in (study.protocol, *map(study.protocol_of, methods)):
        digests |= models.weights_digest(protocol.trunk, protocol.weights)
    if recorded := records.find(study.name):
        inputs.check_same(study.name, recorded.meta.get("inputs", {}), digests)
    return digests


def _changes(before: Mapping[str, Mapping], methods: Sequence[Method]) -> dict[str, dict]:
    """Changes that each method makes to the protocol, where it makes any. before: of those that may have run."""
    changes = {**before, **{method.name: dict(method.changes) for method in methods}}
    return {name: changed for name, changed in changes.items() if changed}


def _write(study: str, record: dict) -> bool:
    """Write a record, and before it the model that came with it; in the place of one that failed, or is stale.

    One of a rerun made again for its model alone, or of the untrained trunk, stays if the scores are the same: False.
    """
    model = record.pop("model", None)
    is_kept = (model or record["kind"] == PRETRAINED) and records.is_repeated(record, study)
    if not is_kept:
        records.set_aside(study, [record])
    if model:
        records.write_whole(records.model_path(record, study), model)
    if not is_kept:
        records.write_unit(record, study)
    return not is_kept


def _set_aside(study: Study, outdated: Outdated) -> None:
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
    """Raised where units are under way when the time is over."""


MOST_DEATHS = 3
"""How many workers a unit may kill before it is recorded as failed."""
_GLANCE = 10  # seconds between checks for new workers


@dataclass
class _Task:
    """A unit on its way: how many workers it has killed, and when it was handed out."""

    unit: Unit
    chain: Chain
    deaths: int = 0
    begun: float = field(default_factory=time.monotonic)


@dataclass
class Dispatch:
    """Hands units out: `most` at once, a search's trials `proposals` at a time, until `end` by the monotonic clock."""

    most: int
    proposals: int = 1
    end: float = math.inf
    slowest: float = 0.0  # seconds of the unit that took longest so far, from when it was handed out

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return max(0.0, self.end - time.monotonic())

    def records(self, todo: Plan, digests: Mapping[str, str], executor: Executor, bar: tqdm) -> Iterator[dict]:
        """Yield each record as its unit ends; the caller adds it to the plan before the chain's next are proposed.

        A method's trials follow one another, since each is proposed from those before it, and its reruns run side by
        side; as many units run at once as a cluster has workers, which may come and go. digests: see `_inputs`.
        """
        # start the slowest methods first, the last ones of a list, so that no worker idles at the end
        waiting = todo.chains[::-1]
        waiting.sort(key=lambda chain: chain.repetition)
        ready: list[_Task] = []
        pending: dict[Future, _Task] = {}
        try:
            while waiting or ready or pending:
                width = min(self.most, executor.slots())
                while (waiting or ready) and len(pending) < width and self.left > self.slowest:
                    if not ready:
                        chain = waiting.pop(0)
                        units = next_units(todo.study, chain, todo.done(chain), self.proposals)
                        ready = [_Task(replace(unit, inputs=digests, keeps_model=todo.models), chain) for unit in units]
                        continue
                    task = ready.pop(0)
                    bar.set_postfix_str(str(task.unit))
                    task.begun = time.monotonic()
                    pending[executor.submit(run_unit, task.unit)] = task
                if not pending:  # what is left would not end in time
                    return
                for task, record in self._ended(pending, bar):
                    if record is None:
                        ready.insert(0, task)
                        break  # at once, for an executor whose processes are gone says so
                    yield record
                    if all(other.chain is not task.chain for other in (*ready, *pending.values())):
                        waiting.insert(0, task.chain)  # its next units wait for all that run side by side
        except Exception:  # what ended well beside it is recorded all the same
            yield from [future.result() for future in pending if future.done() and not future.exception()]
            for future in pending:  # which another's executor would run to its end, and nobody record
                future.cancel()
            raise

    def _ended(self, pending: dict[Future, _Task], bar: tqdm) -> Iterator[tuple[_Task, dict | None]]:
        """Wait for some tasks, and yield each with its record; None where its worker died and it is to run again."""
        finished, _ = wait(pending, timeout=min(_GLANCE, self.left), return_when=FIRST_COMPLETED)
        if not finished and not self.left:
            raise _TimeUpError
        for future in finished:
            task = pending.pop(future)
            self.slowest = max(self.slowest, time.monotonic() - task.begun)
            if not isinstance(future.exception(), BrokenProcessPool):
                yield task, future.result()
                continue
            task.deaths += 1
            bar.write(f"the worker that ran {task.unit} died ({task.deaths} of {MOST_DEATHS} times)", file=sys.stderr)
            reason = (
                f"each of {task.deaths} workers that ran it died, perhaps for want of memory; the next "
                "`dmlrc study run` tries it again"
            )
            yield task, failed(task.unit, reason) if task.deaths == MOST_DEATHS else None


def export(study: Study) -> Path:
    """Write the records made here to results/, to be committed; a study is published once it is complete."""
    if records.is_begun(study.name):  # with --repetitions it may have more than are its own
        begun = records.load(study.name).meta.get("repetitions", 1)
        study = replace(study, repetitions=max(study.repetitions, begun))
    finished, total = plan.progress(study)
    return records.export_records(study.name, finished == total)
