"""Queries and their neighbours as HTML, the map of the embeddings, and the sentences beside them."""

import base64
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dmlrc.report import labels, style, svg
from dmlrc.report.neighbours.gallery import COLUMNS, Gallery
from dmlrc.report.neighbours.measures import STUDIES, Space, at_random, flat, made_with

SHOWN = 6


def rows(name: str, gallery: Gallery, spaces: Sequence[Space], queries: Sequence[int]) -> str:
    """HTML: for each query a row of its nearest images under each model, right ones and wrong ones framed apart.

    name: a word for the style sheet, one a page. The images are one sheet, which the page holds once.
    """
    sheet = base64.b64encode(gallery.sheet).decode()
    lines = -(-len(gallery.rows) // COLUMNS)
    style_sheet = (
        f".{name} {{ background-image: url(data:image/{gallery.kind};base64,{sheet}); "
        f"background-size: calc({COLUMNS} * var(--dml-thumb)) calc({lines} * var(--dml-thumb)); }}"
    )
    blocks = [_block(name, gallery, spaces, query) for query in queries]
    return f"<style>{style_sheet}</style>" + "".join(blocks)


def _block(name: str, gallery: Gallery, spaces: Sequence[Space], query: int) -> str:
    head = f'<div class="dml-row"><b>Query</b>{_tile(name, gallery, query, "query")}'
    head += f"<small>{escape(gallery.names[query])}</small></div>"
    return (
        f'<div class="dml-neighbours">{head}' + "".join(_row(name, gallery, each, query) for each in spaces) + "</div>"
    )


def _row(name: str, gallery: Gallery, space: Space, query: int) -> str:
    tiles = [
        _tile(name, gallery, other, "right" if gallery.labels[other] == gallery.labels[query] else "wrong")
        for other in space.neighbours[query][:SHOWN]
    ]
    counted = int((gallery.labels == gallery.labels[query]).sum()) - 1
    tiles.insert(counted, '<span class="dml-cut" role="separator" aria-label="MAP@R looks no further"></span>')
    score = f"<small>{100 * space.scores[query]:.0f} %</small>"
    return f'<div class="dml-row"><b>{escape(space.label)} {score}</b>{"".join(tiles)}</div>'


def _tile(name: str, gallery: Gallery, place: int, kind: str) -> str:
    left, top = place % COLUMNS, place // COLUMNS
    word = f"{kind}: {gallery.names[place]}"
    return (
        f'<span class="dml-thumb {kind}" role="img" aria-label="{escape(word)}" title="{escape(word)}">'
        f'<i class="{name}" style="background-position: calc(-{left} * var(--dml-thumb)) '
        f'calc(-{top} * var(--dml-thumb))"></i></span>'
    )


def scores(gallery: Gallery, spaces: Sequence[Space]) -> pd.DataFrame:
    """MAP@R and P@1 of the gallery under each model, and MAP@R of the whole test half."""
    first = [np.mean(gallery.labels[each.neighbours[:, 0]] == gallery.labels) for each in spaces]
    return pd.DataFrame(
        {
            "MAP@R, these images": _against_the_first([each.scores.mean() for each in spaces]),
            "P@1, these images": _against_the_first(first),
            "MAP@R, whole test half": _against_the_first([each.test_map_at_r for each in spaces]),
        },
        index=pd.Index([each.label for each in spaces], name="Model"),
    )


def _against_the_first(scores: Sequence[float]) -> list[str]:
    """In percent, with a sign where a score is lower than the first, the untrained trunk's."""
    return [labels.percent(score, digits=1) + labels.below(score, scores[0]) for score in scores]


def sentence(gallery: Gallery, spaces: Sequence[Space], steps: int) -> str:
    """What training does to the scores of the gallery, in a sentence. steps: the most that a model was trained for."""
    before, *trained = spaces
    dim, trunk_dim = (each.embeddings.shape[1] for each in (trained[0], before))
    start = ""
    if dim < trunk_dim:
        random = labels.one_digit(at_random(gallery, before, dim))
        start = f" (in {trunk_dim:,} dimensions; {random} % after a random layer to the models' {dim})"
    after = {each.label: each.scores.mean() for each in trained}
    helped = sum(score > before.scores.mean() for score in after.values())
    said = "raised" if helped == len(after) else "did not raise" if not helped else "did not always raise"
    told = labels.listed(f"{labels.one_digit(score)} % with {name}" for name, score in after.items())
    return (
        f"MAP@R of these {len(gallery.rows)} images is {labels.one_digit(before.scores.mean())} % before training"
        f"{start} and after at most {steps} steps {told}: training on other "
        f"classes {said} it over that."
    )


def maps(gallery: Gallery, spaces: Sequence[Space]) -> Figure:
    """The images as dots in two dimensions, a panel a model, a colour and a mark a class."""
    figure, axes = style.canvas(3.1, 1, len(spaces))
    colours = (style.BLUE, style.ORANGE, style.GREEN, style.RED, style.PURPLE, style.SKY)
    names = dict(zip(gallery.labels, gallery.names, strict=True))
    for axis, space in zip(axes[0], spaces, strict=True):
        points = flat(space)
        for number, (each, name) in enumerate(names.items()):
            chosen = gallery.labels == each
            look = {"color": colours[number % len(colours)], "marker": "os^"[number // len(colours)], "label": name}
            dots = axis.scatter(*points[chosen].T, s=16, **look)
            svg.tips(dots, [name] * int(chosen.sum()))
        axis.set(title=space.label, xticks=[], yticks=[])
    handles, named = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, named, loc="outside lower center", ncols=4, fontsize=8, columnspacing=1.2)
    return figure


def made(models: Mapping[str, tuple]) -> str:
    """Of what the numbers are made, a bullet a gallery. models: what a page calls it -> as of `recorded_spaces`."""
    return "\n".join(
        f"- {name.capitalize()}: one model per loss "
        f"({labels.listed([labels.method_label(each) for each in asked[1]])}), under the protocol of "
        f"`{STUDIES[asked[0].dataset]}`, at settings that an earlier search found; seed 0; commit {made_with(*asked)}"
        for name, asked in models.items()
    )
