"""Where studies differ from Zhai and Wu 2019."""

import pandas as pd

from dmlrc.papers import zhai2019
from dmlrc.report import labels
from dmlrc.report.common import ByStudy
from dmlrc.report.deviations.compare import (
    ByHand,
    Reasons,
    compare,
    images_per_batch,
    reruns,
    start_of_weights,
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
        "4.1",
        "Our trunks have fewer than 2048 features, so 2048 dimensions take a linear layer here; the paper has none.",
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
    ("reruns", reruns, "one run, as far as the paper says", "4", "Differences need an interval."),
    (
        "other losses of Tables 1 to 3",
        "trained in the same pipeline, with the settings of their own papers",
        "numbers quoted from other papers",
        "4.2",
        "Quoted numbers mix trunks, image sizes and tuning. Binomial deviance and HTL are not built here. The proxies "
        "of Proxy NCA begin as the class weights of normalised softmax do.",
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
        "margin and scale of LMCL",
        "0.35 and 64, of CosFace's own experiments",
        "not given",
        "4.6",
        "The paper does not print its own, and they are not in its code.",
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
    ties("not given", "4", "Bits tie often, and a score must not depend on the order of the rows."),
)


def ledger(by_study: ByStudy) -> pd.DataFrame:
    """deviations-zhai: what differs from the paper's protocol on Cars196; see `compare`."""
    return compare(by_study, zhai2019.PROTOCOL, REASONS, BY_HAND)
