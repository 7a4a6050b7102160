"""Records of earlier versions in today's form: values, seeds, dates and commits stay, names and places change."""

import json
import shutil

import pandas as pd
import pytest
from factories import fake_units, write_units
from filelock import FileLock

from dmlrc import paths, records
from dmlrc.errors import DmlrcError, UsageError
from dmlrc.papers import musgrave2020
from dmlrc.protocol import digest
from dmlrc.records import rewriting

FORMER, NOW = "grocery-frozen-oi2021-order10", "grocery-frozen/oi2021/order-10"
TABLE_FORMER, TABLE_NOW = "cars196crops-frozen-rate1e-4", "first-runs/cars196crops-frozen"


def old_units(name):
    """Units and meta of a study as they were written before repetitions, kinship and the latest settings."""
    units, meta = fake_units(study=name, protocol=musgrave2020.FROZEN, trials=2, methods=musgrave2020.METHODS[:2])
    for each in ("kind", "parent", "experiment", "repetitions", "contents"):
        del meta[each]
    del meta["protocol"]["precision"], meta["protocol"]["train_from"]
    for each in units:
        each |= {"study": name, "digest": digest(meta)}
        for key in ("row", "level", "level_number", "repetition", "proposals"):
            del each[key]
    return units, meta


def write_old(name):
    """The same as files in runs/, where no repetition stood in their names; units and meta."""
    units, meta = old_units(name)
    folder = paths.runs() / name
    records.write_json(folder / "meta.json", meta)
    for each in units:
        records.write_json(folder / each["method"] / f"{each['kind']}-{each['number']:03d}.json", each)
    return units, meta


def write_old_finished(name):
    """A finished study of the oldest form, Parquet without reruns and places of methods; its frames and meta."""
    units, meta = old_units(name)
    found = records.from_units([rewriting.unit(each) for each in units], meta)
    folder = paths.results() / name
    folder.mkdir(parents=True)
    frames = {}
    for frame in ("trials", "runs", "scores", "curves"):
        gone = [
            "row",
            "level",
            "level_number",
            "repetition",
            "proposals",
            "processor",
            "device",
            "torch",
            "fingerprint",
        ]
        frames[frame] = getattr(found, frame).drop(columns=gone, errors="ignore")
        written = frames[frame]
        if frame == "trials":
            written = written.assign(params=written["params"].map(json.dumps))
        written.to_parquet(folder / f"{frame}.parquet", index=False)
    sums = {path.name: records.sha256(path) for path in sorted(folder.glob("*.parquet"))}
    records.write_json(folder / "meta.json", meta | {"complete": True, "sha256": sums})
    return frames, meta


def rewrite(root):
    return list(rewriting.rewrite(root))


def test_a_study_under_way_has_the_same_records_under_its_new_name(home):
    units, meta = write_old(TABLE_FORMER)
    [said] = rewrite(paths.runs())
    assert said == f"{TABLE_FORMER} has {len(units) + 1} files in today's form, and is now called {TABLE_NOW}"
    assert not (paths.runs() / TABLE_FORMER).exists()
    found = records.load(TABLE_NOW)
    expected = records.from_units([rewriting.unit(each) for each in units], meta)
    for name in records.FRAMES:
        keys = records.KEYS[name]
        frames = (getattr(each, name).sort_values(keys).reset_index(drop=True) for each in (found, expected))
        pd.testing.assert_frame_equal(*frames)
    assert {found.meta[name] for name in ("kind", "parent", "experiment")} == {"table", None}
    assert (found.meta["created"], found.meta["commit"]) == (meta["created"], meta["commit"])
    protocol = json.loads(json.dumps(meta["protocol"]))
    assert found.meta["protocol"] == protocol | {"precision": "float32", "train_from": None}
    assert records.problems(TABLE_NOW) == []
    assert rewrite(paths.runs()) == []


def test_a_unit_of_another_configuration_stays_one(home):
    units, _ = write_old(TABLE_FORMER)
    path = paths.runs() / TABLE_FORMER / "contrastive" / "trial-000.json"
    records.write_json(path, units[1] | {"digest": "0123456789abcdef"})
    rewrite(paths.runs())
    with pytest.raises(DmlrcError, match="another configuration"):
        records.load(TABLE_NOW)


def test_a_finished_study_keeps_its_values_and_has_sound_checksums(home):
    frames, meta = write_old_finished(FORMER)
    with pytest.raises(DmlrcError, match=r"of an earlier version .*dmlrc study rewrite"):
        records._read_parquet(paths.results() / FORMER, FORMER)
    assert len(rewrite(paths.results())) == 1
    found = records.load(NOW)
    for name, before in frames.items():
        pd.testing.assert_frame_equal(getattr(found, name)[[*before]], before)
    reruns = frames["runs"][frames["runs"]["kind"] == "rerun"].groupby(["method", "number"])
    assert found.reruns.set_index(["method", "rerun"])["seconds"].to_dict() == reruns["seconds"].sum().to_dict()
    assert found.reruns["params"].isna().all()
    assert set(found.reruns["commit"]) == {meta["commit"]}
    assert set(found.trials["repetition"]) == {0}
    assert set(found.trials["proposals"]) == {1}
    assert (found.meta["parent"], found.meta["experiment"]) == (None, None)  # it had no kinship to tell
    assert rewrite(paths.results()) == []


def test_what_need_not_change_is_moved_and_not_written_again(home):
    units, meta = fake_units(study="as-today", methods=musgrave2020.METHODS[:2])
    write_units(units, meta)
    folder = records.export("as-today", complete=True).rename(paths.results() / "grocery-frozen-oi2021")
    shutil.rmtree(paths.runs())
    kinship = {"study": folder.name, "kind": "experiment", "parent": "grocery-frozen", "experiment": "oi2021"}
    records.write_json(folder / "meta.json", records.read_raw_meta(folder / "meta.json") | kinship)
    before = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}
    [said] = rewrite(paths.results())
    assert "has 1 files" in said
    after = paths.results() / "grocery-frozen/oi2021"
    assert {path.name: path.stat().st_mtime_ns for path in after.glob("*.parquet")} == before
    assert records.load("grocery-frozen/oi2021").meta["experiment"] == "oi2021"


def test_damaged_records_do_not_become_sound(home):
    write_old_finished(FORMER)
    path = paths.results() / FORMER / "scores.parquet"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DmlrcError, match=r"scores.parquet is not what was exported"):
        rewrite(paths.results())
    assert path.exists()


def test_a_study_that_is_run_stays_where_it_is(home):
    write_old(TABLE_FORMER)
    with FileLock(paths.runs() / f".{TABLE_FORMER}.contrastive.lock"):
        assert rewrite(paths.runs()) == [f"{TABLE_FORMER} is left as it is: a process runs it"]
    assert (paths.runs() / TABLE_FORMER / "meta.json").exists()
    rewrite(paths.runs())
    assert not list(paths.runs().glob(".*"))


def test_records_under_both_names_are_not_mixed(home):
    write_old(TABLE_FORMER)
    rewrite(paths.runs())
    write_old(TABLE_FORMER)
    with pytest.raises(DmlrcError, match="both hold records"):
        rewrite(paths.runs())
    with (
        pytest.raises(DmlrcError, match=r"holds records of first-runs/cars196crops-frozen: `dmlrc study rewrite`"),
        records.running(TABLE_NOW, ["contrastive"]),
    ):
        pass


def test_a_folder_that_is_not_there(home):
    with pytest.raises(UsageError, match="there is no folder"):
        rewrite(home / "elsewhere")


@pytest.mark.parametrize(
    ("name", "level", "number"),
    [
        ("margin_12@decay4e-05", "decay4e-05", 4e-05),
        ("margin_12@dim128", "dim128", 128.0),
        ("softmax@227px", "227px", 227.0),
        ("norm_softmax@25x3", "25x3", None),
        ("squeezenet1_0@imagenet", "imagenet", None),
        ("softmax@spc4", "spc4", None),
        ("triplet", None, None),
    ],
)
def test_the_names_of_old_sweeps_are_read_in_one_way(name, level, number):
    place = rewriting.place(name)
    assert place == {"row": name.partition("@")[0], "level": level, "level_number": number}


@pytest.mark.parametrize(
    ("name", "budget", "now"),
    [
        (TABLE_FORMER, "full", (TABLE_NOW, "table", None, None)),
        (
            f"{TABLE_FORMER}-roth2020-dims",
            "full",
            (f"{TABLE_NOW}/roth2020/dims", "experiment", TABLE_NOW, "roth2020/dims"),
        ),
        ("glyphs-quick-oi2021-rates", "rate", ("glyphs-quick/oi2021/rates", "rates", "glyphs-quick", "oi2021/rates")),
    ],
)
def test_the_kinship_of_old_studies(name, budget, now):
    meta = rewriting.today({"study": name, "budget": {"name": budget}, "protocol": {}})
    assert tuple(meta[each] for each in ("study", "kind", "parent", "experiment")) == now
