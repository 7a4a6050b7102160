"""The page of the library: its examples run as they are printed, and its names exist."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import loop
from PIL import Image

from dmlrc import losses

PAGE = (Path(__file__).parents[2] / "book" / "api.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

sys.path.insert(0, str(Path(__file__).parents[2] / "book" / "_ext"))
docstrings = importlib.import_module("docstrings")


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Four classes of three photographs in the folder that the examples read."""
    rng = np.random.default_rng(0)
    for name in "abcd":
        (tmp_path / "photos" / name).mkdir(parents=True)
        for place in range(3):
            Image.fromarray(rng.integers(0, 255, (40, 60, 3), dtype=np.uint8)).save(
                tmp_path / "photos" / name / f"{place}.png"
            )
    monkeypatch.chdir(tmp_path)


def test_a_training_loop_of_ones_own(photos, capsys):
    exec(EXAMPLES[0].replace("224", "64"), {})  # pixels, a twelfth of the time
    values = list(map(float, capsys.readouterr().out.split()))
    assert len(values) == 3
    assert all(0 < value < 100 for value in values)


def test_an_evaluation_of_ones_own_embeddings(capsys):
    exec(EXAMPLES[1], {})
    said = capsys.readouterr().out
    assert re.search(r"precision_at_1  0\.\d{3}\n", said)
    assert "hardest class: " in said


def test_examples_are_short_and_fit_the_page():
    assert len(EXAMPLES) == 2
    for example in EXAMPLES:
        lines = example.splitlines()
        assert max(map(len, lines)) <= 90
        assert sum(bool(line.strip()) and not line.startswith(("import", "from")) for line in lines) <= 20


@loop("name", re.findall(r"auto(?:function|class):: (\S+)", PAGE))
def test_every_name_on_the_page_has_a_docstring(name):
    module, _, attribute = name.rpartition(".")
    assert getattr(importlib.import_module(module), attribute).__doc__


def test_every_loss_is_found_where_the_page_looks():
    for cls in losses.REGISTRY.values():
        assert getattr(importlib.import_module(cls.__module__), cls.__name__) is cls


def test_a_docstring_becomes_text_that_keeps_its_signs_and_lines():
    full = "x" * 105
    lines = ["A |x|_i of `names`.", "", full, "flows on", "short", "    formula*", "", ">>> 1 + 1", "2", ""]
    docstrings.as_text(None, "", "", None, None, lines)
    assert lines == [
        r"| A \|x\|\_i of ``names``.",
        "",
        f"| {full} flows on",
        "| short",
        r"|     formula\*",
        "",
        ">>> 1 + 1",
        "2",
        "",
    ]
