"""Where studies differ from Fehervari et al. 2019."""

import pandas as pd

from dmlrc.papers import fehervari2019
from dmlrc.report import labels
from dmlrc.report.common import ByStudy
from dmlrc.report.deviations.compare import NOT_GIVEN, ByHand, Reasons, compare, images_per_batch, reruns, ties, usual
from dmlrc.report.fehervari2019 import page

REASONS: Reasons = {
    **usual("4.1", "trunk", "weights", "train_from"),
    "frozen_trunk": (
        "4.1",
        "Features are computed once and only the layers behind them train. The losses are compared on fixed features; "
        "that is another question than the paper's.",
    ),
    **usual("4.1", "image_size", "crop_size", "augmentation", "crop_scale", "crop_ratio", "square", "optimizer"),
    **usual(NOT_GIVEN, "lr"),
    "weight_decay": (NOT_GIVEN, "As in our version of the paper's own system."),
    **usual(NOT_GIVEN, "iterations_per_epoch", "max_epochs", "freeze_batch_norm"),
    **usual("3", "split"),
}
BY_HAND: tuple[ByHand, ...] = (
    ("data set", labels.dataset, "CUB200, Cars196 and SOP", "3", "What can be had and trained on here."),
    (
        "images in a batch",
        images_per_batch,
        "120",
        "4.1",
        "Half, with half the classes and the same images of each: half of Grocery Store has 40 classes.",
    ),
    ("reruns", reruns, "one run, as far as the paper says", "4", "Differences need an interval."),
    (
        "hyperparameters of a loss",
        "those of the losses' own papers, the same on every data set",
        "a grid search; the values are not printed",
        "4",
        "A search for each is another study, the Reality Check's, which stands in the first part of this book.",
    ),
    (
        "structured clustering",
        "gamma stays as it is",
        "an exponentially decayed gamma",
        "4.1",
        "The paper gives neither its start nor its rate.",
    ),
    (
        "DREML",
        lambda records: f"{page.setting(records, 'dreml')}, joined",
        "Inception-BN and ResNet18, 12 x 12",
        "4.1",
        "The members share the trunk of the study.",
    ),
    (
        "normalisation of DREML",
        "each member's embeddings, and the joined ones",
        "none, by Table 1",
        "4.1",
        "Its loss here is that of ProxyNCA, which is on normalised embeddings.",
    ),
    ties("not given", "4", "Bits tie often, and a score must not depend on the order of the rows."),
)


def ledger(by_study: ByStudy) -> pd.DataFrame:
    """deviations-fehervari: what differs from the paper's protocol; see `compare`."""
    return compare(by_study, fehervari2019.PROTOCOL, REASONS, BY_HAND)
