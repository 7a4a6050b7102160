"""H10 and H11 of the preregistration: what the losses are worth when a whole network is trained.

They follow the section of 2026-11-27 of `book/preregistration.md` to the letter, and are counted apart from H1 to H9.
No method of these studies is searched, so each number has two intervals: that of search and seed, with the luck of
search that H9 borrows too, decides; that of seeds alone stands beside it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from dmlrc import studies
from dmlrc.report import statistics
from dmlrc.report.hypotheses.measures import (
    CARS,
    CUB,
    LITTLE,
    NOT_TESTED,
    Counted,
    Finding,
    Judged,
    Region,
    compare,
    counted,
    gain,
    left_out,
    lenders,
)
from dmlrc.report.significance import measures as significance
from dmlrc.report.significance.measures import METRIC, Comparison
from dmlrc.report.statistics import LEVEL, Estimate
from dmlrc.report.tables import CLASSICS

NOT_RUN, NO_VERDICT = "not run", "no verdict"
"""Verdicts of their own: the studies are not complete; luck alone could make one of the two ranges."""
BASE = "contrastive"
DECIDES, BESIDE = "search and seed, which decides", "seeds alone, which decides nothing"
"""The two intervals of each number."""


@dataclass(frozen=True)
class Pair:
    """The study with everything trained, and its twin with the embedder alone."""

    everything: str
    alone: str


PAIRS = {
    CARS: (
        Pair("cars196crops-mobilenetv2-whole-2000", "cars196crops-mobilenetv2-embedder-2000"),
        Pair("cars196crops-mobilenetv2-whole", "cars196crops-mobilenetv2-embedder"),
    ),
    CUB: (Pair("cub200-2010-mobilenetv2-whole-2000", "cub200-2010-mobilenetv2-embedder-2000"),),
}
"""Each data set's pairs; it is judged on the first one that is complete."""
FEWER = {"cars196crops-mobilenetv2-whole": ((*CLASSICS, "normalized_softmax", "multi_similarity"), 2)}
"""What is enough of a study where only a CPU can be had: these methods, with so many reruns."""


@dataclass(frozen=True)
class Whole(Judged):
    """H10 or H11 on a data set; study: that of frozen features there. The first of its findings decides.

    on: the studies that it is judged on. without: the finding that decides, without each method in turn. beside: other
    numbers, which have no verdict. by_luck: the studies whose range is not above luck. told: up to which true value
    "kept", and from which "not kept", is found with a power of 80 %. methods: how many there are, each with at least so
    many reruns.
    """

    on: tuple[str, ...] = ()
    without: Mapping[str, Finding] = field(default_factory=dict)
    beside: Mapping[str, Estimate] = field(default_factory=dict)
    by_luck: tuple[str, ...] = ()
    told: tuple[float, float] = (np.nan, np.nan)
    methods: int = 0
    reruns: int = 0

    @property
    def turning(self) -> tuple[str, ...]:
        """The methods without which the verdict would be another."""
        return tuple(name for name, each in self.without.items() if each.verdict != self.verdict)


# Records that count


def complete(name: str) -> Counted | None:
    """The records of a study all of whose reruns have ended, or as many as are enough; None before."""
    if name not in studies.known():
        return None
    for asked in ((), *((FEWER[name],) if name in FEWER else ())):
        found = counted(name, *asked)
        if found.records is not None and not found.missing:
            return found
    return None


def pair_of(data: str) -> tuple[Counted, Counted] | None:
    """With everything trained, and with the embedder alone: the first pair on this data set that is complete."""
    for pair in PAIRS[data]:
        everything, alone = complete(pair.everything), complete(pair.alone)
        if everything and alone:
            return everything, alone
    return None


def recorded() -> list[str]:
    """The studies that are judged here."""
    pairs = filter(None, map(pair_of, PAIRS))
    return [each.name for pair in pairs for each in pair]


def _not_run(hypothesis: str, data: str) -> Whole:
    asked = tuple(f"{name}: not complete" for pair in PAIRS[data] for name in (pair.everything, pair.alone))
    return Whole(hypothesis, data, (), NOT_RUN, absent=asked)


def readings(found: Counted, data: str, metric: str = METRIC) -> dict[str, Comparison]:
    """The methods of a study by the two lucks: of search and seed, the first borrowed, and of seeds alone."""
    return {
        DECIDES: compare(found, lenders(data), metric),
        BESIDE: significance.compare(found.records, (), metric),
    }


# The hypotheses


def newer_gain_little(data: str) -> Whole:
    """H10: mean concatenated P@1 of all losses but contrastive and triplet over that of contrastive, less 1."""
    pair = pair_of(data)
    if pair is None:
        return _not_run("H10", data)
    everything, on = pair[0], tuple(each.name for each in pair)
    read = readings(everything, data, "precision_at_1")
    decides = read[DECIDES]
    newer = [name for name in decides.methods if name not in CLASSICS]
    if decides.luck == significance.SEEDS or BASE not in decides.methods or not newer:
        return Whole("H10", data, (), NOT_TESTED, on=on)
    what = f"newer methods over contrastive{left_out((everything,), decides.methods)}"
    findings = tuple(
        Finding.by_interval(f"{what} ({luck})", gain(each, newer, BASE), Region(high=LITTLE))
        for luck, each in read.items()
    )
    error = findings[0].found.half / stats.t.ppf((1 + LEVEL) / 2, decides.known.df)
    least = statistics.least_effect(float(error), float(decides.known.df))
    beside = _other_gains(decides, readings(everything, data)[DECIDES], newer)
    told = (LITTLE - least, LITTLE + least)
    return Whole("H10", data, findings, findings[0].verdict, on=on, beside=beside, told=told, **_size(decides))


def _other_gains(accuracy: Comparison, precision: Comparison, newer: Sequence[str]) -> dict[str, Estimate]:
    """The gains over both losses of 2006, in P@1 and in MAP@R, but the one that is judged."""
    return {
        f"over {base} in {metric}": gain(compared, newer, base)
        for metric, compared in (("P@1", accuracy), ("MAP@R", precision))
        for base in CLASSICS
        if base in compared.methods and (base, metric) != (BASE, "P@1")
    }


def losses_matter_less(data: str) -> Whole:
    """H11: the range of MAP@R over its mean with everything trained, divided by that with the embedder alone."""
    pair = pair_of(data)
    if pair is None:
        return _not_run("H11", data)
    on = tuple(each.name for each in pair)
    read = [readings(each, data) for each in pair]
    decides, seeds = ([each[luck] for each in read] for luck in (DECIDES, BESIDE))
    common = [name for name in decides[0].methods if name in decides[1].methods]
    if any(each.luck == significance.SEEDS for each in decides) or len(common) < 3:
        return Whole("H11", data, (), NOT_TESTED, on=on)
    what = f"range / mean, everything trained / embedder alone{left_out(pair, common)}"
    lucky = tuple(name for name, each in zip(on, decides, strict=True) if not above_luck(each.only(common)))
    findings = tuple(
        _judged_ratio(f"{what} ({luck})", each, common, bool(lucky))
        for luck, each in ((DECIDES, decides), (BESIDE, seeds))
    )
    without = {name: _without(decides, [each for each in common if each != name], name) for name in common}
    over, under = (relative_error(each.only(common)) for each in decides)
    told = statistics.least_ratio(over, under, float(relative_range(decides[1].only(common).summary["mean"])))
    size = _size(*(each.only(common) for each in decides))
    return Whole("H11", data, findings, findings[0].verdict, on=on, without=without, by_luck=lucky, told=told, **size)


def _size(*compared: Comparison) -> dict[str, int]:
    """How many methods are compared, and how many reruns each has at least."""
    reruns = [each.runs.groupby("method").size() for each in compared]
    return {"methods": len(reruns[0]), "reruns": int(min(each.min() for each in reruns))}


def _without(both: Sequence[Comparison], kept: Collection[str], name: str) -> Finding:
    lucky = not all(above_luck(each.only(kept)) for each in both)
    return _judged_ratio(f"without {name}", both, kept, lucky)


def _judged_ratio(what: str, both: Sequence[Comparison], methods: Collection[str], lucky: bool) -> Finding:
    """The ratio of these methods; no verdict where luck alone could make one of its ranges."""
    told = [each.only(methods).summary for each in both]
    found, region = ratio([(each["mean"].to_numpy(), each["error"].to_numpy()) for each in told]), Region(high=1)
    return Finding(what, found, region, NO_VERDICT) if lucky else Finding.by_interval(what, found, region)


def ratio(groups: Sequence[tuple[np.ndarray, np.ndarray]], draws: int = 10_000) -> Estimate:
    """The ratio of two relative ranges, with the interval of `statistics.redrawn`. groups: scores, standard errors."""
    return statistics.redrawn(groups, lambda one, other: relative_range(one) / relative_range(other), draws)


def relative_range(scores: np.ndarray) -> np.ndarray:
    """The range of scores (..., M) divided by their mean.

    >>> float(relative_range([0.1, 0.2, 0.3]).round(6))
    1.0
    """
    scores = np.asarray(scores, float)
    return np.ptp(scores, axis=-1) / scores.mean(axis=-1)


def above_luck(compared: Comparison) -> bool:
    """Whether Tukey's test of the studentised range rejects at 5 % that all methods are equal."""
    told = compared.summary
    return statistics.range_of(told["mean"], told["error"] ** 2, compared.known.df).low > 0


def relative_error(compared: Comparison) -> float:
    """The standard error of a method's score, relative to the mean score."""
    told = compared.summary
    return float(np.sqrt((told["error"] ** 2).mean()) / told["mean"].mean())


SENTENCES = {
    "H10": "With everything trained, newer losses gain little over contrastive.",
    "H11": "With everything trained, the loss matters less than with the embedder alone.",
}


def judged() -> list[Whole]:
    """Both hypotheses on both data sets."""
    return [judge(data) for judge in (newer_gain_little, losses_matter_less) for data in PAIRS]
