"""Lists of studies and data for the command line, 100 characters wide; without torch or pandas, so at once."""

import math
import os
import re
import textwrap
from collections.abc import Collection, Iterable, Sequence

import dmlrc  # its parts are imported by the lists that use them
from dmlrc.errors import UsageError

WIDTH = 100
_SHORT = {r" hours?\b": " h", r" minutes?\b": " min", r" seconds?\b": " s", "hundreds of": "100s of"}
_TOGETHER = "\N{NO-BREAK SPACE}"
"""Between a setting and its value, which stay on one line."""


def columns(rows: Iterable[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Rows of cells as lines, each column as wide as its widest cell. right: the columns that are set flush right.

    >>> columns([("a", "bc"), ("abc", "1")], right=(1,))
    ['a    bc', 'abc   1']
    """
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    signs = [">" if place in right else "<" for place in range(len(widths))]
    line = "  ".join(f"{{:{sign}{width}}}" for sign, width in zip(signs, widths, strict=True))
    return [line.format(*row).rstrip() for row in rows]


def tables() -> list[str]:
    """Every methods table in a line, the reader's own first; what stands around it is a number."""
    known, own = _here()
    heads = [study for study in known.values() if study.parent not in known]
    heads.sort(key=lambda study: study.name not in own)
    rows = [("study", "data set", "budget", "time", "units recorded", "around")]
    for study in heads:
        around = sum(other.parent == study.name for other in known.values())
        data = study.dataset  # of a folder the last part alone
        data = f"folder:{dmlrc.data.folder_name(data)}" if data.startswith("folder:") else data
        described = (study.name, data, study.budget.name, _time(study), _recorded(study))
        rows.append((*described, f"+{around}" if around else ""))
    hint = "around: experiments on the same data; `dmlrc study list WORD` finds them, --all lists every study"
    return [*columns(rows), "", hint]


def matching(word: str) -> list[str]:
    """Every study with this word in its name, the reader's own and those around it first; UsageError for none."""
    (known, own), word = _here(), dmlrc.names.current(word)
    studies = [study for study in known.values() if word in study.name]
    if not studies:
        raise UsageError(f"no study has {word!r} in its name: `dmlrc study list --all` has every one")
    studies.sort(key=lambda study: not {study.name, study.parent} & own)
    return columns(
        [("study", "time", "units recorded"), *((study.name, _time(study), _recorded(study)) for study in studies)]
    )


def _here() -> tuple[dict[str, "dmlrc.protocol.Study"], set[str]]:
    """Every study by its name, those made in Python first, and the names of the reader's own."""
    python = {study.name: study for study in dmlrc.studies.recorded.made_in_python()}
    return python | dmlrc.studies.known(), {*python, *dmlrc.studies.own_studies()}


def comparisons() -> list[str]:
    """Every comparison that was made here, a line for each method with records of its own there; those exported."""
    rows = [("comparison", "method", "trials", "reruns", "")]
    for name, counts in dmlrc.comparison.here().items():
        base = dmlrc.studies.known().get(name.removesuffix(dmlrc.names.COMPARED))
        theirs = {method.name for method in base.methods} if base else ()
        whose = {True: "of the study", False: "yours"}
        rows += [
            (name, method, str(count["trial"]), str(count["rerun"]), whose[method in theirs])
            for method, count in counts.items()
        ]
    if len(rows) == 1:
        return ["no comparison was made here: `dmlrc compare my_loss.py` makes one", *exported_comparisons()]
    hint = "each is in runs/ by its name; `dmlrc compare --remove NAME` removes one, whose pages in compare/ stay"
    return [*columns(rows, right=(2, 3)), "", hint, *exported_comparisons()]


def exported_comparisons() -> list[str]:
    """A line for each comparison that was exported: `dmlrc compare --remove` leaves it."""
    return [f"exported: {folder}, which stays until you remove it" for folder in dmlrc.comparison.exported()]


def method_lines() -> list[str]:
    """Every method of the five papers; what does not fit on its line goes on below the last heading."""
    rows = [("paper", "method", "year", "kind", "batch")]
    last = ["searched, or settings"]
    for paper in dmlrc.papers.ALL:
        for method in paper.methods:
            batch = f"{method.classes_per_batch} x {method.images_per_class}"
            rows.append((paper.key, method.name, str(method.year), method.kind, batch))
            last.append(", ".join([*method.space, *(f"{name} {value:.4g}" for name, value in method.settings.items())]))
    begins = columns(rows)
    margin = max(map(len, begins)) + 2
    lines = []
    for begin, text in zip(begins, last, strict=True):
        text = text.replace(" ", _TOGETHER).replace(f",{_TOGETHER}", ", ")
        lines += textwrap.wrap(f"{begin:{margin}}{text}", WIDTH, subsequent_indent=" " * margin)
    return [line.replace(_TOGETHER, " ") for line in lines]


def data_sets() -> list[str]:
    """Every data set in a line: its size, what it takes once it is decoded, and whether it is here."""
    rows = [("data set", "images", "classes", "an image", "decoded", "here")]
    for name in dmlrc.data.names():
        images, classes, shape = dmlrc.data.extent(name)
        taken = f"{images * math.prod(shape) / 1e6:,.0f} MB" if len(shape) == 3 else ""
        rows.append((name, f"{images:,}", f"{classes:,}", _shape(shape), taken, dmlrc.data.state(name)))
    return [*columns(rows, right=(1, 2, 4)), *_no_folder()]


def _no_folder() -> list[str]:
    """Lines on how a data set is found: that their folder is not named or not there, or how to get what is missing."""
    named = os.environ.get("DMLRC_DATA")
    if not named:
        return ["", "no data folder is named: set DMLRC_DATA to the folder of the data sets"]
    if dmlrc.paths.expanded(named).is_dir():
        return ["", "missing: `dmlrc data fetch NAME` downloads it into $DMLRC_DATA, or says how to get it"]
    return ["", f"DMLRC_DATA names {named}, where there is no folder: make it, or name another"]


def weights() -> list[str]:
    """The weights of trunks that do not download themselves in a line each: whether they are here, how to get them."""
    rows = [("weights", "here", "how to get them")]
    rows += [(file, "here" if here else "missing", how) for file, here, how in dmlrc.models.to_bring()]
    return [
        *columns(rows),
        "",
        "weights: files, in the folder $DMLRC_DATA or in a folder of it, unless their package is installed; those of",
        "other trunks are downloaded when they are first used",
    ]


def _shape(shape: tuple[int, ...]) -> str:
    """An image in words: "112 px", grey where it has one channel, or the number of its features."""
    if len(shape) == 1:
        return f"{shape[0]} features"
    channels, size, _ = shape
    return f"{size} px, grey" if channels == 1 else f"{size} px"


def _time(study: "dmlrc.protocol.Study") -> str:
    """The expected duration of a study: "5 to 10 h" on two cores or a V100, else with the machine, "6 h, 1 core"."""
    text, _, machine = study.expected.partition(", ")
    for long, short in _SHORT.items():
        text = re.sub(long, short, text)
    return f"{text}, {machine}" if machine.startswith("1 ") else text


def _recorded(study: "dmlrc.protocol.Study") -> str:
    """The recorded part of a study, such as "3 of 60"; without any record, what it lacks here, such as "no data"."""
    count, total = dmlrc.studies.recorded.count(study)
    lacks = dmlrc.studies.readiness.missing(study)
    return f"no {', '.join(lacks)}" if lacks and not count else f"{count} of {total}"
