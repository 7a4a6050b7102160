"""Where things lie, as the environment says it."""

import json
import sys
from pathlib import Path

import pytest
import torch

from dmlrc import paths


@pytest.mark.parametrize(("name", "where"), [("DMLRC_RUNS", paths.runs), ("DMLRC_HOME", paths.home)])
def test_a_variable_may_begin_with_the_users_home_and_an_empty_one_is_none(name, where, monkeypatch):
    monkeypatch.delenv(name, raising=False)
    unset = where()
    monkeypatch.setenv(name, "")
    assert where() == unset
    monkeypatch.setenv(name, "~/studies")
    assert where() == Path.home() / "studies"


@pytest.mark.parametrize(
    "file", [json.__file__, torch.__file__, paths.__file__, "/usr/lib/python3/dist-packages/six.py"]
)
def test_what_is_installed_is_not_the_readers_own(file):
    assert not paths.is_own(file)


def test_a_file_beside_an_installation_is_the_readers_own(tmp_path):
    """As /usr/local/work in a container whose Python lies in /usr/local: its edits count, and workers get its code."""
    assert paths.is_own(str(tmp_path / "mine.py"))
    assert paths.is_own(str(Path(sys.prefix) / "work" / "mine.py"))
