"""The tables and figures of Fehervari et al. 2019, Unbiased Evaluation of Deep Metric Learning Algorithms.

Numbers first (frames of fractions), then cells for the page, then figures. Experiments: fehervari2019 (Tables 2-4),
fehervari2019-dims (Fig. 1) and fehervari2019-batches (Fig. 2).
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from dmlrc.papers import fehervari2019
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import common, labels, published, starts, statistics
from dmlrc.report.claims.fehervari2019 import OF_ANOTHER_SIZE
from dmlrc.report.common import ByStudy

ORDER = tuple(published.FEHERVARI_METHODS.values())
"""The methods in the order of the paper's tables."""
LABELS = {method.name: method.label for method in fehervari2019.METHODS} | {PRETRAINED: labels.UNTRAINED}
DATASETS = {"t2": "CUB200", "t3": "Cars196", "t4": "SOP"}
METRICS = ("precision_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "recall_at_16", "nmi")
OURS = ("precision_at_1", "nmi")
FLOATS = "proxy_softmax, floats"
"""ProxySoftmax before its embeddings become bits; the paper has no such row."""


def fehervari_label(method: str) -> str:
    """A method as the paper prints it."""
    return f"{LABELS['proxy_softmax']}, floats" if method == FLOATS else LABELS.get(method, method)


def headline(records: StudyRecords) -> pd.DataFrame:
    """The rows of our table: method, metric, mean, ci95, n, each in the setting that the paper's row is in.

    dreml: its ensemble. proxy_softmax: the bits of its embeddings, which are the row `FLOATS` as they are. All others:
    their embeddings.
    """
    frame = common.over_seeds(records)
    setting, bits, ensemble = frame["setting"], frame["method"] == "proxy_softmax", frame["method"] == "dreml"
    by_floats = (setting == "separated") & ~ensemble & ~bits
    by_bits = (setting == "separated_binary") & bits
    joined = (setting == "concatenated") & ensemble
    floats = frame[(setting == "separated") & bits].assign(method=FLOATS)
    chosen = pd.concat([frame[by_floats | by_bits | joined], floats], ignore_index=True)
    return chosen[["method", "metric", "mean", "ci95", "n"]]


def by_trunk(dataset: str) -> dict[str, pd.DataFrame]:
    """The paper's table of a data set: trunk -> `published.fehervari_results`; DREML's ResNet18 is with ResNet50."""
    frame = published.fehervari_results()
    frame = frame[frame["dataset"] == dataset]
    columns = frame["trunk"].replace("resnet18", "resnet50")
    return dict(list(frame.groupby(columns, sort=False)))


def places(by_study: ByStudy) -> dict[str, pd.DataFrame]:
    """Every table of results by its heading, the paper's four and then ours: method, metric, mean, ci95.

    Cells of the paper that are taken for slips are left out.
    """
    tables = {}
    for dataset in DATASETS.values():
        for trunk, frame in by_trunk(dataset).items():
            kept = frame[~frame["doubtful"]].rename(columns={"value": "mean"})
            tables[f"{dataset} ({labels.TRUNK_LABELS[trunk]})"] = kept[["method", "metric", "mean"]].assign(ci95=np.nan)
    ours = {name: headline(records) for name, records in common.present(by_study).items()}
    return tables | {name: frame[~frame["method"].isin([FLOATS, PRETRAINED])] for name, frame in ours.items()}


def of_metric(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """mean, ci95 and, of ours, n of one metric, indexed by method."""
    return frame[frame["metric"] == metric].set_index("method").reindex(columns=["mean", "ci95", "n"])


def originals(dataset: str) -> pd.Series:
    """R@1 that the original papers claim on a data set, as this paper prints it, indexed by method."""
    frame = published.fehervari_results()
    rows = frame[(frame["dataset"] == dataset) & frame["reported_r1"].notna()]
    return rows.drop_duplicates("method").set_index("method")["reported_r1"]


# The tables


def settings(by_study: ByStudy) -> pd.DataFrame:
    """fehervari-t1, cells: what the original papers trained with, and the embedding size of our rows."""
    table = published.fehervari_settings().set_index("method")
    cells = pd.DataFrame(
        {
            "trunk": table["feature_extractor"].map(labels.TRUNK_LABELS),
            "embedding": table["embedding_size"].str.replace("x", " x ").fillna("–"),
            "R@1, CUB200": table["reported_r1"].map(labels.one_digit).replace("", "–"),
            "normalised": table["normalize_last_layer"].map({True: "yes", False: "no"}),
        }
    )
    own = {
        name: [common.state(records, method) or _size(common.settings(records, method)) for method in table.index]
        for name, records in by_study.items()
    }
    ran = {name: sizes for name, sizes in own.items() if by_study[name] is not None}
    same = len({tuple(sizes) for sizes in ran.values()}) == 1 < len(ran)
    cells = cells.assign(**{"ours": next(iter(ran.values()))} if same else own)
    return cells.rename(index=fehervari_label).rename_axis("Method")


def trunks_sentence(by_study: ByStudy) -> str:
    """The trunk of all rows of a study but those of another one, in words."""
    trunks = {name: _trunk(records) for name, records in common.present(by_study).items()}
    return f"Ours: {labels.by_study(trunks)}." if trunks else ""


def _trunk(records: StudyRecords) -> str:
    name = records.meta["protocol"]["trunk"]
    return labels.TRUNK_LABELS.get(name, name)


def setting(records: StudyRecords, method: str) -> str:
    """The trunk and the embedding size of a method, with the members of an ensemble: "BN-Inception, 12 x 12"."""
    own = common.settings(records, method)
    return f"{labels.TRUNK_LABELS.get(own['trunk'], own['trunk'])}, {_size(own)}"


def _size(own: Mapping) -> str:
    members = f"{own['members']} x " if own["members"] > 1 else ""
    return f"{members}{own['embedding_dim']}"


def compare(dataset: str, by_study: ByStudy) -> tuple[pd.DataFrame, pd.DataFrame]:
    """fehervari-t2 to t4, cells and marks: our R@1 and NMI around each study, and the paper's table of a data set.

    Marks and brackets of ours: see `common.column`. Cells that are taken for slips and the rows that the paper does not
    have (`FLOATS`, the pretrained trunk) do not compete.
    """
    theirs = by_trunk(dataset)
    known = {method for records in common.present(by_study).values() for method in headline(records)["method"]}
    extra = [method for method in (PRETRAINED, FLOATS) if method in known]
    blocks = [_originals_block(dataset)]
    blocks += [_paper_block(trunk, frame, digits=1 if dataset == "CUB200" else 2) for trunk, frame in theirs.items()]
    ours = [_our_block(name, records) for name, records in by_study.items()]
    blocks = [*ours, *blocks]
    cells, marks = (pd.concat(parts, axis=1).reindex([*ORDER, *extra]) for parts in zip(*blocks, strict=True))
    for frame in (cells, marks):
        frame.index = pd.Index([fehervari_label(name) for name in frame.index], name="Method")
    return cells.replace("", np.nan).fillna("–"), marks.fillna("")


def _originals_block(dataset: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    values = originals(dataset)
    head = ("originally reported", "R@1")
    return pd.DataFrame({head: values.map(labels.one_digit)}), pd.DataFrame({head: common.highest(values)})


def _paper_block(trunk: str, frame: pd.DataFrame, digits: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    cells, marks = {}, {}
    for metric in METRICS:
        rows = frame[frame["metric"] == metric].set_index("method")
        head = (f"the paper, {labels.TRUNK_LABELS[trunk]}", common.metric_label(metric))
        signs = np.where(rows["doubtful"], common.DOUBLE_DAGGER, np.where(rows["plotted"].notna(), common.DAGGER, ""))
        cells[head] = rows["value"].map(lambda value: labels.percent(value, digits=digits)) + signs
        marks[head] = common.highest(rows["value"].where(~rows["doubtful"]))
    return pd.DataFrame(cells), pd.DataFrame(marks)


def _our_block(name: str, records: StudyRecords | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    frame = None if records is None else headline(records)
    cells, marks = {}, {}
    for metric in OURS:
        head = (name, common.metric_label(metric))
        values = of_metric(frame, metric) if records else pd.DataFrame(columns=["mean", "ci95", "n"], dtype=float)
        beside = [method for method in values.index if method not in ORDER]
        texts, marks[head] = common.column(
            values, values["mean"].get(PRETRAINED, np.nan), beside, ranks=metric == "precision_at_1"
        )
        absent = {method: common.state(records, method) for method in ORDER if method not in values.index}
        cells[head] = texts.combine_first(pd.Series(absent, dtype=object))
    return pd.DataFrame(cells), pd.DataFrame(marks)


def plotted(dataset: str) -> str:
    """What the daggers of a table stand for: the numbers of the authors' own plots, in words."""
    frame = published.fehervari_results()
    frame = frame[frame["dataset"] == dataset]
    differing = [
        f"{fehervari_label(row.method)}, {labels.TRUNK_LABELS[row.trunk]}, {common.metric_label(row.metric)} "
        f"{labels.percent(row.plotted)}"
        for row in frame[frame["plotted"].notna()].itertuples()
    ]
    slips = [
        f"{fehervari_label(row.method)} {common.metric_label(row.metric)}"
        for row in frame[frame["doubtful"]].itertuples()
    ]
    sentences = []
    if differing:
        sentences.append(f"{common.DAGGER} The authors' own plot shows another number: {'; '.join(differing)}.")
    if slips:
        sentences.append(
            f"{common.DOUBLE_DAGGER} Probably a slip of the authors, left out of every comparison: {', '.join(slips)}."
        )
    return labels.bullets(sentences)


def table_data(dataset: str, by_study: ByStudy) -> pd.DataFrame:
    """The numbers behind fehervari-t2 to t4, all metrics of ours among them; see `common.long`."""
    theirs = pd.concat(by_trunk(dataset).values())
    return common.long(theirs, {name: headline(records) for name, records in common.present(by_study).items()})


# How the tables agree


REPORTED = "reported, "
"""What stands before a data set where the order is that of the original papers."""


def columns_of_orders(by_study: ByStudy) -> dict[str, pd.Series]:
    """R@1 by method, a column a table: what the original papers report on CUB200, this paper's tables, ours."""
    tables = {name: of_metric(frame, "precision_at_1")["mean"] for name, frame in places(by_study).items()}
    return {f"{REPORTED}CUB200": originals("CUB200")} | {name: values.dropna() for name, values in tables.items()}


def orders(by_study: ByStudy) -> pd.DataFrame:
    """Spearman's rank correlation of the methods between all tables: first, second, rho, p, n.

    A row a pair of a table (`places`) and a table of the paper or "reported, <data set>", the originally reported R@1.
    Without the methods whose embeddings are of another size, which would make the first and last places alike.
    """
    columns = {
        name: of_metric(frame, "precision_at_1")["mean"].drop(list(OF_ANOTHER_SIZE), errors="ignore")
        for name, frame in places(by_study).items()
    }
    reference = {f"{REPORTED}{dataset}": originals(dataset) for dataset in DATASETS.values()}
    reference |= {name: values for name, values in columns.items() if name not in by_study}
    rows = [
        {"first": first, "second": second, **statistics.rank_test(values, other)}
        for first, values in columns.items()
        for second, other in reference.items()
        if first != second
    ]
    return pd.DataFrame(rows)


def orders_cells(frame: pd.DataFrame) -> pd.DataFrame:
    """`orders` as cells: rho and the number of methods; a row a table, a column what it is compared with."""
    text = [f"{row.rho:+.2f} ({row.n})" if row.rho == row.rho else "–" for row in frame.itertuples()]
    wide = frame.assign(text=text).pivot(index="first", columns="second", values="text")
    firsts = list(frame["first"].unique())
    originally = [name for name in frame["second"].unique() if name not in firsts]
    wide = wide.reindex(index=firsts, columns=[*originally, *(name for name in firsts if name in wide)]).fillna("–")
    return wide.rename_axis("Order of").rename_axis(None, axis=1)


def gains(dataset: str, trunk: str = "bn_inception", by_plots: bool = False) -> pd.Series:
    """R@1 in this paper's table less what the original papers report, of the methods that have both.

    by_plots: where the authors' own plot shows another number than the table, that one.
    """
    frame = by_trunk(dataset)[trunk]
    rows = frame[frame["metric"] == "precision_at_1"].set_index("method")
    theirs = rows["plotted"].fillna(rows["value"]) if by_plots else rows["value"]
    return (theirs - originals(dataset)).dropna()


def _of_setting(records: StudyRecords) -> pd.DataFrame:
    """R@1 of every rerun, by the floats of the embeddings."""
    scores = common.seeds(records)
    chosen = (scores["setting"] == "separated") & (scores["metric"] == "precision_at_1")
    return scores[chosen & (scores["method"] != PRETRAINED)]


# The figures


def sweep(records: StudyRecords) -> pd.DataFrame:
    """R@1 against the number that a sweep varies: method, number, mean, ci95, n; sorted by it.

    The floats of the embeddings count, those of ProxySoftmax too.
    """
    frame = common.over_seeds(records)
    frame = frame[(frame["setting"] == "separated") & (frame["metric"] == "precision_at_1") & (frame["value"] != "")]
    numbered = frame.assign(method=frame["row"], number=frame["value"].map(records.level_numbers))
    return numbered[["method", "number", "mean", "ci95", "n"]].sort_values(["method", "number"], ignore_index=True)


def sweep_cells(by_study: ByStudy) -> pd.DataFrame:
    """The numbers of a figure as cells: a row a study and method, a column a number; then points a doubling."""
    blocks = {}
    for name, records in common.present(by_study).items():
        frame = sweep(records)
        text = labels.against_untrained(common.percents(frame), frame["mean"], starts.of_trunk(records))
        wide = frame.assign(text=text).pivot(index="method", columns="number", values="text")
        wide.columns = [f"{column:g}" for column in wide.columns]
        slopes = common.doublings(_of_setting(records))
        wide["a doubling"] = pd.Series(
            {method: common.points(row["mean"], row["ci95"]) for method, row in slopes.iterrows()}, dtype=object
        )
        rows = [method for method in ORDER if method in wide.index]
        blocks[name] = wide.loc[rows].rename(index=fehervari_label)
        blocks[name].loc[labels.UNTRAINED] = labels.percent(starts.of_trunk(records), digits=1) or "–"
        blocks[name].loc[labels.UNTRAINED, "a doubling"] = "–"
    cells = pd.concat(blocks, names=["Study", "Method"]).fillna("–")
    sizes = sorted((column for column in cells if column != "a doubling"), key=float)
    return cells[[*sizes, "a doubling"]]


def steps(by_study: ByStudy) -> str:
    """How many steps the rows of a sweep trained for, in words: what varies with it and what does not."""
    texts = {}
    for name, records in common.present(by_study).items():
        runs = records.runs[(records.runs["kind"] == "rerun") & (records.runs["state"] == "complete")]
        if len(runs):
            texts[name] = labels.span(runs["steps"], "{:,.0f}".format)
    return f"Training steps of a run: {labels.by_study(texts)}." if texts else ""


# Sentences


def settings_sentence() -> str:
    """What to see in fehervari-t1."""
    table = published.fehervari_settings()
    trunks, sizes = table["feature_extractor"].nunique(), table["embedding_size"].dropna().nunique()
    return (
        f"Behind the {table['reported_r1'].notna().sum()} numbers of the column R@1 stand {trunks} trunks and {sizes} "
        "embedding sizes: a later method's gain may be that of its trunk or of its size."
    )


def table_sentence(dataset: str) -> str:
    """What to see in fehervari-t2 to t4, of the paper's own numbers."""
    gained, plotted = gains(dataset), gains(dataset, by_plots=True)
    higher = (gained > 0).sum()
    reported = (
        "scores higher than its own paper reports" if higher == 1 else "score higher than their own papers report"
    )
    instead = f"; by the authors' own plots ({common.DAGGER}) {_extremes(plotted)}"
    return (
        f"Under one setting {higher} of {len(gained)} methods {reported}. The changes run {_extremes(gained)}"
        f"{instead * (_extremes(plotted) != _extremes(gained))}."
    )


def _extremes(gained: pd.Series) -> str:
    """The least and the greatest gain, with all methods that are printed with it."""
    printed = gained.map(common.points)
    least, most = (printed[place] for place in (gained.idxmin(), gained.idxmax()))
    low, high = (labels.listed(map(fehervari_label, printed.index[printed == end])) for end in (least, most))
    return f"from {least} points ({low}) to {most} ({high})"


def order_sentence(by_study: ByStudy) -> str:
    """How far the order of the methods agrees between tables, in two sentences."""
    frame = orders(by_study).set_index(["first", "second"])
    names = [first for first in dict.fromkeys(frame.index.get_level_values(0)) if first not in by_study]
    own = {name: frame["rho"][name, f"{REPORTED}{name.partition(' (')[0]}"] for name in names}
    sentences = ["Rank correlation of the paper's R@1 with what the original papers report: " + _rhos(own) + "."]
    for name in common.present(by_study):
        ours = {second: frame["rho"][name, second] for second in names}
        sentences.append(f"Rank correlation of our R@1 on `{name}` with the paper's tables: {_rhos(ours)}.")
    return labels.bullets(sentences)


def order_in_short(by_study: ByStudy) -> str:
    """How far our orders, the paper's and those that others reported agree, in a sentence or two: ranges."""
    frame = orders(by_study)
    frame = frame.assign(reported=frame["second"].str.startswith(REPORTED))
    is_ours = frame["first"].isin(list(by_study))
    by_others = _from_to(frame["rho"][frame["reported"] & ~is_ours])
    ours = frame[is_ours].dropna(subset="rho")
    if ours.empty:
        return f"The rank correlation of the paper's orders with those which the original papers report is {by_others}."
    originally, in_paper = ours[ours["reported"]], ours[~ours["reported"]]
    told = []
    for what, rows in {"those which the original papers report": originally, "the paper's own": in_paper}.items():
        spans = {name: _from_to(part["rho"]) for name, part in rows.groupby("first", sort=False)}
        told += [f"with {what} at {labels.by_study(spans)}"] * bool(spans)
    sure = (statistics.holm(ours["p"]) < 1 - statistics.LEVEL).sum()
    return (
        f"{_survives((originally if len(originally) else in_paper)['rho'], sure)} our orders correlate by rank "
        f"{'; '.join(told)}. The paper's own do so with the reported ones at {by_others}. With "
        f"{labels.span(ours['n'], '{:.0f}'.format)} methods, {sure or 'none'} of our {len(ours)} can be told from 0 "
        "by Holm's correction; DREML and ProxySoftmax, whose embeddings are of another size, are left out."
    )


def _survives(values: Sequence[float], sure: int) -> str:
    """Whether an order survives, from its rank correlations and how many of them are not 0, as a sentence begins.

    >>> _survives([0.36, 0.76], 1), _survives([0.9, 0.95], 2), _survives([0.1, -0.2], 1), _survives([0.36, 0.76], 0)
    ('Partly:', 'Nearly:', 'Hardly:', 'Not clearly:')
    """
    if not sure:
        return "Not clearly:"
    return "Nearly:" if min(values) >= 0.8 else "Hardly:" if max(values) < 0.3 else "Partly:"


def _from_to(values: Iterable[float]) -> str:
    known = [value for value in values if value == value]
    return f"{min(known):+.2f} to {max(known):+.2f}" if known else "too few methods to tell"


def _rhos(values: Mapping[str, float]) -> str:
    return labels.each(values, lambda rho: f"{rho:+.2f}" if rho == rho else "too few methods")


def worst_sentence() -> str:
    """Where Triplet Semihard stands in the paper's own tables, which call it the worst of all, in words."""
    standing = {}
    for metric in OURS:
        for name, frame in places({}).items():
            values = of_metric(frame, metric)["mean"]
            if "triplet_semihard" in values:
                standing[f"{common.metric_label(metric)} on {name}"] = common.place(values, "triplet_semihard")
    told = labels.each(standing, str)
    return f"Sections 1 and 4.2 call Triplet Semihard the worst of all; in the tables it ranks {told}."


def slopes_sentence(by_study: ByStudy, what: str) -> str:
    """Which methods gain from a doubling and which lose, in a sentence a study. what: "embedding" or "batch"."""
    sentences = []
    for name, records in common.present(by_study).items():
        slopes = common.doublings(_of_setting(records))
        if slopes.empty:
            continue
        clear = slopes["ci95"].fillna(np.inf)
        gain, lose = (slopes["mean"] > clear).sum(), (slopes["mean"] < -clear).sum()
        most, least = slopes["mean"].idxmax(), slopes["mean"].idxmin()
        seeds = " (a single seed has no interval)" if (slopes["n"] < 2).all() else ""
        sentences.append(
            f"On `{name}` {gain} of {len(slopes)} methods clearly gain from a larger {what} (interval above 0, each "
            f"by itself) "
            f"and {lose or 'none'} clearly {'loses' if lose == 1 else 'lose'}{seeds}; a doubling is worth "
            f"{common.points(slopes['mean'][most])} points to {fehervari_label(most)} and "
            f"{common.points(slopes['mean'][least])} to {fehervari_label(least)}."
        )
    return labels.bullets(sentences)


def pairs_sentence(by_study: ByStudy) -> str:
    """How seldom a few random images hold two of one class, with a space behind it; "" without any study.

    Of classes of equal size; half of the classes are trained on.
    """
    shares = {}
    for name, records in common.present(by_study).items():
        classes = records.meta["data"]["classes"] // 2
        few, more = (1 - math.prod(1 - place / classes for place in range(size)) for size in (4, 8))
        shares[name] = f"about {100 * few:.0f} % and {100 * more:.0f} %"
    if not shares:
        return ""
    return (
        "Triplet Semihard and Lifted Struct draw their images at random. Of their batches of 4 and of 8 images, "
        f"{labels.by_study(shares)} hold two images of one class; the others teach them nothing. "
    )


SMALLEST = ", in part because the smallest random batches hold hardly a pair of one class"


def slopes_in_short(dims: ByStudy, batches: ByStudy, untrained: Mapping[str, pd.Series]) -> list[str]:
    """For how many methods a larger embedding and a larger batch raise R@1, a sentence each; none without any sweep.

    batches: the sweep in which every size sees as many images. untrained: `starts.around`, of the embeddings.
    """
    free = bool(untrained) and all(curve.iloc[-1] > curve.iloc[0] for curve in untrained.values())
    larger = {
        ("A larger embedding", ", as it does without any training" * free): dims,
        ("A larger batch, with as many images seen in all,", SMALLEST): batches,
    }
    sentences = []
    for (what, too), by_study in larger.items():
        slopes = {name: common.doublings(_of_setting(records)) for name, records in common.present(by_study).items()}
        told = {
            name: f"{(each['mean'] > each['ci95'].fillna(np.inf)).sum()} of {len(each)} methods"
            for name, each in slopes.items()
            if len(each)
        }
        if told:
            where = f"{labels.by_study(told)}{too}"
            sentences.append(f"{what} clearly raises R@1 (the interval lies above 0, each by itself) for {where}.")
    return sentences


def best_in_short(by_study: ByStudy, dims: ByStudy) -> list[str]:
    """The method with the highest R@1 around each study, and in what ProxySoftmax is ahead; none where none was run.

    dims: fehervari2019-dims.
    """
    told = {}
    for name, frame in places(by_study).items():
        values = of_metric(frame, "precision_at_1")["mean"] if name in by_study else pd.Series(dtype=float)
        if len(values) > 1:
            told[name] = (fehervari_label(values.idxmax()), f"{labels.one_digit(values.max())} %")
    if not told:
        return []
    leads = any(method == fehervari_label("proxy_softmax") for method, _ in told.values())
    return [f"The highest R@1 belongs to {labels.led(told)}.", *[of_more_dimensions(by_study, dims)] * leads]


def of_more_dimensions(by_study: ByStudy, dims: ByStudy) -> str:
    """That ProxySoftmax has more dimensions than the other methods, and its place with as many as they have."""
    records = next(iter(common.present(by_study).values()))
    own, others = (common.settings(records, name)["embedding_dim"] for name in ("proxy_softmax", "triplet_semihard"))
    told = f"ProxySoftmax has {own:,} dimensions, kept as bits, where the others have {others} floats"
    sweeps = {name: sweep(each).set_index("method") for name, each in common.present(dims).items()}
    ranks = {
        name: common.ranks_text(common.ranks(frame[frame["number"] == others], "proxy_softmax"))
        for name, frame in sweeps.items()
    }
    return f"{told}. With {others} floats it ranks {labels.by_study(ranks)}." if ranks else f"{told}."


def fehervari_scalars(by_study: ByStudy) -> dict[str, float | str]:
    """The named numbers that the chapter records."""
    recorded: dict[str, float | str] = {"published_cells": len(published.fehervari_results())}
    for name, frame in places(by_study).items():
        values = of_metric(frame, "precision_at_1")["mean"] if name in by_study else pd.Series(dtype=float)
        if len(values):
            recorded |= {f"{name}.best_method": values.idxmax(), f"{name}.best_r1": float(values.max())}
    return recorded
