"""Processes that begin with libraries and records loaded: each is forked from one that has read them once.

Most of a book's time went into importing torch, pandas and matplotlib and reading the same records for each page.
"""

import multiprocessing
import os
import threading
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor

PRELOADED = [
    "dmlrc.report.uncollected",
    *("optuna", "sklearn.ensemble", "scikit_posthocs"),  # optuna first: imported after IPython, its tqdm warns
    *("dmlrc.report.engine", "dmlrc.report.publish", "dmlrc.report.roth2020.figures", "dmlrc.report.findings.page"),
    "dmlrc.report.significance.figures",
    *("myst_nb.ext.glue", "yaml"),  # glue imports a second of parsers for JSON schemas
    "dmlrc.report.committed",
]
"""What the chapters import and read; a module that is not there does no harm."""


def a_fork() -> ProcessPoolExecutor:
    """A forked process that calls functions of modules, in the folder and environment of this one. Not for Windows."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(PRELOADED)
    return ProcessPoolExecutor(1, mp_context=forks, initializer=_begin, initargs=(os.getcwd(), dict(os.environ)))


def _begin(cwd: str, env: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End when the process that asked for this one has, if only because it was killed; else this waits for ever."""
    multiprocessing.parent_process().join()
    os._exit(1)
