"""Texts on each way to fill a batch, and its code, for the page of the other papers' losses."""

import inspect
from dataclasses import dataclass

from dmlrc.data import batches
from dmlrc.report.method.notes import read_notes


@dataclass(frozen=True)
class SamplerNote:
    """Markdown; draws: what a batch holds, source: who draws so. code: names in `dmlrc.data.batches` that are shown."""

    label: str
    idea: str
    source: str
    draws: str
    ours: str
    code: tuple[str, ...]


SAMPLERS = read_notes("samplers.toml", SamplerNote)
"""By their names in `dmlrc.data.batches.SAMPLERS`, in that order."""


def sampler_description(name: str) -> str:
    """A sampler in MyST: what it draws, who draws so, and how ours differs."""
    sampler = SAMPLERS[name]
    return f"{sampler.draws}\n\nSource: {sampler.source}.\n\n**How ours differs from it.** {sampler.ours}"


def sampler_source(name: str) -> str:
    """The code of a sampler, what it is made from first."""
    return "\n\n".join(inspect.getsource(getattr(batches, part)).rstrip() for part in SAMPLERS[name].code)
