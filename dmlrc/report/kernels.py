"""Kernels that begin with libraries and records loaded: each is forked from one process that read them once.

Most of a book's time went into importing torch, pandas and matplotlib and reading the same records for each page:
papermill's own kernel takes 6.0 CPU seconds for the page of a method, one of these 1.9.
"""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from typing import Any

from ipykernel.kernelapp import launch_new_instance
from jupyter_client import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner
from jupyter_core.utils import run_sync

PRELOADED = [
    "dmlrc.report.uncollected",
    *("optuna", "sklearn.ensemble", "scikit_posthocs"),  # optuna first: imported after IPython, its tqdm warns
    *("dmlrc.report.kernels", "dmlrc.report.publish", "dmlrc.report.roth2020.figures", "dmlrc.report.findings.page"),
    *("dmlrc.report.significance.figures", "ipykernel.debugger"),
    *("myst_nb.ext.glue", "yaml"),  # glue imports a second of parsers for JSON schemas
    "dmlrc.report.committed",
]
"""What the chapters import and read; a module that is not there does no harm."""
_LONGEST = 60
"""Of the folder of temporary files: the path of a socket in it has 108 bytes at most."""


# jsonschema reads a grammar of web addresses for 0.6 CPU seconds if it can import it: no notebook's schema asks for it
sys.modules.setdefault("rfc3987_syntax", None)


class ForkedKernelManager(AsyncKernelManager):
    """Starts kernels by forking; for the `kernel_manager_class` of nbclient and papermill. Not for Windows."""

    async def _async_pre_start_kernel(self, **kwargs):
        self.provisioner = _Forked(kernel_id=self.kernel_id, kernel_spec=self.kernel_spec, parent=self)
        return await super()._async_pre_start_kernel(**kwargs)

    pre_start_kernel = _async_pre_start_kernel


@contextmanager
def one_kernel() -> Iterator[ForkedKernelManager]:
    """A kernel for all notebooks that are executed in this block: a later one finds what an earlier one set."""
    kernel = ForkedKernelManager()
    try:
        yield kernel
    finally:
        if kernel.has_kernel:
            run_sync(kernel.shutdown_kernel)(now=True)


class _Forked(LocalProvisioner):
    async def launch_kernel(self, cmd, cwd=None, env=None, **kwargs):
        if len(os.fsencode(tempfile.gettempdir())) > _LONGEST:
            tempfile.tempdir = "/tmp"
        multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOADED)
        arguments = cmd[cmd.index("-f") :]  # behind: python -m ipykernel_launcher
        self.process = start(_kernel, arguments, cwd=cwd, env=env)
        self.pid = self.process.pid
        return self.connection_info


def start(function: Callable, *arguments: Any, cwd: str | None = None, env: dict[str, str] | None = None) -> "_Process":
    """Call a function of a module in a forked process: in this folder and environment, by default those of here."""
    process = _Process(target=_call, args=(function, arguments, cwd or os.getcwd(), env or dict(os.environ)))
    process.start()
    return process


def _call(function: Callable, arguments: Sequence, cwd: str, env: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    function(*arguments)


def _kernel(arguments: list[str]) -> None:
    # the kernel ends when the process that forked it does, which ends with the process that asked for it
    launch_new_instance(argv=[*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"])


class _Process(ForkServerProcess):
    """Forked process with the methods that jupyter_client calls on a `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self) -> int | None:
        self.join()
        return self.exitcode

    def send_signal(self, signum: int) -> None:
        os.kill(self.pid, signum)
