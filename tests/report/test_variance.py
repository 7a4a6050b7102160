"""The parts of a ranking on made-up studies whose parts are known."""

from dataclasses import replace
from types import SimpleNamespace

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from drawings import drawn
from factories import fake_records, searched_study
from scipy import stats

from dmlrc import records
from dmlrc.errors import MissingDataError
from dmlrc.records import PRETRAINED
from dmlrc.report import editions, labels, statistics
from dmlrc.report.results_table import GAP, LIFT
from dmlrc.report.significance import measures as significance
from dmlrc.report.statistics import Estimate
from dmlrc.report.variance import figures, levers, measures, page, searches

METHODS = ("contrastive", "triplet", "margin", "arcface")


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


class TestTwoWay:
    def test_by_hand(self):
        # rows 0 and 2, columns 0 and 4, and one point of interaction in each corner: the rest is +-1
        table = pd.DataFrame([[1.0, 3.0], [1.0, 7.0]])
        together, against, own = measures.two_way(table)
        assert together == pytest.approx(np.std([1, 5], ddof=1))
        assert against.value == pytest.approx(2)  # four residuals of 1 over one degree of freedom
        assert own.value == pytest.approx(np.std([2, 4], ddof=1))

    def test_it_is_the_analysis_of_variance_of_whole_tables(self):
        table = pd.DataFrame(np.random.default_rng(0).normal(size=(5, 4)))
        values = table.to_numpy()
        rest = values - values.mean(0) - values.mean(1)[:, None] + values.mean()
        together, against, _ = measures.two_way(table)
        assert together == pytest.approx(values.mean(0).std(ddof=1))
        assert against.value == pytest.approx(np.sqrt((rest**2).sum() / 12))
        low, high = stats.chi2.ppf([0.975, 0.025], 12)
        assert (against.low, against.high) == pytest.approx(tuple(np.sqrt((rest**2).sum() / [low, high])))

    def test_missing_cells_leave_an_additive_table_additive(self):
        table = pd.DataFrame(np.add.outer([1.0, 2.0, 5.0], [0.0, 3.0, 4.0]))
        table.iloc[0, 0] = table.iloc[2, 1] = np.nan
        together, against, _ = measures.two_way(table)
        assert together == pytest.approx(np.std([0, 3, 4], ddof=1))
        assert against.value == pytest.approx(0, abs=1e-12)

    def test_known_noise_is_taken_out_and_the_interval_covers(self):
        rng, covered, found, apart = np.random.default_rng(1), 0, [], []
        for _ in range(400):
            effect = rng.normal(0, 1, 6) + rng.normal(0, 0.5, (8, 6))  # levels 1, interaction 0.5
            true = rng.normal(0, 2, (8, 1)) + effect
            table = pd.DataFrame(true + rng.normal(0, 0.3, (8, 6)))
            _, against, own = measures.two_way(table, error=0.09)
            apart.append(own.value**2 - true.mean(1).var(ddof=1))
            covered += against.low <= 0.5 <= against.high
            found.append(against.value)
        assert np.mean(found) == pytest.approx(0.5, abs=0.02)
        assert np.mean(apart) == pytest.approx(0, abs=3 * np.std(apart) / 20)
        assert 0.93 < covered / 400 < 0.97

    def test_one_method_has_no_rest_and_one_level_no_levels(self):
        together, against, _ = measures.two_way(pd.DataFrame([[1.0, 3.0]]))
        assert together == pytest.approx(np.sqrt(2))
        assert np.isnan(against.value)
        assert np.isnan(measures.two_way(pd.DataFrame([[1.0], [3.0]]))[0])


def study(search=0.01, noise=0.002, fold=0.02, repetitions=3, reruns=3, seed=0, name="made-study"):
    """Records whose luck of search, seed and fold is known; validation scores are test scores less 0.1."""
    rng = np.random.default_rng(seed)
    scores, trials = [], []
    folds = fold * np.array([-1.2, -0.4, 0.4, 1.2])
    for place, method in enumerate(METHODS):
        own_folds = folds + rng.normal(0, 0.005, 4)
        for repetition in range(repetitions):
            luck = 0.4 + 0.03 * place + rng.normal(0, search)
            for trial in range(20):
                value = luck - 0.1 - 0.01 * (19 - trial) * (place + 1)
                trials.append({"method": method, "repetition": repetition, "trial": trial, "value": value})
            for rerun in range(reruns):
                value = luck + rng.normal(0, noise)
                by_setting = {"concatenated": value, **{f"fold{k}": value + own_folds[k] for k in range(4)}}
                by_setting["separated"] = value + own_folds.mean()
                place_of = {
                    "method": method,
                    "row": method,
                    "repetition": repetition,
                    "rerun": rerun,
                    "metric": "map_at_r",
                }
                scores += [place_of | {"setting": setting, "value": each} for setting, each in by_setting.items()]
    found = fake_records(study=name)
    return replace(found, scores=pd.DataFrame(scores), trials=pd.DataFrame(trials))


def part(records, name):
    return next(each for each in measures.parts(records) if each.name == name)


def test_the_luck_of_search_and_seed_is_what_the_statistics_say():
    records = study()
    known = statistics.noise(statistics.as_array(measures.significance.scores(records))[1])
    mean = measures.significance.means(records).mean()
    assert part(records, "search").mean == pytest.approx(mean)
    assert part(records, "search").against.value == pytest.approx(np.sqrt(known.search) / mean)
    assert part(records, "seed").against.value == pytest.approx(np.sqrt(known.seed) / mean)
    found = part(records, "search").against
    assert found.low < 0.01 / mean < found.high


def test_a_part_is_relative_to_the_scores_that_it_was_measured_on():
    records = study()
    doubled = replace(records, scores=records.scores.assign(value=2 * records.scores["value"]))
    for one, other in zip(measures.parts(records), measures.parts(doubled), strict=True):
        assert other.mean == pytest.approx(2 * one.mean)
        assert (other.name, other.against.value) == (one.name, pytest.approx(one.against.value))
        assert (other.against.low, other.against.high) == pytest.approx((one.against.low, one.against.high))
        assert other.together == pytest.approx(one.together, nan_ok=True)


def test_a_study_with_one_search_knows_nothing_of_its_luck():
    names = [each.name for each in measures.parts(study(repetitions=1))]
    assert "search" not in names
    assert "seed" in names


def test_folds_move_all_methods_together():
    found = part(study(search=0.0), "training classes (fold)")
    assert (found.levels, found.methods) == (4, 4)
    assert found.together > 3 * found.against.value
    assert found.against.low < 0.005 / found.mean < found.against.high


def test_the_spread_of_the_losses_has_the_luck_taken_out():
    found = part(study(repetitions=30, reruns=2, search=0.02), "loss")
    expected = np.std([0, 0.03, 0.06, 0.09], ddof=1)
    assert found.against.value * found.mean == pytest.approx(expected, abs=0.006)
    noisy = study(repetitions=3, search=0.1, seed=3)
    runs = measures.significance.scores(noisy).groupby("method")["value"].mean()
    assert part(noisy, "loss").against.value < runs.std(ddof=1) / runs.mean()


def test_other_test_classes_move_all_methods_together():
    rng, rows = np.random.default_rng(0), []
    hard = rng.uniform(0.2, 0.8, 60)
    for method in METHODS:
        values = (hard + rng.normal(0, 0.01, 60)).tolist()
        each = {"classes": list(range(60)), "queries": [30] * 60, "class_map_at_r": values}
        place = {"method": method, "repetition": 0, "rerun": 0, "setting": "concatenated"}
        rows += [place | {"name": name, "values": value} for name, value in each.items()]
    found = part(replace(study(), arrays=pd.DataFrame(rows)), "test classes")
    assert found.levels == 60
    assert found.together == pytest.approx(hard.std() / np.sqrt(60) / hard.mean(), rel=0.1)
    assert found.against.value == pytest.approx(0.01 * np.sqrt(3 / 4) / np.sqrt(60) / hard.mean(), rel=0.3)
    assert 0.8 < found.against.low / found.against.value < 0.9  # of a standard deviation of 60 values


class TestPipeline:
    """The losses of a paper are matched by the function that they are, in the studies of the catalogue."""

    def test_families_of_a_recorded_experiment(self):
        scores = [
            {
                "method": method,
                "row": method,
                "repetition": 0,
                "rerun": 0,
                "setting": "separated",
                "metric": "map_at_r",
                "value": value,
            }
            for method, value in (("contrastive", 0.2), ("margin_06", 0.3), ("margin_12", 0.5), ("histogram", 0.9))
        ]
        records = replace(study(name="first-runs/grocery-frozen/roth2020"), scores=pd.DataFrame(scores))
        assert measures._recipes(measures._trained_alike(records))["Musgrave et al."].to_dict() == {
            "contrastive": 0.2,
            "margin": pytest.approx(0.4),
        }

    def test_a_row_below_its_own_start_is_no_loss_of_a_recipe(self, monkeypatch):
        scores = {"contrastive": 0.2, "margin_06": 0.3, "margin_12": 0.5}
        rows = [
            {"method": name, "repetition": 0, "rerun": 0, "setting": "separated", "metric": "map_at_r", "value": value}
            for name, value in scores.items()
        ]
        lower = pd.DataFrame({"start": [True, True, False]}, index=list(scores))
        lower.index = pd.MultiIndex.from_arrays([scores, ["separated", "concatenated", "separated"]])
        monkeypatch.setattr(measures, "lower_than_untrained", lambda _: lower.rename_axis(["method", "setting"]))
        records = replace(study(name="first-runs/grocery-frozen/roth2020"), scores=pd.DataFrame(rows))
        frame = measures._trained_alike(records)
        assert frame.set_index("method")["low"].to_dict() == {
            "contrastive": True,
            "margin_06": False,
            "margin_12": False,
        }
        assert measures._recipes(frame)["Musgrave et al."].to_dict() == {"margin": pytest.approx(0.4)}

    def test_of_a_sweep_over_batches_one_level_counts(self):
        records = replace(study(), meta=study().meta | {"study": "grocery-frozen/zhai2019/losses-equal"})
        losses = measures._losses(records, "5x15")
        assert losses["norm_softmax@5x15"] == "normalized_softmax"
        assert "norm_softmax@25x3" not in losses
        assert measures._losses(records, None) == {}

    def test_every_choice_of_who_is_compared(self, monkeypatch):
        rows = [
            (recipe, family, value, low, usual)
            for recipe, values in {"A": (2, 3, 4, 9), "B": (2, 3, 4, 1), "C": (4, 3, 2, 1)}.items()
            for family, value, low, usual in zip("wxyz", values, [0, 0, 0, 1], [1, 1, 1, 0], strict=True)
        ]
        frame = pd.DataFrame(rows, columns=["recipe", "family", "value", "low", "usual"]).astype(
            {"low": bool, "usual": bool}
        )
        monkeypatch.setattr(measures, "_trained_alike", lambda _: frame)
        monkeypatch.setattr(measures, "_cell_error", lambda *_: 0.0)
        rules = measures.recipe_rules(study())
        assert tuple(rules.loc[0, ["sizes", "below", "without", "fewest", "losses"]]) == ("one", "out", "none", 2, 3)
        assert rules["against"][0] == pytest.approx(measures.recipe(study()).against.value)
        alike = rules[(rules["sizes"] == "one") & (rules["without"] == "C")]
        assert alike["against"].to_numpy() == pytest.approx(
            [0, 0], abs=1e-9
        )  # A and B are one; two recipes are no three
        every = rules[(rules["sizes"] == "any") & (rules["below"] == "in")]
        assert set(every["losses"]) == {4}
        assert len(rules) == 4 * 4 * 2 - 4 * 3  # without one of three recipes no loss has three

    def test_a_row_of_another_size_and_an_ensemble_are_no_losses_of_a_recipe(self):
        made = study()
        changes = {"triplet": {"embedding_dim": 2048}, "margin": {"members": 12}}
        made = replace(made, meta=made.meta | {"changes": changes})
        assert measures._of_one_size(made, ["contrastive", "triplet", "margin", "arcface"]) == [
            "contrastive",
            "arcface",
        ]
        assert measures._of_one_size(made, []) == []

    def test_a_study_without_experiments_has_no_recipes(self):
        assert measures.recipe(study()) is None
        assert measures.class_order(study()) is None


class TestSearches:
    def test_the_search_as_it_was_made_and_random_trials(self):
        records = study()
        searched, random = searches.tuning_curves(records), searches.random_tuning(records)
        assert list(searched.columns) == list(METHODS)
        assert list(searched.index) == list(range(1, 21))
        own = records.trials.query("method == 'margin'")
        last = own.groupby("repetition")["value"].max().mean()
        assert searched["margin"].iloc[-1] == pytest.approx(last)
        drawn = own.query("trial < 10")["value"]
        assert random.loc[1, "margin"] == pytest.approx(drawn.mean())
        assert random["margin"].dropna().iloc[-1] == pytest.approx(drawn.max())
        assert len(random) == 30  # three repetitions of ten

    def test_tuning_brings_the_methods_closer_or_not(self):
        records = study(search=0.0)
        found = searches.levelled(records)
        assert found["search"] == pytest.approx(np.std([0.03 * place for place in range(4)], ddof=1))
        assert found["1"] == pytest.approx(np.std([0.03 * place - 0.145 * (place + 1) for place in range(4)], ddof=1))

    def test_a_search_that_only_diverged(self):
        records = study()
        records.trials.loc[records.trials["method"] == "margin", "value"] = np.nan
        assert searches.tuning_curves(records)["margin"].isna().all()
        assert np.isfinite(searches.levelled(records)["search"])

    def test_a_search_that_ends_far_below_another_one_is_stuck(self, monkeypatch):
        monkeypatch.setattr(measures.editions, "experiment_of", lambda *_: None)
        records = study(search=0.0, name="cub200-2010-frozen")
        own = records.trials["method"] == "margin"
        records.trials.loc[own & (records.trials["repetition"] == 1), "value"] *= 1 - searches.FAR - 0.001
        records.trials.loc[own & (records.trials["repetition"] == 2), "value"] *= 1 - searches.FAR + 0.001
        [lost] = searches.stuck([records]).itertuples()
        assert (lost.study, lost.method, lost.repetition) == ("cub200-2010-frozen", "margin", 1)
        assert lost.short == pytest.approx(searches.FAR + 0.001)
        assert labels.cells(searches.stuck([records]).set_index("study"), page.STUCK_CELLS)["search"].tolist() == ["2"]

    def test_a_search_at_the_shared_rate_is_not_stuck_because_another_rate_is_better(self, monkeypatch):
        shared = study(search=0.0, name="cub200-2010-frozen")
        rates = study(search=0.0, name="cub200-2010-frozen/rates-searched")
        own = rates.trials["method"].map({"margin": 1.1, "arcface": 0.9}).fillna(1.0)
        rates = replace(rates, trials=rates.trials.assign(value=rates.trials["value"] * own))
        monkeypatch.setattr(searches, "_later", lambda main: None)
        monkeypatch.setattr(searches.editions, "with_searched_rates", lambda main: rates)
        lost = searches.stuck([shared])
        assert set(lost["method"]) == {"arcface"}  # with the rate searched, below what the shared rate reaches
        assert lost["rate_searched"].all()
        assert lost["short"].tolist() == pytest.approx([0.1] * 3)

    def test_luck_by_the_number_of_hyperparameters_is_that_of_plain_loops(self, monkeypatch):
        monkeypatch.setattr(measures.editions, "experiment_of", lambda *_: None)
        records = study(name="cub200-2010-frozen")
        trials = pd.concat([records.trials.assign(trial=records.trials["trial"] + after) for after in (0, 20, 40)])
        trials.loc[(trials["method"] == "triplet") & (trials["trial"] == 30), "value"] = 0.9
        trials.loc[(trials["method"] == "margin") & (trials["trial"] == searches.HALF - 1), "value"] = 0.9  # the 25th
        table = searches.search_luck([replace(records, trials=trials)])
        assert table["hyperparameters"].to_dict() == {"triplet": 1, "contrastive": 2, "margin": 3, "arcface": 3}
        runs = records.scores.query("method == 'margin' and setting == 'concatenated'")
        means = [np.mean(runs[runs["repetition"] == each]["value"]) for each in range(3)]
        assert table["luck"]["margin"] == pytest.approx(np.std(means, ddof=1) / np.mean(means))
        best = [records.trials.query("method == 'triplet' and repetition == @each")["value"].max() for each in range(3)]
        assert table["late"]["triplet"] == pytest.approx(np.mean([0.9 - each for each in best]))
        assert table["late"]["margin"] == pytest.approx(0)


class TestSweeps:
    """Losses at levels of a setting, three reruns each."""

    def sweep(self, missing=()):
        rng = np.random.default_rng(0)
        rows = [
            (f"loss{loss}", f"level{level}", rerun, 0.3 + 0.02 * loss + 0.05 * level + 0.01 * (loss == level) + noise)
            for loss in range(6)
            for level in range(5)
            for rerun, noise in enumerate(rng.normal(0, 0.004, 3))
            if (loss, level) not in missing
        ]
        scores = pd.DataFrame(rows, columns=["row", "level", "rerun", "value"])
        return replace(study(), scores=scores.assign(metric="map_at_r", setting="separated"))

    def found(self, monkeypatch, sweep):
        monkeypatch.setattr(
            measures.editions, "experiment_of", lambda _, name: sweep if name == "roth2020/samplers" else None
        )
        [part] = measures.sweeps(study())
        return part

    def test_the_noise_of_seeds_is_taken_out(self, monkeypatch):
        part = self.found(monkeypatch, self.sweep())
        assert (part.name, part.levels, part.methods, part.on) == ("sampler", 5, 6, "test")
        true = np.add.outer(0.3 + 0.02 * np.arange(6), 0.05 * np.arange(5)) + 0.01 * np.eye(6, 5)
        rest = true - true.mean(0) - true.mean(1)[:, None] + true.mean()
        assert part.against.value * part.mean == pytest.approx(np.sqrt((rest**2).sum() / 20), rel=0.25)
        assert part.own.value * part.mean == pytest.approx(true.mean(1).std(ddof=1), rel=0.1)
        assert not part.as_much

    def test_a_level_that_few_losses_have_and_a_loss_that_lacks_another_are_left_out(self, monkeypatch):
        few = {(loss, 4) for loss in range(4)} | {(0, 0)}
        part = self.found(monkeypatch, self.sweep(few))
        assert (part.levels, part.methods) == (4, 5)


class TestValidationAndTest:
    def test_what_is_good_on_validation_is_good_on_test(self):
        found = searches.choosing(study(noise=0.0))
        assert found["rho"] == pytest.approx(1)
        assert found["regret"] == pytest.approx(0)

    def test_regret_is_what_the_wrong_choice_costs(self):
        records = study(repetitions=1, search=0.0, noise=0.0)
        records.trials.loc[records.trials["method"] == "contrastive", "value"] += 1
        found = searches.choosing(records)
        assert found["regret"] == pytest.approx(0.09)
        assert np.isnan(found["uncertain"])

    def test_equal_methods_cost_nothing_by_the_other_searches(self, monkeypatch):
        rng, regrets, lucky, covered = np.random.default_rng(0), [], [], []
        for _ in range(40):
            values = pd.DataFrame(rng.normal(0.5, 0.01, (42, 2)), columns=["validation", "test"])
            values.index = pd.MultiIndex.from_product([range(14), range(3)], names=["method", "repetition"])
            monkeypatch.setattr(searches, "scores_of_searches", lambda records, values=values: values)
            found = searches.choosing(None)
            regrets.append(found["regret"])
            covered.append(abs(found["regret"]) <= found["uncertain"])
            once = values.xs(0, level=1, drop_level=False)
            monkeypatch.setattr(searches, "scores_of_searches", lambda records, once=once: once)
            lucky.append(searches.choosing(None)["regret"])
        assert np.mean(regrets) == pytest.approx(0, abs=3 * np.std(regrets) / np.sqrt(40))
        assert np.mean(covered) >= 0.95  # the mean over three choices varies less than one difference
        assert np.mean(lucky) > 0.01  # the winner's luck


def parts():
    known = [("training recipe", 0.02, 0.03), ("loss", np.nan, 0.01), ("test classes", 0.04, 0.002)]
    found = [
        measures.Part(
            name, 3, 8, "test", 0.2, together, Estimate.around(against, 0.001, 8), Estimate.around(0.02, 0.005, 8)
        )
        for name, together, against in known
    ]
    nothing = Estimate(np.nan, np.nan, np.nan, 2)
    return [*found, measures.Part("class split", 2, 1, "test", 0.2, 0.05, nothing, nothing)]


def test_cells_and_figures():
    cells = labels.cells(page.part_numbers(parts()), page.PART_CELLS, ".1%")
    assert cells.loc["loss", "together"] == "–"
    assert cells.loc["class split", "relative to one another"] == "one method only"
    assert cells.loc["training recipe", "interval"] == "2.9 to 3.1"
    assert cells.loc["training recipe", "mean MAP@R"] == "20.00"
    assert cells["its losses lie apart"].tolist() == ["2.0", "2.0", "2.0", "–"]
    assert page.part_numbers(parts()).loc["training recipe", "against"] == 0.03
    assert [part.as_much for part in parts()] == [part.clearly for part in parts()] == [True, False, False, False]
    [figure] = figures.part_figures({"made-study": parts()})
    assert {"training recipe", "loss", "test classes", "class split", "together"} <= set(drawn(figure))
    rings = [line for line in figure.axes[0].get_lines() if line.get_markersize() == 8]
    assert float(rings[3].get_xdata()[0]) == pytest.approx(5)  # the class split: of one method, so without a dot
    filled = [line for line in figure.axes[0].get_lines() if line.get_markersize() == 6]
    assert [round(float(dot.get_xdata()[0]), 6) for dot in filled] == [3, 1, 0.2]
    least = [replace(part, against=replace(part.against, value=0.0, low=0.0)) for part in page.drawable(parts())]
    [figure] = figures.part_figures({"made-study": least})
    arrows = [line for line in figure.axes[0].get_lines() if line.get_markersize() == 6]
    assert {(float(arrow.get_xdata()[0]), arrow.get_marker()) for arrow in arrows} == {(figures.LEAST, "<")}
    records = study()
    tuned = figures.tuning_figure("a", searches.tuning_curves(records), searches.random_tuning(records))
    assert {"Contrastive", "ArcFace"} <= set(drawn(tuned))
    figure = figures.validation("a", searches.scores_of_searches(records))
    points = [line for line in figure.axes[0].get_lines() if len(line.get_xdata())]
    assert sum(len(line.get_xdata()) for line in points) == 12


def table(name, scores, lr, searches=1, untrained=0.10):
    """Test scores of a study, made up: method -> mean; each search and seed is a little off it."""
    rng = np.random.default_rng(0)
    rows = [(PRETRAINED, 0, 0, untrained)]
    rows += [
        (method, search, rerun, mean + 0.001 * rng.standard_normal())
        for method, mean in scores.items()
        for search in range(searches)
        for rerun in range(3)
    ]
    frame = pd.DataFrame(rows, columns=["method", "repetition", "rerun", "value"])
    frame = frame.assign(setting="concatenated", metric="map_at_r")
    base = fake_records(study=name)
    protocol = base.meta["protocol"] | {"lr": lr}
    return replace(base, scores=frame, meta=base.meta | {"repetitions": searches, "protocol": protocol})


def test_a_study_at_other_rates(monkeypatch):
    chosen = table("cub200-2010-frozen", {"contrastive": 0.13, "triplet": 0.12, "margin": 0.11, "snr": 0.14}, 1e-6, 3)
    high = table("cub200-2010-frozen/rate-tenfold", {"margin": 0.12, "triplet": 0.09, "contrastive": 0.08}, 1e-5)
    searched = table("cars196crops-frozen/rate-searched", {"contrastive": 0.14, "triplet": 0.12, "margin": 0.13}, 1e-6)
    rates = searched.trials["method"].map({"contrastive": 1.6e-6, "triplet": 1e-4, "margin": 1e-5})
    alike = {"params": [{"lr": rate} for rate in rates], "value": chosen.trials["value"]}
    searched = replace(searched, trials=searched.trials.assign(**alike))
    monkeypatch.setattr(records, "load", {high.name: high}.__getitem__)
    monkeypatch.setattr(measures.experiments, "load_experiment", lambda main, name: searched)
    found = measures.at_rates(chosen)
    assert list(found.by_rate) == ["too high", "chosen", "searched for each"]
    assert set(found.scores.index) == {"contrastive", "triplet", "margin"}  # those that finished at all rates
    assert found.means.loc["contrastive"].tolist() == pytest.approx([0.08, 0.13, 0.14], abs=2e-3)
    told = found.scores["too high"]
    assert (told["low"] < told["mean"]).all()  # one search borrows the luck of the others'
    assert found.untrained == 0.10

    assert found.moved("chosen") == (0, 3)
    cells, marks = page.rates_cells(found)
    assert list(cells) == ["10⁻⁵ (too high)", "10⁻⁶ (chosen)", "searched for each", "rate found"]
    assert cells["rate found"].to_dict() == {
        "Contrastive": "2·10⁻⁶", "Triplet": "10⁻⁴", "Margin": "10⁻⁵", "Untrained trunk": "–", LIFT: "–", GAP: "–"
    }  # fmt: skip
    assert cells.loc["Untrained trunk", "10⁻⁶ (chosen)"] == "10.00"
    said = page.levels_cells(found)
    assert list(said) == ["worst to best", "newer over Contrastive", "newer over Triplet", "pairs that differ"]
    means = found.means["chosen"]
    gain = 100 * (means["margin"] - means["contrastive"])
    assert said.loc["10⁻⁶ (chosen)", "newer over Contrastive"].startswith(f"{gain:+.2f} ± ")
    assert said.loc["10⁻⁶ (chosen)", "worst to best"] == f"{100 * np.ptp(means):.2f}"
    assert said["pairs that differ"][:2].str.endswith(" of 3").all()
    assert said["pairs that differ"].iloc[2] == "not known"
    assert "±" not in said["newer over Triplet"].iloc[2]
    assert cells.loc["Contrastive", "10⁻⁵ (too high)"].endswith("(3) ↓ »")  # the made-up runs are cut off
    assert not cells.loc["Contrastive", "10⁻⁶ (chosen)"].endswith("↓")
    assert marks.loc["Contrastive", "10⁻⁶ (chosen)"] == marks.loc["Margin", "10⁻⁵ (too high)"] == "best"

    figure = figures.at_rates_figure("Birds", found)
    [axis] = figure.axes
    assert len(axis.lines) == 3 + 1  # and the trunk
    drawn = {tuple(np.round(line.get_ydata(orig=False), 3)) for line in axis.lines[:3]}
    assert drawn == {tuple(np.round(100 * row, 3)) for row in found.means.to_numpy()}


THREE = {"contrastive": 0.14, "triplet": 0.12, "margin": 0.13}


def thrice(name="cub200-2010-frozen/rates-searched", finished=tuple(THREE)):
    """Rates searched three times; the last rerun is missing of all methods but those that have finished."""
    made = searched_study(name, THREE, search=0.01, seed=0.001)
    rates = [{"lr": 10.0 ** -(5 + repetition)} for repetition in made.trials["repetition"]]
    meta = made.meta | {"repetitions": 3, "budget": made.meta["budget"] | {"reruns": 3}}
    reruns = made.reruns[made.reruns["method"].isin(finished) | (made.reruns[["repetition", "rerun"]] < 2).any(axis=1)]
    return replace(made, trials=made.trials.assign(params=rates), reruns=reruns, meta=meta)


def once(methods=tuple(THREE)):
    """Rates searched once."""
    made = table("mine", THREE, 1e-6)
    trials = made.trials[made.trials["method"].isin(methods)]
    return replace(made, trials=trials.assign(params=[{"lr": 1e-5}] * len(trials)))


def around(monkeypatch, **found):
    """The study with shared rates, and around it these, the one at a rate too high among them."""
    high = table("cub200-2010-frozen/rate-tenfold", THREE, 1e-5)
    monkeypatch.setattr(records, "load", {high.name: high}.__getitem__)
    named = {name.replace("_", "-"): made for name, made in found.items()}
    monkeypatch.setattr(measures.experiments, "load_experiment", lambda main, name: named.get(name))
    return table("cub200-2010-frozen", THREE, 1e-6, 3)


def test_rates_searched_three_times_know_their_own_luck(monkeypatch):
    searched = thrice()
    chosen = around(monkeypatch, rates_searched=searched, rate_searched=once())
    found = measures.at_rates(chosen)
    assert found.by_rate["searched for each"] is searched
    compared = found.compared["searched for each"]
    assert compared.luck == significance.OWN
    halves = (found.scores["searched for each"]["high"] - found.scores["searched for each"]["low"]) / 2
    assert (halves > 0.005).all()  # the seeds alone would make it 0.001
    high = found.compared["too high"]
    assert (high.luck, high.donor) == (significance.BORROWED, chosen.name)  # not from searches of another space
    cells, _ = page.rates_cells(found)
    assert cells.loc["Margin", "rate found"] == "10⁻⁵, 10⁻⁶, 10⁻⁷"
    said = page.levels_cells(found).loc["searched for each"]
    assert said["pairs that differ"].endswith(" of 3")
    assert "±" in said["newer over Contrastive"]
    told = page._of_searched_rates(found)
    means = compared.summary["mean"]
    assert told["searched.best"] == means.idxmax()


def test_rates_searched_three_times_count_where_they_say_something_of_newer_losses(monkeypatch):
    for names, chosen in (((), "mine"), (tuple(THREE), thrice().name)):
        found = measures.at_rates(around(monkeypatch, rates_searched=thrice(finished=names), rate_searched=once()))
        assert found.by_rate["searched for each"].name == chosen
        assert set(found.compared["searched for each"].methods) == set(THREE)
        assert len(page.rates_cells(found)[0]) >= 3
        assert page._of_searched_rates(found)
        assert page._of_rates(found)["newer.searched"] < 0
    main, none = "cub200-2010-frozen", thrice(finished=())
    around(monkeypatch, rates_searched=thrice(), rate_searched=once((*THREE, "arcface")))
    assert editions.with_searched_rates(main).name == "mine"
    around(monkeypatch, rates_searched=thrice(finished=tuple(THREE)[:2]), rate_searched=once())
    assert editions.with_searched_rates(main).name == "mine"
    for too_few in (("contrastive", "triplet"), ("triplet", "margin", "arcface")):
        around(monkeypatch, rates_searched=none, rate_searched=once(too_few))
        assert editions.with_searched_rates(main) is None
    nothing = measures.at_rates(around(monkeypatch, rates_searched=none))
    assert list(nothing.by_rate) == ["too high", "chosen"]
    assert page._of_searched_rates(nothing) == {}


def told_at(summaries, df):
    """`measures.AtRates` of these numbers: rate -> mean and error, a row a method."""
    others = {"low": 0, "high": 1, "rank_low": 1, "rank_high": 1, "among_best": True}
    named = {which: each.rename(index=str).assign(**others) for which, each in summaries.items()}
    compared = {which: SimpleNamespace(summary=each, known=SimpleNamespace(df=df)) for which, each in named.items()}
    return measures.AtRates({}, compared, np.nan)


def test_a_rate_that_changes_nothing_moves_a_pair_in_one_study_of_twenty():
    rng = np.random.default_rng(0)
    size, studies = (2, 8, 3, 3), 100  # tables, methods, searches, reruns
    with_one = 0
    for _ in range(studies):
        values = rng.normal(0, 0.01, size[:3])[..., None] + rng.normal(0, 0.005, size)
        summaries = {}
        for which, table in zip(("too high", "chosen"), values, strict=True):
            known = statistics.noise(table)
            mean, variance, df = statistics.of_methods(table, known)
            summaries[which] = pd.DataFrame({"mean": mean, "error": np.sqrt(variance), "df": df})
        with_one += told_at(summaries, known.df).moved("too high")[0] > 0
    assert with_one / studies < 0.075  # that it is not too strict either is below


@pytest.mark.parametrize(("df", "moved"), [(1000, 2), (2, 1)])
def test_differences_that_change_by_more_than_luck(df, moved):
    gains = {"a": 0.00, "b": 0.015, "c": 0.041}
    before = pd.DataFrame({"mean": 0.1, "error": 0.005, "df": df}, index=list(gains))
    found = told_at({"too high": before, "chosen": before.assign(mean=before["mean"] + pd.Series(gains))}, df=1000)
    # four errors of 0.005 make one of 0.01: the pairs move by 1.5, 2.6 and 4.1 of them, where 2 to 2.4 are luck;
    # with 4 degrees of freedom, twice 2, luck are 2.8 to 4.0
    assert found.moved("too high") == (moved, 3)


def test_a_study_of_searched_rates_that_is_under_way_takes_nothing_from_the_other_rate(monkeypatch):
    scores = {"contrastive": 0.13, "triplet": 0.12, "margin": 0.11}
    chosen = table("cub200-2010-frozen", scores, 1e-6, 3)
    high = table("cub200-2010-frozen/rate-tenfold", scores, 1e-5)
    searched = table("cub200-2010-frozen-rate-searched", scores, 1e-6)
    rates = [{"lr": 1e-5}] * len(searched.trials)
    searched = replace(searched, trials=searched.trials.assign(params=rates))
    monkeypatch.setattr(records, "load", {high.name: high}.__getitem__)
    for finished in range(3):
        names = [PRETRAINED, *list(scores)[:finished]]
        part = replace(searched, scores=searched.scores[searched.scores["method"].isin(names)])
        monkeypatch.setattr(measures.experiments, "load_experiment", lambda main, name, part=part: part)
        found = measures.at_rates(chosen)
        assert len(found.beside("too high")) == 3
        assert list(found.by_rate) == ["too high", "chosen", "searched for each"][: 3 if finished > 1 else 2]
        assert len(found.everywhere) == (finished if finished > 1 else 3)
    assert page.rates_cells(found)[0].loc["Margin", "searched for each"] == "–"
    assert page.levels_cells(found).empty
    assert len(figures.at_rates_figure("Birds", found).axes[0].lines) == 2 + 1


def test_no_second_rate(monkeypatch):
    def missing(name):
        raise MissingDataError(name)

    monkeypatch.setattr(records, "load", missing)
    assert measures.at_rates(fake_records(study="cub200-2010-frozen")) is None
    assert measures.at_rates(fake_records(study="mine")) is None


class TestLevers:
    def test_the_loss_joining_and_chance_by_hand(self):
        records = study(search=0.0, noise=0.0, fold=0.0)
        scores = records.scores
        alone = scores["setting"].eq("separated") & scores["method"].eq("margin")
        scores.loc[alone, "value"] -= 0.04  # of one method in four
        found = levers.levers(replace(records, scores=scores), None)
        gain = scores[scores["setting"] == "concatenated"]["value"].mean()
        gain -= scores[scores["setting"] == "separated"]["value"].mean()
        assert found.loc["joined", "value"] == pytest.approx(gain)
        assert found.loc["loss", "value"] == pytest.approx(0.09)
        assert found.loc["seed", "value"] == pytest.approx(0, abs=1e-9)
        assert found.loc["loss", "losses"] == 4

    def test_two_searches_lie_as_far_apart_as_two_draws(self):
        draws = np.random.default_rng(0).normal(0, 1, (2, 100_000))
        assert np.abs(draws[0] - draws[1]).mean() == pytest.approx(levers.TWO_DRAWS, abs=0.01)
        found, known = levers.levers(study(), None), part(study(), "search")
        expected = levers.TWO_DRAWS * known.against.value * known.mean
        assert found.loc["search", "value"] == pytest.approx(expected)

    def test_training_and_the_rate_are_differences_of_means(self, monkeypatch):
        scores = {"contrastive": 0.13, "triplet": 0.12, "margin": 0.11}
        chosen = table("cub200-2010-frozen", scores, 1e-6, 3)
        high = table("cub200-2010-frozen/rate-tenfold", {name: value - 0.03 for name, value in scores.items()}, 1e-5)
        monkeypatch.setattr(records, "load", {high.name: high}.__getitem__)
        monkeypatch.setattr(measures.experiments, "load_experiment", lambda main, name: None)
        found = levers.levers(chosen, measures.at_rates(chosen))
        assert found.loc["rate", "value"] == pytest.approx(0.03, abs=1e-3)
        assert found.loc["trained", "value"] == pytest.approx(0.02, abs=1e-3)
        assert found.loc["rate", "low"] < 0.03 < found.loc["rate", "high"]

    def test_sizes_and_splits(self, monkeypatch):
        rows = [
            {"method": f"{name}@{level}", "row": name, "level": level, "value": value, "repetition": 0, "rerun": 0}
            for name, values in {"a": (0.1, 0.2), "b": (0.2, 0.4), "c": (0.3, None)}.items()
            for level, value in zip(levers.SIZES, values, strict=True)
            if value
        ]
        sweep = replace(study(), scores=pd.DataFrame(rows).assign(setting="separated", metric="map_at_r"))
        monkeypatch.setattr(levers.editions, "experiment_of", lambda *_: sweep)
        kinds = {"own": "default", "one": "random", "other": "random"}
        orders = {
            name: replace(made := study(seed=place), meta=made.meta | {"class_order": kind})
            for place, (name, kind) in enumerate(kinds.items())
        }
        monkeypatch.setattr(levers.experiments, "class_orders", lambda _: orders)
        found = levers.levers(study(), None)
        assert found.loc["size", "value"] == pytest.approx(0.15)  # the third loss has one size
        assert found.loc["size", "losses"] == 2
        runs = (measures.significance.scores(each, measures.METRIC, "separated") for each in orders.values())
        means = [each["value"].mean() for each in runs]
        assert found.loc["split", "value"] == pytest.approx(np.mean(means[1:]) - means[0])

    def test_the_figure_and_its_table_have_the_strongest_on_top(self):
        points = {"Birds": [1.0, 5.0], "Cars": [2.0, 1.0]}
        names = pd.Index(["loss", "joined"], name="lever")
        found = {
            title: pd.DataFrame({"value": values, "low": values, "high": values}, names).div(100).assign(losses=4)
            for title, values in points.items()
        }
        for each in found.values():
            each["low"], each["high"] = each["low"] - 0.001, each["high"] + 0.001
        assert levers.lever_order(found) == ["joined", "loss"]
        assert levers.lever_cells(found).loc[levers.LEVERS["loss"]].tolist() == [
            "1.00 [0.90, 1.10]",
            "2.00 [1.90, 2.10]",
            "4",
        ]
        figure = figures.moves(found)
        assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == [
            levers.LEVERS["joined"],
            levers.LEVERS["loss"],
        ]
        dots = [line for line in figure.axes[0].get_lines() if line.get_marker() in "os"]
        assert [float(dot.get_xdata()[0]) for dot in dots] == pytest.approx([1, 5, 2, 1])
