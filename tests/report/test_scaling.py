"""What more workers would gain: by hand, and by what holds of every schedule."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from factories import fake_records
from hypothesis import given
from hypothesis import strategies as st

from dmlrc import studies
from dmlrc.report import scaling
from dmlrc.report.scaling import makespan


def test_by_hand():
    search = [((3,), (1,), (1,), (2, 2))]
    assert makespan(search, 8) == 7  # trials one after the other, then both reruns
    assert makespan([((3, 1, 1), (2, 2))], 8) == 5
    assert makespan([((3, 1, 1), (2, 2))], 2) == 5  # 3 beside 1 and 1, then 2 beside 2
    assert makespan(search, 1) == 9
    two = [((2,), (2,), ()), ((), (3,))]
    assert makespan(two, 1) == 7
    assert makespan(two, 2) == 4
    assert makespan([], 4) == 0


SECONDS = st.lists(st.integers(1, 9), max_size=6)


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=5), st.integers(1, 8))
def test_no_schedule_beats_its_total_or_its_longest_chain(chains, workers):
    total = sum(map(sum, (stage for chain in chains for stage in chain)))
    longest = max(sum(max(stage, default=0) for stage in chain) for chain in chains)
    found = makespan(chains, workers)
    assert max(total / workers, longest) <= found <= total
    assert makespan(chains, 1) == total
    if workers >= sum(max(map(len, chain)) for chain in chains):
        assert found == longest


def test_speed_ups_of_records():
    records = fake_records(diverged=("arcface",))
    table = scaling.speed_ups(records)
    assert table.loc[1].tolist() == [1, 1, 1, 1]
    assert (np.diff(table, axis=0) >= 0).all()
    # units take 4 seconds: 13 chains of 3 trials, then 2 reruns at once, arcface without reruns
    assert table.loc[256, 1] == pytest.approx((13 * 5 + 3) / 4)
    assert table.loc[256, 8] == pytest.approx((13 * 5 + 3) / 2)


def played(lost):
    """Two searches from two seeds, of which several proposals at a time lose so much of the best 0.5."""
    return pd.DataFrame(
        {"study": "a", "method": method, "seed": seed, "trials": 50, "proposals": count, "best": 0.5, "spread": 0.1}
        | {"value": 0.49 - lost[count] * (1 + shift)}
        for method, shift in (("x", -0.5), ("y", 0.5))
        for seed in (0, 1)
        for count in lost
    )


def test_what_proposals_cost_by_hand():
    table = scaling.lost(played({1: 0.0, 2: 0.0, 4: 0.02}))
    assert table.loc[50, 1][["short", "lost"]].tolist() == pytest.approx([0.01, 0])
    assert table.loc[50, 4][["short", "lost", "lost_share"]].tolist() == pytest.approx([0.03, 0.02, 0.2])
    assert table.loc[50, 4]["searches"] == 2
    # the searches lose 0.01 and 0.03: Student's t of one degree of freedom, 12.706
    assert table.loc[50, 4]["ci95"] == pytest.approx(12.706 * 0.01, rel=1e-3)
    assert scaling.lost_cells(table)["lost against one at a time"].tolist() == ["–", "+0.00 ± 0.00", "+2.00 ± 12.71"]


def test_the_searches_that_were_played_are_of_the_catalogue(monkeypatch):
    assert scaling.played().empty  # as in a folder without the benchmarks
    monkeypatch.setenv("DMLRC_HOME", str(Path(__file__).parents[2]))
    table = scaling.played()
    assert set(table["proposals"]) == set(scaling.PROPOSALS)
    for study, methods in table.groupby("study")["method"]:
        assert set(methods) <= {method.name for method in studies.get(study).methods}
    assert (table["value"] <= table["best"] + 0.02).all()


def test_without_records_there_is_no_speed_up():
    assert scaling.speed_ups(fake_records(trials=0, reruns=0)).isna().all(axis=None)


def test_the_plan_has_the_papers_own_studies():
    table = scaling.planned_tables(studies.STUDIES.values())
    assert {"cub200-musgrave2020", "sop-roth2020", "inshop-zhai2019"} <= set(table.index)
    assert "first-runs/grocery-frozen" not in table.index
    numbers = [14 * 60 + 1, 14 * 60 * 4, 14 * 10 + 1, 51]
    assert table.loc["cub200-musgrave2020"].tolist()[:5] == ["Musgrave et al. 2020", *numbers]
