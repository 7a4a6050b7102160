"""What the ledgers share: the comparison itself, and the reasons that hold for every paper."""

from collections.abc import Callable, Iterable, Mapping

import pandas as pd

from dmlrc import studies
from dmlrc.data.registry import SOURCES
from dmlrc.protocol import Protocol
from dmlrc.records import StudyRecords
from dmlrc.report import labels, titles
from dmlrc.report.common import ByStudy, present

COLUMNS = ("setting", "ours", "the paper's", "where", "why")
NOT_GIVEN = "not given"

Reasons = Mapping[str, tuple[str, str]]
"""A field of the protocol -> where the paper has it (or `NOT_GIVEN`: then it is ours to choose), why ours is so."""
ByHand = tuple[str, str | Callable[[StudyRecords], str], str, str, str]
"""Setting, ours (a text, or a function of the records; "" where it says nothing of them), the paper's, where, why."""

ProtocolOf = Callable[[StudyRecords], Protocol]

_SQUARES = {
    **dict.fromkeys(("glyphs", "glyphs-small", "icons", "omniglot"), "drawings, which are squares"),
    "cars196crops": "the box of each car, squashed to a square",
    "cub200_2010": "a square around each bird, with black borders where the photograph ended",
}
"""The data sets whose images are squares before this study stores them."""

_SHARED = "As in the study around which the experiment stands: they share images or features."
_WHY = {
    "trunk": "A trunk that two CPU cores can train, or whose features they can compute once.",
    "weights": "The ImageNet weights that can be had here; a network that is trained from scratch has none.",
    "train_from": "The layers before this one keep their ImageNet weights: what they give is computed once, so that a "
    "CPU can train the rest.",
    "embedding_dim": "A smaller embedding for a smaller trunk.",
    "image_size": _SHARED,
    "crop_size": _SHARED,
    "augmentation": "The features of a frozen trunk are computed once, from one crop of each image; a network that is "
    "trained from scratch sees small affine changes.",
    "crop_scale": "Not used where images are not cropped at random.",
    "crop_ratio": "Not used where images are not cropped at random.",
    "square": _SHARED,
    "lr": "Another network, of which less trains. One rate serves all methods, chosen with several of them on "
    "validation classes: of the data set itself where the chapter on what is held equal has its grid; else of Grocery "
    "Store for frozen trunks, of the glyphs for trained ones.",
    "optimizer": "The optimiser that the trunk trains with.",
    "weight_decay": "The decay that the trunk trains with.",
    "iterations_per_epoch": "Fewer steps for a smaller model: a fixed number of batches, not a pass.",
    "max_epochs": "Fewer steps for a smaller model; the quick budget stops after a moment.",
    "freeze_batch_norm": "The small trunk has no BatchNorm, a frozen one does not train it.",
    "split": "The data set's own order, halved.",
}


def ties(paper: str, where: str, why: str = "A score must not depend on the order of the rows.") -> ByHand:
    """The row on ties in a ranking. paper: what is done there."""
    return "ties in a ranking", "the expected score over all orders of the tied images", paper, where, why


def stored_images(where: str) -> ByHand:
    """The row on what is on disk in the place of whole photographs."""
    return (
        "stored images",
        _stored,
        "whole photographs",
        where,
        "One array on disk holds a whole set. A centre square changes nothing that a centre crop sees. A box does, in "
        "evaluation too: it shows little of the surroundings, and a squashed one no proportions.",
    )


def _stored(records: StudyRecords) -> str:
    dataset, protocol = records.meta["dataset"], records.meta["protocol"]
    cut = {"crop": "a centre square of each photograph", "squash": "each photograph, squashed to a square"}
    what = _SQUARES.get(dataset, cut[protocol["square"]])
    source = SOURCES.get(dataset.removesuffix("-lite0"))  # features are those of photographs
    if source is not None and source.form.size < protocol["image_size"]:
        what += f", stored at {source.form.size} pixels and enlarged"
    return f"{what}; training crops are not anti-aliased" if protocol["augmentation"] == "crop" else what


def usual(where: str, *fields: str) -> Reasons:
    """The reasons that hold for every paper, for these fields."""
    return {field: (where, _WHY[field]) for field in fields}


def compare(
    by_study: ByStudy, protocol: Protocol | ProtocolOf, reasons: Reasons, by_hand: Iterable[ByHand]
) -> pd.DataFrame:
    """The numbered deviations of studies from a paper, and what it leaves open; columns `COLUMNS`, index from 1.

    protocol: the paper's, or the one that it has for the data set of some records. A row stands for all studies; where
    they differ from one another, each is named. Only the fields in `reasons` are compared.
    """
    ran = present(by_study)
    rows = [_field(ran, protocol, name, *reason) for name, reason in reasons.items()]
    rows += [_by_hand(ran, *row) for row in by_hand]
    rows = [row for row in rows if row]
    return pd.DataFrame(rows, columns=list(COLUMNS), index=pd.RangeIndex(1, len(rows) + 1, name="no."))


def images_per_batch(records: StudyRecords) -> str:
    """The sizes of the batches that the methods of a study ask for, as "60" or "60 to 75"; "" for an unknown study."""
    study = studies.known().get(records.name)
    if study is None:
        return ""
    sizes = sorted({method.classes_per_batch * method.images_per_class for method in study.methods})
    return " to ".join(str(size) for size in dict.fromkeys((sizes[0], sizes[-1])))


def reruns(records: StudyRecords) -> str:
    """How often a row was trained."""
    count = records.meta["budget"]["reruns"]
    return f"{count} seed{'s' if count != 1 else ''} a row"


def start_of_weights(given: str, otherwise: str = "standard normal") -> Callable[[StudyRecords], str]:
    """How class weights and proxies begin: as `given` where a study's settings name their length, or `otherwise`."""

    def told(records: StudyRecords) -> str:
        settings = records.meta.get("settings", {}).values()
        return given if any({"weight_length", "proxy_std"} & each.keys() for each in settings) else otherwise

    return told


def _field(
    ran: Mapping[str, StudyRecords], protocol: Protocol | ProtocolOf, name: str, where: str, why: str
) -> tuple[str, ...]:
    papers = {key: protocol(records) if callable(protocol) else protocol for key, records in ran.items()}
    theirs = {key: _text(name, vars(paper)) for key, paper in papers.items()}
    ours = {key: _ours(records, name) for key, records in ran.items()}
    if ours == theirs and where != NOT_GIVEN:
        return ()
    paper = f"not given; {_joined(theirs)} in our version of its system" if where == NOT_GIVEN else _joined(theirs)
    return name, _joined(ours), paper, where, why


def _ours(records: StudyRecords, name: str) -> str:
    if name == "square" and records.meta["dataset"] in _SQUARES:
        return "as stored"
    return _text(name, records.meta["protocol"])


def _text(name: str, protocol: Mapping) -> str:
    """A setting of a protocol as printed; no first layer that trains means all of the trunk, or none of it."""
    if name == "train_from" and protocol[name] is None:
        return "none of the trunk" if protocol["frozen_trunk"] else "all of the trunk"
    return labels.setting(name, protocol[name])


def _by_hand(
    ran: Mapping[str, StudyRecords],
    name: str,
    ours_of: str | Callable[[StudyRecords], str],
    paper: str,
    where: str,
    why: str,
) -> tuple[str, ...]:
    ours = {key: ours_of(records) if callable(ours_of) else ours_of for key, records in ran.items()}
    texts = {key: text for key, text in ours.items() if text}
    if set(texts.values()) <= {paper}:
        return ()
    if name == "data set":
        return name, labels.listed(dict.fromkeys(texts.values())), paper, where, why
    return name, _joined(texts, len(ours)), paper, where, why


def _joined(texts: Mapping[str, str], studies: int = 0) -> str:
    """The one text of all studies, or each with its study. studies: how many there are, where some may have no text."""
    if len(set(texts.values())) == 1 and len(texts) >= studies:
        return next(iter(texts.values()))
    return "; ".join(f"{titles.in_label(name)}: {text}" for name, text in texts.items())
