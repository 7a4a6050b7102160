"""The same numbers from the same seed, whatever the caller has set, drawn or edited since."""

import contextlib
import importlib
import pickle
import random
import sys
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import small_units
import torch
from cases import in_a_cell, loop

from dmlrc import executors, inputs, plan, preflight, run, studies
from dmlrc.errors import UsageError
from dmlrc.methods import Float, Method
from dmlrc.models.settings import defaults, settled
from dmlrc.protocol import Budget, TrunkInput
from dmlrc.unit import run_unit

QUICK = studies.get("grocery-quick")
SHORT = replace(
    QUICK,
    protocol=replace(QUICK.protocol, folds=2),
    budget=Budget("short", trials=1, reruns=1, max_epochs=1, iterations_per_epoch=3),
)


# In a cell: of a loss in this file all that the file imports would be read.
by_chance = in_a_cell(
    """
import random
import numpy as np
import torch

def by_chance(embeddings, labels, scale=0.1):
    chosen = np.random.permutation(len(labels))[: 8 + random.randrange(8)]
    distances = torch.cdist(embeddings[chosen], embeddings[chosen])
    same = labels[chosen][:, None] == labels[chosen]
    return (distances * same).sum() - scale * (distances * ~same).sum()
""",
    "by_chance",
)


def record(loss="contrastive"):
    method = Method("mine", loss) if callable(loss) else SHORT.method(loss)
    [unit] = plan.next_units(replace(SHORT, methods=(method,)), plan.Chain(method))
    found = run_unit(unit)
    return found["value"], [run["curve"] for run in found["runs"]]


def test_a_loss_that_draws_from_numpy_and_python_gives_the_same_numbers_and_leaves_their_generators():
    first = record(by_chance)
    np.random.seed(7)
    random.seed(7)
    expected = np.random.rand(), random.random()
    np.random.seed(7)
    random.seed(7)
    assert record(by_chance) == first
    assert (np.random.rand(), random.random()) == expected


@contextlib.contextmanager
def put(set_it, read, value):
    before = read()
    set_it(value)
    try:
        yield
    finally:
        set_it(before)


def attribute(owner, name, value):
    """A setting of the caller's that is an attribute, and how it is read."""
    read = partial(getattr, owner, name)
    return lambda: put(partial(setattr, owner, name), read, value), read


def called(set_it, read, value):
    return lambda: put(set_it, read, value), read


def doubled():
    """The caller has autograd save twice what it should."""
    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor * 2, lambda tensor: tensor)


def slope():
    one = torch.ones((), requires_grad=True)
    (one * one).backward()
    return one.grad.item()


SETTINGS = {  # of the caller: how they are set and read
    "float64": called(torch.set_default_dtype, torch.get_default_dtype, torch.float64),
    "products": called(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision, "medium"),
    "no_grad": (torch.no_grad, torch.is_grad_enabled),
    "inference_mode": (torch.inference_mode, torch.is_inference_mode_enabled),
    "autocast": (lambda: torch.autocast("cpu", torch.bfloat16), lambda: torch.is_autocast_enabled("cpu")),
    "oneDNN": (lambda: torch.backends.mkldnn.flags(enabled=False), lambda: torch.backends.mkldnn.enabled),
    "device": (lambda: torch.device("meta"), torch.get_default_device),
    "products of oneDNN": attribute(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    "convolutions of oneDNN": attribute(torch.backends.mkldnn.conv, "fp32_precision", "bf16"),
    "recurrences of oneDNN": attribute(torch.backends.mkldnn.rnn, "fp32_precision", "bf16"),
    "cuDNN's recurrences": attribute(torch.backends.cudnn.rnn, "fp32_precision", "ieee"),
    "kind of autocast": called(
        partial(torch.set_autocast_dtype, "cpu"), partial(torch.get_autocast_dtype, "cpu"), torch.float16
    ),
    "cuDNN's choice": attribute(torch.backends.cudnn, "benchmark", True),
    "no cuDNN": attribute(torch.backends.cudnn, "enabled", False),
    "deterministic": called(torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled, True),
    "anomalies": (lambda: torch.autograd.set_detect_anomaly(True), torch.is_anomaly_enabled),
    "attention": called(torch.backends.cuda.enable_flash_sdp, torch.backends.cuda.flash_sdp_enabled, False),
    "what autograd saves": (doubled, slope),
    "NumPy's errors": (lambda: np.errstate(all="raise"), np.geterr),
}


def test_what_the_caller_has_set_changes_no_number_and_stays():
    expected = record()
    for name in (
        "float64",
        "products",
        "no_grad",
        "inference_mode",
        "autocast",
        "oneDNN",
        "device",
        "what autograd saves",
    ):
        setting, read = SETTINGS[name]
        with setting():
            before = read()
            assert record() == expected, name
            assert read() == before, name


SPOILING = """
import torch

def plain(embeddings, labels):
    return (torch.cdist(embeddings, embeddings) * (labels[:, None] == labels)).sum()

def spoils_labels(embeddings, labels):
    value = plain(embeddings, labels)
    labels.zero_()
    return value

def spoils(embeddings, labels):
    value = plain(embeddings.clone(), labels)
    with torch.no_grad():
        embeddings /= 2
    return value
"""


def test_what_a_loss_does_to_its_batch_reaches_no_other():
    plain, spoils_labels, spoils = (in_a_cell(SPOILING, name) for name in ("plain", "spoils_labels", "spoils"))
    assert record(spoils_labels) == record(plain)
    changes = "the loss of method 'mine' changes the embeddings that it is given: let it clone them first"
    with pytest.raises(UsageError, match=changes):
        record(spoils)
    with pytest.raises(UsageError, match=changes):
        preflight.check_method(Method("mine", spoils), SHORT)


def test_what_the_caller_has_every_module_do_changes_no_number_and_stays():
    expected = record()
    hook = torch.nn.modules.module.register_module_forward_hook(lambda module, given, output: output * 1.5)
    try:
        assert record() == expected
        assert torch.nn.Identity()(torch.ones(1)) == 1.5
    finally:
        hook.remove()


@loop("name", SETTINGS)
def test_a_unit_has_settings_of_its_own(name):
    """Those too that change no number on this machine."""
    setting, read = SETTINGS[name]
    with defaults():
        of_its_own = read()
    with setting():
        before = read()
        assert before != of_its_own
        with defaults():
            assert read() == of_its_own
        assert read() == before
        with settled(torch.device("cpu"), "float32"):
            assert read() == of_its_own
        assert read() == before


def test_cached_features_are_those_of_torch_as_it_is(home, monkeypatch):
    given = TrunkInput("squeezenet1_0", None, True, 64, 64, "none", "crop")
    images = replace(small_units.PHOTOGRAPHS, images=np.repeat(np.repeat(small_units.PIXELS[:8], 4, 2), 4, 3))

    def features(folder):
        monkeypatch.setenv("DMLRC_CACHE", str(home / folder))
        return inputs.frozen_features(images, given, torch.device("cpu")).tolist()

    expected = features("first")
    for name in ("float64", "autocast", "oneDNN", "device", "inference_mode"):
        with SETTINGS[name][0]():
            assert features(name) == expected, name


@pytest.mark.parametrize("train_from", [None, "features.12"])
def test_what_is_computed_once_does_not_depend_on_the_number_of_threads(home, monkeypatch, train_from):
    """SqueezeNet's numbers do with convolutions of more threads, unlike ResNet-18's or conv4's."""
    given = TrunkInput("squeezenet1_0", None, not train_from, 32, 32, "none", "crop", train_from)
    images = replace(small_units.PHOTOGRAPHS, images=small_units.PIXELS[:40])  # three batches
    compute, found = inputs.frozen_maps if train_from else inputs.frozen_features, []
    for threads in (1, 2, 3):
        monkeypatch.setenv("DMLRC_CACHE", str(home / str(threads)))
        torch.set_num_threads(threads)
        torch.set_flush_denormal(threads == 1)  # as in a unit, which has one
        found.append(compute(images, given, torch.device("cpu")))
        assert torch.get_num_threads() == threads
    torch.set_num_threads(1)
    torch.set_flush_denormal(False)
    assert len(found[0]) > 2 * 16
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@loop("name", ["no_grad", "inference_mode", "device", "float64", "NumPy's errors"])
def test_the_first_look_at_a_loss_is_under_settings_of_its_own_too(name):
    random.seed(3)
    before = random.getstate()
    with SETTINGS[name][0]():
        remarks = preflight.check_method(Method("mine", by_chance, {"scale": Float(0, 1)}), SHORT)
    assert remarks == []
    assert random.getstate() == before


def test_convolutions_of_cached_features_are_torchs_own():
    """A unit has others, and only on a GPU."""
    setting, read = attribute(torch.backends.cudnn.conv, "fp32_precision", "ieee")
    plain = read()
    with setting(), defaults():
        assert read() == plain


AT_A_CALL = {
    "imported": "import helper_called_of_mine\n    return helper_called_of_mine.scaled(x)",
    "relative": "from .inner import scaled\n    return scaled(x)",
    "loaded": "import sys\n    return sys.modules['helper_called_of_mine'].scaled(x)",
    "computed": "import importlib\n    return importlib.import_module('helper_called' + '_of_mine').scaled(x)",
    "by_word": "return globals()['SCALE'] * x",
    "locked": "return SCALE * x",
}


@pytest.fixture
def edited(tmp_path, monkeypatch):
    """A package, and a file that it imports, both edited since they were imported, of which one holds a lock."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    helper = "SCALE = {0}\ndef scaled(x):\n    return SCALE * x\n"
    functions = "".join(f"\ndef {name}(x):\n    {body}\n" for name, body in AT_A_CALL.items())
    mine = "import threading\nimport helper_called_of_mine\nfrom . import inner\nLOCK = threading.Lock()\nSCALE = {0}\n"
    files = {
        "helper_called_of_mine.py": helper,
        "package_of_mine/inner.py": helper,
        "package_of_mine/mine.py": mine + functions,
    }
    (tmp_path / "package_of_mine").mkdir()
    for scale in (2, 3):
        for file, text in files.items():
            (tmp_path / file).write_text(text.replace("{0}", str(scale)))
        importlib.invalidate_caches()
        module = importlib.import_module("package_of_mine.mine")
    yield module
    for name in [name for name in sys.modules if name.endswith("_of_mine") or name.startswith("package_of_mine")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def workers():
    """A process, which takes seconds to begin and has imported nothing that a test here writes."""
    with executors.Workers(1) as pool:  # `executors.pool(1)` is this process
        yield pool


def test_what_a_call_imports_is_what_was_imported_in_every_worker(edited, workers):
    found = {name: workers.submit(getattr(edited, name), 5).result() for name in AT_A_CALL}
    assert found == dict.fromkeys(AT_A_CALL, 10)


class Elsewhere(Executor):
    """Sends tasks as the pools of the standard library do, to where only files are."""

    def submit(self, fn, /, *args):
        sent, future = pickle.dumps((fn, args)), Future()
        for name in [name for name in sys.modules if name.endswith("_of_mine") or name.startswith("package_of_mine")]:
            del sys.modules[name]
        fn, args = pickle.loads(sent)
        future.set_result(fn(*args))
        return future


@pytest.mark.parametrize("name", AT_A_CALL)
def test_an_executor_of_the_readers_own_runs_what_was_imported_too(name, edited, monkeypatch):
    monkeypatch.setattr(run, "run_unit", in_a_cell("def run_unit(unit):\n    return unit.method.loss(5)", "run_unit"))
    [unit] = plan.next_units(SHORT, plan.Chain(Method("mine", getattr(edited, name))))
    assert executors.Foreign(Elsewhere()).submit(run.run_unit, unit).result() == 10


@pytest.mark.parametrize("import_it", [True, False])
def test_a_file_edited_since_its_import_is_what_was_imported_in_every_worker(workers, tmp_path, monkeypatch, import_it):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "edited_since.py").write_text("SCALE = 1\ndef scaled(x):\n    return SCALE * x\n")
    importlib.invalidate_caches()
    module = importlib.import_module("edited_since")
    monkeypatch.setattr(module, "SCALE", 2)  # by hand, on no disk
    (tmp_path / "edited_since.py").write_text("SCALE = 3\ndef scaled(x):\n    return -SCALE * x\n")
    late = in_a_cell("def late(module):\n    return lambda x: module.scaled(x)", "late")
    task = module.scaled if import_it else late(module)
    assert workers.submit(task, 5).result() == 10
    monkeypatch.delitem(sys.modules, "edited_since")


# Sent alone: this file would bring all that it imports.
faults_of_large_arrays = in_a_cell(
    """
import resource
from concurrent.futures import ThreadPoolExecutor
import torch
from dmlrc.models.settings import defaults

def touch(_):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.empty(10 * 2**20).fill_(1)  # malloc by itself keeps up to 32 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def faults_of_large_arrays():
    'Pages of memory that the main thread and another one get for eight arrays of 40 MiB, after some to warm up.'
    with defaults(), ThreadPoolExecutor(1) as pool:  # each beside the last, since places begin at a multiple of 64
        return [sum([*run(touch, range(20))][12:]) for run in (map, pool.map)]
""",
    "faults_of_large_arrays",
)


@pytest.mark.skipif(sys.platform != "linux", reason="malloc of another system")
def test_the_memory_of_large_arrays_is_kept_for_the_next_ones_of_any_thread(workers):
    faults = workers.submit(faults_of_large_arrays).result()  # in this process earlier threads have their own memory
    assert max(faults) < 2 * 10 * 2**8, faults  # pages of 4 KiB: two of the arrays, not eight
