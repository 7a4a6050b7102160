"""Where studies differ from the Reality Check, Musgrave et al. 2020."""

from dataclasses import replace

import pandas as pd

from dmlrc.papers import musgrave2020
from dmlrc.protocol import Protocol
from dmlrc.records import StudyRecords
from dmlrc.report import labels
from dmlrc.report.common import ByStudy
from dmlrc.report.deviations.compare import NOT_GIVEN, ByHand, Reasons, compare, stored_images, ties, usual

_SIZE = (
    "3.1",
    "The size that the trunk is made for, or a smaller one that two CPU cores can train; characters are stored at 28 "
    "pixels.",
)
REASONS: Reasons = {
    **usual("3.1", "trunk", "weights", "train_from"),
    "frozen_trunk": (
        "3.1",
        "Features are computed once and only the linear embedder trains, so that the full budget of trials and reruns "
        "is affordable without a GPU. This is a protocol of its own and is named wherever its numbers stand.",
    ),
    **usual("3.1", "embedding_dim"),
    "image_size": _SIZE,
    "crop_size": _SIZE,
    "augmentation": (
        "3.1",
        "A frozen trunk sees the evaluation crop only, since its features are computed once; one that trains from a "
        "late layer on sees that crop and its mirror image. Drawings of characters, which mean something else when "
        "mirrored or cropped, get small affine changes.",
    ),
    **usual("3.1", "crop_scale", "crop_ratio", "optimizer"),
    "lr": (
        "3.1",
        "10⁻⁶ is a rate for fine-tuning BN-Inception. One rate serves all methods; where it was searched for, on "
        "validation folds, the trials that chose it are shown where grids of rates are.",
    ),
    "weight_decay": (NOT_GIVEN, "10⁻⁴ is the later default of the paper's code."),
    "momentum": (NOT_GIVEN, "0.9 is the later default of the paper's code; characters are trained without."),
    "folds": ("3.2", "Fewer folds for a small budget."),
    "iterations_per_epoch": ("code", "Cut by the budget."),
    "eval_every": ("code", "The paper's code validates CUB200 every 2, Cars196 every 5 and SOP every 20 epochs."),
    "patience": (
        "code",
        "The paper's code waits 9 (CUB200), 14 (Cars196) or 39 (SOP) epochs. A shorter wait saves steps; what it "
        "costs in accuracy was not measured where it is 9 or more.",
    ),
    "max_epochs": ("code", "Bounds the cost of a run; how many runs reach the limit is counted with the searches."),
    "per_class": ("3.3", "The scores of each test class, for intervals over classes."),
    "lr_decay": ("3.1", "Short runs of one fixed length need a rate that falls."),
    "precision": ("3.1", "On a GPU a whole network takes a third of the time a step in TF32."),
}


def _budget(records: StudyRecords) -> str:
    budget = records.meta["budget"]
    return "" if budget["name"] == "full" else f"{budget['trials']} trials, {budget['reruns']} reruns"


def _reruns(records: StudyRecords) -> str:
    """How often the setting that a search found was trained again, of each of its searches."""
    count, searches = records.meta["budget"]["reruns"], records.meta.get("repetitions", 1)
    return f"{count}" if searches == 1 else f"{count} after each of {searches} searches"


def _ranges_on_sop(records: StudyRecords) -> str:
    if records.meta["dataset"] != "sop":
        return ""
    return "the authors' widest there, but NTXent's temperature from 10⁻⁴; SoftTriple has no regulariser"


def _half(records: StudyRecords) -> tuple[int, int]:
    """How many classes the first half has, and into how many parts it is cut; 1 without validation."""
    return records.meta["data"]["classes"] // 2, records.meta["protocol"]["folds"] or 1


def _never_validate(records: StudyRecords) -> str:
    classes, folds = _half(records)
    return f"{classes % folds} of {classes}" if classes % folds else ""


def _few_classes(records: StudyRecords) -> str:
    classes, folds = _half(records)
    train = classes - classes // folds
    if not 0 < train < max(method.classes_per_batch for method in musgrave2020.METHODS):
        return ""
    return f"a batch of more classes than a fold's {train} takes half of them with twice the images, and keeps its size"


BY_HAND: tuple[ByHand, ...] = (
    ("data set", labels.dataset, "CUB200, Cars196 and SOP", "4.1", "What can be had and trained on here."),
    (
        "budget",
        _budget,
        "50 trials, several reruns",
        "3.2",
        "It ends in minutes. It shows the whole chain and ranks nothing.",
    ),
    (
        "search",
        "Optuna's tree-structured Parzen estimator; its first 10 trials are random",
        "Bayesian optimisation with Ax",
        "3.2, code",
        "Maintained, seeded, and a trial can be proposed from the records alone, so that a killed search resumes.",
    ),
    (
        "a trial that diverges",
        "recorded as diverged, with the reason; the search learns nothing from it",
        "scores 0",
        "code",
        "A failed trial has no accuracy.",
    ),
    (
        "search ranges",
        "fixed before the search",
        "widened during the search where an optimum lay on a bound; NTXent's temperature from 10⁻⁵ on Cars196 and SOP, "
        "on CUB200 MS's alpha from 10⁻³ and SoftTriple's gamma from 10⁻⁴",
        "optima list, trials",
        "A range that moves while one looks cannot be repeated.",
    ),
    (
        "search ranges on SOP",
        _ranges_on_sop,
        "NTXent's temperature from 10⁻⁵; SoftTriple has no regulariser",
        "trials",
        "NTXent has one range on all data sets.",
    ),
    (
        "classes of the first half that never validate",
        _never_validate,
        "none by the text; as many in its code",
        "3.2, code",
        "Parts of one size, as in the code.",
    ),
    (
        "weight decay of Margin",
        "none, of trunk and embedder neither, in both rows",
        "none; whether for the boundaries alone is not said",
        "names of its files",
        "The wider reading. By the narrower one trunk and embedder keep the decay of all others.",
    ),
    (
        "FastAP",
        "number of bins searched as a whole number from 2 to 32",
        "a grid",
        "code",
        "One search procedure for all methods.",
    ),
    (
        "seeds",
        "rerun n of every method starts from the same seed",
        "not stated",
        "3.2",
        "A rerun can be made again. No test pairs methods by it: their scores rise and fall together a little at most.",
    ),
    (
        "number of reruns",
        _reruns,
        "not stated in the paper; its documentation's example has 10",
        "3.2",
        "The intervals need a number.",
    ),
    (
        "batches where classes are few",
        _few_classes,
        "never needed: every fold has enough classes",
        "3.1",
        "Classification losses ask for 32 classes.",
    ),
    stored_images("3.1"),
    ties("the order in which the search library returns them", "3.3"),
)


def ledger(by_study: ByStudy) -> pd.DataFrame:
    """What differs from the paper's protocol, that of Cars196 for its crops; see `compare`."""
    return compare(by_study, _protocol, REASONS, BY_HAND)


def _protocol(records: StudyRecords) -> Protocol:
    """The paper's protocol on the data set of these records, or on CUB200 where it has none."""
    dataset = records.meta["dataset"].removesuffix("crops")
    return replace(musgrave2020.PROTOCOL, **musgrave2020.VALIDATION.get(dataset, {}))
