"""What must agree between the project's own files."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import nbformat
import pytest
import yaml

from dmlrc import errors, papers, studies
from dmlrc.report import build

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def names(requirements):
    return {re.match(r"[\w.-]+", requirement)[0] for requirement in requirements}


def test_every_direct_pin_is_in_the_lock_with_its_version():
    lock = (ROOT / "requirements.lock").read_text().splitlines()
    for pin in PROJECT["dependency-groups"]["env"]:
        name, version = re.match(r"([\w.-]+)==([\w.]+)", pin).groups()
        assert any(line.startswith(f"{name}=={version}") for line in lock), pin


def test_what_the_library_needs_is_pinned():
    extras = PROJECT["project"]["optional-dependencies"]
    needed = names([*PROJECT["project"]["dependencies"], *(each for extra in extras.values() for each in extra)])
    assert needed - {"dmlrc"} <= names(PROJECT["dependency-groups"]["env"])


def test_the_extras_that_commands_ask_for_are_those_of_the_package():
    optional = PROJECT["project"]["optional-dependencies"]
    for extra, modules in errors.MODULES.items():
        named = {
            name for each in optional[extra] for name in (optional["search"] if each == "dmlrc[search]" else [each])
        }
        assert {name.replace("-", "_") for name in names(named)} == set(modules), extra


def test_the_conda_environment_takes_its_versions_from_the_lock():
    text = (ROOT / "environment.yml").read_text()
    assert "--constraint requirements.lock" in text
    assert "faiss-gpu" in text
    assert not re.search(r"- (torch|faiss-gpu|pandas)[=<>]", text)


def imported(notebook):
    """The packages outside the standard library that the cells of a notebook import, by the names of their modules."""
    code = "\n".join(cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code")
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"dmlrc"}


def test_the_conda_environment_has_what_a_notebook_imports():
    listed = set(re.findall(r"^      - ([\w-]+)$", (ROOT / "environment.yml").read_text(), re.MULTILINE))
    used = set().union(*map(imported, (ROOT / "notebooks").glob("*.ipynb")))
    assert "pytorch_metric_learning" in used
    packages = packages_distributions()
    assert {module for module in used if not listed & set(packages[module])} == set()


def test_ci_calls_the_readme_command():
    readme, ci = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()
    assert "\nmake test" in readme
    assert ci.strip().endswith("make test")


def test_the_weekly_workflow_runs_what_is_too_long_for_every_change():
    weekly = yaml.safe_load((ROOT / ".github" / "workflows" / "weekly.yml").read_text())
    assert weekly[True].keys() == {"schedule", "workflow_dispatch"}  # YAML reads `on` as true
    commands = weekly["jobs"]["long"]["strategy"]["matrix"]["command"]
    tests, *others = commands
    assert tests == ".venv/bin/python -m pytest -m weekly"
    assert others == [".venv/bin/python -m benchmarks.coverage", "make mutations", "bash tests/first_hour.sh"]
    assert (ROOT / "benchmarks" / "coverage.py").exists()
    assert (ROOT / "tests" / "first_hour.sh").exists()
    assert "\nmutations: " in (ROOT / "Makefile").read_text()


def test_the_version_is_one():
    version = PROJECT["project"]["version"]
    assert re.findall(r"^version: *\"?([\w.]+)\"?$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE) == [version]
    assert re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == version


def test_notebooks_can_be_opened_where_they_were_run():
    assert {"jupyterlab", "jupyterlab-myst", "ipywidgets"} <= names(PROJECT["dependency-groups"]["env"])
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^lab: .*\n\t\S+/jupyter lab$", makefile, re.MULTILINE)


def test_notebooks_are_committed_without_outputs():
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert not any(cell.outputs or cell.execution_count for cell in code), path.name
        assert sum("parameters" in cell.metadata.get("tags", []) for cell in code) == 1, path.name
        assert "parameters.check_parameters()" in code[1].source, path.name  # before anything is computed


def test_chapters_are_numbered_without_a_gap_and_all_in_the_table_of_contents(monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(ROOT))
    chapters = [path.stem for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))]
    assert [int(name.partition("_")[0]) for name in chapters] == list(range(len(chapters)))
    contents = (ROOT / "book" / "_toc.yml").read_text()
    pages = [*(Path(page.name).stem for page in build.chapters()), build.YOUR_RUN]
    assert sorted(re.findall(r"chapters/(\w+)", contents)) == sorted(pages)


def test_a_paper_has_its_modules_its_chapter_and_its_entry():
    references = (ROOT / "book" / "references.bib").read_text()
    for paper in papers.ALL:
        assert paper.protocol.name == paper.key
        assert f"{{{paper.key}," in references
        assert (ROOT / "notebooks" / f"{paper.chapter}.ipynb").exists()
        for folder, kind in (("papers", "py"), ("report/claims", "toml"), ("report/deviations", "toml")):
            assert (ROOT / "dmlrc" / folder / f"{paper.key}.{kind}").exists()


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md"])
def test_every_file_that_a_page_names_is_there(page):
    text = (ROOT / page).read_text()
    named = re.findall(r"\b((?:dmlrc|tests|notebooks|book|benchmarks)/[\w/.]*\w)[`) ]", text)
    assert named
    assert not [path for path in named if not (ROOT / path).exists()]


def test_every_name_that_the_contributors_page_puts_into_a_module_is_set_there():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`([A-Z_]+)` (?:of|in) `((?:dmlrc|tests)/[\w/]+\.py)`", text)
    assert len(named) >= 6
    for name, path in named:
        assert re.search(rf"^{name}\b.*=", (ROOT / path).read_text(), re.MULTILINE), (name, path)


def test_a_loss_can_be_run_by_the_command_of_the_contributors_page():
    """The page names three studies: of a loss of the Reality Check, of one after 2019, of one of another paper."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (row,) = [line for line in text.splitlines() if line.startswith("| a loss ")]
    named = {"glyphs-smoke": "arcface", "glyphs-smoke/after2019": "circle", "glyphs-smoke/roth2020": "quadruplet"}
    assert set(re.findall(r"glyphs-smoke[\w/-]*", row)) == set(named)
    for study, method in named.items():
        assert studies.get(study).method(method)


def test_the_readme_is_short_and_counts_the_published_studies():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 110
    complete = [path for path in ROOT.glob("results/**/meta.json") if json.loads(path.read_text())["complete"]]
    assert f"The records of {len(complete)} studies are committed" in " ".join(readme.split())


def test_the_package_keeps_to_its_floors():
    """The contracts of pyproject.toml: the library never imports the report, the parts never import studies."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-cache"]
    checked = subprocess.run([*command, "--no-logo"], cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("page", ["rerun.md", "scale_out.md"])
def test_a_page_that_promises_every_bit_says_where(page):
    """On a CPU, and on a GPU, where kernels must be told to be deterministic; test_gpu.py sees whether they are."""
    (promise,) = re.findall(r"^- \*\*Tolerance:.*to the last.*$", (ROOT / "book" / page).read_text(), re.MULTILINE)
    assert "on the CPU of one machine" in promise
    assert "On one GPU" in promise


def test_every_folder_of_modules_is_a_package():
    """A folder without `__init__.py` would be missing where the package is installed, and no contract would see it."""
    folders = {path.parent for path in (ROOT / "dmlrc").rglob("*.py")}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]
