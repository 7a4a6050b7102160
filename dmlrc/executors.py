"""What runs units: this process, or several of one thread each, of which one may die without the others."""

import os
import queue
import threading
import time
import warnings
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool

import loky

from dmlrc.errors import UsageError

# between two tasks loky restarts a worker that has grown by 300 MB, as one does that reads data sets: nothing is lost
warnings.filterwarnings("ignore", "A worker was restarted while some jobs were given", UserWarning)

_FEW = 16  # workers that any machine may be asked for
# two threads of one process and a busy neighbour slow each other badly
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def check_workers(workers: int) -> int:
    """The number as it is. Raises UsageError for one of processes that this machine cannot sensibly run."""
    cores = os.cpu_count() or 1
    most = max(_FEW, 4 * cores)
    if not isinstance(workers, int) or isinstance(workers, bool) or not 1 <= workers <= most:
        raise UsageError(
            f"{workers!r} workers cannot run on the {cores} cores of this machine: give a whole number from 1 to {most}"
        )
    return workers


def pool(workers: int) -> Executor:
    """What runs units: this process, or several of one thread each, which end with this one.

    Raises UsageError as `check_workers` does.
    """
    return Serial() if check_workers(workers) == 1 else Workers(workers)


class Serial(Executor):
    """Runs each task in this process, at once."""

    def submit(self, fn, /, *args, **kwargs) -> Future:
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class Workers(Executor):
    """Processes of one thread each, every one a pool of its own.

    So the death of one is the failure of the task that it ran (`BrokenProcessPool`) and of no other, and a new one
    takes its place. Takes losses that a notebook defines, since loky sends what cannot be imported by value. `submit`
    waits for a worker that is free.
    """

    def __init__(self, count: int):
        self._all: set[loky.ProcessPoolExecutor] = set()
        self._free: queue.Queue[loky.ProcessPoolExecutor | None] = queue.Queue()
        for _ in range(count):
            self._free.put(None)  # is started when it is needed

    def submit(self, fn, /, *args, **kwargs) -> Future:
        worker = self._free.get() or self._start()
        try:
            future = worker.submit(fn, *args, **kwargs)
        except BrokenProcessPool:  # it died while it had no task
            self._all.discard(worker)
            worker = self._start()
            future = worker.submit(fn, *args, **kwargs)
        future.add_done_callback(lambda done: self._back(worker, done))
        return future

    def _start(self) -> loky.ProcessPoolExecutor:
        worker = loky.ProcessPoolExecutor(1, env=_ONE_THREAD, initializer=_end_with, initargs=(os.getpid(),))
        self._all.add(worker)
        return worker

    def _back(self, worker: loky.ProcessPoolExecutor, done: Future) -> None:
        if not done.cancelled() and isinstance(done.exception(), BrokenProcessPool):
            self._all.discard(worker)
            worker = None
        self._free.put(worker)

    def __exit__(self, kind, *error) -> None:
        for worker in self._all:  # on an error, Ctrl-C too, nobody waits for what is under way
            worker.shutdown(wait=kind is None, kill_workers=kind is not None)


def _end_with(parent: int) -> None:
    """End this worker when the process that started it is gone, even killed: nobody would take its results."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
