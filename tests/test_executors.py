"""How many workers a machine may be asked for; what they do is tested with the studies that they run."""

import os
import runpy
import signal
import time
import warnings

import pytest

from dmlrc import executors
from dmlrc.errors import UsageError


@pytest.mark.parametrize("workers", [0, 2.0, True, None, 100_000])
def test_absurd_numbers_of_workers(workers, monkeypatch):
    monkeypatch.setattr(executors.os, "cpu_count", lambda: 2)
    with pytest.raises(UsageError, match=r"workers cannot run here .cores: 2.: .* from 1 to 16"):
        executors.pool(workers)


def test_many_workers_on_many_cores(monkeypatch):
    monkeypatch.setattr(executors.os, "cpu_count", lambda: 128)
    with executors.pool(200) as pool:  # no process starts before there is work
        assert pool._free.qsize() == 200


def test_a_task_that_cannot_be_sent_takes_no_worker_with_it():
    with executors.Workers(1) as pool:
        with pytest.raises(TypeError, match="generator"):
            pool.submit(len, (number for number in ()))
        assert pool._free.qsize() == 1  # else the next task would wait for ever


def test_a_worker_that_dies_takes_no_other_task_with_it():
    with executors.pool(2) as pool:
        poisoned = pool.submit(signal.raise_signal, signal.SIGKILL)
        fine = pool.submit(sum, (1, 2))
        assert fine.result() == 3
        with pytest.raises(executors.BrokenProcessPool):
            poisoned.result()
        assert pool.submit(sum, (2, 3)).result() == pool.submit(sum, (1, 4)).result() == 5


def test_a_worker_that_dies_without_a_task_is_replaced():
    with executors.Workers(1) as pool:
        idle = pool.submit(os.getpid).result()
        (worker,) = pool._all
        os.kill(idle, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while not worker._flags.broken:
            assert time.monotonic() < deadline, "loky has not noticed"
            time.sleep(0.05)
        assert pool.submit(sum, (1, 2)).result() == 3
        assert worker not in pool._all


THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def _interrupted():
    with executors.pool(2) as pool:
        assert [pool.submit(os.getenv, name).result() for name in THREADS] == ["1", "1"]
        pool.submit(time.sleep, 1000)
        raise KeyboardInterrupt


def test_a_worker_has_one_thread_and_is_not_waited_for_after_an_error(monkeypatch):
    for name in THREADS:
        monkeypatch.setenv(name, "2")
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _interrupted()
    assert time.monotonic() - begun < 500


def test_a_worker_that_grew_is_restarted_in_silence():
    said = "A worker was restarted while some jobs were given to the executor because it was using too much memory"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        runpy.run_path(executors.__file__)  # as in a new process, of whose filters it changes one
        warnings.warn(said, stacklevel=1)
        warnings.warn("another", stacklevel=1)
    assert [str(each.message) for each in seen] == ["another"]
