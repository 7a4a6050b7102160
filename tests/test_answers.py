"""Ends that were no answer: each wrong input ends in a sentence that names it and the way out."""

import os
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image

from dmlrc import cli, comparison, data, losses, models, paths, preflight, records, run, studies
from dmlrc.data import cache, download
from dmlrc.data.decoding import Form
from dmlrc.errors import DmlrcError, UsageError
from dmlrc.methods import Method
from dmlrc.report import build, console, parameters
from dmlrc.studies import own

WITH_PROXIES = ("proxy_nca", "cosface", "arcface", "soft_triple", "proxy_triplet", "proxy_anchor", "sphereface")


@pytest.mark.parametrize("name", WITH_PROXIES)
def test_embeddings_of_another_size_than_the_proxies(name):
    loss = losses.create(name, num_classes=4, embedding_dim=8)
    points = torch.nn.functional.normalize(torch.randn(8, 16), dim=1)
    for given in (points, points.half(), points.tolist()):
        with pytest.raises(
            UsageError, match=r"embeddings of 8 numbers, and these have 16: make it with embedding_dim=16"
        ):
            loss(given, torch.arange(4).repeat_interleave(2))


@pytest.mark.parametrize("size", [0, -3, 1.5, "16", True])
def test_a_model_of_no_size(size):
    with pytest.raises(UsageError, match=r"embedding_dim is .*: give a whole number above 0, or None"):
        models.EmbeddingModel(models.create_trunk("conv4"), size)


def test_a_search_of_no_trials_at_a_time():
    for proposals in (0, 1.5):
        with pytest.raises(UsageError, match=f"proposals is {proposals}"):
            run.run(studies.get("glyphs-smoke"), proposals=proposals)


@pytest.mark.parametrize("network", [torchvision.models.resnet18(), torch.nn.ReLU(), "resnet18"])
def test_a_network_that_does_not_say_how_many_features_it_gives(network):
    with pytest.raises(UsageError, match="does not say how many features it gives"):
        models.EmbeddingModel(network, 64)


class Maps(torch.nn.Conv2d):
    """A network that forgot to pool."""

    out_features = 8


def test_a_network_that_does_not_give_what_it_says():
    for trunk in (Maps(3, 8, 3), torch.nn.Sequential(Maps(3, 5, 3), torch.nn.Flatten(1))):
        trunk.out_features = 8
        for size in (4, None):
            with pytest.raises(UsageError, match=r"gives \(2, .*\), not \(B, 8\), which its out_features promises"):
                models.EmbeddingModel(trunk, size)(torch.rand(2, 3, 6, 6))


@pytest.mark.parametrize("name", ["conv4", "resnet18", "inception_v3"])
def test_images_too_small_for_a_trunk(name):
    trunk = models.create_trunk(name).eval()
    if name == "resnet18":  # takes any
        assert trunk(torch.rand(1, 3, 4, 4)).shape == (1, 512)
        return
    with pytest.raises(UsageError, match=rf"{name} cannot take images of 4 x 4 pixels .*crop_size"):
        trunk(torch.rand(1, 3, 4, 4))


@pytest.mark.parametrize(
    "wrong", [{"sampler": "x"}, {"optimizer": "x"}, {"changes": {"sampler": "x"}}, {"changes": {"optimizer": "x"}}]
)
def test_a_sampler_or_an_optimiser_that_there_is_not_is_told_before_anything_runs(wrong):
    mine = Method("mine", "contrastive", settings={"pos_margin": 0, "neg_margin": 1}, **wrong)
    with pytest.raises(UsageError, match=r"unknown (sampler|optimizer) of method 'mine' 'x': known are"):
        run.run(studies.get("glyphs-smoke"), [mine])
    assert not paths.runs().exists()


def test_a_sampler_of_ones_own_in_a_protocol():
    with pytest.raises(UsageError, match=r"sampler of protocol .* is no word: .* of your own as `Method\(.*sampler="):
        replace(studies.get("glyphs-smoke").protocol, sampler=lambda labels, rng: iter(()))


@pytest.mark.parametrize(("size", "most"), [({"crop_size": 3500}, "2,048"), ({"image_size": 5000}, "4,096")])
def test_sizes_that_no_memory_bears_are_told_before_anything_runs(size, most):
    with pytest.raises(UsageError, match=f"1 or more, and at most {most}"):
        run.run(studies.get("glyphs-smoke"), [Method("mine", "triplet", settings={"margin": 0.1}, changes=size)])
    assert not paths.runs().exists()


@pytest.mark.parametrize("study", ["glyphs-smoke", "grocery-quick"])
def test_a_method_that_is_searched_without_validation_is_told_before_anything_runs(study):
    mine = Method("mine", "triplet", settings={"margin": 0.1}, changes={"folds": 0})
    with pytest.raises(UsageError, match="method mine is searched without validation: change its folds"):
        run.run(studies.get(study), [mine])
    assert not paths.runs().exists()
    one = replace(studies.get(study), budget=replace(studies.get(study).budget, trials=1))
    assert not one.protocol_of(mine).validates  # one trial is the best of itself


@pytest.mark.parametrize("setting", ["test_metrics", "val_metrics", "train_metrics"])
def test_a_metric_that_there_is_not_is_told_before_anything_runs(setting, home):
    with pytest.raises(UsageError, match=f"unknown metric in {setting} 'nmmi': did you mean 'nmi'"):
        run.run(*_with_metric(setting, "nmmi"))
    assert not paths.runs().exists()
    for known in ("nmi", "recall_at_17", "num_excluded_queries"):
        preflight.check_names(*_with_metric(setting, known))


def _with_metric(setting, name):
    smoke = studies.get("glyphs-smoke")
    study = replace(smoke, name="small", protocol=replace(smoke.protocol, **{setting: ("map_at_r", name)}))
    return study, [study.method("triplet")]


def test_a_file_that_only_imports_losses(tmp_path):
    file = tmp_path / "theirs.py"
    file.write_text("from torch.nn import TripletMarginLoss, CrossEntropyLoss\n")
    with pytest.raises(UsageError, match=r"only imports TripletMarginLoss, CrossEntropyLoss, .*add methods = "):
        comparison.read_methods(file)
    file.write_text("from torch.nn import TripletMarginLoss\n\n\ndef mine(x, y):\n    return x.sum()\n")
    assert [each.name for each in comparison.read_methods(file)] == ["mine"]


def test_damaged_images_are_named_all_at_once(tmp_path):
    files = [tmp_path / f"{number}.png" for number in range(4)]
    for file in files:
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(file)
    files[1].write_bytes(b"no image")
    with pytest.raises(DmlrcError, match=r"^image .*1\.png is damaged"):
        cache.cached_images("some", files, Form(8))
    files[3].write_bytes(b"none either")
    with pytest.raises(DmlrcError, match=r"^2 images cannot be read") as raised:
        cache.cached_images("some", files, Form(8))
    assert [f"image {files[place]} is damaged" in raised.value.__notes__[place // 3] for place in (1, 3)] == [True] * 2


@pytest.mark.parametrize("folder", [".hidden", "glyphs-smoke"])
def test_an_empty_meta(folder, home):
    file = home / "results" / folder / "meta.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    if folder == ".hidden":
        assert records.published() == []
        return
    for read in (records.published, lambda: records.load(folder)):
        with pytest.raises(DmlrcError, match="does not say of which study and budget it is"):
            read()


def test_the_list_of_data_says_that_its_folder_is_missing(home, monkeypatch):
    monkeypatch.delenv("DMLRC_DATA", raising=False)
    assert console.data_sets()[-1].startswith("no data folder is named: set DMLRC_DATA")
    monkeypatch.setenv("DMLRC_DATA", str(home / "none"))
    assert (
        console.data_sets()[-1]
        == f"DMLRC_DATA names {home / 'none'}, where there is no folder: make it, or name another"
    )
    (home / "none").mkdir()
    assert console.data_sets()[-1].startswith("missing: `dmlrc data fetch NAME` downloads it")


def test_a_download_that_fails_leaves_no_folders(home, monkeypatch):
    monkeypatch.setattr(download, "_archive", lambda *_: (_ for _ in ()).throw(DmlrcError("no network")))
    with pytest.raises(DmlrcError, match="no network"):
        data.fetch("omniglot", home / "data")
    assert not (home / "data").exists()


@pytest.mark.parametrize("name", ["published", "quick", "index", "search", "measured", "-zz"])
def test_names_that_no_study_can_have(name):
    with pytest.raises(UsageError, match=rf"study .*{name}"):
        own.check_name(name, set())
    assert own.check_name("quick-one", set()) is None


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(24, "Too many open files"), r"Too many open files: raise the limit of open files"),
        (PermissionError(13, "Permission denied", "/clone/_build"), "with '?/clone/_build'?: make it writable"),
        (MemoryError("Unable to allocate 135 GiB"), "the memory does not suffice .*135 GiB.*: take smaller images"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "the memory does not suffice .*: take"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "the memory does not suffice .*: take"),
    ],
)
def test_what_the_machine_refuses_is_a_sentence(error, says, monkeypatch, capsys):
    def refuse():
        raise error

    monkeypatch.setattr(cli, "app", refuse)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 1
    assert re.match(f"dmlrc: .*{says}", capsys.readouterr().err)


def test_another_error_of_torch_stays_what_it_is(monkeypatch):
    monkeypatch.setattr(cli, "app", lambda: torch.zeros(2) @ torch.zeros(3))
    with pytest.raises(RuntimeError, match="size"):
        cli.main()


def test_memory_that_a_trunk_lacks_is_not_taken_for_images_that_are_too_small(monkeypatch):
    trunk = models.create_trunk("resnet18")
    lacking = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
    monkeypatch.setattr(trunk, "feature_maps", lambda images: (_ for _ in ()).throw(lacking))
    with pytest.raises(RuntimeError, match="can't allocate"):
        trunk(torch.rand(1, 3, 32, 32))


def test_one_image_of_one_class(tmp_path, call):
    (tmp_path / "one" / "class").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "one" / "class" / "a.png")
    assert call("data", "check", f"folder:{tmp_path / 'one'}")[1].endswith(": 1 image, 1 class\n")


def test_relative_folders_are_the_same_for_the_chapters(home, monkeypatch):
    monkeypatch.chdir(home)
    monkeypatch.setenv("DMLRC_RUNS", "mine")
    assert build._absolute()["DMLRC_RUNS"] == os.path.join(home, "mine")


def test_a_notebook_refuses_a_folder_that_is_named_from_elsewhere(home, monkeypatch):
    """Papermill starts it in a folder of its own."""
    monkeypatch.setattr(parameters, "get_ipython", lambda: SimpleNamespace(user_ns={"In": []}))
    for variable in paths.FOLDERS:
        with monkeypatch.context() as patch:
            patch.setenv(variable, "mine")
            with pytest.raises(UsageError, match=f"{variable} is 'mine', which is another folder here"):
                parameters.check_parameters()
        parameters.check_parameters()


@pytest.mark.parametrize(
    ("name", "value", "default", "wanted"),
    [
        ("counts", 10, "10,30", "10"),
        ("counts", "3, 12", "10,30", "3, 12"),
        ("names", "a,b", "c,d", "a,b"),
        ("epochs", 3, 5, 3),
        ("train", True, False, True),
    ],
)
def test_a_parameter_of_papermill_is_of_the_kind_that_the_notebook_takes(name, value, default, wanted):
    assert parameters._as_wanted(name, value, default) == wanted


@pytest.mark.parametrize(
    ("value", "default"),
    [
        ("abc", 5),
        ("a,b", "10,30"),
        ("10,,30", "10,30"),
        (0, "10,30"),
        ("", "10"),
        (0, 5),
        (2.5, 5),
        (True, 5),
        (3, False),
    ],
)
def test_a_parameter_of_another_kind_is_refused(value, default):
    with pytest.raises(UsageError, match="parameter 'x' is"):
        parameters._as_wanted("x", value, default)
