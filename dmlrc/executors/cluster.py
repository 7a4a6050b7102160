"""The workers of a Dask cluster as an executor, for `dmlrc.run.run`."""

import contextlib
import logging
import platform
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from dmlrc import errors
from dmlrc.errors import DmlrcError, UsageError
from dmlrc.executors import by_value, call
from dmlrc.records import provenance

if TYPE_CHECKING:
    import distributed

PATIENCE = 10
"""Seconds in which a scheduler must answer."""
_HOW = "with TLS, as the page 'Scale it out: many machines' (book/scale_out.md) says"
_GPU = "GPU"  # the name of the resource that a worker offers: `dask worker ... --resources GPU=1`


class Dask(Executor):
    """The workers of a Dask cluster, each of one thread; records are those of a serial run on the same processor.

    cluster: the address of a scheduler ("tls://host:8786"), a cluster of `distributed` or dask_jobqueue, or a client.
    The death of a worker is the failure of the task that it ran (`BrokenProcessPool`); for that, Dask itself is told
    not to try such a task again, as long as this executor is open. Where workers offer the resource "GPU", every task
    takes one. What a worker cannot import (a loss of a notebook or of a local file) is sent by value.

    Raises UsageError where there is no such scheduler, or no worker, or one of several threads, or one with other
    versions of dmlrc, torch or Python than here: also of workers that come later.
    """

    def __init__(self, cluster: "str | distributed.Client | distributed.deploy.Cluster"):
        errors.require("dask", "a Dask cluster")
        import distributed

        self._name = cluster if isinstance(cluster, str) else "this cluster"
        self._own = not isinstance(cluster, distributed.Client)
        try:
            if isinstance(cluster, str):
                distributed.comm.resolve_address(cluster)  # a client with a malformed address could not be closed
            self._client = distributed.Client(cluster, timeout=PATIENCE, set_as_default=False) if self._own else cluster
        except (OSError, ValueError) as error:
            raise UsageError(
                f"no Dask scheduler answers at {self._name} ({type(error).__name__}): start one {_HOW}, "
                "and name the address that it prints, such as tls://HOST:8786"
            ) from None
        self._checked: set[str] = set()
        self._deaths_allowed = None
        try:
            self._on_gpus = any(map(_has_gpu, self._workers().values()))
            self._executor = self._client.get_executor(pure=False, resources={_GPU: 1} if self._on_gpus else {})
            self._deaths_allowed = self._allow_deaths(0)
        except BaseException:
            self._close()
            raise

    def slots(self) -> int:
        """Number of tasks that the workers can run at once; at least one, which waits for a worker.

        Raises as the constructor does, and DmlrcError where the scheduler is gone.
        """
        self._require_scheduler()
        try:
            workers = self._workers().values()
        except OSError:
            raise self._gone() from None
        return max(1, sum(map(_has_gpu, workers)) if self._on_gpus else len(workers))

    def submit(self, fn: Callable, /, *args, **kwargs) -> Future:
        """Hand a task to a worker that is free. Raises DmlrcError where the scheduler is gone; so does the future."""
        self._require_scheduler()
        future = Future()
        handed_out = self._executor.submit(call, by_value((fn, args, kwargs)))
        handed_out.add_done_callback(lambda done: self._pass_on(done, future))
        return future

    def _pass_on(self, done: Future, future: Future) -> None:
        import distributed

        if future.cancelled():  # by `run`, which is at its end
            return
        if done.cancelled():
            future.set_exception(self._gone())
        elif isinstance(done.exception(), distributed.KilledWorker):
            future.set_exception(BrokenProcessPool(str(done.exception())))
        elif done.exception():
            future.set_exception(done.exception())
        else:
            future.set_result(done.result())

    def _require_scheduler(self) -> None:
        if self._client.status != "running":
            raise self._gone()

    def _gone(self) -> DmlrcError:
        return DmlrcError(
            f"the Dask scheduler at {self._name} is gone: finished records are kept, and the same command goes on from "
            "here with a new one"
        )

    def _workers(self) -> dict[str, Mapping[str, Any]]:
        """The workers that there are, by address: those that were not here before are checked."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"]  # by default Dask names some
        if not workers and not self._checked:
            raise UsageError(f"{self._name} has no workers: start some {_HOW}")
        for address, worker in workers.items():
            if worker["nthreads"] != 1:
                raise UsageError(
                    f"the worker {address} has {worker['nthreads']} threads, but training seeds the random numbers of "
                    f"its whole process: start workers with one thread (--nthreads 1), {_HOW}"
                )

        def ask() -> dict[str, str]:  # defined here, so that a worker without dmlrc can say so
            from dmlrc.executors.cluster import versions

            return versions()

        new = [address for address in workers if address not in self._checked]
        answers = self._client.run(ask, workers=new, on_error="return") if new else {}
        for address, answer in answers.items():
            if not isinstance(answer, OSError):  # else it died while it was asked
                check_versions(address, answer)
                self._checked.add(address)
        return workers

    def _allow_deaths(self, count: int) -> int:
        """Set how many workers a task may kill before Dask gives it up, and return what was set before."""

        def change(dask_scheduler) -> int:  # defined here, since a scheduler need not be able to import dmlrc
            before, dask_scheduler.allowed_failures = dask_scheduler.allowed_failures, count
            return before

        return self._client.run_on_scheduler(change)

    def __exit__(self, *error) -> None:
        self._close()

    def _close(self) -> None:
        """Cancel what is under way, of which after an error there is some, and leave the cluster as it was."""
        with contextlib.suppress(OSError, TimeoutError):
            if self._deaths_allowed is not None and self._client.status == "running":
                self._executor.shutdown(wait=False)
                self._allow_deaths(self._deaths_allowed)
        if self._client.status != "running":  # what Dask logs of it has been said
            logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        if self._own:
            self._client.close()


def _has_gpu(worker: Mapping[str, Any]) -> bool:
    return worker["resources"].get(_GPU, 0) >= 1


def versions() -> dict[str, str]:
    """Versions that must be the same on all machines for records to be."""
    return {"dmlrc": provenance.commit(), "torch": version("torch"), "Python": platform.python_version()}


def check_versions(address: str, there: Mapping[str, str] | BaseException) -> None:
    """Raise UsageError where a worker has other versions than this process, or could not tell its own."""
    if isinstance(there, BaseException):
        raise UsageError(f"the worker {address} cannot run dmlrc ({type(there).__name__}: {there}): install it there")
    other = [f"{name} {there[name]} instead of {here}" for name, here in versions().items() if there[name] != here]
    if other:
        raise UsageError(
            f"the worker {address} has {', '.join(other)}: its numbers would differ. Start it from the same environment"
        )
