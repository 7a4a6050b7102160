"""A reader's own studies: a methods table on other data, or with another trunk, seed, class order or budget.

They stand in `studies.toml` in the folder of the project, a table each, as book/rerun.md shows: `like` alone must be
given, and all that is left out is as in the study that it names. A setting of the protocol holds for all methods but
those that have one of their own, and max_epochs whatever the budget. "none" is None.

With a trunk and without weights, it has ImageNet weights where that study has some; a trunk of timm and no crop_size
gives the size that its weights were made for. A study with smaller numbers than its budget's is called "below full" or
"below quick", and settles no claim.

The entries are checked here and not by pydantic, whose error for one wrong value has 4 lines, for two 7, and never the
file: here it is one sentence, with the key that was meant, what is possible, and the file to mend.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from dmlrc import data, models, names, paths
from dmlrc.errors import DmlrcError, UsageError, unknown
from dmlrc.models.files import TIMM
from dmlrc.protocol import BELOW, CLASS_ORDERS, FULL, ONE_FOLD, QUICK, SMOKE, Protocol, Study, check_study_name

BUDGETS = {budget.name: budget for budget in (FULL, QUICK, SMOKE)}
WHOLE_NUMBERS = {"crop_size": 1, "seed": 0, "folds": 1, "trials": 1, "reruns": 1, "repetitions": 1}
"""The keys that are whole numbers, with the least that they may be."""
KEYS = ("like", "dataset", "trunk", "weights", "train_from", "class_order", "budget", *WHOLE_NUMBERS)
SETTINGS = [setting.name for setting in fields(Protocol) if setting.name not in (*KEYS, "name", "paper")]
"""The other settings of a protocol."""
CHOICES = {"sampler", "optimizer", "test_metrics", "val_metrics", "train_metrics"}
"""Those of a list of names that the protocol does not know."""
OPTIONAL = {name for name, kind in get_type_hints(Protocol).items() if NoneType in get_args(kind)}
"""The settings that may be None, for which TOML has no word: they are "none" there."""

# Seconds on one thread, of a step and of an evaluation; runs that end on a plateau take some 2,000 steps. From
# results/first-runs/grocery-frozen, grocery-quick/rates and glyphs-quick/rate-*; a frozen trunk's features come on top.
_STEP, _EVALUATION = {True: 1.2e-3, False: 12e-3}, {True: 0.06, False: 1.5}  # of a frozen trunk, of conv4
_PLATEAU = 2000


def read_studies(file: Path, tables: Mapping[str, Study], taken: set[str]) -> dict[str, Study]:
    """The studies of a file, by name; none where there is no such file.

    tables: the methods tables that a study may be like. taken: what its name may not be, nor begin with, nor be the
    beginning of, since the experiments around a study are named after it.

    Raises UsageError, which names the file, the study and the key, for what is not as above.
    """
    entries = study_entries(file)
    try:
        return {name: as_study(name, own, tables, taken | entries.keys() - {name}) for name, own in entries.items()}
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None


def study_entries(file: Path) -> dict[str, Any]:
    """Read a file as it is; nothing where there is no such file.

    Raises UsageError for what is no TOML.
    """
    try:
        return tomllib.loads(_text(file))
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, a list in 1,000 others
        raise UsageError(f"{file} cannot be read ({error}): correct it, or move it away") from None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig") if file.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read ({error}): correct it, or move it away") from None


def as_study(name: str, changes: object, tables: Mapping[str, Study], taken: set[str]) -> Study:
    """The study with these keys; see `read_studies`."""
    check_name(name, taken)
    if not isinstance(changes, dict) or "like" not in changes:
        raise UsageError(f'study {name!r} does not say what it is like: write like = "{min(tables)}" below [{name}]')
    if isinstance(changes["like"], str):
        changes = changes | {"like": names.current(changes["like"])}
    changes = {key: None if key in OPTIONAL and value in ("none", "None") else value for key, value in changes.items()}
    for key, value in changes.items():
        _check(name, key, value, tables)
    base = tables[changes["like"]]
    own = {key: changes[key] for key in ("dataset", "seed", "class_order", "repetitions") if key in changes}
    numbers = {key: changes[key] for key in ("trials", "reruns") if key in changes}
    numbers |= {cap: None for cap in ("max_epochs", "iterations_per_epoch") if cap in changes}
    named = BUDGETS.get(changes.get("budget"), base.budget)
    budget = replace(named, **numbers)
    if budget.trials < named.trials or budget.reruns < named.reruns:  # what is full is known by its name
        budget = replace(budget, name=f"{BELOW}{named.name}")
    try:
        study = replace(base, name=name, budget=budget, protocol=_protocol(base.protocol, changes), **own)
        if changes.keys() & CHOICES:
            from dmlrc.training import check_choices  # which loads torch

            check_choices(None, study.protocol)
    except UsageError as error:
        raise UsageError(f"study {name!r}: {error}") from None
    return replace(study, expected=expected(study) or f"as {base.name}: {base.expected}")


def expected(study: Study, cores: int = 2) -> str:
    """Compute how long a study takes on so many cores: its runs, times a step and an evaluation that were measured.

    "" for a trunk that trains and is not conv4: how long a step takes depends on the machine; and for epochs of as many
    steps as the images fill.
    """
    protocol = study.effective_protocol
    if protocol.iterations_per_epoch is None or not (protocol.frozen_trunk or protocol.trunk == "conv4"):
        return ""
    steps = min(_PLATEAU, protocol.max_epochs * protocol.iterations_per_epoch)
    evaluations = steps / (protocol.iterations_per_epoch * protocol.eval_every)
    frozen = protocol.frozen_trunk
    runs = study.units * max(protocol.folds, 1)
    seconds = runs * (steps * _STEP[frozen] + evaluations * _EVALUATION[frozen]) / cores
    return f"{duration(seconds)}, {cores} core{'s' * (cores > 1)}"


def duration(seconds: float) -> str:
    """A time as one says it.

    >>> duration(20), duration(100), duration(5000), duration(20_000)
    ('1 minute', '2 minutes', '83 minutes', '6 hours')
    """
    minutes = max(1, round(seconds / 60))
    if minutes < 100:
        return f"{minutes} minute{'s' * (minutes > 1)}"
    return f"{round(minutes / 60)} hours"


def _protocol(base: Protocol, changes: Mapping) -> Protocol:
    """The protocol with another trunk, other weights or another size; images keep their margin around the crop.

    Raises UsageError where it is not said, or cannot be, from which layer on a trunk trains.
    """
    own = {key: changes[key] for key in ("trunk", "weights", "crop_size", "folds", "train_from") if key in changes}
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in changes.items()}
    given = {key: value for key, value in given.items() if key in SETTINGS}
    if "train_from" in own and not base.train_from:
        raise UsageError(
            f"train_from names the layer from which on a trunk trains, and in {changes['like']!r} "
            f"{'none does' if base.frozen_trunk else 'all of it does'}: leave it out, or be like "
            "'cub200-2010-depths/squeezenet-last-block'"
        )
    if own.get("trunk", base.trunk) != base.trunk and base.train_from and "train_from" not in own:
        raise UsageError(
            f"{changes['like']!r} trains {base.trunk} from {base.train_from} on, and {own['trunk']} has other layers: "
            'name one of them, as train_from = "blocks.6" for EfficientNet-Lite0'
        )
    if own.get("trunk", base.trunk) != base.trunk:
        own.setdefault("weights", "imagenet" if base.weights else None)
    if own.get("trunk", "").startswith(TIMM) and "crop_size" not in own:
        own["crop_size"] = models.from_timm.image_size(own["trunk"])
    if "crop_size" in own:
        own["image_size"] = round(base.image_size * own["crop_size"] / base.crop_size)
    protocol = replace(base, **own | given)
    if protocol.folds == 1 and protocol.split != ONE_FOLD:
        raise UsageError(f"folds is 1, and a cross-validation takes 2 or more: only split = {ONE_FOLD!r} has one")
    return protocol


def check_name(name: str, taken: set[str]) -> None:
    """Raise UsageError for what no study can be called, or not beside those of these names; see `read_studies`."""
    check_study_name(name, r"\w[\w-]*", 100)
    for other in sorted(taken):
        if name == other or name.startswith(f"{other}-") or other.startswith(f"{name}-"):
            raise UsageError(f"the name {name!r} would mix with {other!r} and its experiments: choose another")


def _check(name: str, key: str, value: object, tables: Mapping[str, Study]) -> None:
    """Raise UsageError for an unknown key, or a value that it cannot have."""
    if key not in (*KEYS, *SETTINGS):
        raise unknown(f"key of study {name!r}", key, [*KEYS, *SETTINGS])
    if key in SETTINGS or value is None:
        return  # which the protocol knows
    if key in WHOLE_NUMBERS:
        if type(value) is not int or value < WHOLE_NUMBERS[key]:
            raise UsageError(
                f"{key} of study {name!r} is {value!r}: it is a whole number, {WHOLE_NUMBERS[key]} or more"
            )
        return
    if not isinstance(value, str):
        raise UsageError(f'{key} of study {name!r} is {value!r}: it is a name, in "quotation marks"')
    if key in ("weights", "train_from") and value:
        return  # a file may be anywhere, and the trunk knows its layers
    if not value:
        raise UsageError(f"{key} of study {name!r} is empty: leave it out, or give it a value")
    known = {
        "like": tables,
        "dataset": (*data.names(), "folder:PATH"),
        "trunk": (*models.names(), f"{TIMM}NAME"),
        "class_order": CLASS_ORDERS,
        "budget": BUDGETS,
    }[key]
    if value not in known and not value.startswith({"dataset": "folder:", "trunk": TIMM}.get(key, ())):
        raise unknown(f"{key} of study {name!r}", value, known)


def settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Read words, "embedding_dim=512", as they would stand in studies.toml; a name needs no quotation marks.

    Raises UsageError for a word without "=".

    >>> settings(["embedding_dim=512", "lr=1e-4", "trunk=resnet50", "lr_steps=[10, 20]"])
    {'embedding_dim': 512, 'lr': 0.0001, 'trunk': 'resnet50', 'lr_steps': [10, 20]}
    """
    changes = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"\w+", key.strip()):
            raise UsageError(f"{pair!r} sets nothing: write it as embedding_dim=512")
        if (key := key.strip()) in changes:
            raise UsageError(f"{key} is set twice: give it once")
        try:
            [changes[key]] = tomllib.loads(f"value = {value}").values()  # and no line after it
        except (ValueError, RecursionError):
            changes[key] = value.strip()
    return changes


def entry(name: str, keys: Mapping[str, Any]) -> str:
    """A study as studies.toml has it, separated from what comes before."""
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()]
    head = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
    return "\n".join(["", f"[{head}]", *lines, ""])


def enter(entry: str) -> None:
    """Add a study to studies.toml, unless another command has just done it.

    Raises DmlrcError where that cannot be written, or holds another study of this name by now.
    """
    from dmlrc import records  # which load filelock and pandas; lists of studies want neither

    file = paths.home() / "studies.toml"
    with paths.kept(
        paths.home() / ".studies.toml.lock", f"another command writes {file}: give this one again", wait=60
    ):
        there = _text(file)
        text = there if entry in there else there + entry
        try:
            tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise DmlrcError(f"{file} has changed since ({error}): give the command again") from None
        if text != there:
            records.write_whole(file, text.encode())
