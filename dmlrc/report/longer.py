"""Gains of a search after its first 10 and 25 trials: on validation classes, and on classes that it never saw.

Of the recorded searches of the three tables, whose settings after 10 and 25 trials the studies TABLE/early-winners
trained again (`dmlrc.studies.early`). Intervals are over losses, each the mean of its three searches.
"""

import pandas as pd

from dmlrc import records, studies
from dmlrc.bench import early
from dmlrc.records import StudyRecords
from dmlrc.report import common, labels
from dmlrc.report.hypotheses import whole
from dmlrc.report.statistics import half_width, of_groups, rank_test
from dmlrc.report.tables import METHODS
from dmlrc.studies.adapted import GRIDS_OF

SEARCH = ["method", "repetition"]
GAINS = {"validation": "validation classes", "test": "test classes"}


def scores_so_far() -> pd.DataFrame:
    """The scores of what each search had found after its first 10 trials, its first 25 and all.

    Columns: table, method, repetition, trials, validation, test (MAP@R of single models, fractions; test: means over
    three reruns and the models of the folds). Of the tables whose early settings have all been trained again.
    """
    parts = []
    for table in GRIDS_OF:
        if again := whole.complete(f"{table}/early-winners"):
            best = early.winners(table).join(_test(records.load(table), SEARCH).rename("own"), on=SEARCH)
            test = best["row"].map(_test(again.records, "method")).where(best["row"].notna(), best["own"])
            parts.append(best.assign(table=table, validation=best["value"], test=test))
    columns = ["table", *SEARCH, "trials", *GAINS]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def gains_of_searches(scores: pd.DataFrame) -> pd.DataFrame:
    """The gain of whole searches on their first trials, as `scores_so_far`; 0 where both are the same setting."""
    ends = scores.groupby(["table", *SEARCH], observed=True)[list(GAINS)].transform("last")
    return scores.assign(**(ends - scores[list(GAINS)]))[scores["trials"].isin(early.TRIALS)]


def _test(study: StudyRecords, by: str | list[str]) -> pd.Series:
    """Mean test MAP@R of single models."""
    scores = study.scores
    single = scores[(scores["setting"] == "separated") & (scores["metric"] == "map_at_r")]
    return single.groupby(by, observed=True)["value"].mean()


def of_losses(searches: pd.DataFrame) -> pd.DataFrame:
    """The means over the searches of each loss: index table, trials, method; columns validation, test."""
    return searches.groupby(["table", "trials", "method"], observed=True)[list(GAINS)].mean()


def longer_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Make cells of `gains_of_searches`, in points of MAP@R: a row a table, a column a kind of classes and a count."""
    if frame.empty:
        return common.NOT_RUN
    columns = {}
    for name, heading in GAINS.items():
        of_tables = of_groups(of_losses(frame)[name].groupby(["trials", "table"]))
        texts = of_tables.apply(lambda row: labels.number(row["mean"], row["ci95"], form="+.2%"), axis=1)
        columns |= {(heading, f"after {trials}"): texts[trials] for trials in early.TRIALS}
    return _by_data_set(pd.DataFrame(columns).reindex(dict.fromkeys(frame["table"])))


def chosen_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Make cells of the loss with the highest validation score, and its test MAP@R, both means over its searches."""
    if scores.empty:
        return common.NOT_RUN
    means = of_losses(scores)
    chosen = means.loc[means["validation"].groupby(["table", "trials"]).idxmax()].reset_index("method")
    texts = [f"{METHODS[row.method].label} {labels.number(row.test, form='.1%')}" for row in chosen.itertuples()]
    return _by_data_set(pd.Series(texts, chosen.index).unstack().add_prefix("after ").rename_axis(None, axis=1))


def _by_data_set(cells: pd.DataFrame) -> pd.DataFrame:
    names = [labels.dataset(records.load(table)) for table in cells.index]
    return cells.set_axis(names).rename_axis("Data set")


def numbers() -> dict[str, float]:
    """The numbers behind the page's text, in points.

    tables: how many are complete. validation.10, test.25 ...: what the rest of a search gains, of all their losses;
    with _ci95. DATASET.test.10: the same of one table. rho.25.low, .high: of the rank correlations of the losses' test
    scores after 25 trials with those of the whole search, one a table. kept.25: percent of searches whose best after 25
    trials stays it.
    """
    scores = scores_so_far()
    gains = gains_of_searches(scores)
    behind, tests = 100 * of_losses(gains), of_losses(scores)["test"]
    named = {"tables": scores["table"].nunique()}
    for trials, part in gains.groupby("trials"):
        named[f"kept.{trials}"] = 100 * (part["validation"] == 0).mean()
        places, rhos = {"": behind.xs(trials, level="trials")}, []
        for table in places[""].index.unique("table"):
            places[f"{studies.get(table).dataset}."] = places[""].loc[table]
            of_table = tests[table].unstack("trials")
            rhos.append(rank_test(of_table[trials], of_table.iloc[:, -1])["rho"])
        named |= {f"rho.{trials}.low": min(rhos), f"rho.{trials}.high": max(rhos)}
        for place, losses in places.items():
            for name in GAINS:
                named[f"{place}{name}.{trials}"] = losses[name].mean()
                named[f"{place}{name}.{trials}_ci95"] = half_width(losses[name])
    return named
