"""A trunk cut in two: outputs and gradients are those of the whole, for every trunk that is a chain."""

import pytest
import torch
from torch import nn

from dmlrc import models
from dmlrc.errors import UsageError
from dmlrc.models import partial

LITE0 = "timm:tf_efficientnet_lite0"
CUTS = [("squeezenet1_0", "features.12", 64), (LITE0, "blocks.6", 64), ("conv4", "layers.12", 28)]


def trunk_of(name: str) -> models.Trunk:
    trunk = models.create_trunk(name, "package" if name == LITE0 else None)
    return models.freeze_batch_norm(trunk).train()


def gradients(head: nn.Module, value: torch.Tensor) -> list[torch.Tensor]:
    return torch.autograd.grad(value, [each for each in head.parameters() if each.requires_grad])


def furthest(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest relative distance of two tensors of a pair."""
    return max(((a - b).norm() / b.norm()).item() for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize(("name", "layer", "size"), CUTS)
def test_outputs_and_gradients_are_those_of_the_whole(name, layer, size):
    trunk = trunk_of(name)
    stem, head = models.split_trunk(trunk, layer)
    assert (head.name, head.out_features) == (name, trunk.out_features)
    images, weighting = torch.rand(4, 3, size, size), torch.randn(4, trunk.out_features)
    whole = trunk(images)
    expected = gradients(head, (whole * weighting).sum())
    assert all(gradient.abs().max() > 0 for gradient in expected)

    with torch.no_grad():
        maps = stem(images)
    # float16 rounds by 5e-4 at most; a gradient also goes through a few other ReLUs, those with an input near 0
    for stored, close, gradient_close in ((maps, 1e-6, 1e-6), (maps.half().float(), 5e-4, 0.03)):
        features = head(stored)
        assert furthest([features], [whole]) <= close
        assert furthest(gradients(head, (features * weighting).sum()), expected) <= gradient_close
    assert furthest([head(maps.flip(0))], [whole]) > 1e-3  # other maps are noticed


@pytest.mark.parametrize(("name", "layer", "size"), CUTS)
def test_the_halves_share_the_layers_between_them(name, layer, size):
    trunk = trunk_of(name)
    stem, head = models.split_trunk(trunk, layer)
    first, last = ({id(each) for each in half.parameters()} for half in (stem, head))
    assert not first & last
    assert first | last == {id(each) for each in trunk.parameters()}
    (block,) = [each for full, each in trunk.named_modules() if full in (layer, f"network.{layer}")]
    assert head.layers[0] is block
    assert trunk.training


def test_a_head_trains_with_frozen_batch_norm_and_fits_an_embedding_model():
    _, head = models.split_trunk(trunk_of(LITE0), "blocks.6")
    model = models.EmbeddingModel(head, 8).train()
    layers = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert layers
    assert not any(layer.training for layer in layers)
    assert model(torch.rand(2, 192, 2, 2)).shape == (2, 8)


@pytest.mark.parametrize(
    ("name", "layer", "size"),
    [
        ("resnet18", "layer4.1", 64),
        ("googlenet", "inception5b", 64),
        ("timm:test_resnet", "layer4", 64),
        ("timm:test_convnext", "stages.3", 64),
    ],
)
def test_other_chains(name, layer, size):
    trunk = models.create_trunk(name).eval()
    stem, head = models.split_trunk(trunk, layer)
    images = torch.rand(2, 3, size, size)
    with torch.no_grad():
        assert furthest([head(stem(images))], [trunk(images)]) < 1e-4


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("squeezenet1_0", "features.12.expand1x1"),  # the two expansions lie side by side
        ("resnet18", "layer4.1.conv1"),  # beside the sum
        ("bn_inception", "inception_5b_1x1"),
        ("timm:test_vit", "blocks.1"),  # a class token joins in front
    ],
)
def test_what_is_no_chain_is_refused(name, layer):
    with pytest.raises(UsageError, match=f"{name} cannot be cut at '{layer}', its layers there are no plain chain"):
        models.split_trunk(models.create_trunk(name), layer)


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        ("features.13", "where it says '13' there are 0, 1, .*, 12"),
        ("layer4", "where it says 'layer4' there are features, pool"),
    ],
)
def test_an_unknown_layer_lists_those_that_there_are(layer, says):
    with pytest.raises(UsageError, match=f"squeezenet1_0 has no layer '{layer}': {says}"):
        models.split_trunk(models.create_trunk("squeezenet1_0"), layer)


def test_the_check_compares_what_the_halves_do():
    trunk = trunk_of("squeezenet1_0")
    stem, head = models.split_trunk(trunk, "features.12")
    del stem.layers[-1]  # a pooling layer: all shapes still fit
    assert not partial._is_whole(trunk, stem, head)
