"""What stands on the page of provenance beside the records themselves."""

from dataclasses import replace

import pytest
from factories import fake_records

from benchmarks import processors
from dmlrc import studies
from dmlrc.report import inventory


@pytest.mark.parametrize("unit", processors.UNITS, ids=":".join)
def test_a_recorded_trial_is_reproduced_on_this_processor(unit):
    found = inventory.other_kernels().set_index(["study", "method", "kernels"])
    recorded = found.loc[(*unit, "native"), "map_at_r"]
    assert processors.first_trial(*unit)["value"] == pytest.approx(recorded, abs=inventory.TOLERANCE)


def test_the_tolerance_covers_what_was_measured():
    found = inventory.other_kernels()
    assert found["difference"].abs().max() < inventory.TOLERANCE
    assert found["method"].nunique() >= 3
    assert set(found["kernels"]) == set(processors.KERNELS)
    assert (found[found["kernels"] == "native"]["difference"] == 0).all()


def test_the_tolerance_covers_what_another_machine_gave():
    found = inventory.other_machines()
    assert found["difference"].abs().max() < inventory.TOLERANCE
    assert found["method"].nunique() >= 3
    assert (found["recorded_on"] != found["again_on"]).all()
    assert (found["again"] - found["recorded"]).to_numpy() == pytest.approx(found["difference"].to_numpy())
    cells, said = inventory.other_machines_cells(), inventory.other_machines_sentence()
    assert len(cells) == len(found)
    assert f"by {100 * found['difference'].abs().max():.2f} points" in said


def test_a_recorded_trial_is_run_again_where_its_processor_is_another(monkeypatch):
    found = fake_records(study="grocery-quick", dataset="grocery", protocol=studies.get("grocery-quick").protocol)
    found = replace(found, trials=found.trials.assign(processor="one"))
    first = found.trials[(found.trials["method"] == "triplet") & (found.trials["trial"] == 0)].iloc[0]
    steps = found.runs.query("method == 'triplet' and kind == 'trial' and number == 0").sort_values("fold")["best_step"]
    told = {"value": first["value"] + 0.001, "best_steps": [*steps[:-1], -1]}
    monkeypatch.setattr("dmlrc.records.load", lambda name: found)
    monkeypatch.setattr(processors, "first_trial", lambda name, method, repetition: told)
    monkeypatch.setattr(processors.provenance, "environment", lambda device: {"processor": "another"})
    [row] = processors.again([("grocery-quick", "triplet")])
    assert float(row["difference"]) == pytest.approx(0.001)
    assert (row["same_checkpoints"], row["folds"]) == (len(steps) - 1, len(steps))
    assert (row["recorded_on"], row["again_on"]) == ("one", "another")
    monkeypatch.setattr(processors.provenance, "environment", lambda device: {"processor": "one"})
    with pytest.raises(SystemExit, match="run this on another machine"):
        list(processors.again([("grocery-quick", "triplet")]))


def test_other_kernels_run_in_processes_of_their_own(monkeypatch):
    told = {"native": 0.5, "AVX2": 0.501}

    def measured(unit, variables):
        kernels = next(each for each, known in processors.KERNELS.items() if known == variables)
        return {"value": told[kernels], "best_steps": [100]}

    monkeypatch.setattr(processors, "measured", measured)
    rows = processors.rows([("grocery-quick", "contrastive")])
    assert [float(row["difference"]) for row in rows] == pytest.approx([0, 0.001])


def test_cells_and_sentence_say_how_far_they_are_apart():
    cells = inventory.other_kernels_cells()
    assert list(cells.columns) == ["loss", "MAP@R", "with AVX2"]
    found = inventory.other_kernels()
    assert (
        f" of {len(found) - found['method'].nunique()} trials give the same number"
        in inventory.other_kernels_sentence()
    )
