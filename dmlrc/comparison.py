"""Comparison of your own loss with a study's methods, at its budget or a smaller one.

A comparison is a study of its own, `NAME-compare`. Beside it stands what is recorded of the study, here or committed,
cut to the first trials of every search; where the best of these was not the one that was rerun, its reruns are made
again, in the comparison. So ten trials of mine stand beside ten of theirs, and nothing of the study changes.
"""

import contextlib
import dis
import inspect
import shutil
import sys
import types
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path

from dmlrc import building, names, paths, preflight, records
from dmlrc import run as runner
from dmlrc.errors import MissingDataError, UsageError, unknown
from dmlrc.methods import PRETRAINED, Method
from dmlrc.plan import Plan
from dmlrc.protocol import COMPARISON, TABLE, Study
from dmlrc.records import StudyRecords
from dmlrc.studies import recorded

_EXAMPLE = 'methods = [Method("mine", loss, {"margin": Float(0, 1)})]'


def read_methods(file: Path) -> list[Method]:
    """The methods that a Python file defines: all `Method`s among its variables, or in lists of them.

    A file without any, but with a single function or class, is that loss with the space that stands in `space`.

    Raises UsageError for a file that cannot be run, with the line, or that holds no loss; and where a file beside it is
    called as one that a loss read before, from elsewhere, imports when it is called.
    """
    try:
        code = compile(file.read_bytes(), str(file), "exec")  # bytes, of which Python knows the encoding
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error}): name a file of Python with a loss") from None
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:  # the last two: nested too deep
        raise UsageError(f"{file} is no Python ({str(error) or 'nested too deep'}): correct it") from None
    folder = file.resolve().parent
    _make_room(folder)
    sys.path.insert(0, str(folder))  # for what it imports from beside it
    name = f"file_{file.stem}"
    module = types.ModuleType(name)
    module.__file__ = str(file)
    scope = vars(module)
    sys.modules[name] = module  # as long as it runs, for dataclasses look there
    try:
        with contextlib.chdir("."):  # which it may change
            exec(code, scope)
        _AT_CALL.update(dict.fromkeys(filter(partial(_lies_in, folder), _imported_at_call(code, folder)), folder))
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{file} fails{building.cause(error)}") from error
    finally:
        sys.modules.pop(name, None)  # no module that workers could import: it is sent to them
    values = [item for value in scope.values() for item in (value if isinstance(value, list | tuple) else [value])]
    if methods := list({id(value): value for value in values if isinstance(value, Method)}.values()):
        return methods
    losses = [value for value in scope.values() if callable(value) and getattr(value, "__module__", None) == name]
    classes = {key: value.__module__ for key, value in scope.items() if isinstance(value, type)}
    imported = [key for key, module in classes.items() if module not in (name, "dmlrc.methods")]
    if not losses and imported:
        raise UsageError(
            f"{file} only imports {', '.join(imported)}, and no loss of its own says which is meant: add "
            f'methods = [Method("mine", {imported[0]}, {{"margin": Float(0, 1)}})], with the hyperparameters to search'
        )
    if len(losses) != 1:
        raise UsageError(f"{file} defines {len(losses) or 'no'} functions or classes, and no method: add {_EXAMPLE}")
    return [Method(losses[0].__name__, losses[0], scope.get("space", {}))]


_AT_CALL: dict[str, Path] = {}
"""Folders of what the losses that were read import when they are called, which must find the same then, by its name."""


def _imported_at_call(code: types.CodeType, folder: Path) -> Iterator[str]:
    """Names of modules that the functions of a file import, and those of what was imported from beside it."""
    files = {file for _, file in _own_modules() if folder in file.parents and file.suffix == ".py" and file.is_file()}
    within = [code, *(compile(file.read_bytes(), str(file), "exec") for file in files)]
    for outer in within:
        within += (inner := [code for code in outer.co_consts if isinstance(code, types.CodeType)])
        steps = (step for code in inner if code.co_flags & inspect.CO_OPTIMIZED for step in dis.get_instructions(code))
        yield from (step.argval.partition(".")[0] for step in steps if step.opname == "IMPORT_NAME")


def _own_modules() -> list[tuple[str, Path]]:
    """Names and files of one's own modules that have been imported."""
    files = {name: getattr(module, "__file__", None) for name, module in [*sys.modules.items()]}
    return [(name, Path(file).resolve()) for name, file in files.items() if file and paths.is_own(file)]


def _lies_in(folder: Path, name: str) -> bool:
    return bool(name) and bool((here := PathFinder.find_spec(name, [str(folder)])) and here.origin)


def _make_room(folder: Path) -> None:
    """Forget files of one's own that were imported from elsewhere and are called as one here."""
    for name, home in _AT_CALL.items():
        if home != folder and _lies_in(folder, name):
            raise UsageError(
                f"{folder} and {home} each have a {name!r}, and a loss of the latter, which was read before, imports "
                "it when it is called: rename one of them, or import it at the top of the loss's file"
            )
    for name, file in _own_modules():
        top = name.partition(".")[0]
        if folder not in file.parents and top != "__main__" and _lies_in(folder, top):
            del sys.modules[name]


def comparison_study(
    study: Study, trials: int | None = None, reruns: int | None = None, repetitions: int | None = None
) -> Study:
    """The study `NAME-compare`, in which methods are compared with those of a study, at its budget or at this one.

    Raises UsageError for a study that is no methods table or has one fold, for what is no positive whole number, and
    for more trials than the study's own methods have, which would be unfair to them.
    """
    budget = study.budget
    if study.kind != TABLE or not budget.trials:
        raise UsageError(f"study {study.name!r} is no table of searched methods: name one of `dmlrc study list`")
    if study.protocol.folds < 2:
        raise UsageError(
            f"study {study.name!r} has one fold, and methods are compared by what the models of several folds reach "
            "together: name one with folds = 2 or more"
        )
    for name, number in {"trials": trials, "reruns": reruns, "repetitions": repetitions}.items():
        if number is not None and (type(number) is not int or number < 1):
            raise UsageError(f"{name} must be a positive whole number, not {number!r}")
    if trials and trials > budget.trials:
        raise UsageError(f"the methods of {study.name} have {budget.trials} trials each: take no more than these")
    return replace(
        study,
        name=f"{study.name}{names.COMPARED}",
        kind=COMPARISON,
        parent=study.name,
        budget=replace(budget, name="compare", trials=trials or budget.trials, reruns=reruns or budget.reruns),
        repetitions=repetitions or study.repetitions,
    )


def run_comparison(study: Study, base: Study, methods: Sequence[Method], workers: int = 1) -> None:
    """Run what is missing of a comparison: of these methods everything, of the base's methods the reruns.

    study: the `comparison_study` of base. Of the base's methods only those take part whose search is recorded; where
    none is, all are searched and rerun at the comparison's budget: in the base itself, if that is its own.
    """
    preflight.check_names(base, base.methods)
    preflight.check_names(study, methods)  # before the others are run, which may take its time
    whole = (study.budget.trials, study.budget.reruns) == (base.budget.trials, base.budget.reruns)
    theirs = base
    if not whole:  # no more than their own reruns and searches
        budget = replace(study.budget, reruns=min(study.budget.reruns, base.budget.reruns))
        theirs = replace(study, budget=budget, repetitions=min(study.repetitions, base.repetitions))
    with records.running(theirs.name, [method.name for method in theirs.methods]) as refusal:
        todo = Plan(theirs, beside=[] if whole else Plan(theirs, beside=_units(study)).ended)
        searched = todo.searched
        beside = {chain.name for chain in searched}
        if not beside:
            print(
                f"{base.name} has no records here: its {len(base.methods)} methods are run too, with "
                f"as many trials ({theirs.budget.trials}) and reruns ({theirs.budget.reruns})",
                file=sys.stderr,
            )
        elif left_out := [method.name for method in base.methods if method.name not in beside]:
            print(
                f"{base.name} has no {theirs.budget.trials} trials of {', '.join(left_out)}: they stand apart until "
                f"`dmlrc study run {base.name}` has made them",
                file=sys.stderr,
            )
        if beside:
            todo.keep([chain for chain in todo.chains if not chain.method or chain in searched])
        runner.carry_out(todo, runner.Dispatch(workers), refusal)
    with records.running(study.name, [method.name for method in methods]) as refusal:
        runner.carry_out(Plan(study, methods, _units(study)), runner.Dispatch(workers), refusal)


def load_comparison(study: Study, methods: Sequence[Method]) -> StudyRecords:
    """The records of a comparison: these methods, and those of the study that take part, all cut to its budget.

    meta has first_of: the study that was cut, with its budget and repetitions; None where nothing was cut.
    """
    base, own = records.find(study.parent), records.find(study.name)
    if own is None and base is None:
        raise MissingDataError(f"{study.parent} has no records: `dmlrc study run {study.parent}` makes them")
    beside = _units(study)
    ended = Plan(study, [*study.methods, *methods], beside).ended
    if own:
        theirs = set(map(id, beside))  # its reruns of the study's methods may be those of another budget
        own = records.only(own, [unit for unit in ended if id(unit) not in theirs])
    joined = records.joined(own, base) if own and base else own or base
    whole = {name: base.meta[name] for name in ("study", "budget", "repetitions")} if base else None
    is_cut = whole and any(getattr(study.budget, kind) < whole["budget"][kind] for kind in ("trials", "reruns"))
    cut = records.only(joined, ended)
    return replace(cut, meta=joined.meta | study.configuration() | {"first_of": whole if is_cut else None})


def here() -> dict[str, dict[str, Counter]]:
    """The comparisons that were made here: name -> method -> how many trials and reruns of it are recorded there."""
    comparisons = {}
    for name in _comparisons(paths.runs()):
        counts: dict[str, Counter] = {}
        for method, _, kind, _ in recorded.written_here(paths.runs() / name):
            counts.setdefault(method, Counter())[kind] += 1
        comparisons[name] = {method: counts[method] for method in sorted(counts.keys() - {PRETRAINED})}
    return comparisons


def exported() -> list[Path]:
    """The folders of the comparisons whose records were exported."""
    return [paths.results() / name for name in _comparisons(paths.results())]


def _comparisons(root: Path) -> list[str]:
    of_the_name = (name for name in records.recorded_in(root) if name.endswith(names.COMPARED))
    return [name for name in of_the_name if recorded.facts(root / name).get("kind", COMPARISON) == COMPARISON]


def remove(name: str) -> Path:
    """Remove the records of a comparison that was made here, and return the folder that they were in.

    Raises UsageError for what is no comparison that is here, DmlrcError while a process runs it.
    """
    comparisons = here()
    if name not in comparisons:
        raise unknown("comparison", name, comparisons) if comparisons else UsageError("no comparison was made here")
    folder = paths.runs() / name
    with records.running(name, comparisons[name]) as refusal:
        if refusal:
            raise refusal
        with records.writing_meta(name):
            removed = folder.with_name(f".{folder.name}.removed")
            shutil.rmtree(removed, ignore_errors=True)  # what a killed call left
            folder.rename(removed)  # at once: a half of it would be a whole to others
            shutil.rmtree(removed)
    return folder


def _units(study: Study) -> list[Mapping]:
    """Finished units of a comparison's parent."""
    return records.finished_units(study.parent, study.configuration() | {"study": study.parent})
