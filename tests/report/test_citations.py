"""Citations: links in notebooks, that read well in JupyterLab; roles in the book."""

from pathlib import Path

import nbformat
import pytest
from cases import loop

from dmlrc.report import citations, publish

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(autouse=True)
def _with_bibliography(monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(ROOT))


@pytest.mark.parametrize(
    ("role", "link"),
    [
        ("{cite:t}`roth2020`", "[Roth et al. (2020)](../book/references.bib#roth2020)"),
        ("({cite:t}`zhai2019`)", "([Zhai and Wu (2019)](../book/references.bib#zhai2019))"),
        ("{cite:p}`demsar2006`", "([Demšar, 2006](../book/references.bib#demsar2006))"),
        (
            "{cite:p}`holm1979,oi2021`",
            "([Holm, 1979](../book/references.bib#holm1979); [Oi et al., 2021](../book/references.bib#oi2021))",
        ),
    ],
)
def test_a_role_and_its_link_are_one_citation(role, link):
    assert citations.as_links(f"Of {role}, 2 of 3.") == f"Of {link}, 2 of 3."
    assert citations.as_roles(f"Of {link}, 2 of 3.") == f"Of {role}, 2 of 3."


def test_other_links_and_brackets_stay():
    text = "[a page](04_which_loss_wins.ipynb) (of [Mine, 2020](https://example.org)) and [1, 2]"
    assert citations.as_roles(text) == citations.as_links(text) == text


def test_without_the_bibliography_a_role_stays(home, monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(home))
    assert citations.as_links("{cite:t}`roth2020`") == "{cite:t}`roth2020`"


@loop("path", NOTEBOOKS)
def test_no_text_of_a_notebook_shows_a_raw_role_and_each_link_says_whom_it_cites(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            assert "{cite" not in cell.source, cell.source
            assert citations.as_links(citations.as_roles(cell.source)) == cell.source
            assert "references.bib" not in citations.as_roles(cell.source), cell.source


def test_what_cells_show_has_the_link_in_both_forms(monkeypatch):
    shown = []
    monkeypatch.setattr(publish, "_display", lambda *forms: shown.extend(forms))
    publish.pictures("t", "<table></table>", "Fig. 2 of {cite:t}`roth2020`, in percent.")
    assert '<a href="../book/references.bib#roth2020">Roth et al. (2020)</a>' in shown[0]
    assert "{cite" not in shown[0] + shown[1]
    assert "Fig. 2 of {cite:t}`roth2020`, in percent." in citations.as_roles(shown[1])
    assert publish._plain("It *rises* {cite:p}`roth2020`.") == "It rises."


def test_the_book_reads_links_as_citations(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    import pages

    source = [f'"source": "{citations.as_links("By {cite:t}`roth2020`.")}"']
    pages.cite(None, "chapters/11_roth2020", source)
    assert source == ['"source": "By {cite:t}`roth2020`."']
