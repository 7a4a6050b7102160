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
from dmlrc.report.statistics import half_width, of_groups
from dmlrc.studies.adapted import GRIDS_OF

SEARCH = ["method", "repetition"]
GAINS = {"validation": "validation classes", "test": "test classes"}


def gains_of_searches() -> pd.DataFrame:
    """A row a search and count of first trials: table, method, repetition, trials, validation, test.

    validation, test: by how much the best of the whole search exceeds the best of its first trials in MAP@R, as
    fractions, 0 where both are the same setting; test: of means over three reruns and over the models of the folds.
    Of the tables whose early settings have all been trained again.
    """
    parts = []
    for table in GRIDS_OF:
        again = whole.complete(f"{table}/early-winners")
        if again is None:
            continue
        of_searches = early.winners(table)
        is_first = of_searches["trials"].isin(early.TRIALS)
        best = of_searches[~is_first].set_index(SEARCH)["value"].rename("best")
        first = of_searches[is_first].join(best, on=SEARCH)
        first = first.join(_test(records.load(table), SEARCH).rename("own"), on=SEARCH)
        after = first["row"].map(_test(again.records, "method")).where(first["row"].notna(), first["own"])
        differences = {"validation": first["best"] - first["value"], "test": first["own"] - after}
        parts.append(first.assign(table=table, **differences))
    columns = ["table", *SEARCH, "trials", *GAINS]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _test(study: StudyRecords, by: str | list[str]) -> pd.Series:
    """Mean test MAP@R of single models."""
    scores = study.scores
    single = scores[(scores["setting"] == "separated") & (scores["metric"] == "map_at_r")]
    return single.groupby(by, observed=True)["value"].mean()


def gains_of_losses(frame: pd.DataFrame) -> pd.DataFrame:
    """The means of the searches of each loss: index table, trials, method; columns validation, test."""
    return frame.groupby(["table", "trials", "method"], observed=True)[list(GAINS)].mean()


def longer_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Make cells of `gains_of_searches`, in points of MAP@R: a row a table, a column a kind of classes and a count."""
    if frame.empty:
        return common.NOT_RUN
    columns = {}
    for name, heading in GAINS.items():
        of_tables = of_groups(gains_of_losses(frame)[name].groupby(["trials", "table"]))
        texts = of_tables.apply(lambda row: labels.number(row["mean"], row["ci95"], form="+.2%"), axis=1)
        columns |= {(heading, f"after {trials}"): texts[trials] for trials in early.TRIALS}
    cells = pd.DataFrame(columns).reindex(dict.fromkeys(frame["table"]))
    return cells.set_axis([labels.dataset(records.load(table)) for table in cells.index]).rename_axis("Data set")


def numbers() -> dict[str, float]:
    """The numbers behind the text, in points.

    tables: how many are complete. validation.10, test.25 ...: what the rest of a search gains, of all their losses;
    with _ci95. DATASET.test.10: the same of one table. kept.25: percent of searches whose best after 25 trials
    stays the best.
    """
    of_searches = gains_of_searches()
    means, named = 100 * gains_of_losses(of_searches), {"tables": of_searches["table"].nunique()}
    for trials in means.index.unique("trials"):
        of_trials, part = means.xs(trials, level="trials"), of_searches[of_searches["trials"] == trials]
        named[f"kept.{trials}"] = 100 * (part["validation"] == 0).mean()
        for name in GAINS:
            named[f"{name}.{trials}"] = of_trials[name].mean()
            named[f"{name}.{trials}_ci95"] = half_width(of_trials[name])
            for table in of_trials.index.unique("table"):
                one = f"{studies.get(table).dataset}.{name}.{trials}"
                named[one] = of_trials.loc[table, name].mean()
                named[f"{one}_ci95"] = half_width(of_trials.loc[table, name])
    return named
