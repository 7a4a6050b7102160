"""Figures as SVG: letters that stay letters, colours that follow the page, and marks that answer when pointed at."""

import io
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

import matplotlib.pyplot as plt
from matplotlib.artist import Artist
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.textpath import TextToPath, text_to_path
from matplotlib.ticker import NullLocator
from matplotlib.transforms import Bbox

# of each figure Matplotlib asks for the size of every text three times, with another renderer each time
TextToPath.get_text_width_height_descent = staticmethod(lru_cache(4096)(text_to_path.get_text_width_height_descent))
_TIP = "tip:"
_INK, _PAPER, _LINES = r"#(?:000000|262626|333333)", r"#ffffff", r"#cccccc"
HIGHEST = 600
"""Pixels of a figure's height on a page; a higher one is shown smaller."""
_DOT = re.compile(
    r'<g class="dml-tip">(?P<title><title>[^<]*</title>)\s*<g (?P<clip>clip-path="[^"]*")>\s*'
    r'<use (?P<place>xlink:href="[^"]*" x="[^"]*" y="[^"]*") (?P<style>style="[^"]*")/>\s*</g>\s*</g>\s*'
)


def tips(marks: Artist, texts: str | Sequence[str]) -> None:
    """Give a mark, or each point of a scatter, the text that is shown when a reader points at it."""
    if isinstance(marks, PathCollection):
        marks.set_urls([_TIP + text for text in texts])
    else:
        marks.set_url(_TIP + texts)


def to_svg(figure: Figure, salt: str) -> str:
    """A figure as an SVG file, dark on white; a tip is the `<title>` of its mark. salt: makes its ids its own."""
    for axis in figure.axes:
        if any(isinstance(marks, QuadMesh) for marks in axis.collections):
            for text in axis.texts:  # what stands on coloured cells keeps its colour on a dark page
                text.set_color("#fefefe" if sum(to_rgb(text.get_color())) > 1.5 else "#252525")
    buffer = io.StringIO()
    with plt.rc_context({"svg.hashsalt": salt, "svg.fonttype": "none"}):  # the same numbers give the same file
        figure.savefig(buffer, format="svg", bbox_inches=_laid_out(figure), facecolor="white", metadata={"Date": None})
    return re.sub(
        rf'<a xlink:href="{_TIP}([^"]*)"[^>]*>(.*?)</a>',
        r'<g class="dml-tip"><title>\1</title>\2</g>',
        buffer.getvalue(),
        flags=re.DOTALL,
    )


def _laid_out(figure: Figure) -> Bbox:
    """Lay a figure out, and return the box that it fills (inches), as "tight" does, which draws it once more."""
    FigureCanvasSVG(figure)
    figure.set_dpi(72)  # of that canvas
    for axis in (getattr(panel, name) for panel in figure.axes for name in ("xaxis", "yaxis")):
        if not any(axis.get_minor_formatter().format_ticks(axis.get_minorticklocs())):
            axis.set_minor_locator(NullLocator())  # without labels they are not drawn in our style, and yet measured
        if not axis.get_label_text():  # else all ticks are measured once more, to see where the label stands
            axis.set_label_coords(0, 0)
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
    figure.set_layout_engine(None)
    return figure.get_tightbbox().padded(plt.rcParams["savefig.pad_inches"])


def inline(svg: str) -> str:
    """The SVG of `to_svg` as a part of a page, in its ink and paper; whoever shows it says what it shows."""
    svg = svg[svg.index("<svg") :]
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda match: match[0] if match[1] in used else "", svg)
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # the ground that savefig paints first; axes have none of their own
    svg = svg.replace("fill: #ffffff", "fill: none", 1)
    for colours, role in ((_INK, "currentColor"), (_PAPER, "var(--dml-paper)"), (_LINES, "var(--dml-lines)")):
        svg = re.sub(rf"(fill|stroke): {colours}", rf"\1: {role}", svg)
    svg = re.sub(r"<text style=\"(?![^\"]*fill)", '<text style="fill: currentColor; ', svg)
    svg = re.sub(r"font-family: [^;]*; ?|\s*<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = _lighter(svg)
    width, height = (float(re.search(rf'{side}="([\d.]+)pt"', svg)[1]) for side in ("width", "height"))
    # what is filled with black has no colour of its own in the file
    head = f'<svg aria-hidden="true" style="fill: currentColor; max-width: {width * min(2, HIGHEST / height):.0f}px"'
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg", head, 1)


def _lighter(svg: str) -> str:
    """The same picture in half the bytes: dots share what they look like, and a hundredth of a point is the finest."""
    svg = re.sub(f"(?:{_DOT.pattern})+", lambda match: _sharing(match[0]), svg)
    svg = re.sub(r' (?:d|x|y)="[^"]*"', lambda match: re.sub(r"(\.\d\d)\d+", r"\1", match[0]), svg)
    return re.sub(r"\s*\n\s*", " ", svg)  # one line: all that reads a page goes line by line


def _sharing(dots: str) -> str:
    """A run of dots with tips: those that look alike and follow each other in one group."""
    alike = groupby(_DOT.finditer(dots), key=lambda dot: (dot["clip"], dot["style"]))
    return "".join(
        f"<g {clip} {style}>"
        + "".join(f'<g class="dml-tip">{dot["title"]}<use {dot["place"]}/></g>\n' for dot in those)
        + "</g>\n"
        for (clip, style), those in alike
    )
