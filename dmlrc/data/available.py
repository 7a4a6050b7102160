"""The data sets by name, and which of them are here: answered without reading one."""

import os
from contextlib import suppress
from pathlib import Path

from dmlrc.data.listing import data_root
from dmlrc.data.registry import SOURCES, packed, unpacked
from dmlrc.errors import MissingDataError, UsageError, unknown

FEATURES = ("grocery-lite0",)  # features of photographs, which are not here themselves
EMBEDDED = ("glyphs", "glyphs-small", *FEATURES)  # drawn, or part of the package


def names() -> tuple[str, ...]:
    """The data sets that `load` knows by name; "folder:PATH" is one more, for images of one's own."""
    return (*EMBEDDED, *sorted(SOURCES))


def state(name: str, root: str | os.PathLike | None = None) -> str:
    """Whether a data set can be loaded: "embedded", "here", "packed" (as its archives) or "missing".

    Raises UsageError for an unknown name.
    """
    if name in EMBEDDED:
        return "embedded"
    if name.startswith("folder:"):
        with suppress(UsageError, OSError):
            return "here" if folder_path(name).is_dir() else "missing"
        return "missing"
    if name not in SOURCES:
        raise unknown("data set", name, [*names(), "folder:PATH"])
    with suppress(MissingDataError, OSError):  # no data folder is named, or it may not be read
        home = data_root(root)
        if unpacked(name, home):
            return "here"
        if packed(name, home):
            return "packed"
    return "missing"


def folder_path(name: str) -> Path:
    """The folder that "folder:PATH" names. Raises UsageError for what cannot be one on this machine."""
    try:
        if not (path := name.removeprefix("folder:")):
            raise ValueError("it is empty")
        return Path(path).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:  # no such user, a loop of links, a null character
        raise UsageError(f"{name!r} names no folder ({error}): write folder: and the path of a folder") from None
