"""Where studies differ from Fehervari et al. 2019."""

import pandas as pd

from dmlrc.methods import LOSS_WEIGHTS_LR
from dmlrc.papers import fehervari2019
from dmlrc.records import StudyRecords
from dmlrc.report import common, labels
from dmlrc.report.common import ByStudy
from dmlrc.report.deviations.compare import (
    NOT_GIVEN,
    ByHand,
    Reasons,
    compare,
    images_per_batch,
    reruns,
    start_of_weights,
    stored_images,
    ties,
    usual,
)
from dmlrc.report.fehervari2019 import page

REASONS: Reasons = {
    **usual("4.1", "trunk", "weights", "train_from"),
    "frozen_trunk": (
        "4.1",
        "Features are computed once and only the layers on top of them train. The losses are compared on fixed "
        "features; that is another question than the paper's.",
    ),
    **usual("4.1", "image_size", "crop_size", "augmentation", "crop_scale", "crop_ratio", "square", "optimizer"),
    **usual(NOT_GIVEN, "lr"),
    "weight_decay": (NOT_GIVEN, "One for all losses. For what the logs of the paper's code have, see below."),
    **usual(NOT_GIVEN, "iterations_per_epoch", "max_epochs", "freeze_batch_norm"),
    **usual("3", "split"),
}


def _boundaries(records: StudyRecords) -> str:
    rate = records.meta.get("settings", {}).get("margin", {}).get(LOSS_WEIGHTS_LR)
    protocol = common.settings(records, "margin")
    decays = protocol["weight_decay"] if protocol["loss_weight_decay"] is None else protocol["loss_weight_decay"]
    return (
        "trained with the rest by Adam, at the rate "
        f"{'of the embedder' if rate is None else labels.number(rate)}, with{'' if decays else 'out'} weight decay"
    )


def _schedule(records: StudyRecords) -> str:
    decay = labels.setting("weight_decay", records.meta["protocol"]["weight_decay"])
    return f"the network's rate is one for all losses and never falls; weight decay {decay}"


BY_HAND: tuple[ByHand, ...] = (
    ("data set", labels.dataset, "CUB200, Cars196 and SOP", "3", "What can be had and trained on here."),
    (
        "images in a batch",
        images_per_batch,
        "120",
        "4.1",
        "Half, with half the classes and the same images of each: half of Grocery Store has 40 classes.",
    ),
    (
        "reruns",
        reruns,
        "not given; by the README of its code 10 seeds a row, by a log there 1 for NPairs with ResNet50",
        "code",
        "The budget.",
    ),
    (
        "which epoch counts",
        "the last, fixed before the run",
        "the one with the best R@1 on the test classes; of DREML, the best number of members",
        "code",
        "The best of many looks at the test classes is no estimate of the accuracy on them. Ours are lower for it.",
    ),
    (
        "hyperparameters of a loss",
        "those of the losses' own papers or of the public code of Fehervari et al., the same on every data set",
        'a grid search, its values "published along the codebase": known are the defaults of its scripts, and logs '
        "of five methods on CUB200",
        "4, code",
        "A search for each is another study, the Reality Check's: see the chapter on which loss is best.",
    ),
    (
        "schedule and weight decay",
        _schedule,
        "by these logs: rate 10⁻⁴, halved at epochs 12, 14, 16 and 18 (NPairs, Margin) or 20, 30 and 40 (Triplet, "
        "Lifted) of 20 to 60, decay 10⁻⁵, batches of 125 or 128; of ProxyTriplet 10⁻⁵ for the embedder and 10⁻³ for "
        "the rest, a tenth at epochs 3, 10 and 16 of 20, decay 5·10⁻⁴, batches of 32",
        "code",
        "Losses are compared under one schedule.",
    ),
    (
        "pairs of NPairs and Angular Loss",
        "two different images",
        "one image twice in a tenth of the pairs",
        "2.4, code",
        "To a frozen trunk an image looks the same each time: both would be one point.",
    ),
    (
        "RMSprop of structured clustering",
        "its squares are smoothed by 0.99",
        "an exponentially decayed gamma factor: in the code the smoothing, 0.94, times 0.94 an epoch",
        "4.1, code",
        "All runs with RMSprop have PyTorch's default. The γ of the loss itself stays 1, here and in the code.",
    ),
    (
        "proxies at the start",
        start_of_weights(
            "as in the code, but ProxyTriplet's normal, with the same SD; the rate is 10⁻³ for ProxyNCA and "
            "ProxyTriplet, else the embedder's",
            "standard normal, at the embedder's rate",
        ),
        "normal with SD 0.00125 (ProxyNCA, ProxySoftmax, DREML), or uniform within ± 0.05 on CUB200 (ProxyTriplet); "
        "the rate is 10⁻³ for ProxyNCA and ProxyTriplet, 100 times the embedder's, else the embedder's",
        "code",
        "Only their direction counts, but a step of Adam moves a number by about its rate at most, so that it turns a "
        "longer vector more slowly. On synthetic clusters standard normal proxies turned by 0.3 to 18 degrees in 500 "
        "steps at rates of 10⁻⁴ to 10⁻³, and by 66 to 89 degrees with the code's start. Where they are standard "
        "normal, these rows train towards almost fixed random directions.",
    ),
    (
        "regularisation of ProxySoftmax",
        "LayerNorm, and class weights of length 1",
        "LayerNorm, weight normalisation and dropout; in the code of the embedding layer and of the class weights, by "
        "default with dropout of 0.5 and label smoothing of 0.1",
        "2.9, code",
        "As Zhai and Wu, whose loss it is, describe it.",
    ),
    (
        "boundaries β of Margin Loss",
        _boundaries,
        "trained by SGD with momentum, an optimiser of their own, at the rate 0.1, without weight decay",
        "code",
        "A run has one optimiser. The code divides the gradient by the images of the batch, so that β moves by about "
        "10⁻⁴ a step. At the rate 0.1 Adam moves each by half the margin a step, and weight decay pulls down those of "
        "classes that are not in the batch.",
    ),
    (
        "clusters",
        "k-means from random points, one start, 20 iterations; NMI by the arithmetic mean of the entropies",
        "scikit-learn's k-means++, 10 starts, 300 iterations; NMI by the geometric mean",
        "code",
        "One NMI for all papers, the Reality Check's.",
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
    stored_images("4.1"),
    ties("not given", "4", "Bits tie often, and a score must not depend on the order of the rows."),
)


def ledger(by_study: ByStudy) -> pd.DataFrame:
    """deviations-fehervari: what differs from the paper's protocol; see `compare`."""
    return compare(by_study, fehervari2019.PROTOCOL, REASONS, BY_HAND)
