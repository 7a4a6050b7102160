"""The settings of the grids are those that the committed searches found."""

from pathlib import Path

import pytest

from dmlrc import records, search
from dmlrc.studies import tuned


@pytest.mark.parametrize("study", tuned.SEARCHED_ON)
def test_they_are_the_best_trials(study, monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(Path(__file__).parents[2]))  # the committed records
    trials = records.load(study).trials
    for method, settings in tuned.SEARCHED_ON[study].items():
        best = search.best(trials[trials["method"] == method].to_dict("records"))
        assert settings == pytest.approx(best["params"], rel=0.006)


@pytest.mark.parametrize("dataset", tuned.OF_DEPTHS)
def test_those_of_the_depths_are_the_best_trials_of_first_searches(dataset, monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(Path(__file__).parents[2]))
    table = dataset.replace("_", "-")
    frozen = {"cosface": f"{table}-frozen", "proxy_anchor": f"{table}-frozen/after2019"}
    for method, settings in tuned.OF_DEPTHS[dataset].items():
        trials = records.load(frozen.get(method, f"{table}-depths/squeezenet-last-block")).trials
        own = trials[(trials["method"] == method) & (trials["repetition"] == 0)]
        assert settings == pytest.approx(search.best(own.to_dict("records"))["params"], rel=0.006)


def test_those_of_the_variance_within_classes_are_the_best_trials_of_first_searches(monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(Path(__file__).parents[2]))
    for method, settings in tuned.OF_VARIANCE.items():
        trials = records.load("cars196crops-frozen" + "/after2019" * (method == "supcon")).trials
        own = trials[(trials["method"] == method) & (trials["repetition"] == 0)]
        assert settings == pytest.approx(search.best(own.to_dict("records"))["params"], rel=0.006)


def test_a_data_set_that_was_not_searched_takes_those_of_the_cars():
    assert tuned.grid_settings("grocery") is tuned.GROCERY
    assert tuned.grid_settings("cub200_2010") is tuned.grid_settings("cars196crops") is tuned.CARS
