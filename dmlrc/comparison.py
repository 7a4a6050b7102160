"""Losses of one's own beside the methods of a study, also at a smaller budget than theirs.

At another budget than the study's, the comparison is a study of its own, `NAME-compare`. It takes over what is
recorded of the study, here or committed, cut to the first trials of every search; where the best of these was not the
one that was rerun, its reruns are made again. So ten trials of mine stand beside ten of theirs, and nothing of the
study changes.
"""

import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dmlrc import building, records, schedule
from dmlrc import study as runner
from dmlrc.errors import MissingDataError, UsageError
from dmlrc.methods import Method
from dmlrc.protocol import COMPARISON, TABLE, Budget, Study
from dmlrc.records import StudyRecords

_EXAMPLE = 'methods = [Method("mine", loss, {"margin": Float(0, 1)})]'


def read(file: Path) -> list[Method]:
    """The methods that a Python file defines: all `Method`s among its variables, or in lists of them.

    A file without any, but with a single function or class, is that loss with the space that stands in `space`.

    Raises UsageError for a file that cannot be run, with the line, or that holds no loss.
    """
    try:
        code = compile(file.read_text(encoding="utf-8"), str(file), "exec")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read ({error}): name a file of Python with a loss") from None
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{file} is no Python ({error}): correct it") from None
    sys.path.insert(0, str(file.resolve().parent))  # for what it imports from beside it
    name = f"file_{file.stem}"
    module = types.ModuleType(name)
    module.__file__ = str(file)
    scope = vars(module)
    sys.modules[name] = module  # as long as it runs, for dataclasses look there
    try:
        exec(code, scope)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{file} fails{building.told(error)}") from error
    finally:
        sys.modules.pop(name, None)  # no module that workers could import: it is sent to them
    values = [each for value in scope.values() for each in (value if isinstance(value, list | tuple) else [value])]
    if found := list({id(each): each for each in values if isinstance(each, Method)}.values()):
        return found
    losses = [each for each in scope.values() if callable(each) and getattr(each, "__module__", None) == name]
    imported = [
        key for key, each in scope.items() if isinstance(each, type) and each.__module__ not in (name, "dmlrc.methods")
    ]
    if not losses and imported:
        raise UsageError(
            f"{file} only imports {', '.join(imported)}, and no loss of its own says which is meant: add "
            f'methods = [Method("mine", {imported[0]}, {{"margin": Float(0, 1)}})], with the hyperparameters to search'
        )
    if len(losses) != 1:
        raise UsageError(f"{file} defines {len(losses)} functions and classes, and no method: add {_EXAMPLE}")
    return [Method(losses[0].__name__, losses[0], scope.get("space", {}))]


def of(study: Study, trials: int | None = None, reruns: int | None = None, repetitions: int | None = None) -> Study:
    """The study in which methods are compared at this budget: itself, or `NAME-compare` where the budget differs.

    Raises UsageError for a study that is no methods table, for what is no positive whole number, and for more trials
    than the study's own methods have, which would be unfair to them.
    """
    budget = study.budget
    if study.kind != TABLE or not budget.trials:
        raise UsageError(f"study {study.name!r} is no table of searched methods: name one of `dmlrc study list`")
    for what, number in {"trials": trials, "reruns": reruns, "repetitions": repetitions}.items():
        if number is not None and (type(number) is not int or number < 1):
            raise UsageError(f"{what} must be a positive whole number, not {number!r}")
    if trials and trials > budget.trials:
        raise UsageError(f"the methods of {study.name} have {budget.trials} trials each: take no more than these")
    wanted = replace(
        study,
        budget=replace(budget, trials=trials or budget.trials, reruns=reruns or budget.reruns),
        repetitions=repetitions or study.repetitions,
    )
    if wanted == study:
        return study
    name = f"{study.name}-compare"
    return replace(wanted, name=name, kind=COMPARISON, parent=study.name, budget=replace(wanted.budget, name="compare"))


def run(study: Study, base: Study, methods: Sequence[Method], workers: int = 1) -> None:
    """Run what is missing of a comparison: of these methods everything, of the base's methods the reruns.

    study: made by `of` from base. Of the base's methods only those take part whose search is recorded; where none is,
    all are searched and rerun at the comparison's budget.
    """
    runner.check_names(study, methods)  # before the others are run, which may take its time
    theirs = replace(
        study,
        budget=replace(study.budget, reruns=min(study.budget.reruns, base.budget.reruns)),
        repetitions=min(study.repetitions, base.repetitions),
    )
    beside = schedule.searched(theirs)
    if not beside:
        print(
            f"{base.name} has no records here: its {len(base.methods)} methods are run too, with "
            f"as many trials ({theirs.budget.trials}) and reruns ({theirs.budget.reruns})",
            file=sys.stderr,
        )
    elif left_out := [each.name for each in base.methods if each not in [method for method, _ in beside]]:
        print(
            f"{base.name} has no {theirs.budget.trials} trials of {', '.join(left_out)}: they stand apart until `dmlrc "
            f"study run {base.name}` has made them",
            file=sys.stderr,
        )
    runner.run(theirs, workers=workers, searched_only=bool(beside))
    runner.run(study, methods, workers=workers)


def load(study: Study, methods: Sequence[Method]) -> StudyRecords:
    """The records of a comparison: these methods, and those of the study that take part, all cut to its budget.

    meta has first_of: the study that was cut, with its budget and repetitions; None where nothing was cut.
    """
    if study.kind != COMPARISON:
        return records.load(study.name)
    base = _load(study.parent)
    own = _load(study.name)
    if own is None and base is None:
        raise MissingDataError(f"{study.parent} has no records: `dmlrc study run {study.parent}` makes them")
    joined = records.joined(own, base) if own and base else own or base
    chains = schedule.chains(study, [*study.methods, *methods])
    whole = {name: base.meta[name] for name in ("study", "budget", "repetitions")} if base else None
    first_of = whole if whole and _is_cut(whole["budget"], study.budget) else None
    cut = records.only(joined, schedule.ended(study, chains))
    return replace(cut, meta=joined.meta | study.configuration() | {"first_of": first_of})


def _is_cut(whole: Mapping[str, int], budget: Budget) -> bool:
    return budget.trials < whole["trials"] or budget.reruns < whole["reruns"]


def _load(name: str) -> StudyRecords | None:
    try:
        return records.load(name)
    except MissingDataError:
        return None
