"""Numbers of the chapter on the protocol: how searches and runs ended, the shared rate, and poor settings."""

from collections.abc import Sequence

from dmlrc.records import StudyRecords
from dmlrc.report import prose, published, rates, tables


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """The numbers behind the page's text, a study by its data set; trials are those to within 1 % of the last best."""
    reached = tables.trials_to_reach(published.search_traces())
    of_papers = {"published.searches": float(len(reached)), "published.median": float(reached.median())}
    return of_papers | {"published.tenth": float(reached.quantile(0.9))} | prose.of_each(edition, _of_study)


def _of_study(study: StudyRecords) -> dict[str, float | str]:
    reached, trials = tables.trials_to_reach(tables.best_so_far(study)), study.trials.groupby(["method", "repetition"])
    winners = tables.best_of_searches(study)
    hyperparameters = winners.groupby("method")["hyperparameter"].nunique()
    share = 100 * tables.sensitivity(study)["random_share"]
    return {
        "median": float(reached.median()),
        "tenth": float(reached.quantile(0.9)),
        "trials": float(study.meta["budget"]["trials"]),
        "searches": float(study.searches),
        "reruns": float(study.meta["budget"]["reruns"]),
        "equal_trials": float(trials.size().nunique() == 1),
        "fewest_hyperparameters": float(hyperparameters.min()),
        "most_hyperparameters": float(hyperparameters.max()),
        "without_result": float(study.trials["state"].isin(tables.NO_RESULT).sum()),
        "not_on_plateau": float((study.runs["stopped"] != "plateau").sum()),
        "winning_values": float(len(winners)),
        "at_edge": float(winners["at_edge"].sum()),
        "least_forgiving": share.idxmin(),
        "most_forgiving": share.idxmax(),
        "least_forgiving.share": share.min(),
    } | of_rate(study)


def of_rate(study: StudyRecords) -> dict[str, float | str]:
    """The rate that all methods of a study share, against the grid that chose it; nothing where none was run.

    inside: it is the best of the grid, with worse ones on both sides; suits: the methods that do best there;
    settings_rate: of the search whose settings the grid takes.
    """
    grid, rate = rates.grid_of(study), study.meta["protocol"]["lr"]
    if grid is None:
        return {}
    best = rates.best_trials(grid)
    return {
        "rate.inside": float(rates.chosen_rate(grid) == rate),
        "rate.better_elsewhere": float((best.idxmax() != rate).sum()),
        "rate.suits": ", ".join(best.columns[best.idxmax() == rate]),
        "rate.methods": float(best.shape[1]),
        "rate": rate,
        "settings_rate": rates.rate_of_settings(grid),
    }
