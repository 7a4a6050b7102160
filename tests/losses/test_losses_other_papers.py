"""The losses of Roth et al. and Fehervari et al.: against loops and pytorch-metric-learning, and at their limits."""

import itertools
import math

import loss_oracles_other_papers as oracles
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from cases import loop
from loss_oracles import LAYOUTS, LOOPED
from pytorch_metric_learning import losses as pml
from pytorch_metric_learning.distances import DotProductSimilarity, LpDistance
from sklearn.metrics import normalized_mutual_info_score
from torch import nn

from dmlrc import losses
from dmlrc.errors import DivergedError, UsageError
from dmlrc.losses import mining
from dmlrc.losses import structured_clustering as sc
from dmlrc.losses.common import distances

NUM_CLASSES, DIM, SEED = 6, 5, 7

# Hyperparameters away from the defaults and from each other, so that no two can be mixed up.
PARAMS = {
    "angular_roth": {"alpha": 35.0, "angular_weight": 1.5, "l2_weight": 0.3},
    "contrastive_distance": {"pos_margin": 0.3, "neg_margin": 1.4},
    "generalized_lifted": {"neg_margin": 0.7, "l2_weight": 0.3},
    "histogram": {"n_bins": 7},
    "margin_distance": {"margin": 0.15, "beta": 1.1},
    "multi_similarity_roth": {"alpha": 3.0, "beta": 5.0, "base": 0.4, "epsilon": 0.2},
    "n_pairs_roth": {"l2_weight": 0.3},
    "quadruplet": {"margin": 0.3, "second_margin": 0.5},
    "snr_distance": {"margin": 0.3, "regularizer_weight": 0.4},
    "triplet_distance": {"margin": 0.4},
    "triplet_softhard": {"margin": 0.4},
    "triplet_random": {"margin": 0.4},
    "triplet_semihard": {"margin": 0.4},
    "r_contrastive": {"pos_margin": 0.3, "neg_margin": 1.4, "switch_probability": 0.5},
    "r_margin": {"margin": 0.15, "beta": 1.1, "switch_probability": 0.5},
    "r_snr": {"margin": 0.3, "regularizer_weight": 0.4, "switch_probability": 0.5},
    "r_triplet": {"margin": 0.4, "switch_probability": 0.5},
    "triplet_semihard_pairs": {"margin": 0.6},
    "lifted_structure": {"neg_margin": 0.7},
    "n_pairs": {"l2_weight": 0.3},
    "structured_clustering": {"gamma": 2.5, "refinements": 2},
    "margin_distance_pairs": {"margin": 0.15, "beta": 1.1},
    "angular_fehervari": {"alpha": 35.0, "l2_weight": 0.3},
    "prototypical": {},
    "proxy_triplet": {"margin": 0.7},
    "proxy_nca_original": {"softmax_scale": 2.5},
    "ranked_list": {"margin": 0.5, "Tn": 3.0, "imbalance": 0.3, "alpha": 1.1},
    "angular": {"alpha": 35.0},
    "sphereface": {"margin": 3, "scale": 1.5},
    "triplet_hard": {"margin": 0.4},
    "tuplet_margin": {"margin": 20.0, "scale": 3.0},
}
NAMES = list(PARAMS)
PROXIES = {"proxy_triplet", "proxy_nca_original", "sphereface"}
PENALTY = {"l2_weight", "regularizer_weight"}  # what a batch without tuples still has, of an un-normalised loss


def make(name, dtype=torch.float64, **changes):
    torch.manual_seed(0)
    loss = losses.create(name, num_classes=NUM_CLASSES, embedding_dim=DIM, **{**PARAMS[name], **changes}).to(dtype)
    if isinstance(getattr(loss, "beta", None), nn.Parameter):
        loss.beta.data = torch.linspace(0.6, 1.5, NUM_CLASSES, dtype=dtype)
    return loss


def batch(labels, dtype=torch.float64, seed=1):
    """Raw vectors (a leaf) and labels."""
    generator = torch.Generator().manual_seed(seed)
    raw = torch.randn(len(labels), DIM, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    return raw, torch.tensor(labels)


def embed(loss, raw):
    """What the loss gets: unit vectors, or for an un-normalised loss vectors of length about 1."""
    return F.normalize(raw) if loss.normalized else raw / math.sqrt(DIM)


def value_and_gradients(score, loss, raw, labels):
    """The value, and its gradient for the raw vectors and for each learnt weight of the loss."""
    torch.manual_seed(SEED)
    weights = list(loss.parameters())
    value = score(embed(loss, raw), labels)
    gradients = torch.autograd.grad(value, [raw, *weights], allow_unused=True)
    return value.detach(), [
        torch.zeros_like(t) if g is None else g for t, g in zip([raw, *weights], gradients, strict=True)
    ]


def assert_same(ours, theirs, tolerance=1e-9):
    (value, gradients), (expected, expected_gradients) = ours, theirs
    torch.testing.assert_close(value, expected, rtol=tolerance, atol=tolerance)
    for gradient, other in zip(gradients, expected_gradients, strict=True):
        scale = max(1.0, float(other.abs().max()))
        torch.testing.assert_close(gradient / scale, other.reshape(gradient.shape) / scale, rtol=0, atol=tolerance)


def as_list(tuples):
    return [tuple(row) for row in torch.stack(tuples, 1).tolist()]


def tuples_of(name, x, labels):
    """The tuples that the loss draws after `torch.manual_seed(SEED)`, from the miner itself."""
    torch.manual_seed(SEED)
    x = x.detach()
    d = torch.tensor([[float((a - b).norm()) for b in x] for a in x], dtype=x.dtype)
    if name == "triplet_random":
        return mining.random_triplets(labels)
    if name == "triplet_semihard":
        return mining.semihard_triplets(d, labels, PARAMS[name]["margin"])
    if name == "triplet_softhard":
        return mining.softhard_triplets(d, labels)
    if name == "triplet_hard":
        return mining.hard_triplets(d, labels)
    if name == "triplet_semihard_pairs":
        return mining.nearest_semihard_triplets(d, labels)
    if name == "margin_distance_pairs":
        return mining.distance_weighted_pairs(d, labels, DIM)
    triplets = mining.distance_weighted_triplets(d, labels, DIM)
    if name == "quadruplet":
        return (*triplets, mining.choose_other_class(labels, triplets))
    return mining.switch_negatives(triplets, 0.5) if name.startswith("r_") else triplets


def medoids_of(x, labels):
    """The medoids of structured clustering, which have tests of their own below."""
    params = PARAMS["structured_clustering"]
    _, classes = labels.unique(return_inverse=True)
    d = distances(x.detach())
    medoids = sc.greedy_medoids(d, classes, params["gamma"])
    return sc.refine_medoids(d, classes, medoids, params["gamma"], params["refinements"]).tolist()


def oracle(name, loss, **changes):
    """The loops for a loss, as a function of the same two arguments; the weights are those of the loss."""
    params = {**PARAMS[name], **changes}
    params.pop("switch_probability", None)

    def score(x, labels):
        listed = labels.tolist()
        if name in ("angular_roth", "n_pairs_roth"):
            torch.manual_seed(SEED)
            return getattr(oracles, name)(x, listed, as_list(mining.random_pairs(labels)), **params)
        if name in PROXIES:
            weights = loss.W.T if name == "sphereface" else loss.proxies
            return getattr(oracles, name)(x, listed, [w / w.norm() for w in weights], **params)
        if name == "structured_clustering":
            return oracles.structured_clustering(x, listed, medoids_of(x, labels), params["gamma"])
        if hasattr(oracles, name) and name != "quadruplet":
            return getattr(oracles, name)(x, listed, **params)
        tuples = as_list(tuples_of(name, x, labels))
        if name == "quadruplet":
            return oracles.quadruplet(x, listed, tuples, **params)
        if "margin" in name:
            return oracles.mined_margin(x, listed, tuples, list(loss.beta), params["margin"])
        kind = next(kind for kind in ("triplet", "contrastive", "snr") if kind in name)
        return getattr(oracles, f"mined_{kind}")(x, listed, tuples, **params)

    return score


def test_registry():
    """Every loss of the package is tested: here, as one of the fourteen, or as one of the six after 2019."""
    assert losses.names()[14:-6] == NAMES


@loop("name, layout", itertools.product(NAMES, LOOPED))
def test_equals_loops(name, layout):
    loss = make(name)
    raw, labels = batch(LAYOUTS[layout])
    assert_same(
        value_and_gradients(loss, loss, raw, labels), value_and_gradients(oracle(name, loss), loss, raw, labels)
    )


@loop("name", NAMES)
def test_float32_and_duplicates_stay_finite(name):
    """A collapsed embedding (all points equal), and classes that share a point, have finite values and gradients."""
    loss = make(name, torch.float32)
    raw, labels = batch(LAYOUTS["uneven"], torch.float32)
    for points in (raw, raw[:1].expand_as(raw), raw[labels % min(2, len(raw))]):
        leaf = points.detach().clone().requires_grad_()
        value, gradients = value_and_gradients(loss, loss, leaf, labels)
        assert value.dtype == torch.float32
        assert value.ndim == 0
        assert all(torch.isfinite(t).all() for t in (value, *gradients))


@loop("name", NAMES)
def test_bad_batches(name):
    loss = make(name, torch.float32)
    with pytest.raises(DivergedError, match="NaN"):
        loss(torch.full((4, DIM), torch.nan), torch.tensor([0, 0, 1, 1]))
    with pytest.raises(UsageError, match="embeddings"):
        loss(torch.ones(4, DIM), torch.tensor([0, 0, 1]))
    if list(loss.parameters()):
        with pytest.raises(UsageError, match="classes 0 to"):
            loss(torch.ones(2, DIM), torch.tensor([0, NUM_CLASSES]))


def test_which_losses_are_not_normalised():
    """Roth et al.: N-pair, angular, lifted. Fehervari et al., Table 1: these without "normalize last layer"."""
    assert {name for name in NAMES if not losses.REGISTRY[name].normalized} == {
        *("angular_roth", "generalized_lifted", "n_pairs_roth"),
        *("triplet_semihard_pairs", "lifted_structure", "n_pairs", "angular_fehervari", "prototypical"),
        *("angular", "sphereface"),
    }


# pytorch-metric-learning


class Pml(nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.loss = loss

    def forward(self, x, labels):
        return self.loss(x, labels)


PML = {
    "lifted_structure": lambda p: pml.LiftedStructureLoss(
        neg_margin=p["neg_margin"], distance=LpDistance(normalize_embeddings=False)
    ),
    "generalized_lifted": lambda p: pml.GeneralizedLiftedStructureLoss(
        neg_margin=p["neg_margin"], distance=LpDistance(normalize_embeddings=False)
    ),
    "n_pairs": lambda p: pml.NPairsLoss(distance=DotProductSimilarity(normalize_embeddings=False)),
    "histogram": lambda p: pml.HistogramLoss(n_bins=p["n_bins"]),
    "ranked_list": lambda p: pml.RankedListLoss(p["margin"], p["Tn"], imbalance=p["imbalance"], alpha=p["alpha"]),
    "tuplet_margin": lambda p: pml.TupletMarginLoss(margin=p["margin"], scale=p["scale"]),
    "angular": lambda p: pml.AngularLoss(alpha=p["alpha"]),
    "sphereface": lambda p: pml.SphereFaceLoss(NUM_CLASSES, DIM, margin=p["margin"], scale=p["scale"]),
}


@pytest.mark.filterwarnings("ignore")  # of pytorch-metric-learning under a later NumPy and torch
@loop("name, labels", itertools.product(PML, [LAYOUTS["6x4"], [2, 0, 1, 1, 0, 2, 2, 1, 0]]))
def test_equals_pytorch_metric_learning(name, labels):
    loss = make(name, **dict.fromkeys(PENALTY & PARAMS[name].keys(), 0.0))
    theirs = PML[name](PARAMS[name]).double()
    if name == "sphereface":
        theirs.W = loss.W
    if name == "angular":
        loss.normalized = True  # pytorch-metric-learning's is Wang et al.'s function on normalised embeddings only
    raw, labels = batch(labels)
    tolerance = 2e-3 if name == "ranked_list" else 1e-6  # theirs adds 1e-5 a sample to its denominators
    assert_same(
        value_and_gradients(loss, loss, raw, labels), value_and_gradients(Pml(theirs), loss, raw, labels), tolerance
    )


def test_n_pairs_keeps_the_scale_of_the_embeddings():
    """pytorch-metric-learning's inner product does not normalise either; a distance loss of ours must not."""
    raw, labels = batch(LAYOUTS["6x4"])
    for name in ("n_pairs", "angular", "lifted_structure", "generalized_lifted", "prototypical"):
        loss = make(name)
        assert abs(loss(raw, labels) - loss(2 * raw, labels)) > 1e-2


# Identities and limiting cases


def test_random_tuples_follow_the_seed():
    """The same seed of torch, the same value; another, another."""
    raw, labels = batch(LAYOUTS["6x4"])
    for name in ("triplet_random", "margin_distance", "r_snr", "quadruplet", "n_pairs_roth", "angular_roth"):
        loss = make(name)
        x = embed(loss, raw)
        values = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            values.append(loss(x, labels).item())
        assert values[0] == values[1] != values[2]


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("r_contrastive", "contrastive_distance"),
        ("r_margin", "margin_distance"),
        ("r_snr", "snr_distance"),
        ("r_triplet", "triplet_distance"),
    ],
)
def test_rho_regularisation_at_its_ends(name, base):
    """Never switched it is the plain loss; always switched it only pushes samples of one class apart."""
    raw, labels = batch(LAYOUTS["6x4"])
    never, plain = make(name, switch_probability=0.0), make(base)
    ours, theirs = (value_and_gradients(loss, loss, raw, labels) for loss in (never, plain))
    assert_same(ours, theirs)
    x = F.normalize(torch.eye(6, dtype=torch.float64)[labels][:, :5] + 1 + 0.1 * raw.detach()).requires_grad_()
    always = make(name, switch_probability=1.0, **({"regularizer_weight": 0.0} if "snr" in name else {}))
    torch.manual_seed(SEED)
    (gradient,) = torch.autograd.grad(always(x, labels), x)
    before, after = x.detach(), x.detach() - 0.01 * gradient
    positive = (labels[:, None] == labels) & ~torch.eye(len(labels), dtype=torch.bool)
    assert (distances(after) - distances(before))[positive].mean() > 0


@pytest.mark.parametrize("name", ["margin_distance", "r_margin", "margin_distance_pairs"])
def test_the_boundaries_begin_where_they_are_told_to(name):
    beta = losses.create(name, num_classes=NUM_CLASSES, beta=0.6).beta
    torch.testing.assert_close(beta.detach(), torch.full((NUM_CLASSES,), 0.6))


def test_with_every_hinge_active_the_boundaries_of_margin_cancel():
    """Then margin_distance is the mean of d_ap - d_an + 2 margin over its triplets, halved."""
    loss = make("margin_distance", margin=3.0)
    raw, labels = batch(LAYOUTS["6x4"])
    x = F.normalize(raw)
    d = distances(x)
    a, p, n = tuples_of("margin_distance", x, labels)
    torch.manual_seed(SEED)
    torch.testing.assert_close(loss(x, labels), (d[a, p] - d[a, n] + 6.0).mean() / 2)


def test_histogram_limits():
    """0 when every positive pair is more similar than every negative, 1 in the reverse; a half for equal histograms."""
    loss = losses.create("histogram", n_bins=50)
    labels = torch.tensor([0, 0, 1, 1])
    apart = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])
    assert loss(apart, labels) == 0
    mixed = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    assert loss(mixed, labels) == 1
    assert loss(torch.tensor([[1.0, 0.0]]).repeat(4, 1), labels) == 1  # one node holds both: a tie counts as reversed


def test_histogram_estimates_the_probability_of_a_reversal():
    """With many bins the loss is P(positive similarity <= negative similarity), counted over all pairs of pairs."""
    x = F.normalize(torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    labels = torch.arange(40) % 5
    s = x @ x.T
    upper = torch.ones(40, 40).triu(1).bool()
    same = labels[:, None] == labels
    count = (s[upper & same][:, None] <= s[upper & ~same][None, :]).double().mean()
    assert abs(losses.create("histogram", n_bins=20000)(x, labels) - count) < 1e-3


def test_roths_65_bins_are_64_intervals():
    """Similarities exactly on the 65 nodes of step 2/64 are not split."""
    loss = losses.create("histogram", n_bins=64)
    cosine = -1 + 2 * 20 / 64
    x = torch.tensor([[1.0, 0.0], [cosine, math.sqrt(1 - cosine**2)], [1.0, 0.0]], dtype=torch.float64)
    shares = loss._histogram(x @ x.T, torch.tensor([[False, True, False], [False] * 3, [False] * 3]))
    assert len(shares) == 65
    assert abs(shares[20] - 1) < 1e-12


def test_proxy_nca_forms():
    """The original is -log(P / (1 - P)) where Musgrave et al. have -log P; x 3 is a softmax scale of 9."""
    raw, labels = batch(LAYOUTS["6x4"])
    x = F.normalize(raw)
    original = make("proxy_nca_original", softmax_scale=9.0)
    inclusive = losses.create("proxy_nca", num_classes=NUM_CLASSES, embedding_dim=DIM, softmax_scale=9.0).double()
    inclusive.proxies.data = original.proxies.data
    proxies = F.normalize(original.proxies)
    d = ((3 * x[:, None] - 3 * proxies) ** 2).sum(2)
    own = torch.softmax(-d, 1)[range(len(labels)), labels]
    torch.testing.assert_close(inclusive(x, labels), -own.log().mean())
    torch.testing.assert_close(original(x, labels), -(own / (1 - own)).log().mean())
    perfect = F.normalize(original.proxies.detach())[labels]
    assert original(perfect, labels) < 0 < inclusive(perfect, labels)


def test_sphereface_falls_with_the_angle_and_is_softmax_for_margin_1():
    from dmlrc.losses.sphereface import _psi

    theta = torch.linspace(0, math.pi, 1001, dtype=torch.float64)
    psi = _psi(theta.cos(), 4)
    assert (psi.diff() < 1e-12).all()
    torch.testing.assert_close(psi[[0, -1]], torch.tensor([1.0, -7.0], dtype=torch.float64))
    raw, labels = batch(LAYOUTS["6x4"])
    loss = make("sphereface", margin=1, scale=1.0)
    torch.testing.assert_close(loss(raw, labels), F.cross_entropy(raw @ F.normalize(loss.W, dim=0), labels))


def test_tuplet_margin_with_one_negative_and_no_slack_is_a_softplus():
    x = F.normalize(torch.tensor([[1.0, 0.2], [1.0, -0.3], [0.1, 1.0]], dtype=torch.float64))
    labels = torch.tensor([0, 0, 1])
    loss = losses.create("tuplet_margin", margin=0.0, scale=5.0)
    s = x @ x.T
    expected = (F.softplus(5 * (s[0, 2] - s[0, 1])) + F.softplus(5 * (s[1, 2] - s[0, 1]))) / 2
    torch.testing.assert_close(loss(x, labels), expected)


def test_ranked_list_weights_the_nearest_negative_alone_in_the_limit():
    x = torch.tensor([[0.0, 0.0], [0.1, 0.0], [0.5, 0.0], [0.0, 0.9]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 2])
    loss = losses.create("ranked_list", margin=0.4, alpha=1.2, Tn=10000.0, imbalance=1.0)
    d = distances(x)
    nearest = torch.stack([d[0, 2], d[1, 2], d[2, 1], d[3, 0]])
    torch.testing.assert_close(loss(x, labels), (1.2 - nearest).mean())
    even = losses.create("ranked_list", margin=0.4, alpha=1.2, Tn=0.0, imbalance=1.0)
    gaps = [[1.2 - d[i, j] for j in range(4) if labels[j] != labels[i] and d[i, j] < 1.2] for i in range(4)]
    torch.testing.assert_close(even(x, labels), torch.stack([sum(g) / len(g) for g in gaps]).mean())


def test_generalized_lifted_with_one_positive_and_one_negative_is_a_triplet_hinge():
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.5]], dtype=torch.float64)
    loss = losses.create("generalized_lifted", neg_margin=1.0)
    expected = (torch.tensor(1.0 + 1.0 - 1.5) + max(0.0, 1.0 + 1.0 - math.hypot(1.0, 1.5))) / 2
    torch.testing.assert_close(loss(x, torch.tensor([0, 0, 1])), expected.double())


def test_prototypical_of_a_one_shot_episode_is_a_softmax_over_distances():
    """Two images a class: the first is the prototype, the second the query. Nothing depends on the order of classes."""
    raw, labels = batch([3, 0, 1, 1, 0, 3])
    x = raw.detach()
    supports, queries = x[[1, 2, 0]], x[[4, 3, 5]]
    expected = F.cross_entropy(-(torch.cdist(queries, supports) ** 2), torch.arange(3))
    torch.testing.assert_close(make("prototypical")(x, labels), expected)


def test_prototypical_leaves_classes_of_one_image_out():
    raw, labels = batch([0, 0, 1, 1, 5])
    torch.testing.assert_close(make("prototypical")(raw, labels), make("prototypical")(raw[:4], labels[:4]))


def test_fehervaris_and_wangs_angular_loss_differ_in_their_tuples():
    """On one pair a class they share the terms of the pair's own order; Wang et al. have the partners' as well."""
    raw, labels = batch([0, 0, 1, 1])
    x = raw.detach() / 2
    a, p = x[[0, 2]], x[[1, 3]]

    def f(a, p, n):
        return 4 * (a + p) @ n - 4 * a @ p

    own = [F.softplus(f(a[0], p[0], p[1])), F.softplus(f(a[1], p[1], p[0]))]
    loss = losses.create("angular_fehervari", alpha=45.0, l2_weight=0.0)
    torch.testing.assert_close(loss(x, labels), sum(own) / 2)
    assert abs(losses.create("angular", alpha=45.0)(x, labels) - loss(x, labels)) > 1e-2


def test_multi_similarity_roth_averages_over_mined_anchors_only():
    """Equal to the original where every sample keeps a pair, larger by B / mined where some keep none."""
    loss, original = losses.create("multi_similarity_roth"), losses.create("multi_similarity_miner", beta=40.0)
    angles = torch.tensor([0.0, 0.6, 0.9, 2.6, 2.7])
    x = torch.stack([angles.cos(), angles.sin()], 1)
    labels = torch.tensor([0, 0, 1, 2, 2])
    kept = mining.multi_similarity_pairs(x @ x.T, labels, 0.1)[0].any(1).sum()
    assert 0 < kept < 5
    torch.testing.assert_close(loss(x, labels), original(x, labels) * 5 / kept)


def test_quadruplet_needs_a_third_class():
    """With two classes only the triplet term is left; a huge second margin shows that it is the only one."""
    raw, labels = batch([0, 0, 1, 1])
    x = F.normalize(raw)
    a, b = (losses.create("quadruplet", margin=0.3, second_margin=m) for m in (0.0, 100.0))
    torch.manual_seed(SEED)
    value = a(x, labels)
    torch.manual_seed(SEED)
    assert value == b(x, labels)


def test_the_snr_regulariser_is_never_switched_off():
    """Roth et al.'s public code sets its weight to 0 for one miner; here its weight is what the constructor says."""
    raw, labels = batch(LAYOUTS["6x4"])
    x = F.normalize(raw)
    for name in ("snr_distance", "r_snr"):
        values = []
        for weight in (0.0, 1.0):
            torch.manual_seed(SEED)
            values.append(losses.create(name, regularizer_weight=weight)(x, labels))
        torch.testing.assert_close(values[1] - values[0], x.sum(1).abs().mean())


# Structured clustering


def _instance(seed, labels, dim=2):
    x = torch.randn(len(labels), dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return distances(x), torch.tensor(labels)


TINY = [[0, 0, 1, 1], [0, 0, 0, 1, 1, 2], [0, 1, 2, 0, 1, 2, 0], [0, 0, 1, 1, 2, 2, 3, 3]]


@pytest.mark.parametrize("labels", TINY[1:])
@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_greedy_medoids_against_brute_force(labels, gamma):
    """Each step takes the best of all candidates, up to rounding; often the result is the best of all sets."""
    found = 0
    for seed in range(10):
        d, classes = _instance(seed, labels)
        rows = d.tolist()
        medoids = sc.greedy_medoids(d, classes, gamma)
        assert len(set(medoids.tolist())) == len(set(labels))
        assert max(oracles.greedy_regrets(rows, labels, medoids.tolist(), gamma)) < 1e-12
        refined = sc.refine_medoids(d, classes, medoids, gamma, 1)
        assert max(oracles.refinement_regrets(rows, labels, medoids.tolist(), refined.tolist(), gamma)) < 1e-12
        every = itertools.combinations(range(len(labels)), len(set(labels)))
        best = max(oracles.augmented_score(rows, labels, list(s), gamma) for s in every)
        greedy = oracles.augmented_score(rows, labels, medoids.tolist(), gamma)
        assert greedy < best + 1e-12
        found += greedy > best - 1e-12
    assert found >= 3


def test_a_wrong_medoid_has_a_regret():
    d, classes = _instance(0, TINY[1])
    rows, labels = d.tolist(), TINY[1]
    medoids = sc.greedy_medoids(d, classes, 1.0).tolist()
    assert max(oracles.greedy_regrets(rows, labels, medoids[::-1], 1.0)) > 1e-3


def test_refinement_ends_at_a_fixed_point():
    for seed in range(10):
        d, classes = _instance(seed, TINY[3])
        start = torch.tensor([0, 1, 2, 3])
        many = sc.refine_medoids(d, classes, start, 1.0, 50)
        assert torch.equal(many, sc.refine_medoids(d, classes, many, 1.0, 1))


def test_greedy_medoids_without_margin_are_within_the_submodular_bound():
    """For gamma = 0, F(S) over that of a medoid far from all is monotone submodular: 63 % of the best or more."""
    for seed in range(20):
        d, classes = _instance(seed, [0, 0, 1, 1, 2, 2, 3])
        base = -d.max(1).values.sum()
        greedy = sc.facility_score(d, sc.greedy_medoids(d, classes, 0.0)) - base
        best = max(sc.facility_score(d, torch.tensor(s)) - base for s in itertools.combinations(range(len(classes)), 4))
        assert greedy >= (1 - 1 / math.e) * best


def test_medoids_of_two_groups_on_a_line():
    """Drawn: classes mixed over two groups. Without margin the medoids are the groups' middles."""
    x = torch.tensor([0.0, 1.0, 2.0, 10.0, 11.0, 12.0])[:, None]
    d, mixed = distances(x), torch.tensor([0, 1, 0, 1, 0, 1])
    medoids = sc.refine_medoids(d, mixed, torch.tensor([0, 3]), 0.0, 5)
    assert medoids.tolist() == [1, 4]
    assert sc.facility_score(d, medoids) == -4
    assert sc.assign(d, medoids).tolist() == [0, 0, 0, 1, 1, 1]
    assert sc.true_score(d, torch.tensor([0, 0, 0, 1, 1, 1])) == -4
    assert sc.true_score(d, mixed) == -22  # 0, 2, 11 around 2; 1, 10, 12 around 10


def test_structured_clustering_is_zero_for_a_perfect_embedding():
    """Classes at single points far apart: any wrong clustering costs more distance than the margin gives."""
    corners = torch.eye(4, dtype=torch.float64)
    labels = torch.arange(4).repeat_interleave(3)
    x = corners[labels].requires_grad_()
    loss = losses.create("structured_clustering", gamma=1.0)
    assert loss(x, labels) == 0
    assert losses.create("structured_clustering", gamma=1000.0)(x, labels) > 0


def test_duplicates_keep_their_own_cluster():
    """Two medoids at one point: each is in its own cluster, and the others in the first."""
    d = torch.zeros(4, 4)
    assert sc.assign(d, torch.tensor([2, 0])).tolist() == [1, 0, 0, 0]


def test_mutual_information_against_scikit_learn():
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 4, 30)
    clusterings = rng.integers(0, 5, (50, 30))
    clusterings[0], clusterings[1] = classes, 0
    nmi = sc.normalized_mutual_information(torch.tensor(clusterings), torch.tensor(classes), torch.float64)
    expected = [normalized_mutual_info_score(classes, row, average_method="geometric") for row in clusterings]
    np.testing.assert_allclose(nmi.numpy(), expected, atol=1e-12)
    assert nmi[0] == pytest.approx(1)
    one = torch.zeros(5, dtype=torch.int64)
    assert sc.normalized_mutual_information(one, one, torch.float64) == 1
