"""Trunks, weights, the embedder: shapes at real sizes, public names, strict loading, stacking."""

import copy
import hashlib
import pickle
import shutil
from collections import OrderedDict
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

from dmlrc import models
from dmlrc.errors import DmlrcError, MissingDataError, UsageError
from dmlrc.models import files, trunks
from dmlrc.models.bn_inception import BNInception

SIZES = {  # trunk: (side of its images, length of its features)
    "conv4": (28, 128),
    "squeezenet1_0": (224, 512),
    "googlenet": (224, 1024),
    "resnet18": (224, 512),
    "resnet50": (224, 2048),
    "inception_v3": (299, 2048),
    "inception_v3_mixed7a": (299, 1280),
    "bn_inception": (224, 1024),
}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return ((actual - expected).abs().max() / expected.abs().max()).item()


# Trunks


def test_every_trunk_is_tested():
    assert set(models.names()) == set(SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_features_do_not_depend_on_the_batch(name):
    size, features = SIZES[name]
    trunk = models.create_trunk(name).eval()
    assert (trunk.name, trunk.image_size, trunk.out_features) == (name, size, features)
    assert copy.deepcopy(trunk).to("meta")(torch.rand(2, 3, size, size, device="meta")).shape == (2, features)
    size = min(size, 112)  # numbers at half the real size, for a quarter of the time
    images = torch.rand(2, 3, size, size)
    with torch.no_grad():
        together, alone = trunk(images), trunk(images[1:])
    assert together.shape == (2, features)
    assert relative_error(alone, together[1:]) < 1e-4
    assert relative_error(together[0], together[1]) > 1e-4  # two images do differ by more than that


# ResNet-50 begins as ResNet-18 does, and both Inception-v3 as GoogLeNet.
@pytest.mark.parametrize("name", ["conv4", "squeezenet1_0", "googlenet", "resnet18", "bn_inception"])
def test_the_seed_decides_the_weights(name):
    def state(seed):
        torch.manual_seed(seed)
        return models.create_trunk(name).state_dict()

    first, again, other = state(1), state(1), state(2)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("name", ["conv4", "resnet18", "bn_inception"])
def test_a_grey_image_is_the_colour_image_with_three_equal_channels(name):
    trunk = models.create_trunk(name).eval()
    grey = torch.rand(2, 1, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(trunk(grey), trunk(grey.expand(-1, 3, -1, -1)))


def test_conv4_averages_colours_and_has_no_batch_statistics():
    trunk = models.create_trunk("conv4").train()
    images = torch.rand(3, 3, 28, 28)
    features = trunk(images)
    torch.testing.assert_close(trunk(images[:, [2, 0, 1]]), features)
    torch.testing.assert_close(trunk(images[:1]), features[:1])
    assert sum(p.numel() for p in trunk.parameters()) < 150_000


@pytest.mark.parametrize(
    ("images", "says"),
    [
        (torch.zeros(3, 28, 28), r"images \(B, 1 or 3, H, W\), not \(3, 28, 28\)"),
        (torch.zeros(2, 4, 28, 28), r"images \(B, 1 or 3, H, W\), not \(2, 4, 28, 28\)"),
        (torch.zeros(2, 3, 28, 28, dtype=torch.uint8), "divide uint8 images by 255"),
    ],
)
def test_wrong_images_are_named(images, says):
    with pytest.raises(UsageError, match=says):
        models.create_trunk("conv4")(images)


def test_unknown_trunk_names_the_near_one():
    with pytest.raises(UsageError, match="did you mean 'resnet50'"):
        models.create_trunk("resnet51")


def classifier(name: str, **options) -> nn.Module:
    """torchvision's own network, with statistics and scales that BatchNorm has to use."""
    network = torchvision.models.get_model(name, weights=None, **options).eval()
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.uniform_(-0.1, 0.1)
            layer.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(layer.weight, 1.5, 2.5)  # lets the differences between images through
    return network


@pytest.mark.parametrize(
    ("name", "size", "options"),
    [
        ("squeezenet1_0", 64, {}),
        ("resnet18", 64, {}),
        ("googlenet", 64, {"aux_logits": True, "transform_input": True, "init_weights": False}),
        ("inception_v3", 75, {"aux_logits": True, "transform_input": True, "init_weights": False}),
    ],
)
def test_torchvision_checkpoint_gives_torchvision_features(name, size, options, tmp_path):
    network = classifier(name, **options)
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    trunk = models.create_trunk(name, weights=tmp_path / "weights.pth").eval()
    images = torch.rand(2, 3, size, size)
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    with torch.no_grad():
        if name == "squeezenet1_0":
            expected = network.features((images - mean) / std).flatten(2).mean(2)
        else:
            network.fc = nn.Identity()
            expected = network((images - mean) / std)
        assert relative_error(trunk(images), expected) < 1e-5
        assert relative_error(trunk(images.flip(1)), expected) > 1e-3  # RGB, not BGR


@pytest.mark.parametrize("name", files.TORCHVISION)
def test_torchvisions_weights_are_found_by_their_file(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    names = {
        each: torchvision.models.get_model_weights(each)["IMAGENET1K_V1"].url.rsplit("/", 1)[1]
        for each in files.TORCHVISION
    }
    for other, file in names.items():
        if other != name:
            (folder / file).touch()
    for weights in torchvision.models.get_model_weights(name):
        if weights.name != "IMAGENET1K_V1":
            (folder / weights.url.rsplit("/", 1)[1]).touch()
    assert not models.has_weights(name, "imagenet")
    (folder / names[name]).touch()
    assert models.has_weights(name, "imagenet")


# BN-Inception, from the public listing of its ImageNet checkpoint: every convolution, inputs -> outputs

BN_INCEPTION_LISTING = """
conv1_7x7_s2 3 64, conv2_3x3_reduce 64 64, conv2_3x3 64 192
3a 1x1 192 64, 3x3_reduce 192 64, 3x3 64 64, double_3x3_reduce 192 64, double_3x3_1 64 96, double_3x3_2 96 96,
   pool_proj 192 32
3b 1x1 256 64, 3x3_reduce 256 64, 3x3 64 96, double_3x3_reduce 256 64, double_3x3_1 64 96, double_3x3_2 96 96,
   pool_proj 256 64
3c 3x3_reduce 320 128, 3x3 128 160, double_3x3_reduce 320 64, double_3x3_1 64 96, double_3x3_2 96 96
4a 1x1 576 224, 3x3_reduce 576 64, 3x3 64 96, double_3x3_reduce 576 96, double_3x3_1 96 128, double_3x3_2 128 128,
   pool_proj 576 128
4b 1x1 576 192, 3x3_reduce 576 96, 3x3 96 128, double_3x3_reduce 576 96, double_3x3_1 96 128, double_3x3_2 128 128,
   pool_proj 576 128
4c 1x1 576 160, 3x3_reduce 576 128, 3x3 128 160, double_3x3_reduce 576 128, double_3x3_1 128 160,
   double_3x3_2 160 160, pool_proj 576 128
4d 1x1 608 96, 3x3_reduce 608 128, 3x3 128 192, double_3x3_reduce 608 160, double_3x3_1 160 192,
   double_3x3_2 192 192, pool_proj 608 128
4e 3x3_reduce 608 128, 3x3 128 192, double_3x3_reduce 608 192, double_3x3_1 192 256, double_3x3_2 256 256
5a 1x1 1056 352, 3x3_reduce 1056 192, 3x3 192 320, double_3x3_reduce 1056 160, double_3x3_1 160 224,
   double_3x3_2 224 224, pool_proj 1056 128
5b 1x1 1024 352, 3x3_reduce 1024 192, 3x3 192 320, double_3x3_reduce 1024 192, double_3x3_1 192 224,
   double_3x3_2 224 224, pool_proj 1024 128
"""


def public_shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes of the public checkpoint, which is older than `num_batches_tracked`."""
    shapes = {}
    for line in BN_INCEPTION_LISTING.strip().replace(",\n", ",").splitlines():
        prefix = ""
        if line[0].isdigit():
            block, line = line.split(maxsplit=1)
            prefix = f"inception_{block}_"
        for entry in line.split(","):
            name, inputs, outputs = entry.split()
            kernel = 7 if "7x7" in name else 1 if name == "1x1" or name.endswith(("reduce", "proj")) else 3
            shapes[f"{prefix}{name}.weight"] = (int(outputs), int(inputs), kernel, kernel)
            shapes[f"{prefix}{name}.bias"] = (int(outputs),)
            for vector in ("weight", "bias", "running_mean", "running_var"):
                shapes[f"{prefix}{name}_bn.{vector}"] = (int(outputs),)
    shapes["last_linear.weight"], shapes["last_linear.bias"] = (1000, 1024), (1000,)
    return shapes


def public_state() -> OrderedDict[str, torch.Tensor]:
    """Random weights under the public names, of a size that keeps activations in range."""
    state = OrderedDict()
    for name, shape in public_shapes().items():
        if name.endswith("running_var"):
            state[name] = torch.rand(shape) + 0.5
        elif name.endswith("bn.weight"):
            state[name] = torch.rand(shape) + 1.0
        else:
            fan_in = shape[1] * shape[-1] ** 2 if len(shape) == 4 else 100
            state[name] = torch.randn(shape) / fan_in**0.5
    return state


def test_bn_inception_has_the_names_and_shapes_of_the_public_checkpoint():
    state = BNInception().state_dict()
    shapes = {name: tuple(value.shape) for name, value in state.items() if not name.endswith("num_batches_tracked")}
    assert shapes == public_shapes()
    assert len([name for name in state if name.endswith("num_batches_tracked")]) == 69  # one a convolution
    assert models.create_trunk("bn_inception").state_dict().keys() == state.keys()


def test_bn_inception_parameters():
    trunk = models.create_trunk("bn_inception")
    assert sum(p.numel() for p in trunk.parameters()) == 11_295_240  # the published count, classifier included
    assert sum(p.numel() for p in trunk.parameters() if p.requires_grad) == 11_295_240 - 1_025_000


def test_bn_inception_loads_old_files_strictly(tmp_path):
    """The oldest hold two-dimensional vectors, and are no archive."""
    state = public_state()
    stored = OrderedDict((name, value[None] if "_bn." in name else value) for name, value in state.items())
    path = tmp_path / "bn_inception.pth"
    torch.save(stored, path, _use_new_zipfile_serialization=False)
    loaded = models.create_trunk("bn_inception", weights=str(path)).state_dict()
    assert all(torch.equal(loaded[name], value) for name, value in state.items())


def test_bn_inception_loads_without_create_trunk_inside_a_model_and_after_a_copy():
    state = OrderedDict((name, value[None] if "_bn." in name else value) for name, value in public_state().items())
    copy.deepcopy(BNInception()).load_state_dict(state)
    model = models.EmbeddingModel(BNInception(), 1)  # the embedder's weight is (1, 1024), and stays so
    state = OrderedDict((f"trunk.{name}", value) for name, value in state.items())
    state |= {"embedder.weight": torch.ones(1, 1024), "embedder.bias": torch.ones(1)}
    model.load_state_dict(state)
    assert torch.equal(model.embedder.weight, torch.ones(1, 1024))


def plain_bn_inception(state, x):
    """BN-Inception written out with functions: BGR in 0..255, mean subtracted -> last maps."""

    def conv(x, name, stride=1):
        weight = state[f"{name}.weight"]
        x = F.conv2d(x, weight, state[f"{name}.bias"], stride, padding=weight.shape[-1] // 2)
        mean, var, scale, shift = (
            state[f"{name}_bn.{v}"][:, None, None] for v in ("running_mean", "running_var", "weight", "bias")
        )
        return ((x - mean) / (var + 1e-5).sqrt() * scale + shift).clamp(min=0)

    def pool(x):
        return F.max_pool2d(x, kernel_size=3, stride=2, ceil_mode=True)

    x = pool(conv(x, "conv1_7x7_s2", stride=2))
    x = pool(conv(conv(x, "conv2_3x3_reduce"), "conv2_3x3"))
    for block in ("3a", "3b", "3c", "4a", "4b", "4c", "4d", "4e", "5a", "5b"):
        name = f"inception_{block}_"
        stride = 2 if block in ("3c", "4e") else 1
        middle = conv(conv(x, name + "3x3_reduce"), name + "3x3", stride)
        double = conv(conv(x, name + "double_3x3_reduce"), name + "double_3x3_1")
        double = conv(double, name + "double_3x3_2", stride)
        if stride == 2:
            x = torch.cat([middle, double, pool(x)], 1)
            continue
        pooled = F.max_pool2d(x, 3, 1, 1) if block == "5b" else F.avg_pool2d(x, 3, 1, 1)
        x = torch.cat([conv(x, name + "1x1"), middle, double, conv(pooled, name + "pool_proj")], 1)
    return x


@pytest.mark.parametrize("size", [64, 99])
def test_bn_inception_equals_the_network_written_out(size):
    state = public_state()
    trunk = BNInception().eval()
    trunk.load_state_dict(state)
    images = torch.rand(1, 3, size, size)
    bgr = torch.stack([images[:, 2] * 255 - 104, images[:, 1] * 255 - 117, images[:, 0] * 255 - 128], 1)
    with torch.no_grad():
        maps = plain_bn_inception(state, bgr)
        assert maps.shape[1:] == ((1024, 2, 2) if size == 64 else (1024, 3, 3))
        assert relative_error(trunk(images), maps.mean((2, 3))) < 1e-4
        assert relative_error(trunk(images.flip(1)), maps.mean((2, 3))) > 1e-3  # BGR in place of RGB is seen


@pytest.mark.parametrize(("size", "side"), [(224, 7), (227, 7), (113, 4)])
def test_bn_inception_map_sizes(size, side):
    with torch.no_grad():
        assert BNInception().eval().feature_maps(torch.zeros(1, 3, size, size)).shape == (1, 1024, side, side)


# Weight files


def test_a_path_may_be_relative_to_the_data_folder(tmp_path, monkeypatch):
    expected = models.create_trunk("conv4")
    (tmp_path / "weights").mkdir()
    torch.save(expected.state_dict(), tmp_path / "weights" / "conv4.pth")
    monkeypatch.setenv("DMLRC_DATA", str(tmp_path))
    trunk = models.create_trunk("conv4", weights="weights/conv4.pth")
    assert torch.equal(trunk.layers[0].weight, expected.layers[0].weight)


def test_a_bare_file_name_is_found_one_folder_below_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DMLRC_DATA", str(tmp_path / "data"))
    below, deeper = tmp_path / "data" / "weights" / "a[1].pth", tmp_path / "data" / "weights" / "deeper" / "b.pth"
    for file in (below, deeper):
        file.parent.mkdir(parents=True)
        file.write_bytes(b"")
    assert models.find_weights("a[1].pth") == below
    for not_bare_or_too_deep in ("b.pth", "deeper/b.pth", "a1.pth"):
        with pytest.raises(MissingDataError, match="no weight file at"):
            models.find_weights(not_bare_or_too_deep)
    (tmp_path / "data" / "a[1].pth").write_bytes(b"")  # the data folder itself goes first
    assert models.find_weights("a[1].pth") == tmp_path / "data" / "a[1].pth"


def test_a_missing_file_is_named_with_both_places(tmp_path, monkeypatch):
    monkeypatch.setenv("DMLRC_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"no weight file at nowhere\.pth or .*nowhere\.pth"):
        models.create_trunk("conv4", weights="nowhere.pth")


class Malicious:
    """Unpickling it would create a file."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pickle_with_code_is_refused_and_not_run(tmp_path):
    marker, path = tmp_path / "was_here", tmp_path / "weights.pth"
    torch.save({"layers.0.weight": Malicious(marker)}, path)
    with pytest.raises(DmlrcError, match="which are never loaded"):
        models.create_trunk("conv4", weights=path)
    path.write_bytes(pickle.dumps(Malicious(marker), protocol=2))
    with pytest.raises(DmlrcError, match="which are never loaded"):
        models.create_trunk("conv4", weights=path)
    assert not marker.exists()


@pytest.mark.parametrize(("keep", "zipped"), [(0, True), (0.5, True), (0.5, False), (0.99, True), (0.99, False)])
def test_a_damaged_file_is_named(keep, zipped, tmp_path):
    path = tmp_path / "weights.pth"
    torch.save(models.create_trunk("conv4").state_dict(), path, _use_new_zipfile_serialization=zipped)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(DmlrcError, match=r"cannot read .*weights\.pth as a state_dict"):
        models.create_trunk("conv4", weights=path)


@pytest.mark.parametrize("content", [[torch.ones(2)], {0: torch.ones(2)}, {"state_dict": {"a": torch.ones(2)}}])
def test_a_file_that_is_no_state_dict_is_named(content, tmp_path):
    torch.save(content, tmp_path / "weights.pth")
    with pytest.raises(DmlrcError, match="is not a state_dict: save one with"):
        models.create_trunk("conv4", weights=tmp_path / "weights.pth")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda state: state.pop("layers.0.bias"), r'does not fit conv4: Missing key\(s\).*"layers.0.bias"'),
        (lambda state: state.update(extra=torch.ones(1)), r'does not fit conv4: Unexpected key\(s\).*"extra"'),
        (
            lambda state: state.update({"layers.0.bias": torch.ones(5)}),
            "does not fit conv4: size mismatch for layers.0",
        ),
    ],
)
def test_loading_is_strict(change, says, tmp_path):
    state = models.create_trunk("conv4").state_dict()
    change(state)
    torch.save(state, tmp_path / "weights.pth")
    with pytest.raises(DmlrcError, match=says):
        models.create_trunk("conv4", weights=tmp_path / "weights.pth")


def test_the_weights_of_another_network_are_refused_in_one_line(tmp_path):
    torch.save(models.create_trunk("conv4").state_dict(), tmp_path / "weights.pth")
    with pytest.raises(DmlrcError, match="does not fit squeezenet1_0") as error:
        models.create_trunk("squeezenet1_0", weights=tmp_path / "weights.pth")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


def test_imagenet_weights_are_downloaded_once_and_checked(tmp_path, monkeypatch):
    network = classifier("squeezenet1_0")
    torch.save(network.state_dict(), tmp_path / "made.pth")
    checksum = hashlib.sha256((tmp_path / "made.pth").read_bytes()).hexdigest()[:8]
    _, url = trunks.files.torchvision_file("squeezenet1_0")
    assert url == "https://download.pytorch.org/models/squeezenet1_0-b66bff10.pth"
    calls = []

    def download(url, path, hash_prefix):
        calls.append((url, hash_prefix))
        shutil.copy(tmp_path / "made.pth", path)

    stored = tmp_path / f"squeezenet1_0-{checksum}.pth"
    monkeypatch.setattr(trunks.files, "torchvision_file", lambda name: (stored, url))
    monkeypatch.setattr(torch.hub, "download_url_to_file", download)
    for _ in range(2):
        trunk = models.create_trunk("squeezenet1_0", weights="imagenet")
        assert torch.equal(trunk.features[0].weight, network.features[0].weight)
    assert calls == [(url, checksum)]
    flip(stored)
    for weights in ("imagenet", stored):
        with pytest.raises(DmlrcError, match=rf"damaged or another file, its SHA-256 does not begin with {checksum}"):
            models.create_trunk("squeezenet1_0", weights=weights)


def flip(file):
    """One bit of the tensors in the middle of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_a_flipped_bit_in_a_file_of_ones_own_is_noticed(tmp_path):
    file = tmp_path / "weights.pth"
    torch.save(models.create_trunk("conv4").state_dict(), file)
    models.create_trunk("conv4", weights=file)
    flip(file)
    with pytest.raises(DmlrcError, match=r"cannot read .*weights\.pth as a state_dict of tensors: it is damaged"):
        models.create_trunk("conv4", weights=file)


def test_without_a_network_the_download_is_named(tmp_path, monkeypatch):
    def download(*_, **__):
        raise URLError("no route")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", download)
    with pytest.raises(MissingDataError, match=r"squeezenet1_0 .*no route.*get https://.*squeezenet1_0-b66bff10\.pth"):
        models.create_trunk("squeezenet1_0", weights="imagenet")


def test_imagenet_weights_of_bn_inception_come_from_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DMLRC_DATA", str(tmp_path / "data"))
    with pytest.raises(MissingDataError, match=r"put bn_inception-52deb4733\.pth, .* into the folder \$DMLRC_DATA"):
        models.create_trunk("bn_inception", weights="imagenet")
    state = public_state()
    (tmp_path / "data").mkdir()
    torch.save(state, tmp_path / "data" / "bn_inception-52deb4733.pth")
    loaded = models.create_trunk("bn_inception", weights="imagenet").state_dict()
    assert all(torch.equal(loaded[name], value) for name, value in state.items())


def test_conv4_has_no_imagenet_weights():
    with pytest.raises(UsageError, match="conv4 has no ImageNet weights"):
        models.create_trunk("conv4", weights="imagenet")


# Frozen BatchNorm


def test_freezing_keeps_names_and_values_and_copies_stay_frozen():
    trunk = models.create_trunk("timm:test_resnet")
    before = copy.deepcopy(trunk.state_dict())
    frozen = copy.deepcopy(models.freeze_batch_norm(trunk)).train()
    assert list(frozen.state_dict()) == list(before)
    assert all(torch.equal(frozen.state_dict()[name], value) for name, value in before.items())
    assert not frozen.network.layer1[0].bn1.training


# Embedder


def test_embedding_is_linear_then_l2():
    model = models.EmbeddingModel(models.FeatureTrunk(5), 3)
    features = torch.randn(4, 5)
    rows = []
    for feature in features:
        row = model.embedder.weight @ feature + model.embedder.bias
        rows.append(row / sum(v * v for v in row) ** 0.5)
    torch.testing.assert_close(model(features), torch.stack(rows))
    model.normalize = False
    torch.testing.assert_close(model(features), F.linear(features, model.embedder.weight, model.embedder.bias))


def test_layer_norm_head_of_zhai_and_wu():
    model = models.EmbeddingModel(models.FeatureTrunk(6), 4, layer_norm=True)
    assert model.embedder.bias is None
    assert not list(model.norm.parameters())
    features = torch.randn(3, 6)
    centred = features - features.mean(1, keepdim=True)
    standard = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
    expected = standard @ model.embedder.weight.T
    torch.testing.assert_close(model(features), expected / expected.norm(dim=1, keepdim=True))

    bare = models.EmbeddingModel(models.FeatureTrunk(6), None, layer_norm=True)
    assert bare.embedding_dim == 6
    assert not list(bare.parameters())
    torch.testing.assert_close(bare(features), standard / standard.norm(dim=1, keepdim=True))


def test_a_zero_embedding_stays_zero_with_a_finite_gradient():
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    y = models.l2_normalize(x)
    assert y.tolist() == [[0.0, 0.0], [pytest.approx(0.6), pytest.approx(0.8)]]
    y.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert x.grad.abs().max() <= 1


def test_features_of_the_wrong_width_are_named():
    with pytest.raises(UsageError, match=r"FeatureTrunk gives \(2, 4\), not \(B, 5\)"):
        models.EmbeddingModel(models.FeatureTrunk(5), 3)(torch.zeros(2, 4))


# Stacked models

stacks_group_norm = pytest.mark.skipif(
    torch.__version__.startswith("2.11."), reason="torch 2.11 has no group norm in a vmap on a CPU"
)


def frozen_resnet():
    return models.EmbeddingModel(models.freeze_batch_norm(models.create_trunk("timm:test_resnet")), 8).train()


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        pytest.param(lambda: models.create_trunk("conv4"), (1, 28, 28), marks=stacks_group_norm),
        pytest.param(
            lambda: models.EmbeddingModel(models.create_trunk("conv4"), 16), (3, 28, 28), marks=stacks_group_norm
        ),
        (lambda: models.create_trunk("squeezenet1_0"), (3, 48, 48)),
        (lambda: models.EmbeddingModel(models.FeatureTrunk(7), 5), (7,)),
        (lambda: models.EmbeddingModel(models.FeatureTrunk(7), 5, layer_norm=True), (7,)),
        (frozen_resnet, (3, 32, 32)),
    ],
    ids=["conv4", "conv4-embedding", "squeezenet", "features", "features-layer-norm", "resnet-frozen-bn"],
)
def test_a_stack_equals_its_members(make, shape):
    # in float32 a rounding error may turn a maximum of a pooling window, and with it the gradient
    torch.manual_seed(0)
    members = [make().double() for _ in range(2)]
    batches = torch.rand(2, 3, *shape, dtype=torch.float64)
    with torch.no_grad():
        weighting = torch.randn(2, *members[0](batches[0]).shape, dtype=torch.float64)  # a loss without symmetry
    parameters, buffers = stack_module_state(members)
    base = copy.deepcopy(members[0]).to("meta")

    def value(parameters, buffers, batch, weighting):
        return (functional_call(base, (parameters, buffers), (batch,)) * weighting).sum()

    outputs = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)))(parameters, buffers, batches)
    gradients = vmap(grad(value))(parameters, buffers, batches, weighting)
    for k, member in enumerate(members):
        alone = member(batches[k])
        assert relative_error(outputs[k], alone) < 1e-10
        (alone * weighting[k]).sum().backward()
        for name, parameter in member.named_parameters():
            if parameter.requires_grad and parameter.grad.abs().max() > 0:
                assert relative_error(gradients[name][k], parameter.grad) < 1e-8, name


# Bulk embedding


def to_float(batch):
    return batch.float() / 255


def test_embed_goes_through_all_images_in_order_and_restores_the_mode(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (11, 1, 28, 28), dtype=np.uint8)
    np.save(tmp_path / "images.npy", images)
    trunk = models.create_trunk("conv4")
    model = models.EmbeddingModel(trunk, 8).train()
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    embeddings = models.embed(model, mapped, to_float, batch_size=4)
    assert embeddings.shape == (11, 8)
    assert embeddings.dtype == np.float32
    assert model.training
    with torch.no_grad():
        expected = torch.cat([model(torch.from_numpy(image[None]).float() / 255) for image in images])
    np.testing.assert_allclose(embeddings, expected.numpy(), atol=1e-6)


def test_embed_is_in_evaluation_mode():
    trunk = models.create_trunk("resnet18").train()
    statistics = trunk.bn1.running_mean.clone()
    images = np.random.default_rng(0).integers(0, 256, (3, 3, 32, 32), dtype=np.uint8)
    first, again = (models.embed(trunk, images, to_float, batch_size=size) for size in (3, 2))
    np.testing.assert_allclose(first, again, rtol=1e-4, atol=1e-5)
    assert torch.equal(trunk.bn1.running_mean, statistics)
    assert trunk.training


def test_embed_takes_cached_features_and_names_an_empty_set():
    model = models.EmbeddingModel(models.FeatureTrunk(5), 3)
    features = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    assert models.embed(model, features, lambda batch: batch, batch_size=4).shape == (6, 3)
    with pytest.raises(UsageError, match="no images to embed"):
        models.embed(model, features[:0], lambda batch: batch)


@pytest.mark.parametrize(("name", "weights", "says"), [(None, None, "unknown trunk None"), ("conv4", True, "not True")])
def test_a_trunk_of_no_name_or_weights_of_no_kind(name, weights, says):
    with pytest.raises(UsageError, match=says):
        models.create_trunk(name, weights)
