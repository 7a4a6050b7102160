"""The statistics of claims that need no records: of made-up spaces, of two losses, and of published numbers.

What is drawn is seeded, and each takes a second or two.
"""

import functools

import numpy as np
import torch

from dmlrc import data, losses
from dmlrc.report import published, statistics, tables, untrained
from dmlrc.report.statistics import Estimate

SEEDS = 5


@functools.cache
def nmi_against_formula(*, points: int, classes: int) -> Estimate:
    """NMI of random 64-dimensional embeddings minus 1 - log S / log C; a unit is a seed."""
    scores = [untrained.random_scores(points, [classes], seed=seed, names=("nmi",)) for seed in range(SEEDS)]
    return statistics.mean([float(frame["nmi"].iloc[0] - frame["nmi_expected"].iloc[0]) for frame in scores])


@functools.cache
def nmi_of_random_trunk(*, images_per_class: int) -> Estimate:
    """NMI of a conv4 with random weights on small glyphs; a unit is a seed of the weights."""
    images = data.load("glyphs-small")
    scores = (untrained.random_trunks(images, ["conv4"], None, images_per_class, seed) for seed in range(SEEDS))
    return statistics.mean([frame["nmi"].iloc[0] for frame in scores])


@functools.cache
def toy_spread() -> Estimate:
    """The range of MAP@R over the three toy spaces, minus that of P@1; a unit is a seed of the spaces."""
    spreads = []
    for seed in range(SEEDS):
        scores = untrained.toy_scores(untrained.toy_spaces(seed=seed), names=("precision_at_1", "map_at_r"), seeds=1)
        spreads.append(np.ptp(scores.loc["map_at_r"]) - np.ptp(scores.loc["precision_at_1"]))
    return statistics.mean(spreads)


@functools.cache
@torch.no_grad()
def one_function() -> Estimate:
    """Relative difference of ProxyNCA (scale s) and normalised softmax (T = 1 / (2 s)); a unit is a batch."""
    differences = []
    for seed in range(SEEDS):
        generator = torch.Generator().manual_seed(seed)
        scale = float(torch.rand(1, generator=generator)) * 10 + 0.5
        proxies = torch.randn(20, 16, generator=generator)
        embeddings = torch.nn.functional.normalize(torch.randn(32, 16, generator=generator))
        labels = torch.randint(20, (32,), generator=generator)
        nca = losses.create("proxy_nca", num_classes=20, embedding_dim=16, softmax_scale=scale)
        softmax = losses.create("normalized_softmax", num_classes=20, embedding_dim=16, temperature=1 / (2 * scale))
        nca.proxies.copy_(proxies)
        softmax.W.copy_(proxies.T)
        one, other = float(nca(embeddings, labels)), float(softmax(embeddings, labels))
        differences.append(one / other - 1)
    return statistics.mean(differences)


def claimed_gain(*, baseline: str) -> Estimate:
    """Mean relative gain that papers of 2017 to 2019 print over a classic; a unit is the mean of a paper."""
    gains = tables.claimed_improvement(published.claims(), baseline)
    return statistics.mean(gains.groupby("paper")["gain"].mean())


def share_copied() -> Estimate:
    """Share of the papers with a contrastive baseline of which one is, to the digit, that of a paper listed earlier."""
    rows = published.claims()
    rows = rows[rows["primary"] & (rows["role"] == "contrastive_baseline")].sort_values("year", kind="stable")
    copied = rows.duplicated(["dataset", "r1"]).groupby(rows["paper"]).any()
    return statistics.share(int(copied.sum()), len(copied))
