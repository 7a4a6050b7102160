"""Grids of learning rates: numbers, cells and sentences. Everything here is of validation classes."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from dmlrc import papers, records, studies
from dmlrc.protocol import TrunkInput
from dmlrc.records import StudyRecords
from dmlrc.report import labels, statistics, titles
from dmlrc.report.statistics import Estimate
from dmlrc.report.tables import METHODS, Methods, ordered
from dmlrc.studies import experiments, tuned
from dmlrc.studies.catalogue import DEPTHS


def grid_of(study: StudyRecords) -> StudyRecords | None:
    """The grid of rates on a study's data set and trunk, whole or in part; None where none was run."""
    for each in studies.STUDIES.values():
        whole = all(method.level is not None for method in each.methods)
        grids = each.kind == "rates" and each.experiment == "rates" and whole
        same = each.dataset == study.meta["dataset"] and all(
            getattr(each.protocol, name) == study.meta["protocol"][name] for name in TrunkInput._fields
        )
        if grids and same and each.protocol.paper == study.meta["protocol"]["paper"]:
            return records.find(each.name)
    return None


def embedder_grid_of(study: StudyRecords) -> StudyRecords | None:
    """The grid of the embedder's own rate beside a study's trunk; None where none was run."""
    return records.find(f"{study.name}-embedder-rates")


def recorded(edition: Sequence[StudyRecords]) -> dict[str, StudyRecords]:
    """The grids of an edition's studies that are recorded with two rates and methods at least, by the study's title."""
    grids = {titles.title(each.name): grid_of(each) for each in edition}
    return {title: grid for title, grid in grids.items() if grid and min(best_trials(grid).shape) > 1}


def best_trials(grid: StudyRecords) -> pd.DataFrame:
    """Validation MAP@R of each method, of its best trial if there are several: a row a rate, a column a method.

    Fractions. Only rates at which every method of the grid has finished all its trials.
    """
    trials = grid.trials[grid.trials["state"] == "complete"]
    wide = trials.pivot_table(index="level_number", columns="row", values="value", aggfunc="max")
    counts = grid.trials.pivot_table(index="level_number", columns="row", values="trial", aggfunc="count")
    whole = (counts >= grid.meta["budget"]["trials"]).reindex(columns=wide.columns).all(axis=1)
    return wide[whole].rename_axis("rate").rename_axis(None, axis=1)


def means(best: pd.DataFrame) -> pd.Series:
    """The mean over the methods at each rate, from the lowest; NaN where one diverged, which rules the rate out."""
    return best.mean(axis=1, skipna=False).sort_index()


def best_rate(best: pd.DataFrame) -> float:
    """The rate with the highest mean over the methods, of those at which none diverged; NaN without any.

    best: `best_trials`.
    """
    scores = means(best).fillna(-1)  # the lowest rate, where losses diverged at every one
    return float(scores.idxmax()) if len(scores) else float("nan")


def summary(grid: StudyRecords) -> pd.DataFrame:
    """A row a rate: mean and range of the methods' best trials, steps to the plateau, share cut off.

    steps: mean over all runs; cut_off: of the runs that ended at the limit of epochs.
    """
    best = best_trials(grid)
    runs = grid.runs.groupby("level_number")
    return pd.DataFrame(
        {
            "mean": means(best),
            "range": best.max(axis=1) - best.min(axis=1),
            "steps": runs["steps"].mean().reindex(best.index),
            "cut_off": runs["stopped"].agg(lambda stopped: (stopped == "limit").mean()).reindex(best.index),
        }
    )


def chosen_rate(grid: StudyRecords) -> float | None:
    """The rate with the highest mean, if a worse one stands on either side of it; else None."""
    best = best_trials(grid)
    rate = best_rate(best)
    return rate if best.index.min() < rate < best.index.max() else None


def cells(grid: StudyRecords, methods: Methods = METHODS) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The grid as cells and marks: percent, the best rate of each method and of the mean in bold."""
    best, told = best_trials(grid).sort_index(ascending=False), summary(grid)
    table = best[[name for name in ordered(best.columns, methods) if name in best]]
    table = table.assign(mean=told["mean"], range=told["range"])
    marks = table.eq(table.max()).replace({True: "best", False: ""})
    marks["range"] = ""
    texts = table.map(labels.percent).assign(
        steps=told["steps"].map("{:,.0f}".format),
        **{"cut off": told["cut_off"].map(lambda share: f"{100 * share:.0f} %")},
    )
    marks = marks.assign(steps="", **{"cut off": ""})
    names = {name: labels.method_label(name, methods) for name in best.columns}
    index = pd.Index([labels.rate(rate) for rate in table.index], name="Rate")
    return tuple(frame.set_axis(index).rename(columns=names) for frame in (texts, marks))


def of_papers(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """How the rates of the other papers' experiments compare with their neighbours, on validation classes.

    A row a study and a paper whose experiments are recorded around it. Columns: study, paper (its key), in_use; best,
    at_best, one_lower, one_higher: the best rate of the grid around this study, and the mean over the methods of
    validation MAP@R there and at the next rates that were tried, NaN where there is none.
    """
    rows = []
    for main in edition:
        for paper in papers.ALL:
            if (found := experiments.load(main.name, paper.key)) is not None:
                told = {"study": main.name, "paper": paper.key, "in_use": found.meta["protocol"]["lr"]}
                rows.append(told | _peak(records.find(f"{main.name}-{paper.key}-rates")))
    return pd.DataFrame(rows, columns=["study", "paper", "in_use", *_peak(None)])


def of_depths() -> pd.DataFrame:
    """How the rate of each depth of training compares with its neighbours: the columns of `of_papers` but the paper.

    A row a study whose grid is recorded whole: of one that is not, the best rate may still be to come.
    """
    grids = {name: records.find(f"{name}-rates") for name in DEPTHS}
    rows = [
        {"study": name, "in_use": studies.STUDIES[name].protocol.lr} | _peak(grid)
        for name, grid in grids.items()
        if grid is not None and _is_whole(grid)
    ]
    return pd.DataFrame(rows, columns=["study", "in_use", *_peak(None)])


def of_embedders() -> pd.DataFrame:
    """What a rate of its own does to the embedder beside the last block, on validation classes.

    A row a study and rate of the embedder, that of the trunk among them, where both grids are recorded. Columns: study,
    of_trunk (its rate), rate, mean and range of the methods' validation MAP@R; turned: how many pairs of methods stand
    in another order than at the shared rate, of pairs.
    """
    rows = []
    for name in DEPTHS:
        shared, own = (records.find(f"{name}-{which}") for which in ("rates", "embedder-rates"))
        if shared is None or own is None or not (_is_whole(shared) and _is_whole(own)):
            continue
        of_trunk = studies.STUDIES[name].protocol.lr
        both = pd.concat([best_trials(shared).loc[[of_trunk]], best_trials(own)]).sort_index()
        for rate, mean in means(both).items():
            scores = both.loc[rate]
            changed, pairs = statistics.turned(both.loc[of_trunk], scores)
            told = {"study": name, "of_trunk": of_trunk, "rate": rate, "mean": mean, "range": np.ptp(scores)}
            rows.append(told | {"turned": changed, "pairs": pairs})
    return pd.DataFrame(rows, columns=["study", "of_trunk", "rate", "mean", "range", "turned", "pairs"])


def of_embedders_cells(told: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`of_embedders` as cells and marks: MAP@R in percent; in bold the best rate of each study."""
    shared = told["rate"].eq(told["of_trunk"])
    keys = {"Study": told["study"].map(titles.title), "rate of the trunk": told["of_trunk"].map(labels.rate)}
    shown = {
        "rate of the embedder": told["rate"].map(labels.rate),
        "mean": told["mean"].map(labels.percent),
        "range": told["range"].map(labels.percent),
        "pairs that change places": (told["turned"].astype(str) + " of " + told["pairs"].astype(str)).mask(shared, "–"),
    }
    cells = told.assign(**keys, **shown).set_index(list(keys))[list(shown)]
    best = told["mean"].eq(told.groupby("study")["mean"].transform("max"))
    marks = pd.DataFrame("", cells.index, cells.columns)
    marks["mean"] = best.map({True: "best", False: ""}).to_numpy()
    return cells, marks


def _is_whole(grid: StudyRecords) -> bool:
    """Whether every rate of a grid is finished."""
    return len(best_trials(grid)) == len({method.level for method in studies.STUDIES[grid.name].methods})


def _peak(grid: StudyRecords | None) -> dict[str, float]:
    """The best rate and the mean at it and at its neighbours; NaN where there is no grid."""
    best = best_trials(grid) if grid else pd.DataFrame()
    rate, scores = best_rate(best), means(best)
    return {
        "best": rate,
        "at_best": scores.get(rate, float("nan")),
        "one_lower": scores[scores.index < rate].iloc[-1:].sum(min_count=1),
        "one_higher": scores[scores.index > rate].iloc[:1].sum(min_count=1),
    }


def of_papers_cells(told: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`of_papers` as cells and marks: MAP@R in percent; in bold the rate where it is the best of its grid."""
    named = {"Data set": told["study"].map(titles.title), "Experiments of": told["paper"].map(labels.paper)}
    return _peak_cells(told, named)


def of_depths_cells(told: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`of_depths` as cells and marks, as `of_papers_cells`."""
    return _peak_cells(told, {"Study": told["study"].map(titles.title)})


def _peak_cells(told: pd.DataFrame, named: Mapping[str, pd.Series]) -> tuple[pd.DataFrame, pd.DataFrame]:
    table = told.assign(
        **named,
        **{"rate in use": told["in_use"].map(labels.rate)},
        **{"best of the grid": told["best"].map(lambda rate: "no grid" if np.isnan(rate) else labels.rate(rate))},
        **{"at the best": told["at_best"], "one lower": told["one_lower"], "one higher": told["one_higher"]},
    ).set_index(list(named))
    numbers = ["one lower", "at the best", "one higher"]
    shown = table[["rate in use", "best of the grid"]].join(table[numbers].map(labels.percent).replace("", "–"))
    marks = pd.DataFrame("", shown.index, shown.columns)
    marks["rate in use"] = table["in_use"].eq(table["best"]).map({True: "best", False: ""})
    return shown, marks


def inside(told: pd.DataFrame) -> pd.Series:
    """Whether each rate in use is the best of its grid, with worse ones on both sides. told: `of_papers`."""
    return told["in_use"].eq(told["best"]) & told[["one_lower", "one_higher"]].notna().all(axis=1)


def settings_from(grid: StudyRecords) -> tuple[str, float]:
    """The study whose searches found the settings with which a grid compares methods, and the rate it had."""
    settings = tuned.of(grid.meta["dataset"])
    name = next(name for name, found in tuned.SEARCHED_ON.items() if found is settings)
    return name, studies.get(name).protocol.lr


class Turned(NamedTuple):
    """How far the order of a grid's losses at some rate is another one than at the best rate.

    pairs: in another order, of so many; lucky: how many of them another seed alone would turn.
    """

    pairs: int
    of: int
    lucky: Estimate


def turned_at(best: pd.DataFrame, rate: float, luck: float) -> Turned:
    """Of the losses that have a score at both rates. best: `best_trials`; luck: `seed_luck`.

    The settings are the same at all rates, so only the seed turns pairs by luck.
    """
    there, here = best.loc[[best_rate(best), rate]].dropna(axis=1).to_numpy()
    lucky = statistics.turned_by_luck(there, *(luck * each.mean() for each in (there, here)))
    return Turned(*statistics.turned(here, there), lucky)


def seed_luck(study: StudyRecords) -> float:
    """The standard deviation that the seed gives a method's validation score, as a share of it; NaN if not known.

    Of the mean over the folds, as a grid has it, between the reruns of one search.
    """
    reruns = study.runs[study.runs["kind"] == "rerun"].rename(columns={"number": "rerun", "val_map_at_r": "value"})
    scores = reruns.groupby(["method", "repetition", "rerun"])["value"].mean().reset_index()
    if scores.empty:
        return float("nan")
    return float(np.sqrt(statistics.noise(statistics.as_array(scores)[1]).seed) / scores["value"].mean())


def warning(edition: Sequence[StudyRecords]) -> str:
    """That the rankings of some studies stand at a rate that a grid does not choose; "" where none does."""
    made = {}
    for study in edition:
        grid = grid_of(study)
        best = chosen_rate(grid) if grid else None
        if best is not None and best != study.meta["protocol"]["lr"]:
            rate = labels.rate(study.meta["protocol"]["lr"])
            made[f"`{study.name}`"] = f"{rate} on {labels.dataset(study)} ({labels.rate(best)} is better)"
    if not made:
        return ""
    was, its = ("was", "its") if len(made) == 1 else ("were each", "their")
    return (
        f"**{labels.listed(made)} {was} trained at a learning rate that the validation classes would not have chosen, "
        f"so {its} rankings and verdicts are provisional.** All methods of a study share one rate: these runs had "
        f"{labels.listed(made.values())}. {{doc}}`08_what_moves_a_score` shows what a rate does to an order."
    )
