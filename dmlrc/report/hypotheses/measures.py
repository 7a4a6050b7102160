"""The statistic of every hypothesis of the preregistration, its region, and the verdict by the preregistered rule.

Everything here follows `book/preregistration.md` to the letter: change nothing without a dated amendment there.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

from dmlrc import paths, records, studies
from dmlrc.records import StudyRecords
from dmlrc.report import labels, published, repetitions, statistics, tables
from dmlrc.report.significance import measures as significance
from dmlrc.report.significance.measures import Comparison
from dmlrc.report.statistics import LEVEL, Estimate
from dmlrc.report.tables import CLASSICS
from dmlrc.report.variance import searches
from dmlrc.studies.catalogue import TOO_HIGH_A_RATE

MAX_GAIN = 0.05
"""What newer losses may gain in P@1 by H3, as a fraction of that of a loss of 2006."""
KEPT, NOT_KEPT, OPEN, NOT_TESTED = "kept", "not kept", "inconclusive", "not tested"

CUB, CARS, GROCERY = "cub200-2010-frozen", "cars196crops-frozen", "grocery-frozen"
TOO_HIGH = {name: TOO_HIGH_A_RATE[name] for name in (CUB, CARS)}
LAST_BLOCK = {CUB: "cub200-2010-depths/squeezenet-last-block", CARS: "cars196crops-depths/squeezenet-last-block"}
EMBEDDER = {CUB: "cub200-2010-depths/squeezenet-embedder-alone", CARS: "cars196crops-depths/squeezenet-embedder-alone"}
EVERYTHING = "omniglot-scratch"

HALF_A_POINT = 0.005  # the other margin of equality, for where all scores lie close together
AGREEMENT = 0.53  # the mean correlation of the published tables with one another
FEW_PAIRS = 30  # fewer than a third of 91


@dataclass(frozen=True)
class Bounds:
    """Region in which a hypothesis wants its statistic: between low and high."""

    low: float = -np.inf
    high: float = np.inf

    def judge(self, estimate: Estimate) -> str:
        """The verdict on an estimate by its 95 % interval: inside the bounds, outside, or across an end."""
        if np.isnan(estimate.low) or np.isnan(estimate.high):
            return NOT_TESTED
        if self.low <= estimate.low and estimate.high <= self.high:
            return KEPT
        return NOT_KEPT if estimate.high < self.low or estimate.low > self.high else OPEN


OF_RATIOS = {"H2": Bounds(high=0.5), "H9": Bounds(high=1)}
"""The hypotheses on a ratio of two ranges."""


@dataclass(frozen=True)
class Finding:
    """One number of a hypothesis: what it is, the estimate, the region, the verdict on it alone."""

    what: str
    estimate: Estimate
    region: Bounds
    verdict: str

    @classmethod
    def by_interval(cls, what: str, estimate: Estimate, region: Bounds) -> "Finding":
        return cls(what, estimate, region, region.judge(estimate))


@dataclass(frozen=True)
class Judged:
    """A hypothesis on one data set: its findings, the verdict on all of them, and what is still missing.

    missing: the unfinished studies behind the findings, with the repetitions that count so far, of how many. absent:
    likewise those without which a finding could not be made.
    """

    hypothesis: str
    study: str
    findings: tuple[Finding, ...]
    verdict: str
    missing: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


def all_of(findings: Sequence[Finding], wanted: int = 1) -> str:
    """The verdict on `wanted` findings: not kept if one is not, not tested if one lacks, kept if all are, else open."""
    verdicts = [finding.verdict for finding in findings]
    if NOT_KEPT in verdicts:
        return NOT_KEPT
    if len(verdicts) < wanted or NOT_TESTED in verdicts:
        return NOT_TESTED
    return KEPT if set(verdicts) == {KEPT} else OPEN


# Records that count


@dataclass(frozen=True)
class Counted:
    """The part of a study's records that counts: the repetitions that all of its methods have finished."""

    name: str
    records: StudyRecords | None
    finished: int
    wanted: int

    @property
    def missing(self) -> tuple[str, ...]:
        return () if self.finished >= self.wanted else (f"{self.name}: {self.finished} of {self.wanted}",)


once_a_home = records.derived_once(lambda *names: (paths.home(), *names))


@once_a_home
def counted_records(name: str, methods: Collection[str] = (), reruns: int = 0) -> Counted:
    """The records of a study, cut down to the repetitions that all methods finished, each rerun scored or diverged.

    A repetition of a method with fewer than two scores is left out. methods, reruns: if not those of the study.
    """
    study = studies.get(name)
    chosen = list(methods) or [method.name for method in study.methods]
    saved = records.find(name)
    whole = () if saved is None else repetitions.finished(saved, chosen, reruns or study.budget.reruns)
    if not len(whole):
        return Counted(name, None, 0, study.repetitions)
    scores, trials = (
        frame[frame["method"].isin(chosen) & frame["repetition"].isin(whole)] for frame in (saved.scores, saved.trials)
    )
    sizes = scores.groupby(["method", "repetition", "setting", "metric"])["value"].transform("size")
    kept = saved.having(scores=scores[sizes > 1], trials=trials)
    return Counted(name, kept, len(whole), study.repetitions)


def recorded_hypotheses() -> list[str]:
    """The studies of the hypotheses of which something is recorded here."""
    names = (CUB, CARS, GROCERY, *TOO_HIGH.values(), *LAST_BLOCK.values(), *EMBEDDER.values(), EVERYTHING)
    return [name for name in names if (study := records.find(name)) and len(study.runs)]


def comparison_of(counted: Counted, lenders: Sequence[Counted], metric: str = significance.METRIC) -> Comparison:
    """The methods of a study with the noise of search; of one repetition, that of the first of the lenders that can."""
    for lender in [counted, *lenders]:
        edition = [source.records for source in (counted, lender) if source.records is not None]
        compared = significance.compare(counted.records, edition, metric)
        if compared.luck != significance.SEEDS:
            return compared.as_preregistered()
    return significance.compare(counted.records, (), metric).as_preregistered()


@once_a_home
def lenders(study: str) -> list[Counted]:
    """The study with repeated searches on the same data, then those of Cars crops and CUB, the more varying first."""
    same = [counted_records(study)] if study in (CUB, CARS, GROCERY) else []
    repeated = [counted for counted in map(counted_records, (CARS, CUB)) if counted.finished > 1]
    others = sorted(repeated, key=lambda counted: -significance.relative_search(significance.scores(counted.records)))
    return [counted for counted in (*same, *others) if counted.records is not None]


# The hypotheses


def _published_scores() -> dict[str, pd.Series]:
    """The concatenated MAP@R of each of the Reality Check's three tables, by method."""
    return {name: tables.by_method(part)["mean"] for name, part in published.musgrave_tables().items()}


def _judge(hypothesis: str, ours: Counted, findings: Sequence[Finding]) -> Judged:
    """A hypothesis on one study; not tested without findings."""
    return Judged(hypothesis, ours.name, tuple(findings), all_of(findings), ours.missing)


def _lucky(ours: Counted, study: str, metric: str = significance.METRIC) -> Comparison | None:
    """The methods of a study; None where nothing is recorded, or no luck of search is known."""
    compared = comparison_of(ours, lenders(study), metric) if ours.records is not None else None
    return None if compared is None or compared.luck == significance.SEEDS else compared


def order_is_predicted(study: str) -> Judged:
    """H1: rank correlation with the concatenated MAP@R of each of the three published tables."""
    ours, findings = counted_records(study), []
    if ours.records is not None:
        scores = significance.means(ours.records)
        for name, theirs in _published_scores().items():
            both = pd.concat([scores, theirs], axis=1, join="inner").dropna()
            rho = statistics.correlation(*both.to_numpy().T, ranks=True, units="methods")
            what = with_lacking(f"rank correlation with {name}", (ours,), scores.index)
            findings.append(Finding.by_interval(what, rho, Bounds(low=AGREEMENT)))
    return _judge("H1", ours, findings)


def redrawn_correlations(study: str, draws: int = 10_000) -> dict[str, Estimate]:
    """Beside H1: how the correlations move when our scores are redrawn with their standard errors."""
    ours = counted_records(study)
    if ours.records is None:
        return {}
    summary = comparison_of(ours, lenders(study)).summary
    rng = np.random.default_rng(statistics.SEED)
    drawn = rng.normal(summary["mean"], summary["error"].fillna(0), (draws, len(summary)))
    estimates = {}
    for name, theirs in _published_scores().items():
        values = theirs.reindex(summary.index)
        known = values.notna().to_numpy()
        ranks = values[known].rank().to_numpy()
        rhos = stats.pearsonr(stats.rankdata(drawn[:, known], axis=1), ranks[None], axis=1).statistic
        value = float(np.corrcoef(summary["mean"][known].rank(), ranks)[0, 1])
        estimates[name] = statistics.percentiles(value, rhos, int(known.sum()), "methods", "scores redrawn")
    return estimates


def equality(study: str) -> pd.DataFrame | None:
    """Beside H5 and H8: all pairs, equal and equal_within_half, by the narrower margin; None without luck of search."""
    compared = _lucky(counted_records(study), study)
    if compared is None:
        return None
    closer = statistics.pairs(compared.runs, HALF_A_POINT, compared.known)["equal"]
    return compared.pairs.assign(equal_within_half=closer)


def rate_makes_ranking(study: str) -> Judged:
    """H2: the range of the scores at the chosen rate, divided by that at a rate too high."""
    chosen, high = counted_records(study), counted_records(TOO_HIGH[study])
    return _ranges("H2", study, "range at the chosen rate / at a rate too high", chosen, high)


def _ranges(hypothesis: str, study: str, what: str, over: Counted, under: Counted) -> Judged:
    """A ratio of two ranges of scores, of the methods that both have; one that only one of them has is named."""
    missing = over.missing + under.missing
    here = over.records is not None and under.records is not None
    if not here or (both := in_both(study, over, under)) is None:
        without = ("no study on this data has searched twice",) * here
        return Judged(hypothesis, study, (), NOT_TESTED, (*missing, *without))
    what = with_lacking(what, (over, under), both[0].methods)
    finding = Finding.by_interval(what, ratio_of(both, absolute_range), OF_RATIOS[hypothesis])
    return Judged(hypothesis, study, (finding,), finding.verdict, missing)


absolute_range = partial(np.ptp, axis=-1)


def ratio_of(both: Sequence[Comparison], spread: Callable[[np.ndarray], np.ndarray]) -> Estimate:
    """The spread of a study's scores divided by another's; the pooled variance of each score makes the interval."""
    groups = [(study.summary["mean"].to_numpy(), study.summary["error"].to_numpy()) for study in both]
    return statistics.parametric_bootstrap(groups, lambda one, other: spread(one) / spread(other))


def in_both(study: str, *sources: Counted) -> list[Comparison] | None:
    """The methods that all of these studies have, in each of them; None where no luck of search is known."""
    compared = [_lucky(source, study) for source in sources]
    if any(comparison is None for comparison in compared):
        return None
    both = set.intersection(*(set(comparison.methods) for comparison in compared))
    return [comparison.only(both) for comparison in compared]


def pairs_of_ranges(study: str) -> dict[str, list[Comparison]]:
    """The studies over and under the line of H2 and H9, of the methods that both have; where both are there."""
    pairs = {"H2": (study, TOO_HIGH.get(study)), "H9": (LAST_BLOCK.get(study), EMBEDDER.get(study))}
    counts = {hypothesis: [counted_records(name) for name in names if name] for hypothesis, names in pairs.items()}
    shared = {hypothesis: in_both(study, *both) for hypothesis, both in counts.items() if len(both) == 2}
    return {hypothesis: both for hypothesis, both in shared.items() if both}


def ranges(study: str) -> dict[str, tuple[np.ndarray, tuple[float, float]]]:
    """Beside H2 and H9: the scores of the ratio, a column over and one under the line, and ranges by noise alone."""
    summaries = {name: [comparison.summary for comparison in both] for name, both in pairs_of_ranges(study).items()}
    return {
        name: (
            np.stack([summary["mean"].to_numpy() for summary in both], axis=1),
            tuple(statistics.expected_range_under_null(summary["error"]) for summary in both),
        )
        for name, both in summaries.items()
    }


def with_lacking(what: str, compared: Iterable[Counted], kept: Iterable[str]) -> str:
    """The words for a comparison, and behind them the methods of all these studies that it lacks, or the few it has."""
    asked = set.intersection(*({method.name for method in studies.get(counted.name).methods} for counted in compared))
    lacking, which = sorted(asked - set(kept)), "without"
    if len(lacking) > len(list(kept)):
        lacking, which = kept, "of only"
    return f"{what}, {which} {labels.listed(map(labels.method_label, lacking))}" if len(lacking) else what


def newer_gain_little(study: str) -> Judged:
    """H3: mean concatenated P@1 of the newer methods over that of contrastive, and of triplet, less 1."""
    ours, findings = counted_records(study), []
    if compared := _lucky(ours, study, "precision_at_1"):
        newer = [name for name in compared.methods if name not in CLASSICS]
        for base in CLASSICS:
            what = with_lacking(f"newer methods over {base}", (ours,), compared.methods)
            findings.append(Finding.by_interval(what, gain(compared, newer, base), Bounds(high=MAX_GAIN)))
    return _judge("H3", ours, findings)


def gain(compared: Comparison, newer: Sequence[str], base: str, level: float = LEVEL) -> Estimate:
    """The lead of the mean of some methods over another one, as a fraction of that one's score."""
    contrast = partial(statistics.contrast, compared.runs, known=compared.known, level=level)
    return statistics.relative(compared.summary["mean"], newer, [base], contrast)


def search_outweighs_seed(study: str) -> Judged:
    """H4: the median over the methods of the ratio of search SD to seed SD."""
    ours, findings = counted_records(study), []
    if ours.finished > 1:
        summary = significance.compare(ours.records).summary
        what = with_lacking("median of search SD / seed SD", (ours,), summary.index)
        ratio = statistics.median(summary["search_to_seed"], "methods")
        findings.append(Finding.by_interval(what, ratio, Bounds(low=2)))
    return _judge("H4", ours, findings)


def few_pairs_differ(study: str) -> Judged:
    """H5: pairs that differ by a t test with search and seed, Holm's correction. A count, judged by the region."""
    ours, findings = counted_records(study), []
    if compared := _lucky(ours, study):
        count = int((compared.pairs["holm"] < 1 - LEVEL).sum())
        estimate = Estimate(count, np.nan, np.nan, len(compared.pairs), "pairs", "a count has no interval")
        what = with_lacking("pairs that differ", (ours,), compared.methods)
        verdict = KEPT if count <= FEW_PAIRS else NOT_KEPT
        findings.append(Finding(what, estimate, Bounds(high=FEW_PAIRS), verdict))
    return _judge("H5", ours, findings)


def tuning_levels(study: str) -> Judged:
    """H6: SD over methods of the expected best validation MAP@R after 1 random trial / after the whole search."""
    ours, findings = counted_records(study), []
    if ours.finished > 1:
        trials = ours.records.trials.dropna(subset=["value"])
        random = trials[trials["trial"] < searches.FIRST_RANDOM].groupby("method")["value"]
        best = trials.groupby(["method", "repetition"])["value"].max().unstack()
        pooled = float(np.sqrt(best.var(axis=1, ddof=1).mean()))
        after_one = (random.mean().to_numpy(), random.sem().to_numpy())
        after_all = (best.mean(axis=1).to_numpy(), np.full(len(best), pooled / np.sqrt(best.shape[1])))
        sd = partial(np.std, axis=-1, ddof=1)
        ratio = statistics.parametric_bootstrap([after_one, after_all], lambda one, other: sd(one) / sd(other))
        what = with_lacking("SD over methods after 1 trial / after the search", (ours,), best.index)
        findings.append(Finding.by_interval(what, ratio, Bounds(low=2)))
    return _judge("H6", ours, findings)


def order_at_every_depth(study: str) -> Judged:
    """H7: rank correlation of eight methods' scores between depths of training."""
    last, alone, all_trained = (counted_records(name) for name in (LAST_BLOCK[study], EMBEDDER[study], EVERYTHING))
    pairs = {"embedder alone and last block": (alone, last)}
    pairs["last block and everything (Omniglot)"] = last, all_trained
    findings, missing, absent = [], {}, {}
    for what, pair in pairs.items():
        whole = all(depth.records is not None for depth in pair)
        (missing if whole else absent).update(dict.fromkeys(text for depth in pair for text in depth.missing))
        if whole:
            both = pd.concat([significance.means(depth.records) for depth in pair], axis=1).dropna()
            rho = statistics.correlation(*both.to_numpy().T, ranks=True, units="methods")
            what = with_lacking(f"rank correlation: {what}", pair, both.index)
            findings.append(Finding.by_interval(what, rho, Bounds(low=0.5)))
    absent = tuple(text for text in absent if text not in missing)
    return Judged("H7", study, tuple(findings), all_of(findings, len(pairs)), tuple(missing), absent)


def one_function_one_result(study: str) -> Judged:
    """H8: N. Softmax minus ProxyNCA; kept if the interval contains 0."""
    ours, findings = counted_records(study), []
    compared = _lucky(ours, study)
    if compared and (difference := significance.same_function(compared)):
        verdict = KEPT if difference.low <= 0 <= difference.high else NOT_KEPT
        findings.append(Finding("N. Softmax minus ProxyNCA", difference, Bounds(0, 0), verdict))
    return _judge("H8", ours, findings)


def depth_levels(study: str) -> Judged:
    """H9: the range of eight methods' scores with the last block trained, divided by that of the embedder alone."""
    last, alone = counted_records(LAST_BLOCK[study]), counted_records(EMBEDDER[study])
    return _ranges("H9", study, "range with the last block trained / embedder alone", last, alone)


@dataclass(frozen=True)
class Hypothesis:
    """A hypothesis as the preregistration numbers it: the sentence, how it is judged, and on which studies."""

    number: str
    sentence: str
    judge: Callable[[str], Judged]
    studies: tuple[str, ...] = (CUB, CARS)


HYPOTHESES = (
    Hypothesis("H1", "A frozen linear study predicts the published order.", order_is_predicted, (CUB, CARS, GROCERY)),
    Hypothesis("H2", "The learning rate makes much of the ranking.", rate_makes_ranking),
    Hypothesis("H3", "Newer losses gain little over those of 2006.", newer_gain_little, (CUB, CARS, GROCERY)),
    Hypothesis("H4", "Search luck outweighs seed luck.", search_outweighs_seed),
    Hypothesis("H5", "Most pairs of methods cannot be told apart.", few_pairs_differ),
    Hypothesis("H6", "Tuning levels the methods.", tuning_levels),
    Hypothesis("H7", "The order is the same at every depth of training.", order_at_every_depth),
    Hypothesis("H8", "One function, searched under two names, gives one result.", one_function_one_result),
    Hypothesis("H9", "The more of the network trains, the less the loss matters.", depth_levels),
)


@once_a_home
def judged_hypotheses() -> list[Judged]:
    """Every hypothesis on every study that it is judged on."""
    return [hypothesis.judge(study) for hypothesis in HYPOTHESES for study in hypothesis.studies]
