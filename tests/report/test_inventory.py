"""What stands on the page of provenance beside the records themselves."""

import pytest

from benchmarks import processors
from dmlrc.report import inventory


@pytest.mark.parametrize("name", processors.UNITS)
def test_a_recorded_trial_is_reproduced_on_this_processor(name):
    found = inventory.other_kernels().set_index(["unit", "kernels"])
    recorded = found.loc[(name, "native"), "map_at_r"]
    assert processors.first_trial(name)["value"] == pytest.approx(recorded, abs=inventory.TOLERANCE)


def test_the_tolerance_covers_what_was_measured():
    found = inventory.other_kernels()
    assert found["difference"].abs().max() < inventory.TOLERANCE
    assert found["unit"].nunique() >= 3
    assert set(found["kernels"]) == set(processors.KERNELS)
    assert (found[found["kernels"] == "native"]["difference"] == 0).all()


def test_other_kernels_run_in_processes_of_their_own(monkeypatch):
    told = {"native": 0.5, "AVX2": 0.501}

    def measured(name, variables):
        kernels = next(each for each, known in processors.KERNELS.items() if known == variables)
        return {"value": told[kernels], "best_steps": [100]}

    monkeypatch.setattr(processors, "measured", measured)
    rows = processors.rows(["grocery-quick:contrastive"])
    assert [float(row["difference"]) for row in rows] == pytest.approx([0, 0.001])


def test_cells_and_sentence_say_how_far_they_are_apart():
    cells = inventory.other_kernels_cells()
    assert list(cells.columns) == ["loss", "MAP@R", "with AVX2"]
    found = inventory.other_kernels()
    assert (
        f" of {len(found) - found['unit'].nunique()} trials give the same number" in inventory.other_kernels_sentence()
    )
