"""Answers from a study of one's own photographs for someone who wants to find photos: sentences with numbers."""

import pandas as pd

from dmlrc.errors import DmlrcError
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import labels, tables


def chosen_loss(records: StudyRecords) -> str:
    """The first of `losses_by_validation`."""
    return losses_by_validation(records)[0]


def losses_by_validation(records: StudyRecords) -> list[str]:
    """The methods by their best trials on the validation classes, of those with a result on the test classes.

    The test classes choose nothing: of 14 losses that are alike the highest there would be the luckiest. Raises
    DmlrcError where no method has a result.
    """
    trained = _of(records, "map_at_r").drop(PRETRAINED, errors="ignore")
    if trained.empty:
        raise DmlrcError(f"no method of study {records.name!r} has a result: `dmlrc study show` says why")
    trials = records.trials[records.trials["method"].isin(trained.index)]
    of_searches = trials.groupby(["method", "repetition"])["value"].max()
    return of_searches.groupby("method").mean().sort_values(ascending=False, kind="stable").index.tolist()


def first_rerun(records: StudyRecords, method: str) -> pd.Series:
    """The first rerun of a method that came to its end, a row of `records.reruns`; its params are the best trial's."""
    reruns = records.reruns[(records.reruns["method"] == method) & (records.reruns["state"] == "complete")]
    return reruns.sort_values(["repetition", "rerun"]).iloc[0]


def sentences(records: StudyRecords) -> list[str]:
    """Sentences on which loss to use, how sure that is, and what training gains over the trunk as it is."""
    map_at_r, precision = _of(records, "map_at_r"), _of(records, "precision_at_1")
    first = chosen_loss(records)
    scores = [labels.score(*frame.loc[first, ["mean", "ci95"]]) for frame in (precision, map_at_r)]
    trained = map_at_r.drop(PRETRAINED, errors="ignore")
    fallen = {labels.method_label(name): state for name, state in tables.fallen(records).items()}
    texts = [
        f"{labels.method_label(first)} does best of {len(trained) + len(fallen)} losses on the validation classes. "
        f"With it, the models of {records.meta['protocol']['folds']} folds joined, on the test classes, which chose "
        f"nothing, the nearest other photo is of the same class for {scores[0]} % of the photos (P@1); MAP@R, which "
        f"also counts how many of the others come next, is {scores[1]} %.",
        _how_sure(records, trained, first),
    ]
    if fallen:
        texts.append(f"Without a result: {labels.listed([f'{name} ({state})' for name, state in fallen.items()])}.")
    if PRETRAINED in map_at_r.index:
        texts.append(_over_the_trunk(records, first))
    return texts


def _how_sure(records: StudyRecords, trained: pd.DataFrame, first: str) -> str:
    marks = tables.marks(trained.reset_index()).set_axis(trained.index)
    highest = [labels.method_label(name) for name in trained.index if marks[name] and name != first]
    budget, unknown = records.meta["budget"], trained["ci95"].isna()
    if unknown[first]:
        sure = f"With one run {'each' if unknown.all() else 'of it'} losses cannot be compared."
    elif not marks[first]:
        sure = f"Not sure: on the test classes {labels.listed(highest)} scored higher, which validation could not know."
    elif highest:
        sure = f"Not sure: {labels.listed(highest)} cannot be distinguished from it, so take what is simplest to train."
    else:
        sure = "No other loss may be the best instead."
    if records.searches < 2:
        trials, reruns = (labels.plural(budget[what], what.removesuffix("s")) for what in ("trials", "reruns"))
        sure += (
            f" Each loss was searched once, with {trials} and {reruns}: another search may change the "
            f"order{'' if unknown.all() else ', which the intervals do not count'}."
        )
    return sure


def _over_the_trunk(records: StudyRecords, first: str) -> str:
    """A sentence on the gain from training: one model against one trunk, its features reduced to as many numbers."""
    map_at_r, precision = _of(records, "map_at_r", "separated"), _of(records, "precision_at_1", "separated")
    before, after = map_at_r["mean"][PRETRAINED], map_at_r["mean"][first]
    reached = (
        f"One model against the trunk alone, {labels.trunk(records.meta['protocol'])}, at the same size: the trunk "
        "reaches P@1 "
        f"{labels.percent(precision['mean'][PRETRAINED])} % and MAP@R {labels.percent(before)} % without any training"
    )
    if after <= before:
        return f"{reached}; one model of this loss does not improve on that, so the trunk can be used as it is."
    gains = f"{100 * (after - before):+.2f} points of MAP@R"
    change = f"{100 * (precision['mean'][first] - precision['mean'][PRETRAINED]):+.2f} of P@1"
    sure = after - map_at_r["ci95"][first] > before  # of one run nobody knows
    return f"{reached}; training brings {gains}{'' if sure else ', which may be chance,'} and {change}."


def _of(records: StudyRecords, metric: str, setting: str = "concatenated") -> pd.DataFrame:
    """The rows of `tables.accuracy` of the joined embeddings, or of another setting, by method."""
    return tables.by_method(tables.accuracy(records), metric, setting)
