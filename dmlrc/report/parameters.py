"""The parameters that papermill gives a notebook."""

import ast
import os
import re
from itertools import pairwise
from pathlib import Path

from IPython import get_ipython

from dmlrc import paths
from dmlrc.errors import UsageError, unknown


def check_parameters() -> None:
    """Raise UsageError for a parameter that papermill was given and this notebook does not have, or not of this kind.

    Papermill warns of it and goes on, so that a page with the defaults would be taken for the one that was asked for.
    So for a folder that is named from where the caller is: the notebook works in another one, and would find nothing.
    Called behind the cell of parameters, where papermill puts its own; outside a notebook nothing happens.
    """
    shell = get_ipython()
    for variable in paths.FOLDERS if shell else ():
        if (folder := os.environ.get(variable)) and not paths.expanded(folder).is_absolute():
            raise UsageError(f"{variable} is {folder!r}, which is another folder here, in {Path.cwd()}: give all of it")
    for defaults, given in pairwise(shell.user_ns["In"] if shell else ()):
        if given.startswith("# Parameters\n"):
            known = _assigned(defaults)
            for name, value in _assigned(given).items():
                if name not in known:
                    raise unknown("parameter", name, known)
                shell.user_ns[name] = _as_wanted(name, value, known[name])


def _as_wanted(name: str, value: object, default: object) -> object:
    """The value of a parameter as the notebook takes it: papermill makes a number of "10". UsageError for another kind.

    >>> _as_wanted("class_counts", 10, "10,30"), _as_wanted("epochs", 3, 5)
    ('10', 3)
    """
    if isinstance(default, str):
        if re.fullmatch(r"[\d,]+", default) and not re.fullmatch(r"[1-9]\d*(,\s*[1-9]\d*)*", str(value)):
            raise UsageError(f"parameter {name!r} is {value!r}: it is whole numbers, with commas, such as {default}")
        return str(value)
    if isinstance(default, bool) and not isinstance(value, bool):
        raise UsageError(f"parameter {name!r} is {value!r}: it is True or False")
    if type(default) is int and (type(value) is not int or value < 1):
        raise UsageError(f"parameter {name!r} is {value!r}: it is a whole number above 0, such as {default}")
    return value


def _assigned(cell: str) -> dict[str, object]:
    """The values that a cell of parameters sets: name -> value, None for one that is no plain value."""
    lines = ast.parse(cell).body
    return {line.targets[0].id: _value(line.value) for line in lines if isinstance(line, ast.Assign)}


def _value(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except ValueError:  # as float("nan")
        return None
