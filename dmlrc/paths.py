"""Places on disk: records being written, committed results, data, cached features; whose a file of code is."""

import functools
import os
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from dmlrc.errors import DmlrcError

_LIBRARY = Path(__file__).resolve().parent
_CHECKOUT = _LIBRARY.parent


def _named(variable: str) -> Path | None:
    """The folder that an environment variable names; None where it is unset or empty."""
    value = os.environ.get(variable)
    return Path(value).expanduser() if value else None


def home() -> Path:
    """The folder of the study: $DMLRC_HOME, else the checkout the package runs from, else here."""
    return _named("DMLRC_HOME") or (_CHECKOUT if (_CHECKOUT / "pyproject.toml").exists() else Path.cwd())


def runs() -> Path:
    """Records of studies under way, one small file a trial or rerun: $DMLRC_RUNS or runs/."""
    return _named("DMLRC_RUNS") or home() / "runs"


def results() -> Path:
    """Committed records of finished studies, Parquet: results/."""
    return home() / "results"


BEFORE = ".before"
"""The folder, in that of a study, with its committed records as they were while new ones take their place."""


def committed(study: str) -> Path:
    """Folder to read the committed records of a study in: results/<study>/, which need not be there.

    While an export replaces them, and where one was killed meanwhile, the folder with what was there before.
    """
    folder = results() / study
    return folder / BEFORE if (folder / BEFORE).is_dir() else folder


def measured() -> Path:
    """Committed measurements that are no records of a study: results/measured/."""
    return results() / "measured"


def cache() -> Path:
    """Decoded images, unpacked archives and features: $DMLRC_CACHE, else the user's cache folder of the platform."""
    named = _named("DMLRC_CACHE")
    return named.absolute() if named else platformdirs.user_cache_path("dmlrc", appauthor=False)


@functools.cache
def is_own(file: str) -> bool:
    """Tell whether a file of code is the reader's: not of this library, of Python or of an installed package."""
    others = _LIBRARY, *(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
    installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return not installed and not any(folder in Path(file).resolve().parents for folder in others)


@contextmanager
def kept(file: Path, refusal: str, wait: float = 0) -> Iterator[None]:
    """Keep a file, which holds nothing, to this block. wait: seconds, for another that holds it.

    Where the folder knows no locks, as some shared ones, do nothing.

    Raises DmlrcError with the refusal where another process, or another block of this one, still keeps it.
    """
    import filelock  # which lists of studies do not want

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
