"""Tables: data frames of numbers, fractions, from records and from what papers print; `labels` makes them text."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType

import numpy as np
import pandas as pd

from dmlrc import papers
from dmlrc.data.splits import Splits, halves
from dmlrc.methods import Choice, Float, Int, Method
from dmlrc.papers import musgrave2020
from dmlrc.protocol import RATES
from dmlrc.records import PRETRAINED, StudyRecords, derived_once
from dmlrc.report import importances, power, published
from dmlrc.report.statistics import as_array, by_luck_of_seeds, noise, of_groups, rank_test, summary

SETTINGS = ("concatenated", "separated")
CLASSICS = ("contrastive", "triplet")
Methods = Mapping[str, Method]
METHODS: Methods = MappingProxyType({method.name: method for method in musgrave2020.METHODS})
"""The rows of the results tables. What shows rows of a reader's own too takes them as `methods`: `METHODS | own`."""
NEWER = 1 + max(METHODS[name].year for name in CLASSICS)
"""The first year of a trend without the two classics, which lie ten years before all others and lead the line."""
NO_RESULT = ("diverged", "failed")
"""The states of trials and reruns that came to nothing: a NaN in training or on the test images, or an error."""
MOST_CUT_OFF = 0.05
"""Of a method's runs at most this share may end at the limit of epochs, as preregistered."""
EDGE = 0.02  # the share of a range that counts as one of its ends
RUN = ["method", "repetition", "number", "fold"]
"""What tells runs apart; without the fold, trials or reruns."""
OURS_ALONE = ("train_from", "lr_decay")
"""Settings that only protocols of our own studies use."""


def ordered(names: Iterable[str], methods: Methods = METHODS) -> list[str]:
    """The pretrained row, the known methods in their order, then any others."""
    order = [PRETRAINED, *methods]
    present = list(dict.fromkeys(names))
    return sorted(present, key=lambda name: order.index(name) if name in order else len(order))


def accuracy(records: StudyRecords) -> pd.DataFrame:
    """Accuracy on the test half: method, setting, metric, mean, ci95, n, rank_low, rank_high, among_best, gap.

    The first as in `published.musgrave_results`; n: how many reruns; ci95: half of the 95 % interval, NaN for a single
    rerun; rank_low and rank_high: between which its rank lies; among_best: whether it ties with the best;
    gap: the smallest true difference that is told with a power of 80 %, all pairs compared. Where each method was
    searched more than once all of them count the noise of search and seed (`statistics.summary`), and seed_ci95 is the
    interval of the seeds alone; else they are of the seeds (`statistics.by_luck_of_seeds`). The pretrained row, which
    has no seed, has a mean alone.
    """
    return _accuracy(records).copy()


@functools.lru_cache(maxsize=256)  # a chapter asks for the same table dozens of times, a page of a loss for all
def _accuracy(records: StudyRecords) -> pd.DataFrame:
    scores = records.scores[records.scores["setting"].isin(SETTINGS)]
    groups = scores.groupby(["method", "setting", "metric"], sort=False)["value"]
    frame = of_groups(groups).reset_index()
    if records.searches > 1:
        return _with_search(frame, scores[scores["method"] != PRETRAINED])
    trained, by = frame[frame["method"] != PRETRAINED], ["setting", "metric"]
    frame = frame.assign(gap=power.least_of_seeds(trained, by)).join(by_luck_of_seeds(trained, by))
    return frame.assign(gap=frame.groupby(by)["gap"].transform("max"))


def _with_search(frame: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """The frame of `accuracy` with intervals, ranks and the best that count search and seed."""
    parts = []
    for (setting, metric), runs in scores.groupby(["setting", "metric"], sort=False):
        _, values = as_array(runs)
        gap = power.of_runs(values, known := noise(values)).least(power.ALL)
        means = summary(runs[["method", "repetition", "rerun", "value"]], known)
        halves = {"ci95": (means["high"] - means["low"]) / 2, "seed_ci95": (means["seed_high"] - means["seed_low"]) / 2}
        part = pd.DataFrame({**halves, **means[["mean", "rank_low", "rank_high", "among_best"]], "gap": gap})
        parts.append(part.assign(setting=setting, metric=metric).reset_index())
    merged = frame.drop(columns=["mean", "ci95"]).merge(pd.concat(parts), how="left")
    return merged.assign(mean=merged["mean"].fillna(frame["mean"]))  # of the pretrained row, which nothing varies


def deciding(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of concatenated MAP@R, which decides. frame: `accuracy`, or part of `published.musgrave_results`."""
    return frame[(frame["setting"] == "concatenated") & (frame["metric"] == "map_at_r")]


def by_method(frame: pd.DataFrame, metric: str = "map_at_r", setting: str = "concatenated") -> pd.DataFrame:
    """The rows of a metric and setting, by default those that decide, indexed by method. frame: as in `deciding`."""
    return frame[(frame["setting"] == setting) & (frame["metric"] == metric)].set_index("method")


def trained(frame: pd.DataFrame, metric: str = "map_at_r", setting: str = "concatenated") -> pd.DataFrame:
    """`by_method` without the untrained trunk."""
    return by_method(frame, metric, setting).drop(index=PRETRAINED, errors="ignore")


def marks(frame: pd.DataFrame) -> pd.Series:
    """The mark of each row of `accuracy`: "best" for the highest mean of its setting and metric, "tie", or "".

    A tie: not clearly below the best (among_best; by the noise of seeds alone where the frame has no such column).
    The pretrained row does not compete, and a method that is alone has no mark.
    """
    competing = frame[(frame["method"] != PRETRAINED) & frame["mean"].notna()]
    result = pd.Series("", index=frame.index)
    for group in (rows for _, rows in competing.groupby(["setting", "metric"]) if len(rows) > 1):
        placed = group if "among_best" in group else by_luck_of_seeds(group)
        result[group.index[placed["among_best"].astype(bool)]] = "tie"
        result[group["mean"].idxmax()] = "best"
    return result


def status(records: StudyRecords, methods: Methods = METHODS) -> pd.DataFrame:
    """The runs of every method, indexed by method: counts, state and cut_off (see `cut_off`).

    Counts: trials, diverged and failed ones among them; searches with a result, which alone have reruns; reruns with
    scores, diverged_reruns, failed_reruns. state: "complete"; "diverged" or "failed" (no trial ended with a number);
    "unfinished"; "not run".
    """
    searches = records.meta.get("repetitions", 1)
    budget = {name: searches * records.meta["budget"][name] for name in ("trials", "reruns")}
    frames = (records.trials, records.reruns)
    trials, reruns = (frame.groupby(["method", "state"]).size().unstack(fill_value=0) for frame in frames)
    with_result = records.trials[records.trials["state"].eq("complete")].groupby("method")["repetition"].nunique()
    counts = {"trials": trials.sum(axis=1), "searches": with_result, "reruns": reruns.get("complete")}
    for state in NO_RESULT:
        counts |= {state: trials.get(state), f"{state}_reruns": reruns.get(state)}
    names = ordered([*methods, *records.runs["method"], *trials.index, *reruns.index], methods)
    table = pd.DataFrame(counts, index=names, dtype=float).fillna(0).astype(int)
    states = [_state(row, budget, searches) for row in table.to_dict("records")]
    return table.assign(state=states, cut_off=cut_off(records).reindex(names).fillna(0.0))


def fallen(records: StudyRecords) -> dict[str, str]:
    """The methods that were run and have no score: "diverged", "failed", "unfinished"; none without any rerun."""
    frames = (records.runs, records.trials, records.reruns)
    without = set().union(*(frame["method"].unique() for frame in frames)) - set(records.scores["method"].unique())
    states = status(records)["state"].items() if without else ()  # which counts what few ask for
    return {name: state for name, state in states if name in without and state not in ("complete", "not run")}


def rerun_runs(records: StudyRecords) -> pd.DataFrame:
    """The runs, one a fold, of the reruns that have a result: of one that diverged its finished folds are no sample."""
    ended = records.reruns[records.reruns["state"] == "complete"].rename(columns={"rerun": "number"})
    runs = records.runs[records.runs["kind"] == "rerun"]
    return runs[pd.MultiIndex.from_frame(runs[RUN[:3]]).isin(pd.MultiIndex.from_frame(ended[RUN[:3]]))]


@derived_once(lambda records: records)
def cut_off(records: StudyRecords) -> pd.Series:
    """The share of each method's reruns that ended at the limit of epochs, not on a plateau, fold by fold.

    Empty where runs have a fixed length: the protocol validates nothing, its rates fall to 0 at the end, or it waits
    for a better checkpoint as long as a run may last, and no budget makes that shorter.
    """
    reruns, protocol = rerun_runs(records), records.meta["protocol"]
    waits = protocol["patience"] >= protocol["max_epochs"] and records.meta["budget"].get("max_epochs") is None
    if not protocol["folds"] or protocol["lr_decay"] != "none" or waits:
        reruns = reruns.iloc[:0]
    return (reruns["stopped"] == "limit").groupby(reruns["method"]).mean()


def _state(row: Mapping[str, int], budget: Mapping, searches: int) -> str:
    failed = row["failed"] + row["failed_reruns"]
    lost = failed + row["diverged"] + row["diverged_reruns"]
    ended = row["reruns"] + row["diverged_reruns"] + row["failed_reruns"]
    if not row["trials"] + ended:
        return "not run"
    searched = row["trials"] >= budget["trials"] or not row["trials"]  # at given settings nothing is searched
    to_rerun = row["searches"] if row["trials"] else searches
    if not searched or ended * searches < to_rerun * budget["reruns"]:
        return "unfinished"
    has_result = row["reruns"] and to_rerun
    return "complete" if has_result or not lost else "failed" if failed else "diverged"


@derived_once(lambda records: records)
def cost(records: StudyRecords) -> pd.DataFrame:
    """The cost of each method: search_seconds (all trials of a search), seconds and steps of a rerun (means).

    Seconds and steps are summed over the folds; of folds that train side by side each has its share of the seconds.
    """
    runs = rerun_runs(records).groupby(RUN[:3]).agg(seconds=("seconds", "sum"), steps=("steps", "sum"))
    table = runs.groupby("method").mean()
    searches = records.trials.groupby(["method", "repetition"])["seconds"].sum()
    table.insert(0, "search_seconds", searches.groupby("method").mean())
    return table.loc[[name for name in ordered(table.index) if name in table.index]]


def spread(frame: pd.DataFrame, metric: str = "map_at_r") -> dict[str, float]:
    """The spread of `accuracy` or a published table: best, worst, range (NaN: no method), mean ci95, and the ends."""
    rows = trained(frame, metric)
    means, half = rows["mean"], float(rows["ci95"].mean())
    best, worst = float(means.max()), float(means.min())
    ends = {"best": best, "worst": worst, "range": best - worst, "mean_ci95": half}
    return ends | ({} if means.empty else {"best_method": means.idxmax(), "worst_method": means.idxmin()})


def improvement(frame: pd.DataFrame, baseline: str) -> pd.Series:
    """Mean relative improvement in P@1 of the newer methods over a baseline, by setting: 0.02 is 2 % better.

    frame: `accuracy` or one data set of `published.musgrave_results`. baseline: one of `CLASSICS`; all methods but
    these two are newer. Fig. 5 of the Reality Check. A setting without the baseline is NaN.
    """
    rows = frame[(frame["metric"] == "precision_at_1") & (frame["method"] != PRETRAINED)]
    means = rows.pivot(index="method", columns="setting", values="mean").reindex(columns=list(SETTINGS))
    if baseline not in means.index:
        return pd.Series(np.nan, index=list(SETTINGS))
    newer = means.drop(index=list(CLASSICS), errors="ignore")
    return (newer / means.loc[baseline] - 1).mean()


def claimed_improvement(claims: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Gains that papers of 2017 to 2019 claim over a baseline in their own tables, one row per paper and data set.

    claims: `published.claims()`. baseline: "contrastive" or "triplet". Only headline rows; a paper counts where both
    its own number and its baseline's were read. Columns: paper, year, dataset, method, r1, r1_baseline, gain.
    """
    headline = claims[claims["primary"] & claims["year"].between(2017, 2019)]
    own = headline[headline["role"] == "proposed"][["paper", "year", "dataset", "method", "r1"]]
    theirs = headline[headline["role"] == f"{baseline}_baseline"][["paper", "dataset", "r1"]]
    both = own.merge(theirs, on=["paper", "dataset"], suffixes=("", "_baseline"))
    return both.assign(gain=both["r1"] / both["r1_baseline"] - 1)


def improvement_bars(edition: Sequence[StudyRecords], claims: pd.DataFrame) -> pd.DataFrame:
    """The bars of Fig. 5: baseline, where (a data set of the papers or a study), who, value (fraction).

    who: "papers" (mean of `claimed_improvement`), "separated" or "concatenated" (`improvement`).
    """
    measured = published.musgrave_tables() | {records.name: accuracy(records) for records in edition}
    rows = []
    for baseline in CLASSICS:
        claimed = claimed_improvement(claims, baseline).groupby("dataset")["gain"].mean()
        for where, frame in measured.items():
            gains = improvement(frame, baseline).to_dict() | {"papers": claimed.get(where, np.nan)}
            rows += [{"baseline": baseline, "where": where, "who": who, "value": value} for who, value in gains.items()]
    return pd.DataFrame(rows).dropna(ignore_index=True)


def recycled(claims: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Baseline numbers that more than one paper prints: dataset, r1, papers (count), first (year), who.

    Sorted by data set and count. A number that three papers print to the digit was not measured three times.
    """
    rows = claims[(claims["role"] == f"{baseline}_baseline") & claims["primary"]].sort_values("year", kind="stable")
    groups = rows.groupby(["dataset", "r1"])
    table = groups.agg(papers=("paper", "size"), first=("year", "min"), who=("paper", "; ".join)).reset_index()
    return table[table["papers"] > 1].sort_values(["dataset", "papers"], ascending=[True, False])


def pooled_order(values: Iterable[pd.Series]) -> list[str]:
    """Methods by their mean place over several tables, the best first. values: method -> score, a series a table.

    >>> pooled_order([pd.Series({"a": 3, "b": 1, "c": 2}), pd.Series({"c": 9, "b": 5})])
    ['a', 'c', 'b']
    """
    places = [(scores.rank(ascending=False) - 0.5) / scores.count() for scores in values]
    means = pd.concat(places, axis=1).mean(axis=1)
    return list(means.sort_values(kind="stable").index)


def order_of_results(frames: Iterable[pd.DataFrame]) -> list[str]:
    """`pooled_order` of the trained methods by concatenated MAP@R. frames: as in `spread`."""
    return pooled_order(trained(frame)["mean"] for frame in frames)


def mean_of(frame: pd.DataFrame, method: str, metric: str = "precision_at_1") -> float:
    """The concatenated accuracy of a method, NaN where it has none. frame: as in `spread`."""
    return float(by_method(frame, metric)["mean"].get(method, np.nan))


def lift(means: pd.Series) -> float:
    """The lift of a table's mean by training above its untrained trunk; NaN without that.

    means: a score, indexed by method.

    >>> round(lift(pd.Series({"pretrained": 0.2, "a": 0.25, "b": 0.21})), 3)
    0.03
    """
    return float(means.drop(PRETRAINED, errors="ignore").mean() - means.get(PRETRAINED, np.nan))


def measured_by_year(frame: pd.DataFrame, methods: Methods = METHODS) -> pd.DataFrame:
    """The year and P@1 of every method in a table of results: method, year, value. frame: as in `spread`."""
    rows = by_method(frame, "precision_at_1").reset_index()
    rows = rows[rows["method"].isin(methods)].reset_index(drop=True)
    years = rows["method"].map(lambda name: methods[name].year)
    return pd.DataFrame({"method": rows["method"], "year": years, "value": rows["mean"]})


def rank_agreement(ours: pd.DataFrame, theirs: pd.DataFrame) -> dict[str, float]:
    """Spearman's rank correlation of concatenated MAP@R over the methods that both tables have: rho, p, n."""
    return rank_test(trained(ours)["mean"], trained(theirs)["mean"])


def best_so_far(records: StudyRecords) -> pd.DataFrame:
    """Our searches: method, repetition, trial (from 1), best validation MAP@R after it."""
    trials = records.trials.sort_values(["method", "repetition", "trial"])
    searches = [trials["method"], trials["repetition"]]
    best = trials["value"].groupby(searches).cummax().groupby(searches).ffill()
    return trials[["method", "repetition"]].assign(trial=trials["trial"] + 1, best=best).reset_index(drop=True)


def best_after(records: StudyRecords) -> pd.DataFrame:
    """`best_so_far`, a row a method and repetition, a column a number of trials from 1."""
    return best_so_far(records).pivot(index=["method", "repetition"], columns="trial", values="best")


def trials_to_reach(traces: pd.DataFrame) -> pd.Series:
    """The first trial at which each search of `best_so_far` or `published.search_traces` had 99 % of its best."""
    keys = [column for column in ("dataset", "batch_size", "method", "repetition") if column in traces]
    final = traces.groupby(keys)["best"].transform("max")
    return traces[traces["best"] >= 0.99 * final].groupby(keys)["trial"].min()


def sensitivity(records: StudyRecords) -> pd.DataFrame:
    """The dependence on tuning, a row a method: best, median, worst trial, median_share (of the best), trials.

    random_share: the median of the trials at random that begin a search, as a share of the best.
    """
    from dmlrc import search

    complete = records.trials[records.trials["state"] == "complete"]
    table = complete.groupby("method")["value"].agg(best="max", median="median", worst="min", trials="size")
    at_random = complete[complete["trial"] < search.TPE["n_startup_trials"]].groupby("method")["value"].median()
    table.insert(3, "median_share", table["median"] / table["best"])
    table.insert(4, "random_share", at_random / table["best"])
    return table.loc[ordered(table.index)]


def importance(records: StudyRecords, min_trials: int = 20) -> pd.DataFrame:
    """Share of the trials' variance that each hyperparameter explains (`importances`), on the scale of its search.

    Columns: method, parameter, importance (mean over the method's searches; the rest is several together), error (its
    standard error, NaN for one search). Only of min_trials complete trials and several hyperparameters, without choice.
    """
    from dmlrc import bench, studies

    known = studies.known().get(records.name)  # it may search other ranges than the paper's main table
    spaces = {method.name: method.space for method in (*METHODS.values(), *(known.methods if known else ()))}
    rows = []
    for (name, _), trials in records.trials.groupby(["method", "repetition"], sort=False):
        complete, space = trials[trials["state"] == "complete"], spaces.get(name, {})
        if len(space) < 2 or len(complete) < min_trials or any(isinstance(limits, Choice) for limits in space.values()):
            continue
        points = bench.unit_cube(space, complete["params"])
        shares = importances.main_effects(points, complete["value"].to_numpy(float), seed=0)
        rows += [(name, key, share) for key, share in zip(space, shares, strict=True)]
    of_searches = pd.DataFrame(rows, columns=["method", "parameter", "importance"])
    shares = of_searches.groupby(["method", "parameter"], sort=False)["importance"]
    return shares.agg(importance="mean", error="sem").reset_index()


def best_hyperparameters(records: StudyRecords) -> pd.DataFrame:
    """The best setting of each method: method, hyperparameter, value, low and high (of its range), at_edge."""
    from dmlrc import search

    rows = []
    for name in ordered(records.trials["method"]):
        best = search.best(records.trials[records.trials["method"] == name].to_dict("records"))
        space = METHODS[name].space if name in METHODS else {}
        for parameter, value in (best["params"] if best else {}).items():
            limits = space.get(parameter)
            low, high = (getattr(limits, end, np.nan) for end in ("low", "high"))
            rows.append((name, parameter, value, low, high, limits is not None and at_edge(value, limits)))
    return pd.DataFrame(rows, columns=["method", "hyperparameter", "value", "low", "high", "at_edge"])


def best_of_searches(records: StudyRecords) -> pd.DataFrame:
    """`best_hyperparameters` of each search, which has one of its own: one after another, the repetitions in order."""
    searches = records.trials.groupby("repetition")
    return pd.concat(best_hyperparameters(records.having(trials=trials)) for _, trials in searches)


def at_edge(value: float, limits: Float | Int) -> bool:
    """True if a value lies in the lowest or highest `EDGE` of its range, in logarithms where it is searched so."""
    from dmlrc import bench

    return not EDGE < bench.unit_cube({"": limits}, [{"": value}]).item() < 1 - EDGE


def method_facts(methods: Methods = METHODS) -> pd.DataFrame:
    """Table 6 of the Reality Check, or the same of others, with what our search varies: indexed by method."""
    rows = {name: (row.year, row.kind, batch(row, ""), ", ".join(row.space)) for name, row in methods.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["year", "kind", "batch", "searched"])


def class_splits(records: StudyRecords) -> Splits:
    """The splits of a study's classes: as `halves`, with one image a class, so that an image is a class number."""
    meta = records.meta
    classes = np.arange(meta["data"]["classes"])
    return halves(classes, folds=meta["protocol"]["folds"], order=meta["class_order"], seed=meta["seed"])


def class_counts(edition: Sequence[StudyRecords] = ()) -> pd.DataFrame:
    """The classes that train, validate, test and are never used, as no fold has them: of data sets and studies."""
    parts_of = {name: halves(np.arange(count)) for name, count in (("CUB200", 200), ("Cars196", 196), ("SOP", 22634))}
    parts_of |= {records.name: class_splits(records) for records in edition}
    rows = {}
    for name, parts in parts_of.items():
        first, validated = parts.folds[0], np.unique(np.concatenate([fold.val for fold in parts.folds]))
        used = len(first.train), len(first.val), len(parts.train_val) - len(validated), len(parts.test)
        rows[name] = len(parts.class_order), *used
    return pd.DataFrame.from_dict(rows, orient="index", columns=["classes", "train", "validate", "never", "test"])


def rates(protocol: str) -> pd.DataFrame:
    """The trials that chose a protocol's learning rate and its stopping rule, from validation folds alone.

    A row a learning rate and stopping rule (patience and limit, in epochs): that of the trials as they were run, and
    the protocol's own, replayed on their curves. A column a method, its best trial's MAP@R; then their mean, and the
    mean steps of a run. Read from the short searches at one rate each; empty where none are here.
    """
    from dmlrc import records, studies

    rows = {}
    for study in studies.STUDIES.values():
        is_search = study.kind == RATES and all(method.level is None for method in study.methods)
        if not is_search or study.protocol.name != protocol:
            continue
        if (trials := records.find(study.name)) is None:
            continue
        chosen = studies.STUDIES[study.parent].effective_protocol
        rules = [(run.patience, run.max_epochs) for run in (study.effective_protocol, chosen)]
        for patience, max_epochs in dict.fromkeys(rules):
            rows[study.protocol.lr, patience, max_epochs] = replay(trials, patience, max_epochs)
    if not rows:
        return pd.DataFrame()
    table = pd.DataFrame(rows).T.rename_axis(["lr", "patience", "max_epochs"])
    return table[[*ordered(table.columns.drop(["mean", "steps"])), "mean", "steps"]]


def replay(records: StudyRecords, patience: int, max_epochs: int) -> pd.Series:
    """Results of the trials, had they followed another, stricter stopping rule: each method's best, mean, steps.

    The curves are cut where the rule (in epochs) would have stopped them; a trial's value is the mean over its folds.
    """
    length = records.meta["protocol"]["iterations_per_epoch"]
    curves = records.curves[records.curves["metric"] == "map_at_r"].sort_values("step")
    runs = {key: _stopped(curve, patience * length, max_epochs * length) for key, curve in curves.groupby(RUN)}
    frame = pd.DataFrame.from_dict(runs, orient="index", columns=["value", "steps"])
    frame.index = pd.MultiIndex.from_tuples(frame.index, names=RUN)
    best = frame["value"].groupby(RUN[:3]).mean().groupby("method").max()
    return pd.concat([best, pd.Series({"mean": best.mean(), "steps": frame["steps"].mean()})])


def _stopped(curve: pd.DataFrame, patience: int, limit: int) -> tuple[float, int]:
    """The best value of one run's curve, and the steps taken, if it had stopped by this rule (in steps)."""
    best, best_step, step = -np.inf, 0, 0
    for step, value in zip(curve["step"], curve["value"], strict=True):
        if value > best:
            best, best_step = value, step
        if step - best_step > patience or step >= limit:
            break
    return best, step


def batch(method: Method, sampler: str) -> str:
    """The contents of a batch: classes x images, or the number of images of any class. sampler: the protocol's.

    >>> batch(Method("a", "triplet", classes_per_batch=60, images_per_class=2), "class_balanced")
    '60 x 2'
    >>> batch(Method("a", "triplet", classes_per_batch=120, images_per_class=1), "random")
    '120 at random'
    """
    if (method.sampler or sampler) == "random":
        return f"{method.classes_per_batch * method.images_per_class} at random"
    return f"{method.classes_per_batch} x {method.images_per_class}"


def systems() -> pd.DataFrame:
    """Every method of the papers after the Reality Check, on CUB200: paper, method, loss, batch, year and settings."""
    rows = []
    for paper in papers.ALL[1:]:
        for method in paper.methods:
            how = batch(method, paper.protocol.sampler), method.sampler or paper.protocol.sampler, method.year
            settings = ", ".join(f"{name} {value:.4g}" for name, value in method.settings.items())
            rows.append((paper.key, method.label, method.loss, *how, settings))
    return pd.DataFrame(rows, columns=["paper", "method", "loss", "batch", "sampler", "year", "settings"])


def protocols() -> pd.DataFrame:
    """The five protocols on CUB200, without what they record: a row a setting, a column a paper."""
    table = pd.DataFrame({paper.key: asdict(paper.protocol) for paper in papers.ALL})
    recorded = ["test_metrics", "val_metrics", "train_metrics", "binary", "arrays", "per_class"]
    return table.drop(index=["name", "paper", *recorded, *OURS_ALONE])


def shape(records: StudyRecords) -> tuple[int, float]:
    """The test classes of a study, and the images of a class, on average over the whole data set."""
    facts = records.meta["data"]
    return facts["classes"] - facts["classes"] // 2, facts["images"] / facts["classes"]
