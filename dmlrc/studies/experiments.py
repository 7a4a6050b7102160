"""The experiments around a main study, and their records."""

from collections.abc import Mapping

import pandas as pd

from dmlrc import records, studies
from dmlrc.errors import MissingDataError
from dmlrc.protocol import Study
from dmlrc.records import StudyRecords


def of(main: str) -> dict[str, Study]:
    """The experiments around a methods table: id -> study, as "roth2020-samplers".

    main: the name of a study. Those around `grocery-frozen-full` are called `grocery-frozen-full-<id>`; those of the
    papers' own data sets stand beside their methods table: `cub200-musgrave2020` has `cub200-<id>`.
    """
    return _of(main, studies.known())


def _of(main: str, known: Mapping[str, Study]) -> dict[str, Study]:
    prefix = main.removesuffix("musgrave2020") if main.endswith("-musgrave2020") else f"{main}-"
    found = {name.removeprefix(prefix): each for name, each in known.items() if name.startswith(prefix)}
    return {name: each for name, each in found.items() if name != "musgrave2020" and each.budget.name != "rate"}


def around() -> set[str]:
    """The names of all studies that are experiments around another one."""
    known = studies.known()
    return {each.name for name in known for each in _of(name, known).values()}


def load(main: str, name: str) -> StudyRecords | None:
    """The records of an experiment, whole or in part; None where nothing of it was run, or it does not exist."""
    study = of(main).get(name)
    if study is None:
        return None
    try:
        found = records.load(study.name)
    except MissingDataError:
        return None
    return found if len(found.runs) else None


def split(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with what a sweep's rows are made of: columns row and value, of a `method` such as margin_12@spc4."""
    parts = frame["method"].str.partition("@").reindex(columns=range(3))  # three also where there are no rows
    return frame.assign(row=parts[0], value=parts[2])
