"""The results of a study as lines of text: methods in order, with intervals, ranks, and who may be the best."""

import textwrap

import numpy as np
import pandas as pd

from dmlrc import studies
from dmlrc.protocol import own_metric
from dmlrc.records import StudyRecords, died
from dmlrc.report import about, console, labels, rates, repetitions, tables
from dmlrc.report.tables import PRETRAINED, SETTINGS

_METRICS = ("map_at_r", "precision_at_1", "r_precision")
_SAID = ("trunk", "weights", "frozen_trunk", "folds", "max_epochs", "iterations_per_epoch")
"""Settings that the first lines name, or that a budget caps."""
_MODELS = {"concatenated": "joined", "separated": "one model"}


def lines(records: StudyRecords) -> list[str]:
    """Lines on what was run, one per method with the highest first, and on the meaning of intervals and marks.

    Without test scores, as in a study that chooses a learning rate: the best trials on the validation classes.
    """
    under_way, records = records, repetitions.whole(records)
    facts = about.row(records)
    facts["protocol"] += "".join(f", {words}" for words in _own_settings(records))
    parts = (facts["data"], *(f"{name} {facts[name]}" for name in ("protocol", "budget", "seed", "commit")))
    head = textwrap.wrap(f"{records.name}: {'; '.join(parts)}", 100, break_on_hyphens=False)
    head += _unfinished(under_way)
    if records.reruns.empty:
        return [*head, "", *_validation(records)]
    rows, legend = ranked(records)
    if records is not under_way:
        legend.append("Without the repetitions that not every method has finished yet.")
    return [*head, "", *console.columns(rows), "", *legend]


def _own_settings(records: StudyRecords) -> list[str]:
    """The settings, as printed, in which a protocol differs from the nearest one of its name here."""
    apart, protocol = [], records.meta["protocol"]
    for base in (study.protocol for study in studies.STUDIES.values() if study.protocol.name == protocol["name"]):
        text = {key: labels.setting_text(getattr(base, key, own)) for key, own in protocol.items() if key not in _SAID}
        mine = {key: protocol[key] for key in text if text[key] != labels.setting_text(protocol[key])}
        apart.append([f"{labels.SETTING_LABELS.get(key, key)} {labels.setting(key, own)}" for key, own in mine.items()])
    return min(apart, key=len, default=[])


def _unfinished(records: StudyRecords) -> list[str]:
    """Lines on the methods that are not whole, if any, and what each has; what killed its workers is run again."""
    budget, known = records.meta["budget"], studies.known().get(records.name)
    methods = [method.name for method in known.methods] if known else list(records.meta.get("settings", ()))
    if records.meta["kind"] == "comparison":  # its settings are those of the study that it stands beside
        methods = [*dict.fromkeys([*records.trials["method"], *records.reruns["method"]])]
    searches, runs = records.meta.get("repetitions", 1), tables.status(records, dict.fromkeys(methods)).loc[methods]
    killed = died(records.trials).groupby(records.trials["method"]).sum().reindex(runs.index, fill_value=0)
    done = {"trials": runs["trials"] - killed, "reruns": runs["reruns"] + runs["diverged_reruns"]}
    lacking = runs["state"].isin(("unfinished", "not run")) | (killed + runs["failed_reruns"] > 0)

    def asked(number: dict[str, int], between: str) -> str:
        return between.join(labels.plural(count, kind[:-1]) for kind, count in number.items() if budget[kind])

    begun = {}
    for method in runs.index[lacking]:
        has = asked({kind: int(counts[method]) for kind, counts in done.items()}, ", ")
        begun.setdefault(has, []).append(method)
    if not begun:
        return []
    wanted = asked({kind: searches * budget[kind] for kind in ("trials", "reruns")}, " and ")
    text = f"Unfinished, so that ranks may change: {sum(lacking)} of {len(methods)} methods lack some of {wanted} each"
    present = ", ".join(f"{', '.join(those)} ({has}{' each' * (len(those) > 1)})" for has, those in begun.items())
    return ["", *textwrap.wrap(f"{text}: {present}.", 100, break_on_hyphens=False)]


def ranked(records: StudyRecords) -> tuple[list[tuple[str, ...]], list[str]]:
    """The results as rows below their headings, in order of the first accuracy, and what they mean, a sentence each."""
    frame, cut_off = tables.accuracy(records), tables.cut_off(records)
    trained = frame[frame["method"] != PRETRAINED].groupby("setting")["method"].nunique()
    settings = [setting for setting in SETTINGS if setting in set(frame["setting"])]
    settings.sort(key=lambda setting: -trained.get(setting, 0))  # first the one that most methods have
    own = [*filter(None, map(own_metric, records.meta["protocol"]["test_metrics"]))]
    present = dict.fromkeys(frame["metric"][frame["setting"] == settings[0]])
    known = [metric for metric in _METRICS if metric in present] or [name for name in present if name not in own]
    shown = [(settings[0], metric) for metric in known]
    shown += [(setting, "map_at_r") for setting in settings[1:] if "map_at_r" in present]
    shown += [(settings[0], metric) for metric in own]
    apart_from = {setting: f", {_MODELS[setting]}" for setting in settings[1:]}
    heads = [labels.METRIC_LABELS.get(name, name) + apart_from.get(place, "") for place, name in shown]
    columns = [tables.by_method(frame, metric, setting) for setting, metric in shown]
    first = columns[0].sort_values("mean", ascending=False, kind="stable")
    marks = tables.marks(first.reset_index()).set_axis(first.index)
    runs, searches = tables.status(records), repetitions.lost_searches(records).groupby("method").size()
    lost = runs["diverged_reruns"] + runs["failed_reruns"]
    ranks = _ranks(first)
    rows = [("rank" if any(ranks) else "", "method", heads[0], "", *heads[1:])]
    for name, rank in zip(first.index, ranks, strict=True):
        cells = [_cell(column, name) for column in columns]
        cells[0] += f" {labels.CUT_OFF}" * bool(cut_off.get(name, 0.0) > tables.MOST_CUT_OFF)
        cells[0] += f" ({lost[name]} lost)" if lost.get(name, 0) else ""
        cells[0] += f" ({labels.plural(int(searches[name]), 'search')} lost)" if name in searches else ""
        rows.append((rank, name, cells[0], "*" if marks[name] else "", *cells[1:]))
    rows += [("", name, state, *[""] * (len(rows[0]) - 3)) for name, state in tables.fallen(records).items()]
    rows = _beside(rows, records, 1)
    signs = labels.signs(pd.DataFrame(rows[1:]))
    some_lost = bool(lost.reindex(first.index).sum() or searches.reindex(first.index).sum())
    legend = _legend(first, settings[0], any(ranks), bool(records.meta["budget"]["trials"]), some_lost)
    legend += _lift(frame, records)
    if marks.any():
        legend.append("*: tied with the best (multiple comparisons with the best, 95 %).")
    notes = [f"{heads[-1 - place]}: a metric of your own, as it is." for place in range(len(own))[::-1]]
    return rows, [*legend, *notes, *filter(None, [signs])]


def _beside(rows: list[tuple[str, ...]], records: StudyRecords, at: int) -> list[tuple[str, ...]]:
    """The rows with the settings in which methods, named in this column, differ from the protocol, if some do."""
    if apart := about.apart(records):
        head, *body = rows
        rows = [(*head, about.NOT_AS_THE_PROTOCOL), *((*row, apart.get(row[at], "")) for row in body)]
    return rows


def _cell(column: pd.DataFrame, name: str) -> str:
    """A mean with its interval, and a sign where it is below the untrained trunk; of a metric of one's own as it is."""
    if name not in column.index:
        return ""
    if column["metric"].iloc[0] not in labels.METRIC_LABELS:
        return labels.number(*column.loc[name, ["mean", "ci95"]], form=".4g")
    below = column["mean"][name] < column["mean"].get(PRETRAINED, np.nan)
    return labels.score(*column.loc[name, ["mean", "ci95"]]) + f" {labels.BELOW}" * bool(below)


def _ranks(first: pd.DataFrame) -> list[str]:
    """The rank of each method and the ranks that it may have, "3 (2-7)"; the untrained trunk does not compete."""
    texts, place = [], 0
    if len(first.index.drop(PRETRAINED, errors="ignore")) < 2:  # a method alone is first of none
        return [""] * len(first)
    for name, row in first.iterrows():
        place += name != PRETRAINED
        texts.append("" if name == PRETRAINED else f"{place} ({row['rank_low']:.0f}-{row['rank_high']:.0f})")
    return texts


def _legend(first: pd.DataFrame, setting: str, is_ranked: bool, searched: bool, lost: bool) -> list[str]:
    """The meaning of the columns, one sentence per line."""
    joined = "the embeddings of all folds joined" if setting == "concatenated" else "one model"
    luck = "search and seed" if "seed_ci95" in first else "seeds alone"
    once = ["Each method was searched once, and the noise between searches is not in the intervals."]
    ranks = ", and ranks in brackets (all right in 95 % of studies, 90 % beside a noisier one)," * is_ranked
    known = bool(first["ci95"].notna().any())
    return [
        f"Test classes, percent, {joined}: mean over the reruns{', 95 % interval' * known}.",
        *[f"Intervals{ranks} count {luck}."] * known,
        *once * (known and searched and "seed_ci95" not in first),
        *["lost: reruns, or searches with all of their trials, that diverged or failed; no mean counts them."] * lost,
        *[labels.PCA] * (PRETRAINED in first.index),
    ]


def _lift(frame: pd.DataFrame, records: StudyRecords) -> list[str]:
    """A line on the mean lift of one model over the trunk, and whether it lets losses be ranked; none of a sweep."""
    means = tables.by_method(frame, setting="separated")["mean"]
    lift = tables.lift(means)
    if np.isnan(lift) or records.scores["level"].notna().any():
        return []
    points, cannot = labels.signed(lift, 2, ""), ": this table cannot rank losses" * bool(lift <= 0 and len(means) > 2)
    return [f"On average training lifts the scores of one model by {points} points over the untrained trunk{cannot}."]


def _validation(records: StudyRecords) -> list[str]:
    """The best trial of each method on the validation classes."""
    best = records.trials.groupby("method", sort=False)["value"].max().sort_values(ascending=False)
    if best.empty:
        return ["No trial is finished yet."]
    cells = best.map(labels.percent).where(best.notna(), pd.Series(tables.fallen(records)))
    rows = _beside([("method", "MAP@R"), *cells.items()], records, 0)
    unfinished = "; no rerun is finished" if records.meta["budget"]["reruns"] else ""
    return [
        *console.columns(rows),
        "",
        *_by_rate(records),
        f"Validation classes, percent: the best trial of each method{unfinished}.",
    ]


def _by_rate(records: StudyRecords) -> list[str]:
    """A line on the mean over the methods at each rate, where rates were to be chosen."""
    if records.meta["kind"] != "rates":
        return []
    means = rates.rate_means(rates.best_trials(records)).dropna()
    by_rate = ", ".join(f"{labels.percent(mean)} at {labels.rate(rate)}" for rate, mean in means.items())
    return [f"Means over the methods, by learning rate: {by_rate}."] * bool(by_rate)
