"""What the numbers of a page were made of."""

import json
from dataclasses import replace

import pytest
from factories import fake_records

from dmlrc.report import about, inventory


@pytest.fixture
def mixed():
    """Records of a study that was made by two commits on two machines, and of which the oldest do not say where.

    The second machine has a GPU and another torch.
    """
    found = fake_records()
    trials = found.trials.copy()
    trials["processor"] = None
    later = {"commit": "1111111111", "processor": "another machine", "device": "a GPU", "torch": "2.16.0"}
    for column, value in later.items():
        trials.loc[trials["method"] == "triplet", column] = value
    packages = {"torch": "2.15.0", "numpy": "2.5.5"}
    meta = found.meta | {"environment": found.meta["environment"] | {"packages": packages}}
    return replace(found, trials=trials, meta=meta)


def test_records_of_one_commit_name_it_once():
    found = fake_records()
    assert about.environments(found, "commit") == "0000000000"
    assert about.environments(found, "processor") == "none"


def test_every_device_and_torch_of_the_rows_is_named(mixed):
    row = about.row(mixed)
    assert row["machine"].endswith(", 1 core, cpu (14 methods); a GPU (Triplet)")
    assert row["with"] == "torch 2.15.0 (14 methods); 2.16.0 (Triplet), numpy 2.5.5"
    told = inventory.provenance([mixed])[mixed.name]
    assert (told["device"], told["numpy"]) == ("cpu (14 methods); a GPU (Triplet)", "2.5.5")
    assert told["torch"] == "2.15.0 (14 methods); 2.16.0 (Triplet)"


def test_the_budget_of_a_table_and_of_an_experiment_without_a_search():
    found = fake_records(trials=3, reruns=1)
    assert about.row(found)["budget"] == "fake: 1 search of 3 trials, 1 rerun each, 4 folds"
    budget = found.meta["budget"] | {"trials": 0, "reruns": 5}
    alone = replace(found, meta=found.meta | {"budget": budget, "protocol": found.meta["protocol"] | {"folds": 0}})
    assert about.row(alone)["budget"] == "fake: no search, 1 of 5 runs a row, no folds"


def test_rows_of_an_experiment_go_by_their_labels(mixed):
    rows = {"triplet": "proxy_nca@resnet18-random"}
    frames = {name: getattr(mixed, name).replace({"method": rows}) for name in ("trials", "reruns")}
    meta = mixed.meta | {"study": "cub200-2010-frozen/roth2020/trunks"}
    told = about.environments(replace(mixed, **frames, meta=meta), "commit")
    assert told.endswith("1111111111 (Pnca (ResNet18-random))")


def test_every_commit_and_processor_of_the_rows_is_named(mixed):
    assert about.environments(mixed, "commit") == "0000000000 (14 methods); 1111111111 (Triplet)"
    assert about.environments(mixed, "processor") == "none (14 methods); another machine (Triplet)"
    told = inventory.provenance([mixed])[mixed.name]
    assert "1111111111 (Triplet)" in told["commit"]
    assert "another machine" in told["processor"]
    assert "1111111111" in json.dumps(about.study_table("fork_a_loss", [mixed]).to_dict())


def test_a_page_is_cited_as_its_citation_file_says_and_by_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(tmp_path))
    assert "title" not in about.bibtex()
    text = "title: A book\nauthors:\n  - name: The authors\n  - {family-names: Roe, given-names: Jo}\n"
    (tmp_path / "CITATION.cff").write_text(text)
    assert "  title = {A book},\n  author = {{The authors} and Roe, Jo},\n  note = {commit" in about.bibtex()
    (tmp_path / "CITATION.cff").write_text(text + "date-released: 2027-01-02\n")
    assert "  year = {2027},\n" in about.bibtex()
