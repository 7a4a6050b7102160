"""Many classes of few images, on made-up records of the study of icons: what their cells and numbers are."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from factories import searched_study

from dmlrc import data, studies
from dmlrc.building import build_loss
from dmlrc.report import many_classes
from dmlrc.report.results_table import GAP, LIFT
from dmlrc.studies import catalogue
from dmlrc.training import optimizers

MEANS = {"contrastive": 0.60, "triplet": 0.55, "normalized_softmax": 0.70, "soft_triple": 0.69}
SHAPE = {"name": "icons", "images": 7333, "classes": 2008, "shape": [1, 32, 32]}
NMI = {"contrastive": 0.90, "triplet": 0.91, "normalized_softmax": 0.93, "soft_triple": 0.92}


def made(name=catalogue.ICONS, means=MEANS, precision=0.1, untrained=0.5):
    """Records with MAP@R as given, P@1 so much above it, NMI, and an untrained network."""
    found = searched_study(name, means, repetitions=3)
    of_map = found.scores[found.scores["metric"] == "map_at_r"]
    of_nmi = of_map["method"].map(NMI) + of_map["value"] - of_map["method"].map(means)
    parts = [of_map, of_map.assign(metric="precision_at_1", value=of_map["value"] + precision)]
    parts.append(of_map.assign(metric="nmi", value=of_nmi))
    start = {"method": "pretrained", "repetition": 0, "rerun": 0, "setting": "concatenated"}
    parts.append(pd.DataFrame([start | {"metric": metric, "value": untrained} for metric in many_classes.METRICS]))
    runs = found.runs.assign(fold=0, seconds=24.0, steps=600, best_step=600)
    facts = {"data": SHAPE, "repetitions": 3, "protocol": vars(studies.get(name).protocol)}
    frames = {"scores": pd.concat(parts, ignore_index=True), "runs": runs, "trials": found.trials.assign(seconds=100.0)}
    return replace(found, **frames, meta=found.meta | facts)


@pytest.fixture(scope="module")
def records():
    return made()


def test_the_counts_are_those_of_the_images_that_are_loaded():
    found, loaded = many_classes.icon_counts(), data.load("icons")
    sizes = Counter(loaded.labels.tolist())
    assert (found["images"], found["classes"]) == (len(loaded.labels), len(sizes)) == (7333, 2008)
    assert found["single"] == sum(size == 1 for size in sizes.values())
    assert found["icons"] - found["icons_joined"] + found["joined"] == found["classes"]
    assert found["drawn"] == 5 * found["icons"] > found["images"]
    assert (found["icons"], found["joined"]) == (2191, 136)  # as the README of the data set says


def test_losses_stand_with_scores_and_lift(records):
    cells, marks = many_classes.loss_cells(records)
    labels = ["Untrained trunk", "Contrastive", "Triplet", "N. Softmax", "SoftTriple", LIFT, GAP]
    assert cells.index.tolist() == marks.index.tolist() == labels
    assert cells.columns.tolist() == ["MAP@R", "P@1", "NMI"]
    assert cells.loc["Untrained trunk"].tolist() == ["50.00"] * 3
    mean = many_classes.metric_means(records).loc[list(MEANS), "map_at_r"].mean()
    assert cells.loc[LIFT].tolist()[:2] == [f"{100 * (mean - 0.5):+.2f}", f"{100 * (mean - 0.4):+.2f}"]
    assert cells.loc["Triplet", "MAP@R"].endswith("(4)")
    assert marks["MAP@R"].tolist() == ["", "", "", "best", "", "", ""]


def test_steps_and_weights_grow_with_the_classes(records):
    cells, times = many_classes.costs_by_classes(records), many_classes.step_times()
    assert times.columns.tolist() == [100, 1_000, 10_000]
    assert set(times.index) == {method.name for method in studies.get(records.name).methods}
    weights = cells.loc["N. Softmax", "weights, MB"]
    assert weights.tolist() == [f"{count * 128 * 16 / 1e6:.1f}" for count in times]
    assert cells.loc["Contrastive", "weights, MB"].tolist() == ["–"] * 3
    steps = cells.loc["SoftTriple", "ms a step"].astype(float)
    assert steps.is_monotonic_increasing
    assert steps.tolist() == times.loc["soft_triple"].round(1).tolist()


def test_the_optimiser_keeps_as_many_numbers_a_weight_as_are_counted(records):
    """The weight, its gradient, and what RMSprop keeps of it."""
    method = studies.get(records.name).method("soft_triple")
    weights = [weight.requires_grad_() for weight in build_loss(method, {}, 753, 128).parameters()]
    name = records.meta["protocol"]["optimizer"]
    optimizer = optimizers.create_optimizer(name, [{"params": weights, "lr": 0.1, "weight_decay": 0.0}], 0.0)
    kept = {id(tensor): tensor for states in optimizer._states for state in states for tensor in state}
    sizes = [tensor.nbytes for tensor in (*kept.values(), *weights)]  # a gradient is as large as its weight
    assert many_classes.bytes_of_weights(records, 753)["soft_triple"] == sum(sizes)


def test_studies_stand_beside_one_another_by_their_shape(records):
    few = made("grocery-frozen", MEANS, precision=0.3)
    few = replace(few, meta=few.meta | {"data": SHAPE | {"images": 5421, "classes": 81}})
    few = replace(few, scores=few.scores[few.scores["metric"] != "nmi"])
    cells = many_classes.shape_cells([records, few])
    assert cells["test classes"].tolist() == ["1,004", "41"]
    assert cells["images a class"].tolist() == ["3.7", "66.9"]
    assert cells["NMI of chance"].tolist()[0] == f"{100 * (1 - np.log(7333 / 2008) / np.log(1004)):.1f}"
    assert cells["MAP@R with P@1, by rank"].tolist() == ["1.00 [1.00, 1.00]"] * 2
    assert [float(lift) for lift in cells["lift of MAP@R"]] == pytest.approx([13.5, 13.5], abs=0.3)


def test_the_numbers_of_the_text(records):
    told = many_classes.numbers(records)
    assert told["rho"] == 1
    assert told["precision_at_1"] - told["map_at_r"] == pytest.approx(10)
    assert told["map_at_r.untrained"] == told["nmi.untrained"] == 50
    assert told["map_at_r.lift"] == pytest.approx(told["map_at_r"] - 50)
    weights = [told[f"megabytes.{name}"] for name in ("soft_triple.1000", "network", "normalized_softmax.100")]
    assert weights == sorted(weights, reverse=True)
    assert told["megabytes.contrastive.10000"] == 0
    assert told["slower.contrastive.1000"] == 1 < told["slower.soft_triple.1000"] < told["slower.soft_triple.10000"]
