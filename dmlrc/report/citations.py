"""Citations in two forms: a role of MyST in the book, and a link to `book/references.bib` where that is not read."""

import functools
import re
from collections.abc import Mapping
from pathlib import Path

from dmlrc import paths

_FILE = "../book/references.bib"
_END = rf"\]\({re.escape(_FILE)}#(\w+)\)"
_AND_YEAR = rf"\[[^\[\]]*, \d{{4}}{_END}"
_LINKS = re.compile(rf"\({_AND_YEAR}(?:; {_AND_YEAR})*\)|\[[^\[\]]* \(\d{{4}}\){_END}")
_ROLES = re.compile(r"\{cite:([pt])\}`([\w,]+)`")
_ACCENTS = {r"{\v{s}}": "š", r"{\"o}": "ö"}


def as_roles(markdown: str) -> str:
    """Turn links into roles.

    >>> as_roles("By [Roth et al. (2020)](../book/references.bib#roth2020).")
    'By {cite:t}`roth2020`.'
    """
    return _LINKS.sub(_role, markdown)


def _role(link: re.Match) -> str:
    return "{{cite:{}}}`{}`".format("p" if link[0][0] == "(" else "t", ",".join(re.findall(r"bib#(\w+)", link[0])))


def as_links(markdown: str) -> str:
    """Turn roles into links, whose text is authors and year, where the bibliography is here."""
    file = paths.home() / "book" / "references.bib"
    return _ROLES.sub(functools.partial(_link, _names(file)), markdown) if file.exists() else markdown


def _link(names: Mapping[str, tuple[str, str]], role: re.Match) -> str:
    form = "[{} ({})]({}#{})" if role[1] == "t" else "[{}, {}]({}#{})"
    links = "; ".join(form.format(*names[key], _FILE, key) for key in role[2].split(","))
    return links if role[1] == "t" else f"({links})"


@functools.cache
def _names(file: Path) -> dict[str, tuple[str, str]]:
    """The authors and the year of each entry of a bibliography, by its key."""
    text, names = file.read_text(encoding="utf-8"), {}
    for latex, letter in _ACCENTS.items():
        text = text.replace(latex, letter)
    for key, entry in re.findall(r"^@\w+\{(\w+),\n(.*?)^\}", text, flags=re.MULTILINE | re.DOTALL):
        authors, year = (re.search(rf"\b{field} = \{{(.*)\}}", entry)[1] for field in ("author", "year"))
        last = [author.partition(",")[0].strip() for author in authors.split(" and ")]
        names[key] = f"{last[0]} et al." if len(last) > 2 else " and ".join(last), year
    return names
