"""Derivation of what pages share: from the same records once, for all pages of a process."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TypeVar
from unittest import mock

from dmlrc import paths, records
from dmlrc.records import StudyRecords
from dmlrc.report.claims import rule
from dmlrc.report.hypotheses import measures

_Value = TypeVar("_Value")
BY_NAME = ("counted_records", "lenders", "judged_hypotheses")
"""Functions of `measures` that take names, and read what has them."""


@contextmanager
def deriving_once() -> Iterator[None]:
    """Share records, and judge by the same ones each claim and hypothesis once: most pages ask for some of them."""
    judge, known = rule.judge_claim, {}

    def judged(claim: rule.Claim, evidence: Mapping[str, StudyRecords | None], *more) -> rule.Judgement:
        names = ("main", *claim.needs, *claim.more, *([claim.grid] if claim.needs else ()))
        key = claim.id, *map(evidence.get, names)
        if key not in known:
            known[key] = judge(claim, evidence, *more)
        return known[key]

    by_name = {name: _once_a_home(getattr(measures, name)) for name in BY_NAME}
    with records.shared(), mock.patch.object(rule, "judge_claim", judged), mock.patch.multiple(measures, **by_name):
        yield


def _once_a_home(function: Callable[..., _Value]) -> Callable[..., _Value]:
    """The function of names of studies, computed once for each of them in a clone of the project."""
    known = cache(lambda home, *names: function(*names))
    return lambda *names: known(paths.home(), *names)
