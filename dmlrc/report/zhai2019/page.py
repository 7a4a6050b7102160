"""The numbers of Zhai and Wu 2019, Classification is a Strong Baseline for Deep Metric Learning: fractions.

Experiments: zhai2019/losses (Tables 1-3), zhai2019/losses-equal, zhai2019/samples (Table 4), zhai2019 and zhai2019/dims
(Tables 5 and 6, Fig. 2), zhai2019/layer_norm (Fig. 3), zhai2019/shares (Fig. 4).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dmlrc.data import splits
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import claims, common, editions, labels, published, starts, tables, titles
from dmlrc.report.claims.measures import if_recorded
from dmlrc.report.claims.named import same_models
from dmlrc.report.common import R1, ByStudy
from dmlrc.report.results_table import with_foot
from dmlrc.report.statistics import Estimate, of_groups

TRUNK_LABELS = titles.TRUNKS | {"googlenet_attention": "GoogLeNet + attention"}
LOSS_TABLES = {"Table 1": "googlenet", "Table 2": "bn_inception", "Table 3": "resnet50"}
"""Tables 1-3: the same comparison with three trunks."""
BEST_TABLES = {"Table 5": ("SOP", "In-Shop"), "Table 6": ("Cars196", "CUB200")}
OWN = ("lmcl_original", "lmcl", "norm_softmax")
"""The rows of Tables 5 and 6 that the paper trained itself."""
SOFTMAX = "norm_softmax"
LAYER_NORM = {"norm_softmax@layer-norm": "with LayerNorm", "norm_softmax@no-layer-norm": "without"}
EQUAL = "5x15"
"""The levels, images of a class x classes, of zhai2019/losses-equal: every loss in the first."""
LABELS = {PRETRAINED: labels.UNTRAINED} | {name: label for label, name in reversed(published.ZHAI_METHODS.items())}


def zhai_label(method: str) -> str:
    """A method as the paper prints it."""
    return LABELS.get(method, method)


def printed_table(table: str) -> pd.DataFrame:
    """One table of `published.zhai_results`."""
    frame = published.zhai_results()
    return frame[frame["source_table"] == table]


# Tables 1-3: normalised softmax against other losses


def losses(records: StudyRecords) -> pd.DataFrame:
    """The losses of one pipeline, and the untrained trunk: method, trunk, dim, metric, mean, ci95, n; by floats."""
    frame = _single_models(records)
    return frame[~frame["binary"]][["method", "trunk", "dim", "metric", "mean", "ci95", "n"]]


def _single_models(records: StudyRecords) -> pd.DataFrame:
    """`common.over_seeds` of floats and bits, with trunk, dim (without a linear layer the paper's 2048) and binary."""
    frame = common.over_seeds(records)
    frame = frame[frame["setting"].isin(["separated", "separated_binary"])]
    own = [common.protocol_of(records, method) for method in frame["method"]]
    sizes = [settings["embedding_dim"] or 2048 for settings in own]
    binary = frame["setting"] == "separated_binary"
    return frame.assign(trunk=[settings["trunk"] for settings in own], dim=sizes, binary=binary, method=frame["row"])


def losses_beside(table: str, by_study: ByStudy) -> pd.DataFrame:
    """The numbers of one of Tables 1-3, and ours of its trunk; beside Table 1 all of other trunks too."""

    def rows(records: StudyRecords) -> pd.DataFrame:
        frame = losses(records)
        trunks = frame["trunk"].where(frame["trunk"].isin(LOSS_TABLES.values()), LOSS_TABLES["Table 1"])
        return frame[trunks == LOSS_TABLES[table]]

    return common.with_ours(printed_table(table), by_study, rows)


def compare_losses(frame: pd.DataFrame, by_study: ByStudy) -> pd.DataFrame:
    """zhai-t1 to t3, of `losses_beside`: R@1 of ours, then for each data set of the paper sizes and R@1."""
    frame = frame[frame["metric"] == R1].reset_index()
    theirs = frame[frame["source"] == common.PAPER]
    several = theirs["method"][theirs.duplicated(["dataset", "method"])].unique()
    shown = {name: by_study[name] for name in frame["source"].unique() if name in by_study}
    ours = pd.concat([frame[frame["source"] != common.PAPER], common.ours(shown, common.empty_rows)])
    blocks = [common.under(part, name, "R@1") for name, part in ours.groupby("source", sort=False)]
    for dataset, part in theirs.groupby("dataset", sort=False):
        blocks.append(common.under(part.assign(mean=np.nan, text=part["dim"].map("{:g}".format)), dataset, "dim"))
        blocks.append(common.under(part, dataset, "R@1"))
    scores = common.with_ranks(pd.concat(blocks))
    sizes = scores["dim"].map(", {:g}-d".format).where(scores["method"].isin(several) & scores["dim"].notna(), "")
    return with_foot(common.paper_first(scores.assign(row=scores["method"].map(zhai_label) + sizes)))


def compare_layouts(own: ByStudy, equal: ByStudy) -> pd.DataFrame:
    """zhai-equal: R@1 of each loss in the batches of its paper (own), and in the same for all (equal)."""
    blocks = [pd.DataFrame(columns=["method", "column", "mean", "n"])]
    for name in own:
        for records, level in ((own[name], ""), (equal.get(name), EQUAL)):
            if records is None:
                continue
            frame = _by_loss(records).assign(source=name)
            frame, trunk = frame[frame["method"] != PRETRAINED], frame[frame["method"] == PRETRAINED]
            if len(part := frame[frame["value"] == level]):
                layout = " x ".join(reversed(level.split("x")))  # classes x images, as in the rest of the book
                blocks.append(common.under(pd.concat([part, trunk]), name, layout or "its own"))
    scores = common.with_ranks(pd.concat(blocks))
    order = [*sorted({*scores["method"]} - {PRETRAINED}), PRETRAINED]
    return with_foot(scores.assign(row=common.in_order(scores["method"], order, zhai_label)))


def _by_loss(records: StudyRecords) -> pd.DataFrame:
    frame = common.over_seeds(records, R1, "separated")
    return frame.assign(method=frame["row"])


# Table 4: samples per class


def samples(records: StudyRecords) -> pd.DataFrame:
    """R@1 against the layout of a batch: samples, classes (NaN: no balancing), mean, ci95, n."""
    frame = common.over_seeds(records, R1, "separated")
    frame = frame[frame["value"] != ""]
    parts = frame["value"].str.extract(r"^(\d+)x(\d+)$").astype(float)
    numbered = frame.assign(samples=parts[0], classes=parts[1])
    return numbered[["samples", "classes", "mean", "ci95", "n"]].sort_values("samples", na_position="first")


def compare_samples(frame: pd.DataFrame, by_study: ByStudy) -> pd.DataFrame:
    """zhai-t4: R@1 of each layout, classes x images of each. frame: `samples` beside the paper's."""
    texts = frame["classes"].map("{:g} x ".format) + frame["samples"].map("{:g}".format)
    frame = frame.assign(method=texts.replace("nan x nan", "no balancing")).reset_index()
    names = frame["source"].replace(common.PAPER, "the paper, CUB200")
    trunks = common.ours(by_study, common.trunk_row)
    scores = common.with_ranks(pd.concat([frame.assign(column=names), trunks]))
    scores = with_foot(scores.assign(row=scores["method"].map(zhai_label)))
    return scores.assign(column=pd.Categorical(scores["column"], [*trunks["column"], "the paper, CUB200"]))


# Tables 5 and 6: floats and bits


def embeddings(main: StudyRecords, dims: StudyRecords | None) -> pd.DataFrame:
    """Rows for Tables 5 and 6: method, dim, binary, metric, mean, ci95, n; of dims the sizes that the paper has too."""
    keys = ["method", "dim", "binary"]
    frames = {"main": _single_models(main)} | ({"dims": _single_models(dims)} if dims else {})
    frame = pd.concat(frames).drop_duplicates([*keys, "metric"])
    printed = pd.MultiIndex.from_frame(frame[keys]).isin(pd.MultiIndex.from_frame(published.zhai_results()[keys]))
    kept = (frame["method"] != PRETRAINED) & (printed | (frame.index.get_level_values(0) == "main"))
    return frame[kept][[*keys, "metric", "mean", "ci95", "n"]]


def embeddings_beside(table: str, main: ByStudy, dims: ByStudy) -> pd.DataFrame:
    """The numbers of one of Tables 5 and 6, and of `embeddings`."""
    swept = {records.name: dims.get(study) for study, records in main.items()}
    return common.with_ours(printed_table(table), main, lambda records: embeddings(records, swept[records.name]))


def compare_embeddings(frame: pd.DataFrame, main: ByStudy) -> pd.DataFrame:
    """zhai-t5 and t6, of `embeddings_beside`: R@1 of ours, then the paper's trunks and R@1, its own rows last."""
    frame = frame[frame["metric"] == R1].reset_index()
    ours = pd.concat([frame[frame["source"] != common.PAPER], common.ours(main, common.trunk_row)])
    blocks = [common.under(part, name, "R@1") for name, part in ours.groupby("source", sort=False)]
    theirs = frame[frame["source"] == common.PAPER]
    theirs = theirs.sort_values("method", key=lambda methods: methods.isin(OWN), kind="stable")
    trunks = theirs.drop_duplicates(["method", "dim", "binary"])
    blocks.append(common.under(trunks.assign(mean=np.nan, text=trunks["trunk"].map(TRUNK_LABELS)), "", "trunk"))
    blocks += [common.under(part, dataset, "R@1") for dataset, part in theirs.groupby("dataset", sort=False)]
    scores = common.with_ranks(pd.concat(blocks))
    sizes = scores["dim"].map(", {:g} ".format) + scores["binary"].map({True: "bits", False: "d"})
    return with_foot(common.paper_first(scores.assign(row=scores["method"].map(zhai_label) + sizes.fillna(""))))


# Figures 2, 3 and 4


def bits_cost(records: StudyRecords, method: str = SOFTMAX) -> Estimate:
    """R@1 of the bits less that of the floats, over the reruns: pairs, since both are of the same models."""
    return if_recorded(same_models, records, row=method, settings=("separated_binary", "separated"))


def sizes(records: StudyRecords) -> pd.DataFrame:
    """zhai-f2-numbers: R@1 of floats and bits against the size of the embedding, and what bits cost, in points.

    Columns: dim, head ("floats", "bits", "bits less floats"), mean, ci95, form. records: zhai2019/dims.
    """
    frame = _single_models(records)
    frame = frame[(frame["metric"] == R1) & (frame["value"] != "")].sort_values(["binary", "dim"])
    frame["head"] = frame["binary"].map({False: "floats", True: "bits"})
    floats = frame[~frame["binary"]]
    costs = [bits_cost(records, method) for method in floats["row"] + "@" + floats["value"]]
    gaps = floats.assign(mean=[cost.value for cost in costs], ci95=[cost.half for cost in costs])
    gaps = gaps.assign(head="bits less floats", form="+.1%")
    rows = pd.concat([frame.assign(untrained=starts.of_trunk(records)), gaps])
    return rows.assign(row=rows["dim"].map("{:g}".format))


def training_classes(records: StudyRecords, method: str) -> int:
    """The number of classes that a run of a method trains on."""
    own, classes = common.protocol_of(records, method), np.arange(records.meta["data"]["classes"])
    if own["split"] == "ratio_4_1_5":
        parts = splits.ratio_4_1_5(classes, order=records.meta["class_order"], seed=records.meta["seed"])
    else:
        parts = splits.halves(classes, own["folds"], records.meta["class_order"], records.meta["seed"])
    return len(parts.folds[0].train)


def layer_norm_curves(records: StudyRecords) -> pd.DataFrame:
    """The reruns' curves with and without LayerNorm: method, metric (loss, precision_at_1), step, mean, ci95, n."""
    curves = records.curves[(records.curves["kind"] == "rerun") & records.curves["method"].isin(list(LAYER_NORM))]
    curves = curves[curves["metric"].isin(["loss", R1])].dropna(subset=["value"])
    return of_groups(curves.groupby(["method", "metric", "step"])["value"]).reset_index()


def compare_layer_norm(by_study: ByStudy) -> pd.DataFrame:
    """zhai-f3-numbers, the ends of the curves: mean loss of epochs beside ln C, and R@1 of the best checkpoint."""

    def rows(records: StudyRecords) -> pd.DataFrame:
        curves = layer_norm_curves(records)
        ends = curves[curves["metric"] == "loss"].groupby("method")["mean"]
        table = pd.DataFrame({"loss, first epoch": ends.first(), "loss, last epoch": ends.last()})
        table["ln C"] = [np.log(training_classes(records, method)) for method in table.index]
        losses = table.reset_index().melt("method", var_name="part", value_name="mean").assign(form=".2f")
        test = common.over_seeds(records, R1, "separated")
        test = test[test["method"].isin(list(LAYER_NORM))].assign(part="R@1, test", untrained=starts.of_trunk(records))
        return pd.concat([losses, test])

    scores = common.ours(by_study, rows)
    names = list(zip(scores["source"], scores["method"].map(LAYER_NORM), strict=True))
    return scores.assign(row=names, column=scores.get("part"))


def compare_shares(by_study: ByStudy) -> pd.DataFrame:
    """zhai-f4-numbers: R@1 at every share of the classes, ours and what section 4.5 of the paper says of SOP."""
    printed = {"number": [1, 0.1, 0.01, 0.001], "mean": [np.nan, np.nan, 0.757, 0.720]}
    paper = pd.DataFrame(printed | {"text": [np.nan, "less than 1 point below all", np.nan, np.nan]})
    scores = pd.concat([common.ours(by_study, common.sweep), common.under(paper, "the paper, SOP")])
    scores = scores.sort_values("number", ascending=False, kind="stable")
    scores = pd.concat([scores, common.ours(by_study, common.trunk_row)])
    rows = (100 * scores["number"]).map("{:g} %".format).replace("nan %", labels.UNTRAINED)
    return scores.assign(row=rows)


# The numbers of the text


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """The numbers behind the page's text: `common.numbers`, and what the paper prints; in points of R@1."""
    paper = published.zhai_results()
    paper = paper[paper["metric"] == R1]
    first = paper[paper["source_table"] == "Table 1"].set_index(["dataset", "method"])["value"]
    best = paper[paper["source_table"].isin(BEST_TABLES) & (paper["trunk"] == "resnet50")]
    best = best.set_index(["method", "dim", "dataset", "binary"])["value"].unstack().loc[SOFTMAX, 2048]
    costs = 100 * (best[False] - best[True])
    layouts = published.zhai_samples_per_class().set_index("samples")["value"]
    spans = "bits", "small_bits", "memory", "from_own_batches"
    named = common.numbers(edition, claims.judge_all(edition, "zhai"), _of_study, spans)
    named |= {"paper.bits_low": costs.min(), "paper.bits_high": costs.max(), "paper.best_images": layouts.idxmax()}
    for name in BEST_TABLES["Table 6"]:
        named[f"paper.{name}"] = 100 * (first[name, SOFTMAX] - first[name, "contrastive"])
    return named


def _of_study(main: str) -> dict[str, float]:
    """The numbers around one study."""
    suffixes = "", "/losses-equal", "/samples", "/dims", "/layer_norm", "/shares"
    several = [editions.experiment_of(main, f"zhai2019{suffix}") for suffix in suffixes]
    table, equal, batches, dims, norms, parts = several
    scores, trunk = common.seed_scores(equal, R1, "separated"), starts.of_trunk(equal)
    low, high, losses = equal_ranks(equal)
    lead = common.difference(scores, f"{SOFTMAX}@5x15", "contrastive@5x15")
    own = common.difference(scores, f"{SOFTMAX}@5x15", f"{SOFTMAX}@25x3")
    norm = common.difference(common.seed_scores(norms, R1, "separated"), *LAYER_NORM)
    tenth = common.difference(common.seed_scores(parts, R1, "separated"), f"{SOFTMAX}@share1", f"{SOFTMAX}@share0.1")
    layouts = samples(batches).fillna({"samples": 0.0}).set_index("samples")["mean"]
    [curve] = starts.curves_by_dimension({main: dims}).values()
    above, of = starts.sizes_above(curve, dims)
    by_size = sizes(dims).set_index(["head", "dim"])["mean"]
    sized = embeddings(table, dims).query("metric == @R1")["mean"].mean() - starts.of_trunk(table)
    alike = scores[scores["value"].eq(EQUAL)].groupby("row")["score"].mean()
    return {
        "lift": 100 * tables.lift(pd.concat([alike, pd.Series({PRETRAINED: trunk})])),
        **{"layouts_lift": 100 * (layouts.mean() - trunk), "sized_lift": 100 * sized},
        **{"rank_low": low, "rank_high": high, "losses": losses},
        "below": bool(scores.loc[scores["row"].eq(SOFTMAX) & scores["value"].eq(EQUAL), "score"].mean() < trunk),
        **{"lead_low": 100 * lead.low, "lead_high": 100 * lead.high},
        **{"from_own_batches": 100 * own.value, "from_own_batches_low": 100 * own.low},
        **{"best_images": layouts.idxmax(), "bits": -100 * bits_cost(table).value},
        "small_bits": -100 * by_size["bits less floats", 16],
        "memory": 100 * (by_size["bits", 2048] - by_size["floats", 64]),  # as much of it
        **{"sizes_above": above, "sizes": of, "untrained_gain": 100 * float(curve.iloc[-1] - curve.iloc[0])},
        **{"layer_norm": 100 * norm.value, "layer_norm_low": 100 * norm.low, "layer_norm_high": 100 * norm.high},
        **{"tenth": 100 * tenth.value, "tenth_low": 100 * tenth.low},
    }


def equal_ranks(records: StudyRecords) -> tuple[float, float, int]:
    """`common.ranks_of` normalised softmax by R@1 in equal batches. records: zhai2019/losses-equal."""
    rows = _by_loss(records)
    return common.ranks_of(rows[rows["value"] == EQUAL].set_index("method"), SOFTMAX)
