"""The claims, drawn: how far each statistic lies inside or outside the region where its sentence is true."""

import textwrap
from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib.figure import Figure

from dmlrc.report import charts, style, svg, titles
from dmlrc.report.claims.claim import Claim, Region
from dmlrc.report.claims.rule import Judgement
from dmlrc.report.claims.verdicts import Judged
from dmlrc.report.statistics import Estimate

FAR = 4.0
"""Where the axis ends, in half intervals; what lies further stands there."""
MOST_CLAIMS = 9
"""In one figure."""


def margin_in_region(region: Region, estimate: Estimate) -> float:
    """The distance of a statistic from the edge of its region (negative outside), in half widths of its interval.

    NaN without one. Above 1 the whole interval lies inside, below -1 outside.

    >>> margin_in_region(Region(low=0), Estimate(2.0, 1.0, 3.0, 9))
    2.0
    >>> margin_in_region(Region(-1, 1), Estimate(2.0, 1.5, 4.0, 9))
    -2.0
    """
    below, above = estimate.value - estimate.low, estimate.high - estimate.value
    if not below + above > 0:
        return float("nan")
    edges = ((estimate.value - region.low, below, above), (region.high - estimate.value, above, below))
    with np.errstate(divide="ignore"):
        return float(min(np.divide(gap, towards if gap > 0 else away) for gap, towards, away in edges))


def claims_figures(studies: Judged, claims: Sequence[Claim]) -> list[Figure]:
    """A claim that has an interval a line, a mark a study; several figures for many. Filled: the verdict is firm."""
    rows = []
    for claim in claims:
        given = {name: own[claim.id] for name, own in studies.items() if claim.id in own and own[claim.id].estimate}
        marks = {name: (margin_in_region(claim.region, one.estimate), one) for name, one in given.items()}
        if marks := {name: mark for name, mark in marks.items() if not np.isnan(mark[0])}:
            rows.append((claim, marks))
    looks = dict(zip(studies, cycle(style.GROUPS)))  # a study has one mark in all figures
    looks = {name: look for name, look in looks.items() if any(name in marks for _, marks in rows)}
    parts = np.array_split(range(len(rows)), -(-len(rows) // MOST_CLAIMS) or 1)
    return [_forest([rows[place] for place in part], looks) for part in parts if len(part)]


def _forest(rows: Sequence[tuple[Claim, dict]], looks: Mapping[str, style.Style]) -> Figure:
    figure, axis = charts.panel(1.1 + 0.5 * len(rows))
    for line, (claim, marks) in enumerate(rows):
        sentence = "\n".join(textwrap.wrap(claim.claim, 68, max_lines=2, placeholder=" …"))
        axis.text(-FAR - 0.4, line - 0.14, sentence, fontsize=8, va="bottom", linespacing=1.05)
        axis.fill_between([0, FAR + 0.4], line - 0.08, line + 0.3, color=style.GREEN, alpha=0.15, linewidth=0)
        for edge, dashes in ((-1, ":"), (0, "-"), (1, ":")):
            axis.vlines(edge, line - 0.08, line + 0.3, color="black", linewidth=0.8, linestyle=dashes)
        for name, (place, judgement) in marks.items():
            look = looks[name]
            face = look.colour if judgement.settled else "white"
            shift = min(0.1, 0.3 / len(looks)) * (list(looks).index(name) - (len(looks) - 1) / 2)  # all within the band
            where = (np.clip(place, -FAR, FAR), line + 0.11 + shift)
            (dot,) = axis.plot(*where, look.marker, color=look.colour, markerfacecolor=face, markersize=5)
            svg.tips(dot, _tip(claim, name, judgement))
    axis.set(xlim=(-FAR - 0.4, FAR + 0.4), ylim=(len(rows) - 0.5, -0.75), yticks=[])
    ticks = {-FAR: f"−{FAR:.0f} or less", -1: "−1", 0: "0", 1: "1", FAR: f"{FAR:.0f} or more"}
    axis.set_xticks(list(ticks), ticks.values())
    axis.set_xlabel("half intervals inside the region of the claim (shaded)")
    axis.grid(False)
    axis.spines[["left", "right", "top"]].set_visible(False)
    for name, look in looks.items():
        axis.plot([], [], look.marker, color=look.colour, markersize=5, label=titles.title(name))
    figure.legend(loc="outside upper center", ncols=2, fontsize=8)
    return figure


def _tip(claim: Claim, study: str, judgement: Judgement) -> str:
    estimate, unit = judgement.estimate, claim.unit
    low, high = (unit.text(limit) for limit in (estimate.low, estimate.high))
    why = f" ({judgement.why})" if judgement.why else ""
    return (
        f"{claim.claim} {titles.title(study)}: {unit.text(estimate.value)}{unit.name} [{low}, {high}]; region: "
        f"{claim.region.text(unit)}; {judgement.verdict}{why}"
    )
