"""The optional parts of the package: where one is missing, the extra of pyproject.toml that brings it is named."""

from importlib.util import find_spec

from dmlrc.errors import DmlrcError

_SEARCH = ("optuna",)
MODULES = {
    "search": _SEARCH,
    "dask": ("distributed", "dask_jobqueue"),
    "heic": ("pi_heif",),
    "book": (*_SEARCH, "jupyter_book", "papermill", "ipykernel", "nbformat", "seaborn", "scikit_posthocs"),
}
"""What each extra installs, as it is imported."""


def has(extra: str) -> bool:
    """Whether everything of an extra is installed."""
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
