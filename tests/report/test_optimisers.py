"""The page on optimisers, from made-up measurements and from the committed ones."""

from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest

from dmlrc.report import editions, optimisers, prose

ROOT = Path(__file__).parents[2]
BEST = {"random": (0.1, 0.2, 0.3), "cma-es": (0.1, 0.2, 0.2), "tpe4": (0.1, 0.3, 0.35), "tpe5": (0.1, 0.3, 0.4)}
"""The best of 10, 25 and 50 evaluations."""


@pytest.fixture(autouse=True)
def made(tmp_path, monkeypatch):
    """Three problems, the second worse by 0.1; the Gaussian process was tried on the first, and found more."""
    rows = [
        {"study": f"study-{number}", "method": "snr", "sampler": name, "ceiling": 0.5, "commit": "0000000000"}
        | {f"best_{count}": value - 0.1 * (number == 1) for count, value in zip((10, 25, 50), best, strict=True)}
        for number in range(3)
        for name, best in (BEST | ({"gp": (0.2, 0.5, 0.6)} if number == 0 else {})).items()
    ]
    for row in rows:
        row["ceiling"] = 0.6 if row["sampler"] == "gp" else 0.5
    pd.DataFrame(rows).to_csv(tmp_path / "hpo.csv", index=False)
    ended = [(2, 0.5, 0.0), (2, 0.7, 0.001), (4, 0.8, 0.02), (4, 0.8, 0.0)]
    frame = pd.DataFrame(ended, columns=["factor", "saved", "lost"]).assign(study="s", method="m", commit="0000000000")
    frame.to_csv(tmp_path / "halving.csv", index=False)
    monkeypatch.setattr(optimisers, "MEASUREMENTS", tmp_path)
    yield
    plt.close("all")


def test_regret_is_below_the_highest_that_any_sampler_found():
    everything, with_gp = optimisers.regrets().values()
    assert len(everything) == 3
    np.testing.assert_allclose(everything[50]["tpe5"], [0.2, 0.2, 0.1])  # the first problem has the ceiling 0.6
    assert len(with_gp) == 1
    np.testing.assert_allclose(with_gp[50]["gp"], [0.0])
    found = optimisers.regret_means(everything).loc["tpe5", 50]
    assert found["mean"] == pytest.approx(0.5 / 3)
    assert found["n"] == 3


def test_cells_of_samplers():
    cells = optimisers.regret_cells(optimisers.regrets())
    assert list(cells.index) == ["random", "CMA-ES", "TPE, Optuna 4", "TPE, Optuna 5", "Gaussian process"]
    half = 4.302653 * np.std([20, 20, 10], ddof=1) / np.sqrt(3)
    assert cells["all (3)", "after 50"]["TPE, Optuna 5"] == f"16.67 ± {half:.2f}"
    assert cells["all (3)", "after 50"]["Gaussian process"] == "–"
    assert cells["with the Gaussian process (1)", "after 25"]["Gaussian process"] == "10.00"


def test_cells_of_early_stopping():
    cells = optimisers.halving_cells(optimisers.halving())
    assert list(cells.index) == ["best of 2", "best of 4"]
    assert cells["training saved, %"].str.split(" ").str[0].tolist() == ["60", "80"]
    assert cells["MAP@R lost, points"].str.split(" ").str[0].tolist() == ["0.050", "1.000"]
    assert cells["best trial kept, %"].str.split(" ").str[0].tolist() == ["50", "50"]


def test_the_figure_has_a_line_for_each_sampler():
    figure = optimisers.regret_figure(optimisers.regrets()["all"])
    assert len(figure.axes[0].containers) == 4
    line = figure.axes[0].containers[3].lines[0]
    np.testing.assert_allclose(line.get_ydata().astype(float), np.array([140, 80, 50]) / 3)


def test_numbers_are_of_the_same_problems():
    told = optimisers.numbers()
    assert told["all.problems"] == 3
    assert told["searches"] == 2
    assert (told["saved.2"], told["kept.4"]) == (pytest.approx(60), pytest.approx(50))
    assert told["all.tpe5.50"] == pytest.approx(100 * 0.5 / 3)
    assert told["all.tpe5.50.gain"] == pytest.approx(10)
    assert told["all.tpe5.50.gain_ci95"] == pytest.approx(0, abs=1e-9)
    assert told["newer"] == pytest.approx(5)
    assert told["gp.gp.50"] == pytest.approx(0)


def test_no_sentence_of_the_page_holds_of_other_measurements(tmp_path, monkeypatch):
    """Of a TPE that is worse than chance, a CMA-ES that is better, a useless GP, and an early end that saves little."""
    ahead = {"random": 0.0, "cma-es": 0.1, "tpe4": -0.01, "tpe5": -0.01, "gp": 0.0}
    rows = [
        {"study": f"study-{number}", "method": "snr", "sampler": name, "ceiling": 0.5, "commit": "0"}
        | {f"best_{count}": 0.3 + ahead[name] + 0.001 * number * (name == "random") for count in (10, 25, 50)}
        for number in range(3)
        for name in optimisers.LOOKS
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "hpo.csv", index=False)
    ended = [(factor, 0.1, 0.05) for factor in (2, 3, 4)] * 2
    pd.DataFrame(ended, columns=["factor", "saved", "lost"]).assign(commit="0").to_csv(
        tmp_path / "halving.csv", index=False
    )
    cells = nbformat.read(ROOT / "notebooks" / "22_hpo_benchmark.ipynb", as_version=4).cells
    [cell] = [each for each in cells if "guards" in each.metadata.get("tags", [])]
    found = {}
    monkeypatch.setattr(prose, "put", lambda numbers: None)
    monkeypatch.setattr(prose, "says", lambda sentence, holds: found.__setitem__(sentence, holds))
    exec(cell.source, {"prose": prose, "edition": []})
    assert len(found) == 8
    assert [sentence for sentence, holds in found.items() if holds] == ["with 50 evaluations, for"]  # a setting


def test_the_committed_measurements_are_whole(monkeypatch):
    monkeypatch.undo()
    everything, with_gp = optimisers.regrets().values()
    assert {study for study, _ in with_gp.index} <= set(editions.FIRST)
    assert (len(everything), len(with_gp)) == (186, 42)
    assert (everything >= 0).all(axis=None)
    ended = optimisers.halving()
    assert ended["saved"].between(0, 1).all()
    assert (ended["lost"] >= 0).all()
    assert ended.groupby("factor").size().nunique() == 1
