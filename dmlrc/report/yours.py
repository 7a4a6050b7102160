"""Answers on a reader's own run, for its page."""

import pandas as pd

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import labels, tables
from dmlrc.report.answers import say

FEW_TRIALS = 10
"""Searches of fewer say nothing of how much a loss depends on its hyperparameters."""


def answer(records: StudyRecords) -> str:
    """Sentences on the loss with the highest joined MAP@R: its ties, the luck they count, and the untrained trunk."""
    frame = tables.deciding(tables.accuracy(records))
    trained = frame[frame["method"] != PRETRAINED].assign(mark=tables.marks(frame)).set_index("method")
    if len(trained) < 2:
        return "Fewer than two methods have results so far, so there is nothing to compare."
    best, score = trained["mean"].idxmax(), labels.one_digit(trained["mean"].max())
    tied = [_name(method) for method in trained.index[trained["mark"] == "tie"]]
    sentences = [
        say("highest", study=records.name, best=_name(best), score=score),
        say("tied", losses=labels.listed(tied), tie="ties" if len(tied) == 1 else "tie")
        if tied
        else "No other ties with it.",
        "These ties count noise of search and seed."
        if "seed_ci95" in frame
        else "These ties count noise of the seed alone, since each loss was searched once.",
        _untrained(tables.accuracy(records)),
    ]
    return " ".join(filter(None, sentences))


def _untrained(frame: pd.DataFrame) -> str:
    joined = frame[frame["setting"] == "concatenated"].pivot(index="metric", columns="method", values="mean")
    if PRETRAINED not in joined:
        return ""
    above = joined.drop(columns=PRETRAINED).gt(joined[PRETRAINED], axis=0).sum(axis=1)
    count, precise = (above[metric] or "none" if metric in above else "" for metric in ("map_at_r", "precision_at_1"))
    return say(
        "untrained",
        score=labels.one_digit(joined.loc["map_at_r", PRETRAINED]),
        count=count,
        losses=joined.shape[1] - 1,
        exceed="exceeds" if count == 1 else "exceed",
        more=f", and {precise} in P@1" if precise else "",
    )


def forgiving(records: StudyRecords) -> str:
    """A sentence on the losses that depend least and most on their hyperparameters; "" if searches are too short."""
    share = 100 * tables.sensitivity(records)["median_share"].dropna()
    if records.meta["budget"]["trials"] < FEW_TRIALS or len(share) < 2:
        return ""
    ends = {"least": _name(share.idxmax()), "most": _name(share.idxmin())}
    return say("forgiving", study=records.name, **ends, low=f"{share.max():.0f}", high=f"{share.min():.0f}")


def _name(method: str) -> str:
    return labels.prose(labels.method_label(method))
