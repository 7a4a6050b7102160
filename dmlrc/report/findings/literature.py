"""Findings about claims: numbers that papers print, and losses that are other losses under new names."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from dmlrc import losses
from dmlrc.losses.common import pair_masks
from dmlrc.records import StudyRecords
from dmlrc.report import published, tables
from dmlrc.report.findings.training import loss_change, made_batch

TWINS = ["normalized_softmax", "proxy_nca"]
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


def same_losses() -> pd.DataFrame:
    """Losses that are older ones on one random batch: their `loss_change`, a row a pair; the last is no identity."""
    embeddings, labels, W = made_batch(classes=8, batch=24, dim=16)
    of_two, of_four = torch.arange(12).repeat_interleave(2), torch.arange(6).repeat_interleave(4)
    ntxent = losses.create("ntxent", temperature=0.1)

    def ours(name: str, weights: dict[str, Tensor], **params: float) -> Callable[[Tensor], Tensor]:
        loss = losses.create(name, num_classes=8, embedding_dim=16, **params).double()
        return lambda x: torch.func.functional_call(loss, weights, (x, labels))

    def softmax(temperature: float) -> Callable[[Tensor], Tensor]:
        return ours("normalized_softmax", {"W": W}, temperature=temperature)

    def nca(scale: float) -> Callable[[Tensor], Tensor]:
        return ours("proxy_nca", {"proxies": W.T}, softmax_scale=scale)

    pairs = {
        "ProxyNCA, scale 1 = N. Softmax, T = 1/2": (nca(1.0), softmax(1 / 2)),
        "ProxyNCA, scale 10 = N. Softmax, T = 1/20": (nca(10.0), softmax(1 / 20)),
        "ProxyNCA++, T = 1/9 = N. Softmax, T = 1/18": (lambda x: proxy_nca_pp(x, labels, W.T, 1 / 9), softmax(1 / 18)),
        "TCM = contrastive on cosines": (
            lambda x: tcm(x, labels, 0.9, 0.1),
            lambda x: contrastive_on_cosines(x, labels, 0.9, 0.1),
        ),
        "SupCon, 2 images a class = NTXent": (lambda x: supcon(x, of_two, 0.1), lambda x: ntxent(x, of_two)),
        "SupCon, 4 images a class ≠ NTXent": (lambda x: supcon(x, of_four, 0.1), lambda x: ntxent(x, of_four)),
    }
    return pd.DataFrame([loss_change(*pair, embeddings) for pair in pairs.values()], index=list(pairs))


def twin_rows(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """Concatenated MAP@R of the two rows that are one function: in the Reality Check's tables, and in these studies.

    gap: their distance; noise: the sum of their 95 % half widths; range: best minus worst method; share: gap / range.
    """
    frames, rows = published.musgrave_tables() | {records.name: tables.accuracy(records) for records in edition}, {}
    for name, frame in frames.items():
        part = tables.by_method(frame)
        if set(TWINS) <= set(part.index):  # both were trained in this study
            rows[name] = part["mean"][TWINS].to_dict()
            rows[name]["gap"] = float(abs(part["mean"][TWINS[0]] - part["mean"][TWINS[1]]))
            rows[name]["noise"] = float(part["ci95"][TWINS].sum(skipna=False))
            rows[name]["range"] = tables.spread(frame)["range"]
    table = pd.DataFrame.from_dict(rows, orient="index")
    return table.assign(share=table["gap"] / table["range"])


def twin_temperatures() -> pd.DataFrame:
    """The temperatures that the Reality Check's searches ended at for one function under its two names."""
    keys = ["method", "hyperparameter", "dataset", "batch_size"]
    values = published.hyperparameters().set_index(keys)["value"]
    scale = values.xs(("proxy_nca", "softmax_scale"), level=keys[:2])
    temperature = values.xs(("normalized_softmax", "temperature"), level=keys[:2])
    table = pd.DataFrame({"normalized_softmax": temperature, "proxy_nca": 1 / (2 * scale)})
    return table.assign(ratio=table.max(axis=1) / table.min(axis=1))


def claims_of_proxy_nca_pp() -> pd.DataFrame:
    """R@1 that ProxyNCA++ and normalised softmax (Zhai and Wu) claim, both 2,048-d on ResNet50: a row a data set."""
    after = published.claims_after_2019()
    after = after[after["paper"].str.contains("ProxyNCA", regex=False) & (after["dim"] == 2048)]
    zhai = published.zhai_results()
    asked = {"method": "norm_softmax", "dim": 2048, "trunk": "resnet50", "metric": "precision_at_1", "binary": False}
    zhai = zhai[zhai[list(asked)].eq(pd.Series(asked)).all(axis=1)]
    claimed = {
        "norm_softmax": zhai.groupby("dataset")["value"].first(),
        "proxy_nca_pp": after.set_index("dataset")["r1"],
    }
    table = pd.DataFrame(claimed).reindex(list(published.DATASETS))
    return table.assign(difference=table["proxy_nca_pp"] - table["norm_softmax"])


def repeated_baselines() -> pd.DataFrame:
    """The baselines of the lifted-structure paper of 2016, and who printed them later, of so many that were read."""
    claims, source, rows = published.claims(), "Song et al., Lifted Structured Feature Embedding", []
    for baseline in tables.CLASSICS:
        part = claims[(claims["role"] == f"{baseline}_baseline") & claims["primary"]]
        for dataset in published.DATASETS:
            here = part[part["dataset"] == dataset].set_index("paper")
            first, later = here["r1"][source], here.drop(index=source).sort_values("year")
            same = later[later["r1"] == first]
            who = "; ".join(f"{paper} ({year})" for paper, year in same["year"].items())
            rows.append((baseline, dataset, first, len(same), len(later), who))
    return pd.DataFrame(rows, columns=["baseline", "dataset", "r1", "later", "read", "who"])


def claimed_and_fair_gains() -> pd.DataFrame:
    """Mean gain in P@1 over the two classics, as papers of 2017 to 2019 claim it; fair: in the Reality Check."""
    measured, rows = published.musgrave_tables(), []
    for baseline in tables.CLASSICS:
        claims = tables.claimed_improvement(published.claims(), baseline).groupby("dataset")["gain"]
        for dataset in published.DATASETS:
            gains, fair = claims.get_group(dataset), tables.improvement(measured[dataset], baseline)["concatenated"]
            rows.append((baseline, dataset, gains.mean(), len(gains), gains.min(), gains.max(), fair))
    return pd.DataFrame(rows, columns=["baseline", "dataset", "claimed", "papers", "lowest", "highest", "fair"])


def table_against_plot() -> pd.DataFrame:
    """The cells of Fehervari et al.'s tables that differ from the authors' own plots; reported: by the original."""
    frame = published.fehervari_results()
    frame = frame[frame["plotted"].notna()].rename(columns={"reported_r1": "reported"})
    frame = frame[["dataset", "method", "trunk", "metric", "value", "plotted", "reported"]]
    same = np.isclose(frame["plotted"], frame["reported"], atol=5e-5)
    return frame.assign(plot_is_reported=same).reset_index(drop=True)
