"""The numbers that the papers print, in the study's own words: method and metric names as in the records, fractions.

Sources and caveats of every file stand in reported_numbers/README.md.
"""

import functools
from importlib.resources import files

import pandas as pd

METRICS = {"P@1": "precision_at_1", "R@1": "precision_at_1", "RP": "r_precision", "MAP@R": "map_at_r", "NMI": "nmi"}
"""The papers' names of the metrics; R@1 and P@1 are one number."""

METHODS = {
    "Pretrained": "pretrained",
    "Contrastive": "contrastive",
    "Triplet": "triplet",
    "NTXent": "ntxent",
    "ProxyNCA": "proxy_nca",
    "Margin": "margin",
    "Margin / class": "margin_per_class",
    "N. Softmax": "normalized_softmax",
    "Normalized Softmax": "normalized_softmax",
    "CosFace": "cosface",
    "ArcFace": "arcface",
    "FastAP": "fast_ap",
    "SNR": "snr",
    "SNR Contrastive": "snr",
    "MS": "multi_similarity",
    "Multi Similarity": "multi_similarity",
    "MS+Miner": "multi_similarity_miner",
    "Multi Similarity + Miner": "multi_similarity_miner",
    "SoftTriple": "soft_triple",
}
"""The Reality Check's names of the methods; its tables, its list of optima and its plots do not agree on them."""

DATASETS = ("CUB200", "Cars196", "SOP")


def results() -> pd.DataFrame:
    """Tables 3-5 of the Reality Check, a row a number.

    Columns: dataset, method, setting ("concatenated", "separated"), metric, mean, ci95 (half width of the 95 %
    interval; NaN where the paper gives none), source_table.
    """
    frame = _read("musgrave2020_results")
    return pd.DataFrame(
        {
            "dataset": frame["dataset"],
            "method": _known(frame["method"], METHODS),
            "setting": frame["setting"],
            "metric": _known(frame["metric"], METRICS),
            "mean": frame["value"] / 100,
            "ci95": frame["ci95"] / 100,
            "source_table": frame["source_table"],
        }
    )


def trunks() -> pd.DataFrame:
    """Tables 1 and 2 of the Reality Check: trunks with ImageNet weights (R@1) and with random ones (NMI).

    Columns: source_table, network, weights, dataset, metric, value.
    """
    frame = _read("musgrave2020_tables12")
    return frame.assign(metric=_known(frame["metric"], METRICS), value=frame["value"] / 100)


def hyperparameters() -> pd.DataFrame:
    """The best hyperparameters that the Reality Check's searches found.

    Columns: dataset, batch_size, method, hyperparameter (the source's name of it), value, note.
    """
    frame = _read("musgrave2020_hyperparameters")
    return frame.assign(method=_known(frame["method"], METHODS))


def search_traces() -> pd.DataFrame:
    """The Reality Check's 53 searches: the best cross-validated MAP@R after each of 50 trials.

    Columns: dataset, batch_size, method, trial (from 1), best (fraction).
    """
    frame = _read("musgrave2020_search_trials")
    frame = frame.drop_duplicates(["dataset", "batch_size", "method", "trial"])
    traces = frame.assign(method=_known(frame["method"], METHODS), best=frame["best_cv_map_at_r_so_far"])
    return traces[["dataset", "batch_size", "method", "trial", "best"]].reset_index(drop=True)


def claims() -> pd.DataFrame:
    """What papers claim (R@1, fraction) for their own method and for the baselines in their tables.

    Only rows that were seen in the source that they name; rows recalled from memory are left out.
    Columns: paper, year, venue, dataset, role ("proposed", "contrastive_baseline", "triplet_baseline"), method,
    backbone, dim, r1, source, source_type, primary (the headline row of a paper and data set), note.
    """
    frame = _read("claims_over_time")
    seen = frame[frame["confidence"] == "read"].drop(columns=["confidence", "listed_in_mlrc"])
    return seen.assign(r1=seen["r1"] / 100, primary=seen["primary"] == 1).reset_index(drop=True)


@functools.cache
def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(files("dmlrc") / "reported_numbers" / f"{name}.csv")


def _known(column: pd.Series, names: dict[str, str]) -> pd.Series:
    strange = set(column) - set(names)
    if strange:
        raise KeyError(f"no name in this study for {', '.join(sorted(strange))}")
    return column.map(names)
