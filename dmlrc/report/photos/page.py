"""The page itself, one HTML file that holds its pictures."""

import base64
import io
import shlex
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from PIL import Image

from dmlrc import data, paths
from dmlrc.data import ImageSet
from dmlrc.records import StudyRecords, model_path
from dmlrc.report import about, labels, publish, ranking
from dmlrc.report.photos import answer, neighbours
from dmlrc.report.photos.neighbours import Found

_SIDE = 112  # pixels of a picture
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; }
th, td { padding: .15rem .8rem; text-align: left; }
tr:nth-child(even) { background: #f4f4f4; }
dt { font-weight: 600; }
.strip { display: flex; flex-wrap: wrap; gap: .4rem; margin: .8rem 0; }
figure { margin: 0; width: 116px; font-size: 12px; line-height: 1.2; overflow-wrap: anywhere; }
img { width: 108px; height: 108px; border: 4px solid #999; }
.query { margin-right: 1rem; }
.same img { border-color: #2a7f3f; }
.other img { border: 4px dashed #b3261e; }
"""


def render_page(records: StudyRecords, images: ImageSet, results: Found) -> str:
    """The HTML of the page. images: the data set of the study. results: the neighbours by the loss it chooses."""
    name, best = data.folder_name(images.name), answer.chosen_loss(records)
    settings = ", ".join(f"{key} {value:.3g}" for key, value in answer.first_rerun(records, best)["params"].items())
    rows, legend = ranking.ranked(records)
    parts = [
        f"<h1>Which loss for {escape(name)}?</h1>",
        *_paragraphs(answer.sentences(records)),
        f"<p>Its setting: {escape(settings)}.</p>",
        "<h2>All losses</h2>",
        _table(_in_order(rows, answer.losses_by_validation(records))),
        *_paragraphs(["Order: by the best trials on the validation classes, which choose.", *legend]),
        "<h2>What is found</h2>",
        "<p>Photos of classes that no training saw, drawn at random, and next to each the photos nearest to it by this "
        "loss. Solid green: the same class. Dashed red: another one.</p>",
        *(_strip(results, images, query) for query in neighbours.examples(results)),
        "<h2>What a wrong match looks like</h2>",
        *_wrong(results, images),
        "<h2>How it was made</h2>",
        "<dl>",
        *(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in about.row(records).items()),
        "</dl>",
        "<p>The classes were divided once: half of them for training and choosing, the others for this page. It ranks "
        "the losses for these photos and this trunk, which stays as it is: only a linear layer was trained.</p>",
        "<h2>Use it</h2>",
        "<p>These commands keep the models of this loss, and embed the photos of any folder with one of them:</p>",
        f"<pre>{escape(_commands(records, best))}</pre>",
    ]
    return publish.whole_page(name, _STYLE, parts)


def _commands(records: StudyRecords, method: str) -> str:
    rerun = answer.first_rerun(records, method)
    model = model_path({"method": method, "kind": "rerun", **rerun, "number": rerun["rerun"]}, records.name)
    return (
        f"dmlrc study run {records.name} --method {method} --save-models\n"
        f"dmlrc embed {shlex.quote(str(model.relative_to(paths.runs().parent)))} FOLDER --output embeddings.npz"
    )


def _wrong(results: Found, images: ImageSet) -> list[str]:
    queries = neighbours.wrong(results)
    if not len(queries):
        return ["<p>There is none: the nearest photo is always of the same class.</p>"]
    names = images.class_names
    pairs = [f"{names[own]} for {names[other]} ({count})" for own, other, count in neighbours.confused(results)]
    return [
        "<p>The photos whose nearest one is of another class, the most similar first, one for each pair of classes. "
        f"Taken most often: {escape('; '.join(pairs))}.</p>",
        *(_strip(results, images, query) for query in queries),
    ]


def _strip(results: Found, images: ImageSet, query: int) -> str:
    """A query and its neighbours in a row."""
    shown = [(query, "query", images.class_names[results.labels[query]])]
    for place, cosine in zip(results.nearest[query], results.similarities[query], strict=True):
        kind = "same" if results.labels[place] == results.labels[query] else "other"
        shown.append((place, kind, f"{images.class_names[results.labels[place]]}, {cosine:.2f}"))
    figures = [
        f'<figure class="{kind}"><img alt="{escape(text)}" src="{_picture(images.images[results.images[place]])}">'
        f"<figcaption>{escape(text)}</figcaption></figure>"
        for place, kind, text in shown
    ]
    return f'<div class="strip">{"".join(figures)}</div>'


def _picture(pixels: np.ndarray) -> str:
    """(C, H, W) uint8 -> a small JPEG as the address of an image."""
    channels = pixels.transpose(1, 2, 0)
    image = Image.fromarray(channels if channels.shape[2] == 3 else channels[:, :, 0])
    stream = io.BytesIO()
    image.resize((_SIDE, _SIDE), Image.Resampling.LANCZOS).save(stream, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode()}"


def _paragraphs(sentences: Iterable[str]) -> list[str]:
    return [f"<p>{escape(sentence)}</p>" for sentence in sentences]


def _in_order(rows: Sequence[Sequence[str]], chosen: Sequence[str]) -> list[tuple[str, ...]]:
    """The rows of `ranking.ranked` in this order of methods, which is the first column; others stand below."""
    head, *body = rows
    body = sorted(body, key=lambda row: chosen.index(row[1]) if row[1] in chosen else len(chosen))
    places = [str(place) if row[1] in chosen else "" for place, row in enumerate(body, 1)]
    heads = ("order", head[1], "rank on the test classes", *head[2:])
    return [heads, *((place, row[1], row[0], *row[2:]) for place, row in zip(places, body, strict=True))]


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = ["".join(f"<th>{escape(cell)}</th>" for cell in head)]
    lines += [
        "".join(f"<td>{escape(cell)}</td>" for cell in (row[0], labels.method_label(row[1]), *row[2:])) for row in body
    ]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
