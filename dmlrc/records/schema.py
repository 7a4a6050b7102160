"""What a record may hold, checked as it is written and as it is read: a wrong number must not pass for a result."""

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
    model_config = ConfigDict(extra="forbid", strict=False, frozen=True)


class Run(_Strict):
    """One training run of a unit."""

    fold: NonNegativeInt
    seed: NonNegativeInt
    state: Literal["complete", "diverged"]
    stopped: Literal["plateau", "limit", "diverged"]
    reason: str
    best_step: NonNegativeInt
    steps: NonNegativeInt
    seconds: NonNegativeFloat
    val: dict[str, Finite]
    curve: list[dict[str, Finite | None]]

    @model_validator(mode="after")
    def _fractions(self):
        check_fractions(self.val, "val")
        return self


class _Choices(_Strict):
    choices: list[bool | Finite | str]


class Unit(_Strict):
    """A trial, a rerun, or the scores of the untrained trunk."""

    study: str | None = None  # the oldest records do not say
    digest: str | None = None
    method: str
    method_digest: str | None = None  # of records that are older than fingerprints
    fingerprint: dict[str, Any] | None = None  # see `dmlrc.records.fingerprint`
    row: str
    level: str | None
    level_number: Finite | None
    repetition: NonNegativeInt
    kind: Literal["trial", "rerun", "pretrained"]
    number: NonNegativeInt
    proposals: PositiveInt = 1
    params: dict[str, bool | Finite | str]
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
        validated = [run.val["map_at_r"] for run in self.runs if "map_at_r" in run.val]
        if self.value is not None and validated and abs(self.value - fmean(validated)) > ROUNDING:
            raise ValueError(f"value is {self.value}, and the mean of its runs is {fmean(validated)}")
        return self

    def _check_params(self) -> None:
        """Raise ValueError for a parameter outside of what was searched; words are of a choice alone."""
        for name, value in self.params.items():
            if isinstance(value, str) and not isinstance(self.space.get(name), _Choices):
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
    """What all records of a study share."""

    study: str
    dataset: str
    protocol: dict[str, Any]
    budget: _Budget
    seed: NonNegativeInt
    class_order: Literal["default", "random"]
    data: _Data
    environment: dict[str, Any]
    settings: dict[str, dict[str, Any]] = {}
    changes: dict[str, dict[str, Any]] = {}
    sha256: dict[str, str] | None = None
    commit: str
    created: str


class TodaysMeta(_Facts):
    """What a meta of today holds beside that, see `dmlrc.records.rewriting`."""

    protocol: Protocol
    repetitions: PositiveInt
    contents: str | None


def check_fractions(scores: Mapping[str, float | None], where: str) -> None:
    """Raise ValueError for a score of a metric between 0 and 1 that is none or lies outside."""
    for metric, value in scores.items():
        if metric.startswith(FRACTIONS) and (value is None or not 0 <= value <= 1):
            raise ValueError(f"{where}.{metric} is {value}, which no {metric} can be")


MADE_AGAIN = "Move it away, and it is made again"


def checked(model: type[BaseModel], told: object, path: Path, way_out: str = MADE_AGAIN) -> dict:
    """The contents of a file, if it is what the model says.

    Raises DmlrcError with the file, the field and the way out.
    """
    try:
        model.model_validate(told)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        problem = f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg'].removeprefix('Value error, ')}"
    except UsageError as error:  # of a protocol
        problem = str(error)
    else:
        return told
    raise DmlrcError(f"{path} is no record that can be used: {problem}. {way_out}")


YOUNGER = ("processor", "device", "torch", "finished", "fingerprint")
"""Columns that older tables do not have."""
_NUMBERS = (
    *("value", "level_number", "val_map_at_r", "val_precision_at_1", "seconds", "steps", "best_step", "step"),
    *("repetition", "trial", "rerun", "number", "fold", "seed", "proposals"),
)


def check_columns(frame: pd.DataFrame, columns: Sequence[str], path: Path) -> None:
    """Raise DmlrcError where a table of finished records has other columns than these, or words for numbers."""
    lacking = [name for name in columns if name not in frame and name not in YOUNGER]
    foreign = [name for name in frame if name not in columns]
    words = [
        name
        for name in _NUMBERS
        if name in frame and frame[name].notna().any() and not pd.api.types.is_numeric_dtype(frame[name])
    ]
    for names, what in (
        (lacking, "lacks the column"),
        (foreign, "has the foreign column"),
        (words, "has no numbers in"),
    ):
        if names:
            raise _damaged(path, f"it {what} {names[0]!r}")


def _damaged(path: Path, problem: str) -> DmlrcError:
    return DmlrcError(f"{path} is damaged ({problem}): restore it, for instance with `git checkout -- {path}`")


def check_frame(frame: pd.DataFrame, name: str, keys: list[str], path: Path) -> None:
    """Raise DmlrcError where a Parquet file of finished records has two rows of one key, or an impossible score."""
    problem = None
    if frame.duplicated(keys).any():
        row = frame[frame.duplicated(keys)].iloc[0]
        problem = f"{', '.join(str(row[key]) for key in keys)} stands there twice"
    elif name == "scores":
        fraction = frame["metric"].str.startswith(FRACTIONS)
        wrong = frame[fraction & ~frame["value"].between(0, 1)]
        if len(wrong):
            row = wrong.iloc[0]
            problem = f"{row['metric']} of {row['method']} is {row['value']}"
    elif name in ("trials", "runs", "reruns") and not frame["state"].isin(["complete", "diverged", "failed"]).all():
        problem = "a state is none of complete, diverged and failed"
    elif name == "trials" and not frame[frame["state"] == "complete"]["value"].dropna().between(0, 1).all():
        problem = "the value of a trial is no fraction"
    if problem:
        raise _damaged(path, problem)
