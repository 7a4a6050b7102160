"""The table and figures of Oi et al. 2021, Analysis of Evaluation Metrics with the Distance between Positive Pairs and
Negative Pairs in Deep Metric Learning.

Numbers, cells for the page, and the numbers of its text. Experiments: oi2021 (the data set's own class order: Figs.
1-4), oi2021-random (Table 1) and more random orders. One method, normalised softmax.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dmlrc.metrics.histograms import jensen_shannon_divergence
from dmlrc.papers import oi2021
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import claims, common, editions, labels, published, statistics, tables
from dmlrc.report.claims.named import from_other_orders
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


def _gap(found: Estimate, metric: str) -> str:
    """A difference of scores: in points where the metric is an accuracy."""
    if np.isnan(found.value):
        return "–"
    text = common.points(found.value, found.half, **_unit(metric)) + " points" * (metric != "jsd")
    return text + (", one seed" if found.n == 1 else "")


# The numbers of the text


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """What the text of the page rests on, a study by its data set; scores and differences in points.

    Verdicts stand under the ids of their claims.
    """
    judged = claims.judged(edition, "oi")
    withdrawn = [each for each in judged[claims.WITHOUT_RECORDS].values() if each.verdict == claims.RETRACTED]
    found: dict[str, float | str] = {"withdrawn": len(withdrawn)}
    for each in edition:
        verdicts = {name: one.verdict for name, one in judged[each.name].items()}
        together = judged[each.name]["oi-jsd-like-map"].estimate
        own = _of_orders(each.name) | verdicts | {"r": together.value if together else np.nan}
        best = tables.deciding(tables.accuracy(each)).set_index("method")["mean"].drop(PRETRAINED, errors="ignore")
        own["losses"] = 100 * float(best.max() - best.min())
        found |= {f"{each.meta['dataset']}.{name}": value for name, value in own.items()}
    return found


def _of_orders(main: str) -> dict[str, float]:
    """What the class order changes around one study.

    Keys: of MAP@R and P@1 what the random orders gain on average, within what interval a further one lies, and what the
    untrained trunk gains; how many of how many random orders score higher than the default one in both; in how many of
    all orders the trained layer stays below the trunk in P@1; see `parted`.
    """
    scored = {order: found for order, found in experiments.class_orders(main).items() if len(final_scores(found))}
    frame = every_order(main)
    if frame.empty or EXPERIMENTS["default"] not in scored:
        raise KeyError(f"no class orders around {main}")
    wide = 100 * frame.pivot(index="order", columns=["metric", "what"], values="score")
    drawn, default = wide.drop(index="default"), wide.loc["default"]
    ordered, others = scored.pop(EXPERIMENTS["default"]), scored.values()
    numbers: dict[str, float] = {"orders": len(wide), "parted": parted(frame)}
    for short, metric in {"map": "map_at_r", "recall": "precision_at_1"}.items():
        gain = from_other_orders(ordered, *others, row=oi2021.METHODS[0].name, metric=metric)
        numbers[f"{short}.gain"] = -100 * gain.value
        numbers |= {f"{short}.gain_low": -100 * gain.high, f"{short}.gain_high": -100 * gain.low}
        numbers[f"{short}.untrained"] = float(drawn[metric, "untrained"].mean() - default[metric, "untrained"])
    higher = [drawn[metric, "trained"] > default[metric, "trained"] for metric in ACCURACIES]
    below = wide["precision_at_1", "trained"] < wide["precision_at_1", "untrained"]
    return numbers | {"higher": int((higher[0] & higher[1]).sum()), "below": int(below.sum())}


def parted(found: pd.DataFrame) -> int:
    """In how many orders training, from the untrained trunk, raises JSD and lowers MAP@R, each by more than its noise.

    found: `every_order` of one study.
    """
    wide = found.pivot(index="order", columns=["metric", "what"], values=["score", "half"])
    score, half = wide["score"], wide["half"]
    rises, falls = (score[metric, "trained"] - score[metric, "untrained"] for metric in ("jsd", "map_at_r"))
    return int(((rises > half["jsd", "trained"]) & (-falls > half["map_at_r", "trained"])).sum())


def oi_scalars(orders: Orders) -> dict[str, float]:
    """The named numbers that the chapter records."""
    recorded: dict[str, float] = {"published_cells": len(published.oi_results())}
    for name, default in common.present(orders["default"]).items():
        named = {f"random_gain_{key}": order_gain(default, orders["random"][name], key).value for key in METRICS}
        named |= {f"first_gap_{key}": gap(default, key, "first").value for key in METRICS}
        recorded |= {f"{name}.{key}": float(value) for key, value in named.items() if np.isfinite(value)}
    return recorded
