"""The page on speed, from made-up measurements and from the committed ones."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest
from drawings import drawn

from dmlrc.report import labels, prose, speed

ROOT = Path(__file__).parents[2]
PLACE = {"load": 0.5, "cores": 2, "machine": "made", "date": "2026-01-01", "commit": "0000000000"}


@pytest.fixture(autouse=True)
def made(tmp_path, monkeypatch):
    """Three comparisons, and a task that grows as the square."""
    rows = [("a loss", "library", 1.0, 4.0), ("a step", "loop", 2.0, 3.0), ("a metric", "search", 2.0, 1.0)]
    peers = [
        {"what": what, "peer": peer, "ours_ms": ours, "peer_ms": theirs, "ratio": theirs / ours, **PLACE}
        for what, peer, ours, theirs in rows
    ]
    pd.DataFrame(peers).to_csv(tmp_path / "peers.csv", index=False)
    pd.DataFrame(peers[:2]).assign(device="A GPU", torch="2", pytorch_metric_learning="3").to_csv(
        tmp_path / "peers-gpu.csv", index=False
    )
    growth = [("retrieval", "images", size, 1e-6 * size**2, size / 100) for size in (1000, 2000, 4000, 8000)]
    growth += [("proposal", "trials", size, 0.001 * size, np.nan) for size in (1, 10, 100)]
    growth += [("study", "workers", size, 20 / min(size, 2), np.nan) for size in (1, 2, 4)]
    columns = ["task", "unit", "size", "seconds", "megabytes"]
    pd.DataFrame(growth, columns=columns).assign(**PLACE).to_csv(tmp_path / "growth.csv", index=False)
    monkeypatch.setattr(speed, "MEASUREMENTS", tmp_path)
    yield
    plt.close("all")


def test_cells_are_the_medians_and_their_ratio():
    cells = labels.cells(speed.peers().set_index("what"), speed.PEER_CELLS, ",.2f")
    assert cells.loc["a loss"].tolist() == ["library", "1.00", "4.00", "4.00"]
    assert list(cells.index) == ["a loss", "a step", "a metric"]


def test_numbers_of_made_up_measurements(tmp_path):
    rows = [("step a, 8", "plain loop, pytorch-metric-learning", 2.0, 3.0), ("a metric", "faiss.knn alone", 2.0, 1.0)]
    rows += [("step a, 8", "plain loop, the same loss", 2.2, 3.3), ("crops", "torchvision", 2.0, 1.0)]
    frame = pd.DataFrame(rows, columns=["what", "peer", "ours_ms", "peer_ms"]).eval("ratio = peer_ms / ours_ms")
    frame.assign(commit="0").to_csv(tmp_path / "peers.csv", index=False)
    scored = pd.DataFrame({"what": ["P@1"], "peer": ["its Calculator"], "ours_ms": [1.0], "ratio": [5.0]})
    there = pd.concat([frame.assign(ours_ms=2.5), scored]).assign(commit="0")
    there.to_csv(tmp_path / "peers-gpu.csv", index=False)
    assert speed.numbers() == {
        "cpu.median": pytest.approx(1.5),
        "cpu.least_over_library": 1.5,
        "cpu.slower": "crops",
        "gpu.scoring.low": 5.0,
        "gpu.scoring.high": 5.0,
        "gpu.steps_slower": 1.0,
        "largest.images": "8,000",
        "largest.seconds": pytest.approx(64),
        "exponent.low": pytest.approx(2),
        "exponent.high": pytest.approx(2),
        "proposal.ms": pytest.approx(100),
        "workers.two": 2.0,
        "workers.most": 2.0,
    }


def test_no_sentence_of_the_page_holds_of_other_measurements(tmp_path, monkeypatch):
    """Of a library that is faster in losses and slower in a step, on a machine that grows otherwise."""
    cells = nbformat.read(ROOT / "notebooks" / "21_speed.ipynb", as_version=4).cells
    [cell] = [each for each in cells if "guards" in each.metadata.get("tags", [])]
    rows = [("step a, 8", speed.LIBRARY, 2.0, 1.0), ("loss a, 8", speed.LIBRARY, 2.0, 1.0)]
    frame = pd.DataFrame(rows, columns=["what", "peer", "ours_ms", "peer_ms"]).eval("ratio = peer_ms / ours_ms")
    frame.assign(commit="0").to_csv(tmp_path / "peers.csv", index=False)
    scored = pd.DataFrame({"what": ["P@1"], "peer": ["its Calculator"], "ours_ms": [1.0], "ratio": [0.5]})
    there = pd.concat([frame.assign(ours_ms=1.5), scored]).assign(commit="0")
    there.to_csv(tmp_path / "peers-gpu.csv", index=False)
    found = {}
    monkeypatch.setattr(prose, "put", lambda numbers: None)
    monkeypatch.setattr(prose, "says", lambda sentence, holds: found.__setitem__(sentence, holds))
    exec(cell.source, {"prose": prose, "edition": []})
    assert len(found) == 10
    assert [sentence for sentence, holds in found.items() if holds] == []


def test_a_machine_is_named_and_whether_it_was_busy():
    grown = speed.made_on(speed.growth().assign(load=3.0))
    assert list(grown.values()) == ["made", "0000000000", "2026-01-01", "at most 3.0"]
    assert list(speed.made_on(speed.peers("peers-gpu")).values())[:4] == ["made", "A GPU", "2", "3"]


def test_exponents_are_those_of_the_larger_sizes():
    found = speed.exponents()
    assert found.to_dict() == {"retrieval": pytest.approx(2), "proposal": pytest.approx(1)}


def test_figures():
    figure = speed.peers_figure(speed.peers())
    [dots] = figure.axes[0].collections
    np.testing.assert_allclose(dots.get_offsets()[:, 1], [0.5, 1.5, 4.0])
    assert "a loss / library: 4.00 times as fast" in dots.get_urls()[2]
    figure, _ = speed.growth_figure(speed.growth(), speed.exponents())
    drawn(figure)
    assert "P@1, R-precision and MAP@R, exponent 2.0" in [
        text.get_text() for text in figure.axes[0].get_legend().get_texts()
    ]
    assert len(figure.axes[1].get_lines()) == 1  # memory is known of the evaluation only


def test_the_committed_measurements_are_whole(monkeypatch):
    monkeypatch.undo()
    assert {"what", "peer", "ratio", "load", "machine", "commit"} <= set(speed.peers())
    assert (speed.peers()["ratio"] > 0).all()
    assert set(speed.peers("peers-gpu")["device"]) != {"cpu"}
    assert set(speed.growth()["task"]) == set(speed.LOOKS)
    assert speed.growth()["seconds"].gt(0).all()
