"""Records in any order: runs, kills, edits, exports, two writers, removals, against a model of what must be there."""

import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest
import small_units
from factories import made_up_unit
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dmlrc import paths, plan, preflight, records, run, studies
from dmlrc.errors import DmlrcError, MissingDataError
from dmlrc.methods import PRETRAINED, Method
from dmlrc.protocol import Budget

SMOKE = studies.STUDIES["glyphs-smoke"]
STUDY = replace(
    SMOKE,
    name="any-order",
    protocol=replace(SMOKE.protocol, folds=2),
    methods=(),
    budget=Budget("any", trials=2, reruns=1, max_epochs=1, iterations_per_epoch=1),
)
NAMES = ("one", "two")
UNTRAINED = (PRETRAINED, PRETRAINED, 0)
METHOD = st.sampled_from(NAMES)
ALL = 99


def method(name, version):
    """The method of this name, whose loss was edited so often."""
    settings = {"neg_margin": 0.5, "pos_margin": version / 10}
    return Method(name, "contrastive", settings=settings, changes={"folds": 2})


def value(key, version):
    """What a unit gives: its method, kind and number, and the version of the loss."""
    return crc32(f"{key} {version if key != UNTRAINED else 0}".encode()) / 2**32


class Killed(BaseException):
    """The end of a process."""


class Records(RuleBasedStateMachine):
    """The model: of each unit that is recorded here, or committed, the version of the loss that it is of."""

    @initialize(begun=st.booleans(), exported=st.booleans())
    def begin(self, begun, exported):
        self.home = Path(tempfile.mkdtemp())
        self.patch = pytest.MonkeyPatch()
        self.patch.setenv("DMLRC_HOME", str(self.home))
        self.patch.setattr(run, "load_images", lambda *_: small_units.PHOTOGRAPHS)
        self.patch.setattr(preflight, "too_small", lambda study, methods, named: {})
        self.versions = dict.fromkeys(NAMES, 0)
        self.here, self.committed = {}, {}
        if begun or exported:
            self.run("one", 0, ALL)
        if exported:
            self.export()
            if not begun:
                self.clear_the_runs()

    def teardown(self):
        said = records.problems(STUDY.name)
        self.patch.undo()
        shutil.rmtree(self.home)
        assert said == []

    def methods(self, *names):
        return [method(name, self.versions[name]) for name in names]

    @property
    def folder(self):
        return paths.runs() / STUDY.name

    def file(self, key):
        name, kind, number = key
        return self.folder / records.unit_path({"method": name, "repetition": 0, "kind": kind, "number": number})

    def visible(self):
        """What a reader finds, by unit: records made here stand before committed ones, of another version of all."""
        of_here = {name: {version for key, version in self.here.items() if key[0] == name} for name in NAMES}
        committed = {key: version for key, version in self.committed.items() if of_here.get(key[0], set()) <= {version}}
        return committed | self.here

    def asked(self, name):
        """What a run of this method has to make, in the order in which it does."""
        visible = self.visible()
        own = [(name, "trial", 0), (name, "trial", 1), (name, "rerun", 0)]
        missing = [key for key in own if visible.get(key) != self.versions[name]]
        return missing + [UNTRAINED] * (UNTRAINED not in visible)

    def ran(self, name, most=ALL):
        """Note what a run of this method leaves that ends after so many units."""
        made = self.asked(name)
        if not made:
            return
        stale = [key for key, version in self.here.items() if key[0] == name and version != self.versions[name]]
        for key in stale:
            del self.here[key]
        self.here |= {key: self.versions.get(key[0], 0) for key in made[:most]}

    def units(self, most=ALL, beside=lambda: None):
        """Give each unit its value; the process is killed after so many. beside: called while the first one runs."""
        left = [most]

        def run_unit(asked):
            if not left[0]:
                raise Killed
            left[0] -= 1
            if left[0] == most - 1:
                beside()
            name = asked.method.name if asked.method else PRETRAINED
            version = round(10 * asked.method.settings["pos_margin"]) if asked.method else 0
            made, number = made_up_unit(asked), value((name, asked.kind, asked.number), version)
            for each in made["runs"]:
                each["val"] |= {"map_at_r": number}
            for scores in made["scores"].values():
                scores["map_at_r"] = number
            return made | {"value": number if made["runs"] else None}

        return run_unit

    @rule(name=METHOD, version=st.integers(0, 2), most=st.sampled_from((ALL, 1, 2, 0)), writes=st.booleans())
    def run(self, name, version, most, writes=False):
        """Perhaps after an edit of the loss, or back; perhaps killed after so many units, or while the next record
        is written."""
        self.versions[name] = version
        made, unit = [], self.units(most + writes)

        def fsync(handle):
            if len(made) > most:
                raise Killed

        with self.patch.context() as patch:
            patch.setattr(run, "run_unit", lambda asked: made.append(asked) or unit(asked))
            patch.setattr(os, "fsync", fsync)
            try:
                run.run(STUDY, self.methods(name))
            except Killed:
                (self.folder / name).mkdir(parents=True, exist_ok=True)
                (self.folder / name / "tmp0.part").write_text('{"study": "any-or')
        self.ran(name, most)

    @rule()
    def run_two_at_once(self):
        """Each another method, the first of which was edited; a second writer of the same one is turned away."""
        one, two = NAMES
        self.versions[one] = (self.versions[one] + 1) % 3

        def second():
            run.run(STUDY, self.methods(two))
            with pytest.raises(DmlrcError, match="another process runs one"):
                run.run(STUDY, self.methods(one))
            self.ran(two)

        if self.versions[one] in [version for key, version in self.committed.items() if key[0] == one]:
            return  # it was edited back, to what is committed
        with self.patch.context() as patch:
            patch.setattr(run, "run_unit", self.units(beside=second))
            run.run(STUDY, self.methods(one))
        self.ran(one)

    @rule()
    def export(self):
        if self.here:
            records.export_records(STUDY.name, complete=False)
            self.committed = self.visible()
        else:
            with pytest.raises(MissingDataError):
                records.export_records(STUDY.name, complete=False)

    @precondition(lambda self: self.committed)
    @rule(name=METHOD)
    def export_beside_what_is_committed(self, name):
        """From another clone, which has nothing but the committed records."""
        self.clear_the_runs()
        self.run(name, (self.versions[name] + 1) % 3, ALL)
        self.export()

    @precondition(lambda self: self.here)
    @rule(at=st.integers(1, 8))
    def export_two_at_once(self, at):
        """The second is turned away, whatever the first is about to move, and the first comes to its end."""
        rename, kept, moved = Path.rename, paths.kept, []

        def renamed(path, name):
            moved.append(path)
            if len(moved) == at:
                with pytest.raises(DmlrcError, match="another process exports"):
                    records.export_records(STUDY.name, complete=False)
            return rename(path, name)

        with self.patch.context() as patch:
            patch.setattr(Path, "rename", renamed)
            patch.setattr(paths, "kept", lambda file, refusal, wait=0: kept(file, refusal))
            self.export()

    @precondition(lambda self: self.here and self.committed)
    @rule()
    def kill_an_export(self):
        """When the old records are aside, and the new ones not yet in their place."""
        target, rename = paths.results() / STUDY.name, Path.rename

        def renamed(path, name):
            if Path(name).parent == target and Path(name).name != paths.BEFORE:
                raise Killed
            return rename(path, name)

        recover = iter((records.committed._recover, lambda _: None))  # it begins by putting right what another one left
        with self.patch.context() as patch:
            patch.setattr(Path, "rename", renamed)
            patch.setattr(records.committed, "_recover", lambda folder: next(recover)(folder))
            with pytest.raises(Killed):
                records.export_records(STUDY.name, complete=False)

    @precondition(lambda self: self.here)
    @rule(data=st.data(), damaged=st.booleans())
    def take_a_record_away(self, data, damaged):
        """A damaged one is named, and once it is away all is well."""
        key = data.draw(st.sampled_from(sorted(self.here)))
        if damaged:
            told = json.loads(self.file(key).read_text())
            self.file(key).write_text(json.dumps(told | {"seconds": told["seconds"] + 1}))
            with pytest.raises(DmlrcError, match=self.file(key).name):
                records.load(STUDY.name)
        self.file(key).unlink()
        del self.here[key]

    @rule()
    def clear_the_runs(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.here = {}

    @invariant()
    def all_of_it_is_there_and_nothing_else(self):
        visible = self.visible()
        found = records.find(STUDY.name)
        assert (found is None) == (not visible)
        if found is None:
            return
        trials = found.trials.set_index(["method", "trial"])["value"].to_dict()
        scores = found.scores.query("setting == 'separated' and metric == 'map_at_r'")
        scores = scores.set_index(["method", "rerun"])["value"].to_dict()
        read = {(name, "trial", number): each for (name, number), each in trials.items()}
        read |= {
            (name, PRETRAINED if name == PRETRAINED else "rerun", number): each
            for (name, number), each in scores.items()
        }
        assert read == {key: value(key, version) for key, version in visible.items()}
        assert found.meta["changes"].keys() >= {name for name, *_ in visible} - {PRETRAINED}
        for params in [*found.trials["params"], *found.reruns["params"]]:
            params["spoiled"] = 1.0  # what was handed out is the caller's: the next reader has it as it was
        found.meta.clear()

    @invariant()
    def what_is_left_to_do_is_what_is_missing(self):
        todo = plan.Plan(STUDY, self.methods(*NAMES))
        done = {(unit["method"], unit["kind"], unit["number"]) for chain in todo.chains for unit in todo.done(chain)}
        missing = {key for name in NAMES for key in self.asked(name)}
        assert not done & missing
        assert len(done | missing) == 7


Records.TestCase.settings = settings(max_examples=10, stateful_step_count=10)
TestRecords = Records.TestCase
