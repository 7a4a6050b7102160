"""The page of a comparison: what can be said of one's own loss, its place among all, tests, cost, sensitivity."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd

from dmlrc import paths, records
from dmlrc.methods import Method
from dmlrc.protocol import TABLE
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import about, labels, publish, published, statistics, tables, titles
from dmlrc.report.answers import say
from dmlrc.report.musgrave2020 import figures, years
from dmlrc.report.musgrave2020 import page as musgrave
from dmlrc.report.significance import figures as drawn
from dmlrc.report.significance import measures
from dmlrc.report.significance import page as significance
from dmlrc.report.significance.measures import ALPHA, BORROWED, MARGIN, SEEDS, Comparison

MIN_TRIALS = 10
"""Trials below which a search ranks nothing."""
_STYLE = """
:root { --dml-paper: #fff; --dml-lines: rgba(128, 128, 128, 0.35); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
.dml-scroll { overflow-x: auto; margin: 2rem 0 .3rem; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; white-space: nowrap; }
thead th { border-bottom: 1px solid #888; text-align: center; }
tbody th { text-align: left; font-weight: normal; }
tbody tr + tr > * { border-top: 1px solid #ddd; }
table.dml-wrap td { white-space: normal; text-align: left; }
svg { width: 100%; max-width: 36rem; height: auto; display: block; margin-top: 2rem; }
"""


def show_comparison(recorded: StudyRecords, methods: Sequence[Method]) -> dict[str, float | str]:
    """Show the comparison of the reader's own methods with all others of `load_comparison`; return what is recorded."""
    known = tables.METHODS | {method.name: method for method in methods}
    compared = measures.compare(recorded, lending_studies(recorded))
    caption, accuracy = labels.caption(recorded), tables.accuracy(recorded)
    if compared.luck == BORROWED:  # the verdicts' ranks count more luck than these
        accuracy = accuracy.drop(columns=["rank_low", "rank_high"])
    printed = [replace(method, label=labels.prose(method.label)) for method in methods]
    verdicts = [verdict(recorded, compared, method) for method in printed]
    publish.takeaways(*verdicts, significance.luck(compared))

    cells, marks = musgrave.results_of(recorded, known, accuracy)
    heading = f"The results table with your rows at its end. {labels.marks_legend(accuracy)} {labels.signs(cells)}"
    pca = f" {labels.PCA.capitalize()}" * (PRETRAINED in set(accuracy["method"]))
    publish.table("fork-results", cells, f"{heading}{pca} {caption}", data=accuracy, marks=marks)
    for method in methods:
        if method.name in compared.methods and len(compared.methods) > 1:
            _against_all(compared, method, known, caption)
    title = titles.title(recorded.meta.get("parent") or recorded.name)
    heading = f"MAP@R of every method with its 95 % interval, your rows included. {caption}"
    message = "A row a method, the best on top: its mean with the interval, and yours as stars."
    publish.figure("fork-accuracy", figures.result_figures({title: accuracy}, methods=known), heading, message)
    cost = measures.cost_and_accuracy(compared, recorded)
    if len(cost):
        drawing = drawn.cost_figure(title, cost, known)
        message = "Accuracy with its interval against training steps, and against seconds."
        heading = "Concatenated MAP@R with its 95 % interval against the steps and the seconds of a rerun."
        publish.figure("fork-cost", drawing, f"{heading} Pale: methods clearly below the best. {caption}", message)
    heading = "How much depends on the hyperparameters: validation MAP@R of the trials, %."
    publish.table("fork-sensitivity", musgrave.sensitivity_cells(recorded, known).rename_axis("Method"), heading)
    _show_trend(title, recorded, accuracy, known)
    runs = pd.DataFrame({recorded.name: about.row(recorded)}).rename_axis("What was run")
    publish.table("fork-runs", runs, "What the numbers were made of.", wrap=True)
    publish.text(labels.caveats([recorded]))
    return {"methods": len(methods), "best": tables.spread(accuracy).get("best_method", "")}


def _against_all(compared: Comparison, method: Method, known: Mapping[str, Method], caption: str) -> None:
    cells = tests(compared, method.name, known)
    heading = (
        f"{labels.prose(method.label)} minus each: points of concatenated MAP@R with their 95 % interval, p corrected "
        f"by Holm. Tests: {len(cells)} ({compared.luck}). Equal: within {labels.number(MARGIN, form='.0%')} point."
    )
    publish.table(f"fork-tests-{method.name}", cells, f"{heading} {caption}")


def _show_trend(title: str, recorded: StudyRecords, accuracy: pd.DataFrame, known: Mapping[str, Method]) -> None:
    """Show what papers claim over the years, and what is measured, one's own methods that have a year among it."""
    measured = tables.measured_by_year(accuracy, methods=known).dropna()
    if measured["year"].nunique() > 1:
        paper = {name: tables.measured_by_year(part) for name, part in published.musgrave_tables().items()}
        drawings = [
            figures.claimed_over_the_years(years.headline_claims(), paper),
            figures.measured_over_the_years({title: measured}, {title: tables.mean_of(accuracy, PRETRAINED)}, known),
        ]
        heading = "P@1 over the years: what papers claim, and what is measured here, your methods included."
        own, claimed = statistics.slope(measured["year"], measured["value"]).value, years.claimed_slopes()
        points = ", ".join(f"{titles.in_label(name)} {labels.signed(at.value, 1, '')}" for name, at in claimed.items())
        message = f"Claimed P@1 climbs by points a year: {points}. Measured on {title}: "
        message += f"{labels.signed(own, 1, '')} a year."
        publish.figure("fork-trend", drawings, f"{heading} {labels.caption(recorded)}", message)


def lending_studies(recorded: StudyRecords) -> list[StudyRecords]:
    """The methods tables here that may lend the noise of search: searched more than once, in MIN_TRIALS or more."""
    if recorded.searches > 1:
        return []
    names = {name for folder in (paths.runs(), paths.results()) for name in records.recorded_in(folder)}
    metas = [records.load(name) for name in sorted(names - {recorded.name}) if _searched_again(name)]
    return [study for study in metas if study.searches > 1]


def _searched_again(name: str) -> bool:
    files = [folder / "meta.json" for folder in (paths.runs() / name, paths.committed(name))]
    metas = [records.read_raw_meta(file) for file in files if file.exists()]
    return any(
        meta.get("repetitions", 1) > 1 and meta.get("kind", TABLE) == TABLE and meta["budget"]["trials"] >= MIN_TRIALS
        for meta in metas
    )


def against(compared: Comparison, name: str) -> pd.DataFrame:
    """Differences of this method to all others, by name: difference, low, high, holm (over these alone), equal."""
    pairs = measures.both_ways(compared.pairs)
    own = pairs[pairs["a"] == name].set_index("b").rename_axis("method")
    others = [other for other in compared.summary["mean"].sort_values(ascending=False).index if other != name]
    return own.loc[others].assign(holm=lambda rows: statistics.holm(rows["p"]))


def tests(compared: Comparison, name: str, known: Mapping[str, Method]) -> pd.DataFrame:
    """`against` as cells, the best method first."""
    pairs = against(compared, name)
    rows = list(pairs.itertuples())
    cells = {"points": [labels.number(row.difference, low=row.low, high=row.high, form="+.2%") for row in rows]}
    cells |= {"p (Holm)": pairs["holm"].map(significance.p_value).to_numpy(), "verdict": [_told(row) for row in rows]}
    names = [labels.method_label(other, known) for other in pairs.index]
    return pd.DataFrame(cells, index=pd.Index(names, name="Against"))


def _told(row) -> str:
    if row.holm < ALPHA:
        return "better" if row.difference > 0 else "worse"
    return "equal" if row.equal else "inconclusive"


def verdict(recorded: StudyRecords, compared: Comparison, method: Method) -> str:
    """A method's place in the comparison, or why it has none."""
    label, summary, beside = method.label, compared.summary, _beside(recorded, method.name)
    if method.name not in summary.index:
        return f"**{label}**: no result; {_why(recorded, method.name)}."
    mean = summary["mean"]
    place, count = int((mean > mean[method.name]).sum()) + 1, len(mean) + len(tables.fallen(recorded))
    score = labels.percent(mean[method.name])
    if len(mean) < 2:
        return f"**{label}**: {score} % MAP@R; no other method has a result. {beside}".rstrip()
    best = "" if place == 1 else f" (best: {labels.percent(mean.max())} %)"
    few = "A search of fewer than ten trials ranks nothing." * (recorded.meta["budget"]["trials"] < MIN_TRIALS)
    placed = say("place", label=label, place=place, count=count, score=score, best=best)
    return " ".join(filter(None, [placed, _tested(compared, method.name), beside, few]))


def _tested(compared: Comparison, name: str) -> str:
    pairs, ranks = against(compared, name), compared.summary.loc[name, ["rank_low", "rank_high"]]
    if np.isnan(pairs["holm"]).all():
        return "With one run each nothing can be tested."
    better, worse = (((pairs["holm"] < ALPHA) & (sign * pairs["difference"] > 0)).sum() for sign in (1, -1))
    luck = "the noise of seeds alone" if compared.luck == SEEDS else "the noise of search and seed"
    counts = {"better": better, "worse": worse, "tied": len(pairs) - better - worse}
    return say("tested", low=ranks.iloc[0], high=ranks.iloc[1], luck=luck, **counts)


def _beside(recorded: StudyRecords, name: str) -> str:
    """The methods without a result, and the settings in which this one differs from the protocol."""
    fallen = [f"{labels.method_label(other)} ({state})" for other, state in tables.fallen(recorded).items()]
    apart = about.apart(recorded).get(name, "")
    texts = {"Without a result": labels.listed(fallen), about.NOT_AS_THE_PROTOCOL.capitalize(): apart}
    return " ".join(f"{head}: {text}." for head, text in texts.items() if text)


def _why(recorded: StudyRecords, name: str) -> str:
    """The reason why a method has no scores."""
    for what, frame in (("trials", recorded.trials), ("reruns", recorded.reruns)):
        own = frame[frame["method"] == name]
        failed = own[own["state"] != "complete"]
        if len(failed) and (what == "reruns" or len(failed) == len(own)):
            return f"{len(failed)} of {len(own)} {what} {failed['state'].iloc[-1]}: {failed['reason'].iloc[-1]}"
    return "not finished"


def verdict_lines(recorded: StudyRecords, methods: Sequence[Method]) -> tuple[list[str], list[str]]:
    """The verdicts as lines of text, and the names of the methods that have no result."""
    compared = measures.compare(recorded, lending_studies(recorded))
    verdicts = [verdict(recorded, compared, method).replace("**", "") for method in methods]
    return verdicts, [method.name for method in methods if method.name not in compared.methods]


def write_comparison(recorded: StudyRecords, methods: Sequence[Method], folder: Path) -> Path:
    """Write the page, with its tables and figures beside it, into a folder, and return its file."""
    with publish.collected(folder) as shown:
        show_comparison(recorded, methods)
    title = f"{', '.join(method.label for method in methods)} on {labels.dataset(recorded)}"
    page = folder / "index.html"
    html = publish.whole_page(title, _STYLE, [f"<h1>{escape(title)}</h1>", *shown])
    records.write_whole(page, html.encode())
    return page
