"""Files of a known name that were replaced: no number of theirs stands under the name of the others."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from dmlrc import inputs, models, plan, records, run, studies
from dmlrc.data import identity, loading, registry
from dmlrc.data.decoding import Form
from dmlrc.data.listing import Listing
from dmlrc.errors import DmlrcError
from dmlrc.models import files
from dmlrc.protocol import Budget
from dmlrc.unit import embeddings_of, run_unit

QUICK = studies.get("grocery-quick")


def weights(file, seed):
    torch.manual_seed(seed)
    torch.save(models.create_trunk("conv4").state_dict(), file)


@pytest.fixture
def pictures(home):
    """12 classes of 4 pictures."""
    for place in range(12):
        (home / "pictures" / f"{place:02}").mkdir(parents=True)
    draw(home / "pictures", 0)
    return home / "pictures"


def draw(pictures, seed):
    rng = np.random.default_rng(seed)
    for folder in sorted(pictures.iterdir()):
        for number in range(4):
            Image.fromarray(rng.integers(0, 256, (36, 36, 3), dtype=np.uint8)).save(folder / f"{number}.png")


def quick(name, dataset, **settings):
    protocol = replace(QUICK.protocol, trunk="conv4", image_size=36, crop_size=32, folds=2, **settings)
    budget = Budget("short", trials=1, reruns=1, max_epochs=1, iterations_per_epoch=1)
    return replace(QUICK, name=name, dataset=dataset, protocol=protocol, budget=budget, methods=METHODS[:1])


METHODS = (QUICK.method("triplet"), QUICK.method("contrastive"))


def untrained(study):
    [unit] = plan.next_units(study, plan.Chain(None))
    return run_unit(replace(unit, inputs=run._inputs(study, METHODS[:1])))["scores"]


@pytest.mark.parametrize("of_methods", [False, True])
def test_weights_that_were_replaced_are_noticed_before_anything_trains(home, pictures, of_methods, monkeypatch):
    file = home / "own.pth"
    weights(file, 0)
    mine = quick("mine", f"folder:{pictures}", weights=None if of_methods else str(file))
    methods = list(METHODS)
    if of_methods:
        methods = [replace(each, name=f"my-{each.name}", changes={"weights": str(file)}) for each in methods]
    run.run(mine, methods[:1])
    weights(file, 1)
    monkeypatch.setattr(run, "run_unit", lambda unit: pytest.fail("a unit was run"))
    with pytest.raises(
        DmlrcError, match=r"the weights .*own.pth' are others than those with which study 'mine' was begun"
    ):
        run.run(mine, methods[1:])


def test_weights_of_a_finished_study_that_were_replaced_are_noticed(home, pictures):
    file = home / "own.pth"
    weights(file, 0)
    mine = quick("mine", f"folder:{pictures}", weights=str(file))
    run.run(mine)
    run.run(mine)
    [recorded] = [unit for unit in plan.Plan(mine).ended if unit["kind"] == "rerun"]
    again = plan.rerun(mine, METHODS[0], {**recorded, "rerun": recorded["number"]})
    assert again.inputs == records.load("mine").meta["inputs"]
    weights(file, 1)
    for look in (lambda: run.run(mine), lambda: embeddings_of(again)):
        with pytest.raises(DmlrcError, match=r"own\.pth' are others than those with which study 'mine' was begun"):
            look()


def test_a_process_forgets_the_features_of_weights_that_were_replaced(home, pictures):
    file = home / "own.pth"
    weights(file, 0)
    of_first = untrained(quick("one", f"folder:{pictures}", weights=str(file)))
    weights(file, 1)
    of_second = untrained(quick("two", f"folder:{pictures}", weights=str(file)))
    inputs._prepared.cache_clear()
    inputs._computed_once.cache_clear()
    assert untrained(quick("three", f"folder:{pictures}", weights=str(file))) == of_second != of_first


def test_a_worker_notices_weights_that_are_replaced_while_a_study_runs(home, pictures):
    file = home / "own.pth"
    weights(file, 0)
    study = quick("one", f"folder:{pictures}", weights=str(file))
    [unit] = plan.next_units(study, plan.Chain(None))
    begun = replace(unit, inputs=run._inputs(study, METHODS[:1]))
    weights(file, 1)
    with pytest.raises(DmlrcError, match=r"own\.pth' are others than those with which study 'one' was begun"):
        run_unit(begun)


def test_the_imagenet_weights_of_a_file_of_the_reader_are_known_by_their_content(home, monkeypatch):
    monkeypatch.setenv("DMLRC_DATA", str(home))
    assert models.weights_digest("bn_inception", "imagenet") == {}
    (home / files.BN_INCEPTION_FILE).write_bytes(b"one")
    first = models.weights_digest("bn_inception", "imagenet")
    (home / files.BN_INCEPTION_FILE).write_bytes(b"two")
    second = models.weights_digest("bn_inception", "imagenet")
    assert first.keys() == second.keys() == {"weights 'imagenet' of bn_inception"}
    assert first != second


@pytest.fixture
def named(pictures, monkeypatch):
    """The pictures as a data set that has a name, whose lists are beside its images; what they say can be changed."""
    listed = {"labels": np.repeat(np.arange(12), 4), "partition": np.repeat(["train", "test"], 24)}

    def listing(home):
        return Listing(files=tuple(sorted(pictures.glob("*/*.png"))), class_names=tuple("abcdefghijkl"), **listed)

    source = replace(registry.SOURCES["grocery"], images=48, classes=12, form=Form(36), read=listing)
    for module in (registry, identity, loading):
        monkeypatch.setitem(module.SOURCES, "grocery", source)
        monkeypatch.setattr(module, "locate", lambda *_: pictures, raising=False)
    monkeypatch.setenv("DMLRC_DATA", str(pictures))
    return listed


CHANGES = {
    "images": lambda pictures, listed: draw(pictures, 1),
    "labels": lambda pictures, listed: listed.update(labels=np.roll(listed["labels"], 1)),
    "parts": lambda pictures, listed: listed.update(partition=np.repeat(["train", "query"], 24)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_named_set_whose_images_or_lists_are_others_is_noticed(change, pictures, named):
    study = quick("one", "grocery", weights=None)
    run.run(study)
    CHANGES[change](pictures, named)
    with pytest.raises(DmlrcError, match="'grocery' are others than those with which study 'one' was begun"):
        run.run(study, METHODS[1:])


def test_a_process_forgets_the_features_of_a_named_set_whose_images_are_others(pictures, named):
    of_first = untrained(quick("one", "grocery", weights=None))
    CHANGES["images"](pictures, named)
    of_second = untrained(quick("two", "grocery", weights=None))
    inputs._prepared.cache_clear()
    inputs._computed_once.cache_clear()
    assert untrained(quick("three", "grocery", weights=None)) == of_second != of_first
