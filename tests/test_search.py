"""The search is a pure function of the trials before it."""

import math
from dataclasses import replace

import pytest

from dmlrc import errors, search
from dmlrc.errors import DmlrcError, UsageError
from dmlrc.methods import LOSS_WEIGHTS_LR, Choice, Float, Int, Method
from dmlrc.papers import musgrave2020
from dmlrc.report import published

METHOD = Method("toy", "toy", {"x": Float(-1.0, 2.0), "rate": Float(1e-6, 1.0, log=True), "bins": Int(2, 32)})


def play(trials, count, seed=0, objective=lambda params: -((params["x"] - 0.5) ** 2)):
    """Search on, from these finished trials, until there are `count`."""
    trials = list(trials)
    while len(trials) < count:
        params = search.propose(METHOD, trials, seed)
        value = objective(params)
        state = "diverged" if math.isnan(value) else "complete"
        trials.append({"params": params, "value": value, "state": state})
    return trials


def test_the_first_trial_has_the_values_that_ranges_name_and_nothing_else_of_it_changes():
    plain = Method("a", "contrastive", {"x": Float(0.0, 1.0), "lr": Float(1e-6, 1e-3, log=True)})
    named = replace(plain, space={**plain.space, "lr": Float(1e-6, 1e-3, log=True, first=1e-5)})
    drawn = search.propose(plain, [], 0)
    assert search.propose(named, [], 0) == drawn | {"lr": 1e-5}
    trial = {"params": drawn, "value": 0.5, "state": "complete"}
    assert search.propose(named, [trial], 0) == search.propose(plain, [trial], 0)
    with pytest.raises(UsageError, match="cannot begin at 1"):
        Float(1e-6, 1e-3, log=True, first=1.0)


def test_a_search_among_choices_finds_the_better_one():
    method = Method("toy", "toy", {"x": Float(0.0, 1.0), "distance": Choice(("cosine", "euclidean", "dot"))})
    trials = []
    for _ in range(30):
        params = search.propose(method, trials, 0)
        assert method.misfit(params) is None
        trials.append({"params": params, "value": params["distance"] == "dot", "state": "complete"})
    drawn = [trial["params"]["distance"] for trial in trials]
    assert set(drawn[:10]) == {"cosine", "euclidean", "dot"}
    assert drawn[10:].count("dot") > 12


def test_a_search_broken_off_and_resumed_proposes_the_same():
    whole = play([], 25)
    assert play(whole[:13], 25) == whole


def test_a_search_without_optuna_says_what_to_install(monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda module: None)
    with pytest.raises(DmlrcError, match=r"needs optuna: install dmlrc with its extra 'search'"):
        search.propose(METHOD, [], 0)


def test_another_seed_or_method_searches_differently():
    assert play([], 3) != play([], 3, seed=1)
    other = Method("other", "toy", METHOD.space)
    assert search.propose(METHOD, [], 0) != search.propose(other, [], 0)


def test_proposals_stay_inside_the_space():
    for trial in play([], 30):
        params = trial["params"]
        assert -1 <= params["x"] <= 2
        assert 1e-6 <= params["rate"] <= 1
        assert params["bins"] in range(2, 33)


def test_a_trial_is_not_proposed_where_others_run():
    # after 15 trials, that which would come next, proposed again and again: alone it is about the same, beside
    # others that run it moves on
    trials = play([], 15)
    alone = [search.propose(METHOD, trials, seed)["x"] for seed in range(20)]
    crowd = [dict(trials[0]["params"], x=sum(alone) / len(alone))] * 8
    beside = [search.propose(METHOD, trials, seed, crowd)["x"] for seed in range(20)]
    assert alone != beside
    centre = sum(alone) / len(alone)
    assert sum(abs(x - centre) for x in beside) > 1.2 * sum(abs(x - centre) for x in alone)


def test_the_number_of_a_trial_decides_its_seed_not_how_many_run():
    trials = play([], 4)  # the first ten are random
    params = [trial["params"] for trial in trials]
    assert search.propose(METHOD, trials[:2], 0, params[2:]) == search.propose(METHOD, trials, 0)


def test_the_search_finds_what_random_search_finds_less_well(monkeypatch):
    # ten seeds: the mean distance of the best x from the optimum 0.5, model-based against uniform in all 20 trials
    def best_distance(trials):
        return abs(search.best(trials)["params"]["x"] - 0.5)

    guided = [best_distance(play([], 20, seed)) for seed in range(10)]
    monkeypatch.setitem(search.TPE, "n_startup_trials", 20)
    uniform = [best_distance(play([], 20, seed)) for seed in range(10)]
    assert sum(guided) < 0.7 * sum(uniform)


def test_diverged_trials_are_failures_not_zeros():
    trials = play([], 12, objective=lambda params: math.nan if params["x"] > 1 else params["x"])
    assert {trial["state"] for trial in trials} == {"complete", "diverged"}
    assert search.best(trials)["params"]["x"] <= 1
    states = [search._frozen(trial, search._distributions(METHOD)).state.name for trial in trials]
    assert states == ["COMPLETE" if trial["state"] == "complete" else "FAIL" for trial in trials]


def test_the_best_trial_is_the_earliest_of_equals_and_none_if_all_diverged():
    trials = [{"number": n, "value": v, "state": "complete"} for n, v in enumerate([0.1, 0.4, 0.4])]
    assert search.best(trials)["number"] == 1
    assert search.best([{"value": math.nan, "state": "diverged"}]) is None


def test_every_method_of_the_reality_check_can_be_searched():
    assert len(musgrave2020.METHODS) == 14
    for method in musgrave2020.METHODS:
        params = search.propose(method, [], 0)
        assert set(params) == set(method.space)
        assert (LOSS_WEIGHTS_LR in params) == (method.kind == "classification" or method.name.startswith("margin"))


@pytest.mark.parametrize("method", musgrave2020.METHODS, ids=lambda method: method.name)
def test_the_published_optima_lie_in_the_search_spaces(method):
    optima = published.hyperparameters()
    rows = optima[(optima["method"] == method.name) & (optima["batch_size"] == 32)].dropna(subset=["value"])
    assert len(rows) or method.name in ("ntxent", "margin_per_class")
    for row in rows.itertuples():
        name = LOSS_WEIGHTS_LR if row.hyperparameter.endswith(" lr") else row.hyperparameter.removeprefix("init ")
        searched = {m.name: m for m in musgrave2020.SOP_METHODS} if row.dataset == "SOP" else {method.name: method}
        space = searched[method.name].space[name]
        slack = 1e-3 * (space.high - space.low)
        assert space.low - slack <= row.value <= space.high + slack, row
