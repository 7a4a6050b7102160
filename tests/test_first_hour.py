"""The first hour of a new user, in an empty folder: photographs, a loss of one's own, another dimension, a model.

`first_hour.sh` does the same with the wheel in an environment of its own, and trains everything; weekly.
"""

import re
from pathlib import Path

import numpy as np
from factories import made_up_unit
from photographs import photographs

from dmlrc import models, run
from dmlrc.unit import run_unit

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_commands_of_the_first_hour(home, call, monkeypatch, capsys):
    """All is trained but the fourteen losses of the photographs' page."""
    monkeypatch.chdir(home)
    my_loss, search = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert "missing" in call("data", "list")[1]
    assert "grocery-quick" in call("study", "list")[1]
    bad = photographs(home / "photos")
    code, _, said = call("photos", "photos", "--check")
    assert (code, said.splitlines()[-4].startswith("dmlrc: 3 images cannot be read")) == (1, True)
    assert [str(file) in line for file, line in zip(bad, said.splitlines()[-3:], strict=True)] == [True] * 3
    assert not (home / "studies.toml").exists()
    for file in bad:
        file.unlink()
    code, told, _ = call("photos", "photos", "--check")
    assert (code, "57 in 12 classes, 4 to 5 of each" in told) == (0, True)
    monkeypatch.setattr(run, "run_unit", made_up_unit)
    code, told, _ = call("photos", "photos", "--trials", "1", "--reruns", "1")
    assert code == 0
    assert re.search(r"does best of 14 losses.*\nOne run of a loss cannot be compared with others", told)
    assert f"open {home / 'runs' / 'photos' / 'photos.html'}" in told
    monkeypatch.setattr(run, "run_unit", run_unit)
    (home / "my_loss.py").write_text(my_loss)
    code, told, _ = call("compare", "my_loss.py", "--study", "photos")
    assert code == 0
    assert re.search(r"^my_loss is number \d+ of 15 methods", told, re.MULTILINE)
    assert call("study", "show", "photos")[1].count("my_loss") == 0
    wide = ("study", "run", "photos", "--as", "wide", "--method", "triplet", "--save-models", "--set")
    assert "did you mean 'adam'" in call(*wide, "optimizer=adamm")[2]
    assert call(*wide, "embedding_dim=16")[0] == 0
    told = " ".join(call("study", "show", "wide")[1].split())
    assert "EfficientNet-Lite0, frozen, embedding size 16; budget" in told
    assert "13 of 14 methods lack some of 1 trial and 1 rerun each: contrastive, ntxent," in told
    assert "soft_triple (0 trials, 0 reruns each)." in told
    assert call("study", "export", "wide", "--csv", "csv")[0] == 0
    model = Path("runs", "wide", "triplet", "0-rerun-000.safetensors")
    code, told, _ = call("embed", str(model), "photos")
    assert (code, "57 embeddings of 48 numbers, 16 by each of 3 models" in told) == (0, True)
    exec(search)
    paths = np.load("embeddings.npz")["paths"]
    assert capsys.readouterr().out.split("'")[1] == paths[0]  # itself first
    assert models.load(model).embed([home / paths[0]]).shape == (1, 48)
