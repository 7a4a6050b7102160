"""Numbers of the chapter on results: who may be the best, what joining adds, and what no training reaches."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import choosing, labels, planning, prose, published, tables
from dmlrc.report.significance import measures as significance

BELOW = {
    f"{setting}.{metric}": (metric, setting) for setting in tables.SETTINGS for metric in ("map_at_r", "precision_at_1")
}
"""In what a model may be below the untouched features, for `labels.below_untrained`."""


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """The numbers behind the page's text, a study by its data set; scores in points of concatenated MAP@R."""
    trunks = published.trunks()
    apart = trunks[trunks["source_table"] == "Table 1"].groupby("dataset")["value"].agg(["min", "max"])
    gaps = 100 * (apart["max"] - apart["min"])
    named: dict[str, float | str] = {
        "never_behind": ", ".join(choosing.never_behind(choosing.distances_behind(edition), ours=True)),
        **prose.span("trunks", gaps),
    }
    named |= prose.of_each(edition, partial(_of_study, edition=edition))
    for name in ("joined", "range"):
        named |= prose.span(name, [named[f"{study.meta['dataset']}.{name}"] for study in edition])
    return named


def joining_gain(frame: pd.DataFrame) -> float:
    """The gain in MAP@R from joining the folds' models, mean over the losses, in points. frame: `tables.accuracy`."""
    rows = frame[(frame["metric"] == "map_at_r") & (frame["method"] != PRETRAINED)]
    means = rows.pivot(index="method", columns="setting", values="mean")
    return 100 * float((means["concatenated"] - means["separated"]).mean())


def _of_study(study: StudyRecords, edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """visible: the gap that all pairs detect with power 80 %; top_five: the searches that tell fifth from sixth."""
    compared = significance.compare(study, edition)
    five = planning.top_five(compared)
    frame = tables.accuracy(study)
    deciding = tables.trained(frame)
    behind = tables.marks(deciding.reset_index()).eq("").to_numpy()
    tests = {table: tables.rank_agreement(frame, scores) for table, scores in published.musgrave_tables().items()}
    below = {f"below.{name}": float(labels.below_untrained(study, *which)[0]) for name, which in BELOW.items()}
    return below | {
        "losses": float(len(deciding)),
        "may_be_best": float((~behind).sum()),
        "behind": ", ".join(deciding.index[behind]),
        "best": deciding["mean"].idxmax(),
        "range": 100 * tables.spread(frame)["range"],
        "range.precision_at_1": 100 * tables.spread(frame, metric="precision_at_1")["range"],
        "joined": joining_gain(frame),
        "visible": 100 * significance.visible(compared),
        "top_five": np.nan if five is None else float(five[1] or np.inf),
        **prose.span("rho", [test["rho"] for test in tests.values()]),
        **prose.span("p", [test["p"] for test in tests.values()]),
        **{f"p.{table}": test["p"] for table, test in tests.items()},
    }
