"""The chapter on Oi et al.: histograms and curves whose answers are known, and the paper's Table 1."""

import functools
import re

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from drawings import drawn
from factories import made_records, run_chapter
from matplotlib.colors import to_hex

from dmlrc import metrics, studies
from dmlrc.metrics.histograms import jsd, pair_histograms
from dmlrc.report import common, deviations, publish, published, statistics, style
from dmlrc.report.oi2021 import figures, page
from dmlrc.report.results_table import results_table

MAIN = "glyphs-full"
METHOD = "normalized_softmax"
EPOCHS = 3


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def cluster(spread, seed):
    """Embeddings (60, 8) of 6 classes around random directions, L2-normalised, and labels."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(6), 10)
    points = rng.normal(size=(6, 8))[labels] + spread * rng.normal(size=(60, 8))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32), labels


def counted(setting, rerun, spread):
    named = zip(("edges", "positive", "negative"), pair_histograms(*cluster(spread, rerun)), strict=True)
    return [(METHOD, rerun, setting, name, each.tolist()) for name, each in named]


def run(order="default", seeds=2, lift=0.0, gap=0.1, **own):
    """Records of one class order. Test scores: 0.5 + lift + 0.01 a seed, for MAP@R 0.2 less, for JSD 0.1 less.

    Curves: training starts at 0.3 - gap (JSD and means: 0.3) and rises by 0.2 an epoch, validation stays at 0.3.
    """
    shift = {"precision_at_1": 0.0, "map_at_r": -0.2, "jsd": -0.1}
    scores = [
        (METHOD, seed, "separated", name, 0.5 + lift + down + 0.01 * seed)
        for name, down in shift.items()
        for seed in range(seeds)
    ]
    scores += [("pretrained", 0, "separated", name, 0.9) for name in shift]
    curves = []
    for name in ("precision_at_1", "map_at_r", "jsd", "mean_positive", "mean_negative"):
        start = 0.3 - (gap if name in ("precision_at_1", "map_at_r") else 0)
        for seed in range(seeds):
            for epoch in range(EPOCHS):
                curves += [
                    (METHOD, seed, 10 * (epoch + 1), name, 0.3 + 0.001 * seed),
                    (METHOD, seed, 10 * (epoch + 1), f"train_{name}", start + 0.2 * epoch + 0.001 * seed),
                ]
    arrays = [
        row
        for seed in range(seeds)
        for setting, spread in (("test", 0.3), ("untrained", 2.0))
        for row in counted(setting, seed, spread)
    ]
    return made_records(
        f"{MAIN}/{page.EXPERIMENTS[order]}", **{"scores": scores, "curves": curves, "arrays": arrays} | own
    )


# Table 1


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("Cars196", "default", "precision_at_1"), 0.673),
        (("Cars196", "random", "jsd"), 0.472),
        (("CUB200", "default", "map_at_r"), 0.164),
        (("CUB200", "random", "map_at_r"), 0.260),
    ],
)
def test_published_table_1(where, value):
    frame = published.oi_results().set_index(["dataset", "class_order", "metric"])["value"]
    assert frame[where] == value
    assert len(frame) == 12


def test_table_1_beside_the_papers():
    orders = {"default": {MAIN: run()}, "random": {MAIN: run("random", lift=0.1)}}
    cells = results_table(page.compare_orders(orders), 1)[0]
    assert cells.loc[("CUB200 (the paper)", "random less default"), "R@1"] == "+17.8"
    assert cells.loc[(MAIN, "default"), "MAP@R"].startswith("30.5 ± ")
    assert cells.loc[(MAIN, "random"), "JSD"].startswith("0.505 ± ")
    assert cells.loc[(MAIN, "random less default"), "R@1"].startswith("+10.0 ± ")


def test_the_interval_of_the_gain_is_welchs():
    orders = {"default": {MAIN: run()}, "random": {MAIN: run("random", lift=0.1)}}
    scores = page.compare_orders(orders)
    gain = scores[(scores["order"] == "random less default") & (scores["where"] == MAIN) & (scores["metric"] == "jsd")]
    assert gain["mean"].item() == pytest.approx(0.1)
    assert gain["ci95"].item() == pytest.approx(statistics.welch([0.4, 0.41], [0.5, 0.51]).half)


def test_table_1_without_records_or_with_one_seed():
    orders = {"default": {MAIN: run(seeds=1)}, "random": {MAIN: run("random", seeds=1), "other": run()}}
    cells = results_table(page.compare_orders(orders), 1)[0]
    assert cells.loc[(MAIN, "default"), "R@1"] == "50.0"
    assert "±" not in cells.loc[(MAIN, "random less default"), "R@1"]
    assert (cells.loc[("other", "default")] == "–").all()
    assert (cells.loc[("other", "random less default")] == "–").all()
    failed = run(scores=[("pretrained", 0, "separated", "jsd", 0.9)], diverged=[(METHOD, 0)])
    lost = {"default": {MAIN: failed}, "random": {}}
    assert (results_table(page.compare_orders(lost), 1)[0].loc[(MAIN, "default")] == "diverged").all()


# Histograms


def test_histograms_are_the_sum_over_seeds():
    frame = page.histograms(run(), "test")
    parts = [pair_histograms(*cluster(0.3, seed)) for seed in (0, 1)]
    np.testing.assert_array_equal(frame["positive"], parts[0][1] + parts[1][1])
    assert frame["positive"].sum() == 2 * 6 * 45
    assert frame["negative"].sum() == 2 * (60 * 59 // 2 - 6 * 45)
    assert (frame["low"].iloc[0], frame["high"].iloc[-1]) == (-1, 1)


def test_summary_agrees_with_the_metrics():
    embeddings, labels = cluster(0.3, 0)
    found = page.histogram_statistics(page.histograms(run(seeds=1), "test"))
    exact = metrics.evaluate(embeddings, labels, ("jsd", "mean_positive", "mean_negative"))
    assert found["jsd"] == pytest.approx(exact["jsd"])
    assert found["mean_positive"] == pytest.approx(exact["mean_positive"], abs=0.01)  # half a bin
    assert found["mean_negative"] == pytest.approx(exact["mean_negative"], abs=0.01)


def test_merged_bins_are_those_of_fewer_bins():
    embeddings, labels = cluster(2.0, 0)
    values = page.jsd_by_bins(run(seeds=1), "untrained")
    assert list(values.index) == list(page.KEPT_BINS)
    for bins in (100, 20, 5):
        assert values[bins] == pytest.approx(jsd(embeddings, labels, bins), abs=1e-6)
    assert values.is_monotonic_decreasing  # fewer bins hide differences
    cells = results_table(common.ours({MAIN: run()}, page.bins))[0]
    assert cells.loc[100, (MAIN, "after")] == f"{page.jsd_by_bins(run())[100]:.3f}"


def test_histograms_are_drawn_with_equal_areas():
    figure = figures.draw_normalisation(MAIN, run(seeds=1))
    assert {MAIN, "pairs"} <= set(drawn(figure))
    counts, shares = ([patch.get_data().values for patch in axis.patches] for axis in figure.axes)
    assert counts[0].sum() > 5 * counts[2].sum()  # negative, positive
    assert [each.sum() for each in shares] == pytest.approx([1, 1, 1, 1])
    assert to_hex(figure.axes[0].patches[3].get_edgecolor()).upper() == style.RED
    recorded, other = (figures.draw_before_and_after(MAIN, each) for each in (run(), run(arrays=[])))
    assert any("after, JSD 0." in each for each in drawn(recorded))
    assert drawn(other).count("not recorded") == 2


def test_histograms_that_were_not_recorded_are_empty():
    assert page.histograms(run(arrays=[]), "test").empty


# Curves


def test_curves_count_epochs_and_tell_the_images_apart():
    frame = page.metric_curves(run(seeds=1), ["jsd"])
    assert frame["epoch"].max() == EPOCHS
    assert set(frame["metric"]) == {"jsd"}
    training = frame[frame["images"] == "training"].sort_values("epoch")["value"]
    assert training.to_list() == pytest.approx([0.3, 0.5, 0.7])
    assert frame[frame["images"] == "validation"]["value"].to_list() == pytest.approx([0.3] * 3)


def test_gap():
    records = run()
    row = page.oi2021.METHODS[0].name
    first = page.gap(records, row=row, first="train_precision_at_1", second="precision_at_1", point="first")
    assert (first.value, first.half, first.n) == (pytest.approx(-0.1), pytest.approx(0, abs=1e-12), 2)
    found = page.gaps(records).set_index(["row", "head"])[["mean", "half"]]
    assert found.loc["R@1", "after the first epoch"].tolist() == pytest.approx([-0.1, 0], abs=1e-12)
    assert found["mean"]["R@1", "after the last epoch"] == pytest.approx(0.3)
    assert found["mean"]["JSD", "after the first epoch"] == pytest.approx(0)
    cells = results_table(common.ours({MAIN: records}, page.gaps))[0]
    assert cells.loc["R@1", (MAIN, "after the first epoch")] == "-10.0 ± 0.0"


def test_a_diverged_run_has_no_curve():
    records = run(curves=[])
    assert page.metric_curves(records, ["jsd"]).empty
    assert page.gaps(records)["mean"].isna().all()
    assert "not recorded" in drawn(figures.draw_curves(MAIN, records, page.METRICS))


def test_curves_of_unequal_length_are_averaged_where_they_are():
    curves = [(METHOD, 0, 10, "jsd", 0.2), (METHOD, 0, 20, "jsd", 0.4), (METHOD, 1, 10, "jsd", 0.4)]
    curves += [(METHOD, 1, 20, "jsd", np.nan)]
    frame = page.seed_means(page.metric_curves(run(curves=curves), ["jsd"]))
    assert frame["mean"].to_list() == pytest.approx([0.3, 0.4])
    assert (frame["low"].to_list(), frame["high"].to_list()) == ([0.2, 0.4], [0.4, 0.4])


def test_an_epoch_is_counted_in_steps_or_from_the_first_point():
    records = run()
    assert page._steps_an_epoch(records) == 10  # of the quick budget
    records.meta["protocol"] |= {"iterations_per_epoch": None, "eval_every": 2}
    assert page._steps_an_epoch(records) == 5


def test_curves_are_drawn():
    several = run(), run(seeds=1)
    figure, other = (figures.draw_curves(MAIN, records, page.METRICS) for records in several)
    assert {"training images", "validation images"} <= set(drawn(figure))
    np.testing.assert_allclose(figure.axes[2].get_lines()[0].get_ydata(), [0.3005, 0.5005, 0.7005])  # JSD, training
    assert len(other.axes) == 3
    assert [len(figures.draw_curves(MAIN, records, page.MEANS).axes) for records in several] == [2, 2]


# The ledger, the chapter


def test_ledger():
    rows = deviations.ledger("oi2021", {MAIN: run()}).set_index("setting")
    assert rows.loc["trunk", "the paper's"] == "Inception-v3"
    assert rows.loc["trunk", "ours"] == "conv4"
    assert rows.loc["number of bins", "ours"] == "100 on [-1, 1]"
    assert "embedding_dim" not in rows.index


IDS = ("oi-t1", "oi-f1", "oi-f2", "oi-f3", "oi-f4", "oi-bins", "oi-f4-gaps", "deviations-oi")


@pytest.mark.parametrize("present", [True, False])
def test_the_chapter_shows_everything(present, tmp_path, monkeypatch, without_pictures):
    shown = {}
    monkeypatch.setattr(publish, "_display", lambda html, markdown: shown.update({len(shown): html + markdown}))

    @functools.cache
    def load(main, experiment):
        return run("random" if experiment.endswith("random") else "default") if present and main == MAIN else None

    exports = run_chapter("14_oi2021", f"{MAIN},first-runs/grocery-frozen", load, tmp_path, monkeypatch)
    for name in IDS:
        drawing = present and name in ("oi-f1", "oi-f2", "oi-f3", "oi-f4")
        assert (exports / f"{name}.{'svg' if drawing else 'csv'}").stat().st_size > 60, name
    pages = " ".join(shown.values())
    assert ("Not run here yet" in pages) != present
    assert not re.search(r"\bnan\b", pages)


def one_order(monkeypatch, lifts):
    """Records of class orders around one study: experiment -> what its scores are lifted by."""
    found = {name: run(lift=lift) for name, lift in lifts.items()}
    known = {name: studies.get(f"cub200-2010-frozen/{name}") for name in lifts}
    monkeypatch.setattr(page.experiments, "experiments_around", lambda main: known)
    monkeypatch.setattr(page.experiments, "load_experiment", lambda main, name: found[name])


def test_every_class_order_stands_with_the_untrained_trunk(monkeypatch):
    one_order(monkeypatch, {"oi2021": 0.0, "oi2021/random": 0.1, "oi2021/order-2": 0.2, "zhai2019": 0.3})
    found = page.every_order(MAIN)
    accuracy = found[found["metric"] == "precision_at_1"].set_index(["order", "what"])["score"].to_dict()
    assert accuracy == pytest.approx(
        {
            **{("default", "trained"): 0.505, ("random", "trained"): 0.605, ("order2", "trained"): 0.705},
            **{(order, "untrained"): 0.9 for order in ("default", "random", "order2")},
        }
    )
    numbers = page._of_study(MAIN)
    assert (numbers["orders"], numbers["higher"], numbers["below"]) == (3, 2, 3)
    assert numbers["recall.gain"] == pytest.approx(15)  # 60.5 and 70.5, of 50.5
    assert numbers["map.gain"] == pytest.approx(15)
    assert numbers["recall.untrained"] == numbers["map.untrained"] == pytest.approx(0)
    cells = results_table(page.compare_every_order(found), 1)[0].rename_axis(["Study", "Class order"])
    assert cells["R@1", "trained"].tolist() == ["50.5 ↓", "60.5 ↓", "70.5 ↓", "65.5 ± 7.1"]
    assert cells.index.get_level_values("Class order").tolist()[:3] == ["default", "random", "random 2"]
    figure = figures.draw_every_order(found)
    shown = {round(float(line.get_xdata()[0]), 1) for line in figure.axes[0].lines}
    assert shown == {50.5, 60.5, 70.5, 90.0}
    filled = [line for line in figure.axes[0].lines if line.get_markerfacecolor() != "none"]
    assert sorted(float(line.get_xdata()[0]) for line in filled) == pytest.approx([50.5, 90.0])


def test_two_class_orders_are_no_more_than_the_papers(monkeypatch):
    one_order(monkeypatch, {"oi2021": 0.0, "oi2021/random": 0.1})
    assert page.every_order(MAIN).empty
    with pytest.raises(KeyError, match="no class orders around"):
        page._of_study(MAIN)


def test_jsd_and_map_part_where_one_rises_and_the_other_falls():
    scores = {("jsd", "untrained"): 0.4, ("jsd", "trained"): 0.6}
    scores |= {("map_at_r", "untrained"): 0.3, ("map_at_r", "trained"): 0.1}

    def found(half, change=0.0):
        rows = [("default", *key, score + change * (key == ("map_at_r", "trained"))) for key, score in scores.items()]
        return pd.DataFrame(rows, columns=["order", "metric", "what", "score"]).assign(half=half)

    assert page.parted(found(0.05)) == 1
    assert page.parted(found(0.25)) == 0  # within its noise
    assert page.parted(found(0.05, 0.4)) == 0  # both rise
