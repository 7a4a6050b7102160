"""Depths of training, on made-up studies whose order and range are known."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from factories import searched_study as study
from test_hypotheses import EIGHT, flat

from dmlrc import studies
from dmlrc.records import PRETRAINED, shared
from dmlrc.report import depth as measures
from dmlrc.report import labels, statistics, style
from dmlrc.report.hypotheses.measures import CARS, CUB, EMBEDDER, LAST_BLOCK
from dmlrc.report.results_table import LIFT

depths_of = shared()(measures.depths)  # asks the records once, as on a page

ORDER = flat(0.04, EIGHT)
TURNED = dict(zip(EIGHT, list(flat(0.01, EIGHT).values())[::-1], strict=True))


BIRDS, CARS_TOO = measures.SQUEEZENETS[CUB], measures.SQUEEZENETS[CARS]


@pytest.fixture(scope="module")
def made(stand_in):
    """CUB-200 (2010) at two depths; the range shrinks to a quarter: its studies, and the depths."""
    higher = {name: value / 4 + 0.35 for name, value in ORDER.items()}
    scores = {CUB: flat(), EMBEDDER[CUB]: ORDER, LAST_BLOCK[CUB]: higher}
    with pytest.MonkeyPatch.context() as patch:
        found = stand_in({name: study(name, means) for name, means in scores.items()}, patch)
        return found, depths_of(BIRDS)


@pytest.fixture
def depths(recorded, made):
    found, depths = made
    recorded.update(found)
    return [replace(each) for each in depths]  # each asks the records once


@pytest.fixture
def turned(recorded, depths):
    """The two, and in the place of the last block one at which all scores turn around."""
    recorded[LAST_BLOCK[CUB]] = study(LAST_BLOCK[CUB], TURNED)
    return [*depths, depths_of(BIRDS)[1]]


def test_depths_that_are_complete_stand_from_the_shallowest(recorded, depths):
    assert [each.label for each in depths] == [measures.ALONE, measures.BLOCK]
    assert [each.compared.study for each in depths] == [EMBEDDER[CUB], LAST_BLOCK[CUB]]
    found = recorded[EMBEDDER[CUB]]
    recorded[EMBEDDER[CUB]] = replace(found, reruns=found.reruns[found.reruns["method"] != "margin"])
    assert [each.label for each in depths_of(BIRDS)] == [measures.BLOCK]


def test_nothing_recorded_is_no_depth(recorded):
    assert depths_of(BIRDS) == depths_of(measures.MOBILENET) == []


def test_the_series_name_studies_of_the_catalogue():
    names = [name for series in measures.SERIES for name in series.studies.values()]
    assert set(names) <= set(studies.known())
    assert len(set(names)) == len(names) == 12


def test_the_range_and_its_interval(depths):
    found = depths[0].compared.range
    scores = depths[0].scores
    assert found.value == pytest.approx(scores.max() - scores.min())
    assert found.low < 0.04 < found.high
    assert depths[1].compared.range.value < found.value


def test_a_pair_surely_changes_places_where_both_depths_tell_it_apart(turned):
    alone, block, everything = turned
    assert measures.surely_turned(alone, alone) == []
    found = measures.surely_turned(block, everything)
    assert 2 < len(found) <= statistics.discordant_pairs(block.scores, everything.scores)[0]
    for a, b in found:
        assert (block.scores[a] - block.scores[b]) * (everything.scores[a] - everything.scores[b]) < 0
    holm = block.compared.pairs.set_index(["a", "b"])["holm"]
    assert all(holm[pair] < 0.05 for pair in found)


def test_searches_that_end_earlier_scatter_more(recorded, turned, monkeypatch):
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
    sure = measures.surely_turned(*turned[1:])
    monkeypatch.setattr(measures, "shorter", lambda *_: 10.0)
    again = [replace(each) for each in turned]  # each asks once
    assert len(measures.surely_turned(*again[1:])) < len(sure)


def test_luck_turns_few_pairs_of_losses_that_lie_far_apart(turned):
    lucky = measures.lucky_turns(turned[0], turned[1])
    assert (lucky.n, lucky.low) == (28, 0)
    assert lucky.value < statistics.discordant_pairs(turned[1].scores, turned[2].scores)[0]


def without_margin(recorded, name):
    """A study of whose margin loss no rerun came to a number."""
    scores = recorded[name].scores
    recorded[name] = replace(recorded[name], scores=scores[scores["method"] != "margin"])


def test_depths_are_compared_by_the_methods_that_both_have(recorded, depths):
    without_margin(recorded, LAST_BLOCK[CUB])
    alone, block = found = depths_of(BIRDS)
    assert len(alone.scores) == 8
    assert len(block.scores) == 7
    assert [list(each.scores.index) for each in measures.with_common_methods(*found)] == [list(block.scores.index)] * 2
    made = measures.step(*found)
    assert set(made.without) == set(block.scores.index)
    kept = alone.scores.drop("margin")
    ratio = np.ptp(block.scores) / block.scores.mean() / (np.ptp(kept) / kept.mean())
    assert made.ratio.value == pytest.approx(ratio)
    drawing = measures.order_figure("CUB", found)
    drawn = [len(bars.lines[0].get_ydata()) for bars in drawing.axes[0].containers]
    assert sorted(drawn) == [1, *[2] * 7]  # margin has the first depth alone
    plt.close(drawing)
    cells, _ = measures.depth_cells(found)
    assert cells.loc["Margin", measures.BLOCK] == "–"
    shown = measures.worth({BIRDS: found})
    assert shown["losses"].tolist() == ["8", "7"]


def test_a_step_says_how_the_order_and_the_range_change(depths, turned):
    closer, around = measures.step(*depths), measures.step(turned[0], turned[2])
    assert closer.rho.value > 0.9 > -0.9 > around.rho.value
    assert closer.ratio.high < 1
    assert measures.APART[closer.verdict] == "closer"
    assert closer.holding == len(closer.without) == 8
    farther = measures.step(*depths[::-1])
    assert measures.APART[farther.verdict] == "farther apart"
    cells = measures.step_cells({("birds", "block"): closer, ("birds", "again"): around})
    swapped, pairs = statistics.discordant_pairs(turned[0].scores, turned[2].scores)
    assert cells["pairs that swap"].tolist() == ["0 of 28", f"{swapped} of {pairs}"]
    assert cells["the same without one loss"].iloc[0] == "8 of 8"
    assert cells["ratio"].iloc[0].startswith(f"{closer.ratio.value:.2f} [")


def test_no_verdict_where_luck_makes_a_range(recorded, depths):
    recorded[LAST_BLOCK[CUB]] = study(LAST_BLOCK[CUB], dict.fromkeys(EIGHT, 0.3), search=0, seed=0.004)
    made = measures.step(*depths_of(BIRDS))
    assert measures.APART[made.verdict] == "noise may make a range"


def test_steps_lead_from_the_embedder_alone_to_every_deeper_training(depths):
    three = [*depths, replace(depths[1], label=measures.HALF)]
    found = measures.steps({BIRDS: three, CARS_TOO: depths[1:]})
    assert list(found) == [(BIRDS.title, measures.BLOCK), (BIRDS.title, measures.HALF)]


def test_training_is_worth_what_it_lifts_and_what_was_not_run_is_named(recorded, depths):
    row = {"method": PRETRAINED, "repetition": 0, "rerun": 0, "setting": "concatenated"}
    values = {"map_at_r": 0.25, "precision_at_1": 0.9}
    name = EMBEDDER[CUB]
    untrained = pd.DataFrame([row | {"metric": metric, "value": value} for metric, value in values.items()])
    recorded[name] = replace(recorded[name], scores=pd.concat([recorded[name].scores, untrained]))
    alone, _ = depths_of(BIRDS)
    assert alone.lifts["map_at_r"] == pytest.approx(alone.scores.mean() - 0.25)
    assert alone.lifts["precision_at_1"] < 0
    means = alone.precision.summary["mean"]
    gain = means.drop(["contrastive", "triplet"]).mean() / means["contrastive"] - 1
    assert measures.newer(alone, "contrastive").value == pytest.approx(gain)
    assert measures.newer(alone.only(["triplet", "arcface"]), "contrastive") is None
    cells = measures.worth({BIRDS: [alone], CARS_TOO: []})
    assert cells["losses"].tolist() == ["8", "–", "–", "–"]
    assert cells["lift of MAP@R"].tolist()[1:] == [measures.UNFINISHED] * 3
    first = cells.iloc[0]
    assert first["untrained MAP@R"] == "25.00"
    assert first["lift of MAP@R"] == f"{100 * alone.lifts['map_at_r']:+.2f}"
    assert first["newer over Contrastive, %"].startswith(f"{100 * gain:+.1f} ± ")


def test_the_numbers_of_the_text(recorded, depths, monkeypatch):
    far = ORDER | {"margin": 0.3}
    recorded[CARS], recorded[EMBEDDER[CARS]] = study(CARS, flat()), study(EMBEDDER[CARS], far)
    recorded[LAST_BLOCK[CARS]] = study(LAST_BLOCK[CARS], {name: value + 0.1 for name, value in TURNED.items()})
    halved = replace(
        CARS_TOO, studies=CARS_TOO.studies | dict.fromkeys((measures.HALF, measures.WHOLE), LAST_BLOCK[CARS])
    )
    monkeypatch.setattr(measures, "MOBILENET", halved)
    n = shared()(measures.numbers)()
    alone, block = depths_of(CARS_TOO)
    assert n["cars196crops.swapped"] > n["cars196crops.lucky.high"]  # the order is turned, and surely so
    turned = len(measures.surely_turned(alone, block))  # with MobileNetV2 here thrice, and on birds not at all
    assert n["sure"] == 4 * turned > 8
    assert n["cars196crops.last"].startswith("margin, ")
    assert n["cub200_2010.swapped"] <= n["cub200_2010.lucky.high"]
    made = measures.step(alone, block)
    assert n["cars196crops.ratio"] == pytest.approx(made.ratio.value)
    assert (n["cars196crops.holding"], n["cars196crops.losses"]) == (made.holding, 8)
    gain = measures.newer(block, "contrastive")
    assert n["cars196crops.newer.deeper.low"] == pytest.approx(100 * gain.low)
    assert n["half.gain"] == pytest.approx(100 * (block.scores.mean() - alone.scores.mean()))
    assert n["wider"] == 1.0


def test_cells_hold_every_method_the_untrained_trunk_and_the_range(depths):
    cells, marks = measures.depth_cells(depths)
    assert list(cells.columns) == [each.label for each in depths]
    assert len(cells) == 11  # nothing untrained is recorded, so no lift
    assert float(cells.loc[measures.LUCK, measures.ALONE]) == pytest.approx(100 * depths[0].luck, abs=0.01)
    assert cells.loc["Contrastive", measures.ALONE].startswith(f"{100 * depths[0].scores['contrastive']:.2f} ± ")
    assert cells.loc[labels.UNTRAINED].tolist() == ["–"] * 2  # the made-up studies have none
    assert len(measures.score_numbers(depths)) == 16
    best = labels.method_label(depths[1].scores.idxmax())
    assert marks[measures.BLOCK][best] == "best"
    assert marks[measures.BLOCK].isin(["best", "tie"]).sum() == depths[1].compared.summary["among_best"].sum()
    ranks = depths[1].compared.summary.iloc[0][["rank_low", "rank_high"]]
    assert cells.loc["Contrastive", measures.BLOCK].endswith(f" ({labels.rank_range(*ranks, '–')})")


def test_the_untrained_trunk_is_read_where_it_is_recorded(recorded, depths):
    name = EMBEDDER[CUB]
    row = {"method": PRETRAINED, "repetition": 0, "rerun": 0, "setting": "concatenated", "metric": "map_at_r"}
    frame = pd.concat([recorded[name].scores, pd.DataFrame([row | {"value": 0.25}])])
    assert np.isnan(depths[0].untrained["map_at_r"])
    recorded[name] = replace(recorded[name], scores=frame)
    found = depths_of(BIRDS)
    assert found[0].untrained["map_at_r"] == 0.25
    cells = measures.depth_cells(found)[0]
    assert cells.loc[labels.UNTRAINED].tolist() == ["25.00", "–"]
    assert cells.loc[LIFT].tolist() == [f"{100 * (found[0].scores.mean() - 0.25):+.2f}", "–"]


def test_lines_are_centred_on_the_mean_of_the_methods(depths):
    for shown in (depths, depths[::-1]):
        figure = measures.order_figure("CUB", shown)
        lines = [bars.lines[0] for bars in figure.axes[0].containers][:8]
        for place in range(2):
            assert sum(line.get_ydata()[place] for line in lines) == pytest.approx(0, abs=1e-9)
        np.testing.assert_allclose(
            lines[0].get_ydata()[0], 100 * (shown[0].scores["contrastive"] / shown[0].scores.mean() - 1)
        )
        assert lines[0].get_color() == style.method_style("contrastive").colour
        plt.close(figure)
