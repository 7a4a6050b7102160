"""Places on disk: records being written, committed results, data, cached features; whose a file of code is."""

import errno
import functools
import os
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import platformdirs

from dmlrc.errors import DmlrcError, UsageError

_LIBRARY = Path(__file__).resolve().parent
_CHECKOUT = _LIBRARY.parent
_NOT_OWN = _LIBRARY, *(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))


def _named(variable: str) -> Path | None:
    """The folder that an environment variable names; None where it is unset or empty."""
    value = os.environ.get(variable)
    return expanded(value) if value else None


def expanded(path: str | os.PathLike) -> Path:
    """The path with a "~" as the folder that it is. Raises UsageError for that of a user whom nobody knows."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"{path} begins with the folder of a user who is not known: write the folder out") from None


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
ASIDE = "replaced-"
"""How the folders of records begin that are of an earlier form of their method."""


def committed(study: str) -> Path:
    """Folder to read the committed records of a study in: results/<study>/, which need not be there.

    While an export replaces them, and where one was killed meanwhile, the folder with what was there before.
    """
    folder = results() / study
    return folder / BEFORE if os.path.isdir(folder / BEFORE) else folder


def recorded(study: str) -> list[Path]:
    """Find the folders with records of a study: those made here, then the committed ones. A name may be too long."""
    return [folder for folder in (runs() / study, committed(study)) if os.path.exists(folder / "meta.json")]


def recorded_in(root: Path) -> list[str]:
    """The studies with records in a folder, `runs()` or `results()`, in the order of their names.

    Those are told by their meta.json, and in runs/ also by records without one, which `records.is_begun` refuses.
    """
    metas = (file.parent for file in root.rglob("meta.json"))
    folders = [folder.parent if folder.name == BEFORE else folder for folder in metas]  # of a killed export
    files = [(folder, folder) for folder in folders]
    files += [(file, file.parents[1]) for file in root.rglob("*/[0-9]*-*.json")]
    below = [(file.relative_to(root).parts, folder.relative_to(root).as_posix()) for file, folder in files]
    return sorted({name for parts, name in below if not any(part.startswith((".", ASIDE)) for part in parts)})


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
    installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return not installed and not set(_NOT_OWN).intersection(Path(file).resolve().parents)


def check_new(target: Path) -> None:
    """Raise UsageError for what is there and no empty folder: nothing is overwritten unasked."""
    if os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target} is there and not empty, and nothing is overwritten: name a new one")


PART = ".part"
"""How the files end that are being written, or were when their process was killed."""


@contextmanager
def whole_file(target: Path) -> Iterator[BinaryIO]:
    """A stream to a file beside the target, which takes its place at the end of the block: whole, or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=target.parent, suffix=PART)
    try:
        with open(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(part, 0o644)  # mkstemp gives 0600, with which nobody else could read it
        os.replace(part, target)
    finally:
        Path(part).unlink(missing_ok=True)


@contextmanager
def explained(what: str, otherwise: str) -> Iterator[None]:
    """Turn what the disk refuses into a sentence: what it is that cannot be, and what to do, beside making room."""
    try:
        yield
    except OSError as error:
        raise DmlrcError(f"{what} ({error.strerror or error}): make room, or {otherwise}") from error


@contextmanager
def new_target(target: Path) -> Iterator[Path]:
    """A path beside a new file or folder, for this block to write there: at its end the target is whole, or not there.

    Raises UsageError as `check_new`, DmlrcError where it cannot be written.
    """
    check_new(target)
    with explained(f"cannot write {target}", "name another one"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as temporary:
            yield (new := Path(temporary, target.name))
            check_new(target)  # again, for the block took its time
            try:
                os.link(new, target)  # which, unlike a renaming, takes the place of no file
            except OSError as error:
                if isinstance(error, FileExistsError) and not target.is_dir():
                    raise
                os.replace(new, target)  # of an empty folder alone; some disks know no links


FOLDERS = ("DMLRC_HOME", "DMLRC_RUNS", "DMLRC_CACHE", "DMLRC_DATA", "DMLRC_EXPORTS")  # that the environment may name


_NO_LOCKS = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS)


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
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    try:
        yield
    finally:
        lock.release()
