"""Counts of the words a reader of the book is given: `python -m dmlrc.report.words` fails where a page has too many.

Counted is what a person wrote: the Markdown of notebooks and of `book/`, without tables, code, formulas, figures and
captions, and what pages show of the notes on losses and samplers, but not in a fold. Not counted at all: the
preregistration, which must not change, the API, the bibliography.
"""

import re
import sys
from collections.abc import Iterator

import nbformat

from dmlrc import paths
from dmlrc.report import citations
from dmlrc.report.method import notes

CHAPTER = 1_100
"""Words of a chapter."""
LONGER = {
    **{"15_wrong_numbers": 1_500, "08_what_moves_a_score": 1_500},
    **{"00_introduction": 350, "22_hpo_benchmark": 600, "method": 300},
}
"""Pages with a limit of their own."""
REFERENCE = (
    *("18_losses_of_the_other_papers", "19_all_results", "20_provenance", "21_speed", "23_many_classes"),
    *("method", "your_run"),
)
"""Notebooks that are reference pages, as all of `book/` is."""
LEFT_OUT = ("preregistration", "api", "bibliography")
STORY, REST = 12_000, 4_000
"""Words of the first page and all chapters together, and of all reference pages but those of losses."""

_CONTAINERS = ("admonition", "note", "tip", "warning", "important", "dropdown", "container", "glossary")
"""Directives whose content is text; that of all others is code, formulas, tables or pictures."""
_FENCE = re.compile(r"^\s*(?P<fence>`{3,}|:{3,})(?:\{(?P<directive>[\w-]+)\})?(?P<rest>.*)$")
_NO_TEXT = re.compile(r"^\s*\||^\s*:[\w-]+:|^\([\w-]+\)=$")
"""Rows of tables, options of directives, and labels."""


def count_words(markdown: str) -> int:
    """The words of a text; what a role shows is one.

    >>> count_words("# Two words\\n\\n| a | table |\\n\\nMAP@R rises by {glue:text}`gain:+.1f` *points*.")
    7
    """
    text = "\n".join(line for line in text_lines(citations.as_roles(markdown)) if not _NO_TEXT.match(line))
    text = re.sub(r"\$\$.*?\$\$|<[^>]+>", " ", text, flags=re.DOTALL)
    text = re.sub(r"\{[a-z:]+\}`[^`]*`", " role ", text)
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def text_lines(markdown: str) -> Iterator[str]:
    """The lines that stand in no block of code, formulas, tables or pictures."""
    inside: list[tuple[str, bool]] = []  # of each block that is open its fence, and whether its content is text
    for line in markdown.splitlines():
        if not (fence := _FENCE.match(line)):
            if all(is_text for _, is_text in inside):
                yield line
        elif inside and fence["fence"] == inside[-1][0] and not fence["directive"] and not fence["rest"].strip():
            inside.pop()
        else:
            inside.append((fence["fence"], fence["directive"] in _CONTAINERS))


def words_by_page() -> dict[str, int]:
    """The words of each page, by its name without suffix."""
    home = paths.home()
    texts = {}
    for path in sorted((home / "notebooks").glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        texts[path.stem] = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    texts |= {path.stem: path.read_text(encoding="utf-8") for path in sorted((home / "book").glob("*.md"))}
    for name, noted in noted_texts().items():
        texts[name] += f"\n\n{noted}"
    return {name: count_words(text) for name, text in texts.items() if name not in LEFT_OUT}


def noted_texts() -> dict[str, str]:
    """Texts of `notes.toml` and `samplers.toml` that pages show, by their names; of the pages of a loss the longest."""
    ideas = [note.idea for note in notes.OTHERS.values()]
    ideas += [sampler["idea"] for sampler in notes.read_notes("samplers.toml", dict).values()]
    of_losses = [f"{note.idea}\n\n{note.where}\n\n{note.ours}" for note in notes.NOTES.values()]
    return {notes.OTHERS_PAGE: "\n\n".join(ideas), "method": max(of_losses, key=count_words)}


def too_long(words: dict[str, int]) -> list[str]:
    """Pages, and groups of pages, that are over their limit, a line each. words: as `words_by_page`."""
    story = [name for name in words if name[:2].isdigit() and name not in REFERENCE]
    limits = {name: LONGER.get(name, CHAPTER) for name in (*story, "method")}
    over = [f"{name}: {words[name]} of {limit} words" for name, limit in limits.items() if words.get(name, 0) > limit]
    rest = [name for name in words if name not in story and name != "method"]
    for group, names, limit in (("the chapters", story, STORY), ("the reference pages", rest, REST)):
        if (together := sum(words[name] for name in names)) > limit:
            over.append(f"{group} together: {together:,} of {limit:,} words")
    return over


def _main() -> None:
    words = words_by_page()
    print("\n".join(f"{number:6,} {name}" for name, number in words.items()))
    print("\n".join(over := too_long(words)))
    sys.exit(bool(over))


if __name__ == "__main__":
    _main()
