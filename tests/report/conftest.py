"""Fixtures of the tests of pages."""

import pytest
from drawings import without_a_file

from dmlrc.errors import MissingDataError
from dmlrc.report import svg
from dmlrc.report.hypotheses import measures


@pytest.fixture(scope="session")
def stand_in():
    """Puts studies by name in the place of the records on the disk."""

    def put(found, monkeypatch):
        def load(name):
            if name not in found:
                raise MissingDataError(name)
            return found[name]

        monkeypatch.setattr(measures.records, "load", load)
        return found

    return put


@pytest.fixture
def recorded(stand_in, monkeypatch):
    """Studies by name, which stand in the place of the records on the disk."""
    return stand_in({}, monkeypatch)


@pytest.fixture
def without_pictures(monkeypatch):
    """Figures are drawn, and no picture of them is written."""
    monkeypatch.setattr(svg, "to_svg", without_a_file)
