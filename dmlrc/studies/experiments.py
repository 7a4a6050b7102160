"""The experiments around a main study, and their records."""

from dmlrc import records
from dmlrc.protocol import EXPERIMENT, Study
from dmlrc.records import StudyRecords
from dmlrc.studies import catalogue


def experiments_around(main: str) -> dict[str, Study]:
    """The experiments around a methods table: id -> study, as "roth2020/samplers"."""
    known = catalogue.known().values()
    return {study.experiment: study for study in known if study.parent == main and study.kind == EXPERIMENT}


def around() -> set[str]:
    """The names of all studies that are experiments around another one."""
    known = catalogue.known()
    return {study.name for study in known.values() if study.kind == EXPERIMENT and study.parent in known}


def load_experiment(main: str, name: str) -> StudyRecords | None:
    """The records of an experiment, whole or in part; None where nothing of it was run, or it does not exist.

    Of committed records those that are whole: a part stands for what is still run elsewhere, and no page counts on it.
    """
    study = experiments_around(main).get(name)
    loaded = records.find(study.name) if study else None
    if loaded is None or not len(loaded.runs):
        return None
    is_made_here = records.is_begun(study.name)
    return loaded if is_made_here or loaded.meta.get("complete", True) else None


def class_orders(main: str) -> dict[str, StudyRecords]:
    """The records of one method with each order of the classes: experiment -> records, the data set's own first."""
    orders = [name for name, study in experiments_around(main).items() if study.protocol.paper == "oi2021"]
    return {name: recorded for name in orders if (recorded := load_experiment(main, name)) is not None}
