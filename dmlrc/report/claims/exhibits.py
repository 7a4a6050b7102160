"""The tables and figures of the five papers, and those of ours that claims lead to; read from `exhibits.toml`."""

import tomllib
from importlib.resources import files
from typing import NamedTuple

from markupsafe import Markup

_FILE = tomllib.loads((files(__package__) / "exhibits.toml").read_text(encoding="utf-8"))


class Exhibit(NamedTuple):
    """A table or figure of a chapter. Where a paper has it, it is called as there.

    paper: whose it is, or "ours". shows, of a paper's: what it shows. needs: the experiments without which nothing of
    it is ours. has_result: whether it measures anything. alone: the paper's numbers stand there alone.
    """

    paper: str
    chapter: str
    called: str
    shows: str = ""
    needs: tuple[str, ...] = ()
    has_result: bool = True
    alone: bool = False


EXHIBITS = {id: Exhibit(paper, **row) for paper, rows in _FILE.items() for id, row in rows.items()}
"""By their ids in the book, "musgrave-t4" for instance."""


def link(label: str) -> Markup:
    """A link to a table or figure, from one chapter to another.

    >>> print(link("musgrave-f1"))
    <a href="02_which_score_to_trust.html#musgrave-f1">Fig. 1</a>
    """
    exhibit = EXHIBITS[label]
    return Markup('<a href="{}.html#{}">{}</a>').format(exhibit.chapter, label, exhibit.called)
