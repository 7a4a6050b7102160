"""One's own loss beside the methods of a study: files of losses, smaller budgets, what is taken over and what not."""

import contextlib
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cloudpickle
import pandas as pd
import pytest
from cases import in_a_cell
from factories import made_up_unit, without_checksum

from dmlrc import comparison, paths, plan, preflight, records, run, studies
from dmlrc.errors import UsageError
from dmlrc.methods import Float, Method
from dmlrc.protocol import Budget, Study
from dmlrc.records import fingerprint
from dmlrc.report import ranking

ROOT = Path(__file__).parents[1]
METHODS = tuple(studies.STUDIES["glyphs-smoke"].method(name) for name in ("contrastive", "arcface", "triplet"))
BASE = replace(studies.STUDIES["glyphs-smoke"], name="base", methods=METHODS, budget=Budget("full", 6, 3, 1, 3))


def cell(sign=""):
    loss = in_a_cell(f"def loss(embeddings, labels, margin):\n    return {sign}embeddings.sum() * margin")
    return Method("mine", loss, {"margin": Float(0, 1)})


MINE = cell()


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    """The units that are asked for and not trained."""
    ran = []
    monkeypatch.setattr(run, "run_unit", lambda asked: ran.append(asked) or made_up_unit(asked))
    return ran


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The whole study, as it is committed: six trials of each method, and three reruns of the best."""
    home = tmp_path_factory.mktemp("exported")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLRC_HOME", str(home))
        patch.setenv("DMLRC_CACHE", str(home / "cache"))
        patch.setattr(run, "run_unit", made_up_unit)
        run.run(BASE)
        records.export_records("base", complete=True)
    return home / "results" / "base"


@pytest.fixture
def committed(exported):
    return shutil.copytree(exported, paths.results() / "base")


def best_of(trials, method, count):
    first = trials[(trials["method"] == method) & (trials["trial"] < count)]
    return first.loc[first["value"].idxmax(), "params"]


def test_ten_trials_of_mine_stand_beside_ten_of_theirs(committed, made_up):
    before = {path.name: path.read_bytes() for path in committed.iterdir()}
    whole = records.load("base")
    wanted = comparison.comparison_study(BASE, trials=2, reruns=2)
    comparison.run_comparison(wanted, BASE, [MINE])
    found = comparison.load_comparison(wanted, [MINE])
    assert found.trials.groupby("method").size().to_dict() == dict.fromkeys([*(m.name for m in METHODS), "mine"], 2)
    assert found.reruns.groupby("method").size().to_dict() == dict.fromkeys([*(m.name for m in METHODS), "mine"], 2)
    again = 0
    for method in METHODS:
        reruns = found.reruns[found.reruns["method"] == method.name]
        best = best_of(whole.trials, method.name, 2)
        assert all(params in (best, None) for params in reruns["params"])
        again += 2 * (best != best_of(whole.trials, method.name, 6))
    assert again  # some of the six were better, so that something had to be rerun
    assert sum(each.kind == "rerun" and each.method != MINE for each in made_up) == again
    assert not any(each.kind == "trial" and each.method != MINE for each in made_up)
    assert (found.scores["method"] == "pretrained").any()
    assert found.meta["first_of"]["budget"]["trials"] == 6
    assert {path.name: path.read_bytes() for path in committed.iterdir()} == before
    assert len(records.load("base").trials) == len(whole.trials)
    assert "mine" not in set(records.load("base").trials["method"])


def test_it_goes_on_from_where_it_was_and_to_a_larger_budget(committed, made_up):
    small, large = (
        comparison.comparison_study(BASE, trials=2, reruns=1),
        comparison.comparison_study(BASE, trials=4, reruns=2),
    )
    comparison.run_comparison(small, BASE, [MINE])
    made_up.clear()
    comparison.run_comparison(small, BASE, [MINE])
    assert made_up == []
    comparison.run_comparison(large, BASE, [MINE])
    assert [each.number for each in made_up if each.kind == "trial"] == [2, 3]
    assert set(comparison.load_comparison(large, [MINE]).trials.groupby("method").size()) == {4}
    assert set(comparison.load_comparison(small, [MINE]).trials.groupby("method").size()) == {2}


def test_a_base_is_not_run_with_fewer_trials_than_it_has_on_record(committed, made_up):
    """Its reruns would be made again, of the best of fewer trials than it is said to have."""
    fewer = replace(BASE, budget=Budget("full", 2, 3, 1, 3))
    with pytest.raises(UsageError, match=r"study 'base' was begun with searches of 6 trials, .* now have 2"):
        comparison.run_comparison(comparison.comparison_study(fewer), fewer, [MINE])
    assert made_up == []


def test_what_is_cut_where_it_is_read_may_ask_for_fewer_trials(made_up):
    grid, mine = BASE.rates("rates", METHODS[:1], trials=3), comparison.comparison_study(BASE, trials=3, reruns=1)
    run.run(grid)
    run.run(mine, [MINE])
    made_up.clear()
    run.run(replace(grid, budget=replace(grid.budget, trials=2)))
    run.run(replace(mine, budget=replace(mine.budget, trials=2)), [MINE])
    assert {each.kind for each in made_up} <= {"rerun"}


def test_records_of_a_base_that_are_not_made_again_stay_where_they_are(made_up, capsys):
    theirs, changed = (replace(cell(sign), name="theirs") for sign in ("", "-"))
    base = replace(BASE, methods=(METHODS[0], theirs), budget=Budget("full", 2, 1, 1, 3))
    run.run(base)
    edited = replace(base, methods=(METHODS[0], changed))
    comparison.run_comparison(comparison.comparison_study(edited), edited, [MINE])
    assert "will be made again" not in capsys.readouterr().err
    assert len(list((paths.runs() / "base" / "theirs").glob("*.json"))) == 3


def test_reruns_of_old_records_took_the_best_of_all_their_trials(committed, made_up):
    """They do not say so, which must not make them reruns of the best of the first two."""
    reruns = pd.read_parquet(committed / "reruns.parquet")
    reruns.assign(params="null").to_parquet(committed / "reruns.parquet", index=False)
    meta = without_checksum(committed / "meta.json")
    meta["sha256"]["reruns.parquet"] = records.sha256(committed / "reruns.parquet")
    records.write_sealed(committed / "meta.json", meta)
    test_ten_trials_of_mine_stand_beside_ten_of_theirs(committed, made_up)


def test_a_comparison_that_cuts_nothing_says_so(committed, made_up):
    more = comparison.comparison_study(BASE, reruns=5)
    comparison.run_comparison(more, BASE, [MINE])
    assert comparison.load_comparison(more, [MINE]).meta["first_of"] is None


def test_at_the_studys_own_budget_nothing_of_it_is_run_again_and_nothing_of_mine_stands_in_it(committed, made_up):
    wanted = comparison.comparison_study(BASE)
    assert wanted == comparison.comparison_study(BASE, trials=6, reruns=3, repetitions=1)
    comparison.run_comparison(wanted, BASE, [MINE])
    assert all(each.method == MINE for each in made_up)
    found = comparison.load_comparison(wanted, [MINE])
    assert found.trials.groupby("method").size().to_dict() == dict.fromkeys([*(m.name for m in METHODS), "mine"], 6)
    assert found.meta["first_of"] is None
    assert "mine" not in set(records.load("base").trials["method"])


def test_another_loss_beside_mine_changes_nothing_of_its_comparison(committed):
    wanted = comparison.comparison_study(BASE)
    comparison.run_comparison(wanted, BASE, [MINE])
    before = comparison.load_comparison(wanted, [MINE])
    comparison.run_comparison(wanted, BASE, [replace(MINE, name="other")])
    after = comparison.load_comparison(wanted, [MINE])
    for name in records.FRAMES:
        pd.testing.assert_frame_equal(getattr(before, name), getattr(after, name))


def test_a_comparison_moves_no_rank_of_its_study(committed):
    before = ranking.lines(records.load("base"))
    for wanted in (comparison.comparison_study(BASE, trials=2, reruns=2), comparison.comparison_study(BASE)):
        comparison.run_comparison(wanted, BASE, [MINE])
        assert ranking.lines(records.load("base")) == before


def test_what_was_compared_before_at_another_budget_changes_no_number(committed):
    """With --trials and then without, or the other way round."""
    whole, small = comparison.comparison_study(BASE), comparison.comparison_study(BASE, trials=2, reruns=2)
    found = {}
    for first, second in ((whole, small), (small, whole)):
        for wanted in (first, second):
            comparison.run_comparison(wanted, BASE, [MINE])
            found[first is wanted, wanted is whole] = comparison.load_comparison(wanted, [MINE])
        comparison.remove("base-compare")
    for is_whole in (True, False):
        alone, after = found[True, is_whole], found[False, is_whole]
        keys = {"trials": ["trial"], "reruns": ["rerun"], "runs": ["kind", "number", "fold"]}
        keys["scores"] = ["rerun", "setting", "metric"]
        for name in keys:
            one, other = (
                getattr(each, name)
                .drop(columns=["finished", "seconds"], errors="ignore")
                .sort_values(["method", "repetition", *keys[name]])
                for each in (alone, after)
            )
            pd.testing.assert_frame_equal(one.reset_index(drop=True), other.reset_index(drop=True))


def test_comparisons_are_listed_and_removed(committed, call, capsys):
    def command(*words):
        code, *printed = call("compare", *words)
        return code, "".join(printed)

    assert command("--list") == (0, "no comparison was made here: `dmlrc compare my_loss.py` makes one\n")
    before = records.load("base")
    comparison.run_comparison(comparison.comparison_study(BASE, trials=2, reruns=1), BASE, [MINE])
    capsys.readouterr()
    code, told = command("--list")
    assert code == 0
    assert re.search(r"^base-compare +mine +2 +1", told, re.MULTILINE)
    own = paths.runs() / "my-compare"  # a study of the reader's own that ends like one
    meta = records.read_meta(paths.runs() / "base-compare", "base-compare")
    records.write_json(own / "meta.json", meta | {"study": own.name, "kind": "table"})
    (own / "mine").mkdir()
    (own / "mine" / "0-trial-000.json").write_text("{}")
    assert list(comparison.here()) == ["base-compare"]
    code, told = command("--remove", "base")
    assert (code, "known are base-compare" in told) == (2, True)
    with records.running("base-compare", ["mine"]):
        code, told = command("--remove", "base-compare")
        assert (code, "runs mine of study 'base-compare'" in told) == (1, True)
    exported = records.export_records("base-compare", complete=False)
    code, told = command("--remove", "base-compare")
    stays = f"exported: {exported}, which stays until you remove it\n"
    assert (code, told) == (0, f"removed {paths.runs() / 'base-compare'}\n{stays}")
    assert command("--list")[1].endswith(stays)
    assert not (paths.runs() / "base-compare").exists()
    assert "no comparison was made here" in command("--remove", "base-compare")[1]
    assert records.load("base").trials.equals(before.trials)
    assert command()[0] == command("mine.py", "--list")[0] == 2


def test_the_untrained_trunk_is_no_method_of_a_comparison(made_up):
    comparison.run_comparison(comparison.comparison_study(BASE, trials=1, reruns=1), BASE, [MINE])
    assert (paths.runs() / "base-compare" / "pretrained").is_dir()
    assert list(comparison.here()["base-compare"]) == ["arcface", "contrastive", "mine", "triplet"]


def test_what_a_killed_removal_left_is_in_the_way_of_none(committed, monkeypatch):
    def killed(*_, **__):
        raise KeyboardInterrupt

    for ends in (killed, shutil.rmtree):
        comparison.run_comparison(comparison.comparison_study(BASE, trials=2, reruns=1), BASE, [MINE])
        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            patch.setattr(shutil, "rmtree", ends)
            comparison.remove("base-compare")
    assert not list(paths.runs().glob("*base-compare*removed"))
    assert comparison.here() == {}


def test_methods_without_records_are_run_in_the_study_where_the_budget_is_its_own(made_up):
    comparison.run_comparison(comparison.comparison_study(BASE), BASE, [MINE])
    assert set(records.load("base").trials["method"]) == {method.name for method in METHODS}
    assert set(records.load("base-compare").trials["method"]) == {"mine"}


def test_more_searches_of_mine_than_of_theirs(committed, made_up):
    wanted = comparison.comparison_study(BASE, trials=2, reruns=2, repetitions=3)
    comparison.run_comparison(wanted, BASE, [MINE])
    found = comparison.load_comparison(wanted, [MINE])
    assert found.searches == 3
    assert found.trials.groupby("method")["repetition"].nunique().to_dict() == {
        **{method.name: 1 for method in METHODS},
        "mine": 3,
    }
    assert not any(each.repetition and each.method != MINE for each in made_up)


def test_a_method_of_ones_own_may_change_the_protocol(committed, made_up):
    other = replace(MINE, name="other", changes={"folds": 2})
    run.run(BASE, [MINE])
    run.run(BASE, [other])  # beside records that were made without it
    found = records.load("base")
    assert found.runs.groupby("method")["fold"].nunique().to_dict() == {
        **{method.name: 4 for method in (*METHODS, MINE)},
        "other": 2,
    }
    assert found.meta["changes"] == {"other": {"folds": 2}}
    records.export_records("base", complete=True)
    shutil.rmtree(paths.runs())
    assert "other" in set(records.load("base").trials["method"])


@pytest.mark.parametrize(("part", "given"), [("space", None), ("settings", [1]), ("changes", {1: 2})])
def test_parts_of_a_method_that_name_nothing_are_refused(part, given):
    with pytest.raises(UsageError, match=f"the {part} of method .mine. is"):
        replace(MINE, **{part: given})


def test_a_setting_that_no_protocol_has_is_named():
    with pytest.raises(UsageError, match="unknown setting of a protocol 'fold': did you mean 'folds'"):
        preflight.check_method(replace(MINE, changes={"fold": 2}), BASE)


def test_more_trials_than_theirs_are_refused():
    with pytest.raises(UsageError, match="have 6 trials each: take no more"):
        comparison.comparison_study(BASE, trials=7)


@pytest.mark.parametrize(("name", "number"), [("trials", 0), ("reruns", -1), ("repetitions", 2.5), ("trials", "many")])
def test_a_budget_is_made_of_positive_whole_numbers(name, number):
    with pytest.raises(UsageError, match=f"{name} must be a positive whole number, not {number!r}"):
        comparison.comparison_study(BASE, **{name: number})


@pytest.mark.parametrize("changes", [{"kind": "rates"}, {"budget": replace(BASE.budget, trials=0)}])
def test_what_is_no_table_of_searched_methods_has_nothing_to_compare_with(changes):
    with pytest.raises(UsageError, match="is no table of searched methods: name one of `dmlrc study list`"):
        comparison.comparison_study(replace(BASE, **changes))


def test_a_study_of_one_fold_has_no_joined_models_to_compare():
    alone = replace(BASE, protocol=replace(BASE.protocol, split="ratio_4_1_5", folds=1))
    with pytest.raises(UsageError, match=r"has one fold.* name one with folds = 2 or more"):
        comparison.comparison_study(alone)


def test_without_records_the_methods_of_the_study_are_run_at_the_same_budget(capsys):
    wanted = comparison.comparison_study(BASE, trials=1, reruns=1)
    comparison.run_comparison(wanted, BASE, [MINE])
    assert (
        "base has no records here: its 3 methods are run too, with as many trials (1) and reruns (1)"
        in capsys.readouterr().err
    )
    found = comparison.load_comparison(wanted, [MINE])
    assert found.trials.groupby("method").size().to_dict() == dict.fromkeys([*(m.name for m in METHODS), "mine"], 1)
    assert plan.progress(BASE)[0] == 0


def test_methods_with_fewer_trials_are_left_out_and_named(made_up, capsys):
    run.run(replace(BASE, budget=Budget("full", 1, 1, 1, 3)))
    run.run(BASE, methods=METHODS[:1])
    capsys.readouterr()
    made_up.clear()
    wanted = comparison.comparison_study(BASE, trials=2, reruns=1)
    comparison.run_comparison(wanted, BASE, [MINE])
    assert "no 2 trials of arcface, triplet" in capsys.readouterr().err
    found = comparison.load_comparison(wanted, [MINE])
    assert set(found.reruns["method"]) >= {"contrastive", "mine"}
    assert {unit.method.name for unit in made_up if unit.method} <= {"contrastive", "mine"}


def test_a_name_that_is_taken_is_refused_before_anything_runs(made_up):
    with pytest.raises(UsageError, match="give yours another name"):
        comparison.run_comparison(comparison.comparison_study(BASE), BASE, [replace(MINE, name="soft_triple")])
    assert made_up == []


def test_an_edited_loss_is_searched_again_in_a_comparison_too(committed, capsys):
    wanted = comparison.comparison_study(BASE, trials=2, reruns=1)
    comparison.run_comparison(wanted, BASE, [MINE])
    comparison.run_comparison(wanted, BASE, [cell("-")])
    assert "base-compare: method 'mine' has changed" in capsys.readouterr().err


# Files

SOURCE = """
from dmlrc.methods import Float, Method
space = {"margin": Float(0, 1)}
def mine(embeddings, labels, margin=0.5):
    return embeddings.sum() * margin
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (SOURCE, ["mine"]),
        (SOURCE + "methods = [Method('a', mine, space), Method('b', mine)]", ["a", "b"]),
        (SOURCE + "mine_too = Method('a', mine, space)\nmethods = [mine_too]", ["a"]),
        ("import torch\nclass Loss(torch.nn.Module):\n    pass", ["Loss"]),
    ],
)
def test_what_a_file_defines(tmp_path, text, names):
    (tmp_path / "my loss.py").write_text(text)
    found = comparison.read_methods(tmp_path / "my loss.py")
    assert [each.name for each in found] == names
    if text == SOURCE:
        assert found[0].space == {"margin": Float(0, 1)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def mine(:", "is no Python .*line 1"),
        ("1 / 0", "fails, line 1 of mine.py: ZeroDivisionError: division by zero"),
        ("import json\njson.loads('')", "fails, line 2 of mine.py: JSONDecodeError"),
        ("import nothing_of_this_name", "fails, line 1 of mine.py: ModuleNotFoundError"),
        ("import sys\nsys.exit(3)", "fails, line 2 of mine.py: SystemExit: 3"),
        ("x = 1", "defines no functions or classes, and no method: add methods = "),
        ("def a(): pass\ndef b(): pass", "defines 2 functions or classes, and no method"),
        ("from dmlrc.methods import *\nFloat(1, 0)", "low is at most high"),
        ("a\0b", "is no Python"),
        (None, "cannot be read"),
    ],
)
def test_a_file_without_a_loss_is_refused_in_one_sentence(tmp_path, text, says):
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    with pytest.raises(UsageError, match=says) as refused:
        comparison.read_methods(tmp_path / "mine.py")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("head", [b"\xef\xbb\xbf", b"# -*- coding: latin-1 -*-\n# \xe4\n"])
def test_a_file_may_have_any_encoding_that_python_reads(tmp_path, head):
    (tmp_path / "mine.py").write_bytes(head + b"def mine(embeddings, labels):\n    return embeddings.sum()\n")
    assert [method.name for method in comparison.read_methods(tmp_path / "mine.py")] == ["mine"]


DATACLASS = """
from __future__ import annotations
from dataclasses import dataclass
from dmlrc.methods import Method

@dataclass
class Mine:
    scale: float = 2.0

    def __call__(self, embeddings, labels):
        return embeddings.sum() * self.scale

def loss(embeddings, labels):
    return Mine()(embeddings, labels)

methods = [Method("mine", loss)]
"""


def test_a_dataclass_with_late_annotations_is_read_and_sent_by_value(tmp_path):
    """Another process, which does not have the file, computes with it."""
    (tmp_path / "mine.py").write_text(DATACLASS)
    (method,) = comparison.read_methods(tmp_path / "mine.py")
    assert "file_mine" not in sys.modules
    sent = cloudpickle.dumps(method.loss)
    (tmp_path / "mine.py").unlink()
    script = "import pickle, sys, numpy; print(pickle.load(sys.stdin.buffer)(numpy.ones(3), None))"
    done = subprocess.run([sys.executable, "-c", script], input=sent, capture_output=True)
    assert done.stdout == b"6.0\n"


def test_a_file_finds_what_lies_beside_it(tmp_path):
    (tmp_path / "beside_mine.py").write_text("HALF = 0.5")
    (tmp_path / "mine.py").write_text("import beside_mine\ndef loss(e, l):\n    return e.sum() * beside_mine.HALF")
    assert [each.name for each in comparison.read_methods(tmp_path / "mine.py")] == ["loss"]


def test_two_files_have_each_the_helper_that_lies_beside_it(tmp_path):
    given = []
    for scale, folder in enumerate(["one", "two", "one"]):
        (tmp_path / folder).mkdir(exist_ok=True)
        text = f"SCALE = {scale}" + scale * "\n"  # of another length: the .pyc is told by its second
        (tmp_path / folder / "beside_both.py").write_text(text)
        (tmp_path / folder / "mine.py").write_text("import beside_both\ndef loss(e, l):\n    return beside_both.SCALE")
        given += comparison.read_methods(tmp_path / folder / "mine.py")
    assert [method.loss(None, None) for method in given] == [0, 1, 2]


def test_a_file_that_goes_elsewhere_leaves_the_caller_where_it_was(tmp_path, monkeypatch):
    """Else its records would lie in another folder than that of the next command."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "import os\nos.chdir('/')\nWHERE = os.getcwd()\ndef loss(e, l):\n    return WHERE"
    )
    [method] = comparison.read_methods(Path("mine.py"))
    assert method.loss(None, None) == "/"
    assert Path.cwd() == tmp_path


def test_an_expression_that_is_nested_too_deep_is_refused(tmp_path):
    (tmp_path / "mine.py").write_text("x = " + "-" * 100_000 + "1")
    with pytest.raises(UsageError, match=r"mine\.py is no Python \(.+\): correct it"):
        comparison.read_methods(tmp_path / "mine.py")


@pytest.mark.parametrize("at_call", [(True, False), (True, True)])
def test_a_helper_that_a_loss_imports_when_it_is_called_is_not_mistaken_for_another(tmp_path, monkeypatch, at_call):
    """It would train with the helper of the file that was read last."""
    monkeypatch.setattr(comparison, "_AT_CALL", {})
    for scale, late in enumerate(at_call):
        folder = tmp_path / str(scale)
        folder.mkdir()
        (folder / "beside_late.py").write_text(f"SCALE = {scale}" + scale * "\n")
        body = "import beside_late\ndef loss(e, l):\n    return beside_late.SCALE"
        if late:
            body = "def loss(e, l):\n    from beside_late import SCALE\n    return SCALE"
        (folder / "mine.py").write_text(body)
    [first] = comparison.read_methods(tmp_path / "0" / "mine.py")
    with pytest.raises(UsageError, match="each have a 'beside_late', and a loss of the latter"):
        comparison.read_methods(tmp_path / "1" / "mine.py")
    assert first.loss(None, None) == 0
    assert comparison.read_methods(tmp_path / "0" / "mine.py")[0].loss(None, None) == 0


def test_nor_is_what_a_helper_imports_when_it_is_called(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "_AT_CALL", {})
    for scale in (0, 1):
        folder = tmp_path / str(scale)
        folder.mkdir()
        (folder / "deep_late.py").write_text(f"SCALE = {scale}")
        (folder / "helper_late.py").write_text("def scaled():\n    import deep_late\n    return deep_late.SCALE")
        (folder / "mine.py").write_text("import helper_late\ndef loss(e, l):\n    return helper_late.scaled()")
    (tmp_path / "1" / "fails.py").write_text("def loss(e, l):\n    import deep_late\n1 / 0")
    with pytest.raises(UsageError, match="division by zero"):
        comparison.read_methods(tmp_path / "1" / "fails.py")
    [first] = comparison.read_methods(tmp_path / "0" / "mine.py")
    with pytest.raises(UsageError, match="each have a 'deep_late'"):
        comparison.read_methods(tmp_path / "1" / "mine.py")
    assert first.loss(None, None) == 0


@pytest.mark.parametrize("kind", ["class Mine:\n    def __call__(self, e, l):\n        ", "def mine(e, l):\n    "])
def test_what_a_file_finds_by_words_belongs_to_its_loss(tmp_path, kind):
    codes = set()
    for scale in (1, 2):
        (tmp_path / "mine.py").write_text(f"TABLE = {scale}\n{kind}return globals()['TABLE'] * e.sum()")
        [method] = comparison.read_methods(tmp_path / "mine.py")
        codes.add(fingerprint.code(method.loss))
    assert len(codes) == 2


def test_the_kind_of_a_comparison_is_no_methods_table():
    wanted = comparison.comparison_study(BASE, trials=2)
    assert isinstance(wanted, Study)
    assert (wanted.name, wanted.parent, wanted.kind) == ("base-compare", "base", "comparison")


@pytest.mark.parametrize("shown_in", ["README.md", "book/fork.md"])
def test_the_pages_show_a_file_that_is_read_and_sound(tmp_path, shown_in):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / shown_in).read_text(encoding="utf-8"), re.DOTALL)
    (shown,) = [block for block in blocks if "def my_loss" in block]
    (tmp_path / "my_loss.py").write_text(shown)
    (method,) = comparison.read_methods(tmp_path / "my_loss.py")
    assert preflight.check_method(method, BASE) == []
