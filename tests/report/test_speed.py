"""The page on speed, from made-up measurements and from the committed ones."""

import io

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from dmlrc.report.speed import figures, page

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
    monkeypatch.setattr(page, "MEASUREMENTS", tmp_path)
    yield
    plt.close("all")


def test_cells_are_the_medians_and_their_ratio():
    cells = page.peer_cells(page.peers())
    assert cells.loc["a loss"].tolist() == ["library", "1.00", "4.00", "4.00"]
    assert list(cells.index) == ["a loss", "a step", "a metric"]


def test_sentences_hold_the_numbers():
    text = page.peers_sentence(page.peers())
    assert "Our part is faster than its peer in 2 of 3 comparisons; the median ratio is 1.5." in text
    assert page.extremes_sentence(page.peers()) == (
        "Furthest behind its peer: a metric (0.50 times as fast as search); furthest ahead: a loss (4 times as fast as "
        "library)."
    )
    text = page.growth_sentence()
    assert "P@1, R-precision and MAP@R with exponent 2.0, a proposal of a search with exponent 1.0" in text
    assert "8,000 images take 64 seconds of one core and 80 MB" in page.largest_sentence()
    assert "2.0 times as fast with 2 workers" in text
    assert "made, at commit 0000000000 (2026-01-01)." in page.where(page.growth())
    assert "up to 3.0 processes" in page.where(page.growth().assign(load=3.0))


def test_a_gpu_is_named_and_what_it_was_not_asked():
    found = page.on_a_gpu()
    assert page.where(found).startswith(
        "Measured on A GPU, beside made, with torch 2 and pytorch-metric-learning 3, at"
    )
    assert page.unmeasured_sentence() == "Not measured there, since its time was short: a metric."
    assert page.beside_cpu_sentence() == ""


def test_a_step_on_a_gpu_stands_beside_that_on_a_cpu(tmp_path):
    for file, times in {"peers": (0.7, 0.9), "peers-gpu": (1.1, 0.8)}.items():
        rows = [{"what": f"step {loss}, 8", "ours_ms": ms} for loss, ms in zip(("a", "b"), times, strict=True)]
        pd.DataFrame(rows).assign(commit="0").to_csv(tmp_path / f"{file}.csv", index=False)
    assert page.beside_cpu_sentence().startswith(
        "A step of a frozen study takes 0.8 to 1.1 ms on this GPU and 0.7 to 0.9 ms of one core of the CPU above: 1 of"
    )


def test_a_part_may_be_as_fast_as_its_peer():
    found = pd.DataFrame({"ratio": [0.5, 1.005, 2.0]})
    assert page.peers_sentence(found).startswith(
        "Our part is faster than its peer in 1 of 3 comparisons, as fast in 1;"
    )


def test_exponents_are_those_of_the_larger_sizes():
    found = page.exponents()
    assert found.to_dict() == {"retrieval": pytest.approx(2), "proposal": pytest.approx(1)}


def test_figures():
    figure = figures.peers_figure(page.peers())
    [dots] = figure.axes[0].collections
    np.testing.assert_allclose(dots.get_offsets()[:, 1], [0.5, 1.5, 4.0])
    assert "a loss: 4.00 times as fast as library" in dots.get_urls()[2]
    figure, _ = figures.growth_figure(page.growth(), page.exponents())
    figure.savefig(io.BytesIO(), format="svg")
    assert "P@1, R-precision and MAP@R, exponent 2.0" in [
        text.get_text() for text in figure.axes[0].get_legend().get_texts()
    ]
    assert len(figure.axes[1].get_lines()) == 1  # memory is known of the evaluation only


def test_the_committed_measurements_are_whole(monkeypatch):
    monkeypatch.undo()
    assert {"what", "peer", "ratio", "load", "machine", "commit"} <= set(page.peers())
    assert (page.peers()["ratio"] > 0).all()
    assert set(page.on_a_gpu()["device"]) != {"cpu"}
    assert set(page.growth()["task"]) == set(figures.LOOKS)
    assert page.growth()["seconds"].gt(0).all()
