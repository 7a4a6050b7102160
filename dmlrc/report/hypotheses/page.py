"""The hypotheses as their page prints them: cells of the table, and sentences with their numbers."""

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from dmlrc.report import labels, titles
from dmlrc.report.hypotheses.measures import (
    CUB,
    EMBEDDER,
    HYPOTHESES,
    LAST_BLOCK,
    NOT_TESTED,
    TOO_HIGH,
    VERDICTS,
    Judged,
    Region,
    counted,
    diverged,
    equality,
    ranges_by_luck,
    redrawn_correlations,
)
from dmlrc.report.significance import measures as significance
from dmlrc.report.statistics import LEVEL, Estimate, holm

POINTS = ("H3", "H8", "H10")
"""The hypotheses whose statistic is a fraction, shown in percent."""
WITHOUT_ITS_END = ("H1", "H9", "H11")
"""The hypotheses whose region was written down without the number at its end."""
SAME = ("normalized_softmax", "proxy_nca")


def cells(found: Sequence[Judged]) -> pd.DataFrame:
    """A row a hypothesis, study and number; a hypothesis without numbers has one row."""
    rows = []
    for each in found:
        for finding in each.findings or (None,):
            rows.append(
                {
                    "Hypothesis": each.hypothesis,
                    "on": titles.title(each.study),
                    "statistic": finding.what if finding else "–",
                    "value": value(each.hypothesis, finding.found) + _possible(finding.found) if finding else "–",
                    "region": region(each.hypothesis, finding.region) if finding else "–",
                    "this number": finding.verdict if finding else "–",
                    "verdict": _verdict(each),
                    "repetitions missing": "; ".join(map(titles.in_label, (*each.missing, *each.absent))) or "–",
                }
            )
    return pd.DataFrame(rows).set_index(["Hypothesis", "on"])


def _verdict(each: Judged) -> str:
    """The verdict, "so far" where repetitions are missing that may still change a number."""
    return each.verdict + (" so far" if each.missing and each.verdict != NOT_TESTED else "")


def numbers(found: Sequence[Judged]) -> pd.DataFrame:
    """The same as numbers, for the download."""
    rows = [
        {
            "hypothesis": each.hypothesis,
            "study": each.study,
            "statistic": finding.what,
            "value": finding.found.value,
            "low": finding.found.low,
            "high": finding.found.high,
            "interval": finding.found.how,
            "region_low": finding.region.low,
            "region_high": finding.region.high,
            "verdict_alone": finding.verdict,
            "verdict": each.verdict,
            "missing": "; ".join((*each.missing, *each.absent)),
        }
        for each in found
        for finding in each.findings
    ]
    columns = ["hypothesis", "study", "statistic", "value", "low", "high", "interval", "region_low", "region_high"]
    return pd.DataFrame(rows, columns=[*columns, "verdict_alone", "verdict", "missing"]).set_index("hypothesis")


def value(hypothesis: str, found: Estimate) -> str:
    """An estimate with its interval.

    >>> value("H1", Estimate(0.8, 0.4, 0.94, 12)), value("H3", Estimate(0.02, 0.01, 0.03, 3))
    ('0.80 [0.40, 0.94]', '+2.0 % [+1.0, +3.0]')
    >>> value("H5", Estimate(12, float("nan"), float("nan"), 91))
    '12 of 91'
    """
    if np.isnan(found.low):
        return f"{found.value:.0f} of {found.n}"
    if hypothesis == "H8":
        return f"{100 * found.value:+.2f} points [{100 * found.low:+.2f}, {100 * found.high:+.2f}]"
    if hypothesis in POINTS:
        return f"{100 * found.value:+.1f} % [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def region(hypothesis: str, wanted: Region) -> str:
    """Where the hypothesis wants its statistic, in words.

    >>> region("H1", Region(low=0.53)), region("H3", Region(high=0.05)), region("H8", Region(0, 0))
    ('above 0.53', 'at most 5 %', 'the interval contains 0')
    >>> region("H4", Region(low=2)), region("H9", Region(high=1))
    ('at least 2', 'below 1')
    """
    if wanted.low == wanted.high:
        return "the interval contains 0"
    unit, scale = (" %", 100) if hypothesis in POINTS else ("", 1)
    low, high = ("above", "below") if hypothesis in WITHOUT_ITS_END else ("at least", "at most")
    if np.isfinite(wanted.low):
        return f"{low} {scale * wanted.low:g}{unit}"
    return f"{high} {scale * wanted.high:g}{unit}"


def summary(found: Sequence[Judged]) -> list[str]:
    """How many hypotheses have which verdict on CUB-200 (2010), where they confirm, and elsewhere, in sentences."""
    sentences = []
    for where, chosen in (
        (
            f"hypotheses on {titles.title(CUB)}, where they are confirmatory (but for what H7 takes from Omniglot)",
            [each for each in found if each.study == CUB],
        ),
        ("judgements on the other data sets, where they are exploratory", [e for e in found if e.study != CUB]),
    ):
        named = {verdict: [each.hypothesis for each in chosen if each.verdict == verdict] for verdict in VERDICTS}
        known = {verdict: those for verdict, those in named.items() if those}
        told = ", ".join(f"{len(those)} {verdict} ({_numbers(those)})" for verdict, those in known.items())
        told = told if len(known) > 1 else f"all {next(iter(known))}"
        sentences.append(f"{len(chosen)} {where}: {told}.")
    return sentences


def _numbers(hypotheses: Sequence[str]) -> str:
    """
    >>> _numbers(["H2", "H2", "H5"])
    'H2 twice, H5'
    """
    times = {1: "", 2: " twice"}
    counts = {name: hypotheses.count(name) for name in dict.fromkeys(hypotheses)}
    return ", ".join(f"{name}{times.get(n, f' {n} times')}" for name, n in counts.items())


def untested(found: Sequence[Judged]) -> list[str]:
    """The studies on which nothing is tested yet."""
    tested = {each.study for each in found if each.findings}
    return [study for study in dict.fromkeys(each.study for each in found) if study not in tested]


def untested_sentence(found: Sequence[Judged]) -> str:
    """Names the studies on which nothing is tested yet; "" if there are none."""
    names = labels.listed(map(titles.title, untested(found)))
    return f"On {names} no hypothesis is tested yet: the records are not finished." if names else ""


def sentence(found: Sequence[Judged], apart: Collection[str] = ()) -> str:
    """A hypothesis, with its verdict on every study but those `apart`."""
    own = next(each for each in HYPOTHESES if each.number == found[0].hypothesis)
    told = [f"{titles.title(each.study)}: {_verdict(each)}{_waits(each)}." for each in found if each.findings]
    waiting = [titles.title(each.study) for each in found if not each.findings and each.study not in apart]
    if waiting:
        told.append(f"Not tested on {labels.listed(waiting)}, whose records are not finished.")
    return f"**{own.number}. {own.sentence}** {' '.join(told) or 'Not tested yet.'}"


def _waits(each: Judged) -> str:
    """What a hypothesis waits for that has some of its numbers, and what these say."""
    if each.verdict != NOT_TESTED:
        return ""
    known = labels.listed(f"{finding.what} ({finding.verdict})" for finding in each.findings)
    return f" as a whole; so far {known}; missing {labels.listed(map(titles.in_label, each.absent))}"


def _possible(found: Estimate) -> str:
    """The most that a gain can be on this data, where scores are near their end."""
    most = found.attainable[1]
    return f" (a perfect score would be {100 * most:+.1f} %)" if np.isfinite(most) else ""


def beside(study: str) -> str:
    """What the preregistration shows beside some hypotheses, which no verdict depends on: a list; "" if unknown."""
    moved = redrawn_correlations(study)
    if not moved:
        return ""
    correlations = ", ".join(f"{name} {value('H1', found)}" for name, found in moved.items())
    told = {"H1": f"with our scores redrawn from their standard errors, the correlations are {correlations}."}
    pairs = equality(study)
    if pairs is not None:
        told |= {number: _luck(study, number, ranges) for number, ranges in ranges_by_luck(study).items()}
        told |= {"H5": _pairs(pairs), "H6": _diverged(study)}
        same = pairs[pairs["a"].isin(SAME) & pairs["b"].isin(SAME)]["equal"]
        if len(same):
            told["H8"] = (
                f"N. Softmax and ProxyNCA are {'' if same.iloc[0] else 'not shown to be '}equal within a point."
            )
    judged_on = {each.number: each.studies for each in HYPOTHESES}
    where = {number: " (not judged there)" * (study not in judged_on[number]) for number in told}
    return "\n".join(f"- {titles.title(study)}, {number}{where[number]}: {told[number]}" for number in sorted(told))


def _luck(study: str, number: str, lucky: tuple[float, float]) -> str:
    """The two ranges of a ratio beside those of luck. lucky: as `ranges_by_luck`."""
    both = {"H2": (study, TOO_HIGH.get(study)), "H9": (LAST_BLOCK.get(study), EMBEDDER.get(study))}[number]
    scores = pd.concat([significance.means(counted(name).records) for name in both], axis=1, join="inner")
    seen, by_luck = (" and ".join(map(labels.percent, ranges)) for ranges in (np.ptp(scores, axis=0), lucky))
    return (
        f"the ranges in the ratio's numerator and denominator are {seen} points; were all losses equal, luck alone "
        f"would make them {by_luck}."
    )


def _pairs(pairs: pd.DataFrame) -> str:
    """How many pairs differ, and how many are equal. pairs: `equality`."""
    closer, welch = pairs["equal_within_half"].sum(), pairs["p_welch"]
    count = int((holm(welch) < 1 - LEVEL).sum())
    differ = f"{count} of {len(pairs)} pairs differ{'s' * (count == 1)}"
    tested = f"by Welch's tests with Holm's correction, each method with its own variance, {differ}; "
    tested *= bool(welch.notna().any())
    return (
        f"{tested}{pairs['equal'].sum() or 'none'} of {len(pairs)} pairs are equal within a point, {closer or 'none'} "
        "within half a point."
    )


def _diverged(study: str) -> str:
    lost, trials = diverged(study)
    return f"{lost or 'none'} of {trials:,} trials diverged{', and are left out' * bool(lost)}."
