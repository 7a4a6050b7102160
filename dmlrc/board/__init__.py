"""A board of losses: entries that others sent, each with its records and the file of its loss.

An entry is a comparison at the study's own budget, exported as `STUDY/board/LOSS`, and beside its records the file.
Only studies whose data the package holds have a board, so that whoever doubts an entry can run its units again.
"""

import json
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dmlrc import comparison, data, paths, plan, records, studies
from dmlrc.errors import DmlrcError, MissingDataError, UsageError, unknown
from dmlrc.methods import Method
from dmlrc.plan import Chain, Plan, Unit
from dmlrc.protocol import Study
from dmlrc.records import StudyRecords, fingerprint
from dmlrc.unit import run_unit

TOLERANCE = 0.01
"""How far MAP@R of a unit that is run again may lie from the recorded one: a point, which the tests of this study count
as equal. Another processor moved a trial of grocery-quick by 0.2 points (dmlrc/report/measurements/processors.csv)."""
_BOARD = "board"
_ALONE = """
import json, sys
from pathlib import Path
from dmlrc import comparison, errors
from dmlrc.records import fingerprint
try:
    methods = comparison.read_methods(Path(sys.argv[1]))
    print(json.dumps({method.name: fingerprint.fingerprint_of(method) for method in methods}))
except errors.DmlrcError as error:
    sys.exit(str(error))
"""
"""Says what the losses of a file are, to whoever works where it lies alone, from where it may import."""


def entry_study(base: Study, method: Method) -> Study:
    """The comparison that an entry is. Raises UsageError where the base has no board."""
    _require_board(base)
    return replace(comparison.comparison_study(base), name=f"{base.name}/{_BOARD}/{method.name}")


def _require_board(base: Study) -> None:
    if data.state(base.dataset) != "embedded":
        raise UsageError(
            f"the data of {base.name} does not come with the package, so that nobody could check an entry: name a "
            "study of glyphs, icons or grocery-lite0"
        )


def submit(study: Study, method: Method, file: Path) -> Path:
    """Write the entry of a loss that was run as `entry_study` says into results/, and return its folder.

    Raises UsageError for a loss that uses other files beside its own, DmlrcError where a unit is missing.
    """
    _whole_plan(study, method)
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(file, folder)
        alone = subprocess.run([sys.executable, "-c", _ALONE, copy], capture_output=True, text=True, cwd=folder)
    if alone.returncode:
        changed = alone.stderr.strip().splitlines()[-1:] or [f"its process ended with {alone.returncode}"]
    else:
        alone = json.loads(alone.stdout.splitlines()[-1])[method.name]
        changed = fingerprint.differences(fingerprint.fingerprint_of(method), alone)
    if changed:
        raise UsageError(f"an entry is one file: put into {file} what it uses of others beside it ({changed[0]})")
    target = records.export_records(study.name, complete=True)
    for former in target.glob("*.py"):
        former.unlink()
    shutil.copy(file, target)
    return target


def entries(base: str | None = None) -> list[str]:
    """The names of all entries, or of those beside one study."""
    names = [name for name in records.recorded_in(paths.results()) if Path(name).parent.name == _BOARD]
    return [name for name in names if base in (None, _base(name))]


def _base(name: str) -> str:
    return Path(name).parents[1].as_posix()


def load_board(base: Study) -> StudyRecords:
    """The records of a study with those of every entry beside it.

    Raises UsageError where the study has no board, MissingDataError where it has no entry or was not run here, and
    DmlrcError for an entry of another configuration, or one that is not complete.
    """
    _require_board(base)
    if not (names := entries(base.name)):
        raise MissingDataError(f"no entry stands beside {base.name} yet: `dmlrc compare FILE --submit` makes one")
    whole = records.find(base.name)
    if whole is None:
        raise MissingDataError(
            f"{base.name} has no records, beside which its entries stand: `dmlrc study run {base.name}`"
        )
    budget = whole.meta["budget"]
    for name in names:  # its file is a program, which is run to check it alone
        entry = records.load(name)
        asked = replace(comparison.comparison_study(base), name=name).configuration()
        records.check_configuration(name, entry.meta, asked)
        if not entry.meta["complete"]:
            raise DmlrcError(f"{name} is not complete: run it to its end")
        whole = records.joined(entry, whole)
    return replace(whole, meta=whole.meta | {"budget": budget})


def check_board(name: str, count: int = 3, seed: int | None = None) -> Iterator[str]:
    """Check an entry, a line for each of these many units that are run again.

    Its file is the loss that was trained, its units are all those of the budget, its trials are those that the search
    proposes, and units drawn at random give the recorded MAP@R, within `TOLERANCE`. Under another Python than the
    entry's, whose code cannot be compared, the units alone speak for the file.

    seed: of the draw, which is another one each time by default: nobody can train those units alone.
    Raises DmlrcError for what does not hold.
    """
    if name not in (names := entries()):
        raise unknown("entry", name, names)
    pairs = checked_units(name)
    drawn = np.random.default_rng(seed).choice(len(pairs), min(count, len(pairs)), replace=False)
    for unit, recorded in (pairs[place] for place in sorted(drawn)):
        again = _score(run_unit(unit))
        if (recorded is None) != (again is None) or (recorded is not None and abs(again - recorded) > TOLERANCE):
            raise DmlrcError(f"{name}: {unit} has {_percent(recorded)} on record, and run again {_percent(again)}")
        yield f"{name}: {unit}: {_percent(recorded)} on record, {_percent(again)} again"


def _opened(name: str) -> tuple[Study, Method]:
    """The comparison that an entry is, and the method that its file defines.

    Raises DmlrcError where the file or the method in it is missing.
    """
    files = sorted(paths.committed(name).glob("*.py"))
    if len(files) != 1:
        raise DmlrcError(
            f"{paths.committed(name)} holds {len(files)} files of Python: an entry has the one of its loss"
        )
    base, method, known = studies.get(_base(name)), Path(name).name, sys.path.copy()
    try:
        methods = comparison.read_methods(files[0])
    finally:
        sys.path[:] = known  # or the next entry could import the file of this one
    for defined in methods:
        if defined.name == method:
            return entry_study(base, defined), defined
    raise DmlrcError(f"{files[0]} defines no method {method!r}: the folder of an entry has the name of its method")


def _whole_plan(study: Study, method: Method) -> Plan:
    """The plan of an entry. Raises DmlrcError for another loss than the recorded one, and where a unit is missing."""
    todo = Plan(study, [method], any_python=True)
    todo.keep([chain for chain in todo.chains if chain.method])  # the untrained trunk is a row of the study itself
    for outdated in todo.outdated:
        raise DmlrcError(f"{study.name}: its file is not the loss that was trained ({'; '.join(outdated.changed)})")
    if not todo.is_done:
        raise DmlrcError(f"{study.name} has {todo.finished} of {todo.total} units: run it to its end")
    return todo


def checked_units(name: str) -> list[tuple[Unit, float | None]]:
    """The units of an entry as the protocol makes them, each with its recorded MAP@R; None where it came to none.

    Raises DmlrcError where the records are not of these units.
    """
    study, method = _opened(name)
    recorded, todo = records.load(name), _whole_plan(study, method)
    pairs = []
    scores = recorded.scores[recorded.scores["setting"].eq("concatenated") & recorded.scores["metric"].eq("map_at_r")]
    of_rerun = scores.set_index(["repetition", "rerun"])["value"]
    for chain in todo.chains:
        done = sorted(todo.done(chain), key=lambda unit: unit["number"])
        pairs += _trials(study, chain, [unit for unit in done if unit["kind"] == "trial"])
        for unit in done:
            if unit["kind"] == "rerun":
                score = of_rerun.get((chain.repetition, unit["number"]))
                pairs.append((plan.rerun(study, method, unit), score))
    return pairs


def _trials(study: Study, chain: Chain, recorded: Sequence[Mapping]) -> Iterator[tuple[Unit, float | None]]:
    """The trials of a search as it proposes them, each from those before it, of its batch their settings alone.

    Raises DmlrcError for one that was recorded with other hyperparameters.
    """
    for number, trial in enumerate(recorded):
        # what ended later is made again: it had lost its workers when this one was proposed
        lost = [{**other, "state": "failed"} if _ended(other) > _ended(trial) else other for other in recorded[:number]]
        for before in (recorded[:number], lost):
            unit = plan.next_units(study, chain, before, int(trial["proposals"]))[0]
            if _are_near(unit.params, trial["params"]):
                break
        else:
            raise DmlrcError(f"{study.name}: {unit} took {trial['params']}, where the search proposes {unit.params}")
        yield unit, trial["value"] if trial["state"] == "complete" else None


def _ended(trial: Mapping) -> str:
    return trial.get("finished") or ""


def _are_near(proposed: Mapping, recorded: Mapping) -> bool:
    """Tell whether two sets of hyperparameters are equal, numbers but for rounding."""
    return proposed.keys() == recorded.keys() and all(
        math.isclose(value, recorded[name], rel_tol=1e-6) if isinstance(value, float) else value == recorded[name]
        for name, value in proposed.items()
    )


def _score(record: Mapping) -> float | None:
    """MAP@R of a unit: of a trial on the validation classes, of a rerun on the test classes."""
    if record["state"] != "complete":
        return None
    return record["value"] if record["kind"] == "trial" else record["scores"]["concatenated"]["map_at_r"]


def _percent(score: float | None) -> str:
    return "no result" if score is None else f"{100 * score:.2f} %"
