"""What runs units: this process, or several of one thread each."""

import os
import pickle
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context, parent_process

from dmlrc.errors import UsageError

_FEW = 16  # workers that any machine may be asked for


def check_workers(workers: int) -> int:
    """The number as it is. Raises UsageError for one of processes that this machine cannot sensibly run."""
    cores = os.cpu_count() or 1
    most = max(_FEW, 4 * cores)
    if not isinstance(workers, int) or isinstance(workers, bool) or not 1 <= workers <= most:
        raise UsageError(
            f"{workers!r} workers cannot run on the {cores} cores of this machine: give a whole number from 1 to {most}"
        )
    return workers


class _Serial(Executor):
    """Runs each task in this process, at once."""

    def submit(self, fn, /, *args, **kwargs) -> Future:
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def pool(workers: int) -> Executor:
    """What runs units: this process, or several of one thread each, which end with this one.

    Raises UsageError as `check_workers` does.
    """
    if check_workers(workers) == 1:
        return _Serial()
    # one thread a worker: two threads of one process and a busy neighbour slow each other badly
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    return _Processes(workers, mp_context=get_context("spawn"), initializer=_end_with_parent)


class _Processes(ProcessPoolExecutor):
    """Processes that also take a loss that a notebook defines, which they could not import by its name."""

    def submit(self, fn, /, *args, **kwargs) -> Future:
        import cloudpickle  # here, so that one process needs it not

        return super().submit(_unpacked, cloudpickle.dumps((fn, args, kwargs)))


def _unpacked(task: bytes):
    fn, args, kwargs = pickle.loads(task)
    return fn(*args, **kwargs)


def _end_with_parent() -> None:
    """End this worker when the process that started it is gone, even killed: nobody would take its results."""

    def watch() -> None:
        parent_process().join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
