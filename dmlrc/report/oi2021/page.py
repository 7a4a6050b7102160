"""The table and figures of Oi et al. 2021, Analysis of Evaluation Metrics with the Distance between Positive Pairs and
Negative Pairs in Deep Metric Learning.

Numbers first, then cells and sentences for the page, then figures. Experiments: oi2021 (the
data set's own class order: Figs. 1-4), oi2021-random (Table 1) and more random orders. One method, normalised softmax.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from dmlrc.metrics.histograms import BINS, jensen_shannon_divergence
from dmlrc.papers import oi2021
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import common, editions, labels, published, statistics, titles
from dmlrc.report.claims import NOT_RUN, Judged
from dmlrc.report.claims.oi2021 import JSD_LIKE_MAP, by_order
from dmlrc.report.common import ByStudy
from dmlrc.report.statistics import Estimate, of_groups
from dmlrc.studies import experiments

EXPERIMENTS = {"default": "oi2021", "random": "oi2021-random"}
"""The class order -> the experiment."""
METRICS = {"precision_at_1": "R@1", "map_at_r": "MAP@R", "jsd": "JSD"}
MEANS = {"mean_positive": "positive pairs", "mean_negative": "negative pairs"}
KEPT_BINS = (100, 50, 25, 20, 10, 5)
"""Numbers of bins that the recorded histograms can be merged into."""
PARTS = {"train_": "training", "": "validation"}
"""What stands before a metric's name in a curve -> the images that it is measured on."""

Orders = Mapping[str, ByStudy]
"""Class order -> main study -> records, or None where nothing was run."""


def load(studies: str) -> dict[str, dict[str, StudyRecords | None]]:
    """The records of both class orders around every main study; see `editions.around`."""
    return {order: editions.around(studies, experiment) for order, experiment in EXPERIMENTS.items()}


# Table 1: the order of the classes


def final_scores(records: StudyRecords) -> pd.DataFrame:
    """Scores on the test images after training: method, rerun, metric, score; without the pretrained trunk."""
    scores = common.seeds(records)
    return scores[(scores["setting"] == "separated") & (scores["method"] != PRETRAINED)]


def table1(records: StudyRecords | None) -> pd.DataFrame:
    """Mean and 95 % interval of each metric on the test images over the seeds, indexed by metric: mean, ci95, n."""
    if records is None:
        return pd.DataFrame(columns=["mean", "ci95", "n"], dtype=float)
    return of_groups(final_scores(records).groupby("metric")["score"])


def order_gain(default: StudyRecords | None, random: StudyRecords | None, metric: str) -> Estimate:
    """How much higher a metric is with the random class order. The test classes differ, so reruns are no pairs."""
    if default is None or random is None:
        return statistics.mean([])
    frames = (final_scores(each) for each in (random, default))
    return statistics.welch(*(frame.loc[frame["metric"] == metric, "score"].to_numpy() for frame in frames), "reruns")


def compare_orders(orders: Orders) -> pd.DataFrame:
    """oi-t1, cells: every metric with default and random class order, and the difference; JSD a fraction."""
    rows = {}
    theirs = published.oi_results()
    for dataset, part in theirs.groupby("dataset", sort=False):
        wide = part.pivot(index="class_order", columns="metric", values="value")
        for order in EXPERIMENTS:
            rows[f"{dataset} (the paper)", order] = {
                text: number(wide.loc[order, key], np.nan, key) for key, text in METRICS.items()
            }
        rows[f"{dataset} (the paper)", "random is higher"] = {
            text: common.judged(wide.loc["random", key] - wide.loc["default", key], **_unit(key))
            for key, text in METRICS.items()
        }
    for name in orders["default"]:
        pair = [orders[order][name] for order in EXPERIMENTS]
        for order, records in zip(EXPERIMENTS, pair, strict=True):
            scores = table1(records)
            missing = "not run" if records is None else common.state(records, oi2021.METHODS[0].name) or "–"
            rows[name, order] = {
                text: number(*scores.loc[key, ["mean", "ci95"]], key) if key in scores.index else missing
                for key, text in METRICS.items()
            }
        rows[name, "random is higher"] = {
            text: common.judged(order_gain(*pair, key), **_unit(key)) for key, text in METRICS.items()
        }
    cells = pd.DataFrame.from_dict(rows, orient="index")
    cells.index = pd.MultiIndex.from_tuples(cells.index, names=["data set", "class order"])
    return cells


def orders_scores(orders: Orders) -> pd.DataFrame:
    """The scores of both class orders, the paper's and ours: where, by, order, metric, mean, ci95.

    by: "the paper" or "ours". mean, ci95: fractions; the paper gives no interval.
    """
    theirs = published.oi_results().rename(columns={"class_order": "order", "value": "mean"})
    frames = [theirs.assign(where=theirs["dataset"], by="the paper", ci95=np.nan)]
    for order in EXPERIMENTS:
        for name, records in common.present(orders[order]).items():
            found = table1(records).rename_axis("metric").reset_index()
            frames.append(found.assign(where=name, by="ours", order=order))
    found = pd.concat(frames, ignore_index=True)
    return found[found["metric"].isin(METRICS)][["where", "by", "order", "metric", "mean", "ci95"]]


def _unit(metric: str) -> dict[str, int]:
    """How a number is printed: the divergence as a fraction, an accuracy in percent."""
    return {"scale": 1, "digits": 3} if metric == "jsd" else {"scale": 100, "digits": 1}


def number(mean: float, ci95: float, metric: str) -> str:
    """A score with its interval: the divergence as a fraction, an accuracy in percent."""
    if metric != "jsd":
        return labels.percent(mean, ci95, digits=1)
    return f"{mean:.3f}" + ("" if np.isnan(ci95) else f" ± {ci95:.3f}")


def _moved(found: Estimate, metric: str) -> str:
    """A difference in words: in points where the metric is an accuracy, and whether it may be none."""
    text = common.points(found.value, found.half, **_unit(metric)) + " points" * (metric != "jsd")
    return f"{text} (perhaps not at all)" if found.low <= 0 <= found.high else text


def orders_sentence(orders: Orders) -> str:
    """Whether the random class order scores higher around each study."""
    sentences = []
    for name in orders["default"]:
        pair = [orders[order][name] for order in EXPERIMENTS]
        if None in pair:
            continue
        texts = [f"{text} by {_moved(order_gain(*pair, key), key)}" for key, text in METRICS.items()]
        sentences.append(f"On `{name}` one random class order, as in the paper, changes {labels.listed(texts)}.")
    if sentences:
        return labels.bullets(sentences)
    return "The two class orders were not both run here."


# More random orders than the paper's one

ACCURACIES = ("precision_at_1", "map_at_r")


def every_order(studies: str) -> pd.DataFrame:
    """Test scores with every class order, where more than one random order was run.

    Columns: study, order, metric, what, score, half.

    order: "default", or "random" with the number of its experiment. what: "trained", the mean over the reruns, or
    "untrained", the trunk on the same test classes. score: fraction. half: of its 95 % interval over the reruns, 0 for
    the trunk.
    """
    frames = []
    for main in editions.names(studies):
        found = experiments.class_orders(main)
        if len(found) > len(EXPERIMENTS):
            frames += [
                _both(records).assign(
                    study=main, order="default" if name == EXPERIMENTS["default"] else name.removeprefix("oi2021-")
                )
                for name, records in found.items()
            ]
    columns = ["study", "order", "metric", "what", "score", "half"]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def _both(records: StudyRecords) -> pd.DataFrame:
    scores = common.seeds(records)
    scores = scores[(scores["setting"] == "separated") & scores["metric"].isin([*ACCURACIES, "jsd"])]
    what = scores["method"].eq(PRETRAINED).map({True: "untrained", False: "trained"}).rename("what")
    found = scores.groupby(["metric", what])["score"].agg(score="mean", half=statistics.half_width).reset_index()
    return found.assign(half=found["half"].where(found["what"] == "trained", 0.0))


def every_order_cells(found: pd.DataFrame) -> pd.DataFrame:
    """`every_order` as cells, a row a study and order, last the mean of the random ones with their SD."""
    rows = {}
    for study, part in found.groupby("study", sort=False):
        wide = part.pivot(index="order", columns=["metric", "what"], values="score")
        drawn = wide.drop(index="default")
        drawn = drawn.loc[sorted(drawn.index, key=lambda order: (order != "random", len(order), order))]
        for order, scores in pd.concat([wide.loc[["default"]], drawn]).iterrows():
            texts = {key: _score(value, key[0]) for key, value in scores.items()}
            for metric in ACCURACIES:
                texts[metric, "trained"] += labels.below(scores[metric, "trained"], scores[metric, "untrained"])
            rows[study, re.sub(r"^order(?=\d)", "random ", order)] = texts
        rows[study, f"mean of {len(drawn)} random orders ± SD"] = {
            key: f"{_score(drawn[key].mean(), key[0])} ± {_score(drawn[key].std(), key[0])}" for key in drawn
        }
    shown = [(metric, what) for metric in (*ACCURACIES, "jsd") for what in ("trained", "untrained")]
    cells = pd.DataFrame.from_dict(rows, orient="index").reindex(columns=shown).fillna("–")
    cells.columns = pd.MultiIndex.from_tuples([(METRICS[metric], what) for metric, what in cells.columns])
    return cells.rename_axis(["Study", "Class order"])


def _score(value: float, metric: str) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.3f}" if metric == "jsd" else f"{100 * value:.1f}"


def every_order_sentence(found: pd.DataFrame) -> str:
    """Between what R@1 lies over the random orders, where the default one stands, and what the trunk does."""
    lines = []
    for study, part in found[found["metric"] == "precision_at_1"].groupby("study", sort=False):
        wide = 100 * part.pivot(index="order", columns="what", values="score")
        own, drawn = wide.loc["default"], wide.drop(index="default")
        below, trunk = int((wide["trained"] < wide["untrained"]).sum()), drawn["untrained"]
        its = own["untrained"]
        start = "easier" if trunk.min() > its else "harder" if trunk.max() < its else "about as hard"
        count = len(wide)
        stays = f"In {f'all {count}' if below == count else f'{below} of the {count}'} orders the trained layer stays"
        if not below:
            stays = f"In none of the {count} orders does the trained layer stay"
        lines.append(
            f"On {titles.title(study)} R@1 lies between {drawn['trained'].min():.1f} % and "
            f"{drawn['trained'].max():.1f} % over {labels.counted(len(drawn), 'random order')} (SD "
            f"{drawn['trained'].std():.1f} points) and is {own['trained']:.1f} % with the default one. The untrained "
            f"trunk, reduced to as many dimensions, has {trunk.min():.1f} % to {trunk.max():.1f} % with the random "
            f"orders and {its:.1f} % with the default one: to it their test classes are {start}. {stays} below it."
        )
    return labels.bullets(lines)


# Figures 1 and 3: histograms of inner products


def histograms(records: StudyRecords, setting: str) -> pd.DataFrame:
    """Counts of the inner products of all pairs, summed over the seeds: low, high (edges), positive, negative.

    setting: "test", "train" or "untrained" (the test images before the first step). Empty where nothing was recorded.
    """
    arrays = records.arrays[records.arrays["setting"] == setting]
    wide = arrays.pivot_table(index=["method", "rerun"], columns="name", values="values", aggfunc="first")
    if not {"edges", "positive", "negative"} <= set(wide):
        return pd.DataFrame(columns=["low", "high", "positive", "negative"], dtype=float)
    counts = {name: np.stack(list(wide[name])).sum(axis=0) for name in ("positive", "negative")}
    edges = np.asarray(wide["edges"].iloc[0])  # the same for all: the embeddings are normalised
    return pd.DataFrame({"low": edges[:-1], "high": edges[1:], **counts})


def histogram_statistics(frame: pd.DataFrame) -> dict[str, float]:
    """Of histograms: positive and negative (number of pairs), their mean and std (by the bins' centres), jsd.

    frame: `histograms`, with pairs of both kinds.
    """
    centres = (frame["low"] + frame["high"]) / 2
    values = {"jsd": jensen_shannon_divergence(frame["positive"], frame["negative"])}
    for kind in ("positive", "negative"):
        weights = frame[kind] / frame[kind].sum()
        mean = float((weights * centres).sum())
        values |= {
            kind: float(frame[kind].sum()),
            f"mean_{kind}": mean,
            f"std_{kind}": float(np.sqrt((weights * (centres - mean) ** 2).sum())),
        }
    return values


def merged(counts: Sequence[float], bins: int) -> np.ndarray:
    """A histogram with fewer bins: each the sum of as many neighbours. The number of counts is a multiple of bins.

    >>> merged([1, 2, 3, 4], 2).tolist()
    [3.0, 7.0]
    """
    return np.asarray(counts, dtype=float).reshape(bins, -1).sum(axis=1)


def jsd_by_bins(records: StudyRecords, setting: str = "test") -> pd.Series:
    """JSD of the recorded histograms, merged into fewer bins, indexed by the number of bins.

    Merging can only lower a JSD, since it hides differences inside a bin.
    """
    frame = histograms(records, setting)
    fitting = [bins for bins in KEPT_BINS if len(frame) and len(frame) % bins == 0]
    values = {
        bins: jensen_shannon_divergence(merged(frame["positive"], bins), merged(frame["negative"], bins))
        for bins in fitting
    }
    return pd.Series(values, dtype=float)


def bins_cells(by_study: ByStudy) -> pd.DataFrame:
    """oi-bins, cells: JSD of the test images before and after training for every number of bins."""
    columns = {}
    for name, records in by_study.items():
        for setting, text in (("untrained", "before"), ("test", "after")):
            values = pd.Series(dtype=float) if records is None else jsd_by_bins(records, setting)
            missing = "not run" if records is None else "–"
            columns[name, text] = {
                bins: f"{values[bins]:.3f}" if bins in values.index else missing for bins in KEPT_BINS
            }
    return pd.DataFrame(columns).rename_axis("Bins on [-1, 1]")


def bins_sentence(by_study: ByStudy) -> str:
    """How much the number of bins matters, beside what training changes, in a sentence a study."""
    sentences = []
    for name, records in common.present(by_study).items():
        before, after = jsd_by_bins(records, "untrained"), jsd_by_bins(records)
        if not {BINS, 20} <= set(before.index) & set(after.index):
            continue
        lost = {text: values[BINS] - values[20] for text, values in (("before", before), ("after", after))}
        sentences.append(
            f"On `{name}` a fifth of the bins (20) lowers the JSD by {lost['before']:.4f} before and by "
            f"{lost['after']:.4f} after training; training itself changes it by {after[BINS] - before[BINS]:+.3f}."
        )
    return labels.bullets(sentences) or "No histograms were recorded here."


def imbalance_sentence(by_study: ByStudy) -> str:
    """How many negative pairs stand against a positive one around each study, in two sentences."""
    told = {}
    for name, records in common.present(by_study).items():
        frame = histograms(records, "test")
        if len(frame):
            seen = histogram_statistics(frame)
            told[name] = f"{seen['negative'] / seen['positive']:.0f}"
    if not told:
        return "No histograms were recorded here."
    return (
        f"The negative pairs of test images outnumber the positive ones by a factor of {labels.by_study(told)}. As "
        "counts, the positive histogram is that much smaller."
    )


def histograms_sentence(by_study: ByStudy) -> str:
    """What training does to the test histograms, beside what the paper sees, in a sentence a study."""
    sentences = []
    for name, records in common.present(by_study).items():
        frames = {text: histograms(records, setting) for setting, text in (("untrained", "before"), ("test", "after"))}
        if any(frame.empty for frame in frames.values()):
            continue
        before, after = (histogram_statistics(frame) for frame in frames.values())
        parts = {
            key: f"{before[key]:.3f} to {after[key]:.3f}"
            for key in ("mean_positive", "mean_negative", "std_positive", "std_negative")
        }
        sentences.append(
            f"On `{name}`, from the untrained layer to the checkpoint with the best validation MAP@R, the mean inner "
            f"product of positive test pairs goes from {parts['mean_positive']} and that of negative ones from "
            f"{parts['mean_negative']}. The histogram of the "
            f"negative pairs gets {'narrower' if after['std_negative'] < before['std_negative'] else 'wider'}: its "
            f"standard deviation goes from {parts['std_negative']} (positive pairs: {parts['std_positive']})."
        )
    return labels.bullets(sentences) or "No histograms were recorded here."


# Figures 2 and 4: over the epochs


def curves(records: StudyRecords, metrics: Sequence[str]) -> pd.DataFrame:
    """Metrics after every epoch, on training and validation images: images, metric, rerun, epoch, value.

    images: "training" or "validation". Values that are not finite are left out; a diverged rerun has none after it.
    """
    names = {prefix + metric: (images, metric) for prefix, images in PARTS.items() for metric in metrics}
    frame = records.curves
    frame = frame[(frame["kind"] == "rerun") & frame["metric"].isin(names) & np.isfinite(frame["value"])]
    pairs = frame["metric"].map(names)
    return pd.DataFrame(
        {
            "images": pairs.str[0],
            "metric": pairs.str[1],
            "rerun": frame["number"],
            "epoch": frame["step"].astype(float) / _steps_an_epoch(records),
            "value": frame["value"],
        }
    ).reset_index(drop=True)


def _steps_an_epoch(records: StudyRecords) -> float:
    """From the first point of the curves, which stands after eval_every epochs, or at the end of a shorter run."""
    protocol = records.meta["protocol"]
    if protocol["iterations_per_epoch"]:
        return protocol["iterations_per_epoch"]
    first = records.curves["step"].min()
    return first / min(protocol["eval_every"], protocol["max_epochs"])


def means(frame: pd.DataFrame) -> pd.DataFrame:
    """`curves` over the seeds: images, metric, epoch, mean, low, high (of the seeds)."""
    groups = frame.groupby(["images", "metric", "epoch"], sort=True)["value"]
    return groups.agg(mean="mean", low="min", high="max").reset_index()


def ends(records: StudyRecords, metric: str) -> pd.DataFrame:
    """A metric after the first and after the last epoch of every seed: images, rerun, first, last."""
    frame = curves(records, [metric]).sort_values("epoch")
    return frame.groupby(["images", "rerun"])["value"].agg(first="first", last="last").reset_index()


def rise(records: StudyRecords, metric: str, images: str) -> Estimate:
    """How much a metric rises from the first to the last epoch, over the seeds."""
    frame = ends(records, metric)
    frame = frame[frame["images"] == images]
    return statistics.mean(frame["last"] - frame["first"], "reruns")


def gap(records: StudyRecords, metric: str, when: str) -> Estimate:
    """A metric on the training images minus on the validation images, over the seeds. when: "first" or "last" epoch."""
    wide = ends(records, metric).pivot(index="rerun", columns="images", values=when)
    wide = wide.reindex(columns=list(PARTS.values()))
    return statistics.mean(wide["training"] - wide["validation"], "reruns")


def curve_cells(by_study: ByStudy) -> pd.DataFrame:
    """oi-f4-numbers, cells: training minus validation of each metric, after the first and after the last epoch."""
    cells = {}
    for name, records in by_study.items():
        for when in ("first", "last"):
            cells[name, f"after the {when} epoch"] = {
                text: "not run" if records is None else _gap(gap(records, key, when), key)
                for key, text in METRICS.items()
            }
    return pd.DataFrame(cells).rename_axis("Training minus validation")


def _moves(found: Estimate) -> str:
    return common.points(found.value, found.half, scale=1, digits=2) + (" (one seed)" if found.n == 1 else "")


def overfitting_sentence(by_study: ByStudy) -> str:
    """Where the means of the pairs move, on training and on validation images, in a sentence a study."""
    sentences = []
    for name, records in common.present(by_study).items():
        moved = "; ".join(
            f"that of the {text} by "
            + " and ".join(f"{_moves(rise(records, metric, images))} ({images})" for images in PARTS.values())
            for metric, text in MEANS.items()
        )
        sentences.append(f"On `{name}` the mean inner product changes from the first to the last epoch: {moved}.")
    return labels.bullets(sentences) or "Nothing was run here."


def classes(records: StudyRecords) -> tuple[int, int]:
    """How many classes train and validate, of the split 4:1:5."""
    from dmlrc.data.splits import ratio_4_1_5

    meta = records.meta
    parts = ratio_4_1_5(np.arange(meta["data"]["classes"]), order=meta["class_order"], seed=meta["seed"])
    return len(parts.folds[0].train), len(parts.folds[0].val)


def _gap(found: Estimate, metric: str) -> str:
    """A difference of scores: in points where the metric is an accuracy."""
    if np.isnan(found.value):
        return "–"
    text = common.points(found.value, found.half, **_unit(metric)) + " points" * (metric != "jsd")
    return text + (", one seed" if found.n == 1 else "")


def orders_in_short(orders: Orders, more: pd.DataFrame) -> str:
    """What random class orders do to R@1 around each study, in a sentence or two; "" where none was run.

    Where several were drawn (more: `every_order`) an order is the unit, and the standard deviation over them is told;
    elsewhere it is the paper's one draw, with the seeds as units.
    """
    recalls = more[more["metric"] == "precision_at_1"]
    drawn = recalls[recalls["what"].eq("trained") & recalls["order"].ne("default")]
    scatter = {name: part["score"] for name, part in drawn.groupby("study", sort=False)}
    trunk = {
        name: part[part["order"] != "default"]["score"].mean() - part[part["order"] == "default"]["score"].mean()
        for name, part in recalls[recalls["what"] == "untrained"].groupby("study", sort=False)
    }
    several, one = {}, {}
    for name in orders["default"]:
        pair = [orders[order][name] for order in EXPERIMENTS]
        if name in scatter and None not in pair:
            scored = {
                order: found for order, found in experiments.class_orders(name).items() if len(final_scores(found))
            }
            gain = by_order("precision_at_1")(scored)
            told = _moved(replace(gain, value=-gain.value, low=-gain.high, high=-gain.low), "precision_at_1")
            several[name] = (
                f"{told} over {len(scatter[name])} orders (SD {labels.percent(scatter[name].std(), digits=1)}; that of "
                f"the untrained trunk by {labels.signed(trunk[name], digits=1, unit='')})"
            )
        elif None not in pair:
            one[name] = _moved(order_gain(*pair, "precision_at_1"), "precision_at_1")
    told = {"A random class order instead of the default one": several, "One random class order, as in the paper,": one}
    return " ".join(f"{what} changes R@1 by {labels.by_study(found)}." for what, found in told.items() if found)


def all_pairs_in_short(judged: Judged) -> str:
    """Whether looking at all pairs says more than accuracy, by the verdicts on the paper's claim; "" for none."""
    where: dict[str, list[str]] = {}
    for name, those in judged.items():
        if (found := those.get(JSD_LIKE_MAP)) and found.verdict != NOT_RUN:
            r = f" (r = {found.estimate.value:.2f})" if found.estimate else ""
            where.setdefault(found.verdict, []).append(f"`{name}`{r}")
    told = "; ".join(f"{verdict} on {labels.listed(names)}" for verdict, names in where.items())
    return (
        "That all pairs say no more than MAP@R, since over the epochs of a run validation JSD rises and falls with "
        f"it: {told}."
        if told
        else ""
    )


def parted_in_short(found: pd.DataFrame) -> str:
    """Where JSD and MAP@R move apart from the untrained trunk to the trained layer, in a sentence; "" where nowhere.

    Both by more than the luck of seeds. found: `every_order`.
    """
    told = {}
    for study, part in found.groupby("study", sort=False):
        wide = part.pivot(index="order", columns=["metric", "what"], values=["score", "half"])
        score, half = wide["score"], wide["half"]
        if not {(metric, what) for metric in ("jsd", "map_at_r") for what in ("trained", "untrained")} <= set(score):
            continue
        moved = {metric: score[metric, "trained"] - score[metric, "untrained"] for metric in ("jsd", "map_at_r")}
        clearly = [each.abs() > half[metric, "trained"] for metric, each in moved.items()]
        apart = int((clearly[0] & clearly[1] & (moved["jsd"] * moved["map_at_r"] < 0)).sum())
        if apart:
            told[study] = f"{apart} of {len(wide)} orders"
    return (
        "From the untrained trunk, reduced by PCA, to the trained layer JSD and MAP@R clearly move apart in "
        f"{labels.by_study(told)}."
        if told
        else ""
    )


def start_in_short(by_study: ByStudy) -> str:
    """The gap of training and validation JSD after the first epoch, in one sentence; "" where nothing was run."""
    gaps = {name: _gap(gap(records, "jsd", "first"), "jsd") for name, records in common.present(by_study).items()}
    told = labels.by_study(gaps)
    return (
        f"After one epoch of training the JSD of training images less that of validation images is {told}; the start "
        "itself, of which the paper speaks, is not recorded."
        if told
        else ""
    )


def start_sentence(by_study: ByStudy) -> str:
    """Whether training and validation scores start equal, JSD beside the others, in a sentence a study."""
    sentences = []
    for name, records in common.present(by_study).items():
        texts = {text: _gap(gap(records, key, "first"), key) for key, text in METRICS.items()}
        trained, validated = classes(records)
        sentences.append(
            f"On `{name}`, with {trained} training and {validated} validation classes, training less validation images "
            f"after the first epoch: {labels.each(texts, str)}."
        )
    return labels.bullets(sentences) or "Nothing was run here."


def oi_scalars(orders: Orders) -> dict[str, float]:
    """The named numbers that the chapter records."""
    recorded: dict[str, float] = {"published_cells": len(published.oi_results())}
    for name, default in common.present(orders["default"]).items():
        named = {f"random_gain_{key}": order_gain(default, orders["random"][name], key).value for key in METRICS}
        named |= {f"first_gap_{key}": gap(default, key, "first").value for key in METRICS}
        recorded |= {f"{name}.{key}": float(value) for key, value in named.items() if np.isfinite(value)}
    return recorded
