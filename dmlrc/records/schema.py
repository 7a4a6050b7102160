"""Schema of a record, checked as it is written and as it is read: a wrong number must not pass for a result."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    model_validator,
)

from dmlrc.errors import DmlrcError, UsageError
from dmlrc.protocol import Protocol

ROUNDING = 1e-9
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
FRACTIONS = ("precision_at_", "recall_at_", "r_precision", "map_at_", "nmi", "f1", "jsd")
"""How the names of metrics begin that lie between 0 and 1; others may be any number, or none where undefined."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Run(_Strict):
    """Training run of a unit."""

    fold: NonNegativeInt
    seed: NonNegativeInt
    state: Literal["complete", "diverged"]
    stopped: Literal["plateau", "limit", "diverged"]
    reason: str
    best_step: NonNegativeInt
    steps: NonNegativeInt
    seconds: NonNegativeFloat
    val: dict[str, Finite | None]
    curve: list[dict[str, Finite | None]]

    @model_validator(mode="after")
    def _fractions(self):
        check_fractions(self.val, "val")
        return self


class _Choices(_Strict):
    choices: list[bool | Finite | str]


class UnitRecord(_Strict):
    """A trial, a rerun, or the scores of the untrained trunk."""

    study: str | None = None
    digest: str | None = None
    method: str
    fingerprint: dict[str, Any] | None = None  # see `dmlrc.records.fingerprint`
    row: str
    level: str | None
    level_number: Finite | None
    repetition: NonNegativeInt
    kind: Literal["trial", "rerun", "pretrained"]
    number: NonNegativeInt
    proposals: PositiveInt = 1
    params: dict[str, bool | Finite | str | None]
    space: dict[
        str, tuple[Finite, Finite] | _Choices
    ] = {}  # what was searched, from where to where; older records do not say
    state: Literal["complete", "diverged", "failed"]
    reason: str = ""
    value: Fraction | None = None
    steps: NonNegativeInt = 0
    seconds: NonNegativeFloat = 0.0
    runs: list[Run]
    scores: dict[str, dict[str, Finite | None]] = {}
    arrays: dict[str, dict[str, list[Finite | None]]] = {}
    commit: str
    processor: str | None = None
    device: str | None = None  # where it trained; older records do not say this and the next
    torch: str | None = None  # its version
    finished: str | None = None

    @model_validator(mode="after")
    def _whole(self):
        for setting, values in self.scores.items():
            check_fractions(values, f"scores.{setting}")
        if self.state == "complete" and self.kind != "trial" and not self.scores:
            raise ValueError(f"a complete {self.kind} has no scores")
        if self.kind != "pretrained" and not self.runs and self.state != "failed":
            raise ValueError(f"a {self.kind} has no runs")
        self._check_params()
        lost = self.kind == "rerun" and self.state == "diverged" and not self.scores  # on images that no run has seen
        if any(run.state != self.state for run in self.runs[-1:]) and not lost:
            raise ValueError("state is not that of the last run")
        if len({run.fold for run in self.runs}) < len(self.runs):
            raise ValueError("two runs are of one fold")
        self._check_value()
        return self

    def _check_value(self) -> None:
        """Raise ValueError for a value that is not the mean of the runs, or lacks where they have one."""
        validated = [run.val["map_at_r"] for run in self.runs if "map_at_r" in run.val]
        if not validated or (self.value is None and (self.kind, self.state) != ("trial", "complete")):
            return
        if self.value is None or abs(self.value - fmean(validated)) > ROUNDING:
            raise ValueError(f"value is {self.value}, and the mean of its runs is {fmean(validated)}")

    def _check_params(self) -> None:
        """Raise ValueError for a parameter outside of what was searched; words are of a choice, or fixed."""
        for name, value in self.params.items() if self.space or self.kind == "trial" else ():
            if (value is None or isinstance(value, str)) and not isinstance(self.space.get(name), _Choices):
                raise ValueError(f"params.{name} is {value!r}, which is no number")
        for name, searched in self.space.items():
            value = self.params.get(name)
            if isinstance(searched, _Choices):
                if value not in searched.choices:
                    raise ValueError(f"params.{name} is {value!r}, none of {searched.choices}")
            elif value is None or not searched[0] <= value <= searched[1]:
                raise ValueError(f"params.{name} is {value}, outside the space from {searched[0]} to {searched[1]}")


class _Facts(BaseModel):
    """Other facts may stand beside these."""

    model_config = ConfigDict(extra="allow", frozen=True)


class _Budget(_Facts):
    name: str
    trials: NonNegativeInt
    reruns: NonNegativeInt


class _Data(_Facts):
    images: PositiveInt
    classes: PositiveInt


class Meta(_Facts):
    """Fields that all records of a study share."""

    study: str
    kind: str
    parent: str | None
    experiment: str | None
    dataset: str
    protocol: Protocol
    budget: _Budget
    repetitions: PositiveInt
    contents: str | None
    seed: NonNegativeInt
    class_order: Literal["default", "random"]
    data: _Data
    environment: dict[str, Any]
    settings: dict[str, dict[str, Any]] = {}
    changes: dict[str, dict[str, Any]] = {}
    sealed: bool = False  # every record of the study has a checksum; older ones have none
    sha256: dict[str, str] | None = None
    commit: str
    created: str


def check_fractions(scores: Mapping[str, float | None], where: str) -> None:
    """Raise ValueError for a score of a metric between 0 and 1 that is none or lies outside."""
    for metric, value in scores.items():
        if metric.startswith(FRACTIONS) and (value is None or not 0 <= value <= 1):
            raise ValueError(f"{where}.{metric} is {value}, which no {metric} can be")


MADE_AGAIN = "Move it away, and it is made again"


def checked(model: type[BaseModel], contents: object, path: Path, way_out: str = MADE_AGAIN) -> dict:
    """The contents of a file, if it is what the model says; else DmlrcError with the field and the way out."""
    try:
        model.model_validate_json(json.dumps(contents), strict=True)  # JSON: a list is a tuple, but no text a number
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        problem = f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg'].removeprefix('Value error, ')}"
    except UsageError as error:  # of a protocol
        problem = str(error)
    else:
        return contents
    raise DmlrcError(f"{path} is no record that can be used: {problem}. {way_out}")


YOUNGER = ("processor", "device", "torch", "finished", "fingerprint")
"""Columns that older tables do not have."""


def checked_columns(frame: pd.DataFrame, columns: Sequence[str], path: Path) -> pd.DataFrame:
    """A table of finished records as it is. Raises DmlrcError where it has other columns than these."""
    lacking, foreign = {*columns} - {*frame, *YOUNGER}, {*frame} - {*columns}
    if lacking or foreign:
        odd = f"lacks {', '.join(sorted(lacking))}" if lacking else f"has {', '.join(sorted(foreign))}"
        raise DmlrcError(f"{path} is of another version ({odd}): move its folder away, and run the study again")
    return frame
