"""Displays carry both forms, and the files beside them hold the same numbers."""

import importlib
import re
import sys
import zipfile
from html import escape, unescape
from pathlib import Path
from types import SimpleNamespace

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from docutils import nodes, utils
from factories import write_fake_experiments, write_fake_study
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from markupsafe import Markup

from dmlrc import studies
from dmlrc.report import labels, publish, style
from dmlrc.report.results_table import GAP
from dmlrc.studies import experiments


@pytest.fixture(autouse=True)
def exports(tmp_path, monkeypatch):
    monkeypatch.setenv("DMLRC_EXPORTS", str(tmp_path / "exports"))
    monkeypatch.setattr(publish, "_exported", [])
    InteractiveShell.clear_instance()
    InteractiveShell.instance()
    yield tmp_path / "exports"
    InteractiveShell.clear_instance()


def shown(function, *arguments, **named):
    """The data of the one display that a call makes."""
    with capture_output() as captured:
        function(*arguments, **named)
    (output,) = captured.outputs
    return output.data


def cells():
    columns = pd.MultiIndex.from_product([["Concatenated"], ["P@1", "MAP@R"]])
    return pd.DataFrame([["67.2 ± 0.5", "26.2"], ["64.4 ± 0.4", "23.8"]], ["A_1", "B"], columns).rename_axis("Method")


def test_table_in_both_forms(exports):
    marks = pd.DataFrame([["best", ""], ["tie", ""]], cells().index, cells().columns)
    data = shown(publish.table, "my-t1", cells(), "In percent {cite:p}`musgrave2020`, 95 %.", marks=marks)
    assert "musgrave2020" in data["text/html"]
    assert "{cite" not in data["text/html"]
    assert ":name: my-t1" in data["text/markdown"]
    assert "{download}`CSV <exports/my-t1.csv>`" in data["text/markdown"]
    assert "95\u00a0%" in data["text/markdown"]
    assert ":file: exports/my-t1.html" in data["text/markdown"]
    html = (exports / "my-t1.html").read_text()
    assert (html.count("<b>"), html.count("<i>")) == (1, 1)
    latex = (exports / "my-t1.tex").read_text()
    assert r"\bfseries 67.2 $\pm$ 0.5" in latex
    assert r"\itshape 64.4 $\pm$ 0.4" in latex
    assert r"A\_1" in latex
    assert r"95 \%" in latex
    assert "Method" in latex


@pytest.mark.parametrize("filters", [False, True])
def test_a_table_is_one_line_whose_cells_are_words_of_their_own(exports, filters):
    """Sphinx's search drops the tags: without a space between them two numbers would be one word."""
    cells = pd.DataFrame({"mean": ["67.2", "64.4"], "best": ["70.1", "71.0"]}, index=["A", "B"])
    html = shown(publish.table, "rates", cells, "Rates.", filters=filters)["text/html"]
    table = html[html.index("<table") : html.index("</table>")]
    assert "\n" not in table
    assert re.sub("<[^<]+?>", "", table).split() == ["mean", "best", "A", "67.2", "70.1", "B", "64.4", "71.0"]
    assert "row0_col0" not in table


def test_rows_of_two_levels_keep_their_marks(exports):
    rows = pd.MultiIndex.from_tuples([("CUB", "Roth"), ("CUB", "Oi")], names=["Data set", "Paper"])
    rates = pd.DataFrame({"in use": ["10⁻⁴", "10⁻³"], "best": ["10⁻⁴", "10⁻²"]}, rows)
    marks = pd.DataFrame({"in use": ["best", ""], "best": ["", ""]}, rows)
    data = shown(publish.table, "rates", rates, "Rates.", marks=marks)
    assert re.findall(r"<b>[^<]*</b>", data["text/html"]) == ["<b>10⁻⁴</b>"]
    assert (exports / "rates.tex").read_text().count(r"\bfseries") == 1


def test_table_writes_the_numbers_behind_it(exports):
    numbers = pd.DataFrame({"mean": [0.6720999999999999]}, index=["A"])
    shown(publish.table, "my-t1", cells(), "Numbers.", data=numbers)
    assert pd.read_csv(exports / "my-t1.csv", index_col=0)["mean"].tolist() == [0.6721]


def test_what_captions_share_is_shown_once_and_stands_in_each_latex(exports, monkeypatch):
    displayed = []
    monkeypatch.setattr(publish, "_display", lambda html, markdown: displayed.append(markdown))
    with publish.one_caption("Nothing to show, 95 %."):
        pass
    with publish.one_caption("In percent, 95 %."):
        for name in ("one", "two"):
            publish.table(name, cells(), f"{name}.", folded=name)
    publish.table("three", cells(), "three.")
    assert ["95\u00a0%" in each for each in displayed] == [True, False, False, False]
    assert displayed[0] == ":::{container} dml-caption\nIn percent, 95\u00a0%.\n:::"
    latex = {name: (exports / f"{name}.tex").read_text() for name in ("one", "two", "three")}
    assert [r"95 \%" in text for text in latex.values()] == [True, True, False]


def test_table_with_two_levels_of_rows_keeps_their_names():
    two = cells().droplevel(0, axis=1).reset_index().set_index(["Method", "P@1"])
    data = shown(publish.table, "my-t2", two, "Two levels.")
    assert "Method" in data["text/html"]
    assert "P@1" in data["text/html"]


def test_sentences_get_more_room_than_numbers():
    texts = pd.DataFrame({"n": ["12", "7"], "why": ["a word " * 60, "none"], "see": ["a short sentence of words", ""]})
    html = shown(publish.table, "my-t1", texts, "Numbered.", wrap=True)["text/html"]
    rules = dict(re.findall(r"#T_my-t1 ([\w.:() -]+) {\s*([^}]*?);\s*}", html))
    columns = [f"td:nth-child({place})" for place in (2, 3, 4)]  # the first is the heading
    assert rules[columns[0]] == rules["tbody th"] == "white-space: nowrap"
    room = "min-width: min(calc({}ch * var(--dml-room, 1)), 90vw)"
    assert (rules[columns[1]], rules[columns[2]]) == (room.format(36), room.format(16))
    assert "min-width" not in shown(publish.table, "my-t1", texts, "Numbered.")["text/html"]


HOSTILE = "a <script>alert(1)</script> & $x$ | `y` *z* {cite:p}`w` \\ _u_\n```\n::::"


def test_no_sentence_shows_nothing(capsys):
    publish.text("")
    assert capsys.readouterr().out == ""


def test_names_are_text_in_cells_in_captions_and_beside_figures(exports):
    name = " ".join(HOSTILE.split())
    frame = pd.DataFrame([[HOSTILE]], [HOSTILE], [HOSTILE]).rename_axis("Method")
    data = shown(publish.table, "my-t1", frame, f"Of {labels.prose(HOSTILE)}.")
    assert "<script" not in data["text/html"]
    assert unescape(re.sub(r"<[^>]*>", "", data["text/html"])).count(name) == 4
    assert data["text/html"].startswith(html := (exports / "my-t1.html").read_text())
    assert html.endswith("</div>")
    assert pd.read_csv(exports / "my-t1.csv").iloc[0, 0] == HOSTILE
    assert r"\& \$x\$ | `y` *z* \{cite:p\}`w` \textbackslash{} \_u\_" in (exports / "my-t1.tex").read_text()
    figure, axis = plt.subplots()
    axis.set_title(style.escape_math(HOSTILE))
    data = shown(publish.figure, "my-f1", figure, "A caption.", f"Of {labels.prose(HOSTILE)}.")
    assert f'aria-label="{escape(f"Of {name}.")}"' in (exports / "my-f1.html").read_text()
    assert escape(name, quote=False) in (exports / "my-f1.svg").read_text()
    assert "<script" not in data["text/html"]


def test_links_stay_links(exports):
    link = Markup('<a href="x.html">{}</a>').format("a < b")
    data = shown(publish.table, "my-t1", pd.DataFrame({"see": [link]}, dtype=object), "Linked.")
    assert '<a href="x.html">a &lt; b</a>' in data["text/html"]
    assert pd.read_csv(exports / "my-t1.csv")["see"].tolist() == ["a < b"]


def test_the_same_numbers_give_the_same_figure(exports):
    written = []
    for _ in range(2):
        figure, axis = plt.subplots()
        axis.plot([1, 2, 3])
        data = shown(publish.figure, "my-f1", figure, "A *line*.", "It *rises* by 2 [1, 3] {cite:p}`musgrave2020`.")
        written.append((exports / "my-f1.svg").read_text())
    assert written[0] == written[1]
    assert 'aria-label="It rises by 2 (1, 3)."' in data["text/html"]
    assert data["text/html"].startswith('<div class="dml-panels" role="img"')
    assert figure.number not in plt.get_fignums()  # other tests of this worker may leave theirs open


def test_several_drawings_are_one_figure(exports):
    drawings = []
    for number in range(2):
        figure, axis = plt.subplots()
        axis.plot([number, 2])
        drawings.append(figure)
    data = shown(publish.figure, "my-f1", drawings, "Two lines.", "The second falls.")
    assert data["text/html"].count("<svg") == 2
    assert data["text/markdown"].count(":name: my-f1") == data["text/html"].count('role="img"') == 1
    assert {path.name for path in exports.glob("*.svg")} == {"my-f1.svg", "my-f1-2.svg"}
    assert "<exports/my-f1-2.svg>" in data["text/markdown"]


def test_scalars_can_be_read_back():
    data = shown(publish.record, map_at_r=0.25, best="arcface")
    assert data[publish.SCALARS] == {"map_at_r": 0.25, "best": "arcface"}


def test_takeaways_are_an_admonition_in_the_book_and_a_list_elsewhere():
    data = shown(publish.takeaways, "One is 5 %.", "", "Two.")
    assert data["text/markdown"].startswith("````{admonition} In short")
    assert data["text/html"].count("<li>") == 2


def test_the_foot_of_a_page_says_what_was_run_and_how_it_is_cited(home, exports):
    for name in ("grocery-quick", "glyphs-quick"):
        study = studies.get(name)
        write_fake_study(study=name, dataset=study.dataset, protocol=study.protocol, trials=3, reruns=2)
    page = shown(publish.how_to_rerun, "04_which_loss_wins", "grocery-quick,glyphs-quick")
    data, table = page["text/markdown"], (exports / "about-04_which_loss_wins.html").read_text()
    assert "dmlrc study run grocery-quick\ndmlrc study run glyphs-quick\n" in data
    assert "-p studies grocery-quick,glyphs-quick" in data
    assert ":name: about-these-runs" in data
    assert "Grocery Store (quick)" in table
    assert "seed" in table
    assert table in page["text/html"]
    assert "@misc{dmlrc-04_which_loss_wins" in data


def test_the_foot_of_a_page_tells_of_experiments_too(home):
    """The hypotheses rest on studies at another learning rate, which are no tables of a book."""
    around = experiments.experiments_around("cub200-2010-frozen")
    write_fake_experiments("cub200-2010-frozen", missing={*around} - {"rate-tenfold"})
    data = shown(publish.how_to_rerun, "16_predictions", "cub200-2010-frozen/rate-tenfold")["text/html"]
    assert "dmlrc study run cub200-2010-frozen/rate-tenfold\n" in data
    assert "at ten times the rate" in data


def test_the_foot_of_a_page_that_shows_no_study_says_what_was_measured_instead(home):
    page = shown(publish.remade, "21_speed", {"growth": {"machine": "a machine"}}, "make bench")
    data = page["text/markdown"]
    assert ">a machine</td>" in page["text/html"]
    assert "make bench\npapermill notebooks/21_speed.ipynb 21_speed.ipynb --cwd notebooks\n" in data
    assert "@misc{dmlrc-21_speed" in data
    assert ":name: about-these-runs" in data
    assert "dmlrc study run" not in data


def test_the_foot_of_a_page_has_all_its_downloads_and_no_others(home, exports):
    study = studies.get("glyphs-quick")
    write_fake_study(study=study.name, dataset=study.dataset, protocol=study.protocol, trials=3, reruns=2)
    for page, table in (("04_which_loss_wins", "one"), ("method", "other")):
        shown(publish.table, table, pd.DataFrame({"n": ["1"]}, index=["a"]), "A table.")
        told = {"method": "arcface"} if page == "method" else {}
        with capture_output() as captured:
            publish.how_to_rerun(page, study.name, **told)
        file = "04_which_loss_wins.zip" if page == "04_which_loss_wins" else "method_arcface.zip"
        foot = captured.outputs[-1].data["text/markdown"]
        assert f"<exports/{file}>" in foot
        assert f"@misc{{dmlrc-{Path(file).stem}," in foot
        with zipfile.ZipFile(exports / file) as archive:
            assert sorted(archive.namelist()) == [f"{table}.csv", f"{table}.tex"]
            assert archive.read(f"{table}.csv") == (exports / f"{table}.csv").read_bytes()
    assert "-p studies glyphs-quick -p method arcface" in captured.outputs[-1].data["text/markdown"]
    assert "one archive" not in shown(publish.how_to_rerun, "20_provenance", study.name)["text/markdown"]


def test_studies_are_printed_by_their_titles(exports):
    cells = pd.DataFrame({"cars196crops-frozen": ["-1.5 points"]}, index=["grocery-quick"])
    data = shown(publish.table, "my-t1", cells, "On `grocery-quick`; `dmlrc study run grocery-quick` makes it.")
    assert "On Grocery Store (quick);" in data["text/markdown"]
    assert "`dmlrc study run grocery-quick`" in data["text/markdown"]
    assert ">Cars crops</th>" in data["text/html"]
    assert "\u22121.5 points" in data["text/html"]
    assert (exports / "my-t1.csv").read_text().splitlines() == [",cars196crops-frozen", "grocery-quick,-1.5 points"]
    figure, axis = plt.subplots()
    axis.set_title("grocery-quick, fold 1")
    axis.barh(["cars196crops-frozen"], [1])
    drawn = shown(publish.figure, "my-f1", figure, "A title.", "A bar of 1.")["text/html"]
    assert "Grocery Store (quick), fold 1" in drawn
    assert ">Cars crops</text>" in drawn


def test_a_table_is_folded_behind_a_line_and_leads_to_what_it_was_made_of():
    data = shown(publish.table, "my-t1", cells(), "A caption.", folded="The numbers")
    assert data["text/html"].startswith("<details><summary>The numbers</summary>")
    assert data["text/markdown"].startswith(":::::{dropdown} The numbers")
    assert ":name: my-t1" in data["text/markdown"]
    assert 'href="#about-these-runs"' in data["text/markdown"]


def test_a_figure_is_folded_behind_a_line():
    figure, axes = style.canvas(2.0)
    axes[0, 0].plot([1, 2])
    data = shown(publish.figure, "my-f1", figure, "A caption.", "A line.", folded="The curve")
    assert data["text/html"].startswith("<details><summary>The curve</summary>")
    assert data["text/markdown"].startswith(":::::{dropdown} The curve")
    assert ":name: my-f1" in data["text/markdown"]


def test_a_text_is_folded_behind_a_line():
    data = shown(publish.text, "The rule: none of 3.", folded="In full")
    assert data["text/html"].startswith("<details><summary>In full</summary>")
    assert data["text/markdown"].startswith(":::::{dropdown} In full")
    assert "The rule: none of 3." in data["text/markdown"]


def test_a_table_with_a_filter_keeps_its_marks():
    flat = cells().set_axis(["P@1", "MAP@R"], axis=1)
    marks = pd.DataFrame([["best", ""], ["tie", ""]], flat.index, flat.columns)
    html = shown(publish.table, "my-t1", flat, "A caption.", marks=marks, filters=True)["text/html"]
    assert "<b>67.2\u00a0±\u00a00.5</b>" in html
    assert "<i>64.4\u00a0±\u00a00.4</i>" in html
    assert "<b>26.2" not in html


def test_a_table_of_many_columns_is_set_closer_and_names_methods_upright():
    wide = pd.DataFrame([["1"] * 13], columns=[f"method {number}" for number in range(13)], index=["a"])
    for count, look in ((13, "dml dml-dense dml-upright"), (6, "dml dml-dense"), (5, "dml")):
        assert f'class="{look}"' in shown(publish.table, "my-t1", wide.iloc[:, :count], "Wide.")["text/html"]


def test_the_foot_of_a_ranking_leads_to_what_it_means_and_a_number_keeps_its_sign(exports):
    html = shown(publish.table, "my-t1", pd.DataFrame({"gain": ["5 %", "1.6"]}, index=["a", GAP]), "A.")["text/html"]
    assert '<a href="../glossary.html#term-Detectable-gap">Detectable gap (80\u00a0% power)</a>' in html
    assert ">5\u00a0%<" in html
    assert (exports / "my-t1.csv").read_text().splitlines() == [",gain", "a,5 %", "Detectable gap (80 % power),1.6"]


def test_the_foot_of_every_page_has_the_release_and_nothing_of_what_is_not_known(monkeypatch, tmp_path):
    sys.path.insert(0, str(Path(__file__).parents[2] / "book" / "_ext"))
    pages = importlib.import_module("pages")
    config = SimpleNamespace(html_theme_options={})
    monkeypatch.delenv("DMLRC_REPOSITORY", raising=False)
    pages.show_release(None, config)
    assert re.fullmatch(r"Version \d+\.\d+\.\d+( · .*)?", config.html_theme_options["extra_footer"])
    monkeypatch.setattr(pages, "CITATION", tmp_path / "CITATION.cff")
    pages.CITATION.write_text("version: 1.2.3\ndate-released: 2027-01-02\ndoi: 10.1/x\n")
    monkeypatch.setenv("DMLRC_REPOSITORY", "https://git.example/me/dmlrc")
    pages.show_release(None, config)
    assert config.html_theme_options["extra_footer"] == (
        'Version 1.2.3 · 2027-01-02 · <a href="https://doi.org/10.1/x">doi:10.1/x</a> · '
        '<a href="https://git.example/me/dmlrc">Code and records</a>'
    )
    pages.CITATION.write_text("title: a\n")
    monkeypatch.delenv("DMLRC_REPOSITORY")
    pages.show_release(None, config)
    assert config.html_theme_options["extra_footer"] == ""


def test_numbers_that_are_glued_into_a_sentence_have_the_signs_of_a_table():
    sys.path.insert(0, str(Path(__file__).parents[2] / "book" / "_ext"))
    pages = importlib.import_module("pages")
    doctree = utils.new_document("page")
    doctree += nodes.paragraph("", "", nodes.inline("", "-1.2", classes=["pasted-text"]), nodes.inline("", "a-1"))
    doctree += [nodes.paragraph("", "", nodes.literal("", "5 %"), nodes.Text(" %, 3 x 25 a x"))]
    pages.typeset_numbers(None, doctree)
    assert doctree.astext() == "−1.2a-1\n\n5 %\u00a0%, 3\u00a0×\u00a025 a x"
