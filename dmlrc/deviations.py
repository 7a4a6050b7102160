"""The deviation ledger: where a study differs from its paper, numbered, with the reason.

Two sources: the protocol's fields, compared by the machine (`REASONS` adds the paper's section and the why), and a list
written by hand (`ALWAYS`) of what no field shows.
"""

from collections.abc import Sequence
from dataclasses import asdict

import pandas as pd

from dmlrc import printed
from dmlrc.papers import musgrave2020
from dmlrc.records import StudyRecords

COLUMNS = ("setting", "ours", "the paper's", "where", "why")

REASONS = {
    "trunk": ("3.1", "A trunk that two CPU cores can train, or whose features they can compute once."),
    "weights": ("3.1", "ImageNet weights that can be had here; characters need none."),
    "frozen_trunk": (
        "3.1",
        "Features are computed once and only the linear embedder trains, so that the full budget of trials and reruns "
        "is affordable without a GPU. This is a protocol of its own and is named wherever its numbers stand.",
    ),
    "embedding_dim": ("3.1", "A smaller embedding for a smaller trunk."),
    "image_size": ("3.1", "The images are stored smaller than the paper's."),
    "crop_size": ("3.1", "The images are stored smaller than the paper's."),
    "augmentation": (
        "3.1",
        "Characters change their meaning when mirrored or cropped, so they get small affine changes. A frozen trunk "
        "sees the evaluation crop only, since its features are computed once.",
    ),
    "crop_scale": ("3.1", "Not used where images are not cropped."),
    "crop_ratio": ("3.1", "Not used where images are not cropped."),
    "optimizer": ("3.1", "The optimiser that the trunk trains with."),
    "lr": (
        "3.1",
        "1e-6 is a rate for fine-tuning BN-Inception. One rate serves all methods; where it was searched for, on "
        "validation folds, the trials that chose it are shown below.",
    ),
    "weight_decay": ("code", "The paper does not give it; its code's later default is 1e-4."),
    "momentum": ("code", "The paper does not give it; its code's later default is 0.9."),
    "folds": ("3.2", "Fewer folds for a small budget."),
    "iterations_per_epoch": ("code", "Cut by the budget."),
    "eval_every": ("code", "The paper's code validates CUB200 every 2, Cars196 every 5 and SOP every 20 epochs."),
    "patience": (
        "code",
        "The paper's code waits 9 (CUB200), 14 (Cars196) or 39 (SOP) epochs. A shorter wait saves steps; what it costs "
        "in accuracy is shown below, with the trials that chose the learning rate.",
    ),
    "max_epochs": ("code", "Bounds the cost of a run; how many runs reach the limit is counted below."),
    "split": ("3.2", "The split of the paper whose protocol this is."),
    "square": ("3.1", "Photographs are stored as squares; the paper whose protocol this is gives up the aspect ratio."),
    "sampler": ("3.1", "The batches of the paper whose protocol this is."),
    "layer_norm": ("3.1", "Zhai and Wu 2019 normalise the features ahead of the embedder."),
    "freeze_batch_norm": ("3.1", "Frozen or not as in the paper whose protocol this is."),
    "new_lr": ("3.1", "A rate of its own for new weights, in the paper whose protocol this is."),
    "loss_weight_decay": ("code", "No decay of a loss's own weights, in the code of the paper whose protocol this is."),
    "warmup_epochs": ("3.1", "Zhai and Wu 2019 train only the new weights at first."),
    "lr_steps": ("3.1", "The schedule of the paper whose protocol this is."),
    "class_share": ("3.1", "Fewer classes in each step's softmax, as in Fig. 4 of Zhai and Wu 2019."),
    "members": ("3.2", "An ensemble (DREML) instead of one model."),
    "meta_classes": ("3.2", "An ensemble over random partitions of the classes (DREML)."),
    "test_metrics": ("3.3", "The metrics of the paper whose protocol this is."),
    "val_metrics": ("3.3", "The metrics of the paper whose protocol this is."),
    "train_metrics": ("3.3", "The paper whose protocol this is looks at the training images too."),
    "binary": ("3.3", "Binary embeddings are recorded beside the real-valued ones (Zhai and Wu 2019)."),
    "arrays": ("3.3", "Spectra and histograms, for the figures of the paper whose protocol this is."),
}

ALWAYS = (
    (
        "search",
        "Optuna's tree-structured Parzen estimator; its first 10 trials are random",
        "Bayesian optimisation with Ax",
        "3.2",
        "Maintained, seeded, and a trial can be proposed from the records alone, so that a killed search resumes.",
    ),
    (
        "a trial that diverges",
        "recorded as diverged, with the reason; the search learns nothing from it",
        "scores 0",
        "code",
        "A failure is no accuracy.",
    ),
    (
        "search ranges",
        "fixed before the search",
        "widened during the search where an optimum lay on a bound",
        "optima list",
        "A range that moves while one looks cannot be repeated.",
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
        "Methods can be compared pair by pair.",
    ),
    (
        "number of reruns",
        "10 at full budget",
        "not stated in the paper; its documentation's example has 10",
        "3.2",
        "The intervals need a number.",
    ),
    (
        "batches where classes are few",
        "a batch of more classes than a fold has takes half the classes with twice the images, and keeps its size",
        "never needed: every fold has enough classes",
        "3.1",
        "Grocery Store has 30 training classes a fold, and classification losses ask for 32.",
    ),
    (
        "stored images",
        "a centre square of each photograph; training crops are not anti-aliased",
        "whole photographs",
        "3.1",
        "One array on disk holds a whole set. Evaluation, a centre crop, is not affected.",
    ),
    (
        "ties in a ranking",
        "the expected score over all orders of the tied images",
        "the order in which the search library returns them",
        "3.3",
        "A score must not depend on the order of the rows.",
    ),
)
"""What no field of the protocol shows: (setting, ours, the paper's, where, why)."""


def ledger(records: StudyRecords) -> pd.DataFrame:
    """The numbered deviations of a study from the Reality Check; columns `COLUMNS`, index from 1."""
    return _numbered([*_fields(records), *_budget(records), *ALWAYS])


def _fields(records: StudyRecords) -> list[tuple[str, ...]]:
    ours, theirs = records.meta["protocol"], asdict(musgrave2020.PROTOCOL)
    pairs = {name: (printed.setting_text(ours[name]), printed.setting_text(theirs[name])) for name in REASONS}
    return [(name, *pair, *REASONS[name]) for name, pair in pairs.items() if pair[0] != pair[1]]


def _budget(records: StudyRecords) -> list[tuple[str, ...]]:
    budget = records.meta["budget"]
    if budget["name"] == "full":
        return []
    why = "A budget that ends in minutes. It shows the whole chain and ranks nothing."
    return [
        ("budget", f"{budget['trials']} trials, {budget['reruns']} reruns", "50 trials, several reruns", "3.2", why)
    ]


def _numbered(rows: Sequence[tuple[str, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(COLUMNS), index=pd.RangeIndex(1, len(rows) + 1, name="no."))
