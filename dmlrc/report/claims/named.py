"""The statistics that claims name: functions of the records that a claim needs, in their order, and of keywords.

Each raises MissingRowsError where rows are missing. Those of no records, of made-up spaces, of two losses and of
published numbers, are seeded, and each takes a second or two.
"""

import functools
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from scipy import stats

from dmlrc import data, losses
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import published, statistics, tables, titles, untrained
from dmlrc.report.claims import measures
from dmlrc.report.claims.measures import R1, need
from dmlrc.report.statistics import Estimate
from dmlrc.report.tables import CLASSICS

JOINED = "concatenated"
SEEDS = 5
"""Of each statistic without records."""

# Rows against rows


def lead(
    records: StudyRecords,
    *,
    rows: Sequence[str],
    others: Sequence[str] = (),
    without: Sequence[str] = (),
    level: str = "",
    metric: str = R1,
    setting: str = "separated",
    lowest: bool = False,
) -> Estimate:
    """The mean of rows minus the best (lowest: the worst) of others (default all), by its mean; of a sweep, at a level.

    Choosing the other by the same scores makes it look a little better than it is, so the difference errs against the
    claim that the rows are best. With one other it is a plain difference.
    """
    table = measures.at_level(records, level, metric) if level else measures.wide(records, metric, setting)
    rivals = table.mean().dropna().drop([*rows, *without], errors="ignore")
    rivals = rivals[rivals.index.isin(others)] if others else rivals
    need(len(rivals), f"no finished rerun of a row beside {', '.join(rows)} in {records.name}")
    rival = rivals.idxmin() if lowest else rivals.idxmax()
    return measures.contrast_of_rows(table, dict.fromkeys(rows, 1 / len(rows)) | {rival: -1})


def lead_of_searched(main: StudyRecords, *, metric: str, setting: str, **rows: Sequence[str]) -> Estimate:
    """`lead` of rows that share no search: no interval where each was searched once, since seeds alone say nothing."""
    estimate = lead(main, metric=metric, setting=setting, **rows)
    again = measures.repeated(measures.wide(main, metric, setting))
    return estimate if again else Estimate(estimate.value, np.nan, np.nan, 1, "searches")


def lead_over(main: StudyRecords, later: StudyRecords, *, weights: Mapping[str, float], metric: str) -> Estimate:
    """A weighted sum of rows of two tables that were searched alike."""
    both = pd.concat([measures.wide(table, metric, JOINED) for table in (main, later)], axis=1)
    return measures.contrast_of_rows(both, weights)


def log_of_the_best(main: StudyRecords, *, rows: Sequence[str], setting: str) -> Estimate:
    """Common logarithm of a setting in the best trial of each search, over the searches of rows."""
    reruns = main.reruns[main.reruns["method"].isin(rows) & main.reruns["params"].notna()]  # old records lack it
    need(len(reruns), f"no finished rerun of {', '.join(rows)} whose settings are recorded")
    best = reruns.groupby(["method", "repetition"])["params"].first()
    return replace(statistics.mean([np.log10(params[setting]) for params in best]), units="searches")


def over_pairs(
    records: StudyRecords, *, pairs: Sequence[Sequence[str]], metric: str = R1, setting: str = "separated"
) -> Estimate:
    """The mean difference of pairs of rows, first minus second; each pair is a unit, the mean of its reruns."""
    table = measures.wide(records, metric, setting)
    return statistics.mean([measures.contrast_of_rows(table, {first: 1, second: -1}).value for first, second in pairs])


def same_models(records: StudyRecords, *, row: str, settings: Sequence[str]) -> Estimate:
    """R@1 of one row's models in one setting minus those of the same models in another: true pairs."""
    one, two = (measures.column(records, row, R1, setting) for setting in settings)
    return measures.over_reruns((one - two).dropna())


def relative_range(records: StudyRecords, *, metric: str, setting: str, rows: Sequence[str] = ()) -> Estimate:
    """Range of the means of rows (default all) as a share of their mean, whose own error is smaller and not counted."""
    table = measures.wide(records, metric, setting)
    table = measures.finished_rows(table[table.columns.intersection(rows)] if rows else table, least=3)
    return measures.range_of_means(table).divided_by(float(table.mean().mean()))


def relative_gain(main: StudyRecords, *, classics: Sequence[str], metric: str) -> Estimate:
    """Relative gain of the newer methods' mean score over that of some classics; it ends where a score is perfect."""
    table = measures.finished_rows(measures.wide(main, metric, JOINED))
    new = table.columns.difference(CLASSICS)
    there = set(classics) <= set(table) and len(new)
    need(there, f"no finished rerun of {' and '.join(classics)}, or of newer methods")
    return statistics.relative(table.mean(), new, classics, functools.partial(measures.contrast_of_rows, table))


def standing(records: StudyRecords, *, row: str, without: Sequence[str], metrics: Sequence[str]) -> Estimate:
    """The lead of a row over the mean of the others in one metric minus that in another, in their known SDs."""
    parts = [measures.wide(records, metric).drop(columns=list(without), errors="ignore") for metric in metrics]
    scaled = [part / part.mean().drop(row, errors="ignore").std() for part in parts]
    table = (scaled[0] - scaled[1]).dropna(axis="columns", how="all")
    others = table.columns.drop(row, errors="ignore")
    need(len(others) > 1, f"fewer than two methods besides {row} in {records.name}")
    return measures.contrast_of_rows(table, {row: 1} | dict.fromkeys(others, -1 / len(others)))


# Over the methods


def slope_over_years(main: StudyRecords, *, since: int = 0) -> Estimate:
    """Slope of the methods' concatenated P@1 over their years, from the year `since` on."""
    return slope_since(tables.accuracy(main), since)


def slope_since(frame: pd.DataFrame, since: int = 0) -> Estimate:
    """Slope of P@1 over the years of the methods in a table of results, see `tables.measured_by_year`.

    Where the classics count, no rise, which is what the claim denies, can be steeper than that to newer methods that
    are all perfect.
    """
    rows = tables.measured_by_year(frame)
    rows = rows[rows["year"] >= since]
    slope, old = statistics.slope(rows["year"], rows["value"], "methods"), rows["method"].isin(CLASSICS)
    if not old.any():
        return slope
    return replace(slope, attainable=(0.0, statistics.slope(rows["year"], rows["value"].where(old, 1.0)).value))


def rank_correlation(
    records: StudyRecords,
    *,
    first: tuple[str, str],
    second: tuple[str, str],
    rows: Sequence[str] = (),
    merged: Mapping[str, str] | None = None,
) -> Estimate:
    """Spearman's correlation over the methods of two (metric, setting); rows, merged: see `properties`."""
    both = measures.properties(records, (first, second), rows, merged)
    return statistics.correlation(both.iloc[:, 0], both.iloc[:, 1], ranks=True)


def lead_in_correlation(
    records: StudyRecords,
    *,
    first: str,
    others: Sequence[str],
    rows: Sequence[str],
    merged: Mapping[str, str] | None = None,
) -> Estimate:
    """|rank correlation| of a property of the training embeddings with R@1, minus the largest one of some others."""

    def statistic(values: np.ndarray) -> np.ndarray:  # (..., methods, properties): R@1, first, then the others
        ranks = statistics.to_ranks(values, axis=-2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.ConstantInputWarning)  # NaN where a resample is constant
            strengths = np.abs(stats.pearsonr(ranks[..., :1], ranks[..., 1:], axis=-2).statistic)
        return strengths[..., 0] - strengths[..., 1:].max(axis=-1)

    keys = [(R1, "separated"), *((name, "train") for name in (first, *others))]
    return statistics.bootstrap(measures.properties(records, keys, rows, merged).to_numpy(), statistic)


def over_pretrained(main: StudyRecords) -> Estimate:
    """Concatenated P@1 of the trained methods minus that of the trunk alone, over the methods."""
    scores = main.scores.set_index(["method", "setting", "metric"])["value"]
    key = (PRETRAINED, JOINED, R1)
    need(key in scores.index, f"no pretrained row in {main.name}")
    return statistics.mean(measures.row_means(main, setting=JOINED) - float(scores[[key]].iloc[0]))


def validation_over_test(main: StudyRecords) -> Estimate:
    """MAP@R of the same models on the validation classes minus that on the more numerous test classes."""
    runs = main.runs
    validation = runs[runs["kind"] == "rerun"].groupby("method")["val_map_at_r"].mean()
    return statistics.mean((validation - measures.row_means(main, "map_at_r")).dropna())


def tuning(main: StudyRecords) -> Estimate:
    """Standard deviation over the methods of the validation MAP@R of the median trial minus that of the best trial."""
    trials = tables.sensitivity(main)
    need(len(trials) > 1, f"fewer than 2 methods with trials in {main.name}")
    both = trials[["median", "best"]].to_numpy()
    return statistics.bootstrap(both, lambda rows: -np.diff(rows.std(axis=-2, ddof=1))[..., 0])


# Trunks against losses


def trunks_over_methods(main: StudyRecords, trunks: StudyRecords) -> Estimate:
    """Range of R@1 over trunks with ImageNet weights minus that over trained methods; a unit is a trunk."""
    heights = measures.at_level(trunks, "imagenet").mean().dropna()
    apart = float(np.ptp(heights))
    of_losses = measures.range_of_means(measures.finished_rows(measures.wide(main, setting=JOINED)))
    of_trunks = replace(of_losses, value=apart, low=apart, high=apart, n=len(heights))
    return _less(of_trunks, of_losses)


def _less(trunks: Estimate, of_losses: Estimate) -> Estimate:
    """The range over trunks less that over losses; a unit is a trunk."""
    low, high = trunks.low - of_losses.high, trunks.high - of_losses.low
    return replace(trunks, value=trunks.value - of_losses.value, low=low, high=high, units="trunks")


def trunks_over_rows(records: StudyRecords) -> Estimate:
    """The range of mean R@1 over the pretrained trunks of a sweep, minus that over its rows; n counts trunks."""
    table = measures.sweep_scores(records)
    table = measures.finished_rows(table[[key for key in table if not titles.trunk_level(key[1])[1]]])
    places = table.columns.to_frame(index=False).assign(place=range(table.shape[1]))
    places = places.pivot(index="row", columns="level", values="place").dropna().to_numpy(int)  # (rows, trunks)
    both = 1 - (1 - statistics.LEVEL) / 2  # so that the two intervals hold together
    trunks, of_losses = (measures.range_of_means(table, of, both) for of in (places.T, places))
    return _less(replace(trunks, n=places.shape[1]), of_losses)


# Sweeps


def levels_apart(records: StudyRecords, *, first: Collection[str], second: Collection[str]) -> Estimate:
    """Mean R@1 at some levels of a sweep, as far as a study has them, minus that at others; each method is a unit."""
    table = measures.sweep_scores(records).mean().unstack("level")
    one, other = (table[table.columns.intersection(levels)].mean(axis=1, skipna=False) for levels in (first, second))
    gains = (one - other).dropna()
    need(len(gains), "no method was run with both of the settings that it compares")
    return statistics.mean(gains)


def largest_fall(records: StudyRecords) -> Estimate:
    """The largest fall of a method's relative performance from its best level to its worst, chosen by other reruns."""
    table = measures.relative_sweep(records)
    means = table.mean().unstack("level").dropna()
    several = len(means) and means.shape[1] > 1 and len(table) > 1
    need(several, f"no objective with two levels of {records.name} and two reruns")
    falls = []
    for rerun in table.index:
        others = table.drop(index=rerun).mean().unstack("level").dropna()
        row = (1 - others.min(axis=1) / others.max(axis=1)).idxmax()
        levels = others.loc[row]
        falls.append(1 - table.loc[rerun, (row, levels.idxmin())] / table.loc[rerun, (row, levels.idxmax())])
    return measures.over_reruns(falls)


def gains_apart(records: StudyRecords, *, first: str, second: str) -> Estimate:
    """The gain of one level over another of the row that gains most, minus that of the least: see `held_out`."""
    table = measures.sweep_scores(records)
    need({first, second} <= set(table.columns.get_level_values("level")), f"no objective with {first} and {second}")
    gains = (table.xs(first, axis=1, level="level") - table.xs(second, axis=1, level="level")).dropna(axis=1)
    need(min(gains.shape) > 1, f"fewer than two objectives with {first} and {second}, or than two reruns")
    return measures.over_reruns(measures.held_out(gains))


# Training curves and class orders


def ends_apart(records: StudyRecords, *, metric: str, first: str, second: str) -> Estimate:
    """A metric at the end of the training curves of one row minus that of another, Welch's over the reruns."""
    ends = (measures.curve_at(records, metric, row) for row in (first, second))
    return measures.seeds_only(statistics.welch(*ends, "reruns"))


def gap(records: StudyRecords, *, row: str, first: str, second: str, point: str = "last") -> Estimate:
    """One metric minus another at the end of the curves of a row, or at their "first" point, over the reruns."""
    one, other = (measures.curve_at(records, metric, row, point=point) for metric in (first, second))
    return measures.over_reruns((one - other).dropna())


UNTRAINED = "contrastive@untrained"
"""The row that never learns, in `cars196crops-frozen/variance`."""


def curves_apart(
    records: StudyRecords, *, metric: str, rows: Sequence[str], other: str, share: float = 1.0
) -> Estimate:
    """The mean of rows minus another in a metric at a share of the run, relative to the start, which is as if known."""
    start = float(measures.curve_at(records, metric, UNTRAINED).mean())
    weights = dict.fromkeys(rows, 1 / len(rows) / start) | {other: -1 / start}
    parts = [(weight, measures.curve_at(records, metric, row, share)) for row, weight in weights.items()]
    return measures.seeds_only(statistics.welch_sum(parts, "reruns"))


def past_half_way(records: StudyRecords, *, metric: str, row: str, share: float) -> Estimate:
    """The height of a metric, at a share of the run, above half way from start to end; a fraction of the start."""
    start = float(measures.curve_at(records, metric, UNTRAINED).mean())
    early, end = (measures.curve_at(records, metric, row, part) for part in (share, 1.0))
    return measures.over_reruns(((early - (start + end) / 2) / start).dropna())


def correlation_of_curves(records: StudyRecords, *, row: str, first: str, second: str) -> Estimate:
    """Correlation over the epochs of two validation metrics: the mean over the reruns, taken in Fisher's z."""
    curves = records.curves
    curves = curves[(curves["method"] == row) & (curves["kind"] == "rerun")]
    table = curves.pivot_table(index=["number", "fold", "step"], columns="metric", values="value")
    need({first, second} <= set(table), f"no validation curves in {records.name}")
    runs = table[[first, second]].dropna().groupby(["number", "fold"])
    r = [statistics.pearson(run[first], run[second]) for _, run in runs]
    z = statistics.mean(np.arctanh(np.clip(r, -1 + 1e-6, 1 - 1e-6)))
    value, low, high = (float(np.tanh(number)) for number in (z.value, z.low, z.high))
    return replace(z, value=value, low=low, high=high)


def from_other_orders(default: StudyRecords, *orders: StudyRecords, row: str, metric: str) -> Estimate:
    """A test score with the default class order minus that with a random one; a random order is a unit.

    The interval is that of a further random order, see `statistics.prediction_difference`: an order is lower than a
    random one where most are higher, not where their mean is.
    """
    drawn = [measures.column(records, row, metric).mean() for records in orders]
    return statistics.prediction_difference(measures.column(default, row, metric), drawn, "random class orders")


# Without records


@functools.cache
def nmi_against_formula(*, points: int, classes: int) -> Estimate:
    """NMI of random 64-dimensional embeddings minus 1 - log S / log C; a unit is a seed."""
    scores = [untrained.random_scores(points, [classes], seed=seed, names=("nmi",)) for seed in range(SEEDS)]
    return statistics.mean([float(frame["nmi"].iloc[0] - frame["nmi_expected"].iloc[0]) for frame in scores])


@functools.cache
def nmi_of_random_trunk(*, images_per_class: int) -> Estimate:
    """NMI of a conv4 with random weights on small glyphs; a unit is a seed of the weights."""
    images = data.load("glyphs-small")
    scores = (untrained.random_trunks(images, ["conv4"], None, images_per_class, seed) for seed in range(SEEDS))
    return statistics.mean([frame["nmi"].iloc[0] for frame in scores])


@functools.cache
def toy_spread() -> Estimate:
    """The range of MAP@R over the three toy spaces, minus that of P@1; a unit is a seed of the spaces."""
    spreads = []
    for seed in range(SEEDS):
        scores = untrained.toy_scores(untrained.toy_spaces(seed=seed), names=("precision_at_1", "map_at_r"), seeds=1)
        spreads.append(np.ptp(scores.loc["map_at_r"]) - np.ptp(scores.loc["precision_at_1"]))
    return statistics.mean(spreads)


@functools.cache
@torch.no_grad()
def one_function() -> Estimate:
    """Relative difference of ProxyNCA (scale s) and normalised softmax (T = 1 / (2 s)); a unit is a batch."""
    differences = []
    for seed in range(SEEDS):
        generator = torch.Generator().manual_seed(seed)
        scale = float(torch.rand(1, generator=generator)) * 10 + 0.5
        proxies = torch.randn(20, 16, generator=generator)
        embeddings = torch.nn.functional.normalize(torch.randn(32, 16, generator=generator))
        labels = torch.randint(20, (32,), generator=generator)
        nca = losses.create("proxy_nca", num_classes=20, embedding_dim=16, softmax_scale=scale)
        softmax = losses.create("normalized_softmax", num_classes=20, embedding_dim=16, temperature=1 / (2 * scale))
        nca.proxies.copy_(proxies)
        softmax.W.copy_(proxies.T)
        one, other = float(nca(embeddings, labels)), float(softmax(embeddings, labels))
        differences.append(one / other - 1)
    return statistics.mean(differences)


def claimed_gain(*, baseline: str) -> Estimate:
    """Mean relative gain that papers of 2017 to 2019 print over a classic; a unit is the mean of a paper."""
    gains = tables.claimed_improvement(published.claims(), baseline)
    return statistics.mean(gains.groupby("paper")["gain"].mean())


def share_copied() -> Estimate:
    """Share of the papers with a contrastive baseline of which one is, to the digit, that of a paper listed earlier."""
    rows = published.claims()
    rows = rows[rows["primary"] & (rows["role"] == "contrastive_baseline")].sort_values("year", kind="stable")
    copied = rows.duplicated(["dataset", "r1"]).groupby(rows["paper"]).any()
    return statistics.share(int(copied.sum()), len(copied))
