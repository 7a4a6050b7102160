"""All results in one table: a row a study, method and setting, with what a reader sorts and filters by."""

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from dmlrc import papers
from dmlrc.methods import Method
from dmlrc.papers import after2019
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import common, labels, tables, titles
from dmlrc.studies import experiments

METRICS = ("map_at_r", "precision_at_1", "r_precision", "nmi")
SETTINGS = {
    "concatenated": "folds joined",
    "separated": "one model",
    "concatenated_binary": "folds joined, bits",
    "separated_binary": "one model, bits",
}
METHODS_TABLE = "methods table"
SWEEPS = {
    "batches": "batch size",
    "batches-equal": "batch size, equal images",
    "decays": "weight decay",
    "dims": "embedding size",
    "layer_norm": "LayerNorm",
    "losses": "losses",
    "losses-equal": "losses, equal batches",
    "preprocessing": "augmentation",
    "random": "random class order",
    "samples": "images of a class",
    "samplers": "samplers",
    "shares": "share of classes",
    "trunks": "trunks",
}


def results(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """Every test score of the studies and of the experiments around them, a row a study, method, setting and metric.

    Columns: record (the study's slug), study (that it stands around), experiment, method, label, setting, metric, mean,
    ci95, n, rank_low, rank_high, tied (with the best of its study, setting and metric). Ranks are among the trained
    methods of one study: by the intervals where the record has no better ones (`tables.accuracy`).
    """
    return pd.concat([_rows(*each) for each in _recorded(edition)], ignore_index=True)


def _recorded(edition: Sequence[StudyRecords]) -> Iterator[tuple[str, str, StudyRecords]]:
    for main in edition:
        yield main.name, METHODS_TABLE, main
        for name in experiments.of(main.name):
            if (found := experiments.load(main.name, name)) is not None:
                yield main.name, name, found


def _rows(study: str, experiment: str, records: StudyRecords) -> pd.DataFrame:
    frame = tables.accuracy(records) if records.searches > 1 else common.over_seeds(records)
    frame = frame[frame["setting"].isin(SETTINGS)]
    parts = [part.assign(**_ranks(part)) for _, part in frame.groupby(["setting", "metric"], sort=False)]
    columns = ["method", "setting", "metric", "mean", "ci95", "n", "rank_low", "rank_high", "tied"]
    known = known_methods(experiment)
    rows = pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)
    return rows.assign(
        record=records.name, study=study, experiment=experiment, label=[label(name, known) for name in rows["method"]]
    )


def _ranks(part: pd.DataFrame) -> dict[str, pd.Series]:
    """Between which places each row's mean may lie, and whether its interval reaches that of the best."""
    if "rank_low" in part and part["rank_low"].notna().any():
        return {"tied": part["among_best"].fillna(False).astype(bool)}
    competing = part[part["method"] != PRETRAINED]
    low, high = (competing["mean"] + sign * competing["ci95"].fillna(0.0) for sign in (-1, 1))
    above = pd.Series([(low > reach).sum() + 1 for reach in high], index=competing.index, dtype=float)
    below = pd.Series([len(low) - (high < reach).sum() for reach in low], index=competing.index, dtype=float)
    return {
        "rank_low": above.reindex(part.index),
        "rank_high": below.reindex(part.index),
        "tied": (above == 1).reindex(part.index, fill_value=False),
    }


def known_methods(experiment: str) -> dict[str, Method]:
    """The methods of the paper that an experiment follows, by name."""
    key = experiment.partition("-")[0]
    of_paper = next((paper.methods for paper in papers.ALL if paper.key == key), ())
    return dict(tables.METHODS) | {method.name: method for method in (*after2019.METHODS, *of_paper)}


def label(method: str, known: dict[str, Method]) -> str:
    """A method as printed, with the level of its sweep behind it.

    >>> label("triplet@dim16", tables.METHODS), label("pretrained", {}), label("mine", {})
    ('Triplet, dim 16', 'Untrained trunk', 'mine')
    """
    name, _, level = method.partition("@")
    words = re.sub(r"(?<=[a-z])(?=\d)", " ", level)
    text = "Untrained trunk" if name == PRETRAINED else known[name].label if name in known else name
    return f"{text}, {words}" if words else text


def experiment_title(experiment: str) -> str:
    """An experiment in words.

    >>> experiment_title("roth2020-dims"), experiment_title("after2019"), experiment_title("methods table")
    ('Roth et al. 2020: embedding size', 'losses after 2019', 'methods table')
    """
    if experiment == "after2019":
        return "losses after 2019"
    key, _, sweep = experiment.partition("-")
    paper = next((paper.label for paper in papers.ALL if paper.key == key), key)
    return f"{paper}: {SWEEPS.get(sweep, sweep)}" if sweep else paper


def cells(found: pd.DataFrame) -> pd.DataFrame:
    """`results` as cells, a row a study, method and setting: MAP@R, its rank and ties, then the other metrics."""
    keys = ["record", "study", "experiment", "label", "setting"]
    found = found.drop_duplicates([*keys, "metric"])
    texts = found.assign(cell=[labels.percent(*pair) for pair in found[["mean", "ci95"]].to_numpy()])
    wide = texts.pivot(index=keys, columns="metric", values="cell").reindex(columns=list(METRICS)).fillna("–")
    ranked = found[found["metric"] == METRICS[0]].set_index(keys).reindex(wide.index)
    runs = found.groupby(keys)["n"].max().reindex(wide.index)
    order = {name: place for place, name in enumerate(dict.fromkeys(found["record"]))}
    table = pd.DataFrame(
        {
            "MAP@R": wide["map_at_r"].to_numpy(),
            "rank": [_places(*pair) for pair in ranked[["rank_low", "rank_high"]].to_numpy(dtype=float)],
            "first": np.where(ranked["tied"].eq(True), "tied", "no"),
            **{labels.METRIC_LABELS[name]: wide[name].to_numpy() for name in METRICS[1:]},
            "study": wide.index.get_level_values("study").map(titles.title),
            "experiment": wide.index.get_level_values("experiment").map(experiment_title),
            "setting": wide.index.get_level_values("setting").map(SETTINGS),
            "runs": runs.astype(int).astype(str).to_numpy(),
            "record": wide.index.get_level_values("record"),
        },
        index=pd.Index(wide.index.get_level_values("label"), name="Method"),
    )
    return table.iloc[np.argsort(table["record"].map(order).to_numpy(), kind="stable")]


def _places(low: float, high: float) -> str:
    """
    >>> _places(1, 3), _places(2, 2), _places(float("nan"), 1)
    ('1 to 3', '2', '–')
    """
    if np.isnan(low) or np.isnan(high):
        return "–"
    return f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"
