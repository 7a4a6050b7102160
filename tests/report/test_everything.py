"""All results in one table: each row is what the records say, and ranks are those that the intervals leave open."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from factories import fake_records, write_fake_experiments, write_fake_study
from scipy import stats

from dmlrc import records, studies
from dmlrc.report import editions, everything


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study with all its experiments, and nothing beside them: tests read it and leave it as it is."""
    home, study = tmp_path_factory.mktemp("home"), studies.get("grocery-quick")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLRC_HOME", str(home))
        write_fake_study(study=study.name, dataset=study.dataset, protocol=study.protocol, trials=3, reruns=3)
        write_fake_experiments(study.name)
    return home


@pytest.fixture
def main(folder, monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(folder))
    return records.load("grocery-quick")


@pytest.fixture(scope="module")
def every(folder):
    """All results of the study and its experiments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLRC_HOME", str(folder))
        return everything.every_result([records.load("grocery-quick")])


@pytest.fixture
def alone(monkeypatch):
    """Studies without experiments."""
    monkeypatch.setattr(everything.experiments, "load_experiment", lambda main, name: None)


def test_each_mean_is_that_of_the_scores(main, every):
    found = every
    assert {"methods table", "roth2020", "after2019"} <= set(found["experiment"])
    scores_of = cache(lambda record: records.load(record).scores)
    for row in found[found["metric"] == "map_at_r"].sample(20, random_state=0).itertuples():
        scores = scores_of(row.record)
        chosen = scores[
            (scores["method"] == row.method) & (scores["setting"] == row.setting) & (scores["metric"] == "map_at_r")
        ]
        assert row.mean == pytest.approx(chosen["value"].mean())
        assert row.n == len(chosen)


def test_ranks_are_those_that_the_luck_of_seeds_leaves_open(main, every):
    found = every
    part = found[
        (found["experiment"] == "methods table")
        & (found["setting"] == "concatenated")
        & (found["metric"] == "map_at_r")
        & (found["method"] != "pretrained")
    ].set_index("method")
    scores = main.scores[(main.scores["setting"] == "concatenated") & (main.scores["metric"] == "map_at_r")]
    runs = {name: group.to_numpy() for name, group in scores.groupby("method")["value"] if name in part.index}
    [reruns] = {len(each) for each in runs.values()}
    own_df, prior = reruns - 1, min(reruns - 1, 2)
    pooled = np.mean([each.var(ddof=1) for each in runs.values()])
    errors = {
        name: (prior * pooled + own_df * each.var(ddof=1)) / (prior + own_df) / reruns for name, each in runs.items()
    }

    def apart(method, other):
        """How many standard errors the other is above the method, and the degrees of freedom."""
        total = errors[method] + errors[other]
        df = (prior + own_df) * total**2 / (errors[method] ** 2 + errors[other] ** 2)
        return (part["mean"][other] - part["mean"][method]) / total**0.5, df

    @cache  # a pair is as sure from either side
    def sure(t, df):
        return stats.studentized_range.sf(t * 2**0.5, len(runs), int(df)) < 0.05

    for method, row in part.iterrows():
        gaps = [apart(method, other) for other in runs if other != method]
        above = sum(sure(abs(t), df) and t > 0 for t, df in gaps)
        below = sum(sure(abs(t), df) and t < 0 for t, df in gaps)
        assert (row["rank_low"], row["rank_high"]) == (1 + above, len(part) - below), method
        behind = [stats.t.sf(t, df) * (len(runs) - 1) < 0.05 for t, df in gaps]
        assert row["tied"] == (not (any(behind) or above)), method
    assert part["tied"][part["mean"].idxmax()]


def test_a_study_that_searched_once_has_no_ranks_beside_one_that_repeated_its_searches(main, every, monkeypatch):
    assert set(every["luck"]) == {"seed; searched once", "seed"}
    assert every["rank_low"].notna().any()
    scores = pd.concat(
        [main.scores.assign(repetition=number, value=main.scores["value"] + number) for number in (0, 1)]
    )
    repeated = replace(main, scores=scores, meta=main.meta | {"study": "repeated"})
    read = everything.experiments.load_experiment
    two = ("roth2020", "roth2020/dims")
    monkeypatch.setattr(
        everything.experiments, "load_experiment", lambda main, name: read(main, name) if name in two else None
    )
    found = everything.every_result([main, repeated])
    ranked = found[found["rank_low"].notna()].groupby("luck")["record"].unique()
    assert set(ranked["search and seed"]) == {"repeated"}
    assert "seed; searched once" not in ranked
    assert ranked["seed"].size > 1  # of what was not searched, the seed is all the luck
    cells = everything.result_cells(found)
    once = cells[cells["± counts"] == "seed; searched once"]
    assert len(once) > 10
    assert set(once["rank"]) == set(once["tied with the best"]) == {"–"}


def test_first_runs_and_depths_of_training_stand_beside_their_tables(monkeypatch):
    published = (
        "cub200-2010-depths/squeezenet-embedder-alone",
        "cub200-2010-frozen/rate-tenfold",
        "first-runs/grocery-frozen",
    )
    monkeypatch.setattr(editions.records, "is_published", lambda name: name in published)
    monkeypatch.setattr(editions.records, "load", lambda name: fake_records(study=name))

    def beside(name):
        return [each.name for each in editions.published_beside([fake_records(study=name)])]

    assert beside("grocery-quick") == []
    assert beside("grocery-frozen") == ["first-runs/grocery-frozen", "cub200-2010-depths/squeezenet-embedder-alone"]
    assert beside("cub200-2010-frozen") == [
        "cub200-2010-depths/squeezenet-embedder-alone"
    ]  # ten times its rate is an experiment of it
    monkeypatch.setattr(everything.experiments, "load_experiment", lambda main, name: None)
    found = everything.every_result([fake_records(study="grocery-frozen")])
    assert list(dict.fromkeys(found["record"])) == ["grocery-frozen", *beside("grocery-frozen")]


def test_cells_have_a_row_a_method_and_setting_and_no_slug_but_the_record(every):
    cells = everything.result_cells(every)
    assert len(cells) == len(every[["record", "label", "setting"]].drop_duplicates())
    assert set(cells["study"]) == {"Grocery Store (quick)"}
    assert "Roth et al. 2020: batch size" in set(cells["experiment"])
    pretrained = cells.loc["Untrained trunk"]
    assert set(pretrained["rank"]) == {"–"}
    assert not cells["MAP@R"].isin(["nan", ""]).any()
    assert np.all(cells["record"].str.startswith("grocery-quick"))


def test_rows_below_the_untrained_trunk_and_rows_cut_off_are_marked(main, alone):
    scores, runs = main.scores.copy(), main.runs.assign(stopped="plateau")
    scores.loc[scores["method"] == "triplet", "value"] = 0.01  # the untrained trunk has 0.2
    scores.loc[scores["method"] == "margin", "value"] = 0.9
    runs.loc[(runs["method"] == "margin") & (runs["kind"] == "rerun"), "stopped"] = "limit"
    cells = everything.result_cells(everything.every_result([replace(main, scores=scores, runs=runs)]))
    table = cells[cells["experiment"] == "methods table"]
    assert table.loc["Triplet", ["MAP@R", "P@1"]].map(lambda cell: cell.endswith(" ↓")).all(axis=None)
    assert table.loc["Margin", "MAP@R"].str.endswith(" »").all()
    assert not table.loc["Margin", "P@1"].str.contains("[↓»]").any()


def test_a_method_alone_has_no_rank(main, alone):
    scores = main.scores[main.scores["method"].isin(["pretrained", "triplet"])]
    cells = everything.result_cells(everything.every_result([replace(main, scores=scores)]))
    table = cells[cells["experiment"] == "methods table"]
    assert set(table["rank"]) == set(table["tied with the best"]) == {"–"}


def test_a_published_book_links_to_the_records_in_its_repository(every, home, monkeypatch):
    records.write_json(home / "results" / "grocery-quick" / "meta.json", {"study": "grocery-quick"})
    monkeypatch.delenv("DMLRC_REPOSITORY", raising=False)
    found = everything.result_cells(every)
    assert set(everything.linked(found)["record"]) == set(found["record"])  # no link leaves a site that knows none
    monkeypatch.setenv("DMLRC_REPOSITORY", "https://git.example/me/dmlrc")
    monkeypatch.setattr(everything.provenance, "commit", lambda: "0123456789-dirty")
    links = everything.linked(everything.result_cells(every))["record"]
    address = "https://git.example/me/dmlrc/tree/0123456789/results/grocery-quick/"
    assert {f'<a href="{address}">grocery-quick</a>', "grocery-quick/roth2020"} <= set(links)
