"""Claims of Oi, Kawakami and Naemura 2021, on the distances between positive and between negative pairs."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from dmlrc.records import StudyRecords
from dmlrc.report import published, statistics
from dmlrc.report.claims import measures, untrained
from dmlrc.report.claims.rule import (
    NUMBER,
    PERCENT,
    POINTS,
    Claim,
    Evidence,
    MissingRowsError,
    above,
    below,
    within,
)
from dmlrc.report.statistics import Estimate

TABLE, RANDOM = "oi2021", "oi2021-random"
SOFTMAX = "normalized_softmax"
FIRST, LAST = 0, 1


def by_order(metric: str) -> measures.Measure:
    """A test score with the default class order minus that with a random one, over the reruns of both."""

    def measure(evidence: Evidence) -> Estimate:
        scores = [measures.column(evidence[name], SOFTMAX, metric) for name in (TABLE, RANDOM)]
        return statistics.mean((scores[0] - scores[1]).dropna())

    return measure


def ends(end: int, *metrics: str) -> measures.Measure:
    """A metric, or the first of two minus the second, after the first (0) or the last epoch (1), over the reruns."""

    def measure(evidence: Evidence) -> Estimate:
        one, *other = (measures.curve_ends(evidence[TABLE], metric, SOFTMAX)[end] for metric in metrics)
        return statistics.mean((one - other[0] if other else one).dropna())

    return measure


def change(metric: str) -> measures.Measure:
    """A metric after the last epoch minus that after the first, over the reruns."""

    def measure(evidence: Evidence) -> Estimate:
        first, last = measures.curve_ends(evidence[TABLE], metric, SOFTMAX)
        return statistics.mean((last - first).dropna())

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


def of_histograms(name: str, statistic: Callable[[np.ndarray, np.ndarray], float]) -> measures.Measure:
    """A statistic of the inner products of the test pairs after training minus before, over the reruns.

    name: "positive" or "negative". statistic: middles of the bins (B,), shares of the pairs (B,) -> number.
    """

    def measure(evidence: Evidence) -> Estimate:
        after, before = (_histograms(evidence[TABLE], setting, name, statistic) for setting in ("test", "untrained"))
        return statistics.mean((after - before).dropna())

    return measure


def _histograms(records: StudyRecords, setting: str, name: str, statistic: Callable) -> pd.Series:
    arrays = records.arrays[(records.arrays["setting"] == setting) & (records.arrays["method"] == SOFTMAX)]
    wide = arrays.pivot(index="rerun", columns="name", values="values")
    if not {"edges", name} <= set(wide):
        raise MissingRowsError(f"no histograms in {records.name}")
    result = {}
    for rerun, row in wide.dropna().iterrows():
        edges, counts = np.asarray(row["edges"], float), np.asarray(row[name], float)
        result[rerun] = statistic((edges[1:] + edges[:-1]) / 2, counts / counts.sum())
    return pd.Series(result, dtype=float)


def mean_of(middles: np.ndarray, shares: np.ndarray) -> float:
    """The mean of a histogram."""
    return float(middles @ shares)


def variance_of(middles: np.ndarray, shares: np.ndarray) -> float:
    """The variance of a histogram."""
    return float((middles - middles @ shares) ** 2 @ shares)


def validation_over_test(evidence: Evidence) -> Estimate:
    """MAP@R of the same models on the validation classes minus that on the more numerous test classes."""
    runs = evidence["main"].runs
    validation = runs[runs["kind"] == "rerun"].groupby("method")["val_map_at_r"].mean()
    return statistics.mean((validation - measures.means(evidence["main"], "map_at_r")).dropna())


def _published_order(metric: str) -> Mapping[str, float]:
    frame = published.oi_results()
    wide = frame[frame["metric"] == metric].pivot(index="dataset", columns="class_order", values="value")
    return dict(wide["default"] - wide["random"])


CURVES = "Student's t over the reruns; the first epoch that is recorded is the first after a training epoch"

CLAIMS = (
    *(
        Claim(
            id=f"oi-default-order-{short}",
            claim=f"With the default class order, {label} is lower than with a random one.",
            source="section 4, Table 1",
            statistic=f"test {label}, default order minus random order",
            interval="Student's t over the reruns; it covers training, not the choice of the one random order",
            region=below(0),
            unit=unit,
            needs=(TABLE, RANDOM),
            link="oi-t1",
            measure=by_order(metric),
            published=lambda metric=metric: _published_order(metric),
        )
        for short, label, metric, unit in (
            ("recall", "Recall@1", measures.R1, POINTS),
            ("map", "MAP@R", "map_at_r", POINTS),
            ("jsd", "JSD", "jsd", NUMBER),
        )
    ),
    Claim(
        id="oi-jsd-starts-equal",
        claim="JSD starts at the same value for training and validation images.",
        source="section 4, Fig. 4",
        statistic="training minus validation JSD after the first epoch",
        interval=CURVES,
        region=within(0.05),
        rationale="about a tenth of the JSD that the paper reaches",
        unit=NUMBER,
        needs=(TABLE,),
        link="oi-f4",
        measure=ends(FIRST, "train_jsd", "jsd"),
    ),
    Claim(
        id="oi-jsd-shows-overfitting",
        claim="Later the training JSD exceeds the validation JSD.",
        source="section 4, Fig. 4",
        statistic="training minus validation JSD after the last epoch",
        interval=CURVES,
        region=above(0),
        unit=NUMBER,
        needs=(TABLE,),
        link="oi-f4",
        measure=ends(LAST, "train_jsd", "jsd"),
    ),
    Claim(
        id="oi-map-starts-lower",
        claim="MAP@R starts lower on the training images than on the validation images, which are of fewer classes.",
        source="section 4, Fig. 4",
        statistic="training minus validation MAP@R after the first epoch",
        interval=CURVES,
        region=below(0),
        unit=POINTS,
        needs=(TABLE,),
        link="oi-f4",
        measure=ends(FIRST, "train_map_at_r", "map_at_r"),
    ),
    Claim(
        id="oi-positives-rise-in-training",
        claim="In training the mean inner product of positive pairs rises.",
        source="section 4, Fig. 2",
        statistic="training mean over positive pairs, last epoch minus first",
        interval=CURVES,
        region=above(0),
        unit=NUMBER,
        needs=(TABLE,),
        link="oi-f2",
        measure=change("train_mean_positive"),
    ),
    Claim(
        id="oi-positives-do-not-rise-in-validation",
        claim="On validation images the mean inner product of positive pairs stays constant or falls.",
        source="section 4, Fig. 2",
        statistic="validation mean over positive pairs, last epoch minus first",
        interval=CURVES,
        region=below(0.02),
        rationale="constant to within a hundredth of the range from -1 to 1",
        unit=NUMBER,
        needs=(TABLE,),
        link="oi-f2",
        measure=change("mean_positive"),
    ),
    Claim(
        id="oi-negatives-go-to-zero",
        claim="The mean inner product of negative pairs goes to 0.",
        source="section 4, Fig. 2",
        statistic="validation mean over negative pairs after the last epoch",
        interval=CURVES,
        region=within(0.1),
        rationale="a twentieth of the range from -1 to 1",
        unit=NUMBER,
        needs=(TABLE,),
        link="oi-f2",
        measure=ends(LAST, "mean_negative"),
    ),
    Claim(
        id="oi-negatives-agree",
        claim="The mean inner product of negative pairs is almost the same in training and validation.",
        source="section 4, Fig. 2",
        statistic="training minus validation mean over negative pairs after the last epoch",
        interval=CURVES,
        region=within(0.05),
        rationale="half of what counts as near 0 above",
        unit=NUMBER,
        needs=(TABLE,),
        link="oi-f2",
        measure=ends(LAST, "train_mean_negative", "mean_negative"),
    ),
    Claim(
        id="oi-test-negatives-concentrate",
        claim="Training narrows the distribution of the negative pairs of the test images.",
        source="section 4, Fig. 3",
        statistic="variance of the inner products of negative pairs, after training minus before",
        interval=measures.STUDENT_RERUNS,
        region=below(0),
        unit=NUMBER,
        needs=(TABLE,),
        link="oi-f3",
        measure=of_histograms("negative", variance_of),
    ),
    Claim(
        id="oi-test-positives-drop",
        claim="Training moves the positive pairs of the test images slightly apart, not together.",
        source="section 4, Fig. 3",
        statistic="mean inner product of positive pairs, after training minus before",
        interval=measures.STUDENT_RERUNS,
        region=below(0),
        unit=NUMBER,
        needs=(TABLE,),
        link="oi-f3",
        measure=of_histograms("positive", mean_of),
    ),
    Claim(
        id="oi-jsd-like-map",
        claim="On validation images JSD changes with MAP@R, so looking at all pairs shows no clear advantage.",
        source="section 4, Fig. 4",
        statistic="correlation of validation JSD and MAP@R over the epochs of a run",
        interval="Student's t over the runs of Fisher's z",
        region=above(0.5),
        rationale="a strong correlation by the usual word",
        unit=NUMBER,
        needs=(TABLE,),
        link="oi-f4",
        measure=together,
    ),
    Claim(
        id="oi-map-falls-with-classes",
        claim="MAP@R falls when classes are added, though the embedding is no worse.",
        source="section 2",
        statistic="relative change of MAP@R from 20 to 200 classes of made-up clusters",
        interval="Student's t over seeds",
        region=below(-0.1),
        rationale="a tenth",
        unit=PERCENT,
        needs=(),
        link="oi-f1",
        measure=lambda _: statistics.mean(untrained.change_with_classes("map_at_r")),
    ),
    Claim(
        id="oi-jsd-less-sensitive",
        claim="JSD depends less on the number of classes than MAP@R.",
        source="abstract, section 3, conclusion",
        statistic="|relative change| of JSD minus that of MAP@R, from 20 to 200 classes of made-up clusters",
        interval="Student's t over seeds",
        region=below(0),
        unit=PERCENT,
        needs=(),
        link="oi-f1",
        measure=lambda _: statistics.mean(
            np.abs(untrained.change_with_classes("jsd")) - np.abs(untrained.change_with_classes("map_at_r"))
        ),
    ),
    Claim(
        id="oi-map-validation-over-test",
        claim="Of the same models, MAP@R is higher on the few validation classes than on the many test classes.",
        source="section 2, on the protocol of the Reality Check",
        statistic="validation minus test MAP@R of the reruns, each on one fold's model",
        interval=measures.STUDENT_ROWS,
        region=above(0),
        unit=POINTS,
        needs=("main",),
        link="musgrave-search",
        measure=validation_over_test,
    ),
)
