"""Every registered loss that pytorch-metric-learning has too, forward and backward, by batch size.

Part of `make bench`; alone, `python -m benchmarks.losses [NAME ...]`. On a CPU the seconds are CPU time.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from pytorch_metric_learning import losses as pml
from pytorch_metric_learning import miners
from pytorch_metric_learning.distances import DotProductSimilarity, LpDistance
from torch import Tensor, nn

from benchmarks.timing import DEVICE, clock, on_one_thread, report
from dmlrc import losses

SIZES = (32, 128, 512)
LARGEST = {"ntxent": 256, "lifted_structure": 128, "tuplet_margin": 128, "smooth_ap": 128}
"""Where a step of the peer's takes half a minute, or tens of gigabytes, at 512, or fails on classes of two sizes."""
CLASSES, DIM = 75, 128
REPEATS = {32: 100, 128: 25, 256: 3, 512: 5}


class MinedByPeer(nn.Module):
    """The peer's multi-similarity loss on the pairs of its miner."""

    def __init__(self):
        super().__init__()
        self.loss, self.miner = pml.MultiSimilarityLoss(), miners.MultiSimilarityMiner()

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return self.loss(embeddings, labels, self.miner(embeddings, labels))


# our name -> the same loss of pytorch-metric-learning
PEERS: dict[str, Callable[[], nn.Module]] = {
    "contrastive": lambda: pml.ContrastiveLoss(),
    "triplet": lambda: pml.TripletMarginLoss(),
    "ntxent": lambda: pml.NTXentLoss(),
    "proxy_nca": lambda: pml.ProxyNCALoss(CLASSES, DIM),
    "margin": lambda: pml.MarginLoss(learn_beta=True),
    "margin_per_class": lambda: pml.MarginLoss(learn_beta=True, num_classes=CLASSES),
    "normalized_softmax": lambda: pml.NormalizedSoftmaxLoss(CLASSES, DIM),
    "cosface": lambda: pml.CosFaceLoss(CLASSES, DIM),
    "arcface": lambda: pml.ArcFaceLoss(CLASSES, DIM),
    "fast_ap": lambda: pml.FastAPLoss(),
    "snr": lambda: pml.SignalToNoiseRatioContrastiveLoss(),
    "multi_similarity": lambda: pml.MultiSimilarityLoss(),
    "multi_similarity_miner": MinedByPeer,
    "soft_triple": lambda: pml.SoftTripleLoss(CLASSES, DIM),
    "generalized_lifted": lambda: pml.GeneralizedLiftedStructureLoss(distance=LpDistance(normalize_embeddings=False)),
    "histogram": lambda: pml.HistogramLoss(n_bins=100),
    "lifted_structure": lambda: pml.LiftedStructureLoss(distance=LpDistance(normalize_embeddings=False)),
    "n_pairs": lambda: pml.NPairsLoss(distance=DotProductSimilarity(normalize_embeddings=False)),
    "ranked_list": lambda: pml.RankedListLoss(margin=0.4, Tn=10),
    "angular": lambda: pml.AngularLoss(alpha=40),
    "sphereface": lambda: pml.SphereFaceLoss(CLASSES, DIM),
    "tuplet_margin": lambda: pml.TupletMarginLoss(),
    "proxy_anchor": lambda: pml.ProxyAnchorLoss(CLASSES, DIM),
    "circle": lambda: pml.CircleLoss(),
    "supcon": lambda: pml.SupConLoss(),
    "proxy_nca_pp": lambda: pml.ProxyNCALoss(CLASSES, DIM, softmax_scale=9),
    "smooth_ap": lambda: pml.SmoothAPLoss(),
}


def rows(timed: Callable, device: torch.device, sizes=SIZES, names: Iterable[str] = PEERS) -> Iterator:
    """title -> (seconds of ours, of the peer); timed(ours, peer, repeats, clock) measures."""
    for name in names:
        for size in sorted({min(size, LARGEST.get(name, size)) for size in sizes}):
            title = f"loss {name}, {size} x {DIM} | pytorch-metric-learning"
            yield title, partial(_measure, timed, name, size, device)


def _measure(timed: Callable, name: str, size: int, device: torch.device) -> tuple[float, float]:
    generator = torch.Generator().manual_seed(0)
    embeddings = F.normalize(torch.randn(size, DIM, generator=generator)).to(device)
    classes = min(size // 4, CLASSES)
    # In the order of the classes, with equally many images in each where they go up evenly: the peer's Smooth-AP
    # is right for such batches only.
    labels = (torch.arange(size) * classes // size).to(device)
    ours = losses.create(name, num_classes=CLASSES, embedding_dim=DIM).to(device)
    peer = PEERS[name]().to(device)

    def step(loss: nn.Module) -> None:
        loss(embeddings.clone().requires_grad_(), labels).backward()

    return timed(lambda: step(ours), lambda: step(peer), repeats=REPEATS[size], clock=clock(device))


if __name__ == "__main__":
    import sys

    list(report(dict(rows(on_one_thread, DEVICE, names=sys.argv[1:] or PEERS))))
