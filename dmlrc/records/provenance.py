"""Provenance of a number: commit, versions, hardware."""

import functools
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

PACKAGES = ("torch", "torchvision", "numpy", "scikit-learn", "optuna", "faiss-gpu", "faiss-cpu")


@functools.cache
def commit() -> str:
    """The commit of the code that runs, "-dirty" where tracked files differ from it, else the package version."""
    file = Path(__file__)
    try:
        _git("ls-files", "--error-unmatch", file.name, folder=file.parent)  # not another project's, installed inside it
        return _git("describe", "--always", "--dirty", "--abbrev=10", "--exclude=*", folder=file.parent)
    except (OSError, subprocess.CalledProcessError):
        return f"dmlrc {version('dmlrc')}"


def _git(*arguments: str, folder: Path) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def environment(device: torch.device) -> dict:
    """Python, package versions, processor and accelerator."""
    packages = {}
    for package in PACKAGES:
        try:
            packages[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": os.cpu_count(),
        "device": device_name(device),
        "packages": packages,
    }


def device_name(device: torch.device) -> str:
    """The name of a GPU, else the type of the device, such as "cpu"."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@functools.cache
def processor() -> str:
    """The name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        if names:
            return names[0]
    return platform.processor() or platform.machine()
