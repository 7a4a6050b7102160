"""Chapters of a study without any result: they say so, and none stops."""

from pathlib import Path

import nbformat
import optuna
import papermill
import pytest
from factories import NOTEBOOKS, fake_units, write_units

from dmlrc import bench, records, studies
from dmlrc.report import engine, importances, statistics

CHAPTERS = (
    *("00_introduction", "04_which_loss_wins", "06_claimed_gains", "08_what_moves_a_score"),
    *("10_choosing_a_loss", "17_report_card", "19_all_results"),
)
STUDY = studies.get("grocery-quick")
EVERY = [method.name for method in STUDY.methods]


def test_the_example_of_a_search_goes_without_a_loss_that_has_no_trial(home, capsys):
    write_units(*fake_units(STUDY.name, STUDY.dataset, STUDY.protocol, diverged=EVERY[:1]))
    assert EVERY[0] == "contrastive"
    assert bench.methods(STUDY.name) == EVERY[1:]
    cells = nbformat.read(NOTEBOOKS / "22_hpo_benchmark.ipynb", as_version=4).cells
    [example] = [cell.source for cell in cells if cell.cell_type == "code" and "bench.objective" in cell.source]
    exec(example, {"studies": STUDY.name, "optuna": optuna})
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("what", "with_trunk"), [("diverged", False), ("missing", True)])
def test_no_chapter_stops_where_no_method_has_a_result(what, with_trunk, home, monkeypatch, without_pictures):
    monkeypatch.setenv("DMLRC_EXPORTS", str(home / "exports"))
    monkeypatch.setattr(importances, "TREES", 2)
    monkeypatch.setattr(statistics.resampling, "RESAMPLES", 100)
    for name in ("results", "benchmarks"):
        (home / name).symlink_to(Path(__file__).parents[2] / name)
    units, meta = fake_units(STUDY.name, STUDY.dataset, STUDY.protocol, **{what: EVERY})
    write_units(units if with_trunk else units[1:], meta)
    with records.shared():  # as pages do
        for name in CHAPTERS:
            papermill.execute_notebook(NOTEBOOKS / f"{name}.ipynb", None, {}, engine.NAME, progress_bar=False)
