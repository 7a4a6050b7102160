"""The losses after 2019: against loops, against pytorch-metric-learning where it is right, and at their limits."""

import itertools
import math
from pathlib import Path

import loss_oracles_after_2019 as oracles
import pytest
import torch
import torch.nn.functional as F
from cases import loop
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_oracles import LAYOUTS, LOOPED
from pytorch_metric_learning import losses as pml
from sklearn.metrics import average_precision_score
from test_losses_reality_check import (
    DIM,
    NUM_CLASSES,
    assert_same,
    batch,
    corners,
    value_and_gradients,
    with_duplicates,
)

from dmlrc import losses
from dmlrc.building import build_loss
from dmlrc.errors import DivergedError, UsageError
from dmlrc.methods import LOSS_WEIGHTS_LR
from dmlrc.papers import musgrave2020
from dmlrc.papers.after2019 import METHODS

# Hyperparameters away from the defaults and from each other, so that no two can be mixed up.
PARAMS = {
    "proxy_anchor": {"margin": 0.2, "alpha": 3.0},
    "circle": {"m": 0.3, "gamma": 4.0},
    "supcon": {"temperature": 0.4},
    "proxy_nca_pp": {"softmax_scale": 2.5},
    "smooth_ap": {"temperature": 0.2},
    "recall_at_k": {"rank_temperature": 0.7, "temperature": 0.2, "max_k": 4},
}
NAMES = list(PARAMS)
PROXIES = ["proxy_anchor", "proxy_nca_pp"]
PAIRS = [name for name in NAMES if name not in PROXIES]


def make(name, dtype=torch.float64, dim=DIM, **changes):
    torch.manual_seed(0)
    return losses.create(name, num_classes=NUM_CLASSES, embedding_dim=dim, **{**PARAMS[name], **changes}).to(dtype)


class Oracle(torch.nn.Module):
    """The loops, reading the proxies of one of our losses."""

    def __init__(self, name, loss, **changes):
        super().__init__()
        self.name, self.loss, self.params = name, loss, {**PARAMS[name], **changes}

    def forward(self, x, labels):
        proxies = [[p / p.norm() for p in self.loss.proxies]] if self.name in PROXIES else []
        return getattr(oracles, self.name)(x, labels.tolist(), *proxies, **self.params)


def make_pml(name, ours=None, dim=DIM, **params):
    sizes = {"num_classes": NUM_CLASSES, "embedding_size": dim}
    cls, fixed = {
        "proxy_anchor": (pml.ProxyAnchorLoss, sizes),
        "circle": (pml.CircleLoss, {}),
        "supcon": (pml.SupConLoss, {}),
        "proxy_nca_pp": (pml.ProxyNCALoss, sizes),
    }[name]
    theirs = cls(**fixed, **params)
    if ours is not None and ours.state_dict():
        theirs.to(next(ours.parameters()).dtype).load_state_dict(ours.state_dict())
    return theirs


def points(*degrees):
    angles = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack((angles.cos(), angles.sin()), 1)


# Against the loops and against pytorch-metric-learning


def test_registry():
    assert losses.names()[-len(NAMES) :] == NAMES == [method.loss for method in METHODS]


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
        changed = 2 * number if isinstance(number, int) else number * 1.1
        assert abs(make(name, **{parameter: changed})(F.normalize(raw), labels) - value) > 1e-5, parameter


@loop("name, layout", itertools.product(["proxy_anchor", "circle", "supcon", "proxy_nca_pp"], ["6x4", "uneven"]))
def test_loss_is_that_of_pytorch_metric_learning(name, layout):
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 2e-5)):
        loss = make(name, dtype)
        theirs = make_pml(name, loss, **PARAMS[name])
        for make_batch in (batch, with_duplicates):
            raw, labels = make_batch(LAYOUTS[layout], dtype=dtype)
            assert_same(value_and_gradients(loss, raw, labels), value_and_gradients(theirs, raw, labels), tolerance)


@loop("name", ["proxy_anchor", "circle", "supcon", "proxy_nca_pp"])
def test_real_batches_are_those_of_pytorch_metric_learning(name):
    """With the defaults of both, those of the papers; proxy_nca_pp has a scale of its own there."""
    dim, labels = 128, torch.arange(8).repeat_interleave(4) % NUM_CLASSES
    raw, _ = batch(labels.tolist(), torch.float32, dim)
    torch.manual_seed(0)
    loss = losses.create(name, num_classes=NUM_CLASSES, embedding_dim=dim)
    theirs = make_pml(name, loss, dim, **({"softmax_scale": 9} if name == "proxy_nca_pp" else {}))
    assert_same(value_and_gradients(loss, raw, labels), value_and_gradients(theirs, raw, labels), 1e-4)


def test_proxies_start_as_in_the_authors_code():
    torch.manual_seed(3)
    ours = losses.create("proxy_anchor", num_classes=50, embedding_dim=400).proxies
    torch.manual_seed(3)
    theirs = pml.ProxyAnchorLoss(num_classes=50, embedding_size=400).proxies
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    assert ours.detach().std().item() == pytest.approx(math.sqrt(2 / 50), rel=0.02)
    plus = losses.create("proxy_nca_pp", num_classes=50, embedding_dim=400).proxies
    assert plus.detach().std().item() == pytest.approx(1 / 8, rel=0.02)


@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=15)
@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=9), seed=st.integers(0, 10**6), data=st.data())
def test_order_names_and_rotation_do_not_matter(name, labels, seed, data):
    raw, _ = batch(labels, seed=seed)
    x, loss = F.normalize(raw.detach()), make(name)
    value = loss(x, torch.tensor(labels))
    order = torch.tensor(data.draw(st.permutations(range(len(labels)))))
    renamed = torch.tensor([17, 3, 40, 8])[torch.tensor(labels)]
    rotation = torch.linalg.qr(torch.randn(DIM, DIM, generator=torch.Generator().manual_seed(seed)).double())[0]
    torch.testing.assert_close(loss(x[order], torch.tensor(labels)[order]), value)
    torch.testing.assert_close(loss(x, renamed), value)
    torch.testing.assert_close(loss(x @ rotation, torch.tensor(labels)), value)


# Identities and limits


def test_proxy_anchor_of_one_sample_is_a_sum_of_softplus():
    loss = make("proxy_anchor", margin=0.1, alpha=32.0)
    x = F.normalize(batch([2])[0].detach())
    cosines = (x @ F.normalize(loss.proxies).T)[0]
    own = F.softplus(-32 * (cosines[2] - 0.1))
    others = F.softplus(32 * (cosines[[0, 1, 3, 4, 5]] + 0.1)).sum() / NUM_CLASSES
    torch.testing.assert_close(loss(x, torch.tensor([2])), own + others)


def test_circle_tends_to_the_hardest_negative_against_the_hardest_positive():
    raw, labels = batch(LAYOUTS["6x4"])
    x, m, gamma = F.normalize(raw.detach()), 0.3, 1e5
    s = x @ x.T
    same = labels[:, None] == labels
    push = (torch.relu(s + m) * (s - m)).masked_fill(same, -math.inf).amax(1)
    pull = (torch.relu(1 + m - s) * (s - 1 + m)).masked_fill(~same | torch.eye(24).bool(), math.inf).amin(1)
    limit = torch.relu(push - pull).mean()
    assert limit > 0.1
    torch.testing.assert_close(make("circle", m=m, gamma=gamma)(x, labels) / gamma, limit, rtol=0, atol=1e-3)


def test_circle_at_a_high_scale_needs_its_logarithms():
    """The sums of exponentials overflow float32; their logarithms agree with float64."""
    raw, labels = batch(LAYOUTS["6x4"])
    for gamma in (80.0, 512.0):
        single = value_and_gradients(make("circle", torch.float32, gamma=gamma), *batch(LAYOUTS["6x4"], torch.float32))
        value, (gradient,) = value_and_gradients(make("circle", gamma=gamma), raw, labels)
        assert_same(single, (value.float(), [gradient.float()]), 1e-4 * gamma)
    x = F.normalize(raw.detach()).float()
    assert torch.isinf(oracles.circle(x, labels.tolist(), m=0.3, gamma=512.0))


def test_circle_counts_the_anchors_that_pytorch_metric_learning_drops():
    """The loss of an anchor is e^(-2 gamma m^2) at its least: 0 in float32 at gamma 512."""
    x, labels = points(0, 1, 90, 91, 92, 45).float(), torch.tensor([0, 0, 1, 1, 1, 1])
    terms = torch.stack([_circle_of_anchor(x, labels, i, gamma=512.0) for i in range(6)])
    assert 0 < (terms > 0).sum() < 6
    torch.testing.assert_close(losses.create("circle", gamma=512.0)(x, labels), terms.mean())
    torch.testing.assert_close(pml.CircleLoss(gamma=512)(x, labels), terms[terms > 0].mean())


def _circle_of_anchor(x, labels, i, gamma, m=0.4):
    s, same = x @ x[i], labels == labels[i]
    push = (gamma * torch.relu(s + m) * (s - m))[~same].logsumexp(0)
    same[i] = False
    return F.softplus(push + (-gamma * torch.relu(1 + m - s) * (s - 1 + m))[same].logsumexp(0))


@pytest.mark.parametrize("temperature", [0.01, 0.1, 1.0])
def test_supcon_with_two_images_a_class_is_ntxent(temperature):
    raw, labels = batch([c for c in range(6) for _ in range(2)])
    supcon, ntxent = (losses.create(name, temperature=temperature) for name in ("supcon", "ntxent"))
    expected = value_and_gradients(ntxent, raw, labels)
    assert_same(value_and_gradients(supcon, raw, labels), expected, 1e-9)
    assert_same(value_and_gradients(pml.NTXentLoss(temperature=temperature), raw, labels), expected, 1e-9)
    raw, labels = batch(LAYOUTS["6x4"])
    assert abs(supcon(F.normalize(raw), labels) - ntxent(F.normalize(raw), labels)) > 0.05


def test_supcon_has_a_floor():
    """A perfect embedding still shares its probability between the three positives."""
    x, labels = torch.eye(6, dtype=torch.float64)[LAYOUTS["6x4"]], torch.tensor(LAYOUTS["6x4"])
    assert losses.create("supcon", temperature=0.01)(x, labels).item() == pytest.approx(math.log(3))
    assert losses.create("ntxent", temperature=0.01)(x, labels).item() == pytest.approx(0)


def test_supcon_pulls_a_batch_of_one_class_together():
    raw, labels = batch([1, 1, 1, 1])
    value, (gradient,) = value_and_gradients(make("supcon"), raw, labels)
    assert value > math.log(3)
    assert gradient.abs().max() > 1e-3
    assert make_pml("supcon", **PARAMS["supcon"])(F.normalize(raw), labels).item() == 0


def test_proxy_nca_pp_is_normalised_softmax_at_a_temperature_of_an_eighteenth():
    """Zhai and Wu 2019 use 0.05. And it is proxy_nca, a row of the Reality Check."""
    raw, labels = batch(LAYOUTS["6x4"])
    sizes = {"num_classes": NUM_CLASSES, "embedding_dim": DIM}
    plus = losses.create("proxy_nca_pp", **sizes).double()
    nca = losses.create("proxy_nca", **sizes, softmax_scale=9).double()
    softmax = losses.create("normalized_softmax", **sizes, temperature=1 / 18).double()
    nca.proxies.data, softmax.W.data = plus.proxies.data.clone(), plus.proxies.data.T.clone()
    value, (gradient, proxies) = value_and_gradients(plus, raw, labels)
    assert_same(value_and_gradients(nca, raw, labels), (value, [gradient, proxies]), 1e-12)
    assert_same(value_and_gradients(softmax, raw, labels), (value, [gradient, proxies.T]), 1e-9)
    softmax.temperature = 0.05
    assert abs(softmax(F.normalize(raw), labels) - value) > 1e-3


def test_smooth_ap_tends_to_average_precision():
    raw, labels = batch([2, 0, 1, 1, 0, 2, 2, 1, 0])
    x = F.normalize(raw.detach())
    exact = []
    for q in range(len(labels)):
        others = torch.arange(len(labels)) != q
        exact.append(average_precision_score(labels[others] == labels[q], (x @ x[q])[others]))
    expected = 1 - sum(exact) / len(exact)
    assert 0.2 < expected < 0.8
    assert losses.create("smooth_ap", temperature=1e-6)(x, labels).item() == pytest.approx(expected)
    assert abs(losses.create("smooth_ap", temperature=0.1)(x, labels).item() - expected) > 1e-3


@pytest.mark.parametrize("temperature", [0.01, 0.1])
def test_smooth_ap_of_the_authors_code_ranks_the_query(temperature):
    """pytorch-metric-learning is right for sorted labels, as many classes as images a class: it judges the loops."""
    raw, labels = batch([c for c in range(4) for _ in range(4)])
    theirs = value_and_gradients(pml.SmoothAPLoss(temperature=temperature), raw, labels)

    def loops(x, labels):
        return oracles.smooth_ap(x, labels.tolist(), temperature, rank_query=True)

    loops.parameters = list
    (value, (gradient,)), (expected, (expected_gradient,)) = value_and_gradients(loops, raw, labels), theirs
    assert_same((value.float(), [gradient.float()]), (expected, [expected_gradient.float()]), 1e-5)
    ours = losses.create("smooth_ap", temperature=temperature)(F.normalize(raw), labels)
    assert ours > theirs[0] + 0.1


@pytest.mark.parametrize(("classes", "images"), [(3, 4), (6, 2), (4, 4)])
def test_smooth_ap_of_a_perfect_ranking(classes, images):
    """0; pytorch-metric-learning 2.9 takes the images a class for the classes, and is right where they are as many."""
    labels = torch.arange(classes).repeat_interleave(images)
    x = torch.eye(6)[labels]
    assert losses.create("smooth_ap")(x, labels).item() == pytest.approx(0, abs=1e-6)
    theirs = pml.SmoothAPLoss()(x, labels).item()
    assert theirs == pytest.approx(0, abs=1e-6) if classes == images else theirs > 0.2


def test_recall_at_k_tends_to_recall():
    """A positive at rank k exactly counts half."""
    raw, labels = batch(LAYOUTS["6x4"])
    x, ks = F.normalize(raw.detach()), (1, 2, 4, 8)
    missed = []
    for q in range(len(labels)):
        others = [j for j in range(len(labels)) if j != q]
        ranked = sorted(others, key=lambda j: -float(x[j] @ x[q]))
        ranks = [ranked.index(j) + 1 for j in others if labels[j] == labels[q]]
        for k in ks:
            found = sum(1.0 if rank < k else 0.5 if rank == k else 0.0 for rank in ranks)
            missed.append(1 - min(k, found) / min(k, len(ranks)))
    loss = losses.create("recall_at_k", rank_temperature=1e-3, temperature=1e-7, max_k=8)
    assert loss(x, labels).item() == pytest.approx(sum(missed) / len(missed))
    assert 0.2 < sum(missed) / len(missed) < 0.9


def test_recall_at_k_of_a_perfect_batch_and_of_the_authors_code():
    """Their rank of a positive is 1 too high: recall at k - 1, and no signal at k = 1."""
    labels = LAYOUTS["6x4"]
    x = torch.cat([points(60 * c, 60 * c + 1, 60 * c + 3, 60 * c + 7) for c in range(6)])
    sharp = {"rank_temperature": 1e-3, "temperature": 1e-7}

    def loops(k, rank_query):
        return oracles.recall_at_k(x, labels, **sharp, ks=[k], rank_query=rank_query).item()

    assert [loops(k, True) for k in range(1, 6)] == pytest.approx([1, 3 / 4, 1 / 2, 1 / 6, 0])
    assert [loops(k, False) for k in range(1, 5)] == pytest.approx([1 / 2, 1 / 4, 1 / 6, 0])
    for max_k, expected in ((1, [1 / 2]), (4, [1 / 2, 1 / 4, 0])):
        loss = losses.create("recall_at_k", max_k=max_k, **sharp)
        assert loss(x, torch.tensor(labels)).item() == pytest.approx(sum(expected) / len(expected))


# Batches and settings at the limit


@loop("method", METHODS)
def test_value_and_gradient_are_finite_in_every_corner_of_the_search_space(method):
    labels = torch.arange(32) // 4 % NUM_CLASSES
    random = torch.randn(32, 16, generator=torch.Generator().manual_seed(0))
    first = torch.zeros(32, 16)
    first[:, 0] = 1.0
    for params in corners(method):
        torch.manual_seed(0)
        loss = build_loss(method, params, NUM_CLASSES, 16)
        batches = [random, first, random[labels], torch.cat((first[:16], -first[16:]))]
        if method.loss in PROXIES:
            proxies = loss.proxies.detach()
            batches += [proxies[labels], -proxies[labels]]
        for raw in batches:
            value, gradients = value_and_gradients(loss, raw.clone().requires_grad_(), labels)
            assert torch.isfinite(value), params
            assert all(torch.isfinite(gradient).all() for gradient in gradients), params


@loop("name", NAMES)
def test_bad_batches(name):
    loss = make(name, torch.float32)
    with pytest.raises(DivergedError, match="NaN"):
        loss(torch.full((4, DIM), torch.nan), torch.tensor([0, 0, 1, 1]))
    with pytest.raises(UsageError, match="embeddings"):
        loss(torch.ones(4, DIM), torch.tensor([0, 0, 1]))
    if name in PROXIES:
        with pytest.raises(UsageError, match="classes 0 to"):
            loss(torch.ones(2, DIM), torch.tensor([0, NUM_CLASSES]))


# The rows of the table


def test_methods_follow_the_fair_protocol():
    bibliography = (Path(__file__).parents[2] / "book" / "references.bib").read_text()
    assert not {method.name for method in METHODS} & {method.name for method in musgrave2020.METHODS}
    for method in METHODS:
        assert method.classes_per_batch * method.images_per_class == 32
        assert method.year > 2019
        assert f"{{{method.reference}," in bibliography
        assert (LOSS_WEIGHTS_LR in method.space) == (method.kind == "classification") == (method.name in PROXIES)
    spaces = {method.name: method.space for method in (*METHODS, *musgrave2020.METHODS)}
    assert spaces["proxy_nca_pp"] == spaces["proxy_nca"]


@loop("method", METHODS)
def test_the_papers_own_values_are_inside_the_search_space(method):
    """The defaults of the losses are the papers' values, but for k, which the batch bounds."""
    loss = losses.create(method.loss, num_classes=NUM_CLASSES, embedding_dim=DIM)
    for parameter, bounds in method.space.items():
        if parameter != LOSS_WEIGHTS_LR:
            assert bounds.low < getattr(loss, parameter) < bounds.high
