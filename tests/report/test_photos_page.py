"""The page of own photographs: sentences from records, neighbours on points that can be drawn, the page from a run."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from factories import fake_records, without_checksum
from PIL import Image

from dmlrc import paths, records, run, unit
from dmlrc.report import labels
from dmlrc.report import photos as written
from dmlrc.report.photos import answer, neighbours
from dmlrc.studies import own, photos

ON_A_CIRCLE = torch.tensor([0.0, 0.1, 0.3, 1.0, 1.05, 2.0])  # angles: two classes of two, one of a single photo
LABELS = np.array([0, 0, 1, 1, 2, 2])


@pytest.fixture
def found():
    points = torch.stack([ON_A_CIRCLE.cos(), ON_A_CIRCLE.sin()], dim=1)
    return neighbours.nearest_photos(np.arange(10, 16), LABELS, points, k=2)


def scored(values, pretrained=0.3, validation=None):
    """Records in which each method has these concatenated scores of its reruns, the untrained trunk that one.

    validation: each method's best trial; default in the order of the mean scores.
    """
    made = fake_records(reruns=len(next(iter(values.values()))))
    best = validation or {name: np.mean(numbers) for name, numbers in values.items()}
    trials = made.trials[made.trials["method"].isin(values)]
    made = replace(made, trials=trials.assign(value=trials["method"].map(best) - 0.1 * (trials["trial"] != 1)))
    made = replace(made, reruns=made.reruns[made.reruns["method"].isin(values)])
    scores = made.scores[made.scores["method"].isin([*values, "pretrained"])].copy()
    for name, numbers in values.items():
        of_method = scores["method"] == name
        scores.loc[of_method, "value"] = scores["rerun"][of_method].map(dict(enumerate(numbers)))
    scores.loc[scores["method"] == "pretrained", "value"] = pretrained
    return replace(made, scores=scores)


def test_neighbours_of_points_on_a_circle(found):
    assert found.nearest.tolist() == [[1, 2], [0, 2], [1, 0], [4, 2], [3, 2], [4, 3]]
    assert found.similarities[0, 0] == pytest.approx(np.cos(0.1), abs=1e-6)


def test_wrong_matches_are_once_a_pair_the_most_similar_first(found):
    # 3 and 4 take each other (0.05 apart), which is one pair; 2 takes 1 (0.2 apart); 5 takes 4, of its own class
    assert neighbours.wrong(found).tolist() == [3, 2]
    assert neighbours.confused(found) == [(1, 0, 1), (1, 2, 1), (2, 1, 1)]


def test_the_most_similar_mistake_comes_first_whatever_else_its_pair_holds():
    """Two pairs of classes: one with the most and the least similar mistake, one between; a photo alone counts none."""
    labels = np.array([0, 0, 1, 1, 2, 2, 3])
    nearest = np.array([[2], [3], [0], [1], [0], [0], [0]])
    similarities = np.array([[0.99], [0.50], [0.98], [0.49], [0.95], [0.94], [1.0]])
    made = neighbours.Found(np.arange(7), labels, nearest, similarities)
    assert neighbours.wrong(made).tolist() == [0, 4]
    assert neighbours.confused(made) == [(0, 1, 2), (1, 0, 2), (2, 0, 2)]


def test_examples_are_of_different_classes_and_the_same_each_time(found):
    drawn = neighbours.examples(found)
    assert sorted(LABELS[drawn]) == [0, 1, 2]
    assert drawn.tolist() == neighbours.examples(found).tolist()


def test_the_answer_names_the_loss_how_sure_it_is_and_what_training_gains():
    values = {"contrastive": [0.5, 0.51, 0.52], "triplet": [0.4, 0.41, 0.42], "arcface": [0.5, 0.5, 0.515]}
    first, sure, gain = answer.sentences(scored(values))
    assert first.startswith(f"{labels.method_label('contrastive')} does best of 3 losses on the validation classes")
    assert "51.00 ± 2.48 %" in first
    assert sure.startswith("Not sure: ArcFace cannot be distinguished from it")
    assert "searched once" in sure
    assert "Training brings +21.00 points of MAP@R and +21.00 of P@1." in gain


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ([0.29, 0.29, 0.29], "One model of this loss does not improve on that"),
        ([0.20, 0.31, 0.42], "+1.00 points of MAP@R, which may be chance, and"),
        ([0.39, 0.40, 0.41], "Training brings +10.00 points of MAP@R and"),
        ([0.40], "Training brings +10.00 points of MAP@R, which may be chance, and"),
    ],
)
def test_the_trunk_alone_is_what_training_is_compared_with(own, says):
    *_, gain = answer.sentences(scored({"contrastive": own}))
    assert says in gain


def test_one_model_against_one_trunk_whatever_joined_ones_reach():
    made = scored({"contrastive": [0.39, 0.40, 0.41]})
    one = made.scores["setting"] != "concatenated"
    *_, gain = answer.sentences(replace(made, scores=made.scores.assign(value=made.scores["value"].where(one, 0.9))))
    assert "Training brings +10.00 points of MAP@R and +10.00 of P@1." in gain


def test_the_validation_classes_choose_and_the_test_classes_judge():
    values = {"contrastive": [0.4, 0.4, 0.4], "triplet": [0.6, 0.6, 0.6]}
    made = scored(values, validation={"contrastive": 0.5, "triplet": 0.4})
    assert answer.chosen_loss(made) == "contrastive"
    first, sure, gain = answer.sentences(made)
    assert "is of the same class for 40.00" in first
    assert sure.startswith("Not sure: on the test classes Triplet scored higher")
    assert "Training brings +10.00 points of MAP@R" in gain


def test_one_that_stands_alone_is_said_to():
    _, sure, _ = answer.sentences(scored({"contrastive": [0.6, 0.6, 0.6], "triplet": [0.4, 0.4, 0.4]}))
    assert sure.startswith("No other loss may be the best instead")


def test_one_run_each_tells_nothing_apart():
    _, sure, _ = answer.sentences(scored({"contrastive": [0.6], "triplet": [0.4]}))
    assert sure == f"One run of a loss cannot be compared with others. {answer.SEARCHED_ONCE}"
    some = scored({"contrastive": [0.6, 0.6], "triplet": [0.4, 0.4]})
    lost = (some.scores["method"] == "contrastive") & (some.scores["rerun"] == 0)
    _, sure, _ = answer.sentences(replace(some, scores=some.scores[~lost]))
    assert sure.startswith("One run of a loss cannot be compared with others.")


def test_the_page_of_a_run_shows_its_photos_and_not_where_they_lie(tmp_path, home, monkeypatch):
    """Eight classes of a colour each, one loss; the strip of a query begins with its own class."""
    asked, embeddings_of = [], unit.embeddings_of
    monkeypatch.setattr(unit, "embeddings_of", lambda rerun: asked.append(rerun) or embeddings_of(rerun))
    random = np.random.default_rng(0)
    for label in range(8):
        (tmp_path / "fruit" / f"kind-{label}").mkdir(parents=True)
        for place in range(3):
            pixels = np.clip(random.normal(30 * label, 4, (40, 40, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "fruit" / f"kind-{label}" / f"{place}.png")
    chosen, entry = photos.study_of(photos.look(str(tmp_path / "fruit")), None, {"trials": 1, "reruns": 2})
    own.enter(entry)
    run.run(chosen, methods=[chosen.method("contrastive")])
    file = paths.runs() / chosen.name / "contrastive" / "0-rerun-000.json"
    lost = {"state": "diverged", "reason": "on the test images", "scores": {}, "arrays": {}}
    records.write_sealed(file, without_checksum(file) | lost)
    text = written.write_page(chosen).read_text()
    assert [rerun.number for rerun in asked] == [1]  # the first that ended
    assert "<h1>Which loss for fruit?</h1>" in text
    assert str(tmp_path) not in text
    assert "dmlrc embed runs/fruit/contrastive/0-rerun-001.safetensors FOLDER" in text
    assert 'class="query"' in text
    assert len(re.findall(r"data:image/jpeg;base64,", text)) >= 4 * 7  # a query of each test class, six neighbours
    scores = records.load(chosen.name).scores
    value = scores.query("method == 'contrastive' and setting == 'concatenated' and metric == 'map_at_r'")["value"]
    assert f"{100 * value.iloc[0]:.2f}" in text
