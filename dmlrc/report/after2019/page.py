"""The losses after 2019 beside the fourteen of the Reality Check: identities, claims over the years, our own results.

Experiment: after2019, under the protocol and budget of the main study it stands beside.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from dmlrc import losses
from dmlrc.papers import after2019
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import editions, labels, published, statistics, tables
from dmlrc.report.findings.training import Loss, loss_change
from dmlrc.report.musgrave2020 import page as musgrave
from dmlrc.report.results_table import results_table
from dmlrc.report.significance import measures as significance

METHODS = {method.name: method for method in after2019.METHODS}
SINCE = 2020
ONE_FUNCTION = ("proxy_nca", "normalized_softmax", "proxy_nca_pp")
"""Rows that are one function of embeddings and class vectors; see `identities`."""
SAME = 1e-9
"""Gradients that lie this near, relatively, in float64, are those of one function."""
DESCRIPTIONS = {
    "proxy_anchor": "every class vector against all images of the batch, by soft maxima; a sibling of MS with one "
    "learned anchor a class",
    "circle": "softplus over positives and negatives, each pair weighted by its distance from its optimum",
    "supcon": "cross-entropy against all other images of the batch, averaged over the positives; NTXent with 2 "
    "images a class",
    "proxy_nca_pp": "N. Softmax at a temperature of 1/18; ProxyNCA with a scale of 9",
    "smooth_ap": "average precision in the batch, with sigmoids for steps; FastAP has soft histograms",
    "recall_at_k": "recall at k in the batch, averaged over k, with sigmoids for both steps",
}
TRUNKS = ("GoogLeNet", "BN-Inception", "ResNet50", "ResNet50, 2048-d", "ViT", "other")
"""The trunks that claims are kept apart by; those of "other" have no trend."""
PROXY_NCA_PP = ("ProxyNCA++, T = 1/9", "proxy_nca_pp", {})
SUPCON = ("SupCon, T = 0.1", "supcon", {"temperature": 0.1})
NTXENT = ("NTXent, T = 0.1", "ntxent", {"temperature": 0.1})
IDENTITIES = (
    (PROXY_NCA_PP, ("N. Softmax, T = 1/18", "normalized_softmax", {"temperature": 1 / 18}), 4),
    (PROXY_NCA_PP, ("ProxyNCA, scale 9", "proxy_nca", {"softmax_scale": 9}), 4),
    (SUPCON, NTXENT, 2),
    (PROXY_NCA_PP, ("N. Softmax, T = 0.05", "normalized_softmax", {"temperature": 0.05}), 4),
    (SUPCON, NTXENT, 4),
)
"""Two losses, and the images of a class in the batch; the last two are counter-examples: another temperature, and more
than two images a class."""


def with_later_losses(edition: Sequence[StudyRecords]) -> dict[str, StudyRecords]:
    """The studies of an edition by name, each joined with the losses after 2019 beside it, where these were run."""
    return {main.name: join_later_losses(main, editions.experiment_of(main.name, "after2019")) for main in edition}


# What they are


def later_methods() -> pd.DataFrame:
    """The losses, indexed by method: year, kind, batch, what they are, what our search varies."""
    table = tables.method_facts(METHODS).assign(**{"what it is": pd.Series(DESCRIPTIONS)})
    searched = table.pop("searched").map(labels.parameters)
    return table.assign(searched=searched)


def identities(seed: int = 0) -> pd.DataFrame:
    """Pairs of losses on one random batch, float64: loss, other, batch, value, value_other, gradient.

    gradient: the largest difference of the two gradients for an embedding, relative to the largest entry.
    """
    rows = []
    for (first, *ours), (second, *theirs), images in IDENTITIES:
        (one, batch), (other, _) = (_on_a_batch(*side, images, seed) for side in (ours, theirs))
        change = loss_change(other, one, batch)
        numbers = change["second"], change["first"], change["gradient"]
        rows.append((first, second, f"{32 // images} x {images}", *numbers))
    return pd.DataFrame(rows, columns=["loss", "other", "batch", "value", "value_other", "gradient"])


def _on_a_batch(name: str, params: Mapping[str, float], images: int, seed: int) -> tuple[Loss, torch.Tensor]:
    """A loss of 32 random images of 16 dimensions, and their embeddings; class vectors are the same for all losses."""
    generator = torch.Generator().manual_seed(seed)
    raw = torch.randn(32, 16, generator=generator, dtype=torch.float64)
    labels = torch.arange(32) // images
    loss = losses.create(name, num_classes=32 // images, embedding_dim=16, **params).double()
    for weights in loss.parameters():
        directions = torch.randn(32 // images, 16, generator=generator, dtype=torch.float64)
        weights.data = directions if weights.shape == directions.shape else directions.T
    return lambda embeddings: loss(embeddings, labels), F.normalize(raw)


def identity_cells(table: pd.DataFrame) -> pd.DataFrame:
    """`identities` as cells."""
    apart = table["gradient"].map(lambda apart: "0" if apart < SAME else f"{100 * apart:.0f} %")
    values = table.assign(gradient=apart, **table[["value", "value_other"]].map("{:.6f}".format))
    heads = {"other": "against", "value": "its value", "value_other": "the other's", "gradient": "gradients apart"}
    return values.set_index("loss")[["other", "gradient", "value", "value_other", "batch"]].rename(columns=heads)


# What papers claim


def claims_with_trunks() -> pd.DataFrame:
    """The headline rows of papers of all years, as `published.claims`, and trunk: one of `TRUNKS`."""
    both = pd.concat([published.claims(), published.claims_after_2019()], ignore_index=True)
    headline = both[both["primary"] & (both["role"] == "proposed")]
    kinds = [_trunk_group(*pair) for pair in zip(headline["backbone"], headline["dim"], strict=True)]
    return headline.assign(trunk=kinds).reset_index(drop=True)


def _trunk_group(backbone: str, dim: float) -> str:
    """The group of a backbone as the papers name it: ResNet50 is two, by the size of the embedding.

    >>> trunks = ("GoogLeNet + attention", 512), ("ResNet50", 2048), ("ViT-S/16", 384), ("Inception", 64)
    >>> tuple(_trunk_group(*trunk) for trunk in trunks)
    ('GoogLeNet', 'ResNet50, 2048-d', 'ViT', 'other')
    """
    if backbone == "ResNet50" and dim > 512:
        return "ResNet50, 2048-d"
    families = {"GoogLeNet": "GoogLeNet", "Inception v1": "GoogLeNet", "ViT": "ViT", "DeiT": "ViT"}
    families |= {"BN-Inception": "BN-Inception", "ResNet50": "ResNet50"}
    return next((family for start, family in families.items() if backbone.startswith(start)), "other")


def claimed_trends(table: pd.DataFrame) -> pd.DataFrame:
    """The trend of claims within a trunk, and over all: dataset, trunk, years ("all" or "since 2020"), slope, ci95, n.

    table: `claims_with_trunks`. slope: fraction a year, see `statistics.slope`. Only groups that `has_trend`.
    """
    rows = []
    for years, part in (("all", table), (f"since {SINCE}", table[table["year"] >= SINCE])):
        for dataset, name in itertools.product(published.DATASETS, ("all trunks", *TRUNKS[:-1])):
            group = part[(part["dataset"] == dataset) & (part["trunk"].eq(name) | (name == "all trunks"))]
            if has_trend(group):
                trend = statistics.slope(group["year"], group["r1"])
                rows.append((dataset, name, years, trend.value, trend.half, trend.n))
    return pd.DataFrame(rows, columns=["dataset", "trunk", "years", "slope", "ci95", "n"])


def has_trend(table: pd.DataFrame) -> bool:
    """True if a line through these claims says anything: at least 4 points, from at least 3 years."""
    return len(table) > 3 and table["year"].nunique() > 2


def trend_cells(table: pd.DataFrame) -> pd.DataFrame:
    """`claimed_trends` as cells: a row a data set and trunk, points a year for all years and since 2020."""
    slopes = table.sort_values("dataset", key=lambda names: names.map(published.DATASETS.index), kind="stable")
    slopes = slopes.rename(columns={"slope": "mean", "ci95": "half"})
    shown = {
        "row": list(zip(slopes["dataset"], slopes["trunk"], strict=True)),
        "column": "points a year, " + slopes["years"].replace("all", "all years"),
        "note": slopes["n"].map(" ({})".format),
    }
    return results_table(slopes.assign(form="+.2%", **shown))[0].rename_axis(["data set", "trunk"])


def slopes(table: pd.DataFrame, trunk: str, years: str) -> pd.DataFrame:
    """Slope and ci95 by data set, of a trunk and span of `claimed_trends`."""
    return table[(table["trunk"] == trunk) & (table["years"] == years)].set_index("dataset")


def reruns_by_others() -> pd.DataFrame:
    """Losses that others trained, on ResNet50 at 512 dimensions: dataset, method, r1, claimed, by, note.

    claimed: by the loss's own paper or those that cite it, if read. The pipelines' baselines are among the rows.
    """
    table = published.claims_after_2019()
    table = table[(table["backbone"] == "ResNet50") & (table["dim"] == 512)]
    own = table[table["role"] == "proposed"].drop_duplicates(["method", "dataset"])
    own = own.set_index(["method", "dataset"])["r1"]
    theirs = table[table["role"].isin(["rerun", "contrastive_baseline", "triplet_baseline"])]
    theirs = theirs.join(own.rename("claimed"), on=["method", "dataset"]).rename(columns={"paper": "by"})
    chosen = theirs[["dataset", "method", "r1", "claimed", "by", "note"]]
    return chosen.sort_values(["dataset", "by", "r1"], ignore_index=True)


def rerun_cells(table: pd.DataFrame) -> pd.DataFrame:
    """`reruns_by_others` as cells."""
    ours = {_bare(method.label): method.label for method in after2019.KNOWN.values()}
    names = table["method"].map(lambda label: ours.get(_bare(label), label))
    cells = table.assign(method=names, **table[["r1", "claimed"]].map(labels.one_digit).replace("", "–"))
    heads = {"r1": "trained by others", "dataset": "data set", "by": "in the pipeline of"}
    return cells.rename(columns=heads).set_index(["data set", "method"])


def _bare(label: str) -> str:
    """A label without what papers set differently: spaces, hyphens and capitals.

    >>> _bare("Proxy-Anchor") == _bare("Proxy Anchor"), _bare("MS+Miner") == _bare("MS + miner")
    (True, True)
    """
    return "".join(label.replace("-", "").split()).lower()


# What we measure


@functools.lru_cache(maxsize=32)  # one object, of which `tables.accuracy` is computed once
def join_later_losses(main: StudyRecords, after: StudyRecords | None) -> StudyRecords:
    """The records of a main study with those of the losses after 2019: one protocol, one budget, one meta."""
    if after is None:
        return main

    def both(name: str, frame: pd.DataFrame) -> pd.DataFrame:
        joined = pd.concat([frame, getattr(after, name)], ignore_index=True)
        if name not in ("scores", "arrays"):  # where both studies have the pretrained row
            return joined
        return joined.drop_duplicates(list(joined.columns.difference(["value", "values"])), ignore_index=True)

    return main.changed(both)


def best_of_the_fourteen(records: StudyRecords) -> str | None:
    """The method of the Reality Check with the highest concatenated MAP@R in a study; None without any."""
    scores = tables.trained(tables.accuracy(records))["mean"]
    return scores[scores.index.isin(tables.METHODS)].idxmax() if scores.index.isin(tables.METHODS).any() else None


def methods_shown(records: StudyRecords) -> list[str]:
    """The methods in the table: the trunk, the two classics, the best of the fourteen, and the losses after 2019."""
    return list(dict.fromkeys(filter(None, [PRETRAINED, *tables.CLASSICS, best_of_the_fourteen(records), *METHODS])))


def accuracy_shown(records: StudyRecords) -> pd.DataFrame:
    """`tables.accuracy` of the `methods_shown`, in their order; older ones have the intervals of their own table."""
    names, keys = methods_shown(records), ["method", "setting", "metric"]
    frame, own = (tables.accuracy(some).set_index(keys) for some in (records, _older(records)))
    frame.update(own.filter(like="ci95"))
    frame = frame.loc[frame.index.isin(names, level="method")].reset_index()
    return frame.sort_values("method", key=lambda column: column.map(names.index), kind="stable", ignore_index=True)


@functools.lru_cache(maxsize=32)
def _older(records: StudyRecords) -> StudyRecords:
    """The main study's part of `join_later_losses`."""
    return records.changed(lambda _, frame: frame[~frame["method"].isin(METHODS)])


def later_results_cells(records: StudyRecords) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and the marks of the results table, as `musgrave.results_cells`; marks and ranks are among all rows."""
    state = tables.status(records, after2019.KNOWN).loc[[name for name in methods_shown(records) if name != PRETRAINED]]
    return musgrave.results_of(records, after2019.KNOWN, accuracy_shown(records), state)


def leads_over_best(records: StudyRecords) -> pd.DataFrame:
    """Leads over the best of the fourteen in concatenated MAP@R, by method: lead, low and high (95 %); its own is 0."""
    compared, best = significance.compare(records), best_of_the_fourteen(records)
    pairs = significance.both_ways(compared.pairs).rename(columns={"difference": "lead"})
    leads = pairs[pairs["b"] == best].set_index("a")[["lead", "low", "high"]]
    return leads.reindex(compared.methods).fillna({"lead": 0.0}).rename_axis("method")


def against_the_fourteen(records: StudyRecords) -> dict[str, float | str]:
    """The best loss after 2019 beside the best of the fourteen, in concatenated MAP@R; {} where one has no results.

    n: how many of the losses after 2019 have some; above, below: how many of these differ from the best of the fourteen
    by more than the 95 % interval of the difference.
    """
    scores, best = tables.trained(tables.accuracy(records))["mean"], best_of_the_fourteen(records)
    newer = scores[scores.index.isin(METHODS)]
    if newer.empty or best is None:
        return {}
    lead = leads_over_best(records).loc[newer.index]  # its ends are NaN where no luck is known: neither above nor below
    above, below = int((lead["low"] > 0).sum()), int((lead["high"] < 0).sum())
    named = {"best": float(newer.max()), "best_method": newer.idxmax(), "fourteen": float(scores[best])}
    return named | {"fourteen_method": best, "above": above, "below": below, "n": len(newer)}


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """The numbers behind the page's text, in points, a study by its data set; one_function: range of `ONE_FUNCTION`."""
    named = paper_numbers()
    for records in with_later_losses(edition).values():
        name, lead = records.meta["dataset"], against_the_fourteen(records)
        named |= {f"{name}.{key}": lead[key] for key in ("above", "below", "n", "fourteen_method")}
        precision = tables.by_method(tables.accuracy(records), "precision_at_1")["mean"]
        named[f"{name}.lift_precision"] = 100 * tables.lift(precision)
        later = precision.index.isin(METHODS)
        named[f"{name}.gap_precision"] = 100 * float(precision[~later].max() - precision[later].max())
        named[f"{name}.gap"] = 100 * (lead["fourteen"] - lead["best"])
        frame = tables.deciding(tables.accuracy(records))
        twins = frame.set_index("method")["mean"].reindex(ONE_FUNCTION).dropna()
        named[f"{name}.one_function"] = 100 * float(np.ptp(twins))
        tied = {*frame["method"][tables.marks(frame) != ""]} & {*METHODS}
        named[f"{name}.tied"] = ", ".join(sorted(tied))
    spans = [value for key, value in named.items() if key.endswith(".one_function")]
    return named | {"one_function.low": min(spans), "one_function.high": max(spans)}


def paper_numbers() -> dict[str, float | str]:
    """The part of `numbers` that is of no study: slopes of claims, reruns by others, identities."""
    trends, compared = claimed_trends(claims_with_trunks()), reruns_by_others().dropna(subset=["claimed"])
    every, within = slopes(trends, "all trunks", "all"), slopes(trends, "ResNet50", f"since {SINCE}")
    change, apart = 100 * (compared["r1"] - compared["claimed"]), identities()["gradient"]
    return {
        "claims.low": 100 * every["slope"].min(),
        "claims.high": 100 * every["slope"].max(),
        "resnet50.low": 100 * within["slope"].min(),
        "resnet50.high": 100 * within["slope"].max(),
        "resnet50.rising": ", ".join(within.index[within["slope"] > within["ci95"]]),
        "reruns.n": len(compared),
        "reruns.below": int((change < 0).sum()),
        "reruns.change": change.mean(),
        "identities": int((apart < SAME).sum()),
    }
