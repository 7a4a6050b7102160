"""Settings that searches had found after 10 and 25 trials, trained again: does a longer search choose a better loss?"""

import csv
import itertools
import json
import operator
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dmlrc.methods import Level, rows
from dmlrc.protocol import Study

FILE = Path(__file__).with_name("early_winners.csv")
"""The settings, a row each: study, method, repetition, trials, settings. `python -m dmlrc.bench.early` writes it."""


def level(repetition: int, trials: int) -> str:
    """The name of the level of what one search of a method had found after so many trials."""
    return f"search{repetition + 1}-trials{trials}"


def early_winners(study: Study) -> Study:
    """The best settings of a table's searches after 10 and 25 trials, those that a later trial beat: three reruns each.

    Where the whole search keeps them, the table's own reruns are theirs. Seeds are those of the table's first search.
    """
    return study.around(
        "early-winners",
        rows(_levels(study)),
        budget=replace(study.budget, trials=0),
        repetitions=1,
        expected="1 to 2 hours, 1 core",
    )


def _levels(study: Study) -> Iterator[Level]:
    with FILE.open(encoding="utf-8", newline="") as lines:
        settings = [row for row in csv.DictReader(lines) if row["study"] == study.name]
    for (repetition, trials), group in itertools.groupby(settings, operator.itemgetter("repetition", "trials")):
        methods = tuple(
            replace(study.method(row["method"]), space={}, settings=json.loads(row["settings"])) for row in group
        )
        yield Level(level(int(repetition), int(trials)), methods, number=float(trials))
