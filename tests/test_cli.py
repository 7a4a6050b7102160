"""The command line: what it prints, its exit codes, one sentence for each mistake."""

import subprocess
import sys

import pytest
from PIL import Image
from typer.testing import CliRunner

from dmlrc import cli, paths, studies, study


@pytest.fixture
def call(monkeypatch, capsys):
    """Calls the command: exit code, standard output, standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["dmlrc", *arguments])
        try:
            cli.main()
            code = 0
        except SystemExit as ended:
            code = ended.code
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_a_mistake_ends_the_process_with_its_code():
    script = "from dmlrc.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script, "study", "show", "nothing"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("dmlrc: unknown study 'nothing'")
    assert done.stdout == ""


def test_help_is_on_every_command():
    for arguments in (
        ["--help"],
        *[["study", name, "--help"] for name in ("list", "run", "show", "export")],
        *[["data", name, "--help"] for name in ("list", "fetch", "check")],
        ["methods", "--help"],
        ["book", "--help"],
    ):
        result = CliRunner().invoke(cli.app, arguments)
        assert result.exit_code == 0
        assert "Usage" in result.output


def test_study_list_names_every_study_and_its_records():
    result = CliRunner().invoke(cli.app, ["study", "list"])
    assert result.exit_code == 0
    assert "data, weights, GPU" in result.output
    assert all(name in result.output for name in studies.STUDIES)
    assert "0 of 57 units" in result.output  # glyphs-smoke: 14 x (2 + 2) + 1


def test_methods_lists_those_of_all_papers():
    result = CliRunner().invoke(cli.app, ["methods"])
    papers = [line.split()[0] for line in result.output.splitlines()]
    assert papers.count("musgrave2020") == 14
    assert papers.count("roth2020") == 23
    assert papers.count("fehervari2019") == 12
    assert {"zhai2019", "oi2021"} <= set(papers)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["study", "run", "glyph-quick"], 2, "unknown study 'glyph-quick': did you mean 'glyphs-quick'?"),
        (["study", "run", "glyphs-smoke", "--method", "contrastiv"], 2, "did you mean 'contrastive'?"),
        (["study", "run", "glyphs-smoke", "--workers", "0"], 2, "--workers"),
        (["study", "run", "glyphs-smoke", "--workers", "999999"], 2, "999999 workers cannot run on"),
        (["book", "quick", "--workers", "999999"], 2, "999999 workers cannot run on"),
        (["study", "show", "glyphs-quick"], 1, "make them with `dmlrc study run glyphs-quick`"),
        (["study", "export", "glyphs-quick"], 1, "was not run here"),
        (["study", "run", "cub200-musgrave2020"], 1, "DMLRC_DATA"),
        (["data", "check", "nothing"], 2, "unknown data set 'nothing'"),
        (["book", "nothing"], 2, "unknown study 'nothing'"),
        (["book", "published"], 1, "no study is published yet"),
    ],
)
def test_a_mistake_is_one_sentence_and_an_exit_code(call, arguments, code, message):
    returned, _, errors = call(*arguments)
    assert returned == code
    assert message in errors
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
    assert " data " in line
    returned, _, errors = call("study", "run", "mine")
    assert returned in (1, 2)
    assert len(errors.splitlines()) == 1
    assert "Traceback" not in errors


def test_an_interruption_says_that_nothing_is_lost(call, monkeypatch):
    def interrupted(unit):
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "run_unit", interrupted)
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


def test_a_study_runs_shows_and_exports(call):
    returned, out, errors = call("study", "run", "glyphs-smoke", "--method", "contrastive")
    assert returned == 0, errors
    assert "5 of 57 units" in out
    assert "contrastive rerun 1" in errors  # the progress bar says what runs
    shown = call("study", "show", "glyphs-smoke")[1]
    assert "glyphs-small" in shown
    assert "contrastive" in shown
    assert call("study", "export", "glyphs-smoke")[0] == 0
    assert (paths.results() / "glyphs-smoke" / "scores.parquet").exists()
