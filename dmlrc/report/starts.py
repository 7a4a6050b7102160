"""The start of training: accuracy of an untrained trunk behind a random linear layer, for embeddings of every size.

The row of the untrained trunk has its features, reduced by a PCA that is fitted on the test images. PCA keeps the
directions of most variance, so it scores above where training starts: a random linear layer of the row's size. We
compare each row with that start, and show what more dimensions give untrained beside what they give after training.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from dmlrc import studies
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.studies import experiments

METRIC = "precision_at_1"


def by_dimension(main: str) -> pd.Series:
    """P@1 of the random linear layer by its dimensions, mean over its seeds; empty without experiment "projections"."""
    projections = experiments.load_experiment(main, "projections")
    if projections is None:
        return pd.Series(dtype=float)
    scores = projections.scores[(projections.scores["metric"] == METRIC) & projections.scores["level_number"].notna()]
    return scores.groupby("level_number")["value"].mean()


def curves_by_dimension(sweeps: Mapping[str, StudyRecords]) -> dict[str, pd.Series]:
    """`by_dimension` within each sweep of sizes, by its study; without the studies for which nothing is left."""
    curves = {}
    for name, sweep in sweeps.items():
        sizes, curve = sweep.level_numbers.values(), by_dimension(name)
        curves[name] = curve[(curve.index >= min(sizes)) & (curve.index <= max(sizes))]
    return {name: curve for name, curve in curves.items() if len(curve)}


def precision_scores(records: StudyRecords) -> pd.DataFrame:
    """P@1 of every run on the test half, alone and, where there are folds, joined: the rows of its scores."""
    rows = records.scores[records.scores["metric"] == METRIC]
    return rows[rows["setting"].isin(["separated", "concatenated"]) & rows["value"].notna()]


def of_trunk(records: StudyRecords) -> float:
    """P@1 of the untrained trunk, the highest that the records have, alone or joined; NaN where they have none."""
    rows = precision_scores(records)
    return float(rows[rows["method"] == PRETRAINED]["value"].max())


def of_rows(records: StudyRecords) -> pd.Series:
    """P@1 at which each row began: (method, setting) -> fraction.

    The random layer as wide as the row's embedding, joined ones counted together; between two recorded widths on the
    line between them, over log2, and beyond them the nearest. Of the study's own trunk and input, also for a row that
    has another one. Where that is not recorded, and for embeddings that are the trunk's features, the trunk itself; NaN
    where it is not there either, and where another order of the classes makes other test classes.
    """
    rows, curve = precision_scores(records), by_dimension(records.meta["parent"] or records.name)
    trunk = of_trunk(records)
    keys = rows[rows["method"] != PRETRAINED][["method", "setting"]].drop_duplicates()
    if _has_other_test_classes(records):
        return pd.Series(np.nan, pd.MultiIndex.from_frame(keys))
    if curve.empty:
        return pd.Series(trunk, pd.MultiIndex.from_frame(keys))
    study = studies.known().get(records.name)
    changes = {other.name: other.changes for other in study.methods} if study else {}
    protocols = [records.meta["protocol"] | dict(changes.get(method, {})) for method in keys["method"]]
    widths = pd.Series(map(_width, protocols, keys["setting"]), pd.MultiIndex.from_frame(keys), dtype=float)
    return pd.Series(np.interp(np.log2(widths), np.log2(curve.index), curve), widths.index).fillna(trunk)


def _has_other_test_classes(records: StudyRecords) -> bool:
    """True if an experiment orders the classes otherwise than the study around which it stands."""
    main = studies.known().get(records.meta["parent"])
    if main is None:
        return False
    order, seed = records.meta["class_order"], records.meta["seed"]
    return order != main.class_order or (order == "random" and seed != main.seed)


def _width(protocol: Mapping, setting: str) -> float:
    """The number of dimensions of an embedding; NaN where it is the trunk's features."""
    models = max(protocol["folds"], 1) * protocol["members"] if setting == "concatenated" else 1
    return protocol["embedding_dim"] * models if protocol["embedding_dim"] else float("nan")


def sizes_above(curve: pd.Series, sweep: StudyRecords) -> tuple[int, int]:
    """The number of sizes where a sweep's best row, by its mean, is above the trunk's curve, and the number of all."""
    rows = precision_scores(sweep).groupby(["row", "level_number"])["value"].mean()
    best = rows.groupby("level_number").max().reindex(curve.index).dropna()
    return int((best > curve[best.index]).sum()), len(best)
