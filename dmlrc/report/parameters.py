"""The parameters that papermill gives a notebook."""

import ast
from itertools import pairwise

from IPython import get_ipython

from dmlrc.errors import unknown


def check() -> None:
    """Raise UsageError for a parameter that papermill was given and this notebook does not have.

    Papermill warns of it and goes on, so that a page with the defaults would be taken for the one that was asked for.
    Called behind the cell of parameters, where papermill puts its own; outside a notebook nothing happens.
    """
    shell = get_ipython()
    for defaults, given in pairwise(shell.user_ns["In"] if shell else ()):
        if given.startswith("# Parameters\n"):
            known = _assigned(defaults)
            for name in _assigned(given):
                if name not in known:
                    raise unknown("parameter", name, known)


def _assigned(cell: str) -> list[str]:
    names = (each for each in ast.walk(ast.parse(cell)) if isinstance(each, ast.Name))
    return [each.id for each in names if isinstance(each.ctx, ast.Store)]
