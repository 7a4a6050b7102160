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
from dmlrc.data import batches, icon_set, icons, splits
from dmlrc.errors import UsageError


@pytest.fixture(scope="module")
def drawn():
    return data.load("icons")


@pytest.fixture(scope="module")
def of_test(drawn):
    return splits.halves(drawn.labels).test


# Drawing


def test_a_square_is_drawn_where_it_lies_and_faint_ink_is_grey():
    """Of 24 units on 32 pixels three units are four pixels."""
    image = icon_set.greys('<path d="M3 6h6v3h-6z"/>')
    assert image.shape == (32, 32)
    assert (image[8:12, 4:12] == 15).all()
    assert image.sum() == 15 * 4 * 8
    assert (icon_set.greys('<path d="M3 6h6v3h-6z" opacity=".3"/>')[8:12, 4:12] == 4).all()


# Classes


def flat(values):
    """Images of one grey each: (N, styles) greys -> (N, styles, 32, 32)."""
    return np.broadcast_to(np.array(values, dtype=np.uint8)[..., None, None], (*np.shape(values), 32, 32))


def test_icons_that_share_an_image_are_one_class_and_so_is_what_shares_one_with_either():
    assert icon_set.classes(flat([[1, 3], [5, 7], [9, 9], [7, 11], [11, 1]])).tolist() == [0, 0, 2, 0, 0]
    assert icon_set.classes(flat([[0, 2], [4, 6], [8, 10]])).tolist() == [0, 1, 2]


def test_images_that_differ_by_one_grey_count_as_one():
    assert list(icon_set.alike(flat([4, 5, 7, 6, 15]))) == [(0, 1), (1, 3), (2, 3)]
    one, other = flat([4, 4]).copy()
    other[3, 3] += 2
    assert list(icon_set.alike(np.stack([one, other]))) == []


def test_what_is_packed_is_written_and_read(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 16, (3, 5, 32, 32), dtype=np.uint8)
    images[0, 1], images[2, 4] = images[0, 0], images[0, 0]
    packed = icon_set.pack_icons(["a", "b", "c"], images)
    assert [row[:2] for row in packed.rows] == [("a", "a")] * 4 + [("a", "c")] * 4 + [("b", "b")] * 5
    assert [row[2] for row in packed.rows[:4]] == ["baseline", "round", "sharp", "twotone"]
    icons.write_icons(packed, tmp_path / "icons")
    found = icons.read_icons(tmp_path / "icons")
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


def test_icons_are_2008_classes_of_one_to_13_images(drawn):
    assert drawn.images.shape == (7333, 1, 32, 32)
    assert drawn.images.dtype == np.uint8
    assert not drawn.flip
    assert drawn.class_names == tuple(sorted(set(drawn.class_names)))
    assert len(drawn.class_names) == 2008
    sizes = Counter(np.bincount(drawn.labels).tolist())
    assert sizes == {1: 63, 2: 453, 3: 358, 4: 487, 5: 601, 6: 17, 7: 14, 8: 5, 9: 7, 10: 1, 11: 1, 13: 1}


def test_no_image_is_there_twice_in_one_class_or_in_two(drawn):
    assert len({image.tobytes() for image in drawn.images}) == len(drawn.images)
    assert drawn.images.max(axis=(1, 2, 3)).min() > 0  # and none is empty


def test_icons_are_the_bytes_that_were_drawn(drawn):
    assert hashlib.sha256(drawn.images.tobytes()).hexdigest()[:16] == "686921f130717ccd"


def test_pixels_are_those_of_the_icons_that_the_rows_name():
    stored = icons.read_icons(icons.FOLDER)
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
    assert data.load("icons", size=16).images.shape == (7333, 1, 16, 16)
    with pytest.raises(UsageError, match="image size"):
        data.load("icons", size=0)
    with pytest.raises(UsageError, match="nothing to download"):
        data.fetch("icons")


# What trains and scores on classes of this shape


def test_halves_are_1004_classes_each_and_folds_have_pairs(drawn):
    made = splits.halves(drawn.labels)
    assert len(np.unique(drawn.labels[made.test])) == 1004
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
    assert of_all["map_at_r"] < found["map_at_r"]  # 1,004 classes are more to confuse it with


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
    loss = losses.create(name, num_classes=1004, embedding_dim=16)
    embeddings = torch.nn.functional.normalize(torch.randn(32, 16, generator=torch.Generator().manual_seed(0)))
    value = loss(embeddings.requires_grad_(), torch.arange(972, 1004))
    value.backward()
    assert torch.isfinite(value)
    assert any(side and side % 1004 == 0 for each in loss.parameters() for side in each.shape)
    assert embeddings.grad.abs().sum() > 0
