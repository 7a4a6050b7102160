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
    whole = [each for each in found for _ in each.findings or (None,)]
    beside = {
        "verdict": [each.verdict + _hangs_on(each) for each in whole],
        "luck alone could make the range of": [", ".join(map(titles.title, each.by_luck)) or "–" for each in whole],
        "methods, reruns": [f"{each.methods}, {each.reruns}" for each in whole],
        "found with a power of 80 %": [_power(each) for each in whole],
        "kind": [KINDS[each.study == CUB] for each in whole],
    }
    table = page.cells(found).drop(columns="repetitions missing").assign(**beside)
    return table.rename(index={number: f"{number}. {claim}" for number, claim in SENTENCES.items()}, level=0)


def _hangs_on(each: Whole) -> str:
    """The methods without which the verdict would be another, which stand with it wherever it does."""
    if not each.turning or each.verdict == NO_VERDICT:
        return ""
    return f", which hangs on {labels.listed(map(labels.method_label, each.turning))}"


def _power(each: Whole) -> str:
    """From which true values a verdict is found in four of five studies."""
    ends = zip(("kept: at most", "not kept: at least"), each.told, strict=True)
    percent = each.hypothesis in page.POINTS
    return "; ".join(
        f"{what} {'–' if np.isnan(end) else f'{100 * end:.1f} %' if percent else f'{end:.2f}'}" for what, end in ends
    )


def beside_cells(found: Sequence[Whole]) -> pd.DataFrame:
    """What stands beside the verdicts and has none: other gains, and how many omissions would change a verdict."""
    rows = {}
    for each in found:
        key = each.hypothesis, titles.title(each.study)
        rows |= {(*key, what): page.value(each.hypothesis, other) for what, other in each.beside.items()}
        if each.without:
            what = "omissions of a method that would change the verdict"
            rows[*key, what] = f"{len(each.turning)} of {len(each.without)}"
    index = pd.MultiIndex.from_tuples(rows, names=["Hypothesis", "on", "what"])
    return pd.DataFrame({"value": list(rows.values())}, index)


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
    return pd.DataFrame(rows).set_index("hypothesis") if rows else pd.DataFrame()


def omission_cells(found: Sequence[Whole]) -> pd.DataFrame:
    """The same as printed: a row a data set and method."""
    rows = {
        (titles.title(each.study), labels.method_label(name)): {
            "ratio": page.value(each.hypothesis, finding.found),
            "verdict": finding.verdict,
        }
        for each in found
        for name, finding in each.without.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["on", "Without"])
