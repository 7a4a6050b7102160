"""The same numbers from the same seed, whatever the caller has set, drawn or edited since."""

import contextlib
import importlib
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from dmlrc import executors, plan, studies
from dmlrc.methods import Method
from dmlrc.protocol import Budget
from dmlrc.unit import run_unit

SHORT = replace(
    studies.get("grocery-quick"), budget=Budget("short", trials=1, reruns=1, max_epochs=1, iterations_per_epoch=3)
)


def by_chance(embeddings, labels):
    chosen = np.random.permutation(len(labels))[: 8 + random.randrange(8)]
    distances = torch.cdist(embeddings[chosen], embeddings[chosen])
    same = labels[chosen][:, None] == labels[chosen]
    return (distances * same).sum() - 0.1 * (distances * ~same).sum()


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
def float64():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def rough_products():
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")


def test_what_the_caller_has_set_changes_no_number_and_stays():
    expected = record()
    for name, setting, read in (
        ("float64", float64, torch.get_default_dtype),
        ("products", rough_products, torch.get_float32_matmul_precision),
        ("no_grad", torch.no_grad, torch.is_grad_enabled),
        ("inference_mode", torch.inference_mode, torch.is_inference_mode_enabled),
        ("autocast", lambda: torch.autocast("cpu", torch.bfloat16), lambda: torch.is_autocast_enabled("cpu")),
        ("oneDNN", lambda: torch.backends.mkldnn.flags(enabled=False), lambda: torch.backends.mkldnn.enabled),
        ("device", lambda: torch.device("meta"), torch.get_default_device),
    ):
        with setting():
            before = read()
            assert record() == expected, name
            assert read() == before, name


@pytest.mark.parametrize("import_it", [True, False])
def test_a_file_edited_since_its_import_is_what_was_imported_in_every_worker(tmp_path, monkeypatch, import_it):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "edited_since.py").write_text("SCALE = 1\ndef scaled(x):\n    return SCALE * x\n")
    importlib.invalidate_caches()
    module = importlib.import_module("edited_since")
    monkeypatch.setattr(module, "SCALE", 2)  # by hand, on no disk
    (tmp_path / "edited_since.py").write_text("SCALE = 3\ndef scaled(x):\n    return -SCALE * x\n")
    task = module.scaled if import_it else (lambda x: module.scaled(x))
    with executors.pool(2) as pool:
        assert pool.submit(task, 5).result() == 10
    monkeypatch.delitem(importlib.import_module("sys").modules, "edited_since")
