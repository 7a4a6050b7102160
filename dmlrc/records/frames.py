"""The records of a study as data frames, a row a fact, however they lie on disk."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dmlrc.errors import DmlrcError
from dmlrc.methods import PRETRAINED
from dmlrc.records import fingerprint
from dmlrc.records.meta import grown

_METHOD = ("method", "row", "level", "level_number", "repetition")
MADE_BY = ("commit", "processor", "device", "torch")
_OUTCOME = ("state", "params", "seconds", "steps", "reason", *MADE_BY, "finished", "fingerprint")
_RUN = ("fold", "seed", "state", "stopped", "best_step", "steps", "seconds")
COLUMNS = {
    "trials": (*_METHOD, "trial", "value", "proposals", *_OUTCOME),
    "reruns": (*_METHOD, "rerun", *_OUTCOME),
    "runs": (*_METHOD, "kind", "number", *_RUN, "val_map_at_r", "val_precision_at_1"),
    "scores": (*_METHOD, "rerun", "setting", "metric", "value"),
    "curves": (*_METHOD, "kind", "number", "fold", "step", "metric", "value"),
    "arrays": (*_METHOD, "rerun", "setting", "name", "values"),
}
FRAMES = tuple(COLUMNS)
NUMBERS = ("value", "level_number", "val_map_at_r", "val_precision_at_1")
_UNIT = ["method", "repetition", "kind", "number"]


class _ReadWhenAsked:
    """A frame of `StudyRecords` that may be given as a function that reads it: of curves are 19 rows in 20."""

    def __get__(self, records: "StudyRecords | None", _: type) -> pd.DataFrame:
        if records is None:
            raise AttributeError("a field without a default")
        frame = vars(records)["curves"]
        if callable(frame):
            frame = vars(records)["curves"] = frame()
        return frame

    def __set__(self, records: "StudyRecords", frame: pd.DataFrame | Callable[[], pd.DataFrame]) -> None:
        vars(records)["curves"] = frame


@dataclass(frozen=True, eq=False)  # frames cannot be compared or hashed: the same object is the same records
class StudyRecords:
    """All records of one study as data frames, a row a fact; accuracies are fractions.

    Every frame has the columns method; row, level, level_number (of a method in a sweep, see `dmlrc.methods.Method`);
    and repetition, from 0.

    Parameters
    ----------
    trials : trial, state ("complete", "diverged", "failed"), value (mean validation MAP@R over the folds, NaN if not
        complete), proposals (how many ran at a time), params (dict), seconds, steps, reason, commit, processor, device,
        torch (its version), finished (when, ISO 8601), fingerprint (of the method, as JSON; older records do not say
        the last five)
    reruns : rerun, and the same without a value; params is None in records that are older than this frame
    runs : kind ("trial", "rerun"), number, fold, seed, state, stopped ("plateau", "limit", "diverged"), best_step,
        steps, seconds, val_map_at_r, val_precision_at_1
    scores : rerun, setting ("separated", "concatenated", "fold0" ...), metric, value, on the test half
        The method "pretrained" is the trunk before any training.
    curves : kind, number, fold, step, metric, value
    arrays : rerun, setting, name, values (list): of "test", "train", "untrained" spectra and histogram counts, where
        the protocol asks for them; of "separated", "concatenated" the scores of the test classes ("class_map_at_r"
        ...) and how many queries each of them has ("queries")
    meta : study, kind, parent, experiment, dataset, protocol, budget, repetitions, seed, class_order, contents (digest
        of images of one's own), inputs (digests of named files that were read), data, environment, settings (of each
        method, those that are not searched), changes (of the protocol, by method), commit, created; complete, where the
        records are committed
    """

    trials: pd.DataFrame
    reruns: pd.DataFrame
    runs: pd.DataFrame
    scores: pd.DataFrame
    curves: pd.DataFrame = _ReadWhenAsked()
    arrays: pd.DataFrame
    meta: dict[str, Any]

    @property
    def name(self) -> str:
        return self.meta["study"]

    def __getstate__(self) -> dict[str, Any]:
        """Fields as they are pickled, of which no function that reads could be one."""
        return vars(self) | {"curves": self.curves}

    def changed(self, change: Callable[[str, pd.DataFrame], pd.DataFrame], **fields: Any) -> "StudyRecords":
        """Records with other frames, which `change` makes of the name and the frame of these, and other fields."""
        frames = {name: change(name, getattr(self, name)) for name in FRAMES if name != "curves"}
        return self.having(**frames, curves=lambda: change("curves", self.curves), **fields)

    def having(self, **fields: Any) -> "StudyRecords":
        """Records with these fields in the place of their own; `dataclasses.replace` would read the curves."""
        return StudyRecords(**vars(self) | fields)

    @property
    def searches(self) -> int:
        """Number of searches with a rerun, up to the last: a method without one has nothing to compare."""
        return int(self.scores["repetition"].max()) + 1 if len(self.scores) else 0

    @property
    def level_numbers(self) -> dict[str, float]:
        """The numbers of a sweep's levels, by the words for them: "dim128" -> 128."""
        return dict(self.scores[["level", "level_number"]].drop_duplicates().dropna().to_numpy())


def from_units(units: Iterable[dict], meta: dict) -> StudyRecords:
    """The data frames of these records."""
    rows = {name: [] for name in FRAMES}
    for unit in units:
        of_method = {name: unit[name] for name in _METHOD}
        run_key = of_method | {"kind": unit["kind"], "number": unit["number"]}
        test_key = of_method | {"rerun": unit["number"]}
        outcome = {name: unit.get(name) for name in _OUTCOME}
        outcome["fingerprint"] = json.dumps(unit["fingerprint"], sort_keys=True) if unit.get("fingerprint") else None
        if unit["kind"] == "trial":
            trial = {"trial": unit["number"], "value": unit.get("value"), "proposals": unit.get("proposals", 1)}
            rows["trials"].append(of_method | trial | outcome)
        if unit["kind"] == "rerun":
            rows["reruns"].append(test_key | outcome)
        for run in unit["runs"]:
            facts = {name: run[name] for name in _RUN}
            rows["runs"].append(run_key | facts | {f"val_{metric}": value for metric, value in run["val"].items()})
            rows["curves"] += [
                run_key | {"fold": run["fold"], "step": row["step"], "metric": metric, "value": value}
                for row in run["curve"]
                for metric, value in row.items()
                if metric != "step"
            ]
        for frame, column in (("scores", "metric"), ("arrays", "name")):
            rows[frame] += [
                test_key | {"setting": setting, column: name, "values" if frame == "arrays" else "value": value}
                for setting, named in unit.get(frame, {}).items()
                for name, value in named.items()
            ]
    frames = {name: pd.DataFrame(rows[name], columns=COLUMNS[name]) for name in FRAMES}
    return StudyRecords(**{name: typed(frame, name) for name, frame in frames.items()}, meta=meta)


def typed(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The frame with its columns in order, numbers as numbers where all of them are missing."""
    columns = COLUMNS[name]
    if tuple(frame.columns) != columns:
        frame = frame.reindex(columns=list(columns))
    other = [column for column in NUMBERS if column in columns and frame[column].dtype != float]
    return frame.assign(**{column: frame[column].astype(float) for column in other}) if other else frame


def died(units: Mapping | pd.DataFrame) -> Any:
    """Tell of a unit, or of every row of a frame, whether it killed its workers, and so is tried again.

    Such a unit has no seconds. Where its own loss failed, a trial has some: it would fail again.
    """
    return (units.get("state") == "failed") & (units.get("seconds", 0.0) == 0)


def joined(here: StudyRecords, committed: StudyRecords) -> StudyRecords:
    """All records made here, and the committed ones of every trial and rerun that was not made here again.

    Of a method that has another fingerprint here than in the committed records, these are all left out.
    """
    frames, replaced = {}, _replaced(here, committed)
    # over all frames: a failed rerun has no scores, yet must replace its predecessor's
    again = pd.MultiIndex.from_frame(pd.concat([_units(name, getattr(here, name)) for name in FRAMES]))
    for name in FRAMES:
        own, other = getattr(here, name), getattr(committed, name)
        other = other[~other["method"].isin(replaced)]
        kept = ~pd.MultiIndex.from_frame(_units(name, other)).isin(again)
        frames[name] = pd.concat([other[kept], own], ignore_index=True)
    run_here = {*here.trials["method"], *here.reruns["method"]}
    merged = {"inputs": committed.meta.get("inputs", {}) | here.meta.get("inputs", {})}
    for part in ("settings", "changes"):
        theirs, ours = (records.meta.get(part, {}).items() for records in (committed, here))
        kept = {name: fields for name, fields in theirs if name not in replaced}
        merged[part] = kept | {name: fields for name, fields in ours if name in run_here}
    return StudyRecords(**frames, meta=committed.meta | grown(committed.meta, here.meta) | merged)


def only(records: StudyRecords, units: Iterable[Mapping]) -> StudyRecords:
    """The records of these units alone, and of the untrained trunk."""
    kept = pd.MultiIndex.from_tuples(
        [(PRETRAINED, 0, PRETRAINED, 0)] + [tuple(unit[name] for name in _UNIT) for unit in units], names=_UNIT
    )
    frames = {}
    for name in FRAMES:
        frame = getattr(records, name)
        chosen = pd.MultiIndex.from_frame(_units(name, frame)).isin(kept) | (frame["method"] == PRETRAINED).to_numpy()
        frames[name] = frame[chosen].reset_index(drop=True)
    return StudyRecords(**frames, meta=records.meta)


def _units(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Unit that each row of a frame belongs to: the columns _UNIT. name: of FRAMES."""
    kind = {"trials": "trial", "reruns": "rerun", "scores": "rerun", "arrays": "rerun"}.get(name)
    return (frame.rename(columns={kind: "number"}).assign(kind=kind) if kind else frame)[_UNIT]


def _replaced(here: StudyRecords, committed: StudyRecords) -> set[str]:
    """The methods whose committed records are of another fingerprint than those made here."""
    ours, theirs = _fingerprints(here), _fingerprints(committed)
    return {
        method
        for method in ours.keys() & theirs.keys()
        if any(fingerprint.differences(old, new) for new in ours[method] if new for old in theirs[method])
    }


def _fingerprints(records: StudyRecords) -> dict[str, list[dict | None]]:
    """The different fingerprints of every method; None is that of records without one."""
    both = pd.concat([frame[["method", "fingerprint"]] for frame in (records.trials, records.reruns)])
    by_method = both.drop_duplicates().groupby("method")["fingerprint"]
    return {method: list(map(read_fingerprint, texts)) for method, texts in by_method}


def read_fingerprint(text: str | None) -> dict | None:
    """A fingerprint as a frame has it, None of records that are older than fingerprints."""
    return json.loads(text) if isinstance(text, str) else None


def with_all_folds(records: StudyRecords, folder: Path) -> StudyRecords:
    """The records as they are. Raises DmlrcError where a complete unit lacks the run of a fold."""
    meta = records.meta
    runs = records.runs.groupby(_UNIT)["fold"].nunique()
    both = ("trials", records.trials), ("reruns", records.reruns)
    units = [_units(name, frame[frame["state"] == "complete"]) for name, frame in both]
    complete = pd.MultiIndex.from_frame(pd.concat(units))
    protocols = {name: meta["protocol"] | meta.get("changes", {}).get(name, {}) for name in complete.unique("method")}
    expected = [max(protocols[unit[0]]["folds"], 1) * protocols[unit[0]]["members"] for unit in complete]
    for method, repetition, kind, number in complete[runs.reindex(complete, fill_value=0).to_numpy() < expected]:
        raise DmlrcError(
            f"{kind} {number} of {method} in {folder}, repetition {repetition}, lacks the run of a fold: move its "
            "record away"
        )
    return records
