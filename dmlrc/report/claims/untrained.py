"""Claims that need no training: statistics of made-up spaces and of two losses, seeded, each in a second or two."""

import functools

import torch

from dmlrc import data, losses
from dmlrc.report import statistics, untrained
from dmlrc.report.statistics import Estimate

SEEDS = 5
POINTS, CLASSES = 1000, 250  # 4 images a class, as in the paper's example
TRUNK_IMAGES = 4  # a class


@functools.cache
def nmi_against_formula() -> Estimate:
    """NMI of random 64-dimensional embeddings minus 1 - log S / log C; a unit is a seed."""
    scores = [untrained.random_scores(POINTS, [CLASSES], seed=seed, names=("nmi",)) for seed in range(SEEDS)]
    return statistics.mean([float(each["nmi"].iloc[0] - each["nmi_expected"].iloc[0]) for each in scores])


@functools.cache
def nmi_of_random_trunk() -> Estimate:
    """NMI of a conv4 with random weights on small glyphs, 4 images of each class; a unit is a seed of the weights."""
    images = data.load("glyphs-small")
    scores = [
        untrained.random_trunks(images, ["conv4"], images_per_class=TRUNK_IMAGES, seed=seed)["nmi"].iloc[0]
        for seed in range(SEEDS)
    ]
    return statistics.mean(scores)


@functools.cache
def toy_spread() -> Estimate:
    """How much further MAP@R lies apart over the three toy spaces than P@1; a unit is a seed of the spaces."""
    spreads = []
    for seed in range(SEEDS):
        scores = untrained.toy_scores(untrained.toy_spaces(seed=seed), names=("precision_at_1", "map_at_r"), seeds=1)
        spread = scores.max(axis=1) - scores.min(axis=1)
        spreads.append(spread["map_at_r"] - spread["precision_at_1"])
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
