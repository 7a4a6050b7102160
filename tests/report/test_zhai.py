"""The chapter of Zhai and Wu: the paper's numbers as printed, ours from records whose answers are known."""

import functools

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from drawings import drawn
from factories import LOSSES, level_of, made, run_notebook

from dmlrc.papers import zhai2019 as paper
from dmlrc.report import common, deviations, published, starts
from dmlrc.report.results_table import LIFT, results_table
from dmlrc.report.zhai2019 import figures, page

MAIN = "glyphs-full"
NAME = f"{MAIN}/zhai2019"
IDS = (
    *(f"zhai-t{number}" for number in range(1, 7)),
    *(f"zhai-f{number}" for number in range(1, 5)),
    "deviations-zhai",
)
STUDENT = {2: 12.706, 3: 4.303}
"""The 97.5 % quantile of Student's t with one degree of freedom less."""


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def score(method, setting, metric, rerun):
    """Normalised softmax 0.5, LMCL 0.45, others 0.4; bits 0.02 less, and 0.01 more so in each further rerun."""
    level = {"norm_softmax": 0.5, "lmcl": 0.45}.get(method.partition("@")[0], 0.4)
    bits = 0.02 + 0.01 * rerun if setting == "separated_binary" else 0.0
    return level - bits + (0.1 if metric != "precision_at_1" else 0.0)


def losses(table, by_study):
    """Cells and marks of one of Tables 1-3."""
    return results_table(page.compare_losses(page.losses_beside(table, by_study), by_study), 1)


def samples(by_study):
    found = common.with_ours(published.zhai_samples_per_class(), by_study, page.samples)
    return results_table(page.compare_samples(found, by_study), 1)


def rising(method, setting, metric, rerun):
    """A doubling is worth 1 point to floats and 2 points to bits, which meet at 2048."""
    below = 11 - np.log2(level_of(method)["level_number"])
    return 0.5 - (0.02 if setting == "separated_binary" else 0.01) * below + 0.001 * rerun


def layouts(method, setting, metric, rerun):
    """A layout has its number of images a class in hundredths, no balancing none; 75 x 1 fails."""
    layout = method.partition("@")[2]
    images = 0 if layout == "unbalanced" else int(layout.partition("x")[0])
    return 0.1 if images == 75 else 0.3 + 0.01 * images


def test_reader_leaves_out_what_is_uncertain():
    frame = published.zhai_results()
    assert len(frame) == 420
    rows = frame.set_index(["source_table", "dataset", "method", "dim", "binary", "metric", "trunk"])["value"]
    assert not rows.index.duplicated().any()
    assert rows["Table 5", "SOP", "norm_softmax", 2048, True, "recall_at_10", "resnet50"] == pytest.approx(0.909)
    assert rows["Table 6", "CUB200", "lmcl", 2048, False, "precision_at_1", "resnet50"] == pytest.approx(0.612)
    in_shop = frame[(frame["dataset"] == "In-Shop") & (frame["method"] == "htl")]
    assert in_shop.empty
    samples = published.zhai_samples_per_class()
    assert samples.set_index("samples")["value"][75] == pytest.approx(0.409)
    assert samples["samples"].isna().sum() == 1


def test_the_papers_loss_tables_are_as_printed():
    cells, marks = losses("Table 1", {})
    assert cells.loc["Lifted Struct", "SOP"].tolist() == ["512", "62.1"]
    assert cells.loc["Lifted Struct", ("Cars196", "dim")] == "128"
    assert cells.loc["NormSoftmax", "CUB200"].tolist() == ["512", "55.3"]
    assert marks.loc["Angular Loss", ("SOP", "R@1")] == "best"
    assert MAIN not in cells
    third = losses("Table 3", {})[0]
    assert third.index.tolist() == ["Margin", "NormSoftmax, 128-d", "NormSoftmax, 512-d"]
    assert third.loc["NormSoftmax, 512-d", ("CUB200", "R@1")] == "61.3"


def test_our_losses_stand_beside_table_1_and_nowhere_else():
    lost = made(f"{NAME}/losses", score, diverged=[("angular", rerun) for rerun in range(3)])
    found = {MAIN: lost}
    cells, marks = losses("Table 1", found)
    assert cells.loc["NormSoftmax", (MAIN, "R@1")] == "50.0 ± 0.0 (1)"
    assert cells.loc["Angular Loss", (MAIN, "R@1")] == "diverged"
    assert cells.loc["Margin", ("SOP", "R@1")] == "–"  # not in the paper's Table 1
    assert marks[MAIN, "R@1"]["NormSoftmax"] == "best"
    assert list(cells.index[-2:]) == ["Untrained trunk", LIFT]
    assert "other" not in cells
    for table in ("Table 2", "Table 3"):
        assert MAIN not in losses(table, found)[0]


def test_the_ranks_of_the_classifier_in_equal_batches():
    def worse(method, setting, metric, rerun):
        return 0.3 if method == "norm_softmax@5x15" else score(method, setting, metric, rerun)

    assert page.equal_ranks(made(f"{NAME}/losses-equal", score)) == (1, 1, 8)
    assert page.equal_ranks(made(f"{NAME}/losses-equal", worse)) == (8, 8, 8)
    assert np.isnan(page.equal_ranks(made(f"{NAME}/losses-equal", score, missing=("norm_softmax@5x15",)))[0])


def test_numbers_of_a_study(monkeypatch):
    by_name = {"": score, "/losses-equal": score, "/samples": layouts, "/dims": rising, "/layer_norm": score}
    found = {f"zhai2019{name}": made(f"{NAME}{name}", each) for name, each in (by_name | {"/shares": score}).items()}
    monkeypatch.setattr(page.editions, "experiment_of", lambda main, name: found[name])
    curve = pd.Series({16.0: 0.43, 64.0: 0.46, 2048.0: 0.5})  # floats: 0.431, 0.451 and 0.501
    monkeypatch.setattr(starts, "by_dimension", lambda main: curve)
    numbers = page._of_study(MAIN)
    assert (numbers["sizes_above"], numbers["sizes"]) == (2, 3)
    assert (numbers["rank_low"], numbers["losses"]) == (1, 8)
    assert numbers["best_images"] == 37
    assert (numbers["bits"], numbers["small_bits"]) == (pytest.approx(3), pytest.approx(7))
    assert numbers["tenth"] == numbers["layer_norm"] == pytest.approx(0)


def test_batches_are_classes_x_images():
    own, equal = made(f"{NAME}/losses", score), made(f"{NAME}/losses-equal", score)
    cells = results_table(page.compare_layouts({MAIN: own}, {MAIN: equal}), 1)[0]
    assert [head for _, head in cells] == ["its own", "15 x 5"]


def test_trunk_decides_beside_which_table_ours_stand():
    records = made(f"{NAME}/losses", score)
    records.meta["protocol"]["trunk"] = "resnet50"
    assert losses("Table 3", {MAIN: records})[0].loc["NormSoftmax, 512-d", (MAIN, "R@1")].startswith("50.0")
    assert MAIN not in losses("Table 1", {MAIN: records})[0]


def test_samples_per_class():
    records = made(f"{NAME}/samples", layouts, diverged=(("norm_softmax@3x25", 0),))
    cells, marks = samples({MAIN: records})
    assert cells.index.tolist() == [
        "no balancing",
        "75 x 1",
        "25 x 3",
        "6 x 12",
        "3 x 25",
        "2 x 37",
        "1 x 75",
        "Untrained trunk",
        LIFT,
    ]
    assert cells.columns[-1] == "the paper, CUB200"
    assert cells["the paper, CUB200"].tolist() == ["59.5", "59.6", "60.0", "60.8", "61.3", "59.6", "40.9", *"––"]
    assert cells.loc["Untrained trunk", MAIN] == "20.0"
    assert cells.loc["6 x 12", MAIN] == "42.0 ± 0.0 (3)"
    assert marks.loc["2 x 37", MAIN] == "best"
    assert "other" not in cells
    fewer = samples({MAIN: made(f"{NAME}/samples", layouts, missing=("norm_softmax@1x75",))})[0]
    assert fewer.loc["75 x 1", MAIN] == "–"


def test_floats_and_bits_beside_tables_5_and_6():
    main, dims = made(NAME, score), made(f"{NAME}/dims", rising)
    found = page.embeddings_beside("Table 6", {MAIN: main}, {MAIN: dims})
    cells, marks = results_table(page.compare_embeddings(found, {MAIN: main}), 1)
    assert cells.loc["NormSoftmax, 2048 bits", ("Cars196", "R@1")] == "88.7"
    assert cells.loc["NormSoftmax, 2048 bits", (MAIN, "R@1")] == f"47.0 ± {STUDENT[3] / np.sqrt(3):.1f} (2–6)"
    assert cells.loc["NormSoftmax, 2048 d", (MAIN, "R@1")] == "50.0 ± 0.0 (1–2)"  # of the main study, not of the sweep
    assert cells.loc["NormSoftmax, 128 d", (MAIN, "R@1")].startswith("46.1")
    assert cells.loc["LMCL, 512 d", (MAIN, "R@1")] == "–"
    assert cells.loc[LIFT, (MAIN, "R@1")].startswith("+2")
    assert cells.loc[LIFT, ("Cars196", "R@1")] == "–"
    assert marks.loc["NormSoftmax, 2048 d", (MAIN, "R@1")] == "best"
    assert marks.loc["NormSoftmax, 2048 d", ("CUB200", "R@1")] == "best"
    assert not any(row.startswith("NormSoftmax, 16 ") for row in cells.index)
    found = page.embeddings_beside("Table 5", {}, {})
    nothing = results_table(page.compare_embeddings(found, {}), 1)[0]
    assert MAIN not in nothing
    assert nothing.loc["HTL, 512 d", ("In-Shop", "R@1")] == "–"
    assert nothing.index.tolist().index("DREML, 9216 d") < nothing.index.tolist().index("LMCL, 512 d")


def test_what_bits_cost():
    found = page.bits_cost(made(NAME, score))
    assert (found.value, found.n) == (pytest.approx(-0.03), 3)
    assert found.half == pytest.approx(STUDENT[3] * 0.01 / np.sqrt(3), rel=1e-3)
    assert np.isnan(page.bits_cost(made(NAME, score, missing=("norm_softmax",))).value)


def test_an_interval_ends_where_the_scale_of_a_score_does():
    scores = pd.DataFrame({"mean": [0.02, 0.5, 0.99], "ci95": [0.05, 0.1, 0.04]})
    _, _, [bars] = common.errorbars(plt.figure().subplots(), pd.Series([1, 2, 3]), scores)
    ends = [segment[:, 1].round(9).tolist() for segment in bars.get_segments()]
    assert ends == [[0.0, 7.0], [40.0, 60.0], [95.0, 100.0]]


def test_sizes_and_the_gap_between_floats_and_bits():
    dims = made(f"{NAME}/dims", rising, diverged=(("norm_softmax@dim16", 2),))
    frame = page.sizes(dims)
    assert frame[frame["head"] == "floats"]["dim"].tolist() == list(paper.EMBEDDING_DIMS)
    gaps = frame[frame["head"] == "bits less floats"].set_index("dim")
    assert gaps["mean"][2048] == pytest.approx(0.0, abs=1e-12)
    assert gaps["mean"][16] == pytest.approx(-0.07)
    cells = results_table(common.ours({MAIN: dims}, page.sizes), 1)[0]
    assert cells.loc["64", (MAIN, "bits less floats")] == "-5.0 ± 0.0"
    figure = figures.draw_sizes(MAIN, dims)
    floats, bits = (container.lines[0].get_ydata(orig=False) for container in figure.axes[0].containers)
    np.testing.assert_allclose(floats[-1], bits[-1])
    np.testing.assert_allclose(floats[1], 100 * (0.5 - 0.06 + 0.001))
    begun = figures.draw_sizes(MAIN, dims, {MAIN: pd.Series({64.0: 0.3, 128.0: 0.4})})
    assert begun.axes[0].lines[-1].get_ydata().tolist() == [30.0, 40.0]
    assert "untrained" in {text.get_text() for text in begun.axes[0].get_legend().get_texts()}


def test_layer_norm_curves_and_the_loss_of_knowing_nothing():
    records = made(f"{NAME}/layer_norm", lambda method, *_: 0.3 if "no-" in method else 0.4)
    curves = page.layer_norm_curves(records).set_index(["method", "metric", "step"])
    first = curves.loc[("norm_softmax@layer-norm", "loss", 10)]
    assert first["mean"] == pytest.approx(LOSSES[0] + 1.0)  # of reruns 0, 1 and 2
    assert first["ci95"] == pytest.approx(STUDENT[3] / np.sqrt(3), rel=1e-3)
    # 180 classes: the first half is 90, a fifth of it validates
    assert page.training_classes(records, "norm_softmax@layer-norm") == 72
    assert page.training_classes(made(NAME, score), "norm_softmax") == 90
    cells = results_table(page.compare_layer_norm({MAIN: records}), 1)[0]
    assert cells.loc[(MAIN, "without"), "R@1, test"] == "30.0 ± 0.0"
    assert cells.loc[(MAIN, "with LayerNorm"), "ln C"] == f"{np.log(72):.2f}"
    figure = figures.draw_layer_norm(MAIN, records)
    dotted = [line for line in figure.axes[0].get_lines() if line.get_linestyle() == ":"]
    np.testing.assert_allclose(dotted[0].get_ydata(), np.log(72))
    lost = made(f"{NAME}/layer_norm", score, missing=("norm_softmax@no-layer-norm",))
    assert (MAIN, "without") not in results_table(page.compare_layer_norm({MAIN: lost}))[0].index
    drawn(figures.draw_layer_norm(MAIN, lost))


def test_shares_of_the_classes():
    def score(method, setting, metric, rerun):
        return (0.5 if method.endswith("share1") else 0.49) + 1e-5 * rerun

    records = made(f"{NAME}/shares", score)
    cells = results_table(page.compare_shares({MAIN: records}), 1)[0]
    assert cells.index.tolist() == ["100 %", "50 %", "25 %", "10 %", "1 %", "0.1 %", "Untrained trunk"]
    assert cells.loc["1 %", "the paper, SOP"] == "75.7"
    assert cells.loc["10 %", MAIN] == "49.0 ± 0.0"
    assert cells.loc["1 %", MAIN] == "–"
    lines = {container.get_label() for container in figures.draw_shares(MAIN, records).axes[0].containers}
    assert lines == {"R@1", "R@10", "R@100"}


def test_architecture_names_the_protocols_numbers():
    text = " ".join(drawn(figures.architecture()))
    for number in ("3 classes x 25", "224 px", "ResNet50", "0.05"):
        assert number in text


def test_ledger_names_what_differs_and_only_that():
    other = made("first-runs/grocery-frozen/zhai2019", score)
    rows = deviations.ledger("zhai2019", {MAIN: made(NAME, score), "first-runs/grocery-frozen": other}).set_index(
        "setting"
    )
    assert rows.loc["embedding_dim", "ours"] == "2048"
    assert rows.loc["frozen_trunk", "ours"] == "Glyphs: no; Grocery Store (first run): yes"
    assert rows.loc["lr", "the paper's"] == "0.01"
    assert "images in a batch" not in rows.index  # 75, as the paper
    assert not {"layer_norm", "momentum", "optimizer"} & set(rows.index)


@pytest.mark.parametrize("state", ["nothing", "one seed"])
def test_chapter_publishes_every_exhibit(state, tmp_path, monkeypatch, without_pictures):
    scores = {f"{NAME}/dims": rising, f"{NAME}/samples": layouts}

    @functools.cache
    def load(main, experiment):
        name = f"{main}/{experiment}"
        if state == "nothing" or experiment == "projections":
            return None
        lost = {NAME: "lmcl", f"{NAME}/dims": "norm_softmax@dim64", f"{NAME}/losses": "margin"}.get(name, "")
        return made(name, scores.get(name, score), reruns=1, diverged=((lost, 0),))

    exports = run_notebook("13_zhai2019", MAIN, "zhai", load, tmp_path, monkeypatch)
    for name in IDS:
        files = [path for path in exports.glob(f"{name}.*") if path.suffix in (".csv", ".svg")]
        assert files, name
        assert all(path.stat().st_size > 60 for path in files), name
    assert (exports / "zhai-f2.svg").exists() == (state != "nothing")
