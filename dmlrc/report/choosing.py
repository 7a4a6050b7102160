"""What the tables say to someone who wants one loss: who is never clearly behind, what to tune, what to expect."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import charts, labels, prose, published, tables, titles

FIRST_CHOICES = ("multi_similarity", "cosface")
"""The losses that the page recommends."""
CONTRASTIVE = tables.CLASSICS[0]


def places(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """How far every method is behind the best of a table in concatenated MAP@R, and whether it ties with it.

    Ours, then the three published tables. Rows: method, table (a study, or a data set of the Reality Check), ours,
    behind (a fraction), tied. The untrained trunk is left out.
    """
    frames = {each.name: tables.accuracy(each) for each in edition}
    paper = dict(list(published.results().groupby("dataset")))
    frames |= {name: paper[name] for name in published.DATASETS}
    rows = []
    for name, frame in frames.items():
        deciding = tables.deciding(frame)
        deciding = deciding.assign(tied=tables.marks(deciding) != "").query("method != @PRETRAINED")
        behind = deciding["mean"].max() - deciding["mean"]
        rows.append(deciding[["method", "tied"]].assign(table=name, ours=name not in paper, behind=behind))
    return pd.concat(rows, ignore_index=True)[["method", "table", "ours", "behind", "tied"]]


def place_cells(found: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`places` as cells, points behind the best, and their marks; most ties first, then the least behind."""
    behind, tied = (found.pivot(index="method", columns="table", values=each) for each in ("behind", "tied"))
    order = pd.DataFrame({"ties": -tied.eq(True).sum(axis=1), "behind": behind.mean(axis=1)})
    order = order.sort_values(["ties", "behind"])
    columns = list(dict.fromkeys(found["table"]))
    behind, tied = behind.loc[order.index, columns], tied.loc[order.index, columns]
    heads = [f"{name}, published" if name in published.DATASETS else titles.title(name) for name in columns]
    index = [labels.method_label(name) for name in behind.index]
    cells = behind.map(lambda value: "–" if pd.isna(value) else f"{100 * value:.1f}")
    marks = tied.eq(True).map({True: "tie", False: ""}.get)
    return cells.set_axis(heads, axis=1).set_axis(index), marks.set_axis(heads, axis=1).set_axis(index)


def never_behind(found: pd.DataFrame, ours: bool = False) -> list[str]:
    """The methods that tie with the best in every table, or in every one of ours."""
    counted = found[found["ours"]] if ours else found
    ties = counted[counted["tied"]].groupby("method")["table"].nunique()
    return sorted(ties.index[ties == counted["table"].nunique()])


def places_figure(found: pd.DataFrame) -> Figure:
    """A row a method, a column a table: the distance behind the best as a dot, filled where the two tie."""
    cells, marks = place_cells(found)
    figure, axis = charts.panel(0.3 * len(cells) + 1)
    for column, head in enumerate(cells.columns):
        for row, method in enumerate(cells.index):
            if cells.loc[method, head] == "–":
                continue
            tie = marks.loc[method, head] == "tie"
            axis.plot(column, row, "o", color="C0", markerfacecolor="C0" if tie else "none", markersize=9)
            axis.annotate(cells.loc[method, head], (column, row), (9, 0), textcoords="offset points", va="center")
    axis.set_yticks(range(len(cells)), cells.index)
    heads = [head.replace(", published", " (paper)").replace(" ", "\n") for head in cells.columns]
    axis.set_xticks(range(len(heads)), heads)
    axis.set_xlim(-0.5, len(cells.columns) - 0.3)
    axis.invert_yaxis()
    axis.xaxis.tick_top()
    dot = {"marker": "o", "color": "C0", "linestyle": ""}
    texts = {"ties with the best": dot, "behind": {**dot, "markerfacecolor": "none"}}
    handles = [Line2D([], [], label=text, **look) for text, look in texts.items()]
    axis.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2)
    return figure


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """What the text of the page rests on; scores in points of concatenated MAP@R, a study by its data set."""
    found = places(edition)
    scales = [_best(each, "cosface", "scale") for each in edition]
    told: dict[str, float | str] = {
        **prose.span("base", [_best(each, "multi_similarity", "base") for each in edition]),
        "never_behind_ours": ", ".join(never_behind(found, ours=True)),
        "never_behind": ", ".join(never_behind(found)),
        "cosface.scales": max(scales) / min(scales),
    }
    return told | prose.of_each(edition, _of_study)


def _of_study(study: StudyRecords) -> dict[str, float]:
    """Of the multi-similarity loss, but for the leads over the contrastive one: those of `FIRST_CHOICES`."""
    means, best = tables.by_method(tables.accuracy(study))["mean"], "multi_similarity"
    alone = tables.by_method(tables.accuracy(study), setting="separated")["mean"]
    trials = study.trials[study.trials["method"] == best]
    shares = tables.importance(replace(study, trials=trials)).set_index("parameter")["importance"]
    return {
        **{method: 100 * (means[method] - means[CONTRASTIVE]) for method in FIRST_CHOICES},
        "trained": 100 * (means[best] - means[PRETRAINED]),
        "joined": 100 * (means[best] - alone[best]),
        "alone_over_untrained": 100 * (alone[best] - alone[PRETRAINED]),
        "median_share": 100 * tables.sensitivity(study).loc[best, "median_share"],
        "base_share": 100 * shares.get("base", 0.0),
        "trials": float(tables.trials_to_reach(tables.best_so_far(study)).median()),
    }


def _best(records: StudyRecords, method: str, hyperparameter: str) -> float:
    """The value of a hyperparameter with the highest validation score."""
    best = tables.best_hyperparameters(records).set_index(["method", "hyperparameter"])["value"]
    return float(best[method, hyperparameter])


def winning_settings(edition: Sequence[StudyRecords], methods: Sequence[str] = FIRST_CHOICES) -> pd.DataFrame:
    """The setting with the highest validation score of these methods in each study: a row a hyperparameter."""
    keys = ["method", "hyperparameter"]
    found = {titles.title(each.name): tables.best_hyperparameters(each).set_index(keys)["value"] for each in edition}
    table = pd.DataFrame(found)
    table = table.loc[[each for each in methods if each in table.index.get_level_values(0)]]
    table.index = [f"{labels.method_label(method)}: {labels.parameter(name)}" for method, name in table.index]
    return table.map(lambda value: f"{value:.3g}")
