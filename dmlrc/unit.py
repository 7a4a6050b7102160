"""The unit of work: a trial or a rerun of one method, with its runs on all folds; what it leaves is one record."""

import time
from collections.abc import Sequence
from dataclasses import fields
from importlib.metadata import version

import numpy as np
import torch

from dmlrc import data, inputs, models, preflight, training
from dmlrc.building import normalized
from dmlrc.data.splits import meta_labels
from dmlrc.errors import DivergedError, DmlrcError, LossError, lacks_memory
from dmlrc.evaluation import pretrained_scores, test_embeddings, test_results
from dmlrc.inputs import PreparedData, device, load_images, prepare
from dmlrc.methods import PRETRAINED, Choice
from dmlrc.models import saved
from dmlrc.models.settings import settled
from dmlrc.plan import Unit
from dmlrc.records import provenance


def run_unit(unit: Unit) -> dict:
    """Run one trial or rerun, and return its record, with "model" (bytes) where the unit keeps it. On the CPU it uses
    one thread.

    The process keeps its own settings: what a unit needs is put back after it, since it may run in a notebook.

    Raises LossError where a loss of one's own fails in a rerun or in the first trial of a search; a later trial is
    recorded as failed.
    """
    with settled(device(), unit.protocol.precision):
        _check_inputs(unit)
        prepared = prepare(unit.dataset, unit.protocol, unit.class_order, unit.study_seed, unit.contents)
        started = time.perf_counter()
        record = _identity(unit)
        if unit.method is None:
            return record | {"state": "complete", "runs": [], "scores": pretrained_scores(prepared)}
        try:
            runs = training.train(fold_runs(unit, prepared), _task(unit, prepared))
        except LossError as error:
            if (unit.kind, unit.number) == ("trial", 0) or unit.kind == "rerun":
                raise
            lacked_memory = lacks_memory(error.__cause__)  # which may be over
            return failed(unit, str(error), 0.0 if lacked_memory else time.perf_counter() - started)
        last = runs[-1]
        record |= {
            "state": last.state,
            "reason": last.reason,
            "value": _value(runs),
            "steps": sum(run.steps for run in runs),
            "runs": [{name: value for name, value in vars(run).items() if name != "weights"} for run in runs],
        }
        if unit.kind == "rerun" and last.state == "complete":
            try:
                record |= test_results(prepared, unit.method, runs)
            except DivergedError as error:  # on images that no run of it has seen
                record |= {"state": "diverged", "reason": f"on the test images {error}", "value": None}
            if unit.keeps_model and record["state"] == "complete":
                record["model"] = saved.pack(_configuration(unit, len(runs)), [run.weights for run in runs])
        return record | {"seconds": time.perf_counter() - started, "finished": provenance.now()}


def _configuration(unit: Unit, count: int) -> saved.Configuration:
    protocol, images = unit.protocol, load_images(unit.dataset, unit.protocol)
    shape = data.extent(images.photographs)[2] if isinstance(images, data.FeatureSet) else images.shape
    shared = {field.name for field in fields(saved.Configuration)} & {field.name for field in fields(protocol)}
    settings = {name: getattr(protocol, name) for name in shared}
    return saved.Configuration(
        **settings,
        normalize=normalized(unit.method),
        channels=shape[0],
        side=shape[-1],
        models=count,
        study=unit.study,
        dataset=unit.dataset,
        method=unit.method.name,
        params=unit.params,
        commit=provenance.commit(),
        digests=models.weights_digest(protocol.trunk, protocol.weights) if protocol.computes_once else {},
    )


def embeddings_of(unit: Unit) -> tuple[np.ndarray, torch.Tensor]:
    """Run a rerun once more for its test images: positions (N,), embeddings (N, F * D). It may raise DivergedError."""
    with settled(device(), unit.protocol.precision):
        _check_inputs(unit)
        prepared = prepare(unit.dataset, unit.protocol, unit.class_order, unit.study_seed, unit.contents)
        runs = training.train(fold_runs(unit, prepared), _task(unit, prepared))
        if runs[-1].state != "complete":
            raise DivergedError(runs[-1].reason)
        return prepared.splits.test, test_embeddings(prepared, unit.method, runs)


def _check_inputs(unit: Unit) -> None:
    """Raise DmlrcError where the images or weights are others than those that the study began with."""
    if data.contents(unit.dataset) != unit.contents:
        raise DmlrcError(
            f"the images of {unit.dataset!r} have changed since study {unit.study!r} was begun: put them back, or give "
            "the study another name"
        )
    now = models.weights_digest(unit.protocol.trunk, unit.protocol.weights)
    inputs.check_same(unit.study, unit.inputs, now)
    inputs.renew(unit.inputs)


def _task(unit: Unit, prepared: PreparedData) -> training.Task:
    """Settings that the runs of a unit share. Raises UsageError or LossError for a loss that cannot be trained."""
    own = not isinstance(unit.method.loss, str)
    if unit.number == 0 and (own or 1 in (unit.method.classes_per_batch, unit.method.images_per_class)):
        # once is enough, and ours all train where a batch has positive and negative pairs
        classes = np.unique(prepared.labels[prepared.splits.folds[0].train])
        preflight.check_trains(unit.method, unit.protocol, unit.protocol.meta_classes or len(classes))
    given = unit.method, unit.params, prepared.source, prepared.labels, prepared.make_model
    return training.Task(*given, unit.protocol)


def _identity(unit: Unit) -> dict:
    """Part of a record that says which unit it is, and where it was run."""
    method = unit.method
    return {
        "study": unit.study,
        "digest": unit.digest,
        "method": method.name if method else PRETRAINED,
        "fingerprint": unit.fingerprint,
        "row": method.row if method else PRETRAINED,
        "level": method.level if method else None,
        "level_number": method.level_number if method else None,
        "repetition": unit.repetition,
        "kind": unit.kind,
        "number": unit.number,
        "proposals": unit.proposals,
        "params": unit.params,
        "space": {
            name: {"choices": list(space.values)} if isinstance(space, Choice) else [space.low, space.high]
            for name, space in (method.space.items() if method else ())
        },
        "commit": provenance.commit(),
        "processor": provenance.processor(),
        "device": provenance.device_name(device()),
        "torch": version("torch"),
    }


def failed(unit: Unit, reason: str, seconds: float = 0.0) -> dict:
    """The record of a unit that could not be run to its end. seconds: 0 where it ended its process."""
    outcome = {"state": "failed", "reason": reason, "value": None, "steps": 0, "runs": [], "seconds": seconds}
    return _identity(unit) | outcome | {"finished": provenance.now()}


def fold_runs(unit: Unit, prepared: PreparedData) -> list[training.FoldRun]:
    """The runs of a unit: one a fold, or in an ensemble several a fold, each with a partition of its own."""
    runs = []
    for fold in prepared.splits.folds:
        for _ in range(unit.protocol.members):
            number = len(runs)
            seed, targets = run_seed(unit, number), None
            if unit.protocol.meta_classes:
                targets = meta_labels(prepared.labels[fold.train], unit.protocol.meta_classes, seed)
            runs.append(training.FoldRun(number, seed, fold.train, fold.val, targets))
    return runs


def _value(runs: Sequence[training.TrainingRun]) -> float | None:
    """Mean validation MAP@R; None where a run diverged or nothing validates."""
    if runs[-1].state != "complete" or not runs[-1].val:
        return None
    return float(np.mean([run.val["map_at_r"] for run in runs]))


def run_seed(unit: Unit, fold: int) -> int:
    """The seed of one run, whatever the method, so that all methods begin with the same weights of the embedder."""
    kind = ("trial", "rerun").index(unit.kind)
    return int(np.random.SeedSequence([unit.seed, kind, unit.number, fold]).generate_state(1)[0])
