"""Findings about claims: numbers that papers print, and losses that are other losses under new names."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from dmlrc import losses
from dmlrc.losses.common import pair_masks
from dmlrc.records import StudyRecords
from dmlrc.report import published, tables
from dmlrc.report.findings.training import made_batch, value_and_gradient

TWINS = ("normalized_softmax", "proxy_nca")
"""Two rows of the results tables that are one function."""


def proxy_nca_pp(embeddings: Tensor, labels: Tensor, proxies: Tensor, temperature: float) -> Tensor:
    """ProxyNCA++ (Teh et al. 2020) by plain loops: (B, D), (B,), (C, D) -> scalar.

    mean_i -log( e^(-|x_i - p_y|^2 / T) / sum over all classes c of e^(-|x_i - p_c|^2 / T) )

    with x and p on the unit sphere.
    """
    proxies = F.normalize(proxies)
    terms = []
    for x, label in zip(embeddings, labels, strict=True):
        near = torch.stack([torch.exp(-((x - p) ** 2).sum() / temperature) for p in proxies])
        terms.append(-torch.log(near[label] / near.sum()))
    return torch.stack(terms).mean()


def tcm(embeddings: Tensor, labels: Tensor, pos_margin: float, neg_margin: float) -> Tensor:
    """The threshold-consistent margin loss (Zhang et al. 2024) by plain loops; margins of the cosine s.

    sum [m+ - s]_+ / #{s <= m+} over the positive pairs + sum [s - m-]_+ / #{s >= m-} over the negative pairs.
    """
    pull, push = [], []
    for i, x in enumerate(embeddings):
        for j, y in enumerate(embeddings):
            cosine = x @ y
            if i != j and labels[i] == labels[j] and cosine <= pos_margin:
                pull.append(pos_margin - cosine)
            if labels[i] != labels[j] and cosine >= neg_margin:
                push.append(cosine - neg_margin)
    return sum((torch.stack(terms).mean() for terms in (pull, push) if terms), start=embeddings.new_zeros(()))


def contrastive_on_cosines(embeddings: Tensor, labels: Tensor, pos_margin: float, neg_margin: float) -> Tensor:
    """Our contrastive loss with the distance 1 - s, so that margins m of the cosine s become 1 - m."""
    loss = losses.create("contrastive", pos_margin=1 - pos_margin, neg_margin=1 - neg_margin)
    return loss.pair_loss(1 - embeddings @ embeddings.T, *pair_masks(labels))


def supcon(embeddings: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """SupCon (Khosla et al. 2020, the form with the mean outside the logarithm) by plain loops.

    mean_i mean over positives p of -log( e^(s_ip / T) / sum over all others a of e^(s_ia / T) )
    """
    terms = []
    for i in range(len(labels)):
        others = [a for a in range(len(labels)) if a != i]
        total = torch.stack([torch.exp(embeddings[i] @ embeddings[a] / temperature) for a in others]).sum()
        own = [embeddings[i] @ embeddings[p] / temperature for p in others if labels[p] == labels[i]]
        terms.append(torch.stack([total.log() - s for s in own]).mean())
    return torch.stack(terms).mean()


class Pair(NamedTuple):
    """Two losses that should be one, as functions of the embeddings (B, D)."""

    name: str
    first: Callable[[Tensor], Tensor]
    second: Callable[[Tensor], Tensor]


COSINE_MARGINS = (0.9, 0.1)
TEMPERATURE = 0.1
"""Of the pairs below; any others would do."""


def same_losses() -> pd.DataFrame:
    """Losses that are older ones: both on one random batch in float64, a row a pair.

    Index: the pair. Columns: first, second (the values), value (their difference over the first), gradient (the largest
    difference of an entry of the two gradients, over the largest entry of the first). The last row is no identity: with
    four images a class the other positives stay in SupCon's denominator.
    """
    embeddings, labels, W = made_batch(classes=8, batch=24, dim=16)
    of_two, of_four = torch.arange(12).repeat_interleave(2), torch.arange(6).repeat_interleave(4)

    def ours(name: str, weights: str, values: Tensor, **params: float) -> Callable[[Tensor], Tensor]:
        loss = losses.create(name, num_classes=8, embedding_dim=16, **params).double()
        return lambda x: torch.func.functional_call(loss, {weights: values}, (x, labels))

    ntxent = losses.create("ntxent", temperature=TEMPERATURE)
    pairs = [
        *(
            Pair(
                f"ProxyNCA, scale {scale:g} = N. Softmax, T = 1/{2 * scale:g}",
                ours("proxy_nca", "proxies", W.T, softmax_scale=scale),
                ours("normalized_softmax", "W", W, temperature=1 / (2 * scale)),
            )
            for scale in (1.0, 10.0)
        ),
        Pair(
            "ProxyNCA++, T = 1/9 = N. Softmax, T = 1/18",
            lambda x: proxy_nca_pp(x, labels, W.T, 1 / 9),
            ours("normalized_softmax", "W", W, temperature=1 / 18),
        ),
        Pair(
            "TCM = contrastive on cosines",
            lambda x: tcm(x, labels, *COSINE_MARGINS),
            lambda x: contrastive_on_cosines(x, labels, *COSINE_MARGINS),
        ),
        Pair(
            "SupCon, 2 images a class = NTXent",
            lambda x: supcon(x, of_two, TEMPERATURE),
            lambda x: ntxent(x, of_two),
        ),
        Pair(
            "SupCon, 4 images a class ≠ NTXent",
            lambda x: supcon(x, of_four, TEMPERATURE),
            lambda x: ntxent(x, of_four),
        ),
    ]
    rows = {}
    for pair in pairs:
        (first, before), (second, after) = (value_and_gradient(f, embeddings) for f in (pair.first, pair.second))
        rows[pair.name] = {
            "first": first,
            "second": second,
            "value": abs(second - first) / abs(first),
            "gradient": float((after - before).abs().max() / before.abs().max()),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def twin_rows(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """MAP@R of the two rows that are one function: in the Reality Check's tables, and in these studies.

    Concatenated. Indexed by data set or study: the two means (`TWINS`), gap (their difference, absolute), noise (the
    sum of their 95 % half widths, NaN where the table has none), range (best minus worst method), share (gap / range).
    """
    frames = dict(list(published.results().groupby("dataset")))
    frames |= {records.name: tables.accuracy(records) for records in edition}
    rows = {}
    for name, frame in frames.items():
        part = tables.deciding(frame).set_index("method")
        if not set(TWINS) <= set(part.index):  # not trained in this study
            continue
        gap = float(abs(part["mean"][TWINS[0]] - part["mean"][TWINS[1]]))
        spread = tables.spread(frame)["range"]
        rows[name] = part["mean"][list(TWINS)].to_dict() | {
            "gap": gap,
            "noise": float(part["ci95"][list(TWINS)].sum(skipna=False)),
            "range": spread,
            "share": gap / spread,
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def twin_temperatures() -> pd.DataFrame:
    """The temperatures that the Reality Check's searches ended at for one function under its two names.

    Indexed by data set and batch size: normalized_softmax (T), proxy_nca (1 / (2 scale)), ratio (the larger over the
    smaller).
    """
    frame = published.hyperparameters()
    keys = ["dataset", "batch_size"]
    scale = frame[(frame["method"] == "proxy_nca") & (frame["hyperparameter"] == "softmax_scale")]
    softmax = frame[(frame["method"] == "normalized_softmax") & (frame["hyperparameter"] == "temperature")]
    table = pd.DataFrame(
        {
            "normalized_softmax": softmax.set_index(keys)["value"],
            "proxy_nca": 1 / (2 * scale.set_index(keys)["value"]),
        }
    )
    return table.assign(ratio=table.max(axis=1) / table.min(axis=1))


def claims_of_proxy_nca_pp() -> pd.DataFrame:
    """R@1 that ProxyNCA++ and normalised softmax (Zhai and Wu) claim, both 2,048-d on ResNet50: a row a data set.

    Columns: norm_softmax, proxy_nca_pp, difference.
    """
    after = published.claims_after_2019()
    after = after[after["paper"].str.contains("ProxyNCA", regex=False) & (after["dim"] == 2048)]
    zhai = published.zhai_results()
    zhai = zhai[
        (zhai["method"] == "norm_softmax")
        & (zhai["dim"] == 2048)
        & (zhai["trunk"] == "resnet50")
        & (zhai["metric"] == "precision_at_1")
        & ~zhai["binary"]
    ]
    table = pd.DataFrame(
        {
            "norm_softmax": zhai.groupby("dataset")["value"].first(),
            "proxy_nca_pp": after.set_index("dataset")["r1"],
        }
    )
    table = table.reindex(list(published.DATASETS))
    return table.assign(difference=table["proxy_nca_pp"] - table["norm_softmax"])


SOURCE = "Song et al., Lifted Structured Feature Embedding"


def repeated_baselines() -> pd.DataFrame:
    """The baselines of the lifted-structure paper of 2016, and who printed them to the digit afterwards.

    A row a baseline and data set: r1, later (number of later papers), read (of how many whose number was read), who.
    """
    claims = published.claims()
    rows = []
    for baseline in tables.CLASSICS:
        part = claims[(claims["role"] == f"{baseline}_baseline") & claims["primary"]]
        for dataset in published.DATASETS:
            here = part[part["dataset"] == dataset].set_index("paper")
            later = here.drop(index=SOURCE).sort_values("year")
            same = later[later["r1"] == here["r1"][SOURCE]]
            rows.append(
                {
                    "baseline": baseline,
                    "dataset": dataset,
                    "r1": here["r1"][SOURCE],
                    "later": len(same),
                    "read": len(later),
                    "who": "; ".join(f"{paper} ({year})" for paper, year in same["year"].items()),
                }
            )
    return pd.DataFrame(rows)


def claimed_and_fair_gains() -> pd.DataFrame:
    """Mean gain in P@1 over the two classics, as papers of 2017 to 2019 claim it and as the Reality Check measures it.

    A row a baseline and data set: claimed (mean), papers, lowest, highest (of them), fair (the newer methods,
    concatenated, in Tables 3-5).
    """
    fair = dict(list(published.results().groupby("dataset")))
    rows = []
    for baseline in tables.CLASSICS:
        claims = tables.claimed_improvement(published.claims(), baseline).groupby("dataset")["gain"]
        for dataset in published.DATASETS:
            gains = claims.get_group(dataset)
            rows.append(
                {
                    "baseline": baseline,
                    "dataset": dataset,
                    "claimed": gains.mean(),
                    "papers": len(gains),
                    "lowest": gains.min(),
                    "highest": gains.max(),
                    "fair": tables.improvement(fair[dataset], baseline)["concatenated"],
                }
            )
    return pd.DataFrame(rows)


def table_against_plot() -> pd.DataFrame:
    """The cells of Fehervari et al.'s tables that differ from the authors' own plots: a row a cell.

    Columns: dataset, method, trunk, metric, value (the table's), plotted, reported (by the original paper; R@1 only),
    plot_is_reported (the plotted number is the reported one).
    """
    frame = published.fehervari_results()
    frame = frame[frame["plotted"].notna()].rename(columns={"reported_r1": "reported"})
    frame = frame[["dataset", "method", "trunk", "metric", "value", "plotted", "reported"]]
    same = np.isclose(frame["plotted"], frame["reported"], atol=5e-5)
    return frame.assign(plot_is_reported=same).reset_index(drop=True)


def copied_nmi() -> dict[str, float]:
    """NMI of N-pairs on SOP in Fehervari et al.'s table: value, and the lowest and the highest of the other rows."""
    frame = published.fehervari_results()
    nmi = frame[(frame["dataset"] == "SOP") & (frame["metric"] == "nmi")].set_index("method")["value"]
    others = nmi.drop("n_pairs")
    return {"value": float(nmi["n_pairs"]), "lowest": float(others.min()), "highest": float(others.max())}
