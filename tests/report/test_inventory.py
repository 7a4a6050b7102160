"""What stands on the page of provenance beside the records themselves."""

import math
from dataclasses import replace
from pathlib import Path

import mutations
import nbformat
import pandas as pd
import pytest
import test_campaign
import test_damage
import test_fingerprint
import test_records_in_any_order
from factories import fake_records

from benchmarks import coverage, processors, timing
from dmlrc import studies
from dmlrc.report import inventory, prose

ROOT = Path(__file__).parents[2]


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
    assert len(inventory.other_machines_cells()) == len(found)


def test_a_recorded_trial_is_run_again_where_its_processor_is_another(monkeypatch):
    found = fake_records(study="grocery-quick", dataset="grocery", protocol=studies.get("grocery-quick").protocol)
    found = replace(found, trials=found.trials.assign(processor="one"))
    first = found.trials[(found.trials["method"] == "triplet") & (found.trials["trial"] == 0)].iloc[0]
    steps = found.runs.query("method == 'triplet' and kind == 'trial' and number == 0").sort_values("fold")["best_step"]
    told = {"value": first["value"] + 0.001, "best_steps": [*steps[:-1], -1]}
    monkeypatch.setattr("dmlrc.records.load", lambda name: found)
    monkeypatch.setattr(processors, "first_trial", lambda name, method, repetition: told)
    monkeypatch.setattr(timing.provenance, "processor", lambda: "another")
    [row] = processors.again([("grocery-quick", "triplet")])
    assert float(row["difference"]) == pytest.approx(0.001)
    assert (row["same_checkpoints"], row["folds"]) == (len(steps) - 1, len(steps))
    assert (row["recorded_on"], row["again_on"]) == ("one", "another")
    monkeypatch.setattr(timing.provenance, "processor", lambda: "one")
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


def test_cells_say_how_far_they_are_apart():
    assert list(inventory.other_kernels_cells().columns) == ["loss", "MAP@R", "with AVX2"]


def test_no_sentence_of_the_page_holds_of_other_measurements(monkeypatch):
    """Of trials that all move by a point, searches that lose more with more proposals, and protocols that are equal."""
    cells = nbformat.read(ROOT / "notebooks" / "20_provenance.ipynb", as_version=4).cells
    [cell] = [each for each in cells if "guards" in each.metadata.get("tags", [])]
    monkeypatch.setenv("DMLRC_HOME", str(ROOT))
    machines, kernels, protocols = inventory.other_machines(), inventory.other_kernels(), inventory.tables.protocols()
    cost = inventory.scaling.lost(inventory.scaling.played())
    monkeypatch.setattr(inventory, "other_machines", lambda: machines.assign(difference=0.01))
    monkeypatch.setattr(inventory, "other_kernels", lambda: kernels.assign(difference=0.01))
    monkeypatch.setattr(inventory, "TOLERANCE", 0.01)
    monkeypatch.setattr(inventory.tables, "protocols", lambda: protocols.apply(lambda _: protocols.iloc[:, 0]))
    lost = {20: 0.0, 50: 0.01}
    monkeypatch.setattr(
        inventory.scaling, "lost", lambda played: cost.assign(lost=cost.index.get_level_values("trials").map(lost))
    )
    speed = pd.DataFrame({count: [1.0] for count in inventory.scaling.PROPOSALS})
    monkeypatch.setattr(inventory.scaling, "speed_ups", lambda records: speed)
    found = {}
    monkeypatch.setattr(prose, "put", lambda numbers: None)
    monkeypatch.setattr(prose, "is_about", lambda edition: True)
    monkeypatch.setattr(prose, "says", lambda sentence, holds: found.__setitem__(sentence, holds))
    exec(cell.source, {"prose": prose, "edition": [fake_records()]})
    assert len(found) == 12
    assert [sentence for sentence, holds in found.items() if holds] == ["One at a time is the default"]  # a setting


def test_what_was_tried_is_counted_as_the_tests_do_it():
    of_metas = 2 * len(test_damage.both(test_damage.META, test_damage.SEALED_META, test_damage.META_FILES))
    of_units = len(test_damage.both(test_damage.UNIT, test_damage.SEALED_UNIT, test_damage.UNIT_FILES))
    order, cells = test_records_in_any_order.Records.TestCase.settings, (coverage.METHODS, coverage.SEARCHES)
    counts = {
        "tests/test_campaign.py": sum(test_campaign.CASES.values()),
        "tests/test_damage.py": of_units + of_metas + 2 * len(test_damage.TABLE | test_damage.TABLE_FILES),
        "tests/test_fingerprint.py": len(test_fingerprint.WAYS),
        "tests/test_records_in_any_order.py": order.max_examples * order.stateful_step_count,
        "tests/mutations.py": len(mutations.MUTATIONS),
        "benchmarks/coverage.py": 2000 * math.prod(map(len, (*cells, coverage.LUCKS, coverage.SCORES))),
    }
    assert inventory.tried().set_index("file")["how often"].to_dict() == counts
    promised = inventory.tried()["what must come of it"].iloc[-1]
    assert all(f"{100 * share:.0f} %" in promised for share in coverage.LEAST.values())
