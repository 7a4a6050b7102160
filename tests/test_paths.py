"""Where things lie, as the environment says it."""

import errno
import json
import os
import sys
from pathlib import Path

import filelock
import pytest
import torch

from dmlrc import data, paths
from dmlrc.errors import DmlrcError, UsageError


@pytest.mark.parametrize(("name", "where"), [("DMLRC_RUNS", paths.runs), ("DMLRC_HOME", paths.home)])
def test_a_variable_may_begin_with_the_users_home_and_an_empty_one_is_none(name, where, monkeypatch):
    monkeypatch.delenv(name, raising=False)
    unset = where()
    monkeypatch.setenv(name, "")
    assert where() == unset
    monkeypatch.setenv(name, "~/studies")
    assert where() == Path.home() / "studies"


def test_the_home_is_the_clone_and_elsewhere_the_folder_of_the_call(monkeypatch, tmp_path):
    monkeypatch.delenv("DMLRC_HOME")
    assert paths.home() == Path(__file__).parents[1]
    monkeypatch.setattr(paths, "_CHECKOUT", tmp_path / "site-packages")
    monkeypatch.chdir(tmp_path)
    assert paths.home() == tmp_path


def test_the_home_of_a_user_who_is_not_known_is_told_in_a_sentence(monkeypatch):
    calls = {"DMLRC_RUNS": paths.runs, "DMLRC_CACHE": paths.cache, "DMLRC_DATA": lambda: data.load("cub200")}
    for name, call in calls.items():
        with monkeypatch.context() as patch:
            patch.setenv(name, "~nobody-of-this-name/x")
            with pytest.raises(UsageError, match=r"^~nobody-of-this-name/x begins with the folder of a user"):
                call()


@pytest.mark.parametrize(
    "file", [json.__file__, torch.__file__, paths.__file__, "/usr/lib/python3/dist-packages/six.py"]
)
def test_what_is_installed_is_not_the_readers_own(file):
    assert not paths.is_own(file)


def test_a_file_beside_an_installation_is_the_readers_own(tmp_path):
    """As /usr/local/work in a container whose Python lies in /usr/local: its edits count, and workers get its code."""
    assert paths.is_own(str(tmp_path / "mine.py"))
    assert paths.is_own(str(Path(sys.prefix) / "work" / "mine.py"))


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_comes_while_another_of_its_name_is_written_stays(tmp_path, monkeypatch, links):
    def linked(*_):
        raise PermissionError("this disk knows no links")

    if not links:
        monkeypatch.setattr(os, "link", linked)
    target = tmp_path / "out.csv"
    with paths.new_target(target) as new:
        new.write_text("new")
    assert target.read_text() == "new"
    target = tmp_path / "late"
    with pytest.raises(UsageError, match="nothing is overwritten"), paths.new_target(target) as new:
        target.write_text(str(new.write_text("new")))
    assert target.read_text() == "3"


def test_a_file_that_comes_at_the_last_moment_stays(tmp_path, monkeypatch):
    link, target = os.link, tmp_path / "out.csv"
    monkeypatch.setattr(os, "link", lambda *given: target.write_text("theirs") and link(*given))
    with pytest.raises(DmlrcError, match="File exists"), paths.new_target(target) as new:
        new.write_text("new")
    assert target.read_text() == "theirs"


def test_a_folder_takes_the_place_of_an_empty_one_alone_and_of_no_link_or_pipe(tmp_path):
    (tmp_path / "empty").mkdir()
    with paths.new_target(tmp_path / "empty") as new:
        new.mkdir()
        (new / "a").write_text("")
    assert (tmp_path / "empty" / "a").exists()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    for name in ("empty", "link", "pipe"):
        with pytest.raises(UsageError, match="nothing is overwritten"):
            paths.check_new(tmp_path / name)


def test_where_a_folder_knows_no_locks_work_goes_on(tmp_path, monkeypatch):
    def refuse(code):
        def acquire(*_, **__):
            raise OSError(code, "no")

        return acquire

    for code in (errno.ENOTSUP, errno.ENOLCK):
        monkeypatch.setattr(filelock.FileLock, "acquire", refuse(code))
        with paths.kept(tmp_path / ".lock", "another process"):
            pass
    monkeypatch.setattr(filelock.FileLock, "acquire", refuse(errno.EACCES))
    with pytest.raises(OSError, match="no"), paths.kept(tmp_path / ".lock", "another process"):
        pass
