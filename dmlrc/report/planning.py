"""The number of searches a study takes: the table and the curve of `dmlrc power` and of the chapter on differences."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from dmlrc import paths, records, studies
from dmlrc.errors import UsageError
from dmlrc.records import StudyRecords
from dmlrc.report import charts, console, labels, style, svg, tables
from dmlrc.report.power import ALL, BEST, MOST, PAIR, POWER, TESTS, Design
from dmlrc.report.significance import measures
from dmlrc.report.significance.measures import Comparison

RERUNS = (1, 3, 10)
"""Reruns of each search, for the columns of the table."""
SEARCHES = (2, 3, 4, 5, 7, 10, 15, 20, 30)
"""Of the curve."""
LOOKS = {
    PAIR: (style.BLUE, "o", "one pair"),
    BEST: (style.GREEN, "s", "against the best"),
    ALL: (style.ORANGE, "^", "all pairs, Holm's first step"),
}


def in_points(compared: Comparison) -> Design:
    """The study as it stands, in points of its measure."""
    design = measures.design(compared)
    return replace(design, search=100 * design.search, seed=100 * design.seed)


def hours(study: StudyRecords) -> tuple[float, float]:
    """The hours of a process that one search of all methods took, and one rerun of each, as recorded."""
    cost = tables.cost(study)[["search_seconds", "seconds"]].sum() / 3600
    return float(cost["search_seconds"]), float(cost["seconds"])


def design_of_study(name: str) -> tuple[Design, tuple[float, float]]:
    """A study's design and its `hours`. Raises UsageError where its searches were not repeated."""
    study = records.load(name)
    compared = measures.compare(study)
    if compared.luck != measures.OWN:
        raise UsageError(
            f"{name} has no test scores of repeated searches, so the noise of a search is not known: "
            "name another study, or give --search-sd and --seed-sd"
        )
    return in_points(compared), hours(study)


def of_numbers(search: float, seed: float, methods: int) -> Design:
    """The design of one's own numbers. Raises UsageError for what is no standard deviation."""
    for name, value in (("--search-sd", search), ("--seed-sd", seed)):
        if not 0 <= value <= 1e9:
            raise UsageError(f"{name} {value:g} is no standard deviation: give a number of 0 or more, up to 1e9")
    if search == seed == 0:
        raise UsageError("--search-sd and --seed-sd are both 0, so any difference is told: give those of your runs")
    return Design(search, seed, methods)


def asked(
    study: str | None, search: float | None, seed: float | None, methods: int | None
) -> tuple[Design, tuple[float, float] | None]:
    """The design that a command asks for, and its `hours` if they are known: of a study or of one's own numbers."""
    given = [value is not None for value in (search, seed)]
    if any(given) if study else not all(given):
        raise UsageError("name a study with --study, or give both --search-sd and --seed-sd")
    if not study:
        return of_numbers(search, seed, methods or 14), None
    design, (search_hours, rerun_hours) = design_of_study(studies.get(study).name)
    share = (methods or design.methods) / design.methods
    return replace(design, methods=methods or design.methods), (share * search_hours, share * rerun_hours)


def planning_lines(design: Design, difference: float, cost: tuple[float, float] | None) -> list[str]:
    """The searches that a difference takes by each test, as text. cost: `hours`, or None where nothing is recorded."""
    if not (math.isfinite(difference) and difference > 0):
        raise UsageError(f"--difference {difference:g} is no distance of two scores: give points above 0, as 0.5")
    heads = [f"{count} rerun{'s' * (count > 1)}" for count in RERUNS]
    cells = [
        (test, *(_searches(replace(design, reruns=count), difference, test, cost) for count in RERUNS))
        for test in TESTS
    ]
    unit = ", and the hours of one process for all methods" if cost else ""
    return [
        f"{design.methods} methods; standard deviation of search {design.search:.2g}, of seed {design.seed:.2g} points",
        f"Searches of each method that tell {difference:g} points in {100 * POWER:.0f} % of studies{unit}:",
        "",
        *console.columns([("test", *heads), *cells]),
        "",
        f"all pairs: {math.comb(design.methods, 2)}, the first and hardest step of Holm's correction",
        f"Told with searches: {design.searches}, reruns of each: {design.reruns}, by the same tests: "
        + "; ".join(f"{test} {design.least(test):.2g} points" for test in TESTS),
    ]


def _searches(design: Design, difference: float, test: str, cost: tuple[float, float] | None) -> str:
    count = design.searches_for(difference, test)
    if count is None:
        return f"over {MOST}"
    if cost is None:
        return str(count)
    return f"{count} ({count * (cost[0] + design.reruns * cost[1]):.0f} h)"


def curve(title: str, design: Design, difference: float | None = None) -> Figure:
    """The smallest difference detected in 80 % of studies, by the searches of a method, a line a test."""
    figure, axis = charts.panel(3.2, title, xlabel="searches of each loss", ylabel="detectable gap, points")
    for test, (colour, marker, label) in LOOKS.items():
        least = [replace(design, searches=count).least(test) for count in SEARCHES]
        [drawn] = axis.plot(SEARCHES, least, color=colour, marker=marker, markersize=4, label=label)
        tips = zip(SEARCHES, least, strict=True)
        svg.tips(drawn, "; ".join(f"{labels.plural(count, 'search')}: {points:.2f}" for count, points in tips))
    if difference:
        axis.axhline(difference, color="black", linewidth=0.8, linestyle="--")
    axis.set(xscale="log", yscale="log", xticks=SEARCHES, xticklabels=SEARCHES)
    axis.minorticks_off()
    axis.yaxis.set_major_formatter("{x:g}")
    low, high = axis.get_ylim()
    axis.set_yticks([tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if low <= tick <= high])
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return figure


def save_curve(design: Design, difference: float, file: Path) -> None:
    """Write the curve to a picture, of the kind that its name says."""
    figure = curve(f"detected in {100 * POWER:.0f} % of studies", design, difference)
    kinds = figure.canvas.get_supported_filetypes()
    if file.suffix.lstrip(".") not in kinds:
        raise UsageError(f"--plot {file}: no picture has such a name; end it on .png, .svg or .pdf")
    with paths.new_target(file) as new:
        figure.savefig(new)


# The chapter


def top_five(compared: Comparison) -> tuple[float, int | None] | None:
    """The fifth method's lead over the sixth, points, and the searches that one pair needs for it; None for fewer."""
    means = 100 * compared.summary["mean"].sort_values(ascending=False)
    if len(means) < 6:
        return None
    gap = float(means.iloc[4] - means.iloc[5])
    return gap, in_points(compared).searches_for(gap)


def planning_cells(compared: Mapping[str, tuple[Comparison, StudyRecords]]) -> pd.DataFrame:
    """Gaps that each study can detect, and the cost of more, as cells: a row per study. compared: by its title."""
    rows = {}
    for title, (comparison, study) in compared.items():
        design, (search, rerun) = in_points(comparison), hours(study)
        least = {f"detected: {LOOKS[test][2]}": f"{design.least(test):.2f}" for test in LOOKS}
        five = top_five(comparison)
        rows[title] = {
            "SD of search": f"{design.search:.2f}",
            "SD of seed": f"{design.seed:.2f}",
            **least,
            "fifth above sixth": f"{five[0]:.2f}" if five else "–",
            "searches needed": "–" if not five else str(five[1] or f"over {MOST}"),
            "hours of a search": f"{search + design.reruns * rerun:.1f}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Study")
