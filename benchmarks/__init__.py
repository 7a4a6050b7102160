"""Speed, measured against a named peer in the same run and reported as a ratio: `make bench`."""

import time
from collections.abc import Callable

import torch


def clock(device: torch.device) -> Callable[[], float]:
    """What short work is timed by: on a CPU the time of the process, which a busy machine disturbs less."""
    return time.process_time if device.type == "cpu" else time.perf_counter
