"""A reader's own studies: a methods table on other data, or with another trunk, seed, class order or budget.

They stand in `studies.toml` in the folder of the project, a table each. Only `like` must be given:

    [my-photos]
    like = "grocery-frozen-full"        # all other settings, and the methods, are those of this study
    dataset = "folder:~/photos"
    trunk = "resnet50"                  # or "timm:NAME" with any model of timm
    weights = "imagenet"                # or "package", or a file, see `dmlrc.models.create_trunk`
    crop_size = 224                     # pixels that the trunk sees
    seed = 1
    class_order = "random"
    budget = "quick"

With a trunk and without weights, it has ImageNet weights where that study has some.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dmlrc import data, models
from dmlrc.errors import UsageError, unknown
from dmlrc.models.available import TIMM
from dmlrc.protocol import FULL, QUICK, SMOKE, Protocol, Study

BUDGETS = {budget.name: budget for budget in (FULL, QUICK, SMOKE)}
KEYS = ("like", "dataset", "trunk", "weights", "crop_size", "seed", "class_order", "budget")
WHOLE_NUMBERS = {"seed": 0, "crop_size": 1}  # and the least that they may be


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
    base = tables[changes["like"]]
    own = {key: changes[key] for key in ("dataset", "seed", "class_order") if key in changes}
    if "budget" in changes:
        own["budget"] = BUDGETS[changes["budget"]]
    protocol = _protocol(base.protocol, changes)
    return replace(base, name=name, expected=f"as {base.name}: {base.expected}", protocol=protocol, **own)


def _protocol(base: Protocol, changes: Mapping) -> Protocol:
    """The protocol with another trunk, other weights or another size; images keep their margin around the crop."""
    own = {key: changes[key] for key in ("trunk", "weights", "crop_size") if key in changes}
    if "trunk" in own:
        own.setdefault("weights", "imagenet" if base.weights else None)
    if "crop_size" in own:
        own["image_size"] = round(base.image_size * own["crop_size"] / base.crop_size)
    return replace(base, **own)


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
    if key in WHOLE_NUMBERS:
        if type(value) is not int or value < WHOLE_NUMBERS[key]:
            raise UsageError(
                f"{key} of study {name!r} is {value!r}: it is a whole number, {WHOLE_NUMBERS[key]} or more"
            )
        return
    if not isinstance(value, str):
        raise UsageError(f'{key} of study {name!r} is {value!r}: it is a name, in "quotation marks"')
    if key == "weights":
        return  # a file may be anywhere
    known = {
        "like": tables,
        "dataset": (*data.names(), "folder:PATH"),
        "trunk": (*models.names(), f"{TIMM}NAME"),
        "class_order": ("default", "random"),
        "budget": BUDGETS,
    }[key]
    if value not in known and not value.startswith({"dataset": "folder:", "trunk": TIMM}.get(key, ())):
        raise unknown(f"{key} of study {name!r}", value, known)
