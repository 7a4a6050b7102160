"""The benchmarks run, at sizes that say nothing: what they print and write."""

import csv
import multiprocessing
import os
import re
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
import pytest
import torch

from benchmarks import classes, evaluation, hpo, losses, networks, proposals, scaling, steps
from dmlrc import bench, studies
from dmlrc.methods import Float, Method
from dmlrc.report import many_classes


def test_each_comparison_calls_both():
    pytest.importorskip("faiss")
    called = []

    def timed(ours, peer, repeats):
        called.append((ours(), peer()))
        return 1.0, float(repeats)

    rows = dict(evaluation.rows(timed, torch.device("cpu"), sizes=((60, 6),)))
    assert [row() for row in rows.values()] == [(1.0, 7.0)] * 3
    assert [title.split(" | ")[1] for title in rows] == [
        "pytorch-metric-learning AccuracyCalculator",
        "faiss.knn alone",
        "its matrix products alone",
    ]
    ours, theirs = called[0]
    assert ours["map_at_r"] == pytest.approx(theirs["mean_average_precision_at_r"], abs=1e-6)


def test_a_step_is_timed_by_the_number_of_classes(monkeypatch):
    monkeypatch.setattr(classes, "STEPS", 1)
    monkeypatch.setattr(classes, "FOLDS", 1)
    rows = list(classes.rows((8, 12), rounds=1))
    methods = [method.name for method in studies.get("icons-scratch").methods]
    assert [(row["method"], row["classes"]) for row in rows] == [(name, count) for count in (8, 12) for name in methods]
    assert all(row["ms"] > 0 for row in rows)
    assert set(rows[0]) == set(many_classes.measured_steps().columns)


@pytest.mark.filterwarnings("ignore")  # of pytorch-metric-learning under a later NumPy and torch
def test_each_loss_is_timed_with_its_peer():
    called = []

    def timed(ours, peer, repeats, clock):
        called.append((ours(), peer()))
        return clock(), float(repeats)

    rows = dict(losses.rows(timed, torch.device("cpu"), sizes=(32,)))
    assert len(rows) == len(losses.PEERS) > 25
    for row in rows.values():
        row()
    assert len(called) == len(rows)
    titles = [title for title, _ in losses.rows(timed, torch.device("cpu"), names=["ntxent", "contrastive"])]
    assert [title.split(", ")[1].split(" x")[0] for title in titles] == ["32", "128", "256", "32", "128", "512"]


@pytest.mark.filterwarnings("ignore")  # of pytorch-metric-learning under a later NumPy and torch
def test_the_seconds_of_a_step_are_shares_of_an_epoch(monkeypatch):
    monkeypatch.setattr(steps, "STEPS", 10)
    monkeypatch.setattr(steps, "PROTOCOL", replace(steps.PROTOCOL, iterations_per_epoch=10))
    called = []

    def timed(ours, peer, repeats, clock):
        called.append((ours(), peer()))
        return 4.0, 1.0  # an epoch of 10 steps: ours of four folds, the peer's of one

    device = torch.device("cpu")
    rows = dict(steps.rows(timed, device, names=("contrastive", "normalized_softmax", "multi_similarity_miner")))
    assert [row() for row in rows.values()] == [(pytest.approx(0.1), pytest.approx(0.1))] * 6
    assert len(called) == 6
    assert len(dict(steps.rows(timed, device))) == 2 * 14  # every method of the Reality Check, with either loss


def test_a_network_is_timed_with_the_products_of_its_convolutions(monkeypatch):
    monkeypatch.setattr(networks, "BATCH", 2)
    called = []

    def timed(ours, peer, repeats, clock):
        called.append((ours(), peer()))
        return clock(), float(repeats)

    device = torch.device("cpu")
    rows = dict(networks.rows(timed, device))
    for row in rows.values():
        row()
    assert len(called) == len(rows) == 2
    # 28 x 28 pixels under 3 x 3 kernels of one channel, then each time half the side
    assert networks.products_of(*networks.conv4(device)) == [
        (2 * 28 * 28, 9 * 1, 32),
        (2 * 14 * 14, 9 * 32, 48),
        (2 * 7 * 7, 9 * 48, 64),
        (2 * 3 * 3, 9 * 64, 128),
    ]
    squeeze, one, three = networks.products_of(*networks.last_block(device))  # of a fire module, on 6 x 6 maps
    assert (squeeze, one, three) == ((2 * 36, 512, 64), (2 * 36, 64, 256), (2 * 36, 9 * 64, 256))


def test_exponents():
    assert scaling.exponent([10, 20, 40, 80], [7.0, 7.0, 3 * 40**1.5, 3 * 80**1.5]) == pytest.approx(1.5)


def test_curves_are_written(tmp_path, monkeypatch, capsys):
    short = replace(scaling.TASKS["retrieval"], sizes=(100, 200))
    monkeypatch.setitem(scaling.TASKS, "retrieval", short)
    forked = multiprocessing.get_context("fork")  # one that does not import torch again
    monkeypatch.setattr(scaling.multiprocessing, "get_context", lambda kind: forked)
    [small] = scaling.curves(100, ["retrieval"])
    assert (small["task"], small["unit"], small["size"]) == ("retrieval", "images", 100)
    assert small["seconds"] > 0
    points = [small, small | {"size": 200, "seconds": 4 * small["seconds"]}]
    monkeypatch.setattr(scaling, "curves", lambda most, tasks: iter(points))
    monkeypatch.setattr(sys, "argv", ["scaling", "--task", "retrieval", "--write", str(tmp_path / "points.csv")])
    scaling.main()
    written = list(csv.DictReader((tmp_path / "points.csv").open()))
    assert [(p["task"], int(p["size"])) for p in written] == [("retrieval", 100), ("retrieval", 200)]
    assert all(float(p["seconds"]) > 0 and p["commit"] and p["machine"] and p["date"] for p in written)
    assert "retrieval: time grows as images^2.0" in capsys.readouterr().out


def test_rows_that_are_measured_are_kept_when_a_later_one_fails(tmp_path):
    def rows():
        yield {"what": "a", "ratio": 2.0}
        raise RuntimeError

    with pytest.raises(RuntimeError):
        scaling.written(rows(), tmp_path / "rows.csv")
    assert list(csv.DictReader((tmp_path / "rows.csv").open())) == [{"what": "a", "ratio": "2.0"}]
    assert scaling.written(iter([{"what": "a"}]), None) == [{"what": "a"}]


def test_a_proposal_is_measured_after_so_many_trials():
    seconds, _ = scaling.proposal(12)  # the first ten are random
    assert seconds > 0


def test_a_search_is_played_again_on_a_surrogate_of_its_trials():
    method = Method("toy", "triplet", {"x": Float(0.0, 1.0), "rate": Float(1e-4, 1.0, log=True)})
    rng = np.random.default_rng(0)
    space = [
        {"x": float(x), "rate": float(10**rate)} for x, rate in zip(rng.random(40), rng.uniform(-4, 0, 40), strict=True)
    ]

    def value(params):  # highest at x = 0.3
        return 0.5 - (params["x"] - 0.3) ** 2

    trials = [{"params": each, "value": value(each) + 0.01 * rng.normal(), "state": "complete"} for each in space]
    surrogate = proposals.Surrogate(method, trials)
    assert surrogate.noise == pytest.approx(0.01, rel=0.5)
    assert surrogate.best() == pytest.approx(0.5, abs=0.01)
    assert np.abs(surrogate(space) - [value(each) for each in space]).max() < 0.02
    one, four = (proposals.play(method, surrogate, surrogate.noise, 16, count, seed=0) for count in (1, 4))
    assert [each["params"] for each in one[:10]] == [each["params"] for each in four[:10]]  # these are random
    assert one[10:] != four[10:]
    assert len(four) == 16


@pytest.mark.weekly
def test_the_script_for_a_gpu_trains_what_fits_and_packs_its_records(tmp_path):
    script = Path(__file__).parents[1] / "benchmarks" / "lent_gpu.sh"
    place = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "DMLRC_DEVICE": "cpu"}
    place |= {"OUT": str(tmp_path), "DMLRC_RUNS": str(tmp_path / "runs")}
    called = [
        subprocess.run(["bash", script, *words], env=os.environ | place, capture_output=True, text=True)
        for words in (["run", "glyphs-smoke", "60"], ["run"], ["fly"])
    ]
    assert [each.returncode for each in called] == [0, 1, 2], called[0].stderr
    with tarfile.open(tmp_path / "runs.tgz") as packed:
        assert [name for name in packed.getnames() if re.search(r"/0-trial-\d+\.json$", name)]
    assert "setup FOLDER" in called[2].stderr


def test_halving_ends_the_trials_that_are_behind():
    values = [
        {10: 0.3, 20: 0.4, 30: 0.4, 40: 0.4},  # the first goes on, since it is the best so far
        {10: 0.2, 20: 0.5, 30: 0.5, 40: 0.5},  # ended at 10 steps
        {10: 0.35, 20: 0.36, 30: 0.4, 40: 0.4},  # ended at 20 steps, half way
        {10: 0.1, 20: 0.9, 30: 0.9, 40: 0.9},  # the best of all, ended at 10 steps
        {10: 0.5},  # ends by itself, and is the best of those that were trained whole
    ]
    rows = [
        {"trial": trial, "step": step, "value": value, "cost": 4 * step}
        for trial, of_trial in enumerate(values)
        for step, value in of_trial.items()
    ]
    found = hpo.halved(pd.DataFrame(rows), 2, 40)
    assert found == {"saved": pytest.approx(1 - (40 + 10 + 20 + 10 + 10) / 170), "lost": pytest.approx(0.4)}


def test_a_sampler_is_measured_by_the_best_of_its_first_evaluations():
    cube = np.random.default_rng(0).random((40, 2))
    ask = bench.Objective({"a": Float(0, 1), "b": Float(0.1, 10, log=True)}, cube, 0.1 * cube[:, 0], "forest")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    found = {row["sampler"]: row for row in hpo.measured(ask, ["random", "tpe5"], seeds=2)}
    searches = [
        optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed)) for seed in (0, 1)
    ]
    for each in searches:
        each.optimize(ask, 50)
    for number in hpo.EVALUATIONS:
        best = [max(trial.value for trial in each.trials[:number]) for each in searches]
        assert found["random"][f"best_{number}"] == pytest.approx(np.mean(best))
    assert found["tpe5"]["best_10"] == found["random"]["best_10"]  # ten random ones
    assert all(row["best_10"] <= row["best_50"] <= row["ceiling"] >= ask.best for row in found.values())


def test_every_sampler_proposes_in_its_own_way():
    pytest.importorskip("cmaes")
    cube = np.random.default_rng(0).random((40, 2))
    ask = bench.Objective({"a": Float(0, 1), "b": Float(0, 1)}, cube, cube[:, 0], "nearest")
    last = set()
    for make in hpo.SAMPLERS.values():
        study = optuna.create_study(direction="maximize", sampler=make(0))
        study.optimize(ask, 12)
        last.add(study.trials[-1].params["a"])
    assert len(last) == len(hpo.SAMPLERS)  # each proposes another point


def test_what_is_measured_already_is_not_measured_again(monkeypatch):
    monkeypatch.setattr(bench, "studies", lambda: ["other", *hpo.MAIN])
    monkeypatch.setattr(bench, "methods", lambda study: ["contrastive", "new"])
    everything = list(hpo.problems())
    assert len(everything) == len(set(everything)) == 8 * 4 + 6  # the Gaussian process on the three tables
    assert everything[-7][:2] == ("other", "new")
    assert [sampler for *_, sampler in everything[-6:]] == ["gp"] * 6
    done = pd.DataFrame(everything[2:], columns=["study", "method", "sampler"])
    assert hpo._missing(done) == [(everything[0][:2], ["random", "tpe4"])]
    assert sum(len(samplers) for _, samplers in hpo._missing(pd.DataFrame())) == len(everything)
