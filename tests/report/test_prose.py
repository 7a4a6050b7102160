"""The prose states no results of its own: every accuracy on a page is computed from records or published tables."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# The preregistration says, as of its date, what was known and where the bounds lie: its numbers are typed on purpose.
PAGES = sorted(page for page in (ROOT / "book").glob("*.md") if page.stem != "preregistration")
NOT_PROSE = re.compile(r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\{[a-z:]+\}`[^`]*`", re.DOTALL)
RESULT = re.compile(r"\d[\d,]*\.\d+|\d[\d.,]*\s*(?:%|points?\b|per cent)")
# What is fixed by a definition, a protocol or a section number, and so is no result.
ALLOWED = (
    r"95 % (confidence )?interval",
    r"[Ss]ections? \d\.\d(\.\d)?",
    r"(below|near|reach|exceed\w*|approaches|maximum is below|within)\s+\d+\s%",
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
    """Numbers in a text that could be results."""
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
    assert not results("with the 95 % interval of section 3.2, `0.5` and $x = 0.1$")
    (shown,) = shown_strings('publish.text(f"It is {value:.2f} %, not 12.5 %")')
    assert results(shown) == ["12.5"]
