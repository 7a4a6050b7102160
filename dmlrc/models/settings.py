"""Settings of torch and NumPy that change numbers: those of a unit and of what is cached are its own."""

import contextlib
import ctypes
import functools
import os
import sys
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import backends
from torch.nn.attention import SDPBackend, sdpa_kernel

from dmlrc.errors import UsageError


@contextlib.contextmanager
def settled(device: torch.device, precision: str) -> Iterator[None]:
    """Settle what holds while a unit runs, whatever the caller has set, who has it back afterwards.

    torch's defaults; one thread on a CPU; on a GPU, the same numbers from the same seed.

    Raises UsageError for a precision that the device does not have.
    """
    if device.type != "cuda" and precision != "float32":
        raise UsageError(f"precision {precision!r} is that of a GPU, and this runs on {device.type}: take float32")
    with defaults(), _repeatable("tf32" if precision == "tf32" else "ieee") if device.type == "cuda" else _one_thread():
        yield


_DEFAULTS = (
    (backends.mkldnn, "enabled", True),
    (backends.mkldnn, "deterministic", False),
    (backends.mkldnn.conv, "fp32_precision", "ieee"),
    (backends.mkldnn.matmul, "fp32_precision", "ieee"),
    (backends.mkldnn.rnn, "fp32_precision", "ieee"),
    (backends.cuda.matmul, "fp32_precision", "ieee"),
    (backends.cudnn.conv, "fp32_precision", "tf32"),  # a unit has others, see `_repeatable`
    (backends.cudnn.rnn, "fp32_precision", "tf32"),
    (backends.cudnn, "enabled", True),
    (backends.cudnn, "benchmark", False),
    (backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", True),
    (backends.opt_einsum, "enabled", backends.opt_einsum.is_available()),
)
"""Attributes as torch has them; the precision is that of float32."""
_OF_MODULES = torch.nn.modules.module
_HOOKS = [name for name, held in vars(_OF_MODULES).items() if name.startswith("_global_") and isinstance(held, dict)]
"""Dictionaries of what a caller has every module do besides."""


@contextlib.contextmanager
def defaults() -> Iterator[None]:
    """The settings of torch and NumPy that change numbers as these have them, and afterwards as they were."""
    _keep_memory()
    dtype, products = torch.get_default_dtype(), _products()
    enabled, warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    elsewhere = torch.get_default_device().type != "cpu"  # naming one, even the CPU, makes every call slower
    with (
        torch.device("cpu") if elsewhere else contextlib.nullcontext(),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast("cpu", torch.bfloat16, enabled=False),  # torch's own kinds, for a loss that switches it on
        torch.autocast("cuda", torch.float16, enabled=False),
        torch.autograd.set_detect_anomaly(False),
        _own_saved_tensors(),
        np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"),
        sdpa_kernel([*SDPBackend.__members__.values()][1:]),  # all but ERROR
        _set(*_DEFAULTS, *((_OF_MODULES, name, OrderedDict()) for name in _HOOKS)),
    ):
        torch.set_default_dtype(torch.float32)
        torch.set_float32_matmul_precision("highest")
        if enabled:  # not otherwise: the call imports torch's compiler, for seconds in every process
            torch.use_deterministic_algorithms(False)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_float32_matmul_precision(products)
            if enabled:
                torch.use_deterministic_algorithms(True, warn_only=warn)


def _own_saved_tensors() -> contextlib.AbstractContextManager[None]:
    """Hide a caller's hooks on what autograd saves, where there are some: of all open ones the innermost are called."""
    graph = torch.autograd.graph
    try:
        with graph.disable_saved_tensors_hooks("there are none"):
            return contextlib.nullcontext()
    except RuntimeError:
        return graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)


def _products() -> str:
    """torch's word for the precision of products, which it refuses where they were set one kind at a time."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "highest"


@functools.cache
def _keep_memory() -> None:
    """Keep the memory of large arrays for the next ones of any thread, where there is glibc; no number depends on it.

    glibc gives it back at once, and the kernel clears it anew: a third of the CPU time of a step of MobileNetV2.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if hasattr(libc, "mallopt"):  # musl has none
        for parameter, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 2**28), (_ARENA_MAX, 1)):
            libc.mallopt(parameter, value)


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8  # of malloc.h


@contextlib.contextmanager
def _set(*settings: tuple[Any, str, Any]) -> Iterator[None]:
    """Set attributes of torch, and afterwards as they were. settings: whose, which and its value."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in settings]
    try:
        for owner, name, value in settings:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    flushed = bool(torch.tensor(torch.finfo(torch.float32).tiny) / 2 == 0)  # torch does not tell what is set
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # ArcFace at high scales is a quarter faster, and no score changes
    try:
        with threadpool_limits(1):  # NumPy's products too
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushed)


_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


@contextlib.contextmanager
def _repeatable(convolutions: str = "ieee") -> Iterator[None]:
    """The same numbers from the same seed on a GPU. convolutions: torch's word for their precision.

    On an NVIDIA H200, with torch's own settings, a run of conv4 repeated gave other numbers. Forward and backward of 32
    images, with those settings and with these: conv4 3.1 and 3.7 ms, BN-Inception at 227 px 27 and 35, ResNet-50 at
    227 px 21 and 66, of which two thirds are the full float32.
    """
    workspace = os.environ.get(_WORKSPACE)
    os.environ.setdefault(_WORKSPACE, ":4096:8")  # is read with the first product
    torch.use_deterministic_algorithms(True, warn_only=True)  # an operation that has no such way says so
    try:
        # of convolutions TF32, torch's default, keeps ten bits
        with _set(
            (torch.utils.deterministic, "fill_uninitialized_memory", False),
            (backends.cudnn.conv, "fp32_precision", convolutions),
        ):
            yield
    finally:
        torch.use_deterministic_algorithms(False)
        if workspace is None:
            del os.environ[_WORKSPACE]
