"""The prose states no results of its own: every accuracy on a page is computed from records or published tables."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import nbformat
import pytest
from cases import loop

from dmlrc import studies
from dmlrc.report import answers, words

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# The preregistration says, as of its date, what was known and where the bounds lie: its numbers are typed on purpose.
PAGES = sorted(page for page in (ROOT / "book").glob("*.md") if page.stem != "preregistration")
NOT_PROSE = re.compile(r"`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\{[a-z:]+\}`[^`]*`", re.DOTALL)
RESULT = re.compile(r"\d[\d,]*\.\d+|(?<!\.)\d[\d.,]*\s*(?:%|points?\b|per cent)")  # the form ".1%" is no number
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


@loop("path", [*NOTEBOOKS, *PAGES])
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


WRITER = "answers.py"
"""The one module that makes sentences from values: answers on a reader's own data."""
PRINTED = ("build.py", "console.py", "planning.py", "ranking.py", "results_list.py")
"""Modules whose texts are what a command prints."""
VERBS = r"""is are was were be been has have had does do can cannot could would will may might must takes? keeps? lies?
hangs? depends? reach(?:es)? exceeds? ties? differs? leads? beats? wins? rises? falls? shows? says? needs?
lacks? gives?"""
VERB = re.compile(rf"\b(?:{'|'.join(VERBS.split())})\b", re.I)
NO_TEXT = re.compile(r"```.*?```|<[^>]*>|\{[a-z:-]+\}|^(?:dmlrc|make|papermill|python) .*$", re.DOTALL | re.M)
"""Code, tags, roles and commands."""
PLACE = re.compile(r"(?<!\{)\{\w*(?:\[[^\]]*\])?(?:![rs])?(?::[^}`]*)?\}(?![`}])|%[.\d+]*[sdf]")
"""Where `format` and `%` put a value into a text."""
VALUE = "\N{NULL}"


def claimed_of(text):
    """The clauses of a text with a value in them: four words, or two of which one is a verb.

    They end at . : ; ! ? ( ) and ends of lines: a value alone behind a label ("Loss: ", "n = ") is none.
    """
    for clause in re.split(r"[.;:!?)](?!\w)|[(\n]", NO_TEXT.sub("", text)) if VALUE in text else ():
        words = re.findall(r"[A-Za-z]{2,}", clause) if " " in clause else ()
        if VALUE in clause and (len(words) > 3 or (len(words) > 1 and VERB.search(clause))):
            yield clause


def text_of(node):
    """The text that an expression makes, VALUE for what is computed; a constant in capitals is typed."""
    match node:
        case ast.Constant(value=str(text)):
            return PLACE.sub(VALUE, text)
        case ast.JoinedStr(values=values):
            return "".join(map(text_of, values))
        case ast.FormattedValue(value=value):
            return text_of(value)
        case ast.BinOp(op=ast.Add() | ast.Mod(), left=left, right=right):
            return text_of(left) + text_of(right)
        case ast.IfExp(body=body, orelse=orelse):
            one, other = sorted(map(text_of, (body, orelse)), key=len)
            return other if VALUE in other or VALUE not in one else other + VALUE
        case ast.Name(id=name) | ast.Attribute(attr=name) if name.isupper():
            return ""
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="join"), args=[ast.List(elts=each)]):
            return text.join(map(text_of, each))
    return VALUE


def made_sentences(code):
    """What Python code makes of values and what `claimed_of` finds in it: the first clause of each expression.

    Errors, what is printed, and alternative texts (`message`, the fourth that `publish.figure` is given) do not count.
    """
    found = []

    def visit(node, function):
        match node:
            case ast.Raise() | ast.Call(func=ast.Name(id="print" | "need")) | ast.Expr(value=ast.Constant()):
                return
            case ast.Assign(targets=[ast.Name(id="message")]) | ast.AugAssign(target=ast.Name(id="message")):
                return
            case ast.Call(func=ast.Attribute(attr="figure"), args=[_, _, _, _, *_]):
                return [visit(each, function) for each in (*node.args[:3], *node.args[4:], *node.keywords)]
            case ast.FunctionDef(name=name):
                function = name
            case ast.AugAssign(op=ast.Add(), value=value) if not isinstance(value, ast.Constant):
                node = ast.BinOp(node.target, ast.Add(), value)
        for clause in claimed_of("" if isinstance(node, ast.IfExp) else text_of(node)):
            return found.append((function, clause))
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(ast.parse(code), "")
    return found


def test_python_makes_no_sentence_of_a_page():
    report, codes = ROOT / "dmlrc" / "report", {}
    for path in (*sorted(report.rglob("*.py")), *sorted((ROOT / "book" / "_ext").glob("*.py"))):
        codes[path.name if path.parent == report else f"{path.parent.name}/{path.name}"] = path.read_text()
    for path in NOTEBOOKS:
        cells = nbformat.read(path, as_version=4).cells
        codes[path.name] = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    found = {name: made_sentences(code) for name, code in codes.items()}
    assert len(found.pop(WRITER)) <= len(answers.SENTENCES) <= 12
    assert {name: clauses for name, clauses in found.items() if clauses and name not in PRINTED} == {}
    assert all(found[name] for name in PRINTED)


NAMED = ("columns", "intervals", "levers")
"""What has texts under names of its own: one field."""


def texts_of(value, field):
    """A TOML value's texts, but for formulas and for names, which are one word: (field, text)."""
    if isinstance(value, dict):
        parts = [(field if field in NAMED else key, part) for key, part in value.items() if key != "formulas"]
    else:
        parts = [(field, part) for part in value] if isinstance(value, list) else []
    own = [(field, value)] if isinstance(value, str) and " " in value else []
    return own + [text for key, part in parts for text in texts_of(part, key)]


@cache
def toml_texts():
    """What pages show of the library's TOML files: FOLDER.field -> the texts that stand there, each once."""
    texts = {}
    for path in sorted((ROOT / "dmlrc").rglob("*.toml")):
        for field, text in texts_of(tomllib.loads(path.read_text(encoding="utf-8")), path.stem):
            texts.setdefault(f"{path.parent.name}.{field}", {})[text] = None
    return {field: list(found) for field, found in texts.items()}


def test_no_text_of_a_table_has_a_place_for_a_value_in_a_sentence():
    for field, texts in toml_texts().items():
        for text in texts:
            assert list(claimed_of(PLACE.sub(VALUE, NOT_PROSE.sub("", text)))) == [], field


@loop(
    "code",
    [
        'f"The highest MAP@R of {study} belongs to {best}."',
        'f"{row}, which hangs on {names}"',
        '" (a perfect score would be " + str(most) + " %)"',
        'what += f", stored at {size} pixels and enlarged"',
        '"all {} rows lie below".format(n)',
        '"%s of the rows lie below" % n',
        'FORM = "{losses} cannot be distinguished from it"',
        """f"trained by Adam, at the rate {'of the embedder' if rate is None else rate}\"""",
        '" ".join(["the rate", number(rate), "is shared"])',
        'publish.figure(name, drawing, f"The toy over {seeds} seeds", "alt")',
    ],
)
def test_a_made_sentence_is_found(code):
    assert len(made_sentences(code)) == 1


@pytest.mark.parametrize(
    "code",
    [
        'raise ValueError(f"the file {name} is not there any more, so name another one.")',
        'print(f"{count} trials of this study are still missing")',
        'f"{name} ({searches} searches): n = {reruns} reruns"',
        'f"Verdicts by the rule of the card. {MARKED}"',
        'f"{text}. A typed sentence has no value in it."',
        '"{term}`Frozen trunk` is what no step of training changes"',
        'publish.figure(name, drawing, "A caption.", f"Claimed P@1 climbs by {points} a year")',
    ],
)
def test_labels_errors_and_typed_texts_are_none(code):
    assert made_sentences(code) == []


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


@loop("path", [*NOTEBOOKS, *PAGES, ROOT / "README.md"])
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
    [name] = re.findall(r"The full run, `dmlrc study run (cub200-\w+)`", text)
    assert studies.get(name).protocol.paper == paper
