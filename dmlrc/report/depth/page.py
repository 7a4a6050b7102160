"""Depths of training as the chapter prints them: cells of tables, and the numbers of its text."""

from collections.abc import Sequence

import pandas as pd

from dmlrc import studies
from dmlrc.report import labels, statistics
from dmlrc.report.depth.measures import (
    ALONE,
    BLOCK,
    DATA,
    Depth,
    depths,
    luck,
    spread,
    surely_turned,
    turned_by_luck,
)
from dmlrc.report.rates import page as rates
from dmlrc.report.results_table import results_table
from dmlrc.report.significance.page import scored

RANGE, LUCK = "From worst to best", "The same by luck alone"


def cells(found: Sequence[Depth]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Cells and marks of a row a method, a column a depth, percent; below, what they lie between.

    That is the untrained trunk, and the ranges.
    """
    parts = []
    for depth in found:
        parts.append(scored(depth.compared.summary.rename(index=labels.method_label), depth.label, depth.untrained))
        ranged = spread(depth)
        below = {
            labels.UNTRAINED: {"mean": depth.untrained},
            RANGE: {"mean": ranged.value, "low": ranged.low, "high": ranged.high},
            LUCK: {"mean": luck(depth)},
        }
        parts.append(pd.DataFrame([{"row": row, "column": depth.label, **each} for row, each in below.items()]))
    both = results_table(pd.concat(parts, ignore_index=True))
    return tuple(frame.rename_axis("Method") for frame in both)


def score_numbers(found: Sequence[Depth]) -> pd.DataFrame:
    """The numbers behind `cells`, fractions, a row a depth and method, for the download."""
    columns = ["study", "method", "luck", "mean", "low", "high", "rank_low", "rank_high"]
    parts = {
        depth.label: depth.compared.summary.reset_index().assign(study=depth.compared.study, luck=depth.compared.luck)
        for depth in found
    }
    return pd.concat(parts, names=["depth", None]).droplevel(1)[columns]


# The numbers of the text


def numbers() -> dict[str, float | str]:
    """What the text of the page rests on: the embedder alone and the last block too, a study by its data set."""
    found: dict[str, float | str] = {}
    for data in DATA:
        by_label = {depth.label: depth for depth in depths(data)}
        name = studies.get(data).dataset
        found |= {f"{name}.{key}": value for key, value in _of_step(by_label[ALONE], by_label[BLOCK]).items()}
    for study, rows in rates.of_embedders().groupby("study"):
        shared = rows.loc[rows["rate"] == rows["of_trunk"], "mean"].max()
        found[f"{studies.get(study).dataset}.own_rate"] = 100 * (rows["mean"].max() - shared)
    found["wider"] = max(depth.wider for data in DATA for depth in depths(data) if depth.label in (ALONE, BLOCK))
    return found


def _of_step(alone: Depth, block: Depth) -> dict[str, float | str]:
    """What training the last block does: to the order, in pairs, and to the range and the scores, in points.

    share: of the range in the mean score, percent; without_margin: the range with the block trained, divided by that of
    the embedder alone, of the other losses.
    """
    swapped, pairs = statistics.turned(alone.scores, block.scores)
    lucky, gained = turned_by_luck(alone, block), block.scores - alone.scores
    others = [each.scores.drop("margin", errors="ignore") for each in (alone, block)]
    return {
        "swapped": swapped,
        "pairs": pairs,
        "lucky.low": lucky.low,
        "lucky.high": lucky.high,
        "sure": len(surely_turned(alone, block)),
        "first": ", ".join(each.scores.idxmax() for each in (alone, block)),
        "last": ", ".join(each.scores.idxmin() for each in (alone, block)),
        "leads_alone": ", ".join(str(each.compared.summary["among_best"].sum()) for each in (alone, block)),
        "range.alone": 100 * spread(alone).value,
        "range.block": 100 * spread(block).value,
        "share.alone": 100 * spread(alone).value / alone.scores.mean(),
        "share.block": 100 * spread(block).value / block.scores.mean(),
        "without_margin": float(others[1].max() - others[1].min()) / float(others[0].max() - others[0].min()),
        "gain": 100 * gained.mean(),
        "gain.least": 100 * gained.min(),
        "gain.embedder": 100 * (alone.scores.mean() - alone.untrained),
    }
