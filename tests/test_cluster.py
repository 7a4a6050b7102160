"""Studies on a Dask cluster: a scheduler and two workers, each a process of its own."""

import contextlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import cloudpickle
import numpy as np
import pandas as pd
import pytest
from cases import in_a_cell
from PIL import Image
from typer.testing import CliRunner

from dmlrc import cli, paths, records, run, studies
from dmlrc.errors import DmlrcError, UsageError
from dmlrc.executors import cluster
from dmlrc.methods import Float, Method
from dmlrc.papers import musgrave2020
from dmlrc.protocol import Budget, Study

distributed = pytest.importorskip("distributed")

PICKED = tuple(method for method in musgrave2020.METHODS if method.name in ("contrastive", "triplet", "arcface"))

# four processes that look at themselves a hundred times a second use more of a busy machine than the studies do
IDLE = {"ADMIN__TICK__INTERVAL": "1s", "ADMIN__SYSTEM_MONITOR__INTERVAL": "10s", "WORKER__PROFILE__ENABLED": "False"}

DASK = """
import sys
from dask.__main__ import main
from distributed.utils import get_mp_context
get_mp_context().set_forkserver_preload(["distributed.nanny", "dmlrc.unit", "dmlrc.executors.cluster"])
sys.argv[0] = "dask"
main()
"""
"""`python -m dask`, whose workers come from a process that has imported what each would, for three seconds."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A study of three methods on 32 classes of 4 images, noise around a grey of their own."""
    folder, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for number in range(32):
        (folder / f"class{number:02d}").mkdir()
        for copy in range(4):
            pixels = np.clip(6 * number + 20 * rng.normal(size=(16, 16)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"class{number:02d}" / f"{copy}.png")
    protocol = replace(musgrave2020.CHARACTERS, image_size=16, crop_size=16, folds=2)
    budget = Budget("tiny", trials=2, reruns=1, max_epochs=1, iterations_per_epoch=3)
    return Study("tiny", f"folder:{folder}", protocol, budget, methods=PICKED)


class Cluster:
    """A scheduler and workers with a nanny each, as the command line starts them."""

    def __init__(self, folder, workers):
        self._file = folder / "scheduler.json"
        arguments = ("--no-dashboard", "--scheduler-file", str(self._file))
        self.scheduler = self._start("scheduler", "--port", "0", "--host", "127.0.0.1", *arguments)
        self._workers = self._start("worker", "--nworkers", str(workers), "--nthreads", "1", *arguments)

    @property
    def address(self):
        return json.loads(self._file.read_text())["address"]

    def _start(self, *arguments):
        command = [sys.executable, "-c", DASK, *arguments]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)

    def close(self):
        for process in (self._workers, self.scheduler):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def started(tmp_path_factory, count=2):
    """A cluster: its processes keep the environment that they were started with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLRC_DEVICE", "cpu")
        patch.setenv("DMLRC_CACHE", str(tmp_path_factory.mktemp("cache")))
        # workers come from a process that has imported distributed: each would for a second
        patch.setenv("DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD", "forkserver")
        for name, value in IDLE.items():
            patch.setenv(f"DASK_DISTRIBUTED__{name}", value)
        made = Cluster(tmp_path_factory.mktemp("cluster"), count)
    deadline = time.monotonic() + 100
    try:
        while not made._file.exists():
            assert made.scheduler.poll() is None
            assert time.monotonic() < deadline, "the scheduler does not say where it is"
            time.sleep(0.1)
        with distributed.Client(made.address, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=100)
        yield made
    finally:
        made.close()


@pytest.fixture
def workers(started):
    with cluster.Dask(started.address) as executor:
        yield executor


def facts(name="tiny"):
    """The records of a study without what differs between two equal runs: times."""
    found = records.load(name)
    volatile = ["seconds", "finished", "created"]
    return [getattr(found, frame).drop(columns=volatile, errors="ignore") for frame in records.FRAMES]


def same(left, right):
    for pair in zip(left, right, strict=True):
        keys = [column for column in pair[0].columns if column not in ("params", "value", "values")]
        one, other = (frame.sort_values(keys, ignore_index=True) for frame in pair)
        pd.testing.assert_frame_equal(one, other, check_exact=True)


@pytest.fixture(scope="module")
def serial(tiny, tmp_path_factory):
    """The records of the tiny study, run in this process."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("serial")
        patch.setenv("DMLRC_HOME", str(home))
        patch.setenv("DMLRC_CACHE", str(home / "cache"))
        patch.setenv("DMLRC_DEVICE", "cpu")
        run.run(tiny)
        return facts()


def test_records_are_those_of_a_serial_run_to_the_bit(tiny, serial, workers, monkeypatch):
    under_way, most, real = set(), [], workers.submit

    def submit(*task):
        future = real(*task)
        under_way.add(future)
        most.append(sum(not each.done() for each in under_way))
        return future

    monkeypatch.setattr(workers, "submit", submit)
    run.run(tiny, executor=workers)
    same(facts(), serial)
    assert len(most) == 10
    assert max(most) == workers.slots() == 2  # of four chains


# One deadly method a test: Dask blames every unit of a killed worker, so two could die of each other's deaths.
def test_a_unit_whose_worker_is_killed_is_tried_again(tiny, serial, workers, home, capsys):
    found = _beside(serial, tiny, _deadly("unlucky", home, 1), workers)
    assert found.trials.query("method == 'unlucky'")["state"].tolist() == ["complete", "complete"]
    assert "unlucky trial 0 died (1 of 3 times)" in capsys.readouterr().err


@pytest.mark.weekly  # what is done of a third death is the same everywhere, see test_study.py
def test_a_poison_unit_is_given_up(tiny, serial, workers, home, monkeypatch):
    monkeypatch.setattr(run, "MOST_DEATHS", 2)  # of 3: a worker takes seconds to begin
    found = _beside(serial, tiny, _deadly("poison", home, 2), workers)
    trials = found.trials.query("method == 'poison'").set_index("trial").sort_index()
    assert trials["state"].tolist() == ["failed", "complete"]
    assert "each of 2 workers" in trials["reason"][0]
    assert len(list(home.glob("poison*.death"))) == 2


def _beside(serial, tiny, deadly, workers):
    """The records of a deadly method and of one beside it, which is as it is alone."""
    run.run(tiny, [deadly, PICKED[0]], workers)
    found = records.load("tiny")
    undisturbed = found.trials.query("method == 'contrastive'").sort_values("trial")["value"]
    expected = serial[0].query("method == 'contrastive'").sort_values("trial")["value"]
    assert undisturbed.tolist() == expected.tolist()
    return found


def _deadly(name, folder, deaths):
    """A method whose loss kills the process that computes it, so many times; sent alone, and not with this file."""
    loss = in_a_cell(f"""
def loss(embeddings, labels, margin):
    import os, pathlib, signal
    died = len(list(pathlib.Path({str(folder)!r}).glob("{name}*.death")))
    if died < {deaths}:
        pathlib.Path({str(folder)!r}, f"{name}{{died}}.death").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return (embeddings @ embeddings.T).mean() * margin
""")
    return Method(name, loss, {"margin": Float(0, 1)})


def test_losses_of_a_notebook_and_of_a_local_file_are_sent_by_value(tiny, workers, tmp_path, monkeypatch):
    loss = in_a_cell("def loss(embeddings, labels, margin):\n    return (embeddings @ embeddings.T).mean() * margin")
    (tmp_path / "of_a_file.py").write_text(
        "from torch import nn\n\nHALF = 0.5\n\n\nclass Mine(nn.Module):\n    def __init__(self, margin):\n"
        "        super().__init__()\n        self.margin = margin\n\n    def forward(self, embeddings, labels):\n"
        "        return (embeddings @ embeddings.T).mean() * self.margin * HALF\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    mine = [Method("cell", loss, {"margin": Float(0, 1)})]
    mine.append(Method("file", importlib.import_module("of_a_file").Mine, {"margin": Float(0, 1)}))
    run.run(tiny, methods=mine, executor=workers)
    found = records.load("tiny")
    assert set(found.trials["state"]) == {"complete"}
    assert set(found.runs["method"]) == {"cell", "file"}
    assert not cloudpickle.list_registry_pickle_by_value()


def test_the_command_takes_a_scheduler(tiny, started, monkeypatch):
    monkeypatch.setattr(studies, "get", lambda name: tiny)
    arguments = ["study", "run", "tiny", "--method", "triplet", "--scheduler", started.address]
    result = CliRunner().invoke(cli.app, arguments)
    assert "study tiny: 4 of 10 units" in result.output
    result = CliRunner().invoke(cli.app, [*arguments, "--workers", "2"])
    assert "choose one" in str(result.exception)


def test_a_cluster_is_left_as_it_was(started):
    with distributed.Client(started.address, set_as_default=False) as client:

        def allowed(dask_scheduler):
            return dask_scheduler.allowed_failures

        before = client.run_on_scheduler(allowed)
        with cluster.Dask(client):
            assert client.run_on_scheduler(allowed) == 0
        assert client.run_on_scheduler(allowed) == before == 3
        assert client.status == "running"


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://x", "127.0.0.1:port"])
def test_a_scheduler_that_is_not_there_is_named(address, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    with pytest.raises(
        UsageError, match=rf"no Dask scheduler answers at {address} .*with TLS, as the page .*tls://HOST"
    ):
        cluster.Dask(address)


def told_of(workers, versions=None):
    """An executor that is told of these workers, by address."""

    class Client:
        def scheduler_info(self, n_workers=5):  # as of Dask 2026.1
            return {"workers": dict(list(workers.items())[: n_workers if n_workers >= 0 else None])}

        def run(self, function, workers, on_error):
            assert on_error == "return"
            return {address: versions or cluster.versions() for address in workers}

    made = cluster.Dask.__new__(cluster.Dask)
    Client.status = "running"
    made._client, made._name, made._checked = Client(), "tcp://here", set()
    made._on_gpus = any(each["resources"] for each in workers.values())
    return made


def worker(nthreads=1, **resources):
    return {"nthreads": nthreads, "resources": resources}


def test_workers_are_counted_and_those_with_a_gpu_alone_where_there_are_some():
    assert told_of({"a": worker(), "b": worker()}).slots() == 2
    assert told_of({"a": worker(GPU=1), "b": worker(GPU=2), "c": worker()}).slots() == 2


def test_workers_that_cannot_be_used_are_named():
    with pytest.raises(UsageError, match="the worker b has 2 threads"):
        told_of({"a": worker(), "b": worker(2)}).slots()
    with pytest.raises(UsageError, match="tcp://here has no workers: start some with TLS"):
        told_of({}).slots()
    for what in ("dmlrc", "torch", "Python"):
        with pytest.raises(UsageError, match=rf"the worker a has {what} 1\.0 instead of"):
            told_of({"a": worker()}, cluster.versions() | {what: "1.0"}).slots()
    later = told_of(workers := {"a": worker()})
    assert later.slots() == 1
    workers["b"] = worker(2)
    with pytest.raises(UsageError, match="the worker b has 2 threads"):
        later.slots()
    with pytest.raises(UsageError, match=r"the worker a cannot run dmlrc .*No module named"):
        told_of({"a": worker()}, ModuleNotFoundError("No module named 'dmlrc'")).slots()
    one = told_of({"a": worker()})
    assert one.slots() == 1
    one._client.scheduler_info = lambda n_workers: {"workers": {}}  # all were lost: what is handed out waits for others
    assert one.slots() == 1


def test_the_job_script_of_the_page_is_that_of_the_class():
    page = (Path(__file__).parents[1] / "book" / "scale_out.md").read_text()
    (made,) = re.findall(r"```python\n(from dask_jobqueue .*?)print", page, re.DOTALL)
    (shown,) = re.findall(r"```bash\n(#!/usr/bin/env bash\n\n.*?)```", page, re.DOTALL)
    scope = {}
    exec(made, scope)
    with scope["slurm"] as slurm:
        printed = slurm.job_script().replace(sys.executable, "python")
    # with the certificates of the page, which are not here, the address is one of tls
    assert re.sub(r"tcp://[\d.]+:\d+", "tls://HOST:PORT", printed).strip() == shown.strip()


def test_every_scheduler_and_worker_of_the_page_is_behind_tls_and_opens_no_dashboard():
    page = (Path(__file__).parents[1] / "book" / "scale_out.md").read_text()
    assert "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true" in page  # SLURMCluster takes it from there
    started = re.findall(r"dask(?: |_|\.cli\.dask_)(?:scheduler|worker) [^`\n]*", page)
    assert len(started) == 5
    assert [line for line in started if "--no-dashboard" not in line or not re.search(r"\btls\b", line)] == []
    made = re.findall(r"SLURMCluster\(\n.*?^\)", page, re.DOTALL | re.MULTILINE)
    assert ['"--no-dashboard"' in each and '{"dashboard": False}' in each for each in made] == [True]
    assert "tcp://" not in page + Path(cluster.__file__).read_text()


# The last test of this file: it takes the cluster of the others, and kills it.
def test_a_scheduler_that_is_killed_is_one_clear_error_and_the_study_goes_on(tiny, serial, started, workers):
    real = records.write_unit

    def kill_after_three(record, name):
        real(record, name)
        if len(list((paths.runs() / "tiny").glob("*/*.json"))) == 3:
            started.scheduler.kill()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "write_unit", kill_after_three)
        with pytest.raises(DmlrcError, match="is gone: finished records are kept, and the same command goes on"):
            run.run(tiny, executor=workers)
    assert len(list((paths.runs() / "tiny").glob("*/*.json"))) >= 3
    run.run(tiny)
    same(facts(), serial)
