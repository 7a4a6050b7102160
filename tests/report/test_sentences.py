"""Every sentence of the published text with a number, a comparative or a quantifier has a guard, or a reason why not.

A clause has a guard if it shares a sentence with one; numbers that are glued in are no words of it. `unguarded.csv` has
a part of each clause that needs none, by page, and why:

- setting: what was run, how it was judged, and what was foreseen, as written down; no result;
- paper: what another paper did or says;
- reading: how a table or a figure is read, and what a glued number is of;
- reasoning: it follows from no record, and holds whatever the records say;
- advice: it tells the reader what to do, or asks;
- tested: test_front_page.py and test_project.py hold it.
"""

import csv
import re
from pathlib import Path

import nbformat
from test_guards import PAGES, ROOT, written
from test_prose import NO_NUMBER, NUMBER, sentences

from dmlrc.report import prose

REASONS = {"setting", "paper", "reading", "reasoning", "advice", "tested"}
WORDS = """one two three four five six seven eight nine ten eleven twelve thirteen fourteen twenty fifty hundreds?
thousands? half third quarter fifths? tenth twentieth twice once double first all every everywhere each no none nobody
nothing never always only alone both any few many most mostly some several more less fewer higher lower better worse
best worst least larger smaller largest smallest highest lowest closer ahead behind above below beats?"""
CLAIM = re.compile(rf"{NUMBER}|\b({'|'.join(WORDS.split())}|[a-z]+er than)\b", re.I)


CODE = re.compile(r"^```\{.*?$(.*?)^```$|^```\w*$.*?^```$", re.MULTILINE | re.DOTALL)
"""A box, with its text, or code."""


def clauses(text):
    """The sentences of a text, with bold headlines and what semicolons divide apart; code has none."""
    return [part for each in sentences(CODE.sub(r"\1", text)) for part in re.split(r"(?<=;) |(?<=[.:?!]\*\*) ", each)]


def unguarded(text, guarded):
    """The clauses of a text that claim something and share nothing with the guarded sentences."""
    known = [part for sentence in guarded for part in clauses(sentence)]
    claims = [
        each for each in clauses(text) if CLAIM.search(NO_NUMBER.sub("", re.sub(r"\{glue:text\}`[^`]*`", "", each)))
    ]
    return [each for each in claims if not any(part in each or each in part for part in known)]


def published_texts():
    """Page -> its published text and guarded sentences; the README says, up to its commands, what page 0 does."""
    texts = {}
    for path in PAGES:
        cells = [cell for cell in nbformat.read(path, as_version=4).cells if prose.TAG in cell.metadata.get("tags", [])]
        texts[path.stem] = "\n\n".join(cell.source for cell in cells), written(path)
    readme = (ROOT / "README.md").read_text(encoding="utf-8").split("## Use")[0]
    return texts | {"README": (readme, written(PAGES[0]))}


def test_every_claim_has_a_guard_or_a_reason_why_not():
    texts = published_texts()
    assert [page for page, (text, guarded) in texts.items() if text and not guarded] == []
    with (Path(__file__).parent / "unguarded.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["why"] for row in rows} == REASONS
    for page, (text, guarded) in texts.items():
        reasons = [row["sentence"] for row in rows if row["page"] == page]
        found = unguarded(text, guarded)
        assert [each for each in found if not any(part in each for part in reasons)] == [], page
        assert [part for part in reasons if sum(part in each for each in found) != 1] == [], page
    assert {row["page"] for row in rows} <= set(texts)


def test_a_claim_without_a_guard_is_found():
    guarded = ["no loss wins on all three", "Few differ.** Of 91 pairs"]
    assert (
        unguarded(
            "Here no loss wins on all three.\n\n- **Few differ.** Of 91 pairs 36 do; {glue:text}`x:.1f` %.", guarded
        )
        == []
    )
    text = "MS is higher than all.\n\nIt gains {glue:text}`x:.1f` points; 36 do. They differ ([A, 2021](b#c))."
    text += "\n\n```{admonition} In short\nThree lead.\n```\n\n```shell\nmake all\n```"
    assert unguarded(text, guarded) == ["MS is higher than all.", "36 do.", "Three lead."]
