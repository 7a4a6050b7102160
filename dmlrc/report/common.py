"""Code that chapters on other papers share: an experiment's numbers over its seeds, beside a paper's."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import claims, labels, power, publish, starts, statistics, style, tables
from dmlrc.report.claims.figures import claims_figures as draw_forest
from dmlrc.report.results_table import results_table
from dmlrc.report.statistics import Estimate, of_groups
from dmlrc.studies.adapted import WHOLE_IMAGES

ByStudy = Mapping[str, StudyRecords]
"""Of one experiment: main study -> records, of those around which it was run."""

R1 = "precision_at_1"
PAPER = "the paper"
NOT_RUN = pd.DataFrame({"ours": ["Not run here yet"], "how to run it": ["see the foot of the page"]}, ["experiment"])


# Numbers over the seeds


def seed_scores(records: StudyRecords, metric: str | None = None, setting: str | None = None) -> pd.DataFrame:
    """Every test score, or those of a metric and setting: method, row, value, rerun, setting, metric, score (fraction).

    row, value: of a sweep's method (`dmlrc.methods.Method`), else "". Scores that are not finite are left out.
    """
    scores = records.scores.assign(level=score_levels(records)).rename(columns={"value": "score", "level": "value"})
    for name, wanted in {"metric": metric, "setting": setting}.items():
        if wanted:
            scores = scores[scores[name] == wanted]
    return scores[np.isfinite(scores["score"])].fillna({"value": ""})


def score_levels(records: StudyRecords) -> pd.Series:
    """The level of each row of `records.scores`, that of whole images by the pixels that they have in this study."""
    return records.scores["level"].replace({WHOLE_IMAGES: f"{records.meta['protocol']['crop_size']}px"})


def over_seeds(records: StudyRecords, metric: str | None = None, setting: str | None = None) -> pd.DataFrame:
    """`seed_scores` over the reruns: method, row, value, setting, metric, mean, ci95 (half a Student interval), n."""
    groups = seed_scores(records, metric, setting).groupby(["method", "row", "value", "setting", "metric"], sort=False)
    return of_groups(groups["score"]).reset_index()


def sweep(records: StudyRecords, metric: str = R1) -> pd.DataFrame:
    """Scores of single models against the number that a sweep varies: method, number, mean, ci95, n, untrained."""
    frame = over_seeds(records, metric, "separated")
    frame = frame[frame["value"] != ""]
    numbers = frame["value"].map(records.level_numbers)
    points = frame.assign(method=frame["row"], number=numbers, untrained=starts.of_trunk(records))
    return points[["method", "number", "mean", "ci95", "n", "untrained"]].sort_values(["method", "number"])


def absence(records: StudyRecords, method: str) -> str:
    """The reason why a method has no scores: "not run", "diverged", "failed", "unfinished"; "" where it has some."""
    if (records.scores["method"] == method).any():
        return ""
    return tables.fallen(records).get(method, "not run")


def protocol_of(records: StudyRecords, method: str) -> dict:
    """The protocol as a method of these records ran under it."""
    return {**records.meta["protocol"], **records.meta.get("changes", {}).get(method, {})}


def difference(scores: pd.DataFrame, first: str, second: str) -> Estimate:
    """Difference of the means of two methods in `seed_scores` of one metric, by Welch over their reruns: no pairs."""
    one, other = (scores["score"][scores["method"] == name] for name in (first, second))
    return statistics.welch(one, other, "reruns")


def doublings(records: StudyRecords) -> pd.DataFrame:
    """The rise of R@1 for each doubling of a sweep's number, indexed by row: mean, ci95, n.

    The least-squares slope over log2 of the number, for each rerun with several; then over the reruns.
    """
    scores = seed_scores(records, R1, "separated")
    scores = scores[scores["value"] != ""]
    slopes = [
        (row, statistics.slope(np.log2(part["level_number"]), part["score"]).value)
        for (row, _), part in scores.groupby(["row", "rerun"])
        if part["value"].nunique() > 1
    ]
    return of_groups(pd.DataFrame(slopes, columns=["row", "slope"]).groupby("row")["slope"])


def ranks_of(rows: pd.DataFrame, name: str) -> tuple[float, float, int]:
    """The lowest and highest rank of a name in `over_seeds`, by the noise of seeds (NaN: none), and the ranked rows."""
    placed = statistics.by_luck_of_seeds(rows).reindex([name])
    return *placed.loc[name, ["rank_low", "rank_high"]].astype(float), rows["mean"].notna().sum()


def metric_label(metric: str) -> str:
    """A metric as these papers print it: P@1 is R@1.

    >>> metric_label("precision_at_1"), metric_label("recall_at_16"), metric_label("nmi")
    ('R@1', 'R@16', 'NMI')
    """
    name = metric.replace("precision_at_", "R@").replace("recall_at_", "R@")
    return labels.METRIC_LABELS.get(name, name)


# Tables: ours beside a paper's


def ours(by_study: ByStudy, rows: Callable[[StudyRecords], pd.DataFrame]) -> pd.DataFrame:
    """Rows of every study, distinguished by `source`, in a column of its name, and of their `head` if they have one."""
    frames = [rows(records).assign(source=name) for name, records in by_study.items()]
    frame = pd.concat(frames or [pd.DataFrame(columns=["source", "method", "mean", "ci95"])], ignore_index=True)
    heads = list(zip(frame["source"], frame["head"], strict=True)) if "head" in frame else frame["source"]
    return frame.assign(column=heads)


def with_ours(published: pd.DataFrame, by_study: ByStudy, rows: Callable[[StudyRecords], pd.DataFrame]) -> pd.DataFrame:
    """A paper's printed numbers and those of every study over its seeds, distinguished by `source`: what a CSV has."""
    theirs = published.assign(source=PAPER).rename(columns={"value": "mean"})
    return pd.concat([theirs, ours(by_study, rows).drop(columns="column")], ignore_index=True).set_index("source")


def under(frame: pd.DataFrame, *heading: str) -> pd.DataFrame:
    """Rows of `results_table` in the column of this heading."""
    return frame.assign(column=[heading if len(heading) > 1 else heading[0]] * len(frame))


def trunk_row(records: StudyRecords) -> pd.DataFrame:
    """R@1 of the untrained trunk as a row, without an interval."""
    return pd.DataFrame({"method": [PRETRAINED], "mean": starts.of_trunk(records), "n": 1})


def with_ranks(frame: pd.DataFrame, beside: Collection[str] = (PRETRAINED,)) -> pd.DataFrame:
    """Rows as `results_table` takes them: ranks and ties of ours by the noise of seeds, of a paper the highest alone.

    frame: column, method, mean, ci95 and n, which is NaN of a paper; may have block. The rows of a column and block
    compete, but for `beside`. untrained: the trunk's in the column; gap: see `power.least_of_seeds`.
    """
    frame = frame.reset_index(drop=True).reindex(columns=list(dict.fromkeys([*frame, "ci95", "n"])))
    groups = ["column", *({"block"} & set(frame))]
    competing = frame[frame["mean"].notna() & ~frame["method"].isin(list(beside))]
    ours = competing[competing["n"].notna()]
    several = ours.groupby(groups)["method"].transform("size") > 1
    placed = statistics.by_luck_of_seeds(ours, groups)[several].reindex(frame.index)
    placed["among_best"] = placed["among_best"].astype(object)
    placed.loc[competing.index.difference(ours.index), "among_best"] = False
    placed["gap"] = power.least_of_seeds(ours[several], groups)
    trunk = frame["mean"].where(frame["method"] == PRETRAINED).groupby(frame["column"]).transform("max")
    return frame.assign(untrained=trunk, **placed)


def in_order(methods: pd.Series, order: Sequence[str], label: Callable[[str], str]) -> pd.Categorical:
    """Methods as printed, which stand in this order in a table."""
    return pd.Categorical(methods, order).rename_categories(list(map(label, order)))


def paper_first(scores: pd.DataFrame) -> pd.DataFrame:
    """Rows of `results_table` with their `source`: the paper's, then those that ours add, the untrained trunk last."""
    order = scores["source"].ne(PAPER).astype(int) + (scores["method"] == PRETRAINED)
    rows = scores["row"][order.sort_values(kind="stable").index].drop_duplicates()
    return scores.assign(row=pd.Categorical(scores["row"], rows))


def empty_rows(records: StudyRecords) -> pd.DataFrame:
    """The methods without any score, as rows of `results_table`: method, text (what became of them), mean (NaN)."""
    return pd.DataFrame(tables.fallen(records).items(), columns=["method", "text"]).assign(mean=math.nan)


def show_scores(name: str, scores: pd.DataFrame, caption: str, index: str | Sequence[str] = "Method", **given) -> None:
    """Publish `results_table` of scores, in percent with a digit; of none, that nothing was run. given: as there."""
    if scores.empty:
        return publish.table(name, NOT_RUN, caption)
    cells, marks = (frame.rename_axis(index) for frame in results_table(scores, 1))
    publish.table(name, cells, caption, marks=marks, **given)


def show_figures(
    name: str,
    by_study: Mapping[str, object],
    draw: Callable[..., Figure],
    *texts: str,
    folded: str = "",
    shared: bool = False,
) -> None:
    """Publish a figure of each study around which its experiment was run; of none, that nothing was run.

    draw: from a study's name and its part of `by_study`. texts: caption and message. shared: one horizontal scale.
    """
    if drawings := [draw(study, records) for study, records in by_study.items()]:
        publish.figure(name, style.share_axes(drawings) if shared else drawings, *texts, folded)
    else:
        publish.table(name, NOT_RUN, texts[0])


# Figures


def errorbars(axis: Axes, x: pd.Series, rows: pd.DataFrame, **look) -> None:
    """A line of means in percent with 95 % intervals, which end where the scale does. rows: mean and ci95."""
    mean, half = 100 * rows["mean"], 100 * rows["ci95"].fillna(0.0)
    return axis.errorbar(x, mean, yerr=[half.clip(upper=mean), half.clip(upper=100 - mean)], **look)


def band(axis: Axes, x: pd.Series, mean: pd.Series, low: pd.Series, high: pd.Series, color: str, **look) -> None:
    """A line, and a band around it from low to high."""
    axis.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
    axis.plot(x, mean, color=color, linewidth=1.3, **look)


def doubling_axis(axis: Axes, ticks: Iterable[float], **text) -> None:
    """A horizontal axis on which a doubling is a step, with a tick at each of these numbers."""
    ticks = sorted(set(ticks))
    axis.set_xscale("log", base=2)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks], **text)


FOREST = (
    "How far inside its region (shaded) the number of each claim lies, in half widths of its 95 % interval. "
    "Filled: reproduced beyond the right dotted line, not reproduced beyond the left. Hollow: inconclusive. "
    "Point at a mark for the number and the reason."
)


def publish_forest(
    name: str, studies: Sequence[StudyRecords] | claims.Judged, section: str, folded: str = "", caption: str = FOREST
) -> None:
    """Publish the figure of a section's claims under a name; nothing where none has a number. folded: as there."""
    of_section = claims.of_section(section)
    own, judged = {claim.id for claim in of_section}, claims.judge_all(studies, section)
    if drawings := draw_forest({study: given for study, given in judged.items() if own & given.keys()}, of_section):
        publish.figure(
            name,
            drawings,
            caption,
            "A line a claim, a mark a data set: how far inside or outside the region of the claim its number lies.",
            folded,
        )


# The numbers of the text


def numbers(
    edition: Sequence[StudyRecords],
    judged: claims.Judged,
    of_study: Callable[[str], Mapping[str, float | str]],
    spans: Collection[str] = (),
) -> dict[str, float | str]:
    """The numbers behind a chapter's text, a study by its data set: its own numbers and the verdicts on its claims.

    judged: of the chapter's section. of_study: the numbers around a main study. spans: those whose lowest and highest
    are given too. Over all: how many verdicts are settled, reproduced, exploratory; how many claims are withdrawn.
    most_low: how many of a study's claims are open because most of their models lie below the untrained start.
    """
    exploratory = {claim.id for claim in claims.CLAIMS if claim.exploratory}
    settled = [item for main in edition for item in judged[main.name].items() if item[1].settled]
    named: dict[str, float | str] = {"settled": len(settled)}
    named["reproduced"] = sum(verdict.verdict == claims.REPRODUCED for _, verdict in settled)
    named["exploratory"] = sum(name in exploratory for name, _ in settled)
    named["withdrawn"] = sum(verdict.verdict == claims.RETRACTED for verdict in judged[claims.WITHOUT_RECORDS].values())
    of_studies = [dict(of_study(main.name)) for main in edition]
    for main, own in zip(edition, of_studies, strict=True):
        verdicts = judged[main.name]
        own |= {name: verdict.verdict for name, verdict in verdicts.items()}
        own |= {"claims": len(verdicts), "settled": sum(verdict.settled for verdict in verdicts.values())}
        own["most_low"] = sum(verdict.rule == "start" for verdict in verdicts.values())
        named |= {f"{main.meta['dataset']}.{name}": value for name, value in own.items()}
    for name in spans:
        parts = [name] if name in of_studies[0] else [f"{name}_low", f"{name}_high"]
        values = [own[part] for own in of_studies for part in parts]
        named |= {f"{name}_low": min(values), f"{name}_high": max(values)}
    return named
