"""Where training runs."""

import pytest
import torch

from dmlrc import inputs
from dmlrc.errors import UsageError


@pytest.mark.parametrize("name", ["bogus", "cuda:", "cuda:99", "cpu:1:2", "meta", "CPU", "cuda:-1", " "])
def test_a_device_that_there_is_not(monkeypatch, name):
    monkeypatch.setenv("DMLRC_DEVICE", name)
    with pytest.raises(UsageError, match=rf"DMLRC_DEVICE is '{name}', but this machine has only cpu.*: name one"):
        inputs.device()


def test_cuda_without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("DMLRC_DEVICE", "cuda")
    with pytest.raises(UsageError, match="DMLRC_DEVICE is 'cuda', but this machine has only cpu"):
        inputs.device()


@pytest.mark.parametrize(
    ("gpus", "name", "device"),
    [
        (0, None, "cpu"),
        (0, "", "cpu"),
        (0, "cpu", "cpu"),
        (2, None, "cuda"),
        (2, "cuda:1", "cuda:1"),
        (2, "cpu", "cpu"),
    ],
)
def test_devices_that_there_are(monkeypatch, gpus, name, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.delenv("DMLRC_DEVICE")
    if name is not None:
        monkeypatch.setenv("DMLRC_DEVICE", name)
    assert inputs.device() == torch.device(device)
