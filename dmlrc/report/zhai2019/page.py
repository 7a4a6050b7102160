"""The tables of Zhai and Wu 2019: cells for the page, and the numbers of its text."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import claims, common, editions, labels, published, starts, statistics
from dmlrc.report.common import ByStudy
from dmlrc.report.statistics import Estimate
from dmlrc.report.zhai2019.numbers import (
    BEST_TABLES,
    LAYER_NORM,
    LOSS_METRICS,
    LOSS_TABLES,
    OWN,
    PAPER_METRICS,
    SOFTMAX,
    TRUNK_LABELS,
    _depth,
    _r1,
    bits_cost,
    embeddings,
    gaps,
    layer_norm_curves,
    layer_norm_gain,
    losses,
    of_table,
    over_lmcl,
    paper_bits,
    printed_table,
    samples,
    share_cost,
    shares,
    sizes,
    training_classes,
)

LABELS = {
    PRETRAINED: labels.UNTRAINED,
    "contrastive": "Contrastive",
    "lifted_structure": "Lifted Struct",
    "histogram": "Hist Loss",
    "binomial_deviance": "Bin. Deviance",
    "n_pairs": "Npairs",
    "angular": "Angular Loss",
    "structured_clustering": "Clustering",
    "proxy_nca": "Proxy NCA",
    "margin": "Margin",
    "htl": "HTL",
    "hdc": "HDC",
    "a_bier": "A-BIER",
    "abe_8": "ABE-8",
    "dreml": "DREML",
    "lmcl_original": "LMCL",
    "lmcl": "LMCL*",
    "norm_softmax": "NormSoftmax",
}
SHARES_SAID = {1.0: np.nan, 0.1: np.nan, 0.01: 0.757, 0.001: 0.720}
"""R@1 on SOP that section 4.5 names beside Fig. 4; of a tenth of the classes it says less than 1 point below all."""


def zhai_label(method: str) -> str:
    """A method as the paper prints it."""
    return LABELS.get(method, method)


# Tables 1-3: normalised softmax against other losses


def compare_losses(table: str, by_study: ByStudy) -> tuple[pd.DataFrame, pd.DataFrame]:
    """zhai-t1 to t3, cells and marks: ours around each study where its trunk was run, and a table of losses.

    by_study: zhai2019-losses. dim: the size of the embedding. A method that the paper has in two sizes on one data set
    has two rows. Marks and brackets of ours: see `common.column`.
    """
    theirs = printed_table(table)
    sized = theirs.groupby(["dataset", "method"])["dim"].nunique().groupby("method").max()
    several = set(sized[sized > 1].index)
    blocks = []
    for name, records in by_study.items():
        frame = None if records is None else of_table(table, losses(records))
        blocks.append(_our_losses(name, frame, several))
    blocks += [
        _loss_block(dataset, part, (*PAPER_METRICS[dataset], "nmi"), several)
        for dataset, part in theirs.rename(columns={"value": "mean"}).groupby("dataset", sort=False)
    ]
    cells, marks = (pd.concat(parts, axis=1) for parts in zip(*blocks, strict=True))
    order = [*dict.fromkeys(_keys(theirs, several)), *cells.index]
    cells, marks = (frame.reindex(dict.fromkeys(order)) for frame in (cells, marks))
    for name, records in by_study.items():
        if records is None or of_table(table, losses(records)).empty:
            cells[name, "R@1"] = "not run here"
        elif (name, "R@1") in cells:  # else a loss that diverged looks like one that is not in the table
            lost = {zhai_label(method): common.state(records, method) for method in records.reruns["method"].unique()}
            states = pd.Series(lost).reindex(cells.index).replace("", np.nan)
            cells[name, "R@1"] = cells[name, "R@1"].fillna(states)
    return cells.fillna("–").rename_axis("Method"), marks.fillna("").rename_axis("Method")


def _keys(frame: pd.DataFrame, several: set[str]) -> list[str]:
    """The row of each number: its method, and its size where the table has several of it."""
    pairs = zip(frame["method"], frame["dim"], strict=True)
    return [f"{zhai_label(method)}, {dim:g}-d" if method in several else zhai_label(method) for method, dim in pairs]


def _loss_block(
    head: str, frame: pd.DataFrame, metrics: Sequence[str], several: set[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The columns of one data set or study. frame: method, dim, metric, mean and, of ours, ci95."""
    ours = "ci95" in frame
    frame = frame.assign(key=_keys(frame, several))
    sizes = frame.drop_duplicates("key").set_index("key")["dim"]
    cells, marks = {(head, "dim"): sizes.map("{:g}".format)}, {(head, "dim"): pd.Series("", index=sizes.index)}
    for metric in metrics:
        rows = frame[frame["metric"] == metric].set_index("key").reindex(columns=["mean", "ci95", "n"])
        if rows.empty:
            continue
        column, trunk = (head, common.metric_label(metric)), zhai_label(PRETRAINED)
        cells[column], marks[column] = _column(rows, ours, metric, rows["mean"].get(trunk, np.nan), [trunk])
    return pd.DataFrame(cells), pd.DataFrame(marks)


def _column(
    rows: pd.DataFrame, ours: bool, metric: str, untrained: float, beside: Collection = ()
) -> tuple[pd.Series, pd.Series]:
    """Cells and marks of a column: of ours with ranks behind R@1 (`common.column`), of the paper the best alone."""
    if ours:
        return common.column(rows, untrained, beside, ranks=metric == "precision_at_1")
    return common.percents(rows), common.highest(rows["mean"])


def _our_losses(name: str, frame: pd.DataFrame | None, several: set[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    if frame is None or frame.empty:
        empty = pd.DataFrame(columns=pd.MultiIndex.from_tuples([(name, "R@1")]), dtype=object)
        return empty, empty
    return _loss_block(name, frame, LOSS_METRICS, several)


EQUAL_LAYOUTS = ("5x15", "1x75", "25x3")
"""The levels, images of a class x classes, of zhai2019-losses-equal: every loss in the first."""


def compare_layouts(own: ByStudy, equal: ByStudy) -> tuple[pd.DataFrame, pd.DataFrame]:
    """zhai-equal, cells and marks: R@1 of each loss in the batches of its paper, and in the same for all.

    own: zhai2019-losses; equal: zhai2019-losses-equal. Columns: the studies, and in each the layouts. Marks and
    brackets: see `common.column`.
    """
    cells, marks = {}, {}
    for name, records in own.items():
        columns = {"its own": "", **{_layout(*map(int, each.split("x"))): each for each in EQUAL_LAYOUTS}}
        for head, level in columns.items():
            source = equal[name] if level else records
            if source is None:
                cells[name, head] = dict.fromkeys(_trained(records) if records is not None else (), "not run yet")
                continue
            rows = common.over_seeds(source)
            rows = rows[(rows["setting"] == "separated") & (rows["metric"] == "precision_at_1")]
            rows = rows[(rows["value"] == level) | (rows["method"] == PRETRAINED)].set_index("row")[
                ["mean", "ci95", "n"]
            ]
            trained = rows.drop(index=PRETRAINED, errors="ignore")
            if trained.empty:  # a layout of more classes than the study has
                continue
            cells[name, head], marked = common.column(rows, rows["mean"].get(PRETRAINED, np.nan), [PRETRAINED])
            marks[name, head] = marked if len(trained) > 1 else {}
    table = pd.DataFrame(cells)
    table = table.loc[sorted(table.index, key=lambda row: row == PRETRAINED)]  # the trunk last
    bold = pd.DataFrame(marks).reindex(index=table.index, columns=table.columns).astype(object).fillna("")
    names = pd.Index(map(zhai_label, table.index), name="Loss")
    return table.fillna("–").set_axis(names), bold.set_axis(names)


def _trained(records: StudyRecords) -> list[str]:
    """The losses of zhai2019-losses without the untrained trunk."""
    return [name for name in records.scores["row"].unique() if name != PRETRAINED]


def trunk_of(table: str) -> str:
    """The trunk of one of Tables 1-3, as printed."""
    return TRUNK_LABELS[LOSS_TABLES[table]]


def losses_data(table: str, by_study: ByStudy) -> pd.DataFrame:
    """The numbers behind zhai-t1 to t3; see `common.long`."""
    ours = {name: of_table(table, losses(records)) for name, records in common.present(by_study).items()}
    return common.long(printed_table(table), ours)


# Table 4: samples per class


def _layout(samples: float, classes: float) -> str:
    """As in the rest of the book, classes x images; the paper and the rows of the studies have it the other way."""
    return "no balancing" if np.isnan(samples) else f"{classes:g} x {samples:g}"


def compare_samples(by_study: ByStudy) -> tuple[pd.DataFrame, pd.DataFrame]:
    """zhai-t4, cells and marks: R@1 of each layout, classes x images of each, in the paper and around each study."""
    paper = published.zhai_samples_per_class().rename(columns={"value": "mean"})
    frames = {"the paper, CUB200": paper.assign(ci95=np.nan)}
    frames |= {name: samples(records) for name, records in common.present(by_study).items()}
    cells, marks = {}, {}
    for name, frame in frames.items():
        layouts = [_layout(*pair) for pair in frame[["samples", "classes"]].to_numpy()]
        ours = name in by_study
        untrained = starts.of_trunk(by_study[name]) if ours else np.nan
        cells[name], marks[name] = _column(frame.set_axis(layouts), ours, "precision_at_1", untrained)
        if ours:
            cells[name][labels.UNTRAINED] = labels.percent(untrained, digits=1) or "–"
    order = list(dict.fromkeys(layout for column in cells.values() for layout in column.index))
    table = pd.DataFrame(cells).reindex(index=order, columns=[*by_study, *list(frames)[:1]])
    table = table.astype(object).fillna(dict.fromkeys(list(frames)[:1], "–"))  # the paper has no untrained trunk
    marked = pd.DataFrame(marks).reindex(index=order, columns=table.columns).astype(object).fillna("")
    return table.fillna("not run").rename_axis("Classes x images"), marked.rename_axis("Classes x images")


def samples_data(by_study: ByStudy) -> pd.DataFrame:
    """The numbers behind zhai-t4; see `common.long`."""
    ours = {name: samples(records) for name, records in common.present(by_study).items()}
    return common.long(published.zhai_samples_per_class(), ours)


# Tables 5 and 6: floats and bits


TRUNK_ROW = (PRETRAINED, 0, False)
"""The untrained trunk, whose size is told nowhere, among rows of method, size and whether they are bits."""


def compare_embeddings(table: str, main: ByStudy, dims: ByStudy) -> tuple[pd.DataFrame, pd.DataFrame]:
    """zhai-t5 and t6, cells and marks: the paper's table, and ours around each study.

    A row a method, size and kind (floats or bits). Marks and brackets of ours: see `common.column`. The paper's rows of
    other methods were not run here, and have a dash.
    """
    theirs = printed_table(table)
    keys = ["method", "dim", "binary"]
    trunks = theirs.drop_duplicates(keys).set_index(keys)["trunk"].map(TRUNK_LABELS)
    own = trunks.index.get_level_values("method").isin(OWN)
    trunks = pd.concat([trunks[~own], trunks[own]])  # as the paper has them, its own last
    blocks = []
    metrics = sorted({metric for dataset in BEST_TABLES[table] for metric in PAPER_METRICS[dataset]}, key=_depth)
    ours = {name: embeddings(main[name], dims.get(name)) for name in main}
    for name, frame in ours.items():
        if len(frame):
            trunk = {metric: starts.of_trunk(main[name], metric) for metric in metrics}
            blocks.append(_embedding_block(name, frame, metrics, trunk))
    blocks += [
        _embedding_block(dataset, part.rename(columns={"value": "mean"}), PAPER_METRICS[dataset])
        for dataset, part in theirs.groupby("dataset", sort=False)
    ]
    order = [*trunks.index, *(key for frame in ours.values() for key in frame.set_index(keys).index)]
    order += [TRUNK_ROW] * any(len(frame) for frame in ours.values())
    cells, marks = (
        pd.concat(parts, axis=1).reindex(pd.MultiIndex.from_tuples(dict.fromkeys(order), names=keys))
        for parts in zip(*blocks, strict=True)
    )
    for name, frame in ours.items():
        if frame.empty:
            cells[name, "R@1"] = ["not run" if key[0] in OWN[1:] else np.nan for key in cells.index]
            marks[name, "R@1"] = ""
    heads = cells.columns.get_level_values(0)
    place = list(heads.isin(list(theirs["dataset"]))).index(True)  # the paper's trunks stand before its numbers
    cells.insert(place, ("", "trunk"), trunks.reindex(cells.index))
    marks.insert(place, ("", "trunk"), "")
    names = [
        zhai_label(method) + f", {dim:g} {'bits' if bits else 'd'}" * bool(dim) for method, dim, bits in cells.index
    ]
    index = pd.Index(names, name="Method")
    return cells.fillna("–").set_axis(index), marks.fillna("").set_axis(index)


def _embedding_block(
    head: str, frame: pd.DataFrame, metrics: Sequence[str], untrained: Mapping[str, float] | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """untrained: each metric of the untrained trunk; None for the paper's rows."""
    ours = untrained is not None
    cells, marks = {}, {}
    for metric in metrics:
        rows = frame[frame["metric"] == metric].set_index(["method", "dim", "binary"])
        rows = rows.reindex(columns=["mean", "ci95", "n"]).astype(float)
        column = (head, common.metric_label(metric))
        cells[column], marks[column] = _column(rows, ours, metric, untrained[metric] if ours else np.nan)
        if ours:
            cells[column][TRUNK_ROW] = labels.percent(untrained[metric], digits=1) or "–"
    return pd.DataFrame(cells), pd.DataFrame(marks)


def embeddings_data(table: str, main: ByStudy, dims: ByStudy) -> pd.DataFrame:
    """The numbers behind zhai-t5 and t6; see `common.long`."""
    return common.long(printed_table(table), {name: embeddings(main[name], dims.get(name)) for name in main})


# Figure 2: floats and bits against the size


def sizes_cells(by_study: ByStudy) -> pd.DataFrame:
    """The numbers of zhai-f2 as cells: a row a size, and of each study floats, bits and what bits cost."""
    blocks = []
    for name, records in common.present(by_study).items():
        frame = sizes(records)
        texts = labels.against_untrained(common.percents(frame), frame["mean"], starts.of_trunk(records))
        wide = frame.assign(text=texts).pivot(index="dim", columns="binary", values="text")
        wide = wide.rename(columns={False: "floats", True: "bits"})
        gap = gaps(records).set_index("dim")
        wide["bits less floats"] = [
            common.points(*pair) for pair in gap[["mean", "ci95"]].reindex(wide.index).to_numpy()
        ]
        wide.columns = pd.MultiIndex.from_product([[name], wide.columns])
        blocks.append(wide)
    cells = pd.concat(blocks, axis=1).sort_index().fillna("–")
    cells.columns = cells.columns.set_names([None, None])
    return cells.set_axis(pd.Index([f"{dim:g}" for dim in cells.index], name="Size"))


# Figure 3: with and without LayerNorm


def layer_norm_cells(by_study: ByStudy) -> pd.DataFrame:
    """The ends of the curves as cells: mean loss of the first epoch beside ln C, and R@1 of the best checkpoint."""
    rows = {}
    for name, records in common.present(by_study).items():
        curves, accuracy = layer_norm_curves(records), _r1(records).groupby("method")["score"]
        for method, text in LAYER_NORM.items():
            losses_ = curves[(curves["method"] == method) & (curves["metric"] == "loss")].sort_values("step")
            test = statistics.mean(accuracy.get_group(method) if method in accuracy.groups else [])
            rows[name, text] = {
                "loss, first epoch": f"{losses_['mean'].iloc[0]:.2f}" if len(losses_) else "not run",
                "loss, last epoch": f"{losses_['mean'].iloc[-1]:.2f}" if len(losses_) else "not run",
                "ln C": f"{np.log(training_classes(records, method)):.2f}",
                "R@1, test": _signed(test, starts.of_trunk(records)) or common.state(records, method),
            }
    cells = pd.DataFrame.from_dict(rows, orient="index")
    return cells.set_axis(pd.MultiIndex.from_tuples(list(rows), names=["study", "LayerNorm"]))


def _signed(test: Estimate, untrained: float) -> str:
    return labels.percent(test.value, test.half, digits=1) + labels.below(test.value, untrained)


# Figure 4: the share of the classes


def compare_shares(by_study: ByStudy) -> pd.DataFrame:
    """R@1 at every share as cells: what section 4.5 of the paper names, and ours around each study."""
    columns = {"the paper, SOP": {share: labels.one_digit(value) or "–" for share, value in SHARES_SAID.items()}}
    columns["the paper, SOP"][0.1] = "less than 1 point below all"
    for name, records in common.present(by_study).items():
        frame = shares(records)
        frame = frame[frame["metric"] == "precision_at_1"].set_index("share")
        columns[name] = labels.against_untrained(
            common.percents(frame), frame["mean"], starts.of_trunk(records)
        ).to_dict()
    cells = pd.DataFrame(columns).reindex(columns=[*by_study, "the paper, SOP"]).sort_index(ascending=False)
    ours = list(by_study)
    cells[ours] = cells[ours].astype(object).fillna("not run")
    cells = cells.fillna("–").set_axis(pd.Index([f"{100 * share:g} %" for share in cells.index], name="Classes"))
    trunk = {
        name: labels.percent(starts.of_trunk(each), digits=1) or "–" for name, each in common.present(by_study).items()
    }
    if trunk:
        cells.loc[labels.UNTRAINED] = pd.Series(trunk).reindex(cells.columns, fill_value="–")
    return cells


# The numbers of the text


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """What the text of the page rests on, a study by its data set; scores and differences in points of R@1.

    Verdicts stand under the ids of their claims.
    """
    paper = published.zhai_results()
    first = paper[(paper["source_table"] == "Table 1") & (paper["metric"] == "precision_at_1")]
    first = first.set_index(["dataset", "method"])["value"]
    costs = [-100 * paper_bits(dataset) for dataset in PAPER_METRICS]
    layouts = published.zhai_samples_per_class().set_index("samples")["value"]
    found: dict[str, float | str] = {"paper.bits_low": min(costs), "paper.bits_high": max(costs)}
    for dataset in ("CUB200", "Cars196"):
        found[f"paper.{dataset}"] = 100 * float(first[dataset, SOFTMAX] - first[dataset, "contrastive"])
    found |= {"paper.best_images": float(layouts.idxmax()), "paper.one_class": 100 * (layouts.max() - layouts[75])}
    judged = claims.judged(edition, "zhai")
    found["withdrawn"] = sum(each.verdict == claims.RETRACTED for each in judged[claims.WITHOUT_RECORDS].values())
    for each in edition:
        own = _of_study(each.name) | {name: one.verdict for name, one in judged[each.name].items()}
        found |= {f"{each.meta['dataset']}.{name}": value for name, value in own.items()}
    parts = ("bits", "small_bits", "one_class", "from_own_batches")
    for name in parts:
        values = [found[f"{each.meta['dataset']}.{name}"] for each in edition]
        found |= {f"{name}_low": min(values), f"{name}_high": max(values)}
    return found


def _of_study(main: str) -> dict[str, float]:
    """The numbers around one study."""
    records = {
        name: editions.experiment_of(main, f"zhai2019{suffix}")
        for name, suffix in {"main": "", **{part: f"-{part}" for part in PARTS}}.items()
    }
    ranks, equal = equal_ranks(records["losses-equal"]), _r1(records["losses-equal"])
    if ranks is None:
        raise KeyError(f"{SOFTMAX} has no score around {main}")
    lead = common.difference(equal, f"{SOFTMAX}@{EQUAL_LAYOUTS[0]}", f"contrastive@{EQUAL_LAYOUTS[0]}")
    own = common.difference(equal, f"{SOFTMAX}@{EQUAL_LAYOUTS[0]}", f"{SOFTMAX}@{EQUAL_LAYOUTS[2]}")
    layouts = samples(records["samples"]).fillna({"samples": 0.0}).set_index("samples")["mean"]
    norm, tenth = layer_norm_gain(records["layer_norm"]), share_cost(records["shares"])
    cost = gaps(records["dims"]).set_index("dim")["mean"]
    above, sizes_ = sizes_above(main, records["dims"])
    return {
        **{"rank_low": ranks.low, "rank_high": ranks.high, "losses": ranks.of},
        **{"lead": 100 * lead.value, "lead_low": 100 * lead.low, "lead_high": 100 * lead.high},
        **{"from_own_batches": 100 * own.value, "from_own_batches_low": 100 * own.low},
        **{"best_images": float(layouts.idxmax()), "one_class": 100 * (layouts.max() - layouts[75.0])},
        **{"worst_images": float(layouts.idxmin()), "bits": -100 * bits_cost(records["main"]).value},
        **{"small_bits": -100 * cost[min(cost.index)], "sizes_above": above, "sizes": sizes_},
        **{"layer_norm": 100 * norm.value, "layer_norm_low": 100 * norm.low, "layer_norm_high": 100 * norm.high},
        **{"tenth": -100 * tenth.value, "tenth_low": -100 * tenth.high},
    }


PARTS = ("losses-equal", "samples", "dims", "layer_norm", "shares")
"""The experiments whose numbers the text has, beside zhai2019 itself."""


def equal_ranks(records: StudyRecords) -> common.Ranks | None:
    """Which ranks normalised softmax may have by R@1 in equal batches. records: zhai2019-losses-equal."""
    rows = common.over_seeds(records)
    rows = rows[(rows["setting"] == "separated") & (rows["metric"] == "precision_at_1")]
    of_layout = rows[rows["value"] == EQUAL_LAYOUTS[0]].set_index("row")
    return common.ranks(of_layout.drop(index=PRETRAINED, errors="ignore"), SOFTMAX)


def sizes_above(main: str, dims: StudyRecords) -> tuple[int, int]:
    """At how many sizes floats or bits lie above the untrained linear layer, by their means, and of how many."""
    [curve] = starts.around({main: dims}).values()
    return starts.sizes_above(curve, dims)


def zhai_scalars(main: ByStudy) -> dict[str, float]:
    """The named numbers that the chapter records."""
    recorded = {"published_cells": float(len(published.zhai_results()))}
    for name, records in common.present(main).items():
        named = {"bits_less_floats": bits_cost(records).value, "over_lmcl": over_lmcl(records).value}
        recorded |= {f"{name}.{key}": value for key, value in named.items() if value == value}
    return recorded
