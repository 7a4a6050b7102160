"""The package as a new process imports it: parts by attribute, nothing loaded before it is asked for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

SCRIPT = """
import sys
import dmlrc
print('torch' in sys.modules, dmlrc.__version__)
print(dmlrc.data.names()[0], dmlrc.models.names()[0], 'torch' in sys.modules)
print(dmlrc.losses.names()[0], dmlrc.metrics.names()[0], 'torch' in sys.modules)
print(sorted({'data', 'losses', 'metrics', 'models', 'study', 'studies'} - set(dir(dmlrc))))
import small_units, torch
dmlrc.data.load = lambda *_, **__: small_units.PHOTOGRAPHS
print(small_units.run(small_units.IMAGES, small_units.CONTRASTIVE)['state'], 'torch._dynamo' in sys.modules)
sys.modules['torch._dynamo'] = None  # who imports it from now on fails, without the seconds that it takes
try:
    torch.use_deterministic_algorithms(False)
except ImportError as error:
    print(error.name.startswith('torch._dynamo'))
"""


@pytest.fixture(scope="module")
def told():
    """The words of each line that a new process prints, which takes seconds to load torch."""
    place = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)]), "DMLRC_DEVICE": "cpu"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=place, capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


def test_parts_are_attributes_and_load_when_they_are_used(told):
    assert told[0][0] == "False"
    assert told[0][1][0].isdigit()
    assert told[1] == ["glyphs", "conv4", "False"]
    assert told[2] == ["contrastive", "precision_at_1", "True"]
    assert told[3] == ["[]"]


def test_a_unit_needs_no_compiler(told):
    """Importing torch._dynamo costs seconds in each worker; torch's own optimisers and some of its settings do."""
    assert told[4:] == [["complete", "False"], ["True"]]
