"""The chapter of Fehervari et al.: the paper's numbers as printed, ours from records whose answers are known."""

import functools

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from factories import level_of, made, run_notebook
from matplotlib.colors import to_hex
from scipy import stats

from dmlrc.methods import LOSS_WEIGHTS_LR
from dmlrc.report import common, deviations, published, statistics, style
from dmlrc.report.fehervari2019 import figures, page
from dmlrc.report.results_table import results_table

MAIN = "glyphs-full"
NAME = f"{MAIN}/fehervari2019"
IDS = (
    *(f"fehervari-t{number}" for number in range(1, 5)),
    *(
        "fehervari-f1",
        "fehervari-f2",
        "fehervari-f2-equal",
        "fehervari-order",
        "deviations-fehervari",
    ),
)
LEVELS = {name: 0.5 - 0.02 * place for place, name in enumerate(page.ORDER)}


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def score(method, setting, metric, rerun):
    """R@1 falls by 2 points a row of Table 2; bits cost 3 points, an ensemble gains 10; reruns 1 point apart."""
    bonus = {"separated_binary": -0.03, "concatenated": 0.1}.get(setting, 0.0)
    return LEVELS[method] + bonus + 0.01 * rerun + (0.2 if metric == "nmi" else 0.0)


def rising(method, setting, metric, rerun):
    """A doubling is worth 1 point to all but N-pairs, and half a point more in each further rerun."""
    level = level_of(method)
    slope = 0.0 if level["row"] == "n_pairs" else 0.01 + 0.005 * rerun
    return 0.1 + slope * np.log2(level["level_number"])


def test_the_papers_tables_are_as_printed():
    cells, marks = results_table(page.compare_with_paper("CUB200", {}), 1)
    inception, resnet = "the paper, BN-Inception", "the paper, ResNet50"
    assert cells.loc["Triplet Semihard", inception].tolist() == ["50.9", "61.1"]
    assert cells.loc["Triplet Semihard", (resnet, "R@1")] == "48.2†"
    assert cells.loc["Struct Clust", (resnet, "R@1")] == "–"
    assert cells.loc["DREML", (resnet, "NMI")] == "63.2"
    assert cells.loc["Margin Loss", ("originally reported", "R@1")] == "63.6"
    assert MAIN not in cells
    assert marks.loc["ProxySoftmax", (inception, "R@1")] == "best"
    assert len(cells) == 12


def test_every_cell_that_differs_from_the_authors_plots_has_a_dagger():
    cells = pd.concat(
        [results_table(page.compare_with_paper(name, {}))[0].stack([0, 1]) for name in page.DATASETS.values()]
    )
    assert cells.str.contains("†").sum() == 7
    assert sorted(cells[cells.str.contains("‡")]) == ["67.31‡"]


def test_slips_do_not_compete():
    scores = page.compare_with_paper("SOP", {}).set_index(["method", "column"])["among_best"]
    assert np.isnan(scores["n_pairs", ("the paper, BN-Inception", "NMI")])
    assert scores["n_pairs", ("the paper, BN-Inception", "R@1")] == False  # noqa: E712
    assert "n_pairs" in page.by_table({})["SOP (BN-Inception)"]


def test_our_rows_are_in_the_setting_of_the_papers():
    frame = page.headline(made(NAME, score)).set_index(["method", "metric"])
    assert frame.loc[("dreml", "precision_at_1"), "mean"] == pytest.approx(LEVELS["dreml"] + 0.1 + 0.01)
    assert frame.loc[("proxy_softmax", "precision_at_1"), "mean"] == pytest.approx(
        LEVELS["proxy_softmax"] - 0.03 + 0.01
    )
    bits = LEVELS["proxy_softmax"] - 0.03 + 0.2 + 0.01
    assert frame.loc[("proxy_softmax", "nmi"), "mean"] == pytest.approx(bits)
    assert frame.loc[(page.FLOATS, "nmi"), "mean"] == pytest.approx(bits + 0.03)
    assert frame.loc[(page.FLOATS, "precision_at_1"), "mean"] == pytest.approx(LEVELS["proxy_softmax"] + 0.01)
    assert frame.loc[("margin", "nmi"), "ci95"] == pytest.approx(4.303 * 0.01 / np.sqrt(3), rel=1e-3)
    assert not frame.index.duplicated().any()


def test_few_random_images_seldom_hold_a_pair():
    assert page.with_a_pair(100, 2) == pytest.approx(0.01)
    assert page.with_a_pair(100, 4) == pytest.approx(0.059, abs=0.001)
    assert page.with_a_pair(3, 4) == 1


def test_one_seed_a_missing_and_a_diverged_method():
    records = made(NAME, score, reruns=1, missing=("angular",), diverged=(("margin", 0),))
    cells, marks = results_table(page.compare_with_paper("Cars196", {MAIN: records}), 1)
    assert cells.loc["Angular Loss", (MAIN, "R@1")] == "–"
    assert cells.loc["Margin Loss", (MAIN, "NMI")] == "diverged"
    assert cells.loc["Triplet Semihard", (MAIN, "R@1")] == "50.0 (1–10)"  # no interval of one seed
    assert cells.loc["Triplet Semihard", (MAIN, "NMI")] == "70.0"
    assert marks[MAIN, "R@1"].tolist().count("best") == 1
    assert page.original_settings({MAIN: records}).loc["Margin Loss", "ours"] == "diverged"


def test_settings_hold_the_papers_and_ours():
    cells = page.original_settings({MAIN: made(NAME, score)})
    assert cells.loc["DREML", "embedding"] == "12 x 48"
    assert cells.loc["DREML", "ours"] == "12 x 12"
    assert cells.loc["ProxySoftmax", "ours"] == "2048"
    fewer = made(NAME, score, missing=("angular",))
    assert page.original_settings({MAIN: fewer, "second": made(NAME, score)}).loc["Angular Loss", MAIN] == "not run"
    both = page.original_settings({MAIN: made(NAME, score), "second": made(NAME, score)})
    assert list(both.columns[-2:]) == ["normalised", "ours"]  # equal columns stand once
    assert both.loc["DREML", "ours"] == "12 x 12"


def test_order_of_the_methods():
    frame = page.orders({MAIN: made(NAME, score)}).set_index(["first", "second"])
    reported_r1 = published.fehervari_settings().set_index("method")["reported_r1"].dropna()
    reported_r1 = reported_r1.drop(["dreml", "proxy_softmax"], errors="ignore")
    ranks = pd.Series(score_of(list(reported_r1.index)), reported_r1.index).rank()
    expected = np.corrcoef(ranks, reported_r1.rank())[0, 1]  # Spearman's rho by its definition
    assert frame.loc[(MAIN, "reported, CUB200"), "rho"] == pytest.approx(expected)
    assert frame.loc[(MAIN, "CUB200 (BN-Inception)"), "n"] == 10
    assert (MAIN, MAIN) not in frame.index
    cells = results_table(page.order_correlations(frame.reset_index()))[0]
    assert cells.loc["CUB200 (BN-Inception)", "CUB200 (BN-Inception)"] == "–"


def score_of(methods):
    table = page.headline(made(NAME, score, reruns=1))
    return page.of_metric(table, page.R1)["mean"][methods].to_numpy()


def test_numbers_of_the_paper():
    found = page._of_paper()
    assert found["paper.semihard"] == "10 of 12"  # though the text calls it the worst of all
    assert [found[f"paper.{name}"] for name in ("reported", "trunks", "sizes")] == [10, 3, 4]
    assert (found["paper.higher"], found["paper.compared"], found["paper.fallen"]) == (6, 10, "margin")
    assert found["paper.fall"] == pytest.approx(12.3)
    assert (round(found["paper.own_low"], 2), round(found["paper.own_high"], 2)) == (0.29, 0.83)


def test_numbers_of_the_orders():
    records = made(NAME, score)
    found = page._of_orders([records], page.orders({records.name: records}))
    frame = page.orders({MAIN: records})
    frame = frame[frame["first"] == MAIN]
    assert (found["orders"], found["fewest"], found["most"]) == (len(frame), frame["n"].min(), frame["n"].max())
    reported = frame[frame["second"].str.startswith("reported, ")]["rho"]
    assert found["reported_low"] == reported.min()
    assert found[f"{records.meta['dataset']}.reported"] == pytest.approx(reported.mean())


def test_numbers_of_a_study(monkeypatch):
    by_name = {"fehervari2019": made(NAME, score)}
    by_name |= {f"fehervari2019/{swept}": made(f"{NAME}/{swept}", rising) for swept in ("dims", "batches-equal")}
    monkeypatch.setattr(page.editions, "experiment_of", lambda main, name: by_name[name])
    monkeypatch.setattr(page.starts, "by_dimension", lambda main: pd.Series({16.0: 0.2, 512.0: 0.9}))
    found = page._of_study(MAIN)
    assert found["among_best"].split(", ")[-1] == "triplet_semihard"
    assert (found["dims_gain"], found["methods"], found["batches_gain"], found["batches_lose"]) == (10, 11, 10, "")
    assert (found["untrained_low"], found["untrained_high"]) == (20, 90)
    assert (found["sizes_above"], found["sizes"]) == (0, 2)
    assert (found["floats_low"], found["floats_high"]) == (1, 11)  # of 11: with few reruns nothing is behind for sure


def test_doublings_are_slopes_over_the_seeds():
    slopes = common.doublings(made(f"{NAME}/dims", rising))
    assert slopes.loc["margin", "mean"] == pytest.approx(0.015)
    assert slopes.loc["margin", "ci95"] == pytest.approx(4.303 * 0.005 / np.sqrt(3), rel=1e-3)
    assert slopes.loc["n_pairs", "mean"] == pytest.approx(0.0, abs=1e-12)
    single = common.doublings(made(f"{NAME}/dims", rising, reruns=1))
    assert single["ci95"].isna().all()


def test_figure_draws_every_method_at_its_numbers():
    records = made(f"{NAME}/dims", rising)
    figure = figures.draw_sweep(MAIN, records, "size")
    left, right = figure.axes
    lines = {container.get_label(): container.lines[0] for axis in (left, right) for container in axis.containers}
    assert set(lines) == {page.fehervari_label(name) for name in page.ORDER} - {"DREML"}
    np.testing.assert_allclose(lines["Margin Loss"].get_xdata(orig=False), [16, 32, 64, 128, 256, 512])
    np.testing.assert_allclose(lines["Margin Loss"].get_ydata(orig=False)[0], 100 * (0.1 + 0.015 * 4))
    assert to_hex(lines["Margin Loss"].get_color()) == style.BLUE.lower()
    assert to_hex(lines["ProxyNCA"].get_color()) == style.ORANGE.lower()
    named = {text.get_text() for axis in (left, right) for text in axis.texts}
    assert named == set(lines)  # at their ends
    start = pd.Series({8.0: 0.1, 16.0: 0.2, 512.0: 0.5})
    begun = figures.draw_sweep(MAIN, records, "size", {MAIN: start})
    for axis in begun.axes:  # as far as the axis reaches
        [dashed] = [line for line in axis.lines if line.get_label() == "untrained"]
        assert dashed.get_ydata().tolist() == [20.0, 50.0]


def test_common_statistics_know_their_edges():
    assert np.isnan(statistics.rank_test(pd.Series([1.0, 1.0, 1.0]), pd.Series([1.0, 2.0, 3.0]))["rho"])
    assert statistics.rank_test(pd.Series([1.0, 2.0, 4.0]), pd.Series([2.0, 3.0, 9.0]))["rho"] == pytest.approx(1.0)
    scores = pd.DataFrame({"method": ["a", "a", "b", "b"], "rerun": [0, 1, 0, 1], "score": [1.0, 2.0, 0.0, 0.5]})
    found = common.difference(scores, "a", "b")
    assert (found.value, found.n) == (1.25, 2)
    freedom = 0.3125**2 / (0.25**2 + 0.0625**2)  # Welch and Satterthwaite: variances of the means 0.25 and 0.0625
    assert found.half == pytest.approx(stats.t.ppf(0.975, freedom) * 0.3125**0.5)
    assert common.difference(scores, "a", "c").n == 0


def test_ledger_names_what_differs_and_only_that():
    other = made("first-runs/grocery-frozen/fehervari2019", score)
    ours = made(NAME, score)
    ours.meta["settings"] = {"proxy_nca": {"proxy_std": 0.00125}, "margin": {LOSS_WEIGHTS_LR: 1e-4}}
    ours.meta["changes"] = {"margin": {"loss_weight_decay": 0.0}}
    table = deviations.ledger("fehervari2019", {MAIN: ours, "first-runs/grocery-frozen": other})
    rows = table.set_index("setting")
    assert rows.loc["images in a batch", "ours"] == "60"
    assert rows.loc["images in a batch", "the paper's"] == "120"
    assert rows.loc["trunk", "ours"] == "Glyphs: conv4; Grocery Store (first run): SqueezeNet 1.0"
    assert rows.loc["lr", "the paper's"].startswith("not given")
    assert "momentum" not in rows.index
    assert rows.loc["reruns", "the paper's"].startswith("not given; by the README of its code 10 seeds")
    assert "test classes" in rows.loc["which epoch counts", "the paper's"]
    told = rows.loc["proxies at the start", "ours"]
    assert told.startswith("Glyphs: as in the code")
    assert told.endswith("Grocery Store (first run): standard normal, at the embedder's rate")
    told = rows.loc["boundaries β of Margin Loss", "ours"]
    assert "Glyphs: the run's Adam: rate 10⁻⁴, weight decay none" in told
    assert "first run): the run's Adam: rate the embedder's, weight decay the embedder's" in told
    assert table.index.tolist() == list(range(1, len(table) + 1))
    assert table["why"].str.endswith(".").all()


@pytest.mark.parametrize("state", ["nothing", "one seed"])
def test_chapter_publishes_every_exhibit(state, tmp_path, monkeypatch, without_pictures):
    curves = {f"{NAME}/{swept}": rising for swept in ("dims", "batches", "batches-equal")}

    @functools.cache
    def load(main, experiment):
        name = f"{main}/{experiment}"
        if state == "nothing" or experiment == "projections":
            return None
        lost = "margin" if name == NAME else "margin@dim16"
        return made(name, curves.get(name, score), reruns=1, diverged=((lost, 0),), missing=("angular",))

    exports = run_notebook("12_fehervari2019", MAIN, "fehervari", load, tmp_path, monkeypatch)
    for name in IDS:
        files = [path for path in exports.glob(f"{name}.*") if path.suffix in (".csv", ".svg")]
        assert files, name
        assert all(path.stat().st_size > 60 for path in files), name
    assert (exports / "fehervari-f1.svg").exists() == (state != "nothing")
