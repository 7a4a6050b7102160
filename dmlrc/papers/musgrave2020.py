"""Musgrave, Belongie, Lim: A Metric Learning Reality Check. ECCV 2020, arXiv:2003.08505.

Expected (Table 3, CUB200, concatenated 512-d): contrastive P@1 67.21 +- 0.49, MAP@R 26.19 +- 0.28;
all methods within 63.6..67.3 P@1. Command: `dmlrc study run cub200-musgrave2020`
(about 14 methods x 240 fine-tuning runs: some hundred GPU hours).
"""

from dataclasses import replace

from dmlrc.methods import LOSS_WEIGHTS_LR, Float, Int, Method
from dmlrc.protocol import Protocol

PROTOCOL = Protocol(
    name="musgrave2020",
    paper="musgrave2020",
    trunk="bn_inception",
    weights="imagenet",
    frozen_trunk=False,
    embedding_dim=128,
    image_size=256,
    crop_size=227,
    augmentation="crop",
    crop_scale=(0.16, 1.0),  # "between 40 and 256" pixels: 0.16 of the area, a side of 102..256 px
    crop_ratio=(3 / 4, 4 / 3),
    optimizer="rmsprop",
    lr=1e-6,
    weight_decay=1e-4,
    momentum=0.9,
    folds=4,
    iterations_per_epoch=100,
    eval_every=2,  # CUB200; the others below
    patience=9,
    max_epochs=1000,
)
VALIDATION = {"cars196": {"eval_every": 5, "patience": 14}, "sop": {"eval_every": 20, "patience": 39}}
"""What is other than on CUB200, by data set, in epochs: how often a run is validated, and how long it waits."""

_MARGIN = Float(-0.2, 2.0)
_UNIT = Float(0.0, 1.0)
_WIDE = Float(0.01, 100.0)
_RATE = Float(1e-6, 1.0, log=True)


def embedding(name: str, label: str, year: int, reference: str, **space) -> Method:
    """A method on pairs or triplets: 8 classes of 4 images, its hyperparameters searched in this space."""
    return Method(name, name, space, label=label, kind="embedding", year=year, reference=reference)


def classification(name: str, label: str, year: int, reference: str, **space) -> Method:
    """A method with weights of the classes: 32 images of different ones; the rate of the weights is searched too."""
    return Method(
        name,
        name,
        {**space, LOSS_WEIGHTS_LR: _RATE},
        label=label,
        classes_per_batch=32,
        images_per_class=1,
        kind="classification",
        year=year,
        reference=reference,
    )


def _margin(name: str, label: str) -> Method:
    return replace(
        embedding(name, label, 2017, "wu2017sampling", margin=_MARGIN, beta=_MARGIN, **{LOSS_WEIGHTS_LR: _RATE}),
        weight_decay=0.0,
    )


# Table 6 of the paper, with NTXent and Margin / class from its later version.
METHODS = (
    embedding("contrastive", "Contrastive", 2006, "hadsell2006", pos_margin=_MARGIN, neg_margin=_MARGIN),
    embedding("triplet", "Triplet", 2006, "weinberger2006", margin=_MARGIN),
    embedding("ntxent", "NTXent", 2016, "sohn2016", temperature=Float(1e-4, 100.0, log=True)),
    classification("proxy_nca", "ProxyNCA", 2017, "movshovitz2017", softmax_scale=_WIDE),
    _margin("margin", "Margin"),
    _margin("margin_per_class", "Margin / class"),
    classification(
        "normalized_softmax", "N. Softmax", 2017, "wang2017normface", temperature=Float(0.01, 100.0, log=True)
    ),
    classification("cosface", "CosFace", 2018, "wang2018cosface", margin=_UNIT, scale=Float(0.01, 200.0)),
    classification("arcface", "ArcFace", 2019, "deng2019arcface", margin=Float(0.0, 90.0), scale=Float(0.01, 200.0)),
    embedding("fast_ap", "FastAP", 2019, "cakir2019fastap", num_bins=Int(2, 32)),
    embedding(
        "snr",
        "SNR",
        2019,
        "yuan2019snr",
        pos_margin=Float(0.0, 2.0),
        neg_margin=Float(0.0, 2.0),
        regularizer_weight=_UNIT,
    ),
    embedding("multi_similarity", "MS", 2019, "wang2019ms", alpha=_WIDE, beta=_WIDE, base=_UNIT),
    embedding(
        "multi_similarity_miner", "MS+Miner", 2019, "wang2019ms", alpha=_WIDE, beta=_WIDE, base=_UNIT, epsilon=_UNIT
    ),
    classification(
        "soft_triple", "SoftTriple", 2019, "qian2019softtriple", la=_WIDE, gamma=_WIDE, reg_weight=_UNIT, margin=_UNIT
    ),
)

# On SOP the authors' trials reach beyond these bounds (their best scale of ArcFace is 220, beta of MS+Miner 157), and
# SoftTriple has no regulariser there. NTXent's temperature goes down to 1e-5 there (and on Cars196), ours to 1e-4.
_WIDENED = {
    "arcface": {"scale": Float(0.01, 300.0)},
    "multi_similarity_miner": {"beta": Float(0.01, 200.0)},
    "soft_triple": {"la": Float(0.01, 200.0)},
}


def _on_sop(method: Method) -> Method:
    fixed = {"reg_weight": 0.0} if method.name == "soft_triple" else {}
    space = {**method.space, **_WIDENED.get(method.name, {})}
    searched = {name: limits for name, limits in space.items() if name not in fixed}
    return replace(method, space=searched, settings={**method.settings, **fixed})


SOP_METHODS = tuple(map(_on_sop, METHODS))

# The same rules with a trunk that a CPU can train: nothing but the fields below differs.
# The rate is for short runs: the best of four on validation folds of the glyphs, results/glyphs-quick/rate-*. RMSprop's
# first step is ten times its rate.
CHARACTERS = replace(
    PROTOCOL,
    name="musgrave2020-characters",
    trunk="conv4",
    weights=None,
    image_size=28,
    crop_size=28,
    augmentation="affine",
    lr=1e-4,
    momentum=0.0,
)

# The same rules on fixed ImageNet features: only the linear embedder trains. The rate of each data set is the best of
# six on its validation classes, with a worse one on either side: results/<data set>-frozen/rates.
FROZEN = replace(
    PROTOCOL,
    name="musgrave2020-frozen",
    trunk="squeezenet1_0",
    weights="squeezenet1_0_deepcompression.pth",
    frozen_trunk=True,
    augmentation="none",
    lr=1e-5,
    per_class=True,
)
# What the first studies ran, at the edge of three rates and with many runs cut off.
FROZEN_RATE1E4 = replace(
    FROZEN,
    lr=1e-4,  # the best of 1e-4, 3e-4, 1e-3 on validation folds: results/first-runs/grocery-frozen/rate-*
    patience=5,
    max_epochs=20,
    per_class=False,
)
# The last fire module of SqueezeNet trains too, from cached maps; and the same network with that module as it was.
# Runs are of one length, with rates that fall to 0: those of each data set are chosen on its validation classes.
LAST_BLOCK = replace(
    FROZEN,
    name="musgrave2020-last-block",
    frozen_trunk=False,
    train_from="features.12",
    image_size=112,
    crop_size=112,
    augmentation="flip",
    lr=3e-5,
    lr_decay="linear",
    eval_every=5,
    patience=20,
    max_epochs=20,
)
EMBEDDER_ALONE = replace(LAST_BLOCK, name="musgrave2020-embedder-alone", frozen_trunk=True, train_from=None)
# Depths of training on one trunk and the same images, each image and its mirror image: what lies below the first layer
# that trains is computed once. 1,000 steps; rates are those of grids on validation classes.
MOBILENETV2 = replace(LAST_BLOCK, trunk="timm:mobilenetv2_100", weights="package", eval_every=2, max_epochs=10)
DEPTHS = {
    "embedder": {"frozen_trunk": True, "train_from": None},
    "last-block": {"train_from": "blocks.6"},
    "half": {"train_from": "blocks.4"},  # 53 % of the multiply-adds
    "whole": {"train_from": None},
}
"""What trains of MobileNetV2, from the least to the most."""
# Everything trains, from scratch, on characters.
SCRATCH = replace(
    CHARACTERS,
    name="musgrave2020-scratch",
    lr=3e-4,
    lr_decay="linear",
    eval_every=5,
    patience=20,
    max_epochs=20,
    per_class=True,
)
# A trunk of today, at the size that its ImageNet weights are for.
ON_LITE0 = {"trunk": "timm:tf_efficientnet_lite0", "weights": "package", "image_size": 224, "crop_size": 224}
# Few steps, and a rate for them: the best of five on validation classes, results/grocery-quick/rates.
QUICK_OVERRIDES = {"lr": 3e-5, "eval_every": 1}
