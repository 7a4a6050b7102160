"""Grids of learning rates: numbers and cells. Everything here is of validation classes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from dmlrc import papers, records, studies
from dmlrc.records import StudyRecords
from dmlrc.report import labels, statistics, tables, titles
from dmlrc.report.statistics import Estimate
from dmlrc.report.tables import ordered
from dmlrc.studies import experiments, tuned
from dmlrc.studies.catalogue import DEPTHS, MOBILENETS

PEAK_CELLS = {
    "in_use": ("rate in use", labels.rate),
    "best": ("best of the grid", lambda rate: "no grid" if np.isnan(rate) else labels.rate(rate)),
    "one_lower": "one lower",
    "at_best": "at the best",
    "one_higher": "one higher",
}
"""`of_papers` as printed (`labels.cells`): MAP@R in percent."""
EMBEDDER_CELLS = {
    "rate": ("rate of the embedder", labels.rate),
    "mean": "mean",
    "range": "range",
    ("rate", "of_trunk", "turned", "pairs"): (
        "pairs that change places",
        lambda rate, of_trunk, *turned: "–" if rate == of_trunk else "{} of {}".format(*turned),
    ),
}
"""`of_embedders` as printed."""
_RECORDED = ("test_metrics", "val_metrics", "train_metrics", "binary", "arrays", "per_class")
_APART = {"name", "lr", "patience", "max_epochs", "iterations_per_epoch", *_RECORDED}
"""Settings in which a study may differ from its grid: the rate, when a run ends, and what is recorded of it."""


def grid_of(study: StudyRecords) -> StudyRecords | None:
    """The grid of rates on a study's data set, for its protocol at any rate and length; None where none was run."""
    own = _compared(study.meta["protocol"])
    for other in studies.STUDIES.values():
        whole = all(method.level is not None for method in other.methods)
        is_grid = other.kind == other.experiment == "rates" and whole
        if is_grid and other.dataset == study.meta["dataset"] and _compared(asdict(other.protocol)) == own:
            return records.find(other.name)
    return None


def _compared(protocol: Mapping) -> str:
    return json.dumps({name: value for name, value in protocol.items() if name not in _APART}, sort_keys=True)


def recorded_grids(edition: Sequence[StudyRecords]) -> dict[str, StudyRecords]:
    """The grids of an edition's studies that are recorded with two rates and methods at least, by the study's title."""
    grids = {titles.title(study.name): grid_of(study) for study in edition}
    return {title: grid for title, grid in grids.items() if grid and min(best_trials(grid).shape) > 1}


@records.derived_once(lambda grid: grid)
def best_trials(grid: StudyRecords) -> pd.DataFrame:
    """Validation MAP@R of each method's best trial: a row a rate that all have finished, a column a method."""
    trials = grid.trials[grid.trials["state"] == "complete"]
    wide = trials.pivot_table(index="level_number", columns="row", values="value", aggfunc="max")
    counts = grid.trials.pivot_table(index="level_number", columns="row", values="trial", aggfunc="count")
    whole = (counts >= grid.meta["budget"]["trials"]).reindex(columns=wide.columns).all(axis=1)
    return wide[whole].rename_axis("rate").rename_axis(None, axis=1)


def rate_means(best: pd.DataFrame) -> pd.Series:
    """The mean over the methods at each rate, from the lowest; NaN where one diverged, which rules the rate out."""
    return best.mean(axis=1, skipna=False).sort_index()


def best_rate(best: pd.DataFrame) -> float:
    """The rate with the highest mean in `best_trials`, of those at which no method diverged; NaN for no rates."""
    scores = rate_means(best).fillna(-1)  # the lowest rate, where losses diverged at every one
    return float(scores.idxmax()) if len(scores) else float("nan")


def chosen_rate(grid: StudyRecords) -> float | None:
    """The rate with the highest mean, if a worse one stands on either side of it; else None."""
    best = best_trials(grid)
    rate = best_rate(best)
    return rate if best.index.min() < rate < best.index.max() else None


def grid_cells(grid: StudyRecords) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Cells, percent, and marks of a grid: bold the best rates; cut off: of runs that ended at the limit of epochs."""
    best = best_trials(grid).sort_index(ascending=False)
    table = best[ordered(best.columns)].assign(mean=rate_means(best))
    runs = grid.runs.groupby("level_number")
    cut_off = runs["stopped"].agg(lambda stopped: f"{100 * (stopped == 'limit').mean():.0f} %")
    texts = table.map(labels.percent).assign(range=(best.max(axis=1) - best.min(axis=1)).map(labels.percent))
    texts = texts.assign(steps=runs["steps"].mean().map("{:,.0f}".format), **{"cut off": cut_off})
    marks = table.eq(table.max()).replace({True: "best", False: ""}).reindex(columns=texts.columns, fill_value="")
    names = texts.columns.map(labels.method_label)
    return tuple(frame.set_axis(names, axis=1).rename(labels.rate).rename_axis("Rate") for frame in (texts, marks))


def of_papers(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The rates of the other papers' experiments beside their neighbours, on validation classes.

    One row per study and paper whose experiments are recorded around it. Columns: study, paper (its key), in_use; best,
    at_best, one_lower, one_higher: the best rate of the grid around this study, and the mean over the methods of
    validation MAP@R there and at the next rates that were tried, NaN where there is none.
    """
    rows = []
    for main in edition:
        for paper in papers.ALL:
            if (around := experiments.load_experiment(main.name, paper.key)) is not None:
                row = {"study": main.name, "paper": paper.key, "in_use": around.meta["protocol"]["lr"]}
                rows.append(row | _peak(records.find(f"{main.name}/{paper.key}/rates")))
    return pd.DataFrame(rows, columns=["study", "paper", "in_use", *_peak(None)])


def of_depths() -> pd.DataFrame:
    """The rate of each depth of training beside its neighbours: the columns of `of_papers` but the paper.

    One row per study whose grid is recorded whole: the best rate of any other may still be to come.
    """
    grids = {name: records.find(f"{name}/rates") for name in (*DEPTHS, *MOBILENETS)}
    rows = [
        {"study": name, "in_use": studies.STUDIES[name].protocol.lr} | _peak(grid)
        for name, grid in grids.items()
        if grid is not None and _is_whole(grid)
    ]
    return pd.DataFrame(rows, columns=["study", "in_use", *_peak(None)])


def of_embedders() -> pd.DataFrame:
    """The effect of a rate of its own for the embedder beside the last block, on validation classes.

    One row per study and rate of the embedder, the trunk's among them, where both grids are recorded. Columns: study,
    of_trunk (its rate), rate, mean and range of the methods' validation MAP@R; turned: how many pairs of methods stand
    in another order than at the shared rate, of pairs.
    """
    rows = []
    for name in DEPTHS:
        shared, own = (records.find(f"{name}/{which}") for which in ("rates", "embedder-rates"))
        if shared is None or own is None or not (_is_whole(shared) and _is_whole(own)):
            continue
        of_trunk = studies.STUDIES[name].protocol.lr
        both = pd.concat([best_trials(shared).loc[[of_trunk]], best_trials(own)]).sort_index()
        for rate, mean in rate_means(both).items():
            scores = both.loc[rate]
            changed, pairs = statistics.discordant_pairs(both.loc[of_trunk], scores)
            row = {"study": name, "of_trunk": of_trunk, "rate": rate, "mean": mean, "range": np.ptp(scores)}
            rows.append(row | {"turned": changed, "pairs": pairs})
    return pd.DataFrame(rows, columns=["study", "of_trunk", "rate", "mean", "range", "turned", "pairs"])


def of_embedders_cells(rates: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`of_embedders` as cells and marks; in bold the best rate of each study."""
    heads = "Study", ("rate of the trunk", labels.rate)
    cells = labels.cells(rates.set_index(["study", "of_trunk"]), EMBEDDER_CELLS, index=heads)
    return cells, _bold(cells, "mean", rates["mean"] == rates.groupby("study")["mean"].transform("max"))


def _bold(cells: pd.DataFrame, column: str, which: pd.Series) -> pd.DataFrame:
    """Marks: the cells of a column that are bold."""
    marks = pd.DataFrame("", cells.index, cells.columns)
    return marks.assign(**{column: np.where(which, "best", "")})


def _is_whole(grid: StudyRecords) -> bool:
    """True if every rate of a grid is finished."""
    return len(best_trials(grid)) == len({method.level for method in studies.STUDIES[grid.name].methods})


def _peak(grid: StudyRecords | None) -> dict[str, float]:
    """The best rate and the mean at it and at its neighbours; NaN where there is no grid."""
    best = best_trials(grid) if grid else pd.DataFrame()
    rate, scores = best_rate(best), rate_means(best)
    lower, higher = scores[scores.index < rate].iloc[-1:], scores[scores.index > rate].iloc[:1]
    peak = {"best": rate, "at_best": scores.get(rate, float("nan"))}
    return peak | {"one_lower": lower.sum(min_count=1), "one_higher": higher.sum(min_count=1)}


def peak_cells(peaks: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`of_papers` or `of_depths` as cells and marks; bold: the rate is the best of its grid."""
    rows = {"study": "Data set", "paper": "Experiments of"} if "paper" in peaks else {"study": "Study"}
    cells = labels.cells(peaks.set_index(list(rows)), PEAK_CELLS, index=list(rows.values()))
    return cells, _bold(cells, "rate in use", peaks["in_use"] == peaks["best"])


def inside(peaks: pd.DataFrame) -> pd.Series:
    """True where the rate in use is the best of its grid, with worse ones on both sides. peaks: `of_papers`."""
    return peaks["in_use"].eq(peaks["best"]) & peaks[["one_lower", "one_higher"]].notna().all(axis=1)


def rate_of_settings(grid: StudyRecords) -> float:
    """The rate of the study whose searches found the settings with which a grid compares methods."""
    settings = tuned.grid_settings(grid.meta["dataset"])
    name = next(name for name, searched in tuned.SEARCHED_ON.items() if searched is settings)
    return studies.get(name).protocol.lr


def turned_at(best: pd.DataFrame, rate: float, luck: float) -> tuple[int, int, Estimate]:
    """Count pairs of losses in another order at a rate than at the best one, all pairs, and those turned by noise.

    best: `best_trials`. luck: `seed_luck`, since the settings are the same at all rates, so only the seed is noise; NaN
    gives NaN.
    """
    there, here = best.loc[[best_rate(best), rate]].dropna(axis=1).to_numpy()
    lucky = statistics.expected_discordant_pairs(there, *(luck * scores.mean() for scores in (there, here)))
    return *statistics.discordant_pairs(here, there), lucky


def seed_luck(study: StudyRecords) -> float:
    """The standard deviation that the seed gives a method's validation score, as a share of it; NaN if not known.

    Of the mean over the folds, as a grid has it, between the reruns of one search.
    """
    runs = tables.rerun_runs(study).rename(columns={"number": "rerun", "val_map_at_r": "value"})
    scores = runs.groupby(["method", "repetition", "rerun"])["value"].mean().reset_index()
    if scores.empty:
        return float("nan")
    return float(np.sqrt(statistics.noise(statistics.as_array(scores)[1]).seed) / scores["value"].mean())
