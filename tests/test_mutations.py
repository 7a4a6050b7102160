"""The list of `mutations.py` is that of the code of today; `make mutations` makes them."""

import ast
import builtins
import functools
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


@functools.cache
def names(text):
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def test_a_mutation_is_code_of_names_that_its_file_has():
    """Else it is caught for a NameError, whatever it was to show."""
    for each in mutations.MUTATIONS:
        text = (mutations.ROOT / each.file).read_text(encoding="utf-8")
        if each.file.endswith(".py"):
            assert names(text.replace(each.old, each.new)) <= names(text) | vars(builtins).keys(), each.name
