"""The numbers of Roth et al. 2020, Revisiting Training Strategies and Generalization Performance in DML.

Experiments: trunks (Table 1), roth2020 (Table 2, Figs. 1, 5, 7), roth2020-batches, -decays, -preprocessing, -trunks and
-dims (Fig. 2), roth2020-samplers (Fig. 3); Fig. 4 pools them all. Fig. 6 needs none: `toy`.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from dmlrc.building import normalized
from dmlrc.papers import roth2020
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import common, labels, published, statistics, titles
from dmlrc.report.common import ByStudy
from dmlrc.report.statistics import Estimate, of_groups

METHODS = {method.name: method for method in roth2020.METHODS}
"""The methods of Table 2, in its order."""


REGULARISED = {
    "r_contrastive": "contrastive",
    "r_margin_06": "margin_06",
    "r_margin_12": "margin_12",
    "r_snr": "snr",
    "r_triplet": "triplet_distance",
}
"""The rho-regularised methods and the methods that they regularise."""


PLAIN = tuple(name for name in METHODS if name not in REGULARISED)


TABLE = ("precision_at_1", "nmi")


METRICS = ("precision_at_1", "recall_at_2", "nmi", "f1", "map_at_c", "map_at_1000")
"""The metrics of section 4.1, over which Figs. 2 and 3 average."""


ALL_METRICS = roth2020.PROTOCOL.test_metrics


STRUCTURE = {
    "pi_intra": "$\\pi_{intra}$",
    "pi_inter": "$\\pi_{inter}$",
    "pi_ratio": "$\\pi_{ratio}$",
    "rho": "$\\rho$",
}


SCALED = ("pi_intra", "pi_inter")
"""Properties in the unit of the embeddings: they compare only where embeddings have length 1."""


FACTORS = {
    "batches": ("batch", "images in a batch"),
    "decays": ("decay", "weight decay"),
    "preprocessing": ("", "preprocessing"),
    "trunks": ("", "trunk, pretrained or random"),
    "dims": ("dim", "embedding size"),
}
"""What Fig. 2 varies: the end of the experiment's id -> what stands before the number in a value, what it is."""


SAMPLERS = {name: name.upper() for name in roth2020.SAMPLERS} | {
    "spc2": "SPC-2",
    "spc4": "SPC-4",
    "spc8": "SPC-8",
    "spcr": "SPC-R",
}


PAPER_SEEDS = roth2020.BUDGET.reruns


def roth_label(method: str) -> str:
    """A method as the paper prints it."""
    return labels.UNTRAINED if method == PRETRAINED else METHODS[method].label if method in METHODS else method


def scores(records: StudyRecords, setting: str = "separated") -> pd.DataFrame:
    """`common.seeds` of one setting, without values that are not finite (rho of a collapsed embedding)."""
    frame = common.seeds(records)
    return frame[(frame["setting"] == setting) & np.isfinite(frame["score"])]


def table2(records: StudyRecords) -> pd.DataFrame:
    """R@1 and NMI of every method over the seeds: method, metric, mean, std, ci95, n; std, ci95 NaN for one seed."""
    frame = scores(records)
    groups = frame[frame["metric"].isin(TABLE)].groupby(["method", "metric"], sort=False)["score"]
    return of_groups(groups).assign(std=groups.std()).reset_index()


def printed_table2(dataset: str) -> pd.DataFrame:
    """Table 2 of the paper for one data set, as `table2`; ci95 follows from std and the paper's 5 seeds."""
    frame = published.roth_results()
    frame = frame[frame["dataset"] == dataset].drop(columns=["dataset", "source_table"])
    half = stats.t.ppf(0.975, PAPER_SEEDS - 1) / np.sqrt(PAPER_SEEDS)
    return frame.assign(ci95=half * frame["std"], n=PAPER_SEEDS).reset_index(drop=True)


def columns(by_study: ByStudy) -> dict[str, pd.DataFrame]:
    """Every Table 2 by its heading, the paper's three and then ours: `table2` each, empty where nothing was run."""
    empty = pd.DataFrame(columns=["method", "metric", "mean", "std", "ci95", "n"])
    ours = {name: empty if records is None else table2(records) for name, records in by_study.items()}
    return {f"the paper, {name}": printed_table2(name) for name in published.DATASETS} | ours


def agreement(by_study: ByStudy) -> pd.DataFrame:
    """Spearman's rank correlation of our methods with each of the paper's columns.

    Columns: study, metric, dataset, rho, p, n. The trunk before training is no method.
    """
    theirs = {name: _means(printed_table2(name)) for name in published.DATASETS}
    ours = {name: _means(table2(records)) for name, records in common.present(by_study).items()}
    rows = [
        {"study": name, "metric": metric, "dataset": dataset, **statistics.rank_test(means[metric], column[metric])}
        for name, means in ours.items()
        for metric in TABLE
        for dataset, column in theirs.items()
    ]
    return pd.DataFrame(rows, columns=["study", "metric", "dataset", "rho", "p", "n"])


def _means(frame: pd.DataFrame) -> pd.DataFrame:
    """The means of a Table 2: a row a method, a column a metric."""
    trained = frame[frame["method"] != PRETRAINED]
    return trained.pivot(index="method", columns="metric", values="mean").reindex(columns=list(TABLE)).astype(float)


def r1_range(frame: pd.DataFrame) -> dict[str, float]:
    """How far apart the rows without regularisation are in R@1: range, std (the mean of theirs), and n rows.

    frame: `table2` or `printed_table2`. NaN for fewer than two rows.
    """
    rows = frame[(frame["metric"] == "precision_at_1") & frame["method"].isin(PLAIN)]
    if len(rows) < 2:
        return {"range": np.nan, "std": np.nan, "n": len(rows)}
    return {
        "range": float(rows["mean"].max() - rows["mean"].min()),
        "std": float(rows["std"].mean()),
        "n": len(rows),
    }


def trunks(records: StudyRecords | None) -> pd.DataFrame:
    """R@1 of trunks before any training of ours, indexed by kind and trunk: mean, std, n.

    Kinds: "projection" (ImageNet features, random linear layer: the paper's), "imagenet" (the features themselves),
    "random" (a trunk with random weights).
    """
    if records is None:
        return pd.DataFrame(columns=["mean", "std", "n"], dtype=float)
    frame = scores(records)
    frame = frame[(frame["metric"] == "precision_at_1") & (frame["method"] != PRETRAINED)]
    return frame.groupby(["value", "row"])["score"].agg(mean="mean", std="std", n="size")


def regularisation(records: StudyRecords, metric: str = "precision_at_1", setting: str = "separated") -> pd.DataFrame:
    """A metric with and without rho-regularisation, a row a pair (index: the method that is regularised).

    Columns: mean, std, r_mean, r_std, gain (mean difference, see `common.difference`), ci95 (half width of its 95 %
    interval), n (seeds). Pairs of which one has no score are NaN.
    """
    frame = scores(records, setting)
    frame = frame[frame["metric"] == metric]
    spreads = frame.groupby("method")["score"].agg(["mean", "std"]).reindex([*REGULARISED.values(), *REGULARISED])
    rows = {}
    for regularised, plain in REGULARISED.items():
        gain = common.difference(frame, regularised, plain)
        own, other = spreads.loc[plain], spreads.loc[regularised]
        rows[plain] = [own["mean"], own["std"], other["mean"], other["std"], gain.value, gain.half, gain.n]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "std", "r_mean", "r_std", "gain", "ci95", "n"])


def gain_of(row: pd.Series) -> Estimate:
    """The gain of one row of `regularisation`."""
    return Estimate.around(row["gain"], row["ci95"], int(row["n"]), "reruns")


def published_regularisation(dataset: str) -> pd.DataFrame:
    """The same from the paper's Table 2; its seeds are not published one by one, so gain has no interval."""
    frame = printed_table2(dataset)
    frame = frame[frame["metric"] == "precision_at_1"].set_index("method")[["mean", "std"]]
    rows = {
        plain: [*frame.loc[plain], *frame.loc[regularised], frame["mean"][regularised] - frame["mean"][plain]]
        for regularised, plain in REGULARISED.items()
    }
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "std", "r_mean", "r_std", "gain"])
    return table.assign(ci95=np.nan, n=PAPER_SEEDS)


def regularisation_panels(by_study: ByStudy) -> dict[str, pd.DataFrame]:
    """The panels of roth-f1: ours, then the paper's three data sets."""
    ours = {name: regularisation(records) for name, records in common.present(by_study).items()}
    return ours | {f"{name} (the paper)": published_regularisation(name) for name in published.DATASETS}


def normalised(records: StudyRecords) -> pd.DataFrame:
    """Every score of a sweep as a share of the best value's: row (loss), value, metric, score in (0, 1].

    The mean over the seeds, divided by the largest mean over the evaluated values for the same loss and metric
    (section 4.2). A loss that diverged at a value has no row there.
    """
    frame = scores(records)
    frame = frame[frame["metric"].isin(METRICS) & (frame["value"] != "")]
    means = frame.groupby(["row", "value", "metric"], sort=False)["score"].mean()
    best = means.groupby(["row", "metric"]).transform("max")
    return (means[best > 0] / best[best > 0]).rename("score").reset_index()


@functools.lru_cache(maxsize=64)  # the sweeps' figures, tables and sentences all ask for it
def influence(records: StudyRecords) -> pd.DataFrame:
    """`normalised`, averaged over the metrics: a row a value, a column a loss."""
    return normalised(records).pivot_table(index="value", columns="row", values="score")


def in_order(values: Iterable[str], factor: str) -> list[str]:
    """The values of a sweep by their number, then those without one by name.

    >>> in_order(["batch64", "batch8"], "batches"), in_order(["227px", "none", "56px"], "preprocessing")
    (['batch8', 'batch64'], ['56px', '227px', 'none'])
    """

    def place(value: str) -> tuple[float, str]:
        try:
            return float(value.removeprefix(FACTORS[factor][0]).removesuffix("px")), value
        except ValueError:
            return np.inf, value

    return sorted(set(values), key=place)


def trunk_label(name: str) -> str:
    return labels.TRUNK_LABELS.get(name, name)


def value_label(value: str, factor: str) -> str:
    """A value of a sweep as printed: without what it is a value of, a trunk by its name.

    >>> value_label("batch64", "batches"), value_label("conv4-random", "trunks"), value_label("decay4e-05", "decays")
    ('64', 'conv4, random', '4·10⁻⁵')
    """
    if factor == "decays":
        return labels.number(float(value.removeprefix(FACTORS[factor][0])))
    return titles.trunk(value) if factor == "trunks" else value.removeprefix(FACTORS[factor][0])


def effects(sweeps: Mapping[str, ByStudy]) -> pd.DataFrame:
    """How much each factor of Fig. 2 is worth: study, factor, row (loss), effect (fraction), best (value).

    sweeps: factor -> main study -> records. effect: the best value's mean share minus the worst's.
    """
    rows = []
    for factor, by_study in sweeps.items():
        for name, records in common.present(by_study).items():
            for row, shares in influence(records).items():
                shares = shares.dropna()
                if len(shares) > 1:
                    effect = shares.max() - shares.min()
                    rows.append([name, factor, row, effect, shares.idxmax()])
    return pd.DataFrame(rows, columns=["study", "factor", "row", "effect", "best"])


def loss_spread(records: StudyRecords) -> pd.Series:
    """How far the best loss is above the worst at each value of a sweep, indexed by value.

    A share of the best, mean over the metrics: the same scale as `effects`, with losses in the place of values.
    """
    frame = scores(records)
    frame = frame[frame["metric"].isin(METRICS) & (frame["value"] != "")]
    means = frame.groupby(["value", "metric", "row"])["score"].mean().unstack()
    shares = 1 - means.min(axis=1) / means.max(axis=1)
    return shares[means.notna().sum(axis=1) > 1].groupby("value").mean()


def any_of(sweeps: Mapping[str, ByStudy]) -> dict[str, StudyRecords | None]:
    """For each main study the records of the first sweep that was run, for captions; None where none was."""
    names = next(iter(sweeps.values()))
    return {name: next((by_study[name] for by_study in sweeps.values() if by_study[name]), None) for name in names}


def sampler_gap(records: StudyRecords, first: str, second: str) -> Estimate:
    """Mean share of a sampler minus that of another, over the losses."""
    shares = influence(records)
    both = {first, second} <= set(shares.index)
    return statistics.mean(shares.loc[first] - shares.loc[second] if both else [], "losses")


def correlations(experiments: Sequence[StudyRecords]) -> tuple[pd.DataFrame, int]:
    """Pearson's correlations between the test metrics over all runs of these experiments, and the number of runs.

    A run with a metric missing is left out. A training that several experiments share, as sweeps do at the setting that
    none of them varies, has the same scores in each and counts once. NaN where a metric is constant, and for fewer than
    3 runs.
    """
    frames = [scores(records).assign(study=records.name) for records in experiments]
    frame = pd.concat(frames)
    frame = frame[(frame["method"] != PRETRAINED) & frame["metric"].isin(ALL_METRICS)]
    wide = frame.pivot(index=["study", "method", "rerun"], columns="metric", values="score")
    wide = wide[[name for name in ALL_METRICS if name in wide]].dropna().drop_duplicates()
    return wide.corr(min_periods=3), len(wide)


def pooled(*experiments: ByStudy) -> dict[str, list[StudyRecords]]:
    """All experiments of each main study that has some."""
    names = experiments[0]
    runs = {name: [by_study[name] for by_study in experiments if by_study[name]] for name in names}
    return {name: each for name, each in runs.items() if each}


def structure(records: StudyRecords) -> pd.DataFrame:
    """R@1 on the test images and the shape of the training embeddings, a row a method, means over the seeds.

    Columns: precision_at_1, those of `STRUCTURE`, group ("plain", "regularised"), unit (whether its embeddings are
    L2-normalised).
    """
    test, train = scores(records), scores(records, "train")
    frame = pd.concat([test[test["metric"] == "precision_at_1"], train[train["metric"].isin(STRUCTURE)]])
    wide = frame.pivot_table(index="method", columns="metric", values="score")
    wide = wide.reindex(index=[name for name in METHODS if name in wide.index], columns=["precision_at_1", *STRUCTURE])
    return wide.assign(
        group=["regularised" if name in REGULARISED else "plain" for name in wide.index],
        unit=[normalized(METHODS[name]) for name in wide.index],
    )


def counted(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows of `structure` that a correlation counts: not regularised, and in a common unit where it matters."""
    kept = (frame["group"] == "plain") & frame[["precision_at_1", name]].notna().all(axis=1)
    return frame[kept & frame["unit"]] if name in SCALED else frame[kept]


def correlation(frame: pd.DataFrame, name: str, ranks: bool = False) -> Estimate:
    """Pearson's correlation of R@1 with a property over the methods, or Spearman's.

    frame: `structure`; only the `counted` rows.
    """
    rows = counted(frame, name)
    return statistics.correlation(rows[name], rows["precision_at_1"], ranks=ranks, units="methods")


def agreement_of_metrics(records: StudyRecords, metric: str) -> Estimate:
    """Spearman's correlation of R@1 with another test metric over the methods that are not regularised."""
    means = scores(records).pivot_table(index="method", columns="metric", values="score")
    means = means.drop(index=[PRETRAINED, *REGULARISED], errors="ignore").reindex(columns=["precision_at_1", metric])
    both = means.dropna()
    return statistics.correlation(both["precision_at_1"], both[metric], ranks=True, units="methods")


CARRIES = 0.1
"""A method without which a correlation moves by this much is named beside it."""


def carried(frame: pd.DataFrame, name: str) -> tuple[str, Estimate]:
    """The method without which `correlation` moves most, and what it is then; ("", the whole one) if little."""
    whole = correlation(frame, name)
    without = {method: correlation(frame.drop(index=method), name) for method in counted(frame, name).index}
    moves = {method: abs(found.value - whole.value) for method, found in without.items() if not np.isnan(found.low)}
    most = max(moves, key=moves.get, default="")
    return (most, without[most]) if most and moves[most] >= CARRIES else ("", whole)


def spectra(records: StudyRecords) -> pd.DataFrame:
    """Singular values of the training embeddings, a row a place: method, place (from 2), mean, low, high.

    Without the largest value, divided by their sum (section 5); mean, lowest and highest over the seeds.
    """
    arrays = records.arrays
    arrays = arrays[(arrays["name"] == "spectrum") & (arrays["setting"] == "train")]
    frames = []
    for method, values in arrays.groupby("method")["values"]:
        kept = np.stack([np.asarray(each, dtype=float)[1:] for each in values])  # (seeds, D - 1)
        sums = kept.sum(axis=1, keepdims=True)
        kept = kept[sums[:, 0] > 0] / sums[sums[:, 0] > 0]
        if kept.size:
            places = np.arange(2, kept.shape[1] + 2)
            row = {"method": method, "place": places, "mean": kept.mean(0), "low": kept.min(0), "high": kept.max(0)}
            frames.append(pd.DataFrame(row))
    empty = pd.DataFrame(columns=["method", "place", "mean", "low", "high"], dtype=float)
    return pd.concat(frames, ignore_index=True) if frames else empty
