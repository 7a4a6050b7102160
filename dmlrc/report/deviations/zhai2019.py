"""Where studies differ from Zhai and Wu 2019."""

import pandas as pd

from dmlrc.papers import zhai2019
from dmlrc.protocol import Protocol
from dmlrc.records import StudyRecords
from dmlrc.report import labels
from dmlrc.report.common import ByStudy
from dmlrc.report.deviations.compare import (
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

REASONS: Reasons = {
    **usual("4.1", "trunk", "weights", "train_from"),
    "frozen_trunk": (
        "4.1",
        "Features are computed once and only the layers on top of them train. Classification is compared with other "
        "losses on fixed features; that is another question than the paper's.",
    ),
    "embedding_dim": (
        "4.1, code",
        "Our trunks have fewer than 2048 features, so 2048 dimensions take a linear layer here. By section 4.1 each "
        'network has one; only the public code leaves it out ("none") at 2048 dimensions.',
    ),
    **usual("4.1", "image_size", "crop_size", "augmentation", "crop_scale", "crop_ratio"),
    **usual("code", "square"),
    **usual("4.1", "lr"),
    "warmup_epochs": ("4.1", "Nothing to protect: the trunk is frozen, or starts from random weights."),
    "iterations_per_epoch": ("4.1", "The quick budget caps the steps of an epoch."),
    "max_epochs": ("4.1", "The quick budget stops after a moment."),
    **usual("code", "freeze_batch_norm"),
    **usual("4", "split"),
}
BY_HAND: tuple[ByHand, ...] = (
    ("data set", labels.dataset, "CUB200, Cars196, SOP and In-Shop", "4", "What can be had and trained on here."),
    ("images in a batch", images_per_batch, "75", "4.1", "Another size than the paper's."),
    (
        "images of a class in a batch",
        "different ones, where the class has enough",
        "drawn with replacement",
        "code",
        "As the Reality Check draws them.",
    ),
    (
        "batches without class balancing",
        "each drawn anew from all images",
        "random sequential iteration over the dataset: every image once an epoch",
        "4.4.2",
        "One way to draw random batches, for all papers.",
    ),
    ("reruns", reruns, "one run, as far as the paper says", "4", "Differences need an interval."),
    (
        "other losses of Tables 1 to 3",
        "trained in the same pipeline, with the settings of their own papers or of the public code of Fehervari et al. "
        "or of Roth et al.",
        "numbers quoted from other papers",
        "4.2",
        "Each table has one trunk, but quoted numbers mix embedding sizes, image sizes and tuning. Binomial deviance "
        "and HTL are not built here, Clustering is not trained. The proxies of Proxy NCA begin as the class weights of "
        "normalised softmax do.",
    ),
    (
        "class weights at the start",
        start_of_weights("normal, scaled to a length of 0.58", "standard normal, of length √D"),
        "uniform within ± 1/√D: of length 0.58",
        "code",
        "Only their direction counts, but SGD turns a longer vector more slowly, by the square of its length: 6,000 "
        "times more slowly where it is standard normal in 2048 dimensions. Such weights stay near their random "
        "directions, and the embedder does the learning.",
    ),
    (
        "LMCL",
        "at 2048 dimensions alone; margin 0.35 and scale 64, of CosFace's own experiments",
        "at 2048 dimensions, and at 512 in the architecture of its own paper; margin and scale are not given",
        "4.6",
        "The paper does not print its own, and they are not in its code. That architecture is another system.",
    ),
    (
        "trunk of Fig. 2",
        "that of the study, on every data set",
        "ResNet50 on Cars196, GoogLeNet on CUB200",
        "4.3",
        "Embedding sizes are compared on one trunk.",
    ),
    (
        "Fig. 3",
        "R@1 over the epochs is that of held-out validation classes",
        "that of the test classes",
        "4.4.1",
        "The test half is read once, after training. The last R@1 in the table is on test classes.",
    ),
    (
        "shares of Fig. 4",
        "100, 50, 25 and 10 % of the classes",
        "100, 10, 1 and 0.1 %",
        "4.5",
        "A thousandth of our classes would be less than one, and the classes of the batch are always in.",
    ),
    stored_images("4.1"),
    ties("not given", "4", "Bits tie often, and a score must not depend on the order of the rows."),
)


def ledger(by_study: ByStudy) -> pd.DataFrame:
    """deviations-zhai: what differs from the paper's protocol, that of CUB200 for both its editions; see `compare`."""
    return compare(by_study, _protocol, REASONS, BY_HAND)


def _protocol(records: StudyRecords) -> Protocol:
    """The paper's protocol on the data set of these records, or on Cars196 where it has none."""
    return zhai2019.CUB200_PROTOCOL if records.meta["dataset"].startswith("cub200") else zhai2019.PROTOCOL
