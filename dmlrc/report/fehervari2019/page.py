"""The tables and figures of Fehervari et al. 2019, Unbiased Evaluation of Deep Metric Learning Algorithms.

Experiments: fehervari2019 (Tables 2-4), fehervari2019/dims (Fig. 1) and fehervari2019/batches (Fig. 2).
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dmlrc.papers import fehervari2019
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import claims, common, editions, labels, published, starts, statistics, tables, titles
from dmlrc.report.common import R1, ByStudy
from dmlrc.report.results_table import with_foot

ORDER = tuple(published.fehervari_settings()["method"])
"""The methods in the order of the paper's tables."""
LABELS = {method.name: method.label for method in fehervari2019.METHODS} | {PRETRAINED: labels.UNTRAINED}
DATASETS = {"t2": "CUB200", "t3": "Cars196", "t4": "SOP"}
SHOWN = (R1, "nmi")
"""The metrics that the page shows; the downloads have all."""
FLOATS = "proxy_softmax, floats"
"""ProxySoftmax before its embeddings become bits; the paper has no such row."""
OF_ANOTHER_SIZE = ("dreml", "proxy_softmax")
"""An ensemble of twelve models, and 2048 bits, beside embeddings of 64 numbers."""
REPORTED = "reported, "
"""What stands before a data set where the order is that of the original papers."""


def fehervari_label(method: str) -> str:
    """A method as the paper prints it."""
    return f"{LABELS['proxy_softmax']}, floats" if method == FLOATS else LABELS.get(method, method)


def headline(records: StudyRecords) -> pd.DataFrame:
    """Our table: method, metric, mean, ci95, n; of dreml the ensemble, of proxy_softmax bits, and its `FLOATS`."""
    frame = common.over_seeds(records)
    settings = frame["method"].map({"proxy_softmax": "separated_binary", "dreml": "concatenated"}).fillna("separated")
    floats = frame[(frame["method"] == "proxy_softmax") & (frame["setting"] == "separated")].assign(method=FLOATS)
    chosen = pd.concat([frame[frame["setting"] == settings], floats], ignore_index=True)
    return chosen[["method", "metric", "mean", "ci95", "n"]]


def by_trunk(dataset: str) -> dict[str, pd.DataFrame]:
    """The paper's table of a data set: trunk -> `published.fehervari_results`; DREML's ResNet18 is with ResNet50."""
    frame = published.fehervari_results()
    frame = frame[frame["dataset"] == dataset]
    return dict(list(frame.groupby(frame["trunk"].replace("resnet18", "resnet50"), sort=False)))


def of_metric(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """mean, ci95 and n of one metric of ours, indexed by method."""
    return frame[frame["metric"] == metric].set_index("method")[["mean", "ci95", "n"]]


def originals(dataset: str) -> pd.Series:
    """R@1 that the original papers claim on a data set, as this paper prints it, indexed by method."""
    frame = published.fehervari_results()
    rows = frame[(frame["dataset"] == dataset) & frame["reported_r1"].notna()]
    return rows.drop_duplicates("method").set_index("method")["reported_r1"]


# The tables


def original_settings(by_study: ByStudy) -> pd.DataFrame:
    """fehervari-t1, cells: what the original papers trained with, and the embedding size of our rows."""
    table = published.fehervari_settings().set_index("method")
    own = {
        name: [common.absence(records, method) or _size(common.protocol_of(records, method)) for method in table.index]
        for name, records in by_study.items()
    }
    if len(set(map(tuple, own.values()))) == 1:
        own = {"ours": next(iter(own.values()))}
    cells = {"trunk": table["feature_extractor"].map(titles.TRUNKS)}
    cells["embedding"] = table["embedding_size"].str.replace("x", " x ").fillna("–")
    cells["R@1, CUB200"] = table["reported_r1"].map(labels.one_digit).replace("", "–")
    cells["normalised"] = table["normalize_last_layer"].map({True: "yes", False: "no"})
    return pd.DataFrame(cells).assign(**own).rename(index=fehervari_label).rename_axis("Method")


def trunk_and_size(records: StudyRecords, method: str) -> str:
    """The trunk and the embedding size of a method, with the members of an ensemble: "BN-Inception, 12 x 12"."""
    own = common.protocol_of(records, method)
    return f"{titles.TRUNKS.get(own['trunk'], own['trunk'])}, {_size(own)}"


def _size(own: Mapping) -> str:
    members = f"{own['members']} x " if own["members"] > 1 else ""
    return f"{members}{own['embedding_dim']}"


def compare_with_paper(dataset: str, by_study: ByStudy, metrics: Sequence[str] = SHOWN) -> pd.DataFrame:
    """fehervari-t2 to t4: R@1 and NMI (metrics) of ours, then what the original papers report, then the paper's table.

    Cells that are taken for slips do not compete, nor do the rows that the paper does not have. Ranks stand behind R@1.
    """

    def rows(records: StudyRecords) -> pd.DataFrame:
        empty = (common.empty_rows(records).assign(metric=metric) for metric in metrics)
        scores = pd.concat([headline(records), *empty])
        scores["head"] = scores["metric"].map(common.metric_label)
        return scores[scores["metric"].isin(metrics)]

    reported = originals(dataset).rename("mean").rename_axis("method").reset_index()
    blocks = [common.ours(by_study, rows)]
    if R1 in metrics:
        blocks.append(common.under(reported, "originally reported", "R@1"))
    for trunk, frame in by_trunk(dataset).items():
        signs = np.where(frame["doubtful"], "‡", np.where(frame["plotted"].notna(), "†", ""))
        form = ".1%" if dataset == "CUB200" else ".2%"
        theirs = frame.rename(columns={"value": "mean"}).assign(note=signs, form=form)
        for metric in metrics:
            heading = f"the paper, {titles.TRUNKS[trunk]}", common.metric_label(metric)
            blocks.append(common.under(theirs[theirs["metric"] == metric], *heading))
    scores = common.with_ranks(pd.concat(blocks), [PRETRAINED, FLOATS])
    scores.loc[scores["doubtful"].eq(True), "among_best"] = np.nan
    scores.loc[scores["metric"] == "nmi", ["rank_low", "rank_high"]] = np.nan
    order = [*ORDER, *(method for method in (PRETRAINED, FLOATS) if method in set(scores["method"]))]
    scores = scores.assign(row=common.in_order(scores["method"], order, fehervari_label))
    return with_foot(scores, untrained=(labels.UNTRAINED, fehervari_label(FLOATS)))


# How the tables agree


def by_table(by_study: ByStudy) -> dict[str, pd.Series]:
    """R@1 by method, of every table of results by its heading, the paper's four and then ours; without slips."""
    tables = {}
    for dataset in DATASETS.values():
        for trunk, frame in by_trunk(dataset).items():
            rows = frame[~frame["doubtful"] & (frame["metric"] == R1)]
            tables[f"{dataset} ({titles.TRUNKS[trunk]})"] = rows.set_index("method")["value"]
    ours = {name: of_metric(headline(records), R1)["mean"] for name, records in by_study.items()}
    return tables | {name: values.drop([FLOATS, PRETRAINED], errors="ignore") for name, values in ours.items()}


def orders(by_study: ByStudy) -> pd.DataFrame:
    """Spearman's rank correlation between each table (`by_table`) and each of the paper: first, second, rho, p, n.

    second: or "reported, <data set>", the originally reported R@1. Without methods of another embedding size, which
    would make the first and last places alike.
    """
    columns = {name: values.drop(list(OF_ANOTHER_SIZE), errors="ignore") for name, values in by_table(by_study).items()}
    reference = {f"{REPORTED}{dataset}": originals(dataset) for dataset in DATASETS.values()}
    reference |= {name: values for name, values in columns.items() if name not in by_study}
    pairs = [(first, second) for first in columns for second in reference if first != second]
    tests = [statistics.rank_test(columns[first], reference[second]) for first, second in pairs]
    return pd.concat([pd.DataFrame(pairs, columns=["first", "second"]), pd.DataFrame(tests)], axis=1)


def order_correlations(frame: pd.DataFrame) -> pd.DataFrame:
    """fehervari-order: rho and the number of methods; a row a table, a column what it is compared with."""
    firsts = frame["first"].unique()
    seconds = sorted(frame["second"].unique(), key=lambda name: [-1, *firsts].index(name) if name in firsts else 0)
    notes = frame["n"].map(" ({})".format)
    column = pd.Categorical(frame["second"], seconds)
    return frame.assign(row=frame["first"], column=column, mean=frame["rho"], note=notes, form="+.2f")


# The figures


def compare_sweep(by_study: ByStudy) -> pd.DataFrame:
    """The numbers of fehervari-f1 and f2: a row a study and method, a column a number; then points a doubling."""

    def rows(records: StudyRecords) -> pd.DataFrame:
        frame = common.sweep(records)
        every = pd.DataFrame({"number": frame["number"].unique()}).merge(common.trunk_row(records), how="cross")
        slopes = common.doublings(records).rename_axis("method").reset_index().assign(form="+.1%")
        scores = pd.concat([frame, every, slopes])
        return scores.sort_values("method", key=lambda methods: methods.map([*ORDER, PRETRAINED].index))

    scores = common.ours(by_study, rows)
    if scores.empty:
        return scores
    columns = scores["number"].map("{:g}".format).replace("nan", "a doubling")
    order = [*map("{:g}".format, sorted(scores["number"].dropna().unique())), "a doubling"]
    names = list(zip(scores["source"], scores["method"].map(fehervari_label), strict=True))
    return scores.assign(row=names, column=pd.Categorical(columns, order))


# The numbers of the text


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """The numbers behind the page's text: `common.numbers`, those of the paper's own tables and of the orders."""
    judged = claims.judge_all(edition, "fehervari")
    by_study = editions.records_around(edition, "fehervari2019")
    named = common.numbers(edition, judged, _of_study, ("pairs", "batches_gain"))
    named["withdrawn_for_size"] = sum(claim.for_size for claim in claims.of_section("fehervari"))
    return named | _of_paper() | _of_orders(edition, orders(by_study))


def _of_paper() -> dict[str, float | str]:
    """The numbers of the paper's own tables; "own_": how alike the orders of these are."""
    printed, table = by_table({})["CUB200 (BN-Inception)"], published.fehervari_settings()
    gained = (printed - originals("CUB200")).dropna()
    own = orders({})
    own = own["rho"][~own["second"].str.startswith(REPORTED)]
    return {
        **{"paper.higher": int((gained > 0).sum()), "paper.compared": len(gained), "paper.fallen": gained.idxmin()},
        "paper.fall": -100 * gained.min(),
        **{"paper.trunks": table["feature_extractor"].nunique(), "paper.sizes": table["embedding_size"].nunique()},
        **{"paper.reported": int(table["reported_r1"].notna().sum())},
        **{"paper.own_low": float(own.min()), "paper.own_high": float(own.max())},
        "paper.semihard": f"{printed.rank(ascending=False)['triplet_semihard']:g} of {len(printed)}",
    }


def _of_orders(edition: Sequence[StudyRecords], frame: pd.DataFrame) -> dict[str, float]:
    """Agreement of our orders with those that the original papers report, and with the paper's own. frame: `orders`."""
    named = {}
    ours = frame[frame["first"].isin([study.name for study in edition])].dropna(subset="rho")
    reported = ours["second"].str.startswith(REPORTED)
    for name, rows in {"reported": ours[reported], "in_paper": ours[~reported]}.items():
        means = rows.groupby("first")["rho"].mean()
        named |= {f"{name}_low": float(rows["rho"].min()), f"{name}_high": float(rows["rho"].max())}
        named |= {f"{study.meta['dataset']}.{name}": float(means[study.name]) for study in edition}
    sure = statistics.holm(ours["p"]) < 1 - statistics.LEVEL
    return named | {"orders": len(ours), "sure": int(sure.sum()), "fewest": ours["n"].min(), "most": ours["n"].max()}


def _of_study(main: str) -> dict[str, float | str]:
    """The numbers around one study."""
    suffixes = "", "/dims", "/batches-equal"
    table, dims, batches = (editions.experiment_of(main, f"fehervari2019{suffix}") for suffix in suffixes)
    values = of_metric(headline(table), R1)
    trained = values.drop([PRETRAINED, FLOATS])
    tied = statistics.by_luck_of_seeds(trained)["among_best"]
    floats = common.sweep(dims).set_index("method")
    floats = floats[floats["number"] == common.protocol_of(table, "triplet_semihard")["embedding_dim"]]
    low, high, methods = common.ranks_of(floats, "proxy_softmax")
    sizes, images = common.doublings(dims), common.doublings(batches)
    [curve] = starts.curves_by_dimension({main: dims}).values()
    above, of = starts.sizes_above(curve, dims)
    return {
        "among_best": ", ".join(sorted(tied.index[tied])),
        "lift": 100 * tables.lift(values["mean"].drop(FLOATS)),
        "above": ", ".join(sorted(trained.index[trained["mean"] >= values["mean"][PRETRAINED]])),
        **{"floats_low": low, "floats_high": high, "methods": methods},
        **{"dims_gain": int((sizes["mean"] > sizes["ci95"]).sum()), "sizes_above": above, "sizes": of},
        **{"untrained_low": 100 * float(curve.iloc[0]), "untrained_high": 100 * float(curve.iloc[-1])},
        "batches_gain": int((images["mean"] > images["ci95"]).sum()),
        "batches_lose": ", ".join(images.index[images["mean"] < -images["ci95"]]),
        "pairs": 100 * with_a_pair(table.meta["data"]["classes"] // 2, 4),
    }


def with_a_pair(classes: int, images: int) -> float:
    """The share of batches of random images, from large classes of equal size, that hold two of one class.

    >>> with_a_pair(365, 23)  # people with birthdays
    0.5072972343239854
    """
    return 1 - math.prod(1 - place / classes for place in range(images))
