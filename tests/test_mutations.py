"""The list of `mutations.py` is that of the code of today; `make mutations` makes them."""

from pathlib import Path

import mutations


def test_every_mutation_can_be_made():
    for each in mutations.MUTATIONS:
        assert (mutations.ROOT / each.file).read_text(encoding="utf-8").count(each.old) == 1, each.name
        assert each.old != each.new, each.name
        files = [name for name in each.tests if name.endswith(".py")]
        assert files, each.name
        assert all(Path(mutations.ROOT, name).exists() for name in files), each.name
    assert len({each.name for each in mutations.MUTATIONS}) == len(mutations.MUTATIONS) >= 30
