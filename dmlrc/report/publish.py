"""Displays of a chapter: tables, figures, sentences with computed numbers, and the scalars it records.

Each display carries two forms: HTML for JupyterLab, and MyST text for the book, where a table or figure gets its id as
a label, a caption, and download links; the slash in the name of a study is a dash there. The downloads lie in
book/chapters/exports/ (or $DMLRC_EXPORTS), beside them the HTML, which that text names. Studies that go by their slugs
in what is shown here are printed by their titles (`dmlrc.report.titles`); downloads keep the slugs.

What a user named (a folder of images, the label of a method) may hold anything. In cells all text is shown as it is,
unless it is `Markup`; in sentences and captions, which are Markdown, `dmlrc.report.labels.prose` must stand around it.
"""

import os
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from html import escape
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import display
from markdown_it import MarkdownIt
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text
from pandas.io.formats.style import Styler

from dmlrc import paths
from dmlrc.names import folded as id_of
from dmlrc.report import about, citations, editions, labels, svg, titles
from dmlrc.report.results_table import FOOT_LINKS

SCALARS = "application/vnd.dmlrc.scalars+json"


_collected: ContextVar[tuple[Path, list[str]] | None] = ContextVar("collected", default=None)
"""Where downloads go, and what is shown, while a page is made outside a notebook."""
_exported: list[Path] = []
"""The downloads of this page so far; `how_to_rerun`, at its foot, puts them into one archive."""
_ABOUT = '<a class="dml-about-link" href="#about-these-runs">About these runs</a>'
"""The link to the foot of the page, where `how_to_rerun` says what the numbers were made of."""
_ROLE = re.compile(r"\{[a-z:]+\}`([^`<]*?)(?:\s*<[^`]*>)?`")
"""A role of MyST, of which its text stays."""
_MARKS = re.compile(r"\\([!-/:-@\[-`{-~])|[`*_{}\[\]]")
"""What a Markdown sentence has besides its words: marks, and the backslashes of letters that are none."""
_NO_NUMBER_BEFORE = r"(?<![\w`\-.])"
_ROOM = '<div class="dml-scroll" tabindex="0" role="region" aria-label="{}">{}</div>'
"""A table that scrolls where the page is narrower."""
_TEX = {letter: f"\\{letter}" for letter in "&%$#_{}"}
_TEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


@contextmanager
def collected(folder: Path) -> Iterator[list[str]]:
    """Collect what is shown in this block as pieces of HTML, in the place of a notebook; downloads go to the folder."""
    shown: list[str] = []
    token = _collected.set((folder, shown))
    try:
        yield shown
    finally:
        _collected.reset(token)


@dataclass
class _Shared:
    """Text that the captions of a block share, and whether the page has shown it."""

    text: str
    is_shown: bool = False


_block: ContextVar[_Shared | None] = ContextVar("block", default=None)


@contextmanager
def one_caption(shared: str) -> Iterator[None]:
    """Show what the captions of a block share once, over the first of its tables and figures; LaTeX has it in each."""
    token = _block.set(_Shared(shared))
    try:
        yield
    finally:
        _block.reset(token)


def exports() -> Path:
    """The folder to which the downloads of the chapters are written."""
    here = Path(os.environ.get("DMLRC_EXPORTS", paths.home() / "book" / "chapters" / "exports"))
    folder = _collected.get()[0] if _collected.get() else here
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _export(name: str, content: str) -> None:
    path = exports() / name
    path.write_text(content)
    _exported.append(path)


def _archived(name: str) -> str:
    """A link to an archive of all downloads of this page, MyST, or "" without any; equal ones give equal bytes."""
    if not _exported:
        return ""
    with zipfile.ZipFile(exports() / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in dict.fromkeys(_exported):
            archive.writestr(zipfile.ZipInfo(path.name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    _exported.clear()
    return f"{{download}}`All tables and figures of this page as one archive <exports/{name}.zip>`"


def text(markdown: str, folded: str = "") -> None:
    """Show Markdown, but nothing of ""; folded: what the line says behind which stands what only a checker reads."""
    if markdown:
        shown = _printed(markdown)
        _display(*_behind(folded, _html(shown), shown))


def takeaways(*sentences: str) -> None:
    """Show the key takeaways of a chapter, one bullet a sentence; an empty one, of what was not run, is left out."""
    bullets = _printed("\n".join(f"- {sentence.strip()}" for sentence in filter(None, sentences)))
    _display(f"<b>In short</b>{_html(bullets)}", f"````{{admonition}} In short\n:class: tip\n{bullets}\n````")


def source_code(source: str, folded: str) -> None:
    """Show code, folded. folded: what the line says behind which it stands."""
    _display(*_behind(folded, f"<pre>{escape(source)}</pre>", f"````python\n{source}\n````"))


def how_to_rerun(chapter: str, studies: str, **parameters: str) -> None:
    """Show, folded, what made the numbers of a chapter, how to rerun it with these parameters, and how to cite it."""
    given = "".join(f" -p {name} {value}" for name, value in {"studies": studies, **parameters}.items())
    edition = editions.load_any(studies)
    runs = "\n".join(f"dmlrc study run {name}" for name in about.shown_studies(chapter, edition))
    html = _html_table(about.study_table(chapter, edition), f"about-{chapter}", wrap=True)
    if chapter in about.EVERYTHING:
        runs += f"\n# the experiments around them, on which the page rests too:\nmake book STUDY={studies}"
    _foot(chapter, html, f"# existing records are kept\n{runs}", given, parameters.values())


def remade(chapter: str, sources: Mapping[str, Mapping[str, str]], commands: str) -> None:
    """Show the foot of a page as `how_to_rerun` does; sources: what was made -> facts; commands: what makes it."""
    cells = pd.DataFrame.from_dict(sources, orient="index").fillna("–")
    html = _html_table(cells, f"about-{chapter}", wrap=True)
    _foot(chapter, html, f"# this overwrites the measurements\n{commands}")


def _foot(chapter: str, html: str, commands: str, parameters: str = "", of: Iterable[str] = ()) -> None:
    """Show the foot of a page; html: what made its numbers; of: what tells it from other pages of the same notebook."""
    page = "_".join([chapter, *of])
    commands = (
        f"To rerun this page, from the root of the project:\n\n```shell\n{commands}\n"
        f"papermill notebooks/{chapter}.ipynb {chapter}.ipynb --cwd notebooks{parameters}\n```"
    )
    cite = f"To cite it:\n\n```bibtex\n{about.bibtex(page)}\n```"
    whole = _archived(page)
    _display(
        f"<details><summary>About these runs</summary>{html}{_html(commands)}{_html(cite)}</details>",
        f"::::::{{dropdown}} About these runs: data, protocol, machine; rerun; cite\n:class-container: dml-about\n\n"
        f":::::{{container}}\n:name: about-these-runs\n\n{_raw(f'about-{page}', html)}\n:::::\n\n"
        f"{whole}\n\n{commands}\n\n{cite}\n::::::",
    )


def table(
    name: str,
    cells: pd.DataFrame,
    caption: str,
    data: pd.DataFrame | None = None,
    marks: pd.DataFrame | None = None,
    wrap: bool = False,
    filters: bool = False,
    folded: str = "",
    links: Mapping[str, str] | None = None,
) -> None:
    """Show a table of text under its id, and write it as CSV, and as LaTeX if it is short enough to be printed.

    cells: what is printed, text or `Markup`. data: the numbers behind it, for the CSV; default the cells. marks: for
    each cell "best" (printed bold), "tie" (italic) or "". wrap: cells hold sentences, so they may break into lines.
    filters: it is long, and its reader chooses among the rows. folded: what the line says behind which the table is
    folded; for the numbers behind a figure, and for what only a checker reads. links: where the names of rows lead to.
    """
    name = id_of(name)
    plain = cells.map(lambda cell: cell.striptags() if isinstance(cell, Markup) else cell)  # links are of pages
    _export(f"{name}.csv", (plain if data is None else data).to_csv(float_format="%.6g"))
    plain, cells = titles.in_headings(plain), titles.in_headings(cells)
    marks = None if marks is None else titles.in_headings(marks)
    downloads = f" {{download}}`CSV <exports/{name}.csv>`"
    if not filters:
        alone = f"{caption} {block.text}" if (block := _block.get()) else caption
        _export(f"{name}.tex", _latex(plain, marks, name, titles.in_prose(alone)))
        downloads += f" {{download}}`LaTeX <exports/{name}.tex>`"
    html = _html_table(cells, name, wrap, marks, links, filters)
    _show("table", name, html, caption, f"{downloads} {_ABOUT}", folded)


def _show(kind: str, name: str, html: str, caption: str, links: str = "", folded: str = "") -> None:
    """Show a table or figure under its id, with its caption and links (MyST); over a block's first, what it shares."""
    caption = _printed(caption)
    if (block := _block.get()) and not block.is_shown:
        block.is_shown, shared = True, _printed(block.text)
        _display(_html(shared), f":::{{container}} dml-caption\n{shared}\n:::")
    framed = (
        f"::::{{container}} dml-{kind}\n:name: {name}\n\n{_raw(name, html)}\n\n"
        f":::{{container}} dml-caption\n{caption}{links}\n:::\n::::"
    )
    _display(*_behind(folded, f"{html}<p>{_html(caption)}</p>", framed))


def _raw(name: str, html: str) -> str:
    """HTML as a part of a page (MyST): by its file, since Markdown is read letter by letter, for each container."""
    if not _collected.get():
        (exports() / f"{name}.html").write_text(html)
    return f"```{{raw}} html\n:file: exports/{name}.html\n```"


def _behind(line: str, html: str, shown: str) -> tuple[str, str]:
    """Both forms of a display, folded behind a line; as they are where it is ""."""
    if not line:
        return html, shown
    return (
        f"<details><summary>{escape(line)}</summary>{html}</details>",
        f":::::{{dropdown}} {line}\n:class-container: dml-fold\n\n{shown}\n:::::",
    )


def figure(name: str, drawings: Figure | Sequence[Figure], caption: str, message: str, folded: str = "") -> None:
    """Show a figure under its id, and write it as SVG: several drawings side by side where the page has room.

    message: alternative text, with the extremes. From the second drawing on, files are `<name>-<number>.svg`.
    """
    name = id_of(name)
    several = [drawings] if isinstance(drawings, Figure) else drawings
    files = {f"{name}-{number}" if number > 1 else name: drawing for number, drawing in enumerate(several, 1)}
    panels = "".join(svg.inline(_written(drawing, file)) for file, drawing in files.items())
    html = f'<div class="dml-panels" role="img" aria-label="{escape(_plain(message))}">{panels}</div>'
    names = ["SVG"] if len(files) == 1 else [f"SVG {number}" for number in range(1, len(files) + 1)]
    links = "".join(f" {{download}}`{text} <exports/{file}.svg>`" for text, file in zip(names, files, strict=True))
    _show("figure", name, html, caption, links, folded)


def _written(drawing: Figure, name: str) -> str:
    """The SVG of a figure, which is written among the downloads too; the figure is closed."""
    for text in _texts(drawing):
        text.set_text(titles.in_label(text.get_text()))
    # the names of ticks are made anew when a figure is drawn, so these are replaced in the file
    drawn = re.sub(r"(?<=>)[^<>]+(?=</text>)", lambda match: titles.in_label(match[0]), svg.to_svg(drawing, name))
    file = re.sub(r"(?<=>)[^<>]+(?=</(?:text|title)>)", lambda match: typeset(match[0]), drawn)
    plt.close(drawing)
    _export(f"{name}.svg", file)
    return file


def _texts(drawing: Figure) -> Iterator[Text]:
    """All texts of a figure but the names of ticks, which asking for them would make."""
    for axis in drawing.axes:
        yield from (axis.xaxis.label, axis.yaxis.label)
    for part in (drawing, *drawing.axes):
        for artist in part.get_children():
            if not isinstance(artist, Axes | Axis):
                yield from artist.findobj(Text)


def pictures(name: str, html: str, caption: str) -> None:
    """Show pictures that are HTML under their id; there is nothing to download."""
    name = id_of(name)
    _show("figure", name, html, caption)


def _plain(markdown: str) -> str:
    """A sentence without its markup: studies by their titles, citations left out."""
    without = re.sub(r"\s*\{(?:cite|doc)[a-z:]*\}`[^`]*`|^- ", "", citations.as_roles(_printed(markdown)), flags=re.M)
    without = re.sub(r"(?<!\\)\[([^\]]*)\](?!\()", r"(\1)", without)  # an interval is no link
    words = re.sub(r"\{[a-z:]+\}`([^`<]*)[^`]*`", r"\1", without)
    return " ".join(_MARKS.sub(lambda mark: mark[1] or "", words).split())


def whole_page(title: str, style: str, body: Iterable[str]) -> str:
    """The HTML of a page of its own, one file. body: pieces of HTML."""
    head = '<!doctype html>\n<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    return "\n".join([f"{head}<title>{escape(title)}</title>", f"<style>{style}</style>", *body])


def record(**scalars: float | int | str) -> None:
    """Record the named scalars of a chapter in its last cell."""
    lines = "\n".join(f"{name} = {value}" for name, value in scalars.items())
    display({SCALARS: scalars, "text/plain": lines}, raw=True)


def _headed(cells: pd.DataFrame) -> pd.DataFrame:
    """The index's name over it, in the last row of the heading, not in a row of its own; several levels as columns."""
    if cells.index.nlevels > 1:
        return cells.reset_index()
    names = [""] * (cells.columns.nlevels - 1) + [cells.index.name or ""]
    return cells.rename_axis(None).set_axis(cells.columns.set_names(names), axis=1)


def _linked(cells: pd.DataFrame, links: Mapping[str, str] | None) -> pd.DataFrame:
    """The cells and all names as HTML that shows them as they are, the names of rows as links."""
    escaped = cells.astype(object).map(_as_html).rename(index=_as_html, columns=_as_html)
    links = FOOT_LINKS | dict(links or {})
    if not links.keys() & set(cells.index):
        return escaped
    pairs = [(links.get(label), text) for text, label in zip(escaped.index, cells.index, strict=True)]
    names = [f'<a href="{address}">{text}</a>' if address else text for address, text in pairs]
    return escaped.set_axis(pd.Index(names, name=cells.index.name))


def _as_html(cell: object) -> object:
    if not isinstance(cell, str):
        return cell
    html = str(cell if isinstance(cell, Markup) else escape(typeset(" ".join(cell.split())), quote=False))
    for sign in ("%", *labels.SIGNS):  # on the line of its number
        html = html.replace(f" {sign}", f"\u00a0{sign}")
    return html


def _printed(markdown: str) -> str:
    """Studies by their titles, papers by links; a number and its % stay on one line; signs as `typeset` sets them."""
    return typeset(citations.as_links(titles.in_prose(markdown)).replace(" %", "\u00a0%"))


def typeset(text: str) -> str:
    """A minus before a number is one, so is a cross between two, on their line, and what rounds to 0 has no sign.

    >>> typeset("-0.37 [-0.60, +0.05], -0.0 % on CUB200, from 1e-6 to +0.00.")
    '−0.37 [−0.60, +0.05], 0.0 % on CUB200, from 1e-6 to 0.00.'
    >>> typeset("8 x 4 images").split(" ")
    ['8\\xa0×\\xa04', 'images']
    """
    unsigned = re.sub(rf"{_NO_NUMBER_BEFORE}[+-](?=0(?:\.0+)?(?![\w-]|\.\d))", "", text)
    return re.sub(rf"{_NO_NUMBER_BEFORE}-(?=\d+(?:\.\d+)?(?![\w-]))", "\u2212", crossed(unsigned))


def crossed(text: str) -> str:
    """Set the cross between two numbers, "8 x 4", as one, with spaces at which no line ends."""
    return re.sub(r"(?<=\d) x (?=\d)", "\u00a0×\u00a0", text)


def _display(html: str, markdown: str) -> None:
    if page := _collected.get():
        page[1].append(html)
    else:
        display({"text/html": html, "text/markdown": markdown}, raw=True)


def _html(markdown: str) -> str:
    """Markdown as HTML, for JupyterLab: roles of MyST become their text."""
    return MarkdownIt().render(_ROLE.sub(r"\1", markdown))


def _room(texts: Iterable, most: str) -> str:
    """Short texts stay on one line; the longest of others takes some four lines, more where the window is wide and all
    columns are in sight (`--dml-room` of the style sheet). most: of the window's width.
    """
    longest = max((len(Markup(text).striptags()) for text in texts), default=0)
    if longest <= 20:
        return "white-space: nowrap;"
    return f"min-width: min(calc({min(max(longest // 4, 16), 36)}ch * var(--dml-room, 1)), {most});"


def _crowd(cells: pd.DataFrame) -> str:
    """The CSS classes of a table of many columns: set closer, and from 13 on with its headings upright."""
    columns = cells.shape[1] + cells.index.nlevels - 1
    if columns >= 13 and cells.columns.nlevels == 1:
        return "dml-dense dml-upright"
    return "dml-dense" if columns >= 6 else ""


def _html_table(
    cells: pd.DataFrame,
    name: str,
    wrap: bool = False,
    marks: pd.DataFrame | None = None,
    links: Mapping[str, str] | None = None,
    filters: bool = False,
) -> str:
    """A table of bare cells in its frame, on one line: what searches a page reads it by lines."""
    look = " ".join(filter(None, ["dml", "dml-filter" * filters, "dml-wrap" * wrap, _crowd(cells)]))
    table = _headed(_marked(_linked(cells, links), marks))
    has_names = cells.index.nlevels == 1  # of rows, as headings
    own = {"table_id": f"T_{name}", "classes": look, "index": has_names, "border": 0, "escape": False}
    html = table.to_html(**own).replace("dataframe ", "", 1).replace(' style="text-align: right;"', "")
    html = html.replace(" ± ", "\u00a0±\u00a0")  # an interval stays on its line
    rules = _rooms(table, f"#T_{name}", 1 + has_names) if wrap and not filters else ""
    return _ROOM.format(escape(name), rules + re.sub(r"\s*\n\s*", " ", html))


def _marked(html: pd.DataFrame, marks: pd.DataFrame | None) -> pd.DataFrame:
    """Cells of HTML with their marks as tags."""
    if marks is None:
        return html
    tags = {"best": "<b>{}</b>", "tie": "<i>{}</i>", "": "{}"}
    pairs = [zip(*rows, strict=True) for rows in zip(html.to_numpy(), marks.to_numpy(), strict=True)]
    return pd.DataFrame([[tags[look].format(text) for text, look in row] for row in pairs], html.index, html.columns)


def _rooms(table: pd.DataFrame, place: str, first: int) -> str:
    """Style with as much room for each column as its texts want; without, a browser makes all columns narrow."""
    rooms = {f"td:nth-child({column})": _room(texts, "90vw") for column, (_, texts) in enumerate(table.items(), first)}
    rooms["tbody th"] = _room(table.index, "45vw")
    return f"<style>{' '.join(f'{place} {cells} {{ {room} }}' for cells, room in rooms.items())}</style>"


def _latex(cells: pd.DataFrame, marks: pd.DataFrame | None, name: str, caption: str) -> str:
    styler = Styler(_headed(cells))
    if (levels := cells.index.nlevels) > 1:
        styler = styler.hide()
    if marks is not None:
        css = marks.replace({"best": "font-weight: bold;", "tie": "font-style: italic;"}).to_numpy()
        unmarked = np.full((len(cells), levels if levels > 1 else 0), "")  # the levels, which have become columns
        styler = styler.apply(lambda _: np.hstack([unmarked, css]), axis=None)
    escaped = styler.format(escape="latex").format_index(escape="latex", axis=0).format_index(escape="latex", axis=1)
    words = _MARKS.sub(lambda mark: mark[1] or mark[0].strip("`*"), _ROLE.sub(r"\1", caption))
    caption = "".join(_TEX.get(letter, letter) for letter in words)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        latex = escaped.to_latex(
            hrules=True, convert_css=True, label=name, caption=caption, multicol_align="c", position="t"
        )
    return latex.replace("±", r"$\pm$")
