"""The fourteen losses of the Reality Check: against loops, against pytorch-metric-learning, and at their limits."""

import itertools
import math
from types import SimpleNamespace

import loss_oracles as oracles
import pytest
import torch
import torch.nn.functional as F
from cases import loop
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_oracles import LAYOUTS, LOOPED
from pytorch_metric_learning import losses as pml
from pytorch_metric_learning import miners, regularizers
from scipy.spatial.distance import cdist
from torch import nn

from dmlrc import losses
from dmlrc.errors import DivergedError, UsageError
from dmlrc.losses import common, inputs
from dmlrc.losses.mining import multi_similarity_pairs
from dmlrc.losses.softmax import _add_angle
from dmlrc.methods import LOSS_WEIGHTS_LR
from dmlrc.papers.musgrave2020 import METHODS

NUM_CLASSES, DIM = 6, 5

# Hyperparameters away from the defaults and from each other, so that no two can be mixed up.
PARAMS = {
    "contrastive": {"pos_margin": 0.3, "neg_margin": 1.4},
    "triplet": {"margin": 0.4},
    "ntxent": {"temperature": 0.3},
    "proxy_nca": {"softmax_scale": 2.5},
    "margin": {"margin": 0.15, "beta": 1.1},
    "margin_per_class": {"margin": 0.15, "beta": 1.1},
    "normalized_softmax": {"temperature": 0.4},
    "cosface": {"margin": 0.2, "scale": 3.0},
    "arcface": {"margin": 50.0, "scale": 3.0},
    "fast_ap": {"num_bins": 7},
    "snr": {"pos_margin": 0.5, "neg_margin": 1.7, "regularizer_weight": 0.3},
    "multi_similarity": {"alpha": 3.0, "beta": 5.0, "base": 0.4},
    "multi_similarity_miner": {"alpha": 3.0, "beta": 5.0, "base": 0.4, "epsilon": 0.2},
    "soft_triple": {"la": 4.0, "gamma": 0.6, "reg_weight": 0.3, "margin": 0.2, "centers_per_class": 3},
}
NAMES = list(PARAMS)


def make(name, dtype=torch.float64, dim=DIM, seed=0, **changes):
    """A loss with PARAMS and distinct learnt weights."""
    torch.manual_seed(seed)
    loss = losses.create(name, num_classes=NUM_CLASSES, embedding_dim=dim, **{**PARAMS[name], **changes}).to(dtype)
    if name == "margin_per_class":
        loss.beta.data = torch.linspace(0.6, 1.5, NUM_CLASSES, dtype=dtype)
    return loss


def batch(labels, dtype=torch.float64, dim=DIM, seed=1):
    """Raw vectors (a leaf) and labels; the losses get the normalised vectors."""
    generator = torch.Generator().manual_seed(seed)
    raw = torch.randn(len(labels), dim, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    return raw, torch.tensor(labels)


def with_duplicates(labels, **kwargs):
    """As `batch`, but each class is one point, and two classes share theirs."""
    raw, labels = batch(labels, **kwargs)
    raw = raw.detach()[labels % 3].clone().requires_grad_()
    return raw, labels


def value_and_gradients(loss, raw, labels):
    """The value, and its gradient for the raw vectors and for each learnt weight."""
    weights = list(loss.parameters())
    value = loss(F.normalize(raw), labels)
    gradients = torch.autograd.grad(value, [raw, *weights], allow_unused=True)
    return value.detach(), [
        torch.zeros_like(t) if g is None else g for t, g in zip([raw, *weights], gradients, strict=True)
    ]


def assert_same(ours, theirs, tolerance):
    """Values relative to 1, gradients relative to the largest of their tensor."""
    (value, gradients), (expected, expected_gradients) = ours, theirs
    torch.testing.assert_close(value, expected, rtol=tolerance, atol=tolerance)
    for gradient, other in zip(gradients, expected_gradients, strict=True):
        scale = max(1.0, float(other.abs().max()))
        torch.testing.assert_close(gradient / scale, other.reshape(gradient.shape) / scale, rtol=0, atol=tolerance)


class Oracle(nn.Module):
    """The loops of `loss_oracles`, reading the learnt weights of one of our losses."""

    def __init__(self, name, loss, **params):
        super().__init__()
        self.name, self.loss, self.params = name, loss, {**PARAMS[name], **params}

    def forward(self, x, labels):
        labels, params = labels.tolist(), dict(self.params)
        if self.name in ("margin", "margin_per_class"):
            del params["beta"]
            beta = list(self.loss.beta.expand(NUM_CLASSES))
            return oracles.margin(x, labels, beta, **params)
        if self.name == "proxy_nca":
            return oracles.proxy_nca(x, labels, [p / p.norm() for p in self.loss.proxies], **params)
        if self.name in ("normalized_softmax", "cosface", "arcface"):
            return getattr(oracles, self.name)(x, labels, [w / w.norm() for w in self.loss.W.T], **params)
        if self.name == "soft_triple":
            K = params.pop("centers_per_class")
            columns = [w / w.norm() for w in self.loss.fc.T]
            centers = [columns[c * K : (c + 1) * K] for c in range(NUM_CLASSES)]
            return oracles.soft_triple(x, labels, centers, **params)
        if self.name == "multi_similarity_miner":
            return oracles.multi_similarity(x, labels, **params)
        return getattr(oracles, self.name)(x, labels, **params)


class WithMiner(nn.Module):
    def __init__(self, loss, miner):
        super().__init__()
        self.loss, self.miner = loss, miner

    def forward(self, x, labels):
        return self.loss(x, labels, self.miner(x, labels))


def make_pml(name, ours=None, dim=DIM, **params):
    """The unmodified loss of pytorch-metric-learning, with the learnt weights of ours if given."""
    sizes = {"num_classes": NUM_CLASSES, "embedding_size": dim}
    if name == "multi_similarity_miner":
        mining = {"epsilon": params.pop("epsilon")} if "epsilon" in params else {}
        return WithMiner(pml.MultiSimilarityLoss(**params), miners.MultiSimilarityMiner(**mining))
    if name == "snr" and "regularizer_weight" in params:
        params["embedding_reg_weight"] = params.pop("regularizer_weight")
        params["embedding_regularizer"] = regularizers.ZeroMeanRegularizer()
    if name == "soft_triple" and "reg_weight" in params:
        params["weight_reg_weight"] = params.pop("reg_weight")
        params["weight_regularizer"] = regularizers.SparseCentersRegularizer(NUM_CLASSES, params["centers_per_class"])
    cls, fixed = {
        "contrastive": (pml.ContrastiveLoss, {}),
        "triplet": (pml.TripletMarginLoss, {}),
        "ntxent": (pml.NTXentLoss, {}),
        "proxy_nca": (pml.ProxyNCALoss, sizes),
        "margin": (pml.MarginLoss, {"learn_beta": True}),
        "margin_per_class": (pml.MarginLoss, {"learn_beta": True, "num_classes": NUM_CLASSES}),
        "normalized_softmax": (pml.NormalizedSoftmaxLoss, sizes),
        "cosface": (pml.CosFaceLoss, sizes),
        "arcface": (pml.ArcFaceLoss, sizes),
        "fast_ap": (pml.FastAPLoss, {}),
        "snr": (pml.SignalToNoiseRatioContrastiveLoss, {}),
        "multi_similarity": (pml.MultiSimilarityLoss, {}),
        "soft_triple": (pml.SoftTripleLoss, sizes),
    }[name]
    theirs = cls(**fixed, **params)
    if ours is not None and ours.state_dict():
        theirs.to(next(ours.parameters()).dtype).load_state_dict(ours.state_dict())
    return theirs


# --- against the loops and against pytorch-metric-learning ---


@loop("name, layout", itertools.product(NAMES, LOOPED))
def test_loss_is_the_loop_over_its_equation(name, layout):
    loss = make(name)
    oracle = Oracle(name, loss)
    for make_batch in (batch, with_duplicates):
        raw, labels = make_batch(LAYOUTS[layout])
        assert_same(value_and_gradients(loss, raw, labels), value_and_gradients(oracle, raw, labels), 1e-9)


@loop("name", NAMES)
def test_every_hyperparameter_matters(name):
    """The comparison with the loops would notice a hyperparameter that is a tenth off, or not read at all."""
    raw, labels = batch(LAYOUTS["4x3"])
    value = make(name)(F.normalize(raw), labels)
    for parameter, number in PARAMS[name].items():
        if name == "margin_per_class" and parameter == "beta":
            continue  # the initial value only: `make` sets the boundaries
        changed = number + 1 if isinstance(number, int) else number * 1.1
        assert abs(make(name, **{parameter: changed})(F.normalize(raw), labels) - value) > 1e-6, parameter


@loop("name, layout", itertools.product(NAMES, ["6x4", "uneven"]))
def test_loss_is_that_of_pytorch_metric_learning(name, layout):
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 2e-5)):
        loss = make(name, dtype)
        theirs = make_pml(name, loss, **PARAMS[name])
        for make_batch in (batch, with_duplicates):
            raw, labels = make_batch(LAYOUTS[layout], dtype=dtype)
            assert_same(value_and_gradients(loss, raw, labels), value_and_gradients(theirs, raw, labels), tolerance)


@loop("name", NAMES)
def test_real_batches_are_those_of_pytorch_metric_learning(name):
    dim, labels = 128, torch.arange(8).repeat_interleave(4) % NUM_CLASSES
    raw, _ = batch(labels.tolist(), torch.float32, dim)
    loss = make(name, torch.float32, dim)
    theirs = make_pml(name, loss, dim, **PARAMS[name])
    assert_same(value_and_gradients(loss, raw, labels), value_and_gradients(theirs, raw, labels), 5e-5)


@loop("name", NAMES)
def test_defaults_and_initial_weights_are_those_of_pytorch_metric_learning(name):
    torch.manual_seed(3)
    loss = losses.create(name, num_classes=NUM_CLASSES, embedding_dim=DIM)
    torch.manual_seed(3)
    theirs = make_pml(name)
    for weight, other in zip(loss.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(weight, other, rtol=0, atol=0)
    raw, labels = batch(LAYOUTS["6x4"], torch.float32)
    assert_same(value_and_gradients(loss, raw, labels), value_and_gradients(theirs, raw, labels), 1e-4)


# --- where pytorch-metric-learning and the equation part ---


def test_ntxent_keeps_its_gradient_where_pytorch_metric_learning_loses_it():
    raw = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]], requires_grad=True)
    labels = torch.tensor([0, 0, 1])
    loss = losses.create("ntxent", temperature=0.001)
    value, (gradient,) = value_and_gradients(loss, raw, labels)
    x = F.normalize(raw.detach())
    lead = (x @ x[2] - x[0] @ x[1])[:2] / 0.001  # of the negative over the positive: 995 and 100
    torch.testing.assert_close(value, lead.mean())
    theirs, (their_gradient,) = value_and_gradients(pml.NTXentLoss(temperature=0.001), raw, labels)
    assert theirs.item() == pytest.approx(-math.log(torch.finfo(torch.float32).tiny), rel=1e-4)  # 87.3
    assert their_gradient.abs().max() < 1e-4 * gradient.abs().max()


def test_proxy_nca_counts_the_samples_that_pytorch_metric_learning_drops():
    loss = losses.create("proxy_nca", num_classes=2, embedding_dim=2, softmax_scale=50.0)
    loss.proxies.data = torch.eye(2)
    x, labels = torch.tensor([[1.0, 0.0], [0.0, -1.0]]), torch.tensor([1, 1])
    # Squared distances to the two proxies: 0 and 2; 2 and 4. Both samples are 100 nats on the wrong side,
    # which float32 cannot tell from probability 0 once the scale is 60: 120 nats.
    assert loss(x, labels).item() == pytest.approx(100.0)
    loss.softmax_scale = 60.0
    assert loss(x, labels).item() == pytest.approx(120.0)
    theirs = pml.ProxyNCALoss(num_classes=2, embedding_size=2, softmax_scale=60.0)
    theirs.load_state_dict(loss.state_dict())
    right = torch.tensor([[0.0, 1.0]])
    assert torch.isnan(theirs(x, labels))  # the mean of no sample
    assert theirs(torch.cat((x, right)), torch.tensor([1, 1, 1])).item() == 0.0
    assert loss(torch.cat((x, right)), torch.tensor([1, 1, 1])).item() == pytest.approx(80.0)


def test_one_mined_pair_of_each_kind_still_counts():
    """pytorch-metric-learning returns 0 for them; a single anchor with both is a batch like any other."""
    angles = torch.tensor([0.0, 80.0, 85.0]).deg2rad()
    x, labels = torch.stack((angles.cos(), angles.sin()), 1), torch.tensor([0, 0, 1])
    positive, negative = multi_similarity_pairs(x @ x.T, labels, 0.0)
    assert positive.nonzero().tolist() == [[1, 0]]
    assert negative.nonzero().tolist() == [[1, 2]]
    params = {"alpha": 2.0, "beta": 5.0, "base": 0.5, "epsilon": 0.0}
    expected = oracles.multi_similarity(x.double(), labels.tolist(), **params)
    assert float(losses.create("multi_similarity_miner", **params)(x, labels)) == pytest.approx(expected.item())
    assert expected > 0.1
    assert float(make_pml("multi_similarity_miner", **params)(x, labels)) == 0.0


# --- points that can be drawn ---


def points(*degrees):
    angles = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack((angles.cos(), angles.sin()), 1)


SQUARE = points(0, 90, 180)  # distances: sqrt 2, sqrt 2, and 2 between the first and the last
ROOT = math.sqrt(2)


def test_contrastive_by_hand():
    loss = losses.create("contrastive", pos_margin=0.5, neg_margin=1.5)
    value = loss(SQUARE, torch.tensor([0, 0, 1])).item()
    # The negative pair at distance 2 is beyond the margin: it is in no mean.
    assert value == pytest.approx((ROOT - 0.5) + (1.5 - ROOT))
    assert value != pytest.approx((ROOT - 0.5) + (1.5 - ROOT) / 2)


def test_triplet_by_hand():
    value = float(losses.create("triplet", margin=0.1)(SQUARE, torch.tensor([0, 0, 1])))
    # From the first: sqrt 2 - 2 + 0.1 is below 0. From the second: sqrt 2 - sqrt 2 + 0.1.
    assert value == pytest.approx(0.1)


def test_margin_by_hand():
    value = losses.create("margin", margin=0.2, beta=1.3)(SQUARE, torch.tensor([0, 0, 1])).item()
    # Positive hinges sqrt 2 - 1.3 + 0.2 twice; negative ones 1.3 - sqrt 2 + 0.2 once, 1.3 - 2 + 0.2 < 0.
    assert value == pytest.approx((2 * (ROOT - 1.1) + (1.5 - ROOT)) / 3)


def test_arcface_by_hand():
    loss = losses.create("arcface", num_classes=2, embedding_dim=2, margin=30.0, scale=2.0)
    loss.W.data = torch.eye(2)
    value = loss(points(20), torch.tensor([0]))
    own, other = 2 * math.cos(math.radians(20 + 30)), 2 * math.cos(math.radians(70))
    assert value.item() == pytest.approx(math.log(1 + math.exp(other - own)))


@pytest.mark.parametrize("degrees", [0.0, 30.0, 90.0, 130.0])
def test_arcface_grows_with_the_angle_where_the_margin_would_wrap_around(degrees):
    margin, angles = math.radians(degrees), torch.linspace(0, math.pi, 181, dtype=torch.float64)
    own = _add_angle(angles.cos(), margin)
    torch.testing.assert_close(own[angles < math.pi - margin], torch.cos(angles + margin)[angles < math.pi - margin])
    assert (own.diff() < 0).all()
    assert own[-1].item() == pytest.approx(-1 - margin * math.sin(margin))


def test_fast_ap_of_a_perfect_and_of_a_reversed_ranking():
    loss = losses.create("fast_ap", num_bins=4)
    x = points(0, 0, 90, 90)  # squared distances 0 and 2, both on the centre of a bin
    assert loss(x, torch.tensor([0, 0, 1, 1])).item() == pytest.approx(0.0)
    # The one positive shares its bin with another: 1 of 3 at rank 3, in the soft count of ties.
    assert loss(x, torch.tensor([0, 1, 0, 1])).item() == pytest.approx(1 - 1 / 3)


def test_multi_similarity_mining_by_hand():
    x, labels = points(0, 60, 90), torch.tensor([0, 0, 1])
    # Cosines: 0.5 to the positive from both; negatives 0 from the first, 0.87 from the second.
    positive, negative = multi_similarity_pairs(x @ x.T, labels, 0.4)
    assert positive.nonzero().tolist() == [[1, 0]]
    assert negative.nonzero().tolist() == [[1, 2]]
    positive, negative = multi_similarity_pairs(x @ x.T, labels, 0.6)
    assert positive.nonzero().tolist() == [[0, 1], [1, 0]]
    assert negative.nonzero().tolist() == [[0, 2], [1, 2]]


# --- identities ---


@pytest.mark.parametrize("scale", [0.01, 1.0, 9.0, 100.0])
def test_proxy_nca_is_normalised_softmax(scale):
    """Two rows of the Reality Check's tables are one function: scale s is temperature 1 / (2 s)."""
    raw, labels = batch(LAYOUTS["6x4"])
    nca, softmax = make("proxy_nca", softmax_scale=scale), make("normalized_softmax", temperature=1 / (2 * scale))
    softmax.W.data = nca.proxies.data.T.clone()
    value, (gradient, proxies) = value_and_gradients(nca, raw, labels)
    same_value, (same_gradient, weights) = value_and_gradients(softmax, raw, labels)
    assert_same((value, [gradient, proxies]), (same_value, [same_gradient, weights.T]), 1e-9)
    softmax.temperature *= 1.01
    assert abs(softmax(F.normalize(raw), labels) - value) > 1e-6


@pytest.mark.parametrize("name", ["cosface", "arcface"])
def test_no_margin_is_normalised_softmax(name):
    raw, labels = batch(LAYOUTS["uneven"])
    loss, plain = make(name, margin=0.0, scale=8.0), make("normalized_softmax", temperature=1 / 8)
    plain.W.data = loss.W.data.clone()
    assert_same(value_and_gradients(loss, raw, labels), value_and_gradients(plain, raw, labels), 1e-12)


def test_soft_triple_with_one_centre_is_cosface():
    raw, labels = batch(LAYOUTS["uneven"])
    triple, cosface = make("soft_triple", centers_per_class=1), make("cosface", margin=0.2, scale=4.0)
    cosface.W.data = triple.fc.data.clone()
    assert_same(value_and_gradients(triple, raw, labels), value_and_gradients(cosface, raw, labels), 1e-12)


def test_margin_per_class_with_equal_boundaries_is_margin():
    raw, labels = batch(LAYOUTS["uneven"])
    one, many = make("margin"), losses.create("margin_per_class", num_classes=NUM_CLASSES, **PARAMS["margin"]).double()
    value, (gradient, beta) = value_and_gradients(one, raw, labels)
    assert_same((value, [gradient, beta]), _with_summed_beta(value_and_gradients(many, raw, labels)), 1e-12)


def _with_summed_beta(result):
    value, (gradient, betas) = result
    return value, [gradient, betas.sum(0, keepdim=True)]


def test_mining_with_a_wide_epsilon_keeps_all_pairs():
    raw, labels = batch(LAYOUTS["6x4"])
    mined, plain = make("multi_similarity_miner", epsilon=2.1), make("multi_similarity")
    assert_same(value_and_gradients(mined, raw, labels), value_and_gradients(plain, raw, labels), 1e-12)


PAIR_LOSSES = ["contrastive", "triplet", "ntxent", "margin", "fast_ap", "multi_similarity", "multi_similarity_miner"]


@pytest.mark.parametrize("name", [*PAIR_LOSSES, "snr"])
@settings(max_examples=15)
@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=9), seed=st.integers(0, 10**6), data=st.data())
def test_order_names_and_rotation_do_not_matter(name, labels, seed, data):
    raw, _ = batch(labels, seed=seed)
    x, loss = F.normalize(raw.detach()), make(name)
    value = loss(x, torch.tensor(labels))
    order = torch.tensor(data.draw(st.permutations(range(len(labels)))))
    renamed = torch.tensor([17, 3, 40, 8])[torch.tensor(labels)]
    torch.testing.assert_close(loss(x[order], torch.tensor(labels)[order]), value)
    torch.testing.assert_close(loss(x, renamed), value)
    if name != "snr":  # its variances are over the axes
        rotation = torch.linalg.qr(torch.randn(DIM, DIM, generator=torch.Generator().manual_seed(seed)).double())[0]
        torch.testing.assert_close(loss(x @ rotation, torch.tensor(labels)), value)


# --- batches and settings at the limit ---


NO_TERMS = [
    ("snr", [3], {"regularizer_weight": 0.0}),
    ("contrastive", [1, 1, 1], {"pos_margin": 2.0}),
    ("contrastive", [0, 1, 2], {"neg_margin": 0.0}),
]


@pytest.mark.parametrize(("name", "labels", "changes"), NO_TERMS)
def test_a_batch_without_terms_is_a_zero_with_a_gradient(name, labels, changes):
    raw, labels = batch(labels)
    loss = make(name, **changes)
    value = loss(F.normalize(raw), labels)
    assert value.shape == ()
    assert value.item() == 0.0
    value.backward()
    assert raw.grad.abs().max() == 0
    assert all(weight.grad.abs().max() == 0 for weight in loss.parameters())


def corners(method):
    """Every corner of a method's search space, as dicts."""
    space = {key: (bounds.low, bounds.high) for key, bounds in method.space.items() if key != LOSS_WEIGHTS_LR}
    return [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())]


@loop("method", METHODS)
def test_value_and_gradient_are_finite_in_every_corner_of_the_search_space(method):
    labels = torch.arange(32) // 4 % NUM_CLASSES
    random = torch.randn(32, 16, generator=torch.Generator().manual_seed(0))
    first = torch.zeros(32, 16)
    first[:, 0] = 1.0
    for params in corners(method):
        torch.manual_seed(0)
        loss = losses.create(method.loss, num_classes=NUM_CLASSES, embedding_dim=16, **params)
        weights = [weight.detach() for weight in loss.parameters()]
        batches = {
            "random": random,
            "all equal": first,
            "no signal": torch.ones(32, 16),
            "one point a class": random[labels],
            "opposite": torch.cat((first[:16], -first[16:])),
        }
        if weights and weights[0].numel() == 16 * NUM_CLASSES:
            proxies = weights[0] if weights[0].shape[1] == 16 else weights[0].T
            batches |= {"on the proxies": proxies[labels], "against the proxies": -proxies[labels]}
        for kind, raw in batches.items():
            value, gradients = value_and_gradients(loss, raw.clone().requires_grad_(), labels)
            assert torch.isfinite(value), (kind, params)
            assert all(torch.isfinite(gradient).all() for gradient in gradients), (kind, params)


@loop("bad, name", itertools.product([math.nan, math.inf], NAMES))
def test_nan_is_an_error_on_the_cpu_and_a_nan_elsewhere(name, bad, monkeypatch):
    raw, labels = batch(LAYOUTS["6x4"])
    x = F.normalize(raw.detach())
    x[5, 2] = bad
    with pytest.raises(DivergedError, match="NaN or infinite"):
        make(name)(x, labels)
    if math.isnan(bad):  # on a GPU nobody looks at the embeddings: the loss itself must show it
        with monkeypatch.context() as patch:
            patch.setattr(inputs, "math", SimpleNamespace(isfinite=lambda _: True))
            assert torch.isnan(make(name)(x, labels))


@loop("name", [name for name in NAMES if list(make(name).parameters())])
def test_nan_weights_are_not_hidden(name):
    loss = make(name)
    weights = next(loss.parameters()).data
    weights[(0,) * weights.dim()] = math.nan
    assert torch.isnan(loss(F.normalize(batch(LAYOUTS["6x4"])[0]), torch.tensor(LAYOUTS["6x4"])))


# --- the registry and the checks ---


def test_registry_has_the_methods_of_the_paper_first_and_in_order():
    assert losses.names()[: len(NAMES)] == [method.loss for method in METHODS] == NAMES


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("contrastiv", {}, "did you mean 'contrastive'"),
        ("contrastive", {"margin": 1}, "'contrastive' has no parameter 'margin': it takes pos_margin, neg_margin"),
        ("arcface", {"embedding_dim": 4}, "'arcface' needs num_classes"),
        ("margin_per_class", {}, "'margin_per_class' needs num_classes"),
    ],
)
def test_a_wrong_name_says_what_is_right(name, params, message):
    with pytest.raises(UsageError, match=message):
        losses.create(name, **params)


@pytest.mark.parametrize(
    ("embeddings", "labels", "message"),
    [
        (torch.ones(4), torch.zeros(4).long(), r"not \(4,\) and \(4,\)"),
        (torch.ones(4, 2), torch.zeros(3).long(), r"not \(4, 2\) and \(3,\)"),
        (torch.ones(4, 2), torch.zeros(4, 1).long(), r"not \(4, 2\) and \(4, 1\)"),
        (torch.ones(0, 2), torch.zeros(0).long(), "the batch is empty"),
        (torch.ones(4, 2).long(), torch.zeros(4).long(), "embeddings must be floating point"),
        (torch.ones(4, 2), torch.zeros(4), "labels must be integers"),
    ],
)
def test_a_batch_that_cannot_be_scored_is_an_error(embeddings, labels, message):
    for name in ("contrastive", "multi_similarity_miner"):
        with pytest.raises(UsageError, match=message):
            losses.create(name)(embeddings, labels)


@loop(
    "name, label",
    itertools.product(
        ["proxy_nca", "margin_per_class", "normalized_softmax", "arcface", "soft_triple"], [-1, NUM_CLASSES]
    ),
)
def test_a_label_outside_the_classes_is_an_error(name, label):
    with pytest.raises(UsageError, match=f"classes 0 to {NUM_CLASSES - 1}"):
        make(name)(torch.ones(2, DIM).double(), torch.tensor([0, label]))


# --- what the losses share ---


def test_distances_of_equal_rows_are_zero_and_have_no_gradient():
    x = F.normalize(torch.randn(40, 16, generator=torch.Generator().manual_seed(0)))
    x = torch.cat((x, x)).requires_grad_()
    d = common.distances(x)
    assert (d.detach()[:40, 40:].diag() == 0).all()
    torch.testing.assert_close(d.detach().double(), torch.tensor(cdist(x.detach().double(), x.detach().double())))
    (gradient,) = torch.autograd.grad(d[:40, 40:].diag().sum() + d.diag().sum(), x)
    assert (gradient == 0).all()


def test_squared_distances_are_never_negative():
    x = F.normalize(torch.randn(40, 16, generator=torch.Generator().manual_seed(0)))
    y = torch.cat((x[:7], 3 * x[7:9]))
    square = common.squared_distances(x, y)
    assert square.shape == (40, 9)
    assert (square >= 0).all()
    torch.testing.assert_close(square.double(), torch.tensor(cdist(x.double(), y.double()) ** 2), rtol=1e-5, atol=1e-6)


def test_means_over_terms():
    terms, mask = torch.tensor([[2.0, 0.0], [math.nan, 4.0]]), torch.tensor([[True, True], [False, True]])
    assert float(common.mean_of_nonzero(torch.tensor([2.0, 0.0, 4.0]))) == 3.0
    assert float(common.mean_over(terms, mask)) == 2.0
    nothing = torch.zeros(2, 2, dtype=torch.bool)
    assert float(common.mean_of_nonzero(torch.zeros(2, 2))) == float(common.mean_over(terms, nothing)) == 0.0
    assert math.isnan(common.mean_of_nonzero(terms))
    assert math.isnan(common.mean_over(terms, ~nothing))


def test_masked_logsumexp_of_an_empty_row_has_no_weight_and_no_gradient():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    mask = torch.tensor([[True, False], [False, False]])
    value = common.softplus(common.masked_logsumexp(x, mask))
    torch.testing.assert_close(value.detach(), torch.tensor([math.log(1 + math.e), 0.0]))
    (gradient,) = torch.autograd.grad(value.sum(), x)
    torch.testing.assert_close(gradient, torch.tensor([[math.e / (1 + math.e), 0.0], [0.0, 0.0]]))
