"""The numbers of the page on metrics, of the records and of others."""

from pathlib import Path

import nbformat
import pandas as pd
import pytest

from dmlrc.report import prose, untrained

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def home(monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(ROOT))


def test_the_numbers_are_those_of_the_tables():
    told = untrained.numbers()
    scores = untrained.recorded_scores(10_000, (10, 5000))
    assert told["random.nmi"] == pytest.approx(100 * scores.loc[5000, "nmi"])
    assert told["random.falls"] <= 100 * (scores.loc[10, "map_at_r"] - scores.loc[5000, "map_at_r"])
    trunk = untrained.recorded_trunks("glyphs", ("conv4",), (12, 100))["nmi"]
    assert told["glyphs.nmi_step"] <= 100 * (trunk[1] - trunk[0])
    assert (told["sop.low"], told["few.high"]) == pytest.approx((73.1, 23.6))  # as Table 2 prints them


def test_no_sentence_of_the_page_holds_where_scores_are_otherwise(monkeypatch):
    """The order of spaces and of numbers of classes turned round, with scores that are nowhere 0 or 1."""
    cells = nbformat.read(ROOT / "notebooks" / "02_which_score_to_trust.ipynb", as_version=4).cells
    [cell] = [each for each in cells if "guards" in each.metadata.get("tags", [])]
    toy, random, trunks = untrained.toy_scores, untrained.recorded_scores, untrained.recorded_trunks
    paper = untrained.published.trunks()

    def turned(frame):
        return pd.DataFrame(frame.to_numpy()[::-1], frame.index, frame.columns)

    monkeypatch.setattr(untrained, "toy_scores", lambda spaces: 0.4 + turned(toy(spaces).T).T / 2)
    monkeypatch.setattr(untrained, "recorded_scores", lambda *asked: turned(random(*asked)))
    monkeypatch.setattr(
        untrained, "recorded_trunks", lambda *asked: trunks(*asked).assign(nmi=lambda rows: -rows["nmi"])
    )
    monkeypatch.setattr(untrained.published, "trunks", lambda: paper.assign(value=50.0))
    found = {}
    monkeypatch.setattr(prose, "put", lambda numbers: None)
    monkeypatch.setattr(prose, "is_about", lambda edition: True)
    monkeypatch.setattr(prose, "says", lambda sentence, holds: found.__setitem__(sentence, holds))
    exec(cell.source, {"prose": prose, "edition": []})
    assert len(found) == cell.source.count("says(")
    assert [sentence for sentence, holds in found.items() if holds] == []
