"""The page of a comparison: the verdict, tests of one's own loss against every other, and the file."""

import copy
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cases import in_a_cell
from factories import (
    fake_records,
    fake_runs,
    fake_scores,
    fake_units,
    made_up_unit,
    unit,
    write_units,
)
from scipy import stats
from statsmodels.stats.multitest import multipletests

from dmlrc import comparison, records, run, studies
from dmlrc.methods import Float, Method
from dmlrc.report import labels, tables
from dmlrc.report.compare import page
from dmlrc.report.significance import measures

MINE = Method("mine", "triplet", label="My loss", year=2026)


def with_mine(level, searches=1, trials=12, **settings):
    """Made-up records with a row "mine" at this level of MAP@R, all methods searched so often; meta is the caller's."""
    made = made_with_mine(level, searches, trials, **settings)
    return replace(made, meta=copy.deepcopy(made.meta))


@cache
def made_with_mine(level, searches, trials, **settings):
    rng = np.random.default_rng(0)
    made, meta = fake_units(trials=trials, reruns=3, **settings)
    methods = dict.fromkeys(each["method"] for each in made if each["kind"] == "rerun")
    made = [each for each in made if each["kind"] == "pretrained" or each["state"] == "diverged"]
    for place, name in enumerate([*methods, "mine"]):
        height = level if name == "mine" else 0.3 + 0.01 * place
        for repetition in range(searches):
            made += [
                unit(name, "trial", number, fake_runs(rng)) | {"repetition": repetition} for number in range(trials)
            ]
            made += [
                unit(name, "rerun", number, fake_runs(rng), {}, fake_scores(rng, height)) | {"repetition": repetition}
                for number in range(3)
            ]
    return records.from_units(made, meta | {"repetitions": searches})


def verdict(recorded):
    return page.verdict(recorded, measures.compare(recorded), MINE)


def test_the_verdict_names_the_loss_its_place_and_what_the_tests_count():
    said = verdict(with_mine(0.9))
    assert said.startswith("**My loss** is number 1 of 15 methods by concatenated MAP@R")
    assert "Its rank may be from 1 to 1" in said
    assert "the noise of seeds alone it is better than 14, worse than 0 and tied with 0" in said
    assert "the noise of search and seed" in verdict(with_mine(0.9, searches=2))
    said = verdict(with_mine(0.1))
    assert "is number 15 of 15" in said
    assert " % (best: " in said
    assert "worse than 14" in said
    assert "ranks nothing" not in said
    assert verdict(with_mine(0.9, trials=3)).endswith(" A search of fewer than ten trials ranks nothing.")


def test_the_verdict_counts_and_names_the_fallen_and_what_is_not_as_the_protocol():
    recorded = with_mine(0.9, diverged=("arcface", "snr"))
    recorded.meta["changes"] = {"mine": {"embedding_dim": 512}}
    said = verdict(recorded)
    assert said.startswith("**My loss** is number 1 of 15 methods by concatenated MAP@R")
    assert "better than 12, worse than 0 and tied with 0" in said
    assert said.endswith(
        " Without a result: ArcFace (diverged) and SNR (diverged). Not as the protocol: embedding size 512."
    )
    every = tuple(method.name for method in tables.METHODS.values())
    said = verdict(with_mine(0.9, diverged=every))
    assert "no other method has a result. Without a result: Contrastive (diverged), Triplet (diverged), " in said
    assert "Without a result" not in verdict(with_mine(0.9))
    assert "Not as the protocol" not in verdict(with_mine(0.9))


@pytest.mark.parametrize(("trials", "lends"), [(9, False), (10, True)])
def test_searches_that_rank_nothing_lend_no_luck(tmp_path, monkeypatch, trials, lends):
    recorded = with_mine(0.9, searches=2)
    meta = recorded.meta | {"study": "mine", "repetitions": 2, "budget": recorded.meta["budget"] | {"trials": trials}}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "meta.json").write_text(json.dumps(meta))
    monkeypatch.setattr(page.paths, "runs", lambda: tmp_path)
    monkeypatch.setattr(page.paths, "results", lambda: tmp_path / "none")
    monkeypatch.setattr(page.records, "load", lambda _: recorded)
    assert page.lending_studies(with_mine(0.9)) == [recorded] * lends


def test_a_loss_in_the_middle_is_not_told_apart_from_its_neighbours():
    found = page.against(measures.compare(recorded := with_mine(0.37)), "mine")
    assert 0 < (found["holm"] >= 0.05).sum() < 14
    assert "is number" in verdict(recorded)


def test_the_tests_are_those_of_this_loss_alone_against_each_other():
    """With seeds alone: t tests, each variance halfway from the own to the mean, Holm's correction over 14 of them."""
    recorded = with_mine(0.36)
    found = page.against(measures.compare(recorded), "mine")
    scores = recorded.scores.query("setting == 'concatenated' and metric == 'map_at_r' and method != 'pretrained'")
    groups = scores.groupby("method")["value"]
    means, variances = groups.mean(), (groups.var() + groups.var().mean()) / 2
    p = {}
    for other in found.index:
        difference = means["mine"] - means[other]
        assert found["difference"][other] == pytest.approx(difference)
        both = variances[["mine", other]]
        df = 4 * both.sum() ** 2 / (both**2).sum()  # three reruns, whose own variance counts as much as the mean
        p[other] = 2 * stats.t.sf(abs(difference) / np.sqrt(both.sum() / 3), df)
    corrected = multipletests(list(p.values()), method="holm")[1]
    assert found["holm"].to_numpy() == pytest.approx(corrected)
    assert list(found.index) == list(means.drop("mine").sort_values(ascending=False).index)
    cells = page.tests(measures.compare(recorded), "mine", {"mine": MINE})
    assert (cells["verdict"] == "better").sum() == ((corrected < 0.05) & (found["difference"] > 0)).sum()


def test_a_loss_without_a_result_says_why():
    recorded = with_mine(0.5)
    trials = recorded.trials.assign(
        state=recorded.trials["state"].where(recorded.trials["method"] != "mine", "diverged")
    )
    trials.loc[trials["method"] == "mine", "reason"] = "the loss became NaN or infinite"
    without = replace(
        recorded,
        trials=trials,
        scores=recorded.scores[recorded.scores["method"] != "mine"],
        reruns=recorded.reruns[recorded.reruns["method"] != "mine"],
    )
    assert verdict(without) == "**My loss**: no result; 12 of 12 trials diverged: the loss became NaN or infinite."
    assert page.verdict_lines(without, [MINE])[1] == ["mine"]
    assert verdict(fake_records()) == "**My loss**: no result; not finished."


@pytest.mark.parametrize(("searches", "lent"), [(1, False), (1, True), (2, False)])
def test_the_page_is_a_file_with_its_tables_and_figures(tmp_path, monkeypatch, without_pictures, searches, lent):
    """Where the luck of search is another study's, the verdict counts it, and the results table tells no ranks."""
    lender = [with_mine(0.5, 3, study="lender")] if lent else []
    monkeypatch.setattr(page, "lending_studies", lambda recorded: lender)
    file = page.write_comparison(with_mine(0.5, searches), [MINE], tmp_path / "compare")
    text = file.read_text()
    assert "<strong>My loss</strong> is number 1 of 15" in text
    low, high = re.search(r"My loss</strong> is number .*?Its rank may be from (\d+) to (\d+)", text).groups()
    row = re.search(r">My loss</th>\s*<td>(?:<[bi]>)?([^<]*)", text)[1]
    told = f"({low})" if low == high else f"({low}–{high})"
    assert (told in row) != lent, (told, row)
    assert "(" not in row or not lent
    assert ("In brackets" in text) != lent
    assert text.count("<svg") == 4  # accuracy, cost, what is claimed, and the trend, which has 2026 on it
    assert "&lt;svg" not in text
    assert labels.PCA.capitalize() in text
    names = {path.name for path in file.parent.iterdir()}
    assert names > {
        "fork-results.csv",
        "fork-tests-mine.csv",
        "fork-cost.svg",
        "fork-sensitivity.csv",
        "fork-trend.svg",
    }
    tests = pd.read_csv(file.parent / "fork-tests-mine.csv")
    assert len(tests) == 14


def test_a_table_of_cut_searches_says_so():
    recorded = with_mine(0.5)
    assert "From" not in labels.caption(recorded)
    budget = {"trials": 50, "reruns": 10}
    recorded.meta["first_of"] = {"study": "first-runs/grocery-frozen", "budget": budget, "repetitions": 1}
    said = labels.caption(recorded)
    assert said.endswith("From `first-runs/grocery-frozen`: trials 12 of 50, reruns 3 of 10.")
    recorded.meta["first_of"]["budget"] = {"trials": 12, "reruns": 10}
    assert labels.caption(recorded).endswith("From `first-runs/grocery-frozen`: reruns 3 of 10.")
    recorded.meta["first_of"]["budget"] = {"trials": 50, "reruns": 3}
    assert labels.caption(recorded).endswith("From `first-runs/grocery-frozen`: trials 12 of 50.")


README = (Path(__file__).parents[2] / "README.md").read_text()
LOSS = re.search(r"```python\n(# my_loss.py\n.*?)```", README, re.DOTALL)[1]
"""The loss that the README shows."""


@pytest.fixture
def tiny(monkeypatch):
    """A study of one method that is recorded; in its comparison one's own loss alone is trained."""
    smoke = studies.get("glyphs-smoke")
    few = replace(smoke, name="tiny", methods=smoke.methods[:1], protocol=replace(smoke.protocol, folds=2))
    train = run.run_unit
    known = (None, *few.methods)  # None: the untrained trunk
    monkeypatch.setattr(run, "run_unit", lambda asked: (made_up_unit if asked.method in known else train)(asked))
    monkeypatch.setitem(studies.STUDIES, "tiny", few)
    made = {"protocol": few.effective_protocol, "trials": 2, "reruns": 2, "methods": few.methods}
    units, meta = fake_units("tiny", smoke.dataset, **made)
    for each in units:
        if (each["kind"], each["number"]) == ("trial", 1):  # not the best: reruns are of the first, which is compared
            each["value"] = 0.125
            for fold in each["runs"]:
                fold["val"]["map_at_r"] = 0.125
    write_units(units, meta | few.configuration())
    return few


def test_the_command_compares_a_file(tiny, home, call, without_pictures):
    (home / "my_loss.py").write_text(LOSS)
    asked = (str(home / "my_loss.py"), "--study", "tiny", "--trials", "1", "--reruns", "1")
    code, out, errors = call("compare", *asked)
    assert code == 0, errors
    assert "my_loss is number" in out
    assert f"open {home / 'compare' / 'tiny-my_loss' / 'index.html'}" in out
    assert (home / "compare" / "tiny-my_loss" / "index.html").exists()
    (home / "my_loss.py").write_text(LOSS.replace(".mean()", ".mean() * float('nan')"))
    code, _, errors = call("compare", *asked)
    assert code == 2
    assert "NaN or infinite on every batch" in errors
    assert "Traceback" not in errors


def test_a_loss_that_diverges_ends_with_an_error(tiny, home, monkeypatch, call, without_pictures):
    (home / "my_loss.py").write_text(LOSS)
    wanted = comparison.comparison_study(tiny, 1, 1)
    loss = in_a_cell("def loss(embeddings, labels, margin):\n    return embeddings.sum() * float('nan')")
    broken = Method("my_loss", loss, {"margin": Float(0, 1)})
    run.run(wanted, [broken])
    monkeypatch.setattr(comparison, "read_methods", lambda file: [broken])
    monkeypatch.setattr("dmlrc.preflight.check_method", lambda method, study: [])
    code, out, errors = call("compare", "x.py", "--study", "tiny", "--trials", "1", "--reruns", "1")
    assert code == 1
    assert "1 of 1 trials diverged: the loss became NaN" in out
    assert "my_loss came to no result" in errors
