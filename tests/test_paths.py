"""Where things lie, as the environment says it."""

from pathlib import Path

import pytest

from dmlrc import paths


@pytest.mark.parametrize(("name", "where"), [("DMLRC_RUNS", paths.runs), ("DMLRC_HOME", paths.home)])
def test_a_variable_may_begin_with_the_users_home_and_an_empty_one_is_none(name, where, monkeypatch):
    monkeypatch.delenv(name, raising=False)
    unset = where()
    monkeypatch.setenv(name, "")
    assert where() == unset
    monkeypatch.setenv(name, "~/studies")
    assert where() == Path.home() / "studies"
