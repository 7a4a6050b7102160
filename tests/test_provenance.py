"""What a record says of the machine that made it."""

import importlib.util
import shutil
import subprocess
from importlib.metadata import version

import pytest
import torch

from dmlrc import plan, records, studies, unit
from dmlrc.records import provenance


@pytest.mark.parametrize("name", ["cpu", "mps"])
def test_the_device_that_trained_is_named(name):
    assert provenance.environment(torch.device(name))["device"] == name


def test_a_record_says_where_it_was_made_and_with_which_torch(monkeypatch):
    monkeypatch.setattr(unit, "device", lambda: torch.device("mps"))
    study = studies.get("glyphs-smoke")
    [asked] = plan.next_units(study, plan.Chain(study.methods[0]))
    record = unit.failed(asked, "made to fail")
    assert (record["device"], record["torch"]) == ("mps", version("torch"))
    records.write_unit(record, study.name)


def test_the_commit_is_not_that_of_a_project_in_which_the_package_is_installed(tmp_path):
    package = tmp_path / ".venv" / "dmlrc"
    package.mkdir(parents=True)
    shutil.copy(provenance.__file__, package)
    (tmp_path / ".gitignore").write_text(".venv")
    author = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    for arguments in (("init", "--quiet"), ("add", "."), (*author, "commit", "--quiet", "--message=theirs")):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    spec = importlib.util.spec_from_file_location("installed_provenance", package / "provenance.py")
    installed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(installed)
    assert installed.commit().startswith("dmlrc ")
