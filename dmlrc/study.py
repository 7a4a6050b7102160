"""A study: protocol x data set x methods x budget, and how one is run.

The order of things: search (validation folds only), reruns of the best trial with new seeds, then
`test_results`, the one function that reads the test half. The unit of work is a trial or a rerun, with its
runs on all folds; a finished unit is a record on disk, and what to do next follows from the records.
"""

import contextlib
import functools
import os
import pickle
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

from dmlrc import data, ensembles, metrics, models, paths, provenance, records, search, training
from dmlrc.data import splits as class_splits
from dmlrc.errors import DmlrcError, UsageError, unknown
from dmlrc.methods import Method, normalized
from dmlrc.metrics.histograms import pair_histograms
from dmlrc.metrics.spectrum import spectrum
from dmlrc.papers import musgrave2020
from dmlrc.protocol import Budget, Protocol
from dmlrc.records import PRETRAINED
from dmlrc.sources import FeatureSource, ImageSource, frozen_features


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

    def __post_init__(self):
        if self.budget.trials > 1 and not self.protocol.validates:
            raise UsageError(f"study {self.name} searches without validation: give it no trials, or folds")

    @property
    def effective_protocol(self) -> Protocol:
        """The protocol with the budget's caps applied: what is really run."""
        caps = {
            name: cap if (value := getattr(self.protocol, name)) is None else min(cap, value)
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

    def protocol_of(self, method: Method | None) -> Protocol:
        """What is really run of a method; None: of the pretrained trunk."""
        return replace(self.effective_protocol, **method.changes) if method else self.effective_protocol

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
    """A data set made ready for a protocol: labels (N,), splits, input, and a way to build untrained models.

    queries: the test images that are searched for among the other ones; None where every test image is both.
    """

    labels: np.ndarray
    splits: class_splits.Splits
    source: training.Source
    protocol: Protocol
    queries: np.ndarray | None = None

    def make_model(self) -> models.EmbeddingModel:
        trunk = (
            models.FeatureTrunk(self.source.features.shape[1]) if self.protocol.frozen_trunk else _trunk(self.protocol)
        )
        return models.EmbeddingModel(trunk, self.protocol.embedding_dim, layer_norm=self.protocol.layer_norm)


def device() -> torch.device:
    """Where training runs: $DMLRC_DEVICE, else a GPU if there is one, else the CPU."""
    return torch.device(os.environ.get("DMLRC_DEVICE", "cuda" if torch.cuda.is_available() else "cpu"))


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


def _trunk(protocol: Protocol) -> torch.nn.Module:
    trunk = models.create_trunk(protocol.trunk, protocol.weights)
    return models.freeze_batch_norm(trunk) if protocol.freeze_batch_norm else trunk


@functools.lru_cache(maxsize=4)
def prepare(dataset: str, protocol: Protocol, class_order: str, seed: int) -> Bench:
    """Load the images, split the classes, and compute the features of a frozen trunk (cached on disk)."""
    images = _images(dataset, protocol)
    splits = _split(images, protocol, class_order, seed)
    if protocol.frozen_trunk:
        source = FeatureSource(_features(dataset, _input(protocol)), device())
    else:
        source = ImageSource(images, protocol, device())
    return Bench(images.labels, splits, source, protocol, _queries(images, splits.test))


def _images(dataset: str, protocol: Protocol) -> data.ImageSet:
    # characters are augmented at the size that the trunk sees; photographs are cropped from what is stored
    stored_as_seen = protocol.augmentation == "affine" or protocol.square == "squash"
    return data.load(dataset, size=protocol.image_size if stored_as_seen else None, square=protocol.square)


INPUT = ("trunk", "weights", "frozen_trunk", "image_size", "crop_size", "augmentation", "square")
"""The settings on which the features of a frozen trunk depend."""


def _input(protocol: Protocol) -> Protocol:
    """A protocol that differs from others of the same input in nothing."""
    return replace(musgrave2020.PROTOCOL, **{name: getattr(protocol, name) for name in INPUT})


@functools.lru_cache(maxsize=2)
def _features(dataset: str, protocol: Protocol) -> np.ndarray:
    """The features of a frozen trunk; kept, since the rows of a sweep share them."""
    return frozen_features(_images(dataset, protocol), protocol, device())


def _split(images: data.ImageSet, protocol: Protocol, class_order: str, seed: int) -> class_splits.Splits:
    if protocol.split == "ratio_4_1_5":
        return class_splits.ratio_4_1_5(images.labels, order=class_order, seed=seed)
    if protocol.split == "official":
        if images.partition is None:
            raise UsageError(f"data set {images.name} has no official split: use 'halves'")
        return class_splits.official(images.labels, images.partition, folds=protocol.folds)
    return class_splits.halves(images.labels, folds=protocol.folds, order=class_order, seed=seed)


def _queries(images: data.ImageSet, test: np.ndarray) -> np.ndarray | None:
    """Of the test images those that the data set names queries, if it does (In-Shop)."""
    if images.partition is None or not np.any(images.partition[test] == "query"):
        return None
    return test[images.partition[test] == "query"]


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
        "value": _value(runs),
        "steps": sum(run.steps for run in runs),
        "runs": [{name: value for name, value in vars(run).items() if name != "weights"} for run in runs],
    }
    if unit.kind == "rerun" and last.state == "complete":
        record |= test_results(bench, unit.method, runs)
    return record | {"seconds": time.perf_counter() - started, "finished": provenance.now()}


def _train_folds(unit: Unit, bench: Bench) -> list[training.Run]:
    """Train on each fold in turn; the first that diverges is the last, since it fails the whole trial."""
    runs = []
    for member in members(unit, bench):
        runs.append(
            training.train(
                member, bench.source, bench.labels, bench.make_model, unit.method, unit.params, unit.protocol
            )
        )
        if runs[-1].state != "complete":
            break
    return runs


def members(unit: Unit, bench: Bench) -> list[training.Member]:
    """The runs of a unit: one a fold, or in an ensemble several a fold, each with a partition of its own."""
    made = []
    for fold in bench.splits.folds:
        for _ in range(unit.protocol.members):
            number = len(made)
            seed, targets = member_seed(unit, number), None
            if unit.protocol.meta_classes:
                targets = ensembles.meta_labels(bench.labels[fold.train], unit.protocol.meta_classes, seed)
            made.append(training.Member(number, seed, fold.train, fold.val, targets))
    return made


def _value(runs: Sequence[training.Run]) -> float | None:
    """Mean validation MAP@R; None where a run diverged or nothing validates."""
    if runs[-1].state != "complete" or not runs[-1].val:
        return None
    return float(np.mean([run.val["map_at_r"] for run in runs]))


def member_seed(unit: Unit, fold: int) -> int:
    """The seed of one run. It does not depend on the method, so that methods are compared on paired seeds."""
    kind = ("trial", "rerun").index(unit.kind)
    return int(np.random.SeedSequence([unit.study_seed, kind, unit.number, fold]).generate_state(1)[0])


def test_results(bench: Bench, method: Method, runs: Sequence[training.Run]) -> dict[str, dict]:
    """Scores and arrays of a rerun: this function reads the test half, after the search, and no other that trains does.

    runs: one a fold, with its best checkpoint.
    "scores" holds {"fold0": {metric: value}, ..., "separated": the mean over the folds' models, "concatenated": of
    their joined, re-normalised embeddings} (Reality Check, section 3.2); where there is a single model, "separated"
    only. With `binary` each of them is there as "..._binary" too, and with `train_metrics` "train": the mean over the
    models, each on its own training images.
    "arrays" holds {"test", "train", "untrained": {name: list}} of the first model, see `arrays_of`; "untrained" are the
    test images before its first step.
    """
    protocol, test = bench.protocol, bench.splits.test
    train = [fold.train for fold in bench.splits.folds for _ in range(protocol.members)]  # of each run
    trained = [_restored(bench, method, run) for run in runs]
    embeddings = [training.embed(model, bench.source, test) for model in trained]  # (N, D) each
    scores = _test_scores(bench, embeddings)
    if protocol.binary:
        scores |= {f"{name}_binary": values for name, values in _test_scores(bench, embeddings, binary=True).items()}
    if protocol.train_metrics:
        seen = [training.embed(model, bench.source, images) for model, images in zip(trained, train, strict=True)]
        scores["train"] = _mean(
            [
                metrics.evaluate(each, bench.labels[images], protocol.train_metrics)
                for each, images in zip(seen, train, strict=True)
            ]
        )
    if not protocol.arrays:
        return {"scores": scores}
    views = {
        "test": (trained[0], test),
        "train": (trained[0], train[0]),
        "untrained": (_untrained(bench, method, runs[0].seed), test),
    }
    arrays = {
        name: arrays_of(training.embed(model, bench.source, images), bench.labels[images], protocol.arrays)
        for name, (model, images) in views.items()
    }
    return {"scores": scores, "arrays": arrays}


def _test_scores(bench: Bench, embeddings: list[torch.Tensor], binary: bool = False) -> dict[str, dict[str, float]]:
    """The scores of each fold's embeddings of the test images (N, D), their mean, and those of all joined."""
    folds = [evaluate_test(bench, each, binary) for each in embeddings]
    if len(folds) == 1:
        return {"separated": folds[0]}
    joined = torch.nn.functional.normalize(torch.cat(embeddings, dim=1))  # (N, F * D)
    return {
        **{f"fold{number}": scores for number, scores in enumerate(folds)},
        "separated": _mean(folds),
        "concatenated": evaluate_test(bench, joined, binary),
    }


def evaluate_test(bench: Bench, embeddings: torch.Tensor, binary: bool = False) -> dict[str, float]:
    """The protocol's metrics of embeddings (N, D) of the test images; by Hamming distance, the retrieval ones only."""
    test, names, query = bench.splits.test, bench.protocol.test_metrics, None
    labels = bench.labels[test]
    if bench.queries is not None:
        asked = np.isin(test, bench.queries)
        query = (embeddings[asked], labels[asked])
        embeddings, labels = embeddings[~asked], labels[~asked]
    if binary:
        names = [name for name in names if metrics.retrieval.is_retrieval(name)]
        return metrics.evaluate_binary(embeddings, labels, names, query)
    return metrics.evaluate(embeddings, labels, names, query)


def arrays_of(embeddings: torch.Tensor, labels: np.ndarray, names: Sequence[str]) -> dict[str, list]:
    """What figures need of embeddings (N, D) beside scores.

    "histograms": edges, positive and negative, the counts of the inner products of all pairs (Oi et al. 2021).
    "spectrum": the singular values, descending (Roth et al. 2020).
    """
    arrays = {}
    if "histograms" in names:
        counted = pair_histograms(embeddings, labels)
        arrays |= {name: each.tolist() for name, each in zip(("edges", "positive", "negative"), counted, strict=True)}
    if "spectrum" in names:
        arrays["spectrum"] = spectrum(embeddings).tolist()
    return arrays


def _restored(bench: Bench, method: Method, run: training.Run) -> torch.nn.Module:
    """The model of a run at its best checkpoint."""
    model = _untrained(bench, method, run.seed)
    model.load_state_dict(run.weights)
    return model


def _untrained(bench: Bench, method: Method, seed: int) -> torch.nn.Module:
    """The model of a run before its first step."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = bench.make_model().to(bench.source.device)
    model.normalize = normalized(method)
    return model


def _mean(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([each[name] for each in scores])) for name in scores[0]}


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
    copies = {"separated": 1}
    if (models_joined := bench.protocol.folds * bench.protocol.members) > 1:
        copies["concatenated"] = models_joined
    scores = {}
    for setting, count in copies.items():
        dim = min(count * (bench.protocol.embedding_dim or features.shape[1]), *standard.shape)
        reduced = torch.from_numpy(PCA(dim, random_state=0).fit_transform(standard)).float()
        scores[setting] = evaluate_test(bench, torch.nn.functional.normalize(reduced))
    return scores


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


class _Serial(Executor):
    """Runs each task in this process, at once."""

    def submit(self, fn, /, *args, **kwargs) -> Future:
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def pool(workers: int) -> Executor:
    """What runs units: this process, or several of one thread each, which end with this one."""
    if workers == 1:
        return _Serial()
    # one thread a worker: two threads of one process and a busy neighbour slow each other badly
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    return _Processes(workers, mp_context=get_context("spawn"), initializer=_end_with_parent)


class _Processes(ProcessPoolExecutor):
    """Processes that also take a loss that a notebook defines, which they could not import by its name."""

    def submit(self, fn, /, *args, **kwargs) -> Future:
        import cloudpickle  # here, so that one process needs it not

        return super().submit(_unpacked, cloudpickle.dumps((fn, args, kwargs)))


def _unpacked(task: bytes):
    fn, args, kwargs = pickle.loads(task)
    return fn(*args, **kwargs)


def _end_with_parent() -> None:
    """End this worker when the process that started it is gone, even killed: nobody would take its results."""

    def watch() -> None:
        parent_process().join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
