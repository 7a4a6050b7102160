"""Protocols, budgets and studies as plain data."""

import json
from dataclasses import asdict, fields, replace

import numpy as np
import pytest
from cases import loop

from dmlrc.errors import UsageError
from dmlrc.methods import Method
from dmlrc.papers import musgrave2020
from dmlrc.protocol import Budget, Protocol, Study, TrunkInput, digest

STUDY = Study("mine", "glyphs", musgrave2020.CHARACTERS, Budget("full", 50, 10), musgrave2020.METHODS)


def test_a_budget_caps_the_epochs_and_nothing_else():
    capped = replace(STUDY, budget=Budget("quick", 3, 2, max_epochs=2, iterations_per_epoch=15)).effective_protocol
    assert (capped.max_epochs, capped.iterations_per_epoch) == (2, 15)
    assert replace(capped, max_epochs=1000, iterations_per_epoch=100) == STUDY.protocol
    unlimited = replace(STUDY, protocol=replace(STUDY.protocol, iterations_per_epoch=None))
    assert unlimited.effective_protocol.iterations_per_epoch is None  # as many as the images fill


def test_a_method_changes_the_protocol_of_its_own_runs_alone():
    own = Method("own", "triplet", changes={"embedding_dim": 16})
    assert STUDY.protocol_of(own).embedding_dim == 16
    assert STUDY.protocol_of(None) == STUDY.protocol_of(Method("other", "triplet")) == STUDY.protocol


def test_a_search_without_validation_is_refused():
    with pytest.raises(UsageError, match="searches without validation"):
        replace(STUDY, protocol=replace(STUDY.protocol, folds=0))


def test_the_input_of_a_trunk_is_every_setting_on_which_its_features_depend():
    told = STUDY.protocol.trunk_input
    assert set(TrunkInput._fields) <= {field.name for field in fields(Protocol)}
    assert told == replace(STUDY.protocol, lr=1.0, folds=2, embedding_dim=3).trunk_input
    assert told != replace(STUDY.protocol, crop_size=20).trunk_input


def test_the_digest_is_that_of_the_records_meta():
    meta = json.loads(json.dumps(STUDY.configuration())) | {"commit": "0", "environment": {}}
    assert digest(meta) == STUDY.digest


def test_the_digest_sees_what_units_depend_on_and_nothing_else():
    more = replace(STUDY, budget=Budget("full", 100, 20), repetitions=3, methods=(), expected="long", kind="experiment")
    assert more.digest == STUDY.digest
    different = [
        replace(STUDY, name="other"),
        replace(STUDY, dataset="omniglot"),
        replace(STUDY, seed=1),
        replace(STUDY, class_order="random"),
        replace(STUDY, protocol=replace(STUDY.protocol, lr=1.0)),
        replace(STUDY, budget=Budget("full", 50, 10, max_epochs=2)),
    ]
    assert len({each.digest for each in (STUDY, *different)}) == len(different) + 1


def test_a_setting_that_is_introduced_later_changes_no_digest():
    old = STUDY.configuration()
    old["protocol"] = {name: value for name, value in asdict(STUDY.protocol).items() if name != "lr_decay"}
    assert digest(old) == STUDY.digest
    assert replace(STUDY, protocol=replace(STUDY.protocol, lr_decay="linear")).digest != STUDY.digest


@loop(
    "setting, says",
    [
        *(({name: 0}, f"{name} of .* is 0: it is 1 or more") for name in ("embedding_dim", "eval_every", "members")),
        ({"iterations_per_epoch": 0}, "iterations_per_epoch of .* is 0: it is 1 or more"),
        *(
            ({name: -1}, f"{name} of .* is -1: it is 0 or more")
            for name in ("patience", "lr", "momentum", "max_epochs")
        ),
        ({"lr": float("nan")}, "lr of .* is nan: it is 0 or more"),
        ({"class_share": 0.0}, "class_share of .* is 0.0: it is above 0 and at most 1"),
        ({"max_epochs": 0}, "max_epochs of .* is 0, "),
        ({"lr_decay": "cosine"}, "unknown lr_decay 'cosine'"),
        ({"augmentation": "corp"}, "unknown augmentation 'corp': did you mean 'crop'"),
        ({"val_metrics": ("precision_at_1",)}, "val_metrics of .* lack map_at_r"),
        ({"test_metrics": ()}, "test_metrics of .* are none"),
        *(({"meta_classes": value}, f"meta_classes of .* is {value}: it is 2 or more") for value in (1, 0, -3)),
        ({"meta_classes": 2.5}, "meta_classes of .* is 2.5: it is a whole number or None"),
        ({"embedding_dim": True}, "embedding_dim of .* is True: it is a whole number or None"),
        ({"embedding_dim": np.int64(8)}, r"embedding_dim of .* is np.int64\(8\): it is a whole number or None"),
        ({"lr": float("inf")}, "lr of .* is inf: it is 0 or more, and finite"),
        ({"lr": "fast"}, "lr of .* is 'fast': it is a number"),
        ({"frozen_trunk": "no"}, "frozen_trunk of .* is 'no': it is true or false"),
        ({"weights": 3}, "weights of .* is 3: it is a word or None"),
        ({"split": "thirds"}, "unknown split 'thirds': known are"),
        ({"arrays": ("spectra",)}, "unknown array 'spectra': did you mean 'spectrum'"),
        ({"arrays": "spectrum"}, "arrays of .* is 'spectrum': it is a tuple, each a word"),
        ({"train_metrics": ("map_at_r", 3)}, "train_metrics of .*: it is a tuple, each a word"),
        ({"lr_steps": (1.5,)}, r"lr_steps of .* is \(1.5,\): it is a tuple, each a whole number"),
        ({"crop_scale": (0.5, 0.2)}, "crop_scale of .* is from 0.5 to 0.2: it rises, above 0, at most 1"),
        ({"crop_scale": (0.5, 1.5)}, "crop_scale of .* is from 0.5 to 1.5: it rises, above 0, at most 1"),
        ({"crop_scale": (0.5,)}, r"crop_scale of .* is \(0.5,\): it is a tuple, each a number"),
        ({"crop_ratio": (0, 1)}, "crop_ratio of .* is from 0 to 1: it rises, above 0$"),
        ({"embedding_dim": None, "frozen_trunk": True}, "trains neither trunk nor embedder: set embedding_dim, or max"),
        ({"crop_ratio": (1.0, float("inf"))}, "crop_ratio of .* is from 1.0 to inf: it rises, above 0$"),
    ],
)
def test_a_setting_that_nothing_could_train_with_is_refused(setting, says):
    with pytest.raises(UsageError, match=says):
        replace(STUDY.protocol, **setting)


def test_what_may_be_left_out_may_be():
    open_ended = {"embedding_dim": None, "iterations_per_epoch": None, "new_lr": None, "loss_weight_decay": None}
    assert replace(STUDY.protocol, folds=0, val_metrics=(), max_epochs=0, patience=0, **open_ended).folds == 0


@loop(
    "setting, says",
    [
        ({"name": "../x"}, "study '../x' names a folder too"),
        *(
            ({"name": name}, "names a folder too")
            for name in ("", "-zz", ".hidden", "/abs", "a/../b", "a,b", "x\ny", None)
        ),
        ({"name": "x" * 201}, "is longer than 200 bytes"),
        ({"name": "published"}, "a study cannot be called 'published'"),
        *(({"name": name}, "are those of records set aside") for name in ("replaced-x", "mine/replaced-x")),
        ({"seed": -1}, "seed of study mine is -1: it is a whole number, 0 or more"),
        ({"repetitions": 1.5}, "repetitions of study mine is 1.5: it is a whole number, 1 or more"),
        ({"kind": "rate"}, "unknown kind 'rate': did you mean 'rates'"),
        ({"class_order": "alphabet"}, "unknown class_order 'alphabet': known are default, random"),
    ],
)
def test_a_study_that_no_seed_or_order_could_be_made_of_is_refused(setting, says):
    with pytest.raises(UsageError, match=says):
        replace(STUDY, **setting)


def test_a_budget_is_of_whole_numbers():
    for wrong in ({"trials": -1}, {"reruns": 1.5}, {"max_epochs": "2"}, {"iterations_per_epoch": 0}):
        with pytest.raises(UsageError, match=f"{next(iter(wrong))} of budget full is .*: it is"):
            replace(STUDY.budget, **wrong)
