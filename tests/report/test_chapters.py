"""Every chapter runs from top to bottom on made-up records, and the book made of them is whole and needs no network."""

import re
from html import escape, unescape
from html.parser import HTMLParser
from urllib.parse import unquote

import books
import nbformat
import pandas as pd
import papermill
import pytest
from books import MADE, NAMED, PUBLISHED, ROOT, ROW, STUDIES
from cases import loop

from dmlrc import papers
from dmlrc.papers import after2019
from dmlrc.report import build as bookmaking
from dmlrc.report import publish
from dmlrc.report.results_table import LIFT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
CHECKLIST = (  # the tables and figures of the five papers
    *(f"musgrave-t{number}" for number in range(1, 7)),
    *(f"musgrave-f{number}" for number in range(1, 6)),
    "musgrave-search",
    *(f"roth-t{number}" for number in range(1, 3)),
    *(f"roth-f{number}" for number in range(1, 8)),
    *(f"fehervari-t{number}" for number in range(1, 5)),
    *(f"fehervari-f{number}" for number in range(1, 3)),
    *(f"zhai-t{number}" for number in range(1, 7)),
    *(f"zhai-f{number}" for number in range(1, 5)),
    "oi-t1",
    *(f"oi-f{number}" for number in range(1, 5)),
)
IDS = (
    *CHECKLIST,
    "claimed-and-measured",
    "answer",
    "claims",
    "protocol",
    "findings-all",
    "hypotheses",
    "other-processors",
    "results-all",
    "loss-angular-rows",
    "loss-searched-too",
    *(
        f"method-{method}-{kind}"
        for method in ("contrastive", "proxy-anchor")
        for kind in ("place", "places", "trials")
    ),
)


@pytest.fixture(scope="module", params=(MADE, pytest.param(PUBLISHED, marks=pytest.mark.weekly)))
def edition(request, tmp_path_factory):
    """The book of made-up studies, or of those whose records are committed, which every change builds on GitHub.

    Its chapters are executed for `test_golden.py` and `test_guards.py` each time.
    """
    return books.of(request.param, tmp_path_factory)


@pytest.fixture(scope="module")
def book(edition):
    """The folder of its HTML pages, and its chapters."""
    return edition.pages, edition.chapters


@loop("path", NOTEBOOKS)
def test_what_a_cell_draws_is_the_same_in_every_build(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code" and re.search(r"torch\.rand|np\.random\.(?!default_rng\(\w)", cell.source):
            assert re.search(r"generator=|manual_seed\(\d", cell.source), cell.source


@loop("path", NOTEBOOKS)
def test_notebook_is_clean_and_has_one_parameters_cell(path):
    cells = nbformat.read(path, as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    [parameters] = [cell for cell in code if "parameters" in cell.metadata.get("tags", [])]
    assert list(papermill.inspect_notebook(str(path))) == re.findall(r"^(\w+) = ", parameters.source, re.MULTILINE)
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert "publish.record(" in code[-1].source


def recorded_scalars(notebook):
    """The scalars that an executed notebook recorded."""
    outputs = (output for cell in nbformat.read(notebook, as_version=4).cells for output in cell.get("outputs", ()))
    recorded = (output.get("data", {}).get(publish.SCALARS, {}) for output in outputs)
    return {name: value for scalars in recorded for name, value in scalars.items()}


def test_chapters_record_their_scalars(book, edition):
    _, chapters = book
    metrics = recorded_scalars(chapters / "02_which_score_to_trust.ipynb")
    assert metrics["toy_map_at_r_c"] > metrics["toy_map_at_r_a"]
    results = recorded_scalars(chapters / "04_which_loss_wins.ipynb")
    for name in edition.studies.split(","):
        assert results[f"{name}.best"] > results[f"{name}.worst"]
    for path in NOTEBOOKS:
        assert recorded_scalars(chapters / path.name)


def test_every_table_and_figure_is_in_the_book_and_not_empty(book, edition):
    pages, _ = book
    html = "".join(page.read_text() for page in sorted((pages / "chapters").glob("*.html")))
    for name in IDS:
        found = re.search(rf'<div class="dml-(table|figure)[^"]*"\s+id="{name}">(.*?)</div>\s*</div>', html, re.DOTALL)
        assert found, name
        kind, body = found.groups()
        assert body.count("<td") > 1 if kind == "table" else "<svg" in body, name
        if edition.studies != STUDIES:  # there everything was run
            assert "Not run here yet" not in body, name
            assert kind == "figure" or not re.search(r"-f\d$", name), name
    ids = re.findall(r'<div class="dml-[^"]*"\s+id="([^"]+)"', html)
    assert len(ids) == len(set(ids))


LOSSES = {method.label for method in (*after2019.METHODS, *(each for paper in papers.ALL for each in paper.methods))}
RANKS = re.compile(r"\(\d+(–\d+)?( of \d+)?\)")
PLACES = {"rank", "place", "tied with the best", "others tied with it"}
LIFTS = {LIFT.lower(), "over untrained"}
WITHOUT_LIFT = {
    "cut-off": "shares of runs that were cut off, bold where too many were; no scores",
    r"differences-.+": "pairs; the table over them, `differences`, says how far training lifts each",
    r"(fehervari-t[34]|zhai-t[23])(-.+)?": "a paper's numbers alone, which has no untrained row there",
}
"""Tables that rank and cannot say it, as patterns, and why."""


def levels(index):
    """The texts of an index or of headings, those of each level."""
    return [set(map(str, index.get_level_values(level))) for level in range(index.nlevels)]


def ranks_losses(cells, marks):
    """Whether a table ranks losses: by a heading, by ranks behind the scores of losses, or as bold and italic."""
    if PLACES & set.union(*levels(cells.columns)):
        return True
    rows = max((cells.index.get_level_values(level).isin(LOSSES) for level in range(cells.index.nlevels)), key=sum)
    of_losses = cells[rows].astype(str)
    marked = marks is not None and marks[rows].isin(["best", "tie"]).any(axis=None)
    return rows.sum() > 1 and bool(marked or of_losses.map(RANKS.search).notna().any(axis=None))


def says_lift(cells):
    """Whether a row or a column says how far training lifts scores above the untrained start."""
    heads, rows = (set.union(*levels(side)) for side in (cells.columns, cells.index))
    return bool(LIFTS & heads) or any(row.startswith(LIFT) for row in rows)


def test_every_table_that_ranks_losses_says_how_far_training_lifts_them(edition):
    ranking = {name: cells for name, (cells, marks) in edition.tables.items() if ranks_losses(cells, marks)}
    lacking = {name for name, cells in ranking.items() if not says_lift(cells)}
    assert {name for name in lacking if not any(re.fullmatch(pattern, name) for pattern in WITHOUT_LIFT)} == set()
    assert {"choosing-places-numbers", "answer", "differences", "method-contrastive-places", "results-all"} <= set(
        ranking
    )
    assert {f"results-{name}" for name in edition.studies.split(",")} <= set(ranking)
    assert len(ranking) > 15


@pytest.mark.parametrize(
    ("cells", "marks", "ranks"),
    [
        ({"P@1": ["50.1 (1–2)", "49.0 (1–2)"]}, None, True),
        ({"P@1": ["50.1", "49.0"]}, {"P@1": ["best", ""]}, True),
        ({"behind": ["0.0", "1.1"]}, {"behind": ["tie", "tie"]}, True),
        ({"place": ["1 of 2", "2 of 2"]}, None, True),
        ({"seconds": ["50.1", "49.0"]}, {"seconds": ["", ""]}, False),
    ],
)
def test_a_ranking_without_its_lift_is_seen(cells, marks, ranks):
    names = ["Contrastive", "Triplet"]
    cells, marks = (frame and pd.DataFrame(frame, index=names) for frame in (cells, marks))
    assert (ranks_losses(cells, marks), says_lift(cells)) == (ranks, False)
    assert not ranks_losses(cells.set_axis(["lower rate", "higher rate"]), marks) or "place" in cells
    assert says_lift(pd.concat([cells, cells.head(1).set_axis([LIFT])]))


def test_every_figure_says_in_words_what_it_shows(book):
    pages, _ = book
    found = 0
    for path in (pages / "chapters").glob("*.html"):
        figures = path.read_text(encoding="utf-8").split('<div class="dml-panels" role="img" aria-label="')[1:]
        for figure in figures:
            message, caption = unescape(figure.split('"', 1)[0]), figure.split("dml-caption", 1)[1].split("</div>")[0]
            caption = " ".join(unescape(re.sub("<[^>]+>", "", caption)).split())
            assert 8 <= len(message.split()) <= 45, f"{path.name}: {message}"
            assert message.split(".")[0] not in caption, f"{path.name}: {message}"
            assert not re.search(r"[`{}]|cite", message.replace(ROW, "")), f"{path.name}: {message}"
            found += 1
    assert found > 30


def test_no_page_shows_the_name_of_an_object(book):
    pages, _ = book
    for path in (pages / "chapters").glob("*.html"):
        assert "IPython.core.display" not in path.read_text(encoding="utf-8"), path.name


def test_downloads_hold_the_numbers(book):
    _, chapters = book
    exports = chapters / "exports"
    assert "Contrastive" in (exports / "musgrave-t3.tex").read_text()
    assert "0.6721" in (exports / "musgrave-t3.csv").read_text()
    for path in exports.iterdir():
        assert path.stat().st_size > 50, path.name


class Page(HTMLParser):
    """The text of a page, its scripts, the names of all attributes, and what figures are called for who cannot see."""

    def __init__(self, path):
        super().__init__()
        self.text, self.scripts, self.attributes, self.called, self._within = "", [], set(), [], ""
        self.feed(path.read_text(encoding="utf-8"))
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag, attrs):
        self._within = tag
        self.attributes |= {name for name, _ in attrs}
        if ("class", "dml-panels") in attrs:
            self.called.append(dict(attrs)["aria-label"])

    def handle_endtag(self, tag):
        self._within = ""

    def handle_data(self, data):
        if self._within == "script":
            self.scripts.append(data)
        elif self._within != "style":
            self.text += data


def test_what_a_user_named_is_shown_as_it_is(book, edition):
    if edition.studies != STUDIES:
        pytest.skip("the made-up studies have hostile names")
    folder, chapters = book
    pages = {path.stem: Page(path) for path in sorted((folder / "chapters").glob("*.html"))}
    assert not any("alert(1)" in script for page in pages.values() for script in page.scripts)
    assert not any("onerror" in page.attributes for page in pages.values())
    for name in (NAMED, ROW):
        beginning = name.split("`")[0]  # where this stands, all of it does
        count = sum(page.text.count(beginning) for page in pages.values())
        assert count == sum(page.text.count(name) for page in pages.values()) > 2
    # a cell, a caption, a figure, the name of its mark, and its caption; and wherever the best and the worst are named
    assert pages["04_which_loss_wins"].text.count(ROW) >= 5
    assert any(ROW in message for message in pages["04_which_loss_wins"].called)
    assert escape(ROW, quote=False) in (chapters / "exports" / "own-figure.svg").read_text()
    assert r"a <img src=x onerror=alert(1)> \& \$x\$" in (chapters / "exports" / "own-row.tex").read_text()


def test_no_page_is_heavier_than_two_megabytes(book):
    html, _ = book
    heavy = {path.name: path.stat().st_size for path in html.rglob("*.html") if path.stat().st_size > 2_000_000}
    assert heavy == {}


def test_no_page_needs_the_network(book):
    pages, _ = book
    for page in pages.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|iframe)[^>]+src="([^"]+)"|<link[^>]+href="([^"]+)"', page.read_text())
        outside = [address for pair in loaded for address in pair if re.match(r"(?:https?:)?//", address)]
        assert not outside, f"{page.name}: {outside}"
        assert "unpkg.com" not in page.read_text()


def test_every_link_inside_the_book_leads_somewhere(book):
    pages, _ = book
    texts = {page: page.read_text() for page in pages.rglob("*.html")}
    anchors = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in texts.items()}
    broken = []
    for page, text in texts.items():
        for address in re.findall(r'<a\b[^>]*\shref="([^"]+)"', text):
            if re.match(r"[a-z]+:|//", address):
                continue
            file, _, anchor = unescape(address).partition("#")
            target = (page.parent / unquote(file)).resolve() if file else page
            if not target.exists() or (anchor and target in anchors and unquote(anchor) not in anchors[target]):
                broken.append(f"{page.name}: {address}")
    assert not broken


def test_links_that_pages_write_themselves_hold_on_one_page_too(book):
    """Where `build.single_page` makes the anchor of each out of it."""
    _, chapters = book
    found = 0
    for path in sorted(chapters.glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        shown = "".join(str(output.get("data", "")) for cell in cells for output in cell.get("outputs", []))
        links = re.findall(r'href="([\w/]+\.html[^"]*)"', shown + "".join(cell.source for cell in cells))
        assert all(re.fullmatch(r"[\w/]+\.html#[\w-]+", link) for link in links), path.name
        found += len(links)
    assert found > 50


@pytest.mark.weekly
def test_the_book_as_one_page(tmp_path_factory, monkeypatch):
    chapters = books.of(MADE, tmp_path_factory).chapters
    monkeypatch.setenv("DMLRC_HOME", str(chapters.parents[1]))
    page = bookmaking.single_page()
    html = page.read_text(encoding="utf-8")
    anchors = re.findall(r'\bid="([^"]+)"', html)
    assert all(anchors.count(name) == 1 for name in IDS)
    for address in re.findall(r'<(?:img|a)\b[^>]*\s(?:src|href)="([^"]+)"', html):
        if address.startswith("https://arxiv.org/abs/"):
            continue  # the papers whose claims are judged
        file, _, anchor = unescape(address).partition("#")
        assert unquote(anchor) in anchors if anchor else not file or (page.parent / unquote(file)).exists(), address


def test_pages_say_what_was_not_run(book, edition):
    if edition.studies != STUDIES:
        pytest.skip("the made-up studies have rows that were not run and rows that diverged")
    pages, _ = book
    results = (pages / "chapters" / "04_which_loss_wins.html").read_text()
    assert "not run" in results
    assert "diverged" in results
    assert "too small to rank" in results
    assert "frozen" in results
