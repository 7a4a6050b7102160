"""Claims of Fehervari, Ravichandran and Appalaraju 2019, Unbiased Evaluation of Deep Metric Learning Algorithms."""

from collections.abc import Callable, Collection

import pandas as pd

from dmlrc.records import StudyRecords
from dmlrc.report import labels, published
from dmlrc.report.claims import measures
from dmlrc.report.claims.rule import NUMBER, POINTS, Claim, Evidence, MissingRowsError, above, below, retracted, within
from dmlrc.report.statistics import Estimate

TABLE, BATCHES = "fehervari2019", "fehervari2019-batches-equal"
OF_ANOTHER_SIZE = ("dreml", "proxy_softmax")
"""An ensemble of twelve models, and 2048 bits, beside embeddings of 64 numbers."""


def retrieval_against_clustering(evidence: Evidence) -> Estimate:
    """How far Struct Clust stands above the mean of the other methods in R@1 minus how far it does in NMI.

    Each in standard deviations over the others, taken as known. Both numbers of a rerun are of the same model, so their
    difference is taken first.
    """
    records = evidence[TABLE]
    tables = [_of_one_size(records, metric) for metric in (measures.R1, "nmi")]
    scaled = [table / table.mean().drop("structured_clustering", errors="ignore").std() for table in tables]
    standing = (scaled[0] - scaled[1]).dropna(axis="columns", how="all")
    others = standing.columns.drop("structured_clustering", errors="ignore")
    if len(others) < 2:
        raise MissingRowsError(f"fewer than two methods besides Struct Clust in {records.name}")
    return measures.contrast(standing, {"structured_clustering": 1} | dict.fromkeys(others, -1 / len(others)))


def clustering(evidence: Evidence) -> Estimate:
    """NMI of Struct Clust minus that of the best other method of its size."""
    return measures.over_best(_of_one_size(evidence[TABLE], "nmi"), "structured_clustering")


def _of_one_size(records: StudyRecords, metric: str) -> pd.DataFrame:
    return measures.wide(records, metric).drop(columns=list(OF_ANOTHER_SIZE), errors="ignore")


def in_tables(statistic: Callable[[pd.Series], float], metric: str = measures.R1) -> dict[str, float]:
    """A statistic of Tables 2-4 (means indexed by method): data set and trunk -> number, where its rows are there.

    DREML is left out, an ensemble whose numbers are of another trunk in part; so are cells taken for slips.
    """
    frame = published.fehervari_results()
    frame = frame[(frame["metric"] == metric) & ~frame["doubtful"] & (frame["method"] != "dreml")]
    values = {}
    for (dataset, trunk), part in frame.groupby(["dataset", "trunk"], sort=False):
        try:
            value = float(statistic(part.set_index("method")["value"]))
        except KeyError:
            continue
        values[f"{dataset} ({labels.TRUNK_LABELS[trunk]})"] = value
    return values


def _above_best(row: str, left_out: Collection[str] = ()) -> Callable[[pd.Series], float]:
    return lambda values: values[row] - values.drop([row, *left_out], errors="ignore").max()


def _from_average(values: pd.Series, row: str, left_out: Collection[str]) -> float:
    others = values.drop([row, *left_out], errors="ignore")
    return (values[row] - others.mean()) / others.std()


def _published_retrieval_against_clustering() -> dict[str, float]:
    recall, nmi = (
        in_tables(lambda values: _from_average(values, "structured_clustering", OF_ANOTHER_SIZE), metric)
        for metric in (measures.R1, "nmi")
    )
    return {where: recall[where] - nmi[where] for where in recall if where in nmi}


_PROXIES_AGAIN = (
    "judged first on runs whose proxies began so long that they hardly turned, as they still do around a first run; "
    "the rule is the same"
)

_BOUNDARIES_AGAIN = (
    "judged first on runs whose boundaries moved a thousand times as fast as in the public code, as they still do "
    "around a first run; the rule is the same"
)

CLAIMS = (
    retracted("fehervari-proxy-softmax-leads"),
    Claim(
        id="fehervari-clustering-nmi",
        claim="Structured clustering has the highest NMI.",
        source="section 4.2, Tables 2-4",
        quote="structured clustering consistently produce the highest NMI",
        statistic="NMI of Struct Clust minus that of the best other method of 64 dimensions: DREML, an ensemble, and "
        "ProxySoftmax, 2048 bits, left out",
        interval=measures.BY_THE_BEST,
        region=above(0),
        unit=POINTS,
        needs=(TABLE,),
        link="fehervari-t2",
        measure=clustering,
        exploratory="ProxySoftmax counted when this was judged first, by 2048 floats and then by as many bits",
        published=lambda: in_tables(_above_best("structured_clustering", OF_ANOTHER_SIZE), "nmi"),
    ),
    Claim(
        id="fehervari-clustering-recall",
        claim="Structured clustering stands lower among the methods in retrieval than in clustering.",
        source="section 4.2, Tables 2-4",
        quote="it falls behind in terms of retrieval",
        statistic="R@1 of Struct Clust minus the mean of the other methods of 64 dimensions, in standard deviations "
        "over these, minus the same of NMI; DREML, an ensemble, and ProxySoftmax, 2048 bits, left out",
        interval=measures.SEARCH_OR_SEEDS,
        region=below(0),
        unit=NUMBER,
        needs=(TABLE,),
        link="fehervari-t2",
        measure=retrieval_against_clustering,
        published=_published_retrieval_against_clustering,
        exploratory="the difference from the best other method, which most rows pass, was judged first, and "
        "ProxySoftmax counted among the others",
    ),
    retracted("fehervari-npairs-average"),
    retracted("fehervari-triplet-worst"),
    retracted("fehervari-nca-over-triplet"),
    Claim(
        id="fehervari-margin-like-npairs",
        claim="Margin loss performs like N-pairs unless there are many classes.",
        source="section 4.2, Tables 2-4",
        quote="margin loss performs similar to NPair loss unless",
        statistic="R@1 of Margin Loss minus that of NPairs",
        interval=measures.SEARCH_OR_SEEDS,
        region=within(0.025),
        rationale="2.5 points, just above the difference in the paper's table (CUB200, BN-Inception)",
        unit=POINTS,
        rows=("margin", "n_pairs"),
        needs=(TABLE,),
        link="fehervari-t2",
        measure=measures.difference(TABLE, "margin", "n_pairs"),
        exploratory=_BOUNDARIES_AGAIN,
        published=lambda: in_tables(lambda values: values["margin"] - values["n_pairs"]),
    ),
    retracted("fehervari-dreml-single"),
    retracted("fehervari-dreml-ensemble"),
    Claim(
        id="fehervari-batches",
        claim="All losses but proxy-softmax benefit from larger batches.",
        source="section 4.6, Fig. 2",
        quote="all other loss functions benefit from a larger batch size",
        statistic="rise of R@1 for each doubling of the batch, about as many images seen, of the method without "
        "ProxySoftmax that rises least; over the batches that all of them can be trained with",
        interval=f"{measures.STUDENT_RERUNS}; its lower end is the lowest of all methods', its upper end the lowest of "
        "theirs, corrected for their number",
        region=above(0),
        unit=POINTS,
        needs=(BATCHES,),
        link="fehervari-f2-equal-numbers",
        measure=measures.smallest_doubling(BATCHES, without=["proxy_softmax"]),
        exploratory="the mean over the methods, each over its own batches, was judged first",
    ),
    Claim(
        id="fehervari-batches-proxy-softmax",
        claim="Proxy-softmax, unlike the other losses, does not gain from a larger batch.",
        source="section 4.6, Fig. 2",
        quote="except the proxysoftmax method all other loss functions benefit",
        statistic="rise of R@1 of ProxySoftmax for each doubling of the batch, about as many images seen",
        interval=measures.STUDENT_RERUNS,
        region=below(0.005),
        rationale="half a point a doubling would be three points from 2 to 128 images",
        unit=POINTS,
        rows=("proxy_softmax",),
        needs=(BATCHES,),
        link="fehervari-f2-equal-numbers",
        measure=measures.doubling_of(BATCHES, "proxy_softmax"),
        exploratory=_PROXIES_AGAIN,
    ),
    Claim(
        id="fehervari-batches-margin",
        claim="Margin loss declines with batches larger than 32.",
        source="section 4.6, Fig. 2",
        quote="margin loss declines with larger batch sizes above 32",
        statistic="R@1 of Margin Loss with batches of 128 minus that with 32, about as many images seen",
        interval=measures.SEARCH_OR_SEEDS,
        region=below(0),
        unit=POINTS,
        rows=("margin",),
        needs=(BATCHES,),
        link="fehervari-f2-equal-numbers",
        measure=measures.level_difference(BATCHES, "margin", "batch128", "batch32"),
        exploratory=_BOUNDARIES_AGAIN,
    ),
    retracted("fehervari-dims"),
    retracted("fehervari-dims-proxy-softmax"),
    retracted("fehervari-dims-npairs"),
)
