"""The tables and figures of Fehervari et al. 2019, Unbiased Evaluation of Deep Metric Learning Algorithms.

Numbers first (frames of fractions), then cells for the page, then the numbers of its text. Experiments: fehervari2019
(Tables 2-4), fehervari2019-dims (Fig. 1) and fehervari2019-batches (Fig. 2).
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dmlrc.papers import fehervari2019
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import claims, common, editions, labels, published, starts, statistics
from dmlrc.report.common import ByStudy

ORDER = tuple(published.FEHERVARI_METHODS.values())
"""The methods in the order of the paper's tables."""
LABELS = {method.name: method.label for method in fehervari2019.METHODS} | {PRETRAINED: labels.UNTRAINED}
DATASETS = {"t2": "CUB200", "t3": "Cars196", "t4": "SOP"}
METRICS = ("precision_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "recall_at_16", "nmi")
OURS = ("precision_at_1", "nmi")
FLOATS = "proxy_softmax, floats"
"""ProxySoftmax before its embeddings become bits; the paper has no such row."""


OF_ANOTHER_SIZE = ("dreml", "proxy_softmax")
"""An ensemble of twelve models, and 2048 bits, beside embeddings of 64 numbers."""


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


def gains(dataset: str) -> pd.Series:
    """R@1 with BN-Inception less what the original papers report, of the methods that have both."""
    frame = by_trunk(dataset)["bn_inception"]
    rows = frame[frame["metric"] == "precision_at_1"].set_index("method")
    return (rows["value"] - originals(dataset)).dropna()


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


# The numbers of the text


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """What the text of the page rests on, a study by its data set; scores and differences in points of R@1.

    Verdicts stand under the ids of their claims.
    """
    judged = claims.judged(edition, "fehervari")
    exploratory = {claim.id for claim in claims.of_section("fehervari") if claim.exploratory}
    settled = [each for main in edition for each in judged[main.name].items() if each[1].settled]
    by_study = {each.name: editions.experiment_of(each.name, "fehervari2019") for each in edition}
    found: dict[str, float | str] = {
        "settled": len(settled),
        "reproduced": sum(each.verdict == claims.REPRODUCED for _, each in settled),
        "exploratory": sum(name in exploratory for name, _ in settled),
        "withdrawn": len(judged[claims.WITHOUT_RECORDS]),
        "withdrawn_for_size": sum("size" in each.why for each in judged[claims.WITHOUT_RECORDS].values()),
        **_of_paper(),
        **_of_orders(edition, orders(by_study)),
    }
    for each in edition:
        verdicts = {name: one.verdict for name, one in judged[each.name].items()}
        own = _of_study(each.name) | verdicts | {"settled": sum(one.settled for one in judged[each.name].values())}
        found |= {f"{each.meta['dataset']}.{name}": value for name, value in own.items()}
    for name in ("pairs", "batches_gain"):
        values = [found[f"{each.meta['dataset']}.{name}"] for each in edition]
        found |= {f"{name}_low": min(values), f"{name}_high": max(values)}
    return found


def _of_paper() -> dict[str, float | str]:
    """The numbers of the paper's own tables; "own_": how alike the orders of these are."""
    gained, table = gains("CUB200"), published.fehervari_settings()
    own = orders({})
    own = own["rho"][~own["second"].str.startswith(REPORTED)]
    printed = of_metric(places({})["CUB200 (BN-Inception)"], "precision_at_1")["mean"]
    return {
        **{"paper.higher": int((gained > 0).sum()), "paper.compared": len(gained), "paper.fallen": gained.idxmin()},
        "paper.fall": -100 * gained.min(),
        **{"paper.trunks": table["feature_extractor"].nunique(), "paper.sizes": table["embedding_size"].nunique()},
        **{"paper.reported": int(table["reported_r1"].notna().sum())},
        **{"paper.own_low": float(own.min()), "paper.own_high": float(own.max())},
        "paper.semihard": common.place(printed, "triplet_semihard"),
    }


def _of_orders(edition: Sequence[StudyRecords], frame: pd.DataFrame) -> dict[str, float]:
    """How alike our orders are to those that the original papers report, and to the paper's own. frame: `orders`."""
    found = {}
    ours = frame[frame["first"].isin([each.name for each in edition])].dropna(subset="rho")
    reported = ours["second"].str.startswith(REPORTED)
    for name, rows in {"reported": ours[reported], "in_paper": ours[~reported]}.items():
        means = rows.groupby("first")["rho"].mean()
        found |= {f"{name}_low": float(rows["rho"].min()), f"{name}_high": float(rows["rho"].max())}
        found |= {f"{each.meta['dataset']}.{name}": float(means[each.name]) for each in edition}
    sure = statistics.holm(ours["p"]) < 1 - statistics.LEVEL
    return found | {"orders": len(ours), "sure": int(sure.sum()), "fewest": ours["n"].min(), "most": ours["n"].max()}


def _of_study(main: str) -> dict[str, float | str]:
    """The numbers around one study."""
    table, dims, batches = (
        editions.experiment_of(main, f"fehervari2019{name}") for name in ("", "-dims", "-batches-equal")
    )
    values = of_metric(headline(table), "precision_at_1")
    trained = values.drop([PRETRAINED, FLOATS]).astype(float)
    told = statistics.by_luck_of_seeds(trained)["among_best"]
    at_64 = sweep(dims).set_index("method")
    ranks = common.ranks(
        at_64[at_64["number"] == common.settings(table, "triplet_semihard")["embedding_dim"]], "proxy_softmax"
    )
    sizes, images = common.doublings(_of_setting(dims)), common.doublings(_of_setting(batches))
    [curve] = starts.around({main: dims}).values()
    above, of = starts.sizes_above(curve, dims)
    return {
        **{"among_best": ", ".join(sorted(told.index[told])), "best": trained["mean"].idxmax()},
        "above": ", ".join(sorted(trained.index[trained["mean"] >= values["mean"][PRETRAINED]])),
        **{"floats_low": ranks.low, "floats_high": ranks.high, "methods": ranks.of},
        **{"dims_gain": int((sizes["mean"] > sizes["ci95"]).sum()), "sizes_above": above, "sizes": of},
        **{"untrained_low": 100 * float(curve.iloc[0]), "untrained_high": 100 * float(curve.iloc[-1])},
        "batches_gain": int((images["mean"] > images["ci95"]).sum()),
        "batches_lose": ", ".join(images.index[images["mean"] < -images["ci95"]]),
        "pairs": 100 * with_a_pair(table.meta["data"]["classes"] // 2, 4),
    }


def with_a_pair(classes: int, images: int) -> float:
    """Of batches of random images, of classes of equal size, how many hold two of one class.

    >>> with_a_pair(365, 23)  # people with birthdays
    0.5072972343239854
    """
    return 1 - math.prod(1 - place / classes for place in range(images))


def fehervari_scalars(by_study: ByStudy) -> dict[str, float | str]:
    """The named numbers that the chapter records."""
    recorded: dict[str, float | str] = {"published_cells": len(published.fehervari_results())}
    for name, frame in places(by_study).items():
        values = of_metric(frame, "precision_at_1")["mean"] if name in by_study else pd.Series(dtype=float)
        if len(values):
            recorded |= {f"{name}.best_method": values.idxmax(), f"{name}.best_r1": float(values.max())}
    return recorded
