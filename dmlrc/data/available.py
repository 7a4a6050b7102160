"""The data sets by name, and which of them are here: answered without reading one."""

import os
from contextlib import suppress
from pathlib import Path

from dmlrc.data.listing import data_root
from dmlrc.data.registry import SOURCES, packed, unpacked
from dmlrc.errors import MissingDataError, UsageError, unknown

FEATURES = ("grocery-lite0",)  # features of photographs, which are not here themselves
EMBEDDED = ("glyphs", "glyphs-small", "icons", *FEATURES)  # drawn, or part of the package
_EMBEDDED_EXTENT = {"glyphs": (16_776, 1_398, (1, 28, 28)), "glyphs-small": (2_232, 186, (1, 28, 28))}
_EMBEDDED_EXTENT |= {"icons": (7_333, 2_008, (1, 32, 32)), "grocery-lite0": (5_421, 81, (1280,))}


def names() -> tuple[str, ...]:
    """List the data sets that `load` knows by name; "folder:PATH" is one more, for images of one's own.

    Returns
    -------
    Names: those of the package first, then those in DMLRC_DATA
    """
    return (*EMBEDDED, *sorted(SOURCES))


def check_known(name: object) -> None:
    """Raise UsageError for what is no name of a data set."""
    if not isinstance(name, str) or not (name in names() or name.startswith("folder:")):
        raise unknown("data set", name, [*names(), "folder:PATH"])


def state(name: str, root: str | os.PathLike | None = None) -> str:
    """Tell whether a data set can be loaded.

    Parameters
    ----------
    name : one of `names()`
    root : the folder of the data sets; default DMLRC_DATA

    Returns
    -------
    "embedded", "here", "packed" (as its archives) or "missing"

    Raises
    ------
    UsageError
        For an unknown name.
    """
    check_known(name)
    if name in EMBEDDED:
        return "embedded"
    with suppress(UsageError, MissingDataError, OSError):  # no data folder is named, or it may not be read
        if name.startswith("folder:"):
            return "here" if folder_path(name).is_dir() else "missing"
        home = data_root(root)
        if unpacked(name, home):
            return "here"
        if packed(name, home):
            return "packed"
    return "missing"


def extent(name: str) -> tuple[int, int, tuple[int, ...]]:
    """Tell how large a data set is by its name: images, classes, and the shape of an image as it is stored.

    Of the glyphs, whose letters may differ by a few, with the FreeType that they were counted with. Raises KeyError for
    a folder of one's own.
    """
    if name in _EMBEDDED_EXTENT:
        return _EMBEDDED_EXTENT[name]
    source = SOURCES[name]
    return source.images, source.classes, (source.form.channels, source.form.size, source.form.size)


def folder_name(name: str) -> str:
    """Take the last part of the path of "folder:PATH", by which it is named where the path concerns nobody."""
    return Path(name.removeprefix("folder:")).name


def folder_path(name: str) -> Path:
    """Find the folder that "folder:PATH" names. Raises UsageError for what cannot be one on this machine."""
    try:
        if not (path := name.removeprefix("folder:")):
            raise ValueError("it is empty")
        return Path(path).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:  # no such user, a loop of links, a null character
        raise UsageError(f"{name!r} names no folder ({error}): write folder: and the path of a folder") from None
