"""Tables: plain data frames computed from records and from published numbers, and how they are printed.

The first part computes: numbers (fractions), methods named as in the records. The second part prints: cells of text
in percent, methods by their labels, in the order of `dmlrc.papers.musgrave2020.METHODS`, and what a caption must say.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd
from scipy import stats

from dmlrc import reported
from dmlrc.papers import musgrave2020
from dmlrc.protocol import Protocol
from dmlrc.records import StudyRecords
from dmlrc.study import PRETRAINED

SETTINGS = ("concatenated", "separated")
METRICS = ("precision_at_1", "r_precision", "map_at_r")
CLASSICS = ("contrastive", "triplet")
METRIC_LABELS = {
    "precision_at_1": "P@1",
    "recall_at_1": "R@1",
    "recall_at_2": "R@2",
    "recall_at_4": "R@4",
    "recall_at_8": "R@8",
    "r_precision": "RP",
    "map_at_r": "MAP@R",
    "map_at_c": "mAP@C",
    "map_at_1000": "mAP@1000",
    "nmi": "NMI",
    "f1": "F1",
}
METHODS = {method.name: method for method in musgrave2020.METHODS}
SAME_DATA = {"cub200": "CUB200", "cars196": "Cars196", "cars196crops": "Cars196", "sop": "SOP"}
"""The paper's data set that has the same classes as one of ours."""


def label(method: str) -> str:
    """A method's name as printed; a method of the reader's own keeps its name."""
    return "Pretrained" if method == PRETRAINED else METHODS[method].label if method in METHODS else method


def ordered(methods: Iterable[str]) -> list[str]:
    """The pretrained row, the paper's methods in its order, then any others."""
    order = [PRETRAINED, *METHODS]
    present = list(dict.fromkeys(methods))
    return sorted(present, key=lambda name: order.index(name) if name in order else len(order))


def interval(values: Sequence[float], level: float = 0.95) -> float:
    """Half width of the Student-t interval of the mean, with n - 1 degrees of freedom; NaN for fewer than 2 values.

    >>> round(interval([1.0, 2.0, 3.0]), 3)  # 4.303 * 1 / sqrt(3)
    2.484
    """
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return float("nan")
    return float(stats.t.ppf((1 + level) / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def accuracy(records: StudyRecords) -> pd.DataFrame:
    """Accuracy on the test half over the reruns: method, setting, metric, mean, ci95, n.

    Columns as in `reported.results`, and n, the number of reruns. ci95 is NaN for a single rerun, and for the
    pretrained row, which has no seed.
    """
    scores = records.scores[records.scores["setting"].isin(SETTINGS)]
    groups = scores.groupby(["method", "setting", "metric"], sort=False)["value"]
    return groups.agg(mean="mean", ci95=interval, n="size").reset_index()


def marks(frame: pd.DataFrame) -> pd.Series:
    """For each row of `accuracy`: "best" for the highest mean of its setting and metric, "tie", or "".

    A tie: its 95 % interval overlaps that of the best (a missing interval counts as zero wide). Overlap is a rule of
    the eye, not a test. The pretrained row does not compete.
    """
    competing = frame[frame["method"] != PRETRAINED]
    result = pd.Series("", index=frame.index)
    for _, group in competing.groupby(["setting", "metric"]):
        half = group["ci95"].fillna(0.0)
        best = group["mean"].idxmax()
        reaches = group["mean"] + half >= group["mean"][best] - half[best]
        result[group.index[reaches]] = "tie"
        result[best] = "best"
    return result


def status(records: StudyRecords) -> pd.DataFrame:
    """What was run of every method: trials, diverged, reruns, failed_reruns (counts) and state, indexed by method.

    state: "complete"; "diverged" (no trial ended with a number); "unfinished"; "not run".
    """
    budget = records.meta["budget"]
    rows = {}
    for method in ordered([*METHODS, *records.runs["method"]]):
        trials = records.trials[records.trials["method"] == method]
        runs = records.runs[(records.runs["method"] == method) & (records.runs["kind"] == "rerun")]
        failed = runs[runs["state"] != "complete"]["number"].nunique()
        row = {
            "trials": len(trials),
            "diverged": int((trials["state"] == "diverged").sum()),
            "reruns": runs["number"].nunique() - failed,
            "failed_reruns": failed,
        }
        rows[method] = row | {"state": _state(row, budget)}
    return pd.DataFrame.from_dict(rows, orient="index")


def _state(row: Mapping[str, int], budget: Mapping) -> str:
    if not row["trials"]:
        return "not run"
    if row["trials"] >= budget["trials"] and row["diverged"] == row["trials"]:
        return "diverged"
    finished = row["trials"] >= budget["trials"] and row["reruns"] + row["failed_reruns"] >= budget["reruns"]
    return "complete" if finished else "unfinished"


def cost(records: StudyRecords) -> pd.DataFrame:
    """What a method cost: search_seconds (all trials), seconds and steps of one rerun (mean), indexed by method.

    The folds of a rerun train side by side: its seconds are those of the slowest fold, its steps the sum of all.
    """
    reruns = records.runs[records.runs["kind"] == "rerun"]
    each = reruns.groupby(["method", "number"]).agg(seconds=("seconds", "max"), steps=("steps", "sum"))
    table = each.groupby("method").mean()
    table.insert(0, "search_seconds", records.trials.groupby("method")["seconds"].sum())
    return table.loc[[name for name in ordered(table.index) if name in table.index]]


def spread(frame: pd.DataFrame, setting: str = "concatenated", metric: str = "map_at_r") -> dict[str, float]:
    """How far apart the methods are: best, worst, range (fractions), the methods' mean ci95, and which they are.

    frame: `accuracy` or one data set of `reported.results`.
    """
    rows = frame[(frame["setting"] == setting) & (frame["metric"] == metric) & (frame["method"] != PRETRAINED)]
    rows = rows.set_index("method")
    return {
        "best": float(rows["mean"].max()),
        "best_method": rows["mean"].idxmax(),
        "worst": float(rows["mean"].min()),
        "worst_method": rows["mean"].idxmin(),
        "range": float(rows["mean"].max() - rows["mean"].min()),
        "mean_ci95": float(rows["ci95"].mean()),
    }


def improvement(frame: pd.DataFrame, baseline: str, metric: str = "precision_at_1") -> pd.Series:
    """Mean relative improvement of the newer methods over a baseline, by setting: 0.02 is 2 % better.

    frame: `accuracy` or one data set of `reported.results`. baseline: one of `CLASSICS`; all methods but these two
    are newer. Fig. 5 of the Reality Check. A setting without the baseline is NaN.
    """
    rows = frame[(frame["metric"] == metric) & (frame["method"] != PRETRAINED)]
    means = rows.pivot(index="method", columns="setting", values="mean").reindex(columns=list(SETTINGS))
    if baseline not in means.index:
        return pd.Series(np.nan, index=list(SETTINGS))
    newer = means.drop(index=list(CLASSICS), errors="ignore")
    return (newer / means.loc[baseline] - 1).mean()


def claimed_improvement(claims: pd.DataFrame, baseline: str, years: tuple[int, int] = (2017, 2019)) -> pd.DataFrame:
    """What papers of these years claim over a baseline in their own tables, a row a paper and data set.

    claims: `reported.claims()`. baseline: "contrastive" or "triplet". Only headline rows; a paper counts where both
    its own number and its baseline's were read. Columns: paper, year, dataset, method, r1, r1_baseline, gain.
    """
    headline = claims[claims["primary"] & claims["year"].between(*years)]
    own = headline[headline["role"] == "proposed"][["paper", "year", "dataset", "method", "r1"]]
    theirs = headline[headline["role"] == f"{baseline}_baseline"][["paper", "dataset", "r1"]]
    both = own.merge(theirs, on=["paper", "dataset"], suffixes=("", "_baseline"))
    return both.assign(gain=both["r1"] / both["r1_baseline"] - 1)


def recycled(claims: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Baseline numbers that more than one paper prints: dataset, r1, papers (count), first (year), who.

    Sorted by data set and count. A number that three papers print to the digit was not measured three times.
    """
    rows = claims[(claims["role"] == f"{baseline}_baseline") & claims["primary"]].sort_values("year", kind="stable")
    groups = rows.groupby(["dataset", "r1"])
    table = groups.agg(papers=("paper", "size"), first=("year", "min"), who=("paper", "; ".join)).reset_index()
    table = table[table["papers"] > 1]
    order = table["dataset"].map(list(reported.DATASETS).index)
    return table.assign(order=order).sort_values(["order", "papers"], ascending=[True, False]).drop(columns="order")


def slope(years: Sequence[float], values: Sequence[float]) -> dict[str, float]:
    """Least-squares trend of a value over the years: slope a year, half width of its 95 % interval, n.

    The interval treats the points as independent; papers that build on one another are not.
    """
    fit = stats.linregress(years, values)
    half = stats.t.ppf(0.975, len(years) - 2) * fit.stderr if len(years) > 2 else float("nan")
    return {"slope": float(fit.slope), "ci95": float(half), "n": len(years)}


def measured_by_year(
    frame: pd.DataFrame, setting: str = "concatenated", metric: str = "precision_at_1"
) -> pd.DataFrame:
    """The year and accuracy of every method in a table of results: method, year, value. frame: as in `spread`."""
    rows = frame[(frame["setting"] == setting) & (frame["metric"] == metric) & frame["method"].isin(METHODS)]
    years = rows["method"].map(lambda name: METHODS[name].year)
    return pd.DataFrame({"method": rows["method"], "year": years, "value": rows["mean"]}).reset_index(drop=True)


def rank_agreement(ours: pd.DataFrame, theirs: pd.DataFrame, setting: str = "concatenated") -> dict[str, float]:
    """Spearman's rank correlation of MAP@R over the methods that both tables have: rho, p, n."""
    means = [
        frame[(frame["setting"] == setting) & (frame["metric"] == "map_at_r")].set_index("method")["mean"]
        for frame in (ours, theirs)
    ]
    both = pd.concat(means, axis=1, keys=["ours", "theirs"]).drop(index=PRETRAINED, errors="ignore").dropna()
    if len(both) < 3:
        return {"rho": float("nan"), "p": float("nan"), "n": len(both)}
    test = stats.spearmanr(both["ours"], both["theirs"])
    return {"rho": float(test.statistic), "p": float(test.pvalue), "n": len(both)}


def best_so_far(records: StudyRecords) -> pd.DataFrame:
    """Our searches, as `reported.search_traces`: method, trial (from 1), best validation MAP@R after it."""
    trials = records.trials.sort_values(["method", "trial"])
    best = trials.groupby("method")["value"].transform(lambda values: values.cummax().ffill())
    return pd.DataFrame({"method": trials["method"], "trial": trials["trial"] + 1, "best": best}).reset_index(drop=True)


def trials_to_reach(traces: pd.DataFrame, share: float = 0.99) -> pd.Series:
    """The first trial at which each search had reached this share of its final best, indexed as the searches are.

    traces: `reported.search_traces()` or `best_so_far`.
    """
    keys = [column for column in ("dataset", "batch_size", "method") if column in traces]
    final = traces.groupby(keys)["best"].transform("max")
    return traces[traces["best"] >= share * final].groupby(keys)["trial"].min()


def sensitivity(records: StudyRecords) -> pd.DataFrame:
    """How much a method depends on its tuning, indexed by method: best, median, worst trial, median_share, trials.

    median_share = median / best: near 1, any setting of the search space will do.
    """
    complete = records.trials[records.trials["state"] == "complete"]
    table = complete.groupby("method")["value"].agg(best="max", median="median", worst="min", trials="size")
    table.insert(3, "median_share", table["median"] / table["best"])
    return table.loc[ordered(table.index)]


def importance(records: StudyRecords, min_trials: int = 20, seed: int = 0) -> pd.DataFrame:
    """Share of the trials' variance that each hyperparameter explains (fANOVA, Hutter et al. 2014).

    Columns: method, parameter, importance (sums to 1 in a method). Only methods with at least min_trials complete
    trials and more than one hyperparameter: with fewer there is nothing to tell apart.
    """
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    from dmlrc import search

    rows = []
    for name, trials in records.trials.groupby("method", sort=False):
        complete = trials[trials["state"] == "complete"]
        if name not in METHODS or len(METHODS[name].space) < 2 or len(complete) < min_trials:
            continue
        study = search.optuna_study(METHODS[name], trials.to_dict("records"))
        shares = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=seed))
        rows += [{"method": name, "parameter": key, "importance": value} for key, value in shares.items()]
    return pd.DataFrame(rows, columns=["method", "parameter", "importance"])


def best_hyperparameters(records: StudyRecords) -> pd.DataFrame:
    """The setting that won each search: method, hyperparameter, value, and the range searched (low, high)."""
    from dmlrc import search

    rows = []
    for name in ordered(records.trials["method"]):
        best = search.best(records.trials[records.trials["method"] == name].to_dict("records"))
        space = METHODS[name].space if name in METHODS else {}
        for parameter, value in (best["params"] if best else {}).items():
            limits = space.get(parameter)
            rows.append(
                {
                    "method": name,
                    "hyperparameter": parameter,
                    "value": value,
                    "low": getattr(limits, "low", np.nan),
                    "high": getattr(limits, "high", np.nan),
                }
            )
    return pd.DataFrame(rows, columns=["method", "hyperparameter", "value", "low", "high"])


def methods() -> pd.DataFrame:
    """Table 6 of the Reality Check, with what our search varies: indexed by method, the registry's own facts."""
    rows = {
        method.name: {
            "year": method.year,
            "kind": method.kind,
            "batch": f"{method.classes_per_batch} x {method.images_per_class}",
            "searched": ", ".join(method.space),
        }
        for method in musgrave2020.METHODS
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def settings(edition: Sequence[StudyRecords], paper: Protocol = musgrave2020.PROTOCOL) -> pd.DataFrame:
    """Every setting of the protocol: one row a setting, a column for the paper and one for each study."""
    columns = {"paper": asdict(paper)} | {records.name: records.meta["protocol"] for records in edition}
    return pd.DataFrame(columns).drop(index=["name", "paper"]).map(setting_text)


# Printing.


def setting_text(value) -> str:
    """The value of a setting as printed.

    >>> setting_text((0.16, 1.0)), setting_text(True), setting_text(None), setting_text(1e-06)
    ('0.16 to 1', 'yes', 'none', '1e-06')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " to ".join(f"{number:.3g}" for number in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def percent(mean: float, ci95: float = float("nan"), digits: int = 2) -> str:
    """A fraction and its interval in percent.

    >>> percent(0.6721, 0.0049), percent(0.5105), percent(float("nan"))
    ('67.21 ± 0.49', '51.05', '')
    """
    if np.isnan(mean):
        return ""
    half = "" if np.isnan(ci95) else f" ± {100 * ci95:.{digits}f}"
    return f"{100 * mean:.{digits}f}{half}"


def printed_results(
    frame: pd.DataFrame, dim: int = 128, folds: int = 4, state: pd.DataFrame | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and the marks (see `marks`) of a results table in the paper's layout.

    frame: `accuracy` or one data set of `reported.results`. dim, folds: of the protocol, for the headings.
    state: `status`; adds a column that says how many reruns each row rests on, and rows for methods without any.
    """
    frame = frame[frame["metric"].isin(METRICS)]
    heads = {"concatenated": f"Concatenated ({folds * dim}-d)", "separated": f"Separated ({dim}-d)"}
    names = ordered(frame["method"] if state is None else [*frame["method"], *state.index])
    keys = pd.MultiIndex.from_product([SETTINGS, METRICS])
    printed = frame.assign(cell=[percent(*pair) for pair in frame[["mean", "ci95"]].to_numpy()], mark=marks(frame))
    wide = {
        column: printed.pivot(index="method", columns=["setting", "metric"], values=column)
        .reindex(index=names, columns=keys)
        .fillna("")
        for column in ("cell", "mark")
    }
    for each in wide.values():
        each.columns = pd.MultiIndex.from_tuples([(heads[setting], METRIC_LABELS[metric]) for setting, metric in keys])
    if state is not None:
        wide["cell"]["", "reruns"] = [_reruns(state, name) for name in names]
        wide["mark"]["", "reruns"] = ""
    for each in wide.values():
        each.index = pd.Index([label(name) for name in names], name="Method")
    return wide["cell"], wide["mark"]


def _reruns(state: pd.DataFrame, method: str) -> str:
    if method not in state.index:
        return ""
    row = state.loc[method]
    failed = f", {row['failed_reruns']} diverged" if row["failed_reruns"] else ""
    count = f"{row['reruns']}{failed}"
    return (
        count if row["state"] == "complete" else row["state"] + (f": {count}" if row["state"] == "unfinished" else "")
    )


def beside(theirs: pd.DataFrame, edition: Sequence[StudyRecords], paper: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and marks of a published table, with our concatenated P@1 and MAP@R of each study beside it.

    theirs: one data set of `reported.results`. paper: the heading of the published columns. A method that one side
    does not have has a dash there.
    """
    names = [label(name) for name in ordered([PRETRAINED, *METHODS])]
    blocks = [(f"{paper}, ", printed_results(theirs), None)]
    blocks += [
        (f"{records.name}, ", printed_results(accuracy(records), *dimensions(records)), ["P@1", "MAP@R"])
        for records in edition
    ]
    cells, marked = [], []
    for head, pair, metrics in blocks:
        for whole, frame in zip((cells, marked), pair, strict=True):
            part = frame if metrics is None else frame.iloc[:, : len(METRICS)].loc[:, (slice(None), metrics)]
            part.columns = pd.MultiIndex.from_tuples([(head + over.lower(), under) for over, under in part.columns])
            whole.append(part.reindex(names))
    return pd.concat(cells, axis=1).replace("", np.nan).fillna("–"), pd.concat(marked, axis=1).fillna("")


def dimensions(records: StudyRecords) -> tuple[int, int]:
    """The size of an embedding and the number of folds."""
    return records.meta["protocol"]["embedding_dim"], records.meta["protocol"]["folds"]


DATASET_LABELS = {
    "glyphs": "Glyphs",
    "omniglot": "Omniglot",
    "grocery": "Grocery Store",
    "cars196": "Cars196",
    "cars196crops": "Cars196 crops",
    "cub200": "CUB200",
    "sop": "SOP",
}
TRUNK_LABELS = {
    "conv4": "conv4",
    "squeezenet1_0": "SqueezeNet 1.0",
    "googlenet": "GoogLeNet",
    "resnet18": "ResNet18",
    "resnet50": "ResNet50",
    "inception_v3": "Inception-v3",
    "bn_inception": "BN-Inception",
}


def dataset(records: StudyRecords) -> str:
    """The data set of a study as printed."""
    return DATASET_LABELS.get(records.meta["dataset"], records.meta["dataset"])


def trunk(records: StudyRecords) -> str:
    """The trunk of a study as printed: which network, where its weights come from, and whether it trains."""
    protocol = records.meta["protocol"]
    name = TRUNK_LABELS.get(protocol["trunk"], protocol["trunk"])
    weights = "random weights" if protocol["weights"] is None else "ImageNet weights"
    how = "frozen: only the linear embedder trains" if protocol["frozen_trunk"] else "all of it trains"
    return f"{name}, {weights}, {how}"


def caption(records: StudyRecords) -> str:
    """What stands under every number of a study: data set, protocol, trunk, budget, seed and commit."""
    meta = records.meta
    data, budget, protocol = meta["data"], meta["budget"], meta["protocol"]
    epochs = f"at most {protocol['max_epochs']} epochs of {protocol['iterations_per_epoch']} batches"
    return (
        f"Study `{records.name}`: {dataset(records)}, {data['images']:,} images of {data['classes']:,} classes; "
        f"protocol {protocol['name']}; trunk {trunk(records)}; budget {budget['name']}: {budget['trials']} trials, "
        f"{budget['reruns']} reruns, {protocol['folds']} folds, {epochs}; seed {meta['seed']}, "
        f"{meta['class_order']} class order; commit `{meta['commit']}`."
    )


def caveat(records: StudyRecords) -> str:
    """What the numbers of a study cannot show, in one or two sentences."""
    budget, protocol = records.meta["budget"], records.meta["protocol"]
    sentences = []
    if budget["name"] != "full":
        sentences.append(
            f"The {budget['name']} budget of `{records.name}` ({budget['trials']} trials, {budget['reruns']} reruns) "
            "shows that the whole chain works. It is too small to rank the methods."
        )
    if protocol["frozen_trunk"]:
        sentences.append(
            f"In `{records.name}` the trunk is frozen: the losses are compared on fixed ImageNet features, with a "
            "linear embedder. That says nothing about how they compare when the whole network is fine-tuned."
        )
    return " ".join(sentences)
