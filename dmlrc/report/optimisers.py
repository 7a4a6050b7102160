"""Optimisers of hyperparameters on the recorded searches, and what it saves to end poor trials early.

Measured by `benchmarks.hpo`. A problem is a method of a study; intervals are over problems, or over searches.
"""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from dmlrc.report import charts, common, labels, style
from dmlrc.report.speed import MEASUREMENTS
from dmlrc.report.statistics import half_width, of_groups

GP = "gp"
LOOKS = {
    "random": ("random", style.GREY, "o"),
    "cma-es": ("CMA-ES", style.ORANGE, "s"),
    "tpe4": ("TPE, Optuna 4", style.SKY, "v"),
    "tpe5": ("TPE, Optuna 5", style.BLUE, "^"),
    GP: ("Gaussian process", style.GREEN, "D"),
}
"""Of each sampler its label, colour and mark."""
EVALUATIONS = (10, 25, 50)


def regrets() -> dict[str, pd.DataFrame]:
    """The shortfall of the best evaluation from the ceiling of its problem, in MAP@R (fractions), mean of ten seeds.

    Of all problems, and of those with the Gaussian process. Rows: study, method; columns: evaluations, sampler.
    """
    runs, problem = pd.read_csv(MEASUREMENTS / "hpo.csv"), ["study", "method"]
    best = runs.pivot(index=problem, columns="sampler", values=[f"best_{number}" for number in EVALUATIONS])
    best = best.rename(columns={f"best_{number}": number for number in EVALUATIONS})
    below = best.rsub(runs.groupby(problem)["ceiling"].max(), axis=0)
    return {"all": below.drop(columns=GP, level="sampler").dropna(), "with the Gaussian process": below.dropna()}


def halving() -> pd.DataFrame:
    """A row a recorded search and factor (`benchmarks.hpo.halved`): saved (a share), lost (MAP@R), kept (0 or 1)."""
    runs = pd.read_csv(MEASUREMENTS / "halving.csv", dtype={"commit": str})
    return runs.assign(kept=(runs["lost"] == 0).astype(float))


def regret_means(below: pd.DataFrame) -> pd.DataFrame:
    """The mean, ci95 and n of one of `regrets`: rows sampler and evaluations."""
    long = below.melt(var_name=["evaluations", "sampler"], value_name="regret")
    return of_groups(long.groupby(["sampler", "evaluations"])["regret"])


def regret_cells(by_heading: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """`regrets` as cells, in points of MAP@R: a row a sampler."""
    columns = {}
    for heading, below in by_heading.items():
        texts = regret_means(below).apply(lambda row: labels.score(row["mean"], row["ci95"]), axis=1).unstack()
        columns |= {(f"{heading} ({len(below)})", f"after {number}"): texts[number] for number in EVALUATIONS}
    cells = pd.DataFrame(columns).reindex(list(LOOKS)).fillna("–")
    return cells.set_axis([label for label, *_ in LOOKS.values()]).rename_axis("Sampler")


def regret_figure(below: pd.DataFrame) -> Figure:
    """Mean regret against evaluations, both logarithmic, a line a sampler; below: one of `regrets`."""
    figure, axis = charts.panel(3.2, xlabel="evaluations", ylabel="regret, points of MAP@R")
    rows = regret_means(below)
    for place, name in enumerate(name for name in LOOKS if name in rows.index):
        (label, colour, marker), part = LOOKS[name], rows.loc[name]
        beside = part.index * 1.02 ** (place - 2)  # so that the intervals do not overlap
        common.errorbars(axis, beside, part, color=colour, marker=marker, markersize=4, label=label)
    axis.set(xscale="log", yscale="log")
    axis.set_xticks(EVALUATIONS, EVALUATIONS)
    axis.set_yticks((0.2, 0.5, 1), (0.2, 0.5, 1))
    axis.minorticks_off()
    axis.legend(fontsize=8, loc="lower left")
    return figure


def halving_cells(runs: pd.DataFrame) -> pd.DataFrame:
    """`halving` as cells: a row a factor."""
    columns = {
        "training saved, %": ("saved", ".0%"),
        "MAP@R lost, points": ("lost", ".3%"),
        "best trial kept, %": ("kept", ".0%"),
    }
    cells = {}
    for heading, (name, form) in columns.items():
        rows = of_groups(runs.groupby("factor")[name]).itertuples()
        cells[heading] = {f"best of {row.Index}": labels.number(row.mean, row.ci95, form=form) for row in rows}
    return pd.DataFrame(cells).rename_axis("Goes on")


def numbers() -> dict[str, float]:
    """The numbers behind the page's text, in points and percent.

    all.problems: how many; all.tpe5.50: the mean regret after 50 evaluations; all.tpe5.50.gain: how much less it is
    than that of random search, with gain_ci95. gp.: of the problems with a Gaussian process. newer: how much less
    regret TPE's newer defaults have than the old after 50. searches: how many are recorded. saved.3, lost.3, kept.3: of
    ending all trials but the best of three.
    """
    ended, after = halving(), 100 * regrets()["all"][50]
    newer = after["tpe4"] - after["tpe5"]
    named = {"newer": newer.mean(), "newer_ci95": half_width(newer)}
    named["searches"] = len(ended) // ended["factor"].nunique()
    for key, below in zip(("all", GP), regrets().values(), strict=True):
        named[f"{key}.problems"] = len(below)
        for number, name in below:
            one, behind = f"{key}.{name}.{number}", below[number]["random"] - below[number][name]
            named |= {one: 100 * below[number][name].mean(), f"{one}.gain": 100 * behind.mean()}
            named[f"{one}.gain_ci95"] = 100 * half_width(behind)
    by_factor = 100 * ended.groupby("factor")[["saved", "lost", "kept"]].mean()
    return named | {f"{name}.{factor}": by_factor[name][factor] for factor in by_factor.index for name in by_factor}
