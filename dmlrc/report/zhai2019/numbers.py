"""The numbers of Zhai and Wu 2019, Classification is a Strong Baseline for Deep Metric Learning: frames of fractions.

Experiments: zhai2019-losses (Tables 1-3), zhai2019-samples (Table 4), zhai2019 and zhai2019-dims (Tables 5 and 6, Fig.
2), zhai2019-layer_norm (Fig. 3), zhai2019-shares (Fig. 4).
"""

import numpy as np
import pandas as pd

from dmlrc.data import splits
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import common, labels, published, statistics
from dmlrc.report.statistics import Estimate, of_groups

TRUNK_LABELS = labels.TRUNK_LABELS | {"googlenet_attention": "GoogLeNet + attention"}


LOSS_TABLES = {"Table 1": "googlenet", "Table 2": "bn_inception", "Table 3": "resnet50"}
"""Tables 1-3: the same comparison with three trunks."""


PAPER_METRICS = {
    "SOP": ("precision_at_1", "recall_at_10", "recall_at_100"),
    "In-Shop": ("precision_at_1", "recall_at_10", "recall_at_20", "recall_at_30"),
    "Cars196": ("precision_at_1", "recall_at_2", "recall_at_4", "recall_at_8"),
    "CUB200": ("precision_at_1", "recall_at_2", "recall_at_4", "recall_at_8"),
}


LOSS_METRICS = (
    *("precision_at_1", "recall_at_2", "recall_at_4", "recall_at_8"),
    *("recall_at_10", "recall_at_100", "nmi"),
)


BEST_TABLES = {"Table 5": ("SOP", "In-Shop"), "Table 6": ("Cars196", "CUB200")}


OWN = ("lmcl_original", "lmcl", "norm_softmax")
"""The rows of Tables 5 and 6 that the paper trained itself."""


LAYER_NORM = {"norm_softmax@layer-norm": "with LayerNorm", "norm_softmax@no-layer-norm": "without"}


SOFTMAX = "norm_softmax"


def losses(records: StudyRecords) -> pd.DataFrame:
    """The losses of one pipeline: method, trunk, dim, metric, mean, ci95, n, by the floats of the embeddings.

    records: zhai2019-losses. The untrained trunk is among them.
    """
    frame = common.over_seeds(records)
    frame = frame[frame["setting"] == "separated"]
    own = {method: common.settings(records, method) for method in frame["method"].unique()}
    named = frame.assign(
        trunk=frame["method"].map({method: setting["trunk"] for method, setting in own.items()}),
        dim=frame["method"].map({method: setting["embedding_dim"] for method, setting in own.items()}),
        method=frame["row"],
    )
    return named[["method", "trunk", "dim", "metric", "mean", "ci95", "n"]].reset_index(drop=True)


def of_table(table: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of `losses` that belong beside one of Tables 1-3: those with its trunk.

    Beside Table 1, the first and longest, stand those with none of the three trunks too.
    """
    mine = frame["trunk"] == LOSS_TABLES[table]
    return frame[mine | ~frame["trunk"].isin(LOSS_TABLES.values())] if table == "Table 1" else frame[mine]


def printed_table(table: str) -> pd.DataFrame:
    """One table of `published.zhai_results`."""
    frame = published.zhai_results()
    return frame[frame["source_table"] == table]


def samples(records: StudyRecords) -> pd.DataFrame:
    """R@1 against the layout of a batch: samples, classes (NaN: no balancing), mean, ci95, n."""
    frame = common.over_seeds(records)
    frame = frame[(frame["setting"] == "separated") & (frame["metric"] == "precision_at_1") & (frame["value"] != "")]
    parts = frame["value"].str.extract(r"^(\d+)x(\d+)$").astype(float)
    numbered = frame.assign(samples=parts[0], classes=parts[1])
    return numbered[["samples", "classes", "mean", "ci95", "n"]].sort_values("samples", na_position="first")


def embeddings(main: StudyRecords | None, dims: StudyRecords | None) -> pd.DataFrame:
    """Rows for Tables 5 and 6: method, dim, binary, metric, mean, ci95, n.

    main: zhai2019. dims: zhai2019-dims, of which those sizes are taken that the paper's tables have, and only where the
    main study, with more seeds, does not have the row. The pretrained trunk is left out.
    """
    columns = ["method", "dim", "binary", "metric", "mean", "ci95", "n"]
    frames = [_embeddings(records)[columns] for records in (main, dims) if records is not None]
    if not frames:
        return pd.DataFrame(columns=columns)
    if len(frames) == 2:
        sizes = {(row.method, row.dim, row.binary) for row in published.zhai_results().itertuples()}
        sizes -= set(frames[0][["method", "dim", "binary"]].itertuples(index=False, name=None))
        keys = frames[1][["method", "dim", "binary"]].itertuples(index=False, name=None)
        frames[1] = frames[1][[key in sizes for key in keys]]
    return pd.concat(frames, ignore_index=True)


def _embeddings(records: StudyRecords) -> pd.DataFrame:
    frame = common.over_seeds(records)
    frame = frame[frame["setting"].isin(["separated", "separated_binary"]) & (frame["method"] != PRETRAINED)]
    own = {method: _dim(records, method) for method in frame["method"].unique()}
    return frame.assign(
        dim=frame["method"].map(own), binary=frame["setting"] == "separated_binary", method=frame["row"]
    )


def _dim(records: StudyRecords, method: str) -> float:
    """The size of the embedding; without a linear layer that of the paper's trunk, 2048."""
    return common.settings(records, method)["embedding_dim"] or 2048


def _depth(metric: str) -> int:
    """The K of R@K, to sort by."""
    recall = common.RECALL.fullmatch(metric)
    return int(recall[1]) if recall else 1


def paper_bits(dataset: str) -> float:
    """R@1 of the 2048 bits less that of the 2048 floats, in Tables 5 and 6."""
    return _paper_r1(dataset, SOFTMAX, 2048, True) - _paper_r1(dataset, SOFTMAX, 2048, False)


def _paper_r1(dataset: str, method: str, dim: int, binary: bool) -> float:
    frame = published.zhai_results()
    rows = frame[frame["source_table"].isin(BEST_TABLES) & (frame["metric"] == "precision_at_1")]
    rows = rows.set_index(["dataset", "method", "dim", "binary", "trunk"])["value"]
    return float(rows[dataset, method, dim, binary, "resnet50"])


def _r1(records: StudyRecords, setting: str = "separated") -> pd.DataFrame:
    """R@1 of every rerun in one setting; see `common.seeds`."""
    scores = common.seeds(records)
    return scores[(scores["setting"] == setting) & (scores["metric"] == "precision_at_1")]


def bits_cost(records: StudyRecords, method: str = SOFTMAX) -> Estimate:
    """R@1 of the bits less that of the floats, over the reruns: pairs, since both are of the same models."""
    frames = (_r1(records, "separated_binary"), _r1(records))
    bits, floats = (frame[frame["method"] == method].set_index("rerun")["score"] for frame in frames)
    return statistics.mean(bits - floats, "reruns")


def over_lmcl(records: StudyRecords) -> Estimate:
    """R@1 of normalised softmax less that of LMCL, see `common.difference`."""
    return common.difference(_r1(records), SOFTMAX, "lmcl")


def sizes(records: StudyRecords) -> pd.DataFrame:
    """R@1 against the size of the embedding: dim, binary, mean, ci95, n. records: zhai2019-dims."""
    frame = _embeddings(records)
    frame = frame[(frame["metric"] == "precision_at_1") & (frame["value"] != "")]
    return frame[["dim", "binary", "mean", "ci95", "n"]].sort_values(["binary", "dim"], ignore_index=True)


def gaps(records: StudyRecords) -> pd.DataFrame:
    """What bits cost at every size: dim, mean (R@1 of the bits less that of the floats), ci95, n."""
    rows = _r1(records)
    methods = {method: _dim(records, method) for method in rows[rows["value"] != ""]["method"].unique()}
    found = {dim: bits_cost(records, method) for method, dim in methods.items()}
    rows = [(dim, each.value, each.half, each.n) for dim, each in found.items()]
    return pd.DataFrame(rows, columns=["dim", "mean", "ci95", "n"]).sort_values("dim", ignore_index=True)


def training_classes(records: StudyRecords, method: str) -> int:
    """How many classes a run of a method trains on."""
    own, labels = common.settings(records, method), np.arange(records.meta["data"]["classes"])
    if own["split"] == "ratio_4_1_5":
        parts = splits.ratio_4_1_5(labels, order=records.meta["class_order"], seed=records.meta["seed"])
    else:
        parts = splits.halves(labels, own["folds"], records.meta["class_order"], records.meta["seed"])
    return len(parts.folds[0].train)


def layer_norm_curves(records: StudyRecords) -> pd.DataFrame:
    """The reruns' curves with and without LayerNorm: method, metric (loss, precision_at_1), step, mean, ci95, n."""
    curves = records.curves[(records.curves["kind"] == "rerun") & records.curves["method"].isin(list(LAYER_NORM))]
    curves = curves[curves["metric"].isin(["loss", "precision_at_1"])].dropna(subset=["value"])
    groups = curves.groupby(["method", "metric", "step"], sort=False)["value"]
    return of_groups(groups).reset_index()


def layer_norm_gain(records: StudyRecords) -> Estimate:
    """R@1 on the test classes with LayerNorm less that without, over the reruns."""
    return common.difference(_r1(records), *LAYER_NORM)


def shares(records: StudyRecords) -> pd.DataFrame:
    """R@K against the share of the classes in each step's softmax: share, metric, mean, ci95, n."""
    frame = common.over_seeds(records)
    metrics = frame["metric"].isin(["precision_at_1", "recall_at_10", "recall_at_100"])
    frame = frame[(frame["setting"] == "separated") & metrics & (frame["value"] != "")]
    numbered = frame.assign(share=frame["value"].map(records.level_numbers))
    return numbered[["share", "metric", "mean", "ci95", "n"]].sort_values(["metric", "share"], ignore_index=True)


def share_cost(records: StudyRecords, share: float = 0.1) -> Estimate:
    """R@1 with this share of the classes less that with all, over the reruns."""
    return common.difference(_r1(records), f"{SOFTMAX}@share{share:g}", f"{SOFTMAX}@share1")
