"""The book in a browser, from file://: nothing overflows, no script fails, tables sort and filter, marks have names.

Skipped where playwright is not installed, or no Chromium is at $DMLRC_CHROMIUM, on the path, or playwright's own.
"""

import os
import re
import shutil
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import books
import pytest

from dmlrc.report import published, svg, tables

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = os.environ.get("DMLRC_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
PAGES = (
    "00_introduction",
    "04_which_loss_wins",
    "05_which_losses_differ",
    "15_wrong_numbers",
    "19_all_results",
    "01_what_a_score_looks_like",
    "method_soft_triple",
)
POINTED_AT = (  # figures with marks that are hard to read off
    ("00_introduction", "claimed-and-measured"),
    ("04_which_loss_wins", "published-beside-ours"),
    ("04_which_loss_wins", "musgrave-f3"),
    ("05_which_losses_differ", "pairs"),
    ("05_which_losses_differ", "effect-sizes"),
    ("05_which_losses_differ", "cost-accuracy"),
    ("15_wrong_numbers", "findings-wrong-right"),
)
WIDTHS = (400, 900, 1400)
LOADED_AT = {"light": WIDTHS[0], "dark": WIDTHS[-1]}
"""A page is loaded once, since that takes longer than to lay it out anew: by day on a phone, at night on a desk."""
SCROLLED = {"differences-first-runs-grocery-frozen", "results-all"}
"""Tables that may move sideways in their own frame: all losses against all, and the list of everything."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The chapters of the book of made-up studies: the folder of its pages."""
    return books.of(books.MADE, tmp_path_factory).pages / "chapters"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as session:
        try:
            started = session.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        except playwright.Error as error:
            pytest.skip(f"no Chromium here: {str(error).splitlines()[0]}")
        yield started
        started.close()


@pytest.fixture(scope="module")
def kept(browser, pages):
    """Opens a page of the book once as it is asked for, which takes a second: tests leave it as they found it."""
    context, wrong = browser.new_context(), []

    @cache
    def open_page(name, theme):
        page = context.new_page()
        page.set_viewport_size({"width": LOADED_AT[theme], "height": 900})
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("request", lambda asked: wrong.append(asked.url) if asked.url.startswith("http") else None)
        page.add_init_script(f"localStorage.setItem('mode', '{theme}'); localStorage.setItem('theme', '{theme}')")
        page.goto((pages / f"{name}.html").as_uri())
        return page

    yield open_page, wrong
    context.close()


@pytest.fixture
def opened(kept):
    """Shows a page of the book, and fails the test where a script fails or something is asked of the network."""
    open_page, wrong = kept

    def show(name, width=1400, theme="light"):
        page = open_page(name, theme)
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("scrollTo(0, 0)")
        return page

    yield show
    said = wrong.copy()
    wrong.clear()
    assert not said


@pytest.mark.parametrize("name", [*PAGES, "../api", "../scale_out"])
def test_a_page_fits_every_window(opened, name):
    page = opened(name, WIDTHS[0])
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wider <= 0, f"{width} px: {wider} px too wide"
        heights = page.eval_on_selector_all(".dml-figure svg", "all => all.map(each => each.clientHeight)")
        assert all(height <= svg.HIGHEST + 5 for height in heights), f"{width} px: {max(heights)}"
    for panels in page.locator(".dml-panels").all():
        assert panels.get_attribute("role") == "img"
        assert len(panels.get_attribute("aria-label").split()) >= 8
    folds = page.locator("details:not([open])").element_handles()
    unfold = "([all, open]) => all.forEach(each => (each.open = open))"
    page.evaluate(unfold, [folds, True])
    scrolled = page.eval_on_selector_all(
        ".dml-scroll", "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.ariaLabel)"
    )
    page.evaluate(unfold, [folds, False])
    assert name not in PAGES or not {*scrolled} - SCROLLED


def test_the_first_screen_has_the_picture(opened):
    picture = opened("00_introduction").locator("#claimed-and-measured svg").bounding_box()
    assert picture["y"] + picture["height"] <= 900


def test_a_figure_takes_the_ink_of_the_page(opened):
    inks = set()
    for theme in ("light", "dark"):
        page = opened("00_introduction", theme=theme)
        assert page.locator(f"html[data-theme={theme}]").count() == 1
        text = page.locator("#claimed-and-measured svg text").first
        inks.add(text.evaluate("each => getComputedStyle(each).fill"))
    assert len(inks) == 2


def test_a_filled_mark_is_filled_on_a_dark_page_too(opened):
    page = opened("04_which_loss_wins", theme="dark")
    dot = page.locator("#musgrave-f3 .dml-tip", has_text="Contrastive, Grocery").locator("use").first
    assert dot.evaluate("each => getComputedStyle(each).fill") == page.locator("#musgrave-f3 svg").first.evaluate(
        "each => getComputedStyle(each).color"
    )


def test_pointing_at_a_mark_says_what_it_is(opened):
    shown, page = None, None
    for name, figure in POINTED_AT:
        page = page if name == shown else opened(name)
        shown = name
        mark = page.locator(f"#{figure} .dml-tip").first
        expected = mark.locator("title").text_content()
        mark.scroll_into_view_if_needed()
        mark.hover(force=True)
        tip = page.locator("#dml-tip")
        assert tip.is_visible(), figure
        assert " ".join(tip.inner_text().split()) == " ".join(expected.split()), figure
        page.mouse.move(5, 5)
        assert tip.is_hidden(), figure


def test_a_claim_says_of_how_many_papers_it_is(opened):
    title = opened("00_introduction").locator("#claimed-and-measured .dml-tip title").first.text_content()
    name, count = re.match(r"(.+?), (\d+) papers: ", title).groups()
    claimed = tables.claimed_improvement(published.claims(), "contrastive")
    assert (claimed["dataset"] == name).sum() == int(count)


def test_panels_stand_side_by_side_where_there_is_room(opened):
    page = opened("04_which_loss_wins")
    panels = page.locator("#musgrave-f3 svg")
    assert panels.count() == 2  # ours, and the paper's
    ours, theirs = (panel.bounding_box() for panel in panels.all())
    assert abs(ours["y"] - theirs["y"]) < 5
    assert ours["x"] + ours["width"] <= theirs["x"]
    page.set_viewport_size({"width": 400, "height": 900})
    ours, theirs = (panel.bounding_box() for panel in panels.all())
    assert ours["y"] + ours["height"] <= theirs["y"]
    assert ours["width"] > 300


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_fold_hides_its_table_until_it_is_opened(opened, theme):
    page = opened("05_which_losses_differ", theme=theme)
    fold = page.locator("details.dml-fold:has(#differences-grocery-quick)")
    table = fold.locator("table")
    assert not table.is_visible()
    fold.locator("summary").first.click()
    assert table.is_visible()
    head = table.locator("thead th").nth(1)
    head.click()  # what is folded sorts too
    assert head.get_attribute("aria-sort") in ("ascending", "descending")
    fold.locator("summary").first.click()
    assert not table.is_visible()


def test_the_search_finds_a_method_by_its_label_and_first_of_all_the_table_of_an_id(browser, pages):
    page = browser.new_page()  # Sphinx asks for the text of what it found, which file:// refuses: no page of `opened`
    found = {}
    for asked in ("SoftTriple", "musgrave-t4"):
        page.goto(f"{(pages.parent / 'search.html').as_uri()}?q={asked}")
        page.locator("#search-results li a").first.wait_for()
        found[asked] = [link.get_attribute("href") for link in page.locator("#search-results li a").all()]
    page.close()
    assert any("method_soft_triple.html" in address for address in found["SoftTriple"])
    assert found["musgrave-t4"][0].endswith("04_which_loss_wins.html#musgrave-t4")


def test_a_phone_shows_the_deciding_metric_first(opened):
    page = opened("04_which_loss_wins", width=WIDTHS[0])
    table = page.locator("#results-grocery-quick table")
    assert table.locator("thead tr").last.locator("th").nth(1).inner_text() == "MAP@R"
    cell = table.locator("tbody tr").first.locator("td").first.bounding_box()
    assert cell["x"] + cell["width"] <= WIDTHS[0]


def test_a_phone_tells_rows_of_one_name_apart(opened):
    page = opened("19_all_results", width=WIDTHS[0])
    name = page.locator("table.dml-filter tbody tr").first.locator("th")
    assert name.locator("small").is_visible()
    assert "methods table, concatenated (folds joined)" in name.inner_text()
    cell = page.locator("table.dml-filter tbody tr").first.locator("td").first.bounding_box()
    assert cell["x"] + cell["width"] <= WIDTHS[0]
    page.set_viewport_size({"width": WIDTHS[-1], "height": 900})
    assert not name.locator("small").is_visible()


def test_on_a_phone_texts_are_cards_and_names_stay_in_sight(opened):
    for name in PAGES:
        page = opened(name, width=WIDTHS[0])
        page.evaluate("document.querySelectorAll('details').forEach(each => (each.open = true))")
        moved = page.locator(".dml-scroll").evaluate_all(
            """all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => {
                each.scrollLeft = 60;
                const cells = [each, ...each.querySelectorAll("tr > :first-child")];
                const lefts = cells.map(cell => cell.getBoundingClientRect().left);
                each.scrollLeft = 0;
                return [each.querySelector("table").className, Math.max(...lefts) - Math.min(...lefts)];
            })"""
        )
        assert [look for look, gone in moved if "dml-wrap" in look or gone > 1] == [], name
        page.evaluate("document.querySelectorAll('details').forEach(each => (each.open = false))")
    cells = opened("15_wrong_numbers", width=WIDTHS[0]).locator("#finding-smooth-ap tbody tr").first.locator("th, td")
    assert cells.nth(0).inner_text().endswith("\nyes")
    assert not cells.nth(1).is_visible()
    cell = opened("17_report_card", width=WIDTHS[0]).locator("#report-card tbody td").first
    assert cell.evaluate("each => getComputedStyle(each, '::before').content") == '"ours: "'


def test_a_link_opens_the_fold_that_it_leads_into(opened):
    page = opened("05_which_losses_differ")
    table = page.locator("#differences-grocery-quick table")
    assert not table.is_visible()
    page.evaluate("location.hash = 'differences-grocery-quick'")
    page.wait_for_function("document.querySelector('#differences-grocery-quick').closest('details').open")
    assert table.is_visible()


def test_all_results_sort_and_filter(opened):
    page = opened("19_all_results")
    table = page.locator("table.dml-filter")
    heads = table.locator("thead th").all_inner_texts()
    column = heads.index("MAP@R") + 1

    def values():
        texts = table.locator(f"tbody tr:not([hidden]) > :nth-child({column})").all_inner_texts()
        return [float(text.split()[0]) for text in texts if text[0].isdigit()]  # the others came to no result

    before = values()
    assert "diverged" in table.locator(f"tbody tr > :nth-child({column})").all_inner_texts()
    head = table.locator("thead th").nth(column - 1)
    head.click()
    assert values() == sorted(before, reverse=True)
    head.click()
    assert values() == sorted(before)
    page.get_by_label("Filter rows").fill("arcface")
    names = table.locator("tbody tr:not([hidden]) > :first-child").all_inner_texts()
    assert names
    assert all("ArcFace" in name for name in names)
    assert page.locator(".dml-filters output").inner_text().startswith(f"{len(names)} of ")
    page.get_by_label("Filter rows").fill("")
    page.get_by_label("setting", exact=True).select_option("separated (one model)")
    assert 0 < len(values()) < len(before)
    page.get_by_label("setting", exact=True).select_option("")
    study = page.get_by_label("study", exact=True)
    study.select_option(index=1)
    column = heads.index("study") + 1
    shown = table.locator(f"tbody tr:not([hidden]) > :nth-child({column})").all_inner_texts()
    assert set(shown) == {study.input_value()}


def test_powers_of_ten_sort_by_value_and_what_is_missing_stands_last(opened):
    page = opened("19_all_results")
    column = ["3·10⁻⁴", "–", "10⁻³", "7.1 ± 0.2", "−0.5", "–", "12.3"]
    sort = "([texts, down]) => [...texts].sort((a, b) => compare(a, b, down))"
    rising = ["−0.5", "3·10⁻⁴", "10⁻³", "7.1 ± 0.2", "12.3"]
    assert page.evaluate(sort, [column, False]) == [*rising, "–", "–"]
    assert page.evaluate(sort, [column, True]) == [*reversed(rising), "–", "–"]
    assert page.evaluate(sort, [["b", "–", "a"], True]) == ["b", "a", "–"]


def test_code_stands_behind_what_it_makes(opened):
    page = opened("04_which_loss_wins")
    cell = page.locator("div.cell:has(#musgrave-f3)")
    code, figure = cell.locator("details").first.bounding_box(), cell.locator("#musgrave-f3").bounding_box()
    assert code["y"] > figure["y"]
    assert not cell.locator("details").first.get_attribute("open")


def test_a_page_loads_little_script_and_has_its_icons(opened, pages):
    page = opened("04_which_loss_wins")
    sources = page.eval_on_selector_all("script[src]", "all => all.map(each => new URL(each.src).pathname)")
    assert "dmlrc.js" in {Path(each).name for each in sources}
    assert sum(Path(unquote(each)).stat().st_size for each in sources) < 500_000
    assert page.locator("svg.svg-inline--fa").count() > 5
    assert page.locator("svg.svg-inline--fa .missing").count() == 0  # what stands in the place of an unknown icon
