"""What became of the claimed gains: numbers of a made-up study, and the printed ones."""

import pytest
from factories import fake_records

from dmlrc.report import tables
from dmlrc.report.musgrave2020 import years


def test_numbers_are_those_of_the_tables():
    study = fake_records(study="one", trials=3, reruns=3)
    n = years.numbers([study])
    accuracy, dataset = tables.accuracy(study), study.meta["dataset"]
    for baseline in tables.CLASSICS:
        expected = 100 * tables.improvement(accuracy, baseline)["concatenated"]
        assert n[f"{dataset}.over_{baseline}"] == n[f"{baseline}.ours.low"] == pytest.approx(expected)
    means = tables.measured_by_year(accuracy).set_index("method")["value"]
    best = means.drop(list(tables.CLASSICS)).max()
    assert n["best.low"] == n["best.high"] == pytest.approx(100 * (best / means["contrastive"] - 1))
    steep = [slope for slope in years.measured_slopes([study]).values() if abs(slope.value) > slope.half]
    assert n["sloping.all"] == len(steep)


def test_published_numbers_are_those_that_the_papers_print():
    n = years.numbers([fake_records(study="one", trials=3, reruns=3)])
    assert [round(n[f"contrastive.claimed.{end}"]) for end in ("low", "high")] == [90, 198]
    assert [round(n[f"triplet.check.{end}"], 1) for end in ("low", "high")] == [2.1, 7.3]
    assert [round(n[f"rise.{end}"], 1) for end in ("low", "high")] == [3.4, 6.0]
    assert [n[f"contrastive.printed.{end}"] for end in ("low", "high")] == pytest.approx([21.7, 72.2])
    assert n["contrastive.beaten"] == 20  # but for one of HORDE's
