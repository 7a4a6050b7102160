"""The studies of the package: names, kinship, and what the long ones are."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from dmlrc import search, studies
from dmlrc.errors import UsageError
from dmlrc.methods import LEARNING_RATE
from dmlrc.studies import experiments
from dmlrc.studies.catalogue import DEPTHS, MOBILENETS, STUDIES

TABLES = ("cub200-2010-frozen", "cars196crops-frozen", "grocery-frozen")


def test_every_study_is_filed_under_its_name_and_no_two_share_records():
    assert all(name == study.name for name, study in STUDIES.items())
    assert max(Counter(study.digest for study in STUDIES.values()).values()) == 1
    for study in STUDIES.values():
        assert max(Counter(method.name for method in study.methods).values()) == 1, study.name


def test_kinship_stands_in_fields():
    for name, study in STUDIES.items():
        if study.kind == "table":
            assert study.parent is study.experiment is None or study.dataset == "inshop", name
        else:
            assert study.parent in STUDIES, name
            assert study.experiment, name
    found = experiments.experiments_around("cars196crops-frozen")
    assert found["roth2020/dims"].name == "cars196crops-frozen/roth2020/dims"
    assert not any(study.kind == "rates" for study in found.values())
    assert not experiments.experiments_around("cars196crops-frozen").keys() & {
        "full"
    }  # another table's name begins alike


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_on_frozen_trunks(name):
    study = studies.get(name)
    assert (len(study.methods), study.budget.trials, study.budget.reruns, study.repetitions) == (14, 50, 3, 3)
    assert study.protocol.folds == 4
    assert study.protocol.per_class
    assert study.protocol.max_epochs * study.protocol.iterations_per_epoch == 100_000  # the paper's own limit


@pytest.mark.parametrize("name", TABLES)
def test_a_grid_varies_the_rate_alone(name):
    grid = studies.get(f"{name}/rates")
    rates = {method.changes[LEARNING_RATE] for method in grid.methods}
    assert len(rates) >= 5
    assert min(rates) < studies.get(name).protocol.lr < max(rates)
    assert all(set(method.changes) == {LEARNING_RATE} for method in grid.methods)
    by_row = {(method.row, tuple(method.settings.items())) for method in grid.methods}
    assert len(by_row) == 8
    assert grid.budget.reruns == 0  # the test half is not read


@pytest.mark.parametrize("name", ["cub200-2010-frozen", "cars196crops-frozen", "grocery-frozen"])
def test_equal_tuning_searches_the_rate_of_each_method_from_the_shared_one(name):
    searched, shared = studies.get(f"{name}/rates-searched"), studies.get(name).protocol.lr
    assert (len(searched.methods), searched.budget.trials, searched.repetitions, searched.parent) == (8, 100, 3, name)
    for method in searched.methods:
        rate = method.space[LEARNING_RATE]
        assert (rate.low, rate.first, rate.high) == pytest.approx((shared / 10, shared, 100 * shared))
        assert search.propose(method, [], seed=0)[LEARNING_RATE] == shared
        assert method.space.keys() == studies.get(name).method(method.name).space.keys() | {LEARNING_RATE}


@pytest.mark.parametrize("name", ["cub200-2010-frozen", "cars196crops-frozen", "grocery-frozen"])
def test_scales_in_logarithms_have_the_ends_of_the_linear_ones(name):
    logs = studies.get(f"{name}/log-scales")
    assert [method.name for method in logs.methods] == ["proxy_nca", "cosface"]
    for method in logs.methods:
        before = studies.get(name).method(method.name).space
        changed = {key for key in before if before[key] != method.space[key]}
        (key,) = changed
        assert method.space[key] == replace(before[key], log=True)


def test_the_study_of_variance_records_distances_to_its_last_step():
    study = studies.get("cars196crops-frozen/variance")
    for method in study.methods:
        protocol, still = study.protocol_of(method), method.level == "untrained"
        steps, apart = (epochs * protocol.iterations_per_epoch for epochs in (protocol.max_epochs, protocol.eval_every))
        assert (steps, apart) == ((100 if still else 3000), 100)
        assert protocol.patience * protocol.iterations_per_epoch >= steps  # no run ends earlier
        assert {"pi_intra", "pi_inter"} <= set(protocol.val_metrics) & set(protocol.train_metrics)
        assert (protocol.lr == 0) == still
        assert bool(method.settings) == (method.level == "searched")
    assert sorted(Counter(method.level for method in study.methods).values()) == [1, 3, 3]


@pytest.mark.parametrize("main", ["grocery-quick", "glyphs-quick", "grocery-frozen"])
def test_batches_of_all_sizes_see_as_many_images_as_the_table(main):
    table, sweep = (
        experiments.experiments_around(main)["roth2020"],
        experiments.experiments_around(main)["roth2020/batches-equal"],
    )
    images = {sweep.protocol_of(each).iterations_per_epoch * each.level_number for each in sweep.methods}
    assert images == {64 * table.effective_protocol.iterations_per_epoch}


def test_ten_random_class_orders_stand_beside_the_default_one():
    around = experiments.experiments_around("cars196crops-frozen")
    orders = [study for name, study in around.items() if name.startswith("oi2021")]
    random = [study for study in orders if study.class_order == "random"]
    assert len(random) == len({study.seed for study in random}) == 10
    assert [study.class_order for study in orders].count("default") == 1


def test_a_name_that_is_nearly_right_is_met_with_the_right_one():
    with pytest.raises(UsageError, match="did you mean 'cub200-2010-frozen'"):
        studies.get("cub200-2010-forzen")


def test_the_long_studies_that_the_makefile_runs_exist():
    text = (Path(__file__).parents[2] / "Makefile").read_text()
    named = re.search(r"EVIDENCE = (.*?)\n\n", text, re.DOTALL)[1].replace("\\", "").split()
    assert set(named) <= STUDIES.keys()
    for_a_gpu = {name for name in MOBILENETS if name.endswith("-2000")}
    assert {*TABLES, *DEPTHS, *MOBILENETS, "icons-scratch"} - for_a_gpu <= set(named)
    place = {name: number for number, name in enumerate(named)}
    for name in named:  # a rate is chosen before it is used
        assert place.get(f"{name}/rates", -1) < place[name]


def test_icons_are_trained_from_scratch_beside_the_published_edition():
    study, grid = studies.get("icons-scratch"), studies.get("icons-scratch/rates")
    assert (len(study.methods), study.budget.trials, study.budget.reruns, study.repetitions) == (8, 12, 3, 3)
    assert study.protocol.image_size == study.protocol.crop_size == 32
    assert (study.protocol.trunk, study.protocol.augmentation) == ("conv4", "none")
    assert len({method.changes[LEARNING_RATE] for method in grid.methods}) == 5
    assert (grid.parent, grid.kind, len(grid.methods)) == (study.name, "rates", 40)
    assert study.protocol.max_epochs == study.protocol.patience == 20  # all runs are of one length
    assert not experiments.experiments_around(study.name)
