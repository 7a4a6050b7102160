"""Executors: this process, or single-threaded workers that can die independently."""

import io
import os
import queue
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import cloudpickle
import loky

from dmlrc import paths
from dmlrc.errors import DmlrcError, UsageError
from dmlrc.records import fingerprint

# between two tasks loky restarts a worker that has grown by 300 MB, as one does that reads data sets: nothing is lost
warnings.filterwarnings("ignore", "A worker was restarted while some jobs were given", UserWarning)

_SOME = 16  # workers that any machine may be asked for
_OF_A_FILE = ("__name__", "__package__", "__path__", "__file__")  # which imports in a function ask for
# two threads of one process and a busy neighbour slow each other badly
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def check_workers(workers: int) -> int:
    """The number as it is. Raises UsageError for one of processes that this machine cannot sensibly run."""
    cores = os.cpu_count() or 1
    most = max(_SOME, 4 * cores)
    if not isinstance(workers, int) or isinstance(workers, bool) or not 1 <= workers <= most:
        raise UsageError(f"{workers!r} workers cannot run here (cores: {cores}): give a whole number from 1 to {most}")
    return workers


def pool(workers: int) -> Executor:
    """Make what runs units: this process, or several of one thread each, which end with this one.

    Raises UsageError as `check_workers` does.
    """
    return Serial() if check_workers(workers) == 1 else Workers(workers)


class Serial(Executor):
    """Runs each task in this process, at once."""

    def slots(self) -> int:
        """Number of tasks that it can run at once, as every executor here tells."""
        return 1

    def submit(self, fn, /, *args, **kwargs) -> Future:
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class Workers(Executor):
    """Processes of one thread each, every one a pool of its own.

    So the death of one is the failure of the task that it ran (`BrokenProcessPool`) and of no other, and a new one
    takes its place. Tasks are sent by value, losses of a notebook or a local file too, as they are in this process.
    `submit` waits for a worker that is free.
    """

    def __init__(self, count: int):
        self._count = count
        self._all: set[loky.ProcessPoolExecutor] = set()
        self._free: queue.Queue[loky.ProcessPoolExecutor | None] = queue.Queue()
        for _ in range(count):
            self._free.put(None)  # is started when it is needed

    def slots(self) -> int:
        return self._count

    def submit(self, fn, /, *args, **kwargs) -> Future:
        task = by_value((fn, args, kwargs))  # first: where it cannot be sent, no worker is taken
        worker = self._free.get() or self._start()
        try:
            future = worker.submit(call, task)
        except BrokenProcessPool:  # it died while it had no task
            self._all.discard(worker)
            worker = self._start()
            future = worker.submit(call, task)
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
        for worker in list(self._all):  # on an error, Ctrl-C too, nobody waits for what is under way
            worker.shutdown(wait=kind is None, kill_workers=kind is not None)


class Foreign(Executor):
    """Processes of another executor, which get each task by value."""

    def __init__(self, executor: Executor):
        self._executor = executor

    def slots(self) -> int:
        """The processes of a pool, which concurrent.futures, loky and mpi4py call alike; of others it is not known."""
        return getattr(self._executor, "_max_workers", None) or sys.maxsize

    def submit(self, fn, /, *args, **kwargs) -> Future:
        """Hand a task on. Raises DmlrcError where the processes are gone for good, unlike those of `Workers`."""
        try:
            return self._executor.submit(call, by_value((fn, args, kwargs)))
        except BrokenProcessPool:
            raise DmlrcError(
                "the executor's processes are gone, perhaps for want of memory, and there is work left: run it again "
                "with a new one, finished records are kept"
            ) from None


def _end_with(parent: int) -> None:
    """Exit when the parent process has died."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def call(task: bytes) -> Any:
    """Run a task of `by_value`. Meanwhile its modules are those that an import finds."""
    fn, args, kwargs, modules = cloudpickle.loads(task)
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        return fn(*args, **kwargs)
    finally:
        for name, module in before.items():
            del sys.modules[name]
            sys.modules |= {name: module} if module else {}


def by_value(task: tuple) -> bytes:
    """A task for `call`, with the code of all modules that were not installed: another machine does not have them, and
    another process would import a file that may have been edited since.

    The files that a loss reaches go whole, for code finds there by words what no pickle sees; but what cannot be sent.
    """
    registered = cloudpickle.list_registry_pickle_by_value()
    local = [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] not in ("__main__", "__mp_main__", "dmlrc", *registered)
        and (file := getattr(module, "__file__", None))
        and paths.is_own(file)
    ]
    for module in local:
        cloudpickle.register_pickle_by_value(module)
    try:
        files = fingerprint.files(task)
        try:
            return _dumped(task, files, lambda value: True)
        except Exception:  # a lock, an open file
            return _dumped(task, files, _can_be_sent)
    finally:
        for module in local:
            cloudpickle.unregister_pickle_by_value(module)


def _can_be_sent(value: Any) -> bool:
    try:
        return bool(isinstance(value, types.ModuleType) or cloudpickle.dumps(value))
    except Exception:
        return False


def _dumped(task: tuple, files: Mapping[str, dict[str, Any]], is_sent: Callable[[Any], bool]) -> bytes:
    stream = io.BytesIO()
    pickler = _Pickler(stream, files, is_sent)
    pickler.dump((*task, pickler.modules))
    return stream.getvalue()


class _Names(dict):
    """Stands for the names that a file defines, where a function of it is sent."""


class _Pickler(cloudpickle.Pickler):
    """Sends files as modules, in which what they define stays together. files: the names of each."""

    def __init__(self, stream: io.BytesIO, files: Mapping[str, dict[str, Any]], is_sent: Callable[[Any], bool]):
        super().__init__(stream)
        self.modules, self._contents = {}, {}
        for name, names in files.items():
            module = sys.modules.get(name)
            self.modules[name] = module if module and vars(module) is names else types.ModuleType(name)
            own = {key: value for key, value in fingerprint.defined(names).items() if is_sent(value)}
            self._contents[name] = {key: names[key] for key in _OF_A_FILE if key in names} | own
            self.globals_ref[id(names)] = _Names(__name__=name)

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, _Names):
            return vars, (self.modules[value["__name__"]],)
        if type(value) is types.ModuleType and self.modules.get(value.__name__) is value:
            return types.ModuleType, (value.__name__,), self._contents[value.__name__]
        return super().reducer_override(value)
