"""Fehervari, Ravichandran, Appalaraju: Unbiased Evaluation of Deep Metric Learning Algorithms. 2019, arXiv:1911.12528.

Expected (Table 2, CUB200, R@1, Inception-BN): Triplet Semihard 50.9, NPairs 53.7, Struct Clust 56.4, Margin 51.3,
ProxyNCA 54.6, ProxySoftmax (2048 bits) 58.3; DREML (ResNet18) 59.0.
Commands: `dmlrc study run cub200-fehervari2019`; the same for cars196 and sop (no DREML), and
`cub200-fehervari2019/resnet50`.

The settings are fixed: no search, no validation. The paper chose its own by grid search: "These parameters are
published along the codebase" (section 4). There the defaults of the scripts can be read, and logs of five methods on
CUB200: weight decay 1e-5 (5e-4 for ProxyTriplet), and rates that fall three or four times in 20 to 60 epochs. Batch,
embedding size, images and optimiser here are those of section 4.1; rate, weight decay, epochs and the number of reruns
are ours, one for all losses, as is the state of BatchNorm (trained). Structured clustering has RMSprop "with an
exponentially decayed gamma factor": in the public code that is the smoothing of the squares, which stays 0.99 here. The
loss's gamma is 1 in both.
The public code was read in the copy github.com/Andrewymd/DMLPlayground.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from dmlrc.methods import LOSS_WEIGHTS_LR, Level, Method, batch_levels, fixed_method, levels
from dmlrc.protocol import Protocol

PROTOCOL = Protocol(
    name="fehervari2019",
    paper="fehervari2019",
    trunk="bn_inception",
    weights="imagenet",
    frozen_trunk=False,
    embedding_dim=64,
    image_size=256,
    crop_size=224,
    augmentation="place",
    crop_scale=(1.0, 1.0),
    crop_ratio=(1.0, 1.0),
    optimizer="adam",
    lr=1e-4,
    weight_decay=1e-4,
    momentum=0.0,
    folds=0,
    iterations_per_epoch=None,
    eval_every=1,
    patience=50,
    max_epochs=50,
    square="squash",
    sampler="random",
    freeze_batch_norm=False,
    test_metrics=(
        *("precision_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "recall_at_16"),
        *("nmi", "r_precision", "map_at_r"),
    ),
)
RESNET50 = replace(PROTOCOL, trunk="resnet50")

_method = partial(fixed_method, layout=(120, 1))  # random images
_balanced = partial(fixed_method, sampler="class_balanced")
# Public code: normal with SD 0.00125, which is of length 0.057 in ProxySoftmax's 2048 dimensions, or uniform within
# ± 0.05 (ProxyTriplet), which is of SD 0.029.
_PROXY_STD = {"proxy_std": 0.00125}
PROXY_RATE = {LOSS_WEIGHTS_LR: 1e-3}
"""ProxyTriplet and ProxyNCA only: in the public code the other proxies have the rate of the embedder."""
# Of Margin Loss, for Adam: in the public code SGD at 0.1 divides the gradient by the images of the batch, so that a
# boundary moves by about this much a step.
_BOUNDARY_RATE = {LOSS_WEIGHTS_LR: 1e-4}

# Table 2, in its order.
_SHARED = (
    _method("triplet_semihard", "Triplet Semihard", "triplet_semihard_pairs", "schroff2015", 2015, margin=1),
    _method("lifted_structure", "Lifted Struct", "lifted_structure", "song2016lifted", 2016, neg_margin=1),
    _balanced("n_pairs", "NPairs", "n_pairs", "sohn2016", 2016, layout=(60, 2), l2_weight=0.0005),
    _balanced(
        *("structured_clustering", "Struct Clust", "structured_clustering", "song2017", 2017),
        layout=(24, 5),
        optimizer="rmsprop",
        gamma=1,
        refinements=5,
    ),
    _balanced(
        *("margin", "Margin Loss", "margin_distance_pairs", "wu2017sampling", 2017),
        layout=(24, 5),
        changes={"loss_weight_decay": 0.0},
        margin=0.2,
        beta=1.2,
        **_BOUNDARY_RATE,
    ),
    _balanced(
        *("angular", "Angular Loss", "angular_fehervari", "wang2017angular", 2017),
        layout=(60, 2),
        alpha=45,
        l2_weight=0.0005,
    ),
    fixed_method(
        "prototypical", "Prototype Loss", "prototypical", "snell2017", 2017, layout=(12, 10), sampler="episodes"
    ),
    _method(
        "proxy_triplet",
        "ProxyTriplet",
        "proxy_triplet",
        "movshovitz2017",
        2017,
        margin=1,
        proxy_std=0.0289,
        **PROXY_RATE,
    ),
    _method(
        "proxy_nca",
        "ProxyNCA",
        "proxy_nca_original",
        "movshovitz2017",
        2017,
        softmax_scale=9,
        **_PROXY_STD,
        **PROXY_RATE,
    ),
    _balanced(
        *("ranked_list", "Ranked List Loss", "ranked_list", "wang2019rll", 2019),
        layout=(40, 3),
        margin=0.4,
        alpha=1.2,
        Tn=10,
        imbalance=0.5,
    ),
)
# The two rows that have settings of their own.
PROXY_SOFTMAX = _method(
    *("proxy_softmax", "ProxySoftmax", "normalized_softmax", "zhai2019", 2019),
    changes={"embedding_dim": 2048, "layer_norm": True, "binary": True},
    temperature=0.05,
    weight_length=0.0566,
)
DREML = _method(
    *("dreml", "DREML", "proxy_nca_original", "xuan2018dreml", 2018),
    changes={"embedding_dim": 12, "members": 12, "meta_classes": 12},
    softmax_scale=9,
    **_PROXY_STD,
)
METHODS = (*_SHARED, PROXY_SOFTMAX, DREML)
RESNET50_METHODS = (*_SHARED, PROXY_SOFTMAX, replace(DREML, changes={**DREML.changes, "trunk": "resnet18"}))

# Table 4 has no Triplet Semihard, Lifted Struct and Ranked List Loss. SOP has classes of 2 to 12 images: an episode has
# one support image and one query of each of 60 classes (ours), so that no class is left out.
_SOP_SHARED = tuple(
    replace(method, classes_per_batch=60, images_per_class=2) if method.name == "prototypical" else method
    for method in _SHARED
    if method.name not in ("triplet_semihard", "lifted_structure", "ranked_list")
)
SOP_METHODS = (*_SOP_SHARED, PROXY_SOFTMAX)

# Figs. 1 and 2: R@1 against the embedding size and against the batch size.
EMBEDDING_DIMS = (16, 32, 64, 128, 256, 512)
BATCH_SIZES = (2, 4, 8, 16, 32, 64, 128)


def fehervari_sweeps(methods: tuple[Method, ...]) -> dict[str, Sequence[Level]]:
    """The sweeps of Figs. 1 and 2."""
    return {
        "dims": levels("dim", EMBEDDING_DIMS, methods, "embedding_dim"),
        "batches": batch_levels(BATCH_SIZES, methods),
    }
