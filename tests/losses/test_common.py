"""What the losses share: distances and their gradients, unit vectors, and steps in which no value is read back."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from dmlrc import losses
from dmlrc.losses import common, inputs
from dmlrc.papers.musgrave2020 import METHODS

SIZES = [2, 7, 128, 129, 200]  # the gradient of the distances changes its way above 128 rows


def rows(count, dim=16, dtype=torch.float64, seed=0):
    return F.normalize(torch.randn(count, dim, generator=torch.Generator().manual_seed(seed), dtype=dtype))


def gradient(function, x, weights):
    x = x.detach().requires_grad_()
    return torch.autograd.grad((function(x) * weights).sum(), x)[0]


def few(count):
    """Weights of one pair in thirteen, of which some are of rows that meet, and as many of rows far apart."""
    places = torch.arange(count)
    apart = (places - places[:, None]).abs()
    return ((apart % 13 == 6) | (apart == count - count // 2)).float()


def exact(x):
    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")


@pytest.mark.parametrize("count", SIZES)
def test_distances_and_their_gradient_are_those_of_cdist(count):
    x = rows(count)
    x[count // 2 :] = x[: count - count // 2].clone()  # every row twice, but for a middle one
    weights = torch.randn(count, count, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
    d = common.distances(x)
    torch.testing.assert_close(d, exact(x), rtol=1e-12, atol=0)
    assert ((d == 0) == (exact(x) == 0)).all()
    for share in (1, few(count)):
        ours, expected = (gradient(function, x, weights * share) for function in (common.distances, exact))
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("count", SIZES)
def test_the_gradient_of_distances_is_exact_between_rows_that_almost_meet(count):
    x = rows(count, dtype=torch.float32)
    x[count // 2 :] = x[: count - count // 2] + 1e-3 * rows(count - count // 2, dtype=torch.float32, seed=1)
    for weights in (torch.ones(count, count), few(count)):
        expected = gradient(exact, x.double(), weights.double())
        torch.testing.assert_close(
            gradient(common.distances, x, weights).double(), expected, rtol=0, atol=1e-5 * float(expected.abs().max())
        )


def test_pairs_are_in_one_order():
    x, labels = rows(6), torch.tensor([0, 1, 0, 2, 1, 0])
    above = torch.ones(6, 6).triu(1).bool()
    torch.testing.assert_close(common.unordered_pair_distances(x), common.distances(x)[above])
    for ours, expected in zip(common.unordered_pair_masks(labels), common.pair_masks(labels), strict=True):
        assert torch.equal(ours, expected[above])


def test_distances_of_one_row_are_a_zero():
    x = rows(1).requires_grad_()
    assert common.distances(x).tolist() == [[0.0]]
    assert common.unordered_pair_distances(x).shape == (0,)


def test_distances_serve_training_after_inference():
    with torch.inference_mode():
        common.distances(rows(13))
    x = rows(13).requires_grad_()
    common.distances(x).sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("dim", [0, 1])
def test_unit_is_normalize(dim):
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[2] *= 1e-3
    weights = torch.randn(5, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(common.unit_length(x, dim), F.normalize(x, dim=dim), rtol=1e-14, atol=0)
    torch.testing.assert_close(
        gradient(lambda x: common.unit_length(x, dim), x, weights),
        gradient(lambda x: F.normalize(x, dim=dim), x, weights),
    )
    assert torch.equal(common.unit_length(torch.zeros(3, 4), dim), torch.zeros(3, 4))


# --- identical embeddings ---


@pytest.mark.parametrize("count", [32, 256])
@pytest.mark.parametrize(("name", "expected"), [("contrastive", 1.0), ("triplet", 0.05), ("margin", 1.4)])
def test_identical_embeddings_are_at_distance_zero(name, expected, count):
    """Only the margins are left of the loss, and nothing pulls: rounding errors would be positive pairs to pull."""
    x = rows(1, 128, torch.float32).repeat(count, 1).requires_grad_()
    value = losses.create(name)(x, torch.arange(count) // 4)
    assert value.item() == pytest.approx(expected, rel=1e-6)
    value.backward()
    assert (x.grad == 0).all()


def test_identical_positives_are_in_no_mean():
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.0, 1.0]])
    value = losses.create("contrastive", neg_margin=0.0)(x, torch.tensor([0, 0, 0, 1, 1]))
    assert value.item() == pytest.approx(0.4**0.5)  # of the two positive pairs that are apart, not of four


def test_equal_centres_of_a_class_have_finite_gradients():
    loss = losses.create("soft_triple", num_classes=3, embedding_dim=8, centers_per_class=4, reg_weight=0.2)
    loss.fc.data = loss.fc.data[:, ::4].repeat_interleave(4, dim=1)
    with_term = loss(rows(6, 8, torch.float32), torch.arange(6) % 3)
    with_term.backward()
    assert torch.isfinite(loss.fc.grad).all()
    loss.reg_weight = 0.0
    assert with_term.item() == pytest.approx(loss(rows(6, 8, torch.float32), torch.arange(6) % 3).item(), abs=1e-6)


def test_triplets_are_counted_as_listed():
    """Distances of a grid: many ties, between positives and negatives and at the margin itself."""
    x = torch.cartesian_prod(torch.arange(5.0), torch.arange(5.0)).double()
    labels = torch.randint(0, 4, (25,), generator=torch.Generator().manual_seed(0))
    d, hinges = exact(x), []
    for a in range(25):
        for p in range(25):
            for n in range(25):
                if a != p and labels[a] == labels[p] != labels[n]:
                    hinges.append(float(d[a, p] + 1.0 - d[a, n]))
    above = [hinge for hinge in hinges if hinge > 0]
    assert 0 < hinges.count(0.0) < len(above) < len(hinges)
    value = losses.create("triplet", margin=1.0)(x, labels).item()
    assert value == pytest.approx(sum(above) / len(above))


# --- nothing is read back in a step ---


class NoReading(TorchDispatchMode):
    """Raises where a value leaves its device, or decides a shape: on a GPU each such operation waits for it."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        assert name not in ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "equal"), name
        if name in ("index", "index_put", "index_put_"):
            assert all(index is None or index.dtype != torch.bool for index in args[1]), "index by a mask"
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", [method.loss for method in METHODS])
def test_a_step_reads_no_value(name, monkeypatch):
    monkeypatch.setattr(inputs, "check_batch", lambda *batch: None)  # which looks at values on a CPU, and only there
    loss = losses.create(name, num_classes=8, embedding_dim=16)
    x, labels = rows(32, dtype=torch.float32).requires_grad_(), torch.arange(32) // 4
    loss(x, labels)  # what depends on the size of the batch alone is kept
    with NoReading():
        loss(x, labels).backward()
    assert x.grad.abs().max() > 0


def test_reading_a_value_would_be_seen():
    with NoReading(), pytest.raises(AssertionError, match="_local_scalar_dense"):
        rows(2).sum().item()
    with NoReading(), pytest.raises(AssertionError, match="index by a mask"):
        rows(2)[rows(2) > 0]
