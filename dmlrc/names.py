"""Former names of studies, and those of today.

A study around another one is named `TABLE/EXPERIMENT`, and its records lie in a folder of this name. Before, all names
were flat, as a reader's own still are; `former_names.csv` has each of them beside today's.
"""

import csv
import functools
import sys
from collections.abc import Mapping
from importlib.resources import files

from dmlrc.errors import UsageError

COMPARED = "-compare"
"""How the name of a comparison ends, see `dmlrc.comparison`."""


@functools.cache
def former() -> Mapping[str, str]:
    """The studies that had another name: that one -> today's."""
    with (files("dmlrc") / "former_names.csv").open(encoding="utf-8", newline="") as file:
        return {row["former"]: row["name"] for row in csv.DictReader(file)}


def current(name: str) -> str:
    """The name that a study has today; of a former one, once a process, a sentence on standard error says so."""
    if not isinstance(name, str):
        raise UsageError(f"a study goes by its name, a text, and not by {name!r}")
    name = name.rstrip("/")  # a shell that completes folders adds it
    if name not in former():
        return name
    _say_renamed(name)
    return former()[name]


@functools.cache
def _say_renamed(name: str) -> None:
    print(f"{name} is now called {former()[name]}", file=sys.stderr)


def folded(name: str) -> str:
    """A study's name where a name of a file or an id wants none with slashes."""
    return name.replace("/", "-")
