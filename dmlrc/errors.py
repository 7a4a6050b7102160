"""The errors a user can meet: each message is one sentence that names the thing and the way out."""

import re
from importlib.util import find_spec


def printable(text: str) -> str:
    """A line as any terminal can print it: what is no text in a name is spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class DmlrcError(Exception):
    """Something that the user can put right; the command line prints it and exits with 1."""

    exit_code = 1

    def __str__(self) -> str:
        """Make one line that any terminal can print: a name in it may hold line breaks or bytes that are no text.

        >>> print(DmlrcError("there is no folder a\\nb"))
        there is no folder a\\nb
        """
        return printable(super().__str__())


class UsageError(DmlrcError):
    """An unknown name or a wrong argument; the command line prints it and exits with 2."""

    exit_code = 2


class LossError(UsageError):
    """A loss of one's own fails, perhaps with these hyperparameters alone."""


class MissingDataError(DmlrcError):
    """A data set or weight file is not there; the message says how to get it."""


class DivergedError(DmlrcError):
    """Training produced NaN or infinite values; the trial is recorded as diverged."""


def lacks_memory(error: BaseException | None) -> bool:
    """Tell whether memory does not suffice: by Python's own error, or by a RuntimeError of torch's allocators."""
    of_torch = isinstance(error, RuntimeError) and re.search("allocate memory|out of memory", str(error))
    return isinstance(error, MemoryError) or bool(of_torch)


def unknown(kind: str, name: object, known, finder: str = "") -> UsageError:
    """The error for an unknown name; suggests the closest, or lists all.

    finder: where they are too many for that, what finds one; then the nearest three are named.

    >>> print(unknown("loss", "contrastiv", ["contrastive", "triplet"]))
    unknown loss 'contrastiv': did you mean 'contrastive'?
    """
    import difflib

    known = sorted(known)
    near = difflib.get_close_matches(str(name), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}" if known else "there is none yet"
    if finder and not near:
        nearest = difflib.get_close_matches(str(name), known, n=3, cutoff=0)
        hint = f"the nearest are {', '.join(nearest)}; {finder}"
    return UsageError(f"unknown {kind} {name!r}: {hint}")


_SEARCH = ("optuna",)
MODULES = {
    "search": _SEARCH,
    "dask": ("distributed", "dask_jobqueue"),
    "heic": ("pi_heif",),
    "book": (*_SEARCH, "jupyter_book", "papermill", "ipykernel", "nbformat", "seaborn", "scikit_posthocs"),
}
"""What each extra installs, as it is imported."""


def has(extra: str) -> bool:
    """Tell whether everything of an extra is installed."""
    return not _lacking(extra)


def require(extra: str, what: str) -> None:
    """Raise DmlrcError unless everything of an extra is installed. what: that needs it, to begin the sentence with."""
    if lacking := _lacking(extra):
        raise DmlrcError(
            f"{what} needs {', '.join(lacking)}: install dmlrc with its extra {extra!r}, in a clone of the project "
            f"`pip install '.[{extra}]'`"
        )


def _lacking(extra: str) -> list[str]:
    return [module for module in MODULES[extra] if find_spec(module) is None]
