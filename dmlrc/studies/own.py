"""A reader's own studies: a methods table on other data, or with another trunk, seed, class order or budget.

They stand in `studies.toml` in the folder of the project, a table each. Only `like` must be given:

    [my-photos]
    like = "grocery-frozen-full"        # all other settings, and the methods, are those of this study
    dataset = "folder:~/photos"
    trunk = "resnet50"                  # where that study has ImageNet weights, with torchvision's, downloaded once
    seed = 1
    class_order = "random"
    budget = "quick"
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dmlrc import data, models
from dmlrc.errors import UsageError, unknown
from dmlrc.protocol import FULL, QUICK, SMOKE, Study

BUDGETS = {budget.name: budget for budget in (FULL, QUICK, SMOKE)}
KEYS = ("like", "dataset", "trunk", "seed", "class_order", "budget")


def read(file: Path, tables: Mapping[str, Study], taken: set[str]) -> dict[str, Study]:
    """The studies of a file, by name; none where there is no such file.

    tables: the methods tables that a study may be like. taken: what its name may not be, nor begin with, nor be the
    beginning of, since the experiments around a study are named after it.

    Raises UsageError, which names the file, the study and the key, for what is not as above.
    """
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file} cannot be read ({error}): correct it, or move it away") from None
    try:
        return {name: _study(name, changes, tables, taken | found.keys() - {name}) for name, changes in found.items()}
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None


def _study(name: str, changes: object, tables: Mapping[str, Study], taken: set[str]) -> Study:
    _check_name(name, taken)
    if not isinstance(changes, dict) or "like" not in changes:
        raise UsageError(f'study {name!r} does not say what it is like: write like = "{min(tables)}" below [{name}]')
    for key, value in changes.items():
        _check(name, key, value, tables)
    own = {key: value for key, value in changes.items() if key != "like"}
    if "budget" in own:
        own["budget"] = BUDGETS[own["budget"]]
    base = tables[changes["like"]]
    if "trunk" in own:
        weights = "imagenet" if base.protocol.weights else None
        own["protocol"] = replace(base.protocol, trunk=own.pop("trunk"), weights=weights)
    return replace(base, name=name, expected=f"as {base.name}: {base.expected}", **own)


def _check_name(name: str, taken: set[str]) -> None:
    if not re.fullmatch(r"[\w-]+", name):
        raise UsageError(f"study {name!r} names a folder too: use letters, digits, - and _")
    for other in sorted(taken):
        if name == other or name.startswith(f"{other}-") or other.startswith(f"{name}-"):
            raise UsageError(f"the name {name!r} would mix with {other!r} and its experiments: choose another")


def _check(name: str, key: str, value: object, tables: Mapping[str, Study]) -> None:
    """Raise UsageError for an unknown key, or a value that it cannot have."""
    if key not in KEYS:
        raise unknown(f"key of study {name!r}", key, KEYS)
    if key == "seed":
        if type(value) is not int or value < 0:
            raise UsageError(f"seed of study {name!r} is {value!r}: it is a whole number, 0 or more")
        return
    if not isinstance(value, str):
        raise UsageError(f'{key} of study {name!r} is {value!r}: it is a name, in "quotation marks"')
    known = {
        "like": tables,
        "dataset": (*data.names(), "folder:PATH"),
        "trunk": models.names(),
        "class_order": ("default", "random"),
        "budget": BUDGETS,
    }[key]
    if value not in known and not (key == "dataset" and value.startswith("folder:")):
        raise unknown(f"{key} of study {name!r}", value, known)
