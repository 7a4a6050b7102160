"""A chapter that is asked to trains what its studies lack, and nothing twice."""

import json
from pathlib import Path

import books
import nbformat
from cases import loop
from factories import fake_units, made_up_unit, write_units

from dmlrc import records, run, studies
from dmlrc.report import missing

ROOT = Path(__file__).parents[2]
STUDY = "glyphs-smoke"


def test_a_chapter_trains_what_it_lacks_and_shows_it(tmp_path, monkeypatch, capsys, without_pictures):
    monkeypatch.setattr(run, "run_unit", made_up_unit)  # what training makes is not looked at
    monkeypatch.setenv("DMLRC_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("DMLRC_EXPORTS", str(tmp_path / "exports"))
    smoke = studies.get(STUDY)
    units, meta = fake_units(
        STUDY, smoke.dataset, smoke.effective_protocol, trials=2, reruns=2, missing=["contrastive"]
    )
    write_units(units, meta | smoke.configuration())
    chapter = ROOT / "notebooks" / "04_which_loss_wins.ipynb"
    executed = books.executed(chapter, STUDY, {"train": True})
    shown = json.dumps([cell.get("outputs", []) for cell in executed.cells])
    assert f"results-{STUDY}" in shown
    trained = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs" / STUDY).rglob("*-0*.json")}
    assert set(records.load(STUDY).reruns["method"]) == {method.name for method in studies.get(STUDY).methods}
    capsys.readouterr()
    missing.run_missing([STUDY])
    assert capsys.readouterr().err == ""
    assert trained == {path: path.stat().st_mtime_ns for path in trained}


@loop("path", sorted((ROOT / "notebooks").glob("*.ipynb")))
def test_every_chapter_of_studies_can_train_them(path):
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    if any("editions.load_edition(studies" in cell for cell in cells):
        assert any("editions.load_edition(studies, train" in cell or "run.run(" in cell for cell in cells)
        assert sum("\ntrain = False" in cell for cell in cells) == 1
