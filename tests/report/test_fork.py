"""The fork template: a loss in one short cell, searched, rerun and shown beside the others; nothing else is touched."""

from dataclasses import replace
from pathlib import Path

import nbformat
import papermill
import pytest
from factories import fake_units, made_up_unit, write_units

from dmlrc import records, run, studies
from dmlrc.papers import musgrave2020
from dmlrc.report import engine, publish, tables

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "notebooks" / "fork_a_loss.ipynb"
CELLS = nbformat.read(TEMPLATE, as_version=4).cells


@pytest.fixture
def forked(home, monkeypatch, without_pictures):
    """The template, run on a smoke study whose other methods have stored records: its variables and what it showed.

    The first trial of each loss is trained.
    """
    train = run.run_unit
    first = {"trial": 0}
    monkeypatch.setattr(
        run, "run_unit", lambda asked: (train if first.get(asked.kind) == asked.number else made_up_unit)(asked)
    )
    smoke = studies.get("glyphs-smoke")
    study = replace(smoke, name="tiny", protocol=replace(smoke.protocol, folds=2))
    monkeypatch.setitem(studies.STUDIES, "tiny", study)
    monkeypatch.setenv("DMLRC_EXPORTS", str(home / "exports"))
    units, meta = fake_units(study="tiny", dataset="glyphs-small", trials=2, reruns=2)
    write_units(units, meta | study.configuration())
    monkeypatch.setattr(publish, "variables", variables := {}, raising=False)
    notebook = nbformat.read(TEMPLATE, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell("publish.variables |= globals()"))
    cells = papermill.execute_notebook(notebook, None, {"study_name": "tiny"}, engine.NAME, progress_bar=False).cells
    return variables, [output for cell in cells for output in cell.get("outputs", []) if "data" in output]


def test_the_loss_is_one_cell_of_at_most_15_lines():
    (cell,) = [each for each in CELLS if each.cell_type == "code" and "def mine" in each.source]
    assert len(cell.source.splitlines()) <= 15
    assert "Method(" in cell.source
    page = ROOT / "book" / "fork.md"
    assert f"```python\n{cell.source}\n```" in page.read_text(encoding="utf-8")  # the page shows this cell


def test_both_new_rows_stand_in_the_tables_the_trend_and_the_claims(forked, home):
    variables, outputs = forked
    found = variables["recorded"]
    assert not {"mine", "pml_instance"} & set(records.load("tiny").scores["method"])  # the study stays as it is
    new = {"mine", "pml_instance"}
    assert new < set(found.scores["method"])
    assert len(found.trials[found.trials["method"].isin(new)]) == 4
    assert {each.name for each in musgrave2020.METHODS} < set(found.scores["method"])
    assert new <= set(tables.accuracy(variables["recorded"])["method"])
    shown = "".join(str(output.data) for output in outputs)
    assert "Mine" in shown
    assert "Instance (PML)" in shown
    for name in (
        *("fork-results.csv", "fork-results.tex", "fork-accuracy.svg", "fork-trend.svg", "fork-claims.csv"),
        *("fork-tests-mine.csv", "fork-tests-pml_instance.csv", "fork-cost.svg", "fork-sensitivity.csv"),
    ):
        assert (home / "exports" / name).stat().st_size > 50
    assert "Mine" in (home / "exports" / "fork-results.tex").read_text()
    (scalars,) = [output.data[publish.SCALARS] for output in outputs if publish.SCALARS in output.data]
    assert scalars["methods"] == 2
    assert "<strong>Mine</strong> is number" in shown
    assert "<strong>Instance (PML)</strong> is number" in shown
