"""The tables of Musgrave et al. 2020 as cells; what became of the gains that papers claim is in `years`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from dmlrc.papers import musgrave2020
from dmlrc.protocol import default_settings, own_metric
from dmlrc.records import StudyRecords
from dmlrc.report import about, labels, published, tables, titles
from dmlrc.report.results_table import results_table, with_foot
from dmlrc.report.tables import CLASSICS, METHODS, PRETRAINED, SETTINGS, Methods, accuracy
from dmlrc.report.untrained import nmi_of_random

ORDER = ("map_at_r", "precision_at_1", "r_precision")
"""The metrics as a results table has them: first the one that decides, which is all that a phone shows at once."""
CROPS = ("crop_scale", "crop_ratio")
"""Settings of random crops, which say nothing where images are not augmented."""
AS_ELSEWHERE = {"GoogleNet": "GoogLeNet"}
"""A trunk that this paper spells otherwise than the rest of the book."""


def results_cells(
    frame: pd.DataFrame, dim: int = 128, folds: int = 4, state: pd.DataFrame | None = None, methods: Methods = METHODS
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and the marks of a results table in the paper's layout, with the signs of `labels.SIGNS`.

    frame: `accuracy` or one data set of `published.musgrave_results`. dim, folds: of the protocol, for the headings.
    state: `status`; adds rows for methods without any rerun, and a column of reruns where their numbers are unequal.
    """
    heads = {"concatenated": f"Concatenated ({folds * dim}-d)", "separated": f"Separated ({dim}-d)"}
    names = tables.ordered(frame["method"] if state is None else [*frame["method"], *state.index], methods)
    places = pd.MultiIndex.from_product([names, SETTINGS, ORDER], names=["method", "setting", "metric"])
    scores = frame.set_index(list(places.names)).reindex(places).reset_index()
    scores["column"] = [
        (heads[setting], labels.METRIC_LABELS[metric])
        for setting, metric in zip(scores["setting"], scores["metric"], strict=True)
    ]
    scores["row"] = [labels.method_label(name, methods) for name in scores["method"]]
    cells, marks = results_table(with_foot(_compared(scores, state)))
    runs = {labels.method_label(name, methods): _reruns(state, name) for name in names} if state is not None else {}
    counts = {*runs.values()} - {""}
    if len(counts) > 1 or not all(map(str.isdigit, counts)):  # the same number of all is said by the caption
        cells[("", "reruns")] = [runs.get(row, "") for row in cells.index]
        marks[("", "reruns")] = ""
    return cells.rename_axis("Method"), marks.rename_axis("Method")


def results_of(
    records: StudyRecords,
    methods: Methods = METHODS,
    frame: pd.DataFrame | None = None,
    state: pd.DataFrame | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Make `results_cells` of a study, with metrics of the reader's own, and where a row departs from the protocol.

    frame, state: in the place of its `accuracy` and `status`.
    """
    protocol, known = records.meta["protocol"], tables.status(records, methods) if state is None else state
    given = accuracy(records) if frame is None else frame
    cells, marks = results_cells(given, protocol["embedding_dim"], protocol["folds"], known, methods)
    frame = accuracy(records)
    columns = {about.NOT_AS_THE_PROTOCOL: about.apart(records)}
    for name in filter(None, map(own_metric, protocol["test_metrics"])):
        means = frame[frame["metric"] == name].drop_duplicates("method").set_index("method")[["mean", "ci95"]]
        columns[name] = {method: labels.number(*pair, form=".4g") for method, pair in means.T.items()}
    for head, texts in columns.items():
        own = {labels.method_label(name, methods): text for name, text in texts.items()}
        if any(own.get(row) for row in cells.index):
            cells["", head], marks["", head] = [own.get(row, "") for row in cells.index], ""
    return cells, marks


def _compared(scores: pd.DataFrame, state: pd.DataFrame | None) -> pd.DataFrame:
    """The rows of `accuracy` as `results_table` takes them: ranks and cut-off runs beside joined MAP@R alone."""
    untrained = scores[scores["method"] == PRETRAINED].set_index(["setting", "metric"])["mean"]
    scores = scores.join(untrained.rename("untrained"), on=["setting", "metric"])
    decides = scores["metric"] == "map_at_r"
    if state is not None:
        scores["cut_off"] = scores["method"].map(state["cut_off"]).where(decides)
    ranked = decides & (scores["setting"] == "concatenated")
    if "rank_low" in scores and scores.loc[ranked, "rank_low"].count() > 1:
        scores[["rank_low", "rank_high"]] = scores[["rank_low", "rank_high"]].where(ranked)
    else:
        scores = scores.drop(columns=["rank_low", "rank_high"], errors="ignore")
    return scores.assign(mark=tables.marks(scores))


def _reruns(state: pd.DataFrame, method: str) -> str:
    if method not in state.index:
        return ""
    row = state.loc[method]
    without = [f"{row[f'{reason}_reruns']} {reason}" for reason in tables.NO_RESULT if row[f"{reason}_reruns"]]
    count = ", ".join([f"{row['reruns']}", *without])
    return {"complete": count, "unfinished": f"unfinished: {count}"}.get(row["state"], row["state"])


def beside_published(edition: Sequence[StudyRecords], theirs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Concatenated MAP@R of every method in a study and in each of `theirs`: study, dataset, method, ours, theirs."""
    rows = []
    for records in edition:
        for name, frame in theirs.items():
            ours, printed = (tables.by_method(scores)["mean"] for scores in (accuracy(records), frame))
            both = pd.DataFrame({"ours": ours, "theirs": printed}).dropna().drop(index=PRETRAINED, errors="ignore")
            rows.append(both.rename_axis("method").reset_index().assign(study=records.name, dataset=name))
    return pd.concat(rows, ignore_index=True)


def protocol_cells(edition: Sequence[StudyRecords]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and marks of every setting of the protocol: a row a setting, the paper's column, then the studies'.

    Bold: it differs from the paper's, which may be another on this data set. Those that have a default are shown where
    one of the columns departs from it.
    """
    columns = {"paper": asdict(musgrave2020.PROTOCOL)} | {records.name: records.meta["protocol"] for records in edition}
    values = pd.DataFrame(columns).drop(index=["name", "paper"])
    cells = labels.format_settings(values)
    defaults = {name: labels.setting(name, value) for name, value in default_settings().items()}
    cells = cells.drop(index=[name for name, text in defaults.items() if (cells.loc[name] == text).all()])
    cells.loc[cells.index.isin(CROPS), cells.loc["augmentation"] == "none"] = "–"
    theirs = pd.DataFrame(dict.fromkeys(cells, cells["paper"]))
    for records in edition:
        dataset = records.meta["dataset"].removesuffix("crops")
        for name, value in musgrave2020.VALIDATION.get(dataset, {}).items():
            theirs.loc[name, records.name] = text = labels.setting(name, value)
            theirs.loc[name, "paper"] = f"{cells.loc[name, 'paper']} ({labels.dataset_label(dataset)}: {text})"
    marks = cells.ne(theirs).assign(paper=False).replace({True: "best", False: ""})
    return cells.assign(paper=theirs["paper"]), marks


def pretrained_trunks(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """Table 1 of the Reality Check and our pretrained rows: P@1 of trunk features, reduced by PCA, in percent."""
    cells = _printed("Table 1").map(labels.one_digit)
    for records in edition:
        frame = accuracy(records).set_index(["method", "setting", "metric"])["mean"]
        if (key := (PRETRAINED, "concatenated", "precision_at_1")) in frame.index:
            protocol = records.meta["protocol"]
            name = titles.TRUNKS.get(protocol["trunk"], protocol["trunk"])
            row = name if protocol["weights"] else f"{name}, untrained"
            cells.loc[row, records.name] = labels.one_digit(frame[key])
    return cells.fillna("–").rename_axis("Trunk").rename_axis(None, axis=1)


def _printed(table: str) -> pd.DataFrame:
    """A table of the paper: a row a trunk, a column a data set."""
    rows = published.trunks().query("source_table == @table")
    trunks = rows.pivot(index="network", columns="dataset", values="value")
    return trunks[list(published.DATASETS)].rename(index=AS_ELSEWHERE)


def random_trunk_cells(nmi_by_dataset: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Table 2 of the Reality Check and ours (`untrained.random_trunks`): NMI of random trunks, last by its formula."""
    table, chance = _printed("Table 2"), {}
    for name, frame in nmi_by_dataset.items():
        for (classes, images), part in frame.groupby(["classes", "images"], sort=False):
            column = f"{name}, {classes} x {images:.0f}"
            for row in part.itertuples():
                table.loc[titles.TRUNKS.get(row.trunk, row.trunk), column] = row.nmi
            chance[column] = nmi_of_random(classes, images)
    table.loc["formula: 1 − log S / log C"] = pd.Series(chance)
    return table.map(labels.one_digit).replace("", "–").rename_axis("Random trunk").rename_axis(None, axis=1)


def results_scalars(records: StudyRecords) -> dict[str, float | str]:
    """The named numbers of a study that a chapter records."""
    table = accuracy(records)
    gains = {f"gain_over_{name}": float(tables.improvement(table, name)["concatenated"]) for name in CLASSICS}
    return {name: value for name, value in (tables.spread(table) | gains).items() if value == value}  # NaN is no JSON


def cut_off_by_study(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """`tables.cut_off`, a row a method, a column a study: those of which a method was run; the most cut off first."""
    shares = {records.name: tables.cut_off(records) for records in edition}
    table = pd.DataFrame({name: share for name, share in shares.items() if len(share)})
    return table.loc[table.max(axis=1).sort_values(ascending=False, kind="stable").index]


def cut_off_cells(shares: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`cut_off_by_study` as cells, and which of them are more than protocol and preregistration allow."""
    table = shares.rename(index=labels.method_label)
    cells = table.map(lambda share: "–" if np.isnan(share) else f"{100 * share:.0f} %")
    return cells, table.gt(tables.MOST_CUT_OFF).map(lambda above: "best" if above else "")


def cost_cells(records: StudyRecords) -> pd.DataFrame:
    """`tables.cost` as cells."""
    table = tables.cost(records)
    cells = pd.DataFrame({"search, minutes": (table["search_seconds"] / 60).map("{:.1f}".format)})
    cells["a rerun, seconds"] = table["seconds"].map("{:.1f}".format)
    cells["a rerun, steps"] = table["steps"].map("{:,.0f}".format)
    return _and_fallen(cells, records).rename(index=labels.method_label)


def _and_fallen(cells: pd.DataFrame, records: StudyRecords) -> pd.DataFrame:
    """Cells by method with a last row for each that was run and came to no score, whose first one says what became."""
    fallen = {name: state for name, state in tables.fallen(records).items() if name not in cells.index}
    rows = pd.DataFrame({cells.columns[0]: fallen}, dtype=object)
    return pd.concat([cells.astype(object), rows.reindex(columns=cells.columns, fill_value="–")]).rename_axis("method")


def sensitivity_cells(records: StudyRecords, methods: Methods = METHODS) -> pd.DataFrame:
    """`tables.sensitivity` as cells."""
    table = tables.sensitivity(records)
    shares = {"median_share": "median / best", "random_share": "median of random / best"}
    cells = table[["best", "median", "worst", *shares]].map(labels.percent).assign(trials=table["trials"])
    cells = cells.rename(columns=shares)
    return _and_fallen(cells, records).rename(index=lambda name: labels.method_label(name, methods))


def best_hyperparameters_cells(records: StudyRecords) -> pd.DataFrame:
    """`tables.best_hyperparameters` as cells."""
    best = tables.best_hyperparameters(records).set_index(["method", "hyperparameter"])
    return labels.cells(best[["value", "low", "high"]], form="")
