"""The list of what is committed: `python -m dmlrc.report.results_list` writes results/README.md below its head."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dmlrc import paths, records
from dmlrc.protocol import COMPARISON, RATES, TABLE
from dmlrc.report import labels, titles

MEASURED = {
    "neighbours-": "nearest neighbours in trained and untrained spaces: `python -m dmlrc.report.neighbours`",
    "random-": "what was never trained: `dmlrc.report.untrained.record_random` makes it",
    "roth2020-toy": "the toy problem of Roth et al. 2020: `dmlrc.report.roth2020.toy.record_toys` makes it",
}
"""What the files of results/measured/ are, by how their names begin."""


def list_markdown() -> str:
    """results/README.md: its head as it is, and the list from each study's meta.json and from the catalogue."""
    by_folder: dict[str, list[str]] = {}
    for name in records.recorded_in(paths.results()):
        parts = name.split("/")
        by_folder.setdefault("/".join(parts[: 2 if parts[0] == "first-runs" else 1]), []).append(name)
    head, _, _ = (paths.results() / "README.md").read_text(encoding="utf-8").partition("\n## ")
    sections = [head]
    for folder, names_there in by_folder.items():
        lines = ["| study | what it is | begun | commit | command |", "|---|---|---|---|---|"]
        sections.append("\n".join([f"## {folder}\n", *lines, *map(_line, names_there), ""]))
    return "\n".join([*sections, "## measured\n", *_measured(), ""])


def _line(name: str) -> str:
    meta = records.read_raw_meta(paths.committed(name) / "meta.json")
    part = "" if meta["complete"] else ", in part"
    return (
        f"| [{name}]({name}/) | {_what(name, meta)}{part} | {meta['created'][:10]} | `{meta['commit'][:10]}` | "
        f"`{_command(name, meta)}` |"
    )


def _command(name: str, meta: Mapping[str, Any]) -> str:
    if meta["kind"] != COMPARISON:
        return f"dmlrc study run {name}"
    [file] = paths.committed(name).glob("*.py")
    return f"dmlrc compare {file.relative_to(paths.results().parent)} --study {meta['parent']} --submit"


def _what(name: str, meta: Mapping[str, Any]) -> str:
    if meta["kind"] == COMPARISON:
        return f"board: the loss {Path(name).name}, from a file"
    if meta["kind"] == TABLE:
        return f"{titles.METHODS_TABLE}: {titles.title(name)}, {labels.trunk(meta['protocol'])}"
    if meta["kind"] == RATES:
        paper = titles.paper(meta["protocol"]["paper"])
        of = "of the embedder alone, " if meta["experiment"] == "embedder-rates" else ""
        return f"learning rates tried on validation classes, {of}for the protocol of {paper}"
    return titles.experiment(meta["experiment"], meta["protocol"]["paper"])


def _measured() -> Iterable[str]:
    for path in sorted(paths.measured().glob("*")):
        what = next(words for begin, words in MEASURED.items() if path.name.startswith(begin))
        yield f"- [{path.name}](measured/{path.name}): {what}"


if __name__ == "__main__":
    (paths.results() / "README.md").write_text(list_markdown(), encoding="utf-8")
