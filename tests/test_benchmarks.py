"""The benchmarks run, at sizes that say nothing: what they print and write."""

import csv
import sys

import pytest
import torch

from benchmarks import evaluation, scaling


def test_each_comparison_calls_both():
    pytest.importorskip("faiss")
    called = []

    def timed(ours, peer, repeats):
        called.append((ours(), peer()))
        return 1.0, float(repeats)

    rows = dict(evaluation.rows(timed, torch.device("cpu"), sizes=((60, 6),)))
    assert [row() for row in rows.values()] == [(1.0, 7.0)] * 3
    assert [title.split(" | ")[1] for title in rows] == [
        "pytorch-metric-learning AccuracyCalculator",
        "faiss.knn alone",
        "its matrix products alone",
    ]
    ours, theirs = called[0]
    assert ours["map_at_r"] == pytest.approx(theirs["mean_average_precision_at_r"], abs=1e-6)


def test_exponents():
    assert scaling.exponent([10, 20, 40, 80], [7.0, 7.0, 3 * 40**1.5, 3 * 80**1.5]) == pytest.approx(1.5)


def test_curves_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(scaling, "SIZES", (100, 200))
    monkeypatch.setattr(sys, "argv", ["scaling", "--task", "retrieval", "--write", str(tmp_path / "points.csv")])
    scaling.main()
    points = list(csv.DictReader((tmp_path / "points.csv").open()))
    assert [(p["task"], int(p["images"])) for p in points] == [("retrieval", 100), ("retrieval", 200)]
    assert all(float(p["cpu_seconds"]) > 0 and p["commit"] and p["machine"] and p["date"] for p in points)
    assert "retrieval: time grows as images^" in capsys.readouterr().out
