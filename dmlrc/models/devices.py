"""Devices that models run on, found without importing torch."""

import glob
import os

from dmlrc.errors import UsageError


def check_device(named: str, gpus: int) -> str:
    """The device that $DMLRC_DEVICE names, as it is. gpus: of this machine, which torch reaches by CUDA.

    Raises UsageError where there is no such device, and for Apple's GPUs, on which studies cannot run.
    """
    here = ["cpu", *["cuda"][:gpus], *(f"cuda:{number}" for number in range(gpus))]
    if named == "mps":
        raise UsageError(
            "DMLRC_DEVICE is 'mps', but the metrics need float64, which Apple's GPUs do not have: name cpu, or unset it"
        )
    if named not in here:
        raise UsageError(
            f"DMLRC_DEVICE is {named!r}, but this machine has only {', '.join(here)}: name one of these, or unset it"
        )
    return named


def has_gpu() -> bool:
    """Tell whether studies run on a GPU here, by the files of its driver; torch itself is asked once a study runs."""
    gpus = len(glob.glob("/dev/nvidia[0-9]*"))
    named = os.environ.get("DMLRC_DEVICE")
    return check_device(named, gpus) != "cpu" if named else gpus > 0
