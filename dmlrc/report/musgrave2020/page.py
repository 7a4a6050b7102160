"""The tables of Musgrave et al. 2020 and what to see in its figures: cells and sentences for the page."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from dmlrc.papers import musgrave2020
from dmlrc.protocol import Protocol, default_settings
from dmlrc.records import StudyRecords
from dmlrc.report import labels, published, tables, titles
from dmlrc.report.statistics import Estimate
from dmlrc.report.tables import (
    CLASSICS,
    METHODS,
    PRETRAINED,
    SETTINGS,
    Methods,
    accuracy,
    deciding,
    improvement,
    marks,
    mean_of,
    nmi_of_random,
    ordered,
    spread,
)

ORDER = ("map_at_r", "precision_at_1", "r_precision")
"""The metrics as a results table has them: first the one that decides, which is all that a phone shows at once."""


def results(
    frame: pd.DataFrame,
    dim: int = 128,
    folds: int = 4,
    state: pd.DataFrame | None = None,
    methods: Methods = METHODS,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and the marks (see `marks`) of a results table in the paper's layout.

    frame: `accuracy` or one data set of `published.results`. dim, folds: of the protocol, for the headings.
    state: `status`; adds rows for methods without any rerun, and where rows rest on unequal numbers of reruns a column
    that says on how many.
    Cells below the untrained trunk, and rows of which too many runs were cut off, have a sign, see `labels.SIGNS`.
    """
    frame = frame[frame["metric"].isin(ORDER)]
    heads = {"concatenated": f"Concatenated ({folds * dim}-d)", "separated": f"Separated ({dim}-d)"}
    names = ordered(frame["method"] if state is None else [*frame["method"], *state.index], methods)
    keys = pd.MultiIndex.from_product([SETTINGS, ORDER])
    printed = frame.assign(cell=_signed(frame, state), mark=marks(frame))
    wide = {
        column: printed.pivot(index="method", columns=["setting", "metric"], values=column)
        .reindex(index=names, columns=keys)
        .fillna("")
        for column in ("cell", "mark")
    }
    for each in wide.values():
        each.columns = pd.MultiIndex.from_tuples(
            [(heads[setting], labels.METRIC_LABELS[metric]) for setting, metric in keys]
        )
    runs = [_reruns(state, name) for name in names] if state is not None else []
    counts = {*runs} - {""}
    if len(counts) > 1 or not all(map(str.isdigit, counts)):  # the same number of all is said by the caption
        wide["cell"][("", "reruns")] = runs
        wide["mark"][("", "reruns")] = ""
    for each in wide.values():
        each.index = pd.Index([labels.method_label(name, methods) for name in names], name="Method")
    return wide["cell"], wide["mark"]


def _signed(frame: pd.DataFrame, state: pd.DataFrame | None) -> pd.Series:
    """The mean and interval of each row of `accuracy`, with the signs that `labels.signs` explains.

    Behind the joined MAP@R in brackets the ranks that it may have, where they are known.
    """
    texts = pd.Series([labels.percent(*pair) for pair in frame[["mean", "ci95"]].to_numpy()], frame.index, dtype=object)
    ranked = deciding(frame)
    if "rank_low" in ranked and ranked["rank_low"].count() > 1:
        texts[ranked.index] += list(map(labels.brackets, ranked["rank_low"], ranked["rank_high"]))
    untrained = frame[frame["method"] == PRETRAINED].set_index(["setting", "metric"])["mean"]
    for place, part in frame.groupby(["setting", "metric"]):
        texts[part.index] = labels.against_untrained(texts[part.index], part["mean"], untrained.get(place, np.nan))
    if state is not None:
        shares = frame["method"].map(state["cut_off"])
        texts = labels.against_limit(texts, shares.where(frame["metric"] == "map_at_r"))
    return texts


def _reruns(state: pd.DataFrame, method: str) -> str:
    if method not in state.index:
        return ""
    row = state.loc[method]
    without = [f"{row[f'{state}_reruns']} {state}" for state in tables.NO_RESULT if row[f"{state}_reruns"]]
    count = ", ".join([f"{row['reruns']}", *without])
    return (
        count if row["state"] == "complete" else row["state"] + (f": {count}" if row["state"] == "unfinished" else "")
    )


def beside_published(edition: Sequence[StudyRecords], theirs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Concatenated MAP@R of every method in a study and in a published table: study, dataset, method, ours, theirs.

    theirs: data set -> one data set of `published.results`.
    """
    rows = [
        pd.DataFrame({"ours": _joined(accuracy(records)), "theirs": _joined(frame)})
        .dropna()
        .drop(index=PRETRAINED, errors="ignore")
        .rename_axis("method")
        .reset_index()
        .assign(study=records.name, dataset=name)
        for records in edition
        for name, frame in theirs.items()
    ]
    return pd.concat(rows, ignore_index=True)


def _joined(frame: pd.DataFrame) -> pd.Series:
    return deciding(frame).set_index("method")["mean"]


def settings(
    edition: Sequence[StudyRecords], paper: Protocol = musgrave2020.PROTOCOL
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and marks of every setting of the protocol: a row a setting, the paper's column, then the studies'.

    A setting that differs from the paper's is marked "best", that is bold. Those that have a default are shown where
    one of the columns departs from it. What the paper has otherwise on a data set of theirs is told too.
    """
    columns = {"paper": asdict(paper)} | {records.name: records.meta["protocol"] for records in edition}
    values = pd.DataFrame(columns).drop(index=["name", "paper"])
    cells = labels.settings(values)
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


CROPS = ("crop_scale", "crop_ratio")
"""Settings of random crops, which say nothing where images are not augmented."""


AS_ELSEWHERE = {"GoogleNet": "GoogLeNet"}
"""A trunk that this paper spells otherwise than the rest of the book."""


def pretrained_trunks(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """Table 1 of the Reality Check and our pretrained rows: P@1 of trunk features, reduced by PCA, in percent."""
    table = published.trunks()
    table = table[table["source_table"] == "Table 1"].pivot(index="network", columns="dataset", values="value")
    cells = table[list(published.DATASETS)].rename(index=AS_ELSEWHERE).map(labels.percent, digits=1)
    for records in edition:
        frame = accuracy(records).set_index(["method", "setting", "metric"])["mean"]
        cells.loc[_pretrained_trunk(records), records.name] = labels.percent(
            frame[PRETRAINED, "concatenated", "precision_at_1"], digits=1
        )
    return cells.fillna("–").rename_axis("Trunk").rename_axis(None, axis=1)


def _pretrained_trunk(records: StudyRecords) -> str:
    protocol = records.meta["protocol"]
    name = labels.TRUNK_LABELS.get(protocol["trunk"], protocol["trunk"])
    return name if protocol["weights"] else f"{name}, untrained"


def random_trunks(nmi_by_dataset: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Table 2 of the Reality Check and ours: NMI of random trunks, in percent.

    nmi_by_dataset: data set -> `untrained.random_trunks`.
    The last row is what embeddings score that know nothing of the images (`untrained.nmi_of_random`).
    """
    table = published.trunks()
    table = table[table["source_table"] == "Table 2"].pivot(index="network", columns="dataset", values="value")
    table = table[list(published.DATASETS)].rename(index=AS_ELSEWHERE)
    chance = {}
    for name, frame in nmi_by_dataset.items():
        for (classes, images), part in frame.groupby(["classes", "images"], sort=False):
            column = f"{name}, {classes} x {images:.0f}"
            for row in part.itertuples():
                table.loc[labels.TRUNK_LABELS.get(row.trunk, row.trunk), column] = row.nmi
            chance[column] = nmi_of_random(classes, images)
    table.loc["formula: 1 − log S / log C"] = pd.Series(chance)
    return table.map(labels.percent, digits=1).replace("", "–").rename_axis("Random trunk").rename_axis(None, axis=1)


def answer(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """A row a results table: the best and the worst method, how far apart, what ties with the best, and the gain."""
    theirs = published.results()
    frames = {f"{name} (the paper)": theirs[theirs["dataset"] == name] for name in published.DATASETS}
    trunks = dict.fromkeys(frames, labels.trunk(asdict(musgrave2020.PROTOCOL)))
    frames |= {records.name: accuracy(records) for records in edition}
    trunks |= {records.name: labels.trunk(records.meta["protocol"]) for records in edition}
    rows = {}
    for name, frame in frames.items():
        apart = spread(frame)
        gains = {baseline: improvement(frame, baseline)["concatenated"] for baseline in CLASSICS}
        rows[name] = {
            **{f"over {baseline}": labels.signed(gain) for baseline, gain in gains.items()},
            "range": labels.percent(apart["range"]),
            "interval": f"{labels.percent(apart['mean_ci95'])}{'' if 'seed_ci95' in frame else ', seeds only'}",
            **{end: _end(frame, apart, end) for end in ("best", "worst")},
            "tied with the best": str((marks(deciding(frame)) == "tie").sum()),
            "untrained trunk": labels.percent(mean_of(frame, PRETRAINED, "map_at_r")) or "–",
            "trunk": trunks[name],
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Results of")


def _end(frame: pd.DataFrame, apart: Mapping, end: str) -> str:
    """The best or the worst method with its MAP@R, with a sign where that is lower than the untrained trunk's."""
    sign = labels.below(apart[end], mean_of(frame, PRETRAINED, "map_at_r"))
    return f"{labels.percent(apart[end])}{sign} {labels.method_label(apart.get(f'{end}_method', ''))}"


def results_sentence(records: StudyRecords, methods: Methods = METHODS) -> str:
    """What a results table says of concatenated MAP@R, in two sentences."""
    frame = deciding(accuracy(records))
    apart = spread(frame)
    ties = int((marks(frame) == "tie").sum())
    count = len(frame) - (PRETRAINED in set(frame["method"]))
    if count < 2:
        return f"On `{records.name}` fewer than two methods have results so far, so there is nothing to compare."
    best, worst = (labels.prose(labels.method_label(apart[name], methods)) for name in ("best_method", "worst_method"))
    tied = f"{ties} of the {count - 1} others cannot be told from {best}" if ties else f"all others lie below {best}"
    return (
        f"On `{records.name}` {best} has the highest MAP@R, {labels.one_digit(apart['best'])} %, and {worst} the "
        f"lowest, {labels.one_digit(apart['worst'])} %. {_luck(frame)}, {tied}."
    )


def _luck(frame: pd.DataFrame) -> str:
    """What the ties of a results table count: see `labels.ties`."""
    return "Counting the luck of search and seed" if "seed_ci95" in frame else "Counting the luck of seeds alone"


def results_scalars(records: StudyRecords) -> dict[str, float | str]:
    """The named numbers of a study that a chapter records."""
    table = accuracy(records)
    gains = {f"gain_over_{name}": float(improvement(table, name)["concatenated"]) for name in CLASSICS}
    return {name: value for name, value in (spread(table) | gains).items() if value == value}  # NaN is no JSON


def trends(slopes: Mapping[str, Estimate]) -> pd.DataFrame:
    """Trends (`statistics.slope`) as cells: points a year, the interval, and the number of points."""
    rows = {
        name: {
            "points a year": _a_year(trend.value),
            "95 % interval": "–" if np.isnan(trend.half) else f"± {100 * trend.half:.2f}",
            "points in the fit": str(trend.n),
        }
        for name, trend in slopes.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def trends_in_short(slopes: Mapping[str, Estimate], newer: Mapping[str, Estimate]) -> str:
    """Of how many tables the measured trend can be told from a flat line, and the span of the slopes.

    slopes: with the two classics; newer: without them.
    """

    def told(found: Mapping[str, Estimate]) -> str:
        apart = sum(map(_sloping, found.values()))
        span = labels.span((trend.value for trend in found.values()), _a_year)
        ends = [end for trend in found.values() for end in (trend.low, trend.high) if end == end]
        possible = f"; by their intervals {labels.span(ends, _a_year)}" * bool(ends)
        return f"{apart or 'none'} of {labels.counted(len(slopes), 'table')} ({span} points a year{possible})"

    return (
        "Where all methods are tuned alike, accuracy clearly rises or falls over the years in "
        f"{told(slopes)}; without the two losses of {tables.NEWER - 1}, in {told(newer)}."
    )


def trends_sentence(slopes: Mapping[str, Estimate], newer: Mapping[str, Estimate]) -> str:
    """Which measured trends can be told from a flat line, with the two classics and without them (newer)."""
    if slopes and not any(map(_sloping, (*slopes.values(), *newer.values()))):
        return trend_sentence(slopes).removesuffix(".") + f", with or without the two losses of {tables.NEWER - 1}."
    without = trend_sentence(newer, f"Without the two losses of {tables.NEWER - 1} it")
    return f"{trend_sentence(slopes)} {without}".strip()


def trend_sentence(slopes: Mapping[str, Estimate], start: str = "The measured trend") -> str:
    """Which of the measured trends can be told from a flat line."""
    flat = [name for name, trend in slopes.items() if not _sloping(trend)]
    sloping = [name for name, trend in slopes.items() if _sloping(trend)]
    sentences = []
    if flat:
        where = _named(flat) if sloping or len(flat) == 1 else f"any of the {len(flat)} tables"
        sentences.append(f"{start} cannot be told from a flat line on {where}.")
    if sloping:
        sentences.append(f"{'It can' if flat else f'{start} can be told from a flat line'} on {_named(sloping)}.")
    return " ".join(sentences)


def _sloping(trend: Estimate) -> bool:
    return abs(trend.value) > trend.half


def _a_year(slope: float) -> str:
    return labels.signed(slope, digits=2, unit="")


def _named(names: Sequence[str]) -> str:
    return labels.listed(map(titles.in_label, names))


def cut_off(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """`tables.cut_off`, a row a method, a column a study: those of which a method was run; the most cut off first."""
    shares = {records.name: tables.cut_off(records) for records in edition}
    table = pd.DataFrame({name: found for name, found in shares.items() if len(found)})
    return table.loc[table.max(axis=1).sort_values(ascending=False, kind="stable").index]


def cut_off_cells(shares: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`cut_off` as cells, and which of them are more than protocol and preregistration allow."""
    table = shares.rename(index=labels.method_label)
    cells = table.map(lambda share: "–" if np.isnan(share) else f"{100 * share:.0f} %")
    return cells, table.gt(tables.MOST_CUT_OFF).map(lambda above: "best" if above else "")


def cost(records: StudyRecords) -> pd.DataFrame:
    """`tables.cost` as cells."""
    table = tables.cost(records)
    return pd.DataFrame(
        {
            "search, minutes": (table["search_seconds"] / 60).map("{:.1f}".format),
            "a rerun, seconds": table["seconds"].map("{:.1f}".format),
            "a rerun, steps": table["steps"].map("{:,.0f}".format),
        }
    ).rename(index=labels.method_label)


def sensitivity(records: StudyRecords, min_trials: int) -> tuple[pd.DataFrame, str]:
    """`tables.sensitivity` as cells, and what to see in them."""
    table = tables.sensitivity(records)
    cells = table[["best", "median", "worst", "median_share"]].map(labels.percent)
    cells = cells.assign(trials=table["trials"]).rename(
        index=labels.method_label, columns={"median_share": "median / best"}
    )
    if records.meta["budget"]["trials"] < min_trials:
        return cells, f"With {records.meta['budget']['trials']} trials a method these shares are anecdotes."
    share = table["median_share"]
    return cells, (
        f"On `{records.name}` {labels.method_label(share.idxmax())} depends least on its "
        f"hyperparameters (the median trial reaches {100 * share.max():.0f} % of the best one), "
        f"{labels.method_label(share.idxmin())} most ({100 * share.min():.0f} %)."
    )


def best_hyperparameters(records: StudyRecords) -> pd.DataFrame:
    """`tables.best_hyperparameters` as cells."""
    table = tables.best_hyperparameters(records)
    cells = table[["method", "hyperparameter"]].assign(
        method=table["method"].map(labels.method_label),
        hyperparameter=table["hyperparameter"].map(labels.parameter),
        **{column: table[column].map(labels.number) for column in ("value", "low", "high")},
    )
    return cells.set_index(["method", "hyperparameter"])


def claimed_improvement(table: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """`tables.claimed_improvement` as cells."""
    cells = table.assign(
        r1=table["r1"].map(labels.one_digit),
        r1_baseline=table["r1_baseline"].map(labels.one_digit),
        gain=table["gain"].map(labels.whole),
    )
    heads = {"r1": "its R@1", "r1_baseline": f"its {baseline} R@1", "dataset": "data set"}
    columns = ["year", "dataset", "r1", "r1_baseline", "gain", "method"]
    return cells.set_index("paper")[columns].rename(columns=heads)


def baselines(table: pd.DataFrame, theirs: Mapping[str, pd.DataFrame], baseline: str) -> str:
    """The range of a baseline's claimed R@1 beside what the fair protocol measured (concatenated), in words.

    table: `tables.claimed_improvement`. theirs: data set -> one data set of `published.results`.
    """
    ranges = []
    for name, frame in theirs.items():
        claimed = table[table["dataset"] == name]["r1_baseline"]
        measured = frame.set_index(["method", "setting", "metric"])["mean"]
        joined, single = (
            labels.one_digit(measured[baseline, setting, "precision_at_1"]) for setting in ("concatenated", "separated")
        )
        ranges.append(
            f"on {name} {labels.one_digit(claimed.min())} to {labels.one_digit(claimed.max())} %, measured {single} % "
            f"with one model and {joined} % with four joined"
        )
    return "; ".join(ranges)


def recycled(table: pd.DataFrame) -> pd.DataFrame:
    """`tables.recycled` as cells."""
    cells = table.assign(r1=table["r1"].map(labels.one_digit)).set_index(["dataset", "r1"])
    return cells.rename(columns={"who": "printed by"}).rename_axis(["data set", "R@1"])
