"""Tables against numbers worked out by hand, and against what the papers say about their own tables."""

import copy
import itertools
from dataclasses import replace

import numpy as np
import optuna
import pandas as pd
import pytest
from factories import fake_records, fake_units, searched_study, write_fake_study
from scipy import stats

from dmlrc import records as records_module
from dmlrc.papers import musgrave2020
from dmlrc.records import PRETRAINED
from dmlrc.report import deviations, importances, labels, published, statistics, tables, titles
from dmlrc.report.deviations import compare
from dmlrc.report.musgrave2020 import page, race, winners, years
from dmlrc.report.statistics import Estimate


def printed(dataset):
    frame = published.musgrave_results()
    return frame[frame["dataset"] == dataset]


def results(rows):
    """method -> (mean, ci95) of the concatenated MAP@R."""
    return pd.DataFrame(
        [
            {"method": method, "setting": "concatenated", "metric": "map_at_r", "mean": mean, "ci95": ci95}
            for method, (mean, ci95) in rows.items()
        ]
    )


def test_interval_is_students():
    values = [0.61, 0.64, 0.60, 0.66]
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert statistics.half_width(values) == pytest.approx((high - low) / 2)
    assert statistics.half_width(values) > 1.96 * stats.sem(values)  # the normal interval would be too narrow
    assert np.isnan(statistics.half_width([0.5]))


def test_accuracy_over_reruns():
    records = fake_records(reruns=4)
    frame = tables.accuracy(records).set_index(["method", "setting", "metric"])
    scores = records.scores
    own = scores[
        (scores["method"] == "arcface") & (scores["setting"] == "separated") & (scores["metric"] == "map_at_r")
    ]
    row = frame.loc["arcface", "separated", "map_at_r"]
    assert row["n"] == 4
    assert row["mean"] == pytest.approx(own["value"].mean())
    assert row["ci95"] == pytest.approx(statistics.half_width(own["value"]))
    assert np.isnan(frame.loc[("pretrained", "separated", "map_at_r"), "ci95"])
    assert "fold0" not in frame.index.get_level_values("setting")


def test_a_second_search_that_has_only_begun_changes_no_interval():
    records = fake_records(reruns=4)
    begun = records.runs[records.runs["kind"] == "trial"].assign(repetition=1)
    both = replace(records, runs=pd.concat([records.runs, begun]))
    assert both.searches == 1
    pd.testing.assert_frame_equal(tables.accuracy(both), tables.accuracy(records))


def test_marks():
    frame = results(
        {
            "pretrained": (0.99, np.nan),  # does not compete
            "contrastive": (0.30, 0.01),
            "triplet": (0.293, 0.006),
            "margin": (0.290, 0.005),
            "arcface": (0.294, np.nan),  # has the luck of the others
        }
    ).assign(n=4)
    # the difference to margin has a standard error of 0.0034 by the variances between the own and the pooled one, and
    # 8.7 degrees of freedom: 2.9 errors, where 3 comparisons ask for 2.5
    assert tables.marks(frame).tolist() == ["", "best", "tie", "", "tie"]
    assert tables.marks(frame.assign(ci95=np.nan)).tolist() == ["", "best", "tie", "tie", "tie"]  # nothing is known


def test_cells_below_the_untrained_trunk_and_rows_that_were_cut_off_have_a_sign():
    records = fake_records(reruns=4)
    limited = (records.runs["method"] == "snr") & (records.runs["kind"] == "rerun") & (records.runs["fold"] == 0)
    runs = records.runs.assign(stopped=np.where(limited, "limit", "plateau"))
    scores = records.scores.copy()
    weak = (scores["method"] == "triplet") & (scores["metric"] == "map_at_r")
    scores.loc[weak, "value"] /= 100
    records = replace(records, runs=runs, scores=scores)
    assert tables.cut_off(records)["snr"] == pytest.approx(0.25)  # one fold of four
    cells, _ = page.results_cells(tables.accuracy(records), state=tables.status(records))
    assert cells["Concatenated (512-d)", "MAP@R"].str.endswith(labels.BELOW).sum() == 1
    assert cells.loc["Triplet", ("Concatenated (512-d)", "MAP@R")].endswith(labels.BELOW)
    assert not cells.loc["Triplet", ("Concatenated (512-d)", "P@1")].endswith(labels.BELOW)
    assert cells.loc["SNR", ("Concatenated (512-d)", "MAP@R")].endswith(labels.CUT_OFF)
    assert not cells["Concatenated (512-d)", "MAP@R"].drop("SNR").str.endswith(labels.CUT_OFF).any()
    unvalidated = replace(records, meta=records.meta | {"protocol": records.meta["protocol"] | {"folds": 0}})
    assert tables.cut_off(unvalidated).empty  # its runs have a fixed length


def test_a_caption_says_what_italic_means():
    once = tables.accuracy(fake_records())
    assert "seeds alone" in labels.marks_legend(once)
    assert "search and seed" in labels.marks_legend(once.assign(seed_ci95=0.01))


def test_marks_keep_settings_and_metrics_apart():
    marks = tables.marks(printed("CUB200"))
    best = printed("CUB200")[marks == "best"].set_index(["setting", "metric"])["method"]
    assert len(best) == 6
    assert best["concatenated", "map_at_r"] == "cosface"  # bold in Table 3
    assert best["concatenated", "r_precision"] == "cosface"
    assert best["concatenated", "precision_at_1"] == "snr"


def test_status_tells_diverged_from_not_run():
    state = tables.status(fake_records(trials=3, reruns=2, diverged=["snr"], missing=["triplet"]))
    assert state.loc["snr", "state"] == "diverged"
    assert state.loc["snr", "diverged"] == 3
    assert state.loc["triplet", "state"] == "not run"
    assert state.loc["arcface", "state"] == "complete"
    records = fake_records(trials=3, reruns=2)
    records.meta["budget"]["reruns"] = 10
    assert tables.status(records).loc["arcface", "state"] == "unfinished"


def test_a_rerun_lost_on_the_test_images_and_one_that_failed_count_as_having_no_result():
    """Of the first all runs are complete, of the second there are none."""
    records = fake_records(trials=3, reruns=2)
    last = (records.reruns["method"] == "arcface") & (records.reruns["rerun"] == 1)
    whole = tables.status(records).loc["arcface"]
    records.reruns.loc[last, "state"] = "diverged"
    lost = tables.status(records).loc["arcface"]
    records.reruns.loc[last, "state"] = "failed"
    records.runs.drop(
        index=records.runs.query("method == 'arcface' and kind == 'rerun' and number == 1").index, inplace=True
    )
    failed = tables.status(records).loc["arcface"]
    counts = ["reruns", "diverged_reruns", "failed_reruns", "state"]
    assert [each[counts].tolist() for each in (whole, lost, failed)] == [
        [2, 0, 0, "complete"],
        [1, 1, 0, "complete"],
        [1, 0, 1, "complete"],
    ]


def test_a_method_whose_every_trial_failed_is_not_unfinished():
    records = fake_records(trials=3, reruns=2)
    records.trials.loc[records.trials["method"] == "arcface", "state"] = "failed"
    assert tables.status(records).loc["arcface", "state"] == "failed"


def test_cost_sums_the_folds():
    table = tables.cost(fake_records(trials=3))
    assert table.loc["arcface"].tolist() == [
        12.0,  # 3 trials of 4 s
        10.0,  # folds of 1 + 2 + 3 + 4 s
        400.0,  # and of 100 steps
    ]


def test_spread():
    frame = results({"contrastive": (0.30, 0.01), "triplet": (0.20, 0.03), "pretrained": (0.1, np.nan)})
    found = tables.spread(frame)
    assert (found["best_method"], found["worst_method"]) == ("contrastive", "triplet")
    assert found["range"] == pytest.approx(0.10)
    assert found["mean_ci95"] == pytest.approx(0.02)


def test_improvement_by_hand():
    rows = {"contrastive": 0.5, "triplet": 0.9, "margin": 0.45, "arcface": 0.6}
    frame = results({name: (mean, 0.0) for name, mean in rows.items()}).assign(metric="precision_at_1")
    gain = tables.improvement(frame, "contrastive")
    assert gain["concatenated"] == pytest.approx((0.45 / 0.5 - 1 + 0.6 / 0.5 - 1) / 2)  # triplet is no newer method
    assert np.isnan(gain["separated"])
    assert tables.improvement(frame[1:], "contrastive").isna().all()


def test_improvement_in_the_published_tables_is_next_to_nothing():
    """Finding 18: -1.8 % on CUB200, +2.0 % on Cars196, +1.6 % on SOP, over contrastive, concatenated."""
    gains = [100 * tables.improvement(printed(name), "contrastive")["concatenated"] for name in published.DATASETS]
    np.testing.assert_allclose(gains, [-1.8, 2.0, 1.6], atol=0.06)


def test_claimed_improvement_is_a_multiple_of_that():
    """Section 4.2: "exceeding 100 %" over contrastive, "exceeding 50 %" over triplet."""
    gains = tables.claimed_improvement(published.claims(), "contrastive")
    assert gains["year"].between(2017, 2019).all()
    means = 100 * gains.groupby("dataset")["gain"].mean()
    np.testing.assert_allclose(means[list(published.DATASETS)], [99.2, 197.9, 89.9], atol=0.05)
    triplet = tables.claimed_improvement(published.claims(), "triplet").groupby("dataset")["gain"].mean()
    assert triplet["Cars196"] > 0.5


def test_recycled_baselines():
    table = tables.recycled(published.claims(), "contrastive").set_index(["dataset", "r1"])
    row = table.loc["CUB200", 0.264]
    assert row["papers"] == 5
    assert row["who"].startswith("Song et al., Lifted")
    assert row["first"] == 2016
    assert (table["papers"] > 1).all()


def test_rank_agreement():
    ours = results({"contrastive": (0.3, 0), "triplet": (0.2, 0), "margin": (0.1, 0), "pretrained": (0.9, np.nan)})
    theirs = results({"contrastive": (0.6, 0), "triplet": (0.5, 0), "margin": (0.4, 0), "pretrained": (0.1, np.nan)})
    assert tables.rank_agreement(ours, theirs) == pytest.approx({"rho": 1.0, "p": 0.0, "n": 3}, abs=1e-6)
    assert np.isnan(tables.rank_agreement(ours[:2], theirs)["rho"])


def with_trials(rows):
    records = fake_records(trials=1)
    columns = {"seconds": 1.0, "steps": 1, "reason": "", "commit": ""}
    trials = pd.DataFrame([{**columns, "state": "complete", "params": {}, **row} for row in rows])
    return replace(records, trials=trials)


def test_best_so_far_passes_over_diverged_trials():
    values = [0.2, np.nan, 0.1, 0.3]
    records = with_trials(
        {"method": "triplet", "repetition": 0, "trial": trial, "value": value} for trial, value in enumerate(values)
    )
    trace = tables.best_so_far(records)
    assert trace["trial"].tolist() == [1, 2, 3, 4]
    assert trace["best"].tolist() == [0.2, 0.2, 0.2, 0.3]
    assert tables.trials_to_reach(trace).tolist() == [4]


def test_each_search_of_a_method_has_its_own_best_so_far():
    searches = ([0.3, 0.1, 0.4], [0.2, 0.2, 0.1])
    records = with_trials(
        {"method": "triplet", "repetition": repetition, "trial": trial, "value": value}
        for repetition, values in enumerate(searches)
        for trial, value in enumerate(values)
    )
    trace = tables.best_so_far(records)
    assert trace["best"].tolist() == [0.3, 0.3, 0.4, 0.2, 0.2, 0.2]
    assert tables.trials_to_reach(trace).to_dict() == {("triplet", 0): 3, ("triplet", 1): 1}


def test_published_searches_reach_their_best():
    reached = tables.trials_to_reach(published.search_traces())
    assert len(reached) == 53
    assert reached.between(1, 50).all()


def test_sensitivity_leaves_diverged_trials_out():
    rows = [
        {"method": "triplet", "repetition": 0, "trial": trial, "value": value}
        for trial, value in enumerate([0.1, 0.2, 0.4])
    ]
    rows.append({"method": "triplet", "trial": 3, "value": np.nan, "state": "diverged"})
    row = tables.sensitivity(with_trials(rows)).loc["triplet"]
    assert row["trials"] == 3
    assert row["median_share"] == pytest.approx(0.5)


@pytest.fixture
def few_trees(monkeypatch):
    monkeypatch.setattr(importances, "TREES", 16)  # of 64


def test_importance_finds_the_parameter_that_matters(few_trees):
    rng = np.random.default_rng(0)
    rows = []
    for trial in range(40):
        params = {"pos_margin": rng.uniform(-0.2, 2), "neg_margin": rng.uniform(-0.2, 2)}
        row = {"method": "contrastive", "repetition": 0, "trial": trial, "params": params}
        rows.append(row | {"value": params["neg_margin"] ** 2})
    once = tables.importance(with_trials(rows)).set_index("parameter")
    shares = once["importance"]
    assert shares["neg_margin"] > 0.9
    assert 0.95 < shares.sum() <= 1
    assert once["error"].isna().all()
    assert tables.importance(with_trials(rows[:10])).empty  # too few to say
    # a second search in which the other margin matters
    other = [row | {"repetition": 1, "value": row["params"]["pos_margin"] ** 2} for row in rows]
    twice = tables.importance(with_trials(rows + other)).set_index("parameter")
    alone = tables.importance(with_trials(other)).set_index("parameter")["importance"]
    for name, row in twice.iterrows():
        assert row["importance"] == pytest.approx((shares[name] + alone[name]) / 2)
        assert row["error"] == pytest.approx(abs(shares[name] - alone[name]) / 2)  # of two: the SD over the root of 2
    product = [row | {"value": row["params"]["pos_margin"] * row["params"]["neg_margin"]} for row in rows]
    assert tables.importance(with_trials(product))["importance"].sum() < 0.97  # the margins also work together


def test_a_step_explains_all_by_itself_and_a_chequerboard_nothing():
    grid = np.stack(np.meshgrid(*[np.linspace(0.05, 0.95, 10)] * 2), -1).reshape(-1, 2)
    high = grid > 0.5
    assert importances.main_effects(grid, high[:, 0].astype(float), 0) == pytest.approx([1, 0], abs=0.01)
    assert max(importances.main_effects(grid, (high[:, 0] ^ high[:, 1]).astype(float), 0)) < 0.05


def optuna_effects(points, values, seed):
    names = [str(dim) for dim in range(points.shape[1])]
    ranges = dict.fromkeys(names, optuna.distributions.FloatDistribution(0, 1))
    study = optuna.create_study()
    for point, value in zip(points.tolist(), values.tolist(), strict=True):
        params = dict(zip(names, point, strict=True))
        study.add_trial(optuna.create_trial(params=params, distributions=ranges, value=value))
    evaluator = optuna.importance.FanovaImportanceEvaluator(n_trees=importances.TREES, seed=seed)
    shares = evaluator.evaluate(study, params=names)
    return [shares[name] for name in names]


@pytest.mark.parametrize(("points", "dims", "trees"), [(50, 2, 64), (30, 4, 8), (20, 1, 4), (4, 3, 8)])
def test_main_effects_are_those_of_optuna(points, dims, trees, monkeypatch):
    """Of points at the ends of the cube too, with values that are equal, and trees that drew equal ones alone."""
    monkeypatch.setattr(importances, "TREES", trees)
    random = np.random.default_rng(dims)
    cube = random.random((points, dims)).round(2)
    cube[0], cube[1] = 0, 1
    values = (cube[:, 0] * cube[:, -1] + random.normal(0, 0.1, points)).round(1)
    for seed in (0, 1):
        assert importances.main_effects(cube, values, seed) == pytest.approx(
            optuna_effects(cube, values, seed), abs=1e-9
        )


def test_equal_values_have_nothing_to_explain():
    with pytest.raises(ValueError, match="outside of the unit cube"):
        importances.main_effects(np.full((5, 3), 1.5), np.ones(5), 0)
    assert np.isnan(importances.main_effects(np.full((5, 3), 0.5), np.ones(5), 0)).all()


def test_importance_is_on_the_scale_of_the_search(few_trees):
    random, rows = np.random.default_rng(0), []
    for trial in range(40):
        temperature, rate = (10 ** random.uniform(*ends) for ends in ((-2, 2), (-6, 0)))
        params = {"temperature": temperature, "loss_weights_lr": rate}
        value = np.log10(rate)  # of which a linear scale sees the last decade alone
        rows.append({"method": "normalized_softmax", "trial": trial, "params": params, "value": value, "repetition": 0})
    shares = tables.importance(with_trials(rows)).set_index("parameter")["importance"]
    assert shares["loss_weights_lr"] > 0.9
    step = [row | {"value": float(row["params"]["loss_weights_lr"] > 1e-3)} for row in rows]  # half of the range
    assert tables.importance(with_trials(step)).set_index("parameter")["importance"]["loss_weights_lr"] > 0.9


def test_best_hyperparameters_stand_beside_their_range():
    rows = [
        {"method": "triplet", "trial": trial, "value": value, "params": {"margin": margin}}
        for trial, (value, margin) in enumerate([(0.1, 1.5), (0.3, 0.2)])
    ]
    table = tables.best_hyperparameters(with_trials(rows))
    assert table.loc[0, ["value", "low", "high", "at_edge"]].tolist() == [0.2, -0.2, 2.0, False]


def test_an_optimum_at_the_edge_of_its_range_is_marked():
    rows = [{"method": "ntxent", "trial": 0, "value": 0.1, "params": {"temperature": 1.2e-4}}]  # of 1e-4..
    assert tables.best_hyperparameters(with_trials(rows))["at_edge"].tolist() == [True]
    rows[0]["params"]["temperature"] = 0.1
    assert tables.best_hyperparameters(with_trials(rows))["at_edge"].tolist() == [False]


def test_methods_is_table_6():
    table = tables.method_facts()
    assert table.loc["contrastive", "year"] == 2006
    assert table.loc["soft_triple", "kind"] == "classification"
    assert table.loc["arcface", "batch"] == "32 x 1"
    assert len(table) == 14


def test_printed_results_is_the_papers_table():
    cells, marks = page.results_cells(printed("CUB200"))
    assert cells.loc["Contrastive", ("Concatenated (512-d)", "P@1")] == "67.21 ± 0.49"
    assert cells.loc["Untrained trunk", ("Separated (128-d)", "MAP@R")] == "14.53"
    assert marks.loc["CosFace", ("Concatenated (512-d)", "MAP@R")] == "best"
    assert cells.index[0] == "Untrained trunk"


def test_printed_results_says_what_is_missing():
    records = fake_records(diverged=["snr"], missing=["triplet"])
    cells, _ = page.results_cells(tables.accuracy(records), 128, 4, tables.status(records))
    assert cells.loc["SNR", ("", "reruns")] == "diverged"
    assert cells.loc["Triplet", ("", "reruns")] == "not run"
    assert cells.loc["Triplet"].iloc[0] == "–"
    assert cells.loc["ArcFace", ("", "reruns")] == "2"


def test_our_scores_stand_beside_the_published_ones():
    records = fake_records()
    points = page.beside_published([records], {"SOP": printed("SOP")}).set_index("method")
    assert "ntxent" not in points.index  # not in that table
    assert "pretrained" not in points.index
    mean = tables.accuracy(records).set_index(["method", "setting", "metric"])["mean"]
    assert points.loc["margin", "ours"] == mean["margin", "concatenated", "map_at_r"]
    assert points.loc["margin", "theirs"] == pytest.approx(0.4211)
    assert set(points["study"]) == {"fake-study"}


def test_settings_are_printed_in_words():
    cells = pd.DataFrame({"ours": ["1"]}, index=["frozen_trunk"])
    assert labels.in_words(cells).index.tolist() == ["frozen trunk"]
    assert labels.in_words(pd.DataFrame({"setting": ["lr", "data set"]}))["setting"].tolist() == [
        "learning rate",
        "data set",
    ]


def test_methods_below_the_trunk_are_counted_by_their_means(monkeypatch):
    rows = results({"pretrained": (0.5, np.nan), "a": (0.4, 0.05), "b": (0.49, 0.05), "c": (0.6, 0.01)})
    both = pd.concat([rows.assign(metric="precision_at_1"), rows[rows["method"].isin(["pretrained", "c"])]])
    monkeypatch.setattr(labels, "accuracy", lambda records: both)
    records = fake_records()
    assert labels.below_untrained(records, "precision_at_1") == (2, 3)
    assert labels.below_untrained(records, "map_at_r") == (0, 1)
    assert labels.below_untrained(records, "precision_at_1", "separated") == (0, 0)
    monkeypatch.setattr(labels, "accuracy", lambda records: both[both["method"] != "pretrained"])
    assert labels.below_untrained(records, "precision_at_1") == (0, 0)


def test_joining_models_is_a_mean_over_the_losses_in_points():
    assert [round(winners.joining_gain(printed(name)), 1) for name in published.DATASETS] == [4.9, 7.8, 5.4]


def test_equal_numbers_of_reruns_are_left_to_the_caption():
    records = fake_records()
    cells, _ = page.results_cells(tables.accuracy(records), 128, 4, tables.status(records))
    assert ("", "reruns") not in cells
    assert cells.columns[0] == ("Concatenated (512-d)", "MAP@R")


def test_a_method_of_the_readers_own_comes_last_and_keeps_its_name():
    assert tables.ordered(["my_loss", "arcface", "pretrained", "contrastive"]) == [
        "pretrained",
        "contrastive",
        "arcface",
        "my_loss",
    ]
    assert labels.method_label("my_loss") == "my_loss"


def test_settings_show_the_paper_first():
    table, marks = page.protocol_cells([fake_records()])
    assert marks.loc["trunk"].tolist() == ["", "best"]
    assert marks.loc["folds"].tolist() == ["", ""]
    assert table.columns.tolist() == ["paper", "fake-study"]
    assert table.loc["trunk"].tolist() == ["BN-Inception", "conv4"]
    assert table.loc["crop_scale", "paper"] == "0.16 to 1"


def test_settings_are_compared_with_those_of_the_same_data_set():
    cars, other = fake_records(), fake_records()
    cars.meta["dataset"], other.meta["study"] = "cars196crops", "other"
    cars.meta["protocol"] |= {"eval_every": 5, "augmentation": "none"}
    other.meta["protocol"] |= {"eval_every": 2}
    table, marks = page.protocol_cells([cars, other])
    assert table.loc["eval_every"].tolist() == ["2 (Cars196: 5)", "5", "2"]
    assert marks.loc["eval_every"].tolist() == ["", "", ""]
    assert table.loc["crop_scale", "fake-study"] == "–"


def test_a_caption_says_how_many_runs_stand_behind_a_number():
    records = fake_records(trials=3, reruns=2)
    assert labels.caption(records) == "`fake-study`: n = 2 reruns."
    thrice = searched_study("grocery-frozen", {"triplet": 0.5, "margin": 0.4}, repetitions=3)
    assert labels.caption(thrice) == "`grocery-frozen`: n = 9 reruns (3 searches, 3 reruns each)."
    fewer = thrice.reruns.drop(index=thrice.reruns.index[-1])  # a method that was taken over from a smaller budget
    assert labels.caption(replace(thrice, reruns=fewer)) == "`grocery-frozen`: n = 8 to 9 reruns."
    assert labels.caption(replace(records, reruns=records.reruns.iloc[:0])) == "`fake-study`: n = 3 trials."


@pytest.mark.parametrize("protocol", [musgrave2020.CHARACTERS, musgrave2020.FROZEN])
def test_caveats_are_those_of_the_budget_and_the_trunk(protocol):
    records = fake_records(protocol=protocol, trials=3, reruns=2)
    assert ("fine-tuned" in labels.caveats([records])) == protocol.frozen_trunk
    assert "too small to rank" in labels.caveats([records])
    assert labels.caveats([records, records]).count("too small to rank") == 1
    ten = fake_records(protocol=protocol, trials=10, reruns=3)
    assert "Short searches and runs, which rank the methods for this budget alone" in labels.caveats([ten])
    assert "too small to rank" not in labels.caveats([ten])


def test_class_counts_are_the_published_ones():
    table = tables.class_counts([fake_records()])
    assert table.loc["CUB200"].tolist() == [200, 75, 25, 0, 100]
    assert table.loc["Cars196"].tolist() == [196, 74, 24, 2, 98]
    assert table.loc["SOP"].tolist() == [22634, 8488, 2829, 1, 11317]
    assert table.loc["fake-study", "test"] == 699


def test_pretrained_trunks_have_a_dash_where_nothing_was_measured():
    cells = page.pretrained_trunks([fake_records(protocol=musgrave2020.FROZEN)])
    assert cells.loc["BN-Inception", "CUB200"] == "51.1"
    assert cells.loc["BN-Inception", "fake-study"] == "–"
    assert cells.loc["SqueezeNet 1.0", "CUB200"] == "–"
    assert float(cells.loc["SqueezeNet 1.0", "fake-study"]) == pytest.approx(35, abs=3)


def test_random_trunks_stand_beside_chance():
    found = pd.DataFrame([{"trunk": "conv4", "classes": 100, "images": 12.0, "nmi": 0.6}])
    cells = page.random_trunk_cells({"Glyphs": found})
    assert cells.loc["GoogLeNet", "SOP"] == "81.2"
    assert cells.loc["conv4", "Glyphs, 100 x 12"] == "60.0"
    assert cells.loc["formula: 1 − log S / log C", "Glyphs, 100 x 12"] == "46.0"


def test_answer_has_a_row_for_every_results_table():
    cells = years.answer_cells([fake_records()])
    assert cells.index.tolist() == [
        "CUB200 (Reality Check)",
        "Cars196 (Reality Check)",
        "SOP (Reality Check)",
        "fake-study",
    ]
    assert cells.loc["CUB200 (Reality Check)", "best"] == "26.53 CosFace"
    assert cells.loc["CUB200 (Reality Check)", "over contrastive"] == "-1.8 %"
    printed = tables.by_method(published.musgrave_tables()["CUB200"])["mean"]
    lift = printed.drop(PRETRAINED).mean() - printed[PRETRAINED]
    assert cells.loc["CUB200 (Reality Check)", "lift by training"] == f"{100 * lift:+.2f}"


def test_ledger_lists_the_fields_that_differ_and_numbers_them():
    table = deviations.ledger("musgrave2020", {"ours": fake_records(protocol=musgrave2020.FROZEN)})
    settings = table["setting"].tolist()
    assert table.index.tolist() == list(range(1, len(table) + 1))
    assert "frozen_trunk" in settings
    assert "embedding_dim" not in settings  # as in the paper
    assert "budget" in settings
    assert (table["why"].str.len() > 0).all()
    paper = fake_records(protocol=musgrave2020.PROTOCOL)
    paper.meta["budget"]["name"] = "full"
    table = deviations.ledger("musgrave2020", {"paper": paper})
    by_hand = {row.setting for row in compare.read_deviations("musgrave2020")[1]} - {"budget"}  # the full one
    assert set(table["setting"]) <= {"weight_decay", "momentum", *by_hand}  # those two the paper leaves open


def test_a_first_run_is_explained_and_so_is_an_experiment_around_it():
    records = fake_records()
    assert labels.first_runs([records]) == ""
    records.meta["study"] = titles.FIRST_RUNS[0]
    assert labels.first_runs([records]).startswith("{term}`First run`: ")
    records.meta.update(study=f"{titles.FIRST_RUNS[0]}/roth2020", parent=titles.FIRST_RUNS[0])
    assert labels.caveats([records]).startswith("{term}`First run`: ")


def test_ledger_counts_the_reruns_of_each_search():
    records = fake_records(reruns=3, protocol=musgrave2020.FROZEN)
    row = "number of reruns"
    assert deviations.ledger("musgrave2020", {"ours": records}).set_index("setting").loc[row, "ours"] == "3"
    records.meta["repetitions"] = 2
    told = deviations.ledger("musgrave2020", {"ours": records}).set_index("setting").loc[row, "ours"]
    assert told == "2 searches, 3 each"


def test_ledger_compares_the_crops_of_cars_with_cars196():
    paper = replace(musgrave2020.PROTOCOL, eval_every=5, patience=14)
    rows = {
        name: deviations.ledger("musgrave2020", {"ours": fake_records(dataset=name, protocol=paper)}).set_index(
            "setting"
        )
        for name in ("cars196crops", "cub200_2010")
    }
    assert not {"eval_every", "patience"} & set(rows["cars196crops"].index)
    assert rows["cub200_2010"].loc["patience", ["ours", "the paper's"]].tolist() == ["14", "9"]
    assert "squashed" in rows["cars196crops"].loc["stored images", "ours"]
    assert rows["cub200_2010"].loc["stored images", "ours"].startswith("a square around each bird")
    assert rows["cars196crops"].loc["data set", "ours"] == "Cars crops"
    both = {name: fake_records(dataset=name, protocol=musgrave2020.FROZEN) for name in ("cars196crops", "grocery")}
    row = deviations.ledger("musgrave2020", both).set_index("setting").loc["patience"]
    assert row["the paper's"] == "cars196crops: 14; grocery: 9"


def test_a_partly_frozen_trunk_is_named_as_what_it_is():
    partly = replace(musgrave2020.FROZEN, frozen_trunk=False, train_from="features.12", augmentation="flip")
    records = fake_records(protocol=partly)
    assert labels.trunk(records.meta["protocol"]) == "SqueezeNet 1.0, last block trained"
    rows = deviations.ledger("musgrave2020", {"ours": records}).set_index("setting")
    assert rows.loc["train_from", "ours"] == "features.12"
    assert "frozen_trunk" not in rows.index  # as in the paper


def test_a_study_that_has_just_begun_can_be_shown():
    records = fake_records(missing=[method.name for method in musgrave2020.METHODS])
    assert np.isnan(tables.spread(tables.accuracy(records))["range"])
    assert years.answer_cells([records]).loc["fake-study", "over contrastive"] == "–"
    assert page.results_scalars(records) == {}


def test_rates_come_from_the_short_searches(home):
    assert tables.rates("musgrave2020-frozen").empty
    write_fake_study(study="first-runs/grocery-frozen/rate-1e-04", protocol=musgrave2020.FROZEN_RATE1E4)
    table = tables.rates("musgrave2020-frozen")
    own = musgrave2020.FROZEN_RATE1E4
    assert table.index.tolist() == [(1e-4, 9, 50), (1e-4, own.patience, own.max_epochs)]
    assert table["arcface"].between(0.2, 0.4).all()
    for other in ("grocery-frozen", "grocery-quick/rates", "glyphs-quick/rate-1e-03"):  # a table, a sweep, a protocol
        write_fake_study(study=other, protocol=musgrave2020.FROZEN_RATE1E4)
    assert tables.rates("musgrave2020-frozen").equals(table)


def test_years_stand_beside_the_p_at_1_of_one_setting():
    rows = [
        (method, setting, metric, number)
        for number, (method, setting, metric) in enumerate(
            itertools.product(
                (PRETRAINED, "contrastive", "snr"),
                ("separated", "concatenated"),
                ("precision_at_1", "map_at_r"),
            )
        )
    ]
    frame = pd.DataFrame(rows, columns=["method", "setting", "metric", "mean"])
    assert tables.measured_by_year(frame).to_numpy().tolist() == [["contrastive", 2006, 6], ["snr", 2019, 10]]


def test_the_share_of_cut_off_reruns_is_counted_method_by_method():
    records = fake_records(reruns=3)
    runs = records.runs.assign(stopped="plateau")
    reruns = runs.index[(runs["kind"] == "rerun") & (runs["method"] == "triplet")]
    runs.loc[reruns[0], "stopped"] = "limit"
    some = replace(records, meta=records.meta | {"study": "some"}, runs=runs)
    none = replace(
        records, meta=records.meta | {"study": "none"}, runs=runs[runs["method"] != "snr"].assign(stopped="plateau")
    )
    cells, marks = page.cut_off_cells(page.cut_off_by_study([some, none]))
    assert cells.index[0] == "Triplet"
    assert cells.loc["Triplet", "some"] == f"{100 / len(reruns):.0f} %"
    assert marks.to_numpy().tolist().count(["best", ""]) == 1 == marks.eq("best").to_numpy().sum()
    assert cells.loc["SNR", "none"] == "–"


def test_nothing_is_cut_off_where_a_run_has_a_fixed_length():
    records = fake_records(reruns=3)
    for length in ({"folds": 0}, {"patience": records.meta["protocol"]["max_epochs"]}):
        fixed = replace(records, meta=records.meta | {"protocol": records.meta["protocol"] | length})
        assert page.cut_off_by_study([fixed]).empty


def test_replay_stops_the_curves_by_another_rule():
    """Two trials of one method, one fold: values at steps 100, 200, ... of epochs of 100 steps."""
    curves = {0: [0.1, 0.3, 0.2, 0.2, 0.9], 1: [0.1, 0.2, 0.3, 0.4, 0.5]}
    rows = [
        {
            "method": "m",
            "repetition": 0,
            "kind": "trial",
            "number": n,
            "fold": 0,
            "step": 100 * (k + 1),
            "metric": "map_at_r",
            "value": v,
        }
        for n, values in curves.items()
        for k, v in enumerate(values)
    ]
    records = replace(fake_records(), curves=pd.DataFrame(rows))
    records.meta["protocol"]["iterations_per_epoch"] = 100
    whole = tables.replay(records, patience=9, max_epochs=50)
    assert whole.to_dict() == {"m": 0.9, "mean": 0.9, "steps": 500}
    impatient = tables.replay(records, patience=1, max_epochs=50)  # trial 0 gives up at step 400, before the 0.9
    assert impatient.to_dict() == {"m": 0.5, "mean": 0.5, "steps": 450}
    short = tables.replay(records, patience=9, max_epochs=2)
    assert short.to_dict() == {"m": 0.3, "mean": 0.3, "steps": 200}


def test_the_numbers_of_the_race_are_those_of_trials_and_runs():
    records = fake_records(trials=3)
    found = race.numbers([records])
    name = records.meta["dataset"]
    assert (found["published.searches"], found["published.median"]) == (53, 19)
    assert (found[f"{name}.trials"], found[f"{name}.searches"]) == (3, 1)
    assert found[f"{name}.not_on_plateau"] == len(records.runs)  # the made-up runs end at the limit
    assert found[f"{name}.winning_values"] == len(page.best_hyperparameters_cells(records))
    again = records.trials.assign(repetition=1)
    lowest = {name: {key: each.low for key, each in row.space.items()} for name, row in tables.METHODS.items()}
    again["params"] = again["method"].map(lowest)
    both = race.numbers([replace(records, trials=pd.concat([records.trials, again]))])
    won = len(page.best_hyperparameters_cells(records))
    assert both[f"{name}.winning_values"] == 2 * won  # of both searches, also where the other one is better
    assert both[f"{name}.at_edge"] == found[f"{name}.at_edge"] + won
    shares = tables.sensitivity(records)["median_share"]
    assert shares[found[f"{name}.least_forgiving"]] == shares.min()
    assert f"{name}.rate" not in found  # no grid


def test_cells_of_the_smaller_tables():
    records = fake_records(trials=3)
    assert page.cost_cells(records).loc["ArcFace"].tolist() == ["0.2", "10.0", "400"]
    assert page.sensitivity_cells(records).loc["ArcFace", "trials"] == 3
    cells = page.best_hyperparameters_cells(records)
    assert ("Triplet", "margin") in cells.index
    gains = tables.claimed_improvement(published.claims(), "triplet")
    assert years.claimed_cells(gains, "triplet")["gain"].str.endswith("%").all()
    printed = labels.cells(years.baselines(), years.BASELINE_CELLS, ".1%")
    assert printed.loc[("triplet", "CUB200")].tolist() == ["35.9", "55.9", "56.0", "64.4"]
    repeats = tables.recycled(published.claims(), "contrastive").set_index(["dataset", "r1"])
    assert ("CUB200", "26.4") in labels.cells(repeats, form=".1%").index
    flat = Estimate.around(0.01, 0.02, 5)
    assert years.slope_cells({"x": flat}).loc["x"].tolist() == ["+1.00", "± 2.00", "5"]


def repeated(searches=3, reruns=3, search=0.02, seed=0.001):
    """Records of methods that were each searched several times; MAP@R differs by search more than by seed."""
    rng, units = np.random.default_rng(0), []
    made, meta = fake_units(trials=2, reruns=reruns)
    for repetition in range(searches):
        luck = {}
        for each in made:
            if each["kind"] == "pretrained":
                units += [each] if repetition == 0 else []
                continue
            again = copy.deepcopy(each) | {"repetition": repetition}
            for setting, values in again.get("scores", {}).items():
                luck.setdefault((again["method"], setting), search * rng.standard_normal())
                values["map_at_r"] = 0.5 + luck[again["method"], setting] + seed * rng.standard_normal()
            units.append(again)
    return records_module.from_units(units, meta | {"repetitions": searches})


def test_the_fallen_stand_below_the_tables_of_what_searches_cost_and_found():
    fallen = fake_records(diverged=["arcface"])
    for cells in (page.cost_cells(fallen), page.sensitivity_cells(fallen)):
        assert cells.iloc[-1].tolist() == ["diverged", *["–"] * (cells.shape[1] - 1)]
        assert (cells.index[-1], cells.index.name) == ("ArcFace", "method")
        assert len(cells) == len(tables.METHODS)


def test_where_searches_were_repeated_intervals_count_their_luck():
    found = repeated()
    frame = tables.accuracy(found)
    rows = frame[(frame["metric"] == "map_at_r") & (frame["setting"] == "concatenated")].set_index("method")
    trained = rows.drop(index="pretrained")
    assert (trained["n"] == 9).all()
    assert (trained["ci95"] > 3 * trained["seed_ci95"]).all()
    assert trained["among_best"].sum() > 7  # the methods are alike: their differences are luck
    assert (trained["rank_low"] <= trained["rank_high"]).all()
    assert np.isnan(rows["ci95"]["pretrained"])
    assert rows["mean"]["pretrained"] > 0
    marked = tables.marks(frame)
    assert set(marked[frame["among_best"].fillna(False).astype(bool)]) == {"best", "tie"}
    by_seed_alone = tables.accuracy(repeated(searches=1))
    assert "seed_ci95" not in by_seed_alone


def test_a_study_of_several_searches_is_complete_once_all_of_them_are():
    found = repeated(searches=2)
    told = tables.status(found)
    assert set(told["state"]) == {"complete"}
    assert set(told["trials"]) == {4}
    assert set(told["reruns"]) == {6}
    lost = (found.trials["method"] == "arcface") & (found.trials["repetition"] == 0)
    one = {"trials": found.trials.assign(state=found.trials["state"].mask(lost, "diverged"))}
    without = (found.reruns["method"] == "arcface") & (found.reruns["repetition"] == 0)
    for reruns, state in ((found.reruns[~without], "complete"), (found.reruns[~without].iloc[1:], "unfinished")):
        first = reruns["method"].iloc[0] if state == "unfinished" else "arcface"
        assert tables.status(replace(found, **one, reruns=reruns)).loc[first, "state"] == state
    half = records_module.from_units([], found.meta)
    first = {name: getattr(found, name) for name in records_module.FRAMES}
    first = {name: each[each["repetition"] == 0] for name, each in first.items()}
    assert set(tables.status(replace(half, **first))["state"]) == {"unfinished"}
    assert (tables.cost(found)["search_seconds"] == tables.cost(replace(half, **first))["search_seconds"]).all()
    assert len(tables.best_so_far(found)) == 4 * len(musgrave2020.METHODS)  # two searches of two trials


def test_what_became_of_a_method_without_scores_is_told_by_its_runs():
    """Of one at given settings by its reruns, of one half searched that it is not finished, of rates nothing."""
    records = fake_records(trials=3, reruns=2)
    without = replace(records, scores=records.scores[:0])
    given = replace(without, trials=records.trials[:0], reruns=records.reruns.assign(state="diverged"))
    assert set(tables.fallen(given).values()) == {"diverged"}
    first = records.trials[records.trials["trial"] == 0].assign(state="diverged")
    assert set(tables.fallen(replace(without, trials=first, reruns=records.reruns[:0])).values()) == {"unfinished"}
    assert tables.fallen(fake_records(trials=3, reruns=0)) == {}
