"""A study from images to records: resumed runs, the test half, damaged and foreign records."""

import contextlib
import io
import json
import math
import multiprocessing
import os
import shutil
import signal
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from cases import in_a_cell
from factories import fake_runs, made_up_unit, unit, without_checksum, write_fake_study
from PIL import Image
from threadpoolctl import threadpool_info
from tqdm import tqdm

from dmlrc import data, errors, executors, paths, plan, preflight, records, run, studies, training
from dmlrc import unit as units
from dmlrc.errors import DmlrcError, MissingDataError, UsageError
from dmlrc.inputs import prepare
from dmlrc.methods import Float, Method
from dmlrc.models.settings import settled
from dmlrc.papers import musgrave2020
from dmlrc.protocol import SMOKE, Budget, Study
from dmlrc.unit import Unit, run_seed, run_unit

PICKED = tuple(method for method in musgrave2020.METHODS if method.name in ("contrastive", "arcface"))
FORK = multiprocessing.get_context("fork")  # another process, without the seconds in which one begins


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """A data set of one's own: 32 classes of 4 images, a noisy bar at an angle each, 8 px."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    y, x = np.mgrid[-1:1:8j, -1:1:8j]
    for number, angle in enumerate(np.linspace(0, np.pi, 32, endpoint=False)):
        (folder / f"class{number:02d}").mkdir()
        for copy in range(4):
            bar = np.exp(-40 * (x * np.sin(angle) - y * np.cos(angle) + 0.1 * rng.normal()) ** 2)
            noisy = np.clip(255 * bar + 20 * rng.normal(size=bar.shape), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(folder / f"class{number:02d}" / f"{copy}.png")
    return folder


@pytest.fixture(scope="session")
def tiny(pictures):
    protocol = replace(musgrave2020.CHARACTERS, image_size=8, crop_size=8, folds=2)
    return Study("tiny", f"folder:{pictures}", protocol, replace(SMOKE, iterations_per_epoch=2), methods=PICKED)


VOLATILE = ["seconds", "commit", "created", "finished"]


def facts(name="tiny"):
    """The records of a study without what differs between two equal runs: times."""
    found = records.load(name)
    return [getattr(found, frame).drop(columns=VOLATILE, errors="ignore") for frame in records.FRAMES]


def same(left, right):
    for pair in zip(left, right, strict=True):
        keys = [column for column in pair[0].columns if column not in ("params", "value")]
        one, other = (frame.sort_values(keys, ignore_index=True) for frame in pair)
        pd.testing.assert_frame_equal(one, other, check_exact=True)


@pytest.fixture(scope="session")
def first_home(tmp_path_factory):
    """Where `finished` has its records."""
    return tmp_path_factory.mktemp("finished")


@pytest.fixture(autouse=True)
def _one_cache(first_home, monkeypatch):
    """The pictures are decoded once, not for every test that runs a study."""
    monkeypatch.setenv("DMLRC_CACHE", str(first_home / "cache"))


@pytest.fixture(scope="session")
def finished(first_home, tiny):
    """The tiny study, run once without a break."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLRC_HOME", str(first_home))
        patch.setenv("DMLRC_CACHE", str(first_home / "cache"))
        patch.setenv("DMLRC_DEVICE", "cpu")
        run.run(tiny)
        return facts(), records.load("tiny")


@pytest.fixture
def whole(finished, first_home, home):
    """The tiny study has been run here."""
    shutil.copytree(first_home / "runs", home / "runs", copy_function=shutil.copyfile)


@pytest.fixture
def contrastive(whole, home):
    """Of the tiny study, the first method alone has been run here."""
    shutil.rmtree(home / "runs" / "tiny" / "arcface")


@pytest.fixture
def made_up(monkeypatch):
    """Units are made up: nothing trains where no number of it is looked at."""
    monkeypatch.setattr(run, "run_unit", made_up_unit)


def test_a_study_leaves_every_record(tiny, finished):
    _, found = finished
    budget = tiny.budget
    assert found.trials.groupby("method").size().to_dict() == {"contrastive": budget.trials, "arcface": budget.trials}
    runs = found.runs.groupby(["method", "kind"]).size()
    assert runs["contrastive", "trial"] == 2 * budget.trials
    assert runs["arcface", "rerun"] == 2 * budget.reruns
    settings = {"separated", "concatenated", "fold0", "fold1"}
    reruns = found.scores[found.scores["method"] == "contrastive"]
    assert set(reruns["setting"]) == settings
    assert set(reruns["rerun"]) == set(range(budget.reruns))
    assert set(found.scores[found.scores["method"] == "pretrained"]["setting"]) == {"separated", "concatenated"}
    assert found.scores["value"].between(0, 1).all()
    assert found.meta["data"]["images"] == 32 * 4
    assert found.meta["environment"]["packages"]["torch"] == torch.__version__.split("+")[0]


def test_separated_is_the_mean_over_the_folds_models(finished):
    scores = finished[1].scores.query("method == 'arcface' and rerun == 0 and metric == 'map_at_r'")
    by_setting = scores.set_index("setting")["value"]
    assert by_setting["separated"] == pytest.approx(by_setting[["fold0", "fold1"]].mean())


def test_the_value_of_a_trial_is_the_mean_over_the_folds(finished):
    _, found = finished
    trial = found.trials.query("method == 'contrastive' and trial == 1").iloc[0]
    folds = found.runs.query("method == 'contrastive' and kind == 'trial' and number == 1")
    assert trial["value"] == pytest.approx(folds["val_map_at_r"].mean())


class Killed(BaseException):
    pass


def run_until_killed(tiny, units, monkeypatch):
    """Run the study, and break it off after so many units."""
    real, done = run_unit, []

    def limited(unit):
        if len(done) == units:
            raise Killed
        done.append(unit)
        return real(unit)

    with monkeypatch.context() as patch:
        patch.setattr(run, "run_unit", limited)
        with pytest.raises(Killed):
            run.run(tiny)


def test_a_study_killed_after_any_unit_and_resumed_equals_one_that_was_not(tiny, finished, monkeypatch):
    alone = replace(tiny, methods=PICKED[:1])
    for limit in range(3):  # before the first unit, after the first trial, and before the last rerun
        run_until_killed(alone, limit, monkeypatch)
    run.run(alone)
    same(facts(), [frame.query("method != 'arcface'") for frame in finished[0]])


def _stuck_after_three(study):
    """Run the study, whose fourth unit does not end."""
    done = []

    def stuck(unit):
        done.append(unit)
        return made_up_unit(unit) if len(done) <= 3 else time.sleep(1000)

    run.run_unit = stuck
    run.run(study)


def test_a_study_whose_process_is_killed_loses_no_finished_unit(tiny, made_up):
    process = FORK.Process(target=_stuck_after_three, args=[tiny], daemon=True)
    process.start()
    folder = paths.runs() / "tiny"
    while len(list(folder.glob("*/*-0*.json"))) < 3 and process.is_alive():
        time.sleep(0.02)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL  # it had not ended by itself
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("*/*.json")}
    assert len(kept) == 3 < tiny.units
    run.run(tiny)
    assert all(path.stat().st_mtime_ns == written for path, written in kept.items())
    resumed = facts()
    shutil.rmtree(paths.runs())
    run.run(tiny)
    same(facts(), resumed)


def test_two_processes_give_the_records_of_one(tiny, made_up):
    """As the jobs of an array on a shared folder: one a method, each with the pretrained trunk too."""
    run.run(tiny)
    of_one = facts()
    shutil.rmtree(paths.runs())
    jobs = [FORK.Process(target=run.run, args=(tiny, [method]), daemon=True) for method in PICKED]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert [job.exitcode for job in jobs] == [0, 0]
    same(facts(), of_one)
    assert not records.problems("tiny")


def _hold(method, begun, ended):
    with records.running("tiny", [method]) as refusal:
        assert refusal is None
        begun.set()
        ended.wait()


def test_a_method_that_another_process_runs_is_refused(tiny):
    begun, ended = FORK.Event(), FORK.Event()
    other = FORK.Process(target=_hold, args=("arcface", begun, ended), daemon=True)
    other.start()
    begun.wait()
    with pytest.raises(DmlrcError, match="another process runs arcface of study 'tiny'"):
        run.run(tiny)
    ended.set()
    other.join()
    assert other.exitcode == 0
    assert not (paths.runs() / "tiny").exists()


def test_what_another_process_ends_before_this_one_locks_it_is_not_made_again(
    tiny, finished, first_home, home, monkeypatch
):
    real = records.running

    @contextlib.contextmanager
    def running(*of):
        shutil.copytree(first_home / "runs" / "tiny", home / "runs" / "tiny", copy_function=shutil.copyfile)
        with real(*of) as refusal:
            yield refusal

    monkeypatch.setattr(run.records, "running", running)
    monkeypatch.setattr(run, "run_unit", lambda unit: pytest.fail(f"{unit} was made again"))
    run.run(tiny)
    same(facts(), finished[0])


def test_the_first_record_is_there_when_another_process_may_write_meta_json(tiny, made_up, monkeypatch):
    """It would take a meta.json without records for that of a run that came to nothing, and write its own over it."""
    begun, real = [], records.writing_meta

    @contextlib.contextmanager
    def writing_meta(study):
        with real(study) as path:
            yield path
        begun.append(records.is_begun(study))

    monkeypatch.setattr(run.records, "writing_meta", writing_meta)
    run.run(tiny, methods=[cell(changes={"lr": 0.5})])
    assert begun == [True]


def test_the_trunk_that_two_processes_scored_is_kept_once(tiny, whole, home):
    folder = home / "runs" / "tiny" / "pretrained"
    [file] = folder.iterdir()
    run._write("tiny", without_checksum(file))
    assert list(folder.iterdir()) == [file]


def test_a_loss_that_ends_the_process_is_no_success(tiny):
    ends = cell(LOSS.replace("return -pull", "raise SystemExit(0)\n    return -pull"))
    with pytest.raises(errors.LossError, match=r"fails on a batch of .*: SystemExit: 0"):
        run.run(tiny, methods=[ends])


class Mortal(Executor):
    """Runs units in this process, but of "deadly" so many die; `test_executors.py` has workers that are killed."""

    def __init__(self, deaths):
        self.deaths = deaths

    def slots(self):
        return 2

    def submit(self, fn, unit):
        future = Future()
        if unit.method and unit.method.name == "deadly" and self.deaths.get((unit.kind, unit.number)):
            self.deaths[unit.kind, unit.number] -= 1
            future.set_exception(BrokenProcessPool())
        else:
            future.set_result(fn(unit))
        return future


def test_a_unit_whose_worker_dies_is_tried_again_thrice_and_the_others_go_on(tiny, made_up, capsys, monkeypatch):
    """The first trial of the deadly loss kills each of three workers, the second one more, and is tried again."""
    deadly = replace(cell(), name="deadly")
    mortal = Mortal({("trial", 0): 3, ("trial", 1): 1})
    monkeypatch.setattr(run, "pool", lambda workers: mortal)
    run.run(tiny, methods=[deadly, PICKED[0]], workers=2)
    found = records.load("tiny")
    trials = found.trials.query("method == 'deadly'").set_index("trial")
    assert trials["state"].to_dict() == {0: "failed", 1: "complete"}
    assert "each of 3 workers" in trials["reason"][0]
    assert "deadly trial 1 died (1 of 3 times)" in capsys.readouterr().err
    beside_one_that_dies = [frame.query("method == 'contrastive'") for frame in facts()]
    alone = replace(tiny, methods=(deadly,))
    assert plan.progress(alone) == (4, 5)  # the next call tries it again
    run.export(alone)
    assert records.read_json(paths.results() / "tiny" / "meta.json")["complete"] is False
    shutil.rmtree(paths.results())
    run.run(tiny, methods=[deadly])  # what killed them is over
    assert set(records.load("tiny").trials["state"]) == {"complete"}
    [kept] = (paths.runs() / "tiny" / "deadly").glob("replaced-*/0-trial-000.json")
    assert json.loads(kept.read_text())["state"] == "failed"
    shutil.rmtree(paths.runs())
    run.run(tiny, methods=PICKED[:1])
    same([frame.query("method == 'contrastive'") for frame in facts()], beside_one_that_dies)


class Broken(Executor):
    """Runs one task, and is broken then, as a pool of the standard library whose process died."""

    def __init__(self):
        self.done = 0

    def submit(self, fn, /, *args, **kwargs):
        self.done += 1
        if self.done > 1:
            raise BrokenProcessPool
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_an_executor_that_is_broken_is_one_sentence_and_loses_nothing(tiny, made_up):
    with pytest.raises(DmlrcError, match=r"the executor's processes are gone.*finished records are kept"):
        run.run(tiny, executor=Broken(), workers=1)
    [first] = (paths.runs() / "tiny").glob("*/*.json")
    written = first.read_bytes()
    run.run(tiny)
    assert first.read_bytes() == written
    assert plan.progress(tiny) == (tiny.units, tiny.units)
    resumed = facts()
    shutil.rmtree(paths.runs())
    run.run(tiny)
    same(facts(), resumed)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("raise ValueError('no root')", "the loss of method 'mine' fails, line"),
        ("self.forward = lambda embeddings, labels: embeddings.detach().sum()", "that no gradient goes through"),
    ],
)
def test_a_loss_that_cannot_be_made_or_trained_with_some_hyperparameters_fails_in_those_trials_alone(tiny, fault, says):
    second = plan.next_units(tiny, plan.Chain(cell()), proposals=2)[1].params["margin"]
    source = f"""
import torch

class loss(torch.nn.Module):
    def __init__(self, margin):
        super().__init__()
        if abs(margin - {second}) < 1e-9:
            {fault}

    def forward(self, embeddings, labels):
        return -(embeddings @ embeddings.T).mean()
"""
    run.run(once(tiny), methods=[cell(source)], proposals=2)
    trials = records.load("tiny").trials.set_index("trial")
    assert trials["state"].to_dict() == {0: "complete", 1: "failed"}
    assert says in trials["reason"][1]


def test_a_loss_that_fails_with_some_hyperparameters_is_recorded_and_the_search_goes_on(tiny, capsys):
    second = plan.next_units(tiny, plan.Chain(cell()), proposals=2)[1].params["margin"]
    fails = "    if abs(margin - {}) < 1e-9:\n        raise ValueError('no root')\n    return -pull"
    mine = cell(LOSS.replace("    return -pull", fails.format(second)))
    run.run(tiny, methods=[mine], proposals=2)
    trials = records.load("tiny").trials.set_index("trial")
    assert trials["state"].to_dict() == {0: "complete", 1: "failed"}
    assert "the loss of method 'mine' fails on a batch" in trials["reason"][1]
    assert "mine trial 1 failed: the loss of method 'mine' fails" in capsys.readouterr().err
    run.run(tiny, methods=[mine], proposals=2)  # it would fail again
    assert plan.progress(replace(tiny, methods=(mine,))) == (5, 5)
    assert records.load("tiny").trials.set_index("trial")["finished"].equals(trials["finished"])
    assert not list((paths.runs() / "tiny").rglob("replaced-*"))
    run.export(replace(tiny, methods=(mine,)))
    assert records.read_json(paths.results() / "tiny" / "meta.json")["complete"] is True
    always = cell(LOSS.replace("return -pull", "raise ValueError('no root')\n    return -pull"))
    with pytest.raises(UsageError, match="no root"):  # the first trial of a search, where it may always fail
        run.run(tiny, methods=[replace(always, name="always")])


def test_a_method_that_takes_its_changes_back_is_run_again_without_them(tiny):
    short = once(tiny, trials=1)
    run.run(short, methods=[cell(changes={"members": 2})])
    assert (records.load("tiny").runs.groupby(["kind", "number"]).size() == 4).all()
    run.run(short, methods=[cell()])
    assert (records.load("tiny").runs.groupby(["kind", "number"]).size() == 2).all()


def test_changes_that_are_lists_are_those_of_a_protocol(tiny):
    protocol = tiny.protocol_of(cell(changes={"lr_steps": [5]}))
    assert hash(protocol) == hash(tiny.protocol_of(cell(changes={"lr_steps": (5,)})))


def test_a_published_study_whose_method_has_changed_is_not_whole(tiny, whole):
    run.export(tiny)
    shutil.rmtree(paths.runs() / "tiny")
    done, total = plan.progress(tiny)
    assert done == total
    wider = replace(PICKED[0], space=PICKED[0].space | {"pos_margin": Float(0, 9)})
    assert plan.progress(replace(tiny, methods=(wider, *PICKED[1:])))[0] == total - 4


def test_images_that_change_during_a_run_end_it(tiny):
    (unit,) = plan.next_units(tiny, plan.Chain(PICKED[0]))
    with pytest.raises(DmlrcError, match=r"the images of .* have changed since study 'tiny' was begun"):
        run_unit(replace(unit, contents="of other images"))


def test_records_are_set_aside_only_when_they_can_be_made_again(tiny, monkeypatch):
    monkeypatch.setattr(run, "run_unit", made_up_unit)
    run.run(tiny, methods=[cell()])
    before = facts()

    def away(*_):
        raise MissingDataError("the disk is not plugged in")

    with monkeypatch.context() as patch:
        patch.setattr(preflight, "load_images", away)
        with pytest.raises(MissingDataError):
            run.run(tiny, methods=[cell(LOSS.replace("-pull", "pull"))])
    same(facts(), before)


def test_a_rerun_with_a_result_is_not_replaced_by_one_without(tiny, monkeypatch):
    """As where it is made again for its model, and its worker dies."""
    monkeypatch.setattr(run, "run_unit", made_up_unit)
    run.run(tiny)
    before = facts()
    died = {"state": "failed", "reason": "its worker died", "scores": {}, "runs": []}
    monkeypatch.setattr(run, "run_unit", lambda unit: made_up_unit(unit) | died)
    run.run(tiny, save_models=True)
    same(facts(), before)
    todo = plan.Plan(tiny, models=True)
    rerun = next(unit for unit in todo.ended if unit["kind"] == "rerun")
    assert todo.has_result_of(rerun | died)
    assert not todo.has_result_of(rerun | died | {"params": {"pos_margin": 7.0}})
    assert not todo.has_result_of(rerun | died | {"number": 99})


def test_an_export_that_fails_leaves_the_one_before(tiny, contrastive, finished, first_home, home, monkeypatch):
    run.export(tiny)
    before = {path.name: path.read_bytes() for path in (paths.results() / "tiny").iterdir()}
    shutil.copytree(*(each / "runs" / "tiny" / "arcface" for each in (first_home, home)))

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(records.committed, "_write_parquet", full)
        with pytest.raises(DmlrcError, match=r"cannot write .*tiny .No space left.*make room on the disk, and export"):
            run.export(tiny)
    assert {path.name: path.read_bytes() for path in (paths.results() / "tiny").iterdir()} == before
    assert [path.name for path in paths.results().iterdir() if path.suffix != ".lock"] == ["tiny"]
    kind, renamed = type(paths.results()), []
    rename = kind.rename

    def stopped(self, target):
        renamed.append(self)
        if len(renamed) == 2:  # the old records are out of the way, the new ones not yet there
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "rename", stopped)
        with pytest.raises(KeyboardInterrupt):
            run.export(tiny)
    assert {path.name: path.read_bytes() for path in (paths.results() / "tiny").iterdir()} == before
    assert [path.name for path in paths.results().iterdir() if path.suffix != ".lock"] == ["tiny"]
    run.export(tiny)
    same(facts(), finished[0])


def test_several_trials_of_a_search_at_a_time(tiny, home, monkeypatch):
    more = replace(
        tiny, methods=PICKED[:1], budget=Budget("more", trials=12, reruns=3, max_epochs=1, iterations_per_epoch=3)
    )
    chain = plan.Chain(more.methods[0])

    def finish(done, units):  # values that tell the trials apart, and no training
        return [
            *done,
            *(
                {"method": "contrastive", "repetition": 0, "kind": each.kind, "number": each.number}
                | {"params": each.params, "state": "complete", "value": each.params["pos_margin"] / 10}
                for each in units
            ),
        ]

    done, sizes = [], []
    while batch := plan.next_units(more, chain, done, 5):
        sizes.append([(each.kind, each.number) for each in batch])
        # whatever ends first, a trial that is missing is proposed again as it was
        for lost in range(len(batch)):
            others = finish(done, batch[:lost] + batch[lost + 1 :])
            assert plan.next_units(more, chain, others, 5) == [batch[lost]]
        done = finish(done, batch)
    trials = [("trial", number) for number in range(12)]
    reruns = [("rerun", number) for number in range(3)]
    assert sizes == [trials[:5], trials[5:10], trials[10:], reruns]
    assert len({str(each["params"]) for each in done if each["kind"] == "trial"}) == 12


def test_all_missing_reruns_are_handed_out_whatever_the_number_of_proposals(tiny):
    fixed = replace(tiny, budget=Budget("mine", trials=0, reruns=3))
    method = Method("fixed", "contrastive", settings={"pos_margin": 0.0, "neg_margin": 0.5})
    units = plan.next_units(fixed, plan.Chain(method))
    assert [(unit.kind, unit.number) for unit in units] == [("rerun", number) for number in range(3)]


class Forked(ProcessPoolExecutor):
    """Workers of which none takes the seconds in which a process begins; tasks go to them by value too."""

    def __init__(self):
        super().__init__(2, mp_context=FORK)

    def submit(self, fn, /, *args, **kwargs):
        return super().submit(executors.call, executors.by_value((fn, args, kwargs)))


@pytest.mark.parametrize("many", [Forked, pytest.param(partial(executors.pool, 2), marks=pytest.mark.weekly)])
def test_trials_at_a_time_are_the_same_in_one_process_and_in_several(tiny, many):
    """A worker cannot import the loss of a cell, whose module is __main__."""
    tiny, methods = once(tiny), [PICKED[1], cell()]
    run.run(tiny, methods, proposals=2)
    one = facts()
    assert set(records.load("tiny").trials["proposals"]) == {2}
    shutil.rmtree(paths.runs())
    with many() as executor:
        run.run(tiny, methods, executor, workers=2, proposals=2)
    same(facts(), one)
    assert set(records.load("tiny").runs["method"]) == {"arcface", "mine"}


def test_a_finished_study_does_no_work(tiny, contrastive, monkeypatch):
    monkeypatch.setattr(run, "run_unit", lambda unit: pytest.fail("nothing was missing"))
    run.run(tiny, methods=PICKED[:1])


def test_trials_never_see_the_test_half(tiny, monkeypatch):
    bench = prepare(tiny.dataset, tiny.effective_protocol, "default", 0, data.contents(tiny.dataset))
    test = set(bench.splits.test.tolist())
    seen = []
    for name in ("train", "evaluate"):
        real = getattr(bench.source, name)
        monkeypatch.setattr(
            bench.source, name, lambda i, *rest, real=real: (seen.extend(np.ravel(i).tolist()), real(i, *rest))[1]
        )
    (unit,) = plan.next_units(tiny, plan.Chain(PICKED[0]))
    run_unit(unit)
    assert seen
    assert not test & set(seen)
    rerun = replace(unit, kind="rerun")
    run_unit(rerun)
    assert test <= set(seen)  # the reruns do read it: the check above can fail


def _settings():
    """What a unit sets in its process, as it is now."""
    return {
        "threads": torch.get_num_threads(),
        "threads of NumPy": {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"},
        "smallest": (torch.tensor(torch.finfo(torch.float32).tiny) / 2).item(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warns only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "filled": torch.utils.deterministic.fill_uninitialized_memory,
        "precision": torch.backends.cudnn.conv.fp32_precision,
        "workspace": os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
    }


def test_a_unit_leaves_its_process_as_it_was(tiny, monkeypatch):
    within, real = [], training.train
    monkeypatch.setattr(training, "train", lambda *given: within.append(_settings()) or real(*given))
    torch.set_num_threads(2)
    before = _settings()
    assert before["smallest"] > 0
    run_unit(plan.next_units(tiny, plan.Chain(PICKED[0]))[0])
    assert (within[0]["threads"], within[0]["threads of NumPy"], within[0]["smallest"]) == (1, {1}, 0)
    assert _settings() == before


@pytest.mark.parametrize("workspace", [None, ":16:8"])
def test_what_makes_a_gpu_repeat_itself_is_put_back(monkeypatch, workspace):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    if workspace:
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", workspace)
    before = _settings()
    with contextlib.suppress(DmlrcError), settled(torch.device("cuda"), "float32"):
        within = _settings()
        raise DmlrcError("a unit that fails")
    assert (within["deterministic"], within["precision"], within["workspace"]) == (True, "ieee", workspace or ":4096:8")
    assert _settings() == before


class Unending(Executor):
    """Runs units in this process, but those of the method "slow" never end."""

    def slots(self):
        return 2

    def submit(self, fn, unit):
        future = Future()
        if unit.method is None or unit.method.name != "slow":
            future.set_result(fn(unit))
        return future

    def __exit__(self, kind, *error):
        self.is_left_by_an_error = kind is not None


def test_a_run_stops_by_itself_when_its_time_is_up_and_keeps_what_ended(tiny, monkeypatch):
    run.run(tiny, seconds=0)
    assert not records.is_begun("tiny")
    left, write, pool = [math.inf], records.write_unit, Unending()
    monkeypatch.setattr(run, "pool", lambda workers: pool)
    monkeypatch.setattr(run.Dispatch, "left", property(lambda dispatch: left[0]))
    # the time is up when the first record is there
    monkeypatch.setattr(records, "write_unit", lambda *args: (write(*args), left.__setitem__(0, 0.0)))
    timed = replace(tiny, name="timed", methods=(Method("fast", "triplet"), Method("slow", "triplet")))
    run.run(timed, workers=2)
    assert pool.is_left_by_an_error  # it does not wait for what is under way then
    assert [unit["method"] for unit in records.finished_units("timed", timed.configuration())] == ["fast"]


def test_no_unit_is_begun_that_would_not_end_in_time(tiny, home, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(run.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(run, "run_unit", lambda unit: clock.__setitem__(0, clock[0] + 10) or made_up_unit(unit))
    run.run(tiny, seconds=35)  # after three units 5 seconds are left
    assert plan.progress(tiny)[0] == 3
    run.run(tiny)
    assert plan.progress(tiny)[0] == plan.progress(tiny)[1]


@pytest.mark.parametrize(("precision", "convolutions"), [("float32", "ieee"), ("tf32", "tf32"), ("bfloat16", "ieee")])
def test_the_precision_of_a_gpu_is_that_of_the_protocol(precision, convolutions):
    with settled(torch.device("cuda"), precision):
        assert _settings()["precision"] == convolutions


def test_a_cpu_knows_float32_alone():
    refused = pytest.raises(UsageError, match="'bfloat16' is that of a GPU, and this runs on cpu: take float32")
    with refused, settled(torch.device("cpu"), "bfloat16"):
        pass


def test_export_keeps_every_fact_and_a_new_method_joins_the_committed_ones(tiny, whole, made_up, home):
    before = facts()
    run.export(tiny)
    (paths.runs() / "tiny").rename(home / "elsewhere")
    same(facts(), before)
    run.run(tiny)  # nothing is missing, so nothing is begun
    assert not (paths.runs() / "tiny").exists()
    run.run(tiny, methods=[cell()])
    assert set(records.load("tiny").trials["method"]) == {"contrastive", "arcface", "mine"}


def test_a_study_goes_on_from_half_of_its_records_committed(tiny, contrastive, finished, home):
    run.export(tiny)
    assert records.read_json(paths.results() / "tiny" / "meta.json")["complete"] is False
    (paths.runs() / "tiny").rename(home / "lost")
    run.run(tiny)
    same(facts(), finished[0])
    run.export(tiny)
    assert records.read_json(paths.results() / "tiny" / "meta.json")["complete"] is True


def test_records_of_another_configuration_are_not_mixed(tiny, contrastive):
    changed = replace(tiny, protocol=replace(tiny.protocol, lr=0.5))
    with pytest.raises(DmlrcError, match=r"protocol.lr .* -> 0.5.*move .*runs.* away, or give the study another name"):
        run.run(changed)
    run.export(tiny)
    shutil.rmtree(paths.runs())
    with pytest.raises(DmlrcError, match=r"\): give the study another name$"):  # committed records stay where they are
        run.run(changed)


def test_records_of_other_photographs_are_not_mixed(tiny, made_up, pictures, tmp_path):
    own = replace(tiny, dataset=f"folder:{shutil.copytree(pictures, tmp_path / 'pictures')}", methods=PICKED[:1])
    run.run(own)
    before = prepare(own.dataset, own.effective_protocol, "default", 0, data.contents(own.dataset))
    image = tmp_path / "pictures" / "class07" / "0.png"
    shutil.copy(tmp_path / "pictures" / "class08" / "0.png", image)
    again = replace(own)  # as it is looked up again
    with pytest.raises(DmlrcError, match=r"the images of .* are not those .*128 images of 32 classes then"):
        run.run(again)
    after = prepare(own.dataset, own.effective_protocol, "default", 0, data.contents(own.dataset))
    assert not np.array_equal(before.source.evaluate(np.array([4 * 7])), after.source.evaluate(np.array([4 * 7])))
    shutil.copy(pictures / "class07" / "0.png", image)
    assert plan.progress(replace(own)) == (5, 5)
    (tmp_path / "pictures").rename(tmp_path / "away")  # a disk that is not plugged in: the records stay
    assert plan.progress(replace(own)) == (5, 5)


def test_a_run_that_fails_before_its_first_unit_leaves_nothing(tiny, monkeypatch):
    with pytest.raises(UsageError, match="must return a scalar"):
        run.run(tiny, methods=[cell(LOSS.replace("return -pull", "return None and -pull"))])
    assert not (paths.runs() / "tiny" / "meta.json").exists()
    records.write_json(paths.runs() / "tiny" / "meta.json", tiny.configuration())  # as earlier versions left it
    changed = replace(tiny, protocol=replace(tiny.protocol, lr=0.5), methods=PICKED[:1])
    monkeypatch.setattr(run, "run_unit", made_up_unit)
    run.run(changed)
    assert records.load("tiny").meta["protocol"]["lr"] == 0.5


def test_rows_without_class_weights_are_left_out_where_a_part_of_the_classes_trains(tiny, made_up, capsys):
    partial = replace(tiny, protocol=replace(tiny.protocol, class_share=0.5))
    methods = [studies.get("grocery-quick").method(name) for name in ("soft_triple", "normalized_softmax")]
    assert preflight.too_small(partial, methods).keys() == {"soft_triple"}
    run.run(replace(partial, methods=methods))
    assert "tiny: soft_triple is left out, SoftTriple has no class weights W" in capsys.readouterr().err


def test_rows_that_the_data_is_too_small_for_are_left_out_and_named_before_the_first_unit(tiny, capsys, monkeypatch):
    large = replace(PICKED[0], name="large", classes_per_batch=63, images_per_class=1)
    ran = []
    monkeypatch.setattr(run, "run_unit", lambda unit: ran.append(unit.method) or made_up_unit(unit))
    run.run(replace(tiny, methods=(large, PICKED[0])))
    said = capsys.readouterr().err
    assert "tiny: large is left out, a batch of 63 different classes cannot be drawn from 8" in said
    found = records.load("tiny")
    assert set(found.runs["method"]) == {"contrastive"}
    assert large not in ran
    with pytest.raises(UsageError, match=r"large does not fit study .* on data set"):
        run.run(tiny, methods=[large, PICKED[1]])
    for changes, says in (
        ({"trunk": "resnet17"}, "unknown trunk 'resnet17'"),
        ({"weights": "x.pth"}, "at x.pth: give"),
    ):
        with pytest.raises(UsageError, match=says):
            run.run(tiny, methods=[replace(PICKED[0], name="other", changes=changes)])
    assert set(records.load("tiny").runs["method"]) == {"contrastive"}


def test_a_damaged_record_is_named(tiny, contrastive, home):
    damaged = paths.runs() / "tiny" / "contrastive" / "0-trial-000.json"
    damaged.write_text(damaged.read_text()[:50])
    with pytest.raises(DmlrcError, match=r"0-trial-000\.json is damaged. Move it away"):
        records.load("tiny")


class Ended(Executor):
    """Units have ended as soon as they are handed out, the first of them with an error."""

    def __init__(self):
        self.handed_out = 0

    def submit(self, fn, unit):
        self.handed_out, future = self.handed_out + 1, Future()
        if self.handed_out == 1:
            future.set_exception(OSError("the disk is full"))
        else:
            future.set_result(fn(unit))
        return future


def test_what_ended_well_beside_an_error_is_recorded(tiny, made_up):
    with pytest.raises(OSError, match="the disk is full"):
        run.run(tiny, executor=Ended(), workers=3)
    assert plan.progress(tiny)[0] == 2


def test_this_process_as_an_executor_writes_each_record_before_the_next_unit(tiny, home, monkeypatch):
    written = []
    monkeypatch.setattr(
        run,
        "run_unit",
        lambda asked: written.append(len([*(paths.runs() / "tiny").glob("*/*.json")])) or made_up_unit(asked),
    )
    run.run(tiny, executor=executors.Serial())
    assert written == [*range(9)]


class Gone(Executor):
    """Three tasks at once; then a process dies, which breaks all of them, as in a pool of the standard library."""

    def __init__(self):
        self.futures = []

    def submit(self, *_):
        if len(self.futures) == 3:
            raise BrokenProcessPool
        self.futures.append(Future())
        if len(self.futures) == 3:
            for future in self.futures:
                future.set_exception(BrokenProcessPool())
        return self.futures[-1]


def test_a_pool_that_is_broken_as_a_whole_is_one_death(tiny, home, capsys):
    with pytest.raises(DmlrcError, match="the executor's processes are gone"):
        run.run(tiny, executor=Gone())
    assert capsys.readouterr().err.count(" died (") == 1


def diverging(asked, until=math.inf):
    """The record of a unit; of the trials before this one, a diverged one."""
    if asked.kind != "trial" or asked.number >= until:
        return made_up_unit(asked)
    runs = fake_runs(np.random.default_rng(0), failed=True)[: asked.protocol.folds]
    return unit("-", asked.kind, asked.number, runs, asked.params, failed=True) | units._identity(asked)


def bars(monkeypatch):
    """The bars of the runs to come: where each began, where it ended, and its total."""
    made = []

    class Bar(tqdm):
        def __init__(self, **options):
            super().__init__(**options, file=io.StringIO(), disable=False)
            made.append(self)

    monkeypatch.setattr(run, "tqdm", Bar)
    return made


def test_a_search_that_is_not_whole_is_not_said_to_come_to_nothing(tiny, home, monkeypatch, capsys):
    alone = replace(tiny, methods=PICKED[:1])
    monkeypatch.setattr(run, "run_unit", partial(diverging, until=1))
    left, write = [math.inf], records.write_unit
    monkeypatch.setattr(run.Dispatch, "left", property(lambda dispatch: left[0]))
    monkeypatch.setattr(records, "write_unit", lambda *args: (write(*args), left.__setitem__(0, 0.0)))
    run.run(alone)  # its time is up after a trial, which diverged
    assert plan.progress(alone) == (1, 5)
    assert "comes to no result" not in capsys.readouterr().err


def test_the_bar_ends_where_nothing_is_left(tiny, home, monkeypatch):
    made, alone = bars(monkeypatch), replace(tiny, methods=PICKED[:1])
    monkeypatch.setattr(run, "run_unit", diverging)
    run.run(alone)
    monkeypatch.setattr(run, "run_unit", made_up_unit)
    searched = replace(alone, name="searched")
    run.run(searched)
    longer = replace(searched, budget=replace(tiny.budget, trials=6))
    run.run(longer)  # another trial is the best, so that the reruns are made again
    assert [(bar.n, bar.total) for bar in made] == [(each, each) for each in (5, 5, 9)]


def test_fewer_trials_than_are_on_record_are_refused(tiny, whole):
    """The reruns would be of the best of fewer trials than the study is said to have."""
    before, fewer = facts(), replace(tiny, budget=replace(tiny.budget, trials=tiny.budget.trials - 1))
    with pytest.raises(
        UsageError, match=r"study 'tiny' was begun with searches of 2 trials, .* now have 1: .* another name"
    ):
        run.run(fewer)
    same(facts(), before)
    run.run(replace(tiny, budget=replace(tiny.budget, reruns=1)))  # fewer reruns are of the same trial
    same(facts(), before)


def test_a_study_under_way_with_more_repetitions_is_not_exported_as_complete(home):
    """By the catalogue it has one, which is whole."""
    smoke = studies.get("glyphs-smoke")
    write_fake_study(study=smoke.name, dataset=smoke.dataset, protocol=smoke.effective_protocol, trials=2, reruns=2)
    assert json.loads((run.export(smoke) / "meta.json").read_text())["complete"]
    meta = paths.runs() / smoke.name / "meta.json"
    records.write_json(meta, without_checksum(meta) | {"repetitions": 2})
    assert not json.loads((run.export(smoke) / "meta.json").read_text())["complete"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_an_unwritable_folder_is_named(tiny, home):
    home.chmod(0o500)
    with pytest.raises(DmlrcError, match="DMLRC_RUNS"):
        run.run(tiny)


def test_a_folder_that_cannot_be_made_is_named(tiny, home):
    (home / "runs").write_text("a file where a folder should be")
    with pytest.raises(DmlrcError, match=r"cannot write .*DMLRC_RUNS"):
        run.run(tiny)


def test_a_method_whose_trials_all_diverge_is_recorded_as_such_and_its_study_can_be_whole(tiny, capsys):
    alone = replace(
        tiny, methods=(replace(cell(LOSS.replace("return -pull", "return float('nan') * pull")), name="broken"),)
    )
    run.run(alone)
    said = capsys.readouterr().err
    assert "tiny: broken comes to no result, since every trial diverged: the loss became NaN or infinite" in said
    found = records.load("tiny")
    assert set(found.trials["state"]) == {"diverged"}
    assert found.trials["value"].isna().all()
    assert "broken" not in set(found.scores["method"])
    written = json.loads((paths.runs() / "tiny" / "broken" / "0-trial-000.json").read_text())
    assert written["value"] is None
    assert "NaN" in written["reason"]
    assert plan.progress(alone) == (5, 5)
    run.export(alone)
    assert records.read_json(paths.results() / "tiny" / "meta.json")["complete"] is True


LOSS = """
STRENGTH = 1.0

def pull(embeddings, labels):
    same = labels[:, None] == labels[None]
    return STRENGTH * (embeddings @ embeddings.T)[same].mean()

def loss(embeddings, labels, margin=0.0):
    return -pull(embeddings, labels) + 0 * margin
"""


def cell(source=LOSS, **changes):
    """A method as a cell of a notebook defines it."""
    return Method("mine", in_a_cell(source), **({"space": {"margin": Float(0, 1)}} | changes))


def once(study, **budget):
    """The study with a single rerun."""
    return replace(study, budget=replace(study.budget, reruns=1, **budget))


def shown():
    found = records.load("tiny")
    scores = found.scores.query("method == 'mine' and setting == 'separated' and metric == 'map_at_r'")
    return found.trials["value"].tolist(), scores["value"].tolist()


def test_an_edited_loss_never_shows_the_numbers_of_the_one_before(tiny, capsys, monkeypatch):
    short = once(tiny)
    run.run(short, methods=[cell()])
    before = shown()
    capsys.readouterr()
    run.run(short, methods=[cell(LOSS.replace("-pull", "pull"))])
    said = capsys.readouterr().err
    assert "method 'mine' has changed" in said
    assert "the source of its loss" in said
    assert "2 trials and 1 rerun will be made again" in said
    worse = shown()
    assert set(worse[0]).isdisjoint(before[0])
    assert set(worse[1]).isdisjoint(before[1])
    monkeypatch.setattr(run, "run_unit", made_up_unit)
    run.run(short, methods=[cell(LOSS.replace("-pull", "pull"), space={"margin": Float(0, 2)})])
    assert "margin 0 to 1 -> 0 to 2" in capsys.readouterr().err
    kept = sorted((paths.runs() / "tiny" / "mine").glob("replaced-*/*.json"))
    assert len(kept) == 6  # nothing was deleted
    assert records.problems("tiny") == []


def test_a_change_of_what_the_loss_calls_is_a_change_of_the_loss(tiny, capsys, monkeypatch):
    monkeypatch.setattr(run, "run_unit", made_up_unit)
    run.run(tiny, methods=[cell()])
    monkeypatch.setattr(run, "run_unit", lambda unit: pytest.fail("nothing was missing"))
    run.run(tiny, methods=[cell("# the same, with a comment" + LOSS)])
    with pytest.raises(pytest.fail.Exception):
        run.run(tiny, methods=[cell(LOSS.replace("STRENGTH = 1.0", "STRENGTH = 3.0"))])
    assert "the source of its loss" in capsys.readouterr().err


def test_a_run_broken_off_after_an_edit_shows_nothing_of_the_loss_before(tiny, monkeypatch):
    monkeypatch.setattr(run, "run_unit", made_up_unit)
    run.run(tiny, methods=[cell()])
    with monkeypatch.context() as patch:
        patch.setattr(run, "run_unit", lambda unit: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            run.run(tiny, methods=[cell(LOSS.replace("-pull", "pull"))])
    assert "mine" not in set(records.load("tiny").scores["method"])


def test_committed_records_of_an_edited_loss_are_not_shown(tiny, home):
    run.run(tiny, methods=[cell()])
    before = shown()
    run.export(tiny)
    (paths.runs() / "tiny").rename(home / "elsewhere")
    run.run(tiny, methods=[cell()])
    assert shown() == before
    assert not (paths.runs() / "tiny").exists()
    run.run(once(tiny), methods=[cell(LOSS.replace("-pull", "pull"))])
    assert len(shown()[1]) == 1  # the second rerun of the committed ones is of the loss before
    assert set(shown()[1]).isdisjoint(before[1])


@pytest.mark.parametrize("committed", [False, True])
def test_the_settings_that_a_study_tells_are_those_of_its_records(tiny, home, committed, monkeypatch):
    """Where a method is given others, it is run again; the rest of the study stands as it was."""
    monkeypatch.setattr(run, "run_unit", made_up_unit)
    first, *others = tiny.methods
    before = replace(tiny, methods=(replace(first, settings={"neg_margin": 0.5}, space={}), *others))
    after = replace(tiny, methods=(replace(first, settings={"neg_margin": 1.0}, space={}), *others))
    run.run(before)
    if committed:
        run.export(before)
        (paths.runs() / "tiny").rename(home / "elsewhere")
    run.run(after, methods=after.methods[:1])
    found = records.load("tiny")
    assert found.meta["settings"] == {each.name: dict(each.settings) for each in after.methods}
    fingerprints = found.trials.query("method == @first.name")["fingerprint"]
    assert {json.loads(each)["settings"]["neg_margin"] for each in fingerprints} == {1.0}


def test_records_without_a_fingerprint_are_those_of_the_librarys_losses_alone(tiny, monkeypatch, capsys):
    monkeypatch.setattr(run, "run_unit", made_up_unit)
    run.run(tiny, methods=[PICKED[0], cell()])
    for path in (paths.runs() / "tiny").glob("*/*.json"):
        told = without_checksum(path)
        told.pop("fingerprint")
        records.write_sealed(path, told)
    monkeypatch.setattr(run, "run_unit", lambda unit: pytest.fail("nothing was missing"))
    run.run(tiny, methods=[PICKED[0]])
    with pytest.raises(pytest.fail.Exception):
        run.run(tiny, methods=[cell()])
    assert "was not written down" in capsys.readouterr().err


def test_a_method_with_the_name_of_another_is_refused(tiny):
    studied = replace(PICKED[0], label="The same")
    preflight.check_names(tiny, [studied])  # what is printed makes no other method of it
    for other in (
        replace(cell(), name="contrastive"),
        replace(PICKED[0], space={"pos_margin": Float(0, 9)}),
        replace(cell(), name="triplet"),  # of the papers, if not of this study
    ):
        with pytest.raises(UsageError, match="give yours another name"):
            run.run(tiny, methods=[other])
    with pytest.raises(UsageError, match="2 methods are called 'mine'"):
        run.run(tiny, methods=[cell(), cell()])
    assert not (paths.runs() / "tiny").exists()


def test_seeds_are_paired_across_methods_and_differ_otherwise(tiny):
    units = [
        Unit("tiny", "", tiny.dataset, tiny.protocol, "default", seed, method, repetition, kind, number, {})
        for seed in (0, 1)
        for repetition in (0, 1)
        for method in PICKED
        for kind in ("trial", "rerun")
        for number in (0, 1)
    ]
    seeds = {
        (u.study_seed, u.repetition, u.method.name, u.kind, u.number, f): run_seed(u, f) for u in units for f in (0, 1)
    }
    assert len(set(seeds.values())) == len(seeds) / 2
    assert seeds[0, 1, "contrastive", "rerun", 1, 0] == seeds[0, 1, "arcface", "rerun", 1, 0]


def test_unknown_names_are_errors_with_a_hint(tiny):
    with pytest.raises(UsageError, match="did you mean 'glyphs-quick'"):
        studies.get("glyph-quick")
    with pytest.raises(UsageError, match="did you mean 'contrastive'"):
        tiny.method("contrastve")
    with pytest.raises(UsageError, match="cannot be called 'pretrained'"):
        run.run(tiny, methods=[Method("pretrained", "triplet")])
    with pytest.raises(MissingDataError, match="dmlrc study run"):
        records.load("glyphs-full")


def test_a_deleted_trial_is_made_again_and_no_other_is_touched(tiny, contrastive):
    folder = paths.runs() / "tiny" / "contrastive"
    lost, kept = (folder / f"0-trial-00{number}.json" for number in (0, 1))
    before, untouched = json.loads(lost.read_text()), kept.read_bytes()
    lost.unlink()
    run.run(tiny, methods=PICKED[:1])
    assert kept.read_bytes() == untouched
    again = json.loads(lost.read_text())
    assert (again["params"], again["value"]) == (before["params"], before["value"])


def test_reruns_of_a_search_that_is_whole_need_no_optuna(tiny, contrastive, monkeypatch):
    (paths.runs() / "tiny" / "contrastive" / "0-rerun-001.json").unlink()
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    run.run(tiny, methods=PICKED[:1])
    with pytest.raises(DmlrcError, match="needs optuna"):
        run.run(tiny)


def test_a_rerun_of_another_setting_than_the_best_is_made_again(tiny, contrastive, capsys):
    path = paths.runs() / "tiny" / "contrastive" / "0-rerun-001.json"
    right = without_checksum(path)
    stale = right | {"params": {name: value / 2 for name, value in right["params"].items()}}
    records.write_sealed(path, stale)
    done, total = plan.progress(replace(tiny, methods=PICKED[:1]))
    assert done == total - 1
    run.run(tiny, methods=PICKED[:1])
    assert "rerun 1 of contrastive in the records of study 'tiny'" in capsys.readouterr().err
    assert json.loads(path.read_text())["params"] == right["params"]


def test_a_right_rerun_is_kept_while_a_trial_is_missing(tiny, contrastive):
    alone = replace(tiny, methods=PICKED[:1])
    folder = paths.runs() / "tiny" / "contrastive"
    values = {path.name: json.loads(path.read_text())["value"] for path in folder.glob("*-trial-*")}
    lost = folder / max(values, key=values.get)
    reruns = {path: path.stat().st_mtime_ns for path in folder.glob("*-rerun-*")}
    lost.unlink()
    done, total = plan.progress(alone)
    assert (done, plan.Plan(alone, PICKED[:1]).stale) == (total - 1, [])
    run.run(alone)
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*-rerun-*")} == reruns


def test_parameters_outside_the_space_are_refused(tiny, contrastive, capsys):
    path = paths.runs() / "tiny" / "contrastive" / "0-trial-000.json"
    own = without_checksum(path)
    wrong = own | {"params": own["params"] | {"neg_margin": 7.0}}
    records.write_sealed(path, wrong)
    with pytest.raises(DmlrcError, match=r"0-trial-000\.json is no record .* params\.neg_margin is 7\.0, outside"):
        records.load("tiny")
    wrong.pop("space")  # older records do not say what was searched
    for params, says in (
        (wrong["params"], r"has neg_margin = 7\.0, which is no number from"),
        ({"margin": 0.1}, r"has the parameters \['margin'\], but contrastive is searched over"),
    ):
        records.write_sealed(path, wrong | {"params": params})
        with pytest.raises(DmlrcError, match=f"trial 0 of contrastive in the records of study 'tiny', .*{says}"):
            run.run(tiny, methods=PICKED[:1])


def test_a_copy_of_records_does_not_count_as_a_sample(tiny, contrastive):
    folder = paths.runs() / "tiny"
    shutil.copytree(folder / "contrastive", folder / "contrastive.bak")
    with pytest.raises(DmlrcError, match=r"says that it is contrastive/0-rerun-000\.json"):
        records.load("tiny")


def test_records_of_another_study_or_configuration_are_refused(tiny, contrastive):
    path = paths.runs() / "tiny" / "contrastive" / "0-trial-000.json"
    own = without_checksum(path)
    records.write_sealed(path, own | {"study": "other"})
    with pytest.raises(DmlrcError, match="of study 'other'"):
        records.load("tiny")
    records.write_sealed(path, own | {"digest": "0" * 16})
    with pytest.raises(DmlrcError, match="another configuration"):
        records.load("tiny")


def test_committed_records_are_not_all_of_a_larger_study(tiny, whole):
    run.export(tiny)
    shutil.rmtree(paths.runs() / "tiny")
    finished, of = plan.progress(tiny)
    for larger in (replace(tiny, repetitions=2), replace(tiny, budget=replace(tiny.budget, reruns=3))):
        done, total = plan.progress(larger)
        assert done == finished == of < total


def test_a_repetition_is_a_search_of_its_own_on_the_same_splits(tiny, finished):
    twice = replace(once(tiny), methods=PICKED[:1], repetitions=2)
    run.run(twice)
    found = records.load("tiny")
    assert plan.progress(twice) == (7, 7)
    assert plan.progress(replace(twice, repetitions=1)) == (4, 4)
    (paths.runs() / "tiny" / "contrastive" / "0-rerun-000.json").unlink()
    run.run(replace(twice, repetitions=1))
    assert records.load("tiny").meta["repetitions"] == 2
    first, second = (found.trials[found.trials["repetition"] == number] for number in (0, 1))
    assert len(first) == len(second) == 2
    assert list(first["params"]) != list(second["params"])
    seeds = found.runs.groupby("repetition")["seed"].agg(set)
    assert not seeds[0] & seeds[1]
    committed, _ = finished
    expected = committed[0].query("method == 'contrastive'").sort_values("trial")["value"]
    assert list(first.sort_values("trial")["value"]) == pytest.approx(list(expected))


def test_the_scores_of_the_test_classes_are_recorded_where_the_protocol_asks(tiny):
    protocol = replace(tiny.protocol, per_class=True)
    asked = replace(once(tiny, trials=1), name="classes", protocol=protocol, methods=PICKED[:1])
    run.run(asked)
    found = records.load("classes")
    scores = found.scores.set_index(["method", "rerun", "setting", "metric"])["value"]
    for (rerun, setting), part in found.arrays.groupby(["rerun", "setting"]):
        named = part.set_index("name")["values"]
        assert named["classes"] == list(range(16, 32))
        queries = named["queries"]
        assert sum(queries) == 16 * queries[0] > 0
        for metric in ("map_at_r", "precision_at_1"):
            mean = np.average(named[f"class_{metric}"], weights=queries)
            assert mean == pytest.approx(scores["contrastive", rerun, setting, metric])
    assert set(found.arrays["setting"]) == {"separated", "concatenated"}


@pytest.mark.parametrize(
    "wanted", [("glyphs-smoke",), (studies.get("glyphs-smoke"), ["contrastive"]), (studies.get("glyphs-smoke"), "snr")]
)
def test_names_in_the_place_of_a_study_or_its_methods_are_refused(wanted):
    with pytest.raises(UsageError, match=r"not their names: `dmlrc.studies.get` finds a study by its name"):
        run.run(*wanted)


def test_threads_would_mix_their_random_numbers_and_are_refused(home):
    with ThreadPoolExecutor(1) as threads, pytest.raises(UsageError, match="use an executor of processes"):
        run.run(studies.get("glyphs-smoke"), executor=threads)
    assert not paths.runs().exists()
