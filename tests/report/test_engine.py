"""The engine that executes the chapters, and its processes: forked, and still apart from one another."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool

import nbformat
import papermill
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from papermill.exceptions import PapermillExecutionError

from dmlrc.report import engine, forks

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


def execute(cells, folder, **settings):
    """The cells of a notebook, as papermill executes it with our engine in this folder."""
    metadata = {"kernelspec": {"name": "python3", "display_name": "", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), folder / "in.ipynb")
    settings = {"engine_name": engine.NAME, "cwd": folder, "progress_bar": False} | settings
    return papermill.execute_notebook(folder / "in.ipynb", folder / "out.ipynb", **settings).cells


def printed(source, folder, defaults="", **parameters):
    """The lines that one cell prints behind one with these parameters."""
    given = new_code_cell(defaults, metadata={"tags": ["parameters"]})
    cells = execute([given, new_code_cell(source)], folder, parameters=parameters)
    return "".join(each.text for each in cells[-1].outputs if each.output_type == "stream").splitlines()


def test_each_process_is_alone_in_its_own_folder_and_environment(tmp_path, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("DMLRC_RUNS", name)
        with forks.a_fork() as process:
            lines = process.submit(printed, "\n".join(CELLS), tmp_path / name).result()
        assert lines == [str(tmp_path / name), name, "[] None", "8000000.0", "True"]


def test_a_notebook_finds_nothing_of_the_one_before(tmp_path):
    assert printed("x = 1; print('x' in globals())", tmp_path) == ["True"]
    assert printed("print('x' in globals())", tmp_path) == ["False"]
    assert not hasattr(sys.modules["__main__"], "x")


def test_outputs_are_those_of_a_kernel(tmp_path):
    cells = [
        new_markdown_cell("# Title"),
        new_code_cell("import sys\nfrom IPython.display import HTML\nimport pandas as pd"),
        new_code_cell("print('a'); print('b', file=sys.stderr); display(HTML('<p>c</p>')); print('d')\npd.Series([1])"),
        new_code_cell("_; None"),
        new_code_cell("1;"),
    ]
    with_kernel = execute(cells, tmp_path, engine_name=None, kernel_name="python3")
    ours = execute(cells, tmp_path)
    kinds = ["stream", "stream", "display_data", "display_data"]
    assert [output.output_type for output in ours[2].outputs] == kinds  # what is printed comes first
    assert [sorted(map(shown, cell.get("outputs", []))) for cell in ours] == [
        sorted(map(shown, merged(cell.get("outputs", [])))) for cell in with_kernel
    ]
    counts = [[cell.get("execution_count") for cell in each] for each in (ours, with_kernel)]
    assert counts[0] == counts[1]
    assert [cell.metadata.papermill.status for cell in ours[1:]] == ["completed"] * 4


def shown(output):
    return str(dict(output.get("data", {"text": output.get("text")})))


def merged(outputs):
    """The outputs of a kernel, with what a cell printed before and behind others in one."""
    streams = {}
    for each in outputs:
        if each.output_type == "stream":
            streams[each.name] = streams.get(each.name, "") + each.text
    texts = [nbformat.v4.new_output("stream", name=name, text=text) for name, text in streams.items()]
    return [*texts, *(each for each in outputs if each.output_type != "stream")]


def test_standard_error_is_let_through_where_it_is_wanted(tmp_path, capsys):
    cells = [new_code_cell("import sys\nprint('half done', file=sys.stderr)")]
    [cell] = execute(cells, tmp_path)
    assert (cell.outputs[0].text, capsys.readouterr().err) == ("half done\n", "")
    [cell] = execute(cells, tmp_path, stderr_file=sys.stderr)
    assert (cell.outputs, capsys.readouterr().err) == ([], "half done\n")


@pytest.mark.filterwarnings("ignore:To exit")
@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("1 +", "SyntaxError: "),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_an_exception_of_a_cell_arrives_and_is_kept(tmp_path, source, told):
    with pytest.raises(PapermillExecutionError, match=told):
        execute([new_code_cell(f"print('before')\n{source}"), new_code_cell("print('behind')")], tmp_path)
    cells = nbformat.read(tmp_path / "out.ipynb", as_version=4).cells
    [error] = [output for cell in cells for output in cell.get("outputs", []) if output.output_type == "error"]
    assert f"{error.ename}: {error.evalue}".startswith(told)
    assert "behind" not in str([cell.get("outputs") for cell in cells])


def test_a_parameter_that_a_notebook_does_not_have_is_an_error(tmp_path):
    source = "from dmlrc.report import parameters\nparameters.check_parameters()\nprint(studies)"
    assert printed(source, tmp_path, 'studies = "a"  # one or several', studies="b") == ["b"]
    assert printed(source, tmp_path, 'studies = "a"') == ["a"]
    with pytest.raises(PapermillExecutionError, match="unknown parameter 'study': did you mean 'studies'"):
        printed(source, tmp_path, 'studies = "a"', study="b")


def test_the_death_of_a_process_is_no_wait():
    with forks.a_fork() as process, pytest.raises(BrokenProcessPool):
        process.submit(os._exit, 3).result()


def test_a_process_ends_soon_after_the_one_that_asked_for_it_was_killed(tmp_path):
    script, told = tmp_path / "asks.py", tmp_path / "pid"
    command = f"echo $PPID > {told}.new; mv {told}.new {told}"
    script.write_text(
        "import os, time\nfrom dmlrc.report import forks\n"
        "if __name__ == '__main__':\n"
        "    forks.PRELOADED = []\n"
        f"    forks.a_fork().submit(os.system, '{command}')\n"
        "    time.sleep(600)\n"
    )
    asking = subprocess.Popen([sys.executable, script])
    while not told.exists():
        assert asking.poll() is None
        time.sleep(0.05)
    asking.send_signal(signal.SIGKILL)
    asking.wait()
    pid = int(told.read_text())
    for _ in range(200):
        if not alive(pid):
            return
        time.sleep(0.1)
    pytest.fail("the process still waits for work")


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split()[2] != "Z"
    except FileNotFoundError:
        return False
