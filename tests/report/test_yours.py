"""What the page of a reader's own run says, of made-up records."""

from dataclasses import replace

from factories import fake_records

from dmlrc.records import PRETRAINED
from dmlrc.report import tables, yours

SCORES = {"contrastive": 0.5, "triplet": 0.3, "margin": 0.1, PRETRAINED: 0.2}


def of(scores, **made):
    """Records of these methods, whose reruns lie within a thousandth of these scores."""
    found = fake_records(**made)
    frame = found.scores[found.scores["method"].isin(list(scores))]
    noise = frame.groupby(["method", "setting", "metric"]).cumcount() / 1000
    return replace(found, scores=frame.assign(value=frame["method"].map(scores) + noise))


def test_the_best_is_named_with_its_ties_and_with_what_no_training_reaches():
    said = yours.answer(of(SCORES))
    assert "**Contrastive** has the highest MAP@R, 50." in said
    assert "No other ties with it. These ties count noise of the seed alone" in said
    assert "Untrained MAP@R is 20." in said
    assert "2 of 3 losses exceed it, and 2 in P@1." in said
    assert "Triplet ties with it." in yours.answer(of(SCORES | {"triplet": 0.4999}))
    assert "none of 3 losses exceed it, and none in P@1." in yours.answer(of(SCORES | {PRETRAINED: 0.9}))
    assert "Untrained" not in yours.answer(of({"contrastive": 0.5, "margin": 0.1}))


def test_one_method_alone_is_no_comparison():
    assert "nothing to compare" in yours.answer(of({"contrastive": 0.5, PRETRAINED: 0.2}))


def test_short_searches_say_nothing_of_hyperparameters():
    assert yours.forgiving(fake_records(trials=3)) == ""
    found = fake_records(trials=12)
    share = tables.sensitivity(found)["median_share"]
    assert f"reaches {100 * share.max():.0f} % of its best" in yours.forgiving(found)
    assert f"depends most on them ({100 * share.min():.0f} %)." in yours.forgiving(found)
