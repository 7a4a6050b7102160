"""Methods as plain data: sweeps, batches, and what tells two methods apart."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from cases import loop

from dmlrc.errors import UsageError
from dmlrc.methods import Choice, Float, Int, Level, Method, batch_levels, in_batches_of, levels, row_name, rows

TRIPLET = Method("triplet", "triplet", {"margin": Float(0, 1)}, label="Triplet")
SOFTMAX = Method("softmax", "normalized_softmax", label="Softmax", changes={"layer_norm": True}, images_per_class=1)


def test_a_method_is_its_own_row_unless_it_stands_in_a_sweep():
    assert (TRIPLET.row, TRIPLET.level, TRIPLET.level_number) == ("triplet", None, None)
    assert Method("mine", "triplet").label == "mine"


def test_the_rows_of_a_sweep_are_every_method_at_every_level():
    swept = rows(levels("dim", (64, 128), (TRIPLET, SOFTMAX), "embedding_dim"))
    assert [each.name for each in swept] == ["triplet@dim64", "softmax@dim64", "triplet@dim128", "softmax@dim128"]
    last = swept[-1]
    assert (last.row, last.level, last.level_number) == ("softmax", "dim128", 128.0)
    assert last.changes == {"layer_norm": True, "embedding_dim": 128}
    assert last.label == "Softmax, dim128"
    assert last.name == row_name("softmax", "dim128")
    assert swept[0].space == TRIPLET.space


@pytest.mark.parametrize(
    ("number", "name"), [(4e-5, "decay4e-05"), (0.0, "decay0"), (0.25, "decay0.25"), (2048, "decay2048")]
)
def test_a_level_keeps_its_number_beside_its_name(number, name):
    (level,) = levels("decay", (number,), (TRIPLET,), "weight_decay")
    assert (level.name, level.number, level.changes) == (name, float(number), {"weight_decay": number})


def test_levels_that_are_no_numbers_have_none():
    (row,) = rows([Level("spc-r", (TRIPLET,))])
    assert (row.level, row.level_number) == ("spc-r", None)


def test_batches_of_a_size_leave_out_what_does_not_fit():
    four = replace(TRIPLET, images_per_class=4)
    assert [(each.classes_per_batch, each.images_per_class) for each in in_batches_of(32, (four, SOFTMAX))] == [
        (8, 4),
        (32, 1),
    ]
    assert in_batches_of(4, (four,)) == ()  # one class is no batch
    assert [(level.name, level.number) for level in batch_levels((8, 16), (four,))] == [
        ("batch8", 8.0),
        ("batch16", 16.0),
    ]


@pytest.mark.parametrize("values", ["cosine", ("cosine",), ("a", "a"), (None, "a"), 3, ()])
def test_a_choice_is_between_different_words_or_numbers(values):
    with pytest.raises(UsageError, match="choice is"):
        Choice(values)
    assert Choice(["a", 2]) == Choice(("a", 2))


def test_numbers_of_numpy_become_those_of_python_which_records_can_hold():
    spaces = (
        Choice(tuple(np.arange(1, 4))),
        Int(np.int64(1), np.int64(3)),
        Float(np.float32(0.5), np.float64(1), first=np.float32(0.5)),
    )
    method = Method("mine", "triplet", settings={"margin": np.float32(0.5), "word": "cosine"})
    held = [*spaces[0].values, *(end for space in spaces[1:] for end in (space.low, space.high)), spaces[2].first]
    assert json.loads(json.dumps([*held, method.settings])) == [1, 2, 3, 1, 3, 0.5, 1, 0.5, method.settings]


@pytest.mark.parametrize(
    "value", [object(), (1.0, 2.0), [1], {"p": 2}, torch.ones(2), torch.tensor(1.0), np.ones((2, 2)), Fraction(1, 3)]
)
def test_a_setting_is_what_a_record_can_hold(value):
    with pytest.raises(UsageError, match=r"^distance of 'mine' is no number .*\(Loss, distance=...\)$"):
        Method("mine", "triplet", settings={"distance": value})
    for plain in (1, 0.5, "cosine", True, None, np.float32(0.5), np.str_("dot")):
        json.dumps(Method("mine", "triplet", settings={"distance": plain}).settings)


def test_what_cannot_be_chosen_is_no_point_of_a_space():
    method = replace(TRIPLET, space={"margin": Float(0, 1), "distance": Choice(("cosine", "euclidean"))})
    assert method.misfit({"margin": 0.5, "distance": "cosine"}) is None
    assert "distance = 'taxi', which is none of 'cosine', 'euclidean'" in method.misfit(
        {"margin": 0.5, "distance": "taxi"}
    )


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"x": 0.0, "bins": 2}, None),
        ({"x": 1, "bins": 4.0}, None),
        ({"x": 1.1, "bins": 2}, "has x = 1.1, which is no number from 0 to 1"),
        ({"x": float("nan"), "bins": 2}, "has x = nan"),
        ({"x": 0.5, "bins": 2.5}, "has bins = 2.5, which is no whole number from 2 to 4"),
        ({"x": 0.5}, r"has the parameters \['x'\], but toy is searched over \['bins', 'x'\]"),
        ({"x": 0.5, "bins": 2, "y": 1}, "has the parameters"),
    ],
)
def test_what_is_no_point_of_a_space(params, says):
    method = Method("toy", "triplet", {"x": Float(0, 1), "bins": Int(2, 4)})
    misfit = method.misfit(params)
    assert misfit is None if says is None else re.match(says, misfit)


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a b", "x" * 101, "end.", "-x", "replaced-x", 3, None])
def test_a_name_that_cannot_be_a_folder_is_refused(name):
    with pytest.raises(UsageError, match="a method cannot be called"):
        Method(name, "triplet")


@loop(
    "make, says",
    [
        (lambda: Float(1, 0), "low is at most high"),
        (lambda: Float(0, float("inf")), "holds no number"),
        (lambda: Float(float("nan"), 1), "holds no number"),
        (lambda: Float("0", "1"), "holds no number"),
        (lambda: Float(0, 1, log=True), "begins above 0"),
        (lambda: Int(5, 4), "low is at most high"),
        (lambda: Int(0.5, 4), "take Float"),
        (lambda: Method("mine", "triplet", {"margin": 0.5}), "for margin: give Float, Int or Choice"),
        (lambda: Method("mine", "triplet", {"margin": Float(0, 1)}, {"margin": 0.5}), "both searched and set"),
        (
            lambda: Method("mine", "triplet", classes_per_batch=0),
            "classes_per_batch of method 'mine' is 0: give a whole",
        ),
        (lambda: Method("mine", "triplet", images_per_class=2.5), "is 2.5: give a whole number above 0"),
        (lambda: Method("mine", "triplet", kind="proxy"), "give 'embedding' or 'classification'"),
        (
            lambda: Method("mine", "triplet", year="2020"),
            "year of method 'mine' is '2020': give a whole number, or None",
        ),
        (lambda: Method("mine", "triplet", weight_decay="x"), "give a number from 0 on, or None"),
        (lambda: Method("mine", "triplet", weight_decay=-1), "is -1: give a number from 0 on, or None"),
        (lambda: Method("mine", "triplet", weight_decay=float("nan")), "is nan: give a number from 0 on"),
        (lambda: Choice((1.0, float("nan"))), "a choice is among words and numbers"),
        (lambda: Int(0, 10**400), "holds no number"),
        (lambda: Int(2**53 + 1, 2**53), "holds no number"),  # which are equal as floats
        (lambda: Float(0, 10**400), "holds no number"),
        (lambda: Float(-1e308, 1e308), "holds no number"),  # whose length is infinite
        (lambda: Float(torch.tensor(0.0), torch.tensor(1.0)), "holds no number"),  # which no record can hold
        (lambda: Float(0, 1, first="0"), "cannot begin at '0'"),
        (lambda: Choice((1, 10**400)), "a choice is among words and numbers"),
        (lambda: Method("mine", "triplet", label=3), "label of method 'mine' is 3: give a line of text"),
        (lambda: Method("mine", "triplet", label="a\nb"), "give a line of text"),
        (lambda: Choice((1.0, float("inf"))), "a choice is among words and numbers"),
    ],
)
def test_a_space_that_holds_nothing_is_refused(make, says):
    with pytest.raises(UsageError, match=says):
        make()


def test_plain_data_needs_no_torch():
    code = "import sys, dmlrc.methods, dmlrc.protocol, dmlrc.papers, dmlrc.studies; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
