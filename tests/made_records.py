"""StudyRecords of a study of the registry, made of the facts that a test names; nothing of it reaches the book."""

from dataclasses import asdict, replace
from pathlib import Path

import nbformat
import pandas as pd
from fake_records import fake_records

from dmlrc import experiments, records, studies

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
        "environment": {},
        "settings": {method.name: dict(method.settings) for method in study.methods},
        "changes": {method.name: dict(method.changes) for method in study.methods if method.changes},
        "commit": "0000000000",
        "created": "2025-01-01T00:00:00+00:00",
    }
    empty = records.from_units([], meta)
    return replace(
        empty,
        scores=scores.astype({"value": float}),
        runs=pd.DataFrame(runs, columns=empty.runs.columns),
        curves=frame.assign(kind="rerun", fold=0).astype({"value": float}),
        arrays=pd.DataFrame(arrays, columns=empty.arrays.columns),
    )


def run_chapter(name, edition, load, folder, monkeypatch):
    """Run the cells of a chapter with these records of experiments, and return the folder of its exports.

    load: (main study, experiment) -> StudyRecords or None.
    """
    monkeypatch.setenv("DMLRC_EXPORTS", str(folder / "exports"))
    monkeypatch.setattr(experiments, "load", load)
    monkeypatch.setattr(records, "load", lambda study: fake_records(study=study))
    scope = {}
    for cell in nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells:
        if cell.cell_type == "code":
            own = f'\nstudies = "{edition}"' if "parameters" in cell.metadata.get("tags", []) else ""
            exec(cell.source + own, scope)
    return folder / "exports"
