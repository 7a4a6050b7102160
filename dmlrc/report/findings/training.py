"""Findings about training code: losses, samplers, crops and splits that are not what their names say.

The faulty behaviours are restated here as short functions, so that right and wrong stand side by side. Nothing is
trained.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from scipy.spatial.distance import cdist, pdist
from scipy.stats import wasserstein_distance
from torch import Tensor

from dmlrc import losses
from dmlrc.data import augment, splits
from dmlrc.data.batches import greedy_coreset, histogram_distances
from dmlrc.losses.snr import snr_distances
from dmlrc.records import StudyRecords
from dmlrc.report.findings.metrics import clustered

RADIANS, SCALE = 0.5, 16.0
"""ArcFace's margin and scale in the study that these findings are about."""

Loss = Callable[[Tensor], Tensor]
"""Embeddings (B, D) -> scalar."""
SOFT_TRIPLE = {"la": 8.0, "gamma": 0.1, "margin": 0.01, "centers_per_class": 2}
"""Its settings in the same study."""
_CLASSES, _CENTRES = 1, 2  # dimensions of the similarities (B, C, K)
IMAGE, SMALLEST = 256, 40
"""Pixels: the image and the smallest crop that the Reality Check names."""
ASPECT, AREA = (3 / 4, 4 / 3), (0.16, 1.0)
"""Bounds of the crop's aspect ratio, and of its share of the area, in the authors' configuration."""
SOP = (11_318, 11_316)
"""Classes in the training and in the testing list of Stanford Online Products."""


def made_batch(classes: int = 100, batch: int = 112, dim: int = 128) -> tuple[Tensor, Tensor, Tensor]:
    """Random embeddings (B, D) on the unit sphere, labels (B,), class weights (D, C), float64."""
    generator = torch.Generator().manual_seed(0)
    embeddings = F.normalize(torch.randn(batch, dim, generator=generator, dtype=torch.float64))
    labels = torch.randint(classes, (batch,), generator=generator)
    return embeddings, labels, torch.randn(dim, classes, generator=generator, dtype=torch.float64)


def value_and_gradient(loss: Loss, embeddings: Tensor) -> tuple[float, Tensor]:
    """The loss of these embeddings, and its gradient (B, D)."""
    leaf = embeddings.clone().requires_grad_()
    value = loss(leaf)
    return float(value.detach()), torch.autograd.grad(value, leaf)[0]


def loss_change(first: Loss, second: Loss, embeddings: Tensor) -> dict[str, float]:
    """The values of two losses; their difference over the first; the gradients' largest over the first's largest."""
    (one, before), (other, after) = (value_and_gradient(loss, embeddings) for loss in (first, second))
    gradient = float((after - before).abs().max() / before.abs().max())
    return {"first": one, "second": other, "value": abs(other - one) / abs(one), "gradient": gradient}


# ArcFace; margins in radians, class weights W (D, C)


def arcface(embeddings: Tensor, labels: Tensor, W: Tensor, margin: float) -> Tensor:
    """Our `losses.create("arcface")`."""
    loss = losses.create(
        "arcface", num_classes=W.shape[1], embedding_dim=W.shape[0], margin=math.degrees(margin), scale=SCALE
    ).double()
    return torch.func.functional_call(loss, {"W": W}, (embeddings, labels))


def arcface_shifting_every_logit(embeddings: Tensor, labels: Tensor, W: Tensor, margin: float) -> Tensor:
    """ArcFace as one public code had it until 2021: the change of the own class's logit is added to all logits."""
    cosines = embeddings @ F.normalize(W, dim=0)  # (B, C)
    own = cosines.gather(1, labels[:, None])
    change = (own.acos() + margin).cos() - own  # (B, 1)
    return F.cross_entropy(SCALE * (cosines + change), labels)


def arcface_with_clamped_cosines(embeddings: Tensor, labels: Tensor, W: Tensor, margin: float) -> Tensor:
    """ArcFace with all cosines clamped to [0, 1] before the margin: a negative one counts as 0 and has no gradient."""
    cosines = (embeddings @ F.normalize(W, dim=0)).clamp(1e-10, 1 - 1e-7)  # (B, C)
    own = labels[:, None]
    cosines = cosines.scatter(1, own, (cosines.gather(1, own).acos() + margin).cos())
    return F.cross_entropy(SCALE * cosines, labels)


def arcface_margins() -> pd.DataFrame:
    """ArcFace without a margin and with 0.5 rad, on one random batch, ours and with every logit shifted."""
    embeddings, labels, W = made_batch()
    rows = {}
    for name, loss in {"ours": arcface, "every logit": arcface_shifting_every_logit}.items():
        zero, half = (lambda x, m=margin, f=loss: f(x, labels, W, m) for margin in (0.0, RADIANS))
        rows[name] = loss_change(zero, half, embeddings)
    table = pd.DataFrame.from_dict(rows, orient="index")[["first", "second", "gradient"]]
    return table.rename(columns={"first": "zero", "second": "half"})


def arcface_pull(points: int = 49) -> pd.DataFrame:
    """The pull on an image towards its own class direction, by its cosine to it (index), with and without the clamp.

    One image, two classes at a right angle; the pull is the part of the gradient along the circle through both.
    """
    W, label = torch.eye(3, dtype=torch.float64)[:, :2], torch.tensor([0])
    rows = {}
    for cosine in np.linspace(-0.96, 0.96, points):
        sine = math.sin(math.acos(cosine))
        image = torch.tensor([[cosine, 0.0, sine]], dtype=torch.float64)  # at a right angle to class 1
        along = torch.tensor([sine, 0.0, -cosine], dtype=torch.float64)  # towards class 0
        rows[cosine] = {
            name: -float(value_and_gradient(lambda x, f=loss: f(x, label, W, RADIANS), image)[1][0] @ along)
            for name, loss in {"ours": arcface, "clamped": arcface_with_clamped_cosines}.items()
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("cosine")


def arcface_without_gradient() -> float:
    """The share of random images whose cosine to their own random class weight is negative: the clamp loses them."""
    embeddings, labels, W = made_batch(batch=4096)
    own = (embeddings @ F.normalize(W, dim=0)).gather(1, labels[:, None])
    return float((own < 0).double().mean())


# SNR


def snr_regulariser(margin: float = 0.2, weight: float = 0.005) -> pd.DataFrame:
    """The SNR triplet loss of one random batch with its regulariser and with the weight set to 0.

    gradient: its length; drift: that of its part along an image's sum, which the regulariser is to keep at 0.
    """
    embeddings, labels, _ = made_batch(classes=56)
    anchors, positives, negatives = _triplets(labels.sort().values)
    diagonal = torch.full((embeddings.shape[1],), embeddings.shape[1] ** -0.5, dtype=torch.float64)

    def loss(x: Tensor, factor: float) -> Tensor:
        snr = snr_distances(x)
        hinges = torch.relu(snr[anchors, positives] - snr[anchors, negatives] + margin)
        return hinges.sum() / (hinges > 0).sum() + factor * x[anchors].sum(1).abs().mean()

    rows = {}
    for name, factor in (("as in the paper", weight), ("weight 0", 0.0)):
        value, gradient = value_and_gradient(lambda x, f=factor: loss(x, f), embeddings)
        rows[name] = {"loss": value, "gradient": float(gradient.norm()), "drift": float((gradient @ diagonal).norm())}
    return pd.DataFrame.from_dict(rows, orient="index")


def _triplets(labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each positive pair with the image that follows its class, or the first one."""
    same = (labels[:, None] == labels) & ~torch.eye(len(labels), dtype=torch.bool)
    anchors, positives = same.nonzero(as_tuple=True)
    return anchors, positives, torch.searchsorted(labels, labels[anchors], right=True) % len(labels)


# SoftTriple; centres (D, C, K)


def soft_triple(embeddings: Tensor, labels: Tensor, centres: Tensor) -> Tensor:
    """Our `losses.create("soft_triple")`."""
    dim, classes, _ = centres.shape
    loss = losses.create("soft_triple", num_classes=classes, embedding_dim=dim, **SOFT_TRIPLE).double()
    return torch.func.functional_call(loss, {"fc": centres.flatten(1)}, (embeddings, labels))


def soft_triple_of_one_public_code(embeddings: Tensor, labels: Tensor, centres: Tensor) -> Tensor:
    """SoftTriple as the same study's public code has it, with three changes.

    Each dimension is normalised over all centres; gamma is a factor; the softmax is over the classes, so that each
    centre's weight is about 1 / C.
    """
    return _soft_triple(embeddings, labels, _dimensions_normalised(centres), 1 / SOFT_TRIPLE["gamma"], over=_CLASSES)


def _soft_triple(embeddings: Tensor, labels: Tensor, centres: Tensor, gamma: float, over: int) -> Tensor:
    """The classification term with centres that are normalised somehow; over: what the softmax runs over."""
    to_centres = torch.einsum("bd,dck->bck", embeddings, centres)
    to_classes = (torch.softmax(to_centres / gamma, dim=over) * to_centres).sum(_CENTRES)  # (B, C)
    margins = torch.zeros_like(to_classes).scatter_(1, labels[:, None], SOFT_TRIPLE["margin"])
    return F.cross_entropy(SOFT_TRIPLE["la"] * (to_classes - margins), labels)


def _dimensions_normalised(centres: Tensor) -> Tensor:
    return F.normalize(centres.flatten(1), dim=1).unflatten(1, centres.shape[1:])


def soft_triple_of_perfect_batches() -> pd.DataFrame:
    """SoftTriple of images on a centre of their class, and of random ones, by the formula and as changed."""
    embeddings, labels, _ = made_batch()
    centres = torch.randn(128, 100, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    unit, gamma = F.normalize(centres, dim=0), SOFT_TRIPLE["gamma"]
    changed = {
        "γ as a factor": (unit, 1 / gamma, _CENTRES),
        "softmax over the classes": (unit, gamma, _CLASSES),
        "dimensions normalised": (_dimensions_normalised(centres), gamma, _CENTRES),
    }
    rows = {}
    for what, batch in {"perfect": unit[:, labels, 0].T, "random": embeddings}.items():
        rows[what] = {
            "as in the paper": soft_triple(batch, labels, centres),
            **{name: _soft_triple(batch, labels, *how) for name, how in changed.items()},
            "all three": soft_triple_of_one_public_code(batch, labels, centres),
        }
    return pd.DataFrame(rows).map(float)


# How batches are chosen


def coreset_radius(pool: int = 512, anchors: int = 28, repeats: int = 20) -> pd.DataFrame:
    """The coverage of a pool of 100 Gaussian classes of unequal size: mean and std of `covering_radius` over pools.

    greedy: anchors chosen in this pool; another pool: at the places chosen in another one; uniform: random anchors.
    """
    rng = np.random.default_rng(0)
    points, labels = clustered(classes=100, images=60, dim=8, spread=0.1)
    chances = rng.dirichlet(np.full(100, 0.5))[labels]
    chances /= chances.sum()
    radii = []
    for _ in range(repeats):
        measured, other = (points[rng.choice(len(points), pool, replace=False, p=chances)] for _ in range(2))
        chosen = greedy_coreset(measured, anchors, first=int(rng.integers(pool)))
        uniform = other[rng.choice(pool, anchors, replace=False)]
        covers = (measured, measured[chosen]), (other, other[chosen]), (other, uniform)
        radii.append([covering_radius(*cover) for cover in covers])
    return pd.DataFrame(radii, columns=["greedy", "another pool", "uniform"]).agg(["mean", "std"]).T


def covering_radius(points: np.ndarray, anchors: np.ndarray) -> float:
    """The largest distance from a point to its nearest anchor: (P, D), (A, D) -> number."""
    return float(cdist(points, anchors).min(axis=1).max())


def histogram_pairs() -> pd.DataFrame:
    """Wasserstein distances of histograms over 50 bins on [0, 2], by what is compared.

    as_weights: the heights as weights of the bins' centres. as_samples: the heights as samples, as one public code
    does, so that any reordering of a histogram is at distance 0 from it.
    """
    places = (np.arange(50) + 0.5) / 25
    heights = np.exp(-((places - 0.5) ** 2) / 0.05)
    heights /= heights.sum()
    others = {"itself": heights, "reversed": heights[::-1]}
    others |= {"shuffled": np.random.default_rng(0).permutation(heights), "uniform": np.full(50, 0.02)}
    rows = {
        name: (wasserstein_distance(places, places, heights, other), wasserstein_distance(heights, other))
        for name, other in others.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=["as_weights", "as_samples"])


def histogram_choice(pools: int = 40, candidates: int = 10) -> float:
    """The share of pools of which heights as samples choose the same one of ten batches, the likest, as weights do."""
    rng = np.random.default_rng(0)
    points, _ = clustered(classes=100, images=20, spread=0.1)
    same = 0
    for _ in range(pools):
        pool = points[rng.choice(len(points), 256, replace=False)]
        batches = [rng.choice(len(pool), 32, replace=False) for _ in range(candidates)]
        whole, *parts = map(pdist, (pool, *(pool[batch] for batch in batches)))
        edges = np.histogram_bin_edges(whole, 50)
        whole, *parts = (np.histogram(values, edges)[0] / len(values) for values in (whole, *parts))
        wrong = np.argmin([wasserstein_distance(whole, part) for part in parts])
        same += np.argmin(histogram_distances(pool, batches)) == wrong
    return float(same / pools)


# Checkpoints


def own_maximum(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """Validation P@1 of the reruns: where MAP@R is highest, and its own highest, a row a study and method.

    runs; evaluations of a run, on average; at_checkpoint: by the protocol's rule. The test half has no curves.
    """
    rows = []
    for records in edition:
        reruns = records.curves[records.curves["kind"] == "rerun"]
        keys = ["method", "repetition", "number", "fold"]
        wide = reruns.pivot_table(index=[*keys, "step"], columns="metric", values="value")
        if not {"map_at_r", "precision_at_1"} <= set(wide.columns):
            continue
        best = wide.loc[wide.groupby(keys)["map_at_r"].idxmax()]["precision_at_1"].droplevel("step")
        own = wide.groupby(keys)["precision_at_1"].agg(evaluations="size", own_maximum="max")
        runs = own.assign(at_checkpoint=best).groupby("method")
        rows.append(runs.mean().assign(runs=runs.size(), study=records.name).reset_index())
    columns = ["study", "method", "runs", "evaluations", "at_checkpoint", "own_maximum"]
    table = pd.concat(rows)[columns].reset_index(drop=True) if rows else pd.DataFrame(columns=columns)
    return table.assign(inflation=table["own_maximum"] - table["at_checkpoint"])


def longest_own_maximum(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The rows of `own_maximum` of the study that validated its reruns most often; none if each was validated once."""
    frame = own_maximum(edition)
    evaluations = frame.groupby("study")["evaluations"].mean()
    return frame[frame["study"] == evaluations.idxmax()] if (evaluations > 1).any() else frame.iloc[:0]


# Crops and splits


def crop_sides(crops: int = 50_000) -> dict[str, np.ndarray]:
    """Sides of random crops of a 256-pixel image in pixels (the root of the area), by how "40 to 256" is read."""
    generator = torch.Generator().manual_seed(0)
    boxes = augment.crop_boxes(crops, IMAGE, IMAGE, AREA, ASPECT, generator)
    sides = SMALLEST + (IMAGE - SMALLEST) * torch.rand(crops, generator=generator)
    by_area = boxes[:, 2:].prod(dim=1).double().sqrt()
    return {"settings: 0.16 to 1 of the area": by_area.numpy(), "text: 40 to 256 pixels a side": sides.numpy()}


def crops(sides: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """`crop_sides` in numbers: mean share of the area, and the share of crops below the root of the smallest area."""
    frame = pd.DataFrame(sides, dtype=float)
    below = (frame < math.sqrt(AREA[0]) * IMAGE - 1).mean()
    return pd.DataFrame({"below_102": below, "area": ((frame / IMAGE) ** 2).mean()})


def sop_splits() -> pd.DataFrame:
    """Classes of SOP by split, and how many of the official training list are tested; one image a class."""
    labels = np.arange(sum(SOP))
    partition = np.repeat(["train", "test"], SOP)
    parts = {"official": splits.official(labels, partition), "first half": splits.halves(labels)}
    tested = {name: int((partition[part.test] == "train").sum()) for name, part in parts.items()}
    rows = {name: (len(part.train_val), len(part.test), tested[name]) for name, part in parts.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["train_val", "test", "tested_training_classes"])


# Smooth-AP


def smooth_ap(embeddings: Tensor, groups: Tensor, temperature: float = 0.01) -> Tensor:
    """Smooth-AP (Brown et al. 2020) by plain loops, the query counted among its own positives, as in the public code.

    mean over queries q of 1 - mean over the images i of q's group of rank(i among the group) / rank(i among all), with
    rank(i) = 1 + sum over other j of sigmoid((s_qj - s_qi) / temperature). embeddings: (B, D), L2-normalised; groups:
    (B,), which images belong together: the labels. Limit: the exact average precision as the temperature goes to 0.
    """
    similarities = embeddings @ embeddings.T
    losses_of_queries = []
    for q in range(len(groups)):
        precisions = []
        for i in (groups == groups[q]).nonzero()[:, 0]:
            above = torch.sigmoid((similarities[q] - similarities[q, i]) / temperature)
            above[i] = 0
            among_all, among_group = 1 + above.sum(), 1 + above[groups == groups[q]].sum()
            precisions.append(among_group / among_all)
        losses_of_queries.append(1 - torch.stack(precisions).mean())
    return torch.stack(losses_of_queries).mean()


def consecutive_groups(labels: Tensor) -> Tensor:
    """The classes as pytorch-metric-learning 2.9 has them in SmoothAPLoss: blocks of as many rows as classes; (B,)."""
    return torch.arange(len(labels)) // len(labels.unique())


def smooth_ap_of_perfect_batches() -> pd.DataFrame:
    """Smooth-AP of batches in which every class is one point, at a right angle to all others; 0 is right."""
    rows = []
    for classes, images, in_order in ((4, 4, True), (3, 4, True), (6, 2, True), (8, 4, True), (4, 4, False)):
        labels = torch.arange(classes)
        labels = labels.repeat_interleave(images) if in_order else labels.repeat(images)
        points = torch.eye(classes)[labels]
        ours, blocks = (float(smooth_ap(points, groups)) for groups in (labels, consecutive_groups(labels)))
        rows.append((classes, images, in_order, ours, blocks))
    return pd.DataFrame(rows, columns=["classes", "images", "sorted", "ours", "blocks"])
