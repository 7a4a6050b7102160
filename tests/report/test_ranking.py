"""The results of a study as text: order, ranks, intervals and marks as in the book's tables."""

import re
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from factories import fake_records, made_up_unit
from sklearn.decomposition import PCA

from dmlrc import records, run, studies
from dmlrc.methods import Float
from dmlrc.records import PRETRAINED
from dmlrc.report import about, choosing, everything, labels, ranking, rates, tables
from dmlrc.report.musgrave2020 import figures, page
from dmlrc.report.photos import answer
from dmlrc.report.significance import figures as drawn
from dmlrc.report.significance import measures


def body(lines):
    start = next(place for place, line in enumerate(lines) if line.startswith("rank"))
    return [line.split() for line in lines[start + 1 : lines.index("", start)]]


def test_methods_in_order_with_intervals_and_marks():
    records = fake_records(reruns=4)
    lines = ranking.lines(records)
    frame = tables.accuracy(records)
    marked = tables.marks(frame)
    first = frame[(frame["setting"] == "concatenated") & (frame["metric"] == "map_at_r")]
    trunk = first.set_index("method")["mean"]["pretrained"]
    rows = body(lines)
    assert [row[2] for row in rows if row[0] != "pretrained"] == [
        name for name in first.sort_values("mean", ascending=False)["method"] if name != "pretrained"
    ]
    for place, row in first.iterrows():
        (line,) = (line for line in lines if row["method"] in line.split())
        assert f" {labels.percent(row['mean'], row['ci95'])} " in line
        assert (f"{labels.percent(row['mean'], row['ci95'])} {labels.BELOW}" in line) == (row["mean"] < trunk)
        assert (" * " in line) == bool(marked[place])
    assert "seeds alone" in " ".join(lines)
    alone = tables.by_method(frame, setting="separated")["mean"]  # one model, as the trunk is one
    lift = alone.drop("pretrained").mean() - alone["pretrained"]
    assert f"On average training lifts the scores of one model by {100 * lift:+.2f} points" in " ".join(lines)
    assert "searched once" in " ".join(lines)
    assert max(map(len, lines)) <= 110


def test_a_study_without_the_usual_metrics_shows_those_that_it_has():
    records = fake_records(reruns=2)
    scores = records.scores[records.scores["metric"] == "map_at_r"].assign(metric="nmi")
    heading = next(line for line in ranking.lines(replace(records, scores=scores)) if line.startswith("rank"))
    assert heading.split()[:3] == ["rank", "method", "NMI"]


def test_ranks_have_intervals_where_searches_were_repeated():
    once = fake_records(reruns=3)
    frames = {}
    for name in ("trials", "reruns", "runs", "scores"):
        frame = getattr(once, name)
        frames[name] = pd.concat([frame, frame.assign(repetition=1)], ignore_index=True)
    lines = ranking.lines(replace(once, **frames))
    assert all("(" in row[1] for row in body(lines) if row[0].isdigit())
    assert "multiple comparisons with the best" in " ".join(lines)


@pytest.mark.parametrize(("scores", "end"), [((0.97, 0.999), "to 100.00)"), ((0.03, 0.001), "(0.00 to ")])
def test_no_interval_leaves_the_scale_in_texts_or_figures(scores, end):
    """Two reruns tell little: half of each interval is 18 points, with 2 or 98 to the end of the scale."""
    made = fake_records(reruns=2)
    trained = made.scores["method"] != PRETRAINED
    values = made.scores["rerun"].map(dict(enumerate(scores)))
    made = replace(made, scores=made.scores.assign(value=made.scores["value"].mask(trained, values)))
    cells = everything.result_cells(everything.every_result([made]))[["MAP@R", "P@1"]]
    for texts in (ranking.lines(made), answer.sentences(made), cells.to_numpy().ravel()):
        text = " ".join(texts)
        assert end in text
        ends = [(mean - half, mean + half) for mean, half in _floats(r"([\d.]+) ± ([\d.]+)", text)]
        ends += _floats(r"([\d.]+) to ([\d.]+)\)", text)
        assert all(0 <= low <= high <= 100 for low, high in ends), ends
    [figure] = figures.result_figures({"made": tables.accuracy(made)})
    bars = [line.get_xdata() for line in figure.axes[0].get_lines() if len(line.get_xdata()) == 2]
    cost = drawn.cost_figure("made", measures.cost_and_accuracy(measures.compare(made), made))
    bars += [part[:, 1] for axis in cost.axes for each in axis.collections for part in each.get_segments()]
    assert len(bars) >= 3 * len(tables.METHODS)
    assert 0 <= np.min(bars) < np.max(bars) <= 100
    assert np.ptp(bars, axis=1).max() > 15  # they are not left out
    plt.close("all")


def _floats(pattern, text):
    return [tuple(map(float, found)) for found in re.findall(pattern, text)]


def test_the_untrained_row_comes_with_its_caveat_at_every_dimension():
    made = fake_records(reruns=3)
    for dim in (64, 128, 512, None):
        made.meta["protocol"]["embedding_dim"] = dim
        assert labels.PCA in ranking.lines(made)
    without = replace(made, scores=made.scores[made.scores["method"] != PRETRAINED])
    assert labels.PCA not in ranking.lines(without)


@pytest.mark.parametrize(
    ("images", "features", "dim", "exact"),
    [
        (300, 1001, 16, False),
        (300, 1001, 64, False),
        (300, 1001, 240, True),
        (600, 100, 16, False),
        (1000, 100, 16, True),
        (300, 100, 16, True),
    ],
)
def test_the_caveat_names_every_case_in_which_the_pca_is_not_exact(images, features, dim, exact):
    """As `evaluation.pretrained_scores` asks for it, against all of the singular values."""
    points = np.random.default_rng(0).standard_normal((images, features))
    kept = PCA(dim, random_state=0).fit(points).explained_variance_.sum() * (images - 1)
    singular = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    assert (kept > (1 - 1e-6) * np.square(singular[:dim]).sum()) == exact
    assert exact or features > 1000 or images < 10 * features
    assert "above 1,000 features or with fewer than ten images per feature" in labels.PCA


def test_a_study_without_test_scores_shows_its_trials():
    """The untrained trunk alone has test scores, as in a study that chooses a learning rate."""
    records = fake_records(reruns=0)
    trunk = records.scores[records.scores["method"] == "pretrained"]
    assert len(trunk)
    lines = ranking.lines(replace(records, scores=trunk))
    best = records.trials.groupby("method")["value"].max()
    assert any(line.split() == [best.idxmax(), labels.percent(best.max())] for line in lines)
    assert "Validation classes" in lines[-1]


def test_methods_whose_trials_all_diverged_are_called_so_before_any_rerun():
    records = fake_records(reruns=0, diverged=["snr", "margin"])
    lines = ranking.lines(replace(records, scores=records.scores[:0]))
    assert [line.split() for line in lines if "diverged" in line] == [["margin", "diverged"], ["snr", "diverged"]]
    assert any(line.split()[:1] == ["triplet"] and len(line.split()) == 2 for line in lines)
    assert ranking.lines(replace(records, scores=records.scores[:0], trials=records.trials[:0]))[-1].startswith(
        "No trial"
    )


def test_what_is_not_as_the_protocol_is_named_before_any_rerun_too():
    records = fake_records(reruns=0)
    records.meta["changes"] = {"margin": {"embedding_dim": 512}}
    lines = ranking.lines(replace(records, scores=records.scores[:0]))
    assert next(line for line in lines if line.startswith("method")).split("  ")[-1].strip() == "not as the protocol"
    assert [line.split()[0] for line in lines if line.endswith("embedding size 512")] == ["margin"]


def test_joined_models_do_not_make_a_lift_over_the_one_trunk():
    """Each model is below the trunk, all of them joined above it: what the photos page says of them is said here."""
    made = fake_records(reruns=3)
    trunk, alone = made.scores["method"] == PRETRAINED, made.scores["setting"] == "separated"
    values = made.scores["value"].mask(~trunk & alone, 0.29).mask(~trunk & ~alone, 0.6).mask(trunk, 0.3)
    lines = " ".join(ranking.lines(replace(made, scores=made.scores.assign(value=values))))
    assert "lifts the scores of one model by -1.00 points over the untrained trunk: this table cannot rank" in lines


def test_the_fallen_stand_in_the_table_without_a_rank():
    records = fake_records(reruns=3)
    gone, hurt = "arcface", "triplet"
    frames = {name: getattr(records, name).copy() for name in ("trials", "reruns", "scores")}
    for frame in frames.values():
        if "state" in frame:
            frame.loc[frame["method"] == gone, "state"] = "diverged"
    first = (frames["reruns"]["method"] == hurt) & (frames["reruns"]["rerun"] == 0)
    frames["reruns"].loc[first, "state"] = "failed"
    scores = frames["scores"]
    lost = (scores["method"] == gone) | ((scores["method"] == hurt) & (scores["rerun"] == 0))
    frames["scores"] = scores[~lost]
    lines = ranking.lines(replace(records, **frames))
    assert [gone, "diverged"] in body(lines)
    assert "(1 lost)" in next(line for line in lines if f" {hurt} " in line)
    assert any(line.startswith("lost: reruns") for line in lines)
    told = answer.sentences(replace(records, **frames))
    assert f"does best of {len(tables.METHODS)} losses" in told[0]
    assert told[2] == "Without a result: ArcFace (diverged)."


def test_a_method_alone_is_first_of_none_and_the_fallen_stand_below():
    fallen = fake_records(study="grocery-quick", trials=3, reruns=3, diverged=sorted({*tables.METHODS} - {"margin"}))
    rows, _ = ranking.ranked(fallen)
    by_name = {row[1]: row for row in rows[1:]}
    assert (by_name["margin"][0], by_name["margin"][3]) == ("", "")
    assert by_name["triplet"][2] == "diverged"
    assert len(by_name) == 1 + len(tables.METHODS)
    behind = choosing.distances_behind([fallen]).query("ours").set_index("method")
    assert (behind["tied"].any(), behind["state"]["triplet"]) == (False, "diverged")
    cells, _ = choosing.place_cells(behind.reset_index())
    assert cells.iloc[:-1, 0].value_counts().to_dict() == {"diverged": len(tables.METHODS) - 1, "0.0": 1}
    every = everything.result_cells(everything.every_result([fallen]))
    of_table = every[every["experiment"] == "methods table"]
    assert of_table.loc["Triplet", ["MAP@R", "rank", "runs"]].tolist() == ["diverged", "–", "0"]
    assert len(set(of_table.index)) == len(by_name)


def test_a_table_that_training_did_not_lift_cannot_rank_losses():
    records = fake_records(reruns=2)
    text = "this table cannot rank losses"
    assert text not in " ".join(ranking.lines(records))
    untrained = records.scores["method"] == "pretrained"
    higher = records.scores.assign(value=records.scores["value"].mask(untrained, 0.99))
    assert text in " ".join(ranking.lines(replace(records, scores=higher)))
    without = records.scores[~untrained]
    assert "training lifts" not in " ".join(ranking.lines(replace(records, scores=without)))


def width(embeddings, labels):
    return 1.0


def made_up(asked):
    made = made_up_unit(asked)
    for scored in made["scores"].values():
        scored["width"] = 1234.5 + asked.number
    return made


def test_what_was_trained_otherwise_than_the_protocol_says_and_own_metrics_are_beside_each_row(home, monkeypatch):
    monkeypatch.setattr(run, "run_unit", made_up)
    smoke = studies.get("glyphs-smoke")
    alike, rest = smoke.method("contrastive"), {"label": "", "row": ""}
    methods = (
        alike,
        replace(alike, name="wide", changes={"embedding_dim": 512, "lr": 1e-3}, **rest),
        replace(alike, name="other", optimizer="sgd", weight_decay=0.0, **rest),
        replace(alike, name="large", classes_per_batch=16, **rest),
        replace(alike, name="long", classes_per_batch=4, images_per_class=8, **rest),  # as many images
        replace(alike, name="drawn", sampler="random", **rest),
        replace(alike, name="same", optimizer=smoke.protocol.optimizer, changes={"folds": 4}, **rest),
        replace(alike, name="faster", settings={"lr": 1e-3}, **rest),
        replace(alike, name="tuned", space={**alike.space, "lr": Float(1e-4, 1e-2, log=True)}, **rest),
    )
    run.run(studies.with_metrics(replace(smoke, methods=methods), "mixed", width))
    found = records.load("mixed")
    apart = {
        "wide": "embedding size 512, learning rate 10⁻³",
        "other": "weight decay 0, optimiser SGD",
        "large": "batch size 64",
        "drawn": "sampler random",
        "faster": "learning rate 10⁻³",
        "tuned": "learning rate searched",
    }
    assert {name: set(words.split(", ")) for name, words in about.apart(found).items()} == {
        name: set(words.split(", ")) for name, words in apart.items()
    }
    head, *rows = ranking.ranked(found)[0]
    assert head[-2:] == ("width", "not as the protocol")
    assert {row[1]: row[-1] for row in rows if row[-1]} == about.apart(found)
    assert len(rows) == len(methods) + 1
    known = {method.name: method for method in methods}
    cells, marks = page.results_of(found, known)
    words = cells["", "not as the protocol"]
    assert words[words != ""].to_dict() == {known[name].label: said for name, said in about.apart(found).items()}
    assert cells["", "width"][[each.label for each in methods]].tolist() == ["1235 ± 6.353"] * len(methods)
    assert (marks[""] == "").all(axis=None)
    every = everything.result_cells(everything.every_result([found]))
    assert {*every.loc[known["wide"].label, "not as the protocol"]} == {about.apart(found)["wide"]}
    assert "not as the protocol" not in page.results_of(fake_records())[0].columns.get_level_values(1)
    assert "not as the protocol" not in ranking.ranked(fake_records())[0][0]
    older = found.trials.assign(fingerprint=None), found.reruns.assign(fingerprint=None)
    assert about.apart(replace(found, trials=older[0], reruns=older[1])).keys() == {"wide"}


def test_every_method_with_scores_has_a_row_in_whatever_setting_it_was_scored(monkeypatch):
    """Of Fehervari et al.'s table the ensemble alone is joined: the others are single models, which come first."""
    monkeypatch.setenv("DMLRC_HOME", str(Path(__file__).parents[2]))
    found = records.load("cars196crops-frozen/fehervari2019")
    rows, legend = ranking.ranked(found)
    assert {row[1] for row in rows[1:]} == {*found.scores["method"]}
    assert "one model" in legend[0]
    assert rows[0][-2:] == ("MAP@R, joined", about.NOT_AS_THE_PROTOCOL)


def test_a_sign_is_explained_where_it_stands_alone():
    """Of one method: no ranks, no star. Of one rerun: no interval. Of a sweep: no lift over what may be untrained."""
    several = fake_records(study="grocery-quick", trials=3, reruns=1)
    _, legend = ranking.ranked(several)
    assert not any("nterval" in line for line in legend), legend
    alone = replace(several, scores=several.scores[several.scores["method"].isin(["margin", PRETRAINED])])
    rows, legend = ranking.ranked(alone)
    assert rows[0][0] == ""
    assert not any("ranks" in line for line in legend)
    sweep = replace(several, scores=several.scores.assign(level="dim16"))
    assert not any("On average training lifts" in line for line in ranking.ranked(sweep)[1])


def test_rates_are_shown_with_the_mean_that_chooses(monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(Path(__file__).parents[2]))
    found = records.load("grocery-quick/rates")
    *_, means, last = ranking.lines(found)
    best = rates.rate_means(rates.best_trials(found))
    assert f"{labels.percent(best.max())} at {labels.rate(best.idxmax())}" in means
    assert last == "Validation classes, percent: the best trial of each method."


def test_an_entry_of_the_board_is_no_unfinished_study(monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(Path(__file__).parents[2]))
    assert not any("Unfinished" in line for line in ranking.lines(records.load("grocery-quick/board/decoupled")))
