"""What a person wrote about the published studies: every sentence is on its page, true, and false where it should be.

Of a guard that no made-up edition makes fail, `ALWAYS` says why.
"""

from dataclasses import replace
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest

from dmlrc.records import PRETRAINED
from dmlrc.report import choosing, editions, prose

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
    if any("guards" in cell.metadata.get("tags", []) for cell in nbformat.read(path, as_version=4).cells)
]
KEYS = ["method", "setting", "metric"]
ALWAYS: dict[str, str] = {}
"""Sentence -> why no edition below makes it false."""


def scored(records, change):
    """Records with other test scores: change(scores, their method's mean) -> scores."""
    scores = records.scores.copy()
    trained = scores["method"] != PRETRAINED
    means = scores.groupby(KEYS)["value"].transform("mean")
    scores.loc[trained, "value"] = change(scores, means)[trained]
    return replace(records, scores=scores)


def turned(records):
    """The best method is the worst, on test and on validation classes, and hyperparameters matter the other way."""

    def mirrored(frame, means, by):
        ends = means.groupby([frame[name] for name in by]).transform("max")
        ends += means.groupby([frame[name] for name in by]).transform("min")
        return ends - means + (frame["value"] - means)

    found = scored(records, lambda scores, means: mirrored(scores, means, ["setting", "metric"]))
    trials = found.trials.copy()
    values = trials.groupby("method")["value"]
    trials["value"] = values.transform("max") + values.transform("min") - trials["value"]
    return replace(found, trials=trials)


def equal(records):
    def levelled(scores, means):
        return scores["value"] - means + means.groupby([scores["setting"], scores["metric"]]).transform("mean")

    rng, found = np.random.default_rng(0), scored(records, levelled)
    trials = found.trials.assign(value=rng.uniform(0.01, 0.5, len(found.trials)))  # no hyperparameter matters
    return replace(found, trials=trials)


def below(records):
    return scored(records, lambda scores, means: scores["value"] * 0.2)


def diverged(records):
    methods = sorted({*records.reruns["method"]} - {PRETRAINED})
    gone = {*methods[::2]} - {"contrastive"} | {"multi_similarity"}
    frames = {name: getattr(records, name) for name in ("scores", "reruns", "runs", "curves", "arrays")}
    return replace(records, **{name: frame[~frame["method"].isin(gone)] for name, frame in frames.items()})


def lucky(records):
    return scored(records, lambda scores, means: means + 10 * (scores["value"] - means))


def opposite(records):
    """The order turned, and training helps where it hurt: fourfold scores."""
    return scored(turned(records), lambda scores, means: 4 * scores["value"])


MADE_UP = {
    "reversed": lambda edition: [turned(each) for each in edition],
    "all equal": lambda edition: [equal(each) for each in edition],
    "below the start": lambda edition: [below(each) for each in edition],
    "half diverged": lambda edition: [diverged(each) for each in edition],
    "luck tenfold": lambda edition: [lucky(each) for each in edition],
    "one set opposite": lambda edition: [opposite(edition[0]), *edition[1:]],
}


@pytest.fixture(scope="module")
def edition():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLRC_HOME", str(ROOT))
        patch.delenv("DMLRC_RUNS", raising=False)
        return [*editions.load("published")]


def said(path, edition):
    """The sentences of a page's guards, and whether each holds of an edition; False where it cannot be computed."""
    [cell] = [cell for cell in nbformat.read(path, as_version=4).cells if "guards" in cell.metadata.get("tags", [])]
    found = {}

    class Prose:
        is_about, put = staticmethod(prose.is_about), staticmethod(lambda numbers: None)
        says = staticmethod(lambda sentence, holds: found.__setitem__(sentence, bool(holds)))

    try:
        exec(cell.source, {"prose": Prose, "edition": edition, "choosing": choosing})
    except (KeyError, ValueError, IndexError):  # of a method that has no score
        return None
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_guarded_sentence_is_on_its_page_and_holds(path, edition):
    text = " ".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")
    found = said(path, edition)
    assert found
    assert all(found.values()), found
    assert not [sentence for sentence in found if sentence not in " ".join(text.split())]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_guard_fails_where_the_studies_are_otherwise(path, edition):
    made = {name: said(path, change(edition)) for name, change in MADE_UP.items()}
    told = [found for found in made.values() if found is not None]
    assert len(told) >= 4
    always = {sentence for sentence in said(path, edition) if all(found[sentence] for found in told)}
    assert always == {sentence for sentence in ALWAYS if sentence in said(path, edition)}


def test_a_false_sentence_stops_the_page():
    prose.says("no loss wins", True)
    with pytest.raises(Exception, match="the page says 'no loss wins', which these records do not bear out"):
        prose.says("no loss wins", False)


def test_text_is_about_the_published_tables_alone():
    assert prose.is_about(list(editions.FIRST))
    assert not prose.is_about(["grocery-quick"])
    assert not prose.is_about([*editions.FIRST, "grocery-quick"])


def test_places_are_the_distances_from_the_best(edition):
    found = choosing.places(edition)
    assert (found.groupby("table")["behind"].min() == 0).all()
    assert found.loc[found["behind"] == 0, "tied"].all()
    cells, marks = choosing.place_cells(found)
    assert isinstance(cells, pd.DataFrame)
    assert cells.shape == marks.shape == (14, 6)
    assert (cells.iloc[:, :3] != "–").all(axis=None)
