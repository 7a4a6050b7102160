"""Claims of Musgrave, Belongie and Lim 2020, A Metric Learning Reality Check."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from dmlrc.records import PRETRAINED
from dmlrc.report import published, statistics, tables
from dmlrc.report.claims import measures, untrained
from dmlrc.report.claims.rule import (
    NUMBER,
    OURS,
    PERCENT,
    POINTS,
    TINY,
    Claim,
    Evidence,
    MissingRowsError,
    above,
    below,
    retracted,
    within,
)
from dmlrc.report.statistics import Estimate
from dmlrc.report.tables import CLASSICS

JOINED = "concatenated"


def trend(evidence: Evidence, since: int = 0) -> Estimate:
    """Slope of the methods' concatenated P@1 over their years, from the year `since` on."""
    return slope_since(tables.accuracy(evidence["main"]), since)


def slope_since(frame: pd.DataFrame, since: int = 0) -> Estimate:
    """Slope of P@1 over the years of the methods in a table of results, see `tables.measured_by_year`.

    Where the classics count, no rise, which is what the claim denies, can be steeper than that to newer methods that
    are all perfect.
    """
    rows = tables.measured_by_year(frame)
    rows = rows[rows["year"] >= since]
    found, old = statistics.slope(rows["year"], rows["value"], "methods"), rows["method"].isin(CLASSICS)
    if not old.any():
        return found
    return replace(found, attainable=(0.0, statistics.slope(rows["year"], rows["value"].where(old, 1.0)).value))


def gain(evidence: Evidence, classics: Sequence[str], metric: str = measures.R1) -> Estimate:
    """Relative gain of the newer methods' mean score over that of some classics; it ends where a score is perfect."""
    table = measures.present(measures.wide(evidence["main"], metric, JOINED))
    new = table.columns.difference(CLASSICS)
    if not set(classics) <= set(table) or new.empty:
        raise MissingRowsError(f"no finished rerun of {' and '.join(classics)}, or of newer methods")
    perfect = 1 / float(table[list(classics)].mean().mean()) - 1
    return replace(measures.relative(table, list(new), list(classics)), attainable=(-1.0, perfect))


def spread(evidence: Evidence) -> Estimate:
    """Range of the methods' MAP@R, as a share of their mean."""
    return measures.relative_spread(measures.present(measures.wide(evidence["main"], "map_at_r", JOINED), least=3))


def relative_range(means: np.ndarray) -> float:
    """(highest - lowest) / mean of the scores (M,)."""
    return float(np.ptp(means) / np.mean(means))


def same_order(evidence: Evidence) -> Estimate:
    """Rank correlation of the methods' MAP@R, separated and concatenated."""
    both = pd.concat([measures.means(evidence["main"], "map_at_r", name) for name in tables.SETTINGS], axis=1).dropna()
    return statistics.correlation(both.iloc[:, 0], both.iloc[:, 1], ranks=True)


def over_pretrained(evidence: Evidence) -> Estimate:
    """Concatenated P@1 of the trained methods minus that of the trunk alone, over the methods."""
    scores = evidence["main"].scores.set_index(["method", "setting", "metric"])["value"]
    key = (PRETRAINED, JOINED, measures.R1)
    if key not in scores.index:
        raise MissingRowsError(f"no pretrained row in {evidence['main'].name}")
    return statistics.mean(measures.means(evidence["main"], setting=JOINED) - float(scores[[key]].iloc[0]))


def trunks_over_losses(evidence: Evidence) -> Estimate:
    """Range of R@1 over trunks with ImageNet weights minus that over trained methods; a unit is a trunk."""
    trunks = measures.at(evidence["trunks"], "imagenet")
    methods = measures.present(measures.wide(evidence["main"], setting=JOINED))
    apart, found = float(np.ptp(trunks)), measures.spread(methods)
    ends = {"value": apart - found.value, "low": apart - found.high, "high": apart - found.low}
    return replace(found, **ends, n=len(trunks), units="trunks")


def one_function(evidence: Evidence) -> Estimate:
    """MAP@R of N. Softmax minus that of ProxyNCA; without an interval where each was searched once.

    They share no search, so that the luck of seeds alone says nothing of how far apart they may lie.
    """
    found = measures.difference("main", "normalized_softmax", "proxy_nca", "map_at_r", JOINED)(evidence)
    if measures.repeated(measures.wide(evidence["main"], "map_at_r", JOINED)):
        return found
    return Estimate(found.value, np.nan, np.nan, 1, "searches")


def tuning(evidence: Evidence) -> Estimate:
    """Standard deviation over the methods of the median trial minus that of the best trial."""
    found_trials = tables.sensitivity(evidence["main"])
    if len(found_trials) < 2:
        raise MissingRowsError(f"fewer than 2 methods with trials in {evidence['main'].name}")
    both = found_trials[["median", "best"]].to_numpy()
    return statistics.bootstrap(both, lambda rows: -np.diff(rows.std(axis=-2, ddof=1))[..., 0])


def claimed(baseline: str) -> Estimate:
    """Mean relative gain that papers of 2017 to 2019 print over a classic; a unit is the mean of a paper."""
    gains = tables.claimed_improvement(published.claims(), baseline)
    return statistics.mean(gains.groupby("paper")["gain"].mean())


def repeated() -> Estimate:
    """Share of the papers that print a contrastive baseline of which one is, to the digit, that of an earlier paper.

    Of papers of the same year the one that stands first in the table counts as the earlier.
    """
    rows = published.claims()
    rows = rows[rows["primary"] & (rows["role"] == "contrastive_baseline")].sort_values("year", kind="stable")
    copied = rows.duplicated(["dataset", "r1"]).groupby(rows["paper"]).any()
    return statistics.share(int(copied.sum()), len(copied))


def in_tables(statistic: Callable[[pd.DataFrame], float]) -> dict[str, float]:
    """A statistic of each of Tables 3-5 (one data set of `published.results`): data set -> number."""
    return {name: float(statistic(frame)) for name, frame in published.results().groupby("dataset", sort=False)}


def _means(frame: pd.DataFrame, metric: str, setting: str = JOINED) -> pd.Series:
    rows = frame[(frame["metric"] == metric) & (frame["setting"] == setting) & (frame["method"] != PRETRAINED)]
    return rows.set_index("method")["mean"]


def _published_gain_in_map(frame: pd.DataFrame) -> float:
    means = _means(frame, "map_at_r")
    return means.drop(list(CLASSICS)).mean() / means[list(CLASSICS)].mean() - 1


def _published_over_pretrained(frame: pd.DataFrame) -> float:
    alone = frame.set_index(["method", "setting", "metric"])["mean"][PRETRAINED, JOINED, measures.R1]
    return (_means(frame, measures.R1) - alone).mean()


def _published_trunks() -> Mapping[str, float]:
    trunks = published.trunks()
    apart = trunks[trunks["source_table"] == "Table 1"].groupby("dataset")["value"].agg(np.ptp)
    return in_tables(lambda frame: apart[frame["dataset"].iloc[0]] - np.ptp(_means(frame, measures.R1)))


def _published_random_trunks() -> Mapping[str, float]:
    """Of SOP, whose classes have few images; the mean over the trunks."""
    trunks = published.trunks()
    return {"SOP": float(trunks[(trunks["source_table"] == "Table 2") & (trunks["dataset"] == "SOP")]["value"].mean())}


AFTER_GROCERY = "the limit was set when the table of the first run of Grocery Store had been seen"

CLAIMS = (
    *(
        Claim(
            id=f"musgrave-flat-trend{ending}",
            claim=f"Measured under one protocol, accuracy hardly rises with the year of the method{extra}.",
            source="section 4.2, Fig. 4 (b)",
            quote="The trend appears to be a relatively flat line",
            statistic=f"slope of concatenated P@1 over the years of the methods{extra}, points a year",
            interval="Student's t of a least-squares slope over the methods (n - 2)",
            region=within(0.005),
            rationale="smallest slope of interest: half a point a year, about a tenth of the rise that papers claim "
            "(Fig. 4 a); a slope can be clearly above 0 and yet smaller",
            unit=POINTS,
            needs=("main",),
            link="musgrave-f4-trends",
            measure=lambda evidence, since=since: trend(evidence, since),
            published=lambda since=since: in_tables(lambda frame: slope_since(frame, since).value),
            exploratory=exploratory,
        )
        for ending, since, extra, exploratory in (
            ("", 0, "", AFTER_GROCERY),
            (
                "-without-2006",
                2007,
                ", the two losses of 2006 left out",
                "asked for when the two points of 2006 were seen to carry 95 % of the leverage",
            ),
        )
    ),
    *(
        Claim(
            id=f"musgrave-gain-over-{baseline}",
            claim=f"Newer methods are at best marginally better than the {baseline} loss.",
            source="section 4.2, Fig. 5, conclusion",
            statistic=f"mean relative gain in concatenated P@1 of the newer methods over {baseline}",
            interval=f"{measures.SEARCH_OR_SEEDS}; delta method",
            region=below(0.1),
            rationale=f"a {part} of the {limit} % that the paper says claims exceed; H3 asks for half of it",
            unit=PERCENT,
            needs=("main",),
            link="answer",
            measure=lambda evidence, baseline=baseline: gain(evidence, [baseline]),
            quote="perform marginally better than, and sometimes on par with, classic methods",
            published=lambda baseline=baseline: in_tables(
                lambda frame: tables.improvement(frame, baseline)["concatenated"]
            ),
            exploratory=AFTER_GROCERY,
        )
        for baseline, part, limit in (("contrastive", "tenth", 100), ("triplet", "fifth", 50))
    ),
    Claim(
        id="musgrave-gain-in-map",
        claim="In MAP@R, newer methods are at best marginally better than the two classics.",
        source="section 5, Tables 3-5",
        quote="perform marginally better than, and sometimes on par with, classic methods",
        statistic="mean relative gain in concatenated MAP@R of the newer methods over the mean of contrastive and "
        "triplet",
        interval=f"{measures.SEARCH_OR_SEEDS}; delta method",
        region=below(0.1),
        rationale="as for P@1; MAP@R has room above it where P@1 is near 100 %",
        unit=PERCENT,
        needs=("main",),
        link="musgrave-f3",
        measure=lambda evidence: gain(evidence, CLASSICS, "map_at_r"),
        published=lambda: in_tables(_published_gain_in_map),
        exploratory=AFTER_GROCERY,
    ),
    Claim(
        id="musgrave-similar",
        claim="Properly tuned, most methods perform similarly.",
        source="sections 1.7 and 4.2",
        quote="most methods perform similarly to one another",
        statistic="concatenated MAP@R of the best method minus that of the worst, as a share of the mean",
        interval=measures.RANGE,
        region=below(0.225),
        rationale="no wider than in the widest of the paper's own tables (Cars196)",
        unit=PERCENT,
        needs=("main",),
        link="musgrave-f3",
        measure=spread,
        published=lambda: in_tables(lambda frame: relative_range(_means(frame, "map_at_r").to_numpy())),
        exploratory=AFTER_GROCERY,
    ),
    Claim(
        id="musgrave-one-function",
        claim="ProxyNCA and N. Softmax, two rows of the tables, are one function, so they agree within the noise of a "
        "search.",
        source="sections 1.3 and 3.2, Tables 3-5; the identity is ours",
        statistic="concatenated MAP@R of N. Softmax minus that of ProxyNCA",
        interval="Student's t with the variance of search and seed; none where each was searched once",
        region=within(0.005),
        rationale="half a point, about the mean half width of an interval in the paper's tables (0.44)",
        unit=POINTS,
        rows=("normalized_softmax", "proxy_nca"),
        needs=("main",),
        link="musgrave-f3",
        measure=one_function,
        published=lambda: in_tables(
            lambda frame: _means(frame, "map_at_r")["normalized_softmax"] - _means(frame, "map_at_r")["proxy_nca"]
        ),
        origin=OURS,
    ),
    Claim(
        id="musgrave-identity",
        claim="ProxyNCA is a variation of normalised softmax: on normalised embeddings the two are the same function.",
        source="section 1.3; the identity is ours",
        statistic="relative difference of the two losses on random batches, scale s against temperature 1 / (2 s)",
        interval="Student's t over random batches",
        region=within(1e-5),
        rationale="a few units of float32 rounding",
        unit=TINY,
        needs=(),
        link="musgrave-t6",
        measure=lambda _: untrained.one_function(),
        origin=OURS,
    ),
    Claim(
        id="musgrave-same-order",
        claim="Separated and concatenated embeddings rank the methods alike.",
        source="Fig. 3, Tables 3-5",
        statistic="Spearman's rank correlation of MAP@R over the methods, separated against concatenated",
        interval=measures.FISHER_RANKS,
        region=above(0.5),
        rationale="what is usually called a strong correlation",
        unit=NUMBER,
        origin=OURS,
        needs=("main",),
        link="musgrave-f3",
        measure=same_order,
        published=lambda: in_tables(
            lambda frame: _means(frame, "map_at_r").corr(_means(frame, "map_at_r", "separated"), method="spearman")
        ),
    ),
    retracted("musgrave-joining"),
    Claim(
        id="musgrave-training-helps",
        claim="Training raises P@1 above that of the pretrained trunk.",
        source="Tables 3-5",
        statistic="concatenated P@1 of the trained methods minus that of the pretrained row",
        interval=measures.STUDENT_ROWS,
        region=above(0),
        unit=POINTS,
        needs=("main",),
        link="musgrave-f3",
        measure=over_pretrained,
        published=lambda: in_tables(_published_over_pretrained),
        origin=OURS,
        trunk_alone=True,
    ),
    Claim(
        id="musgrave-trunk-over-loss",
        claim="The choice of the pretrained trunk changes R@1 more than the choice of the loss.",
        source="section 2.1, Tables 1 and 3-5",
        statistic="range of R@1 over trunks with ImageNet weights minus the range over the trained methods",
        interval=f"{measures.RANGE}; the trunks have no seed; n counts trunks",
        region=above(0),
        unit=POINTS,
        needs=("main", "trunks"),
        link="musgrave-t1",
        measure=trunks_over_losses,
        published=_published_trunks,
        origin=OURS,
        trunk_alone=True,
    ),
    Claim(
        id="musgrave-tuning",
        claim="Tuning the hyperparameters narrows the differences between losses.",
        source="section 1.6",
        quote="hyperparameter tuning significantly minimizes the performance differences between loss functions",
        statistic="standard deviation over the methods of the validation MAP@R of the median trial, minus that of the "
        "best trial",
        interval=measures.BOOTSTRAP_ROWS,
        region=above(0),
        unit=POINTS,
        needs=("main",),
        link="musgrave-search-trials",
        measure=tuning,
    ),
    Claim(
        id="musgrave-nmi-formula",
        claim="NMI of embeddings that know nothing is 1 - log S / log C, for C classes of S images: 84.9 % for 10,000 "
        "classes of 4.",
        source="section 2.3, Eqs. 3-7, Fig. 2",
        quote="with 10,000 classes and 4 samples per class, the NMI is 84.9%",
        statistic=f"NMI of {untrained.POINTS:,} random embeddings of {untrained.CLASSES} classes minus the formula",
        interval="Student's t over seeds",
        region=within(0.05),
        rationale="a twentieth of the metric's range",
        unit=POINTS,
        needs=(),
        link="musgrave-f2-numbers",
        measure=lambda _: untrained.nmi_against_formula(),
    ),
    Claim(
        id="musgrave-nmi-random-trunk",
        claim="With few images a class, NMI is high even for a trunk with random weights.",
        source="section 2.3, Table 2",
        quote="the NMI will be high even for completely random embeddings",
        statistic=f"NMI of an untrained conv4 on glyphs, {untrained.TRUNK_IMAGES} images a class",
        interval="Student's t over seeds",
        region=above(0.5),
        rationale="more than half of the metric's range",
        unit=POINTS,
        needs=(),
        link="musgrave-t2",
        measure=lambda _: untrained.nmi_of_random_trunk(),
        published=_published_random_trunks,
    ),
    Claim(
        id="musgrave-p1-hides",
        claim="P@1 is the same for embedding spaces that MAP@R tells apart.",
        source="section 2.3, Fig. 1",
        quote="each one scores nearly 100% Recall@1",
        statistic="range of MAP@R over three toy spaces minus the range of P@1",
        interval="Student's t over seeds",
        region=above(0.1),
        rationale="ten points; the paper's spaces are drawn, not printed",
        unit=POINTS,
        needs=(),
        link="musgrave-f1",
        measure=lambda _: untrained.toy_spread(),
    ),
    *(
        Claim(
            id=f"musgrave-claimed-{baseline}",
            claim=f"Papers claim gains that exceed {limit} % over the {baseline} loss.",
            source="abstract and section 4.2, Fig. 5",
            quote=f"exceeding {limit}% when compared with the {baseline} loss",
            statistic=f"mean relative gain in R@1 over {baseline} that papers of 2017 to 2019 print",
            interval="Student's t over papers, each the mean of its data sets; they copy from one another",
            region=above(limit / 100),
            rationale='the paper says "many"; the mean is the number that its Fig. 5 shows',
            unit=PERCENT,
            needs=(),
            link="answer",
            measure=lambda _, baseline=baseline: claimed(baseline),
        )
        for baseline, limit in (("contrastive", 100), ("triplet", 50))
    ),
    Claim(
        id="musgrave-recycled",
        claim="Most papers keep citing the same low baselines instead of measuring them.",
        source="section 4.2",
        quote="most papers simply keep citing the low numbers",
        statistic="share of the papers with a contrastive baseline that print an earlier paper's number, to the digit",
        interval="Wilson's interval over papers",
        region=above(0.5),
        unit=PERCENT,
        needs=(),
        link="recycled-contrastive",
        measure=lambda _: repeated(),
        exploratory="at first papers whose number a later paper prints were counted too, who may have measured it",
    ),
)
