"""Former names of studies: found wherever one is given, with a sentence on standard error."""

from pathlib import Path

import pytest
from factories import write_fake_study

from dmlrc import names, paths, records, studies
from dmlrc.report import editions
from dmlrc.report.results_list import list_markdown

FORMER, NOW = "cub200-2010-frozen-oi2021-order10", "cub200-2010-frozen/oi2021/order-10"
ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _nothing_said_yet():
    names._say_renamed.cache_clear()


def test_every_former_name_leads_to_a_study():
    known = studies.known()
    assert set(names.former().values()) <= known.keys()
    assert not names.former().keys() & known.keys()
    assert len(set(names.former().values())) == len(names.former())


def test_a_former_name_is_found_and_said_once(capsys):
    assert studies.get(FORMER).name == NOW
    assert studies.get(f"{FORMER}/").name == NOW
    assert capsys.readouterr().err == f"{FORMER} is now called {NOW}\n"


def test_in_an_edition_in_records_and_in_studies_toml(home, capsys):
    assert editions.study_names(f"grocery-quick,{FORMER}") == ["grocery-quick", NOW]
    write_fake_study(study=NOW)
    assert records.load(FORMER).name == NOW
    (home / "studies.toml").write_text('[mine]\nlike = "cub200-2010-last-block"\ntrials = 2\n')
    mine = studies.get("mine")
    assert mine.protocol == studies.get("cub200-2010-depths/squeezenet-last-block").protocol
    assert capsys.readouterr().err.count("is now called") == 2


def test_the_name_says_around_which_table_a_study_stands():
    around = [each for each in studies.STUDIES.values() if each.parent]
    assert all(
        each.name in (f"{each.parent}/{each.experiment}", f"{each.dataset}-{each.experiment}") for each in around
    )


def test_a_table_and_the_experiments_in_its_folder_have_nothing_in_common(home):
    """Not while they are under way, nor once they are exported, in whatever order."""
    inner, table = "glyphs-smoke/roth2020", "glyphs-smoke"
    write_fake_study(study=table, trials=2)
    alone = records.load(table)
    write_fake_study(study=inner, trials=3)
    assert len(records.load(table).trials) == len(alone.trials)
    assert records.recorded_in(paths.runs()) == [table, inner]
    assert records.problems(table) == records.problems(inner) == []
    records.export_records(inner, complete=True)
    records.export_records(table, complete=True)
    records.export_records(table, complete=True)  # in the place of those before
    assert records.recorded_in(paths.results()) == [table, inner]
    for name in (table, inner):
        assert len(records.committed.read_committed(name).trials) == len(records.load(name).trials)


def test_what_an_export_that_was_killed_leaves_is_read_as_before(home):
    write_fake_study(study="glyphs-smoke", trials=2)
    folder = records.export_records("glyphs-smoke", complete=True)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / paths.BEFORE).mkdir()
    for name, content in before.items():
        (folder / paths.BEFORE / name).write_bytes(content)
    (folder / "scores.parquet").write_bytes(b"half of the new")
    assert len(records.committed.read_committed("glyphs-smoke").trials) == len(records.load("glyphs-smoke").trials)
    assert records.recorded_in(paths.results()) == ["glyphs-smoke"]
    records.export_records("glyphs-smoke", complete=True)
    assert {path.name for path in folder.iterdir()} == before.keys()
    assert records.committed.read_parquet(folder, "glyphs-smoke").name == "glyphs-smoke"


def test_the_list_of_what_is_committed_is_true(monkeypatch):
    monkeypatch.setattr(paths, "results", lambda: ROOT / "results")
    assert (ROOT / "results" / "README.md").read_text(encoding="utf-8") == list_markdown()
    assert len(list((ROOT / "results").iterdir())) <= 20
