"""Every sentence of book and README with a number, a comparative or a quantifier has a guard, or a reason why not.

So has every one that pages show of the library's TOML files, where a field of these, such as `claims.rationale`, stands
for a page. A clause has a guard if it shares a sentence with one; numbers that are glued in are no words of it.
`unguarded.csv` has a part of each clause that needs none, by page, and why. A * there is for all of a field that has
another paper's words; of a field of our labels or definitions it is for what does not say how something came out:

- setting: what was run, how it was judged, and what was foreseen, as written down; no result;
- paper: what another paper did or says;
- definition: what a word means, a score is, or a command does;
- reading: how a table or a figure is read, what is on a page, and what a glued number is of;
- reasoning: it follows from no record, and holds whatever the records say;
- advice: it tells the reader what to do, or asks;
- judged: it is a claim, beside which its verdict stands;
- tested: test_front_page.py, test_project.py and test_coverage.py hold it.

What test_settings.py checks counts as guarded.
"""

import csv
import re
from pathlib import Path

import nbformat
from test_guards import PAGES, ROOT, written
from test_prose import NO_NUMBER, NOTEBOOKS, NUMBER, sentences, texts_of, toml_texts
from test_settings import checks

from dmlrc.report import prose, words

REASONS = {"setting", "paper", "definition", "reading", "reasoning", "advice", "judged", "tested"}
THEIRS = {"paper", "judged"}
WORDS = """one two three four five six seven eight nine ten eleven twelve thirteen fourteen twenty fifty hundreds?
thousands? half third quarter fifths? tenth twentieth twice once double first all every everywhere each no none nobody
nothing never always only alone both any few many most mostly some several more less fewer higher lower better worse
best worst least larger smaller largest smallest highest lowest closer ahead behind above below beats?"""
CLAIM = re.compile(rf"{NUMBER}|\b({'|'.join(WORDS.split())}|[a-z]+er than)\b", re.I)
OUT = """more most less fewer higher highest lower lowest larger largest smaller smallest better best worse worst closer
closest ahead behind above(?!.0) below beats? beaten wins? won loses? lost gains? gained rises? rose falls? fell
improves? improved helps? helped harms? harmed outperforms? reach(es|ed)? ties? tied differs?"""
OUTCOME = re.compile(rf"\b({'|'.join(OUT.split())}|[a-z]+er than)\b|\d ?(%|points)", re.I)

ASKS = re.compile(r"#+ .*\?")
"""A heading that asserts nothing."""


def clauses(text):
    """The sentences of a text, with bold headlines and what semicolons divide apart; code has none."""
    lines = "\n".join(words.text_lines(text))
    return [part for each in sentences(lines) for part in re.split(r"(?<=;) |(?<=[.:?!]\*\*) ", each)]


def unguarded(text, guarded):
    """The clauses of a text that claim something and share nothing with the guarded sentences."""
    known = [part for sentence in guarded for part in clauses(sentence)]
    bare = {each: NO_NUMBER.sub("", re.sub(r"\{glue:text\}`[^`]*`", "", each)) for each in clauses(text)}
    claims = [each for each, said in bare.items() if CLAIM.search(said) and re.search("[a-z]", said)]
    unknown = [each for each in claims if not any(part in each or each in part for part in known)]
    return [each for each in unknown if not ASKS.fullmatch(each)]


def starred(found, why):
    """Those of a field's clauses that its * is not for. why: its reason."""
    return [each for each in found if why not in THEIRS and OUTCOME.search(each)]


def written_texts():
    """Page or field -> its text and guarded sentences; the README says, up to its commands, what page 0 does."""
    texts = {}
    for path in NOTEBOOKS:
        cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"]
        guarded = written(path) if path in PAGES else []
        assert guarded or not any(prose.TAG in cell.metadata.get("tags", []) for cell in cells), path.name
        texts[path.stem] = "\n\n".join(cell.source for cell in cells), guarded
    for path in sorted((ROOT / "book").glob("*.md")):
        if path.stem not in words.LEFT_OUT:
            texts[path.stem] = path.read_text(encoding="utf-8"), []
    texts["README"] = (ROOT / "README.md").read_text(encoding="utf-8"), written(PAGES[0])
    guards = [sentence for path in PAGES for sentence in written(path)]
    for field, found in toml_texts().items():
        text = "\n\n".join(found)
        texts[field] = text, [sentence for sentence in guards if sentence in " ".join(text.split())]
    return {page: (text, [*guarded, *checks().get(page, ())]) for page, (text, guarded) in texts.items()}


def test_every_claim_has_a_guard_or_a_reason_why_not():
    texts = written_texts()
    with (Path(__file__).parent / "unguarded.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["why"] for row in rows} == REASONS
    for page, (text, guarded) in texts.items():
        reasons = {row["sentence"].rstrip(";"): row["why"] for row in rows if row["page"] == page}
        found = dict.fromkeys(each.rstrip(";") for each in unguarded(text, guarded))
        if found and page in toml_texts() and (why := reasons.pop("*", None)):
            found = starred(found, why)
        assert [each for each in found if not any(part in each for part in reasons)] == [], page
        assert [part for part in reasons if sum(part in each for each in found) != 1] == [], page
    assert {row["page"] for row in rows} <= set(texts)


def test_a_star_lets_no_outcome_of_ours_through():
    found = ["R@1 for each doubling", "Triplet wins on all sets", "MS is 3 points ahead", "hinges above 0"]
    assert starred(found, "paper") == []
    assert starred(found, "definition") == found[1:3]


def test_what_the_settings_are_checked_for_is_on_the_pages():
    texts = written_texts()
    for page, found in checks().items():
        text = " ".join(texts[page][0].split())
        assert [said for said in found if said not in text] == [], page


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
    text += "\n\n## Do all differ?\n\n## All differ"
    assert unguarded(text, guarded) == ["MS is higher than all.", "36 do.", "Three lead.", "## All differ"]


def test_text_of_cells_that_stand_in_every_edition_and_of_other_pages_is_read():
    texts = written_texts()
    assert "MAP@R is not the right score for everything" in texts["02_which_score_to_trust"][0]
    assert "# How fast is it?" in texts["21_speed"][0]
    assert {"glossary", "rerun", "fork_a_loss", "your_run"} <= {*texts}


def test_texts_of_toml_files_are_read_by_their_fields():
    file = {
        "a": {"why": "It gains more.", "formulas": ["1 + 1"], "rows": ["one", "two rows"]},
        "columns": {"b": "at 1"},
    }
    assert texts_of(file, "file") == [("why", "It gains more."), ("rows", "two rows"), ("columns", "at 1")]
    texts = written_texts()
    assert "Half of Grocery Store has 40 classes" in texts["deviations.why"][0]
    assert "half a decade to either side moves validation MAP@R by less than a point" in texts["deviations.why"][1]
    assert unguarded(texts["deviations.why"][0] + "\n\nIt gains 3 points.", texts["deviations.why"][1])[-1] == (
        "It gains 3 points."
    )
