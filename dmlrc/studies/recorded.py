"""Counts of a study's records, by file names and a few columns: for lists, which read no record whole.

What a run would do is told by `dmlrc.plan.progress`, which reads the records and knows which of them are stale or
failed.
"""

import contextlib
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from dmlrc import names, paths
from dmlrc.errors import DmlrcError
from dmlrc.methods import PRETRAINED, Method
from dmlrc.protocol import COMPARISON, Budget, Study
from dmlrc.studies import catalogue

_FILE = re.compile(r"(\d+)-(trial|rerun|pretrained)-(\d+)")

UnitKey = tuple[str, int, str, int]
"""Method, repetition, kind and number."""


def count(study: Study) -> tuple[int, int]:
    """Count the units of a study that are recorded, here or committed, and those that it has."""
    budget, committed = study.budget, paths.committed(study.name)
    meta = facts(committed)
    whole = {"complete": True, "budget": vars(budget), "repetitions": study.repetitions}
    if meta.items() >= whole.items():
        return study.units, study.units
    most = {"trial": budget.trials, "rerun": budget.reruns, PRETRAINED: 1}
    known = {PRETRAINED, *(method.name for method in study.methods)}
    units = written_here(paths.runs() / study.name) | (_committed(committed) if meta else set())
    counted = [
        method in known and repetition < study.repetitions and number < most[kind]
        for method, repetition, kind, number in units
    ]
    return sum(counted), study.units


def named(name: str) -> Study:
    """The study of this name; of one that was made in Python, what its records say of it.

    Such a study can be counted and shown, and not be run: of its methods the names alone are known.
    """
    here = paths.recorded(name := names.current(name))
    return _of_meta(here[0], name) if here and name not in catalogue.known() else catalogue.get(name)


def made_in_python() -> list[Study]:
    """The studies with records here that neither this package nor studies.toml knows, but for comparisons."""
    studies, known = [], catalogue.known()
    names = {name for root in (paths.runs(), paths.results()) for name in paths.recorded_in(root)}
    for name in sorted(names - known.keys()):
        if all(facts(folder).get("kind") not in (None, COMPARISON) for folder in paths.recorded(name)):
            with contextlib.suppress(DmlrcError):  # of damaged ones `dmlrc study check` says more
                studies.append(named(name))
    return studies


def _of_meta(folder: Path, name: str) -> Study:
    from dmlrc import records  # which loads pandas; other lists want none

    meta = records.read_meta(folder, name)
    budget = {number.name: meta["budget"].get(number.name) for number in fields(Budget)}
    shared = {name: meta[name] for name in ("dataset", "seed", "class_order", "repetitions", "kind", "parent")}
    methods = tuple(Method(name, "") for name in meta.get("settings", {}))
    return Study(name, protocol=records.protocol(meta), budget=Budget(**budget), methods=methods, **shared)


def facts(folder: Path) -> dict[str, Any]:
    """Read the meta.json of a folder, as nothing where it cannot be read: `dmlrc study check` says why."""
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return meta if isinstance(meta, dict) else {}


def written_here(folder: Path) -> set[UnitKey]:
    """The units of which there is a record in the folder of a study under way, by the names of its files."""
    named = ((path.parent.name, _FILE.fullmatch(path.stem)) for path in folder.glob("*/*.json"))
    return {(method, int(match[1]), match[2], int(match[3])) for method, match in named if match}


def _committed(folder: Path) -> set[UnitKey]:
    from pyarrow import ArrowException, parquet  # a tenth of a second, only for what is committed in part

    try:
        key = ["method", "repetition", "kind", "number"]
        runs = parquet.read_table(folder / "runs.parquet", columns=key).to_pydict()
        scored = parquet.read_table(folder / "scores.parquet", columns=["method"]).to_pydict()["method"]
        units = set(zip(*(runs[name] for name in key), strict=True))
    except (OSError, ArrowException, KeyError):
        return set()
    return units | ({(PRETRAINED, 0, PRETRAINED, 0)} if PRETRAINED in scored else set())
