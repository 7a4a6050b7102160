"""Sentences that a person wrote about the published studies, in the Markdown of a page, and what keeps them true.

A page's text stands in its Markdown cells. What it asserts has a guard in the cell behind it: the sentence, word for
word, and whether it holds. Numbers get into it by `{glue:text}`. In a book of other studies these cells are left out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from dmlrc.errors import DmlrcError
from dmlrc.records import StudyRecords
from dmlrc.report import editions

TAG = "published"
"""Of a Markdown cell that is about the published studies."""
OTHERWISE = "otherwise"
"""The name under which such a cell's metadata may hold what stands there in a book of other studies: a title."""
INSTEAD = "The text of this page is about the published studies; here are the same tables and figures of others."


def is_about(edition: Sequence[StudyRecords] | Sequence[str]) -> bool:
    """True if the text is about these studies: the tables that the published book has."""
    return tuple(study if isinstance(study, str) else study.name for study in edition) == editions.FIRST


def says(sentence: str, holds: bool) -> None:
    """Stop the page where a sentence of it does not hold."""
    if not holds:
        raise DmlrcError(f"the page says {sentence!r}, which these records do not bear out: write another sentence")


def put(numbers: Mapping[str, float | str]) -> None:
    """Give the page's numbers to its text."""
    from myst_nb import glue  # it brings all of Sphinx

    for name, value in numbers.items():
        glue(name, value if isinstance(value, str) else float(value), display=False)


def of_each(edition: Sequence[StudyRecords], numbers: Callable[[StudyRecords], Mapping]) -> dict[str, float | str]:
    """The numbers of every study, under the name of its data set: "DATASET.name"."""
    return {f"{study.meta['dataset']}.{name}": value for study in edition for name, value in numbers(study).items()}


def span(name: str, values: Iterable[float]) -> dict[str, float]:
    """The lowest and the highest of some values: "name.low" and "name.high"."""
    values = list(values)
    return {f"{name}.low": min(values), f"{name}.high": max(values)}
