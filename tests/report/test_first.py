"""The first page: sentences that hold with one study and with several, dots and squares where the numbers put them."""

from dataclasses import replace

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from factories import fake_records
from matplotlib.patches import Rectangle

from dmlrc.report import claims, labels, published, tables
from dmlrc.report.claims import rule
from dmlrc.report.first import figures, page


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def edition(*names):
    return [fake_records(study=name, trials=3, reruns=3) for name in names]


@pytest.mark.parametrize("names", [("one",), ("one", "other", "third")])
def test_the_answer_is_a_few_words_and_three_sentences_whose_numbers_are_those_of_the_tables(names):
    studies = edition(*names)
    text = page.answer(studies)
    word, _, rest = text.partition(".** ")
    assert word == "**That cannot be told yet"  # these studies are not full
    full = [replace(each, meta=each.meta | {"budget": each.meta["budget"] | {"name": "full"}}) for each in studies]
    over = [
        [tables.improvement(tables.accuracy(each), old)["concatenated"] for old in tables.CLASSICS] for each in full
    ]
    more = any(max(gains) > 0.05 for gains in over)
    expected = ("Yes, even when", "On some data, once") if more else ("Hardly, once", "A little at most, once")
    assert page.answer(full).startswith(tuple(f"**{word} all are tuned alike.** From 2017" for word in expected))
    assert rest.count(". ") == 2 + ("Training leaves" in text)
    assert ("only a linear layer" in text) == studies[0].meta["protocol"]["frozen_trunk"]
    contrastive, triplet = zip(*over, strict=True)
    named = labels.listed(f"`{study.name}`" for study in studies)
    beside = f"{labels.apart(contrastive, 1)} the contrastive loss and {labels.apart(triplet, 1)} the triplet loss"
    assert f" {beside} on {named}." in text
    low = {study.name: rule.below_untrained(study)[1:] for study in studies}
    assert ("below the untrained trunk" in text) == any(2 * under > rows for under, rows in low.values())
    claimed = tables.claimed_improvement(published.claims(), "contrastive").groupby("dataset")["gain"].mean()
    assert f"{100 * claimed.min():.0f} to {100 * claimed.max():.0f} %" in text
    assert "share the first place on `one`" in text or "leads alone on `one`" in text


def test_the_order_at_another_rate_is_told_where_a_grid_shows_it(monkeypatch):
    one, other = edition("one", "other")
    columns, at = ["contrastive", "triplet", "margin"], [1e-5, 3e-4]
    turning = pd.DataFrame([[0.3, 0.2, 0.1], [0.0, 0.1, 0.2]], at, columns)
    same = pd.DataFrame([[0.3, 0.2, 0.1], [0.2, 0.1, 0.0]], at, columns)
    tables = {"one": turning, "other": turning}
    monkeypatch.setattr(page.rates, "grid_of", lambda study: study)
    monkeypatch.setattr(page.rates, "best_trials", lambda grid: tables[grid.name])
    monkeypatch.setattr(page.rates, "seed_luck", lambda _: 1e-3)
    assert page.leads([one]) == (
        "The learning rate alone reorders losses (on validation classes, each trained once at each rate): of 3 pairs "
        "of losses, 3 on one change places between the highest rate tried and the best (another seed alone would swap "
        "0)."
    )
    assert page.rates.turned_in_short([one, other]) == (
        "On validation classes, with each loss trained once at each rate, of 3 pairs of losses, 3 on one and 3 on "
        "other change places between the highest rate tried and the best (another seed alone would swap 0 and 0)."
    )
    assert page.rates.turned_in_short([]) == ""
    tables["other"] = same
    assert page.leads([one, other]) == f"{page.leads([one])} On other another seed alone may swap as many."
    assert "leads alone" in page.leads([other])
    monkeypatch.setattr(page.rates, "seed_luck", lambda _: 0.8)
    assert "first place" in page.leads([one])  # luck alone turns as many
    assert "would swap 0 to 3)" in page.rates.turned_in_short([one])


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        (
            {"one": 3, "other": 1},
            "There is a leading group rather than a best loss: 3 of 14 methods share the first place on `one`; Triplet "
            "leads alone on `other`.",
        ),
        ({"one": 1, "other": 1}, "Triplet leads alone on `one` and Triplet leads alone on `other`."),
        ({"one": 0}, "Nothing can be ranked yet."),
    ],
)
def test_a_loss_that_leads_alone_is_called_so(monkeypatch, sets, expected):
    monkeypatch.setattr(page.rates, "between", lambda edition: {})
    monkeypatch.setattr(page, "best_set", lambda study: (["triplet"] * sets[study.name], 14))
    assert page.leads(edition(*sets)) == expected


def test_the_best_set_is_the_best_and_what_ties_with_it():
    (study,) = edition("one")
    names, of = page.best_set(study)
    frame = tables.accuracy(study)
    frame = frame[(frame["setting"] == "concatenated") & (frame["metric"] == "map_at_r")].set_index("method")["mean"]
    assert names[0] == frame.drop("pretrained").idxmax()
    assert of == len(frame) - 1


def test_every_dot_stands_at_its_number():
    studies = edition("one")
    measured = page.measured(studies)
    assert set(measured["where"]) == {*published.DATASETS, "one"}
    headline = published.claims()
    headline = headline[headline["primary"] & (headline["role"] == "proposed")]
    figure = figures.claims_beside_measurements(headline, measured)
    left, right = figure.axes
    drawn = sorted(height for dots in left.collections for height in dots.get_offsets()[:, 1])
    assert drawn == pytest.approx(sorted(100 * headline["r1"]))
    figure.draw_without_rendering()
    levels = measured[measured["method"].isin(tables.CLASSICS)].groupby("where")["mean"].mean()
    names = {each.get_text(): each for each in right.texts}
    assert set(names) == {*(f"{name} (paper)" for name in published.DATASETS), "one"}
    for where, level in levels.items():  # a name is led to from the lines of its own data set
        assert names[where if where == "one" else f"{where} (paper)"].xy[1] == pytest.approx(100 * level)
    lines = [line for line in right.get_lines() if line.get_url() and "Contrastive" in line.get_url()]
    contrastive = measured[measured["method"] == "contrastive"]["mean"]
    assert sorted(line.get_ydata()[0] for line in lines) == pytest.approx(sorted(100 * contrastive))
    marks = {handle.get_label(): handle.get_marker() for handle in figure.legends[0].legend_handles}
    assert marks.pop("contrastive, triplet") == "None"  # a line, as on the right
    assert {name: mark for name, mark in marks.items() if not name.startswith("claimed on")} == {
        "pairs and tuples": "o",
        "proxies and classes": "o",
    }
    assert [marks[f"claimed on {name}"] for name in published.DATASETS] == ["o", "^", "s"]


def test_a_square_a_claim_in_the_colour_of_its_verdict():
    judged = claims.judged(edition("one"))
    squares = page.squares(judged)
    assert len(squares) == sum(len(judgements) for judgements in judged.values())
    low = squares.assign(low=squares.index == 0)
    assert [text.get_text() for text in figures.verdicts(low).legends[0].get_texts()][-1].startswith("faint")
    assert figures.verdicts(low).axes[0].patches[0].get_alpha() == figures.PALE
    axis = figures.verdicts(squares).axes[0]
    drawn = [each for each in axis.patches if isinstance(each, Rectangle) and each.get_url()]
    assert len(drawn) == len(squares)
    grey = sum(each.get_facecolor()[:3] == pytest.approx((181 / 255,) * 3) for each in drawn)
    assert grey == (squares["verdict"] == "inconclusive").sum()
    crossed = sum(bool(each.get_hatch()) for each in drawn)
    assert crossed == (squares["verdict"] == "retracted").sum() > 0


def test_claims_of_our_own_are_counted_apart_from_those_of_the_papers():
    judged = claims.judged(edition("one"))
    said = claims.verdicts_sentence(judged)
    own = [name for name in judged["one"] if name in {claim.id for claim in claims.of_section("ours")}]
    assert f"of the {len(judged['one']) - len(own)} claims of the papers is settled" in said
    assert f"none of our own {len(own)}" in said
    alone = claims.verdicts_sentence({"one": {name: judged["one"][name] for name in own}})
    assert alone.strip() == f"On `one`, none of the {len(own)} claims of our own is settled."


def test_limits_tell_the_trunk_from_where_training_began(monkeypatch):
    (one, other) = edition("one", "other")
    counts = {"one": (0, 13, 14), "other": (2, 3, 14)}
    settings = pd.MultiIndex.from_product([["a", "b", "c"], ["separated", "concatenated"]], names=["method", "setting"])
    low = {"one": [False] * 6, "other": [True, False, True, False, False, False]}
    monkeypatch.setattr(page, "below_untrained", lambda records: counts[records.name])
    monkeypatch.setattr(
        page, "lower_than_untrained", lambda records: pd.DataFrame({"start": low[records.name]}, settings)
    )
    said = page.limits([one, other])
    assert "After training 13 of 14 methods on `one` and 3 of 14 methods on `other` have a lower P@1" in said
    single = "where training begins, are 2 of 3 on `other` as single models"
    assert f"{single}, and none joined: a ranking of these" in said
    low["one"][1] = True
    assert f"{single} and 1 of 3 on `one` joined: a ranking of these" in page.limits([one, other])
    low["one"], low["other"] = [False] * 6, [False] * 6
    assert "None of them is below an untrained linear layer" in page.limits([one, other])
    monkeypatch.setattr(page, "below_untrained", lambda records: (0, 0, 14))
    assert "Below the untrained trunk" not in page.limits([one, other])
