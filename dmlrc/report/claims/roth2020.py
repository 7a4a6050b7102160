"""Claims of Roth et al. 2020, Revisiting Training Strategies and Generalization Performance in Deep Metric Learning."""

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats

from dmlrc.building import normalized
from dmlrc.papers import roth2020
from dmlrc.records import StudyRecords
from dmlrc.report import published, statistics, titles
from dmlrc.report.claims import measures
from dmlrc.report.claims.musgrave2020 import relative_range
from dmlrc.report.claims.rule import (
    NUMBER,
    OURS,
    PERCENT,
    POINTS,
    Claim,
    Evidence,
    MissingRowsError,
    above,
    below,
    retracted,
)
from dmlrc.report.statistics import Estimate

TABLE = "roth2020"
OBJECTIVES = tuple(method.name for method in roth2020.METHODS[:14])
MINERS = tuple(method.name for method in roth2020.MINERS)
PLAIN_ROWS = tuple(dict.fromkeys([*OBJECTIVES, *MINERS]))
"""The rows without regularisation."""
PLAIN = {
    "r_contrastive": "contrastive",
    "r_margin_06": "margin_06",
    "r_margin_12": "margin_12",
    "r_snr": "snr",
    "r_triplet": "triplet_distance",
}
REGULARISED = tuple(PLAIN.items())
"""A row with rho-regularisation and the same row without."""
LEADERS = ("margin_12", "multi_similarity")
RIVALS = tuple(name for name in OBJECTIVES if name not in (*LEADERS, "margin_06"))
"""The other objectives, without a second row of one of the leaders."""
ONE_LOSS = dict.fromkeys(("margin_06", "margin_12"), "margin") | dict.fromkeys(MINERS, "triplet")
"""Rows that are one loss, with another boundary or other triplets: no independent points of a correlation."""
NORMALISED = tuple(method.name for method in roth2020.METHODS if normalized(method))
"""The methods with embeddings of length 1; distances of the others are on another scale."""
AGGREGATED = (measures.R1, "recall_at_2", "nmi", "f1", "map_at_c", "map_at_1000")
"""The metrics of section 4.1, which Figs. 2 and 3 aggregate."""


def saturation(evidence: Evidence) -> Estimate:
    """Range of the objectives' R@1 as a share of their mean."""
    table = measures.wide(evidence[TABLE])
    return measures.relative_spread(measures.present(table[table.columns.intersection(OBJECTIVES)], least=3))


def leaders(evidence: Evidence) -> Estimate:
    """Mean R@1 of the two leaders minus that of the best other objective, chosen by its mean."""
    table = measures.wide(evidence[TABLE])
    rivals = table.mean().dropna().reindex(RIVALS).dropna()
    if rivals.empty:
        raise MissingRowsError(f"no other objective than {', '.join(LEADERS)} in {evidence[TABLE].name}")
    return measures.contrast(table, dict.fromkeys(LEADERS, 1 / len(LEADERS)) | {rivals.idxmax(): -1})


def structure(evidence: Evidence, names: Sequence[str], methods: Collection[str] = PLAIN_ROWS) -> pd.DataFrame:
    """R@1 on the test images and these properties of the training embeddings, a row a loss (`by_loss`)."""
    records = evidence[TABLE]
    columns = [measures.means(records)] + [measures.means(records, name, "train") for name in names]
    table = pd.concat(columns, axis=1, keys=[measures.R1, *names])
    return by_loss(table.reindex(methods).dropna())


def by_loss(table: pd.DataFrame | pd.Series) -> pd.DataFrame | pd.Series:
    """The mean of the rows (methods) that are one loss."""
    return table.groupby(lambda method: ONE_LOSS.get(method, method), sort=False).mean()


def correlation(name: str) -> measures.Measure:
    """The rank correlation of a property of the training embeddings with R@1, over the losses."""

    def measure(evidence: Evidence) -> Estimate:
        table = structure(evidence, [name])
        return statistics.correlation(table[name], table[measures.R1], ranks=True)

    return measure


def rho_over_distances(evidence: Evidence) -> Estimate:
    """|rank correlation| of rho with R@1 minus the largest one of the distance measures; normalised embeddings."""
    names = ("rho", "pi_intra", "pi_inter", "pi_ratio")

    def statistic(rows: np.ndarray) -> np.ndarray:  # (..., methods, 5): R@1, then the properties
        ranks = statistics.to_ranks(rows, axis=-2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.ConstantInputWarning)  # NaN where a resample is constant
            strengths = np.abs(stats.pearsonr(ranks[..., :1], ranks[..., 1:], axis=-2).statistic)
        return strengths[..., 0] - strengths[..., 1:].max(axis=-1)

    normalised = [name for name in PLAIN_ROWS if name in NORMALISED]
    return statistics.bootstrap(structure(evidence, names, normalised).to_numpy(), statistic)


def metrics_agree(first: str, second: str) -> measures.Measure:
    """The rank correlation of two test metrics over the losses without regularisation."""

    def measure(evidence: Evidence) -> Estimate:
        both = pd.concat([measures.means(evidence[TABLE], name) for name in (first, second)], axis=1)
        both = by_loss(both.reindex(PLAIN_ROWS).dropna())
        return statistics.correlation(both.iloc[:, 0], both.iloc[:, 1], ranks=True)

    return measure


def relative(need: str, evidence: Evidence) -> pd.DataFrame:
    """Relative performance in a sweep, as in Figs. 2 and 3: a row an objective, a column a value of the sweep.

    Each metric is divided by its maximum over the sweep's values, for each objective; then the mean over the metrics.
    """
    table = relative_reruns(evidence[need]).mean().unstack("value").dropna()
    if table.empty:
        raise MissingRowsError(f"no method with every value of {need}")
    if table.shape[1] < 2:
        raise MissingRowsError(f"only one value of the sweep {need}")
    return table


def relative_reruns(records: StudyRecords) -> pd.DataFrame:
    """`relative` of every rerun of a sweep, the maximum being that of the means; rows and columns: `measures.sweep`."""
    parts = [measures.sweep(records, metric) for metric in AGGREGATED]
    highest = [part.mean().groupby(level="row").max()[part.columns.get_level_values("row")] for part in parts]
    return sum(part / best.to_numpy() for part, best in zip(parts, highest, strict=True)) / len(parts)


def samplers(statistic: Callable[[pd.DataFrame], pd.Series], *needed: str) -> measures.Measure:
    """A difference between batch samplers in relative performance; an objective is a unit."""

    def measure(evidence: Evidence) -> Estimate:
        table = relative("roth2020-samplers", evidence)
        if missing := set(needed) - set(table.columns):
            raise MissingRowsError(f"no rows of the samplers {', '.join(sorted(missing))}")
        return statistics.mean(statistic(table))

    return measure


def sampler_range(evidence: Evidence) -> Estimate:
    """Best minus worst sampler in mean relative performance; the objectives are blocks."""
    table = relative("roth2020-samplers", evidence)
    if len(table) < 2:
        raise MissingRowsError("only one objective with every sampler")
    return measures.range_in_blocks(table, "objectives")


def decay_effect(evidence: Evidence) -> Estimate:
    """Fall of the relative performance from the best to the worst weight decay, for the objective with the largest.

    The objective and its two decays are chosen by the other reruns, for each rerun anew.
    """
    table = relative_reruns(evidence["roth2020-decays"])
    means = table.mean().unstack("value").dropna()
    if means.empty or means.shape[1] < 2 or len(table) < 2:
        raise MissingRowsError("no objective with two weight decays and two reruns")
    falls = []
    for rerun in table.index:
        others = table.drop(index=rerun).mean().unstack("value").dropna()
        row = (1 - others.min(axis=1) / others.max(axis=1)).idxmax()
        decays = others.loc[row]
        falls.append(1 - table.loc[rerun, (row, decays.idxmin())] / table.loc[rerun, (row, decays.idxmax())])
    return measures.seeds_only(falls)


def gains_apart(evidence: Evidence) -> Estimate:
    """What the objective that gains most from 512 over 128 dimensions gains more than the one that gains least.

    Both are chosen by the other reruns, see `measures.held_out`.
    """
    table = measures.sweep(evidence["roth2020-dims"])
    if not {"dim128", "dim512"} <= set(table.columns.get_level_values("value")):
        raise MissingRowsError("no objective with 128 and 512 dimensions")
    gains = (table.xs("dim512", axis=1, level="value") - table.xs("dim128", axis=1, level="value")).dropna(axis=1)
    if gains.shape[1] < 2 or len(gains) < 2:
        raise MissingRowsError("fewer than two objectives with 128 and 512 dimensions, or than two reruns")
    return measures.seeds_only(measures.held_out(gains, lambda most, least: most - least))


def trunks_over_losses(evidence: Evidence) -> Estimate:
    """Range over pretrained trunks of the mean R@1, minus the range over objectives; n counts the trunks."""
    table = measures.sweep(evidence["roth2020-trunks"])
    table = table[[key for key in table if not titles.trunk_level(key[1])[1]]]
    table = measures.present(table)
    wide = table.columns.to_frame(index=False).assign(place=range(table.shape[1]))
    places = wide.pivot(index="row", columns="value", values="place").dropna().to_numpy(int)  # (objectives, trunks)
    both = 1 - (1 - statistics.LEVEL) / 2  # so that the two intervals hold together
    trunks, losses = (measures.spread(table, of, both) for of in (places.T, places))
    ends = {
        "value": trunks.value - losses.value,
        "low": trunks.low - losses.high,
        "high": trunks.high - losses.low,
    }
    return replace(trunks, **ends, n=places.shape[1], units="trunks")


def in_table(statistic: Callable[[pd.Series], float]) -> dict[str, float]:
    """A statistic of the R@1 of Table 2, indexed by method: data set -> number."""
    frame = published.roth_results()
    frame = frame[(frame["metric"] == measures.R1) & (frame["method"] != "pretrained")]
    datasets = frame.set_index("method").groupby("dataset", sort=False)["mean"]
    return {name: float(statistic(means)) for name, means in datasets}


def _objectives(means: pd.Series) -> pd.Series:
    return means.reindex(OBJECTIVES).dropna()


def _leaders(means: pd.Series) -> float:
    return means[list(LEADERS)].mean() - means.reindex(RIVALS).max()


def _regularised(means: pd.Series) -> float:
    return float(np.mean([means[one] - means[other] for one, other in REGULARISED]))


def _published_trunks() -> Mapping[str, float]:
    apart = published.roth_trunks().groupby("dataset")["value"].agg(np.ptp)
    losses = in_table(lambda means: np.ptp(_objectives(means)))
    return {f"{name}, before training": float(apart[name]) - losses[name] for name in losses}


def _nmi_and_recall() -> Mapping[str, float]:
    recall, nmi = (in_frames(metric) for metric in (measures.R1, "nmi"))
    return {name: recall[name].corr(nmi[name], method="spearman") for name in recall}


def in_frames(metric: str) -> dict[str, pd.Series]:
    """The means of Table 2 of the losses without regularisation (`by_loss`), by data set."""
    frame = published.roth_results()
    frame = frame[(frame["metric"] == metric) & frame["method"].isin(PLAIN_ROWS)]
    return {name: by_loss(part.set_index("method")["mean"]) for name, part in frame.groupby("dataset", sort=False)}


AGAIN = (
    "Pearson's correlation, which one far row can decide, was judged first, then one in which four triplet minings and "
    "two margins counted as losses of their own"
)

CLAIMS = (
    Claim(
        id="roth-saturation",
        claim="Under one training setup, the performance of the objectives saturates: they differ little.",
        source="abstract; section 4.4, Table 2",
        quote="DML objectives show much higher saturation than indicated by literature",
        statistic="R@1 of the best objective minus that of the worst, as a share of the mean",
        interval=measures.RANGE,
        region=below(0.125),
        rationale="no wider than in the widest column of the paper's own table (Cars196)",
        unit=PERCENT,
        rows=OBJECTIVES,
        needs=(TABLE,),
        link="roth-t2",
        measure=saturation,
        is_range=True,
        exploratory="it was first judged with rows that end below their start at the ends of the range",
        published=lambda: in_table(lambda means: relative_range(_objectives(means).to_numpy())),
    ),
    retracted("roth-ranking-over-classification"),
    Claim(
        id="roth-leaders",
        claim="Margin loss and multi-similarity loss perform best on average.",
        source="section 4.4, Table 2",
        quote="offer the best performance across datasets, though not by a notable margin",
        statistic="mean R@1 of Margin (β = 1.2) and Multisimilarity minus R@1 of the best other objective",
        interval=measures.BY_THE_BEST,
        region=above(0),
        unit=POINTS,
        rows=OBJECTIVES,
        needs=(TABLE,),
        link="roth-t2",
        measure=leaders,
        published=lambda: in_table(_leaders),
        exploratory="the difference from the mean of the others, which most pairs of objectives pass, was judged first",
    ),
    Claim(
        id="roth-distance-mining",
        claim="Of the ways to mine triplets, distance-weighted sampling is the most effective.",
        source="section 4.4, Table 2",
        quote="distance-based tuple mining (D) (Wu et al., 2017) which proved most effective",
        statistic="R@1 of Triplet (D) minus that of the best other miner",
        interval=measures.BY_THE_BEST,
        region=above(0),
        unit=POINTS,
        rows=MINERS,
        needs=(TABLE,),
        link="roth-t2",
        measure=measures.against_best(TABLE, "triplet_distance", others=MINERS[1:]),
        published=lambda: in_table(lambda means: means["triplet_distance"] - means[list(MINERS[1:])].max()),
    ),
    Claim(
        id="roth-rho-correlation",
        claim="The spectral decay ρ of the training embeddings is inversely correlated with R@1.",
        source="section 5, Fig. 5",
        quote="significant inverse correlation (≤ -0.63) between generalization and the spectral decay",
        statistic="Spearman's rank correlation of ρ and R@1 over the losses without regularisation; "
        "the triplet minings are averaged, and so are the two margins",
        interval=measures.FISHER_RANKS,
        exploratory=AGAIN,
        region=below(0),
        unit=NUMBER,
        needs=(TABLE,),
        link="roth-f5-correlations",
        measure=correlation("rho"),
        published=lambda: {"each data set, at most": -0.63},
    ),
    Claim(
        id="roth-rho-over-distances",
        claim="No distance measure (π_intra, π_inter, π_ratio) goes with R@1 as closely as ρ.",
        source="section 5, Fig. 5",
        quote="neither of the distance related measures (...) consistently exhibits significant correlation",
        statistic="|rank correlation| of ρ with R@1 minus the largest of the three others, over the losses without "
        "regularisation whose embeddings are normalised; distances of the others are on another scale; minings of one "
        "loss averaged",
        interval=measures.BOOTSTRAP_ROWS,
        region=above(0),
        unit=NUMBER,
        needs=(TABLE,),
        link="roth-f5-correlations",
        measure=rho_over_distances,
        exploratory="the restriction to normalised embeddings was chosen after the first result, and reversed it; "
        f"{AGAIN}",
    ),
    Claim(
        id="roth-density",
        claim="A denser embedding space (a higher π_ratio) goes with a higher R@1.",
        source="section 5, Fig. 5, for CUB200 and Cars196",
        quote="an increased embedding space density (...) is linked to stronger generalisation",
        statistic="Spearman's rank correlation of π_ratio and R@1 over the losses without regularisation; "
        "the triplet minings are averaged, and so are the two margins",
        interval=measures.FISHER_RANKS,
        exploratory=AGAIN,
        region=above(0),
        unit=NUMBER,
        needs=(TABLE,),
        link="roth-f5-correlations",
        measure=correlation("pi_ratio"),
    ),
    Claim(
        id="roth-regularisation",
        claim="ρ-regularisation raises R@1.",
        source="section 5.1, Table 2, Fig. 1",
        quote="resulting in improved recall performance",
        statistic="R@1 with minus without regularisation, mean over five losses",
        interval="Student's t over the five losses, each the mean of its reruns",
        region=above(0),
        unit=POINTS,
        rows=(*PLAIN, *PLAIN.values()),
        needs=(TABLE,),
        link="roth-f1-gains",
        measure=measures.over_pairs(TABLE, REGULARISED),
        published=lambda: in_table(_regularised),
    ),
    Claim(
        id="roth-regularisation-rho",
        claim="ρ-regularisation lowers the spectral decay.",
        source="section 5.1, Fig. 7",
        quote="also leads to a decreased spectral decay",
        statistic="ρ with minus without regularisation, mean over five losses",
        interval="Student's t over the five losses, each the mean of its reruns",
        region=below(0),
        unit=NUMBER,
        rows=(*PLAIN, *PLAIN.values()),
        needs=(TABLE,),
        link="roth-f7-decay",
        measure=measures.over_pairs(TABLE, REGULARISED, "rho", "train"),
    ),
    Claim(
        id="roth-nmi-recall",
        claim="NMI and Recall@1 rank the methods alike.",
        source="section 4.4, Fig. 4, which no sentence sums up",
        statistic="Spearman's rank correlation of R@1 and NMI over the losses without regularisation; the "
        "triplet minings are averaged, and so are the two margins",
        interval=measures.FISHER_RANKS,
        region=above(0.5),
        rationale="what is usually called a strong correlation; the figure is drawn, not printed",
        unit=NUMBER,
        origin=OURS,
        needs=(TABLE,),
        link="roth-f4",
        measure=metrics_agree(measures.R1, "nmi"),
        exploratory=AGAIN,
        published=_nmi_and_recall,
    ),
    Claim(
        id="roth-map-recall",
        claim="mAP@C and Recall@1 rank the methods alike.",
        source="section 4.4, Fig. 4, which no sentence sums up",
        statistic="Spearman's rank correlation of R@1 and mAP@C over the losses without regularisation; the "
        "triplet minings are averaged, and so are the two margins",
        interval=measures.FISHER_RANKS,
        region=above(0.5),
        rationale="what is usually called a strong correlation; the figure is drawn, not printed",
        unit=NUMBER,
        origin=OURS,
        needs=(TABLE,),
        link="roth-f4",
        measure=metrics_agree(measures.R1, "map_at_c"),
        exploratory=AGAIN,
    ),
    Claim(
        id="roth-spc2-over-spc4",
        claim="Two samples a class (SPC-2) in a batch are better than the usual four (SPC-4).",
        source="section 4.3, Fig. 3",
        quote="consistently outperform the SPC-4 strategy",
        statistic="relative performance of SPC-2 minus that of SPC-4, mean over the objectives",
        interval=measures.STUDENT_ROWS,
        region=above(0),
        unit=PERCENT,
        needs=("roth2020-samplers",),
        link="roth-f3-gaps",
        measure=samplers(lambda table: table["spc2"] - table["spc4"], "spc2", "spc4"),
    ),
    Claim(
        id="roth-best-samplers",
        claim="The samplers SPC-2 and FRD perform very well.",
        source="section 4.3, Fig. 3",
        quote="the SPC-2 and FRD samplers perform very well",
        statistic="relative performance of SPC-2 and FRD minus that of the other samplers, mean over the objectives",
        interval=measures.STUDENT_ROWS,
        region=above(0),
        unit=PERCENT,
        needs=("roth2020-samplers",),
        link="roth-f3-gaps",
        measure=samplers(
            lambda table: table[["spc2", "frd"]].mean(axis=1) - table.drop(columns=["spc2", "frd"]).mean(axis=1),
            "spc2",
            "frd",
            "spc4",
        ),
    ),
    Claim(
        id="roth-sampling-effect",
        claim="How batches are drawn matters: it changes the mean performance by up to 1.5 %.",
        source="section 4.3, Fig. 3",
        quote="the batch sampling process indeed effects DML training",
        statistic="relative performance of the best sampler minus that of the worst, mean over the objectives",
        interval=f"{statistics.TUKEY}, the objectives as blocks. It covers the range of the true means at least as "
        "often as it says",
        region=above(0.0075),
        rationale="half of what the paper found, so that no effect at all does not count as reproduced",
        unit=PERCENT,
        needs=("roth2020-samplers",),
        link="roth-f3-gaps",
        measure=sampler_range,
        published=lambda: {"up to": 0.015},
        exploratory="when it was first judged, its region lay below the paper's number, so that no effect counted as "
        "reproduced; then its two samplers were chosen by the other objectives, which finds less than the range",
    ),
    Claim(
        id="roth-batch-size",
        claim="Larger batches generally improve the results.",
        source="section 4.2, Fig. 2",
        quote="Increasing the batchsize generally improves results",
        statistic="rise of R@1 for each doubling of the batch, the same number of images seen, mean over the "
        "objectives",
        interval=measures.STUDENT_ROWS,
        region=above(0),
        unit=POINTS,
        needs=("roth2020-batches-equal",),
        link="roth-f2-beside-losses",
        measure=measures.doubling("roth2020-batches-equal"),
    ),
    Claim(
        id="roth-weight-decay",
        claim="Weight decay matters: it changes the relative performance by up to 5 %.",
        source="section 4.2, Fig. 2",
        quote="up to a relative performance change of 5%",
        statistic="fall of the relative performance (Fig. 2: of all metrics) from the best to the worst weight decay, "
        "for the objective with the largest",
        interval=f"{measures.STUDENT_RERUNS}; {measures.HELD_OUT.format('the objective and the two decays', 'reruns')}",
        region=above(0.025),
        rationale="half of what the paper found, so that no effect at all does not count as reproduced",
        unit=PERCENT,
        needs=("roth2020-decays",),
        link="roth-f2-effects",
        measure=decay_effect,
        published=lambda: {"up to": 0.05},
        at_most=True,
        exploratory="when it was first judged, its region lay below the paper's number, so that no effect counted as "
        "reproduced; then it read R@1 alone",
    ),
    retracted("roth-dims-converge"),
    Claim(
        id="roth-dims-128",
        claim="The usual 128 dimensions put some objectives at a disadvantage to others.",
        source="section 4.2, Fig. 2",
        quote="thus disadvantaging some training objectives over others",
        statistic="R@1 at 512 dimensions minus that at 128, of the objective that gains most minus that of the one "
        "that gains least",
        interval=f"{measures.STUDENT_RERUNS}; {measures.HELD_OUT.format('the two objectives', 'reruns')}",
        region=above(0.01),
        rationale="one point, the standard deviation over the objectives of Table 2 on CUB200",
        unit=POINTS,
        needs=("roth2020-dims",),
        link="roth-f2-effects",
        measure=gains_apart,
        at_most=True,
        exploratory="the mean gain, which says nothing of differences between objectives, was judged first",
    ),
    retracted("roth-larger-images"),
    Claim(
        id="roth-augmentation",
        claim="Random resized crops give better performance than resizing and cropping.",
        source="section 4.2, Fig. 2",
        quote="random resized cropping is a generally stronger operation",
        statistic="R@1 with random resized crops minus that with plain crops (for characters: affine changes against "
        "none), mean over the objectives",
        interval=measures.STUDENT_ROWS,
        region=above(0),
        unit=POINTS,
        needs=("roth2020-preprocessing",),
        link="roth-f2-effects",
        measure=measures.between_values("roth2020-preprocessing", [("base", "red"), ("affine", "none")]),
    ),
    Claim(
        id="roth-trunk-over-loss",
        claim="The choice of the trunk has a strong impact, beyond that of the objective.",
        source="section 4.2, Table 1, Fig. 2",
        quote="their strong impact on performance with varying variance",
        origin=OURS,
        statistic="range of mean R@1 over pretrained trunks minus the range over the objectives",
        interval=f"{measures.RANGE}, for each of the two ranges with half the risk; n counts trunks",
        region=above(0),
        unit=POINTS,
        needs=("roth2020-trunks",),
        link="roth-f2-effects",
        measure=trunks_over_losses,
        published=_published_trunks,
    ),
)
