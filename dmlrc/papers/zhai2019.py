"""Zhai and Wu: Classification is a Strong Baseline for Deep Metric Learning. BMVC 2019, arXiv:1811.12649.

Expected (Tables 5 and 6, R@1, ResNet50, 2048 dimensions): SOP 79.5 and 78.2 as bits, In-Shop 89.4 and 88.8,
Cars196 89.3 and 88.7, CUB200 65.3 and 63.3; LMCL in the same pipeline 77.4, 89.8, 88.3, 61.2.
Command: `dmlrc study run cub200-zhai2019` (or cars196-zhai2019, sop-zhai2019, inshop-zhai2019).

The settings are fixed: no search, no validation. Section 4.1 and the authors' public code. The paper's numbers are of
one run as far as it says; ours are five.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from dmlrc.methods import Level, Method, fixed_method, levels
from dmlrc.protocol import Protocol

# Cars196. At 2048 dimensions the normalised features are the embedding: the public code has a linear layer only where
# the embedding is of another length than the features. By section 4.1 every network has one.
PROTOCOL = Protocol(
    name="zhai2019",
    paper="zhai2019",
    trunk="resnet50",
    weights="imagenet",
    frozen_trunk=False,
    embedding_dim=None,
    image_size=256,
    crop_size=224,
    augmentation="place",
    crop_scale=(1.0, 1.0),
    crop_ratio=(1.0, 1.0),
    optimizer="sgd",
    lr=0.01,
    weight_decay=1e-4,
    momentum=0.9,
    folds=0,
    iterations_per_epoch=None,
    eval_every=1,
    patience=30,
    max_epochs=30,
    square="squash",
    layer_norm=True,
    freeze_batch_norm=False,
    warmup_epochs=1,
    lr_steps=(15,),
    test_metrics=(
        *("precision_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "recall_at_10", "recall_at_20"),
        *("recall_at_30", "recall_at_100", "nmi", "r_precision", "map_at_r"),
    ),
    binary=True,
)
CUB200_PROTOCOL = replace(PROTOCOL, lr=0.001)  # "due to overfitting"
SOP_PROTOCOL = replace(PROTOCOL, split="official")
# NMI is not defined for separate queries, and not reported.
INSHOP_PROTOCOL = replace(SOP_PROTOCOL, test_metrics=tuple(name for name in PROTOCOL.test_metrics if name != "nmi"))


_method = partial(fixed_method, layout=(3, 25))
# Public code: uniform within ± 1/√D, which is of length √(1/3).
_START = {"weight_length": 0.577}
METHODS = (
    _method("norm_softmax", "NormSoftmax", "normalized_softmax", "zhai2019", 2019, temperature=0.05, **_START),
    # Margin and scale of CosFace's own experiments; this paper does not give its own.
    _method("lmcl", "LMCL*", "cosface", "wang2018cosface", 2018, margin=0.35, scale=64, **_START),
)
# SOP and In-Shop have about 5 images a class.
FEW_IMAGES_METHODS = tuple(replace(method, classes_per_batch=15, images_per_class=5) for method in METHODS)

# Tables 1 to 3, 5 and 6; 512 dimensions unless the name says otherwise.
_GOOGLENET = {"trunk": "googlenet", "crop_size": 227, "embedding_dim": 512}
TRUNKS = {
    "googlenet": _GOOGLENET,
    "bninception": {"trunk": "bn_inception", "embedding_dim": 512},
    "bninception1024": {"trunk": "bn_inception", "embedding_dim": None},  # it has 1024 features
}
# Section 4.2: GoogLeNet on SOP trains everything from the start, new weights at ten times the rate.
SOP_TRUNKS = {**TRUNKS, "googlenet": {**_GOOGLENET, "warmup_epochs": 0, "new_lr": 0.1}}
# Fig. 2: embedding sizes, as floats and as bits. On CUB200 the paper's are of GoogLeNet (4.3), ours of ResNet50.
EMBEDDING_DIMS = (16, 32, 64, 128, 256, 512, 1024, 2048)
# Table 4 (CUB200, 512 dimensions): images a class x classes of a batch of 75, and no balancing (None).
SAMPLES_PER_CLASS = (None, (1, 75), (3, 25), (12, 6), (25, 3), (37, 2), (75, 1))
# Fig. 4 (SOP): the share of the classes in each step's softmax.
CLASS_SHARES = (1.0, 0.1, 0.01, 0.001)


def zhai_sweeps(dataset: str, methods: tuple[Method, ...]) -> dict[str, Sequence[Level]]:
    """The tables and figures of the paper beside its main study, all with normalised softmax."""
    softmax = methods[:1]
    trunks = SOP_TRUNKS if dataset == "sop" else TRUNKS
    sweeps = {
        "trunks": [Level(name, softmax, changes) for name, changes in trunks.items()],
        "dims": [
            *levels("dim", EMBEDDING_DIMS[:-1], softmax, "embedding_dim"),
            Level(f"dim{EMBEDDING_DIMS[-1]}", softmax, {"embedding_dim": None}, EMBEDDING_DIMS[-1]),
        ],
    }
    if dataset == "cub200":
        sweeps["samples"] = [
            replace(level, changes={"embedding_dim": 512}) for level in map(sample_level, SAMPLES_PER_CLASS)
        ]
        sweeps["layer_norm"] = layer_norm(softmax)
    if dataset == "sop":
        sweeps["shares"] = levels("share", CLASS_SHARES, softmax, "class_share")
    return sweeps


def layer_norm(methods: tuple[Method, ...]) -> tuple[Level, ...]:
    """Fig. 3. Its accuracy over the epochs is that of validation classes here; the paper's is of its test classes."""
    watched = {"embedding_dim": 512, "split": "ratio_4_1_5", "folds": 1}
    return (Level("layer-norm", methods, watched), Level("no-layer-norm", methods, {**watched, "layer_norm": False}))


def sample_level(samples: tuple[int, int] | None) -> Level:
    """The level of a sweep over `SAMPLES_PER_CLASS`: normalised softmax with this layout."""
    images, classes = samples or (1, 75)
    method = replace(METHODS[0], classes_per_batch=classes, images_per_class=images)
    if samples is None:
        return Level("unbalanced", (replace(method, sampler="random"),))
    return Level(f"{images}x{classes}", (method,))
