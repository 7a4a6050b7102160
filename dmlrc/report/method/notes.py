"""What a page says of a method that no record shows: its equation, where ours differs, and which papers claim it."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType

from dmlrc.methods import Method
from dmlrc.papers import after2019, musgrave2020

SHOWN: Mapping[str, Method] = MappingProxyType(
    {each.name: each for each in (*musgrave2020.METHODS, *after2019.METHODS)}
)
"""The methods that have a page: those that are searched, the Reality Check's and the ones after 2019."""


@dataclass(frozen=True)
class Note:
    """formulas: the loss of a batch, then what it is made of, LaTeX. where: what the letters mean, Markdown. ours:
    where our loss differs from its source, Markdown. symbols: hyperparameter -> its letter in the formulas, LaTeX.
    claimed_by: the papers, as `published.claims` names them, whose proposal it is. claims: ids of `claims.CLAIMS`.
    """

    formulas: tuple[str, ...]
    where: str
    ours: str
    symbols: Mapping[str, str]
    claimed_by: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


def _read() -> dict[str, Note]:
    rows = tomllib.loads((files(__package__) / "notes.toml").read_text(encoding="utf-8"))
    return {
        name: Note(**{key: tuple(each) if isinstance(each, list) else each for key, each in row.items()})
        for name, row in rows.items()
    }


def page(method: str) -> str:
    """The name of a method's page."""
    return f"method_{method}"


def anchor(method: str) -> str:
    """What a method's page, and the ids of its tables and figures, begin with."""
    return f"method-{method.replace('_', '-')}"


def heading(method: Method) -> str:
    """The heading of a method's page, MyST, with the anchor that `LINKS` leads to."""
    return f"({anchor(method.name)})=\n# {method.label}"


LINKS: Mapping[str, str] = MappingProxyType(
    {method.label: f"{page(name)}.html#{anchor(name)}" for name, method in SHOWN.items()}
)
"""Where the page of a method is, from a chapter, by the method's label: for the `links` of `publish.table`."""


NOTES: Mapping[str, Note] = MappingProxyType(_read())
