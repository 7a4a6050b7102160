"""The losses after 2019 beside the fourteen of the Reality Check: identities, claims over the years, our own results.

Experiment: after2019, under the protocol and budget of the main study it stands beside.
"""

import functools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from dmlrc import losses
from dmlrc.papers import after2019
from dmlrc.records import FRAMES, PRETRAINED, StudyRecords
from dmlrc.report import labels, published, statistics, tables
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


def sources() -> str:
    """The losses with citations of where they come from, as MyST."""
    return ", ".join(f"{method.label} {{cite:p}}`{method.reference}`" for method in METHODS.values())


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


def identity_sentence(table: pd.DataFrame) -> str:
    """Which of `identities` hold, in one sentence."""
    same = table[table["gradient"] < SAME]
    pairs = [
        f"{labels.aside(loss)} is {labels.listed(map(labels.aside, part['other']))} in batches of {batch}"
        for (loss, batch), part in same.groupby(["loss", "batch"], sort=False)
    ]
    return (
        "Some new names stand for old losses, the same in value and gradient in batches of a certain layout: "
        f"{'; '.join(pairs)}. In another layout they differ."
    )


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


def trend_sentence(table: pd.DataFrame) -> str:
    """How fast claims rise over all trunks, and within one of them since 2020. table: `claimed_trends`."""
    everything, within = slopes(table, "all trunks", "all"), slopes(table, "ResNet50", f"since {SINCE}")
    return (
        f"Over all years and trunks, claims of R@1 rise by {_least_to_most(everything)} points a year; since {SINCE}, "
        f"with ResNet50 and up to 512 dimensions, by {_least_to_most(within)} (the interval lies above 0 on "
        f"{_rising(within)})."
    )


def _rising(rows: Mapping[str, Mapping[str, float]]) -> str:
    """The data sets on which the whole interval of a slope lies above 0, in words."""
    return labels.listed(name for name, row in rows.items() if row["slope"] > row["ci95"]) or "no data set"


def rising_sentence(table: pd.DataFrame) -> str:
    """On which data sets claims surely rise since 2020, over all trunks and within one. table: `claimed_trends`."""
    told = []
    for trunk, how in (("all trunks", "over all trunks"), ("ResNet50", "with ResNet50 and up to 512 dimensions")):
        found = slopes(table, trunk, f"since {SINCE}")
        told.append(f"on {_rising(found)} {how}")
    return f"Since {SINCE} claims clearly rise (the whole interval of the slope lies above 0) {'; and '.join(told)}."


def _least_to_most(rows: Mapping[str, Mapping[str, float]]) -> str:
    return labels.span((row["slope"] for row in rows.values()), lambda slope: f"{100 * slope:.1f}")


def _slope(row: Mapping[str, float]) -> str:
    return f"{labels.signed(row['slope'], 2, '')} ± {100 * row['ci95']:.2f}"


def mixture(table: pd.DataFrame) -> str:
    """The highest claims since 2020, with one trunk and with any. table: `claims`."""
    newer = table[table["year"] >= SINCE]
    texts = []
    for dataset in published.DATASETS:
        part = newer[newer["dataset"] == dataset]
        resnet50 = part[part["trunk"] == "ResNet50"]["r1"].max()
        highest = part.loc[part["r1"].idxmax()]
        texts.append(
            f"{dataset} {labels.one_digit(resnet50)} with ResNet50 of up to 512 dimensions, "
            f"{labels.one_digit(highest['r1'])} with {highest['trunk']}"
        )
    return f"The highest headline claims since {SINCE}, one a paper and data set, in percent: {'; '.join(texts)}."


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


def rerun_sentence(table: pd.DataFrame) -> str:
    """How reruns stand beside the claims, and beside the contrastive loss where a pipeline has it. table: `reruns`."""
    both = table.dropna(subset=["claimed"])
    change = both["r1"] - both["claimed"]
    texts = [
        f"{(change < 0).sum()} of {len(both)} results that others got fall below the claim for the same trunk and "
        f"size; the mean difference is {labels.signed(change.mean(), 1, '')} points."
    ]
    for (dataset, by), part in table.groupby(["dataset", "by"]):
        values = part.set_index("method")["r1"]
        if "Contrastive" in values.index and len(values) > 1:
            others = values.drop("Contrastive")
            texts.append(
                f"On {dataset}, in the pipeline of *{by}*, the contrastive loss has "
                f"{labels.one_digit(values['Contrastive'])} %, the others {labels.one_digit(others.min())} to "
                f"{labels.one_digit(others.max())} %."
            )
    return " ".join(texts)


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
    half = np.hypot(newer["ci95"], scores["ci95"][best])  # NaN where no luck is known: neither above nor below
    lead = newer["mean"] - scores["mean"][best]
    return {
        "best": float(newer["mean"].max()),
        "best_method": newer["mean"].idxmax(),
        "fourteen": float(scores["mean"][best]),
        "fourteen_method": best,
        "contrastive": float(scores["mean"].get("contrastive", np.nan)),
        "older": int((~scores.index.isin(METHODS)).sum()),
        "above": int((lead > half).sum()),
        "below": int((lead < -half).sum()),
        "n": len(newer),
    }


def after2019_sentence(main: StudyRecords, after: StudyRecords | None) -> str:
    """What the results table of a study says, in two or three sentences."""
    numbers = against_the_fourteen(main, after)
    if not numbers:
        return f"On `{main.name}` {_absent(after)}."
    text = (
        f"On `{main.name}` the highest MAP@R of a loss after 2019 is {labels.percent(numbers['best'])} % "
        f"({after2019_label(numbers['best_method'])}), the highest of the {numbers['older']} older ones "
        f"{labels.percent(numbers['fourteen'])} % ({after2019_label(numbers['fourteen_method'])}). Of the "
        f"{numbers['n']} new ones, {numbers['above'] or 'none'} {'lie' if numbers['above'] > 1 else 'lies'} above that "
        f"and {numbers['below'] or 'none'} below by more than the 95 % interval of the difference, each loss compared "
        "by itself; the table's italics allow for their number, and so may tie a loss that is below here. The best of "
        "so many is itself partly a lucky pick."
    )
    noise = search_noise(main, after)
    if "proxy_nca_pp" not in noise.index or len(noise) < 2:
        return text
    names = labels.listed(f"{labels.percent(value)} % as {after2019_label(name)}" for name, value in noise.items())
    printed = noise.round(4)  # so that the range is that of the numbers beside it
    return text + (
        f" Search moves a row too: one function, searched under {labels.counted(len(noise), 'name')}, reaches "
        f"{names}, a range of {labels.percent(printed.max() - printed.min())} points. The rows differ in search space "
        "and in the initial length of the proxies, so not all of that is luck."
    )


def after2019_in_short(edition: Mapping[str, tuple[StudyRecords, StudyRecords | None]]) -> str:
    """How many losses after 2019 stand above the best of the fourteen in each study, in one sentence; "" for none."""
    told = {}
    for name, pair in edition.items():
        if found := against_the_fourteen(*pair):
            told[name] = f"{found['above'] or 'none'} of {found['n']}"
    return (
        "Losses after 2019 that clearly beat the best of the fourteen (the 95 % interval of the difference excludes "
        f"0, each loss by itself): {labels.by_study(told)}."
        if told
        else ""
    )


def absent(edition: Mapping[str, tuple[StudyRecords, StudyRecords | None]]) -> str:
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
