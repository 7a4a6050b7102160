"""Queries and their neighbours as HTML, and the numbers of the page."""

import base64
from collections.abc import Sequence
from html import escape

import numpy as np
import pandas as pd

from dmlrc.report import prose
from dmlrc.report.neighbours.gallery import COLUMNS, Gallery, glyphs, grocery
from dmlrc.report.neighbours.measures import EPOCHS, LOSSES, Space, at_random, queries, recorded_spaces
from dmlrc.report.results_table import results_table, with_foot

SHOWN = 6
TARGETS = (0.0, 0.125, 0.5, 1.0)
"""The scores before training of the queries that are shown; of the letters the first three."""


def gallery_html(name: str, gallery: Gallery, spaces: Sequence[Space], queries: Sequence[int]) -> str:
    """HTML: for each query a row of its nearest images under each model, right ones and wrong ones framed apart.

    name: a word for the style sheet, one a page, which holds the images as one sheet.
    """
    sheet = base64.b64encode(gallery.sheet).decode()
    lines = -(-len(gallery.rows) // COLUMNS)
    style_sheet = (
        f".{name} {{ background-image: url(data:image/{gallery.kind};base64,{sheet}); "
        f"background-size: calc({COLUMNS} * var(--dml-thumb)) calc({lines} * var(--dml-thumb)); }}"
    )
    blocks = []
    for query in queries:
        head = f'<div class="dml-row"><b>Query</b>{_tile(name, gallery, query, "query")}'
        head += f"<small>{escape(gallery.names[query])}</small></div>"
        strips = "".join(_row(name, gallery, space, query) for space in spaces)
        blocks.append(f'<div class="dml-neighbours">{head}{strips}</div>')
    return f"<style>{style_sheet}</style>" + "".join(blocks)


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


def gallery_scores(gallery: Gallery, spaces: Sequence[Space]) -> pd.DataFrame:
    """MAP@R and P@1 of the gallery under each model, and MAP@R of the whole test half, as cells; first untrained."""
    columns = {
        "MAP@R, these images": [space.scores.mean() for space in spaces],
        "P@1, these images": [np.mean(gallery.labels[space.neighbours[:, 0]] == gallery.labels) for space in spaces],
        "MAP@R, whole test half": [space.test_map_at_r for space in spaces],
    }
    parts = [
        pd.DataFrame({"row": [space.label for space in spaces], "column": head, "mean": values, "untrained": values[0]})
        for head, values in columns.items()
    ]
    return results_table(with_foot(pd.concat(parts), untrained=[spaces[0].label]), digits=1)[0].rename_axis("Model")


def numbers() -> dict[str, float]:
    """The numbers behind the page's text, in percent of MAP@R; of the recorded models, a data set by its name.

    untrained, low, high: of the gallery before training, and after it by the worst and the best loss. random: after a
    random layer. whole: on the whole test half. least_lost: what each loses there. shown: the most that a letter gains.
    """
    named = {"first": 1 / 4, "second": 1 / 2 / 4}
    lost = []
    for gallery in (grocery(), glyphs()):
        before, *trained = all_spaces = recorded_spaces(gallery, LOSSES[gallery.dataset], EPOCHS[gallery.dataset])
        after, name = [space.scores.mean() for space in trained], gallery.dataset.partition("-")[0]
        named |= {f"{name}.untrained": before.scores.mean(), **prose.span(name, after)}
        named[f"{name}.whole"] = max(space.test_map_at_r for space in trained)
        named[f"{name}.whole_untrained"] = before.test_map_at_r
        if name == "grocery":  # the letters' network trains as a whole
            named[f"{name}.random"] = at_random(gallery, before, trained[0].embeddings.shape[1])
        else:
            shown = queries(before, TARGETS[:3])
            named[f"{name}.shown"] = (trained[-1].scores - before.scores)[shown].max()
        lost += [space.scores.mean() - space.test_map_at_r for space in all_spaces]
    return {name: float(100 * value) for name, value in (named | {"least_lost": min(lost)}).items()}
