"""The settings that a shorter search would have kept, and the study that trains them again."""

from pathlib import Path

import pytest

from dmlrc import records, studies
from dmlrc.bench import early
from dmlrc.studies.adapted import GRIDS_OF
from dmlrc.studies.early import FILE

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def published(monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(ROOT))


@pytest.mark.parametrize("table", GRIDS_OF)
def test_the_early_winners_are_those_of_the_recorded_searches(table):
    trials = records.load(table).trials
    expected = {}
    for (method, repetition), search in trials.groupby(["method", "repetition"], observed=True):
        best_at = {}
        highest = -1.0
        for _, trial in search.sort_values("trial").iterrows():
            if trial["state"] == "complete" and trial["value"] > highest:
                highest, best = trial["value"], trial["params"]
            best_at[trial["trial"] + 1] = best
        for count in (10, 25):
            if best_at[count] != best_at[50] and (count == 10 or best_at[10] != best_at[25]):
                expected[f"{method}@search{repetition + 1}-trials{count}"] = dict(best_at[count])
    study = studies.get(f"{table}/early-winners")
    assert {method.name: dict(method.settings) for method in study.methods} == expected
    assert (study.budget.trials, study.budget.reruns, study.repetitions) == (0, 3, 1)
    assert study.protocol == studies.get(table).protocol


def test_every_search_has_a_row_or_keeps_its_winner():
    found = early.winners("grocery-frozen")
    assert len(found) == 14 * 3 * 3
    assert found[found["trials"] == 50]["row"].isna().all()
    rows = {method.name for method in studies.get("grocery-frozen/early-winners").methods}
    assert set(found["row"].dropna()) == rows
    whole = found[found["trials"] == 50].set_index(["method", "repetition"])["settings"]
    for each in found[found["row"].isna()].itertuples():
        assert each.settings == whole[each.method, each.repetition]


def test_the_file_is_what_the_command_writes():
    assert FILE.read_text(encoding="utf-8") == early.to_be_trained().to_csv(index=False)
