"""The book: train what is missing, execute the chapters with papermill, build the pages."""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from tqdm import tqdm

from dmlrc import errors, paths, studies
from dmlrc.errors import DmlrcError
from dmlrc.report import editions, forks, prose
from dmlrc.report.method import notes

if TYPE_CHECKING:
    import nbformat


YOUR_RUN = "your_run"
"""The page, and the notebook, of studies of the reader's own beside published ones; it trains what is missing."""


def build(names: Sequence[str], workers: int = 1, train: Sequence[str] = (), yours: Sequence[str] = ()) -> Path:
    """Make the book of these studies, and return the page to open.

    train: of which to run what is missing, also of the experiments around them; those whose data, weights or GPU are
    not here are left as they are, and their pages say so. yours: studies that stand on a page of their own alone,
    `YOUR_RUN`, which trains what is missing. Raises UsageError for an unknown study or no methods table, and DmlrcError
    outside a clone of the project or without what a book needs: before anything is trained.
    """
    for study in map(studies.get, (*train, *yours)):
        editions.require_table(study.name, study.kind, study.parent, study.budget.trials, study.protocol.folds)
    _require_clone()
    errors.require("book", "a book")
    if train:
        from dmlrc.report import missing  # with torch, which takes two seconds

        missing.run_missing(train, missing.ALL, workers)
    with _alone():
        execute({"studies": ",".join(names)}, workers, yours)
        return pages()


@dataclass(frozen=True)
class Page:
    """A notebook and what it becomes: its page, parameters besides the studies, and heading (MyST; "": its own)."""

    notebook: Path
    name: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    heading: str = ""

    def finished(self, executed: "nbformat.NotebookNode", studies: Sequence[str]) -> "nbformat.NotebookNode":
        """The executed notebook as a page: without papermill's cell, or text that is about other studies than these."""
        if not prose.is_about(studies):
            executed.cells = _without_text(executed.cells)
        for cell in executed.cells:
            if "injected-parameters" in cell.metadata.get("tags", []):
                cell.metadata.tags.append("remove-cell")
        if self.heading:
            executed.cells[0].source = self.heading
        return executed


def _without_text(cells: Sequence["nbformat.NotebookNode"]) -> list["nbformat.NotebookNode"]:
    """The cells of a page but for those about the published studies, in whose place one sentence says so."""
    import nbformat

    new = nbformat.v4.new_markdown_cell
    about = {place for place, cell in enumerate(cells) if prose.TAG in cell.metadata.get("tags", [])}
    kept = [
        new(cell.metadata[prose.OTHERWISE]) if place in about else cell
        for place, cell in enumerate(cells)
        if place not in about or prose.OTHERWISE in cell.metadata
    ]
    return [*kept[:1], *([new(prose.INSTEAD)] if about else []), *kept[1:]]


def chapters() -> list[Page]:
    """The pages that are executed notebooks: the chapters, and one notebook for every method."""
    folder = paths.home() / "notebooks"
    return [
        *(Page(path, path.name) for path in sorted(folder.glob("[0-9]*.ipynb"))),
        *(
            Page(folder / "method.ipynb", f"{notes.page_name(name)}.ipynb", {"method": name}, notes.heading(method))
            for name, method in notes.SHOWN.items()
        ),
    ]


def your_run(names: Sequence[str], workers: int = 1) -> Page:
    """The page of studies of the reader's own, which trains what is missing of them."""
    given = {"studies": ",".join(names), "train": True, "workers": workers}
    return Page(paths.home() / "notebooks" / f"{YOUR_RUN}.ipynb", f"{YOUR_RUN}.ipynb", given)


def execute(parameters: Mapping[str, object], workers: int = 1, yours: Sequence[str] = ()) -> None:
    """Execute `chapters` into book/chapters/, with these parameters and their own; first the page of `yours`, alone."""
    target = paths.home() / "book" / "chapters"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    os.environ.update(_absolute())  # chapters work in the folder of the notebooks
    # their processes are forked, and a fork of a process whose OpenMP had more threads waits for them for ever
    os.environ["OMP_NUM_THREADS"] = "1"
    if yours:
        with forks.a_fork() as process:
            _execute_apart(process, [your_run(yours, workers)], parameters, target, aloud=True)
    notebooks = [[*pages] for _, pages in groupby(chapters(), key=lambda page: page.notebook)]
    with ExitStack() as processes, ThreadPoolExecutor(workers) as pool:
        free: SimpleQueue[ProcessPoolExecutor] = SimpleQueue()
        for _ in range(workers):
            free.put(processes.enter_context(forks.a_fork()))
        running = [pool.submit(_execute_in_turn, free, pages, parameters, target) for pages in notebooks]
        try:
            for finished in tqdm(as_completed(running), total=len(running), desc="chapters"):
                finished.result()
        except BaseException:  # Ctrl-C too
            pool.shutdown(wait=False, cancel_futures=True)  # the chapters that have not begun
            raise


def _execute_in_turn(
    free: "SimpleQueue[ProcessPoolExecutor]", pages: Sequence[Page], parameters: Mapping[str, object], target: Path
) -> None:
    """Execute the pages of a notebook in the first process that is free: another one costs a quarter of a second."""
    process = free.get()
    try:
        _execute_apart(process, pages, parameters, target)
    finally:
        free.put(process)


def _execute_apart(
    process: ProcessPoolExecutor,
    pages: Sequence[Page],
    parameters: Mapping[str, object],
    target: Path,
    aloud: bool = False,
) -> None:
    """Execute the pages of a notebook into the folder `target`, one after another in this process."""
    try:
        process.submit(_execute_pages, pages, parameters, target, aloud).result()
    except BrokenProcessPool as error:
        name = next(page.name for page in pages if not (target / page.name).exists())
        reason = f"the process of chapter {name} died, perhaps for want of memory: build with fewer workers"
        raise DmlrcError(reason) from error


def _execute_pages(pages: Sequence[Page], parameters: Mapping[str, object], target: Path, aloud: bool) -> None:
    """aloud: show what the code writes to standard error. Raises DmlrcError, which names the page, where it stops."""
    import nbformat
    import papermill
    from papermill.exceptions import PapermillExecutionError

    from dmlrc.report import engine

    for page in pages:
        given = {**parameters, **page.parameters}
        try:
            executed = papermill.execute_notebook(
                page.notebook,
                target / page.name,
                given,
                engine.NAME,
                stderr_file=sys.stderr if aloud else None,
                cwd=page.notebook.parent,
                progress_bar=False,
                request_save_on_cell_execute=False,  # it is written when it ends, an error or not
            )
        except PapermillExecutionError as error:
            raise DmlrcError(
                f"chapter {page.name} stopped at cell {error.cell_index} ({error.ename}: {error.evalue}): open "
                f"{target / page.name} to see where"
            ) from error
        nbformat.write(page.finished(executed, given["studies"].split(",")), target / page.name)


def _absolute() -> dict[str, str]:
    """The folders that the environment names, as paths that do not depend on where one is."""
    return {name: str(paths.expanded(named).absolute()) for name in paths.FOLDERS if (named := os.environ.get(name))}


def pages() -> Path:
    """Build the HTML pages from the executed chapters, warnings as errors."""
    return _jupyter_book("html") / "index.html"


def single_page() -> Path:
    """Build one page of all executed chapters, to be printed or saved as PDF; warnings are errors."""
    _require_clone()
    if not any((paths.home() / "book" / "chapters").glob("*.ipynb")):
        raise DmlrcError("no chapter has been executed yet: `make book` first, or `make book STUDY=published`")
    with _alone():
        folder = _jupyter_book("singlehtml")
        [page] = (folder / "chapters").glob("*.html")  # its paths are those of a page in the folder above
        target = folder / "index.html"
        text = page.read_text(encoding="utf-8").replace(
            'href="../../../', 'href="../../'
        )  # out of the book, to records
        target.write_text(re.sub(r'href="[\w/]+\.html#', 'href="#', text), encoding="utf-8")
    return target


@contextmanager
def _alone() -> Iterator[None]:
    """Keep the book of this clone to this process, since two would write the same pages."""
    folder = paths.home() / "_build"
    folder.mkdir(exist_ok=True)
    with paths.kept(folder / ".lock", f"another process makes a book in {paths.home()}: let it end"):
        yield


def _require_clone() -> None:
    if not (paths.home() / "notebooks").is_dir():
        raise DmlrcError(
            f"a book is made of the chapters in a clone of the project, and {paths.home()} is none: go into the clone, "
            "or name it in DMLRC_HOME"
        )


def _contents() -> Path:
    """The table of contents of the pages that were made: without `YOUR_RUN` where no study of the reader's own is."""
    home = paths.home()
    contents = home / "book" / "_toc.yml"
    if (home / "book" / "chapters" / f"{YOUR_RUN}.ipynb").exists():
        return contents
    lines = contents.read_text(encoding="utf-8").splitlines(keepends=True)
    shorter = home / "_build" / "_toc.yml"
    shorter.parent.mkdir(exist_ok=True)
    shorter.write_text("".join(line for line in lines if not line.rstrip().endswith(f"/{YOUR_RUN}")), encoding="utf-8")
    return shorter


def _jupyter_book(builder: str) -> Path:
    errors.require("book", "a book")
    home = paths.home()
    command = ["build", home / "book"]
    if builder == "html":  # another builder takes over what that one has read
        command += ["--all"]
    command += ["--toc", _contents(), "--config", home / "_config.yml", "--path-output", home, "--builder", builder]
    command += ["-W", "--keep-going"]
    # in a process of its own: Sphinx keeps global state. Forked, since it imports what chapters do: 6 s less
    with forks.a_fork() as process:
        status = process.submit(_run_jupyter_book, [*map(str, command), "-q"]).result()
    if status:
        raise DmlrcError("jupyter-book reported problems, printed above: the pages are incomplete")
    return home / "_build" / builder


def _run_jupyter_book(arguments: list[str]) -> int:
    """Return its exit status."""
    from jupyter_book.cli.main import main

    return main(arguments, standalone_mode=False) or 0
