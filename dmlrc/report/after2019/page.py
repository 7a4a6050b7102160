"""The losses after 2019 beside the fourteen of the Reality Check: identities, claims over the years, our own results.

Experiment: after2019, under the protocol and budget of the main study it stands beside.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from dmlrc import losses
from dmlrc.papers import after2019
from dmlrc.records import FRAMES, PRETRAINED, StudyRecords
from dmlrc.report import editions, labels, published, statistics, tables
from dmlrc.report.musgrave2020 import page as musgrave

METHODS = {method.name: method for method in after2019.METHODS}
SINCE = 2020
ONE_FUNCTION = ("proxy_nca", "normalized_softmax", "proxy_nca_pp")
"""Rows that are one function of embeddings and class vectors; see `identities`."""
SAME = 1e-9
"""Gradients that lie this near, relatively, in float64, are those of one function."""
WHAT = {
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
"""The trunks that claims are kept apart by."""


def after2019_label(method: str) -> str:
    """A method's name as printed."""
    return METHODS[method].label if method in METHODS else labels.method_label(method)


Pair = tuple[StudyRecords, StudyRecords | None]
"""A main study, and the losses after 2019 beside it, None where they were not run."""


def pairs(edition: Sequence[StudyRecords]) -> dict[str, Pair]:
    """The studies of an edition by name, each with its losses after 2019."""
    return {main.name: (main, editions.experiment_of(main.name, "after2019")) for main in edition}


# What they are


def methods() -> pd.DataFrame:
    """The losses, indexed by method: year, kind, batch, what they are, what our search varies."""
    rows = {
        method.name: {
            "year": method.year,
            "kind": method.kind,
            "batch": f"{method.classes_per_batch} x {method.images_per_class}",
            "what it is": WHAT[method.name],
            "searched": ", ".join(map(labels.parameter, method.space)),
        }
        for method in METHODS.values()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def identities(seed: int = 0) -> pd.DataFrame:
    """Pairs of losses on one random batch, float64: columns loss, other, batch, value, value_other, gradient.

    gradient: the largest difference of the two gradients for an embedding, relative to the largest entry. The last two
    rows are counter-examples: another temperature, and more than two images a class.
    """
    pairs = (
        (
            ("ProxyNCA++, T = 1/9", "proxy_nca_pp", {}),
            ("N. Softmax, T = 1/18", "normalized_softmax", {"temperature": 1 / 18}),
            4,
        ),
        (("ProxyNCA++, T = 1/9", "proxy_nca_pp", {}), ("ProxyNCA, scale 9", "proxy_nca", {"softmax_scale": 9}), 4),
        (
            ("SupCon, T = 0.1", "supcon", {"temperature": 0.1}),
            ("NTXent, T = 0.1", "ntxent", {"temperature": 0.1}),
            2,
        ),
        (
            ("ProxyNCA++, T = 1/9", "proxy_nca_pp", {}),
            ("N. Softmax, T = 0.05", "normalized_softmax", {"temperature": 0.05}),
            4,
        ),
        (
            ("SupCon, T = 0.1", "supcon", {"temperature": 0.1}),
            ("NTXent, T = 0.1", "ntxent", {"temperature": 0.1}),
            4,
        ),
    )
    rows = []
    for (first, *ours), (second, *theirs), images in pairs:
        value, gradient = _scored(*ours, images, seed)
        other, other_gradient = _scored(*theirs, images, seed)
        apart = float((gradient - other_gradient).abs().max() / other_gradient.abs().max())
        rows.append((first, second, f"{32 // images} x {images}", value, other, apart))
    return pd.DataFrame(rows, columns=["loss", "other", "batch", "value", "value_other", "gradient"])


def _scored(name: str, params: Mapping[str, float], images: int, seed: int) -> tuple[float, torch.Tensor]:
    """A loss and its gradient for a batch of 32 random images of 16 dimensions; class vectors are the same for all."""
    generator = torch.Generator().manual_seed(seed)
    raw = torch.randn(32, 16, generator=generator, dtype=torch.float64)
    embeddings = F.normalize(raw).requires_grad_()
    labels = torch.arange(32) // images
    loss = losses.create(name, num_classes=32 // images, embedding_dim=16, **params).double()
    for weights in loss.parameters():
        directions = torch.randn(32 // images, 16, generator=generator, dtype=torch.float64)
        weights.data = directions if weights.shape == directions.shape else directions.T
    value = loss(embeddings, labels)
    (gradient,) = torch.autograd.grad(value, embeddings)
    return value.item(), gradient


def identity_cells(table: pd.DataFrame) -> pd.DataFrame:
    """`identities` as cells."""
    return pd.DataFrame(
        {
            "loss": table["loss"],
            "beside": table["other"],
            "batch": table["batch"],
            "its value": table["value"].map("{:.6f}".format),
            "the other's": table["value_other"].map("{:.6f}".format),
            "gradients apart": table["gradient"].map(lambda apart: "0" if apart < SAME else f"{100 * apart:.0f} %"),
        }
    ).set_index("loss")


# What papers claim


def claims() -> pd.DataFrame:
    """The headline rows of papers of all years, as `published.claims`, and trunk: one of `TRUNKS`."""
    both = pd.concat([published.claims(), published.claims_after_2019()], ignore_index=True)
    headline = both[both["primary"] & (both["role"] == "proposed")]
    kinds = [trunk(*pair) for pair in zip(headline["backbone"], headline["dim"], strict=True)]
    return headline.assign(trunk=kinds).reset_index(drop=True)


def trunk(backbone: str, dim: float) -> str:
    """The group of a backbone as the papers name it: ResNet50 is two, by the size of the embedding.

    >>> trunk("GoogLeNet + attention", 512), trunk("ResNet50", 2048), trunk("ViT-S/16", 384), trunk("Inception", 64)
    ('GoogLeNet', 'ResNet50, 2048-d', 'ViT', 'other')
    """
    if backbone == "ResNet50" and dim > 512:
        return "ResNet50, 2048-d"
    families = {"GoogLeNet": "GoogLeNet", "Inception v1": "GoogLeNet", "ViT": "ViT", "DeiT": "ViT"}
    families |= {"BN-Inception": "BN-Inception", "ResNet50": "ResNet50"}
    return next((family for start, family in families.items() if backbone.startswith(start)), "other")


def claimed_trends(table: pd.DataFrame) -> pd.DataFrame:
    """The trend of claims within a trunk, and over all: dataset, trunk, years ("all" or "since 2020"), slope, ci95, n.

    table: `claims`. slope: fraction a year, see `statistics.slope`. Only groups that `has_trend`.
    """
    rows = []
    for years, part in (("all", table), (f"since {SINCE}", table[table["year"] >= SINCE])):
        for dataset in published.DATASETS:
            rows_of = part[part["dataset"] == dataset]
            groups = {"all trunks": rows_of} | dict(list(rows_of[rows_of["trunk"] != "other"].groupby("trunk")))
            for name in ("all trunks", *TRUNKS):
                group = groups.get(name)
                if group is not None and has_trend(group):
                    trend = statistics.slope(group["year"], group["r1"])
                    rows.append((dataset, name, years, trend.value, trend.half, trend.n))
    return pd.DataFrame(rows, columns=["dataset", "trunk", "years", "slope", "ci95", "n"])


def has_trend(table: pd.DataFrame) -> bool:
    """Whether a line through these claims says anything: 4 points, in 3 years."""
    return len(table) > 3 and table["year"].nunique() > 2


def trend_cells(table: pd.DataFrame) -> pd.DataFrame:
    """`claimed_trends` as cells: a row a data set and trunk, points a year for all years and since 2020."""
    cells = [f"{_slope(row)} ({row['n']})" for row in table.to_dict("records")]
    wide = table.assign(cell=cells).pivot(index=["dataset", "trunk"], columns="years", values="cell")
    order = list(dict.fromkeys(zip(table["dataset"], table["trunk"], strict=True)))
    order = sorted(order, key=lambda key: list(published.DATASETS).index(key[0]))
    heads = {"all": "points a year, all years", f"since {SINCE}": f"points a year, since {SINCE}"}
    wide = wide.reindex(order).reindex(columns=list(heads)).rename(columns=heads)
    return wide.fillna("–").rename_axis(["data set", "trunk"]).rename_axis(None, axis=1)


def slopes(table: pd.DataFrame, trunk: str, years: str) -> dict[str, dict]:
    """Data set -> slope and ci95, of a trunk and span of `claimed_trends`."""
    part = table[(table["trunk"] == trunk) & (table["years"] == years)]
    return {row["dataset"]: row for row in part.to_dict("records")}


def _slope(row: Mapping[str, float]) -> str:
    return f"{labels.signed(row['slope'], 2, '')} ± {100 * row['ci95']:.2f}"


def reruns() -> pd.DataFrame:
    """Losses that others trained, on ResNet50 at 512 dimensions: dataset, method, r1, claimed, by, note.

    claimed: by the loss's own paper or those that cite it, with that trunk and size, where a row was read; else NaN.
    The baselines of these pipelines are among the rows.
    """
    table = published.claims_after_2019()
    table = table[(table["backbone"] == "ResNet50") & (table["dim"] == 512)]
    own = table[table["role"] == "proposed"].drop_duplicates(["method", "dataset"])
    own = own.set_index(["method", "dataset"])["r1"]
    theirs = table[table["role"].isin(["rerun", "contrastive_baseline", "triplet_baseline"])]
    theirs = theirs[~theirs["note"].str.contains("who ran it is not said", na=False)]
    claimed = [own.get(key, np.nan) for key in zip(theirs["method"], theirs["dataset"], strict=True)]
    chosen = theirs.assign(claimed=claimed, by=theirs["paper"])[["dataset", "method", "r1", "claimed", "by", "note"]]
    return chosen.sort_values(["dataset", "by", "r1"], ignore_index=True)


def rerun_cells(table: pd.DataFrame) -> pd.DataFrame:
    """`reruns` as cells."""
    ours = {_bare(method.label): method.label for method in (*METHODS.values(), *tables.METHODS.values())}
    cells = table.assign(
        method=table["method"].map(lambda label: ours.get(_bare(label), label)),
        r1=table["r1"].map(labels.one_digit),
        claimed=table["claimed"].map(labels.one_digit).replace("", "–"),
    )
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
def joined(main: StudyRecords, after: StudyRecords | None) -> StudyRecords:
    """The records of a main study with those of the losses after 2019: one protocol, one budget, one meta."""
    if after is None:
        return main
    frames = {name: pd.concat([getattr(main, name), getattr(after, name)], ignore_index=True) for name in FRAMES}
    for name in ("scores", "arrays"):  # both studies have the pretrained row
        frames[name] = frames[name].drop_duplicates(
            [column for column in frames[name].columns if column not in ("value", "values")], ignore_index=True
        )
    return replace(main, **frames)


def best_of_the_fourteen(main: StudyRecords) -> str | None:
    """The method of the Reality Check with the highest concatenated MAP@R in a study; None without any."""
    return tables.spread(tables.accuracy(main)).get("best_method")


def rows(main: StudyRecords) -> list[str]:
    """What stands in the table: the trunk, the two classics, the best of the fourteen, and the losses after 2019."""
    best = best_of_the_fourteen(main)
    return list(dict.fromkeys([PRETRAINED, *tables.CLASSICS, *([best] if best else []), *METHODS]))


def accuracy(main: StudyRecords, after: StudyRecords | None) -> pd.DataFrame:
    """`tables.accuracy` of `rows`, in their order."""
    names = rows(main)
    frame = tables.accuracy(joined(main, after))
    frame = frame[frame["method"].isin(names)]
    return frame.sort_values("method", key=lambda column: column.map(names.index), kind="stable", ignore_index=True)


def status(main: StudyRecords, after: StudyRecords | None) -> pd.DataFrame:
    """`tables.status` of `rows` but the trunk; a loss of which nothing was run is "not run"."""
    everything = tables.status(joined(main, after))
    names = [name for name in rows(main) if name != PRETRAINED]
    none = dict.fromkeys(everything.columns, 0) | {"state": "not run", "cut_off": 0.0}
    return pd.DataFrame(
        [everything.loc[name] if name in everything.index else pd.Series(none) for name in names], index=names
    )


def results(main: StudyRecords, after: StudyRecords | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells and the marks of the results table, as `musgrave.results`; marks and ranks are among all rows."""
    pair = musgrave.results(accuracy(main, after), *labels.dimensions(main), status(main, after))
    for frame in pair:
        frame.index = frame.index.map(after2019_label)
    return pair


def measured_by_year(main: StudyRecords, after: StudyRecords | None) -> pd.DataFrame:
    """Concatenated P@1 at the year of each method, the fourteen and the losses after 2019: method, year, value."""
    older = tables.measured_by_year(tables.accuracy(main))
    older = older[~older["method"].isin(METHODS)]
    if after is None:
        return older
    frame = tables.accuracy(after)
    frame = frame[(frame["setting"] == "concatenated") & (frame["metric"] == "precision_at_1")]
    frame = frame[frame["method"].isin(METHODS)]
    newer = pd.DataFrame(
        {"method": frame["method"], "year": [METHODS[name].year for name in frame["method"]], "value": frame["mean"]}
    )
    return pd.concat([older, newer], ignore_index=True)


def _map_at_r(main: StudyRecords, after: StudyRecords | None) -> pd.DataFrame:
    """Concatenated MAP@R of all methods: columns mean, ci95, index method."""
    frame = tables.deciding(tables.accuracy(joined(main, after)))
    return frame.set_index("method")[["mean", "ci95"]].drop(index=PRETRAINED, errors="ignore")


def search_noise(main: StudyRecords, after: StudyRecords | None) -> pd.Series:
    """Concatenated MAP@R of the rows that are one function (`ONE_FUNCTION`), as far as they have results."""
    means = _map_at_r(main, after)["mean"]
    return means.reindex([name for name in ONE_FUNCTION if name in means.index])


def leads(main: StudyRecords, after: StudyRecords | None) -> pd.DataFrame:
    """What every method has over the best of the fourteen in concatenated MAP@R, by method: lead, half; fractions.

    half: of the 95 % interval of the difference, each loss by itself.
    """
    scores, best = _map_at_r(main, after), best_of_the_fourteen(main)
    if best is None:
        return pd.DataFrame(columns=["lead", "half"], dtype=float)
    return pd.DataFrame(
        {"lead": scores["mean"] - scores["mean"][best], "half": np.hypot(scores["ci95"], scores["ci95"][best])}
    )


def against_the_fourteen(main: StudyRecords, after: StudyRecords | None) -> dict[str, float | str]:
    """The best loss after 2019 beside the best of the fourteen, in concatenated MAP@R; {} where one has no results.

    Keys: best, best_method, fourteen, fourteen_method, contrastive (means; NaN without), older (how many of the
    fourteen have results), n (how many of the losses after 2019 have), above and below (how many of these differ from
    the best of the fourteen, above or below it, by more than the 95 % interval of the difference).
    """
    scores, best = _map_at_r(main, after), best_of_the_fourteen(main)
    newer = scores[scores.index.isin(METHODS)]
    if newer.empty or best is None:
        return {}
    lead = leads(main, after).loc[newer.index]  # its half is NaN where no luck is known: neither above nor below
    return {
        "best": float(newer["mean"].max()),
        "best_method": newer["mean"].idxmax(),
        "fourteen": float(scores["mean"][best]),
        "fourteen_method": best,
        "contrastive": float(scores["mean"].get("contrastive", np.nan)),
        "older": int((~scores.index.isin(METHODS)).sum()),
        "above": int((lead["lead"] > lead["half"]).sum()),
        "below": int((lead["lead"] < -lead["half"]).sum()),
        "n": len(newer),
    }


def absent(edition: Mapping[str, Pair]) -> str:
    """Around which main studies the losses after 2019 have no results; "" where all have some. edition: by name."""
    missing = {name: after for name, (main, after) in edition.items() if not against_the_fourteen(main, after)}
    return " ".join(f"On `{name}` {_absent(after)}." for name, after in missing.items())


def _absent(after: StudyRecords | None) -> str:
    if after is None or after.trials.empty:
        return "the losses after 2019 were not run"
    return f"the losses after 2019 are being searched ({len(after.trials):,} trials so far), and none has a result yet"


def after2019_scalars(main: StudyRecords, after: StudyRecords | None) -> dict[str, float | str]:
    """The named numbers of a study that the chapter records."""
    numbers = {name: value for name, value in against_the_fourteen(main, after).items() if value == value}
    noise = search_noise(main, after)
    return numbers | ({"one_function_range": float(noise.max() - noise.min())} if len(noise) > 1 else {})


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """What the text of the chapter rests on, in points; a study by its data set."""
    found = of_papers()
    for main, after in pairs(edition).values():
        name, lead = main.meta["dataset"], against_the_fourteen(main, after)
        one_function = search_noise(main, after)
        found |= {f"{name}.{key}": lead[key] for key in ("above", "below", "n", "fourteen_method")}
        found[f"{name}.gap"] = 100 * (lead["fourteen"] - lead["best"])
        found[f"{name}.one_function"] = 100 * (one_function.max() - one_function.min())
        found[f"{name}.tied"] = ", ".join(_tied(main, after))
    spans = [value for key, value in found.items() if key.endswith(".one_function")]
    return found | {"one_function.low": min(spans), "one_function.high": max(spans)}


def _tied(main: StudyRecords, after: StudyRecords | None) -> list[str]:
    """The losses after 2019 that tie with the best of all in concatenated MAP@R."""
    frame = tables.deciding(tables.accuracy(joined(main, after)))
    return sorted({*frame["method"][tables.marks(frame) != ""]} & {*METHODS})


def of_papers() -> dict[str, float | str]:
    """The part of `numbers` that is of no study: slopes of claims, reruns by others, identities."""
    trends, compared = claimed_trends(claims()), reruns().dropna(subset=["claimed"])
    every, within = slopes(trends, "all trunks", "all"), slopes(trends, "ResNet50", f"since {SINCE}")
    change, apart = 100 * (compared["r1"] - compared["claimed"]), identities()["gradient"]
    return {
        "claims.low": 100 * min(row["slope"] for row in every.values()),
        "claims.high": 100 * max(row["slope"] for row in every.values()),
        "resnet50.low": 100 * min(row["slope"] for row in within.values()),
        "resnet50.high": 100 * max(row["slope"] for row in within.values()),
        "resnet50.rising": ", ".join(name for name, row in within.items() if row["slope"] > row["ci95"]),
        "reruns.n": len(compared),
        "reruns.below": int((change < 0).sum()),
        "reruns.change": change.mean(),
        "identities": int((apart < SAME).sum()),
    }
