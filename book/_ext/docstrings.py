"""The docstrings of the package on the API page: plain text, whose line breaks and signs are kept as they are.

A docstring is no reStructuredText: its formulas are full of |, * and _. Each paragraph becomes a line block of literal
text in which `names` are code; examples (>>>) stay what they are. Lines broken for want of room flow on.
"""

import re

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

_SPECIAL = re.compile(r"([\\*|_])")
_FULL = 104  # of the 120 characters of a line, behind indentation
_CODE = re.compile(r"`([^`]+)`")


def as_text(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Replace the lines of a docstring by reStructuredText that shows them; for autodoc-process-docstring."""
    shown = []
    for paragraph in "\n".join(lines).strip().split("\n\n"):
        text = paragraph.split("\n")
        shown += [*(text if text[0].lstrip().startswith(">>>") else map(_line, _flowing(text))), ""]
    lines[:] = shown


def _flowing(lines: list[str]) -> list[str]:
    """Lines, of which one follows the other where its first word had no room there."""
    told = [lines[0]]
    full = len(lines[0])
    for line in lines[1:]:
        word = line.split()[0]
        if full + 1 + len(word) > _FULL and not line.startswith(" "):
            told[-1] += f" {line}"
        else:
            told.append(line)
        full = len(line)
    return told


def _line(text: str) -> str:
    """One line of a line block; its indentation is kept."""
    parts = _CODE.split(text)  # text, code, text, ...
    return "| " + "".join(f"``{part}``" if at % 2 else _SPECIAL.sub(r"\\\1", part) for at, part in enumerate(parts))


class Losses(SphinxDirective):
    """Every loss of the registry: its name for `create`, and its class."""

    def run(self) -> list[nodes.Node]:
        from dmlrc import losses

        lines = []
        for name, cls in losses.REGISTRY.items():
            lines += [f"``{name}``", "", f".. autoclass:: {cls.__module__}.{cls.__name__}", ""]
        parent = nodes.container()
        self.state.nested_parse(StringList(lines, source="losses"), self.content_offset, parent)
        return parent.children


def setup(app: Sphinx) -> dict:
    app.connect("autodoc-process-docstring", as_text)
    app.add_directive("losses", Losses)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
