"""Depths of training, on made-up studies whose order and range are known."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from factories import searched_study as study
from test_hypotheses import EIGHT, flat

from dmlrc.records import PRETRAINED
from dmlrc.report import depth as measures
from dmlrc.report import labels, statistics, style
from dmlrc.report.hypotheses.measures import CARS, CUB, EMBEDDER, EVERYTHING, LAST_BLOCK

ORDER = flat(0.04, EIGHT)
TURNED = dict(zip(EIGHT, list(flat(0.01, EIGHT).values())[::-1], strict=True))


@pytest.fixture
def depths(recorded):
    """CUB-200 (2010) at three depths; the range shrinks to a quarter, then all scores turn around."""
    recorded[CUB] = study(CUB, flat())
    recorded[EMBEDDER[CUB]] = study(EMBEDDER[CUB], ORDER)
    higher = {name: value / 4 + 0.35 for name, value in ORDER.items()}
    recorded[LAST_BLOCK[CUB]] = study(LAST_BLOCK[CUB], higher)
    recorded[EVERYTHING] = study(EVERYTHING, TURNED)
    return measures.depths(CUB)


def test_depths_that_are_recorded_stand_from_the_shallowest(recorded, depths):
    assert [each.label for each in depths] == [measures.ALONE, measures.BLOCK, measures.ALL]
    assert [each.compared.study for each in depths] == [EMBEDDER[CUB], LAST_BLOCK[CUB], EVERYTHING]
    del recorded[LAST_BLOCK[CUB]]
    assert [each.label for each in measures.depths(CUB)] == [measures.ALONE, measures.ALL]


def test_nothing_recorded_is_no_depth(recorded):
    assert measures.depths(CUB) == measures.depths(CARS) == []


def test_the_range_and_its_interval(depths):
    found = depths[0].compared.range
    scores = depths[0].scores
    assert found.value == pytest.approx(scores.max() - scores.min())
    assert found.low < 0.04 < found.high
    assert depths[1].compared.range.value < found.value


def test_a_pair_surely_changes_places_where_both_depths_tell_it_apart(depths):
    alone, block, everything = depths
    assert measures.surely_turned(alone, alone) == []
    found = measures.surely_turned(block, everything)
    assert 2 < len(found) <= statistics.turned(block.scores, everything.scores)[0]
    for a, b in found:
        assert (block.scores[a] - block.scores[b]) * (everything.scores[a] - everything.scores[b]) < 0
    holm = block.compared.pairs.set_index(["a", "b"])["holm"]
    assert all(holm[pair] < 0.05 for pair in found)


def test_searches_that_end_earlier_scatter_more(recorded, depths, monkeypatch):
    early, late = np.array([0.10, 0.14, 0.12]), np.array([0.20, 0.22, 0.21])
    rows = [
        {"method": method, "repetition": repetition, "trial": trial, "value": value}
        for method in EIGHT
        for repetition in range(3)
        for trial, value in enumerate([early[repetition], 0.05, late[repetition]])
    ]
    recorded[CUB] = replace(recorded[CUB], trials=pd.DataFrame(rows))
    assert measures.shorter(CUB, 2) == pytest.approx(early.std() / late.std()) == pytest.approx(2)
    assert measures.shorter(CUB, 3) == measures.shorter(CUB, 9) == 1
    sure = measures.surely_turned(*depths[1:])
    monkeypatch.setattr(measures, "shorter", lambda *_: 10.0)
    depths = [replace(each) for each in depths]  # each asks once
    assert len(measures.surely_turned(*depths[1:])) < len(sure)


def test_luck_turns_few_pairs_of_losses_that_lie_far_apart(depths):
    lucky = measures.turned_by_luck(depths[0], depths[1])
    assert (lucky.n, lucky.low) == (28, 0)
    assert lucky.value < statistics.turned(depths[1].scores, depths[2].scores)[0]


def test_a_method_that_one_depth_lacks_is_left_out_of_all(recorded, depths):
    name = LAST_BLOCK[CUB]
    scores = recorded[name].scores
    recorded[name] = replace(recorded[name], scores=scores[scores["method"] != "margin"])
    found = measures.depths(CUB)
    assert all("margin" not in each.scores.index and len(each.scores) == 7 for each in found)
    plt.close(measures.order("CUB", found))


def test_no_depth_is_squashed_by_the_height_of_another(recorded, depths):
    high = dict(zip(EIGHT, np.linspace(0.31, 0.49, 8), strict=True))
    recorded[EVERYTHING] = study(EVERYTHING, high)
    depths = measures.depths(CUB)
    drawing = measures.order("Birds", depths)
    drawn = [bars.lines[0] for bars in drawing.axes[0].containers]
    heights = [line.get_ydata()[0] for line in drawn[8:]]
    assert np.ptp(heights) == pytest.approx(100 * depths[2].compared.range.value / depths[2].scores.mean())
    assert {line.get_linestyle() for line in drawn[8:]} == {"None"}  # Omniglot has other images
    plt.close(drawing)


def test_the_numbers_of_the_text(recorded, depths, monkeypatch):
    far = ORDER | {"margin": 0.3}
    recorded[CARS], recorded[EMBEDDER[CARS]] = study(CARS, flat()), study(EMBEDDER[CARS], far)
    recorded[LAST_BLOCK[CARS]] = study(LAST_BLOCK[CARS], {name: value + 0.1 for name, value in TURNED.items()})
    told = {"study": LAST_BLOCK[CARS], "of_trunk": 1e-5, "rate": [1e-6, 1e-5, 1e-4], "mean": [0.2, 0.3, 0.31]}
    monkeypatch.setattr(measures.rates, "of_embedders", lambda: pd.DataFrame(told))
    n = measures.numbers()
    alone, block = measures.depths(CARS)[:2]
    assert n["cars196crops.own_rate"] == pytest.approx(1)
    assert n["cars196crops.gain"] == pytest.approx(100 * (block.scores.mean() - alone.scores.mean()))
    assert n["cars196crops.swapped"] > n["cars196crops.lucky.high"]  # the order is turned, and surely so
    assert n["cars196crops.sure"] == len(measures.surely_turned(alone, block)) > 2
    assert n["cars196crops.last"].startswith("margin, ")
    assert n["cub200_2010.swapped"] <= n["cub200_2010.lucky.high"]
    assert n["cub200_2010.range.alone"] == pytest.approx(100 * np.ptp(depths[0].scores))
    kept = [np.ptp(each.scores.drop("margin")) for each in (alone, block)]
    assert n["cars196crops.without_margin"] == pytest.approx(kept[1] / kept[0])
    assert n["wider"] == 1.0


def test_cells_hold_every_method_the_untrained_trunk_and_the_range(depths):
    cells, marks = measures.cells(depths)
    assert list(cells.columns) == [each.label for each in depths]
    assert len(cells) == 11
    assert float(cells.loc[measures.LUCK, measures.ALONE]) == pytest.approx(100 * depths[0].luck, abs=0.01)
    assert cells.loc["Contrastive", measures.ALONE].startswith(f"{100 * depths[0].scores['contrastive']:.2f} ± ")
    assert cells.loc[labels.UNTRAINED].tolist() == ["–"] * 3  # the made-up studies have none
    assert len(measures.score_numbers(depths)) == 24
    best = labels.method_label(depths[1].scores.idxmax())
    assert marks[measures.BLOCK][best] == "best"
    assert marks[measures.BLOCK].isin(["best", "tie"]).sum() == depths[1].compared.summary["among_best"].sum()
    ranks = depths[1].compared.summary.iloc[0][["rank_low", "rank_high"]]
    assert cells.loc["Contrastive", measures.BLOCK].endswith(labels.brackets(*ranks))


def test_the_untrained_trunk_is_read_where_it_is_recorded(recorded, depths):
    name = EMBEDDER[CUB]
    row = {"method": PRETRAINED, "repetition": 0, "rerun": 0, "setting": "concatenated", "metric": "map_at_r"}
    frame = pd.concat([recorded[name].scores, pd.DataFrame([row | {"value": 0.25}])])
    assert np.isnan(depths[0].untrained)
    recorded[name] = replace(recorded[name], scores=frame)
    found = measures.depths(CUB)
    assert found[0].untrained == 0.25
    assert measures.cells(found)[0].loc[labels.UNTRAINED].tolist() == ["25.00", "–", "–"]


def test_lines_are_centred_on_the_mean_of_the_methods(depths):
    for shown in (depths, depths[:2]):
        figure = measures.order("CUB", shown)
        lines = [bars.lines[0] for bars in figure.axes[0].containers][:8]
        for place in range(2):
            assert sum(line.get_ydata()[place] for line in lines) == pytest.approx(0, abs=1e-9)
        np.testing.assert_allclose(
            lines[0].get_ydata()[0], 100 * (shown[0].scores["contrastive"] / shown[0].scores.mean() - 1)
        )
        assert lines[0].get_color() == style.method_style("contrastive").colour
        plt.close(figure)
