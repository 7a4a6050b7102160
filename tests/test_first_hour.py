"""The first hour of a new user, in an empty folder: photographs, a loss of one's own, another dimension, a model."""

import re
from pathlib import Path

import numpy as np
from factories import made_up_unit
from PIL import Image

from dmlrc import models, run
from dmlrc.unit import run_unit

ROOT = Path(__file__).parents[1]


def photographs(folder):
    """Eight classes of a colour each, three photographs of each, and three files more that are none."""
    rng = np.random.default_rng(0)
    for label in range(8):
        (folder / f"kind-{label}").mkdir(parents=True)
        for place in range(3):
            pixels = np.clip(rng.normal(30 * label, 4, (40, 40, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"kind-{label}" / f"{place}.png")
    whole = (folder / "kind-0" / "0.png").read_bytes()
    bad = {"kind-0": b"no image", "kind-3": whole[: len(whole) // 2], "kind-7": b"%!PS-Adobe-3.0 EPSF-3.0\n"}
    for name, content in bad.items():
        (folder / name / "bad.png").write_bytes(content)
    return [folder / name / "bad.png" for name in bad]


def test_the_commands_of_the_first_hour(home, call, monkeypatch):
    """What is trained are the neighbours on the page of the photographs, and the model that is kept."""
    monkeypatch.chdir(home)
    monkeypatch.setattr(run, "run_unit", made_up_unit)
    bad = photographs(home / "photos")
    code, _, said = call("photos", "photos", "--check")
    assert code == 1
    assert all(str(file) in said for file in bad)
    assert not (home / "studies.toml").exists()
    for file in bad:
        file.unlink()
    code, told, _ = call("photos", "photos", "--trials", "1", "--reruns", "1")
    assert code == 0
    assert re.search(r"does best of 14 losses.*\nWith one run each losses cannot be compared", told)
    assert f"open {home / 'runs' / 'photos' / 'photos.html'}" in told
    readme = (ROOT / "README.md").read_text()
    (home / "my_loss.py").write_text(re.search(r"```python\n(# my_loss\.py\n.*?)```", readme, re.DOTALL)[1])
    code, told, _ = call("compare", "my_loss.py", "--study", "photos")
    assert code == 0
    assert re.search(r"^my_loss is number \d+ of 15 methods", told, re.MULTILINE)
    assert call("study", "show", "photos")[1].count("my_loss") == 0
    wide = ("study", "run", "photos", "--set", "embedding_dim=16", "--as", "wide", "--method", "triplet")
    assert call(*wide)[0] == 0
    assert "triplet" in call("study", "show", "wide")[1]
    monkeypatch.setattr(run, "run_unit", run_unit)
    assert call("study", "run", "wide", "--method", "triplet", "--save-models")[0] == 0
    model = Path("runs", "wide", "triplet", "0-rerun-000.safetensors")
    code, told, _ = call("embed", str(model), "photos", "--output", "embeddings.npz")
    assert (code, "24 embeddings of 32 numbers" in told) == (0, True)
    found = np.load("embeddings.npz")
    nearest = (found["embeddings"] @ found["embeddings"][:1].T).argmax()
    assert found["paths"][nearest] == found["paths"][0]
    assert models.load(model).embed([Image.open(home / found["paths"][0])]).shape == (1, 32)
