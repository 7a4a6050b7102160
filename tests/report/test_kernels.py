"""The kernels that execute the chapters: forked, and still apart from one another."""

import asyncio
import os
import sys
import tempfile
from types import SimpleNamespace
from unittest.mock import MagicMock

import nbformat
import papermill
import pytest
from nbclient.exceptions import DeadKernelError
from papermill.exceptions import PapermillExecutionError

from dmlrc.report import kernels
from dmlrc.report.kernels import ForkedKernelManager

CELLS = [
    "import os",
    "import torch, dmlrc.report.claims",
    "print(os.getcwd())",
    "print(os.environ['DMLRC_RUNS'])",
    "print(sorted(set(globals()) & {'left_over'}), getattr(torch, 'left_over', None))",
    "print(torch.ones(200, 200).mm(torch.ones(200, 200)).sum().item())",
    "left_over = torch.left_over = 1",
    "import gc; print(gc.isenabled())",
]


def execute(source, folder, defaults="", **parameters):
    """Run one cell in a kernel of its own, behind one with these parameters; its printed lines."""
    given = nbformat.v4.new_code_cell(defaults, metadata={"tags": ["parameters"]})
    cells = [given, nbformat.v4.new_code_cell(source)]
    nbformat.write(
        nbformat.v4.new_notebook(
            cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "", "language": "python"}}
        ),
        folder / "in.ipynb",
    )
    papermill.execute_notebook(
        folder / "in.ipynb",
        folder / "out.ipynb",
        parameters,
        cwd=folder,
        progress_bar=False,
        kernel_manager_class=ForkedKernelManager,
    )
    outputs = nbformat.read(folder / "out.ipynb", as_version=4).cells[-1].outputs
    return "".join(each.text for each in outputs if each.output_type == "stream").splitlines()


def test_each_kernel_is_alone_in_its_own_folder_and_environment(tmp_path, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("DMLRC_RUNS", name)
        lines = execute("\n".join(CELLS), tmp_path / name)
        assert lines == [str(tmp_path / name), name, "[] None", "8000000.0", "True"]


@pytest.mark.parametrize(
    ("folder", "taken"), [("/tmp/x", "/tmp/x"), (f"/{'x' * 60}", "/tmp"), (f"/{'☃' * 30}", "/tmp")]
)
def test_sockets_lie_where_their_paths_have_room(folder, taken, monkeypatch):
    """A path has 108 bytes, whatever its letters."""
    monkeypatch.setattr(tempfile, "tempdir", folder)
    monkeypatch.setattr(kernels.multiprocessing, "get_context", MagicMock())
    monkeypatch.setattr(kernels, "_Process", MagicMock())
    asyncio.run(kernels._Forked.launch_kernel(SimpleNamespace(connection_info={}), ["-f", "x"]))
    assert tempfile.gettempdir() == taken


def test_a_kernel_that_dies_is_an_error_and_not_a_wait(tmp_path):
    with pytest.raises(DeadKernelError):
        execute("import os; os._exit(3)", tmp_path)


def test_an_exception_of_a_cell_arrives(tmp_path):
    with pytest.raises(PapermillExecutionError, match="division"):
        execute("1 / 0", tmp_path)


def test_a_parameter_that_a_notebook_does_not_have_is_an_error(tmp_path):
    source = "from dmlrc.report import parameters\nparameters.check_parameters()\nprint(studies)"
    assert execute(source, tmp_path, 'studies = "a"  # one or several', studies="b") == ["b"]
    assert execute(source, tmp_path, 'studies = "a"') == ["a"]
    with pytest.raises(PapermillExecutionError, match="unknown parameter 'study': did you mean 'studies'"):
        execute(source, tmp_path, 'studies = "a"', study="b")


def test_a_function_runs_in_a_folder_and_environment_and_its_end_arrives(tmp_path, monkeypatch):
    monkeypatch.setenv("DMLRC_RUNS", "here")
    monkeypatch.chdir(tmp_path)
    assert kernels.start(os.system, 'pwd > where; echo "$DMLRC_RUNS" >> where').wait() == 0
    assert (tmp_path / "where").read_text().split() == [str(tmp_path), "here"]
    assert kernels.start(sys.exit, 3, cwd="/").wait() == 3
