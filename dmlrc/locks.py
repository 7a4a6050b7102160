"""What one process keeps to itself until it ends, even killed: a byte of an open file."""

import errno
from typing import IO

from dmlrc.errors import DmlrcError


def keep(file: IO, byte: int, refusal: str) -> None:
    """Keep this byte of an open file to this process; where the folder knows no locks, as some shared ones, do nothing.

    Raises DmlrcError with the refusal where another process keeps it.
    """
    import fcntl  # not on Windows, where records can be read all the same

    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise DmlrcError(refusal) from None
