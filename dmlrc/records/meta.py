"""Metadata that the records of a study share: its meta.json."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dmlrc.errors import DmlrcError
from dmlrc.protocol import Protocol, default_settings
from dmlrc.records.files import read_json, unsealed
from dmlrc.records.schema import Meta, checked

RESTORE = (
    "Restore it, for instance with `git checkout` where it is committed; one of an earlier version is moved away with "
    "its folder, and the study run again. No record of the study counts without it"
)
CONFIGURATION = ("study", "dataset", "protocol", "seed", "class_order", "contents")
"""The part of meta that all records of a study share."""


def read_raw_meta(path: Path) -> dict:
    """A meta.json as it is; a damaged one, or one that says neither study nor budget, is named, with what to do."""
    sealed = read_json(path, RESTORE)
    if not isinstance(sealed, dict) or not isinstance(sealed.get("budget"), dict) or "study" not in sealed:
        raise DmlrcError(f"{path} does not say of which study and budget it is. {RESTORE}")
    return unsealed(sealed, path, RESTORE, is_older=not sealed.get("sealed"))


def read_meta(folder: Path, study: str) -> dict:
    """The meta of a study in its folder; a setting of the protocol that was introduced later stands at its default."""
    path = folder / "meta.json"
    meta = checked(Meta, read_raw_meta(path), path, RESTORE)
    if meta["study"] != study:
        raise DmlrcError(f"{path} is of study {meta['study']!r}: rename the folder, or move it away")
    return meta | {"protocol": json.loads(json.dumps(default_settings())) | meta["protocol"]}


def protocol(meta: Mapping) -> Protocol:
    """The protocol of records, of their meta."""
    return Meta.model_validate(meta).protocol


def configuration(meta: Mapping) -> dict[str, Any]:
    """The part of meta that all records of a study share."""
    return {name: meta[name] for name in CONFIGURATION}


def differing_fields(old: Any, new: Any, path: str = "") -> list[str]:
    """The fields in which two nested dictionaries differ, each as 'protocol.lr 0.01 -> 0.001'.

    A field that only the new one has was introduced later, with a default that does what was done before.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        return [line for key in sorted(old) for line in differing_fields(old[key], new.get(key), f"{path}.{key}")]
    return [] if old == new else [f"{path.lstrip('.')} {old} -> {new}"]


def grown(old: Mapping, new: Mapping) -> dict[str, Any]:
    """The part of meta that may grow, of two metas of one study: the larger numbers, of which there are records."""
    larger = {name: max(old["budget"][name], new["budget"][name]) for name in ("trials", "reruns")}
    return {"budget": new["budget"] | larger, "repetitions": max(old["repetitions"], new["repetitions"])}
