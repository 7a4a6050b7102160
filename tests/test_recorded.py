"""How much is recorded, told without reading records: as `plan.progress` says where nothing is stale."""

import json
import shutil
from dataclasses import replace

import pytest
from cases import in_a_cell
from factories import fake_records, made_up_unit, write_fake_study

from dmlrc import paths, plan, records, run, studies
from dmlrc.methods import Float, Method
from dmlrc.protocol import Study
from dmlrc.report import ranking
from dmlrc.studies import recorded


@pytest.fixture
def smoke(home):
    """glyphs-smoke with all its records made up."""
    found = studies.get("glyphs-smoke")
    write_fake_study(study=found.name, dataset=found.dataset, protocol=found.effective_protocol, trials=2, reruns=2)
    return found


def test_records_here(smoke):
    assert recorded.count(smoke) == plan.progress(smoke)
    made, total = recorded.count(smoke)
    assert made == total == smoke.units
    (paths.runs() / "glyphs-smoke" / "contrastive" / "0-trial-001.json").unlink()
    assert recorded.count(smoke) == (total - 1, total)
    (paths.runs() / "glyphs-smoke" / "contrastive" / "notes.json").write_text("{}")
    assert recorded.count(smoke) == (total - 1, total)


@pytest.mark.parametrize("complete", [True, False])
def test_committed_records(smoke, complete):
    records.export_records("glyphs-smoke", complete)
    for path in sorted((paths.runs() / "glyphs-smoke").rglob("*.json")):
        path.unlink()
    assert recorded.count(smoke) == (smoke.units, smoke.units)


def test_only_units_of_the_study_count(smoke):
    fewer = replace(smoke, methods=smoke.methods[:3], budget=replace(smoke.budget, trials=1))
    assert recorded.count(fewer) == (3 * (1 + 2) + 1, fewer.units)


def test_nothing_is_recorded_of_a_study_without_files(home):
    for each in studies.STUDIES.values():
        assert isinstance(each, Study)
        assert recorded.count(each) == (0, plan.Plan(each).total)


def test_a_study_that_was_made_in_python_is_listed_shown_checked_and_exported(home, call, monkeypatch):
    smoke = studies.STUDIES["glyphs-smoke"]
    loss = in_a_cell("def loss(embeddings, labels, margin):\n    return embeddings.sum() * margin")
    mine = Method("mine", loss, {"margin": Float(0, 1)})
    made = replace(smoke, name="of-my-own", methods=(smoke.method("triplet"), mine))
    monkeypatch.setattr(run, "run_unit", made_up_unit)
    run.run(made, [mine])
    _, said, _ = call("study", "list")
    [line] = [line.split() for line in said.splitlines() if line.startswith("of-my-own")]
    assert line == ["of-my-own", "glyphs-small", "smoke", "5", "of", "9"]
    assert "of-my-own" in call("study", "list", "my-own")[1]
    _, said, _ = call("study", "show", "of-my-own/")  # as a shell completes a folder
    assert any(line.split()[:1] == ["mine"] for line in said.splitlines())  # alone, and so without a rank
    assert "1 of 2 methods lack some of 2 trials and 2 reruns each: triplet (0 trials, 0 reruns)." in " ".join(
        said.split()
    )
    assert "sound" in call("study", "check", "of-my-own")[1]
    for methods, complete in (((), False), (None, True)):
        run.run(made, methods)
        assert call("study", "export", "of-my-own")[0] == 0
        assert json.loads((home / "results" / "of-my-own" / "meta.json").read_text())["complete"] is complete
    shutil.rmtree(home / "runs")
    assert "Unfinished" not in call("study", "show", "of-my-own")[1]
    assert call("study", "export", "of-my-own", "--csv", str(home / "tables"))[0] == 0
    code, _, said = call("study", "export", "of-my-own", "--optuna", str(home / "journal"))
    assert (code, "was made in Python" in said) == (2, True)
    (home / "results" / "of-my-own" / "meta.json").write_text("{")
    assert "of-my-own" not in call("study", "list")[1]
    code, _, said = call("study", "show", "of-my-own")
    assert (code, "is damaged" in said) == (1, True)
    for name in ("of-nobody", "x" * 300):  # which no folder can be called
        code, _, said = call("study", "show", name)
        assert (code, "unknown study" in said) == (2, True), said
    for command in (("study", "run", "of-my-own"), ("power", "--study", "of-my-own", "--difference", "1")):
        code, _, said = call(*command)
        assert (code, "is known by its records alone" in said) == (2, True), said


def test_a_study_of_python_in_a_folder_or_around_another_is_listed_and_a_comparison_is_not(home, call):
    smoke = studies.STUDIES["glyphs-smoke"]
    around = smoke.around("of-my-own", smoke.methods)
    for name, facts in (("lab/mine", {}), (around.name, vars(around)), ("smoke-compare", {"kind": "comparison"})):
        write_fake_study(study=name, dataset=smoke.dataset, protocol=smoke.effective_protocol, trials=2, reruns=2)
        meta = home / "runs" / name / "meta.json"
        kept = {key: facts[key] for key in ("kind", "parent", "experiment") if key in facts}
        meta.write_text(json.dumps(json.loads(meta.read_text()) | kept))
    assert [study.name for study in recorded.made_in_python()] == [around.name, "lab/mine"]
    listed = {line.split()[0]: line.split()[-1] for line in call("study", "list")[1].splitlines() if line}
    assert "lab/mine" in listed
    assert around.name not in listed  # it counts among those around its table
    assert listed["glyphs-smoke"] == f"+{1 + sum(each.parent == smoke.name for each in studies.known().values())}"
    for word, name in (("lab", "lab/mine"), ("my-own", around.name)):
        assert call("study", "list", word)[1].splitlines()[1].split()[0] == name
    assert "sound" in call("study", "check", "lab/mine")[1]
    (home / "runs" / "lab" / "mine" / "meta.json").write_text('{"kind": []}')
    assert "lab/mine" not in call("study", "list")[1]


def test_a_known_study_is_exported_by_its_former_name_too(call, monkeypatch):
    monkeypatch.setattr(run, "export", lambda study: study.name)
    code, said, _ = call("study", "export", "grocery-frozen-roth2020-dims")
    assert (code, said) == (0, "grocery-frozen/roth2020/dims\n")


def test_reruns_of_a_method_without_a_result_are_not_missed():
    found = fake_records(reruns=2, diverged=("arcface",))
    settings = {method: {} for method in found.trials["method"].unique()}
    whole = replace(found, meta=found.meta | {"settings": settings})
    assert not any("Unfinished" in line for line in ranking.lines(whole))
    begun = replace(whole, reruns=whole.reruns[1:])
    said = " ".join(ranking.lines(begun))
    assert "1 of 14 methods lack some of 3 trials and 2 reruns each: contrastive (3 trials, 1 rerun)." in said
