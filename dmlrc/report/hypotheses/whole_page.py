"""H10 and H11 as their section prints them, where their studies are finished: cells beside those of H1 to H9."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dmlrc.report import labels, titles
from dmlrc.report.hypotheses import page
from dmlrc.report.hypotheses.measures import CUB
from dmlrc.report.hypotheses.whole import NO_VERDICT, SENTENCES, Whole

KINDS = {True: "preregistered, not confirmatory", False: "exploratory"}
"""What the preregistration calls the two hypotheses on CUB-200 (2010), and elsewhere."""


def cells(found: Sequence[Whole]) -> pd.DataFrame:
    """The cells of `page.cells`, with what the preregistration wants said wherever a verdict stands."""
    table = page.cells(found).drop(columns="repetitions missing")
    whole = [each for each in found for _ in each.findings or (None,)]
    table["verdict"] = [f"{each.verdict}{_by_luck(each)}{_hangs_on(each)}" for each in whole]
    table["methods, reruns"] = [f"{each.methods}, {each.reruns}" for each in whole]
    table["found with a power of 80 %"] = [_power(each) for each in whole]
    table["kind"] = [KINDS[each.study == CUB] for each in whole]
    return table.rename(index={number: f"{number}. {claim}" for number, claim in SENTENCES.items()}, level=0)


def beside_cells(found: Sequence[Whole]) -> pd.DataFrame:
    """What stands beside the verdicts and has none: other gains, and how many omissions would change a verdict."""
    rows = [(each, what, page.value(each.hypothesis, other)) for each in found for what, other in each.beside.items()]
    rows += [
        (each, "omissions of a method that would change the verdict", f"{len(each.turning)} of {len(each.without)}")
        for each in found
        if each.without
    ]
    told = [
        {"Hypothesis": each.hypothesis, "on": titles.title(each.study), "what": what, "value": text}
        for each, what, text in rows
    ]
    return pd.DataFrame(told, columns=["Hypothesis", "on", "what", "value"]).set_index(["Hypothesis", "on"])


def _by_luck(each: Whole) -> str:
    """The range that noise alone could make."""
    names = dict(zip(each.on, ("with everything trained", "with the embedder alone"), strict=False))
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


def _power(each: Whole) -> str:
    """From which true values a verdict is found in four of five studies."""
    ends = zip(("kept: at most", "not kept: at least"), each.told, strict=True)
    percent = each.hypothesis in page.POINTS
    return "; ".join(
        f"{what} {'–' if np.isnan(end) else f'{100 * end:.1f} %' if percent else f'{end:.2f}'}" for what, end in ends
    )


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
