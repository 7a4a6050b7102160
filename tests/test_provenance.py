"""What a record says of the machine that made it."""

import pytest
import torch

from dmlrc import provenance


@pytest.mark.parametrize("name", ["cpu", "mps"])
def test_the_device_that_trained_is_named(name):
    assert provenance.environment(torch.device(name))["device"] == name
