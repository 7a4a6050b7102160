"""The recorded searches as a benchmark: answers against cases done by hand, exports read by the tools they are for."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
import pytest
from factories import fake_units, write_units
from typer.testing import CliRunner

from dmlrc import bench, cli, records, studies
from dmlrc.bench import export
from dmlrc.errors import DmlrcError, MissingDataError, UsageError
from dmlrc.methods import Float, Int
from dmlrc.protocol import Budget

ROOT = Path(__file__).parents[1]
NAME, METHOD = "glyphs-smoke", "contrastive"
CURVES = {  # trial -> fold -> validation MAP@R at its steps
    0: [{10: 0.1, 20: 0.3, 30: 0.2, 40: 0.2}, {10: 0.2, 20: 0.1}],
    1: [{10: 0.3, 20: 0.2}, {10: 0.2, 20: 0.4, 30: 0.1}],
    2: [{10: 0.1}, {10: 0.1}],
}
BEST = {0: 0.25, 1: 0.35, 2: 0.1}


@pytest.fixture
def made():
    """Three trials of known curves, of a study of the package."""
    study = studies.get(NAME)
    units, meta = fake_units(NAME, study.dataset, study.effective_protocol, diverged=("arcface",))
    for each in units:
        if (each["method"], each["kind"]) == (METHOD, "trial"):
            runs = each["runs"][:2]
            for run, curve in zip(runs, CURVES[each["number"]], strict=True):
                run |= {"steps": max(curve), "best_step": max(curve, key=curve.get)}
                run["curve"] = [{"step": step, "loss": 1.0, "map_at_r": value} for step, value in curve.items()]
                run["val"] = {"map_at_r": max(curve.values())}
            each |= {"runs": runs, "value": BEST[each["number"]], "steps": sum(run["steps"] for run in runs)}
    meta["protocol"]["folds"] = 2
    write_units(units, meta)
    return units


def test_where_no_search_is_published_there_is_nothing_to_export(tmp_path):
    with pytest.raises(DmlrcError, match=r"no search is published in .*: go into a clone"):
        export.export_bench(tmp_path / "bench")
    assert not (tmp_path / "bench").exists()


def test_curves_hold_the_best_so_far_and_what_it_cost(made):
    found = bench.curves(NAME, METHOD)
    rows = [tuple(row) for row in found[["trial", "step", "cost"]].to_numpy()]
    assert rows == [
        *((0, 10, 20), (0, 20, 40), (0, 30, 50), (0, 40, 60)),
        *((1, 10, 20), (1, 20, 40), (1, 30, 50)),
        (2, 10, 20),
    ]
    np.testing.assert_allclose(found["value"], [0.15, 0.25, 0.25, 0.25, 0.25, 0.35, 0.35, 0.1])


def test_recorded_trials_are_answered_by_their_values(made):
    table, ask = bench.trials(NAME, METHOD), bench.objective(NAME, METHOD)
    assert [ask.value(params) for params in table["params"]] == list(BEST.values())
    assert ask.best == 0.35
    early = bench.objective(NAME, METHOD, fraction=0.25)  # ten of forty steps
    assert [early.value(params) for params in table["params"]] == pytest.approx([0.15, 0.25, 0.1])
    first = bench.objective(NAME, METHOD, fraction=0.01)  # before any validation: the first
    assert [first.value(params) for params in table["params"]] == pytest.approx([0.15, 0.25, 0.1])
    half = bench.objective(NAME, METHOD, fraction=0.5)
    assert [half.value(params) for params in table["params"]] == pytest.approx([0.25, 0.35, 0.1])


def test_the_winner_is_tested_on_unseen_classes(made):
    found = bench.test_scores(NAME, METHOD)
    reruns = [each for each in made if (each["method"], each["kind"]) == (METHOD, "rerun")]
    assert found["trial"].tolist() == [1, 1]
    assert found["validation"].tolist() == [0.35, 0.35]
    for metric in ("map_at_r", "precision_at_1"):
        assert found[metric].tolist() == [each["scores"]["separated"][metric] for each in reruns]


def test_what_cannot_be_answered_says_why(made):
    with pytest.raises(UsageError, match="unknown kind of objective 'forrest': did you mean 'forest'"):
        bench.objective(NAME, METHOD, "forrest")
    with pytest.raises(UsageError, match="the fraction of a training is 2"):
        bench.objective(NAME, METHOD, fraction=2)
    with pytest.raises(MissingDataError, match="no trial of arcface in 'glyphs-smoke'"):
        bench.objective(NAME, "arcface")  # all its trials diverged
    with pytest.raises(UsageError, match="unknown method"):
        bench.search_space(NAME, "contrastiv")


SPACE = {"rate": Float(1e-4, 1, log=True), "count": Int(1, 9)}


def test_the_nearest_trial_is_so_in_logarithms():
    tried = [{"rate": 1e-4, "count": 5}, {"rate": 1.0, "count": 5}]
    ask = bench.Objective(SPACE, bench.unit_cube(SPACE, tried), np.array([0.2, 0.4]), "nearest")
    assert ask.value({"rate": 0.005, "count": 5}) == 0.2  # below the geometric mean, 0.01
    assert ask.value({"rate": 0.02, "count": 1}) == 0.4


@pytest.mark.parametrize("kind", bench.KINDS)
def test_the_error_tells_what_can_be_foretold_from_noise(kind):
    rng = np.random.default_rng(0)
    cube = rng.random((150, 2))
    smooth = bench.Objective(SPACE, cube, 0.5 * cube[:, 0], kind)
    noise = bench.Objective(SPACE, cube, 0.1 * rng.standard_normal(150), kind)
    assert smooth.error < 0.3 * smooth.spread
    assert noise.error > 0.9 * noise.spread
    assert smooth.spread == pytest.approx(0.5 * cube[:, 0].std())


def test_optuna_maximises_it_within_its_space():
    cube = np.random.default_rng(0).random((60, 2))
    ask = bench.Objective(SPACE, cube, 0.4 - (cube[:, 0] - 0.5) ** 2, "forest")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(ask, 40)
    assert set(study.best_params) == set(SPACE)
    assert isinstance(study.best_params["count"], int)
    assert 0.004 < study.best_params["rate"] < 0.025  # half way in logarithms: 0.01
    assert ask.best - 0.005 < study.best_value <= 0.4


@pytest.fixture
def published(monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(ROOT))


def test_the_published_problems_are_whole(published):
    names = bench.studies()
    assert {"cub200-2010-frozen", "cars196crops-frozen", "grocery-frozen/after2019"} <= set(names)
    assert not [name for name in names if name.endswith("-rates")]
    for method in bench.methods("grocery-frozen"):
        found = bench.trials("grocery-frozen", method)
        assert found.groupby("repetition").size().tolist() == [50, 50, 50]
        cube = bench.unit_cube(bench.search_space("grocery-frozen", method), found["params"])
        assert cube.min() >= 0
        assert cube.max() <= 1


def test_the_curves_of_published_trials_end_at_their_values(published):
    table, ends = bench.trials("grocery-frozen", "triplet"), bench.curves("grocery-frozen", "triplet")
    ends = ends.groupby(["repetition", "trial"]).last()
    np.testing.assert_allclose(ends["value"], table["value"], rtol=0, atol=1e-12)
    assert ends["cost"].tolist() == table["steps"].tolist()
    scores = bench.test_scores("grocery-frozen", "triplet")
    assert scores.groupby("repetition")["validation"].first().tolist() == [
        of_search["value"].max() for _, of_search in table.groupby("repetition")
    ]


@pytest.fixture
def exported(made, home, monkeypatch):
    """The benchmark of three methods of the made-up study."""
    whole = studies.get(NAME)
    three = replace(whole, methods=whole.methods[:3], budget=Budget("full", 10, 2))
    monkeypatch.setattr(bench, "studies", lambda: [NAME])
    monkeypatch.setattr(studies, "get", lambda name: three)
    folder = home / "bench"
    result = CliRunner().invoke(cli.app, ["bench", "export", str(folder)])
    assert result.output.strip() == str(folder)
    return folder


def read(folder, name):
    return json.loads((folder / "hpo-b" / f"{name}.json").read_text())


def test_hpo_b_finds_its_layout(exported):
    """Search space -> data set -> X from 0 to 1, y in a column, five trials to begin with."""
    tables, starts = read(exported, "meta-test-dataset"), read(exported, "bo-initializations")
    ranges = read(exported, "meta-dataset-descriptors")
    assert list(tables) == list(starts) == list(ranges) == bench.methods(NAME)
    table = tables[METHOD][NAME]
    assert table["y"] == [[value] for value in BEST.values()]
    assert np.shape(table["X"]) == (3, len(bench.search_space(NAME, METHOD)))
    assert np.min(table["X"]) >= 0
    assert np.max(table["X"]) <= 1
    assert sorted(starts[METHOD][NAME]) == [f"test{seed}" for seed in range(5)]
    assert all(sorted(each) == [0, 1, 2] for each in starts[METHOD][NAME].values())  # five, of fifty
    assert ranges[METHOD]["variables_order"] == list(bench.search_space(NAME, METHOD))


def test_a_range_in_logarithms_is_described_as_one():
    found = export._descriptor(SPACE)
    assert found["variables_to_apply_log"] == ["rate"]
    assert found["variables"]["rate"] == {
        **{"min": pytest.approx(np.log(1e-4)), "max": 0.0},
        **{"min_before_tf": 1e-4, "max_before_tf": 1.0},
    }


def test_spaces_that_differ_between_studies_are_two(monkeypatch):
    ranges = {"a": Float(0, 1), "b": Float(0, 1), "c": Float(0, 2)}
    monkeypatch.setattr(bench, "search_space", lambda study, method: {"x": ranges[study]})
    table = pd.DataFrame({"params": [{"x": 0.5}], "value": [0.1]})
    monkeypatch.setattr(bench, "trials", lambda study, method: table)
    found = export._hpo_b([(study, "loss") for study in ranges])["meta-test-dataset"]
    assert {name: list(of) for name, of in found.items()} == {"loss": ["a", "b"], "loss-2": ["c"]}
    assert found["loss-2"]["c"]["X"] == [[0.25]]


def test_files_hold_the_columns_of_the_card_and_the_card_says_what_must_be_said(exported):
    card = (exported / "README.md").read_text()
    for name, columns in export.TABLES.items():
        assert list(pd.read_parquet(exported / f"{name}.parquet")) == list(columns)
        assert all(f"| `{column}` |" in card for column in columns)
    assert "**Licence:** MIT" in card
    assert "9 trials of 3 searches" in card
    assert "commit `" in card
    assert "$" not in card
    assert pd.read_parquet(exported / "trials.parquet")["value"].tolist()[:3] == list(BEST.values())


@pytest.mark.filterwarnings("ignore")  # of libraries that it builds on
def test_croissant_reads_every_file(exported):
    mlcroissant = pytest.importorskip("mlcroissant")
    described = mlcroissant.Dataset(jsonld=exported / "croissant.json")
    assert not described.metadata.ctx.issues.errors
    assert not described.metadata.ctx.issues.warnings
    for name in export.TABLES:
        table = pd.read_parquet(exported / f"{name}.parquet")
        found = list(described.records(name))
        assert len(found) == len(table) > 0
        last = {key.partition("/")[2]: value for key, value in found[-1].items()}
        expected = table.iloc[-1].to_dict()
        assert {key: value.decode() if isinstance(value, bytes) else value for key, value in last.items()} == expected


def test_a_folder_that_holds_something_is_left_alone(home):
    (home / "full").mkdir()
    (home / "full" / "mine").touch()
    result = CliRunner().invoke(cli.app, ["bench", "export", str(home / "full")])
    assert isinstance(result.exception, UsageError)
    assert "is there and not empty" in str(result.exception)
    assert records.find(NAME) is None
