"""Grids of learning rates, of made-up trials: the best rate, what it changes, and when nothing is said."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from factories import fake_records

from dmlrc import records, studies
from dmlrc.report import rates as page
from dmlrc.report.variance import figures

STUDY = studies.STUDIES["cars196crops-frozen/rates"]
METHODS = ("contrastive", "triplet", "soft_triple")
TABLES = ("cub200-2010-frozen", "cars196crops-frozen", "grocery-frozen")


def value(row, rate):
    """SoftTriple leads at high rates, triplet at low ones; all are best on average at 1e-5."""
    lead = {"contrastive": 0.0, "triplet": -0.01 * np.log10(rate / 1e-5), "soft_triple": 0.01 * np.log10(rate / 1e-5)}
    return 0.12 - 0.02 * abs(np.log10(rate / 1e-5)) + lead[row]


def grid(left_out=(), study=STUDY):
    units = []
    for method in study.methods:
        if method.row not in METHODS or method.level_number in left_out:
            continue
        score = float(value(method.row, method.level_number))
        run = {
            "fold": 0,
            "seed": 0,
            "state": "complete",
            "stopped": "limit" if method.level_number < 2e-6 else "plateau",
            "reason": "",
            "best_step": 100,
            "steps": 1000,
            "seconds": 1.0,
            "val": {"map_at_r": score, "precision_at_1": 0.5},
            "curve": [],
        }
        units.append(
            {
                "method": method.name,
                "row": method.row,
                "level": method.level,
                "level_number": method.level_number,
                "repetition": 0,
                "kind": "trial",
                "number": 0,
                "params": {},
                "state": "complete",
                "reason": "",
                "value": score,
                "proposals": 1,
                "steps": 1000,
                "seconds": 1.0,
                "commit": "0",
                "runs": [run],
            }
        )
    meta = study.configuration() | {
        "data": {"name": "cars196crops", "images": 10, "classes": 4, "shape": [3, 1, 1]},
        "environment": {},
        "commit": "0",
        "created": "",
    }
    return records.from_units(units, meta)


def test_the_best_rate_has_a_worse_one_on_either_side():
    found = grid()
    assert page.chosen_rate(found) == 1e-5
    assert page.chosen_rate(grid(left_out=(1e-6, 3e-6))) is None  # at the edge of what was tried
    cells, _ = page.grid_cells(found)
    assert cells["range"]["10⁻⁵"] == "0.00"
    assert cells["cut off"].tolist() == ["0 %"] * 5 + ["100 %"]


def test_a_rate_that_is_not_finished_is_left_out():
    found = grid()
    late = found.trials[~((found.trials["method"] == "triplet@rate3e-05") & (found.trials["trial"] == 0))]
    unfinished = records.StudyRecords(**{**vars(found), "trials": late})
    assert 3e-5 not in page.best_trials(unfinished).index
    assert 1e-5 in page.best_trials(unfinished).index


def test_cells_and_figure():
    cells, marks = page.grid_cells(grid())
    assert list(cells.index) == ["3·10⁻⁴", "10⁻⁴", "3·10⁻⁵", "10⁻⁵", "3·10⁻⁶", "10⁻⁶"]
    assert cells.loc["10⁻⁵", "Contrastive"] == "12.00"
    assert marks.loc["10⁻⁵", "mean"] == "best"
    assert cells.loc["10⁻⁶", "cut off"] == "100 %"
    figure = figures.grid("Cars", page.best_trials(grid()))
    assert len(figure.axes[0].lines) == len(METHODS) + 1
    assert figure.axes[0].lines[-1].get_xdata() == [1e-5, 1e-5]  # dotted: the best rate


def test_a_grid_is_found_by_data_set_and_trunk(monkeypatch):
    asked = []
    monkeypatch.setattr(records, "load", lambda name: asked.append(name) or grid())
    study = fake_records(
        study="mine", dataset="cars196crops", protocol=studies.get("first-runs/cars196crops-frozen").protocol
    )
    assert page.grid_of(study).name == "cars196crops-frozen/rates"
    assert asked == ["cars196crops-frozen/rates"]
    assert page.grid_of(fake_records()) is None


@pytest.mark.parametrize("changes", [{"embedding_dim": 512}, {"optimizer": "sgd"}, {"folds": 2}, {"lr": 1.0}])
def test_a_grid_is_that_of_the_studys_own_protocol(monkeypatch, changes):
    """At any rate, but of no other network, optimiser or folds."""
    monkeypatch.setattr(records, "load", lambda name: grid())
    protocol = replace(studies.get("cars196crops-frozen").protocol, **changes)
    found = page.grid_of(fake_records(study="mine", dataset="cars196crops", protocol=protocol))
    assert (found is None) == ("lr" not in changes)


def test_the_order_at_the_best_rate_is_compared_with_that_at_another():
    orders = {1e-3: [3, 2, 1], 1e-4: [2, 1, 3], 1e-5: [4, 5, 6], 1e-6: [6, 5, 1]}
    best = pd.DataFrame.from_dict(orders, orient="index", columns=METHODS)
    assert [page.turned_at(best, rate, 1e-6)[:2] for rate in (1e-4, 1e-3)] == [(1, 3), (3, 3)]
    assert [page.turned_at(best, 1e-3, luck)[2].high for luck in (1e-6, 0.5)] == [0, 3]


def test_recorded_grids_are_those_of_the_edition_with_two_rates(monkeypatch):
    one_rate = grid(left_out=[rate for rate in page.best_trials(grid()).index if rate != 1e-5])
    grids = {"cars196crops-frozen": grid(), "cub200-2010-frozen": one_rate}
    monkeypatch.setattr(page, "grid_of", lambda study: grids.get(study.name))
    edition = [fake_records(study=name) for name in (*grids, "grocery-frozen")]
    assert list(page.recorded_grids(edition)) == ["Cars crops"]


def made(best, in_use, lower=0.2, higher=0.3):
    return {"in_use": in_use, "best": best, "at_best": 0.4, "one_lower": lower, "one_higher": higher}


def test_the_rates_of_the_papers_are_told_beside_their_neighbours():
    nan = float("nan")
    told = pd.DataFrame(
        [
            {"study": "grocery-frozen", "paper": "roth2020", **made(1e-4, 1e-4)},
            {"study": "cars196crops-frozen", "paper": "roth2020", **made(1e-4, 1e-3)},
            {"study": "cars196crops-frozen", "paper": "oi2021", **made(1e-3, 1e-3, higher=nan)},
            {"study": "cars196crops-frozen", "paper": "zhai2019", **dict.fromkeys(made(1, 1), nan), "in_use": 1e-2},
        ]
    )
    assert page.inside(told).tolist() == [True, False, False, False]
    cells, marks = page.peak_cells(told)
    assert cells.loc[("Grocery Store", "Roth et al. 2020")].tolist() == ["10⁻⁴", "10⁻⁴", "20.00", "40.00", "30.00"]
    assert cells.loc[("Cars crops", "Zhai and Wu 2019")].tolist() == ["10⁻²", "no grid", "–", "–", "–"]
    assert marks["rate in use"].tolist() == ["best", "", "best", ""]


def test_the_best_rate_of_a_papers_grid_and_its_neighbours(monkeypatch):
    monkeypatch.setattr(page.records, "load", lambda name: grid())
    experiment = fake_records(study="cars196crops-frozen/roth2020")
    monkeypatch.setattr(
        page.experiments, "load_experiment", lambda main, name: experiment if name == "roth2020" else None
    )
    [told] = page.of_papers([fake_records(study="cars196crops-frozen")]).to_dict("records")
    assert (told["study"], told["paper"], told["best"]) == ("cars196crops-frozen", "roth2020", 1e-5)
    means = {rate: np.mean([value(row, rate) for row in METHODS]) for rate in (3e-6, 1e-5, 3e-5)}
    assert [told["one_lower"], told["at_best"], told["one_higher"]] == pytest.approx(list(means.values()))
    highest = grid(left_out=[3e-5, 1e-4, 3e-4])
    monkeypatch.setattr(page.records, "load", lambda name: highest)
    [told] = page.of_papers([fake_records(study="cars196crops-frozen")]).to_dict("records")
    assert np.isnan(told["one_higher"])


def test_a_rate_at_which_a_method_diverged_is_ruled_out():
    best = pd.DataFrame({"contrastive": {1e-5: 0.4, 1e-4: 0.5}, "triplet": {1e-5: 0.1, 1e-4: np.nan}})
    assert page.rate_means(best).to_dict() == pytest.approx({1e-5: 0.25, 1e-4: np.nan}, nan_ok=True)
    assert page.best_rate(best) == 1e-5
    assert page.best_rate(best.assign(triplet=np.nan)) == 1e-5


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_run_at_the_rate_that_its_committed_grid_chose_with_worse_ones_on_both_sides(name, monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(Path(__file__).parents[2]))
    grid = records.load(f"{name}/rates")
    assert page.best_trials(grid).shape[1] >= 6  # methods
    assert page.chosen_rate(grid) == studies.get(name).protocol.lr == records.load(name).meta["protocol"]["lr"]


@pytest.mark.parametrize("paper", ["roth2020", "fehervari2019", "zhai2019", "oi2021"])
@pytest.mark.parametrize("main", TABLES)
def test_experiments_run_at_the_rate_that_their_committed_grid_chose(main, paper, monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(Path(__file__).parents[2]))
    grid = page.best_trials(records.load(f"{main}/{paper}/rates"))
    means = page.rate_means(grid)
    place = int(means.argmax())
    assert 0 < place < len(means) - 1
    around = [each for each in studies.STUDIES.values() if each.parent == main and each.kind == "experiment"]
    rates = {each.protocol.lr for each in around if each.protocol.paper == paper}
    assert rates == {means.index[place]}


def test_each_depth_is_run_at_the_rate_that_its_committed_grid_chose(monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(Path(__file__).parents[2]))
    told = page.of_depths()
    assert {*page.DEPTHS, *(f"cars196crops-depths/mobilenetv2-{each}" for each in ("embedder", "last-block"))} <= {
        *told["study"]
    }
    assert list(told["in_use"]) == [studies.get(name).protocol.lr for name in told["study"]]
    assert (told["in_use"] == told["best"]).all()
    assert (told["at_best"] > told[["one_lower", "one_higher"]].max(axis=1, skipna=False)).all()
    cells, marks = page.peak_cells(told)
    assert (cells["best of the grid"] == cells["rate in use"]).all()
    assert (marks["rate in use"] == "best").all()


def test_the_grid_of_a_depth_is_shown_when_it_is_whole(monkeypatch):
    monkeypatch.setattr(page, "DEPTHS", [STUDY.parent])
    monkeypatch.setattr(page, "MOBILENETS", [])
    monkeypatch.setattr(page.records, "find", lambda name: grid())
    assert list(page.of_depths()["study"]) == [STUDY.parent]
    monkeypatch.setattr(page.records, "find", lambda name: grid(left_out=[1e-4]))
    assert len(page.of_depths()) == 0


def test_what_a_rate_of_its_own_would_give_the_embedder(monkeypatch):
    # its trunk at 3e-5, where all made-up losses score less than at 1e-5
    name = "cars196crops-depths/squeezenet-last-block"
    found = {each: grid(study=studies.STUDIES[each]) for each in (f"{name}/rates", f"{name}/embedder-rates")}
    monkeypatch.setattr(page.records, "find", found.get)
    told = page.of_embedders()
    assert list(told["rate"]) == [1e-5, 3e-5, 1e-4, 3e-4]
    assert set(told["of_trunk"]) == {3e-5}
    expected = [np.mean([value(row, rate) for row in METHODS]) for rate in told["rate"]]
    np.testing.assert_allclose(told["mean"], expected)
    assert list(told["turned"]) == [0, 0, 0, 0]  # at 1e-5 they are equal, so nothing turns
    turned = replace(found[f"{name}/embedder-rates"])
    swapped = {"contrastive": "triplet", "triplet": "contrastive"}
    trials = turned.trials.assign(row=turned.trials["row"].replace(swapped))
    monkeypatch.setitem(found, f"{name}/embedder-rates", replace(turned, trials=trials))
    assert list(page.of_embedders()["turned"]) == [0, 0, 1, 1]
    monkeypatch.setitem(found, f"{name}/embedder-rates", turned)
    assert set(told["pairs"]) == {3}
    cells, marks = page.of_embedders_cells(told)
    assert list(marks["mean"]) == ["best", "", "", ""]
    assert list(cells["pairs that change places"]) == ["0 of 3", "–", "0 of 3", "0 of 3"]
    del found[f"{name}/embedder-rates"]
    assert page.of_embedders().empty


def test_the_luck_of_a_seed_is_that_of_validation_scores_between_reruns_of_one_search():
    rows = [
        {
            "method": method,
            "repetition": repetition,
            "kind": kind,
            "number": number,
            "fold": fold,
            "val_map_at_r": value,
        }
        for method, repetition, kind, values in (
            ("triplet", 0, "rerun", (0.38, 0.42)),
            ("triplet", 1, "rerun", (0.48, 0.52)),  # another search, which is not the seed's luck
            ("margin", 0, "rerun", (0.40,)),
            ("margin", 0, "trial", (0.1, 0.9)),
        )
        for number, mean in enumerate(values)
        for fold, value in enumerate((mean - 0.1, mean + 0.1))
    ]
    runs = pd.DataFrame(rows)
    ended = runs[(runs["kind"] == "rerun") & (runs["fold"] == 0)].rename(columns={"number": "rerun"})
    lost = runs[-1:].assign(kind="rerun", number=9)  # of a rerun that diverged in its next fold
    found = replace(fake_records(), runs=pd.concat([runs, lost]), reruns=ended.assign(state="complete"))
    assert page.seed_luck(found) == pytest.approx(np.sqrt(2 * 0.02**2) / 0.44)
    assert np.isnan(page.seed_luck(replace(found, runs=found.runs[found.runs["method"] == "margin"])))
