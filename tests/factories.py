"""Made-up records for the tests of tables, figures and chapters; nothing of it reaches the book."""

import functools
import re
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import papermill

from dmlrc import paths, records, studies
from dmlrc import unit as units
from dmlrc.data import registry
from dmlrc.methods import Int
from dmlrc.papers import musgrave2020
from dmlrc.protocol import Budget
from dmlrc.records import COLUMNS
from dmlrc.report import engine
from dmlrc.report.claims import verdicts
from dmlrc.studies import experiments

METRICS = ("precision_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "r_precision", "map_at_r")


def fake_records(**settings):
    """StudyRecords with random numbers, the caller's own; see `fake_units`."""
    hashable = {name: tuple(each) if isinstance(each, list) else each for name, each in settings.items()}
    return records._copied(_fake_records(**hashable))


@functools.cache  # tests ask for the same ones hundreds of times
def _fake_records(**settings):
    return records.from_units(*fake_units(**settings))


def write_fake_study(**settings):
    """The same, as the files of a study under way, in runs/ below $DMLRC_HOME."""
    write_units(*fake_units(**settings))


def complete_with(monkeypatch, name, images, classes):
    """From now on the data set of this name is complete with so many images and classes."""
    monkeypatch.setitem(registry.SOURCES, name, replace(registry.SOURCES[name], images=images, classes=classes))


def write_units(units, meta):
    folder = paths.runs() / meta["study"]
    records.write_json(folder / "meta.json", meta)
    for each in units:
        records.write_json(folder / records.unit_path(each), each)


def write_fake_experiments(main, missing=()):
    """Made-up records of the experiments around a main study, as the files of studies under way."""
    rng = np.random.default_rng(1)
    for name, each in experiments.experiments_around(main).items():
        if name in missing:
            continue
        if each.budget.trials:
            settings = {"protocol": each.protocol, "trials": 3, "reruns": 3, "methods": each.methods}
            write_fake_study(study=each.name, dataset=each.dataset, **settings)
            continue
        meta = each.configuration() | FACTS | {"settings": {}}
        meta["changes"] = {method.name: dict(method.changes) for method in each.methods if method.changes}
        meta["data"] = {"name": each.dataset, "images": 1200, "classes": 180, "shape": [1, 28, 28]}
        units = [unit("pretrained", "pretrained", 0, [], scores={"separated": fake_metrics(rng, each.protocol)})]
        units += [
            fake_rerun(rng, each.protocol_of(method), method, number)
            for method in each.methods
            for number in range(each.budget.reruns)
        ]
        write_units(units, meta)


def without_checksum(path):
    """What a record says, as older ones said it, to be changed and written back."""
    return {name: value for name, value in records.read_json(path).items() if name not in ("checksum", "sealed")}


def fake_metrics(rng, protocol, names=None):
    return {name: float(rng.uniform(0.2, 0.6)) for name in (protocol.test_metrics if names is None else names)}


def fake_rerun(rng, protocol, method, number):
    """A rerun with everything that its protocol records."""
    settings = ["separated", *["separated_binary"] * protocol.binary, *["concatenated"] * (protocol.members > 1)]
    scores = {setting: fake_metrics(rng, protocol) for setting in settings}
    if protocol.train_metrics:
        scores["train"] = fake_metrics(rng, protocol, protocol.train_metrics)
    watched = protocol.val_metrics if protocol.validates else ()
    seen = [f"train_{name}" for name in protocol.train_metrics] if protocol.validates else []
    curve = [
        {"step": 10 * step, "loss": 1 / step, **fake_metrics(rng, protocol, [*watched, *seen])} for step in (1, 2, 3)
    ]
    (run,) = fake_runs(rng)[:1]
    run |= {"curve": curve, "val": fake_metrics(rng, protocol, watched)}
    runs = [run | {"fold": fold} for fold in range(max(protocol.folds, 1) * protocol.members)]
    made = unit(method.name, "rerun", number, runs, scores=scores)
    return made | {"arrays": {name: fake_arrays(rng, protocol) for name in ("test", "train", "untrained")}}


def fake_arrays(rng, protocol):
    arrays = {}
    if "histograms" in protocol.arrays:
        edges = np.linspace(-1, 1, 101)
        counts = {"positive": rng.integers(1, 50, 100), "negative": rng.integers(1, 500, 100)}
        arrays |= {"edges": edges.tolist()} | {name: values.tolist() for name, values in counts.items()}
    if "spectrum" in protocol.arrays:
        arrays["spectrum"] = sorted(rng.uniform(0.1, 5, 32).tolist(), reverse=True)
    return arrays


ENVIRONMENT = {
    "python": "3.11",
    "system": "Test",
    "processor": "none",
    "cores": 1,
    "device": "cpu",
    "packages": {},
}
FACTS = {
    "environment": ENVIRONMENT,
    "commit": "0000000000",
    "created": "2025-01-01T00:00:00+00:00",
}


def fake_units(
    study="fake-study",
    dataset="glyphs",
    protocol=musgrave2020.CHARACTERS,
    trials=3,
    reruns=2,
    diverged=(),
    missing=(),
    methods=musgrave2020.METHODS,
):
    """Units and meta; methods in `diverged` have only diverged trials, those in `missing` nothing."""
    rng = np.random.default_rng(len(study))
    meta = {
        "study": study,
        "kind": "table",
        "parent": None,
        "experiment": None,
        "dataset": dataset,
        "protocol": asdict(protocol),
        "budget": asdict(Budget("fake", trials=trials, reruns=reruns)),
        "repetitions": 1,
        "seed": 0,
        "class_order": "default",
        "contents": None,
        "data": {"name": dataset, "images": 16776, "classes": 1398, "shape": [1, 28, 28]},
        **FACTS,
    }
    units = [unit("pretrained", "pretrained", 0, [], scores=fake_scores(rng, 0.1))]
    for place, method in enumerate(methods):
        if method.name in missing:
            continue
        failed = method.name in diverged
        tried = [
            unit(method.name, "trial", number, fake_runs(rng, failed), params=fake_params(method, rng), failed=failed)
            for number in range(trials)
        ]
        units += tried
        if not failed:
            best = max(tried, key=lambda trial: trial["value"])["params"] if tried else {}
            units += [
                unit(method.name, "rerun", number, fake_runs(rng), best, fake_scores(rng, 0.3 + 0.01 * place))
                for number in range(reruns)
            ]
    return units, meta


def unit(method, kind, number, runs, params=None, scores=None, failed=False):
    values = [run["val"]["map_at_r"] for run in runs if "map_at_r" in run["val"]]
    return {
        "method": method,
        **level_of(method),
        "repetition": 0,
        "proposals": 1,
        "kind": kind,
        "number": number,
        "params": params or {},
        "state": "diverged" if failed else "complete",
        "reason": "the loss became nan" if failed else "",
        "value": None if failed or not values else float(np.mean(values)),
        "steps": sum(run["steps"] for run in runs),
        "seconds": 4.0,
        "commit": "0000000000",
        "runs": runs,
        "scores": scores or {},
    }


def made_up_unit(asked):
    """The record of a unit without training: of a trial a number that its seed draws, and scores around it."""
    rng = np.random.default_rng([asked.seed, asked.number, sum(map(ord, asked.kind + str(asked.params)))])
    scores = fake_scores(rng, 0.3) if asked.kind != "trial" else {}
    runs = [] if asked.kind == "pretrained" else fake_runs(rng)[: asked.protocol.folds]
    return unit("-", asked.kind, asked.number, runs, asked.params, scores) | units._identity(asked)


def fake_runs(rng, failed=False):
    return [
        {
            "fold": fold,
            "seed": fold,
            "state": "diverged" if failed else "complete",
            "stopped": "diverged" if failed else "limit",
            "reason": "the loss became nan" if failed else "",
            "best_step": 100,
            "steps": 100,
            "seconds": 1.0 + fold,
            "val": {} if failed else {"map_at_r": rng.uniform(0.2, 0.4), "precision_at_1": rng.uniform(0.4, 0.6)},
            "curve": [{"step": 100, "loss": 1.0, "map_at_r": 0.3, "precision_at_1": 0.5}],
        }
        for fold in range(4)
    ]


def fake_params(method, rng):
    return {
        name: int(rng.integers(space.low, space.high + 1))
        if isinstance(space, Int)
        else rng.uniform(space.low, space.high)
        for name, space in method.space.items()
    }


def fake_scores(rng, level):
    return {
        setting: {
            metric: level + lift + 0.005 * rng.standard_normal() + (metric == "precision_at_1") * 0.2
            for metric in METRICS
        }
        for setting, lift in (("fold0", 0.0), ("separated", 0.0), ("concatenated", 0.05))
    }


NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def made_records(name, scores=(), curves=(), arrays=(), diverged=()):
    """scores: (method, rerun, setting, metric, value); curves: (method, rerun, step, metric, value); arrays: (method,
    rerun, setting, name, values); diverged: (method, rerun), of which there are no scores."""
    study = studies.STUDIES[name]
    scores = pd.DataFrame(scores, columns=["method", "rerun", "setting", "metric", "value"])
    ran = [(method, rerun, "complete") for method, rerun in scores[["method", "rerun"]].drop_duplicates().to_numpy()]
    ran += [(*each, "diverged") for each in diverged]
    runs = [
        {
            "method": method,
            "kind": "rerun",
            "number": rerun,
            "fold": 0,
            "seed": rerun,
            "state": state,
            "stopped": "diverged" if state == "diverged" else "limit",
            "best_step": 10,
            "steps": 10,
            "seconds": 1.0,
        }
        for method, rerun, state in ran
    ]
    frame = pd.DataFrame(curves, columns=["method", "number", "step", "metric", "value"])
    reruns = max([rerun for _, rerun, _ in ran], default=0) + 1
    meta = study.configuration() | {
        "budget": asdict(replace(study.budget, reruns=reruns)),
        "data": {"name": study.dataset, "images": 1200, "classes": 180, "shape": [1, 28, 28]},
        "environment": ENVIRONMENT,
        "settings": {method.name: dict(method.settings) for method in study.methods},
        "changes": {method.name: dict(method.changes) for method in study.methods if method.changes},
        "commit": "0000000000",
        "created": "2025-01-01T00:00:00+00:00",
    }
    empty = records.from_units([], meta)
    frames = {
        "trials": empty.trials,
        "runs": pd.DataFrame(
            runs,
            columns=[
                *("method", "kind", "number", "fold", "seed", "state", "stopped", "best_step", "steps", "seconds"),
                *("val_map_at_r", "val_precision_at_1"),
            ],
        ),
        "scores": scores.astype({"value": float}),
        "curves": frame.assign(kind="rerun", fold=0).astype({"value": float}),
        "arrays": pd.DataFrame(arrays, columns=["method", "rerun", "setting", "name", "values"]),
    }
    frames = with_reruns(frames)
    return records.StudyRecords(
        **{name: frame.reindex(columns=list(COLUMNS[name])) for name, frame in frames.items()}, meta=meta
    )


def level_of(method):
    """The row, level and level_number of a method of a sweep, which is named `row@level`, as "margin_12@dim128"."""
    row, _, level = method.partition("@")
    number = re.fullmatch(r"(?:dim|batch|decay|share|rate)(\d[\d.]*(?:e[+-]?\d+)?)|(\d+)px", level)
    return {"row": row, "level": level or None, "level_number": float(number[1] or number[2]) if number else None}


def with_reruns(frames):
    """Made-up frames with places of their methods, a number of proposals and the reruns that their runs tell of."""
    folds = frames["runs"][frames["runs"]["kind"] == "rerun"].groupby(["method", "number"], sort=False)
    reruns = folds.agg(state=("state", "last"), seconds=("seconds", "sum"), steps=("steps", "sum")).reset_index()
    reruns = reruns.rename(columns={"number": "rerun"}).assign(params="null", reason="", commit=FACTS["commit"])
    frames = {**frames, "trials": frames["trials"].assign(proposals=1), "reruns": reruns}
    return {name: _placed(frame.assign(repetition=0)) for name, frame in frames.items()}


def _placed(frame):
    numbers, methods = pd.factorize(frame["method"])
    places = pd.DataFrame([level_of(name) for name in methods], columns=["row", "level", "level_number"])
    return frame.assign(**{name: places[name].to_numpy()[numbers] for name in places})


def run_chapter(name, edition, load, folder, monkeypatch):
    """Run the cells of a chapter with these records of experiments, and return the folder of its exports.

    load: (main study, experiment) -> StudyRecords or None.
    """
    monkeypatch.setenv("DMLRC_EXPORTS", str(folder / "exports"))
    monkeypatch.setattr(experiments, "load_experiment", load)
    monkeypatch.setattr(records, "load", lambda study: fake_records(study=study))
    papermill.execute_notebook(NOTEBOOKS / f"{name}.ipynb", None, {"studies": edition}, engine.NAME, progress_bar=False)
    return folder / "exports"


LOSSES = (3.0, 2.0, 1.0)


def made(name, score, reruns=3, diverged=(), missing=(), data=None):
    """StudyRecords of a study of the registry; the untrained trunk has 0.2 of everything.

    score: (method, setting, metric, rerun) -> a fraction, or None for no number. diverged: pairs of method and rerun.
    missing: methods without anything. data: its facts, classes among them.
    """
    study = studies.STUDIES[name]
    meta = study.configuration() | {
        "budget": asdict(replace(study.budget, reruns=reruns)),
        "data": {"name": study.dataset, "images": 1200, "classes": 180, "shape": [1, 28, 28]} | (data or {}),
        "environment": ENVIRONMENT,
        "settings": {},
        "changes": {method.name: dict(method.changes) for method in study.methods if method.changes},
        "commit": "0000000000",
        "created": "2025-01-01T00:00:00+00:00",
    }
    methods = [method for method in study.methods if method.name not in missing]
    units = [
        unit("pretrained", "pretrained", 0, [], scores={"separated": dict.fromkeys(study.protocol.test_metrics, 0.2)})
    ]
    units += [_unit(study, method, rerun, score, diverged) for method in methods for rerun in range(reruns)]
    return records.from_units(units, meta)


def _unit(study, method, rerun, score, diverged):
    failed = (method.name, rerun) in diverged
    run = {
        "fold": 0,
        "seed": rerun,
        "state": "diverged" if failed else "complete",
        "stopped": "diverged" if failed else "limit",
        "best_step": 30,
        "steps": 30,
        "seconds": 1.0,
        "val": {"map_at_r": 0.1, "precision_at_1": 0.2},
        "curve": [
            {"step": 10 * (place + 1), "loss": loss + rerun, "precision_at_1": 0.1 * place}
            for place, loss in enumerate(LOSSES)
        ],
    }
    protocol = study.protocol_of(method)
    names = ["separated", *["separated_binary"] * protocol.binary, *["concatenated"] * (protocol.members > 1)]
    scores = {
        setting: {metric: score(method.name, setting, metric, rerun) for metric in protocol.test_metrics}
        for setting in names
    }
    return unit(method.name, "rerun", rerun, [run], scores=None if failed else scores, failed=failed)


def run_notebook(name, main, paper, load, folder, monkeypatch):
    """`run_chapter` around one main study.

    paper: whose claims are judged; those of the others take seconds, since some train.
    """
    monkeypatch.setattr(verdicts, "CLAIMS", tuple(each for each in verdicts.CLAIMS if each.paper == paper))
    return run_chapter(name, main, load, folder, monkeypatch)


def searched_study(name, means, search=0.001, seed=0.0005, repetitions=None, random=0.05, rng=0):
    """Records of a study of the catalogue with these scores (a mapping of methods), and this luck."""
    asked, rng = studies.get(name), np.random.default_rng(rng)
    scores, trials, runs = [], [], []
    for method, mean in means.items():
        for repetition in range(asked.repetitions if repetitions is None else repetitions):
            luck = mean + rng.normal(0, search)
            trials += [
                {"method": method, "repetition": repetition, "trial": trial, "value": luck - random * rng.uniform()}
                for trial in range(10)
            ]
            trials.append({"method": method, "repetition": repetition, "trial": 49, "value": luck})
            for rerun in range(asked.budget.reruns):
                value = luck + rng.normal(0, seed)
                place = {"method": method, "repetition": repetition, "rerun": rerun, "setting": "concatenated"}
                scores += [place | {"metric": metric, "value": value} for metric in ("map_at_r", "precision_at_1")]
                runs.append({"method": method, "repetition": repetition, "kind": "rerun", "number": rerun})
    tried = pd.DataFrame(trials).assign(state="complete")
    made = pd.DataFrame(runs).assign(state="complete", stopped="plateau")
    reruns = made.drop(columns=["kind", "stopped"]).rename(columns={"number": "rerun"})
    frames = {"scores": pd.DataFrame(scores), "trials": tried, "runs": made, "reruns": reruns}
    return replace(fake_records(study=name), **frames)
