"""Claims of Oi, Kawakami and Naemura 2021, on the distances between positive and between negative pairs."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dmlrc.report import published, statistics
from dmlrc.report.claims import measures
from dmlrc.report.claims.rule import (
    NUMBER,
    OURS,
    POINTS,
    Claim,
    Evidence,
    MissingRowsError,
    above,
    below,
    retracted,
)
from dmlrc.report.statistics import Estimate

TABLE, RANDOM = "oi2021", "oi2021-random"
JSD_LIKE_MAP = "oi-jsd-like-map"
MORE_ORDERS = tuple(f"oi2021-order{number}" for number in range(2, 11))
SOFTMAX = "normalized_softmax"


def by_order(metric: str) -> measures.Measure:
    """A test score with the default class order minus that with a random one; a random order is a unit.

    The interval is that of a further random order, see `statistics.from_another`: an order is lower than a random one
    where most are higher, not where their mean is.
    """

    def measure(evidence: Evidence) -> Estimate:
        default = measures.column(evidence[TABLE], SOFTMAX, metric)
        orders = [name for name in (RANDOM, *MORE_ORDERS) if name in evidence]
        means = [measures.column(evidence[name], SOFTMAX, metric).mean() for name in orders]
        return replace(statistics.from_another(default, means), units="random class orders")

    return measure


def at_the_end(*metrics: str) -> measures.Measure:
    """A metric, or the first of two minus the second, after the last epoch, over the reruns."""

    def measure(evidence: Evidence) -> Estimate:
        one, *other = (measures.curve_end(evidence[TABLE], metric, SOFTMAX) for metric in metrics)
        return measures.seeds_only((one - other[0] if other else one).dropna())

    return measure


def together(evidence: Evidence) -> Estimate:
    """Correlation over the epochs of validation JSD and MAP@R: the mean over the reruns, taken in Fisher's z."""
    curves = evidence[TABLE].curves
    curves = curves[(curves["method"] == SOFTMAX) & (curves["kind"] == "rerun")]
    wide = curves.pivot_table(index=["number", "fold", "step"], columns="metric", values="value")
    if not {"jsd", "map_at_r"} <= set(wide):
        raise MissingRowsError(f"no validation curves in {evidence[TABLE].name}")
    wide = wide[["jsd", "map_at_r"]].dropna()
    found_r = [statistics.pearson(run["jsd"], run["map_at_r"]) for _, run in wide.groupby(["number", "fold"])]
    z = statistics.mean(np.arctanh(np.clip(found_r, -1 + 1e-6, 1 - 1e-6)))
    value, low, high = (float(np.tanh(each)) for each in (z.value, z.low, z.high))
    return replace(z, value=value, low=low, high=high)


def validation_over_test(evidence: Evidence) -> Estimate:
    """MAP@R of the same models on the validation classes minus that on the more numerous test classes."""
    runs = evidence["main"].runs
    validation = runs[runs["kind"] == "rerun"].groupby("method")["val_map_at_r"].mean()
    return statistics.mean((validation - measures.means(evidence["main"], "map_at_r")).dropna())


def _published_order(metric: str) -> Mapping[str, float]:
    frame = published.oi_results()
    wide = frame[frame["metric"] == metric].pivot(index="dataset", columns="class_order", values="value")
    return dict(wide["default"] - wide["random"])


CURVES = "Student's t over the reruns, seeds only"
CLAIMS = (
    *(
        Claim(
            id=f"oi-default-order-{short}",
            claim=f"With the default class order, {label} is lower than with a random one.",
            source="section 4, Table 1",
            statistic=f"test {label}, default order minus random order",
            interval="prediction interval: the reruns of the default order against a further random order, whose "
            "scatter is that of the means of the random orders",
            exploratory="the mean of the random orders was judged first, which a quarter of all orders may pass",
            region=below(0),
            unit=unit,
            needs=(TABLE, RANDOM),
            more=MORE_ORDERS,
            quote="The scores for all metrics were lower when the classes were partitioned",
            link="oi-orders",
            measure=by_order(metric),
            published=lambda metric=metric: _published_order(metric),
        )
        for short, label, metric, unit in (
            ("recall", "Recall@1", measures.R1, POINTS),
            ("map", "MAP@R", "map_at_r", POINTS),
            ("jsd", "JSD", "jsd", NUMBER),
        )
    ),
    retracted("oi-jsd-starts-equal"),
    Claim(
        id="oi-jsd-shows-overfitting",
        claim="Later the training JSD exceeds the validation JSD.",
        source="section 4, Fig. 4",
        quote="the training score started to exceed the validation score",
        statistic="training minus validation JSD after the last epoch",
        interval=CURVES,
        region=above(0),
        unit=NUMBER,
        needs=(TABLE,),
        link="oi-f4-gaps",
        measure=at_the_end("train_jsd", "jsd"),
    ),
    retracted("oi-map-starts-lower"),
    retracted("oi-positives-rise-in-training"),
    retracted("oi-positives-do-not-rise-in-validation"),
    retracted("oi-negatives-go-to-zero"),
    retracted("oi-negatives-agree"),
    retracted("oi-test-negatives-concentrate"),
    retracted("oi-test-positives-drop"),
    Claim(
        id=JSD_LIKE_MAP,
        claim="On validation images JSD changes with MAP@R, so looking at all pairs shows no clear advantage.",
        source="section 1, Fig. 4",
        quote="The changes in JSD were similar to those of the existing metrics",
        statistic="correlation of validation JSD and MAP@R over the epochs of a run",
        interval="Student's t over the runs of Fisher's z",
        region=above(0.5),
        rationale="what is usually called a strong correlation",
        unit=NUMBER,
        needs=(TABLE,),
        link="oi-f4-gaps",
        measure=together,
    ),
    retracted("oi-map-falls-with-classes"),
    retracted("oi-jsd-less-sensitive"),
    Claim(
        id="oi-map-validation-over-test",
        claim="The same models have a higher MAP@R on the few validation classes than on the many test classes.",
        source="section 2, on the protocol of the Reality Check",
        statistic="validation minus test MAP@R of the reruns, each on one fold's model",
        interval=measures.STUDENT_ROWS,
        region=above(0),
        unit=POINTS,
        origin=OURS,
        needs=("main",),
        link="validation-test",
        measure=validation_over_test,
    ),
)
