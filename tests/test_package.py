"""The package as it is imported: its parts by attribute, nothing loaded before it is asked for."""

import subprocess
import sys

SCRIPT = """
import sys
import dmlrc
print('torch' in sys.modules, dmlrc.__version__)
print(dmlrc.data.names()[0], dmlrc.models.names()[0], 'torch' in sys.modules)
print(dmlrc.losses.names()[0], dmlrc.metrics.names()[0], 'torch' in sys.modules)
print(sorted({'data', 'losses', 'metrics', 'models', 'study', 'studies'} - set(dir(dmlrc))))
"""


def test_parts_are_attributes_and_load_when_they_are_used():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    told = [line.split() for line in done.stdout.splitlines()]
    assert told[0][0] == "False"
    assert told[0][1][0].isdigit()
    assert told[1] == ["glyphs", "conv4", "False"]
    assert told[2] == ["contrastive", "precision_at_1", "True"]
    assert told[3] == ["[]"]
