"""The published numbers against the papers' text, cell by cell where a slip would matter, and in their totals."""

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dmlrc.papers import musgrave2020
from dmlrc.report import published

FOLDER = Path(published.__file__).parent / "published_numbers"

TRANSCRIBED = {
    "claims_after_2019.csv": "d6adc1f2261c715c",
    "claims_over_time.csv": "49080c86006f5cbb",
    "fehervari2019_results.csv": "1231ac1dcc990c4f",
    "fehervari2019_settings.csv": "a648f919d910949d",
    "musgrave2020_hyperparameters.csv": "6b4ac4e9fd8ccfd3",
    "musgrave2020_results.csv": "79f1c683d72d49d0",
    "musgrave2020_search_trials.csv": "4f0c04759688bd4e",
    "musgrave2020_tables12.csv": "1e3176d643a96574",
    "oi2021_table1.csv": "a781b210f6cd7d0a",
    "roth2020_results.csv": "c6fe0e92ff429d17",
    "roth2020_table1.csv": "a4000a0ce4d1f2bc",
    "zhai2019_results.csv": "d73c39a50ba3c7dd",
    "zhai2019_samples_per_class.csv": "49c60961ffaa34a7",
}
"""File -> the beginning of its SHA-256: a digit changes only with its line here, by someone who looked at the paper."""


def test_no_digit_has_changed_since_it_was_transcribed():
    assert {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in FOLDER.glob("*.csv")
    } == TRANSCRIBED


def cell(dataset, method, setting, metric):
    rows = published.musgrave_results().set_index(["dataset", "method", "setting", "metric"]).sort_index()
    return rows.loc[(dataset, method, setting, metric), ["mean", "ci95"]].to_numpy(float)


@pytest.mark.parametrize(
    ("where", "mean", "ci95"),
    [
        (("CUB200", "contrastive", "concatenated", "precision_at_1"), 67.21, 0.49),
        (("CUB200", "cosface", "concatenated", "map_at_r"), 26.53, 0.23),
        (("Cars196", "margin", "separated", "precision_at_1"), 70.95, 2.69),
        (("Cars196", "multi_similarity", "concatenated", "r_precision"), 37.96, 0.63),
        (("SOP", "multi_similarity_miner", "separated", "map_at_r"), 41.79, 0.49),
        (("SOP", "soft_triple", "concatenated", "precision_at_1"), 76.10, np.nan),
        (("CUB200", "pretrained", "separated", "map_at_r"), 14.53, np.nan),
    ],
)
def test_tables_3_to_5(where, mean, ci95):
    np.testing.assert_allclose(cell(*where), [mean / 100, ci95 / 100], rtol=1e-12)


def test_tables_3_to_5_are_complete():
    frame = published.musgrave_results()
    assert len(frame) == 13 * 2 * 3 * 3
    assert not frame.duplicated(["dataset", "method", "setting", "metric"]).any()
    assert set(frame["dataset"]) == set(published.DATASETS)
    assert frame["ci95"].isna().sum() == 48
    assert frame["mean"].between(0.05, 0.9).all()
    # RP counts every hit among R neighbours, MAP@R discounts the late ones
    wide = frame.pivot(index=["dataset", "method", "setting"], columns="metric", values="mean")
    assert (wide["map_at_r"] < wide["r_precision"]).all()
    assert (wide["r_precision"] < wide["precision_at_1"]).all()


def test_methods_are_the_studys():
    ours = {method.name for method in musgrave2020.METHODS}
    assert set(published.musgrave_results()["method"]) - {"pretrained"} == ours - {"ntxent", "margin_per_class"}
    assert set(published.search_traces()["method"]) == ours
    assert set(published.hyperparameters()["method"]) == ours


def test_tables_1_and_2():
    frame = published.trunks().set_index(["source_table", "network", "dataset"])["value"]
    assert len(frame) == 18
    assert frame["Table 1", "BN-Inception", "CUB200"] == pytest.approx(0.511)
    assert frame["Table 2", "GoogleNet", "SOP"] == pytest.approx(0.812)


def test_searches():
    traces = published.search_traces()
    searches = traces.groupby(["dataset", "batch_size", "method"])["best"]
    assert len(searches) == 53
    assert (searches.size() == 50).all()
    assert searches.apply(lambda best: best.is_monotonic_increasing).all()
    assert traces["best"].between(0, 1).all()


def test_claims_leave_out_what_nobody_read():
    frame = published.claims()
    assert len(frame) == 172
    assert not ((frame["paper"] == "Lin et al., DVML") & (frame["role"] == "proposed")).any()
    assert frame["source"].notna().all()
    assert not frame["source"].str.contains("recalled").any()
    headline = frame[frame["primary"]]
    assert not headline.duplicated(["paper", "dataset", "role"]).any()


def test_claims_agree_with_the_source_they_name():
    frame = published.claims().set_index(["paper", "dataset", "role", "method"])["r1"]
    song = "Song et al., Lifted Structured Feature Embedding"
    assert frame[song, "CUB200", "contrastive_baseline", "Contrastive"] == pytest.approx(0.264)
    assert frame["Zhai & Wu, Normalized Softmax", "Cars196", "proposed", "NormSoftmax 2048"] == pytest.approx(0.893)


def test_an_unknown_name_is_an_error_and_not_a_missing_value():
    with pytest.raises(KeyError, match="Contrastiv"):
        published._known(pd.Series(["Contrastiv"]), published.METHODS)
