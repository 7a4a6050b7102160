"""How much is recorded, told without reading records: as `plan.progress` says where nothing is stale."""

from dataclasses import replace

import pytest
from factories import write_fake_study

from dmlrc import paths, plan, records, studies
from dmlrc.protocol import Study
from dmlrc.studies import recorded


@pytest.fixture
def smoke(home):
    """glyphs-smoke with all its records made up."""
    found = studies.get("glyphs-smoke")
    write_fake_study(study=found.name, dataset=found.dataset, protocol=found.effective_protocol, trials=2, reruns=2)
    return found


def test_records_here(smoke):
    assert recorded.count(smoke) == plan.progress(smoke)
    made, total = recorded.count(smoke)
    assert made == total == smoke.units
    (paths.runs() / "glyphs-smoke" / "contrastive" / "0-trial-001.json").unlink()
    assert recorded.count(smoke) == (total - 1, total)
    (paths.runs() / "glyphs-smoke" / "contrastive" / "notes.json").write_text("{}")
    assert recorded.count(smoke) == (total - 1, total)


@pytest.mark.parametrize("complete", [True, False])
def test_committed_records(smoke, complete):
    records.export("glyphs-smoke", complete)
    for path in sorted((paths.runs() / "glyphs-smoke").rglob("*.json")):
        path.unlink()
    assert recorded.count(smoke) == (smoke.units, smoke.units)


def test_only_units_of_the_study_count(smoke):
    fewer = replace(smoke, methods=smoke.methods[:3], budget=replace(smoke.budget, trials=1))
    assert recorded.count(fewer) == (3 * (1 + 2) + 1, fewer.units)


def test_nothing_is_recorded_of_a_study_without_files(home):
    for each in studies.STUDIES.values():
        assert isinstance(each, Study)
        assert recorded.count(each) == (0, plan.Plan(each).total)
