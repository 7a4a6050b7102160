"""Notes on a loss that its records cannot give: its idea and equation, where ours differs, who claims it."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TypeVar

from dmlrc.methods import Method
from dmlrc.papers import after2019, musgrave2020

SHOWN: Mapping[str, Method] = {method.name: method for method in (*musgrave2020.METHODS, *after2019.METHODS)}
"""The methods that have a page: those that are searched, the Reality Check's and the ones after 2019."""
OTHERS_PAGE = "18_losses_of_the_other_papers"
"""The page of the losses that are not searched, a section each."""
T = TypeVar("T")


@dataclass(frozen=True)
class Note:
    """idea: the loss in words. formulas: the loss of a batch, then what it is made of, LaTeX. where: what the letters
    mean. ours: where our loss differs from its source. All but the formulas are Markdown.

    symbols: hyperparameter -> its letter in the formulas, LaTeX.
    claimed_by: the papers, as `published.claims` names them, whose proposal it is. claims: ids of `claims.CLAIMS`.
    label, reference, losses: of a section about losses that are not searched: its heading, the entry of their source in
    the bibliography, their names in `losses.REGISTRY`.
    """

    idea: str
    formulas: tuple[str, ...]
    where: str
    ours: str
    symbols: Mapping[str, str]
    claimed_by: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    label: str = ""
    reference: str = ""
    losses: tuple[str, ...] = ()


def read_notes(file: str, kind: Callable[..., T]) -> Mapping[str, T]:
    """The tables of a TOML file of this package by their names, each a `kind` of its fields."""
    rows = tomllib.loads((files(__package__) / file).read_text(encoding="utf-8"))
    fields = {
        name: {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
        for name, row in rows.items()
    }
    return {name: kind(**row) for name, row in fields.items()}


def page_name(method: str) -> str:
    """The name of a method's page."""
    return f"method_{method}"


def id_prefix(method: str) -> str:
    """The beginning of the name of a method's page, and of the ids of its tables and figures."""
    return f"method-{method.replace('_', '-')}"


def section_anchor(section: str) -> str:
    """The anchor of a section of `OTHERS`, with which the ids of its tables begin too."""
    return f"loss-{section.replace('_', '-')}"


def heading(method: Method) -> str:
    """The heading of a method's page, MyST, with the anchor that `LINKS` leads to."""
    return f"({id_prefix(method.name)})=\n# {method.label}"


_ALL = read_notes("notes.toml", Note)
NOTES: Mapping[str, Note] = {name: note for name, note in _ALL.items() if not note.losses}
"""Of the methods of `SHOWN`, by their names."""
OTHERS: Mapping[str, Note] = {name: note for name, note in _ALL.items() if note.losses}
"""Of the losses that other papers train with fixed settings; a note has one loss, or several of one kind."""
LINKS: Mapping[str, str] = {method.label: f"{page_name(name)}.html#{id_prefix(name)}" for name, method in SHOWN.items()}
"""Where the page of a method is, from a chapter, by the method's label: for the `links` of `publish.table`."""
SECTIONS: Mapping[str, str] = {name: f"{OTHERS_PAGE}.html#{section_anchor(name)}" for name in OTHERS}
"""Where the sections of `OTHERS` are."""
ADDRESSES: Mapping[str, str] = {loss: SECTIONS[name] for name, note in OTHERS.items() for loss in note.losses} | {
    method.loss: LINKS[method.label] for method in SHOWN.values()
}
"""As `LINKS`, by the name of a loss: to its page, or to its section on `OTHERS_PAGE`."""


def losses_of_claim(claim: str) -> list[tuple[str, str]]:
    """The losses that a claim, by its id, is about: label and address from a chapter."""
    own = [(SHOWN[name].label, LINKS[SHOWN[name].label]) for name, note in NOTES.items() if claim in note.claims]
    return own + [(note.label, SECTIONS[name]) for name, note in OTHERS.items() if claim in note.claims]
