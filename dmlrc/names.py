"""What studies were called before, and what they are called now.

A study around another one is named `TABLE/EXPERIMENT`, and its records lie in a folder of this name. Before, all names
were flat, as a reader's own still are; `former_names.csv` has each of them beside today's.
"""

import csv
import functools
import sys
from collections.abc import Mapping
from importlib.resources import files

COMPARED = "-compare"
"""How the name of a comparison ends, see `dmlrc.comparison`."""


@functools.cache
def former() -> Mapping[str, str]:
    """The studies that had another name: that one -> today's."""
    with (files("dmlrc") / "former_names.csv").open(encoding="utf-8", newline="") as file:
        return {row["former"]: row["name"] for row in csv.DictReader(file)}


def current(name: str) -> str:
    """The name that a study has today; of a former one, once a process, a sentence on standard error says so."""
    if name not in former():
        return name
    _say_renamed(name)
    return former()[name]


@functools.cache
def _say_renamed(name: str) -> None:
    print(f"{name} is now called {former()[name]}", file=sys.stderr)


def renamed(study: str, parent: str | None, experiment: str | None) -> tuple[str, str | None, str | None]:
    """Name, parent and experiment as they are written today, of a study that says these of itself.

    >>> renamed("grocery-frozen-oi2021-order10", "grocery-frozen", "oi2021-order10")
    ('grocery-frozen/oi2021/order-10', 'grocery-frozen', 'oi2021/order-10')
    >>> renamed("my-photos-oi2021-random", "my-photos", "oi2021-random"), renamed("my-photos", None, None)
    (('my-photos-oi2021-random', 'my-photos', 'oi2021/random'), ('my-photos', None, None))
    """
    around = former().get(parent, parent)
    now = experiment and written(experiment)
    if parent and study == f"{parent}{COMPARED}":
        return f"{around}{COMPARED}", around, now
    return former().get(study, study), around, now


def written(experiment: str) -> str:
    """The id of an experiment as it is written today: a paper, and behind a slash what is varied.

    >>> written("roth2020-batches-equal"), written("oi2021-order2"), written("rates-searched")
    ('roth2020/batches-equal', 'oi2021/order-2', 'rates-searched')
    """
    paper, dash, rest = experiment.partition("-")
    if not (dash and paper in _PAPERS):
        return experiment
    number = rest.removeprefix("order")
    return f"{paper}/order-{number}" if number.isdigit() and number != rest else f"{paper}/{rest}"


_PAPERS = ("roth2020", "fehervari2019", "zhai2019", "oi2021")


def folded(name: str) -> str:
    """A study's name where a name of a file or an id wants none with slashes."""
    return name.replace("/", "-")
