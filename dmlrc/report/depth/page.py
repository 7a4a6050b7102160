"""Depths of training as the chapter prints them: cells of tables, and the numbers of its text."""

from collections.abc import Mapping, Sequence

import pandas as pd

from dmlrc import studies
from dmlrc.report import labels, titles
from dmlrc.report.depth.measures import (
    ALONE,
    BLOCK,
    DATA,
    Depth,
    depths,
    gains,
    luck,
    spread,
    surely_turned,
    turned,
    turned_by_luck,
)
from dmlrc.report.rates import page as rates
from dmlrc.report.significance.page import ranked_cells
from dmlrc.report.statistics import Estimate

RANGE, LUCK = "From worst to best", "The same by luck alone"


def cells(found: Sequence[Depth]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Cells and marks of a row a method, a column a depth, see `ranked_cells`; below, what they lie between.

    That is the untrained trunk, and the ranges; percent.
    """
    columns, marks = {}, {}
    for depth in found:
        texts, looks = ranked_cells(depth.compared.summary, depth.untrained)
        columns[depth.label] = dict(texts.rename(labels.method_label)) | {
            labels.UNTRAINED: labels.percent(depth.untrained) or "–",
            RANGE: _range(spread(depth)),
            LUCK: labels.percent(luck(depth)),
        }
        marks[depth.label] = dict(looks.rename(labels.method_label))
    table = pd.DataFrame(columns).fillna("–").rename_axis("Method")
    return table, pd.DataFrame(marks, index=table.index).fillna("")


def _range(found: Estimate) -> str:
    return f"{labels.percent(found.value)} [{labels.percent(found.low)}, {labels.percent(found.high)}]"


def score_numbers(found: Sequence[Depth]) -> pd.DataFrame:
    """The numbers behind `cells`, fractions, a row a depth and method, for the download."""
    rows = [
        {"depth": depth.label, "study": depth.compared.study, "method": name, "luck": depth.compared.luck}
        | dict(told[["mean", "low", "high", "rank_low", "rank_high"]])
        for depth in found
        for name, told in depth.compared.summary.iterrows()
    ]
    return pd.DataFrame(rows).set_index("depth")


def missing_sentence(missing: Mapping[str, str]) -> str:
    """Which studies of the chapter are not run, and how to run them; "" if none."""
    if not missing:
        return ""
    named = "; ".join(f"{titles.title(name)}: {expected}" for name, expected in missing.items())
    commands = "\n".join(f"dmlrc study run {name} --workers 2" for name in missing)
    begin = f"Not finished so far, with the time that each takes: {named}. To run or resume them:"
    return f"{begin}\n\n```shell\n{commands}\n```"


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
    (swapped, pairs), lucky, gained = turned(alone, block), turned_by_luck(alone, block), gains(alone, block)
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
