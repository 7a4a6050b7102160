"""Fixtures of the tests of pages."""

import pytest

from dmlrc.errors import MissingDataError
from dmlrc.report.hypotheses import measures


@pytest.fixture
def recorded(monkeypatch):
    """Studies by name, which stand in the place of the records on the disk."""
    found = {}

    def load(name):
        if name not in found:
            raise MissingDataError(name)
        return found[name]

    monkeypatch.setattr(measures.records, "load", load)
    return found
