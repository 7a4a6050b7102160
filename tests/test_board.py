"""The board: an entry is written, found again, and refused where anything in it is not what it says."""

import contextlib
import io
import itertools
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from factories import made_up_unit

from dmlrc import board, comparison, paths, records, run, studies
from dmlrc import unit as units
from dmlrc.errors import DmlrcError, MissingDataError, UsageError
from dmlrc.methods import Float
from dmlrc.protocol import Budget
from dmlrc.records import committed, fingerprint
from dmlrc.report import ranking

ROOT = Path(__file__).parents[1]
SOURCE = """
from dmlrc.methods import Float

space = {"margin": Float(0, 1)}


def mine(embeddings, labels, margin=0.5):
    return embeddings.sum() * margin
"""
SMOKE = studies.STUDIES["glyphs-smoke"]
BASE = replace(SMOKE, methods=tuple(map(SMOKE.method, ("contrastive", "triplet"))), budget=Budget("smoke", 3, 2, 1, 3))


def made_up(patch):
    """A base of two methods whose units are made up."""
    patch.setattr(run, "run_unit", made_up_unit)
    patch.setattr(board, "run_unit", made_up_unit)
    patch.setitem(studies.STUDIES, BASE.name, BASE)


def read_here(command, **_):
    """What a new process says of the file of a loss, without the seconds in which one begins."""
    (_, _, script, file), printed = command, io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", ["-c", file])
        exec(script, {})
    return SimpleNamespace(returncode=0, stdout=printed.getvalue())


@pytest.fixture(autouse=True)
def small(monkeypatch):
    made_up(monkeypatch)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "losses" / "my_loss.py"
    path.parent.mkdir()
    path.write_text(SOURCE)
    return path


def test_where_there_is_no_entry_none_is_checked(call):
    assert "there is no entry in" in call("board", "check")[2]
    assert "there is no entry in" in call("board", "check", "mine")[2]
    with pytest.raises(UsageError, match=r"^unknown entry 'mine': there is none yet$"):
        list(board.check_board("mine"))


def enter(file):
    """The name of an entry of the loss in a file, run and written."""
    [method] = comparison.read_methods(file)
    study = board.entry_study(BASE, method)
    comparison.run_comparison(study, BASE, [method])
    board.submit(study, method, file)
    return study.name


@pytest.fixture(scope="module")
def submitted(tmp_path_factory):
    """The folder of a project in which a loss was entered."""
    home = tmp_path_factory.mktemp("submitted")
    (home / "my_loss.py").write_text(SOURCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLRC_HOME", str(home))
        patch.setenv("DMLRC_CACHE", str(home / "cache"))
        made_up(patch)
        patch.setattr(board, "subprocess", SimpleNamespace(run=read_here))
        enter(home / "my_loss.py")
    return home


@pytest.fixture
def name(submitted, home):
    """An entry of its own for a test."""
    for part in ("runs", "results"):
        shutil.copytree(submitted / part, home / part)
    return f"{BASE.name}/board/mine"


def test_an_entry_stands_beside_the_methods_with_a_rank(name):
    assert name == f"{BASE.name}/board/mine"
    assert board.entries() == board.entries(BASE.name) == [name]
    assert board.entries("grocery-quick") == []
    found = board.load_board(BASE)
    assert set(found.trials["method"]) == {"contrastive", "triplet", "mine"}
    assert found.meta["budget"] == records.load(BASE.name).meta["budget"]
    assert re.search(r"^\d \(1-3\) +mine ", "\n".join(ranking.lines(found)), re.M)


def test_units_are_drawn_and_run_again(name):
    ran = []
    board.run_unit = lambda unit: ran.append(unit) or made_up_unit(unit)
    lines = list(board.check_board(name, 4, seed=1))
    assert len(lines) == len({(unit.kind, unit.number) for unit in ran}) == 4
    assert all(re.search(r"mine (trial|rerun) \d: (\d+\.\d\d %) on record, \2 again$", line) for line in lines)
    others = {tuple(line for line in board.check_board(name, 2)) for _ in range(9)}
    assert len(others) > 1  # nobody knows which


def test_a_score_that_does_not_come_again_is_refused(name, monkeypatch):

    def better_by(points):
        def unit(asked):
            record = made_up_unit(asked)
            if asked.kind == "rerun":
                record["scores"]["concatenated"]["map_at_r"] += points
                return record
            return record | {"value": record["value"] + points}

        return unit

    monkeypatch.setattr(board, "run_unit", better_by(0.9 * board.TOLERANCE))
    assert len(list(board.check_board(name, 5))) == 5
    monkeypatch.setattr(board, "run_unit", better_by(1.1 * board.TOLERANCE))
    with pytest.raises(DmlrcError, match=r"mine trial 0 has [\d.]+ % on record, and run again [\d.]+ %"):
        list(board.check_board(name, 5))
    monkeypatch.setattr(board, "run_unit", lambda asked: made_up_unit(asked) | {"state": "diverged"})
    with pytest.raises(DmlrcError, match="and run again no result"):
        list(board.check_board(name))


def change_frames(name, **changes):
    """Change frames of an entry, as somebody would who seals it again."""
    found = records.load(name)
    units = {each: getattr(found, each) for each in records.FRAMES}
    units |= {frame: change(units[frame]) for frame, change in changes.items()}
    shutil.rmtree(paths.runs())
    target = paths.committed(name)
    files = {path: path.read_bytes() for path in target.glob("*.py")}
    committed._write_parquet(records.StudyRecords(**units, meta=found.meta), target, True)
    assert {path: path.read_bytes() for path in target.glob("*.py")} == files


def test_hyperparameters_that_no_search_proposes_are_refused(name):
    change_frames(
        name, **dict.fromkeys(("trials", "reruns"), lambda of: of.assign(params=[{"margin": 0.123}] * len(of)))
    )
    with pytest.raises(DmlrcError, match=r"trial 0 took \{'margin': 0.123\}, where the search proposes"):
        list(board.check_board(name))


def test_a_trial_that_lost_its_workers_and_was_made_again_is_no_fault(file, monkeypatch):
    """The trials after it were proposed while it had failed; its score, which came later, would give others."""
    base = replace(BASE, methods=BASE.methods[:1], budget=Budget("smoke", 13, 1, 1, 3))
    seconds, lost = itertools.count(), {3}
    monkeypatch.setitem(studies.STUDIES, BASE.name, base)

    def unit(asked):
        if asked.method and (asked.method.name, asked.kind) == ("mine", "trial") and asked.number in lost:
            record = units.failed(asked, "each of 3 workers that ran it died")
        else:
            record = made_up_unit(asked)
        return record | {"finished": f"2026-01-01T00:{next(seconds) // 60:02}:{next(seconds) % 60:02}+00:00"}

    monkeypatch.setattr(run, "run_unit", unit)
    monkeypatch.setattr(board, "subprocess", SimpleNamespace(run=read_here))
    [method] = comparison.read_methods(file)
    study = board.entry_study(base, method)
    comparison.run_comparison(study, base, [method])
    assert records.load(study.name).trials.query("method == 'mine'")["state"].value_counts()["failed"] == 1
    lost.clear()
    comparison.run_comparison(study, base, [method])
    board.submit(study, method, file)
    assert len(list(board.check_board(study.name, 14))) == 14
    change_frames(study.name, trials=lambda of: of.assign(finished="2026-01-01T00:00:00+00:00"))
    with pytest.raises(DmlrcError, match=r"trial 1\d took .*, where the search proposes"):
        list(board.check_board(study.name))


def test_a_score_of_zero_is_a_score(name):
    change_frames(name, trials=lambda trials: trials.replace({"value": {trials["value"].min(): 0.0}}))
    with pytest.raises(DmlrcError, match=r"trial \d has 0.00 % on record, and run again [1-9]"):
        list(board.check_board(name, 5))


def test_an_entry_without_all_of_its_units_is_refused(name):
    change_frames(name, reruns=lambda reruns: reruns[reruns["rerun"] == 0])
    with pytest.raises(DmlrcError, match="has 4 of 5 units"):
        board.checked_units(name)


def test_another_file_than_that_of_the_loss_is_refused(name):
    source = paths.committed(name) / "my_loss.py"
    source.write_text(SOURCE.replace("* margin", "* margin * 2"))
    with pytest.raises(DmlrcError, match="its file is not the loss that was trained"):
        list(board.check_board(name))
    source.write_text(SOURCE.replace("mine", "other"))
    with pytest.raises(DmlrcError, match="defines no method 'mine'"):
        list(board.check_board(name))
    source.unlink()
    with pytest.raises(DmlrcError, match="holds 0 files of Python"):
        list(board.check_board(name))


def test_a_loss_that_needs_a_file_where_the_command_is_given_is_no_entry_and_leaves_the_earlier_one(
    name, file, monkeypatch
):
    """A new process finds what lies in the folder that it works in: not that of the reader, nor that of the loss."""
    (file.parent / "beside_an_entry.py").write_text("def twice(value):\n    return 2 * value\n")
    needs_it = SOURCE.replace("from dmlrc", "from beside_an_entry import twice\nfrom dmlrc")
    file.write_text(needs_it.replace("* margin", "* twice(margin)"))
    monkeypatch.chdir(file.parent)
    with pytest.raises(UsageError, match=r"an entry is one file: .*beside_an_entry"):
        enter(file)
    assert board.entries() == [name]
    assert [path.read_text() for path in paths.committed(name).glob("*.py")] == [SOURCE]


def test_a_check_that_is_killed_lets_nothing_pass(file, monkeypatch):
    killed = SimpleNamespace(returncode=-9, stdout="", stderr="")
    monkeypatch.setattr(board, "subprocess", SimpleNamespace(run=lambda *_, **__: killed))
    with pytest.raises(UsageError, match="its process ended with -9"):
        enter(file)
    assert board.entries() == []


def test_an_entry_of_another_python_is_checked_by_its_units(name, monkeypatch):
    real = fingerprint.fingerprint_of

    def of_another(method):
        description = real(method)
        if method.name != "mine":
            return description
        return description | {"python": "3.0", "loss": description["loss"] | {"code": "another"}}

    monkeypatch.setattr(fingerprint, "fingerprint_of", of_another)
    assert len(list(board.check_board(name, 5))) == 5
    monkeypatch.setattr(board, "run_unit", lambda asked: made_up_unit(asked) | {"state": "diverged"})
    with pytest.raises(DmlrcError, match="and run again no result"):
        list(board.check_board(name))


def test_to_show_the_table_runs_no_entry_and_takes_none_of_another_configuration(name, tmp_path):
    [file] = paths.committed(name).glob("*.py")
    text = file.read_text()
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n{text}")
    board.load_board(BASE)
    assert not (tmp_path / "ran").exists()
    file.write_text(text)
    with pytest.raises(DmlrcError, match="under another configuration"):
        board.load_board(replace(BASE, seed=7))
    meta = paths.committed(name) / "meta.json"
    records.write_sealed(meta, records.read_raw_meta(meta) | {"complete": False})
    with pytest.raises(DmlrcError, match="is not complete"):
        board.load_board(BASE)


def test_a_seed_is_no_negative_number(name, call):
    code, _, error = call("board", "check", name, "--seed", "-1")
    assert (code, "Invalid value for '--seed'" in error) == (2, True), error


def test_an_entry_leaves_its_folder_to_no_other(name):
    before = sys.path.copy()
    board.checked_units(name)
    assert sys.path == before


def test_only_data_that_everybody_has_has_a_board(file):
    [method] = comparison.read_methods(file)
    with pytest.raises(UsageError, match="the data of cars196crops-frozen does not come with the package"):
        board.entry_study(studies.get("cars196crops-frozen"), method)
    assert method.space == {"margin": Float(0, 1)}


def test_without_the_study_there_is_nothing_to_stand_beside(monkeypatch):
    monkeypatch.setattr(board, "entries", lambda base=None: ["glyphs-smoke/board/mine"])
    with pytest.raises(MissingDataError, match="dmlrc study run glyphs-smoke"):
        board.load_board(BASE)
    with pytest.raises(UsageError, match="unknown entry 'glyphs-smoke/board/none'"):
        list(board.check_board("glyphs-smoke/board/none"))


def test_the_workflow_checks_what_was_submitted(file, monkeypatch, call):
    """From the file of a loss to the table, by the commands that the workflow of pull requests runs."""
    monkeypatch.setattr("dmlrc.preflight.check_method", lambda *_: [])
    monkeypatch.setattr("dmlrc.report.compare.page.write_comparison", lambda *_: "page")
    monkeypatch.setattr(board, "subprocess", SimpleNamespace(run=read_here))
    code, _, error = call("compare", str(file), "--study", BASE.name, "--trials", "2", "--submit")
    assert (code, "--submit takes a file with one loss" in error) == (2, True)
    code, output, error = call("compare", str(file), "--study", BASE.name, "--submit")
    assert (code, "entry " in output) == (0, True), error
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "board.yml").read_text())
    steps = [step["run"] for step in workflow["jobs"]["check"]["steps"] if "run" in step]
    commands = [
        line.removeprefix(".venv/bin/dmlrc ") for step in steps for line in step.splitlines() if "dmlrc" in line
    ]
    assert [each.split()[0] for each in commands] == ["study", "board", "board"]
    for words in commands:
        words = words.partition(" >")[0].partition(" |")[0].replace("grocery-quick", BASE.name).split()
        code, output, error = call(*words)
        assert code == 0, error
    assert "mine" in output


def test_the_entries_of_this_repository_are_what_their_files_train(monkeypatch):
    """Two losses that are in no table show how it is done; their units are run again by the workflow, not here."""
    monkeypatch.setenv("DMLRC_HOME", str(ROOT))
    assert len(board.entries("grocery-quick")) >= 2
    budget = studies.get("grocery-quick").budget
    for name in board.entries("grocery-quick"):
        assert len(board.checked_units(name)) == budget.trials + budget.reruns


def test_a_board_without_an_entry_is_no_table_of_the_study():
    with pytest.raises(MissingDataError, match="no entry stands beside glyphs-quick"):
        board.load_board(studies.get("glyphs-quick"))
    with pytest.raises(UsageError, match="the data of grocery-frozen does not come with the package"):
        board.load_board(studies.get("grocery-frozen"))
