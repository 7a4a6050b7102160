"""What a person wrote about the published studies: every sentence is on its page, true, and false where it should be.

Of a guard that no made-up edition makes fail, `ALWAYS` says why.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest

from dmlrc import records
from dmlrc.records import PRETRAINED
from dmlrc.report import choosing, editions, prose

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
    if any("guards" in cell.metadata.get("tags", []) for cell in nbformat.read(path, as_version=4).cells)
]
KEYS = ["method", "setting", "metric"]
ALWAYS: dict[str, str] = {
    "ten times the chosen one on birds and cars, three times on groceries": "a setting of the runs, no score",
    "Training the last block too does not visibly reorder the losses": "all editions change both depths alike; "
    "test_depth.py turns one of them",
}
"""Sentence -> why no edition below makes it false."""


def scored(study, change):
    """Records with other test scores: change(scores, their method's mean) -> scores."""
    scores = study.scores.copy()
    trained = scores["method"] != PRETRAINED
    means = scores.groupby(KEYS)["value"].transform("mean")
    scores.loc[trained, "value"] = change(scores, means)[trained]
    return replace(study, scores=scores)


def turned(study):
    """The best method is the worst, on test and on validation classes, and hyperparameters matter the other way."""

    def mirrored(frame, means, by):
        ends = means.groupby([frame[name] for name in by]).transform("max")
        ends += means.groupby([frame[name] for name in by]).transform("min")
        return ends - means + (frame["value"] - means)

    found = scored(study, lambda scores, means: mirrored(scores, means, ["setting", "metric"]))
    trials = found.trials.copy()
    values = trials.groupby(trials["row"].where(trials["level"].notna(), trials["method"]))["value"]
    trials["value"] = values.transform("max") + values.transform("min") - trials["value"]
    return replace(found, trials=trials)


def equal(study):
    def levelled(scores, means):
        return scores["value"] - means + means.groupby([scores["setting"], scores["metric"]]).transform("mean")

    rng, found = np.random.default_rng(0), scored(study, levelled)
    trials = found.trials.assign(value=rng.uniform(0.01, 0.5, len(found.trials)))  # no hyperparameter matters
    return replace(found, trials=trials)


def below(study):
    return scored(study, lambda scores, means: scores["value"] * 0.2)


def diverged(study):
    methods = sorted({*study.reruns["method"]} - {PRETRAINED})
    gone = {*methods[::2]} - {"contrastive"} | {"multi_similarity"}
    frames = {name: getattr(study, name) for name in ("scores", "reruns", "runs", "curves", "arrays")}
    return replace(study, **{name: frame[~frame["method"].isin(gone)] for name, frame in frames.items()})


def lucky(study):
    return scored(study, lambda scores, means: means + 10 * (scores["value"] - means))


def opposite(study):
    """The order turned, and training helps where it hurt: fourfold scores."""
    return scored(turned(study), lambda scores, means: 4 * scores["value"])


MADE_UP = {
    "as it is": lambda study: study,
    "reversed": turned,
    "all equal": equal,
    "below the start": below,
    "half diverged": diverged,
    "luck tenfold": lucky,
    "one set opposite": lambda study: opposite(study) if study.meta["dataset"] == "cub200_2010" else study,
}


@pytest.fixture(autouse=True)
def home(monkeypatch):
    """The project's own records, in the place of no records: those of experiments are looked up as pages compute."""
    monkeypatch.setenv("DMLRC_HOME", str(ROOT))
    return ROOT


@pytest.fixture(scope="module", params=MADE_UP)
def world(request):
    """The name of a made-up edition, and its studies; the experiments around them are made up alike."""
    change, load = MADE_UP[request.param], records.load
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLRC_HOME", str(ROOT))
        patch.delenv("DMLRC_RUNS", raising=False)
        patch.setattr(records, "load", cache(lambda name: change(load(name))))
        yield request.param, editions.load("published")


SAID: dict[str, dict[str, dict[str, bool]]] = {}
"""Page -> made-up edition -> sentence -> whether it holds there; None of an edition that nothing can be computed of."""


def said(path, edition):
    """The sentences of a page's guards, and whether each holds of an edition; None where it cannot be computed."""
    [cell] = [cell for cell in nbformat.read(path, as_version=4).cells if "guards" in cell.metadata.get("tags", [])]
    found = {}

    class Prose:
        is_about, put = staticmethod(prose.is_about), staticmethod(lambda numbers: None)
        says = staticmethod(lambda sentence, holds: found.__setitem__(sentence, bool(holds)))

    try:
        exec(cell.source, {"prose": Prose, "edition": edition})
    except (KeyError, ValueError, IndexError):  # of a method that has no score
        return None
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_guarded_sentence_is_on_its_page_and_holds(path, world):
    name, edition = world
    found = said(path, edition)
    SAID.setdefault(path.stem, {})[name] = found
    if name == "as it is":
        cells = nbformat.read(path, as_version=4).cells
        text = " ".join(" ".join(cell.source for cell in cells if cell.cell_type == "markdown").split())
        assert found
        assert [sentence for sentence, holds in found.items() if not holds] == []
        assert [sentence for sentence in found if sentence not in text] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_guard_fails_where_the_studies_are_otherwise(path):
    made = SAID.get(path.stem, {})
    if made.keys() != MADE_UP.keys():
        pytest.skip("the made-up editions were tried in another process, or not all of them")
    told = [found for name, found in made.items() if found is not None and name != "as it is"]
    assert len(told) >= 4
    always = {sentence for sentence in made["as it is"] if all(found.get(sentence, True) for found in told)}
    assert always == {sentence for sentence in ALWAYS if sentence in made["as it is"]}


def test_a_false_sentence_stops_the_page():
    prose.says("no loss wins", True)
    with pytest.raises(Exception, match="the page says 'no loss wins', which these records do not bear out"):
        prose.says("no loss wins", False)


def test_text_is_about_the_published_tables_alone():
    assert prose.is_about(list(editions.FIRST))
    assert not prose.is_about(["grocery-quick"])
    assert not prose.is_about([*editions.FIRST, "grocery-quick"])


def test_places_are_the_distances_from_the_best(world):
    name, edition = world
    if name == "half diverged":
        return
    found = choosing.places(edition)
    assert (found.groupby("table")["behind"].min() == 0).all()
    assert found.loc[found["behind"] == 0, "tied"].all()
    cells, marks = choosing.place_cells(found)
    assert isinstance(cells, pd.DataFrame)
    assert cells.shape == marks.shape == (14, 6)
    assert (cells.iloc[:, :3] != "–").all(axis=None)
