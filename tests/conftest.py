import atexit
import functools
import gc
import importlib.metadata
import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread a test worker: pytest-xdist already uses every core

import pytest

importlib.metadata.version = functools.cache(importlib.metadata.version)  # each unit asks for five, a file each
sys.modules.setdefault("rfc3987_syntax", None)  # a grammar that jsonschema builds for a second, if it can import it


def pytest_configure(config):
    """Where tests run: the process of pytest-xdist that hands them out loads no torch, which takes seconds."""
    if getattr(config.option, "numprocesses", None):
        return
    if hasattr(config, "workerinput"):
        atexit.register(os._exit, 0)  # after all other such functions; to take apart millions of objects takes seconds
    gc.set_threshold(0)  # no search for garbage until all is imported
    import torch
    from hypothesis import settings
    from hypothesis.internal.conjecture import providers
    from torch.testing import _comparison

    _comparison._HAS_DTENSOR = False  # no test compares tensors of several devices, whose module takes 2 s to import
    providers._get_local_constants = providers.Constants  # else it parses the library for numbers to try, for 4 s
    settings.register_profile("dmlrc", deadline=None, derandomize=True)  # a busy machine is slow; a failure comes again
    settings.load_profile("dmlrc")
    if not torch.cuda.is_available():
        # for a device to come torch would note each seed with the whole stack, a half to several milliseconds in pytest
        torch.cuda.manual_seed_all = torch.xpu.manual_seed_all = torch.mtia.manual_seed_all = lambda seed: None


LONGEST = (
    *("test_chapters", "test_build", "test_papers", "test_study", "test_golden"),
    *("test_cluster", "test_claims", "test_records"),
)


def pytest_collection_finish():
    """What is imported by now stays: each search for garbage would look through its million objects, for 0.3 s."""
    gc.freeze()
    gc.set_threshold(5_000, 10, 10)
    atexit.register(gc.unfreeze)  # else extension modules say at the end that they leak; behind two searches of pytest


def pytest_collection_modifyitems(items):
    """The files that take a minute or more first, so that no worker of pytest-xdist is left with one at the end."""
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))


@pytest.hookimpl(optionalhook=True)  # where pytest-xdist is
def pytest_xdist_make_scheduler(config, log):
    """A file's tests run in one worker, and so do all that share a book of `books` or the process of all kernels."""
    from xdist.scheduler import LoadFileScheduling

    class OneBookOneWorker(LoadFileScheduling):
        def _split_scope(self, nodeid):
            if "test_browser.py" in nodeid or nodeid.endswith("[made]"):
                return "made"
            if "test_golden.py" in nodeid or nodeid.endswith("[published]"):
                return "published"
            if any(f"{name}.py" in nodeid for name in ("test_build", "test_kernels")):
                return "kernels"  # both fork them from one process, which takes seconds to begin
            return super()._split_scope(nodeid)

    return OneBookOneWorker(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_runtest_setup(item):
    import torch

    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@pytest.fixture(scope="session", autouse=True)
def _no_folders_of_the_user():
    """Fixtures of a session would write their records there."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DMLRC_RUNS", "DMLRC_DATA"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _features_are_unpacked_once():
    """Those of the package, which take a second each time; who changes them fails."""
    from dmlrc.data import features

    def read_only(name, folder=None):
        found = real(name, folder)
        found.features.flags.writeable = False
        return found

    real = features.load_features
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(features, "load_features", functools.cache(read_only))
        yield


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order():
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Every test runs in a study folder of its own: no records, no data, no GPU."""
    monkeypatch.setenv("DMLRC_HOME", str(tmp_path))
    monkeypatch.setenv("DMLRC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DMLRC_DEVICE", "cpu")
    return tmp_path


@pytest.fixture
def call(monkeypatch, capsys):
    """Calls the command: exit code, standard output, standard error."""

    def run(*arguments):
        from dmlrc import cli

        monkeypatch.setattr("sys.argv", ["dmlrc", *arguments])
        try:
            cli.main()
            code = 0
        except SystemExit as ended:
            code = ended.code
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def blobs():
    """Features of 16 classes x 12 samples in 10 dimensions, of which only the first 3 tell the classes apart."""
    import numpy as np

    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(16), 12)
    features = rng.normal(size=(len(labels), 10))
    features[:, :3] += 2.0 * rng.normal(size=(16, 3))[labels]
    return features.astype(np.float32), labels


@pytest.fixture
def photographs(monkeypatch):
    """Every data set is that of `small_units`."""
    import small_units

    from dmlrc import inputs

    monkeypatch.setattr(inputs.data, "load", lambda *_, **__: small_units.PHOTOGRAPHS)
    yield
    inputs._prepared.cache_clear()
    inputs._computed_once.cache_clear()
