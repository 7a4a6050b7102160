"""Tables, figures and verdicts that carry the book are what they were: every file of tests/golden/ is made again.

A wanted change is accepted with `make golden`; the difference of the files is then a part of the commit. One more file
is watched from when it is there: `python -m dmlrc.report.golden tests/golden --only tables/ID.csv`.
"""

import ast
import re

import books
import matplotlib.pyplot as plt
import nbformat
import pandas as pd
import pytest
from books import GOLDEN as OLD
from books import PUBLISHED, ROOT
from markupsafe import Markup

from dmlrc.report import golden


@pytest.fixture(scope="module")
def new(request, tmp_path_factory):
    """The files that are asked for: of the book that other tests look at, else of the cells alone that show them."""
    if any(item.path.stem == "test_chapters" for item in request.session.items):
        return books.of(PUBLISHED, tmp_path_factory).golden
    asked = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    return exported(tmp_path_factory, {each.params["path"] for each in asked if each and "path" in each.params})


def exported(factory, only):
    """From the committed records, without what was run in this clone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLRC_HOME", str(ROOT))
        patch.setenv("DMLRC_RUNS", str(factory.mktemp("runs")))
        return golden.export_book(only=only)


@pytest.mark.parametrize("path", OLD)
def test_what_the_book_shows_is_what_it_was(path, new):
    found = golden.changed_cells({path: OLD[path]}, {path: new[path]} if path in new else {})
    assert not found, "\n".join(["accept it with `make golden` if it is wanted:", *found])


def test_every_number_of_a_text_is_given_to_it(request, tmp_path_factory):
    if not any(item.path.stem == "test_chapters" for item in request.session.items):
        pytest.skip("the published book is executed for other tests; `test_guards.py` looks alone")
    numbers = 0
    for path in books.of(PUBLISHED, tmp_path_factory).chapters.glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        asked = {name for cell in cells for name in re.findall(r"\{glue:text\}`([^`:]+)", cell.source)}
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        given = {output.get("metadata", {}).get("scrapbook", {}).get("name") for output in outputs}
        assert asked <= given, path.stem
        numbers += len(asked)
    assert numbers > 280


def test_a_file_is_made_without_the_rest_of_the_book(tmp_path_factory):
    [path] = exported(tmp_path_factory, ["figures/speed-peers.json"])
    assert path == "figures/speed-peers.json"


def test_the_golden_files_hold_all_verdicts_and_are_small():
    claims = [line.split(",")[0] for line in OLD["verdicts/claims.csv"].splitlines()[1:]]
    assert len({name.split(" / ")[1] for name in claims}) == 83 + 13  # 13 of two later papers
    hypotheses = {line.split(" / ")[1] for line in OLD["verdicts/hypotheses.csv"].splitlines()[1:]}
    assert hypotheses == {f"H{number}" for number in range(1, 10)}
    assert sum(map(len, OLD.values())) < 500_000


def figure(xs=(1.0, 2.0), ys=(3.0, 4.0), label="SNR", names=("a", "b"), colour="red", bar=5.0):
    drawing, axis = plt.subplots()
    axis.plot(xs, ys, color=colour, label=label)
    axis.scatter(ys, xs)
    axis.bar([1.0], [bar])
    axis.set_xticks([1, 2], names)
    axis.set_xlabel("rank")
    axis.legend()
    plt.close(drawing)
    return golden.figure_data(drawing)


@pytest.mark.parametrize(
    ("changed", "seen"),
    [
        ({"xs": (3.0, 4.0), "ys": (1.0, 2.0)}, "line 1, x, 1: 1.0 -> 3.0"),
        ({"ys": (3.0, 4.001)}, "line 1, y, 2: 4.0 -> 4.001"),
        ({"label": "Triplet"}, "line 1, label: SNR -> Triplet"),
        ({"names": ("b", "a")}, "axes 1, x, ticks, 1, 1: a -> b"),
        ({"colour": "blue"}, "line 1, colour: #ff0000 -> #0000ff"),
        ({"bar": 6.0}, "patch 1, box, 4: 5.0 -> 6.0"),
        ({"xs": (1.0,), "ys": (3.0,)}, "line 1, x, 2: 2.0 -> gone"),
    ],
)
def test_a_changed_figure_is_seen(changed, seen):
    found = golden.changed_cells({"figures/f.json": figure()}, {"figures/f.json": figure(**changed)})
    assert any(seen in line for line in found), found
    assert not golden.changed_cells({"figures/f.json": figure()}, {"figures/f.json": figure()})


def test_the_data_of_a_figure_do_not_know_its_size_or_letters():
    with plt.rc_context({"figure.figsize": (2, 9), "font.size": 20, "figure.dpi": 30}):
        assert figure() == figure()
        large = figure()
    assert large == figure()


def test_cells_are_those_that_a_reader_sees():
    cells = pd.DataFrame(
        {("P@1", "mean"): ["-0.5", Markup('<a href="x">SNR</a>')], ("P@1", "n"): ["3", "4"]}, dtype=object
    )
    marks = pd.DataFrame("", cells.index, cells.columns)
    marks.iloc[0, 0], marks.iloc[1, 1] = "best", "tie"
    seen = golden.cells_as_seen(cells.set_axis(["Triplet", "Triplet"]), marks.set_axis(["Triplet", "Triplet"]))
    assert seen.splitlines() == [",P@1 / mean,P@1 / n", "Triplet,**\u22120.5**,3", "Triplet (2),SNR,*4*"]


def test_of_a_chapter_the_cells_run_that_a_table_needs():
    cells = ["import a", "b = a.b()", "c = a.c()", 'publish.table(f"t-{c}", b)', 'publish.table("u", c)', "d = b"]
    parsed = list(map(ast.parse, cells))
    assert golden._needed(parsed, ["u"]) == [0, 2, 4]
    assert golden._needed(parsed, ["t-1"]) == [0, 1, 2, 3]
    assert golden._needed(parsed, ["v"]) == []
    assert golden._needed(parsed, []) == [0, 1, 2, 3, 4, 5]
    assert golden._needed([ast.parse('print(f"{2:5}", f"{c}", "a")')], ["t-1"]) == []


def test_rows_in_another_order_are_a_difference():
    old, new = ({"t.csv": f",P@1\n{rows}\n"} for rows in ("a,1\nb,2", "b,2\na,1"))
    assert golden.changed_cells(old, new) == ["t.csv: rows or columns stand in another order"]


def test_a_file_that_is_gone_is_a_difference():
    assert golden.changed_cells({"t.csv": ",P@1\n"}, {"u.csv": ",P@1\n"}) == ["t.csv: gone", "u.csv: new"]
