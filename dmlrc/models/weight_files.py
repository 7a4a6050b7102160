"""Files of weights: how they are read and how they get into a network."""

import hashlib
import zipfile
from pathlib import Path
from textwrap import shorten

import torch
from torch import Tensor, nn

from dmlrc.errors import DmlrcError


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the state_dict of a file that torch.save wrote, or in a .safetensors file. Never runs code of the file.

    The checksums that torch.save writes are compared here, since torch.load does not: with one bit flipped it would
    give other weights without a word.
    """
    try:
        _check_zip(path)
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise anything
        raise DmlrcError(
            f"cannot read {path} as a state_dict of tensors: it is damaged (get it again), or holds code or other "
            "objects, which are never loaded"
        ) from error
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in state.items()
    ):
        raise DmlrcError(f"{path} is not a state_dict: save one with torch.save(model.state_dict(), path)")
    return state


def check_digest(path: Path, sha256: str, way_out: str) -> None:
    """Raise DmlrcError unless the file's SHA-256 begins with these hexadecimal digits."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if not digest.startswith(sha256):
        raise DmlrcError(f"{path} is damaged or another file, its SHA-256 does not begin with {sha256}: {way_out}")


def _check_zip(path: Path) -> None:
    """Raise ValueError for a zip file, torch.save's format since 2020, of which a part does not fit its checksum."""
    with path.open("rb") as stream:
        if stream.read(4) != b"PK\x03\x04":
            return
    with zipfile.ZipFile(path) as archive:
        if bad := archive.testzip():
            raise ValueError(f"{bad} does not fit its checksum")


def load_weights(network: nn.Module, state: dict[str, Tensor], path: Path, name: str) -> None:
    """Load a state_dict strictly; path and name say in the error what does not fit what."""
    try:
        # A plain dict does not name the version of its layers, so that an old file may lack `num_batches_tracked`.
        network.load_state_dict(dict(state))
    except RuntimeError as error:
        reason = str(error).split(":", 1)[1]  # without "Error(s) in loading state_dict for X:"
        raise DmlrcError(f"{path} does not fit {name}: {shorten(reason, 300, placeholder=' ...')}") from error
