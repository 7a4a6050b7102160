"""Findings about training code: losses, samplers, crops and splits that are not what their names say.

The faulty behaviours are restated here from their description, as short functions, so that right and wrong stand side
by side. Nothing is trained.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance
from torch import Tensor

from dmlrc import losses
from dmlrc.data import augment, splits
from dmlrc.data.batches import greedy_coreset, histogram_distances
from dmlrc.losses.snr import snr_distances
from dmlrc.records import StudyRecords
from dmlrc.report.findings.metrics import clustered

RADIANS = 0.5
"""ArcFace's margin in the study that these findings are about."""
SCALE = 16.0


def arcface_shifting_every_logit(
    embeddings: Tensor, labels: Tensor, W: Tensor, margin: float, scale: float = SCALE
) -> Tensor:
    """ArcFace as one study's public code had it until 2021; margin in radians.

    The margin's change of the own class's logit, cos(theta + m) - cos(theta), is added to the logits of all classes.
    A softmax does not see what all its logits share, so this is normalised softmax whatever the margin.
    """
    cosines = embeddings @ F.normalize(W, dim=0)  # (B, C)
    own = cosines.gather(1, labels[:, None])
    change = (own.acos() + margin).cos() - own  # (B, 1)
    return F.cross_entropy(scale * (cosines + change), labels)


def arcface_with_clamped_cosines(
    embeddings: Tensor, labels: Tensor, W: Tensor, margin: float, scale: float = SCALE
) -> Tensor:
    """ArcFace with all cosines clamped to [0, 1] ahead of the margin; margin in radians.

    A negative cosine counts as 0 and has no gradient: an image that lies on the wrong side of its own class direction
    is not pulled back, and one that lies opposite to another class counts as if it were at a right angle to it.
    """
    cosines = (embeddings @ F.normalize(W, dim=0)).clamp(1e-10, 1 - 1e-7)  # (B, C)
    own = labels[:, None]
    cosines = cosines.scatter(1, own, (cosines.gather(1, own).acos() + margin).cos())
    return F.cross_entropy(scale * cosines, labels)


def made_batch(classes: int = 100, batch: int = 112, dim: int = 128, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Random embeddings (B, D) on the unit sphere, labels (B,), class weights (D, C), float64."""
    generator = torch.Generator().manual_seed(seed)
    embeddings = F.normalize(torch.randn(batch, dim, generator=generator, dtype=torch.float64))
    labels = torch.randint(classes, (batch,), generator=generator)
    return embeddings, labels, torch.randn(dim, classes, generator=generator, dtype=torch.float64)


def value_and_gradient(loss: Callable[[Tensor], Tensor], embeddings: Tensor) -> tuple[float, Tensor]:
    """The loss of these embeddings, and its gradient (B, D)."""
    leaf = embeddings.clone().requires_grad_()
    value = loss(leaf)
    return float(value.detach()), torch.autograd.grad(value, leaf)[0]


def arcface(embeddings: Tensor, labels: Tensor, W: Tensor, margin: float) -> Tensor:
    """Our `losses.create("arcface")` with these class weights; margin in radians."""
    loss = losses.create(
        "arcface", num_classes=W.shape[1], embedding_dim=W.shape[0], margin=math.degrees(margin), scale=SCALE
    ).double()
    return torch.func.functional_call(loss, {"W": W}, (embeddings, labels))


def arcface_margins() -> pd.DataFrame:
    """ArcFace without a margin and with 0.5 rad, on one random batch, ours and with every logit shifted.

    Index: "ours", "every logit". Columns: zero, half (the loss at margin 0 and 0.5), gradient (the largest difference
    of the two gradients, over the largest entry of the first).
    """
    embeddings, labels, W = made_batch()
    rows = {}
    for name, loss in {"ours": arcface, "every logit": arcface_shifting_every_logit}.items():
        (zero, before), (half, after) = (
            value_and_gradient(lambda x, m=margin, f=loss: f(x, labels, W, m), embeddings) for margin in (0.0, RADIANS)
        )
        change = float((after - before).abs().max() / before.abs().max())
        rows[name] = {"zero": zero, "half": half, "gradient": change}
    return pd.DataFrame.from_dict(rows, orient="index")


def arcface_pull(points: int = 49) -> pd.DataFrame:
    """How strongly an image is pulled to its own class direction, by its cosine to it, with and without the clamp.

    One image, two classes at a right angle, margin 0.5 rad; the pull is the part of the gradient along the circle
    through the image and its class. Index: the cosine, -0.96 to 0.96. Columns: ours, clamped.
    """
    W, label = torch.eye(3, dtype=torch.float64)[:, :2], torch.tensor([0])
    rows = {}
    for cosine in np.linspace(-0.96, 0.96, points):
        angle = math.acos(cosine)
        image = torch.tensor([[cosine, 0.0, math.sin(angle)]], dtype=torch.float64)  # at a right angle to class 1
        along = torch.tensor([math.sin(angle), 0.0, -cosine], dtype=torch.float64)  # towards class 0
        pulls = [
            -float(value_and_gradient(lambda x, f=loss: f(x, label, W, RADIANS), image)[1][0] @ along)
            for loss in (arcface, arcface_with_clamped_cosines)
        ]
        rows[cosine] = dict(zip(("ours", "clamped"), pulls, strict=True))
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("cosine")


def arcface_without_gradient() -> dict[str, float]:
    """At the start of training, random embeddings and class weights: what the clamp leaves without a gradient.

    own: the share of images whose cosine to their own class is negative; pairs: the share of (image, class) pairs.
    """
    embeddings, labels, W = made_batch(batch=4096)
    cosines = embeddings @ F.normalize(W, dim=0)
    own = cosines.gather(1, labels[:, None])
    return {"own": float((own < 0).double().mean()), "pairs": float((cosines < 0).double().mean())}


SNR_MARGIN, SNR_WEIGHT = 0.2, 0.005
"""Of the SNR loss, in the same study."""


def snr_regulariser() -> pd.DataFrame:
    """The SNR triplet loss of one random batch with its regulariser and with the weight set to 0.

    Index: "as in the paper", "weight 0". Columns: loss, gradient (its length), drift (the length of the gradient's part
    along the sum of an image's coordinates, which the regulariser is there to keep at 0).
    """
    embeddings, labels, _ = made_batch(classes=56)
    labels = labels.sort().values
    anchors, positives, negatives = _triplets(labels)
    diagonal = torch.full((embeddings.shape[1],), embeddings.shape[1] ** -0.5, dtype=torch.float64)

    def loss(x: Tensor, factor: float) -> Tensor:
        snr = snr_distances(x)
        hinges = torch.relu(snr[anchors, positives] - snr[anchors, negatives] + SNR_MARGIN)
        return hinges.sum() / (hinges > 0).sum() + factor * x[anchors].sum(1).abs().mean()

    rows = {}
    for name, factor in (("as in the paper", SNR_WEIGHT), ("weight 0", 0.0)):
        value, gradient = value_and_gradient(lambda x, f=factor: loss(x, f), embeddings)
        rows[name] = {"loss": value, "gradient": float(gradient.norm()), "drift": float((gradient @ diagonal).norm())}
    return pd.DataFrame.from_dict(rows, orient="index")


def _triplets(labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each positive pair with the image that follows its class, or the first one."""
    same = (labels[:, None] == labels) & ~torch.eye(len(labels), dtype=torch.bool)
    anchors, positives = same.nonzero(as_tuple=True)
    negatives = torch.searchsorted(labels, labels[anchors], right=True) % len(labels)
    return anchors, positives, negatives


SOFT_TRIPLE = {"la": 8.0, "gamma": 0.1, "margin": 0.01, "centers_per_class": 2}
"""SoftTriple's settings in the same study."""


def soft_triple_of_one_public_code(embeddings: Tensor, labels: Tensor, centres: Tensor) -> Tensor:
    """SoftTriple as the same study's public code has it; centres (D, C, K).

    Each dimension is normalised over all centres, instead of each centre over its dimensions; gamma is a factor of the
    cosines, instead of their divisor; and their softmax is over the classes, instead of over the centres of a class. So
    each centre's weight is about 1 / C, however near an image is.
    """
    return _soft_triple(embeddings, labels, _dimensions_normalised(centres), 1 / SOFT_TRIPLE["gamma"], over=_CLASSES)


_CLASSES, _CENTRES = 1, 2  # dimensions of the similarities (B, C, K)


def _soft_triple(embeddings: Tensor, labels: Tensor, centres: Tensor, gamma: float, over: int) -> Tensor:
    """The classification term with centres (D, C, K) that are normalised somehow; over: what the softmax runs over."""
    to_centres = torch.einsum("bd,dck->bck", embeddings, centres)
    to_classes = (torch.softmax(to_centres / gamma, dim=over) * to_centres).sum(_CENTRES)  # (B, C)
    margins = torch.zeros_like(to_classes).scatter_(1, labels[:, None], SOFT_TRIPLE["margin"])
    return F.cross_entropy(SOFT_TRIPLE["la"] * (to_classes - margins), labels)


def _dimensions_normalised(centres: Tensor) -> Tensor:
    return F.normalize(centres.flatten(1), dim=1).unflatten(1, centres.shape[1:])


def soft_triple(embeddings: Tensor, labels: Tensor, centres: Tensor) -> Tensor:
    """Our `losses.create("soft_triple")` with these centres (D, C, K)."""
    dim, classes, _ = centres.shape
    loss = losses.create("soft_triple", num_classes=classes, embedding_dim=dim, **SOFT_TRIPLE).double()
    return torch.func.functional_call(loss, {"fc": centres.flatten(1)}, (embeddings, labels))


def soft_triple_of_perfect_batches() -> pd.DataFrame:
    """SoftTriple of images that lie on a centre of their class, and of random ones, by the formula and as changed.

    Index: "as in the paper", each change of the public code alone, "all three". Columns: perfect, random (the losses).
    One draw of 100 classes with two centres each, in 128 dimensions.
    """
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


def coreset_radius(pool: int = 512, anchors: int = 28, repeats: int = 20, seed: int = 0) -> pd.DataFrame:
    """How well chosen anchors cover the pool they are meant for: the largest distance of an image to its nearest one.

    Index: "greedy" (measured and chosen in the same pool), "another pool" (the positions that are right for one random
    pool, looked up in another), "uniform" (random anchors). Columns: mean, std over `repeats` pools. The embedding is
    a mixture of 100 Gaussian classes of unequal size.
    """
    rng = np.random.default_rng(seed)
    points, labels = clustered(classes=100, images=60, dim=8, spread=0.1)
    chances = rng.dirichlet(np.full(100, 0.5))[labels]
    chances /= chances.sum()
    radii = {"greedy": [], "another pool": [], "uniform": []}
    for _ in range(repeats):
        measured, indexed = (points[rng.choice(len(points), pool, replace=False, p=chances)] for _ in range(2))
        chosen = greedy_coreset(measured, anchors, first=int(rng.integers(pool)))
        radii["greedy"].append(covering_radius(measured, measured[chosen]))
        radii["another pool"].append(covering_radius(indexed, indexed[chosen]))
        radii["uniform"].append(covering_radius(indexed, indexed[rng.choice(pool, anchors, replace=False)]))
    return pd.DataFrame(radii).agg(["mean", "std"]).T


def covering_radius(points: np.ndarray, anchors: np.ndarray) -> float:
    """The largest distance from a point to its nearest anchor: (P, D), (A, D) -> number."""
    return float(cdist(points, anchors).min(axis=1).max())


def distance_of_heights(first: np.ndarray, second: np.ndarray) -> float:
    """The Wasserstein distance of two histograms as one study's public code computes it.

    The heights of the bins are given as samples, not as weights of the bins' places. That compares how the heights are
    distributed and forgets which bin has which: any reordering of a histogram is at distance 0 from it.
    """
    return float(wasserstein_distance(first, second))


def histogram_pairs() -> pd.DataFrame:
    """Wasserstein distances of histograms over 50 bins on [0, 2], by what is compared.

    Columns: as_weights (scipy, the heights as weights of the bins' centres), as_samples (`distance_of_heights`).
    """
    places = (np.arange(50) + 0.5) / 25
    heights = np.exp(-((places - 0.5) ** 2) / 0.05)
    heights /= heights.sum()
    others = {
        "itself": heights,
        "reversed": heights[::-1],
        "shuffled": np.random.default_rng(0).permutation(heights),
        "uniform": np.full(50, 0.02),
    }
    rows = {
        name: {
            "as_weights": float(wasserstein_distance(places, places, heights, other)),
            "as_samples": distance_of_heights(heights, other),
        }
        for name, other in others.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def histogram_choice(pools: int = 40, candidates: int = 10, seed: int = 0) -> dict[str, float]:
    """Which of ten candidate batches is taken for the most like its pool, if bin heights are compared as samples.

    pools: how many. same: the share of them in which the right distance would choose the same one (by chance
    1 / candidates). right, wrong, random: mean true distance of the batch chosen by the right distance, by the wrong
    one, and of a random one.
    The Wasserstein distance alone; the public code adds distances of means and of standard deviations to it.
    """
    rng = np.random.default_rng(seed)
    points, _ = clustered(classes=100, images=20, spread=0.1)
    outcomes = []
    for _ in range(pools):
        pool = points[rng.choice(len(points), 256, replace=False)]
        batches = [rng.choice(len(pool), 32, replace=False) for _ in range(candidates)]
        right = np.array(histogram_distances(pool, batches))
        distances = _pair_distances(pool)
        edges = np.histogram_bin_edges(distances, 50)
        whole = np.histogram(distances, edges)[0] / len(distances)
        wrong = []
        for batch in batches:
            within = _pair_distances(pool[batch])
            wrong.append(distance_of_heights(whole, np.histogram(within, edges)[0] / len(within)))
        outcomes.append((right.argmin() == np.argmin(wrong), right.min(), right[np.argmin(wrong)], right.mean()))
    means = np.mean(outcomes, axis=0).tolist()
    return dict(zip(("same", "right", "wrong", "random"), means, strict=True)) | {"pools": pools}


def _pair_distances(points: np.ndarray) -> np.ndarray:
    return cdist(points, points)[np.triu_indices(len(points), k=1)]


def own_maximum(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """Validation P@1 of the reruns: where MAP@R is highest, and its own highest, a row a study and method.

    Columns: study, method, runs, evaluations (of a run, on average), at_checkpoint (the protocol's rule: one checkpoint
    for all metrics, chosen by MAP@R), own_maximum, inflation. On validation images: the test half is read only once,
    after training, so that no record holds a curve of it.
    """
    rows = []
    for records in edition:
        reruns = records.curves[records.curves["kind"] == "rerun"]
        keys = ["method", "repetition", "number", "fold"]
        wide = reruns.pivot_table(index=[*keys, "step"], columns="metric", values="value")
        if not {"map_at_r", "precision_at_1"} <= set(wide.columns):
            continue
        best = wide.loc[wide.groupby(keys)["map_at_r"].idxmax()]["precision_at_1"].droplevel("step")
        runs = pd.DataFrame(
            {
                "evaluations": wide.groupby(keys).size(),
                "at_checkpoint": best,
                "own_maximum": wide.groupby(keys)["precision_at_1"].max(),
            }
        )
        means = runs.groupby("method").mean()
        means.insert(0, "runs", runs.groupby("method").size())
        means["inflation"] = means["own_maximum"] - means["at_checkpoint"]
        rows.append(means.reset_index().assign(study=records.name))
    columns = ["study", "method", "runs", "evaluations", "at_checkpoint", "own_maximum", "inflation"]
    return pd.concat(rows)[columns].reset_index(drop=True) if rows else pd.DataFrame(columns=columns)


def longest_curves(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of `own_maximum` of the study that validated its reruns most often; none if each was validated once."""
    evaluations = frame.groupby("study")["evaluations"].mean()
    if not (evaluations > 1).any():
        return frame.iloc[:0]
    return frame[frame["study"] == evaluations.idxmax()]


def swapped_pairs(frame: pd.DataFrame) -> int:
    """How many pairs of methods change their order with the rule. frame: one study's rows of `own_maximum`."""
    before, after = (frame[name].to_numpy() for name in ("at_checkpoint", "own_maximum"))
    signs = np.sign(before[:, None] - before) * np.sign(after[:, None] - after)
    return int((signs < 0).sum() // 2)


IMAGE = 256
SMALLEST = 40
"""Pixels: the image and the smallest crop that the Reality Check names."""
ASPECT = (3 / 4, 4 / 3)
AREA = (0.16, 1.0)
"""Bounds of the crop's share of the area in the authors' configuration."""


def crop_sides(crops: int = 50_000, seed: int = 0) -> dict[str, np.ndarray]:
    """Sides of random crops of a 256-pixel image in pixels (the root of the area), by how "40 to 256" is read.

    "0.16 to 1 of the area": what the configuration says and our augmentation draws. "40 to 256 pixels a side": the
    sentence taken at its word, the side uniform.
    """
    generator = torch.Generator().manual_seed(seed)
    boxes = augment.crop_boxes(crops, IMAGE, IMAGE, AREA, ASPECT, generator)
    sides = SMALLEST + (IMAGE - SMALLEST) * torch.rand(crops, generator=generator)
    return {
        "0.16 to 1 of the area": boxes[:, 2:].prod(dim=1).double().sqrt().numpy(),
        "40 to 256 pixels a side": sides.numpy(),
    }


def crops(sides: dict[str, np.ndarray]) -> pd.DataFrame:
    """`crop_sides` in numbers, a row a reading.

    Columns: smallest (side, the 0.1 % quantile), mean (side), below_102 (share of the crops whose side is below the
    root of the smallest area), area (mean share).
    """
    rows = {
        name: {
            "smallest": float(np.quantile(values, 0.001)),
            "mean": float(values.mean()),
            "below_102": float((values < math.sqrt(AREA[0]) * IMAGE - 1).mean()),
            "area": float(((values / IMAGE) ** 2).mean()),
        }
        for name, values in sides.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


SOP = (11_318, 11_316)
"""Classes in the training and in the testing list of Stanford Online Products."""


def sop_splits() -> pd.DataFrame:
    """Classes of SOP by split: train_val, test, and tested_training_classes (of the official training list).

    Index: "official", "first half". From the numbers of the classes alone, one image a class.
    """
    labels = np.arange(sum(SOP))
    partition = np.repeat(["train", "test"], SOP)
    parts = {"official": splits.official(labels, partition), "first half": splits.halves(labels)}
    rows = {
        name: {
            "train_val": len(part.train_val),
            "test": len(part.test),
            "tested_training_classes": int((partition[part.test] == "train").sum()),
        }
        for name, part in parts.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


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
    """The groups that pytorch-metric-learning 2.9 takes for the classes in its SmoothAPLoss: (B,) -> (B,).

    It cuts the batch into blocks of as many rows as there are classes, where a class has as many rows as it has images.
    The two are the same if the labels are sorted and there are as many classes as images a class, and only then.
    """
    return torch.arange(len(labels)) // len(labels.unique())


def smooth_ap_of_perfect_batches(
    layouts: Sequence[tuple[int, int]] = ((4, 4), (3, 4), (6, 2), (8, 4)),
) -> pd.DataFrame:
    """Smooth-AP of batches in which every class is one point, at a right angle to all others; 0 is right.

    Columns: classes, images, sorted (are the labels in order?), ours (groups by label), blocks (`consecutive_groups`).
    """
    rows = []
    for (classes, images), in_order in [*((layout, True) for layout in layouts), (layouts[0], False)]:
        labels = torch.arange(classes).repeat_interleave(images)
        if not in_order:
            labels = torch.arange(classes).repeat(images)
        embeddings = torch.eye(classes)[labels]
        rows.append(
            {
                "classes": classes,
                "images": images,
                "sorted": in_order,
                "ours": float(smooth_ap(embeddings, labels)),
                "blocks": float(smooth_ap(embeddings, consecutive_groups(labels))),
            }
        )
    return pd.DataFrame(rows)
