"""Claims of Zhai and Wu 2019, Classification is a Strong Baseline for Deep Metric Learning."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from dmlrc.methods import row_name
from dmlrc.report import labels, published, statistics
from dmlrc.report.claims import measures
from dmlrc.report.claims.rule import LOSS, OURS, POINTS, Claim, Evidence, MissingRowsError, above, below, retracted
from dmlrc.report.statistics import Estimate

TABLE, EQUAL = "zhai2019", "zhai2019-losses-equal"
SOFTMAX = "norm_softmax"
IN_FIVES = "5x15"
"""Batches of 5 images of 15 classes, in which every loss runs."""
BITS = "separated_binary"


def against_best(evidence: Evidence) -> Estimate:
    """R@1 of NormSoftmax minus that of the best other loss, all in batches of the same layout."""
    means = measures.at(evidence[EQUAL], IN_FIVES)
    rivals = means.drop(SOFTMAX, errors="ignore")
    if rivals.empty:
        raise MissingRowsError(f"no other loss than {SOFTMAX} in {evidence[EQUAL].name}")
    names = row_name(SOFTMAX, IN_FIVES), row_name(rivals.idxmax(), IN_FIVES)
    return measures.difference(EQUAL, *names)(evidence)


def final_loss(evidence: Evidence) -> Estimate:
    """Training loss at the end, with LayerNorm minus without."""
    names = [row_name(SOFTMAX, value) for value in ("layer-norm", "no-layer-norm")]
    ends = [measures.curve_end(evidence["zhai2019-layer_norm"], "loss", name) for name in names]
    found = statistics.welch(*ends, "reruns")
    return replace(found, how=f"{found.how}, {measures.SEEDS_ONLY}")


def _tables_5_and_6() -> pd.DataFrame:
    frame = published.zhai_results()
    chosen = frame["source_table"].isin(["Table 5", "Table 6"]) & (frame["metric"] == measures.R1)
    return frame[chosen & (frame["dim"] == 2048)]


def _bits() -> Mapping[str, float]:
    frame = _tables_5_and_6()
    wide = frame[frame["method"] == SOFTMAX].pivot(index="dataset", columns="binary", values="value")
    return dict(wide[True] - wide[False])


def _over_others(only: str | None = None) -> Mapping[str, float]:
    """R@1 of NormSoftmax at 512 dimensions minus that of the best other loss of Tables 1-3, or of one."""
    frame = published.zhai_results()
    tables = frame["source_table"].isin(["Table 1", "Table 2", "Table 3"]) & (frame["metric"] == measures.R1)
    values = {}
    for (dataset, trunk), part in frame[tables].groupby(["dataset", "trunk"], sort=False):
        own = part[(part["method"] == SOFTMAX) & (part["dim"] == 512)]["value"]
        others = part[part["method"] == only if only else part["method"] != SOFTMAX]["value"]
        if len(own) and len(others):
            values[f"{dataset} ({labels.TRUNK_LABELS[trunk]})"] = float(own.iloc[0] - others.max())
    return values


CLAIMS = (
    Claim(
        id="zhai-strong-baseline",
        claim="Normalised softmax competes with the losses that compare images with each other.",
        source="section 4.2, Tables 1-3",
        quote="our approach compares very strongly against existing baselines",
        statistic="R@1 of NormSoftmax minus that of the best other loss, same pipeline, 512 dimensions, all in batches "
        "of 5 images of 15 classes",
        interval=measures.BY_THE_BEST,
        region=above(-0.025),
        rationale="2.5 points, just above its largest lag in the paper's tables (CUB200, ResNet50)",
        unit=POINTS,
        needs=(EQUAL,),
        link="zhai-equal",
        measure=against_best,
        published=_over_others,
        at_most=True,
        exploratory="a lag no longer contradicts it: one learning rate serves all losses of this paper, and on Cars "
        "crops another one suits normalised softmax",
    ),
    Claim(
        id="zhai-far-above-contrastive",
        claim="Normalised softmax is far above the contrastive loss.",
        source="section 4.2, Table 1; the contrastive numbers are quoted from 2016",
        statistic="R@1 of NormSoftmax minus that of the contrastive loss, same pipeline, 512 dimensions, both in "
        "batches of 5 images of 15 classes",
        interval=measures.SEARCH_OR_SEEDS,
        region=above(0.2),
        rationale="twenty points; the smallest distance in the paper's table is 27",
        unit=POINTS,
        origin=OURS,
        rows=(SOFTMAX, "contrastive"),
        needs=(EQUAL,),
        link="zhai-equal",
        measure=measures.difference(EQUAL, row_name(SOFTMAX, IN_FIVES), row_name("contrastive", IN_FIVES)),
        published=lambda: _over_others("contrastive"),
    ),
    retracted("zhai-lmcl"),
    Claim(
        id="zhai-bits-match-floats",
        claim="At 2048 dimensions the signs alone retrieve nearly as well as the floats.",
        source="sections 4.3 and 4.6, Tables 5 and 6",
        quote="Recall@1 performance of binary features (...) converges with the performance",
        statistic="R@1 of the binary embedding minus that of the float one, 2048 dimensions",
        interval=measures.SAME_MODELS,
        region=above(-0.025),
        rationale="2.5 points, just above the largest loss in the paper's tables (CUB200)",
        unit=POINTS,
        rows=(SOFTMAX,),
        needs=(TABLE,),
        link="zhai-t5",
        measure=measures.same_models(TABLE, SOFTMAX, BITS, "separated"),
        published=_bits,
    ),
    retracted("zhai-bits-over-small-floats"),
    retracted("zhai-dims"),
    retracted("zhai-gap-shrinks"),
    retracted("zhai-balanced"),
    retracted("zhai-one-class"),
    Claim(
        id="zhai-layer-norm",
        claim="LayerNorm leads to a better R@1.",
        source="section 4.4.1, Fig. 3",
        quote="leading to better training convergence and R@1 performance",
        statistic="R@1 with LayerNorm minus that without",
        interval=measures.SEARCH_OR_SEEDS,
        region=above(0),
        unit=POINTS,
        needs=("zhai2019-layer_norm",),
        link="zhai-f3-numbers",
        measure=measures.level_difference("zhai2019-layer_norm", SOFTMAX, "layer-norm", "no-layer-norm"),
    ),
    Claim(
        id="zhai-layer-norm-loss",
        claim="LayerNorm leads to a lower training loss.",
        source="section 4.4.1, Fig. 3",
        quote="leading to better training convergence",
        statistic="training loss after the last epoch, with LayerNorm minus without",
        interval=measures.SEARCH_OR_SEEDS,
        region=below(0),
        unit=LOSS,
        needs=("zhai2019-layer_norm",),
        link="zhai-f3-numbers",
        measure=final_loss,
    ),
    retracted("zhai-shares"),
)
