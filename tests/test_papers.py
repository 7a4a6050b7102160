"""The protocols of the five papers, run: real layouts, real trunks (random weights), one step.

Batches are cut to 2 x 2 images where a real trunk trains, the data to a few images, and all but one trunk's images to
36 pixels (`models/test_models.py` has each trunk at its real size). Where the trunk is not what a row is about, the one
for characters trains. Nothing else differs from `dmlrc study run`. Every method's own batch is then tried on features.
"""

from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from cases import loop
from factories import complete_with
from PIL import Image
from scipy.io import savemat

from dmlrc import building, data, inputs, losses, models, paths, plan, records, run, studies, training
from dmlrc.data import decoding, splits
from dmlrc.errors import UsageError
from dmlrc.evaluation import evaluate_test
from dmlrc.inputs import FeatureSource, _prepared, prepare
from dmlrc.methods import Float, Method
from dmlrc.papers import fehervari2019, musgrave2020, oi2021, roth2020, zhai2019
from dmlrc.protocol import Budget, Study
from dmlrc.studies import experiments, readiness
from dmlrc.unit import fold_runs, run_unit

ONE_STEP = Budget("one step", trials=0, reruns=1, max_epochs=1, iterations_per_epoch=1)
CLASSES, IMAGES = 16, 2
SMALL = {"image_size": 36, "crop_size": 32}
BY_PAPER = {
    "roth2020": ("cub200", "cars196", "sop"),
    "zhai2019": ("cub200", "cars196", "sop", "inshop"),
    "fehervari2019": ("cub200", "cars196", "sop"),
    "oi2021": ("cub200", "cars196"),
    "musgrave2020": ("cub200", "cars196", "sop"),
}


# Small data sets in the real layouts: 16 classes of 2 images, not square


def write_images(home, names):
    rng = np.random.default_rng(0)
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((80, 60)).save(home / name)


def write_lines(file, *lines):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")


def write_cub200(root, classes=CLASSES):
    home = root / "CUB_200_2011"
    names = [f"{c:03d}.Bird/{i}.jpg" for c in range(1, classes + 1) for i in range(IMAGES)]
    write_lines(home / "images.txt", *(f"{n} {name}" for n, name in enumerate(names, 1)))
    write_lines(home / "image_class_labels.txt", *(f"{n} {int(name[:3])}" for n, name in enumerate(names, 1)))
    write_lines(home / "classes.txt", *(f"{c} {c:03d}.Bird" for c in range(1, classes + 1)))
    write_images(home / "images", names)


def write_cars196(root):
    home = root / "cars196"
    names = [f"car_ims/{n:06d}.jpg" for n in range(CLASSES * IMAGES)]
    write_images(home, names)
    annotations = np.zeros((1, len(names)), dtype=[("relative_im_path", object), ("class", object)])
    annotations["relative_im_path"][0] = names
    annotations["class"][0] = [n // IMAGES + 1 for n in range(len(names))]
    class_names = np.array([f"car {c}" for c in range(CLASSES)], dtype=object)
    savemat(home / "cars_annos.mat", {"annotations": annotations, "class_names": class_names})


def write_sop(root, classes=CLASSES):
    home = root / "Stanford_Online_Products"
    number = 0
    for part, own in (("train", range(1, classes // 2 + 1)), ("test", range(classes // 2 + 1, classes + 1))):
        rows = []
        for c in own:
            for i in range(IMAGES):
                number += 1
                rows.append(f"{number} {c} 1 sofa_final/{c}_{i}.JPG")
        write_lines(home / f"Ebay_{part}.txt", "image_id class_id super_class_id path", *rows)
        write_images(home, [row.split()[-1] for row in rows])


def write_inshop(root):
    home, rows = root / "inshop", []
    for c in range(CLASSES):
        parts = ("train", "train") if c < CLASSES // 2 else ("query", "gallery")
        rows += [f"img/WOMEN/Tees/id_{c:08d}/{i}.jpg id_{c:08d} {part}" for i, part in enumerate(parts)]
    write_lines(
        home / "Eval" / "list_eval_partition.txt", str(len(rows)), "image_name item_id evaluation_status", *rows
    )
    write_images(home, [row.split()[0] for row in rows])


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for write in (write_cub200, write_cars196, write_sop, write_inshop):
        write(folder)
    return folder


@pytest.fixture(autouse=True)
def _data(root, monkeypatch):
    use(root, CLASSES, monkeypatch)


def use(root, classes, monkeypatch):
    monkeypatch.setenv("DMLRC_DATA", str(root))
    monkeypatch.setenv("DMLRC_CACHE", str(root / "cache"))
    for name in ("cub200", "cars196", "sop", "inshop"):
        complete_with(monkeypatch, name, images=classes * IMAGES, classes=classes)


@pytest.fixture
def few(tmp_path, monkeypatch):
    """The data with four classes: a real trunk takes a tenth of a second for each image of a real size."""
    write_cub200(tmp_path, 4)
    write_sop(tmp_path, 4)
    use(tmp_path, 4, monkeypatch)


def shrunk(name, methods=1, **changes):
    """A registered study with one step of 2 x 2 images, without weights, which are not here.

    With the trunk for characters the images are small too: their real size is for the real trunks.
    """
    if changes.get("trunk") == "conv4":
        changes = SMALL | changes
    found = studies.get(name)
    small = tuple(replace(each, classes_per_batch=2, images_per_class=2, space={}) for each in found.methods[:methods])
    return replace(
        found, protocol=replace(found.protocol, weights=None, **changes), budget=ONE_STEP, methods=small, expected=""
    )


def rerun(tiny):
    _prepared.cache_clear()
    return run_unit(plan.next_units(tiny, plan.Chain(tiny.methods[0]))[0])


# Every paper's data sets, with its splits, image sizes and metrics


@pytest.mark.parametrize("name", [f"{d}-{paper}" for paper, sets in BY_PAPER.items() for d in sets])
def test_each_study_reads_trains_and_tests_its_data(name):
    tiny = shrunk(name, trunk="conv4")
    if tiny.protocol.folds == 4:
        tiny = replace(tiny, protocol=replace(tiny.protocol, folds=2))  # 8 training classes
    if tiny.protocol.embedding_dim is None:
        assert tiny.protocol.layer_norm  # the trunk's features are the embedding
    record = rerun(tiny)
    assert record["state"] == "complete", record["reason"]
    scores = record["scores"]
    assert set(scores["separated"]) == set(tiny.protocol.test_metrics)
    assert ("separated_binary" in scores) == tiny.protocol.binary
    assert set(scores.get("train", {})) == set(tiny.protocol.train_metrics)
    assert ("arrays" in record) == bool(tiny.protocol.arrays)
    assert (record["value"] is None) == (not tiny.protocol.validates)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("cub200-roth2020", {}),
        ("cub200-fehervari2019", {}),
        ("cub200-musgrave2020", {"folds": 2}),
        ("cub200-oi2021", {"image_size": 80, "crop_size": 75}),  # the smallest that Inception v3 takes
    ],
)
def test_each_real_trunk_trains_under_its_protocol(name, changes):
    check_one_step(shrunk(name, **{**SMALL, **changes}, train_metrics=(), arrays=()))


@pytest.mark.usefixtures("few")
def test_a_real_trunk_trains_on_images_of_its_real_size():
    tiny = shrunk("sop-zhai2019/trunks", train_metrics=(), arrays=())
    assert tiny.protocol.crop_size > 200
    check_one_step(tiny)


@pytest.mark.parametrize(
    ("name", "row", "changes"),
    [
        ("cub200-fehervari2019", "proxy_softmax", {"trunk": "conv4", **SMALL}),
        ("cub200-fehervari2019/resnet50", "dreml", {"trunk": "conv4", "members": 2, "meta_classes": 2, **SMALL}),
        ("cub200-zhai2019/trunks", "norm_softmax@bninception", SMALL),
        ("cub200-roth2020/trunks", "softmax@googlenet", SMALL),
        ("cub200-roth2020/preprocessing", "softmax@big", {"trunk": "conv4"}),
        ("cub200-roth2020/preprocessing", "softmax@red", {"trunk": "conv4"}),
    ],
)
@pytest.mark.usefixtures("few")
def test_rows_with_settings_of_their_own_train_under_them(name, row, changes):
    tiny = shrunk(name, methods=None, train_metrics=(), arrays=())
    method = tiny.method(row)
    check_one_step(replace(tiny, methods=(replace(method, changes={**method.changes, **changes}),)))


def check_one_step(tiny):
    record = rerun(tiny)
    assert record["state"] == "complete", record["reason"]
    assert np.isfinite(list(record["scores"]["separated"].values())).all()


def test_a_study_without_search_runs_resumes_and_exports(root):
    tiny = shrunk("inshop-zhai2019", methods=2, trunk="conv4", arrays=("spectrum", "histograms"))
    _prepared.cache_clear()
    run.run(tiny)
    found = records.load(tiny.name)
    assert len(found.trials) == 0
    assert found.runs["kind"].tolist() == ["rerun", "rerun"]
    assert found.runs["val_map_at_r"].isna().all()
    assert found.meta["settings"]["norm_softmax"] == {"temperature": 0.05, "weight_length": 0.577}
    assert set(found.scores["method"]) == {"pretrained", "norm_softmax", "lmcl"}
    assert set(found.arrays["setting"]) == {"test", "train", "untrained"}
    spectrum = found.arrays[found.arrays["name"] == "spectrum"]["values"].iloc[0]
    assert len(spectrum) == min(models.create_trunk("conv4").out_features, CLASSES)
    run.export(tiny)
    (paths.runs() / tiny.name).rename(root / "elsewhere")
    again = records.load(tiny.name)
    assert [list(values) for values in again.arrays["values"]] == [list(values) for values in found.arrays["values"]]
    assert plan.progress(tiny) == (3, 3)


def test_inshop_queries_search_the_gallery_only():
    tiny = shrunk("inshop-zhai2019", trunk="conv4")
    _prepared.cache_clear()
    bench = prepare(tiny.dataset, tiny.protocol, "default", 0)
    test, labels = bench.splits.test, bench.labels[bench.splits.test]
    assert len(bench.queries) == CLASSES // 2
    embeddings = torch.nn.functional.normalize(torch.randn(len(test), 8, generator=torch.Generator().manual_seed(0)))
    got = evaluate_test(bench, embeddings)
    asked = np.isin(test, bench.queries)
    similarity = embeddings[asked] @ embeddings[~asked].T
    right = labels[~asked][similarity.argmax(1)] == labels[asked]
    assert got["precision_at_1"] == pytest.approx(right.mean())
    bits = (embeddings > 0).int()
    hamming = (bits[asked][:, None] != bits[~asked][None]).sum(2).numpy()
    nearest = hamming == hamming.min(1, keepdims=True)
    hits = (nearest & (labels[asked][:, None] == labels[~asked][None])).sum(1) / nearest.sum(1)  # ties in expectation
    assert evaluate_test(bench, embeddings, binary=True)["precision_at_1"] == pytest.approx(hits.mean())
    distances = SimpleNamespace(**vars(bench) | {"protocol": replace(bench.protocol, test_metrics=("rho",))})
    assert evaluate_test(distances, embeddings, binary=True) == {}  # no search among bits was asked for


def test_zhai_squashes_photographs_and_the_others_cut_them(root):
    found = {}
    for paper in ("zhai2019", "roth2020"):
        tiny = shrunk(f"cub200-{paper}", trunk="conv4", image_size=256, crop_size=224)
        _prepared.cache_clear()
        found[paper] = prepare(tiny.dataset, tiny.protocol, "default", 0).source
    squashed, cut = (source.images.images[0] for source in found.values())
    assert squashed.shape == cut.shape == (3, 256, 256)
    first = root / "CUB_200_2011" / "images" / "001.Bird" / "0.jpg"
    for found, square in ((squashed, "squash"), (cut, "crop")):
        assert np.array_equal(found, decoding.decode(first, decoding.Form(256, square=square))), square


# Every method with its own batch, on features: 120 classes of 12 images


METHODS = [
    *(("musgrave2020", musgrave2020.FROZEN, each) for each in musgrave2020.METHODS),
    *(("roth2020", roth2020.PROTOCOL, each) for each in roth2020.METHODS),
    *(("zhai2019", zhai2019.PROTOCOL, each) for each in (*zhai2019.METHODS, *zhai2019.FEW_IMAGES_METHODS)),
    *(
        (f"zhai2019/{samples}", zhai2019.PROTOCOL, zhai2019.sample_level(samples).methods[0])
        for samples in zhai2019.SAMPLES_PER_CLASS
    ),
    *(("fehervari2019", fehervari2019.PROTOCOL, each) for each in fehervari2019.METHODS),
    ("oi2021", oi2021.PROTOCOL, oi2021.METHODS[0]),
]


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(160), 12)
    return (rng.normal(size=(len(labels), 16)) + rng.normal(size=(160, 16))[labels]).astype(np.float32), labels


@loop("paper, protocol, method", METHODS)
def test_every_method_takes_a_step_in_its_own_batch(features, paper, protocol, method, monkeypatch):
    values, labels = features
    sizes = []
    real = training.build_loss

    def watched(*arguments):
        loss = real(*arguments)
        loss.register_forward_pre_hook(lambda module, inputs: sizes.append(len(inputs[1])))
        return loss

    protocol = replace(protocol, **method.changes)
    protocol = replace(protocol, iterations_per_epoch=1, max_epochs=1, warmup_epochs=0, split="halves", folds=0)
    member = training.FoldRun(0, 1, *vars(splits.halves(labels, folds=0).folds[0]).values())
    source = FeatureSource(values, torch.device("cpu"))

    def make_model():
        return models.EmbeddingModel(models.FeatureTrunk(16), protocol.embedding_dim, layer_norm=protocol.layer_norm)

    with monkeypatch.context() as patch:
        patch.setattr(training, "build_loss", watched)
        (run,) = training.train([member], training.Task(method, {}, source, labels, make_model, protocol))
    assert run.state == "complete", run.reason
    assert np.isfinite(run.curve[0]["loss"])
    assert sizes[0] == method.classes_per_batch * method.images_per_class


def test_every_registered_study_says_what_it_takes():
    assert all(each.expected for each in studies.STUDIES.values())


def test_every_list_of_methods_of_a_registered_study_can_begin():
    for each in {repr(each.methods): each for each in studies.STUDIES.values()}.values():
        assert len({method.name for method in each.methods}) == len(each.methods), each.name
        for method in each.methods:
            unit, *others = plan.next_units(each, plan.Chain(method))
            assert unit.kind == ("trial" if each.budget.trials else "rerun"), (each.name, method.name)
            assert len(others) == (0 if each.budget.trials else each.budget.reruns - 1), (each.name, method.name)
            known = {**method.settings, **unit.params}
            dim = unit.protocol.embedding_dim or 8
            training.build_loss(method, known, num_classes=4, embedding_dim=dim)
            assert method.loss in losses.names()


def test_sweeps_vary_one_thing_and_say_so_in_the_name():
    dims = studies.get("cub200-zhai2019/dims")
    assert [dims.protocol_of(each).embedding_dim for each in dims.methods] == [16, 32, 64, 128, 256, 512, 1024, None]
    assert dims.methods[0].name == "norm_softmax@dim16"
    assert dims.protocol == studies.get("cub200-zhai2019").protocol
    (googlenet, *_) = studies.get("sop-zhai2019/trunks").methods
    assert googlenet.changes["new_lr"] == 0.1
    assert "new_lr" not in studies.get("cub200-zhai2019/trunks").methods[0].changes
    trunks = {each.level: each.changes for each in studies.get("cub200-zhai2019/trunks").methods}
    assert trunks["bninception"]["embedding_dim"] == 512
    assert (
        trunks["bninception1024"]["embedding_dim"] is None
    )  # as many as the trunk has features: no layer, as in the code
    sizes = {}
    for each in studies.get("cub200-fehervari2019/batches").methods:
        sizes.setdefault(each.name.partition("@")[2], set()).add(each.classes_per_batch * each.images_per_class)
    assert sizes["batch2"] == {2}
    assert max(sizes["batch128"]) == 128


def test_experiments_stand_around_their_methods_table():
    found = experiments.experiments_around("first-runs/grocery-frozen")
    assert found["roth2020/samplers"].name == "first-runs/grocery-frozen/roth2020/samplers"
    assert {each.dataset for each in found.values()} == {"grocery"}
    assert {each.protocol.trunk for each in found.values()} == {"squeezenet1_0"}
    assert found["oi2021/random"].class_order == "random"
    assert not any("rate" in name for name in found)
    assert experiments.experiments_around("cub200-musgrave2020")["roth2020"] is studies.get("cub200-roth2020")
    assert "roth2020" not in experiments.experiments_around("cub200-roth2020")
    assert set(experiments.experiments_around("glyphs-quick")) == set(found) - {"projections"}  # of frozen trunks alone
    assert {
        each.dataset for name, each in experiments.experiments_around("glyphs-quick").items() if name != "after2019"
    } == {"glyphs-small"}


def test_experiments_on_features_leave_out_what_wants_images():
    found = experiments.experiments_around("grocery-quick")
    left_out = set(experiments.experiments_around("glyphs-quick")) - set(found)
    assert left_out == {"roth2020/trunks", "roth2020/preprocessing"}
    assert [each.level for each in found["trunks"].methods] == ["imagenet", "projection"]
    for each in found.values():
        assert {each.protocol_of(method).trunk_input for method in each.methods} == {each.protocol.trunk_input}
        steps = each.effective_protocol.max_epochs * each.effective_protocol.iterations_per_epoch
        assert steps >= 100 or each.experiment in ("trunks", "projections")


@pytest.mark.parametrize("name", ["trunks", "zhai2019", "oi2021/random", "fehervari2019"])
def test_an_experiment_runs_and_is_read_back(name, tmp_path, monkeypatch):
    monkeypatch.setenv("DMLRC_RUNS", str(tmp_path))
    glyphs = data.load("glyphs-small")  # two of a class: which ones is not looked at
    two = replace(glyphs, images=glyphs.images[::6], labels=glyphs.labels[::6])
    monkeypatch.setattr(inputs.data, "load", lambda *_, **__: two)
    assert experiments.load_experiment("glyphs-smoke", name) is None
    whole = experiments.experiments_around("glyphs-smoke")[name]  # the first, and those with a protocol of their own
    some = [each for place, each in enumerate(whole.methods) if place < 1 or each.changes]
    for place, each in enumerate(some):  # an ensemble is one with two members, too
        if each.changes.get("members", 1) > 2:
            some[place] = replace(each, changes={**each.changes, "members": 2})
    run.run(replace(whole, methods=tuple(some)))
    found = experiments.load_experiment("glyphs-smoke", name)
    assert (found.runs["state"] == "complete").all()
    assert set(found.scores["method"]) - {"pretrained"} == {each.name for each in some}
    if name == "trunks":
        assert (found.runs["steps"] == 0).all()
        assert set(found.scores["row"]) == {"pretrained", "conv4", "resnet18"}
        assert set(found.scores["level"].dropna()) == {"random"}


def test_the_settings_that_differ_between_data_sets():
    def switch(methods):
        return {each.name: each.settings["switch_probability"] for each in methods if each.name.startswith("r_")}

    assert switch(roth2020.METHODS) == {
        "r_contrastive": 0.4,
        "r_margin_06": 0.4,
        "r_margin_12": 0.35,
        "r_snr": 0.3,
        "r_triplet": 0.4,
    }
    assert set(switch(roth2020.CARS196_METHODS).values()) == {0.35}
    assert set(switch(roth2020.SOP_METHODS).values()) == {0.15}
    assert len(roth2020.METHODS) == 23
    assert len(roth2020.SOP_METHODS) == 21
    bins = {each.name: each.settings.get("n_bins") for each in roth2020.SOP_METHODS}
    assert bins["histogram"] == 10
    assert studies.get("cub200-zhai2019").protocol.lr == 0.001
    assert studies.get("cars196-zhai2019").protocol.lr == 0.01


def test_fehervari_has_twelve_methods_three_of_them_with_a_protocol_of_their_own():
    assert len({each.name for each in fehervari2019.METHODS}) == 12
    changed = {each.name: set(each.changes) for each in fehervari2019.METHODS if each.changes}
    assert changed == {
        "margin": {"loss_weight_decay"},
        "proxy_softmax": {"embedding_dim", "layer_norm", "binary"},
        "dreml": {"embedding_dim", "members", "meta_classes"},
    }
    assert fehervari2019.DREML.changes["members"] * fehervari2019.DREML.changes["embedding_dim"] == 144


def test_a_search_without_validation_is_refused():
    with pytest.raises(UsageError, match="searches without validation"):
        replace(studies.get("cub200-roth2020"), budget=Budget("many", trials=2, reruns=1))
    searched = Method("searched", "triplet", {"margin": Float(0, 1)})
    tiny = replace(studies.get("cub200-roth2020"), methods=(searched,))
    with pytest.raises(UsageError, match="'searched' has parameters to search"):
        plan.next_units(tiny, plan.Chain(searched))


def test_one_trial_of_fixed_settings_works_too(features):
    tiny = replace(studies.get("cub200-roth2020"), budget=Budget("one", trials=1, reruns=2))
    method = tiny.methods[0]
    (unit,) = plan.next_units(tiny, plan.Chain(method))
    assert (unit.kind, unit.params) == ("trial", {})
    done = [
        {"method": method.name, "repetition": 0}
        | {"kind": "trial", "number": 0, "params": {}, "value": None, "state": "complete"}
    ]
    units = plan.next_units(tiny, plan.Chain(method), done)
    assert [(unit.kind, unit.number, unit.params) for unit in units] == [("rerun", 0, {}), ("rerun", 1, {})]


def test_of_equal_trials_the_earliest_is_rerun_whichever_ended_first():
    method = Method("toy", "triplet", {"margin": Float(0, 1)})
    study = Study("mine", "glyphs-small", musgrave2020.CHARACTERS, Budget("b", trials=2, reruns=1), (method,))
    done = [
        {"method": "toy", "repetition": 0, "kind": "trial", "number": number, "params": {"margin": number / 4}}
        | {"value": 0.5, "state": "complete"}
        for number in (1, 0)
    ]
    for ended in (done, done[::-1]):
        [rerun] = plan.next_units(study, plan.Chain(method), ended)
        assert rerun.params == {"margin": 0}


def test_what_a_study_lacks_is_said(root, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    assert readiness.missing(studies.get("cub200-roth2020")) == ("weights", "GPU")
    assert readiness.missing(studies.get("cub200-musgrave2020")) == ("weights", "GPU")
    assert readiness.missing(studies.get("glyphs-full")) == ()
    monkeypatch.setenv("DMLRC_DATA", str(tmp_path))
    assert readiness.missing(studies.get("cub200-roth2020")) == ("data", "weights", "GPU")
    weights = tmp_path / "bn_inception-52deb4733.pth"
    weights.touch()
    assert readiness.missing(studies.get("cub200-musgrave2020")) == ("data", "GPU")


def test_gpu_hours_are_a_calculation():
    # 5864 images, 150 epochs, 5 seeds, 23 methods; 6 x 4.1e9 operations an image at 8e12 a second
    hours = 5864 * 150 * 5 * 23 * 6 * 4.1e9 / 8e12 / 3600
    assert f"about {hours:.2g} GPU hours" in studies.get("cub200-roth2020").expected


def test_the_reality_checks_protocol_is_as_it_was():
    told = {
        **{"name": "musgrave2020", "paper": "musgrave2020", "trunk": "bn_inception", "weights": "imagenet"},
        **{"frozen_trunk": False, "train_from": None, "freeze_batch_norm": True, "embedding_dim": 128},
        **{"image_size": 256, "square": "crop", "augmentation": "crop", "crop_size": 227},
        **{"crop_scale": (0.16, 1.0), "crop_ratio": (3 / 4, 4 / 3)},
        **{"optimizer": "rmsprop", "lr": 1e-6, "weight_decay": 1e-4, "momentum": 0.9, "new_lr": None},
        **{"loss_weight_decay": None, "warmup_epochs": 0, "lr_steps": (), "lr_decay": "none"},
        **{"split": "halves", "folds": 4, "sampler": "class_balanced", "class_share": 1.0},
        **{"members": 1, "meta_classes": None, "layer_norm": False},
        **{"iterations_per_epoch": 100, "eval_every": 2, "patience": 9, "max_epochs": 1000},
        "test_metrics": ("precision_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "r_precision", "map_at_r"),
        **{"val_metrics": ("map_at_r", "precision_at_1"), "train_metrics": (), "arrays": ()},
        **{"binary": False, "per_class": False, "precision": "float32"},
    }
    assert asdict(musgrave2020.PROTOCOL) == told


def test_arrays_and_curves_are_those_of_the_paper():
    record = rerun(shrunk("cub200-oi2021", trunk="conv4", arrays=("histograms", "spectrum")))
    pairs = CLASSES // 2 * IMAGES
    positive, negative = CLASSES // 2, pairs * (pairs - 1) // 2 - CLASSES // 2
    for setting in ("test", "untrained"):
        assert sum(record["arrays"][setting]["positive"]) == positive
        assert sum(record["arrays"][setting]["negative"]) == negative
    assert record["arrays"]["test"]["spectrum"] != record["arrays"]["untrained"]["spectrum"]
    (row,) = record["runs"][0]["curve"]
    names = set(oi2021.PROTOCOL.val_metrics)
    assert set(row) == {"step", "loss", *names, *(f"train_{name}" for name in names)}
    assert record["scores"]["train"]["jsd"] == pytest.approx(row["train_jsd"])  # one evaluation, so the best one


def test_oi_splits_the_classes_in_both_orders():
    found = {}
    for name in ("cub200-oi2021", "cub200-oi2021/random"):
        tiny = shrunk(name, trunk="conv4")
        _prepared.cache_clear()
        bench = prepare(tiny.dataset, tiny.protocol, tiny.class_order, tiny.seed)
        (fold,) = bench.splits.folds
        found[name] = [sorted(set(bench.labels[part].tolist())) for part in (fold.train, fold.val, bench.splits.test)]
        assert [len(part) for part in found[name]] == [6, 2, 8]
    assert found["cub200-oi2021"] == [[*range(6)], [6, 7], [*range(8, 16)]]
    assert found["cub200-oi2021"] != found["cub200-oi2021/random"]


def test_members_of_an_ensemble_have_partitions_and_seeds_of_their_own():
    tiny = shrunk("cub200-fehervari2019", trunk="conv4", members=3, meta_classes=4)
    _prepared.cache_clear()
    bench = prepare(tiny.dataset, tiny.protocol, "default", 0)
    (unit,) = plan.next_units(tiny, plan.Chain(tiny.methods[0]))
    made = fold_runs(unit, bench)
    assert [each.fold for each in made] == [0, 1, 2]
    assert len({each.seed for each in made}) == 3
    assert all(np.array_equal(each.train, bench.splits.train_val) for each in made)
    assert {len(set(each.targets.tolist())) for each in made} == {4}
    assert not np.array_equal(made[0].targets, made[1].targets)
    scores = run_unit(unit)["scores"]
    assert set(scores) == {"fold0", "fold1", "fold2", "separated", "concatenated"}
    mean = np.mean([scores[f"fold{n}"]["map_at_r"] for n in range(3)])
    assert scores["separated"]["map_at_r"] == pytest.approx(mean)


def start_of(study, method, classes=300, dim=512):
    """The class weights or proxies (dim, classes) with which a row of a study begins, for these sizes."""
    torch.manual_seed(0)
    loss = building.build_loss(studies.get(study).method(method), {}, classes, dim)
    [weights] = [each.detach() for each in loss.parameters() if each.ndim == 2]
    return weights if len(weights) == dim else weights.T


@pytest.mark.parametrize(
    ("study", "method"),
    [
        *(("cub200-2010-frozen/zhai2019", name) for name in ("norm_softmax", "lmcl")),
        *(("cub200-2010-frozen/roth2020", name) for name in ("arcface", "softmax")),
        *(("cub200-roth2020", name) for name in ("arcface", "softmax")),
    ],
)
def test_class_weights_begin_as_long_as_in_the_papers_code(study, method):
    """There they are drawn uniformly within 1 / sqrt(D), the default of the linear layer that torch has."""
    theirs = torch.nn.Linear(64, 300, bias=False).weight.detach().norm(dim=1).mean()
    ours = start_of(study, method, dim=64)
    assert ours.norm(dim=0).mean().item() == pytest.approx(theirs.item(), rel=0.02)
    assert (ours / ours.norm(dim=0)).mean(dim=1).norm().item() < 0.1  # all directions alike


@pytest.mark.parametrize(
    ("paper", "method", "std"),
    [
        ("roth2020", "proxy_nca", 1 / 8),
        ("fehervari2019", "proxy_nca", 0.00125),
        ("fehervari2019", "proxy_triplet", 0.0289),
    ],
)
def test_proxies_begin_as_long_as_in_the_papers_code(paper, method, std):
    assert start_of(f"cub200-2010-frozen/{paper}", method).std().item() == pytest.approx(std, rel=0.01)


def test_the_proxies_of_a_softmax_begin_as_long_as_in_the_papers_code():
    lengths = start_of("cub200-2010-frozen/fehervari2019", "proxy_softmax").norm(dim=0)
    torch.testing.assert_close(lengths, torch.full_like(lengths, 0.0566))


@pytest.mark.parametrize(
    ("study", "method"), [("zhai2019", "norm_softmax"), ("roth2020", "proxy_nca"), ("fehervari2019", "proxy_nca")]
)
def test_first_runs_keep_the_start_that_they_had(study, method):
    around = {name: start_of(f"{name}/{study}", method) for name in ("first-runs/grocery-frozen", "grocery-frozen")}
    first, now = around.values()
    assert first.std().item() == pytest.approx(1, rel=0.01)
    torch.testing.assert_close(now / now.norm(dim=0), first / first.norm(dim=0))


@pytest.mark.parametrize(("is_whole", "is_made_here"), [(False, False), (False, True), (True, False)])
def test_a_part_of_an_experiment_counts_only_where_it_is_being_run(is_whole, is_made_here, monkeypatch):
    part = SimpleNamespace(runs=[1], meta={"complete": is_whole})
    monkeypatch.setattr(experiments.records, "find", lambda name: part)
    monkeypatch.setattr(experiments.records, "is_begun", lambda name: is_made_here)
    assert experiments.load_experiment("glyphs-smoke", "oi2021") is (part if is_whole or is_made_here else None)
