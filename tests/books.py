"""Books that the tests of several files look at: each is executed once in a worker, in its process, and built once."""

import multiprocessing
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import nbformat
import pandas as pd
import papermill
import pytest
from drawings import EMPTY, without_a_file
from factories import write_fake_experiments, write_fake_study

from dmlrc import records, studies
from dmlrc.papers import musgrave2020
from dmlrc.report import build, editions, engine, forks, golden, importances, publish, statistics, svg
from dmlrc.report.roth2020 import toy
from dmlrc.studies import experiments

ROOT = Path(__file__).parents[1]
MADE, PUBLISHED = "made", "published"
GOLDEN = golden.written(ROOT / "tests" / "golden")
STUDIES = "grocery-quick,first-runs/grocery-frozen"
METHODS = ("contrastive", "snr", "soft_triple", "proxy_anchor")  # in one of the made-up studies, snr diverged
EXPERIMENTS = ("after2019",)  # around the first; around the other all but three
LOOKED_AT = (  # of the made-up book, the pages whose pictures a test looks at
    *("00_introduction", "01_what_a_score_looks_like", "04_which_loss_wins", "05_which_losses_differ"),
    *("15_wrong_numbers", "method_soft_triple"),
)
SMALL = {  # where no record saves the chapter from computing
    "02_which_score_to_trust": {
        "num_points": 300,
        "class_counts": "10,100",
        "trunks": "conv4",
        "trunk_classes": "12",
    },
    "11_roth2020": {"toy_seeds": 1},
}
# What users may name: a folder of images, and the row of a loss of their own, as `notebooks/fork_a_loss.ipynb` shows it
NAMED = "<script>alert(1)<x> & $x$ `y` *z* [u](v) {cite:p}`w`"
FOLDER = f"folder:/tmp/{NAMED}"
ROW = "a <img src=x onerror=alert(1)> & $x$ | `y` *z* ```"
OWN_ROW = f"""
from dataclasses import replace
mine = tables.METHODS | {{"contrastive": replace(tables.METHODS["contrastive"], label={ROW!r})}}
accuracy = tables.accuracy(edition[1])
cells, marks = page.results_of(edition[1], mine)
publish.table("own-row", cells, labels.prose({ROW!r}), marks=marks)
told = labels.prose({ROW!r}) + " stands where its numbers are, beside all other methods of this made-up study."
publish.figure("own-figure", figures.result_figures({{"own": accuracy}}, methods=mine), labels.prose({ROW!r}), told)
publish.text(labels.prose({ROW!r}))
"""

_known: dict[str, "Book"] = {}


@dataclass(frozen=True)
class Book:
    """A book whose chapters have been executed: its studies, its folder, what it has of the files of `GOLDEN`, and of
    each table its cells and their marks."""

    studies: str
    home: Path
    golden: dict[str, str]
    tables: dict[str, tuple[pd.DataFrame, pd.DataFrame | None]]

    @property
    def chapters(self) -> Path:
        return self.home / "book" / "chapters"

    @cached_property
    def pages(self) -> Path:
        """The folder of its HTML."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DMLRC_HOME", str(self.home))
            patch.setattr(forks, "a_fork", forked)
            return build.pages().parent


def forked() -> ProcessPoolExecutor:
    """As `forks.a_fork`, from this process, which has imported in other tests most of what Sphinx does."""
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork"))


def of(name: str, factory: pytest.TempPathFactory) -> Book:
    """The book of made-up studies, or that of those whose records are committed."""
    if name not in _known:
        shown = STUDIES if name == MADE else ",".join(editions.study_names("published"))
        home = checkout(factory.mktemp("home"))
        texts = pd.option_context("mode.string_storage", "python")  # as in the processes of a book
        with pytest.MonkeyPatch.context() as patch, records.shared(), texts:
            patch.setenv("DMLRC_HOME", str(home))
            patch.delenv("DMLRC_RUNS", raising=False)
            patch.delenv("DMLRC_DATA", raising=False)
            patch.setenv("DMLRC_EXPORTS", str(home / "book" / "chapters" / "exports"))
            patch.setattr(importances, "TREES", 2)  # of 64, which the tests of tables and figures have
            if name == MADE:
                patch.setattr(statistics.resampling, "RESAMPLES", 100)  # of 2,000: no number of this book is looked at
                patch.setattr(
                    toy.train_toy, "__defaults__", (0, 2)
                )  # steps, of 200, whose numbers test_roth.py looks at
                copy_measurements(home)
                write_made_studies()
            else:
                for folder in ("results", "benchmarks"):
                    (home / folder).symlink_to(ROOT / folder)
            _known[name] = Book(shown, home, *_chapters(shown, home))
    return _known[name]


def checkout(home: Path) -> Path:
    """The folder with the notebooks and the pages of this checkout, and no chapter executed."""
    shutil.copytree(ROOT / "book", home / "book", ignore=shutil.ignore_patterns("chapters", "_build"))
    (home / "book" / "chapters").mkdir()
    (home / "notebooks").symlink_to(ROOT / "notebooks")
    for file in ("_config.yml", "CITATION.cff"):
        shutil.copy(ROOT / file, home)
    return home


def copy_measurements(home: Path) -> None:
    """What is committed beside the records of studies: without it pages train toys and draw letters, for minutes."""
    shutil.copytree(ROOT / "results" / "measured", home / "results" / "measured")


def _chapters(shown: str, home: Path) -> tuple[dict, dict]:
    """Write every chapter with its outputs; return what they have of the files of `GOLDEN`, and all tables."""
    found: dict[str, str] = {}
    tables: dict[str, tuple] = {}
    for page in build.chapters():
        with golden.collected_files(GOLDEN, shown=True) as files, pytest.MonkeyPatch.context() as patch:
            patch.setattr(publish, "table", keeping(publish.table, tables))
            if shown != STUDIES:
                patch.setattr(svg, "to_svg", without_a_file)
            elif Path(page.name).stem not in LOOKED_AT:
                patch.setattr(svg, "to_svg", lambda *_: EMPTY)
            notebook = finished(page, shown)
        nbformat.write(notebook, home / "book" / "chapters" / page.name)
        found |= files
    if shown != STUDIES:
        found |= golden.verdict_files()
    return found, tables


def keeping(show, tables):
    """`publish.table`, which keeps the cells and the marks of what it shows."""

    def table(name, cells, caption, data=None, marks=None, **more):
        tables[name] = cells, marks
        show(name, cells, caption, data, marks, **more)

    return table


def finished(page: build.Page, shown: str) -> nbformat.NotebookNode:
    """A page with its outputs; of most methods the heading alone, since their pages are made of one notebook."""
    if page.parameters and page.parameters["method"] not in METHODS:
        return bare(page, shown)
    return page.finished(executed(page.notebook, shown, page.parameters), shown.split(","))


def bare(page: build.Page, shown: str) -> nbformat.NotebookNode:
    """A page without outputs, to which links lead."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(f"# {page.name}")])
    return page.finished(notebook, shown.split(","))


def write_made_studies():
    quick = studies.get("grocery-quick")
    write_fake_study(study=quick.name, dataset=quick.dataset, protocol=quick.protocol, trials=3, reruns=2)
    write_fake_experiments(quick.name, missing={*experiments.experiments_around(quick.name)} - {*EXPERIMENTS})
    write_fake_experiments(
        "first-runs/grocery-frozen", missing=("roth2020/samplers", "zhai2019/shares", "oi2021/random")
    )
    write_fake_study(
        study="first-runs/grocery-frozen",
        dataset=FOLDER,
        protocol=musgrave2020.FROZEN,
        trials=21,
        reruns=3,
        diverged=["snr"],
        missing=["fast_ap"],
    )


def executed(path, edition, parameters):
    """A notebook with its outputs, run in this process."""
    notebook = nbformat.read(path, as_version=4)
    if (path.stem, edition) == ("04_which_loss_wins", STUDIES):
        notebook.cells.append(nbformat.v4.new_code_cell(OWN_ROW, metadata={"tags": ["remove-input"]}))
    given = {"studies": edition} | (SMALL.get(path.stem, {}) if edition == STUDIES else {}) | parameters
    return papermill.execute_notebook(notebook, None, given, engine.NAME, progress_bar=False)
