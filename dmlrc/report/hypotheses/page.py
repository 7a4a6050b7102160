"""The hypotheses as their page prints them: cells of its tables, and the numbers of its text."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from dmlrc import studies
from dmlrc.report import labels, titles
from dmlrc.report.hypotheses import measures
from dmlrc.report.hypotheses.measures import Bounds, Judged
from dmlrc.report.statistics import LEVEL, Estimate, holm

POINTS = {"H3": (" %", "+.1%"), "H8": (" points", "+.2%"), "H10": (" %", "+.1%")}
"""The hypotheses whose statistic is a fraction: its unit and form."""
WITHOUT_ITS_END = ("H1", "H9", "H11")
"""The hypotheses whose region was written down without the number at its end."""
SAME = ("normalized_softmax", "proxy_nca")
STATISTICS = {
    "H1": "rank correlation with each published order",
    "H2": "range at the chosen rate / at a rate too high",
    "H3": "gain in P@1 over contrastive, over triplet",
    "H4": "search SD / seed SD",
    "H5": "pairs that differ",
    "H6": "SD after one trial / after 50",
    "H7": "rank correlation of the depths",
    "H8": "difference of the two",
    "H9": "range with the last block / embedder alone",
}
"""What is measured, in a few words."""


def short_cells(cases: Sequence[Judged]) -> pd.DataFrame:
    """A row a hypothesis, with its verdict and its numbers on each data set."""
    rows = {}
    for hypothesis in measures.HYPOTHESES:
        own = [one for one in cases if one.hypothesis == hypothesis.number]
        regions = [finding.region for one in own for finding in one.findings]
        wanted = f"{STATISTICS[hypothesis.number]}: {region(hypothesis.number, regions[0]) if regions else '–'}"
        short = {titles.title(one.study): _short(one) for one in own}
        rows[f"{hypothesis.number}. {hypothesis.sentence}"] = {"Expected": wanted, **short}
    cells = pd.DataFrame.from_dict(rows, orient="index").fillna("–").rename_axis("Prediction")
    return cells[[*cells.columns.drop("Expected"), "Expected"]]  # a phone shows the first verdict


def _short(case: Judged) -> str:
    """A verdict with the values it rests on.

    >>> from dmlrc.report.hypotheses.measures import Finding
    >>> wide = Estimate(0.8, 0.4, 0.94, 12)
    >>> _short(Judged("H1", "grocery-frozen", (Finding("", wide, Bounds(low=0.53), "inconclusive"),), "inconclusive"))
    'inconclusive: 0.80'
    """
    values = ", ".join(value(case.hypothesis, finding.estimate, alone=True) for finding in case.findings)
    verdict = case.verdict + _so_far(case)
    return f"{verdict}: {values}" if values else verdict


def hypothesis_cells(cases: Sequence[Judged]) -> pd.DataFrame:
    """A row a hypothesis, study and number; a hypothesis without numbers has one row."""
    rows = []
    for case in cases:
        row = {"Hypothesis": case.hypothesis, "on": titles.title(case.study)}
        missing = "; ".join(map(titles.in_label, (*case.missing, *case.absent))) or "–"
        whole = {"verdict": case.verdict + _so_far(case), "repetitions missing": missing}
        numbers = []
        for finding in case.findings:
            most = finding.estimate.attainable[1]  # on this data, where scores are near their end
            possible = f" (perfect score: {100 * most:+.1f} %)" if np.isfinite(most) else ""
            texts = value(case.hypothesis, finding.estimate) + possible, region(case.hypothesis, finding.region)
            numbers.append((finding.what, *texts, finding.verdict))
        heads = ("statistic", "value", "region", "this number")
        rows += [row | dict(zip(heads, texts, strict=True)) | whole for texts in numbers or ["––––"]]
    return pd.DataFrame(rows).set_index(["Hypothesis", "on"])


def _so_far(case: Judged) -> str:
    """The words " so far" where repetitions are missing that may still change a number, else nothing."""
    return " so far" if case.missing and case.verdict != measures.NOT_TESTED else ""


def finding_numbers(cases: Sequence[Judged]) -> pd.DataFrame:
    """The same as numbers, for the download."""
    rows = []
    for case in cases:
        missing = "; ".join((*case.missing, *case.absent))
        for one in case.findings:
            ours = one.estimate
            numbers = (ours.value, ours.low, ours.high, ours.how, one.region.low, one.region.high)
            rows.append((case.hypothesis, case.study, one.what, *numbers, one.verdict, case.verdict, missing))
    columns = ["hypothesis", "study", "statistic", "value", "low", "high", "interval", "region_low", "region_high"]
    columns += ["verdict_alone", "verdict", "missing"]
    return pd.DataFrame(rows, columns=columns).set_index("hypothesis")


def value(hypothesis: str, estimate: Estimate, alone: bool = False) -> str:
    """An estimate with its interval, or alone.

    >>> value("H1", Estimate(0.8, 0.4, 0.94, 12)), value("H3", Estimate(0.02, 0.01, 0.03, 3))
    ('0.80 [0.40, 0.94]', '+2.0 % [+1.0, +3.0]')
    >>> value("H5", Estimate(12, float("nan"), float("nan"), 91))
    '12 of 91'
    """
    if np.isnan(estimate.low):
        return f"{estimate.value:.0f} of {estimate.n}"
    unit, form = POINTS.get(hypothesis, ("", ".2f"))
    ends = {} if alone else {"low": estimate.low, "high": estimate.high}
    return labels.number(estimate.value, form=form, unit=unit, **ends)


def region(hypothesis: str, wanted: Bounds) -> str:
    """The region in which the hypothesis wants its statistic, in words.

    >>> region("H1", Bounds(low=0.53)), region("H3", Bounds(high=0.05)), region("H8", Bounds(0, 0))
    ('above 0.53', 'at most 5 %', 'the interval contains 0')
    >>> region("H4", Bounds(low=2)), region("H9", Bounds(high=1))
    ('at least 2', 'below 1')
    """
    if wanted.low == wanted.high:
        return "the interval contains 0"
    unit, scale = (" %", 100) if hypothesis in POINTS else ("", 1)
    low, high = ("above", "below") if hypothesis in WITHOUT_ITS_END else ("at least", "at most")
    if np.isfinite(wanted.low):
        return f"{low} {scale * wanted.low:g}{unit}"
    return f"{high} {scale * wanted.high:g}{unit}"


def beside_cells(names: Sequence[str] = (measures.CUB, measures.CARS, measures.GROCERY)) -> pd.DataFrame:
    """Numbers that the preregistration shows beside the hypotheses and on which no verdict depends: one row each."""
    judged_on = {hypothesis.number: hypothesis.studies for hypothesis in measures.HYPOTHESES}
    rows = [
        {"Hypothesis": hypothesis, "on": titles.title(name), "what": what, "value": text}
        for name in names
        for hypothesis, what, text in _beside(name)
        if name in judged_on[hypothesis]
    ]
    table = pd.DataFrame(rows, columns=["Hypothesis", "on", "what", "value"])
    return table.sort_values("Hypothesis", kind="stable").set_index(["Hypothesis", "on"])


def _beside(study: str) -> Iterator[tuple[str, str, str]]:
    for name, estimate in measures.redrawn_correlations(study).items():
        yield "H1", f"rank correlation, our scores redrawn with their errors: {name}", value("H1", estimate)
    pairs = measures.equality(study)
    if pairs is None:
        return
    for hypothesis, (scores, lucky) in measures.ranges(study).items():
        ranges = map(labels.percent, np.ptp(scores, axis=0))
        yield hypothesis, "the two ranges of the ratio, points", " and ".join(ranges)
        yield hypothesis, "the same by noise alone, points", " and ".join(map(labels.percent, lucky))
    if pairs["p_welch"].notna().any():
        differ = int((holm(pairs["p_welch"]) < 1 - LEVEL).sum())
        yield "H5", "pairs that differ by Welch's tests, Holm's correction", f"{differ} of {len(pairs)}"
    yield "H5", "pairs that are equal within a point", f"{pairs['equal'].sum()} of {len(pairs)}"
    yield "H5", "pairs that are equal within half a point", f"{pairs['equal_within_half'].sum()} of {len(pairs)}"
    states = measures.counted_records(study).records.trials["state"]
    yield "H6", "trials that diverged, and are left out", f"{(states == 'diverged').sum()} of {len(states):,}"
    same = pairs[pairs["a"].isin(SAME) & pairs["b"].isin(SAME)]["equal"]
    if len(same):
        yield "H8", "equal within a point", "yes" if same.iloc[0] else "not shown"


# The numbers of the text


def numbers() -> dict[str, float | str]:
    """The numbers behind the page's text, by data set: its verdicts -> hypotheses, and the findings with intervals.

    value, low, high, n: of a first finding; most: that can be gained; fractions in percent. under, luck: the range
    under the line of a ratio and by noise alone, points; relative: the ratio of the ranges over their means.
    """
    named: dict[str, float | str] = {}
    for case in measures.judged_hypotheses():
        data = studies.get(case.study).dataset
        verdicts = measures.KEPT, measures.NOT_KEPT, measures.OPEN
        named |= {f"{data}.{verdict}": named.get(f"{data}.{verdict}", "") for verdict in verdicts}
        earlier = named.get(f"{data}.{case.verdict}")
        named[f"{data}.{case.verdict}"] = f"{earlier}, {case.hypothesis}" if earlier else case.hypothesis
        for first in case.findings[:1]:
            scale, key = 100 if case.hypothesis in POINTS else 1, f"{case.hypothesis}.{data}"
            named |= {f"{key}.{name}": scale * getattr(first.estimate, name) for name in ("value", "low", "high")}
            named |= {f"{key}.most": scale * first.estimate.attainable[1], f"{key}.n": first.estimate.n}
    for name in (measures.CUB, measures.CARS):
        for hypothesis, (scores, lucky) in measures.ranges(name).items():
            over, under = np.ptp(scores, axis=0) / scores.mean(axis=0)
            key = f"{hypothesis}.{studies.get(name).dataset}"
            named |= {f"{key}.under": 100 * np.ptp(scores[:, 1]), f"{key}.luck": 100 * lucky[1]}
            named[f"{key}.relative"] = over / under
    return named
