"""What the numbers of a page were made of."""

import json
from dataclasses import replace

import pytest
from factories import fake_records

from dmlrc.report import about, inventory


@pytest.fixture
def mixed():
    """Records of a study that was made by two commits on two machines, and of which the oldest do not say where."""
    found = fake_records()
    trials = found.trials.copy()
    trials["processor"] = None
    trials.loc[trials["method"] == "triplet", "commit"] = "1111111111"
    trials.loc[trials["method"] == "triplet", "processor"] = "another machine"
    return replace(found, trials=trials)


def test_records_of_one_commit_name_it_once():
    found = fake_records()
    assert about.made(found, "commit") == "0000000000"
    assert about.made(found, "processor") == "none"


def test_every_commit_and_processor_of_the_rows_is_named(mixed):
    assert about.made(mixed, "commit") == "0000000000 (14 methods); 1111111111 (Triplet)"
    assert about.made(mixed, "processor") == "none (14 methods); another machine (Triplet)"
    told = inventory.provenance([mixed])[mixed.name]
    assert "1111111111 (Triplet)" in told["commit"]
    assert "another machine" in told["processor"]
    assert "1111111111" in json.dumps(about.runs("fork_a_loss", [mixed]).to_dict())
