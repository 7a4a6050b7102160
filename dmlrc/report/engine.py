"""The engine by which papermill executes the chapters of a book: in its own process, without a kernel.

A kernel of its own, which imports and reads what all chapters need, takes 6.0 CPU seconds for the page of a method; in
a process of `dmlrc.report.forks` this takes 0.4.
"""

import sys
from contextlib import redirect_stderr
from typing import IO, Any

from IPython.core.displayhook import DisplayHook
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbformat import NotebookNode
from nbformat.v4 import new_output
from papermill.engines import Engine, NotebookExecutionManager, papermill_engines
from traitlets.config import Config

NAME = "dmlrc"
"""By which papermill knows the engine."""


class _Value(DisplayHook):
    """Shows the value of a cell's last line as what the cell displays, where IPython's own prints it."""

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: dict, md_dict: dict | None = None) -> None:
        self.shell.display_pub.publish(format_dict, md_dict)


class _Shell(InteractiveShell):
    displayhook_class = _Value

    def _showtraceback(self, etype: type[BaseException], evalue: BaseException, stb: list[str]) -> None:
        """Print nothing: what a cell raises is one of its outputs."""


class InThisProcess(Engine):
    """Executes a notebook's code in this process; among the outputs of a cell, what it printed comes first."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: NotebookExecutionManager, kernel_name: str, stderr_file: IO | None = None, **_: Any
    ) -> None:
        """stderr_file: gets what the cells write to standard error, as it comes; else it is among their outputs."""
        InteractiveShell.clear_instance()  # which whatever displays something without one makes
        shell = _Shell.instance(config=Config({"HistoryManager": {"enabled": False}}))
        try:
            for place, cell in enumerate(nb_man.nb.cells):
                if cell.cell_type == "code":
                    nb_man.cell_start(cell, place)
                    if _failed(shell, cell, stderr_file):
                        nb_man.cell_exception(cell, place)
                        return
                    nb_man.cell_complete(cell, place)
        finally:
            shell.cleanup()  # it is `__main__` until then
            _Shell.clear_instance()  # the next notebook has its own


def _failed(shell: _Shell, cell: NotebookNode, stderr_file: IO | None) -> bool:
    """Execute a cell, and give it its outputs; whether it raised something."""
    cell.execution_count = shell.execution_count
    with capture_output(stderr=stderr_file is None) as captured, redirect_stderr(stderr_file or sys.stderr):
        result = shell.run_cell(cell.source, store_history=True)
    printed = {"stdout": captured.stdout, "stderr": captured.stderr}
    cell.outputs = [
        *(new_output("stream", name=name, text=text) for name, text in printed.items() if text),
        *(new_output("display_data", output.data, metadata=output.metadata) for output in captured.outputs),
    ]
    if error := result.error_before_exec or result.error_in_exec:
        lines = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
        cell.outputs.append(new_output("error", ename=type(error).__name__, evalue=str(error), traceback=lines))
    return not result.success


papermill_engines.register(NAME, InThisProcess)
