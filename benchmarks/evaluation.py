"""Evaluation against pytorch-metric-learning, a bare faiss search and bare matrix products, by number of images.

Part of `make bench`, which measures the size of SOP's test half on all cores, the others on one. On a GPU the peer
searches with its own products, since a faiss for it need not be there, and the bare search is left out.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from pytorch_metric_learning.distances import LpDistance
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN

from dmlrc import metrics
from dmlrc.metrics import histograms, neighbours

NAMES = ("precision_at_1", "r_precision", "map_at_r")
SOP_TEST = (60_502, 11_316)
"""Images and classes of the test half of Stanford Online Products."""

Calls = tuple[Callable[[], object], Callable[[], object]]


def embedded(images: int, classes: int, dim: int = 128, device: str | torch.device = "cpu"):
    """Overlapping classes of equal size on the sphere: embeddings (images, dim) float32, labels (images,)."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(images) % classes
    embeddings = torch.randn(images, dim, generator=generator)
    embeddings += 0.5 * torch.randn(classes, dim, generator=generator)[labels]
    embeddings /= embeddings.norm(dim=1, keepdim=True)
    return embeddings.to(device), labels.to(device)


def against_peer(embeddings: torch.Tensor, labels: torch.Tensor) -> Calls:
    search = {} if embeddings.device.type == "cpu" else {"knn_func": CustomKNN(LpDistance(normalize_embeddings=False))}
    peer = AccuracyCalculator(
        include=("precision_at_1", "r_precision", "mean_average_precision_at_r"),
        k="max_bin_count",
        device=embeddings.device,
        **search,
    )
    return (
        lambda: metrics.evaluate(embeddings, labels, names=NAMES),
        lambda: peer.get_accuracy(embeddings, labels, ref_includes_query=True),
    )


def against_search(embeddings: torch.Tensor, labels: torch.Tensor) -> Calls:
    import faiss

    points, k = embeddings.cpu().numpy(), int(labels.bincount().max())
    return lambda: metrics.evaluate(embeddings, labels, names=NAMES), lambda: faiss.knn(points, points, k)


def against_products(embeddings: torch.Tensor, labels: torch.Tensor) -> Calls:
    def products() -> None:
        for rows, columns in histograms.tiles(len(embeddings), embeddings.device):
            neighbours.inner_products(embeddings[rows], embeddings[columns])

    return lambda: histograms.pair_histograms(embeddings, labels), products


def rows(
    timed: Callable, device: torch.device, sizes=((2000, 25), (8131, 98), (20_000, 4000)), note: str = ""
) -> Iterator:
    """title -> (seconds of ours, of the peer); timed(ours, peer, repeats) measures. note: ends what is measured."""
    for images, classes in sizes:
        what = f"P@1, R-precision, MAP@R of {images:,} x 128 in {classes:,} classes{note}"
        repeats = 7 if images < 5000 else 3 if images < 50_000 else 1
        for against, name in (
            (against_peer, f"{what} | pytorch-metric-learning AccuracyCalculator"),
            (against_search, f"{what} | faiss.knn alone"),
            (against_products, f"histogram of all pairs of {images:,} x 128{note} | its matrix products alone"),
        ):
            if against is against_search and device.type != "cpu":
                continue
            yield name, partial(_measure, timed, against, (images, classes), device, repeats)


def _measure(timed: Callable, against: Callable, size: tuple[int, int], device, repeats: int) -> tuple[float, float]:
    return timed(*against(*embedded(*size, device=device)), repeats=repeats)
