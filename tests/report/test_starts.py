"""Where training begins, on made-up projections."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from factories import fake_records

from dmlrc.records import PRETRAINED
from dmlrc.report import starts

CURVE = pd.Series({16.0: 0.2, 64.0: 0.4, 128.0: 0.5, 512.0: 0.6})


def made(name, rows, **protocol):
    """Records whose rows have these settings: (method, setting, P@1)."""
    base = fake_records(study=name)
    frame = pd.DataFrame(rows, columns=["method", "setting", "value"]).assign(metric="precision_at_1", rerun=0)
    meta = base.meta | {"protocol": base.meta["protocol"] | protocol, "parent": None}
    return replace(base, scores=frame, meta=meta)


@pytest.fixture
def measured(monkeypatch):
    monkeypatch.setattr(starts, "by_dimension", lambda main: CURVE)


def test_a_row_begins_where_a_random_layer_of_its_size_is(measured):
    rows = [("mine", "separated", 0.55), ("mine", "concatenated", 0.6), (PRETRAINED, "separated", 0.7)]
    assert starts.of_rows(made("mine", rows, embedding_dim=128, folds=4)).to_dict() == pytest.approx(
        {("mine", "separated"): 0.5, ("mine", "concatenated"): 0.6}
    )
    found = starts.of_rows(made("mine", rows, embedding_dim=32, folds=0))
    assert found["mine", "separated"] == pytest.approx(0.3)  # half way from 16 to 64, over log2
    assert found["mine", "concatenated"] == pytest.approx(0.3)  # one model
    ensemble = starts.of_rows(made("mine", rows, embedding_dim=16, folds=0, members=8))
    assert ensemble.to_dict() == pytest.approx({("mine", "separated"): 0.2, ("mine", "concatenated"): 0.5})


def test_the_levels_of_a_sweep_have_their_own_sizes(measured):
    rows = [("triplet_random@dim64", "separated", 0.3), ("triplet_random@dim512", "separated", 0.3)]
    found = starts.of_rows(made("cub200-2010-frozen/roth2020/dims", rows))
    assert found.tolist() == pytest.approx([0.4, 0.6])


def test_features_of_the_trunk_begin_where_the_trunk_is(measured, monkeypatch):
    rows = [("mine", "separated", 0.55), (PRETRAINED, "separated", 0.7)]
    assert starts.of_rows(made("mine", rows, embedding_dim=None)).tolist() == [0.7]
    monkeypatch.setattr(starts, "by_dimension", lambda main: pd.Series(dtype=float))
    assert starts.of_rows(made("mine", rows)).tolist() == [0.7]
    assert starts.of_rows(made("mine", rows[:1])).isna().all()


@pytest.mark.parametrize(
    ("order", "seed", "other"), [("default", 0, False), ("default", 7, False), ("random", 0, True), ("random", 7, True)]
)
def test_other_test_classes_begin_nobody_knows_where(measured, order, seed, other):
    rows = [("mine", "separated", 0.55), (PRETRAINED, "separated", 0.7)]
    found = made("mine", rows, embedding_dim=128, folds=0)
    around = {"parent": "cub200-2010-frozen", "class_order": order, "seed": seed}
    assert starts.of_rows(replace(found, meta=found.meta | around)).isna().all() == other


def test_projections_are_read_by_their_size(monkeypatch):
    frame = pd.DataFrame(
        [(8.0, 0.1), (16.0, 0.1), (16.0, 0.3), (32.0, 0.4), (64.0, 0.5), (np.nan, 0.7)],
        columns=["level_number", "value"],
    ).assign(metric="precision_at_1", setting="separated")
    monkeypatch.setattr(starts.experiments, "load_experiment", lambda main, name: replace(fake_records(), scores=frame))
    assert starts.by_dimension("mine").to_dict() == pytest.approx({8.0: 0.1, 16.0: 0.2, 32.0: 0.4, 64.0: 0.5})
    levels = pd.DataFrame(
        [("a", "dim16", 16.0, 0.1), ("b", "dim16", 16.0, 0.3), ("a", "dim32", 32.0, 0.3), ("b", "dim32", 32.0, 0.4)],
        columns=["row", "level", "level_number", "value"],
    ).assign(metric="precision_at_1", setting="separated", method="own")
    sweeps = {"mine": replace(fake_records(), scores=levels)}
    curve = starts.curves_by_dimension(sweeps)["mine"]
    assert starts.sizes_above(curve, sweeps["mine"]) == (1, 2)
    higher = replace(fake_records(), scores=levels.assign(value=levels["value"] + 0.1))
    assert starts.sizes_above(curve, higher) == (2, 2)
    assert starts.sizes_above(curve, replace(fake_records(), scores=levels.assign(value=0.1))) == (0, 2)
    monkeypatch.setattr(starts.experiments, "load_experiment", lambda main, name: None)
    assert starts.curves_by_dimension(sweeps) == {}
