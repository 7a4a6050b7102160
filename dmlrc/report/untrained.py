"""Scores that need no training: metrics on toy spaces, on random embeddings, of trunks with random weights.

The last two take a minute, so they are recorded (`record_random`), and computed only for settings without a record.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from dmlrc import data, metrics, models, paths
from dmlrc.data import ImageSet, augment
from dmlrc.data.splits import halves
from dmlrc.errors import MissingDataError
from dmlrc.records import StudyRecords, provenance
from dmlrc.report import published, tables
from dmlrc.studies import experiments

SHOWN = ("precision_at_1", "recall_at_4", "r_precision", "map_at_r", "map_at_c", "nmi", "f1")
"""The accuracy metrics that the live figures compare."""


def toy_spaces(seed: int = 0) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Three embeddings in the plane of two classes: title -> (embeddings (100, 2), labels (100,)).

    Every nearest neighbour is of the right class in all three, and k-means with k = 2 cuts them all in the middle, but
    the classes are kept apart better from one to the next. After Fig. 1 of Musgrave et al. 2020, whose coordinates are
    not published.
    """
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], 50)

    def strips(gap: float) -> np.ndarray:
        along = np.tile(np.linspace(0, 8, 50), 2)
        return np.stack([along, gap * labels + rng.normal(0, 0.05, len(labels))], axis=1)

    islands = np.arange(50) % 4  # each class has an island in each of four columns, above or below in turn
    islands = np.stack([islands, islands % 2], axis=1)
    centres = np.concatenate([islands, islands * (1, -1) + (0, 1)]) * (8 / 3, 3)
    return {
        "(a) islands": (centres + rng.normal(0, 0.12, centres.shape), labels),
        "(b) near strips": (strips(0.8), labels),
        "(c) far strips": (strips(3.0), labels),
    }


def toy_scores(
    spaces: dict[str, tuple[np.ndarray, np.ndarray]], names: Sequence[str] = SHOWN, seeds: int = 10
) -> pd.DataFrame:
    """Every metric on every space: a row a metric, a column a space; the mean over k-means seeds."""
    scores = {
        title: pd.DataFrame([metrics.evaluate(*space, names=names, seed=seed) for seed in range(seeds)]).mean()
        for title, space in spaces.items()
    }
    return pd.DataFrame(scores)


def random_scores(
    points: int, classes: Sequence[int], dim: int = 64, seed: int = 0, names: Sequence[str] = SHOWN
) -> pd.DataFrame:
    """Every metric on embeddings that know nothing: `points` random directions, labels dealt out at random.

    As Fig. 2 of Musgrave et al. 2020: a row a number of classes of equal size; nmi_expected is `nmi_of_random`.
    """
    drawn = np.random.default_rng(seed).standard_normal((points, dim))
    embeddings = torch.nn.functional.normalize(torch.from_numpy(drawn).float())
    rows = {}
    for count in classes:
        # of its own draw, so that a row does not depend on the other rows
        labels = np.random.default_rng((seed, count)).permutation(np.arange(points) % count)
        rows[count] = metrics.evaluate(embeddings, labels, names=names, seed=seed)
        rows[count]["nmi_expected"] = nmi_of_random(count, points / count)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("classes")


def random_trunks(
    images: ImageSet,
    trunks: Sequence[str],
    classes: Sequence[int] | None = None,
    images_per_class: int = 20,
    seed: int = 0,
) -> pd.DataFrame:
    """NMI of trunks with random weights, on the first n classes of the test half, for each n of `classes`.

    Table 2 of Musgrave et al. 2020 asks this of whole test sets (the default of `classes`). At most images_per_class
    images of a class, and at most 64 pixels wide: random weights see no detail. A trunk is as it comes out of its
    initialisation, in evaluation mode; features are L2-normalised. Columns: trunk, classes, images (a class, on
    average), nmi.
    """
    test = halves(images.labels).test
    numbers = np.unique(images.labels[test])
    classes = classes or [len(numbers)]
    chosen = [test[images.labels[test] == number][:images_per_class] for number in numbers[: max(classes)]]
    indices = np.concatenate(chosen)
    size, rows = min(64, images.images.shape[-1]), []
    pixels, labels = images.images[indices], images.labels[indices]
    for trunk in trunks:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = models.create_trunk(trunk)
        features = models.embed(model, pixels, lambda batch: augment.centre_crop(batch, size, size), 256, desc=None)
        features = torch.nn.functional.normalize(torch.from_numpy(features))
        for count in classes:
            part = np.isin(labels, numbers[:count])
            nmi = metrics.evaluate(features[part], labels[part], names=("nmi",), seed=seed)["nmi"]
            rows.append({"trunk": trunk, "classes": count, "images": part.sum() / count, "nmi": nmi})
    return pd.DataFrame(rows)


def recorded_scores(points: int, classes: Sequence[int], dim: int = 64) -> pd.DataFrame:
    """`random_scores` of all `SHOWN` metrics, from the records where these hold it."""
    settings = {"points": points, "dim": dim, "seed": 0}
    scores = _recorded("random-embeddings", settings, {"classes": classes})
    return random_scores(points, classes, dim) if scores is None else scores.set_index("classes")


def recorded_trunks(dataset: str, trunks: Sequence[str], classes: Sequence[int]) -> pd.DataFrame:
    """`random_trunks` of a data set with a name, from the records where these hold it."""
    settings = {"dataset": dataset, "images_per_class": 20, "seed": 0}
    scores = _recorded("random-trunks", settings, {"trunk": trunks, "classes": classes})
    return random_trunks(data.load(dataset), trunks, classes) if scores is None else scores


def trunks_of(study: StudyRecords, trunks: Sequence[str]) -> pd.DataFrame | None:
    """The scores of random trunks on a study's data set: as recorded around it, else `random_trunks` of its images.

    The records come first, so that a page does not depend on whose machine has the images. None where neither is here.
    """
    recorded = experiments.load_experiment(study.name, "trunks")
    if recorded and len(scores := random_trunks_of_study(recorded)):
        return scores
    try:
        return random_trunks(data.load(study.meta["dataset"]), trunks)
    except MissingDataError:
        return None


def random_trunks_of_study(recorded: StudyRecords) -> pd.DataFrame:
    """NMI of random trunks in experiment "trunks", means over the seeds, as `random_trunks` has them."""
    rows = recorded.scores[(recorded.scores["level"] == "random") & (recorded.scores["metric"] == "nmi")]
    means = rows.groupby("row", sort=False)["value"].mean()
    classes, images = tables.shape(recorded)
    return pd.DataFrame({"trunk": means.index, "classes": classes, "images": images, "nmi": means.to_numpy()})


def record_random(
    points: int, class_counts: Sequence[int], trunks: Sequence[str], trunk_classes: Sequence[int], dim: int = 64
) -> None:
    """Compute both tables at the settings of the chapter, and write the records that pages read."""
    common = {"seed": 0, "commit": provenance.commit()}
    scores = random_scores(points, class_counts, dim).reset_index().assign(points=points, dim=dim, **common)
    scores.to_csv(_file("random-embeddings"), index=False)
    of_trunks = random_trunks(data.load("glyphs"), trunks, trunk_classes)
    of_trunks.assign(dataset="glyphs", images_per_class=20, **common).to_csv(_file("random-trunks"), index=False)


def numbers() -> dict[str, float]:
    """The numbers behind the text of the page on metrics, in percent; the settings are those of the records.

    toy.map_at_r_step: the least by which it rises from one toy space to the next; random.nmi_step and glyphs.nmi_step:
    the same of NMI as classes are added, of each trunk. random.falls: the least by which any other score falls in all.
    sop.low, few.high: of the paper's random trunks on SOP, and on the data sets of few classes.
    """
    toy = toy_scores(toy_spaces())
    random = recorded_scores(10_000, (10, 30, 100, 300, 1000, 2500, 5000))
    trunks = ("conv4", "googlenet", "bn_inception", "resnet50")
    glyphs = recorded_trunks("glyphs", trunks, (12, 100, 400)).pivot(index="classes", columns="trunk", values="nmi")
    paper = published.trunks().query("source_table == 'Table 2'").groupby("dataset")["value"]
    others = random.drop(columns=["nmi", "nmi_expected"])
    named = {
        "toy.precision_at_1": toy.loc["precision_at_1"].min(),
        "toy.low": toy.loc["map_at_r"].min(),
        "toy.high": toy.loc["map_at_r"].max(),
        "toy.map_at_r_step": toy.loc["map_at_r"].diff().min(),
        "toy.nmi_of_two": toy.loc["nmi"].iloc[:2].max(),
        "toy.nmi": toy.loc["nmi"].max(),
        "random.nmi": random["nmi"].iloc[-1],
        "random.map_at_r": random["map_at_r"].iloc[-1],
        "random.nmi_step": random["nmi"].diff().min(),
        "random.falls": (others.iloc[0] - others.iloc[-1]).min(),
        "glyphs.nmi_step": glyphs.diff().min(axis=None),
        "sop.low": paper.min()["SOP"],
        "few.high": paper.max().drop("SOP").max(),
    }
    return {name: float(100 * value) for name, value in named.items()}


def _recorded(name: str, settings: Mapping[str, object], wanted: Mapping[str, Sequence]) -> pd.DataFrame | None:
    """The rows with these settings and every combination of `wanted`, in its order; None where one is missing."""
    if not _file(name).exists():
        return None
    rows = pd.read_csv(_file(name))
    for column, value in settings.items():
        rows = rows[rows[column] == value]
    asked = pd.DataFrame(itertools.product(*wanted.values()), columns=list(wanted))
    known = asked.merge(rows.drop(columns=[*settings, "commit"]), how="left", indicator=True)
    return known.drop(columns="_merge") if (known["_merge"] == "both").all() else None


def _file(name: str) -> Path:
    return paths.measured() / f"{name}.csv"


def nmi_of_random(classes: int, images: float) -> float:
    """NMI of embeddings whose clusters hold one image each of `images` classes: 1 - log S / log C, NaN for S > C.

    Musgrave et al. 2020, Eqs. 3-7; for C = `classes` of S = `images` each.

    >>> round(nmi_of_random(10_000, 4), 3)
    0.849
    """
    return float(1 - np.log(images) / np.log(classes)) if images <= classes else float("nan")
