"""The numbers that the papers print, in names of the records and fractions; sources: published_numbers/README.md."""

import functools
from collections.abc import Collection, Mapping
from importlib.resources import files

import numpy as np
import pandas as pd

from dmlrc.papers import fehervari2019, musgrave2020, roth2020

METRICS = {"P@1": "precision_at_1", "R@1": "precision_at_1", "RP": "r_precision", "MAP@R": "map_at_r", "NMI": "nmi"}
"""The papers' names of the metrics; R@1 and P@1 are one number."""

METHODS = {method.label: method.name for method in musgrave2020.METHODS} | {
    "Pretrained": "pretrained",
    "Normalized Softmax": "normalized_softmax",
    "SNR Contrastive": "snr",
    "Multi Similarity": "multi_similarity",
    "Multi Similarity + Miner": "multi_similarity_miner",
}
"""The Reality Check's names of the methods; its tables, its list of optima and its plots do not agree on them."""

FEHERVARI_METHODS = {method.label: method.name for method in fehervari2019.METHODS} | {"Npairs": "n_pairs"}
ZHAI_METHODS = {
    "Contrastive": "contrastive",
    "Lifted Struct": "lifted_structure",
    "Hist Loss": "histogram",
    "Bin. Deviance": "binomial_deviance",
    "Npairs": "n_pairs",
    "Angular Loss": "angular",
    "Clustering": "structured_clustering",
    "Proxy NCA": "proxy_nca",
    "Margin": "margin",
    "HTL": "htl",
    "HDC": "hdc",
    "A-BIER": "a_bier",
    "ABE-8": "abe_8",
    "DREML": "dreml",
    "LMCL": "lmcl_original",
    "LMCL*": "lmcl",
    "NormSoftmax": "norm_softmax",
    "NormSoftmax bits": "norm_softmax",
}
TRUNKS = {
    "GoogLeNet": "googlenet",
    "GoogleNet": "googlenet",
    "GoogleNet + attention": "googlenet_attention",
    "InceptionBN": "bn_inception",
    "BNInception": "bn_inception",
    "ResNet18": "resnet18",
    "ResNet50": "resnet50",
}
RECALLS = {f"R@{k}": f"recall_at_{k}" for k in (2, 4, 8, 10, 16, 20, 30, 100)}
NAMES = {"metric": METRICS | RECALLS | {"Recall@1": "precision_at_1", "JSD": "jsd"}} | dict.fromkeys(
    ("backbone", "net", "feature_extractor"), TRUNKS
)
"""The columns of the files that have names of ours, besides the methods."""
RUNS = 10
"""The Reality Check runs each method so often with the best setting of its search (section 3.2)."""
DATASETS = ("CUB200", "Cars196", "SOP")


def musgrave_results() -> pd.DataFrame:
    """Tables 3-5 of the Reality Check, a row a number.

    Columns: dataset, method, setting ("concatenated", "separated"), metric, mean, ci95 (half width of the 95 %
    interval; NaN where the paper gives none), n (runs, 1 where it gives no interval), source_table.
    """
    frame = _named("musgrave2020_results", METHODS, ("value", "ci95"), value="mean")
    runs = np.where(frame["ci95"].notna(), RUNS, 1)
    return frame.assign(n=runs)[["dataset", "method", "setting", "metric", "mean", "ci95", "n", "source_table"]]


def musgrave_tables() -> dict[str, pd.DataFrame]:
    """`musgrave_results` by data set."""
    return dict(list(musgrave_results().groupby("dataset", sort=False)))


def trunks() -> pd.DataFrame:
    """Tables 1 and 2 of the Reality Check: source_table, network, weights, dataset, metric (R@1 or NMI), value."""
    return _named("musgrave2020_tables12")


def hyperparameters() -> pd.DataFrame:
    """The Reality Check's best settings: dataset, batch_size, method, hyperparameter (its own name), value, note."""
    return _named("musgrave2020_hyperparameters", METHODS, ())


def search_traces() -> pd.DataFrame:
    """The Reality Check's 53 searches: dataset, batch_size, method, trial (from 1), best (MAP@R so far, fraction)."""
    frame = _named("musgrave2020_search_trials", METHODS, (), best_cv_map_at_r_so_far="best")
    keys = ["dataset", "batch_size", "method", "trial"]
    return frame.drop_duplicates(keys)[[*keys, "best"]].reset_index(drop=True)


def claims() -> pd.DataFrame:
    """R@1 (fractions) that papers claim for their own method and for the baselines in their tables.

    Only rows that were seen in the source that they name; rows recalled from memory are left out.
    Columns: paper, year, venue, dataset, role ("proposed", "contrastive_baseline", "triplet_baseline"), method,
    backbone, dim, r1, source, source_type, primary (the headline row of a paper and data set), note.
    """
    return _claims("claims_over_time")


def _claims(file: str) -> pd.DataFrame:
    frame = _read(file)
    seen = frame[frame["confidence"] == "read"].drop(columns=["confidence", "listed_in_mlrc"])
    return seen.assign(r1=seen["r1"] / 100, primary=seen["primary"] == 1).reset_index(drop=True)


@functools.cache
def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(files("dmlrc.report") / "published_numbers" / f"{name}.csv")


def _named(
    file: str, methods: Mapping[str, str] = METHODS, percent: Collection[str] = ("value",), **renamed: str
) -> pd.DataFrame:
    """A file with our names of methods, metrics and trunks, and fractions for percent. renamed: its column -> ours."""
    frame = _read(file)
    known = {column: names for column, names in {**NAMES, "method": methods}.items() if column in frame}
    frame = frame.assign(**{column: _known(frame[column], names) for column, names in known.items()})
    return frame.assign(**{column: frame[column] / 100 for column in percent}).rename(columns=renamed)


def _known(column: pd.Series, names: Mapping[str, str]) -> pd.Series:
    if strange := set(column) - set(names):
        raise KeyError(f"no name in this study for {', '.join(sorted(strange))}")
    return column.map(names)


def roth_results() -> pd.DataFrame:
    """Table 2 of Roth et al. 2020, a row a number.

    Columns: dataset, method, group, metric, mean, std (over 5 seeds), source_table. Methods are named as in
    `papers.roth2020`, and "pretrained", which has no std. group: "pretrained", "objective", "mining variant",
    "rho-regularised". SOP has no Pnca and no SoftTriple.
    """
    names = {method.label: method.name for method in roth2020.METHODS} | {"Imagenet": "pretrained"}
    return _named("roth2020_results", names, ("value", "std"), value="mean")


def roth_trunks() -> pd.DataFrame:
    """Table 1 of Roth et al. 2020, ImageNet trunks and a random linear layer: network, dataset, metric, value."""
    return _named("roth2020_table1")[["network", "dataset", "metric", "value"]]


def oi_results() -> pd.DataFrame:
    """Table 1 of Oi et al. 2021: dataset, class_order ("default", "random"), metric, value (fraction)."""
    return _named("oi2021_table1", METHODS, (), splitting="class_order")[["dataset", "class_order", "metric", "value"]]


def fehervari_results() -> pd.DataFrame:
    """Tables 2-4 of Fehervari et al. 2019, a row a number.

    Columns: dataset, method, trunk, metric, value, reported_r1 (what the original paper claims; in rows of
    precision_at_1), plotted (the number in the authors' own plots where it differs from the table; NaN where not),
    doubtful (the table's number is taken for a slip of the authors), source_table, note.
    """
    percent = ("value", "reported_r1", "plotted")
    frame = _named("fehervari2019_results", FEHERVARI_METHODS, percent, backbone="trunk")
    return frame.assign(doubtful=frame["doubtful"] == 1, note=frame["note"].fillna(""))


def fehervari_settings() -> pd.DataFrame:
    """Table 1 of Fehervari et al. 2019: the settings of the papers that proposed the methods.

    Columns: method, feature_extractor, embedding_size (text: an ensemble's is "12x48"; NaN where not given),
    reported_r1 (CUB200, fraction), normalize_last_layer (bool).
    """
    percent = "reported_r1_cub200"
    frame = _named("fehervari2019_settings", FEHERVARI_METHODS, (percent,), **{percent: "reported_r1"})
    frame["normalize_last_layer"] = frame["normalize_last_layer"] == "yes"
    return frame.drop(columns="source_table")


def zhai_results() -> pd.DataFrame:
    """Tables 1-3, 5 and 6 of Zhai and Wu 2019, a row a number; rows marked uncertain are left out.

    Columns: source_table, trunk, dim, dataset, metric, value, method, binary (the signs of the embedding), note. The
    numbers of all methods but norm_softmax, lmcl and lmcl_original are quoted by the paper from others. lmcl_original:
    LMCL as its authors propose it; lmcl: the loss in this paper's pipeline.
    """
    frame = _named("zhai2019_results", ZHAI_METHODS, net="trunk")
    binary = _read("zhai2019_results")["method"] == "NormSoftmax bits"
    frame = frame.assign(binary=binary, note=frame["note"].fillna(""))[frame["uncertain"] == 0]
    columns = ["source_table", "trunk", "dim", "dataset", "metric", "value", "method", "binary", "note"]
    return frame[columns].reset_index(drop=True)


def zhai_samples_per_class() -> pd.DataFrame:
    """Table 4 of Zhai and Wu 2019, R@1 on CUB200: samples, classes (of a batch; NaN: not balanced), value."""
    columns = {"samples_per_class": "samples", "classes_per_batch": "classes"}
    return _named("zhai2019_samples_per_class", **columns)[["samples", "classes", "value"]]


def claims_after_2019() -> pd.DataFrame:
    """R@1 (fractions) that papers after 2019 claim, in the columns of `claims`, and by its rule: only rows seen.

    Three more roles: "own_baseline" (a paper's run of its own starting point), "rerun" (a loss trained by others) and
    "anonymous" (a loss trained by who is not said).
    Headline rows mix trunks and embedding sizes, so compare within one backbone. Proxy-Anchor's are in `claims`.
    """
    return _claims("claims_after_2019")
