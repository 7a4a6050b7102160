"""Where training runs, and what is computed once for it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from small_units import PHOTOGRAPHS
from torch import nn

import dmlrc.unit
from dmlrc import data, evaluation, inputs, metrics, models, paths, records, studies, training
from dmlrc.data import ImageSet, augment, splits
from dmlrc.errors import DivergedError, DmlrcError, UsageError
from dmlrc.papers import musgrave2020
from dmlrc.studies import readiness
from dmlrc.unit import Unit, run_unit


@pytest.mark.parametrize("name", ["bogus", "cuda:99", "cpu:1:2", "meta"])
def test_a_device_that_there_is_not(monkeypatch, name):
    monkeypatch.setenv("DMLRC_DEVICE", name)
    with pytest.raises(UsageError, match=rf"DMLRC_DEVICE is '{name}', but this machine has only cpu.*: name one"):
        inputs.device()


def test_cuda_without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("DMLRC_DEVICE", "cuda")
    with pytest.raises(UsageError, match="DMLRC_DEVICE is 'cuda', but this machine has only cpu"):
        inputs.device()


def test_the_gpus_of_apple_are_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setenv("DMLRC_DEVICE", "mps")
    for asked in (inputs.device, lambda: readiness.missing(studies.get("cub200-musgrave2020"))):
        with pytest.raises(UsageError, match=r"'mps', but the metrics need float64, .*: name cpu, or unset it"):
            asked()


@pytest.mark.parametrize(
    ("gpus", "name", "device"),
    [
        (0, None, "cpu"),
        (0, "", "cpu"),
        (0, "cpu", "cpu"),
        (2, None, "cuda"),
        (2, "cuda:1", "cuda:1"),
        (2, "cpu", "cpu"),
    ],
)
def test_devices_that_there_are(monkeypatch, gpus, name, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.delenv("DMLRC_DEVICE")
    if name is not None:
        monkeypatch.setenv("DMLRC_DEVICE", name)
    assert inputs.device() == torch.device(device)


# Maps that are computed once


def photographs(flip=True, count=5):
    pixels = np.random.default_rng(0).integers(0, 256, (count, 3, 70, 70), dtype=np.uint8)
    return ImageSet("photographs", pixels, np.arange(count) % 4, ("a", "b", "c", "d"), flip)


def characters(count):
    pixels = np.random.default_rng(0).integers(0, 256, (count, 1, 28, 28), dtype=np.uint8)
    return ImageSet("characters", pixels, np.arange(count) // 4, tuple(map(str, range(count // 4))), flip=False)


PARTIAL = replace(
    musgrave2020.FROZEN,
    frozen_trunk=False,
    weights=None,
    train_from="features.12",
    image_size=70,
    crop_size=64,
    augmentation="flip",
)


@pytest.mark.parametrize(("augmentation", "flip"), [("flip", True), ("flip", False), ("none", True)])
def test_maps_are_those_of_the_images_that_the_whole_trunk_would_see(augmentation, flip):
    images, protocol = photographs(flip), replace(PARTIAL, augmentation=augmentation)
    maps = inputs.frozen_maps(images, protocol.trunk_input, torch.device("cpu"))
    assert isinstance(maps, np.memmap)
    assert maps.dtype == np.float16
    assert maps.shape == (5, 2 if (augmentation, flip) == ("flip", True) else 1, 512, 3, 3)

    torch.manual_seed(0)
    stem, _ = models.split_trunk(models.create_trunk(protocol.trunk), protocol.train_from)
    whole = inputs.ImageSource(images, protocol, torch.device("cpu"))
    cached = inputs.FeatureSource(maps, torch.device("cpu"))
    batch = np.array([4, 0, 0, 3, 1, 0, 2, 2])
    with torch.no_grad():
        seen = torch.cat([stem(each) for each in whole.train(batch[None], torch.Generator().manual_seed(1))])
        found = torch.cat([*cached.train(batch[None], torch.Generator().manual_seed(1))])
        torch.testing.assert_close(found, seen, rtol=2e-3, atol=1e-3)
        torch.testing.assert_close(cached.evaluate(batch), stem(whole.evaluate(batch)), rtol=2e-3, atol=1e-3)
    assert torch.equal(found, cached.evaluate(batch)) == (maps.shape[1] == 1)  # else some are mirrored


CPU = torch.device("cpu")
ALONE = replace(PARTIAL, frozen_trunk=True, train_from=None)


@pytest.fixture
def folder_of_photographs(monkeypatch):
    """What is loaded as the data set "photographs": images that may be flipped, or may not."""

    def given(flip):
        inputs._computed_once.cache_clear()
        monkeypatch.setattr(data, "load", lambda *_, **__: photographs(flip))
        return inputs._prepared.__wrapped__("photographs", replace(ALONE, folds=0), "default", 0, None, CPU)

    yield given
    inputs._computed_once.cache_clear()


def test_another_device_has_what_is_prepared_of_its_own(monkeypatch):
    sources, computed = [], []
    monkeypatch.setattr(inputs, "frozen_maps", lambda images, given, place: computed.append(place) or np.zeros(1))
    for place in (CPU, torch.device("cpu", 0), CPU):
        monkeypatch.setattr(inputs, "device", lambda place=place: place)
        sources.append(inputs.prepare("glyphs-small", musgrave2020.SCRATCH, "default", 0).source)
        inputs._computed_once("glyphs-small", PARTIAL.trunk_input, None, place)
    assert [source.device for source in sources] == [CPU, torch.device("cpu", 0), CPU]
    assert sources[0] is sources[2]
    assert computed == [CPU, torch.device("cpu", 0)]


@pytest.mark.parametrize("flip", [True, False])
def test_features_are_those_of_the_images_that_the_whole_trunk_would_see(folder_of_photographs, flip):
    cached = folder_of_photographs(flip).source
    torch.manual_seed(0)
    trunk = models.create_trunk(ALONE.trunk).eval()
    whole = inputs.ImageSource(photographs(flip), ALONE, torch.device("cpu"))
    batch = np.array([4, 0, 0, 3, 1, 0, 2, 2])
    with torch.no_grad():
        seen = torch.cat([trunk(each) for each in whole.train(batch[None], torch.Generator().manual_seed(1))])
        found = torch.cat([*cached.train(batch[None], torch.Generator().manual_seed(1))])
        torch.testing.assert_close(found, seen)
        torch.testing.assert_close(cached.evaluate(batch), trunk(whole.evaluate(batch)))
    assert torch.equal(found, cached.evaluate(batch)) == (not flip)  # else some are mirrored


def test_the_embedder_alone_sees_what_it_would_see_on_a_trunk_that_stays_as_it_is(folder_of_photographs):
    """The twin of a trunk that trains from its last block on: the same mirrored images, up to the maps' float16."""
    alone = folder_of_photographs(True)
    maps = inputs.frozen_maps(photographs(), PARTIAL.trunk_input, torch.device("cpu"))
    torch.manual_seed(0)
    _, head = models.split_trunk(models.create_trunk(PARTIAL.trunk).eval(), PARTIAL.train_from)
    batches = np.array([[4, 0, 0, 3], [1, 0, 2, 2]])
    twin = inputs.FeatureSource(maps, torch.device("cpu")).train(batches, torch.Generator().manual_seed(1))
    with torch.no_grad():
        for features, seen in zip(alone.source.train(batches, torch.Generator().manual_seed(1)), twin, strict=True):
            torch.testing.assert_close(features, head(seen), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("shape", [(3, 2, 1, 1, 1), (3, 2, 1)])  # maps, features
def test_each_image_is_mirrored_in_half_of_the_steps(shape):
    cached = np.zeros(shape, dtype=np.float16)
    cached[:, 1] = 1
    source, generator = inputs.FeatureSource(cached, torch.device("cpu")), torch.Generator().manual_seed(0)
    drawn = torch.stack([each.flatten() for each in source.train(np.tile(np.arange(3), (400, 1)), generator)])
    assert drawn.mean(dim=0).tolist() == pytest.approx([0.5] * 3, abs=0.1)
    assert source.evaluate(np.arange(3)).sum() == 0


def test_maps_are_computed_once_for_the_same_images_weights_and_layer(monkeypatch):
    def names(images, protocol):
        inputs.frozen_maps(images, protocol.trunk_input, torch.device("cpu"))
        return {file.name for file in paths.cache().glob("maps-*.npy")}

    partial = replace(PARTIAL, trunk="conv4", train_from="layers.8")
    assert len(names(photographs(), partial)) == 1
    assert len(names(photographs(), replace(partial, lr=1, freeze_batch_norm=False))) == 1
    changes = ({"train_from": "layers.4"}, {"crop_size": 70}, {"augmentation": "none"})
    assert len([names(photographs(), replace(partial, **change)) for change in changes][-1]) == 4
    assert len(names(photographs(count=4), partial)) == 5


def test_values_that_float16_cannot_hold_are_named(monkeypatch):
    class Loud(nn.Module):
        def forward(self, images):
            return 1e6 * images

    monkeypatch.setattr(models, "split_trunk", lambda trunk, layer: (Loud(), None))
    with pytest.raises(DmlrcError, match=r"maps of squeezenet1_0 in front of features\.12 are beyond float16"):
        inputs.frozen_maps(photographs(), PARTIAL.trunk_input, torch.device("cpu"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"frozen_trunk": True}, "freezes the trunk and trains it from features.12: choose one"),
        ({"augmentation": "crop"}, "its augmentation is 'flip' or 'none', not 'crop'"),
    ],
)
def test_settings_that_contradict_a_partly_frozen_trunk(change, says):
    with pytest.raises(UsageError, match=says):
        replace(PARTIAL, **change)


def test_a_partly_frozen_trunk_runs_as_a_unit(monkeypatch):
    """Search and rerun on the cached maps: the head and the embedder train, at rates of their own."""
    monkeypatch.setattr(data, "load", lambda *_, **__: characters(count=160))
    protocol = replace(
        musgrave2020.CHARACTERS,
        train_from="layers.12",
        augmentation="none",
        new_lr=1e-2,
        folds=2,
        **{"iterations_per_epoch": 3, "max_epochs": 2},
    )
    method = musgrave2020.METHODS[0]
    params = {"pos_margin": 0.2, "neg_margin": 0.5}
    unit = Unit("partial", "0", "glyphs-small", protocol, "default", 0, method, 0, "rerun", 0, params)
    groups, made = [], training.param_groups
    monkeypatch.setattr(training, "param_groups", lambda learner: groups.append(made(learner)) or groups[-1])
    record = run_unit(unit)
    assert record["state"] == "complete"
    assert {tuple(group["initial_lr"] for group in each) for each in groups} == {(protocol.lr, 1e-2)}  # head, embedder
    assert set(record["scores"]) == {"fold0", "fold1", "separated", "concatenated"}
    prepared = inputs.prepare("glyphs-small", protocol, "default", 0)
    assert prepared.source.values.array.shape[1:] == (1, 64, 3, 3)
    assert sum(each.numel() for each in prepared.make_model().trunk.parameters()) == 128 * (64 * 9 + 1) + 2 * 128
    untrained = run_unit(replace(unit, method=None, kind="pretrained", params={}))["scores"]
    assert set(untrained) == {"separated", "concatenated"}
    assert all(0 < scores["map_at_r"] < 1 for scores in untrained.values())
    assert run_unit(unit)["runs"][0]["curve"] == record["runs"][0]["curve"]

    def lost(*given):
        raise DivergedError("the embeddings hold NaN or infinite values")

    monkeypatch.setattr(dmlrc.unit, "test_results", lost)
    record = run_unit(unit)
    assert (record["state"], record["value"], "scores" in record) == ("diverged", None, False)
    assert record["reason"] == "on the test images the embeddings hold NaN or infinite values"
    records.write_unit(record, "partial")
    [path] = records.underway.unit_files(paths.runs() / "partial")
    read = records.underway.read_unit(path, "0", is_sealed=False)
    assert (read["state"], read["runs"][-1]["state"]) == ("diverged", "complete")


@pytest.fixture
def prepared():
    """Features of ten classes of which the last five are tested, in a space of 12 dimensions of uneven width."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 8)
    centres = generator.normal(size=(10, 12))
    features = (centres[labels] + generator.normal(size=(80, 12))) * np.geomspace(1, 100, 12)
    source = inputs.FeatureSource(features.astype(np.float32), torch.device("cpu"))
    protocol = replace(musgrave2020.FROZEN, embedding_dim=3, folds=2)
    halves = splits.Splits((), np.arange(40), np.arange(40, 80), np.arange(5))
    return inputs.PreparedData(labels, halves, source, protocol)


def test_the_pretrained_row_is_joined_where_the_models_of_an_ensemble_are(prepared):
    for folds, members, joined in ((0, 1, False), (0, 2, True), (2, 1, True)):
        protocol = replace(prepared.protocol, folds=folds, members=members)
        assert ("concatenated" in evaluation.pretrained_scores(replace(prepared, protocol=protocol))) is joined


def test_the_concatenated_score_is_that_of_all_embeddings_joined_at_equal_weight(prepared):
    """Of unit vectors, so that the joined ones are divided by the square root of their number."""
    labels, names = prepared.labels[prepared.splits.test], prepared.protocol.test_metrics
    one, two = (F.normalize(torch.randn(40, 3)) for _ in range(2))
    scores = evaluation._test_scores(prepared, [one, two])
    apart = sum(torch.cdist(each, each).square() for each in (one, two)).fill_diagonal_(torch.inf)
    assert scores["concatenated"]["precision_at_1"] == np.mean(labels[apart.argmin(dim=1)] == labels)
    for name in names:
        each = [metrics.evaluate(embeddings, labels, names)[name] for embeddings in (one, two)]
        assert scores["separated"][name] == pytest.approx(np.mean(each))
        assert scores["concatenated"][name] != pytest.approx(np.mean(each), abs=1e-3)


def test_the_pretrained_row_is_that_of_standardised_features_in_their_main_directions(prepared):
    features = prepared.source.evaluate(prepared.splits.test).double().numpy()
    standard = (features - features.mean(axis=0)) / features.std(axis=0)
    left, singular, _ = np.linalg.svd(standard, full_matrices=False)
    found, labels = evaluation.pretrained_scores(prepared), prepared.labels[prepared.splits.test]
    for setting, dim in (("separated", 3), ("concatenated", 6)):
        reduced = left[:, :dim] * singular[:dim]
        reduced /= np.linalg.norm(reduced, axis=1, keepdims=True)
        expected = metrics.evaluate(reduced.astype(np.float32), labels, prepared.protocol.test_metrics)
        assert found[setting] == pytest.approx(expected, abs=1e-12), setting


def test_weights_that_give_no_numbers_are_told_before_anything_trains(tmp_path):
    weights = models.create_trunk("conv4").state_dict()
    weights[next(iter(weights))][0, 0, 0, 0] = float("nan")
    torch.save(weights, tmp_path / "w.pth")
    given = replace(musgrave2020.CHARACTERS, frozen_trunk=True, augmentation="none", weights=str(tmp_path / "w.pth"))
    with pytest.raises(
        DmlrcError, match=r"^the features of glyphs-small by conv4 are NaN or infinite: get its weights"
    ):
        inputs.frozen_features(data.load("glyphs-small"), given.trunk_input, torch.device("cpu"))
    assert [*paths.cache().glob("features*")] == []


def test_features_that_were_stopped_go_on_where_they_were_and_parts_change_no_number(monkeypatch):
    images = characters(count=600)  # three parts
    given = replace(musgrave2020.CHARACTERS, frozen_trunk=True, augmentation="none").trunk_input
    outputs, calls = inputs._outputs, []

    def stopped(*arguments):
        calls.append(len(arguments[1]))
        if len(calls) == 2 * 16 + 1:  # the first batch of the third part
            raise KeyboardInterrupt
        return outputs(*arguments)

    monkeypatch.setattr(inputs, "_outputs", stopped)
    with pytest.raises(KeyboardInterrupt):
        inputs.frozen_features(images, given, torch.device("cpu"))
    found = inputs.frozen_features(images, given, torch.device("cpu"))
    assert 0 < sum(calls) - len(images.labels) <= 256  # what was begun of that part, a second time; of no other
    assert [path.name for path in paths.cache().glob("*-part*")] == []
    layout, size = {"memory_format": torch.channels_last}, (given.image_size, given.crop_size)
    trunk = models.fixed_trunk(given.trunk, given.weights).to(**layout)
    whole = models.embed(trunk, images.images, lambda batch: augment.centre_crop(batch, *size).contiguous(**layout), 16)
    np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize(
    ("changes", "order", "says"),
    [
        ({"split": "offical"}, "default", "unknown split 'offical': did you mean 'official'"),
        ({"split": "official"}, "random", "use class_order 'default'"),
    ],
)
def test_a_split_that_nobody_knows_or_that_has_no_order_is_refused(changes, order, says):
    images = ImageSet("shop", np.zeros((4, 1, 8, 8), np.uint8), np.array([0, 0, 1, 1]), ("a", "b"), True)
    images = replace(images, partition=np.array(["train", "train", "test", "test"]))
    with pytest.raises(UsageError, match=says):
        inputs.split(images, replace(musgrave2020.FROZEN, **changes), order, 0)


@pytest.mark.parametrize("augmentation", ["affine", "place"])
def test_a_crop_in_training_is_of_the_size_and_scale_of_that_in_evaluation(tmp_path, augmentation):
    """Stripes of 16 pixels in images of 256, brought to 64 and cropped to 48: twelve of 4."""
    stripes = np.tile(255 * (np.arange(256) // 16 % 2), (256, 1)).astype(np.uint8)
    for name in "ab":
        (tmp_path / name).mkdir()
        Image.fromarray(stripes).save(tmp_path / name / "0.png")
    protocol = replace(musgrave2020.CHARACTERS, augmentation=augmentation, image_size=64, crop_size=48)
    source = inputs.ImageSource(inputs.load_images(f"folder:{tmp_path}", protocol), protocol, torch.device("cpu"))
    [trained] = source.train(np.arange(2)[None], torch.Generator().manual_seed(0))
    evaluated = source.evaluate(np.arange(2))
    assert trained.shape == evaluated.shape == (2, 3, 48, 48)
    for crop in (*trained, *evaluated):
        edges = (crop[0, 24, 1:] > 0.5) != (crop[0, 24, :-1] > 0.5)
        assert 10 <= edges.sum() <= 13


def test_an_augmentation_that_nobody_knows_is_refused():
    with pytest.raises(UsageError, match="unknown augmentation 'Affine': did you mean 'affine'"):
        replace(musgrave2020.PROTOCOL, augmentation="Affine")


def test_the_key_of_cached_features_holds_the_mean_and_deviation_of_the_trunk():
    trunk = models.fixed_trunk("conv4")
    given = musgrave2020.CHARACTERS.trunk_input
    before = inputs._key(PHOTOGRAPHS, given, trunk, torch.device("cpu"))
    assert inputs._key(PHOTOGRAPHS, given, models.fixed_trunk("conv4"), torch.device("cpu")) == before
    trunk.std *= 2
    assert inputs._key(PHOTOGRAPHS, given, trunk, torch.device("cpu")) != before
