"""From nothing to executed chapters, at the smallest budget, and what else makes a book."""

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import books
import nbformat
import pytest
from books import ROOT
from factories import fake_units, write_fake_study, write_units
from papermill.exceptions import PapermillExecutionError

from dmlrc import paths, records, run, studies
from dmlrc.errors import DmlrcError, MissingDataError, UsageError
from dmlrc.report import build, editions, forks, importances, labels, prose, statistics
from dmlrc.report.roth2020 import toy

OF_NO_STUDY = ("01_what_a_score_looks_like", "02_which_score_to_trust", "15_wrong_numbers", "21_speed")
"""Chapters that show the same in every edition."""
OF_A_PAPER = ("11_roth2020", "12_fehervari2019", "13_zhai2019", "14_oi2021")
"""Chapters whose own tests show them with nothing around a table."""
PAGES = ("04_which_loss_wins", "method_contrastive")  # each in a process of its own


@pytest.fixture
def checkout(home):
    """A study folder with the notebooks and the pages of this checkout, and nothing run."""
    return books.checkout(home)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The records of the smoke study: one rerun is trained, all else made up, since each of them takes a second."""
    home, found = tmp_path_factory.mktemp("runs"), studies.get("glyphs-smoke")
    trained = ("contrastive", "rerun", 0)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("HOME", home), ("CACHE", home / "cache"), ("DEVICE", "cpu")):
            patch.setenv(f"DMLRC_{name}", str(value))
        protocol = found.effective_protocol
        units, meta = fake_units(found.name, found.dataset, protocol, trials=2, reruns=2)
        made_up = [each for each in units if (each["method"], each["kind"], each["number"]) != trained]
        write_units(made_up, meta | found.configuration())
        run.run(found)
    return home / "runs"


@pytest.fixture
def smoke(checkout, runs):
    """The smoke study alone, with no study around it."""
    shutil.copytree(runs, paths.runs())
    books.copy_measurements(checkout)
    return studies.get("glyphs-smoke")


def test_chapters_of_the_smoke_study_in_processes_of_their_own(checkout, smoke, monkeypatch):
    assert set(records.load(smoke.name).trials["method"]) == {method.name for method in smoke.methods}
    every = build.chapters()
    monkeypatch.setattr(build, "chapters", lambda: [page for page in every if Path(page.name).stem in PAGES])
    build.execute({"studies": smoke.name}, workers=2)
    made = {path.stem: nbformat.read(path, as_version=4) for path in (checkout / "book" / "chapters").glob("*.ipynb")}
    assert set(made) == set(PAGES)
    for name, executed in made.items():
        assert all(cell.get("execution_count") for cell in executed.cells if cell.cell_type == "code"), name
        [given] = [cell for cell in executed.cells if "injected-parameters" in cell.metadata.get("tags", [])]
        assert smoke.name in given.source
        assert "remove-cell" in given.metadata.tags
    shown = json.dumps([cell.get("outputs", []) for cell in made["04_which_loss_wins"].cells])
    scores = records.load(smoke.name).scores
    mean = scores.query("method == 'contrastive' and setting == 'concatenated' and metric == 'map_at_r'")[
        "value"
    ].mean()
    assert f"{100 * mean:.2f}" in shown
    assert smoke.name in shown


def test_every_other_chapter_takes_a_table_with_no_study_around_it(smoke, monkeypatch, without_pictures):
    monkeypatch.setenv("DMLRC_EXPORTS", str(paths.home() / "exports"))
    monkeypatch.setattr(importances, "TREES", 2)
    monkeypatch.setattr(statistics.resampling, "RESAMPLES", 100)
    monkeypatch.setattr(toy.train_toy, "__defaults__", (0, 2))
    with records.shared():
        for page in build.chapters():
            if not page.parameters and Path(page.name).stem not in (*PAGES, *OF_NO_STUDY, *OF_A_PAPER):
                books.executed(page.notebook, smoke.name, {})


def test_the_cell_of_parameters_is_on_no_page():
    cells = [nbformat.v4.new_code_cell("x = 1", metadata={"tags": tags}) for tags in (["injected-parameters"], ["y"])]
    page = build.Page(Path("a.ipynb"), "a.ipynb")
    found = page.finished(nbformat.v4.new_notebook(cells=cells), editions.FIRST)
    assert [cell.metadata.tags for cell in found.cells] == [["injected-parameters", "remove-cell"], ["y"]]


def test_text_about_the_published_studies_is_on_no_page_of_others():
    cells = [
        nbformat.v4.new_markdown_cell("# Title"),
        nbformat.v4.new_markdown_cell("No loss wins.", metadata={"tags": [prose.TAG]}),
        nbformat.v4.new_markdown_cell("## Part"),
    ]
    page = build.Page(Path("a.ipynb"), "a.ipynb")
    [published, others] = [
        [cell.source for cell in page.finished(nbformat.v4.new_notebook(cells=cells), names).cells]
        for names in (editions.FIRST, ["grocery-quick"])
    ]
    assert published == ["# Title", "No loss wins.", "## Part"]
    assert others == ["# Title", prose.INSTEAD, "## Part"]
    cells[0].metadata.update({"tags": [prose.TAG], prose.OTHERWISE: "# Another"})  # a title that is a finding
    [another, *rest] = page.finished(nbformat.v4.new_notebook(cells=cells), ["grocery-quick"]).cells
    assert [another.source, *(cell.source for cell in rest)] == ["# Another", prose.INSTEAD, "## Part"]


def test_the_contents_name_your_run_only_where_there_is_one(checkout):
    whole = (checkout / "book" / "_toc.yml").read_text()
    assert whole.count("chapters/your_run") == 1
    assert build._contents().read_text() == whole.replace("      - file: chapters/your_run\n", "")
    (checkout / "book" / "chapters" / "your_run.ipynb").write_text("{}")
    assert build._contents() == checkout / "book" / "_toc.yml"
    assert build.your_run(["a", "b"], 2).parameters == {"studies": "a,b", "train": True, "workers": 2}


def test_your_run_has_the_tables_of_what_was_trained_and_trains_it_when_asked(home, monkeypatch, without_pictures):
    smoke = studies.get("glyphs-smoke")
    write_fake_study(study=smoke.name, dataset=smoke.dataset, protocol=smoke.effective_protocol, trials=3, reruns=3)
    monkeypatch.setenv("DMLRC_EXPORTS", str(home / "exports"))
    trained = []
    monkeypatch.setattr(run, "run", lambda chosen, workers: trained.append((chosen.name, workers)))
    page = build.Page(ROOT / "notebooks" / "your_run.ipynb", "your_run.ipynb")
    for given in ({"train": False}, {"train": True, "workers": 2}):
        found = books.executed(page.notebook, smoke.name, given)
    assert trained == [(smoke.name, 2)]
    settings = {"settings": "embedding_dim=32 lr=1e-4", "name": "small", "train": True}
    # which `run` above makes none of
    with pytest.raises(PapermillExecutionError, match=r"study .small. has no records"):
        books.executed(page.notebook, smoke.name, settings)
    assert (studies.get("small").protocol.embedding_dim, trained[-1]) == (32, ("small", 1))
    shown = str([cell.get("outputs") for cell in found.cells])
    for name in ("results-glyphs-smoke", "yours-results", "yours-trials", "yours-best-glyphs-smoke"):
        assert f":name: {name}" in shown, name


def test_every_method_has_a_page_of_its_own_from_one_notebook():
    made = {page.name: page for page in build.chapters() if page.parameters}
    assert made["method_arcface.ipynb"].parameters == {"method": "arcface"}
    cells = [nbformat.v4.new_markdown_cell("# A method"), nbformat.v4.new_code_cell("x = 1")]
    found = made["method_arcface.ipynb"].finished(nbformat.v4.new_notebook(cells=cells), editions.FIRST)
    assert [cell.source for cell in found.cells] == ["(method-arcface)=\n# ArcFace", "x = 1"]


def test_a_chapter_that_fails_is_named(checkout, monkeypatch):
    some = [page for page in build.chapters() if Path(page.name).stem in PAGES]  # the next one begins all the same
    monkeypatch.setattr(build, "chapters", lambda: some)
    with pytest.raises(DmlrcError, match=r"chapter 0\d_\w+.ipynb stopped at cell .*glyphs-smoke.* has no records"):
        build.execute({"studies": "glyphs-smoke"})


def stand_in(call):
    """A process that calls this in the place of what it is given; called in a thread of this one."""
    process = ThreadPoolExecutor(1)
    submit = process.submit
    process.submit = lambda *arguments: submit(call, *arguments)
    return process


def test_a_chapter_whose_process_dies_is_named(checkout, monkeypatch):
    """Of the pages of a notebook, the first that was not written."""

    def dies(function, pages, parameters, target, aloud):
        (target / pages[0].name).touch()
        raise BrokenProcessPool

    some = [page for page in build.chapters() if page.parameters][:2]
    monkeypatch.setattr(build, "chapters", lambda: some)
    monkeypatch.setattr(forks, "a_fork", lambda: stand_in(dies))
    with pytest.raises(DmlrcError, match=f"chapter {some[1].name} died, perhaps for want of memory"):
        build.execute({})


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_what_stops_a_book_leaves_the_chapters_that_wait(home, monkeypatch, stop):
    begun = []

    def chapter(function, pages, *arguments):
        begun.extend(pages)
        time.sleep(0.2)

    def stopped(running):
        raise stop

    monkeypatch.setattr(forks, "a_fork", lambda: stand_in(chapter))
    monkeypatch.setattr(build, "as_completed", stopped)
    monkeypatch.setattr(build, "chapters", lambda: [build.Page(Path(name), name) for name in "abcdefgh"])
    with pytest.raises(stop):
        build.execute({})
    assert len(begun) <= 2


def test_two_books_of_one_clone_are_not_made_at_once(home):
    hold = (
        "import sys; from pathlib import Path; from dmlrc import paths\n"
        "with paths.kept(Path(sys.argv[1]), ''): print('held', flush=True), input()"
    )
    (home / "_build").mkdir()
    command = [sys.executable, "-c", hold, str(home / "_build" / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(DmlrcError, match=r"another process makes a book in .*: let it end"), build._alone():
            pass
        other.communicate("")
    with build._alone():
        pass


def test_editions(home):
    assert editions.study_names("quick") == ["grocery-quick"]
    assert editions.study_names("glyphs-quick, glyphs-full,glyphs-quick") == ["glyphs-quick", "glyphs-full"]
    with pytest.raises(UsageError, match="did you mean 'glyphs-quick'"):
        editions.load_edition("glyph-quick")
    with pytest.raises(MissingDataError, match=r"glyphs-quick.* has no records"):
        editions.load_edition("glyphs-quick")
    assert editions.study_names("quick, glyphs-full,grocery-quick") == ["grocery-quick", "glyphs-full"]
    with pytest.raises(DmlrcError, match=r"no study is published in .*: go into a clone"):
        editions.study_names("published")
    for nothing in ("", "glyphs-quick,", 5, ["glyphs-quick"]):
        with pytest.raises(UsageError, match="give the name of a study, or several joined by commas"):
            editions.load_edition(nothing)


def test_a_study_without_a_finished_rerun_is_no_chapter_yet(home):
    write_fake_study(study="glyphs-smoke")
    for rerun in (home / "runs" / "glyphs-smoke").glob("*/*rerun*.json"):
        rerun.unlink()
    with pytest.raises(MissingDataError, match="'glyphs-smoke' has no finished rerun yet: `dmlrc study run"):
        editions.load_edition("glyphs-smoke")


def test_a_published_book_has_the_studies_that_its_text_is_about(home):
    complete = (
        "glyphs-full",  # in no text
        "first-runs/cars196crops-frozen",
        "cub200-2010-frozen",
        "cub200-2010-depths/squeezenet-last-block",
        "cub200-2010-frozen/rates",
        "icons-scratch",
    )
    for name in (*complete, "grocery-frozen"):
        found = studies.get(name)
        meta = {"study": name, "budget": vars(found.budget), "complete": name in complete}
        (home / "results" / name).mkdir(parents=True)
        (home / "results" / name / "meta.json").write_text(json.dumps(meta))
    assert editions.study_names("published") == ["cub200-2010-frozen"]
    path = home / "results" / "cars196crops-frozen"
    path.mkdir()
    (path / "meta.json").write_text(json.dumps(meta | {"study": path.name, "complete": True}))
    assert editions.study_names("published") == ["cub200-2010-frozen", "cars196crops-frozen"]
    assert editions.study_names("published,quick") == ["cub200-2010-frozen", "cars196crops-frozen", "grocery-quick"]
    published, own = editions.study_names("published"), ["grocery-quick", "glyphs-full"]
    assert editions.divided("published") == (published, [], [])
    assert editions.divided("published,quick,glyphs-full,cub200-2010-frozen") == (published, [], own)
    assert editions.divided("quick,glyphs-full") == (own, own, [])


def test_a_run_of_the_readers_own_stands_beside_published_ones(home):
    write_fake_study(study="glyphs-smoke")
    assert not editions.is_yours("glyphs-smoke")  # there is nothing to tell it from
    found = studies.get("cub200-2010-frozen")
    (home / "results" / found.name).mkdir(parents=True)
    meta = {"study": found.name, "budget": vars(found.budget), "complete": True}
    (home / "results" / found.name / "meta.json").write_text(json.dumps(meta))
    assert editions.is_yours("glyphs-smoke")
    assert not editions.is_yours(found.name)
    [records] = editions.load_edition("glyphs-smoke")
    assert labels.caption(records) == "`glyphs-smoke`, your run: n = 2 reruns."


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kind": "experiment", "parent": "glyphs-quick"}, "is an experiment around 'glyphs-quick', .* give 'glyphs-q"),
        ({"kind": "rates", "parent": "glyphs-quick"}, "tried learning rates of 'glyphs-quick'"),
        ({"budget": {"name": "full", "trials": 0, "reruns": 3}}, "has no searches"),
        ({"protocol": {"folds": 1}}, "has one fold, but .* give one with folds = 2 or more"),
    ],
)
def test_a_chapter_is_made_of_methods_tables(home, changes, says):
    write_fake_study(study="glyphs-smoke")
    path = home / "runs" / "glyphs-smoke" / "meta.json"
    assert [each.name for each in editions.load_edition("glyphs-smoke")] == ["glyphs-smoke"]
    meta = json.loads(path.read_text())
    changes = {name: meta[name] | own if name == "protocol" else own for name, own in changes.items()}
    path.write_text(json.dumps(meta | changes))
    with pytest.raises(UsageError, match=says):
        editions.load_edition("glyphs-smoke")


def test_one_page_of_no_chapters_says_what_to_do(home):
    with pytest.raises(DmlrcError, match="in a clone of the project"):
        build.single_page()
    (home / "notebooks").mkdir()
    with pytest.raises(DmlrcError, match="no chapter has been executed yet: `make book` first"):
        build.single_page()


def test_processes_of_chapters_have_one_thread_whatever_is_set(home, monkeypatch):
    """They are forked, and OpenMP's other threads do not come along: it would wait for them for ever."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(build, "chapters", list)
    build.execute({}, workers=1)
    assert os.environ["OMP_NUM_THREADS"] == "1"
