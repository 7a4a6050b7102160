"""Where a number comes from: commit, versions, hardware, and what else all records of a study share."""

import functools
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from dmlrc import records
from dmlrc.inputs import device, load_images
from dmlrc.methods import Method
from dmlrc.protocol import Study

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


def begin(study: Study, methods: Sequence[Method]) -> None:
    """Write the study's meta.json, with the facts of its data set and of this machine; beside records it may grow.

    methods: those that are run, which need not be the study's own.
    """
    with records.writing_meta(study.name) as path:
        records.write_json(path, _grown(study, methods, path) if records.is_begun(study.name) else _new(study, methods))


def _new(study: Study, methods: Sequence[Method]) -> dict[str, Any]:
    images = load_images(study.dataset, study.effective_protocol)
    facts = {
        "name": study.dataset,
        "images": len(images.labels),
        "classes": len(images.class_names),
        "shape": list(images.shape),
    }
    return study.configuration() | {
        "data": facts,
        "environment": environment(device()),
        "settings": {method.name: dict(method.settings) for method in study.methods},
        "changes": _changes({}, [*study.methods, *methods]),
        "commit": commit(),
        "created": now(),
    }


def _grown(study: Study, methods: Sequence[Method], path: Path) -> dict[str, Any]:
    before = records.read_raw_meta(path)
    settings = {method.name: dict(method.settings) for method in methods if method in study.methods}
    of_methods = {
        "settings": before.get("settings", {}) | settings,
        "changes": _changes(before.get("changes", {}), methods),
    }
    return before | records.grown(before, study.configuration()) | of_methods


def _changes(before: Mapping[str, Mapping], methods: Sequence[Method]) -> dict[str, dict]:
    """What each method changes of the protocol, where it changes something. before: of those that may have run."""
    changes = {**before, **{method.name: dict(method.changes) for method in methods}}
    return {name: changed for name, changed in changes.items() if changed}


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
