"""The contents of a book as text files to compare: the cells of tables, the data of figures, and the verdicts.

    python -m dmlrc.report.golden FOLDER                    the whole published book
    python -m dmlrc.report.golden FOLDER --against OTHER    and how it differs from what another folder has
    python -m dmlrc.report.golden tests/golden --again      only the files that the folder has, to accept a change

`tables/ID.csv` has the cells as a reader sees them, `numbers/ID.csv` the numbers behind them where a chapter gives
some, `figures/ID.json` what is drawn, `verdicts/` the claims and hypotheses, and `index.csv` what stands in which
chapter. Sentences, pixels and fonts are left out, so that a rewrite of the book can be held against what it showed.
"""

import argparse
import ast
import csv
import io
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import papermill
from markupsafe import Markup
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.category import StrCategoryLocator
from matplotlib.collections import Collection as Marks
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.colors import to_hex, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch, Rectangle, StepPatch
from matplotlib.spines import Spine
from matplotlib.text import Annotation, Text
from matplotlib.ticker import FixedLocator

from dmlrc import records
from dmlrc.errors import DmlrcError
from dmlrc.names import folded as id_of
from dmlrc.report import build, claims, editions, engine, publish, titles
from dmlrc.report.hypotheses import measures as hypotheses

Files = dict[str, str]
"""Path in the folder -> text."""
SILENT = ("text", "takeaways", "source_code", "how_to_rerun", "remade", "pictures", "record")
"""What else a chapter shows."""
_json = partial(json.dumps, ensure_ascii=False)
MOST = 20
"""Differences of a file that are listed."""

# Chapters


def _chapter_files(only: Collection[str]) -> Files:
    """The tables and figures of the chapters, and their index; only: the files wanted, none for all."""
    parameters, rows = {"studies": ",".join(editions.study_names(editions.PUBLISHED))}, ["file,chapter"]
    files: Files = {}
    for page in build.chapters():
        with collected_files(only) as shown:
            _run(page, {**parameters, **page.parameters}, {Path(path).stem for path in only})
        if twice := files.keys() & shown.keys():
            raise DmlrcError(f"two chapters show {sorted(twice)}")
        files |= shown
        rows += [f"{path},{Path(page.name).stem}" for path in shown]
    return files | {"index.csv": "\n".join([*rows, ""])}


def _run(page: build.Page, parameters: Mapping[str, object], only: Collection[str]) -> None:
    """Execute a notebook as the book does, but of its cells only the code that is needed."""
    notebook = nbformat.read(page.notebook, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    notebook.cells = [cells[place] for place in _needed([ast.parse(cell.source) for cell in cells], only)]
    papermill.execute_notebook(notebook, None, dict(parameters), engine.NAME, progress_bar=False)


def _needed(cells: Sequence[ast.Module], only: Collection[str]) -> list[int]:
    """The cells that show one of these ids, and the earlier ones that set a name which those read; default all.

    A cell shows an id if a text in it is that id, or is one once the fields of an f-string are filled.
    """
    if not only:
        return list(range(len(cells)))
    chosen = {place for place, cell in enumerate(cells) if any(_may_be(text, only) for text in ast.walk(cell))}
    names = set().union(*(_names(cells[place], ast.Load) for place in chosen))
    for place in reversed(range(max(chosen, default=0))):
        if place in chosen or names & _names(cells[place], ast.Store):
            chosen.add(place)
            names |= _names(cells[place], ast.Load)
    return sorted(chosen)


def _may_be(text: ast.AST, ids: Collection[str]) -> bool:
    if isinstance(text, ast.Constant):
        return text.value in ids
    if not isinstance(text, ast.JoinedStr) or len(text.values) < 2:  # a number that is set, such as f"{count:5}"
        return False
    parts = (re.escape(part.value) if isinstance(part, ast.Constant) else ".+" for part in text.values)
    return any(map(re.compile("".join(parts)).fullmatch, ids))


def _names(cell: ast.Module, context: type[ast.expr_context]) -> set[str]:
    """The names that a cell reads or sets; what it imports or defines, it sets."""
    nodes, sets = list(ast.walk(cell)), context is ast.Store
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, context)}
    defined = {node.name for node in nodes if sets and isinstance(node, ast.FunctionDef)}
    return names | defined | {node.asname or node.name for node in nodes if sets and isinstance(node, ast.alias)}


@contextmanager
def collected_files(only: Collection[str], shown: bool = False) -> Iterator[Files]:
    """Keep what is published in this block, path -> text; show it too, or show nothing."""
    files: Files = {}
    show_table, show_figure = publish.table, publish.figure

    def keep(path: str, text: Callable[[], str]) -> None:
        if not only or path in only:
            if path in files:
                raise DmlrcError(f"a chapter shows {path} twice")
            files[path] = text()

    def table(name, cells, caption, data=None, marks=None, **more):
        name = id_of(name)
        keep(f"tables/{name}.csv", lambda: cells_as_seen(cells, marks))
        if data is not None:
            keep(f"numbers/{name}.csv", lambda: _csv(data))
        if shown:
            show_table(name, cells, caption, data, marks, **more)

    def figure(name, drawings, *words, **more):
        keep(f"figures/{id_of(name)}.json", lambda: figure_data(drawings))
        if shown:
            show_figure(name, drawings, *words, **more)
        plt.close("all")

    silent = {name: lambda *_, **__: None for name in SILENT if hasattr(publish, name) and not shown}
    with mock.patch.multiple(publish, table=table, figure=figure, **silent):
        yield files


# Tables


def cells_as_seen(cells: pd.DataFrame, marks: pd.DataFrame | None = None) -> str:
    """A table as CSV, as it is printed: bold as **this**, italic as *this*, links as their text."""
    printed = titles.in_headings(cells.map(_printed))
    if marks is not None:
        around = marks.map({"best": "**", "tie": "*", "": ""}.get).to_numpy(dtype=object)
        printed = printed.astype(str)
        printed.iloc[:, :] = around + printed.to_numpy(dtype=object) + around
    return _csv(printed)


def _printed(cell: object) -> object:
    if isinstance(cell, Markup):
        return cell.striptags()
    return publish.typeset(" ".join(cell.split())) if isinstance(cell, str) else cell


def _csv(frame: pd.DataFrame) -> str:
    """One row of headings and one column of names, without equal ones, so that every cell has an address."""
    name = " / ".join(str(level) for level in frame.index.names if level is not None)
    flat = frame.set_axis(_addresses(frame.index), axis=0).set_axis(_addresses(frame.columns), axis=1)
    return flat.rename_axis(index=name, columns=None).to_csv(float_format="%.6g", lineterminator="\n")


def _addresses(index: pd.Index) -> list[str]:
    seen: Counter = Counter()
    names = [" / ".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in index]
    for place, name in enumerate(names):
        seen[name] += 1
        names[place] = f"{name} ({seen[name]})" if seen[name] > 1 else name
    return names


# Figures


def figure_data(figures: Figure | Sequence[Figure]) -> str:
    """The data of a figure as JSON: an artist a line, in the order in which they are drawn."""
    lines = {}
    for number, figure in enumerate([figures] if isinstance(figures, Figure) else figures, 1):
        parts = {f"figure {number}, axes {place}": axes for place, axes in enumerate(figure.axes, 1)}
        lines |= {what: _axes(axes) for what, axes in parts.items()}
        for what, part in {**parts, f"figure {number}": figure}.items():
            lines |= {f"{what}, {name}": artist for name, artist in _artists(part)}
    rows = (f"{_json(name)}: {_json(line)}" for name, line in lines.items())
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _axes(axes: Axes) -> dict:
    title = _text(" ".join(filter(None, (axes.get_title(loc) for loc in ("left", "center", "right")))))
    return {"title": title, "x": _axis(axes.xaxis), "y": _axis(axes.yaxis)}


def _axis(axis: Axis) -> dict:
    """Ticks only where they are set: how many others there are depends on the room that letters leave."""
    facts = {"label": _text(axis.get_label_text()), "scale": axis.get_scale()}
    facts["limits"] = _numbers(axis.get_view_interval())
    if isinstance(locator := axis.get_major_locator(), FixedLocator | StrCategoryLocator):
        places = np.asarray(locator(), dtype=float)
        names = map(_text, axis.get_major_formatter().format_ticks(places))
        facts["ticks"] = [list(tick) for tick in zip(names, _numbers(places), strict=True)]
    return facts


def _artists(part: Axes | Figure) -> Iterator[tuple[str, dict]]:
    """Yield what is drawn there, numbered by its kind; not its ground, and not the titles, which `_axes` has."""
    known = [part.patch, *((part.title, part._left_title, part._right_title) if isinstance(part, Axes) else ())]
    counted: Counter = Counter()
    for artist in part.get_children():
        if artist in known or isinstance(artist, Spine) or not artist.get_visible():
            continue
        for kind, reader in READERS.items():
            if isinstance(artist, kind) and (data := reader(artist)):
                name = kind.__name__.removesuffix("2D").lower()
                counted[name] += 1
                yield f"{name} {counted[name]}", _named(artist) | data


def _named(artist: Artist) -> dict:
    """The label of an artist, and the text that is shown when a reader points at it, or at each of its points."""
    texts = {} if str(artist.get_label()).startswith("_") else {"label": _text(artist.get_label())}
    texts["tip"] = _text(artist.get_url() or "").removeprefix("tip:")
    if isinstance(artist, Marks):
        texts["tips"] = [_text(url or "").removeprefix("tip:") for url in artist.get_urls() or ()]
    return {name: text for name, text in texts.items() if text}


def _text(text: object) -> str:
    return " ".join(titles.in_label(str(text)).split())


def _line(line: Line2D) -> dict:
    return {"x": _numbers(line.get_xdata(orig=False)), "y": _numbers(line.get_ydata(orig=False)), **_look(line)}


def _marks(marks: Marks) -> dict:
    """Points by where they are, other marks by their corners, coloured cells by their values."""
    values = {} if marks.get_array() is None else {"values": _numbers(marks.get_array())}
    if isinstance(marks, QuadMesh):
        return values
    at = {"at": _numbers(marks.get_offsets())} if isinstance(marks, PathCollection) else {}
    return (at or {"corners": [_numbers(path.vertices) for path in marks.get_paths()]}) | (values or _look(marks))


def _patch(patch: Patch) -> dict:
    if isinstance(patch, Rectangle | FancyBboxPatch):
        where = {"box": _numbers([patch.get_x(), patch.get_y(), patch.get_width(), patch.get_height()])}
    elif isinstance(patch, FancyArrowPatch):  # its path is in pixels
        where = {"ends": _numbers(patch._posA_posB)}
    elif isinstance(patch, StepPatch):
        where = {"heights": _numbers(patch.get_data().values), "edges": _numbers(patch.get_data().edges)}
    else:
        where = {"corners": _numbers(patch.get_patch_transform().transform(patch.get_path().vertices))}
    return where | _look(patch)


def _words(text: Text) -> dict:
    place = text.xy if isinstance(text, Annotation) else text.get_position()
    return {"text": _text(text.get_text()), "at": _numbers(place)} if text.get_text() else {}


def _legend(legend: Legend) -> dict:
    names = [_text(text.get_text()) for text in legend.get_texts()]
    entries = [[name, _look(handle)] for name, handle in zip(names, legend.legend_handles, strict=True)]
    return {"title": _text(legend.get_title().get_text()), "entries": entries}


READERS: Mapping[type[Artist], Callable[..., dict]] = {
    Line2D: _line,
    Marks: _marks,
    Patch: _patch,
    AxesImage: lambda image: {"values": _numbers(image.get_array()), "extent": _numbers(image.get_extent())},
    Text: _words,
    Legend: _legend,
}


def _look(artist: Artist) -> dict:
    """The look that distinguishes series: colours, and the marks and dashes of a line."""
    if isinstance(artist, Line2D):
        dots = {"mark": str(artist.get_marker()), "inside": _colours(artist.get_markerfacecolor())}
        drawn = artist.get_marker() not in (None, "", " ", "None", "none")
        return {"colour": _colours(artist.get_color()), "line": artist.get_linestyle()} | (dots if drawn else {})
    if isinstance(artist, Marks | Patch):
        return {"inside": _colours(artist.get_facecolor()), "edge": _colours(artist.get_edgecolor())}
    return {}


def _colours(colours: object) -> str | list[str]:
    """One where all are equal."""
    in_hex = [to_hex(colour) if colour[3] else "none" for colour in to_rgba_array(colours)]
    return in_hex if len(set(in_hex)) > 1 else (in_hex or ["none"])[0]


def _numbers(values: object) -> list:
    """Numbers with six digits, None where there is none."""

    def rounded(value: float) -> float | None:
        return None if np.isnan(value) else float(f"{value:.6g}") + 0.0  # no minus zero

    known = np.atleast_1d(np.ma.filled(np.ma.asarray(values, dtype=float), np.nan))
    return np.frompyfunc(rounded, 1, 1)(known).tolist()


# Verdicts


def verdict_files() -> Files:
    """Every claim and every finding of a hypothesis, by study: number, interval, verdict."""
    columns = ["paper_value", "ours", "low", "high", "n", "below_trunk", "verdict"]
    published = editions.load_edition(editions.PUBLISHED)
    judged = claims.numbers(claims.judge_all(published)).set_index("id", append=True)[columns]
    rows = []
    for hypothesis in hypotheses.judged_hypotheses():
        for finding in hypothesis.findings:
            ours, region = finding.estimate, finding.region
            numbers = ours.value, ours.low, ours.high, ours.n, region.low, region.high
            rows.append((hypothesis.study, hypothesis.hypothesis, finding.what, *numbers, finding.verdict))
        rows.append((hypothesis.study, hypothesis.hypothesis, "all", *[np.nan] * 6, hypothesis.verdict))
    keys = ["study", "hypothesis", "what"]
    findings = pd.DataFrame(rows, columns=[*keys, "ours", "low", "high", "n", "over", "under", "verdict"])
    return {"verdicts/claims.csv": _csv(judged), "verdicts/hypotheses.csv": _csv(findings.set_index(keys))}


# Comparison


def changed_cells(old: Files, new: Files) -> list[str]:
    """List the cells that differ between two sets of files, one line each; none where the files are equal.

    >>> changed_cells({"tables/t.csv": "Method,P@1\\nSNR,51.05\\n"}, {"tables/t.csv": "Method,P@1\\nSNR,51.50\\n"})
    ['tables/t.csv: SNR, P@1: 51.05 -> 51.50']
    """
    changes = []
    for path in sorted(old.keys() | new.keys()):
        if path not in new or path not in old:
            changes.append(f"{path}: {'gone' if path in old else 'new'}")
            continue
        lines = [f"{path}: {change}" for change in _changes(_leaves(path, old[path]), _leaves(path, new[path]))]
        changes += lines[:MOST] + [f"{path}: and {len(lines) - MOST} more"] * (len(lines) > MOST)
    return changes


def _changes(old: dict[str, object], new: dict[str, object]) -> Iterator[str]:
    for name in dict.fromkeys([*old, *new]):
        if name not in old:
            yield f"{name}: new, {new[name]}"
        elif name not in new:
            yield f"{name}: {old[name]} -> gone"
        elif not _equal(old[name], new[name]):
            yield f"{name}: {old[name]} -> {new[name]}"
    if old.keys() == new.keys() and list(old) != list(new):
        yield "rows or columns stand in another order"


def _leaves(path: str, text: str) -> dict[str, object]:
    """Every value of a file by its address."""
    if path.endswith(".json"):
        return dict(_within(json.loads(text), ""))
    (_, *columns), *rows = csv.reader(io.StringIO(text))
    return {f"{name}, {column}": cell for name, *cells in rows for column, cell in zip(columns, cells, strict=True)}


def _within(value: object, address: str) -> Iterator[tuple[str, object]]:
    if not isinstance(value, dict | list):
        yield address.removeprefix(", "), value
    else:
        for name, part in value.items() if isinstance(value, dict) else enumerate(value, 1):
            yield from _within(part, f"{address}, {name}")


def _equal(old: object, new: object) -> bool:
    """Numbers of figures are equal to 5 digits, since another machine may round the sixth another way."""
    if isinstance(old, float) and isinstance(new, float):
        return math.isclose(old, new, rel_tol=1e-5, abs_tol=1e-12)
    return old == new


# Command


def export_book(only: Collection[str] = ()) -> Files:
    """The tables, the figures and their index, and the verdicts. only: the files that are wanted, default all."""
    shown = [path for path in only if not path.startswith("verdicts/")]
    with records.shared():
        files = _chapter_files(shown) if shown or not only else {}
        if len(shown) < len(only) or not only:
            files |= verdict_files()
    return {path: text for path, text in files.items() if not only or path in only}


def written(folder: Path) -> Files:
    """The files of a folder that `_write` wrote."""
    paths = (path for path in sorted(folder.rglob("*")) if path.suffix in (".csv", ".json"))
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def _write(files: Files, folder: Path) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dmlrc.report.golden", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=(), metavar="FILE", help="such as figures/musgrave-f5.json")
    parser.add_argument("--again", action="store_true", help="the files that the folder has")
    parser.add_argument("--against", type=Path, metavar="OTHER", help="say how it differs from that folder")
    given = parser.parse_args()
    files = export_book((*given.only, *(written(given.folder) if given.again else ())))
    _write(files, given.folder)
    print(", ".join(f"{count} {kind}" for kind, count in Counter(path.partition("/")[0] for path in files).items()))
    if given.against:
        changes = changed_cells(written(given.against), files)
        print("\n".join(changes))
        sys.exit(bool(changes))


if __name__ == "__main__":
    _main()
