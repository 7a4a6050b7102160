"""Records in the hands of other tools: Optuna's journal, CSV."""

import errno
import io
import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import optuna
import optuna_dashboard
import pandas as pd
import pytest
from factories import fake_units, write_units
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from typer.testing import CliRunner

from dmlrc import cli, paths, records, studies
from dmlrc.errors import MissingDataError, UsageError
from dmlrc.plan import repetition_seed
from dmlrc.studies import exports

SMOKE = studies.get("glyphs-smoke")
BEGIN = datetime(2025, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


@pytest.fixture
def units():
    """Made-up records, written: each search has three trials, those of arcface diverged; trials end an hour apart."""
    made, meta = fake_units("glyphs-smoke", SMOKE.dataset, SMOKE.effective_protocol, diverged=("arcface",))
    for number, each in enumerate(made):
        each |= {"finished": (BEGIN + timedelta(hours=number)).isoformat(), "device": "a GPU", "torch": "2.15.0"}
    write_units(made, meta)
    return made


def call(*arguments):
    result = CliRunner().invoke(cli.app, ["study", "export", "glyphs-smoke", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def searches(path):
    """The searches of a journal as Optuna itself reads them, by name."""
    storage = JournalStorage(JournalFileBackend(str(path)))
    return {name: optuna.load_study(study_name=name, storage=storage) for name in optuna.get_all_study_names(storage)}


def test_every_search_is_in_the_journal_with_its_trials_and_true_times(units, home):
    path = home / "journal.log"
    assert f"{path}: {len(SMOKE.methods)} searches" in call("--optuna", path)
    found = searches(path)
    assert list(found) == [f"glyphs-smoke/{method.name}/0" for method in SMOKE.methods]
    for method in SMOKE.methods:
        expected = [each for each in units if (each["method"], each["kind"]) == (method.name, "trial")]
        search = found[f"glyphs-smoke/{method.name}/0"]
        assert search.direction == optuna.study.StudyDirection.MAXIMIZE
        assert search.user_attrs["seed"] == SMOKE.seed
        assert search.user_attrs["commit"] == "0000000000"
        assert search.user_attrs["dates"] == "recorded"
        assert len(search.trials) == len(expected) == 3
        for number, (trial, record) in enumerate(zip(search.trials, expected, strict=True)):
            assert trial.number == number
            assert trial.params == record["params"]
            assert set(trial.distributions) == set(method.space)
            assert trial.state == (TrialState.FAIL if method.name == "arcface" else TrialState.COMPLETE)
            assert (trial.value if trial.values else None) == record["value"]
            assert trial.datetime_complete.astimezone(UTC) == datetime.fromisoformat(record["finished"])
            assert trial.duration == timedelta(seconds=record["seconds"])
            assert trial.user_attrs["commit"] == "0000000000"
            assert (trial.user_attrs["device"], trial.user_attrs["torch"]) == ("a GPU", "2.15.0")
            assert trial.user_attrs["seeds"] == [run["seed"] for run in record["runs"]]
    best = max((each for each in units if (each["method"], each["kind"]) == ("triplet", "trial")), key=_value)
    assert found["glyphs-smoke/triplet/0"].best_params == best["params"]


def test_the_searches_of_a_grid_of_rates_are_all_there(home):
    grid = studies.get("glyphs-quick/rate-1e-04")
    made, meta = fake_units(grid.name, grid.dataset, grid.effective_protocol, methods=grid.methods, reruns=0)
    write_units([each for each in made if each["kind"] == "trial"], meta)
    path = home / "journal.log"
    names = [f"{grid.name}/{method.name}/0" for method in grid.methods]
    assert exports.to_journal(grid, path) == names == list(searches(path))


def _value(record):
    return record["value"]


def test_the_dashboard_opens_the_journal(units, home):
    path = home / "journal.log"
    call("--optuna", path)
    dashboard = optuna_dashboard.wsgi(JournalStorage(JournalFileBackend(str(path))))

    def asked(address):
        began = []
        told = dashboard({"REQUEST_METHOD": "GET", "PATH_INFO": address, "wsgi.input": io.BytesIO()}, _begin(began))
        assert began == ["200 OK"]
        return json.loads(b"".join(told))

    listed = {each["study_name"]: each["study_id"] for each in asked("/api/studies")["study_summaries"]}
    assert set(listed) == {f"glyphs-smoke/{method.name}/0" for method in SMOKE.methods}
    shown = asked(f"/api/studies/{listed['glyphs-smoke/triplet/0']}")
    expected = [each for each in units if (each["method"], each["kind"]) == ("triplet", "trial")]
    assert [trial["values"] for trial in shown["trials"]] == [[each["value"]] for each in expected]
    assert {each["name"] for each in shown["union_search_space"]} == set(SMOKE.method("triplet").space)
    assert {each["key"] for each in shown["user_attrs"]} >= {"study", "seed", "commit"}


def _begin(began):
    return lambda status, headers, error=None: began.append(status)


def test_records_without_dates_keep_their_durations_and_say_so(home):
    units, meta = fake_units(study="glyphs-smoke")
    write_units(units, meta)
    call("--optuna", home / "journal.log")
    search = searches(home / "journal.log")["glyphs-smoke/contrastive/0"]
    assert search.user_attrs["dates"] == "durations are recorded, dates are not"
    assert search.trials[0].datetime_start.astimezone(UTC) == datetime.fromisoformat(meta["created"])
    for trial, following in zip(search.trials, search.trials[1:], strict=False):
        assert trial.duration == timedelta(seconds=4)
        assert following.datetime_start == trial.datetime_complete


def test_each_repetition_is_a_search_of_its_own(units, home):
    again = [each | {"repetition": 1} for each in units if (each["method"], each["kind"]) == ("triplet", "trial")]
    for each in again:
        records.write_unit(each, "glyphs-smoke")
    path = home / "journal.log"
    triplet = replace(SMOKE, methods=(SMOKE.method("triplet"),))
    names = exports.to_journal(replace(triplet, repetitions=2), path)
    assert names == ["glyphs-smoke/triplet/0", "glyphs-smoke/triplet/1"]
    meta = paths.runs() / "glyphs-smoke" / "meta.json"
    records.write_json(meta, records.read_json(meta) | {"repetitions": 2})
    assert exports.to_journal(triplet, home / "given") == names  # as by --repetitions 2
    seeds = [search.user_attrs["seed"] for search in searches(path).values()]
    assert seeds == [0, repetition_seed(0, 1)]


def test_a_journal_is_not_written_over_and_not_without_trials(units, home):
    path = home / "journal.log"
    call("--optuna", path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="nothing is overwritten: name a new one"):
        exports.to_journal(SMOKE, path)
    assert path.read_bytes() == before
    with pytest.raises(MissingDataError, match="no search to export"):
        exports.to_journal(replace(SMOKE, methods=()), home / "other.log")
    assert not (home / "other.log").exists()


@pytest.mark.parametrize("committed", [False, True])
def test_csv_holds_every_frame(units, home, committed):
    if committed:
        records.export_records("glyphs-smoke", complete=True)
        shutil.rmtree(paths.runs())
    assert call("--csv", home / "tables").strip() == str(home / "tables")
    found = records.load("glyphs-smoke")
    for name in records.FRAMES:
        read, frame = pd.read_csv(home / "tables" / f"{name}.csv"), getattr(found, name)
        assert list(read.columns) == list(frame.columns)
        assert len(read) == len(frame)
    arrays = pd.read_csv(home / "tables" / "arrays.csv")
    assert [json.loads(values) for values in arrays["values"]] == found.arrays["values"].tolist()
    trials = pd.read_csv(home / "tables" / "trials.csv")
    assert [json.loads(params) for params in trials["params"]] == found.trials["params"].tolist()
    assert trials["value"].tolist() == pytest.approx(found.trials["value"].tolist(), rel=1e-15, nan_ok=True)
    assert json.loads((home / "tables" / "meta.json").read_text())["study"] == "glyphs-smoke"
    (home / "tables" / "runs.csv").write_text("notes of mine")
    with pytest.raises(UsageError, match="tables is there and not empty, and nothing is overwritten"):
        exports.to_csv(SMOKE, home / "tables")
    assert (home / "tables" / "runs.csv").read_text() == "notes of mine"


def test_a_folder_that_cannot_be_made_is_named(units, home):
    (home / "file").write_text("")
    result = CliRunner().invoke(cli.app, ["study", "export", "glyphs-smoke", "--csv", str(home / "file" / "tables")])
    assert "cannot write" in str(result.exception)


def until_the_disk_is_full(call):
    """A function that works twice."""
    left = iter((1, 2))

    def called(*arguments, **named):
        if not next(left, None):
            raise OSError(errno.ENOSPC, "No space left on device")
        return call(*arguments, **named)

    return called


@pytest.mark.parametrize(
    ("option", "owner", "name"), [("--csv", pd.DataFrame, "to_csv"), ("--optuna", exports.search, "write_journal")]
)
def test_a_full_disk_leaves_no_half_of_an_export(option, owner, name, units, home, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, until_the_disk_is_full(getattr(owner, name)))
        result = CliRunner().invoke(cli.app, ["study", "export", "glyphs-smoke", option, str(home / "wanted")])
    assert "No space left on device): make room" in str(result.exception)
    assert [path.name for path in home.iterdir()] == ["runs"]
    assert call(option, home / "wanted").startswith(str(home / "wanted"))


def test_without_options_the_records_go_where_they_are_committed(units, home):
    assert call().strip() == str(home / "results" / "glyphs-smoke")
    assert records.load("glyphs-smoke").trials["finished"].notna().all()
