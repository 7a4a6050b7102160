"""Damaged records: every kind of damage to every kind of file ends in a sentence with the file and the way out."""

import json
import operator
import shutil
import sys
from dataclasses import replace

import pandas as pd
import pytest
from factories import made_up_unit, without_checksum

from dmlrc import cli, plan, records, run, search, studies
from dmlrc.errors import DmlrcError
from dmlrc.methods import Choice, Method
from dmlrc.studies import recorded

SMOKE = studies.STUDIES["glyphs-smoke"]
METHODS = ("contrastive", "triplet")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The folders of one study, under way and exported, and of another one beside it."""
    home = tmp_path_factory.mktemp("sound")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLRC_HOME", str(home))
        patch.setenv("DMLRC_CACHE", str(home / "cache"))
        patch.setattr(run, "run_unit", made_up_unit)
        for study in (SMOKE, replace(SMOKE, name="glyphs-other", seed=1)):
            run.run(study, [study.method(name) for name in METHODS])
            records.export_records(study.name, complete=False)
    return home


@pytest.fixture
def begun(sound, home):
    return shutil.copytree(sound / "runs", home / "runs") / SMOKE.name


@pytest.fixture
def exported(sound, home):
    return shutil.copytree(sound / "results", home / "results") / SMOKE.name


def rewritten(change, keeps_checksum=True):
    """Damage to a JSON file, whose checksum stays, as after an edit by hand, or was never there."""

    def damage(path):
        told = records.read_json(path) if keeps_checksum else without_checksum(path)
        path.write_text(json.dumps(change(told) or told))
        if not keeps_checksum and (meta := path.parents[1] / "meta.json").exists():
            records.write_sealed(meta, without_checksum(meta))  # of a study that was begun then

    return damage


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


UNIT = {
    "a missing field": lambda told: told.pop("runs") and None,
    "a value of another type": lambda told: told.update(seconds="long"),
    "NaN": lambda told: told["runs"][0]["val"].update(map_at_r=float("nan")),
    "a changed value": lambda told: told.update(value=told["value"] + 0.01),
    "a field too many": lambda told: told.update(surprise=1),
    "a run twice": lambda told: told["runs"].append(told["runs"][-1]),
    "a list": lambda told: [told],
}
SEALED_UNIT = {
    "a changed number of a curve": lambda told: told["runs"][1]["curve"][0].update(loss=0.5),
    "two runs swapped": lambda told: told["runs"].reverse(),
    "another parameter": lambda told: told["params"].update(dict.fromkeys(told["params"], 0.3)),
}
UNIT_FILES = {
    "cut": cut,
    "empty": lambda path: path.write_bytes(b""),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "no UTF-8": lambda path: path.write_bytes(path.read_bytes().replace(b"a", b"\xff")),
    "a copy of another trial": lambda path: shutil.copy(path.with_name("0-trial-001.json"), path),
    "a trial of another study": lambda path: shutil.copy(
        path.parents[2] / "glyphs-other" / path.parent.name / path.name, path
    ),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}
META = {
    "a missing field": lambda told: told.pop("dataset") and None,
    "a value of another type": lambda told: told["budget"].update(trials="many"),
    "NaN": lambda told: told["protocol"].update(lr=float("nan")),
    "a protocol without a field": lambda told: told["protocol"].pop("folds") and None,
    "a protocol of words": lambda told: told["protocol"].update(folds="four"),
    "no protocol that could be": lambda told: told["protocol"].update(precision="float7"),
    "no images": lambda told: told["data"].pop("images") and None,
    "a list": lambda told: [told],
    "no budget": lambda told: told.update(budget=None),
    "changes that are none": lambda told: told.update(changes={"contrastive": 3}),
}
SEALED_META = {
    "a changed number": lambda told: told["data"].update(images=3),
    "a fact too many": lambda told: told.update(surprise=1),
}
META_FILES = {"cut": cut, "empty": UNIT_FILES["empty"], "a folder": UNIT_FILES["a folder"]}


def both(changes, sealed, files):
    """Damages to a file with a checksum, and to an older one without, where its contents alone give them away."""
    return [
        *(pytest.param(rewritten(change), id=name) for name, change in (changes | sealed).items()),
        *(pytest.param(rewritten(change, False), id=f"{name}, older") for name, change in changes.items()),
        *(pytest.param(damage, id=name) for name, damage in files.items()),
    ]


def assert_refused(file, way_out):
    """Whoever reads the study says one sentence, and nothing of it counts."""
    with pytest.raises(DmlrcError) as refused:
        records.load(SMOKE.name)
    said = str(refused.value)
    with pytest.raises(DmlrcError) as refused:
        plan.Plan(SMOKE)
    assert str(refused.value) == said
    assert str(file) in said
    assert way_out in said
    assert "\n" not in said
    assert said in records.problems(SMOKE.name)
    recorded.count(SMOKE)  # a list of studies goes on


@pytest.mark.parametrize("damage", both(UNIT, SEALED_UNIT, UNIT_FILES))
def test_a_damaged_trial_is_refused(begun, damage):
    file = begun / "contrastive" / "0-trial-000.json"
    damage(file)
    assert_refused(file, "ove it")


@pytest.mark.parametrize("name", ["contrastive/0-rerun-000.json", "contrastive/0-trial-000.json", "meta.json"])
def test_what_lost_its_checksum_is_refused_where_all_had_one(begun, name):
    """Whatever else was changed: the score of a setting that is gone, another parameter, the changes of a method."""
    told = records.read_json(begun / name)
    del told["checksum"]
    if "rerun" in name:
        del told["scores"]["concatenated"]
    (begun / name).write_text(json.dumps(told))
    assert_refused(begun / name, "ove it" if "0-" in name else "estore it")


@pytest.mark.parametrize("damage", both(META, SEALED_META, META_FILES))
@pytest.mark.parametrize("where", ["begun", "exported"])
def test_a_damaged_meta_is_refused(request, where, damage):
    file = request.getfixturevalue(where) / "meta.json"
    damage(file)
    assert_refused(file, "estore it" if file.is_file() else "move it away")


def test_the_meta_of_another_study_is_refused(begun, exported):
    """By its name; and where that was changed too, by the configuration that every record names."""
    for folder in (begun, exported):
        shutil.copy(folder.with_name("glyphs-other") / "meta.json", folder / "meta.json")
    assert_refused(begun / "meta.json", "rename the folder, or move it away")
    shutil.rmtree(begun)
    assert_refused(exported / "meta.json", "rename the folder, or move it away")
    told = without_checksum(exported / "meta.json") | {"study": SMOKE.name}
    (exported / "meta.json").write_text(json.dumps(told))
    with pytest.raises(DmlrcError, match="is not what was exported"):
        records.load(SMOKE.name)


def table(change):
    def damage(path):
        change(pd.read_parquet(path)).to_parquet(path, index=False)

    return damage


def swapped(frame):
    """The values of its first and last rows, exchanged."""
    values = frame["value"].tolist()
    return frame.assign(value=[values[-1], *values[1:-1], values[0]])


def nan(frame):
    return frame.assign(value=[float("nan"), *frame["value"][1:]])


TABLE = {
    "a missing column": lambda frame: frame.drop(columns="value"),
    "a column too many": lambda frame: frame.assign(surprise=1),
    "words for numbers": lambda frame: frame.assign(value=frame["value"].astype(str)),
    "a row twice": lambda frame: pd.concat([frame, frame[:1]]),
    "a changed number": lambda frame: frame.assign(value=[frame["value"][0] + 0.01, *frame["value"][1:]]),
    "two rows swapped": swapped,
    "a row less": lambda frame: frame[1:],
    "NaN": nan,
    "another method": lambda frame: frame.assign(method=frame["method"].replace("triplet", "contrastive")),
}
TABLE_FILES = {
    "cut": cut,
    "empty": UNIT_FILES["empty"],
    "gone": lambda path: path.unlink(),
    "a folder": UNIT_FILES["a folder"],
    "of another study": lambda path: shutil.copy(path.parents[1] / "glyphs-other" / path.name, path),
}


@pytest.mark.parametrize(
    "damage",
    [
        *(pytest.param(table(change), id=name) for name, change in TABLE.items()),
        *(pytest.param(damage, id=name) for name, damage in TABLE_FILES.items()),
    ],
)
@pytest.mark.parametrize("name", ["scores", "trials"])
def test_a_damaged_table_is_refused(exported, name, damage):
    file = exported / f"{name}.parquet"
    damage(file)
    assert_refused(file, "estore it")


@pytest.mark.parametrize("command", ["show", "run", "export", "check"])
def test_a_command_ends_in_that_sentence(begun, capsys, monkeypatch, command):
    rewritten(UNIT["NaN"])(file := begun / "triplet" / "0-rerun-001.json")
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["dmlrc", "study", command, SMOKE.name])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr()
    assert ended.value.code == 1
    assert f"{file} is damaged. Move it away, and it is made again" in said.out + said.err
    assert said.err.count("\n") == 1


def test_a_table_that_was_not_exported_with_the_others_is_refused(exported):
    shutil.copy(exported / "scores.parquet", exported / "arrays.parquet")
    assert_refused(exported / "arrays.parquet", "move it away")


def test_damaged_tables_of_a_study_that_is_whole_stop_its_run(sound, home):
    whole = replace(SMOKE, methods=tuple(map(SMOKE.method, METHODS)))
    folder = shutil.copytree(sound / "results", home / "results") / SMOKE.name
    records.write_sealed(folder / "meta.json", without_checksum(folder / "meta.json") | {"complete": True})
    assert operator.eq(*plan.progress(whole))
    for damage in (cut, table(lambda frame: frame.drop(columns="method")), TABLE_FILES["a folder"]):
        shutil.copy(sound / "results" / SMOKE.name / "trials.parquet", folder / "trials.parquet")
        damage(folder / "trials.parquet")
        with pytest.raises(DmlrcError, match=r"trials\.parquet is (damaged|not what was exported)"):
            run.run(whole)


def test_what_was_chosen_is_recorded_and_nothing_else_passes(home, monkeypatch):
    mine = Method(
        "mine", lambda e, y, distance: e.sum(), {"distance": Choice(("cosine", "dot")), "size": Choice((1, 8))}
    )
    monkeypatch.setattr(run, "run_unit", made_up_unit)
    run.run(SMOKE, [mine])
    found = records.load(SMOKE.name)
    assert all(mine.misfit(params) is None for params in found.trials["params"])
    assert found.reruns["params"].tolist() == [search.best(found.trials.to_dict("records"))["params"]] * 2
    records.export_records(SMOKE.name, complete=False)
    file = home / "runs" / SMOKE.name / "mine" / "0-trial-000.json"
    told = without_checksum(file)
    assert told["space"] == {"distance": {"choices": ["cosine", "dot"]}, "size": {"choices": [1, 8]}}
    for params in ({"distance": "taxi", "size": 1}, {"distance": "cosine", "size": 2}, {"distance": "dot"}):
        records.write_sealed(file, told | {"params": params})
        with pytest.raises(DmlrcError, match=r"0-trial-000\.json is no record .* none of \["):
            records.load(SMOKE.name)
    shutil.rmtree(home / "runs")
    assert records.load(SMOKE.name).trials["params"].tolist() == found.trials["params"].tolist()
    run.run(SMOKE, [mine])
    assert not (home / "runs").joinpath(SMOKE.name).exists()


def test_whoever_changes_what_was_read_changes_nothing_for_the_next_reader(begun):
    before, mine = records.load(SMOKE.name), records.load(SMOKE.name)
    mine.trials["value"] = 0.0
    for frame in (mine.trials, mine.reruns):
        for params in frame["params"]:
            params.clear()
    mine.scores.loc[:, "value"] = 0.0
    del mine.runs["fold"]
    mine.meta["protocol"].clear()
    for frame in (mine.curves, mine.scores):
        with pytest.raises(ValueError, match="read-only"):
            frame["value"].to_numpy()[0] = 7.0
    after = records.load(SMOKE.name)
    for name in records.FRAMES:
        pd.testing.assert_frame_equal(getattr(after, name), getattr(before, name))
    assert after.meta == before.meta
    assert all(after.trials["params"])
