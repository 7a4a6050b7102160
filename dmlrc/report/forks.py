"""Processes that begin with libraries and records loaded: each is forked from one that has read them once.

Most of a book's time went into importing torch, pandas and matplotlib and reading the same records for each page.
"""

import multiprocessing
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

PRELOADED = [
    "dmlrc.report.uncollected",
    *("optuna", "sklearn.ensemble", "scikit_posthocs"),  # optuna first: imported after IPython, its tqdm warns
    *("dmlrc.report.engine", "dmlrc.report.publish", "dmlrc.report.roth2020.figures", "dmlrc.report.findings.page"),
    "dmlrc.report.significance.figures",
    *("myst_nb.ext.glue", "yaml"),  # glue imports a second of parsers for JSON schemas
    "dmlrc.report.committed",
]
"""What the chapters import and read; a module that is not there does no harm."""


def in_a_fork(function: Callable, *arguments: Any) -> Any:
    """Call a function of a module in a forked process, in the folder and environment of this one.

    Returns what it returns, raises what it raises; BrokenProcessPool if the process dies. Not for Windows.
    """
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(PRELOADED)
    # one task: a process whose parent was killed ends with it, and does not wait for another
    with ProcessPoolExecutor(1, mp_context=forks, max_tasks_per_child=1) as alone:
        return alone.submit(_call, function, arguments, os.getcwd(), dict(os.environ)).result()


def _call(function: Callable, arguments: tuple, cwd: str, env: Mapping[str, str]) -> Any:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    return function(*arguments)
