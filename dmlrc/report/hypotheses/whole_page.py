"""H10 and H11 as their section prints them: sentences with their numbers, and cells beside those of H1 to H9."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dmlrc.report import labels, titles
from dmlrc.report.hypotheses import page
from dmlrc.report.hypotheses.measures import CUB, NOT_TESTED
from dmlrc.report.hypotheses.whole import NO_VERDICT, NOT_RUN, SENTENCES, Whole

KINDS = {True: "preregistered, not confirmatory", False: "exploratory"}
"""What the preregistration calls the two hypotheses on CUB-200 (2010), and elsewhere."""


def summary(found: Sequence[Whole]) -> str:
    """The verdicts on both hypotheses in a sentence, for the head of the chapter."""
    run = [each for each in found if each.verdict != NOT_RUN]
    if not run:
        return "H10 and H11, on whole networks: not run."
    told = [
        f"{each.hypothesis} on {titles.title(each.study)} ({KINDS[each.study == CUB]}): {each.verdict}" for each in run
    ]
    return f"On whole networks: {'; '.join(told)}."


def sentences(found: Sequence[Whole]) -> str:
    """A paragraph a hypothesis, with its verdicts, what stands beside them, and what could be told at all."""
    parts = []
    for number, claim in SENTENCES.items():
        told = [_told(each) for each in found if each.hypothesis == number and each.verdict != NOT_RUN]
        names = labels.listed(
            titles.title(each.study) for each in found if each.hypothesis == number and each.verdict == NOT_RUN
        )
        waiting = [f"Not run on {names}: its studies are not complete."] if names else []
        parts.append(f"**{number}. {claim}** {' '.join([*told, *waiting])}")
    return "\n\n".join(parts)


def _told(each: Whole) -> str:
    if each.verdict == NOT_TESTED:
        return f"{titles.title(each.study)}: not tested, since no luck of search is known there or methods are missing."
    decides, seeds = (page.value(each.hypothesis, finding.found) for finding in each.findings)
    wanted = page.region(each.hypothesis, each.findings[0].region)
    said = f"{titles.title(each.study)}, {KINDS[each.study == CUB]}: {each.verdict}{_by_luck(each)}{_hangs_on(each)}. "
    said += (
        f"Over {each.methods} methods, with at least {each.reruns} reruns of each, the number is {decides}, expected "
    )
    said += f"{wanted}; by seeds alone, which decides nothing, {seeds}. "
    return said + " ".join(filter(None, (_omissions(each), _beside(each), _power(each))))


def _by_luck(each: Whole) -> str:
    names = {each.on[0]: "with everything trained", each.on[1]: "with the embedder alone"}
    lucky = labels.listed(names[name] for name in each.by_luck)
    return f", since luck alone could make the range {lucky}" if lucky else ""


def _hangs_on(each: Whole) -> str:
    """The methods on which the verdict hangs, or how many of them."""
    if not each.turning or each.verdict == NO_VERDICT:
        return ""
    if len(each.turning) > 3:
        return f", which hangs on each of {len(each.turning)} methods"
    verdicts = {name: each.without[name].verdict for name in each.turning}
    named = labels.listed(f"{labels.method_label(name)} (without it: {verdict})" for name, verdict in verdicts.items())
    return f", which hangs on {named}"


def _omissions(each: Whole) -> str:
    """Between what the number lies without each method in turn."""
    if not each.without:
        return ""
    values = pd.Series({name: finding.found.value for name, finding in each.without.items()})
    ends = [
        f"{page.value(each.hypothesis, each.without[name].found)} (without {labels.method_label(name)})"
        for name in (values.idxmin(), values.idxmax())
    ]
    return (
        f"With each method left out in turn it lies between {ends[0]} and {ends[1]}, and {len(each.turning) or 'none'} "
        f"of {len(each.without)} omissions would change the verdict."
    )


def _beside(each: Whole) -> str:
    told = [f"{what} {page.value(each.hypothesis, found)}" for what, found in each.beside.items()]
    return f"Beside it, without a verdict: {labels.listed(told)}." if told else ""


def _power(each: Whole) -> str:
    """From which true values a verdict is found in four of five studies."""
    percent = each.hypothesis in page.POINTS
    low, high = (f"{100 * end:.1f} %" if percent else f"{end:.2f}" for end in each.told)
    kept = "no true value would be" if np.isnan(each.told[0]) else f"a true value of at most {low} is"
    lost = "none would be" if np.isnan(each.told[1]) else f"one of at least {high} is"
    return f"With a power of 80 % {kept} found *kept*, and {lost} found *not kept*."


def omissions(found: Sequence[Whole]) -> pd.DataFrame:
    """The number, its interval and the verdict without each method in turn, a row a data set and method."""
    rows = [
        {
            "hypothesis": each.hypothesis,
            "study": each.study,
            "without": labels.method_label(name),
            "value": finding.found.value,
            "low": finding.found.low,
            "high": finding.found.high,
            "verdict": finding.verdict,
        }
        for each in found
        for name, finding in each.without.items()
    ]
    columns = ["hypothesis", "study", "without", "value", "low", "high", "verdict"]
    return pd.DataFrame(rows, columns=columns).set_index("hypothesis")


def omission_cells(found: Sequence[Whole]) -> pd.DataFrame:
    """The same as printed: a row a method, two columns a data set."""
    columns = {}
    for each in found:
        for name, finding in each.without.items():
            row = labels.method_label(name)
            columns.setdefault(titles.title(each.study), {})[row] = page.value(each.hypothesis, finding.found)
            columns.setdefault(f"{titles.title(each.study)}, verdict", {})[row] = finding.verdict
    return pd.DataFrame(columns).fillna("–").rename_axis("Without")
