"""The ledgers of deviations: every setting in which a study departs from its paper's protocol has its reason there."""

import importlib
from dataclasses import asdict

import pytest
from factories import fake_records

from dmlrc import papers, studies

PAPERS = {paper.key: paper.protocol for paper in papers.ALL}


def compared(paper):
    """The studies in a paper's ledger: its methods around each methods table; of the Reality Check these tables."""
    of_paper = [study for study in studies.STUDIES.values() if study.protocol.paper == paper]
    if paper == "musgrave2020":
        return [study for study in of_paper if study.kind == "table"]
    return [study for study in of_paper if study.experiment == paper and study.parent in studies.STUDIES]


def test_images_that_are_stored_smaller_than_they_are_seen_are_said_to_be():
    table = studies.get("grocery-frozen")
    records = fake_records(dataset="grocery", protocol=table.protocol)
    told = importlib.import_module("dmlrc.report.deviations.musgrave2020").ledger({records.name: records})
    assert table.protocol.image_size > 112
    assert "stored at 112 pixels and enlarged" in told.to_string(max_colwidth=None)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_setting_that_differs_has_a_reason(paper):
    ledger, theirs = importlib.import_module(f"dmlrc.report.deviations.{paper}"), asdict(PAPERS[paper])
    found = compared(paper)
    assert len(found) > 5
    for study in found:
        silent = {"name"} if study.protocol.validates else {"name", "patience"}
        ours = asdict(study.effective_protocol)
        differ = {field for field in theirs if ours[field] != theirs[field]}
        assert differ - silent <= set(ledger.REASONS), study.name
