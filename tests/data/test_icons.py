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
from dmlrc.metrics import clustering, neighbours
from dmlrc.report.untrained import nmi_of_random


@pytest.fixture(scope="module")
def drawn():
    return data.load("icons")


@pytest.fixture(scope="module")
def of_test(drawn):
    return splits.halves(drawn.labels).test


@pytest.fixture(scope="module")
def of_train(drawn):
    """The labels of the training images of the first fold."""
    return drawn.labels[splits.halves(drawn.labels).folds[0].train]


@pytest.fixture(scope="module")
def embedded(drawn, of_test):
    """The test images as points around a centre of their class, (N, 16) float32, and their labels."""
    rng, labels = np.random.default_rng(0), drawn.labels[of_test]
    points = rng.normal(size=(len(labels), 16)) + rng.normal(size=(labels.max() + 1, 16))[labels]
    return torch.nn.functional.normalize(torch.from_numpy(points).float()), labels


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
    pairs = list(zip(packed.images["class"], packed.images["icon"], strict=True))
    assert pairs == [("a", "a")] * 4 + [("a", "c")] * 4 + [("b", "b")] * 5
    assert packed.images["style"].tolist()[:4] == ["baseline", "round", "sharp", "twotone"]
    icons.write_icons(packed, tmp_path / "icons")
    found = icons.read_icons(tmp_path / "icons")
    assert found.images.to_numpy().tolist() == packed.images.to_numpy().tolist()
    assert found.icons.to_numpy().tolist() == packed.icons.to_numpy().tolist() == [["a", "a"], ["a", "c"], ["b", "b"]]
    assert np.array_equal(found.greys, packed.greys)
    assert np.array_equal(found.greys[4:8], images[2, :4])
    assert icon_set.counts(packed) == "3 icons, 13 images, 2 classes by their images: 1 of 5, 1 of 8"


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
    place = stored.images.to_numpy().tolist().index(["fiber-manual-record", "fiber-manual-record", "baseline"])
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


SCORES = ("precision_at_1", "r_precision", "map_at_r")


def test_scores_are_those_of_a_plain_loop(embedded):
    points, labels = embedded
    some = labels < labels.min() + 300  # classes of 1 to 13 images
    found = metrics.evaluate(points[some], labels[some], names=SCORES)
    assert [found[name] for name in SCORES] == pytest.approx(plain_scores(points[some].double().numpy(), labels[some]))
    assert 0.1 < found["map_at_r"] < 0.9
    of_all = metrics.evaluate(points, labels, names=SCORES)
    assert of_all["map_at_r"] < found["map_at_r"]  # 1,004 classes are more to confuse it with


def test_neighbours_among_all_test_classes_are_those_of_scikit_learn_and_so_are_the_scores(embedded):
    from sklearn.neighbors import NearestNeighbors

    points, labels = embedded
    most = np.bincount(labels).max() - 1
    judge = NearestNeighbors(n_neighbors=most, algorithm="brute").fit(points.double().numpy())
    distances, columns = judge.kneighbors()
    blocks = list(neighbours.nearest(points, points, most, torch.arange(len(points))))
    assert torch.cat([rows for rows, *_ in blocks]).tolist() == list(range(len(points)))
    np.testing.assert_allclose(torch.cat([near for _, near, _ in blocks]), distances**2, atol=1e-5)
    assert (torch.cat([found for *_, found in blocks]).numpy() == columns).mean() > 0.999  # but where rounding decides
    sizes = np.bincount(labels)
    scores = []
    for hits, r in zip(labels[columns] == labels[:, None], sizes[labels] - 1, strict=True):
        if r:
            precision = np.cumsum(hits[:r]) / np.arange(1, r + 1)
            scores.append((hits[0], hits[:r].mean(), (precision * hits[:r]).mean()))
    found = metrics.evaluate(points, labels, names=(*SCORES, "num_excluded_queries"))
    assert [found[name] for name in SCORES] == pytest.approx(np.mean(scores, axis=0), abs=1e-4)
    assert found["num_excluded_queries"] == (sizes == 1).sum() == len(labels) - len(scores)
    of_class = metrics.per_class(points, labels)
    assert len(of_class.classes) == 1004
    assert np.array_equal(np.isnan(of_class.scores["map_at_r"]), of_class.queries == 0)
    weighted = np.nansum(of_class.scores["map_at_r"] * of_class.queries) / of_class.queries.sum()
    assert weighted == pytest.approx(found["map_at_r"])


def entropy(items):
    shares = np.array(list(Counter(items).values())) / len(items)
    return -(shares * np.log(shares)).sum()


def test_1004_clusters_are_scored_by_the_formulas_and_chance_scores_high(embedded):
    points, labels = embedded
    clusters = clustering.find_clusters(points, k=1004)
    assert len(set(clusters.tolist())) == 1004
    both = list(zip(labels.tolist(), clusters.tolist(), strict=True))
    classes, found = (entropy(side) for side in zip(*both, strict=True))
    scores = metrics.evaluate(points, labels, names=("nmi", "f1"))
    assert scores["nmi"] == pytest.approx(2 * (classes + found - entropy(both)) / (classes + found))
    same = [sum(n * (n - 1) for n in Counter(items).values()) for items in (both, labels.tolist(), clusters.tolist())]
    assert scores["f1"] == pytest.approx(2 * same[0] / (same[1] + same[2]))
    random = torch.from_numpy(np.random.default_rng(1).normal(size=points.shape)).float()
    chance = metrics.evaluate(torch.nn.functional.normalize(random), labels, names=("nmi",))["nmi"]
    assert chance == pytest.approx(nmi_of_random(1004, len(labels) / 1004), abs=0.03)
    assert chance < scores["nmi"] < chance + 0.05  # whatever clusters of so few are


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
def test_batches_have_as_many_classes_as_they_should(of_train, m, classes):
    labels = of_train
    sizes = np.bincount(labels)
    for batch in itertools.islice(batches.ClassBalanced(labels, classes, m, 0), 200):
        drawn_of = Counter(labels[batch].tolist())
        assert len(batch) == classes * m
        assert set(drawn_of.values()) == {m}
        for label in drawn_of:  # an image comes twice only where the class has fewer than M
            assert sizes[label] < m or len(set(batch[labels[batch] == label])) == m


def test_every_class_comes_as_often_whatever_its_size(of_train):
    batch = batches.ClassBalanced(of_train, 8, 4, 0).draw(4000)  # (4000, 32)
    every = np.unique(of_train)
    drawn_of, sizes = (np.bincount(labels)[every] for labels in (of_train[batch[:, ::4]].ravel(), of_train))
    often = 4000 * 8 / len(sizes)
    assert len(sizes) == 753
    # chi-squared of 753 classes: its mean is about 752, its SD root 2 x 752
    assert ((drawn_of - often) ** 2 / often).sum() == pytest.approx(752, abs=5 * (2 * 752) ** 0.5)
    assert abs(np.corrcoef(drawn_of, sizes)[0, 1]) < 0.15
    assert drawn_of[sizes == 1].mean() == pytest.approx(often, rel=0.1)


def test_random_batches_have_few_pairs_as_few_as_chance_gives(of_train):
    """Of 32 images of 753 classes: 32 x 31 ordered pairs, each of one class as often as two images of all are."""
    sizes, sampler = np.bincount(of_train), batches.RandomBatches(of_train, 32, 0)
    chance = 32 * 31 * (sizes * (sizes - 1)).sum() / (len(of_train) * (len(of_train) - 1))
    found = [sum(n * (n - 1) for n in Counter(of_train[next(sampler)].tolist()).values()) for _ in range(3000)]
    assert chance < 2
    assert np.mean(found) == pytest.approx(chance, abs=4 * np.std(found) / 3000**0.5)


@pytest.mark.parametrize("name", ["proxy_nca", "normalized_softmax", "soft_triple", "arcface"])
def test_losses_with_weights_have_them_for_every_class(name):
    loss = losses.create(name, num_classes=1004, embedding_dim=16)
    embeddings = torch.nn.functional.normalize(torch.randn(32, 16, generator=torch.Generator().manual_seed(0)))
    value = loss(embeddings.requires_grad_(), torch.arange(972, 1004))
    value.backward()
    assert torch.isfinite(value)
    assert any(side and side % 1004 == 0 for each in loss.parameters() for side in each.shape)
    assert embeddings.grad.abs().sum() > 0
