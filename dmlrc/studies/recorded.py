"""How much of a study is recorded, told by file names and a few columns: for lists, which read no record whole.

What a run would do is told by `dmlrc.plan.progress`, which reads the records and knows which of them are stale or
failed.
"""

import json
import re
from pathlib import Path
from typing import Any

from dmlrc import paths
from dmlrc.methods import PRETRAINED
from dmlrc.protocol import Study

_FILE = re.compile(r"(\d+)-(trial|rerun|pretrained)-(\d+)")

Unit = tuple[str, int, str, int]
"""Method, repetition, kind and number."""


def count(study: Study) -> tuple[int, int]:
    """How many units of a study are recorded, here or committed, and how many it has."""
    budget, committed = study.budget, paths.committed(study.name)
    meta = _meta(committed / "meta.json")
    whole = {"complete": True, "budget": vars(budget), "repetitions": study.repetitions}
    if meta.items() >= whole.items():
        return study.units, study.units
    most = {"trial": budget.trials, "rerun": budget.reruns, PRETRAINED: 1}
    known = {PRETRAINED, *(method.name for method in study.methods)}
    units = _written_here(paths.runs() / study.name) | (_committed(committed) if meta else set())
    counted = [
        method in known and repetition < study.repetitions and number < most[kind]
        for method, repetition, kind, number in units
    ]
    return sum(counted), study.units


def _meta(path: Path) -> dict[str, Any]:
    """What stands there, nothing where it cannot be read: `dmlrc study check` says why."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _written_here(folder: Path) -> set[Unit]:
    named = ((path.parent.name, _FILE.fullmatch(path.stem)) for path in folder.glob("*/*.json"))
    return {(method, int(found[1]), found[2], int(found[3])) for method, found in named if found}


def _committed(folder: Path) -> set[Unit]:
    from pyarrow import ArrowException, parquet  # a tenth of a second, only for what is committed in part

    try:
        runs = parquet.read_table(folder / "runs.parquet").to_pydict()
        scored = parquet.read_table(folder / "scores.parquet", columns=["method"]).to_pydict()["method"]
    except (OSError, ArrowException):
        return set()
    units = set(zip(*(runs[name] for name in ("method", "repetition", "kind", "number")), strict=True))
    return units | ({(PRETRAINED, 0, PRETRAINED, 0)} if PRETRAINED in scored else set())
