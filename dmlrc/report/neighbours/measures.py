"""Embeddings of a gallery before and after training, and what is nearest to what.

A training takes seconds; those of the chapter are recorded (`record_spaces`), so that each book need not repeat them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from dmlrc import inputs, metrics, paths, studies, training
from dmlrc.building import normalized
from dmlrc.errors import DmlrcError
from dmlrc.metrics import retrieval
from dmlrc.records import provenance
from dmlrc.report.labels import method_label
from dmlrc.report.neighbours.gallery import Gallery
from dmlrc.studies import tuned

UNTRAINED = "untrained"
STUDIES = {"grocery-lite0": "grocery-quick", "glyphs": "glyphs-quick"}
"""The study under whose protocol a gallery's models are trained."""
LOSSES = {
    "grocery-lite0": ("contrastive", "multi_similarity", "normalized_softmax"),
    "glyphs": ("contrastive", "multi_similarity"),
}
"""The losses whose models are recorded."""
EPOCHS = {"grocery-lite0": None, "glyphs": 3}
"""For how long they were trained at most; None: as long as in the study."""


@dataclass(frozen=True)
class Space:
    """The images of a gallery as one model embeds them.

    label: of the method, for readers. embeddings: (n, D), L2-normalised. neighbours: (n, n - 1) indices into the
    gallery, nearest first, without the image itself. scores: (n,) average precision at R of each query in the gallery.
    test_map_at_r: of the whole test half, by the same model.
    """

    label: str
    embeddings: np.ndarray
    neighbours: np.ndarray
    scores: np.ndarray
    test_map_at_r: float


def spaces(gallery: Gallery, methods: Sequence[str], epochs: int | None = None) -> list[Space]:
    """The gallery before training, then by each method at `tuned` settings, first fold, seed 0; epochs: at most.

    Raises DmlrcError where the data set is not that of which the gallery was made.
    """
    study = studies.get(STUDIES[gallery.dataset])
    most = study.effective_protocol.max_epochs
    protocol = replace(study.effective_protocol, max_epochs=min(most, epochs or most))
    prepared = inputs.prepare(study.dataset, protocol, "default", 0)
    if (prepared.labels[gallery.rows] != gallery.labels).any():
        raise DmlrcError(
            f"the images of {gallery.dataset!r} here are not those of the gallery: `python -m "
            "dmlrc.report.neighbours.gallery` makes it again"
        )
    every = [_space(UNTRAINED, prepared, gallery, None)]
    settings = tuned.grid_settings("grocery" if study.dataset == "grocery-lite0" else study.dataset)
    for name in methods:
        method, fold = study.method(name), prepared.splits.folds[0]
        task = training.Task(method, settings[name], prepared.source, prepared.labels, prepared.make_model, protocol)
        [run] = training.train([training.FoldRun(0, 0, fold.train, fold.val)], task)
        model = prepared.make_model()
        model.load_state_dict(run.weights)
        model.normalize = normalized(method)
        every.append(_space(name, prepared, gallery, model.to(prepared.source.device)))
    return every


def recorded_spaces(gallery: Gallery, methods: Sequence[str], epochs: int | None = None) -> list[Space]:
    """`spaces`, from the record where this gallery was embedded with these epochs and by all of these methods."""
    stored = record_of(gallery, methods, epochs)
    if stored is None:
        return spaces(gallery, methods, epochs)
    scores = dict(zip(stored["methods"], map(float, stored["test_map_at_r"]), strict=True))
    return [_seen(name, stored[name], gallery, scores[name]) for name in (UNTRAINED, *methods)]


def record_of(gallery: Gallery, methods: Sequence[str], epochs: int | None = None) -> dict[str, np.ndarray] | None:
    """The arrays that `recorded_spaces` reads; None where it has to train."""
    if not _file(gallery).exists():
        return None
    with np.load(_file(gallery)) as stored:
        arrays = dict(stored)
    return arrays if arrays["epochs"] == (epochs or 0) and set(methods) <= set(arrays) else None


def made_with(gallery: Gallery, methods: Sequence[str], epochs: int | None = None) -> str:
    """The commit at which the models of `recorded_spaces` were trained."""
    stored = record_of(gallery, methods, epochs)
    return provenance.commit() if stored is None else str(stored["commit"])


def record_spaces(gallery: Gallery, methods: Sequence[str], epochs: int | None = None) -> None:
    """Embed the gallery before and after training, and write what `recorded_spaces` reads."""
    names, by_network = (UNTRAINED, *methods), spaces(gallery, methods, epochs)
    np.savez_compressed(
        _file(gallery),
        epochs=epochs or 0,
        commit=provenance.commit(),
        methods=names,
        test_map_at_r=[space.test_map_at_r for space in by_network],
        **{name: space.embeddings for name, space in zip(names, by_network, strict=True)},
    )


def _file(gallery: Gallery) -> Path:
    return paths.measured() / f"neighbours-{gallery.dataset}.npz"


def _space(name: str, prepared: inputs.PreparedData, gallery: Gallery, model: torch.nn.Module | None) -> Space:
    def embedded(rows: np.ndarray) -> torch.Tensor:
        if model is None and prepared.protocol.frozen_trunk:
            return F.normalize(prepared.source.evaluate(rows))
        return F.normalize(training.embed_images(model or _random(prepared), prepared.source, rows))

    test = prepared.splits.test
    whole = metrics.evaluate(embedded(test), torch.from_numpy(prepared.labels[test]), ("map_at_r",))
    return _seen(name, embedded(gallery.rows).cpu().numpy(), gallery, whole["map_at_r"])


def _seen(name: str, embeddings: np.ndarray, gallery: Gallery, test_map_at_r: float) -> Space:
    label = "Untrained" if name == UNTRAINED else method_label(name)
    scores = map_at_r_of_queries(embeddings, gallery.labels)
    return Space(label, embeddings, nearest_by_cosine(embeddings), scores, test_map_at_r)


def _random(prepared: inputs.PreparedData) -> torch.nn.Module:
    """The model before its first step."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return prepared.make_model().to(prepared.source.device)


def nearest_by_cosine(embeddings: np.ndarray) -> np.ndarray:
    """(n, D), L2-normalised -> (n, n - 1): the others by cosine similarity, nearest first."""
    similarities = embeddings @ embeddings.T
    np.fill_diagonal(similarities, -np.inf)
    return np.argsort(-similarities, axis=1, kind="stable")[:, :-1]


def map_at_r_of_queries(embeddings: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """MAP@R of each query, all of which have a positive: (n, D), (n,) -> (n,)."""
    points = retrieval.as_embeddings(embeddings)
    scores, _ = retrieval.query_scores(retrieval.euclidean_rankings, points, labels, ["map_at_r"])
    return scores["map_at_r"].numpy()


def at_random(gallery: Gallery, space: Space, dim: int, draws: int = 200) -> float:
    """MAP@R of the untrained trunk's space after a random linear layer to `dim` numbers, where training begins."""
    rng, scores = np.random.default_rng(0), []
    for _ in range(draws):
        projected = space.embeddings @ rng.normal(size=(space.embeddings.shape[1], dim))
        projected /= np.linalg.norm(projected, axis=1, keepdims=True)
        scores.append(map_at_r_of_queries(projected, gallery.labels).mean())
    return float(np.mean(scores))


def queries(space: Space, targets: Sequence[float]) -> list[int]:
    """The query whose score in this space is nearest to each target; none twice."""
    chosen: list[int] = []
    for target in targets:
        order = np.argsort(np.abs(space.scores - target), kind="stable")
        chosen.append(int(next(place for place in order if place not in chosen)))
    return chosen
