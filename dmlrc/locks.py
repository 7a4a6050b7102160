"""What one process keeps to itself until it ends, even killed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from dmlrc.errors import DmlrcError


@contextmanager
def kept(file: Path, refusal: str, wait: float = 0) -> Iterator[None]:
    """Keep a file, which holds nothing, to this block. wait: seconds, for another that holds it.

    Where the folder knows no locks, as some shared ones, do nothing.

    Raises DmlrcError with the refusal where another process, or another block of this one, still keeps it.
    """
    lock = filelock.FileLock(file)
    try:
        lock.acquire(timeout=wait)
    except filelock.Timeout:
        raise DmlrcError(refusal) from None
    except NotImplementedError:
        pass
    try:
        yield
    finally:
        lock.release()
