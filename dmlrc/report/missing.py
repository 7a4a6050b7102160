"""Training what a page or a book lacks, before it is made."""

import operator
import sys
from collections.abc import Iterable, Sequence

from dmlrc import papers as catalogue
from dmlrc import plan, run, studies
from dmlrc.errors import UsageError
from dmlrc.protocol import Study
from dmlrc.studies import experiments, readiness

ALL = tuple(paper.key for paper in catalogue.ALL)
"""The papers whose experiments a whole book shows."""


def run_missing(names: Sequence[str], papers: Iterable[str] = (), workers: int = 1) -> None:
    """Run what is missing of these studies and of the experiments of these papers around them.

    Standard error says which one runs, and what is left out: an experiment whose data, weights or GPU are not here.
    After a stop the next call goes on. Raises UsageError for a study that is unknown or whose data is too small.
    """
    waiting = [study for name in names for study in _family(name, papers) if operator.lt(*plan.progress(study))]
    if not waiting:
        return
    with run.pool(workers) as executor:  # the same for all: a worker's start costs as much as some small units
        for place, study in enumerate(waiting, 1):
            begin = f"[{place}/{len(waiting)}] {study.name}"
            if study.name not in names and (lacks := readiness.missing(study)):
                print(f"{begin}: left out, {' and '.join(lacks)} missing here", file=sys.stderr)
                continue
            print(f"{begin} ({study.expected})", file=sys.stderr)
            try:
                run.run(study, executor=executor, workers=workers)
            except UsageError as error:  # a reader's own data may have too few classes for the batches of a paper
                if study.name in (*names, *studies.STUDIES):
                    raise
                print(f"{begin}: left out, {error}", file=sys.stderr)


def _family(name: str, papers: Iterable[str]) -> list[Study]:
    """A study and the experiments of these papers around it."""
    around = [study for study in experiments.experiments_around(name).values() if study.protocol.paper in papers]
    return [studies.get(name), *around]
