"""Icons: what is drawn, which drawings are one class, and whether batches, losses and scores stand such classes."""

import hashlib
import io
import itertools
import json
import tarfile
from collections import Counter

import numpy as np
import pytest
import torch

from dmlrc import data, losses, metrics
from dmlrc.data import batches, icon_set, icons, splits, svg
from dmlrc.errors import DmlrcError, UsageError


@pytest.fixture(scope="module")
def drawn():
    return data.load("icons")


@pytest.fixture(scope="module")
def of_test(drawn):
    return splits.halves(drawn.labels).test


def svg_path(d, **attributes):
    told = " ".join(f'{key}="{value}"' for key, value in attributes.items())
    return f'<path d="{d}" {told}/>'


# Drawing


def test_a_square_fills_its_pixels_and_a_share_of_those_on_its_edge():
    image = svg.draw(svg_path("M1 1h2v2.5h-2z"), 4, 4)
    assert image.tolist() == [[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0.5, 0.5, 0]]


@pytest.mark.parametrize(
    "d",
    [
        "M1 1H3V3H1z",
        "m1,1 2,0 0,2 -2,0",
        "M1 1l2 0l0 2l-2 0zm.5.5",
        "M1 1C1.5 1 2.5 1 3 1S3 2.5 3 3 L1 3",
        "M1 1Q2 1 3 1T3 3L1 3",
    ],
)
def test_a_square_in_other_words(d):
    assert np.array_equal(svg.draw(svg_path(d), 4, 4)[1:3, 1:3] > 0.4, np.ones((2, 2), dtype=bool))
    if "C" not in d and "Q" not in d:
        assert np.array_equal(svg.draw(svg_path(d), 4, 4), svg.draw(svg_path("M1 1h2v2h-2z"), 4, 4))


def test_circles_ellipses_and_arcs_have_their_area():
    circle = svg.draw('<circle cx="5" cy="5" r="3"/>', 10, 20)
    assert circle.sum() / 4 == pytest.approx(np.pi * 9, rel=0.01)
    in_arcs = svg.draw(svg_path("M2 5a3 3 0 016 0A3 3 0 1 1 2 5"), 10, 20)  # flags without spaces
    assert np.abs(in_arcs - circle).max() < 0.1
    ellipse = svg.draw('<ellipse cx="5" cy="5" rx="4" ry="2"/>', 10, 20)
    assert ellipse.sum() / 4 == pytest.approx(np.pi * 8, rel=0.01)
    turned = svg.draw(svg_path("M5 1a4 2 90 0 1 0 8a4 2 90 0 1 0-8"), 10, 20)
    assert np.abs(turned - ellipse.T).max() < 0.1


@pytest.mark.parametrize(("large", "sweep", "share"), [(0, 0, 0.25), (0, 1, 0.25), (1, 0, 0.75), (1, 1, 0.75)])
def test_the_flags_of_an_arc_choose_one_of_four(large, sweep, share):
    segment = svg.draw(svg_path(f"M7 5A4 4 0 {large} {sweep} 11 9"), 16, 64).sum() / 16
    triangle = 8 if share == 0.25 else -8  # between the chord and the centre
    assert segment == pytest.approx(np.pi * 16 * share - triangle, rel=0.02)


def test_radii_that_are_too_small_for_an_arc_grow():
    assert svg.draw(svg_path("M1 5a1 1 0 0 1 8 0"), 10, 20).sum() / 4 == pytest.approx(np.pi * 8, rel=0.01)


def test_fill_rules_and_opacity():
    twice = "M0 0h4v4h-4zM1 1h2v2h-2z"
    assert svg.draw(svg_path(twice), 4, 4).min() == 1
    assert svg.draw(svg_path(twice, **{"fill-rule": "evenodd"}), 4, 4)[1:3, 1:3].max() == 0
    assert svg.draw(svg_path("M0 0h4v4h-4zM1 1v2h2v-2z"), 4, 4)[1:3, 1:3].max() == 0  # the other way round
    square = svg_path("M0 0h4v4h-4z", opacity=0.3)
    assert svg.draw(square, 4, 4) == pytest.approx(0.3)
    assert svg.draw(square * 2, 4, 4) == pytest.approx(1 - 0.7**2)
    used = f'<defs>{svg_path("M0 0h4v4h-4z", id="a")}</defs><use href="#a" opacity=".3"/>'
    assert svg.draw(used, 4, 4) == pytest.approx(0.3)
    assert svg.draw(used.partition("<use")[0], 4, 4).max() == 0  # defined, not used


@pytest.mark.parametrize(
    "body", ['<rect width="3"/>', '<path d="M0 0" transform="scale(2)"/>', svg_path("M0 0h"), svg_path("M0 0zx")]
)
def test_what_cannot_be_drawn_is_refused(body):
    with pytest.raises(DmlrcError, match="SVG"):
        svg.draw(body, 4, 4)


# Classes


def test_icons_that_share_an_image_are_one_class_and_so_is_what_shares_one_with_either():
    images = np.array([[1, 2], [3, 4], [5, 5], [4, 6], [6, 1]])[..., None].astype(np.uint8)
    assert icon_set.classes(images).tolist() == [0, 0, 2, 0, 0]
    alone = icon_set.classes(np.arange(6, dtype=np.uint8).reshape(3, 2, 1))
    assert alone.tolist() == [0, 1, 2]


def test_what_is_packed_is_written_and_read(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 16, (3, 5, 32, 32), dtype=np.uint8)
    images[0, 1], images[2, 4] = images[0, 0], images[0, 0]
    packed = icon_set.pack(["a", "b", "c"], images)
    assert [row[:2] for row in packed.rows] == [("a", "a")] * 4 + [("a", "c")] * 4 + [("b", "b")] * 5
    assert [row[2] for row in packed.rows[:4]] == ["baseline", "round", "sharp", "twotone"]
    icons.write(packed, tmp_path / "icons")
    found = icons.read(tmp_path / "icons")
    assert found.rows == packed.rows
    assert np.array_equal(found.greys, packed.greys)
    assert np.array_equal(found.greys[4:8], images[2, :4])
    assert icon_set.counts(3, packed) == "3 icons, 13 images, 2 classes by their images: 1 of 5, 1 of 8"


def test_an_archive_is_read_by_icon_and_style(tmp_path):
    bodies = {f"{style}-{name}": {"body": f"{name} {style}"} for style in icons.STYLES for name in ("b-c", "a")}
    content = json.dumps({"icons": bodies | {"content-cut": {"body": "", "hidden": True}}}).encode()
    with tarfile.open(tmp_path / "icons.tgz", "w:gz") as archive:
        member = tarfile.TarInfo("package/icons.json")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    found = icon_set.bodies(tmp_path / "icons.tgz")
    assert list(found) == ["a", "b-c"]
    assert found["b-c"] == [f"b-c {style}" for style in icons.STYLES]


# The data set


def test_icons_are_2012_classes_of_one_to_13_images(drawn):
    assert drawn.images.shape == (7446, 1, 32, 32)
    assert drawn.images.dtype == np.uint8
    assert not drawn.flip
    assert drawn.class_names == tuple(sorted(set(drawn.class_names)))
    assert len(drawn.class_names) == 2012
    sizes = Counter(np.bincount(drawn.labels).tolist())
    assert sizes == {1: 52, 2: 440, 3: 362, 4: 482, 5: 626, 6: 15, 7: 18, 8: 6, 9: 8, 10: 1, 11: 1, 13: 1}


def test_no_image_is_there_twice_in_one_class_or_in_two(drawn):
    assert len({image.tobytes() for image in drawn.images}) == len(drawn.images)
    assert drawn.images.max(axis=(1, 2, 3)).min() > 0  # and none is empty


def test_icons_are_the_bytes_that_were_drawn(drawn):
    assert hashlib.sha256(drawn.images.tobytes()).hexdigest()[:16] == "97b69305b58d0b96"


def test_pixels_are_those_of_the_icons_that_the_rows_name():
    stored = icons.read(icons.FOLDER)
    place = stored.rows.index(("fiber-manual-record", "fiber-manual-record", "baseline"))
    circle = icon_set.greys('<circle cx="12" cy="12" r="8"/>')
    assert np.abs(stored.greys[place].astype(int) - circle).max() <= 1


def test_icons_come_with_licence_source_and_command_in_less_than_a_megabyte():
    assert "Apache License" in (icons.FOLDER / "LICENSE.txt").read_text()
    readme = (icons.FOLDER / "README.md").read_text()
    assert "@iconify-json/ic` 1.2.4" in readme
    assert "python -m dmlrc.data.icon_set" in readme
    assert sum(file.stat().st_size for file in icons.FOLDER.iterdir()) < 1e6


def test_icons_of_another_size():
    assert data.load("icons", size=16).images.shape == (7446, 1, 16, 16)
    with pytest.raises(UsageError, match="image size"):
        data.load("icons", size=0)
    with pytest.raises(UsageError, match="nothing to download"):
        data.fetch("icons")


# What trains and scores on classes of this shape


def test_halves_are_1006_classes_each_and_folds_have_pairs(drawn):
    made = splits.halves(drawn.labels)
    assert len(np.unique(drawn.labels[made.test])) == 1006
    assert len(made.folds) == 4
    for fold in made.folds:
        assert np.bincount(drawn.labels[fold.val]).max() > 1


def test_scores_are_those_of_a_plain_loop(drawn, of_test):
    rng, names = np.random.default_rng(0), ("precision_at_1", "r_precision", "map_at_r")
    labels = drawn.labels[of_test]
    points = rng.normal(size=(len(labels), 16)) + rng.normal(size=(labels.max() + 1, 16))[labels]
    points = torch.nn.functional.normalize(torch.from_numpy(points).float())
    some = labels < labels.min() + 300  # classes of 1 to 13 images
    found = metrics.evaluate(points[some], labels[some], names=names)
    assert [found[name] for name in names] == pytest.approx(plain_scores(points[some].double().numpy(), labels[some]))
    assert 0.1 < found["map_at_r"] < 0.9
    of_all = metrics.evaluate(points, labels, names=names)
    assert of_all["map_at_r"] < found["map_at_r"]  # 1,006 classes are more to confuse it with


def plain_scores(points, labels):
    """Mean P@1, R-precision and MAP@R over the images whose class has another one."""
    scores = []
    similarity = points @ points.T
    np.fill_diagonal(similarity, -np.inf)
    for query, row in enumerate(similarity):
        r = (labels == labels[query]).sum() - 1
        if r:
            hits = labels[np.argsort(-row)[:r]] == labels[query]
            precision = np.cumsum(hits) / np.arange(1, r + 1)
            scores.append((hits[0], hits.mean(), (precision * hits).mean()))
    return np.mean(scores, axis=0)


@pytest.mark.parametrize(("m", "classes"), [(4, 8), (1, 32)])
def test_batches_have_as_many_classes_as_they_should(drawn, m, classes):
    train = splits.halves(drawn.labels).folds[0].train
    labels = drawn.labels[train]
    sizes = np.bincount(labels)
    for batch in itertools.islice(batches.ClassBalanced(labels, classes, m, 0), 200):
        drawn_of = Counter(labels[batch].tolist())
        assert len(batch) == classes * m
        assert set(drawn_of.values()) == {m}
        for label in drawn_of:  # an image comes twice only where the class has fewer than M
            assert sizes[label] < m or len(set(batch[labels[batch] == label])) == m


@pytest.mark.parametrize("name", ["proxy_nca", "normalized_softmax", "soft_triple", "arcface"])
def test_losses_with_weights_have_them_for_every_class(name):
    loss = losses.create(name, num_classes=1006, embedding_dim=16)
    embeddings = torch.nn.functional.normalize(torch.randn(32, 16, generator=torch.Generator().manual_seed(0)))
    value = loss(embeddings.requires_grad_(), torch.arange(974, 1006))
    value.backward()
    assert torch.isfinite(value)
    assert any(side and side % 1006 == 0 for each in loss.parameters() for side in each.shape)
    assert embeddings.grad.abs().sum() > 0
