"""The fate of the gains that papers claim: the numbers and tables of papers against reality."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from dmlrc.papers import musgrave2020
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import labels, prose, published, statistics, tables
from dmlrc.report.claims.named import slope_since
from dmlrc.report.front_page import percent_span
from dmlrc.report.results_table import LIFT
from dmlrc.report.statistics import Estimate

CONTRASTIVE, TRIPLET = tables.CLASSICS
LIMITS = {CONTRASTIVE: 1.0, TRIPLET: 0.5}
"""By how much many claims exceed the losses of 2006, as the Reality Check says."""
BASELINE_CELLS = {
    "low": "printed, lowest",
    "high": "printed, highest",
    "separated": "tuned alike, one model",
    "concatenated": "tuned alike, joined",
}
"""`baselines` as printed (`labels.cells`)."""


def results_by_table(edition: Sequence[StudyRecords]) -> dict[str, pd.DataFrame]:
    """Every table of results: the paper's by data set, then ours by study."""
    tables_of_paper = {f"{name} (Reality Check)": part for name, part in published.musgrave_tables().items()}
    return tables_of_paper | {study.name: tables.accuracy(study) for study in edition}


def headline_claims() -> pd.DataFrame:
    """The rows of `published.claims` that a paper claims for its own method."""
    claims = published.claims()
    return claims[claims["primary"] & (claims["role"] == "proposed")]


def claimed_slopes() -> dict[str, Estimate]:
    """The yearly rise of claimed P@1: data set -> a fraction."""
    return {name: statistics.slope(rows["year"], rows["r1"]) for name, rows in headline_claims().groupby("dataset")}


def measured_slopes(edition: Sequence[StudyRecords], since: int = 0) -> dict[str, Estimate]:
    """The yearly rise of measured P@1 over the methods since a year: table (`results_by_table`) -> a fraction."""
    return {name: slope_since(frame, since) for name, frame in results_by_table(edition).items()}


def slope_cells(slopes: Mapping[str, Estimate]) -> pd.DataFrame:
    """Slopes (`statistics.slope`) as cells: points a year, the interval, and the number of points."""
    rows = {}
    for name, slope in slopes.items():
        half = "–" if np.isnan(slope.half) else f"± {100 * slope.half:.2f}"
        rows[name] = (labels.signed(slope.value, digits=2, unit=""), half, str(slope.n))
    return pd.DataFrame.from_dict(rows, orient="index", columns=["points a year", "95 % interval", "points in the fit"])


def answer_cells(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The cells of "answer", a row a table of results: the lead over the losses of 2006, the best and the worst."""
    trunks = {f"{name} (Reality Check)": asdict(musgrave2020.PROTOCOL) for name in published.DATASETS}
    trunks |= {study.name: study.meta["protocol"] for study in edition}
    rows = {}
    for name, frame in results_by_table(edition).items():
        apart, untrained = tables.spread(frame), tables.mean_of(frame, PRETRAINED, "map_at_r")
        below = {end: f" {labels.BELOW}" * bool(apart[end] < untrained) for end in ("best", "worst")}
        score = {end: labels.percent(apart[end]) + sign for end, sign in below.items()}
        gains = {baseline: tables.improvement(frame, baseline)["concatenated"] for baseline in tables.CLASSICS}
        rows[name] = {
            **{f"over {baseline}": labels.signed(gain) for baseline, gain in gains.items()},
            "range": labels.percent(apart["range"]),
            **{end: score[end] + f" {labels.method_label(apart.get(f'{end}_method', ''))}" for end in score},
            "others tied with it": str((tables.marks(tables.deciding(frame)) == "tie").sum()),
            "untrained trunk": labels.percent(untrained) or "–",
            LIFT.lower(): labels.signed(tables.lift(tables.by_method(frame)["mean"]), 2, ""),
            "trunk": labels.trunk(trunks[name]),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Results of")


def claimed_cells(gains: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """`tables.claimed_improvement` as cells."""
    cells = gains.assign(**gains[["r1", "r1_baseline"]].map(labels.one_digit), gain=gains["gain"].map(labels.whole))
    heads = {"r1": "its R@1", "r1_baseline": f"its {baseline} R@1", "dataset": "data set"}
    columns = ["dataset", "gain", "r1", "r1_baseline", "year", "method"]
    return cells.set_index("paper")[columns].rename(columns=heads)


def baselines() -> pd.DataFrame:
    """R@1 of the two losses of 2006 by data set: low, high (as papers of 2017 to 2019 print it) and as measured."""
    measured = published.musgrave_results().set_index(["method", "dataset", "metric", "setting"])["mean"]
    rows = {}
    for baseline in tables.CLASSICS:
        printed = tables.claimed_improvement(published.claims(), baseline).groupby("dataset")["r1_baseline"]
        for name in published.DATASETS:
            ends = {"low": printed.min()[name], "high": printed.max()[name]}
            rows[baseline, name] = ends | {s: measured[baseline, name, "precision_at_1", s] for s in tables.SETTINGS}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["loss", "data set"])


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """The numbers behind the page's text, in percent and points; a study by its data set."""
    named: dict[str, float | str] = prose.span("rise", [100 * slope.value for slope in claimed_slopes().values()])
    every = {"all": measured_slopes(edition), "newer": measured_slopes(edition, tables.NEWER)}
    for which, slopes in every.items():
        named[f"sloping.{which}"] = float(sum(abs(slope.value) > slope.half for slope in slopes.values()))
        named[f"half.{which}"] = max(100 * slope.half for slope in slopes.values())
    return named | _of_claims() | _of_tables(edition)


def _of_claims() -> dict[str, float]:
    """The scores that papers print for the two losses of 2006, and the gains over them that they claim."""
    claims, printed, named = published.claims(), baselines(), {}
    for baseline in tables.CLASSICS:
        gains = tables.claimed_improvement(claims, baseline)
        mean = 100 * gains.groupby("dataset")["gain"].mean()
        read = claims[(claims["role"] == f"{baseline}_baseline") & claims["primary"]]
        named |= {
            **prose.span(f"{baseline}.claimed", mean),
            f"{baseline}.claims": float(len(gains)),
            f"{baseline}.exceed": float((gains["gain"] > LIMITS[baseline]).sum()),
            f"{baseline}.read": float(len(read)),
            f"{baseline}.copied": float(tables.recycled(claims, baseline)["papers"].sum()),
        }
        own = 100 * printed.loc[baseline]
        alone = gains["dataset"].map(printed.loc[baseline]["separated"])
        named[f"{baseline}.beaten"] = float((gains["r1_baseline"] < alone).sum())
        named |= prose.span(f"{baseline}.printed", [*own["low"], *own["high"]])
        named |= prose.span(f"{baseline}.alone", own["separated"])
    gains = tables.claimed_improvement(claims, CONTRASTIVE)
    return named | prose.span("horde", 100 * gains["gain"][gains["paper"].str.contains("HORDE")])


def _of_tables(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """The lead of the newer losses when all are tuned alike, on average, and that of the best of ours."""
    named, best = {}, []
    for baseline in tables.CLASSICS:
        every = results_by_table(edition).items()
        gains = {name: 100 * tables.improvement(scores, baseline)["concatenated"] for name, scores in every}
        ours = {study.meta["dataset"]: gains.pop(study.name) for study in edition}
        for who, points in (("check", gains), ("ours", ours)):
            named |= prose.span(f"{baseline}.{who}", points.values())
        named |= {f"{name}.over_{baseline}": gain for name, gain in ours.items()}
    for study in edition:
        means = tables.measured_by_year(tables.accuracy(study)).set_index("method")["value"]
        best.append(100 * (means.drop([*tables.CLASSICS], errors="ignore").max() / means[CONTRASTIVE] - 1))
    return named | prose.span("best", best) | {"best.span": percent_span(min(best), max(best))}
