"""What a method was: what changes its fingerprint, what does not, and what is said of a change."""

import array
import functools
import importlib
import io
import json
import logging
import os
import subprocess
import sys
import threading
import types
from collections import deque
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from cases import in_a_cell, loop
from pytorch_metric_learning import losses as pml

from dmlrc import losses, studies
from dmlrc.methods import Float, Int, Method
from dmlrc.papers import musgrave2020
from dmlrc.records import fingerprint

SOURCE = """
import torch.nn.functional as F
SCALE = 2.0
TABLE = {"a": [1, 2]}

def helper(x):
    return SCALE * x

def loss(embeddings, labels, margin=0.5):
    def inner(x):
        return helper(x) + TABLE["a"][0]
    return F.relu(inner(embeddings)).sum() + margin

class Base:
    weight = 3
    def forward(self, x):
        return helper(x)

class Loss(Base):
    def __init__(self, margin=0.5):
        self.margin = margin
    @property
    def half(self):
        return self.margin / 2
    def __call__(self, embeddings, labels):
        return self.forward(embeddings).sum() + self.half
"""


def of(source, name="loss", **changes):
    return fingerprint.fingerprint_of(Method("mine", in_a_cell(source, name), **changes))


@pytest.mark.parametrize("name", ["loss", "Loss"])
@pytest.mark.parametrize(
    ("old", "new"), [("SCALE * x", "SCALE + x"), ("SCALE = 2.0", "SCALE = 2.5"), ("margin=0.5", "margin=0.6")]
)
def test_what_the_loss_runs_and_reads_decides(name, old, new):
    changed = of(SOURCE.replace(old, new), name)
    assert fingerprint.differences(of(SOURCE, name), changed) == ["the source of its loss"]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("loss", "[1, 2]", "[3, 2]"),
        ("loss", 'TABLE["a"][0]', 'TABLE["a"][1]'),
        ("loss", "F.relu", "F.gelu"),
        ("Loss", "weight = 3", "weight = 4"),
        ("Loss", "self.margin / 2", "self.margin / 3"),
        ("Loss", "self.margin = margin", "self.margin = -margin"),
    ],
)
def test_classes_bases_inner_functions_and_values_belong_to_it(name, old, new):
    assert fingerprint.differences(of(SOURCE, name), of(SOURCE.replace(old, new), name)) == ["the source of its loss"]


@pytest.mark.parametrize("others", ["b, a", "a, *, b", "a, b, /", "a, *b", "a, **b", "a, b, *rest", "a, b, **rest"])
def test_order_kind_and_count_of_arguments_belong_to_it(others):
    source = "def weigh({}):\n    return a + 2 * b\n\ndef loss(e, l):\n    return weigh(e.sum(), e.mean())"
    assert fingerprint.differences(of(source.format("a, b")), of(source.format(others))) == ["the source of its loss"]


HELD = """
from collections import OrderedDict
from types import MappingProxyType, SimpleNamespace

from torch import nn

ITEMS = [("a", nn.ReLU()), ("b", nn.Tanh())]
HELD = {}

def loss(embeddings, labels):
    return HELD
"""


@pytest.mark.parametrize(
    "held",
    ["dict(ITEMS)", "MappingProxyType(dict(ITEMS))", "OrderedDict(ITEMS)", "nn.Sequential(OrderedDict(ITEMS))"],
)
def test_the_order_of_a_dictionary_belongs_to_it(held):
    old, new = of(HELD.format(held)), of(HELD.format(held.replace("ITEMS", "ITEMS[::-1]")))
    assert fingerprint.differences(old, new) == ["the source of its loss"]


def test_the_order_of_attributes_does_not():
    """They are in the order in which they were last made, as by a cache."""
    held = "SimpleNamespace(**dict({}))"
    assert of(HELD.format(held.format("ITEMS"))) == of(HELD.format(held.format("ITEMS[::-1]")))


def test_comments_docstrings_layout_and_what_is_not_used_do_not():
    text = SOURCE.replace("    return SCALE * x", "    # why\n\n    return (SCALE *\n        x)") + "\nunused = 3\n"
    for name in ("loss", "Loss"):
        assert of(text, name) == of(SOURCE, name)
    documented = "def loss(e, l):\n    'what it does'\n    return e.sum()"
    assert of(documented) == of(documented.replace("what it does", "what it really does"))


WRAPPED = """
import contextvars
import functools
import weakref
from collections import defaultdict

import numpy as np
import torch
from pytorch_metric_learning import losses as pml

KEPT = {}

def made(power):
    def loss(embeddings, labels):
        return (embeddings**power).sum()

    return loss

class Holder:
    def __init__(self, power):
        self.power = power

    def loss(self, embeddings, labels):
        return embeddings.sum() * self.power
"""


@loop(
    "wrapped",
    [
        "made(power)",
        "functools.partial(made(1), power=power)",
        "Holder(power).loss",
        "torch.enable_grad()(made(power))",
        "pml.ContrastiveLoss(pos_margin=power)",
        "functools.partial(made, torch.full((2,), power))",
        "functools.partial(made, np.full(2, power))",
        "functools.cache(made(power))",
        "functools.partial(made, np.frompyfunc(made(power), 1, 1))",
        "functools.partial(made, (each * power for each in (1, 2)))",
        "functools.partial(made, weakref.ref(KEPT.setdefault(power, made(power))))",
        "functools.partial(made, contextvars.ContextVar('power', default=power))",
        "functools.partial(made, defaultdict(made(power)))",
        "functools.partial(made, type('Table', (dict,), {'__missing__': made(power)})())",
        "functools.partial(made, type('Number', (float,), {'half': made(power)})(1))",
        "functools.partial(made, {1: power, '1': 5, Holder: 6, made(3): 7})",
        "functools.partial(made, torch.jit.CompilationUnit(f'def g(x):\\n    return x * {power}\\n').g)",
    ],
)
def test_closures_partials_bound_methods_and_decorators_are_seen_through(wrapped):
    scope = {"__name__": "__main__"}  # of a notebook: all of a file belongs to its losses, and is read each time
    exec(f"{WRAPPED}\ndef wrap(power):\n    return {wrapped}", scope)
    one, same, other = (fingerprint.fingerprint_of(Method("mine", scope["wrap"](power))) for power in (1.0, 1.0, 2.0))
    assert one == same
    assert fingerprint.differences(one, other) == ["the source of its loss"]


def test_a_module_that_is_loaded_by_the_first_look_changes_nothing_at_the_second(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "loaded_late.py").write_text("HALF = 0.5\n")
    (tmp_path / "by_its_name.py").write_text(
        "import importlib\n\n\ndef get(name):\n    return importlib.import_module(name)\n\n\n"
        "def loss(embeddings, labels):\n    return embeddings.sum() * get('loaded_late').HALF\n\n\n"
        "def warm():\n    importlib.import_module('loaded_late')\n"
    )
    of_file = Method("mine", importlib.import_module("by_its_name").loss)
    assert "loaded_late" not in sys.modules
    first = fingerprint.fingerprint_of(of_file)
    assert "loaded_late" in sys.modules
    assert fingerprint.fingerprint_of(of_file) == first


def test_all_that_a_file_defines_belongs_to_its_losses_however_they_reach_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    told = []
    for power in (2, 3, 3):
        (tmp_path / "by_the_frame.py").write_text(
            f"import inspect  # {'!' * len(told)}\n\n\ndef power(x):\n    return x**{power}\n\n\n"
            "def loss(embeddings, labels):\n"
            "    return getattr(inspect.getmodule(inspect.currentframe()), 'power')(embeddings).sum()\n"
        )
        sys.modules.pop("by_the_frame", None)
        importlib.invalidate_caches()
        told.append(fingerprint.fingerprint_of(Method("mine", importlib.import_module("by_the_frame").loss)))
    assert told[1] == told[2]
    assert fingerprint.differences(told[0], told[1]) == ["the source of its loss"]


def test_a_file_beside_the_notebook_belongs_to_it_as_it_was_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "of_mine.py"
    told = []
    for body in ("x + 1", "x + 2"):
        file.write_text(f"def helper(x):\n    return {body}  # {'!' * len(told)}\n")
        sys.modules.pop("of_mine", None)
        importlib.invalidate_caches()
        told.append(of("import of_mine\ndef loss(e, l):\n    return of_mine.helper(e).sum()"))
        told.append(of("def loss(e, l):\n    import of_mine\n    return of_mine.helper(e).sum()"))
    assert told[0]["loss"] != told[2]["loss"]
    assert told[1]["loss"] != told[3]["loss"]
    file.write_text("def helper(x):\n    return x + 3\n")  # edited, but not yet imported again: the old one would run
    assert of("import of_mine\ndef loss(e, l):\n    return of_mine.helper(e).sum()") == told[2]


WAYS = {  # to reach `hinge` of pack/margins.py
    "a module of a package": ("import pack.margins", "pack.margins.hinge(e)"),
    "a name of it": ("from pack.margins import hinge as h", "h(e)"),
    "a module in a default": ("import pack.margins", "m.hinge(e)", ", m=pack.margins"),
    "a module in a dict": ("import pack.margins\nUSED = {'m': pack.margins}", "USED['m'].hinge(e)"),
    "a module in a class attribute": ("import pack.margins\nclass A:\n    m = pack.margins", "A.m.hinge(e)"),
    "a metaclass": ("from pack.margins import Meta\nclass A(metaclass=Meta):\n    pass", "A.hinge(e)"),
    "getattr": ("import pack.margins", "getattr(pack.margins, 'hin' + 'ge')(e)"),
    "importlib": ("import importlib", "importlib.import_module('pack.margins').hinge(e)"),
    "what was loaded before": ("import sys, pack.margins", "sys.modules['pack.margins'].hinge(e)"),
    "an import in the function": ("", "__import__('pack.margins').margins.hinge(e)"),
    "a file that imports it": ("import pack.other", "pack.other.used(e)"),
    "a star": ("from pack.margins import *", "hinge(e)"),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_file_that_a_loss_imports_belongs_to_it(way, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a file of the same second and size counts as the same
    first, body, *default = WAYS[way]
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    (tmp_path / "pack" / "other.py").write_text("from . import margins\ndef used(x):\n    return margins.hinge(x)\n")
    (tmp_path / "mine.py").write_text(f"{first}\ndef loss(e, y{''.join(default)}):\n    return {body}\n")
    told = []
    for scale in (1, 1, 2):
        (tmp_path / "pack" / "margins.py").write_text(
            f"SCALE = {scale}\ndef hinge(x):\n    return SCALE * x\n"
            "class Meta(type):\n    def hinge(cls, x):\n        return SCALE * x\n"
        )
        for name in [name for name in sys.modules if name in ("mine", "pack") or name.startswith("pack.")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        told.append(fingerprint.fingerprint_of(Method("mine", importlib.import_module("mine").loss)))
    assert told[0] == told[1]
    assert fingerprint.differences(told[1], told[2]) == ["the source of its loss"]


INSIDE = {  # ways to reach it from parcel/mine.py that only a call comes to
    "a relative import": "from .margins import hinge\n    return hinge(e)",
    "a module of the package": "from . import margins\n    return margins.hinge(e)",
    "a module that a package lists": "from parcel import margins\n    return margins.hinge(e)",
    "a relative name": "import importlib\n    return importlib.import_module('.margins', __package__).hinge(e)",
    "a package that loads it when asked": "import parcel\n    return parcel.late.hinge(e)",
    "a name between underscores": "from . import margins\n    return margins.__scale__ * e",
    "a file called as one of Python's": "import cmd\n    return cmd.SCALE * e",
}


@loop("way", INSIDE)
def test_what_is_imported_at_a_call_belongs_to_it(way, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    home = tmp_path / way.replace(" ", "_")
    (home / "parcel").mkdir(parents=True)
    late = "def __getattr__(name):\n    if name == 'late':\n        from . import margins\n        return margins\n"
    (home / "parcel" / "__init__.py").write_text(f"{late}    raise AttributeError(name)\n")
    (home / "parcel" / "mine.py").write_text(f"def loss(e, y):\n    {INSIDE[way]}\n")
    monkeypatch.syspath_prepend(home)
    kept = {name: sys.modules.pop(name) for name in ["cmd"] if name in sys.modules}
    told = []
    for scale in (1, 1, 2):
        text = f"SCALE = __scale__ = {scale}\ndef hinge(x):\n    return SCALE * x\n"
        for file in ("parcel/margins.py", "cmd.py"):
            (home / file).write_text(text)
        importlib.invalidate_caches()
        told.append(fingerprint.fingerprint_of(Method("mine", importlib.import_module("parcel.mine").loss)))
        for name in [name for name in sys.modules if name in ("parcel", "cmd") or name.startswith("parcel.")]:
            del sys.modules[name]
    sys.modules.update(kept)
    assert told[0] == told[1]
    assert fingerprint.differences(told[1], told[2]) == ["the source of its loss"]


BY_WORDS = ["globals()['TABLE']", "eval('TABLE')", "getattr(sys.modules[__name__], 'TABLE')", "main.TABLE"]


HIDDEN = {"In": 0, "get_ipython": 0}  # as in IPython, where neither is the reader's


@loop("words", BY_WORDS)
def test_what_a_notebook_finds_by_words_belongs_to_it(words, monkeypatch):
    told = []
    for size, line in ((1, "1 + 1"), (1, "2 + 2"), (2, "2 + 2")):
        main = types.ModuleType("__main__")
        vars(main).update(main=main, In=[line], get_ipython=lambda: types.SimpleNamespace(user_ns_hidden=HIDDEN))
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "__main__", main)
            exec(f"import sys\nTABLE = {size}\ndef loss(e, y):\n    return e.sum() * {words}", vars(main))
            told.append(fingerprint.fingerprint_of(Method("mine", main.loss)))
    assert told[0] == told[1]
    assert fingerprint.differences(told[1], told[2]) == ["the source of its loss"]


@loop("made", ["np.random.default_rng()", "random.Random()", "np.random.RandomState()"])
def test_a_generator_that_a_file_makes_is_another_in_each_process(made):
    source = f"import random\nimport numpy as np\nMADE = {made}\ndef loss(e, y):\n    return e.sum()"
    one, other = ({"__name__": "file_mine"} for _ in range(2))
    exec(source, one)
    exec(source, other)
    assert fingerprint.code(one["loss"]) == fingerprint.code(other["loss"])


NOTEBOOK = {"__name__": "__main__"}
exec(
    """
import functools

class Slotted:
    __slots__ = ("margin",)

    def __init__(self, margin):
        self.margin = margin

def loss_with(value):
    return functools.partial(lambda e, y, value: e.sum(), value=value)
""",
    NOTEBOOK,
)
Slotted, loss_with = NOTEBOOK["Slotted"], NOTEBOOK["loss_with"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.Generator().manual_seed(3),
        lambda: deque([{"a", "b", "c", "d"}]),
        lambda: Slotted(0.5),
        lambda: np.random.default_rng(3),
        lambda: logging.getLogger("mine"),
        threading.Lock,
        lambda: io.TextIOWrapper(io.BytesIO()),
        lambda: np.array([Slotted(0.5), {"a"}], dtype=object),
        lambda: pd.DataFrame({"a": [{"x"}, "y"]}),
        lambda: array.array("d", [1.0]),
        lambda: memoryview(b"abc"),
        lambda: torch.eye(2).to_sparse(),
        lambda: torch.empty(2, device="meta"),
        lambda: functools.singledispatch(loss_with),
    ],
)
def test_what_a_loss_holds_is_the_same_each_time(make):
    value = make()
    told = fingerprint.fingerprint_of(Method("mine", loss_with(value)))
    if hasattr(value, "initial_seed"):
        torch.rand(3, generator=value)
    if hasattr(value, "dispatch"):
        value(torch.ones(1))
    assert (
        fingerprint.fingerprint_of(Method("mine", loss_with(value)))
        == told
        == fingerprint.fingerprint_of(Method("mine", loss_with(make())))
    )
    assert fingerprint.fingerprint_of(Method("mine", loss_with(Slotted(0.6)))) != told


def test_a_loss_of_a_package_is_known_by_its_version(monkeypatch):
    told = fingerprint.fingerprint_of(Method("pml", pml.InstanceLoss, {"gamma": Float(1, 2)}))
    assert told["loss"] == "pytorch_metric_learning.losses.instance_loss.InstanceLoss"
    assert list(told["packages"]) == ["pytorch-metric-learning"]
    assert "python" not in told
    older = told | {"packages": {"pytorch-metric-learning": "1.0"}}
    (said,) = fingerprint.differences(older, told)
    assert said.startswith("pytorch-metric-learning 1.0 -> ")
    used = of("from pytorch_metric_learning import losses\ndef loss(e, l):\n    return losses.TupletMarginLoss()(e, l)")
    assert used["packages"] == told["packages"]


def test_the_librarys_own_losses_are_names_whatever_their_code():
    for loss in ("contrastive", losses.REGISTRY["contrastive"]):
        told = fingerprint.fingerprint_of(Method("mine", loss))
        assert told["loss"] in ("contrastive", "dmlrc.losses.contrastive.Contrastive")
        assert fingerprint.is_of_library(told)
        assert fingerprint.differences(None, told) == []
    assert fingerprint.differences(None, of(SOURCE)) != []
    for each in studies.STUDIES.values():
        assert all(fingerprint.is_of_library(fingerprint.fingerprint_of(method)) for method in each.methods)


def test_spaces_settings_batches_and_changes_are_named_with_both_values():
    method = Method("mine", "triplet", {"margin": Float(0, 1), "k": Int(1, 5)}, {"beta": 1.2})
    told = fingerprint.fingerprint_of(method)
    for changes, says in (
        ({"space": {"margin": Float(0.5, 1), "k": Int(1, 5)}}, "its search space (margin 0 to 1 -> 0.5 to 1)"),
        ({"space": {"margin": Float(0, 1)}}, "its search space (k whole numbers from 1 to 5 -> none)"),
        ({"settings": {"beta": 1.3}}, "its settings (beta 1.2 -> 1.3)"),
        ({"classes_per_batch": 4}, "its batches (classes_per_batch 8 -> 4)"),
        ({"sampler": "random"}, "its batches (sampler none -> random)"),
        ({"weight_decay": 0.0}, "its training (weight_decay none -> 0.0)"),
        ({"changes": {"embedding_dim": 64}}, "what it changes of the protocol (embedding_dim none -> 64)"),
    ):
        assert fingerprint.differences(told, fingerprint.fingerprint_of(replace(method, **changes))) == [says]
    alike = replace(method, name="other", label="Other", year=2000, reference="nobody2000", row="other")
    assert fingerprint.fingerprint_of(alike) == told
    older = json.loads(json.dumps(told))
    older["batches"].pop("sampler")  # a field that is younger than the record
    assert fingerprint.differences(older, told) == []


def test_it_is_the_same_in_another_process():
    code = (
        "from dmlrc.records import fingerprint; from dmlrc.methods import Method; import os, numpy as np\n"
        "HELD = iter({'a', 'b', 'c'}), np.array(['a', 'b'], dtype=object), os.environ\n"
        "def loss(e, l):\n    return HELD, sum(x in {'a', 'b', 'c'} for x in 'abc') * (lambda y: y)(e).sum()\n"
        "print(fingerprint.fingerprint_of(Method('mine', loss)))"
    )
    seeds = [os.environ | {"PYTHONHASHSEED": seed} for seed in "12"]
    told = {subprocess.run([sys.executable, "-c", code], env=e, capture_output=True, text=True).stdout for e in seeds}
    assert len(told) == 1
    assert "code" in told.pop()


def test_another_python_is_named_where_the_code_is_ones_own():
    told = of(SOURCE)
    assert fingerprint.differences(told | {"python": "3.9"}, told)[0].startswith("Python 3.9 -> ")
    built_in = fingerprint.fingerprint_of(musgrave2020.METHODS[0])
    assert "python" not in built_in


def test_a_sampler_of_ones_own_is_known_by_its_code():
    def cell(sampler):
        return in_a_cell(f"sampler = {sampler}", "sampler")  # one of this file brings all that the file imports

    plain = Method("mine", "triplet")
    one, other = (replace(plain, sampler=each) for each in (cell("lambda *_: iter([0])"), cell("lambda *_: iter([1])")))
    assert fingerprint.differences(fingerprint.fingerprint_of(one), fingerprint.fingerprint_of(one)) == []
    (said,) = fingerprint.differences(fingerprint.fingerprint_of(one), fingerprint.fingerprint_of(other))
    assert "sampler <lambda>" in said
    assert fingerprint.differences(fingerprint.fingerprint_of(plain), fingerprint.fingerprint_of(one)) != []
    assert fingerprint.fingerprint_of(replace(plain, sampler="random"))["batches"]["sampler"] == "random"
