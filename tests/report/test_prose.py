"""The prose states no results of its own: every accuracy on a page is computed from records or published tables."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

from dmlrc import studies
from dmlrc.report import words

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# The preregistration says, as of its date, what was known and where the bounds lie: its numbers are typed on purpose.
PAGES = sorted(page for page in (ROOT / "book").glob("*.md") if page.stem != "preregistration")
NOT_PROSE = re.compile(r"`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\{[a-z:]+\}`[^`]*`", re.DOTALL)
RESULT = re.compile(r"\d[\d,]*\.\d+|\d[\d.,]*\s*(?:%|points?\b|per cent)")
# What is fixed by a definition, a protocol or a section number, and so is no result.
ALLOWED = (
    r"95 % (confidence )?interval",
    r"[Ss]ections? \d\.\d(\.\d)?",
    r"(below|near|reach|exceed\w*|approaches|maximum is below|within( about)?)\s+\d+\s%",
    r"Of a dozen methods, 0\.6",  # the least rank correlation that is significant
    r"0\.16",  # the crop's share of the area, `finding-crops`
    r"release \d\.\d",
    r"50 % over triplet",  # Musgrave et al., section 4.1: the paper's own words
    r"margin \d\.\d rad",
    r"β = 1\.2",  # the setting that names a row
    r"chance would do so 10 %",
    r"(p <|significant at|apart at|pair at|tested at) 5 %",  # the level of a test
    r"(spans|panels of) 50 points",  # how figures are drawn
    r"each 0\.93 of the one before",  # how a made spectrum is made
    r"by up to 1\.5 %",  # Roth et al., section 4.3: the paper's own words
    r"within \d+ % of",
    r"[Ww]hat does 12\s% MAP@R look like",  # a question
    r"score 0, 12(, 50 and 100| and 50) %",  # what is looked for
)


def results(text):
    """Numbers in a text that could be results; that of boxes and of the glossary is text, that of code is not."""
    text = "\n".join(words.text_lines(text))
    for pattern in ALLOWED:
        text = re.sub(pattern, "", text)
    return RESULT.findall(NOT_PROSE.sub("", text))


def shown_strings(code):
    """The literal parts of the strings that a cell shows with `publish`; what is computed stands between them."""
    for call in ast.walk(ast.parse(code)):
        if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("publish."):
            parts = [each for each in ast.walk(call) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            yield "\N{NULL}".join(each.value for each in parts)


@pytest.mark.parametrize("path", [*NOTEBOOKS, *PAGES], ids=lambda path: path.stem)
def test_no_result_is_typed_by_hand(path):
    if path.suffix == ".md":
        assert not results(path.read_text())
        return
    for cell in nbformat.read(path, as_version=4).cells:
        texts = [cell.source] if cell.cell_type == "markdown" else shown_strings(cell.source)
        for text in texts:
            assert not results(text), text


def test_a_typed_result_is_found():
    assert results("Triplet reaches 41.2 % on CUB200") == ["41.2"]
    assert results("it gains 3 points") == ["3 points"]
    assert not results("with the 95 % interval of section 3.2, `0.5` and $x = 0.1$\n\n```python\na = 0.5\n```")
    assert results("```{admonition} In short\n:class: tip\n- Triplet reaches 41.2 %.\n```") == ["41.2"]
    assert results("```{glossary}\nTrunk\n  It reaches 55.80 %.\n```") == ["55.80"]
    (shown,) = shown_strings('publish.text(f"It is {value:.2f} %, not 12.5 %")')
    assert results(shown) == ["12.5"]


WRITERS = {
    "ranking.py": "the command line, and answers on a reader's own data",
    "yours.py": "answers on a reader's own data",
    "labels.py": "what a reader's own studies cannot show",
    "significance/page.py": "which luck a comparison of a reader's own loss counts",
    "claims/page.py": "a caption, with a sign in it",
    "method/samplers.py": "texts that are typed, one behind the other",
    "speed/page.py": "the machine of a measurement, at the foot of its page",
    **dict.fromkeys(("compare/page.py", "photos/answer.py", "photos/page.py"), "answers on a reader's own data"),
}
"""Where Python may make a sentence from values, and of what; nowhere of published studies."""


def made_sentences(code, captions=False):
    """The strings with values in them that read as a sentence: six words, and a full stop at their end or within.

    captions: those that hold names and whole numbers, and no score, are typed captions.
    """
    tree = ast.parse(code)
    errors = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Raise) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in errors and not (captions and _of_names(node)):
            text = "\N{NULL}".join(part.value for part in node.values if isinstance(part, ast.Constant))
            words = re.findall(r"[A-Za-z]{2,}", re.sub(r"<[^>]*>|\{[a-z-]+\}|[:`]{3,}", "", text))
            if len(words) > 5 and re.search(r"[a-z)%\x00]\.(\s|$)", text):
                yield text


def _of_names(node):
    specs = [part.format_spec for part in node.values if isinstance(part, ast.FormattedValue)]
    return not any(spec and set(ast.unparse(spec)) & set(".%+") for spec in specs)


def test_python_makes_no_sentence_about_published_studies():
    report = ROOT / "dmlrc" / "report"
    codes = {str(path.relative_to(report)): path.read_text() for path in sorted(report.rglob("*.py"))}
    for path in (*NOTEBOOKS, *sorted((ROOT / "book" / "_ext").glob("*.py"))):
        cells = nbformat.read(path, as_version=4).cells if path.suffix == ".ipynb" else ()
        source = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
        codes[path.name] = source if cells else path.read_text()
    found = {name: list(made_sentences(code, name.endswith(".ipynb"))) for name, code in codes.items()}
    assert {name: texts for name, texts in found.items() if texts and name not in WRITERS} == {}
    assert [name for name in WRITERS if not found[name]] == []


def test_a_made_sentence_is_found():
    assert list(made_sentences('f"The highest MAP@R of {study} belongs to {best}."'))
    assert list(made_sentences('f"{best} leads. It is {count} points above all of the others"'))
    assert not list(made_sentences('raise ValueError(f"the file {name} is not there any more, so name another one.")'))
    assert not list(made_sentences('f"{count} trials, 95 % of them"'))


NUMBER = r"(?<![\w@.])[-+−±]?\d(?:[\d,.]*\d)?"
NO_NUMBER = re.compile(
    r"\(\[[^\]]*\]\([^)]*\)[^()]*\)|\[[^\]]*\]\([^)]*\)|\{(?!glue)[a-z:]+\}`[^`]*`|(?<!\})`[^`]*`|\$[^$]*\$"
    r"|CUB-200 \(2010\)|\b(?:19|20)\d\d\b|95 %|[Tt]ables? \d( and \d)?|Optuna \d's|H\d+"
)
"""What has digits and is no number of a sentence: citations, roles, code, formulas, names, years."""


COUNTED = """two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen twenty
twenty-two twenty-five thirty forty fifty hundred thousand"""


def sentences(markdown):
    """The sentences of a text, and the cells of its tables."""
    markdown = re.sub(r"^(`{3,}|:{3,}|:\w).*$", "", markdown, flags=re.M)
    for block in re.split(r"\n\s*\n|\n(?=[-#|]|\d+\. )|(?<=\S) \| ", markdown):
        ends = r"(?:(?<=[.!?])|(?<=[.!?][*)])|(?<=[.!?]\*\*)) (?=[A-Z*\[({])"
        yield from re.split(ends, " ".join(block.split()))


def too_full(sentence):
    """True if a sentence has more than three numbers, or goes through all three data sets, where a table would do.

    Both ends of a range count, both parts of "19 of 21", and words from "two" on; the sentence that says what the data
    sets' short names mean may have more.
    """
    text = NO_NUMBER.sub("", re.sub(r"\{glue:text\}`[^`]*`", "9", sentence))
    through_all = all(re.search(rf"\b{name}\b", text, re.I) for name in ("birds", "cars", "groceries"))
    counted = re.findall(rf"{NUMBER}|\b(?:{'|'.join(COUNTED.split())})\b", text, re.I)
    return len(counted) > 3 or (through_all and "Grocery Store" not in text)


@pytest.mark.parametrize("path", [*NOTEBOOKS, *PAGES, ROOT / "README.md"], ids=lambda path: path.stem)
def test_no_sentence_is_a_table(path):
    texts = [path.read_text(encoding="utf-8")]
    if path.suffix == ".ipynb":
        cells = nbformat.read(path, as_version=4).cells
        texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    texts = ["\n".join(words.text_lines(text)) for text in texts]
    assert [each for text in texts for each in sentences(text) if too_full(each)] == []


def test_a_sentence_that_should_be_a_table_is_seen():
    assert too_full("It gains 1 on birds, {glue:text}`cars:.1f` on cars and 3 on groceries")
    assert too_full("The first has 1, the second 2, the third 3 and the last 4")
    assert too_full("Of twenty losses four gain {glue:text}`a` to {glue:text}`b` %")
    assert too_full("In 19 of 21 pairs, elsewhere in 1 of 42")
    assert not too_full("{glue:text}`a` to {glue:text}`b` % of one in 3, in 2020 ([A, 2021](b#c))")
    assert not too_full("*Birds* are CUB-200 (2010), *cars* Cars crops and *groceries* Grocery Store.")
    assert list(sentences("One. Two (3.5 %).\n\n- **Three.** 4")) == ["One.", "Two (3.5 %).", "- **Three.** 4"]
    assert list(sentences("**One.** {glue:text}`a` of two")) == ["**One.**", "{glue:text}`a` of two"]


@pytest.mark.parametrize("chapter", ["03_musgrave2020", "11_roth2020", "12_fehervari2019", "13_zhai2019", "14_oi2021"])
def test_a_papers_page_says_how_it_is_run_in_full(chapter):
    number, paper = chapter.split("_")
    [path] = [path for path in NOTEBOOKS if path.stem.startswith(number)]
    cells = nbformat.read(path, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    [name] = re.findall(r"To run it in full, `dmlrc study run (cub200-\w+)`", text)
    assert studies.get(name).protocol.paper == paper
