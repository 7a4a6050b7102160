"""Records of earlier versions, brought to today's form as they are read; no file is changed.

What changed, the latest first:
- a trial says how many were proposed at a time (before: one);
- repetitions of a search, and the reruns as a frame of their own (before: one repetition, numbered 0);
- a sweep's rows have the columns row, level and level_number (before: all in the name, as "margin_12@dim128");
- a study has a kind, a parent and an experiment (before: all in its name);
- a folder of one's own images has a digest of its contents (before: none);
- settings of a protocol that were introduced later (before: what is now their default).
"""

import json
import re
from collections.abc import Mapping

import pandas as pd

from dmlrc.protocol import default_settings

_TABLES = (
    "glyphs-smoke",
    "glyphs-quick",
    "glyphs-full",
    "omniglot-full",
    "grocery-frozen-rate1e-4",
    "cars196crops-frozen-rate1e-4",
)
_NUMBER = re.compile(r"(?:dim|batch|decay|share|rate)(\d[\d.]*(?:e[+-]?\d+)?)|(\d+)px")


def meta(told: dict) -> dict:
    """The meta of a study with everything that is younger than it."""
    settings = json.loads(json.dumps(default_settings()))
    return {"repetitions": 1, "contents": None} | _kinship(told) | told | {"protocol": settings | told["protocol"]}


def _kinship(told: Mapping) -> dict[str, str | None]:
    name = told["study"]
    table = next((each for each in _TABLES if name.startswith(f"{each}-")), None)
    if table is None:
        return {"kind": "table", "parent": None, "experiment": None}
    kind = "rates" if told["budget"]["name"] == "rate" else "experiment"
    return {"kind": kind, "parent": table, "experiment": name.removeprefix(f"{table}-")}


def unit(record: dict) -> dict:
    """The record of a trial or a rerun."""
    return {"repetition": 0, "proposals": 1, **place(record["method"]), **record}


def place(method: str) -> dict[str, str | float | None]:
    """The row, level and level_number of a method that was named `row@level`.

    >>> place("margin_12@decay4e-05")
    {'row': 'margin_12', 'level': 'decay4e-05', 'level_number': 4e-05}
    """
    row, _, level = method.partition("@")
    number = _NUMBER.fullmatch(level)
    return {"row": row, "level": level or None, "level_number": float(number[1] or number[2]) if number else None}


def frames(told: Mapping[str, pd.DataFrame], meta: Mapping) -> dict[str, pd.DataFrame]:
    """The frames of a finished study, as they were read."""
    if "proposals" not in told["trials"]:
        told = {**told, "trials": told["trials"].assign(proposals=1)}
    if "reruns" in told:
        return dict(told)
    reruns = _reruns(told["runs"]).assign(commit=meta["commit"])
    return {name: _placed(frame.assign(repetition=0)) for name, frame in {**told, "reruns": reruns}.items()}


def _placed(frame: pd.DataFrame) -> pd.DataFrame:
    methods = frame["method"].unique()
    places = pd.DataFrame([place(name) for name in methods], methods, ["row", "level", "level_number"])
    return frame.assign(**{name: places.loc[frame["method"], name].to_numpy() for name in places})


def _reruns(runs: pd.DataFrame) -> pd.DataFrame:
    """The reruns of records that have them as runs only; which setting they took was not written down."""
    folds = runs[runs["kind"] == "rerun"].groupby(["method", "number"], sort=False)
    reruns = folds.agg(state=("state", "last"), seconds=("seconds", "sum"), steps=("steps", "sum")).reset_index()
    return reruns.rename(columns={"number": "rerun"}).assign(params="null", reason="")
