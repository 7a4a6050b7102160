"""What a score looks like: neighbours, frames and scores against loops; the sheet holds what it says."""

import io
from dataclasses import replace
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from PIL import Image

from dmlrc import data, metrics
from dmlrc.data.splits import halves
from dmlrc.errors import DmlrcError
from dmlrc.report import prose
from dmlrc.report.neighbours import gallery, measures, page

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def photographs():
    return gallery.grocery()


@pytest.fixture(scope="module")
def spaces(photographs):
    return measures.spaces(photographs, ("normalized_softmax",), epochs=1)


def test_neighbours_and_their_scores_against_the_library_and_by_hand():
    points = torch.nn.functional.normalize(torch.randn(30, 8, generator=torch.Generator().manual_seed(0)))
    labels = np.repeat(np.arange(6), 5)
    neighbours = measures.nearest_by_cosine(points.numpy())
    assert all(query not in row for query, row in enumerate(neighbours))
    scores = measures.map_at_r_of_queries(points.numpy(), labels)
    expected = metrics.evaluate(points, torch.from_numpy(labels), ("map_at_r",))["map_at_r"]
    assert scores.mean() == pytest.approx(expected, abs=1e-6)
    right = labels[neighbours[:, :4]] == labels[:, None]  # R = 4
    assert np.allclose(scores, (right * right.cumsum(1) / np.arange(1, 5)).sum(1) / 4)
    places, labels = np.arange(5.0)[:, None], np.array([0, 1, 0, 2, 0])  # of image 0 the second and fourth are right
    assert measures.map_at_r_of_queries(places, labels)[0] == pytest.approx((1 / 2) / 2)  # which is behind R = 2


def test_galleries_are_of_test_classes_and_fit_their_sheets(photographs):
    for each in (photographs, gallery.glyphs()):
        labels = data.load(each.dataset).labels
        assert set(each.rows) <= set(halves(labels).test)
        assert (labels[each.rows] == each.labels).all()
        assert len(each.rows) == 12 * gallery.PER_CLASS == len(set(each.rows))
        width, height = Image.open(io.BytesIO(each.sheet)).size
        assert (width, height) == (gallery.COLUMNS * gallery.TILE, 6 * gallery.TILE)


def test_the_packed_letters_are_those_that_are_drawn():
    tiles, drawn = gallery.letters()
    packed = gallery.glyphs()
    assert (tuple(tiles["row"]), tuple(tiles["name"])) == (tuple(packed.rows), packed.names)
    assert gallery.sheet(drawn, "PNG") == packed.sheet


def test_a_gallery_of_other_images_is_not_embedded(photographs):
    other = replace(photographs, labels=photographs.labels[::-1])
    with pytest.raises(DmlrcError, match="are not those of the gallery"):
        measures.spaces(other, ("contrastive",), 1)


def test_letters_train_from_scratch(monkeypatch):
    prepared = measures.inputs.prepare

    def of_few_test_images(*asked):
        found = prepared(*asked)
        return replace(found, splits=replace(found.splits, test=found.splits.test[:300]))

    monkeypatch.setattr(measures.inputs, "prepare", of_few_test_images)
    letters = gallery.glyphs()
    untrained, trained = measures.spaces(letters, ("contrastive",), epochs=1)
    assert untrained.embeddings.shape[0] == trained.embeddings.shape[0] == len(letters.rows)
    assert trained.label == "Contrastive"
    assert not np.allclose(untrained.scores, trained.scores)


def test_spaces_hold_the_untrained_features_and_trained_embeddings(photographs, spaces):
    untrained, trained = spaces
    features = data.load("grocery-lite0").features[photographs.rows].astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    assert untrained.embeddings == pytest.approx(features, abs=1e-5)
    assert trained.label == "N. Softmax"
    assert trained.embeddings.shape == (60, 128)
    assert np.linalg.norm(trained.embeddings, axis=1) == pytest.approx(np.ones(60), abs=1e-4)


def test_the_record_is_what_training_gives(photographs, spaces, home, monkeypatch):
    (home / "results" / "measured").mkdir(parents=True)
    monkeypatch.setattr(measures, "spaces", lambda *_: spaces)
    measures.record_spaces(photographs, ("normalized_softmax",), 1)
    monkeypatch.setattr(measures, "spaces", lambda *_: "trained")
    read = measures.recorded_spaces(photographs, ("normalized_softmax",), 1)
    for each, expected in zip(read, spaces, strict=True):
        assert (each.label, each.test_map_at_r) == (expected.label, expected.test_map_at_r)
        assert (each.embeddings == expected.embeddings).all()
        assert (each.scores == expected.scores).all()
    monkeypatch.setattr("dmlrc.records.provenance.commit", lambda: "now")
    assert measures.made_with(photographs, ("normalized_softmax",), 1) != "now"
    assert measures.made_with(photographs, ("normalized_softmax",), 2) == "now"
    assert measures.recorded_spaces(photographs, ("normalized_softmax",), 2) == "trained"
    assert measures.recorded_spaces(photographs, ("contrastive",), 1) == "trained"


def test_the_committed_record_is_what_training_gives(photographs, monkeypatch):
    trained = measures.spaces(photographs, ("contrastive",))
    monkeypatch.setenv("DMLRC_HOME", str(ROOT))
    monkeypatch.setattr(measures, "spaces", lambda *_: pytest.fail("not recorded"))
    for one, other in zip(measures.recorded_spaces(photographs, ("contrastive",)), trained, strict=True):
        # another processor rounds otherwise
        assert one.test_map_at_r == pytest.approx(other.test_map_at_r, abs=0.005)
        assert one.scores.mean() == pytest.approx(other.scores.mean(), abs=0.02)


def test_queries_are_those_nearest_to_the_scores_asked_for(spaces):
    scores = spaces[0].scores
    found = measures.queries(spaces[0], (0.0, 0.5, 0.5))
    assert len(set(found)) == 3
    assert abs(scores[found[0]]) == np.abs(scores).min()
    assert abs(scores[found[1]] - 0.5) == np.abs(scores - 0.5).min()


def test_frames_say_what_is_right(photographs, spaces):
    query = measures.queries(spaces[0], (0.5,))[0]
    html = page.gallery_html("sheet", photographs, spaces, [query])
    counted, beyond = html.split('class="dml-row"')[2].split("dml-cut")
    assert (counted.count("dml-thumb "), beyond.count("dml-thumb ")) == (4, 2)  # as many as the class has others
    right = sum(
        (photographs.labels[each.neighbours[query][: page.SHOWN]] == photographs.labels[query]).sum() for each in spaces
    )
    assert html.count('class="dml-thumb right"') == right
    assert html.count('class="dml-thumb wrong"') == len(spaces) * page.SHOWN - right
    assert html.count("data:image/jpeg") == 1
    assert photographs.names[query] in html


def test_a_random_layer_keeps_some_of_what_the_network_knows(photographs, spaces):
    random = measures.at_random(photographs, spaces[0], spaces[1].embeddings.shape[1], draws=3)
    assert 0.1 < random < spaces[0].scores.mean()


def test_the_numbers_of_the_text_are_those_of_the_tables(photographs, monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(ROOT))
    told = page.numbers()
    for each, name in ((photographs, "grocery"), (gallery.glyphs(), "glyphs")):
        spaces = measures.recorded_spaces(each, measures.LOSSES[each.dataset], measures.EPOCHS[each.dataset])
        first, *others, lift = page.gallery_scores(each, spaces)["MAP@R, these images"].str.split().str[0].astype(float)
        assert lift == pytest.approx(sum(others) / len(others) - first, abs=0.1)
        numbers = [told[f"{name}.{number}"] for number in ("untrained", "low", "high")]
        assert numbers == pytest.approx([first, min(others), max(others)], abs=0.05)
    assert (told["first"], told["second"]) == (25, 12.5)


def test_all_models_of_the_chapter_are_recorded(photographs, monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(ROOT))
    for each in (photographs, gallery.glyphs()):
        assert measures.record_of(each, measures.LOSSES[each.dataset], measures.EPOCHS[each.dataset])


def test_no_sentence_of_the_page_holds_of_models_that_are_otherwise(monkeypatch):
    """Where training hurts letters and helps photographs, and the whole test half scores higher."""
    [cell] = [
        each
        for each in nbformat.read(ROOT / "notebooks" / "01_what_a_score_looks_like.ipynb", as_version=4).cells
        if "guards" in each.metadata.get("tags", [])
    ]
    monkeypatch.setenv("DMLRC_HOME", str(ROOT))
    monkeypatch.setattr(page, "at_random", lambda *_: 0.5)
    recorded = measures.recorded_spaces

    def otherwise(*asked):
        before, *trained = recorded(*asked)
        whole = [(before, 0.1), *((each, 0.99) for each in trained)]
        return [
            replace(each, test_map_at_r=score, scores=each.scores * 0 + (0.4 if each is before else 0.45))
            for each, score in whole
        ]

    monkeypatch.setattr(page, "recorded_spaces", otherwise)
    found = {}
    monkeypatch.setattr(prose, "put", lambda numbers: None)
    monkeypatch.setattr(prose, "says", lambda sentence, holds: found.__setitem__(sentence, holds))
    exec(cell.source, {"prose": prose, "edition": []})
    assert len(found) == 14
    assert not any([*found.values()][:9])  # the others are of settings
