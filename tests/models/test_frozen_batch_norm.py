"""Frozen BatchNorm: in every trunk nothing of it moves, and it does what PyTorch's own does in evaluation mode."""

import copy

import pytest
import timm.layers
import torch
from torch import Tensor, nn

from dmlrc import models
from dmlrc.models.embedder import Fixed

LAYERS = {  # trunk: (its layers of BatchNorm, a small side that its images may have)
    "conv4": (0, 16),
    "squeezenet1_0": (0, 32),
    "googlenet": (57, 32),
    "resnet18": (20, 32),
    "inception_v3_mixed7a": (76, 75),  # the smallest that it takes
    "bn_inception": (69, 32),
    "timm:tf_efficientnet_lite0": (49, 32),
}
# Trunks of the same kinds of layers as one of those, but more of them: how many of BatchNorm.
LARGER = {"resnet50": 53, "inception_v3": 94, "timm:mobilenetv2_100": 52}


def norms(network: nn.Module) -> dict[str, nn.Module]:
    """Every kind of BatchNorm that PyTorch has, not only those that can be frozen."""
    kinds = nn.modules.batchnorm._BatchNorm
    return {name: layer for name, layer in network.named_modules() if isinstance(layer, kinds)}


def lively(layer: nn.Module) -> nn.Module:
    """With statistics and weights that BatchNorm has to use."""
    layer.running_mean.uniform_(-0.1, 0.1)
    layer.running_var.uniform_(0.5, 1.5)
    if layer.affine:
        nn.init.uniform_(layer.weight, 0.8, 1.4)
        nn.init.uniform_(layer.bias, -0.1, 0.1)
    return layer


def relative_error(actual: Tensor, expected: Tensor) -> float:
    return ((actual - expected).abs().max() / expected.abs().max()).item()


def test_every_trunk_is_tested():
    assert set(models.names()) <= {*LAYERS, *LARGER}


@pytest.mark.parametrize("name", LARGER)
def test_all_layers_of_a_larger_one_are_frozen(name):
    with torch.device("meta"):  # without numbers
        trunk = models.freeze_batch_norm(models.create_trunk(name)).train()
    assert trunk.training
    assert len(norms(trunk)) == LARGER[name]
    for layer in norms(trunk).values():
        assert isinstance(layer, Fixed)
        assert not layer.training
        assert not any(weight.requires_grad for weight in layer.parameters())


@pytest.mark.parametrize("name", LAYERS)
def test_a_step_of_training_leaves_it_as_it_was(name):
    count, size = LAYERS[name]
    trunk = models.create_trunk(name).double()  # in float32, dozens of layers make much of a rounding error
    assert len(norms(trunk)) == count
    for layer in norms(trunk).values():
        lively(layer)
    plain = copy.deepcopy(trunk)
    models.freeze_batch_norm(trunk).train()
    images = torch.rand(2, 3, size, size, dtype=torch.float64)

    def check() -> Tensor:
        """In training as in evaluation, and as PyTorch's own layers in evaluation."""
        with torch.no_grad():
            trained, evaluated, expected = trunk.train()(images), trunk.eval()(images), plain.eval()(images)
            trunk.train()
            assert torch.equal(trained, evaluated)
            assert relative_error(trained, expected) < 1e-9
        return trained

    before, features = plain.state_dict(), check()
    optimiser = torch.optim.SGD(trunk.parameters(), lr=1e-3, weight_decay=0.1)
    (trunk(images) / features.abs().max()).square().mean().backward()
    optimiser.step()
    trunk.train()

    after = trunk.state_dict()
    kept = {f"{norm}.{each}" for norm, layer in norms(trunk).items() for each in layer.state_dict()}
    assert len(kept) == 5 * count  # weight, bias, mean, variance, number of batches
    moved = {each for each in after if not torch.equal(after[each], before[each])}
    assert moved == {each for each, weight in trunk.named_parameters() if weight.requires_grad}
    assert not moved & kept
    plain.load_state_dict(after)
    assert relative_error(later := check(), features) > 1e-6  # the convolutions did move
    if count:
        with torch.no_grad():  # with the statistics of the batch it would be seen
            assert relative_error(plain.train()(images), later) > 1e-2


# One layer against PyTorch's own


KINDS = {
    "affine": lambda: nn.BatchNorm2d(5, eps=1e-2),
    "not affine": lambda: nn.BatchNorm2d(5, eps=1e-2, affine=False),
    "with timm's activation": lambda: timm.layers.BatchNormAct2d(5, eps=1e-2),
}


@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradients_are_those_of_evaluation_mode(kind):
    plain = lively(KINDS[kind]().double()).eval()
    frozen = models.freeze_batch_norm(copy.deepcopy(plain)).train()
    maps, weighting = torch.randn(2, 3, 5, 4, 4, dtype=torch.float64)
    results = {}
    for layer in (plain, frozen):
        entering = maps.clone().requires_grad_()
        values = layer(entering)
        (values * weighting).sum().backward()
        results[layer] = values, entering.grad
    torch.testing.assert_close(results[frozen], results[plain])
    assert all(each.grad is None for each in frozen.parameters())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("training", [True, False])
def test_other_weights_are_taken_at_the_next_change_of_mode(training, kind):
    frozen = models.freeze_batch_norm(KINDS[kind]()).train()
    other = lively(KINDS[kind]()).eval()
    maps = torch.randn(2, 5, 4, 4)
    with torch.no_grad():
        fresh = frozen(maps)
        frozen.load_state_dict(other.state_dict())
        found = frozen.train(training)(maps)
        torch.testing.assert_close(found, other(maps))
        assert relative_error(found, fresh) > 1e-2
