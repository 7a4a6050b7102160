"""The book: train what is missing, execute the chapters with papermill, build the pages."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dmlrc import paths, records, studies, study
from dmlrc.errors import DmlrcError

EDITIONS = {"quick": ("glyphs-quick",)}


def edition(names: str) -> list[str]:
    """The studies of an edition: "quick", "published", or study names joined by commas.

    Raises UsageError for an unknown study, DmlrcError where nothing is published.
    """
    if names == "published":
        found = records.published()
        if not found:
            raise DmlrcError("no study is published yet: run one at full budget, then `dmlrc study export NAME`")
        return found
    if names in EDITIONS:
        return list(EDITIONS[names])
    return [studies.get(name.strip()).name for name in names.split(",")]


def build(names: Sequence[str], workers: int = 1) -> Path:
    """Make the book of these studies, and return the page to open."""
    for name in names:
        study.run(studies.get(name), workers=workers)
    chapters = paths.home() / "book" / "chapters"
    execute(names, chapters)
    return pages(chapters.parent)


def execute(names: Sequence[str], target: Path) -> None:
    """Execute every notebook with papermill, for these studies, into the target folder."""
    import papermill
    from papermill.exceptions import PapermillExecutionError

    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    notebooks = paths.home() / "notebooks"
    for notebook in sorted(notebooks.glob("[0-9]*.ipynb")):
        print(f"chapter {notebook.stem}", flush=True)
        try:
            papermill.execute_notebook(
                notebook, target / notebook.name, {"studies": ",".join(names)}, cwd=notebooks, log_output=False
            )
        except PapermillExecutionError as error:
            raise DmlrcError(
                f"chapter {notebook.stem} stopped at cell {error.cell_index}: {error.ename}: {error.evalue}"
            ) from None


def pages(book: Path) -> Path:
    """Build the HTML pages from the executed chapters, warnings as errors."""
    command = [sys.executable, "-m", "jupyter_book", "build", book, "--config", paths.home() / "_config.yml"]
    command += ["--toc", book / "_toc.yml", "--path-output", book, "-W", "--keep-going", "--all", "-q"]
    finished = subprocess.run([str(part) for part in command])
    if finished.returncode:
        raise DmlrcError("jupyter-book reported problems, printed above: the pages are incomplete")
    return book / "_build" / "html" / "index.html"
