"""Sentences on a reader's own run, for its page: the only ones on records that nobody has read before."""

import pandas as pd

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import labels, tables

FEW_TRIALS = 10
"""Searches of fewer say nothing of how much a loss depends on its hyperparameters."""


def answer(records: StudyRecords) -> str:
    """Sentences on the loss with the highest joined MAP@R: its ties, the luck they count, and the untrained trunk."""
    frame = tables.deciding(tables.accuracy(records))
    trained = frame[frame["method"] != PRETRAINED].assign(mark=tables.marks(frame)).set_index("method")
    if len(trained) < 2:
        return f"On `{records.name}` fewer than two methods have results so far, so there is nothing to compare."
    best = trained["mean"].idxmax()
    tied = [_name(method) for method in trained.index[trained["mark"] == "tie"]]
    counts = "search and seed" if "seed_ci95" in frame else "the seed alone, since each loss was searched once"
    sentences = [
        f"On `{records.name}` **{_name(best)}** has the highest MAP@R, {labels.one_digit(trained['mean'].max())} %.",
        f"{labels.listed(tied)} {'ties' if len(tied) == 1 else 'tie'} with it." if tied else "No other ties with it.",
        f"These ties count noise of {counts}.",
        _untrained(tables.accuracy(records)),
    ]
    return " ".join(filter(None, sentences))


def _untrained(frame: pd.DataFrame) -> str:
    joined = frame[frame["setting"] == "concatenated"].pivot(index="metric", columns="method", values="mean")
    if PRETRAINED not in joined:
        return ""
    above = joined.drop(columns=PRETRAINED).gt(joined[PRETRAINED], axis=0).sum(axis=1)
    count = above["map_at_r"]
    return (
        f"Untrained MAP@R is {labels.one_digit(joined.loc['map_at_r', PRETRAINED])} %; {count or 'none'} of "
        f"{joined.shape[1] - 1} losses {'exceeds' if count == 1 else 'exceed'} it"
        + (f", and {above['precision_at_1'] or 'none'} in P@1." if "precision_at_1" in above else ".")
    )


def forgiving(records: StudyRecords) -> str:
    """Sentences on the losses that depend least and most on their hyperparameters; "" if searches are too short."""
    share = tables.sensitivity(records)["median_share"].dropna()
    if records.meta["budget"]["trials"] < FEW_TRIALS or len(share) < 2:
        return ""
    least, most = share.idxmax(), share.idxmin()
    return (
        f"On `{records.name}` {_name(least)} depends least on its hyperparameters: its median trial reaches "
        f"{100 * share[least]:.0f} % of its best. {_name(most)} depends most on them ({100 * share[most]:.0f} %)."
    )


def _name(method: str) -> str:
    return labels.prose(labels.method_label(method))
