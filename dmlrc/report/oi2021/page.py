"""The table and figures of Oi et al. 2021, Analysis of Evaluation Metrics with the Distance between Positive Pairs and
Negative Pairs in Deep Metric Learning.

Experiments: oi2021 (the data set's own class order: Figs. 1-4), oi2021/random (Table 1) and more random orders.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dmlrc.metrics.histograms import jensen_shannon_divergence
from dmlrc.papers import oi2021
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import claims, common, editions, published, statistics, tables
from dmlrc.report.claims.measures import if_recorded
from dmlrc.report.claims.named import from_other_orders, gap
from dmlrc.report.common import R1, ByStudy
from dmlrc.report.statistics import of_groups
from dmlrc.studies import experiments

EXPERIMENTS = {"default": "oi2021", "random": "oi2021/random"}
"""The class order -> the experiment."""
METRICS = {R1: "R@1", "map_at_r": "MAP@R", "jsd": "JSD"}
ACCURACIES = (R1, "map_at_r")
MEANS = {"mean_positive": "positive pairs", "mean_negative": "negative pairs"}
KEPT_BINS = (100, 50, 25, 20, 10, 5)
"""Numbers of bins that the recorded histograms can be merged into."""
PARTS = {"train_": "training", "": "validation"}
"""What stands before a metric's name in a curve -> the images that it is measured on."""

Orders = Mapping[str, ByStudy]
"""Class order -> main study -> records."""


def load_orders(edition: Sequence[StudyRecords]) -> dict[str, ByStudy]:
    """The records of both class orders around the main studies; see `editions.records_around`."""
    return {order: editions.records_around(edition, experiment) for order, experiment in EXPERIMENTS.items()}


def form(metric: str) -> str:
    """The format of a score (`labels.number`): the divergence as it is, an accuracy in percent."""
    return ".3f" if metric == "jsd" else ".1%"


# Table 1: the order of the classes


def final_scores(records: StudyRecords) -> pd.DataFrame:
    """Scores on the test images after training: method, rerun, metric, score; without the pretrained trunk."""
    scores = common.seed_scores(records)
    return scores[(scores["setting"] == "separated") & (scores["method"] != PRETRAINED)]


def orders_scores(orders: Orders) -> pd.DataFrame:
    """The scores of both class orders, the paper's and ours: where, by, order, metric, mean, ci95, text (why none)."""
    theirs = published.oi_results().rename(columns={"class_order": "order", "value": "mean"})
    frames = [theirs.assign(where=theirs["dataset"], by=common.PAPER, ci95=np.nan, text=np.nan)]
    for order in EXPERIMENTS:
        for name, records in orders[order].items():
            scores = of_groups(final_scores(records).groupby("metric")["score"]).reindex(METRICS)
            text = common.absence(records, oi2021.METHODS[0].name)
            scores = scores.rename_axis("metric").reset_index()
            frames.append(scores.assign(where=name, by="ours", order=order, text=text))
    columns = ["where", "by", "order", "metric", "mean", "ci95", "text"]
    return pd.concat(frames, ignore_index=True)[columns]


def compare_orders(orders: Orders) -> pd.DataFrame:
    """oi-t1: every metric with default and random class order, and the difference (of other classes: no pairs)."""
    scores = orders_scores(orders)
    means = scores.pivot(index=["where", "by", "metric"], columns="order", values="mean")
    gains = (means["random"] - means["default"]).rename("mean").reset_index()
    for name in set(orders["default"]) & set(orders["random"]):
        drawn, default = (final_scores(orders[order][name]) for order in ("random", "default"))
        for metric in METRICS:
            difference = statistics.welch(*(frame["score"][frame["metric"] == metric] for frame in (drawn, default)))
            gains.loc[(gains["where"] == name) & (gains["metric"] == metric), "ci95"] = difference.half
    scores = pd.concat([scores, gains.dropna(subset="mean").assign(order="random less default")])
    where = scores["where"].where(scores["by"] == "ours", scores["where"] + " (the paper)")
    rows = [(name, order) for name in where.unique() for order in (*EXPERIMENTS, "random less default")]
    forms = scores["metric"].map(form)
    return scores.assign(
        row=pd.Categorical(list(zip(where, scores["order"], strict=True)), rows),
        column=pd.Categorical(scores["metric"].map(METRICS), list(METRICS.values())),
        form=forms.where(scores["order"].isin(list(EXPERIMENTS)), "+" + forms),
    )


# More random orders than the paper's one


def every_order(studies: str) -> pd.DataFrame:
    """Test scores with every class order, where there are several random ones: study, order, metric, what, score, half.

    order: "default", or "random" with a number. what: "trained", the mean over the reruns, or "untrained", the trunk on
    the same test classes. half: of the 95 % interval over the reruns, 0 for the trunk.
    """
    frames = [pd.DataFrame(columns=["study", "order", "metric", "what", "score", "half"])]
    for main in editions.study_names(studies):
        orders = experiments.class_orders(main)
        if len(orders) > len(EXPERIMENTS):
            for name, records in orders.items():
                order = "default" if name == EXPERIMENTS["default"] else name.removeprefix("oi2021/").replace("-", "")
                frames.append(_both(records).assign(study=main, order=order))
    return pd.concat(frames[1:] or frames, ignore_index=True)[frames[0].columns]


def _both(records: StudyRecords) -> pd.DataFrame:
    scores = common.seed_scores(records)
    scores = scores[(scores["setting"] == "separated") & scores["metric"].isin(METRICS)]
    what = scores["method"].eq(PRETRAINED).map({True: "untrained", False: "trained"}).rename("what")
    means = scores.groupby(["metric", what])["score"].agg(score="mean", half=statistics.half_width).reset_index()
    return means.assign(half=means["half"].where(means["what"] == "trained", 0.0))


def compare_every_order(scores: pd.DataFrame) -> pd.DataFrame:
    """oi-every-order-numbers: a row a study and order of `every_order`, last the mean of the random with SD."""
    trained = scores["what"] == "trained"
    places = [scores[key] for key in ("study", "order", "metric")]
    trunk = scores["score"].mask(trained).groupby(places).transform("max")
    rows = scores.assign(mean=scores["score"], half=np.nan)
    rows["untrained"] = trunk.where(trained & scores["metric"].isin(ACCURACIES))
    rows["order"] = rows["order"].str.replace("order", "random ")
    drawn = scores[scores["order"] != "default"].groupby(["study", "metric", "what"])["score"]
    drawn = drawn.agg(mean="mean", half="std", n="size").reset_index()
    drawn["order"] = drawn["n"].map("random orders ({}): mean ± SD".format)
    blocks = [part[part["study"] == name] for name in scores["study"].unique() for part in (rows, drawn)]
    scores = pd.concat(blocks)
    heads = [(text, what) for text in METRICS.values() for what in ("trained", "untrained")]
    return scores.assign(
        row=list(zip(scores["study"], scores["order"], strict=True)),
        column=pd.Categorical(list(zip(scores["metric"].map(METRICS), scores["what"], strict=True)), heads),
        form=scores["metric"].map(form),
    )


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
    """Statistics of `histograms` with pairs of both kinds: mean_positive, mean_negative (by the bins' centres), jsd."""
    centres = (frame["low"] + frame["high"]) / 2
    means = {f"mean_{kind}": float(np.average(centres, weights=frame[kind])) for kind in ("positive", "negative")}
    return {"jsd": jensen_shannon_divergence(frame["positive"], frame["negative"]), **means}


def jsd_by_bins(records: StudyRecords, setting: str = "test") -> pd.Series:
    """JSD of the recorded histograms, merged into fewer bins, indexed by their number. Merging can only lower it."""
    frame = histograms(records, setting)
    both = frame[["positive", "negative"]].to_numpy(float).T
    fitting = [bins for bins in KEPT_BINS if len(frame) and len(frame) % bins == 0]
    merged = {bins: both.reshape(2, bins, -1).sum(axis=2) for bins in fitting}
    return pd.Series({bins: jensen_shannon_divergence(*pair) for bins, pair in merged.items()}, dtype=float)


def bins(records: StudyRecords) -> pd.DataFrame:
    """oi-bins: JSD of the test images before and after training for every number of bins."""
    divergences = {text: jsd_by_bins(records, name) for text, name in {"before": "untrained", "after": "test"}.items()}
    return pd.concat(divergences, names=["head", "row"]).rename("mean").reset_index().assign(form=".3f")


# Figures 2 and 4: over the epochs


def metric_curves(records: StudyRecords, metrics: Sequence[str]) -> pd.DataFrame:
    """Metrics after every epoch: images ("training" or "validation"), metric, rerun, epoch, value; the finite ones."""
    names = {prefix + metric: (images, metric) for prefix, images in PARTS.items() for metric in metrics}
    frame = records.curves
    frame = frame[(frame["kind"] == "rerun") & frame["metric"].isin(names) & np.isfinite(frame["value"])]
    images, metric = (frame["metric"].map(names).str[part] for part in (0, 1))
    columns = {"images": images, "metric": metric, "rerun": frame["number"]}
    columns["epoch"] = frame["step"].astype(float) / _steps_an_epoch(records)
    return pd.DataFrame({**columns, "value": frame["value"]}).reset_index(drop=True)


def _steps_an_epoch(records: StudyRecords) -> float:
    """Steps per epoch as set, else by the curves' first point, after eval_every epochs or at a shorter run's end."""
    protocol = records.meta["protocol"]
    if protocol["iterations_per_epoch"]:
        return protocol["iterations_per_epoch"]
    first = records.curves["step"].min()
    return first / min(protocol["eval_every"], protocol["max_epochs"])


def seed_means(frame: pd.DataFrame) -> pd.DataFrame:
    """`metric_curves` over the seeds: images, metric, epoch, mean, low, high (of the seeds)."""
    groups = frame.groupby(["images", "metric", "epoch"], sort=True)["value"]
    return groups.agg(mean="mean", low="min", high="max").reset_index()


def gaps(records: StudyRecords) -> pd.DataFrame:
    """oi-f4-gaps: training minus validation of each metric, after the first and after the last epoch."""
    rows = []
    for when in ("first", "last"):
        for metric, text in METRICS.items():
            curves = {"row": oi2021.METHODS[0].name, "first": f"train_{metric}", "second": metric}
            growth = if_recorded(gap, records, **curves, point=when)
            rows.append((text, f"after the {when} epoch", growth.value, growth.half, f"+{form(metric)}"))
    return pd.DataFrame(rows, columns=["row", "head", "mean", "half", "form"])


# The numbers of the text


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """The numbers behind the page's text: `common.numbers`, how JSD goes with MAP@R, and how far our losses spread."""
    judged = claims.judge_all(edition, "oi")
    named = common.numbers(edition, judged, _of_study)
    for study in edition:
        together = judged[study.name]["oi-jsd-like-map"].estimate
        best = tables.trained(tables.accuracy(study))["mean"]
        named[f"{study.meta['dataset']}.r"] = together.value if together else np.nan
        named[f"{study.meta['dataset']}.losses"] = 100 * float(best.max() - best.min())
    return named


def _of_study(main: str) -> dict[str, float]:
    """The effects of the class order around one study.

    gain: of random orders on average, with the interval for one more; untrained: of the trunk; higher: in how many both
    accuracies are; below: in how many P@1 stays below the trunk's.
    """
    scored = {order: records for order, records in experiments.class_orders(main).items() if len(final_scores(records))}
    frame = every_order(main)
    if frame.empty or EXPERIMENTS["default"] not in scored:
        raise KeyError(f"no class orders around {main}")
    wide = 100 * frame.pivot(index="order", columns=["metric", "what"], values="score")
    drawn, default = wide.drop(index="default"), wide.loc["default"]
    ordered, others = scored.pop(EXPERIMENTS["default"]), scored.values()
    numbers: dict[str, float] = {"orders": len(wide), "parted": parted(frame)}
    for short, metric in {"map": "map_at_r", "recall": R1}.items():
        gain = from_other_orders(ordered, *others, row=oi2021.METHODS[0].name, metric=metric)
        numbers[f"{short}.gain"] = -100 * gain.value
        numbers |= {f"{short}.gain_low": -100 * gain.high, f"{short}.gain_high": -100 * gain.low}
        numbers[f"{short}.untrained"] = float(drawn[metric, "untrained"].mean() - default[metric, "untrained"])
    higher = [drawn[metric, "trained"] > default[metric, "trained"] for metric in ACCURACIES]
    below = wide[R1, "trained"] < wide[R1, "untrained"]
    return numbers | {"higher": int((higher[0] & higher[1]).sum()), "below": int(below.sum())}


def parted(scores: pd.DataFrame) -> int:
    """The number of orders in `every_order` in which training raises JSD and lowers MAP@R, each beyond its noise."""
    wide = scores.pivot(index="order", columns=["metric", "what"], values=["score", "half"])
    score, half = wide["score"], wide["half"]
    rises, falls = (score[metric, "trained"] - score[metric, "untrained"] for metric in ("jsd", "map_at_r"))
    return int(((rises > half["jsd", "trained"]) & (-falls > half["map_at_r", "trained"])).sum())
