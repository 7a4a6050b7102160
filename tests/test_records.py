"""Records on disk: what is refused, in one sentence with the file and the way out, and what older ones mean."""

import errno
import json
import math
import multiprocessing
import os
import pickle
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cases import loop
from factories import fake_records, fake_units, without_checksum, write_fake_study

from dmlrc import board, cli, paths, plan, records, run, studies
from dmlrc.errors import DmlrcError
from dmlrc.papers import musgrave2020
from dmlrc.protocol import TEST_METRICS
from dmlrc.records import committed as committed_records
from dmlrc.records import fingerprint, frames
from dmlrc.records.underway import lock_file

COMMITTED = Path(__file__).parents[1] / "results"
FEW = tuple(each for each in musgrave2020.METHODS if each.name in ("contrastive", "triplet", "margin"))
FORK = multiprocessing.get_context("fork")  # another process, without the seconds in which one begins
UNIT = {
    "study": "fake-study",
    "method": "contrastive",
    "proposals": 1,
    "row": "contrastive",
    "level": None,
    "level_number": None,
    "repetition": 0,
    "kind": "trial",
    "number": 0,
    "params": {"margin": 0.5},
    "state": "complete",
    "reason": "",
    "value": 0.3,
    "steps": 10,
    "seconds": 1.0,
    "commit": "0",
    "runs": [
        {
            "fold": 0,
            "seed": 1,
            "state": "complete",
            "stopped": "plateau",
            "reason": "",
            "best_step": 5,
            "steps": 10,
            "seconds": 1.0,
            "val": {"map_at_r": 0.3, "precision_at_1": 0.5},
            "curve": [{"step": 5, "loss": 0.1, "map_at_r": 0.3}],
        }
    ],
}


@pytest.fixture
def unit_file(home):
    """The file of one trial of a study under way, and a way to write into it."""
    _, meta = fake_units()
    meta["protocol"]["folds"] = 1
    folder = paths.runs() / "fake-study"
    records.write_json(folder / "meta.json", meta)
    path = folder / records.unit_path(UNIT)

    def write(value):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    return write


def changed(**fields):
    return {**UNIT, **fields}


def worth(value):
    """A sound trial of this value."""
    return in_run(val={"map_at_r": value, "precision_at_1": 0.5}) | {"value": value}


def in_run(**fields):
    return {**UNIT, "runs": [{**UNIT["runs"][0], **fields}]}


def test_a_sound_record_is_read(unit_file):
    unit_file(UNIT)
    (trial,) = records.load("fake-study").trials.to_dict("records")
    assert (trial["value"], trial["params"], trial["repetition"]) == (0.3, {"margin": 0.5}, 0)


def test_what_may_lack_in_a_sound_record_has_a_value_when_it_is_read(unit_file):
    unit_file({name: value for name, value in worth(0.3).items() if name != "proposals"})
    assert records.problems("fake-study") == []
    (trial,) = records.load("fake-study").trials.to_dict("records")
    assert (trial["value"], trial["proposals"]) == (0.3, 1)


def test_records_are_read_again_where_a_file_has_changed(unit_file, monkeypatch):
    unit_file(UNIT)
    first = records.load("fake-study")
    read = []
    with monkeypatch.context() as patch:
        patch.setattr(records.underway, "run_here", lambda study: read.append(study))
        assert records.load("fake-study").trials.equals(first.trials)
    assert read == []
    unit_file(worth(0.25))
    assert records.load("fake-study").trials["value"].tolist() == [0.25]
    unit_file(UNIT).rename(paths.runs() / "fake-study" / "contrastive" / "0-trial-001.json")
    with pytest.raises(DmlrcError, match="move it there"):
        records.load("fake-study")


def test_what_is_done_to_records_stays_with_who_did_it(unit_file):
    unit_file(UNIT)
    mine = records.load("fake-study")
    mine.trials.loc[0, "value"] = 0.9
    mine.trials.loc[0, "params"]["margin"] = 7.0
    mine.meta["protocol"]["folds"] = 7
    with pytest.raises(ValueError, match="read-only"):
        mine.curves["value"].to_numpy()[:] = 0
    theirs = records.load("fake-study")
    assert theirs.trials["value"].tolist() == [0.3]
    assert theirs.trials["params"].tolist() == [{"margin": 0.5}]
    assert theirs.meta["protocol"]["folds"] == 1


def test_shared_records_are_one_object_until_a_file_changes(unit_file):
    unit_file(UNIT)
    with records.shared():
        first = records.load("fake-study")
        assert records.load("fake-study") is first
        with records.shared():
            assert records.find("fake-study") is first
        assert records.load("fake-study") is first
        unit_file(worth(0.25))
        assert records.load("fake-study").trials["value"].tolist() == [0.25]
    assert records.load("fake-study") is not records.load("fake-study")


def test_what_a_reader_changes_within_a_block_is_gone_after_it(unit_file):
    unit_file(UNIT)
    with records.shared():
        within = records.load("fake-study")
        within.meta["budget"]["trials"] = 999
        within.trials.loc[0, "params"]["margin"] = 7.0
    after = records.load("fake-study")
    assert after.meta["budget"]["trials"] == 3
    assert after.trials["params"].tolist() == [{"margin": 0.5}]


def test_what_is_derived_is_kept_within_a_block_by_its_key_and_computed_anew_outside():
    asked = []
    half = records.derived_once(lambda number: abs(number))(lambda number: asked.append(number) or number / 2)
    assert (half(2), half(2)) == (1, 1)
    with records.shared():
        assert (half(2), half(4), half(-4)) == (1, 2, 2)
        with records.shared():
            assert half(4) == 2
    assert half(-4) == -2
    assert asked == [2, 2, 2, 4, -4]


def test_a_study_is_published_once_its_meta_says_so(home):
    file = paths.results() / "some" / "meta.json"
    file.parent.mkdir(parents=True)
    for complete in (False, True, False):
        records.write_sealed(file, {"study": "some", "budget": {"name": "full"}, "complete": complete})
        assert records.published() == ["some"] * complete
    records.write_sealed(file, {"study": "some", "budget": {"name": "quick"}, "complete": True})
    assert records.published() == []


@loop(
    "broken, says",
    [
        ("null", "the file"),
        ("[]", "the file"),
        ("3", "the file"),
        ('"text"', "the file"),
        ("{}", "Field required"),
        ("{", "damaged"),
        ("", "damaged"),
        ("[" * 100_000, "damaged"),
        (changed(value=7), "value"),
        (changed(value=None), "value is None, and the mean"),
        (changed(value="good"), "value"),
        (changed(value=-0.1), "value"),
        (changed(state="finished"), "state"),
        (changed(kind="attempt"), "kind"),
        (changed(number=-1), "number"),
        (changed(number=0.5), "number"),
        (changed(number="0"), "number"),
        (changed(seconds="1.5"), "seconds"),
        (changed(steps=True), "steps"),
        (in_run(seconds="1.5"), "seconds"),
        (in_run(curve=[{"step": "5"}]), "step"),
        (changed(repetition=None), "repetition"),
        (changed(params={"margin": "wide"}), "params.margin"),
        (changed(params=None), "params"),
        (changed(runs=[]), "has no runs"),
        (changed(runs=None), "runs"),
        (changed(state="diverged"), "state is not that of the last run"),
        (changed(kind="rerun", state="diverged", scores={"separated": {"nmi": 0.5}}), "not that of the last run"),
        (changed(method=3), "method"),
        (changed(surprise=1), "surprise"),
        (changed(scores={"separated": {"map_at_r": 7.0}}), "map_at_r is 7"),
        (changed(scores={"separated": {"map_at_r": None}}), "map_at_r is None"),
        (changed(scores={"separated": {"nmi": -1}}), "nmi is -1"),
        (in_run(val={"map_at_r": 1.5}), "map_at_r is 1.5"),
        (in_run(stopped="bored"), "stopped"),
        (in_run(steps=-1), "steps"),
        (in_run(curve=[3]), "curve"),
        (changed(method="triplet"), "says that it is triplet/0-trial-000.json"),
        (changed(study="other"), "of study 'other'"),
        (changed(number=1), "0-trial-001.json"),
        (changed(digest="0123456789abcdef"), "another configuration"),
    ],
)
def test_what_cannot_be_is_refused_with_its_file_and_field(unit_file, broken, says):
    path = unit_file(broken)
    with pytest.raises(DmlrcError) as refused:
        records.load("fake-study")
    text = str(refused.value)
    assert str(path) in text
    assert says in text.replace(str(path.parent.parent), "")
    assert "\n" not in text
    assert ("ove it" in text) or ("delete it" in text)
    assert records.problems("fake-study") == [text]


def test_nan_and_infinity_are_refused(unit_file):
    for number in ("NaN", "Infinity", "-Infinity"):
        unit_file(json.dumps(UNIT).replace("0.3,", f"{number},", 1))
        with pytest.raises(DmlrcError, match=r"0-trial-000\.json is damaged"):
            records.load("fake-study")


def test_a_rerun_without_scores_is_refused(unit_file, home):
    rerun = changed(kind="rerun", scores={}, value=None)
    records.write_json(paths.runs() / "fake-study" / records.unit_path(rerun), rerun)
    with pytest.raises(DmlrcError, match="a complete rerun has no scores"):
        records.load("fake-study")


def test_a_fold_that_is_missing_is_noticed(home):
    write_fake_study()
    file = paths.runs() / "fake-study" / "triplet" / "0-trial-001.json"
    whole = records.read_json(file)
    value = np.mean([run["val"]["map_at_r"] for run in whole["runs"][1:]])
    records.write_json(file, whole | {"runs": whole["runs"][1:], "value": value})
    with pytest.raises(DmlrcError, match=r"trial 1 of triplet .* lacks the run of a fold: move its record"):
        records.load("fake-study")


def test_records_set_aside_one_right_after_the_other_are_all_kept(unit_file):
    for value in (0.1, 0.2, 0.3):
        unit_file(worth(value))
        records.set_aside("fake-study", [UNIT])
    kept = (paths.runs() / "fake-study" / "contrastive").glob("*/*.json")
    assert sorted(json.loads(path.read_text())["value"] for path in kept) == [0.1, 0.2, 0.3]


def test_a_model_is_set_aside_with_the_record_that_it_belongs_to(unit_file):
    """Also where the new record comes with a model of its own, or with none."""
    rerun = {**in_run(), "kind": "rerun", "scores": {"separated": {"map_at_r": 0.3}}, "value": 0.3}
    for place, model in enumerate((b"first", b"second", None)):
        record = {**rerun, "params": {"margin": 0.1 * (place + 1)}}
        run._write("fake-study", record | ({"model": model} if model else {}))
    path = records.model_path(rerun, "fake-study")
    assert not path.exists()
    kept = sorted(path.parent.glob("replaced-*"))
    models = [(folder / path.name).read_bytes() for folder in kept]
    margins = [json.loads(next(folder.glob("*.json")).read_text())["params"]["margin"] for folder in kept]
    assert (models, margins) == ([b"first", b"second"], [0.1, 0.2])


def test_a_file_that_another_run_renames_meanwhile_is_no_error(unit_file, monkeypatch):
    path = unit_file(UNIT)
    part = path.with_suffix(".part")  # what the other run is writing
    part.write_text("{")
    looked = Path.stat

    def stat(self, **options):
        told = looked(self, **options)
        if self == part:
            part.unlink()
        return told

    monkeypatch.setattr(Path, "stat", stat)
    assert len(records.load("fake-study").trials) == 1


def test_two_runs_that_set_the_same_records_aside(unit_file, monkeypatch):
    path, make = unit_file(UNIT), Path.mkdir

    def mkdir(self, *options, **named):
        path.unlink(missing_ok=True)  # the other run was quicker
        make(self, *options, **named)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    assert list(records.set_aside("fake-study", [UNIT]).iterdir()) == []


def test_records_can_be_read_by_others_and_leave_nothing_half_written(home):
    path = home / "folder" / "file.json"
    records.write_json(path, {"a": math.nan})
    assert (path.stat().st_mode & 0o777, json.loads(path.read_text())) == (0o644, {"a": None})
    with pytest.raises(TypeError):
        records.write_json(path, {"a": object()})
    assert list(path.parent.iterdir()) == [path]


def test_nothing_impossible_is_written(home):
    with pytest.raises(DmlrcError, match="value"):
        records.write_unit(changed(value=7.0), "fake-study")
    assert not (paths.runs() / "fake-study" / records.unit_path(UNIT)).exists()
    records.write_unit(changed(value=math.nan, state="failed", runs=[]), "fake-study")  # written as null


def test_a_score_that_is_undefined_is_a_result(unit_file):
    """Such as rho and pi_ratio of an embedding that has collapsed."""
    undefined = in_run(val={"map_at_r": 0.3, "precision_at_1": 0.5, "rho": math.inf})
    unit_file(UNIT)
    records.write_unit(undefined, "fake-study")
    assert records.load("fake-study").runs["val_map_at_r"].item() == 0.3
    scored = changed(kind="rerun", scores={"separated": {"map_at_r": 0.3, "rho": math.nan}})
    records.write_unit(scored, "fake-study")
    assert records.is_repeated(scored, "fake-study")
    for other in ({"map_at_r": 0.3, "rho": 1.0}, {"map_at_r": 0.4, "rho": math.nan}, {"map_at_r": 0.3}):
        assert not records.is_repeated(scored | {"scores": {"separated": other}}, "fake-study")


def test_records_set_aside_are_of_no_study(unit_file):
    path = unit_file(UNIT)
    aside = path.parent / "replaced-20260101T000000.0"
    aside.mkdir()
    (aside / path.name).write_text(path.read_text())
    assert records.find("fake-study/contrastive") is None


def test_a_link_stays_one_to_the_file_that_is_written(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link.toml").symlink_to(tmp_path / "far" / "studies.toml")
    records.write_whole(tmp_path / "link.toml", b"whole")
    assert (tmp_path / "link.toml").is_symlink()
    assert (tmp_path / "far" / "studies.toml").read_bytes() == b"whole"


def test_stray_files_and_folders_are_named(unit_file):
    folder = unit_file(UNIT).parent
    (folder / "notes.txt").write_text("mine")
    (folder / "notes.json").write_text("{}")
    (folder / "0-trial-009.json").mkdir()
    said = " ".join(records.problems("fake-study"))
    for name in ("notes.txt", "notes.json", "0-trial-009.json"):
        assert name in said
    with pytest.raises(DmlrcError, match=r"notes\.json|0-trial-009\.json"):
        records.load("fake-study")


def test_records_without_a_meta_are_not_taken_for_none(unit_file):
    """They would be made again, over those that are there."""
    (unit_file(UNIT).parents[1] / "meta.json").unlink()
    with pytest.raises(DmlrcError, match=r"have no meta\.json: restore it"):
        records.load("fake-study")
    assert "have no meta.json" in records.problems("fake-study")[0]


@pytest.mark.parametrize("meta", ["null", "[]", "{}", "{", '{"study": 3}'])
def test_a_damaged_meta_is_named(unit_file, meta):
    path = unit_file(UNIT).parents[1] / "meta.json"
    path.write_text(meta)
    with pytest.raises(DmlrcError, match=r"meta\.json.*Restore it"):
        records.load("fake-study")
    assert "Restore it" in records.problems("fake-study")[0]


def test_what_a_killed_process_left_half_written_is_no_problem(unit_file):
    (unit_file(UNIT).parent / "tmpabc.part").write_text("{")
    assert records.problems("fake-study") == []


def _hold(held):
    with records.running("fake-study", ["contrastive", "triplet"]):
        held.set()
        time.sleep(100)


def test_one_process_at_a_time_runs_a_method(home):
    """And a killed one keeps nothing."""
    held = FORK.Event()
    other = FORK.Process(target=_hold, args=(held,), daemon=True)
    other.start()
    assert held.wait(60)
    with records.running("fake-study", ["arcface", "triplet"]) as refused:
        assert "another process runs triplet of study 'fake-study'" in str(refused)
    with records.running("fake-study", ["arcface"]) as one, records.running("fake-study-2", ["triplet"]) as other_study:
        assert (one, other_study) == (None, None)  # the jobs of an array run a method each
    other.kill()
    other.join()
    with records.running("fake-study", ["arcface", "triplet"]) as refused:
        assert refused is None
    assert records.problems("fake-study") == []


def test_locks_of_names_with_dots_are_not_one(home):
    names = (("a", "b.c"), ("a.b", "c"), ("a/b", "c"), ("a", "b/c"), ("a.b.c",), ("a", "b", "c"))
    locks = {lock_file(paths.runs(), *of) for of in names}
    assert len(locks) == len(names)
    assert lock_file(paths.runs(), *names[0]) in locks
    longest = ("s" * 200, "写" * 84)
    with (
        records.running(longest[0], longest[1:]) as first,
        records.writing_meta("a.b.c"),
        records.running("a", ["b.c"]) as second,
    ):
        assert (first, second) == (None, None)


def _run_arcface():
    with records.running("fake-study", ["arcface"]) as refused:
        sys.exit(3 if "another process runs arcface" in str(refused) else bool(refused))


def test_a_block_that_ends_frees_no_other_of_the_same_process(home):
    with records.running("fake-study", ["arcface"]):
        with records.running("fake-study", ["triplet"]):
            pass
        other = FORK.Process(target=_run_arcface)
        other.start()
        other.join()
        assert other.exitcode == 3


def _add(name, both_are_here):
    both_are_here.wait()
    with records.writing_meta("fake-study") as path:
        before = records.read_json(path) if path.exists() else {}
        time.sleep(0.5)
        records.write_json(path, before | {name: 1})


def test_meta_is_merged_by_one_process_at_a_time(home):
    """Each reads, waits and writes: without the lock one of the two additions is lost."""
    both_are_here = FORK.Barrier(2, timeout=60)
    both = [FORK.Process(target=_add, args=(name, both_are_here), daemon=True) for name in "ab"]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert [each.exitcode for each in both] == [0, 0]
    assert records.read_json(home / "runs" / "fake-study" / "meta.json") == {"a": 1, "b": 1}


# Committed records


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder of finished records, as Parquet; of a few methods, since each of them costs every reader."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLRC_HOME", str(tmp_path_factory.mktemp("exported")))
        write_fake_study(methods=FEW)
        return records.export_records("fake-study", complete=True)


@pytest.fixture
def committed(exported, home):
    """The same in the folder of a test, in which nothing was run."""
    return Path(shutil.copytree(exported, paths.results() / "fake-study"))


def put_aside(folder):
    """Leave committed records as an export does that is killed before the new ones are in their place."""
    (folder / paths.BEFORE).mkdir()
    for path in [*folder.glob("*.*")]:
        if path.is_file():
            path.rename(folder / paths.BEFORE / path.name)


def test_a_study_whose_export_was_killed_is_still_listed(committed):
    put_aside(committed)
    assert records.recorded_in(paths.results()) == ["fake-study"]
    assert len(records.load("fake-study").trials)


def of_method(name, folder):
    """Records here of one method alone, in this folder of runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLRC_RUNS", str(folder))
        write_fake_study(methods=[each for each in FEW if each.name == name])


def exported_methods(folder, monkeypatch):
    monkeypatch.setenv("DMLRC_RUNS", str(folder))
    records.export_records("fake-study", complete=False)
    return sorted(committed_records.read_committed("fake-study").trials["method"].unique())


@pytest.mark.parametrize("at", [1, 2, 5, 8])
def test_an_export_is_turned_away_while_another_one_writes(home, monkeypatch, at):
    """Whatever that one is about to move, it comes to its end, and nothing is lost."""
    for name in ("triplet", "margin"):
        of_method(name, home / name)
    assert exported_methods(home / "triplet", monkeypatch) == ["triplet"]
    rename, kept, moved, refused = Path.rename, paths.kept, [], []

    def renamed(path, target):
        moved.append(path)
        if len(moved) == at:
            with pytest.raises(DmlrcError, match="another process exports 'fake-study'"):
                records.export_records("fake-study", complete=False)
            refused.append(at)
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(paths, "kept", lambda file, refusal, wait: kept(file, refusal))
        patch.setattr(Path, "rename", renamed)
        assert exported_methods(home / "margin", monkeypatch) == ["margin", "triplet"]
    assert refused == [at]


def test_an_export_that_waited_keeps_what_the_other_one_wrote(home, monkeypatch):
    for name in ("triplet", "margin"):
        of_method(name, home / name)
    kept, waits = paths.kept, [home / "margin"]

    def waited(*given, **named):
        if waits:
            exported_methods(waits.pop(), monkeypatch)
            monkeypatch.setenv("DMLRC_RUNS", str(home / "triplet"))
        return kept(*given, **named)

    monkeypatch.setattr(paths, "kept", waited)
    assert exported_methods(home / "triplet", monkeypatch) == ["margin", "triplet"]


def test_an_export_after_one_that_was_killed_joins_what_that_left_aside(home, monkeypatch):
    for name in ("margin", "triplet"):
        of_method(name, home / name)
    exported_methods(home / "margin", monkeypatch)
    put_aside(paths.results() / "fake-study")
    assert exported_methods(home / "triplet", monkeypatch) == ["margin", "triplet"]


def of_margin(loss, made):
    """The same records, with margin's source called so in its fingerprints."""
    text = json.dumps({"loss": {"name": "Margin", "code": loss}} | {part: {} for part in fingerprint._PARTS})
    of_units = {name: getattr(made, name) for name in ("trials", "reruns")}
    of_it = {name: frame["fingerprint"].where(frame["method"] != "margin", text) for name, frame in of_units.items()}
    return replace(made, **{name: frame.assign(fingerprint=of_it[name]) for name, frame in of_units.items()})


@pytest.mark.parametrize(("source", "kept"), [("as before", True), ("edited", False)])
def test_nothing_committed_of_an_edited_loss_stands_beside_its_new_records(source, kept):
    committed = of_margin("as before", fake_records(trials=4))
    here = frames.only(
        of_margin(source, committed), [{"method": "margin", "repetition": 0, "kind": "trial", "number": 0}]
    )
    both = frames.joined(here, committed)
    for name in frames.FRAMES:
        before, now, after = (getattr(each, name)["method"] == "margin" for each in (committed, here, both))
        assert after.sum() == (before if kept else now).sum(), name
        assert (~after).sum() == (~before).sum()


def test_files_that_were_read_here_are_known_beside_those_of_committed_records():
    """Older committed records name no file: what trained here must be held to its own ones all the same."""
    made = fake_records(trials=1)
    here, older, newer = (
        replace(made, meta=made.meta | {"inputs": read}) for read in ({"images": "a"}, {}, {"weights": "b"})
    )
    older.meta.pop("inputs")
    assert frames.joined(here, older).meta["inputs"] == {"images": "a"}
    assert frames.joined(here, newer).meta["inputs"] == {"images": "a", "weights": "b"}
    assert frames.joined(older, newer).meta["inputs"] == {"weights": "b"}


def test_an_export_is_on_the_disk_before_what_it_replaces_goes(home, monkeypatch):
    write_fake_study(methods=FEW)
    records.export_records("fake-study", complete=False)
    rename, fsync, synced, before = Path.rename, os.fsync, set(), []

    def renamed(path, target):
        if target.name == paths.BEFORE:
            before.extend(each.stat().st_ino for each in (path, *path.iterdir()))
            assert {*before} <= synced
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", lambda handle: synced.add(os.fstat(handle).st_ino) or fsync(handle))
    monkeypatch.setattr(Path, "rename", renamed)
    folder = records.export_records("fake-study", complete=False)
    assert len(before) > 6
    assert {each.stat().st_ino for each in (folder, *folder.iterdir())} <= synced


def test_an_export_leaves_what_is_not_of_the_records(home):
    """As the committed measurements in results/measured/, were a study called so; killed or not."""
    write_fake_study(methods=FEW)
    folder = paths.results() / "fake-study"
    folder.mkdir(parents=True)
    (folder / "random-trunks.csv").write_text("mine")
    for _ in range(2):
        records.export_records("fake-study", complete=False)
        assert (folder / "random-trunks.csv").read_text() == "mine"
    shutil.copytree(folder, folder.with_name("aside"))
    folder.with_name("aside").rename(folder / paths.BEFORE)  # as a killed export leaves it
    records.export_records("fake-study", complete=False)
    assert (folder / "random-trunks.csv").read_text() == "mine"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (errno.ENOSPC, "make room on the disk"),
        (errno.EACCES, "make the folder writable"),
        (errno.EROFS, "make the folder writable"),
        (errno.EFBIG, "put that right"),
        (errno.ENOENT, "put that right"),
    ],
)
def test_the_way_out_is_that_of_the_fault(home, monkeypatch, code, says):
    def refused(*_):
        raise OSError(code, os.strerror(code))

    write_fake_study(methods=FEW)
    monkeypatch.setattr(os, "fsync", refused)
    with pytest.raises(DmlrcError, match=rf"cannot write .* \({os.strerror(code)}\): {says}"):
        records.write_json(home / "a.json", {})
    with pytest.raises(DmlrcError, match=rf"cannot write .* \({os.strerror(code)}\): {says}"):
        records.export_records("fake-study", complete=False)


def flip(data):
    middle = len(data) // 3
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def rewrite(change):
    def damage(path):
        frame = pd.read_parquet(path)
        change(frame).to_parquet(path, index=False)
        sealed_again(path.parent)

    return damage


def sealed_again(folder):
    """The checksums are those of the tables as they are now."""
    sums = {path.name: records.sha256(path) for path in folder.glob("*.parquet")}
    records.write_sealed(folder / "meta.json", without_checksum(folder / "meta.json") | {"sha256": sums})


DAMAGES = {
    "one bit flipped": lambda path: path.write_bytes(flip(path.read_bytes())),
    "tail cut": lambda path: path.write_bytes(path.read_bytes()[:-8]),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize(
    ("frame", "damage"),
    [
        *(("scores", damage) for damage in DAMAGES),
        *((frame, "one bit flipped") for frame in ("trials", "runs", "curves")),
    ],
)
def test_damaged_tables_are_named(committed, frame, damage):
    """One sentence for `load` and for `problems`; `test_damage.py` has every kind of damage to a table."""
    DAMAGES[damage](committed / f"{frame}.parquet")
    with pytest.raises(DmlrcError) as refused:
        records.load("fake-study")
    assert str(committed) in str(refused.value)
    assert "git checkout" in str(refused.value)
    assert records.problems("fake-study") == [str(refused.value)]


def test_curves_are_read_when_they_are_asked_for_also_of_records_made_of_others(committed, monkeypatch):
    read, whole = [], committed_records.parquet.ParquetFile
    monkeypatch.setattr(committed_records.parquet, "ParquetFile", lambda file: read.append(file.size()) or whole(file))
    found = records.load("fake-study")
    part = found.having(trials=found.trials[:1]).changed(lambda _, frame: frame[frame["method"] == "triplet"])
    size = (committed / "curves.parquet").stat().st_size
    assert size not in read
    assert len(part.trials) <= 1
    assert len(part.curves) == (found.curves["method"] == "triplet").sum() > 0
    assert read.count(size) == 1
    again = pickle.loads(pickle.dumps(records.load("fake-study")))
    assert again.curves.equals(found.curves)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda frame: frame.drop(columns="repetition"), r"of another version \(lacks repetition\)"),
        (lambda frame: frame.assign(surprise=1), r"of another version \(has surprise\)"),
    ],
)
def test_tables_of_another_version_are_refused(committed, change, says):
    rewrite(change)(committed / "scores.parquet")
    with pytest.raises(DmlrcError, match=rf"scores.parquet is {says}: move its folder away, and run"):
        records.load("fake-study")


@pytest.mark.parametrize("lacking", ["repetitions", "kind", "contents"])
def test_a_meta_of_an_earlier_version_is_refused(committed, lacking):
    meta = without_checksum(committed / "meta.json")
    del meta[lacking]
    records.write_sealed(committed / "meta.json", meta)
    with pytest.raises(DmlrcError, match=rf"meta.json .*{lacking}: Field required.* of an earlier version is moved"):
        records.load("fake-study")


def test_a_setting_that_is_younger_than_the_records_stands_at_its_default(committed):
    meta = without_checksum(committed / "meta.json")
    del meta["protocol"]["precision"], meta["protocol"]["test_metrics"]
    records.write_sealed(committed / "meta.json", meta)
    protocol = records.load("fake-study").meta["protocol"]
    assert (protocol["precision"], tuple(protocol["test_metrics"])) == ("float32", TEST_METRICS)


def test_tables_without_checksums_are_refused(committed):
    meta = without_checksum(committed / "meta.json")
    del meta["sha256"]
    records.write_sealed(committed / "meta.json", meta)
    with pytest.raises(DmlrcError, match=r"meta\.json has no checksums of the tables beside it\. Restore"):
        records.load("fake-study")


@pytest.mark.parametrize("name", ["reruns", "scores"])
def test_a_table_that_was_exported_and_is_gone_is_missed(committed, name):
    """Or never was."""
    (committed / f"{name}.parquet").rename(committed / "elsewhere")
    with pytest.raises(DmlrcError, match=rf"{name}\.parquet is missing: restore it"):
        records.load("fake-study")


def test_records_of_another_study_in_a_folder_are_refused(committed):
    committed.rename(committed.with_name("other"))
    with pytest.raises(DmlrcError, match=r"is of study 'fake-study': rename the folder"):
        records.load("other")


def test_the_command_that_checks_names_every_problem(committed, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["dmlrc", "study", "check"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert "every record of 1 study is sound" in capsys.readouterr().out
    DAMAGES["tail cut"](committed / "scores.parquet")
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capsys.readouterr()
    assert ended.value.code == 1
    assert "scores.parquet is not what was exported" in told.out
    assert "of the records of 1 study, 1 cannot be used" in told.err
    assert "Traceback" not in told.err


def test_a_check_of_a_study_names_each_damaged_record_and_one_of_nothing_is_an_error(capsys, monkeypatch):
    write_fake_study(study="glyphs-smoke", trials=2, reruns=0)
    damaged = sorted((paths.runs() / "glyphs-smoke").glob("*/*trial*.json"))[:2]
    for path in damaged:
        path.write_text("{}")
    for words in (["study", "check", "glyphs-smoke"], ["study", "check", "glyphs-quick"], ["board", "check"]):
        monkeypatch.setattr("sys.argv", ["dmlrc", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 1
    said = capsys.readouterr()
    assert all(str(path) in said.out for path in damaged)
    assert "there are no records of glyphs-quick in" in said.err
    assert "there is no entry in" in said.err


def test_committed_records_are_sound(monkeypatch):
    monkeypatch.setattr(paths, "results", lambda: COMMITTED)
    names = set(records.recorded_in(COMMITTED)) - set(board.entries())  # of entries test_board.py reads the files too
    assert names
    metas = sorted(COMMITTED.rglob("meta.json"))
    assert [path for path in metas if "checksum" not in records.read_json(path)] == []
    for name in sorted(names):
        study = studies.get(name)  # reading them checks them; what they lack would be a sentence
        with records.shared():  # handed out once
            todo, found = plan.Plan(study), records.load(name)
        assert todo.stale == [], name
        assert todo.outdated == [], name  # they are records of the methods of today
        both = [frame[["method", "fingerprint"]] for frame in (found.trials, found.reruns)]
        told = pd.concat(both).dropna().drop_duplicates()
        settings = {method: json.loads(each)["settings"] for method, each in told.itertuples(index=False)}
        assert {method: found.meta["settings"][method] for method in settings} == settings, name


def test_a_rerun_that_came_to_nothing_here_leaves_none_of_its_predecessors_numbers(committed):
    """Not its scores, and no other row of it; what was not made again here is as committed."""
    before = records.load("fake-study")
    _, meta = fake_units()
    records.write_json(paths.runs() / "fake-study" / "meta.json", meta)
    failed = changed(kind="rerun", number=1, state="failed", reason="made to fail", value=None, runs=[])
    records.write_unit(failed, "fake-study")
    found = records.load("fake-study")
    (rerun,) = found.reruns.query("method == 'contrastive' and rerun == 1").to_dict("records")
    assert (rerun["state"], rerun["reason"]) == ("failed", "made to fail")
    for name, number in (("runs", "number"), ("curves", "number"), ("scores", "rerun"), ("arrays", "rerun")):
        old, new = getattr(before, name), getattr(found, name)
        of_it = (old["method"] == "contrastive") & (old[number] == 1) & (old.get("kind", "rerun") == "rerun")
        assert of_it.any() or name == "arrays"
        pd.testing.assert_frame_equal(new, old[~of_it].reset_index(drop=True), check_dtype=False)


def test_what_was_asked_for_grows_and_does_not_shrink(committed):
    _, meta = fake_units(trials=9, reruns=1)
    records.write_json(paths.runs() / "fake-study" / "meta.json", meta | {"repetitions": 2})
    records.write_unit(changed(state="failed", value=None, runs=[]), "fake-study")
    found = records.load("fake-study").meta
    assert (found["budget"]["trials"], found["budget"]["reruns"], found["repetitions"]) == (9, 2, 2)


# Older records


def test_records_say_where_and_with_which_torch_each_was_made_beside_older_ones_that_do_not(committed):
    columns = ["device", "torch"]
    for name in ("trials", "reruns"):
        pd.read_parquet(committed / f"{name}.parquet").drop(columns=columns).to_parquet(committed / f"{name}.parquet")
    sealed_again(committed)
    assert records.load("fake-study").trials[columns].isna().all(axis=None)
    _, meta = fake_units()
    records.write_json(paths.runs() / "fake-study" / "meta.json", meta)
    here = {"device": "a GPU", "torch": "2.16.0"}
    records.write_unit(changed(**here, state="failed", value=None, runs=[]), "fake-study")
    records.export_records("fake-study", complete=True)
    shutil.rmtree(paths.runs())
    trials = records.load("fake-study").trials
    made_again = (trials["method"] == "contrastive") & (trials["trial"] == 0)
    assert trials[made_again][columns].to_dict("records") == [here]
    assert trials[~made_again][columns].isna().all(axis=None)
