"""The searches of a study: what their trials add, how much their luck is, and which of them got stuck."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from dmlrc import search, studies
from dmlrc.records import StudyRecords
from dmlrc.report import editions, statistics, tables
from dmlrc.report.significance import measures as significance
from dmlrc.report.statistics import LEVEL

FIRST_RANDOM = search.TPE["n_startup_trials"]
"""The trials of a search that are drawn at random, before the sampler proposes any."""
HALF = 25
"""Trials: half of a search."""
FAR = 0.03
"""A search is stuck that ends this far below another one of the same loss, as a share of its score."""


def tuning_curves(records: StudyRecords) -> pd.DataFrame:
    """Validation MAP@R of a search, mean over the repetitions: a row a number of trials, from 1, a column a method."""
    best = tables.best_after(records)
    means = {method: part.mean(skipna=False) for method, part in best.groupby(level="method")}
    return pd.DataFrame(means)[tables.ordered(means)].rename_axis("trials")


def random_tuning(records: StudyRecords) -> pd.DataFrame:
    """The expected best of so many random trials (Dodge et al. 2019): as `tuning_curves`, of the first FIRST_RANDOM."""
    drawn = records.trials[records.trials["trial"] < FIRST_RANDOM]
    best = {method: pd.Series(statistics.expected_best(part["value"])) for method, part in drawn.groupby("method")}
    return pd.DataFrame(best)[tables.ordered(best)].rename(lambda row: row + 1).rename_axis("trials")


def levelled(records: StudyRecords) -> pd.Series:
    """SD over the methods of the expected best of 1, 2, 5 and 10 random trials, and of whole searches ("search")."""
    random, whole = random_tuning(records), tuning_curves(records)
    deviations = {str(count): random.loc[count].std(ddof=1) for count in (1, 2, 5, 10) if count in random.index}
    return pd.Series(deviations | {"search": whole.iloc[-1].std(ddof=1)})


def search_luck(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """Scatter of each loss's searches beside its number of hyperparameters: a row a loss, means over studies.

    Of the losses after 2019 too. Columns: hyperparameters, luck (SD of a repetition's mean test MAP@R as a share of the
    loss's own), late (what the next HALF trials after the first add to the best validation MAP@R).
    """
    rows = []
    for study in filter(None, (study for main in edition for study in (main, _later(main)))):
        spaces = {method.name: len(method.space) for method in studies.get(study.name).methods}
        runs = significance.of_searches(significance.scores(study)).groupby("method")
        best = tables.best_after(study).reindex(columns=[HALF, 2 * HALF])
        late = (best[2 * HALF] - best[HALF]).groupby("method").mean()
        rows.append(pd.DataFrame({"hyperparameters": spaces, "luck": runs.std(ddof=1) / runs.mean(), "late": late}))
    table = pd.concat(rows).dropna().rename_axis("method")
    return table.groupby("method").mean().sort_values("hyperparameters", kind="stable")


def _later(main: StudyRecords) -> StudyRecords | None:
    return editions.experiment_of(main.name, "after2019")


def stuck(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The searches that ended more than FAR below the best one of their loss on the same data, the furthest first.

    Columns: rate_searched, study, method, repetition, value (validation MAP@R of its best trial), best (that of the
    best search) and short (a fraction of this). Better rates are out of the reach of one at the shared rate.
    """
    parts = []
    for main in edition:
        around = ((False, main), (False, _later(main)), (True, editions.with_searched_rates(main.name)))
        runs = {(searched, study.name): study.trials for searched, study in around if study is not None}
        keys = ["rate_searched", "study", "method", "repetition"]
        ends = pd.concat(runs, names=keys[:2]).groupby(keys)["value"].max().reset_index()
        every, shared = ends["value"], ends["value"].mask(ends["rate_searched"])
        best, own = (values.groupby(ends["method"]).transform("max") for values in (every, shared))
        parts.append(ends.assign(best=best.where(ends["rate_searched"], own)))
    table = pd.concat(parts, ignore_index=True)
    table["short"] = 1 - table["value"] / table["best"]
    return table[table["short"] > FAR].sort_values("short", ascending=False, ignore_index=True)


def scores_of_searches(records: StudyRecords) -> pd.DataFrame:
    """The best trial's `validation` MAP@R and the reruns' concatenated `test` MAP@R: a row a method and repetition."""
    validation = records.trials.groupby(["method", "repetition"])["value"].max()
    test = significance.of_searches(significance.scores(records))
    return pd.DataFrame({"validation": validation, "test": test}).dropna()


def choosing(records: StudyRecords) -> dict[str, float]:
    """The cost of choosing the loss by its validation score, without a look at the test classes.

    rho (of the methods, Spearman), regret (the test score of the best method on test less that of the chosen one, mean
    over the repetitions; both scored by the other ones, if there are any, since the best owes a part of its score to
    luck), by_chance (what a method drawn at random would lose so), uncertain (half the 95 % interval of a difference so
    scored, of search and seed; NaN for one repetition).
    """
    both = scores_of_searches(records)
    means = both.groupby(level="method").mean()
    repetitions = both.index.get_level_values("repetition").nunique()
    regrets, by_chance = [], []
    for repetition, part in both.groupby(level="repetition"):
        scored = both.drop(index=repetition, level="repetition") if repetitions > 1 else both
        test_scores = scored["test"].groupby(level="method").mean()
        best, chosen = (part[by].idxmax()[0] for by in ("test", "validation"))
        regrets.append(test_scores.get(best, np.nan) - test_scores.get(chosen, np.nan))
        by_chance.append(test_scores.get(best, np.nan) - test_scores.mean())
    known = statistics.noise(both["test"].unstack("repetition").to_numpy()[..., None])
    error = np.sqrt(2 * known.repetition / (repetitions - 1)) if repetitions > 1 else np.nan
    return {
        "rho": statistics.rank_test(means["validation"], means["test"])["rho"],
        "regret": float(np.nanmean(regrets)) if len(regrets) else np.nan,
        "by_chance": float(np.nanmean(by_chance)) if len(by_chance) else np.nan,
        "uncertain": float(stats.t.ppf((1 + LEVEL) / 2, known.df) * error),
    }
