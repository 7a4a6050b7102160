"""Inception-v3 to Mixed_7a: its layers are torchvision's, its weights one known file."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest
import torch
from test_models import classifier
from torch import Tensor, nn

from dmlrc import models
from dmlrc.errors import DmlrcError, MissingDataError, UsageError
from dmlrc.models import trunks

NAME, FILE = "inception_v3_mixed7a", "inception_v3_mixed7a.pth"
DATA = os.environ.get("DMLRC_DATA")  # no test sees it but the last


def whole() -> nn.Module:
    """torchvision's own network, with statistics that BatchNorm has to use."""
    return classifier("inception_v3", aux_logits=True, transform_input=True, init_weights=False)


def of_the_file(network: nn.Module) -> dict[str, Tensor]:
    """What the real file has of a network: every layer up to Mixed_7a, without the counts of batches."""
    later = ("Mixed_7b", "Mixed_7c", "AuxLogits", "fc")
    return {
        name: value
        for name, value in network.state_dict().items()
        if not name.startswith(later) and not name.endswith("num_batches_tracked")
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[nn.Module, Path, str]:
    """A network, a file of the real layout with its weights, and the file's SHA-256."""
    network, file = whole(), tmp_path_factory.mktemp("made") / FILE
    torch.save(of_the_file(network), file)
    return network, file, hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def network(made, tmp_path, monkeypatch) -> nn.Module:
    """The made-up file in the data folder; with its network."""
    network, file, digest = made
    shutil.copy(file, tmp_path / FILE)
    monkeypatch.setenv("DMLRC_DATA", str(tmp_path))
    monkeypatch.setattr(trunks.files, "MIXED7A_SHA256", digest)
    return network


def test_its_features_are_torchvisions_maps_behind_mixed_7a(network):
    assert len(of_the_file(network)) == 380  # as many as in the real file: five for each of 76 convolutions
    trunk = models.create_trunk(NAME, FILE).eval()
    maps = []
    hook = network.Mixed_7a.register_forward_hook(lambda layer, inputs, output: maps.append(output))
    images = torch.rand(2, 3, 107, 107)
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    with torch.no_grad():
        network((images - mean) / std)
        hook.remove()
        torch.testing.assert_close(trunk(images), maps[0].mean((2, 3)), rtol=1e-4, atol=1e-5)
        assert (trunk(images.flip(1)) - trunk(images)).abs().max() > 1e-3  # RGB, not BGR


def test_a_file_of_the_whole_network_is_refused(network, tmp_path):
    torch.save(network.state_dict(), tmp_path / "other.pth")
    with pytest.raises(DmlrcError, match=f"does not fit {NAME}: Unexpected key.*Mixed_7b"):
        models.create_trunk(NAME, "other.pth")


def test_a_changed_file_of_this_name_is_refused_and_another_name_is_ones_own(network, tmp_path):
    torch.save(of_the_file(network) | {"Conv2d_1a_3x3.bn.bias": torch.ones(32)}, tmp_path / FILE)
    with pytest.raises(DmlrcError, match=rf"{FILE} is damaged or another file"):
        models.create_trunk(NAME, FILE)
    (tmp_path / FILE).rename(tmp_path / "mine.pth")
    models.create_trunk(NAME, "mine.pth")


def test_whether_its_file_is_here(network, tmp_path):
    assert models.has_weights(NAME, FILE)
    assert not models.has_weights(NAME, "imagenet")
    (tmp_path / FILE).unlink()
    assert not models.has_weights(NAME, FILE)
    with pytest.raises(MissingDataError, match=f"no weight file at .*{FILE}"):
        models.create_trunk(NAME, FILE)


def test_imagenet_names_the_file():
    with pytest.raises(UsageError, match=f"the ImageNet weights of {NAME} come from the file {FILE}: put it into"):
        models.create_trunk(NAME, "imagenet")


def test_it_can_be_cut_at_its_last_six_blocks():
    trunk = models.create_trunk(NAME).eval()
    images = torch.rand(2, 3, 75, 75)
    blocks = [getattr(trunk, f"Mixed_{block}") for block in ("6a", "6b", "6c", "6d", "6e", "7a")]
    stem, head = models.split_trunk(trunk, "Mixed_6a")  # a chain from there is one from the later ones
    assert list(head.layers)[:-1] == blocks
    with torch.no_grad():
        torch.testing.assert_close(head(stem(images)), trunk(images))


# The real file

FEATURES_OF_PATTERN = {1037: 2.1520, 1183: 2.0890, 932: 1.7052}  # BGR would give 2.2206, 1.9727 and 1.8642


def pattern(size: int) -> Tensor:
    """An image (1, 3, size, size) of whole numbers 0..255, with structure at several scales."""
    c, y, x = torch.meshgrid(torch.arange(3), torch.arange(size), torch.arange(size), indexing="ij")
    return (((c + 2) * y * y // 16 + (5 - c) * x * y // 8 + 40 * c * x) % 256)[None].float()


@pytest.mark.skipif(not models.has_weights(NAME, FILE), reason=f"needs {FILE}")
def test_its_features_are_those_that_were_checked(monkeypatch):
    """With them R@1 is 0.698 on the 96 images of CUB-200 (2010) that the file's README names: 67 of 96."""
    if DATA:
        monkeypatch.setenv("DMLRC_DATA", DATA)
    with torch.no_grad():
        features = models.create_trunk(NAME, FILE).eval()(pattern(150) / 255)[0]
    assert features.shape == (1280,)
    assert {place: features[place].item() for place in FEATURES_OF_PATTERN} == pytest.approx(
        FEATURES_OF_PATTERN, abs=1e-3
    )
