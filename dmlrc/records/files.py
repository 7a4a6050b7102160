"""Files of records: written whole or not at all, with a checksum, and read with a sentence where they are damaged."""

import errno
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dmlrc import paths
from dmlrc.errors import DmlrcError
from dmlrc.records.schema import MADE_AGAIN

_WAYS_OUT = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room on the disk"),
    **dict.fromkeys((errno.EACCES, errno.EROFS, errno.EPERM), "make the folder writable"),
}


def way_out_of(error: OSError) -> str:
    return _WAYS_OUT.get(error.errno, "put that right")


def unwritable(path: Path, error: OSError) -> DmlrcError:
    elsewhere = " or name another one in DMLRC_RUNS" if path.is_relative_to(paths.runs()) else ""
    return DmlrcError(f"cannot write {path} ({error.strerror}): {way_out_of(error)}{elsewhere}")


_SEAL = "checksum"


def write_sealed(path: Path, value: Mapping) -> None:
    """Write a record with the checksum of its contents, by which a number that was changed by hand is found out."""
    whole = finite(dict(value))
    write_json(path, whole | {_SEAL: _checksum(whole)})


def unsealed(sealed: Any, path: Path, way_out: str = MADE_AGAIN, is_older: bool = True) -> Any:
    """Contents without their checksum. Raises DmlrcError where they were changed since.

    is_older: than checksums, as it may be; else one that lacks its checksum was changed too.
    """
    if not isinstance(sealed, dict):
        return sealed
    contents = {name: value for name, value in sealed.items() if name != _SEAL}
    if sealed[_SEAL] != _checksum(contents) if _SEAL in sealed else not is_older:
        raise DmlrcError(f"{path} is not what was written there, its checksum says. {way_out}")
    return contents


def _checksum(contents: Mapping) -> str:
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


def write_json(path: Path, value: dict) -> None:
    """Write a file whole or not at all; NaN is written as null."""
    write_whole(path, json.dumps(finite(value), indent=1).encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; a link stays one, to the file that is written."""
    path = path.resolve()
    try:
        with paths.whole_file(path) as file:
            file.write(content)
    except OSError as error:
        raise unwritable(path, error) from None


def read_json(path: Path, way_out: str = MADE_AGAIN) -> dict:
    """Read a record; a damaged one is named, with what to do about it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise DmlrcError(f"the record {path} is damaged. {way_out}") from None
    except OSError as error:
        raise DmlrcError(f"the record {path} cannot be read ({error.strerror}): move it away") from None


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON, and no value of a record")


def finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
