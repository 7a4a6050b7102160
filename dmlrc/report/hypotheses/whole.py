"""H10 and H11 of the preregistration: what the losses are worth when a whole network is trained.

They follow the section of 2026-11-27 of `book/preregistration.md` to the letter, and are counted apart from H1 to H9.
No method of these studies is searched, so each number has two intervals: that of search and seed, with the noise of
search that H9 borrows too, decides; that of seeds alone stands beside it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from scipy import stats

from dmlrc import studies
from dmlrc.report import labels, power, titles
from dmlrc.report.hypotheses import measures, page
from dmlrc.report.hypotheses.measures import CARS, CUB, Bounds, Counted, Finding, Judged
from dmlrc.report.significance import measures as significance
from dmlrc.report.significance.measures import METRIC, Comparison
from dmlrc.report.statistics import LEVEL, Estimate
from dmlrc.report.tables import CLASSICS

NOT_RUN, NO_VERDICT = "not run", "no verdict"
"""Verdicts of their own: the studies are not complete; noise alone could make one of the two ranges."""
BASE = "contrastive"
BELOW_ONE = Bounds(high=1)
DECIDES, BESIDE = "search and seed", "seeds alone"
"""The two intervals of each number; the first decides."""
_FOUR = (*CLASSICS, "normalized_softmax", "multi_similarity")
FEWER = {
    "cars196crops-depths/mobilenetv2-whole": (_FOUR, 2),
    "cars196crops-depths/mobilenetv2-half": ((*_FOUR, "cosface", "proxy_anchor"), 3),
}
"""What is enough of a study where only a CPU can be had: these methods, with so many reruns."""
SENTENCES = {
    "H10": "With everything trained, newer losses gain little over contrastive.",
    "H11": "With everything trained, the loss matters less than with the embedder alone.",
}
KINDS = {True: "preregistered, not confirmatory", False: "exploratory"}
"""What the preregistration calls the two hypotheses on CUB-200 (2010), and elsewhere."""
OMISSION_CELLS = {("value", "low", "high"): ("ratio", ".2f"), "verdict": "verdict"}
"""`omissions` as printed (`labels.cells`): a row a data set and method."""


PAIRS = {
    CARS: (
        ("cars196crops-depths/mobilenetv2-whole-2000", "cars196crops-depths/mobilenetv2-embedder-2000"),
        ("cars196crops-depths/mobilenetv2-whole", "cars196crops-depths/mobilenetv2-embedder"),
    ),
    CUB: (("cub200-2010-depths/mobilenetv2-whole-2000", "cub200-2010-depths/mobilenetv2-embedder-2000"),),
}
"""Each data set's pairs, everything trained and its twin with the embedder alone; the first complete one is judged."""


@dataclass(frozen=True)
class Whole(Judged):
    """H10 or H11 on a data set; study: that of frozen features there. The first of its findings decides.

    on: the studies judged. without: the deciding finding without each method in turn. beside: other numbers, without a
    verdict. by_luck: the studies whose range is not above luck. limits: up to which true value "kept", and from which
    "not kept", is found with a power of 80 %. methods: how many, each with at least so many reruns.
    """

    on: tuple[str, ...] = ()
    without: Mapping[str, Finding] = field(default_factory=dict)
    beside: Mapping[str, Estimate] = field(default_factory=dict)
    by_luck: tuple[str, ...] = ()
    limits: tuple[float, float] = (np.nan, np.nan)
    methods: int = 0
    reruns: int = 0

    @property
    def turning(self) -> tuple[str, ...]:
        """The methods without which the verdict would be another."""
        return tuple(name for name, finding in self.without.items() if finding.verdict != self.verdict)


def range_over_mean(scores: np.ndarray) -> np.ndarray:
    """The range of scores (..., M) divided by their mean.

    >>> float(range_over_mean([0.1, 0.2, 0.3]).round(6))
    1.0
    """
    scores = np.asarray(scores, float)
    return np.ptp(scores, axis=-1) / scores.mean(axis=-1)


# Records that count


def complete(name: str) -> Counted | None:
    """The records of a study all of whose reruns have ended, or as many as are enough; None before."""
    if name not in studies.known():
        return None
    for asked in ((), *((FEWER[name],) if name in FEWER else ())):
        counted = measures.counted_records(name, *asked)
        if counted.records is not None and not counted.missing:
            return counted
    return None


def pair_of(data: str) -> tuple[Counted, Counted] | None:
    """The first pair on this data set that is complete: with everything trained, and with the embedder alone."""
    pairs = (tuple(map(complete, names)) for names in PAIRS[data])
    return next(filter(all, pairs), None)


def recorded_networks() -> list[str]:
    """The studies that are judged here."""
    pairs = filter(None, map(pair_of, PAIRS))
    return [study.name for pair in pairs for study in pair]


def _not_run(hypothesis: str, data: str) -> Whole:
    asked = tuple(f"{name}: not complete" for pair in PAIRS[data] for name in pair)
    return Whole(hypothesis, data, (), NOT_RUN, absent=asked)


def readings(counted: Counted, data: str, metric: str = METRIC) -> dict[str, Comparison]:
    """The methods of a study by the two lucks: of search and seed, the first borrowed, and of seeds alone."""
    alone = significance.compare(counted.records, (), metric).as_preregistered()
    return {DECIDES: measures.comparison_of(counted, measures.lenders(data), metric), BESIDE: alone}


# The hypotheses


def newer_gain_little_in_networks(data: str) -> Whole:
    """H10: mean concatenated P@1 of all losses but contrastive and triplet over that of contrastive, less 1."""
    pair = pair_of(data)
    if pair is None:
        return _not_run("H10", data)
    everything, on = pair[0], tuple(study.name for study in pair)
    read = readings(everything, data, "precision_at_1")
    decides = read[DECIDES]
    newer = [name for name in decides.methods if name not in CLASSICS]
    if decides.luck == significance.SEEDS or BASE not in decides.methods or not newer:
        return Whole("H10", data, (), measures.NOT_TESTED, on=on)
    what = measures.with_lacking("newer methods over contrastive", (everything,), decides.methods)
    findings = tuple(
        Finding.by_interval(f"{what} ({luck})", measures.gain(compared, newer, BASE), Bounds(high=measures.MAX_GAIN))
        for luck, compared in read.items()
    )
    error = findings[0].estimate.half / stats.t.ppf((1 + LEVEL) / 2, decides.known.df)
    least = power.least_effect(float(error), float(decides.known.df))
    beside = {
        f"over {base} in {metric}": measures.gain(compared, newer, base)
        for metric, compared in (("P@1", decides), ("MAP@R", readings(everything, data)[DECIDES]))
        for base in CLASSICS
        if base in compared.methods and (base, metric) != (BASE, "P@1")
    }
    limits = (measures.MAX_GAIN - least, measures.MAX_GAIN + least)
    return Whole("H10", data, findings, findings[0].verdict, on=on, beside=beside, limits=limits, **_size(decides))


def losses_matter_less(data: str) -> Whole:
    """H11: the range of MAP@R over its mean with everything trained, divided by that with the embedder alone."""
    pair = pair_of(data)
    if pair is None:
        return _not_run("H11", data)
    on = tuple(study.name for study in pair)
    read = [readings(study, data) for study in pair]
    common = [name for name in read[0][DECIDES].methods if name in read[1][DECIDES].methods]
    both = {luck: [reading[luck].only(common) for reading in read] for luck in (DECIDES, BESIDE)}
    decides = both[DECIDES]
    if any(compared.luck == significance.SEEDS for compared in decides) or len(common) < 3:
        return Whole("H11", data, (), measures.NOT_TESTED, on=on)
    what = measures.with_lacking("range / mean, everything trained / embedder alone", pair, common)
    lucky = tuple(name for name, compared in zip(on, decides, strict=True) if by_luck(compared))
    findings = tuple(judged_ratio(f"{what} ({luck})", compared, bool(lucky)) for luck, compared in both.items())
    without = without_each(decides)
    limits = power.least_ratio(*map(relative_error, decides), float(range_over_mean(decides[1].summary["mean"])))
    more = {"without": without, "by_luck": lucky, "limits": limits, **_size(*decides)}
    return Whole("H11", data, findings, findings[0].verdict, on=on, **more)


def _size(*compared: Comparison) -> dict[str, int]:
    """The number of methods compared, and the number of reruns that each has at least."""
    reruns = [comparison.runs.groupby("method").size() for comparison in compared]
    return {"methods": len(reruns[0]), "reruns": int(min(sizes.min() for sizes in reruns))}


def judged_ratio(
    what: str, both: Sequence[Comparison], lucky: bool, region: Bounds = BELOW_ONE, of: Callable = range_over_mean
) -> Finding:
    """The ratio of the ranges of two studies; no verdict where noise alone could make one of them."""
    finding = Finding.by_interval(what, measures.ratio_of(both, of), region)
    return replace(finding, verdict=NO_VERDICT) if lucky else finding


def by_luck(compared: Comparison) -> bool:
    """True if noise alone could make the range of a study's methods."""
    return not compared.range.low > 0


def without_each(
    both: Sequence[Comparison], region: Bounds = BELOW_ONE, of: Callable = range_over_mean
) -> dict[str, Finding]:
    """`judged_ratio` of two studies of the same methods, without each of these in turn."""
    omitted = {}
    for name in both[0].methods:
        left = [compared.only([other for other in compared.methods if other != name]) for compared in both]
        omitted[name] = judged_ratio(f"without {name}", left, any(map(by_luck, left)), region, of)
    return omitted


@measures.once_a_home
def explored() -> list[Whole]:
    """H2 and H9 by the rule of H11: without each method in turn, no verdict where luck could make a range."""
    cases = []
    for data in (CUB, CARS):
        for hypothesis, both in measures.pairs_of_ranges(data).items():
            lucky = tuple(compared.study for compared in both if by_luck(compared))
            region = measures.OF_RATIOS[hypothesis]
            first = judged_ratio(page.STATISTICS[hypothesis], both, bool(lucky), region, measures.absolute_range)
            without = without_each(both, region, measures.absolute_range)
            cases.append(Whole(hypothesis, data, (first,), first.verdict, without=without, by_luck=lucky))
    return cases


def relative_error(compared: Comparison) -> float:
    """The standard error of a method's score, relative to the mean score."""
    summary = compared.summary
    return float(np.sqrt((summary["error"] ** 2).mean()) / summary["mean"].mean())


@measures.once_a_home
def judged_networks() -> list[Whole]:
    """Both hypotheses on both data sets."""
    return [judge(data) for judge in (newer_gain_little_in_networks, losses_matter_less) for data in PAIRS]


# Shown


def network_cells(cases: Sequence[Whole]) -> pd.DataFrame:
    """The cells of `page.hypothesis_cells`, with what the preregistration wants said wherever a verdict stands."""
    whole = [case for case in cases for _ in case.findings or (None,)]
    beside = {
        "verdict": [case.verdict for case in whole],
        "hangs on": [_hangs_on(case) for case in whole],
        "noise alone could make the range of": [", ".join(map(titles.title, case.by_luck)) or "–" for case in whole],
        "methods, reruns": [f"{case.methods}, {case.reruns}" for case in whole],
        "found with a power of 80 %: kept; not kept": list(map(_limits, whole)),
        "kind": [KINDS[case.study == CUB] for case in whole],
    }
    table = page.hypothesis_cells(cases).drop(columns="repetitions missing").assign(**beside)
    return table.rename(index={number: f"{number}. {claim}" for number, claim in SENTENCES.items()}, level=0)


def _hangs_on(case: Whole) -> str:
    """The methods without which the verdict would be another, which stand with it wherever it does."""
    turning = () if case.verdict == NO_VERDICT else case.turning
    return labels.listed(map(labels.method_label, turning)) or "–"


def _limits(case: Whole) -> str:
    """`Whole.limits` as printed."""
    percent = case.hypothesis in page.POINTS
    ends = ["–" if np.isnan(end) else f"{100 * end:.1f} %" if percent else f"{end:.2f}" for end in case.limits]
    return f"at most {ends[0]}; at least {ends[1]}"


def explored_cells(cases: Sequence[Whole], judged_before: Sequence[Judged]) -> pd.DataFrame:
    """`explored` beside the preregistered verdicts."""
    kept = {(case.hypothesis, case.study): case.verdict for case in judged_before}
    rows = {}
    for case in cases:
        left = [one.estimate.value for one in case.without.values()]
        rows[case.hypothesis, titles.title(case.study)] = {
            "ratio": page.value(case.hypothesis, case.findings[0].estimate),
            "without one method": f"{min(left):.2f} to {max(left):.2f}",
            "noise alone could make the range of": ", ".join(map(titles.title, case.by_luck)) or "–",
            "preregistered verdict": kept[case.hypothesis, case.study],
            "by the later rule": case.verdict,
            "hangs on": _hangs_on(case),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["Hypothesis", "on"])


def network_beside_cells(cases: Sequence[Whole]) -> pd.DataFrame:
    """Numbers beside the verdicts and without one, as cells: other gains, and omissions that would change a verdict."""
    rows = {}
    for case in cases:
        key = case.hypothesis, titles.title(case.study)
        rows |= {(*key, what): page.value(case.hypothesis, other) for what, other in case.beside.items()}
        if case.without:
            what = "omissions of a method that would change the verdict"
            rows[*key, what] = f"{len(case.turning)} of {len(case.without)}"
    index = pd.MultiIndex.from_tuples(rows, names=["Hypothesis", "on", "what"])
    return pd.DataFrame({"value": list(rows.values())}, index)


def omissions(cases: Sequence[Whole]) -> pd.DataFrame:
    """The number, its interval and the verdict without each method in turn, a row a data set and method."""
    rows = []
    for case in cases:
        for name, one in case.without.items():
            numbers = one.estimate.value, one.estimate.low, one.estimate.high, one.verdict
            rows.append((case.hypothesis, case.study, labels.method_label(name), *numbers))
    columns = ["hypothesis", "study", "without", "value", "low", "high", "verdict"]
    return pd.DataFrame(rows, columns=columns).set_index("hypothesis") if rows else pd.DataFrame()
