"""A metric of one's own in a study: in its scores and tables, known by its code; one sentence where it is wrong."""

import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import small_units
import torch
from factories import made_up_unit
from small_units import CONTRASTIVE, IMAGES

from dmlrc import evaluation, executors, records, run, studies
from dmlrc.errors import DmlrcError, UsageError
from dmlrc.protocol import OwnMetric
from dmlrc.report import ranking

ROOT = Path(__file__).parents[2]
SMOKE = studies.STUDIES["glyphs-smoke"]


def width(embeddings, labels):
    """How far apart the two images are that are farthest apart."""
    return max(float((one - other).norm()) for one in embeddings for other in embeddings)


class Images:
    """The images of a class, times a number."""

    def __init__(self, times):
        self.times = times

    def __call__(self, embeddings, labels):
        return torch.tensor(self.times * len(labels) / len(set(labels.tolist())))


def drawn(embeddings, labels):
    return np.random.random() + random.random() + float(torch.rand(()))


def spoils(embeddings, labels):
    embeddings.zero_()
    labels[:] = 0
    return 0


def with_metrics(*metrics):
    return studies.with_metrics(SMOKE, "mine", *metrics)


def scores(*metrics):
    """What a rerun on photographs scores."""
    named = with_metrics(*metrics).protocol.test_metrics
    return small_units.run(replace(IMAGES, test_metrics=named), CONTRASTIVE)["scores"]


def test_a_rerun_has_it_of_each_model_and_of_all_joined(photographs, monkeypatch):
    given, half = [], evaluation._test_half
    monkeypatch.setattr(evaluation, "_test_half", lambda *about: given.append(half(*about)) or given[-1])
    found = scores(width, Images(2), spoils)
    for setting, test in zip(("fold0", "fold1", "concatenated"), given, strict=True):
        points, labels = test["embeddings"], test["labels"]
        farthest = max(np.linalg.norm(one - other) for one in points.numpy() for other in points.numpy())
        assert found[setting]["width"] == pytest.approx(farthest, rel=1e-5)
        assert found[setting]["Images"] == 2 * len(labels) / len({*labels}) == 8
    assert found["separated"]["width"] == pytest.approx((found["fold0"]["width"] + found["fold1"]["width"]) / 2)
    del found["fold0"]["width"], found["fold0"]["Images"], found["fold0"]["spoils"]
    assert found["fold0"] == scores()["fold0"]  # whatever a metric does to what it is given


def test_what_a_metric_does_to_queries_reaches_no_other():
    def spoils_queries(embeddings, labels, query):
        query[0].zero_()
        query[1][:] = 0
        return 0

    query = torch.ones(2, 2), np.ones(2)
    metric = OwnMetric("spoils", spoils_queries)
    assert evaluation.own_score(metric, torch.ones(2, 2), np.ones(2), query=query) == 0
    assert query[0].sum() == 4
    assert query[1].sum() == 2


def test_the_metric_of_the_page_is_the_worst_classes_accuracy(home, monkeypatch):
    [code] = re.findall(
        r"```python\n(import numpy.{,80}?def worst_class.*?)```", (ROOT / "book" / "fork.md").read_text(), re.DOTALL
    )
    ran = []
    monkeypatch.setattr(run, "run", lambda study, workers: ran.append(study))
    exec(code, names := {})
    assert (ran[0].name, ran[0].protocol.test_metrics[-1].name) == ("my-worst-class", "worst_class")
    points, labels = torch.tensor([[0.0], [1.0], [5.0], [6.0], [9.0], [6.5]]), np.array([0, 0, 1, 1, 2, 2])
    metric = names["worst_class"]
    assert (metric(points, labels), metric(points[:4], labels[:4]), metric(points[:5], labels[:5])) == (0.5, 1, 0)
    assert metric(torch.tensor([[0.0], [1.0], [0.6]]), np.array([0, 0, 0])) == 1
    assert metric(torch.tensor([[0.0], [1.0], [1.1], [3.0]]), np.array([0, 0, 1, 1])) == 0.5


def test_its_chance_is_the_same_each_time_and_the_callers_stays(photographs):
    states = np.random.get_state()[1].tolist(), random.getstate(), torch.get_rng_state().tolist()
    metric = with_metrics(drawn).protocol.test_metrics[-1]
    assert len({evaluation.own_score(metric, torch.ones(2, 2), np.zeros(2)) for _ in range(3)}) == 1
    assert (np.random.get_state()[1].tolist(), random.getstate(), torch.get_rng_state().tolist()) == states


def test_it_is_recorded_shown_and_exported_beside_the_others(home, monkeypatch, call):
    def unit(asked):
        made = made_up_unit(asked)
        for scored in made["scores"].values():
            scored["width"] = 1234.5 + asked.number
        return made

    monkeypatch.setattr(run, "run_unit", unit)
    study = with_metrics(width)
    run.run(study, [study.method("contrastive")])
    found = records.load("mine")
    assert set(found.scores.query("metric == 'width'")["value"]) == {1234.5, 1235.5}
    head, row, *_ = ranking.ranked(found)[0]
    assert (head[-1], row[-1]) == ("width", "1235 ± 6.353")
    assert "width: a metric of your own, as it is." in ranking.ranked(found)[1]
    assert "1235 ± 6.353" in call("study", "show", "mine")[1]
    assert call("study", "check", "mine") == (0, "every record of 1 study is sound\n", "")
    assert call("study", "export", "mine", "--csv", str(home / "tables"))[0] == 0
    assert "width,1234.5" in (home / "tables" / "scores.csv").read_text()
    run.run(study, [study.method("contrastive")])  # nothing is left to do
    metric = study.protocol.test_metrics[-1]
    sent = executors.call(executors.by_value((lambda: metric, (), {})))
    assert (sent, hash(sent), sent.function(torch.zeros(2, 1), None)) == (metric, hash(metric), 0)


def test_another_code_is_another_study(home, monkeypatch):
    monkeypatch.setattr(run, "run_unit", made_up_unit)
    methods = [SMOKE.method("contrastive")]
    run.run(with_metrics(Images(2)), methods)
    with pytest.raises(DmlrcError, match=r"another configuration \(protocol.test_metrics .*Images@.*give the study an"):
        run.run(with_metrics(Images(3)), methods)
    run.run(with_metrics(Images(2)), methods)


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -float("inf")])
def test_a_score_that_is_not_finite_is_left_out_of_no_mean(score):
    """It may come up at some embeddings alone, after the probe."""
    metric = with_metrics(Images(2)).protocol.test_metrics[-1]
    metric.function.times = score
    with pytest.raises(UsageError, match=rf"metric 'Images' gives {score} of 2 x 3 embeddings"):
        evaluation.own_score(metric, torch.ones(2, 3), np.zeros(2))


def test_one_that_is_wrong_is_refused_at_once_in_a_sentence():
    def fails(embeddings, labels):
        return embeddings[:, 99]

    def f1_of_mine(embeddings, labels):
        return 3.0

    def nothing(embeddings, labels):
        return None

    def several(embeddings, labels):
        return embeddings

    def of_no_pair(embeddings, labels):
        return float("nan")

    def map_at_r(embeddings, labels):
        return 0.5

    for metric, said in (
        (fails, r"metric 'fails' gives no number of 12 x 4 embeddings, line \d+ of test_own_metrics.py: IndexError"),
        (lambda e, y: 0, "defined with a name, not <lambda>"),
        ("width", "a metric is a function that is defined with a name, not 'width'"),
        (map_at_r, "cannot be called 'map_at_r', as another one"),
        (f1_of_mine, "cannot be called 'f1_of_mine', as another one"),
        (nothing, "metric 'nothing' gives no number of 12 x 4 embeddings: TypeError: float.. argument must be"),
        (several, "metric 'several' gives no number of 12 x 4 embeddings: ValueError"),
        (of_no_pair, "metric 'of_no_pair' gives nan of 12 x 4 embeddings: let it return a finite number"),
    ):
        with pytest.raises(UsageError, match=said) as refused:
            with_metrics(metric)
        assert "\n" not in str(refused.value)
    with pytest.raises(UsageError, match="'width', as another one: rename it"):
        with_metrics(width, width)
    with pytest.raises(UsageError, match="'width', as another one: rename it"):  # an edited cell, run again
        studies.with_metrics(with_metrics(width), "again", width)
    with pytest.raises(UsageError, match=r"is no name: for a metric of your own, take `dmlrc.studies.with_metrics"):
        replace(SMOKE.protocol, test_metrics=(width,))
