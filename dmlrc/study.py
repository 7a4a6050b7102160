"""A study: protocol x data set x methods x budget, and how one is run.

The order of things: search (validation folds only), reruns of the best trial with new seeds, then
`test_scores`, the one function that reads the test half. The unit of work is a trial or a rerun, with its
runs on all folds; a finished unit is a record on disk, and what to do next follows from the records.
"""

import contextlib
import functools
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context, parent_process
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from dmlrc import data, metrics, models, paths, provenance, records, search, training
from dmlrc.data import splits as class_splits
from dmlrc.errors import DmlrcError, UsageError, unknown
from dmlrc.methods import Method, normalized
from dmlrc.papers import musgrave2020
from dmlrc.protocol import Budget, Protocol
from dmlrc.records import PRETRAINED
from dmlrc.sources import FeatureSource, ImageSource, frozen_features

TEST_METRICS = ("precision_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "r_precision", "map_at_r")


@dataclass(frozen=True)
class Study:
    """What is run: a protocol on a data set, with a budget. Its name is all that a reader needs to rerun it.

    class_order: "default" (the data set's own) or "random" (seeded by seed).
    expected: the time that the whole study takes, and on what; shown by `dmlrc study list`.
    """

    name: str
    dataset: str
    protocol: Protocol
    budget: Budget
    methods: tuple[Method, ...] = field(default=musgrave2020.METHODS, repr=False)
    seed: int = 0
    class_order: str = "default"
    expected: str = ""

    @property
    def effective_protocol(self) -> Protocol:
        """The protocol with the budget's caps applied: what is really run."""
        caps = {
            name: min(cap, getattr(self.protocol, name))
            for name in ("max_epochs", "iterations_per_epoch")
            if (cap := getattr(self.budget, name)) is not None
        }
        return replace(self.protocol, **caps)

    def method(self, name: str) -> Method:
        """The method of this name."""
        for method in self.methods:
            if method.name == name:
                return method
        raise unknown(f"method of study {self.name}", name, [method.name for method in self.methods])

    def configuration(self) -> dict:
        """Everything that a record depends on, but its method, as plain data."""
        return {
            "study": self.name,
            "dataset": self.dataset,
            "protocol": asdict(self.effective_protocol),
            "budget": asdict(self.budget),
            "seed": self.seed,
            "class_order": self.class_order,
        }


@dataclass(frozen=True)
class Unit:
    """A trial or a rerun of one method, everything that it needs: it can be sent to another process."""

    dataset: str
    protocol: Protocol
    class_order: str
    study_seed: int
    method: Method | None  # None: the pretrained trunk
    kind: str  # "trial", "rerun" or "pretrained"
    number: int
    params: dict[str, float]


@dataclass(frozen=True)
class Bench:
    """A data set made ready for a protocol: labels (N,), splits, input, and a way to build untrained models."""

    labels: np.ndarray
    splits: class_splits.Splits
    source: training.Source
    protocol: Protocol

    def make_model(self) -> models.EmbeddingModel:
        trunk = (
            models.FeatureTrunk(self.source.features.shape[1]) if self.protocol.frozen_trunk else _trunk(self.protocol)
        )
        return models.EmbeddingModel(trunk, self.protocol.embedding_dim)


def device() -> torch.device:
    """Where training runs: $DMLRC_DEVICE, else a GPU if there is one, else the CPU."""
    return torch.device(os.environ.get("DMLRC_DEVICE", "cuda" if torch.cuda.is_available() else "cpu"))


def _trunk(protocol: Protocol) -> torch.nn.Module:
    return models.freeze_batch_norm(models.create_trunk(protocol.trunk, protocol.weights))


@functools.lru_cache(maxsize=2)
def prepare(dataset: str, protocol: Protocol, class_order: str, seed: int) -> Bench:
    """Load the images, split the classes, and compute the features of a frozen trunk (cached on disk)."""
    # characters are augmented at the size that the trunk sees; photographs are cropped from what is stored
    images = data.load(dataset, size=protocol.image_size if protocol.augmentation == "affine" else None)
    splits = class_splits.halves(images.labels, folds=protocol.folds, order=class_order, seed=seed)
    if protocol.frozen_trunk:
        source = FeatureSource(frozen_features(images, protocol, device()), device())
    else:
        source = ImageSource(images, protocol, device())
    return Bench(images.labels, splits, source, protocol)


def run_unit(unit: Unit) -> dict:
    """Run one trial or rerun, and return its record. On the CPU it uses one thread."""
    if device().type == "cpu":
        torch.set_num_threads(1)
    bench = prepare(unit.dataset, unit.protocol, unit.class_order, unit.study_seed)
    started = time.perf_counter()
    record = {"kind": unit.kind, "number": unit.number, "params": unit.params, "commit": provenance.commit()}
    if unit.method is None:
        return record | {"method": PRETRAINED, "state": "complete", "runs": [], "scores": pretrained_scores(bench)}
    runs = _train_folds(unit, bench)
    last = runs[-1]
    record |= {
        "method": unit.method.name,
        "state": last.state,
        "reason": last.reason,
        "value": float(np.mean([run.val["map_at_r"] for run in runs])) if last.state == "complete" else None,
        "steps": sum(run.steps for run in runs),
        "runs": [{name: value for name, value in vars(run).items() if name != "weights"} for run in runs],
    }
    if unit.kind == "rerun" and last.state == "complete":
        record["scores"] = test_scores(bench, unit.method, [run.weights for run in runs])
    return record | {"seconds": time.perf_counter() - started, "finished": provenance.now()}


def _train_folds(unit: Unit, bench: Bench) -> list[training.Run]:
    """Train on each fold in turn; the first that diverges is the last, since it fails the whole trial."""
    runs = []
    for number, fold in enumerate(bench.splits.folds):
        member = training.Member(number, member_seed(unit, number), fold.train, fold.val)
        runs.append(
            training.train(
                member, bench.source, bench.labels, bench.make_model, unit.method, unit.params, unit.protocol
            )
        )
        if runs[-1].state != "complete":
            break
    return runs


def member_seed(unit: Unit, fold: int) -> int:
    """The seed of one run. It does not depend on the method, so that methods are compared on paired seeds."""
    kind = ("trial", "rerun").index(unit.kind)
    return int(np.random.SeedSequence([unit.study_seed, kind, unit.number, fold]).generate_state(1)[0])


def test_scores(
    bench: Bench, method: Method, weights: Sequence[dict[str, torch.Tensor]]
) -> dict[str, dict[str, float]]:
    """Accuracy on the test half: this function reads it, after the search, and no other one that trains does.

    weights: the best checkpoint of each fold. Returns {"fold0": {metric: value}, ..., "separated": the mean
    over the folds' models, "concatenated": of their joined, re-normalised embeddings} (section 3.2).
    """
    model, labels = bench.make_model().to(bench.source.device), bench.labels[bench.splits.test]
    model.normalize = normalized(method)
    embeddings = []
    for state in weights:
        model.load_state_dict(state)
        embeddings.append(training.embed(model, bench.source, bench.splits.test))  # (N, D)
    folds = [metrics.evaluate(each, labels, names=TEST_METRICS) for each in embeddings]
    joined = torch.nn.functional.normalize(torch.cat(embeddings, dim=1))  # (N, F * D)
    return {
        **{f"fold{number}": scores for number, scores in enumerate(folds)},
        "separated": {name: float(np.mean([scores[name] for scores in folds])) for name in TEST_METRICS},
        "concatenated": metrics.evaluate(joined, labels, names=TEST_METRICS),
    }


def pretrained_scores(bench: Bench) -> dict[str, dict[str, float]]:
    """The row "Pretrained" of the paper: trunk features of the test half, standardised, PCA, L2-normalised.

    PCA is fitted on the evaluated set, as in the paper, to D dimensions (separated) and F * D (concatenated),
    or to as many as there are features.
    """
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    if bench.protocol.frozen_trunk:
        features = bench.source.evaluate(bench.splits.test)
    else:
        with torch.random.fork_rng():
            torch.manual_seed(0)  # a trunk without weights is random, but the same on every run
            trunk = _trunk(bench.protocol).to(bench.source.device)
        features = training.embed(trunk, bench.source, bench.splits.test)
    standard = StandardScaler().fit_transform(features.cpu().numpy())
    labels = bench.labels[bench.splits.test]
    scores = {}
    for setting, copies in (("separated", 1), ("concatenated", bench.protocol.folds)):
        dim = min(copies * bench.protocol.embedding_dim, *standard.shape)
        reduced = torch.from_numpy(PCA(dim, random_state=0).fit_transform(standard)).float()
        scores[setting] = metrics.evaluate(torch.nn.functional.normalize(reduced), labels, names=TEST_METRICS)
    return scores


def next_unit(study: Study, method: Method | None, done: Sequence[dict]) -> Unit | None:
    """What a method needs next, from its records alone: a trial, then a rerun of the best, then nothing."""
    make = functools.partial(Unit, study.dataset, study.effective_protocol, study.class_order, study.seed, method)
    if method is None:
        return None if done else make("pretrained", 0, {})
    trials = sorted((unit for unit in done if unit["kind"] == "trial"), key=lambda unit: unit["number"])
    reruns = {unit["number"] for unit in done if unit["kind"] == "rerun"}
    if len(trials) < study.budget.trials:
        return make("trial", len(trials), search.propose(method, trials, study.seed))
    best = search.best(trials)
    missing = [number for number in range(study.budget.reruns) if number not in reruns]
    if best is None or not missing:
        return None
    return make("rerun", missing[0], dict(best["params"]))


def run(
    study: Study, methods: Sequence[Method] | None = None, executor: Executor | None = None, workers: int = 1
) -> None:
    """Run what is missing of a study; a record is written as each trial or rerun ends.

    methods: only these, which need not be the study's own; default all of the study. executor: any
    `concurrent.futures.Executor`, a Dask cluster's included; default this process, or `workers` processes.
    Stopped at any moment, the next call goes on where this one was.
    """
    methods = [None, *(study.methods if methods is None else methods)]  # None stands for the pretrained trunk
    done = _done(study, methods)
    if not any(next_unit(study, method, done[_name(method)]) for method in methods):
        return
    _begin(study)
    width = workers if executor is None else len(methods)
    pool = contextlib.nullcontext(executor) if executor else _Serial() if workers == 1 else _processes(workers)
    total = 1 + (len(methods) - 1) * (study.budget.trials + study.budget.reruns)
    with pool as pool, tqdm(total=total, initial=sum(map(len, done.values())), desc=study.name) as bar:
        for record in _work(study, methods, done, pool, width, bar):
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
                    f"a worker of study {study.name} died, perhaps for want of memory: start again with fewer "
                    "workers; finished records are kept"
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
        "commit": provenance.commit(),
        "created": provenance.now(),
    }
    records.write_json(path, meta)


class _Serial(Executor):
    """Runs each task in this process, at once."""

    def submit(self, fn, /, *args, **kwargs) -> Future:
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def _processes(workers: int) -> ProcessPoolExecutor:
    # one thread a worker: two threads of one process and a busy neighbour slow each other badly
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """End this worker when the process that started it is gone, even killed: nobody would take its results."""

    def watch() -> None:
        parent_process().join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
